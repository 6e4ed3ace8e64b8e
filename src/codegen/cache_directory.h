/* The directory of the disk cache: where it is, how large it may grow, and what goes when it is too large. */
#ifndef HD_CODEGEN_CACHE_DIRECTORY_H
#define HD_CODEGEN_CACHE_DIRECTORY_H

#include "core/thread.h"

enum {
    HD_CACHE_PATH = 4096, /* the longest path, its end included */
    HD_CACHE_NAME = 32,   /* hexadecimal digits in the name of an entry */
};
#define HD_CACHE_SUFFIX    ".code"
#define HD_CACHE_TEMPORARY ".new-" /* how files begin that are being written */

int64_t hd_cache_limit(void);
/* Makes it, and what it lies in. */
bool hd_cache_make_directory(const char *directory);
/* An entry of so many bytes was added: removes those that were not used for longest when they are too many now. Gives
 * how many were removed. */
int hd_cache_grown(const char *directory, size_t bytes);
/* Removes every entry. */
void hd_cache_remove_all(const char *directory);
void hd_cache_count(const char *directory, int64_t *entries, int64_t *bytes);

#endif
