/* Every elementwise row and every derivative, compiled through LLVM, against the eager kernels. */
#if HD_HAS_LLVM
#include "compiler/finish.h"
#include "support.h"

#include <math.h>

#include "codegen/code.h"
#include "core/memory.h"
#include "device/cpu/kernels.h"
#include "ops/row_ir.h"
#include "ops/row_uses.h"

enum { N = 1000 }; /* not a whole number of groups */
static const hd_dtype dtype_of[HD_COMPUTE_COUNT] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                                    HD_I16,  HD_I32, HD_I64, HD_F32, HD_F64};
static _Alignas(64) char in[5][N * 8], got[N * 8], expected[N * 8];
static const double number_values[3] = {1, 3, 2};

static uint64_t random_state = 1;
static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void fill(char *values, hd_compute type) {
    static const double special[] = {0, -0.0, 1, -1, 0.5, 2, 3, -3, 6, 1e-30, 1e30, INFINITY, -INFINITY, NAN};
    const size_t bytes = hd_dtype_size(dtype_of[type]);
    for (int i = 0; i < N; ++i) {
        double v = (double)(int64_t)(random_bits() >> 11) * 0x1p-50 - 4;
        if (i % 8 == 0) v = special[random_bits() % 14];
        if (type == HD_COMPUTE_B8) v = (double)(random_bits() & 1);
        hd_element_from_f64(values + (size_t)i * bytes, dtype_of[type], v);
    }
}

/* Two results of the same sentence may differ by rounding; where terms cancel, they do so in units of the terms. */
static void compare(const char *what, hd_compute type, double ulp, int terms) {
    const size_t bytes = hd_dtype_size(dtype_of[type]);
    const double unit = type == HD_COMPUTE_F64   ? 0x1p-52
                        : type == HD_COMPUTE_F32 ? 0x1p-23
                                                 : 0,
                 least = type == HD_COMPUTE_F64 ? 0x1p-1022 : 0x1p-126;
    for (int i = 0; i < N; ++i) {
        const double a = hd_element_to_f64(got + (size_t)i * bytes, dtype_of[type]),
                     b = hd_element_to_f64(expected + (size_t)i * bytes, dtype_of[type]);
        if (a == b || (a != a && b != b)) continue;
        double size = fmax(fabs(b), least);
        for (int k = 0; k < terms; ++k) {
            const double term = fabs(hd_element_to_f64(in[k] + (size_t)i * bytes, dtype_of[type]));
            if (isfinite(term)) size = fmax(size, term);
        }
        if (!(fabs(a - b) <= ulp * unit * size))
            fail_msg("%s in %s, element %d: compiled %.17g, eager %.17g", what, hd_ir_type_name((int)type), i, a, b);
    }
}

/* Inputs and numbers as the row wants them. */
static void run_compiled(const hd_ir *ir, hd_op_id id, hd_compute type, const char *what) {
    static const uint8_t strides[1] = {HD_STRIDE_ONE};
    const bool truth = ir->nodes[ir->result].type == HD_CONDITION;
    hd_kernel k;
    int inputs[5], numbers[3];
    char *buffers[6] = {in[0], in[1], in[2], in[3], in[4], got};
    uint64_t values[3] = {0};
    hd_kernel_init(&k, 1, 1);
    for (int i = 0; i < 5; ++i) {
        const bool condition = hd_rows[id].chooses && i == 0;
        const int b = hd_kernel_add_buffer(&k, condition ? HD_BOOL : dtype_of[type], false, strides);
        inputs[i] = hd_kernel_load(&k, b, -1);
        if (condition) inputs[i] = hd_kernel_cast(&k, inputs[i], HD_CONDITION);
    }
    for (int i = 0; i < 3; ++i) {
        numbers[i] = hd_kernel_number(&k, type, i);
        hd_element_from_f64(&values[i], dtype_of[type], number_values[i]);
    }
    int result = hd_kernel_row(&k, ir, inputs, numbers);
    if (truth) result = hd_kernel_cast(&k, result, HD_COMPUTE_B8);
    hd_kernel_store(&k, hd_kernel_add_buffer(&k, truth ? HD_BOOL : dtype_of[type], true, strides), result);
    void *object = NULL;
    size_t bytes = 0;
    hd_code code = {.run = NULL};
    if (kernel_finish(&k, 0, hd_code_vector_bytes()) != HD_OK || hd_llvm_object(&k, "row", &object, &bytes) != HD_OK ||
        hd_object_load(object, bytes, "row", &code) != HD_OK)
        fail_msg("%s in %s: %s", what, hd_ir_type_name((int)type), hd_error_message());
    const int64_t geometry[9] = {N, 0, 1, 1, 1, 1, 1, 1, 0};
    code.run(buffers, geometry, values, NULL);
    hd_object_unload(&code);
    hd_array_release(object);
    hd_kernel_release(&k);
}

static void make_numbers(char *out, hd_compute type) {
    for (int k = 0; k < 3; ++k)
        hd_element_from_f64(out + (size_t)k * hd_dtype_size(dtype_of[type]), dtype_of[type], number_values[k]);
}

static void rows_equal_eager_kernels(void **state) {
    (void)state;
    (void)hd_cpu_isa(); /* fills the kernel tables */
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type) {
            hd_ir ir;
            char numbers[24];
            if (!hd_row_takes((hd_op_id)id, (hd_compute)type)) continue;
            for (int k = 0; k < 5; ++k) fill(in[k], hd_rows[id].chooses && k == 0 ? HD_COMPUTE_B8 : (hd_compute)type);
            make_numbers(numbers, (hd_compute)type);
            assert_int_equal(hd_row_value_ir((hd_op_id)id, (hd_compute)type, &ir), HD_OK);
            run_compiled(&ir, (hd_op_id)id, (hd_compute)type, hd_ops[id].name);
            const void *const operands[3] = {in[0], in[1], in[2]};
            hd_kernels()->elementwise[type][id](expected, operands, numbers, N);
            const double ulp = 2 * fmax(1, fabs((double)hd_rows[id].ulp)); /* each may be off by so much */
            compare(hd_ops[id].name, hd_rows[id].gives_bool ? HD_COMPUTE_B8 : (hd_compute)type, ulp,
                    hd_rows[id].gives_bool || hd_rows[id].chooses ? 0 : hd_rows[id].operands);
            hd_ir_release(&ir);
        }
}

static void derivatives_equal_eager_kernels(void **state) {
    (void)state;
    (void)hd_cpu_isa();
    static const unsigned bits[5] = {HD_SAVE_INPUT0, HD_SAVE_INPUT1, HD_SAVE_INPUT2, HD_USES_GRADIENT, HD_SAVE_OUTPUT};
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int type = HD_COMPUTE_F32; type <= (int)HD_COMPUTE_F64; ++type)
            for (int k = 0; k < hd_rows[id].operands; ++k) {
                hd_ir ir;
                char numbers[24];
                const hd_elementwise_kernel eager = hd_kernels()->derivative[type][id][k];
                const unsigned uses = hd_row_uses((hd_op_id)id, k);
                if (eager == NULL) continue;
                for (int i = 0; i < 5; ++i)
                    fill(in[i], hd_rows[id].chooses && i == 0 ? HD_COMPUTE_B8 : (hd_compute)type);
                make_numbers(numbers, (hd_compute)type);
                assert_int_equal(hd_row_derivative_ir((hd_op_id)id, k, (hd_compute)type, &ir), HD_OK);
                run_compiled(&ir, (hd_op_id)id, (hd_compute)type, hd_ops[id].name);
                const void *operands[5] = {in[0], in[0], in[0], in[0], in[0]};
                for (int i = 0; i < 5; ++i)
                    if (uses & bits[i]) operands[hd_uses_place(uses, bits[i])] = in[i];
                eager(expected, operands, numbers, N);
                compare(hd_ops[id].name, (hd_compute)type, 4096, 0);
                hd_ir_release(&ir);
            }
}

RUN(test(rows_equal_eager_kernels), test(derivatives_equal_eager_kernels))
#else
int main(void) { return 77; }
#endif
