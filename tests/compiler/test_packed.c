/* Weights that are packed where they lie: they are in memory once, and look as they did to whoever asks for them. */
#include "graph/calls.h"
#include "compiler/levels.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 16, WIDE = 1024 };

/* Two layers, whose weights only the script has. */
static hd_script *layers(void) {
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32), *v = operand(S(WIDE, WIDE), 2, HD_F32);
    hd_builder *b = started("layers");
    hd_tensor *h = hd_relu(hd_matmul(hd_mul_scalar(hd_input("x", S(ROWS, WIDE), HD_F32), 1e-3), w));
    hd_builder_add_output(b, "y", hd_matmul(h, v));
    return hd_keep(built(b));
}
static hd_script *with_input(hd_script *s) {
    hd_script_set_input(s, "x", operand(S(ROWS, WIDE), 0, HD_F32));
    return s;
}

static void weights_are_in_memory_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = with_input(layers());
    const int64_t before = hd_memory().live_bytes;
    hd_memory_reset_peak();
    hd_script_run(s);
    assert_ok();
    const int64_t weights = 2 * WIDE * WIDE * 4;
    assert_true(hd_memory().live_bytes - before < weights / 8);
    assert_true(hd_memory().peak_bytes - before < weights / 2); /* a block of one of them is put aside at a time */
}

/* Packed or not, every level finds them, in any order. */
static void levels_agree_after_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = with_input(layers());
    hd_tensor *first = output(s, "y");
    levels_agree(s, 64, "layers");
    hd_script_set_optimization_level(s, HD_O2);
    assert_identical(output(s, "y"), first);
}

static char *bytes_of(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static void files_are_the_same_before_and_after(void **state) {
    (void)state;
    HD_SCOPE;
    char paths[2][32] = {"/tmp/hodu-packed-XXXXXX", "/tmp/hodu-packed-XXXXXX"};
    for (int i = 0; i < 2; ++i) close(mkstemp(paths[i]));
    hd_script *s = layers();
    hd_script_save(s, paths[0]);
    hd_script_run(with_input(s));
    hd_script_save(s, paths[1]);
    assert_ok();
    size_t sizes[2];
    char *bytes[2] = {bytes_of(paths[0], &sizes[0]), bytes_of(paths[1], &sizes[1])};
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    /* loaded ones are packed too, and saved again */
    hd_script *loaded = with_input(hd_script_load(paths[0]));
    assert_identical(output(loaded, "y"), output(s, "y"));
    hd_script_save(loaded, paths[1]);
    assert_ok();
    free(bytes[1]);
    bytes[1] = bytes_of(paths[1], &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    for (int i = 0; i < 2; ++i) {
        free(bytes[i]);
        unlink(paths[i]);
    }
}

/* Who else looks at a weight keeps it as it is; a weight that is changed afterwards is another one. */
static void others_see_what_they_saw(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32), *same = hd_copy(w);
    hd_builder *b = started("shared");
    hd_builder_add_output(b, "y", hd_matmul(hd_input("x", S(ROWS, WIDE), HD_F32), w));
    hd_script *s = with_input(built(b));
    hd_tensor *first = output(s, "y");
    assert_identical(w, same);
    hd_fill(w, 0);
    assert_identical(output(s, "y"), first);
}

/* A constant that is read elsewhere too, and one that is an output. */
static void constants_with_other_uses(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; ++kind) {
        HD_SCOPE;
        hd_script *s;
        {
            HD_SCOPE;
            hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32);
            hd_builder *b = started("twice");
            hd_builder_add_output(b, "y", hd_matmul(hd_mul_scalar(hd_input("x", S(ROWS, WIDE), HD_F32), 1e-3), w));
            hd_builder_add_output(b, "w", kind == 0 ? w : hd_sum(w, X(0), NULL));
            s = hd_keep(built(b));
        }
        levels_agree(with_input(s), 64, "twice");
    }
}

/* ---- clones ------------------------------------------------------------------------------------------------------ */
typedef struct worker {
    hd_script *script;
    float *y;
    bool failed;
} worker;

static void *runs(void *given) {
    worker *w = given;
    HD_SCOPE;
    for (int i = 0; i < 3; ++i) {
        hd_tensor *y = output(w->script, "y");
        w->failed = w->failed || y == NULL;
        if (y != NULL) memcpy(w->y, hd_data(y, HD_F32), ROWS * WIDE * sizeof *w->y);
    }
    return NULL;
}

/* Clones from before the first run and from after it, on threads of their own; one of them at a level that reads the
 * weights as they are. */
static void clones_run_beside_it(void **state) {
    (void)state;
    for (int after = 0; after < 2; ++after) {
        HD_SCOPE;
        enum { CLONES = 3 };
        hd_script *s = with_input(layers());
        hd_tensor *y = after ? output(s, "y") : NULL;
        pthread_t threads[CLONES];
        worker workers[CLONES];
        for (int i = 0; i < CLONES; ++i) {
            workers[i] = (worker){.script = with_input(hd_script_clone(s)), .y = malloc(ROWS * WIDE * sizeof(float))};
            if (i == 2) hd_script_set_optimization_level(workers[i].script, HD_O1);
        }
        assert_ok();
        for (int i = 0; i < CLONES; ++i) assert_int_equal(pthread_create(&threads[i], NULL, runs, &workers[i]), 0);
        if (y == NULL) y = output(s, "y");
        for (int i = 0; i < CLONES; ++i) pthread_join(threads[i], NULL);
        for (int i = 0; i < CLONES; ++i) {
            assert_false(workers[i].failed);
            assert_memory_equal(workers[i].y, hd_data(y, HD_F32), ROWS * WIDE * sizeof(float));
            free(workers[i].y);
        }
    }
}

RUN(test(weights_are_in_memory_once), test(levels_agree_after_it), test(files_are_the_same_before_and_after),
    test(others_see_what_they_saw), test(constants_with_other_uses), test(clones_run_beside_it))
