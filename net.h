/* net: the script "digits", written as C by hodu. It calls nothing and takes no memory.
 *   input x: f32 [1,64]
 *   output logits: f32 [1,10]
 * bf16, f16, f8 and bool are bits in whole numbers. */
#ifndef NET_H
#define NET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that net_init is given, and what divides their addresses. What is in the arena counts during a
 * run alone; the state is kept from run to run. */
enum { NET_ARENA = 128, NET_STATE = 0, NET_ALIGN = 8 };

typedef struct net {
    unsigned char *arena, *state;
    int32_t at; /* of a check that failed: which element did not fit, counted from 0 */
} net;

/* Takes memory, and sets the state to its first values; -1 when memory is missing or badly aligned, else 0. */
int net_init(net *n, void *arena, void *state);
/* The same with a state that is there already, from an earlier run. */
int net_resume(net *n, void *arena, void *state);
/* Runs once; gives 0. Results must not overlap operands. */
int net_run(net *n, const float x[1][64], float logits[1][10]);

#ifdef __cplusplus
}
#endif

#endif
