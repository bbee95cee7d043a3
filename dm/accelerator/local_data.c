/* Rows as the data of LOAD DATA: what `dm.loader.local_data` makes of Arrow's columns, without a step per column. */
#include "native.h"

#define MOST_COLUMNS 0xFFFF
#define LONG 4096 /* of longer values the escapes are counted before there is room for them */

typedef struct {
    Py_buffer valid; /* a bit per value; no memory where all are there */
    Py_buffer offsets;
    Py_buffer values;
    size_t first; /* where the column begins in its buffers */
} Column;

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static char escape_of(uint8_t byte)
{
    return byte == '\\' ? '\\' : byte == '\t' ? 't' : byte == '\n' ? 'n' : 0;
}

/* Not zero where one of eight bytes is this one. */
static inline uint64_t among(uint64_t eight, uint8_t byte)
{
    uint64_t zero = eight ^ EACH_BYTE(byte);
    return (zero - EACH_BYTE(1)) & ~zero & EACH_BYTE(0x80);
}

static size_t escapes(const uint8_t *bytes, size_t size)
{
    size_t found = 0;
    for (size_t at = 0; at < size; at++)
        found += (bytes[at] == '\\') + (bytes[at] == '\t') + (bytes[at] == '\n');
    return found;
}

/* Append a value; after it the memory of its column goes on to `readable` bytes from its beginning. Steps are of eight
   bytes, the last one too where there are as many to read: most values are shorter than two steps. What it writes too
   much is written over by what comes next; what it looks at too much can only send it the slow way. */
static int put(Text *text, const uint8_t *bytes, size_t size, size_t readable)
{
    if (!text_reserve(text, (size > LONG ? size + escapes(bytes, size) : 2 * size) + sizeof(uint64_t)))
        return 0;
    uint8_t *to = (uint8_t *)text->bytes + text->length;
    for (size_t at = 0; at < size;) {
        size_t end = size - at < sizeof(uint64_t) ? size : at + sizeof(uint64_t);
        if (readable - at >= sizeof(uint64_t)) {
            uint64_t eight;
            memcpy(&eight, bytes + at, sizeof eight);
            if (!(among(eight, '\\') | among(eight, '\t') | among(eight, '\n'))) {
                memcpy(to, &eight, sizeof eight);
                to += end - at;
                at = end;
                continue;
            }
        }
        for (; at < end; at++) {
            char escape = escape_of(bytes[at]);
            if (escape)
                *to++ = '\\';
            *to++ = escape ? (uint8_t)escape : bytes[at];
        }
    }
    text->length = (size_t)(to - (uint8_t *)text->bytes);
    return 1;
}

/* Append a value; 0 with an exception where there is no memory, or where it is none of its column. */
static int put_value(Text *text, const Column *column, size_t row)
{
    size_t at = column->first + row;
    if (column->valid.obj != NULL && !(((const uint8_t *)column->valid.buf)[at / 8] >> at % 8 & 1)) {
        if (!text_reserve(text, 2))
            return 0;
        memcpy(text->bytes + text->length, "\\N", 2);
        text->length += 2;
        return 1;
    }
    int32_t place[2];
    memcpy(place, (const uint8_t *)column->offsets.buf + at * sizeof *place, sizeof place);
    if (place[0] < 0 || place[1] < place[0] || place[1] > column->values.len) {
        PyErr_SetString(PyExc_ValueError, "a value outside of its column");
        return 0;
    }
    const uint8_t *bytes = (const uint8_t *)column->values.buf + place[0];
    return put(text, bytes, (size_t)(place[1] - place[0]), (size_t)(column->values.len - place[0]));
}

static int put_row(Text *text, const Column *columns, Py_ssize_t width, size_t row)
{
    for (Py_ssize_t column = 0; column < width; column++) {
        if (!put_value(text, &columns[column], row) || !text_reserve(text, 1))
            return 0;
        text->bytes[text->length++] = column + 1 < width ? '\t' : '\n';
    }
    return 1;
}

/* The buffers of an ArrowColumn; 0 with an exception unless they hold so many rows. */
static int read_column(PyObject *given, Column *column, Py_ssize_t rows)
{
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != ARROW_COLUMN_SIZE) {
        PyErr_SetString(PyExc_TypeError, "a column is an ArrowColumn");
        return 0;
    }
    PyObject *valid = PyTuple_GET_ITEM(given, ARROW_COLUMN_valid);
    PyObject *offsets = PyTuple_GET_ITEM(given, ARROW_COLUMN_offsets);
    PyObject *values = PyTuple_GET_ITEM(given, ARROW_COLUMN_values);
    Py_ssize_t first = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, ARROW_COLUMN_first));
    if (first == -1 && PyErr_Occurred())
        return 0;
    if ((valid != Py_None && PyObject_GetBuffer(valid, &column->valid, PyBUF_SIMPLE) < 0)
        || PyObject_GetBuffer(offsets, &column->offsets, PyBUF_SIMPLE) < 0
        || PyObject_GetBuffer(values, &column->values, PyBUF_SIMPLE) < 0)
        return 0;
    Py_ssize_t places = column->offsets.len / (Py_ssize_t)sizeof(int32_t);
    if (first < 0 || rows > places - 1 || first > places - 1 - rows
        || (valid != Py_None && (first + rows + 7) / 8 > column->valid.len)) {
        PyErr_SetString(PyExc_ValueError, "a column has fewer rows");
        return 0;
    }
    column->first = (size_t)first;
    return 1;
}

/* local_data(columns, start, rows, size) -> (data, row after): the rows from `start` on, up to so many bytes or more */
PyObject *native_local_data(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count != 4 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) > MOST_COLUMNS || !PyTuple_GET_SIZE(args[0])) {
        PyErr_SetString(PyExc_TypeError, "local_data(columns, start, rows, size)");
        return NULL;
    }
    Py_ssize_t row = PyLong_AsSsize_t(args[1]), rows = PyLong_AsSsize_t(args[2]), size = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (row < 0 || rows < row) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the rows");
        return NULL;
    }
    Py_ssize_t width = PyTuple_GET_SIZE(args[0]);
    Column *columns = PyMem_Calloc((size_t)width, sizeof(Column));
    if (columns == NULL)
        return PyErr_NoMemory();
    Text text = {NULL, 0, 0};
    PyObject *answer = NULL;
    int fine = 1;
    for (Py_ssize_t column = 0; fine && column < width; column++)
        fine = read_column(PyTuple_GET_ITEM(args[0], column), &columns[column], rows);
    for (; fine && row < rows && text.length < (size_t)(size > 0 ? size : 1); row++)
        fine = put_row(&text, columns, width, (size_t)row);
    if (fine)
        answer = Py_BuildValue("(y#n)", text.bytes ? text.bytes : "", (Py_ssize_t)text.length, row);
    PyMem_Free(text.bytes);
    for (Py_ssize_t column = 0; column < width; column++) {
        PyBuffer_Release(&columns[column].valid);
        PyBuffer_Release(&columns[column].offsets);
        PyBuffer_Release(&columns[column].values);
    }
    PyMem_Free(columns);
    return answer;
}
