/* HODU, the compiler: a graph is simplified (graph/pass*.c), fused (fuse/) and planned (plan/) for a machine, and its
 * kernels become code (codegen/). */
#include "core/device.h"
#include "core/profile.h"
#include "machine/machines.h"
#include "plan/plan.h"

/* One for each kind of device; NULL: HODU does not run there. */
static const hd_machine *cpu_machine(int index) {
    (void)index;
    return hd_cpu_machine();
}
static const hd_machine *(*machines[HD_DEVICE_KINDS_KNOWN])(int index) = {[HD_DEVICE_CPU] = cpu_machine};

void hd_machine_register(int kind, const hd_machine *(*machine)(int index)) { machines[kind] = machine; }

static hd_error available(hd_device device) {
    const char *missing = hd_device_runs_no_ops((char[HD_DEVICE_REASON]){0}, device);
    if (missing == NULL && machines[device.kind] != NULL) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE, "HODU does not run on %s: %s", hd_device_text((char[32]){0}, device),
                   missing != NULL ? missing : "it compiles for other devices");
}

const hd_machine *hd_machine_of(hd_device device) {
    hd_thread *thread = hd_thread_self();
    HD_HOLD_ERRORS(thread);
    if (available(device) == HD_OK) return machines[device.kind](device.index);
    hd_error_append(thread, ". hd_script_set_device chooses another device, hd_script_set_compiler another compiler");
    return NULL;
}

static hd_graph *simplify(hd_thread *thread, hd_graph *graph) {
    HD_PROFILE_PHASE("passes");
    return hd_graph_simplify(thread, graph);
}

static hd_executable *hodu_compile(hd_thread *thread, hd_graph *graph, hd_device device, hd_optimization_level level,
                                   hd_carried *carried) {
    const hd_machine *machine = hd_machine_of(device);
    if (machine == NULL) return NULL;
    if (level == HD_O0) return (hd_executable *)hd_plan_new(thread, graph, machine, level, NULL, carried);
    HD_KEEP_NAME(thread); /* passes call ops, but it is the caller's function that runs */
    hd_graph *simple = simplify(thread, graph);
    if (simple == NULL) return NULL;
    /* else there is nothing to choose; and functions of the user's are not for trial runs on made-up inputs */
    const bool tunes = level == HD_O3 && machine->tuning_key != NULL && !simple->calls_back;
    hd_plan *p = tunes ? hd_plan_tuned(thread, simple, machine, carried)
                       : hd_plan_new(thread, simple, machine, level == HD_O3 ? HD_O2 : level, NULL, carried);
    hd_graph_release(thread, simple);
    return (hd_executable *)p;
}

static hd_error hodu_carry(hd_thread *thread, hd_executable *executable, hd_carried *carried, unsigned char **bytes,
                           size_t *count) {
    (void)thread;
    hd_plan *p = (hd_plan *)executable;
    if (p->machine->coder != NULL) return hd_plan_carry(p, carried, bytes, count);
    return hd_fail(HD_ERROR_DEVICE,
                   "files carry machine code (.native) for the CPU, and the script runs on %s; hd_script_set_device "
                   "chooses hd_cpu()",
                   hd_device_text((char[32]){0}, p->machine->device));
}

const hd_compiler_interface hd_hodu_interface = {
    .name = "HODU", .compile = hodu_compile, .carry = hodu_carry, .available = available};
