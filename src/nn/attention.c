/* Heads of attention: making them of x. */
#include "nn/attention.h"
#include "ops/op.h"

/* ---- heads ------------------------------------------------------------------------------------------------------- */
hd_tensor *hd_heads_split(hd_tensor *x, int64_t count) {
    if (x == NULL) return NULL;
    const int rank = x->layout.shape.rank;
    hd_shape split = x->layout.shape;
    split.size[rank] = split.size[rank - 1] / count;
    split.size[rank - 1] = count;
    split.rank = rank + 1;
    return hd_transpose(hd_reshape(x, split), rank - 2, rank - 1);
}

hd_tensor *hd_heads_join(hd_tensor *y) {
    if (y == NULL) return NULL;
    const int rank = y->layout.shape.rank;
    hd_shape joined = y->layout.shape;
    joined.size[rank - 3] = y->layout.shape.size[rank - 2];
    joined.size[rank - 2] = y->layout.shape.size[rank - 3] * y->layout.shape.size[rank - 1];
    joined.rank = rank - 1;
    return hd_reshape(hd_transpose(y, rank - 3, rank - 2), joined);
}

hd_tensor *hd_heads_spread(const hd_heads *s, hd_tensor *x) {
    return s->heads == s->kv_heads ? x : hd_repeat_interleave(x, s->heads / s->kv_heads, -3);
}

hd_error hd_heads_check(const hd_tensor *x) {
    const int rank = x->layout.shape.rank;
    return rank >= 2 && rank < HD_MAX_RANK - 1
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "x %s; it must be [..., t, width] with 2 to %d axes",
                         HD_SHAPE_TEXT(x->layout.shape), HD_MAX_RANK - 2);
}

/* ---- projections ------------------------------------------------------------------------------------------------- */
/* Rows of a linear module that makes all three. */
static hd_tensor *project_part(const hd_module *in, hd_tensor *x, int64_t row, int64_t rows) {
    return hd_affine(x, hd_narrow(in->weight, 0, row, rows),
                     in->bias == NULL ? NULL : hd_narrow(in->bias, 0, row, rows));
}

hd_error hd_heads_project(hd_thread *thread, hd_module *m, hd_tensor *const given[3], hd_tensor *parts[3]) {
    const hd_heads *s = m->state;
    const int64_t narrow = s->width / s->heads * s->kv_heads;
    const int64_t row[3] = {0, s->width, s->width + narrow}, rows[3] = {s->width, narrow, narrow};
    static const char *const names[3] = {"q", "k", "v"};
    hd_module *in = hd_module_member(m, 0);
    for (int i = 0; i < 3; ++i) HD_TRY(hd_heads_check(given[i]));
    const bool of_one = s->packed && given[0] == given[1] && given[0] == given[2];
    hd_tensor *all = of_one ? hd_module_forward_as(thread, in, "in", given[0]) : NULL;
    for (int i = 0; i < 3 && hd_ok(); ++i) {
        parts[i] = of_one      ? hd_narrow(all, -1, row[i], rows[i])
                   : s->packed ? project_part(in, given[i], row[i], rows[i])
                               : hd_module_forward_as(thread, hd_module_member(m, i), names[i], given[i]);
        parts[i] = hd_heads_split(parts[i], i == 0 ? s->heads : s->kv_heads);
    }
    return thread->error_code;
}
