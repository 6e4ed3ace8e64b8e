/* Devices: one struct of functions each. */
#ifndef HD_CORE_DEVICE_H
#define HD_CORE_DEVICE_H

#include "core/execute.h"

typedef struct hd_device_interface {
    const char *name;
    int (*count)(void);                  /* opens its driver at the first call; 0: there is none */
    const char *(*missing)(void);        /* why there is none, and what to do; NULL: there always is one */
    hd_executor *(*executor)(int index); /* NULL: ops do not run there, only what a compiler brings there */
    void (*synchronize)(int index);
    /* True when it runs calls of this op that compute in this dtype. */
    bool (*supports)(const hd_op *op, hd_dtype dtype);
    /* What it can do at most: f32 arithmetic, and reading and writing its memory. Measured the first time. */
    void (*peak)(int index, double *gflops, double *gbytes);
} hd_device_interface;

/* That of a kind of device; NULL: nobody has registered one. */
const hd_device_interface *hd_device_interface_of(hd_device_kind kind);
void hd_device_register(hd_device_kind kind, const hd_device_interface *interface);
/* In place of a device that is not there: an error for every call. */
hd_executor *hd_no_executor(void);

/* "cuda:0" into a buffer of 32 bytes. */
const char *hd_device_text(char *out, hd_device device);

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
