/* The bodies of the two most frequent events, as `dm.binlog.rows` and `dm.binlog.reader` read them.
 *
 * Each takes what a handler of `EventParser` is given (data, start, end, header) behind arguments of its own, the last
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
    size_t fixed = args[1] == Py_True ? 10 : 8, images = PyUnicode_READ_CHAR(args[0], 0) == 'u' ? 2 : 1;
    if (!body_of(given, &data, &at, &end) || end - at < fixed + 1 || memcmp(data + at, no_table, sizeof no_table) == 0)
        return PyObject_Vectorcall(args[4], given, HANDLED, NULL);
    uint64_t table = little(data + at, 6);
    unsigned flags = (unsigned)little(data + at + 6, 2);
    if (fixed == 10) {
        size_t extra = (size_t)little(data + at + 8, 2);
        if (extra < 2 || end - at - 8 < extra + 1)
            return PyObject_Vectorcall(args[4], given, HANDLED, NULL);
        at += 8 + extra;
    } else {
        at += fixed;
    }
    size_t columns = data[at++], width = (columns + 7) / 8;
    if (columns == 0 || columns > MOST_PACKED || end - at < width * images)
        return PyObject_Vectorcall(args[4], given, HANDLED, NULL);
    PyTypeObject *type = (PyTypeObject *)args[3];
    PyObject *present = PyBytes_FromStringAndSize((const char *)data + at, (Py_ssize_t)width);
    PyObject *after = images == 1 ? Py_XNewRef(present)
                                  : PyBytes_FromStringAndSize((const char *)data + at + width, (Py_ssize_t)width);
    at += width * images;
    PyObject *fields[] = {
        Py_NewRef(args[0]), PyLong_FromUnsignedLongLong(table), PyLong_FromSize_t(columns), present, after,
        Py_NewRef(given[0]), PyLong_FromSize_t(at), Py_NewRef(given[2]), PyLong_FromUnsignedLong(flags),
        Py_NewRef(args[2]),
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
