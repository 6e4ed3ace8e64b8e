/* GPUs, as what runs calls and plans: gpu.c has their executors, gpu_eager.c calls that are kernels, gpu_calls.c which
 * function runs a call, gpu_<family>.c those that are templates, gpu_code.c their code. */
#ifndef HD_MACHINE_GPU_H
#define HD_MACHINE_GPU_H

#include "core/away.h"
#include "device/gpu.h"
#include "fuse/lower.h"
#include "fuse/machine.h"
#include "kernel/gpu.h"
#include "kernel/template.h"
#include "ops/op.h"

typedef struct hd_gpu_eager hd_gpu_eager;
typedef struct hd_gpu_codes hd_gpu_codes;

/* One GPU. */
typedef struct hd_gpu_device {
    hd_executor executor;
    hd_device device;
    hd_dialect dialect;
    const hd_gpu_interface *gpu;
    hd_machine machine;    /* what HODU asks */
    hd_gpu_eager *eager;   /* what is known of calls */
    hd_gpu_codes *codes;   /* what is loaded */
    double gflops, gbytes; /* its peak; 0: not measured yet */
} hd_gpu_device;

/* gpu.c: the executor of a device of each kind, NULL when there is no memory for it; the machine, NULL with an error;
 * and its peak. */
hd_executor *hd_opencl_executor(int index);
const hd_machine *hd_opencl_machine(int index);
void hd_opencl_peak(int index, double *gflops, double *gbytes);
hd_executor *hd_metal_executor(int index);
const hd_machine *hd_metal_machine(int index);
void hd_metal_peak(int index, double *gflops, double *gbytes);
hd_executor *hd_cuda_executor(int index);
const hd_machine *hd_cuda_machine(int index);
void hd_cuda_peak(int index, double *gflops, double *gbytes);
/* gpu_peak.c: measures it; 0 where it cannot. */
void hd_gpu_measure_peak(const hd_gpu_device *d, double *gflops, double *gbytes);
/* gpu_plan.c: what HODU asks of a GPU, target and device apart. */
extern const hd_machine hd_gpu_machine;

/* ---- gpu_code.c: programs that are loaded, each once; kept to the end of the process ---- */
typedef struct hd_gpu_code hd_gpu_code;
hd_gpu_codes *hd_gpu_codes_new(void);
/* That of each kernel, whose names do not count: its functions are "", or "_parts" and "_join". */
hd_error hd_gpu_code_of_kernels(const hd_gpu_device *d, const hd_gpu_kernel *kernels, int count, hd_gpu_code **out);
/* That of a template; NULL with an error. */
hd_gpu_code *hd_gpu_code_of_template(const hd_gpu_device *d, const hd_template_use *use);
hd_gpu_code *hd_gpu_code_of_product(const hd_gpu_device *d, const hd_template_use *use,
                                    const hd_fused_epilogue *epilogue);
/* One of its functions; NULL with an error. */
hd_gpu_function *hd_gpu_code_function(const hd_gpu_device *d, hd_gpu_code *code, const char *name);

/* ---- gpu_launch.c: operands, results and launches of calls ---- */
/* Where the first element of an operand is, of this device or a number, which is brought there into *moved: a reference
 * that is the caller's. NULL with an error. */
void *hd_gpu_read(hd_thread *thread, const hd_gpu_device *d, const hd_tensor *t, hd_tensor **moved);
/* The results of a call: what a plan has given, or new tensors. One that a plan does not want is NULL when
 * `optional`. */
hd_error hd_gpu_outputs(hd_thread *thread, const hd_gpu_device *d, hd_call *call, bool optional);
/* Gives them up again, when the call failed. Returns `status`. */
hd_error hd_gpu_finish(hd_thread *thread, hd_call *call, hd_error status);
/* Where the first element of a result is, all of which is written; NULL with an error. */
void *hd_gpu_written(hd_thread *thread, hd_tensor *t);
/* Memory to work in, for launches that follow: released as soon as they are enqueued. NULL with an error. */
hd_block *hd_gpu_workspace(hd_thread *thread, const hd_gpu_device *d, size_t bytes);

/* The operands of a call that is a template: inputs as they are where they are contiguous, else copies; and where the
 * first elements are. */
enum { HD_GPU_INPUTS = 6 };
typedef struct hd_gpu_operands {
    hd_tensor *in[HD_GPU_INPUTS], *moved[HD_GPU_INPUTS]; /* numbers are moved */
    void *from[HD_GPU_INPUTS], *to[HD_MAX_OUTPUTS];
} hd_gpu_operands;
/* Fills it, and makes the call's results, as hd_gpu_outputs does, `optional` ones too. Inputs whose bit is set in
 * `strided` are read through their strides: they are no copies. */
hd_error hd_gpu_operands_begin(hd_thread *thread, const hd_gpu_device *d, hd_call *call, unsigned strided,
                               hd_gpu_operands *o);
/* Gives up what was made; the results, too, when `status` is an error, which it returns. */
hd_error hd_gpu_operands_end(hd_thread *thread, hd_call *call, hd_gpu_operands *o, hd_error status);

/* A launch of a function of a template. */
typedef struct hd_gpu_shot {
    const hd_template_use *use;
    const char *function;
    uint32_t groups[3], threads;
    void *buffers[8]; /* addresses */
    int buffer_count;
    void *arguments; /* a struct as the template has it: an i64 for each buffer, which the device fills in, first */
    size_t argument_bytes;
} hd_gpu_shot;
hd_error hd_gpu_shoot(const hd_gpu_device *d, const hd_gpu_shot *shot);
/* Any launch: all go through it. */
hd_error hd_gpu_launch_it(const hd_gpu_device *d, hd_gpu_launch *l);
/* Groups of so many threads for so many points; 0 with an error when there are too many. */
uint32_t hd_gpu_groups(int64_t points, uint32_t threads);

/* A kernel with its grid, ready to be launched any number of times. */
typedef struct hd_gpu_kernel_code {
    hd_gpu_function *whole, *parts, *join;
    hd_grid grid;
    size_t argument_bytes;
} hd_gpu_kernel_code;
/* What a grid depends on. */
hd_grid_limits hd_gpu_grid_limits(const hd_gpu_device *d);
/* Its grid; false: its arguments are too many for the device. `alignment` as hd_grid_choose. Then, of several, their
 * functions. */
bool hd_gpu_choose_grid(const hd_gpu_device *d, const hd_native *n, int alignment, hd_gpu_kernel_code *out);
hd_error hd_gpu_compile_kernels(const hd_gpu_device *d, const hd_native *const *natives, hd_gpu_kernel_code *codes,
                                int count);
/* `buffers` has room for one more than the kernel has. */
hd_error hd_gpu_launch_kernel(hd_thread *thread, const hd_gpu_device *d, const hd_native *n,
                              const hd_gpu_kernel_code *code, const uint64_t *numbers, void **buffers);

/* HODU_DEBUG=sync: every launch is waited for, so that what crashes is named. */
bool hd_gpu_debug_sync(void);

/* While it is not NULL, launches of this thread are those of a run that is recorded and change from run to run: they are
 * marked, or, once there is a recording, told to it. */
typedef struct hd_gpu_changes {
    hd_gpu_recording *recording; /* NULL: it is being made */
    uint32_t *marks;             /* of each launch */
    uint32_t count, capacity;    /* so far */
} hd_gpu_changes;
extern _Thread_local hd_gpu_changes *hd_gpu_changing;

/* While it is not NULL, all launches of this thread are timed, and what they took is added there. */
extern _Thread_local int64_t *hd_gpu_nanoseconds;

/* ---- gpu_product.c: products with what follows them, for plans ---- */
/* As hd_machine asks; the first is in gpu_blas.c. */
const char *hd_gpu_product_apart(const hd_machine *m, const hd_graph *g, uint32_t node);
hd_dtype hd_gpu_tile_dtype(hd_dtype result);
int hd_gpu_tile_columns(hd_dtype tile);
/* A call of matmul, affine, conv or conv_transpose and the kernel that is lowered from its group, ready to be
 * launched any number of times. `tile`: which buffer of the kernel is the product's result; `rows`: hd_lowered has
 * it. The call, whose operands and strides count, and the kernel stay the caller's; the call's output says its dtype
 * and shape alone. */
typedef struct hd_gpu_product hd_gpu_product;
hd_gpu_product *hd_gpu_product_new(const hd_gpu_device *d, const hd_call *call, const hd_native *epilogue, int tile,
                                   int rows); /* NULL with an error */
void hd_gpu_product_release(hd_gpu_product *p);
/* Operands are read where the call has them, also numbers. `buffers`: addresses of those of the kernel, of which the
 * tile's does not count; none that it writes may be one that the product reads. */
hd_error hd_gpu_product_with_epilogue(hd_thread *thread, const hd_gpu_device *d, const hd_gpu_product *p,
                                      const hd_call *call, const hd_native *epilogue, const uint64_t *numbers,
                                      void *const *buffers);

/* ---- gpu_eager.c ---- */
hd_gpu_eager *hd_gpu_eager_new(void);
hd_error hd_gpu_run_call(hd_executor *self, hd_thread *thread, hd_call *call);
hd_error hd_gpu_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);
/* A call that is one kernel; an error when it is none. */
hd_error hd_gpu_by_kernel(hd_thread *thread, const hd_gpu_device *d, hd_call *call);
/* A call on the CPU, with copies, as HODU_DUMP=calls says. */
hd_error hd_gpu_by_copy(hd_thread *thread, const hd_gpu_device *d, hd_call *call);

/* All elements in memory of the device, contiguous: t itself or a copy; a reference that is the caller's. */
hd_tensor *hd_gpu_packed(hd_thread *thread, const hd_gpu_device *d, hd_tensor *t);

/* ---- how calls run: one function for each primitive that is no view, which gpu_calls.c has in a table ---- */
typedef hd_error hd_gpu_op(hd_thread *thread, const hd_gpu_device *d, hd_call *call);
hd_gpu_op *hd_gpu_op_of(const hd_call *call);
/* True for an op that GPUs have no code for: by_copy.def. */
bool hd_gpu_is_by_copy(const hd_op *op);
/* One for each row. */
#define PRIMITIVE(name, ...) hd_gpu_op hd_gpu_##name;
#include "ops/ops.def"
/* Fills what is around the part of a padded tensor that was there before. */
hd_error hd_gpu_pad_border(hd_thread *thread, const hd_gpu_device *d, hd_tensor *out, const hd_pad_attributes *a);
/* True when some index is out of [-bound, bound): looked at on the device, and waited for. */
hd_error hd_gpu_any_beside(hd_thread *thread, hd_tensor *index, int64_t bound, bool *out);

#endif
