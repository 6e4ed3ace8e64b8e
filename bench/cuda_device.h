/* The device that a word of the command line names. */
#ifndef BENCH_CUDA_DEVICE_H
#define BENCH_CUDA_DEVICE_H

#include <hodu/hodu.h>
#include <stdlib.h>
#include <string.h>

/* "cuda", "cuda:1", "opencl", "opencl:1"; false when it is none of these. */
static inline bool device_of(const char *words, hd_device *out) {
    const size_t length = strcspn(words, ":");
    const int index = words[length] == ':' ? atoi(words + length + 1) : 0;
    const bool is_cuda = length == strlen("cuda") && strncmp(words, "cuda", length) == 0;
    const bool is_opencl = length == strlen("opencl") && strncmp(words, "opencl", length) == 0;
    *out = is_cuda ? hd_cuda(index) : hd_opencl(index);
    return is_cuda || is_opencl;
}

#endif
