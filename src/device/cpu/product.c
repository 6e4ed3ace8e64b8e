/* Products for compiled scripts: which file does them, and the way to finish them that needs no compiled kernel. */
#include "device/cpu/product.h"
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"

#include <string.h>

static bool is_conv(const hd_call *call) { return hd_lower_is_convolution(call->op->lower); }

const char *hd_cpu_product_apart(const hd_op *op, const void *attributes) {
    const hd_conv_attributes *a = attributes;
    for (int i = 0; op->lower == HD_LOWER_CONV_TRANSPOSE && i < a->stride.rank; ++i)
        if (a->stride.size[i] > 1) return "neighbouring pixels of a transposed convolution that strides are made apart";
    return NULL;
}

hd_error hd_cpu_product(hd_thread *thread, const hd_product *p) {
    return is_conv(p->call) ? hd_conv_product(thread, p) : hd_contract_product(thread, p);
}
size_t hd_cpu_product_workspace(const hd_product *p) {
    return is_conv(p->call) ? hd_conv_product_workspace(p) : hd_contract_product_workspace(p);
}
int64_t hd_cpu_product_pieces(const hd_product *p) {
    if (p->call->outputs[0]->count == 0) return 1;
    return is_conv(p->call) ? hd_conv_product_pieces(p) : hd_contract_product_pieces(p);
}
bool hd_cpu_product_configs_differ(const hd_product *p, hd_product_config other) {
    if (p->call->outputs[0]->count == 0) return false;
    return is_conv(p->call) ? hd_conv_product_configs_differ(p, other) : hd_contract_product_configs_differ(p, other);
}
size_t hd_cpu_product_packed_bytes(const hd_call *call, hd_product_config config) {
    return is_conv(call) ? hd_conv_product_packed_bytes(call, config) : hd_contract_product_packed_bytes(call, config);
}
hd_error hd_cpu_product_pack(hd_thread *thread, const hd_call *call, hd_product_config config, void *out) {
    return is_conv(call) ? hd_conv_product_pack(thread, call, config, out)
                         : hd_contract_product_pack(thread, call, config, out);
}

bool hd_cpu_product_packs_alike(const hd_call *call, hd_product_config config, const hd_call *other,
                                hd_product_config other_config) {
    if (is_conv(call) != is_conv(other)) return false;
    return is_conv(call) ? hd_conv_product_packs_alike(call, config, other, other_config)
                         : hd_contract_product_packs_alike(call, config, other, other_config);
}

bool hd_cpu_product_packs_in_place(const hd_call *call, hd_product_config config, hd_packed_matrix *out) {
    return !is_conv(call) && hd_contract_product_packs_in_place(call, config, out);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
hd_dtype hd_cpu_product_dtype(hd_dtype result) {
    if (hd_dtype_is_float(result)) return (hd_dtype)hd_compute_dtype[hd_dtype_compute[result]];
    return hd_dtype_bytes[result] < 4 ? HD_I32
                                      : result; /* the lower bits of a sum of products are those of a wider one */
}

const hd_gemm_kernels *hd_gemm_kernels_for(hd_dtype result) {
    const hd_cpu_kernels *k = hd_kernels();
    const hd_dtype tile = hd_cpu_product_dtype(result);
    return tile == HD_F32              ? &k->gemm_f32
           : tile == HD_F64            ? &k->gemm_f64
           : hd_dtype_bytes[tile] == 4 ? &k->gemm_u32
                                       : &k->gemm_u64;
}

bool hd_cpu_product_reads(hd_dtype result, hd_dtype operand) {
    return hd_gemm_kernels_for(result)->from[operand].bytes > 0;
}

int hd_cpu_product_columns(hd_dtype tile) { return hd_gemm_kernels_for(tile)->nr; }

/* ---- the plain way to finish ------------------------------------------------------------------------------------- */
hd_plain_epilogue hd_cpu_product_plain(const hd_op *op, const hd_shape *result, hd_dtype dtype) {
    hd_plain_epilogue f = {.dtype = dtype, .bias_dtype = dtype, .columns = result->size[result->rank - 1]};
    if (!hd_lower_is_convolution(op->lower)) return f;
    f.channels = result->size[1];
    for (int i = 2; i + 1 < result->rank; ++i) f.columns *= result->size[i];
    return f;
}

enum { PART = 256 }; /* elements that are converted together, on the stack of a small thread */

/* to <- the tile with its bias, which is converted first when it is of another dtype. */
static void add_bias(const hd_plain_epilogue *f, char *to, int64_t to_row, const char *from, int64_t from_row,
                     int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const hd_dtype tile = hd_cpu_product_dtype(f->dtype);
    const hd_gemm_kernels *kernels = hd_gemm_kernels_for(f->dtype);
    const hd_gemm_source *source = &kernels->from[f->bias_dtype];
    const size_t bytes = hd_dtype_bytes[tile];
    const char *bias = f->bias;
    char part[PART * 8];
    for (int64_t i = 0; f->channels > 0 && i < rows; ++i) {
        source->read(part, bias + (size_t)((row + i) % f->channels) * source->bytes, 1, 1);
        kernels->add_rows(to + (size_t)(i * to_row) * bytes, 0, from + (size_t)(i * from_row) * bytes, 0, part, true, 1,
                          columns);
    }
    if (f->channels > 0) return;
    const bool is_own = f->bias_dtype == tile;
    for (int64_t q = 0, count; q < columns; q += count) {
        count = is_own || columns - q < PART ? columns - q : PART;
        const char *values = bias + (size_t)(column + q) * source->bytes;
        if (!is_own) source->read(part, values, count, 1);
        kernels->add_rows(to + (size_t)q * bytes, to_row, from + (size_t)q * bytes, from_row, is_own ? values : part,
                          false, rows, count);
    }
}

/* Elements of a tile as if they had been in memory in between. */
static void round_tile(hd_dtype dtype, char *tile, int64_t count) {
    if (!hd_dtype_is_small_float(dtype)) return;
    for (int64_t i = 0; i < count; i += PART) {
        uint16_t small[PART];
        const int64_t n = count - i < PART ? count - i : PART;
        hd_kernels()->encode[dtype](small, (float *)tile + i, n);
        hd_kernels()->decode[dtype]((float *)tile + i, small, n);
    }
}

/* One step on elements that lie together, in place; row and column are those of the first one in the result. */
static void apply_step(const hd_plain_epilogue *f, const hd_product_step *step, char *x, int64_t row, int64_t column,
                       int64_t count) {
    const void *in[3] = {x, x, x};
    if (step->other != NULL)
        in[step->is_second ? 0 : 1] =
            (const char *)step->other + (size_t)(row * step->other_row + column) * hd_dtype_bytes[f->dtype];
    round_tile(f->dtype, x, count);
    hd_kernels()->elementwise[hd_dtype_compute[f->dtype]][step->op](x, in, step->numbers, count);
}

/* Rows of a tile to where they belong: short ones, for which memcpy takes longer than they do. */
#define COPY_ROWS(T)                                                                                                   \
    for (int64_t i = 0; i < rows; ++i) {                                                                               \
        const T *x = (const T *)from + i * from_row;                                                                   \
        T *y = (T *)to + i * to_row;                                                                                   \
        for (int64_t q = 0; q < columns; ++q) y[q] = x[q];                                                             \
    }
static void store_rows(hd_dtype dtype, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows,
                       int64_t columns) {
    const hd_dtype tile = hd_cpu_product_dtype(dtype);
    if (to == from) return; /* they were made there */
    if (dtype == tile && hd_dtype_bytes[dtype] == 4)
        COPY_ROWS(uint32_t)
    else if (dtype == tile)
        COPY_ROWS(uint64_t)
    else
        for (int64_t i = 0; i < rows; ++i) {
            const char *x = from + (size_t)(i * from_row) * hd_dtype_bytes[tile];
            char *y = to + (size_t)(i * to_row) * hd_dtype_bytes[dtype];
            if (hd_dtype_is_float(dtype))
                hd_kernels()->encode[dtype](y, x, columns);
            else
                hd_kernels()->convert[hd_dtype_compute[tile]][hd_dtype_compute[dtype]](y, x, columns);
        }
}

void *hd_cpu_product_address(hd_product_epilogue epilogue, void *context, int64_t row, int64_t column) {
    const hd_plain_epilogue *f = context;
    if (epilogue != hd_cpu_product_store || f->dtype != hd_cpu_product_dtype(f->dtype)) return NULL;
    if (f->bias == f->out) return NULL; /* it is read there first */
    for (int i = 0; i < f->step_count; ++i)
        if (f->steps[i].other == f->out) return NULL;
    return (char *)f->out + (size_t)(row * f->columns + column) * hd_dtype_bytes[f->dtype];
}

void hd_cpu_product_store(void *context, const void *given, int64_t stride, int64_t row, int64_t rows, int64_t column,
                          int64_t columns) {
    const hd_plain_epilogue *f = context;
    const size_t bytes = hd_dtype_bytes[f->dtype], tile_bytes = hd_dtype_bytes[hd_cpu_product_dtype(f->dtype)];
    char *tile = (char *)(uintptr_t)given, *out = (char *)f->out + (size_t)(row * f->columns + column) * bytes;
    const bool in_one_go = f->step_count == 0 && bytes == tile_bytes; /* the bias is added on the way */
    if (f->bias != NULL)
        add_bias(f, in_one_go ? out : tile, in_one_go ? f->columns : stride, tile, stride, row, rows, column, columns);
    if (f->bias != NULL && in_one_go) return;
    for (int s = 0; s < f->step_count; ++s) {
        const hd_product_step *step = &f->steps[s];
        if (step->other == NULL && columns == stride) /* rows follow each other in the tile */
            apply_step(f, step, tile, row, column, rows * columns);
        else
            for (int64_t i = 0; i < rows; ++i)
                apply_step(f, step, tile + (size_t)(i * stride) * tile_bytes, row + i, column, columns);
    }
    store_rows(f->dtype, out, f->columns, tile, stride, rows, columns);
}
