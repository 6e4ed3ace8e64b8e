/* Pooling and its gradients, as a template of Y (the result), FIRST (the image, values or the gradient) and X (where
 * the largest is looked for). A thread has a result; of gradients, an element of the image, which looks at the
 * windows that see it, in order. */
typedef struct pool_arguments {
    int64_t offset[3];
    int64_t planes;
    int64_t image[3], result[3]; /* axes that are missing come first, with size 1 */
    int64_t window[3], stride[3], dilation[3], before[3], after[3];
    int64_t exclude_padding, to_places; /* truths */
} pool_arguments;

/* A window on one axis: begin, begin + dilation, ... below end, inside the image. `start` is where it would begin in
 * padding, and `whole` counts that, too. */
typedef struct pool_window {
    int64_t start, begin, end, whole;
} pool_window;

#if ADAPTIVE
W_INLINE pool_window pool_at(const pool_arguments a, int axis, int64_t i) {
    const int64_t result = a.result[axis], each = a.image[axis] / result, rest = a.image[axis] % result;
    pool_window w;
    w.start = w.begin = i * each + i * rest / result; /* i times the image might overflow */
    w.end = (i + 1) * each + ((i + 1) * rest + result - 1) / result;
    w.whole = w.end - w.begin;
    return w;
}
/* The first window of an axis that ends behind p: all later ones do. */
W_INLINE int64_t pool_first(const pool_arguments a, int axis, int64_t p) {
    int64_t low = 0, high = a.result[axis];
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (pool_at(a, axis, middle).end > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
#else
W_INLINE pool_window pool_at(const pool_arguments a, int axis, int64_t i) {
    const int64_t dilation = a.dilation[axis], image = a.image[axis], padded = image + a.after[axis];
    const int64_t start = i * a.stride[axis] - a.before[axis], stop = start + dilation * (a.window[axis] - 1) + 1;
    pool_window w;
    w.start = start;
    w.begin = start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
    w.end = stop < image ? stop : image;
    w.whole = (stop < padded ? stop : padded) - start;
    return w;
}
W_INLINE int64_t pool_first(const pool_arguments a, int axis, int64_t p) {
    const int64_t missed = p + a.before[axis] - a.dilation[axis] * (a.window[axis] - 1) - 1;
    return missed < 0 ? 0 : missed / a.stride[axis] + 1;
}
#endif
W_INLINE bool pool_sees(const pool_window w, int64_t dilation, int64_t p) {
    return p >= w.begin && p < w.end && (p - w.begin) % dilation == 0;
}
W_INLINE int64_t pool_divisor(const pool_arguments a, const pool_window z, const pool_window y, const pool_window x) {
    return a.exclude_padding ? (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin) : z.whole * y.whole * x.whole;
}

#define POOL_MAX    0 /* a text has one of the functions, which takes less time to compile */
#define POOL_MEAN   1
#define POOL_PICK   2
#define POOL_PLACES 3
#define POOL_BACK   4

#ifdef W_NO_F64
typedef Y_TYPE pool_wide;
#else
typedef c_f64 pool_wide;
#endif

/* Where a thread is: in a plane of `size` (a.result or a.image), at (z, y, x). */
#define POOL_POINT(size)                                                                                               \
    const int64_t e = (int64_t)W_GROUP(0) * THREADS + W_THREAD, all = size[0] * size[1] * size[2];                     \
    if (e >= a.planes * all) return;                                                                                   \
    const int64_t plane = e / all, image = a.image[0] * a.image[1] * a.image[2], at = e % all;                         \
    const int64_t z = at / (size[1] * size[2]), y = at / size[2] % size[1], x = at % size[2];
#define POOL_WINDOWS const pool_window wz = pool_at(a, 0, z), wy = pool_at(a, 1, y), wx = pool_at(a, 2, x);
/* All that a window sees: `i` is its place in the plane. */
#define POOL_EACH                                                                                                      \
    for (int64_t pz = wz.begin; pz < wz.end; pz += a.dilation[0])                                                      \
        for (int64_t py = wy.begin; py < wy.end; py += a.dilation[1])                                                  \
            for (int64_t i = (pz * a.image[1] + py) * a.image[2] + wx.begin, end = i - wx.begin + wx.end; i < end;     \
                 i += a.dilation[2])
/* The place of the largest: the first of equals, the last NaN; -1 in a window that sees only padding. */
#define POOL_LARGEST(memory, T)                                                                                        \
    int64_t where = -1;                                                                                                \
    Y_TYPE best = -(Y_TYPE)INFINITY;                                                                                   \
    POOL_EACH {                                                                                                        \
        const Y_TYPE v = (Y_TYPE)T##_LOAD(memory[plane * image + i]);                                                  \
        if (v > best || v != v || where < 0) {                                                                         \
            best = v;                                                                                                  \
            where = i;                                                                                                 \
        }                                                                                                              \
    }

/* image -> the largest of each window */
#if WHAT == POOL_MAX
W_KERNEL_OF(THREADS)
void pool_max(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_ARGUMENTS(pool_arguments, a, 2) W_IDS) {
    W_GLOBAL const FIRST_MEMORY *first = (W_GLOBAL const FIRST_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL Y_MEMORY *out = (W_GLOBAL Y_MEMORY *)(b1 + a.offset[1]);
    POOL_POINT(a.result)
    POOL_WINDOWS
    POOL_LARGEST(first, FIRST)
    out[e] = Y_STORE(best);
}
#endif

/* image -> the mean of each window */
#if WHAT == POOL_MEAN
W_KERNEL_OF(THREADS)
void pool_mean(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_ARGUMENTS(pool_arguments, a, 2) W_IDS) {
    W_GLOBAL const FIRST_MEMORY *first = (W_GLOBAL const FIRST_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL Y_MEMORY *out = (W_GLOBAL Y_MEMORY *)(b1 + a.offset[1]);
    POOL_POINT(a.result)
    POOL_WINDOWS
    pool_wide sum = 0;
    POOL_EACH sum += (pool_wide)FIRST_LOAD(first[plane * image + i]);
    out[e] = Y_STORE((Y_TYPE)(sum / (pool_wide)pool_divisor(a, wz, wy, wx)));
}
#endif

/* values, x -> values where x is the largest of each window; 0 where one sees only padding */
#if WHAT == POOL_PICK
W_KERNEL_OF(THREADS)
void pool_pick(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
               W_ARGUMENTS(pool_arguments, a, 3) W_IDS) {
    W_GLOBAL const FIRST_MEMORY *first = (W_GLOBAL const FIRST_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL const X_MEMORY *looked = (W_GLOBAL const X_MEMORY *)(b1 + a.offset[1]);
    W_GLOBAL Y_MEMORY *out = (W_GLOBAL Y_MEMORY *)(b2 + a.offset[2]);
    POOL_POINT(a.result)
    POOL_WINDOWS
    POOL_LARGEST(looked, X)
    out[e] = Y_STORE(where >= 0 ? (Y_TYPE)FIRST_LOAD(first[plane * image + where]) : (Y_TYPE)0);
}
#endif

/* x -> where the largest of each window is */
#if WHAT == POOL_PLACES
W_KERNEL_OF(THREADS)
void pool_places(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_ARGUMENTS(pool_arguments, a, 2) W_IDS) {
    W_GLOBAL const X_MEMORY *looked = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL int64_t *places = (W_GLOBAL int64_t *)(b1 + a.offset[1]);
    POOL_POINT(a.result)
    POOL_WINDOWS
    POOL_LARGEST(looked, X)
    places[e] = where;
}
#endif

/* gradient, places -> that of the image: of the largest what went there, of means a share of all */
#if WHAT == POOL_BACK
W_KERNEL_OF(THREADS)
void pool_back(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1), W_GLOBAL char *b2 W_SLOT(2),
               W_ARGUMENTS(pool_arguments, a, 3) W_IDS) {
    W_GLOBAL const FIRST_MEMORY *first = (W_GLOBAL const FIRST_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL const int64_t *places = (W_GLOBAL const int64_t *)(b1 + a.offset[1]);
    W_GLOBAL Y_MEMORY *out = (W_GLOBAL Y_MEMORY *)(b2 + a.offset[2]);
    POOL_POINT(a.image)
    const int64_t first_y = pool_first(a, 1, y), first_x = pool_first(a, 2, x);
    Y_TYPE sum = 0;
    for (int64_t rz = pool_first(a, 0, z); rz < a.result[0] && pool_at(a, 0, rz).start <= z; ++rz) {
        const pool_window wz = pool_at(a, 0, rz);
        if (!pool_sees(wz, a.dilation[0], z)) continue;
        for (int64_t ry = first_y; ry < a.result[1] && pool_at(a, 1, ry).start <= y; ++ry) {
            const pool_window wy = pool_at(a, 1, ry);
            if (!pool_sees(wy, a.dilation[1], y)) continue;
            for (int64_t rx = first_x; rx < a.result[2] && pool_at(a, 2, rx).start <= x; ++rx) {
                const pool_window wx = pool_at(a, 2, rx);
                if (!pool_sees(wx, a.dilation[2], x)) continue;
                const int64_t r = ((plane * a.result[0] + rz) * a.result[1] + ry) * a.result[2] + rx;
                if (a.to_places == 0)
                    sum += (Y_TYPE)FIRST_LOAD(first[r]) / (Y_TYPE)pool_divisor(a, wz, wy, wx);
                else if (places[r] == at)
                    sum += (Y_TYPE)FIRST_LOAD(first[r]);
            }
        }
    }
    out[e] = Y_STORE(sum);
}
#endif
