/* `dm.changes.grouped`: which changes share a statement. The same rule, up to the statements' texts, which Python makes.
 *
 * Tables without a key, and changes that nothing moves over, are declined: few batches have them, and Python takes those.
 */
#include "row_change.h"

/* One statement in the making, or those of one change alone. */
typedef struct {
    size_t verb;
    Plan *plan; /* NULL: alone */
    int safe;
    PyObject *changes, *rows, *images; /* lists; of one alone `changes` has its statements */
    size_t size;
} Group;

typedef struct {
    Places places;
    Plans plans;
    PyObject *module, *keys_of, *alone, *absent, *wild; /* borrowed from the caller */
    size_t limit;
    Group *groups;
    Py_ssize_t count, room;
    PyObject *last; /* key to group */
    Py_ssize_t floor; /* nothing may join a group at or before this one */
    int safe;         /* -1: of no change yet */
} Batch;

static Group *group_made(Batch *self)
{
    if (self->count == self->room) {
        Py_ssize_t room = self->room ? 2 * self->room : 16;
        Group *more = PyMem_Realloc(self->groups, (size_t)room * sizeof(Group));
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        self->groups = more;
        self->room = room;
    }
    Group *group = &self->groups[self->count++];
    memset(group, 0, sizeof *group);
    return group;
}

static int group_add(Group *group, const Change *change, PyObject *image, PyObject *text)
{
    if (PyList_Append(group->changes, change->object) < 0 || PyList_Append(group->rows, text) < 0)
        return -1;
    return PyList_Append(group->images, image);
}

static Outcome join(Batch *self, size_t verb, const Change *change, PyObject *image, PyObject *text)
{
    Plan *plan = change->plan;
    size_t size = (size_t)PyBytes_GET_SIZE(text);
    Py_ssize_t after = self->floor;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(change->keys); at++) {
        Py_ssize_t found = number_of(self->last, PyTuple_GET_ITEM(change->keys, at));
        if (found == -2)
            return FAILED;
        if (found > after)
            after = found;
    }
    Py_ssize_t open = plan->open[verb][change->safe];
    if (open > after) {
        Group *group = &self->groups[open];
        if (group->size + size < self->limit && PyList_GET_SIZE(group->rows) < plan->statement_rows) {
            if (group_add(group, change, image, text) < 0 || number_keys(self->last, change->keys, open) < 0)
                return FAILED;
            group->size += size + 1;
            return TAKEN;
        }
    }
    Group *group = group_made(self);
    if (group == NULL)
        return FAILED;
    *group = (Group){verb, plan, change->safe, PyList_New(0), PyList_New(0), PyList_New(0), size};
    if (group->changes == NULL || group->rows == NULL || group->images == NULL || group_add(group, change, image, text) < 0)
        return FAILED;
    open = plan->open[verb][change->safe] = self->count - 1;
    return number_keys(self->last, change->keys, open) < 0 ? FAILED : TAKEN;
}

static Outcome append_alone(Batch *self, const Change *change)
{
    PyObject *statements = PyObject_CallOneArg(self->alone, change->object);
    if (statements == NULL)
        return FAILED;
    Group *group = group_made(self);
    if (group == NULL) {
        Py_DECREF(statements);
        return FAILED;
    }
    group->changes = statements;
    return number_keys(self->last, change->keys, self->count - 1) < 0 ? FAILED : TAKEN;
}

static PyObject *written(PyObject *writer, PyObject *row)
{
    PyObject *text = PyObject_CallOneArg(writer, row);
    if (text != NULL && !PyBytes_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a row is written as bytes");
        Py_CLEAR(text);
    }
    return text;
}

/* The row as one of many; declines if it needs a statement of its own. */
static Outcome whole(const Batch *self, const Plan *plan, PyObject *row, PyObject **text)
{
    int zero = has_zero_enum(plan, row);
    if (zero)
        return zero < 0 ? FAILED : DECLINED;
    *text = written(plan->values, row);
    if (*text != NULL)
        return TAKEN;
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(row); at++)
            if (PyTuple_GET_ITEM(row, at) == self->absent) {
                PyErr_Clear();
                return DECLINED;
            }
    return FAILED;
}

/* Join by the row key; what its encoders refuse Python has to say. */
static Outcome join_by_key(Batch *self, size_t verb, const Change *change)
{
    PyObject *text = written(change->plan->key_values, change->before);
    if (text == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return FAILED;
        PyErr_Clear();
        return DECLINED;
    }
    Outcome done = join(self, verb, change, change->before, text);
    Py_DECREF(text);
    return done;
}

static Outcome add_delete(Batch *self, const Change *change)
{
    const Columns *verified = &change->plan->verified;
    for (Py_ssize_t at = 0; !change->safe && at < verified->count; at++)
        if (PyTuple_GET_ITEM(change->before, verified->at[at]) == Py_None)
            return append_alone(self, change);
    return join_by_key(self, VERB_DELETE, change);
}

/* Whether a column of a unique index has another value; -1: an exception is set. */
static int key_changed(const Batch *self, const Change *change)
{
    const Columns *keys = &change->plan->key_columns;
    int changed = 0;
    for (Py_ssize_t at = 0; !changed && at < keys->count; at++) {
        PyObject *after = PyTuple_GET_ITEM(change->after, keys->at[at]);
        if (after != self->absent)
            changed = differs(after, PyTuple_GET_ITEM(change->before, keys->at[at]));
    }
    return changed;
}

static Outcome add_update(Batch *self, const Change *change)
{
    int moved = key_changed(self, change);
    if (moved < 0)
        return FAILED;
    int by_insert = change->plan->updates_by_insert && !change->safe && !moved;
    if (by_insert) {
        by_insert = PyObject_RichCompareBool(change->before, change->after, Py_NE);
        if (by_insert < 0)
            return FAILED;
    }
    if (!by_insert && !change->safe)
        return append_alone(self, change);
    PyObject *text = NULL;
    Outcome done = whole(self, change->plan, change->after, &text);
    if (done != TAKEN)
        return done == DECLINED ? append_alone(self, change) : FAILED;
    if (moved && !by_insert)
        done = join_by_key(self, VERB_DELETE, change);
    if (done == TAKEN)
        done = join(self, by_insert ? VERB_UPDATE : VERB_REPLACE, change, change->after, text);
    Py_DECREF(text);
    return done;
}

static Outcome add_insert(Batch *self, const Change *change)
{
    PyObject *text = NULL;
    Outcome done = whole(self, change->plan, change->after, &text);
    if (done != TAKEN)
        return done == DECLINED ? append_alone(self, change) : FAILED;
    done = join(self, change->safe || change->plan->insert_replaces ? VERB_REPLACE : VERB_INSERT, change, change->after, text);
    Py_DECREF(text);
    return done;
}

static Outcome add(Batch *self, const Change *change)
{
    int alone = !change->plan->keyed || (change->plan->upsert && change->safe) ? 1 : stands(change, self->wild);
    if (alone)
        return alone < 0 ? FAILED : DECLINED;
    if (change->safe != self->safe) {
        self->safe = change->safe;
        self->floor = self->count - 1;
    }
    switch (change->kind) {
    case _:
        break;
    case INSERT:
        return add_insert(self, change);
    case UPDATE:
        return add_update(self, change);
    case DELETE:
        return add_delete(self, change);
    case NOTHING:
        return join_by_key(self, VERB_NOTHING, change);
    }
    return DECLINED;
}

static PyObject *made_of(const Batch *self, const Group *group)
{
    PyObject *fields[GROUP_SIZE] = {
        [GROUP_verb] = Py_XNewRef(member_of(self->module, VERB, group->verb)),
        [GROUP_plan] = Py_NewRef(group->plan->object),
        [GROUP_safe] = PyBool_FromLong(group->safe),
        [GROUP_changes] = Py_NewRef(group->changes),
        [GROUP_rows] = Py_NewRef(group->rows),
        [GROUP_images] = Py_NewRef(group->images),
        [GROUP_size] = PyLong_FromSize_t(group->size),
    };
    return object_made(self->module, GROUP, fields, GROUP_SIZE);
}

static PyObject *result_of(const Batch *self)
{
    PyObject *result = PyList_New(self->count);
    for (Py_ssize_t at = 0; result != NULL && at < self->count; at++) {
        const Group *group = &self->groups[at];
        PyObject *item = group->plan == NULL ? Py_NewRef(group->changes) : made_of(self, group);
        if (item == NULL)
            Py_CLEAR(result);
        else
            PyList_SET_ITEM(result, at, item);
    }
    return result;
}

/* grouped(changes, limit, keys_of, alone, absent, wild): the groups in order, or None: declined. */
PyObject *native_grouped(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 6 || !PyCallable_Check(args[2]) || !PyCallable_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "grouped(changes, limit, keys_of, alone, absent, wild)");
        return NULL;
    }
    Batch self = {.module = module, .keys_of = args[2], .alone = args[3], .absent = args[4], .wild = args[5],
                  .floor = -1, .safe = -1};
    self.limit = PyLong_AsSize_t(args[1]);
    if ((self.limit == (size_t)-1 && PyErr_Occurred()) || places_of(&self.places, class_of(module, ROW_CHANGE)) < 0)
        return NULL;
    Outcome done = FAILED;
    PyObject *result = NULL, *changes = PySequence_Tuple(args[0]); /* nobody else changes it meanwhile */
    self.last = PyDict_New();
    if (changes != NULL && self.last != NULL)
        done = TAKEN;
    for (Py_ssize_t at = 0; done == TAKEN && at < PyTuple_GET_SIZE(changes); at++) {
        Change change;
        done = change_read(&change, PyTuple_GET_ITEM(changes, at), &self.places, &self.plans, self.keys_of);
        if (done == TAKEN)
            done = add(&self, &change);
        change_free(&change);
    }
    if (done != FAILED)
        result = done == TAKEN ? result_of(&self) : declined(module, DECLINED_grouped);
    for (Py_ssize_t at = 0; at < self.count; at++) {
        Py_XDECREF(self.groups[at].changes);
        Py_XDECREF(self.groups[at].rows);
        Py_XDECREF(self.groups[at].images);
    }
    PyMem_Free(self.groups);
    plans_free(&self.plans);
    Py_XDECREF(changes);
    Py_XDECREF(self.last);
    return result;
}
