/* Programs of CUDA: text to machine code by NVRTC, which is opened at the first text that is not cached; machine code
 * to functions; their launches. */
#include "core/os.h"
#include "device/cuda/driver.h"
#include "device/program.h"

#include <stdio.h>
#include <string.h>

struct hd_gpu_function {
    hd_gpu_program *program;
    hd_cu_function *handle;
    size_t group_most;
    hd_gpu_function *next;
    char name[];
};
struct hd_gpu_program {
    hd_cuda_device *device;
    hd_cu_module *handle;
    pthread_mutex_t lock;
    hd_gpu_function *functions; /* under the lock */
};

static const char object_mark[] = "hoducu1";
enum { COMPILER_STACK = 16 << 20 };

/* ---- NVRTC ------------------------------------------------------------------------------------------------------- */
static struct {
    pthread_once_t once;
    bool is_open;
    int major, minor;
    char missing[400];
#define POINTER(name, full_name, parameters) int(*name) parameters;
    HD_NVRTC_FUNCTIONS(POINTER)
#undef POINTER
} nvrtc = {.once = PTHREAD_ONCE_INIT};

static void open_nvrtc(void) {
    static const hd_cuda_library_place place = {
        .variable = "HODU_NVRTC",
        .what = "NVRTC, which compiles CUDA's kernels",
        .remedy = "install CUDA's toolkit, or python3 -m pip install nvidia-cuda-nvrtc; HODU_NVRTC is its path",
        .names = {"libnvrtc.so.13", "libnvrtc.so.12", NULL},
        .packages = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", NULL}};
    const char *lacks = NULL;
    void *library = hd_cuda_library_open(&place, nvrtc.missing, sizeof nvrtc.missing);
    if (library == NULL) return;
#define TAKE(name, full_name, parameters)                                                                              \
    *(void **)&nvrtc.name = hd_os_library_symbol(library, full_name);                                                  \
    if (nvrtc.name == NULL && lacks == NULL) lacks = full_name;
    HD_NVRTC_FUNCTIONS(TAKE)
#undef TAKE
    if (lacks != NULL)
        snprintf(nvrtc.missing, sizeof nvrtc.missing, "the NVRTC that is here has no %s: it is older than CUDA 12",
                 lacks);
    else if (nvrtc.version(&nvrtc.major, &nvrtc.minor) != 0)
        snprintf(nvrtc.missing, sizeof nvrtc.missing, "the NVRTC that is here does not tell its version");
    else
        nvrtc.is_open = true;
}

/* What the compiler said; to be released. NULL: nothing, or there is no memory. */
static char *read_log(hd_nvrtc_program *program) {
    size_t bytes = 0;
    if (nvrtc.log_bytes(program, &bytes) != 0 || bytes < 2) return NULL;
    char *log = hd_array_resize(NULL, bytes + 1);
    if (log == NULL || nvrtc.log(program, log) != 0) {
        hd_array_release(log);
        return NULL;
    }
    log[bytes] = '\0';
    return log;
}

static hd_error nvrtc_failed(const hd_cuda_device *d, int status, const char *function) {
    enum { INVALID_OPTION = 5 };
    const bool is_short = status == HD_NVRTC_OUT_OF_MEMORY;
    return hd_fail(is_short ? HD_ERROR_MEMORY : HD_ERROR_DEVICE, "%s: %s gives %d (NVRTC %d.%d)%s",
                   hd_device_text((char[32]){0}, d->device), function, status, nvrtc.major, nvrtc.minor,
                   is_short ? ": it has no memory"
                   : status == INVALID_OPTION
                       ? ": it is older than this GPU; install a newer one, HODU_NVRTC is its path"
                       : "; another version of it may do, HODU_NVRTC is its path");
}

/* NVRTC takes more stack than a thread of the user's may have. */
typedef struct compilation {
    hd_nvrtc_program *program;
    const char *const *options;
    int count, status;
} compilation;
static void *compile_here(void *of) {
    compilation *c = of;
    c->status = nvrtc.program_compile(c->program, c->count, c->options);
    return NULL;
}
static int compile_on_thread(compilation *c) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) return HD_NVRTC_OUT_OF_MEMORY;
    const bool started = pthread_attr_setstacksize(&attributes, COMPILER_STACK) == 0 &&
                         pthread_create(&thread, &attributes, compile_here, c) == 0;
    pthread_attr_destroy(&attributes);
    if (!started) return HD_NVRTC_OUT_OF_MEMORY;
    pthread_join(thread, NULL);
    return c->status;
}

/* Words are written as C is, where sums of products are rounded once. */
static int compile_program(const hd_cuda_device *d, hd_nvrtc_program *program) {
    char architecture[48];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%d%s", d->major, d->minor,
             d->major >= 9 ? "a" : "");
    const char *const options[] = {architecture, "--std=c++17", "-w", "--minimal"};
    return compile_on_thread(&(compilation){program, options, nvrtc.major >= 13 ? 4 : 3, 0});
}

static hd_error take_object(const hd_cuda_device *d, hd_nvrtc_program *program, void **object, size_t *bytes) {
    size_t length = 0;
    int status = nvrtc.object_bytes(program, &length);
    if (status != 0 || length == 0) return nvrtc_failed(d, status, "nvrtcGetCUBINSize");
    hd_gpu_object *all = hd_gpu_object_new(length);
    if (all == NULL) return HD_ERROR_MEMORY;
    status = nvrtc.object(program, (char *)all->bytes);
    if (status != 0) {
        hd_array_release(all);
        return nvrtc_failed(d, status, "nvrtcGetCUBIN");
    }
    hd_gpu_object_seal(all, object_mark, length);
    *object = all;
    *bytes = sizeof *all + length;
    return HD_OK;
}

hd_error hd_cuda_compile(int index, const char *name, const char *text, void **object, size_t *bytes) {
    *object = NULL;
    *bytes = 0;
    hd_cuda_device *d = hd_cuda_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    pthread_once(&nvrtc.once, open_nvrtc);
    if (!nvrtc.is_open)
        return hd_fail(HD_ERROR_DEVICE, "%s: %s", hd_device_text((char[32]){0}, d->device), nvrtc.missing);
    hd_nvrtc_program *program = NULL;
    int status = nvrtc.program_new(&program, text, "kernel.cu", 0, NULL, NULL);
    if (status != 0) return nvrtc_failed(d, status, "nvrtcCreateProgram");
    status = compile_program(d, program);
    hd_error error;
    if (status == 0) {
        error = take_object(d, program, object, bytes);
    } else if (status == HD_NVRTC_DOES_NOT_COMPILE) {
        char *log = read_log(program);
        error = hd_gpu_does_not_compile(d->device, name, "cu", text, log);
        hd_array_release(log);
    } else {
        error = nvrtc_failed(d, status, "nvrtcCompileProgram");
    }
    nvrtc.program_release(&program);
    return error;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
hd_gpu_program *hd_cuda_load(int index, const void *object, size_t bytes) {
    size_t count = 0;
    hd_cuda_device *d = hd_cuda_device_at(index);
    const unsigned char *image = d == NULL ? NULL : hd_gpu_object_open(object_mark, "CUDA's", object, bytes, &count);
    if (image == NULL) return NULL;
    hd_gpu_program *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a program of %s", hd_device_text((char[32]){0}, d->device));
        return NULL;
    }
    *p = (hd_gpu_program){.device = d};
    int status, attempt = 0;
    do status = hd_cu.module_load(&p->handle, image);
    while (hd_cuda_try_again(d, status, attempt++));
    if (hd_cuda_check(d, status, "cuModuleLoadData") == HD_OK) {
        pthread_mutex_init(&p->lock, NULL);
        return p;
    }
    hd_array_release(p);
    return NULL;
}

/* Launches of it may be under way, and end with the process at the latest. */
void hd_cuda_unload(hd_gpu_program *p) {
    if (p == NULL) return;
    while (p->functions != NULL) {
        hd_gpu_function *f = p->functions;
        p->functions = f->next;
        hd_array_release(f);
    }
    if (hd_cuda_is_here()) {
        hd_cu.context_set(p->device->context);
        hd_cu.stream_synchronize(p->device->stream);
        hd_cu.module_unload(p->handle);
    }
    pthread_mutex_destroy(&p->lock);
    hd_array_release(p);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
static hd_gpu_function *new_function(hd_gpu_program *p, const char *name) {
    hd_cuda_device *d = p->device;
    int most = 0;
    hd_gpu_function *f = hd_array_resize(NULL, sizeof *f + strlen(name) + 1);
    if (f == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the kernel %.100s", name);
        return NULL;
    }
    *f = (hd_gpu_function){.program = p};
    strcpy(f->name, name);
    hd_error status = hd_cuda_check(d, hd_cu.module_function(&f->handle, p->handle, name), "cuModuleGetFunction");
    if (status == HD_OK)
        status = hd_cuda_check(d, hd_cu.function_attribute(&most, HD_CU_FUNCTION_GROUP_MOST, f->handle),
                               "cuFuncGetAttribute");
    f->group_most = (size_t)most;
    if (status == HD_OK) return f;
    hd_array_release(f);
    return NULL;
}

hd_gpu_function *hd_cuda_function(hd_gpu_program *p, const char *name) {
    if (hd_cuda_device_at(p->device->device.index) == NULL) return NULL;
    pthread_mutex_lock(&p->lock);
    hd_gpu_function *f = p->functions;
    while (f != NULL && strcmp(f->name, name) != 0) f = f->next;
    if (f == NULL && (f = new_function(p, name)) != NULL) {
        f->next = p->functions;
        p->functions = f;
    }
    pthread_mutex_unlock(&p->lock);
    return f;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
hd_cu_function *hd_cuda_handle(const hd_gpu_function *f) { return f->handle; }

/* A kernel takes addresses as they are: all offsets are 0. */
hd_error hd_cuda_parameters(const hd_gpu_launch *l, void *out[HD_CUDA_PARAMETERS]) {
    if (l->buffer_count >= HD_CUDA_PARAMETERS)
        return hd_fail(HD_ERROR_INTERNAL, "a launch of %d buffers", l->buffer_count);
    for (int i = 0; i < l->buffer_count; ++i) out[i] = (void *)(uintptr_t)&l->buffers[i];
    out[l->buffer_count] = l->arguments;
    memset(l->arguments, 0, (size_t)l->buffer_count * sizeof(int64_t));
    return HD_OK;
}

static hd_error enqueue(hd_cuda_device *d, const hd_gpu_launch *l) {
    void *parameters[HD_CUDA_PARAMETERS];
    HD_TRY(hd_cuda_parameters(l, parameters));
    int status, attempt = 0;
    do
        status = hd_cu.launch(l->function->handle, l->groups[0], l->groups[1], l->groups[2], l->threads[0],
                              l->threads[1], l->threads[2], 0, hd_cuda_stream(d), parameters, NULL);
    while (hd_cuda_try_again(d, status, attempt++));
    HD_TRY(hd_cuda_check(d, status, "cuLaunchKernel"));
    return __builtin_expect(l->mark != NULL, 0) ? hd_cuda_mark(d, l->mark) : HD_OK;
}

static hd_error take_time(hd_cuda_device *d, const hd_gpu_launch *l) {
    float milliseconds = 0;
    if (hd_cuda_stream(d) != d->stream) return hd_fail(HD_ERROR_INTERNAL, "what is recorded takes no time yet");
    HD_TRY(hd_cuda_check(d, hd_cu.event_record(d->begin, d->stream), "cuEventRecord"));
    HD_TRY(enqueue(d, l));
    HD_TRY(hd_cuda_check(d, hd_cu.event_record(d->end, d->stream), "cuEventRecord"));
    HD_TRY(hd_cuda_check(d, hd_cu.event_synchronize(d->end), "cuEventSynchronize"));
    HD_TRY(hd_cuda_check(d, hd_cu.event_time(&milliseconds, d->begin, d->end), "cuEventElapsedTime"));
    *l->nanoseconds = (int64_t)((double)milliseconds * 1e6);
    return HD_OK;
}

hd_error hd_cuda_launch(int index, const hd_gpu_launch *l) {
    if (l->nanoseconds != NULL) *l->nanoseconds = 0;
    hd_cuda_device *d = hd_cuda_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    if (l->groups[0] == 0 || l->groups[1] == 0 || l->groups[2] == 0) return HD_OK;
    const hd_gpu_function *f = l->function;
    HD_TRY(hd_gpu_check_launch(d->device, f->name, f->program->device == d, f->group_most, l));
    if (l->nanoseconds == NULL) return enqueue(d, l);
    pthread_mutex_lock(&d->timing);
    const hd_error status = take_time(d, l);
    pthread_mutex_unlock(&d->timing);
    return status;
}
