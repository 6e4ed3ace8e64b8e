/* Checkpoints: a training that goes on from one is the training that was not interrupted, bit for bit. */
#include "each_allocation.h"
#include "folder.h"
#include "in_a_child.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#if HD_HAS_FILES

enum { STEPS = 20, HALF = 10, WIDTH = 6 };

typedef struct training {
    hd_module *model;
    hd_optimizer *optimizer;
} training;

static training begin(uint64_t seed, bool adam) {
    hd_seed(seed);
    hd_module *m = HD_SEQUENTIAL(hd_linear(WIDTH, 16, NULL), hd_gelu_layer(), hd_linear(16, 1, NULL));
    hd_tensors *p = hd_module_parameters(m);
    return (training){m, adam ? hd_adam(p, 0.01, NULL) : hd_sgd(p, 0.01, HD_OPTS(hd_sgd_opts, .momentum = 0.9))};
}

/* One step on drawn numbers, with dropout, so that the generator matters; its loss. */
static float step(const training *t) {
    HD_SCOPE;
    hd_optimizer_zero_grad(t->optimizer);
    hd_tensor *x = hd_dropout(hd_randn(HD_SHAPE(8, WIDTH), HD_F32), 0.25);
    hd_tensor *loss =
        hd_mse(hd_forward(t->model, x), hd_sum(x, HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true)), NULL);
    hd_backward(loss);
    hd_optimizer_step(t->optimizer);
    return (float)hd_item(loss);
}

static void save(const char *path, const training *t, double epoch) {
    hd_checkpoint_number numbers[] = {{"epoch", epoch}, {"best", 0.1}};
    hd_checkpoint_save(path, HD_OPTS(hd_checkpoint_opts, .module = t->model, .optimizer = t->optimizer,
                                     .numbers = numbers, .number_count = 2));
}
static double load(const char *path, const training *t) {
    hd_checkpoint_number numbers[] = {{"epoch", -1}, {"best", -1}};
    hd_checkpoint_load(path, HD_OPTS(hd_checkpoint_opts, .module = t->model, .optimizer = t->optimizer,
                                     .numbers = numbers, .number_count = 2));
    return numbers[1].value == 0.1 ? numbers[0].value : -2;
}

static void a_training_goes_on_bit_for_bit(void **state) {
    (void)state;
    for (int adam = 0; adam < 2; ++adam) {
        HD_SCOPE;
        float losses[STEPS];
        training t = begin(3, adam);
        for (int i = 0; i < STEPS; ++i) {
            if (i == HALF) save(in_folder("c"), &t, i);
            losses[i] = step(&t);
        }
        training u = begin(77, adam); /* other weights, another seed, and a learning rate that is not the same */
        hd_optimizer_set_learning_rate(u.optimizer, 1);
        step(&u);
        assert_int_equal((int)load(in_folder("c"), &u), HALF);
        assert_ok();
        assert_values(hd_optimizer_learning_rate(u.optimizer), HD_F64, 0.01);
        assert_int_equal((int)hd_item(hd_optimizer_steps(u.optimizer)), HALF);
        for (int i = HALF; i < STEPS; ++i) {
            const float loss = step(&u);
            assert_memory_equal(&loss, &losses[i], sizeof loss);
        }
    }
}

/* In another process, which knows nothing of the first one. */
static void another_process_goes_on_bit_for_bit(void **state) {
    (void)state;
    HD_SCOPE;
    float losses[STEPS];
    int status;
    training t = begin(3, true);
    for (int i = 0; i < STEPS; ++i) {
        if (i == HALF) save(in_folder("c"), &t, i);
        losses[i] = step(&t);
    }
    assert_ok();
    const pid_t child = fork();
    if (child == 0) {
        training u = begin(5, true);
        require((int)load(in_folder("c"), &u) == HALF);
        for (int i = HALF; i < STEPS; ++i) {
            const float loss = step(&u);
            require(memcmp(&loss, &losses[i], sizeof loss) == 0);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void generators_and_tensors_of_the_users_are_kept(void **state) {
    (void)state;
    HD_SCOPE;
    hd_generator *g = hd_generator_new(9), *h = hd_generator_new(1);
    hd_generator_use(g);
    hd_rand(HD_SHAPE(3), HD_F32);
    hd_archive *mine = hd_archive_new(), *theirs = hd_archive_new();
    hd_archive_add(mine, "average", hd_full(HD_SHAPE(3), HD_BF16, 2));
    hd_archive_add(theirs, "average", hd_zeros(HD_SHAPE(3), HD_BF16));
    hd_generator_use(NULL);
    hd_checkpoint_save(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .generator = g, .tensors = mine));
    hd_checkpoint_load(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .generator = h, .tensors = theirs));
    assert_ok();
    assert_int_equal(hd_generator_seed(h), 9);
    assert_int_equal(hd_generator_draw(h), hd_generator_draw(g));
    assert_values(hd_archive_get(theirs, "average"), HD_BF16, 2, 2, 2);
}

static void what_does_not_fit_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    training t = begin(3, true), u = begin(4, false);
    step(&t);
    save(in_folder("c"), &t, 1);
    hd_tensor *before = hd_copy(hd_module_get(u.model, "0.weight"));
    const uint64_t draw = hd_generator_draw(NULL);
    assert_true(load(in_folder("c"), &u) < 0);
    assert_error(HD_ERROR_VALUE, "does not fit, and nothing is loaded: \"optimizer.slot1.0\" is left over");
    assert_same(hd_module_get(u.model, "0.weight"), before);
    assert_int_equal(hd_generator_draw(NULL), draw);
    hd_checkpoint_load(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .module = t.model, .optimizer = t.optimizer));
    assert_error(HD_ERROR_VALUE, "\"number.epoch\" is left over, \"number.best\" is left over");
    hd_module_save(t.model, in_folder("m"), NULL);
    load(in_folder("m"), &t);
    assert_error(HD_ERROR_VALUE, "m\" is no checkpoint; hd_module_load reads models");
}

static void another_version_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    hd_archive_set_text(a, "format", "hodu checkpoint 2");
    hd_safetensors_save(in_folder("c"), a, NULL);
    hd_checkpoint_load(in_folder("c"), NULL);
    assert_error(HD_ERROR_VALUE, "is a checkpoint of version \"2\"; this library reads version 1");
}

static void wrong_arguments_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_checkpoint_number twice[] = {{"a", 1}, {"a", 2}}, nameless[] = {{NULL, 1}};
    hd_checkpoint_save(NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_checkpoint_save: `path` is NULL");
    hd_checkpoint_load(NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_checkpoint_load: `path` is NULL");
    hd_checkpoint_load(in_folder("c"), NULL);
    assert_error(HD_ERROR_STATE, "cannot be opened");
    hd_checkpoint_save(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .number_count = 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`numbers` is NULL");
    hd_checkpoint_save(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .number_count = -1));
    assert_error(HD_ERROR_VALUE, "number_count is -1");
    hd_checkpoint_save(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .numbers = twice, .number_count = 2));
    assert_error(HD_ERROR_VALUE, "\"number.a\" already");
    hd_checkpoint_save(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .numbers = nameless, .number_count = 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "number 0 has no name");
    hd_checkpoint_save(in_folder("c"),
                       HD_OPTS(hd_checkpoint_opts, .tensors = (hd_archive *)hd_zeros(HD_SHAPE(1), HD_F32)));
    assert_error(HD_ERROR_STATE, "`tensors` is no living archive");
    assert_int_equal(folder_entries(false), 0);
}

/* ---- at any moment ----------------------------------------------------------------------------------------------- */
/* Saves files that are full of one number each, without an end. */
static void save_for_ever(const char *path) {
    for (int i = 1;; ++i) {
        HD_SCOPE;
        hd_archive *a = hd_archive_new();
        hd_archive_add(a, "x", hd_full(HD_SHAPE(20000), HD_F32, i));
        hd_archive_add(a, "y", hd_full(HD_SHAPE(3), HD_I64, i));
        hd_checkpoint_save(path, HD_OPTS(hd_checkpoint_opts, .tensors = a));
        if (!hd_ok()) _exit(1);
    }
}

static void killed_at_any_moment_a_file_is_whole(void **state) {
    (void)state;
    int written = 0;
    for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        int status;
        if (child == 0) save_for_ever(in_folder("c"));
        const struct timespec wait = {0, 3000000 + i * 37000};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        HD_SCOPE;
        if (access(in_folder("c"), F_OK) != 0) continue;
        hd_archive *a = hd_archive_new();
        hd_tensor *x = hd_zeros(HD_SHAPE(20000), HD_F32), *y = hd_zeros(HD_SHAPE(3), HD_I64);
        hd_archive_add(a, "x", x);
        hd_archive_add(a, "y", y);
        hd_checkpoint_load(in_folder("c"), HD_OPTS(hd_checkpoint_opts, .tensors = a));
        assert_ok();
        const double n = hd_item(hd_select(y, 0, 0));
        assert_true(n >= 1);
        assert_same(x, hd_full(HD_SHAPE(20000), HD_F32, n));
        ++written;
    }
    assert_true(written > 100);
}

static void there_and_back(void) {
    training t = begin(3, true);
    save(in_folder("c"), &t, 1);
    load(in_folder("c"), &t);
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(there_and_back, 1500);
}

RUN(file_test(another_process_goes_on_bit_for_bit), file_test(killed_at_any_moment_a_file_is_whole),
    file_test(a_training_goes_on_bit_for_bit), file_test(generators_and_tensors_of_the_users_are_kept),
    file_test(what_does_not_fit_changes_nothing), file_test(another_version_is_refused),
    file_test(wrong_arguments_are_errors), file_test(every_allocation_may_fail))

#else
int main(void) { return 77; }
#endif
