/* A driver of NVIDIA's with as many GPUs as FAKE_CUDA says, for test_devices.c; "none" and "broken" are its errors. It
 * counts how often it is started. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

#ifdef WITHOUT_FUNCTIONS
extern SHOWN int fake_cuda_is_something_else;
int fake_cuda_is_something_else = 1;
#else
extern SHOWN atomic_int fake_cuda_starts;
atomic_int fake_cuda_starts;

SHOWN int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    const char *wish = getenv("FAKE_CUDA");
    atomic_fetch_add(&fake_cuda_starts, 1);
    if (flags != 0) return 1;
    return wish == NULL || strcmp(wish, "none") == 0 ? 100 : strcmp(wish, "broken") == 0 ? 999 : 0;
}

SHOWN int cuDeviceGetCount(int *out);
int cuDeviceGetCount(int *out) {
    *out = atoi(getenv("FAKE_CUDA"));
    return 0;
}
#endif
