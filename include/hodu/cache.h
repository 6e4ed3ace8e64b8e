/* Compiled kernels: kept in memory while the process runs, and on disk between processes. Environment: HODU_CACHE_DIR
 * (else $XDG_CACHE_HOME/hodu, else $HOME/.cache/hodu), HODU_CACHE=0 (nothing on disk), HODU_CACHE_LIMIT (bytes, or 64K,
 * 256M, 2G; 256M when it is not set). Code that others can write is never run. */
#ifndef HODU_CACHE_H
#define HODU_CACHE_H

#include <hodu/base.h>

typedef struct hd_cache_stats {
    int64_t kernels, code_bytes;      /* in memory now */
    int64_t disk_entries, disk_bytes; /* in the directory now */
    int64_t disk_limit;               /* bytes, beyond which those that were not used for longest go */
    int64_t hits, misses;             /* on disk, of this process */
    int64_t writes, failed_writes;    /* of this process: to a directory that is full or read-only, writes fail */
    int64_t removed;                  /* by this process, to keep to the limit */
} hd_cache_stats;

HD_BEGIN_DECLS
/* Drops the code that nothing uses from memory, and every entry from disk. */
HD_API void hd_cache_clear(void);
/* The directory in use (always terminated; "" when nothing is kept on disk); returns its length, as snprintf does. */
HD_API size_t hd_cache_directory(char *out, size_t capacity);
/* Figures; counting the entries on disk reads the directory. */
HD_API hd_cache_stats hd_cache_info(void);
HD_END_DECLS

#endif
