/* Random numbers: Philox 4x32-10. Element i of a draw depends only on the seed, the number of the draw and i, so that
 * devices, thread counts and compilers agree. The drawing ops (hd_rand, hd_randn, ...) are in ops.h. A call that fails
 * takes no draw: it gives back those it took, unless another thread has drawn from the same generator since. */
#ifndef HODU_RANDOM_H
#define HODU_RANDOM_H

#include <hodu/base.h>

typedef struct hd_generator hd_generator;

HD_BEGIN_DECLS
/* Restarts this thread's generator at draw 0 of `seed`. A thread that never calls it begins at seed 0. */
HD_API void hd_seed(uint64_t seed);
/* A generator of its own, at draw 0 of `seed`. */
HD_API hd_generator *hd_generator_new(uint64_t seed);
/* Makes g the generator of this thread's draws (NULL: the thread's own again) and returns the one before (NULL:
 * own). */
HD_API hd_generator *hd_generator_use(hd_generator *g);
/* The state of g (NULL: of the one in use): its seed and the number of its next draw. */
HD_API uint64_t hd_generator_seed(const hd_generator *g);
HD_API uint64_t hd_generator_draw(const hd_generator *g);
/* Continues g (NULL: the one in use) at a draw, for restoring a checkpoint. */
HD_API void hd_generator_set(hd_generator *g, uint64_t seed, uint64_t draw);
HD_END_DECLS

#endif
