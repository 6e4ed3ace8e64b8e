/* What knows both models and scripts: compiling a model, and the state of a model and its optimizer. */
#ifndef HODU_COMPILE_H
#define HODU_COMPILE_H

#include <hodu/nn.h>
#include <hodu/optim.h>
#include <hodu/script.h>

typedef enum hd_backend { HD_BACKEND_DEFAULT, HD_BACKEND_EAGER = 0x4231, HD_BACKEND_GRAPH } hd_backend;
typedef enum hd_mode { HD_MODE_DEFAULT, HD_MODE_TRAINING = 0x4d31, HD_MODE_EVALUATION } hd_mode;

typedef struct hd_compile_opts {
    size_t struct_size;
    hd_backend backend; /* eager, the default, runs the model as it is; graph captures and compiles it */
    hd_mode mode;       /* training, the default; evaluation: no tape, and modules in evaluation mode */
    hd_optimization_level optimization_level; /* O1 by default; others with backend graph only */
    hd_compiler compiler;                     /* as of a new script by default; with backend graph only */
    hd_device device;                         /* the thread's by default */
    int64_t
        cache_limit; /* graphs kept, one for each shape, dtype and set of flags: 8 by default; the oldest unused goes */
} hd_compile_opts;

typedef struct hd_compile_figures {
    int64_t captures, hits, evictions, entries;
} hd_compile_figures;

HD_BEGIN_DECLS
/* hd_compile(model, NULL) compiles nothing: the default backend is eager, which runs the model as it is. The backend
 * HD_BACKEND_GRAPH gives a module with the same parameters whose hd_forward and hd_forward_all give the same results,
 * gradients and draws, captured at its first call with inputs of these shapes and compiled. Parameters are read as they
 * are at each call; buffers are updated. What cannot be captured (reading a value inside) is an error at the call. */
HD_API hd_module *hd_compile(hd_module *model, const hd_compile_opts *opts);
HD_API hd_compile_figures hd_compile_stats(const hd_module *compiled);
/* A clone of the script of it that ran last, to profile, check, print or save: set its input "x" first, or "x0", "x1",
 * ... of several. Its first outputs are the results, "y" or "y0", "y1", ...; the others are what a backward would read.
 */
HD_API hd_script *hd_compile_script(const hd_module *compiled);

/* A function from lists to lists. */
typedef hd_tensors *(*hd_list_function)(hd_tensors *inputs, void *user);
/* The same for a function, which hd_forward_all of the result calls: function(inputs, user). `reads` are the tensors it
 * reads beside its inputs, NULL for none: those that require gradients are parameters of the result, named "0", "1",
 * ..., by their places in the list; the others are its buffers, which the function may write. Whatever else it reads is
 * captured with its value of then; to write that, or to read what requires a gradient, is an error at the call. `user`
 * stays yours, and valid as long as the result; what it points to may count only at the call that captures. */
HD_API hd_module *hd_compile_function(hd_list_function function, void *user, const hd_tensors *reads,
                                      const hd_compile_opts *opts);

/* hd_builder_add_state for all parameters and buffers of a model, by their names in it, and all that an optimizer keeps
 * (moments, step count, learning rate), as "optimizer.steps" and so on; either may be NULL. Tensors that share memory
 * are one state, under the first name; where a name is taken, by another model say, it becomes "weight#2". */
HD_API void hd_builder_add_state_of(hd_builder *builder, hd_module *model, hd_optimizer *optimizer);
/* The same for what a schedule keeps, as "schedule.count" and so on; the rates that it sets are its optimizer's. */
HD_API void hd_builder_add_state_of_schedule(hd_builder *builder, hd_schedule *schedule);
/* And of a scaler of losses, as "scaler.number" and so on. */
HD_API void hd_builder_add_state_of_scaler(hd_builder *builder, hd_scaler *scaler);
HD_END_DECLS

#endif
