/* Blocks, loops and memory: the small change of emitting LLVM IR. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_emit.h"

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

LLVMBasicBlockRef hd_emit_block(const hd_emitter *e, const char *name) {
    return hd_llvm.AppendBasicBlockInContext(e->context, e->function, name);
}
void hd_emit_at(const hd_emitter *e, LLVMBasicBlockRef block) { hd_llvm.PositionBuilderAtEnd(e->builder, block); }
LLVMBasicBlockRef hd_emit_here(const hd_emitter *e) { return hd_llvm.GetInsertBlock(e->builder); }

value hd_emit_phi(const hd_emitter *e, LLVMTypeRef type, value a, LLVMBasicBlockRef from_a, value b,
                  LLVMBasicBlockRef from_b) {
    value phi = BUILD(Phi, type);
    hd_llvm.AddIncoming(phi, &a, &from_a, 1);
    hd_llvm.AddIncoming(phi, &b, &from_b, 1);
    return phi;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */
hd_emitted_loop hd_emit_loop(hd_emitter *e, value start, value limit) {
    LLVMBasicBlockRef before = hd_emit_here(e), body = hd_emit_block(e, "body");
    hd_emitted_loop loop = {.header = hd_emit_block(e, "loop"), .exit = hd_emit_block(e, "done")};
    hd_llvm.BuildBr(e->builder, loop.header);
    hd_emit_at(e, loop.header);
    loop.index = BUILD(Phi, e->i64);
    hd_llvm.AddIncoming(loop.index, &start, &before, 1);
    for (int i = 0; i < e->carried_count; ++i) {
        value phi = BUILD(Phi, hd_llvm.TypeOf(e->carried[i]));
        hd_llvm.AddIncoming(phi, &e->carried[i], &before, 1);
        e->carried[i] = phi;
    }
    hd_llvm.BuildCondBr(e->builder, BUILD(ICmp, LLVMIntSLT, loop.index, limit), body, loop.exit);
    hd_emit_at(e, body);
    return loop;
}

void hd_emit_loop_end(hd_emitter *e, const hd_emitted_loop *loop, uint64_t step) {
    value next = BUILD(NSWAdd, loop->index, hd_emit_i64(e, (int64_t)step));
    LLVMBasicBlockRef here = hd_emit_here(e);
    hd_llvm.BuildBr(e->builder, loop->header);
    hd_llvm.AddIncoming(loop->index, &next, &here, 1);
    value phi = loop->index; /* the carried ones follow it in their order */
    for (int i = 0; i < e->carried_count; ++i) {
        phi = hd_llvm.GetNextInstruction(phi);
        hd_llvm.AddIncoming(phi, &e->carried[i], &here, 1);
        e->carried[i] = phi;
    }
    hd_emit_at(e, loop->exit);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
value hd_emit_load(const hd_emitter *e, LLVMTypeRef type, value pointer, unsigned alignment) {
    value v = BUILD(Load2, type, pointer);
    hd_llvm.SetAlignment(v, alignment);
    return v;
}

void hd_emit_store(const hd_emitter *e, value v, value pointer, unsigned alignment) {
    hd_llvm.SetAlignment(hd_llvm.BuildStore(e->builder, v, pointer), alignment);
}

value hd_emit_masked_load(const hd_emitter *e, LLVMTypeRef type, value pointer, unsigned alignment, value mask) {
    LLVMTypeRef types[2] = {type, e->pointer};
    value arguments[4] = {pointer, hd_llvm.ConstInt(e->i32, alignment, false), mask, hd_llvm.ConstNull(type)};
    return hd_emit_intrinsic(e, "llvm.masked.load", types, 2, arguments, 4);
}

void hd_emit_masked_store(const hd_emitter *e, value v, value pointer, unsigned alignment, value mask) {
    LLVMTypeRef types[2] = {hd_llvm.TypeOf(v), e->pointer};
    value arguments[4] = {v, pointer, hd_llvm.ConstInt(e->i32, alignment, false), mask};
    hd_emit_intrinsic(e, "llvm.masked.store", types, 2, arguments, 4);
}

value hd_emit_offset(const hd_emitter *e, value pointer, value bytes) { return BUILD(GEP2, e->i8, pointer, &bytes, 1); }
value hd_emit_element(const hd_emitter *e, LLVMTypeRef type, value pointer, value index) {
    return BUILD(GEP2, type, pointer, &index, 1);
}

/* In the entry block, whatever is being emitted now; gives the block to return to. */
static LLVMBasicBlockRef enter_entry(const hd_emitter *e) {
    LLVMBasicBlockRef here = hd_emit_here(e);
    hd_llvm.PositionBuilderBefore(e->builder, hd_llvm.GetBasicBlockTerminator(e->entry));
    return here;
}

value hd_emit_stack(const hd_emitter *e, LLVMTypeRef type, int count, bool cleared) {
    LLVMBasicBlockRef here = enter_entry(e);
    value memory = BUILD(Alloca, hd_llvm.ArrayType2(type, (uint64_t)count));
    hd_llvm.SetAlignment(memory, 64);
    if (cleared) hd_emit_store(e, hd_llvm.ConstNull(hd_llvm.VectorType(type, (unsigned)count)), memory, 64);
    hd_emit_at(e, here);
    return memory;
}

value hd_emit_argument(const hd_emitter *e, int parameter, int index, LLVMTypeRef type) {
    LLVMBasicBlockRef here = enter_entry(e);
    value at = hd_emit_element(e, e->i64, hd_llvm.GetParam(e->function, (unsigned)parameter), hd_emit_i64(e, index));
    value v = hd_emit_load(e, type, at, 8);
    hd_emit_at(e, here);
    return v;
}
#endif
