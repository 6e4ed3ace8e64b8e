/* Kernels as OpenCL's text, run by whatever driver is here (PoCL runs on any machine): random ones with random grids
 * against the interpreter, and every row and derivative against the eager kernels. */
#include "support.h"
#include "core/away.h"
#include "device/opencl/opencl_device.h"

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"

#include "gpu/cases.h"

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
    hd_array_release(object);
}

enum { RANDOM = 16, EVERY = 24 }; /* PoCL takes 50 ms and more for each; all of them in `make check-long` */
static bool has_f64(void) { return gpu->limits(0)->has_f64; }
#include "gpu/suite.h"

int main(void) { return run_suite(hd_device_count(HD_DEVICE_OPENCL) == 0 ? cl->missing() : NULL); }
