/* What convolutions on CUDA have in common, below template_product_head.h and above template_conv.h, or
 * template_conv_image.h: places in images, and how a group stores its sums. MULTIPLY says how it multiplies: 0
 * elements of f32, by each thread for itself; 1 and 2 elements of bf16 and of f16, by the tensor cores, which sum in
 * f32. (TF32 by tensor cores, where a call asks for it, will be another one.) The tile of a group has warps of PER_M
 * x PER_N sums.
 *
 * A window is read without a division, or a comparison, for each element: an element of B is where a place along k
 * and one along the columns meet, at the sum of two offsets. Whether it is beside the image depends on each axis
 * alone, and of k and columns one walks through the taps, of which there are few: a tap has a bit for its position on
 * each axis, a pixel those of the positions that are beside the image there. So an element is 0 when the bits of its
 * two places meet. Both are worked out ahead, as a conv_point. */
typedef struct W_ALIGNED(8) conv_point {
    int32_t at;
    uint32_t bits;
} conv_point;
typedef struct W_ALIGNED(16) conv_two { /* neighbours, which are read at once */
    conv_point v[2];
} conv_two;
#define CONV_BEYOND_K       (1u << 30) /* the bits above those of taps */
#define CONV_BEYOND_COLUMNS (1u << 31)

/* How k, or the columns, walk through the image. */
typedef struct conv_walk {
    int32_t size[3], strides[4], step[3], begin[3];
} conv_walk;
typedef struct conv_windows {
    conv_walk k, column;
    int32_t a_strides[4]; /* of k in A */
    int32_t image[3], stride[3], image_stride[3];
} conv_windows;
W_INLINE conv_windows conv_windows_of(const product_arguments *a) {
    conv_windows w;
    W_ALL_ROUNDS
    for (int i = 0; i < 3; ++i) {
        w.k.size[i] = (int32_t)a->k_size[i];
        w.k.step[i] = (int32_t)a->k_step[i];
        w.k.begin[i] = (int32_t)a->k_begin[i];
        w.column.size[i] = (int32_t)a->column_size[i];
        w.column.step[i] = (int32_t)a->column_step[i];
        w.column.begin[i] = (int32_t)a->column_begin[i];
        w.image[i] = (int32_t)a->image[i];
        w.stride[i] = (int32_t)a->stride[i];
        w.image_stride[i] = (int32_t)a->image_stride[i];
    }
    W_ALL_ROUNDS
    for (int i = 0; i < 4; ++i) {
        w.k.strides[i] = (int32_t)a->k_b[i];
        w.column.strides[i] = (int32_t)a->column_b[i];
        w.a_strides[i] = (int32_t)a->k_a[i];
    }
    return w;
}

/* Which of the outer ones, and where on each axis. */
typedef struct W_ALIGNED(16) conv_position {
    int32_t x[4];
} conv_position;
W_INLINE conv_position conv_position_of(int32_t number, const conv_walk *walk) {
    conv_position p;
    uint32_t left = (uint32_t)number;
    W_ALL_ROUNDS
    for (int i = 2; i >= 0; --i) {
        p.x[i + 1] = (int32_t)(left % (uint32_t)walk->size[i]);
        left /= (uint32_t)walk->size[i];
    }
    p.x[0] = (int32_t)left;
    return p;
}
/* So many places further. */
W_INLINE void conv_advance(conv_position *p, const conv_position *by, const conv_walk *walk) {
    int32_t carry = 0;
    W_ALL_ROUNDS
    for (int i = 3; i > 0; --i) {
        p->x[i] += by->x[i] + carry;
        carry = p->x[i] >= walk->size[i - 1];
        if (carry) p->x[i] -= walk->size[i - 1];
    }
    p->x[0] += by->x[0] + carry;
}
W_INLINE int32_t conv_offset(const conv_position *p, const int32_t strides[4]) {
    return p->x[0] * strides[0] + p->x[1] * strides[1] + p->x[2] * strides[2] + p->x[3] * strides[3];
}

#if FORM == 2
/* Pixels that strides put apart: where tap and column meet on one is the sum of the pixels' numbers, when those of
 * columns are rounded down and those of taps up. */
W_INLINE int32_t conv_rounded_down(int32_t p, int32_t stride) {
    return p >= 0 ? p / stride : -((stride - 1 - p) / stride);
}
#endif

/* A place of the walk `own`, of which the other one is `other`; `taps`: own walks through the taps. */
W_INLINE conv_point conv_point_of(const conv_position *place, const conv_walk *own, const conv_walk *other, bool taps,
                                  const conv_windows *w) {
    conv_point point = {conv_offset(place, own->strides), 0};
    int32_t bit = 0;
    W_ALL_ROUNDS
    for (int i = 0; i < 3; ++i) {
        const int32_t p = place->x[i + 1] * own->step[i] + own->begin[i];
#if FORM == 2
        point.at +=
            (taps ? -conv_rounded_down(-p, w->stride[i]) : conv_rounded_down(p, w->stride[i])) * w->image_stride[i];
#endif
        if (taps) point.bits |= 1u << (bit + place->x[i + 1]);
        for (int32_t tap = 0; tap < other->size[i] && !taps; ++tap) {
            const int32_t pixel = p + tap * other->step[i] + other->begin[i];
#if FORM == 2
            const bool is_there = product_is_pixel(pixel, w->stride[i], w->image[i]);
#else
            const bool is_there = pixel >= 0 && pixel < w->image[i];
#endif
            if (!is_there) point.bits |= 1u << (bit + tap);
        }
        bit += taps ? own->size[i] : other->size[i];
    }
    return point;
}

#if MULTIPLY > 0
/* Eight elements of small floats, two in a word. */
typedef struct W_ALIGNED(16) conv_eight {
    uint32_t v[4];
} conv_eight;
W_INLINE conv_eight conv_eight_of(const uint32_t elements[8]) {
    conv_eight out;
    W_ALL_ROUNDS
    for (int i = 0; i < 4; ++i) out.v[i] = elements[2 * i] | elements[2 * i + 1] << 16;
    return out;
}

#if MULTIPLY == 1
#define W_MULTIPLY w_multiply_bf16
#else
#define W_MULTIPLY w_multiply_f16
#endif
#endif

/* ---- sums, which go through local memory, so that neighbouring threads store neighbouring elements -------------- */
#if MULTIPLY == 0 /* 4 x 4 blocks of a thread; those of a warp stand in 4 rows of 8 */
enum { CONV_M = PER_M / 4, CONV_N = PER_N / 8 };
typedef float conv_sums[CONV_M][CONV_N];
typedef struct W_ALIGNED(16) conv_four {
    float v[4];
} conv_four;
#else /* 16 x 8 blocks of a warp, four elements of which a thread has */
enum { CONV_M = PER_M / 16, CONV_N = PER_N / 8 };
typedef float conv_sums[CONV_M][CONV_N][4];
#endif
enum {
    CONV_SLABS = TILE_M * TILE_N > 8192 ? TILE_M *TILE_N / 8192 : 1, /* rows of the tile that are there at a time */
    CONV_SLAB = TILE_M / CONV_SLABS,
    CONV_APART = THREADS / TILE_N > 0 ? THREADS / TILE_N : 1 /* rows that a thread stores */
};
typedef struct W_ALIGNED(16) conv_slab { /* eight more, for the banks */
    float v[CONV_SLAB][TILE_N + 8];
} conv_slab;

/* Those of a thread which are in a slab. */
W_INLINE void conv_put_sums(conv_slab *slab, int which, conv_sums sums, int warp_row, int warp_column, int lane) {
    W_ALL_ROUNDS
    for (int i = 0; i < CONV_M; ++i) {
#if MULTIPLY == 0
        const int row = warp_row + (i / 4 * 4 + lane % 32 / 8) * 4 + i % 4 - which * CONV_SLAB;
        if (row < 0 || row >= CONV_SLAB) continue;
        W_ALL_ROUNDS
        for (int j = 0; j < CONV_N; j += 4) {
            const conv_four four = {{sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}};
            *(conv_four *)&slab->v[row][warp_column + (j / 4 * 8 + lane % 8) * 4] = four;
        }
#else
        const int row = warp_row + i * 16 + lane % 32 / 4 - which * CONV_SLAB;
        if (row < 0 || row >= CONV_SLAB) continue;
        W_ALL_ROUNDS
        for (int j = 0; j < CONV_N; ++j) {
            float *const to = &slab->v[row][warp_column + j * 8 + lane % 4 * 2];
            to[0] = sums[i][j][0];
            to[1] = sums[i][j][1];
            to[8 * (TILE_N + 8)] = sums[i][j][2];
            to[8 * (TILE_N + 8) + 1] = sums[i][j][3];
        }
#endif
    }
}

/* What the function does with them at its end; of columns from the first one of the tile to before another. */
#define CONV_STORE(begin_column, end_column)                                                                           \
    for (int slab = 0; slab < CONV_SLABS; ++slab) {                                                                    \
        W_BARRIER(); /* nobody reads what lies there any more */                                                       \
        conv_put_sums(&memory.slab, slab, sums, warp_row, warp_column, lane);                                          \
        W_BARRIER();                                                                                                   \
        for (int in_tile = lane % TILE_N; in_tile < TILE_N; in_tile += THREADS) {                                      \
            const product_index column = (begin_column) + in_tile;                                                     \
            for (int in_slab = lane / TILE_N; in_slab < CONV_SLAB; in_slab += CONV_APART) {                            \
                const product_index row = first_row + slab * CONV_SLAB + in_slab;                                      \
                const product_sum total = memory.slab.v[in_slab][in_tile];                                             \
                if (row >= rows || column >= (end_column)) break;                                                      \
                if (a.k_pieces > 1) {                                                                                  \
                    parts[(((product_index)W_GROUP(1) * (product_index)a.batches + batch) * rows + row) * columns +    \
                          column] = total;                                                                             \
                } else {                                                                                               \
                    PRODUCT_PLACE                                                                                      \
                    PRODUCT_STORE                                                                                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
