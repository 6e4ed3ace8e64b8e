/* What a script takes, gives and keeps: names, shapes and dtypes. */
#include "script/script.h"

#include <stdio.h>

static uint32_t count_of(const hd_graph *g, hd_name_kind kind) {
    return kind == HD_NAME_INPUT ? g->input_count : kind == HD_NAME_OUTPUT ? g->output_count : g->cell_count;
}
static uint32_t node_of(const hd_graph *g, hd_name_kind kind, uint32_t index) {
    return kind == HD_NAME_INPUT    ? g->inputs[index].node
           : kind == HD_NAME_OUTPUT ? g->outputs[index].node
                                    : g->cells[index].node;
}

void hd_script_list_names(const hd_graph *g, hd_name_kind kind, char *out, size_t capacity) {
    size_t length = (size_t)snprintf(out, capacity, "%s", count_of(g, kind) > 0 ? "" : "none");
    for (uint32_t i = 0; i < count_of(g, kind) && length < capacity; ++i)
        length += (size_t)snprintf(out + length, capacity - length, "%s\"%s\"", i > 0 ? ", " : "",
                                   hd_graph_string(g, hd_name_at(g, kind, i)));
}

static hd_script_entry entry_at(const hd_script *script, hd_name_kind kind, int64_t index, const char *what) {
    const hd_script_entry none = {.name = ""};
    if (hd_script_check_argument(script) != HD_OK) return none;
    const hd_graph *g = script->graph;
    if (index < 0 || index >= count_of(g, kind)) {
        hd_fail(HD_ERROR_INDEX, "%s %lld of %u of the script \"%s\"", what, (long long)index, count_of(g, kind),
                hd_graph_string(g, g->name));
        return none;
    }
    const uint32_t node = node_of(g, kind, (uint32_t)index);
    return (hd_script_entry){hd_graph_string(g, hd_name_at(g, kind, (uint32_t)index)), hd_node_shape(g, node),
                             (hd_dtype)g->nodes[node].dtype};
}

#define CONTENTS(what, kind)                                                                                           \
    int64_t hd_script_##what##_count(const hd_script *script) {                                                        \
        HD_ENTER_ALWAYS("hd_script_" #what "_count", 0);                                                               \
        return hd_script_check_argument(script) == HD_OK ? count_of(script->graph, kind) : 0;                          \
    }                                                                                                                  \
    hd_script_entry hd_script_##what##_at(const hd_script *script, int64_t index) {                                    \
        HD_ENTER_ALWAYS("hd_script_" #what "_at", ((hd_script_entry){.name = ""}));                                    \
        return entry_at(script, kind, index, #what);                                                                   \
    }
CONTENTS(input, HD_NAME_INPUT)
CONTENTS(output, HD_NAME_OUTPUT)
CONTENTS(state, HD_NAME_CELL)
