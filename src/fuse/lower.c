/* Lowering. The axes of a group's space become the axes of a kernel, kept ones first; neighbours that every buffer
 * walks in one go are joined, so that what is contiguous is one loop. Then every member becomes words: a row is read as
 * kernel IR, a cast a cast, a number an argument. What is computed in the group is a value; what is not, a load. */
#include "fuse/lower_build.h"
#include "ops/row_ir.h"
#include "ops/row_uses.h"

#include <string.h>

hd_error hd_lowering_begin(hd_lowering *l, const hd_graph *g, const hd_fusion *f, const hd_tensor *tensors) {
    *l = (hd_lowering){.g = g, .f = f, .tensors = tensors};
    l->value = hd_array_resize(NULL, ((size_t)g->node_count + 1) * sizeof *l->value);
    return l->value == NULL ? hd_fail(HD_ERROR_MEMORY, "no memory to lower a graph") : HD_OK;
}

void hd_lowering_end(hd_lowering *l) {
    hd_row_irs_end(&l->rows);
    hd_array_release(l->value);
    memset(l, 0, sizeof *l);
}

/* ---- what a kernel reads and writes ------------------------------------------------------------------------------ */
int hd_lower_access(build *b, uint32_t node, bool written, hd_dtype dtype, const int64_t *stride) {
    const size_t bytes = (size_t)b->group->space.rank * sizeof *stride;
    for (int i = 0; i < b->access_count; ++i) {
        const access *a = &b->accesses[i];
        if (a->node == node && a->written == written && memcmp(a->stride, stride, bytes) == 0) return i;
    }
    if (b->access_count == HD_KERNEL_BUFFERS) {
        hd_fail(HD_ERROR_INTERNAL, "a fused kernel of more than %d buffers", (int)HD_KERNEL_BUFFERS);
        return -1;
    }
    access *a = &b->accesses[b->access_count];
    *a = (access){.node = node, .written = written, .dtype = (uint8_t)dtype};
    memcpy(a->stride, stride, bytes);
    return b->access_count++;
}

/* The strides of a value along the axes of the space, when its own axes are those of `axes`. */
void hd_lower_strides(const hd_layout *layout, const int8_t *axes, int64_t *out) {
    memset(out, 0, HD_MAX_RANK * sizeof *out);
    for (int i = 0; i < layout->shape.rank; ++i)
        if (axes[i] >= 0 && layout->shape.size[i] != 1) out[axes[i]] += layout->stride[i];
}

static int lower_load(build *b, uint32_t node, const int8_t *axes) {
    int64_t stride[HD_MAX_RANK];
    const hd_tensor *t = &b->l->tensors[node];
    hd_lower_strides(&t->layout, axes, stride);
    const int at = hd_lower_access(b, node, false, (hd_dtype)t->dtype, stride);
    return b->counting || at < 0 ? at : hd_kernel_load(b->k, at, -1);
}

int hd_lower_number(build *b, hd_dtype dtype, double value) {
    if (b->counting) return 0;
    if (b->number_count == HD_LOWER_NUMBERS) {
        hd_fail(HD_ERROR_INTERNAL, "a fused kernel of more than %d numbers", (int)HD_LOWER_NUMBERS);
        return -1;
    }
    const hd_compute type = (hd_compute)hd_dtype_compute[dtype];
    uint64_t bits = 0;
    if (type == HD_COMPUTE_F32) { /* small floats compute in f32 */
        const float f = (float)value;
        memcpy(&bits, &f, 4);
    } else {
        hd_element_from_f64(&bits, dtype, value);
    }
    b->numbers[b->number_count] = bits;
    return hd_kernel_number(b->k, type, b->number_count++);
}

/* A number in an expression is the one that the element it fills would hold. */
int hd_lower_number_node(build *b, uint32_t node) {
    const hd_dtype dtype = (hd_dtype)b->l->g->nodes[node].dtype;
    double value = *(const double *)hd_node_attributes(b->l->g, node);
    if (hd_dtype_is_small_float(dtype)) {
        uint64_t element = 0;
        hd_element_from_f64(&element, dtype, value);
        value = hd_element_to_f64(&element, dtype);
    }
    if (b->counting) return 0;
    if (b->l->value[node] < 0) b->l->value[node] = hd_lower_number(b, dtype, value);
    return b->l->value[node];
}

/* Input k of a member. */
static int input(build *b, uint32_t node, int k, const int8_t *axes) {
    const hd_graph *g = b->l->g;
    const uint32_t in = hd_node_inputs(g, node)[k], source = b->l->f->source[in];
    if (b->l->f->number[in]) return hd_lower_number_node(b, source);
    if (b->walk >= 0) return hd_lower_recompute(b, in, axes);
    if (b->l->f->group_of[source] != HD_NO_GROUP && &b->l->f->groups[b->l->f->group_of[source]] == b->group)
        return b->counting ? 0 : b->l->value[source];
    int8_t own[HD_MAX_RANK];
    const hd_shape from = hd_node_shape(g, in), to = hd_node_shape(g, node);
    for (int i = 0; i < from.rank; ++i) own[i] = (int8_t)(from.size[i] == 1 ? -1 : axes[to.rank - from.rank + i]);
    return hd_lower_recomputes(b, source) ? hd_lower_recompute(b, in, own) : lower_load(b, in, own);
}

static int as_type(build *b, int step, int type) {
    return b->counting || step < 0 ? step : hd_kernel_cast(b->k, step, type);
}

/* ---- members as words -------------------------------------------------------------------------------------------- */
static int row_numbers(build *b, uint32_t node, hd_dtype compute, int *numbers) {
    const hd_node *n = &b->l->g->nodes[node];
    const double *values = hd_node_attributes(b->l->g, node);
    for (int i = 0; i < hd_rows[n->op].numbers; ++i)
        if ((numbers[i] = hd_lower_number(b, compute, values[i])) < 0) return -1;
    return 0;
}

static int row_value(build *b, uint32_t node, const int8_t *axes) {
    const hd_node *n = &b->l->g->nodes[node];
    const hd_dtype compute = (hd_dtype)n->compute;
    const hd_compute type = (hd_compute)hd_dtype_compute[compute];
    int inputs[3] = {-1, -1, -1}, numbers[3] = {-1, -1, -1};
    for (int k = 0; k < n->input_count; ++k) {
        const int condition = hd_rows[n->op].chooses && k == 0;
        inputs[k] = as_type(b, input(b, node, k, axes), condition ? (int)HD_CONDITION : (int)type);
        if (inputs[k] < 0) return -1;
    }
    if (row_numbers(b, node, compute, numbers) < 0) return -1;
    if (b->counting) return 0;
    const hd_ir *ir = hd_row_irs_get(&b->l->rows, (hd_op_id)n->op, 0, type);
    return ir == NULL ? -1 : hd_kernel_row(b->k, ir, inputs, numbers);
}

static int derivative_value(build *b, uint32_t node, const int8_t *axes) {
    const hd_node *n = &b->l->g->nodes[node];
    const hd_compute type = (hd_compute)hd_dtype_compute[n->dtype];
    const unsigned uses = hd_row_uses((hd_op_id)n->op, n->derivative - 1);
    int inputs[5] = {-1, -1, -1, -1, -1}, numbers[3] = {-1, -1, -1};
    for (int v = 0; v < HD_ROW_VARIABLES; ++v) {
        if ((uses & hd_row_variables[v].bit) == 0) continue;
        const int step = input(b, node, hd_uses_place(uses, hd_row_variables[v].bit), axes);
        const bool condition = hd_rows[n->op].chooses && v == 0;
        inputs[hd_row_variables[v].place] = as_type(b, step, condition ? (int)HD_CONDITION : (int)type);
        if (inputs[hd_row_variables[v].place] < 0) return -1;
    }
    if (row_numbers(b, node, (hd_dtype)n->dtype, numbers) < 0) return -1;
    if (b->counting) return 0;
    const hd_ir *ir = hd_row_irs_get(&b->l->rows, (hd_op_id)n->op, n->derivative, type);
    return ir == NULL ? -1 : hd_kernel_row(b->k, ir, inputs, numbers);
}

static int reduction_value(build *b, uint32_t node, hd_kernel_reduction how) {
    const hd_node *n = &b->l->g->nodes[node];
    int8_t axes[HD_MAX_RANK];
    for (int i = 0; i < HD_MAX_RANK; ++i) axes[i] = (int8_t)i;
    const hd_graph *g = b->l->g;
    const uint32_t in = hd_node_inputs(g, node)[0], source = b->l->f->source[in];
    int step;
    if (b->l->f->number[in])
        step = hd_lower_number_node(b, source);
    else if (b->l->f->group_of[source] != HD_NO_GROUP && &b->l->f->groups[b->l->f->group_of[source]] == b->group)
        step = b->counting ? 0 : b->l->value[source];
    else
        step = hd_lower_recomputes(b, source) ? hd_lower_recompute(b, in, axes) : lower_load(b, in, axes);
    step = as_type(b, step, hd_dtype_compute[n->dtype]);
    return b->counting || step < 0 ? step : hd_kernel_reduce(b->k, step, how);
}

/* An index that may count from the end of an axis of size `size`, a step, counted from its beginning. */
static int from_beginning(build *b, int index, int size) {
    const int negative = hd_kernel_word(b->k, HD_WORD_LT, index, hd_kernel_constant(b->k, HD_COMPUTE_I64, 0), -1),
              from_end = hd_kernel_word(b->k, HD_WORD_ADD, index, size, -1);
    return hd_kernel_word(b->k, HD_WORD_SELECT, negative, from_end, index);
}

/* A comparison of the position along an axis of the space (-1: it has one point) with an index for each row, which may
 * count from the end. */
static int is_at_index(build *b, uint32_t node, int axis, const int8_t *axes) {
    const int index = as_type(b, input(b, node, 1, axes), HD_COMPUTE_I64);
    if (axis >= 0) b->indexed[axis] = true;
    if (b->counting || index < 0) return index;
    const int size = hd_lower_number(b, HD_I64, axis < 0 ? 1 : (double)b->group->space.size[axis]),
              zero = hd_kernel_constant(b->k, HD_COMPUTE_I64, 0);
    const int position = axis < 0 || b->axis_of[axis] < 0 ? zero : hd_kernel_index(b->k, b->axis_of[axis]);
    return hd_kernel_word(b->k, HD_WORD_EQ, position, from_beginning(b, index, size), -1);
}

/* True when the row of which an index picks an element is computed here. */
static bool is_picked(const build *b, uint32_t node) {
    const uint32_t group = b->l->f->group_of[b->l->f->source[hd_node_inputs(b->l->g, node)[0]]];
    return group != HD_NO_GROUP && &b->l->f->groups[group] == b->group;
}

static int pick_value(build *b, uint32_t node) {
    const hd_graph *g = b->l->g;
    const int axis = ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis;
    int8_t axes[HD_MAX_RANK];
    for (int i = 0; i < HD_MAX_RANK; ++i) axes[i] = (int8_t)(i == axis ? -1 : i);
    const int here = is_at_index(b, node, axis, axes);
    if (b->counting || here < 0) return here;
    const hd_compute type = (hd_compute)hd_dtype_compute[g->nodes[node].dtype];
    const int x = hd_kernel_cast(b->k, b->l->value[b->l->f->source[hd_node_inputs(g, node)[0]]], (int)type),
              nothing = hd_kernel_constant(b->k, type, 0);
    return hd_kernel_reduce(b->k, hd_kernel_word(b->k, HD_WORD_SELECT, here, x, nothing),
                            type == HD_COMPUTE_B8 ? HD_KERNEL_MAX : HD_KERNEL_SUM);
}

static int spread_value(build *b, uint32_t node, const int8_t *axes) {
    const hd_graph *g = b->l->g;
    const hd_scatter_attributes *a = hd_node_attributes(g, node);
    const hd_compute type = (hd_compute)hd_dtype_compute[g->nodes[node].dtype];
    const int base = as_type(b, input(b, node, 0, axes), (int)type), here = is_at_index(b, node, axes[a->axis], axes);
    int value = as_type(b, input(b, node, 2, axes), (int)type);
    if (base < 0 || here < 0 || value < 0 || b->counting) return b->counting && base >= 0 && here >= 0 ? value : -1;
    if (a->mode == HD_SCATTER_ADD)
        value = hd_kernel_word(b->k, type == HD_COMPUTE_B8 ? HD_WORD_OR : HD_WORD_ADD, base, value, -1);
    return hd_kernel_word(b->k, HD_WORD_SELECT, here, value, base);
}

/* A row of a table, or an element of it, is where its index says. */
static int lookup_value(build *b, uint32_t node, const int8_t *axes) {
    const hd_graph *g = b->l->g;
    const uint32_t table = hd_node_inputs(g, node)[0], index = hd_node_inputs(g, node)[1];
    const int axis = ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis;
    if (b->l->f->number[table]) return hd_lower_number_node(b, b->l->f->source[table]);
    const hd_layout *layout = &b->l->tensors[table].layout;
    const int8_t of_row[1] = {axes[axis]}, *of_index = hd_node_lowers(g, node) == HD_LOWER_GATHER ? axes : of_row;
    int8_t of_table[HD_MAX_RANK];
    for (int i = 0; i < layout->shape.rank; ++i) of_table[i] = (int8_t)(i == axis ? -1 : axes[i]);
    int at = as_type(b, lower_load(b, index, of_index), HD_COMPUTE_I64);
    int64_t stride[HD_MAX_RANK];
    hd_lower_strides(layout, of_table, stride);
    const int buffer = hd_lower_access(b, table, false, (hd_dtype)b->l->tensors[table].dtype, stride);
    if (b->counting || at < 0 || buffer < 0) return at < 0 ? at : buffer;
    at = from_beginning(b, at, hd_lower_number(b, HD_I64, (double)layout->shape.size[axis]));
    at = hd_kernel_word(b->k, HD_WORD_MUL, at, hd_lower_number(b, HD_I64, (double)layout->stride[axis]), -1);
    return hd_kernel_load(b->k, buffer, at);
}

static int cast_value(build *b, uint32_t node, const int8_t *axes) {
    const hd_dtype dtype = (hd_dtype)b->l->g->nodes[node].dtype;
    const int step = as_type(b, input(b, node, 0, axes), hd_dtype_compute[dtype]);
    return b->counting || step < 0 || !hd_dtype_is_small_float(dtype) ? step : hd_kernel_round(b->k, step, dtype);
}

/* The bias of a product: one element for each column of a matrix, for each channel of a convolution. */
static int bias_value(build *b, uint32_t node) {
    const uint32_t in = hd_node_inputs(b->l->g, node)[2];
    const bool by_channel = hd_lower_is_convolution(hd_node_lowers(b->l->g, node));
    const int8_t axis = (int8_t)(by_channel ? b->row_axis : b->group->space.rank - 1);
    const int step = b->l->f->number[in] ? hd_lower_number_node(b, b->l->f->source[in]) : lower_load(b, in, &axis);
    return as_type(b, step, hd_dtype_compute[b->l->g->nodes[node].dtype]);
}

/* The buffer of what a product has in cache: rows of its result, or, written, of its first operand. */
static int tile_access(build *b, bool written, hd_dtype dtype) {
    const hd_shape *space = &b->group->space;
    int64_t stride[HD_MAX_RANK] = {0};
    stride[b->row_axis] = 2; /* rows of a tile are some way apart; how far, each call says */
    stride[space->rank - 1] = 1;
    for (int i = space->rank - 2; i > b->row_axis; --i) stride[i] = stride[i + 1] * space->size[i + 1];
    return hd_lower_access(b, HD_TILE_BUFFER, written, dtype, stride);
}

/* What the product left in cache, and its bias. */
static int product_value(build *b, uint32_t node) {
    const hd_node *n = &b->l->g->nodes[node];
    const int tile = tile_access(b, false, b->l->f->machine->tile_dtype((hd_dtype)n->dtype));
    int step = b->counting || tile < 0 ? tile : hd_kernel_load(b->k, tile, -1);
    step = as_type(b, step, hd_dtype_compute[n->dtype]);
    if (n->input_count > 2) {
        const int bias = bias_value(b, node);
        if (!b->counting) step = hd_kernel_word(b->k, HD_WORD_ADD, step, bias, -1);
        if (bias < 0) return -1;
    }
    return step;
}

int hd_lower_value(build *b, uint32_t node, const int8_t *axes) {
    switch (hd_node_lowers(b->l->g, node)) {
    case HD_LOWER_ROW:
        return b->l->g->nodes[node].derivative > 0 ? derivative_value(b, node, axes) : row_value(b, node, axes);
    case HD_LOWER_CAST: return cast_value(b, node, axes);
    case HD_LOWER_UNIFORM: return hd_lower_uniform(b, node);
    case HD_LOWER_NORMAL: return hd_lower_normal(b, node);
    case HD_LOWER_RANDINT: return hd_lower_randint(b, node);
    case HD_LOWER_SUM: return reduction_value(b, node, HD_KERNEL_SUM);
    case HD_LOWER_PROD: return reduction_value(b, node, HD_KERNEL_PROD);
    case HD_LOWER_MAX: return reduction_value(b, node, HD_KERNEL_MAX);
    case HD_LOWER_MIN: return reduction_value(b, node, HD_KERNEL_MIN);
    case HD_LOWER_GATHER: return is_picked(b, node) ? pick_value(b, node) : lookup_value(b, node, axes);
    case HD_LOWER_INDEX_SELECT: return lookup_value(b, node, axes);
    case HD_LOWER_SCATTER: return spread_value(b, node, axes);
    case HD_LOWER_CONCAT: return hd_lower_concat(b, node, axes);
    case HD_LOWER_PAD: return hd_lower_pad(b, node, axes);
    case HD_LOWER_MATMUL:
    case HD_LOWER_AFFINE:
    case HD_LOWER_CONV:
    case HD_LOWER_CONV_TRANSPOSE: return product_value(b, node);
    case HD_LOWER_NONE:
    case HD_LOWER_NUMBER: /* numbers and views are read through, and no members of a group */
    case HD_LOWER_SAME:
    case HD_LOWER_BROADCAST:
    case HD_LOWER_PERMUTE:
    case HD_LOWER_RESHAPE: break;
    }
    hd_fail(HD_ERROR_INTERNAL, "node %%%u, %s, is no member of a kernel", node, hd_node_name(&b->l->g->nodes[node]));
    return -1;
}

/* True when the value has the bits of an element in memory: it was read from there, or is rounded already. */
static bool has_bits_of_memory(const hd_graph *g, uint32_t node) {
    const hd_lower_kind kind = hd_node_lowers(g, node);
    return kind == HD_LOWER_CAST || kind == HD_LOWER_INDEX_SELECT || kind == HD_LOWER_GATHER ||
           kind == HD_LOWER_CONCAT || kind == HD_LOWER_PAD;
}
int hd_lower_rounded(build *b, uint32_t node, int step) {
    const hd_dtype dtype = (hd_dtype)b->l->g->nodes[node].dtype;
    return b->counting || step < 0 || !hd_dtype_is_small_float(dtype) || has_bits_of_memory(b->l->g, node)
               ? step
               : hd_kernel_round(b->k, step, dtype);
}

/* The buffer of a value that goes to memory, where it may be a part of something larger. */
static int stored_access(build *b, uint32_t node, const int8_t *axes) {
    int64_t stride[HD_MAX_RANK];
    hd_lower_strides(&b->l->tensors[node].layout, axes, stride);
    return hd_lower_access(b, node, true, (hd_dtype)b->l->g->nodes[node].dtype, stride);
}

static hd_error build_member(build *b, uint32_t node) {
    const hd_graph *g = b->l->g;
    int8_t axes[HD_MAX_RANK];
    hd_form_axes(b->group, (hd_form)b->l->f->form[node], axes);
    int step = hd_lower_rounded(b, node, hd_lower_value(b, node, axes));
    if (step < 0)
        return hd_fail(HD_ERROR_INTERNAL, "node %%%u, %s, cannot be lowered", node, hd_node_name(&g->nodes[node]));
    b->l->value[node] = step;
    const bool is_prologue = hd_fusion_is_prologue(b->l->f, node);
    if (!b->l->f->stored[node] && !is_prologue) return HD_OK;
    const int at = is_prologue ? tile_access(b, true, (hd_dtype)g->nodes[node].dtype) : stored_access(b, node, axes);
    if (at < 0) return HD_ERROR_INTERNAL;
    if (b->counting) return HD_OK;
    step = as_type(b, step, hd_dtype_compute[g->nodes[node].dtype]);
    return hd_kernel_store(b->k, at, step) < 0 ? HD_ERROR_MEMORY : HD_OK;
}

/* What other kernels made of numbers is nothing here. */
static void forget_inputs(build *b, uint32_t node) {
    for (int k = 0; k < b->l->g->nodes[node].input_count; ++k) {
        const uint32_t source = b->l->f->source[hd_node_inputs(b->l->g, node)[k]];
        b->l->value[source] = -1;
        if (b->l->f->recompute[source] > 0) forget_inputs(b, source);
    }
}

static hd_error build_members(build *b, bool counting) {
    b->counting = counting;
    const uint32_t *members = b->l->f->members + b->group->first;
    for (uint32_t i = 0; i < b->group->count; ++i) forget_inputs(b, members[i]);
    for (uint32_t i = 0; i < b->group->count; ++i) HD_TRY(build_member(b, members[i]));
    return HD_OK;
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */
/* True when every buffer's last point of the inner axis is followed by its first at the next one of the outer axis. */
static bool walks_on(const build *b, const loops *o, int outer, int64_t size, int axis) {
    for (int i = 0; i < b->access_count; ++i)
        if (b->accesses[i].node != HD_TILE_BUFFER && o->stride[i][outer] != b->accesses[i].stride[axis] * size)
            return false;
    for (int i = 0; i < b->walk_count; ++i)
        if (o->walk[i][outer] != b->walks[i].stride[axis] * size) return false;
    return true;
}

/* An axis of one point is no loop, but for the rows and the columns of a product. */
static bool is_loop(const build *b, const loops *o, int axis) {
    if (b->group->space.size[axis] != 1) return true;
    const bool no_columns = o->rows >= 0 && o->rows == o->count - 1;
    return b->row_axis >= 0 && (axis == b->row_axis || (axis == b->group->space.rank - 1 && no_columns));
}

/* The axes of one kind (kept or reduced) of the space, joined where possible. Rows and columns of a product stay
 * apart. */
static void add_loops(build *b, loops *o, bool reduced) {
    const int begin = o->count, rank = b->group->space.rank;
    bool alone = false; /* the last loop is to stay what it is */
    for (int axis = 0; axis < rank; ++axis) {
        const int64_t size = b->group->space.size[axis];
        if (b->group->reduced[axis] != reduced || !is_loop(b, o, axis)) continue;
        if (o->count > begin && !alone && !b->indexed[axis] && o->rows != o->count - 1 &&
            walks_on(b, o, o->count - 1, size, axis)) {
            o->size[o->count - 1] *= size;
            for (int i = 0; i < b->access_count; ++i) o->stride[i][o->count - 1] = b->accesses[i].stride[axis];
            for (int i = 0; i < b->walk_count; ++i) o->walk[i][o->count - 1] = b->walks[i].stride[axis];
            if (axis == b->row_axis) o->rows = o->count - 1;
            continue;
        }
        o->size[o->count] = size;
        for (int i = 0; i < b->access_count; ++i) o->stride[i][o->count] = b->accesses[i].stride[axis];
        for (int i = 0; i < b->walk_count; ++i) o->walk[i][o->count] = b->walks[i].stride[axis];
        if (axis == b->row_axis) o->rows = o->count;
        b->axis_of[axis] = o->count++;
        alone = b->indexed[axis];
    }
    if (o->count == begin && (reduced ? b->group->reduces : true)) { /* a single point is a loop of one */
        o->size[o->count] = 1;
        for (int i = 0; i < b->access_count; ++i) o->stride[i][o->count] = 0;
        o->count++;
    }
}

static bool is_walked(const loops *o, int buffer) {
    for (int a = o->kept; a < o->count; ++a)
        if (o->stride[buffer][a] != 0 && o->size[a] > 1) return true;
    return false;
}

/* The axis along which most buffers lie in memory. Where the reduced axis is long enough for lanes, only those count
 * that are read or written at each of its points: of what there is one of for each row (a channel's scale) there may be
 * many, which are hardly ever read. */
static int choose_lanes(const build *b, const loops *o) {
    if (o->kept == o->count) return o->count - 1;
    const bool is_long = o->size[o->count - 1] >= b->l->f->machine->target.vector_bytes / 4;
    int kept = 0, reduced = 0;
    for (int i = 0; i < b->access_count; ++i) {
        if (is_long && !is_walked(o, i)) continue;
        kept += o->stride[i][o->kept - 1] == 1 && o->size[o->kept - 1] > 1;
        reduced += o->stride[i][o->count - 1] == 1 && o->size[o->count - 1] > 1;
    }
    for (int i = 0; i < b->walk_count; ++i) { /* lanes that are neighbours share what a draw costs */
        kept += o->walk[i][o->kept - 1] == 1 && o->size[o->kept - 1] > 1 ? 2 : 0;
        reduced += o->walk[i][o->count - 1] == 1 && o->size[o->count - 1] > 1 ? 2 : 0;
    }
    return kept > reduced ? o->kept - 1 : o->count - 1;
}

static void find_loops(build *b, loops *o) {
    memset(o, 0, sizeof *o);
    o->rows = -1;
    for (int i = 0; i < HD_MAX_RANK; ++i) b->axis_of[i] = -1;
    add_loops(b, o, false);
    o->kept = o->count;
    add_loops(b, o, true);
    o->lanes = choose_lanes(b, o);
}

static hd_error add_buffers(build *b, const loops *o) {
    for (int i = 0; i < b->access_count; ++i) {
        uint8_t strides[HD_KERNEL_AXES];
        for (int a = 0; a < o->count; ++a) /* away from the lanes a stride of 1 is as good as any other */
            strides[a] = o->stride[i][a] == 0                    ? HD_STRIDE_ZERO
                         : o->stride[i][a] == 1 && a == o->lanes ? HD_STRIDE_ONE
                                                                 : HD_STRIDE_ANY;
        if (hd_kernel_add_buffer(b->k, (hd_dtype)b->accesses[i].dtype, b->accesses[i].written, strides) < 0)
            return HD_ERROR_INTERNAL;
    }
    return HD_OK;
}

static hd_error bind(const build *b, const loops *o, hd_native *n) {
    const hd_kernel *k = &n->shape;
    const int count = hd_geometry_slot(k) + 1;
    n->geometry = hd_array_resize(NULL, (size_t)count * sizeof *n->geometry);
    n->numbers = hd_array_resize(NULL, ((size_t)b->number_count + 1) * sizeof *n->numbers);
    if (n->geometry == NULL || n->numbers == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a kernel");
    for (int a = 0; a < o->count; ++a) {
        n->geometry[a] = o->size[a];
        n->geometry[hd_geometry_base(k, a)] = 0;
        for (int i = 0; i < b->access_count; ++i) n->geometry[hd_geometry_stride(k, i, a)] = o->stride[i][a];
    }
    memcpy(n->numbers, b->numbers, (size_t)b->number_count * sizeof *n->numbers);
    n->geometry[hd_geometry_slot(k)] = 0;
    n->operations = 0;
    for (int i = 0; i < k->count; ++i) n->operations += hd_step_cost(&k->steps[i]);
    return HD_OK;
}

void hd_native_release(hd_native *n) {
    hd_kernel_release(&n->shape);
    hd_array_release(n->geometry);
    hd_array_release(n->numbers);
    memset(n, 0, sizeof *n);
}

static hd_dtype product_dtype(const build *b) {
    for (int i = 0; i < b->access_count; ++i)
        if (b->accesses[i].node == HD_TILE_BUFFER) return (hd_dtype)b->accesses[i].dtype;
    return HD_F32;
}

/* The axis of the rows of tiles: of a product's result, or of the first operand that it computes as it reads it; -1:
 * none. */
static int row_axis(const hd_lowering *l, const hd_group *group) {
    if (group->begins != HD_NO_GROUP) return group->space.rank - 2;
    for (uint32_t i = 0; group->kind == HD_GROUP_PRODUCT && i < group->count; ++i) {
        const uint32_t node = l->f->members[group->first + i];
        if (hd_node_is_product(l->f->machine, l->g, node, NULL)) return hd_product_row_axis(l->g, node);
    }
    return -1;
}

/* Short rows need no more lanes than they have points: several vectors at once would be mostly idle. */
static void narrow_lanes(build *b, const loops *o) {
    const int least = b->l->f->machine->target.vector_bytes / 4;
    hd_schedule *s = &b->k->schedule;
    if (s->form != HD_SCHEDULE_ROWS) return;
    while (s->width / 2 >= least && s->width / 2 >= o->size[o->lanes]) s->width /= 2;
}

hd_error hd_lower(hd_lowering *l, const hd_group *group, hd_lowered *out) {
    memset(out, 0, sizeof *out);
    build b = {.l = l, .group = group, .k = &out->native.shape, .row_axis = row_axis(l, group), .walk = -1, .out = out};
    loops o;
    out->seed = -1;
    HD_TRY(build_members(&b, true));
    find_loops(&b, &o);
    b.loops = &o;
    hd_kernel_init(b.k, o.count, o.kept);
    hd_error status = add_buffers(&b, &o);
    if (status == HD_OK) status = build_members(&b, false);
    if (status == HD_OK) status = hd_kernel_settle(b.k);
    if (status == HD_OK) status = hd_kernel_schedule(b.k, o.lanes, &l->f->machine->target);
    if (status == HD_OK) narrow_lanes(&b, &o);
    if (group->kind == HD_GROUP_PRODUCT) /* its tiles are narrow: none of them should be all rest */
        while (b.k->schedule.width > l->f->machine->tile_columns(product_dtype(&b))) b.k->schedule.width /= 2;
#ifndef NDEBUG
    if (status == HD_OK) status = hd_kernel_verify(b.k);
#endif
    if (status == HD_OK) status = bind(&b, &o, &out->native);
    for (int i = 0; i < b.access_count; ++i) out->nodes[i] = b.accesses[i].node;
    out->rows = o.rows;
    if (status != HD_OK) hd_native_release(&out->native);
    return status;
}
