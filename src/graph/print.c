/* Graphs as text:
 *
 *     script "step"
 *     %0 = input "x" : f32[2,3]
 *     %1 = state "w" : f32[3,1]
 *     %2 = constant {1, 2, 3} : f32[3]
 *     %3 = matmul %0, %1 : f32[2,1]
 *     %4 = sum %3 {reduced = [0, 1], keep_dims = true} : f32[1,1] @ mean/sum
 *     output "y" = %4
 *     update "w" = %7
 *
 * A constant of more than eight elements is written by its number, "constant #5", and its values are not in the text.
 * What is behind @ are the composites and modules a node came from. */
#include "graph/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct text {
    char *bytes;
    size_t length, capacity;
    bool failed;
} text;

static __attribute__((format(printf, 2, 3))) void put(text *t, const char *format, ...) {
    while (!t->failed) {
        va_list arguments;
        va_start(arguments, format);
        const int n = vsnprintf(t->bytes + t->length, t->capacity - t->length, format, arguments);
        va_end(arguments);
        if (n >= 0 && t->length + (size_t)n < t->capacity) {
            t->length += (size_t)n;
            return;
        }
        char *moved = n < 0 ? NULL : hd_array_resize(t->bytes, (t->capacity + (size_t)n + 256) * 2);
        t->failed = moved == NULL;
        if (moved == NULL) return;
        t->bytes = moved;
        t->capacity = (t->capacity + (size_t)n + 256) * 2;
    }
}

static void put_name(text *t, const char *name) {
    put(t, "\"");
    for (; *name != '\0'; ++name) {
        if (*name == '"' || *name == '\\')
            put(t, "\\%c", *name);
        else if ((unsigned char)*name < 32)
            put(t, "\\x%02x", (unsigned char)*name);
        else
            put(t, "%c", *name);
    }
    put(t, "\"");
}

static void put_number(text *t, double v) {
    if (v != v)
        put(t, "nan");
    else if (isinf(v))
        put(t, v > 0 ? "inf" : "-inf");
    else
        put(t, v == (double)(float)v && fabs(v) < 1e6 && v == floor(v) ? "%.0f" : "%.17g", v);
}

static void put_list(text *t, const int64_t *values, int count) {
    put(t, "[");
    for (int i = 0; i < count; ++i) put(t, "%s%lld", i > 0 ? ", " : "", (long long)values[i]);
    put(t, "]");
}

static void put_field(text *t, const hd_field *f, const char *attributes) {
    const void *at = attributes + f->offset;
    int64_t values[2 * HD_MAX_RANK];
    int n = 0;
    put(t, "%s = ", f->name);
    switch (f->kind) {
    case HD_FIELD_F64: put_number(t, *(const double *)at); break;
    case HD_FIELD_I64: put(t, "%lld", (long long)*(const int64_t *)at); break;
    case HD_FIELD_INT: put(t, "%d", *(const int *)at); break;
    case HD_FIELD_BOOL: put(t, *(const bool *)at ? "true" : "false"); break;
    case HD_FIELD_DTYPE: put(t, "%s", hd_dtype_name(*(const hd_dtype *)at)); break;
    case HD_FIELD_SHAPE: put_list(t, ((const hd_shape *)at)->size, ((const hd_shape *)at)->rank); break;
    case HD_FIELD_AXES:
        for (; n < ((const hd_axes *)at)->count; ++n) values[n] = ((const hd_axes *)at)->axis[n];
        put_list(t, values, n);
        break;
    case HD_FIELD_FLAGS:
        for (int i = 0; i < HD_MAX_RANK; ++i)
            if (((const bool *)at)[i]) values[n++] = i;
        put_list(t, values, n);
        break;
    case HD_FIELD_LAYOUT: {
        const hd_layout *layout = at;
        put_list(t, layout->shape.size, layout->shape.rank);
        put(t, " by ");
        put_list(t, layout->stride, layout->shape.rank);
        put(t, " from %lld", (long long)layout->offset);
        break;
    }
    case HD_FIELD_PADDING:
        for (int i = 0; i < HD_MAX_RANK; ++i) {
            values[n++] = ((const hd_padding *)at)[i].before;
            values[n++] = ((const hd_padding *)at)[i].after;
        }
        while (n > 2 && values[n - 1] == 0 && values[n - 2] == 0) n -= 2; /* axes that are not padded */
        put_list(t, values, n);
        break;
    case HD_FIELD_NAME: put_name(t, ((const hd_name *)at)->text); break;
    case HD_FIELD_BYTES:
        put(t, "\"");
        for (uint64_t i = 0; i < ((const hd_small_bytes *)at)->count; ++i)
            put(t, "%02x", ((const hd_small_bytes *)at)->at[i]);
        put(t, "\"");
        break;
    case HD_FIELD_END: break;
    }
}

static void put_attributes(text *t, const hd_graph *g, uint32_t node) {
    const char *attributes = hd_node_attributes(g, node);
    if (attributes == NULL) return;
    size_t bytes;
    const char *separator = " {";
    for (const hd_field *f = hd_attribute_fields(g->nodes[node].op, &bytes); f->kind != HD_FIELD_END; ++f) {
        if (!hd_attribute_is_said(f, attributes)) continue;
        put(t, "%s", separator);
        put_field(t, f, attributes);
        separator = ", ";
    }
    put(t, "}");
}

static void put_constant(text *t, const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    hd_thread *thread = hd_thread_self();
    HD_HOLD_ERRORS(thread);
    const int64_t count = hd_node_count(g, node);
    const bool fine = thread->error_code == HD_OK;
    const char *data = count > 8 || !fine ? NULL : hd_storage_bytes(thread, g->constants[n->first].storage, HD_READ);
    if (data == NULL) {
        if (fine) hd_error_clear(); /* what cannot be read is written by its number */
        put(t, " #%u", n->first);
        return;
    }
    put(t, " {");
    for (int64_t i = 0; i < count; ++i) {
        const char *element = data + (size_t)i * hd_dtype_bytes[n->dtype];
        put(t, i > 0 ? ", " : "");
        if (hd_dtype_is_float((hd_dtype)n->dtype))
            put_number(t, hd_element_to_f64(element, (hd_dtype)n->dtype));
        else
            put(t, n->dtype == HD_U64 ? "%llu" : "%lld",
                n->dtype == HD_U64 ? *(const unsigned long long *)element
                                   : (unsigned long long)hd_element_to_i64(element, (hd_dtype)n->dtype));
    }
    put(t, "}");
}

static void put_span(text *t, const hd_graph *g, uint32_t span) {
    if (span == 0) return;
    uint32_t path[1024];
    int n = 0;
    for (; span != 0 && n < 1024; span = g->spans[span].parent) path[n++] = span;
    put(t, " @ ");
    while (n-- > 0) put(t, "%s%s", hd_graph_string(g, g->spans[path[n]].name), n > 0 ? "/" : "");
}

static void put_node(text *t, const hd_graph *g, uint32_t i) {
    const hd_node *n = &g->nodes[i];
    put(t, "%%%u = ", i);
    if (n->op == HD_NODE_INPUT) {
        put(t, "input ");
        put_name(t, hd_graph_string(g, g->inputs[n->first].name));
    } else if (n->op == HD_NODE_CELL) {
        put(t, g->cells[n->first].kind == HD_CELL_STATE ? "state " : "bound ");
        put_name(t, hd_graph_string(g, g->cells[n->first].name));
    } else if (n->op == HD_NODE_CONSTANT) {
        put(t, "constant");
        put_constant(t, g, i);
    } else if (n->op == HD_NODE_OUTPUT) {
        put(t, "output %d of %%%u", n->derivative, hd_node_inputs(g, i)[0]);
    } else {
        put(t, "%s", hd_node_is_op(n) ? hd_ops[n->op].name : hd_node_name(n));
        if (n->derivative != 0) put(t, "'%d", n->derivative - 1);
        for (int k = 0; k < n->input_count; ++k) put(t, "%s%%%u", k > 0 ? ", " : " ", hd_node_inputs(g, i)[k]);
        put_attributes(t, g, i);
    }
    const hd_shape shape = hd_node_shape(g, i);
    put(t, " : %s%s", hd_dtype_name((hd_dtype)n->dtype), HD_SHAPE_TEXT(shape));
    put_span(t, g, n->span);
    put(t, "\n");
}

char *hd_graph_print(const hd_graph *g) {
    text t = {0};
    put(&t, "script ");
    put_name(&t, hd_graph_string(g, g->name));
    put(&t, "\n");
    for (uint32_t i = 0; i < g->node_count; ++i) put_node(&t, g, i);
    for (uint32_t i = 0; i < g->output_count; ++i) {
        put(&t, "output ");
        put_name(&t, hd_graph_string(g, g->outputs[i].name));
        put(&t, " = %%%u\n", g->outputs[i].node);
    }
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        if (g->cells[i].update == g->cells[i].node) continue;
        put(&t, "update ");
        put_name(&t, hd_graph_string(g, g->cells[i].name));
        put(&t, " = %%%u\n", g->cells[i].update);
    }
    if (!t.failed) return t.bytes;
    hd_array_release(t.bytes);
    hd_fail(HD_ERROR_MEMORY, "no memory for the text of a graph of %u nodes", g->node_count);
    return NULL;
}
