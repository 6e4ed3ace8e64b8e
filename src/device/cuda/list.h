/* GPUs of NVIDIA's: which the driver finds. XLA asks for them, too, so this is part of every build. */
#ifndef HD_DEVICE_CUDA_LIST_H
#define HD_DEVICE_CUDA_LIST_H

#include "core/device.h"
#include "device/cuda/cuda.h"

enum { HD_CUDA_DEVICES = 16 }; /* more are not looked at */

/* What an interface of a device asks. */
int hd_cuda_count(void);
const char *hd_cuda_missing(void);
void hd_cuda_describe(int index, hd_device_info *out);
/* False in a forked child and at the end of the process, where the driver must not be called any more. */
bool hd_cuda_is_here(void);

typedef struct hd_cuda_listing {
#define HD_CU_POINTER(name, full_name, parameters) int(*name) parameters;
    HD_CU_LISTING(HD_CU_POINTER)
#undef HD_CU_POINTER
} hd_cuda_listing;
extern hd_cuda_listing hd_cuda_list; /* filled in when the driver was asked; those that an old driver lacks are NULL */
void *hd_cuda_library(void);         /* the driver, when it has devices */
/* What is waited for before the process ends. */
void hd_cuda_before_exit(void (*wait)(void));
/* Called with each device that is opened: functions of atexit run in the opposite order. */
void hd_cuda_watch_exit(void);

/* GPUs that are listed, and run no ops: a build without CUDA. */
extern const hd_device_interface hd_cuda_listed_interface;

#endif
