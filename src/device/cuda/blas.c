/* Matrix products by cuBLASLt, which is opened at the first one. Matrices lie row after row here and column after
 * column there: what it computes is the transposed result, the transposed b times the transposed a. What is known of
 * a product, all but its addresses, is kept: its descriptors, and the algorithm, the first that the library
 * proposes, so that the same product is the same computation in every run.
 *
 * All products of a device share one workspace, as their work is on one stream; so do those of a lane of recorded
 * graphs, which follow each other. */
#include "core/os.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/driver.h"

#include <stdio.h>
#include <string.h>

enum { WORKSPACE_BYTES = 32 << 20, PROPOSALS = 4, TABLE_LEAST = 64 };
/* More alignment helps no algorithm, and all memory has it, blocks as well as parts of the memory of plans: a product
 * in a plan is the one that runs by itself, to the bit. */
enum { ALIGNMENT_MOST = 64 };
enum { A, B, RESULT, BIAS, ADDRESSES };

/* ---- the library ------------------------------------------------------------------------------------------------- */
static struct {
    pthread_once_t once;
    bool is_open;
    char missing[300];
    hd_lt_functions of;
} library = {.once = PTHREAD_ONCE_INIT};

static void open_library(void) {
    static const hd_cuda_library_place place = {
        .variable = "HODU_CUBLASLT",
        .what = "cuBLASLt, which is quicker at products",
        .remedy = "install CUDA's toolkit, or python3 -m pip install nvidia-cublas; HODU_CUBLASLT is its path",
        .names = {"libcublasLt.so.13", "libcublasLt.so.12", NULL},
        .packages = {"nvidia/cu13/lib", "nvidia/cublas/lib", NULL}};
    const char *lacks = NULL;
    void *opened = hd_cuda_library_open(&place, library.missing, sizeof library.missing);
    if (opened == NULL) return;
#define TAKE(name, full_name, parameters)                                                                              \
    *(void **)&library.of.name = hd_os_library_symbol(opened, full_name);                                              \
    if (library.of.name == NULL && lacks == NULL) lacks = full_name;
    HD_LT_FUNCTIONS(TAKE)
#undef TAKE
    *(void **)&library.of.status_name = hd_os_library_symbol(opened, "cublasLtGetStatusName");
    if (library.of.status_name == NULL && lacks == NULL) lacks = "cublasLtGetStatusName";
    if (lacks != NULL)
        snprintf(library.missing, sizeof library.missing,
                 "the cuBLASLt that is here has no %s: it is older than CUDA "
                 "12",
                 lacks);
    library.is_open = lacks == NULL;
}

/* ---- what is known of products ----------------------------------------------------------------------------------- */
/* All but the addresses, in words without holes, with a zero for what does not count. */
typedef struct product_key {
    int64_t m, n, k, batches;
    int64_t stride[3], batch[3]; /* from line to line, from matrix to matrix: of a, b and the result */
    uint8_t operands, result, turns_a, turns_b, has_bias, is_tf32, alignment[ADDRESSES], rest[6];
} product_key;
enum { KEY_WORDS = sizeof(product_key) / 8 };
_Static_assert(sizeof(product_key) == 96, "a key has no holes");

typedef struct known_product {
    product_key key;
    hd_lt_product *product;
    hd_lt_layout *layout[3];
    hd_lt_algorithm algorithm;
    size_t workspace_bytes;
    bool is_taken; /* the library has an algorithm */
} known_product;

struct hd_cuda_blas {
    char lacks[300]; /* why there is no handle; "": there is one */
    hd_lt_handle *handle;
    pthread_mutex_t lock;
    hd_block *workspaces[HD_CUDA_LANES]; /* made for the first algorithm that needs one */
    known_product **table;
    size_t table_size, count; /* a power of two */
};

static int log_of_alignment(const void *address) {
    const uintptr_t bits = (uintptr_t)address | ALIGNMENT_MOST;
    return __builtin_ctzll(bits);
}

/* How the library reads a matrix of so many rows and columns as one whose columns lie one after the other, as it is or
 * turned: the distance of its columns. 0: neither. An axis of one element has any stride. */
static int64_t column_stride(int64_t rows, int64_t columns, int64_t row, int64_t column, uint8_t *turns) {
    *turns = 0;
    if ((row == 1 || rows == 1) && (columns == 1 || column >= rows)) return columns == 1 ? rows : column;
    *turns = 1;
    if ((column == 1 || columns == 1) && (rows == 1 || row >= columns)) return rows == 1 ? columns : row;
    return 0;
}

static bool are_dtypes_taken(const hd_gpu_matrices *p) {
    const bool is_small = p->operands == HD_BF16 || p->operands == HD_F16;
    return (p->operands == p->result && (is_small || p->result == HD_F32 || p->result == HD_F64)) ||
           (is_small && p->result == HD_F32);
}

/* False: it is none of the library's. Its rows are our columns. */
static bool make_key(const hd_gpu_matrices *p, product_key *key) {
    memset(key, 0, sizeof *key);
    if (!are_dtypes_taken(p) || (p->bias != NULL && p->bias_dtype != p->result)) return false;
    if (p->m <= 0 || p->n <= 0 || p->k <= 0 || p->batches <= 0 || p->batches > INT32_MAX) return false;
    key->stride[A] = column_stride(p->k, p->m, p->a_column, p->a_row, &key->turns_a);
    key->stride[B] = column_stride(p->n, p->k, p->b_column, p->b_row, &key->turns_b);
    key->stride[RESULT] = p->m == 1 ? p->n : p->row;
    if (key->stride[A] == 0 || key->stride[B] == 0 || key->stride[RESULT] < p->n) return false;
    if (p->batches > 1) {
        if (p->a_batch < 0 || p->b_batch < 0 || p->batch < 0) return false;
        key->batch[A] = p->a_batch;
        key->batch[B] = p->b_batch;
        key->batch[RESULT] = p->batch;
    }
    key->m = p->m;
    key->n = p->n;
    key->k = p->k;
    key->batches = p->batches;
    key->operands = (uint8_t)p->operands;
    key->result = (uint8_t)p->result;
    key->has_bias = p->bias != NULL;
    key->is_tf32 = p->is_tf32 && p->operands == HD_F32;
    key->alignment[A] = (uint8_t)log_of_alignment(p->a);
    key->alignment[B] = (uint8_t)log_of_alignment(p->b);
    key->alignment[RESULT] = (uint8_t)log_of_alignment(p->to);
    if (key->has_bias) key->alignment[BIAS] = (uint8_t)log_of_alignment(p->bias);
    return true;
}

static size_t hash_of(const product_key *key) {
    uint64_t words[KEY_WORDS], hash = 0;
    memcpy(words, key, sizeof words);
    for (int i = 0; i < KEY_WORDS; ++i) {
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return (size_t)hash;
}

/* Where it is in the table, or would be: the first free place behind. */
static known_product **place_of(const hd_cuda_blas *b, const product_key *key) {
    for (size_t i = hash_of(key);; ++i) {
        known_product **at = &b->table[i & (b->table_size - 1)];
        if (*at == NULL || memcmp(&(*at)->key, key, sizeof *key) == 0) return at;
    }
}

static hd_error make_room(hd_cuda_blas *b) {
    if (2 * (b->count + 1) <= b->table_size) return HD_OK;
    hd_cuda_blas larger = {.table_size = b->table_size == 0 ? TABLE_LEAST : 2 * b->table_size};
    larger.table = hd_array_resize(NULL, larger.table_size * sizeof *larger.table);
    if (larger.table == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %zu products", larger.table_size);
    for (size_t i = 0; i < larger.table_size; ++i) larger.table[i] = NULL;
    for (size_t i = 0; i < b->table_size; ++i)
        if (b->table[i] != NULL) *place_of(&larger, &b->table[i]->key) = b->table[i];
    hd_array_release(b->table);
    b->table = larger.table;
    b->table_size = larger.table_size;
    return HD_OK;
}

/* ---- describing -------------------------------------------------------------------------------------------------- */
static int dtype_of(uint8_t dtype) {
    return dtype == HD_F64 ? HD_LT_F64 : dtype == HD_BF16 ? HD_LT_BF16 : dtype == HD_F16 ? HD_LT_F16 : HD_LT_F32;
}

static int set_product(hd_lt_product *product, int attribute, int value) {
    return library.of.product_set(product, attribute, &(int32_t){value}, sizeof(int32_t));
}

/* The bias counts here for its alignment. */
static int describe_product(known_product *p, const void *bias) {
    const product_key *key = &p->key;
    const int compute = key->result == HD_F64 ? HD_LT_COMPUTE_F64
                        : key->is_tf32        ? HD_LT_COMPUTE_TF32
                                              : HD_LT_COMPUTE_F32;
    int status = library.of.product_new(&p->product, compute, key->result == HD_F64 ? HD_LT_F64 : HD_LT_F32);
    if (status == 0) status = set_product(p->product, HD_LT_PRODUCT_TURN_A, key->turns_b);
    if (status == 0) status = set_product(p->product, HD_LT_PRODUCT_TURN_B, key->turns_a);
    if (status != 0 || !key->has_bias) return status;
    status = set_product(p->product, HD_LT_PRODUCT_EPILOGUE, HD_LT_EPILOGUE_BIAS);
    if (status == 0) status = set_product(p->product, HD_LT_PRODUCT_BIAS_DTYPE, dtype_of(key->result));
    return status != 0 ? status : library.of.product_set(p->product, HD_LT_PRODUCT_BIAS, &bias, sizeof bias);
}

static int describe_matrix(known_product *p, int which, int64_t rows, int64_t columns, uint8_t dtype) {
    const int32_t batches = (int32_t)p->key.batches;
    const int64_t stride = p->key.batch[which];
    int status = library.of.layout_new(&p->layout[which], dtype_of(dtype), (uint64_t)rows, (uint64_t)columns,
                                       p->key.stride[which]);
    if (status == 0 && batches > 1)
        status = library.of.layout_set(p->layout[which], HD_LT_LAYOUT_BATCHES, &batches, sizeof batches);
    if (status == 0 && batches > 1)
        status = library.of.layout_set(p->layout[which], HD_LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride);
    return status;
}

/* As they lie: what turns has the axes of the other order. */
static int describe_matrices(known_product *p) {
    const product_key *key = &p->key;
    int status = describe_matrix(p, A, key->turns_a ? key->m : key->k, key->turns_a ? key->k : key->m, key->operands);
    if (status == 0)
        status = describe_matrix(p, B, key->turns_b ? key->k : key->n, key->turns_b ? key->n : key->k, key->operands);
    return status != 0 ? status : describe_matrix(p, RESULT, key->n, key->m, key->result);
}

/* Sums whose k is cut are added in a step of their own, in a fixed order. What they are added to in place is in the
 * dtype of the result, and the library does not say in which order: that is left out. Small floats are to be rounded
 * once: their k is not cut, as on an H200 such sums were off by two units, also where parts of f32 were asked for. */
static int describe_preference(const known_product *p, hd_lt_preference *preference) {
    const product_key *key = &p->key;
    const bool is_small = key->result == HD_BF16 || key->result == HD_F16;
    const uint32_t reductions = is_small ? 0 : HD_LT_REDUCE_COMPUTE_TYPE | HD_LT_REDUCE_OUTPUT_TYPE;
    const uint64_t workspace = WORKSPACE_BYTES;
    static const int of[] = {B, A, RESULT, RESULT};
    int status = library.of.preference_set(preference, HD_LT_PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
    if (status == 0)
        status = library.of.preference_set(preference, HD_LT_PREFERENCE_REDUCTIONS, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && status == 0; ++i) {
        const uint32_t bytes = 1u << key->alignment[of[i]];
        status = library.of.preference_set(preference, HD_LT_PREFERENCE_ALIGNMENT_A + i, &bytes, sizeof bytes);
    }
    return status;
}

static int find_algorithm(const hd_cuda_blas *b, known_product *p) {
    hd_lt_preference *preference = NULL;
    hd_lt_found found[PROPOSALS];
    int count = 0, status = library.of.preference_new(&preference);
    if (status == 0) status = describe_preference(p, preference);
    if (status == 0)
        status = library.of.find(b->handle, p->product, p->layout[B], p->layout[A], p->layout[RESULT],
                                 p->layout[RESULT], preference, PROPOSALS, found, &count);
    for (int i = 0; i < count && status == 0 && !p->is_taken; ++i) {
        if (found[i].state != 0 || found[i].workspace_bytes > WORKSPACE_BYTES) continue;
        p->algorithm = found[i].algorithm;
        p->workspace_bytes = found[i].workspace_bytes;
        p->is_taken = true;
    }
    if (preference != NULL) library.of.preference_release(preference);
    return status;
}

/* ---- one product ------------------------------------------------------------------------------------------------- */
static void release_product(known_product *p) {
    if (p->product != NULL) library.of.product_release(p->product);
    for (int i = 0; i < 3; ++i)
        if (p->layout[i] != NULL) library.of.layout_release(p->layout[i]);
    hd_array_release(p);
}

static hd_error need_workspace(hd_cuda_device *d, hd_cuda_blas *b) {
    hd_block **of_lane = &b->workspaces[hd_cuda_lane(d)];
    if (*of_lane == NULL) *of_lane = hd_heap_allocate(&d->heap, WORKSPACE_BYTES);
    return *of_lane == NULL ? hd_thread_self()->error_code : HD_OK;
}

static hd_error no_memory(const hd_cuda_device *d) {
    return hd_fail(HD_ERROR_MEMORY, "%s: no memory for what is known of a product",
                   hd_device_text((char[32]){0}, d->device));
}

/* Whatever else the library says of it, it is no product of the library's. */
static hd_error learn(hd_cuda_device *d, hd_cuda_blas *b, const product_key *key, const void *bias,
                      known_product **out) {
    HD_TRY(make_room(b));
    known_product *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) return no_memory(d);
    *p = (known_product){.key = *key};
    int status = describe_product(p, bias);
    if (status == 0) status = describe_matrices(p);
    if (status == 0) status = find_algorithm(b, p);
    const hd_error error = status == HD_LT_ALLOC_FAILED ? no_memory(d) : HD_OK;
    if (error != HD_OK) {
        release_product(p);
        return error;
    }
    *place_of(b, key) = p;
    b->count++;
    *out = p;
    return HD_OK;
}

static hd_error find_product(hd_cuda_device *d, hd_cuda_blas *b, const product_key *key, const void *bias,
                             known_product **out) {
    *out = b->table_size == 0 ? NULL : *place_of(b, key);
    return *out != NULL ? HD_OK : learn(d, b, key, bias, out);
}

static hd_error multiplication_failed(hd_cuda_device *d, const product_key *key, int status) {
    if (hd_cuda_stream(d) == d->stream) /* the device may be lost, which says more */
        HD_TRY(hd_cuda_check(d, hd_cu.stream_synchronize(d->stream), "cublasLtMatmul"));
    if (status == HD_LT_ALLOC_FAILED)
        return hd_heap_fail(&d->heap, 0, "cublasLtMatmul gives CUBLAS_STATUS_ALLOC_FAILED");
    const char *name = library.of.status_name(status);
    return hd_fail(HD_ERROR_DEVICE,
                   "%s: cublasLtMatmul of [%lld, %lld] x [%lld, %lld] gives %s; HODU_CUBLASLT=none leaves products to "
                   "kernels of hodu's own",
                   hd_device_text((char[32]){0}, d->device), (long long)key->m, (long long)key->k, (long long)key->k,
                   (long long)key->n, name != NULL ? name : "a status without a name");
}

static hd_error multiply(hd_cuda_device *d, hd_cuda_blas *b, const known_product *known, const hd_gpu_matrices *p) {
    static const double one = 1, zero = 0;
    static const float one_f32 = 1, zero_f32 = 0;
    const bool is_f64 = p->result == HD_F64;
    int status = 0, attempt = 0;
    if (known->workspace_bytes > 0) HD_TRY(need_workspace(d, b));
    void *workspace = known->workspace_bytes > 0 ? b->workspaces[hd_cuda_lane(d)]->address : NULL;
    if (p->bias != NULL) status = library.of.product_set(known->product, HD_LT_PRODUCT_BIAS, &p->bias, sizeof p->bias);
    if (status != 0) return multiplication_failed(d, &known->key, status);
    do
        status = library.of.multiply(b->handle, known->product, is_f64 ? (const void *)&one : &one_f32, p->b,
                                     known->layout[B], p->a, known->layout[A], is_f64 ? (const void *)&zero : &zero_f32,
                                     p->to, known->layout[RESULT], p->to, known->layout[RESULT], &known->algorithm,
                                     workspace, known->workspace_bytes, hd_cuda_stream(d));
    while (hd_cuda_try_again(d, status == HD_LT_ALLOC_FAILED ? HD_CU_OUT_OF_MEMORY : 0, attempt++));
    return __builtin_expect(status == 0, 1) ? HD_OK : multiplication_failed(d, &known->key, status);
}

static hd_error multiply_timed(hd_cuda_device *d, hd_cuda_blas *b, const known_product *known,
                               const hd_gpu_matrices *p) {
    float milliseconds = 0;
    HD_TRY(hd_cuda_check(d, hd_cu.event_record(d->begin, d->stream), "cuEventRecord"));
    HD_TRY(multiply(d, b, known, p));
    HD_TRY(hd_cuda_check(d, hd_cu.event_record(d->end, d->stream), "cuEventRecord"));
    HD_TRY(hd_cuda_check(d, hd_cu.event_synchronize(d->end), "cuEventSynchronize"));
    HD_TRY(hd_cuda_check(d, hd_cu.event_time(&milliseconds, d->begin, d->end), "cuEventElapsedTime"));
    *p->nanoseconds = (int64_t)((double)milliseconds * 1e6);
    return HD_OK;
}

/* ---- what others see --------------------------------------------------------------------------------------------- */
static void open_handle(hd_cuda_blas *b) {
    pthread_once(&library.once, open_library);
    if (!library.is_open) {
        snprintf(b->lacks, sizeof b->lacks, "%s", library.missing);
        return;
    }
    const int status = library.of.handle_new(&b->handle);
    const char *name = status == 0 ? NULL : library.of.status_name(status);
    if (status == 0) return;
    b->handle = NULL;
    snprintf(b->lacks, sizeof b->lacks, "cublasLtCreate gives %s", name != NULL ? name : "a status without a name");
}

/* Made once, and never released, as the device is not; NULL with an error. */
static hd_cuda_blas *blas_of(hd_cuda_device *d) {
    hd_cuda_blas *b = atomic_load_explicit(&d->blas, memory_order_acquire);
    if (__builtin_expect(b != NULL, 1)) return b;
    pthread_mutex_lock(&d->lock);
    b = atomic_load(&d->blas);
    if (b == NULL && (b = hd_array_resize(NULL, sizeof *b)) != NULL) {
        *b = (hd_cuda_blas){.handle = NULL};
        pthread_mutex_init(&b->lock, NULL);
        open_handle(b);
        atomic_store_explicit(&d->blas, b, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    if (b == NULL) no_memory(d);
    return b;
}

hd_error hd_cuda_lacks_products(int index, const char **why) {
    *why = NULL;
    hd_cuda_device *d = hd_cuda_device_at(index);
    const hd_cuda_blas *b = d == NULL ? NULL : blas_of(d);
    if (b == NULL) return hd_thread_self()->error_code;
    if (b->handle == NULL) *why = b->lacks;
    return HD_OK;
}

/* A descriptor has the address of the bias, so products take turns. */
hd_error hd_cuda_product(int index, const hd_gpu_matrices *p, bool *taken) {
    product_key key;
    *taken = false;
    if (p->nanoseconds != NULL) *p->nanoseconds = 0;
    hd_cuda_device *d = hd_cuda_device_at(index);
    hd_cuda_blas *b = d == NULL ? NULL : blas_of(d);
    if (b == NULL) return hd_thread_self()->error_code;
    if (b->handle == NULL || !make_key(p, &key)) return HD_OK;
    pthread_mutex_lock(&b->lock);
    known_product *known;
    hd_error status = find_product(d, b, &key, p->bias, &known);
    *taken = status == HD_OK && known->is_taken;
    if (*taken && p->nanoseconds == NULL) status = multiply(d, b, known, p);
    if (*taken && p->nanoseconds != NULL) {
        pthread_mutex_lock(&d->timing);
        status = multiply_timed(d, b, known, p);
        pthread_mutex_unlock(&d->timing);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}
