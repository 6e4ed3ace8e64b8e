/* Elementwise calls and copies: kernels over tiles, with strides, broadcasts and dtypes brought in line on the way. */
#include "device/cpu/tile.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 16384,   /* elements below which waking a thread costs more than it gains */
    ROW_MODE = 64,   /* rows at least this long are walked one by one, shorter ones gathered together */
    BLOCK_ROWS = 32, /* of a transposed operand: two cache lines of f32 */
    BLOCK_COLUMNS = 1024,
    BLOCK_PITCH = BLOCK_COLUMNS + 16, /* a power of two would put all rows into the same few places of the cache */
    BLOCKED_FROM = 16384
};

/* out = kernel(in...) over a space; without a kernel: out = in[0], cast. Operand 0 is the output. */
typedef struct job {
    hd_elementwise_kernel kernel;
    _Alignas(8) char numbers[3 * 8]; /* of the compute type */
    hd_space space;
    int inputs;
    hd_operand operand[HD_MAX_OPERANDS];
    hd_compute compute[HD_MAX_OPERANDS]; /* what the kernel takes and gives */
    hd_guard guard;
    bool contiguous[HD_MAX_OPERANDS]; /* walks the space in steps of one element */
    bool constant[HD_MAX_OPERANDS];   /* one element for the whole space */
    int blocked_axis;                 /* the axis along which a transposed operand is contiguous; -1: none */
    _Atomic bool out_of_memory;
    _Atomic int64_t fault; /* the first element that broke the guard; INT64_MAX: none */
} job;

/* ---- the guard: integers that must not be ------------------------------------------------------------------------ */
#define FIRST_BAD(t, bad)                                                                                              \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
        const t v = ((const t *)values)[i];                                                                            \
        if (bad) return i;                                                                                             \
    }                                                                                                                  \
    return -1
static int64_t first_zero(const void *values, int64_t n, size_t bytes) {
    switch (bytes) {
    case 1: FIRST_BAD(uint8_t, v == 0);
    case 2: FIRST_BAD(uint16_t, v == 0);
    case 4: FIRST_BAD(uint32_t, v == 0);
    default: FIRST_BAD(uint64_t, v == 0);
    }
}
static int64_t first_negative(const void *values, int64_t n, hd_compute type) {
    if (type == HD_COMPUTE_I8) { FIRST_BAD(int8_t, v < 0); }
    if (type == HD_COMPUTE_I16) { FIRST_BAD(int16_t, v < 0); }
    if (type == HD_COMPUTE_I32) { FIRST_BAD(int32_t, v < 0); }
    if (type == HD_COMPUTE_I64) { FIRST_BAD(int64_t, v < 0); }
    return -1;
}
#undef FIRST_BAD

static void check_guard(job *j, const void *values, int64_t n, int64_t index) {
    const int64_t bad = j->guard == HD_GUARD_ZERO
                            ? first_zero(values, n, hd_dtype_bytes[hd_compute_dtype[j->compute[2]]])
                            : first_negative(values, n, j->compute[2]);
    if (bad < 0) return;
    int64_t known = atomic_load(&j->fault);
    while (index + bad < known && !atomic_compare_exchange_weak(&j->fault, &known, index + bad)) {}
}

/* ---- one tile ---------------------------------------------------------------------------------------------------- */
typedef struct workspaces {
    hd_tile_workspace operand[HD_MAX_OPERANDS];
    _Alignas(64) char result[HD_TILE * 8];
    const void *constant[HD_MAX_OPERANDS];
} workspaces;

static inline bool direct(const job *j, int k) { /* memory already holds what the kernel wants */
    const hd_dtype d = j->operand[k].dtype;
    return !hd_dtype_is_small_float(d) && hd_dtype_compute[d] == j->compute[k];
}

static void compute_tile(job *j, workspaces *r, const void *const in[3], char *at, int64_t stride, int64_t n,
                         int64_t index) {
    if (j->guard != HD_GUARD_NONE) check_guard(j, in[1], n, index);
    if (j->kernel == NULL) {
        hd_tile_store(at, stride, n, j->operand[0].dtype, j->compute[0], in[0], &r->operand[0]);
    } else if (stride == 1 && direct(j, 0)) {
        j->kernel(at, in, j->numbers, n);
    } else {
        j->kernel(r->result, in, j->numbers, n);
        hd_tile_store(at, stride, n, j->operand[0].dtype, j->compute[0], r->result, &r->operand[0]);
    }
}

static void load_constants(const job *j, workspaces *r) {
    for (int k = 1; k <= j->inputs; ++k)
        r->constant[k] = j->constant[k]
                             ? hd_tile_load(j->operand[k].data, 0, j->space.count < HD_TILE ? j->space.count : HD_TILE,
                                            j->operand[k].dtype, j->compute[k], &r->operand[k])
                             : NULL;
}

/* ---- rows at least ROW_MODE long: tiles within rows -------------------------------------------------------------- */
static void run_rows(job *j, workspaces *r, int64_t begin, int64_t end) {
    const hd_space *space = &j->space;
    const int last = space->rank - 1;
    bool all_direct = j->kernel != NULL && j->guard == HD_GUARD_NONE && direct(j, 0) && j->operand[0].stride[last] == 1;
    for (int k = 1; k <= j->inputs; ++k) all_direct = all_direct && direct(j, k) && j->operand[k].stride[last] == 1;
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(space, begin, coordinate);
    const char *filled[HD_MAX_OPERANDS] = {NULL}; /* the element a stretched row's tile was last filled with */
    const void *fill[HD_MAX_OPERANDS] = {NULL};
    for (int64_t index = begin; index < end;) {
        int64_t run = space->size[last] - coordinate[last];
        if (run > end - index) run = end - index;
        if (!all_direct && run > HD_TILE) run = HD_TILE;
        const void *in[3] = {NULL};
        for (int k = 1; k <= j->inputs; ++k) {
            const hd_operand *o = &j->operand[k];
            const char *at = o->data + hd_operand_offset(o, space, coordinate) * hd_dtype_bytes[o->dtype];
            if (r->constant[k] != NULL) {
                in[k - 1] = r->constant[k];
            } else if (o->stride[last] == 0) {
                if (filled[k] != at)
                    fill[k] = hd_tile_load(at, 0, space->size[last] < HD_TILE ? space->size[last] : HD_TILE, o->dtype,
                                           j->compute[k], &r->operand[k]);
                filled[k] = at;
                in[k - 1] = fill[k];
            } else {
                in[k - 1] =
                    all_direct ? at : hd_tile_load(at, o->stride[last], run, o->dtype, j->compute[k], &r->operand[k]);
            }
        }
        const hd_operand *o = &j->operand[0];
        compute_tile(j, r, in, o->data + hd_operand_offset(o, space, coordinate) * hd_dtype_bytes[o->dtype],
                     o->stride[last], run, index);
        index += run;
        coordinate[last] += run;
        if (coordinate[last] == space->size[last]) {
            coordinate[last] = 0;
            hd_space_next_row(space, coordinate);
        }
    }
}

/* ---- short rows: tiles across rows ------------------------------------------------------------------------------- */
static void store_flat(job *j, workspaces *r, int64_t index, int64_t n, const void *values) {
    const hd_operand *o = &j->operand[0];
    const hd_space *space = &j->space;
    const size_t bytes = hd_dtype_bytes[hd_compute_dtype[j->compute[0]]];
    const int last = space->rank - 1;
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(space, index, coordinate);
    for (int64_t done = 0; done < n;) {
        const int64_t left = space->size[last] - coordinate[last], run = n - done < left ? n - done : left;
        hd_tile_store(o->data + hd_operand_offset(o, space, coordinate) * hd_dtype_bytes[o->dtype], o->stride[last],
                      run, o->dtype, j->compute[0], (const char *)values + (size_t)done * bytes, &r->operand[0]);
        done += run;
        coordinate[last] = 0;
        hd_space_next_row(space, coordinate);
    }
}

static void run_flat(job *j, workspaces *r, int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; index += HD_TILE) {
        const int64_t n = end - index < HD_TILE ? end - index : HD_TILE;
        const void *in[3] = {NULL};
        for (int k = 1; k <= j->inputs; ++k) {
            const hd_operand *o = &j->operand[k];
            if (r->constant[k] != NULL)
                in[k - 1] = r->constant[k];
            else if (j->contiguous[k])
                in[k - 1] = hd_tile_load(o->data + index * hd_dtype_bytes[o->dtype], 1, n, o->dtype, j->compute[k],
                                         &r->operand[k]);
            else
                in[k - 1] = hd_tile_load_flat(o, &j->space, index, n, j->compute[k], &r->operand[k]);
        }
        if (j->contiguous[0]) {
            compute_tile(j, r, in, j->operand[0].data + index * hd_dtype_bytes[j->operand[0].dtype], 1, n, index);
        } else {
            if (j->guard != HD_GUARD_NONE) check_guard(j, in[1], n, index);
            if (j->kernel != NULL) j->kernel(r->result, in, j->numbers, n);
            store_flat(j, r, index, n, j->kernel != NULL ? r->result : in[0]);
        }
    }
}

static void run_range(void *context, int64_t begin, int64_t end) {
    job *j = context;
    workspaces r;
    load_constants(j, &r);
    if (j->space.rank == 1 || j->space.size[j->space.rank - 1] >= ROW_MODE)
        run_rows(j, &r, begin, end);
    else
        run_flat(j, &r, begin, end);
}

/* ---- a transposed operand: blocks of BLOCK_ROWS x BLOCK_COLUMNS ----------------------------------------------------
 * Walking rows would touch a new cache line for every element and come back to it a row later, when it is gone. A block
 * reads each line of the transposed operand once and uses all of it. */
typedef struct block_workspace {
    workspaces r;
    _Alignas(64) char block[HD_MAX_OPERANDS][BLOCK_ROWS * BLOCK_PITCH * 8];
} block_workspace;

#define TRANSPOSE(U)                                                                                                   \
    for (int64_t c = 0; c < columns; ++c) {                                                                            \
        const U *restrict p = (const U *)at + c * stride;                                                              \
        U *restrict o = (U *)out + c;                                                                                  \
        if (rows == BLOCK_ROWS)                                                                                        \
            for (int i = 0; i < BLOCK_ROWS; ++i) o[i * BLOCK_PITCH] = p[i];                                            \
        else                                                                                                           \
            for (int64_t i = 0; i < rows; ++i) o[i * BLOCK_PITCH] = p[i];                                              \
    }                                                                                                                  \
    break
static void transpose_block(char *out, const char *at, int64_t rows, int64_t columns, int64_t stride, size_t bytes) {
    if (bytes == 4 && rows % 8 == 0 && columns % 8 == 0) {
        hd_kernels()->transpose_4(out, BLOCK_PITCH, at, stride, rows, columns);
        return;
    }
    switch (bytes) {
    case 1: TRANSPOSE(uint8_t);
    case 2: TRANSPOSE(uint16_t);
    case 4: TRANSPOSE(uint32_t);
    default: TRANSPOSE(uint64_t);
    }
}
#undef TRANSPOSE

static void run_transposed_block(job *j, block_workspace *workspace, int64_t *coordinate, int64_t rows,
                                 int64_t columns) {
    const hd_space *space = &j->space;
    const int last = space->rank - 1, axis = j->blocked_axis;
    char *at[HD_MAX_OPERANDS];
    bool transposed[HD_MAX_OPERANDS];
    for (int k = 0; k <= j->inputs; ++k) {
        const hd_operand *o = &j->operand[k];
        const size_t bytes = hd_dtype_bytes[o->dtype];
        at[k] = o->data + hd_operand_offset(o, space, coordinate) * (int64_t)bytes;
        transposed[k] = k > 0 && o->stride[axis] == 1 && o->stride[last] != 1 && o->stride[last] != 0;
        if (!transposed[k]) continue;
        transpose_block(workspace->block[k], at[k], rows, columns, o->stride[last], bytes);
    }
    int64_t index = 0;
    for (int i = 0; i < space->rank; ++i) index = index * space->size[i] + coordinate[i];
    int64_t row_step = 1;
    for (int i = axis + 1; i < space->rank; ++i) row_step *= space->size[i];
    bool all_direct = j->kernel != NULL && j->guard == HD_GUARD_NONE && direct(j, 0) && j->operand[0].stride[last] == 1;
    for (int k = 1; k <= j->inputs; ++k)
        all_direct = all_direct && direct(j, k) && (transposed[k] || j->operand[k].stride[last] == 1);
    const int64_t step = all_direct ? columns : HD_TILE;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t c = 0; c < columns; c += step) {
            const int64_t n = columns - c < step ? columns - c : step;
            const void *in[3] = {NULL};
            for (int k = 1; k <= j->inputs; ++k) {
                const hd_operand *o = &j->operand[k];
                const int64_t bytes = hd_dtype_bytes[o->dtype];
                if (workspace->r.constant[k] != NULL)
                    in[k - 1] = workspace->r.constant[k];
                else if (transposed[k])
                    in[k - 1] = hd_tile_load(workspace->block[k] + (row * BLOCK_PITCH + c) * bytes, 1, n, o->dtype,
                                             j->compute[k], &workspace->r.operand[k]);
                else
                    in[k - 1] = hd_tile_load(at[k] + (row * o->stride[axis] + c * o->stride[last]) * bytes,
                                             o->stride[last], n, o->dtype, j->compute[k], &workspace->r.operand[k]);
            }
            const hd_operand *o = &j->operand[0];
            compute_tile(j, &workspace->r, in,
                         at[0] + (row * o->stride[axis] + c * o->stride[last]) * hd_dtype_bytes[o->dtype],
                         o->stride[last], n, index + row * row_step + c);
        }
}

/* Items of work: strips of BLOCK_ROWS along the blocked axis, for every combination of the axes outside both. */
static void run_strips(void *context, int64_t begin, int64_t end) {
    job *j = context;
    const hd_space *space = &j->space;
    const int last = space->rank - 1, axis = j->blocked_axis;
    const int64_t strips = (space->size[axis] + BLOCK_ROWS - 1) / BLOCK_ROWS;
    block_workspace *workspace = aligned_alloc(64, sizeof *workspace); /* too large for the stack of a small thread */
    if (workspace == NULL) {
        atomic_store(&j->out_of_memory, true);
        return;
    }
    load_constants(j, &workspace->r);
    for (int64_t item = begin; item < end; ++item) {
        int64_t coordinate[HD_MAX_RANK], outer = item / strips;
        for (int i = last - 1; i >= 0; --i) {
            if (i == axis) continue;
            coordinate[i] = outer % space->size[i];
            outer /= space->size[i];
        }
        coordinate[axis] = item % strips * BLOCK_ROWS;
        const int64_t rows =
            space->size[axis] - coordinate[axis] < BLOCK_ROWS ? space->size[axis] - coordinate[axis] : BLOCK_ROWS;
        for (int64_t c = 0; c < space->size[last]; c += BLOCK_COLUMNS) {
            coordinate[last] = c;
            run_transposed_block(j, workspace, coordinate, rows,
                                 space->size[last] - c < BLOCK_COLUMNS ? space->size[last] - c : BLOCK_COLUMNS);
        }
    }
    free(workspace);
}

static int find_blocked_axis(const job *j) {
    const int last = j->space.rank - 1;
    if (j->space.rank < 2 || j->space.count < BLOCKED_FROM || j->space.size[last] < 16) return -1;
    for (int k = 1; k <= j->inputs; ++k) {
        if (j->operand[k].stride[last] == 0 || j->operand[k].stride[last] == 1) continue;
        for (int i = 0; i < last; ++i)
            if (j->operand[k].stride[i] == 1 && j->space.size[i] >= BLOCK_ROWS) return i;
    }
    return -1;
}

static hd_error run_job(job *j, const hd_shape *shape) {
    hd_space_collapse(&j->space, shape, j->operand, j->inputs + 1);
    const int last = j->space.rank - 1;
    for (int k = 0; k <= j->inputs; ++k) {
        bool zero = k > 0 && j->space.count > 1;
        for (int i = 0; i <= last; ++i) zero = zero && j->operand[k].stride[i] == 0;
        j->constant[k] = zero;
        j->contiguous[k] = j->space.rank == 1 && j->operand[k].stride[0] == 1;
        if (j->space.rank > 1) { /* contiguous although another operand kept the axes apart */
            int64_t expected = 1;
            j->contiguous[k] = true;
            for (int i = last; i >= 0; --i) {
                j->contiguous[k] = j->contiguous[k] && j->operand[k].stride[i] == expected;
                expected *= j->space.size[i];
            }
        }
    }
    atomic_store_explicit(&j->fault, INT64_MAX, memory_order_relaxed);
    j->blocked_axis = find_blocked_axis(j);
    if (j->blocked_axis >= 0) {
        const int64_t strips = (j->space.size[j->blocked_axis] + BLOCK_ROWS - 1) / BLOCK_ROWS;
        const int64_t items = j->space.count / j->space.size[last] / j->space.size[j->blocked_axis] * strips;
        const int64_t grain = GRAIN / (BLOCK_ROWS * j->space.size[last]);
        hd_parallel_range(items, grain > 0 ? grain : 1, run_strips, j);
    } else {
        hd_parallel_range(j->space.count, GRAIN, run_range, j);
    }
    return j->out_of_memory
               ? hd_fail(HD_ERROR_MEMORY, "no memory to transpose a block of %zu bytes", sizeof(block_workspace))
               : HD_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
/* Operands that lie there as the kernel wants them, or are one element for all (in_bytes 0). */
typedef struct flat_job {
    hd_elementwise_kernel kernel;
    const char *in[3];
    char *out;
    const void *numbers;
    int64_t in_bytes[3], out_bytes;
    bool has_single;
    uint8_t element_bytes[3];
} flat_job;

static void fill_single(char *out, const char *element, size_t bytes, int64_t n) {
    if (bytes == 4) {
        uint32_t v;
        memcpy(&v, element, 4);
        for (int64_t i = 0; i < n; ++i) ((uint32_t *)out)[i] = v;
    } else {
        for (int64_t i = 0; i < n; ++i) memcpy(out + (size_t)i * bytes, element, bytes);
    }
}

static void run_contiguous(void *context, int64_t begin, int64_t end) {
    const flat_job *f = context;
    if (!f->has_single) {
        const void *const in[3] = {f->in[0] + begin * f->in_bytes[0], f->in[1] + begin * f->in_bytes[1],
                                   f->in[2] + begin * f->in_bytes[2]};
        f->kernel(f->out + begin * f->out_bytes, in, f->numbers, end - begin);
        return;
    }
    enum { TILE = 512 };
    _Alignas(64) char filled[3][TILE * 8];
    const int64_t longest = end - begin < TILE ? end - begin : TILE;
    for (int k = 0; k < 3; ++k)
        if (f->in_bytes[k] == 0) fill_single(filled[k], f->in[k], f->element_bytes[k], longest);
    for (int64_t i = begin; i < end; i += TILE) {
        const void *in[3];
        for (int k = 0; k < 3; ++k) in[k] = f->in_bytes[k] == 0 ? filled[k] : f->in[k] + i * f->in_bytes[k];
        f->kernel(f->out + i * f->out_bytes, in, f->numbers, end - i < TILE ? end - i : TILE);
    }
}

static hd_error report_fault(const hd_call *call, int64_t fault, const hd_shape *shape) {
    const bool zero = hd_rows[call->op->id].guard == HD_GUARD_ZERO;
    return hd_fail(zero ? HD_ERROR_DIVISION : HD_ERROR_VALUE,
                   "b is %s at element %lld of the result %s; integers cannot %s", zero ? "0" : "negative",
                   (long long)fault, HD_SHAPE_TEXT(*shape),
                   zero ? "be divided by 0" : "have a negative exponent: use floats");
}

/* Anything goes: strides, broadcasts, dtypes, guards. Apart from the function below, whose frame stays small. */
static __attribute__((noinline)) hd_error run_general(const hd_call *call, hd_elementwise_kernel kernel,
                                                      char *const *data, const void *numbers) {
    const hd_row *row = &hd_rows[call->op->id];
    const hd_compute compute = (hd_compute)hd_dtype_compute[call->compute];
    const hd_tensor *out = call->outputs[0];
    job j = {.kernel = kernel,
             .inputs = call->input_count,
             .guard = compute >= HD_COMPUTE_F32 ? HD_GUARD_NONE : (hd_guard)row->guard};
    memcpy(j.numbers, numbers, sizeof j.numbers);
    hd_operand_over(&j.operand[0], data[0], out, &out->layout.shape);
    j.compute[0] = row->gives_bool ? HD_COMPUTE_B8 : compute;
    for (int k = 0; k < call->input_count; ++k) {
        hd_operand_over(&j.operand[k + 1], data[k + 1], call->inputs[k], &out->layout.shape);
        j.compute[k + 1] = k == 0 && row->chooses ? HD_COMPUTE_B8 : compute;
    }
    HD_TRY(run_job(&j, &out->layout.shape));
    return j.fault == INT64_MAX ? HD_OK : report_fault(call, j.fault, &out->layout.shape);
}

static __attribute__((noinline)) void run_flat_job(const hd_call *call, hd_elementwise_kernel kernel, char *const *data,
                                                   const void *numbers) {
    const hd_tensor *out = call->outputs[0];
    flat_job f = {.kernel = kernel, .out = data[0], .numbers = numbers, .out_bytes = hd_dtype_bytes[out->dtype]};
    for (int k = 0; k < 3; ++k) {
        const int from = k < call->input_count ? k : 0;
        const hd_tensor *x = call->inputs[from];
        const bool single = x->count != out->count && k < call->input_count;
        f.in[k] = data[from + 1];
        f.element_bytes[k] = hd_dtype_bytes[x->dtype];
        f.in_bytes[k] = single ? 0 : f.element_bytes[k];
        f.has_single = f.has_single || single;
    }
    for (int k = call->input_count; k < 3; ++k) { /* operands the kernel does not read */
        f.in[k] = f.in[0];
        f.in_bytes[k] = f.in_bytes[0];
    }
    if (out->count <= GRAIN)
        run_contiguous(&f, 0, out->count);
    else
        hd_parallel_range(out->count, GRAIN, run_contiguous, &f);
}

/* The most common operand: here, in one piece, of the compute type. */
static inline bool plain(const hd_tensor *x, hd_dtype compute, int64_t count) {
    return x->contiguous && x->count == count && x->dtype == compute && x->storage->home == NULL &&
           !hd_dtype_is_small_float(compute);
}
static inline const char *first_byte(const hd_tensor *x) {
    return (const char *)x->storage->data + x->layout.offset * hd_dtype_bytes[x->dtype];
}

hd_error hd_cpu_elementwise(hd_thread *thread, hd_call *call) {
    const hd_op_id id = (hd_op_id)call->op->id;
    const hd_row *row = &hd_rows[id];
    const hd_compute compute = (hd_compute)hd_dtype_compute[call->compute];
    const hd_elementwise_kernel kernel = call->op->derivative == 0
                                             ? hd_kernels()->elementwise[compute][id]
                                             : hd_kernels()->derivative[compute][id][call->op->derivative - 1];
    if (__builtin_expect(kernel == NULL, 0))
        return hd_fail(HD_ERROR_INTERNAL, "no kernel for %s", hd_dtype_name(call->compute));
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0];
    if (out->count == 0) return HD_OK;
    const int last = call->input_count - 1;
    if (out->count <= GRAIN && !row->chooses && row->numbers == 0 && row->guard == HD_GUARD_NONE &&
        plain(call->inputs[0], call->compute, out->count) && plain(call->inputs[last > 1], call->compute, out->count) &&
        plain(call->inputs[last], call->compute, out->count)) {
        const void *const in[3] = {first_byte(call->inputs[0]), first_byte(call->inputs[last > 0]),
                                   first_byte(call->inputs[last])};
        kernel(out->storage->data, in, NULL, out->count);
        return HD_OK;
    }
    char *data[HD_MAX_OPERANDS];
    data[0] = out->storage->data;
    /* simple: every operand lies there as the kernel wants it, or is a single element */
    bool single = false,
         simple = !hd_dtype_is_small_float(call->compute) && (row->guard == HD_GUARD_NONE || compute >= HD_COMPUTE_F32);
    for (int k = 0; k < call->input_count; ++k) {
        const hd_tensor *x = call->inputs[k];
        data[k + 1] = hd_tensor_bytes(thread, x, HD_READ);
        if (__builtin_expect(data[k + 1] == NULL, 0)) {
            hd_cpu_drop_outputs(thread, call);
            return thread->error_code;
        }
        simple = simple && x->contiguous && (x->count == out->count || x->count == 1) &&
                 (x->dtype == call->compute || (k == 0 && row->chooses));
        single = single || x->count != out->count;
    }
    double numbers[3] = {0}; /* of the compute type */
    for (int i = 0; i < row->numbers; ++i) {
        const hd_dtype as = (hd_dtype)hd_compute_dtype[compute];
        hd_element_from_f64((char *)numbers + (size_t)i * hd_dtype_bytes[as], as,
                            ((const double *)call->attributes)[i]);
    }
    hd_error status = HD_OK;
    if (__builtin_expect(!simple, 0)) {
        status = run_general(call, kernel, data, numbers);
        if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    } else if (out->count > GRAIN || single) {
        run_flat_job(call, kernel, data, numbers);
    } else {
        const void *const in[3] = {data[1], data[call->input_count > 1 ? 2 : 1], data[call->input_count]};
        kernel(data[0], in, numbers, out->count);
    }
    return status;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
hd_error hd_cpu_copy(hd_thread *thread, hd_tensor *dst, const hd_tensor *src) {
    const bool whole = dst->contiguous && src->contiguous && dst->count == src->count &&
                       (size_t)dst->count * hd_dtype_bytes[dst->dtype] == dst->storage->bytes;
    char *from = hd_tensor_bytes(thread, src, HD_READ);
    char *to = hd_tensor_bytes(thread, dst, whole ? HD_OVERWRITE : HD_WRITE);
    if (from == NULL || to == NULL) return thread->error_code;
    if (dst->count == 0) return HD_OK;
    const size_t bytes = hd_dtype_bytes[dst->dtype];
    if (dst->dtype == src->dtype && dst->contiguous && src->contiguous && dst->count == src->count &&
        dst->count <= GRAIN) {
        memcpy(to, from, (size_t)dst->count * bytes);
        return HD_OK;
    }
    job j = {.kernel = NULL, .inputs = 1};
    hd_operand_over(&j.operand[0], to, dst, &dst->layout.shape);
    hd_operand_over(&j.operand[1], from, src, &dst->layout.shape);
    if (dst->dtype == src->dtype) { /* the same bits: no need to know what they mean */
        static const hd_dtype as_bits[9] = {[1] = HD_U8, [2] = HD_U16, [4] = HD_U32, [8] = HD_U64};
        j.operand[0].dtype = j.operand[1].dtype = as_bits[bytes];
    }
    j.compute[0] = j.compute[1] = (hd_compute)hd_dtype_compute[j.operand[1].dtype]; /* the store converts */
    return run_job(&j, &dst->layout.shape);
}

hd_tensor *hd_cpu_ready(hd_thread *thread, hd_tensor *x, hd_dtype dtype) {
    if (x->contiguous && x->dtype == dtype) {
        hd_object_retain(&x->object);
        return x;
    }
    hd_tensor *copy = hd_tensor_new(thread, dtype, &x->layout.shape);
    if (copy != NULL && hd_cpu_copy(thread, copy, x) != HD_OK) {
        hd_tensor_drop(thread, copy);
        return NULL;
    }
    return copy;
}
