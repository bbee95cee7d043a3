/* `dm.dumper.asked_paths`: how many numbers texts of JSON documents have, to know whether each was asked for. */
#include "native.h"

/* What a date, a time or bytes inside a document look like in its text. */
static int may_be_opaque(const uint8_t *text, size_t length)
{
    static const char bytes[] = "base64:type";
    if (length >= sizeof bytes - 1 && memcmp(text, bytes, sizeof bytes - 1) == 0)
        return 1;
    int parts = 0;
    if (length < 8)
        return 0;
    for (size_t at = 0; at < length; at++) {
        uint8_t byte = text[at];
        if (byte == ':' || (byte == '-' && at > 0))
            parts = 1;
        else if (!(byte >= '0' && byte <= '9') && byte != '.' && byte != ' ' && byte != '-')
            return 0;
    }
    return parts;
}

static int in_number(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '+' || byte == 'e' || byte == 'E';
}

/* How many a document has; -1 where a text in it may be something else, or has no end. */
static int64_t count_in(const uint8_t *at, const uint8_t *end)
{
    int64_t found = 0;
    while (at < end) {
        uint8_t byte = *at++;
        if (byte == '"') {
            const uint8_t *text = at;
            while (at < end && *at != '"')
                at += *at == '\\' ? 2 : 1;
            if (at >= end || may_be_opaque(text, (size_t)(at - text)))
                return -1;
            at++;
        } else if ((byte >= '0' && byte <= '9') || (byte == '-' && at < end && *at >= '0' && *at <= '9')) {
            found++;
            while (at < end && in_number(*at))
                at++;
        }
    }
    return found;
}

/* (offsets, values, documents): their number, or -1. */
PyObject *native_json_numbers(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "json_numbers takes offsets, values and how many documents");
        return NULL;
    }
    Py_ssize_t documents = PyLong_AsSsize_t(args[2]);
    if (documents == -1 && PyErr_Occurred())
        return NULL;
    Py_buffer offsets, values;
    if (PyObject_GetBuffer(args[0], &offsets, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[1], &values, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&offsets);
        return NULL;
    }
    int64_t found = 0;
    int sound = documents >= 0 && documents < offsets.len / 4;
    if (sound) {
        const uint8_t *places = offsets.buf, *text = values.buf;
        int64_t from = (int32_t)little(places, 4);
        for (Py_ssize_t at = 1; at <= documents && found >= 0; at++) {
            int64_t to = (int32_t)little(places + 4 * at, 4);
            if (from < 0 || to < from || to > values.len) {
                sound = 0;
                break;
            }
            int64_t more = from == to ? 0 : count_in(text + from, text + to);
            found = more < 0 ? -1 : found + more;
            from = to;
        }
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&offsets);
    if (!sound) {
        PyErr_SetString(PyExc_ValueError, "the offsets are not those of the values");
        return NULL;
    }
    return PyLong_FromLongLong(found);
}
