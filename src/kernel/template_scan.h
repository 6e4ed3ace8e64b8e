/* Scans of rows, as a template of A (in which it is computed), X and Y (the result): each element of a row combined
 * with all before it. A group of threads has a row: each thread some elements that follow each other, whose totals the
 * group combines by steps of 1, 2, 4, ... threads, and then the next ones, in an order that is always the same; or,
 * where rows lie side by side or are short, a thread has a row. */
typedef struct scan_arguments {
    int64_t offset[3];  /* the device fills them in */
    int64_t size, rows; /* elements of a row */
    int64_t inner;      /* elements behind the axis: the elements of a row are so far apart */
    int64_t exclusive, reverse;
} scan_arguments;

#define SCAN_SUM     0
#define SCAN_PRODUCT 1
#define SCAN_LOG     2
#define SCAN_LARGEST 3

enum { SCAN_PER = 4 }; /* elements of a thread that follow each other */
#define SCAN_ROUNDED (WHAT == SCAN_SUM && A_IS_FLOAT && A_BYTES == 4)

/* What some elements are together. `second`: of sums in f32 what they lost when they were rounded; of logarithms the
 * sum of e^(x - v), where v is the largest x; of the largest where it is, negative when there is none. */
#if WHAT >= SCAN_LARGEST
typedef int64_t scan_second;
#else
typedef A_TYPE scan_second;
#endif
typedef struct scan_state {
    A_TYPE v;
    scan_second second;
} scan_state;

W_INLINE scan_state scan_make(A_TYPE v, scan_second second) {
    scan_state s;
    s.v = v;
    s.second = second;
    return s;
}

#if WHAT == SCAN_LOG
/* What terms are divided by, as a logarithm: the largest, unless it is infinite. */
W_INLINE A_TYPE scan_level(A_TYPE v) { return v - v == 0 ? v : (A_TYPE)0; }
W_INLINE A_TYPE scan_term(scan_state s, A_TYPE level) {
    return s.second == 0 ? (A_TYPE)0 : s.second * A_EXP(scan_level(s.v) - level);
}
#endif

W_INLINE scan_state scan_none() {
#if WHAT == SCAN_PRODUCT
    return scan_make((A_TYPE)1, (scan_second)0);
#elif WHAT == SCAN_LOG
    return scan_make((A_TYPE)(-INFINITY), (scan_second)0);
#elif WHAT >= SCAN_LARGEST
    return scan_make((A_TYPE)0, (scan_second)-1);
#else
    return scan_make((A_TYPE)0, (scan_second)0);
#endif
}

W_INLINE scan_state scan_one(A_TYPE v, int64_t at) {
#if WHAT == SCAN_LOG
    if (!(v == v)) return scan_make((A_TYPE)(-INFINITY), v);
    return scan_make(v, A_EXP(v - scan_level(v)));
#elif WHAT >= SCAN_LARGEST
    return scan_make(v, at);
#else
    return scan_make(v, (scan_second)0);
#endif
}

/* Those of a, and then those of b. */
W_INLINE scan_state scan_both(scan_state a, scan_state b) {
#if SCAN_ROUNDED
    const A_TYPE sum = a.v + b.v, of_b = sum - a.v, lost = (a.v - (sum - of_b)) + (b.v - of_b);
    return scan_make(sum, a.second + b.second + lost);
#elif WHAT == SCAN_SUM
    return scan_make(A_ADD(a.v, b.v), (scan_second)0);
#elif WHAT == SCAN_PRODUCT
    return scan_make(A_MUL(a.v, b.v), (scan_second)0);
#elif WHAT == SCAN_LOG
    const A_TYPE v = a.v > b.v ? a.v : b.v, level = scan_level(v);
    return scan_make(v, scan_term(a, level) + scan_term(b, level));
#else
    if (a.second < 0) return b;
    if (b.second < 0) return a;
#if A_IS_FLOAT
    if (b.v != b.v) return b;
#endif
    return (WHAT == SCAN_LARGEST ? b.v >= a.v : b.v <= a.v) ? b : a;
#endif
}

W_INLINE A_TYPE scan_result(scan_state s) {
#if SCAN_ROUNDED
    return s.v - s.v == 0 ? s.v + s.second : s.v; /* what an infinite sum lost is no number */
#elif WHAT == SCAN_LOG
    return A_LOG(s.second) + scan_level(s.v);
#else
    return s.v;
#endif
}

/* The element of a row that is met as number i, and where results go. */
#define SCAN_BUFFERS                                                                                                   \
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);                                        \
    W_GLOBAL Y_MEMORY *y = (W_GLOBAL Y_MEMORY *)(b1 + a.offset[1]);
#define SCAN_FIRST(row) ((row) / a.inner * a.size * a.inner + (row) % a.inner)
#define SCAN_PLACE(i)   (a.reverse != 0 ? a.size - 1 - (i) : (i))
#define SCAN_READ(i)    scan_one((A_TYPE)X_LOAD(x[first + SCAN_PLACE(i) * a.inner]), SCAN_PLACE(i))
#if WHAT >= SCAN_LARGEST
#define SCAN_WRITE(i, s)                                                                                               \
    y[first + SCAN_PLACE(i) * a.inner] = x[first + (s).second * a.inner];                                              \
    if (GIVES & 2) ((W_GLOBAL int64_t *)(b2 + a.offset[2]))[first + SCAN_PLACE(i) * a.inner] = (s).second;
#else
#define SCAN_WRITE(i, s) y[first + SCAN_PLACE(i) * a.inner] = Y_STORE((Y_TYPE)scan_result(s));
#endif

W_KERNEL void scan_rows(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                        W_ARGUMENTS(scan_arguments, a, 3) W_IDS) {
    W_LOCAL A_TYPE values[THREADS];
    W_LOCAL scan_second seconds[THREADS];
    SCAN_BUFFERS
    const int64_t first = SCAN_FIRST((int64_t)W_GROUP(0));
    const int lane = W_THREAD;
    scan_state carry = scan_none();
    for (int64_t from = 0; from < a.size; from += THREADS * SCAN_PER) {
        const int64_t begin = from + lane * SCAN_PER;
        scan_state mine[SCAN_PER], all = scan_none();
        for (int k = 0; k < SCAN_PER; ++k) {
            if (begin + k < a.size) all = scan_both(all, SCAN_READ(begin + k));
            mine[k] = all;
        }
        values[lane] = all.v;
        seconds[lane] = all.second;
        W_BARRIER();
        for (int span = 1; span < THREADS; span *= 2) {
            if (lane >= span) all = scan_both(scan_make(values[lane - span], seconds[lane - span]), all);
            W_BARRIER();
            values[lane] = all.v;
            seconds[lane] = all.second;
            W_BARRIER();
        }
        scan_state before = carry;
        if (lane > 0) before = scan_both(carry, scan_make(values[lane - 1], seconds[lane - 1]));
        for (int k = 0; k < SCAN_PER; ++k) {
            if (begin + k >= a.size) continue;
            const scan_state with = scan_both(before, mine[k]);
            const scan_state without = k == 0 ? before : scan_both(before, mine[k > 0 ? k - 1 : 0]);
            const scan_state given = a.exclusive != 0 ? without : with;
            SCAN_WRITE(begin + k, given)
        }
        carry = scan_both(carry, scan_make(values[THREADS - 1], seconds[THREADS - 1]));
        W_BARRIER();
    }
}

W_KERNEL void scan_side_by_side(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                                W_ARGUMENTS(scan_arguments, a, 3) W_IDS) {
    SCAN_BUFFERS
    const int64_t row = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (row >= a.rows) return;
    const int64_t first = SCAN_FIRST(row);
    scan_state all = scan_none();
    for (int64_t i = 0; i < a.size; ++i) {
        const scan_state before = all;
        all = scan_both(all, SCAN_READ(i));
        const scan_state given = a.exclusive != 0 ? before : all;
        SCAN_WRITE(i, given)
    }
}
