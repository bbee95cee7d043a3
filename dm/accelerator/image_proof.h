/* How a column's bytes are read, and which bytes a server could have written there (`dm.mysql.binlog.image_proof`). */
#ifndef DM_PROOFS_H
#define DM_PROOFS_H

#include "native.h"

enum { ROW_STEP_KIND_FIELDS(AS_VALUE) STEP_KINDS };

typedef struct {
    uint8_t kind;
    uint8_t width;  /* bytes of the value, or of the length in front of it; of a DECIMAL its digits before the point */
    uint8_t digits; /* of a fraction */
    uint32_t size;  /* bytes of a value of fixed size; what a BYTES value is padded to */
    PyObject *call;
} Step;

typedef struct {
    uint64_t most;       /* the largest number, or the most bytes */
    uint32_t characters; /* the most of them; 0: any number */
    uint8_t text;        /* 0: bytes; else one of the sets of `TextBytes` */
    uint8_t nullable;
    uint8_t unread; /* no value is made of it */
    uint8_t negative; /* it may be below zero, if its bytes tell */
} Proof;

/* The value of a column of fixed size, and what a function of Python makes of bytes; NULL, perhaps with an exception. */
PyObject *fixed_value(const Step *step, const uint8_t *bytes);
PyObject *called(PyObject *function, const uint8_t *bytes, size_t size);

int read_proof(PyObject *given, Proof *proof);

/* Whether a server could have written these bytes, `step->size` of them, for a column of fixed size. */
int fixed_proven(const Step *step, const Proof *proof, const uint8_t *bytes);
/* The same of those after a length, but for JSON documents. */
int sized_proven(const Proof *proof, const uint8_t *bytes, size_t size);

#endif
