/* Scripts as plain C for machines without an operating system: C99 that includes nothing but <stdint.h> and <stddef.h>,
 * takes no memory, and keeps all that it needs in what the caller hands over. docs/guide/export.md tells of it. */
#ifndef HODU_EXPORT_H
#define HODU_EXPORT_H

#include <hodu/script.h>

typedef enum hd_export_goal {
    HD_EXPORT_SPEED, /* weights are laid out for vectors */
    HD_EXPORT_SIZE   /* they are as they were, and loops are short */
} hd_export_goal;

typedef struct hd_export_opts {
    size_t struct_size;
    const char *prefix;   /* of all names of the text; NULL: the last part of the path */
    const char *function; /* what a run is called, <prefix>_<function>; NULL: "run" */
    int alignment;        /* of arena and state, in bytes, a power of two; 0: 8 */
    hd_export_goal goal;
    bool all_state; /* also state that no run changes (a learning rate) is in the state, where the program may set it;
                     * else it is a constant */
} hd_export_opts;

HD_BEGIN_DECLS
/* Writes <path>.h and <path>.c: <prefix>_init and <prefix>_run, with the script's inputs and outputs as arrays.
 * Weights are constants, what a run updates is state in memory of the caller's. All nodes that C cannot say (linear
 * algebra, the program's own ops) are named in one error, and nothing is written. */
HD_API void hd_script_export(hd_script *script, const char *path, const hd_export_opts *opts);
HD_END_DECLS

#endif
