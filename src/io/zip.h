/* Zip, as far as .npz needs it: members that are stored or deflated, of any size. */
#ifndef HD_IO_ZIP_H
#define HD_IO_ZIP_H

#include "io/io.h"

typedef struct hd_zip_member {
    char name[512];
    uint64_t at, packed, size; /* where its bytes begin, how many there are, and how many they become */
    uint32_t crc;
    bool is_deflated;
} hd_zip_member;

/* ---- reading ---- */
typedef struct hd_zip {
    const hd_source *source;
    uint64_t directory, directory_end; /* where the list of members lies */
    uint64_t next;                     /* of hd_zip_next */
    uint64_t left;                     /* members */
    uint64_t packed;                   /* bytes of those that were read: none lies in two */
} hd_zip;
hd_error hd_zip_open(hd_zip *z, const hd_source *source);
/* The next member; *more is false behind the last one. */
hd_error hd_zip_next(hd_zip *z, hd_zip_member *m, bool *more);
/* All of a member, in memory from hd_array_resize; its checksum fits. */
hd_error hd_zip_read(const hd_zip *z, const hd_zip_member *m, unsigned char **out);

/* ---- writing: members one after the other, then their list ---- */
typedef struct hd_zip_writer {
    int descriptor;
    uint64_t end; /* of what was written */
    hd_text directory;
    uint64_t count;
} hd_zip_writer;
/* Bytes in front of those of a member with this name. */
uint64_t hd_zip_front(const char *name);
/* Notes a member whose `size` bytes were written at w->end + hd_zip_front(name), and writes what belongs in front. */
hd_error hd_zip_add(hd_zip_writer *w, const char *name, uint64_t size, uint32_t crc);
hd_error hd_zip_end(hd_zip_writer *w);

#endif
