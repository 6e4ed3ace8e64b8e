/* Ownership: everything a call returns is reference counted and belongs to the thread's current scope.
 *
 *     for (int i = 0; i < 100; ++i) {
 *         HD_SCOPE;                        // a declaration: what is made below goes when the block is left,
 *         hd_tensor *y = hd_exp(x);        // also by break, continue, return and goto
 *     }
 *
 * Without any HD_SCOPE objects live until their thread ends. hd_keep hands an object to the enclosing scope; hd_retain
 * makes it yours until hd_release. One HD_SCOPE per block. Threads: an object may be handed to another thread and
 * released there; two threads may read one object at once; writing to a tensor while another thread uses it is the
 * caller's to prevent. Scripts, builders, optimizers and compiled models are used by one thread at a time, and modules
 * are changed while no other uses them: anything else is an error. Scopes belong to their thread. A longjmp out of
 * blocks and callbacks (an update, a hook, a forward function) ends nothing; the end of a scope around them does: the
 * calls that were left have failed then, and what they used can be used again. */
#ifndef HODU_SCOPE_H
#define HODU_SCOPE_H

#include <hodu/base.h>

typedef struct hd_scope_token {
    const void *self; /* its own address: a copied or skipped token is not mistaken for a live one */
    uint32_t depth;
} hd_scope_token;

HD_BEGIN_DECLS
/* Begins a scope whose token will be stored at `self`; file and line go into error messages. For compilers without the
 * cleanup attribute: hd_scope_token s = hd_scope_begin(&s, __FILE__, __LINE__); ... hd_scope_end(&s); */
HD_API hd_scope_token hd_scope_begin(hd_scope_token *self, const char *file, int line);
/* Ends it and every scope begun after it, error or not; ending one twice does nothing. */
HD_API void hd_scope_end(hd_scope_token *token);
/* Gives x to the scope around the current one and returns it, so that it outlives the block; NULL stays NULL. */
HD_API void *hd_keep_object(void *x);
/* Adds a reference that is yours: the object lives until hd_release. Returns x. */
HD_API void *hd_retain_object(void *x);
/* Gives up a reference of yours, from hd_retain; without one, takes the object out of its scope before the scope's end.
 * Some calls return their argument itself (hd_cast to the same dtype, hd_contiguous): releasing that releases the
 * argument. */
HD_API void hd_release(const void *x);
/* Objects alive in the process, all threads together. */
HD_API int64_t hd_live_objects(void);
HD_END_DECLS

#ifdef __cplusplus
extern "C++" {
struct hd_scope_guard {
    hd_scope_token token;
    hd_scope_guard(const char *file, int line) : token(hd_scope_begin(&token, file, line)) {}
    hd_scope_guard(const hd_scope_guard &) = delete;
    hd_scope_guard &operator=(const hd_scope_guard &) = delete;
    ~hd_scope_guard() { hd_scope_end(&token); }
};
template <class T> inline T *hd_keep(T *x) { return static_cast<T *>(hd_keep_object(x)); }
template <class T> inline T *hd_retain(T *x) { return static_cast<T *>(hd_retain_object(x)); }
}
#define HD_SCOPE hd_scope_guard HD_UNIQUE(hd_scope_)(__FILE__, __LINE__)
#else
#define HD_SCOPE_AT_(token)                                                                                            \
    hd_scope_token token __attribute__((cleanup(hd_scope_end), unused)) = hd_scope_begin(&token, __FILE__, __LINE__)
#define HD_SCOPE     HD_SCOPE_AT_(HD_UNIQUE(hd_scope_))
#define hd_keep(x)   ((__typeof__(x))hd_keep_object(x))
#define hd_retain(x) ((__typeof__(x))hd_retain_object(x))
#endif

#endif
