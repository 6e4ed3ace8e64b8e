/* What a GPU-shaped device gives beside its memory (core/device.h): programs from text, and launches of their
 * functions. Everything is enqueued in the order of one queue of the device; what is enqueued later sees what was
 * written before, and freed memory may be given out again at once. */
#ifndef HD_DEVICE_GPU_H
#define HD_DEVICE_GPU_H

#include "core/device.h"

typedef struct hd_gpu_program hd_gpu_program;     /* what a driver has loaded */
typedef struct hd_gpu_function hd_gpu_function;   /* one of its kernels; lives as long as its program */
typedef struct hd_gpu_recording hd_gpu_recording; /* launches that are enqueued as a whole */

typedef struct hd_gpu_limits {
    const char *key;         /* device and driver: objects of the same key can be loaded here */
    uint32_t group_most;     /* threads of a group */
    uint32_t subgroup;       /* threads that run in step; 1: not known */
    uint32_t local_bytes;    /* memory that a group shares */
    uint32_t argument_bytes; /* of a launch: its buffers, 8 bytes each, and its arguments */
    uint32_t processors;     /* that run groups at the same time */
    bool has_f64, has_atomic_64;
    bool has_warp_words; /* of CUDA, from compute capability 8.0 on: those of kernel/template_warp_words.h */
} hd_gpu_limits;

/* A launch of groups x threads. The parameters of a kernel are its buffers, then one struct by value. That begins with
 * an i64 for each buffer, which the device fills in: the bytes from the begin of the memory object to the address. */
typedef struct hd_gpu_launch {
    hd_gpu_function *function;
    uint32_t groups[3], threads[3];
    void *const *buffers; /* addresses in its memory, also inside of blocks; NULL: none */
    int buffer_count;
    void *arguments;
    size_t argument_bytes;
    int64_t *nanoseconds; /* NULL, or where the time it took is put; then it is waited for */
    uint32_t *mark;       /* NULL, or, while recording, where the number is put by which `relaunch` knows it */
} hd_gpu_launch;

/* A product that a library of the device's may compute: for each of the batches, result [m, n] = a [m, k] b [k, n] +
 * bias [n]. Strides are in elements; the columns of the result are neighbours. */
typedef struct hd_gpu_matrices {
    hd_dtype operands, result, bias_dtype; /* both operands have the same */
    bool is_tf32;                          /* operands of f32 may be rounded to TF32 */
    int64_t m, n, k, batches;
    int64_t a_row, a_column, b_row, b_column, row;
    int64_t a_batch, b_batch, batch; /* from one matrix to the next */
    void *a, *b, *bias, *to;         /* addresses; no bias: NULL */
    int64_t *nanoseconds;            /* as of a launch */
} hd_gpu_matrices;

typedef struct hd_gpu_interface {
    hd_device_kind kind;
    const hd_gpu_limits *(*limits)(int index);
    /* Text to an object that can be loaded by any process with the same key; from hd_array_resize. An error has the
     * end of the compiler's log, and says where the text was saved. `name` is for messages. */
    hd_error (*compile)(int index, const char *name, const char *text, void **object, size_t *bytes);
    hd_gpu_program *(*load)(int index, const void *object, size_t bytes); /* NULL with an error */
    void (*unload)(hd_gpu_program *program);                              /* also while launches of it are under way */
    hd_gpu_function *(*function)(hd_gpu_program *program, const char *name); /* NULL with an error */
    hd_error (*launch)(int index, const hd_gpu_launch *l);
    /* What this thread enqueues from `record` to `recorded` is not run, but kept, with all memory that is allocated
     * meanwhile; no byte of the host may be read or written there. `out` NULL: it is given up. NULL where a device
     * cannot. */
    hd_error (*record)(int index);
    /* While recording: what follows is this step (0, 1, ...), which needs those earlier ones alone. Before the first
     * call all is in order. */
    hd_error (*step)(int index, uint32_t step, const uint32_t *after, uint32_t count);
    hd_error (*recorded)(int index, hd_gpu_recording **out);
    /* What a marked launch passes from the next replay on; its function and groups stay what they are. */
    hd_error (*relaunch)(hd_gpu_recording *recording, uint32_t mark, const hd_gpu_launch *l);
    hd_error (*replay)(hd_gpu_recording *recording);
    void (*forget)(hd_thread *thread, hd_gpu_recording *recording);
    /* Products of a library; both NULL where a device has none. Why there are none here: *why NULL, there are. */
    hd_error (*lacks_products)(int index, const char **why);
    /* Enqueues it; *taken false: it is none that the library computes, which is the same for the same numbers, dtypes
     * and alignments every time. */
    hd_error (*product)(int index, const hd_gpu_matrices *p, bool *taken);
} hd_gpu_interface;

#endif
