/* `dm.changes.compacted`: several changes of one row become one. The same rule, in one pass. */
#include "row_change.h"

typedef struct {
    Places places;
    Plans plans;
    PyObject *module, *keys_of, *absent, *wild; /* borrowed from the caller */
    size_t limit;
    PyObject *left; /* list of changes */
    PyObject *last; /* key to index in `left` */
    Py_ssize_t floor;
    int safe; /* -1: of no change yet */
    int merged;
} Compactor;

/* Whether an image has the keys of the first, is whole, and is nothing special to write. */
static int alike(const Compactor *self, const Plan *plan, PyObject *first, PyObject *image, PyObject *raw)
{
    for (Py_ssize_t at = 0; at < plan->key_columns.count; at++) {
        Py_ssize_t column = plan->key_columns.at[at];
        int other = differs(PyTuple_GET_ITEM(image, column), PyTuple_GET_ITEM(first, column));
        if (other)
            return other < 0 ? -1 : 0;
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(image); at++)
        if (PyTuple_GET_ITEM(image, at) == self->absent)
            return 0;
    int zero = has_zero_enum(plan, image);
    if (zero)
        return zero < 0 ? -1 : 0;
    size_t size = raw == NULL || !plan->long_columns.count ? 0 : (size_t)PyBytes_GET_SIZE(raw);
    for (Py_ssize_t at = 0; raw == NULL && at < plan->long_columns.count; at++) {
        PyObject *value = PyTuple_GET_ITEM(image, plan->long_columns.at[at]);
        if (PyBytes_Check(value))
            size += (size_t)PyBytes_GET_SIZE(value);
        else if (PyUnicode_Check(value))
            size += (size_t)PyUnicode_GET_LENGTH(value);
    }
    return size <= self->limit / 3; /* a byte takes two digits as hexadecimal, or an escape */
}

static int all_alike(const Compactor *self, const Change *one, const Change *two)
{
    PyObject *images[] = {one->before, one->after, two->before, two->after}, *first = NULL;
    PyObject *raws[] = {one->raw_before, one->raw_after, two->raw_before, two->raw_after};
    int same = 1;
    for (size_t at = 0; same == 1 && at < 4; at++) {
        if (images[at] == NULL)
            continue;
        if (first == NULL)
            first = images[at];
        same = alike(self, one->plan, first, images[at], raws[at]);
    }
    return same;
}

static void set(PyObject *object, Py_ssize_t place, PyObject *value)
{
    *(PyObject **)((char *)object + place) = Py_NewRef(value == NULL ? Py_None : value);
}

/* A change of the kind from the image before the one to the image after the other; NULL: it has no such image. */
static PyObject *change_made(const Compactor *self, const Change *of, ChangeKind kind, const Change *before, const Change *after)
{
    const Places *places = &self->places;
    PyObject *member = member_of(self->module, CHANGE_KIND, kind);
    PyObject *made = member == NULL ? NULL : places->type->tp_alloc(places->type, 0);
    if (made == NULL)
        return NULL;
    _Static_assert(ROW_CHANGE_SIZE == 9, "a field of a change is not filled");
    set(made, places->plan, of->plan->object);
    set(made, places->kind, member);
    set(made, places->before, before == NULL ? NULL : before->before);
    set(made, places->after, after == NULL ? NULL : after->after);
    set(made, places->raw_before, before == NULL ? NULL : before->raw_before);
    set(made, places->raw_after, after == NULL ? NULL : after->raw_after);
    set(made, places->safe, of->safe ? Py_True : Py_False);
    set(made, places->unchecked, Py_False);
    set(made, places->keys, of->keys);
    return made;
}

/* A row that must not be there. */
static PyObject *nothing_made(const Compactor *self, const Change *inserted)
{
    Change row = {.before = inserted->after};
    return change_made(self, inserted, NOTHING, &row, NULL);
}

/* The change that says what the two did, NULL without an exception if none does. */
static PyObject *merged(const Compactor *self, const Change *one, const Change *two)
{
    const Plan *plan = one->plan;
    int same = all_alike(self, one, two);
    if (same != 1)
        return NULL;
    if (one->safe) {
        if (two->after != NULL)
            return change_made(self, one, INSERT, NULL, two);
        return plan->forgets_rows ? change_made(self, one, DELETE, two, NULL) : NULL;
    }
    if (one->kind == INSERT && two->kind == UPDATE)
        return change_made(self, one, INSERT, NULL, two);
    if ((one->kind == UPDATE && two->kind == UPDATE) || (one->kind == DELETE && two->kind == INSERT))
        return change_made(self, one, UPDATE, one, two);
    if (one->kind == UPDATE && two->kind == DELETE)
        return change_made(self, one, DELETE, one, NULL);
    if (one->kind == INSERT && two->kind == DELETE && plan->forgets_rows && !plan->insert_replaces && one->raw_after == NULL)
        return nothing_made(self, one);
    return NULL; /* what the source can't have done, or what a row beside this one has a part in */
}

/* Where the change stands that this one may be merged with; -1: nowhere, -2: an exception is set. `numbered`: its only
 * key had no number, and has the one of the next place now. */
static Py_ssize_t partner(const Compactor *self, const Change *change, int *numbered)
{
    if (!change->plan->compacts || PyTuple_GET_SIZE(change->keys) == 0)
        return -1;
    if (PyTuple_GET_SIZE(change->keys) == 1) {
        Py_ssize_t known = number_first(self->last, PyTuple_GET_ITEM(change->keys, 0), PyList_GET_SIZE(self->left));
        *numbered = known == -1;
        return known == -2 ? -2 : known < self->floor ? -1 : known;
    }
    Py_ssize_t found = number_of(self->last, PyTuple_GET_ITEM(change->keys, 0));
    if (found < self->floor)
        return found == -2 ? -2 : -1;
    for (Py_ssize_t at = 1; at < PyTuple_GET_SIZE(change->keys); at++) {
        Py_ssize_t other = number_of(self->last, PyTuple_GET_ITEM(change->keys, at));
        if (other != found)
            return other == -2 ? -2 : -1;
    }
    return found;
}

static Outcome merge_into(Compactor *self, Py_ssize_t place, const Change *change, int *taken)
{
    Change first;
    PyObject *made = NULL;
    Outcome done = change_read(&first, PyList_GET_ITEM(self->left, place), &self->places, &self->plans, self->keys_of);
    if (done == TAKEN && first.plan == change->plan) {
        made = merged(self, &first, change);
        if (made == NULL && PyErr_Occurred())
            done = FAILED;
    }
    change_free(&first);
    if (made != NULL) {
        PyList_SetItem(self->left, place, made);
        *taken = self->merged = 1;
    }
    return done;
}

static Outcome add(Compactor *self, const Change *change)
{
    if (change->safe != self->safe) {
        self->safe = change->safe;
        self->floor = PyList_GET_SIZE(self->left);
    }
    int alone = stands(change, self->wild);
    if (alone < 0)
        return FAILED;
    if (!alone) {
        int numbered = 0;
        Py_ssize_t place = partner(self, change, &numbered);
        if (place == -2)
            return FAILED;
        int taken = 0;
        Outcome done = place < 0 ? TAKEN : merge_into(self, place, change, &taken);
        if (done != TAKEN || taken)
            return done;
        if (!numbered && number_keys(self->last, change->keys, PyList_GET_SIZE(self->left)) < 0)
            return FAILED;
    }
    if (PyList_Append(self->left, change->object) < 0)
        return FAILED;
    if (alone)
        self->floor = PyList_GET_SIZE(self->left);
    return TAKEN;
}

/* compacted(changes, limit, keys_of, absent, wild): a list; the changes if all are left; None: declined. */
PyObject *native_compacted(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyCallable_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "compacted(changes, limit, keys_of, absent, wild)");
        return NULL;
    }
    Compactor self = {.module = module, .keys_of = args[2], .absent = args[3], .wild = args[4], .safe = -1};
    self.limit = PyLong_AsSize_t(args[1]);
    if ((self.limit == (size_t)-1 && PyErr_Occurred()) || places_of(&self.places, class_of(module, ROW_CHANGE)) < 0)
        return NULL;
    Outcome done = FAILED;
    PyObject *changes = PySequence_Tuple(args[0]); /* nobody else changes it meanwhile */
    self.left = PyList_New(0);
    self.last = PyDict_New();
    if (changes != NULL && self.left != NULL && self.last != NULL)
        done = TAKEN;
    for (Py_ssize_t at = 0; done == TAKEN && at < PyTuple_GET_SIZE(changes); at++) {
        Change change;
        done = change_read(&change, PyTuple_GET_ITEM(changes, at), &self.places, &self.plans, self.keys_of);
        if (done == TAKEN)
            done = add(&self, &change);
        change_free(&change);
    }
    plans_free(&self.plans);
    Py_XDECREF(changes);
    Py_XDECREF(self.last);
    if (done == TAKEN && self.merged)
        return self.left;
    Py_XDECREF(self.left);
    if (done == FAILED)
        return NULL;
    return done == TAKEN ? Py_NewRef(args[0]) : declined(module, DECLINED_compacted);
}
