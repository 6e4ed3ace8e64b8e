/* Files of the user's. */
#include "core/file.h"
#include "core/memory.h"
#include "core/os_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LINKS = 40 }; /* as many as Linux follows */

/* ---- messages ---------------------------------------------------------------------------------------------------- */
/* A message may quote a file, whose bytes must not reach a terminal as they are. */
static void tame(char *text) {
    for (; *text != '\0'; ++text)
        if ((unsigned char)*text < 32 || *text == 127) *text = '?';
}

hd_error hd_file_reword(hd_thread *thread, hd_error code, const char *format, ...) {
    hd_error_copy error;
    char words[256];
    va_list arguments;
    hd_error_take(&error);
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    tame(words);
    tame(error.message);
    if (code == HD_OK || error.code == HD_ERROR_MEMORY) code = error.code;
    const size_t length = strlen(error.call);
    const bool named = length > 0 && strncmp(error.message, error.call, length) == 0 && error.message[length] == ':' &&
                       thread->call != NULL && strcmp(error.call, thread->call) == 0;
    return hd_fail(code, "%s%s", words, error.message + (named ? length + 2 : 0));
}

const char *hd_file_short(const char *path) {
    const size_t length = strlen(path);
    return length > 160 ? path + length - 160 : path;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
hd_error hd_file_open_to_read(const char *path, int *descriptor, uint64_t *size) {
    hd_os_status status;
    *descriptor = hd_os_open(HD_OS_HERE, path, HD_OS_READ, 0);
    if (*descriptor < 0) return hd_fail(HD_ERROR_STATE, "cannot be opened: %s", strerror(errno));
    hd_error why = HD_OK;
    if (!hd_os_status_of(*descriptor, &status))
        why = hd_fail(HD_ERROR_STATE, "cannot be opened: %s", strerror(errno));
    else if (!status.is_regular)
        why = hd_fail(HD_ERROR_STATE, "is no regular file");
    if (why == HD_OK) {
        *size = status.bytes;
        return HD_OK;
    }
    hd_os_close(*descriptor);
    *descriptor = -1;
    return why;
}

hd_error hd_file_read_at(int descriptor, void *out, uint64_t bytes, uint64_t offset) {
    for (char *to = out; bytes > 0;) {
        const int64_t n = hd_os_read_at(descriptor, to, bytes, offset);
        if (n < 0) return hd_fail(HD_ERROR_STATE, "cannot be read: %s", strerror(errno));
        if (n == 0)
            return hd_fail(HD_ERROR_VALUE, "ends at byte %llu, too early: it was cut", (unsigned long long)offset);
        to += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return HD_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
hd_error hd_file_write_at(int descriptor, const void *from, size_t bytes, uint64_t offset) {
    for (const char *at = from; bytes > 0;) {
        const int64_t n = hd_os_write_at(descriptor, at, bytes, offset);
        if (n <= 0)
            return hd_fail(HD_ERROR_STATE, "cannot be written: %s", n < 0 ? strerror(errno) : "no byte was taken");
        at += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return HD_OK;
}

/* A new file in the folder of `path`, readable for whom the umask allows; its name in `temporary`, which has the
 * room. */
static hd_error open_temporary(const hd_thread *thread, const char *path, char *temporary, int *descriptor) {
    const char *slash = strrchr(path, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - path) : 0;
    for (int attempt = 0; attempt < 100; ++attempt) {
        sprintf(temporary, "%.*s.hodu-%lx-%x-%lx.tmp", folder, path, (long)hd_os_process(), (unsigned)thread->number,
                (long)(hd_os_nanoseconds() % 1000000000));
        *descriptor = hd_os_open(HD_OS_HERE, temporary, HD_OS_WRITE | HD_OS_NEW, 0666);
        if (*descriptor >= 0) return HD_OK;
        if (errno != EEXIST) break;
    }
    return hd_fail(HD_ERROR_STATE, "cannot be written: no new file can be made beside it: %s", strerror(errno));
}

static void flush_folder(const char *path) { /* so that a crash does not undo the renaming; some systems cannot */
    const char *slash = strrchr(path, '/');
    char folder[HD_OS_PATH];
    const size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) return;
    memcpy(folder, length > 0 ? path : ".", length > 0 ? length : 1);
    folder[length > 0 ? length : 1] = '\0';
    const int descriptor = hd_os_open(HD_OS_HERE, folder, HD_OS_READ | HD_OS_FOLDER, 0);
    if (descriptor < 0) return;
    hd_os_flush(descriptor);
    hd_os_close(descriptor);
}

/* Everything is on the disk, and as readable as the old file was, when there is one. */
static hd_error finish(int descriptor, const hd_os_status *old) {
    hd_os_status made;
    if (!hd_os_flush(descriptor)) return hd_fail(HD_ERROR_STATE, "cannot be written: %s", strerror(errno));
    if (old != NULL && hd_os_status_of(descriptor, &made) && made.rights != old->rights &&
        !hd_os_set_rights(descriptor, old->rights))
        return hd_fail(HD_ERROR_STATE, "cannot be written as readable as it was: %s", strerror(errno));
    return HD_OK;
}

static hd_error replace(const hd_thread *thread, const char *path, char *temporary,
                        hd_error (*fill)(void *user, int descriptor), void *user) {
    hd_os_status old;
    int descriptor;
    const bool exists = hd_os_status_at(path, &old);
    if (exists && !old.is_regular) return hd_fail(HD_ERROR_STATE, "is no regular file, and is not replaced");
    HD_TRY(open_temporary(thread, path, temporary, &descriptor));
    hd_error status = fill(user, descriptor);
    if (status == HD_OK) status = finish(descriptor, exists ? &old : NULL);
    if (!hd_os_close(descriptor) && status == HD_OK)
        status = hd_fail(HD_ERROR_STATE, "cannot be written: %s", strerror(errno));
    if (status == HD_OK && rename(temporary, path) != 0)
        status = hd_fail(HD_ERROR_STATE, "cannot take the place of what is there: %s", strerror(errno));
    if (status != HD_OK)
        hd_os_remove(temporary);
    else
        flush_folder(path);
    return status;
}

/* Where a path leads: behind symbolic links, whether something is there already or not. From hd_array_resize. */
static hd_error follow_links(const char *path, char **out) {
    char *at = hd_array_resize(NULL, strlen(path) + 1);
    if (at == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a path");
    strcpy(at, path);
    for (int links = 0; links < MOST_LINKS; ++links) {
        char named[HD_OS_PATH];
        const int64_t length = hd_os_read_link(at, named, sizeof named);
        if (length < 0 || length == (int64_t)sizeof named) { /* no link, or one that no system makes */
            *out = at;
            return HD_OK;
        }
        const char *slash = strrchr(at, '/'); /* what a link names is beside the link, unless it begins at the root */
        const size_t folder = slash == NULL || named[0] == '/' ? 0 : (size_t)(slash + 1 - at);
        char *next = hd_array_resize(NULL, folder + (size_t)length + 1);
        if (next != NULL) {
            memcpy(next, at, folder);
            memcpy(next + folder, named, (size_t)length);
            next[folder + (size_t)length] = '\0';
        }
        hd_array_release(at);
        if (next == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a path");
        at = next;
    }
    hd_array_release(at);
    return hd_fail(HD_ERROR_STATE, "cannot be written: %s", strerror(ELOOP));
}

hd_error hd_file_replace(hd_thread *thread, const char *path, hd_error (*fill)(void *user, int descriptor),
                         void *user) {
    char *target = NULL;
    HD_TRY(follow_links(path, &target));
    char *temporary = hd_array_resize(NULL, strlen(target) + 96);
    const hd_error status = temporary == NULL ? hd_fail(HD_ERROR_MEMORY, "no memory for a path")
                                              : replace(thread, target, temporary, fill, user);
    hd_array_release(temporary);
    hd_array_release(target);
    return status;
}
