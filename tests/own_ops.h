/* Ops of the tests' own: registered when they are first asked for, by name. */
#ifndef HD_TESTS_OWN_OPS_H
#define HD_TESTS_OWN_OPS_H

#include <stdio.h>
#include <string.h>

#include <hodu/hodu.h>

/* Element i of an array of f32 or f64. */
static inline double own_element(const hd_custom_array *a, int64_t i) {
    return a->dtype == HD_F32 ? (double)((const float *)a->data)[i] : ((const double *)a->data)[i];
}
static inline void own_set_element(hd_custom_array *a, int64_t i, double value) {
    if (a->dtype == HD_F32)
        ((float *)a->data)[i] = (float)value;
    else
        ((double *)a->data)[i] = value;
}
static inline const char *own_floats_alone(hd_custom_args *args) {
    args->error = HD_ERROR_DTYPE;
    for (int i = 0; i < args->input_count; ++i)
        if (args->inputs[i]->dtype != HD_F32 && args->inputs[i]->dtype != HD_F64) return "takes f32 and f64";
    return NULL;
}

/* ---- own.cube: k x^3; attributes: double k ---- */
static inline const char *own_cube_shapes(hd_custom_args *args) {
    if (args->attribute_bytes != sizeof(double)) return "its attributes are a double";
    return own_floats_alone(args);
}
static inline const char *own_cube_compute(hd_custom_args *args) {
    const double k = *(const double *)args->attributes;
    for (int64_t i = 0; i < args->inputs[0]->count; ++i) {
        const double x = own_element(args->inputs[0], i);
        own_set_element(args->outputs[0], i, k * x * x * x);
    }
    return NULL;
}
static inline const char *own_cube_vjp(hd_custom_vjp *v) {
    const double k = *(const double *)v->attributes;
    v->results[0] = hd_mul(v->gradients[0], hd_mul_scalar(hd_square(v->inputs[0]), 3 * k));
    return NULL;
}
static inline const char *own_cube_stablehlo(hd_custom_args *args) {
    const char *type = args->inputs[0]->dtype == HD_F32 ? "f32" : "f64";
    snprintf(args->text, args->text_capacity,
             "%%s = stablehlo.multiply %%a0, %%a0 : $0\n%%c = stablehlo.multiply %%s, %%a0 : $0\n"
             "%%k = stablehlo.constant dense<%.17e> : tensor<%s>\n"
             "%%w = stablehlo.broadcast_in_dim %%k, dims = [] : (tensor<%s>) -> $r0\n"
             "%%r0 = stablehlo.multiply %%w, %%c : $r0",
             *(const double *)args->attributes, type, type);
    return args->text;
}
static inline const char *own_cube(void) {
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = "own.cube";
    op.inputs = 1;
    op.shapes = own_cube_shapes;
    op.compute = own_cube_compute;
    op.vjp = own_cube_vjp;
    op.vjp_without_outputs = true;
    op.stablehlo = own_cube_stablehlo;
    hd_custom_register(&op);
    return op.name;
}
static inline hd_tensor *cubed(hd_tensor *x, double k) { return hd_custom(own_cube(), HD_TENSORS(x), &k, sizeof k); }

/* ---- own.both: a b, and a - b ---- */
static inline const char *own_both_shapes(hd_custom_args *args) {
    const hd_custom_array *a = args->inputs[0], *b = args->inputs[1];
    args->output_count = 2;
    if (!hd_shape_equal(a->shape, b->shape) || a->dtype != b->dtype) {
        args->error = HD_ERROR_SHAPE;
        return "a and b must be alike";
    }
    return own_floats_alone(args);
}
static inline const char *own_both_compute(hd_custom_args *args) {
    for (int64_t i = 0; i < args->inputs[0]->count; ++i) {
        const double a = own_element(args->inputs[0], i), b = own_element(args->inputs[1], i);
        own_set_element(args->outputs[0], i, a * b);
        own_set_element(args->outputs[1], i, a - b);
    }
    return NULL;
}
static inline const char *own_both_vjp(hd_custom_vjp *v) {
    hd_tensor *g = v->gradients[0], *h = v->gradients[1];
    for (int i = 0; i < 2; ++i) {
        hd_tensor *first = g == NULL ? NULL : hd_mul(g, v->inputs[1 - i]);
        hd_tensor *second = h == NULL || i == 0 ? h : hd_neg(h);
        v->results[i] = first == NULL ? second : second == NULL ? first : hd_add(first, second);
    }
    return NULL;
}
static inline const char *own_both_stablehlo(hd_custom_args *args) {
    (void)args;
    return "%r0 = stablehlo.multiply %a0, %a1 : $r0\n%r1 = stablehlo.subtract %a0, %a1 : $r1";
}
static inline const char *own_both(void) {
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = "own.both";
    op.inputs = 2;
    op.shapes = own_both_shapes;
    op.compute = own_both_compute;
    op.vjp = own_both_vjp;
    op.stablehlo = own_both_stablehlo;
    hd_custom_register(&op);
    return op.name;
}
static inline hd_tensors *both_ways(hd_tensor *a, hd_tensor *b) {
    return hd_custom_outputs(own_both(), HD_TENSORS(a, b), NULL, 0);
}

/* ---- own.same: x, of any dtype ---- */
static inline const char *own_same_compute(hd_custom_args *args) {
    memcpy(args->outputs[0]->data, args->inputs[0]->data,
           (size_t)args->inputs[0]->count * (size_t)hd_dtype_size(args->inputs[0]->dtype));
    return NULL;
}
static inline const char *own_same(void) {
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = "own.same";
    op.inputs = 1;
    op.compute = own_same_compute;
    hd_custom_register(&op);
    return op.name;
}

#endif
