/* `dm.mysql.binlog.image_proof`: which bytes a server could have written for a column. The same rules, byte by byte. */
#include "image_proof.h"

#include <math.h>

static const uint8_t group_bytes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
enum { TEXT_BYTES_FIELDS(AS_VALUE) };

static int groups_proven(const uint8_t **from, const uint8_t *first, int digits, int take, uint8_t inverted)
{
    for (; digits > 0; digits -= take, take = digits < 9 ? digits : 9) {
        uint32_t number = 0;
        for (int at = 0; at < group_bytes[take]; at++) {
            uint8_t byte = *(*from)++;
            if (*from - 1 == first)
                byte ^= 0x80;
            number = number << 8 | (uint8_t)(byte ^ inverted);
        }
        if (number >= powers[take])
            return 0;
    }
    return 1;
}

static int decimal_proven(const Step *step, const uint8_t *bytes)
{
    uint8_t inverted = bytes[0] & 0x80 ? 0 : 0xFF;
    const uint8_t *from = bytes;
    int whole = step->width, fraction = step->digits;
    return groups_proven(&from, bytes, whole, whole % 9 ? whole % 9 : 9, inverted)
        && groups_proven(&from, bytes, fraction, fraction < 9 ? fraction : 9, inverted);
}

/* Of an odd number of digits the last one is zero. */
static int fraction_proven(uint64_t value, int digits)
{
    return value < powers[(digits + 1) / 2 * 2] && (digits % 2 == 0 || value % 10 == 0);
}

static int clock_proven(unsigned hour, unsigned most, unsigned packed)
{
    return hour <= most && (packed >> 6 & 63) < 60 && (packed & 63) < 60;
}

static int datetime_proven(const Step *step, const uint8_t *bytes)
{
    uint64_t packed = big(bytes, 5);
    if (packed < 0x8000000000 || packed - 0x8000000000 >= (uint64_t)13 * 10000 << 22)
        return 0;
    unsigned clock = packed & 0x1FFFF;
    return clock_proven(clock >> 12, 23, clock) && fraction_proven(big(bytes + 5, step->size - 5), step->digits);
}

static int timestamp_proven(const Step *step, const uint8_t *bytes)
{
    uint64_t seconds = big(bytes, 4), fraction = big(bytes + 4, step->size - 4);
    return seconds <= 0x7FFFFFFF && (seconds || !fraction) && fraction_proven(fraction, step->digits);
}

static int time_proven(const Step *step, const uint8_t *bytes)
{
    int bits = (int)(step->size - 3) * 8;
    uint64_t stored = big(bytes, step->size), zero = (uint64_t)0x800000 << bits;
    uint64_t number = stored < zero ? zero - stored : stored - zero;
    uint64_t fraction = number & (((uint64_t)1 << bits) - 1);
    unsigned packed = (unsigned)(number >> bits);
    if (packed >> 12 > 838 || (packed == (838u << 12 | 59 << 6 | 59) && fraction))
        return 0;
    return clock_proven(packed >> 12, 838, packed) && fraction_proven(fraction, step->digits);
}

int fixed_proven(const Step *step, const Proof *proof, const uint8_t *bytes)
{
    float single;
    double twofold;
    unsigned date;
    switch (step->kind) {
    case SIGNED: case YEAR:
        return 1;
    case UNSIGNED:
        return little(bytes, step->size) <= proof->most;
    case BIG_ENDIAN_NUMBER:
        return big(bytes, step->size) <= proof->most;
    case FLOAT:
        memcpy(&single, bytes, sizeof single);
        return isfinite(single) && (proof->negative || single >= 0);
    case DOUBLE:
        memcpy(&twofold, bytes, sizeof twofold);
        return isfinite(twofold) && (proof->negative || twofold >= 0);
    case DECIMAL:
        return (proof->negative || bytes[0] & 0x80) && decimal_proven(step, bytes);
    case DATE:
        date = (unsigned)little(bytes, 3);
        return date >> 9 <= 9999 && (date >> 5 & 15) <= 12;
    case DATETIME2:
        return datetime_proven(step, bytes);
    case TIMESTAMP2:
        return timestamp_proven(step, bytes);
    case TIME2:
        return time_proven(step, bytes);
    default:
        return 0;
    }
}

int utf8_proven(const uint8_t *bytes, size_t size, int longest, uint64_t most)
{
    uint64_t characters = 0, eight;
    for (size_t at = 0; at < size; characters++) {
        for (; size - at >= sizeof eight; at += sizeof eight, characters += sizeof eight) {
            memcpy(&eight, bytes + at, sizeof eight);
            if (eight & 0x8080808080808080)
                break;
        }
        if (at == size)
            break;
        uint8_t first = bytes[at];
        if (first < 0x80) {
            at++;
            continue;
        }
        size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
        if (first < 0xC2 || first > 0xF4 || (int)length > longest || size - at < length)
            return 0;
        uint8_t second = bytes[at + 1];
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90)
            || (first == 0xF4 && second > 0x8F))
            return 0;
        for (size_t more = 1; more < length; more++)
            if ((bytes[at + more] & 0xC0) != 0x80)
                return 0;
        at += length;
    }
    return characters <= most;
}

int sized_proven(const Proof *proof, const uint8_t *bytes, size_t size)
{
    if (size > proof->most)
        return 0;
    uint64_t characters = proof->characters ? proof->characters : UINT64_MAX;
    switch (proof->text) {
    case UTF8MB4:
        return utf8_proven(bytes, size, 4, characters);
    case UTF8MB3:
        return utf8_proven(bytes, size, 3, characters);
    case ASCII:
        return utf8_proven(bytes, size, 1, characters);
    default:
        return 1;
    }
}

static int number_of_proof(PyObject *given, Py_ssize_t field, uint64_t most, uint64_t *number)
{
    *number = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(given, field));
    if (PyErr_Occurred())
        return 0;
    if (*number > most)
        PyErr_SetString(PyExc_OverflowError, "a number of a proof");
    return *number <= most;
}

int read_proof(PyObject *given, Proof *proof)
{
    uint64_t characters, text, nullable, unread, negative;
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != PROOF_STEP_SIZE) {
        PyErr_SetString(PyExc_TypeError, "a proof is a ProofStep");
        return 0;
    }
    if (!number_of_proof(given, PROOF_STEP_most, UINT64_MAX, &proof->most)
        || !number_of_proof(given, PROOF_STEP_characters, UINT32_MAX, &characters)
        || !number_of_proof(given, PROOF_STEP_text, UINT8_MAX, &text)
        || !number_of_proof(given, PROOF_STEP_nullable, 1, &nullable)
        || !number_of_proof(given, PROOF_STEP_unread, 1, &unread)
        || !number_of_proof(given, PROOF_STEP_negative, 1, &negative))
        return 0;
    proof->characters = (uint32_t)characters;
    proof->text = (uint8_t)text;
    proof->nullable = (uint8_t)nullable;
    proof->unread = (uint8_t)unread;
    proof->negative = (uint8_t)negative;
    return 1;
}
