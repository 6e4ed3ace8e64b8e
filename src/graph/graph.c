/* Graphs: memory, interning, and adding nodes. */
#include "graph/graph.h"

#include <string.h>

/* ---- growing arrays ---------------------------------------------------------------------------------------------- */
static hd_error grow_graph(void **array, uint32_t *capacity, uint32_t count, size_t size) {
    if (count < *capacity) return HD_OK;
    const uint32_t larger = *capacity ? *capacity * 2 : 16;
    if (larger <= *capacity) return hd_fail(HD_ERROR_OVERFLOW, "a graph with more than 2^31 parts");
    void *moved = hd_array_resize(*array, larger * size);
    if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a graph of %u parts", larger);
    *array = moved;
    *capacity = larger;
    return HD_OK;
}
#define GROW(g, what) grow_graph((void **)&(g)->what##s, &(g)->what##_capacity, (g)->what##_count, sizeof *(g)->what##s)

/* ---- the pool ---------------------------------------------------------------------------------------------------- */
static uint32_t hash_of(const void *bytes, size_t count) {
    uint64_t h = 0x9e3779b97f4a7c15u ^ count;
    const unsigned char *b = bytes;
    for (; count >= 8; count -= 8, b += 8) {
        uint64_t word;
        memcpy(&word, b, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    for (; count > 0; --count) h = (h ^ *b++) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 29);
}

static hd_error pool_rehash(hd_pool *pool) {
    const uint32_t size = pool->table_size ? pool->table_size * 2 : 64;
    uint32_t *table = hd_array_resize(NULL, size * sizeof *table);
    if (table == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a graph");
    memset(table, 0, size * sizeof *table);
    for (uint32_t i = 0; i < pool->table_size; ++i) {
        const uint32_t offset = pool->table[i];
        if (offset == 0) continue;
        uint32_t at = (uint32_t)pool->words[offset - 1] & (size - 1); /* the low half of the header is the hash */
        while (table[at] != 0) at = (at + 1) & (size - 1);
        table[at] = offset;
    }
    hd_array_release(pool->table);
    pool->table = table;
    pool->table_size = size;
    return HD_OK;
}

/* Where the bytes are in the table, or where they would be. */
static uint32_t pool_slot(const hd_pool *pool, const void *bytes, size_t count, uint32_t hash) {
    const uint32_t mask = pool->table_size - 1;
    uint32_t at = hash & mask;
    for (; pool->table[at] != 0; at = (at + 1) & mask) {
        const uint32_t offset = pool->table[at];
        if (pool->words[offset - 1] == ((uint64_t)count << 32 | hash) &&
            memcmp(pool->words + offset, bytes, count) == 0)
            break;
    }
    return at;
}

uint32_t hd_pool_find(const hd_pool *pool, const void *bytes, size_t count) {
    return pool->table_size == 0 ? 0 : pool->table[pool_slot(pool, bytes, count, hash_of(bytes, count))];
}

uint32_t hd_pool_intern(hd_pool *pool, const void *bytes, size_t count) {
    if (pool->entries * 2 >= pool->table_size) HD_TRY_OR(pool_rehash(pool), 0);
    const uint32_t hash = hash_of(bytes, count), at = pool_slot(pool, bytes, count, hash);
    if (pool->table[at] != 0) return pool->table[at];
    const size_t words = (count + 7) / 8;
    while (pool->count + words + 1 > pool->capacity) {
        const uint32_t larger = pool->capacity ? pool->capacity * 2 : 256;
        uint64_t *moved = larger <= pool->capacity ? NULL : hd_array_resize(pool->words, larger * sizeof *moved);
        if (moved == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory for a graph");
            return 0;
        }
        pool->words = moved;
        pool->capacity = larger;
    }
    const uint32_t offset = pool->count + 1;
    pool->words[offset - 1] = (uint64_t)count << 32 | hash;
    if (words > 0) pool->words[offset + words - 1] = 0;
    memcpy(pool->words + offset, bytes, count);
    pool->count += 1 + (uint32_t)words;
    pool->table[at] = offset;
    pool->entries++;
    return offset;
}

uint32_t hd_graph_text(hd_graph *g, const char *text) { return hd_pool_intern(&g->pool, text, strlen(text) + 1); }

/* ---- graphs ------------------------------------------------------------------------------------------------------ */
static void graph_destroy(hd_thread *thread, hd_object *object) {
    hd_graph *g = (hd_graph *)object;
    for (uint32_t i = 0; i < g->constant_count; ++i) hd_object_release(thread, &g->constants[i].storage->object);
    for (uint32_t i = 0; i < g->cell_count; ++i) hd_object_release(thread, &g->cells[i].storage->object);
    hd_array_release(g->nodes);
    hd_array_release(g->edges);
    hd_array_release(g->inputs);
    hd_array_release(g->outputs);
    hd_array_release(g->constants);
    hd_array_release(g->cells);
    hd_array_release(g->spans);
    for (int i = 0; i < HD_NAME_KINDS; ++i) hd_array_release(g->names[i].table);
    hd_array_release(g->pool.words);
    hd_array_release(g->pool.table);
    hd_count(&thread->live_objects, -1);
    hd_array_release(g);
}
static const hd_kind graph_kind = {.name = "graph", .destroy = graph_destroy};

hd_graph *hd_graph_new(hd_thread *thread, const char *name) {
    hd_graph *g = hd_array_resize(NULL, sizeof *g);
    if (g == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a graph");
        return NULL;
    }
    memset(g, 0, sizeof *g);
    hd_object_init(&g->object, &graph_kind);
    hd_count(&thread->live_objects, 1);
    g->name = hd_graph_text(g, name);
    if (g->name == 0 || GROW(g, span) != HD_OK) {
        hd_graph_release(thread, g);
        return NULL;
    }
    g->spans[g->span_count++] = (hd_graph_span){.name = 0}; /* the root */
    return g;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
hd_shape hd_node_shape(const hd_graph *g, uint32_t node) {
    const int64_t *sizes = hd_pool_at(&g->pool, g->nodes[node].shape);
    hd_shape shape = {.rank = (int)sizes[0]};
    for (int i = 0; i < shape.rank; ++i) shape.size[i] = sizes[i + 1];
    return shape;
}

int64_t hd_node_count(const hd_graph *g, uint32_t node) {
    const int64_t *sizes = hd_pool_at(&g->pool, g->nodes[node].shape);
    int64_t count = 1;
    for (int i = 0; i < sizes[0]; ++i) count *= sizes[i + 1];
    return count;
}

const hd_op *hd_node_op(const hd_node *n) {
    if (!hd_node_is_op(n)) return NULL;
    return n->derivative == 0 ? &hd_ops[n->op] : &hd_derivatives[n->op][n->derivative - 1];
}

const char *hd_node_name(const hd_node *n) {
    static const char *const names[] = {"input", "constant", "cell", "write", "output"};
    return hd_node_is_op(n) ? hd_node_op(n)->name : names[n->op - HD_NODE_INPUT];
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */
static uint32_t add_graph_node(hd_graph *g, hd_node n, const hd_shape *shape) {
    int64_t sizes[HD_MAX_RANK + 1] = {shape->rank};
    for (int i = 0; i < shape->rank; ++i) sizes[i + 1] = shape->size[i];
    n.shape = hd_pool_intern(&g->pool, sizes, (size_t)(shape->rank + 1) * sizeof *sizes);
    if (n.shape == 0) return HD_NO_NODE;
    HD_TRY_OR(GROW(g, node), HD_NO_NODE);
    g->nodes[g->node_count] = n;
    g->calls_back = g->calls_back || n.op == HD_OP_custom;
    return g->node_count++;
}

static hd_error add_edges(hd_graph *g, const uint32_t *inputs, int count, uint32_t *first) {
    *first = g->edge_count;
    for (int i = 0; i < count; ++i) {
        HD_TRY(GROW(g, edge));
        g->edges[g->edge_count++] = inputs[i];
    }
    return HD_OK;
}

/* The dtype in which the operands of an elementwise node meet: that of the value, unless it is bool. */
static hd_dtype compute_dtype(const hd_graph *g, uint16_t op, int derivative, const uint32_t *inputs, int count,
                              hd_dtype dtype) {
    if (op >= HD_OP_ELEMENTWISE_COUNT || derivative != 0 || !hd_rows[op].gives_bool) return dtype;
    hd_dtype met = (hd_dtype)g->nodes[inputs[0]].dtype;
    for (int i = 1; i < count; ++i) met = hd_dtype_promote(met, (hd_dtype)g->nodes[inputs[i]].dtype);
    return hd_ops[op].types == HD_TYPES_FLOATS && !hd_dtype_is_float(met) ? HD_F32 : met;
}

uint32_t hd_graph_add(hd_graph *g, uint16_t op, int derivative, const uint32_t *inputs, int count, hd_dtype dtype,
                      const hd_shape *shape, const void *attributes) {
    hd_node n = {.op = op,
                 .derivative = (uint8_t)derivative,
                 .dtype = (uint8_t)dtype,
                 .compute = (uint8_t)compute_dtype(g, op, derivative, inputs, count, dtype),
                 .input_count = (uint8_t)count};
    size_t bytes;
    hd_attribute_fields(op, &bytes);
    if (attributes != NULL && bytes > 0) {
        _Alignas(8) char normal[HD_ATTRIBUTES_MOST];
        hd_attributes_normalise(op, attributes, normal);
        n.attributes = hd_pool_intern(&g->pool, normal, bytes);
        if (n.attributes == 0) return HD_NO_NODE;
    }
    HD_TRY_OR(add_edges(g, inputs, count, &n.first), HD_NO_NODE);
    return add_graph_node(g, n, shape);
}

uint32_t hd_graph_add_input(hd_graph *g, const char *name, hd_dtype dtype, const hd_shape *shape) {
    const uint32_t text = hd_graph_text(g, name);
    if (text == 0 || GROW(g, input) != HD_OK || hd_names_reserve(g, HD_NAME_INPUT) != HD_OK) return HD_NO_NODE;
    const uint32_t node = add_graph_node(
        g, (hd_node){.op = HD_NODE_INPUT, .dtype = (uint8_t)dtype, .compute = (uint8_t)dtype, .first = g->input_count},
        shape);
    if (node == HD_NO_NODE) return node;
    g->inputs[g->input_count++] = (hd_graph_input){text, node};
    hd_names_add(g, HD_NAME_INPUT, g->input_count - 1);
    return node;
}

uint32_t hd_graph_add_constant(hd_graph *g, hd_storage *storage, hd_dtype dtype, const hd_shape *shape) {
    HD_TRY_OR(GROW(g, constant), HD_NO_NODE);
    const uint32_t node = add_graph_node(
        g,
        (hd_node){
            .op = HD_NODE_CONSTANT, .dtype = (uint8_t)dtype, .compute = (uint8_t)dtype, .first = g->constant_count},
        shape);
    if (node == HD_NO_NODE) return node;
    hd_object_retain(&storage->object);
    g->constants[g->constant_count++] = (hd_graph_constant){storage};
    return node;
}

uint32_t hd_graph_add_cell(hd_graph *g, const char *name, hd_cell_kind kind, hd_storage *storage, hd_dtype dtype,
                           const hd_shape *shape) {
    const uint32_t text = hd_graph_text(g, name);
    if (text == 0 || GROW(g, cell) != HD_OK || hd_names_reserve(g, HD_NAME_CELL) != HD_OK) return HD_NO_NODE;
    const uint32_t node = add_graph_node(
        g, (hd_node){.op = HD_NODE_CELL, .dtype = (uint8_t)dtype, .compute = (uint8_t)dtype, .first = g->cell_count},
        shape);
    if (node == HD_NO_NODE) return node;
    hd_object_retain(&storage->object);
    g->cells[g->cell_count++] =
        (hd_graph_cell){.name = text, .node = node, .update = node, .kind = kind, .storage = storage};
    hd_names_add(g, HD_NAME_CELL, g->cell_count - 1);
    return node;
}

hd_error hd_graph_add_output(hd_graph *g, const char *name, uint32_t node) {
    const uint32_t text = hd_graph_text(g, name);
    if (text == 0) return HD_ERROR_MEMORY;
    HD_TRY(GROW(g, output));
    HD_TRY(hd_names_reserve(g, HD_NAME_OUTPUT));
    g->outputs[g->output_count++] = (hd_graph_output){text, node};
    hd_names_add(g, HD_NAME_OUTPUT, g->output_count - 1);
    return HD_OK;
}

uint32_t hd_graph_add_span(hd_graph *g, const char *name, uint32_t parent) {
    const uint32_t text = hd_graph_text(g, name);
    if (text == 0 || GROW(g, span) != HD_OK) return 0;
    g->spans[g->span_count] = (hd_graph_span){.name = text, .parent = parent};
    return g->span_count++;
}

/* ---- making one graph from another ------------------------------------------------------------------------------- */
uint32_t hd_graph_copy(hd_graph *g, const hd_graph *from, uint32_t node, const uint32_t *inputs) {
    hd_node n = from->nodes[node];
    const hd_shape shape = hd_node_shape(from, node);
    if (n.op == HD_NODE_CONSTANT) {
        const uint32_t added = hd_graph_add_constant(g, from->constants[n.first].storage, (hd_dtype)n.dtype, &shape);
        if (added != HD_NO_NODE) g->nodes[added].span = n.span < g->span_count ? n.span : 0;
        return added;
    }
    if (n.attributes != 0) {
        n.attributes =
            hd_pool_intern(&g->pool, hd_pool_at(&from->pool, n.attributes), hd_pool_size(&from->pool, n.attributes));
        if (n.attributes == 0) return HD_NO_NODE;
    }
    if (n.span >= g->span_count) n.span = 0;
    HD_TRY_OR(add_edges(g, inputs, n.input_count, &n.first), HD_NO_NODE);
    return add_graph_node(g, n, &shape);
}

hd_graph *hd_graph_like(hd_thread *thread, const hd_graph *from, uint32_t **map) {
    hd_graph *g = hd_graph_new(thread, hd_graph_string(from, from->name));
    *map = hd_array_resize(NULL, (from->node_count + 1) * sizeof **map);
    if (g == NULL || *map == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a graph");
        goto failed;
    }
    for (uint32_t i = 0; i < from->node_count; ++i) (*map)[i] = HD_NO_NODE;
    g->draws = from->draws;
    for (uint32_t i = 1; i < from->span_count; ++i)
        if (hd_graph_add_span(g, hd_graph_string(from, from->spans[i].name), from->spans[i].parent) == 0) goto failed;
    for (uint32_t i = 0; i < from->input_count; ++i) {
        const uint32_t node = from->inputs[i].node;
        const hd_shape shape = hd_node_shape(from, node);
        (*map)[node] = hd_graph_add_input(g, hd_graph_string(from, from->inputs[i].name),
                                          (hd_dtype)from->nodes[node].dtype, &shape);
        if ((*map)[node] == HD_NO_NODE) goto failed;
    }
    for (uint32_t i = 0; i < from->cell_count; ++i) {
        const hd_graph_cell *c = &from->cells[i];
        const hd_shape shape = hd_node_shape(from, c->node);
        (*map)[c->node] = hd_graph_add_cell(g, hd_graph_string(from, c->name), c->kind, c->storage,
                                            (hd_dtype)from->nodes[c->node].dtype, &shape);
        if ((*map)[c->node] == HD_NO_NODE) goto failed;
    }
    return g;
failed:
    hd_array_release(*map);
    *map = NULL;
    hd_graph_release(thread, g);
    return NULL;
}

hd_graph *hd_graph_finish(hd_thread *thread, hd_graph *g, const hd_graph *from, uint32_t *map) {
    hd_error status = thread->error_code;
    for (uint32_t i = 0; i < from->output_count && status == HD_OK; ++i)
        status = hd_graph_add_output(g, hd_graph_string(from, from->outputs[i].name), map[from->outputs[i].node]);
    for (uint32_t i = 0; i < from->cell_count && status == HD_OK; ++i) g->cells[i].update = map[from->cells[i].update];
    hd_array_release(map);
    if (status == HD_OK) return g;
    hd_graph_release(thread, g);
    return NULL;
}
