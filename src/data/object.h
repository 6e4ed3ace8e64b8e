/* What the objects of this room share: they are made, checked and hold each other alike. */
#ifndef HD_DATA_OBJECT_H
#define HD_DATA_OBJECT_H

#include "core/list.h"

/* Zeros with an object at their beginning, which belongs to the caller; NULL with an error. */
void *hd_data_new(hd_thread *thread, size_t bytes, const hd_kind *kind);
/* Gives such an object to the current scope; NULL stays NULL. */
void *hd_data_give(hd_thread *thread, void *object);
/* An argument is a living object of this kind. */
hd_error hd_data_check(const void *object, const hd_kind *kind, const char *parameter);
/* Gives up a reference; NULL has none. */
static inline void hd_data_drop(hd_thread *thread, void *object) {
    if (object != NULL) hd_object_release(thread, object);
}
static inline void *hd_data_retain(void *object) {
    hd_object_retain(object);
    return object;
}

/* A copy of so many bytes, for hd_array_release; NULL with an error. */
void *hd_data_copy(const void *bytes, size_t count);
/* A tensor [n] of integers as int64_t on the host, for hd_array_release; `what`: "labels". NULL with an error. */
int64_t *hd_data_integers(hd_thread *thread, hd_tensor *t, const char *what);

#endif
