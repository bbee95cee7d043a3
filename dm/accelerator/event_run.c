/* Runs of usual events out of the packets of a dump: the loop of `dm.sourcelog.relaylog.event_run`, step for step.
 *
 * The events are moved together in the memory in which they arrived, over the heads of their packets, so that they can
 * be written from there.
 */
#include "native.h"

#define HEADER_SIZE 19
#define PACKET_HEAD 5 /* 3 bytes length, number, status */
#define CRC_RESIDUE 0x2144DF1Cu
#define ARTIFICIAL 0x20
#define END_AT 13
#define CHECKSUM_SIZE 4
#define LONGEST (0xFFFFFF - 1)
#define TABLE_ID_SIZE 6

typedef struct {
    const uint8_t *ways; /* of the 256 event types */
    PyObject *boundary;
    PyObject *table_ids;
    PyObject *feed;
    PyObject *state; /* the name of the boundary's attribute */
    long inside_state;
    int checksum;
    int inside;
    uint8_t known[TABLE_ID_SIZE]; /* the table id that was found last */
    int has_known;
} Run;

static int look_inside(Run *run)
{
    PyObject *state = PyObject_GetAttr(run->boundary, run->state);
    if (state == NULL)
        return 0;
    long number = PyLong_AsLong(state);
    Py_DECREF(state);
    if (number == -1 && PyErr_Occurred())
        return 0;
    run->inside = number == run->inside_state;
    return 1;
}

/* Whether the index has to see the event; -1 with an exception. */
static int to_be_shown(Run *run, int way, const uint8_t *event, size_t size)
{
    if (!run->inside || way == WAY_SHOWN)
        return 1;
    if (way != WAY_TABLE_MAP)
        return 0;
    if (size < HEADER_SIZE + TABLE_ID_SIZE)
        return 1;
    const uint8_t *id = event + HEADER_SIZE;
    if (run->has_known && memcmp(id, run->known, TABLE_ID_SIZE) == 0)
        return 0;
    PyObject *key = PyBytes_FromStringAndSize((const char *)id, TABLE_ID_SIZE);
    if (key == NULL)
        return -1;
    int known = PySet_Contains(run->table_ids, key);
    Py_DECREF(key);
    if (known < 0)
        return -1;
    if (known) {
        memcpy(run->known, id, TABLE_ID_SIZE);
        run->has_known = 1;
    }
    return !known;
}

static int show(Run *run, const uint8_t *event, size_t size, uint64_t end)
{
    PyObject *arguments[2] = {PyBytes_FromStringAndSize((const char *)event, (Py_ssize_t)size), NULL};
    if (arguments[0] == NULL)
        return 0;
    arguments[1] = PyLong_FromUnsignedLongLong(end);
    PyObject *answer = arguments[1] == NULL ? NULL : PyObject_Vectorcall(run->feed, arguments, 2, NULL);
    Py_DECREF(arguments[0]);
    Py_XDECREF(arguments[1]);
    if (answer == NULL)
        return 0;
    Py_DECREF(answer);
    return look_inside(run);
}

static void store_four(uint8_t *to, uint32_t number)
{
    for (int byte = 0; byte < 4; byte++)
        to[byte] = (uint8_t)(number >> 8 * byte);
}

/* Write the end into an event that does not say it, and the checksum of what it is then. */
static void say_end(uint8_t *event, size_t size, uint64_t end, int checksum)
{
    store_four(event + END_AT, (uint32_t)end);
    if (checksum)
        store_four(event + size - CHECKSUM_SIZE, crc32_of(event, size - CHECKSUM_SIZE));
}

/* The exception that is set, taken out; never NULL. */
static PyObject *raised(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* cut(data, start, sequence, offset, checksum, ways, boundary, inside_state, table_ids, feed)
 *     -> Cut: the size of the events, which begin where `start` was, .., exception of feed or None
 */
PyObject *native_cut(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 10 || !PyByteArray_Check(args[5]) || PyByteArray_GET_SIZE(args[5]) != 256 || !PySet_Check(args[8])) {
        PyErr_SetString(PyExc_TypeError, "cut(data, start, sequence, offset, checksum, ways, boundary, inside, ids, feed)");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[1]);
    unsigned long sequence = PyLong_AsUnsignedLong(args[2]);
    uint64_t offset = PyLong_AsUnsignedLongLong(args[3]);
    long inside_state = PyLong_AsLong(args[7]);
    int checksum = PyObject_IsTrue(args[4]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer arrived;
    if (PyObject_GetBuffer(args[0], &arrived, PyBUF_WRITABLE) < 0)
        return NULL;
    uint8_t *data = arrived.buf;
    size_t size = (size_t)arrived.len;
    if (start < 0 || (size_t)start > size || sequence > 0xFF) {
        PyErr_SetString(PyExc_ValueError, "a run starts outside of what arrived");
        PyBuffer_Release(&arrived);
        return NULL;
    }
    Run run = {.boundary = args[6], .table_ids = args[8], .feed = args[9], .inside_state = inside_state,
               .checksum = checksum};
    uint8_t ways[256]; /* what is called from here could change the caller's */
    memcpy(ways, PyByteArray_AS_STRING(args[5]), sizeof ways);
    run.ways = ways;
    run.state = PyUnicode_InternFromString("state");
    if (run.state == NULL || !look_inside(&run)) {
        Py_XDECREF(run.state);
        PyBuffer_Release(&arrived);
        return NULL;
    }
    size_t at = (size_t)start, end = size - at > LONGEST ? at + LONGEST : size;
    uint8_t *to = data + start;
    size_t taken = 0;
    PyObject *failure = NULL;
    while (end - at >= PACKET_HEAD + HEADER_SIZE) {
        const uint8_t *event = data + at + PACKET_HEAD;
        uint64_t event_size = little(event + 9, 4);
        uint64_t following = offset + event_size;
        if (little(data + at, 4) != (sequence << 24) + event_size + 1 || data[at + 4] != 0 || event_size < HEADER_SIZE
            || event_size > end - at - PACKET_HEAD || little(event + 17, 2) & ARTIFICIAL)
            break;
        uint64_t said = little(event + END_AT, 4);
        int way = run.ways[event[4]] & ~WAY_WITHOUT_END;
        int unsaid = said == 0 && run.ways[event[4]] & WAY_WITHOUT_END;
        if (said != (following & 0xFFFFFFFFu) && !unsaid)
            break;
        if (way == WAY_UNUSUAL || (run.checksum && crc32_of(event, event_size) != CRC_RESIDUE))
            break;
        memmove(to + taken, event, event_size);
        event = to + taken;
        if (unsaid)
            say_end(to + taken, event_size, following, run.checksum);
        taken += event_size;
        at += PACKET_HEAD + event_size;
        offset = following;
        sequence = (sequence + 1) & 0xFF;
        int shown = to_be_shown(&run, way, event, event_size);
        if (shown < 0 || (shown && !show(&run, event, event_size, offset))) {
            failure = raised();
            break;
        }
    }
    Py_DECREF(run.state);
    PyBuffer_Release(&arrived);
    if (failure == NULL)
        failure = Py_NewRef(Py_None);
    PyObject *fields[CUT_SIZE] = {
        [CUT_size] = PyLong_FromSize_t(taken),
        [CUT_start] = PyLong_FromSize_t(at),
        [CUT_sequence] = PyLong_FromUnsignedLong(sequence),
        [CUT_offset] = PyLong_FromUnsignedLongLong(offset),
        [CUT_failure] = failure,
    };
    return named_made(class_of(self, CUT), fields, CUT_SIZE);
}
