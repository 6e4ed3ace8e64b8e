/* Writing a .hoduscript file: a script's graph as sections, and its tensors behind them.
 */
#include "script/file.h"

#if HD_HAS_FILES

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CHUNK = 256 << 10 }; /* summed up, and written while it is in the cache */

typedef struct bytes {
    unsigned char *at;
    size_t length, capacity;
    bool failed;
} bytes;

/* Entries that are numbered in the order of their first use: strings, shapes, attributes. */
typedef struct numbered {
    hd_pool pool;
    uint32_t *numbers; /* by offset in the pool */
    uint32_t capacity;
} numbered;

typedef struct writer {
    hd_thread *thread;
    const hd_script *script;
    const hd_graph *g;
    bytes sections[HD_FILE_SECTION_COUNT]; /* DATA stays empty: it goes to the file at once */
    numbered strings, shapes, attributes;
    uint32_t ops[HD_NODE_END], op_count; /* 1 + its index in OPER; 0: not used yet */
    uint32_t fields[HD_NODE_END];        /* how many of its fields are written */
    uint32_t types[HD_DTYPE_COUNT], type_count;
    uint64_t offsets[HD_FILE_SECTION_COUNT], sizes[HD_FILE_SECTION_COUNT];
    int descriptor;
} writer;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */
static unsigned char *extend(bytes *b, size_t count) {
    if (!b->failed && count > b->capacity - b->length) {
        const size_t capacity = (b->capacity + count) * 2 + 64;
        unsigned char *moved = hd_array_resize(b->at, capacity);
        b->failed = moved == NULL;
        if (moved != NULL) {
            b->at = moved;
            b->capacity = capacity;
        }
    }
    if (b->failed) return NULL;
    b->length += count;
    return b->at + b->length - count;
}

static void put(bytes *b, const void *from, size_t count) {
    unsigned char *to = extend(b, count);
    if (to != NULL && count > 0) memcpy(to, from, count);
}
static void put_u32(bytes *b, uint32_t v) {
    unsigned char *to = extend(b, 4);
    if (to != NULL) hd_file_set_u32(to, v);
}
static void put_u64(bytes *b, uint64_t v) {
    unsigned char *to = extend(b, 8);
    if (to != NULL) hd_file_set_u64(to, v);
}
static void put_list(bytes *b, const int64_t *values, int count) {
    put_u32(b, (uint32_t)count);
    for (int i = 0; i < count; ++i) put_u64(b, (uint64_t)values[i]);
}

/* ---- numbered entries -------------------------------------------------------------------------------------------- */
/* UINT32_MAX with an error. */
static uint32_t number_of(numbered *t, const void *entry, size_t count) {
    const uint32_t before = t->pool.entries, offset = hd_pool_intern(&t->pool, entry, count);
    if (offset == 0) return UINT32_MAX;
    if (t->pool.entries == before) /* without a number, there was no memory for it */
        return offset < t->capacity ? t->numbers[offset] : UINT32_MAX;
    if (offset >= t->capacity) {
        uint32_t *moved = hd_array_resize(t->numbers, (size_t)t->pool.capacity * 2 * sizeof *moved);
        if (moved == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory for the tables of a script");
            return UINT32_MAX;
        }
        t->numbers = moved;
        t->capacity = t->pool.capacity * 2;
    }
    return t->numbers[offset] = before;
}

static uint32_t string(writer *w, const char *text) { return number_of(&w->strings, text, strlen(text) + 1); }

static void put_numbered(bytes *b, const numbered *t) {
    put_u32(b, t->pool.entries);
    for (uint32_t at = 0; at < t->pool.count;) {
        const uint32_t size = (uint32_t)(t->pool.words[at] >> 32);
        put_u32(b, size);
        put(b, t->pool.words + at + 1, size);
        at += 1 + (size + 7) / 8;
    }
}

static void release_numbered(numbered *t) {
    hd_array_release(t->pool.words);
    hd_array_release(t->pool.table);
    hd_array_release(t->numbers);
}

/* ---- dtypes, ops, shapes ----------------------------------------------------------------------------------------- */
static uint32_t type_number(writer *w, hd_dtype dtype) {
    if (w->types[dtype] == 0) {
        put_u32(&w->sections[HD_FILE_TYPE], string(w, hd_dtype_name(dtype)));
        w->types[dtype] = ++w->type_count;
    }
    return w->types[dtype] - 1;
}

/* True when a node of the op needs the field: other files stay readable for libraries that do not know it. */
static bool is_needed(const hd_graph *g, uint16_t op, const hd_field *f) {
    bool needed = !f->later;
    for (uint32_t i = 0; i < g->node_count && !needed; ++i)
        needed =
            g->nodes[i].op == op && g->nodes[i].attributes != 0 && hd_attribute_is_said(f, hd_node_attributes(g, i));
    return needed;
}

static uint32_t op_number(writer *w, uint16_t op) {
    if (w->ops[op] == 0) {
        bytes *b = &w->sections[HD_FILE_OPER];
        size_t size;
        uint32_t count = 0;
        const hd_field *fields = hd_attribute_fields(op, &size);
        while (fields[count].kind != HD_FIELD_END && is_needed(w->g, op, &fields[count])) ++count;
        w->fields[op] = count;
        put_u32(b, string(w, op < HD_OP_COUNT ? hd_ops[op].name : hd_file_node_names[op - HD_NODE_INPUT]));
        put_u32(b, count);
        for (uint32_t i = 0; i < count; ++i) {
            put_u32(b, string(w, fields[i].name));
            put_u32(b, hd_file_field_kind(fields[i].kind));
        }
        w->ops[op] = ++w->op_count;
    }
    return w->ops[op] - 1;
}

static uint32_t shape_number(writer *w, uint32_t node) {
    const hd_shape shape = hd_node_shape(w->g, node);
    unsigned char sizes[HD_MAX_RANK * 8];
    for (int i = 0; i < shape.rank; ++i) hd_file_set_u64(sizes + 8 * i, (uint64_t)shape.size[i]);
    return number_of(&w->shapes, sizes, (size_t)shape.rank * 8);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */
static void put_field(writer *w, bytes *b, const hd_field *f, const char *attributes) {
    const void *at = attributes + f->offset;
    int64_t values[HD_MAX_RANK] = {0};
    uint64_t word = 0;
    int n = 0;
    switch (f->kind) {
    case HD_FIELD_F64:
    case HD_FIELD_I64:
        memcpy(&word, at, 8);
        put_u64(b, word);
        break;
    case HD_FIELD_INT: put_u32(b, (uint32_t) * (const int *)at); break;
    case HD_FIELD_BOOL: put_u32(b, *(const bool *)at); break;
    case HD_FIELD_DTYPE: put_u32(b, type_number(w, *(const hd_dtype *)at)); break;
    case HD_FIELD_SHAPE: put_list(b, ((const hd_shape *)at)->size, ((const hd_shape *)at)->rank); break;
    case HD_FIELD_AXES:
        for (; n < ((const hd_axes *)at)->count; ++n) values[n] = ((const hd_axes *)at)->axis[n];
        put_list(b, values, n);
        break;
    case HD_FIELD_FLAGS:
        for (; n < HD_MAX_RANK; ++n) word |= (uint64_t)((const bool *)at)[n] << n;
        put_u32(b, (uint32_t)word);
        break;
    case HD_FIELD_LAYOUT:
        put_list(b, ((const hd_layout *)at)->shape.size, ((const hd_layout *)at)->shape.rank);
        put_list(b, ((const hd_layout *)at)->stride, ((const hd_layout *)at)->shape.rank);
        put_u64(b, (uint64_t)((const hd_layout *)at)->offset);
        break;
    case HD_FIELD_PADDING:
        for (; n < HD_MAX_RANK; ++n) values[n] = ((const hd_padding *)at)[n].before;
        put_list(b, values, n);
        for (n = 0; n < HD_MAX_RANK; ++n) values[n] = ((const hd_padding *)at)[n].after;
        put_list(b, values, n);
        break;
    case HD_FIELD_NAME: put_u32(b, string(w, ((const hd_name *)at)->text)); break;
    case HD_FIELD_BYTES:
        put_u32(b, (uint32_t)((const hd_small_bytes *)at)->count);
        put(b, ((const hd_small_bytes *)at)->at, (size_t)((const hd_small_bytes *)at)->count);
        break;
    case HD_FIELD_END: break;
    }
}

static uint32_t attributes_number(writer *w, uint32_t node, bytes *scratch) { /* 1 + its index; 0: none */
    const char *attributes = hd_node_attributes(w->g, node);
    if (attributes == NULL) return 0;
    const uint16_t op = w->g->nodes[node].op;
    size_t size;
    scratch->length = 0;
    const hd_field *fields = hd_attribute_fields(op, &size);
    for (uint32_t i = 0; i < w->fields[op]; ++i) put_field(w, scratch, &fields[i], attributes);
    return scratch->failed ? UINT32_MAX : number_of(&w->attributes, scratch->at, scratch->length) + 1;
}

/* ---- nodes and tables -------------------------------------------------------------------------------------------- */
static void put_node(writer *w, uint32_t i, bytes *scratch) {
    const hd_node *n = &w->g->nodes[i];
    const bool is_call = hd_node_is_call(n);
    const uint32_t inputs = is_call ? n->input_count : 0;
    bytes *b = &w->sections[HD_FILE_NODE];
    put_u32(b, op_number(w, n->op));
    put_u32(b, type_number(w, (hd_dtype)n->dtype));
    put_u32(b, shape_number(w, i));
    put_u32(b, is_call ? attributes_number(w, i, scratch) : 0);
    put_u32(b, n->span);
    put_u32(b, n->derivative | inputs << 16);
    for (uint32_t k = 0; k < inputs; ++k) put_u32(&w->sections[HD_FILE_EDGE], hd_node_inputs(w->g, i)[k]);
}

/* Inputs, constants and cells are in the order of their nodes: a node does not say its index. */
static hd_error check_order(const hd_graph *g) {
    uint32_t counts[3] = {0, 0, 0};
    bool same = true;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        if (n->op >= HD_NODE_INPUT && n->op <= HD_NODE_CELL) same = same && n->first == counts[n->op - HD_NODE_INPUT]++;
    }
    same = same && counts[0] == g->input_count && counts[1] == g->constant_count && counts[2] == g->cell_count;
    return same ? HD_OK
                : hd_fail(HD_ERROR_INTERNAL, "is not written: the script's tables are not in the order of its nodes");
}

static void put_tables(writer *w) {
    const hd_graph *g = w->g;
    bytes *b = &w->sections[HD_FILE_SPAN];
    put_u32(b, g->span_count - 1); /* without the root */
    for (uint32_t i = 1; i < g->span_count; ++i) {
        put_u32(b, string(w, hd_graph_string(g, g->spans[i].name)));
        put_u32(b, g->spans[i].parent);
    }
    b = &w->sections[HD_FILE_INPT];
    put_u32(b, g->input_count);
    for (uint32_t i = 0; i < g->input_count; ++i) put_u32(b, string(w, hd_graph_string(g, g->inputs[i].name)));
    b = &w->sections[HD_FILE_OUTP];
    put_u32(b, g->output_count);
    for (uint32_t i = 0; i < g->output_count; ++i) {
        put_u32(b, string(w, hd_graph_string(g, g->outputs[i].name)));
        put_u32(b, g->outputs[i].node);
    }
    b = &w->sections[HD_FILE_CELL];
    put_u32(b, g->cell_count);
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        put_u32(b, string(w, hd_graph_string(g, g->cells[i].name)));
        put_u32(b, g->cells[i].kind == HD_CELL_BOUND ? HD_FILE_BOUND : HD_FILE_STATE);
        put_u32(b, g->cells[i].update);
    }
    b = &w->sections[HD_FILE_SCRI];
    put_u32(b, string(w, hd_graph_string(g, g->name)));
    put_u32(b, string(w, w->script->compiler == HD_COMPILER_XLA ? "XLA" : "HODU"));
    put_u32(b, (uint32_t)w->script->level - HD_O0);
    put_u32(b, g->draws);
    put_u32(b, string(w, HD_VERSION_STRING));
}

static hd_storage *tensor_at(const writer *w, uint32_t i) {
    return i < w->g->constant_count ? w->g->constants[i].storage : w->script->cells[i - w->g->constant_count];
}
static uint32_t tensor_count(const writer *w) { return w->g->constant_count + w->g->cell_count; }

static hd_error encode(writer *w) {
    const hd_graph *g = w->g;
    HD_TRY(check_order(g));
    bytes scratch = {0};
    put_u32(&w->sections[HD_FILE_TYPE], 0); /* counts, known at the end */
    put_u32(&w->sections[HD_FILE_OPER], 0);
    put_u32(&w->sections[HD_FILE_NODE], g->node_count);
    put_u32(&w->sections[HD_FILE_EDGE], 0);
    for (uint32_t i = 0; i < g->node_count && w->thread->error_code == HD_OK; ++i) put_node(w, i, &scratch);
    put_tables(w);
    put_numbered(&w->sections[HD_FILE_STRS], &w->strings);
    put_numbered(&w->sections[HD_FILE_SHAP], &w->shapes);
    put_numbered(&w->sections[HD_FILE_ATTR], &w->attributes);
    bytes *table = &w->sections[HD_FILE_TENS];
    put_u32(table, g->constant_count);
    put_u32(table, g->cell_count);
    for (uint32_t i = 0; i < tensor_count(w); ++i) {
        put_u64(table, 0); /* where it is: known when all sections have their place */
        put_u64(table, tensor_at(w, i)->bytes);
        put_u64(table, 0); /* its checksum: known when it is written */
    }
    bool failed = scratch.failed;
    hd_array_release(scratch.at);
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s) failed = failed || w->sections[s].failed;
    if (failed) return hd_fail(HD_ERROR_MEMORY, "no memory for the tables of a script of %u nodes", g->node_count);
    HD_TRY(w->thread->error_code);
    hd_file_set_u32(w->sections[HD_FILE_TYPE].at, w->type_count);
    hd_file_set_u32(w->sections[HD_FILE_OPER].at, w->op_count);
    hd_file_set_u32(w->sections[HD_FILE_EDGE].at, (uint32_t)(w->sections[HD_FILE_EDGE].length / 4 - 1));
    return HD_OK;
}

/* ---- into the file ----------------------------------------------------------------------------------------------- */
/* Machine code is there only when it was asked for. */
static bool is_written(const writer *w, int section) {
    return section != HD_FILE_code || w->sections[HD_FILE_code].length > 0;
}
static uint32_t section_count(const writer *w) { return HD_FILE_SECTION_COUNT - !is_written(w, HD_FILE_code); }

static void lay_out_file(writer *w) {
    uint64_t end = HD_FILE_HEAD + section_count(w) * HD_FILE_ENTRY;
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s) {
        if (!is_written(w, s)) continue;
        w->offsets[s] = hd_file_padded(end);
        w->sizes[s] = w->sections[s].length;
        end = w->offsets[s] + w->sizes[s];
    }
    for (uint32_t i = 0; i < tensor_count(w); ++i) {
        hd_file_set_u64(w->sections[HD_FILE_TENS].at + 8 + (size_t)i * HD_FILE_TENSOR_BYTES,
                        w->offsets[HD_FILE_DATA] + w->sizes[HD_FILE_DATA]);
        w->sizes[HD_FILE_DATA] += hd_file_padded(tensor_at(w, i)->bytes);
    }
}

static hd_error write_tensor(writer *w, uint32_t i) {
    hd_storage *s = tensor_at(w, i);
    const char *from = hd_storage_bytes(w->thread, s, HD_READ);
    if (from == NULL) return hd_file_reword(w->thread, HD_OK, "is not written: ");
    unsigned char *record = w->sections[HD_FILE_TENS].at + 8 + (size_t)i * HD_FILE_TENSOR_BYTES;
    const uint64_t offset = hd_file_u64(record);
    static const char zeros[HD_FILE_ALIGN];
    XXH64_state_t sum;
    XXH64_reset(&sum, 0);
    for (size_t at = 0; at < s->bytes;) {
        const size_t n = s->bytes - at < CHUNK ? s->bytes - at : CHUNK;
        XXH64_update(&sum, from + at, n);
        HD_TRY(hd_file_write_at(w->descriptor, from + at, n, offset + at));
        at += n;
    }
    const size_t rest = (size_t)hd_file_padded(s->bytes) - s->bytes;
    XXH64_update(&sum, zeros, rest);
    hd_file_set_u64(record + 16, XXH64_digest(&sum));
    return hd_file_write_at(w->descriptor, zeros, rest, offset + s->bytes);
}

/* Everything in front of DATA, in one piece. */
static hd_error write_front(const writer *w) {
    const uint64_t size = w->offsets[HD_FILE_DATA];
    unsigned char *front = hd_array_resize(NULL, (size_t)size);
    if (front == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to write %llu bytes", (unsigned long long)size);
    memset(front, 0, (size_t)size);
    memcpy(front, hd_file_magic, sizeof hd_file_magic);
    hd_file_set_u32(front + 8, HD_FILE_VERSION);
    hd_file_set_u32(front + 12, section_count(w));
    hd_file_set_u64(front + 16, size + w->sizes[HD_FILE_DATA]);
    unsigned char *entry = front + HD_FILE_HEAD;
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s) {
        if (!is_written(w, s)) continue;
        memcpy(entry, hd_file_ids[s], 4);
        hd_file_set_u64(entry + 8, w->offsets[s]);
        hd_file_set_u64(entry + 16, w->sizes[s]);
        if (s != HD_FILE_DATA) { /* its tensors have checksums of their own */
            memcpy(front + w->offsets[s], w->sections[s].at, w->sections[s].length);
            hd_file_set_u64(entry + 24, hd_file_checksum(w->sections[s].at, w->sections[s].length));
        }
        entry += HD_FILE_ENTRY;
    }
    XXH64_state_t sum;
    XXH64_reset(&sum, 0);
    XXH64_update(&sum, front, 24);
    XXH64_update(&sum, front + HD_FILE_HEAD, section_count(w) * HD_FILE_ENTRY);
    hd_file_set_u64(front + 24, XXH64_digest(&sum));
    const hd_error status = hd_file_write_at(w->descriptor, front, (size_t)size, 0);
    hd_array_release(front);
    return status;
}

static hd_error fill(void *user, int descriptor) {
    writer *w = user;
    w->descriptor = descriptor;
    for (uint32_t i = 0; i < tensor_count(w); ++i) HD_TRY(write_tensor(w, i));
    return write_front(w);
}

static hd_error write_file(writer *w, const char *path) {
    HD_TRY(encode(w));
    lay_out_file(w);
    return hd_file_replace(w->thread, path, fill, w);
}

hd_error hd_file_write(hd_thread *thread, hd_script *script, const unsigned char *code, size_t code_bytes,
                       const char *path) {
    writer w = {.thread = thread, .script = script, .g = script->graph, .descriptor = -1};
    put(&w.sections[HD_FILE_code], code, code_bytes);
    const hd_error status = write_file(&w, path);
    for (int s = 0; s < HD_FILE_SECTION_COUNT; ++s) hd_array_release(w.sections[s].at);
    release_numbered(&w.strings);
    release_numbered(&w.shapes);
    release_numbered(&w.attributes);
    return status;
}

#endif
