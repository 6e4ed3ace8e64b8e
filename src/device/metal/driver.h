/* Inside this folder: a device of Metal, and what each file does with it. */
#ifndef HD_DEVICE_METAL_DRIVER_H
#define HD_DEVICE_METAL_DRIVER_H

#include "device/gpu.h"
#include "device/heap.h"
#include "device/metal/metal.h"

#include <pthread.h>

enum { HD_METAL_DEVICES = 16 }; /* more are not looked at */
enum {
    HD_METAL_BATCH = 32,  /* commands of a batch, which is a command buffer */
    HD_METAL_BATCHES = 16 /* that are under way at once */
};
/* What the open encoder of a batch takes. */
typedef enum hd_metal_encoding { HD_METAL_NOTHING, HD_METAL_LAUNCHES, HD_METAL_COPIES } hd_metal_encoding;

typedef struct hd_metal_device {
    /* known from the beginning */
    hd_device device;
    hd_objc_object *handle;
    char name[96], key[320];
    hd_gpu_limits limits;
    /* made at first use, and never released */
    pthread_mutex_t lock; /* of its making, and of what follows */
    _Atomic bool started;
    hd_objc_object *queue;
    /* queue.c's: the batch that is being filled, and those that were committed and not looked at since */
    hd_objc_object *batch, *encoder; /* NULL: none */
    hd_metal_encoding encoding;
    int commands; /* in the batch */
    hd_objc_object *under_way[HD_METAL_BATCHES];
    uint64_t committed, finished; /* batches so far */
    /* what has made it useless */
    _Atomic bool is_lost;
    char lost_by[200];
    hd_heap heap; /* its memory */
} hd_metal_device;

/* ---- driver.c ---------------------------------------------------------------------------------------------------- */
int hd_metal_count(void);
const char *hd_metal_missing(void);
void hd_metal_describe(int index, hd_device_info *out);
const hd_gpu_limits *hd_metal_limits(int index);
hd_heap *hd_metal_heap(int index);
/* One that can be worked with; NULL with an error. */
hd_metal_device *hd_metal_device_at(int index);
/* False in a forked child and at the end of the process, where the frameworks must not be called any more. */
bool hd_metal_is_here(void);
/* The error of a message that gave nil; `remedy`: what to do. */
hd_error hd_metal_gave_nil(const hd_metal_device *d, const char *message, const char *remedy);
/* What an NSError says; NULL: nothing. It lives as long as the pool. */
const char *hd_metal_says(hd_objc_object *error);

/* ---- queue.c ----------------------------------------------------------------------------------------------------- */
/* The encoder for one more command of a kind, under the lock; NULL with an error. */
hd_objc_object *hd_metal_encoder(hd_metal_device *d, hd_metal_encoding encoding);
/* After each command, under the lock: a batch that is full is committed. */
hd_error hd_metal_enqueued(hd_metal_device *d);
/* Commits what is encoded, under the lock. */
hd_error hd_metal_commit(hd_metal_device *d);
/* The batch that was committed last, retained, under the lock. */
hd_objc_object *hd_metal_last_batch(const hd_metal_device *d);
/* Commits, and waits for everything that was asked before. */
hd_error hd_metal_wait(hd_metal_device *d);
void hd_metal_wait_quietly(hd_metal_device *d); /* at the end of the process */
/* True when nothing is encoded or under way; asks without waiting. */
bool hd_metal_is_idle(hd_metal_device *d);
hd_error hd_metal_check_lost(hd_metal_device *d);
hd_error hd_metal_synchronize(hd_thread *thread, int index);

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */
void hd_metal_begin_heap(hd_metal_device *d);
hd_block *hd_metal_allocate(hd_thread *thread, int index, size_t bytes);
void hd_metal_recycle(hd_thread *thread, hd_block *block);
hd_error hd_metal_copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes);
hd_error hd_metal_fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count);
/* The buffer in which an address lies, so many bytes before its end, and where in it. */
hd_error hd_metal_find(const hd_metal_device *d, const void *address, size_t bytes, hd_objc_object **buffer,
                       size_t *offset);

/* ---- program.c --------------------------------------------------------------------------------------------------- */
hd_error hd_metal_compile(int index, const char *name, const char *text, void **object, size_t *bytes);
hd_gpu_program *hd_metal_load(int index, const void *object, size_t bytes);
void hd_metal_unload(hd_gpu_program *program);
hd_gpu_function *hd_metal_function(hd_gpu_program *program, const char *name);
hd_error hd_metal_launch(int index, const hd_gpu_launch *l);

#endif
