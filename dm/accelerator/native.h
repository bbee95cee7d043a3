/* What the compiled parts share: bounded reading, and the values that rows are made of.
 *
 * Whatever the bytes are, nothing is read outside of them: every read is preceded by a comparison with what is left.
 * A function that meets something it does not take for certain declines. Then Python reads the same bytes again and
 * says what they are, or what is wrong with them; so there is one place that judges, and two that agree.
 */
#ifndef DM_NATIVE_H
#define DM_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shared.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire is little-endian and so is this code; dm runs without it"
#endif

typedef enum { TAKEN = 0, DECLINED = 1, FAILED = 2 } Outcome; /* FAILED: a Python exception is set */

/* Unsigned numbers of `size` bytes, 8 at most; the caller has made sure that they are there. */
static inline uint64_t little(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    memcpy(&number, bytes, size);
    return number;
}

static inline uint64_t big(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t at = 0; at < size; at++)
        number = number << 8 | bytes[at];
    return number;
}

/* Text under construction: UTF-8, in memory that is used again for the next value. */
typedef struct {
    char *bytes;
    size_t length;
    size_t room;
} Text;

int text_grow(Text *text, size_t more);

static inline int text_reserve(Text *text, size_t more)
{
    return text->room - text->length >= more ? 1 : text_grow(text, more);
}

/* Whether a type is made from tuple and has nothing of its own, as named tuples are. */
static inline int is_named(PyObject *type)
{
    return PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type)
        && ((PyTypeObject *)type)->tp_basicsize == PyTuple_Type.tp_basicsize;
}

uint32_t crc32_of(const uint8_t *bytes, size_t length);
void crc32_prepare(void);
void base64_prepare(void);

/* A stored JSON document as the text that `dm.mysql.binlog.json_decoder` makes of it; declines where the text does not say all. */
Outcome json_text(const uint8_t *doc, size_t size, Text *text);

/* What it says of a document, without its text; and whether that would be UTF-8. */
Outcome json_looked_at(const uint8_t *doc, size_t size, int *utf8);

/* Whether it is UTF-8 of characters of up to `longest` bytes, `most` of them at most. */
int utf8_proven(const uint8_t *bytes, size_t size, int longest, uint64_t most);

/* Decimal digits of a number; gives the end. */
char *digits_of(char *to, uint64_t number);
char *digits_padded(char *to, uint64_t number, int width);

/* A row image, cut as `dm.mysql.binlog.image_cut` has packed it, both bytes; declines what is no such image. */
Outcome image_cut(PyObject *cut, PyObject *image, PyObject **made);

/* What the ordinary workload is expected not to meet: how often each loop has left something to Python. */
#define LOOPS(L) L(rows) L(rows_event) L(json) L(literals) L(changes) L(compacted) L(grouped) L(transactions)
#define AS_LOOP(name) DECLINED_##name,
typedef enum { LOOPS(AS_LOOP) LOOP_COUNT } Loop;

/* The module's types, and those that Python has handed over for the structures. */
typedef struct {
    PyTypeObject *layout, *text_rows, *literals, *change_maker, *events;
    PyTypeObject *classes[STRUCTURE_COUNT];
    PyObject *fields[STRUCTURE_COUNT], *members[STRUCTURE_COUNT];
    unsigned long long declines[LOOP_COUNT];
} Types;

static inline Types *types_of(PyObject *module)
{
    return PyModule_GetState(module);
}

/* Counts that a loop declines, and gives None. */
static inline PyObject *declined(PyObject *module, Loop loop)
{
    ((Types *)PyModule_GetState(module))->declines[loop]++;
    Py_RETURN_NONE;
}

/* The class of a structure, and a member of an enumeration, borrowed; NULL with an exception where there is none yet. */
PyTypeObject *class_of(PyObject *module, Structure structure);
PyObject *member_of(PyObject *module, Structure structure, size_t number);

/* A named tuple, and an object that is called by the names of its fields. The references are taken, in every case; one
 * of them may be NULL, with an exception, as the class may. */
PyObject *named_made(PyTypeObject *type, PyObject *const *fields, Py_ssize_t size);
PyObject *object_made(PyObject *module, Structure structure, PyObject *const *fields, Py_ssize_t size);

/* Whether it is a structure of the class that was handed over for it. */
static inline int is_structure(PyObject *module, PyObject *object, Structure structure)
{
    return Py_IS_TYPE(object, types_of(module)->classes[structure]);
}

PyObject *structure_fields(void);
PyObject *native_adopt(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* Of Events: how many there are, and the bytes of one; NULL for none. */
Py_ssize_t events_length(PyObject *object);
const uint8_t *event_in(PyObject *object, Py_ssize_t at, size_t *size);

PyObject *native_compacted(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_tally(PyObject *module, PyObject *changes);
PyObject *native_grouped(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_cut_image(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_cut(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_decode(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_proven_rows(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_decode_rows(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_rows_event(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_rows_of(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_transactions_of(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_table_map_event(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_binlog_statement(PyObject *self, PyObject *pieces);
PyObject *native_event_groups(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_frames(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_json_numbers(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *native_local_data(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyTypeObject *layout_type(PyObject *module);
PyTypeObject *text_rows_type(PyObject *module);
PyTypeObject *change_maker_type(PyObject *module);
PyTypeObject *events_type(PyObject *module);
PyTypeObject *literals_type(PyObject *module);

#endif
