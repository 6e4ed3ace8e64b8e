/* The loops by hand: how many instructions they take, and that the one in integers says nearly what the one in floats
 * does. Weights are random: they matter little to a count, and examples/digits.c need not be trained for it. */
#include "board.h"
#include "by_hand.h"

static float_net floats;
static int8_net ints;
static float x[1][PIXELS], exact[1][CLASSES], rounded[1][CLASSES];

/* -1 to 1 */
static float dice(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state / 2147483648.0f;
}

static void fill(float *values, int count, float most) {
    for (int i = 0; i < count; ++i) values[i] = most * dice();
}

static float largest(const float *values, int count) {
    float most = 0;
    for (int i = 0; i < count; ++i) {
        const float size = values[i] < 0 ? -values[i] : values[i];
        if (size > most) most = size;
    }
    return most;
}

static int32_t rounds(float value) { return (int32_t)(value < 0 ? value - 0.5f : value + 0.5f); }

/* Returns the step of a row. */
static float quantise(const float *from, int8_t *to, int count) {
    const float step = largest(from, count) / 127;
    for (int i = 0; i < count; ++i) to[i] = (int8_t)rounds(from[i] / step);
    return step;
}

static void quantise_net(float step_x, float step_hidden) {
    ints.steps_x = 1 / step_x;
    for (int h = 0; h < HIDDEN; ++h) {
        const float step = quantise(floats.w1[h], ints.w1[h], PIXELS) * step_x;
        ints.b1[h] = rounds(floats.b1[h] / step);
        float part = step / step_hidden;
        for (ints.shift[h] = 0; part < 1073741824.0f; part *= 2) ++ints.shift[h];
        ints.multiplier[h] = (int32_t)part;
    }
    for (int k = 0; k < CLASSES; ++k) {
        ints.step_logits[k] = quantise(floats.w2[k], ints.w2[k], HIDDEN) * step_hidden;
        ints.b2[k] = rounds(floats.b2[k] / ints.step_logits[k]);
    }
}

int main(void) {
    fill(floats.w1[0], HIDDEN * PIXELS, 0.125f);
    fill(floats.b1, HIDDEN, 0.125f);
    fill(floats.w2[0], CLASSES * HIDDEN, 0.0875f);
    fill(floats.b2, CLASSES, 0.0875f);
    quantise_net(1.0f / 127, 1.5f / 127); /* hidden units are at most 1.5 here */

    float apart = 0;
    uint32_t of_floats = 0, of_ints = 0;
    for (int image = 0; image < 8; ++image) {
        for (int i = 0; i < PIXELS; ++i) {
            const float ink = dice();
            x[0][i] = ink > 0 ? (float)(int32_t)(16 * ink) / 16 : 0;
        }
        INSTRUCTIONS_OF(of_floats, by_hand_float(&floats, x, exact));
        INSTRUCTIONS_OF(of_ints, by_hand_int8(&ints, x, rounded));
        for (int k = 0; k < CLASSES; ++k) {
            const float difference = rounded[0][k] - exact[0][k];
            if (difference > apart) apart = difference;
            if (-difference > apart) apart = -difference;
            print_float(exact[0][k]);
            print(" ");
            print_float(rounded[0][k]);
            print("\n");
        }
    }
    print_figure("instructions of floats", (int32_t)of_floats);
    print_figure("instructions of int8", (int32_t)of_ints);
    print_figure("thousandths of the largest logit apart", (int32_t)(1000 * apart / largest(exact[0], CLASSES)));
    return apart > 0.05f * largest(exact[0], CLASSES);
}
