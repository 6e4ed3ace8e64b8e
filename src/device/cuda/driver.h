/* Inside this folder: a GPU of NVIDIA's, and what each file does with it. */
#ifndef HD_DEVICE_CUDA_DRIVER_H
#define HD_DEVICE_CUDA_DRIVER_H

#include "device/cuda/list.h"
#include "device/gpu.h"
#include "device/heap.h"
#include "device/staging.h"

#include <pthread.h>

typedef struct hd_cuda_blas hd_cuda_blas; /* cuBLASLt's handle and what is known of products: blas.c */

typedef struct hd_cuda_device {
    /* known from the beginning */
    hd_device device;
    int ordinal;
    int major, minor; /* of what it can do: 9.0 */
    char key[96];
    hd_gpu_limits limits;
    /* made at first use, and never released */
    pthread_mutex_t lock; /* of its making */
    _Atomic bool started;
    hd_cu_context *context; /* the primary one, which other libraries in the process share */
    hd_cu_stream *stream;   /* all work, in order */
    hd_cu_event *begin, *end;
    pthread_mutex_t timing; /* of these two */
    _Atomic(hd_cuda_blas *) blas;
    /* what has made it useless: a function, and its status */
    _Atomic(const char *) lost_in;
    _Atomic int lost_by;
    hd_heap heap;       /* its memory */
    hd_staging staging; /* and what copies go through */
} hd_cuda_device;

/* ---- driver.c ---------------------------------------------------------------------------------------------------- */
extern hd_cu_functions hd_cu; /* filled in with the first device that is used */
/* What it is, without opening it; NULL with an error. */
const hd_gpu_limits *hd_cuda_limits(int index);
hd_heap *hd_cuda_heap(int index);
/* One that can be worked with, opened at the first call; NULL with an error. The second makes its context this
 * thread's, which almost all functions of the driver need. */
hd_cuda_device *hd_cuda_device_open(int index);
hd_cuda_device *hd_cuda_device_at(int index);
/* Why a device that is listed cannot be opened; NULL: it can. Ops run there then. */
const char *hd_cuda_lacks(int index);
hd_error hd_cuda_synchronize(hd_thread *thread, int index);

/* ---- status.c ---------------------------------------------------------------------------------------------------- */
/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)". */
enum { HD_CU_STATUS_TEXT = 160 };
const char *hd_cu_status_text(char out[HD_CU_STATUS_TEXT], int status);
/* What a function of the driver gave, as an error of ours. After some statuses the device is lost. */
hd_error hd_cuda_check(hd_cuda_device *d, int status, const char *function);
hd_error hd_cuda_check_lost(hd_cuda_device *d);

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */
hd_block *hd_cuda_allocate(hd_thread *thread, int index, size_t bytes);
void hd_cuda_recycle(hd_thread *thread, hd_block *block);
hd_error hd_cuda_copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes);
hd_error hd_cuda_fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count);
void hd_cuda_begin_heap(hd_cuda_device *d);
void hd_cuda_begin_staging(hd_cuda_device *d);
/* When a command could not have its memory: makes room, and says whether to try once more. */
bool hd_cuda_try_again(hd_cuda_device *d, int status, int attempt);

/* ---- library.c --------------------------------------------------------------------------------------------------- */
/* Opens one of CUDA's libraries by the path in `variable` when that is set, by any of these names where the system
 * looks, in the toolkit's folder, or in packages of Python's. NULL, and `missing` says why and what to do. */
typedef struct hd_cuda_library_place {
    const char *variable, *what, *remedy;
    const char *names[4];    /* "libnvrtc.so.13", ..., NULL */
    const char *packages[4]; /* "nvidia/cu13/lib", ..., NULL */
} hd_cuda_library_place;
void *hd_cuda_library_open(const hd_cuda_library_place *place, char *missing, size_t capacity);

/* ---- program.c --------------------------------------------------------------------------------------------------- */
hd_error hd_cuda_compile(int index, const char *name, const char *text, void **object, size_t *bytes);
hd_gpu_program *hd_cuda_load(int index, const void *object, size_t bytes);
void hd_cuda_unload(hd_gpu_program *program);
hd_gpu_function *hd_cuda_function(hd_gpu_program *program, const char *name);
hd_error hd_cuda_launch(int index, const hd_gpu_launch *l);
/* What a launch passes, as the driver takes it: points into the launch, whose offsets it sets. */
enum { HD_CUDA_PARAMETERS = 129 };
hd_error hd_cuda_parameters(const hd_gpu_launch *l, void *out[HD_CUDA_PARAMETERS]);
hd_cu_function *hd_cuda_handle(const hd_gpu_function *f);

/* ---- blas.c ------------------------------------------------------------------------------------------------------ */
hd_error hd_cuda_lacks_products(int index, const char **why);
hd_error hd_cuda_product(int index, const hd_gpu_matrices *p, bool *taken);

/* ---- recording.c ------------------------------------------------------------------------------------------------- */
/* The stream of commands: the device's, or that of what this thread records. */
hd_cu_stream *hd_cuda_stream(const hd_cuda_device *d);
/* Keeps a block for what this thread records, if it does. */
hd_error hd_cuda_keep_for_recording(hd_block *block);
/* Which of the lanes of a recording commands go to: what is in one workspace must not run at the same time. */
enum { HD_CUDA_LANES = 8 };
int hd_cuda_lane(const hd_cuda_device *d);
hd_error hd_cuda_record(int index);
hd_error hd_cuda_step(int index, uint32_t step, const uint32_t *after, uint32_t count);
hd_error hd_cuda_recorded(int index, hd_gpu_recording **out);
hd_error hd_cuda_mark(hd_cuda_device *d, uint32_t *mark); /* the launch that was enqueued last */
hd_error hd_cuda_relaunch(hd_gpu_recording *r, uint32_t mark, const hd_gpu_launch *l);
hd_error hd_cuda_replay(hd_gpu_recording *r);
void hd_cuda_forget(hd_thread *thread, hd_gpu_recording *r);

#endif
