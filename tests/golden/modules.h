/* Golden cases of layers: what PyTorch's give, with their gradients, in a file that make_modules.py beside this one
 * wrote, and which says what is in it. A test defines ALL(G), a list of G(name, module): a function that makes the
 * layer of that name; and then includes this. */
#ifndef HD_TESTS_GOLDEN_MODULES_H
#define HD_TESTS_GOLDEN_MODULES_H

#include "builders.h"

#define MAKE(name, ...)                                                                                                \
    static hd_module *make_##name(void) { return __VA_ARGS__; }
ALL(MAKE)
typedef struct layer_row {
    const char *name;
    hd_module *(*make)(void);
} layer_row;
static const layer_row layer_rows[] = {
#define LAYER_ROW(name, ...) {#name, make_##name},
    ALL(LAYER_ROW)};
enum { LAYERS = sizeof layer_rows / sizeof layer_rows[0] };

/* ---- the file ---------------------------------------------------------------------------------------------------- */
enum { LONGEST = 1024, INPUTS = 6, OUTPUTS = 4, PARAMETERS = 40, INPUT_FIXTURE = 40, OUTPUT_FIXTURE = 60 };
typedef struct given {
    hd_dtype dtype; /* F64: with a gradient */
    hd_shape shape;
    int count;
    double v[LONGEST];
} given;
typedef struct layer_case {
    int row, inputs, outputs, parameters, gradients, buffers;
    bool training;
    given input[INPUTS], output[OUTPUTS], gradient[INPUTS + PARAMETERS], buffer[4];
    char parameter[PARAMETERS][64], buffer_name[4][64];
} layer_case;

static inline void read_numbers(given *to, char **rest, hd_dtype dtype, bool shaped) {
    *to = (given){.dtype = dtype};
    if (shaped) to->shape.rank = atoi(strtok_r(NULL, " \n", rest));
    for (int i = 0; i < to->shape.rank; ++i) to->shape.size[i] = atoll(strtok_r(NULL, " \n", rest));
    for (char *word; (word = strtok_r(NULL, " \n", rest)) != NULL;) {
        assert_in_range(to->count, 0, LONGEST - 1);
        to->v[to->count++] = strtod(word, NULL);
    }
}

static inline int layer_named(const char *name) {
    for (int i = 0; i < LAYERS; ++i)
        if (strcmp(layer_rows[i].name, name) == 0) return i;
    fail_msg("the golden file has a layer %s that the test has not", name);
    return -1;
}

static inline void read_line(layer_case *c, const char *word, char **rest) {
    if (strcmp(word, "param") == 0) {
        assert_in_range(c->parameters, 0, PARAMETERS - 1);
        snprintf(c->parameter[c->parameters++], sizeof c->parameter[0], "%s", strtok_r(NULL, " \n", rest));
    } else if (strcmp(word, "out") == 0) {
        assert_in_range(c->outputs, 0, OUTPUTS - 1);
        read_numbers(&c->output[c->outputs++], rest, HD_F64, true);
    } else if (strcmp(word, "grad") == 0) {
        assert_in_range(c->gradients, 0, INPUTS + PARAMETERS - 1);
        read_numbers(&c->gradient[c->gradients++], rest, HD_F64, false);
    } else if (strcmp(word, "buffer") == 0) {
        assert_in_range(c->buffers, 0, 3);
        snprintf(c->buffer_name[c->buffers], sizeof c->buffer_name[0], "%s", strtok_r(NULL, " \n", rest));
        read_numbers(&c->buffer[c->buffers++], rest, HD_F64, false);
    } else {
        assert_in_range(c->inputs, 0, INPUTS - 1);
        const hd_dtype dtype = strcmp(word, "i64") == 0 ? HD_I64 : strcmp(word, "bool") == 0 ? HD_BOOL : HD_F64;
        read_numbers(&c->input[c->inputs++], rest, dtype, true);
    }
}

/* The next case; false after the last. `line` holds what was read ahead. */
static inline bool next_layer(FILE *file, char *line, size_t capacity, layer_case *c) {
    char *rest = NULL;
    while (strncmp(line, "case ", 5) != 0)
        if (fgets(line, (int)capacity, file) == NULL) return false;
    strtok_r(line, " \n", &rest);
    *c = (layer_case){.row = layer_named(strtok_r(NULL, " \n", &rest))};
    c->training = atoi(strtok_r(NULL, " \n", &rest)) != 0;
    line[0] = '\0';
    while (fgets(line, (int)capacity, file) != NULL && strncmp(line, "case ", 5) != 0)
        read_line(c, strtok_r(line, " \n", &rest), &rest);
    return true;
}

/* ---- what both sides know ---------------------------------------------------------------------------------------- */
static inline hd_tensor *fixture_of(int which, hd_shape shape, hd_dtype dtype) {
    static double v[1 << 16];
    const int64_t count = hd_shape_count(shape);
    assert_in_range(count, 0, sizeof v / sizeof v[0]);
    for (int64_t i = 0; i < count; ++i) v[i] = (double)((i * 37 + 11 * which) % 101 - 50) / 64;
    return hd_cast(hd_from_data(v, shape, HD_F64), dtype);
}

/* The layer with the case's parameters; running variances are not below 0. */
static inline hd_module *layer_of(const layer_case *c, hd_dtype dtype) {
    const hd_dtype before = hd_default_dtype();
    hd_set_default_dtype(dtype);
    hd_module *m = layer_rows[c->row].make();
    hd_set_default_dtype(before);
    HD_NO_GRAD;
    for (int i = 0; i < c->parameters; ++i) {
        hd_tensor *t = hd_module_get(m, c->parameter[i]), *v = fixture_of(i, hd_tensor_shape(t), dtype);
        bool buffer = false;
        for (int b = 0; b < c->buffers; ++b) buffer = buffer || strcmp(c->buffer_name[b], c->parameter[i]) == 0;
        hd_assign(t, buffer ? hd_abs(v) : v);
    }
    c->training ? hd_module_train(m) : hd_module_eval(m);
    if (!hd_ok()) print_error("%s: ", layer_rows[c->row].name);
    assert_ok();
    return m;
}

static inline hd_tensor *input_of(const layer_case *c, int i, hd_dtype dtype) {
    const given *g = &c->input[i];
    if (g->dtype == HD_F64) return fixture_of(INPUT_FIXTURE + i, g->shape, dtype);
    return hd_cast(hd_from_data(g->v, g->shape, HD_F64), g->dtype);
}

/* ---- running it -------------------------------------------------------------------------------------------------- */
/* The outputs, then the gradients of the inputs that have one, by way of leaves, and of the parameters. */
static inline hd_tensors *outputs_and_gradients(const layer_case *c, hd_module *m, hd_tensor *const *inputs,
                                                hd_tensor *const *leaves, hd_dtype dtype) {
    hd_tensor *wanted[INPUTS + PARAMETERS], *loss = hd_zeros(HD_SHAPE(), dtype);
    int count = 0;
    for (int i = 0; i < c->inputs; ++i)
        if (c->input[i].dtype == HD_F64) wanted[count++] = leaves[i];
    for (int i = 0; i < c->parameters; ++i) {
        bool buffer = false;
        for (int b = 0; b < c->buffers; ++b) buffer = buffer || strcmp(c->buffer_name[b], c->parameter[i]) == 0;
        if (!buffer) wanted[count++] = hd_module_get(m, c->parameter[i]);
    }
    hd_tensors *y = hd_forward_all(m, hd_tensors_from(inputs, c->inputs));
    if (!hd_ok()) print_error("%s: ", layer_rows[c->row].name);
    assert_ok();
    assert_int_equal(hd_tensors_count(y), c->outputs);
    for (int i = 0; i < c->outputs; ++i) {
        hd_tensor *one = hd_tensors_get(y, i);
        assert_int_equal(hd_tensor_dtype(one), dtype);
        hd_tensor *seed = fixture_of(OUTPUT_FIXTURE + i, hd_tensor_shape(one), dtype);
        loss = hd_add(loss, hd_sum(hd_mul(one, seed), HD_AXES(), NULL));
    }
    assert_int_equal(count, c->gradients);
    if (count == 0) return y;
    return hd_tensors_join(y, hd_grad_of(loss, hd_tensors_from(wanted, count), NULL));
}

static inline int compare_one(const layer_case *c, const char *how, const char *what, int number, const hd_tensor *got,
                              const given *want, double tolerance) {
    HD_SCOPE;
    char why[256] = "";
    if (!hd_ok()) print_error("%s: ", layer_rows[c->row].name);
    assert_ok();
    hd_tensor *expected = hd_from_data(want->v, HD_SHAPE(want->count), HD_F64), *flat = hd_copy((hd_tensor *)got);
    if (hd_tensor_count(got) == want->count) flat = hd_flatten(flat);
    if (hd_allclose(flat, expected,
                    HD_OPTS(hd_allclose_opts, .relative = tolerance, .absolute = tolerance, .explain = why,
                            .explain_capacity = sizeof why)) &&
        (want->shape.rank == 0 || hd_shape_equal(hd_tensor_shape(got), want->shape)))
        return 0;
    print_error("%s, %s, %s: %s %d: %s\n", layer_rows[c->row].name, c->training ? "training" : "evaluation", how, what,
                number, why);
    return 1;
}

static inline int compare_list(const layer_case *c, const char *how, const hd_tensors *got, double tolerance) {
    int bad = 0;
    for (int i = 0; i < c->outputs; ++i)
        bad += compare_one(c, how, "output", i, hd_tensors_get(got, i), &c->output[i], tolerance);
    for (int i = 0; i < c->gradients; ++i)
        bad += compare_one(c, how, "gradient", i, hd_tensors_get(got, c->outputs + i), &c->gradient[i], tolerance);
    return bad;
}

static inline int compare_eagerly(const layer_case *c, hd_dtype dtype, double tolerance) {
    HD_SCOPE;
    hd_module *m = layer_of(c, dtype);
    if (dtype != HD_F64) m = hd_module_copy(m); /* a copy does the same */
    hd_tensor *inputs[INPUTS];
    for (int i = 0; i < c->inputs; ++i) {
        inputs[i] = input_of(c, i, dtype);
        if (c->input[i].dtype == HD_F64) hd_requires_grad(inputs[i]);
    }
    const char *how = dtype == HD_F64 ? "f64" : "f32";
    int bad = compare_list(c, how, outputs_and_gradients(c, m, inputs, inputs, dtype), tolerance);
    for (int i = 0; i < c->buffers; ++i)
        bad += compare_one(c, how, "buffer", i, hd_module_get(m, c->buffer_name[i]), &c->buffer[i], tolerance);
    hd_clear_tape();
    return bad;
}

/* Recorded, and compiled; what is added to an input has its gradient. */
static inline int compare_in_a_script(const layer_case *c, hd_dtype dtype, double tolerance) {
    HD_SCOPE;
    hd_module *m = layer_of(c, dtype);
    hd_tensor *inputs[INPUTS], *leaves[INPUTS];
    for (int i = 0; i < c->inputs; ++i) leaves[i] = hd_param(hd_zeros(c->input[i].shape, dtype));
    hd_builder *b = started("layer");
    hd_builder_add_state_of(b, m, NULL);
    char name[32];
    for (int i = 0; i < c->inputs; ++i) {
        snprintf(name, sizeof name, "input%d", i);
        const bool differentiable = c->input[i].dtype == HD_F64;
        inputs[i] = hd_input(name, c->input[i].shape, differentiable ? dtype : c->input[i].dtype);
        if (differentiable) inputs[i] = hd_add(inputs[i], leaves[i]);
    }
    hd_tensors *results = outputs_and_gradients(c, m, inputs, leaves, dtype), *got;
    const int count = c->outputs + c->gradients;
    for (int i = 0; i < count; ++i) {
        snprintf(name, sizeof name, "result%d", i);
        hd_builder_add_output(b, name, hd_tensors_get(results, i));
    }
    hd_script *s = built(b);
    for (int i = 0; i < c->inputs; ++i) {
        snprintf(name, sizeof name, "input%d", i);
        hd_script_set_input(s, name, input_of(c, i, dtype));
    }
    hd_outputs *outputs = hd_script_run(s);
    hd_tensor *all[OUTPUTS + INPUTS + PARAMETERS];
    for (int i = 0; i < count; ++i) all[i] = hd_outputs_at(outputs, i);
    got = hd_tensors_from(all, count);
    int bad = compare_list(c, "in a script", got, tolerance);
    for (int i = 0; i < c->buffers; ++i)
        bad +=
            compare_one(c, "in a script", "buffer", i, hd_script_state(s, c->buffer_name[i]), &c->buffer[i], tolerance);
    return bad;
}

/* Every case of the file, at once in f64 and f32, and in a script in f32 (one of the three where each kernel is
 * compiled); every layer of the test must have one. */
static inline void compare_all_layers(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static char line[1 << 16];
    static layer_case c;
    bool seen[LAYERS] = {false};
    int bad = 0;
    for (uint64_t at = 0; next_layer(file, line, sizeof line, &c); ++at) {
        seen[c.row] = true;
        if (when_compiled(at, 3)) bad += compare_eagerly(&c, HD_F64, 1e-9);
        if (when_compiled(at + 1, 3)) bad += compare_eagerly(&c, HD_F32, 1e-4);
        if (when_compiled(at + 2, 3)) bad += compare_in_a_script(&c, HD_F32, 1e-4);
    }
    fclose(file);
    for (int i = 0; i < LAYERS; ++i)
        if (!seen[i]) fail_msg("%s has no case in %s: run make golden", layer_rows[i].name, path);
    if (bad > 0) fail_msg("%d outputs, gradients or buffers differ", bad);
}

#endif
