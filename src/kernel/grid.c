/* Grids: how the points of a kernel are shared by the threads of a GPU. */
#include "kernel/gpu.h"

#include <string.h>

enum {
    FEW_POINTS = 64,    /* of a walk: one thread does them sooner than a group agrees on the result */
    HELD_MOST = 8,      /* elements in registers */
    HELD_SHARED = 16,   /* and where threads exchange values: fewer agree sooner */
    PIECE_LEAST = 4096, /* points of a walk that are worth a piece */
    PIECE_POINTS = 16,  /* and of one thread */
    PIECES_MOST = 256,
    ACROSS = 32, /* columns that a group reads side by side */
    WALKERS_LEAST = 8,
    NARROW_MOST = 1 << 30
};

static int64_t product_of(const int64_t *sizes, int first, int end) {
    int64_t all = 1;
    for (int a = first; a < end; ++a) all *= sizes[a];
    return all;
}

/* True when all positions, and all offsets from the address of a buffer, fit into 32 bits. */
static bool is_narrow(const hd_kernel *k, const int64_t *geometry, int64_t points, int64_t reduced) {
    if (points >= NARROW_MOST || reduced >= NARROW_MOST) return false;
    for (int b = 0; b < k->buffer_count; ++b) {
        double furthest = 0;
        for (int a = 0; a < k->axes; ++a) {
            const double stride = (double)geometry[hd_geometry_stride(k, b, a)];
            furthest += (double)geometry[a] * (stride < 0 ? -stride : stride);
        }
        if (furthest >= NARROW_MOST) return false;
    }
    return true;
}

/* How many neighbours along the last kept axis a thread can read and write at once: all buffers have them side by side,
 * or one element for all, and at addresses that divide. */
static int widest(const hd_kernel *k, const int64_t *geometry, int alignment) {
    const int last = k->kept - 1;
    if (last < 0 || k->kept != k->axes) return 1;
    for (int per = 4; per > 1; per /= 2) {
        bool fits = geometry[last] % per == 0;
        for (int b = 0; b < k->buffer_count && fits; ++b) {
            const int bytes = (int)hd_dtype_bytes[k->buffers[b].dtype];
            if (k->buffers[b].stride[last] == HD_STRIDE_ANY) fits = false;
            if (k->buffers[b].stride[last] != HD_STRIDE_ONE) continue;
            fits = fits && per * bytes <= 16 && alignment % (per * bytes) == 0;
            for (int a = 0; a < last && fits; ++a) fits = geometry[hd_geometry_stride(k, b, a)] % per == 0;
        }
        if (fits) return per;
    }
    return 1;
}

/* True when parts of the only walk are all there is to keep: what it stores on its way does not depend on its
 * results. */
static bool can_be_cut(const hd_kernel *k) {
    if (k->stages != 1) return false;
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_STEP_STORE && k->steps[i].depth > k->kept && k->steps[i].stage > 0) return false;
    return true;
}

static void cut(hd_grid *g, const hd_grid_limits *limits) {
    const int64_t enough = (int64_t)limits->processors * 4 * 256, have = g->groups * g->threads;
    const int64_t least =
        (int64_t)g->threads * PIECE_POINTS > PIECE_LEAST ? (int64_t)g->threads * PIECE_POINTS : PIECE_LEAST;
    int64_t pieces = have > 0 ? enough / have : 0, most = g->reduced / least;
    if (most > PIECES_MOST) most = PIECES_MOST;
    if (pieces > most) pieces = most;
    if (pieces < 2) return;
    g->in_pieces = true;
    g->piece_count = (uint32_t)pieces;
}

/* Columns are walked by several threads each, side by side in a group, when there are not enough of them for one thread
 * each. */
static bool choose_across(hd_grid *g, const hd_kernel *k, const hd_grid_limits *limits) {
    if (limits->shared == 0 || k->kept == 0 || k->schedule.lanes >= k->kept || g->reduced < WALKERS_LEAST ||
        g->points >= (int64_t)limits->processors * 1024)
        return false;
    g->form = HD_GRID_GROUP;
    g->across = ACROSS;
    while (g->across > 1 && g->points <= g->across / 2) g->across /= 2;
    g->threads = g->across;
    while (g->threads * 2u <= limits->group_most && g->threads * 4 / g->across <= g->reduced) g->threads *= 2;
    return true;
}

hd_grid hd_grid_choose(const hd_kernel *k, const int64_t *geometry, int alignment, const hd_grid_limits *limits) {
    hd_grid g = {
        .form = HD_GRID_EACH, .per = 1, .across = 1, .wide_sums = limits->has_f64, .threads = 64, .piece_count = 1};
    g.points = product_of(geometry, 0, k->kept);
    g.reduced = product_of(geometry, k->kept, k->axes);
    g.narrow = is_narrow(k, geometry, g.points, g.reduced);
    while (g.threads < 256 && g.threads * 2u <= limits->group_most && g.points > g.threads) g.threads *= 2;
    while (g.threads > limits->group_most) g.threads /= 2;
    if (k->stages == 0) {
        g.per = (uint8_t)widest(k, geometry, alignment);
        g.points /= g.per;
    } else if (k->kept < k->axes && g.reduced > FEW_POINTS && k->schedule.lanes >= k->kept && g.points < NARROW_MOST) {
        g.form = HD_GRID_GROUP;
        g.threads = 64;
        const int64_t most = limits->shared > 0 && g.points < 2 * (int64_t)limits->processors ? 1024 : 256;
        while (g.threads < most && g.threads * 2u <= limits->group_most && g.threads * 4 <= g.reduced) g.threads *= 2;
        while (g.threads > limits->group_most) g.threads /= 2;
        g.shared = g.threads > limits->shared ? limits->shared : 0;
        const int held = g.shared > 0 ? HELD_SHARED : HELD_MOST;
        if (k->stages > 1 && g.shared > 0)
            while (g.threads * 2u <= limits->group_most && g.reduced > (int64_t)g.threads * held) g.threads *= 2;
        if (k->stages > 1 && g.reduced <= (int64_t)g.threads * held)
            g.held = (uint8_t)((g.reduced + g.threads - 1) / g.threads);
    }
    if (k->stages > 0 && g.form == HD_GRID_EACH && k->kept < k->axes && g.points < NARROW_MOST)
        choose_across(&g, k, limits);
    const int64_t of_group = g.form == HD_GRID_GROUP ? g.across : g.threads;
    g.groups = (g.points + of_group - 1) / of_group;
    if (can_be_cut(k)) cut(&g, limits);
    return g;
}

/* ---- what a launch passes ---------------------------------------------------------------------------------------- */
static int reduction_count(const hd_kernel *k) {
    int count = 0;
    for (int i = 0; i < k->count; ++i) count += k->steps[i].word == HD_STEP_REDUCE;
    return count;
}

size_t hd_grid_part_bytes(const hd_kernel *k, const hd_grid *g) {
    return g->in_pieces ? (size_t)g->points * g->piece_count * (size_t)reduction_count(k) * 8 : 0;
}

typedef struct packing {
    char *out;
    size_t at;
    bool narrow;
} packing;
static void pack(packing *p, int64_t v) {
    const int32_t small = (int32_t)v;
    const size_t bytes = p->narrow ? sizeof small : sizeof v;
    if (p->out != NULL) memcpy(p->out + p->at, p->narrow ? (const void *)&small : (const void *)&v, bytes);
    p->at += bytes;
}

/* As render_gpu.c declares them: an i64 for each buffer, which the device fills in, numbers, then positions. */
size_t hd_grid_arguments(const hd_kernel *k, const hd_grid *g, const int64_t *geometry, const uint64_t *numbers,
                         void *out) {
    packing p = {.out = out};
    for (int b = 0; b < k->buffer_count + g->in_pieces; ++b) pack(&p, 0);
    for (int i = 0; i < k->number_count; ++i) pack(&p, out != NULL ? (int64_t)numbers[i] : 0);
    for (int a = 0; a < k->axes; ++a) pack(&p, geometry[hd_geometry_base(k, a)]);
    p.narrow = g->narrow;
    for (int a = 0; a < k->axes; ++a) pack(&p, geometry[a]);
    for (int b = 0; b < k->buffer_count; ++b)
        for (int a = 0; a < k->axes; ++a)
            if (k->buffers[b].stride[a] == HD_STRIDE_ANY) pack(&p, geometry[hd_geometry_stride(k, b, a)]);
    pack(&p, g->points);
    pack(&p, g->reduced);
    pack(&p, (g->reduced + g->piece_count - 1) / g->piece_count);
    pack(&p, g->piece_count);
    if (p.at % 8 != 0) pack(&p, 0);
    return p.at;
}
