/* Convolutions that templates of CUDA are tried with: every way to walk through an image, and sizes around the edges of
 * tiles. */
#ifndef HD_TESTS_CUDA_CONVOLUTIONS_H
#define HD_TESTS_CUDA_CONVOLUTIONS_H

#include "support.h"

#include <math.h>

typedef struct conv_case {
    int axes;
    int64_t batch, in, out, groups; /* channels of a group */
    int64_t image[3], kernel[3];
    hd_conv_opts o;
} conv_case;

#define AROUND                                                                                                         \
    {                                                                                                                  \
        {1, 1}, { 1, 1 }                                                                                               \
    }
#define AROUND_3                                                                                                       \
    {                                                                                                                  \
        {1, 1}, {1, 1}, { 1, 1 }                                                                                       \
    }
static const conv_case conv_cases[] = {
    {1, 2, 3, 12, 1, {9}, {3}, {.padding = {{1, 1}}}},
    {1, 1, 1, 1, 12, {12}, {4}, {.stride = {3}, .dilation = {2}, .padding = {{3, 2}}}}, /* channel by channel */
    {1, 3, 5, 33, 1, {70}, {7}, {.stride = {2}, .padding = {{3, 3}}}},
    {1, 2, 16, 40, 2, {31}, {8}, {.dilation = {3}, .padding = {{10, 11}}}},
    {1, 1, 2, 9, 1, {300}, {28}, {.padding = {{27, 27}}}}, /* as many taps as have bits */
    {1, 1, 2, 9, 1, {300}, {29}, {.padding = {{5, 5}}}},   /* and more */
    {1, 1, 20, 17, 1, {40}, {5}, {.stride = {7}, .padding = {{-3, -2}}}},
    {2, 2, 3, 64, 1, {7, 6}, {3, 2}, {.stride = {2, 1}, .padding = {{1, 0}, {0, 2}}}},
    {2, 3, 12, 13, 2, {5, 8}, {1, 3}, {.dilation = {1, 2}, .padding = {{2, -1}, {1, 3}}}},
    {2, 1, 9, 20, 1, {11, 13}, {3, 3}, {.padding = AROUND}},
    {2, 2, 16, 64, 1, {14, 14}, {3, 3}, {.padding = AROUND}}, /* A in eights */
    {2, 2, 8, 65, 1, {10, 10}, {3, 3}, {.padding = AROUND}},
    {2, 1, 16, 130, 1, {12, 12}, {3, 3}, {.padding = AROUND}},
    {2, 2, 70, 66, 1, {4, 5}, {1, 1}, {0}},
    {2, 2, 64, 64, 1, {8, 8}, {1, 1}, {.stride = {2, 2}}},
    {2, 1, 3, 64, 1, {30, 30}, {7, 7}, {.stride = {2, 2}, .padding = {{3, 3}, {3, 3}}}},
    {2, 1, 4, 10, 1, {20, 20}, {11, 11}, {.stride = {4, 4}, .padding = {{2, 2}, {2, 2}}}},
    {2, 2, 24, 9, 3, {9, 9}, {5, 5}, {.padding = {{2, 2}, {2, 2}}}},
    {2, 1, 40, 32, 1, {6, 40}, {3, 5}, {.stride = {1, 2}, .dilation = {2, 3}, .padding = {{2, 2}, {6, 5}}}},
    {2, 1, 10, 12, 1, {3, 3}, {3, 3}, {.padding = {{4, 4}, {4, 4}}}}, /* windows beside the image */
    {2, 1, 300, 16, 1, {4, 4}, {3, 3}, {.padding = AROUND}},          /* its k is cut */
    {2, 4, 3, 12, 1, {20, 30}, {3, 3}, {.stride = {2, 2}, .padding = AROUND}},
    {2, 2, 12, 12, 1, {9, 9}, {2, 2}, {.stride = {3, 3}}}, /* pixels that no window has */
    {2, 2, 12, 12, 1, {9, 9}, {4, 4}, {.stride = {4, 2}, .dilation = {2, 3}, .padding = {{3, 1}, {2, 4}}}},
    {2, 3, 40, 33, 1, {11, 12}, {3, 3}, {.padding = AROUND}}, /* more pixels than half a tile */
    {2, 2, 35, 64, 2, {13, 20}, {3, 3}, {.padding = {{1, 1}, {1, 1}}}},
    {2, 3, 16, 40, 1, {9, 33}, {5, 3}, {.dilation = {2, 1}, .padding = {{4, 4}, {1, 1}}}},
    {2, 3, 33, 48, 1, {24, 26}, {3, 3}, {.stride = {2, 2}, .padding = AROUND}},
    {2, 3, 9, 70, 1, {16, 16}, {4, 2}, {.padding = {{0, 3}, {-2, 0}}}},
    {1, 3, 20, 33, 1, {130}, {5}, {.padding = {{2, 2}}}},
    {3, 3, 10, 16, 1, {5, 6, 7}, {3, 3, 3}, {.padding = AROUND_3}},
    {3, 2, 12, 10, 1, {4, 5, 3}, {2, 3, 2}, {.stride = {2, 1, 3}, .padding = {{1, 1}, {0, 1}, {2, 1}}}},
    {3, 1, 9, 11, 2, {3, 3, 4}, {3, 1, 2}, {.dilation = {1, 1, 2}, .padding = {{1, 1}, {0, 0}, {1, 1}}}},
    {3, 1, 16, 16, 1, {6, 6, 6}, {3, 3, 3}, {.padding = AROUND_3}}};
enum { CONV_CASES = sizeof conv_cases / sizeof *conv_cases };

/* Values between -1 and 1 that are bits of the dtype. */
static inline hd_tensor *conv_values(hd_shape shape, hd_dtype dtype) {
    return hd_cast(hd_uniform(shape, HD_F32, -1, 1), dtype);
}

/* Convolutions of one case: the call, and the one of its gradients, with a bias where they have one. */
enum { CONV_FORWARD, CONV_WEIGHT_GRADIENT, CONV_TRANSPOSE, CONV_KINDS };
static inline const char *conv_kind_name(int kind) {
    static const char *const names[] = {"conv", "conv_weight_gradient", "conv_transpose"};
    return names[kind];
}
typedef struct conv_operands_of {
    hd_tensor *a, *b, *bias;
    hd_conv_opts o;
    hd_shape kernel;
} conv_operands_of;
static inline conv_operands_of conv_operands_make(const conv_case *c, int kind, hd_dtype dtype) {
    conv_operands_of out = {.o = c->o, .kernel = {c->axes, {0}}};
    hd_shape x = {c->axes + 2, {c->batch, c->in * c->groups}}, w = {c->axes + 2, {c->out * c->groups, c->in}};
    for (int i = 0; i < c->axes; ++i) {
        x.size[i + 2] = c->image[i];
        w.size[i + 2] = out.kernel.size[i] = c->kernel[i];
    }
    out.o.struct_size = sizeof out.o;
    out.o.groups = c->groups;
    hd_tensor *image = conv_values(x, dtype), *weight = conv_values(w, dtype);
    const hd_shape y = hd_tensor_shape(hd_conv(image, weight, NULL, &out.o));
    out.a = kind == CONV_TRANSPOSE ? conv_values(y, dtype) : image;
    out.b = kind == CONV_WEIGHT_GRADIENT ? conv_values(y, dtype) : weight;
    if (kind == CONV_FORWARD) out.bias = conv_values(HD_SHAPE(c->out * c->groups), dtype);
    if (kind == CONV_TRANSPOSE) {
        out.bias = conv_values(HD_SHAPE(c->in * c->groups), dtype);
        for (int i = 0; i < c->axes; ++i) out.o.output_padding[i] = out.o.stride[i] > 1 ? out.o.stride[i] - 1 : 0;
    }
    return out;
}
static inline hd_tensor *conv_run(const conv_operands_of *p, int kind, hd_tensor *a, hd_tensor *b, hd_tensor *bias) {
    if (kind == CONV_WEIGHT_GRADIENT) return hd_conv_weight_gradient(a, b, p->kernel, &p->o);
    return kind == CONV_FORWARD ? hd_conv(a, b, bias, &p->o) : hd_conv_transpose(a, b, bias, &p->o);
}
/* In f64, and the sum of what the sums are made of, which bounds what rounding does. */
static inline hd_tensor *conv_expected(const conv_operands_of *p, int kind, bool sizes) {
    hd_tensor *in[3] = {p->a, p->b, p->bias};
    for (int i = 0; i < 3; ++i)
        if (in[i] != NULL) in[i] = sizes ? hd_abs(hd_cast(in[i], HD_F64)) : hd_cast(in[i], HD_F64);
    return conv_run(p, kind, in[0], in[1], in[2]);
}

/* Each element within one rounding of the result's dtype, and f32's roundings of all that was added up. */
static inline void conv_check(const char *what, const conv_operands_of *p, int kind, hd_tensor *got) {
    if (got == NULL) fail_msg("%s: %s", what, hd_error_message());
    hd_tensor *here = hd_contiguous(hd_cast(hd_to(got, hd_cpu()), HD_F64)), *exact = conv_expected(p, kind, false),
              *sizes = conv_expected(p, kind, true);
    const int64_t count = hd_tensor_count(exact);
    double *v = malloc(3 * sizeof *v * (size_t)count + 8);
    const hd_dtype dtype = hd_tensor_dtype(got);
    const double rounding = dtype == HD_BF16 ? 0x1p-8 : dtype == HD_F16 ? 0x1p-11 : 0x1p-24;
    if (hd_tensor_count(here) != count || !hd_to_array(here, v, HD_F64, (size_t)count) ||
        !hd_to_array(exact, v + count, HD_F64, (size_t)count) ||
        !hd_to_array(sizes, v + 2 * count, HD_F64, (size_t)count))
        fail_msg("%s: %s", what, hd_error_message());
    for (int64_t i = 0; i < count; ++i) {
        const double most =
            rounding * fabs(v[count + i]) + 0x1p-20 * v[2 * count + i] + (dtype == HD_F16 ? 0x1p-24 : 0);
        if (!(fabs(v[i] - v[count + i]) <= most))
            fail_msg("%s: element %lld of %lld is %.9g, expected %.9g within %.3g", what, (long long)i,
                     (long long)count, v[i], v[count + i], most);
    }
    free(v);
}

#endif
