/* Capturing: between hd_builder_start and hd_builder_end the calls of this thread are recorded instead of run, and
 * become a script that is compiled once and run many times.
 *
 *     hd_builder *b = hd_builder_new("my_script");
 *     hd_builder_start(b);
 *     hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32);
 *     hd_builder_add_output(b, "result", hd_matmul(x, w));         // w, from outside, is a constant: its value of now
 *     hd_builder_end(b);
 *     hd_script *script = hd_builder_build(b);
 *
 * Values inside are not known until the script runs: reading one is an error. Parameters and modules made inside are
 * made at once. What a call sets on a tensor rather than in it is no recorded call either: hd_set_requires_grad(w,
 * false) on a tensor from outside holds at once, and still does when the builder has ended (unless recorded calls wrote
 * into w before:
 * such a tensor is then as it was). A builder that goes out of scope ends by itself. */
#ifndef HODU_BUILDER_H
#define HODU_BUILDER_H

#include <hodu/tensor.h>

typedef struct hd_builder hd_builder;
typedef struct hd_script hd_script;

typedef struct hd_eager_token {
    const void *self;
} hd_eager_token;

HD_BEGIN_DECLS
HD_API hd_builder *hd_builder_new(const char *name);
/* From here on this thread's calls are recorded; other threads are not affected, and may not use the builder until it
 * has ended. Once per builder. */
HD_API void hd_builder_start(hd_builder *builder);
/* At once again, error or not; tensors, gradients and optimizers from outside are as they were. */
HD_API void hd_builder_end(hd_builder *builder);
/* A script of what was recorded; may be called again for independent ones. The builder may be released after. */
HD_API hd_script *hd_builder_build(hd_builder *builder);
/* True while a builder records on this thread, and not in an HD_EAGER block: values cannot be read then. */
HD_API bool hd_builder_is_recording(void);

/* A value that each run is given, by name; hd_input adds it to this thread's active builder. */
HD_API hd_tensor *hd_input(const char *name, hd_shape shape, hd_dtype dtype);
HD_API hd_tensor *hd_builder_add_input(hd_builder *builder, const char *name, hd_shape shape, hd_dtype dtype);
/* A value that each run gives, by name. */
HD_API void hd_builder_add_output(hd_builder *builder, const char *name, hd_tensor *t);

/* What a tensor from outside means; without either it is a constant, a snapshot of its value at its first use. Both
 * hold for all views of its memory, and come before its first use.
 *   bound   a run reads the tensor as it is then
 *   state   likewise, and what the recorded calls wrote into it is stored at the end of the run */
HD_API void hd_builder_bind(hd_builder *builder, const char *name, hd_tensor *t);
HD_API void hd_builder_add_state(hd_builder *builder, const char *name, hd_tensor *t);

/* HD_EAGER; runs the calls up to the end of the block at once, also while a builder is active. */
HD_API hd_eager_token hd_eager_begin(hd_eager_token *self);
HD_API void hd_eager_end(hd_eager_token *token);
HD_END_DECLS

#ifdef __cplusplus
extern "C++" {
struct hd_eager_guard {
    hd_eager_token token;
    hd_eager_guard() : token(hd_eager_begin(&token)) {}
    hd_eager_guard(const hd_eager_guard &) = delete;
    hd_eager_guard &operator=(const hd_eager_guard &) = delete;
    ~hd_eager_guard() { hd_eager_end(&token); }
};
}
#define HD_EAGER hd_eager_guard HD_UNIQUE(hd_eager_)
#else
#define HD_EAGER_AT_(token) hd_eager_token token __attribute__((cleanup(hd_eager_end), unused)) = hd_eager_begin(&token)
#define HD_EAGER            HD_EAGER_AT_(HD_UNIQUE(hd_eager_))
#endif

#ifdef HD_CHECKED
#define hd_input(...)             HD_CHECKED(3, HD_CHECK_3_OF_3, hd_input, __VA_ARGS__)
#define hd_builder_add_input(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_builder_add_input, __VA_ARGS__)
#endif

#endif
