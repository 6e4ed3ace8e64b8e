/* Elementwise rows and their derivatives as kernels, their inputs, and how far results may be from those of the eager
 * kernels. */
#ifndef HD_TESTS_COMPILER_ROWS_H
#define HD_TESTS_COMPILER_ROWS_H

#include <math.h>

#include "device/cpu/kernels.h"
#include "kernel/kernel.h"
#include "ops/row_ir.h"
#include "ops/row_uses.h"

enum { N = 1000 }; /* not a whole number of groups */
static const hd_dtype dtype_of[HD_COMPUTE_COUNT] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                                    HD_I16,  HD_I32, HD_I64, HD_F32, HD_F64};
static const double number_values[3] = {1, 3, 2};

static uint64_t random_state = 1;
static inline uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static inline void row_fill(char *values, hd_compute type) {
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
static inline void row_compare(const char *what, hd_compute type, double ulp, int terms, char (*in)[N * 8],
                               const char *got, const char *expected) {
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

/* A kernel that computes one row of N elements: five inputs, then the result. Inputs and numbers as the row wants
 * them. */
static inline void row_kernel(hd_kernel *k, const hd_ir *ir, hd_op_id id, hd_compute type, uint64_t *values) {
    static const uint8_t strides[1] = {HD_STRIDE_ONE};
    const bool truth = ir->nodes[ir->result].type == HD_CONDITION;
    int inputs[5], numbers[3];
    hd_kernel_init(k, 1, 1);
    for (int i = 0; i < 5; ++i) {
        const bool condition = hd_rows[id].chooses && i == 0;
        const int b = hd_kernel_add_buffer(k, condition ? HD_BOOL : dtype_of[type], false, strides);
        inputs[i] = hd_kernel_load(k, b, -1);
        if (condition) inputs[i] = hd_kernel_cast(k, inputs[i], HD_CONDITION);
    }
    for (int i = 0; i < 3; ++i) {
        values[i] = 0;
        numbers[i] = hd_kernel_number(k, type, i);
        hd_element_from_f64(&values[i], dtype_of[type], number_values[i]);
    }
    int result = hd_kernel_row(k, ir, inputs, numbers);
    if (truth) result = hd_kernel_cast(k, result, HD_COMPUTE_B8);
    hd_kernel_store(k, hd_kernel_add_buffer(k, truth ? HD_BOOL : dtype_of[type], true, strides), result);
}
static const int64_t row_geometry[9] = {N, 0, 1, 1, 1, 1, 1, 1, 0};

/* One of them: the value of a row (derivative 0), or its derivative by an operand (1 + which), in a type. */
typedef struct row_reading {
    int id, derivative, type;
    hd_compute result; /* the type of what comes out */
    double ulp;        /* by how much two results may differ, */
    int terms;         /* in units of so many inputs, too: they may cancel */
} row_reading;

static inline bool row_describe(row_reading *r) { /* false: there is none such */
    const hd_row *row = &hd_rows[r->id];
    if (r->derivative == 0) {
        r->result = row->gives_bool ? HD_COMPUTE_B8 : (hd_compute)r->type;
        r->ulp = 2 * fmax(1, fabs((double)row->ulp)); /* each may be off by so much */
        r->terms = row->gives_bool || row->chooses ? 0 : row->operands;
        return hd_row_takes((hd_op_id)r->id, (hd_compute)r->type);
    }
    r->result = (hd_compute)r->type;
    r->ulp = 4096;
    r->terms = 0;
    return (r->type == HD_COMPUTE_F32 || r->type == HD_COMPUTE_F64) && r->derivative <= row->operands &&
           hd_kernels()->derivative[r->type][r->id][r->derivative - 1] != NULL;
}

/* The next one behind *r; the first is behind {.derivative = -1}. False: there is none. */
static inline bool row_next(row_reading *r) {
    (void)hd_cpu_isa(); /* fills the tables of kernels */
    if (r->id >= HD_OP_ELEMENTWISE_COUNT) return false;
    do {
        if (++r->derivative > 3) {
            r->derivative = 0;
            if (++r->type == HD_COMPUTE_COUNT) {
                r->type = 0;
                if (++r->id == HD_OP_ELEMENTWISE_COUNT) return false;
            }
        }
    } while (!row_describe(r));
    return true;
}

static inline void row_ir(const row_reading *r, hd_ir *ir) {
    const hd_error status = r->derivative == 0
                                ? hd_row_value_ir((hd_op_id)r->id, (hd_compute)r->type, ir)
                                : hd_row_derivative_ir((hd_op_id)r->id, r->derivative - 1, (hd_compute)r->type, ir);
    if (status != HD_OK) fail_msg("%s", hd_error_message());
}

static inline void row_inputs(const row_reading *r, char (*in)[N * 8]) {
    for (int k = 0; k < 5; ++k) row_fill(in[k], hd_rows[r->id].chooses && k == 0 ? HD_COMPUTE_B8 : (hd_compute)r->type);
}

/* What the eager kernel makes of them. */
static inline void row_eager(const row_reading *r, char (*in)[N * 8], char *expected) {
    static const unsigned bits[5] = {HD_SAVE_INPUT0, HD_SAVE_INPUT1, HD_SAVE_INPUT2, HD_USES_GRADIENT, HD_SAVE_OUTPUT};
    char numbers[24];
    for (int k = 0; k < 3; ++k)
        hd_element_from_f64(numbers + (size_t)k * hd_dtype_size(dtype_of[r->type]), dtype_of[r->type],
                            number_values[k]);
    const void *operands[5] = {in[0], in[1], in[2], in[0], in[0]};
    if (r->derivative == 0) {
        hd_kernels()->elementwise[r->type][r->id](expected, operands, numbers, N);
        return;
    }
    const unsigned uses = hd_row_uses((hd_op_id)r->id, r->derivative - 1);
    for (int i = 0; i < 5; ++i) operands[i] = in[0];
    for (int i = 0; i < 5; ++i)
        if (uses & bits[i]) operands[hd_uses_place(uses, bits[i])] = in[i];
    hd_kernels()->derivative[r->type][r->id][r->derivative - 1](expected, operands, numbers, N);
}

#endif
