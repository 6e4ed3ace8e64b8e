/* Emitting a kernel as LLVM IR: what the words (llvm_words.c) and what is around them (llvm_nest.h) share. Values that
 * differ between lanes are vectors as wide as the kernel; others are scalars. There is no pass pipeline: what is
 * emitted is already placed where it belongs, and goes to instruction selection as it is. */
#ifndef HD_CODEGEN_LLVM_EMIT_H
#define HD_CODEGEN_LLVM_EMIT_H

#include "codegen/llvm_api.h"
#include "kernel/kernel.h"

enum { HD_EMIT_LANES = 256 }; /* the widest kernel */

typedef struct hd_emitter {
    const hd_kernel *k;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMValueRef function;
    LLVMBasicBlockRef entry; /* geometry, numbers and stack memory: its terminator stands, more is put before it */
    LLVMTypeRef types[HD_COMPUTE_COUNT + 1]; /* of one value: indexed by hd_compute and HD_CONDITION */
    LLVMTypeRef i8, i16, i32, i64, f16, pointer;
    bool has_f16;          /* the machine converts f16 by itself */
    bool has_scale;        /* and multiplies by powers of two */
    unsigned least_masked; /* bytes of the smallest elements that it reads and writes under a mask */
    int lanes;             /* of the values being emitted now: 1 or the kernel's width */
    LLVMValueRef *carried; /* what loops hand from round to round: reductions in the making */
    int carried_count;
    hd_ir *programs[HD_WORD_COUNT][2]; /* functions written out, in f32 and f64, when first used */
    hd_error status;                   /* the first failure; emitting goes on, and is dropped */
} hd_emitter;

/* ---- llvm_words.c ------------------------------------------------------------------------------------------------ */
/* `type`, as many of it as there are lanes now. */
LLVMTypeRef hd_emit_type(const hd_emitter *e, LLVMTypeRef type);
LLVMValueRef hd_emit_integer(const hd_emitter *e, LLVMTypeRef type, uint64_t value);
LLVMValueRef hd_emit_constant(const hd_emitter *e, int type, double value);
LLVMValueRef hd_emit_splat(const hd_emitter *e, LLVMValueRef scalar, int lanes);
/* `types`: those that the intrinsic is overloaded for. */
LLVMValueRef hd_emit_intrinsic(const hd_emitter *e, const char *name, LLVMTypeRef *types, int type_count,
                               LLVMValueRef *arguments, int count);
/* `type`: of the operands (of SELECT: of b and c). */
LLVMValueRef hd_emit_word(hd_emitter *e, int word, int type, const LLVMValueRef *o);
LLVMValueRef hd_emit_cast(const hd_emitter *e, LLVMValueRef v, int from, int to);
/* Between an element as it lies in memory and its compute type. */
LLVMTypeRef hd_emit_stored_type(const hd_emitter *e, hd_dtype dtype);
LLVMValueRef hd_emit_decode(const hd_emitter *e, LLVMValueRef raw, hd_dtype dtype);
LLVMValueRef hd_emit_encode(const hd_emitter *e, LLVMValueRef v, hd_dtype dtype);
void hd_emit_release_programs(hd_emitter *e);

/* ---- llvm_blocks.c ----------------------------------------------------------------------------------------------- */
/* A loop: for (index = start; index < limit; index += step). What is carried becomes the loop's own at its beginning,
 * and has its last value behind it. */
typedef struct hd_emitted_loop {
    LLVMBasicBlockRef header, exit;
    LLVMValueRef index;
} hd_emitted_loop;
hd_emitted_loop hd_emit_loop(hd_emitter *e, LLVMValueRef start, LLVMValueRef limit);
void hd_emit_loop_end(hd_emitter *e, const hd_emitted_loop *loop, uint64_t step);
LLVMBasicBlockRef hd_emit_block(const hd_emitter *e, const char *name);
void hd_emit_at(const hd_emitter *e, LLVMBasicBlockRef block);
LLVMBasicBlockRef hd_emit_here(const hd_emitter *e);
LLVMValueRef hd_emit_phi(const hd_emitter *e, LLVMTypeRef type, LLVMValueRef a, LLVMBasicBlockRef from_a,
                         LLVMValueRef b, LLVMBasicBlockRef from_b);
/* Memory on the stack for `count` values; zero when `cleared`. */
LLVMValueRef hd_emit_stack(const hd_emitter *e, LLVMTypeRef type, int count, bool cleared);
/* An entry of the argument array `parameter` (0: buffers, 1: geometry, 2: numbers), read once, before everything. */
LLVMValueRef hd_emit_argument(const hd_emitter *e, int parameter, int index, LLVMTypeRef type);
LLVMValueRef hd_emit_offset(const hd_emitter *e, LLVMValueRef pointer, LLVMValueRef bytes);
LLVMValueRef hd_emit_element(const hd_emitter *e, LLVMTypeRef type, LLVMValueRef pointer, LLVMValueRef index);
LLVMValueRef hd_emit_load(const hd_emitter *e, LLVMTypeRef type, LLVMValueRef pointer, unsigned alignment);
void hd_emit_store(const hd_emitter *e, LLVMValueRef value, LLVMValueRef pointer, unsigned alignment);
/* Only the lanes for which `mask` holds; the others are 0. */
LLVMValueRef hd_emit_masked_load(const hd_emitter *e, LLVMTypeRef type, LLVMValueRef pointer, unsigned alignment,
                                 LLVMValueRef mask);
void hd_emit_masked_store(const hd_emitter *e, LLVMValueRef value, LLVMValueRef pointer, unsigned alignment,
                          LLVMValueRef mask);
static inline LLVMValueRef hd_emit_i64(const hd_emitter *e, int64_t value) {
    return hd_llvm.ConstInt(e->i64, (uint64_t)value, true);
}

/* ---- llvm_loops.c ------------------------------------------------------------------------------------------------ */
/* The body of e->function, of the type hd_kernel_function. */
hd_error hd_emit_kernel(hd_emitter *e);

#endif
