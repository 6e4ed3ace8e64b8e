/* The fused part of a step: parameters of the CPU whose update is one pass over their memory, in place.
 *
 * All or nothing holds although nothing is kept of what is overwritten: these passes come last, when all else of the
 * step went well, and what they need (memory of their own, addresses, numbers) is there before the first of them
 * begins. */
#include "optim/one_pass.h"
#include "core/device.h"
#include "core/os.h"
#include "core/profile.h"

static bool is_here(const hd_tensor *t, hd_dtype dtype) {
    return (hd_dtype)t->dtype == dtype && t->contiguous && t->storage->home == NULL;
}
/* Memory that is borrowed may be another tensor's, too. */
static bool is_own(const hd_tensor *t, hd_dtype dtype) {
    return is_here(t, dtype) && t->storage->block != NULL &&
           (size_t)t->count * hd_dtype_bytes[dtype] == t->storage->bytes;
}

static bool suits(const hd_optimizer *o, int64_t i, const hd_tensor *gradient) {
    const hd_tensor *p = o->parameters->items[i];
    const hd_dtype dtype = (hd_dtype)p->dtype;
    bool suits = (dtype == HD_F32 || dtype == HD_F64) && p->count > 0 && is_own(p, dtype) && is_here(gradient, dtype);
    for (int k = 0; k < o->class_->slots; ++k) suits = suits && is_own(o->slots[i][k], dtype);
    return suits;
}

/* Whether nobody else has said that he writes it. */
static bool spare(hd_undo *undo, hd_one_pass *f, hd_storage *s) {
    if (!hd_undo_spare(undo, s)) return false;
    f->storages[f->storage_count++] = (hd_spared){s, 0};
    return true;
}
static void claim_all(hd_one_pass *f) {
    for (int64_t i = 0; i < f->storage_count; ++i) hd_undo_claim(f->storages[i].storage);
    f->count = f->storage_count = 0;
}

static hd_error grow(hd_optimizer *o) {
    const size_t count = (size_t)o->parameters->count;
    hd_one_pass *f = &o->fused;
    if (f->capacity >= o->parameters->count) return HD_OK;
    hd_one_pass_place *places = hd_array_resize(f->places, count * sizeof *places);
    if (places != NULL) f->places = places;
    hd_update *updates = hd_array_resize(f->updates, count * sizeof *updates);
    if (updates != NULL) f->updates = updates;
    hd_spared *storages = hd_array_resize(f->storages, count * (1 + HD_SLOTS_MOST) * sizeof *storages);
    if (storages != NULL) f->storages = storages;
    if (places == NULL || updates == NULL || storages == NULL)
        return hd_fail(HD_ERROR_MEMORY, "no memory for a step of %lld parameters", (long long)o->parameters->count);
    f->capacity = o->parameters->count;
    return HD_OK;
}

static bool may_fuse(const hd_thread *thread, const hd_optimizer *o) {
    return o->fuse != NULL && !thread->executor->captures && thread->observer == NULL &&
           hd_device_executor(hd_cpu())->update != NULL;
}

/* What is due and does not suit is left to ops, which come first; memory that several share is left to them, too. */
hd_error hd_one_pass_begin(hd_thread *thread, hd_optimizer *o, hd_undo *undo) {
    hd_one_pass *f = &o->fused;
    f->count = f->storage_count = 0;
    if (!may_fuse(thread, o)) return HD_OK;
    HD_TRY(grow(o));
    bool apart = true;
    for (int64_t i = 0; i < o->parameters->count; ++i) {
        hd_tensor *p = o->parameters->items[i];
        if (!hd_is_due(thread, p)) continue;
        HD_TRY(hd_optimizer_make_slots(thread, o, i));
        hd_tensor *gradient = hd_grad(p);
        if (gradient == NULL) return thread->error_code;
        if (!suits(o, i, gradient)) continue;
        apart = apart && spare(undo, f, p->storage);
        for (int k = 0; k < o->class_->slots; ++k) apart = apart && spare(undo, f, o->slots[i][k]->storage);
        f->places[f->count++] = (hd_one_pass_place){i, gradient};
    }
    for (int64_t i = 0, k = 0; i < o->parameters->count && apart; ++i) {
        const bool fused = k < f->count && f->places[k].parameter == i;
        const hd_storage *also = fused ? f->places[k++].gradient->storage : o->parameters->items[i]->storage;
        apart = !hd_undo_spared(undo, also);
    }
    if (!apart) claim_all(f);
    return thread->error_code;
}

bool hd_in_one_pass(const hd_optimizer *o, int64_t parameter) {
    const hd_one_pass *f = &o->fused;
    int64_t low = 0, high = f->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (f->places[middle].parameter < parameter)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->count && f->places[low].parameter == parameter;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
hd_error hd_optimizer_number(hd_thread *thread, const hd_tensor *t, double *out) {
    const void *at = t != NULL ? hd_tensor_bytes(thread, t, HD_READ) : NULL;
    if (at == NULL) return thread->error_code;
    __builtin_memcpy(out, at, sizeof *out);
    return HD_OK;
}

static int64_t group_of(const hd_optimizer *o, int64_t parameter, int64_t group) {
    while (group + 1 < o->group_count && o->groups[group + 1].first <= parameter) ++group;
    return group;
}

/* Memory that nobody shares any more, and all that an update reads beside it: numbers are those of the group. */
static hd_error prepare(hd_thread *thread, hd_optimizer *o, int64_t k) {
    hd_one_pass *f = &o->fused;
    const int64_t i = f->places[k].parameter, group = group_of(o, i, o->current);
    hd_tensor *p = o->parameters->items[i];
    hd_update *u = &f->updates[k];
    *u = k > 0 ? f->updates[k - 1] : (hd_update){.keep = 1};
    if (k == 0 || group != o->current) {
        o->current = group;
        HD_TRY(o->fuse(thread, o, u));
    }
    u->dtype = (hd_dtype)p->dtype;
    u->count = p->count;
    if ((u->value = hd_tensor_bytes(thread, p, HD_WRITE)) == NULL) return thread->error_code;
    for (int s = 0; s < o->class_->slots; ++s)
        if ((u->slot[s] = hd_tensor_bytes(thread, o->slots[i][s], HD_WRITE)) == NULL) return thread->error_code;
    u->gradient = hd_tensor_bytes(thread, f->places[k].gradient, HD_READ);
    return thread->error_code;
}

static void note(const hd_thread *thread, const hd_one_pass *f, int64_t begin) {
    double elements = 0, bytes = 0;
    for (int64_t k = 0; k < f->count; ++k) {
        const double count = (double)f->updates[k].count, streams = 3.0 + 2 * f->updates[k].kind;
        elements += count;
        bytes += streams * count * (double)hd_dtype_bytes[f->updates[k].dtype];
    }
    hd_profile_note(thread, &(hd_profile_event){.kind = HD_PROFILE_CALL,
                                                .name = "optimizer_update",
                                                .begin = begin,
                                                .nanoseconds = hd_os_nanoseconds() - begin,
                                                .work = {elements, bytes}});
}

/* A storage that was made ready was not written: its version is what it was. */
hd_error hd_one_pass_end(hd_thread *thread, hd_optimizer *o) {
    hd_one_pass *f = &o->fused;
    if (f->count == 0) return HD_OK;
    for (int64_t k = 0; k < f->storage_count; ++k)
        f->storages[k].version = atomic_load_explicit(&f->storages[k].storage->version, memory_order_relaxed);
    hd_error status = HD_OK;
    for (int64_t k = 0; k < f->count && status == HD_OK; ++k) status = prepare(thread, o, k);
    o->current = 0;
    if (status != HD_OK) {
        for (int64_t k = 0; k < f->storage_count; ++k)
            atomic_store_explicit(&f->storages[k].storage->version, f->storages[k].version, memory_order_relaxed);
        return status;
    }
    const int64_t begin = hd_is_profiled() ? hd_os_nanoseconds() : 0;
    hd_executor *executor = hd_device_executor(hd_cpu());
    executor->update(executor, f->updates, f->count);
    if (hd_is_profiled()) note(thread, f, begin);
    return HD_OK;
}
