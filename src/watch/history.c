/* Histories: numbers by name and step. */
#include "watch/history.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

static void release_curve(hd_curve *c) {
    hd_array_release(c->name);
    hd_array_release(c->steps);
    hd_array_release(c->values);
}

static void history_destroy(hd_thread *thread, hd_object *object) {
    hd_history *h = (hd_history *)object;
    for (int64_t i = 0; i < h->count; ++i) release_curve(&h->curves[i]);
    hd_array_release(h->curves);
    hd_object_bury(thread, object);
}
static const char *history_title(const hd_object *object) {
    (void)object;
    return "of numbers";
}
static const hd_kind history_kind = {.name = "history",
                                     .destroy = history_destroy,
                                     .title = history_title,
                                     .remedy = "one thread at a time may use it: let one thread add what others found"};

hd_error hd_history_check(const hd_history *h) {
    if (h == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`history` is NULL");
    if (h->object.kind == &history_kind) return HD_OK;
    return hd_fail(h->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`history` is no living history");
}

hd_history *hd_history_new(void) {
    HD_ENTER("hd_history_new", NULL);
    hd_history *h = hd_array_resize(NULL, sizeof *h);
    if (h == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a history");
        return NULL;
    }
    *h = (hd_history){.count = 0};
    hd_object_init(&h->object, &history_kind);
    hd_count(&thread->live_objects, 1);
    return hd_scope_own(thread, &h->object) == HD_OK ? h : NULL;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */
static hd_curve *find(const hd_history *h, const char *name) {
    for (int64_t i = 0; i < h->count; ++i)
        if (strcmp(h->curves[i].name, name) == 0) return &h->curves[i];
    return NULL;
}
const hd_curve *hd_history_find(const hd_history *h, const char *name) { return find(h, name); }

static hd_error new_curve(hd_history *h, const char *name, hd_curve **out) {
    hd_curve *curves = hd_array_resize(h->curves, (size_t)(h->count + 1) * sizeof *curves);
    if (curves != NULL) h->curves = curves;
    char *own = curves == NULL ? NULL : hd_array_resize(NULL, strlen(name) + 1);
    if (own == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for \"%s\"", name);
    strcpy(own, name);
    h->curves[h->count] = (hd_curve){.name = own};
    *out = &h->curves[h->count++];
    return HD_OK;
}

static hd_error make_room(hd_curve *c) {
    if (c->count < c->capacity) return HD_OK;
    const int64_t capacity = c->capacity == 0 ? 16 : 2 * c->capacity;
    int64_t *steps = hd_array_resize(c->steps, (size_t)capacity * sizeof *steps);
    if (steps != NULL) c->steps = steps;
    double *values = steps == NULL ? NULL : hd_array_resize(c->values, (size_t)capacity * sizeof *values);
    if (values == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %lld values", (long long)capacity);
    c->values = values;
    c->capacity = capacity;
    return HD_OK;
}

static hd_error check_name(const char *name) {
    if (name == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
    return name[0] != '\0' && strcmp(name, "step") != 0
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "the name \"%s\"; it must not be empty, nor \"step\", which steps have", name);
}

static hd_error add(hd_history *h, const char *name, int64_t step, double value) {
    hd_curve *c = find(h, name);
    const int64_t last = c == NULL || c->count == 0 ? INT64_MIN : c->steps[c->count - 1];
    if (step < last)
        return hd_fail(HD_ERROR_VALUE, "step %lld of \"%s\" comes after step %lld; steps do not go back",
                       (long long)step, name, (long long)last);
    if (c != NULL && c->count > 0 && step == last) {
        c->values[c->count - 1] = value;
        return HD_OK;
    }
    if (c == NULL) HD_TRY(new_curve(h, name, &c));
    const hd_error status = make_room(c);
    if (status != HD_OK && c->count == 0) release_curve(&h->curves[--h->count]); /* it is the last one, and new */
    HD_TRY(status);
    c->steps[c->count] = step;
    c->values[c->count++] = value;
    return HD_OK;
}

void hd_history_add(hd_history *history, const char *name, int64_t step, double value) {
    HD_ENTER("hd_history_add", );
    if (hd_history_check(history) != HD_OK || check_name(name) != HD_OK) return;
    HD_USE(&history->object, false, );
    add(history, name, step, value);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
int64_t hd_history_names(hd_history *history) {
    HD_ENTER("hd_history_names", 0);
    HD_TRY_OR(hd_history_check(history), 0);
    return history->count;
}

const char *hd_history_name(hd_history *history, int64_t index) {
    HD_ENTER("hd_history_name", NULL);
    HD_TRY_OR(hd_history_check(history), NULL);
    if (index >= 0 && index < history->count) return history->curves[index].name;
    hd_fail(HD_ERROR_INDEX, "name %lld of %lld", (long long)index, (long long)history->count);
    return NULL;
}

int64_t hd_history_count(hd_history *history, const char *name) {
    HD_ENTER("hd_history_count", 0);
    HD_TRY_OR(hd_history_check(history), 0);
    HD_TRY_OR(check_name(name), 0);
    const hd_curve *c = find(history, name);
    return c == NULL ? 0 : c->count;
}

double hd_history_get(hd_history *history, const char *name, int64_t index, int64_t *step) {
    HD_ENTER("hd_history_get", NAN);
    HD_TRY_OR(hd_history_check(history), NAN);
    HD_TRY_OR(check_name(name), NAN);
    const hd_curve *c = find(history, name);
    const int64_t count = c == NULL ? 0 : c->count, at = index < 0 ? index + count : index;
    if (at < 0 || at >= count) {
        hd_fail(HD_ERROR_INDEX, "value %lld of \"%s\", which has %lld", (long long)index, name, (long long)count);
        return NAN;
    }
    if (step != NULL) *step = c->steps[at];
    return c->values[at];
}
