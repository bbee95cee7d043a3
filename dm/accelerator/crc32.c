/* The CRC-32 of zlib, many times as quick on short events as a call of it: no call from Python, and the multiplication
 * without carries where the processor has it (V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction", Intel 2009; the constants are powers of x modulo the polynomial, bits reversed).
 */
#include "native.h"

#define POLYNOMIAL 0xEDB88320u

static uint32_t tables[8][256];

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define CARRYLESS 1
static int carryless;
#endif

void crc32_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++)
            rest = rest & 1 ? rest >> 1 ^ POLYNOMIAL : rest >> 1;
        tables[0][byte] = rest;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][before & 0xFF];
        }
#ifdef CARRYLESS
    __builtin_cpu_init();
    carryless = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

/* Eight bytes at a time by tables; `rest` is the CRC so far, inverted. */
static uint32_t by_tables(uint32_t rest, const uint8_t *bytes, size_t length)
{
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word = little(bytes, 8) ^ rest;
        rest = tables[7][word & 0xFF] ^ tables[6][word >> 8 & 0xFF] ^ tables[5][word >> 16 & 0xFF]
            ^ tables[4][word >> 24 & 0xFF] ^ tables[3][word >> 32 & 0xFF] ^ tables[2][word >> 40 & 0xFF]
            ^ tables[1][word >> 48 & 0xFF] ^ tables[0][word >> 56];
    }
    for (; length; bytes++, length--)
        rest = rest >> 8 ^ tables[0][(rest ^ *bytes) & 0xFF];
    return rest;
}

#ifdef CARRYLESS
#define FOR_CARRYLESS __attribute__((target("pclmul,sse4.1")))

FOR_CARRYLESS static inline __m128i folded(__m128i value, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(value, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(value, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FOR_CARRYLESS static inline __m128i loaded(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)bytes);
}

/* Whole blocks of 16 bytes, four of them at least. */
FOR_CARRYLESS static uint32_t by_multiplication(uint32_t rest, const uint8_t *bytes, size_t length)
{
    const __m128i over_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i over_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i over_8 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i reduction = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i halves = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i first = _mm_xor_si128(loaded(bytes), _mm_cvtsi32_si128((int)rest));
    __m128i second = loaded(bytes + 16), third = loaded(bytes + 32), fourth = loaded(bytes + 48);
    for (bytes += 64, length -= 64; length >= 64; bytes += 64, length -= 64) {
        first = folded(first, over_64, loaded(bytes));
        second = folded(second, over_64, loaded(bytes + 16));
        third = folded(third, over_64, loaded(bytes + 32));
        fourth = folded(fourth, over_64, loaded(bytes + 48));
    }
    first = folded(first, over_16, second);
    first = folded(first, over_16, third);
    first = folded(first, over_16, fourth);
    for (; length >= 16; bytes += 16, length -= 16)
        first = folded(first, over_16, loaded(bytes));
    first = _mm_xor_si128(_mm_srli_si128(first, 8), _mm_clmulepi64_si128(first, over_16, 0x10));
    __m128i upper = _mm_srli_si128(first, 4);
    first = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(first, halves), over_8, 0x00), upper);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(first, halves), reduction, 0x10);
    __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, halves), reduction, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(first, product), 1);
}
#endif

uint32_t crc32_of(const uint8_t *bytes, size_t length)
{
    uint32_t rest = 0xFFFFFFFFu;
#ifdef CARRYLESS
    if (carryless && length >= 64) {
        size_t blocks = length & ~(size_t)15;
        rest = by_multiplication(rest, bytes, blocks);
        bytes += blocks;
        length -= blocks;
    }
#endif
    return ~by_tables(rest, bytes, length);
}
