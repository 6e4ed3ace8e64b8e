/* Kernels that grids were made for: long sums, in pieces; softmax, in registers and not; draws; neighbours at once. */
#ifndef HD_TESTS_GPU_BY_HAND_H
#define HD_TESTS_GPU_BY_HAND_H

#include "device/cpu/kernels.h"
#include "gpu/cases.h"

enum { SUM_ALL, SUM_ROWS, LARGEST, SOFTMAX_SHORT, SOFTMAX_LONG, DRAW_U32, DRAW_U64, DRAW_NORMAL, NEIGHBOURS, BY_HAND };

static inline int by_hand_buffer(gpu_case *c, hd_dtype dtype, bool written, int64_t outer, int64_t inner) {
    hd_kernel *k = &c->r.k;
    const uint8_t strides[2] = {outer == 0   ? HD_STRIDE_ZERO
                                : outer == 1 ? HD_STRIDE_ONE
                                             : HD_STRIDE_ANY,
                                inner == 0 ? HD_STRIDE_ZERO : HD_STRIDE_ONE};
    const int b = hd_kernel_add_buffer(k, dtype, written, strides);
    c->r.geometry[hd_geometry_stride(k, b, 0)] = outer;
    c->r.geometry[hd_geometry_stride(k, b, 1)] = inner;
    c->r.elements[b] = (outer > 0 ? c->r.geometry[0] : 1) * (inner > 0 ? c->r.geometry[1] : 1);
    return b;
}

/* [rows, columns]: the second axis is reduced, unless the kernel draws. */
static inline void by_hand_steps(gpu_case *c, int which) {
    hd_kernel *k = &c->r.k;
    const int64_t columns = c->r.geometry[1];
    if (which >= DRAW_U32 && which <= DRAW_NORMAL) {
        const hd_dtype dtype = which == DRAW_U32 ? HD_U32 : which == DRAW_U64 ? HD_U64 : HD_F32;
        const int out = by_hand_buffer(c, dtype, true, columns, 1);
        const int row = hd_kernel_word(k, HD_WORD_MUL, hd_kernel_index(k, 0),
                                       hd_kernel_constant(k, HD_COMPUTE_I64, (double)columns), -1);
        const int seed = hd_kernel_number(k, HD_COMPUTE_U64, 0), draw = hd_kernel_number(k, HD_COMPUTE_U64, 1);
        hd_kernel_store(k, out,
                        hd_kernel_draw(k, which == DRAW_NORMAL ? HD_DRAWN_NORMAL : HD_DRAWN_BITS,
                                       (hd_compute)hd_dtype_compute[dtype], row, 1, seed, draw));
        c->r.numbers[0] = 0x123456789abcdefu;
        c->r.numbers[1] = 77;
        return;
    }
    const int x = hd_kernel_load(k, by_hand_buffer(c, which == NEIGHBOURS ? HD_BF16 : HD_F32, false, columns, 1), -1);
    if (which == NEIGHBOURS) {
        const int bias = hd_kernel_load(k, by_hand_buffer(c, HD_F32, false, 0, 1), -1);
        const int sum = hd_kernel_word(k, HD_WORD_ADD, x, bias, -1);
        hd_kernel_store(k, by_hand_buffer(c, HD_F32, true, columns, 1), hd_kernel_word(k, HD_WORD_EXP, sum, -1, -1));
        hd_kernel_store(k, by_hand_buffer(c, HD_BF16, true, columns, 1), sum);
        return;
    }
    if (which == SOFTMAX_SHORT || which == SOFTMAX_LONG) {
        const int largest = hd_kernel_reduce(k, x, HD_KERNEL_MAX);
        const int power = hd_kernel_word(k, HD_WORD_EXP, hd_kernel_word(k, HD_WORD_SUB, x, largest, -1), -1, -1);
        const int sum = hd_kernel_reduce(k, power, HD_KERNEL_SUM);
        hd_kernel_store(k, by_hand_buffer(c, HD_F32, true, columns, 1), hd_kernel_word(k, HD_WORD_DIV, power, sum, -1));
        return;
    }
    const int result = hd_kernel_reduce(k, x, which == LARGEST ? HD_KERNEL_MAX : HD_KERNEL_SUM);
    hd_kernel_store(k, by_hand_buffer(c, HD_F32, true, 1, 0), result);
}

/* What the interpreter makes of it; of draws, the CPU's own kernels. */
static inline void by_hand_expect(gpu_case *c) {
    const hd_kernel *k = &c->r.k;
    bool draws = false;
    for (int i = 0; i < k->count; ++i) draws = draws || k->steps[i].word == HD_STEP_DRAW;
    for (int b = 0; b < k->buffer_count; ++b) {
        c->expected[b] = malloc(case_bytes(c, b));
        memcpy(c->expected[b], c->memory[b], case_bytes(c, b));
    }
    if (!draws) {
        interpret_kernel(k, c->expected, c->r.geometry, c->r.numbers);
        return;
    }
    (void)hd_cpu_isa(); /* fills the table of kernels */
    const int64_t n = c->r.elements[0];
    const uint64_t seed = c->r.numbers[0], draw = c->r.numbers[1];
    if (k->buffers[0].dtype == HD_F32) {
        hd_kernels()->normal_f32((float *)(void *)c->expected[0], 0, n, seed, draw);
    } else if (k->buffers[0].dtype == HD_U64) {
        hd_kernels()->bits_u64((uint64_t *)(void *)c->expected[0], 0, n, seed, draw);
    } else { /* the halves of those */
        uint64_t *pairs = malloc((size_t)(n + 1) / 2 * sizeof *pairs);
        hd_kernels()->bits_u64(pairs, 0, (n + 1) / 2, seed, draw);
        memcpy(c->expected[0], pairs, (size_t)n * 4);
        free(pairs);
    }
}

static inline void by_hand_make(gpu_case *c, int which, bool has_f64) {
    static const int64_t sizes[BY_HAND][2] = {{1, 300001}, {5, 70000}, {3, 100000}, {37, 1000}, {3, 9001},
                                              {3, 1001},   {7, 333},   {5, 1000},   {33, 1024}};
    const hd_grid_limits limits = {132, 256, has_f64, shared_threads}; /* many processors: long walks are cut */
    hd_target target = hd_cpu_machine()->target;
    target.keeps_from = UINT8_MAX;
    memset(c, 0, sizeof *c);
    const bool elementwise = which >= DRAW_U32;
    hd_kernel_init(&c->r.k, 2, elementwise ? 2 : 1);
    c->r.geometry[0] = sizes[which][0];
    c->r.geometry[1] = sizes[which][1];
    by_hand_steps(c, which);
    if (hd_kernel_settle(&c->r.k) != HD_OK || hd_kernel_schedule(&c->r.k, 1, &target) != HD_OK)
        fail_msg("%s", hd_error_message());
    random_memory(&c->r, c->memory);
    for (int64_t i = 0; !elementwise && i < c->r.elements[0]; ++i) /* numbers that sums round */
        ((float *)(void *)c->memory[0])[i] = (float)((double)random_below(1 << 20) * 0x1p-20 - 0.25);
    by_hand_expect(c);
    snprintf(c->name, sizeof c->name, "k%d", which);
    c->kernel = (hd_gpu_kernel){&c->r.k, hd_grid_choose(&c->r.k, c->r.geometry, 16, &limits), c->name};
    const hd_grid *g = &c->kernel.grid; /* each is here for one of these */
    if (which == SUM_ALL || which == SUM_ROWS || which == LARGEST) assert_true(g->in_pieces);
    if (which == SOFTMAX_SHORT) assert_true(g->form == HD_GRID_GROUP && g->held > 0);
    if (which == SOFTMAX_LONG) assert_true(g->form == HD_GRID_GROUP && g->held == 0);
    if (which == NEIGHBOURS) assert_int_equal(g->per, 4);
}

/* Whole numbers and what is chosen are equal; functions and sums, the latter without f64 too, agree to few units. */
static inline void by_hand_check(gpu_case *c) {
    for (int b = 0; b < c->r.k.buffer_count; ++b) {
        const hd_dtype dtype = (hd_dtype)c->r.k.buffers[b].dtype;
        const size_t size = hd_dtype_bytes[dtype];
        for (int64_t i = 0; i < c->r.elements[b]; ++i) {
            const double got = hd_element_to_f64(c->memory[b] + (size_t)i * size, dtype),
                         wanted = hd_element_to_f64(c->expected[b] + (size_t)i * size, dtype);
            const double most = dtype == HD_F32 ? 4e-6 * fmax(fabs(wanted), 1e-3) : 0;
            if (!(fabs(got - wanted) <= most))
                fail_msg("%s: element %lld of buffer %d is %.9g, expected %.9g", c->name, (long long)i, b, got, wanted);
        }
        if (memcmp(c->memory[b] + case_bytes(c, b) - 64, c->expected[b] + case_bytes(c, b) - 64, 64) != 0)
            fail_msg("%s writes beside buffer %d", c->name, b);
    }
    case_release(c);
}

#endif
