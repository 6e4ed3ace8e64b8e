/* Random kernels over random geometry. Every value is a small whole number, so that any order of summation, fused or
 * not, gives the same bits: what differs is wrong. */
#ifndef HD_TESTS_COMPILER_RANDOM_KERNELS_H
#define HD_TESTS_COMPILER_RANDOM_KERNELS_H

#include "compiler/finish.h"
#include "kernel/kernel.h"

enum { RANDOM_VALUES = 96, RANDOM_PLACES = 1 << 16 };

typedef struct random_kernel {
    hd_kernel k;
    int64_t geometry[HD_GEOMETRY_MOST];
    int64_t elements[HD_KERNEL_BUFFERS];
    uint64_t numbers[4];
    size_t scratch_bytes;
    int value[RANDOM_VALUES];   /* steps */
    bool inside[RANDOM_VALUES]; /* depends on the reduced axes */
    int count, reductions;
} random_kernel;

static uint64_t random_kernel_state = 88172645463325252u;
static inline uint64_t random_below(uint64_t n) {
    random_kernel_state ^= random_kernel_state << 13;
    random_kernel_state ^= random_kernel_state >> 7;
    random_kernel_state ^= random_kernel_state << 17;
    return (random_kernel_state >> 11) % n;
}

static inline void random_add(random_kernel *r, int step, bool inside) {
    if (step < 0) fail_msg("%s", hd_error_message());
    if (r->count == RANDOM_VALUES) return;
    r->value[r->count] = step;
    r->inside[r->count++] = inside;
}

/* Sizes: mostly small; now and then longer than a strip or a block. */
static inline void random_sizes(random_kernel *r, int axes) {
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 16, 17, 33, 64, 100};
    for (int a = 0; a < axes; ++a) r->geometry[a] = sizes[random_below(axes > 2 ? 6 : 10)];
    const uint64_t special = random_below(8);
    const int a = (int)random_below((uint64_t)axes);
    if (special == 0) r->geometry[a] = axes > 1 ? 300 : 9001;
    if (special == 1) r->geometry[a] = axes > 1 ? 601 : 4096;
    if (special == 2) r->geometry[a] = 0;
}

/* Strides of an input: of the class that was drawn; `over`: axes along which it may move. */
static inline int random_buffer(random_kernel *r, hd_dtype dtype, bool written, uint32_t over) {
    hd_kernel *k = &r->k;
    uint8_t class[HD_KERNEL_AXES] = {0};
    int64_t strides[HD_KERNEL_AXES] = {0}, next = 1;
    const bool contiguous = random_below(3) != 0;
    for (int i = k->axes - 1; i >= 0; --i) {
        const int a = contiguous ? i : k->axes - 1 - i; /* the other order: transposed */
        if ((over >> a & 1) == 0 || (!written && random_below(5) == 0)) continue;
        strides[a] = next;
        class[a] = next == 1 && random_below(8) != 0 ? HD_STRIDE_ONE : HD_STRIDE_ANY;
        next *= r->geometry[a] > 0 ? r->geometry[a] : 1;
    }
    const int b = hd_kernel_add_buffer(k, dtype, written, class);
    for (int a = 0; a < k->axes; ++a) r->geometry[hd_geometry_stride(k, b, a)] = strides[a];
    r->elements[b] = next;
    return b;
}

static inline int random_type(const random_kernel *r, int v) { return r->k.steps[r->value[v]].type; }

static inline int random_constant(random_kernel *r, int type, double value) {
    return hd_kernel_constant(&r->k, (hd_compute)type, value);
}

/* Limits a step, so that numbers stay small. */
static inline int random_limit(random_kernel *r, int step, double lowest, double highest) {
    hd_kernel *k = &r->k;
    const int type = k->steps[step].type;
    if (type == HD_CONDITION || type == HD_COMPUTE_B8) return step;
    const bool is_unsigned = type >= HD_COMPUTE_U8 && type <= HD_COMPUTE_U64;
    step = hd_kernel_word(k, HD_WORD_MAX, step, random_constant(r, type, is_unsigned ? 0 : lowest), -1);
    return hd_kernel_word(k, HD_WORD_MIN, step, random_constant(r, type, highest), -1);
}

static inline void random_word(random_kernel *r) {
    static const hd_word numbers[] = {HD_WORD_ADD, HD_WORD_SUB, HD_WORD_MUL, HD_WORD_MAX, HD_WORD_MIN,   HD_WORD_ABS,
                                      HD_WORD_NEG, HD_WORD_LT,  HD_WORD_LE,  HD_WORD_EQ,  HD_WORD_SELECT},
                         bits[] = {HD_WORD_AND, HD_WORD_OR, HD_WORD_XOR, HD_WORD_NOT, HD_WORD_MAX, HD_WORD_EQ},
                         truths[] = {HD_WORD_BOTH, HD_WORD_EITHER, HD_WORD_UNLESS};
    hd_kernel *k = &r->k;
    const int a = (int)random_below((uint64_t)r->count), b = (int)random_below((uint64_t)r->count),
              c = (int)random_below((uint64_t)r->count), type = random_type(r, a);
    const hd_word word = type == HD_CONDITION    ? truths[random_below(3)]
                         : type == HD_COMPUTE_B8 ? bits[random_below(6)]
                                                 : numbers[random_below(11)];
    int x = r->value[a], y = hd_kernel_cast(k, r->value[b], type), z = -1;
    bool inside = r->inside[a] || (hd_words[word].arity > 1 && r->inside[b]);
    if (word == HD_WORD_SELECT) {
        z = x;
        x = hd_kernel_cast(k, r->value[c], HD_CONDITION);
        inside = inside || r->inside[c];
    }
    const int step = hd_kernel_word(k, word, x, y, z);
    random_add(r, random_limit(r, step, -9, 9), inside);
}

static inline void random_reduction(random_kernel *r) {
    hd_kernel *k = &r->k;
    const int a = (int)random_below((uint64_t)r->count), type = random_type(r, a);
    if (type == HD_CONDITION || r->reductions == 5) return;
    const hd_kernel_reduction how =
        (hd_kernel_reduction)(type == HD_COMPUTE_B8 ? 2 + random_below(2) : random_below(4));
    int step = r->value[a];
    if (how == HD_KERNEL_PROD) step = random_limit(r, step, -1, 1);
    r->reductions++;
    random_add(r, random_limit(r, hd_kernel_reduce(k, step, how), -50, 50), false);
}

static inline void random_cast(random_kernel *r) {
    static const int types[] = {HD_COMPUTE_F32, HD_COMPUTE_F64, HD_COMPUTE_I8,  HD_COMPUTE_I32, HD_COMPUTE_I64,
                                HD_COMPUTE_U8,  HD_COMPUTE_U16, HD_COMPUTE_U32, HD_COMPUTE_B8,  HD_CONDITION};
    const int a = (int)random_below((uint64_t)r->count), type = types[random_below(10)];
    random_add(r, random_limit(r, hd_kernel_cast(&r->k, r->value[a], type), -50, 50), r->inside[a]);
}

static inline void random_store(random_kernel *r, int v) {
    static const hd_dtype dtypes[HD_COMPUTE_COUNT] = {HD_BOOL, HD_U8,  HD_U16, HD_U32, HD_U64, HD_I8,
                                                      HD_I16,  HD_I32, HD_I64, HD_F32, HD_F64};
    hd_kernel *k = &r->k;
    const uint32_t kept = (1u << k->kept) - 1, all = (1u << k->axes) - 1;
    int step = r->value[v];
    if (k->steps[step].type == HD_CONDITION) step = hd_kernel_cast(k, step, HD_COMPUTE_B8);
    hd_dtype dtype = dtypes[k->steps[step].type];
    if (dtype == HD_F32 && random_below(3) == 0) dtype = (hd_dtype)(HD_F8E4M3 + random_below(4));
    const bool everywhere = r->inside[v] || random_below(4) == 0;
    hd_kernel_store(k, random_buffer(r, dtype, true, everywhere ? all : kept), step);
}

static inline void random_sources(random_kernel *r) {
    static const hd_dtype dtypes[] = {HD_F32, HD_F32,  HD_F32, HD_F64,  HD_I32,   HD_I64,
                                      HD_U8,  HD_BF16, HD_F16, HD_BOOL, HD_F8E5M2};
    hd_kernel *k = &r->k;
    const uint32_t reduced = ((1u << k->axes) - 1) & ~((1u << k->kept) - 1);
    const int inputs = 1 + (int)random_below(3);
    for (int i = 0; i < inputs; ++i) {
        const int b = random_buffer(r, dtypes[random_below(11)], false, (1u << k->axes) - 1);
        bool inside = false;
        for (int a = 0; a < k->axes; ++a)
            inside = inside || ((reduced >> a & 1) && k->buffers[b].stride[a] != HD_STRIDE_ZERO);
        random_add(r, hd_kernel_load(k, b, -1), inside);
        if (random_below(3) == 0) { /* the same where a position, or an element, is below a number */
            const int along = (int)random_below(k->axes);
            const bool of_place = random_below(2);
            const int what = of_place ? hd_kernel_index(k, along) : hd_kernel_cast(k, r->value[0], HD_COMPUTE_I64);
            const int below =
                hd_kernel_word(k, HD_WORD_LT, what, hd_kernel_constant(k, HD_COMPUTE_I64, (double)random_below(9)), -1);
            const bool varies = of_place ? (reduced >> along & 1) != 0 : r->inside[0];
            random_add(r, hd_kernel_load_where(k, b, -1, below), inside || varies);
        }
    }
    const int axis = (int)random_below(k->axes), at = hd_kernel_index(k, axis);
    random_add(r, random_limit(r, at, -50, 50), (reduced >> axis & 1) != 0);
    if (random_below(2)) { /* gathers from a small table, through an index that fits */
        const int place = random_limit(r, hd_kernel_cast(k, r->value[0], HD_COMPUTE_I64), 0, 6);
        const uint8_t zeros[HD_KERNEL_AXES] = {0};
        const int b = hd_kernel_add_buffer(k, HD_F32, false, zeros);
        r->elements[b] = 8;
        const int below = hd_kernel_word(k, HD_WORD_LT, place, hd_kernel_constant(k, HD_COMPUTE_I64, 4), -1);
        random_add(r, hd_kernel_load_where(k, b, place, random_below(2) ? below : -1), r->inside[0]);
    }
    if (random_below(2)) random_add(r, hd_kernel_number(k, HD_COMPUTE_F32, 0), false);
    if (random_below(2)) random_add(r, hd_kernel_number(k, HD_COMPUTE_I16, 1), false);
}

/* The geometry's place of strides depends on the axes alone, that of the slot's bytes on the number of buffers. */
static inline void random_make(random_kernel *r, int vector_bytes) {
    memset(r, 0, sizeof *r);
    const int axes = 1 + (int)random_below(3), kept = (int)random_below((uint64_t)axes + 1);
    hd_kernel_init(&r->k, axes, kept);
    random_sizes(r, axes);
    for (int a = 0; a < axes; ++a) r->geometry[axes + a] = (int64_t)random_below(5);
    random_sources(r);
    const int words = 2 + (int)random_below(10);
    for (int i = 0; i < words; ++i) {
        const uint64_t what = random_below(6);
        if (what == 0 && (kept < axes || random_below(8) == 0))
            random_reduction(r);
        else if (what == 1)
            random_cast(r);
        else
            random_word(r);
    }
    random_store(r, r->count - 1);
    for (int i = 0; i < 2; ++i) random_store(r, (int)random_below((uint64_t)r->count));
    const int lanes = kept > 0 && (kept == axes || random_below(2)) ? kept - 1 : axes - 1;
    if (kernel_finish(&r->k, lanes, vector_bytes) != HD_OK || hd_kernel_verify(&r->k) != HD_OK)
        fail_msg("%s", hd_error_message());
    int64_t points = 1;
    for (int a = kept; a < axes; ++a) points *= r->geometry[a];
    const int64_t slot = (points * 8 + 1024) / 64 * 64;
    r->geometry[hd_geometry_slot(&r->k)] = slot;
    r->scratch_bytes = (size_t)(slot * r->k.schedule.slots + 64);
    const float first = (float)random_below(5);
    const int16_t second = (int16_t)random_below(5);
    memcpy(&r->numbers[0], &first, sizeof first);
    memcpy(&r->numbers[1], &second, sizeof second);
}

/* Memory for the buffers: inputs of small whole numbers, outputs filled with a pattern. */
static inline void random_memory(const random_kernel *r, char **buffers) {
    for (int b = 0; b < r->k.buffer_count; ++b) {
        const hd_dtype dtype = (hd_dtype)r->k.buffers[b].dtype;
        const size_t bytes = hd_dtype_bytes[dtype];
        buffers[b] = malloc((size_t)r->elements[b] * bytes + 64);
        memset(buffers[b], 0x5a, (size_t)r->elements[b] * bytes + 64);
        for (int64_t i = 0; i < r->elements[b] && !r->k.buffers[b].written; ++i)
            hd_element_from_f64(buffers[b] + (size_t)i * bytes, dtype,
                                dtype == HD_BOOL ? (double)random_below(2)
                                                 : (double)random_below(8) - (hd_dtype_is_signed(dtype) ? 3 : 0));
    }
}

#endif
