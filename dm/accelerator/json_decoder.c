/* JSON as MySQL stores it to its text: `dm.mysql.binlog.json_decoder`, with its bounds.
 *
 * Declined are documents whose text does not say everything (opaque values, numbers of a sign their text would lose),
 * numbers that Python writes differently from the server, and whatever is no document. Where a document is only looked
 * at, nothing is written: most of the time goes into the digits of numbers.
 */
#include "native.h"

enum {
    SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL,
    INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 15
};

#define MAX_DEPTH 101
#define READ_AS_SIGNED 0xFFFFFFFFLL /* greater ones come back unsigned from their text */

typedef struct {
    const uint8_t *doc;
    size_t size;
    size_t elements; /* what is left: in a true document nothing is shared */
    size_t text;
    Text *to; /* NULL: it is only looked at */
    int garbled; /* then: a text in it is no UTF-8 */
} Reading;

static int put(Text *to, const char *bytes, size_t length)
{
    if (to == NULL)
        return 1;
    if (!text_reserve(to, length))
        return 0;
    memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
    return 1;
}

static int put_quoted(Reading *reading, const uint8_t *bytes, size_t length)
{
    static const char hexadecimal[] = "0123456789abcdef";
    Text *to = reading->to;
    if (to == NULL) {
        reading->garbled |= !utf8_proven(bytes, length, 4, UINT64_MAX);
        return 1;
    }
    if (length > (SIZE_MAX - 2) / 6) {
        PyErr_NoMemory();
        return 0;
    }
    if (!text_reserve(to, length * 6 + 2))
        return 0;
    char *at = to->bytes + to->length;
    *at++ = '"';
    for (size_t index = 0; index < length; index++) {
        uint8_t byte = bytes[index];
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            *at++ = (char)byte;
            continue;
        }
        *at++ = '\\';
        switch (byte) {
        case '"': case '\\': *at++ = (char)byte; break;
        case '\b': *at++ = 'b'; break;
        case '\t': *at++ = 't'; break;
        case '\n': *at++ = 'n'; break;
        case '\f': *at++ = 'f'; break;
        case '\r': *at++ = 'r'; break;
        default:
            memcpy(at, "u00", 3);
            at[3] = hexadecimal[byte >> 4];
            at[4] = hexadecimal[byte & 15];
            at += 5;
        }
    }
    *at++ = '"';
    to->length = (size_t)(at - to->bytes);
    return 1;
}

static Outcome put_integer(Text *to, int64_t number)
{
    if (to == NULL)
        return TAKEN;
    if (!text_reserve(to, 21))
        return FAILED;
    char *at = to->bytes + to->length;
    uint64_t size = (uint64_t)number;
    if (number < 0) {
        *at++ = '-';
        size = 0 - size;
    }
    to->length = (size_t)(digits_of(at, size) - to->bytes);
    return TAKEN;
}

static Outcome put_double(Reading *reading, size_t at)
{
    double number;
    if (at > reading->size || reading->size - at < sizeof number)
        return DECLINED;
    memcpy(&number, reading->doc + at, sizeof number);
    double positive = number < 0 ? -number : number;
    if (!(number == 0.0 || (positive >= 1e-4 && positive < 1e15)))
        return DECLINED; /* only in this range Python writes what the server writes */
    if (reading->to == NULL)
        return TAKEN;
    char *text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (text == NULL)
        return FAILED;
    int done = put(reading->to, text, strlen(text));
    PyMem_Free(text);
    return done ? TAKEN : FAILED;
}

static Outcome put_literal(Text *to, int literal)
{
    static const char *const words[] = {"null", "true", "false"};
    if (literal > 2)
        return DECLINED;
    return put(to, words[literal], strlen(words[literal])) ? TAKEN : FAILED;
}

static Outcome put_string(Reading *reading, size_t at)
{
    uint64_t length = 0;
    int shift = 0;
    for (;; shift += 7) {
        if (shift >= 35 || at >= reading->size)
            return DECLINED;
        uint8_t byte = reading->doc[at++];
        length |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            break;
    }
    if (length > reading->text || length > reading->size - at)
        return DECLINED;
    reading->text -= length;
    return put_quoted(reading, reading->doc + at, length) ? TAKEN : FAILED;
}

static Outcome put_value(Reading *reading, int code, size_t at, int depth);

/* A value of a container, from its entry: small ones stand in it, the others where it points to. */
static Outcome put_entry(Reading *reading, int code, uint64_t value, size_t base, int large, int depth)
{
    switch (code) {
    case LITERAL:
        return put_literal(reading->to, (int)(value & 0xFF));
    case INT16:
        return put_integer(reading->to, (int16_t)(uint16_t)value);
    case INT32:
        if (large)
            return put_integer(reading->to, (int32_t)(uint32_t)value);
        break;
    case UINT16:
    case UINT32:
        return DECLINED;
    }
    return put_value(reading, code, base + value, depth + 1);
}

static Outcome put_container(Reading *reading, int code, size_t base, int depth)
{
    int large = code == LARGE_OBJECT || code == LARGE_ARRAY, object = code == SMALL_OBJECT || code == LARGE_OBJECT;
    size_t width = large ? 4 : 2;
    if (depth > MAX_DEPTH || base > reading->size || reading->size - base < 2 * width)
        return DECLINED;
    const uint8_t *here = reading->doc + base;
    size_t left = reading->size - base;
    uint64_t count = little(here, width), size = little(here + width, width);
    if (size > left || count > size || count > reading->elements)
        return DECLINED;
    reading->elements -= count;
    uint64_t keys = object ? count * (width + 2) : 0, entries = 2 * width + keys;
    if (entries + count * (width + 1) > left)
        return DECLINED;
    if (!put(reading->to, object ? "{" : "[", 1))
        return FAILED;
    for (uint64_t index = 0; index < count; index++) {
        if (index && !put(reading->to, ", ", 2))
            return FAILED;
        if (object) {
            const uint8_t *key = here + 2 * width + index * (width + 2);
            uint64_t start = little(key, width), length = little(key + width, 2);
            if (length > reading->text || (length && (start > left || length > left - start)))
                return DECLINED;
            reading->text -= length;
            if (!put_quoted(reading, length ? here + start : here, length) || !put(reading->to, ": ", 2))
                return FAILED;
        }
        const uint8_t *entry = here + entries + index * (width + 1);
        Outcome outcome = put_entry(reading, entry[0], little(entry + 1, width), base, large, depth);
        if (outcome != TAKEN)
            return outcome;
    }
    return put(reading->to, object ? "}" : "]", 1) ? TAKEN : FAILED;
}

static Outcome put_value(Reading *reading, int code, size_t at, int depth)
{
    size_t left = at > reading->size ? 0 : reading->size - at;
    int64_t number;
    switch (code) {
    case SMALL_OBJECT: case LARGE_OBJECT: case SMALL_ARRAY: case LARGE_ARRAY:
        return put_container(reading, code, at, depth);
    case LITERAL:
        return left ? put_literal(reading->to, reading->doc[at]) : DECLINED;
    case INT16:
        return left < 2 ? DECLINED : put_integer(reading->to, (int16_t)little(reading->doc + at, 2));
    case INT32:
        return left < 4 ? DECLINED : put_integer(reading->to, (int32_t)little(reading->doc + at, 4));
    case INT64:
        if (left < 8)
            return DECLINED;
        number = (int64_t)little(reading->doc + at, 8);
        return number > READ_AS_SIGNED ? DECLINED : put_integer(reading->to, number);
    case UINT64:
        if (left < 8 || reading->to == NULL)
            return left < 8 ? DECLINED : TAKEN;
        if (!text_reserve(reading->to, 20))
            return FAILED;
        reading->to->length = (size_t)(digits_of(reading->to->bytes + reading->to->length,
                                                 little(reading->doc + at, 8)) - reading->to->bytes);
        return TAKEN;
    case DOUBLE:
        return put_double(reading, at);
    case STRING:
        return put_string(reading, at);
    default:
        return DECLINED;
    }
}

Outcome json_text(const uint8_t *doc, size_t size, Text *text)
{
    Reading reading = {.doc = doc, .size = size, .elements = size, .text = size, .to = text};
    text->length = 0;
    if (!size)
        return put_literal(text, 0);
    return put_value(&reading, doc[0], 1, 1);
}

Outcome json_looked_at(const uint8_t *doc, size_t size, int *utf8)
{
    Reading reading = {.doc = doc, .size = size, .elements = size, .text = size, .to = NULL};
    Outcome outcome = size ? put_value(&reading, doc[0], 1, 1) : TAKEN;
    *utf8 = !reading.garbled;
    return outcome;
}
