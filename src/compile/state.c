/* The state of a model and its optimizer, declared to a builder in one call. */
#include "nn/module.h"
#include "optim/optimizer.h"

#include <stdio.h>

typedef struct declaration {
    hd_builder *builder;
    const char *prefix;
} declaration;

static hd_error declare(void *user, const char *name, hd_tensor *t) {
    const declaration *d = user;
    char full[256];
    snprintf(full, sizeof full, "%s%s", d->prefix, name);
    hd_builder_add_state(d->builder, full, t);
    return hd_thread_self()->error_code;
}

void hd_builder_add_state_of(hd_builder *builder, hd_module *model, hd_optimizer *optimizer) {
    HD_ENTER("hd_builder_add_state_of", );
    if (builder == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`builder` is NULL");
        return;
    }
    thread->call_depth++; /* messages keep this name */
    declaration d = {builder, ""};
    hd_error status = HD_OK;
    if (model != NULL) status = hd_module_each(model, false, declare, &d);
    if (model != NULL && status == HD_OK) status = hd_module_each(model, true, declare, &d);
    d.prefix = "optimizer.";
    if (optimizer != NULL && status == HD_OK) hd_optimizer_each(thread, optimizer, declare, &d);
    thread->call_depth--;
}
