/* Elementwise rows and their derivatives: the IR of their sentences; and, of the few that compute something far smaller
 * than their result on the way, in an order in which it is no denormal: the CPU plugin computes without those. */
#include "ops/op.h"
#include "ops/row_ir.h"
#include "ops/row_uses.h"
#include "xla/build.h"

#include <math.h>

/* An input of a row, in the type and over the shape of the row. A number is one there already. */
static hd_ssa row_input(hd_hlo *e, uint32_t node, int k, hd_dtype dtype, const hd_shape *shape) {
    const uint32_t in = hd_node_inputs(e->g, node)[k];
    const hd_node *n = &e->g->nodes[in];
    if (n->op == HD_OP_full && n->dtype == (uint8_t)dtype)
        return hd_hlo_number(e, dtype, shape, *(const double *)hd_node_attributes(e->g, in));
    return hd_hlo_broadcast(e, hd_hlo_cast(e, hd_hlo_node(e, in), dtype), shape);
}

static void check_guard(hd_hlo *e, uint32_t node, hd_ssa b) {
    const bool zero = hd_rows[e->g->nodes[node].op].guard == HD_GUARD_ZERO;
    if (!zero && !hd_dtype_is_signed(b.dtype)) return;
    const hd_ssa bad = hd_hlo_compare(e, zero ? "EQ" : "LT", b, hd_hlo_integer(e, b.dtype, &b.shape, 0));
    hd_hlo_check_that(e, HD_HLO_CHECK_ROW, node, 0, bad, (hd_ssa){.id = HD_NO_NODE});
}

/* ---- remainders --------------------------------------------------------------------------------------------------
 * What a division leaves may be far smaller than what is divided, and whether it is 0 decides the result. Those of f32
 * are computed in f64, which has no denormals there. Those of f64 are scaled up first. */
static bool divides(hd_op_id id) {
    return id == HD_OP_rem || id == HD_OP_mod || id == HD_OP_trunc_divide || id == HD_OP_floor_divide;
}

static hd_compute computed_in(hd_op_id id, hd_compute type) {
    return divides(id) && type == HD_COMPUTE_F32 ? HD_COMPUTE_F64 : type;
}

static hd_ssa f64_number(hd_hlo *e, const hd_shape *shape, double v) { return hd_hlo_number(e, HD_F64, shape, v); }
static hd_ssa smaller_than(hd_hlo *e, hd_ssa x, double bound) {
    return hd_hlo_compare(e, "LT", hd_hlo_unary(e, "abs", x), f64_number(e, &x.shape, bound));
}

/* Both times 2^400, where that is no overflow; gives 2^-400 there, else 1. Of a huge dividend that leaves something
 * tiny, multiples of the divisor are taken off first: a has no digits that small, so what stays is no denormal. */
static hd_ssa scale_up(hd_hlo *e, hd_ssa *a, hd_ssa *b, bool reduces) {
    const hd_shape *shape = &a->shape;
    if (reduces) {
        const hd_ssa huge = hd_hlo_both(e, hd_hlo_not(e, smaller_than(e, *a, 0x1p512)), smaller_than(e, *b, 0x1p-512));
        const hd_ssa rest = hd_hlo_binary(e, "remainder", *a, hd_hlo_multiply(e, *b, f64_number(e, shape, 0x1p500)));
        *a = hd_hlo_select(e, huge, rest, *a);
    }
    const hd_ssa fits = hd_hlo_both(e, smaller_than(e, *a, 0x1p512), smaller_than(e, *b, 0x1p512)),
                 one = f64_number(e, shape, 1), up = hd_hlo_select(e, fits, f64_number(e, shape, 0x1p400), one);
    *a = hd_hlo_multiply(e, *a, up);
    *b = hd_hlo_multiply(e, *b, up);
    return hd_hlo_select(e, fits, f64_number(e, shape, 0x1p-400), one);
}

static hd_ssa remainder_row(hd_hlo *e, const hd_node *n, const hd_ir *ir, hd_ssa *inputs, const hd_ssa *numbers,
                            const hd_shape *shape) {
    const unsigned both = HD_SAVE_INPUT0 | HD_SAVE_INPUT1;
    const bool leaves = n->derivative == 0 && (n->op == HD_OP_rem || n->op == HD_OP_mod);
    if (n->dtype != HD_F64 || (n->derivative != 0 && (hd_row_uses((hd_op_id)n->op, n->derivative - 1) & both) != both))
        return hd_hlo_sentence(e, ir, ir->result, inputs, numbers, shape);
    const hd_ssa down = scale_up(e, &inputs[0], &inputs[1], leaves);
    const hd_ssa value = hd_hlo_sentence(e, ir, ir->result, inputs, numbers, shape);
    return leaves ? hd_hlo_multiply(e, value, down) : value;
}

/* ---- next to 0 --------------------------------------------------------------------------------------------------- */
/* celu(x) is x next to 0, where x / alpha may be a denormal. */
static hd_ssa next_to_zero(hd_hlo *e, hd_ssa x, hd_ssa value, double alpha) {
    const hd_ssa bound = hd_hlo_number(e, x.dtype, &x.shape, fabs(alpha) * (x.dtype == HD_F32 ? 0x1p-30 : 0x1p-60));
    return hd_hlo_select(e, hd_hlo_compare(e, "LT", hd_hlo_unary(e, "abs", x), bound), x, value);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static hd_ssa row_value(hd_hlo *e, uint32_t node, const hd_ir *ir, hd_ssa *inputs, const hd_ssa *numbers,
                        const hd_shape *shape) {
    const hd_node *n = &e->g->nodes[node];
    const bool is_float = hd_dtype_is_float((hd_dtype)n->dtype);
    if (is_float && divides((hd_op_id)n->op)) return remainder_row(e, n, ir, inputs, numbers, shape);
    const hd_ssa value = hd_hlo_sentence(e, ir, ir->result, inputs, numbers, shape);
    if (n->op != HD_OP_celu || n->derivative != 0) return value;
    return next_to_zero(e, inputs[0], value, *(const double *)hd_node_attributes(e->g, node));
}

hd_ssa hd_hlo_emit_row(hd_hlo *e, uint32_t node) {
    const hd_node *n = &e->g->nodes[node];
    const hd_op_id id = (hd_op_id)n->op;
    const hd_shape shape = hd_node_shape(e->g, node);
    const hd_dtype compute = (hd_dtype)(n->derivative != 0 ? n->dtype : n->compute);
    const hd_compute own = (hd_compute)hd_dtype_compute[compute], type = computed_in(id, own);
    const unsigned uses = n->derivative != 0 ? hd_row_uses(id, n->derivative - 1) : 0;
    hd_ssa inputs[5] = {{0}}, numbers[3] = {{0}};
    for (int k = 0; k < (n->derivative != 0 ? HD_ROW_VARIABLES : n->input_count); ++k) {
        if (n->derivative != 0 && (uses & hd_row_variables[k].bit) == 0) continue;
        const hd_dtype as = hd_rows[id].chooses && k == 0 ? HD_BOOL : (hd_dtype)hd_compute_dtype[type];
        if (n->derivative == 0)
            inputs[k] = row_input(e, node, k, as, &shape);
        else
            inputs[hd_row_variables[k].place] =
                row_input(e, node, hd_uses_place(uses, hd_row_variables[k].bit), as, &shape);
    }
    const double *values = hd_node_attributes(e->g, node);
    for (int i = 0; i < hd_rows[id].numbers; ++i)
        numbers[i] = hd_hlo_number(e, (hd_dtype)hd_compute_dtype[type], &shape, values[i]);
    if (n->derivative == 0 && hd_rows[id].guard != HD_GUARD_NONE && type < HD_COMPUTE_F32)
        check_guard(e, node, inputs[1]);
    const hd_ir *ir = hd_row_irs_get(&e->rows, id, n->derivative, type);
    if (ir == NULL) hd_hlo_fail(e, e->thread->error_code);
    if (ir == NULL) return inputs[0];
    const hd_ssa value = row_value(e, node, ir, inputs, numbers, &shape);
    return hd_hlo_cast(e, type == own ? value : hd_hlo_convert(e, value, (hd_dtype)hd_compute_dtype[own]),
                       (hd_dtype)n->dtype);
}
