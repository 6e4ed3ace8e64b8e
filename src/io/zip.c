/* Zip files. Nothing in one is believed: every place is held against the bytes that are there. */
#include "io/zip.h"

#include <inttypes.h>
#include <string.h>

enum {
    LOCAL = 30, /* bytes in front of a member's name */
    ENTRY = 46, /* in the list */
    END = 22,   /* behind the list */
    END64 = 56, /* likewise, of large files, */
    LOCATOR = 20,
    SMALL = 0xffff, /* a 16-bit field that says: see the 64-bit one */
    MOST_COMMENT = 0xffff,
    EXTRA64 = 20,      /* what we write behind every name: both sizes in 64 bits */
    MOST_RATIO = 1032, /* of deflate: more zeros do not fit a byte */
    UTF8 = 1 << 11,
    ENCRYPTED = 1
};
static const uint32_t large = 0xffffffff, local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50,
                      end64_mark = 0x06064b50, locator_mark = 0x07064b50;

static hd_error read_at(const hd_zip *z, void *out, uint64_t bytes, uint64_t at, const char *what) {
    if (at > z->source->size || bytes > z->source->size - at)
        return HD_BAD("is cut or damaged: its %s is beyond the end of the file", what);
    return hd_source_read(z->source, out, bytes, at);
}

/* ---- the end of the file, which says where the list of members is ------------------------------------------------ */
static hd_error read_end64(hd_zip *z, uint64_t end) {
    unsigned char locator[LOCATOR], b[END64];
    if (end < LOCATOR) return HD_BAD("is damaged: it has no place for the end of a large zip");
    HD_TRY(read_at(z, locator, LOCATOR, end - LOCATOR, "second end"));
    if (hd_file_u32(locator) != locator_mark)
        return HD_BAD("is damaged: the end of a large zip is not where it should be");
    const uint64_t at = hd_file_u64(locator + 8);
    HD_TRY(read_at(z, b, END64, at, "second end"));
    if (hd_file_u32(b) != end64_mark) return HD_BAD("is damaged: the end of a large zip is not where it should be");
    z->left = hd_file_u64(b + 32);
    z->directory = hd_file_u64(b + 48);
    const uint64_t bytes = hd_file_u64(b + 40);
    if (z->directory > at || bytes > at - z->directory)
        return HD_BAD("is damaged: its list of members is beyond its end");
    z->directory_end = z->directory + bytes;
    return HD_OK;
}

static hd_error read_end(hd_zip *z, const unsigned char *b, uint64_t end) {
    const uint32_t count = hd_file_u16(b + 10), bytes = hd_file_u32(b + 12), begin = hd_file_u32(b + 16);
    if (hd_file_u16(b + 4) != hd_file_u16(b + 6)) return HD_BAD("is one part of a zip in several");
    if (count == SMALL || bytes == large || begin == large) return read_end64(z, end);
    if (begin > end || bytes > end - begin) return HD_BAD("is damaged: its list of members is beyond its end");
    z->left = count;
    z->directory = begin;
    z->directory_end = (uint64_t)begin + bytes;
    return HD_OK;
}

hd_error hd_zip_open(hd_zip *z, const hd_source *source) {
    *z = (hd_zip){.source = source};
    const uint64_t most = END + MOST_COMMENT, tail = source->size < most ? source->size : most;
    unsigned char *b = hd_array_resize(NULL, (size_t)tail + 1);
    if (b == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to read a zip");
    hd_error status = hd_source_read(source, b, tail, source->size - tail);
    int64_t at = (int64_t)tail - END;
    while (status == HD_OK && at >= 0 &&
           (hd_file_u32(b + at) != end_mark || at + END + hd_file_u16(b + at + 20) != (int64_t)tail))
        --at;
    if (status == HD_OK)
        status = at < 0 ? HD_BAD("is no .npz: it has not the end of a zip, or was cut")
                        : read_end(z, b + at, source->size - tail + (uint64_t)at);
    hd_array_release(b);
    z->next = z->directory;
    return status;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */
/* What did not fit 32 bits is in an extra field, in this order. */
static hd_error read_extra64(const unsigned char *extra, uint32_t bytes, uint64_t *const fields[3]) {
    bool wanted = false;
    for (int i = 0; i < 3; ++i) wanted = wanted || *fields[i] == large;
    for (uint32_t at = 0; wanted && at + 4 <= bytes; at += 4 + hd_file_u16(extra + at + 2)) {
        const uint32_t size = hd_file_u16(extra + at + 2);
        if (hd_file_u16(extra + at) != 1 || size > bytes - at - 4) continue;
        const unsigned char *from = extra + at + 4, *const end = from + size;
        for (int i = 0; i < 3; ++i) {
            if (*fields[i] != large) continue;
            if (end - from < 8) return HD_BAD("is damaged: the size of a large member is missing");
            *fields[i] = hd_file_u64(from);
            from += 8;
        }
        return HD_OK;
    }
    return wanted ? HD_BAD("is damaged: the size of a large member is missing") : HD_OK;
}

static hd_error check_member(const hd_zip *z, const hd_zip_member *m, uint32_t method, uint32_t flags, uint64_t local) {
    unsigned char front[LOCAL];
    if ((flags & ENCRYPTED) != 0) return HD_BAD("has a member \"%s\" that is encrypted", m->name);
    if (method != 0 && method != 8)
        return HD_BAD("has a member \"%s\" compressed by method %u; known are 0 (stored) and 8 (deflated)", m->name,
                      method);
    HD_TRY(read_at(z, front, LOCAL, local, "member"));
    if (hd_file_u32(front) != local_mark) return HD_BAD("is damaged: \"%s\" is not where it should be", m->name);
    const uint64_t begin = local + LOCAL + hd_file_u16(front + 26) + hd_file_u16(front + 28);
    if (begin > z->directory || m->packed > z->directory - begin)
        return HD_BAD("is damaged: \"%s\" goes beyond the members", m->name);
    if (m->packed > z->source->size - z->packed)
        return HD_BAD("is damaged: its members, up to \"%s\", have more bytes than the file", m->name);
    if (method == 0 ? m->size != m->packed : m->size / MOST_RATIO > m->packed)
        return HD_BAD("is damaged: \"%s\" cannot have %" PRIu64 " bytes in %" PRIu64, m->name, m->size, m->packed);
    return HD_OK;
}

static hd_error read_member(hd_zip *z, const unsigned char *b, uint32_t name_bytes, uint32_t extra_bytes,
                            hd_zip_member *m) {
    const unsigned char *name = b + ENTRY;
    uint64_t local = hd_file_u32(b + 42);
    *m = (hd_zip_member){.crc = hd_file_u32(b + 16), .packed = hd_file_u32(b + 20), .size = hd_file_u32(b + 24)};
    if (name_bytes == 0 || name_bytes >= sizeof m->name || memchr(name, '\0', name_bytes) != NULL ||
        !hd_is_utf8((const char *)name, name_bytes))
        return HD_BAD("has a member whose name is empty, too long or no UTF-8");
    memcpy(m->name, name, name_bytes);
    HD_TRY(read_extra64(name + name_bytes, extra_bytes, (uint64_t *const[3]){&m->size, &m->packed, &local}));
    const uint32_t method = hd_file_u16(b + 10);
    HD_TRY(check_member(z, m, method, hd_file_u16(b + 8), local));
    unsigned char front[LOCAL];
    HD_TRY(read_at(z, front, LOCAL, local, "member"));
    m->at = local + LOCAL + hd_file_u16(front + 26) + hd_file_u16(front + 28);
    m->is_deflated = method == 8;
    z->packed += m->packed;
    return HD_OK;
}

hd_error hd_zip_next(hd_zip *z, hd_zip_member *m, bool *more) {
    unsigned char front[ENTRY];
    *more = z->left > 0;
    if (!*more)
        return z->next == z->directory_end ? HD_OK : HD_BAD("is damaged: its list has more members than it says");
    if (z->directory_end - z->next < ENTRY) return HD_BAD("is damaged: its list of members ends too early");
    HD_TRY(read_at(z, front, ENTRY, z->next, "list of members"));
    const uint32_t name = hd_file_u16(front + 28), extra = hd_file_u16(front + 30), comment = hd_file_u16(front + 32);
    const uint64_t bytes = (uint64_t)ENTRY + name + extra + comment;
    if (hd_file_u32(front) != entry_mark || bytes > z->directory_end - z->next)
        return HD_BAD("is damaged: its list of members ends too early");
    unsigned char *b = hd_array_resize(NULL, (size_t)bytes);
    if (b == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to read a zip");
    hd_error status = read_at(z, b, bytes, z->next, "list of members");
    if (status == HD_OK) status = read_member(z, b, name, extra, m);
    hd_array_release(b);
    z->next += bytes;
    z->left--;
    return status;
}

static hd_error unpack(const hd_zip *z, const hd_zip_member *m, unsigned char *out) {
    if (!m->is_deflated) return hd_source_read(z->source, out, m->size, m->at);
    unsigned char *packed = hd_array_resize(NULL, (size_t)m->packed + 1);
    if (packed == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %" PRIu64 " bytes", m->packed);
    hd_error status = hd_source_read(z->source, packed, m->packed, m->at);
    if (status == HD_OK) status = hd_inflate(packed, (size_t)m->packed, out, (size_t)m->size);
    hd_array_release(packed);
    return status;
}

hd_error hd_zip_read(const hd_zip *z, const hd_zip_member *m, unsigned char **out) {
    *out = m->size < SIZE_MAX ? hd_array_resize(NULL, (size_t)m->size + 1) : NULL;
    if (*out == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %" PRIu64 " bytes", m->size);
    hd_error status = unpack(z, m, *out);
    if (status == HD_OK && hd_crc32(0, *out, (size_t)m->size) != m->crc)
        status = HD_BAD("is damaged: its checksum does not fit its bytes");
    if (status == HD_OK) return HD_OK;
    hd_array_release(*out);
    *out = NULL;
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
uint64_t hd_zip_front(const char *name) { return LOCAL + strlen(name) + EXTRA64; }

/* What the list and the place in front of a member have alike: version needed (4.5: 64 bits), flags, method, a date
 * (that of the first day of 1980, so that the same tensors are the same file), checksum and sizes. */
static void put_common(unsigned char *b, const char *name, uint32_t crc, bool in_list) {
    hd_file_set_u16(b, 45);
    bool ascii = true;
    for (const char *c = name; *c != '\0'; ++c) ascii = ascii && (unsigned char)*c < 128;
    hd_file_set_u16(b + 2, ascii ? 0 : UTF8);
    hd_file_set_u16(b + 8, 1 << 5 | 1);
    hd_file_set_u32(b + 10, crc);
    hd_file_set_u32(b + 14, large);
    hd_file_set_u32(b + 18, large);
    hd_file_set_u16(b + 22, (uint32_t)strlen(name));
    hd_file_set_u16(b + 24, EXTRA64 + (in_list ? 8 : 0));
}

hd_error hd_zip_add(hd_zip_writer *w, const char *name, uint64_t size, uint32_t crc) {
    unsigned char local[LOCAL] = {0}, entry[ENTRY] = {0}, extra[EXTRA64 + 8] = {0};
    const size_t length = strlen(name);
    hd_file_set_u16(extra, 1);
    hd_file_set_u16(extra + 2, EXTRA64 - 4);
    hd_file_set_u64(extra + 4, size);
    hd_file_set_u64(extra + 12, size);
    hd_file_set_u32(local, local_mark);
    put_common(local + 4, name, crc, false);
    HD_TRY(hd_file_write_at(w->descriptor, local, LOCAL, w->end));
    HD_TRY(hd_file_write_at(w->descriptor, name, length, w->end + LOCAL));
    HD_TRY(hd_file_write_at(w->descriptor, extra, EXTRA64, w->end + LOCAL + length));
    hd_file_set_u32(entry, entry_mark);
    hd_file_set_u16(entry + 4, 45);
    put_common(entry + 6, name, crc, true);
    hd_file_set_u32(entry + 42, large);
    hd_file_set_u16(extra + 2, EXTRA64 - 4 + 8);
    hd_file_set_u64(extra + 20, w->end);
    hd_text_put(&w->directory, entry, ENTRY);
    hd_text_put(&w->directory, name, length);
    hd_text_put(&w->directory, extra, sizeof extra);
    w->end += hd_zip_front(name) + size;
    w->count++;
    return HD_OK;
}

hd_error hd_zip_end(hd_zip_writer *w) {
    unsigned char b[END64 + LOCATOR + END] = {0}, *locator = b + END64, *end = locator + LOCATOR;
    if (w->directory.failed) return hd_fail(HD_ERROR_MEMORY, "no memory to write a zip");
    const uint64_t bytes = w->directory.length, behind = w->end + bytes;
    if (bytes > 0) HD_TRY(hd_file_write_at(w->descriptor, w->directory.at, w->directory.length, w->end));
    hd_file_set_u32(b, end64_mark);
    hd_file_set_u64(b + 4, END64 - 12);
    hd_file_set_u16(b + 12, 45);
    hd_file_set_u16(b + 14, 45);
    hd_file_set_u64(b + 24, w->count);
    hd_file_set_u64(b + 32, w->count);
    hd_file_set_u64(b + 40, bytes);
    hd_file_set_u64(b + 48, w->end);
    hd_file_set_u32(locator, locator_mark);
    hd_file_set_u64(locator + 8, behind);
    hd_file_set_u32(locator + 16, 1);
    hd_file_set_u32(end, end_mark);
    const bool few = w->count < SMALL;
    hd_file_set_u16(end + 8, few ? (uint32_t)w->count : SMALL);
    hd_file_set_u16(end + 10, few ? (uint32_t)w->count : SMALL);
    hd_file_set_u32(end + 12, bytes < large ? (uint32_t)bytes : large);
    hd_file_set_u32(end + 16, w->end < large ? (uint32_t)w->end : large);
    return hd_file_write_at(w->descriptor, b, sizeof b, behind);
}
