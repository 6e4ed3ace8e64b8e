/* Every elementwise row and every derivative, compiled through LLVM, against the eager kernels. */
#if HD_HAS_LLVM
#include "compiler/finish.h"
#include "support.h"

#include "codegen/code.h"
#include "compiler/rows.h"
#include "core/memory.h"

static _Alignas(64) char in[5][N * 8], got[N * 8], expected[N * 8];

static void run_compiled(const hd_ir *ir, const row_reading *r) {
    hd_kernel k;
    char *buffers[6] = {in[0], in[1], in[2], in[3], in[4], got};
    uint64_t values[3];
    void *object = NULL;
    size_t bytes = 0;
    hd_code code = {.run = NULL};
    row_kernel(&k, ir, (hd_op_id)r->id, (hd_compute)r->type, values);
    if (kernel_finish(&k, 0, hd_code_vector_bytes()) != HD_OK || hd_llvm_object(&k, "row", &object, &bytes) != HD_OK ||
        hd_object_load(object, bytes, "row", &code) != HD_OK)
        fail_msg("%s in %s: %s", hd_ops[r->id].name, hd_ir_type_name(r->type), hd_error_message());
    code.run(buffers, row_geometry, values, NULL);
    hd_object_unload(&code);
    hd_array_release(object);
    hd_kernel_release(&k);
}

static void all_equal_eager_kernels(void **state) {
    (void)state;
    int count = 0;
    for (row_reading r = {.derivative = -1}; row_next(&r); ++count) {
        hd_ir ir;
        row_inputs(&r, in);
        row_ir(&r, &ir);
        run_compiled(&ir, &r);
        row_eager(&r, in, expected);
        row_compare(hd_ops[r.id].name, r.result, r.ulp, r.terms, in, got, expected);
        hd_ir_release(&ir);
    }
    assert_in_range(count, 600, 10000);
}

RUN(test(all_equal_eager_kernels))
#else
int main(void) { return 77; }
#endif
