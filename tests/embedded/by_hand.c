#include "by_hand.h"

void by_hand_float(const float_net *n, const float x[1][PIXELS], float logits[1][CLASSES]) {
    float hidden[HIDDEN];
    for (int h = 0; h < HIDDEN; ++h) {
        float sum = n->b1[h];
        for (int i = 0; i < PIXELS; ++i) sum += n->w1[h][i] * x[0][i];
        hidden[h] = sum > 0 ? sum : 0;
    }
    for (int k = 0; k < CLASSES; ++k) {
        float sum = n->b2[k];
        for (int h = 0; h < HIDDEN; ++h) sum += n->w2[k][h] * hidden[h];
        logits[0][k] = sum;
    }
}

static int8_t clamped(int32_t value) { return (int8_t)(value > 127 ? 127 : value < -127 ? -127 : value); }

static int8_t requantised(int32_t sum, int32_t multiplier, int shift) {
    const int64_t product = (int64_t)sum * multiplier;
    return clamped((int32_t)((product + (INT64_C(1) << (shift - 1))) >> shift));
}

void by_hand_int8(const int8_net *n, const float x[1][PIXELS], float logits[1][CLASSES]) {
    int8_t in[PIXELS], hidden[HIDDEN];
    for (int i = 0; i < PIXELS; ++i) {
        const float steps = x[0][i] * n->steps_x;
        in[i] = clamped((int32_t)(steps < 0 ? steps - 0.5f : steps + 0.5f));
    }
    for (int h = 0; h < HIDDEN; ++h) {
        int32_t sum = n->b1[h];
        for (int i = 0; i < PIXELS; ++i) sum += n->w1[h][i] * in[i];
        hidden[h] = sum > 0 ? requantised(sum, n->multiplier[h], n->shift[h]) : 0;
    }
    for (int k = 0; k < CLASSES; ++k) {
        int32_t sum = n->b2[k];
        for (int h = 0; h < HIDDEN; ++h) sum += n->w2[k][h] * hidden[h];
        logits[0][k] = (float)sum * n->step_logits[k];
    }
}
