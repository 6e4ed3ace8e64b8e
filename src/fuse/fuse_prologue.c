/* Prologues: a kernel whose value only one matrix product reads, as its first operand, can be run by that product, for
 * some rows at a time, right before they are multiplied. Each row is computed once all the same, and the value is never
 * in memory as a whole: what is saved is writing and reading it, a launch, and its place in the arena. */
#include "fuse/fuse.h"
#include "ops/row_ir.h"

#include <string.h>

enum { PIECES = 8 }; /* the cost of looking for the piece of a concatenation */

/* ---- what an element costs --------------------------------------------------------------------------------------- */
/* Of a member, and of what it recomputes; -1 with an error. */
static int cost_of(const hd_graph *g, const hd_fusion *f, hd_row_irs *rows, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    int cost = hd_node_lowers(g, node) == HD_LOWER_CAST ? HD_COST_CAST : PIECES;
    if (hd_node_lowers(g, node) == HD_LOWER_ROW) {
        const int type = hd_dtype_compute[n->derivative > 0 ? n->dtype : n->compute];
        const hd_ir *ir = hd_row_irs_get(rows, (hd_op_id)n->op, n->derivative, (hd_compute)type);
        if (ir == NULL) return -1;
        cost = hd_ir_cost(ir);
    }
    for (int k = 0; k < n->input_count; ++k) {
        const uint32_t source = f->source[hd_node_inputs(g, node)[k]];
        if (f->group_of[source] == HD_NO_GROUP) cost += f->recompute[source];
    }
    return cost;
}

/* ---- what can be one --------------------------------------------------------------------------------------------- */
/* How often a value is read from memory, and what kernels read and give. */
typedef struct uses {
    uint8_t *reads;    /* of each node; at most MANY, also for what leaves the run */
    uint32_t *stored;  /* of each group: how many of its values are in memory */
    uint32_t *written; /* of each group: the least level of what writes parts of state that it reads; UINT32_MAX */
    int *cost;         /* of each group that may be a prologue */
} uses;
enum { MANY = 2 };

/* A group reads what `write`, a node, then writes a part of. */
static void note_write(const hd_fusion *f, uses *u, uint32_t group, uint32_t write) {
    if (write == HD_NO_NODE || f->group_of[write] == HD_NO_GROUP) return;
    const uint32_t level = f->groups[f->group_of[write]].level;
    if (level < u->written[group]) u->written[group] = level;
}

static void count_uses(const hd_graph *g, const hd_fusion *f, uses *u) {
    memset(u->reads, 0, g->node_count);
    memset(u->stored, 0, f->group_count * sizeof *u->stored);
    memset(u->written, 0xff, f->group_count * sizeof *u->written);
    memset(u->cost, 0, f->group_count * sizeof *u->cost);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        if (f->group_of[i] == HD_NO_GROUP) continue;
        u->stored[f->group_of[i]] += f->stored[i];
        for (int k = 0; k < g->nodes[i].input_count; ++k) {
            const uint32_t source = f->source[hd_node_inputs(g, i)[k]];
            if (f->group_of[source] != f->group_of[i] && u->reads[source] < MANY) u->reads[source]++;
            note_write(f, u, f->group_of[i], f->written_by[source]);
        }
    }
    for (uint32_t i = 0; i < g->output_count; ++i) u->reads[f->source[g->outputs[i].node]] = MANY;
    for (uint32_t i = 0; i < g->cell_count; ++i) u->reads[f->source[g->cells[i].update]] = MANY;
}

/* True when the rows of the operand are those of the value: between the two, outer axes are at most cut or joined. */
static bool keeps_rows(const hd_graph *g, const hd_fusion *f, uint32_t operand) {
    const hd_shape shape = hd_node_shape(g, operand), value = hd_node_shape(g, f->source[operand]);
    for (uint32_t at = operand; at != f->source[operand]; at = hd_node_inputs(g, at)[0])
        if (g->nodes[at].op != HD_OP_detach && g->nodes[at].op != HD_OP_reshape) return false;
    return shape.rank >= 2 && value.rank >= 2 && shape.size[shape.rank - 1] == value.size[value.rank - 1];
}

static bool is_turned(const hd_graph *g, uint32_t product) {
    const hd_matmul_attributes *given =
        hd_node_lowers(g, product) == HD_LOWER_MATMUL ? hd_node_attributes(g, product) : NULL;
    return given != NULL && given->transpose_a;
}

static int64_t columns_of(const hd_graph *g, uint32_t product) {
    const hd_shape shape = hd_node_shape(g, product);
    return shape.size[shape.rank - 1];
}

/* Why a product cannot compute its first operand, which a kernel gives, as it reads it; NULL: it can. */
static const char *why_not(const hd_graph *g, const hd_fusion *f, const uses *u, uint32_t product) {
    const uint32_t operand = hd_node_inputs(g, product)[0], value = f->source[operand];
    const hd_group *kernel = &f->groups[f->group_of[value]];
    if (hd_lower_is_convolution(hd_node_lowers(g, product))) return "a convolution reads pixels several times";
    if (u->reads[value] == MANY) return "others read it, too, or it leaves the run";
    if (kernel->reduces) return "its kernel reduces rows";
    if (kernel->checks) return "its kernel looks at indices first";
    if (u->stored[f->group_of[value]] > 1 || kernel->last != value) return "its kernel gives other values, too";
    if (u->written[f->group_of[value]] < f->groups[f->group_of[product]].level) /* which may read the new value */
        return "it is computed from state of which parts are written before the product";
    if (is_turned(g, product) || !keeps_rows(g, f, operand)) return "its rows are not those of the kernel";
    const hd_shape x = hd_node_shape(g, operand);
    const int64_t k = x.size[x.rank - 1], n = columns_of(g, product), count = hd_node_count(g, operand);
    if (count == 0 || n == 0) return "it has no elements";
    if (count / k != hd_node_count(g, product) / n) return "several matrices are multiplied by it";
    return NULL;
}

/* Why that would not be worth it, for what is known without the kernel; NULL: it would. */
static const char *why_not_worth(const hd_graph *g, const hd_fusion *f, uint32_t product) {
    const uint32_t operand = hd_node_inputs(g, product)[0];
    const hd_shape x = hd_node_shape(g, operand);
    const size_t bytes = hd_node_bytes(g, operand);
    const bool is_call =
        f->groups[f->group_of[product]].count == 1 && !hd_fusion_is_steady(g, f, hd_node_inputs(g, product)[1]);
    const hd_target_prologues *t = &f->machine->target.prologues;
    if ((int64_t)bytes < t->least_bytes) return "it is small enough to stay in cache";
    if (x.size[x.rank - 1] < t->least_row) return "its rows are short";
    return is_call && ((int64_t)bytes < t->call_bytes || columns_of(g, product) > t->call_columns)
               ? "a product alone is quicker as a call, unless its operand is large and its result has few columns"
               : NULL;
}

/* Rows are cut among threads as the product needs it: what takes long beside so few multiplications is better cut by
 * itself. */
static bool is_dear(const hd_target_prologues *t, const hd_graph *g, uint32_t product, int cost) {
    const int64_t n = columns_of(g, product);
    return hd_node_count(g, product) / n < t->many_rows && n < (int64_t)cost * t->share;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */
static void join(hd_fusion *f, uint32_t value, uint32_t product) {
    f->groups[f->group_of[value]].begins = f->group_of[product];
    f->groups[f->group_of[product]].prologue = f->group_of[value];
    f->stored[value] = false;
}
static void part(hd_fusion *f, uint32_t value, uint32_t product, const char *why) {
    f->groups[f->group_of[value]].begins = HD_NO_GROUP;
    f->groups[f->group_of[product]].prologue = HD_NO_GROUP;
    f->groups[f->group_of[product]].apart = why;
    f->stored[value] = true;
}

/* The value of a kernel that a product reads as its first operand; HD_NO_NODE: another kind of value. */
static uint32_t value_for(const hd_graph *g, const hd_fusion *f, uint32_t node) {
    const uint32_t group = f->group_of[node];
    if (group == HD_NO_GROUP || f->groups[group].kind != HD_GROUP_PRODUCT ||
        !hd_node_is_product(f->machine, g, node, NULL))
        return HD_NO_NODE;
    const uint32_t value = f->source[hd_node_inputs(g, node)[0]], from = f->group_of[value];
    return from != HD_NO_GROUP && f->groups[from].kind == HD_GROUP_KERNEL ? value : HD_NO_NODE;
}

/* Takes back what is too dear. */
static hd_error leave_dear(const hd_graph *g, hd_fusion *f, uses *u) {
    hd_row_irs rows = {.read = {NULL}};
    hd_error status = HD_OK;
    for (uint32_t i = 0; i < g->node_count && status == HD_OK; ++i) {
        const uint32_t group = f->group_of[i];
        if (group == HD_NO_GROUP || f->groups[group].begins == HD_NO_GROUP) continue;
        const int cost = cost_of(g, f, &rows, i);
        if (cost < 0)
            status = HD_ERROR_MEMORY;
        else
            u->cost[group] += cost;
    }
    hd_row_irs_end(&rows);
    for (uint32_t i = 0; i < g->node_count && status == HD_OK; ++i) {
        const uint32_t value = value_for(g, f, i);
        if (value != HD_NO_NODE && hd_fusion_is_prologue(f, value) &&
            is_dear(&f->machine->target.prologues, g, i, u->cost[f->group_of[value]]))
            part(f, value, i, "it takes long beside so few columns");
    }
    return status;
}

static hd_error choose_prologues(const hd_graph *g, hd_fusion *f, uses *u, hd_prologues which) {
    bool any = false;
    count_uses(g, f, u);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const uint32_t value = value_for(g, f, i);
        if (value == HD_NO_NODE) continue;
        const char *why = why_not(g, f, u, i);
        if (why == NULL && which == HD_PROLOGUES_WORTH) why = why_not_worth(g, f, i);
        if (why == NULL && which == HD_PROLOGUES_NONE) why = "tuning found that quicker";
        f->groups[f->group_of[i]].apart = why;
        if (why == NULL) join(f, value, i);
        any = any || why == NULL;
    }
    return any && which == HD_PROLOGUES_WORTH ? leave_dear(g, f, u) : HD_OK;
}

hd_error hd_fusion_find_prologues(const hd_graph *g, hd_fusion *f, hd_prologues which) {
    const size_t groups = (size_t)f->group_count + 1;
    uses u = {.reads = hd_array_resize(NULL, (size_t)g->node_count + 1),
              .stored = hd_array_resize(NULL, groups * sizeof *u.stored),
              .written = hd_array_resize(NULL, groups * sizeof *u.written),
              .cost = hd_array_resize(NULL, groups * sizeof *u.cost)};
    const bool ok = u.reads != NULL && u.stored != NULL && u.written != NULL && u.cost != NULL;
    const hd_error status = ok ? choose_prologues(g, f, &u, which) : hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    hd_array_release(u.reads);
    hd_array_release(u.stored);
    hd_array_release(u.written);
    hd_array_release(u.cost);
    return status;
}
