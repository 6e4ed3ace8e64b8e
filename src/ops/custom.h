/* Ops of the user's: the registry, and calls of their functions. */
#ifndef HD_OPS_CUSTOM_H
#define HD_OPS_CUSTOM_H

#include "ops/op.h"

/* The op of that name; NULL, without an error: nobody has registered it. For good once it is there. */
const hd_custom_op *hd_custom_find(const char *name);
/* The same, of a call; NULL with an error that says what to do. */
const hd_custom_op *hd_custom_of(const hd_custom_attributes *attributes);
/* True when a run does something that is not in its outputs, or may. */
static inline bool hd_custom_has_effects(const hd_custom_attributes *attributes) {
    const hd_custom_op *op = hd_custom_find(attributes->op.text);
    return op == NULL || op->has_effects;
}
/* The name of the user's op in a call; "" of others. */
const char *hd_own_name(const hd_op *op, const void *attributes);
/* What a vjp reads (HD_SAVE_*), as the op says. */
unsigned hd_custom_saves(const hd_custom_attributes *attributes);

/* What a function of the user's is given, with room for all it points to. */
typedef struct hd_custom_frame {
    hd_custom_args args;
    hd_custom_array in[HD_MAX_INPUTS], out[HD_MAX_OUTPUTS];
    const hd_custom_array *inputs[HD_MAX_INPUTS];
    hd_custom_array *outputs[HD_MAX_OUTPUTS];
    char text[1024];
} hd_custom_frame;

/* A call's frame, without data; its outputs are all like the first input. */
void hd_custom_frame_begin(hd_custom_frame *f, const hd_custom_op *op, const hd_custom_attributes *attributes,
                           hd_tensor *const *inputs, int count);
/* The same for a node, of whose inputs there are only dtypes and shapes. */
void hd_custom_frame_set(hd_custom_array *out, hd_dtype dtype, const hd_shape *shape, void *data);
/* Calls `function`, which must have worked: errors name the op. */
hd_error hd_custom_run(hd_thread *thread, const hd_custom_op *op, const char *(*function)(hd_custom_args *args),
                       hd_custom_frame *f);

/* Makes the call; *second is its second output, or NULL. */
hd_tensor *hd_custom_make(hd_thread *thread, const hd_custom_attributes *attributes, hd_tensor *const *inputs,
                          int count, hd_tensor **second);

#endif
