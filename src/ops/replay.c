/* Calling an op from its id and attributes: what a loaded, parsed or rewritten graph is checked and built with. Every
 * call goes through the public function, so that whatever a file says is checked as if a program had said it. */
#include "ops/row_uses.h"

static hd_axes axes_of(const bool *flags, int rank) {
    hd_axes axes = {.count = 0};
    for (int i = 0; i < rank; ++i)
        if (flags[i]) axes.axis[axes.count++] = i;
    return axes;
}

/* A reduction over no axes would mean all of them. */
static hd_error check_reduced(const hd_reduce_attributes *a, int rank) {
    for (int i = rank; i < HD_MAX_RANK; ++i)
        if (a->reduced[i]) return hd_fail(HD_ERROR_AXIS, "axis %d of a tensor of rank %d", i, rank);
    return rank == 0 || axes_of(a->reduced, rank).count > 0 ? HD_OK
                                                            : hd_fail(HD_ERROR_AXIS, "a reduction over no axis");
}

static hd_tensor *reduce(hd_op_id id, hd_tensor *x, const hd_reduce_attributes *a) {
    HD_TRY_OR(check_reduced(a, x->layout.shape.rank), NULL);
    const hd_axes axes = axes_of(a->reduced, x->layout.shape.rank);
    const hd_reduce_opts *opts = HD_OPTS(hd_reduce_opts, .keep_dims = a->keep_dims);
    if (id == HD_OP_sum) return hd_sum(x, axes, opts);
    if (id == HD_OP_prod) return hd_prod(x, axes, opts);
    if (id == HD_OP_max) return hd_max(x, axes, opts);
    if (id == HD_OP_min) return hd_min(x, axes, opts);
    if (id == HD_OP_any) return hd_any(x, axes, opts);
    if (id == HD_OP_all) return hd_all(x, axes, opts);
    if (axes.count != 1) {
        hd_fail(HD_ERROR_AXIS, "%d axes; there must be one", axes.count);
        return NULL;
    }
    return id == HD_OP_argmax ? hd_argmax(x, axes.axis[0], opts) : hd_argmin(x, axes.axis[0], opts);
}

static hd_tensor *view(hd_op_id id, hd_tensor *x, const void *attributes) {
    const hd_slice_attributes *s = attributes;
    const hd_diagonal_attributes *d = attributes;
    const hd_shape *shape = attributes;
    if (id == HD_OP_reshape) return hd_reshape(x, *shape);
    if (id == HD_OP_permute) return hd_permute(x, *(const hd_axes *)attributes);
    if (id == HD_OP_broadcast_to) return hd_broadcast_to(x, *shape);
    if (id == HD_OP_diagonal) return hd_diagonal(x, d->offset, d->axis1, d->axis2);
    if (id == HD_OP_unfold) return hd_unfold(x, s->axis, s->count, s->step);
    if (id == HD_OP_bitcast) return hd_bitcast(x, *(const hd_dtype *)attributes);
    if (id == HD_OP_detach) return hd_detach(x);
    if (id == HD_OP_as_strided) {
        const hd_layout *layout = attributes;
        hd_shape strides = {.rank = layout->shape.rank};
        for (int i = 0; i < layout->shape.rank && i < HD_MAX_RANK; ++i) strides.size[i] = layout->stride[i];
        return hd_as_strided(x, layout->shape, strides, layout->offset);
    }
    int axis;
    HD_TRY_OR(hd_axis_resolve(s->axis, x->layout.shape.rank, &axis), NULL);
    const int64_t size = x->layout.shape.size[axis], count = s->count;
    int64_t last = 0;
    if (s->step == 0 || count < 0 ||
        (count > 0 &&
         (__builtin_mul_overflow(count - 1, s->step, &last) || __builtin_add_overflow(last, s->start, &last) ||
          s->start < 0 || s->start >= size || last < 0 || last >= size))) {
        hd_fail(HD_ERROR_INDEX, "%lld elements from %lld in steps of %lld do not lie in axis %d of %s",
                (long long)count, (long long)s->start, (long long)s->step, axis, HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    if (count == 0) return hd_narrow(x, axis, 0, 0);
    const int64_t stop = last + (s->step > 0 ? 1 : -1);
    return hd_slice(x, axis, s->start, stop < 0 ? HD_END : stop, s->step);
}

static hd_tensor *derivative(hd_thread *thread, hd_op_id id, int operand, const void *attributes,
                             hd_tensor *const *inputs, int count, hd_dtype dtype) {
    const unsigned uses = operand < hd_rows[id].operands ? hd_row_uses(id, operand) : 0;
    if (uses == 0 || __builtin_popcount(uses & (HD_SAVE_ANY | HD_USES_GRADIENT)) != count || count > 3 ||
        !hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_VALUE, "no derivative of %s by operand %d takes %d tensors of %s", hd_ops[id].name, operand,
                count, hd_dtype_name(dtype));
        return NULL;
    }
    hd_shape shape = inputs[0]->layout.shape;
    for (int i = 0; i < count; ++i) {
        const bool condition = hd_rows[id].chooses && i == 0;
        if (condition && inputs[i]->dtype != HD_BOOL) {
            hd_fail(HD_ERROR_DTYPE, "input %d of the derivative of %s is %s, not bool", i, hd_ops[id].name,
                    hd_dtype_name((hd_dtype)inputs[i]->dtype));
            return NULL;
        }
        HD_TRY_OR(hd_shape_broadcast(&shape, &inputs[i]->layout.shape, &shape), NULL);
    }
    hd_call call;
    hd_call_init(&call, id, inputs, count, dtype, &shape, attributes);
    call.op = &hd_derivatives[id][operand];
    call.compute = dtype;
    return hd_execute(thread, &call);
}

static hd_tensor *draw(hd_op_id id, hd_tensor *const *inputs, const hd_random_attributes *a, hd_dtype dtype,
                       const hd_shape *shape) {
    if (id == HD_OP_uniform) return hd_uniform(*shape, dtype, a->a, a->b);
    if (id == HD_OP_normal) return hd_normal(*shape, dtype, a->a, a->b);
    if (id == HD_OP_randint) return hd_randint(*shape, dtype, a->low, a->high);
    const int64_t count = shape->rank > 0 ? shape->size[shape->rank - 1] : -1;
    return id == HD_OP_permutation ? hd_permutation(count) : hd_multinomial(inputs[0], count, a->with_replacement);
}

static hd_tensor *normalise(hd_op_id id, hd_tensor *const *in, int count, const hd_norm_attributes *a) {
    hd_tensor *second = count > 1 ? in[1] : NULL, *third = count > 2 ? in[2] : NULL;
    if (id == HD_OP_layer_norm) return hd_layer_norm(in[0], a->axes, second, third, a->eps);
    if (id == HD_OP_layer_norm_gradient) return hd_layer_norm_gradient(in[0], in[1], a->axes, third, a->eps);
    if (id == HD_OP_layer_norm_weight_gradient) return hd_layer_norm_weight_gradient(in[0], in[1], a->axes, a->eps);
    if (a->axes != 1) {
        hd_fail(HD_ERROR_VALUE, "rms_norm over %d axes; it is over one", a->axes);
        return NULL;
    }
    if (id == HD_OP_rms_norm) return hd_rms_norm(in[0], second, a->eps);
    if (id == HD_OP_rms_norm_gradient) return hd_rms_norm_gradient(in[0], in[1], third, a->eps);
    return hd_rms_norm_weight_gradient(in[0], in[1], a->eps);
}

static hd_tensor *convolve(hd_op_id id, hd_tensor *const *in, int count, const hd_conv_attributes *a) {
    const int axes = a->stride.rank;
    hd_conv_opts opts = HD_DEFAULTS(hd_conv_opts);
    opts.groups = a->groups;
    if (axes < 1 || axes > 3 || a->dilation.rank != axes || a->padding.rank != 2 * axes || a->groups == 0 ||
        a->extra.rank != (id == HD_OP_conv ? 0 : axes)) {
        hd_fail(HD_ERROR_VALUE, "the attributes of a convolution with %d spatial axes do not fit each other", axes);
        return NULL;
    }
    for (int i = 0; i < axes; ++i) {
        if (a->stride.size[i] == 0 || a->dilation.size[i] == 0) {
            hd_fail(HD_ERROR_VALUE, "a stride or dilation of 0");
            return NULL;
        }
        opts.stride[i] = a->stride.size[i];
        opts.dilation[i] = a->dilation.size[i];
        opts.padding[i] = (hd_padding){a->padding.size[2 * i], a->padding.size[2 * i + 1]};
        if (id == HD_OP_conv_transpose) opts.output_padding[i] = a->extra.size[i];
    }
    if (id == HD_OP_conv_weight_gradient) return hd_conv_weight_gradient(in[0], in[1], a->extra, &opts);
    hd_tensor *bias = count > 2 ? in[2] : NULL;
    return id == HD_OP_conv ? hd_conv(in[0], in[1], bias, &opts) : hd_conv_transpose(in[0], in[1], bias, &opts);
}

static hd_tensor *pool(hd_op_id id, hd_tensor *const *in, const hd_pool_attributes *a, const hd_shape *shape) {
    const int axes = a->window.rank, others = a->adaptive ? 0 : axes;
    hd_pool_opts opts = HD_DEFAULTS(hd_pool_opts);
    opts.adaptive = a->adaptive;
    opts.ceil_mode = a->ceil_mode;
    opts.exclude_padding = a->exclude_padding;
    bool fits = axes >= 1 && axes <= 3 && a->stride.rank == others && a->dilation.rank == others &&
                a->padding.rank == 2 * others;
    for (int i = 0; i < others && fits; ++i) {
        fits = a->stride.size[i] != 0 && a->dilation.size[i] != 0;
        opts.stride[i] = a->stride.size[i];
        opts.dilation[i] = a->dilation.size[i];
        opts.padding[i] = (hd_padding){a->padding.size[2 * i], a->padding.size[2 * i + 1]};
    }
    if (!fits) {
        hd_fail(HD_ERROR_VALUE, "the attributes of pooling on %d axes do not fit each other", axes);
        return NULL;
    }
    if (id == HD_OP_max_pool) return hd_max_pool(in[0], a->window, &opts);
    if (id == HD_OP_avg_pool) return hd_avg_pool(in[0], a->window, &opts);
    if (id == HD_OP_max_pool_pick) return hd_max_pool_pick(in[0], in[1], a->window, &opts);
    if (id == HD_OP_max_pool_gradient) return hd_max_pool_gradient(in[0], in[1], a->window, &opts);
    return hd_avg_pool_gradient(in[0], *shape, a->window, &opts);
}

static hd_tensor *attend(hd_op_id id, hd_tensor *const *in, int count, const hd_attention_attributes *a) {
    if (id == HD_OP_attention) return hd_attention(in[0], in[1], in[2], count > 3 ? in[3] : NULL, a->causal, a->scale);
    return hd_attention_gradient(in[0], in[1], in[2], in[3], count > 4 ? in[4] : NULL, a->causal, a->scale);
}

/* Products that say a wider dtype than that of their operands are products of casts; turned operands are transposed. */
static hd_tensor *contract(hd_op_id id, hd_tensor *const *in, int count, const hd_matmul_attributes *turns,
                           hd_dtype dtype) {
    hd_dtype given = hd_dtype_promote((hd_dtype)in[0]->dtype, (hd_dtype)in[1]->dtype);
    if (count > 2) given = hd_dtype_promote(given, (hd_dtype)in[2]->dtype);
    hd_tensor *operand[2] = {in[0], in[1]};
    for (int i = 0; i < 2 && operand[i] != NULL; ++i) {
        if (given != dtype && hd_product_widens((hd_dtype)in[i]->dtype, dtype)) operand[i] = hd_cast(in[i], dtype);
        if (id == HD_OP_matmul && turns != NULL && (i == 0 ? turns->turn_a : turns->turn_b))
            operand[i] = operand[i] == NULL ? NULL : hd_t(operand[i]);
    }
    if (operand[0] == NULL || operand[1] == NULL) return NULL;
    return id == HD_OP_matmul ? hd_matmul(operand[0], operand[1])
                              : hd_affine(operand[0], operand[1], count > 2 ? in[2] : NULL);
}

hd_tensor *hd_replay(hd_thread *thread, hd_op_id id, int derived, const void *attributes, hd_tensor *const *inputs,
                     int count, hd_dtype dtype, const hd_shape *shape) {
    const hd_op *op = derived == 0 ? &hd_ops[id] : &hd_derivatives[id][derived - 1];
    if (count < op->min_inputs || count > op->max_inputs) {
        hd_fail(HD_ERROR_VALUE, "%d inputs for %s", count, op->name);
        return NULL;
    }
    for (int i = 0; i < count; ++i) HD_TRY_OR(hd_tensor_check(inputs[i], "input"), NULL);
    if (derived != 0) return derivative(thread, id, derived - 1, attributes, inputs, count, dtype);
    const hd_range_attributes *range = attributes;
    const hd_scatter_attributes *scatter = attributes;
    const hd_pad_attributes *padding = attributes;
    switch ((hd_family)op->family) {
    case HD_FAMILY_ELEMENTWISE: return hd_run_row(thread, id, inputs, attributes);
    case HD_FAMILY_RANDOM: return draw(id, inputs, attributes, dtype, shape);
    case HD_FAMILY_CAST: return hd_cast(inputs[0], *(const hd_dtype *)attributes);
    case HD_FAMILY_REDUCE:
    case HD_FAMILY_ARGREDUCE: return reduce(id, inputs[0], attributes);
    case HD_FAMILY_VIEW: return view(id, inputs[0], attributes);
    case HD_FAMILY_CREATE:
        if (id == HD_OP_empty) return hd_empty(*shape, dtype);
        if (id == HD_OP_full) return hd_full(*shape, dtype, *(const double *)attributes);
        if (shape->rank == 1 && range->has_last) return hd_linspace(range->start, range->last, shape->size[0], dtype);
        return hd_range(range->start, range->step, shape->rank == 1 ? shape->size[0] : -1, dtype);
    case HD_FAMILY_MOVE:
        if (id == HD_OP_concat) return hd_concat(inputs, count, *(const int *)attributes);
        if (id == HD_OP_pad) return hd_pad(inputs[0], padding->padding, inputs[0]->layout.shape.rank, padding->value);
        return hd_copy(inputs[0]);
    case HD_FAMILY_INDEX:
        if (id == HD_OP_gather) return hd_gather(inputs[0], *(const int *)attributes, inputs[1]);
        if (id == HD_OP_index_select) return hd_index_select(inputs[0], *(const int *)attributes, inputs[1]);
        return hd_scatter(inputs[0], scatter->axis, inputs[1], inputs[2], scatter->mode);
    case HD_FAMILY_CONTRACT: return contract(id, inputs, count, attributes, dtype);
    case HD_FAMILY_NORM: return normalise(id, inputs, count, attributes);
    case HD_FAMILY_CONV: return convolve(id, inputs, count, attributes);
    case HD_FAMILY_POOL: return pool(id, inputs, attributes, shape);
    case HD_FAMILY_ATTENTION: return attend(id, inputs, count, attributes);
    case HD_FAMILY_DERIVATIVE:
    case HD_FAMILY_COUNT: break;
    }
    hd_fail(HD_ERROR_INTERNAL, "no way to call %s", op->name);
    return NULL;
}
