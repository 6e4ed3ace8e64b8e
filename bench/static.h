/* The networks of static.c, static_process.c and xla.c as scripts, with numbers that peers.py and peers_libtorch.cpp
 * make alike, so that the sides can be compared. */
#ifndef BENCH_STATIC_H
#define BENCH_STATIC_H

#include <hodu/hodu.h>

static const double learning_rate = 0.1;

/* Evenly spread over -scale to scale, and the same for the same seed on every side. */
static inline hd_tensor *numbers(hd_shape shape, uint32_t seed, float scale) {
    hd_tensor *t = hd_zeros(shape, HD_F32);
    float *value = hd_data_mut(t, HD_F32);
    const uint32_t count = (uint32_t)hd_shape_count(shape);
    for (uint32_t i = 0; value != NULL && i < count; ++i) {
        uint32_t h = i * 0x9e3779b1u + seed * 0x85ebca77u;
        h = (h ^ h >> 15) * 0x2c1b3c6du;
        h ^= h >> 12;
        value[i] = ((float)(h >> 8) * 0x1p-23f - 1) * scale;
    }
    return t;
}
static inline hd_tensor *input_numbers(hd_shape shape, uint32_t seed) { return numbers(shape, seed, 2); }
static inline hd_tensor *weight_numbers(hd_shape shape, uint32_t seed) { return numbers(shape, seed, 0.0625f); }

/* ---- the MLP block: two hidden layers of the same width, and the input added to the output ----------------------- */
typedef struct block {
    int64_t batch, in, hidden, out;
} block;
static const block block_small = {32, 256, 512, 256}, block_middle = {64, 512, 1024, 512},
                   block_large = {128, 768, 2048, 1024};
enum { BLOCK_WEIGHTS = 7 };

/* w[6], which fits the input to the output, is NULL when it fits already. */
static inline void block_make_weights(block s, hd_tensor *w[BLOCK_WEIGHTS]) {
    w[0] = weight_numbers(HD_SHAPE(s.in, s.hidden), 10);
    w[1] = weight_numbers(HD_SHAPE(s.hidden), 11);
    w[2] = weight_numbers(HD_SHAPE(s.hidden, s.hidden), 12);
    w[3] = weight_numbers(HD_SHAPE(s.hidden), 13);
    w[4] = weight_numbers(HD_SHAPE(s.hidden, s.out), 14);
    w[5] = weight_numbers(HD_SHAPE(s.out), 15);
    w[6] = s.in != s.out ? weight_numbers(HD_SHAPE(s.in, s.out), 16) : NULL;
}

static inline hd_tensor *block_forward(hd_tensor *x, hd_tensor *const w[BLOCK_WEIGHTS]) {
    hd_tensor *skip = w[6] != NULL ? hd_matmul(x, w[6]) : x;
    hd_tensor *h = hd_gelu_tanh(hd_add(hd_matmul(x, w[0]), w[1]));
    h = hd_gelu_tanh(hd_add(hd_matmul(h, w[2]), w[3]));
    return hd_add(hd_add(hd_matmul(h, w[4]), w[5]), skip);
}

/* Its output "y" for the input "x", with these weights as constants; the input is set. */
static inline hd_script *block_script(block s, hd_tensor *const w[BLOCK_WEIGHTS], hd_tensor *x) {
    HD_NO_GRAD;
    hd_builder *b = hd_builder_new("block");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", block_forward(hd_input("x", HD_SHAPE(s.batch, s.in), HD_F32), w));
    hd_builder_end(b);
    hd_script *script = hd_builder_build(b);
    hd_script_set_input(script, "x", x);
    return script;
}

/* A step of its training: output "loss", the weights as state. */
static inline hd_script *block_training_script(block s, hd_tensor *const w[BLOCK_WEIGHTS], hd_tensor *x, hd_tensor *y) {
    const int count = w[BLOCK_WEIGHTS - 1] != NULL ? BLOCK_WEIGHTS : BLOCK_WEIGHTS - 1;
    for (int i = 0; i < count; ++i) hd_requires_grad(w[i]);
    hd_optimizer *sgd = hd_sgd(hd_tensors_from(w, count), learning_rate, NULL);
    hd_builder *b = hd_builder_new("block_training");
    hd_builder_start(b);
    static const char *const names[BLOCK_WEIGHTS] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6"};
    for (int i = 0; i < count; ++i) hd_builder_add_state(b, names[i], w[i]);
    hd_builder_add_state_of(b, NULL, sgd);
    hd_tensor *input = hd_input("x", HD_SHAPE(s.batch, s.in), HD_F32),
              *target = hd_input("target", HD_SHAPE(s.batch, s.out), HD_F32);
    hd_tensor *loss = hd_mse(block_forward(input, w), target, NULL);
    hd_backward(loss);
    hd_optimizer_step(sgd);
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    hd_script *script = hd_builder_build(b);
    hd_script_set_input(script, "x", x);
    hd_script_set_input(script, "target", y);
    return script;
}

/* ---- training a model of four numbers ---------------------------------------------------------------------------- */
typedef struct line {
    hd_tensor *w, *b, *x, *y;
    hd_optimizer *sgd;
} line;

static inline line make_line(void) {
    line l = {.w = hd_requires_grad(weight_numbers(HD_SHAPE(3, 1), 10)),
              .b = hd_requires_grad(weight_numbers(HD_SHAPE(1), 11)),
              .x = input_numbers(HD_SHAPE(100, 3), 1),
              .y = input_numbers(HD_SHAPE(100, 1), 2)};
    l.sgd = hd_sgd(HD_TENSORS(l.w, l.b), learning_rate, NULL);
    return l;
}

/* Records `epochs` epochs and gives the last loss. */
static inline hd_script *line_script(const line *l, int epochs, bool state) {
    hd_builder *b = hd_builder_new("line");
    hd_builder_start(b);
    if (state) {
        hd_builder_add_state(b, "w", l->w);
        hd_builder_add_state(b, "b", l->b);
        hd_builder_add_state_of(b, NULL, l->sgd);
    }
    hd_tensor *x = hd_input("x", HD_SHAPE(100, 3), HD_F32), *y = hd_input("y", HD_SHAPE(100, 1), HD_F32), *loss = NULL;
    for (int i = 0; i < epochs; ++i) {
        HD_SCOPE;
        loss = hd_keep(hd_mse(hd_add(hd_matmul(x, l->w), l->b), y, NULL));
        hd_backward(loss);
        hd_optimizer_step(l->sgd);
        hd_optimizer_zero_grad(l->sgd);
    }
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", l->x);
    hd_script_set_input(s, "y", l->y);
    return s;
}

#endif
