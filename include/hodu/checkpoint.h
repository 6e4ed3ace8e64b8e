/* Models and the state of their training in .safetensors files. */
#ifndef HODU_CHECKPOINT_H
#define HODU_CHECKPOINT_H

#include <hodu/io.h>
#include <hodu/nn.h>
#include <hodu/optim.h>
#include <hodu/random.h>

typedef struct hd_module_save_opts {
    size_t struct_size;
    const char *prefix; /* in front of every name: "model." */
} hd_module_save_opts;

typedef struct hd_module_load_opts {
    size_t struct_size;
    const char *prefix; /* names of the file that do not begin so are not looked at; the others are read behind it */
    /* The name in the module of what the file has under `name`, which comes without the prefix; NULL: it is left out.
     * What it returns is read before it is called again. */
    const char *(*rename)(const char *name, void *user);
    void *rename_user;
    bool partial; /* what the file lacks stays as it is, and what the module lacks is left out */
} hd_module_load_opts;

/* A number of the user's in a checkpoint: whole ones up to 2^53, and any other double, come back as they were. */
typedef struct hd_checkpoint_number {
    const char *name;
    double value;
} hd_checkpoint_number;

typedef struct hd_checkpoint_opts {
    size_t struct_size;
    hd_module *module;             /* its parameters and buffers; each of these may be left out */
    hd_optimizer *optimizer;       /* learning rate, step count and what it keeps for each parameter */
    hd_generator *generator;       /* its seed and next draw; NULL: those of the one in use */
    hd_archive *tensors;           /* others that belong to the training, saved and loaded in place */
    hd_checkpoint_number *numbers; /* saving reads their values, loading writes them */
    int64_t number_count;
} hd_checkpoint_opts;

HD_BEGIN_DECLS
/* Parameters and buffers by their names, "0.weight". */
HD_API void hd_module_save(hd_module *module, const char *path, const hd_module_save_opts *opts);
/* Gives parameters and buffers the values of a .safetensors file (or an index of several): all of them, or, when any is
 * missing, left over, or of another shape or dtype, none, and the error lists them. They stay the tensors they are, on
 * their devices. */
HD_API void hd_module_load(hd_module *module, const char *path, const hd_module_load_opts *opts);

/* Saves all that a training needs to go on where it was, bit for bit, when a program that was made alike loads it. */
HD_API void hd_checkpoint_save(const char *path, const hd_checkpoint_opts *opts);
/* The other way, with the same parts: all of it or, with an error that lists what does not fit, nothing. */
HD_API void hd_checkpoint_load(const char *path, const hd_checkpoint_opts *opts);
HD_END_DECLS

#endif
