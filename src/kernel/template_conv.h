/* Convolutions on CUDA, below template_conv_head.h: the products of C, A, B and BIAS that gpu_conv.c describes.
 *
 * Of f32, what is multiplied some rounds later is copied meanwhile, an element at a time, as windows lie anywhere. Of
 * small floats a thread fetches eight elements along k for the next round into registers, and puts them into local
 * memory as one. Places are worked out for the columns of the tile once, and along k in chunks. TURNED: columns walk
 * through the taps, and k through pixels. */
/* ---- a round: what is in local memory for it, how that comes there, and how it is multiplied --------------------- */
enum { CONV_CHUNK = THREADS < 128 ? THREADS : 128, CONV_ROUNDS = CONV_CHUNK / TILE_K };
/* What a group knows of places. Those along k are worked out a chunk at a time, by turns into the one and the other; a
 * thread works one out. */
typedef struct W_ALIGNED(16) conv_places {
    conv_point k[2][CONV_CHUNK], column[TILE_N];
    int32_t a_k[2][CONV_CHUNK];
    conv_position next[CONV_CHUNK], chunk; /* each thread's place in the next one, and by how much it moves on */
} conv_places;
/* A thread's place in a chunk of `count` places in all. */
W_INLINE void conv_work_out(conv_places *to, int chunk, int32_t count, const conv_windows *w, int lane) {
    if (lane >= CONV_CHUNK || chunk * CONV_CHUNK >= count) return;
    conv_position k = to->next[lane];
    conv_point point = conv_point_of(&k, &w->k, &w->column, !TURNED, w);
    point.bits |= CONV_BEYOND_COLUMNS | (chunk * CONV_CHUNK + lane < count ? 0 : CONV_BEYOND_K);
    to->k[chunk % 2][lane] = point;
    to->a_k[chunk % 2][lane] = conv_offset(&k, w->a_strides);
    conv_advance(&k, &to->chunk, &w->k);
    to->next[lane] = k;
}

/* Where a group reads. */
typedef struct conv_operands {
    W_GLOBAL const A_MEMORY *a; /* the first element of the group's matrix */
    W_GLOBAL const B_MEMORY *b;
    int32_t a_row, first_row, rows, k;
    bool a_in_eights;
} conv_operands;

/* What a thread brings of a round: of B so many columns, and of each so many steps along k (elements, or eights);
 * neighbours have neighbouring columns, or steps, as elements lie in memory. Of A it has one step of so many rows. */
#if TURNED
#define CONV_B_COLUMNS   (TILE_N * CONV_STEPS / THREADS)
#define CONV_B_COLUMN(i) (lane / CONV_STEPS + (i) * (THREADS / CONV_STEPS))
#define CONV_B_STEPS     1
#define CONV_B_STEP(i)   (lane % CONV_STEPS)
#else
#define CONV_B_COLUMNS   (TILE_N > THREADS ? TILE_N / THREADS : 1)
#define CONV_B_COLUMN(i) (lane % TILE_N + (i)*THREADS)
#define CONV_B_STEPS     (TILE_N * CONV_STEPS / THREADS / CONV_B_COLUMNS)
#define CONV_B_STEP(i)   (lane / TILE_N * CONV_B_STEPS + (i))
#endif
#define CONV_A_ROWS   (TILE_M * CONV_STEPS / THREADS)
#define CONV_A_ROW(i) (lane / CONV_STEPS + (i) * (THREADS / CONV_STEPS))
#define CONV_A_STEP   (lane % CONV_STEPS)
/* Where a row of A is, or one that is there in place of one beyond the matrix, whose sums are not stored. */
W_INLINE int32_t conv_row(const conv_operands *o, int row) {
    return (o->first_row + row < o->rows ? o->first_row + row : o->rows - 1) * o->a_row;
}

#if MULTIPLY == 0
/* ---- f32: a thread multiplies 4 x 4 blocks, and a warp's threads stand in 4 rows of 8 --------------------------- */
enum { CONV_STEPS = TILE_K, CONV_STAGES = TILE_K * (TILE_M + TILE_N) > 2048 ? 3 : 4 }; /* 48 KiB in all */
typedef struct W_ALIGNED(16) conv_stage { /* four more, so that neighbours along k are in different banks */
    float a[TILE_K][TILE_M + 4], b[TILE_K][TILE_N + 4];
} conv_stage;

W_INLINE void conv_copy(conv_stage *stage, const conv_operands *o, const conv_places *places, int round, int lane) {
    const int chunk = round / CONV_ROUNDS % 2, first = round % CONV_ROUNDS * TILE_K;
    W_ALL_ROUNDS
    for (int i = 0; i < CONV_A_ROWS; ++i)
        w_copy_4(&stage->a[CONV_A_STEP][CONV_A_ROW(i)],
                 &o->a[conv_row(o, CONV_A_ROW(i)) + places->a_k[chunk][first + CONV_A_STEP]],
                 round * TILE_K + CONV_A_STEP < o->k);
    W_ALL_ROUNDS
    for (int c = 0; c < CONV_B_COLUMNS; ++c) {
        const conv_point across = places->column[CONV_B_COLUMN(c)];
        W_GLOBAL const B_MEMORY *from = o->b + across.at;
        W_ONE_NUMBER(from);
        W_ALL_ROUNDS
        for (int s = 0; s < CONV_B_STEPS; ++s) {
            const conv_point along = places->k[chunk][first + CONV_B_STEP(s)];
            w_copy_4(&stage->b[CONV_B_STEP(s)][CONV_B_COLUMN(c)], &from[along.at], (along.bits & across.bits) == 0);
        }
    }
}

W_INLINE void conv_multiply(conv_sums sums, const conv_stage *stage, int warp_row, int warp_column, int lane) {
    const int down = lane % 32 / 8, across = lane % 8;
    W_ALL_ROUNDS
    for (int k = 0; k < TILE_K; ++k) {
        conv_four of_a[CONV_M / 4], of_b[CONV_N / 4];
        W_ALL_ROUNDS
        for (int i = 0; i < CONV_M / 4; ++i) of_a[i] = *(const conv_four *)&stage->a[k][warp_row + (i * 4 + down) * 4];
        W_ALL_ROUNDS
        for (int j = 0; j < CONV_N / 4; ++j)
            of_b[j] = *(const conv_four *)&stage->b[k][warp_column + (j * 8 + across) * 4];
        W_ALL_ROUNDS
        for (int i = 0; i < CONV_M; ++i) {
            W_ALL_ROUNDS
            for (int j = 0; j < CONV_N; ++j) sums[i][j] += of_a[i / 4].v[i % 4] * of_b[j / 4].v[j % 4];
        }
    }
}
/* What sums are when their walk ends: with totals; they begin again. */
typedef conv_four conv_totals[CONV_M][CONV_N / 4];
W_INLINE void conv_end_walk(conv_totals totals, int first_total, conv_sums sums, bool is_first) {
    W_ALL_ROUNDS
    for (int i = 0; i < CONV_M; ++i) {
        W_ALL_ROUNDS
        for (int j = 0; j < CONV_N / 4; ++j) {
            conv_four total = {{0, 0, 0, 0}};
            if (!is_first) total = totals[first_total + i][j];
            W_ALL_ROUNDS
            for (int e = 0; e < 4; ++e) {
                total.v[e] += sums[i][j * 4 + e];
                sums[i][j * 4 + e] = 0;
            }
            totals[first_total + i][j] = total;
        }
    }
}
W_INLINE void conv_end_walks(conv_sums sums, const conv_totals totals, int first_total) {
    W_ALL_ROUNDS
    for (int i = 0; i < CONV_M; ++i) {
        W_ALL_ROUNDS
        for (int j = 0; j < CONV_N / 4; ++j) {
            const conv_four total = totals[first_total + i][j];
            W_ALL_ROUNDS
            for (int e = 0; e < 4; ++e) sums[i][j * 4 + e] += total.v[e];
        }
    }
}
#else
/* ---- small floats: a step of a thread is eight elements along k, and a warp multiplies 16 x 8 sums at once ------- */
enum { CONV_STEPS = TILE_K / 8, CONV_STAGES = 2 };
typedef struct W_ALIGNED(16) conv_stage { /* an eight more, so that neighbours are in different banks */
    conv_eight a[TILE_M][CONV_STEPS + 1], b[TILE_N][CONV_STEPS + 1];
} conv_stage;
typedef struct conv_fetched {
    conv_eight a[CONV_A_ROWS];
    uint32_t b[CONV_B_COLUMNS][CONV_B_STEPS]
              [8]; /* an element in a word, so that nothing waits for them before they are put */
} conv_fetched;

/* Of a row that begins there; `left`: so many elements of it are to come, from the eight's first one on. */
W_INLINE conv_eight conv_eight_of_a(W_GLOBAL const A_MEMORY *row, const int32_t *a_k, int32_t left, bool in_eights) {
    conv_eight out;
    uint32_t elements[8];
    if (in_eights) {
        w_load_16(out.v, &row[a_k[0]], left > 0);
        return out;
    }
    W_ALL_ROUNDS
    for (int i = 0; i < 8; ++i) elements[i] = w_load_2(&row[a_k[i]], i < left);
    return conv_eight_of(elements);
}

W_INLINE void conv_fetch(conv_fetched *to, const conv_operands *o, const conv_places *places, int round, int lane) {
    const int chunk = round / CONV_ROUNDS % 2, first = round % CONV_ROUNDS * TILE_K;
    W_ALL_ROUNDS
    for (int c = 0; c < CONV_B_COLUMNS; ++c) {
        const conv_point across = places->column[CONV_B_COLUMN(c)];
        W_GLOBAL const B_MEMORY *from = o->b + across.at;
        W_ONE_NUMBER(from);
        W_ALL_ROUNDS
        for (int s = 0; s < CONV_B_STEPS; ++s) {
            W_ALL_ROUNDS
            for (int i = 0; i < 8; i += 2) {
                const conv_two along = *(const conv_two *)&places->k[chunk][first + CONV_B_STEP(s) * 8 + i];
                to->b[c][s][i] = w_load_2(&from[along.v[0].at], (along.v[0].bits & across.bits) == 0);
                to->b[c][s][i + 1] = w_load_2(&from[along.v[1].at], (along.v[1].bits & across.bits) == 0);
            }
        }
    }
    W_ALL_ROUNDS
    for (int i = 0; i < CONV_A_ROWS; ++i)
        to->a[i] = conv_eight_of_a(o->a + conv_row(o, CONV_A_ROW(i)), &places->a_k[chunk][first + CONV_A_STEP * 8],
                                   o->k - round * TILE_K - CONV_A_STEP * 8, o->a_in_eights);
}

W_INLINE void conv_put(conv_stage *stage, const conv_fetched *from, int lane) {
    W_ALL_ROUNDS
    for (int i = 0; i < CONV_A_ROWS; ++i) stage->a[CONV_A_ROW(i)][CONV_A_STEP] = from->a[i];
    W_ALL_ROUNDS
    for (int c = 0; c < CONV_B_COLUMNS; ++c) {
        W_ALL_ROUNDS
        for (int s = 0; s < CONV_B_STEPS; ++s)
            stage->b[CONV_B_COLUMN(c)][CONV_B_STEP(s)] = conv_eight_of(from->b[c][s]);
    }
}

W_INLINE void conv_multiply(conv_sums sums, const conv_stage *stage, int warp_row, int warp_column, int lane) {
    const int in_warp = lane % 32;
    W_ALL_ROUNDS
    for (int k = 0; k < CONV_STEPS; k += 2) { /* 16 elements along k */
        uint32_t of_a[CONV_M][4], of_b[CONV_N / 2][4];
        W_ALL_ROUNDS
        for (int i = 0; i < CONV_M; ++i)
            w_matrices_4(of_a[i], &stage->a[warp_row + i * 16 + in_warp % 16][k + in_warp / 16]);
        W_ALL_ROUNDS
        for (int j = 0; j < CONV_N / 2; ++j)
            w_matrices_4(of_b[j],
                         &stage->b[warp_column + j * 16 + in_warp / 16 * 8 + in_warp % 8][k + in_warp / 8 % 2]);
        W_ALL_ROUNDS
        for (int i = 0; i < CONV_M; ++i) {
            W_ALL_ROUNDS
            for (int j = 0; j < CONV_N; ++j) W_MULTIPLY(sums[i][j], of_a[i], of_b[j / 2] + j % 2 * 2);
        }
    }
}
#endif

/* ---- the function ------------------------------------------------------------------------------------------------ */
W_KERNEL_OF(THREADS)
void product(W_GLOBAL char *a_memory W_SLOT(0), W_GLOBAL char *b_memory W_SLOT(1),
             W_GLOBAL char *parts_memory W_SLOT(2),
             PRODUCT_BUFFERS W_ARGUMENTS(product_arguments, a, PRODUCT_BUFFER_COUNT) W_IDS) {
    W_GLOBAL product_sum *const parts = (W_GLOBAL product_sum *)(parts_memory + a.parts_offset);
    PRODUCT_ADDRESSES
    W_LOCAL union {
        conv_stage stage[CONV_STAGES];
        conv_slab slab;
    } memory;
    W_LOCAL conv_places places;
    const int lane = W_THREAD;
    const product_index rows = (product_index)a.m, columns = (product_index)a.n;
    PRODUCT_TILE
    const conv_windows windows = conv_windows_of(&a);
    conv_operands operands = {(W_GLOBAL const A_MEMORY *)(a_memory + a.a_offset) + batch * a.a_group,
                              (W_GLOBAL const B_MEMORY *)(b_memory + a.b_offset) + (batch * a.b_group + a.b_first),
                              (int32_t)a.a_row,
                              first_row,
                              rows,
                              end - begin,
                              false};
    operands.a_in_eights = a.a_in_eights != 0 && (uint64_t)operands.a % 16 == 0;
    W_ONE_NUMBER(operands.a);
    W_ONE_NUMBER(operands.b);
    const int warp_row = lane / 32 / (TILE_N / PER_N) * PER_M, warp_column = lane / 32 % (TILE_N / PER_N) * PER_N;
    const int rounds = (end - begin + TILE_K - 1) / TILE_K;

    for (int e = lane; e < TILE_N; e += THREADS) {
        const conv_position position = conv_position_of(first_column + e, &windows.column);
        places.column[e] = conv_point_of(&position, &windows.column, &windows.k, TURNED, &windows);
        places.column[e].bits |= CONV_BEYOND_K | (first_column + e < columns ? 0 : CONV_BEYOND_COLUMNS);
    }
    if (lane < CONV_CHUNK) places.next[lane] = conv_position_of(begin + lane, &windows.k);
    if (lane == 0) places.chunk = conv_position_of(CONV_CHUNK, &windows.k);
    W_BARRIER();
    conv_work_out(&places, 0, operands.k, &windows, lane);
    W_BARRIER();

    conv_sums sums = {0};
#if MULTIPLY == 0
    conv_totals totals;
    const int first_total = PRODUCT_TOTALS;
    /* A round is copied into the stage that was multiplied in the round before this one. */
    W_ALL_ROUNDS
    for (int ahead = 0; ahead < CONV_STAGES - 1; ++ahead) {
        if (ahead < rounds) conv_copy(&memory.stage[ahead], &operands, &places, ahead, lane);
        W_COPIES_BEGUN();
    }
    for (int round = 0; round < rounds; ++round) {
        const int next = round + CONV_STAGES - 1;
        W_COPIES_DONE(CONV_STAGES - 2);
        W_BARRIER();
        if (round % CONV_ROUNDS == 0) /* the chunk in whose place it comes is no longer read */
            conv_work_out(&places, round / CONV_ROUNDS + 1, operands.k, &windows, lane);
        if (next < rounds) conv_copy(&memory.stage[next % CONV_STAGES], &operands, &places, next, lane);
        W_COPIES_BEGUN();
        conv_multiply(sums, &memory.stage[round % CONV_STAGES], warp_row, warp_column, lane);
        if ((round + 1) % PRODUCT_ROUNDS == 0 && round + 1 < rounds)
            conv_end_walk(totals, first_total, sums, round + 1 == PRODUCT_ROUNDS);
    }
    if (rounds > PRODUCT_ROUNDS) conv_end_walks(sums, totals, first_total);
#else
    /* The next round is on its way to registers while this one is multiplied, and then put into the other stage. */
    conv_fetched next;
    if (rounds > 0) {
        conv_fetch(&next, &operands, &places, 0, lane);
        conv_put(&memory.stage[0], &next, lane);
    }
    W_BARRIER();
    for (int round = 0; round < rounds; ++round) {
        if (round % CONV_ROUNDS == 0) /* the chunk in whose place it comes is no longer read */
            conv_work_out(&places, round / CONV_ROUNDS + 1, operands.k, &windows, lane);
        if (round + 1 < rounds) conv_fetch(&next, &operands, &places, round + 1, lane);
        conv_multiply(sums, &memory.stage[round % 2], warp_row, warp_column, lane);
        if (round + 1 < rounds) conv_put(&memory.stage[(round + 1) % 2], &next, lane);
        W_BARRIER();
    }
#endif
    CONV_STORE(first_column, columns)
}
