/* A cache directory of the test's own: fresh at the start, gone at the end. */
#ifndef HD_TESTS_COMPILER_OWN_CACHE_H
#define HD_TESTS_COMPILER_OWN_CACHE_H

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static char own_cache[64];

static inline int remove_below(const char *path, const struct stat *status, int flag, struct FTW *place) {
    (void)status, (void)flag;
    if (place->level > 0) remove(path);
    return 0;
}
static inline void empty_folder(const char *path) { nftw(path, remove_below, 8, FTW_DEPTH | FTW_PHYS); }

static inline int make_own_cache(void **state) {
    (void)state;
    strcpy(own_cache, "/tmp/hodu-cache-XXXXXX");
    if (mkdtemp(own_cache) == NULL) return -1;
    unsetenv("HODU_CACHE");
    unsetenv("HODU_CACHE_LIMIT");
    return setenv("HODU_CACHE_DIR", own_cache, 1);
}

static inline int remove_own_cache(void **state) {
    (void)state;
    empty_folder(own_cache);
    return rmdir(own_cache);
}

#endif
