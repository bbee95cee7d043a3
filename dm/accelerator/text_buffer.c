/* Text under construction. */
#include "native.h"

int text_grow(Text *text, size_t more)
{
    size_t room = text->room ? text->room : 1024;
    while (room - text->length < more) {
        if (room > SIZE_MAX / 4) {
            PyErr_NoMemory();
            return 0;
        }
        room *= 2;
    }
    char *bytes = PyMem_Realloc(text->bytes, room);
    if (bytes == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    text->bytes = bytes;
    text->room = room;
    return 1;
}

char *digits_of(char *to, uint64_t number)
{
    char reversed[20];
    int count = 0;
    do {
        reversed[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (count)
        *to++ = reversed[--count];
    return to;
}

char *digits_padded(char *to, uint64_t number, int width)
{
    for (int at = width; at-- > 0; number /= 10)
        to[at] = (char)('0' + number % 10);
    return to + width;
}
