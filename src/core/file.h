/* Files of the user's: reading one, and writing one that takes the place of the old one when every byte is on the disk.
 * Messages of these functions go on from the file's name: "cannot be opened: ...", and whoever calls puts it in front
 * (hd_file_reword). */
#ifndef HD_CORE_FILE_H
#define HD_CORE_FILE_H

#include "core/error.h"

/* ---- numbers: little endian, whatever the machine ---------------------------------------------------------------- */
static inline uint32_t hd_file_u16(const unsigned char *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8; }
static inline uint32_t hd_file_u32(const unsigned char *at) { return hd_file_u16(at) | hd_file_u16(at + 2) << 16; }
static inline uint64_t hd_file_u64(const unsigned char *at) {
    return hd_file_u32(at) | (uint64_t)hd_file_u32(at + 4) << 32;
}
static inline void hd_file_set_u16(unsigned char *at, uint32_t v) {
    for (int i = 0; i < 2; ++i) at[i] = (unsigned char)(v >> 8 * i);
}
static inline void hd_file_set_u32(unsigned char *at, uint32_t v) {
    for (int i = 0; i < 4; ++i) at[i] = (unsigned char)(v >> 8 * i);
}
static inline void hd_file_set_u64(unsigned char *at, uint64_t v) {
    hd_file_set_u32(at, (uint32_t)v);
    hd_file_set_u32(at + 4, (uint32_t)(v >> 32));
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */
/* Puts words in front of the pending error's message, "is damaged": "constant #2 is damaged". The code stays, or
 * becomes `code`; out of memory is always that. Returns it. */
hd_error hd_file_reword(hd_thread *thread, hd_error code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* As much of the end of a path as messages have room for. */
const char *hd_file_short(const char *path);

/* ---- reading ----------------------------------------------------------------------------------------------------- */
/* Opens a regular file; its number, for hd_os_close, and its size. */
hd_error hd_file_open_to_read(const char *path, int *descriptor, uint64_t *size);
/* Exactly these bytes, or an error. */
hd_error hd_file_read_at(int descriptor, void *out, uint64_t bytes, uint64_t offset);

/* ---- writing ----------------------------------------------------------------------------------------------------- */
hd_error hd_file_write_at(int descriptor, const void *from, size_t bytes, uint64_t offset);
/* Writes a new file by `fill` beside the old one, whose place it takes when every byte is on the disk: whatever goes
 * wrong, there is the old file or the new one. A link stays, and its target is replaced; so do the rights of the old
 * file. */
hd_error hd_file_replace(hd_thread *thread, const char *path, hd_error (*fill)(void *user, int descriptor), void *user);

#endif
