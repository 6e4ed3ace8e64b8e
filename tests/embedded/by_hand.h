/* The network of examples/digits.c, 64 pixels, 128 hidden units, 10 classes, written out as loops by hand: what
 * exported code is measured against. */
#ifndef EMBEDDED_BY_HAND_H
#define EMBEDDED_BY_HAND_H

#include <stdint.h>

enum { PIXELS = 64, HIDDEN = 128, CLASSES = 10 };

typedef struct float_net {
    float w1[HIDDEN][PIXELS], b1[HIDDEN];
    float w2[CLASSES][HIDDEN], b2[CLASSES];
} float_net;

/* Weights are symmetric per channel, activations per tensor; sums are 32 bits and exact. A hidden unit is its sum times
 * multiplier / 2^shift, rounded to the nearest, a half upwards. */
typedef struct int8_net {
    float steps_x; /* steps of x in 1 */
    int8_t w1[HIDDEN][PIXELS];
    int32_t b1[HIDDEN], multiplier[HIDDEN];
    uint8_t shift[HIDDEN];
    int8_t w2[CLASSES][HIDDEN];
    int32_t b2[CLASSES];
    float step_logits[CLASSES]; /* what 1 of a sum is worth */
} int8_net;

void by_hand_float(const float_net *n, const float x[1][PIXELS], float logits[1][CLASSES]);
void by_hand_int8(const int8_net *n, const float x[1][PIXELS], float logits[1][CLASSES]);

#endif
