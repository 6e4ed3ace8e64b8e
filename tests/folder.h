/* For tests of files: a folder for each test, and files as bytes. */
#ifndef HD_TESTS_FOLDER_H
#define HD_TESTS_FOLDER_H

#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a folder that goes with the test ---- */
static char folder[256];

static inline int make_folder(void **state) {
    (void)state;
    hd_error_clear(); /* one that a failed test left is not this one's */
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hodu-files-XXXXXX", base != NULL && strlen(base) < 200 ? base : "/tmp");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

/* How many entries it has; removes them when told to. */
static inline int folder_entries(bool removing) {
    DIR *d = opendir(folder);
    int count = 0;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (removing) remove(path);
        ++count;
    }
    if (d != NULL) closedir(d);
    return count;
}

static inline int remove_folder(void **state) {
    folder_entries(true);
    rmdir(folder);
    return no_leaks(state);
}
#define file_test(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)

/* A path in the folder; valid until the fourth next call. */
static inline const char *in_folder(const char *name) {
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* ---- files as bytes ---- */
typedef struct file_bytes {
    unsigned char *at;
    size_t size;
} file_bytes;

static inline file_bytes read_bytes(const char *path) {
    file_bytes b = {NULL, 0};
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    b.size = (size_t)ftell(f);
    rewind(f);
    b.at = malloc(b.size + 1);
    assert_int_equal(fread(b.at, 1, b.size, f), b.size);
    fclose(f);
    return b;
}

/* In place: some file systems go to the disk whenever a file is emptied first. */
static inline void write_bytes(const char *path, const void *bytes, size_t size) {
    const int f = open(path, O_RDWR | O_CREAT, 0600);
    if (f < 0) fail_msg("cannot write %s", path);
    assert_int_equal(pwrite(f, bytes, size, 0), size);
    assert_int_equal(ftruncate(f, (off_t)size), 0);
    close(f);
}

#endif
