/* Reading a .hoduscript file: its head, the table of sections, and the tables that nodes refer to. */
#include "script/file_reader.h"

#if HD_HAS_FILES

#include <string.h>

/* ---- the head and the table of sections -------------------------------------------------------------------------- */
static hd_error check_head(const hd_file *f, const unsigned char *head) {
    if (memcmp(head, hd_file_magic, sizeof hd_file_magic) != 0) return HD_BAD("is no .hoduscript file");
    const uint32_t version = hd_file_u32(head + 8), sections = hd_file_u32(head + 12);
    const uint64_t size = hd_file_u64(head + 16);
    if (version == 0 || version > HD_FILE_VERSION)
        return HD_BAD("has version %u of the format; this library, hodu %s, reads versions 1 to %d", version,
                      HD_VERSION_STRING, HD_FILE_VERSION);
    if (size != f->size)
        return HD_BAD("has %llu bytes and should have %llu: it was cut or something was added",
                      (unsigned long long)f->size, (unsigned long long)size);
    if (sections > HD_FILE_SECTIONS_MOST || HD_FILE_HEAD + (uint64_t)sections * HD_FILE_ENTRY > size)
        return HD_BAD("has %u sections, which cannot be", sections);
    return HD_OK;
}

static hd_error note_section(hd_reader *r, const unsigned char *entry, uint64_t offset, uint64_t size) {
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s) {
        if (memcmp(entry, hd_file_ids[s], 4) != 0) continue;
        if (r->sections[s].section != NULL) return HD_BAD("has two sections %s", hd_file_ids[s]);
        r->sections[s].section = hd_file_ids[s];
        if (s == HD_FILE_DATA) {
            r->data = offset;
            r->data_size = size;
        } else if (s == HD_FILE_code) {
            r->code = offset;
            r->code_size = size;
            r->code_checksum = hd_file_u64(entry + 24);
        } else {
            r->sections[s].at = r->bytes + offset;
            r->sections[s].end = r->sections[s].at + size;
        }
        return HD_OK;
    }
    if (entry[0] >= 'a' && entry[0] <= 'z') return HD_OK; /* one that may be skipped */
    return HD_BAD("has a section \"%.4s\" that this library, hodu %s, does not know", (const char *)entry,
                  HD_VERSION_STRING);
}

static bool is_code(const unsigned char *entry) { return memcmp(entry, hd_file_ids[HD_FILE_code], 4) == 0; }

/* What is in front of DATA, `before` bytes, but for machine code: that is read when somebody asks for it. */
static hd_error read_front(hd_reader *r, const unsigned char *entries, uint32_t count, uint64_t before) {
    uint64_t at = 0, end = HD_FILE_HEAD + (uint64_t)count * HD_FILE_ENTRY;
    for (uint32_t i = 0; i + 1 < count; ++i) {
        const unsigned char *entry = entries + (size_t)i * HD_FILE_ENTRY;
        const uint64_t offset = hd_file_u64(entry + 8), size = hd_file_u64(entry + 16);
        if (offset != hd_file_padded(end) || offset > before || size > before - offset) break; /* it will be refused */
        end = offset + size;
        if (!is_code(entry)) continue;
        HD_TRY(hd_file_read(r->file, r->bytes + at, at, offset - at));
        at = end;
    }
    return hd_file_read(r->file, r->bytes + at, at, before - at);
}

/* Sections lie one behind the other, with zeros up to the next multiple of 64; the last one is DATA, which begins after
 * `before` bytes. */
static hd_error check_section(hd_reader *r, const unsigned char *entry, bool last, uint64_t before, uint64_t *end) {
    const uint64_t offset = hd_file_u64(entry + 8), size = hd_file_u64(entry + 16), begin = hd_file_padded(*end);
    const bool data = memcmp(entry, hd_file_ids[HD_FILE_DATA], 4) == 0, code = is_code(entry);
    const uint64_t most = data ? r->file->size : before;
    if (hd_file_u32(entry + 4) != 0 || data != last || offset != begin || offset > most || size > most - offset ||
        (data && size != most - offset))
        return HD_BAD("has a section %.4s that is not where it should be, or overlaps another", (const char *)entry);
    for (uint64_t i = *end; i < begin; ++i)
        if (r->bytes[i] != 0) return HD_BAD("has bytes before section %.4s that should be 0", (const char *)entry);
    if (!code && hd_file_u64(entry + 24) != (data ? 0 : hd_file_checksum(r->bytes + offset, (size_t)size)))
        return HD_BAD("has a damaged section %.4s: its checksum does not fit its bytes", (const char *)entry);
    *end = offset + size;
    return note_section(r, entry, offset, size);
}

hd_error hd_reader_sections(hd_reader *r) {
    unsigned char head[HD_FILE_HEAD];
    if (r->file->size < HD_FILE_HEAD) return HD_BAD("is no .hoduscript file");
    HD_TRY(hd_file_read(r->file, head, 0, HD_FILE_HEAD));
    HD_TRY(check_head(r->file, head));
    const uint32_t count = hd_file_u32(head + 12);
    r->version = hd_file_u32(head + 8);
    unsigned char table[HD_FILE_SECTIONS_MOST * HD_FILE_ENTRY + 24], *entries = table + 24;
    memcpy(table, head, 24); /* the checksum covers what is before and behind it */
    HD_TRY(hd_file_read(r->file, entries, HD_FILE_HEAD, (uint64_t)count * HD_FILE_ENTRY));
    if (hd_file_checksum(table, 24 + (size_t)count * HD_FILE_ENTRY) != hd_file_u64(head + 24))
        return HD_BAD("has a damaged head: its checksum does not fit its bytes");
    const uint64_t before = count == 0 ? 0 : hd_file_u64(entries + (size_t)(count - 1) * HD_FILE_ENTRY + 8);
    if (before > r->file->size || before < HD_FILE_HEAD + (uint64_t)count * HD_FILE_ENTRY)
        return HD_BAD("has a last section that is not where it should be");
    r->bytes = hd_reader_array((size_t)before, 1);
    if (r->bytes == NULL) return HD_ERROR_MEMORY;
    HD_TRY(read_front(r, entries, count, before));
    uint64_t end = HD_FILE_HEAD + (uint64_t)count * HD_FILE_ENTRY;
    for (uint32_t i = 0; i < count; ++i)
        HD_TRY(check_section(r, entries + (size_t)i * HD_FILE_ENTRY, i + 1 == count, before, &end));
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s)
        if (r->sections[s].section == NULL && s != HD_FILE_code) return HD_BAD("has no section %s", hd_file_ids[s]);
    return HD_OK;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
static hd_error read_pieces(hd_cursor *c, hd_pieces *out) {
    uint32_t count;
    HD_TRY(hd_cursor_count(c, 4, &count));
    out->items = hd_reader_array(count, sizeof *out->items);
    if (out->items == NULL) return HD_ERROR_MEMORY;
    for (; out->count < count; ++out->count) {
        hd_piece *p = &out->items[out->count];
        HD_TRY(hd_cursor_u32(c, &p->size));
        p->bytes = hd_cursor_bytes(c, p->size);
        if (p->bytes == NULL) return HD_ERROR_VALUE;
    }
    return hd_cursor_end(c);
}

static hd_error read_strings(hd_reader *r) {
    HD_TRY(read_pieces(&r->sections[HD_FILE_STRS], &r->strings));
    for (uint32_t i = 0; i < r->strings.count; ++i) {
        const hd_piece *p = &r->strings.items[i];
        const unsigned char *zero = p->size == 0 ? NULL : memchr(p->bytes, 0, p->size);
        if (zero == NULL || zero != p->bytes + p->size - 1)
            return HD_BAD("has a string %u that does not end where it should", i);
    }
    return HD_OK;
}

hd_error hd_cursor_string(const hd_reader *r, hd_cursor *c, const char **out) {
    uint32_t number;
    *out = "";
    HD_TRY(hd_cursor_u32(c, &number));
    if (number >= r->strings.count)
        return HD_BAD("has a section %s that names string %u of %u", c->section, number, r->strings.count);
    *out = (const char *)r->strings.items[number].bytes;
    return HD_OK;
}

static hd_error read_types(hd_reader *r) {
    hd_cursor *c = &r->sections[HD_FILE_TYPE];
    uint32_t count;
    HD_TRY(hd_cursor_count(c, 4, &count));
    r->types = hd_reader_array(count, sizeof *r->types);
    if (r->types == NULL) return HD_ERROR_MEMORY;
    for (uint32_t i = 0; i < count; ++i) {
        const char *name;
        HD_TRY(hd_cursor_string(r, c, &name));
        int d = 1;
        while (d < HD_DTYPE_COUNT && strcmp(hd_dtype_name((hd_dtype)d), name) != 0) ++d;
        if (d == HD_DTYPE_COUNT)
            return HD_BAD("has tensors of dtype \"%.60s\", which this library, hodu %s, does not know", name,
                          HD_VERSION_STRING);
        r->types[r->type_count++] = (hd_dtype)d;
    }
    return hd_cursor_end(c);
}

static hd_error find_op(const char *name, uint16_t *op) {
    for (*op = HD_NODE_INPUT; *op < HD_NODE_END; ++*op)
        if (strcmp(hd_file_node_names[*op - HD_NODE_INPUT], name) == 0) return HD_OK;
    for (*op = 0; *op < HD_OP_COUNT; ++*op)
        if (strcmp(hd_ops[*op].name, name) == 0) return HD_OK;
    return HD_BAD("has an op \"%.60s\", which this library, hodu %s, does not know", name, HD_VERSION_STRING);
}

/* Fields of version 1 that have another name since. */
static const struct {
    const char *op, *then, *now;
} renamed[] = {{"matmul", "turn_a", "transpose_a"}, {"matmul", "turn_b", "transpose_b"}};

static const char *name_now(const hd_reader *r, const char *op, const char *field) {
    for (size_t i = 0; r->version == 1 && i < sizeof renamed / sizeof renamed[0]; ++i)
        if (strcmp(renamed[i].op, op) == 0 && strcmp(renamed[i].then, field) == 0) return renamed[i].now;
    return field;
}

/* A field that the file has and we do not is an error; one that we have and the file does not is zero. */
static hd_error read_op_fields(const hd_reader *r, hd_cursor *c, hd_known_op *op, const char *name) {
    uint32_t count;
    HD_TRY(hd_cursor_count(c, 8, &count));
    for (uint32_t i = 0; i < count; ++i) {
        const char *field;
        uint32_t kind;
        size_t bytes;
        HD_TRY(hd_cursor_string(r, c, &field));
        HD_TRY(hd_cursor_u32(c, &kind));
        const hd_field *f = hd_attribute_fields(op->op, &bytes);
        field = name_now(r, name, field);
        while (f->kind != HD_FIELD_END && strcmp(f->name, field) != 0) ++f;
        for (int k = 0; k < op->field_count; ++k)
            if (op->fields[k] == f) return HD_BAD("has an op \"%s\" with two fields \"%.60s\"", name, field);
        if (f->kind == HD_FIELD_END || hd_file_field_kind(f->kind) != kind || op->field_count == HD_FILE_FIELDS_MOST)
            return HD_BAD(
                "has an op \"%s\" with a field \"%.60s\" of kind %u, which this library, hodu %s, does not know", name,
                field, kind, HD_VERSION_STRING);
        op->fields[op->field_count++] = f;
    }
    return HD_OK;
}

static hd_error read_ops(hd_reader *r) {
    hd_cursor *c = &r->sections[HD_FILE_OPER];
    uint32_t count;
    HD_TRY(hd_cursor_count(c, 8, &count));
    if (count > UINT16_MAX) return HD_BAD("has %u ops", count);
    r->ops = hd_reader_array(count, sizeof *r->ops);
    if (r->ops == NULL) return HD_ERROR_MEMORY;
    for (; r->op_count < count; ++r->op_count) {
        hd_known_op *op = &r->ops[r->op_count];
        const char *name;
        op->field_count = 0;
        HD_TRY(hd_cursor_string(r, c, &name));
        HD_TRY(find_op(name, &op->op));
        HD_TRY(read_op_fields(r, c, op, name));
    }
    return hd_cursor_end(c);
}

/* Where the tensors are: one behind the other, as far apart as their alignment asks. */
static hd_error read_tensors(hd_reader *r) {
    hd_cursor *c = &r->sections[HD_FILE_TENS];
    HD_TRY(hd_cursor_u32(c, &r->constant_count));
    HD_TRY(hd_cursor_u32(c, &r->cell_count));
    const uint64_t count = (uint64_t)r->constant_count + r->cell_count;
    if (count != hd_cursor_left(c) / HD_FILE_TENSOR_BYTES || hd_cursor_left(c) % HD_FILE_TENSOR_BYTES != 0)
        return HD_BAD("has a section TENS of %llu entries in %zu bytes", (unsigned long long)count, hd_cursor_left(c));
    hd_file *f = r->file;
    f->tensors = hd_reader_array((size_t)count, sizeof *f->tensors);
    if (f->tensors == NULL) return HD_ERROR_MEMORY;
    uint64_t end = 0; /* in DATA */
    for (; f->tensor_count < count; ++f->tensor_count) {
        const unsigned char *at = hd_cursor_bytes(c, HD_FILE_TENSOR_BYTES);
        if (at == NULL) return HD_ERROR_VALUE;
        hd_file_tensor *t = &f->tensors[f->tensor_count];
        *t = (hd_file_tensor){
            .file = f, .offset = hd_file_u64(at), .bytes = hd_file_u64(at + 8), .checksum = hd_file_u64(at + 16)};
        if (t->offset != r->data + end || t->bytes > r->data_size - end ||
            hd_file_padded(t->bytes) > r->data_size - end)
            return HD_BAD("has a tensor %u that is not where it should be, or is longer than the file",
                          f->tensor_count);
        end += hd_file_padded(t->bytes);
    }
    return end == r->data_size
               ? HD_OK
               : HD_BAD("has %llu bytes that belong to no tensor", (unsigned long long)(r->data_size - end));
}

hd_error hd_reader_tables(hd_reader *r) {
    HD_TRY(read_strings(r));
    HD_TRY(read_types(r));
    HD_TRY(read_ops(r));
    HD_TRY(read_pieces(&r->sections[HD_FILE_SHAP], &r->shapes));
    HD_TRY(read_pieces(&r->sections[HD_FILE_ATTR], &r->attributes));
    return read_tensors(r);
}

#endif
