/* What the tests of the families share: a model of tensors in plain doubles, and NumPy's results from a file.
 *
 * A model is a tensor and, beside it, the values it must have, kept up by index arithmetic of its own. random_model
 * makes one over any layout: permuted, stepped, reversed, broadcast, cut out of something larger. */
#ifndef HD_TESTS_OPS_FAMILIES_H
#define HD_TESTS_OPS_FAMILIES_H

#include "support.h"

#include <math.h>

enum { MODEL_MOST = 4096 };

typedef struct model {
    hd_tensor *t;
    hd_shape shape;
    int64_t stride[HD_MAX_RANK], offset; /* into base */
    int64_t count;
    double base[MODEL_MOST], v[MODEL_MOST]; /* v: the values in row-major order */
} model;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static uint64_t random_state = 1;
static inline uint64_t random_bits(void) { /* splitmix64 */
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static inline int64_t random_below(int64_t n) { return (int64_t)(random_bits() % (uint64_t)n); }

/* A value that every dtype of its kind holds exactly: f8 has three bits. */
static inline double random_value(hd_dtype dtype) {
    if (dtype == HD_BOOL) return (double)random_below(2);
    if (hd_dtype_is_float(dtype)) return (double)(random_below(15) - 7) * 0.5;
    return (double)(random_below(8) - (hd_dtype_promote(dtype, HD_I8) == dtype ? 4 : 0));
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
static inline void coordinates_of(const hd_shape *shape, int64_t index, int64_t *at) {
    for (int i = shape->rank - 1; i >= 0; --i) {
        at[i] = index % shape->size[i];
        index /= shape->size[i];
    }
}
static inline int64_t index_of(const hd_shape *shape, const int64_t *at) {
    int64_t index = 0;
    for (int i = 0; i < shape->rank; ++i) index = index * shape->size[i] + at[i];
    return index;
}
static inline hd_shape random_shape(int rank, int64_t most) {
    hd_shape shape = {.rank = rank};
    for (int i = 0; i < rank; ++i) shape.size[i] = random_below(8) == 0 ? 1 : 1 + random_below(most);
    return shape;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */
/* Reads v anew after the layout has changed. */
static inline void model_read(model *m) {
    m->count = hd_shape_count(m->shape);
    assert_in_range(m->count, 0, MODEL_MOST);
    for (int64_t i = 0; i < m->count; ++i) {
        int64_t at[HD_MAX_RANK], place = m->offset;
        coordinates_of(&m->shape, i, at);
        for (int k = 0; k < m->shape.rank; ++k) place += at[k] * m->stride[k];
        m->v[i] = m->base[place];
    }
}

/* A contiguous tensor with these values, which dtype must hold. */
static inline void model_of(model *m, hd_shape shape, hd_dtype dtype, const double *values) {
    *m = (model){.shape = shape};
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; stride *= shape.size[i--]) m->stride[i] = stride;
    for (int64_t i = 0; i < hd_shape_count(shape); ++i) m->base[i] = values != NULL ? values[i] : random_value(dtype);
    m->t = hd_cast(hd_from_data(m->base, shape, HD_F64), dtype);
    model_read(m);
}

static inline void model_permute(model *m) {
    hd_axes order = {.count = m->shape.rank};
    for (int i = 0; i < order.count; ++i) order.axis[i] = i;
    for (int i = order.count - 1; i > 0; --i) {
        const int j = (int)random_below(i + 1), swap = order.axis[i];
        order.axis[i] = order.axis[j];
        order.axis[j] = swap;
    }
    const model old = *m;
    for (int i = 0; i < order.count; ++i) {
        m->shape.size[i] = old.shape.size[order.axis[i]];
        m->stride[i] = old.stride[order.axis[i]];
    }
    m->t = hd_permute(m->t, order);
}

static inline void model_slice(model *m, int axis) { /* every second, or all from the back */
    const int64_t size = m->shape.size[axis], step = random_below(2) ? 2 : -1;
    m->t = hd_slice(m->t, axis, HD_END, HD_END, step);
    if (step < 0 && size > 0) m->offset += (size - 1) * m->stride[axis];
    m->shape.size[axis] = step == 2 ? (size + 1) / 2 : size;
    m->stride[axis] *= step;
}

static inline void model_cut(model *m, int axis) { /* without the first */
    if (m->shape.size[axis] < 2) return;
    m->t = hd_narrow(m->t, axis, 1, m->shape.size[axis] - 1);
    m->offset += m->stride[axis];
    m->shape.size[axis]--;
}

static inline void model_broadcast(model *m, int axis, int64_t size) {
    if (m->shape.size[axis] != 1) return;
    m->shape.size[axis] = size;
    m->stride[axis] = 0;
    m->t = hd_broadcast_to(m->t, m->shape);
}

static inline void random_model(model *m, hd_shape shape, hd_dtype dtype) {
    model_of(m, shape, dtype, NULL);
    if (shape.rank > 0 && random_below(4) > 0) {
        if (random_below(2)) model_permute(m);
        for (int i = 0; i < shape.rank; ++i) {
            if (random_below(3) == 0) model_slice(m, i);
            if (random_below(3) == 0) model_cut(m, i);
            if (random_below(2) == 0) model_broadcast(m, i, 2 + random_below(2));
        }
    }
    model_read(m);
    assert_ok();
    assert_true(hd_shape_equal(hd_tensor_shape(m->t), m->shape));
}

/* t has this dtype, shape and values, up to a relative error. */
static inline void assert_tensor_within(const hd_tensor *t, hd_dtype dtype, const hd_shape *shape, const double *v,
                                        double relative, const char *file, int line) {
    if (!hd_ok()) {
        print_error("%s:%d: %s\n", file, line, hd_error_message());
        _fail(file, line);
    }
    double *got = malloc((size_t)hd_tensor_count(t) * sizeof *got + 1);
    if (hd_tensor_dtype(t) != dtype || !hd_shape_equal(hd_tensor_shape(t), *shape) ||
        !hd_to_array(t, got, HD_F64, (size_t)hd_tensor_count(t))) {
        print_error("%s:%d: rank %d, %lld elements of %s; expected rank %d, %lld of %s\n", file, line,
                    hd_tensor_rank(t), (long long)hd_tensor_count(t), hd_dtype_name(hd_tensor_dtype(t)), shape->rank,
                    (long long)hd_shape_count(*shape), hd_dtype_name(dtype));
        _fail(file, line);
    }
    for (int64_t i = 0; i < hd_shape_count(*shape); ++i)
        if (got[i] != v[i] && !(got[i] != got[i] && v[i] != v[i]) && !(fabs(got[i] - v[i]) <= relative * fabs(v[i]))) {
            print_error("%s:%d: element %lld is %.17g, expected %.17g\n", file, line, (long long)i, got[i], v[i]);
            _fail(file, line);
        }
    free(got);
}
#define assert_tensor_close(t, dtype, shape, v, relative)                                                              \
    assert_tensor_within(t, dtype, shape, v, relative, __FILE__, __LINE__)
#define assert_tensor(t, dtype, shape, v) assert_tensor_within(t, dtype, shape, v, 0, __FILE__, __LINE__)
#define assert_model(m, dtype)            assert_tensor((m)->t, dtype, &(m)->shape, (m)->v)

/* ---- NumPy's results: tests/golden/families.txt --------------------------------------------------------------------
 * A line is   name  arguments  ->  rank sizes values   with arguments and values as numbers ("none" is HD_END). */
typedef struct golden {
    FILE *file;
    const char *name;
    int arguments, seen;
    double argument[16];
    hd_shape shape;
    double v[MODEL_MOST];
} golden;

static inline golden golden_open(const char *name) {
    golden g = {.file = fopen(HODU_TEST_DATA "/../golden/families.txt", "r"), .name = name};
    assert_non_null(g.file);
    return g;
}

static inline double golden_number(const char *word) {
    return strcmp(word, "none") == 0 ? (double)HD_END : strtod(word, NULL);
}

/* The next line of this name; false, and closed, after the last. There must be one. */
static inline bool golden_next(golden *g) {
    static char line[1 << 16];
    while (fgets(line, sizeof line, g->file) != NULL) {
        char *rest = NULL, *word = strtok_r(line, " \n", &rest);
        if (word == NULL || strcmp(word, g->name) != 0) continue;
        for (g->arguments = 0; (word = strtok_r(NULL, " \n", &rest)) != NULL && strcmp(word, "->") != 0;)
            g->argument[g->arguments++] = golden_number(word);
        g->shape = (hd_shape){.rank = atoi(strtok_r(NULL, " \n", &rest))};
        for (int i = 0; i < g->shape.rank; ++i) g->shape.size[i] = atoll(strtok_r(NULL, " \n", &rest));
        int64_t n = 0;
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL) g->v[n++] = golden_number(word);
        assert_int_equal(n, hd_shape_count(g->shape));
        g->seen++;
        return true;
    }
    assert_int_not_equal(g->seen, 0);
    fclose(g->file);
    return false;
}

/* What the script calls fixture(shape): exact in f32, with ties, of both signs. */
static inline hd_tensor *fixture(hd_shape shape, hd_dtype dtype) {
    double v[MODEL_MOST];
    for (int64_t i = 0; i < hd_shape_count(shape); ++i) v[i] = (double)((i * 37 + 11) % 101 - 50) / 8;
    return hd_cast(hd_from_data(v, shape, HD_F64), dtype);
}

#endif
