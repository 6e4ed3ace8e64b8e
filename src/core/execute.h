/* How a call runs. The ops room describes a call; the thread's executor runs it (the device, or a builder that only
 * records it), and the thread's observer, if any, is told of it (the active tape). */
#ifndef HD_CORE_EXECUTE_H
#define HD_CORE_EXECUTE_H

#include "core/tensor.h"

enum { HD_MAX_INPUTS = 64, HD_MAX_OUTPUTS = 2 };

/* An op, as every room may know it. The tables of the ops room make one per row. */
typedef struct hd_op {
    const char *name; /* "add"; on disk and in caches an op is known by this, never by its number */
    uint16_t id;      /* its place in the tables: hd_op_id */
    uint8_t family;   /* hd_family */
    uint8_t min_inputs, max_inputs, outputs;
    uint16_t attribute_bytes;
    const char *document; /* its doc line */
} hd_op;

/* A call of an op: what goes in, what will come out, then what came out. */
typedef struct hd_call {
    const hd_op *op;
    const void *attributes; /* the op's attribute struct, or NULL */
    hd_tensor *const *inputs;
    int input_count, output_count;
    hd_dtype dtype[HD_MAX_OUTPUTS]; /* of each output */
    hd_shape shape[HD_MAX_OUTPUTS];
    hd_dtype compute;      /* elementwise: the dtype the operands meet in */
    const hd_layout *view; /* for views: the output's layout over the first input's storage, else NULL */
    hd_tensor *outputs[HD_MAX_OUTPUTS];
} hd_call;

struct hd_executor {
    const char *name;
    /* Fills call->outputs with new references, or fails and leaves none. */
    hd_error (*run)(hd_executor *self, hd_thread *thread, hd_call *call);
    /* dst <- src, cast and broadcast; both checked. Overlap is the executor's to handle. */
    hd_error (*write)(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);
    /* Around the calls of a composite ("softmax"); a device needs neither. */
    void (*span_begin)(hd_executor *self, hd_thread *thread, const char *name);
    void (*span_end)(hd_executor *self, hd_thread *thread);
};

struct hd_observer {
    void (*ran)(hd_observer *self, hd_thread *thread, const hd_call *call);
    void (*wrote)(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);
};

/* Runs the call; its outputs belong to the current scope. Returns the first one, NULL on failure. */
static inline hd_tensor *hd_execute(hd_thread *thread, hd_call *call) {
    if (__builtin_expect(thread->executor->run(thread->executor, thread, call) != HD_OK, 0)) return NULL;
    for (int i = 0; i < call->output_count; ++i) {
        call->outputs[i]->made_by = call->op;
        if (__builtin_expect(hd_scope_own(thread, &call->outputs[i]->object) != HD_OK, 0)) {
            for (int j = i + 1; j < call->output_count; ++j) hd_tensor_drop(thread, call->outputs[j]);
            return NULL;
        }
    }
    if (__builtin_expect(thread->observer != NULL, 0)) thread->observer->ran(thread->observer, thread, call);
    return call->outputs[0];
}

/* dst <- src in place; checks shapes and self-overlap. */
hd_error hd_write(hd_thread *thread, hd_tensor *dst, hd_tensor *src);

/* A composite: messages keep its name, a builder notes its span, and what it makes on the way goes when it ends.
 *     hd_span span = hd_span_begin(thread, "softmax");  ...  return hd_span_end(&span, result);  */
typedef struct hd_span {
    hd_thread *thread;
    hd_scope_token token;
} hd_span;
void hd_span_begin(hd_span *span, hd_thread *thread, const char *name);
hd_tensor *hd_span_end(hd_span *span, hd_tensor *result);

#endif
