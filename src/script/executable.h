/* The seam between scripts and those who compile them. */
#ifndef HD_SCRIPT_EXECUTABLE_H
#define HD_SCRIPT_EXECUTABLE_H

#include "graph/graph.h"

#include <pthread.h>

/* What it took to make native code. */
typedef struct hd_code_stats {
    int kernels, from_memory, from_disk, from_file, compiled;
    const char *unused; /* why kernels did not come from the file, though it was asked for its code; NULL: they did */
    int64_t load_nanoseconds;    /* opening LLVM itself, in its processes */
    int64_t compile_nanoseconds; /* rendering and compiling */
    int64_t link_nanoseconds;    /* placing code, reading the disk cache */
} hd_code_stats;

typedef struct hd_executable hd_executable;

/* Machine code that a file carries, when whoever loaded the file asked for it. A script and its clones hold it longer
 * than what is compiled from it; the compiler that wrote it (`carry`) reads it. */
typedef struct hd_carried {
    hd_object object;
    unsigned char *bytes; /* as the compiler gave them: their checksum fits */
    size_t count;
    const char *missing;  /* why there are none; NULL: there are */
    pthread_mutex_t lock; /* of what follows */
    void *read;           /* what the compiler made of the bytes; NULL: nothing yet */
    void (*forget)(void *read);
} hd_carried;

/* What a run is given, and gives. */
typedef struct hd_run {
    hd_tensor *const *inputs; /* one for each of graph->inputs, of its dtype and shape */
    hd_storage *const *cells; /* one for each of graph->cells */
    uint64_t seed, draw;      /* the draws that the run takes begin here */
    bool keep_state;          /* updates are left out */
    const hd_graph *own;      /* the script's graph, when nobody else has it: its constants may move; else NULL */
    hd_tensor **outputs;      /* new references, one for each of graph->outputs */
    int64_t *nanoseconds;     /* added to, one for each launch; NULL: not wanted */
} hd_run;

/* What one launch of a run does. */
typedef struct hd_launch_stats {
    char what[128];
    char sizes[128];   /* "f32 [3,4]": its result; of a call or a product, its operands before it */
    double operations; /* arithmetic ones, of floats and integers alike */
    double bytes;      /* read and written, each value once */
} hd_launch_stats;

/* What a compiler gives: dropped with `destroy`. */
struct hd_executable {
    hd_error (*run)(hd_executable *self, hd_thread *thread, const hd_run *run);
    /* A run of a graph that calls back was left by a longjmp: what it wrote is taken back, as if it had failed. NULL:
     * there is nothing to do. */
    void (*left)(hd_executable *self, hd_thread *thread, hd_storage *const *cells);
    void (*destroy)(hd_executable *self, hd_thread *thread);
    void (*describe)(const hd_executable *self, int64_t launch, hd_launch_stats *out); /* NULL: it cannot */
    bool on_device; /* it runs in the memory of the script's device, and gives its outputs there */
    int64_t nodes, launches, jobs, arena_bytes; /* for stats */
    struct hd_code_stats code;                  /* of native kernels */
    int64_t alternatives;                       /* that were timed, at O3 */
    int64_t peak_bytes;                         /* under XLA; 0: not known */
};

typedef struct hd_compiler_interface {
    const char *name;
    /* For a graph that is not changed; NULL with an error. `carried`: code that may be there already; NULL: none. */
    hd_executable *(*compile)(hd_thread *thread, hd_graph *graph, hd_device device, hd_optimization_level level,
                              hd_carried *carried);
    /* The machine code of what it compiled, for a file to carry: bytes from hd_array_resize, which keep what `carried`
     * (or NULL) has for other processors. NULL: no file carries its code. */
    hd_error (*carry)(hd_thread *thread, hd_executable *executable, hd_carried *carried, unsigned char **bytes,
                      size_t *count);
    /* Checks that scripts compiled by it run on the device here; the error says why not, and what to do. */
    hd_error (*available)(hd_device device);
    /* Checks that it may run on some device, so that a script may choose it before it chooses its device; the error
     * is the one for `device`. The caller holds errors. NULL: it may. */
    hd_error (*present)(hd_device device);
} hd_compiler_interface;

/* NULL, without an error, when nobody has registered one. */
const hd_compiler_interface *hd_compiler_interface_of(hd_compiler compiler);
void hd_compiler_register(hd_compiler compiler, const hd_compiler_interface *interface);
/* From the roof (library/library.h): registers all there are. Called once, when the first is asked for. */
void hd_library_open_compilers(void);
/* Checks that it is there and has what it needs for a device: an error says how to get it. */
hd_error hd_compiler_check(hd_compiler compiler, hd_device device);
/* Compiles with it; an error, and NULL, when it is not there. */
hd_executable *hd_compiler_compile(hd_compiler compiler, hd_thread *thread, hd_graph *graph, hd_device device,
                                   hd_optimization_level level, hd_carried *carried);

/* carried.c: takes over the bytes, also when it gives NULL with an error; one reference. */
hd_carried *hd_carried_new(hd_thread *thread, unsigned char *bytes, size_t count, const char *missing);

/* Who compiles when nobody is named: HODU, or what HODU_COMPILER says (hodu, xla); anything else there is an error. */
hd_error hd_compiler_default(hd_compiler *out);

#endif
