/* Kernels as OpenCL's text, run by whatever driver is here (PoCL runs on any machine): random ones with random grids
 * against the interpreter, and every row and derivative against the eager kernels. */
#include "support.h"
#include "core/away.h"
#include "device/opencl/opencl_device.h"

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"

#include "gpu/by_hand.h"
#include "gpu/rows.h"

static const hd_device_interface *const cl = &hd_opencl_interface;
static const hd_gpu_interface *const gpu = &hd_opencl_gpu;

static void check(hd_error status) {
    if (status != HD_OK) fail_msg("%s", hd_error_message());
}

/* Buffers begin somewhere inside of blocks; `alignment` says where they may. */
enum { LEAD = 48 };
static hd_block *sent(const char *memory, size_t bytes) {
    hd_block *b = cl->allocate(hd_thread_self(), 0, bytes + LEAD);
    if (b == NULL) fail_msg("%s", hd_error_message());
    if (memory != NULL)
        check(cl->copy(hd_thread_self(), (hd_address){b->device, (char *)b->address + LEAD},
                       (hd_address){hd_cpu(), (void *)(uintptr_t)memory}, bytes));
    return b;
}

static void launch(hd_gpu_program *program, const gpu_case *c, const char *ending, void **buffers, int count,
                   void *arguments, int64_t groups, uint32_t pieces) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", c->name, ending);
    hd_gpu_function *function = gpu->function(program, name);
    if (function == NULL) fail_msg("%s", hd_error_message());
    const hd_gpu_launch l = {.function = function,
                             .groups = {(uint32_t)groups, pieces, 1},
                             .threads = {c->kernel.grid.threads, 1, 1},
                             .buffers = buffers,
                             .buffer_count = count,
                             .arguments = arguments,
                             .argument_bytes = hd_grid_arguments(&c->r.k, &c->kernel.grid, c->r.geometry, NULL, NULL)};
    if (groups > 0) check(gpu->launch(0, &l));
}

static void run_case(hd_gpu_program *program, gpu_case *c) {
    const hd_grid *g = &c->kernel.grid;
    const int count = c->r.k.buffer_count + g->in_pieces;
    hd_block *blocks[HD_KERNEL_BUFFERS + 1];
    void *buffers[HD_KERNEL_BUFFERS + 1], *arguments = malloc(hd_grid_arguments(&c->r.k, g, c->r.geometry, NULL, NULL));
    hd_grid_arguments(&c->r.k, g, c->r.geometry, c->r.numbers, arguments);
    for (int b = 0; b < count; ++b) {
        const bool part = b == c->r.k.buffer_count;
        blocks[b] = part ? sent(NULL, hd_grid_part_bytes(&c->r.k, g)) : sent(c->memory[b], case_bytes(c, b));
        buffers[b] = (char *)blocks[b]->address + LEAD;
    }
    launch(program, c, g->in_pieces ? "_parts" : "", buffers, count, arguments, g->groups, g->piece_count);
    if (g->in_pieces)
        launch(program, c, "_join", buffers, count, arguments, (g->points + g->threads - 1) / g->threads, 1);
    for (int b = 0; b < count; ++b) {
        if (b < c->r.k.buffer_count)
            check(cl->copy(hd_thread_self(), (hd_address){hd_cpu(), c->memory[b]},
                           (hd_address){blocks[b]->device, buffers[b]}, case_bytes(c, b)));
        hd_block_release(hd_thread_self(), blocks[b]);
    }
    free(arguments);
}

static void run_all(gpu_case *const *cases, int count) {
    void *object = NULL;
    size_t bytes = 0;
    char *text = case_text(cases, count, HD_DIALECT_OPENCL, gpu->limits(0)->has_f64);
    check(gpu->compile(0, "cases", text, &object, &bytes));
    free(text);
    hd_gpu_program *program = gpu->load(0, object, bytes);
    if (program == NULL) fail_msg("%s", hd_error_message());
    for (int i = 0; i < count; ++i) run_case(program, cases[i]);
    gpu->unload(program);
    free(object);
}

static void random_kernels_mean_the_same(void **state) {
    (void)state;
    gpu_case *cases = calloc(CASES, sizeof *cases), *all[CASES];
    random_kernel_state = 88172645463325252u + sample_seed() * 0x9e3779b97f4a7c15u;
    int wrong = 0;
    const int count = in_full() ? CASES : 16; /* PoCL takes 50 ms and more for each */
    for (int round = 0; round < (in_full() ? 20 : 1); ++round) {
        for (int i = 0; i < count; ++i) case_make(all[i] = &cases[i], i, gpu->limits(0)->has_f64);
        run_all(all, count);
        for (int i = 0; i < count; ++i) {
            wrong += !case_agrees(all[i]);
            case_release(all[i]);
        }
    }
    free(cases);
    if (wrong > 0) fail_msg("%d kernels differ", wrong);
}

/* A sample; all of them in `make check-long`. */
static void rows_mean_the_same(void **state) {
    (void)state;
    row_case *rows = malloc(CASES * sizeof *rows);
    gpu_case *all[CASES];
    row_reading last = {.derivative = -1};
    int total = 0, batch = 0;
    const int every = in_full() ? 1 : 24, first = (int)(sample_seed() % (uint64_t)every);
    for (int count; (count = row_cases(rows, CASES, &last, gpu->limits(0)->has_f64)) > 0; total += count, ++batch) {
        int chosen = 0;
        for (int i = 0; i < count; ++i)
            if ((i + batch) % every == first) all[chosen++] = &rows[i].c;
        if (chosen > 0) run_all(all, chosen);
        for (int i = 0; i < count; ++i) row_check(&rows[i], (i + batch) % every == first);
    }
    free(rows);
    assert_in_range(total, 600, 10000);
}

static void kernels_by_hand_mean_the_same(void **state) {
    (void)state;
    gpu_case *cases = calloc(BY_HAND, sizeof *cases), *all[BY_HAND];
    for (int i = 0; i < BY_HAND; ++i) by_hand_make(all[i] = &cases[i], i, gpu->limits(0)->has_f64);
    run_all(all, BY_HAND);
    for (int i = 0; i < BY_HAND; ++i) by_hand_check(all[i]);
    free(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(random_kernels_mean_the_same), test(rows_mean_the_same),
                                       test(kernels_by_hand_mean_the_same)};
    if (hd_device_count(HD_DEVICE_OPENCL) > 0) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("there is no OpenCL device: %s\n", cl->missing());
    return 77;
}
