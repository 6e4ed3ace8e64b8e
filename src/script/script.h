/* Scripts from inside. */
#ifndef HD_SCRIPT_SCRIPT_H
#define HD_SCRIPT_SCRIPT_H

#include "core/options.h"
#include "script/executable.h"

struct hd_script {
    hd_object object;
    hd_graph *graph;           /* retained; shared by clones */
    hd_tensor **inputs;        /* retained; NULL: not set */
    hd_storage **cells;        /* retained: those of the graph, or the script's own */
    hd_executable *executable; /* NULL: not compiled */
    hd_carried *carried;       /* retained: code of the file it was loaded from, if that was asked for; NULL */
    hd_outputs *last;          /* of the last run, retained */
    hd_compiler compiler;
    hd_device device;
    hd_optimization_level level;
    double compile_ms;
    int64_t compilations, runs;
};

struct hd_outputs {
    hd_object object;
    hd_graph *graph; /* retained: names */
    uint32_t count;
    hd_tensor *items[]; /* retained */
};

/* A script over a graph, which is retained; the current scope's. `own_state`: cells get storages of their own. */
hd_script *hd_script_over(hd_thread *thread, hd_graph *graph, bool own_state);
hd_error hd_script_check_argument(const hd_script *script);
/* The names of one kind, in quotes; "none" when there are none. */
void hd_script_list_names(const hd_graph *g, hd_name_kind kind, char *out, size_t capacity);
/* Checks that all inputs are set. */
hd_error hd_script_check_inputs(const hd_script *script);
/* Compiles, unless that was done. */
hd_error hd_script_make_executable(hd_thread *thread, hd_script *script);
/* Runs an executable of the script's graph; the outputs are a new reference. NULL with an error. */
hd_outputs *hd_script_run_executable(hd_thread *thread, hd_script *script, hd_executable *executable, hd_graph *graph,
                                     bool keep_state, int64_t *nanoseconds);
/* What hd_script_set_input, hd_script_clear_inputs and hd_script_run do, for who has taken the script (HD_USE). */
void hd_script_put_input(hd_thread *thread, hd_script *script, const char *name, hd_tensor *t);
void hd_script_drop_inputs(hd_thread *thread, hd_script *script);
hd_outputs *hd_script_run_taken(hd_thread *thread, hd_script *script);
/* carried.c: the machine code of the script for a file to carry, from hd_array_resize; it is compiled for that. */
hd_error hd_script_carry(hd_thread *thread, hd_script *script, unsigned char **bytes, size_t *count);
/* Checks that no builder records on this thread. */
hd_error hd_script_check_eager(const hd_thread *thread);

#endif
