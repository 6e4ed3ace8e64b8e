/* The values of all that a module holds, from another one; and which parameters have gradients. */
#include "core/undo.h"
#include "nn/module.h"

#include <string.h>

/* ---- from one to the other, by name ------------------------------------------------------------------------------ */
typedef struct transfer {
    hd_thread *thread;
    hd_module *to, *from;
    bool buffers, checks;
    double decay; /* of parameters; 0: they are assigned */
    int64_t count;
} transfer;

static hd_error check_shapes(const char *name, const hd_tensor *to, const hd_tensor *from) {
    return hd_shape_equal(to->layout.shape, from->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "\"%s\" is %s, and %s in the module that is read", name,
                         HD_SHAPE_TEXT(to->layout.shape), HD_SHAPE_TEXT(from->layout.shape));
}

/* a + (b - a) (1 - decay), which is a where they are equal. */
static void mix(hd_tensor *to, hd_tensor *from, double decay) {
    hd_assign(to, hd_add(to, hd_mul_scalar(hd_sub(from, to), 1 - decay)));
}

static hd_error transfer_one(void *user, const char *name, hd_tensor *to) {
    transfer *t = user;
    hd_tensor *from = hd_module_get(t->from, name);
    if (from == NULL) return t->thread->error_code;
    t->count++;
    if (t->checks) return check_shapes(name, to, from);
    hd_span span;
    hd_span_begin(&span, t->thread, "module_assign");
    if (t->decay != 0 && !t->buffers)
        mix(to, from, t->decay);
    else
        hd_assign(to, from);
    hd_span_end(&span, NULL);
    return t->thread->error_code;
}

/* Both kinds; the first walk checks that there is one of each name, and no more of them. */
static hd_error transfer_all(transfer *t) {
    for (int buffers = 0; buffers < 2; ++buffers) {
        t->buffers = buffers;
        t->count = 0;
        HD_TRY(hd_module_each(t->to, buffers, transfer_one, t));
        if (!t->checks) continue;
        const hd_tensors *all = buffers ? hd_module_buffers(t->from) : hd_module_parameters(t->from);
        if (all == NULL) return t->thread->error_code;
        if (all->count != t->count)
            return hd_fail(HD_ERROR_VALUE, "%lld %s are read, and %lld written; both modules have the same",
                           (long long)all->count, buffers ? "buffers" : "parameters", (long long)t->count);
    }
    return HD_OK;
}

/* All of it, or nothing. */
static void transfer_values(hd_thread *thread, hd_module *to, hd_module *from, double decay) {
    if (hd_module_check(to, "to") != HD_OK || hd_module_check(from, "from") != HD_OK) return;
    transfer t = {.thread = thread, .to = to, .from = from, .checks = true, .decay = decay};
    HD_KEEP_NAME(thread);
    HD_NO_GRAD;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_undo *undo = transfer_all(&t) == HD_OK ? hd_undo_begin(thread) : NULL;
    if (undo != NULL) {
        t.checks = false;
        transfer_all(&t);
        hd_undo_end(undo, thread->error_code == HD_OK);
    }
    hd_scope_close(thread, &scope);
}

void hd_module_assign(hd_module *to, hd_module *from) {
    HD_ENTER("hd_module_assign", );
    transfer_values(thread, to, from, 0);
}

void hd_module_average(hd_module *to, hd_module *from, double decay) {
    HD_ENTER("hd_module_average", );
    if (!(decay >= 0 && decay <= 1)) {
        hd_fail(HD_ERROR_VALUE, "a decay of %g; it is from 0 to 1", decay);
        return;
    }
    transfer_values(thread, to, from, decay);
}

/* ---- gradients, or none ------------------------------------------------------------------------------------------ */
static void set_wanted(hd_thread *thread, hd_module *module, bool wanted) {
    HD_KEEP_NAME(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope);
    const hd_tensors *all = hd_module_parameters(module);
    for (int64_t i = 0; all != NULL && i < all->count; ++i) hd_set_requires_grad(all->items[i], wanted);
    hd_scope_close(thread, &scope);
}

void hd_module_freeze(hd_module *module) {
    HD_ENTER("hd_module_freeze", );
    set_wanted(thread, module, false);
}

void hd_module_unfreeze(hd_module *module) {
    HD_ENTER("hd_module_unfreeze", );
    set_wanted(thread, module, true);
}
