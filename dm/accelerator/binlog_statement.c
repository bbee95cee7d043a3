/* `dm.mysql.binlog.row_events.binlog_statement`: bytes from where they stand into the text of a BINLOG statement, in one pass.
 *
 * A batch is half a megabyte, and each copy of it costs more than the digits do: the memory comes from the system each
 * time (`dm.task.host`), page by page.
 */
#include "native.h"

#define OPEN "BINLOG '"
#define CLOSE "'"
#define LONGEST ((Py_ssize_t)1 << 40) /* of all pieces together: no sum overflows */

static char pairs[4096][2]; /* the two digits of twelve bits */

void base64_prepare(void)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t bits = 0; bits < 4096; bits++) {
        pairs[bits][0] = digits[bits >> 6];
        pairs[bits][1] = digits[bits & 63];
    }
}

/* Three bytes as four digits. */
static inline char *quad(char *to, const uint8_t *bytes)
{
    uint32_t bits = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    memcpy(to, pairs[bits >> 12], 2);
    memcpy(to + 2, pairs[bits & 4095], 2);
    return to + 4;
}

typedef struct {
    char *to;
    uint8_t left[3]; /* what is no three bytes yet */
    size_t count;
} Digits;

static void digits_add(Digits *digits, const uint8_t *bytes, size_t size)
{
    while (size && digits->count) {
        digits->left[digits->count++] = *bytes++;
        size--;
        if (digits->count == 3) {
            digits->to = quad(digits->to, digits->left);
            digits->count = 0;
        }
    }
    char *to = digits->to;
    for (; size >= 3; bytes += 3, size -= 3)
        to = quad(to, bytes);
    digits->to = to;
    for (; size; size--)
        digits->left[digits->count++] = *bytes++;
}

static void digits_end(Digits *digits)
{
    size_t count = digits->count;
    if (count == 0)
        return;
    memset(digits->left + count, 0, 3 - count);
    digits->to = quad(digits->to, digits->left);
    memset(digits->to - (3 - count), '=', 3 - count);
}

/* binlog_statement(pieces): the statement whose events are these bytes, one after the other */
PyObject *native_binlog_statement(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *pieces = PySequence_Tuple(given), *made = NULL; /* nobody else changes it meanwhile */
    if (pieces == NULL)
        return NULL;
    Py_ssize_t size = 0;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(pieces); at++) {
        PyObject *piece = PyTuple_GET_ITEM(pieces, at);
        if (!PyBytes_Check(piece) || PyBytes_GET_SIZE(piece) > LONGEST - size) {
            PyErr_SetString(PyExc_TypeError, "binlog_statement([bytes, ...])");
            goto done;
        }
        size += PyBytes_GET_SIZE(piece);
    }
    Py_ssize_t around = (Py_ssize_t)(sizeof OPEN - 1 + sizeof CLOSE - 1);
    made = PyBytes_FromStringAndSize(NULL, around + (size + 2) / 3 * 4);
    if (made == NULL)
        goto done;
    Digits digits = {PyBytes_AS_STRING(made), {0}, 0};
    memcpy(digits.to, OPEN, sizeof OPEN - 1);
    digits.to += sizeof OPEN - 1;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(pieces); at++) {
        PyObject *piece = PyTuple_GET_ITEM(pieces, at);
        digits_add(&digits, (const uint8_t *)PyBytes_AS_STRING(piece), (size_t)PyBytes_GET_SIZE(piece));
    }
    digits_end(&digits);
    memcpy(digits.to, CLOSE, sizeof CLOSE - 1);
done:
    Py_DECREF(pieces);
    return made;
}
