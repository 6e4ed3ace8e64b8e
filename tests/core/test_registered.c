/* What rooms register with lower ones, and what holds when nobody has: no device is an error of every call, no observer
 * is nobody who watches, no compiler is an error of the script. */
#include "support.h"

#include "core/device.h"
#include "core/execute.h"
#include "grad/tape.h"
#include "script/executable.h"

#include <pthread.h>

static hd_error code_of_thread;
static bool has_observer;

static void *call_something(void *unused) {
    (void)unused;
    {
        HD_SCOPE;
        has_observer = hd_thread_self()->observer != NULL;
        hd_full(HD_SHAPE(2, 3), HD_F32, 1);
        code_of_thread = hd_error_code();
        hd_error_clear();
        hd_synchronize();
        hd_error_clear();
    }
    return NULL;
}

static void run_thread(void) {
    pthread_t id;
    assert_int_equal(pthread_create(&id, NULL, call_something, NULL), 0);
    pthread_join(id, NULL);
}

static void without_a_device_calls_are_errors(void **state) {
    (void)state;
    const hd_device_interface *cpu = hd_device_interface_of(HD_DEVICE_CPU);
    assert_non_null(cpu); /* registered by the roof, also in this program, which is linked statically */
    hd_device_register(HD_DEVICE_CPU, NULL);
    assert_false(hd_device_available(hd_cpu()));
    run_thread();
    assert_int_equal(code_of_thread, HD_ERROR_DEVICE);
    hd_device_register(HD_DEVICE_CPU, cpu);
    assert_true(hd_device_available(hd_cpu()));
    run_thread();
    assert_int_equal(code_of_thread, HD_OK);
}

static hd_observer watcher;
static hd_observer *first(void) { return &watcher; }

static void without_an_observer_nobody_watches(void **state) {
    (void)state;
    hd_observer *mine = hd_first_observer();
    assert_non_null(mine);
    assert_ptr_equal(hd_thread_self()->observer, mine);
    hd_first_observer_register(NULL);
    assert_null(hd_first_observer());
    run_thread();
    assert_false(has_observer);
    assert_int_equal(code_of_thread, HD_OK);
    hd_first_observer_register(first);
    assert_ptr_equal(hd_first_observer(), &watcher);
    hd_first_observer_register(hd_tape_first_observer);
    assert_ptr_equal(hd_first_observer(), mine);
}

static void without_a_compiler_a_script_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("sum");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_add(hd_input("x", HD_SHAPE(2), HD_F32), HD_TENSOR_F32(HD_SHAPE(2), 1, 2)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    assert_ok();
    const hd_compiler_interface *hodu = hd_compiler_interface_of(HD_COMPILER_HODU);
    assert_non_null(hodu);
    assert_non_null(hd_compiler_interface_of(HD_COMPILER_XLA));
    hd_compiler_register(HD_COMPILER_HODU, NULL);
    assert_false(hd_compiler_available(HD_COMPILER_HODU));
    hd_script_compile(s);
    assert_error(HD_ERROR_DEVICE, "linked without the compiler HODU");
    hd_compiler_register(HD_COMPILER_HODU, hodu);
    assert_true(hd_compiler_available(HD_COMPILER_HODU));
    hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(2), 3, 4));
    assert_values(hd_outputs_get(hd_script_run(s), "y"), HD_F32, 4, 6);
}

RUN(test(without_a_device_calls_are_errors), test(without_a_compiler_a_script_is_an_error),
    test(without_an_observer_nobody_watches))
