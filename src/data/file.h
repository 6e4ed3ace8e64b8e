/* Whole files, read into memory and written from it. */
#ifndef HD_DATA_FILE_H
#define HD_DATA_FILE_H

#include "data/object.h"

typedef struct hd_file_bytes {
    char *bytes; /* for hd_array_release; a zero byte stands behind them */
    size_t count;
} hd_file_bytes;
hd_error hd_file_read_all(const char *path, hd_file_bytes *out);
/* The file is that much when all of it is on the disk, and what was there before until then. */
hd_error hd_file_write_all(hd_thread *thread, const char *path, const void *bytes, size_t count);
/* What is wrong in a file names it. */
void hd_file_blame(hd_thread *thread, const char *path);

#endif
