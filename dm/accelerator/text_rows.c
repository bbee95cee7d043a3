/* Rows of the text protocol, cut out of packets into columns: the loop of `dm.dumpfiles.text_rows`, which leaves the buffers
 * that Arrow takes as they are. One row costs no object of Python's.
 */
#include "native.h"

#define PACKET_HEAD 4
#define FULL_PACKET 0xFFFFFF /* a row that goes on in the next packet */
#define END_OR_LONG 0xFE
#define ERROR_OR_NOTHING 0xFF
#define NULL_VALUE 0xFB
#define FIRST_ROWS 1024
#define FIRST_BYTES 4096
#define LARGE (1 << 26) /* bytes of a column that are no rule for those to come */
#define SHORT 16

typedef struct {
    const uint8_t *bytes; /* NULL: the value is NULL */
    size_t size;
} Value;

typedef struct {
    PyObject *values;  /* a bytes object of which `length` are used */
    PyObject *offsets; /* the same, an int32 per row and one more */
    PyObject *valid;   /* the same, a bit per row; NULL as long as no value is NULL */
    size_t length;
    size_t nulls;
    size_t expected; /* bytes that the rows before had */
} Column;

typedef struct {
    PyObject_HEAD
    PyTypeObject *taken, *buffers; /* TakenRows, ColumnBuffers */
    Py_ssize_t width;
    size_t rows;
    size_t room; /* for how many rows there are offsets and bits */
    Column *columns;
    Value *row; /* the values of the row that is looked at */
} TextRows;

/* Make a bytes object that nobody else knows exactly so large; 0 with an exception. */
static int resized(PyObject **bytes, size_t size)
{
    if (*bytes == NULL)
        *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    else
        _PyBytes_Resize(bytes, (Py_ssize_t)size);
    return *bytes != NULL;
}

/* Find the values of the row bytes[0:size]; 0 where it is not `width` values and nothing else. */
static int split(const TextRows *rows, const uint8_t *bytes, size_t size)
{
    const uint8_t *end = bytes + size;
    for (Py_ssize_t column = 0; column < rows->width; column++) {
        if (bytes == end)
            return 0;
        Value *value = &rows->row[column];
        uint64_t length = *bytes++;
        if (length == NULL_VALUE) {
            value->bytes = NULL;
            value->size = 0;
            continue;
        }
        if (length > NULL_VALUE) {
            size_t width = length == 0xFC ? 2 : length == 0xFD ? 3 : length == 0xFE ? 8 : 0;
            if (width == 0 || (size_t)(end - bytes) < width)
                return 0;
            length = little(bytes, width);
            bytes += width;
        }
        if ((uint64_t)(end - bytes) < length)
            return 0;
        value->bytes = bytes;
        value->size = (size_t)length;
        bytes += length;
    }
    return bytes == end;
}

static size_t bitmap_size(size_t rows)
{
    return (rows + 7) / 8;
}

/* A bitmap for so many rows in which whatever is new is no NULL. */
static int valid_for(Column *column, size_t rows)
{
    size_t known = column->valid == NULL ? 0 : (size_t)PyBytes_GET_SIZE(column->valid);
    if (!resized(&column->valid, bitmap_size(rows)))
        return 0;
    memset(PyBytes_AS_STRING(column->valid) + known, 0xFF, bitmap_size(rows) - known);
    return 1;
}

/* Room for more rows, twice as many as there were. */
static int more_rows(TextRows *rows)
{
    size_t room = FIRST_ROWS;
    while (room <= rows->rows)
        room *= 2;
    rows->room = 0; /* none, where there is no memory for all of it */
    for (Py_ssize_t at = 0; at < rows->width; at++) {
        Column *column = &rows->columns[at];
        if (!resized(&column->offsets, (room + 1) * sizeof(int32_t)))
            return 0;
        if (column->valid != NULL && !valid_for(column, room))
            return 0;
    }
    rows->room = room;
    return 1;
}

/* Room for more bytes of a column, which begins with what the rows before took. `needed` is at most what an offset can
 * say, and the room never is more: so whatever fits has an offset. */
static int more_bytes(Column *column, size_t needed)
{
    size_t room = column->values == NULL ? 0 : (size_t)PyBytes_GET_SIZE(column->values);
    room = room ? 2 * room : column->expected + FIRST_BYTES;
    while (room < needed)
        room *= 2;
    return resized(&column->values, room < INT32_MAX ? room : INT32_MAX);
}

/* Copy a value. Most are short: where there is room on both sides, 16 bytes are copied whatever its size. */
static inline void copy_value(uint8_t *to, size_t room, const Value *value, const uint8_t *end)
{
    if (value->size <= SHORT && room >= SHORT && (size_t)(end - value->bytes) >= SHORT)
        memcpy(to, value->bytes, SHORT);
    else if (value->size)
        memcpy(to, value->bytes, value->size);
}

/* Let go of all rows. */
static void forget(TextRows *rows)
{
    for (Py_ssize_t at = 0; at < rows->width; at++) {
        Column *column = &rows->columns[at];
        Py_CLEAR(column->values);
        Py_CLEAR(column->offsets);
        Py_CLEAR(column->valid);
        column->length = column->nulls = 0;
    }
    rows->rows = rows->room = 0;
}

/* Append the row that was split, of bytes up to `end`; 0 with an exception. */
static int append_values(TextRows *rows, const uint8_t *end)
{
    size_t row = rows->rows;
    if (row >= rows->room && !more_rows(rows))
        return 0;
    for (Py_ssize_t at = 0; at < rows->width; at++) {
        Column *column = &rows->columns[at];
        const Value *value = &rows->row[at];
        if (value->bytes == NULL) {
            if (column->valid == NULL && !valid_for(column, rows->room))
                return 0;
            PyBytes_AS_STRING(column->valid)[row / 8] &= (char)~(1 << row % 8);
            column->nulls++;
        } else {
            size_t room = column->values == NULL ? 0 : (size_t)PyBytes_GET_SIZE(column->values) - column->length;
            if (room < value->size) {
                if (value->size > INT32_MAX - column->length) {
                    PyErr_SetString(PyExc_OverflowError, "a column of a batch has 2 GiB");
                    return 0;
                }
                if (!more_bytes(column, column->length + value->size))
                    return 0;
                room = (size_t)PyBytes_GET_SIZE(column->values) - column->length;
            }
            if (value->size)
                copy_value((uint8_t *)PyBytes_AS_STRING(column->values) + column->length, room, value, end);
            column->length += value->size;
        }
        int32_t after = (int32_t)column->length;
        memcpy(PyBytes_AS_STRING(column->offsets) + (row + 1) * sizeof after, &after, sizeof after);
    }
    rows->rows++;
    return 1;
}

/* The same, but rows of which one is half there are none. */
static int append_row(TextRows *rows, const uint8_t *end)
{
    if (append_values(rows, end))
        return 1;
    forget(rows);
    return 0;
}

/* Bytes that a caller gives, a bytes object or a bytearray, from a place to a place in it. */
static const uint8_t *place_of(PyObject *const *args, Py_ssize_t *start, Py_ssize_t *end)
{
    const char *data = NULL;
    Py_ssize_t size = 0;
    if (PyBytes_Check(args[0])) {
        data = PyBytes_AS_STRING(args[0]);
        size = PyBytes_GET_SIZE(args[0]);
    } else if (PyByteArray_Check(args[0])) {
        data = PyByteArray_AS_STRING(args[0]);
        size = PyByteArray_GET_SIZE(args[0]);
    } else {
        PyErr_SetString(PyExc_TypeError, "the bytes are not bytes");
        return NULL;
    }
    *start = PyLong_AsSsize_t(args[1]);
    *end = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (*start < 0 || *end < *start || *end > size) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the bytes");
        return NULL;
    }
    return (const uint8_t *)data;
}

/* run(data, start, end, rows, size) -> TakenRows: whole packets with a row each, until there are so many rows
 * or bytes, or something else comes. */
static PyObject *run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    TextRows *rows = (TextRows *)self;
    Py_ssize_t start, stop;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "run(data, start, end, rows, size)");
        return NULL;
    }
    const uint8_t *data = place_of(args, &start, &stop);
    if (data == NULL)
        return NULL;
    Py_ssize_t most_rows = PyLong_AsSsize_t(args[3]), most_size = PyLong_AsSsize_t(args[4]), size = 0, taken = 0;
    if (PyErr_Occurred())
        return NULL;
    size_t at = (size_t)start, end = (size_t)stop;
    while (taken < most_rows && size < most_size && end - at > PACKET_HEAD) {
        size_t length = (size_t)little(data + at, 3);
        const uint8_t *row = data + at + PACKET_HEAD;
        if (length == 0 || length == FULL_PACKET || end - at - PACKET_HEAD < length || *row == ERROR_OR_NOTHING
            || (*row == END_OR_LONG && length < 9) || !split(rows, row, length))
            break;
        if (!append_row(rows, data + end))
            return NULL;
        at += PACKET_HEAD + length;
        size += (Py_ssize_t)length;
        taken++;
    }
    PyObject *fields[TAKEN_ROWS_SIZE] = {
        [TAKEN_ROWS_at] = PyLong_FromSize_t(at),
        [TAKEN_ROWS_rows] = PyLong_FromSsize_t(taken),
        [TAKEN_ROWS_size] = PyLong_FromSsize_t(size),
    };
    return named_made(rows->taken, fields, TAKEN_ROWS_SIZE);
}

/* row(data, start, end) -> whether these bytes are a row, which then is taken */
static PyObject *row(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    TextRows *rows = (TextRows *)self;
    Py_ssize_t start, end;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "row(data, start, end)");
        return NULL;
    }
    const uint8_t *data = place_of(args, &start, &end);
    if (data == NULL)
        return NULL;
    if (!split(rows, data + start, (size_t)(end - start)))
        Py_RETURN_FALSE;
    return append_row(rows, data + end) ? Py_NewRef(Py_True) : NULL;
}

/* The used part of a buffer, which is the caller's from here on. */
static PyObject *given_away(PyObject **bytes, size_t used)
{
    if (!resized(bytes, used))
        return NULL;
    PyObject *given = *bytes;
    *bytes = NULL;
    return given;
}

static PyObject *column_of(PyTypeObject *type, Column *column, size_t rows)
{
    Py_ssize_t nulls = (Py_ssize_t)column->nulls;
    int32_t first = 0;
    if (column->offsets == NULL && !resized(&column->offsets, sizeof first))
        return NULL;
    memcpy(PyBytes_AS_STRING(column->offsets), &first, sizeof first);
    if (nulls && rows % 8) /* bits after the last row are 0, so that the same rows are the same bytes */
        PyBytes_AS_STRING(column->valid)[rows / 8] &= (char)((1 << rows % 8) - 1);
    PyObject *valid = nulls ? given_away(&column->valid, bitmap_size(rows)) : Py_NewRef(Py_None);
    PyObject *offsets = given_away(&column->offsets, (rows + 1) * sizeof(int32_t));
    PyObject *values = given_away(&column->values, column->length);
    column->expected = column->length < LARGE ? column->length + column->length / 8 : 0;
    column->length = column->nulls = 0;
    PyObject *fields[COLUMN_BUFFERS_SIZE] = {
        [COLUMN_BUFFERS_nulls] = PyLong_FromSsize_t(nulls),
        [COLUMN_BUFFERS_valid] = valid,
        [COLUMN_BUFFERS_offsets] = offsets,
        [COLUMN_BUFFERS_values] = values,
    };
    return named_made(type, fields, COLUMN_BUFFERS_SIZE);
}

/* take() -> [ColumnBuffers of each column]; afterwards there are no rows */
static PyObject *take(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    TextRows *rows = (TextRows *)self;
    PyObject *found = PyList_New(rows->width);
    for (Py_ssize_t column = 0; found != NULL && column < rows->width; column++) {
        PyObject *made = column_of(rows->buffers, &rows->columns[column], rows->rows);
        if (made == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, column, made);
    }
    forget(rows); /* of which nothing is left, unless there was no memory */
    return found;
}

static void text_rows_dealloc(TextRows *rows)
{
    PyTypeObject *type = Py_TYPE(rows);
    if (rows->columns != NULL)
        forget(rows);
    PyMem_Free(rows->columns);
    PyMem_Free(rows->row);
    Py_XDECREF(rows->taken);
    Py_XDECREF(rows->buffers);
    type->tp_free((PyObject *)rows);
    Py_DECREF(type);
}

/* TextRows(width) */
static PyObject *text_rows_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    Py_ssize_t width;
    if (keywords != NULL && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "TextRows takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "n", &width))
        return NULL;
    if (width < 1 || width > 0xFFFF) {
        PyErr_SetString(PyExc_ValueError, "no row has that many columns");
        return NULL;
    }
    PyObject *module = PyType_GetModule(type);
    PyTypeObject *taken = module == NULL ? NULL : class_of(module, TAKEN_ROWS);
    PyTypeObject *buffers = taken == NULL ? NULL : class_of(module, COLUMN_BUFFERS);
    TextRows *rows = buffers == NULL ? NULL : (TextRows *)type->tp_alloc(type, 0);
    if (rows == NULL)
        return NULL;
    rows->taken = (PyTypeObject *)Py_NewRef(taken);
    rows->buffers = (PyTypeObject *)Py_NewRef(buffers);
    rows->columns = PyMem_Calloc((size_t)width, sizeof(Column));
    rows->row = PyMem_Calloc((size_t)width, sizeof(Value));
    if (rows->columns == NULL || rows->row == NULL) {
        Py_DECREF(rows); /* its width is 0 still */
        return PyErr_NoMemory();
    }
    rows->width = width;
    return (PyObject *)rows;
}

static PyMethodDef text_rows_methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "Take the rows of usual packets."},
    {"row", (PyCFunction)(void (*)(void))row, METH_FASTCALL, "Take one row."},
    {"take", take, METH_NOARGS, "The rows as columns."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot text_rows_slots[] = {
    {Py_tp_new, text_rows_new},
    {Py_tp_dealloc, text_rows_dealloc},
    {Py_tp_methods, text_rows_methods},
    {Py_tp_doc, "Rows of the text protocol, column by column."},
    {0, NULL},
};
static PyType_Spec text_rows_spec = {
    "dm.accelerator._native.TextRows", sizeof(TextRows), 0, Py_TPFLAGS_DEFAULT, text_rows_slots,
};

PyTypeObject *text_rows_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &text_rows_spec, NULL);
}
