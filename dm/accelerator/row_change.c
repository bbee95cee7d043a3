/* `dm.changes.row_change` and `dm.changes.plan`: from Python's objects to what the loops over them need.
 *
 * The fields of a change are read where its slots are, without a lookup for each. Whatever calls Python (a key's
 * comparison, an encoder) may have anything happen meanwhile, so what is in use is held.
 */
#include "row_change.h"

#include <structmember.h>

int place_of(PyTypeObject *type, const char *name, Py_ssize_t *place)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    if (found == NULL)
        return -1;
    int usual = 0;
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) && PyDescr_TYPE(found) == type) {
        const PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        usual = member->type == T_OBJECT_EX;
        *place = member->offset;
    }
    Py_DECREF(found);
    if (!usual)
        PyErr_Format(PyExc_TypeError, "%s is no slot", name);
    return usual ? 0 : -1;
}

int places_of(Places *places, PyTypeObject *type)
{
    if (type == NULL)
        return -1;
    places->type = type;
#define AS_SLOT(structure, field) {#field, &places->field},
    const struct {
        const char *name;
        Py_ssize_t *place;
    } fields[] = {ROW_CHANGE_FIELDS(AS_SLOT)};
    for (size_t at = 0; at < sizeof fields / sizeof fields[0]; at++)
        if (place_of(places->type, fields[at].name, fields[at].place) < 0)
            return -1;
    return 0;
}

static int flag_of(PyObject *plan, const char *name, int *flag)
{
    PyObject *found = PyObject_GetAttrString(plan, name);
    if (found == NULL)
        return -1;
    *flag = PyObject_IsTrue(found);
    Py_DECREF(found);
    return *flag;
}

static int columns_of(PyObject *plan, const char *name, const char *inside, Columns *columns)
{
    PyObject *found = PyObject_GetAttrString(plan, name);
    PyObject *list = found == NULL ? NULL : PySequence_List(found);
    Py_XDECREF(found);
    if (list == NULL)
        return -1;
    Py_ssize_t count = PyList_GET_SIZE(list);
    int done = -1;
    columns->at = PyMem_Calloc((size_t)count + 1, sizeof(Py_ssize_t));
    if (columns->at == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    for (columns->count = 0; columns->count < count; columns->count++) {
        PyObject *item = PyList_GET_ITEM(list, columns->count);
        PyObject *number = inside == NULL ? Py_NewRef(item) : PyObject_GetAttrString(item, inside);
        if (number == NULL)
            goto end;
        Py_ssize_t at = PyLong_AsSsize_t(number);
        Py_DECREF(number);
        if (at < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a column of a plan");
            goto end;
        }
        columns->at[columns->count] = at;
    }
    done = 0;
end:
    Py_DECREF(list);
    return done;
}

static void plan_free(Plan *plan)
{
    PyMem_Free(plan->key_columns.at);
    PyMem_Free(plan->zero_enums.at);
    PyMem_Free(plan->long_columns.at);
    PyMem_Free(plan->verified.at);
    Py_XDECREF(plan->values);
    Py_XDECREF(plan->key_values);
    Py_XDECREF(plan->object);
    PyMem_Free(plan);
}

void plans_free(Plans *plans)
{
    for (Py_ssize_t at = 0; at < plans->count; at++)
        plan_free(plans->plans[at]);
    PyMem_Free(plans->plans);
}

static int plan_read(Plan *plan, PyObject *object)
{
    plan->object = Py_NewRef(object);
    for (size_t verb = 0; verb < sizeof plan->open / sizeof plan->open[0]; verb++)
        plan->open[verb][0] = plan->open[verb][1] = -1;
    if (flag_of(object, "groupable", &plan->groupable) < 0 || flag_of(object, "keyed", &plan->keyed) < 0
        || flag_of(object, "upsert", &plan->upsert) < 0 || flag_of(object, "insert_replaces", &plan->insert_replaces) < 0
        || flag_of(object, "updates_by_insert", &plan->updates_by_insert) < 0
        || flag_of(object, "compacts", &plan->compacts) < 0 || flag_of(object, "forgets_rows", &plan->forgets_rows) < 0)
        return -1;
    PyObject *rows = PyObject_GetAttrString(object, "statement_rows");
    if (rows == NULL)
        return -1;
    plan->statement_rows = PyLong_AsSsize_t(rows);
    Py_DECREF(rows);
    if (plan->statement_rows < 0 && PyErr_Occurred())
        return -1;
    if (columns_of(object, "key_columns", NULL, &plan->key_columns) < 0
        || columns_of(object, "zero_enums", NULL, &plan->zero_enums) < 0
        || columns_of(object, "long_columns", NULL, &plan->long_columns) < 0
        || columns_of(object, "verified", "at", &plan->verified) < 0)
        return -1;
    plan->values = PyObject_GetAttrString(object, "values");
    plan->key_values = PyObject_GetAttrString(object, "key_values");
    return plan->values == NULL || plan->key_values == NULL ? -1 : 0;
}

static Plan *plan_of(Plans *plans, PyObject *object)
{
    if (plans->count && plans->plans[plans->last]->object == object)
        return plans->plans[plans->last];
    for (Py_ssize_t at = 0; at < plans->count; at++)
        if (plans->plans[at]->object == object) {
            plans->last = at;
            return plans->plans[at];
        }
    if (plans->count == plans->room) {
        Py_ssize_t room = plans->room ? 2 * plans->room : 8;
        Plan **more = PyMem_Realloc(plans->plans, (size_t)room * sizeof(Plan *));
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        plans->plans = more;
        plans->room = room;
    }
    Plan *plan = PyMem_Calloc(1, sizeof(Plan));
    if (plan == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (plan_read(plan, object) < 0) {
        plan_free(plan);
        return NULL;
    }
    plans->last = plans->count++;
    plans->plans[plans->last] = plan;
    return plan;
}

static PyObject *field(PyObject *object, Py_ssize_t place)
{
    return *(PyObject **)((char *)object + place);
}

/* An image: held, or NULL for None; declines what is no row. */
static Outcome image_of(PyObject *object, Py_ssize_t place, PyObject **image)
{
    PyObject *found = field(object, place);
    if (found == NULL || (found != Py_None && !PyTuple_CheckExact(found)))
        return DECLINED;
    *image = found == Py_None ? NULL : Py_NewRef(found);
    return TAKEN;
}

/* The bytes of an image: as above. */
static Outcome raw_of(PyObject *object, Py_ssize_t place, PyObject **raw)
{
    PyObject *found = field(object, place);
    if (found == NULL || (found != Py_None && !PyBytes_CheckExact(found)))
        return DECLINED;
    *raw = found == Py_None ? NULL : Py_NewRef(found);
    return TAKEN;
}

Outcome change_read(Change *change, PyObject *object, const Places *places, Plans *plans, PyObject *keys_of)
{
    memset(change, 0, sizeof *change);
    if (!Py_IS_TYPE(object, places->type))
        return DECLINED;
    change->object = Py_NewRef(object);
    PyObject *plan = field(object, places->plan), *kind = field(object, places->kind), *safe = field(object, places->safe);
    PyObject *keys = field(object, places->keys);
    if (plan == NULL || kind == NULL || keys == NULL || (safe != Py_True && safe != Py_False) || !PyLong_Check(kind))
        return DECLINED;
    change->safe = safe == Py_True;
    if (image_of(object, places->before, &change->before) != TAKEN || image_of(object, places->after, &change->after) != TAKEN)
        return DECLINED;
    if (raw_of(object, places->raw_before, &change->raw_before) != TAKEN || raw_of(object, places->raw_after, &change->raw_after) != TAKEN)
        return DECLINED;
    long number = PyLong_AsLong(kind);
    if (number == -1 && PyErr_Occurred())
        return FAILED;
    int before = number == UPDATE || number == DELETE || number == NOTHING, after = number == INSERT || number == UPDATE;
    if ((change->before != NULL) != before || (change->after != NULL) != after || (!before && !after))
        return DECLINED;
    change->kind = (ChangeKind)number;
    Py_INCREF(plan);
    change->plan = plan_of(plans, plan);
    Py_DECREF(plan);
    if (change->plan == NULL)
        return FAILED;
    if ((before && !reaches(change->plan, change->before)) || (after && !reaches(change->plan, change->after)))
        return DECLINED;
    change->keys = keys == Py_None ? PyObject_CallOneArg(keys_of, object) : Py_NewRef(keys);
    if (change->keys == NULL)
        return FAILED;
    return PyTuple_CheckExact(change->keys) ? TAKEN : DECLINED;
}

void change_free(Change *change)
{
    Py_CLEAR(change->object);
    Py_CLEAR(change->before);
    Py_CLEAR(change->after);
    Py_CLEAR(change->keys);
    Py_CLEAR(change->raw_before);
    Py_CLEAR(change->raw_after);
}

int has_wild(PyObject *keys, PyObject *wild)
{
    int found = 0;
    for (Py_ssize_t at = 0; !found && at < PyTuple_GET_SIZE(keys); at++) {
        PyObject *key = PyTuple_GET_ITEM(keys, at);
        /* Nearly every key has a value more: no text is compared. */
        if (PyTuple_CheckExact(key) && PyTuple_CheckExact(wild) && PyTuple_GET_SIZE(key) != PyTuple_GET_SIZE(wild))
            continue;
        found = PyObject_RichCompareBool(key, wild, Py_EQ);
    }
    return found;
}

int stands(const Change *change, PyObject *wild)
{
    const Plan *plan = change->plan;
    if (!plan->groupable)
        return 1;
    if (plan->insert_replaces && plan->upsert && change->before == NULL && !change->safe)
        return 1; /* it removes others */
    return has_wild(change->keys, wild);
}

int differs(PyObject *one, PyObject *other)
{
    if (one == other && !PyFloat_CheckExact(one))
        return 0;
    PyObject *answer = PyObject_RichCompare(one, other, Py_NE);
    if (answer == NULL)
        return -1;
    int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

int has_zero_enum(const Plan *plan, PyObject *row)
{
    PyObject *zero = NULL;
    int found = 0;
    for (Py_ssize_t at = 0; !found && at < plan->zero_enums.count; at++) {
        PyObject *value = PyTuple_GET_ITEM(row, plan->zero_enums.at[at]);
        if (zero == NULL && (zero = PyLong_FromLong(0)) == NULL)
            return -1;
        found = PyObject_RichCompareBool(value, zero, Py_EQ);
    }
    Py_XDECREF(zero);
    return found;
}

static int inside(const Columns *columns, PyObject *row)
{
    for (Py_ssize_t at = 0; at < columns->count; at++)
        if (columns->at[at] >= PyTuple_GET_SIZE(row))
            return 0;
    return 1;
}

int reaches(const Plan *plan, PyObject *row)
{
    return inside(&plan->key_columns, row) && inside(&plan->zero_enums, row) && inside(&plan->long_columns, row)
        && inside(&plan->verified, row);
}

Py_ssize_t number_of(PyObject *numbers, PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(numbers, key);
    if (found == NULL)
        return PyErr_Occurred() ? -2 : -1;
    Py_ssize_t number = PyLong_AsSsize_t(found);
    return number < 0 ? -2 : number;
}

Py_ssize_t number_first(PyObject *numbers, PyObject *key, Py_ssize_t number)
{
    Py_ssize_t before = PyDict_GET_SIZE(numbers);
    PyObject *made = PyLong_FromSsize_t(number), *found = made == NULL ? NULL : PyDict_SetDefault(numbers, key, made);
    Py_ssize_t known = found == NULL ? -2 : PyDict_GET_SIZE(numbers) > before ? -1 : PyLong_AsSsize_t(found);
    Py_XDECREF(made);
    return known;
}

int number_keys(PyObject *numbers, PyObject *keys, Py_ssize_t number)
{
    if (PyTuple_GET_SIZE(keys) == 0)
        return 0;
    PyObject *made = PyLong_FromSsize_t(number);
    if (made == NULL)
        return -1;
    int done = 0;
    for (Py_ssize_t at = 0; done == 0 && at < PyTuple_GET_SIZE(keys); at++)
        done = PyDict_SetItem(numbers, PyTuple_GET_ITEM(keys, at), made);
    Py_DECREF(made);
    return done;
}

#define TALLIED 16 /* plans; a batch of more tables is counted in Python */

/* A plan, borrowed, and how many changes of each kind it has. */
typedef struct {
    PyObject *plan;
    Py_ssize_t inserts, updates, deletes;
} Tally;

static Tally *tally_of(Tally *tallies, size_t *count, size_t *last, PyObject *plan)
{
    if (*count && tallies[*last].plan == plan)
        return &tallies[*last];
    for (*last = 0; *last < *count; ++*last)
        if (tallies[*last].plan == plan)
            return &tallies[*last];
    if (*count == TALLIED)
        return NULL;
    tallies[*count] = (Tally){.plan = plan};
    return &tallies[(*count)++];
}

/* tally(changes) -> [(plan, inserts, updates, deletes), ...], each plan once, in the order in which they come first;
 * None for another list than one of changes, or one of too many plans. Nothing here calls Python. */
PyObject *native_tally(PyObject *module, PyObject *changes)
{
    Places places;
    if (!PyList_Check(changes))
        Py_RETURN_NONE;
    if (places_of(&places, class_of(module, ROW_CHANGE)) < 0)
        return NULL;
    Tally tallies[TALLIED], *found;
    size_t count = 0, last = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(changes); at++) {
        PyObject *change = PyList_GET_ITEM(changes, at);
        if (!Py_IS_TYPE(change, places.type))
            Py_RETURN_NONE;
        PyObject *plan = *(PyObject **)((char *)change + places.plan), *kind = *(PyObject **)((char *)change + places.kind);
        if (plan == NULL || kind == NULL || !PyLong_Check(kind) || (found = tally_of(tallies, &count, &last, plan)) == NULL)
            Py_RETURN_NONE;
        long number = PyLong_AsLong(kind);
        if (number == -1 && PyErr_Occurred())
            return NULL;
        if (number == INSERT)
            found->inserts++;
        else if (number == UPDATE)
            found->updates++;
        else
            found->deletes++;
    }
    PyObject *all = PyList_New(0);
    for (size_t at = 0; all != NULL && at < count; at++) {
        const Tally *one = &tallies[at];
        PyObject *made = Py_BuildValue("(Onnn)", one->plan, one->inserts, one->updates, one->deletes);
        if (made == NULL || PyList_Append(all, made) < 0)
            Py_CLEAR(all);
        Py_XDECREF(made);
    }
    return all;
}
