/* Reductions in LLVM IR. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_nest.h"

#include <math.h>
#include <string.h>

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

static const int fold_words[] = {HD_WORD_ADD, HD_WORD_MUL, HD_WORD_MAX, HD_WORD_MIN};

static value identity(const hd_emitter *e, int how, int type) {
    static const double lowest[] = {0, 0, 0, 0, 0, -128, -32768, -2147483648.0, -0x1p63, -INFINITY, -INFINITY},
                        highest[] = {1,     255,          65535,  4294967295.0, 0x1p64,  127,
                                     32767, 2147483647.0, 0x1p63, INFINITY,     INFINITY};
    if (how == HD_KERNEL_MIN && type == HD_COMPUTE_I64) return hd_emit_integer(e, e->i64, INT64_MAX);
    return hd_emit_constant(e, type,
                            how == HD_KERNEL_SUM    ? 0
                            : how == HD_KERNEL_PROD ? 1
                            : how == HD_KERNEL_MAX  ? lowest[type]
                                                    : highest[type]);
}

/* The new value first: that it is no NaN is then known before the running one is. */
static value fold_value(hd_emitter *e, const hd_step *s, int type, value v, value running) {
    value o[3] = {v, running, NULL};
    return hd_emit_word(e, fold_words[s->index], type, o);
}

/* All lanes of a vector as one, by halves. */
static value across(hd_nest *n, const hd_step *s, value v) {
    hd_emitter *e = n->e;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < n->k->schedule.width; ++i) lane[i] = hd_llvm.ConstInt(e->i32, (uint64_t)i, false);
    for (int half = n->k->schedule.width / 2; half > 0; half /= 2) {
        value none = hd_llvm.GetPoison(hd_llvm.TypeOf(v));
        value low = BUILD(ShuffleVector, v, none, hd_llvm.ConstVector(lane, (unsigned)half)),
              high = BUILD(ShuffleVector, v, none, hd_llvm.ConstVector(lane + half, (unsigned)half));
        e->lanes = half;
        v = fold_value(e, s, s->type, low, high);
    }
    e->lanes = 1;
    return BUILD(ExtractElement, v, hd_llvm.ConstInt(e->i32, 0, false));
}

static bool runs_in_lanes(const hd_nest *n, int step) { return hd_nest_lanes_reduced(n) || hd_nest_is_vector(n, step); }

void hd_nest_begin_reductions(hd_nest *n) {
    hd_emitter *e = n->e;
    n->reduction_count = 0;
    e->carried_count = 0;
    n->pending = -1;
    n->blocks = false;
    for (int i = 0; i < n->k->count; ++i) {
        const hd_step *s = &n->k->steps[i];
        if (s->word != HD_STEP_REDUCE || s->stage != n->stage + 1) continue;
        hd_nest_reduction r = {.step = i, .running = e->carried_count, .total = -1};
        e->lanes = runs_in_lanes(n, i) ? n->k->schedule.width : 1;
        e->carried[e->carried_count++] = identity(e, s->index, s->type);
        if (hd_step_is_wide(s)) {
            if (hd_nest_lanes_reduced(n)) e->lanes = 1;
            r.total = e->carried_count;
            e->carried[e->carried_count++] = identity(e, s->index, HD_COMPUTE_F64);
            n->blocks = true;
        }
        n->reductions[n->reduction_count++] = r;
    }
    if (n->blocks && n->k->axes - n->k->kept > 1) {
        n->pending = e->carried_count;
        e->carried[e->carried_count++] = hd_emit_i64(e, 0);
    }
}

/* Running f32 sums and products go to their f64 totals. */
void hd_nest_fold_blocks(hd_nest *n) {
    hd_emitter *e = n->e;
    for (int i = 0; i < n->reduction_count; ++i) {
        const hd_nest_reduction *r = &n->reductions[i];
        const hd_step *s = &n->k->steps[r->step];
        if (r->total < 0) continue;
        value v = e->carried[r->running];
        if (hd_nest_lanes_reduced(n)) v = across(n, s, v);
        e->lanes = !hd_nest_lanes_reduced(n) && hd_nest_is_vector(n, r->step) ? n->k->schedule.width : 1;
        v = BUILD(FPExt, v, hd_emit_type(e, e->types[HD_COMPUTE_F64]));
        e->carried[r->total] = fold_value(e, s, HD_COMPUTE_F64, v, e->carried[r->total]);
        e->lanes = runs_in_lanes(n, r->step) ? n->k->schedule.width : 1;
        e->carried[r->running] = identity(e, s->index, s->type);
    }
    if (n->pending >= 0) e->carried[n->pending] = hd_emit_i64(e, 0);
}

/* After a stretch of the innermost axis: enough for a block? */
void hd_nest_fold_blocks_when_due(hd_nest *n, value stretch, int block) {
    hd_emitter *e = n->e;
    e->carried[n->pending] = BUILD(NSWAdd, e->carried[n->pending], stretch);
    value due = BUILD(ICmp, LLVMIntSGE, e->carried[n->pending], hd_emit_i64(e, block));
    LLVMBasicBlockRef here = hd_emit_here(e), folding = hd_emit_block(e, "block"), done = hd_emit_block(e, "folded");
    value *before = n->before;
    memcpy(before, e->carried, (size_t)e->carried_count * sizeof *before);
    hd_llvm.BuildCondBr(e->builder, due, folding, done);
    hd_emit_at(e, folding);
    hd_nest_fold_blocks(n);
    LLVMBasicBlockRef folded = hd_emit_here(e);
    hd_llvm.BuildBr(e->builder, done);
    hd_emit_at(e, done);
    for (int i = 0; i < e->carried_count; ++i)
        if (before[i] != e->carried[i])
            e->carried[i] = hd_emit_phi(e, hd_llvm.TypeOf(before[i]), before[i], here, e->carried[i], folded);
}

/* Lanes behind the end keep what they had. */
static void restore_idle_lanes(hd_nest *n) {
    hd_emitter *e = n->e;
    const value *before = n->before;
    LLVMBasicBlockRef here = hd_emit_here(e), partial = hd_emit_block(e, "partial"), done = hd_emit_block(e, "reduced");
    hd_llvm.BuildCondBr(e->builder, n->full, done, partial);
    hd_emit_at(e, partial);
    value exists = hd_nest_existing_lanes(n), *fixed = n->fixed;
    for (int i = 0; i < n->reduction_count; ++i) {
        const int r = n->reductions[i].running;
        fixed[r] = BUILD(Select, exists, e->carried[r], before[r]);
    }
    hd_llvm.BuildBr(e->builder, done);
    hd_emit_at(e, done);
    for (int i = 0; i < n->reduction_count; ++i) {
        const int r = n->reductions[i].running;
        e->carried[r] = hd_emit_phi(e, hd_llvm.TypeOf(before[r]), e->carried[r], here, fixed[r], partial);
    }
}

void hd_nest_accumulate(hd_nest *n) {
    hd_emitter *e = n->e;
    if (n->reduction_count == 0) return;
    memcpy(n->before, e->carried, (size_t)e->carried_count * sizeof *n->before);
    for (int i = 0; i < n->reduction_count; ++i) {
        const hd_nest_reduction *r = &n->reductions[i];
        const hd_step *s = &n->k->steps[r->step];
        const bool vector = runs_in_lanes(n, r->step);
        e->lanes = vector ? n->k->schedule.width : 1;
        e->carried[r->running] =
            fold_value(e, s, s->type, hd_nest_operand(n, s->operand[0], vector), e->carried[r->running]);
    }
    if (hd_nest_lanes_reduced(n)) restore_idle_lanes(n);
}

void hd_nest_finish_reductions(hd_nest *n) {
    hd_emitter *e = n->e;
    if (n->blocks && n->k->axes - n->k->kept != 1) hd_nest_fold_blocks(n);
    for (int i = 0; i < n->reduction_count; ++i) {
        const hd_nest_reduction *r = &n->reductions[i];
        const hd_step *s = &n->k->steps[r->step];
        value v = e->carried[r->total >= 0 ? r->total : r->running];
        if (r->total < 0 && hd_nest_lanes_reduced(n)) v = across(n, s, v);
        e->lanes = hd_nest_is_vector(n, r->step) ? n->k->schedule.width : 1;
        if (r->total >= 0) v = BUILD(FPTrunc, v, hd_emit_type(e, e->types[HD_COMPUTE_F32]));
        hd_nest_set_value(n, r->step, v);
    }
    e->carried_count = 0;
}
#endif
