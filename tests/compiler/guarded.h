/* Running a kernel's code beside its interpretation: on the same random data, in memory with a forbidden page on either
 * side, every byte compared. */
#ifndef HD_TESTS_COMPILER_GUARDED_H
#define HD_TESTS_COMPILER_GUARDED_H

#include "compiler/forbidden.h"
#include "compiler/interpreter.h"

/* ---- a case ------------------------------------------------------------------------------------------------------ */
typedef struct kernel_case {
    hd_kernel k;
    int64_t size[HD_KERNEL_AXES], base[HD_KERNEL_AXES];
    int64_t stride[HD_KERNEL_BUFFERS][HD_KERNEL_AXES];         /* in elements; filled in where the kernel says 0 or 1 */
    int same_as[HD_KERNEL_BUFFERS];                            /* 1 + the buffer whose very memory it is; 0: its own */
    int64_t least[HD_KERNEL_BUFFERS], most[HD_KERNEL_BUFFERS]; /* of the values of an index buffer, when most > least */
    double number[8];
    double ulp;   /* allowed to float results */
    bool sums;    /* an error is counted at the size of the largest result: what is added up may cancel */
    double scale; /* of random floats; 0: 4 */
} kernel_case;

static inline uint64_t guarded_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static inline void guarded_fill(const kernel_case *c, int buffer, char *data, size_t bytes, uint64_t *state) {
    static const double special[] = {0, -0.0, 1, -1, 0.5, 2, 3, -3, 6, 1e-30, 1e30, INFINITY, -INFINITY, NAN};
    const hd_dtype dtype = (hd_dtype)c->k.buffers[buffer].dtype;
    const double scale = c->scale > 0 ? c->scale : 4;
    for (size_t i = 0; i < bytes; i += hd_dtype_bytes[dtype]) {
        double v = ((double)(guarded_random(state) >> 11) * 0x1p-52 - 1) * scale;
        if (hd_dtype_compute[dtype] < HD_COMPUTE_F32) v = rint(v * 8);
        if (!c->sums && guarded_random(state) % 8 == 0) v = special[guarded_random(state) % 14];
        if (c->most[buffer] > c->least[buffer])
            v = (double)(c->least[buffer] +
                         (int64_t)(guarded_random(state) % (uint64_t)(c->most[buffer] - c->least[buffer])));
        hd_element_from_f64(data + i, dtype, dtype == HD_BOOL ? (double)(guarded_random(state) & 1) : v);
    }
}

/* The lowest and the highest element a buffer reaches, from its origin. */
static inline void guarded_extent(const kernel_case *c, int buffer, int64_t *low, int64_t *high) {
    *low = *high = 0;
    for (int a = 0; a < c->k.axes; ++a) {
        const int64_t reach = c->size[a] > 0 ? (c->size[a] - 1) * c->stride[buffer][a] : 0;
        *(reach < 0 ? low : high) += reach;
    }
    *high += c->most[buffer]; /* whoever is read at places has room for all of them */
    for (int a = 0; a < c->k.axes; ++a)
        if (c->size[a] == 0 && c->k.buffers[buffer].stride[a] != HD_STRIDE_ZERO) *high = *low - 1;
}

static inline bool guarded_close(const kernel_case *c, hd_dtype dtype, const char *a, const char *b, double largest) {
    if (memcmp(a, b, hd_dtype_bytes[dtype]) == 0) return true;
    if (hd_dtype_compute[dtype] < HD_COMPUTE_F32) return false;
    const double x = hd_element_to_f64(a, dtype), y = hd_element_to_f64(b, dtype);
    if (x != x && y != y) return true;
    if (x == 0 && y == 0 && c->ulp == 0) return false; /* the sign of zero */
    const double unit = dtype == HD_F64      ? 0x1p-52
                        : dtype == HD_F32    ? 0x1p-23
                        : dtype == HD_F16    ? 0x1p-10
                        : dtype == HD_BF16   ? 0x1p-7
                        : dtype == HD_F8E4M3 ? 0x1p-3
                                             : 0x1p-2;
    const double at = c->sums ? fmax(largest, fabs(y)) : fabs(y), least = dtype == HD_F64   ? 0x1p-1022
                                                                          : dtype == HD_F32 ? 0x1p-126
                                                                                            : 0x1p-9;
    return fabs(x - y) <= c->ulp * unit * fmax(at, least);
}

/* Runs `function` and the interpreter, and compares. `what` goes into the message. */
static inline void guarded_compare(kernel_case *c, hd_kernel_function function, const char *what, bool at_end) {
    hd_kernel *k = &c->k;
    uint64_t state = 88172645463325252u, numbers[8] = {0};
    int64_t geometry[HD_GEOMETRY_MOST] = {0}, points = 1;
    guarded memory[2][HD_KERNEL_BUFFERS];
    char *buffers[2][HD_KERNEL_BUFFERS];
    for (int a = 0; a < k->axes; ++a) {
        geometry[a] = c->size[a];
        geometry[hd_geometry_base(k, a)] = c->base[a];
        if (a >= k->kept) points *= c->size[a];
    }
    for (int b = 0; b < k->buffer_count; ++b) {
        const size_t bytes = hd_dtype_bytes[k->buffers[b].dtype];
        int64_t low, high;
        for (int a = 0; a < k->axes; ++a) {
            if (k->buffers[b].stride[a] != HD_STRIDE_ANY) c->stride[b][a] = k->buffers[b].stride[a] == HD_STRIDE_ONE;
            geometry[hd_geometry_stride(k, b, a)] = c->stride[b][a];
        }
        guarded_extent(c, b, &low, &high);
        for (int side = 0; side < 2; ++side) {
            if (c->same_as[b] > 0) {
                memory[side][b] = memory[side][c->same_as[b] - 1];
            } else {
                memory[side][b] = guarded_new((size_t)(high - low + 1) * bytes, at_end);
                if (side == 0) guarded_fill(c, b, memory[0][b].data, memory[0][b].bytes, &state);
                if (side == 1) memcpy(memory[1][b].data, memory[0][b].data, memory[0][b].bytes);
            }
            buffers[side][b] = memory[side][b].data - low * (int64_t)bytes;
        }
    }
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_WORD_NUMBER)
            numbers[k->steps[i].index] = interpret_from_f64(k->steps[i].type, c->number[k->steps[i].index]).bits;
    geometry[hd_geometry_slot(k)] = points * 8;
    guarded scratch = guarded_new((size_t)(points * 8) * k->schedule.slots, at_end);
    function(buffers[0], geometry, numbers, scratch.data);
    interpret_kernel(k, buffers[1], geometry, numbers);
    for (int b = 0; b < k->buffer_count; ++b) {
        const hd_dtype dtype = (hd_dtype)k->buffers[b].dtype;
        const size_t bytes = hd_dtype_bytes[dtype];
        double largest = 0;
        for (size_t i = 0; i < memory[1][b].bytes; i += bytes)
            if (isfinite(hd_element_to_f64(memory[1][b].data + i, dtype)))
                largest = fmax(largest, fabs(hd_element_to_f64(memory[1][b].data + i, dtype)));
        for (size_t i = 0; i < memory[0][b].bytes; i += bytes)
            if (!guarded_close(c, dtype, memory[0][b].data + i, memory[1][b].data + i, largest)) {
                char text[16384];
                hd_kernel_print(k, text, sizeof text);
                fail_msg("%s: buffer %d, element %zu (%s) is %.9g, expected %.9g; sizes %lld %lld %lld\n%s", what, b,
                         i / bytes, hd_dtype_name(dtype), hd_element_to_f64(memory[0][b].data + i, dtype),
                         hd_element_to_f64(memory[1][b].data + i, dtype), (long long)c->size[0], (long long)c->size[1],
                         (long long)c->size[2], text);
            }
    }
    for (int b = 0; b < k->buffer_count; ++b)
        for (int side = 0; side < 2; ++side)
            if (c->same_as[b] == 0) guarded_release(&memory[side][b]);
    guarded_release(&scratch);
}

#endif
