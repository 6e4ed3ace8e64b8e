/* The matrix product: C[m,n] = A[m,k] B[k,n] for a batch of matrices with any strides.
 * B is packed into panels of nr columns, A into panels of mr rows, in blocks of K_BLOCK; micro-kernels then run from
 * packed memory. Small products read B where it is. Pieces of C are independent, so threads share them out. */
#include "device/cpu/cpu.h"
#include "kernel/words_c.h"

#include <string.h>

enum {
    K_BLOCK = 256,        /* a panel of A, mr * K_BLOCK, and one of B stay in the first-level cache together */
    M_BLOCK = 384,        /* rows of A packed at once, for the second-level cache */
    SMALL = 96 * 96 * 96, /* products below this are not packed */
    PARALLEL = 64 * 64 * 64,
    EDGE_BYTES = 8192 /* a tile of C, mr * nr elements, or some rows of a panel: on the stack of a small thread */
};

typedef struct product {
    const hd_gemm_kernels *kernels;
    size_t bytes;
    int64_t m, n, k;
    const char *a, *b;
    char *c;
    int64_t a_row, a_column, b_row, b_column; /* strides in elements; c is row-major */
    char *packed_b;                           /* [k blocks][panels][K_BLOCK][nr] */
    char *packed_a;                           /* per piece: M_BLOCK x K_BLOCK */
    int64_t row_pieces, column_pieces;
} product;

static int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }
/* m n k, or the most there is: broadcast operands may be absurdly large. */
static int64_t work_of(int64_t m, int64_t n, int64_t k) {
    int64_t work;
    return __builtin_mul_overflow(m, n, &work) || __builtin_mul_overflow(work, k, &work) ? INT64_MAX : work;
}
static int64_t pieces_of(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }

/* ---- packed ------------------------------------------------------------------------------------------------------------ */
static char *panel_of_b(const product *p, int64_t k0, int64_t panel) {
    const int64_t panels = pieces_of(p->n, p->kernels->nr), kc = minimum(K_BLOCK, p->k - k0);
    return p->packed_b + (size_t)((k0 * panels + panel * kc) * p->kernels->nr) * p->bytes;
}

static void pack_panels(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    const int nr = p->kernels->nr;
    for (int64_t panel = begin; panel < end; ++panel)
        for (int64_t k0 = 0; k0 < p->k; k0 += K_BLOCK)
            p->kernels->pack_b(panel_of_b(p, k0, panel),
                               p->b + (k0 * p->b_row + panel * nr * p->b_column) * (int64_t)p->bytes,
                               minimum(K_BLOCK, p->k - k0), minimum(nr, p->n - panel * nr), p->b_row, p->b_column);
}

/* A tile at the edge of C is computed whole, aside, and its part is added or copied. */
static void edge_tile(const product *p, int64_t kc, const char *a, const char *b, char *c, int64_t rows,
                      int64_t columns, bool accumulate) {
    _Alignas(64) char whole[EDGE_BYTES];
    const int64_t nr = p->kernels->nr;
    p->kernels->tile(kc, a, b, nr, whole, nr, false);
    for (int64_t i = 0; i < rows; ++i) {
        char *to = c + (size_t)(i * p->n) * p->bytes;
        const char *from = whole + (size_t)(i * nr) * p->bytes;
        if (!accumulate)
            memcpy(to, from, (size_t)columns * p->bytes);
        else if (p->bytes == 4)
            for (int64_t j = 0; j < columns; ++j) ((float *)to)[j] += ((const float *)from)[j];
        else
            for (int64_t j = 0; j < columns; ++j) ((double *)to)[j] += ((const double *)from)[j];
    }
}

static void multiply_panel(const product *p, const char *packed_a, int64_t row0, int64_t rows, int64_t k0, int64_t kc,
                           int64_t panel, const char *b) {
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, columns = minimum(nr, p->n - panel * nr);
    for (int64_t i = 0; i < rows; i += mr) {
        const char *a = packed_a + (size_t)(i * kc) * p->bytes;
        char *c = p->c + (size_t)((row0 + i) * p->n + panel * nr) * p->bytes;
        if (columns == nr && rows - i >= mr)
            p->kernels->tile(kc, a, b, nr, c, p->n, k0 > 0);
        else if (columns == nr) /* the last rows alone, from packed A */
            p->kernels->thin((int)(rows - i), kc, a, 1, mr, b, nr, c, p->n, k0 > 0);
        else
            edge_tile(p, kc, a, b, c, minimum(mr, rows - i), columns, k0 > 0);
    }
}

static void multiply_piece(void *context, int64_t piece) {
    const product *p = context;
    const int64_t mr = p->kernels->mr, panels = pieces_of(p->n, p->kernels->nr);
    const int64_t row_piece = piece / p->column_pieces, column_piece = piece % p->column_pieces;
    const int64_t strips = pieces_of(p->m, mr);
    const int64_t row_begin = strips * row_piece / p->row_pieces * mr,
                  row_end = minimum(strips * (row_piece + 1) / p->row_pieces * mr, p->m);
    const int64_t panel0 = panels * column_piece / p->column_pieces,
                  panel1 = panels * (column_piece + 1) / p->column_pieces;
    const int64_t m_block = M_BLOCK / mr * mr;
    char *packed_a = p->packed_a + (size_t)piece * (size_t)(m_block * K_BLOCK) * p->bytes;
    for (int64_t k0 = 0; k0 < p->k; k0 += K_BLOCK) {
        const int64_t kc = minimum(K_BLOCK, p->k - k0);
        for (int64_t row0 = row_begin; row0 < row_end; row0 += m_block) {
            const int64_t rows = minimum(m_block, row_end - row0);
            for (int64_t i = 0; i < rows; i += mr)
                p->kernels->pack_a(packed_a + (size_t)(i * kc) * p->bytes,
                                   p->a + ((row0 + i) * p->a_row + k0 * p->a_column) * (int64_t)p->bytes,
                                   minimum(mr, rows - i), kc, p->a_row, p->a_column);
            for (int64_t panel = panel0; panel < panel1; ++panel)
                multiply_panel(p, packed_a, row0, rows, k0, kc, panel, panel_of_b(p, k0, panel));
        }
    }
}

/* Columns cut among threads; all rows of A are packed at once, and each panel of B right before they meet it. */
static void multiply_few_rows(void *context, int64_t piece) {
    const product *p = context;
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, panels = pieces_of(p->n, nr), m_block = M_BLOCK / mr * mr;
    const int64_t panel0 = panels * piece / p->column_pieces, panel1 = panels * (piece + 1) / p->column_pieces;
    char *packed_a = p->packed_a + (size_t)piece * (size_t)(m_block * K_BLOCK) * p->bytes;
    char *packed_b = p->packed_b + (size_t)piece * (size_t)(nr * K_BLOCK) * p->bytes;
    for (int64_t k0 = 0; k0 < p->k; k0 += K_BLOCK) {
        const int64_t kc = minimum(K_BLOCK, p->k - k0);
        for (int64_t i = 0; i < p->m; i += mr)
            p->kernels->pack_a(packed_a + (size_t)(i * kc) * p->bytes,
                               p->a + (i * p->a_row + k0 * p->a_column) * (int64_t)p->bytes, minimum(mr, p->m - i), kc,
                               p->a_row, p->a_column);
        for (int64_t panel = panel0; panel < panel1; ++panel) {
            p->kernels->pack_b(packed_b, p->b + (k0 * p->b_row + panel * nr * p->b_column) * (int64_t)p->bytes, kc,
                               minimum(nr, p->n - panel * nr), p->b_row, p->b_column);
            multiply_panel(p, packed_a, 0, p->m, k0, kc, panel, packed_b);
        }
    }
}

static hd_error multiply_packed(hd_thread *thread, product *p) {
    const int64_t nr = p->kernels->nr, mr = p->kernels->mr, panels = pieces_of(p->n, nr), m_block = M_BLOCK / mr * mr;
    const int threads = work_of(p->m, p->n, p->k) >= PARALLEL ? hd_pool_threads() : 1;
    /* cut the longer side: whole strips of A or whole panels of B for each thread */
    p->row_pieces = p->column_pieces = 1;
    const int64_t strips = pieces_of(p->m, mr), most = 2 * threads; /* more than threads: their cores may differ */
    /* B is read once when A is one block: then each panel is packed where it is used */
    const bool few_rows = p->m <= m_block && (threads == 1 || panels >= 2 * threads);
    if (threads > 1 && !few_rows && strips >= 2 * threads)
        p->row_pieces = minimum(strips / 2, most);
    else if (threads > 1)
        p->column_pieces = minimum(panels, most);
    const int64_t pieces = p->row_pieces * p->column_pieces;
    if (p->k > ((int64_t)1 << 47) / (panels * nr))
        return hd_fail(HD_ERROR_MEMORY, "no memory to pack a matrix of %lld x %lld", (long long)p->k, (long long)p->n);
    const size_t b_bytes = (size_t)(few_rows ? pieces * nr * K_BLOCK : panels * nr * p->k) * p->bytes,
                 a_bytes = (size_t)(pieces * m_block * K_BLOCK) * p->bytes;
    hd_block *room = hd_block_new(thread, b_bytes + a_bytes + 64);
    if (room == NULL) return HD_ERROR_MEMORY;
    p->packed_b = hd_block_data(room);
    p->packed_a = p->packed_b + (b_bytes + 63) / 64 * 64;
    if (few_rows) {
        hd_parallel(pieces, multiply_few_rows, p);
    } else {
        hd_parallel_range(panels, threads > 1 ? (panels + threads - 1) / threads : panels, pack_panels, p);
        hd_parallel(pieces, multiply_piece, p);
    }
    hd_block_release(thread, room);
    return HD_OK;
}

/* ---- small: B is read in place, row by row; needs neighbouring columns side by side ---------------------------------------- */
static void multiply_small(const product *p) {
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr;
    _Alignas(64) char edge_b[EDGE_BYTES], edge_c[EDGE_BYTES];
    for (int64_t j = 0; j < p->n; j += nr) {
        const int64_t columns = minimum(nr, p->n - j);
        if (columns == nr) {
            for (int64_t i = 0; i < p->m; i += mr)
                p->kernels->thin((int)minimum(mr, p->m - i), p->k, p->a + i * p->a_row * (int64_t)p->bytes, p->a_row,
                                 p->a_column, p->b + j * (int64_t)p->bytes, p->b_row,
                                 p->c + (size_t)(i * p->n + j) * p->bytes, p->n, false);
            continue;
        }
        const int64_t k_step = EDGE_BYTES / (nr * (int64_t)p->bytes);
        for (int64_t i = 0; i < p->m; i += mr) { /* the last columns, through a panel that fits */
            const int64_t rows = minimum(mr, p->m - i);
            for (int64_t k0 = 0; k0 < p->k; k0 += k_step) {
                const int64_t kc = minimum(k_step, p->k - k0);
                if (i == 0 || p->k > k_step) /* else it is there still */
                    p->kernels->pack_b(edge_b, p->b + (k0 * p->b_row + j) * (int64_t)p->bytes, kc, columns, p->b_row,
                                       1);
                p->kernels->thin((int)rows, kc, p->a + (i * p->a_row + k0 * p->a_column) * (int64_t)p->bytes, p->a_row,
                                 p->a_column, edge_b, nr, edge_c, nr, k0 > 0);
            }
            for (int64_t r = 0; r < rows; ++r)
                memcpy(p->c + (size_t)((i + r) * p->n + j) * p->bytes, edge_c + (size_t)(r * nr) * p->bytes,
                       (size_t)columns * p->bytes);
        }
    }
}

/* ---- one row times columns that lie along memory: inner products ------------------------------------------------------------ */
static void multiply_dots(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    for (int64_t j = begin; j < end; ++j)
        for (int64_t i = 0; i < p->m; ++i) {
            const double sum = p->kernels->dot(p->a + i * p->a_row * (int64_t)p->bytes,
                                               p->b + j * p->b_column * (int64_t)p->bytes, p->k);
            if (p->bytes == 4)
                ((float *)p->c)[i * p->n + j] = (float)sum;
            else
                ((double *)p->c)[i * p->n + j] = sum;
        }
}

/* A few rows times a large row-major B: its columns are shared out. */
static void multiply_columns(void *context, int64_t begin, int64_t end) {
    product part = *(const product *)context;
    part.b += begin * part.kernels->nr * (int64_t)part.bytes;
    const int64_t first = begin * part.kernels->nr, last = minimum(end * part.kernels->nr, part.n);
    const int64_t nr = part.kernels->nr, mr = part.kernels->mr;
    for (int64_t j = first; j + nr <= last; j += nr, part.b += nr * (int64_t)part.bytes)
        for (int64_t i = 0; i < part.m; i += mr)
            part.kernels->thin((int)minimum(mr, part.m - i), part.k, part.a + i * part.a_row * (int64_t)part.bytes,
                               part.a_row, part.a_column, part.b, part.b_row,
                               part.c + (size_t)(i * part.n + j) * part.bytes, part.n, false);
}

/* ---- a few columns: packing would cost more than it brings ------------------------------------------------------------------ */
#define NARROW(T, n)                                                                                                   \
    case n:                                                                                                            \
        for (int64_t i = 0; i < p->m; ++i) {                                                                           \
            const T *a = (const T *)p->a + i * p->a_row, *b = (const T *)p->b;                                         \
            T even[n] = {0}, odd[n] = {0};                                                                             \
            int64_t q = 0;                                                                                             \
            for (; q + 2 <= p->k; q += 2, b += 2 * p->b_row) {                                                         \
                const T x = a[q * p->a_column], y = a[(q + 1) * p->a_column];                                          \
                for (int j = 0; j < n; ++j) even[j] += x * b[j], odd[j] += y * b[p->b_row + j];                        \
            }                                                                                                          \
            if (q < p->k)                                                                                              \
                for (int j = 0; j < n; ++j) even[j] += a[q * p->a_column] * b[j];                                      \
            for (int j = 0; j < n; ++j) ((T *)p->c)[i * n + j] = even[j] + odd[j];                                     \
        }                                                                                                              \
        break;
static void multiply_narrow(const product *p) {
    if (p->bytes == 4) switch (p->n) {
            NARROW(float, 1) NARROW(float, 2) NARROW(float, 3) NARROW(float, 4)
        }
    else
        switch (p->n) { NARROW(double, 1) NARROW(double, 2) NARROW(double, 3) NARROW(double, 4) }
}

static hd_error multiply(hd_thread *thread, product *p) {
    if (p->m == 0 || p->n == 0) return HD_OK;
    if (p->k == 0) {
        memset(p->c, 0, (size_t)(p->m * p->n) * p->bytes);
        return HD_OK;
    }
    const int64_t work = work_of(p->m, p->n, p->k);
    if (p->m <= 2 && p->b_row == 1 && p->a_column == 1) {
        hd_parallel_range(p->n, PARALLEL / work_of(p->m, 1, p->k) + 1, multiply_dots, p);
        return HD_OK;
    }
    if (p->b_column == 1 && p->n <= 4 && work <= 1 << 14) {
        multiply_narrow(p);
        return HD_OK;
    }
    if (p->b_column == 1 && p->m <= 4 && p->n % p->kernels->nr == 0) {
        hd_parallel_range(p->n / p->kernels->nr, PARALLEL / work_of(p->m, p->kernels->nr, p->k) + 1, multiply_columns,
                          p);
        return HD_OK;
    }
    if (p->b_column == 1 && (work <= SMALL || p->m <= 4)) {
        multiply_small(p);
        return HD_OK;
    }
    return multiply_packed(thread, p);
}

/* ---- integers and bool: plain loops ------------------------------------------------------------------------------------------ */
#define INTEGER_CASE(NAME, t)                                                                                          \
    case HD_COMPUTE_##NAME:                                                                                            \
        for (int64_t i = 0; i < p->m; ++i) {                                                                           \
            c_##t *c = (c_##t *)p->c + i * p->n;                                                                       \
            memset(c, 0, (size_t)p->n * sizeof *c);                                                                    \
            for (int64_t q = 0; q < p->k; ++q) {                                                                       \
                const c_##t x = ((const c_##t *)p->a)[i * p->a_row + q * p->a_column];                                 \
                const c_##t *b = (const c_##t *)p->b + q * p->b_row;                                                   \
                for (int64_t j = 0; j < p->n; ++j) c[j] = w_add_##t(c[j], w_mul_##t(x, b[j * p->b_column]));           \
            }                                                                                                          \
        }                                                                                                              \
        break;
static void multiply_integers(const product *p, hd_compute type) {
    switch (type) {
        INTEGER_CASE(U8, u8)
        INTEGER_CASE(U16, u16)
        INTEGER_CASE(U32, u32)
        INTEGER_CASE(U64, u64) INTEGER_CASE(I8, i8) INTEGER_CASE(I16, i16) INTEGER_CASE(I32, i32)
            INTEGER_CASE(I64, i64) case HD_COMPUTE_B8 : case HD_COMPUTE_F32 : case HD_COMPUTE_F64
            : case HD_COMPUTE_COUNT : break;
    }
}

/* ---- the call: operands [batch..., m, k] and [batch..., k, n] of one dtype --------------------------------------------------------- */
typedef struct batch_job {
    hd_thread *thread;
    product first;
    hd_compute type;
    int rank; /* batch axes */
    int64_t size[HD_MAX_RANK], a_stride[HD_MAX_RANK], b_stride[HD_MAX_RANK];
} batch_job;

static hd_error multiply_matrix(const batch_job *j, int64_t index) {
    product p = j->first;
    p.c += (size_t)(index * p.m * p.n) * p.bytes;
    for (int i = j->rank - 1; i >= 0; --i) {
        p.a += index % j->size[i] * j->a_stride[i] * (int64_t)p.bytes;
        p.b += index % j->size[i] * j->b_stride[i] * (int64_t)p.bytes;
        index /= j->size[i];
    }
    if (p.kernels != NULL) return multiply(j->thread, &p);
    multiply_integers(&p, j->type);
    return HD_OK;
}

static void run_small_batch(void *context, int64_t begin,
                            int64_t end) { /* small products need no memory: they cannot fail */
    for (int64_t i = begin; i < end; ++i) multiply_matrix(context, i);
}

/* A [..., m, k] B [..., k, n]. */
static hd_error contract(hd_thread *thread, const hd_tensor *a, const hd_tensor *b, hd_tensor *out) {
    const int rank = out->layout.shape.rank, last = rank - 1;
    batch_job j = {.thread = thread, .type = (hd_compute)hd_dtype_compute[out->dtype], .rank = rank - 2};
    hd_shape a_shape = out->layout.shape, b_shape = out->layout.shape; /* with the batch axes broadcast */
    a_shape.size[last] = b_shape.size[last - 1] = a->layout.shape.size[a->layout.shape.rank - 1];
    hd_layout_broadcast(&a->layout, &a_shape, j.a_stride);
    hd_layout_broadcast(&b->layout, &b_shape, j.b_stride);
    memcpy(j.size, out->layout.shape.size, sizeof j.size);
    j.first = (product){.bytes = hd_dtype_bytes[out->dtype],
                        .m = a_shape.size[last - 1],
                        .n = b_shape.size[last],
                        .k = a_shape.size[last],
                        .a = hd_tensor_bytes(thread, a, HD_READ),
                        .b = hd_tensor_bytes(thread, b, HD_READ),
                        .c = out->storage->data,
                        .a_row = j.a_stride[last - 1],
                        .a_column = j.a_stride[last],
                        .b_row = j.b_stride[last - 1],
                        .b_column = j.b_stride[last],
                        .kernels = out->dtype == HD_F32   ? &hd_kernels()->gemm_f32
                                   : out->dtype == HD_F64 ? &hd_kernels()->gemm_f64
                                                          : NULL};
    if (j.first.a == NULL || j.first.b == NULL) return thread->error_code;
    if (j.first.n == 1) j.first.b_column = 1;
    if (j.first.k == 1) j.first.a_column = 1;
    const int64_t matrix = j.first.m * j.first.n, batch = matrix > 0 ? out->count / matrix : 0,
                  work = work_of(j.first.m, j.first.n, j.first.k);
    if (batch > 1 && work <= SMALL && (j.first.b_column == 1 || j.first.kernels == NULL)) {
        hd_parallel_range(batch, PARALLEL / (work > 0 ? work : 1) + 1, run_small_batch, &j);
        return HD_OK;
    }
    for (int64_t i = 0; i < batch; ++i) HD_TRY(multiply_matrix(&j, i));
    return HD_OK;
}

/* x [..., k], weight [n, k] and the result as the matrices that contract() takes; x must be contiguous. */
static hd_tensor as_matrix(const hd_tensor *t, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    return (hd_tensor){
        .storage = t->storage,
        .dtype = t->dtype,
        .count = rows * columns,
        .layout = {.shape = HD_SHAPE(rows, columns), .stride = {row, column}, .offset = t->layout.offset}};
}

static hd_error affine(hd_thread *thread, hd_tensor *x, hd_tensor *weight, const hd_tensor *bias, hd_tensor *out) {
    const int64_t n = weight->layout.shape.size[0], k = weight->layout.shape.size[1], m = out->count / n;
    const hd_tensor a = as_matrix(x, m, k, k, 1),
                    b = as_matrix(weight, k, n, weight->layout.stride[1], weight->layout.stride[0]);
    hd_tensor c = as_matrix(out, m, n, n, 1);
    HD_TRY(contract(thread, &a, &b, &c));
    const void *values = bias == NULL ? NULL : hd_tensor_bytes(thread, bias, HD_READ);
    if (bias == NULL) return HD_OK;
    if (values == NULL) return thread->error_code;
    const hd_gemm_kernels *kernels = out->dtype == HD_F32 ? &hd_kernels()->gemm_f32 : &hd_kernels()->gemm_f64;
    kernels->add_row(out->storage->data, values, m, n);
    return HD_OK;
}

static void exchange_last_axes(hd_layout *layout) {
    const int a = layout->shape.rank - 2, b = layout->shape.rank - 1;
    const int64_t size = layout->shape.size[a], stride = layout->stride[a];
    layout->shape.size[a] = layout->shape.size[b];
    layout->stride[a] = layout->stride[b];
    layout->shape.size[b] = size;
    layout->stride[b] = stride;
}

hd_error hd_cpu_contract(hd_thread *thread, hd_call *call) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0], *in[3] = {NULL}, *ready[4] = {NULL};
    if (out->count == 0) return HD_OK;
    const bool is_affine = call->op->id == HD_OP_affine;
    const hd_dtype as = (hd_dtype)hd_compute_dtype[hd_dtype_compute[out->dtype]];
    hd_error status = HD_OK;
    for (int i = 0; i < call->input_count && status == HD_OK; ++i) {
        in[i] = call->inputs[i]; /* a copy for small floats, the narrower of two dtypes, rows that are not one matrix */
        if ((hd_dtype)in[i]->dtype != as || (is_affine && i != 1 && !in[i]->contiguous))
            in[i] = ready[i] = hd_cpu_ready(thread, in[i], as);
        if (in[i] == NULL) status = thread->error_code;
    }
    const hd_matmul_attributes *turns = is_affine ? NULL : call->attributes;
    hd_tensor turned[2];
    for (int i = 0; turns != NULL && i < 2 && status == HD_OK; ++i)
        if (i == 0 ? turns->turn_a : turns->turn_b) {
            turned[i] = (hd_tensor){
                .storage = in[i]->storage, .dtype = in[i]->dtype, .count = in[i]->count, .layout = in[i]->layout};
            exchange_last_axes(&turned[i].layout);
            in[i] = &turned[i];
        }
    hd_tensor *c = out;
    if (status == HD_OK && (hd_dtype)out->dtype != as) c = ready[3] = hd_tensor_new(thread, as, &out->layout.shape);
    if (c == NULL) status = thread->error_code;
    if (status == HD_OK)
        status = is_affine ? affine(thread, in[0], in[1], in[2], c) : contract(thread, in[0], in[1], c);
    if (status == HD_OK && c != out) status = hd_cpu_copy(thread, out, c);
    for (int i = 0; i < 4; ++i) hd_tensor_drop(thread, ready[i]);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}
