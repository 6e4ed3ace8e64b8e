/* The matrix product: C[m,n] = A[m,k] B[k,n] with any strides.
 * B is packed into panels of nr columns, and A, unless its rows can be read where they are, into strips of mr rows, in
 * blocks along k; micro-kernels then run from packed memory. Small products read B where it is (gemm_small.c). Pieces
 * of C are independent, so threads share them out.
 * Operands that are narrower than what the product is computed in are converted where they are packed or read. */
#include "device/cpu/gemm_inside.h"
#include "core/memory.h"
#include "core/pool.h"

#include <string.h>

enum {
    M_BLOCK = 384,        /* rows of A packed at once, at most */
    A_BYTES = 512 * 1024, /* of A that is read again and again, when tiles are finished one by one, */
    A_MOST = 1 << 20,     /* and when B would not stay in the second-level cache either */
    SAME_PLACE = 4096,    /* rows a multiple of this apart push each other out of the first-level cache */
    FEW_BYTES =
        4 << 20,    /* an A of at most this is read once for each panel of B, rather than B again for each block of A */
    KEPT_ROWS = 16, /* of A, at most, when B packed beforehand is not converted */
    TILE_STRIPS = 8,     /* strips of A, or panels of B, that are finished together, */
    TILE_ROWS = 128,     /* and rows, at most */
    MANY_ROWS = 192,     /* from which on a result is wide, much larger than its operands, when k is */
    WIDE_K = 256,        /* at most this */
    UNIT_LEAST = 24,     /* rows, columns and elements along k of a product in a matrix unit */
    MOST_WORK = 1 << 30, /* of one whose cost is calculated: larger ones are worth it */
    VECTOR_COST = 92,    /* of a multiplication outside of it, as its own costs are given */
    GATHERED_ROWS = 96,  /* from which on its B is not in parts beforehand */
    EDGE_BYTES = 8192    /* a tile of C, mr * nr elements: on the stack of a small thread */
};

/* ---- what it costs ----------------------------------------------------------------------------------------------- */
static int64_t cost_in(const product *p, const hd_gemm_kernels *unit) {
    const int64_t whole = hd_pieces(p->m, unit->mr) * unit->mr * hd_pieces(p->n, unit->nr) * unit->nr *
                          hd_pieces(p->k, unit->group) * unit->group;
    return unit->cost * whole + unit->cost_a * p->m * p->k +
           (p->b_column == 1 ? unit->cost_b : unit->cost_b_turned) * p->k * p->n;
}

int64_t hd_gemm_cost(const hd_gemm *p) {
    const int64_t work = hd_gemm_work(p->m, p->n, p->k);
    if (work > MOST_WORK) return work;
    const int64_t read = (p->m * p->k * (int64_t)p->from_a->bytes + p->k * p->n * (int64_t)p->from_b->bytes) /
                         HD_GEMM_BYTES_READ,
                  cost = p->kernels->enter != NULL ? cost_in(p, p->kernels) / VECTOR_COST : work;
    return cost > read ? cost : read;
}

bool hd_gemm_suits(const hd_gemm *p, const hd_gemm_kernels *unit) {
    const int64_t least = hd_least(p->m, hd_least(p->n, p->k)), work = hd_gemm_work(p->m, p->n, p->k);
    if (least < UNIT_LEAST || !hd_gemm_wants_packing(p)) return false;
    return work > MOST_WORK || cost_in(p, unit) < VECTOR_COST * work;
}

static int threads_for(const product *p) { return hd_gemm_cost(p) >= HD_GEMM_PARALLEL ? hd_pool_threads() : 1; }

/* ---- packed ------------------------------------------------------------------------------------------------------ */
/* Elements of a packed row or column of k. */
static int64_t packed_k(const product *p, int64_t k) { return hd_pieces(k, p->kernels->group) * p->kernels->group; }
/* Bytes of `k` elements of each of `rows` rows of A, and of `columns` columns of B. */
static size_t packed_a(const product *p, int64_t rows, int64_t k) {
    return (size_t)(rows * packed_k(p, k)) * p->kernels->packed_bytes;
}
static size_t packed_b(const product *p, int64_t columns, int64_t k) {
    return (size_t)(columns * packed_k(p, k)) * (p->kept ? p->from_b->bytes : p->kernels->packed_bytes);
}

static char *panel_of_b(const product *p, int64_t k0, int64_t panel) {
    const int64_t nr = p->kernels->nr, count = hd_pieces(p->n, nr), kc = hd_least(p->k_block, p->k - k0);
    return p->panels + packed_b(p, count * nr, k0) + packed_b(p, panel * nr, kc);
}

static void pack_a(const product *p, char *out, int64_t row, int64_t rows, int64_t k0, int64_t kc) {
    p->from_a->pack_a(out, at_a(p, row, k0), rows, kc, p->a_row, p->a_column);
}
/* What a panel of B is packed from: B where it is, or the panel brought together beforehand. */
typedef struct source {
    const char *at;
    int64_t row, column;
} source;
static source source_of_b(const product *p, int64_t k0, int64_t panel) {
    const int64_t nr = p->kernels->nr, count = hd_pieces(p->n, nr), kc = hd_least(p->k_block, p->k - k0);
    if (p->gathered == NULL) return (source){at_b(p, k0, panel * nr), p->b_row, p->b_column};
    return (source){p->gathered + (size_t)((k0 * count + kc * panel) * nr) * p->from_b->bytes, nr, 1};
}
static void pack_b(const product *p, char *out, int64_t k0, int64_t kc, int64_t panel) {
    const int64_t nr = p->kernels->nr;
    const source b = source_of_b(p, k0, panel);
    (p->kept ? p->from_b->keep_b : p->from_b->pack_b)(out, b.at, kc, hd_least(nr, p->n - panel * nr), b.row, b.column);
}

/* Rows of so many elements of A that stay in the second-level cache. */
static int64_t rows_at_once(const product *p, int64_t k) {
    const int64_t mr = p->kernels->mr, most = A_BYTES / (int64_t)packed_a(p, 1, k) / mr * mr;
    return most < mr ? mr : hd_least(most, M_BLOCK / mr * mr);
}

static void pack_panels(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    for (int64_t panel = begin; panel < end; ++panel)
        for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block)
            pack_b(p, panel_of_b(p, k0, panel), k0, hd_least(p->k_block, p->k - k0), panel);
}

/* Measured: a packed A is not quicker to read than rows that lie along memory, and another thread has to wait for
 * it. */
static bool reads_rows(const product *p) {
    const int64_t row = p->a_row * (int64_t)p->kernels->bytes;
    return p->a_column == 1 && p->kernels->group == 1 && !is_foreign(p) &&
           (row % SAME_PLACE != 0 || hd_gemm_work(p->m, p->k, (int64_t)p->kernels->bytes) <= A_BYTES);
}

/* Some rows of a tile: a strip of A, packed or where it is, times a packed panel of B. */
static void multiply_rows(const product *p, int64_t rows, int64_t kc, const char *a, const char *b, char *c,
                          int64_t ldc, bool accumulate) {
    const int mr = p->kernels->mr, nr = p->kernels->nr;
    if (p->a_in_place)
        (p->kept ? p->from_b->thin : p->kernels->thin)((int)hd_least(rows, mr), kc, a, p->a_row, 1, b, nr, c, ldc,
                                                       accumulate);
    else if (rows >= mr)
        (p->kept ? p->from_b->tile : p->kernels->tile)(kc, a, b, nr, c, ldc, accumulate);
    else /* the last rows alone */
        (p->kept ? p->from_b->thin : p->kernels->thin)((int)rows, kc, a, 1, mr, b, nr, c, ldc, accumulate);
}

/* That the first strip of a panel packs it on the way, which then costs nothing: a whole strip, whole and side by side
 * columns. */
static bool packs_on_the_way(const product *p, int64_t rows, int64_t columns) {
    return (p->b_column == 1 || p->gathered != NULL) && columns == p->kernels->nr && rows >= p->kernels->mr &&
           p->from_b->first != NULL;
}
static void multiply_first(const product *p, int64_t kc, const char *a, source b, char *packed, char *c, int64_t ldc,
                           bool accumulate) {
    p->from_b->first(kc, a, p->a_in_place ? p->a_row : 1, p->a_in_place ? 1 : p->kernels->mr, b.at, b.row, packed, c,
                     ldc, accumulate);
}

/* A tile at the right edge of C is computed whole, aside. */
static void edge_tile(const product *p, int64_t kc, const char *a, const char *b, char *c, int64_t rows,
                      int64_t columns, bool accumulate) {
    _Alignas(64) char whole[EDGE_BYTES];
    const size_t row = (size_t)p->kernels->nr * p->kernels->bytes, part = (size_t)columns * p->kernels->bytes,
                 apart = (size_t)p->n * p->kernels->bytes;
    for (int64_t i = 0; accumulate && i < rows; ++i) memcpy(whole + (size_t)i * row, c + (size_t)i * apart, part);
    multiply_rows(p, rows, kc, a, b, whole, p->kernels->nr, accumulate);
    for (int64_t i = 0; i < rows; ++i) memcpy(c + (size_t)i * apart, whole + (size_t)i * row, part);
}

/* The strips of some rows of A, when it is not read where it is. */
static void pack_rows(const product *p, char *strips, int64_t row0, int64_t rows, int64_t k0, int64_t kc) {
    const int64_t mr = p->kernels->mr;
    for (int64_t i = 0; i < rows && !p->a_in_place; i += mr)
        pack_a(p, strips + packed_a(p, i, kc), row0 + i, hd_least(mr, rows - i), k0, kc);
}
static void multiply_panel(const product *p, const char *strips, int64_t row0, int64_t rows, int64_t k0, int64_t kc,
                           int64_t panel, char *b, bool is_packed) {
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, columns = hd_least(nr, p->n - panel * nr);
    const bool on_the_way = !is_packed && packs_on_the_way(p, rows, columns);
    if (!is_packed && !on_the_way) pack_b(p, b, k0, kc, panel);
    for (int64_t i = 0; i < rows; i += mr) {
        const char *a = p->a_in_place ? at_a(p, row0 + i, k0) : strips + packed_a(p, i, kc);
        char *c = at_c(p, row0 + i, panel * nr);
        if (i == 0 && on_the_way)
            multiply_first(p, kc, a, source_of_b(p, k0, panel), b, c, p->n, k0 > 0);
        else if (columns == nr)
            multiply_rows(p, hd_least(mr, rows - i), kc, a, b, c, p->n, k0 > 0);
        else
            edge_tile(p, kc, a, b, c, hd_least(mr, rows - i), columns, k0 > 0);
    }
}

/* Around what a thread does for a product. */
static void enter(const product *p) {
    if (p->kernels->enter != NULL) p->kernels->enter();
}
static void leave(const product *p) {
    if (p->kernels->leave != NULL) p->kernels->leave();
}

static void multiply_piece(void *context, int64_t piece) {
    const product *p = context;
    const int64_t mr = p->kernels->mr, panels = hd_pieces(p->n, p->kernels->nr);
    const int64_t row_piece = piece / p->column_pieces, column_piece = piece % p->column_pieces;
    const int64_t strips = hd_pieces(p->m, mr);
    const int64_t row_begin = strips * row_piece / p->row_pieces * mr,
                  row_end = hd_least(strips * (row_piece + 1) / p->row_pieces * mr, p->m);
    const int64_t panel0 = panels * column_piece / p->column_pieces,
                  panel1 = panels * (column_piece + 1) / p->column_pieces;
    char *block = p->strips + (size_t)piece * packed_a(p, p->m_block, hd_least(p->k_block, p->k));
    enter(p);
    for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) {
        const int64_t kc = hd_least(p->k_block, p->k - k0);
        for (int64_t row0 = row_begin; row0 < row_end; row0 += p->m_block) {
            const int64_t rows = hd_least(p->m_block, row_end - row0);
            pack_rows(p, block, row0, rows, k0, kc);
            for (int64_t panel = panel0; panel < panel1; ++panel)
                multiply_panel(p, block, row0, rows, k0, kc, panel, panel_of_b(p, k0, panel), true);
        }
    }
    leave(p);
}

/* Columns cut among threads; all rows of A are packed at once, and each panel of B right before they meet it. */
static void multiply_few_rows(void *context, int64_t piece) {
    const product *p = context;
    const int64_t nr = p->kernels->nr, panels = hd_pieces(p->n, nr);
    const int64_t panel0 = panels * piece / p->column_pieces, panel1 = panels * (piece + 1) / p->column_pieces;
    char *strips = p->strips + (size_t)piece * packed_a(p, p->m_block, hd_least(p->k_block, p->k));
    char *room = p->panels + (size_t)piece * packed_b(p, nr, hd_least(p->k_block, p->k));
    enter(p);
    for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) {
        const int64_t kc = hd_least(p->k_block, p->k - k0);
        pack_rows(p, strips, 0, p->m, k0, kc);
        for (int64_t panel = panel0; panel < panel1; ++panel)
            multiply_panel(p, strips, 0, p->m, k0, kc, panel, room, false);
    }
    leave(p);
}

static hd_error multiply_packed(hd_thread *thread, product *p) {
    const int64_t nr = p->kernels->nr, mr = p->kernels->mr, panels = hd_pieces(p->n, nr),
                  k_block = hd_least(p->k_block, p->k);
    const int threads = threads_for(p);
    /* cut the longer side: whole strips of A or whole panels of B for each thread */
    p->row_pieces = p->column_pieces = 1;
    const int64_t strips = hd_pieces(p->m, mr), most = 2 * threads; /* more than threads: their cores may differ */
    p->a_in_place = reads_rows(p);
    /* B is read once when A is one block: then each panel is packed where it is used, and A, if it is, by each piece */
    const bool few_rows =
        p->m <= M_BLOCK && (threads == 1 || (panels >= 2 * threads && (p->a_in_place || p->n >= 4 * p->m)));
    p->m_block = few_rows ? strips * mr : rows_at_once(p, k_block);
    if (threads > 1 && !few_rows && strips >= 2 * threads)
        p->row_pieces = hd_least(strips / 2, most);
    else if (threads > 1)
        p->column_pieces = hd_least(panels, most);
    const int64_t pieces = p->row_pieces * p->column_pieces;
    if (p->k > ((int64_t)1 << 47) / (panels * nr))
        return hd_fail(HD_ERROR_MEMORY, "no memory to pack a matrix of %lld x %lld", (long long)p->k, (long long)p->n);
    const size_t b_bytes = few_rows ? packed_b(p, pieces * nr, k_block) : packed_b(p, panels * nr, p->k),
                 a_bytes = p->a_in_place ? 0 : packed_a(p, pieces * p->m_block, k_block);
    hd_block *room = hd_block_new(thread, b_bytes + a_bytes + 64);
    if (room == NULL) return HD_ERROR_MEMORY;
    p->panels = hd_block_data(room);
    p->strips = p->panels + hd_whole_lines(b_bytes);
    if (few_rows) {
        hd_parallel(pieces, multiply_few_rows, p);
    } else {
        hd_parallel_range(panels, threads > 1 ? hd_pieces(panels, threads) : panels, pack_panels, p);
        hd_parallel(pieces, multiply_piece, p);
    }
    hd_block_release(thread, room);
    return HD_OK;
}

/* ---- finished in cache: the result is nowhere but in tiles of a few rows and one panel --------------------------- */
/* Measured: for a few rows B comes from memory, and half of it comes sooner; for more, it is converted too often. */
static bool keeps(const product *p) { return p->from_b->keep_b != NULL && p->m <= KEPT_ROWS; }

/* How B is laid out beforehand. Parts for a matrix unit take half as much memory again: for many rows, among which the
 * cost is divided, panels are packed on the way and beforehand only brought together. */
static bool is_unit(const product *p) { return p->kernels->enter != NULL; }
bool hd_gemm_gathers(const hd_gemm *p) { return is_unit(p) && p->m >= GATHERED_ROWS; }
static hd_gemm as_packed_beforehand(const hd_gemm *p) {
    hd_gemm as = *p;
    if (hd_gemm_gathers(p)) {
        as.kernels = &hd_kernels()->gemm_f32;
        as.from_b = &as.kernels->from[p->from_b - p->kernels->from];
    }
    as.kept = hd_gemm_gathers(p) ? as.from_b->keep_b != NULL : keeps(p);
    return as;
}

size_t hd_gemm_packed_bytes(const hd_gemm *p) {
    const hd_gemm as = as_packed_beforehand(p);
    return packed_b(&as, hd_pieces(p->n, as.kernels->nr) * as.kernels->nr, p->k);
}

void hd_gemm_pack(const hd_gemm *p, char *out) {
    hd_gemm to = as_packed_beforehand(p);
    to.panels = out;
    const int64_t panels = hd_pieces(p->n, to.kernels->nr);
    hd_parallel_range(panels, 65536 / (p->k * to.kernels->nr + 1) + 1, pack_panels, &to);
}

bool hd_gemm_packs_alike(const hd_gemm *p, const hd_gemm *other) {
    if (p->k == 0 || other->k == 0 || !hd_gemm_wants_packed(p) || !hd_gemm_wants_packed(other)) return false;
    const hd_gemm a = as_packed_beforehand(p), b = as_packed_beforehand(other);
    return a.kernels == b.kernels && a.from_b == b.from_b && a.kept == b.kept && a.n == b.n && a.k == b.k &&
           a.k_block == b.k_block && a.b_row == b.b_row && a.b_column == b.b_column;
}

/* ---- rows of A that are computed where they are used ------------------------------------------------------------- */
/* Bytes of rows that `begin` computes. */
static size_t computed_bytes(const product *p, int64_t rows) {
    return p->begin == NULL ? 0 : (size_t)(rows * p->k) * p->from_a->bytes;
}
/* The product with some rows of A in `room`, when they are not in memory already. */
static product with_rows(const product *p, char *room, int64_t row, int64_t rows) {
    product with = *p;
    if (p->begin == NULL) return with;
    p->begin(p->begin_context, room, p->first_row + row, rows);
    with.a = room;
    with.a_first = row;
    return with;
}
static void compute_rows(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    p->begin(p->begin_context, p->computed + computed_bytes(p, begin), p->first_row + begin, end - begin);
}

/* All of k of some strips of A: [k blocks][strips][k_block][mr], for the m_block rows from row0 on. */
static const char *strip_of_a(const product *p, const char *strips, int64_t count, int64_t k0, int64_t strip) {
    const int64_t mr = p->kernels->mr;
    return strips + packed_a(p, count * mr, k0) + packed_a(p, strip * mr, hd_least(p->k_block, p->k - k0));
}
/* `computed` is room for the rows of one strip. */
static void pack_strips(const product *p, char *out, int64_t row0, int64_t rows, int64_t begin, int64_t end,
                        char *computed) {
    const int64_t mr = p->kernels->mr, strips = hd_pieces(rows, mr);
    for (int64_t s = begin; s < end; ++s) {
        const int64_t row = row0 + s * mr, count = hd_least(mr, rows - s * mr);
        const product strip = with_rows(p, computed, row, count);
        for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block)
            pack_a(&strip, (char *)(uintptr_t)strip_of_a(p, out, strips, k0, s), row, count, k0,
                   hd_least(p->k_block, p->k - k0));
    }
}
static void pack_all_strips(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    pack_strips(p, p->strips, 0, p->m, begin, end, p->computed + computed_bytes(p, begin * p->kernels->mr));
}

/* B comes from memory: while one block of it is used, the next is asked for, a share with each strip. */
static void ask_for(const char *at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}
static void ask_for_next(const product *p, int64_t k0, int64_t panel, int64_t strip, int64_t strips) {
    const int64_t nr = p->kernels->nr;
    const bool same_panel = k0 + p->k_block < p->k;
    if (!same_panel && panel + 1 >= hd_pieces(p->n, nr)) return;
    const int64_t k = same_panel ? k0 + p->k_block : 0, kc = hd_least(p->k_block, p->k - k),
                  next = same_panel ? panel : panel + 1;
    const int64_t columns = hd_least(nr, p->n - next * nr), one = (int64_t)p->from_b->bytes;
    if (p->panels != NULL) {
        const int64_t bytes = (int64_t)packed_b(p, nr, kc), begin = bytes * strip / strips / 64 * 64;
        ask_for(panel_of_b(p, k, next) + begin, bytes * (strip + 1) / strips - begin);
    } else if (p->b_column == 1) {
        for (int64_t q = kc * strip / strips; q < kc * (strip + 1) / strips; ++q)
            ask_for(at_b(p, k + q, next * nr), columns * one);
    } else if (p->b_row == 1) {
        for (int64_t j = columns * strip / strips; j < columns * (strip + 1) / strips; ++j)
            ask_for(at_b(p, k, next * nr + j), kc * one);
    }
}

static int64_t strips_together(const product *p) { return hd_least(TILE_STRIPS, TILE_ROWS / p->kernels->mr); }

/* Some strips of one panel of the result, from `first` of `count` on, all of k; then what follows it. The first ones
 * find B not packed, unless it was beforehand: `room` is for all of k of a panel. */
static void finish_tile(const product *p, const char *strips, int64_t count, int64_t first, int64_t row0, int64_t rows,
                        int64_t panel, char *room, char *tile) {
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, columns = hd_least(nr, p->n - panel * nr);
    /* one block is written once: at once where it belongs. More would come back to lines that lie far apart. */
    char *place = p->k <= p->k_block && columns == nr
                      ? hd_cpu_product_place(p->finish, p->context, p->first_row + row0, panel * nr)
                      : NULL;
    const int64_t stride = place != NULL ? p->n : nr;
    if (place != NULL) tile = place;
    for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) {
        const int64_t kc = hd_least(p->k_block, p->k - k0);
        char *b = p->panels != NULL             ? panel_of_b(p, k0, panel)
                  : count <= strips_together(p) ? room
                                                : room + packed_b(p, nr, k0);
        const bool is_packed = p->panels != NULL || first > 0,
                   on_the_way = !is_packed && packs_on_the_way(p, rows, columns);
        if (!is_packed && !on_the_way) pack_b(p, b, k0, kc, panel);
        for (int64_t s = 0; s * mr < rows; ++s) {
            if (first == 0 && (!is_unit(p) || p->panels != NULL)) ask_for_next(p, k0, panel, s, hd_pieces(rows, mr));
            const char *a = p->a_in_place ? at_a(p, row0 + s * mr, k0) : strip_of_a(p, strips, count, k0, first + s);
            char *to = tile + (size_t)(s * mr * stride) * p->kernels->bytes;
            if (s == 0 && on_the_way)
                multiply_first(p, kc, a, source_of_b(p, k0, panel), b, to, stride, k0 > 0);
            else
                multiply_rows(p, rows - s * mr, kc, a, b, to, stride, k0 > 0);
        }
    }
    p->finish(p->context, tile, stride, p->first_row + row0, rows, panel * nr, columns);
}

/* One panel of the result, a few strips at a time, so that what follows finds them in the first-level cache. */
static void finish_panel(const product *p, const char *strips, int64_t row0, int64_t rows, int64_t panel, char *tile,
                         char *room) {
    const int64_t mr = p->kernels->mr, count = hd_pieces(rows, mr), some = strips_together(p);
    for (int64_t s = 0; s < count; s += some)
        finish_tile(p, strips, count, s, row0 + s * mr, hd_least(some * mr, rows - s * mr), panel, room, tile);
}

/* Of some strips of a panel, or some panels of a strip. */
static size_t tile_bytes(const product *p) {
    return (size_t)(TILE_STRIPS * p->kernels->mr * p->kernels->nr) * p->kernels->bytes;
}
static size_t room_bytes(const product *p) {
    const bool is_one = hd_pieces(p->m, p->kernels->mr) <= strips_together(p); /* block of k at a time */
    return p->panels != NULL ? 0 : packed_b(p, p->kernels->nr, is_one ? hd_least(p->k_block, p->k) : p->k);
}

/* Of A packed, a block of rows. */
static size_t strip_bytes(const product *p) {
    return p->a_in_place ? 0 : packed_a(p, p->m_block + p->kernels->mr, p->k);
}

/* Some panels, for all rows: A is packed already, or its rows are there. */
static void finish_columns(void *context, int64_t piece) {
    const product *p = context;
    const int64_t panels = hd_pieces(p->n, p->kernels->nr);
    char *tile = p->tiles + (size_t)piece * p->piece_bytes;
    enter(p);
    for (int64_t panel = panels * piece / p->column_pieces; panel < panels * (piece + 1) / p->column_pieces; ++panel)
        finish_panel(p, p->strips, 0, p->m, panel, tile, tile + tile_bytes(p));
    leave(p);
}

/* One strip of a wide result, some panels at a time, so that what follows walks along memory. */
static void finish_strip(const product *p, const char *strip, int64_t row0, int64_t rows, int64_t panel, int64_t panels,
                         char *tile) {
    const int64_t nr = p->kernels->nr, columns = hd_least(panels * nr, p->n - panel * nr);
    char *place =
        columns == panels * nr ? hd_cpu_product_place(p->finish, p->context, p->first_row + row0, panel * nr) : NULL;
    const int64_t stride = place != NULL ? p->n : panels * nr;
    if (place != NULL) tile = place;
    for (int64_t i = 0; i < panels; ++i)
        multiply_rows(p, rows, p->k, p->a_in_place ? at_a(p, row0, 0) : strip, panel_of_b(p, 0, panel + i),
                      tile + (size_t)(i * nr) * p->kernels->bytes, stride, false);
    p->finish(p->context, tile, stride, p->first_row + row0, rows, panel * nr, columns);
}

/* Some rows, for all panels: B is packed already. */
static void finish_rows(void *context, int64_t piece) {
    const product *p = context;
    const int64_t mr = p->kernels->mr, blocks = hd_pieces(p->m, p->m_block), panels = hd_pieces(p->n, p->kernels->nr);
    char *tile = p->tiles + (size_t)piece * p->piece_bytes, *strips = tile + tile_bytes(p),
         *computed = strips + hd_whole_lines(strip_bytes(p));
    enter(p);
    for (int64_t block = blocks * piece / p->row_pieces; block < blocks * (piece + 1) / p->row_pieces; ++block) {
        const int64_t row0 = block * p->m_block, rows = hd_least(p->m_block, p->m - row0);
        const product some = p->a_in_place ? with_rows(p, computed, row0, rows) : *p;
        if (!p->a_in_place) pack_strips(p, strips, row0, rows, 0, hd_pieces(rows, mr), computed);
        for (int64_t panel = 0; p->wide && panel < panels; panel += TILE_STRIPS)
            finish_strip(&some, strips, row0, rows, panel, hd_least(TILE_STRIPS, panels - panel), tile);
        for (int64_t panel = 0; !p->wide && panel < panels; ++panel)
            finish_panel(&some, strips, row0, rows, panel, tile, NULL);
    }
    leave(p);
}

/* How a product is cut when its tiles are finished one by one, and the memory for it: what all pieces share (A, packed
 * or computed, or B packed), then theirs. */
typedef struct cut {
    bool few_rows;
    size_t shared;
} cut;
static size_t cut_product(product *p, int threads, cut *c) {
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, panels = hd_pieces(p->n, nr), strips = hd_pieces(p->m, mr);
    const int64_t row_bytes = (int64_t)packed_a(p, 1, p->k); /* of A */
    p->a_in_place = reads_rows(p);
    p->m_block = rows_at_once(p, p->k);
    /* measured: B that is packed already is rather read again for each block of A that stays in cache */
    const bool few =
        p->packed_b == NULL || is_unit(p)
            ? p->m * row_bytes <= FEW_BYTES
            : p->m <= 2 * p->m_block || (p->m * row_bytes <= A_MOST && hd_gemm_packed_bytes(p) > HD_GEMM_B_BYTES);
    p->wide = p->share != HD_SHARE_COLUMNS && p->k <= hd_least(WIDE_K, p->k_block) && p->m >= MANY_ROWS &&
              hd_gemm_packed_bytes(p) <= HD_GEMM_B_BYTES;
    c->few_rows = p->share == HD_SHARE_BY_SIZE ? few && panels >= threads && !p->wide : p->share == HD_SHARE_COLUMNS;
    if (c->few_rows) p->m_block = strips * mr;
    if (p->wide) p->m_block = mr;
    const int64_t blocks = hd_pieces(p->m, p->m_block);
    p->column_pieces = c->few_rows ? hd_least(panels, threads > 1 ? 4 * threads : 1) : 1;
    p->row_pieces = c->few_rows ? 1 : hd_least(blocks, threads > 1 ? 4 * threads : 1);
    p->panels = hd_gemm_gathers(p) ? NULL : (char *)(uintptr_t)p->packed_b;
    p->gathered = hd_gemm_gathers(p) ? p->packed_b : NULL;
    p->kept = p->panels != NULL && keeps(p);
    const size_t rows = hd_whole_lines(strip_bytes(p)),
                 panel_bytes = p->panels == NULL ? packed_b(p, panels * nr, p->k) : 0;
    const int64_t computed = p->a_in_place ? hd_least(p->m, p->m_block) : mr; /* rows at a time */
    p->piece_bytes = hd_whole_lines(tile_bytes(p) + (c->few_rows ? room_bytes(p) : rows + computed_bytes(p, computed)));
    c->shared = c->few_rows ? rows + hd_whole_lines(computed_bytes(p, p->m)) : hd_whole_lines(panel_bytes);
    return c->shared + p->piece_bytes * (size_t)(p->column_pieces * p->row_pieces);
}

/* All rows of A at once, into `computed`, when they are not in memory already. */
static void compute_all_rows(product *p) {
    if (p->begin == NULL) return;
    hd_parallel_range(p->m, 65536 / p->k + 1, compute_rows, p);
    p->a = p->computed;
}

static void finish_packed(product *p, const cut *c) {
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, panels = hd_pieces(p->n, nr), strips = hd_pieces(p->m, mr);
    p->tiles = p->room + c->shared;
    if (c->few_rows) {
        p->strips = p->room;
        p->computed = p->room + hd_whole_lines(strip_bytes(p));
        if (!p->a_in_place)
            hd_parallel_range(strips, 65536 / (p->k * mr) + 1, pack_all_strips, p);
        else
            compute_all_rows(p);
        hd_parallel(p->column_pieces, finish_columns, p);
    } else {
        if (p->panels == NULL) {
            p->panels = p->room;
            hd_parallel_range(panels, 65536 / (p->k * nr) + 1, pack_panels, p);
        }
        hd_parallel(p->row_pieces, finish_rows, p);
    }
}

/* True when no memory could hold what packing needs. */
static bool is_absurd(const product *p) {
    return p->k > ((int64_t)1 << 40) / (p->n + p->m + p->kernels->nr + p->kernels->mr);
}

bool hd_gemm_ways_differ(const hd_gemm *given, const hd_gemm *other) {
    hd_gemm p = *given, q = *other;
    cut of_p, of_q;
    if (p.k == 0 || (p.packed_b == NULL && !hd_gemm_wants_packing(&p))) return false; /* nothing is packed, */
    if (is_absurd(&p) || is_absurd(&q)) return false;                                 /* or nothing can be */
    cut_product(&p, threads_for(&p), &of_p);
    cut_product(&q, threads_for(&q), &of_q);
    return p.kernels != q.kernels || hd_least(p.k_block, p.k) != hd_least(q.k_block, q.k) ||
           of_p.few_rows != of_q.few_rows || p.wide != q.wide;
}

static size_t result_bytes(const product *p) { return hd_whole_lines((size_t)(p->m * p->n) * p->kernels->bytes); }

size_t hd_gemm_room(const hd_gemm *given) {
    hd_gemm p = *given;
    cut c;
    if (p.m == 0 || p.n == 0) return 0;
    if (p.k == 0) return result_bytes(&p);
    if (p.packed_b == NULL && !hd_gemm_wants_packing(&p))
        return result_bytes(&p) + hd_whole_lines(computed_bytes(&p, p.m)) + hd_gemm_converted_bytes(&p);
    return is_absurd(&p) ? SIZE_MAX : cut_product(&p, threads_for(&p), &c);
}

static hd_error run_finishing(hd_thread *thread, product *p) {
    cut c;
    const bool packs = p->k > 0 && (p->packed_b != NULL || hd_gemm_wants_packing(p));
    size_t needed = hd_gemm_room(p);
    if (needed == SIZE_MAX)
        return hd_fail(HD_ERROR_MEMORY, "no memory to pack a matrix of %lld x %lld", (long long)p->k, (long long)p->n);
    if (packs) {
        needed = cut_product(p, threads_for(p), &c);
        if (p->room != NULL && needed > p->room_bytes)
            needed = cut_product(p, 1, &c); /* more threads than when it was made */
    }
    hd_block *block = NULL;
    if (p->room == NULL || needed > p->room_bytes) {
        block = hd_block_new(thread, needed);
        if (block == NULL) return HD_ERROR_MEMORY;
        p->room = hd_block_data(block);
    }
    if (packs) {
        finish_packed(p, &c);
    } else { /* the whole result is small: it stays in cache as it is, or is made where it belongs */
        char *place = hd_cpu_product_place(p->finish, p->context, p->first_row, 0);
        p->c = place != NULL ? place : p->room;
        p->computed = p->room + result_bytes(p);
        if (p->k > 0) compute_all_rows(p);
        if (p->k == 0)
            memset(p->c, 0, (size_t)(p->m * p->n) * p->kernels->bytes);
        else if (is_foreign(p))
            hd_gemm_multiply_converted(p, p->computed + hd_whole_lines(computed_bytes(p, p->m)));
        else
            hd_gemm_multiply_in_place(p);
        p->finish(p->context, p->c, p->n, p->first_row, p->m, 0, p->n);
    }
    if (block != NULL) hd_block_release(thread, block);
    return HD_OK;
}

hd_error hd_gemm_run(hd_thread *thread, hd_gemm *p) {
    if (p->m == 0 || p->n == 0) return HD_OK;
    if (p->finish != NULL) return run_finishing(thread, p);
    if (p->k == 0)
        memset(p->c, 0, (size_t)(p->m * p->n) * p->kernels->bytes);
    else if (hd_gemm_wants_packing(p))
        return multiply_packed(thread, p);
    else
        hd_gemm_multiply_in_place(p);
    return HD_OK;
}
