/* `dm.changes.event_or_sql`: which changes share a rows event. The same rule, for a batch that is one stretch of events.
 *
 * A batch of which anything is to be SQL, or to stand where it came, is left to Python.
 */
#include "row_change.h"

/* What is asked of a plan and its form, read once per batch. */
typedef struct {
    PyObject *plan;
    PyObject *order_key; /* NULL: there is none */
    PyObject *cut; /* how images before are cut; NULL: they are not */
    int keyed, scans;
    Py_ssize_t open[4][2]; /* the last event of a kind, with foreign keys and without */
} EventPlan;

typedef struct {
    PyObject *changes, *images, *made; /* lists; `made`: a set of images, of a table without a key */
    size_t size;
} Group;

typedef struct {
    Places places;
    PyObject *keys_of, *wild; /* borrowed from the caller */
    size_t room;
    Py_ssize_t scanned_rows;
    EventPlan *plans;
    Py_ssize_t plan_count, plan_room, plan_last;
    Group *groups;
    Py_ssize_t count, group_room;
    PyObject *last; /* key to group */
} Batch;

/* One change; what stands in it is held. */
typedef struct {
    PyObject *object, *plan, *keys, *before, *after; /* images: bytes, or NULL */
    EventPlan *known;
    long kind;
    int unchecked;
    size_t size;
} Item;

static void *grown(void *items, Py_ssize_t count, Py_ssize_t *room, size_t size)
{
    if (count < *room)
        return items;
    Py_ssize_t more = *room ? 2 * *room : 16;
    void *made = PyMem_Realloc(items, (size_t)more * size);
    if (made == NULL)
        PyErr_NoMemory();
    else
        *room = more;
    return made;
}

/* Whether an attribute is true; -1: an exception is set. */
static int truth(PyObject *object, const char *name)
{
    PyObject *found = PyObject_GetAttrString(object, name);
    int answer = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    return answer;
}

static Outcome plan_read(EventPlan *known, PyObject *plan)
{
    PyObject *form = PyObject_GetAttrString(plan, "events");
    Outcome done = FAILED;
    if (form == NULL)
        return FAILED;
    int groupable = truth(plan, "groupable"), refused = form == Py_None ? 1 : truth(form, "refused");
    if (groupable < 0 || refused < 0)
        goto done;
    if (!groupable || refused) {
        done = DECLINED;
        goto done;
    }
    known->keyed = truth(form, "keyed");
    known->scans = known->keyed < 0 ? -1 : truth(form, "scans");
    known->order_key = known->scans < 0 ? NULL : PyObject_GetAttrString(form, "order_key");
    if (known->order_key == NULL)
        goto done;
    if (known->order_key == Py_None)
        Py_CLEAR(known->order_key);
    known->cut = PyObject_GetAttrString(form, "cut");
    if (known->cut == NULL || (known->cut != Py_None && !PyBytes_CheckExact(known->cut))) {
        done = known->cut == NULL ? FAILED : DECLINED;
        Py_CLEAR(known->cut);
        Py_CLEAR(known->order_key);
        goto done;
    }
    if (known->cut == Py_None)
        Py_CLEAR(known->cut);
    known->plan = Py_NewRef(plan);
    for (size_t kind = 0; kind < 4; kind++)
        known->open[kind][0] = known->open[kind][1] = -1;
    done = TAKEN;
done:
    Py_DECREF(form);
    return done;
}

static Outcome plan_of(Batch *self, PyObject *plan, EventPlan **known)
{
    if (self->plan_count && self->plans[self->plan_last].plan == plan) {
        *known = &self->plans[self->plan_last];
        return TAKEN;
    }
    for (Py_ssize_t at = 0; at < self->plan_count; at++)
        if (self->plans[at].plan == plan) {
            self->plan_last = at;
            *known = &self->plans[at];
            return TAKEN;
        }
    EventPlan *more = grown(self->plans, self->plan_count, &self->plan_room, sizeof(EventPlan));
    if (more == NULL)
        return FAILED;
    self->plans = more;
    EventPlan *made = &self->plans[self->plan_count];
    memset(made, 0, sizeof *made);
    Outcome done = plan_read(made, plan);
    if (done == TAKEN) {
        self->plan_last = self->plan_count++;
        *known = made;
    }
    return done;
}

static PyObject *field(PyObject *object, Py_ssize_t place)
{
    return *(PyObject **)((char *)object + place);
}

/* The bytes of an image: held, NULL for one that there is not; declines an image without bytes. */
static Outcome raw_of(const Item *item, Py_ssize_t row, Py_ssize_t place, PyObject **raw)
{
    PyObject *image = field(item->object, row), *found = field(item->object, place);
    if (image == NULL || found == NULL || (image != Py_None && !PyBytes_CheckExact(found)))
        return DECLINED;
    *raw = image == Py_None ? NULL : Py_NewRef(found);
    return TAKEN;
}

/* From here on the image before has the columns alone by which the server finds the row. */
static Outcome before_cut(Item *item)
{
    PyObject *whole = item->before, *made = NULL;
    Outcome done = image_cut(item->known->cut, whole, &made);
    if (done != TAKEN)
        return done;
    item->size -= (size_t)(PyBytes_GET_SIZE(whole) - PyBytes_GET_SIZE(made));
    item->before = made;
    Py_DECREF(whole);
    return TAKEN;
}

static Outcome item_read(Batch *self, PyObject *object, Item *item)
{
    const Places *places = &self->places;
    memset(item, 0, sizeof *item);
    if (!Py_IS_TYPE(object, places->type))
        return DECLINED;
    item->object = Py_NewRef(object);
    PyObject *kind = field(object, places->kind), *keys = field(object, places->keys);
    if (field(object, places->safe) != Py_False || field(object, places->plan) == NULL || kind == NULL || keys == NULL
        || !PyLong_Check(kind))
        return DECLINED;
    item->plan = Py_NewRef(field(object, places->plan));
    item->kind = PyLong_AsLong(kind);
    if (item->kind < INSERT || item->kind > DELETE)
        return PyErr_Occurred() ? FAILED : DECLINED;
    item->unchecked = field(object, places->unchecked) == Py_True;
    if (raw_of(item, places->before, places->raw_before, &item->before) != TAKEN
        || raw_of(item, places->after, places->raw_after, &item->after) != TAKEN)
        return DECLINED;
    item->size = (item->before == NULL ? 0 : (size_t)PyBytes_GET_SIZE(item->before))
        + (item->after == NULL ? 0 : (size_t)PyBytes_GET_SIZE(item->after));
    if (item->size > self->room)
        return DECLINED;
    Outcome done = plan_of(self, item->plan, &item->known);
    if (done == TAKEN && item->known->cut != NULL && item->before != NULL)
        done = before_cut(item);
    if (done != TAKEN)
        return done;
    item->keys = keys == Py_None ? PyObject_CallOneArg(self->keys_of, object) : Py_NewRef(keys);
    if (item->keys == NULL)
        return FAILED;
    if (!PyTuple_CheckExact(item->keys))
        return DECLINED;
    int wild = has_wild(item->keys, self->wild);
    return wild < 0 ? FAILED : wild ? DECLINED : TAKEN;
}

static void item_free(Item *item)
{
    Py_CLEAR(item->object);
    Py_CLEAR(item->plan);
    Py_CLEAR(item->keys);
    Py_CLEAR(item->before);
    Py_CLEAR(item->after);
}

static int append(Group *group, const Item *item)
{
    if (PyList_Append(group->changes, item->object) < 0
        || (item->before != NULL && PyList_Append(group->images, item->before) < 0)
        || (item->after != NULL && PyList_Append(group->images, item->after) < 0))
        return -1;
    group->size += item->size;
    return group->made == NULL || item->after == NULL ? 0 : PySet_Add(group->made, item->after);
}

/* Whether the change may stand in the event; -1: an exception is set. */
static int takes(const Batch *self, const Group *group, const Item *item)
{
    if (group->size + item->size > self->room)
        return 0;
    if (group->made == NULL || item->before == NULL)
        return 1;
    if (item->known->scans && PyList_GET_SIZE(group->changes) == self->scanned_rows)
        return 0;
    int made = PySet_Contains(group->made, item->before);
    return made < 0 ? -1 : !made;
}

static Group *group_made(Batch *self, const Item *item)
{
    Group *more = grown(self->groups, self->count, &self->group_room, sizeof(Group));
    if (more == NULL)
        return NULL;
    self->groups = more;
    Group *group = &self->groups[self->count++];
    *group = (Group){PyList_New(0), PyList_New(0), item->known->keyed ? NULL : PySet_New(NULL), 0};
    if (group->changes == NULL || group->images == NULL || (!item->known->keyed && group->made == NULL))
        return NULL;
    return group;
}

static Outcome add(Batch *self, const Item *item)
{
    Py_ssize_t after = -1, count = PyTuple_GET_SIZE(item->keys);
    PyObject *order_key = item->known->order_key;
    if (count == 1 && order_key == NULL) {
        /* Nearly always: a key that comes for the first time, and the kind's last event takes the change. */
        Py_ssize_t last = item->known->open[item->kind][item->unchecked];
        int taken = last < 0 ? 0 : takes(self, &self->groups[last], item);
        if (taken > 0) {
            Py_ssize_t known = number_first(self->last, PyTuple_GET_ITEM(item->keys, 0), last);
            if (known == -2)
                return FAILED;
            if (known == -1)
                return append(&self->groups[last], item) < 0 ? FAILED : TAKEN;
        } else if (taken < 0) {
            return FAILED;
        }
    }
    for (Py_ssize_t at = 0; at < count + (order_key != NULL); at++) {
        Py_ssize_t found = number_of(self->last, at < count ? PyTuple_GET_ITEM(item->keys, at) : order_key);
        if (found == -2)
            return FAILED;
        if (found > after)
            after = found;
    }
    Py_ssize_t *open = &item->known->open[item->kind][item->unchecked];
    Group *group = *open < after || *open < 0 ? NULL : &self->groups[*open];
    int taken = group == NULL ? 0 : takes(self, group, item);
    if (taken < 0)
        return FAILED;
    if (!taken) {
        group = group_made(self, item);
        if (group == NULL)
            return FAILED;
        *open = self->count - 1;
    }
    if (append(group, item) < 0 || number_keys(self->last, item->keys, *open) < 0)
        return FAILED;
    if (order_key == NULL)
        return TAKEN;
    PyObject *number = PyLong_FromSsize_t(*open);
    int done = number == NULL ? -1 : PyDict_SetItem(self->last, order_key, number);
    Py_XDECREF(number);
    return done < 0 ? FAILED : TAKEN;
}

static PyObject *answer(const Batch *self)
{
    PyObject *all = PyList_New(0);
    for (Py_ssize_t at = 0; all != NULL && at < self->count; at++) {
        const Group *group = &self->groups[at];
        PyObject *made = Py_BuildValue("(OOn)", group->changes, group->images, (Py_ssize_t)group->size);
        if (made == NULL || PyList_Append(all, made) < 0)
            Py_CLEAR(all);
        Py_XDECREF(made);
    }
    return all;
}

/* event_groups(changes, room, keys_of, wild, scanned_rows) -> [(changes, images, size), ...], an event each; None: declined */
PyObject *native_event_groups(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyCallable_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "event_groups(changes, room, keys_of, wild, scanned_rows)");
        return NULL;
    }
    Batch self = {.keys_of = args[2], .wild = args[3]};
    self.room = PyLong_AsSize_t(args[1]);
    self.scanned_rows = PyLong_AsSsize_t(args[4]);
    if (PyErr_Occurred() || places_of(&self.places, class_of(module, ROW_CHANGE)) < 0)
        return NULL;
    Outcome done = FAILED;
    PyObject *changes = PySequence_Tuple(args[0]), *result = NULL; /* nobody else changes it meanwhile */
    self.last = PyDict_New();
    if (changes != NULL && self.last != NULL)
        done = TAKEN;
    for (Py_ssize_t at = 0; done == TAKEN && at < PyTuple_GET_SIZE(changes); at++) {
        Item item;
        done = item_read(&self, PyTuple_GET_ITEM(changes, at), &item);
        if (done == TAKEN)
            done = add(&self, &item);
        item_free(&item);
    }
    if (done != FAILED)
        result = done == TAKEN ? answer(&self) : Py_NewRef(Py_None);
    for (Py_ssize_t at = 0; at < self.count; at++) {
        Py_XDECREF(self.groups[at].changes);
        Py_XDECREF(self.groups[at].images);
        Py_XDECREF(self.groups[at].made);
    }
    for (Py_ssize_t at = 0; at < self.plan_count; at++) {
        Py_XDECREF(self.plans[at].plan);
        Py_XDECREF(self.plans[at].order_key);
        Py_XDECREF(self.plans[at].cut);
    }
    PyMem_Free(self.groups);
    PyMem_Free(self.plans);
    Py_XDECREF(changes);
    Py_XDECREF(self.last);
    return result;
}
