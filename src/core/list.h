/* Lists of tensors. */
#ifndef HD_CORE_LIST_H
#define HD_CORE_LIST_H

#include "core/tensor.h"

struct hd_tensors {
    hd_object object;
    int64_t count;
    hd_tensor *items[]; /* retained */
};

/* Checks that an argument is a living list of living tensors. */
hd_error hd_tensors_check(const hd_tensors *list, const char *parameter);
/* A list of `count` places, all NULL, that the current scope owns; NULL with an error. */
hd_tensors *hd_tensors_new(hd_thread *thread, int64_t count);
/* Puts t, with one more reference, at an empty place. */
static inline void hd_tensors_put(hd_tensors *list, int64_t index, hd_tensor *t) {
    hd_object_retain(&t->object);
    list->items[index] = t;
}

#endif
