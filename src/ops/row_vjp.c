/* The vjp of all elementwise rows: the derivative sentence runs as one fused kernel, which a builder records as one
 * node, and is read as tensor ops where it will itself be differentiated or uses more than three tensors. */
#include "ops/row_uses.h"

#include <math.h>

/* ---- fused ------------------------------------------------------------------------------------------------------- */
static hd_tensor *run_derivative(hd_thread *thread, hd_op_id id, int operand, hd_tensor *const *variables,
                                 hd_dtype compute, hd_dtype dtype, const hd_shape *shape, const void *numbers) {
    const unsigned uses = hd_row_uses(id, operand);
    hd_tensor *inputs[5];
    int count = 0;
    for (int k = 0; k < 5; ++k)
        if (uses & (1u << k)) inputs[count++] = variables[k];
    hd_call call;
    hd_call_init(&call, &hd_derivatives[id][operand], inputs, count, dtype, shape, numbers);
    call.compute = compute;
    return hd_execute(thread, &call);
}

/* The one word that is no op: noted on a tape it says that there is no further derivative. */
static hd_tensor *digamma_derivative(hd_tensor *x) {
    hd_thread *thread = hd_thread_self();
    if (x == NULL || thread->error_code != HD_OK) return NULL;
    hd_tensor *one = hd_number((hd_dtype)x->dtype, 1);
    if (one == NULL) return NULL;
    hd_tensor *const variables[5] = {x, NULL, NULL, NULL, one};
    return run_derivative(thread, HD_OP_digamma, 0, variables, (hd_dtype)x->dtype, (hd_dtype)x->dtype, &x->layout.shape,
                          NULL);
}

/* ---- as tensor ops ----------------------------------------------------------------------------------------------- */
#include "ops/words_tensor.h"

typedef hd_tensor *(*sentence)(hd_tensor *const *v, hd_tensor *const *p_, hd_dtype dtype);

#define SENTENCE(label, numbers, value)                                                                                \
    static hd_tensor *label(hd_tensor *const *v, hd_tensor *const *p_, hd_dtype dtype) {                               \
        hd_tensor *const x = v[0], *const a = v[0], *const b = v[1], *const c = v[2], *const y = v[3],                 \
                         *const g = v[4];                                                                              \
        (void)x, (void)a, (void)b, (void)c, (void)y, (void)g, (void)p_, (void)dtype;                                   \
        numbers return (value);                                                                                        \
    }
#define CHOICE(label, value)                                                                                           \
    static hd_tensor *label(hd_tensor *const *v, hd_tensor *const *p_, hd_dtype dtype) {                               \
        hd_tensor *const c = v[0], *const g = v[4];                                                                    \
        (void)p_;                                                                                                      \
        return (value);                                                                                                \
    }
#define NUMBER(p, k)                                                                                                   \
    hd_tensor *const p = p_[k];                                                                                        \
    (void)p;
#define UNARY(name, t, u, d, r, value, dx)            SENTENCE(d0_##name, , dx)
#define UNARY1(name, t, u, d, r, p, value, dx)        SENTENCE(d0_##name, NUMBER(p, 0), dx)
#define UNARY2(name, t, u, d, r, p, q, value, dx)     SENTENCE(d0_##name, NUMBER(p, 0) NUMBER(q, 1), dx)
#define UNARY3(name, t, u, d, r, p, q, s, value, dx)  SENTENCE(d0_##name, NUMBER(p, 0) NUMBER(q, 1) NUMBER(s, 2), dx)
#define BINARY(name, t, u, d, r, value, da, db)       SENTENCE(d0_##name, , da) SENTENCE(d1_##name, , db)
#define SPLIT(name, u, d, r, guard, ints, fl, da, db) SENTENCE(d0_##name, , da) SENTENCE(d1_##name, , db)
#define CHOOSE(name, t, d, r, value, da, db)          CHOICE(d1_##name, da) CHOICE(d2_##name, db)
#define TERNARY(name, t, u, d, r, value, da, db, dc)                                                                   \
    SENTENCE(d0_##name, , da) SENTENCE(d1_##name, , db) SENTENCE(d2_##name, , dc)
#define TERNARY1(name, t, u, d, r, p, value, da, db, dc)                                                               \
    SENTENCE(d0_##name, NUMBER(p, 0), da) SENTENCE(d1_##name, NUMBER(p, 0), db) SENTENCE(d2_##name, NUMBER(p, 0), dc)
#include "ops/elementwise.def"

static const sentence sentences[HD_OP_ELEMENTWISE_COUNT][3] = {
#define ONE(name)           [HD_OP_##name] = {d0_##name},
#define TWO(name)           [HD_OP_##name] = {d0_##name, d1_##name},
#define THREE(name)         [HD_OP_##name] = {d0_##name, d1_##name, d2_##name},
#define UNARY(name, ...)    ONE(name)
#define UNARY1(name, ...)   ONE(name)
#define UNARY2(name, ...)   ONE(name)
#define UNARY3(name, ...)   ONE(name)
#define BINARY(name, ...)   TWO(name)
#define SPLIT(name, ...)    TWO(name)
#define CHOOSE(name, ...)   [HD_OP_##name] = {NULL, d1_##name, d2_##name},
#define TERNARY(name, ...)  THREE(name)
#define TERNARY1(name, ...) THREE(name)
#include "ops/elementwise.def"
};

static hd_tensor *read_derivative(hd_op_id id, int operand, hd_tensor *const *variables, hd_dtype compute,
                                  const double *numbers) {
    const hd_dtype dtype =
        hd_dtype_is_small_float(compute) ? HD_F32 : compute; /* small floats round once, at the end */
    hd_tensor *v[5], *p[3] = {NULL};
    for (int k = 0; k < 5; ++k)
        v[k] = variables[k] != NULL && hd_dtype_is_float((hd_dtype)variables[k]->dtype) ? hd_cast(variables[k], dtype)
                                                                                        : variables[k];
    for (int k = 0; k < hd_rows[id].numbers; ++k) p[k] = hd_number(dtype, numbers[k]);
    return hd_cast(sentences[id][operand](v, p, dtype), compute);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */
void hd_vjp_elementwise(hd_thread *thread, const hd_vjp_call *v) {
    const hd_op_id id = (hd_op_id)v->op->id;
    hd_tensor *variables[5] = {NULL, NULL, NULL, v->output, v->gradient};
    for (int i = 0; i < v->input_count; ++i) variables[i] = v->inputs[i];
    const hd_shape *shape = &v->gradient->layout.shape;
    for (int i = 0; i < v->input_count; ++i) {
        if (!v->wanted[i]) continue;
        const unsigned uses = hd_row_uses(id, i);
        if (uses == 0) continue;
        hd_tensor *d = v->gradient;
        if (uses != HD_USES_GRADIENT) {
            const bool fused =
                thread->observer == NULL && __builtin_popcount(uses & (HD_SAVE_ANY | HD_USES_GRADIENT)) <= 3;
            d = fused ? run_derivative(thread, id, i, variables, v->compute, v->compute, shape, v->attributes)
                      : read_derivative(id, i, variables, v->compute, v->attributes);
        }
        if (d == NULL) return;
        if (!hd_shape_equal(d->layout.shape, v->shapes[i])) {
            if (!hd_shape_equal(d->layout.shape, *shape))
                d = hd_broadcast_to(d, *shape); /* a sentence without g's shape */
            d = hd_gradient_to_shape(d, &v->shapes[i]);
        }
        if (d != NULL && d->dtype != v->dtypes[i]) d = hd_cast(d, (hd_dtype)v->dtypes[i]);
        v->results[i] = d;
    }
}
