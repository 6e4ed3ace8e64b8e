/* NumPy's .npz: a zip of .npy files. */
#include "io/zip.h"

#include <stdio.h>
#include <string.h>

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static hd_error add_member(hd_thread *thread, hd_archive *a, const hd_zip *z, hd_zip_member *m) {
    unsigned char *bytes;
    const size_t length = strlen(m->name);
    if (length < 5 || strcmp(m->name + length - 4, ".npy") != 0)
        return HD_BAD("is no .npy, and an .npz has nothing else");
    HD_TRY(hd_zip_read(z, m, &bytes));
    const hd_source s = {.descriptor = -1, .bytes = bytes, .size = m->size};
    hd_tensor *t = hd_npy_read(thread, &s, 0, m->size);
    hd_array_release(bytes);
    if (t == NULL) return thread->error_code;
    m->name[length - 4] = '\0';
    const hd_error status = hd_archive_put(thread, a, m->name, t);
    hd_tensor_drop(thread, t);
    return status;
}

static hd_error read_members(hd_thread *thread, hd_archive *a, const hd_source *s) {
    hd_zip z;
    hd_zip_member m;
    HD_TRY(hd_zip_open(&z, s));
    for (bool more = true;;) {
        HD_TRY(hd_zip_next(&z, &m, &more));
        if (!more) return HD_OK;
        if (m.name[strlen(m.name) - 1] == '/') continue; /* a folder */
        if (add_member(thread, a, &z, &m) != HD_OK)
            return hd_file_reword(thread, HD_OK, "has a member \"%s\" that ", m.name);
    }
}

hd_archive *hd_npz_load(const char *path) {
    HD_ENTER("hd_npz_load", NULL);
    HD_TRY_OR(hd_io_check_path(path), NULL);
    HD_HOLD_ERRORS(thread);
    hd_archive *a = hd_archive_make(thread);
    if (a == NULL) return NULL;
    hd_source s;
    hd_error status = hd_source_open(&s, path);
    if (status == HD_OK) status = read_members(thread, a, &s);
    hd_source_close(&s);
    a->is_loaded = true;
    if (status == HD_OK) return a;
    hd_release(a);
    hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    return NULL;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */
typedef struct writing {
    hd_thread *thread;
    const hd_archive *archive;
    hd_zip_writer zip;
    hd_text head; /* of the tensor that is written */
    char name[512];
} writing;

static hd_error write_elements(void *user, const void *bytes, size_t count) {
    writing *w = user;
    const uint64_t at = w->zip.end + hd_zip_front(w->name);
    uint32_t crc = hd_crc32(0, w->head.at, w->head.length);
    crc = hd_crc32(crc, bytes, count);
    HD_TRY(hd_file_write_at(w->zip.descriptor, w->head.at, w->head.length, at));
    HD_TRY(hd_file_write_at(w->zip.descriptor, bytes, count, at + w->head.length));
    return hd_zip_add(&w->zip, w->name, w->head.length + count, crc);
}

static hd_error fill(void *user, int descriptor) {
    writing *w = user;
    w->zip.descriptor = descriptor;
    for (int64_t i = 0; i < w->archive->tensors.count; ++i) {
        const hd_named *entry = &w->archive->tensors.items[i];
        if (snprintf(w->name, sizeof w->name, "%s.npy", entry->name) >= (int)sizeof w->name)
            return HD_BAD("cannot keep the name \"%.60s...\": it is longer than %d bytes", entry->name,
                          (int)sizeof w->name - 5);
        w->head.length = 0;
        hd_error status = hd_npy_head(entry->value, &w->head);
        if (status == HD_OK) status = hd_io_with_bytes(w->thread, entry->value, write_elements, w);
        if (status != HD_OK) return hd_file_reword(w->thread, HD_OK, "at \"%s\" ", entry->name);
    }
    return hd_zip_end(&w->zip);
}

void hd_npz_save(const char *path, const hd_archive *archive) {
    HD_ENTER("hd_npz_save", );
    if (hd_io_check_path(path) != HD_OK || hd_archive_check(archive, "archive") != HD_OK) return;
    HD_HOLD_ERRORS(thread);
    writing w = {.thread = thread, .archive = archive};
    const hd_error status = archive->texts.count > 0
                                ? HD_BAD("cannot keep the %lld texts of the archive: .safetensors files have such",
                                         (long long)archive->texts.count)
                                : hd_file_replace(thread, path, fill, &w);
    if (status != HD_OK) hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    hd_text_release(&w.zip.directory);
    hd_text_release(&w.head);
}
