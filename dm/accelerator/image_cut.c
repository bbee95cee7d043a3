/* `dm.mysql.binlog.image_cut`: a row image, cut to some of its columns. The same rule, by the sizes that are packed there. */
#include "native.h"

#define COUNT_SIZE 2  /* of the number of all columns */
#define COLUMN_SIZE 4 /* size (2 bytes), width, kept */
#define MOST_KEPT 64  /* columns; a key has 32 at most */

typedef struct {
    size_t start, end;
} Span;

Outcome image_cut(PyObject *cut, PyObject *image, PyObject **made)
{
    const uint8_t *columns = (const uint8_t *)PyBytes_AS_STRING(cut), *bytes = (const uint8_t *)PyBytes_AS_STRING(image);
    size_t left = (size_t)PyBytes_GET_SIZE(cut), end = (size_t)PyBytes_GET_SIZE(image);
    if (left < COUNT_SIZE || (left - COUNT_SIZE) % COLUMN_SIZE)
        return DECLINED;
    size_t all = (size_t)little(columns, COUNT_SIZE), nulls_size = (all + 7) / 8, at = nulls_size, count = 0, size = 0;
    if (end < nulls_size || (left - COUNT_SIZE) / COLUMN_SIZE > all)
        return DECLINED;
    Span kept[MOST_KEPT];
    uint64_t kept_nulls = 0;
    columns += COUNT_SIZE;
    left -= COUNT_SIZE;
    for (size_t column = 0; left; column++, columns += COLUMN_SIZE, left -= COLUMN_SIZE) {
        size_t start = at, width = columns[2], null = bytes[column >> 3] >> (column & 7) & 1;
        if (!null) {
            if (width > 4 || end - at < width)
                return DECLINED;
            size_t value = width ? (size_t)little(bytes + at, width) : (size_t)little(columns, 2);
            at += width;
            if (end - at < value)
                return DECLINED;
            at += value;
        }
        if (!columns[3])
            continue;
        if (count == MOST_KEPT)
            return DECLINED;
        kept_nulls |= (uint64_t)null << count;
        kept[count++] = (Span){start, at};
        size += at - start;
    }
    nulls_size = (count + 7) / 8;
    *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(nulls_size + size));
    if (*made == NULL)
        return FAILED;
    char *to = PyBytes_AS_STRING(*made);
    memcpy(to, &kept_nulls, nulls_size);
    to += nulls_size;
    for (size_t number = 0; number < count; number++) {
        memcpy(to, bytes + kept[number].start, kept[number].end - kept[number].start);
        to += kept[number].end - kept[number].start;
    }
    return TAKEN;
}

/* cut_image(cut, image): the image of the kept columns; None where Python has to look */
PyObject *native_cut_image(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "cut_image(bytes, bytes)");
        return NULL;
    }
    PyObject *made = NULL;
    Outcome done = image_cut(args[0], args[1], &made);
    if (done == DECLINED)
        Py_RETURN_NONE;
    return made;
}
