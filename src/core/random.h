/* Generators: a seed and the number of the next draw. */
#ifndef HD_CORE_RANDOM_H
#define HD_CORE_RANDOM_H

#include "core/object.h"

struct hd_undo_draws;

/* Takes `count` draws of the thread's generator, from `draw` on. */
hd_error hd_generator_take(hd_thread *thread, uint64_t count, uint64_t *seed, uint64_t *draw);
/* A call that fails has taken no draws: it gives back what it took since it began, unless somebody else has drawn from
 * the generator since.
 *     const hd_draws before = hd_generator_now(thread);  ...  hd_generator_give_back(thread, &before);  */
typedef struct hd_draws {
    uint64_t seed, draw; /* of the next one */
    uint64_t drawn;      /* by the thread */
} hd_draws;
hd_draws hd_generator_now(const hd_thread *thread);
void hd_generator_give_back(hd_thread *thread, const hd_draws *before);
/* A generator is again what it was when `d` was noted. */
void hd_generator_restore(hd_thread *thread, const struct hd_undo_draws *d);

#endif
