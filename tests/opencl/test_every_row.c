/* Every elementwise row, once, on a device of OpenCL. */
#include "opencl/every.h"

static hd_tensor *run_row(hd_tensor **in, const void *user) {
    return hd_run_row(hd_thread_self(), *(const hd_op_id *)user, in, row_numbers);
}
static void every_row(void **state) {
    (void)state;
    HD_SCOPE;
    static one all[HD_OP_ELEMENTWISE_COUNT];
    static hd_op_id ids[HD_OP_ELEMENTWISE_COUNT];
    int count = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        if (!when_slow((uint64_t)id, 8)) continue;
        one *c = &all[count];
        ids[count] = (hd_op_id)id;
        *c = (one){
            .name = hd_ops[id].name, .run = run_row, .user = &ids[count], .bound = 2 * fabs((double)hd_rows[id].ulp)};
        row_operands(id, c->in, &c->count);
        ++count;
    }
    same_in_one_script(all, count, HD_O0);
}

RUN_ON(hd_opencl(0), test(every_row))
