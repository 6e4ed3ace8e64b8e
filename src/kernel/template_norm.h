/* Normalised rows and their gradients, as a template of Y (the result), G (its gradient), X, WEIGHT and BIAS. A
 * group of threads has a row. Sums go on in f64, where there is one, after a few elements of each thread, and are
 * folded in local memory, eight at a time, in a fixed order. A row is read twice for its statistics, the second time
 * around its mean, so that nothing cancels; what the mean lost when it was rounded is carried as `rest`. */
typedef struct norm_arguments {
    int64_t offset[5];
    int64_t rows, n; /* of n elements each */
    int64_t pieces, piece_rows;
    uint64_t eps;
} norm_arguments;

#define NORM_ROWS     0 /* a text has one of the functions, which takes less time to compile */
#define NORM_GRADIENT 1
#define NORM_MEASURE  2
#define NORM_PARTS    3
#define NORM_FOLD     4

#ifdef W_NO_F64
typedef Y_TYPE norm_wide;
#else
typedef c_f64 norm_wide;
#endif
enum { NORM_BLOCK = 32 }; /* elements that are summed in the type itself */

/* The sum of all threads of a group, in a fixed order, to each of them: `sum` to `total`. */
#ifdef W_SHARED
#define NORM_TOTAL(total, sum, memory)                                                                                 \
    W_ALL_ROUNDS                                                                                                       \
    for (int bits = W_SHARED / 2; bits > 0; bits /= 2) sum += w_exchange(sum, bits);                                   \
    if (lane % W_SHARED == 0) memory[lane / W_SHARED] = sum;                                                           \
    W_BARRIER();                                                                                                       \
    total = memory[lane % (THREADS / W_SHARED)];                                                                       \
    W_ALL_ROUNDS                                                                                                       \
    for (int bits = THREADS / W_SHARED / 2; bits > 0; bits /= 2) total += w_exchange(total, bits);
#else
#define NORM_TOTAL(total, sum, memory)                                                                                 \
    memory[lane] = sum;                                                                                                \
    W_BARRIER();                                                                                                       \
    if (lane < 8)                                                                                                      \
        for (int i = lane + 8; i < THREADS; i += 8) memory[lane] += memory[i];                                         \
    W_BARRIER();                                                                                                       \
    total = memory[0];                                                                                                 \
    for (int i = 1; i < 8; ++i) total += memory[i];
#endif

/* The sums of two values over the elements of a row, which lie at i, to all threads of its group. With HELD they are in
 * registers, HELD of each thread: PER neighbours, then the next of its THREADS x PER. */
#define NORM_MEMORY                                                                                                    \
    const int lane = W_THREAD;                                                                                         \
    const int64_t row = (int64_t)W_GROUP(0), n = a.n;                                                                  \
    W_LOCAL norm_wide first[THREADS];                                                                                  \
    W_LOCAL norm_wide second[THREADS];
#if HELD > 0
#define NORM_PLACE(h) (((h) / PER * THREADS + lane) * PER + (h) % PER)
#define NORM_WALK(LET, value0, value1)                                                                                 \
    Y_TYPE part0 = 0, part1 = 0;                                                                                       \
    W_ALL_ROUNDS                                                                                                       \
    for (int h = 0; h < HELD; ++h) {                                                                                   \
        if (NORM_PLACE(h) >= n) continue;                                                                              \
        LET;                                                                                                           \
        part0 += value0;                                                                                               \
        part1 += value1;                                                                                               \
    }                                                                                                                  \
    sum0 = (norm_wide)part0;                                                                                           \
    sum1 = (norm_wide)part1;
#else
#define NORM_WALK(LET, value0, value1)                                                                                 \
    for (int64_t from = lane; from < n; from += THREADS * NORM_BLOCK) {                                                \
        const int64_t end = n - from < THREADS * NORM_BLOCK ? n : from + THREADS * NORM_BLOCK;                         \
        Y_TYPE part0 = 0, part1 = 0;                                                                                   \
        for (int64_t i = from; i < end; i += THREADS) {                                                                \
            LET;                                                                                                       \
            part0 += value0;                                                                                           \
            part1 += value1;                                                                                           \
        }                                                                                                              \
        sum0 += (norm_wide)part0;                                                                                      \
        sum1 += (norm_wide)part1;                                                                                      \
    }
#endif
#define NORM_SUMS(total0, total1, LET, value0, value1)                                                                 \
    {                                                                                                                  \
        norm_wide sum0 = 0, sum1 = 0;                                                                                  \
        NORM_WALK(LET, value0, value1)                                                                                 \
        W_BARRIER();                                                                                                   \
        NORM_TOTAL(total0, sum0, first)                                                                                \
        NORM_TOTAL(total1, sum1, second)                                                                               \
    }
#define NORM_SUM(total0, LET, value0)                                                                                  \
    {                                                                                                                  \
        norm_wide sum0 = 0, sum1 = 0;                                                                                  \
        NORM_WALK(LET, value0, 0)                                                                                      \
        W_BARRIER();                                                                                                   \
        NORM_TOTAL(total0, sum0, first)                                                                                \
        (void)sum1;                                                                                                    \
    }

/* 1 over the square root of v: that of the type, and a step of Newton's where sums are wider, as the slopes of short
 * rows nearly cancel. */
W_INLINE norm_wide norm_root(norm_wide v) {
    const norm_wide r = (norm_wide)(1 / Y_SQRT((Y_TYPE)v));
#ifdef W_NO_F64
    return r;
#else
    return r > 0 && r < (norm_wide)INFINITY ? r * (1.5 - 0.5 * v * r * r) : r;
#endif
}

/* The statistics of a row: the normalised x is ((x - mean) - rest) * scale. */
#if HELD > 0
#define NORM_AT     const Y_TYPE v = held[h]
#define NORM_AROUND const Y_TYPE v = held[h] - mean
#else
#define NORM_AT     const Y_TYPE v = (Y_TYPE)X_LOAD(x[row * n + i])
#define NORM_AROUND const Y_TYPE v = (Y_TYPE)X_LOAD(x[row * n + i]) - mean
#endif
#define NORM_STATISTICS                                                                                                \
    const norm_wide count = (norm_wide)n;                                                                              \
    norm_wide total = 0, squares = 0;                                                                                  \
    if (CENTERED) NORM_SUM(total, NORM_AT, v)                                                                          \
    const Y_TYPE mean = (Y_TYPE)(total / count);                                                                       \
    NORM_SUMS(total, squares, NORM_AROUND, v, v *v)                                                                    \
    const norm_wide rest = CENTERED ? total / count : 0, variance = squares / count - rest * rest;                     \
    const norm_wide root = norm_root((variance < 0 ? 0 : variance) + (norm_wide)Y_NUMBER(a.eps));                      \
    const Y_TYPE scale = (Y_TYPE)root;

/* x, weight, bias -> y */
#if WHAT == NORM_ROWS
#define NORM_RESULT(v, weight, bias)                                                                                   \
    Y_TYPE v##_ = ((v)-mean) * scale + shift;                                                                          \
    if (WEIGHTS > 0) v##_ = v##_ * (Y_TYPE)WEIGHT_LOAD(weight);                                                        \
    if (WEIGHTS > 1) v##_ = v##_ + (Y_TYPE)BIAS_LOAD(bias);
#if HELD > 0
typedef struct W_ALIGNED(PER *X_BYTES) norm_read {
    X_MEMORY of[PER];
} norm_read;
typedef struct W_ALIGNED(PER *Y_BYTES) norm_written {
    Y_MEMORY of[PER];
} norm_written;
typedef struct W_ALIGNED(PER *WEIGHT_BYTES) norm_weights {
    WEIGHT_MEMORY of[PER];
} norm_weights;
typedef struct W_ALIGNED(PER *BIAS_BYTES) norm_biases {
    BIAS_MEMORY of[PER];
} norm_biases;
#endif
W_KERNEL_OF(THREADS)
void norm_rows(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
               W_GLOBAL char *b3 W_SLOT(3), W_ARGUMENTS(norm_arguments, a, 4) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL const WEIGHT_MEMORY *w = (W_GLOBAL const WEIGHT_MEMORY *)(b1 + a.offset[1]);
    W_GLOBAL const BIAS_MEMORY *b = (W_GLOBAL const BIAS_MEMORY *)(b2 + a.offset[2]);
    W_GLOBAL Y_MEMORY *y = (W_GLOBAL Y_MEMORY *)(b3 + a.offset[3]);
    NORM_MEMORY
#if HELD > 0
    Y_TYPE held[HELD];
    W_ALL_ROUNDS
    for (int h = 0; h < HELD; h += PER) {
        if (NORM_PLACE(h) >= n) continue;
        const norm_read of = *(W_GLOBAL const norm_read *)&x[row * n + NORM_PLACE(h)];
        W_ALL_ROUNDS
        for (int j = 0; j < PER; ++j) held[h + j] = (Y_TYPE)X_LOAD(of.of[j]);
    }
#endif
    NORM_STATISTICS
    const Y_TYPE shift = (Y_TYPE)(-rest * root);
#if HELD > 0
    W_ALL_ROUNDS
    for (int h = 0; h < HELD; h += PER) {
        if (NORM_PLACE(h) >= n) continue;
        norm_written of;
        norm_weights weights;
        norm_biases biases;
        if (WEIGHTS > 0) weights = *(W_GLOBAL const norm_weights *)&w[NORM_PLACE(h)];
        if (WEIGHTS > 1) biases = *(W_GLOBAL const norm_biases *)&b[NORM_PLACE(h)];
        W_ALL_ROUNDS
        for (int j = 0; j < PER; ++j) {
            const Y_TYPE v = held[h + j];
            NORM_RESULT(v, weights.of[j], biases.of[j])
            of.of[j] = Y_STORE(v_);
        }
        *(W_GLOBAL norm_written *)&y[row * n + NORM_PLACE(h)] = of;
    }
#else
    for (int64_t i = lane; i < n; i += THREADS) {
        const Y_TYPE v = (Y_TYPE)X_LOAD(x[row * n + i]);
        NORM_RESULT(v, w[i], b[i])
        y[row * n + i] = Y_STORE(v_);
    }
#endif
}
#endif

/* gradient, x, weight -> that of x. With h = g w and z the normalised x it is scale (h - mean(h) - z mean(h z)),
 * without mean(h) where rows are not centered. */
#define NORM_SLOPES                                                                                                    \
    NORM_AROUND;                                                                                                       \
    Y_TYPE h = (Y_TYPE)G_LOAD(g[row * n + i]);                                                                         \
    if (WEIGHTS > 0) h = h * (Y_TYPE)WEIGHT_LOAD(w[i])
#if WHAT == NORM_GRADIENT
W_KERNEL_OF(THREADS)
void norm_gradient(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                   W_GLOBAL char *b3 W_SLOT(3), W_ARGUMENTS(norm_arguments, a, 4) W_IDS) {
    W_GLOBAL const G_MEMORY *g = (W_GLOBAL const G_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b1 + a.offset[1]);
    W_GLOBAL const WEIGHT_MEMORY *w = (W_GLOBAL const WEIGHT_MEMORY *)(b2 + a.offset[2]);
    W_GLOBAL Y_MEMORY *dx = (W_GLOBAL Y_MEMORY *)(b3 + a.offset[3]);
    NORM_MEMORY
    NORM_STATISTICS
    norm_wide sum = 0, products = 0;
    NORM_SUMS(sum, products, NORM_SLOPES, h, h * v)
    const norm_wide along = (products - rest * sum) / count * root * root;
    const Y_TYPE slope = (Y_TYPE)along, shift = (Y_TYPE)((CENTERED ? sum / count : 0) - rest * along);
    for (int64_t i = lane; i < n; i += THREADS) {
        NORM_SLOPES;
        dx[row * n + i] = Y_STORE(((h - shift) - v * slope) * scale);
    }
}
#endif

/* x -> of each row mean, scale and shift: the normalised x is (x - mean) * scale + shift */
#if WHAT == NORM_MEASURE
W_KERNEL_OF(THREADS)
void norm_measure(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_ARGUMENTS(norm_arguments, a, 2) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL Y_TYPE *statistics = (W_GLOBAL Y_TYPE *)(b1 + a.offset[1]);
    NORM_MEMORY
    NORM_STATISTICS
    if (lane == 0) {
        statistics[row * 3] = mean;
        statistics[row * 3 + 1] = scale;
        statistics[row * 3 + 2] = (Y_TYPE)(-rest * root);
    }
}
#endif

/* gradient, x, statistics -> sums of pieces of rows: [piece][weight, bias][n]. A thread has a column of a piece. */
#if WHAT == NORM_PARTS
W_KERNEL_OF(THREADS)
void norm_parts(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                W_GLOBAL char *b3 W_SLOT(3), W_ARGUMENTS(norm_arguments, a, 4) W_IDS) {
    W_GLOBAL const G_MEMORY *g = (W_GLOBAL const G_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b1 + a.offset[1]);
    W_GLOBAL const Y_TYPE *statistics = (W_GLOBAL const Y_TYPE *)(b2 + a.offset[2]);
    W_GLOBAL Y_TYPE *parts = (W_GLOBAL Y_TYPE *)(b3 + a.offset[3]);
    const int64_t i = (int64_t)W_GROUP(0) * THREADS + W_THREAD, piece = (int64_t)W_GROUP(1);
    if (i >= a.n) return;
    const int64_t begin = piece * a.piece_rows;
    const int64_t last = a.rows - begin < a.piece_rows ? a.rows : begin + a.piece_rows;
    norm_wide of_weight = 0, of_bias = 0;
    for (int64_t from = begin; from < last; from += NORM_BLOCK) {
        Y_TYPE sum = 0, gradients = 0;
        for (int64_t r = from; r < last && r < from + NORM_BLOCK; ++r) {
            const Y_TYPE h = (Y_TYPE)G_LOAD(g[r * a.n + i]), d = (Y_TYPE)X_LOAD(x[r * a.n + i]) - statistics[r * 3];
            sum += h * (d * statistics[r * 3 + 1] + statistics[r * 3 + 2]);
            gradients += h;
        }
        of_weight += (norm_wide)sum;
        of_bias += (norm_wide)gradients;
    }
    parts[piece * (1 + CENTERED) * a.n + i] = (Y_TYPE)of_weight;
    if (CENTERED) parts[(piece * 2 + 1) * a.n + i] = (Y_TYPE)of_bias;
}
#endif

/* sums of pieces -> their sums in order */
#if WHAT == NORM_FOLD
W_KERNEL_OF(THREADS)
void norm_fold(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_ARGUMENTS(norm_arguments, a, 2) W_IDS) {
    W_GLOBAL const Y_TYPE *parts = (W_GLOBAL const Y_TYPE *)(b0 + a.offset[0]);
    W_GLOBAL Y_MEMORY *out = (W_GLOBAL Y_MEMORY *)(b1 + a.offset[1]);
    const int64_t i = (int64_t)W_GROUP(0) * THREADS + W_THREAD, width = (1 + CENTERED) * a.n;
    if (i >= width) return;
    norm_wide sum = 0;
    for (int64_t p = 0; p < a.pieces; ++p) sum += (norm_wide)parts[p * width + i];
    out[i] = Y_STORE((Y_TYPE)sum);
}
#endif
