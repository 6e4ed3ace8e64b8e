#define _GNU_SOURCE
#include "core/os_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 1 << 30 };

/* ---- open files -------------------------------------------------------------------------------------------------- */
int hd_os_open(int folder, const char *path, int how, int rights) {
    const int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | ((how & HD_OS_WRITE) != 0 ? O_WRONLY : O_RDONLY) |
                      ((how & HD_OS_CREATE) != 0 ? O_CREAT : 0) | ((how & HD_OS_NEW) != 0 ? O_CREAT | O_EXCL : 0) |
                      ((how & HD_OS_APPEND) != 0 ? O_APPEND : 0) | ((how & HD_OS_NO_LINK) != 0 ? O_NOFOLLOW : 0) |
                      ((how & HD_OS_FOLDER) != 0 ? O_DIRECTORY : 0);
    return openat(folder == HD_OS_HERE ? AT_FDCWD : folder, path, flags, rights);
}

bool hd_os_close(int file) { return close(file) == 0; }

size_t hd_os_read_until_end(int file, void *out, size_t capacity) {
    size_t length = 0;
    while (length < capacity) {
        const ssize_t n = read(file, (char *)out + length, capacity - length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        length += (size_t)n;
    }
    return length;
}

bool hd_os_read(int file, void *out, size_t bytes) { return hd_os_read_until_end(file, out, bytes) == bytes; }

bool hd_os_write(int file, const void *from, size_t bytes) {
    for (const char *at = from; bytes > 0;) {
        const ssize_t n = write(file, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

int64_t hd_os_read_at(int file, void *out, uint64_t bytes, uint64_t offset) {
    ssize_t n;
    do n = pread(file, out, bytes < MOST_AT_ONCE ? (size_t)bytes : MOST_AT_ONCE, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n;
}

int64_t hd_os_write_at(int file, const void *from, uint64_t bytes, uint64_t offset) {
    ssize_t n;
    do n = pwrite(file, from, bytes < MOST_AT_ONCE ? (size_t)bytes : MOST_AT_ONCE, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n;
}

bool hd_os_cut(int file, uint64_t bytes) { return ftruncate(file, (off_t)bytes) == 0; }
bool hd_os_flush(int file) { return fsync(file) == 0; }
bool hd_os_touch(int file) { return futimens(file, NULL) == 0; }
bool hd_os_set_rights(int file, int rights) { return fchmod(file, (mode_t)rights) == 0; }

const void *hd_os_file_map(int file, uint64_t bytes) {
    if (bytes > SIZE_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    const void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, 0);
    return map == MAP_FAILED ? NULL : map;
}
void hd_os_file_unmap(const void *map, uint64_t bytes) { munmap((void *)(uintptr_t)map, (size_t)bytes); }

int hd_os_above_standard(int file) {
    if (file < 0 || file > STDERR_FILENO) return file;
    const int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(file);
    return moved;
}

/* ---- what they are ----------------------------------------------------------------------------------------------- */
static bool describe_status(bool known, const struct stat *s, hd_os_status *out) {
    if (!known) return false;
    *out = (hd_os_status){.bytes = (uint64_t)s->st_size,
                          .links = (uint64_t)s->st_nlink,
                          .changed = hd_os_changed_at(s),
                          .rights = (int)(s->st_mode & 0777),
                          .is_regular = S_ISREG(s->st_mode),
                          .is_safe =
                              (s->st_uid == geteuid() || s->st_uid == 0) && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0};
    return true;
}

bool hd_os_status_of(int file, hd_os_status *out) {
    struct stat s;
    return describe_status(fstat(file, &s) == 0, &s, out);
}
bool hd_os_status_at(const char *path, hd_os_status *out) {
    struct stat s;
    return describe_status(stat(path, &s) == 0, &s, out);
}
bool hd_os_status_in(int folder, const char *name, hd_os_status *out) {
    struct stat s;
    return describe_status(fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0, &s, out);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
bool hd_os_can_read(const char *path) { return access(path, R_OK) == 0; }
bool hd_os_make_folder(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }
bool hd_os_remove_folder(const char *path) { return rmdir(path) == 0; }
bool hd_os_remove(const char *path) { return unlink(path) == 0; }
bool hd_os_remove_in(int folder, const char *name, bool is_folder) {
    return unlinkat(folder, name, is_folder ? AT_REMOVEDIR : 0) == 0;
}
bool hd_os_make_temporary(char *path) { return mkdtemp(path) != NULL; }
int64_t hd_os_read_link(const char *path, char *out, size_t capacity) { return readlink(path, out, capacity); }

bool hd_os_real_path(const char *path, char out[HD_OS_PATH]) {
    char *real = realpath(path, NULL);
    const size_t length = real != NULL ? strlen(real) : HD_OS_PATH;
    if (length < HD_OS_PATH) memcpy(out, real, length + 1);
    free(real);
    return length < HD_OS_PATH;
}

/* ---- folders: what the system has is what we have ---------------------------------------------------------------- */
hd_os_folder *hd_os_folder_open(const char *path) { return (hd_os_folder *)opendir(path); }
const char *hd_os_folder_next(hd_os_folder *f) {
    const struct dirent *entry = readdir((DIR *)f);
    return entry != NULL ? entry->d_name : NULL;
}
int hd_os_folder_file(hd_os_folder *f) { return dirfd((DIR *)f); }
void hd_os_folder_close(hd_os_folder *f) { closedir((DIR *)f); }
