/* learner: the script "training", written as C by hodu. It calls nothing and takes no memory.
 *   input x: f32 [16,4]
 *   input y: i64 [16]
 *   output loss: f32 []
 *   state _0_weight: f32 [8,4], byte 16 of the state
 *   state _0_bias: f32 [8], byte 144 of the state
 *   state _3_weight: f32 [3,8], byte 176 of the state
 *   state _3_bias: f32 [3], byte 272 of the state
 *   state optimizer_learning_rate: f64 [], a constant
 *   state optimizer_steps: f64 [], byte 288 of the state
 *   state optimizer_m_0: f32 [8,4], byte 296 of the state
 *   state optimizer_v_0: f32 [8,4], byte 424 of the state
 *   state optimizer_m_1: f32 [8], byte 552 of the state
 *   state optimizer_v_1: f32 [8], byte 584 of the state
 *   state optimizer_m_2: f32 [3,8], byte 616 of the state
 *   state optimizer_v_2: f32 [3,8], byte 712 of the state
 *   state optimizer_m_3: f32 [3], byte 808 of the state
 *   state optimizer_v_3: f32 [3], byte 824 of the state
 * bf16, f16, f8 and bool are bits in whole numbers. */
#ifndef LEARNER_H
#define LEARNER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that learner_init is given, and what divides their addresses. What is in the arena counts during a
 * run alone; the state is kept from run to run. */
enum { LEARNER_ARENA = 2056, LEARNER_STATE = 840, LEARNER_ALIGN = 8 };

typedef struct learner {
    unsigned char *arena, *state;
    int32_t at; /* of a check that failed: which element did not fit, counted from 0 */
} learner;

/* Takes memory, and sets the state to its first values; -1 when memory is missing or badly aligned, else 0. */
int learner_init(learner *n, void *arena, void *state);
/* The same with a state that is there already, from an earlier run. */
int learner_resume(learner *n, void *arena, void *state);
/* Begins random numbers anew, as hd_seed does. */
void learner_seed(learner *n, uint64_t seed);
/* Runs once; gives 0, or which check failed, with n->at; then the state is as it was, and results
 * say nothing. Results must not overlap operands.
 *   1: an index out of range of scatter (node %46)
 *   2: an index out of range of gather (node %37) */
int learner_train_step(learner *n, const float x[16][4], const int64_t y[16], float *loss);

#ifdef __cplusplus
}
#endif

#endif
