/* Products of matrices, and convolutions as such, as a template of C (the result), A, B and BIAS. A group of threads
 * has a tile of the result, and a thread some elements of it in registers. Along k the group brings a few columns of
 * A and rows of B at a time into local memory, and fetches the next ones while it multiplies these. Where there are
 * few tiles k is cut into pieces, whose sums `product_join` adds in order: the same bits in every run. Integers are
 * summed without a sign in 32 or 64 bits, of which the result has the lower ones. What is done with an element when
 * its sum is there is PRODUCT_STORE, which a fused epilogue replaces, with the buffers and the fields that it needs. */
#if C_BYTES == 8
#define SUM_BYTES 8
#else
#define SUM_BYTES 4
#endif
#if C_IS_FLOAT
typedef C_TYPE product_sum;
#elif SUM_BYTES == 8
typedef uint64_t product_sum;
#else
typedef uint32_t product_sum;
#endif
#if NARROW
typedef int32_t product_index;
#else
typedef int64_t product_index;
#endif

/* Threads stand in rows of ACROSS. The elements of one are in blocks of 4, which are read at once, apart from each
 * other, so that neighbours read neighbouring blocks. */
#define ACROSS  (TILE_N / PER_N)
#define DOWN    (TILE_M / PER_M)
#define THREADS (ACROSS * DOWN)
#if PER_M % 4 == 0
#define A_BLOCK 4
#else
#define A_BLOCK 1
#endif
#if PER_N % 4 == 0
#define B_BLOCK 4
#else
#define B_BLOCK 1
#endif
typedef struct W_ALIGNED(A_BLOCK *SUM_BYTES) product_a {
    product_sum v[A_BLOCK];
} product_a;
typedef struct W_ALIGNED(B_BLOCK *SUM_BYTES) product_b {
    product_sum v[B_BLOCK];
} product_b;
/* Elements of a round that a thread fetches: the next is a step across or along k further, whichever way neighbouring
 * threads read neighbouring elements. */
#define A_EACH                ((TILE_M * TILE_K + THREADS - 1) / THREADS)
#define B_EACH                ((TILE_N * TILE_K + THREADS - 1) / THREADS)
#define A_IN_TILE(at, row)    (A_EACH * THREADS == TILE_M * TILE_K || ((at) < TILE_K && (row) < TILE_M))
#define B_IN_TILE(at, column) (B_EACH * THREADS == TILE_N * TILE_K || ((at) < TILE_K && (column) < TILE_N))

#ifndef PRODUCT_STORE /* with its bias into memory */
#define PRODUCT_BUFFERS      W_GLOBAL char *bias_memory W_SLOT(3), W_GLOBAL char *out_memory W_SLOT(4),
#define PRODUCT_BUFFER_COUNT 5
#define PRODUCT_FIELDS       int64_t bias_offset, out_offset;
#define PRODUCT_ADDRESSES                                                                                              \
    W_GLOBAL const BIAS_MEMORY *const bias = (W_GLOBAL const BIAS_MEMORY *)(bias_memory + a.bias_offset);              \
    W_GLOBAL C_MEMORY *const out = (W_GLOBAL C_MEMORY *)(out_memory + a.out_offset);
#define PRODUCT_STORE                                                                                                  \
    C_TYPE value = (C_TYPE)total;                                                                                      \
    if (a.has_bias) value += (C_TYPE)BIAS_LOAD(bias[along_bias * (product_index)a.bias_stride]);                       \
    out[line * (product_index)a.columns + place] = C_STORE(value);
#endif

typedef struct product_arguments {
    int64_t a_offset, b_offset, parts_offset;
    PRODUCT_FIELDS
    int64_t m, n, k;                  /* of one matrix */
    int64_t tiles_m, tiles_n;         /* of it */
    int64_t batches;                  /* matrices */
    int64_t k_piece, k_pieces;        /* of k: elements of one, and how many */
    int64_t a_lies_down, b_lies_down; /* neighbours in memory are those along the rows of A, along k of B */
    int64_t a_row;                    /* from one row of A to the next */
    int64_t columns;                  /* of the result in memory, where it is rows of them */
    int64_t has_bias, bias_stride;
#if FORM == 0
    int64_t a_column, b_row, b_column;
    int64_t lines;                                          /* rows of the result that a matrix has */
    int64_t row_line, column_line, row_place, column_place; /* where an element of it lies there */
    int64_t batch_rank, batch_size[6], a_batch[6], b_batch[6];
#else
    int64_t a_group, b_group, b_first; /* matrices are groups of channels; what is before the image */
    int64_t channels;                  /* of the result */
    int64_t k_size[3], column_size[3]; /* k and the columns count through outer ones and these */
    int64_t k_a[4], k_b[4], column_b[4];
    int64_t k_step[3], k_begin[3], column_step[3], column_begin[3]; /* where in the image that is */
    int64_t image[3], stride[3], image_stride[3];
#endif
} product_arguments;

/* An element of a matrix of the batch lies in row `line` of the result, at `place`. */
#if FORM == 0
#define PRODUCT_PLACE                                                                                                  \
    const product_index line = batch * (product_index)a.lines + row * (product_index)a.row_line +                      \
                               column * (product_index)a.column_line,                                                  \
                        place = row * (product_index)a.row_place + column * (product_index)a.column_place,             \
                        along_bias = place;                                                                            \
    (void)along_bias;
#else
#define PRODUCT_PLACE                                                                                                  \
    const product_index image = column / (product_index)a.columns, place = column % (product_index)a.columns,          \
                        along_bias = batch * rows + row, line = image * (product_index)a.channels + along_bias;
#endif

#if FORM
/* Position `number` as outer ones and three of these sizes: where it is in memory, and where in the image. */
#define PRODUCT_POINT(number, size, strides, steps, begins, at, p0, p1, p2)                                            \
    {                                                                                                                  \
        const product_index x2 = (number) % (product_index)a.size[2], y1 = (number) / (product_index)a.size[2],        \
                            x1 = y1 % (product_index)a.size[1], y0 = y1 / (product_index)a.size[1],                    \
                            x0 = y0 % (product_index)a.size[0], outer = y0 / (product_index)a.size[0];                 \
        at = outer * (product_index)a.strides[0] + x0 * (product_index)a.strides[1] +                                  \
             x1 * (product_index)a.strides[2] + x2 * (product_index)a.strides[3];                                      \
        p0 = x0 * (product_index)a.steps[0] + (product_index)a.begins[0];                                              \
        p1 = x1 * (product_index)a.steps[1] + (product_index)a.begins[1];                                              \
        p2 = x2 * (product_index)a.steps[2] + (product_index)a.begins[2];                                              \
    }
#endif
#if FORM == 2
/* Between the pixels that strides put apart there is nothing. */
W_INLINE bool product_is_pixel(product_index p, product_index stride, product_index size) {
    return p >= 0 && (stride == 1 || p % stride == 0) && p / stride < size;
}
#endif

enum { PRODUCT_BAND = 8 }; /* rows of tiles that are done together, as they read the same of B */

W_KERNEL_OF(THREADS)
void product(W_GLOBAL char *a_memory W_SLOT(0), W_GLOBAL char *b_memory W_SLOT(1),
             W_GLOBAL char *parts_memory W_SLOT(2),
             PRODUCT_BUFFERS W_ARGUMENTS(product_arguments, a, PRODUCT_BUFFER_COUNT) W_IDS) {
    W_GLOBAL const A_MEMORY *const left = (W_GLOBAL const A_MEMORY *)(a_memory + a.a_offset);
    W_GLOBAL const B_MEMORY *const right = (W_GLOBAL const B_MEMORY *)(b_memory + a.b_offset);
    W_GLOBAL product_sum *const parts = (W_GLOBAL product_sum *)(parts_memory + a.parts_offset);
    PRODUCT_ADDRESSES
    W_LOCAL product_a some_a[TILE_K][TILE_M / A_BLOCK + 1]; /* a block more, so that columns are in different banks */
    W_LOCAL product_b some_b[TILE_K][TILE_N / B_BLOCK + 1];
    const int lane = W_THREAD, across = lane % ACROSS, down = lane / ACROSS;
    const product_index rows = (product_index)a.m, columns = (product_index)a.n;

    const product_index tiles = (product_index)(a.tiles_m * a.tiles_n), group = (product_index)W_GROUP(0);
    const product_index batch = group / tiles, tile = group % tiles;
    const product_index band = tile / (PRODUCT_BAND * (product_index)a.tiles_n) * PRODUCT_BAND,
                        in_band = tile - band * (product_index)a.tiles_n, left_rows = (product_index)a.tiles_m - band,
                        band_rows = left_rows < PRODUCT_BAND ? left_rows : PRODUCT_BAND;
    const product_index first_row = (band + in_band % band_rows) * TILE_M, first_column = in_band / band_rows * TILE_N;
    const product_index begin = (product_index)W_GROUP(1) * (product_index)a.k_piece,
                        end = (product_index)a.k - begin < (product_index)a.k_piece ? (product_index)a.k
                                                                                    : begin + (product_index)a.k_piece;
#if FORM == 0
    product_index first_a = 0, first_b = 0, left_batch = batch;
    for (int axis = (int)a.batch_rank - 1; axis >= 0; --axis) {
        const product_index size = (product_index)a.batch_size[axis], at = left_batch % size;
        left_batch /= size;
        first_a += at * (product_index)a.a_batch[axis];
        first_b += at * (product_index)a.b_batch[axis];
    }
    const product_index a_column = (product_index)a.a_column, b_row = (product_index)a.b_row,
                        b_column = (product_index)a.b_column;
#else
    const product_index first_a = batch * (product_index)a.a_group,
                        first_b = batch * (product_index)a.b_group + (product_index)a.b_first;
    /* Of the columns of the tile, and of the places along k of a round: offsets and positions. */
    W_LOCAL product_index tile_columns[4][TILE_N], tile_ks[5][TILE_K];
    for (int e = lane; e < TILE_N; e += THREADS)
        PRODUCT_POINT(first_column + e, column_size, column_b, column_step, column_begin, tile_columns[0][e],
                      tile_columns[1][e], tile_columns[2][e], tile_columns[3][e])
#endif
    const product_index a_row = (product_index)a.a_row;
    const bool a_down = a.a_lies_down != 0, b_down = a.b_lies_down != 0;
    const int a_at = a_down ? lane / TILE_M : lane % TILE_K, a_at_step = a_down ? THREADS / TILE_M : 0,
              a_to = a_down ? lane % TILE_M : lane / TILE_K, a_to_step = a_down ? 0 : THREADS / TILE_K;
    const int b_at = b_down ? lane % TILE_K : lane / TILE_N, b_at_step = b_down ? 0 : THREADS / TILE_N,
              b_to = b_down ? lane / TILE_K : lane % TILE_N, b_to_step = b_down ? THREADS / TILE_K : 0;

    product_sum sums[PER_M][PER_N], next_a[A_EACH], next_b[B_EACH];
    W_ALL_ROUNDS
    for (int i = 0; i < PER_M; ++i) {
        W_ALL_ROUNDS
        for (int j = 0; j < PER_N; ++j) sums[i][j] = 0;
    }
    /* In each round what the one before has fetched is multiplied: the first only fetches, the last fetches no more. */
    for (product_index from = begin - TILE_K; from < end; from += TILE_K) {
        const product_index next = from + TILE_K;
        W_BARRIER();
        if (from >= begin) {
            W_ALL_ROUNDS
            for (int i = 0; i < A_EACH; ++i) {
                const int at = a_at + i * a_at_step, to = a_to + i * a_to_step;
                if (A_IN_TILE(at, to)) some_a[at][to / A_BLOCK].v[to % A_BLOCK] = next_a[i];
            }
            W_ALL_ROUNDS
            for (int i = 0; i < B_EACH; ++i) {
                const int at = b_at + i * b_at_step, to = b_to + i * b_to_step;
                if (B_IN_TILE(at, to)) some_b[at][to / B_BLOCK].v[to % B_BLOCK] = next_b[i];
            }
        }
#if FORM
        for (int e = lane; e < TILE_K; e += THREADS) {
            product_index unused0, unused1, unused2;
            PRODUCT_POINT(next + e, k_size, k_a, k_step, k_begin, tile_ks[4][e], unused0, unused1, unused2)
            PRODUCT_POINT(next + e, k_size, k_b, k_step, k_begin, tile_ks[0][e], tile_ks[1][e], tile_ks[2][e],
                          tile_ks[3][e])
        }
#endif
        W_BARRIER();
        if (next < end) { /* what lies beside the matrix, or the image, is 0, and its first element is read instead */
            W_ALL_ROUNDS
            for (int i = 0; i < A_EACH; ++i) {
                const int at = a_at + i * a_at_step, to = a_to + i * a_to_step;
                const product_index row = first_row + to;
                const bool is_there = A_IN_TILE(at, to) && next + at < end && row < rows;
#if FORM
                const product_index along = tile_ks[4][is_there ? at : 0];
#else
                const product_index along = (next + at) * a_column;
#endif
                const A_MEMORY element = left[is_there ? first_a + row * a_row + along : 0];
                next_a[i] = is_there ? (product_sum)A_LOAD(element) : (product_sum)0;
            }
            W_ALL_ROUNDS
            for (int i = 0; i < B_EACH; ++i) {
                const int at = b_at + i * b_at_step, to = b_to + i * b_to_step;
                bool is_there = B_IN_TILE(at, to) && next + at < end && first_column + to < columns;
#if FORM == 0
                const product_index where = first_b + (next + at) * b_row + (first_column + to) * b_column;
#else
                const int from_k = is_there ? at : 0, from_column = is_there ? to : 0;
                product_index where = first_b + tile_ks[0][from_k] + tile_columns[0][from_column];
                const product_index p0 = tile_ks[1][from_k] + tile_columns[1][from_column],
                                    p1 = tile_ks[2][from_k] + tile_columns[2][from_column],
                                    p2 = tile_ks[3][from_k] + tile_columns[3][from_column];
#endif
#if FORM == 1
                is_there = is_there && p0 >= 0 && p0 < (product_index)a.image[0] && p1 >= 0 &&
                           p1 < (product_index)a.image[1] && p2 >= 0 && p2 < (product_index)a.image[2];
#elif FORM == 2
                const product_index s0 = (product_index)a.stride[0], s1 = (product_index)a.stride[1],
                                    s2 = (product_index)a.stride[2];
                is_there = is_there && product_is_pixel(p0, s0, (product_index)a.image[0]) &&
                           product_is_pixel(p1, s1, (product_index)a.image[1]) &&
                           product_is_pixel(p2, s2, (product_index)a.image[2]);
                where += p0 / s0 * (product_index)a.image_stride[0] + p1 / s1 * (product_index)a.image_stride[1] +
                         p2 / s2 * (product_index)a.image_stride[2];
#endif
                const B_MEMORY element = right[is_there ? where : 0];
                next_b[i] = is_there ? (product_sum)B_LOAD(element) : (product_sum)0;
            }
        }
        if (from >= begin)
            for (int at = 0; at < TILE_K; ++at) {
                product_a of_a[PER_M / A_BLOCK];
                product_b of_b[PER_N / B_BLOCK];
                W_ALL_ROUNDS
                for (int i = 0; i < PER_M / A_BLOCK; ++i) of_a[i] = some_a[at][i * DOWN + down];
                W_ALL_ROUNDS
                for (int j = 0; j < PER_N / B_BLOCK; ++j) of_b[j] = some_b[at][j * ACROSS + across];
                W_ALL_ROUNDS
                for (int i = 0; i < PER_M; ++i) {
                    W_ALL_ROUNDS
                    for (int j = 0; j < PER_N; ++j)
                        sums[i][j] += of_a[i / A_BLOCK].v[i % A_BLOCK] * of_b[j / B_BLOCK].v[j % B_BLOCK];
                }
            }
    }
    /* What is stored is always the first of the sums, and the others move up: they stay in registers, as all their
     * places are known, and what is done with one is written once. */
    for (int i = 0; i < PER_M; ++i) {
        const product_index row = first_row + (i / A_BLOCK * DOWN + down) * A_BLOCK + i % A_BLOCK;
        for (int j = 0; j < PER_N; ++j) {
            const product_index column = first_column + (j / B_BLOCK * ACROSS + across) * B_BLOCK + j % B_BLOCK;
            const product_sum total = sums[0][0];
            if (row < rows && column < columns) {
                if (a.k_pieces > 1) {
                    parts[(((product_index)W_GROUP(1) * (product_index)a.batches + batch) * rows + row) * columns +
                          column] = total;
                } else {
                    PRODUCT_PLACE
                    PRODUCT_STORE
                }
            }
            W_ALL_ROUNDS
            for (int q = 1; q < PER_N; ++q) sums[0][q - 1] = sums[0][q];
        }
        W_ALL_ROUNDS
        for (int p = 1; p < PER_M; ++p) {
            W_ALL_ROUNDS
            for (int q = 0; q < PER_N; ++q) sums[p - 1][q] = sums[p][q];
        }
    }
}

/* The sums of all pieces of k, in their order; a thread has an element. */
W_KERNEL_OF(THREADS)
void product_join(W_GLOBAL char *a_memory W_SLOT(0), W_GLOBAL char *b_memory W_SLOT(1),
                  W_GLOBAL char *parts_memory W_SLOT(2),
                  PRODUCT_BUFFERS W_ARGUMENTS(product_arguments, a, PRODUCT_BUFFER_COUNT) W_IDS) {
    W_GLOBAL const product_sum *const parts = (W_GLOBAL const product_sum *)(parts_memory + a.parts_offset);
    PRODUCT_ADDRESSES
    const product_index rows = (product_index)a.m, columns = (product_index)a.n,
                        all = (product_index)a.batches * rows * columns,
                        element = (product_index)W_GROUP(0) * THREADS + W_THREAD;
    if (element >= all) return;
    const product_index batch = element / (rows * columns), inside = element % (rows * columns), row = inside / columns,
                        column = inside % columns;
    product_sum total = 0;
    for (product_index piece = 0; piece < (product_index)a.k_pieces; ++piece) total += parts[piece * all + element];
    PRODUCT_PLACE
    PRODUCT_STORE
}
