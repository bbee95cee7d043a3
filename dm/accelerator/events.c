/* The bodies of the two most frequent events, as `dm.binlog.rows` and `dm.binlog.reader` read them.
 *
 * `rows_of` takes as many of both as stand together. Each of the other two takes what a handler of `EventParser` is given (data, start, end, header) behind arguments of its own, the last
 * of which is the handler in Python; that is called for whatever is not taken here.
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

/* The Rows of an event whose images end at `end`; its parts are kind, version 2 (not looked at), partial. */
static PyObject *rows_made(
    PyTypeObject *type, PyObject *kind, PyObject *partial, PyObject *bytes, const Fixed *fixed, int images, size_t end
)
{
    const char *bitmap = PyBytes_AS_STRING(bytes) + fixed->at;
    PyObject *present = PyBytes_FromStringAndSize(bitmap, (Py_ssize_t)fixed->width);
    PyObject *after = images == 1 ? Py_XNewRef(present)
                                  : PyBytes_FromStringAndSize(bitmap + fixed->width, (Py_ssize_t)fixed->width);
    PyObject *fields[] = {
        Py_NewRef(kind), PyLong_FromUnsignedLongLong(fixed->table), PyLong_FromSize_t(fixed->columns), present, after,
        Py_NewRef(bytes), PyLong_FromSize_t(fixed->at + fixed->width * (size_t)images), PyLong_FromSize_t(end),
        PyLong_FromUnsignedLong(fixed->flags), Py_NewRef(partial),
    };
    const Py_ssize_t size = sizeof fields / sizeof *fields;
    int missing = 0;
    for (Py_ssize_t field = 0; field < size; field++)
        missing |= fields[field] == NULL;
    PyObject *rows = missing ? NULL : type->tp_alloc(type, size);
    for (Py_ssize_t field = 0; field < size; field++)
        if (rows != NULL)
            PyTuple_SET_ITEM(rows, field, fields[field]);
        else
            Py_XDECREF(fields[field]);
    return rows;
}

static int images_of(PyObject *kind)
{
    return PyUnicode_READ_CHAR(kind, 0) == 'u' ? 2 : 1;
}

/* rows_event(kind, version 2, partial, type of the result, handler, data, start, end, header) -> Rows */
PyObject *native_rows_event(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    const uint8_t *data;
    size_t at, end;
    if (count != 5 + HANDLED || !is_named(args[3]) || !PyUnicode_Check(args[0]) || !PyUnicode_GET_LENGTH(args[0])) {
        PyErr_SetString(PyExc_TypeError, "rows_event(kind, version 2, partial, type, handler, data, start, end, header)");
        return NULL;
    }
    PyObject *const *given = args + 5;
    Fixed fixed;
    int images = images_of(args[0]);
    if (!body_of(given, &data, &at, &end) || !fixed_of(data, at, end, args[1] == Py_True, images, &fixed))
        return PyObject_Vectorcall(args[4], given, HANDLED, NULL);
    return rows_made((PyTypeObject *)args[3], args[0], args[2], given[0], &fixed, images, end);
}

/* table_map_event(known by body, handler, data, start, end, header) -> TableMap */
PyObject *native_table_map_event(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    const uint8_t *data;
    size_t at, end;
    if (count != 2 + HANDLED || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "table_map_event(known, handler, data, start, end, header)");
        return NULL;
    }
    if (body_of(args + 2, &data, &at, &end)) {
        PyObject *body = PyBytes_FromStringAndSize((const char *)data + at, (Py_ssize_t)(end - at));
        if (body == NULL)
            return NULL;
        PyObject *known = PyDict_GetItemWithError(args[0], body);
        Py_XINCREF(known);
        Py_DECREF(body);
        if (known != NULL || PyErr_Occurred())
            return known;
    }
    return PyObject_Vectorcall(args[1], args + 2, HANDLED, NULL);
}

#define TABLE_MAP 19
#define HEADER_SIZE 19
#define TABLE_ID_SIZE 6

typedef struct {
    PyObject *bodies; /* dict: the body of a table map -> the table map */
    PyObject *maps;   /* dict: its number -> the table map, or None if its rows are passed over */
    PyObject *forms;  /* dict: event type -> (kind, version 2, compressed, partial) */
    PyTypeObject *rows, *item;
    size_t trailing; /* bytes behind the body */
} Run;

/* The table map in force under a number; borrowed, NULL for none. */
static PyObject *map_of(const Run *run, uint64_t table)
{
    PyObject *number = PyLong_FromUnsignedLongLong(table);
    PyObject *known = number == NULL ? NULL : PyDict_GetItemWithError(run->maps, number);
    Py_XDECREF(number);
    return known;
}

static Outcome take_table_map(const Run *run, const uint8_t *data, size_t size)
{
    if (size < HEADER_SIZE + run->trailing + TABLE_ID_SIZE)
        return DECLINED;
    PyObject *body = PyBytes_FromStringAndSize(
        (const char *)data + HEADER_SIZE, (Py_ssize_t)(size - run->trailing - HEADER_SIZE)
    );
    if (body == NULL)
        return FAILED;
    PyObject *known = PyDict_GetItemWithError(run->bodies, body);
    Py_DECREF(body);
    if (known != NULL && map_of(run, little(data + HEADER_SIZE, TABLE_ID_SIZE)) == known)
        return TAKEN;
    return PyErr_Occurred() ? FAILED : DECLINED;
}

/* The form's fields, borrowed; 0 if it has not the form of one. */
static int form_of(PyObject *form, PyObject **kind, PyObject **version2, PyObject **partial)
{
    if (!PyTuple_Check(form) || PyTuple_GET_SIZE(form) != 4)
        return 0;
    *kind = PyTuple_GET_ITEM(form, 0);
    *version2 = PyTuple_GET_ITEM(form, 1);
    *partial = PyTuple_GET_ITEM(form, 3);
    return PyUnicode_Check(*kind) && PyUnicode_GET_LENGTH(*kind) > 0;
}

static Outcome take_rows(const Run *run, PyObject *form, PyObject *bytes, PyObject *found)
{
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(bytes);
    size_t size = (size_t)PyBytes_GET_SIZE(bytes);
    PyObject *kind, *version2, *partial;
    Fixed fixed;
    if (!form_of(form, &kind, &version2, &partial) || size < HEADER_SIZE + run->trailing)
        return DECLINED;
    size_t end = size - run->trailing;
    int images = images_of(kind);
    if (!fixed_of(data, HEADER_SIZE, end, version2 == Py_True, images, &fixed))
        return DECLINED;
    PyObject *table_map = map_of(run, fixed.table);
    if (table_map == NULL)
        return PyErr_Occurred() ? FAILED : DECLINED;
    if (table_map == Py_None)
        return TAKEN;
    PyObject *rows = rows_made(run->rows, kind, partial, bytes, &fixed, images, end);
    PyObject *item = rows == NULL ? NULL : run->item->tp_alloc(run->item, 2);
    if (item == NULL) {
        Py_XDECREF(rows);
        return FAILED;
    }
    PyTuple_SET_ITEM(item, 0, Py_NewRef(table_map));
    PyTuple_SET_ITEM(item, 1, rows);
    int failed = PyList_Append(found, item);
    Py_DECREF(item);
    return failed < 0 ? FAILED : TAKEN;
}

static Outcome take_event(const Run *run, PyObject *event, PyTypeObject *type, PyObject *found, size_t *size)
{
    if (!Py_IS_TYPE(event, type) || PyTuple_GET_SIZE(event) != 2 || !PyBytes_CheckExact(PyTuple_GET_ITEM(event, 1)))
        return DECLINED;
    PyObject *bytes = PyTuple_GET_ITEM(event, 1);
    *size = (size_t)PyBytes_GET_SIZE(bytes);
    if (*size < HEADER_SIZE)
        return DECLINED;
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(bytes);
    if (data[4] == TABLE_MAP)
        return take_table_map(run, data, *size);
    PyObject *code = PyLong_FromLong(data[4]);
    PyObject *form = code == NULL ? NULL : PyDict_GetItemWithError(run->forms, code);
    Py_XDECREF(code);
    if (form == NULL)
        return PyErr_Occurred() ? FAILED : DECLINED;
    return take_rows(run, form, bytes, found);
}

/* rows_of(events, at, trailing, bodies, maps, forms, event type, type of rows, type of items) -> (items, bytes, end) */
PyObject *native_rows_of(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count != 9 || !PyList_Check(args[0]) || !PyDict_Check(args[3]) || !PyDict_Check(args[4]) || !PyDict_Check(args[5])
        || !is_named(args[6]) || !is_named(args[7]) || !is_named(args[8])) {
        PyErr_SetString(PyExc_TypeError, "rows_of(events, at, trailing, bodies, maps, forms, type, type, type)");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), trailing = PyLong_AsSsize_t(args[2]), size = 0;
    if (PyErr_Occurred())
        return NULL;
    if (at < 0 || trailing < 0) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the events");
        return NULL;
    }
    Run run = {args[3], args[4], args[5], (PyTypeObject *)args[7], (PyTypeObject *)args[8], (size_t)trailing};
    PyObject *found = PyList_New(0);
    if (found == NULL)
        return NULL;
    for (; at < PyList_GET_SIZE(args[0]); at++) {
        size_t length = 0;
        Outcome done = take_event(&run, PyList_GET_ITEM(args[0], at), (PyTypeObject *)args[6], found, &length);
        if (done == FAILED) {
            Py_DECREF(found);
            return NULL;
        }
        if (done == DECLINED)
            break;
        size += (Py_ssize_t)length;
    }
    return Py_BuildValue("(Nnn)", found, size, at);
}
