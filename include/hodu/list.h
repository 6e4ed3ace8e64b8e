/* Lists of tensors: parameters of a model, inputs of a function, gradients. A list holds its tensors. */
#ifndef HODU_LIST_H
#define HODU_LIST_H

#include <hodu/ops.h>
#include <hodu/tensor.h>

HD_BEGIN_DECLS
/* A list of `count` tensors. HD_TENSORS(a, b, c) writes it shorter; a is made first, then b, then c. */
HD_API hd_tensors *hd_tensors_from(hd_tensor *const *tensors, int64_t count);
HD_API int64_t hd_tensors_count(const hd_tensors *list);
/* The tensor at `index`, which may count from the end. */
HD_API hd_tensor *hd_tensors_get(const hd_tensors *list, int64_t index);
/* The tensors of a, then those of b, as one list: an optimizer of two models takes the parameters of both. */
HD_API hd_tensors *hd_tensors_join(const hd_tensors *a, const hd_tensors *b);
HD_END_DECLS

/* HD_CONCAT_OF(axis, a, b, ...) is hd_concat of these tensors, HD_STACK_OF(axis, a, b, ...) hd_stack; made in this
 * order. */
#ifdef __cplusplus
extern "C++" { /* braces, unlike the arguments of a function, are evaluated in order */
struct hd_tensors_list {
    hd_tensors *list;
    template <class... T> explicit hd_tensors_list(T... tensors) {
        hd_tensor *const all[] = {tensors...};
        list = hd_tensors_from(all, (int64_t)sizeof...(tensors));
    }
};
struct hd_concat_list {
    hd_tensor *result;
    template <class A, class... T> explicit hd_concat_list(A axis, T... tensors) {
        hd_tensor *const all[] = {tensors...};
        result = hd_concat(all, (int)sizeof...(tensors), static_cast<int>(axis));
    }
};
struct hd_stack_list {
    hd_tensor *result;
    template <class A, class... T> explicit hd_stack_list(A axis, T... tensors) {
        hd_tensor *const all[] = {tensors...};
        result = hd_stack(all, (int)sizeof...(tensors), static_cast<int>(axis));
    }
};
}
#define HD_TENSORS(...)         (hd_tensors_list{__VA_ARGS__}.list)
#define HD_CONCAT_OF(axis, ...) (hd_concat_list{axis, __VA_ARGS__}.result)
#define HD_STACK_OF(axis, ...)  (hd_stack_list{axis, __VA_ARGS__}.result)
#else
#define HD_TENSORS(...)                                                                                                \
    hd_tensors_from((hd_tensor *const[]){__VA_ARGS__},                                                                 \
                    (int64_t)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *)))
#define HD_CONCAT_OF(axis, ...)                                                                                        \
    hd_concat((hd_tensor *const[]){__VA_ARGS__},                                                                       \
              (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *)), axis)
#define HD_STACK_OF(axis, ...)                                                                                         \
    hd_stack((hd_tensor *const[]){__VA_ARGS__},                                                                        \
             (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *)), axis)
#endif

#endif
