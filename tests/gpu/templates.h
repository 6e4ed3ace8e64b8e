/* Every template as text, for whoever compiles it: a template has a line for each of its texts. */
#ifndef HD_TESTS_GPU_TEMPLATES_H
#define HD_TESTS_GPU_TEMPLATES_H

#include "core/memory.h"
#include "kernel/template.h"
#include "support.h"

/* A type that is 0 is the one that is asked for. */
static const hd_template_use template_lines[] = {
    {.which = HD_TEMPLATE_sort, .numbers = {64, 0, 0, 3}},
    {.which = HD_TEMPLATE_sort, .numbers = {64, 1, 1, 3}},
    {.which = HD_TEMPLATE_scan, .types = {HD_F32}, .numbers = {64, 0, 1}}, /* sum, product, logarithm, extremes */
    {.which = HD_TEMPLATE_scan, .types = {HD_I64}, .numbers = {64, 1, 1}},
    {.which = HD_TEMPLATE_scan, .types = {HD_F32, HD_BF16, HD_BF16}, .numbers = {64, 2, 1}},
    {.which = HD_TEMPLATE_scan, .types = {HD_F32, HD_F32, HD_F32}, .numbers = {64, 3, 3}},
    {.which = HD_TEMPLATE_scan, .types = {HD_I64, HD_I16, HD_I16}, .numbers = {64, 4, 1}},
    {.which = HD_TEMPLATE_scatter, .numbers = {64, 0}},
    {.which = HD_TEMPLATE_scatter, .numbers = {64, 1}},
    {.which = HD_TEMPLATE_scatter, .types = {HD_DTYPE_BOOL}, .numbers = {64, 1}},
    {.which = HD_TEMPLATE_scatter, .types = {HD_DTYPE_I8}, .numbers = {64, 2}},
    {.which = HD_TEMPLATE_convert, .types = {0, HD_DTYPE_I16}, .numbers = {64, 0}},
    {.which = HD_TEMPLATE_convert, .types = {HD_DTYPE_I32, 0}, .numbers = {64, 0}},
    {.which = HD_TEMPLATE_peak, .numbers = {64}},
    {.which = HD_TEMPLATE_product, .numbers = {0, 64, 64, 8, 8, 8, 1}}, /* matrices, and windows of images */
    {.which = HD_TEMPLATE_product, .numbers = {1, 128, 128, 16, 8, 8, 0}},
    {.which = HD_TEMPLATE_product, .numbers = {2, 8, 64, 32, 8, 1, 1}},
    {.which = HD_TEMPLATE_conv, .types = {HD_F32, HD_F32, HD_F32}, .numbers = {1, 64, 128, 8, 32, 64, 0, 0}},
    {.which = HD_TEMPLATE_conv, .types = {HD_F32, HD_F32, HD_F32}, .numbers = {1, 32, 64, 8, 16, 32, 0, 1}},
    {.which = HD_TEMPLATE_conv, .types = {HD_BF16, HD_BF16, HD_BF16}, .numbers = {1, 64, 128, 32, 32, 32, 1, 0}},
    {.which = HD_TEMPLATE_conv, .types = {HD_F16, HD_F16, HD_F16}, .numbers = {2, 32, 64, 32, 16, 32, 2, 0}},
    {.which = HD_TEMPLATE_conv_image, .types = {HD_BF16, HD_BF16, HD_BF16}, .numbers = {1, 64, 128, 32, 32, 64, 1}},
    {.which = HD_TEMPLATE_norm, .numbers = {64, 0, 1, 2}},        /* rows, their gradient, measure, parts, fold */
    {.which = HD_TEMPLATE_norm, .numbers = {128, 0, 1, 2, 8, 4}}, /* held in registers */
    {.which = HD_TEMPLATE_norm, .numbers = {64, 0, 0, 1, 3, 1}},
    {.which = HD_TEMPLATE_norm, .numbers = {64, 1, 0, 1}},
    {.which = HD_TEMPLATE_norm, .numbers = {64, 2, 1, 0}},
    {.which = HD_TEMPLATE_norm, .numbers = {64, 3, 1, 0}},
    {.which = HD_TEMPLATE_norm, .numbers = {64, 4, 0, 0}},
    {.which = HD_TEMPLATE_pool, .numbers = {64, 0, 0}}, /* largest, mean, pick, places, back */
    {.which = HD_TEMPLATE_pool, .numbers = {64, 1, 1}},
    {.which = HD_TEMPLATE_pool, .numbers = {64, 2, 0}},
    {.which = HD_TEMPLATE_pool, .numbers = {64, 3, 1}},
    {.which = HD_TEMPLATE_pool, .numbers = {64, 4, 0}},
    {.which = HD_TEMPLATE_attention, .numbers = {0, 32, 128, 0}}, /* forward, levels, queries, keys */
    {.which = HD_TEMPLATE_attention, .types = {[4] = HD_DTYPE_BOOL}, .numbers = {0, 16, 32, 1}},
    {.which = HD_TEMPLATE_attention, .types = {[4] = HD_DTYPE_F32}, .numbers = {1, 32, 32, 1}},
    {.which = HD_TEMPLATE_attention, .numbers = {2, 32, 64, 0}},
    {.which = HD_TEMPLATE_attention, .numbers = {3, 16, 64, 1}},
};
enum { TEMPLATE_LINES = (int)(sizeof template_lines / sizeof template_lines[0]) };

/* The text of a line, which its dialect has; from malloc. */
static inline char *template_text(int line, hd_dtype dtype, hd_dialect dialect, bool has_f64) {
    hd_template_use use = template_lines[line];
    for (int i = 0; i < HD_TEMPLATE_TYPES; ++i) use.types[i] = use.types[i] != 0 ? use.types[i] : (int32_t)dtype;
    const size_t length = hd_render_template(&use, dialect, has_f64, NULL, 0);
    char *text = malloc(length + 1);
    if (length == 0 || hd_render_template(&use, dialect, has_f64, text, length + 1) != length)
        fail_msg("%s: %s", hd_template_name((hd_template)use.which), hd_error_message());
    return text;
}

/* Another template, another line. */
static inline void every_template_has_a_line(void **state) {
    (void)state;
    bool has[HD_TEMPLATE_COUNT] = {false};
    for (int i = 0; i < TEMPLATE_LINES; ++i) has[template_lines[i].which] = true;
    for (int i = 0; i < HD_TEMPLATE_COUNT; ++i)
        if (!has[i]) fail_msg("%s has no line in tests/gpu/templates.h", hd_template_name((hd_template)i));
}

#endif
