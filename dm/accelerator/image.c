/* Values of fixed size: numbers, and the texts of decimals, dates and times as `dm.mysql.binlog.image` makes them. */
#include "image_proof.h"

#define DECIMAL_DIGITS 65

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
    if (seconds || fraction) { /* MariaDB takes the moments of the second after zero, which is the zero date */
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

PyObject *called(PyObject *function, const uint8_t *bytes, size_t size)
{
    PyObject *raw = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size);
    if (raw == NULL)
        return NULL;
    PyObject *value = PyObject_CallOneArg(function, raw);
    Py_DECREF(raw);
    return value;
}

PyObject *fixed_value(const Step *step, const uint8_t *bytes)
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
