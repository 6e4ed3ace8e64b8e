/* What programs of all GPUs share. */
#include "device/program.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- objects ----------------------------------------------------------------------------------------------------- */
static uint64_t sum_of(const unsigned char *bytes, size_t count) { /* FNV-1a */
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

hd_gpu_object *hd_gpu_object_new(size_t count) {
    hd_gpu_object *object = hd_array_resize(NULL, sizeof *object + count);
    if (object == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for an object of %zu bytes", count);
    return object;
}

void hd_gpu_object_seal(hd_gpu_object *object, const char *mark, size_t count) {
    memset(object->mark, 0, sizeof object->mark);
    memcpy(object->mark, mark, strlen(mark));
    object->count = count;
    object->sum = sum_of(object->bytes, count);
}

const unsigned char *hd_gpu_object_open(const char *mark, const char *whose, const void *object, size_t bytes,
                                        size_t *count) {
    hd_gpu_object head = {.count = 0}; /* objects may lie anywhere */
    const unsigned char *inside = (const unsigned char *)object + sizeof head;
    if (bytes > sizeof head) memcpy(&head, object, sizeof head);
    *count = bytes > sizeof head ? bytes - sizeof head : 0;
    if (*count > 0 && strncmp(head.mark, mark, sizeof head.mark) == 0 && head.count == *count &&
        head.sum == sum_of(inside, *count))
        return inside;
    hd_fail(HD_ERROR_DEVICE, "an object of %zu bytes is no whole program of %s; compile it anew", bytes, whose);
    return NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */
static bool write_text(const char *path, const char *text) {
    const int file = hd_os_open(HD_OS_HERE, path, HD_OS_WRITE | HD_OS_NEW, 0600);
    const bool written = file >= 0 && hd_os_write(file, text, strlen(text));
    return file >= 0 && hd_os_close(file) && written;
}

/* Puts the text where somebody can look at it, into a new folder, and says where. */
static const char *save_text(const char *name, const char *ending, const char *text, char *out, size_t capacity) {
    char folder[256];
    const char *base = hd_environment("TMPDIR");
    const int length = snprintf(folder, sizeof folder, "%s/hodu-XXXXXX", base != NULL ? base : "/tmp");
    bool saved = length < (int)sizeof folder && hd_os_make_temporary(folder);
    if (saved) {
        const size_t begin = strlen(folder) + 1;
        snprintf(out, capacity, "%s/%.40s.%s", folder, name, ending);
        for (char *c = out + begin; *c != '\0'; ++c) /* names of kernels may be anything */
            if (strchr("/\\ \t\n'\"", *c) != NULL) *c = '_';
        saved = write_text(out, text);
        if (!saved) hd_os_remove_folder(folder);
    }
    if (!saved) snprintf(out, capacity, "no file (%s; set TMPDIR)", strerror(errno));
    return out;
}

hd_error hd_gpu_does_not_compile(hd_device device, const char *name, const char *ending, const char *text,
                                 const char *log) {
    char path[320];
    save_text(name, ending, text, path, sizeof path);
    const size_t taken = strlen(path) + 110, left = taken < 360 ? 400 - taken : 40; /* messages have 512 characters */
    const size_t most = left < 300 ? left : 300;
    size_t length = log == NULL ? 0 : strlen(log);
    while (length > 0 && strchr("\n\r\t ", log[length - 1]) != NULL) length--;
    const char *end = "it does not say why";
    if (length > 0) end = length > most ? log + length - most : log;
    const int shown = (int)(length == 0 ? strlen(end) : length < most ? length : most);
    return hd_fail(HD_ERROR_DEVICE, "%s does not compile %.40s, whose text is in %.320s: %.*s",
                   hd_device_text((char[32]){0}, device), name, path, shown, end);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
hd_error hd_gpu_check_launch(hd_device device, const char *name, bool is_loaded, size_t group_most,
                             const hd_gpu_launch *l) {
    const uint64_t threads = (uint64_t)l->threads[0] * l->threads[1] * l->threads[2];
    if (!is_loaded)
        return hd_fail(HD_ERROR_INTERNAL, "the kernel %.100s is not loaded on %s", name,
                       hd_device_text((char[32]){0}, device));
    if (threads == 0 || threads > group_most)
        return hd_fail(HD_ERROR_DEVICE, "the kernel %.100s takes groups of 1 to %zu threads on %s, not of %llu", name,
                       group_most, hd_device_text((char[32]){0}, device), (unsigned long long)threads);
    if (l->argument_bytes < (size_t)l->buffer_count * sizeof(int64_t))
        return hd_fail(HD_ERROR_INTERNAL, "the kernel %.100s has %d buffers, and no room for their offsets", name,
                       l->buffer_count);
    return HD_OK;
}

void hd_gpu_fill_in(const hd_gpu_launch *l, int buffer, size_t offset) {
    const int64_t filled_in = (int64_t)offset;
    memcpy((char *)l->arguments + (size_t)buffer * sizeof filled_in, &filled_in, sizeof filled_in);
}
