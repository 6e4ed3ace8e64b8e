/* Devices: one struct of functions each. */
#ifndef HD_CORE_DEVICE_H
#define HD_CORE_DEVICE_H

#include "core/execute.h"

/* A point in the memory of a device. */
typedef struct hd_address {
    hd_device device;
    void *pointer;
} hd_address;

typedef struct hd_device_interface {
    const char *name;
    int (*count)(void);                  /* opens its driver at the first call; 0: there is none */
    const char *(*missing)(void);        /* why there is none, and what to do; NULL: there always is one */
    hd_executor *(*executor)(int index); /* NULL: ops do not run there, only what a compiler brings there */
    /* Waits for all that was asked of it, and says what went wrong on the way. */
    hd_error (*synchronize)(hd_thread *thread, int index);
    /* True when it runs calls of this op that compute in this dtype. */
    bool (*supports)(const hd_op *op, hd_dtype dtype);
    /* What it can do at most: f32 arithmetic, and reading and writing its memory. Measured the first time. */
    void (*peak)(int index, double *gflops, double *gbytes);
    /* Memory of its own: hd_block_away; NULL with an error. `recycle` gets what nobody uses any more. */
    hd_block *(*allocate)(hd_thread *thread, int index, size_t bytes);
    void (*recycle)(hd_thread *thread, hd_block *block);
    /* Bytes from and to its memory, in the order of what it was asked before; host memory is read, and written, when
     * the call returns. */
    hd_error (*copy)(hd_thread *thread, hd_address to, hd_address from, size_t bytes);
    /* `count` times an element of `size` bytes (1, 2, 4 or 8) into its memory, in that order, too. */
    hd_error (*fill)(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count);
    /* What hd_device_describe says. */
    void (*describe)(int index, hd_device_info *out);
    /* Figures of its memory. NULL, and so is the next: it has none of its own. */
    hd_error (*memory)(int index, hd_memory_stats *out);
    /* Gives back what is kept of it for reuse. With `most`, only when that is more bytes; as many are kept at most from
     * now on. */
    hd_error (*keep)(int index, const size_t *most);
} hd_device_interface;

/* Kinds that programs do not name: a device that tests bring. */
enum { HD_DEVICE_TEST = HD_DEVICE_KINDS, HD_DEVICE_KINDS_KNOWN };
/* That of a kind of device; NULL: nobody has registered one. */
const hd_device_interface *hd_device_interface_of(hd_device_kind kind);
void hd_device_register(int kind, const hd_device_interface *interface);
/* In place of a device that is not there: an error for every call. */
hd_executor *hd_no_executor(void);

/* A thread begins with the device that HODU_DEVICE names, else the CPU. */
void hd_device_begin(hd_thread *thread);
/* "cuda:0" into a buffer of 32 bytes. */
const char *hd_device_text(char *out, hd_device device);

/* Checks that ops run on a device; the error says why not. */
hd_error hd_device_check(hd_device device);
/* Why this machine does not have the device, whoever would run there; NULL: it has. The text may lie in `out`. */
enum { HD_DEVICE_REASON = 256 };
const char *hd_device_absent(char out[HD_DEVICE_REASON], hd_device device);
/* Likewise, why ops do not run there: what hd_device_missing says. */
const char *hd_device_runs_no_ops(char out[HD_DEVICE_REASON], hd_device device);

/* The executor that runs calls on a device; NULL when it is not there, or runs none. */
hd_executor *hd_device_executor(hd_device device);

/* What hd_synchronize calls beside the device: whoever runs work of its own there waits for it. */
void hd_also_synchronize(void (*wait)(void));

#endif
