/* The events of a piece of a binlog file: the loop of `dm.binlog.frame.checked_events`. */
#include "native.h"

#define HEADER_SIZE 19
#define CRC_RESIDUE 0x2144DF1Cu
#define FORMAT_DESCRIPTION 15

static PyObject *header_of(const uint8_t *event, PyTypeObject *type)
{
    static const struct {
        uint8_t at, size;
    } fields[] = {{0, 4}, {4, 1}, {5, 4}, {9, 4}, {13, 4}, {17, 2}};
    PyObject *header = type->tp_alloc(type, 6);
    if (header == NULL)
        return NULL;
    for (int field = 0; field < 6; field++) {
        PyObject *number = PyLong_FromUnsignedLong((unsigned long)little(event + fields[field].at, fields[field].size));
        if (number == NULL) {
            Py_DECREF(header);
            return NULL;
        }
        PyTuple_SET_ITEM(header, field, number);
    }
    return header;
}

static PyObject *event_of(const uint8_t *event, size_t size, PyTypeObject *type, PyTypeObject *header_type)
{
    PyObject *made = type->tp_alloc(type, 2);
    if (made == NULL)
        return NULL;
    PyObject *header = header_of(event, header_type);
    PyObject *data = header == NULL ? NULL : PyBytes_FromStringAndSize((const char *)event, (Py_ssize_t)size);
    if (data == NULL) {
        Py_XDECREF(header);
        Py_DECREF(made);
        return NULL;
    }
    PyTuple_SET_ITEM(made, 0, header);
    PyTuple_SET_ITEM(made, 1, data);
    return made;
}

/* frames(data, start, end, checksum, place, event type, header type) -> (list of events, end of them) */
PyObject *native_frames(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count != 7 || !PyBytes_Check(args[0]) || !is_named(args[5]) || !is_named(args[6])) {
        PyErr_SetString(PyExc_TypeError, "frames(data, start, end, checksum, place, event type, header type)");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[1]), stop = PyLong_AsSsize_t(args[2]);
    int checksum = PyObject_IsTrue(args[3]);
    long long place = PyLong_AsLongLong(args[4]); /* of data[0] in the file; negative if nobody knows */
    if (PyErr_Occurred())
        return NULL;
    if (start < 0 || stop < start || stop > PyBytes_GET_SIZE(args[0])) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the bytes");
        return NULL;
    }
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(args[0]);
    size_t at = (size_t)start, end = (size_t)stop;
    PyObject *found = PyList_New(0);
    while (found != NULL && end - at >= HEADER_SIZE) {
        const uint8_t *event = data + at;
        size_t size = (size_t)little(event + 9, 4);
        if (size < HEADER_SIZE || size > end - at || event[4] == FORMAT_DESCRIPTION
            || (place >= 0 && (uint32_t)little(event + 13, 4) != (uint32_t)((uint64_t)place + at + size))
            || (checksum && crc32_of(event, size) != CRC_RESIDUE))
            break;
        PyObject *made = event_of(event, size, (PyTypeObject *)args[5], (PyTypeObject *)args[6]);
        if (made == NULL || PyList_Append(found, made) < 0)
            Py_CLEAR(found);
        Py_XDECREF(made);
        at += size;
    }
    return found == NULL ? NULL : Py_BuildValue("(Nn)", found, (Py_ssize_t)at);
}
