/* The passes in order. Each is linear; debug builds verify what each one made. */
#include "graph/graph.h"

#include <string.h>

static const struct {
    const char *name;
    hd_pass pass;
} passes[] = {
    {"spans", hd_pass_spans}, {"dead", hd_pass_dead},           {"algebra", hd_pass_algebra},
    {"fold", hd_pass_fold},   {"algebra", hd_pass_algebra},     {"transpose", hd_pass_transpose},
    {"widen", hd_pass_widen}, {"broadcast", hd_pass_broadcast}, {"common", hd_pass_common},
    {"dead", hd_pass_dead},
};

hd_pass hd_pass_named(const char *name) {
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; ++i)
        if (strcmp(passes[i].name, name) == 0) return passes[i].pass;
    return NULL;
}

hd_graph *hd_graph_simplify(hd_thread *thread, hd_graph *g) {
    HD_HOLD_ERRORS(thread);
    hd_object_retain(&g->object);
    for (size_t i = 0; i < sizeof passes / sizeof passes[0] && g != NULL; ++i) {
        hd_graph *next = passes[i].pass(thread, g);
        hd_graph_release(thread, g);
        g = next;
#ifndef NDEBUG
        if (g != NULL && hd_graph_verify(thread, g) != HD_OK) {
            hd_error_append(thread, " (after the pass \"%s\")", passes[i].name);
            hd_graph_release(thread, g);
            g = NULL;
        }
#endif
    }
    return g;
}
