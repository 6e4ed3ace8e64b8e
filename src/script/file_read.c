/* Reading a .hoduscript file: the nodes and the script, from sections that were verified. */
#include "script/file_reader.h"

#if HD_HAS_FILES

#include <stdlib.h>
#include <string.h>

/* ---- attributes -------------------------------------------------------------------------------------------------- */
static hd_error take_list(hd_cursor *c, int64_t *out, int *count) {
    uint32_t n;
    HD_TRY(hd_cursor_u32(c, &n));
    if (n > HD_MAX_RANK) return HD_BAD("has attributes with a list of %u", n);
    for (uint32_t i = 0; i < n; ++i) HD_TRY(hd_cursor_i64(c, &out[i]));
    *count = (int)n;
    return HD_OK;
}

static hd_error take_own_name(const hd_reader *r, hd_cursor *c, hd_name *out) {
    const char *name;
    HD_TRY(hd_cursor_string(r, c, &name));
    const size_t length = strlen(name);
    if (length >= sizeof out->text) return HD_BAD("has attributes with a name of %zu letters", length);
    memcpy(out->text, name, length);
    return HD_OK;
}

static hd_error take_bytes(hd_cursor *c, hd_small_bytes *out) {
    uint32_t count;
    HD_TRY(hd_cursor_count(c, 1, &count));
    if (count > sizeof out->at) return HD_BAD("has attributes with %u bytes", count);
    const unsigned char *bytes = hd_cursor_bytes(c, count);
    if (bytes == NULL) return HD_ERROR_VALUE;
    out->count = count;
    memcpy(out->at, bytes, count);
    return HD_OK;
}

static hd_error read_field(const hd_reader *r, hd_cursor *c, const hd_field *f, char *attributes) {
    void *at = attributes + f->offset;
    int64_t values[HD_MAX_RANK] = {0};
    uint32_t word = 0;
    int count;
    switch (f->kind) {
    case HD_FIELD_F64:
    case HD_FIELD_I64:
        HD_TRY(hd_cursor_i64(c, &values[0]));
        memcpy(at, &values[0], 8); /* the bits of either */
        return HD_OK;
    case HD_FIELD_INT:
        HD_TRY(hd_cursor_u32(c, &word));
        *(int *)at = (int32_t)word;
        return HD_OK;
    case HD_FIELD_BOOL:
        HD_TRY(hd_cursor_u32(c, &word));
        *(bool *)at = word == 1;
        return word <= 1 ? HD_OK : HD_BAD("has attributes with a truth value of %u", word);
    case HD_FIELD_DTYPE:
        HD_TRY(hd_cursor_u32(c, &word));
        if (word >= r->type_count) return HD_BAD("has attributes with dtype %u of %u", word, r->type_count);
        *(hd_dtype *)at = r->types[word];
        return HD_OK;
    case HD_FIELD_SHAPE: return take_list(c, ((hd_shape *)at)->size, &((hd_shape *)at)->rank);
    case HD_FIELD_AXES:
        HD_TRY(take_list(c, values, &count));
        for (int i = 0; i < count; ++i) {
            if (values[i] < -HD_MAX_RANK || values[i] >= HD_MAX_RANK)
                return HD_BAD("has attributes with axis %lld", (long long)values[i]);
            ((hd_axes *)at)->axis[i] = (int)values[i];
        }
        ((hd_axes *)at)->count = count;
        return HD_OK;
    case HD_FIELD_FLAGS:
        HD_TRY(hd_cursor_u32(c, &word));
        if (word >> HD_MAX_RANK != 0) return HD_BAD("has attributes with axes %#x", word);
        for (int i = 0; i < HD_MAX_RANK; ++i) ((bool *)at)[i] = word >> i & 1;
        return HD_OK;
    case HD_FIELD_LAYOUT: {
        hd_layout *layout = at;
        HD_TRY(take_list(c, layout->shape.size, &layout->shape.rank));
        HD_TRY(take_list(c, layout->stride, &count));
        if (count != layout->shape.rank)
            return HD_BAD("has attributes with %d strides for %d axes", count, layout->shape.rank);
        return hd_cursor_i64(c, &layout->offset);
    }
    case HD_FIELD_PADDING:
        HD_TRY(take_list(c, values, &count));
        for (int i = 0; i < count; ++i) ((hd_padding *)at)[i].before = values[i];
        HD_TRY(take_list(c, values, &count));
        for (int i = 0; i < count; ++i) ((hd_padding *)at)[i].after = values[i];
        return HD_OK;
    case HD_FIELD_NAME: return take_own_name(r, c, at);
    case HD_FIELD_BYTES: return take_bytes(c, at);
    case HD_FIELD_END: break;
    }
    return HD_BAD("has attributes of no known kind");
}

static hd_error read_attributes(const hd_reader *r, const hd_known_op *op, uint32_t number, char *out) {
    if (number > r->attributes.count) return HD_BAD("names attributes %u of %u", number, r->attributes.count);
    const hd_piece *p = &r->attributes.items[number - 1];
    hd_cursor c = {p->bytes, p->bytes + p->size, "ATTR"};
    memset(out, 0, HD_ATTRIBUTES_MOST);
    for (int i = 0; i < op->field_count; ++i) HD_TRY(read_field(r, &c, op->fields[i], out));
    return hd_cursor_end(&c);
}

/* The name of an input, output or cell, which is never empty. */
static hd_error take_name(const hd_reader *r, hd_cursor *c, const char **out) {
    HD_TRY(hd_cursor_string(r, c, out));
    return (*out)[0] != '\0' ? HD_OK : HD_BAD("has an empty name in section %s", c->section);
}

static hd_error read_spans(hd_reader *r) {
    hd_cursor *c = &r->sections[HD_FILE_SPAN];
    uint32_t count;
    HD_TRY(hd_cursor_count(c, 8, &count));
    for (uint32_t i = 1; i <= count; ++i) {
        const char *name;
        uint32_t parent;
        HD_TRY(hd_cursor_string(r, c, &name));
        HD_TRY(hd_cursor_u32(c, &parent));
        if (parent >= i) return HD_BAD("has a span %u inside span %u, which is not before it", i, parent);
        if (hd_graph_add_span(r->g, name, parent) == 0) return r->thread->error_code;
    }
    return hd_cursor_end(c);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
static hd_error read_shape(const hd_reader *r, uint32_t number, hd_dtype dtype, hd_shape *shape, int64_t *count) {
    if (number >= r->shapes.count) return HD_BAD("names shape %u of %u", number, r->shapes.count);
    const hd_piece *p = &r->shapes.items[number];
    if (p->size % 8 != 0 || p->size / 8 > HD_MAX_RANK) return HD_BAD("has a shape of %u bytes", p->size);
    *shape = (hd_shape){.rank = (int)(p->size / 8)};
    for (int i = 0; i < shape->rank; ++i) shape->size[i] = (int64_t)hd_file_u64(p->bytes + 8 * i);
    return hd_shape_check(shape, hd_dtype_bytes[dtype], count) == HD_OK
               ? HD_OK
               : hd_file_reword(r->thread, HD_ERROR_VALUE, "has an impossible shape: ");
}

/* The tensor of a constant or cell, whose bytes must be those of its type. */
static hd_error tensor_of(const hd_reader *r, uint32_t index, hd_dtype dtype, int64_t count, hd_file_tensor **out) {
    hd_file_tensor *t = *out = &r->file->tensors[index];
    const uint64_t expected = (uint64_t)count * hd_dtype_bytes[dtype];
    if (t->bytes != expected)
        return HD_BAD("has a tensor %u of %llu bytes where its shape asks for %llu", index,
                      (unsigned long long)t->bytes, (unsigned long long)expected);
    t->is_bool = dtype == HD_BOOL;
    t->node = r->g->node_count;
    return HD_OK;
}

static hd_error add_constant(hd_reader *r, hd_dtype dtype, const hd_shape *shape, int64_t count) {
    hd_file_tensor *t;
    if (r->g->constant_count >= r->constant_count) return HD_BAD("has more constants than tensors for them");
    HD_TRY(tensor_of(r, r->g->constant_count, dtype, count, &t));
    t->number = r->g->constant_count;
    hd_storage *s = hd_file_constant(r->thread, t);
    if (s == NULL) return r->thread->error_code;
    hd_graph_add_constant(r->g, s, dtype, shape);
    hd_object_release(r->thread, &s->object);
    return r->thread->error_code;
}

static hd_error add_cell(hd_reader *r, hd_dtype dtype, const hd_shape *shape, int64_t count) {
    hd_cursor *c = &r->sections[HD_FILE_CELL];
    const char *name;
    uint32_t kind, update;
    hd_file_tensor *t;
    if (r->g->cell_count >= r->cell_count) return HD_BAD("has more cells than tensors for them");
    HD_TRY(take_name(r, c, &name));
    HD_TRY(hd_cursor_u32(c, &kind));
    HD_TRY(hd_cursor_u32(c, &update)); /* looked at when all nodes are there */
    if (kind != HD_FILE_BOUND && kind != HD_FILE_STATE) return HD_BAD("has a cell \"%.60s\" of kind %u", name, kind);
    HD_TRY(tensor_of(r, r->constant_count + r->g->cell_count, dtype, count, &t));
    hd_storage *s = hd_file_cell(r->thread, t);
    if (s == NULL)
        return hd_file_reword(r->thread, HD_OK, "has a %s tensor \"%.60s\" that ",
                              kind == HD_FILE_BOUND ? "bound" : "state", name);
    if (hd_graph_add_cell(r->g, name, kind == HD_FILE_BOUND ? HD_CELL_BOUND : HD_CELL_STATE, s, dtype, shape) !=
        HD_NO_NODE)
        r->g->cells[r->g->cell_count - 1].update = update;
    hd_object_release(r->thread, &s->object);
    return r->thread->error_code;
}

static hd_error add_input(hd_reader *r, hd_dtype dtype, const hd_shape *shape) {
    const char *name;
    HD_TRY(take_name(r, &r->sections[HD_FILE_INPT], &name));
    return hd_graph_add_input(r->g, name, dtype, shape) == HD_NO_NODE ? r->thread->error_code : HD_OK;
}

static hd_error add_op(hd_reader *r, const hd_known_op *op, uint32_t derivative, uint32_t input_count, hd_dtype dtype,
                       const hd_shape *shape, uint32_t number) {
    const bool is_op = op->op < HD_OP_COUNT;
    const hd_op *row = !is_op ? NULL : derivative == 0 ? &hd_ops[op->op] : &hd_derivatives[op->op][derivative - 1];
    const uint32_t node = r->g->node_count;
    size_t bytes;
    uint32_t inputs[HD_MAX_INPUTS];
    hd_attribute_fields(op->op, &bytes);
    const bool takes = is_op ? row->name != NULL && input_count >= row->min_inputs && input_count <= row->max_inputs
                             : input_count == (op->op == HD_NODE_OUTPUT ? 1 : 2);
    if (!takes) return HD_BAD("has a node %%%u with %u inputs, which its op does not take", node, input_count);
    if (bytes == 0 && number != 0) return HD_BAD("has a node %%%u with attributes that its op does not have", node);
    for (uint32_t k = 0; k < input_count; ++k) {
        HD_TRY(hd_cursor_u32(&r->sections[HD_FILE_EDGE], &inputs[k]));
        if (inputs[k] >= node)
            return HD_BAD("has a node %%%u that reads node %%%u, which is not before it", node, inputs[k]);
    }
    _Alignas(8) char attributes[HD_ATTRIBUTES_MOST];
    if (number != 0) HD_TRY(read_attributes(r, op, number, attributes));
    if (is_op && number != 0 && row->family == HD_FAMILY_RANDOM &&
        ((const hd_random_attributes *)attributes)->draw >= r->g->draws)
        return HD_BAD("has a node %%%u with a draw past the script's %u", node, r->g->draws);
    return hd_graph_add(r->g, op->op, (int)derivative, inputs, (int)input_count, dtype, shape,
                        number != 0 ? attributes : NULL) == HD_NO_NODE
               ? r->thread->error_code
               : HD_OK;
}

static hd_error read_node(hd_reader *r, const unsigned char *at) {
    const uint32_t op = hd_file_u32(at), type = hd_file_u32(at + 4), number = hd_file_u32(at + 12),
                   span = hd_file_u32(at + 16);
    const uint32_t derivative = hd_file_u32(at + 20) & 0xffff, input_count = hd_file_u32(at + 20) >> 16,
                   node = r->g->node_count;
    if (op >= r->op_count || type >= r->type_count || span >= r->g->span_count)
        return HD_BAD("has a node %%%u with an op, dtype or span that is in no table", node);
    const hd_known_op *known = &r->ops[op];
    const hd_dtype dtype = r->types[type];
    hd_shape shape;
    int64_t count;
    HD_TRY(read_shape(r, hd_file_u32(at + 8), dtype, &shape, &count));
    const bool is_call = known->op < HD_OP_COUNT || known->op == HD_NODE_WRITE || known->op == HD_NODE_OUTPUT;
    const uint32_t most = known->op < HD_OP_ELEMENTWISE_COUNT ? 3
                          : known->op == HD_NODE_OUTPUT       ? HD_MAX_OUTPUTS - 1
                                                              : 0;
    if (derivative > most || (!is_call && (input_count != 0 || number != 0)))
        return HD_BAD("has a node %%%u with more than its op has", node);
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

static hd_error read_nodes(hd_reader *r) {
    hd_cursor *c = &r->sections[HD_FILE_NODE];
    uint32_t count, inputs, cells, edges;
    HD_TRY(hd_cursor_count(&r->sections[HD_FILE_EDGE], 4, &edges));
    HD_TRY(hd_cursor_count(&r->sections[HD_FILE_INPT], 4, &inputs));
    HD_TRY(hd_cursor_count(&r->sections[HD_FILE_CELL], 12, &cells));
    HD_TRY(hd_cursor_count(c, HD_FILE_NODE_BYTES, &count));
    for (uint32_t i = 0; i < count; ++i) {
        const unsigned char *at = hd_cursor_bytes(c, HD_FILE_NODE_BYTES);
        if (at == NULL) return HD_ERROR_VALUE;
        HD_TRY(read_node(r, at));
    }
    if (edges != r->g->edge_count || inputs != r->g->input_count || cells != r->g->cell_count ||
        cells != r->cell_count || r->constant_count != r->g->constant_count)
        return HD_BAD("has tables of edges, inputs, cells or constants that its nodes do not use up");
    HD_TRY(hd_cursor_end(c));
    HD_TRY(hd_cursor_end(&r->sections[HD_FILE_EDGE]));
    HD_TRY(hd_cursor_end(&r->sections[HD_FILE_INPT]));
    return hd_cursor_end(&r->sections[HD_FILE_CELL]);
}

/* ---- what leaves a run, and the script --------------------------------------------------------------------------- */
static hd_error check_updates(const hd_graph *g) {
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        const hd_graph_cell *c = &g->cells[i];
        if (c->update >= g->node_count || g->nodes[c->node].dtype != g->nodes[c->update].dtype ||
            g->nodes[c->node].shape != g->nodes[c->update].shape || (c->kind == HD_CELL_BOUND && c->update != c->node))
            return HD_BAD("has a cell \"%.60s\" whose new value is none that fits it", hd_graph_string(g, c->name));
    }
    return HD_OK;
}

static hd_error read_outputs(hd_reader *r) {
    hd_cursor *c = &r->sections[HD_FILE_OUTP];
    uint32_t count, node;
    HD_TRY(hd_cursor_count(c, 8, &count));
    for (uint32_t i = 0; i < count; ++i) {
        const char *name;
        HD_TRY(take_name(r, c, &name));
        HD_TRY(hd_cursor_u32(c, &node));
        if (node >= r->g->node_count)
            return HD_BAD("has an output \"%.60s\" that is node %%%u of %u", name, node, r->g->node_count);
        HD_TRY(hd_graph_add_output(r->g, name, node));
    }
    return hd_cursor_end(c);
}

static hd_error check_names(const hd_graph *g) {
    static const char *const kinds[] = {"inputs", "outputs", "cells"};
    const uint32_t counts[] = {g->input_count, g->output_count, g->cell_count};
    for (int kind = 0; kind < HD_NAME_KINDS; ++kind)
        for (uint32_t i = 0; i < counts[kind]; ++i) {
            const char *name = hd_graph_string(g, hd_name_at(g, (hd_name_kind)kind, i));
            if (hd_graph_find(g, (hd_name_kind)kind, name) != i) /* an earlier one is found */
                return HD_BAD("has two %s \"%.60s\"", kinds[kind], name);
        }
    return HD_OK;
}

static hd_error read_script(hd_reader *r, hd_file_choices *choices) {
    hd_cursor *c = &r->sections[HD_FILE_SCRI];
    const char *name, *compiler, *writer;
    uint32_t level, draws;
    HD_TRY(hd_cursor_string(r, c, &name));
    HD_TRY(hd_cursor_string(r, c, &compiler));
    HD_TRY(hd_cursor_u32(c, &level));
    HD_TRY(hd_cursor_u32(c, &draws));
    HD_TRY(hd_cursor_string(r, c, &writer)); /* the version that wrote it: for people */
    HD_TRY(hd_cursor_end(c));
    static const hd_compiler compilers[] = {HD_COMPILER_HODU, HD_COMPILER_XLA};
    const bool is_xla = strcmp(compiler, "XLA") == 0;
    if (!is_xla && strcmp(compiler, "HODU") != 0)
        return HD_BAD("is for a compiler \"%.60s\", which this library, hodu %s, does not know", compiler,
                      HD_VERSION_STRING);
    *choices =
        (hd_file_choices){.compiler = compilers[is_xla], .level = (hd_optimization_level)(HD_O0 + (int)(level & 3))};
    if (level > 3) return HD_BAD("has optimization level %u", level);
    r->g = hd_graph_new(r->thread, name);
    if (r->g == NULL) return HD_ERROR_MEMORY;
    r->g->draws = draws;
    return HD_OK;
}

/* Checks that every node is a call that a program could have made. */
static hd_error check_calls(hd_thread *thread, const hd_graph *g) {
    const char *call = thread->call;
    const void *caller = thread->caller;
    struct hd_recording *outer = thread->recording;
    uint32_t node;
    thread->recording = NULL; /* a builder may be active around this, which would keep it from being checked */
    const hd_error status = hd_graph_verify_at(thread, g, &node);
    thread->recording = outer;
    thread->call = call;
    thread->caller = caller;
    if (status == HD_OK) return HD_OK;
    if (node == HD_NO_NODE) return hd_file_reword(thread, HD_ERROR_VALUE, "has a graph that cannot be: ");
    return hd_file_reword(thread, HD_ERROR_VALUE, "has a node %%%u that is no call: ", node);
}

static hd_error read_graph(hd_reader *r, hd_file_choices *choices) {
    HD_TRY(hd_reader_sections(r));
    HD_TRY(hd_reader_tables(r));
    HD_TRY(read_script(r, choices));
    HD_TRY(read_spans(r));
    HD_TRY(read_nodes(r));
    HD_TRY(check_updates(r->g));
    HD_TRY(read_outputs(r));
    HD_TRY(check_names(r->g));
    choices->carries = r->sections[HD_FILE_code].section != NULL;
    choices->code_offset = r->code;
    choices->code_bytes = r->code_size;
    choices->code_checksum = r->code_checksum;
    return check_calls(r->thread, r->g);
}

hd_graph *hd_file_read_graph(hd_thread *thread, hd_file *file, hd_file_choices *choices) {
    hd_reader r = {.thread = thread, .file = file};
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

/* ---- machine code ------------------------------------------------------------------------------------------------ */
hd_carried *hd_file_read_code(hd_thread *thread, const hd_file *file, const hd_file_choices *choices) {
    if (!choices->carries) return hd_carried_new(thread, NULL, 0, "the file carries no machine code");
    unsigned char *bytes = hd_reader_array((size_t)choices->code_bytes, 1);
    if (bytes == NULL) return NULL;
    if (hd_file_read(file, bytes, choices->code_offset, choices->code_bytes) != HD_OK) {
        hd_array_release(bytes);
        return NULL;
    }
    const bool damaged = hd_file_checksum(bytes, (size_t)choices->code_bytes) != choices->code_checksum;
    return hd_carried_new(thread, bytes, (size_t)choices->code_bytes,
                          damaged ? "the machine code in the file is damaged: its checksum does not fit its bytes"
                                  : NULL);
}

#endif
