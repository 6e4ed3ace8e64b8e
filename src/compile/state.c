/* The state of a model and its optimizer, declared to a builder in one call. */
#include "graph/builder.h"
#include "nn/module.h"
#include "optim/scaler.h"
#include "optim/schedule.h"

#include <stdio.h>

typedef struct declaration {
    hd_builder *builder;
    const char *prefix;
} declaration;

/* Two that share memory are one state; and two models may have a name in common. */
static hd_error declare(void *user, const char *name, hd_tensor *t) {
    const declaration *d = user;
    const hd_recording *r = d->builder->recording;
    char full[HD_NAME_MOST + 2]; /* one that does not fit is cut, and still too long */
    if (hd_recording_declared(r, t, HD_CELL_STATE)) return HD_OK;
    snprintf(full, sizeof full, "%s%s", d->prefix, name);
    for (int i = 2; hd_graph_find(r->graph, HD_NAME_CELL, full) != HD_NO_NODE; ++i)
        snprintf(full, sizeof full, "%s%s#%d", d->prefix, name, i);
    hd_builder_add_state(d->builder, full, t);
    return hd_thread_self()->error_code;
}

void hd_builder_add_state_of(hd_builder *builder, hd_module *model, hd_optimizer *optimizer) {
    HD_ENTER("hd_builder_add_state_of", );
    if (hd_builder_check_active(thread, builder) != HD_OK) return; /* then no other thread may use it */
    HD_KEEP_NAME(thread);
    declaration d = {builder, ""};
    hd_error status = HD_OK;
    if (model != NULL) status = hd_module_each(model, false, declare, &d);
    if (model != NULL && status == HD_OK) status = hd_module_each(model, true, declare, &d);
    d.prefix = "optimizer.";
    if (optimizer != NULL && status == HD_OK) hd_optimizer_each(thread, optimizer, declare, &d);
}

void hd_builder_add_state_of_schedule(hd_builder *builder, hd_schedule *schedule) {
    HD_ENTER("hd_builder_add_state_of_schedule", );
    if (hd_builder_check_active(thread, builder) != HD_OK) return;
    HD_KEEP_NAME(thread);
    declaration d = {builder, "schedule."};
    hd_schedule_each(thread, schedule, declare, &d);
}

void hd_builder_add_state_of_scaler(hd_builder *builder, hd_scaler *scaler) {
    HD_ENTER("hd_builder_add_state_of_scaler", );
    if (hd_builder_check_active(thread, builder) != HD_OK) return;
    HD_KEEP_NAME(thread);
    declaration d = {builder, "scaler."};
    hd_scaler_each(thread, scaler, declare, &d);
}
