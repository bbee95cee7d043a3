/* The module `dm.accelerator._native`. */
#include "native.h"

static PyObject *native_crc32(PyObject *self, PyObject *data)
{
    (void)self;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t sum = crc32_of(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(sum);
}

static PyObject *native_json_text(PyObject *self, PyObject *doc)
{
    if (!PyBytes_Check(doc)) {
        PyErr_SetString(PyExc_TypeError, "json_text(bytes)");
        return NULL;
    }
    Text text = {NULL, 0, 0};
    PyObject *made = NULL;
    switch (json_text((const uint8_t *)PyBytes_AS_STRING(doc), (size_t)PyBytes_GET_SIZE(doc), &text)) {
    case TAKEN:
        made = PyUnicode_DecodeUTF8(text.bytes, (Py_ssize_t)text.length, NULL);
        if (made == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            PyErr_Clear();
            made = declined(self, DECLINED_json);
        }
        break;
    case DECLINED:
        made = declined(self, DECLINED_json);
        break;
    case FAILED:
        break;
    }
    PyMem_Free(text.bytes);
    return made;
}

#define AS_NAME(name) #name,

/* declines() -> {loop: how often it has declined} */
static PyObject *native_declines(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    static const char *const names[] = {LOOPS(AS_NAME)};
    PyObject *all = PyDict_New();
    for (size_t loop = 0; all != NULL && loop < LOOP_COUNT; loop++) {
        PyObject *count = PyLong_FromUnsignedLongLong(types_of(self)->declines[loop]);
        if (count == NULL || PyDict_SetItemString(all, names[loop], count) < 0)
            Py_CLEAR(all);
        Py_XDECREF(count);
    }
    return all;
}

static PyMethodDef methods[] = {
    {"adopt", (PyCFunction)(void (*)(void))native_adopt, METH_FASTCALL, "Take a class as the one of a structure."},
    {"declines", native_declines, METH_NOARGS, "How often each loop has left something to Python."},
    {"binlog_statement", native_binlog_statement, METH_O, "Bytes as the text of a BINLOG statement."},
    {"compacted", (PyCFunction)(void (*)(void))native_compacted, METH_FASTCALL, "Changes, those of one row merged."},
    {"cut", (PyCFunction)(void (*)(void))native_cut, METH_FASTCALL, "A run of usual events out of packets."},
    {"cut_image", (PyCFunction)(void (*)(void))native_cut_image, METH_FASTCALL, "A row image of some of its columns, or None."},
    {"decode", (PyCFunction)(void (*)(void))native_decode, METH_FASTCALL, "The row changes between two places, or None."},
    {"decode_rows", (PyCFunction)(void (*)(void))native_decode_rows, METH_FASTCALL, "The row changes of an event, or None."},
    {"event_groups", (PyCFunction)(void (*)(void))native_event_groups, METH_FASTCALL, "Changes by the events they share."},
    {"frames", (PyCFunction)(void (*)(void))native_frames, METH_FASTCALL, "The events of a piece of a file."},
    {"grouped", (PyCFunction)(void (*)(void))native_grouped, METH_FASTCALL, "Changes by the statements they share."},
    {"local_data", (PyCFunction)(void (*)(void))native_local_data, METH_FASTCALL, "Rows of columns as the data of LOAD DATA."},
    {"proven_rows", (PyCFunction)(void (*)(void))native_proven_rows, METH_FASTCALL, "The row changes of an event with their bytes."},
    {"rows_event", (PyCFunction)(void (*)(void))native_rows_event, METH_FASTCALL, "A rows event, up to its rows."},
    {"rows_of", (PyCFunction)(void (*)(void))native_rows_of, METH_FASTCALL, "The rows events at a place of a list."},
    {"table_map_event", (PyCFunction)(void (*)(void))native_table_map_event, METH_FASTCALL, "A table map, if it is known."},
    {"transactions_of", (PyCFunction)(void (*)(void))native_transactions_of, METH_FASTCALL, "The transactions at a place of a list."},
    {"tally", native_tally, METH_O, "How many changes of each kind the plans of a batch have, or None."},
    {"json_numbers", (PyCFunction)(void (*)(void))native_json_numbers, METH_FASTCALL, "How many numbers texts of documents have."},
    {"json_text", native_json_text, METH_O, "The text of a stored document, or None."},
    {"crc32", native_crc32, METH_O, "The CRC-32 of bytes."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    Types *state = PyModule_GetState(module);
    crc32_prepare();
    base64_prepare();
    state->layout = layout_type(module);
    state->text_rows = text_rows_type(module);
    state->literals = literals_type(module);
    state->change_maker = change_maker_type(module);
    state->events = events_type(module);
    if (state->layout == NULL || state->text_rows == NULL || state->literals == NULL || state->change_maker == NULL
        || state->events == NULL)
        return -1;
    if (PyModule_AddType(module, state->layout) < 0 || PyModule_AddType(module, state->text_rows) < 0)
        return -1;
    if (PyModule_AddType(module, state->literals) < 0 || PyModule_AddType(module, state->events) < 0)
        return -1;
    if (PyModule_AddType(module, state->change_maker) < 0)
        return -1;
    PyObject *fields = structure_fields();
    int done = fields == NULL ? -1 : PyModule_AddObjectRef(module, "structures", fields);
    Py_XDECREF(fields);
    if (done < 0)
        return -1;
    return PyModule_AddIntConstant(module, "sources", DM_SOURCES); /* what `dm.accelerator.switch` compares */
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    Types *state = PyModule_GetState(module);
    Py_VISIT(state->layout);
    Py_VISIT(state->text_rows);
    Py_VISIT(state->literals);
    Py_VISIT(state->change_maker);
    Py_VISIT(state->events);
    for (size_t at = 0; at < STRUCTURE_COUNT; at++) {
        Py_VISIT(state->classes[at]);
        Py_VISIT(state->members[at]);
    }
    return 0;
}

static int clear(PyObject *module)
{
    Types *state = PyModule_GetState(module);
    Py_CLEAR(state->layout);
    Py_CLEAR(state->text_rows);
    Py_CLEAR(state->literals);
    Py_CLEAR(state->change_maker);
    Py_CLEAR(state->events);
    for (size_t at = 0; at < STRUCTURE_COUNT; at++) {
        Py_CLEAR(state->classes[at]);
        Py_CLEAR(state->fields[at]);
        Py_CLEAR(state->members[at]);
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "What dm does for each event and each row, compiled.", sizeof(Types), methods, slots,
    traverse, clear, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
