/* .hoduscript files: what is saved is what is loaded, bit for bit; constants stay in the file until they are used; and
 * whatever the system refuses is an error that leaves things as they were. */
#include "files.h"

#include "core/memory.h"
#include "own_ops.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#if HD_HAS_FILES

/* ---- round trips ------------------------------------------------------------------------------------------------- */
static void set_inputs(hd_script *s) { /* ones and a few others, of every dtype and shape */
    const hd_graph *g = s->graph;
    for (uint32_t i = 0; i < g->input_count; ++i) {
        const hd_shape shape = hd_node_shape(g, g->inputs[i].node);
        const hd_dtype dtype = (hd_dtype)g->nodes[g->inputs[i].node].dtype;
        hd_tensor *numbers = hd_reshape(hd_range(1, 0.25, hd_shape_count(shape), HD_F64), shape);
        hd_script_set_input(s, hd_graph_string(g, g->inputs[i].name), hd_cast(numbers, dtype));
    }
    assert_ok();
}

static void assert_same_entry(hd_script_entry a, hd_script_entry b) {
    assert_string_equal(a.name, b.name);
    assert_true(hd_shape_equal(a.shape, b.shape));
    assert_int_equal(a.dtype, b.dtype);
}
/* What a loaded script says of itself is what the saved one says. */
static void assert_same_contents(const hd_script *a, const hd_script *b) {
    assert_int_equal(hd_script_input_count(a), hd_script_input_count(b));
    assert_int_equal(hd_script_output_count(a), hd_script_output_count(b));
    assert_int_equal(hd_script_state_count(a), hd_script_state_count(b));
    for (int64_t i = 0; i < hd_script_input_count(a); ++i)
        assert_same_entry(hd_script_input_at(a, i), hd_script_input_at(b, i));
    for (int64_t i = 0; i < hd_script_output_count(a); ++i)
        assert_same_entry(hd_script_output_at(a, i), hd_script_output_at(b, i));
    for (int64_t i = 0; i < hd_script_state_count(a); ++i)
        assert_same_entry(hd_script_state_at(a, i), hd_script_state_at(b, i));
}

/* Saves a script, loads it, and compares the two: graphs, files, and three runs at each level. */
static void check_round_trip(hd_script *s) {
    assert_ok();
    hd_script_save(s, in_folder("trip"));
    hd_script *read = hd_script_load(in_folder("trip")),
              *mapped = hd_script_load_with(in_folder("trip"), HD_OPTS(hd_script_load_opts, .map = true));
    assert_ok();
    assert_same_graphs(s->graph, read->graph);
    assert_same_graphs(s->graph, mapped->graph);
    assert_same_contents(s, read);
    char *ours = hd_graph_print(s->graph), *theirs = hd_graph_print(read->graph);
    assert_string_equal(ours, theirs);
    hd_array_release(ours);
    hd_array_release(theirs);
    hd_script_save(read, in_folder("again"));
    file_bytes a = read_bytes(in_folder("trip.hoduscript")), b = read_bytes(in_folder("again.hoduscript"));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.at, b.at, a.size);
    free(a.at);
    free(b.at);
    hd_script *scripts[3] = {hd_script_clone(s), read, mapped};
    for (int i = 0; i < 3; ++i) set_inputs(scripts[i]);
    static const hd_optimization_level levels[] = {HD_O0, HD_O1, HD_O2};
    for (int level = 0; level < 3; ++level) {
        for (int round = 0; round < 2; ++round) {
            hd_outputs *outputs[3];
            for (int i = 0; i < 3; ++i) {
                hd_script_set_optimization_level(scripts[i], levels[level]);
                hd_seed(42);
                outputs[i] = hd_script_run(scripts[i]);
            }
            assert_same_outputs(outputs[0], outputs[1]);
            assert_same_outputs(outputs[0], outputs[2]);
        }
    }
    for (uint32_t i = 0; i < s->graph->cell_count; ++i)
        for (int k = 1; k < 3; ++k)
            assert_memory_equal(hd_storage_bytes(hd_thread_self(), scripts[0]->cells[i], HD_READ),
                                hd_storage_bytes(hd_thread_self(), scripts[k]->cells[i], HD_READ),
                                scripts[0]->cells[i]->bytes);
}

static void small_scripts_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    check_round_trip(small_script());
}

/* Ends the builder, and compares what it recorded with what comes back from a file. */
static void check_recorded(hd_builder *b) {
    hd_builder_end(b);
    check_round_trip(hd_builder_build(b));
    assert_ok();
}

static hd_tensor *operand(const char *name, int id) {
    return hd_input(name, HD_SHAPE(2, 3), hd_ops[id].types == HD_TYPES_INTS ? HD_I32 : HD_F32);
}

static void every_elementwise_row_comes_back(void **state) {
    (void)state;
    hd_thread *thread = hd_thread_self();
    HD_SCOPE;
    hd_builder *b = started("rows");
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        const hd_row *row = &hd_rows[id];
        char names[3][64];
        hd_tensor *inputs[3];
        for (int k = 0; k < row->operands; ++k) {
            snprintf(names[k], sizeof names[k], "%s %d", hd_ops[id].name, k);
            inputs[k] = row->chooses && k == 0 ? hd_input(names[k], HD_SHAPE(2, 1), HD_BOOL) : operand(names[k], id);
        }
        thread->call = hd_ops[id].name;
        hd_builder_add_output(b, hd_ops[id].name,
                              hd_run_row(thread, (hd_op_id)id, inputs, (const double[3]){0.25, 0.75, 1.5}));
        assert_ok();
    }
    check_recorded(b);
}

static void derivatives_come_back(void **state) {
    (void)state;
    hd_thread *thread = hd_thread_self();
    HD_SCOPE;
    hd_builder *b = hd_builder_new("derivatives");
    hd_tensor *w[3];
    for (int k = 0; k < 3; ++k) w[k] = hd_param(HD_TENSOR_F32(HD_SHAPE(2, 2), 0.25f, 0.5f, 0.75f, 0.875f));
    hd_builder_start(b);
    hd_tensor *loss = hd_zeros(HD_SHAPE(), HD_F32);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        if (hd_ops[id].types == HD_TYPES_INTS || hd_rows[id].gives_bool || hd_rows[id].chooses) continue;
        thread->call = hd_ops[id].name;
        loss = hd_add(loss,
                      hd_sum(hd_run_row(thread, (hd_op_id)id, w, (const double[3]){0.25, 0.75, 1.5}), HD_AXES(), NULL));
    }
    hd_backward(loss);
    for (int k = 0; k < 3; ++k) hd_builder_add_output(b, (const char *[]){"a", "b", "c"}[k], hd_grad(w[k]));
    assert_ok();
    hd_script *s = built(b);
    uint32_t derivatives = 0;
    for (uint32_t i = 0; i < s->graph->node_count; ++i) derivatives += s->graph->nodes[i].derivative != 0;
    assert_true(derivatives > 50);
    check_round_trip(s);
}

static void every_attribute_comes_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("attributes");
    hd_tensor *index = HD_TENSOR_I64(HD_SHAPE(2, 3), 0, 1, 0, 1, 1, 0),
              *weights = hd_cast(HD_TENSOR_F32(HD_SHAPE(4), 1, 2, 3, 4), HD_F64);
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32), *cube = hd_input("cube", HD_SHAPE(4, 3, 4), HD_F64);
#define OUT(name, ...) hd_builder_add_output(b, name, __VA_ARGS__)
    OUT("full", hd_full(HD_SHAPE(3), HD_F16, -2.5));
    OUT("no full", hd_full(HD_SHAPE(0, 3), HD_U8, 1));
    OUT("empty", hd_empty(HD_SHAPE(2, 0), HD_F32));
    OUT("range", hd_arange(3, -2, -1.5, HD_F32));
    OUT("linspace", hd_linspace(-1, 1, 7, HD_F64));
    OUT("one of linspace", hd_linspace(-1, 1, 1, HD_F64));
    OUT("uniform", hd_uniform(HD_SHAPE(5), HD_F32, -3, 8));
    OUT("normal", hd_normal(HD_SHAPE(5), HD_BF16, 1, 2));
    OUT("randint", hd_randint(HD_SHAPE(6), HD_I16, -9, 300));
    OUT("permutation", hd_permutation(8));
    OUT("multinomial", hd_multinomial(weights, 5, true));
    OUT("cast", hd_cast(x, HD_I8));
    OUT("bitcast", hd_bitcast(x, HD_U32));
    OUT("sum", hd_sum(cube, HD_AXES(0, 2), NULL));
    OUT("prod", hd_prod(cube, HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true)));
    OUT("max", hd_max(cube, HD_AXES(), NULL));
    OUT("any", hd_any(hd_gt_scalar(cube, 3), HD_AXES(2), NULL));
    OUT("argmin", hd_argmin(cube, -1, HD_OPTS(hd_reduce_opts, .keep_dims = true)));
    OUT("reshape", hd_reshape(cube, HD_SHAPE(2, 2, 3, -1)));
    OUT("permute", hd_permute(cube, HD_AXES(2, 0, 1)));
    OUT("broadcast", hd_broadcast_to(x, HD_SHAPE(4, 2, 3)));
    OUT("slice", hd_slice(cube, 2, HD_END, 0, -2));
    OUT("no slice", hd_slice(cube, 0, 3, 1, 1));
    OUT("diagonal", hd_diagonal(cube, -1, 0, 2));
    OUT("unfold", hd_unfold(cube, 2, 3, 1));
    OUT("as_strided", hd_as_strided(x, HD_SHAPE(2, 2), HD_SHAPE(1, 2), 1));
    OUT("detach", hd_detach(x));
    OUT("contiguous", hd_contiguous(hd_t(x)));
    OUT("concat", hd_concat((hd_tensor *[]){x, x, x}, 3, -1));
    OUT("pad", hd_pad(x, (const hd_padding[]){{1, 0}, {-1, 2}}, 2, 0.5));
    OUT("gather", hd_gather(x, 0, index));
    for (int mode = HD_SCATTER_SET; mode <= HD_SCATTER_MIN; ++mode)
        OUT((const char *[]){"set", "add", "mul", "largest", "smallest"}[mode - HD_SCATTER_SET],
            hd_scatter(x, 0, index, hd_neg(x), (hd_scatter_mode)mode));
    OUT("select", hd_index_select(cube, 1, hd_narrow(hd_flatten(index), 0, 0, 2)));
    OUT("matmul", hd_matmul(hd_t(x), x));
    OUT("affine",
        hd_affine(x, hd_cast(hd_reshape(hd_narrow(hd_flatten(cube), 0, 0, 12), HD_SHAPE(4, 3)), HD_F32), NULL));
    OUT("clamp", hd_clamp(x, -0.5, 2.25));
    OUT("softmax", hd_softmax(x, 1));
    OUT("custom", cubed(x, -0.5));
#undef OUT
    hd_script *s = built(b);
    assert_ok();
    bool kinds[HD_FIELD_END] = {false};
    for (uint32_t i = 0; i < s->graph->node_count; ++i) {
        size_t bytes;
        if (s->graph->nodes[i].attributes != 0)
            for (const hd_field *f = hd_attribute_fields(s->graph->nodes[i].op, &bytes); f->kind != HD_FIELD_END; ++f)
                kinds[f->kind] = true;
    }
    for (int k = 0; k < HD_FIELD_END; ++k)
        if (!kinds[k]) fail_msg("no attribute of kind %d is tested", k);
    check_round_trip(s);
}

/* Bytes that are no ordinary values: NaNs with a payload, infinities, signed zeros, subnormals. */
static hd_tensor *bits_of(hd_dtype dtype, hd_shape shape) {
    unsigned char bytes[64 * 8];
    const size_t count = (size_t)hd_shape_count(shape) * hd_dtype_size(dtype);
    for (size_t i = 0; i < count; ++i) bytes[i] = dtype == HD_BOOL ? i % 3 == 1 : (unsigned char)(0x80 + 37 * i);
    if (dtype == HD_F32)
        memcpy(bytes, (const uint32_t[]){0x7fc12345, 0xffa00001, 0x80000000, 1, 0x7f800000}, count < 20 ? count : 20);
    if (dtype == HD_F64)
        memcpy(bytes, (const uint64_t[]){0xfff4000000000123, 0x8000000000000000, 1}, count < 24 ? count : 24);
    return hd_from_data(bytes, shape, dtype);
}

static void constants_of_every_dtype_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *values[HD_DTYPE_COUNT][3], *cells[HD_DTYPE_COUNT][2];
    for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
        values[d][0] = bits_of((hd_dtype)d, HD_SHAPE(3, 7));
        values[d][1] = bits_of((hd_dtype)d, HD_SHAPE());
        values[d][2] = bits_of((hd_dtype)d, HD_SHAPE(4, 0));
        cells[d][0] = bits_of((hd_dtype)d, HD_SHAPE(5));
        cells[d][1] = bits_of((hd_dtype)d, HD_SHAPE(0));
    }
    hd_builder *b = started("dtypes");
    char name[64];
    for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
        for (int i = 0; i < 2; ++i) {
            snprintf(name, sizeof name, "%s cell %d", hd_dtype_name((hd_dtype)d), i);
            (i == 0 ? hd_builder_add_state : hd_builder_bind)(b, name, cells[d][i]);
            hd_builder_add_output(b, name, hd_flip(cells[d][i], HD_AXES()));
        }
        for (int i = 0; i < 3; ++i) {
            snprintf(name, sizeof name, "%s %d", hd_dtype_name((hd_dtype)d), i);
            hd_builder_add_output(b, name, i == 1 ? hd_copy(values[d][i]) : hd_t(hd_unsqueeze(values[d][i], 0)));
        }
    }
    check_recorded(b);
}

static void writes_and_state_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = hd_zeros(HD_SHAPE(6, 4), HD_F32), *at = hd_zeros(HD_SHAPE(), HD_I64),
              *other = hd_ones(HD_SHAPE(4), HD_F32);
    hd_builder *b = started("cache");
    hd_builder_add_state(b, "cache", cache);
    hd_builder_add_state(b, "at", at);
    hd_builder_add_state(b, "other", other);
    hd_tensor *x = hd_input("x", HD_SHAPE(4), HD_F32);
    hd_assign(hd_select(cache, 0, 2), x);
    hd_assign(hd_slice(cache, 1, 0, HD_END, 3), hd_full(HD_SHAPE(), HD_F32, -1));
    hd_assign(hd_diagonal(cache, 0, 0, 1), hd_add(hd_diagonal(cache, 0, 0, 1), x));
    hd_assign(hd_narrow(cache, 0, 6, 0), hd_zeros(HD_SHAPE(0, 4), HD_F32));
    hd_assign(other, x); /* all of it: its new value is an input */
    hd_add_(at, hd_ones(HD_SHAPE(), HD_I64));
    hd_builder_add_output(b, "sum", hd_sum(hd_t(cache), HD_AXES(0), NULL));
    check_recorded(b);
}

static void names_and_spans_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    char longest[2000];
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    hd_builder *b = started("\xed\x98\xb8\xeb\x91\x90 \"quoted\"\n\\ \x01");
    hd_tensor *x = hd_input(longest, HD_SHAPE(3), HD_F32), *y = hd_input("%s %n", HD_SHAPE(3), HD_F32);
    hd_builder_add_output(b, "a b\tc", hd_std(hd_log_softmax(hd_add(x, y), 0), HD_AXES(0), 1, NULL));
    hd_builder_add_output(b, longest, hd_norm(x, 3, HD_AXES(), NULL));
    check_recorded(b);
}

static void the_parts_may_be_missing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started(""); /* no name, no inputs, no constants, no cells */
    hd_builder_add_output(b, "y", hd_full(HD_SHAPE(), HD_F32, 3));
    check_recorded(b);
    hd_tensor *s = hd_zeros(HD_SHAPE(2), HD_F32);
    b = started("no outputs");
    hd_builder_add_state(b, "s", s);
    hd_add_(s, hd_ones(HD_SHAPE(2), HD_F32));
    check_recorded(b);
}

static void large_graphs_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(HD_SHAPE(3), HD_F32);
    hd_builder *b = started("unrolled");
    hd_tensor *x = hd_input("x", HD_SHAPE(3), HD_F32);
    for (int i = 0; i < 5000; ++i) {
        HD_SCOPE;
        x = hd_keep(hd_add(hd_mul_scalar(x, 0.5 + i * 1e-5), w));
    }
    hd_builder_add_output(b, "y", x);
    check_recorded(b);
}

/* ---- what a script is when it comes back ------------------------------------------------------------------------- */
static void choices_are_kept(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_save(s, in_folder("m"));
        hd_script *loaded = hd_script_load(in_folder("m"));
        assert_ok();
        assert_int_equal(loaded->level, level);
        assert_int_equal(loaded->compiler, HD_COMPILER_HODU);
        assert_int_equal(hd_script_stats(loaded).runs, 0);
    }
}

static void saving_does_not_care_about_compiling(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    hd_script_save(s, in_folder("before"));
    hd_script_compile(s);
    hd_script_save(s, in_folder("after"));
    file_bytes a = read_bytes(in_folder("before.hoduscript")), b = read_bytes(in_folder("after.hoduscript"));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.at, b.at, a.size);
    free(a.at);
    free(b.at);
    assert_int_equal(hd_script_stats(s).compilations, 1);
}

static void state_is_saved_as_it_is_now(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    set_small_inputs(s);
    for (int i = 0; i < 3; ++i) hd_script_run(s);
    hd_script_save(s, in_folder("m"));
    hd_script *loaded = hd_script_load(in_folder("m"));
    set_small_inputs(loaded);
    assert_int_equal(hd_item_i64(hd_script_state(loaded, "count")), 3);
    for (int i = 0; i < 3; ++i) {
        hd_seed(i);
        hd_outputs *ours = hd_script_run(s);
        hd_seed(i);
        assert_same_outputs(ours, hd_script_run(loaded));
    }
    assert_identical(hd_script_state(s, "cache"), hd_script_state(loaded, "cache"));
    assert_int_equal(hd_item_i64(hd_script_state(loaded, "count")), 6);
    hd_script *first = hd_script_load(in_folder("m")); /* the file is as it was */
    assert_int_equal(hd_item_i64(hd_script_state(first, "count")), 3);
}

static void loaded_scripts_own_their_tensors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *bound = HD_TENSOR_F32(HD_SHAPE(2), 1, 2), *kept = HD_TENSOR_F32(HD_SHAPE(2), 5, 6);
    hd_builder *b = started("m");
    hd_builder_bind(b, "bound", bound);
    hd_builder_add_state(b, "kept", kept);
    hd_add_(kept, bound);
    hd_builder_add_output(b, "y", hd_add(kept, bound));
    hd_script *s = built(b);
    hd_fill(bound, 10); /* what is saved is the value of now */
    hd_script_save(s, in_folder("m"));
    hd_fill(bound, 0);
    hd_fill(kept, 0);
    hd_script *one = hd_script_load(in_folder("m")), *two = hd_script_clone(one);
    assert_values(hd_outputs_get(hd_script_run(one), "y"), HD_F32, 25, 26);
    assert_values(hd_script_state(one, "kept"), HD_F32, 15, 16);
    assert_values(hd_script_state(two, "kept"), HD_F32, 5, 6);
    assert_values(kept, HD_F32, 0, 0);
    hd_script_set_state(one, "bound", HD_TENSOR_F32(HD_SHAPE(2), -1, -2));
    assert_values(hd_outputs_get(hd_script_run(one), "y"), HD_F32, 13, 12);
    assert_values(hd_outputs_get(hd_script_run(two), "y"), HD_F32, 25, 26);
}

/* ---- when and where it is loaded --------------------------------------------------------------------------------- */
static void the_default_dtype_does_not_matter(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("m");
    hd_tensor *i = hd_input("i", HD_SHAPE(3), HD_I64);
    hd_builder_add_output(b, "y", hd_mean(hd_exp(i), HD_AXES(), NULL));
    hd_builder_end(b);
    hd_script_save(hd_builder_build(b), in_folder("m"));
    hd_set_default_dtype(HD_F64);
    hd_script *s = hd_script_load(in_folder("m"));
    assert_int_equal(hd_default_dtype(), HD_F64);
    hd_set_default_dtype(HD_F32);
    assert_ok();
    hd_script_set_input(s, "i", HD_TENSOR_I64(HD_SHAPE(3), 0, 0, 0));
    assert_values(hd_outputs_get(hd_script_run(s), "y"), HD_F32, 1);
}

/* A script of products, the first of them with this precision. */
static hd_script *of_products(hd_matmul_precision precision) {
    hd_builder *b = started("products");
    hd_tensor *x = hd_input("x", HD_SHAPE(3, 3), HD_F32), *images = hd_input("images", HD_SHAPE(1, 3, 4), HD_F32);
    hd_set_matmul_precision(precision);
    hd_builder_add_output(b, "matmul", hd_matmul(x, x));
    hd_builder_add_output(b, "affine", hd_affine(x, x, NULL));
    hd_builder_add_output(b, "conv", hd_conv(images, hd_reshape(x, HD_SHAPE(3, 3, 1)), NULL, NULL));
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    hd_builder_add_output(b, "exact matmul", hd_matmul(x, hd_neg(x)));
    hd_builder_add_output(b, "exact affine", hd_affine(x, hd_neg(x), NULL));
    hd_builder_add_output(b, "exact conv", hd_conv(images, hd_reshape(hd_neg(x), HD_SHAPE(3, 3, 1)), NULL, NULL));
    return built(b);
}

static bool has_bytes(const char *path, const char *word) {
    file_bytes b = read_bytes(path);
    const bool has = memmem(b.at, b.size, word, strlen(word)) != NULL;
    free(b.at);
    return has;
}

/* The precision of products is that of their calls, whatever is set where the script is loaded; and a file in which all
 * are exact says nothing of it, so that libraries which do not know the word read it. */
static void the_precision_of_products_is_kept(void **state) {
    (void)state;
    HD_SCOPE;
    for (int precision = HD_MATMUL_EXACT; precision <= HD_MATMUL_TF32; ++precision) {
        hd_script *s = of_products((hd_matmul_precision)precision);
        check_round_trip(s);
        assert_int_equal(has_bytes(in_folder("trip.hoduscript"), "precision"), precision == HD_MATMUL_TF32);
        for (int set = HD_MATMUL_EXACT; set <= HD_MATMUL_TF32; ++set) {
            hd_set_matmul_precision((hd_matmul_precision)set);
            hd_script *read = hd_script_load(in_folder("trip"));
            assert_int_equal(hd_current_matmul_precision(), set);
            hd_set_matmul_precision(HD_MATMUL_EXACT);
            assert_ok();
            assert_same_graphs(s->graph, read->graph);
        }
    }
}

static void scripts_are_loaded_beside_a_builder(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script_save(small_script(), in_folder("m"));
    hd_builder *b = started("around");
    hd_tensor *x = hd_input("x", HD_SHAPE(2), HD_F32);
    hd_script *inside = hd_script_load(in_folder("m")), *eager;
    hd_tensor *p;
    {
        HD_EAGER;
        eager = hd_script_load(in_folder("m"));
        set_small_inputs(eager);
        p = hd_outputs_get(hd_script_run(eager), "p");
        assert_true(hd_item(hd_sum(p, HD_AXES(), NULL)) > 1.9);
    }
    hd_builder_add_output(b, "y", hd_add(x, x));
    hd_script *s = built(b);
    assert_int_equal(hd_script_stats(s).nodes, 2);
    set_small_inputs(inside);
    hd_script_run(inside);
    assert_ok();
    write_bytes(in_folder("bad.hoduscript"), "\x89HODU", 5);
    hd_builder *c = started("again");
    hd_script_load(in_folder("bad"));
    assert_error(HD_ERROR_VALUE, "bad.hoduscript\" is no .hoduscript file");
    hd_builder_add_output(c, "y", hd_input("x", HD_SHAPE(), HD_F32));
    hd_builder_end(c);
    assert_ok();
}

static void an_extension_is_added_where_there_is_none(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    static const char *const names[][2] = {{"plain", "plain.hoduscript"}, {"with.hoduscript", "with.hoduscript"},
                                           {"other.bin", "other.bin"},    {".hidden", ".hidden.hoduscript"},
                                           {".hidden.x", ".hidden.x"},    {"point.", "point."}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        hd_script_save(s, in_folder(names[i][0]));
        assert_ok();
        assert_int_equal(access(in_folder(names[i][1]), R_OK), 0);
        assert_non_null(hd_script_load(in_folder(names[i][0])));
        assert_non_null(hd_script_load(in_folder(names[i][1])));
    }
    assert_int_equal(folder_entries(false), sizeof names / sizeof names[0]);
    char path[600]; /* a point in the folder's name is none of the file's */
    snprintf(path, sizeof path, "%s/a.b", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/a.b/m", folder);
    hd_script_save(s, path);
    assert_non_null(hd_script_load(path));
    snprintf(path, sizeof path, "%s/a.b/m.hoduscript", folder);
    assert_int_equal(remove(path), 0);
    static const char *const no_names[] = {"", "/", "..", "folder/", "a/."};
    for (size_t i = 0; i < sizeof no_names / sizeof no_names[0]; ++i) {
        hd_script_save(s, no_names[i]);
        assert_error(HD_ERROR_VALUE, "names no file");
        assert_null(hd_script_load(no_names[i]));
        assert_error(HD_ERROR_VALUE, "names no file");
    }
    hd_script_save(s, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`path`");
    hd_script_load(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`path`");
    hd_script_save(NULL, "m");
    assert_error(HD_ERROR_NULL_ARGUMENT, "`script`");
}

static void saving_refuses_while_an_error_is_pending(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    hd_add(NULL, NULL);
    hd_script_save(s, in_folder("m"));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add");
    assert_int_equal(folder_entries(false), 0);
}

/* ---- constants stay in the file ---------------------------------------------------------------------------------- */
/* Two constants of 1000 f32, of which each run uses one, chosen by the output that is wanted. */
static hd_script *two_constants(void) {
    hd_tensor *a = hd_arange(0, 1000, 1, HD_F32), *c = hd_full(HD_SHAPE(1000), HD_F32, 2);
    hd_builder *b = started("two");
    hd_tensor *x = hd_input("x", HD_SHAPE(1000), HD_F32);
    hd_mul(x, a); /* nobody wants it */
    hd_builder_add_output(b, "y", hd_add(x, c));
    return built(b);
}

static hd_outputs *run_two(hd_script *s) {
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(1000), HD_F32));
    return hd_script_run(s);
}

/* The file with one bit of a constant turned. */
static void damage_constant(const char *path, uint32_t number) {
    file_bytes b = read_bytes(path);
    b.at[get_u64(section_bytes(b, "TENS") + 8 + 24 * number) + 100] ^= 4;
    write_bytes(path, b.at, b.size);
    free(b.at);
}

static void constants_are_read_when_they_are_used(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script_save(two_constants(), in_folder("m"));
    for (int map = 0; map < 2; ++map) {
        HD_SCOPE;
        const int64_t before = hd_memory().live_bytes;
        hd_script *s = hd_script_load_with(in_folder("m"), HD_OPTS(hd_script_load_opts, .map = map));
        assert_int_equal(hd_memory().live_bytes, before);
        hd_outputs *o = run_two(s);
        assert_values(hd_narrow(hd_outputs_get(o, "y"), 0, 0, 2), HD_F32, 3, 3);
        assert_true(s->graph->constants[0].storage->block == NULL); /* never read */
        assert_int_equal(s->graph->constants[1].storage->block == NULL, map);
    }
}

static void damage_is_noticed_when_a_constant_is_used(void **state) {
    (void)state;
    HD_SCOPE;
    for (int map = 0; map < 2; ++map) {
        hd_script_save(two_constants(), in_folder("m"));
        damage_constant(in_folder("m.hoduscript"), 0);
        hd_script *s = hd_script_load_with(in_folder("m"), HD_OPTS(hd_script_load_opts, .map = map));
        run_two(s); /* the damaged one is not used */
        assert_ok();
        hd_script_set_optimization_level(s, HD_O0); /* where everything runs */
        for (int i = 0; i < 2; ++i) {
            assert_null(run_two(s));
            assert_error(HD_ERROR_VALUE, "constant #0 (node %1) of ");
        }
        hd_script_save(s, in_folder("copy"));
        assert_error(HD_ERROR_VALUE, "is damaged: its checksum does not fit its bytes");
        assert_int_equal(access(in_folder("copy.hoduscript"), F_OK), -1);
        damage_constant(in_folder("m.hoduscript"), 0); /* as it was */
        if (!map) assert_non_null(run_two(s));
        assert_ok();
    }
}

static void a_file_may_go_or_be_replaced(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script_save(two_constants(), in_folder("m"));
    hd_script *s = hd_script_load(in_folder("m")),
              *t = hd_script_load_with(in_folder("m"), HD_OPTS(hd_script_load_opts, .map = true));
    hd_script *u = hd_script_load(in_folder("m"));
    hd_script_save(small_script(), in_folder("m")); /* another one under its name */
    assert_values(hd_narrow(hd_outputs_get(run_two(s), "y"), 0, 0, 1), HD_F32, 3);
    assert_int_equal(remove(in_folder("m.hoduscript")), 0);
    assert_values(hd_narrow(hd_outputs_get(run_two(t), "y"), 0, 0, 1), HD_F32, 3);
    hd_script_save(u, in_folder("m")); /* reads its constants from the file that has no name any more */
    assert_values(hd_narrow(hd_outputs_get(run_two(hd_script_load(in_folder("m"))), "y"), 0, 0, 1), HD_F32, 3);
}

static void a_file_that_is_cut_later_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    for (int map = 0; map < 2; ++map) {
        hd_script_save(two_constants(), in_folder("m"));
        hd_script *s = hd_script_load_with(in_folder("m"), HD_OPTS(hd_script_load_opts, .map = map));
        assert_int_equal(truncate(in_folder("m.hoduscript"), 5000), 0);
        assert_null(run_two(s));
        assert_error(HD_ERROR_VALUE, "constant #1 (node %3) of ");
    }
}

static void *run_clone(void *script) {
    HD_SCOPE;
    const bool right = hd_outputs_get(hd_script_run(script), "y") != NULL &&
                       hd_item(hd_sum(hd_script_output(script, "y"), HD_AXES(), NULL)) == 3000;
    return hd_ok() && right ? script : NULL;
}

static void clones_read_shared_constants_from_several_threads(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script_save(two_constants(), in_folder("m"));
    for (int round = 0; round < 10; ++round) {
        HD_SCOPE;
        hd_script *s = hd_script_load_with(in_folder("m"), HD_OPTS(hd_script_load_opts, .map = round % 2));
        hd_script_set_input(s, "x", hd_ones(HD_SHAPE(1000), HD_F32));
        hd_script_set_optimization_level(s, HD_O0);
        hd_script *clones[4] = {s, hd_script_clone(s), hd_script_clone(s), hd_script_clone(s)};
        pthread_t threads[4];
        for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, run_clone, clones[i]), 0);
        for (int i = 0; i < 4; ++i) {
            void *result;
            pthread_join(threads[i], &result);
            assert_ptr_equal(result, clones[i]);
        }
    }
}

/* ---- what the system refuses ------------------------------------------------------------------------------------- */
/* The file `m` is what it was, and nothing else is left in the folder. */
static void assert_old_file(const file_bytes *old) {
    file_bytes now = read_bytes(in_folder("m.hoduscript"));
    assert_int_equal(now.size, old->size);
    assert_memory_equal(now.at, old->at, old->size);
    assert_int_equal(folder_entries(false), 1);
    free(now.at);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = two_constants();
    hd_script_save(small_script(), in_folder("m"));
    file_bytes old = read_bytes(in_folder("m.hoduscript"));
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most < 8000; most += 613) {
        tight = (struct rlimit){most, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        hd_script_save(s, in_folder("m"));
        setrlimit(RLIMIT_FSIZE, &before);
        assert_error(HD_ERROR_STATE, "m.hoduscript\" cannot be written: File too large");
        assert_old_file(&old);
    }
    signal(SIGXFSZ, handler);
    hd_script_save(s, in_folder("m"));
    assert_ok();
    free(old.at);
}

static void folders_that_cannot_be_written_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    hd_script_save(s, in_folder("missing/m"));
    assert_error(HD_ERROR_STATE, "cannot be written: no new file can be made beside it: No such file or directory");
    hd_script_load(in_folder("missing/m"));
    assert_error(HD_ERROR_STATE, "missing/m.hoduscript\" cannot be opened: No such file or directory");
    hd_script_save(s, in_folder("m"));
    file_bytes old = read_bytes(in_folder("m.hoduscript"));
    hd_script_save(s, in_folder("m.hoduscript/m"));
    assert_error(HD_ERROR_STATE, "Not a directory");
    chmod(folder, 0555);
    const bool root = geteuid() == 0;
    if (root) assert_int_equal(seteuid(65534), 0);
    hd_script_save(s, in_folder("m"));
    if (root) assert_int_equal(seteuid(0), 0);
    chmod(folder, 0755);
    assert_error(HD_ERROR_STATE, "no new file can be made beside it: Permission denied");
    assert_old_file(&old);
    free(old.at);
}

static void only_regular_files_are_touched(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    assert_int_equal(mkdir(in_folder("d.x"), 0700), 0);
    assert_int_equal(mkfifo(in_folder("p.x"), 0600), 0);
    assert_int_equal(symlink("/dev/full", in_folder("f.x")), 0);
    static const char *const names[] = {"d.x", "p.x", "f.x"};
    for (int i = 0; i < 3; ++i) {
        hd_script_save(s, in_folder(names[i]));
        assert_error(HD_ERROR_STATE, "is no regular file, and is not replaced");
        assert_null(hd_script_load(in_folder(names[i]))); /* and does not wait for the pipe */
        assert_error(HD_ERROR_STATE, "is no regular file");
    }
}

static void links_and_permissions_stay(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    const mode_t mask = umask(027);
    hd_script_save(s, in_folder("real"));
    umask(mask);
    struct stat status;
    assert_int_equal(stat(in_folder("real.hoduscript"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(chmod(in_folder("real.hoduscript"), 0604), 0);
    assert_int_equal(symlink("real.hoduscript", in_folder("link.hoduscript")), 0);
    hd_script_save(two_constants(), in_folder("link"));
    assert_ok();
    assert_int_equal(lstat(in_folder("link.hoduscript"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(in_folder("real.hoduscript"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0604);
    assert_non_null(run_two(hd_script_load(in_folder("real"))));
}

static bool is_link(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

/* A link whose target is not there yet, through others, up and down folders, and to the root. */
static void links_to_nothing_stay_too(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    assert_int_equal(mkdir(in_folder("below"), 0700), 0);
    char whole[600];
    snprintf(whole, sizeof whole, "%s", in_folder("whole.hoduscript"));
    const char *const links[][3] = {{"new.hoduscript", "one.hoduscript", "new.hoduscript"},
                                    {"below/two.x", "three.x", "below/two.x"},
                                    {"../up.x", "below/four.x", "up.x"},
                                    {whole, "below/five.x", "whole.hoduscript"},
                                    {"four.x", "below/six.x", "up.x"}};
    for (int i = 0; i < 5; ++i) {
        assert_int_equal(symlink(links[i][0], in_folder(links[i][1])), 0);
        unlink(in_folder(links[i][2]));
        hd_script_save(s, in_folder(links[i][1]));
        assert_ok();
        assert_true(is_link(in_folder(links[i][1])) && !is_link(in_folder(links[i][2])));
        assert_non_null(hd_script_load(in_folder(links[i][2])));
    }
    assert_int_equal(symlink("nowhere/x.x", in_folder("seven.x")), 0);
    assert_int_equal(symlink("round.x", in_folder("round.x")), 0);
    hd_script_save(s, in_folder("seven.x"));
    assert_error(HD_ERROR_STATE, "no new file can be made beside it");
    hd_script_save(s, in_folder("round.x"));
    assert_error(HD_ERROR_STATE, "symbolic links");
    assert_true(is_link(in_folder("seven.x")) && is_link(in_folder("round.x")));
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    set_small_inputs(s);
    hd_script_save(s, in_folder("m"));
    file_bytes old = read_bytes(in_folder("m.hoduscript"));
    for (int which = 0; which < 3; ++which) {
        bool done = false;
        int64_t n = 0;
        for (; !done; ++n) {
            HD_SCOPE;
            hd_script *loaded = NULL;
            hd_memory_trim();
            hd_memory_fail_after(n);
            if (which == 0) hd_script_save(s, in_folder("m"));
            if (which > 0)
                loaded = hd_script_load_with(in_folder("m"), HD_OPTS(hd_script_load_opts, .map = which == 2));
            if (loaded != NULL) hd_storage_bytes(hd_thread_self(), loaded->graph->constants[0].storage, HD_READ);
            const int64_t attempts = hd_memory_attempts();
            hd_memory_fail_after(-1);
            done = hd_ok();
            if (done)
                assert_true(attempts <= n);
            else
                assert_error(HD_ERROR_MEMORY, "");
            assert_old_file(&old);
        }
        assert_true(n > 20);
    }
    free(old.at);
}

/* ---- for ever ---------------------------------------------------------------------------------------------------- */
/* Written once by version 1 of the format; every version to come reads it and gives these numbers. */
static void the_first_file_is_read_for_ever(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = hd_script_load(HODU_TEST_DATA "/first");
    assert_ok();
    set_small_inputs(s);
    assert_int_equal(s->level, HD_O1);
    assert_int_equal(hd_item_i64(hd_script_state(s, "count")), 2);
    hd_seed(7);
    hd_outputs *o = hd_script_run(s);
    assert_close(hd_outputs_get(o, "p"), HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 3.22894222e-09f, 0.450441062f, 0.549558938f),
                 1e-5, 1e-6);
    assert_close(hd_outputs_get(o, "total"), hd_scalar(0.25, HD_F32), 1e-5, 1e-6);
    assert_int_equal(hd_item_i64(hd_script_state(s, "count")), 3);
    file_bytes b = read_bytes(HODU_TEST_DATA "/first.hoduscript");
    assert_int_equal(XXH64(b.at, b.size, 0), 0x2bc8b9fbd71447c7); /* and it is never written anew */
    free(b.at);
}

/* Of version 1, whose matrix products say turn_a and turn_b. */
static void products_of_the_first_version_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = hd_script_load(HODU_TEST_DATA "/transposed.hoduscript");
    hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(3, 2), 1, 2, 3, 4, 5, 6));
    hd_outputs *o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "both"), HD_F32, 22, 49, 28, 64);
    assert_values(hd_outputs_get(o, "neither"), HD_F32, 9, 12, 15, 19, 26, 33, 29, 40, 51);
    check_round_trip(s); /* and written as version 2 */
    file_bytes b = read_bytes(HODU_TEST_DATA "/transposed.hoduscript");
    assert_int_equal(XXH64(b.at, b.size, 0), 0x6e049d2113a657c8);
    free(b.at);
}

/* ---- the page about it ------------------------------------------------------------------------------------------- */
static bool is_hex(const char *at, int digits) {
    for (int i = 0; i < digits; ++i)
        if (at[i] == '\0' || strchr("0123456789abcdef", at[i]) == NULL) return false;
    return true;
}

/* docs/hoduscript.md shows a small file byte by byte: lines of an offset and up to 16 bytes. */
static void the_page_shows_a_file_as_it_is(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *c = HD_TENSOR_F32(HD_SHAPE(2), 1, 2);
    hd_builder *b = started("tiny");
    hd_tensor *x = hd_input("x", HD_SHAPE(2), HD_F32);
    hd_builder_add_output(b, "y", hd_sum(hd_add(x, c), HD_AXES(0), NULL));
    hd_script_save(built(b), in_folder("tiny"));
    file_bytes tiny = read_bytes(in_folder("tiny.hoduscript"));
    assert_int_equal(tiny.size, 1536);
    FILE *page = fopen(HODU_TEST_DATA "/../../docs/hoduscript.md", "r");
    assert_non_null(page);
    int shown = 0;
    for (char line[512]; fgets(line, sizeof line, page) != NULL;) {
        if (strncmp(line, "    ", 4) != 0 || !is_hex(line + 4, 4) || strncmp(line + 8, "  ", 2) != 0) continue;
        size_t offset = strtoul(line + 4, NULL, 16);
        const char *at = line + 10;
        for (int i = 0; i < 16 && is_hex(at, 2); ++i, ++offset, ++shown) {
            if (offset >= tiny.size || tiny.at[offset] != strtoul((const char[]){at[0], at[1], '\0'}, NULL, 16))
                fail_msg("byte %#zx is %02x; the page says %.2s", offset, tiny.at[offset], at);
            at += i == 7 ? 4 : 3;
        }
    }
    fclose(page);
    free(tiny.at);
    assert_in_range(shown, 400, 1536);
}

RUN(file_test(small_scripts_come_back), file_test(every_elementwise_row_comes_back), file_test(derivatives_come_back),
    file_test(every_attribute_comes_back), file_test(constants_of_every_dtype_come_back),
    file_test(writes_and_state_come_back), file_test(names_and_spans_come_back), file_test(the_parts_may_be_missing),
    file_test(large_graphs_come_back), file_test(choices_are_kept), file_test(saving_does_not_care_about_compiling),
    file_test(state_is_saved_as_it_is_now), file_test(loaded_scripts_own_their_tensors),
    file_test(the_default_dtype_does_not_matter), file_test(the_precision_of_products_is_kept),
    file_test(scripts_are_loaded_beside_a_builder), file_test(an_extension_is_added_where_there_is_none),
    file_test(saving_refuses_while_an_error_is_pending), file_test(constants_are_read_when_they_are_used),
    file_test(damage_is_noticed_when_a_constant_is_used), file_test(a_file_may_go_or_be_replaced),
    file_test(a_file_that_is_cut_later_is_an_error), file_test(clones_read_shared_constants_from_several_threads),
    file_test(a_full_disk_is_an_error), file_test(folders_that_cannot_be_written_are_errors),
    file_test(only_regular_files_are_touched), file_test(links_and_permissions_stay),
    file_test(links_to_nothing_stay_too), file_test(every_allocation_may_fail),
    file_test(the_first_file_is_read_for_ever), file_test(products_of_the_first_version_are_read),
    file_test(the_page_shows_a_file_as_it_is))

#else

static void files_are_named_as_missing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = small_script();
    hd_script_save(s, "m");
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    assert_null(hd_script_load("m"));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    hd_script_save_with(s, "m", HD_OPTS(hd_script_save_opts, .native = true));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    assert_null(hd_script_load_with("m", HD_OPTS(hd_script_load_opts, .native = true)));
    assert_error(HD_ERROR_STATE, "built without files (HODU_FILES=OFF)");
    set_small_inputs(s);
    hd_script_run(s);
    assert_ok();
}
RUN(test(files_are_named_as_missing))

#endif
