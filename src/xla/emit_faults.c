/* What StableHLO lets pass: integers divided by 0, indices that are out of range. Each check finds the first place
 * where it fails; the run's fault is that of the first check that does. */
#include "core/memory.h"
#include "ops/op.h"
#include "xla/build.h"

#include <stdlib.h>
#include <string.h>

static bool add_check(hd_hlo *e, hd_hlo_check check) {
    hd_stablehlo *out = e->out;
    if (out->check_count == e->check_capacity) {
        const uint32_t capacity = e->check_capacity * 2 + 8;
        hd_hlo_check *checks = hd_array_resize(out->checks, capacity * sizeof *checks);
        if (checks == NULL) {
            hd_hlo_fail(e, hd_fail(HD_ERROR_MEMORY, "no memory for %u checks", capacity));
            return false;
        }
        out->checks = checks;
        e->check_capacity = capacity;
    }
    out->checks[out->check_count++] = check;
    return true;
}

void hd_hlo_check_that(hd_hlo *e, hd_hlo_check_kind kind, uint32_t node, int64_t bound, hd_ssa bad, hd_ssa value) {
    const hd_shape flat = hd_hlo_flat(&bad.shape), three = {.rank = 1, .size = {3}}, one = {.rank = 1, .size = {1}};
    const int64_t count = flat.size[0];
    if (count == 0 || !add_check(e, (hd_hlo_check){kind, node, bound})) return;
    const bool all[1] = {true};
    const hd_ssa behind = hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, count);
    hd_ssa positions = hd_hlo_select(e, hd_hlo_reshape(e, bad, &flat), hd_hlo_iota(e, HD_I64, &flat, 0),
                                     hd_hlo_integer(e, HD_I64, &flat, count));
    const hd_ssa first = hd_hlo_reduce(e, "minimum", positions, behind, all, false),
                 failed = hd_hlo_compare(e, "LT", first, behind);
    hd_ssa parts[3] = {hd_hlo_integer(e, HD_I64, &one, e->out->check_count), hd_hlo_reshape(e, first, &one),
                       hd_hlo_integer(e, HD_I64, &one, 0)};
    if (value.id != HD_NO_NODE) {
        const hd_ssa list = hd_hlo_reshape(e, value, &flat);
        parts[2] = hd_hlo_define(e, HD_I64, &one); /* places behind the last are clamped */
        hd_hlo_say(e, "    %v = stablehlo.dynamic_slice %v, %v, sizes = [1] : (%t, %t) -> %t\n", &parts[2], &list,
                   &first, &list, &first, &parts[2]);
    }
    const hd_ssa here = hd_hlo_concat(e, parts, 3, 0);
    const bool is_first = e->out->check_count == 1;
    const hd_ssa earlier = is_first ? hd_hlo_integer(e, HD_I64, &three, 0) : e->fault;
    const hd_ssa new = is_first ? failed : hd_hlo_both(e, failed, hd_hlo_not(e, e->failed));
    e->fault = hd_hlo_select(e, new, here, earlier);
    e->failed = is_first ? failed : hd_hlo_either(e, e->failed, failed);
}

/* ---- and its words ----------------------------------------------------------------------------------------------- */
static hd_error row_fault(const hd_graph *g, uint32_t node, int64_t place) {
    const bool zero = hd_rows[g->nodes[node].op].guard == HD_GUARD_ZERO;
    const hd_shape shape = hd_node_shape(g, node);
    return hd_fail(zero ? HD_ERROR_DIVISION : HD_ERROR_VALUE,
                   "b is %s at element %lld of the result %s; integers cannot %s", zero ? "0" : "negative",
                   (long long)place, HD_SHAPE_TEXT(shape),
                   zero ? "be divided by 0" : "have a negative exponent: use floats");
}

static hd_error weights_fault(const hd_graph *g, const hd_hlo_check *c, int64_t place, double value) {
    const hd_shape weights = hd_node_shape(g, hd_node_inputs(g, c->node)[0]), out = hd_node_shape(g, c->node);
    const long long n = (long long)weights.size[weights.rank - 1];
    if (c->kind == HD_HLO_CHECK_WEIGHTS)
        return hd_fail(HD_ERROR_VALUE, "weight %g at row %lld, place %lld; weights are finite and >= 0", value,
                       (long long)place / n, (long long)place % n);
    if (c->kind == HD_HLO_CHECK_TOTAL)
        return hd_fail(HD_ERROR_VALUE, "the weights of row %lld add up to %g; they need a finite, positive sum",
                       (long long)place, value);
    return hd_fail(HD_ERROR_VALUE, "row %lld has %lld positive weights, fewer than the %lld draws without replacement",
                   (long long)place, (long long)value, (long long)out.size[out.rank - 1]);
}

static hd_error index_fault(const hd_graph *g, const hd_hlo_check *c, int64_t place, int64_t value) {
    const uint32_t index = hd_node_inputs(g, c->node)[1];
    const hd_shape shape = hd_node_shape(g, index);
    return hd_fail(HD_ERROR_INDEX,
                   g->nodes[index].dtype == HD_U64
                       ? "index %llu at place %lld of %s is out of range for an axis of size %lld"
                       : "index %lld at place %lld of %s is out of range for an axis of size %lld",
                   (long long)value, (long long)place, HD_SHAPE_TEXT(shape), (long long)c->bound);
}

static hd_error matrix_fault(const hd_graph *g, const hd_hlo_check *c, int64_t place) {
    const hd_shape s = hd_node_shape(g, hd_node_inputs(g, c->node)[0]);
    if (c->kind == HD_HLO_CHECK_POSITIVE)
        return hd_fail(HD_ERROR_VALUE, "matrix %lld of x %s is not positive definite", (long long)place,
                       HD_SHAPE_TEXT(s));
    const long long n = (long long)s.size[s.rank - 1];
    return hd_fail(HD_ERROR_VALUE, "matrix %lld of a %s is singular: its diagonal has a 0 at %lld",
                   (long long)place / n, HD_SHAPE_TEXT(s), (long long)place % n);
}

hd_error hd_stablehlo_fault(hd_thread *thread, const hd_graph *g, const hd_stablehlo *s, const int64_t fault[3]) {
    if (fault[0] == 0) return HD_OK;
    HD_HOLD_ERRORS(thread);
    if (fault[0] < 0 || fault[0] > (int64_t)s->check_count)
        return hd_fail(HD_ERROR_INTERNAL, "a fault of check %lld, where there are %u", (long long)fault[0],
                       s->check_count);
    const hd_hlo_check *c = &s->checks[fault[0] - 1];
    double value;
    memcpy(&value, &fault[2], 8);
    const hd_error status = c->kind == HD_HLO_CHECK_ROW        ? row_fault(g, c->node, fault[1])
                            : c->kind == HD_HLO_CHECK_INDEX    ? index_fault(g, c, fault[1], fault[2])
                            : c->kind >= HD_HLO_CHECK_POSITIVE ? matrix_fault(g, c, fault[1])
                                                               : weights_fault(g, c, fault[1], value);
    hd_error_append(thread, " (in node %%%u, %s)", c->node, hd_node_name(&g->nodes[c->node]));
    return status;
}

/* ---- errors of XLA, which name a line: "-:12:5: error: ..." ------------------------------------------------------ */
static const char *line_of(const char *text, long line) {
    for (; line > 1 && text != NULL; --line) {
        text = strchr(text, '\n');
        if (text != NULL) ++text;
    }
    return text;
}

void hd_stablehlo_name_node(hd_thread *thread, const hd_graph *g, const hd_stablehlo *s) {
    const char *said = thread->error_code == HD_OK ? NULL : strstr(thread->error_message, "-:");
    char *end = NULL;
    const long line = said == NULL ? 0 : strtol(said + 2, &end, 10);
    const char *at = line > 0 && *end == ':' ? line_of(s->text, line) : NULL;
    if (at == NULL) return;
    uint32_t node = HD_NO_NODE;
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (s->text_of[i] > 0 && s->text_of[i] <= (size_t)(at - s->text)) node = i;
    if (node != HD_NO_NODE) hd_error_append(thread, " (in node %%%u, %s)", node, hd_node_name(&g->nodes[node]));
}
