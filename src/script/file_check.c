/* That the nodes of a file are calls that a program could have made. */
#include "script/file.h"

#if HD_HAS_FILES

/* What integers became in ops on floats: the default dtype of the thread that recorded, which the calls need again. */
static hd_dtype default_of(const hd_graph *g, hd_dtype otherwise) {
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        if (n->op >= HD_OP_ELEMENTWISE_COUNT || n->derivative != 0 || hd_rows[n->op].types != HD_TYPES_FLOATS ||
            !hd_dtype_is_float((hd_dtype)n->dtype))
            continue;
        bool floats = false;
        for (int k = 0; k < n->input_count; ++k)
            floats = floats || hd_dtype_is_float((hd_dtype)g->nodes[hd_node_inputs(g, i)[k]].dtype);
        if (!floats) return (hd_dtype)n->dtype;
    }
    return otherwise;
}

/* hd_matmul takes vectors, but records products of matrices: such a node would run where no kernel expects it. */
static hd_error check_products(const hd_graph *g) {
    for (uint32_t i = 0; i < g->node_count; ++i) {
        if (g->nodes[i].op != HD_OP_matmul) continue;
        const uint32_t *inputs = hd_node_inputs(g, i);
        if (hd_node_shape(g, inputs[0]).rank < 2 || hd_node_shape(g, inputs[1]).rank < 2)
            return hd_fail(HD_ERROR_VALUE,
                           "has a node %%%u that is no call: matmul of vectors would not be recorded so", i);
    }
    return HD_OK;
}

hd_error hd_file_check_calls(hd_thread *thread, const hd_graph *g) {
    HD_TRY(check_products(g));
    const char *call = thread->call;
    const void *caller = thread->caller;
    const hd_dtype dtype = thread->default_dtype;
    struct hd_recording *outer = thread->recording;
    uint32_t node;
    thread->recording = NULL; /* a builder may be active around this: verifying must take place all the same */
    thread->default_dtype = default_of(g, dtype);
    const hd_error status = hd_graph_verify_at(thread, g, &node);
    thread->recording = outer;
    thread->default_dtype = dtype;
    thread->call = call;
    thread->caller = caller;
    if (status == HD_OK) return HD_OK;
    if (node == HD_NO_NODE) return hd_file_reword(thread, HD_ERROR_VALUE, "has a graph that cannot be: ");
    return hd_file_reword(thread, HD_ERROR_VALUE, "has a node %%%u that is no call: ", node);
}

#endif
