/* How a call runs. The ops room describes a call; the thread's executor runs it (the device, or a builder that only
 * records it), and the thread's observer, if any, is told of it (the active tape). */
#ifndef HD_CORE_EXECUTE_H
#define HD_CORE_EXECUTE_H

#include "core/tensor.h"

enum { HD_MAX_INPUTS = 64, HD_MAX_OUTPUTS = 2 };

/* What a vjp is given, and gives: the gradients of an op's inputs from those of its outputs. */
typedef struct hd_vjp_call {
    const struct hd_op *op;
    const void *attributes;
    hd_dtype compute; /* elementwise: the dtype the operands met in */
    int input_count;
    hd_tensor *const *inputs; /* those that the row saves, else NULL */
    hd_tensor *output;        /* likewise: the first output, */
    hd_tensor *second_output; /* and the second */
    hd_tensor *gradient;      /* of the first output; of an op with several: NULL where none arrived */
    hd_tensor *second_gradient;
    const hd_shape *shapes; /* of the inputs */
    const uint8_t *dtypes;
    const bool *wanted;  /* which gradients to fill in */
    hd_tensor **results; /* they belong to the current scope; NULL means zero */
} hd_vjp_call;

typedef enum hd_gradient {
    HD_GRADIENT_VJP,  /* by its vjp */
    HD_GRADIENT_ZERO, /* zero by nature */
    HD_GRADIENT_NONE, /* there is none: backward through it is an error */
    HD_GRADIENT_STOP  /* the result has no history */
} hd_gradient;

/* What a vjp reads, as bits. */
enum { HD_SAVE_INPUT0 = 1, HD_SAVE_INPUT1 = 2, HD_SAVE_INPUT2 = 4, HD_SAVE_OUTPUT = 8, HD_SAVE_ANY = 15 };
/* Of ops that are no elementwise rows; 16 is the gradient, see ops/row_uses.h. */
enum { HD_SAVE_INPUT3 = 32, HD_SAVE_OUTPUT1 = 64, HD_SAVE_REST = 128 /* the fifth input and all behind it */ };
static inline unsigned hd_save_bit(int input) {
    return input < 3 ? 1u << input : input == 3 ? HD_SAVE_INPUT3 : HD_SAVE_REST;
}

/* What a call costs. */
typedef struct hd_work {
    double operations; /* sums, products, comparisons */
    double bytes;      /* read and written */
} hd_work;
struct hd_call;

/* An op, as every room may know it. The tables of the ops room make one per row. */
typedef struct hd_op {
    const char *name; /* "add"; on disk and in caches an op is known by this, never by its number */
    uint16_t id;      /* its place in the tables: hd_op_id */
    uint8_t family;   /* hd_family */
    uint8_t min_inputs, max_inputs, outputs; /* outputs: the most that a call gives */
    uint8_t derivative;                      /* 1 + the operand, for the derivative of an elementwise row; else 0 */
    uint8_t gradient;                        /* hd_gradient */
    uint8_t types;                           /* hd_types: the dtypes in which it computes */
    uint8_t fails;                           /* hd_fails: when a call that was checked can still fail */
    uint8_t lower;                           /* hd_lower_kind: how kernels of the compiler have it */
    uint8_t saves[3]; /* what the gradient of input i reads (of the third one and all behind it: saves[2]) */
    uint16_t attribute_bytes;
    const char *document; /* its doc line */
    const char *reason;   /* why its gradient is zero or not there */
    const char *no_lower; /* why kernels do not have it, or NULL */
    void (*vjp)(hd_thread *thread, const hd_vjp_call *v);
    hd_work (*work)(const struct hd_call *call);
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
    bool given;            /* the outputs are there already, contiguous, and only to be filled: from a plan */
    const hd_layout *view; /* for views: the output's layout over the first input's storage, else NULL */
    const hd_tensor
        *beside; /* of a call without inputs: its outputs are on the device of this one; NULL: the thread's */
    hd_tensor *outputs[HD_MAX_OUTPUTS]; /* given ones behind the first may be NULL: nobody wants them */
} hd_call;

/* A step of an optimizer over one parameter, in place. With g = gradient (turned round when it climbs) + share * value:
 *   descend   value = keep * value - rate * g
 *   roll      slot[0] = old[0] * slot[0] + fresh[0] * g;  value = keep * value - rate * slot[0], or, with `ahead`,
 *             value = keep * value - rate * (g + ahead * slot[0])
 *   adapt     the same slot;  slot[1] = old[1] * slot[1] + fresh[1] * g^2;
 *             value = keep * value - rate * slot[0] / (root * sqrt(slot[1]) + epsilon) */
typedef enum hd_update_kind { HD_UPDATE_DESCEND, HD_UPDATE_ROLL, HD_UPDATE_ADAPT } hd_update_kind;
typedef struct hd_update {
    hd_update_kind kind;
    hd_dtype dtype;       /* of all that follows: f32 or f64, contiguous, and in memory of its own */
    int64_t count, first; /* first: the executor's own */
    void *value, *slot[2];
    const void *gradient;
    double share, keep, rate, old[2], fresh[2], ahead, root, epsilon;
    bool climbs;
} hd_update;

struct hd_executor {
    const char *name;
    bool captures; /* only records calls; random numbers are drawn when what was recorded runs */
    /* Fills call->outputs with new references, or fails and leaves none. */
    hd_error (*run)(hd_executor *self, hd_thread *thread, hd_call *call);
    /* dst <- src, cast and broadcast; both checked. Overlap is the executor's to handle. */
    hd_error (*write)(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);
    /* So many updates at once; cannot fail. NULL: optimizers step by ops there. */
    void (*update)(hd_executor *self, hd_update *updates, int64_t count);
    /* How many references to a storage are its own; NULL: none. */
    int (*holds)(hd_executor *self, const hd_storage *storage);
    /* Whether the bytes of a storage with a home may be read: a builder may have recorded a write; NULL: they may. */
    hd_error (*reads)(hd_executor *self, const hd_storage *storage);
    /* Of a builder: the value of a storage is this node again (core/undo.h). */
    void (*restore)(hd_executor *self, hd_storage *storage, uint32_t node);
    /* Around the calls of a composite ("softmax"); a device needs neither. */
    /* A composite begins, "mean" for hd_mean (is_call), or a module. */
    void (*span_begin)(hd_executor *self, hd_thread *thread, const char *name, bool is_call);
    void (*span_end)(hd_executor *self, hd_thread *thread);
};

struct hd_observer {
    bool of_all; /* is told of every call, not only of those on tracked tensors */
    hd_error (*ran)(hd_observer *self, hd_thread *thread, const hd_call *call);
    /* Before and after a write; before it the observer may refuse. */
    hd_error (*writes)(hd_observer *self, hd_thread *thread, const hd_tensor *dst, const hd_tensor *src);
    hd_error (*wrote)(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);
    /* Around the forward of a module, which gave these `count` tensors; both NULL for observers that do not ask. */
    void (*forward_begins)(hd_observer *self, struct hd_module *module);
    void (*forward_ends)(hd_observer *self, struct hd_module *module, hd_tensor *const *y, int64_t count);
};

/* What the graph room does for a thread that records: it sets thread->recorder with thread->recording. */
struct hd_recorder {
    /* Ends the recording: its thread ends. */
    void (*abandon)(hd_thread *thread);
    /* The span that is open, and its end, with that of HD_EAGER, where a longjmp left them. `executor` is the one that
     * was active. */
    uint32_t (*span)(const hd_thread *thread);
    void (*unwind)(hd_thread *thread, const hd_executor *executor, uint32_t span);
    /* An HD_EAGER block. */
    hd_eager_token (*eager_begin)(hd_eager_token *self);
    void (*eager_end)(hd_eager_token *token);
};

/* What the grad room does for a thread with tapes: thread->tapes begins with this. */
typedef struct hd_tapes_head {
    const struct hd_tapes_hooks *hooks;
    uint32_t frame_count; /* blocks (HD_NO_GRAD and its kin) and contexts that are open */
} hd_tapes_head;
typedef struct hd_tapes_hooks {
    void (*end)(hd_thread *thread); /* of all its tapes */
    /* Ends the blocks beyond a number of frames. */
    void (*unwind)(hd_thread *thread, uint32_t count);
} hd_tapes_hooks;

static inline const hd_tapes_head *hd_tapes_head_of(const hd_thread *thread) {
    return (const hd_tapes_head *)thread->tapes;
}
static inline void hd_tapes_end(hd_thread *thread) {
    if (thread->tapes != NULL) hd_tapes_head_of(thread)->hooks->end(thread);
}

/* The observer that a thread, or a recording, begins with; none, unless the grad room has registered one. */
hd_observer *hd_first_observer(void);
void hd_first_observer_register(hd_observer *(*first)(void));

static inline bool hd_call_tracked(const hd_call *call) {
    for (int i = 0; i < call->input_count; ++i)
        if (call->inputs[i]->tracking != HD_UNTRACKED) return true;
    return false;
}

/* HD_AUTOCAST: what a thread does with calls before they run. */
enum { HD_RECAST_INPUTS = 4, HD_RECAST_BYTES = 512 };
typedef struct hd_recast { /* where a call finds what was exchanged, as long as it runs */
    hd_tensor *inputs[HD_RECAST_INPUTS];
    _Alignas(16) char attributes[HD_RECAST_BYTES];
} hd_recast;
typedef struct hd_autocast {
    hd_dtype dtype; /* bf16 or f16 */
    bool (*concerns)(const hd_call *call);
    /* Exchanges operands for casts of them, which the current scope owns, and what follows from their dtypes. */
    hd_error (*recast)(const struct hd_autocast *self, hd_call *call, hd_recast *room);
} hd_autocast;
/* To the end of the block calls compute in the dtypes that they say: of gradients, updates, what is called again. */
#define HD_WITHOUT_AUTOCAST(thread)                                                                                    \
    __attribute__((cleanup(hd_autocast_again), unused)) const hd_autocast_before HD_UNIQUE(autocast_) =                \
        hd_autocast_off(thread)
typedef struct hd_autocast_before {
    hd_thread *thread;
    const hd_autocast *autocast;
} hd_autocast_before;
static inline hd_autocast_before hd_autocast_off(hd_thread *thread) {
    const hd_autocast_before before = {thread, thread->autocast};
    thread->autocast = NULL;
    return before;
}
static inline void hd_autocast_again(const hd_autocast_before *before) { before->thread->autocast = before->autocast; }

/* True once a device other than the CPU has been used, a profile taken, or an HD_AUTOCAST been: calls then look where
 * their operands are, whether somebody times them, and in which dtype they compute. */
extern _Atomic bool hd_calls_routed;
/* Who runs a call: the device where its operands are, that of the thread for one without, or a builder. NULL with an
 * error when they are on several; a number (hd_tensor_is_number) is at home on all. */
hd_executor *hd_route(hd_thread *thread, const hd_call *call);
/* The same, whether or not a profile is taken. */
hd_executor *hd_route_unprofiled(hd_thread *thread, const hd_call *call);

/* What follows a call that ran: its outputs belong to the current scope, and the observer is told. Returns the first
 * one, NULL on failure. */
static inline hd_tensor *hd_executed(hd_thread *thread, hd_call *call) {
    for (int i = 0; i < call->output_count; ++i) {
        call->outputs[i]->made_by = call->op;
        if (__builtin_expect(hd_scope_own(thread, &call->outputs[i]->object) != HD_OK, 0)) {
            for (int j = i + 1; j < call->output_count; ++j) hd_tensor_drop(thread, call->outputs[j]);
            return NULL;
        }
    }
    hd_observer *observer = thread->observer;
    if (observer != NULL && (hd_call_tracked(call) || observer->of_all) &&
        observer->ran(observer, thread, call) != HD_OK)
        return NULL;
    return call->outputs[0];
}

/* The long way, of calls that look. */
hd_tensor *hd_execute_routed(hd_thread *thread, hd_call *call);

static inline hd_tensor *hd_execute(hd_thread *thread, hd_call *call) {
    hd_executor *executor = thread->executor;
    if (__builtin_expect(atomic_load_explicit(&hd_calls_routed, memory_order_relaxed), 0))
        return hd_execute_routed(thread, call);
    return __builtin_expect(executor->run(executor, thread, call) == HD_OK, 1) ? hd_executed(thread, call) : NULL;
}

/* dst <- src in place; checks shapes and self-overlap. */
hd_error hd_write(hd_thread *thread, hd_tensor *dst, hd_tensor *src);

/* A composite: messages keep its name, a builder notes its span, and what it makes on the way goes when it ends.
 *     hd_span span = hd_span_begin(thread, "softmax");  ...  return hd_span_end(&span, result);  */
typedef struct hd_span {
    hd_thread *thread;
    uint32_t depth; /* of calls around it */
    hd_scope_token token;
} hd_span;
void hd_span_begin(hd_span *span, hd_thread *thread, const char *name);
hd_tensor *hd_span_end(hd_span *span, hd_tensor *result);
/* Of a composite with more than one result: what it gives beside that which it ends with; and two of them. */
void hd_span_keep(const hd_span *span, hd_tensor *result);
hd_pair hd_span_end_pair(hd_span *span, hd_pair results);

#endif
