/* Graphs: what a builder captured. A flat array of nodes in order; each has one value: of a call with several outputs
 * the first, and a node behind it stands for each of the others that somebody may read. Shapes, attributes and names
 * are interned, so that a node is 24 bytes and a million of them are nothing special.
 *
 * A graph never changes once it is captured: passes make new ones. Writing in place is a value too: a cell (a bound
 * tensor or state) is read at the start of a run, and what it holds at the end is its update. */
#ifndef HD_GRAPH_GRAPH_H
#define HD_GRAPH_GRAPH_H

#include "ops/custom.h"

/* Nodes that are no ops. */
enum {
    HD_NODE_INPUT = HD_OP_COUNT, /* graph->inputs[first] */
    HD_NODE_CONSTANT,            /* graph->constants[first] */
    HD_NODE_CELL,                /* graph->cells[first], as it is when a run begins */
    HD_NODE_WRITE,               /* the first input with the second written where the attributes' layout says:
                    * hd_strided_attributes */
    HD_NODE_OUTPUT,              /* another output of its input, a call that has several: `derivative` says which */
    HD_NODE_END
};

typedef struct hd_node {
    uint16_t op;            /* hd_op_id, or HD_NODE_* */
    uint8_t derivative;     /* 1 + the operand, for the derivative of an elementwise row; see HD_NODE_OUTPUT */
    uint8_t dtype, compute; /* of the value; of an elementwise row */
    uint8_t input_count;
    uint32_t first;             /* its inputs: graph->edges[first ...]; or an index into a table */
    uint32_t shape, attributes; /* in graph->pool; no attributes: 0 */
    uint32_t span;              /* in graph->spans */
} hd_node;

/* Interned bytes: an offset stands for equal bytes. */
typedef struct hd_pool {
    uint64_t *words;
    uint32_t count, capacity;
    uint32_t *table;
    uint32_t table_size, entries;
} hd_pool;

typedef struct hd_graph_input {
    uint32_t name, node; /* name: in the pool */
} hd_graph_input;
typedef hd_graph_input hd_graph_output;
typedef struct hd_graph_constant {
    hd_storage *storage; /* retained; contiguous */
} hd_graph_constant;
typedef enum hd_cell_kind { HD_CELL_BOUND, HD_CELL_STATE } hd_cell_kind;
typedef struct hd_graph_cell {
    uint32_t name, node;
    uint32_t update; /* what it holds at the end of a run; its own node: unchanged */
    hd_cell_kind kind;
    hd_storage *storage; /* retained: the eager tensor's, or the script's own */
} hd_graph_cell;
typedef struct hd_graph_span {
    uint32_t name, parent; /* parent: in spans; 0 is the root */
    bool is_call;          /* a composite, no module; only where it was recorded: neither texts nor files say so */
} hd_graph_span;

/* Names of one kind, and where in their table of the graph they are. */
typedef enum hd_name_kind { HD_NAME_INPUT, HD_NAME_OUTPUT, HD_NAME_CELL, HD_NAME_KINDS } hd_name_kind;
typedef struct hd_names {
    uint32_t *table; /* 1 + index, by a hash of the name */
    uint32_t size, count;
} hd_names;

typedef struct hd_graph {
    hd_object object;
    uint32_t name;
    hd_pool pool;
    hd_node *nodes;
    uint32_t *edges;
    hd_graph_input *inputs;
    hd_graph_output *outputs;
    hd_graph_constant *constants;
    hd_graph_cell *cells;
    hd_graph_span *spans;
    uint32_t node_count, edge_count, input_count, output_count, constant_count, cell_count, span_count;
    uint32_t node_capacity, edge_capacity, input_capacity, output_capacity, constant_capacity, cell_capacity,
        span_capacity;
    hd_names names[HD_NAME_KINDS];
    uint32_t draws;  /* random nodes: how many draws a run takes */
    bool calls_back; /* it has ops of the user's, whose functions may leave a run by longjmp */
    bool guarded;    /* integers that rows must not meet, such as a divisor of 0, were looked for before */
} hd_graph;

/* An empty graph with one reference; NULL with an error. */
hd_graph *hd_graph_new(hd_thread *thread, const char *name);
static inline void hd_graph_release(hd_thread *thread, hd_graph *g) {
    if (g != NULL) hd_object_release(thread, &g->object);
}

/* Interns bytes; 0 with an error when there is no memory. */
uint32_t hd_pool_intern(hd_pool *pool, const void *bytes, size_t count);
/* Where equal bytes are; 0: nowhere. */
uint32_t hd_pool_find(const hd_pool *pool, const void *bytes, size_t count);
static inline const void *hd_pool_at(const hd_pool *pool, uint32_t offset) { return pool->words + offset; }
static inline size_t hd_pool_size(const hd_pool *pool, uint32_t offset) { return pool->words[offset - 1] >> 32; }
uint32_t hd_graph_text(hd_graph *g, const char *text);
static inline const char *hd_graph_string(const hd_graph *g, uint32_t offset) {
    return offset == 0 ? "" : hd_pool_at(&g->pool, offset);
}

/* The index of what has this name in graph->inputs, outputs or cells; HD_NO_NODE: there is none. */
uint32_t hd_graph_find(const hd_graph *g, hd_name_kind kind, const char *name);
/* The name at an index of these tables, in the pool. */
static inline uint32_t hd_name_at(const hd_graph *g, hd_name_kind kind, uint32_t index) {
    return kind == HD_NAME_INPUT    ? g->inputs[index].name
           : kind == HD_NAME_OUTPUT ? g->outputs[index].name
                                    : g->cells[index].name;
}
/* For those that add to these tables: makes room for one more name; notes the name that is now at an index. */
hd_error hd_names_reserve(hd_graph *g, hd_name_kind kind);
void hd_names_add(hd_graph *g, hd_name_kind kind, uint32_t index);

/* Reading nodes. */
hd_shape hd_node_shape(const hd_graph *g, uint32_t node);
int64_t hd_node_count(const hd_graph *g, uint32_t node);
static inline const void *hd_node_attributes(const hd_graph *g, uint32_t node) {
    return g->nodes[node].attributes == 0 ? NULL : hd_pool_at(&g->pool, g->nodes[node].attributes);
}
static inline const uint32_t *hd_node_inputs(const hd_graph *g, uint32_t node) {
    static const uint32_t none[1]; /* a graph without edges has no array, and NULL + 0 is not C */
    return g->edge_count == 0 ? none : g->edges + g->nodes[node].first;
}
static inline bool hd_node_is_op(const hd_node *n) { return n->op < HD_OP_COUNT; }
/* It has inputs among the nodes: an op, a write, or another output of an op. */
static inline bool hd_node_is_call(const hd_node *n) {
    return hd_node_is_op(n) || n->op == HD_NODE_WRITE || n->op == HD_NODE_OUTPUT;
}
const hd_op *hd_node_op(const hd_node *n); /* of HD_NODE_*: NULL */
const char *hd_node_name(const hd_node *n);
/* It does something that is not in its value: it runs once in every run, whoever reads it. */
static inline bool hd_node_has_effects(const hd_graph *g, uint32_t node) {
    return g->nodes[node].op == HD_OP_custom && hd_custom_has_effects(hd_node_attributes(g, node));
}
static inline size_t hd_node_bytes(const hd_graph *g, uint32_t node) {
    return (size_t)hd_node_count(g, node) * hd_dtype_bytes[g->nodes[node].dtype];
}

/* Adding nodes; all give HD_NO_NODE with an error. `attributes` is the op's struct. */
#define HD_NO_NODE UINT32_MAX
uint32_t hd_graph_add(hd_graph *g, uint16_t op, int derivative, const uint32_t *inputs, int count, hd_dtype dtype,
                      const hd_shape *shape, const void *attributes);
uint32_t hd_graph_add_input(hd_graph *g, const char *name, hd_dtype dtype, const hd_shape *shape);
uint32_t hd_graph_add_constant(hd_graph *g, hd_storage *storage, hd_dtype dtype, const hd_shape *shape);
uint32_t hd_graph_add_cell(hd_graph *g, const char *name, hd_cell_kind kind, hd_storage *storage, hd_dtype dtype,
                           const hd_shape *shape);
hd_error hd_graph_add_output(hd_graph *g, const char *name, uint32_t node);
uint32_t hd_graph_add_span(hd_graph *g, const char *name, uint32_t parent);
/* Copies a node of another graph; its inputs are nodes of this one. */
uint32_t hd_graph_copy(hd_graph *g, const hd_graph *from, uint32_t node, const uint32_t *inputs);
/* A new graph with the name, spans, inputs, and cells of another, and `map`, from its nodes to new ones, all HD_NO_NODE
 * but for inputs and cells; hd_graph_finish adds outputs and updates by the map, and releases it. */
hd_graph *hd_graph_like(hd_thread *thread, const hd_graph *from, uint32_t **map);
hd_graph *hd_graph_finish(hd_thread *thread, hd_graph *g, const hd_graph *from, uint32_t *map);

/* ---- attributes: one description of every struct, for text, files and hashes ---- */
typedef enum hd_field_kind {
    HD_FIELD_F64,
    HD_FIELD_I64,
    HD_FIELD_INT,
    HD_FIELD_BOOL,
    HD_FIELD_DTYPE,
    HD_FIELD_SHAPE,
    HD_FIELD_AXES,
    HD_FIELD_FLAGS, /* bool[HD_MAX_RANK] */
    HD_FIELD_LAYOUT,
    HD_FIELD_PADDING, /* hd_padding[HD_MAX_RANK] */
    HD_FIELD_NAME,    /* hd_name */
    HD_FIELD_BYTES,   /* hd_small_bytes */
    HD_FIELD_END
} hd_field_kind;
typedef struct hd_field {
    const char *name;
    hd_field_kind kind;
    size_t offset;
    bool later; /* it came after texts and files were written without it: those that have a 0 there leave it out */
} hd_field;
/* The fields of a node's attributes, up to HD_FIELD_END, with later ones last; *bytes is the size of the struct. */
const hd_field *hd_attribute_fields(uint16_t op, size_t *bytes);
/* True when nodes of this op with attributes that are all 0 have none. */
bool hd_attributes_may_lack(uint16_t op);
/* True when a text or a file of these attributes has the field. */
bool hd_attribute_is_said(const hd_field *field, const void *attributes);
/* A copy in which all that means nothing is zero, so that equal attributes are equal bytes. */
void hd_attributes_normalise(uint16_t op, const void *attributes, void *out);
enum { HD_ATTRIBUTES_MOST = 320 };

/* ---- text ---- */
/* The graph as text people can read; the caller releases it with hd_array_release. NULL with an error. */
char *hd_graph_print(const hd_graph *g);
/* The graph of such a text. Everything in it is checked as if a program had made the calls. */
hd_graph *hd_graph_parse(hd_thread *thread, const char *text);

/* Checks that every node follows from its inputs as its op says, by calling the ops anew. */
hd_error hd_graph_verify(hd_thread *thread, const hd_graph *g);
/* The same; *node is the first that does not. */
hd_error hd_graph_verify_at(hd_thread *thread, const hd_graph *g, uint32_t *node);
enum { HD_NAME_MOST = 4095 }; /* bytes of a name of an input, output, state or script */

/* ---- passes: each makes a new graph; NULL with an error ---- */
typedef hd_graph *(*hd_pass)(hd_thread *thread, const hd_graph *g);
hd_graph *hd_pass_spans(hd_thread *thread, const hd_graph *g);     /* drops spans */
hd_graph *hd_pass_fold(hd_thread *thread, const hd_graph *g);      /* computes what follows from constants */
hd_graph *hd_pass_algebra(hd_thread *thread, const hd_graph *g);   /* x*1, x+0, chains of views and casts */
hd_graph *hd_pass_broadcast(hd_thread *thread, const hd_graph *g); /* lets elementwise ops stretch scalars themselves */
hd_graph *hd_pass_transpose(hd_thread *thread, const hd_graph *g); /* folds transposes into matrix products */
hd_graph *hd_pass_widen(hd_thread *thread, const hd_graph *g);     /* folds casts into matrix products */
hd_graph *hd_pass_common(hd_thread *thread, const hd_graph *g);    /* computes equal nodes once */
hd_graph *hd_pass_dead(hd_thread *thread, const hd_graph *g);      /* drops what nobody reads */
/* All of them in order, from level O1 on. */
hd_graph *hd_graph_simplify(hd_thread *thread, hd_graph *g);
/* By name, for tests and HODU_DUMP. */
hd_pass hd_pass_named(const char *name);

#endif
