/* What of a program is kept in a file: its own tensors and numbers, by name. The same list is written, or given the
 * values of a file, so that saving and loading cannot differ. */
#ifndef HD_COMPILE_SAVED_H
#define HD_COMPILE_SAVED_H

#include "io/io.h"

typedef struct hd_saved {
    hd_thread *thread;
    hd_archive *own;    /* the program's tensors */
    const char *prefix; /* in front of names that are added from now on */
} hd_saved;

/* A list that the current scope owns. */
hd_error hd_saved_begin(hd_thread *thread, hd_saved *s);
/* Adds a tensor; `saved` is an hd_saved, so that this is the visitor of hd_module_each and hd_optimizer_each. */
hd_error hd_saved_add(void *saved, const char *name, hd_tensor *t);
/* Adds `count` numbers that lie in memory until the list goes; 0: one, as a tensor of rank 0. */
hd_error hd_saved_add_numbers(hd_saved *s, const char *name, void *numbers, int64_t count, hd_dtype dtype);
/* Parameters, then buffers. */
hd_error hd_saved_add_module(hd_saved *s, hd_module *module);

/* The error names the file. */
hd_error hd_saved_write(const hd_saved *s, const char *path);
/* That `given` has the same names, with the same dtypes and shapes: or one error with all that differs, as far as it
 * has room. `partial`: names that only one of them has do not matter. */
hd_error hd_saved_match(const hd_saved *s, const hd_archive *given, bool partial);
/* Gives what both have the values of `given`. Inside an hd_undo, which takes it back when a copy fails. */
hd_error hd_saved_copy(const hd_saved *s, const hd_archive *given);

#endif
