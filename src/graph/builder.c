/* Builders: the public face of a recording. */
#include "graph/builder.h"

#include <stdio.h>
#include <string.h>

static void builder_destroy(hd_thread *thread, hd_object *object) {
    hd_builder *b = (hd_builder *)object;
    if (b->state == HD_BUILDER_ACTIVE && b->recording->thread == thread) {
        if (thread->walks > 0) /* released by a hook: the walk goes on with the recording's tape */
            thread->after_walks = hd_recording_abandon;
        else
            hd_recording_leave(thread, b->recording);
    } else if (b->state == HD_BUILDER_ACTIVE) {
        atomic_store_explicit(&b->recording->abandoned, true, memory_order_relaxed);
    }
    hd_recording_release(thread, b->recording);
    hd_array_release(b->name);
    hd_object_bury(thread, object);
}
static const char *builder_title(const hd_object *object) { return ((const hd_builder *)object)->name; }
static const hd_kind builder_kind = {
    .name = "builder",
    .destroy = builder_destroy,
    .title = builder_title,
    .remedy = "one thread at a time may use it: let each thread record with a builder of its own (hd_builder_new)"};

hd_error hd_builder_check(const hd_builder *b) {
    if (b == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`builder` is NULL");
    if (b->object.kind == &builder_kind) return HD_OK;
    return hd_fail(b->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`builder` is no living builder");
}

hd_builder *hd_builder_new(const char *name) {
    HD_ENTER("hd_builder_new", NULL);
    if (name == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
        return NULL;
    }
    if (strlen(name) > HD_NAME_MOST) {
        hd_fail(HD_ERROR_VALUE, "a name of %zu bytes; %d are allowed", strlen(name), (int)HD_NAME_MOST);
        return NULL;
    }
    hd_graph *graph = hd_graph_new(thread, name);
    hd_recording *r = graph == NULL ? NULL : hd_recording_new(thread, graph);
    hd_builder *b = r == NULL ? NULL : hd_array_resize(NULL, sizeof *b);
    char *own = b == NULL ? NULL : hd_array_resize(NULL, strlen(name) + 1);
    if (own == NULL) {
        hd_array_release(b);
        hd_recording_release(thread, r);
        hd_fail(HD_ERROR_MEMORY, "no memory for a builder");
        return NULL;
    }
    strcpy(own, name);
    *b = (hd_builder){.recording = r, .name = own};
    hd_object_init(&b->object, &builder_kind);
    hd_count(&thread->live_objects, 1);
    return hd_scope_own(thread, &b->object) == HD_OK ? b : NULL;
}

void hd_builder_start(hd_builder *builder) {
    HD_ENTER("hd_builder_start", );
    if (hd_builder_check(builder) != HD_OK) return;
    HD_USE(&builder->object, false, );
    if (builder->state != HD_BUILDER_NEW) {
        hd_fail(HD_ERROR_STATE, "builder \"%s\" %s; make a new one with hd_builder_new", builder->name,
                builder->state == HD_BUILDER_ACTIVE ? "is started already" : "has ended");
    } else if (thread->walks > 0) {
        hd_fail(HD_ERROR_STATE, "backward is walking a tape; start builder \"%s\" when it has returned", builder->name);
    } else if (thread->recording != NULL) {
        const hd_graph *active = thread->recording->graph;
        hd_fail(HD_ERROR_STATE, "builder \"%s\" is active on this thread; end it first",
                hd_graph_string(active, active->name));
    } else {
        builder->state = HD_BUILDER_ACTIVE;
        hd_recording_enter(thread, builder->recording);
    }
}

static void warn_of_lost_writes(const hd_builder *b) {
    hd_shape largest;
    const int64_t count = hd_recording_lost(b->recording, &largest);
    const bool several = count > 1;
    if (count == 0) return;
    hd_warn(
        hd_thread_self(),
        "builder \"%s\" writes %lld tensor%s that %s no state (%s%s): each run begins with what %s now, and does "
        "not change %s. hd_builder_add_state, or hd_builder_add_state_of for a model and its optimizer, comes before "
        "the first use",
        b->name, (long long)count, several ? "s" : "", several ? "are" : "is", HD_SHAPE_TEXT(largest),
        several ? " and others" : "", several ? "they are" : "it is", several ? "them" : "it");
}

bool hd_builder_is_recording(void) {
    const hd_thread *thread = hd_thread_self();
    return thread != NULL && thread->executor->captures;
}

void hd_builder_end(hd_builder *builder) {
    HD_ENTER_ALWAYS("hd_builder_end", );
    if (hd_builder_check(builder) != HD_OK) return;
    HD_USE(&builder->object, false, );
    if (builder->state != HD_BUILDER_ACTIVE || builder->recording->thread != thread) {
        hd_fail(HD_ERROR_STATE, "builder \"%s\" is not active on this thread; hd_builder_start comes first",
                builder->name);
        return;
    }
    if (thread->walks > 0) {
        hd_fail(HD_ERROR_STATE, "backward is walking a tape; end builder \"%s\" when it has returned", builder->name);
        return;
    }
    if (thread->error_code == HD_OK) warn_of_lost_writes(builder);
    hd_recording_leave(thread, builder->recording);
    builder->state = HD_BUILDER_ENDED;
}

static hd_error check_name(const char *name) {
    if (name == NULL || name[0] == '\0') return hd_fail(HD_ERROR_VALUE, "the name is empty");
    return strlen(name) <= HD_NAME_MOST
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "a name of %zu bytes; %d are allowed", strlen(name), (int)HD_NAME_MOST);
}

/* Checks that a builder which is taken records on this thread. */
static hd_error check_recording(hd_thread *thread, const hd_builder *b) {
    if (b->state != HD_BUILDER_ACTIVE || b->recording->thread != thread)
        return hd_fail(HD_ERROR_STATE,
                       "builder \"%s\" is not active on this thread; call it between hd_builder_start and "
                       "hd_builder_end",
                       b->name);
    return HD_OK;
}

static hd_error check_active(hd_thread *thread, const hd_builder *b, const char *name) {
    HD_TRY(check_name(name));
    return check_recording(thread, b);
}

hd_error hd_builder_check_active(hd_thread *thread, hd_builder *b) {
    HD_TRY(hd_builder_check(b));
    hd_use use __attribute__((cleanup(hd_use_end)));
    HD_TRY(hd_use_begin(&use, thread, &b->object, false));
    return check_recording(thread, b);
}

static hd_tensor *add_input(hd_thread *thread, hd_recording *r, const char *name, const hd_shape *shape,
                            hd_dtype dtype) {
    int64_t count;
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    if (hd_graph_find(r->graph, HD_NAME_INPUT, name) != HD_NO_NODE) {
        hd_fail(HD_ERROR_VALUE, "there is an input \"%s\" already", name);
        return NULL;
    }
    const uint32_t node = hd_graph_add_input(r->graph, name, dtype, shape);
    return node == HD_NO_NODE ? NULL : hd_recording_tensor(thread, r, node);
}

hd_tensor *hd_builder_add_input(hd_builder *builder, const char *name, hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_builder_add_input", NULL);
    HD_TRY_OR(hd_builder_check(builder), NULL);
    HD_USE(&builder->object, false, NULL);
    HD_TRY_OR(check_active(thread, builder, name), NULL);
    return add_input(thread, builder->recording, name, &shape, dtype);
}

hd_tensor *hd_input(const char *name, hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_input", NULL);
    if (thread->recording == NULL) {
        hd_fail(HD_ERROR_STATE, "no builder is active on this thread; hd_builder_start comes first");
        return NULL;
    }
    HD_TRY_OR(check_name(name), NULL);
    return add_input(thread, thread->recording, name, &shape, dtype);
}

void hd_builder_add_output(hd_builder *builder, const char *name, hd_tensor *t) {
    HD_ENTER("hd_builder_add_output", );
    if (hd_builder_check(builder) != HD_OK) return;
    HD_USE(&builder->object, false, );
    if (check_active(thread, builder, name) != HD_OK || hd_tensor_check(t, "t") != HD_OK) return;
    hd_recording *r = builder->recording;
    if (hd_graph_find(r->graph, HD_NAME_OUTPUT, name) != HD_NO_NODE) {
        hd_fail(HD_ERROR_VALUE, "there is an output \"%s\" already", name);
        return;
    }
    if (!hd_recording_knows(r, t)) {
        hd_fail(HD_ERROR_STATE, "the tensor %s was not recorded by builder \"%s\"; outputs are made from its inputs",
                HD_SHAPE_TEXT(t->layout.shape), builder->name);
        return;
    }
    const uint32_t node = hd_recording_node(thread, r, t);
    if (node != HD_NO_NODE) hd_graph_add_output(r->graph, name, node);
}

static void declare(hd_thread *thread, hd_builder *builder, const char *name, hd_cell_kind kind, hd_tensor *t) {
    if (hd_builder_check(builder) != HD_OK) return;
    HD_USE(&builder->object, false, );
    if (check_active(thread, builder, name) == HD_OK && hd_tensor_check(t, "t") == HD_OK)
        hd_recording_declare(thread, builder->recording, name, kind, t);
}

void hd_builder_bind(hd_builder *builder, const char *name, hd_tensor *t) {
    HD_ENTER("hd_builder_bind", );
    declare(thread, builder, name, HD_CELL_BOUND, t);
}

void hd_builder_add_state(hd_builder *builder, const char *name, hd_tensor *t) {
    HD_ENTER("hd_builder_add_state", );
    declare(thread, builder, name, HD_CELL_STATE, t);
}

hd_graph *hd_builder_graph(hd_builder *b) {
    HD_TRY_OR(hd_builder_check(b), NULL);
    if (b->state != HD_BUILDER_ENDED) {
        hd_fail(HD_ERROR_STATE, "builder \"%s\" has not ended; call hd_builder_end first", b->name);
        return NULL;
    }
    hd_graph *g = b->recording->graph;
    bool updates = false;
    for (uint32_t i = 0; i < g->cell_count; ++i) updates = updates || g->cells[i].update != g->cells[i].node;
    if (g->output_count == 0 && !updates) {
        hd_fail(HD_ERROR_STATE, "builder \"%s\" has no outputs; hd_builder_add_output comes before hd_builder_end",
                b->name);
        return NULL;
    }
    return g;
}
