/* Fused forms of composites: when they are taken, how they are called, and their gradients, which are the composites'
 * own where those are differentiated again. */
#include "ops/fused.h"

typedef char none; /* "no attributes", for sizeof below */
enum { X0 = HD_SAVE_INPUT0, X1 = HD_SAVE_INPUT1, X2 = HD_SAVE_INPUT2, Y1 = HD_SAVE_OUTPUT1 };
#define VJP(function, ...) .gradient = HD_GRADIENT_VJP, .vjp = hd_vjp_##function, .saves = {__VA_ARGS__}
#define NONE(why)          .gradient = HD_GRADIENT_NONE, .reason = why
const hd_op hd_fused[HD_FUSED_COUNT] = {
#define FUSED(row_name, row_family, least, most, row_outputs, row_attributes, gradient, row_work)                      \
    [HD_FUSED_##row_name -                                                                                             \
        HD_OP_COUNT] = {.name = #row_name,                                                                             \
                        .id = HD_FUSED_##row_name,                                                                     \
                        .family = HD_FAMILY_##row_family,                                                              \
                        .min_inputs = least,                                                                           \
                        .max_inputs = most,                                                                            \
                        .outputs = row_outputs,                                                                        \
                        .attribute_bytes = sizeof(row_attributes) == 1 ? 0 : sizeof(row_attributes),                   \
                        .types = HD_TYPES_FLOATS,                                                                      \
                        .fails = HD_FAILS_MEMORY,                                                                      \
                        .work = hd_work_##row_work,                                                                    \
                        gradient},
#include "ops/fused.def"
};

static bool is_here(const hd_tensor *t) { return t == NULL || !hd_storage_is_away(t->storage); }

bool hd_may_fuse(const hd_thread *thread, const hd_tensor *x, const hd_tensor *y) {
    return !thread->executor->captures && x != NULL && (x->dtype == HD_F32 || x->dtype == HD_F64) && is_here(x) &&
           is_here(y);
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */
/* Whether all are numbers of classes. */
static bool are_classes(hd_thread *thread, hd_tensor *target, int64_t classes) {
    if (target->dtype != HD_I64 || !target->contiguous) return false;
    const int64_t *number = (const int64_t *)hd_tensor_bytes(thread, target, HD_READ);
    uint64_t beside = number == NULL;
    for (int64_t i = 0; i < target->count && number != NULL; ++i) beside |= (uint64_t)number[i] >= (uint64_t)classes;
    return beside == 0;
}

hd_tensor *hd_fused_cross_entropy(hd_thread *thread, hd_tensor *logits, hd_tensor *target) {
    if (!hd_may_fuse(thread, logits, target) || logits->count == 0) return NULL;
    const int64_t rows = logits->layout.shape.size[0], classes = logits->layout.shape.size[1];
    if (!are_classes(thread, target, classes)) return NULL;
    const hd_shape losses = HD_SHAPE(rows), powers = HD_SHAPE(rows, classes + 1);
    hd_tensor *inputs[2] = {logits, target};
    hd_call call;
    hd_call_init(&call, hd_fused_op(HD_FUSED_cross_entropy), inputs, 2, (hd_dtype)logits->dtype, &losses, NULL);
    if (thread->observer != NULL && hd_call_tracked(&call)) hd_call_add_output(&call, (hd_dtype)logits->dtype, &powers);
    return hd_execute(thread, &call);
}

/* What is there of the composite: e = e^(x - largest), whose slope is e, and the sums of its rows. */
static void cross_entropy_by_ops(const hd_vjp_call *v) {
    const int64_t classes = v->shapes[0].size[1];
    hd_tensor *powers = v->second_output, *to_x = NULL;
    hd_tensor *e = hd_narrow(powers, 1, 0, classes), *sum = hd_narrow(powers, 1, classes, 1);
    if (v->gradient != NULL) {
        hd_tensor *g = hd_unsqueeze(v->gradient, 1),
                  *zeros = hd_full_beside(g, v->shapes[0], (hd_dtype)v->dtypes[0], 0);
        hd_tensor *picked = hd_scatter(zeros, 1, hd_unsqueeze(v->inputs[1], 1), hd_neg(g), HD_SCATTER_ADD);
        to_x = hd_add(picked, hd_mul(hd_div(g, sum), e));
    }
    if (v->second_gradient != NULL) {
        hd_tensor *g = v->second_gradient;
        hd_tensor *slope = hd_add(hd_narrow(g, 1, 0, classes), hd_narrow(g, 1, classes, 1));
        hd_tensor *through = hd_mul(slope, e);
        to_x = to_x == NULL ? through : hd_add(to_x, through);
    }
    v->results[0] = to_x;
}

void hd_vjp_fused_cross_entropy(hd_thread *thread, const hd_vjp_call *v) {
    if (thread->observer != NULL || v->second_gradient != NULL || !hd_may_fuse(thread, v->gradient, v->inputs[1])) {
        cross_entropy_by_ops(v);
        return;
    }
    hd_tensor *inputs[3] = {v->gradient, v->inputs[1], v->second_output};
    hd_call call;
    hd_call_init(&call, hd_fused_op(HD_FUSED_cross_entropy_gradient), inputs, 3, (hd_dtype)v->dtypes[0], &v->shapes[0],
                 NULL);
    v->results[0] = hd_execute(thread, &call);
}

/* ---- between two elements ---------------------------------------------------------------------------------------- */
hd_tensor *hd_fused_interpolate(hd_thread *thread, hd_tensor *x, int axis, hd_tensor *index, hd_tensor *part) {
    if (x == NULL || index == NULL || part == NULL) return NULL;
    hd_shape shape = x->layout.shape;
    shape.size[axis] = index->count;
    const hd_axis_attributes attributes = {axis};
    hd_tensor *inputs[3] = {x, index, part};
    hd_call call;
    hd_call_init(&call, hd_fused_op(HD_FUSED_interpolate), inputs, 3, (hd_dtype)x->dtype, &shape, &attributes);
    return hd_execute(thread, &call);
}

/* Each of the two elements gets its share. */
void hd_vjp_fused_interpolate(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const int axis = ((const hd_axis_attributes *)v->attributes)->axis;
    const hd_shape *from = &v->shapes[0];
    hd_tensor *lower = v->inputs[1], *part = v->inputs[2];
    hd_tensor *upper = hd_clamp_max(hd_add_scalar(lower, 1), (double)(from->size[axis] - 1));
    hd_shape along = {.rank = from->rank - axis, .size = {part->count, 1, 1, 1, 1, 1, 1, 1}};
    part = hd_reshape(part, along);
    hd_tensor *zeros = hd_full_beside(v->gradient, *from, (hd_dtype)v->dtypes[0], 0);
    hd_tensor *to_lower = hd_index_add(zeros, axis, lower, hd_mul(v->gradient, hd_rsub_scalar(part, 1)));
    v->results[0] = hd_add(to_lower, hd_index_add(zeros, axis, upper, hd_mul(v->gradient, part)));
}
