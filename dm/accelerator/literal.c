/* A row's values as SQL literals: what the encoders of `dm.mysql.sql.literal` make of them, in one pass.
 *
 * Each step knows one column: where its value stands in the row, what it usually is, and the Python encoder. Whatever is
 * not the usual (another type, a number beyond 64 bits, bytes that are no UTF-8) goes to that encoder, which also raises
 * what is to be raised.
 */
#include "native.h"

typedef enum { USUAL_FIELDS(AS_VALUE) KINDS } Kind;

typedef struct {
    Py_ssize_t at; /* in the row */
    Kind kind;
    PyObject *prefix;  /* bytes, before hexadecimal digits */
    PyObject *encoder; /* callable */
} Step;

typedef struct {
    PyObject_VAR_HEAD
    PyObject *open;  /* bytes around the values */
    PyObject *close;
    Types *types; /* of the module, which the type holds */
    Text text;
    Step steps[1];
} Literals;

/* The length of the valid UTF-8 character at `bytes`, 0 if there is none (Unicode 15, table 3-7). */
static size_t character(const uint8_t *bytes, size_t left)
{
    uint8_t first = bytes[0], low = 0x80, high = 0xBF;
    size_t size;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (left < size)
        return 0;
    if (first == 0xE0)
        low = 0xA0;
    else if (first == 0xED)
        high = 0x9F;
    else if (first == 0xF0)
        low = 0x90;
    else if (first == 0xF4)
        high = 0x8F;
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t at = 2; at < size; at++)
        if ((bytes[at] & 0xC0) != 0x80)
            return 0;
    return size;
}

/* A string literal of UTF-8 bytes; declines if they are none. */
static Outcome put_quoted(Text *text, const uint8_t *bytes, size_t size, int proven)
{
    if (size > SIZE_MAX / 2 - 2 || !text_reserve(text, 2 * size + 2)) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return FAILED;
    }
    char *to = text->bytes + text->length;
    *to++ = '\'';
    for (size_t at = 0; at < size;) {
        uint8_t byte = bytes[at];
        if (byte >= 0x80) {
            size_t length = proven ? 1 : character(bytes + at, size - at);
            if (length == 0)
                return DECLINED;
            memcpy(to, bytes + at, length);
            to += length;
            at += length;
            continue;
        }
        if (byte == '\\' || byte == 0 || byte == '\r')
            *to++ = '\\';
        else if (byte == '\'')
            *to++ = '\'';
        *to++ = byte == 0 ? '0' : byte == '\r' ? 'r' : (char)byte;
        at++;
    }
    *to++ = '\'';
    text->length = (size_t)(to - text->bytes);
    return TAKEN;
}

static Outcome put_bytes(Text *text, const char *bytes, size_t size)
{
    if (size == 0)
        return TAKEN; /* there may be no memory yet to copy nothing to */
    if (!text_reserve(text, size))
        return FAILED;
    memcpy(text->bytes + text->length, bytes, size);
    text->length += size;
    return TAKEN;
}

static Outcome put_integer(Text *text, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    uint64_t size;
    if (overflow < 0)
        return DECLINED;
    if (overflow > 0) {
        size = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return DECLINED;
        }
    } else {
        size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    }
    if (!text_reserve(text, 21))
        return FAILED;
    char *to = text->bytes + text->length;
    if (overflow == 0 && number < 0)
        *to++ = '-';
    text->length = (size_t)(digits_of(to, size) - text->bytes);
    return TAKEN;
}

/* -?(digits(.digits?)?|.digits) and nothing else */
static int is_decimal(const char *bytes, size_t size)
{
    size_t at = size && bytes[0] == '-', digits = 0;
    for (; at < size && bytes[at] >= '0' && bytes[at] <= '9'; at++)
        digits++;
    if (at < size && bytes[at] == '.')
        for (at++; at < size && bytes[at] >= '0' && bytes[at] <= '9'; at++)
            digits++;
    return at == size && digits > 0;
}

static Outcome put_floating(Text *text, PyObject *value)
{
    char *digits = PyOS_double_to_string(PyFloat_AS_DOUBLE(value), 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (digits == NULL)
        return FAILED;
    Outcome done = put_bytes(text, "'", 1);
    if (done == TAKEN)
        done = put_bytes(text, digits, strlen(digits));
    if (done == TAKEN)
        done = put_bytes(text, "'", 1);
    PyMem_Free(digits);
    return done;
}

static Outcome put_digits(Text *text, PyObject *prefix, PyObject *value)
{
    static const char figures[] = "0123456789abcdef";
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(value);
    size_t size = (size_t)PyBytes_GET_SIZE(value);
    if (size == 0)
        return put_bytes(text, "''", 2);
    if (put_bytes(text, PyBytes_AS_STRING(prefix), (size_t)PyBytes_GET_SIZE(prefix)) == FAILED)
        return FAILED;
    if (size > SIZE_MAX / 2 || !text_reserve(text, 2 * size)) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return FAILED;
    }
    char *to = text->bytes + text->length;
    for (size_t at = 0; at < size; at++) {
        *to++ = figures[bytes[at] >> 4];
        *to++ = figures[bytes[at] & 15];
    }
    text->length += 2 * size;
    return TAKEN;
}

static Outcome put_usual(Text *text, const Step *step, PyObject *value)
{
    if (value == Py_None && step->kind != CALL)
        return put_bytes(text, "NULL", 4);
    switch (step->kind) {
    case INTEGER:
        return PyLong_CheckExact(value) ? put_integer(text, value) : DECLINED;
    case UTF8:
        if (!PyBytes_CheckExact(value))
            return DECLINED;
        return put_quoted(text, (const uint8_t *)PyBytes_AS_STRING(value), (size_t)PyBytes_GET_SIZE(value), 0);
    case PRINTED:
    case DECIMAL: {
        if (!PyUnicode_CheckExact(value))
            return DECLINED;
        Py_ssize_t size;
        const char *bytes = PyUnicode_AsUTF8AndSize(value, &size);
        if (bytes == NULL) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
                return FAILED;
            PyErr_Clear();
            return DECLINED;
        }
        if (step->kind == PRINTED)
            return put_quoted(text, (const uint8_t *)bytes, (size_t)size, 1);
        return is_decimal(bytes, (size_t)size) ? put_bytes(text, bytes, (size_t)size) : DECLINED;
    }
    case FLOATING:
        return PyFloat_CheckExact(value) ? put_floating(text, value) : DECLINED;
    case DIGITS:
        return PyBytes_CheckExact(value) ? put_digits(text, step->prefix, value) : DECLINED;
    default:
        return DECLINED;
    }
}

static Outcome put_called(Text *text, const Step *step, PyObject *value)
{
    PyObject *made = PyObject_CallOneArg(step->encoder, value);
    if (made == NULL)
        return FAILED;
    Outcome done = FAILED;
    if (PyBytes_Check(made))
        done = put_bytes(text, PyBytes_AS_STRING(made), (size_t)PyBytes_GET_SIZE(made));
    else
        PyErr_SetString(PyExc_TypeError, "an encoder gives bytes");
    Py_DECREF(made);
    return done;
}

static PyObject *literals_call(PyObject *object, PyObject *args, PyObject *names)
{
    Literals *self = (Literals *)object;
    if (self->open == NULL || names != NULL || PyTuple_GET_SIZE(args) != 1 || !PyTuple_Check(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError, "Literals()(tuple)");
        return NULL;
    }
    PyObject *row = PyTuple_GET_ITEM(args, 0);
    Text text = self->text; /* an encoder may call us again: whoever comes second begins with nothing */
    self->text = (Text){NULL, 0, 0};
    text.length = 0;
    Outcome done = put_bytes(&text, PyBytes_AS_STRING(self->open), (size_t)PyBytes_GET_SIZE(self->open));
    for (Py_ssize_t number = 0; done == TAKEN && number < Py_SIZE(self); number++) {
        const Step *step = &self->steps[number];
        if (step->at >= PyTuple_GET_SIZE(row)) {
            PyErr_SetString(PyExc_IndexError, "the row is shorter than its columns");
            done = FAILED;
            break;
        }
        if (number && put_bytes(&text, ",", 1) == FAILED)
            done = FAILED;
        size_t before = text.length;
        PyObject *value = PyTuple_GET_ITEM(row, step->at);
        if (done == TAKEN)
            done = put_usual(&text, step, value);
        if (done == DECLINED) {
            text.length = before;
            if (step->kind != CALL)
                self->types->declines[DECLINED_literals]++;
            done = put_called(&text, step, value);
        }
    }
    if (done == TAKEN)
        done = put_bytes(&text, PyBytes_AS_STRING(self->close), (size_t)PyBytes_GET_SIZE(self->close));
    PyObject *made = done == TAKEN ? PyBytes_FromStringAndSize(text.bytes, (Py_ssize_t)text.length) : NULL;
    PyMem_Free(self->text.bytes);
    self->text = text.room <= 1 << 16 ? text : (Text){NULL, 0, 0};
    if (text.room > 1 << 16)
        PyMem_Free(text.bytes);
    return made;
}

static int step_of(Step *step, PyObject *given)
{
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != LITERAL_STEP_SIZE
        || !PyBytes_Check(PyTuple_GET_ITEM(given, LITERAL_STEP_prefix))) {
        PyErr_SetString(PyExc_TypeError, "a step is a LiteralStep");
        return -1;
    }
    step->at = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, LITERAL_STEP_at));
    Py_ssize_t usual = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, LITERAL_STEP_usual));
    if (PyErr_Occurred())
        return -1;
    step->prefix = PyTuple_GET_ITEM(given, LITERAL_STEP_prefix);
    step->encoder = PyTuple_GET_ITEM(given, LITERAL_STEP_encoder);
    if (step->at < 0 || usual < 0 || usual >= KINDS || !PyCallable_Check(step->encoder)) {
        PyErr_SetString(PyExc_ValueError, "no step of literals");
        return -1;
    }
    step->kind = (Kind)usual;
    return 0;
}

static PyObject *literals_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *steps, *open, *close;
    static char *known[] = {"", "", "", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, names, "O!SS", known, &PyTuple_Type, &steps, &open, &close))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(steps);
    for (Py_ssize_t at = 0; at < count; at++) {
        Step step;
        if (!PyTuple_Check(PyTuple_GET_ITEM(steps, at))) {
            PyErr_SetString(PyExc_TypeError, "steps are tuples");
            return NULL;
        }
        if (step_of(&step, PyTuple_GET_ITEM(steps, at)) < 0)
            return NULL;
    }
    Types *types = PyType_GetModuleState(type);
    Literals *self = types == NULL ? NULL : (Literals *)type->tp_alloc(type, count);
    if (self == NULL)
        return NULL;
    self->types = types;
    self->open = Py_NewRef(open);
    self->close = Py_NewRef(close);
    for (Py_ssize_t at = 0; at < count; at++) {
        Step *step = &self->steps[at];
        step_of(step, PyTuple_GET_ITEM(steps, at));
        Py_INCREF(step->prefix);
        Py_INCREF(step->encoder);
    }
    return (PyObject *)self;
}

static int literals_traverse(PyObject *object, visitproc visit, void *arg)
{
    Literals *self = (Literals *)object;
    Py_VISIT(Py_TYPE(object));
    for (Py_ssize_t at = 0; at < Py_SIZE(self); at++)
        Py_VISIT(self->steps[at].encoder);
    return 0;
}

static int literals_clear(PyObject *object)
{
    Literals *self = (Literals *)object;
    Py_CLEAR(self->open);
    Py_CLEAR(self->close);
    for (Py_ssize_t at = 0; at < Py_SIZE(self); at++) {
        Py_CLEAR(self->steps[at].prefix);
        Py_CLEAR(self->steps[at].encoder);
    }
    return 0;
}

static void literals_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    PyMem_Free(((Literals *)object)->text.bytes);
    literals_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "What makes the literals of a row."},
    {Py_tp_new, literals_new},
    {Py_tp_call, literals_call},
    {Py_tp_traverse, literals_traverse},
    {Py_tp_clear, literals_clear},
    {Py_tp_dealloc, literals_dealloc},
    {0, NULL},
};
static PyType_Spec spec = {
    "dm.accelerator._native.Literals", offsetof(Literals, steps), sizeof(Step), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots,
};

PyTypeObject *literals_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
