/* Where the disk cache lies, and its size limit. How much is in it is known from the length of a file beside the
 * entries, one byte for every page they take: processes append to it without a lock, and only when it says that the
 * limit is passed does anybody read the directory. Other processes may remove what we are looking at: nothing here
 * minds. */
#include "codegen/cache_directory.h"
#include "core/error.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, MOST_PAGES = 1 << 14, ABANDONED_SECONDS = 3600 };
static const int64_t default_limit = (int64_t)256 << 20;
static const char size_name[] = ".size";

/* ---- the environment --------------------------------------------------------------------------------------------- */
size_t hd_cache_directory(char *out, size_t capacity) {
    const char *own = hd_environment("HODU_CACHE_DIR"), *cache = hd_environment("XDG_CACHE_HOME"),
               *home = hd_environment("HOME");
    const char *base = "", *below = "";
    if (out == NULL && capacity > 0) {
        HD_ENTER_ALWAYS("hd_cache_directory", 0);
        (void)thread;
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return 0;
    }
    if (!hd_environment_flag("HODU_CACHE", true))
        base = "";
    else if (own != NULL)
        base = own;
    else if (cache != NULL && cache[0] == '/') /* a relative one is to be ignored */
        base = cache, below = "/hodu";
    else if (home != NULL)
        base = home, below = "/.cache/hodu";
    return (size_t)snprintf(out, capacity, "%s%s", base, below);
}

int64_t hd_cache_limit(void) {
    const char *text = hd_environment("HODU_CACHE_LIMIT");
    if (text == NULL) return default_limit;
    char *end;
    const double number = strtod(text, &end);
    const bool is_number = end != text;
    const int shift = *end == 'K' || *end == 'k'   ? 10
                      : *end == 'M' || *end == 'm' ? 20
                      : *end == 'G' || *end == 'g' ? 30
                                                   : 0;
    const double bytes = number * (double)((int64_t)1 << shift);
    if (shift > 0) ++end;
    if (*end == 'B' || *end == 'b') ++end;
    if (is_number && *end == '\0' && bytes >= 0 && bytes <= 0x1p62) return (int64_t)bytes;
    hd_environment_unknown("HODU_CACHE_LIMIT", text, strlen(text), "a number of bytes, or one like 64K, 256M, 2G");
    return default_limit;
}

bool hd_cache_make_directory(const char *directory) {
    char path[HD_CACHE_PATH];
    if ((size_t)snprintf(path, sizeof path, "%s", directory) >= sizeof path) return false;
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        hd_os_make_folder(path);
        *slash = '/';
    }
    return hd_os_make_folder(path);
}

/* ---- reading the directory --------------------------------------------------------------------------------------- */
typedef struct file {
    int64_t used; /* when, in nanoseconds */
    int64_t pages;
    char name[HD_CACHE_NAME + sizeof HD_CACHE_SUFFIX];
} file;
typedef struct listing {
    hd_os_folder *directory;
    file *files; /* NULL: only counted */
    int64_t count, capacity, pages;
} listing;

static bool is_entry(const char *name) {
    return strspn(name, "0123456789abcdef") == HD_CACHE_NAME && strcmp(name + HD_CACHE_NAME, HD_CACHE_SUFFIX) == 0;
}

static bool is_temporary(const char *name) {
    return strncmp(name, HD_CACHE_TEMPORARY, sizeof HD_CACHE_TEMPORARY - 1) == 0;
}

static int64_t pages_of(int64_t bytes) { return bytes / PAGE + 1; }

static bool keep(listing *l, const char *name, const hd_os_status *status) {
    if (l->count == l->capacity) {
        const int64_t capacity = l->capacity > 0 ? l->capacity * 2 : 256;
        file *files = hd_array_resize(l->files, (size_t)capacity * sizeof *files);
        if (files == NULL) return false;
        l->files = files;
        l->capacity = capacity;
    }
    file *f = &l->files[l->count];
    f->used = status->changed;
    f->pages = pages_of((int64_t)status->bytes);
    memcpy(f->name, name, sizeof f->name);
    return true;
}

/* Everything in the directory; removes what others began to write and never finished. */
static bool list(const char *directory, bool with_names, listing *l) {
    *l = (listing){.directory = hd_os_folder_open(directory)};
    if (l->directory == NULL) return false;
    const int64_t now = time(NULL);
    const int folder = hd_os_folder_file(l->directory);
    for (const char *name; (name = hd_os_folder_next(l->directory)) != NULL;) {
        hd_os_status status;
        const bool temporary = is_temporary(name);
        if (!temporary && !is_entry(name)) continue;
        if (!hd_os_status_in(folder, name, &status)) continue;
        if (temporary) {
            if (now - status.changed / 1000000000 > ABANDONED_SECONDS) hd_os_remove_in(folder, name, false);
            continue;
        }
        if (with_names && !keep(l, name, &status)) break; /* no memory: what was seen so far will do */
        l->count++;
        l->pages += pages_of((int64_t)status.bytes);
    }
    return true;
}

static void end_list(listing *l) {
    hd_array_release(l->files);
    hd_os_folder_close(l->directory);
}

void hd_cache_count(const char *directory, int64_t *entries, int64_t *bytes) {
    listing l;
    *entries = *bytes = 0;
    if (!list(directory, false, &l)) return;
    *entries = l.count;
    *bytes = l.pages * PAGE;
    end_list(&l);
}

/* ---- the limit --------------------------------------------------------------------------------------------------- */
static int by_use(const void *a, const void *b) {
    const int64_t x = ((const file *)a)->used, y = ((const file *)b)->used;
    return (x > y) - (x < y);
}

/* The file whose length is the number of pages, or -1. Anybody who may write here could have put something else in its
 * place: a pipe that waits for a reader, a device, a link to a file of ours that we would cut. */
static int open_size(int directory, int how) {
    hd_os_status status;
    const int size = hd_os_open(directory, size_name, HD_OS_WRITE | HD_OS_NO_LINK | how, 0600);
    if (size < 0 || (hd_os_status_of(size, &status) && status.is_regular && status.links == 1)) return size;
    hd_os_close(size);
    return -1;
}

static void remove_size(int directory) {
    if (!hd_os_remove_in(directory, size_name, false)) hd_os_remove_in(directory, size_name, true);
}

static int open_new_size(int directory) {
    const int size = open_size(directory, HD_OS_CREATE);
    if (size >= 0) return size;
    remove_size(directory);
    return open_size(directory, HD_OS_NEW);
}

static int remove_oldest(const char *directory, int64_t limit) {
    listing l;
    int removed = 0;
    if (!list(directory, true, &l)) return 0;
    const int64_t wanted = limit / PAGE / 4 * 3; /* some room, so that the next removal is far */
    if (l.pages * PAGE > limit) {
        qsort(l.files, (size_t)l.count, sizeof *l.files, by_use);
        for (int64_t i = 0; i < l.count - 1 && l.pages > wanted; ++i) { /* the newest was written just now */
            if (hd_os_remove_in(hd_os_folder_file(l.directory), l.files[i].name, false)) removed++;
            l.pages -= l.files[i].pages;
        }
    }
    const int size = open_new_size(hd_os_folder_file(l.directory));
    if (size >= 0) {
        hd_os_cut(size, (uint64_t)l.pages); /* too small only means that the next look comes later */
        hd_os_close(size);
    }
    end_list(&l);
    return removed;
}

int hd_cache_grown(const char *directory, size_t bytes) {
    static const char zeros[MOST_PAGES];
    const int64_t limit = hd_cache_limit(), pages = pages_of((int64_t)bytes);
    const int at = hd_os_open(HD_OS_HERE, directory, HD_OS_READ | HD_OS_FOLDER, 0);
    if (at < 0) return 0;
    const int size = open_size(at, HD_OS_APPEND);
    hd_os_close(at);
    if (size < 0) return remove_oldest(directory, limit); /* without it, the directory itself says how much there is */
    hd_os_status status;
    const bool known = hd_os_write(size, zeros, (size_t)(pages < MOST_PAGES ? pages : MOST_PAGES));
    const bool full = !hd_os_status_of(size, &status) || !known || (int64_t)status.bytes > limit / PAGE;
    hd_os_close(size);
    return full ? remove_oldest(directory, limit) : 0;
}

void hd_cache_remove_all(const char *directory) {
    hd_os_folder *d = hd_os_folder_open(directory);
    if (d == NULL) return;
    for (const char *name; (name = hd_os_folder_next(d)) != NULL;)
        if (is_entry(name) || is_temporary(name)) hd_os_remove_in(hd_os_folder_file(d), name, false);
    remove_size(hd_os_folder_file(d));
    hd_os_folder_close(d);
}
