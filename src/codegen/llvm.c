/* Kernels to machine code through LLVM, in this process: in that of server.h, and in tests. The library is opened when
 * it is first needed; every compilation has a context of its own and a target machine to itself, so that several
 * threads can compile at once. LLVM ends its process when memory runs out. */
#include "codegen/server.h"

#if HD_HAS_LLVM
#include "codegen/llvm_emit.h"
#include "core/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hd_llvm_functions hd_llvm;

enum { MACHINES = 64 }; /* kept for later, beyond what runs at once */
#ifdef NDEBUG
enum { CHECKED = 0 };
#else
enum { CHECKED = 1 };
#endif
static struct {
    pthread_mutex_t lock;
    bool tried;
    hd_error why_code;
    char why_not[512]; /* empty: it is there */
    char *triple, *cpu, *features;
    LLVMTargetRef kind;
    LLVMTargetMachineRef free[MACHINES];
    int free_count;
} llvm = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- opening the library ----------------------------------------------------------------------------------------- */
const char *hd_llvm_out_of_reach(void) {
    if (hd_os_has_loader()) return NULL;
    return "a statically linked program cannot open LLVM; HODU_RENDERER=c compiles with the C compiler, and level O0 "
           "compiles nothing";
}

/* Why a library was not opened: the loader says "memory", or that it could not map it, which may have other reasons. */
static bool memory_ran_out(const char *said) {
    enum { LIKE_LLVM = 1 << 28 };
    if (strstr(said, strerror(ENOMEM)) != NULL || strstr(said, "out of memory") != NULL) return true;
    if (strstr(said, "map") == NULL) return false;
    return !hd_os_could_map(LIKE_LLVM);
}

static void *open_named(const char *name) {
    char said[384];
    void *library = hd_os_library_open(name, said, sizeof said);
    if (library != NULL || !memory_ran_out(said)) return library;
    llvm.why_code = HD_ERROR_MEMORY;
    snprintf(llvm.why_not, sizeof llvm.why_not, "memory ran out while LLVM was opened: %s", said);
    return NULL;
}

static void say_where_it_was_looked_for(const char *chosen) {
    snprintf(llvm.why_not, sizeof llvm.why_not,
             "LLVM is not to be found: %s%s. Install LLVM 19 (Debian: libllvm19), or say where it is with "
             "HODU_LLVM=path; without it, HODU_RENDERER=c compiles with the C compiler, and level O0 compiles nothing",
             chosen != NULL ? "there is no library at HODU_LLVM="
                            : "looked for libLLVM-19.so.1, libLLVM.so.19.1 and libLLVM-19.so",
             chosen != NULL ? chosen : "");
}

static void *open_library(const char *chosen) {
    const char *names[] = {"libLLVM-19.so.1", "libLLVM.so.19.1", "libLLVM-19.so"};
    if (hd_llvm_out_of_reach() != NULL) { /* no loader: dlopen would bring a second C library, and crash in it */
        snprintf(llvm.why_not, sizeof llvm.why_not, "%s", hd_llvm_out_of_reach());
        return NULL;
    }
    if (chosen != NULL) names[0] = chosen;
    void *library = NULL;
    for (int i = 0; i < (chosen != NULL ? 1 : 3) && library == NULL && llvm.why_not[0] == '\0'; ++i)
        library = open_named(names[i]);
    if (library == NULL && llvm.why_not[0] == '\0') say_where_it_was_looked_for(chosen);
    return library;
}

static bool find_functions(void *library) {
    const char *missing = NULL;
#define HD_LLVM_FIND(name)                                                                                             \
    *(void **)&hd_llvm.name = hd_os_library_symbol(library, "LLVM" #name);                                             \
    if (hd_llvm.name == NULL) missing = "LLVM" #name;
    HD_LLVM_FUNCTIONS(HD_LLVM_FIND)
#undef HD_LLVM_FIND
    unsigned major = 0, minor = 0, patch = 0;
    if (missing == NULL) hd_llvm.GetVersion(&major, &minor, &patch);
    if (missing != NULL)
        snprintf(llvm.why_not, sizeof llvm.why_not, "the LLVM library has no %s: it is not version 19", missing);
    else if (major != 19)
        snprintf(llvm.why_not, sizeof llvm.why_not, "the LLVM library is version %u.%u.%u, not 19", major, minor,
                 patch);
    return llvm.why_not[0] == '\0';
}

/* What to compile for: this machine, or less of it when HODU_ISA says so, as for the eager kernels. */
static void choose_cpu(hd_isa most) {
    (void)most; /* elsewhere there is one set only */
    llvm.cpu = hd_llvm.GetHostCPUName();
    llvm.features = hd_llvm.GetHostCPUFeatures();
#if defined(__x86_64__)
    if (most <= HD_ISA_AVX2) {
        hd_llvm.DisposeMessage(llvm.cpu);
        hd_llvm.DisposeMessage(llvm.features);
        llvm.cpu = most == HD_ISA_BASELINE ? "x86-64" : "x86-64-v3";
        llvm.features = most == HD_ISA_BASELINE ? "" : "+avx2,+fma,+f16c";
    }
#elif defined(__aarch64__)
    /* Kernels' vectors have a fixed length, which is NEON's; SVE's is the machine's. It comes with a processor's name,
     * too. */
    static char features[2048];
    const bool baseline = most == HD_ISA_BASELINE;
    snprintf(features, sizeof features, "%s%s-sve", baseline ? "" : llvm.features,
             baseline || llvm.features[0] == '\0' ? "" : ",");
    hd_llvm.DisposeMessage(llvm.features);
    llvm.features = features;
    if (baseline) {
        hd_llvm.DisposeMessage(llvm.cpu);
        llvm.cpu = "generic";
    }
#endif
    char *given = hd_llvm.GetDefaultTargetTriple();
    llvm.triple = hd_llvm.NormalizeTargetTriple(given);
    hd_llvm.DisposeMessage(given);
}

static void load_once(const hd_llvm_order *order) {
    void *library = open_library(order->library);
    if (library == NULL || !find_functions(library)) return;
#define HD_LLVM_CALL(name) hd_llvm.name();
    HD_LLVM_TARGET(HD_LLVM_CALL)
#undef HD_LLVM_CALL
    choose_cpu(order->most);
    char *message = NULL;
    if (hd_llvm.GetTargetFromTriple(llvm.triple, &llvm.kind, &message)) {
        snprintf(llvm.why_not, sizeof llvm.why_not, "LLVM cannot compile for %s: %s", llvm.triple, message);
        hd_llvm.DisposeMessage(message);
    }
}

static hd_error load_llvm(const hd_llvm_order *order, int64_t *nanoseconds) {
    const int64_t start = hd_os_nanoseconds();
    pthread_mutex_lock(&llvm.lock);
    const bool first = !llvm.tried;
    llvm.why_code = first ? HD_ERROR_DEVICE : llvm.why_code;
    llvm.tried = true;
    if (first) load_once(order);
    pthread_mutex_unlock(&llvm.lock);
    *nanoseconds = first ? hd_os_nanoseconds() - start : 0;
    return llvm.why_not[0] == '\0' ? HD_OK : hd_fail(llvm.why_code, "%s", llvm.why_not);
}

/* ---- target machines: one to each compilation that runs ---------------------------------------------------------- */
static LLVMTargetMachineRef take_machine(void) {
    pthread_mutex_lock(&llvm.lock);
    LLVMTargetMachineRef machine = llvm.free_count > 0 ? llvm.free[--llvm.free_count] : NULL;
    pthread_mutex_unlock(&llvm.lock);
    if (machine != NULL) return machine;
    return hd_llvm.CreateTargetMachine(llvm.kind, llvm.triple, llvm.cpu, llvm.features, LLVMCodeGenLevelDefault,
                                       LLVMRelocPIC, LLVMCodeModelSmall);
}

static void give_machine_back(LLVMTargetMachineRef machine) {
    pthread_mutex_lock(&llvm.lock);
    const bool kept = llvm.free_count < MACHINES;
    if (kept) llvm.free[llvm.free_count++] = machine;
    pthread_mutex_unlock(&llvm.lock);
    if (!kept) hd_llvm.DisposeTargetMachine(machine);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static bool has_feature(const char *name) { return strstr(llvm.features, name) != NULL; }

static void set_types(hd_emitter *e) {
    LLVMContextRef c = e->context;
    e->i8 = hd_llvm.Int8TypeInContext(c);
    e->i16 = hd_llvm.Int16TypeInContext(c);
    e->i32 = hd_llvm.Int32TypeInContext(c);
    e->i64 = hd_llvm.Int64TypeInContext(c);
    e->f16 = hd_llvm.HalfTypeInContext(c);
    e->pointer = hd_llvm.PointerTypeInContext(c, 0);
    const LLVMTypeRef of_bytes[9] = {[1] = e->i8, [2] = e->i16, [4] = e->i32, [8] = e->i64};
    for (int type = 0; type < HD_COMPUTE_COUNT; ++type) e->types[type] = of_bytes[hd_compute_bytes(type)];
    e->types[HD_COMPUTE_F32] = hd_llvm.FloatTypeInContext(c);
    e->types[HD_COMPUTE_F64] = hd_llvm.DoubleTypeInContext(c);
    e->types[HD_CONDITION] = hd_llvm.Int1TypeInContext(c);
}

static void set_attributes(const hd_emitter *e) {
    const unsigned nounwind = hd_llvm.GetEnumAttributeKindForName("nounwind", 8);
    const unsigned all = (unsigned)LLVMAttributeFunctionIndex;
    hd_llvm.AddAttributeAtIndex(e->function, all, hd_llvm.CreateEnumAttribute(e->context, nounwind, 0));
    if (!has_feature("+avx512f")) return;
    static const char *const names[] = {"prefer-vector-width", "min-legal-vector-width"};
    for (int i = 0; i < 2; ++i)
        hd_llvm.AddAttributeAtIndex(
            e->function, all,
            hd_llvm.CreateStringAttribute(e->context, names[i], (unsigned)strlen(names[i]), "512", 3));
}

/* The module as an object or as assembly; NULL with an error. */
static LLVMMemoryBufferRef generate(LLVMTargetMachineRef machine, LLVMModuleRef module, LLVMCodeGenFileType kind) {
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (!hd_llvm.TargetMachineEmitToMemoryBuffer(machine, module, kind, &message, &buffer)) return buffer;
    hd_fail(HD_ERROR_INTERNAL, "LLVM does not compile a kernel: %s", message);
    hd_llvm.DisposeMessage(message);
    return NULL;
}

static hd_error copy_out(const char *from, size_t count, void **out, size_t *bytes) {
    *out = hd_array_resize(NULL, count + 1);
    if (*out == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for an object of %zu bytes", count);
    memcpy(*out, from, count);
    *bytes = count;
    return HD_OK;
}

static hd_error take_code(LLVMTargetMachineRef machine, LLVMModuleRef module, LLVMCodeGenFileType kind, void **out,
                          size_t *bytes) {
    LLVMMemoryBufferRef buffer = generate(machine, module, kind);
    if (buffer == NULL) return HD_ERROR_INTERNAL;
    const hd_error status = copy_out(hd_llvm.GetBufferStart(buffer), hd_llvm.GetBufferSize(buffer), out, bytes);
    hd_llvm.DisposeMemoryBuffer(buffer);
    return status;
}

/* For HODU_DUMP=llvm,asm. Generating code changes a module: assembly is made from a copy. */
static hd_error take_texts(const hd_llvm_order *order, LLVMTargetMachineRef machine, LLVMModuleRef module,
                           hd_llvm_made *made) {
    if (order->wants_ir) {
        char *text = hd_llvm.PrintModuleToString(module);
        const hd_error status = copy_out(text, strlen(text), &made->ir, &made->ir_bytes);
        hd_llvm.DisposeMessage(text);
        HD_TRY(status);
    }
    if (!order->wants_assembly) return HD_OK;
    LLVMModuleRef copy = hd_llvm.CloneModule(module);
    const hd_error status = take_code(machine, copy, LLVMAssemblyFile, &made->assembly, &made->assembly_bytes);
    hd_llvm.DisposeModule(copy);
    return status;
}

static hd_error check_module(LLVMModuleRef module) {
    char *message = NULL;
    hd_error status = HD_OK;
    if (hd_llvm.VerifyModule(module, LLVMReturnStatusAction, &message))
        status = hd_fail(HD_ERROR_INTERNAL, "a kernel became wrong LLVM IR: %.300s", message);
    hd_llvm.DisposeMessage(message);
    return status;
}

static void begin_module(hd_emitter *e, LLVMTargetMachineRef machine, const char *name) {
    e->context = hd_llvm.ContextCreate();
    e->module = hd_llvm.ModuleCreateWithNameInContext(name, e->context);
    e->builder = hd_llvm.CreateBuilderInContext(e->context);
    e->has_f16 = strncmp(llvm.triple, "aarch64", 7) == 0 || has_feature("+f16c");
    e->has_scale = has_feature("+avx512f");
    e->least_masked = has_feature("+avx512bw") ? 1 : has_feature("+avx2") ? 4 : 16;
    set_types(e);
    LLVMTargetDataRef layout = hd_llvm.CreateTargetDataLayout(machine);
    hd_llvm.SetModuleDataLayout(e->module, layout);
    hd_llvm.DisposeTargetData(layout);
    hd_llvm.SetTarget(e->module, llvm.triple);
    LLVMTypeRef parameters[4] = {e->pointer, e->pointer, e->pointer, e->pointer};
    e->function = hd_llvm.AddFunction(
        e->module, name, hd_llvm.FunctionType(hd_llvm.VoidTypeInContext(e->context), parameters, 4, false));
    set_attributes(e);
}

static void end_module(hd_emitter *e) {
    hd_emit_release_programs(e);
    hd_llvm.DisposeBuilder(e->builder);
    hd_llvm.DisposeModule(e->module);
    hd_llvm.ContextDispose(e->context);
}

static hd_error llvm_compile(hd_emitter *e, LLVMTargetMachineRef machine, const hd_llvm_order *order,
                             hd_llvm_made *made) {
    HD_TRY(hd_emit_kernel(e));
    if (CHECKED) HD_TRY(check_module(e->module));
    HD_TRY(take_texts(order, machine, e->module, made));
    return take_code(machine, e->module, LLVMObjectFile, &made->object, &made->object_bytes);
}

hd_error hd_llvm_compile(const hd_llvm_order *order, const hd_kernel *k, hd_llvm_made *made) {
    memset(made, 0, sizeof *made);
    HD_TRY(load_llvm(order, &made->load_nanoseconds));
    if (k->schedule.width < 2 || k->schedule.width > HD_EMIT_LANES)
        return hd_fail(HD_ERROR_INTERNAL, "a kernel of %d lanes", k->schedule.width);
    hd_emitter *e = hd_array_resize(NULL, sizeof *e);
    if (e == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to compile a kernel of %d steps", k->count);
    memset(e, 0, sizeof *e);
    e->k = k;
    LLVMTargetMachineRef machine = take_machine();
    hd_error status = HD_OK;
    if (machine != NULL) {
        begin_module(e, machine, order->name);
        status = llvm_compile(e, machine, order, made);
        end_module(e);
        give_machine_back(machine);
    } else {
        status = hd_fail(HD_ERROR_INTERNAL, "LLVM knows no such machine: %s", llvm.cpu);
    }
    hd_array_release(e);
    return status;
}

void hd_llvm_release(hd_llvm_made *made) {
    hd_array_release(made->object);
    hd_array_release(made->ir);
    hd_array_release(made->assembly);
    memset(made, 0, sizeof *made);
}
#endif
