/* The bodies of the most frequent events, as `dm.mysql.binlog.row_events`, `dm.mysql.binlog.reader` and their neighbours read them.
 *
 * `rows_of` takes as many rows events and table maps as stand together, `transactions_of` as many whole transactions.
 * Each of the other two takes what a handler of `EventParser` is given (data, start, end, header) after arguments of
 * its own, the last of which is the handler in Python; that is called for whatever is not taken here.
 */
#include "native.h"

#define HANDLED 4 /* data, start, end, header */
#define MOST_PACKED 0xFA /* greater first bytes begin a longer number, or none */

static const uint8_t no_table[6] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

/* The body of the event; 0 where it is not one that can be looked at. */
static int body_of(PyObject *const *given, const uint8_t **data, size_t *at, size_t *end)
{
    if (!PyBytes_CheckExact(given[0]) || !PyLong_Check(given[1]) || !PyLong_Check(given[2]))
        return 0;
    Py_ssize_t start = PyLong_AsSsize_t(given[1]), stop = PyLong_AsSsize_t(given[2]);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    if (start < 0 || start > stop || stop > PyBytes_GET_SIZE(given[0]))
        return 0;
    *data = (const uint8_t *)PyBytes_AS_STRING(given[0]);
    *at = (size_t)start;
    *end = (size_t)stop;
    return 1;
}

/* What a rows event says in front of its images. */
typedef struct {
    uint64_t table;
    unsigned flags;
    size_t columns, width, at; /* `at`: the first bitmap */
} Fixed;

/* Reads the fixed part of the body; 0 where it is not a usual one. */
static int fixed_of(const uint8_t *data, size_t at, size_t end, int version2, int images, Fixed *fixed)
{
    size_t size = version2 ? 10 : 8;
    if (end - at < size + 1 || memcmp(data + at, no_table, sizeof no_table) == 0)
        return 0;
    fixed->table = little(data + at, 6);
    fixed->flags = (unsigned)little(data + at + 6, 2);
    if (version2) {
        size_t extra = (size_t)little(data + at + 8, 2);
        if (extra < 2 || end - at - 8 < extra + 1)
            return 0;
        at += 8 + extra;
    } else {
        at += size;
    }
    fixed->columns = data[at++];
    fixed->width = (fixed->columns + 7) / 8;
    fixed->at = at;
    return fixed->columns != 0 && fixed->columns <= MOST_PACKED && end - at >= fixed->width * (size_t)images;
}

/* The Rows of an event whose images end at `end`. */
static PyObject *rows_made(
    PyTypeObject *type, PyObject *form, PyObject *bytes, const Fixed *fixed, int images, size_t end
)
{
    const char *bitmap = PyBytes_AS_STRING(bytes) + fixed->at;
    PyObject *present = PyBytes_FromStringAndSize(bitmap, (Py_ssize_t)fixed->width);
    PyObject *after = images == 1 ? Py_XNewRef(present)
                                  : PyBytes_FromStringAndSize(bitmap + fixed->width, (Py_ssize_t)fixed->width);
    PyObject *fields[ROWS_SIZE] = {
        [ROWS_kind] = Py_NewRef(PyTuple_GET_ITEM(form, ROWS_FORM_kind)),
        [ROWS_table_id] = PyLong_FromUnsignedLongLong(fixed->table),
        [ROWS_column_count] = PyLong_FromSize_t(fixed->columns),
        [ROWS_present] = present,
        [ROWS_present_after] = after,
        [ROWS_data] = Py_NewRef(bytes),
        [ROWS_start] = PyLong_FromSize_t(fixed->at + fixed->width * (size_t)images),
        [ROWS_end] = PyLong_FromSize_t(end),
        [ROWS_flags] = PyLong_FromUnsignedLong(fixed->flags),
        [ROWS_partial] = Py_NewRef(PyTuple_GET_ITEM(form, ROWS_FORM_partial)),
    };
    return named_made(type, fields, ROWS_SIZE);
}

/* Whether it is a RowsForm, of a kind. */
static int is_form(PyObject *module, PyObject *form)
{
    if (!is_structure(module, form, ROWS_FORM))
        return 0;
    PyObject *kind = PyTuple_GET_ITEM(form, ROWS_FORM_kind);
    return PyUnicode_Check(kind) && PyUnicode_GET_LENGTH(kind) > 0;
}

static int images_of(PyObject *form)
{
    return PyUnicode_READ_CHAR(PyTuple_GET_ITEM(form, ROWS_FORM_kind), 0) == 'u' ? 2 : 1;
}

/* rows_event(form, handler, data, start, end, header) -> Rows */
PyObject *native_rows_event(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const uint8_t *data;
    size_t at, end;
    if (count != 2 + HANDLED || !is_form(self, args[0])) {
        PyErr_SetString(PyExc_TypeError, "rows_event(form, handler, data, start, end, header)");
        return NULL;
    }
    PyObject *form = args[0], *const *given = args + 2;
    Fixed fixed;
    int images = images_of(form), version2 = PyTuple_GET_ITEM(form, ROWS_FORM_version2) == Py_True;
    if (!body_of(given, &data, &at, &end) || !fixed_of(data, at, end, version2, images, &fixed)) {
        types_of(self)->declines[DECLINED_rows_event]++;
        return PyObject_Vectorcall(args[1], given, HANDLED, NULL);
    }
    return rows_made(class_of(self, ROWS), form, given[0], &fixed, images, end);
}

#define TABLE_ID_SIZE 6

/* table_map_event(known by what stands after the id, handler, data, start, end, header) -> TableMapEvent */
PyObject *native_table_map_event(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const uint8_t *data;
    size_t at, end;
    if (count != 2 + HANDLED || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "table_map_event(known, handler, data, start, end, header)");
        return NULL;
    }
    PyTypeObject *type = class_of(self, TABLE_MAP_EVENT);
    if (type == NULL)
        return NULL;
    if (body_of(args + 2, &data, &at, &end) && end - at >= TABLE_ID_SIZE) {
        size_t after = at + TABLE_ID_SIZE;
        PyObject *content = PyBytes_FromStringAndSize((const char *)data + after, (Py_ssize_t)(end - after));
        if (content == NULL)
            return NULL;
        PyObject *known = PyDict_GetItemWithError(args[0], content);
        Py_DECREF(content);
        if (known != NULL) {
            PyObject *fields[TABLE_MAP_EVENT_SIZE] = {
                [TABLE_MAP_EVENT_table_id] = PyLong_FromUnsignedLongLong(little(data + at, TABLE_ID_SIZE)),
                [TABLE_MAP_EVENT_table_map] = Py_NewRef(known),
            };
            return named_made(type, fields, TABLE_MAP_EVENT_SIZE);
        }
        if (PyErr_Occurred())
            return NULL;
    }
    return PyObject_Vectorcall(args[1], args + 2, HANDLED, NULL);
}

#define QUERY 2
#define XID 16
#define TABLE_MAP 19
#define ROWS_QUERY 29
#define GTID 33
#define ANONYMOUS_GTID 34
#define MARIADB_ANNOTATE_ROWS 160
#define MARIADB_GTID 162
#define HEADER_SIZE 19

typedef struct {
    PyObject *module;
    PyObject *bodies; /* dict: the body of a table map after its number -> the table map */
    PyObject *wanted; /* dict: the same of those whose rows are wanted under any number */
    PyObject *maps;   /* dict: its number -> the table map, or None if its rows are passed over */
    PyObject *forms;  /* dict: event type -> RowsForm */
    PyObject *sessions; /* dict: a session as bytes -> what was read of it */
    PyTypeObject *rows, *item;
    size_t trailing; /* bytes after the body */
    PyObject *events; /* a list, or Events */
    int listed;
    PyTypeObject *type; /* of events whose checksum is right */
    PyObject *before; /* in a transaction: a list of (number, what `maps` had under it, if anything) for each new one */
} Run;

/* One event; `bytes`, borrowed, where there is an object that has nothing else. */
typedef struct {
    const uint8_t *data;
    size_t size;
    PyObject *bytes;
} Raw;

static Py_ssize_t count_of(const Run *run)
{
    return run->listed ? PyList_GET_SIZE(run->events) : events_length(run->events);
}

/* The event at a place; 0 where it is not one that was checked, with a header at least. */
static int raw_at(const Run *run, Py_ssize_t at, Raw *raw)
{
    raw->bytes = NULL;
    if (at >= count_of(run))
        return 0;
    if (!run->listed) {
        raw->data = event_in(run->events, at, &raw->size);
        return raw->data != NULL && raw->size >= HEADER_SIZE;
    }
    PyObject *event = PyList_GET_ITEM(run->events, at);
    if (!Py_IS_TYPE(event, run->type) || !PyBytes_CheckExact(PyTuple_GET_ITEM(event, CHECKED_EVENT_data)))
        return 0;
    raw->bytes = PyTuple_GET_ITEM(event, CHECKED_EVENT_data);
    raw->data = (const uint8_t *)PyBytes_AS_STRING(raw->bytes);
    raw->size = (size_t)PyBytes_GET_SIZE(raw->bytes);
    return raw->size >= HEADER_SIZE;
}

/* The table map in force under a number; borrowed, NULL for none. */
static PyObject *map_of(const Run *run, uint64_t table)
{
    PyObject *number = PyLong_FromUnsignedLongLong(table);
    PyObject *known = number == NULL ? NULL : PyDict_GetItemWithError(run->maps, number);
    Py_XDECREF(number);
    return known;
}

/* Notes a table map under a number; in a transaction, what was there before too. */
static Outcome note_map(const Run *run, PyObject *number, PyObject *table_map)
{
    if (run->before != NULL) {
        PyObject *former = PyDict_GetItemWithError(run->maps, number);
        if (former == NULL && PyErr_Occurred())
            return FAILED;
        PyObject *entry = former == NULL ? PyTuple_Pack(1, number) : PyTuple_Pack(2, number, former);
        int failed = entry == NULL || PyList_Append(run->before, entry) < 0;
        Py_XDECREF(entry);
        if (failed)
            return FAILED;
    }
    return PyDict_SetItem(run->maps, number, table_map) < 0 ? FAILED : TAKEN;
}

/* Takes back what a transaction noted that is read event by event now: its rows mean what their numbers meant then. */
static Outcome take_back(const Run *run)
{
    for (Py_ssize_t at = PyList_GET_SIZE(run->before) - 1; at >= 0; at--) {
        PyObject *entry = PyList_GET_ITEM(run->before, at), *number = PyTuple_GET_ITEM(entry, 0);
        int failed = PyTuple_GET_SIZE(entry) == 1 ? PyDict_DelItem(run->maps, number)
                                                  : PyDict_SetItem(run->maps, number, PyTuple_GET_ITEM(entry, 1));
        if (failed < 0)
            return FAILED;
    }
    return DECLINED;
}

/* A table map that is in force, or that gets a new number because the source has opened its table again. */
static Outcome take_table_map(const Run *run, const uint8_t *data, size_t size)
{
    const size_t fixed = HEADER_SIZE + TABLE_ID_SIZE;
    if (size < fixed + run->trailing)
        return DECLINED;
    PyObject *content = PyBytes_FromStringAndSize((const char *)data + fixed, (Py_ssize_t)(size - run->trailing - fixed));
    if (content == NULL)
        return FAILED;
    PyObject *known = PyDict_GetItemWithError(run->bodies, content);
    PyObject *wanted = known == NULL ? NULL : PyDict_GetItemWithError(run->wanted, content);
    Py_DECREF(content);
    PyObject *number = known == NULL ? NULL : PyLong_FromUnsignedLongLong(little(data + HEADER_SIZE, TABLE_ID_SIZE));
    if (number == NULL)
        return PyErr_Occurred() ? FAILED : DECLINED;
    Outcome outcome = DECLINED;
    if (PyDict_GetItemWithError(run->maps, number) == known)
        outcome = TAKEN;
    else if (wanted == known)
        outcome = note_map(run, number, known);
    Py_DECREF(number);
    return PyErr_Occurred() ? FAILED : outcome;
}

static Outcome take_rows(const Run *run, PyObject *form, const Raw *raw, PyObject *found)
{
    const uint8_t *data = raw->data;
    size_t size = raw->size;
    Fixed fixed;
    if (!is_form(run->module, form) || size < HEADER_SIZE + run->trailing)
        return DECLINED;
    size_t end = size - run->trailing;
    int images = images_of(form), version2 = PyTuple_GET_ITEM(form, ROWS_FORM_version2) == Py_True;
    if (!fixed_of(data, HEADER_SIZE, end, version2, images, &fixed))
        return DECLINED;
    PyObject *table_map = map_of(run, fixed.table);
    if (table_map == NULL)
        return PyErr_Occurred() ? FAILED : DECLINED;
    if (table_map == Py_None)
        return TAKEN;
    PyObject *bytes = raw->bytes ? Py_NewRef(raw->bytes) : PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    PyObject *rows = bytes == NULL ? NULL : rows_made(run->rows, form, bytes, &fixed, images, end);
    Py_XDECREF(bytes);
    PyObject *item = rows == NULL ? NULL : run->item->tp_alloc(run->item, ROWS_ITEM_SIZE);
    if (item == NULL) {
        Py_XDECREF(rows);
        return FAILED;
    }
    PyTuple_SET_ITEM(item, ROWS_ITEM_table_map, Py_NewRef(table_map));
    PyTuple_SET_ITEM(item, ROWS_ITEM_rows, rows);
    int failed = PyList_Append(found, item);
    Py_DECREF(item);
    return failed < 0 ? FAILED : TAKEN;
}

static Outcome take_event(const Run *run, const Raw *raw, PyObject *found)
{
    if (raw->data[4] == TABLE_MAP)
        return take_table_map(run, raw->data, raw->size);
    PyObject *code = PyLong_FromLong(raw->data[4]);
    PyObject *form = code == NULL ? NULL : PyDict_GetItemWithError(run->forms, code);
    Py_XDECREF(code);
    if (form == NULL)
        return PyErr_Occurred() ? FAILED : DECLINED;
    return take_rows(run, form, raw, found);
}

/* Whether it is a list, or Events of this type. */
static int is_run(PyObject *module, PyObject *events)
{
    return PyList_Check(events) || Py_IS_TYPE(events, types_of(module)->events);
}

/* Reads what the two loops are given; 0 with an exception. */
static int run_of(PyObject *module, PyObject *events, PyObject *state, PyObject *item, Run *run)
{
    if (!is_run(module, events) || !is_structure(module, state, STREAM_STATE) || !is_named(item)) {
        PyErr_SetString(PyExc_TypeError, "events, a StreamState, and the type of items");
        return 0;
    }
    *run = (Run){
        .module = module,
        .bodies = PyTuple_GET_ITEM(state, STREAM_STATE_bodies),
        .wanted = PyTuple_GET_ITEM(state, STREAM_STATE_wanted),
        .maps = PyTuple_GET_ITEM(state, STREAM_STATE_maps),
        .forms = PyTuple_GET_ITEM(state, STREAM_STATE_forms),
        .sessions = PyTuple_GET_ITEM(state, STREAM_STATE_sessions),
        .rows = class_of(module, ROWS),
        .item = (PyTypeObject *)item,
        .events = events,
        .listed = PyList_Check(events),
        .type = class_of(module, CHECKED_EVENT),
    };
    if (run->rows == NULL || run->type == NULL)
        return 0;
    Py_ssize_t trailing = PyLong_AsSsize_t(PyTuple_GET_ITEM(state, STREAM_STATE_trailing));
    if (trailing < 0 || !PyDict_Check(run->bodies) || !PyDict_Check(run->wanted) || !PyDict_Check(run->maps) || !PyDict_Check(run->forms)
        || !PyDict_Check(run->sessions)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a StreamState of other things");
        return 0;
    }
    run->trailing = (size_t)trailing;
    return 1;
}

/* rows_of(events, at, state, type of items) -> FoundRows */
PyObject *native_rows_of(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Run run;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "rows_of(events, at, state, type)");
        return NULL;
    }
    if (!run_of(self, args[0], args[2], args[3], &run))
        return NULL;
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), rows_size = 0, size = 0;
    if (PyErr_Occurred())
        return NULL;
    if (at < 0) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the events");
        return NULL;
    }
    PyObject *found = PyList_New(0);
    if (found == NULL)
        return NULL;
    for (Raw raw; raw_at(&run, at, &raw); at++) {
        Py_ssize_t before = PyList_GET_SIZE(found);
        Outcome done = take_event(&run, &raw, found);
        if (done == FAILED) {
            Py_DECREF(found);
            return NULL;
        }
        if (done == DECLINED)
            break;
        size += (Py_ssize_t)raw.size;
        if (PyList_GET_SIZE(found) > before)
            rows_size += (Py_ssize_t)raw.size;
    }
    PyObject *fields[FOUND_ROWS_SIZE] = {
        [FOUND_ROWS_items] = found,
        [FOUND_ROWS_rows_size] = PyLong_FromSsize_t(rows_size),
        [FOUND_ROWS_size] = PyLong_FromSsize_t(size),
        [FOUND_ROWS_end] = PyLong_FromSsize_t(at),
    };
    return named_made(class_of(self, FOUND_ROWS), fields, FOUND_ROWS_SIZE);
}

/* What begins a transaction: MySQL's source is 16 bytes (none: the transaction has no GTID), MariaDB's a domain. */
typedef struct {
    const uint8_t *source;
    uint64_t domain, number, server;
    int mariadb;
} Group;

/* Whether the rest of MySQL's event is what `parse_gtid` reads without a complaint: two times and a length. */
static int has_usual_tail(const uint8_t *at, size_t left)
{
    if (left < 7)
        return left == 0;
    size_t times = at[6] & 0x80 ? 14 : 7;
    if (left < times)
        return 0;
    at += times;
    left -= times;
    if (left == 0)
        return 1;
    if (*at == 0xFC)
        return left >= 3;
    if (*at == 0xFD)
        return left >= 4;
    return *at <= MOST_PACKED;
}

static int group_of(const uint8_t *data, size_t size, Group *group)
{
    const uint8_t *body = data + HEADER_SIZE;
    size_t left = size - HEADER_SIZE;
    memset(group, 0, sizeof *group);
    group->server = little(data + 5, 4);
    if (data[4] == MARIADB_GTID) {
        /* Of the flags: no single statement, no DDL, no XA; a group commit's id; nothing after them but padding. */
        if (left < 13 || body[12] & (0x01 | 0x20 | 0x40 | 0x80))
            return 0;
        size_t extra = body[12] & 0x02 ? 21 : 13;
        if (left < extra || (left > extra && body[extra]))
            return 0;
        group->mariadb = 1;
        group->number = little(body, 8);
        group->domain = little(body + 8, 4);
        return 1;
    }
    if ((data[4] != GTID && data[4] != ANONYMOUS_GTID) || left < 42 || body[25] != 2 || !has_usual_tail(body + 42, left - 42))
        return 0;
    group->source = data[4] == GTID ? body + 1 : NULL;
    group->number = little(body + 17, 8);
    return group->source == NULL || (group->number != 0 && group->number >> 63 == 0);
}

/* Whether it is a BEGIN whose session, as bytes, is one of those that were read before. */
static Outcome take_begin(const uint8_t *data, size_t size, PyObject *sessions)
{
    const uint8_t *body = data + HEADER_SIZE;
    size_t left = size - HEADER_SIZE;
    if (data[4] != QUERY || left < 13)
        return DECLINED;
    size_t schema = body[8], status = (size_t)little(body + 11, 2);
    if (left != 13 + status + schema + 1 + 5 || body[left - 6] || memcmp(body + left - 5, "BEGIN", 5) != 0)
        return DECLINED;
    for (size_t at = 0; at < schema; at++)
        if (body[13 + status + at] >= 0x80)
            return DECLINED;
    PyObject *session = PyBytes_FromStringAndSize((const char *)body + 13, (Py_ssize_t)status);
    if (session == NULL)
        return FAILED;
    PyObject *known = PyDict_GetItemWithError(sessions, session);
    Py_DECREF(session);
    return known != NULL ? TAKEN : PyErr_Occurred() ? FAILED : DECLINED;
}

typedef struct {
    Run run;
    PyTypeObject *made;
    size_t largest; /* bytes of rows events in a transaction */
} Stream;

/* An event that is long enough for what stands after its body; `end` is the end of the body. */
static int body_at(const Stream *stream, Py_ssize_t at, Raw *raw, size_t *end)
{
    if (!raw_at(&stream->run, at, raw) || raw->size < HEADER_SIZE + stream->run.trailing)
        return 0;
    *end = raw->size - stream->run.trailing;
    return 1;
}

/* Appends the transaction that begins at a place, moves the place after it. */
static Outcome take_transaction(const Stream *stream, Py_ssize_t *place, PyObject *found)
{
    Py_ssize_t at = *place;
    size_t end, total, rows_size = 0;
    Raw raw;
    Group group;
    if (!body_at(stream, at++, &raw, &end) || !group_of(raw.data, end, &group))
        return DECLINED;
    size_t announced = total = raw.size;
    if (!group.mariadb) {
        if (!body_at(stream, at++, &raw, &end))
            return DECLINED;
        Outcome begun = take_begin(raw.data, end, stream->run.sessions);
        if (begun != TAKEN)
            return begun;
        total += raw.size;
    }
    PyObject *items = PyList_New(0);
    if (items == NULL)
        return FAILED;
    Outcome done = DECLINED;
    for (; body_at(stream, at, &raw, &end); at++) {
        total += raw.size;
        if (raw.data[4] == XID) {
            done = end >= HEADER_SIZE + 8 ? TAKEN : DECLINED;
            at++;
            break;
        }
        if (raw.data[4] == ROWS_QUERY || raw.data[4] == MARIADB_ANNOTATE_ROWS)
            continue;
        Py_ssize_t before = PyList_GET_SIZE(items);
        done = take_event(&stream->run, &raw, items);
        if (done != TAKEN)
            break;
        done = DECLINED; /* as long as the end has not come */
        if (PyList_GET_SIZE(items) > before && (rows_size += raw.size) > stream->largest)
            break;
    }
    if (done == TAKEN) {
        PyObject *source = group.mariadb ? PyLong_FromUnsignedLongLong(group.domain)
            : group.source == NULL ? Py_NewRef(Py_None)
                                   : PyBytes_FromStringAndSize((const char *)group.source, 16);
        PyObject *fields[FOUND_TRANSACTION_SIZE] = {
            [FOUND_TRANSACTION_source] = source,
            [FOUND_TRANSACTION_number] = PyLong_FromUnsignedLongLong(group.number),
            [FOUND_TRANSACTION_server_id] = PyLong_FromUnsignedLongLong(group.server),
            [FOUND_TRANSACTION_timestamp] = PyLong_FromUnsignedLong((unsigned long)little(raw.data, 4)),
            [FOUND_TRANSACTION_items] = Py_NewRef(items),
            [FOUND_TRANSACTION_rows_size] = PyLong_FromSize_t(rows_size),
            [FOUND_TRANSACTION_size] = PyLong_FromSize_t(total - announced),
            [FOUND_TRANSACTION_length] = PyLong_FromSize_t(total),
        };
        PyObject *made = named_made(stream->made, fields, FOUND_TRANSACTION_SIZE);
        if (made == NULL || PyList_Append(found, made) < 0)
            done = FAILED;
        Py_XDECREF(made);
        *place = at;
    }
    Py_DECREF(items);
    if (done == DECLINED)
        done = take_back(&stream->run);
    if (PyList_GET_SIZE(stream->run.before) > 0
        && PyList_SetSlice(stream->run.before, 0, PyList_GET_SIZE(stream->run.before), NULL) < 0)
        return FAILED;
    return done;
}

/* transactions_of(events, at, state, largest, type of items) -> ([FoundTransaction], end) */
PyObject *native_transactions_of(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Stream stream;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "transactions_of(events, at, state, largest, type)");
        return NULL;
    }
    stream.made = class_of(self, FOUND_TRANSACTION);
    if (stream.made == NULL || !run_of(self, args[0], args[2], args[4], &stream.run))
        return NULL;
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), largest = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (at < 0 || largest < 0) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the events");
        return NULL;
    }
    stream.largest = (size_t)largest;
    PyObject *found = PyList_New(0), *before = PyList_New(0);
    Outcome done = found == NULL || before == NULL ? FAILED : TAKEN;
    stream.run.before = before;
    while (done == TAKEN)
        done = take_transaction(&stream, &at, found);
    Py_XDECREF(before);
    if (done == FAILED) {
        Py_XDECREF(found);
        return NULL;
    }
    if (at < count_of(&stream.run))
        types_of(self)->declines[DECLINED_transactions]++;
    return Py_BuildValue("(Nn)", found, at);
}
