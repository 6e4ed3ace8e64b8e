/* Whole files. */
#include "data/file.h"
#include "core/file.h"
#include "core/os_file.h"

#include <errno.h>
#include <string.h>

static hd_error read_open(int file, const char *path, hd_file_bytes *out) {
    hd_os_status status;
    if (file < 0 || !hd_os_status_of(file, &status))
        return hd_fail(HD_ERROR_STATE, "\"%s\" cannot be opened: %s", path, strerror(errno));
    if (!status.is_regular) return hd_fail(HD_ERROR_STATE, "\"%s\" is no regular file", path);
    if (status.bytes >= PTRDIFF_MAX) return hd_fail(HD_ERROR_OVERFLOW, "\"%s\" is too large", path);
    out->count = (size_t)status.bytes;
    out->bytes = hd_array_resize(NULL, out->count + 1);
    if (out->bytes == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the %zu bytes of \"%s\"", out->count, path);
    out->bytes[out->count] = '\0';
    if (hd_os_read(file, out->bytes, out->count)) return HD_OK;
    return hd_fail(HD_ERROR_STATE, "\"%s\" cannot be read, or became shorter meanwhile", path);
}

hd_error hd_file_read_all(const char *path, hd_file_bytes *out) {
    *out = (hd_file_bytes){NULL, 0};
    if (path == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
    const int file = hd_os_open(HD_OS_HERE, path, HD_OS_READ, 0);
    const hd_error status = read_open(file, path, out);
    if (file >= 0) hd_os_close(file);
    if (status == HD_OK) return HD_OK;
    hd_array_release(out->bytes);
    out->bytes = NULL;
    return status;
}

static hd_error write_open(int file, const char *path, const void *bytes, size_t count) {
    bool whole = file >= 0 && hd_os_write(file, bytes, count);
    const int why = errno;
    if (file >= 0) whole = hd_os_close(file) && whole;
    return whole ? HD_OK : hd_fail(HD_ERROR_STATE, "\"%s\" cannot be written: %s", path, strerror(why));
}

typedef struct span {
    const void *bytes;
    size_t count;
} span;
static hd_error fill(void *user, int descriptor) {
    const span *s = user;
    return hd_file_write_at(descriptor, s->bytes, s->count, 0);
}

hd_error hd_file_write_all(hd_thread *thread, const char *path, const void *bytes, size_t count) {
    if (path == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
    hd_os_status old;
    if (hd_os_status_at(path, &old) && !old.is_regular) /* a pipe, a terminal */
        return write_open(hd_os_open(HD_OS_HERE, path, HD_OS_WRITE, 0), path, bytes, count);
    const hd_error status = hd_file_replace(thread, path, fill, &(span){bytes, count});
    return status == HD_OK ? HD_OK : hd_file_reword(thread, status, "\"%s\" ", hd_file_short(path));
}

void hd_file_blame(hd_thread *thread, const char *path) { hd_error_append(thread, " (in \"%s\")", path); }
