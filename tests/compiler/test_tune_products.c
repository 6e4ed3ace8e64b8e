/* O3 and products: whatever way is kept for them, results are those of O0. Which way wins is a matter of time, so what
 * was kept is exchanged here for what is to be tested. */
#include "differences.h"
#include "builders.h"
#include "graph/calls.h"

#include "compiler/own_cache.h"
#include "printed.h"
#include "machine/cpu.h"
#include "device/cpu/kernels.h"

/* ---- what is kept ------------------------------------------------------------------------------------------------ */
/* The entry of the only script that was tuned since the cache was cleared: as cache.c writes it, a head with the sizes
 * of what follows, the key, the tuning. */
enum { HEAD = 64, KEY_SIZE_AT = 12, MOST_BYTES = 4096 };
typedef struct entry {
    char bytes[MOST_BYTES], *key, *tuning;
    size_t key_bytes, tuning_bytes;
} entry;

static bool read_entry(const char *path, entry *e) {
    FILE *f = fopen(path, "rb");
    const size_t size = f == NULL ? 0 : fread(e->bytes, 1, MOST_BYTES, f);
    if (f != NULL) fclose(f);
    if (size <= HEAD || memcmp(e->bytes + HEAD, "hodu tuning", sizeof "hodu tuning") != 0) return false;
    uint32_t key_bytes;
    memcpy(&key_bytes, e->bytes + KEY_SIZE_AT, sizeof key_bytes);
    e->key = e->bytes + HEAD;
    e->key_bytes = key_bytes;
    e->tuning = e->key + key_bytes;
    e->tuning_bytes = size - HEAD - key_bytes;
    return true;
}

static void find_entry(entry *e) {
    DIR *folder = opendir(own_cache);
    assert_non_null(folder);
    bool found = false;
    for (struct dirent *file; !found && (file = readdir(folder)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", own_cache, file->d_name);
        found = read_entry(path, e);
    }
    closedir(folder);
    assert_true(found);
}

/* The tuning of an entry with every product in this way, and nothing else that does not go by rules. */
static void keep_way(const entry *e, hd_product_config way) {
    char bytes[MOST_BYTES];
    memcpy(bytes, e->tuning, e->tuning_bytes);
    hd_tuning *t = (void *)bytes;
    for (uint32_t i = 0; i < t->launch_count; ++i)
        t->launches[i] = (hd_launch_choice){.own = {[HD_CPU_UNIT] = way.unit,
                                                    [HD_CPU_SHARE] = way.share,
                                                    [HD_CPU_WINDOWS] = way.windows,
                                                    [HD_CPU_K_BLOCK] = (uint8_t)(way.k_block / HD_K_STEP)}};
    hd_cache_write(e->key, e->key_bytes, t, e->tuning_bytes);
}

static const hd_product_config ways[] = {{.unit = HD_UNIT_VECTOR},
                                         {.unit = HD_UNIT_MATRIX},
                                         {.unit = HD_UNIT_VECTOR, .share = HD_SHARE_ROWS, .k_block = 256},
                                         {.unit = HD_UNIT_BY_COST, .share = HD_SHARE_COLUMNS, .k_block = 1024},
                                         {.unit = HD_UNIT_MATRIX, .share = HD_SHARE_BY_SIZE, .k_block = 256}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- scripts ----------------------------------------------------------------------------------------------------- */
/* x [m, k] times w [k, n]: a constant, state, or an input. */
typedef enum weight { CONSTANT, STATE, INPUT, WEIGHTS } weight;
typedef struct sizes {
    int64_t m, k, n;
} sizes;

static hd_script *product(sizes s, hd_dtype dtype, weight kind) {
    hd_tensor *w = operand(S(s.k, s.n), 1, dtype);
    hd_builder *b = started("product");
    if (kind == STATE) hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", S(s.m, s.k), dtype);
    hd_builder_add_output(b, "y", hd_matmul(x, kind == INPUT ? hd_input("w", S(s.k, s.n), dtype) : w));
    hd_script *script = built(b);
    hd_script_set_input(script, "x", operand(S(s.m, s.k), 0, dtype));
    if (kind == INPUT) hd_script_set_input(script, "w", w);
    return script;
}

/* The result at a level, and how many alternatives were timed for it. */
static hd_tensor *at_level(hd_script *s, hd_optimization_level level, int64_t *alternatives) {
    hd_script_set_optimization_level(s, level);
    hd_tensor *y = output(s, "y");
    if (y == NULL) fail_msg("%s", hd_error_message());
    if (alternatives != NULL) *alternatives = hd_script_stats(s).alternatives;
    return y;
}

static void tune_anew(hd_script *s, entry *e) {
    int64_t alternatives;
    hd_cache_clear();
    at_level(s, HD_O3, &alternatives);
    assert_in_range(alternatives, 3, 30);
    find_entry(e);
}

/* What is kept is found and gives what O0 gives, in this run and, with another weight, in the next. */
static void found_again(sizes s, hd_dtype dtype, weight kind, const char *what) {
    HD_SCOPE;
    int64_t alternatives;
    hd_script *script = product(s, dtype, kind);
    for (int run = 0; run < 2; ++run) {
        if (run == 1 && kind == STATE) hd_script_set_state(script, "w", operand(S(s.k, s.n), 2, dtype));
        hd_tensor *expected = at_level(script, HD_O0, NULL), *tuned = at_level(script, HD_O3, &alternatives);
        if (alternatives != 0) fail_msg("%s: tuned once more", what);
        const char *why = difference_within(tuned, expected, units_at_largest(expected, 64));
        if (why[0] != '\0') fail_msg("%s: %s", what, why);
    }
}

static void every_way_gives_the_same(void **state) {
    (void)state;
    static const sizes all[] = {{1, 1500, 200}, {7, 512, 33},     {33, 513, 31},
                                {64, 100, 1},   {100, 1500, 200}, {33, 1, 200}};
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_I8};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        for (int dtype = 0; dtype < 3; ++dtype)
            for (int kind = 0; kind < WEIGHTS; ++kind) {
                if (!when_slow(i + (size_t)dtype + (size_t)kind, 3)) continue;
                HD_SCOPE;
                entry e;
                tune_anew(product(all[i], dtypes[dtype], (weight)kind), &e);
                for (int way = 0; way < WAYS; ++way) {
                    char what[96];
                    snprintf(what, sizeof what, "[%d,%d] x [%d,%d] of %s, weight %d, way %d", (int)all[i].m,
                             (int)all[i].k, (int)all[i].k, (int)all[i].n, hd_dtype_name(dtypes[dtype]), kind, way);
                    keep_way(&e, ways[way]);
                    found_again(all[i], dtypes[dtype], (weight)kind, what);
                }
            }
}

/* Launches of other kinds: products of inputs, with a bias or of many matrices, convolutions, and what follows them. */
static hd_script *of_many_kinds(void) {
    hd_tensor *w = operand(S(40, 32, 3, 3), 1, HD_F32);
    hd_builder *b = started("kinds");
    hd_tensor *x = hd_input("x", S(50, 600), HD_F32), *v = hd_input("v", S(70, 600), HD_F32),
              *bias = hd_input("bias", S(70), HD_F32), *image = hd_input("image", S(2, 32, 8, 8), HD_F32),
              *kernel = hd_input("kernel", S(33, 32, 3, 3), HD_F32), *many = hd_input("many", S(4, 50, 600), HD_F32);
    const hd_conv_opts *around = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    hd_builder_add_output(b, "affine", hd_affine(x, v, bias));
    hd_builder_add_output(b, "many", hd_matmul(many, hd_transpose(hd_mul_scalar(many, 2), 1, 2)));
    hd_builder_add_output(b, "turned", hd_tanh(hd_mul_scalar(hd_matmul(hd_t(x), x), 1e-3)));
    hd_builder_add_output(b, "conv", hd_conv(image, kernel, NULL, around));
    hd_builder_add_output(b, "then", hd_relu(hd_add_scalar(hd_conv(image, w, NULL, around), -400)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(50, 600), 0, HD_F32));
    hd_script_set_input(s, "v", operand(S(70, 600), 1, HD_F32));
    hd_script_set_input(s, "bias", operand(S(70), 2, HD_F32));
    hd_script_set_input(s, "image", operand(S(2, 32, 8, 8), 0, HD_F32));
    hd_script_set_input(s, "kernel", operand(S(33, 32, 3, 3), 2, HD_F32));
    hd_script_set_input(s, "many", operand(S(4, 50, 600), 0, HD_F32));
    return s;
}

static void every_kind_of_product(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = of_many_kinds();
    hd_script_set_optimization_level(s, HD_O0);
    hd_outputs *expected = hd_script_run(s);
    hd_cache_clear();
    hd_script_set_optimization_level(s, HD_O3);
    assert_non_null(hd_script_run(s));
    entry e;
    find_entry(&e);
    for (int way = 0; way < WAYS; ++way) {
        keep_way(&e, ways[way]);
        hd_script *again = of_many_kinds();
        hd_script_set_optimization_level(again, HD_O3);
        hd_outputs *tuned = hd_script_run(again);
        if (tuned == NULL) fail_msg("way %d: %s", way, hd_error_message());
        assert_int_equal(hd_script_stats(again).alternatives, 0);
        for (int64_t i = 0; i < hd_outputs_count(expected); ++i) {
            hd_tensor *y = hd_outputs_at(expected, i);
            const char *why = difference_within(hd_outputs_at(tuned, i), y, units_at_largest(y, 64));
            if (why[0] != '\0') fail_msg("way %d, %s: %s", way, hd_outputs_name(tuned, i), why);
        }
    }
}

/* ---- it is heeded ------------------------------------------------------------------------------------------------ */
static const sizes large = {100, 1500, 200};

static hd_tensor *in_way(const entry *e, weight kind, hd_product_config way) {
    keep_way(e, way);
    return at_level(product(large, HD_F32, kind), HD_O3, NULL);
}

/* Blocks of another size are summed up in another order: some digit differs somewhere, but not from run to run. */
static void ways_are_heeded(void **state) {
    (void)state;
    for (int kind = 0; kind < WEIGHTS; ++kind) {
        HD_SCOPE;
        entry e;
        tune_anew(product(large, HD_F32, (weight)kind), &e);
        hd_tensor *in_short = in_way(&e, (weight)kind, (hd_product_config){.k_block = 256}),
                  *in_long = in_way(&e, (weight)kind, (hd_product_config){.k_block = 1024});
        assert_string_not_equal(difference(in_short, in_long), "");
        assert_identical(in_way(&e, (weight)kind, (hd_product_config){.k_block = 256}), in_short);
    }
}

/* A product whose k is long has other blocks and another side to share, whatever the machine has: they are among what
 * is timed, with the plan, its launches, and the choice before and after. */
static void ways_are_tried(void **state) {
    (void)state;
    HD_SCOPE;
    int64_t of_product, of_small;
    hd_cache_clear();
    at_level(product(large, HD_F32, CONSTANT), HD_O3, &of_product);
    at_level(product((sizes){8, 8, 8}, HD_F32, CONSTANT), HD_O3, &of_small);
    assert_in_range(of_product, of_small + 3, of_small + 6);
}

/* What HODU_DUMP=tuning prints while a script is tuned. */
static void explained(hd_script *s, char *text, size_t capacity) {
    setenv("HODU_DUMP", "tuning", 1);
    const printed p = printed_begin();
    at_level(s, HD_O3, NULL);
    printed_end(p, text, capacity);
    unsetenv("HODU_DUMP");
}

static void ways_are_explained(void **state) {
    (void)state;
    HD_SCOPE;
    static char text[1 << 14];
    hd_cache_clear();
    explained(product(large, HD_F32, CONSTANT), text, sizeof text);
    assert_non_null(strstr(text, " us, launches by rules, one after the other\n"));
    assert_non_null(strstr(text, " us, products in blocks of 256 along k\n"));
    assert_non_null(strstr(text, " us, products in blocks of 1024 along k\n"));
    assert_non_null(strstr(text, " shared out"));
    assert_non_null(strstr(text, "tuning: kept: "));
    const bool has_unit = hd_kernels()->gemm_parts.mr > 0;
    assert_int_equal(strstr(text, " unit\n") != NULL, has_unit); /* the other one */
}

/* ---- weights that are packed where they lie ---------------------------------------------------------------------- */
static hd_script *with_weight_of_its_own(void) {
    HD_SCOPE;
    return hd_keep(product((sizes){100, 1500, 224}, HD_F32, CONSTANT));
}

/* One level has packed the only weight there is, another wants it packed otherwise. */
static void a_weight_that_was_packed_otherwise(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; ++way) {
        HD_SCOPE;
        entry e;
        tune_anew(with_weight_of_its_own(), &e);
        keep_way(&e, ways[way]);
        hd_script *s = with_weight_of_its_own();
        hd_tensor *by_rules = at_level(s, HD_O2, NULL), *tuned = at_level(s, HD_O3, NULL),
                  *expected = at_level(s, HD_O0, NULL);
        assert_within_units(tuned, expected, 64);
        assert_identical(at_level(s, HD_O2, NULL), by_rules);
        hd_script *other = with_weight_of_its_own(); /* the other way round */
        assert_identical(at_level(other, HD_O3, NULL), tuned);
        assert_identical(at_level(other, HD_O2, NULL), by_rules);
        assert_identical(at_level(other, HD_O3, NULL), tuned);
    }
}

/* ---- entries that are not to be used ----------------------------------------------------------------------------- */
static int64_t alternatives_now(void) {
    HD_SCOPE;
    int64_t alternatives;
    at_level(product(large, HD_F32, CONSTANT), HD_O3, &alternatives);
    return alternatives;
}

/* As they were before products had ways: a key without a format, and two bytes for each launch. */
static void older_entries_are_not_used(void **state) {
    (void)state;
    HD_SCOPE;
    entry e;
    tune_anew(product(large, HD_F32, CONSTANT), &e);
    const hd_tuning *t = (void *)e.tuning;
    char older[MOST_BYTES] = {0};
    const size_t bytes = sizeof *t + t->launch_count * 2;
    memcpy(older, t, sizeof *t);
    hd_cache_clear();
    hd_cache_write(e.key, e.key_bytes - sizeof(int64_t), older, bytes);
    assert_in_range(alternatives_now(), 3, 30);
    hd_cache_clear();
    hd_cache_write(e.key, e.key_bytes, older, bytes); /* not even under the key of today */
    assert_in_range(alternatives_now(), 3, 30);
    assert_int_equal(alternatives_now(), 0);
}

static void unsound_entries_are_not_used(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_product_config unsound[] = {{.unit = 9}, {.share = 9}, {.windows = 9}};
    entry e;
    tune_anew(product(large, HD_F32, CONSTANT), &e);
    for (int i = 0; i < 3; ++i) {
        keep_way(&e, unsound[i]);
        assert_in_range(alternatives_now(), 3, 30);
        assert_int_equal(alternatives_now(), 0);
    }
}

RUN_ON_THE_CPU_WITH("nothing is tuned there", make_own_cache, remove_own_cache, test(every_way_gives_the_same),
                    test(every_kind_of_product), test(ways_are_heeded), test(ways_are_explained), test(ways_are_tried),
                    test(a_weight_that_was_packed_otherwise), test(older_entries_are_not_used),
                    test(unsound_entries_are_not_used))
