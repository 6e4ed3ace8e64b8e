/* A net by hand with the interface that exported ones have, to try the harness on: ten classes, each a weighted sum of
 * the eight rows of an image. */
#ifndef SAMPLE_NET_H
#define SAMPLE_NET_H

#include <stdint.h>

enum { NET_ARENA = 32, NET_STATE = 4 }; /* bytes */

typedef struct net {
    float *arena;
    uint32_t *state; /* how many runs there were */
} net;

/* 0, or -1 for memory that is NULL or not aligned for 4 bytes. */
int net_init(net *n, void *arena, void *state);

/* 0, or 1 + i when x[0][i] is not in 0 to 1; state is then as it was. */
int net_run(net *n, const float x[1][64], float logits[1][10]);

#endif
