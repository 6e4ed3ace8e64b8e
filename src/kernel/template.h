/* Templates: what is no loop nest of words (products, windows, sorting, ...) is a text of its own,
 * template_<name>.h, in the words of the dialects, with names for its types and numbers. A use of a template says
 * what these are; the same use gives the same text. */
#ifndef HD_KERNEL_TEMPLATE_H
#define HD_KERNEL_TEMPLATE_H

#include "kernel/gpu.h"

/* Every template, and what its text is about: render_template.c has their names for types, numbers and words. */
#define HD_TEMPLATES(X)                                                                                                \
    X(sort)                                                                                                            \
    X(scan)                                                                                                            \
    X(scatter)                                                                                                         \
    X(convert)                                                                                                         \
    X(peak)                                                                                                            \
    X(product)                                                                                                         \
    X(conv)                                                                                                            \
    X(conv_image)                                                                                                      \
    X(norm)                                                                                                            \
    X(pool)                                                                                                            \
    X(attention)

typedef enum hd_template {
#define TEMPLATE(name) HD_TEMPLATE_##name,
    HD_TEMPLATES(TEMPLATE)
#undef TEMPLATE
        HD_TEMPLATE_COUNT
} hd_template;

enum { HD_TEMPLATE_TYPES = 7, HD_TEMPLATE_NUMBERS = 8 };
/* All of it, zero where there is nothing, is the key of the text. A text that calls a type X has
 *     X_MEMORY         the type of an element in memory
 *     X_TYPE           the type in which it is computed
 *     X_LOAD(element)  an element of memory as X_TYPE
 *     X_STORE(value)   and back, rounded
 *     X_BITS(element)  of a float: the bits of an element
 *     X_BYTES          of an element; X_IS_FLOAT, X_IS_SIGNED: 0 or 1
 *     X_NUMBER(bits)   a number that a launch passes as 64 bits: hd_template_number
 * of its second type, Y_FROM_X(value) where the template casts the first one to it, and of its first type the words
 * that the template names: X_EXP(value). Numbers are plain macros. */
typedef struct hd_template_use {
    int32_t which;                        /* hd_template */
    int32_t types[HD_TEMPLATE_TYPES];     /* dtypes */
    int32_t numbers[HD_TEMPLATE_NUMBERS]; /* in the order of its names */
} hd_template_use;

const char *hd_template_name(hd_template which);
/* Some are in the words of CUDA alone. */
bool hd_template_is_in(hd_template which, hd_dialect dialect);
/* A whole program; length as snprintf, 0 with an error. */
size_t hd_render_template(const hd_template_use *use, hd_dialect dialect, bool has_f64, char *out, size_t capacity);
/* What follows a product, fused with it: a kernel without reductions over the result as rows of columns. Buffer
 * `tile` is that result, which is nowhere in memory; the axes up to `rows` count its rows, those behind it its
 * columns. */
typedef struct hd_fused_epilogue {
    const hd_kernel *kernel;
    int tile, rows;
    bool narrow; /* as its grid is */
} hd_fused_epilogue;
/* The template `product`, `conv` or `conv_image`, in which that stands where elements of the result are stored. Its
 * buffers are A, B, the parts of sums, and those of the kernel, of which the tile's is not used; what a launch passes
 * is an i64 for each of the first three, what hd_grid_arguments gives for the kernel and such a grid, and what the
 * template has behind that. */
size_t hd_render_product(const hd_template_use *use, const hd_fused_epilogue *epilogue, hd_dialect dialect,
                         bool has_f64, char *out, size_t capacity);
/* The bits of a number in the type in which a dtype is computed. */
uint64_t hd_template_number(hd_dtype dtype, double value);

#endif
