/* The text that XLA is given for a script, for people. It needs no plugin. */
#include "script/script.h"
#include "xla/emit.h"

#include <stdio.h>
#include <string.h>

/* Of the graph after the passes, unless the script's level is O0. */
static hd_error emit(hd_thread *thread, const hd_script *script, hd_stablehlo *out) {
    hd_graph *g = script->graph;
    HD_KEEP_NAME(thread); /* passes call ops, but it is the caller's function that runs */
    if (script->level > HD_O0)
        g = hd_graph_simplify(thread, g);
    else
        hd_object_retain(&g->object);
    if (g == NULL) return thread->error_code;
    const hd_error status = hd_stablehlo_emit(thread, g, out);
    hd_graph_release(thread, g);
    return status;
}

int64_t hd_script_format_stablehlo(const hd_script *script, char *out, size_t capacity) {
    HD_ENTER("hd_script_format_stablehlo", -1);
    HD_TRY_OR(hd_script_check_argument(script), -1);
    if (out == NULL && capacity > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return -1;
    }
    hd_stablehlo text;
    HD_TRY_OR(emit(thread, script, &text), -1);
    const int64_t length = (int64_t)text.bytes;
    if (capacity > 0) snprintf(out, capacity, "%s", text.text);
    hd_stablehlo_release(&text);
    return length;
}

void hd_script_print_stablehlo(const hd_script *script) {
    HD_ENTER("hd_script_print_stablehlo", );
    hd_stablehlo text;
    if (hd_script_check_argument(script) != HD_OK || emit(thread, script, &text) != HD_OK) return;
    fwrite(text.text, 1, text.bytes, stdout);
    hd_stablehlo_release(&text);
}
