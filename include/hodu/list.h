/* Lists of tensors: parameters of a model, inputs of a function, gradients. A list holds its tensors. */
#ifndef HODU_LIST_H
#define HODU_LIST_H

#include <hodu/tensor.h>

typedef struct hd_tensors hd_tensors;

HD_BEGIN_DECLS
/* A list of `count` tensors. HD_TENSORS(a, b, c) writes it shorter. */
HD_API hd_tensors *hd_tensors_from(hd_tensor *const *tensors, int64_t count);
HD_API int64_t hd_tensors_count(const hd_tensors *list);
/* The tensor at `index`, which may count from the end. */
HD_API hd_tensor *hd_tensors_get(const hd_tensors *list, int64_t index);
HD_END_DECLS

#ifdef __cplusplus
extern "C++" {
template <class... T> inline hd_tensors *hd_tensors_of(T... tensors) {
    hd_tensor *const list[] = {tensors...};
    return hd_tensors_from(list, (int64_t)sizeof...(tensors));
}
}
#define HD_TENSORS(...) hd_tensors_of(__VA_ARGS__)
#else
#define HD_TENSORS(...)                                                                                                \
    hd_tensors_from((hd_tensor *const[]){__VA_ARGS__},                                                                 \
                    (int64_t)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *)))
#endif

#endif
