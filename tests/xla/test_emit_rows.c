/* Every elementwise row in every dtype, and every derivative, as StableHLO text run by a plugin, against O0. */
#include "agree.h"

#include "core/memory.h"
#include "core/thread.h"
#include "ops/row_ir.h"
#include "ops/row_uses.h"

enum { N = 257 };
static const double numbers[3] = {1, 3, 2};

static uint64_t random_state = 1;
static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* Numbers of all sizes, and special ones; `allowed`: integers that a guard lets pass; `moderate`: none whose products
 * with others are denormal, which the plugin computes as 0. */
static hd_tensor *values(hd_dtype dtype, bool allowed, bool moderate) {
    static const double special[] = {0,      -0.0,  1,    -1,    0.5,      2,         3,      -3,
                                     6,      1e-30, 1e30, -1e30, INFINITY, -INFINITY, NAN,    0x1.8p-126,
                                     -80.25, 88.5,  1e-5, -1e-5, 1e5,      0x1p31,    -0x1p31};
    char bytes[N * 8];
    for (int i = 0; i < N; ++i) {
        double v = (double)(int64_t)(random_bits() >> 11) * 0x1p-50 - 4;
        if (i % 3 == 0) v = special[random_bits() % (sizeof special / sizeof *special)];
        if (!hd_dtype_is_float(dtype) && i % 4 == 1) v *= 0x1p60;
        if (moderate && fabs(v) > 0 && isfinite(v)) v = copysign(fmin(fmax(fabs(v), 1e-5), 20), v);
        if (dtype == HD_BOOL) v = (double)(random_bits() & 1);
        if (allowed) v = (double)(1 + random_bits() % 5);
        hd_element_from_f64(bytes + (size_t)i * hd_dtype_size(dtype), dtype, v);
    }
    return hd_from_data(bytes, HD_SHAPE(N), dtype);
}

/* Within rounding of each element; of those that cancel, within rounding of what they are made of. */
static void compare(hd_tensor *got, hd_tensor *expected, hd_tensor *const *terms, int count, double units,
                    const char *what) {
    const hd_dtype dtype = hd_tensor_dtype(expected);
    const char *p = hd_data(got, dtype), *q = hd_data(expected, dtype);
    const size_t bytes = hd_dtype_size(dtype);
    int failures = 0;
    for (int i = 0; i < N; ++i) {
        const double a = hd_element_to_f64(p + (size_t)i * bytes, dtype),
                     b = hd_element_to_f64(q + (size_t)i * bytes, dtype);
        if (memcmp(p + (size_t)i * bytes, q + (size_t)i * bytes, bytes) == 0 || a == b || (a != a && b != b)) continue;
        if (a == 0 && fabs(b) < (dtype == HD_F64 ? 0x1p-1022 : 0x1p-126))
            continue; /* the plugin computes without denormals */
        double size = fmax(fabs(b), dtype == HD_F64 ? 0x1p-1022 : 0x1p-126);
        for (int k = 0; k < count; ++k) {
            const hd_dtype of = hd_tensor_dtype(terms[k]);
            const double term =
                fabs(hd_element_to_f64((const char *)hd_data(terms[k], of) + (size_t)i * hd_dtype_size(of), of));
            if (isfinite(term)) size = fmax(size, term);
        }
        if (fabs(a - b) <= units * unit_of(dtype) * size) continue;
        char at[128] = "";
        for (int k = 0; k < 3 && terms[k] != NULL; ++k) {
            const hd_dtype of = hd_tensor_dtype(terms[k]);
            snprintf(at + strlen(at), sizeof at - strlen(at), " %.9g",
                     hd_element_to_f64((const char *)hd_data(terms[k], of) + (size_t)i * hd_dtype_size(of), of));
        }
        if (failures++ < 3) print_error("%s in %s, of%s: XLA %.17g, O0 %.17g\n", what, hd_dtype_name(dtype), at, a, b);
    }
    if (failures > 0) fail_msg("%s in %s: %d of %d differ", what, hd_dtype_name(dtype), failures, N);
}

typedef struct table {
    hd_graph *g;
    uint32_t in[5], count;
    hd_tensor *values[5];
    struct {
        int id, derivative;
    } rows[MOST_RESULTS];
} table;

static void begin(table *t, hd_dtype dtype, bool allowed, bool chooses, bool moderate) {
    static const char *const names[5] = {"a", "b", "c", "g", "y"};
    const hd_shape shape = HD_SHAPE(N);
    *t = (table){.g = hd_graph_new(hd_thread_self(), "rows")};
    for (int i = 0; i < 5; ++i) {
        const hd_dtype of = chooses && i == 0 ? HD_BOOL : dtype;
        t->values[i] = values(of, allowed && i == 1, moderate);
        t->in[i] = hd_graph_add_input(t->g, names[i], of, &shape);
    }
}

static void add(table *t, int id, int derivative, hd_dtype dtype) {
    static const unsigned bits[5] = {HD_SAVE_INPUT0, HD_SAVE_INPUT1, HD_SAVE_INPUT2, HD_USES_GRADIENT, HD_SAVE_OUTPUT};
    const unsigned uses = derivative > 0 ? hd_row_uses((hd_op_id)id, derivative - 1) : 0;
    const hd_shape shape = HD_SHAPE(N);
    uint32_t inputs[5] = {t->in[0], t->in[1], t->in[2]};
    int count = hd_rows[id].operands;
    if (derivative > 0) {
        count = __builtin_popcount(uses & (HD_SAVE_ANY | HD_USES_GRADIENT));
        for (int i = 0; i < 5; ++i)
            if (uses & bits[i]) inputs[hd_uses_place(uses, bits[i])] = t->in[i];
    }
    char name[64];
    snprintf(name, sizeof name, "%s%d", hd_ops[id].name, derivative);
    hd_graph_add_output(t->g, name,
                        hd_graph_add(t->g, (uint16_t)id, derivative, inputs, count,
                                     hd_rows[id].gives_bool ? HD_BOOL : dtype, &shape, numbers));
    t->rows[t->count].id = id;
    t->rows[t->count++].derivative = derivative;
}

static void agree(table *t) {
    hd_thread *thread = hd_thread_self();
    hd_tensor *results[MOST_RESULTS];
    assert_ok();
    if (t->count > 0) {
        hd_script *s = hd_script_over(thread, t->g, false);
        static const char *const names[5] = {"a", "b", "c", "g", "y"};
        for (int i = 0; i < 5; ++i) hd_script_set_input(s, names[i], t->values[i]);
        text_results(s, false, results, "rows");
        hd_script_set_optimization_level(s, HD_O0);
        hd_outputs *o = hd_script_run(s);
        if (o == NULL) fail_msg("%s", hd_error_message());
        for (uint32_t i = 0; i < t->count; ++i) {
            const int id = t->rows[i].id, derivative = t->rows[i].derivative;
            const bool plain = derivative > 0 || hd_rows[id].gives_bool || hd_rows[id].chooses;
            const double units = derivative > 0 ? 4096 : 2 * fmax(1, fabs((double)hd_rows[id].ulp));
            compare(results[i], hd_outputs_at(o, i), t->values, plain ? 0 : hd_rows[id].operands, units,
                    hd_outputs_name(o, i));
        }
    }
    hd_graph_release(thread, t->g);
}

static void rows_in(hd_dtype dtype) {
    const hd_compute type = (hd_compute)hd_dtype_compute[dtype];
    for (int part = 0; part < 3; ++part) { /* plain rows, those with a guard, those that choose */
        HD_SCOPE;
        table t;
        begin(&t, dtype, part == 1, part == 2, false);
        for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
            const int of = hd_rows[id].chooses                                           ? 2
                           : hd_rows[id].guard != HD_GUARD_NONE && type < HD_COMPUTE_F32 ? 1
                                                                                         : 0;
            if (of == part && hd_row_takes((hd_op_id)id, type)) add(&t, id, 0, dtype);
        }
        agree(&t);
    }
}

static void rows_of_floats(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    rows_in(HD_F32);
    rows_in(HD_F64);
}
static void rows_of_small_floats(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    static const hd_dtype small[] = {HD_F16, HD_BF16, HD_F8E4M3, HD_F8E5M2};
    for (uint64_t i = sample_first(2); i < 4; i += sample_step(2)) rows_in(small[i]);
}
static void rows_of_integers(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    for (int dtype = HD_BOOL; dtype <= (int)HD_I64; ++dtype)
        if (sampled((uint64_t)dtype, 3)) rows_in((hd_dtype)dtype);
}

static void derivatives(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    for (int wide = 0; wide < 2; ++wide)
        for (int part = 0; part < 2; ++part) {
            HD_SCOPE;
            table t;
            const hd_dtype dtype = wide ? HD_F64 : HD_F32;
            begin(&t, dtype, false, part == 1, true);
            for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
                for (int k = 0; k < hd_rows[id].operands; ++k) {
                    const unsigned uses = hd_row_uses((hd_op_id)id, k);
                    if (hd_rows[id].chooses != (part == 1) || (uses & HD_USES_WORK) == 0) continue;
                    if (__builtin_popcount(uses & (HD_SAVE_ANY | HD_USES_GRADIENT)) > 3) continue; /* not fused */
                    if ((uses & HD_USES_GRADIENT) == 0) continue;
                    add(&t, id, k + 1, dtype);
                }
            agree(&t);
        }
}

RUN(test(rows_of_floats), test(rows_of_small_floats), test(rows_of_integers), test(derivatives))
