/* Scatter, as a template of X: positions were sorted with the places where they stood, so that those which name the
 * same element stand side by side in the order of the source. A thread has a sorted position; the first of its kind
 * combines all of them. */
typedef struct scatter_arguments {
    int64_t offset[4];        /* the device fills them in */
    int64_t count;            /* elements of the source */
    int64_t rank, axis, size; /* of the source; its size along the axis */
    int64_t shared;           /* axes behind the axis share their positions */
    int64_t sizes[8], source_stride[8], stride[8];
} scatter_arguments;

#if MODE == 0
#define SCATTER_COMBINE(a, b) (b)
#elif MODE == 1
#define SCATTER_COMBINE(a, b) X_ADD(a, b)
#elif MODE == 2
#define SCATTER_COMBINE(a, b) X_MUL(a, b)
#elif MODE == 3
#define SCATTER_COMBINE(a, b) X_MAX(a, b)
#else
#define SCATTER_COMBINE(a, b) X_MIN(a, b)
#endif

/* keys, places, source -> out, in which x is already */
W_KERNEL void scatter(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
                      W_GLOBAL char *b3 W_SLOT(3), W_ARGUMENTS(scatter_arguments, a, 4) W_IDS) {
    W_GLOBAL const uint64_t *keys = (W_GLOBAL const uint64_t *)(b0 + a.offset[0]);
    W_GLOBAL const int64_t *places = (W_GLOBAL const int64_t *)(b1 + a.offset[1]);
    W_GLOBAL const X_MEMORY *source = (W_GLOBAL const X_MEMORY *)(b2 + a.offset[2]);
    W_GLOBAL X_MEMORY *out = (W_GLOBAL X_MEMORY *)(b3 + a.offset[3]);
    int64_t left = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (left >= a.count) return;
    int64_t from = 0, to = 0, i = 0, outer = 0, outers = 1, inner = 0, inners = 1;
    for (int64_t d = a.rank - 1; d >= 0; --d) {
        const int64_t at = left % a.sizes[d];
        left /= a.sizes[d];
        if (d == a.axis) {
            i = at;
            continue;
        }
        from += at * a.source_stride[d];
        to += at * a.stride[d];
        if (d < a.axis) {
            outer += at * outers;
            outers *= a.sizes[d];
        } else if (a.shared == 0) {
            inner += at * inners;
            inners *= a.sizes[d];
        }
    }
    const int64_t row = (outer * inners + inner) * a.size;
    const uint64_t key = keys[row + i];
    if (i > 0 && keys[row + i - 1] == key) return;
    to += (int64_t)key * a.stride[a.axis];
    X_TYPE total = X_LOAD(out[to]);
    for (; i < a.size && keys[row + i] == key; ++i) {
        const X_TYPE v = X_LOAD(source[from + places[row + i] * a.source_stride[a.axis]]);
        total = SCATTER_COMBINE(total, v);
    }
    out[to] = X_STORE(total);
}
