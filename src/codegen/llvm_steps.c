/* The steps of a kernel in LLVM IR: every one where its depth says, inside the reduced axes in each walk that needs
 * it. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_nest.h"

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

value hd_nest_geometry(const hd_nest *n, int index) { return hd_emit_argument(n->e, 1, index, n->e->i64); }

value hd_nest_stride(hd_nest *n, int buffer, int axis) {
    const uint8_t stride = n->k->buffers[buffer].stride[axis];
    if (stride != HD_STRIDE_ANY) return hd_emit_i64(n->e, stride == HD_STRIDE_ONE);
    value *kept = &n->strides[buffer][axis];
    if (*kept == NULL) *kept = hd_nest_geometry(n, hd_geometry_stride(n->k, buffer, axis));
    return *kept;
}

LLVMTypeRef hd_nest_element_type(const hd_nest *n, int buffer) {
    return hd_emit_stored_type(n->e, (hd_dtype)n->k->buffers[buffer].dtype);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
value hd_nest_operand(const hd_nest *n, int step, bool vector) {
    if (!vector || hd_nest_is_vector(n, step)) return n->values[step];
    return n->splats[step] != NULL ? n->splats[step] : hd_emit_splat(n->e, n->values[step], n->k->schedule.width);
}

/* A scalar that vectors will meet is spread where it is computed, outside their loop. */
void hd_nest_set_value(hd_nest *n, int step, value v) {
    n->values[step] = v;
    n->splats[step] =
        n->met_by_vectors[step] && !hd_nest_is_vector(n, step) ? hd_emit_splat(n->e, v, n->k->schedule.width) : NULL;
}

static bool store_is_vector(const hd_nest *n, const hd_step *s) {
    return n->k->axes > 0 && s->depth > n->k->schedule.lanes &&
           n->k->buffers[s->index].stride[n->k->schedule.lanes] != HD_STRIDE_ZERO;
}

void hd_nest_mark_splats(hd_nest *n) {
    for (int i = 0; i < n->k->count; ++i) {
        const hd_step *s = &n->k->steps[i];
        const bool vector = s->word == HD_STEP_STORE    ? store_is_vector(n, s)
                            : s->word == HD_STEP_DRAW   ? false
                            : s->word == HD_STEP_REDUCE ? hd_nest_lanes_reduced(n) || hd_nest_is_vector(n, i)
                                                        : s->word != HD_STEP_LOAD && hd_nest_is_vector(n, i);
        for (int j = 0; j < 3 && vector; ++j)
            if (s->operand[j] >= 0) n->met_by_vectors[s->operand[j]] = true;
    }
}

static unsigned slot_element_bytes(const hd_step *s) { return (unsigned)hd_compute_bytes(s->type); }
static LLVMTypeRef slot_element_type(const hd_nest *n, const hd_step *s) {
    return s->type == HD_CONDITION ? n->e->i8 : n->e->types[s->type];
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
static value slot_place(hd_nest *n, const hd_step *s) {
    hd_emitter *e = n->e;
    if (n->slot_bytes == NULL) n->slot_bytes = hd_nest_geometry(n, hd_geometry_slot(n->k));
    value slot =
        hd_emit_offset(e, hd_llvm.GetParam(e->function, 3), BUILD(Mul, n->slot_bytes, hd_emit_i64(e, s->slot - 1)));
    return hd_emit_element(e, slot_element_type(n, s), slot, n->linear);
}

/* Where lanes are read or written together; false for those whose places are only known inside the body. */
static bool describe_access(hd_nest *n, int step, hd_nest_access *out) {
    const hd_step *s = &n->k->steps[step];
    const bool store = s->word == HD_STEP_STORE;
    *out = (hd_nest_access){.step = step, .store = store, .type = hd_nest_element_type(n, s->index)};
    out->bytes = hd_dtype_bytes[n->k->buffers[s->index].dtype];
    const uint8_t stride = n->k->buffers[s->index].stride[n->k->schedule.lanes];
    out->gathered = stride != HD_STRIDE_ONE;
    out->pointer = n->pointers[s->index];
    out->stride = hd_nest_stride(n, s->index, n->k->schedule.lanes);
    if (!store && s->operand[1] >= 0) return false;
    if (store || s->operand[0] < 0) return true;
    const hd_step *offset = &n->k->steps[s->operand[0]];
    if (hd_nest_is_vector(n, s->operand[0]) || (offset->depth == s->depth && offset->stage == s->stage)) return false;
    out->pointer = hd_emit_element(n->e, out->type, out->pointer, n->values[s->operand[0]]);
    return true;
}

static void add_slot_access(hd_nest *n, int step, bool store) {
    const hd_step *s = &n->k->steps[step];
    hd_nest_add_access(n, (hd_nest_access){.step = step,
                                           .store = store,
                                           .type = slot_element_type(n, s),
                                           .bytes = slot_element_bytes(s),
                                           .pointer = slot_place(n, s)});
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
/* By the machine's own instruction. */
static value gather_at_once(hd_nest *n, const hd_nest_access *a, value offsets) {
    hd_emitter *e = n->e;
    const int width = n->k->schedule.width;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < width; ++i) lane[i] = hd_emit_i64(e, i);
    value steps = hd_llvm.ConstVector(lane, (unsigned)width);
    if (a->gathered) steps = BUILD(Mul, steps, hd_emit_splat(e, a->stride, width));
    value pointers = hd_emit_element(e, a->type, a->pointer, BUILD(Add, offsets, steps));
    LLVMTypeRef type = hd_emit_type(e, a->type), types[2] = {type, hd_llvm.TypeOf(pointers)};
    value arguments[4] = {pointers, hd_llvm.ConstInt(e->i32, a->bytes, false), hd_nest_existing_lanes(n),
                          hd_llvm.ConstNull(type)};
    return hd_emit_intrinsic(e, "llvm.masked.gather", types, 2, arguments, 4);
}

/* Elements at places that differ from lane to lane. */
static value gather_lanes(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    hd_nest_access a;
    describe_access(n, step, &a);
    const int from = n->k->steps[step].operand[0], carried = e->carried_count;
    const bool vector = hd_nest_is_vector(n, from);
    if (e->least_masked == 1 && a.bytes >= 4) return gather_at_once(n, &a, hd_nest_operand(n, from, true));
    a.area = hd_nest_area(n, &a);
    value offsets = vector ? hd_emit_stack(e, e->i64, n->k->schedule.width, false) : NULL;
    if (vector) hd_emit_store(e, n->values[from], offsets, 8);
    e->carried_count = 0;
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), n->active);
    value offset =
        vector ? hd_emit_load(e, e->i64, hd_emit_element(e, e->i64, offsets, loop.index), 8) : n->values[from];
    offset = BUILD(Add, offset, BUILD(Mul, loop.index, a.stride));
    value v = hd_emit_load(e, a.type, hd_emit_element(e, a.type, a.pointer, offset), a.bytes);
    hd_emit_store(e, v, hd_emit_element(e, a.type, a.area, loop.index), a.bytes);
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
    return hd_emit_load(e, hd_emit_type(e, a.type), a.area, a.bytes);
}

/* Elements side by side, of which some are not to be read, where the machine can do that. It does so slowly where there
 * is no memory at all, so when none is to be read, zeros on the stack are. */
static value masked_load(hd_nest *n, const hd_step *s, value pointer) {
    hd_emitter *e = n->e;
    const int width = n->k->schedule.width;
    LLVMTypeRef type = hd_nest_element_type(n, s->index), lanes = hd_llvm.IntTypeInContext(e->context, (unsigned)width);
    value condition = n->values[s->operand[1]], mask = hd_nest_existing_lanes(n), any = condition;
    if (hd_nest_is_vector(n, s->operand[1])) {
        mask = BUILD(And, condition, mask);
        any = BUILD(ICmp, LLVMIntNE, BUILD(BitCast, mask, lanes), hd_llvm.ConstInt(lanes, 0, false));
    }
    pointer = BUILD(Select, any, pointer, hd_emit_stack(e, type, width, true));
    return hd_emit_masked_load(e, hd_emit_type(e, type), pointer, hd_dtype_bytes[n->k->buffers[s->index].dtype], mask);
}

/* Else one by one: instead of an element that is not to be read, a zero on the stack is. */
static value load_or_zero(hd_nest *n, const hd_step *s, value pointer, value offsets) {
    hd_emitter *e = n->e;
    const unsigned bytes = hd_dtype_bytes[n->k->buffers[s->index].dtype];
    const int carried = e->carried_count, width = n->k->schedule.width;
    LLVMTypeRef type = hd_nest_element_type(n, s->index);
    value zero = hd_emit_stack(e, type, 1, true), area = hd_emit_stack(e, type, width, true),
          conditions = hd_emit_stack(e, e->i8, width, false);
    value all = BUILD(ZExt, hd_nest_operand(n, s->operand[1], true), hd_llvm.VectorType(e->i8, (unsigned)width));
    hd_emit_store(e, all, conditions, 1);
    e->carried_count = 0; /* stays as it is */
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), n->active);
    value holds = hd_emit_load(e, e->i8, hd_emit_element(e, e->i8, conditions, loop.index), 1);
    value offset = BUILD(Mul, loop.index, hd_nest_stride(n, s->index, n->k->schedule.lanes));
    if (offsets != NULL)
        offset = BUILD(Add, offset, hd_emit_load(e, e->i64, hd_emit_element(e, e->i64, offsets, loop.index), 8));
    holds = BUILD(ICmp, LLVMIntNE, holds, hd_llvm.ConstInt(e->i8, 0, false));
    value at = BUILD(Select, holds, hd_emit_element(e, type, pointer, offset), zero);
    hd_emit_store(e, hd_emit_load(e, type, at, bytes), hd_emit_element(e, type, area, loop.index), bytes);
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
    return hd_emit_load(e, hd_emit_type(e, type), area, bytes);
}

/* An element that is read only where a condition holds: nothing else may be there. */
static value conditional_load(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const unsigned bytes = hd_dtype_bytes[n->k->buffers[s->index].dtype];
    const int from = s->operand[0];
    const bool vector = hd_nest_is_vector(n, step), scattered = from >= 0 && hd_nest_is_vector(n, from);
    LLVMTypeRef type = hd_nest_element_type(n, s->index);
    value pointer = n->pointers[s->index], offsets = NULL;
    if (from >= 0 && !scattered) pointer = hd_emit_element(e, type, pointer, n->values[from]);
    if (!vector) {
        value zero = hd_emit_stack(e, type, 1, true);
        return hd_emit_load(e, type, BUILD(Select, n->values[s->operand[1]], pointer, zero), bytes);
    }
    if (!scattered && n->k->buffers[s->index].stride[n->k->schedule.lanes] == HD_STRIDE_ONE && bytes >= e->least_masked)
        return masked_load(n, s, pointer);
    if (scattered) {
        offsets = hd_emit_stack(e, e->i64, n->k->schedule.width, false);
        hd_emit_store(e, n->values[from], offsets, 8);
    }
    return load_or_zero(n, s, pointer, offsets);
}

static value emit_load_step(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const hd_dtype dtype = (hd_dtype)n->k->buffers[s->index].dtype;
    LLVMTypeRef type = hd_nest_element_type(n, s->index);
    if (s->operand[1] >= 0) return hd_emit_decode(e, conditional_load(n, step), dtype);
    if (hd_nest_is_vector(n, step)) {
        const hd_nest_access *a = hd_nest_find_access(n, step, false);
        value raw = a == NULL ? gather_lanes(n, step) : hd_emit_load(e, hd_emit_type(e, type), a->used, a->bytes);
        return hd_emit_decode(e, raw, dtype);
    }
    value at = n->pointers[s->index];
    if (s->operand[0] >= 0) at = hd_emit_element(e, type, at, n->values[s->operand[0]]);
    return hd_emit_decode(e, hd_emit_load(e, type, at, hd_dtype_bytes[dtype]), dtype);
}

value hd_nest_position(hd_nest *n, int axis, bool vector) {
    hd_emitter *e = n->e;
    value at = BUILD(Add, n->index[axis], hd_nest_geometry(n, hd_geometry_base(n->k, axis)));
    if (!vector) return at;
    if (axis != n->k->schedule.lanes) return hd_emit_splat(e, at, n->k->schedule.width);
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < n->k->schedule.width; ++i) lane[i] = hd_emit_i64(e, i);
    return BUILD(Add, hd_emit_splat(e, at, n->k->schedule.width), hd_llvm.ConstVector(lane, n->k->schedule.width));
}

/* Positions along the lanes below a bound that all of them share: so many lanes, counted in elements much narrower than
 * the positions themselves. */
static bool compares_positions(const hd_nest *n, const hd_step *s) {
    if (s->word != HD_WORD_LT || hd_nest_is_vector(n, s->operand[1])) return false;
    const hd_step *at = &n->k->steps[s->operand[0]];
    return at->word == HD_STEP_INDEX && at->index == n->k->schedule.lanes;
}

static value lanes_below(hd_nest *n, const hd_step *s) {
    hd_emitter *e = n->e;
    const int width = n->k->schedule.width;
    LLVMTypeRef narrow = e->least_masked == 1 && width < 256 ? e->i8 : e->i32;
    value zero = hd_emit_i64(e, 0), all = hd_emit_i64(e, width), lane[HD_EMIT_LANES];
    value count = BUILD(Sub, n->values[s->operand[1]], hd_nest_position(n, n->k->schedule.lanes, false));
    count = BUILD(Select, BUILD(ICmp, LLVMIntSLT, count, zero), zero, count);
    count = BUILD(Select, BUILD(ICmp, LLVMIntSLT, count, all), count, all);
    for (int i = 0; i < width; ++i) lane[i] = hd_llvm.ConstInt(narrow, (uint64_t)i, false);
    return BUILD(ICmp, LLVMIntULT, hd_llvm.ConstVector(lane, (unsigned)width),
                 hd_emit_splat(e, BUILD(Trunc, count, narrow), width));
}

static value emit_slot_load(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const hd_nest_access *a = hd_nest_find_access(n, step, false);
    LLVMTypeRef type = hd_emit_type(e, slot_element_type(n, s));
    value v = hd_emit_load(e, type, a != NULL ? a->used : slot_place(n, s), slot_element_bytes(s));
    return s->type == HD_CONDITION ? BUILD(Trunc, v, hd_emit_type(e, e->types[HD_CONDITION])) : v;
}

static void emit_slot_store(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const hd_nest_access *a = hd_nest_find_access(n, step, true);
    value v = n->values[step];
    if (s->type == HD_CONDITION) v = BUILD(ZExt, v, hd_emit_type(e, e->i8));
    hd_emit_store(e, v, a != NULL ? a->used : slot_place(n, s), slot_element_bytes(s));
}

static void emit_step(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const bool vector = hd_nest_is_vector(n, step);
    e->lanes = vector ? n->k->schedule.width : 1;
    if (s->depth > n->k->kept && n->here[step] == HD_NEST_FROM_SLOT) {
        hd_nest_set_value(n, step, emit_slot_load(n, step));
        return;
    }
    value o[3] = {NULL, NULL, NULL};
    for (int j = 0; j < 3; ++j)
        if (s->operand[j] >= 0)
            o[j] = hd_nest_operand(n, s->operand[j], vector && s->word != HD_STEP_LOAD && s->word != HD_STEP_DRAW);
    value v;
    switch (s->word) {
    case HD_WORD_CONSTANT: v = hd_emit_constant(e, s->type, s->value); break;
    case HD_WORD_NUMBER: v = hd_emit_argument(e, 2, s->index, e->types[s->type]); break;
    case HD_STEP_LOAD: v = emit_load_step(n, step); break;
    case HD_STEP_INDEX: v = hd_nest_position(n, s->index, vector); break;
    case HD_STEP_DRAW: v = hd_nest_draw(n, step); break;
    case HD_STEP_CAST: v = hd_emit_cast(e, o[0], n->k->steps[s->operand[0]].type, s->type); break;
    case HD_STEP_ROUND: v = hd_emit_decode(e, hd_emit_encode(e, o[0], (hd_dtype)s->index), (hd_dtype)s->index); break;
    default:
        if (vector && compares_positions(n, s)) {
            v = lanes_below(n, s);
            break;
        }
        v = hd_emit_word(e, s->word, n->k->steps[s->operand[s->word == HD_WORD_SELECT]].type, o);
    }
    hd_nest_set_value(n, step, v);
    if (s->slot != 0 && n->stage == s->stage && s->depth > n->k->kept) emit_slot_store(n, step);
}

static void emit_store_step(hd_nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const hd_dtype dtype = (hd_dtype)n->k->buffers[s->index].dtype;
    const bool vector = store_is_vector(n, s);
    const hd_nest_access *a = hd_nest_find_access(n, step, true);
    value v = hd_nest_operand(n, s->operand[0], vector), at = vector ? a->used : n->pointers[s->index];
    if (!vector && hd_nest_is_vector(n, s->operand[0])) /* all lanes at one place: the last stays */
        v = BUILD(ExtractElement, v, BUILD(Sub, n->active, hd_emit_i64(e, 1)));
    e->lanes = vector ? n->k->schedule.width : 1;
    hd_emit_store(e, hd_emit_encode(e, v, dtype), at, hd_dtype_bytes[dtype]);
}

/* ---- bodies: the steps of one depth ------------------------------------------------------------------------------ */
static bool belongs(const hd_nest *n, int step, int depth) {
    const hd_step *s = &n->k->steps[step];
    if (s->word == HD_STEP_REDUCE || s->depth != depth) return false;
    if (depth <= n->k->kept) return s->stage == (n->stage < 0 ? 0 : n->stage);
    if (s->word == HD_STEP_STORE) return s->stage == n->stage;
    return n->here[step] != HD_NEST_NOT_HERE;
}

static void collect_accesses(hd_nest *n, int depth) {
    n->access_count = 0;
    if (!n->in_lanes) return;
    for (int i = 0; i < n->k->count; ++i) {
        const hd_step *s = &n->k->steps[i];
        hd_nest_access a;
        if (!belongs(n, i, depth)) continue;
        const bool from_slot = depth > n->k->kept && n->here[i] == HD_NEST_FROM_SLOT;
        if (from_slot && hd_nest_is_vector(n, i)) add_slot_access(n, i, false);
        if (s->slot != 0 && s->stage == n->stage && hd_nest_is_vector(n, i)) add_slot_access(n, i, true);
        if (!from_slot && s->word == HD_STEP_LOAD && hd_nest_is_vector(n, i) && describe_access(n, i, &a))
            hd_nest_add_access(n, a);
        if (s->word == HD_STEP_STORE && store_is_vector(n, s) && describe_access(n, i, &a)) hd_nest_add_access(n, a);
    }
}

static void ask_for(hd_nest *n, value at, unsigned bytes, bool to_write) {
    hd_emitter *e = n->e;
    for (unsigned i = 0; i == 0 || i < bytes; i += 64) {
        value arguments[4] = {hd_emit_offset(e, at, hd_emit_i64(e, i)), hd_llvm.ConstInt(e->i32, to_write, false),
                              hd_llvm.ConstInt(e->i32, 3, false), hd_llvm.ConstInt(e->i32, 1, false)};
        hd_emit_intrinsic(e, "llvm.prefetch", &e->pointer, 1, arguments, 4);
    }
}

/* A walk that reads a row again finds it in cache, and memory idle: what the first walk over the next row reads, and
 * what the next walk over this one writes, is asked for. */
static void ask_ahead(hd_nest *n) {
    const hd_kernel *k = n->k;
    if (!n->in_lanes || n->stage < 1 || k->kept == 0) return;
    for (int i = 0; i < n->access_count; ++i) {
        const hd_nest_access *a = &n->accesses[i];
        const hd_step *s = &k->steps[a->step];
        if (s->word != HD_STEP_LOAD || a->store || a->gathered || s->stage == n->stage || s->slot != 0) continue;
        value row = hd_nest_stride(n, s->index, k->kept - 1);
        ask_for(n, hd_emit_element(n->e, a->type, a->pointer, row), a->bytes * k->schedule.width, false);
    }
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word == HD_STEP_STORE && hd_nest_stores_next(n, s) &&
            k->buffers[s->index].stride[k->schedule.lanes] == HD_STRIDE_ONE)
            ask_for(n, n->pointers[s->index], hd_dtype_bytes[k->buffers[s->index].dtype] * k->schedule.width, true);
    }
}

/* All loads of a point come before its stores: an output may lie where an input does. */
void hd_nest_emit_steps(hd_nest *n, int depth) {
    collect_accesses(n, depth);
    if (depth > n->k->kept) ask_ahead(n);
    hd_nest_enter_group(n);
    for (int i = 0; i < n->k->count; ++i)
        if (n->k->steps[i].word != HD_STEP_STORE && belongs(n, i, depth)) emit_step(n, i);
    for (int i = 0; i < n->k->count; ++i)
        if (n->k->steps[i].word == HD_STEP_STORE && belongs(n, i, depth)) emit_store_step(n, i);
    hd_nest_leave_group(n);
}
#endif
