/* The CPU as a machine: what fusion and plans ask, and what O3 tries. */
#include "machine/cpu.h"
#include "core/device.h"
#include "core/pool.h"
#include "machine/machines.h"

#include <string.h>

/* ---- questions --------------------------------------------------------------------------------------------------- */
static const char *product_apart(const hd_machine *m, const hd_graph *g, uint32_t node) {
    (void)m;
    const hd_node *n = &g->nodes[node];
    const uint32_t *in = hd_node_inputs(g, node);
    const hd_dtype dtype = (hd_dtype)n->dtype, x = (hd_dtype)g->nodes[in[0]].dtype,
                   weight = (hd_dtype)g->nodes[in[1]].dtype;
    if (hd_lower_is_convolution(hd_node_lowers(g, node)) &&
        ((dtype != HD_F32 && dtype != HD_F64) || x != dtype || weight != dtype))
        return "only convolutions of f32 or f64 have them";
    if (!hd_cpu_product_reads(dtype, x) || !hd_cpu_product_reads(dtype, weight))
        return "products do not read operands of these dtypes";
    return hd_cpu_product_apart(hd_node_op(n), hd_node_attributes(g, node));
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */
static hd_error cpu_begin(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    hd_cpu_plan *own = hd_array_resize(NULL, sizeof *own);
    if (own == NULL) return hd_plan_no_memory(p);
    memset(own, 0, sizeof *own);
    p->own = own;
    own->executor = hd_device_executor(hd_cpu());
    own->products = hd_array_resize(NULL, d->call_capacity * sizeof *own->products);
    if (own->products == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < d->call_capacity; ++i)
        own->products[i] = (hd_cpu_product_plan){.weight = HD_NONE, .bias = HD_NONE};
    return hd_cpu_count_readers(p);
}

static hd_error settle(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    own->cuts = hd_array_resize(NULL, ((size_t)p->native_count + 1) * sizeof *own->cuts);
    if (own->cuts == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < p->native_count; ++i) hd_cpu_cut_kernel(&p->natives[i]->native, &own->cuts[i]);
    return hd_cpu_find_weights(p);
}

static void release(hd_plan *p, hd_thread *thread) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    if (own == NULL) return;
    for (uint32_t i = 0; i < own->weight_count; ++i)
        if (own->weights[i].packed != NULL) hd_block_release(thread, own->weights[i].packed);
    if (own->workspace != NULL) hd_block_release(thread, own->workspace);
    void *const arrays[] = {own->products,  own->readers, own->cuts,   own->weights, own->is_packed,
                            own->positions, own->jobs,    own->chains, own->pieces,  own->parts};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) hd_array_release(arrays[i]);
    hd_array_release(own);
}

/* ---- O3 ---------------------------------------------------------------------------------------------------------- */
enum { WORTH_A_TRIAL = 2 * HD_PRODUCT_SHARED }; /* operations of a product */

static const hd_launch_change changes[] = {
    {"half the lanes", {.width = -1}},
    {"twice the lanes", {.width = 1}},
    {"products in the vector unit", {.own[HD_CPU_UNIT] = HD_UNIT_VECTOR}},
    {"products in the matrix unit", {.own[HD_CPU_UNIT] = HD_UNIT_MATRIX}},
    {"products in blocks of 256 along k", {.own[HD_CPU_K_BLOCK] = 256 / HD_K_STEP}},
    {"products in blocks of 1024 along k", {.own[HD_CPU_K_BLOCK] = 1024 / HD_K_STEP}},
    {"products with rows shared out", {.own[HD_CPU_SHARE] = HD_SHARE_ROWS}},
    {"products with columns shared out", {.own[HD_CPU_SHARE] = HD_SHARE_COLUMNS}},
    {"convolutions summed up", {.own[HD_CPU_WINDOWS] = HD_WINDOWS_SUMMED}},
    {"convolutions by Winograd's way", {.own[HD_CPU_WINDOWS] = HD_WINDOWS_WINOGRAD}}};

static hd_launch_choice changed(hd_launch_choice choice, hd_launch_choice change) {
    if (change.width != 0) choice.width = change.width;
    for (size_t i = 0; i < sizeof change.own; ++i)
        if (change.own[i] != 0) choice.own[i] = change.own[i];
    return choice;
}

static bool is_sound(hd_launch_choice choice) { return hd_product_config_is_sound(hd_cpu_config_of(&choice)); }

static bool concerns(const hd_plan *p, const hd_launch *l, hd_launch_choice choice, hd_launch_choice change) {
    if (change.width != 0) return l->kind == HD_RUN_KERNEL && hd_plan_can_widen(&p->natives[l->native]->native);
    if (!hd_plan_is_product(p, l) || hd_plan_operations(p, l) < WORTH_A_TRIAL) return false;
    hd_product product = hd_cpu_product_of(p, l);
    product.config = hd_cpu_config_of(&choice);
    choice = changed(choice, change);
    return hd_cpu_product_configs_differ(&product, hd_cpu_config_of(&choice));
}

static void apply(hd_plan_draft *d, hd_launch *l, const hd_launch_choice *choice) {
    hd_plan *p = d->plan;
    const hd_product_config config = hd_cpu_config_of(choice);
    l->threads = choice->threads;
    if (l->kind == HD_RUN_KERNEL && choice->width != 0 && hd_plan_can_widen(&p->natives[l->native]->native))
        hd_plan_widen(&p->natives[l->native]->native, choice->width);
    if (hd_plan_is_product(p, l) && !hd_product_config_is_rule(config)) {
        hd_cpu_plan_of(p)->products[l->call].config = config;
        l->kind = HD_RUN_PRODUCT; /* calls go by rules */
    }
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */
/* For each size of vector registers. `masked`: bytes of the smallest elements that it reads under a mask. */
#define CPU(bytes, gathered, masked)                                                                                   \
    {                                                                                                                  \
        .target = {.name = "cpu",                                                                                      \
                   .vector_bytes = (bytes),                                                                            \
                   .most_members = 32,                                                                                 \
                   .most_reads = 28,                                                                                   \
                   .small_space = 1 << 15,                                                                             \
                   .least_kept = 64,                                                                                   \
                   .cheap = 24,                                                                                        \
                   .keeps_from = 8,                                                                                    \
                   .gathers = (gathered),                                                                              \
                   .reads_some = (masked),                                                                             \
                   .least_row = 16,                                                                                    \
                   .scatters_parts = true,                                                                             \
                   .copies_rows = true,                                                                                \
                   .most_pieces = 4,                                                                                   \
                   .sum_points = 4096,                                                                                 \
                   .sum_rows = 16,                                                                                     \
                   .prologues = {.any = true,                                                                          \
                                 .least_bytes = 1 << 20,                                                               \
                                 .call_bytes = 4 << 20,                                                                \
                                 .call_columns = 64,                                                                   \
                                 .least_row = 16,                                                                      \
                                 .many_rows = 1 << 14,                                                                 \
                                 .share = 12}},                                                                        \
        .device = {.kind = HD_DEVICE_CPU}, .product_apart = product_apart, .tile_dtype = hd_cpu_product_dtype,         \
        .tile_columns = hd_cpu_product_columns, .coder = hd_processor_coder, .begin = cpu_begin,                       \
        .plan_product = hd_cpu_plan_product, .apply = apply, .settle = settle, .order = hd_cpu_find_jobs,              \
        .uses_alone = hd_cpu_uses_alone, .product_can_fail = hd_cpu_product_can_fail,                                  \
        .product_may_overwrite = hd_cpu_product_may_overwrite, .release = release, .run = hd_cpu_run,                  \
        .undo = hd_cpu_undo, .tuning_key = hd_cpu_isa, .threads = hd_pool_threads, .changes = changes,                 \
        .change_count = sizeof changes / sizeof changes[0], .changed = changed, .concerns = concerns,                  \
        .is_sound = is_sound, .forget = hd_cpu_forget_weights                                                          \
    }
static const hd_machine machines[] = {CPU(16, 0, 16), CPU(32, 0, 4), CPU(64, 4, 1)};

const hd_machine *hd_cpu_machine(void) {
    const int bytes = hd_code_vector_bytes();
    return &machines[bytes == 64 ? 2 : bytes == 32 ? 1 : 0];
}
