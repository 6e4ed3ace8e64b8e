/* The matrix product: C[m,n] = A[m,k] B[k,n] with any strides.
 * B is packed into panels of nr columns, and A, unless its rows can be read where they are, into strips of mr rows, in
 * blocks along k; micro-kernels then run from packed memory. Small products read B where it is (gemm_small.c). Pieces
 * of C are independent, so threads share them out.
 * Operands that are narrower than what the product is computed in are converted where they are packed or read. */
#include "device/cpu/gemm_inside.h"
#include "core/assert.h"
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
static int64_t cost_in(const hd_gemm *p, const hd_gemm_kernels *unit) {
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

static int threads_for(const hd_gemm *p) { return hd_gemm_cost(p) >= HD_GEMM_PARALLEL ? hd_pool_threads() : 1; }

/* ---- packed ------------------------------------------------------------------------------------------------------ */
/* Elements along k of the block that begins with k0. */
static int64_t block_k(const hd_gemm *p, int64_t k0) { return hd_least(p->k_block, p->k - k0); }
/* Elements of a packed row or column of k. */
static int64_t packed_k(const hd_gemm *p, int64_t k) { return hd_pieces(k, p->kernels->group) * p->kernels->group; }
/* Bytes of `k` elements of each of `rows` rows of A, and of `columns` columns of B. */
static size_t packed_a(const hd_gemm *p, int64_t rows, int64_t k) {
    return (size_t)(rows * packed_k(p, k)) * p->kernels->packed_bytes;
}
static size_t packed_b(const hd_gemm_layout *l, int64_t columns, int64_t k) {
    const hd_gemm *p = l->product;
    return (size_t)(columns * packed_k(p, k)) * (l->kept ? p->from_b->bytes : p->kernels->packed_bytes);
}

static int64_t strips_of(const hd_gemm *p) { return hd_pieces(p->m, p->kernels->mr); }
static int64_t panels_of(const hd_gemm *p) { return hd_pieces(p->n, p->kernels->nr); }
static char *panel_of_b(const hd_gemm_layout *l, int64_t k0, int64_t panel) {
    const hd_gemm *p = l->product;
    const int64_t nr = p->kernels->nr;
    return l->panels + packed_b(l, panels_of(p) * nr, k0) + packed_b(l, panel * nr, block_k(p, k0));
}
static const char *row_of_a(const hd_gemm_layout *l, int64_t row, int64_t k0) {
    const hd_gemm *p = l->product;
    return l->a + ((row - l->a_first) * p->a_row + k0 * p->a_column) * (int64_t)p->from_a->bytes;
}

static void pack_a(const hd_gemm_layout *l, char *out, int64_t row, int64_t rows, int64_t k0) {
    const hd_gemm *p = l->product;
    p->from_a->pack_a(out, row_of_a(l, row, k0), rows, block_k(p, k0), p->a_row, p->a_column);
}
/* What a panel of B is packed from: B where it is, or the panel brought together beforehand. */
typedef struct source {
    const char *at;
    int64_t row, column;
} source;
static source source_of_b(const hd_gemm_layout *l, int64_t k0, int64_t panel) {
    const hd_gemm *p = l->product;
    const int64_t nr = p->kernels->nr;
    if (l->gathered == NULL) return (source){at_b(p, k0, panel * nr), p->b_row, p->b_column};
    const int64_t before = k0 * panels_of(p) + block_k(p, k0) * panel; /* rows of panels */
    return (source){l->gathered + (size_t)(before * nr) * p->from_b->bytes, nr, 1};
}
static void pack_b(const hd_gemm_layout *l, char *out, int64_t k0, int64_t panel) {
    const hd_gemm *p = l->product;
    const int64_t nr = p->kernels->nr, columns = hd_least(nr, p->n - panel * nr);
    const source b = source_of_b(l, k0, panel);
    (l->kept ? p->from_b->keep_b : p->from_b->pack_b)(out, b.at, block_k(p, k0), columns, b.row, b.column);
}

/* Rows of so many elements of A that stay in the second-level cache. */
static int64_t rows_at_once(const hd_gemm *p, int64_t k) {
    const int64_t mr = p->kernels->mr, most = A_BYTES / (int64_t)packed_a(p, 1, k) / mr * mr;
    return most < mr ? mr : hd_least(most, M_BLOCK / mr * mr);
}

static void pack_panels(void *context, int64_t begin, int64_t end) {
    const hd_gemm_layout *l = context;
    const hd_gemm *p = l->product;
    for (int64_t panel = begin; panel < end; ++panel)
        for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) pack_b(l, panel_of_b(l, k0, panel), k0, panel);
}

/* Measured: a packed A is not quicker to read than rows that lie along memory, and another thread has to wait for
 * it. */
static bool reads_rows(const hd_gemm *p) {
    const int64_t row = p->a_row * (int64_t)p->kernels->bytes;
    return p->a_column == 1 && p->kernels->group == 1 && !is_foreign(p) &&
           (row % SAME_PLACE != 0 || hd_gemm_work(p->m, p->k, (int64_t)p->kernels->bytes) <= A_BYTES);
}

/* A rectangle of the result. */
typedef struct rectangle {
    int64_t row, rows, column, columns;
} rectangle;
/* Memory that some of the result is computed in, and the elements between its rows. */
typedef struct tile_at {
    char *at;
    int64_t stride;
} tile_at;
/* Rows of A that are multiplied one strip after the other: where they are, or packed as strips. */
typedef struct row_block {
    int64_t row, rows;
    char *strips;
} row_block;

/* At most a strip of A, packed or where it is, times a block along k of a packed panel of B. */
static void multiply_rows(const hd_gemm_layout *l, int64_t k0, int64_t rows, const char *a, const char *b, tile_at c) {
    const hd_gemm *p = l->product;
    const int mr = p->kernels->mr, nr = p->kernels->nr;
    const int64_t kc = block_k(p, k0);
    const hd_thin_kernel thin = l->kept ? p->from_b->thin : p->kernels->thin;
    if (l->a_in_place)
        thin((int)hd_least(rows, mr), kc, a, p->a_row, 1, b, nr, c.at, c.stride, k0 > 0);
    else if (rows >= mr)
        (l->kept ? p->from_b->tile : p->kernels->tile)(kc, a, b, nr, c.at, c.stride, k0 > 0);
    else /* the last rows alone */
        thin((int)rows, kc, a, 1, mr, b, nr, c.at, c.stride, k0 > 0);
}

/* True when the first strip of a panel packs it on the way, which then costs nothing: a whole strip, whole and side
 * by side columns. */
static bool packs_on_the_way(const hd_gemm_layout *l, int64_t rows, int64_t columns) {
    const hd_gemm *p = l->product;
    return (p->b_column == 1 || l->gathered != NULL) && columns == p->kernels->nr && rows >= p->kernels->mr &&
           p->from_b->first != NULL;
}
static void multiply_first(const hd_gemm_layout *l, int64_t k0, int64_t panel, const char *a, char *packed, tile_at c) {
    const hd_gemm *p = l->product;
    const source b = source_of_b(l, k0, panel);
    p->from_b->first(block_k(p, k0), a, l->a_in_place ? p->a_row : 1, l->a_in_place ? 1 : p->kernels->mr, b.at, b.row,
                     packed, c.at, c.stride, k0 > 0);
}

/* A tile at the right edge of C is computed whole, aside. */
static void multiply_edge(const hd_gemm_layout *l, int64_t k0, rectangle r, const char *a, const char *b) {
    _Alignas(64) char whole[EDGE_BYTES];
    const hd_gemm *p = l->product;
    const size_t row = (size_t)p->kernels->nr * p->kernels->bytes, part = (size_t)r.columns * p->kernels->bytes;
    HD_ASSERT((size_t)p->kernels->mr * row <= sizeof whole);
    for (int64_t i = 0; k0 > 0 && i < r.rows; ++i) memcpy(whole + (size_t)i * row, at_c(p, r.row + i, r.column), part);
    multiply_rows(l, k0, r.rows, a, b, (tile_at){whole, p->kernels->nr});
    for (int64_t i = 0; i < r.rows; ++i) memcpy(at_c(p, r.row + i, r.column), whole + (size_t)i * row, part);
}

/* The strips of a block of A, one block along k of it, when it is not read where it is. */
static void pack_rows(const hd_gemm_layout *l, const row_block *a, int64_t k0) {
    const int64_t mr = l->product->kernels->mr, kc = block_k(l->product, k0);
    for (int64_t i = 0; i < a->rows && !l->a_in_place; i += mr)
        pack_a(l, a->strips + packed_a(l->product, i, kc), a->row + i, hd_least(mr, a->rows - i), k0);
}
/* The same rows times a panel of B, which is packed as `b`, or is now. */
static void multiply_gemm_panel(const hd_gemm_layout *l, const row_block *a, int64_t k0, int64_t panel, char *b,
                                bool is_packed) {
    const hd_gemm *p = l->product;
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, columns = hd_least(nr, p->n - panel * nr);
    const bool on_the_way = !is_packed && packs_on_the_way(l, a->rows, columns);
    if (!is_packed && !on_the_way) pack_b(l, b, k0, panel);
    for (int64_t i = 0; i < a->rows; i += mr) {
        const rectangle r = {a->row + i, hd_least(mr, a->rows - i), panel * nr, columns};
        const char *strip = l->a_in_place ? row_of_a(l, r.row, k0) : a->strips + packed_a(p, i, block_k(p, k0));
        const tile_at c = {at_c(p, r.row, r.column), p->n};
        if (i == 0 && on_the_way)
            multiply_first(l, k0, panel, strip, b, c);
        else if (columns == nr)
            multiply_rows(l, k0, r.rows, strip, b, c);
        else
            multiply_edge(l, k0, r, strip, b);
    }
}

/* Around what a thread does for a product. */
static void enter_gemm(const hd_gemm *p) {
    if (p->kernels->enter != NULL) p->kernels->enter();
}
static void leave_gemm(const hd_gemm *p) {
    if (p->kernels->leave != NULL) p->kernels->leave();
}

/* The first of `count` that a piece of `pieces` has; the next piece's is its end. */
static int64_t first_of(int64_t count, int64_t piece, int64_t pieces) { return count * piece / pieces; }
/* What a piece works in. */
static char *workspace_of(const hd_gemm_layout *l, int64_t piece) {
    HD_ASSERT(l->shared_bytes + (size_t)(piece + 1) * l->piece_bytes <= l->bytes);
    return l->pieces + (size_t)piece * l->piece_bytes;
}

static void multiply_piece(void *context, int64_t piece) {
    const hd_gemm_layout *l = context;
    const hd_gemm *p = l->product;
    const int64_t mr = p->kernels->mr, row_piece = piece / l->column_pieces, column_piece = piece % l->column_pieces;
    const int64_t row_begin = first_of(strips_of(p), row_piece, l->row_pieces) * mr,
                  row_end = hd_least(first_of(strips_of(p), row_piece + 1, l->row_pieces) * mr, p->m);
    const int64_t panel_begin = first_of(panels_of(p), column_piece, l->column_pieces),
                  panel_end = first_of(panels_of(p), column_piece + 1, l->column_pieces);
    enter_gemm(p);
    for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block)
        for (int64_t row = row_begin; row < row_end; row += l->m_block) {
            const row_block a = {row, hd_least(l->m_block, row_end - row), workspace_of(l, piece)};
            pack_rows(l, &a, k0);
            for (int64_t panel = panel_begin; panel < panel_end; ++panel)
                multiply_gemm_panel(l, &a, k0, panel, panel_of_b(l, k0, panel), true);
        }
    leave_gemm(p);
}

/* Columns cut among threads; all rows of A are packed at once, and each panel of B right before they meet it. */
static void multiply_few_rows(void *context, int64_t piece) {
    const hd_gemm_layout *l = context;
    const hd_gemm *p = l->product;
    const int64_t panel_begin = first_of(panels_of(p), piece, l->column_pieces),
                  panel_end = first_of(panels_of(p), piece + 1, l->column_pieces);
    char *packed = workspace_of(l, piece);
    const row_block a = {0, p->m, packed + hd_whole_lines(packed_b(l, p->kernels->nr, block_k(p, 0)))};
    enter_gemm(p);
    for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) {
        pack_rows(l, &a, k0);
        for (int64_t panel = panel_begin; panel < panel_end; ++panel)
            multiply_gemm_panel(l, &a, k0, panel, packed, false);
    }
    leave_gemm(p);
}

/* How a product into memory is cut: along the longer side, whole strips of A or whole panels of B for each thread. */
static hd_gemm_layout lay_out_gemm(const hd_gemm *p, int threads) {
    const int64_t nr = p->kernels->nr, mr = p->kernels->mr, panels = panels_of(p), strips = strips_of(p),
                  k_block = block_k(p, 0), most = 2 * threads; /* more than threads: their cores may differ */
    hd_gemm_layout l = {.product = p, .a = p->a, .a_in_place = reads_rows(p), .row_pieces = 1, .column_pieces = 1};
    /* B is read once when A is one block: then each panel is packed where it is used, and A, if it is, by each piece */
    l.few_rows = p->m <= M_BLOCK && (threads == 1 || (panels >= 2 * threads && (l.a_in_place || p->n >= 4 * p->m)));
    l.m_block = l.few_rows ? strips * mr : rows_at_once(p, k_block);
    if (threads > 1 && !l.few_rows && strips >= 2 * threads)
        l.row_pieces = hd_least(strips / 2, most);
    else if (threads > 1)
        l.column_pieces = hd_least(panels, most);
    const size_t strip_bytes = l.a_in_place ? 0 : hd_whole_lines(packed_a(p, l.m_block, k_block));
    l.shared_bytes = l.few_rows ? 0 : hd_whole_lines(packed_b(&l, panels * nr, p->k));
    l.piece_bytes = strip_bytes + (l.few_rows ? hd_whole_lines(packed_b(&l, nr, k_block)) : 0);
    l.bytes = l.shared_bytes + l.piece_bytes * (size_t)(l.row_pieces * l.column_pieces);
    return l;
}

static hd_error no_memory(const hd_gemm *p) {
    return hd_fail(HD_ERROR_MEMORY, "no memory to pack a matrix of %lld x %lld", (long long)p->k, (long long)p->n);
}

static hd_error multiply_packed(hd_thread *thread, const hd_gemm *p) {
    const int64_t panels = panels_of(p);
    const int threads = threads_for(p);
    if (p->k > ((int64_t)1 << 47) / (panels * p->kernels->nr)) return no_memory(p);
    hd_gemm_layout l = lay_out_gemm(p, threads);
    hd_block *workspace = hd_block_new(thread, l.bytes);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    l.pieces = (char *)hd_block_data(workspace) + l.shared_bytes;
    const int64_t pieces = l.row_pieces * l.column_pieces;
    if (l.few_rows) {
        hd_parallel(pieces, multiply_few_rows, &l);
    } else {
        l.panels = hd_block_data(workspace);
        hd_parallel_range(panels, threads > 1 ? hd_pieces(panels, threads) : panels, pack_panels, &l);
        hd_parallel(pieces, multiply_piece, &l);
    }
    hd_block_release(thread, workspace);
    return HD_OK;
}

/* ---- finished in cache: the result is nowhere but in tiles of a few rows and one panel --------------------------- */
/* Measured: for a few rows B comes from memory, and half of it comes sooner; for more, it is converted too often. */
static bool keeps(const hd_gemm *p) { return p->from_b->keep_b != NULL && p->m <= KEPT_ROWS; }

/* How B is laid out beforehand. Parts for a matrix unit take half as much memory again: for many rows, among which the
 * cost is divided, panels are packed on the way and beforehand only brought together. */
static bool is_unit(const hd_gemm *p) { return p->kernels->enter != NULL; }
bool hd_gemm_gathers(const hd_gemm *p) { return is_unit(p) && p->m >= GATHERED_ROWS; }
/* `as` becomes the product whose kernels would read it so. */
static hd_gemm_layout lay_out_beforehand(const hd_gemm *p, hd_gemm *as) {
    *as = *p;
    if (hd_gemm_gathers(p)) {
        as->kernels = &hd_kernels()->gemm_f32;
        as->from_b = &as->kernels->from[p->from_b - p->kernels->from];
    }
    return (hd_gemm_layout){.product = as, .kept = hd_gemm_gathers(p) ? as->from_b->keep_b != NULL : keeps(p)};
}

size_t hd_gemm_packed_bytes(const hd_gemm *p) {
    hd_gemm as;
    const hd_gemm_layout l = lay_out_beforehand(p, &as);
    return packed_b(&l, panels_of(&as) * as.kernels->nr, p->k);
}

void hd_gemm_pack(const hd_gemm *p, char *out) {
    hd_gemm as;
    hd_gemm_layout l = lay_out_beforehand(p, &as);
    l.panels = out;
    hd_parallel_range(panels_of(&as), 65536 / (p->k * as.kernels->nr + 1) + 1, pack_panels, &l);
}

bool hd_gemm_packs_alike(const hd_gemm *p, const hd_gemm *other) {
    if (p->k == 0 || other->k == 0 || !hd_gemm_wants_packed(p) || !hd_gemm_wants_packed(other)) return false;
    hd_gemm a, b;
    const hd_gemm_layout of_a = lay_out_beforehand(p, &a), of_b = lay_out_beforehand(other, &b);
    return a.kernels == b.kernels && a.from_b == b.from_b && of_a.kept == of_b.kept && a.n == b.n && a.k == b.k &&
           a.k_block == b.k_block && a.b_row == b.b_row && a.b_column == b.b_column;
}

/* ---- rows of A that are computed where they are used ------------------------------------------------------------- */
/* Bytes of rows that `prologue` computes. */
static size_t computed_bytes(const hd_gemm *p, int64_t rows) {
    return p->prologue == NULL ? 0 : (size_t)(rows * p->k) * p->from_a->bytes;
}
/* The layout with some rows of A in `out`, when they are not in memory already. */
static hd_gemm_layout with_rows(const hd_gemm_layout *l, char *out, int64_t row, int64_t rows) {
    const hd_gemm *p = l->product;
    hd_gemm_layout with = *l;
    if (p->prologue == NULL) return with;
    p->prologue(p->prologue_context, out, p->first_row + row, rows);
    with.a = out;
    with.a_first = row;
    return with;
}
typedef struct rows_job {
    const hd_gemm *product;
    char *out;
} rows_job;
static void compute_rows(void *context, int64_t begin, int64_t end) {
    const rows_job *j = context;
    const hd_gemm *p = j->product;
    p->prologue(p->prologue_context, j->out + computed_bytes(p, begin), p->first_row + begin, end - begin);
}
/* All rows of A at once, into `out`, when they are not in memory already. Returns where A begins. */
static const char *compute_all_rows(const hd_gemm *p, char *out) {
    rows_job j = {p, out};
    if (p->prologue == NULL) return p->a;
    hd_parallel_range(p->m, 65536 / p->k + 1, compute_rows, &j);
    return out;
}

/* All of k of a strip of some rows of A, which are packed as [k blocks][strips][k_block][mr]. */
static char *strip_of_a(const hd_gemm *p, const row_block *a, int64_t k0, int64_t strip) {
    const int64_t mr = p->kernels->mr, strips = hd_pieces(a->rows, mr);
    return a->strips + packed_a(p, strips * mr, k0) + packed_a(p, strip * mr, block_k(p, k0));
}
/* `computed` is for the rows of one strip. */
static void pack_gemm_strips(const hd_gemm_layout *l, const row_block *a, int64_t begin, int64_t end, char *computed) {
    const hd_gemm *p = l->product;
    const int64_t mr = p->kernels->mr;
    for (int64_t s = begin; s < end; ++s) {
        const int64_t row = a->row + s * mr, rows = hd_least(mr, a->rows - s * mr);
        const hd_gemm_layout with = with_rows(l, computed, row, rows);
        for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) pack_a(&with, strip_of_a(p, a, k0, s), row, rows, k0);
    }
}
static void pack_all_strips(void *context, int64_t begin, int64_t end) {
    const hd_gemm_layout *l = context;
    const hd_gemm *p = l->product;
    const row_block all = {0, p->m, l->strips};
    pack_gemm_strips(l, &all, begin, end, l->computed + computed_bytes(p, begin * p->kernels->mr));
}

/* B comes from memory: while one block of it is used, the next is asked for, a share with each strip. */
static void ask_for(const char *at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}
static void ask_for_next(const hd_gemm_layout *l, int64_t k0, int64_t panel, int64_t strip, int64_t strips) {
    const hd_gemm *p = l->product;
    const int64_t nr = p->kernels->nr;
    const bool same_panel = k0 + p->k_block < p->k;
    if (!same_panel && panel + 1 >= panels_of(p)) return;
    const int64_t k = same_panel ? k0 + p->k_block : 0, kc = block_k(p, k), next = same_panel ? panel : panel + 1;
    const int64_t columns = hd_least(nr, p->n - next * nr), one = (int64_t)p->from_b->bytes;
    if (l->panels != NULL) {
        const int64_t bytes = (int64_t)packed_b(l, nr, kc), begin = bytes * strip / strips / 64 * 64;
        ask_for(panel_of_b(l, k, next) + begin, bytes * (strip + 1) / strips - begin);
    } else if (p->b_column == 1) {
        for (int64_t q = kc * strip / strips; q < kc * (strip + 1) / strips; ++q)
            ask_for(at_b(p, k + q, next * nr), columns * one);
    } else if (p->b_row == 1) {
        for (int64_t j = columns * strip / strips; j < columns * (strip + 1) / strips; ++j)
            ask_for(at_b(p, k, next * nr + j), kc * one);
    }
}

/* Where a rectangle is computed: where it belongs, if it may be at once, or else in a tile with rows of `stride`. */
static tile_at tile_of(const hd_gemm *p, rectangle r, bool at_once, char *tile, int64_t stride) {
    char *belongs = at_once ? hd_cpu_product_address(p->epilogue, p->context, p->first_row + r.row, r.column) : NULL;
    return belongs != NULL ? (tile_at){belongs, p->n} : (tile_at){tile, stride};
}
static void apply_epilogue(const hd_gemm *p, rectangle r, tile_at c) {
    p->epilogue(p->context, c.at, c.stride, p->first_row + r.row, r.rows, r.column, r.columns);
}

static int64_t strips_together(const hd_gemm *p) { return hd_least(TILE_STRIPS, TILE_ROWS / p->kernels->mr); }

/* What a piece of few rows works in: a tile, and a panel of B unless that is packed already. When all rows are in one
 * tile, one block of k of the panel at a time. */
typedef struct tile_memory {
    char *tile, *panel;
} tile_memory;
static bool is_one_tile(const hd_gemm *p) { return strips_of(p) <= strips_together(p); }
/* Of some strips of a panel, or some panels of a strip. */
static size_t tile_bytes(const hd_gemm *p) {
    return (size_t)(TILE_STRIPS * p->kernels->mr * p->kernels->nr) * p->kernels->bytes;
}
static size_t panel_bytes(const hd_gemm_layout *l) {
    const hd_gemm *p = l->product;
    return l->panels != NULL ? 0 : packed_b(l, p->kernels->nr, is_one_tile(p) ? block_k(p, 0) : p->k);
}
static char *panel_in(const hd_gemm_layout *l, char *panel, int64_t k0) {
    const hd_gemm *p = l->product;
    const size_t before = is_one_tile(p) ? 0 : packed_b(l, p->kernels->nr, k0);
    HD_ASSERT(before + packed_b(l, p->kernels->nr, block_k(p, k0)) <= panel_bytes(l));
    return panel + before;
}

/* A rectangle of one panel and some strips of a block of A, all of k; then what follows it. The first strips of the
 * block find B not packed, unless it was beforehand. */
static void compute_tile(const hd_gemm_layout *l, const row_block *a, rectangle r, tile_memory memory) {
    const hd_gemm *p = l->product;
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, panel = r.column / nr, first = (r.row - a->row) / mr;
    const bool is_packed = l->panels != NULL || first > 0,
               on_the_way = !is_packed && packs_on_the_way(l, r.rows, r.columns),
               asks = first == 0 && (!is_unit(p) || l->panels != NULL);
    /* one block is written once: at once where it belongs. More would come back to lines that lie far apart. */
    const tile_at c = tile_of(p, r, p->k <= p->k_block && r.columns == nr, memory.tile, nr);
    for (int64_t k0 = 0; k0 < p->k; k0 += p->k_block) {
        char *b = l->panels != NULL ? panel_of_b(l, k0, panel) : panel_in(l, memory.panel, k0);
        if (!is_packed && !on_the_way) pack_b(l, b, k0, panel);
        for (int64_t s = 0; s * mr < r.rows; ++s) {
            if (asks) ask_for_next(l, k0, panel, s, hd_pieces(r.rows, mr));
            const char *strip = l->a_in_place ? row_of_a(l, r.row + s * mr, k0) : strip_of_a(p, a, k0, first + s);
            const tile_at to = {c.at + (size_t)(s * mr * c.stride) * p->kernels->bytes, c.stride};
            if (s == 0 && on_the_way)
                multiply_first(l, k0, panel, strip, b, to);
            else
                multiply_rows(l, k0, r.rows - s * mr, strip, b, to);
        }
    }
    apply_epilogue(p, r, c);
}

/* One panel of the result, a few strips at a time, so that what follows finds them in the first-level cache. */
static void compute_panel(const hd_gemm_layout *l, const row_block *a, int64_t panel, tile_memory memory) {
    const hd_gemm *p = l->product;
    const int64_t nr = p->kernels->nr, some = strips_together(p) * p->kernels->mr;
    rectangle r = {.column = panel * nr, .columns = hd_least(nr, p->n - panel * nr)};
    for (int64_t i = 0; i < a->rows; i += some) {
        r.row = a->row + i;
        r.rows = hd_least(some, a->rows - i);
        compute_tile(l, a, r, memory);
    }
}

/* Of A packed, a block of rows. */
static size_t strip_bytes(const hd_gemm_layout *l) {
    return l->a_in_place ? 0 : packed_a(l->product, l->m_block + l->product->kernels->mr, l->product->k);
}

/* Some panels, for all rows: A is packed already, or its rows are there. */
static void compute_columns(void *context, int64_t piece) {
    const hd_gemm_layout *l = context;
    const hd_gemm *p = l->product;
    const row_block all = {0, p->m, l->strips};
    const tile_memory memory = {workspace_of(l, piece), workspace_of(l, piece) + tile_bytes(p)};
    const int64_t end = first_of(panels_of(p), piece + 1, l->column_pieces);
    enter_gemm(p);
    for (int64_t panel = first_of(panels_of(p), piece, l->column_pieces); panel < end; ++panel)
        compute_panel(l, &all, panel, memory);
    leave_gemm(p);
}

/* One strip of a wide result, some panels at a time, so that what follows walks along memory. */
static void compute_strip(const hd_gemm_layout *l, const row_block *a, int64_t panel, int64_t panels, char *tile) {
    const hd_gemm *p = l->product;
    const int64_t nr = p->kernels->nr;
    const rectangle r = {a->row, a->rows, panel * nr, hd_least(panels * nr, p->n - panel * nr)};
    const tile_at c = tile_of(p, r, r.columns == panels * nr, tile, panels * nr);
    HD_ASSERT(p->k <= p->k_block && a->rows <= p->kernels->mr);
    for (int64_t i = 0; i < panels; ++i)
        multiply_rows(l, 0, a->rows, l->a_in_place ? row_of_a(l, a->row, 0) : a->strips, panel_of_b(l, 0, panel + i),
                      (tile_at){c.at + (size_t)(i * nr) * p->kernels->bytes, c.stride});
    apply_epilogue(p, r, c);
}

/* Some rows, for all panels: B is packed already. */
static void compute_strips(void *context, int64_t piece) {
    const hd_gemm_layout *l = context;
    const hd_gemm *p = l->product;
    const int64_t blocks = hd_pieces(p->m, l->m_block), panels = panels_of(p),
                  end = first_of(blocks, piece + 1, l->row_pieces);
    char *tile = workspace_of(l, piece), *strips = tile + tile_bytes(p),
         *computed = strips + hd_whole_lines(strip_bytes(l));
    enter_gemm(p);
    for (int64_t block = first_of(blocks, piece, l->row_pieces); block < end; ++block) {
        const int64_t row = block * l->m_block;
        const row_block a = {row, hd_least(l->m_block, p->m - row), strips};
        const hd_gemm_layout some = l->a_in_place ? with_rows(l, computed, row, a.rows) : *l;
        if (!l->a_in_place) pack_gemm_strips(l, &a, 0, hd_pieces(a.rows, p->kernels->mr), computed);
        for (int64_t panel = 0; l->wide && panel < panels; panel += TILE_STRIPS)
            compute_strip(&some, &a, panel, hd_least(TILE_STRIPS, panels - panel), tile);
        for (int64_t panel = 0; !l->wide && panel < panels; ++panel)
            compute_panel(&some, &a, panel, (tile_memory){tile, NULL});
    }
    leave_gemm(p);
}

/* The workspace of a product that is cut: what all pieces share is A, packed or computed, or B packed. */
static void set_bytes(hd_gemm_layout *l) {
    const hd_gemm *p = l->product;
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr;
    const size_t strips = hd_whole_lines(strip_bytes(l));
    if (l->few_rows) {
        l->shared_bytes = strips + hd_whole_lines(computed_bytes(p, p->m));
        l->piece_bytes = hd_whole_lines(tile_bytes(p) + panel_bytes(l));
    } else {
        const int64_t computed = l->a_in_place ? hd_least(p->m, l->m_block) : mr; /* rows at a time */
        l->shared_bytes = l->panels == NULL ? hd_whole_lines(packed_b(l, panels_of(p) * nr, p->k)) : 0;
        l->piece_bytes = hd_whole_lines(tile_bytes(p) + strips + computed_bytes(p, computed));
    }
    l->bytes = l->shared_bytes + l->piece_bytes * (size_t)(l->column_pieces * l->row_pieces);
}

/* How a product is cut when its tiles are finished one by one. */
static hd_gemm_layout lay_out_with_epilogue(const hd_gemm *p, int threads) {
    const int64_t panels = panels_of(p), most = threads > 1 ? 4 * threads : 1;
    const int64_t row_bytes = (int64_t)packed_a(p, 1, p->k);              /* of A */
    HD_ASSERT(p->k <= p->k_block || p->k_block % p->kernels->group == 0); /* blocks along k lie close */
    hd_gemm_layout l = {.product = p, .a = p->a, .a_in_place = reads_rows(p), .m_block = rows_at_once(p, p->k)};
    /* measured: B that is packed already is rather read again for each block of A that stays in cache */
    const bool few =
        p->packed_b == NULL || is_unit(p)
            ? p->m * row_bytes <= FEW_BYTES
            : p->m <= 2 * l.m_block || (p->m * row_bytes <= A_MOST && hd_gemm_packed_bytes(p) > HD_GEMM_B_BYTES);
    l.wide = p->share != HD_SHARE_COLUMNS && p->k <= hd_least(WIDE_K, p->k_block) && p->m >= MANY_ROWS &&
             hd_gemm_packed_bytes(p) <= HD_GEMM_B_BYTES;
    l.few_rows = p->share == HD_SHARE_BY_SIZE ? few && panels >= threads && !l.wide : p->share == HD_SHARE_COLUMNS;
    if (l.few_rows) l.m_block = strips_of(p) * p->kernels->mr;
    if (l.wide) l.m_block = p->kernels->mr;
    l.column_pieces = l.few_rows ? hd_least(panels, most) : 1;
    l.row_pieces = l.few_rows ? 1 : hd_least(hd_pieces(p->m, l.m_block), most);
    l.panels = hd_gemm_gathers(p) ? NULL : (char *)(uintptr_t)p->packed_b;
    l.gathered = hd_gemm_gathers(p) ? p->packed_b : NULL;
    l.kept = l.panels != NULL && keeps(p);
    set_bytes(&l);
    return l;
}

static void compute_packed(hd_gemm_layout l, char *workspace) {
    const hd_gemm *p = l.product;
    l.pieces = workspace + l.shared_bytes;
    if (l.few_rows) {
        l.strips = workspace;
        l.computed = workspace + hd_whole_lines(strip_bytes(&l));
        if (!l.a_in_place)
            hd_parallel_range(strips_of(p), 65536 / (p->k * p->kernels->mr) + 1, pack_all_strips, &l);
        else
            l.a = compute_all_rows(p, l.computed);
        hd_parallel(l.column_pieces, compute_columns, &l);
    } else {
        if (l.panels == NULL) {
            l.panels = workspace;
            hd_parallel_range(panels_of(p), 65536 / (p->k * p->kernels->nr) + 1, pack_panels, &l);
        }
        hd_parallel(l.row_pieces, compute_strips, &l);
    }
}

/* True when operands of a product with `epilogue` are packed; and when no memory could hold what that needs. */
static bool needs_packing(const hd_gemm *p) { return p->k > 0 && (p->packed_b != NULL || hd_gemm_wants_packing(p)); }
static bool is_absurd(const hd_gemm *p) {
    return p->k > ((int64_t)1 << 40) / (p->n + p->m + p->kernels->nr + p->kernels->mr);
}

bool hd_gemm_configs_differ(const hd_gemm *p, const hd_gemm *other) {
    if (!needs_packing(p)) return false;
    if (is_absurd(p) || is_absurd(other)) return false; /* nothing can be */
    const hd_gemm_layout a = lay_out_with_epilogue(p, threads_for(p)),
                         b = lay_out_with_epilogue(other, threads_for(other));
    return p->kernels != other->kernels || block_k(p, 0) != block_k(other, 0) || a.few_rows != b.few_rows ||
           a.wide != b.wide;
}

/* The workspace of one that is not packed: its result, rows of A that are computed, and what converts A. */
static size_t result_bytes(const hd_gemm *p) { return hd_whole_lines((size_t)(p->m * p->n) * p->kernels->bytes); }
static size_t whole_bytes(const hd_gemm *p) {
    if (p->k == 0) return result_bytes(p);
    return result_bytes(p) + hd_whole_lines(computed_bytes(p, p->m)) + hd_gemm_converted_bytes(p);
}
static void clear(const hd_gemm *p, char *c) { memset(c, 0, (size_t)(p->m * p->n) * p->kernels->bytes); }

/* The whole result is small: it stays in cache as it is, or is made where it belongs. */
static void compute_whole(const hd_gemm *p, char *workspace) {
    const rectangle all = {0, p->m, 0, p->n};
    const tile_at c = tile_of(p, all, true, workspace, p->n);
    if (p->k == 0) {
        clear(p, c.at);
    } else {
        char *computed = workspace + result_bytes(p);
        hd_gemm in_memory = *p;
        in_memory.a = compute_all_rows(p, computed);
        in_memory.c = c.at;
        if (is_foreign(p))
            hd_gemm_multiply_converted(&in_memory, computed + hd_whole_lines(computed_bytes(p, p->m)));
        else
            hd_gemm_multiply_in_place(&in_memory);
    }
    apply_epilogue(p, all, c);
}

size_t hd_gemm_workspace_bytes(const hd_gemm *p) {
    if (p->m == 0 || p->n == 0) return 0;
    if (!needs_packing(p)) return whole_bytes(p);
    return is_absurd(p) ? SIZE_MAX : lay_out_with_epilogue(p, threads_for(p)).bytes;
}

static hd_error run_with_epilogue(hd_thread *thread, const hd_gemm *p) {
    const bool packs = needs_packing(p);
    if (packs && is_absurd(p)) return no_memory(p);
    hd_gemm_layout l = {.bytes = packs ? 0 : whole_bytes(p)};
    if (packs) l = lay_out_with_epilogue(p, threads_for(p));
    if (packs && p->workspace != NULL && l.bytes > p->workspace_bytes)
        l = lay_out_with_epilogue(p, 1); /* more threads than when it was made */
    hd_block *block = NULL;
    char *workspace = p->workspace;
    if (workspace == NULL || l.bytes > p->workspace_bytes) {
        block = hd_block_new(thread, l.bytes);
        if (block == NULL) return HD_ERROR_MEMORY;
        workspace = hd_block_data(block);
    }
    if (packs)
        compute_packed(l, workspace);
    else
        compute_whole(p, workspace);
    if (block != NULL) hd_block_release(thread, block);
    return HD_OK;
}

hd_error hd_gemm_run(hd_thread *thread, const hd_gemm *p) {
    if (p->m == 0 || p->n == 0) return HD_OK;
    if (p->epilogue != NULL) return run_with_epilogue(thread, p);
    if (p->k == 0)
        clear(p, p->c);
    else if (hd_gemm_wants_packing(p))
        return multiply_packed(thread, p);
    else
        hd_gemm_multiply_in_place(p);
    return HD_OK;
}
