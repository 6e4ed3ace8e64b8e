/* Scripts: captured calls, compiled once and run many times. One script belongs to one thread at a time: while a call
 * works on it, calls on other threads are errors. hd_script_clone makes another for another thread. */
#ifndef HODU_SCRIPT_H
#define HODU_SCRIPT_H

#include <hodu/builder.h>

/* 0: this library was built with HODU_FILES=OFF, and hd_script_save and hd_script_load only give an error that says so.
 * hodu.pc and the CMake targets of such a library define it. */
#ifndef HD_HAS_FILES
#define HD_HAS_FILES 1
#endif
/* Likewise 0: built with HODU_XLA=OFF, and HD_COMPILER_XLA only gives an error; built with HODU_LLVM=OFF, and kernels
 * are compiled by the C compiler. */
#ifndef HD_HAS_XLA
#define HD_HAS_XLA 1
#endif
#ifndef HD_HAS_LLVM
#define HD_HAS_LLVM 1
#endif

typedef struct hd_outputs hd_outputs;

/* Who compiles: HODU, our own; XLA, through its plugin (scripts/get-xla). A new script has HODU, or what HODU_COMPILER
 * in the environment says (hodu, xla). The values are shared with no other enum, so that a wrong one is noticed. */
typedef enum hd_compiler { HD_COMPILER_HODU = 0x4831, HD_COMPILER_XLA = 0x4832 } hd_compiler;
/* O0 runs what was recorded as it was recorded, bit for bit as dynamically; O1 simplifies, and compiles elementwise ops
 * to native code; O2, the default, also reductions and what follows matrix products; O3 times other ways to fuse, fewer
 * threads, other vector widths and other ways to compute products in trial runs, and keeps what was quickest in the
 * disk cache. */
typedef enum hd_optimization_level { HD_LEVEL_DEFAULT, HD_O0 = 0x4f30, HD_O1, HD_O2, HD_O3 } hd_optimization_level;

HD_BEGIN_DECLS
/* ---- inputs: kept across runs, read when a run begins ---- */
HD_API void hd_script_set_input(hd_script *script, const char *name, hd_tensor *t);
HD_API void hd_script_add_input(hd_script *script, const char *name, hd_tensor *t); /* an alias */
HD_API void hd_script_clear_inputs(hd_script *script);

/* ---- what a script takes, gives and keeps (state and bound tensors), by place: also one that was loaded ---- */
typedef struct hd_script_entry {
    const char *name; /* valid as long as the script; "" with an error */
    hd_shape shape;
    hd_dtype dtype;
} hd_script_entry;
HD_API int64_t hd_script_input_count(const hd_script *script);
HD_API hd_script_entry hd_script_input_at(const hd_script *script, int64_t index);
HD_API int64_t hd_script_output_count(const hd_script *script);
HD_API hd_script_entry hd_script_output_at(const hd_script *script, int64_t index);
HD_API int64_t hd_script_state_count(const hd_script *script);
HD_API hd_script_entry hd_script_state_at(const hd_script *script, int64_t index);

/* ---- compiling and running ---- */
/* Compiles now instead of at the first run; once more does nothing. */
HD_API void hd_script_compile(hd_script *script);
/* Runs, and returns its outputs, which stay valid after the next run. */
HD_API hd_outputs *hd_script_run(hd_script *script);
HD_API hd_tensor *hd_outputs_get(const hd_outputs *outputs, const char *name);
HD_API hd_tensor *hd_outputs_at(const hd_outputs *outputs, int64_t index);
HD_API int64_t hd_outputs_count(const hd_outputs *outputs);
/* Valid as long as the outputs. */
HD_API const char *hd_outputs_name(const hd_outputs *outputs, int64_t index);
/* An output of the last run. */
HD_API hd_tensor *hd_script_output(hd_script *script, const char *name);

/* ---- choosing: another value drops what was compiled, the same value does not ---- */
/* That it compiles for this thread's device, on which new scripts run. */
HD_API bool hd_compiler_available(hd_compiler compiler);
/* Why scripts that it compiles do not run on the device here (no driver, no GPU, no plugin), and what to do; NULL: they
 * do. {0}: this thread's device. The text holds until this thread asks again. */
HD_API const char *hd_compiler_missing(hd_compiler compiler, hd_device device);
/* Compiler and device may be chosen in any order. A compiler that is not there for any device, and a device that no
 * compiler runs on, are errors at once and change nothing; two that do not go together, when the script is compiled. */
HD_API void hd_script_set_compiler(hd_script *script, hd_compiler compiler);
HD_API void hd_script_set_backend(hd_script *script, hd_compiler compiler); /* an alias */
HD_API void hd_script_set_device(hd_script *script, hd_device device);
HD_API void hd_script_set_optimization_level(hd_script *script, hd_optimization_level level);

/* ---- state ---- */
/* The tensor of that name as it is now: what the next run will read. One that was declared by a view of other memory is
 * all of that memory, flat. */
HD_API hd_tensor *hd_script_state(hd_script *script, const char *name);
HD_API void hd_script_set_state(hd_script *script, const char *name, hd_tensor *value);

/* ---- looking ---- */
typedef struct hd_script_figures {
    int64_t nodes;          /* that were recorded */
    int64_t compiled_nodes; /* that are left after passes */
    int64_t launches;       /* kernels a run starts */
    int64_t jobs;           /* of one launch or of several that threads share together; 0 under XLA */
    int64_t arena_bytes;    /* memory a run works in */
    int64_t constant_bytes;
    double compile_ms;
    int64_t compilations, runs;
    int64_t kernels;                                /* native ones among the launches; of those: */
    int64_t kernels_compiled;                       /* compiled now, */
    int64_t kernels_from_disk;                      /* read from the disk cache, */
    int64_t kernels_from_memory, kernels_from_file; /* found in memory, carried by the file that was loaded */
    /* Of a script that was loaded with .native: why kernels are not those that the file carries (it carries none, or
     * they are for another processor, of another version, damaged, ...); NULL: they are. */
    const char *native_unused;
    double llvm_load_ms; /* of compile_ms: opening LLVM, in its process; making code (a sum over threads); placing it */
    double code_ms, link_ms;
    int64_t alternatives; /* that O3 timed; 0: what it found earlier was in the disk cache, or the trial runs failed */
    int64_t peak_bytes;   /* under XLA, by its own account: all that a run holds at once; 0: it does not say */
    double operations, bytes_moved; /* of a run: arithmetic, and memory that kernels read and write */
} hd_script_figures;
HD_API hd_script_figures hd_script_stats(const hd_script *script);
/* Runs the script `runs` times with the inputs set, without changing state, and prints to stdout for every launch its
 * time, and how near it comes to what this machine can do (measured on the way). */
HD_API void hd_script_profile(hd_script *script, int runs);
/* Prints the graph to stdout as text. */
HD_API void hd_script_print(const hd_script *script);
/* The same text into `out` (always terminated); returns the length of the whole text, as snprintf does; -1 on error. */
HD_API int64_t hd_script_format(const hd_script *script, char *out, size_t capacity);
/* The same two for the StableHLO text that XLA is given; no plugin is needed. */
HD_API void hd_script_print_stablehlo(const hd_script *script);
HD_API int64_t hd_script_format_stablehlo(const hd_script *script, char *out, size_t capacity);
typedef struct hd_script_check_result {
    double largest_difference; /* of any output or state, absolute; NaN on error, or where only one has NaN */
    double relative; /* the largest of any, relative to the largest value of its tensor at O0 (inf: that is 0) */
    int64_t node;    /* of the recorded graph, the first that differs; -1: none */
} hd_script_check_result;
/* Runs the script with the inputs set, as compiled and by HODU at O0, without changing state, and compares. */
HD_API hd_script_check_result hd_script_check(hd_script *script);

/* ---- more of them ---- */
/* Another script with the same code and constants, and inputs, state and bound tensors of its own (as they are now): it
 * follows no tensor that another thread writes. */
HD_API hd_script *hd_script_clone(hd_script *script);
/* Into and from a .hoduscript file (the extension is added when there is none). Saved: graph, constants, bound and
 * state tensors as they are now, the compiler and the level. */
HD_API void hd_script_save(hd_script *script, const char *path);
typedef struct hd_script_save_opts {
    size_t struct_size;
    bool native; /* with the machine code of its kernels, for this processor; it is compiled now, if it was not. Of HODU
                  * on the CPU. What the script's own file carries for other processors is kept, if it was loaded so */
} hd_script_save_opts;
HD_API void hd_script_save_with(hd_script *script, const char *path, const hd_script_save_opts *opts);
typedef struct hd_script_load_opts {
    size_t struct_size;
    bool map;    /* constants are mapped, not read: quick, but if the file is truncated while it is in use, the process
                  * dies */
    bool native; /* the machine code that the file carries is run, where it fits processor and library: with it nothing
                  * is compiled. Only for files that you trust as you trust a program; without it no file runs code */
} hd_script_load_opts;
HD_API hd_script *hd_script_load(const char *path);
HD_API hd_script *hd_script_load_with(const char *path, const hd_script_load_opts *opts);
HD_END_DECLS

#endif
