/* Parameters and buffers of modules in .safetensors files. */
#include "each_allocation.h"
#include "folder.h"

#if HD_HAS_FILES

static hd_tensor *pass(hd_module *m, hd_tensor *x) {
    (void)m;
    return x;
}
static const hd_module_class with_buffer = {.name = "counter", .forward = pass};

/* 0.weight [3,2], 0.bias [3], 1.weight [1,3], 2.count i64 (a buffer). */
static hd_module *model(double value) {
    hd_module *counter = hd_module_new(&with_buffer, NULL);
    hd_module_add_buffer(counter, "count", hd_full(HD_SHAPE(2), HD_I64, value));
    hd_module *m =
        HD_SEQUENTIAL(hd_linear(2, 3, NULL), hd_linear(3, 1, HD_OPTS(hd_linear_opts, .no_bias = true)), counter);
    hd_tensors *p = hd_module_parameters(m);
    HD_NO_GRAD;
    for (int64_t i = 0; i < hd_tensors_count(p); ++i) hd_fill(hd_tensors_get(p, i), value + (double)i);
    return m;
}

static void assert_model(hd_module *m, double value) {
    assert_values(hd_module_get(m, "0.weight"), HD_F32, value, value, value, value, value, value);
    assert_values(hd_module_get(m, "0.bias"), HD_F32, value + 1, value + 1, value + 1);
    assert_values(hd_module_get(m, "1.weight"), HD_F32, value + 2, value + 2, value + 2);
    assert_values(hd_module_get(m, "2.count"), HD_I64, value, value);
}

static void models_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *a = model(5), *b = model(-3);
    hd_tensor *weight = hd_module_get(b, "0.weight");
    hd_module_save(a, in_folder("m.safetensors"), NULL);
    hd_module_load(b, in_folder("m.safetensors"), NULL);
    assert_model(b, 5);
    assert_ptr_equal(hd_module_get(b, "0.weight"), weight); /* the tensor it was: optimizers have it */
    hd_backward(hd_sum(weight, HD_AXES(), NULL));
    assert_values(hd_grad(weight), HD_F32, 1, 1, 1, 1, 1, 1);
    hd_archive *file = hd_safetensors_load(in_folder("m.safetensors"));
    assert_int_equal(hd_archive_count(file), 4);
    assert_string_equal(hd_archive_name(file, 3), "2.count");
}

static void prefixes_choose_a_part_of_a_file(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module_save(model(5), in_folder("m.safetensors"), HD_OPTS(hd_module_save_opts, .prefix = "model."));
    hd_archive *file = hd_safetensors_load(in_folder("m.safetensors"));
    assert_true(hd_archive_has(file, "model.0.weight"));
    hd_archive *more = hd_archive_new();
    for (int64_t i = 0; i < hd_archive_count(file); ++i)
        hd_archive_add(more, hd_archive_name(file, i), hd_archive_at(file, i));
    hd_archive_add(more, "head.weight", hd_zeros(HD_SHAPE(1), HD_F32));
    hd_safetensors_save(in_folder("more.safetensors"), more, NULL);
    hd_module *m = model(0);
    hd_module_load(m, in_folder("more.safetensors"), HD_OPTS(hd_module_load_opts, .prefix = "model."));
    assert_model(m, 5);
}

/* PyTorch's name of a sequence called "layers". */
static const char *without_layers(const char *name, void *user) {
    ++*(int *)user;
    return strncmp(name, "layers.", 7) == 0 ? name + 7 : NULL;
}

static void names_of_others_are_renamed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *file = hd_archive_new();
    hd_archive_add(file, "layers.0.weight", hd_full(HD_SHAPE(3, 2), HD_F32, 1));
    hd_archive_add(file, "layers.0.bias", hd_full(HD_SHAPE(3), HD_F32, 2));
    hd_archive_add(file, "layers.1.weight", hd_full(HD_SHAPE(1, 3), HD_F32, 3));
    hd_archive_add(file, "layers.2.count", hd_full(HD_SHAPE(2), HD_I64, 1));
    hd_archive_add(file, "rotary.table", hd_full(HD_SHAPE(2), HD_F32, 1));
    hd_safetensors_save(in_folder("m.safetensors"), file, NULL);
    hd_module *m = model(0);
    int asked = 0;
    hd_module_load(m, in_folder("m.safetensors"),
                   HD_OPTS(hd_module_load_opts, .rename = without_layers, .rename_user = &asked));
    assert_model(m, 1);
    assert_int_equal(asked, 5);
}

static const char *always_one(const char *name, void *user) {
    (void)name, (void)user;
    return "0.weight";
}
static const char *fails(const char *name, void *user) {
    (void)user;
    hd_scalar(1, (hd_dtype)99);
    return name;
}

static void what_does_not_fit_is_one_error_and_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *file = hd_archive_new();
    hd_archive_add(file, "0.weight", hd_full(HD_SHAPE(2, 3), HD_F32, 1));
    hd_archive_add(file, "0.bias", hd_full(HD_SHAPE(3), HD_F64, 2));
    hd_archive_add(file, "2.count", hd_full(HD_SHAPE(2), HD_I64, 1));
    hd_archive_add(file, "3.more", hd_full(HD_SHAPE(2), HD_F32, 1));
    hd_safetensors_save(in_folder("m.safetensors"), file, NULL);
    hd_module *m = model(7);
    hd_module_load(m, in_folder("m.safetensors"), NULL);
    assert_true(strstr(hd_error_message(), "\"1.weight\" is missing") != NULL);
    assert_true(strstr(hd_error_message(), "\"0.bias\" is f32 [3] and there f64 [3]") != NULL);
    assert_true(strstr(hd_error_message(), "\"3.more\" is left over") != NULL);
    assert_error(HD_ERROR_VALUE,
                 "m.safetensors\" does not fit, and nothing is loaded: \"0.weight\" is f32 [3,2] and there f32 [2,3]");
    assert_model(m, 7);
    hd_module_load(m, in_folder("m.safetensors"), HD_OPTS(hd_module_load_opts, .partial = true));
    assert_error(HD_ERROR_VALUE, "\"0.weight\" is f32 [3,2]"); /* shapes have to fit all the same */
    hd_module_load(m, in_folder("m.safetensors"), HD_OPTS(hd_module_load_opts, .partial = true, .rename = always_one));
    assert_error(HD_ERROR_VALUE, "has two tensors that would be \"0.weight\", the second one \"0.bias\"");
    hd_module_load(m, in_folder("m.safetensors"), HD_OPTS(hd_module_load_opts, .rename = fails));
    assert_error(HD_ERROR_DTYPE, "");
    assert_model(m, 7);
}

static void many_differences_are_counted(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *file = hd_archive_new();
    for (int i = 0; i < 100; ++i) {
        char name[40];
        snprintf(name, sizeof name, "a.quite.long.name.of.a.tensor.%d", i);
        hd_archive_add(file, name, hd_zeros(HD_SHAPE(1), HD_F32));
    }
    hd_safetensors_save(in_folder("m.safetensors"), file, NULL);
    hd_module_load(model(0), in_folder("m.safetensors"), NULL);
    assert_error(HD_ERROR_VALUE, " more"); /* 104 in all, and the message is whole */
}

static void parts_are_loaded_when_asked_for(void **state) {
    (void)state;
    HD_SCOPE;
    hd_archive *file = hd_archive_new();
    hd_archive_add(file, "0.bias", hd_full(HD_SHAPE(3), HD_F32, 9));
    hd_archive_add(file, "other", hd_full(HD_SHAPE(3), HD_F32, 9));
    hd_safetensors_save(in_folder("m.safetensors"), file, NULL);
    hd_module *m = model(1);
    hd_module_load(m, in_folder("m.safetensors"), HD_OPTS(hd_module_load_opts, .partial = true));
    assert_values(hd_module_get(m, "0.bias"), HD_F32, 9, 9, 9);
    assert_values(hd_module_get(m, "1.weight"), HD_F32, 3, 3, 3);
}

static void models_are_loaded_beside_a_builder(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = model(1);
    hd_module_save(model(4), in_folder("m.safetensors"), NULL);
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_module_load(m, in_folder("m.safetensors"), NULL);
    hd_builder_end(b);
    assert_model(m, 4);
}

static void wrong_arguments_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = model(1);
    hd_module_save(NULL, in_folder("m.safetensors"), NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_save: `module` is NULL");
    hd_module_save(m, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_save: `path` is NULL");
    hd_module_load(NULL, in_folder("m.safetensors"), NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_load: `module` is NULL");
    hd_module_load(m, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_load: `path` is NULL");
    hd_module_load(m, in_folder("m.safetensors"), NULL);
    assert_error(HD_ERROR_STATE, "m.safetensors\" cannot be opened: No such file or directory");
    assert_int_equal(folder_entries(false), 0);
}

static void there_and_back(void) {
    hd_module *m = model(1);
    hd_module_save(m, in_folder("m.safetensors"), NULL);
    hd_module_load(m, in_folder("m.safetensors"), NULL);
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(there_and_back, 600);
}

RUN(file_test(models_come_back), file_test(prefixes_choose_a_part_of_a_file), file_test(names_of_others_are_renamed),
    file_test(what_does_not_fit_is_one_error_and_changes_nothing), file_test(many_differences_are_counted),
    file_test(parts_are_loaded_when_asked_for), file_test(models_are_loaded_beside_a_builder),
    file_test(wrong_arguments_are_errors), file_test(every_allocation_may_fail))

#else
int main(void) { return 77; }
#endif
