/* `dm.accelerator.native`: the classes that Python hands over for `shared.h`, and what is made of them. */
#include "native.h"

#define AS_TEXT(structure, field) #field,
#define AS_TABLE(structure, name) static const char *const structure##_names[] = {structure##_FIELDS(AS_TEXT) NULL};
#define AS_ENTRY(structure, name) {#name, structure##_names},

STRUCTURES(AS_TABLE)
static const struct {
    const char *name;
    const char *const *fields;
} known[] = {STRUCTURES(AS_ENTRY)};

static PyObject *fields_of(size_t structure)
{
    Py_ssize_t count = 0;
    while (known[structure].fields[count] != NULL)
        count++;
    PyObject *fields = PyTuple_New(count);
    for (Py_ssize_t at = 0; fields != NULL && at < count; at++) {
        PyObject *name = PyUnicode_InternFromString(known[structure].fields[at]);
        if (name == NULL)
            Py_CLEAR(fields);
        else
            PyTuple_SET_ITEM(fields, at, name);
    }
    return fields;
}

/* {name: fields} of all structures */
PyObject *structure_fields(void)
{
    PyObject *all = PyDict_New();
    for (size_t structure = 0; all != NULL && structure < STRUCTURE_COUNT; structure++) {
        PyObject *fields = fields_of(structure);
        if (fields == NULL || PyDict_SetItemString(all, known[structure].name, fields) < 0)
            Py_CLEAR(all);
        Py_XDECREF(fields);
    }
    return all;
}

static int refuse(const char *name, PyObject *fields, PyObject *given)
{
    PyErr_Format(PyExc_TypeError, "%s has the fields %R in C and %R in Python", name, fields, given);
    return 0;
}

/* Whether instances have room for the fields and for nothing else, where they are a tuple's items. */
static int fits(PyObject *type)
{
    return !PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type) || is_named(type);
}

/* adopt(name, class, fields, members of an enumeration or None): from here on it is the structure's class. */
PyObject *native_adopt(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Types *state = PyModule_GetState(module);
    if (count != 4 || !PyUnicode_Check(args[0]) || !PyType_Check(args[1]) || !PyTuple_Check(args[2])
        || (args[3] != Py_None && !PyTuple_Check(args[3])) || !fits(args[1])) {
        PyErr_SetString(PyExc_TypeError, "adopt(name, class, fields, members or None)");
        return NULL;
    }
    for (size_t at = 0; at < STRUCTURE_COUNT; at++) {
        if (PyUnicode_CompareWithASCIIString(args[0], known[at].name) != 0)
            continue;
        PyObject *fields = fields_of(at);
        if (fields == NULL)
            return NULL;
        int same = PyObject_RichCompareBool(fields, args[2], Py_EQ);
        if (same == 1 && args[3] != Py_None)
            same = PyTuple_GET_SIZE(args[3]) == PyTuple_GET_SIZE(fields);
        if (same != 1) {
            if (same == 0)
                refuse(known[at].name, fields, args[2]);
            Py_DECREF(fields);
            return NULL;
        }
        Py_XSETREF(state->classes[at], (PyTypeObject *)Py_NewRef(args[1]));
        Py_XSETREF(state->fields[at], fields);
        Py_XSETREF(state->members[at], args[3] == Py_None ? NULL : Py_NewRef(args[3]));
        Py_RETURN_NONE;
    }
    PyErr_Format(PyExc_TypeError, "C knows no structure %U", args[0]);
    return NULL;
}

PyTypeObject *class_of(PyObject *module, Structure structure)
{
    PyTypeObject *found = types_of(module)->classes[structure];
    if (found == NULL)
        PyErr_Format(PyExc_TypeError, "nobody has said what a %s is", known[structure].name);
    return found;
}

PyObject *member_of(PyObject *module, Structure structure, size_t number)
{
    PyObject *members = types_of(module)->members[structure];
    if (members != NULL && number < (size_t)PyTuple_GET_SIZE(members))
        return PyTuple_GET_ITEM(members, (Py_ssize_t)number);
    PyErr_Format(PyExc_TypeError, "nobody has said what the members of %s are", known[structure].name);
    return NULL;
}

static void drop(PyObject *const *fields, Py_ssize_t size)
{
    for (Py_ssize_t field = 0; field < size; field++)
        Py_XDECREF(fields[field]);
}

static int is_missing(PyObject *const *fields, Py_ssize_t size)
{
    for (Py_ssize_t field = 0; field < size; field++)
        if (fields[field] == NULL)
            return 1;
    return 0;
}

PyObject *named_made(PyTypeObject *type, PyObject *const *fields, Py_ssize_t size)
{
    PyObject *made = type == NULL || is_missing(fields, size) ? NULL : type->tp_alloc(type, size);
    if (made == NULL) {
        drop(fields, size);
        return NULL;
    }
    for (Py_ssize_t field = 0; field < size; field++)
        PyTuple_SET_ITEM(made, field, fields[field]);
    return made;
}

PyObject *object_made(PyObject *module, Structure structure, PyObject *const *fields, Py_ssize_t size)
{
    PyTypeObject *type = class_of(module, structure);
    PyObject *made = type == NULL || is_missing(fields, size)
        ? NULL
        : PyObject_Vectorcall((PyObject *)type, fields, 0, types_of(module)->fields[structure]);
    drop(fields, size);
    return made;
}
