/* The events of a piece of a binlog file: the loop of `dm.mysql.binlog.frame.checked_events`. */
#include "native.h"

#define HEADER_SIZE 19
#define CRC_RESIDUE 0x2144DF1Cu
#define FORMAT_DESCRIPTION 15

static PyObject *header_of(const uint8_t *event, PyTypeObject *type)
{
    static const struct {
        uint8_t at, size;
    } fields[EVENT_HEADER_SIZE] = {
        [EVENT_HEADER_timestamp] = {0, 4}, [EVENT_HEADER_type] = {4, 1}, [EVENT_HEADER_server_id] = {5, 4},
        [EVENT_HEADER_size] = {9, 4}, [EVENT_HEADER_end] = {13, 4}, [EVENT_HEADER_flags] = {17, 2},
    };
    PyObject *header = type->tp_alloc(type, EVENT_HEADER_SIZE);
    if (header == NULL)
        return NULL;
    for (int field = 0; field < EVENT_HEADER_SIZE; field++) {
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
    PyObject *made = type->tp_alloc(type, CHECKED_EVENT_SIZE);
    if (made == NULL)
        return NULL;
    PyObject *header = header_of(event, header_type);
    PyObject *data = header == NULL ? NULL : PyBytes_FromStringAndSize((const char *)event, (Py_ssize_t)size);
    if (data == NULL) {
        Py_XDECREF(header);
        Py_DECREF(made);
        return NULL;
    }
    PyTuple_SET_ITEM(made, CHECKED_EVENT_header, header);
    PyTuple_SET_ITEM(made, CHECKED_EVENT_data, data);
    return made;
}

/* Events that stand in bytes one after the other; each is made when somebody asks for it. Most are not asked for. */
typedef struct {
    PyObject_HEAD
    PyObject *data;
    PyTypeObject *type, *header_type;
    Py_ssize_t count, room;
    uint32_t *ends; /* in `data`, from `start` on */
    size_t start;
} Events;

static size_t begin_of(const Events *events, Py_ssize_t at)
{
    return events->start + (at ? events->ends[at - 1] : 0);
}

const uint8_t *event_in(PyObject *object, Py_ssize_t at, size_t *size)
{
    const Events *events = (Events *)object;
    if (at < 0 || at >= events->count)
        return NULL;
    size_t begin = begin_of(events, at);
    *size = events->start + events->ends[at] - begin;
    return (const uint8_t *)PyBytes_AS_STRING(events->data) + begin;
}

static PyObject *events_item(PyObject *object, Py_ssize_t at)
{
    const Events *events = (Events *)object;
    size_t size;
    const uint8_t *event = event_in(object, at, &size);
    if (event == NULL) {
        PyErr_SetString(PyExc_IndexError, "no such event");
        return NULL;
    }
    return event_of(event, size, events->type, events->header_type);
}

Py_ssize_t events_length(PyObject *object)
{
    return ((Events *)object)->count;
}

static int add_end(Events *events, size_t end)
{
    if (end - events->start > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many bytes at a time");
        return 0;
    }
    if (events->count == events->room) {
        Py_ssize_t room = events->room ? 2 * events->room : 256;
        uint32_t *ends = PyMem_Realloc(events->ends, (size_t)room * sizeof *ends);
        if (ends == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        events->ends = ends;
        events->room = room;
    }
    events->ends[events->count++] = (uint32_t)(end - events->start);
    return 1;
}

static int events_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((Events *)object)->type);
    Py_VISIT(((Events *)object)->header_type);
    Py_VISIT(Py_TYPE(object));
    return 0;
}

static int events_clear(PyObject *object)
{
    Py_CLEAR(((Events *)object)->type);
    Py_CLEAR(((Events *)object)->header_type);
    return 0;
}

static void events_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    events_clear(object);
    Py_CLEAR(((Events *)object)->data);
    PyMem_Free(((Events *)object)->ends);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "Events that stand in bytes one after the other."},
    {Py_sq_length, events_length},
    {Py_sq_item, events_item},
    {Py_tp_traverse, events_traverse},
    {Py_tp_clear, events_clear},
    {Py_tp_dealloc, events_dealloc},
    {0, NULL},
};
static PyType_Spec spec = {
    "dm.accelerator._native.Events", sizeof(Events), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots,
};

PyTypeObject *events_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

/* frames(data, start, end, checksum, place) -> (events, end of them) */
PyObject *native_frames(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "frames(data, start, end, checksum, place)");
        return NULL;
    }
    PyTypeObject *event_type = class_of(self, CHECKED_EVENT), *header_type = class_of(self, EVENT_HEADER);
    if (event_type == NULL || header_type == NULL)
        return NULL;
    Py_ssize_t start = PyLong_AsSsize_t(args[1]), stop = PyLong_AsSsize_t(args[2]);
    int checksum = PyObject_IsTrue(args[3]);
    long long place = PyLong_AsLongLong(args[4]); /* of data[0] in the file; negative if nobody knows */
    if (PyErr_Occurred())
        return NULL;
    if (start < 0 || stop < start || stop > PyBytes_GET_SIZE(args[0])) {
        PyErr_SetString(PyExc_ValueError, "a place outside of the bytes");
        return NULL;
    }
    PyTypeObject *type = types_of(self)->events;
    Events *found = (Events *)type->tp_alloc(type, 0);
    if (found == NULL)
        return NULL;
    found->data = Py_NewRef(args[0]);
    found->type = (PyTypeObject *)Py_NewRef(event_type);
    found->header_type = (PyTypeObject *)Py_NewRef(header_type);
    found->start = (size_t)start;
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(args[0]);
    size_t at = (size_t)start, end = (size_t)stop;
    while (end - at >= HEADER_SIZE) {
        const uint8_t *event = data + at;
        size_t size = (size_t)little(event + 9, 4);
        if (size < HEADER_SIZE || size > end - at || event[4] == FORMAT_DESCRIPTION
            || (place >= 0 && (uint32_t)little(event + 13, 4) != (uint32_t)((uint64_t)place + at + size))
            || (checksum && crc32_of(event, size) != CRC_RESIDUE))
            break;
        at += size;
        if (!add_end(found, at)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return Py_BuildValue("(Nn)", found, (Py_ssize_t)at);
}
