/* Generators: a seed and the number of the next draw. */
#ifndef HD_CORE_RANDOM_H
#define HD_CORE_RANDOM_H

#include "core/object.h"

/* Takes the next draw of the thread's generator. */
void hd_generator_next(hd_thread *thread, uint64_t *seed, uint64_t *draw);
/* Gives `count` draws from `draw` on back, unless somebody has drawn since. */
void hd_generator_give_back(hd_thread *thread, uint64_t draw, uint64_t count);

#endif
