/* Sums over leading axes, where what is summed lies rows apart, have the same error at every level: f32 sums of a few
 * rows go into f64. */
#include "builders.h"

#include <math.h>

typedef struct sum_case {
    const char *name;
    hd_shape shape;
    hd_axes axes;
    bool of_squares;
} sum_case;

static hd_tensor *sum_of(const sum_case *c, hd_tensor *x) {
    return hd_sum(c->of_squares ? hd_square(x) : x, c->axes, NULL);
}

/* The largest relative error of a sum of positive numbers. */
static double error_of(hd_tensor *y, hd_tensor *exact) {
    hd_tensor *off = hd_abs(hd_add_scalar(hd_div(hd_cast(y, HD_F64), exact), -1));
    return hd_item(hd_max(off, HD_AXES(), NULL));
}

static void sums_over_rows_are_as_exact_at_every_level(void **state) {
    (void)state;
    const sum_case cases[] = {
        {"many rows of 3", HD_SHAPE(1 << 20, 3), HD_AXES(0), false},
        {"many rows of 4, squared", HD_SHAPE(1 << 20, 4), HD_AXES(0), true},
        {"rows of 64", HD_SHAPE(1 << 14, 64), HD_AXES(0), false},
        {"rows of 64, squared", HD_SHAPE(1 << 14, 64), HD_AXES(0), true},
        {"256 rows", HD_SHAPE(256, 256), HD_AXES(0), false},
        {"wide rows", HD_SHAPE(64, 512), HD_AXES(0), false},
        {"two axes, the inner one short", HD_SHAPE(300, 7, 64), HD_AXES(0, 1), true},
        {"the axis in the middle", HD_SHAPE(4, 1000, 64), HD_AXES(1), true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; ++k) {
        HD_SCOPE;
        const sum_case *c = &cases[k];
        hd_seed(3);
        hd_tensor *x = hd_rand(c->shape, HD_F32);
        hd_tensor *exact = sum_of(c, hd_cast(x, HD_F64));
        hd_builder *b = started("sums");
        hd_builder_add_output(b, "y", sum_of(c, hd_input("x", c->shape, HD_F32)));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x);
        for (int level = HD_O0 - 1; level <= HD_O2; ++level) {
            HD_SCOPE;
            if (level >= HD_O0) hd_script_set_optimization_level(s, (hd_optimization_level)level);
            const double error = error_of(level < HD_O0 ? sum_of(c, x) : output(s, "y"), exact);
            assert_ok();
            if (!(error <= 2e-7)) fail_msg("%s at level %d: an error of %g", c->name, level - HD_O0, error);
        }
    }
}

RUN(test(sums_over_rows_are_as_exact_at_every_level))
