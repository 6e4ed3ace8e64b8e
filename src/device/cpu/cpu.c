/* The CPU device: which kernels this machine runs, and the executor that runs calls with them. */
#include "device/cpu/peak.h"
#include "device/cpu/cpu.h"
#include "core/device.h"
#include "core/environment.h"
#include "core/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- instruction sets ------------------------------------------------------------------------------------------- */
#define DECLARE_TABLE(NAME, name) extern const hd_elementwise_kernel ISA_TABLE(name)[HD_OP_ELEMENTWISE_COUNT];
#define USE_TABLE(NAME, name)     table->elementwise[HD_COMPUTE_##NAME] = ISA_TABLE(name);
#define DERIVATIVES(isa_name)                                                                                          \
    extern const hd_elementwise_kernel hd_derivative_##isa_name##_f32[HD_OP_ELEMENTWISE_COUNT][3];                     \
    extern const hd_elementwise_kernel hd_derivative_##isa_name##_f64[HD_OP_ELEMENTWISE_COUNT][3];
#define USE_DERIVATIVES(isa_name)                                                                                      \
    table->derivative[HD_COMPUTE_F32] = hd_derivative_##isa_name##_f32;                                                \
    table->derivative[HD_COMPUTE_F64] = hd_derivative_##isa_name##_f64;
#define FILL(isa_name)                                                                                                 \
    void hd_fill_memory_##isa_name(hd_cpu_kernels *);                                                                  \
    void hd_fill_gemm_##isa_name(hd_cpu_kernels *);                                                                    \
    void hd_fill_norm_##isa_name(hd_cpu_kernels *);                                                                    \
    void hd_fill_attention_##isa_name(hd_cpu_kernels *);                                                               \
    void hd_fill_winograd_##isa_name(hd_cpu_kernels *);                                                                \
    void hd_fill_patch_##isa_name(hd_cpu_kernels *);                                                                   \
    void hd_fill_random_##isa_name(hd_cpu_kernels *);                                                                  \
    void hd_fill_scan_##isa_name(hd_cpu_kernels *);                                                                    \
    void hd_fill_update_##isa_name(hd_cpu_kernels *);

hd_cpu_kernels hd_kernel_table;
static hd_cpu_kernels *const table = &hd_kernel_table;
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

#define ISA_TABLE(name) hd_elementwise_baseline_##name
HD_COMPUTE_LIST(DECLARE_TABLE)
FILL(baseline)
DERIVATIVES(baseline)
static void use_baseline(void) {
    table->isa = "baseline";
    HD_COMPUTE_LIST(USE_TABLE)
    USE_DERIVATIVES(baseline)
    hd_fill_memory_baseline(table);
    hd_fill_gemm_baseline(table);
    hd_fill_norm_baseline(table);
    hd_fill_attention_baseline(table);
    hd_fill_winograd_baseline(table);
    hd_fill_patch_baseline(table);
    hd_fill_random_baseline(table);
    hd_fill_scan_baseline(table);
    hd_fill_update_baseline(table);
}
#undef ISA_TABLE

#ifdef HD_HAS_AVX2
#define ISA_TABLE(name) hd_elementwise_avx2_##name
HD_COMPUTE_LIST(DECLARE_TABLE)
FILL(avx2)
DERIVATIVES(avx2)
static void use_avx2(void) {
    table->isa = "avx2";
    HD_COMPUTE_LIST(USE_TABLE)
    USE_DERIVATIVES(avx2)
    hd_fill_memory_avx2(table);
    hd_fill_gemm_avx2(table);
    hd_fill_norm_avx2(table);
    hd_fill_attention_avx2(table);
    hd_fill_winograd_avx2(table);
    hd_fill_patch_avx2(table);
    hd_fill_random_avx2(table);
    hd_fill_scan_avx2(table);
    hd_fill_update_avx2(table);
}
#undef ISA_TABLE
#endif

#ifdef HD_HAS_AVX512
#define ISA_TABLE(name) hd_elementwise_avx512_##name
HD_COMPUTE_LIST(DECLARE_TABLE)
FILL(avx512)
DERIVATIVES(avx512)
static void use_avx512(void) {
    table->isa = "avx512";
    HD_COMPUTE_LIST(USE_TABLE)
    USE_DERIVATIVES(avx512)
    hd_fill_memory_avx512(table);
    hd_fill_gemm_avx512(table);
    hd_fill_norm_avx512(table);
    hd_fill_attention_avx512(table);
    hd_fill_winograd_avx512(table);
    hd_fill_patch_avx512(table);
    hd_fill_random_avx512(table);
    hd_fill_scan_avx512(table);
    hd_fill_update_avx512(table);
}
#undef ISA_TABLE
#endif

#ifdef HD_HAS_AMX
void hd_fill_parts_amx(hd_cpu_kernels *);
/* The processor has a matrix unit, and the system lets this process use it. */
static bool has_amx(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & 1u << 22) == 0 || (d & 1u << 24) == 0) return false;
    return hd_os_use_matrix_unit();
}
#endif

#ifdef HD_HAS_AVX2
static bool has_avx2(void) { /* with all that the build's flags for this set allow the compiler to use */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

static void choose_isa(void) {
    const hd_isa most = hd_environment_isa();
    (void)most;
#if defined(HD_HAS_AVX512) && defined(HD_HAS_AVX2)
    if (most >= HD_ISA_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_avx2()) {
        use_avx512();
#ifdef HD_HAS_AMX
        if (most >= HD_ISA_AMX && has_amx()) {
            table->isa = "amx";
            hd_fill_parts_amx(table);
        }
#endif
        return;
    }
#endif
#ifdef HD_HAS_AVX2
    if (most >= HD_ISA_AVX2 && has_avx2()) {
        use_avx2();
        return;
    }
#endif
    use_baseline();
}

const char *hd_cpu_isa(void) {
    pthread_once(&table_once, choose_isa);
    return table->isa;
}

/* ---- the executor ------------------------------------------------------------------------------------------------ */
hd_error hd_cpu_outputs(hd_thread *thread, hd_call *call) {
    if (call->given) return HD_OK;
    for (int i = 0; i < call->output_count; ++i) {
        call->outputs[i] = hd_tensor_new(thread, call->dtype[i], &call->shape[i]);
        if (__builtin_expect(call->outputs[i] != NULL, 1)) continue;
        while (i-- > 0) hd_tensor_drop(thread, call->outputs[i]);
        return thread->error_code;
    }
    return HD_OK;
}

void hd_cpu_drop_outputs(hd_thread *thread, hd_call *call) {
    for (int i = 0; i < call->output_count && !call->given; ++i) hd_tensor_drop(thread, call->outputs[i]);
}

/* Views are another layout over the same memory; the call says which. */
static hd_error run_view(hd_thread *thread, hd_call *call) {
    call->outputs[0] = hd_tensor_over(thread, call->inputs[0]->storage, call->dtype[0], call->view);
    return call->outputs[0] != NULL ? HD_OK : thread->error_code;
}
#define VIEW(name)                                                                                                     \
    hd_error hd_cpu_##name(hd_thread *thread, hd_call *call) { return run_view(thread, call); }
VIEW(bitcast)
VIEW(reshape)
VIEW(permute)
VIEW(broadcast_to)
VIEW(slice)
VIEW(diagonal)
VIEW(unfold)
VIEW(as_strided)
VIEW(detach)

hd_error hd_cpu_fill_output(hd_thread *thread, hd_call *call,
                            hd_error (*fill)(hd_thread *thread, hd_call *call, hd_tensor *out)) {
    HD_TRY(hd_cpu_outputs(thread, call));
    const hd_error status = fill(thread, call, call->outputs[0]);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}

/* A cast and a copy are one walk over memory. */
static hd_error copy(hd_thread *thread, hd_call *call, hd_tensor *out) {
    return hd_cpu_copy(thread, out, call->inputs[0]);
}
hd_error hd_cpu_cast(hd_thread *thread, hd_call *call) { return hd_cpu_fill_output(thread, call, copy); }
hd_error hd_cpu_contiguous(hd_thread *thread, hd_call *call) { return hd_cpu_fill_output(thread, call, copy); }

static hd_error (*const runs[HD_FUSED_END])(hd_thread *thread, hd_call *call) = {
#define PRIMITIVE(name, ...) [HD_OP_##name] = hd_cpu_##name,
#include "ops/ops.def"
#define FUSED(name, ...) [HD_FUSED_##name] = hd_cpu_##name,
#include "ops/fused.def"
};

static hd_error cpu_run(hd_executor *self, hd_thread *thread, hd_call *call) {
    (void)self;
    const unsigned id = call->op->id;
    return id < HD_OP_ELEMENTWISE_COUNT ? hd_cpu_elementwise(thread, call) : runs[id](thread, call);
}

/* All that the tables have. */
static bool cpu_supports(const hd_op *op, hd_dtype dtype) {
    return (op->id < HD_OP_ELEMENTWISE_COUNT || runs[op->id] != NULL) && hd_op_takes(op, dtype);
}

/* Borrowed memory may lie in two storages. */
static bool may_overlap(const hd_storage *a, const hd_storage *b) {
    const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return a == b || (x < y + b->bytes && y < x + a->bytes);
}

static hd_error cpu_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    if (!may_overlap(dst->storage, src->storage)) return hd_cpu_copy(thread, dst, src);
    hd_tensor *copy = hd_tensor_new(thread, (hd_dtype)src->dtype, &src->layout.shape); /* as if src were copied first */
    if (copy == NULL) return thread->error_code;
    hd_error status = hd_cpu_copy(thread, copy, src);
    if (status == HD_OK) status = hd_cpu_copy(thread, dst, copy);
    hd_tensor_drop(thread, copy);
    return status;
}

static hd_executor executor = {.name = "cpu", .run = cpu_run, .write = cpu_write, .update = hd_cpu_update};

static int cpu_count(void) { return 1; }
static hd_executor *cpu_executor(int index) {
    (void)index;
    pthread_once(&table_once, choose_isa);
    return &executor;
}
static hd_error cpu_synchronize(hd_thread *thread, int index) {
    (void)thread, (void)index;
    return HD_OK;
}
static void cpu_peak(int index, double *gflops, double *gbytes) {
    (void)index;
    hd_cpu_peak(gflops, gbytes);
}

/* The processor's own text (cpuid), or what the system knows of it, or its kind. */
static void cpu_name(char *out, size_t capacity) {
    char text[64] = "";
#if defined(__x86_64__)
    uint32_t words[12] = {0}; /* three leaves of 16 letters */
    bool told = true;
    for (unsigned i = 0; i < 3; ++i)
        told = told &&
               __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    if (told) memcpy(text, words, sizeof words);
#else
    hd_os_processor_text(text, sizeof text);
#endif
    const char *name = text + strspn(text, " ");
    size_t length = strcspn(name, "\n");
    while (length > 0 && name[length - 1] == ' ') length--;
    snprintf(out, capacity, "%.*s", length > 0 ? (int)length : 3, length > 0 ? name : "CPU");
}
static void cpu_describe(int index, hd_device_info *out) {
    uint64_t memory, swap;
    (void)index;
    hd_os_memory(&memory, &swap);
    *out = (hd_device_info){.memory_bytes = (size_t)memory, .units = hd_os_processors(), .has_f64 = true};
    cpu_name(out->name, sizeof out->name);
}

static hd_error cpu_memory(int index, hd_memory_stats *out) {
    (void)index;
    *out = hd_memory();
    return HD_OK;
}
static hd_error cpu_keep(int index, const size_t *most) {
    (void)index;
    if (most != NULL)
        hd_memory_set_limit(*most);
    else
        hd_memory_trim_here();
    return HD_OK;
}

const hd_device_interface hd_cpu_interface = {.name = "cpu",
                                              .count = cpu_count,
                                              .executor = cpu_executor,
                                              .synchronize = cpu_synchronize,
                                              .supports = cpu_supports,
                                              .peak = cpu_peak,
                                              .describe = cpu_describe,
                                              .memory = cpu_memory,
                                              .keep = cpu_keep};
