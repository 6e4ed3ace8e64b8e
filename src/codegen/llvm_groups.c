/* The lanes of a group. There is one copy of the code for whole groups and the last, partial one: around a body,
 * elements that lie side by side are read and written where they are in a whole group, and in a partial one through
 * memory on the stack, which only the lanes that exist are copied to and from. Elements that do not lie side by side
 * always go through it. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_nest.h"

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

/* ---- groups of lanes --------------------------------------------------------------------------------------------- */
value hd_nest_area(hd_nest *n, const hd_nest_access *a) {
    value *area = &n->areas[a->store][a->step];
    if (*area == NULL) *area = hd_emit_stack(n->e, a->type, n->k->schedule.width, !a->store && !a->masked);
    return *area;
}

/* True for the lanes that exist. */
value hd_nest_existing_lanes(const hd_nest *n) {
    hd_emitter *e = n->e;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < n->k->schedule.width; ++i) lane[i] = hd_llvm.ConstInt(e->i32, (uint64_t)i, false);
    value count = hd_emit_splat(e, BUILD(Trunc, n->active, e->i32), n->k->schedule.width);
    return BUILD(ICmp, LLVMIntULT, hd_llvm.ConstVector(lane, n->k->schedule.width), count);
}

/* One loop over the lanes that exist, for all accesses of a kind. */
static void loop_over_lanes(hd_nest *n, bool store, bool gathered) {
    hd_emitter *e = n->e;
    const int carried = e->carried_count; /* stays as it is */
    e->carried_count = 0;
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), n->active);
    for (int i = 0; i < n->access_count; ++i) {
        const hd_nest_access *a = &n->accesses[i];
        if (a->store != store || a->gathered != gathered || a->masked) continue;
        value offset = gathered ? BUILD(Mul, loop.index, a->stride) : loop.index,
              outside = hd_emit_element(e, a->type, a->pointer, offset),
              inside = hd_emit_element(e, a->type, a->area, loop.index);
        hd_emit_store(e, hd_emit_load(e, a->type, store ? inside : outside, a->bytes), store ? outside : inside,
                      a->bytes);
    }
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
}

/* Between their places and the stack. */
static void copy_lanes(hd_nest *n, bool store, bool gathered) {
    hd_emitter *e = n->e;
    value mask = NULL;
    bool others = false;
    e->lanes = n->k->schedule.width;
    for (int i = 0; i < n->access_count; ++i) {
        const hd_nest_access *a = &n->accesses[i];
        if (a->store != store || a->gathered != gathered) continue;
        others = others || !a->masked;
        if (!a->masked) continue;
        if (mask == NULL) mask = hd_nest_existing_lanes(n);
        LLVMTypeRef type = hd_emit_type(e, a->type);
        if (store)
            hd_emit_masked_store(e, hd_emit_load(e, type, a->area, 64), a->pointer, a->bytes, mask);
        else
            hd_emit_store(e, hd_emit_masked_load(e, type, a->pointer, a->bytes, mask), a->area, 64);
    }
    if (others) loop_over_lanes(n, store, gathered);
}

static bool has_access(const hd_nest *n, bool store, bool gathered) {
    for (int i = 0; i < n->access_count; ++i)
        if (n->accesses[i].store == store && n->accesses[i].gathered == gathered) return true;
    return false;
}

void hd_nest_enter_group(hd_nest *n) {
    hd_emitter *e = n->e;
    if (has_access(n, false, true)) copy_lanes(n, false, true);
    if (!has_access(n, false, false) && !has_access(n, true, false)) return;
    LLVMBasicBlockRef here = hd_emit_here(e), partial = hd_emit_block(e, "partial"), whole = hd_emit_block(e, "group");
    hd_llvm.BuildCondBr(e->builder, n->full, whole, partial);
    hd_emit_at(e, partial);
    if (has_access(n, false, false)) copy_lanes(n, false, false);
    LLVMBasicBlockRef copied = hd_emit_here(e);
    hd_llvm.BuildBr(e->builder, whole);
    hd_emit_at(e, whole);
    for (int i = 0; i < n->access_count; ++i) {
        hd_nest_access *a = &n->accesses[i];
        if (!a->gathered) a->used = hd_emit_phi(e, e->pointer, a->pointer, here, a->area, copied);
    }
}

void hd_nest_leave_group(hd_nest *n) {
    hd_emitter *e = n->e;
    if (has_access(n, true, true)) copy_lanes(n, true, true);
    if (!has_access(n, true, false)) return;
    LLVMBasicBlockRef partial = hd_emit_block(e, "partial"), done = hd_emit_block(e, "stored");
    hd_llvm.BuildCondBr(e->builder, n->full, done, partial);
    hd_emit_at(e, partial);
    copy_lanes(n, true, false);
    hd_llvm.BuildBr(e->builder, done);
    hd_emit_at(e, done);
}

hd_nest_access *hd_nest_find_access(hd_nest *n, int step, bool store) {
    for (int i = 0; i < n->access_count; ++i)
        if (n->accesses[i].step == step && n->accesses[i].store == store) return &n->accesses[i];
    return NULL;
}

void hd_nest_add_access(hd_nest *n, hd_nest_access a) {
    a.masked = !a.gathered && a.bytes >= n->e->least_masked;
    a.area = hd_nest_area(n, &a);
    a.used = a.area;
    n->accesses[n->access_count++] = a;
}
#endif
