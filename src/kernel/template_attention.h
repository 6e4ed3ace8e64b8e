/* Attention and its gradient, as a template of Y (the result), Q, K, V, MASK, G (its gradient) and STATISTICS. A
 * group of threads has a block of TILE rows, of queries or of keys, and COLUMNS of what comes of them; it meets the
 * others block by block. Blocks of scores are products of tiles that are brought to local memory part by part, so
 * that heads may have any size, and no more of them than one block is ever there. Threads stand as 8 x 8: thread (y,
 * x) has rows y, y + 8, ... and columns x, x + 8, ... of a block. Each row keeps the largest score it has seen, the
 * sum of its exponentials, and its result so far, which is scaled down when a larger score comes. */
typedef struct attention_operand { /* strides in elements: of the axes in front, of rows and of columns */
    int64_t front[6], row, column;
} attention_operand;
typedef struct attention_arguments {
    int64_t offset[8];
    int64_t size[6]; /* of the axes in front; 1 where there is none */
    int64_t heads, t, s, d, e;
    attention_operand q, k, v, mask, g;
    uint64_t scale;
    int64_t causal, wants_statistics; /* truths; causal: rows see no key behind them */
} attention_arguments;

#define ATTENTION_FORWARD 0 /* a text has one of the functions, which takes less time to compile */
#define ATTENTION_LEVELS  1
#define ATTENTION_QUERIES 2
#define ATTENTION_KEYS    3

enum {
    SIDE = 8,
    THREADS = SIDE * SIDE,
    PER = TILE / SIDE, /* rows, and columns, of a thread */
    WIDE = COLUMNS / SIDE,
    LINE = TILE + 1,    /* of a tile in local memory: its columns are read, too */
    HALF = TILE * LINE, /* of the memory of tiles: two of them, or rows of COLUMNS */
    ROWS_KEPT = WHAT == ATTENTION_KEYS ? 2 * TILE * COLUMNS : TILE * COLUMNS,
    STAGE = ROWS_KEPT > 2 * HALF ? ROWS_KEPT : 2 * HALF
};
/* What a thread has stays in registers. OpenCL's compilers see to that themselves; on a CPU asking for it takes
 * long. */
#if W_DIALECT == 1
#define EACH(i, count) for (int i = 0; i < (count); ++i)
#else
#define EACH(i, count) W_ALL_ROUNDS for (int i = 0; i < (count); ++i)
#endif
#define LOWEST (-(Y_TYPE)INFINITY)

/* Where the elements of a head begin. */
typedef struct attention_head {
    int64_t at[6];
} attention_head;
W_INLINE attention_head attention_find(const attention_arguments a, int64_t head) {
    attention_head h;
    for (int i = 5; i >= 0; --i) {
        h.at[i] = head % a.size[i];
        head /= a.size[i];
    }
    return h;
}
W_INLINE int64_t attention_begin(const attention_head h, const attention_operand o) {
    int64_t at = 0;
    for (int i = 0; i < 6; ++i) at += h.at[i] * o.front[i];
    return at;
}

/* The block of a group: TILE of `count` rows of a head, and COLUMNS of the result. */
#define ATTENTION_BLOCK(count)                                                                                         \
    const int lane = W_THREAD, x = lane % SIDE, y = lane / SIDE;                                                       \
    const int64_t blocks = ((count) + TILE - 1) / TILE, group = (int64_t)W_GROUP(0), head = group / blocks;            \
    const int64_t first = group % blocks * TILE, column0 = (int64_t)W_GROUP(1) * COLUMNS;                              \
    const attention_head h = attention_find(a, head);                                                                  \
    const Y_TYPE scale = Y_NUMBER(a.scale);                                                                            \
    int64_t c0;                                                                                                        \
    W_LOCAL Y_TYPE stage[STAGE];
#define ATTENTION_READ(T, name, buffer, slot, operand)                                                                 \
    W_GLOBAL const T##_MEMORY *name =                                                                                  \
        (W_GLOBAL const T##_MEMORY *)(buffer + a.offset[slot]) + attention_begin(h, operand);

/* Elements of operands, 0 outside. */
#define AT(T, name, operand, r, rows, c, columns)                                                                      \
    ((r) < (rows) && (c) < (columns) ? (Y_TYPE)T##_LOAD(name[(r)*operand.row + (c)*operand.column]) : (Y_TYPE)0)
#define QUERY(r, c)    AT(Q, q, a.q, r, a.t, c, a.d)
#define KEY(r, c)      AT(K, k, a.k, r, a.s, c, a.d)
#define VALUE(r, c)    AT(V, v, a.v, r, a.s, c, a.e)
#define GRADIENT(r, c) AT(G, g, a.g, r, a.t, c, a.e)

/* A block of products of rows: out[i][j] = sum over c of FIRST(row0 + y + 8 i, c) SECOND(column0 + x + 8 j, c). All
 * threads are done with `stage` when the first barrier lets them through, and not yet when it ends. Loops with barriers
 * run at least once, over zeros when there is nothing: PoCL writes all that follows a barrier that may be left out
 * twice. */
#define ATTENTION_PRODUCT(out, length, FIRST, row0, SECOND, column0)                                                   \
    EACH(i, PER)                                                                                                       \
    EACH(j, PER) out[i][j] = 0;                                                                                        \
    c0 = 0;                                                                                                            \
    do {                                                                                                               \
        W_BARRIER();                                                                                                   \
        for (int n = lane; n < TILE * TILE; n += THREADS) {                                                            \
            const int64_t r = n / TILE, c = n % TILE;                                                                  \
            stage[r * LINE + c] = FIRST((row0) + r, c0 + c);                                                           \
            stage[HALF + r * LINE + c] = SECOND((column0) + r, c0 + c);                                                \
        }                                                                                                              \
        W_BARRIER();                                                                                                   \
        for (int c = 0; c < TILE; ++c) EACH(i, PER)                                                                    \
        EACH(j, PER) out[i][j] += stage[(y + SIDE * i) * LINE + c] * stage[HALF + (x + SIDE * j) * LINE + c];          \
        c0 += TILE;                                                                                                    \
    } while (c0 < (length));
/* Brings TILE rows of COLUMNS to `stage`, from `at` on. */
#define ATTENTION_STAGE(at, ELEMENT, row0)                                                                             \
    for (int n = lane; n < TILE * COLUMNS; n += THREADS)                                                               \
        stage[(at) + n] = ELEMENT((row0) + n / COLUMNS, column0 + n % COLUMNS);
/* sums[i][j] += tile[y + 8 i][c] * stage[at + c][x + 8 j] over all c. */
#define ATTENTION_GATHER(sums, tile, at)                                                                               \
    for (int c = 0; c < TILE; ++c) EACH(i, PER)                                                                        \
    EACH(j, WIDE) sums[i][j] += tile[(y + SIDE * i) * LINE + c] * stage[(at) + c * COLUMNS + x + SIDE * j];

/* What a product of row and key becomes. */
#if MASKED && MASK_IS_FLOAT
#define ATTENTION_MASK(value, row, key)                                                                                \
    ((value)*scale + (Y_TYPE)MASK_LOAD(mask[(row)*a.mask.row + (key)*a.mask.column]))
#elif MASKED
#define ATTENTION_MASK(value, row, key) (mask[(row)*a.mask.row + (key)*a.mask.column] != 0 ? (value)*scale : LOWEST)
#else
#define ATTENTION_MASK(value, row, key) ((value)*scale)
#endif
#define ATTENTION_SEES(row, key) ((row) < a.t && (key) < a.s && (a.causal == 0 || (key) <= (row)))
#define ATTENTION_SHIFT(top)     ((top) == LOWEST ? (Y_TYPE)0 : (top)) /* nothing but -inf so far */

/* How many keys a block of rows sees. */
#define ATTENTION_LAST (a.causal != 0 && first + TILE < a.s ? first + TILE : a.s)

#if WHAT == ATTENTION_FORWARD
/* q, k, v, mask -> result, statistics: of each row the largest score, and 1 over the sum */
W_KERNEL_OF(THREADS)
void attention_forward(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                       W_GLOBAL char *b3 W_SLOT(3), W_GLOBAL char *b4 W_SLOT(4), W_GLOBAL char *b5 W_SLOT(5),
                       W_ARGUMENTS(attention_arguments, a, 6) W_IDS) {
    ATTENTION_BLOCK(a.t)
    ATTENTION_READ(Q, q, b0, 0, a.q)
    ATTENTION_READ(K, k, b1, 1, a.k)
    ATTENTION_READ(V, v, b2, 2, a.v)
    ATTENTION_READ(MASK, mask, b3, 3, a.mask)
    W_GLOBAL Y_MEMORY *out = (W_GLOBAL Y_MEMORY *)(b4 + a.offset[4]);
    W_GLOBAL Y_TYPE *statistics = (W_GLOBAL Y_TYPE *)(b5 + a.offset[5]);
    W_LOCAL Y_TYPE weights[TILE * LINE];
    W_LOCAL Y_TYPE bests[TILE * SIDE];
    W_LOCAL Y_TYPE totals[TILE * SIDE];
    Y_TYPE scores[PER][PER], result[PER][WIDE], top[PER], sum[PER];
    EACH(i, PER) {
        top[i] = LOWEST;
        sum[i] = 0;
        EACH(j, WIDE) result[i][j] = 0;
    }
    const int64_t last = ATTENTION_LAST;
    int64_t key0 = 0;
    do {
        ATTENTION_PRODUCT(scores, a.d, QUERY, first, KEY, key0)
        EACH(i, PER) {
            const int64_t row = first + y + SIDE * i;
            Y_TYPE best = LOWEST;
            EACH(j, PER) {
                const int64_t key = key0 + x + SIDE * j;
                scores[i][j] = ATTENTION_SEES(row, key) ? ATTENTION_MASK(scores[i][j], row, key) : LOWEST;
                best = scores[i][j] > best ? scores[i][j] : best;
            }
            bests[(y + SIDE * i) * SIDE + x] = best;
        }
        W_BARRIER();
        EACH(i, PER) {
            Y_TYPE now = top[i], total = 0;
            EACH(j, SIDE) {
                const Y_TYPE best = bests[(y + SIDE * i) * SIDE + j];
                now = best > now ? best : now;
            }
            const Y_TYPE down = now > top[i] && sum[i] != 0 ? Y_EXP(top[i] - now) : (Y_TYPE)1;
            sum[i] = sum[i] * down;
            EACH(j, WIDE) result[i][j] = result[i][j] * down;
            top[i] = now;
            EACH(j, PER) {
                const Y_TYPE weight = Y_EXP(scores[i][j] - ATTENTION_SHIFT(now));
                weights[(y + SIDE * i) * LINE + x + SIDE * j] = weight;
                total += weight;
            }
            totals[(y + SIDE * i) * SIDE + x] = total;
        }
        ATTENTION_STAGE(0, VALUE, key0)
        W_BARRIER();
        EACH(i, PER)
        EACH(j, SIDE) sum[i] += totals[(y + SIDE * i) * SIDE + j];
        ATTENTION_GATHER(result, weights, 0)
        key0 += TILE;
    } while (key0 < last);
    EACH(i, PER) {
        const int64_t row = first + y + SIDE * i, at = head * a.t + row;
        const Y_TYPE part = sum[i] == 0 ? (Y_TYPE)0 : 1 / sum[i];
        if (row >= a.t) continue;
        EACH(j, WIDE)
        if (column0 + x + SIDE * j < a.e) out[at * a.e + column0 + x + SIDE * j] = Y_STORE(result[i][j] * part);
        if (a.wants_statistics != 0 && column0 == 0 && x == 0) {
            statistics[at * 2] = top[i];
            statistics[at * 2 + 1] = part;
        }
    }
}
#endif

/* With p the weights and g the gradient: dv = p^T g, ds = p (g v^T - rows' sums of p g v^T), dq = ds k, dk = ds^T q. */
#define ATTENTION_READ_ALL                                                                                             \
    ATTENTION_READ(G, g, b0, 0, a.g)                                                                                   \
    ATTENTION_READ(Q, q, b1, 1, a.q)                                                                                   \
    ATTENTION_READ(K, k, b2, 2, a.k)                                                                                   \
    ATTENTION_READ(V, v, b3, 3, a.v)                                                                                   \
    ATTENTION_READ(MASK, mask, b4, 4, a.mask)                                                                          \
    W_GLOBAL const STATISTICS_MEMORY *statistics = (W_GLOBAL const STATISTICS_MEMORY *)(b5 + a.offset[5]);
/* The statistics of row r of a head; 0 outside. */
#define STATISTIC(r, which)                                                                                            \
    ((r) < a.t ? (Y_TYPE)STATISTICS_LOAD(statistics[(head * a.t + (r)) * 2 + which]) : (Y_TYPE)0)
/* The weight of a row for a key. */
#define ATTENTION_WEIGHT(i, j)                                                                                         \
    const bool sees = ATTENTION_SEES(row, key);                                                                        \
    const Y_TYPE weight =                                                                                              \
        sees ? Y_EXP(ATTENTION_MASK(scores[i][j], row, key) - ATTENTION_SHIFT(top)) * part : (Y_TYPE)0;

#if WHAT == ATTENTION_LEVELS
/* gradient, q, k, v, mask, statistics -> levels: of each row the sum of p g v^T */
W_KERNEL_OF(THREADS)
void attention_levels(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                      W_GLOBAL char *b3 W_SLOT(3), W_GLOBAL char *b4 W_SLOT(4), W_GLOBAL char *b5 W_SLOT(5),
                      W_GLOBAL char *b6 W_SLOT(6), W_ARGUMENTS(attention_arguments, a, 7) W_IDS) {
    ATTENTION_BLOCK(a.t)
    ATTENTION_READ_ALL
    W_GLOBAL Y_TYPE *levels = (W_GLOBAL Y_TYPE *)(b6 + a.offset[6]);
    W_LOCAL Y_TYPE parts[TILE * SIDE];
    Y_TYPE scores[PER][PER], slopes[PER][PER], level[PER];
    EACH(i, PER) level[i] = 0;
    const int64_t last = ATTENTION_LAST;
    int64_t key0 = 0;
    do {
        ATTENTION_PRODUCT(scores, a.d, QUERY, first, KEY, key0)
        ATTENTION_PRODUCT(slopes, a.e, GRADIENT, first, VALUE, key0)
        EACH(i, PER) {
            const int64_t row = first + y + SIDE * i;
            const Y_TYPE top = STATISTIC(row, 0), part = STATISTIC(row, 1);
            EACH(j, PER) {
                const int64_t key = key0 + x + SIDE * j;
                ATTENTION_WEIGHT(i, j)
                level[i] += sees ? weight * slopes[i][j] : (Y_TYPE)0;
            }
        }
        key0 += TILE;
    } while (key0 < last);
    EACH(i, PER) parts[(y + SIDE * i) * SIDE + x] = level[i];
    W_BARRIER();
    if (lane < TILE && first + lane < a.t) {
        Y_TYPE sum = 0;
        for (int j = 0; j < SIDE; ++j) sum += parts[lane * SIDE + j];
        levels[head * a.t + first + lane] = sum;
    }
}
#endif

#if WHAT == ATTENTION_QUERIES
/* gradient, q, k, v, mask, statistics, levels -> dq */
W_KERNEL_OF(THREADS)
void attention_queries(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                       W_GLOBAL char *b3 W_SLOT(3), W_GLOBAL char *b4 W_SLOT(4), W_GLOBAL char *b5 W_SLOT(5),
                       W_GLOBAL char *b6 W_SLOT(6), W_GLOBAL char *b7 W_SLOT(7),
                       W_ARGUMENTS(attention_arguments, a, 8) W_IDS) {
    ATTENTION_BLOCK(a.t)
    ATTENTION_READ_ALL
    W_GLOBAL const Y_TYPE *levels = (W_GLOBAL const Y_TYPE *)(b6 + a.offset[6]) + head * a.t;
    W_GLOBAL Y_MEMORY *dq = (W_GLOBAL Y_MEMORY *)(b7 + a.offset[7]) + head * a.t * a.d;
    W_LOCAL Y_TYPE tile[TILE * LINE];
    Y_TYPE scores[PER][PER], slopes[PER][PER], result[PER][WIDE];
    EACH(i, PER)
    EACH(j, WIDE) result[i][j] = 0;
    const int64_t last = ATTENTION_LAST;
    int64_t key0 = 0;
    do {
        ATTENTION_PRODUCT(scores, a.d, QUERY, first, KEY, key0)
        ATTENTION_PRODUCT(slopes, a.e, GRADIENT, first, VALUE, key0)
        EACH(i, PER) {
            const int64_t row = first + y + SIDE * i;
            const Y_TYPE top = STATISTIC(row, 0), part = STATISTIC(row, 1), level = row < a.t ? levels[row] : (Y_TYPE)0;
            EACH(j, PER) {
                const int64_t key = key0 + x + SIDE * j;
                ATTENTION_WEIGHT(i, j)
                tile[(y + SIDE * i) * LINE + x + SIDE * j] = sees ? weight * (slopes[i][j] - level) * scale : (Y_TYPE)0;
            }
        }
        W_BARRIER();
        ATTENTION_STAGE(0, KEY, key0)
        W_BARRIER();
        ATTENTION_GATHER(result, tile, 0)
        key0 += TILE;
    } while (key0 < last);
    EACH(i, PER)
    EACH(j, WIDE) {
        const int64_t row = first + y + SIDE * i, column = column0 + x + SIDE * j;
        if (row < a.t && column < a.d) dq[row * a.d + column] = Y_STORE(result[i][j]);
    }
}
#endif

#if WHAT == ATTENTION_KEYS
/* gradient, q, k, v, mask, statistics, levels -> dk, and dv behind it */
W_KERNEL_OF(THREADS)
void attention_keys(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                    W_GLOBAL char *b3 W_SLOT(3), W_GLOBAL char *b4 W_SLOT(4), W_GLOBAL char *b5 W_SLOT(5),
                    W_GLOBAL char *b6 W_SLOT(6), W_GLOBAL char *b7 W_SLOT(7),
                    W_ARGUMENTS(attention_arguments, a, 8) W_IDS) {
    ATTENTION_BLOCK(a.s)
    ATTENTION_READ_ALL
    W_GLOBAL const Y_TYPE *levels = (W_GLOBAL const Y_TYPE *)(b6 + a.offset[6]) + head * a.t;
    W_GLOBAL Y_MEMORY *dk = (W_GLOBAL Y_MEMORY *)(b7 + a.offset[7]), *dv = dk + a.heads * a.s * a.d;
    W_LOCAL Y_TYPE weights[TILE * LINE];
    W_LOCAL Y_TYPE tile[TILE * LINE];
    Y_TYPE scores[PER][PER], slopes[PER][PER], of_keys[PER][WIDE], of_values[PER][WIDE];
    EACH(i, PER)
    EACH(j, WIDE) of_keys[i][j] = of_values[i][j] = 0;
    int64_t row0 = a.causal != 0 ? first : 0;
    do {
        ATTENTION_PRODUCT(scores, a.d, KEY, first, QUERY, row0)
        ATTENTION_PRODUCT(slopes, a.e, VALUE, first, GRADIENT, row0)
        EACH(j, PER) {
            const int64_t row = row0 + x + SIDE * j;
            const Y_TYPE top = STATISTIC(row, 0), part = STATISTIC(row, 1), level = row < a.t ? levels[row] : (Y_TYPE)0;
            EACH(i, PER) {
                const int64_t key = first + y + SIDE * i;
                ATTENTION_WEIGHT(i, j)
                weights[(y + SIDE * i) * LINE + x + SIDE * j] = weight;
                tile[(y + SIDE * i) * LINE + x + SIDE * j] = sees ? weight * (slopes[i][j] - level) * scale : (Y_TYPE)0;
            }
        }
        W_BARRIER();
        ATTENTION_STAGE(0, QUERY, row0)
        ATTENTION_STAGE(TILE * COLUMNS, GRADIENT, row0)
        W_BARRIER();
        ATTENTION_GATHER(of_keys, tile, 0)
        ATTENTION_GATHER(of_values, weights, TILE * COLUMNS)
        row0 += TILE;
    } while (row0 < a.t);
    EACH(i, PER)
    EACH(j, WIDE) {
        const int64_t key = first + y + SIDE * i, at = head * a.s + key, column = column0 + x + SIDE * j;
        if (key < a.s && column < a.d) dk[at * a.d + column] = Y_STORE(of_keys[i][j]);
        if (key < a.s && column < a.e) dv[at * a.e + column] = Y_STORE(of_values[i][j]);
    }
}
#endif
