/* Row images to tuples: what `dm.binlog.image` makes of them, driven by a table of steps.
 *
 * A layout has a step for each column of a table. It comes from Python, which knows types; here it is only followed.
 * Types that are rare have a step that calls the Python function which makes their value.
 */
#include "native.h"

enum { ROW_STEP_KIND_FIELDS(AS_VALUE) STEP_KINDS };
#define DECIMAL_DIGITS 65

typedef struct {
    uint8_t kind;
    uint8_t width;  /* bytes of the value, or of the length in front of it; of a DECIMAL its digits before the point */
    uint8_t digits; /* of a fraction */
    uint32_t size;  /* bytes of a value of fixed size; what a BYTES value is padded to */
    PyObject *call;
} Step;

typedef struct {
    PyObject_HEAD
    Py_ssize_t columns;
    Py_ssize_t present;
    PyObject *absent;
    Step *steps;
} Layout;

typedef struct {
    const uint8_t *data;
    size_t at;
    size_t end;
    Text text;
} Cursor;

static const uint8_t group_bytes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

static PyObject *ascii(const char *text, size_t length)
{
    PyObject *made = PyUnicode_New((Py_ssize_t)length, 127);
    if (made != NULL)
        memcpy(PyUnicode_1BYTE_DATA(made), text, length);
    return made;
}

/* The value of one group of digits, a power of ten at most in a true one. */
static int group(const uint8_t *bytes, int size, uint8_t inverted, uint32_t limit, uint32_t *value)
{
    uint32_t number = 0;
    for (int at = 0; at < size; at++)
        number = number << 8 | (uint8_t)(bytes[at] ^ inverted);
    *value = number;
    return number < limit;
}

static PyObject *decimal(const Step *step, const uint8_t *bytes)
{
    uint8_t raw[40];
    char text[DECIMAL_DIGITS + 16];
    memcpy(raw, bytes, step->size);
    uint8_t inverted = raw[0] & 0x80 ? 0 : 0xFF;
    raw[0] ^= 0x80;
    char *to = text;
    if (inverted)
        *to++ = '-';
    char *first = to;
    const uint8_t *from = raw;
    uint32_t value;
    for (int digits = step->width, take = digits % 9 ? digits % 9 : 9; digits > 0; digits -= take, take = 9) {
        if (!group(from, group_bytes[take], inverted, powers[take], &value))
            return NULL;
        from += group_bytes[take];
        if (to > first)
            to = digits_padded(to, value, take);
        else if (value)
            to = digits_of(to, value);
    }
    if (to == first)
        *to++ = '0';
    if (step->digits)
        *to++ = '.';
    for (int digits = step->digits; digits > 0; digits -= 9) {
        int take = digits < 9 ? digits : 9;
        if (!group(from, group_bytes[take], inverted, powers[take], &value))
            return NULL;
        from += group_bytes[take];
        to = digits_padded(to, value, take);
    }
    return ascii(text, (size_t)(to - text));
}

static char *put_date(char *to, unsigned year, unsigned month, unsigned day)
{
    to = digits_padded(to, year, 4);
    *to++ = '-';
    to = digits_padded(to, month, 2);
    *to++ = '-';
    return digits_padded(to, day, 2);
}

static char *put_clock(char *to, unsigned hour, unsigned minute, unsigned second)
{
    to = hour > 99 ? digits_of(to, hour) : digits_padded(to, hour, 2);
    *to++ = ':';
    to = digits_padded(to, minute, 2);
    *to++ = ':';
    return digits_padded(to, second, 2);
}

/* The digits of a fraction whose bytes hold an even number of them; NULL where they hold more. */
static char *put_fraction(char *to, uint64_t value, int digits)
{
    int stored = (digits + 1) / 2 * 2;
    if (!digits)
        return to;
    if (value >= powers[stored])
        return NULL;
    *to++ = '.';
    if (stored > digits)
        value /= 10;
    return digits_padded(to, value, digits);
}

static PyObject *date(const uint8_t *bytes)
{
    char text[16];
    unsigned number = (unsigned)little(bytes, 3);
    if (number >> 9 > 9999)
        return NULL;
    return ascii(text, (size_t)(put_date(text, number >> 9, number >> 5 & 15, number & 31) - text));
}

static PyObject *datetime2(const Step *step, const uint8_t *bytes)
{
    char text[40];
    uint64_t packed = big(bytes, 5), fraction = big(bytes + 5, step->size - 5);
    if (packed < 0x8000000000)
        return NULL;
    packed -= 0x8000000000;
    unsigned months = (unsigned)(packed >> 22), day = packed >> 17 & 31, clock = packed & 0x1FFFF;
    if (months >= 13 * 10000)
        return NULL;
    char *to = put_date(text, months / 13, months % 13, day);
    *to++ = ' ';
    to = put_fraction(put_clock(to, clock >> 12, clock >> 6 & 63, clock & 63), fraction, step->digits);
    return to == NULL ? NULL : ascii(text, (size_t)(to - text));
}

/* Days since 1970 as a date (the civil calendar counted from 1 March, where leap days are last). */
static char *put_epoch_day(char *to, unsigned days)
{
    unsigned shifted = days + 719468, era = shifted / 146097, in_era = shifted % 146097;
    unsigned of_era = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    unsigned of_year = in_era - (365 * of_era + of_era / 4 - of_era / 100);
    unsigned month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    return put_date(to, era * 400 + of_era + (month <= 2), month, day);
}

static PyObject *timestamp2(const Step *step, const uint8_t *bytes)
{
    char text[40], *to = text;
    uint32_t seconds = (uint32_t)big(bytes, 4);
    uint64_t fraction = big(bytes + 4, step->size - 4);
    if (seconds || fraction) { /* MariaDB takes the moments of the second behind zero, which is the zero date */
        to = put_epoch_day(to, seconds / 86400);
        *to++ = ' ';
        to = put_clock(to, seconds % 86400 / 3600, seconds / 60 % 60, seconds % 60);
    } else {
        memcpy(to, "0000-00-00 00:00:00", 19);
        to += 19;
    }
    to = put_fraction(to, fraction, step->digits);
    return to == NULL ? NULL : ascii(text, (size_t)(to - text));
}

static PyObject *time2(const Step *step, const uint8_t *bytes)
{
    char text[40], *to = text;
    int bits = (int)(step->size - 3) * 8;
    uint64_t stored = big(bytes, step->size), zero = (uint64_t)0x800000 << bits;
    uint64_t number = stored < zero ? zero - stored : stored - zero;
    if (stored < zero)
        *to++ = '-';
    unsigned packed = (unsigned)(number >> bits);
    to = put_clock(to, packed >> 12 & 1023, packed >> 6 & 63, packed & 63);
    to = put_fraction(to, number & (((uint64_t)1 << bits) - 1), step->digits);
    return to == NULL ? NULL : ascii(text, (size_t)(to - text));
}

static PyObject *called(PyObject *function, const uint8_t *bytes, size_t size)
{
    PyObject *raw = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size);
    if (raw == NULL)
        return NULL;
    PyObject *value = PyObject_CallOneArg(function, raw);
    Py_DECREF(raw);
    return value;
}

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

static PyObject *fixed_value(const Step *step, const uint8_t *bytes)
{
    uint64_t number;
    float single;
    double twofold;
    switch (step->kind) {
    case SIGNED: {
        int unused = 64 - 8 * (int)step->size;
        return PyLong_FromLongLong((int64_t)(little(bytes, step->size) << unused) >> unused);
    }
    case UNSIGNED:
        return PyLong_FromUnsignedLongLong(little(bytes, step->size));
    case BIG_ENDIAN_NUMBER:
        return PyLong_FromUnsignedLongLong(big(bytes, step->size));
    case FLOAT:
        memcpy(&single, bytes, sizeof single);
        return PyFloat_FromDouble(single);
    case DOUBLE:
        memcpy(&twofold, bytes, sizeof twofold);
        return PyFloat_FromDouble(twofold);
    case YEAR:
        number = bytes[0];
        return PyLong_FromUnsignedLongLong(number ? number + 1900 : 0);
    case DECIMAL:
        return decimal(step, bytes);
    case DATE:
        return date(bytes);
    case DATETIME2:
        return datetime2(step, bytes);
    case TIMESTAMP2:
        return timestamp2(step, bytes);
    case TIME2:
        return time2(step, bytes);
    default:
        return called(step->call, bytes, step->size);
    }
}

/* The next column's value; NULL, with an exception or without one, where it is not taken. */
static PyObject *value_of(Cursor *cursor, const Step *step)
{
    size_t left = cursor->end - cursor->at, size = step->size, width = step->width;
    const uint8_t *bytes = cursor->data + cursor->at;
    if (step->kind < BYTES || step->kind == CALL_FIXED) {
        if (left < size)
            return NULL;
        cursor->at += size;
        return fixed_value(step, bytes);
    }
    if (left < width)
        return NULL;
    size = (size_t)little(bytes, width);
    if (left - width < size)
        return NULL;
    cursor->at += width + size;
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
        PyObject *value;
        if (step->kind == ABSENT)
            value = Py_NewRef(layout->absent);
        else if (nulls[bit >> 3] >> (bit & 7) & 1)
            value = Py_NewRef(Py_None);
        else
            value = value_of(cursor, step);
        bit += step->kind != ABSENT;
        if (value == NULL) {
            Py_DECREF(row);
            return NULL;
        }
        PyTuple_SET_ITEM(row, column, value);
    }
    return row;
}

/* (before, after) of the next row change; NULL as above. */
static PyObject *change(Cursor *cursor, const Layout *before, const Layout *after)
{
    PyObject *pair = PyTuple_New(2);
    if (pair == NULL)
        return NULL;
    const Layout *layouts[2] = {before, after};
    for (int side = 0; side < 2; side++) {
        PyObject *row = layouts[side] == NULL ? Py_NewRef(Py_None) : image(cursor, layouts[side]);
        if (row == NULL) {
            Py_DECREF(pair);
            return NULL;
        }
        PyTuple_SET_ITEM(pair, side, row);
    }
    return pair;
}

/* The row changes of data[start:end] as a list; None where Python has to look. */
static PyObject *changes(const Layout *before, const Layout *after, PyObject *data, Py_ssize_t start, Py_ssize_t end)
{
    Py_ssize_t present = (before ? before->present : 0) + (after ? after->present : 0);
    if (!PyBytes_CheckExact(data) || start < 0 || start > end || end > PyBytes_GET_SIZE(data) || !present)
        Py_RETURN_NONE;
    Cursor cursor = {(const uint8_t *)PyBytes_AS_STRING(data), (size_t)start, (size_t)end, {NULL, 0, 0}};
    PyObject *found = PyList_New(0);
    while (found != NULL && cursor.at < cursor.end) {
        PyObject *pair = change(&cursor, before, after);
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
    return counted(module, changes(before, after, args[2], start, end));
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

/* decode_rows(layouts by bitmap, rows) -> as decode; None also where a layout is missing */
PyObject *native_decode_rows(PyObject *module, PyObject *const *args, Py_ssize_t count)
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
        else
            answer = counted(module, changes(before, after, PyTuple_GET_ITEM(rows, ROWS_data), start, end));
    }
    Py_XDECREF(before);
    Py_XDECREF(after);
    return answer;
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
    Py_XDECREF(layout->absent);
    type->tp_free((PyObject *)layout);
    Py_DECREF(type);
}

/* Layout(steps, absent): a step or None for each column, and the value of a column that the image does not hold. */
static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *steps, *absent;
    if (keywords != NULL && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "Layout takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &steps, &absent))
        return NULL;
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
