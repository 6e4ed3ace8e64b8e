/* A cuBLASLt whose products are plain loops, in the order of a stream of the fake driver. It reads descriptors as the
 * library's manual has them, column after column, and notes what that would not have taken. */
#include "cuda/fake_cublaslt.h"
#include "core/small_float.h"
#include "device/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define FUNCTION(name, parameters)                                                                                     \
    API int name parameters;                                                                                           \
    API int name parameters
enum { INVALID = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

API fake_cublaslt fake_cublaslt_now;
static fake_cublaslt *const now = &fake_cublaslt_now;
static char handle;

struct hd_lt_product {
    int compute, scale_dtype, turns[2], epilogue, bias_dtype;
    const void *bias;
};
struct hd_lt_layout {
    int dtype, batches;
    int64_t rows, columns, stride, batch;
};
struct hd_lt_preference {
    uint64_t workspace;
    uint32_t reductions, alignment[4];
};
typedef struct algorithm { /* what the library keeps in one */
    uint32_t mark, alignment[4], reductions;
    uint64_t workspace;
} algorithm;
_Static_assert(sizeof(algorithm) <= sizeof(hd_lt_algorithm), "it fits");

/* The status of this call. */
static int next(void) {
    if (now->fails_in == 0 || --now->fails_in > 0) return 0;
    if (now->fails_forever) now->fails_in = 1;
    return now->fails_by;
}
static int wrong(const char *what) {
    now->wrong = what;
    return INVALID;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
static int make(void **out, size_t bytes) {
    const int status = next();
    *out = NULL;
    if (status != 0) return status;
    now->made++;
    *out = calloc(1, bytes);
    return *out != NULL ? 0 : HD_LT_ALLOC_FAILED;
}
static int release(void *what) {
    now->released++;
    free(what);
    return 0;
}
static int take(void *to, size_t size, const void *from, size_t bytes) {
    const int status = next();
    if (status != 0) return status;
    if (size != bytes) return wrong("an attribute of another size");
    memcpy(to, from, bytes);
    return 0;
}

FUNCTION(cublasLtCreate, (void **out)) {
    const int status = next();
    now->handles++;
    *out = &handle;
    return status;
}
API const char *cublasLtGetStatusName(int status);
API const char *cublasLtGetStatusName(int status) {
    return status == HD_LT_ALLOC_FAILED ? "CUBLAS_STATUS_ALLOC_FAILED" : "CUBLAS_STATUS_OF_THE_FAKE";
}

FUNCTION(cublasLtMatmulDescCreate, (hd_lt_product * *out, int compute, int scale_dtype)) {
    const int status = make((void **)out, sizeof **out);
    if (status == 0)
        **out = (hd_lt_product){.compute = compute, .scale_dtype = scale_dtype, .epilogue = 1, .bias_dtype = -1};
    return status;
}
FUNCTION(cublasLtMatmulDescDestroy, (hd_lt_product * product)) { return release(product); }
FUNCTION(cublasLtMatmulDescSetAttribute, (hd_lt_product * p, int attribute, const void *value, size_t bytes)) {
    switch (attribute) {
    case HD_LT_PRODUCT_TURN_A: return take(&p->turns[0], sizeof p->turns[0], value, bytes);
    case HD_LT_PRODUCT_TURN_B: return take(&p->turns[1], sizeof p->turns[1], value, bytes);
    case HD_LT_PRODUCT_EPILOGUE: return take(&p->epilogue, sizeof p->epilogue, value, bytes);
    case HD_LT_PRODUCT_BIAS: return take(&p->bias, sizeof p->bias, value, bytes);
    case HD_LT_PRODUCT_BIAS_DTYPE: return take(&p->bias_dtype, sizeof p->bias_dtype, value, bytes);
    default: return wrong("an attribute of a product");
    }
}
FUNCTION(cublasLtMatrixLayoutCreate,
         (hd_lt_layout * *out, int dtype, uint64_t rows, uint64_t columns, int64_t stride)) {
    const int status = make((void **)out, sizeof **out);
    if (status != 0) return status;
    **out = (hd_lt_layout){dtype, 1, (int64_t)rows, (int64_t)columns, stride, 0};
    return stride < (int64_t)rows ? wrong("columns that overlap") : 0;
}
FUNCTION(cublasLtMatrixLayoutDestroy, (hd_lt_layout * layout)) { return release(layout); }
FUNCTION(cublasLtMatrixLayoutSetAttribute, (hd_lt_layout * l, int attribute, const void *value, size_t bytes)) {
    switch (attribute) {
    case HD_LT_LAYOUT_BATCHES: return take(&l->batches, sizeof l->batches, value, bytes);
    case HD_LT_LAYOUT_BATCH_STRIDE: return take(&l->batch, sizeof l->batch, value, bytes);
    default: return wrong("an attribute of a layout");
    }
}
FUNCTION(cublasLtMatmulPreferenceCreate, (hd_lt_preference * *out)) { return make((void **)out, sizeof **out); }
FUNCTION(cublasLtMatmulPreferenceDestroy, (hd_lt_preference * preference)) { return release(preference); }
FUNCTION(cublasLtMatmulPreferenceSetAttribute, (hd_lt_preference * p, int attribute, const void *value, size_t bytes)) {
    const int which = attribute - HD_LT_PREFERENCE_ALIGNMENT_A;
    if (attribute == HD_LT_PREFERENCE_WORKSPACE) return take(&p->workspace, sizeof p->workspace, value, bytes);
    if (attribute == HD_LT_PREFERENCE_REDUCTIONS) return take(&p->reductions, sizeof p->reductions, value, bytes);
    if (which < 0 || which > 3) return wrong("an attribute of a preference");
    return take(&p->alignment[which], sizeof p->alignment[which], value, bytes);
}

/* ---- what is a product ------------------------------------------------------------------------------------------- */
static int64_t rows_of(const hd_lt_layout *l, int turns) { return turns ? l->columns : l->rows; }
static int64_t columns_of(const hd_lt_layout *l, int turns) { return turns ? l->rows : l->columns; }

static int check_dtypes(const hd_lt_product *p, int operands, int result) {
    const int is_small = operands == HD_LT_BF16 || operands == HD_LT_F16;
    if (operands == HD_LT_F64 || result == HD_LT_F64)
        return operands == result && p->compute == HD_LT_COMPUTE_F64 && p->scale_dtype == HD_LT_F64;
    if (p->scale_dtype != HD_LT_F32) return 0;
    if (is_small) return p->compute == HD_LT_COMPUTE_F32 && (result == operands || result == HD_LT_F32);
    return operands == HD_LT_F32 && result == HD_LT_F32 &&
           (p->compute == HD_LT_COMPUTE_F32 || p->compute == HD_LT_COMPUTE_TF32);
}

static int check(const hd_lt_product *p, const hd_lt_layout *a, const hd_lt_layout *b, const hd_lt_layout *c,
                 const hd_lt_layout *d) {
    if (rows_of(a, p->turns[0]) != d->rows || columns_of(b, p->turns[1]) != d->columns ||
        columns_of(a, p->turns[0]) != rows_of(b, p->turns[1]))
        return wrong("shapes that do not meet");
    if (a->batches != d->batches || b->batches != d->batches || c != d) return wrong("other batches");
    if (a->dtype != b->dtype || !check_dtypes(p, a->dtype, d->dtype)) return wrong("dtypes");
    if (p->epilogue == HD_LT_EPILOGUE_BIAS && (p->bias == NULL || p->bias_dtype != d->dtype)) return wrong("a bias");
    return 0;
}

FUNCTION(cublasLtMatmulAlgoGetHeuristic,
         (hd_lt_handle * h, hd_lt_product *p, hd_lt_layout *a, hd_lt_layout *b, hd_lt_layout *c, hd_lt_layout *d,
          hd_lt_preference *preference, int most, hd_lt_found *found, int *count)) {
    int status = next();
    *count = 0;
    now->found++;
    if (status != 0) return status;
    if ((void *)h != &handle || (status = check(p, a, b, c, d)) != 0) return status;
    if ((preference->reductions & HD_LT_REDUCE_IN_PLACE) != 0) return wrong("sums in no fixed order");
    if ((preference->reductions & HD_LT_REDUCE_OUTPUT_TYPE) != 0 && (d->dtype == HD_LT_BF16 || d->dtype == HD_LT_F16))
        return wrong("sums that are rounded on their way");
    if (now->refused < 0) return NOT_SUPPORTED;
    for (; *count < most; ++*count) {
        algorithm it = {.mark = 0xA160, .reductions = preference->reductions, .workspace = now->workspace};
        memcpy(it.alignment, preference->alignment, sizeof it.alignment);
        found[*count] =
            (hd_lt_found){.workspace_bytes = now->workspace, .state = *count < now->refused ? NOT_SUPPORTED : 0};
        if (found[*count].state == 0) memcpy(&found[*count].algorithm, &it, sizeof it);
    }
    return now->workspace > preference->workspace ? wrong("a workspace of more than was said") : 0;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */
static double element(const void *from, int64_t i, int dtype) {
    switch (dtype) {
    case HD_LT_F64: return ((const double *)from)[i];
    case HD_LT_F32: return (double)((const float *)from)[i];
    case HD_LT_BF16: return (double)hd_bf16_decode(((const uint16_t *)from)[i]);
    default: return (double)hd_f16_decode(((const uint16_t *)from)[i]);
    }
}
static void put(void *to, int64_t i, int dtype, double value) {
    switch (dtype) {
    case HD_LT_F64: ((double *)to)[i] = value; break;
    case HD_LT_F32: ((float *)to)[i] = (float)value; break;
    case HD_LT_BF16: ((uint16_t *)to)[i] = hd_bf16_encode((float)value); break;
    default: ((uint16_t *)to)[i] = hd_f16_encode((float)value); break;
    }
}
static int64_t place(const hd_lt_layout *l, int64_t batch, int64_t row, int64_t column, int turns) {
    return batch * l->batch + (turns ? column + row * l->stride : row + column * l->stride);
}

/* What is enqueued: all by value, as descriptors may change, or go. */
typedef struct job {
    hd_lt_product product;
    hd_lt_layout a_layout, b_layout, layout;
    const void *a, *b;
    void *result, *workspace;
    size_t workspace_bytes;
} job;
static struct { /* of the driver */
    int (*enqueue)(hd_cu_stream *stream, void (*other)(const void *parameters), const void *parameters, size_t bytes);
    void *(*at)(const void *address, size_t bytes);
} driver;

static size_t bytes_of(int dtype) { return dtype == HD_LT_F64 ? 8 : dtype == HD_LT_F32 ? 4 : 2; }
static void *matrices_at(const void *address, const hd_lt_layout *l) {
    const int64_t last = (l->batches - 1) * l->batch + (l->columns - 1) * l->stride + l->rows;
    return driver.at(address, (size_t)last * bytes_of(l->dtype));
}

static void compute(const void *parameters) {
    const job *j = parameters;
    const hd_lt_product *p = &j->product;
    const hd_lt_layout *la = &j->a_layout, *lb = &j->b_layout, *ld = &j->layout;
    const void *a = matrices_at(j->a, la), *b = matrices_at(j->b, lb);
    void *d = matrices_at(j->result, ld);
    const void *bias =
        p->epilogue == HD_LT_EPILOGUE_BIAS ? driver.at(p->bias, (size_t)ld->rows * bytes_of(ld->dtype)) : NULL;
    if (j->workspace_bytes > 0) memset(driver.at(j->workspace, j->workspace_bytes), 0xFF, j->workspace_bytes);
    const int64_t k = columns_of(la, p->turns[0]);
    now->computed++;
    for (int64_t batch = 0; batch < ld->batches; ++batch)
        for (int64_t column = 0; column < ld->columns; ++column)
            for (int64_t row = 0; row < ld->rows; ++row) {
                double sum = bias != NULL ? element(bias, row, p->bias_dtype) : 0;
                for (int64_t i = 0; i < k; ++i)
                    sum += element(a, place(la, batch, row, i, p->turns[0]), la->dtype) *
                           element(b, place(lb, batch, i, column, p->turns[1]), lb->dtype);
                put(d, place(ld, batch, row, column, 0), ld->dtype, sum);
            }
}

static int is_aligned(const void *address, uint32_t to) { return to != 0 && (uintptr_t)address % to == 0; }
static int scale_is(const void *scale, int dtype, double value) { return element(scale, 0, dtype) == value; }

/* The driver is open already, or there would be no stream. */
static int find_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return 0;
    *(void **)&driver.enqueue = dlsym(library, "fake_cuda_enqueue");
    *(void **)&driver.at = dlsym(library, "fake_cuda_at");
    return driver.enqueue != NULL && driver.at != NULL;
}

FUNCTION(cublasLtMatmul,
         (hd_lt_handle * h, hd_lt_product *p, const void *alpha, const void *a, hd_lt_layout *la, const void *b,
          hd_lt_layout *lb, const void *beta, const void *c, hd_lt_layout *lc, void *d, hd_lt_layout *ld,
          const hd_lt_algorithm *how, void *workspace, size_t workspace_bytes, hd_cu_stream *stream)) {
    int status = next();
    algorithm it;
    memcpy(&it, how, sizeof it);
    if (status != 0) return status;
    if ((void *)h != &handle || stream == NULL || it.mark != 0xA160) return wrong("an algorithm");
    if ((status = check(p, la, lb, lc, ld)) != 0) return status;
    if (!scale_is(alpha, p->scale_dtype, 1) || !scale_is(beta, p->scale_dtype, 0) || c != d) return wrong("a scale");
    if (!is_aligned(a, it.alignment[0]) || !is_aligned(b, it.alignment[1]) || !is_aligned(d, it.alignment[3]))
        return wrong("an operand that is less aligned than was said");
    if (workspace_bytes < it.workspace || (it.workspace > 0 && workspace == NULL)) return wrong("no workspace");
    if (driver.enqueue == NULL && !find_driver()) return wrong("another driver");
    now->multiplied++;
    now->tf32 += p->compute == HD_LT_COMPUTE_TF32;
    now->biases += p->epilogue == HD_LT_EPILOGUE_BIAS;
    now->batched += ld->batches > 1;
    const job j = {*p, *la, *lb, *ld, a, b, d, workspace, (size_t)it.workspace};
    return driver.enqueue(stream, compute, &j, sizeof j) == 0 ? 0 : EXECUTION_FAILED;
}
