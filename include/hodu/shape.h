/* Shapes and lists of axes, by value. */
#ifndef HODU_SHAPE_H
#define HODU_SHAPE_H

#include <hodu/base.h>

#define HD_MAX_RANK 8

typedef struct hd_shape {
    int rank; /* 0 is a scalar; -1 marks a list that was too long, which every call rejects */
    int64_t size[HD_MAX_RANK];
} hd_shape;

/* Axes count from the end when negative. An empty list means all axes where a call reduces. */
typedef struct hd_axes {
    int count;
    int axis[HD_MAX_RANK];
} hd_axes;

static inline hd_shape hd_shape_of(const int64_t *sizes, size_t rank) {
    hd_shape shape;
    shape.rank = rank <= HD_MAX_RANK ? (int)rank : -1;
    for (size_t i = 0; i < HD_MAX_RANK; ++i) shape.size[i] = i < rank ? sizes[i] : 0;
    return shape;
}

static inline hd_axes hd_axes_of(const int *axes, size_t count) {
    hd_axes list;
    list.count = count <= HD_MAX_RANK ? (int)count : -1;
    for (size_t i = 0; i < HD_MAX_RANK; ++i) list.axis[i] = i < count ? axes[i] : 0;
    return list;
}

/* HD_SHAPE(32, 784) is a matrix, HD_SHAPE() a scalar; HD_AXES(0, -1) two axes, HD_AXES() none. */
#ifdef __cplusplus
extern "C++" { /* braces, unlike the arguments of a function, are evaluated in order */
struct hd_shape_list {
    hd_shape shape;
    template <class... N> explicit hd_shape_list(N... sizes) {
        const int64_t all[] = {0, static_cast<int64_t>(sizes)...};
        shape = hd_shape_of(all + 1, sizeof...(sizes));
    }
};
struct hd_axes_list {
    hd_axes axes;
    template <class... N> explicit hd_axes_list(N... numbers) {
        const int all[] = {0, static_cast<int>(numbers)...};
        axes = hd_axes_of(all + 1, sizeof...(numbers));
    }
};
}
#define HD_SHAPE(...) (hd_shape_list{__VA_ARGS__}.shape)
#define HD_AXES(...)  (hd_axes_list{__VA_ARGS__}.axes)
#else
#define HD_SHAPE(...)                                                                                                  \
    hd_shape_of((const int64_t[]){0, __VA_ARGS__} + 1, sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1)
#define HD_AXES(...)                                                                                                   \
    hd_axes_of((const int[]){0, __VA_ARGS__} + 1, sizeof((const int[]){0, __VA_ARGS__}) / sizeof(int) - 1)
#endif

HD_BEGIN_DECLS
/* True when rank and sizes are the same; a rank that is none equals nothing. */
HD_API bool hd_shape_equal(hd_shape a, hd_shape b);
/* Number of elements; 1 for a scalar, -1 when a size is negative or the product does not fit. */
HD_API int64_t hd_shape_count(hd_shape shape);
HD_END_DECLS

#endif
