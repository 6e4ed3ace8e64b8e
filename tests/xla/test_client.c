/* XLA at work, on the CPU plugin: values, donation, memory that is borrowed, what runs on its own, threads, forks, and
 * everything that would end the process inside XLA. */
#include "xla/programs.h"
#include "core/memory.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static hd_xla_device *cpu(void) {
    hd_xla_device *device = hd_xla_device_of(hd_cpu());
    assert_ok();
    return device;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
static void a_program_computes(void **state) {
    (void)state;
    hd_xla_device *device = cpu();
    hd_xla_program *program = compile_matmul(device);
    assert_ok();
    assert_int_equal(program->output_count, 1);
    assert_true(hd_xla_type_equal(&program->outputs[0], &(hd_xla_type){HD_F32, HD_SHAPE(2, 4)}));
    hd_xla_buffer x = make_f32(device, HD_SHAPE(2, 3), matmul_x), w = make_f32(device, HD_SHAPE(3, 4), matmul_w), y;
    hd_pjrt_event *done;
    hd_xla_run(program, (hd_xla_buffer *[]){&x, &w}, 2, &y, &done);
    assert_ok();
    assert_int_equal(hd_xla_event_await(device, done), HD_OK);
    assert_true(hd_xla_buffer_is_ready(&y));
    assert_buffer(&y, matmul_y, 8);
    void *in_place;
    hd_xla_buffer_pointer(&y, &in_place);
    assert_ok();
    assert_memory_equal(in_place, matmul_y, sizeof matmul_y);
    hd_xla_buffer_destroy(&x), hd_xla_buffer_destroy(&w), hd_xla_buffer_destroy(&y);
    hd_xla_program_release(program);
}

static void every_dtype_goes_there_and_back(void **state) {
    (void)state;
    unsigned char given[48], got[48];
    for (int i = 0; i < 48; ++i) given[i] = (unsigned char)(i % 2);
    for (hd_dtype d = HD_DTYPE_DEFAULT + 1; d < HD_DTYPE_COUNT; ++d) {
        const hd_xla_type type = {d, HD_SHAPE(2, 3)};
        const size_t bytes = 6 * hd_dtype_size(d);
        hd_xla_buffer b;
        memset(got, 0xff, sizeof got);
        hd_xla_buffer_make(cpu(), &type, given, HD_XLA_COPY, &b);
        hd_xla_buffer_read(&b, got, bytes);
        assert_ok();
        assert_memory_equal(given, got, bytes);
        hd_xla_buffer_destroy(&b);
    }
}

static void scalars_and_nothing_at_all(void **state) {
    (void)state;
    hd_xla_buffer one, none;
    float value = 0;
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE()}, &(float){3}, HD_XLA_COPY, &one);
    hd_xla_buffer_read(&one, &value, sizeof value);
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(0, 5)}, NULL, HD_XLA_BORROW, &none);
    hd_xla_buffer_read(&none, NULL, 0);
    assert_ok();
    assert_true(value == 3);
    hd_xla_buffer_destroy(&one), hd_xla_buffer_destroy(&none);
    hd_xla_buffer_destroy(&none); /* once more does nothing */
}

static const char *const text_of_result[] = {"i1", "ui8", "i64", "bf16", "f8E4M3FN", "f8E5M2", "f16", "f64"};
static const hd_dtype dtype_of_result[] = {HD_BOOL, HD_U8, HD_I64, HD_BF16, HD_F8E4M3, HD_F8E5M2, HD_F16, HD_F64};

static void outputs_say_their_types(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof text_of_result / sizeof *text_of_result; ++i) {
        char text[512];
        snprintf(
            text, sizeof text,
            "module @m { func.func public @main(%%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2x%s>) { %%0 = "
            "stablehlo.convert %%x : (tensor<3x2xf32>) -> tensor<3x2x%s> return %%x, %%0 : tensor<3x2xf32>, "
            "tensor<3x2x%s> } }",
            text_of_result[i], text_of_result[i], text_of_result[i]);
        hd_xla_program *program =
            compile_text(cpu(), text, &(const hd_xla_parameter){f32_of(HD_SHAPE(3, 2)), false}, 1);
        assert_ok();
        assert_int_equal(program->output_count, 2);
        assert_true(hd_xla_type_equal(&program->outputs[1], &(hd_xla_type){dtype_of_result[i], HD_SHAPE(3, 2)}));
        hd_xla_program_release(program);
    }
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static void equal_texts_are_one_program(void **state) {
    (void)state;
    hd_xla_program *a = compile_matmul(cpu()), *b = compile_matmul(cpu());
    assert_ok();
    assert_ptr_equal(a, b);
    assert_null(compile_text(cpu(), matmul_text, (const hd_xla_parameter[]){takes(HD_SHAPE(2, 3))}, 1));
    assert_error(HD_ERROR_INTERNAL, "other parameters");
    hd_xla_program_release(a), hd_xla_program_release(b);
}

static void figures_are_there(void **state) {
    (void)state;
    hd_xla_program *program = compile_increment(cpu());
    assert_ok();
    assert_true(program->stats.compile_nanoseconds > 0);
    assert_int_equal(program->stats.argument_bytes, 4096);
    assert_int_equal(program->stats.output_bytes, 4096);
    assert_int_equal(program->stats.alias_bytes, 4096);
    hd_xla_program_release(program);
}

static void a_wrong_program_is_an_error_with_the_words_of_xla(void **state) {
    (void)state;
    static const char wrong[] =
        "module @m { func.func public @main() -> tensor<f32> { return %nothing : tensor<f32> } }";
    assert_null(compile_text(cpu(), wrong, NULL, 0));
    assert_error(HD_ERROR_INTERNAL, "XLA does not compile the program: -:1:62: error: use of undeclared SSA value");
    assert_null(compile_text(cpu(), "this is no program", NULL, 0));
    assert_error(HD_ERROR_INTERNAL, "XLA does not compile the program: ");
    assert_null(compile_text(cpu(), "", NULL, 0));
    assert_error(HD_ERROR_VALUE, "empty program");
    assert_null(hd_xla_compile(cpu(), matmul_text, strlen(matmul_text), NULL, 2));
    assert_error(HD_ERROR_VALUE, "2 parameters");
    assert_null(compile_text(cpu(), matmul_text, &(hd_xla_parameter){{HD_DTYPE_COUNT, HD_SHAPE(2)}, false}, 1));
    assert_error(HD_ERROR_DTYPE, "which is none");
}

/* Nobody holds the first program when the second is asked for: as in another process. Donation comes along. */
static void what_was_compiled_is_found_on_disk(void **state) {
    (void)state;
    float values[1024] = {0};
    char directory[] = "/tmp/hodu-xla-XXXXXX";
    assert_non_null(mkdtemp(directory));
    setenv("HODU_CACHE_DIR", directory, 1);
    setenv("HODU_CACHE", "1", 1);
    hd_xla_program *first = compile_increment(cpu());
    assert_ok();
    const bool serializes = !atomic_load(&cpu()->client->cannot_serialize);
    assert_false(first->stats.from_disk);
    hd_xla_program_release(first);
    hd_xla_program *second = compile_increment(cpu());
    assert_ok();
    assert_int_equal(second->stats.from_disk, serializes);
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(1024), values), y;
    void *before, *after;
    hd_xla_buffer_pointer(&x, &before);
    hd_xla_run(second, (hd_xla_buffer *[]){&x}, 1, &y, NULL);
    hd_xla_buffer_pointer(&y, &after);
    assert_ok();
    assert_ptr_equal(before, after);
    for (int i = 0; i < 1024; ++i) values[i] = 1;
    assert_buffer(&y, values, 1024);
    hd_xla_buffer_destroy(&y);
    hd_xla_program_release(second);
    hd_cache_clear();
    setenv("HODU_CACHE", "0", 1);
    rmdir(directory);
}

/* Each allocation fails once: an error, or what can be done without it is left out; never a leak. */
static void memory_runs_out_while_compiling(void **state) {
    (void)state;
    hd_xla_device *device = cpu();
    bool made = false;
    int failures = 0;
    for (int n = 0; !made; ++n) {
        hd_memory_fail_after(n);
        hd_xla_program *program = compile_matmul(device);
        made = hd_memory_attempts() <= n;
        hd_memory_fail_after(-1);
        if (program == NULL) assert_error(HD_ERROR_MEMORY, "no memory");
        failures += program == NULL;
        hd_xla_program_release(program);
    }
    assert_true(failures >= 4); /* the program, its text, its parameters, its outputs */
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static void arguments_are_compared_with_the_program(void **state) {
    (void)state;
    hd_xla_device *device = cpu();
    hd_xla_program *program = compile_matmul(device);
    hd_xla_buffer x = make_f32(device, HD_SHAPE(2, 3), matmul_x), w = make_f32(device, HD_SHAPE(3, 4), matmul_w), y,
                  whole;
    hd_xla_buffer_make(device, &(hd_xla_type){HD_I32, HD_SHAPE(2, 3)}, matmul_x, HD_XLA_COPY, &whole);
    assert_ok();
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &y, NULL);
    assert_error(HD_ERROR_VALUE, "given 1 arguments, expected 2");
    hd_xla_run(program, (hd_xla_buffer *[]){&x, &x}, 2, &y, NULL);
    assert_error(HD_ERROR_SHAPE, "argument 1 of a program of XLA is f32[2,3], expected f32[3,4]");
    hd_xla_run(program, (hd_xla_buffer *[]){&whole, &w}, 2, &y, NULL);
    assert_error(HD_ERROR_DTYPE, "argument 0 of a program of XLA is i32[2,3], expected f32[2,3]");
    hd_xla_run(program, (hd_xla_buffer *[]){&x, NULL}, 2, &y, NULL);
    assert_error(HD_ERROR_STATE, "argument 1 of a program of XLA is NULL");
    assert_null(y.handle);
    hd_xla_buffer_destroy(&x);
    hd_xla_run(program, (hd_xla_buffer *[]){&x, &w}, 2, &y, NULL);
    assert_error(HD_ERROR_STATE, "argument 0 of a program of XLA is gone");
    hd_xla_buffer_destroy(&w), hd_xla_buffer_destroy(&whole);
    hd_xla_program_release(program);
}

/* When the caller's idea of the program is wrong, XLA itself notices. */
static void parameters_that_are_not_the_programs(void **state) {
    (void)state;
    static const char text[] =
        "module @other { func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> "
        "tensor<4xf32> { %0 = stablehlo.add %x, %y : tensor<4xf32> return %0 : tensor<4xf32> } }";
    hd_xla_program *program =
        compile_text(cpu(), text, (hd_xla_parameter[]){takes(HD_SHAPE(2)), takes(HD_SHAPE(2))}, 2);
    assert_ok();
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(2), matmul_x), y;
    hd_xla_run(program, (hd_xla_buffer *[]){&x, &x}, 2, &y, NULL);
    assert_error(HD_ERROR_VALUE, "XLA does not run the program");
    hd_xla_program_release(program);
    program = compile_text(cpu(), text, &(hd_xla_parameter){f32_of(HD_SHAPE(4)), false}, 1);
    hd_xla_buffer four = make_f32(cpu(), HD_SHAPE(4), matmul_x);
    hd_xla_run(program, (hd_xla_buffer *[]){&four}, 1, &y, NULL);
    assert_error(HD_ERROR_VALUE, "XLA does not run the program");
    hd_xla_program_release(program);
    hd_xla_buffer_destroy(&x), hd_xla_buffer_destroy(&four);
}

static void what_no_buffer_can_be_is_refused(void **state) {
    (void)state;
    hd_xla_buffer b;
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_DTYPE_DEFAULT, HD_SHAPE(2)}, matmul_x, HD_XLA_COPY, &b);
    assert_error(HD_ERROR_DTYPE, "dtype 0");
    hd_xla_buffer_make(cpu(), &(hd_xla_type){(hd_dtype)77, HD_SHAPE(2)}, matmul_x, HD_XLA_COPY, &b);
    assert_error(HD_ERROR_DTYPE, "dtype 77");
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(2, -1)}, matmul_x, HD_XLA_COPY, &b);
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(2)}, NULL, HD_XLA_COPY, &b);
    assert_error(HD_ERROR_NULL_ARGUMENT, "f32[2]");
    float out[3];
    b = make_f32(cpu(), HD_SHAPE(2), matmul_x);
    hd_xla_buffer_read(&b, out, sizeof out);
    assert_error(HD_ERROR_VALUE, "12 bytes were given to read f32[2], which is 8");
    hd_xla_buffer_destroy(&b);
    hd_xla_buffer_read(&b, out, 8);
    assert_error(HD_ERROR_STATE, "gone");
    assert_null(hd_xla_device_of((hd_device){HD_DEVICE_CPU, 7}));
    assert_error(HD_ERROR_DEVICE, "no device cpu:7, but 1 of that kind");
    assert_null(hd_xla_device_of(hd_metal()));
    assert_error(HD_ERROR_DEVICE, "not on metal");
}

/* More than an address can say, so that no system promises it. */
static void memory_that_is_not_there(void **state) {
    (void)state;
    static const char text[] =
        "module @m { func.func public @main(%x: tensor<f32>) -> tensor<16777216x16777216xf32> { %0 = "
        "stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<16777216x16777216xf32> return %0 : "
        "tensor<16777216x16777216xf32> } }";
    hd_xla_program *program = compile_text(cpu(), text, &(hd_xla_parameter){f32_of(HD_SHAPE()), false}, 1);
    assert_ok();
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(), matmul_x), y;
    if (hd_xla_run(program, &(hd_xla_buffer *){&x}, 1, &y, NULL) == HD_OK) hd_xla_buffer_await(&y);
    assert_error(HD_ERROR_MEMORY, "1125899906842624");
    hd_xla_buffer_destroy(&x), hd_xla_buffer_destroy(&y);
    hd_xla_program_release(program);
}

/* ---- whose memory it is ------------------------------------------------------------------------------------------ */
static void a_donated_buffer_is_gone_and_its_memory_reused(void **state) {
    (void)state;
    float values[1024];
    for (int i = 0; i < 1024; ++i) values[i] = (float)i;
    hd_xla_program *program = compile_increment(cpu());
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(1024), values), next;
    void *before, *after;
    hd_xla_buffer_pointer(&x, &before);
    for (int step = 0; step < 100; ++step) {
        hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &next, NULL);
        assert_ok();
        assert_null(x.handle);
        assert_true(hd_xla_buffer_is_gone(&x));
        x = next;
    }
    hd_xla_buffer_pointer(&x, &after);
    assert_ptr_equal(before, after);
    for (int i = 0; i < 1024; ++i) values[i] += 100;
    assert_buffer(&x, values, 1024);
    hd_xla_buffer_destroy(&x);
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &next, NULL);
    assert_error(HD_ERROR_STATE, "gone");
    hd_xla_program_release(program);
}

static void a_buffer_that_is_donated_is_given_once(void **state) {
    (void)state;
    static const char text[] =
        "module @m { func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> "
        "tensor<4xf32> { %0 = stablehlo.add %x, %y : tensor<4xf32> return %0 : tensor<4xf32> } }";
    hd_xla_parameter parameters[] = {takes(HD_SHAPE(4)), takes(HD_SHAPE(4))};
    parameters[0].donated = true;
    hd_xla_program *program = compile_text(cpu(), text, parameters, 2);
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(4), matmul_x), y;
    assert_ok();
    hd_xla_run(program, (hd_xla_buffer *[]){&x, &x}, 2, &y, NULL);
    assert_error(HD_ERROR_VALUE, "previously donated in the same call");
    assert_false(hd_xla_buffer_is_gone(&x));
    hd_xla_buffer_destroy(&x);
    hd_xla_program_release(program);
}

/* A text that donates what its caller did not mention: the buffer is gone all the same, and that is an error to use
 * it. */
static void a_buffer_donated_unnoticed(void **state) {
    (void)state;
    static const char text[] =
        "module @quiet { func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) "
        "-> tensor<4xf32> { %0 = stablehlo.negate %x : tensor<4xf32> return %0 : tensor<4xf32> } }";
    hd_xla_program *program = compile_text(cpu(), text, (hd_xla_parameter[]){takes(HD_SHAPE(4))}, 1);
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(4), matmul_x), y, z;
    float out[4];
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &y, NULL);
    assert_ok();
    assert_true(hd_xla_buffer_is_gone(&x));
    hd_xla_buffer_read(&x, out, sizeof out);
    assert_error(HD_ERROR_STATE, "donated");
    void *pointer;
    hd_xla_buffer_pointer(&x, &pointer);
    assert_error(HD_ERROR_STATE, "donated");
    assert_true(hd_xla_buffer_is_ready(&x));
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &z, NULL);
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    hd_xla_buffer_destroy(&x), hd_xla_buffer_destroy(&y);
    hd_xla_program_release(program);
}

/* A program that would take a view's memory leaves it as it is, run after run; so it sees what is written there. */
static void a_view_is_never_taken(void **state) {
    (void)state;
    static _Alignas(256) float memory[1024];
    float expected[1024];
    void *place = NULL;
    hd_xla_program *program = compile_increment(cpu());
    hd_xla_buffer x, y;
    hd_xla_buffer_view(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(1024)}, memory, &x);
    assert_ok();
    for (int step = 0; step < 3; ++step) {
        hd_pjrt_event *done;
        for (int i = 0; i < 1024; ++i) memory[i] = (float)(i * step), expected[i] = memory[i] + 1;
        hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &y, &done);
        assert_ok();
        assert_int_equal(hd_xla_event_await(cpu(), done), HD_OK);
        assert_false(hd_xla_buffer_is_gone(&x));
        assert_buffer(&y, expected, 1024);
        for (int i = 0; i < 1024; ++i) assert_true(memory[i] == (float)(i * step));
        assert_true(hd_xla_buffer_has_place(&y));
        assert_int_equal(hd_xla_buffer_place(&y, &place), HD_OK);
        assert_memory_equal(place, expected, sizeof expected);
        assert_ptr_not_equal(place, memory);
        hd_xla_buffer_destroy(&y);
    }
    hd_xla_buffer_destroy(&x);
    hd_xla_buffer_view(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(2, 3)}, NULL, &x);
    assert_error(HD_ERROR_DEVICE, "XLA cannot look at f32[2,3] in no memory");
    hd_xla_program_release(program);
}

static void aligned_memory_is_borrowed_and_other_memory_copied(void **state) {
    (void)state;
    _Alignas(64) float memory[1024 + 16];
    hd_xla_buffer borrowed, copied;
    void *pointer;
    for (int i = 0; i < 1040; ++i) memory[i] = (float)i;
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(1024)}, memory, HD_XLA_BORROW, &borrowed);
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(1024)}, memory + 1, HD_XLA_BORROW, &copied);
    assert_ok();
    hd_xla_buffer_pointer(&borrowed, &pointer);
    assert_ptr_equal(pointer, memory);
    assert_non_null(borrowed.freed);
    hd_xla_buffer_pointer(&copied, &pointer);
    assert_ptr_not_equal(pointer, memory + 1);
    assert_null(copied.freed);
    float before[1024];
    memcpy(before, memory + 1, sizeof before);
    memset(memory + 1, 0, sizeof before);
    assert_buffer(&copied, before, 1024);
    hd_xla_buffer_destroy(&borrowed), hd_xla_buffer_destroy(&copied);
}

static void borrowed_memory_is_not_donated(void **state) {
    (void)state;
    _Alignas(64) float memory[1024] = {0};
    hd_xla_program *program = compile_increment(cpu());
    hd_xla_buffer x, y;
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(1024)}, memory, HD_XLA_BORROW, &x);
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, &y, NULL);
    assert_error(HD_ERROR_STATE, "borrowed");
    hd_xla_buffer_destroy(&x);
    hd_xla_program_release(program);
}

/* ---- what runs on its own ---------------------------------------------------------------------------------------- */
/* Every element is the same: where v = tanh(v) + 0.5, after so many steps. */
static void assert_slow(const hd_xla_buffer outputs[2]) {
    int32_t times = 0;
    void *values;
    hd_xla_buffer_read(&outputs[1], &times, sizeof times);
    hd_xla_buffer_pointer(&outputs[0], &values);
    assert_ok();
    assert_int_equal(times, SLOW_TIMES);
    for (int i = 0; i < SLOW_COUNT; ++i) {
        const float v = ((const float *)values)[i];
        assert_true(fabsf(v - tanhf(v) - 0.5f) < 1e-5f && v > 1);
    }
}

static void destroy_both(hd_xla_buffer outputs[2]) {
    hd_xla_buffer_destroy(&outputs[0]);
    hd_xla_buffer_destroy(&outputs[1]);
}

static void runs_are_chained_without_waiting(void **state) {
    (void)state;
    static float zeros[SLOW_COUNT];
    hd_xla_program *program = compile_slow(cpu());
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(SLOW_COUNT), zeros), outputs[4][2];
    assert_ok();
    bool came_back_early = false;
    for (int i = 0; i < 4; ++i) {
        hd_xla_buffer *from = i == 0 ? &x : &outputs[i - 1][0];
        hd_xla_run(program, (hd_xla_buffer *[]){from}, 1, outputs[i], NULL);
        assert_ok();
        came_back_early |= !hd_xla_buffer_is_ready(&outputs[i][0]);
    }
    assert_true(came_back_early);
    hd_xla_buffer_destroy(&x);
    for (int i = 0; i < 3; ++i) destroy_both(outputs[i]); /* the next run still reads them */
    hd_xla_buffer_await(&outputs[3][0]);
    assert_ok();
    assert_true(hd_xla_buffer_is_ready(&outputs[3][0]));
    assert_slow(outputs[3]);
    destroy_both(outputs[3]);
    hd_xla_program_release(program);
}

static void everything_is_destroyed_while_it_runs(void **state) {
    (void)state;
    float *zeros = aligned_alloc(64, SLOW_COUNT * sizeof *zeros);
    assert_non_null(zeros);
    memset(zeros, 0, SLOW_COUNT * sizeof *zeros);
    hd_xla_program *program = compile_slow(cpu());
    hd_xla_buffer x, outputs[2];
    hd_pjrt_event *done, *freed;
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(SLOW_COUNT)}, zeros, HD_XLA_BORROW, &x);
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, outputs, &done);
    assert_ok();
    hd_xla_program_release(program);
    destroy_both(outputs);
    hd_xla_buffer_destroy_early(&x, &freed);
    assert_non_null(freed);
    assert_int_equal(hd_xla_event_await(cpu(), freed), HD_OK);
    free(zeros); /* nobody reads it any more: the run is over */
    assert_int_equal(hd_xla_event_await(cpu(), done), HD_OK);
}

static void destroying_waits_for_borrowed_memory(void **state) {
    (void)state;
    float *zeros = aligned_alloc(64, SLOW_COUNT * sizeof *zeros);
    assert_non_null(zeros);
    memset(zeros, 0, SLOW_COUNT * sizeof *zeros);
    hd_xla_program *program = compile_slow(cpu());
    hd_xla_buffer x, outputs[2];
    hd_xla_buffer_make(cpu(), &(hd_xla_type){HD_F32, HD_SHAPE(SLOW_COUNT)}, zeros, HD_XLA_BORROW, &x);
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, outputs, NULL);
    assert_ok();
    hd_xla_buffer_destroy(&x);
    free(zeros);
    assert_slow(outputs);
    destroy_both(outputs);
    hd_xla_program_release(program);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
static void *multiply_often(void *failed) {
    hd_xla_device *device = hd_xla_device_of(hd_cpu());
    for (int round = 0; round < 5 && hd_ok(); ++round) {
        hd_xla_program *program = compile_matmul(device);
        hd_xla_buffer x, w, y;
        float got[8];
        hd_xla_buffer_make(device, &(hd_xla_type){HD_F32, HD_SHAPE(2, 3)}, matmul_x, HD_XLA_COPY, &x);
        hd_xla_buffer_make(device, &(hd_xla_type){HD_F32, HD_SHAPE(3, 4)}, matmul_w, HD_XLA_COPY, &w);
        for (int i = 0; i < 100 && hd_ok(); ++i) {
            hd_xla_run(program, (hd_xla_buffer *[]){&x, &w}, 2, &y, NULL);
            hd_xla_buffer_read(&y, got, sizeof got);
            if (memcmp(got, matmul_y, sizeof got) != 0) *(bool *)failed = true;
            hd_xla_buffer_destroy(&y);
        }
        hd_xla_buffer_destroy(&x), hd_xla_buffer_destroy(&w);
        hd_xla_program_release(program);
    }
    if (!hd_ok()) *(bool *)failed = true;
    return NULL;
}

static void threads_share_the_client(void **state) {
    (void)state;
    pthread_t threads[4];
    bool failed[4] = {false};
    for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, multiply_often, &failed[i]), 0);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; ++i) assert_false(failed[i]);
}

/* ---- forks, and the end ------------------------------------------------------------------------------------------ */
static int status_of(pid_t child) {
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* What a child does with all that its parent had: every call says why not, and what releases returns. */
static int use_in_child(hd_xla_program *program, hd_xla_buffer *x, hd_xla_buffer *w) {
    hd_xla_buffer y;
    float got[6];
    int wrong = 0;
    wrong += hd_xla_device_of(hd_cpu()) != NULL || !says_fork();
    wrong += compile_matmul(program->device) != NULL || !says_fork();
    wrong += hd_xla_run(program, (hd_xla_buffer *[]){x, w}, 2, &y, NULL) == HD_OK || !says_fork();
    wrong += hd_xla_buffer_make(program->device, &x->type, matmul_x, HD_XLA_COPY, &y) == HD_OK || !says_fork();
    wrong += hd_xla_buffer_read(x, got, sizeof got) == HD_OK || !says_fork();
    wrong += hd_xla_buffer_await(x) == HD_OK || !says_fork();
    hd_xla_buffer_destroy(x), hd_xla_buffer_destroy(w);
    hd_xla_program_release(program);
    return wrong;
}

static void a_forked_child_is_told(void **state) {
    (void)state;
    hd_xla_program *program = compile_matmul(cpu());
    hd_xla_buffer x = make_f32(cpu(), HD_SHAPE(2, 3), matmul_x), w = make_f32(cpu(), HD_SHAPE(3, 4), matmul_w), y;
    const pid_t child = fork();
    if (child == 0) _exit(use_in_child(program, &x, &w));
    assert_int_equal(status_of(child), 0);
    hd_xla_run(program, (hd_xla_buffer *[]){&x, &w}, 2, &y, NULL); /* the parent works on */
    assert_ok();
    assert_buffer(&y, matmul_y, 8);
    hd_xla_buffer_destroy(&x), hd_xla_buffer_destroy(&w), hd_xla_buffer_destroy(&y);
    hd_xla_program_release(program);
}

/* This program again, with a word that says what to do: XLA's exit is its own. */
static int run_self(const char *what) {
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test", what, (char *)NULL);
        _exit(99);
    }
    return status_of(child);
}

static void a_process_may_end_while_it_runs(void **state) {
    (void)state;
    for (int i = 0; i < 3; ++i) assert_int_equal(run_self("exit"), 7);
}

static int exit_in_flight(void) {
    static float zeros[SLOW_COUNT];
    static hd_xla_program *program; /* all of it is held until the end, and not destroyed then */
    static hd_xla_buffer x, outputs[2];
    hd_xla_device *device = hd_xla_device_of(hd_cpu());
    program = compile_slow(device);
    hd_xla_buffer_make(device, &(hd_xla_type){HD_F32, HD_SHAPE(SLOW_COUNT)}, zeros, HD_XLA_COPY, &x);
    hd_xla_run(program, (hd_xla_buffer *[]){&x}, 1, outputs, NULL);
    return hd_ok() && !hd_xla_buffer_is_ready(&outputs[0]) ? 7 : hd_exit_status();
}

static void a_child_may_be_the_first_to_use_it(void **state) {
    (void)state;
    assert_int_equal(run_self("fork"), 0);
}

static int fork_first(void) {
    hd_xla_device_of(hd_metal()); /* an error, but not of a client */
    hd_error_clear();
    const pid_t child = fork();
    if (child == 0) {
        bool failed = false;
        multiply_often(&failed);
        return failed ? 1 : 0;
    }
    return status_of(child);
}

int main(int count, char **words) {
    setenv("HODU_CACHE", "0", 0);
    if (!has_plugin()) return 77;
    if (count > 1) return strcmp(words[1], "exit") == 0 ? exit_in_flight() : fork_first();
    const struct CMUnitTest tests[] = {
        test(a_program_computes),
        test(every_dtype_goes_there_and_back),
        test(scalars_and_nothing_at_all),
        test(outputs_say_their_types),
        test(equal_texts_are_one_program),
        test(figures_are_there),
        test(a_wrong_program_is_an_error_with_the_words_of_xla),
        test(what_was_compiled_is_found_on_disk),
        test(memory_runs_out_while_compiling),
        test(arguments_are_compared_with_the_program),
        test(parameters_that_are_not_the_programs),
        test(what_no_buffer_can_be_is_refused),
        test(memory_that_is_not_there),
        test(a_donated_buffer_is_gone_and_its_memory_reused),
        test(a_buffer_that_is_donated_is_given_once),
        test(a_buffer_donated_unnoticed),
        test(a_view_is_never_taken),
        test(aligned_memory_is_borrowed_and_other_memory_copied),
        test(borrowed_memory_is_not_donated),
        test(runs_are_chained_without_waiting),
        test(everything_is_destroyed_while_it_runs),
        test(destroying_waits_for_borrowed_memory),
        test(threads_share_the_client),
        test(a_forked_child_is_told),
        test(a_process_may_end_while_it_runs),
        test(a_child_may_be_the_first_to_use_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
