/* XLA at work: one client per process and kind of device, the programs it compiled, the buffers they read and make.
 *
 * Everything may be called from any thread; a buffer is used by one thread at a time. Running is asynchronous:
 * outputs may be given to the next run at once, and what went wrong is told by whoever awaits. What XLA would end
 * the process for is refused here. After a fork the child cannot use a client that its parent had made: every call
 * says so. */
#ifndef HD_XLA_CLIENT_H
#define HD_XLA_CLIENT_H

#include "core/dtype.h"
#include "core/shape.h"
#include "xla/plugin.h"

#include <pthread.h>

enum {
    HD_XLA_DEVICES = 16, /* of one kind, at most */
    HD_XLA_RUNS = 64,    /* that nobody has waited for, at most */
    HD_XLA_SPENT = 256   /* buffers that were donated, at most */
};

typedef struct hd_xla_client hd_xla_client;
typedef struct hd_xla_program hd_xla_program;

/* A device of a client; lives until the process ends. */
typedef struct hd_xla_device {
    hd_xla_client *client;
    hd_pjrt_device *handle;
    hd_device device;
    int id; /* XLA's own number for it */
} hd_xla_device;

/* Why a client cannot be called any more. */
typedef enum hd_xla_loss {
    HD_XLA_HERE,
    HD_XLA_FORKED, /* this process is a child of the one that made it */
    HD_XLA_ENDED,  /* the process ends: XLA is being taken apart, and may still read what was lent to it */
} hd_xla_loss;

struct hd_xla_client {
    hd_xla_plugin plugin;
    hd_pjrt_client *handle;
    char version[256]; /* of the platform, for keys */
    char kind[128];    /* of its devices: the processor, the model of a GPU */
    _Atomic int lost;  /* hd_xla_loss */
    _Atomic bool cannot_serialize;
    pthread_mutex_t lock, waiting;       /* of what follows; of who waits for all runs */
    hd_pjrt_event *runs[HD_XLA_RUNS];    /* the ends of runs, */
    hd_pjrt_buffer *spent[HD_XLA_SPENT]; /* and buffers that were donated to some: rings, oldest at next */
    uint32_t next_run, next_spent;
    int device_count;
    hd_xla_device devices[HD_XLA_DEVICES];
};

/* The device, its client made when it is first asked for; NULL with an error. */
hd_xla_device *hd_xla_device_of(hd_device device);

/* ---- types ------------------------------------------------------------------------------------------------------- */
typedef struct hd_xla_type {
    hd_dtype dtype;
    hd_shape shape;
} hd_xla_type;

/* Bytes of its elements, one after the other; an error for what is no type. */
hd_error hd_xla_type_bytes(const hd_xla_type *type, size_t *bytes);
bool hd_xla_type_equal(const hd_xla_type *a, const hd_xla_type *b);
/* "f32[2,3]" into a buffer that lives in the expression. */
#define HD_XLA_TYPE_TEXT(type) hd_xla_type_text((char[220]){0}, &(type))
const char *hd_xla_type_text(char out[220], const hd_xla_type *type);

/* ---- programs ---------------------------------------------------------------------------------------------------- */
typedef struct hd_xla_parameter {
    hd_xla_type type;
    bool donated; /* the text says so (tf.aliasing_output, jax.buffer_donor): a run takes the buffer */
} hd_xla_parameter;

/* A plugin's own figures of memory are 0 when it does not say. */
typedef struct hd_xla_stats {
    int64_t compile_nanoseconds; /* or reading it from disk */
    bool from_disk;
    int64_t code_bytes, argument_bytes, output_bytes, alias_bytes, temporary_bytes, peak_bytes;
} hd_xla_stats;

struct hd_xla_program {
    hd_xla_device *device;
    hd_pjrt_loaded *loaded;
    int parameter_count, output_count;
    hd_xla_parameter *parameters;
    hd_xla_type *outputs;
    hd_xla_stats stats;
    /* the table's */
    int references;
    hd_xla_program *next;
    uint64_t hash; /* of the text */
    size_t text_bytes;
    char *text; /* with a 0 behind it */
};

/* A program from StableHLO text, whose @main has these parameters. Who asks for an equal one while it lives gets the
 * same. A new reference; NULL with an error. */
hd_xla_program *hd_xla_compile(hd_xla_device *device, const char *text, size_t text_bytes,
                               const hd_xla_parameter *parameters, int parameter_count);
/* NULL is allowed. May be called while runs of it are under way. */
/* True when others hold it too. */
bool hd_xla_program_is_shared(const hd_xla_program *program);
void hd_xla_program_release(hd_xla_program *program);

/* ---- buffers ----------------------------------------------------------------------------------------------------- */
typedef struct hd_xla_buffer {
    hd_pjrt_buffer *handle; /* NULL: none, or gone */
    hd_pjrt_event *freed;   /* borrowed host memory is not read any more; NULL when nothing is borrowed */
    hd_xla_device *device;
    hd_xla_type type;
    bool is_view; /* of memory of the device that is not XLA's: a run that could take it leaves it as it is */
} hd_xla_buffer;

/* What becomes of host memory. Borrowed, it is read where it lies, on the CPU and when it is aligned to 64 bytes; the
 * buffer then has `freed`, and the memory must stay as it is until that comes. Else it is copied all the same. */
typedef enum hd_xla_host {
    HD_XLA_COPY, /* the memory is the caller's again after the call */
    HD_XLA_BORROW,
} hd_xla_host;

/* A buffer from elements in row-major order. */
hd_error hd_xla_buffer_make(hd_xla_device *device, const hd_xla_type *type, const void *data, hd_xla_host host,
                            hd_xla_buffer *out);
/* A buffer over memory of the device itself, row-major, which must stay as it is while runs read it.
 * Not every plugin has it: device->client->plugin.view. */
hd_error hd_xla_buffer_view(hd_xla_device *device, const hd_xla_type *type, void *memory, hd_xla_buffer *out);
/* Gives it up; also while a run uses it. Waits until borrowed memory is free. Nothing happens when it is gone. */
void hd_xla_buffer_destroy(hd_xla_buffer *buffer);
/* The same without waiting: `freed` is the event to wait for, or NULL, now the caller's. */
void hd_xla_buffer_destroy_early(hd_xla_buffer *buffer, hd_pjrt_event **freed);
/* True when its memory was donated to a run (or there is no buffer): also a run that failed may have taken it. */
bool hd_xla_buffer_is_gone(const hd_xla_buffer *buffer);

/* Waits for its value; the error is that of what should have made it. */
hd_error hd_xla_buffer_await(const hd_xla_buffer *buffer);
bool hd_xla_buffer_is_ready(const hd_xla_buffer *buffer);
/* Waits, then copies its elements in row-major order. */
hd_error hd_xla_buffer_read(const hd_xla_buffer *buffer, void *data, size_t bytes);
/* Waits, then gives its memory, row-major, which lives as long as the buffer; on the CPU only. */
hd_error hd_xla_buffer_pointer(const hd_xla_buffer *buffer, void **pointer);
/* True when the plugin says where in its device's memory a buffer lies, and the elements are row-major there. So are
 * those of the same output in the next run of a program. */
bool hd_xla_buffer_has_place(const hd_xla_buffer *buffer);
/* That address, of one that has been waited for. */
hd_error hd_xla_buffer_place(const hd_xla_buffer *buffer, void **pointer);

/* ---- events ------------------------------------------------------------------------------------------------------ */
/* Waits for it, then destroys it; NULL has come already. */
hd_error hd_xla_event_await(const hd_xla_device *device, hd_pjrt_event *event);
bool hd_xla_event_is_ready(const hd_xla_device *device, hd_pjrt_event *event);
/* Destroys it without waiting. */
void hd_xla_event_destroy(const hd_xla_device *device, hd_pjrt_event *event);

/* ---- running ----------------------------------------------------------------------------------------------------- */
/* Starts a run. `outputs` are new buffers, program->output_count of them; donated arguments are gone when it has
 * started. `done`, when it is not NULL, gets an event for the end of the whole run. On failure there are no outputs. */
hd_error hd_xla_run(const hd_xla_program *program, hd_xla_buffer *const *arguments, int argument_count,
                    hd_xla_buffer *outputs, hd_pjrt_event **done);

/* Takes the end of a run that nobody waits for; hd_synchronize does, and the end of the process. Waits for the oldest
 * when there are too many. */
void hd_xla_run_goes_on(const hd_xla_device *device, hd_pjrt_event *done);

/* ---- inside this room -------------------------------------------------------------------------------------------- */
/* An error when the client is lost. */
hd_error hd_xla_check_process(const hd_xla_device *device);
static inline hd_xla_loss hd_xla_loss_of(const hd_xla_device *device) {
    return (hd_xla_loss)atomic_load_explicit(&device->client->lost, memory_order_relaxed);
}
/* What a program is compiled with, a message of protocol buffers; it follows from its device and its text. */
typedef struct hd_xla_options {
    char bytes[128];
    size_t count;
} hd_xla_options;
void hd_xla_choose_options(const hd_xla_device *device, const char *text, hd_xla_options *o);
/* The numbers of element types; 0 for what is no dtype, HD_DTYPE_DEFAULT for what PJRT has and we have not. */
int hd_xla_number_of(hd_dtype dtype);
hd_dtype hd_xla_dtype_of(int number);
/* Takes a buffer that was donated. To destroy it at once would wait until a thread of XLA's has begun the run. */
void hd_xla_buffer_is_spent(hd_xla_buffer *buffer);
/* Around forks, by the client's handlers: clients first, then programs. */
void hd_xla_programs_lock(void);
void hd_xla_programs_unlock(void);

#endif
