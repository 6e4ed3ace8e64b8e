/* Lists of tensors. */
#include "core/list.h"

#include <string.h>

static void tensors_destroy(hd_thread *thread, hd_object *object) {
    hd_tensors *list = (hd_tensors *)object;
    for (int64_t i = 0; i < list->count; ++i) hd_tensor_drop(thread, list->items[i]);
    hd_object_bury(thread, object);
}
static const hd_kind tensors_kind = {.name = "list of tensors", .destroy = tensors_destroy};

hd_error hd_tensors_check(const hd_tensors *list, const char *parameter) {
    if (list == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    if (list->object.kind != &tensors_kind)
        return hd_fail(list->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                       "`%s` is no living list of tensors; HD_TENSORS(a, b) makes one", parameter);
    for (int64_t i = 0; i < list->count; ++i) HD_TRY(hd_tensor_check(list->items[i], parameter));
    return HD_OK;
}

hd_tensors *hd_tensors_new(hd_thread *thread, int64_t count) {
    if (count < 0 || count > INT32_MAX) {
        hd_fail(HD_ERROR_VALUE, "a list of %lld tensors", (long long)count);
        return NULL;
    }
    hd_tensors *list = hd_array_resize(NULL, sizeof *list + (size_t)count * sizeof *list->items);
    if (list == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a list of %lld tensors", (long long)count);
        return NULL;
    }
    hd_object_init(&list->object, &tensors_kind);
    hd_count(&thread->live_objects, 1);
    list->count = count;
    memset(list->items, 0, (size_t)count * sizeof *list->items);
    return hd_scope_own(thread, &list->object) == HD_OK ? list : NULL;
}

hd_tensors *hd_tensors_from(hd_tensor *const *tensors, int64_t count) {
    HD_ENTER("HD_TENSORS", NULL);
    if (tensors == NULL && count > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`tensors` is NULL");
        return NULL;
    }
    HD_TRY_OR(hd_tensor_check_all(tensors, count, "tensors"), NULL);
    hd_tensors *list = hd_tensors_new(thread, count);
    for (int64_t i = 0; list != NULL && i < count; ++i) hd_tensors_put(list, i, tensors[i]);
    return list;
}

int64_t hd_tensors_count(const hd_tensors *list) {
    HD_ENTER_ALWAYS("hd_tensors_count", 0);
    return hd_tensors_check(list, "list") == HD_OK ? list->count : 0;
}

hd_tensor *hd_tensors_get(const hd_tensors *list, int64_t index) {
    HD_ENTER("hd_tensors_get", NULL);
    HD_TRY_OR(hd_tensors_check(list, "list"), NULL);
    if (index < -list->count || index >= list->count) {
        hd_fail(HD_ERROR_INDEX, "index %lld of a list of %lld", (long long)index, (long long)list->count);
        return NULL;
    }
    return hd_scope_share(thread, &list->items[index < 0 ? index + list->count : index]->object);
}

hd_tensors *hd_tensors_join(const hd_tensors *a, const hd_tensors *b) {
    HD_ENTER("hd_tensors_join", NULL);
    HD_TRY_OR(hd_tensors_check(a, "a"), NULL);
    HD_TRY_OR(hd_tensors_check(b, "b"), NULL);
    hd_tensors *list = hd_tensors_new(thread, a->count + b->count);
    for (int64_t i = 0; list != NULL && i < list->count; ++i)
        hd_tensors_put(list, i, i < a->count ? a->items[i] : b->items[i - a->count]);
    return list;
}
