/* `dm.changes.native_changes`: row events to row changes with their keys. It is the loop of
 * `dm.syncer.apply.row_placing` for tables that ask for nothing special.
 *
 * A row change is a Python object with slots, made here without its `__init__`, which only fills them. What a key is
 * made of comes from `dm.changes.keys`, and folds are called as they are there.
 */
#include "row_change.h"

#define NO_FOREIGN_KEY_CHECKS 0x2
#define NO_CHECK_CONSTRAINT_CHECKS 0x80

typedef struct {
    PyObject_HEAD
    Places places; /* of the type, which is held */
    Py_ssize_t factor, raw, each; /* of memory: for each byte of an event, decoded or kept, and for each change */
} ChangeMaker;

/* What is known of a table, borrowed. */
typedef struct {
    PyObject *layouts, *plan, *kinds, *keys, *proofs; /* `proofs`: layouts that prove images; None */
    int linked, judged;
} Table;

static int table_of(PyObject *module, PyObject *known, Table *table)
{
    if (!is_structure(module, known, DIRECT_TABLE))
        return 0;
    table->layouts = PyTuple_GET_ITEM(known, DIRECT_TABLE_layouts);
    table->plan = PyTuple_GET_ITEM(known, DIRECT_TABLE_plan);
    table->kinds = PyTuple_GET_ITEM(known, DIRECT_TABLE_kinds);
    table->linked = PyTuple_GET_ITEM(known, DIRECT_TABLE_linked) == Py_True;
    table->judged = PyTuple_GET_ITEM(known, DIRECT_TABLE_judged) == Py_True;
    table->keys = PyTuple_GET_ITEM(known, DIRECT_TABLE_keys);
    table->proofs = PyTuple_GET_ITEM(known, DIRECT_TABLE_proofs);
    return PyDict_Check(table->layouts) && (table->proofs == Py_None || PyDict_Check(table->proofs))
        && PyDict_Check(table->kinds) && PyTuple_Check(table->keys);
}

static int all_set(PyObject *bitmap, size_t columns)
{
    if (!PyBytes_Check(bitmap) || (size_t)PyBytes_GET_SIZE(bitmap) != (columns + 7) / 8)
        return 0;
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(bitmap);
    for (size_t at = 0; at < columns / 8; at++)
        if (bytes[at] != 0xFF)
            return 0;
    unsigned last = (1u << columns % 8) - 1;
    return !last || (bytes[columns / 8] & last) == last;
}

/* Whether the images of the event hold all columns. */
static int is_whole(PyObject *rows)
{
    Py_ssize_t columns = PyLong_AsSsize_t(PyTuple_GET_ITEM(rows, ROWS_column_count));
    if (columns <= 0) {
        PyErr_Clear();
        return 0;
    }
    return all_set(PyTuple_GET_ITEM(rows, ROWS_present), (size_t)columns)
        && all_set(PyTuple_GET_ITEM(rows, ROWS_present_after), (size_t)columns);
}

/* The key of an image: (token, values); NULL without an exception for an image that collides with nothing.
 * `parts` are KeyValues: a place in the row, and how its value folds: by a function, as it is (True), to one for all (None). */
static PyObject *key_of(PyObject *token, PyObject *parts, PyObject *row, Outcome *outcome)
{
    Py_ssize_t count = PyTuple_GET_SIZE(parts);
    PyObject *key = PyTuple_New(1 + count);
    *outcome = FAILED;
    if (key == NULL)
        return NULL;
    PyTuple_SET_ITEM(key, 0, Py_NewRef(token));
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *part = PyTuple_GET_ITEM(parts, number);
        Py_ssize_t at = PyTuple_Check(part) && PyTuple_GET_SIZE(part) == KEY_VALUE_SIZE
            ? PyLong_AsSsize_t(PyTuple_GET_ITEM(part, KEY_VALUE_at))
            : -1;
        if (at < 0 || at >= PyTuple_GET_SIZE(row)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a key's column outside of the row");
            Py_DECREF(key);
            return NULL;
        }
        PyObject *value = PyTuple_GET_ITEM(row, at), *fold = PyTuple_GET_ITEM(part, KEY_VALUE_fold);
        if (value == Py_None) {
            Py_DECREF(key);
            *outcome = TAKEN;
            return NULL;
        }
        PyObject *folded = fold == Py_None ? Py_NewRef(Py_None) : fold == Py_True ? Py_NewRef(value) : PyObject_CallOneArg(fold, value);
        if (folded == NULL) {
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SET_ITEM(key, 1 + number, folded);
    }
    *outcome = TAKEN;
    return key;
}

/* Whether two images have the same plain values where the parts look, so that their keys are equal: seen without a key
 * for each. 0 wherever Python would have to compare. */
static int alike(PyObject *parts, PyObject *before, PyObject *after)
{
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(parts); number++) {
        PyObject *part = PyTuple_GET_ITEM(parts, number);
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(part, KEY_VALUE_at)); /* looked at by `key_of` before */
        if (at < 0 || at >= PyTuple_GET_SIZE(after))
            return 0;
        PyObject *one = PyTuple_GET_ITEM(before, at), *other = PyTuple_GET_ITEM(after, at);
        if (one == other)
            continue;
        if (!Py_IS_TYPE(one, Py_TYPE(other)) || !(PyLong_CheckExact(one) || PyBytes_CheckExact(one) || PyUnicode_CheckExact(one))
            || PyObject_RichCompareBool(one, other, Py_EQ) != 1)
            return 0;
    }
    return 1;
}

/* Appends the keys of one spec to those that there are: of the image before, and of the one after if it is another. */
static int add_keys(PyObject *spec, PyObject *before, PyObject *after, PyObject **keys, Py_ssize_t *count)
{
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != KEY_SOURCE_SIZE
        || !PyTuple_Check(PyTuple_GET_ITEM(spec, KEY_SOURCE_parts)) || (before != Py_None && !PyTuple_Check(before))
        || (after != Py_None && !PyTuple_Check(after))) {
        PyErr_SetString(PyExc_TypeError, "a key is a KeySource, a row a tuple");
        return 0;
    }
    PyObject *token = PyTuple_GET_ITEM(spec, KEY_SOURCE_token), *parts = PyTuple_GET_ITEM(spec, KEY_SOURCE_parts);
    PyObject *first = NULL;
    Outcome outcome;
    if (before != Py_None) {
        first = key_of(token, parts, before, &outcome);
        if (first == NULL && outcome != TAKEN)
            return 0;
        if (first != NULL)
            keys[(*count)++] = first;
        if (first != NULL && after != Py_None && alike(parts, before, after))
            return 1;
    }
    if (after == Py_None)
        return 1;
    PyObject *key = key_of(token, parts, after, &outcome);
    if (key == NULL)
        return outcome == TAKEN;
    int same = first == NULL ? 0 : PyObject_RichCompareBool(first, key, Py_EQ);
    if (same == 0)
        keys[(*count)++] = key;
    else
        Py_DECREF(key);
    return same >= 0;
}

#define USUAL_KEYS 16 /* of a change; more of them take memory of their own */

/* What `keys_of` finds for a change whose images are whole. */
static PyObject *keys_of(PyObject *specs, PyObject *before, PyObject *after)
{
    PyObject *usual[USUAL_KEYS], **found = usual, *keys = NULL;
    Py_ssize_t most = 2 * PyTuple_GET_SIZE(specs), count = 0;
    if (most > USUAL_KEYS && (found = PyMem_Calloc((size_t)most, sizeof *found)) == NULL)
        return PyErr_NoMemory();
    int done = 1;
    for (Py_ssize_t number = 0; done && number < most / 2; number++)
        done = add_keys(PyTuple_GET_ITEM(specs, number), before, after, found, &count);
    if (done)
        keys = PyTuple_New(count);
    for (Py_ssize_t at = 0; at < count; at++) {
        if (keys == NULL)
            Py_DECREF(found[at]);
        else
            PyTuple_SET_ITEM(keys, at, found[at]);
    }
    if (found != usual)
        PyMem_Free(found);
    return keys;
}

static PyObject *change_of(const ChangeMaker *self, const Table *table, PyObject *kind, PyObject *pair, int safe, int unchecked)
{
    PyObject *before = PyTuple_GET_ITEM(pair, 0), *after = PyTuple_GET_ITEM(pair, 1);
    int raw = PyTuple_GET_SIZE(pair) == 4;
    PyObject *keys = keys_of(table->keys, before, after);
    PyObject *change = keys == NULL ? NULL : self->places.type->tp_alloc(self->places.type, 0);
    if (change == NULL) {
        Py_XDECREF(keys);
        return NULL;
    }
    const struct {
        Py_ssize_t place;
        PyObject *value;
    } fields[] = {
        {self->places.plan, Py_NewRef(table->plan)},
        {self->places.kind, Py_NewRef(kind)},
        {self->places.before, Py_NewRef(before)},
        {self->places.after, Py_NewRef(after)},
        {self->places.safe, PyBool_FromLong(safe)},
        {self->places.unchecked, PyBool_FromLong(unchecked)},
        {self->places.keys, keys},
        {self->places.raw_before, Py_NewRef(raw ? PyTuple_GET_ITEM(pair, 2) : Py_None)},
        {self->places.raw_after, Py_NewRef(raw ? PyTuple_GET_ITEM(pair, 3) : Py_None)},
    };
    _Static_assert(sizeof fields / sizeof *fields == ROW_CHANGE_SIZE, "a field of a change is not filled");
    for (size_t at = 0; at < sizeof fields / sizeof *fields; at++)
        *(PyObject **)((char *)change + fields[at].place) = fields[at].value;
    return change;
}

/* The changes of an event: with their bytes where the table takes those, and all of them are proven. */
static PyObject *pairs_of(PyObject *module, const Table *table, PyObject *rows, int safe)
{
    PyObject *proven[] = {table->proofs, rows}, *read[] = {table->layouts, rows};
    if (table->proofs != Py_None && !safe) {
        PyObject *pairs = native_proven_rows(module, proven, 2);
        if (pairs != Py_None)
            return pairs;
        Py_DECREF(pairs);
    }
    return native_decode_rows(module, read, 2);
}

enum { WIDEST = 256 << 10 }; /* bytes of an event that holds one such row */

/* Appends the changes of an event. */
static Outcome take_item(const ChangeMaker *self, PyObject *module, PyObject *tables, PyObject *item, int safe, PyObject *found, Py_ssize_t *cost)
{
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != ROWS_ITEM_SIZE)
        return DECLINED;
    PyObject *rows = PyTuple_GET_ITEM(item, ROWS_ITEM_rows);
    PyObject *number = PyLong_FromVoidPtr(PyTuple_GET_ITEM(item, ROWS_ITEM_table_map));
    PyObject *known = number == NULL ? NULL : PyDict_GetItemWithError(tables, number);
    Py_XDECREF(number);
    Table table;
    if (known == NULL || !table_of(module, known, &table) || !is_structure(module, rows, ROWS))
        return PyErr_Occurred() ? FAILED : DECLINED;
    Py_INCREF(known); /* folds are functions of Python, and other threads may run meanwhile */
    Outcome done = DECLINED;
    PyObject *pairs = NULL, *kind = PyDict_GetItemWithError(table.kinds, PyTuple_GET_ITEM(rows, ROWS_kind));
    if (kind == NULL || PyErr_Occurred() || kind == Py_None) {
        done = PyErr_Occurred() ? FAILED : kind == Py_None ? TAKEN : DECLINED; /* None: not wanted */
        goto done;
    }
    if (!is_whole(rows) || !PyBytes_Check(PyTuple_GET_ITEM(rows, ROWS_data)))
        goto done;
    unsigned long flags = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(rows, ROWS_flags));
    if (table.judged && (flags & NO_CHECK_CONSTRAINT_CHECKS) && !PyErr_Occurred())
        goto done; /* these rows have another plan */
    int unchecked = table.linked && (safe || (flags & NO_FOREIGN_KEY_CHECKS));
    pairs = PyErr_Occurred() ? NULL : pairs_of(module, &table, rows, safe);
    if (pairs == NULL || pairs == Py_None) {
        done = pairs == NULL ? FAILED : DECLINED;
        goto done;
    }
    Py_ssize_t count = PyList_GET_SIZE(pairs);
    done = TAKEN;
    for (Py_ssize_t at = 0; at < count && done == TAKEN; at++) {
        PyObject *change = change_of(self, &table, kind, PyList_GET_ITEM(pairs, at), safe, unchecked);
        if (change == NULL || PyList_Append(found, change) < 0)
            done = FAILED;
        Py_XDECREF(change);
    }
    Py_ssize_t size = PyBytes_GET_SIZE(PyTuple_GET_ITEM(rows, ROWS_data)), each = self->each;
    int raw = count && PyTuple_GET_SIZE(PyList_GET_ITEM(pairs, 0)) == 4;
    if (raw) /* a place for each value, read or not */
        each += (Py_ssize_t)sizeof(PyObject *) * PyTuple_GET_SIZE(PyList_GET_ITEM(pairs, 0)) / 2
                * PyLong_AsSsize_t(PyTuple_GET_ITEM(rows, ROWS_column_count));
    /* What is too long for an event's statement goes as SQL. */
    *cost += ((raw && size <= WIDEST ? self->raw : self->factor) * size / (count ? count : 1) + each) * count;
done:
    Py_XDECREF(pairs);
    Py_DECREF(known);
    return done;
}

static int append_number(PyObject *list, Py_ssize_t number)
{
    PyObject *made = PyLong_FromSsize_t(number);
    int done = made != NULL && PyList_Append(list, made) == 0;
    Py_XDECREF(made);
    return done;
}

/* maker(items, at, tables, safe) -> MadeChanges, which end at the first item that is not taken */
static PyObject *maker_call(PyObject *object, PyObject *args, PyObject *named)
{
    const ChangeMaker *self = (ChangeMaker *)object;
    PyObject *items, *tables, *module = PyType_GetModule(Py_TYPE(object));
    Py_ssize_t at, cost = 0;
    int safe;
    if (module == NULL || (named != NULL && PyDict_GET_SIZE(named))
        || !PyArg_ParseTuple(args, "O!nO!p", &PyList_Type, &items, &at, &PyDict_Type, &tables, &safe)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "maker(items, at, tables, safe)");
        return NULL;
    }
    if (at < 0) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the items");
        return NULL;
    }
    PyObject *found = PyList_New(0), *ends = PyList_New(0);
    if (found == NULL || ends == NULL) {
        Py_XDECREF(found);
        Py_XDECREF(ends);
        return NULL;
    }
    for (; at < PyList_GET_SIZE(items); at++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(items, at));
        Outcome done = take_item(self, module, tables, item, safe, found, &cost);
        Py_DECREF(item);
        if (done == TAKEN && !append_number(ends, PyList_GET_SIZE(found)))
            done = FAILED;
        if (done == FAILED) {
            Py_DECREF(found);
            Py_DECREF(ends);
            return NULL;
        }
        if (done == DECLINED) {
            types_of(module)->declines[DECLINED_changes]++;
            break;
        }
    }
    PyObject *fields[MADE_CHANGES_SIZE] = {
        [MADE_CHANGES_changes] = found,
        [MADE_CHANGES_cost] = PyLong_FromSsize_t(cost),
        [MADE_CHANGES_end] = PyLong_FromSsize_t(at),
        [MADE_CHANGES_ends] = ends,
    };
    return named_made(class_of(module, MADE_CHANGES), fields, MADE_CHANGES_SIZE);
}

/* A lane of `spread`: what it gets now, and what it has with that; in a run, the transaction of each change. */
typedef struct {
    PyObject *part;
    Py_ssize_t count, cost, given, room;
    unsigned *transactions;
} Lane;

/* The transactions of a run: how many changes end with each. */
typedef struct {
    PyObject *ends; /* a list */
    Py_ssize_t at, end; /* the transaction of the change in hand, and where it ends */
} Shares;

/* Who holds keys of a change, borrowed: `free` where nobody does, NULL where no one worker may have it. */
static PyObject *holder_of(PyObject *holder, PyObject *keys, PyObject *free)
{
    PyObject *wanted = NULL;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(keys); number++) {
        PyObject *held = PyDict_GetItemWithError(holder, PyTuple_GET_ITEM(keys, number));
        if (held == NULL && PyErr_Occurred())
            return NULL;
        if (held == NULL)
            continue;
        if (!PyLong_Check(held) || (wanted != NULL && PyLong_AsSsize_t(held) != PyLong_AsSsize_t(wanted)))
            return NULL;
        wanted = held;
    }
    return wanted == NULL ? free : wanted;
}

static Py_ssize_t number_at(PyObject *list, Py_ssize_t at)
{
    return PyLong_AsSsize_t(PyList_GET_ITEM(list, at));
}

/* Goes to the transaction of a change, which lies not before the one in hand; 0 with an exception. */
static int go_to(Shares *shares, Py_ssize_t at)
{
    while (at >= shares->end) {
        shares->at++;
        if (shares->at >= PyList_GET_SIZE(shares->ends) || shares->at > UINT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a change of no transaction");
            return 0;
        }
        shares->end = number_at(shares->ends, shares->at);
        if (PyErr_Occurred())
            return 0;
    }
    return 1;
}

/* The same for the first change in hand: transactions are many, so the search is in halves. */
static int begin_at(Shares *shares, Py_ssize_t at)
{
    Py_ssize_t low = 0, high = PyList_GET_SIZE(shares->ends);
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2, end = number_at(shares->ends, middle);
        if (PyErr_Occurred())
            return 0;
        if (end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    shares->at = low - 1;
    shares->end = 0;
    return 1;
}

/* Notes the transaction of a lane's next change; 0 with an exception. */
static int note_transaction(Lane *lane, const Shares *shares)
{
    if (lane->given == lane->room) {
        Py_ssize_t room = lane->room ? 2 * lane->room : 64;
        unsigned *more = PyMem_Realloc(lane->transactions, (size_t)room * sizeof *more);
        if (more == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        lane->transactions = more;
        lane->room = room;
    }
    lane->transactions[lane->given] = (unsigned)shares->at;
    return 1;
}

/* The parts as [(lane, changes), ...], those of a run as [(lane, changes, the transaction of each), ...]. */
static PyObject *parts_of(const Lane *lanes, Py_ssize_t count, const Shares *shares)
{
    PyObject *parts = PyList_New(0);
    for (Py_ssize_t at = 0; parts != NULL && at < count; at++) {
        const Lane *lane = &lanes[at];
        if (lane->part == NULL)
            continue;
        const char *transactions = (const char *)lane->transactions;
        PyObject *part = shares == NULL
            ? Py_BuildValue("(nO)", at, lane->part)
            : Py_BuildValue("(nOy#)", at, lane->part, transactions, lane->given * (Py_ssize_t)sizeof(unsigned));
        if (part == NULL || PyList_Append(parts, part) < 0)
            Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    return parts;
}

static PyObject *spread(PyObject *object, PyObject *const *args, Shares *shares)
{
    const ChangeMaker *self = (ChangeMaker *)object;
    PyObject *counts, *costs;
    Py_ssize_t cost, batch, full, share, most;
    if (PyTuple_GET_SIZE(args[5]) != ROOM_SIZE || !PyList_Check(PyTuple_GET_ITEM(args[5], ROOM_counts))
        || !PyList_Check(PyTuple_GET_ITEM(args[5], ROOM_costs))) {
        PyErr_SetString(PyExc_TypeError, "a Room of other things");
        return NULL;
    }
    counts = PyTuple_GET_ITEM(args[5], ROOM_counts);
    costs = PyTuple_GET_ITEM(args[5], ROOM_costs);
    cost = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[5], ROOM_cost));
    batch = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[5], ROOM_batch));
    full = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[5], ROOM_full));
    share = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[5], ROOM_share));
    most = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[5], ROOM_most));
    if (PyErr_Occurred())
        return NULL;
    PyObject *holder = args[0], *changes = args[1], *free_lane = args[3];
    Py_ssize_t at = PyLong_AsSsize_t(args[2]), limit = PyLong_AsSsize_t(args[4]), known = PyList_GET_SIZE(counts);
    if (PyErr_Occurred())
        return NULL;
    if (at < 0 || PyList_GET_SIZE(costs) != known) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the changes, or lanes without costs");
        return NULL;
    }
    Lane *lanes = PyMem_Calloc((size_t)known + 1, sizeof(Lane));
    if (lanes == NULL)
        return PyErr_NoMemory();
    PyObject *parts = NULL, *wanted = NULL, *change = NULL, *keys = NULL;
    if (shares != NULL && !begin_at(shares, at))
        goto end;
    for (; most > 0 && at < PyList_GET_SIZE(changes) && PyDict_GET_SIZE(holder) < limit; most--) {
        if (shares != NULL && !go_to(shares, at))
            goto end;
        change = Py_NewRef(PyList_GET_ITEM(changes, at));
        keys = Py_IS_TYPE(change, self->places.type) ? *(PyObject **)((char *)change + self->places.keys) : NULL;
        if (keys == NULL || !PyTuple_Check(keys)) {
            keys = NULL;
            break;
        }
        Py_INCREF(keys);
        int single = PyTuple_GET_SIZE(keys) == 1; /* whoever is found holds it, or does from now on */
        wanted = Py_XNewRef(
            single ? PyDict_SetDefault(holder, PyTuple_GET_ITEM(keys, 0), free_lane) : holder_of(holder, keys, free_lane));
        if (wanted == NULL && PyErr_Occurred())
            goto end;
        if (wanted == NULL)
            break;
        Py_ssize_t number = PyLong_AsSsize_t(wanted);
        if (number < 0 || number >= known || PyList_GET_SIZE(counts) != known || PyList_GET_SIZE(costs) != known) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a lane that there is not");
            goto end;
        }
        for (Py_ssize_t key = 0; !single && key < PyTuple_GET_SIZE(keys); key++)
            if (PyDict_SetItem(holder, PyTuple_GET_ITEM(keys, key), wanted) < 0)
                goto end;
        Lane *lane = &lanes[number];
        if (lane->part == NULL) {
            lane->count = number_at(counts, number);
            lane->cost = number_at(costs, number);
            if (PyErr_Occurred() || (lane->part = PyList_New(0)) == NULL)
                goto end;
        }
        if ((shares != NULL && !note_transaction(lane, shares)) || PyList_Append(lane->part, change) < 0)
            goto end;
        at++;
        lane->given++;
        lane->count++;
        lane->cost += cost;
        if (lane->count >= batch && (lane->count >= full || lane->cost >= share))
            break;
        Py_CLEAR(wanted);
        Py_CLEAR(keys);
        Py_CLEAR(change);
    }
    parts = parts_of(lanes, known, shares);
end:
    Py_XDECREF(wanted);
    Py_XDECREF(keys);
    Py_XDECREF(change);
    for (Py_ssize_t number = 0; number < known; number++) {
        Py_XDECREF(lanes[number].part);
        PyMem_Free(lanes[number].transactions);
    }
    PyMem_Free(lanes);
    return parts == NULL ? NULL : Py_BuildValue("(Nn)", parts, at);
}

static int are_of_spread(PyObject *const *args)
{
    return PyDict_Check(args[0]) && PyList_Check(args[1]) && PyLong_Check(args[3]) && PyTuple_Check(args[5]);
}

/* maker.spread(holder, changes, at, free, limit, room)
 * -> ([(lane, changes), ...], end): the changes from a place on, each to the lane of its keys' holder, as
 * `ConflictDetector.place` finds it for one whose keys are all known. It ends after the change that fills a lane's
 * batch (`Placement.add`), after `most` changes, and before one that needs `place`. */
static PyObject *maker_spread(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    if (count != 6 || !are_of_spread(args)) {
        PyErr_SetString(PyExc_TypeError, "spread(holder, changes, at, free, limit, room)");
        return NULL;
    }
    return spread(object, args, NULL);
}

/* maker.spread_run(holder, changes, at, free, limit, room, ends)
 * -> ([(lane, changes, the transaction of each), ...], end): the same for the changes of several transactions; `ends`
 * says how many changes end with each, and the transactions are numbers of C (`array("I")`). */
static PyObject *maker_spread_run(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    if (count != 7 || !are_of_spread(args) || !PyList_Check(args[6])) {
        PyErr_SetString(PyExc_TypeError, "spread_run(holder, changes, at, free, limit, room, ends)");
        return NULL;
    }
    Shares shares = {.ends = args[6]};
    return spread(object, args, &shares);
}

/* ChangeMaker(memory for each byte, the same where bytes are kept, memory for each change) */
static PyObject *maker_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    Py_ssize_t factor, raw, each;
    if ((named != NULL && PyDict_GET_SIZE(named)) || !PyArg_ParseTuple(args, "nnn", &factor, &raw, &each)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "ChangeMaker(factor, raw, each)");
        return NULL;
    }
    PyObject *module = PyType_GetModule(type);
    PyTypeObject *change = module == NULL ? NULL : class_of(module, ROW_CHANGE);
    if (change == NULL)
        return NULL;
    ChangeMaker *self = (ChangeMaker *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->factor = factor;
    self->raw = raw;
    self->each = each;
    if (places_of(&self->places, change) < 0) {
        self->places.type = NULL; /* not held yet */
        Py_DECREF(self);
        return NULL;
    }
    Py_INCREF(change);
    return (PyObject *)self;
}

static int maker_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((ChangeMaker *)object)->places.type);
    Py_VISIT(Py_TYPE(object));
    return 0;
}

static int maker_clear(PyObject *object)
{
    Py_CLEAR(((ChangeMaker *)object)->places.type);
    return 0;
}

static void maker_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    maker_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef maker_methods[] = {
    {"spread", (PyCFunction)(void (*)(void))maker_spread, METH_FASTCALL, "Changes to the lanes of their keys' holders."},
    {"spread_run", (PyCFunction)(void (*)(void))maker_spread_run, METH_FASTCALL, "Those of several transactions."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_methods, maker_methods},
    {Py_tp_doc, "What makes the row changes of events."},
    {Py_tp_new, maker_new},
    {Py_tp_call, maker_call},
    {Py_tp_traverse, maker_traverse},
    {Py_tp_clear, maker_clear},
    {Py_tp_dealloc, maker_dealloc},
    {0, NULL},
};
static PyType_Spec spec = {
    "dm.accelerator._native.ChangeMaker", sizeof(ChangeMaker), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots,
};

PyTypeObject *change_maker_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
