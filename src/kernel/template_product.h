/* Products of matrices, and convolutions as such, as a template of C (the result), A, B and BIAS, below
 * template_product_head.h. A group of threads has a tile of the result, and a thread some elements of it in
 * registers. Along k the group brings a few columns of A and rows of B at a time into local memory, and fetches the
 * next ones while it multiplies these. Where there are few tiles k is cut into pieces, whose sums `product_join` adds
 * in order: the same bits in every run. */
/* Threads stand in rows of ACROSS. The elements of one are in blocks of 4, which are read at once, apart from each
 * other, so that neighbours read neighbouring blocks. */
#define ACROSS (TILE_N / PER_N)
#define DOWN   (TILE_M / PER_M)
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

    PRODUCT_TILE
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
#ifdef PRODUCT_WALK
    product_b totals[PER_M][PER_N / B_BLOCK];
    const int first_total = PRODUCT_TOTALS;
#endif
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
#ifdef PRODUCT_WALK
        const product_index rounds = (next - begin) / TILE_K; /* that are multiplied */
        if (rounds > 0 && rounds % PRODUCT_ROUNDS == 0 && next < end) {
            W_ALL_ROUNDS
            for (int i = 0; i < PER_M; ++i) {
                W_ALL_ROUNDS
                for (int j = 0; j < PER_N / B_BLOCK; ++j) {
                    product_b total;
                    W_ALL_ROUNDS
                    for (int e = 0; e < B_BLOCK; ++e) total.v[e] = 0;
                    if (rounds > PRODUCT_ROUNDS) total = totals[first_total + i][j];
                    W_ALL_ROUNDS
                    for (int e = 0; e < B_BLOCK; ++e) {
                        total.v[e] += sums[i][j * B_BLOCK + e];
                        sums[i][j * B_BLOCK + e] = 0;
                    }
                    totals[first_total + i][j] = total;
                }
            }
        }
#endif
    }
#ifdef PRODUCT_WALK
    if (end - begin > PRODUCT_ROUNDS * TILE_K) {
        W_ALL_ROUNDS
        for (int i = 0; i < PER_M; ++i) {
            W_ALL_ROUNDS
            for (int j = 0; j < PER_N; ++j) sums[i][j] += totals[first_total + i][j / B_BLOCK].v[j % B_BLOCK];
        }
    }
#endif
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
