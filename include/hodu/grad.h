/* Gradients. Calls on tensors that require gradients are noted on the tape of the thread's active context; hd_backward
 * walks that tape back from a loss.
 *
 *     hd_tensor *w = hd_param(hd_randn(HD_SHAPE(3, 1), HD_F32));
 *     hd_tensor *loss = hd_mean(hd_matmul(x, w), HD_AXES(), NULL);
 *     hd_backward(loss);
 *     hd_print(hd_grad(w));
 *     hd_clear_tape();                     // or hd_optimizer_zero_grad, which clears the tape of context 0
 *
 * Every thread has context 0, and may nest others. Backward never consumes a tape: clear it, or it grows. */
#ifndef HODU_GRAD_H
#define HODU_GRAD_H

#include <hodu/list.h>

/* What HD_GRAD_CONTEXT and its kin leave on the stack; its own address marks it as alive. */
typedef struct hd_grad_token {
    const void *self;
    uint32_t depth;
} hd_grad_token;

HD_BEGIN_DECLS
/* ---- leaves ---- */
/* Makes t a leaf whose gradient is wanted, and returns t; a float tensor that no op on a tape made. */
HD_API hd_tensor *hd_requires_grad(hd_tensor *t);
/* The same, or the opposite: then no backward brings t a gradient, not even of calls that were noted before. */
HD_API void hd_set_requires_grad(hd_tensor *t, bool wanted);
/* A parameter: x itself with hd_requires_grad, or, when ops on a tape made x, a leaf with x's values. */
HD_API hd_tensor *hd_param(hd_tensor *x);
/* True when t is a leaf that requires a gradient, or comes from one. */
HD_API bool hd_tensor_requires_grad(const hd_tensor *t);

/* ---- backward ---- */
typedef struct hd_backward_opts {
    size_t struct_size;
    hd_tensor *seed; /* the gradient of `loss` to begin with, of its shape; ones by default */
} hd_backward_opts;
/* Adds the gradient of `loss` (any shape; its sum, unless a seed is given) to every leaf it came from, or, with an
 * error, to none. One thread at a time may add to a leaf's gradient; it is an error, not a wait, when two meet. */
HD_API void hd_backward(hd_tensor *loss);
HD_API void hd_backward_with(hd_tensor *loss, const hd_backward_opts *opts);
/* The gradient of t as it is now; an error before the first backward. A later backward does not change the tensor
 * that is returned; writing into it changes the gradient. */
HD_API hd_tensor *hd_grad(hd_tensor *t);
HD_API bool hd_has_grad(const hd_tensor *t);
/* Replaces the gradient of t by a copy of `gradient`, of t's shape; NULL takes it away. */
HD_API void hd_set_grad(hd_tensor *t, hd_tensor *gradient);
/* After it hd_grad is zeros. The tape stays as it is. */
HD_API void hd_zero_grad(hd_tensor *t);
HD_API void hd_zero_grads(hd_tensors *tensors);
/* Lets hd_backward keep the gradient also of t that is no leaf, for hd_grad. */
HD_API hd_tensor *hd_retain_grad(hd_tensor *t);
/* fn(gradient, user) runs when the whole gradient of t is known, in every hd_backward and hd_grad_of while t is on
 * the tape, unless that gradient is zero by nature (behind hd_sign, say); it may return another gradient of the same
 * shape, or NULL to leave it; writing into the one it is given is an error. Hooks that a hook adds run from the next
 * hd_backward or hd_grad_of on. */
typedef hd_tensor *(*hd_grad_hook)(hd_tensor *gradient, void *user);
HD_API void hd_add_grad_hook(hd_tensor *t, hd_grad_hook fn, void *user);

/* ---- gradients as values ---- */
typedef struct hd_grad_of_opts {
    size_t struct_size;
    hd_tensor *seed;     /* as in hd_backward_opts: makes the result a vector-Jacobian product */
    bool differentiable; /* notes the walk on the tape, so that the result can itself be differentiated */
} hd_grad_of_opts;
/* The gradients of `loss` for each of `inputs`, of their shapes; zeros where it does not depend on one. No hd_grad
 * changes. Inputs may be leaves or values on the tape. */
HD_API hd_tensors *hd_grad_of(hd_tensor *loss, hd_tensors *inputs, const hd_grad_of_opts *opts);
/* The Jacobian of y for `inputs`, times `tangents` (one for each input, of its shape): y's shape. Calls no hooks. */
HD_API hd_tensor *hd_jvp(hd_tensor *y, hd_tensors *inputs, hd_tensors *tangents);
/* `seed` (of y's shape) times the Jacobian of y: one tensor of each input's shape. */
HD_API hd_tensors *hd_vjp(hd_tensor *y, hd_tensors *inputs, hd_tensor *seed);

/* A function of tensors, for hd_recompute and hd_gradcheck. */
typedef hd_tensor *(*hd_function)(hd_tensors *inputs, void *user);
/* fn(inputs, user), but nothing computed inside is kept for backward: it is computed once more then. `user` must stay
 * valid, and fn must give the same result, until the tape is cleared. */
HD_API hd_tensor *hd_recompute(hd_function fn, void *user, hd_tensors *inputs);

/* ---- gradients of one's own ---- */
enum { HD_SAVED_MOST = 16 };
/* Computes from `inputs`, without a tape; puts into saved[0], saved[1], ... what its backward is to have. */
typedef hd_tensor *(*hd_custom_forward)(hd_tensors *inputs, hd_tensor **saved, void *user);
/* From the gradient of the result, those of the inputs, into results[0], results[1], ... (NULL: zero), each of its
 * input's shape and dtype. */
typedef void (*hd_custom_backward)(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user);
/* forward(inputs), whose gradient is what `backward` says and not that of the ops inside. All that is to have a
 * gradient is among `inputs`. Made of ops, backward can be differentiated again, as far as it reads `gradient`, inputs
 * and the result. `user` must stay valid until the tape is cleared. */
HD_API hd_tensor *hd_custom_gradient(hd_custom_forward forward, hd_custom_backward backward, void *user,
                                     hd_tensors *inputs);

typedef struct hd_gradcheck_opts {
    size_t struct_size;
    double step;       /* of the finite differences; 1e-4 by default */
    double relative;   /* 1e-5 by default */
    double absolute;   /* 1e-7 by default */
    bool second_order; /* the gradients of the gradients too */
    char *explain;     /* where to write what differs: which input, which element, both numbers; may be NULL */
    size_t explain_capacity;
} hd_gradcheck_opts;
/* True when the gradients of fn (any shape) agree with central differences at `inputs`; floats among them are f64. */
HD_API bool hd_gradcheck(hd_function fn, void *user, hd_tensors *inputs, const hd_gradcheck_opts *opts);

/* ---- tapes and contexts: per thread ---- */
/* The active context: 0 unless another was pushed. */
HD_API int64_t hd_grad_context_id(void);
/* Calls noted on the active context's tape. */
HD_API int64_t hd_tape_length(void);
/* Empties the tape of the active context, or of context 0. Gradients stay. */
HD_API void hd_clear_tape(void);
HD_API void hd_clear_default_context_tape(void);
/* A context of its own, active until it is popped; returns its id. Only the active one can be popped, never context
 * 0. */
HD_API int64_t hd_grad_context_push(void);
HD_API void hd_grad_context_pop(int64_t id);

/* For compilers without the cleanup attribute: begin at the top of a block, end on every way out of it. */
HD_API hd_grad_token hd_grad_context_begin(hd_grad_token *self);
HD_API hd_grad_token hd_grad_context_begin_default(hd_grad_token *self);
HD_API hd_grad_token hd_no_grad_begin(hd_grad_token *self);
HD_API void hd_grad_end(hd_grad_token *token);
HD_END_DECLS

/* Declarations, from here to the end of the block:
 *   HD_GRAD_CONTEXT;          a new context is active; its tape goes with the block
 *   HD_GRAD_CONTEXT_DEFAULT;  context 0 is active
 *   HD_NO_GRAD;               nothing is noted on any tape */
#ifdef __cplusplus
extern "C++" {
struct hd_grad_guard {
    hd_grad_token token;
    explicit hd_grad_guard(hd_grad_token (*begin)(hd_grad_token *)) : token(begin(&token)) {}
    hd_grad_guard(const hd_grad_guard &) = delete;
    hd_grad_guard &operator=(const hd_grad_guard &) = delete;
    ~hd_grad_guard() { hd_grad_end(&token); }
};
}
#define HD_GRAD_GUARD_(begin) hd_grad_guard HD_UNIQUE(hd_grad_)(begin)
#else
#define HD_GRAD_AT_(token, begin) hd_grad_token token __attribute__((cleanup(hd_grad_end), unused)) = begin(&token)
#define HD_GRAD_GUARD_(begin)     HD_GRAD_AT_(HD_UNIQUE(hd_grad_), begin)
#endif
#define HD_GRAD_CONTEXT         HD_GRAD_GUARD_(hd_grad_context_begin)
#define HD_GRAD_CONTEXT_DEFAULT HD_GRAD_GUARD_(hd_grad_context_begin_default)
#define HD_NO_GRAD              HD_GRAD_GUARD_(hd_no_grad_begin)

#endif
