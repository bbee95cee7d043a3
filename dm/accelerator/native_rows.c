/* `dm.mysql.binlog.native_rows`: row images to tuples, as `dm.mysql.binlog.image` makes them, driven by a table of steps.
 *
 * A layout has a step for each column of a table. It comes from Python, which knows types; here it is only followed.
 * Types that are rare have a step that calls the Python function which makes their value.
 */
#include "image_proof.h"

#define DECIMAL_DIGITS 65

typedef struct {
    PyObject_HEAD
    Py_ssize_t columns;
    Py_ssize_t present;
    PyObject *absent;
    PyObject *unread; /* the value of a column that nobody asks for; NULL where all are made */
    Step *steps;
    Proof *proofs; /* NULL: any bytes that can be read will do */
} Layout;

typedef struct {
    const uint8_t *data;
    size_t at;
    size_t end;
    Text text;
} Cursor;

static const uint8_t group_bytes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};

static PyObject *padded(const uint8_t *bytes, size_t size, size_t wanted)
{
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)wanted);
    if (made != NULL) {
        memcpy(PyBytes_AS_STRING(made), bytes, size);
        memset(PyBytes_AS_STRING(made) + size, 0, wanted - size);
    }
    return made;
}

static PyObject *json(Cursor *cursor, const Step *step, const uint8_t *bytes, size_t size)
{
    switch (json_text(bytes, size, &cursor->text)) {
    case TAKEN:
        return PyUnicode_DecodeUTF8(cursor->text.bytes, (Py_ssize_t)cursor->text.length, NULL);
    case DECLINED:
        return called(step->call, bytes, size);
    default:
        return NULL;
    }
}

static PyObject *sized_value(Cursor *cursor, const Step *step, const uint8_t *bytes, size_t size)
{
    switch (step->kind) {
    case JSON:
        return json(cursor, step, bytes, size);
    case UTF8:
        return PyUnicode_DecodeUTF8((const char *)bytes, (Py_ssize_t)size, NULL);
    case CALL_SIZED:
        return called(step->call, bytes, size);
    default:
        if (size < step->size)
            return padded(bytes, size, step->size);
        return PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size);
    }
}

/* Whether a document can be read; nothing of it is kept. */
static int json_proven(const Step *step, const uint8_t *bytes, size_t size)
{
    int utf8;
    if (json_looked_at(bytes, size, &utf8) == TAKEN)
        return utf8;
    PyObject *value = PyErr_Occurred() ? NULL : called(step->call, bytes, size);
    Py_XDECREF(value);
    return value != NULL;
}

/* The next column's value; NULL, with an exception or without one, where it is not taken. */
static PyObject *value_of(Cursor *cursor, const Step *step, const Proof *proof, PyObject *unread)
{
    size_t left = cursor->end - cursor->at, size = step->size, width = step->width;
    const uint8_t *bytes = cursor->data + cursor->at;
    if (step->kind < BYTES || step->kind == CALL_FIXED) {
        if (left < size)
            return NULL;
        cursor->at += size;
        if (proof != NULL && !fixed_proven(step, proof, bytes))
            return NULL;
        return proof != NULL && proof->unread ? Py_NewRef(unread) : fixed_value(step, bytes);
    }
    if (left < width)
        return NULL;
    size = (size_t)little(bytes, width);
    if (left - width < size)
        return NULL;
    cursor->at += width + size;
    if (proof != NULL) {
        if (step->kind == CALL_SIZED || !sized_proven(proof, bytes + width, size))
            return NULL;
        if (step->kind == JSON && !json_proven(step, bytes + width, size))
            return NULL;
        if (proof->unread)
            return Py_NewRef(unread);
    }
    return sized_value(cursor, step, bytes + width, size);
}

/* The row at the cursor; NULL as above. */
static PyObject *image(Cursor *cursor, const Layout *layout)
{
    size_t nulls_size = (size_t)(layout->present + 7) / 8;
    if (cursor->end - cursor->at < nulls_size)
        return NULL;
    const uint8_t *nulls = cursor->data + cursor->at;
    cursor->at += nulls_size;
    PyObject *row = PyTuple_New(layout->columns);
    if (row == NULL)
        return NULL;
    size_t bit = 0;
    for (Py_ssize_t column = 0; column < layout->columns; column++) {
        const Step *step = &layout->steps[column];
        const Proof *proof = layout->proofs == NULL ? NULL : &layout->proofs[column];
        PyObject *value;
        if (step->kind == ABSENT)
            value = Py_NewRef(layout->absent);
        else if (nulls[bit >> 3] >> (bit & 7) & 1)
            value = proof == NULL || proof->nullable ? Py_NewRef(Py_None) : NULL;
        else
            value = value_of(cursor, step, proof, layout->unread);
        bit += step->kind != ABSENT;
        if (value == NULL) {
            Py_DECREF(row);
            return NULL;
        }
        PyTuple_SET_ITEM(row, column, value);
    }
    return row;
}

/* (before, after) of the next row change, with `raw` also the bytes of the two; NULL as above. */
static PyObject *change(Cursor *cursor, const Layout *before, const Layout *after, int raw)
{
    PyObject *pair = PyTuple_New(raw ? 4 : 2);
    if (pair == NULL)
        return NULL;
    const Layout *layouts[2] = {before, after};
    for (int side = 0; side < 2; side++) {
        size_t from = cursor->at;
        PyObject *row = layouts[side] == NULL ? Py_NewRef(Py_None) : image(cursor, layouts[side]), *bytes = NULL;
        if (row != NULL && raw)
            bytes = layouts[side] == NULL
                ? Py_NewRef(Py_None)
                : PyBytes_FromStringAndSize((const char *)cursor->data + from, (Py_ssize_t)(cursor->at - from));
        if (row == NULL || (raw && bytes == NULL)) {
            Py_XDECREF(row);
            Py_DECREF(pair);
            return NULL;
        }
        PyTuple_SET_ITEM(pair, side, row);
        if (raw)
            PyTuple_SET_ITEM(pair, 2 + side, bytes);
    }
    return pair;
}

/* The row changes of data[start:end] as a list; None where Python has to look. */
static PyObject *changes(const Layout *before, const Layout *after, PyObject *data, Py_ssize_t start, Py_ssize_t end, int raw)
{
    Py_ssize_t present = (before ? before->present : 0) + (after ? after->present : 0);
    if (!PyBytes_CheckExact(data) || start < 0 || start > end || end > PyBytes_GET_SIZE(data) || !present)
        Py_RETURN_NONE;
    Cursor cursor = {(const uint8_t *)PyBytes_AS_STRING(data), (size_t)start, (size_t)end, {NULL, 0, 0}};
    PyObject *found = PyList_New(0);
    while (found != NULL && cursor.at < cursor.end) {
        PyObject *pair = change(&cursor, before, after, raw);
        if (pair == NULL || PyList_Append(found, pair) < 0)
            Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    PyMem_Free(cursor.text.bytes);
    if (found != NULL)
        return found;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
            return NULL;
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

static int layout_of(PyObject *given, const PyTypeObject *type, Layout **layout)
{
    *layout = given == Py_None ? NULL : (Layout *)given;
    return given == Py_None || Py_TYPE(given) == type;
}

/* The answer; None is counted. */
static PyObject *counted(PyObject *module, PyObject *answer)
{
    if (answer == Py_None)
        types_of(module)->declines[DECLINED_rows]++;
    return answer;
}

/* decode(before or None, after or None, data, start, end) -> list of (before, after), or None where Python has to look */
PyObject *native_decode(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Layout *before, *after;
    const PyTypeObject *type = types_of(module)->layout;
    if (count != 5 || !layout_of(args[0], type, &before) || !layout_of(args[1], type, &after)) {
        PyErr_SetString(PyExc_TypeError, "decode(layout or None, layout or None, data, start, end)");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[3]), end = PyLong_AsSsize_t(args[4]);
    if (PyErr_Occurred())
        return NULL;
    return counted(module, changes(before, after, args[2], start, end, 0));
}

/* A new reference to the layout of these columns; NULL, perhaps with an exception, where there is none that fits. */
static Layout *known_layout(PyObject *layouts, PyObject *rows, int field, const PyTypeObject *type)
{
    PyObject *found = PyDict_GetItemWithError(layouts, PyTuple_GET_ITEM(rows, field));
    if (found == NULL || Py_TYPE(found) != type)
        return NULL;
    Py_ssize_t columns = PyLong_AsSsize_t(PyTuple_GET_ITEM(rows, ROWS_column_count));
    return columns == ((Layout *)found)->columns ? (Layout *)Py_NewRef(found) : NULL;
}

static PyObject *decoded_rows(PyObject *module, PyObject *const *args, Py_ssize_t count, int raw)
{
    const PyTypeObject *type = types_of(module)->layout;
    if (count != 2 || !PyDict_Check(args[0]) || !is_structure(module, args[1], ROWS)
        || !PyUnicode_Check(PyTuple_GET_ITEM(args[1], ROWS_kind)) || !PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(args[1], ROWS_kind))) {
        PyErr_SetString(PyExc_TypeError, "decode_rows(layouts, rows)");
        return NULL;
    }
    PyObject *rows = args[1], *answer = NULL;
    if (PyTuple_GET_ITEM(rows, ROWS_partial) != Py_False)
        Py_RETURN_NONE;
    Py_UCS4 kind = PyUnicode_READ_CHAR(PyTuple_GET_ITEM(rows, ROWS_kind), 0); /* insert, update, delete */
    /* Held while functions of Python are called, which could let another thread empty the dictionary. */
    Layout *before = kind == 'i' ? NULL : known_layout(args[0], rows, ROWS_present, type);
    Layout *after = kind == 'd' ? NULL : known_layout(args[0], rows, kind == 'u' ? ROWS_present_after : ROWS_present, type);
    Py_ssize_t start = PyLong_AsSsize_t(PyTuple_GET_ITEM(rows, ROWS_start));
    Py_ssize_t end = PyLong_AsSsize_t(PyTuple_GET_ITEM(rows, ROWS_end));
    if (!PyErr_Occurred()) {
        if ((before == NULL && kind != 'i') || (after == NULL && kind != 'd'))
            answer = Py_NewRef(Py_None);
        else {
            answer = changes(before, after, PyTuple_GET_ITEM(rows, ROWS_data), start, end, raw);
            answer = raw ? answer : counted(module, answer);
        }
    }
    Py_XDECREF(before);
    Py_XDECREF(after);
    return answer;
}

/* decode_rows(layouts by bitmap, rows) -> as decode; None also where a layout is missing */
PyObject *native_decode_rows(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return decoded_rows(module, args, count, 0);
}

/* proven_rows(layouts by bitmap, rows) -> list of (before, after, bytes before, bytes after); None where something was
 * not proven, or a layout is missing */
PyObject *native_proven_rows(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return decoded_rows(module, args, count, 1);
}

static int decimal_size(int digits)
{
    return digits / 9 * 4 + group_bytes[digits % 9];
}

/* Whether the numbers of a step are such that nothing above can leave its memory; fills in its size. */
static int sensible(Step *step)
{
    int fraction = (step->digits + 1) / 2;
    switch (step->kind) {
    case SIGNED: case UNSIGNED: case BIG_ENDIAN_NUMBER:
        return step->size >= 1 && step->size <= 8;
    case FLOAT: step->size = 4; return 1;
    case DOUBLE: step->size = 8; return 1;
    case YEAR: step->size = 1; return 1;
    case DATE: step->size = 3; return 1;
    case DECIMAL:
        step->size = (uint32_t)(decimal_size(step->width) + decimal_size(step->digits));
        return step->width + step->digits >= 1 && step->width + step->digits <= DECIMAL_DIGITS;
    case DATETIME2: step->size = 5 + (uint32_t)fraction; return step->digits <= 6;
    case TIMESTAMP2: step->size = 4 + (uint32_t)fraction; return step->digits <= 6;
    case TIME2: step->size = 3 + (uint32_t)fraction; return step->digits <= 6;
    case BYTES: case UTF8:
        return step->width >= 1 && step->width <= 4 && step->size <= 0xFFFF;
    case JSON: case CALL_SIZED:
        return step->width >= 1 && step->width <= 4 && step->call != NULL;
    case CALL_FIXED:
        return step->size <= 0xFFFF && step->call != NULL;
    default:
        return 0;
    }
}

static int number_at(PyObject *given, Py_ssize_t field, uint32_t most, uint32_t *number)
{
    unsigned long found = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(given, field));
    if (PyErr_Occurred())
        return 0;
    *number = (uint32_t)found;
    if (found > most)
        PyErr_SetString(PyExc_OverflowError, "a number of a step");
    return found <= most;
}

static int read_step(PyObject *given, Step *step)
{
    uint32_t kind, width, digits;
    if (given == Py_None) {
        step->kind = ABSENT;
        return 1;
    }
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != ROW_STEP_SIZE) {
        PyErr_SetString(PyExc_TypeError, "a step is a RowStep");
        return 0;
    }
    if (!number_at(given, ROW_STEP_kind, UINT8_MAX, &kind) || !number_at(given, ROW_STEP_width, UINT8_MAX, &width)
        || !number_at(given, ROW_STEP_digits, UINT8_MAX, &digits)
        || !number_at(given, ROW_STEP_size, UINT32_MAX, &step->size))
        return 0;
    step->kind = (uint8_t)kind;
    step->width = (uint8_t)width;
    step->digits = (uint8_t)digits;
    PyObject *call = PyTuple_GET_ITEM(given, ROW_STEP_function);
    step->call = call == Py_None ? NULL : Py_NewRef(call);
    if (kind == ABSENT || !sensible(step)) {
        PyErr_SetString(PyExc_ValueError, "no step has these numbers");
        return 0;
    }
    return 1;
}

static void layout_dealloc(Layout *layout)
{
    PyTypeObject *type = Py_TYPE(layout);
    if (layout->steps != NULL)
        for (Py_ssize_t column = 0; column < layout->columns; column++)
            Py_XDECREF(layout->steps[column].call);
    PyMem_Free(layout->steps);
    PyMem_Free(layout->proofs);
    Py_XDECREF(layout->absent);
    Py_XDECREF(layout->unread);
    type->tp_free((PyObject *)layout);
    Py_DECREF(type);
}

/* Takes what makes a layout one that proves its images. */
static int read_proofs(Layout *layout, PyObject *proofs, PyObject *unread)
{
    layout->unread = Py_NewRef(unread);
    layout->proofs = PyMem_Calloc((size_t)layout->columns + 1, sizeof(Proof));
    if (layout->proofs == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    if (PyTuple_GET_SIZE(proofs) != layout->columns) {
        PyErr_SetString(PyExc_ValueError, "a proof for each step");
        return 0;
    }
    for (Py_ssize_t column = 0; column < layout->columns; column++)
        if (!read_proof(PyTuple_GET_ITEM(proofs, column), &layout->proofs[column]))
            return 0;
    return 1;
}

/* Layout(steps, absent): a step or None for each column, and the value of a column that the image does not hold.
 * Layout(steps, absent, proofs, unread): one that proves what it reads. */
static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *steps, *absent, *proofs = NULL, *unread = NULL;
    if (keywords != NULL && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "Layout takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O|O!O", &PyTuple_Type, &steps, &absent, &PyTuple_Type, &proofs, &unread))
        return NULL;
    if ((proofs == NULL) != (unread == NULL)) {
        PyErr_SetString(PyExc_TypeError, "Layout(steps, absent, proofs, unread)");
        return NULL;
    }
    Py_ssize_t columns = PyTuple_GET_SIZE(steps);
    Layout *layout = (Layout *)type->tp_alloc(type, 0);
    if (layout == NULL)
        return NULL;
    layout->absent = Py_NewRef(absent);
    layout->steps = PyMem_Calloc((size_t)columns + 1, sizeof(Step));
    if (layout->steps == NULL) {
        Py_DECREF(layout);
        return PyErr_NoMemory();
    }
    layout->columns = columns;
    for (Py_ssize_t column = 0; column < columns; column++) {
        if (!read_step(PyTuple_GET_ITEM(steps, column), &layout->steps[column])) {
            Py_DECREF(layout);
            return NULL;
        }
        layout->present += layout->steps[column].kind != ABSENT;
    }
    if (proofs != NULL && !read_proofs(layout, proofs, unread)) {
        Py_DECREF(layout);
        return NULL;
    }
    return (PyObject *)layout;
}

static PyType_Slot layout_slots[] = {
    {Py_tp_new, layout_new},
    {Py_tp_dealloc, layout_dealloc},
    {Py_tp_doc, "How to read the images that hold one set of columns of one table."},
    {0, NULL},
};
static PyType_Spec layout_spec = {
    "dm.accelerator._native.Layout", sizeof(Layout), 0, Py_TPFLAGS_DEFAULT, layout_slots,
};

PyTypeObject *layout_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &layout_spec, NULL);
}
