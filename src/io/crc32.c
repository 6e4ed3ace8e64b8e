/* CRC-32, as zip has it, eight bytes at a time. */
#include "io/io.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[8][256]; /* of a byte, and of one that so many others follow */
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_table(void) {
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t c = i;
        for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; ++i)
        for (int k = 1; k < 8; ++k) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

uint32_t hd_crc32(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    pthread_once(&made, make_table);
    crc = ~crc;
    for (; count >= 8; count -= 8, at += 8) {
        const uint32_t low = hd_file_u32(at) ^ crc, high = hd_file_u32(at + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; count > 0; --count) crc = crc >> 8 ^ table[0][(crc ^ *at++) & 255];
    return ~crc;
}
