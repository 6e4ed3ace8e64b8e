/* The order of rows, as a template of X: sorting, and the largest or smallest with its index. For sorting, elements
 * become whole numbers in the same order (NaN behind all others, -0 equal to 0), which are merged with their
 * positions, runs of 1, 2, 4, ... elements in turn. Equals stay in order. A thread has an element: where it goes is
 * its own place in its run, and how many of the other run come before it. */
typedef struct sort_arguments {
    int64_t offset[4];           /* the device fills them in */
    int64_t size, rows;          /* elements of a row */
    int64_t inner, outer_stride; /* row r begins at r / inner * outer_stride + r % inner * inner_stride */
    int64_t inner_stride, stride;
    int64_t width; /* merge: of a run. values: elements of a row that are given. keys: what negative ones count from.
                    * search: values of a row; stride: 1 when they go behind equals */
} sort_arguments;

#if X_IS_FLOAT
W_INLINE uint64_t sort_key(X_MEMORY e) {
    const X_TYPE v = X_LOAD(e);
    const uint64_t raw = X_BITS(e), sign = (uint64_t)1 << (X_BYTES * 8 - 1), magnitude = raw & (sign - 1);
    const uint64_t ordered = magnitude == 0 ? sign : (raw & sign) != 0 ? sign - magnitude : sign + magnitude;
    return v == v ? ordered : UINT64_MAX;
}
#elif X_IS_SIGNED
W_INLINE uint64_t sort_key(X_MEMORY e) { return (uint64_t)(int64_t)e ^ (uint64_t)1 << 63; }
#else
W_INLINE uint64_t sort_key(X_MEMORY e) { return (uint64_t)e; }
#endif

/* x -> keys, positions */
W_KERNEL void sort_keys(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                        W_ARGUMENTS(sort_arguments, a, 3) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL uint64_t *keys = (W_GLOBAL uint64_t *)(b1 + a.offset[1]);
    W_GLOBAL int64_t *positions = (W_GLOBAL int64_t *)(b2 + a.offset[2]);
    const int64_t e = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (e >= a.rows * a.size) return;
    const int64_t row = e / a.size, i = e % a.size;
    const X_MEMORY v = x[row / a.inner * a.outer_stride + row % a.inner * a.inner_stride + i * a.stride];
#if POSITIONS
    const int64_t at = (int64_t)v;
    keys[e] = (uint64_t)(at < 0 ? at + a.width : at);
#else
    const uint64_t key = sort_key(v);
    keys[e] = DESCENDING ? ~key : key;
#endif
    positions[e] = i;
}

/* keys, positions -> the same in runs of twice the width */
W_KERNEL void sort_merge(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                         W_GLOBAL char *b3 W_SLOT(3), W_ARGUMENTS(sort_arguments, a, 4) W_IDS) {
    W_GLOBAL const uint64_t *keys = (W_GLOBAL const uint64_t *)(b0 + a.offset[0]);
    W_GLOBAL const int64_t *positions = (W_GLOBAL const int64_t *)(b1 + a.offset[1]);
    W_GLOBAL uint64_t *to_keys = (W_GLOBAL uint64_t *)(b2 + a.offset[2]);
    W_GLOBAL int64_t *to_positions = (W_GLOBAL int64_t *)(b3 + a.offset[3]);
    const int64_t e = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (e >= a.rows * a.size) return;
    const int64_t row = e / a.size * a.size, i = e - row, run = i / a.width, pair = run / 2 * 2 * a.width;
    const uint64_t key = keys[e];
    const bool is_second = run % 2 != 0;
    int64_t low = is_second ? pair : pair + a.width, high = low + a.width; /* the other run, as far as it goes */
    low = low < a.size ? low : a.size;
    high = high < a.size ? high : a.size;
    const int64_t begin = low;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const uint64_t other = keys[row + middle];
        if (is_second ? other <= key : other < key)
            low = middle + 1;
        else
            high = middle;
    }
    const int64_t to = row + pair + (i - run * a.width) + (low - begin);
    to_keys[to] = key;
    to_positions[to] = positions[e];
}

/* x, positions -> values, indices: the first `width` of each row, rows laid out as those of x */
W_KERNEL void sort_values(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                          W_GLOBAL char *b3 W_SLOT(3), W_ARGUMENTS(sort_arguments, a, 4) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL const int64_t *positions = (W_GLOBAL const int64_t *)(b1 + a.offset[1]);
    W_GLOBAL X_MEMORY *values = (W_GLOBAL X_MEMORY *)(b2 + a.offset[2]);
    W_GLOBAL int64_t *indices = (W_GLOBAL int64_t *)(b3 + a.offset[3]);
    const int64_t e = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (e >= a.rows * a.width) return;
    const int64_t row = e / a.width, i = e % a.width, at = positions[row * a.size + i];
    const int64_t to = (row / a.inner * a.width + i) * a.inner + row % a.inner;
    values[to] = x[row / a.inner * a.outer_stride + row % a.inner * a.inner_stride + at * a.stride];
    indices[to] = at;
}

/* x -> values, indices: the first of each row in order; NaN comes first in both orders. A group has a row. */
W_KERNEL void sort_extreme(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                           W_ARGUMENTS(sort_arguments, a, 3) W_IDS) {
    W_LOCAL uint64_t best_key[THREADS];
    W_LOCAL int64_t best_at[THREADS];
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    const int64_t row = (int64_t)W_GROUP(0);
    const int64_t first = row / a.inner * a.outer_stride + row % a.inner * a.inner_stride;
    const int lane = W_THREAD;
    uint64_t key = 0;
    int64_t at = INT64_MAX;
    for (int64_t i = lane; i < a.size; i += THREADS) {
        const uint64_t k = sort_key(x[first + i * a.stride]);
        const uint64_t turned = DESCENDING || (X_IS_FLOAT && k == UINT64_MAX) ? k : ~k;
        if (at == INT64_MAX || turned > key) {
            key = turned;
            at = i;
        }
    }
    best_key[lane] = key;
    best_at[lane] = at;
    W_BARRIER();
    for (int span = THREADS / 2; span > 0; span /= 2) {
        if (lane < span && best_at[lane + span] != INT64_MAX &&
            (best_at[lane] == INT64_MAX || best_key[lane + span] > best_key[lane] ||
             (best_key[lane + span] == best_key[lane] && best_at[lane + span] < best_at[lane]))) {
            best_key[lane] = best_key[lane + span];
            best_at[lane] = best_at[lane + span];
        }
        W_BARRIER();
    }
    if (lane > 0) return;
    if (GIVES & 1) ((W_GLOBAL X_MEMORY *)(b1 + a.offset[1]))[row] = x[first + best_at[0] * a.stride];
    if (GIVES & 2) ((W_GLOBAL int64_t *)(b2 + a.offset[2]))[row] = best_at[0];
}

/* x in order, values -> how many elements of its row come before each */
W_KERNEL void sort_search(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                          W_ARGUMENTS(sort_arguments, a, 3) W_IDS) {
    W_GLOBAL const X_MEMORY *values = (W_GLOBAL const X_MEMORY *)(b1 + a.offset[1]);
    const int64_t e = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (e >= a.rows * a.width) return;
    W_GLOBAL const X_MEMORY *row = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]) + e / a.width * a.outer_stride;
    const uint64_t key = sort_key(values[e]);
    int64_t low = 0, high = a.size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const uint64_t other = sort_key(row[middle]);
        if (a.stride != 0 ? other <= key : other < key)
            low = middle + 1;
        else
            high = middle;
    }
    ((W_GLOBAL int64_t *)(b2 + a.offset[2]))[e] = low;
}
