/* The machine that C is written for: one thread, no vectors of its own, and nothing that is ever run. Products are
 * calls, whose results kernels then change where they lie. */
#include "export/net.h"
#include "plan/draft.h"

static const char *product_apart(const hd_machine *m, const hd_graph *g, uint32_t node) {
    (void)m, (void)g, (void)node;
    return "in C a product stands alone";
}
static hd_dtype tile_dtype(hd_dtype result) { return result; }
static int tile_columns(hd_dtype tile) {
    (void)tile;
    return 1;
}
static hd_error begin(hd_plan_draft *draft) {
    (void)draft;
    return HD_OK;
}
static hd_error plan_product(hd_plan_draft *draft, hd_lowering *lowering, const hd_group *group) {
    (void)lowering;
    return hd_draft_call(draft, hd_draft_product_of(draft, group), HD_RUN_CALL);
}
static hd_error settle(hd_plan_draft *draft) {
    (void)draft;
    return HD_OK;
}

/* One after the other. What a run exchanges for the old state at its end is a value like others. */
static hd_error order(hd_plan_draft *draft) {
    hd_plan *p = draft->plan;
    p->spans = hd_array_resize(NULL, ((size_t)p->launch_count + 1) * sizeof *p->spans);
    if (p->spans == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < p->launch_count; ++i) p->spans[i] = (hd_plan_span){i, 1};
    p->span_count = p->launch_count;
    return HD_OK;
}
static bool uses_alone(const hd_plan *plan, uint32_t index, uint32_t buffer) {
    (void)plan, (void)index, (void)buffer;
    return true;
}
static bool product_can_fail(const hd_plan *plan, const hd_launch *l) {
    (void)plan, (void)l;
    return false;
}
static bool product_may_overwrite(const hd_plan *plan, const hd_launch *l, uint32_t tensor) {
    (void)plan, (void)l, (void)tensor;
    return false;
}
static void release(hd_plan *plan, hd_thread *thread) { (void)plan, (void)thread; }

const hd_machine hd_c_machine = {.target = {.name = "C",
                                            .vector_bytes = 16,
                                            .most_members = 32,
                                            .most_reads = 28,
                                            .small_space = INT64_MAX,
                                            .least_kept = 1,
                                            .cheap = 24,
                                            .keeps_from = UINT8_MAX,
                                            .gathers = 1,
                                            .reads_some = 1,
                                            .least_row = 1,
                                            .most_pieces = 8,
                                            .sum_points = 64,
                                            .sum_rows = 64,
                                            .alignment = 8},
                                 .device = {.kind = HD_DEVICE_CPU},
                                 .product_apart = product_apart,
                                 .tile_dtype = tile_dtype,
                                 .tile_columns = tile_columns,
                                 .begin = begin,
                                 .plan_product = plan_product,
                                 .settle = settle,
                                 .order = order,
                                 .uses_alone = uses_alone,
                                 .product_can_fail = product_can_fail,
                                 .product_may_overwrite = product_may_overwrite,
                                 .release = release};
