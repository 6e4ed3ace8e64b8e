/* What programs of all GPUs share: objects behind a head, text that does not compile, and what a launch must be. */
#ifndef HD_DEVICE_PROGRAM_H
#define HD_DEVICE_PROGRAM_H

#include "device/gpu.h"

/* ---- objects: bytes behind a head that tells whether they are whole ---------------------------------------------- */
/* Drivers are not known to look at the bytes of a program before they use them, and files may be cut. */
typedef struct hd_gpu_object {
    char mark[8]; /* whose it is */
    uint64_t count, sum;
    unsigned char bytes[];
} hd_gpu_object;
/* Room for so many bytes, from hd_array_resize; NULL with an error. */
hd_gpu_object *hd_gpu_object_new(size_t count);
/* The head, when the bytes are there. */
void hd_gpu_object_seal(hd_gpu_object *object, const char *mark, size_t count);
/* The bytes of one that is whole; NULL with an error. `whose`: "OpenCL's". */
const unsigned char *hd_gpu_object_open(const char *mark, const char *whose, const void *object, size_t bytes,
                                        size_t *count);

/* ---- text -------------------------------------------------------------------------------------------------------- */
/* The error of text that does not compile: it is saved as <name>.<ending>, and the message has the path and the end of
 * the compiler's log; NULL: there is none. */
hd_error hd_gpu_does_not_compile(hd_device device, const char *name, const char *ending, const char *text,
                                 const char *log);

/* ---- launches ---------------------------------------------------------------------------------------------------- */
/* A kernel of this name that is loaded on the device, or is not, and takes groups of so many threads. */
hd_error hd_gpu_check_launch(hd_device device, const char *name, bool is_loaded, size_t group_most,
                             const hd_gpu_launch *l);
/* Fills in the offset of a buffer, in front of the caller's arguments. */
void hd_gpu_fill_in(const hd_gpu_launch *l, int buffer, size_t offset);

#endif
