/* What the loops over a batch read: row changes and their plan, as `dm.changes.row_change` and `dm.changes.plan` have them. */
#ifndef DM_ROW_CHANGE_H
#define DM_ROW_CHANGE_H

#include "native.h"

typedef enum { CHANGE_KIND_FIELDS(AS_VALUE) } ChangeKind;

/* Where the fields of a RowChange stand in it. */
#define AS_OFFSET(structure, field) Py_ssize_t field;
typedef struct {
    PyTypeObject *type;
    ROW_CHANGE_FIELDS(AS_OFFSET)
} Places;

/* Indexes in a row. */
typedef struct {
    Py_ssize_t count;
    Py_ssize_t *at;
} Columns;

/* What the loops ask of a TablePlan, read once per batch. */
typedef struct {
    PyObject *object;
    int groupable, keyed, upsert, insert_replaces, updates_by_insert, compacts, forgets_rows;
    Py_ssize_t statement_rows;
    Columns key_columns, zero_enums, long_columns, verified;
    PyObject *values, *key_values;
    Py_ssize_t open[5][2]; /* for grouping: the last statement of a verb, outside and inside safe mode */
} Plan;

typedef struct {
    Plan **plans;
    Py_ssize_t count, room, last;
} Plans;

/* One change while it is looked at; what stands in it is held. */
typedef struct {
    PyObject *object, *before, *after, *keys; /* images: a tuple, or NULL for None; keys: a tuple */
    PyObject *raw_before, *raw_after; /* bytes, or NULL for None */
    Plan *plan;
    ChangeKind kind;
    int safe;
} Change;

int place_of(PyTypeObject *type, const char *name, Py_ssize_t *place); /* of a slot; -1: an exception is set */
int places_of(Places *places, PyTypeObject *type); /* NULL: an exception is set */
void plans_free(Plans *plans);

/* Takes a change to pieces; what is not built as usual is declined. `change_free` in every case. */
Outcome change_read(Change *change, PyObject *object, const Places *places, Plans *plans, PyObject *keys_of);
void change_free(Change *change);

/* Whether the key that collides with all is among these, which are a tuple. -1: an exception is set. */
int has_wild(PyObject *keys, PyObject *wild);

/* Whether a change is to stand where it came: nothing moves over it. -1: an exception is set. */
int stands(const Change *change, PyObject *wild);

/* Answers below: 1, 0, or -1 with an exception set. Every column is inside of the row. */
int differs(PyObject *one, PyObject *other);
int has_zero_enum(const Plan *plan, PyObject *row);
int reaches(const Plan *plan, PyObject *row);

/* The number that a dictionary has for a key, -1 if none, -2: an exception is set. */
Py_ssize_t number_of(PyObject *numbers, PyObject *key);
int number_keys(PyObject *numbers, PyObject *keys, Py_ssize_t number);
/* The same in one search, of a key that gets this number if it has none: then -1 as well. */
Py_ssize_t number_first(PyObject *numbers, PyObject *key, Py_ssize_t number);

#endif
