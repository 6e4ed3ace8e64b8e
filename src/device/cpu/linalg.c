/* Linear algebra by LAPACK. Matrices lie row after row here and column after column there: what LAPACK is given is the
 * transpose, unless a copy is turned. Of the transpose, which costs nothing, it finds LQ for QR, U and V^T in each
 * other's place, and the same determinant, inverse (transposed) and triangles (the other ones).
 *
 * A matrix with an infinity or a NaN gives NaN: LAPACK is not shown it, as some of its searches would not end or go
 * astray. Matrices of a batch are shared by the pool while each is small; LAPACK itself shares a large one. */
#include "core/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/lapack.h"
#include "ops/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SMALL = 1 << 18, SHARED = 1 << 15 }; /* operations: of one matrix, and of what is worth a thread */

/* A call: m rows, n columns, k the smaller of both, of each matrix of the first operand. */
typedef struct task {
    hd_thread *thread;
    hd_call *call;
    const hd_lapack *l;
    hd_dtype dtype;
    size_t bytes; /* of an element */
    int32_t m, n, k, columns;
    int64_t count;       /* matrices */
    char *in, *out, *by; /* matrix after matrix; by: what else LAPACK reads or fills */
    int64_t *indices;
    double cutoff;
    char side, triangle, turn, diagonal; /* as LAPACK is told */
    hd_tensor *copies[3];
    size_t work, ints; /* how many elements and integers each thread has for itself */
    int32_t work_size, ints_size;
} task;

/* What LAPACK works in, for one thread. */
typedef struct space {
    char *work;
    int32_t *ints;
} space;

/* ---- elements ---------------------------------------------------------------------------------------------------- */
static char *at(const task *t, char *base, int64_t element) { return base + element * (int64_t)t->bytes; }

static void set(const task *t, char *base, int64_t element, double value) {
    if (t->bytes == 8)
        ((double *)base)[element] = value;
    else
        ((float *)base)[element] = (float)value;
}
static double get(const task *t, const char *base, int64_t element) {
    return t->bytes == 8 ? ((const double *)base)[element] : ((const float *)base)[element];
}

static void fill(const task *t, char *base, int64_t count, double value) {
    for (int64_t i = 0; i < count; ++i) set(t, base, i, value);
}

static bool are_finite(const task *t, const char *base, int64_t count) {
    const uint64_t exponent8 = (uint64_t)0x7FF << 52;
    const uint32_t exponent4 = (uint32_t)0xFF << 23;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count && t->bytes == 8; ++i) bad |= (((const uint64_t *)base)[i] & exponent8) == exponent8;
    for (int64_t i = 0; i < count && t->bytes == 4; ++i) bad |= (((const uint32_t *)base)[i] & exponent4) == exponent4;
    return bad == 0;
}

/* Of a square matrix one triangle. */
static bool is_triangle_finite(const task *t, const char *base, bool upper) {
    bool finite = true;
    for (int64_t i = 0; i < t->n && finite; ++i)
        finite = are_finite(t, base + (i * t->n + (upper ? i : 0)) * (int64_t)t->bytes, upper ? t->n - i : i + 1);
    return finite;
}

/* Zeros beside a triangle of `rows` rows. */
static void clear_beside(const task *t, char *base, int64_t rows, bool upper) {
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t first = upper ? 0 : i + 1, end = upper ? (i < t->n ? i : t->n) : t->n;
        if (first < end) memset(at(t, base, i * t->n + first), 0, (size_t)(end - first) * t->bytes);
    }
}

static void turn_in_place(const task *t, char *base) {
    enum { TILE = 16 };
    for (int64_t i0 = 0; i0 < t->n; i0 += TILE)
        for (int64_t j0 = i0; j0 < t->n; j0 += TILE)
            for (int64_t i = i0; i < i0 + TILE && i < t->n; ++i)
                for (int64_t j = j0 > i ? j0 : i + 1; j < j0 + TILE && j < t->n; ++j) {
                    const double x = get(t, base, i * t->n + j);
                    set(t, base, i * t->n + j, get(t, base, j * t->n + i));
                    set(t, base, j * t->n + i, x);
                }
}

/* ---- a call from its beginning to its end ------------------------------------------------------------------------ */
static char *bytes_of(const hd_tensor *t) { return t->storage->data; }

/* LAPACK is there, and so are the outputs. */
static hd_error begin(hd_thread *thread, hd_call *call, task *t) {
    const hd_shape *s = &call->inputs[0]->layout.shape;
    *t = (task){.thread = thread, .call = call, .dtype = call->dtype[0], .bytes = hd_dtype_bytes[call->dtype[0]]};
    t->m = (int32_t)s->size[s->rank - 2];
    t->n = (int32_t)s->size[s->rank - 1];
    t->k = t->m < t->n ? t->m : t->n;
    t->count = 1;
    for (int i = 0; i < s->rank - 2; ++i) t->count *= s->size[i];
    t->l = hd_lapack_open(thread, t->dtype);
    if (t->l == NULL) return thread->error_code;
    HD_TRY(hd_cpu_outputs(thread, call));
    t->out = bytes_of(call->outputs[0]);
    return HD_OK;
}

static hd_error end(task *t, hd_error status) {
    for (int i = 0; i < 3; ++i) hd_tensor_drop(t->thread, t->copies[i]);
    if (status != HD_OK) hd_cpu_drop_outputs(t->thread, t->call);
    return status;
}

/* The same elements, row and column exchanged. */
static hd_layout turned(const hd_tensor *x) {
    hd_layout layout = x->layout;
    const int r = layout.shape.rank;
    layout.shape.size[r - 2] = x->layout.shape.size[r - 1];
    layout.shape.size[r - 1] = x->layout.shape.size[r - 2];
    layout.stride[r - 2] = x->layout.stride[r - 1];
    layout.stride[r - 1] = x->layout.stride[r - 2];
    return layout;
}

static hd_error copy_turned(hd_thread *thread, hd_tensor *to, hd_tensor *from) {
    const hd_layout layout = turned(from);
    hd_tensor *view = hd_tensor_over(thread, from->storage, (hd_dtype)from->dtype, &layout);
    if (view == NULL) return thread->error_code;
    const hd_error status = hd_cpu_copy(thread, to, view);
    hd_tensor_drop(thread, view);
    return status;
}

/* A copy for LAPACK to write into, matrix after matrix, turned or not. */
static hd_error copy(task *t, int which, hd_tensor *x, bool turn) {
    hd_layout layout = turn ? turned(x) : x->layout;
    hd_tensor *made = t->copies[which] = hd_tensor_new(t->thread, t->dtype, &layout.shape);
    if (made == NULL) return t->thread->error_code;
    return turn ? copy_turned(t->thread, made, x) : hd_cpu_copy(t->thread, made, x);
}

/* Contiguous memory to read. */
static hd_error ready(task *t, int which, hd_tensor *x, char **out) {
    t->copies[which] = hd_cpu_ready(t->thread, x, t->dtype);
    *out = t->copies[which] == NULL ? NULL : hd_tensor_bytes(t->thread, t->copies[which], HD_READ);
    return t->thread->error_code;
}

/* Fills or solves matrix i; LAPACK's info, above 0 when it found that it cannot. */
typedef int32_t each_function(const task *t, int64_t i, const space *s);
typedef struct failure {
    int64_t matrix;
    int32_t info;
} failure;
typedef struct batch {
    const task *t;
    each_function *each;
    char *work;
    int32_t *ints;
    int64_t pieces;
    failure failures[HD_POOL_MOST];
} batch;

static void run_piece(void *context, int64_t piece) {
    batch *b = context;
    const task *t = b->t;
    const space s = {b->work + piece * (int64_t)(t->work * t->bytes), b->ints + piece * (int64_t)t->ints};
    b->failures[piece] = (failure){-1, 0};
    for (int64_t i = t->count * piece / b->pieces; i < t->count * (piece + 1) / b->pieces; ++i) {
        const int32_t info = b->each(t, i, &s);
        if (info == 0) continue;
        b->failures[piece] = (failure){i, info};
        return;
    }
}

/* Which of several matrices it is, in words. */
static const char *name_matrix(const task *t, int64_t i, const char *operand, char *text, size_t capacity) {
    const hd_shape *s = &t->call->inputs[0]->layout.shape;
    hd_shape place = {.rank = s->rank - 2};
    for (int axis = place.rank - 1; axis >= 0; --axis) {
        place.size[axis] = i % s->size[axis];
        i /= s->size[axis];
    }
    if (place.rank == 0)
        snprintf(text, capacity, "%s %s", operand, HD_SHAPE_TEXT(*s));
    else
        snprintf(text, capacity, "matrix %s of %s %s", HD_SHAPE_TEXT(place), operand, HD_SHAPE_TEXT(*s));
    return text;
}

static hd_error complain(const task *t, const failure *f) {
    char text[300];
    const int info = (int)f->info;
    switch (t->call->op->id) {
    case HD_OP_cholesky:
        name_matrix(t, f->matrix, "x", text, sizeof text);
        return hd_fail(HD_ERROR_VALUE, "%s is not positive definite: its first %d rows and columns are not", text,
                       info);
    case HD_OP_triangular_solve:
        name_matrix(t, f->matrix, "a", text, sizeof text);
        return hd_fail(HD_ERROR_VALUE, "%s is singular: its diagonal has a 0 at %d; hd_pinv takes such matrices", text,
                       info - 1);
    case HD_OP_solve:
    case HD_OP_inv:
        name_matrix(t, f->matrix, t->call->op->id == HD_OP_solve ? "a" : "x", text, sizeof text);
        return hd_fail(HD_ERROR_VALUE, "%s is singular; hd_lstsq and hd_pinv take such matrices", text);
    default:
        name_matrix(t, f->matrix, "x", text, sizeof text);
        return hd_fail(HD_ERROR_VALUE, "LAPACK's iteration for %s does not converge (info %d)", text, info);
    }
}

/* Runs it for all matrices, and gives up what was made for them. The first one that failed is the error. */
static hd_error for_each(task *t, each_function *each) {
    batch b = {.t = t, .each = each, .pieces = 1};
    const double cost = (double)t->m * t->n * (t->k + t->columns);
    if (t->count > 1 && cost < SMALL) {
        const double worth = cost * (double)t->count / SHARED + 1, threads = hd_pool_threads();
        b.pieces = (int64_t)(worth < threads ? worth : threads);
        if (b.pieces > t->count) b.pieces = t->count;
    }
    const size_t work = (t->work * t->bytes * (size_t)b.pieces + 63) / 64 * 64;
    hd_block *block = hd_block_new(t->thread, work + t->ints * sizeof(int32_t) * (size_t)b.pieces + 64);
    if (block == NULL) return t->thread->error_code;
    b.work = hd_block_data(block);
    b.ints = (int32_t *)(b.work + work);
    if (t->count > 0) hd_parallel(b.pieces, run_piece, &b);
    hd_block_release(t->thread, block);
    for (int64_t i = 0; i < b.pieces && t->count > 0; ++i)
        if (b.failures[i].matrix >= 0) return complain(t, &b.failures[i]);
    return HD_OK;
}

/* LAPACK says how much it wants in the first element of what it is to work in, which an f32 may round down. */
static int32_t wanted(const task *t, const void *answer) {
    const double told = t->bytes == 8 ? *(const double *)answer : *(const float *)answer * (1 + 0x1p-22);
    return (int32_t)ceil(told < INT32_MAX ? told : INT32_MAX);
}
static const int32_t ask = -1;

/* LAPACK counts what it works in, in 32 bits, too: about so many elements. */
static hd_error check_work(const task *t, double elements) {
    if (elements < INT32_MAX) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "x is %s; LAPACK counts what it works in, in 32 bits, and would need %.3g elements",
                   HD_SHAPE_TEXT(t->call->inputs[0]->layout.shape), elements);
}
static int32_t at_least_1(int32_t n) { return n > 1 ? n : 1; }

/* ---- triangles --------------------------------------------------------------------------------------------------- */
static int32_t cholesky_of(const task *t, int64_t i, const space *s) {
    (void)s;
    char *a = at(t, t->out, i * t->n * t->n);
    const bool upper = t->triangle == 'L';
    int32_t info = 0;
    if (is_triangle_finite(t, a, upper))
        t->l->potrf(&t->triangle, &t->n, a, &t->n, &info, 1);
    else
        fill(t, a, (int64_t)t->n * t->n, NAN);
    clear_beside(t, a, t->n, upper);
    return info;
}

hd_error hd_cpu_cholesky(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    t.triangle = ((const hd_cholesky_attributes *)call->attributes)->upper != 0 ? 'L' : 'U';
    hd_error status = hd_cpu_copy(thread, call->outputs[0], call->inputs[0]);
    if (status == HD_OK && t.n > 0) status = for_each(&t, cholesky_of);
    return end(&t, status);
}

static int32_t solve_triangle_of(const task *t, int64_t i, const space *s) {
    (void)s;
    const char *a = at(t, t->in, i * t->n * t->n);
    char *b = at(t, t->out, i * t->columns * t->m);
    for (int32_t j = 0; j < t->n && t->diagonal == 'N'; ++j)
        if (get(t, a, (int64_t)j * t->n + j) == 0) return j + 1;
    const double one8 = 1;
    const float one4 = 1;
    t->l->trsm(&t->side, &t->triangle, &t->turn, &t->diagonal, &t->columns, &t->m,
               t->bytes == 8 ? (const void *)&one8 : &one4, a, &t->n, b, &t->columns, 1, 1, 1, 1);
    return 0;
}

/* A X = B is X^T A^T = B^T: what stands left here stands right there. m and columns are those of B from here on. */
hd_error hd_cpu_triangular_solve(hd_thread *thread, hd_call *call) {
    const hd_triangular_attributes *a = call->attributes;
    task t;
    HD_TRY(begin(thread, call, &t));
    const hd_shape *shape = &call->inputs[1]->layout.shape;
    t.m = (int32_t)shape->size[shape->rank - 2];
    t.columns = (int32_t)shape->size[shape->rank - 1];
    t.side = a->right ? 'L' : 'R';
    t.triangle = a->upper ? 'L' : 'U';
    t.turn = a->transpose ? 'T' : 'N';
    t.diagonal = a->unit ? 'U' : 'N';
    hd_error status = hd_cpu_copy(thread, call->outputs[0], call->inputs[1]);
    if (status == HD_OK) status = ready(&t, 0, call->inputs[0], &t.in);
    if (status == HD_OK && t.n > 0 && call->outputs[0]->count > 0) status = for_each(&t, solve_triangle_of);
    return end(&t, status);
}

/* ---- LU ---------------------------------------------------------------------------------------------------------- */
static int32_t solve_of(const task *t, int64_t i, const space *s) {
    char *a = at(t, t->in, i * t->n * t->n), *b = at(t, t->by, i * t->columns * t->n);
    int32_t info = 0;
    if (!are_finite(t, a, (int64_t)t->n * t->n)) {
        fill(t, b, (int64_t)t->columns * t->n, NAN);
        return 0;
    }
    t->l->getrf(&t->n, &t->n, a, &t->n, s->ints, &info);
    if (info == 0) t->l->getrs("T", &t->n, &t->columns, a, &t->n, s->ints, b, &t->n, &info, 1);
    return info;
}

/* One column is the same row after row and column after column. */
hd_error hd_cpu_solve(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    const hd_shape *shape = &call->inputs[1]->layout.shape;
    t.columns = (int32_t)shape->size[shape->rank - 1];
    t.ints = (size_t)t.n;
    const bool turns = t.columns > 1;
    hd_tensor *y = call->outputs[0];
    hd_error status = copy(&t, 0, call->inputs[0], false);
    if (status == HD_OK) status = turns ? copy(&t, 1, call->inputs[1], true) : hd_cpu_copy(thread, y, call->inputs[1]);
    if (status == HD_OK && t.n > 0) {
        t.in = bytes_of(t.copies[0]);
        t.by = turns ? bytes_of(t.copies[1]) : t.out;
        status = for_each(&t, solve_of);
    }
    if (status == HD_OK && turns) status = copy_turned(thread, y, t.copies[1]);
    return end(&t, status);
}

static int32_t invert(const task *t, int64_t i, const space *s) {
    char *a = at(t, t->out, i * t->n * t->n);
    int32_t info = 0;
    if (!are_finite(t, a, (int64_t)t->n * t->n)) {
        fill(t, a, (int64_t)t->n * t->n, NAN);
        return 0;
    }
    t->l->getrf(&t->n, &t->n, a, &t->n, s->ints, &info);
    if (info == 0) t->l->getri(&t->n, a, &t->n, s->ints, s->work, &t->work_size, &info);
    return info;
}

hd_error hd_cpu_inv(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    double answer = 0;
    int32_t info, pivot = 0;
    hd_error status = hd_cpu_copy(thread, call->outputs[0], call->inputs[0]);
    if (status == HD_OK && t.n > 0) {
        t.l->getri(&t.n, t.out, &t.n, &pivot, &answer, &ask, &info);
        t.work_size = wanted(&t, &answer);
        t.work = (size_t)t.work_size;
        t.ints = (size_t)t.n;
        status = for_each(&t, invert);
    }
    return end(&t, status);
}

/* Exchanges counted from 0, and the order of rows that they make. */
static void say_rows(const task *t, int64_t *out, const int32_t *pivots) {
    int64_t *order = out + t->k;
    for (int64_t j = 0; j < t->m; ++j) order[j] = j;
    for (int64_t j = 0; j < t->k; ++j) {
        out[j] = pivots == NULL ? j : pivots[j] - 1;
        const int64_t row = order[j];
        order[j] = order[out[j]];
        order[out[j]] = row;
    }
}

/* A 0 on the diagonal of U is no failure here. */
static int32_t lu_of(const task *t, int64_t i, const space *s) {
    const int64_t size = (int64_t)t->m * t->n;
    char *a = at(t, t->in, i * size);
    int32_t info = 0;
    const bool finite = are_finite(t, a, size);
    if (finite)
        t->l->getrf(&t->m, &t->n, a, &t->m, s->ints, &info);
    else
        fill(t, a, size, NAN);
    if (t->indices != NULL) say_rows(t, t->indices + i * (t->k + t->m), finite ? s->ints : NULL);
    return 0;
}

hd_error hd_cpu_lu_factor(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    t.ints = (size_t)t.k;
    if (call->outputs[1] != NULL) t.indices = (int64_t *)(void *)bytes_of(call->outputs[1]);
    hd_error status = copy(&t, 0, call->inputs[0], true);
    if (status == HD_OK) t.in = bytes_of(t.copies[0]);
    if (status == HD_OK && t.k > 0) status = for_each(&t, lu_of);
    for (int64_t i = 0; status == HD_OK && t.k == 0 && t.indices != NULL && i < t.count; ++i)
        say_rows(&t, t.indices + i * t.m, NULL);
    if (status == HD_OK) status = copy_turned(thread, call->outputs[0], t.copies[0]);
    return end(&t, status);
}

/* ---- QR ---------------------------------------------------------------------------------------------------------- */
/* x^T = L Q' gives x = Q'^T L^T, and both lie here as they are wanted. */
static int32_t qr_of(const task *t, int64_t i, const space *s) {
    const int64_t m = t->m, n = t->n, k = t->k;
    char *a = at(t, t->in, i * m * n), *q = at(t, t->out, i * m * k), *r = t->by;
    char *tau = s->work, *work = at(t, s->work, k);
    int32_t info = 0;
    if (r != NULL) r = at(t, r, i * k * n);
    if (!are_finite(t, a, m * n)) {
        fill(t, q, m * k, NAN);
        if (r != NULL) fill(t, r, k * n, NAN);
        return 0;
    }
    t->l->gelqf(&t->n, &t->m, a, &t->n, tau, work, &t->work_size, &info);
    if (r != NULL) {
        memcpy(r, a, (size_t)(k * n) * t->bytes);
        clear_beside(t, r, k, true);
    }
    if (info == 0) t->l->orglq(&t->k, &t->m, &t->k, a, &t->n, tau, work, &t->work_size, &info);
    for (int64_t row = 0; row < m; ++row) memcpy(at(t, q, row * k), at(t, a, row * n), (size_t)k * t->bytes);
    return info;
}

hd_error hd_cpu_qr(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    if (call->outputs[1] != NULL) t.by = bytes_of(call->outputs[1]);
    hd_error status = t.k == 0 ? HD_OK : copy(&t, 0, call->inputs[0], false);
    if (status == HD_OK && t.k > 0) {
        double first = 0, second = 0;
        int32_t info;
        t.in = bytes_of(t.copies[0]);
        t.l->gelqf(&t.n, &t.m, t.in, &t.n, &first, &first, &ask, &info);
        t.l->orglq(&t.k, &t.m, &t.k, t.in, &t.n, &second, &second, &ask, &info);
        t.work_size = wanted(&t, &first) > wanted(&t, &second) ? wanted(&t, &first) : wanted(&t, &second);
        t.work = (size_t)t.k + (size_t)t.work_size;
        status = for_each(&t, qr_of);
    }
    return end(&t, status);
}

/* ---- eigenvalues ------------------------------------------------------------------------------------------------- */
/* turn: 'V' also vectors, which replace the matrix; 'N' values alone. */
static int32_t eigen_of(const task *t, int64_t i, const space *s) {
    char *a = at(t, t->in, i * t->n * t->n), *w = at(t, t->out, i * t->n);
    int32_t info = 0;
    if (!is_triangle_finite(t, a, false)) {
        fill(t, a, (int64_t)t->n * t->n, NAN);
        fill(t, w, t->n, NAN);
        return 0;
    }
    t->l->syevd(&t->turn, "U", &t->n, a, &t->n, w, s->work, &t->work_size, s->ints, &t->ints_size, &info, 1, 1);
    if (t->turn == 'V') turn_in_place(t, a);
    return info;
}

static hd_error eigen(hd_thread *thread, hd_call *call, char vectors) {
    task t;
    HD_TRY(begin(thread, call, &t));
    t.turn = vectors;
    hd_error status = check_work(&t, 1 + 6.0 * t.n + 2.0 * t.n * t.n);
    hd_tensor *v = call->output_count > 1 ? call->outputs[1] : NULL;
    if (status == HD_OK)
        status = v != NULL ? hd_cpu_copy(thread, v, call->inputs[0]) : copy(&t, 0, call->inputs[0], false);
    if (status == HD_OK && t.n > 0) {
        double answer = 0;
        int32_t info, count = 0;
        t.in = bytes_of(v != NULL ? v : t.copies[0]);
        t.l->syevd(&t.turn, "U", &t.n, t.in, &t.n, t.out, &answer, &ask, &count, &ask, &info, 1, 1);
        t.work_size = wanted(&t, &answer);
        t.work = (size_t)t.work_size;
        t.ints_size = count;
        t.ints = (size_t)count;
        status = for_each(&t, eigen_of);
    }
    return end(&t, status);
}

hd_error hd_cpu_eigh(hd_thread *thread, hd_call *call) { return eigen(thread, call, 'V'); }
hd_error hd_cpu_eigvalsh(hd_thread *thread, hd_call *call) { return eigen(thread, call, 'N'); }

/* ---- singular values --------------------------------------------------------------------------------------------- */
/* Of x^T, U is V and V^T is U^T: column after column they are V^T and U row after row. */
static int32_t decompose(const task *t, int64_t i, const space *s, char *values, char *u, char *vh) {
    const int32_t ldvt = at_least_1(t->k);
    char *a = at(t, t->in, i * t->m * t->n);
    int32_t info = 0;
    if (!are_finite(t, a, (int64_t)t->m * t->n)) {
        fill(t, values, t->k, NAN);
        if (u != NULL) fill(t, u, (int64_t)t->m * t->k, NAN);
        if (vh != NULL) fill(t, vh, (int64_t)t->k * t->n, NAN);
        return 0;
    }
    t->l->gesdd(&t->turn, &t->n, &t->m, a, &t->n, values, vh, &t->n, u, &ldvt, s->work, &t->work_size, s->ints, &info,
                1);
    return info;
}

/* `extra`: what else each thread wants, in elements, behind what LAPACK works in. */
static hd_error prepare_svd(task *t, char vectors, int64_t extra) {
    double answer = 0, nothing = 0;
    int32_t info;
    t->turn = vectors;
    const double k = t->k, most = t->m > t->n ? t->m : t->n;
    HD_TRY(check_work(t, 4 * k * k + 7 * k + 64 * (k + most)));
    HD_TRY(copy(t, 0, t->call->inputs[0], false));
    t->in = bytes_of(t->copies[0]);
    t->l->gesdd(&t->turn, &t->n, &t->m, t->in, &t->n, &nothing, &nothing, &t->n, &nothing, &t->k, &answer, &ask, &info,
                &info, 1);
    t->work_size = wanted(t, &answer);
    t->work = (size_t)t->work_size + (size_t)extra;
    t->ints = 8 * (size_t)t->k;
    return HD_OK;
}

static int32_t svd_of(const task *t, int64_t i, const space *s) {
    char *u = t->by == NULL ? at(t, s->work, t->work_size) : at(t, t->by, i * t->k * (t->m + t->n));
    return decompose(t, i, s, at(t, t->out, i * t->k), u, at(t, u, (int64_t)t->m * t->k));
}

/* Vectors that nobody wants are found all the same: so values do not depend on who asks. */
hd_error hd_cpu_svd_packed(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    if (call->outputs[1] != NULL) t.by = bytes_of(call->outputs[1]);
    hd_error status = HD_OK;
    if (t.k > 0) {
        status = prepare_svd(&t, 'S', call->outputs[1] != NULL ? 0 : (int64_t)t.k * (t.m + t.n));
        if (status == HD_OK) status = for_each(&t, svd_of);
    }
    return end(&t, status);
}

static int32_t svdvals_of(const task *t, int64_t i, const space *s) {
    return decompose(t, i, s, at(t, t->out, i * t->k), NULL, NULL);
}

hd_error hd_cpu_svdvals(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    hd_error status = HD_OK;
    if (t.k > 0) {
        status = prepare_svd(&t, 'N', 0);
        if (status == HD_OK) status = for_each(&t, svdvals_of);
    }
    return end(&t, status);
}

/* V diag(1 / s) U^T, which is, column after column, the transposes of U and of V^T multiplied. */
static int32_t pinv_of(const task *t, int64_t i, const space *s) {
    const int64_t m = t->m, n = t->n, k = t->k;
    char *values = at(t, s->work, t->work_size), *u = at(t, values, k), *vh = at(t, u, m * k),
         *y = at(t, t->out, i * n * m);
    const int32_t info = decompose(t, i, s, values, u, vh);
    if (info != 0) return info;
    const double least = t->cutoff * get(t, values, 0);
    for (int64_t j = 0; j < k; ++j) {
        const double value = get(t, values, j);
        set(t, values, j, value <= least ? 0 : 1 / value);
    }
    for (int64_t row = 0; row < m; ++row)
        for (int64_t j = 0; j < k; ++j) set(t, u, row * k + j, get(t, u, row * k + j) * get(t, values, j));
    const double one8 = 1, zero8 = 0;
    const float one4 = 1, zero4 = 0;
    const void *one = t->bytes == 8 ? (const void *)&one8 : &one4,
               *zero = t->bytes == 8 ? (const void *)&zero8 : &zero4;
    t->l->gemm("T", "T", &t->m, &t->n, &t->k, one, u, &t->k, vh, &t->n, zero, y, &t->m, 1, 1);
    return 0;
}

hd_error hd_cpu_pinv(hd_thread *thread, hd_call *call) {
    task t;
    HD_TRY(begin(thread, call, &t));
    t.cutoff = ((const hd_pinv_attributes *)call->attributes)->cutoff;
    hd_error status = HD_OK;
    if (t.k > 0) {
        status = prepare_svd(&t, 'S', (int64_t)t.k * (1 + t.m + t.n));
        if (status == HD_OK) status = for_each(&t, pinv_of);
    }
    return end(&t, status);
}
