/* Reading a .hoduscript file: its sections into a graph. Nothing in a file is believed: every count is held against the
 * bytes that are there before anything is allocated, every number against what it counts, every string ends. What the
 * nodes mean is checked by calling them: see file_check.c. */
#include "script/file.h"

#if HD_HAS_FILES

#include <stdlib.h>
#include <string.h>

typedef struct cursor {
    const unsigned char *at, *end;
    const char *section;
} cursor;

/* An entry of STRS, SHAP or ATTR. */
typedef struct piece {
    const unsigned char *bytes;
    uint32_t size;
} piece;
typedef struct pieces {
    piece *items;
    uint32_t count;
} pieces;

typedef struct known_op {
    uint16_t op; /* as in a node */
    uint8_t field_count;
    const hd_field *fields[HD_FILE_FIELDS_MOST]; /* in the file's order */
} known_op;

typedef struct reader {
    hd_thread *thread;
    hd_file *file;
    unsigned char *bytes; /* all in front of DATA */
    cursor sections[HD_FILE_SECTION_COUNT];
    uint64_t data, data_size; /* DATA, in the file */
    pieces strings, shapes, attributes;
    hd_dtype *types;
    uint32_t type_count;
    known_op *ops;
    uint32_t op_count;
    uint32_t constant_count, cell_count;
    hd_graph *g;
} reader;

/* ---- taking bytes ------------------------------------------------------------------------------------------------------ */
#define BAD(...) hd_fail(HD_ERROR_VALUE, __VA_ARGS__)

static size_t left(const cursor *c) { return (size_t)(c->end - c->at); }

/* The next bytes; NULL with an error when there are not that many. */
static const unsigned char *take(cursor *c, size_t bytes) {
    if (left(c) < bytes) {
        BAD("has a section %s that ends too early", c->section);
        return NULL;
    }
    c->at += bytes;
    return c->at - bytes;
}

static hd_error take_u32(cursor *c, uint32_t *out) {
    const unsigned char *at = take(c, 4);
    *out = at != NULL ? hd_file_u32(at) : 0;
    return at != NULL ? HD_OK : HD_ERROR_VALUE;
}

static hd_error take_i64(cursor *c, int64_t *out) {
    const unsigned char *at = take(c, 8);
    *out = at != NULL ? (int64_t)hd_file_u64(at) : 0;
    return at != NULL ? HD_OK : HD_ERROR_VALUE;
}

/* A count of records of at least `bytes` each, which must all be there. */
static hd_error take_count(cursor *c, size_t bytes, uint32_t *out) {
    HD_TRY(take_u32(c, out));
    if (*out > left(c) / bytes) return BAD("has a section %s of %u entries, more than its bytes can hold", c->section, *out);
    return HD_OK;
}

static hd_error expect_end(const cursor *c) {
    return left(c) == 0 ? HD_OK : BAD("has a section %s with %zu bytes too many", c->section, left(c));
}

static void *new_array(size_t count, size_t size) {
    void *array = hd_array_resize(NULL, (count + 1) * size);
    if (array == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a table of %zu", count);
    return array;
}

/* ---- the head and the table of sections ---------------------------------------------------------------------------------- */
static hd_error check_head(const hd_file *f, const unsigned char *head) {
    if (memcmp(head, hd_file_magic, sizeof hd_file_magic) != 0) return BAD("is no .hoduscript file");
    const uint32_t version = hd_file_u32(head + 8), sections = hd_file_u32(head + 12);
    const uint64_t size = hd_file_u64(head + 16);
    if (version == 0 || version > HD_FILE_VERSION)
        return BAD("has version %u of the format; this library, hodu %s, reads version %d", version, HD_VERSION_STRING,
                   HD_FILE_VERSION);
    if (size != f->size)
        return BAD("has %llu bytes and should have %llu: it was cut or something was added", (unsigned long long)f->size,
                   (unsigned long long)size);
    if (sections > HD_FILE_SECTIONS_MOST || HD_FILE_HEAD + (uint64_t)sections * HD_FILE_ENTRY > size)
        return BAD("has %u sections, which cannot be", sections);
    return HD_OK;
}

static hd_error note_section(reader *r, const unsigned char *entry, uint64_t offset, uint64_t size) {
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s) {
        if (memcmp(entry, hd_file_ids[s], 4) != 0) continue;
        if (r->sections[s].section != NULL) return BAD("has two sections %s", hd_file_ids[s]);
        r->sections[s].section = hd_file_ids[s];
        if (s == HD_FILE_DATA) {
            r->data = offset;
            r->data_size = size;
        } else {
            r->sections[s].at = r->bytes + offset;
            r->sections[s].end = r->sections[s].at + size;
        }
        return HD_OK;
    }
    if (entry[0] >= 'a' && entry[0] <= 'z') return HD_OK; /* one that may be skipped */
    return BAD("has a section \"%.4s\" that this library, hodu %s, does not know", (const char *)entry, HD_VERSION_STRING);
}

/* Sections lie one behind the other, with zeros up to the next multiple of 64; the last one is DATA. */
static hd_error check_section(reader *r, const unsigned char *entry, bool last, uint64_t *end) {
    const uint64_t offset = hd_file_u64(entry + 8), size = hd_file_u64(entry + 16), begin = hd_file_padded(*end);
    const bool data = memcmp(entry, hd_file_ids[HD_FILE_DATA], 4) == 0;
    if (hd_file_u32(entry + 4) != 0 || data != last || offset != begin || offset > r->file->size ||
        size > r->file->size - offset || (data && size != r->file->size - offset))
        return BAD("has a section %.4s that is not where it should be, or overlaps another", (const char *)entry);
    for (uint64_t i = *end; i < begin; ++i)
        if (r->bytes[i] != 0) return BAD("has bytes before section %.4s that should be 0", (const char *)entry);
    if (hd_file_u64(entry + 24) != (data ? 0 : hd_file_checksum(r->bytes + offset, (size_t)size)))
        return BAD("has a damaged section %.4s: its checksum does not fit its bytes", (const char *)entry);
    *end = offset + size;
    return note_section(r, entry, offset, size);
}

static hd_error read_sections(reader *r) {
    unsigned char head[HD_FILE_HEAD];
    if (r->file->size < HD_FILE_HEAD) return BAD("is no .hoduscript file");
    HD_TRY(hd_file_read(r->file, head, 0, HD_FILE_HEAD));
    HD_TRY(check_head(r->file, head));
    const uint32_t count = hd_file_u32(head + 12);
    unsigned char table[HD_FILE_SECTIONS_MOST * HD_FILE_ENTRY + 24], *entries = table + 24;
    memcpy(table, head, 24); /* the checksum covers what is before and behind it */
    HD_TRY(hd_file_read(r->file, entries, HD_FILE_HEAD, (uint64_t)count * HD_FILE_ENTRY));
    if (hd_file_checksum(table, 24 + (size_t)count * HD_FILE_ENTRY) != hd_file_u64(head + 24))
        return BAD("has a damaged head: its checksum does not fit its bytes");
    const uint64_t before = count == 0 ? 0 : hd_file_u64(entries + (size_t)(count - 1) * HD_FILE_ENTRY + 8);
    if (before > r->file->size || before < HD_FILE_HEAD + (uint64_t)count * HD_FILE_ENTRY)
        return BAD("has a last section that is not where it should be");
    r->bytes = new_array((size_t)before, 1);
    if (r->bytes == NULL) return HD_ERROR_MEMORY;
    HD_TRY(hd_file_read(r->file, r->bytes, 0, before));
    uint64_t end = HD_FILE_HEAD + (uint64_t)count * HD_FILE_ENTRY;
    for (uint32_t i = 0; i < count; ++i) HD_TRY(check_section(r, entries + (size_t)i * HD_FILE_ENTRY, i + 1 == count, &end));
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s)
        if (r->sections[s].section == NULL) return BAD("has no section %s", hd_file_ids[s]);
    return HD_OK;
}

/* ---- tables ---------------------------------------------------------------------------------------------------------------- */
static hd_error read_pieces(cursor *c, pieces *out) {
    uint32_t count;
    HD_TRY(take_count(c, 4, &count));
    out->items = new_array(count, sizeof *out->items);
    if (out->items == NULL) return HD_ERROR_MEMORY;
    for (; out->count < count; ++out->count) {
        piece *p = &out->items[out->count];
        HD_TRY(take_u32(c, &p->size));
        p->bytes = take(c, p->size);
        if (p->bytes == NULL) return HD_ERROR_VALUE;
    }
    return expect_end(c);
}

static hd_error read_strings(reader *r) {
    HD_TRY(read_pieces(&r->sections[HD_FILE_STRS], &r->strings));
    for (uint32_t i = 0; i < r->strings.count; ++i) {
        const piece *p = &r->strings.items[i];
        const unsigned char *zero = p->size == 0 ? NULL : memchr(p->bytes, 0, p->size);
        if (zero == NULL || zero != p->bytes + p->size - 1) return BAD("has a string %u that does not end where it should", i);
    }
    return HD_OK;
}

static hd_error take_string(const reader *r, cursor *c, const char **out) {
    uint32_t number;
    HD_TRY(take_u32(c, &number));
    if (number >= r->strings.count) return BAD("has a section %s that names string %u of %u", c->section, number, r->strings.count);
    *out = (const char *)r->strings.items[number].bytes;
    return HD_OK;
}

/* The name of an input, output or cell, which is never empty. */
static hd_error take_name(const reader *r, cursor *c, const char **out) {
    HD_TRY(take_string(r, c, out));
    return (*out)[0] != '\0' ? HD_OK : BAD("has an empty name in section %s", c->section);
}

static hd_error read_types(reader *r) {
    cursor *c = &r->sections[HD_FILE_TYPE];
    uint32_t count;
    HD_TRY(take_count(c, 4, &count));
    r->types = new_array(count, sizeof *r->types);
    if (r->types == NULL) return HD_ERROR_MEMORY;
    for (uint32_t i = 0; i < count; ++i) {
        const char *name;
        HD_TRY(take_string(r, c, &name));
        int d = 1;
        while (d < HD_DTYPE_COUNT && strcmp(hd_dtype_name((hd_dtype)d), name) != 0) ++d;
        if (d == HD_DTYPE_COUNT)
            return BAD("has tensors of dtype \"%.60s\", which this library, hodu %s, does not know", name, HD_VERSION_STRING);
        r->types[r->type_count++] = (hd_dtype)d;
    }
    return expect_end(c);
}

static hd_error find_op(const char *name, uint16_t *op) {
    for (*op = HD_NODE_INPUT; *op < HD_NODE_END; ++*op)
        if (strcmp(hd_file_node_names[*op - HD_NODE_INPUT], name) == 0) return HD_OK;
    for (*op = 0; *op < HD_OP_COUNT; ++*op)
        if (strcmp(hd_ops[*op].name, name) == 0) return HD_OK;
    return BAD("has an op \"%.60s\", which this library, hodu %s, does not know", name, HD_VERSION_STRING);
}

/* A field that the file has and we do not is an error; one that we have and the file does not is zero. */
static hd_error read_op_fields(const reader *r, cursor *c, known_op *op, const char *name) {
    uint32_t count;
    HD_TRY(take_count(c, 8, &count));
    for (uint32_t i = 0; i < count; ++i) {
        const char *field;
        uint32_t kind;
        size_t bytes;
        HD_TRY(take_string(r, c, &field));
        HD_TRY(take_u32(c, &kind));
        const hd_field *f = hd_attribute_fields(op->op, &bytes);
        while (f->kind != HD_FIELD_END && strcmp(f->name, field) != 0) ++f;
        for (int k = 0; k < op->field_count; ++k)
            if (op->fields[k] == f) return BAD("has an op \"%s\" with two fields \"%.60s\"", name, field);
        if (f->kind == HD_FIELD_END || hd_file_field_kind(f->kind) != kind || op->field_count == HD_FILE_FIELDS_MOST)
            return BAD("has an op \"%s\" with a field \"%.60s\" of kind %u, which this library, hodu %s, does not know", name, field,
                       kind, HD_VERSION_STRING);
        op->fields[op->field_count++] = f;
    }
    return HD_OK;
}

static hd_error read_ops(reader *r) {
    cursor *c = &r->sections[HD_FILE_OPER];
    uint32_t count;
    HD_TRY(take_count(c, 8, &count));
    if (count > UINT16_MAX) return BAD("has %u ops", count);
    r->ops = new_array(count, sizeof *r->ops);
    if (r->ops == NULL) return HD_ERROR_MEMORY;
    for (; r->op_count < count; ++r->op_count) {
        known_op *op = &r->ops[r->op_count];
        const char *name;
        op->field_count = 0;
        HD_TRY(take_string(r, c, &name));
        HD_TRY(find_op(name, &op->op));
        HD_TRY(read_op_fields(r, c, op, name));
    }
    return expect_end(c);
}

static hd_error read_spans(reader *r) {
    cursor *c = &r->sections[HD_FILE_SPAN];
    uint32_t count;
    HD_TRY(take_count(c, 8, &count));
    for (uint32_t i = 1; i <= count; ++i) {
        const char *name;
        uint32_t parent;
        HD_TRY(take_string(r, c, &name));
        HD_TRY(take_u32(c, &parent));
        if (parent >= i) return BAD("has a span %u inside span %u, which is not before it", i, parent);
        if (hd_graph_add_span(r->g, name, parent) == 0) return r->thread->error_code;
    }
    return expect_end(c);
}

/* Where the tensors are: one behind the other, as far apart as their alignment asks. */
static hd_error read_tensors(reader *r) {
    cursor *c = &r->sections[HD_FILE_TENS];
    HD_TRY(take_u32(c, &r->constant_count));
    HD_TRY(take_u32(c, &r->cell_count));
    const uint64_t count = (uint64_t)r->constant_count + r->cell_count;
    if (count != left(c) / HD_FILE_TENSOR_BYTES || left(c) % HD_FILE_TENSOR_BYTES != 0) return BAD("has a section TENS of %llu entries in %zu bytes", (unsigned long long)count, left(c));
    hd_file *f = r->file;
    f->tensors = new_array((size_t)count, sizeof *f->tensors);
    if (f->tensors == NULL) return HD_ERROR_MEMORY;
    uint64_t end = 0; /* in DATA */
    for (; f->tensor_count < count; ++f->tensor_count) {
        const unsigned char *at = take(c, HD_FILE_TENSOR_BYTES);
        if (at == NULL) return HD_ERROR_VALUE;
        hd_file_tensor *t = &f->tensors[f->tensor_count];
        *t = (hd_file_tensor){.file = f, .offset = hd_file_u64(at), .bytes = hd_file_u64(at + 8), .checksum = hd_file_u64(at + 16)};
        if (t->offset != r->data + end || t->bytes > r->data_size - end || hd_file_padded(t->bytes) > r->data_size - end)
            return BAD("has a tensor %u that is not where it should be, or is longer than the file", f->tensor_count);
        end += hd_file_padded(t->bytes);
    }
    return end == r->data_size ? HD_OK : BAD("has %llu bytes that belong to no tensor", (unsigned long long)(r->data_size - end));
}

/* ---- attributes -------------------------------------------------------------------------------------------------------------- */
static hd_error take_list(cursor *c, int64_t *out, int *count) {
    uint32_t n;
    HD_TRY(take_u32(c, &n));
    if (n > HD_MAX_RANK) return BAD("has attributes with a list of %u", n);
    for (uint32_t i = 0; i < n; ++i) HD_TRY(take_i64(c, &out[i]));
    *count = (int)n;
    return HD_OK;
}

static hd_error read_field(const reader *r, cursor *c, const hd_field *f, char *attributes) {
    void *at = attributes + f->offset;
    int64_t values[HD_MAX_RANK] = {0};
    uint32_t word = 0;
    int count;
    switch (f->kind) {
    case HD_FIELD_F64:
    case HD_FIELD_I64:
        HD_TRY(take_i64(c, &values[0]));
        memcpy(at, &values[0], 8); /* the bits of either */
        return HD_OK;
    case HD_FIELD_INT:
        HD_TRY(take_u32(c, &word));
        *(int *)at = (int32_t)word;
        return HD_OK;
    case HD_FIELD_BOOL:
        HD_TRY(take_u32(c, &word));
        *(bool *)at = word == 1;
        return word <= 1 ? HD_OK : BAD("has attributes with a truth value of %u", word);
    case HD_FIELD_DTYPE:
        HD_TRY(take_u32(c, &word));
        if (word >= r->type_count) return BAD("has attributes with dtype %u of %u", word, r->type_count);
        *(hd_dtype *)at = r->types[word];
        return HD_OK;
    case HD_FIELD_SHAPE: return take_list(c, ((hd_shape *)at)->size, &((hd_shape *)at)->rank);
    case HD_FIELD_AXES:
        HD_TRY(take_list(c, values, &count));
        for (int i = 0; i < count; ++i) {
            if (values[i] < -HD_MAX_RANK || values[i] >= HD_MAX_RANK) return BAD("has attributes with axis %lld", (long long)values[i]);
            ((hd_axes *)at)->axis[i] = (int)values[i];
        }
        ((hd_axes *)at)->count = count;
        return HD_OK;
    case HD_FIELD_FLAGS:
        HD_TRY(take_u32(c, &word));
        if (word >> HD_MAX_RANK != 0) return BAD("has attributes with axes %#x", word);
        for (int i = 0; i < HD_MAX_RANK; ++i) ((bool *)at)[i] = word >> i & 1;
        return HD_OK;
    case HD_FIELD_LAYOUT: {
        hd_layout *layout = at;
        HD_TRY(take_list(c, layout->shape.size, &layout->shape.rank));
        HD_TRY(take_list(c, layout->stride, &count));
        if (count != layout->shape.rank) return BAD("has attributes with %d strides for %d axes", count, layout->shape.rank);
        return take_i64(c, &layout->offset);
    }
    case HD_FIELD_PADDING:
        HD_TRY(take_list(c, values, &count));
        for (int i = 0; i < count; ++i) ((hd_padding *)at)[i].before = values[i];
        HD_TRY(take_list(c, values, &count));
        for (int i = 0; i < count; ++i) ((hd_padding *)at)[i].after = values[i];
        return HD_OK;
    case HD_FIELD_END: break;
    }
    return BAD("has attributes of no known kind");
}

static hd_error read_attributes(const reader *r, const known_op *op, uint32_t number, char *out) {
    if (number > r->attributes.count) return BAD("names attributes %u of %u", number, r->attributes.count);
    const piece *p = &r->attributes.items[number - 1];
    cursor c = {p->bytes, p->bytes + p->size, "ATTR"};
    memset(out, 0, HD_ATTRIBUTES_MOST);
    for (int i = 0; i < op->field_count; ++i) HD_TRY(read_field(r, &c, op->fields[i], out));
    return expect_end(&c);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------- */
static hd_error read_shape(const reader *r, uint32_t number, hd_dtype dtype, hd_shape *shape, int64_t *count) {
    if (number >= r->shapes.count) return BAD("names shape %u of %u", number, r->shapes.count);
    const piece *p = &r->shapes.items[number];
    if (p->size % 8 != 0 || p->size / 8 > HD_MAX_RANK) return BAD("has a shape of %u bytes", p->size);
    *shape = (hd_shape){.rank = (int)(p->size / 8)};
    for (int i = 0; i < shape->rank; ++i) shape->size[i] = (int64_t)hd_file_u64(p->bytes + 8 * i);
    return hd_shape_check(shape, hd_dtype_bytes[dtype], count) == HD_OK
               ? HD_OK
               : hd_file_reword(r->thread, HD_ERROR_VALUE, "has an impossible shape: ");
}

/* The tensor of a constant or cell, whose bytes must be those of its type. */
static hd_error tensor_of(const reader *r, uint32_t place, hd_dtype dtype, int64_t count, hd_file_tensor **out) {
    hd_file_tensor *t = &r->file->tensors[place];
    const uint64_t expected = (uint64_t)count * hd_dtype_bytes[dtype];
    if (t->bytes != expected)
        return BAD("has a tensor %u of %llu bytes where its shape asks for %llu", place, (unsigned long long)t->bytes,
                   (unsigned long long)expected);
    t->is_bool = dtype == HD_BOOL;
    t->node = r->g->node_count;
    *out = t;
    return HD_OK;
}

static hd_error add_constant(reader *r, hd_dtype dtype, const hd_shape *shape, int64_t count) {
    hd_file_tensor *t;
    if (r->g->constant_count >= r->constant_count) return BAD("has more constants than tensors for them");
    HD_TRY(tensor_of(r, r->g->constant_count, dtype, count, &t));
    t->number = r->g->constant_count;
    hd_storage *s = hd_file_constant(r->thread, t);
    if (s == NULL) return r->thread->error_code;
    hd_graph_add_constant(r->g, s, dtype, shape);
    hd_object_release(r->thread, &s->object);
    return r->thread->error_code;
}

static hd_error add_cell(reader *r, hd_dtype dtype, const hd_shape *shape, int64_t count) {
    cursor *c = &r->sections[HD_FILE_CELL];
    const char *name;
    uint32_t kind, update;
    hd_file_tensor *t;
    if (r->g->cell_count >= r->cell_count) return BAD("has more cells than tensors for them");
    HD_TRY(take_name(r, c, &name));
    HD_TRY(take_u32(c, &kind));
    HD_TRY(take_u32(c, &update)); /* looked at when all nodes are there */
    if (kind != HD_FILE_BOUND && kind != HD_FILE_STATE) return BAD("has a cell \"%.60s\" of kind %u", name, kind);
    HD_TRY(tensor_of(r, r->constant_count + r->g->cell_count, dtype, count, &t));
    hd_storage *s = hd_file_cell(r->thread, t);
    if (s == NULL) return hd_file_reword(r->thread, HD_OK, "has a %s tensor \"%.60s\" that ", kind == HD_FILE_BOUND ? "bound" : "state", name);
    if (hd_graph_add_cell(r->g, name, kind == HD_FILE_BOUND ? HD_CELL_BOUND : HD_CELL_STATE, s, dtype, shape) != HD_NO_NODE)
        r->g->cells[r->g->cell_count - 1].update = update;
    hd_object_release(r->thread, &s->object);
    return r->thread->error_code;
}

static hd_error add_input(reader *r, hd_dtype dtype, const hd_shape *shape) {
    const char *name;
    HD_TRY(take_name(r, &r->sections[HD_FILE_INPT], &name));
    return hd_graph_add_input(r->g, name, dtype, shape) == HD_NO_NODE ? r->thread->error_code : HD_OK;
}

static hd_error add_op(reader *r, const known_op *op, uint32_t derivative, uint32_t input_count, hd_dtype dtype,
                       const hd_shape *shape, uint32_t number) {
    const bool is_op = op->op < HD_OP_COUNT;
    const hd_op *row = !is_op ? NULL : derivative == 0 ? &hd_ops[op->op] : &hd_derivatives[op->op][derivative - 1];
    const uint32_t node = r->g->node_count;
    size_t bytes;
    uint32_t inputs[HD_MAX_INPUTS];
    hd_attribute_fields(op->op, &bytes);
    if (is_op ? row->name == NULL || input_count < row->min_inputs || input_count > row->max_inputs : input_count != 2)
        return BAD("has a node %%%u with %u inputs, which its op does not take", node, input_count);
    if ((bytes > 0) != (number != 0)) return BAD("has a node %%%u whose attributes are missing or too many", node);
    for (uint32_t k = 0; k < input_count; ++k) {
        HD_TRY(take_u32(&r->sections[HD_FILE_EDGE], &inputs[k]));
        if (inputs[k] >= node) return BAD("has a node %%%u that reads node %%%u, which is not before it", node, inputs[k]);
    }
    _Alignas(8) char attributes[HD_ATTRIBUTES_MOST];
    if (number != 0) HD_TRY(read_attributes(r, op, number, attributes));
    if (is_op && row->family == HD_FAMILY_RANDOM && ((const hd_random_attributes *)attributes)->draw >= r->g->draws)
        return BAD("has a node %%%u with a draw past the script's %u", node, r->g->draws);
    return hd_graph_add(r->g, op->op, (int)derivative, inputs, (int)input_count, dtype, shape, number != 0 ? attributes : NULL) ==
                   HD_NO_NODE
               ? r->thread->error_code
               : HD_OK;
}

static hd_error read_node(reader *r, const unsigned char *at) {
    const uint32_t op = hd_file_u32(at), type = hd_file_u32(at + 4), number = hd_file_u32(at + 12), span = hd_file_u32(at + 16);
    const uint32_t derivative = hd_file_u32(at + 20) & 0xffff, input_count = hd_file_u32(at + 20) >> 16, node = r->g->node_count;
    if (op >= r->op_count || type >= r->type_count || span >= r->g->span_count)
        return BAD("has a node %%%u with an op, dtype or span that is in no table", node);
    const known_op *known = &r->ops[op];
    const hd_dtype dtype = r->types[type];
    hd_shape shape;
    int64_t count;
    HD_TRY(read_shape(r, hd_file_u32(at + 8), dtype, &shape, &count));
    const bool is_call = known->op < HD_OP_COUNT || known->op == HD_NODE_WRITE;
    if (derivative > (known->op < HD_OP_ELEMENTWISE_COUNT ? 3 : 0) || (!is_call && (input_count != 0 || number != 0)))
        return BAD("has a node %%%u with more than its op has", node);
    if (is_call)
        HD_TRY(add_op(r, known, derivative, input_count, dtype, &shape, number));
    else if (known->op == HD_NODE_INPUT)
        HD_TRY(add_input(r, dtype, &shape));
    else if (known->op == HD_NODE_CONSTANT)
        HD_TRY(add_constant(r, dtype, &shape, count));
    else
        HD_TRY(add_cell(r, dtype, &shape, count));
    r->g->nodes[node].span = span;
    return HD_OK;
}

static hd_error read_nodes(reader *r) {
    cursor *c = &r->sections[HD_FILE_NODE];
    uint32_t count, inputs, cells, edges;
    HD_TRY(take_count(&r->sections[HD_FILE_EDGE], 4, &edges));
    HD_TRY(take_count(&r->sections[HD_FILE_INPT], 4, &inputs));
    HD_TRY(take_count(&r->sections[HD_FILE_CELL], 12, &cells));
    HD_TRY(take_count(c, HD_FILE_NODE_BYTES, &count));
    for (uint32_t i = 0; i < count; ++i) {
        const unsigned char *at = take(c, HD_FILE_NODE_BYTES);
        if (at == NULL) return HD_ERROR_VALUE;
        HD_TRY(read_node(r, at));
    }
    if (edges != r->g->edge_count || inputs != r->g->input_count || cells != r->g->cell_count || cells != r->cell_count ||
        r->constant_count != r->g->constant_count)
        return BAD("has tables of edges, inputs, cells or constants that its nodes do not use up");
    HD_TRY(expect_end(c));
    HD_TRY(expect_end(&r->sections[HD_FILE_EDGE]));
    HD_TRY(expect_end(&r->sections[HD_FILE_INPT]));
    return expect_end(&r->sections[HD_FILE_CELL]);
}

/* ---- what leaves a run, and the script -------------------------------------------------------------------------------------------- */
static hd_error check_updates(const hd_graph *g) {
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        const hd_graph_cell *c = &g->cells[i];
        if (c->update >= g->node_count || g->nodes[c->node].dtype != g->nodes[c->update].dtype ||
            g->nodes[c->node].shape != g->nodes[c->update].shape || (c->kind == HD_CELL_BOUND && c->update != c->node))
            return BAD("has a cell \"%.60s\" whose new value is none that fits it", hd_graph_string(g, c->name));
    }
    return HD_OK;
}

static hd_error read_outputs(reader *r) {
    cursor *c = &r->sections[HD_FILE_OUTP];
    uint32_t count, node;
    HD_TRY(take_count(c, 8, &count));
    for (uint32_t i = 0; i < count; ++i) {
        const char *name;
        HD_TRY(take_name(r, c, &name));
        HD_TRY(take_u32(c, &node));
        if (node >= r->g->node_count) return BAD("has an output \"%.60s\" that is node %%%u of %u", name, node, r->g->node_count);
        HD_TRY(hd_graph_add_output(r->g, name, node));
    }
    return expect_end(c);
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Equal names are one place in the graph's pool. */
static hd_error check_names(const hd_graph *g, const char *what, uint32_t count, const uint32_t *first, size_t stride) {
    uint32_t *names = new_array(count, sizeof *names);
    if (names == NULL) return HD_ERROR_MEMORY;
    for (uint32_t i = 0; i < count; ++i) names[i] = *(const uint32_t *)((const char *)first + i * stride);
    qsort(names, count, sizeof *names, by_number);
    hd_error status = HD_OK;
    for (uint32_t i = 1; i < count && status == HD_OK; ++i)
        if (names[i] == names[i - 1]) status = BAD("has two %s \"%.60s\"", what, hd_graph_string(g, names[i]));
    hd_array_release(names);
    return status;
}

static hd_error read_script(reader *r, hd_file_choices *choices) {
    cursor *c = &r->sections[HD_FILE_SCRI];
    const char *name, *compiler, *writer;
    uint32_t level, draws;
    HD_TRY(take_string(r, c, &name));
    HD_TRY(take_string(r, c, &compiler));
    HD_TRY(take_u32(c, &level));
    HD_TRY(take_u32(c, &draws));
    HD_TRY(take_string(r, c, &writer)); /* the version that wrote it: for people */
    HD_TRY(expect_end(c));
    static const hd_compiler compilers[] = {HD_COMPILER_HODU, HD_COMPILER_XLA};
    const bool is_xla = strcmp(compiler, "XLA") == 0;
    if (!is_xla && strcmp(compiler, "HODU") != 0)
        return BAD("is for a compiler \"%.60s\", which this library, hodu %s, does not know", compiler, HD_VERSION_STRING);
    *choices = (hd_file_choices){compilers[is_xla], (hd_optimization_level)(HD_O0 + (int)(level & 3))};
    if (level > 3) return BAD("has optimization level %u", level);
    if (!hd_compiler_available(choices->compiler)) return BAD("is for the compiler XLA, which is not built into this library");
    r->g = hd_graph_new(r->thread, name);
    if (r->g == NULL) return HD_ERROR_MEMORY;
    r->g->draws = draws;
    return HD_OK;
}

static hd_error read_graph(reader *r, hd_file_choices *choices) {
    HD_TRY(read_sections(r));
    HD_TRY(read_strings(r));
    HD_TRY(read_script(r, choices));
    HD_TRY(read_types(r));
    HD_TRY(read_ops(r));
    HD_TRY(read_pieces(&r->sections[HD_FILE_SHAP], &r->shapes));
    HD_TRY(read_pieces(&r->sections[HD_FILE_ATTR], &r->attributes));
    HD_TRY(read_spans(r));
    HD_TRY(read_tensors(r));
    HD_TRY(read_nodes(r));
    HD_TRY(check_updates(r->g));
    HD_TRY(read_outputs(r));
    const hd_graph *g = r->g;
    if (g->input_count > 0) HD_TRY(check_names(g, "inputs", g->input_count, &g->inputs[0].name, sizeof *g->inputs));
    if (g->output_count > 0) HD_TRY(check_names(g, "outputs", g->output_count, &g->outputs[0].name, sizeof *g->outputs));
    if (g->cell_count > 0) HD_TRY(check_names(g, "cells", g->cell_count, &g->cells[0].name, sizeof *g->cells));
    return hd_file_check_calls(r->thread, r->g);
}

hd_graph *hd_file_read_graph(hd_thread *thread, hd_file *file, hd_file_choices *choices) {
    reader r = {.thread = thread, .file = file};
    const hd_error status = read_graph(&r, choices);
    hd_array_release(r.bytes);
    hd_array_release(r.strings.items);
    hd_array_release(r.shapes.items);
    hd_array_release(r.attributes.items);
    hd_array_release(r.types);
    hd_array_release(r.ops);
    if (status == HD_OK) return r.g;
    hd_graph_release(thread, r.g);
    return NULL;
}

#endif
