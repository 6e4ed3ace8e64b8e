/* The loops of a kernel in LLVM IR. Every step stands at its own depth; steps inside the reduced axes are emitted in each
 * walk that needs them.
 *
 * The axis of the lanes goes in groups of k->width. There is one copy of the code for whole groups and the last, partial one:
 * around a body, elements that lie side by side are read and written where they are in a whole group, and in a partial one
 * through memory on the stack, which only the lanes that exist are copied to and from. Elements that do not lie side by side
 * always go through it. */
#include "compiler/code.h"

#if HD_HAS_LLVM
#include "compiler/llvm_emit.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

/* f32 sums and products run in f32 for so many elements (rows, when the lanes' axis stays) at most, then they go to f64.
 * Over several axes, whose innermost may be short, half as many are enough. */
enum { BLOCK_ELEMENTS = 4096, BLOCK_ROWS = 256 };

/* Elements of the lanes of one group. */
typedef struct access {
    int step;
    bool store, gathered;
    bool masked;      /* the machine can read or write just the lanes that exist */
    LLVMTypeRef type; /* of an element as it lies there */
    unsigned bytes;
    value pointer, stride; /* of the first lane; in elements */
    value area;            /* on the stack */
    value used;            /* where the body reads or writes */
} access;

typedef struct reduction {
    int step;
    int running, total; /* among what is carried; total is -1 when there is none */
} reduction;

enum { NOT_HERE, COMPUTED, FROM_SLOT };

typedef struct nest {
    hd_emitter *e;
    const hd_kernel *k;
    value *values, *splats;
    bool *met_by_vectors;  /* of each step */
    uint8_t *here;         /* of each step inside the reduced axes: what this walk does about it */
    value *before, *fixed; /* room to compare what is carried */
    value *areas[2];
    access *accesses;
    int access_count;
    reduction *reductions;
    int reduction_count;
    bool blocks; /* some go to f64 in blocks */
    int pending; /* over several axes: where elements since the last block are carried; else -1 */
    value sizes[HD_KERNEL_AXES], index[HD_KERNEL_AXES], pointers[HD_KERNEL_BUFFERS];
    value strides[HD_KERNEL_BUFFERS][HD_KERNEL_AXES];
    uint64_t touched; /* bits of the buffers whose places matter inside the loops being emitted */
    bool in_lanes;    /* inside the loop over groups */
    value full, active;
    value linear, slot_bytes;
    int stage; /* of the walk; -1 outside */
} nest;

static bool is_vector(const nest *n, int step) { return n->k->steps[step].over >> n->k->lanes & 1; }
static bool lanes_reduced(const nest *n) { return n->k->lanes >= n->k->kept; }
static bool is_wide(const hd_step *s) { return s->type == HD_COMPUTE_F32 && s->index <= HD_KERNEL_PROD; }

static value geometry(const nest *n, int index) { return hd_emit_argument(n->e, 1, index, n->e->i64); }

static value stride_of(nest *n, int buffer, int axis) {
    const uint8_t stride = n->k->buffers[buffer].stride[axis];
    if (stride != HD_STRIDE_ANY) return hd_emit_i64(n->e, stride == HD_STRIDE_ONE);
    value *kept = &n->strides[buffer][axis];
    if (*kept == NULL) *kept = geometry(n, hd_geometry_stride(n->k, buffer, axis));
    return *kept;
}

static LLVMTypeRef element_type(const nest *n, int buffer) {
    return hd_emit_stored_type(n->e, (hd_dtype)n->k->buffers[buffer].dtype);
}

/* ---- values ------------------------------------------------------------------------------------------------------------- */
static value operand(const nest *n, int step, bool vector) {
    if (!vector || is_vector(n, step)) return n->values[step];
    return n->splats[step] != NULL ? n->splats[step] : hd_emit_splat(n->e, n->values[step], n->k->width);
}

/* A scalar that vectors will meet is spread where it is computed, outside their loop. */
static void set_value(nest *n, int step, value v) {
    n->values[step] = v;
    n->splats[step] = n->met_by_vectors[step] && !is_vector(n, step) ? hd_emit_splat(n->e, v, n->k->width) : NULL;
}

static bool store_is_vector(const nest *n, const hd_step *s) {
    return n->k->axes > 0 && s->depth > n->k->lanes && n->k->buffers[s->index].stride[n->k->lanes] != HD_STRIDE_ZERO;
}

static void mark_splats(nest *n) {
    for (int i = 0; i < n->k->count; ++i) {
        const hd_step *s = &n->k->steps[i];
        const bool vector = s->word == HD_STEP_STORE    ? store_is_vector(n, s)
                            : s->word == HD_STEP_REDUCE ? lanes_reduced(n) || is_vector(n, i)
                                                        : s->word != HD_STEP_LOAD && is_vector(n, i);
        for (int j = 0; j < 3 && vector; ++j)
            if (s->operand[j] >= 0) n->met_by_vectors[s->operand[j]] = true;
    }
}

/* ---- groups of lanes ---------------------------------------------------------------------------------------------------- */
static value area_of(nest *n, const access *a) {
    value *area = &n->areas[a->store][a->step];
    if (*area == NULL) *area = hd_emit_stack(n->e, a->type, n->k->width, !a->store && !a->masked);
    return *area;
}

/* True for the lanes that exist. */
static value existing_lanes(const nest *n) {
    hd_emitter *e = n->e;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < n->k->width; ++i) lane[i] = hd_llvm.ConstInt(e->i32, (uint64_t)i, false);
    value count = hd_emit_splat(e, BUILD(Trunc, n->active, e->i32), n->k->width);
    return BUILD(ICmp, LLVMIntULT, hd_llvm.ConstVector(lane, n->k->width), count);
}

/* One loop over the lanes that exist, for all accesses of a kind. */
static void loop_over_lanes(nest *n, bool store, bool gathered) {
    hd_emitter *e = n->e;
    const int carried = e->carried_count; /* stays as it is */
    e->carried_count = 0;
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), n->active);
    for (int i = 0; i < n->access_count; ++i) {
        const access *a = &n->accesses[i];
        if (a->store != store || a->gathered != gathered || a->masked) continue;
        value place = gathered ? BUILD(Mul, loop.index, a->stride) : loop.index,
              outside = hd_emit_element(e, a->type, a->pointer, place),
              inside = hd_emit_element(e, a->type, a->area, loop.index);
        hd_emit_store(e, hd_emit_load(e, a->type, store ? inside : outside, a->bytes), store ? outside : inside,
                      a->bytes);
    }
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
}

/* Between their places and the stack. */
static void copy_lanes(nest *n, bool store, bool gathered) {
    hd_emitter *e = n->e;
    value mask = NULL;
    bool others = false;
    e->lanes = n->k->width;
    for (int i = 0; i < n->access_count; ++i) {
        const access *a = &n->accesses[i];
        if (a->store != store || a->gathered != gathered) continue;
        others = others || !a->masked;
        if (!a->masked) continue;
        if (mask == NULL) mask = existing_lanes(n);
        LLVMTypeRef type = hd_emit_type(e, a->type);
        if (store)
            hd_emit_masked_store(e, hd_emit_load(e, type, a->area, 64), a->pointer, a->bytes, mask);
        else
            hd_emit_store(e, hd_emit_masked_load(e, type, a->pointer, a->bytes, mask), a->area, 64);
    }
    if (others) loop_over_lanes(n, store, gathered);
}

static bool has_access(const nest *n, bool store, bool gathered) {
    for (int i = 0; i < n->access_count; ++i)
        if (n->accesses[i].store == store && n->accesses[i].gathered == gathered) return true;
    return false;
}

static void enter_group(nest *n) {
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
        access *a = &n->accesses[i];
        if (!a->gathered) a->used = hd_emit_phi(e, e->pointer, a->pointer, here, a->area, copied);
    }
}

static void leave_group(nest *n) {
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

static access *find_access(nest *n, int step, bool store) {
    for (int i = 0; i < n->access_count; ++i)
        if (n->accesses[i].step == step && n->accesses[i].store == store) return &n->accesses[i];
    return NULL;
}

static void add_access(nest *n, access a) {
    a.masked = !a.gathered && a.bytes >= n->e->least_masked;
    a.area = area_of(n, &a);
    a.used = a.area;
    n->accesses[n->access_count++] = a;
}

static unsigned slot_element_bytes(const hd_step *s) {
    static const uint8_t bytes[HD_COMPUTE_COUNT + 1] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 1};
    return bytes[s->type];
}
static LLVMTypeRef slot_element_type(const nest *n, const hd_step *s) {
    return s->type == HD_CONDITION ? n->e->i8 : n->e->types[s->type];
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */
static value slot_place(nest *n, const hd_step *s) {
    hd_emitter *e = n->e;
    if (n->slot_bytes == NULL) n->slot_bytes = geometry(n, hd_geometry_slot(n->k));
    value slot =
        hd_emit_offset(e, hd_llvm.GetParam(e->function, 3), BUILD(Mul, n->slot_bytes, hd_emit_i64(e, s->slot - 1)));
    return hd_emit_element(e, slot_element_type(n, s), slot, n->linear);
}

/* Where lanes are read or written together; false for those whose places are only known inside the body. */
static bool describe_access(nest *n, int step, access *out) {
    const hd_step *s = &n->k->steps[step];
    const bool store = s->word == HD_STEP_STORE;
    *out = (access){.step = step, .store = store, .type = element_type(n, s->index)};
    out->bytes = hd_dtype_bytes[n->k->buffers[s->index].dtype];
    const uint8_t stride = n->k->buffers[s->index].stride[n->k->lanes];
    out->gathered = stride != HD_STRIDE_ONE;
    out->pointer = n->pointers[s->index];
    out->stride = stride_of(n, s->index, n->k->lanes);
    if (store || s->operand[0] < 0) return true;
    const hd_step *place = &n->k->steps[s->operand[0]];
    if (is_vector(n, s->operand[0]) || (place->depth == s->depth && place->stage == s->stage)) return false;
    out->pointer = hd_emit_element(n->e, out->type, out->pointer, n->values[s->operand[0]]);
    return true;
}

static void add_slot_access(nest *n, int step, bool store) {
    const hd_step *s = &n->k->steps[step];
    add_access(n, (access){.step = step,
                           .store = store,
                           .type = slot_element_type(n, s),
                           .bytes = slot_element_bytes(s),
                           .pointer = slot_place(n, s)});
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */
/* Elements at places that differ from lane to lane. */
static value gather(nest *n, int step) {
    hd_emitter *e = n->e;
    access a;
    describe_access(n, step, &a);
    a.area = area_of(n, &a);
    const int from = n->k->steps[step].operand[0], carried = e->carried_count;
    const bool vector = is_vector(n, from);
    value places = vector ? hd_emit_stack(e, e->i64, n->k->width, false) : NULL;
    if (vector) hd_emit_store(e, n->values[from], places, 8);
    e->carried_count = 0;
    hd_emitted_loop loop = hd_emit_loop(e, hd_emit_i64(e, 0), n->active);
    value place = vector ? hd_emit_load(e, e->i64, hd_emit_element(e, e->i64, places, loop.index), 8) : n->values[from];
    place = BUILD(Add, place, BUILD(Mul, loop.index, a.stride));
    value v = hd_emit_load(e, a.type, hd_emit_element(e, a.type, a.pointer, place), a.bytes);
    hd_emit_store(e, v, hd_emit_element(e, a.type, a.area, loop.index), a.bytes);
    hd_emit_loop_end(e, &loop, 1);
    e->carried_count = carried;
    return hd_emit_load(e, hd_emit_type(e, a.type), a.area, a.bytes);
}

static value emit_load_step(nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const hd_dtype dtype = (hd_dtype)n->k->buffers[s->index].dtype;
    LLVMTypeRef type = element_type(n, s->index);
    if (is_vector(n, step)) {
        const access *a = find_access(n, step, false);
        value raw = a == NULL ? gather(n, step) : hd_emit_load(e, hd_emit_type(e, type), a->used, a->bytes);
        return hd_emit_decode(e, raw, dtype);
    }
    value at = n->pointers[s->index];
    if (s->operand[0] >= 0) at = hd_emit_element(e, type, at, n->values[s->operand[0]]);
    return hd_emit_decode(e, hd_emit_load(e, type, at, hd_dtype_bytes[dtype]), dtype);
}

static value emit_index_step(nest *n, int step) {
    hd_emitter *e = n->e;
    const int axis = n->k->steps[step].index;
    value at = BUILD(Add, n->index[axis], geometry(n, hd_geometry_base(n->k, axis)));
    if (!is_vector(n, step)) return at;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < n->k->width; ++i) lane[i] = hd_emit_i64(e, i);
    return BUILD(Add, hd_emit_splat(e, at, n->k->width), hd_llvm.ConstVector(lane, n->k->width));
}

static value emit_slot_load(nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const access *a = find_access(n, step, false);
    LLVMTypeRef type = hd_emit_type(e, slot_element_type(n, s));
    value v = hd_emit_load(e, type, a != NULL ? a->used : slot_place(n, s), slot_element_bytes(s));
    return s->type == HD_CONDITION ? BUILD(Trunc, v, hd_emit_type(e, e->types[HD_CONDITION])) : v;
}

static void emit_slot_store(nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const access *a = find_access(n, step, true);
    value v = n->values[step];
    if (s->type == HD_CONDITION) v = BUILD(ZExt, v, hd_emit_type(e, e->i8));
    hd_emit_store(e, v, a != NULL ? a->used : slot_place(n, s), slot_element_bytes(s));
}

static void emit_step(nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const bool vector = is_vector(n, step);
    e->lanes = vector ? n->k->width : 1;
    if (s->depth > n->k->kept && n->here[step] == FROM_SLOT) {
        set_value(n, step, emit_slot_load(n, step));
        return;
    }
    value o[3] = {NULL, NULL, NULL};
    for (int j = 0; j < 3; ++j)
        if (s->operand[j] >= 0) o[j] = operand(n, s->operand[j], vector && s->word != HD_STEP_LOAD);
    value v;
    switch (s->word) {
    case HD_WORD_CONSTANT: v = hd_emit_constant(e, s->type, s->value); break;
    case HD_WORD_NUMBER: v = hd_emit_argument(e, 2, s->index, e->types[s->type]); break;
    case HD_STEP_LOAD: v = emit_load_step(n, step); break;
    case HD_STEP_INDEX: v = emit_index_step(n, step); break;
    case HD_STEP_CAST: v = hd_emit_cast(e, o[0], n->k->steps[s->operand[0]].type, s->type); break;
    case HD_STEP_ROUND: v = hd_emit_decode(e, hd_emit_encode(e, o[0], (hd_dtype)s->index), (hd_dtype)s->index); break;
    default: v = hd_emit_word(e, s->word, n->k->steps[s->operand[s->word == HD_WORD_SELECT]].type, o);
    }
    set_value(n, step, v);
    if (s->slot != 0 && n->stage == s->stage && s->depth > n->k->kept) emit_slot_store(n, step);
}

static void emit_store_step(nest *n, int step) {
    hd_emitter *e = n->e;
    const hd_step *s = &n->k->steps[step];
    const hd_dtype dtype = (hd_dtype)n->k->buffers[s->index].dtype;
    const bool vector = store_is_vector(n, s);
    const access *a = find_access(n, step, true);
    value v = operand(n, s->operand[0], vector), at = vector ? a->used : n->pointers[s->index];
    if (!vector && is_vector(n, s->operand[0])) /* all lanes at one place: the last stays */
        v = BUILD(ExtractElement, v, BUILD(Sub, n->active, hd_emit_i64(e, 1)));
    e->lanes = vector ? n->k->width : 1;
    hd_emit_store(e, hd_emit_encode(e, v, dtype), at, hd_dtype_bytes[dtype]);
}

/* ---- bodies: the steps of one depth --------------------------------------------------------------------------------------- */
static bool belongs(const nest *n, int step, int depth) {
    const hd_step *s = &n->k->steps[step];
    if (s->word == HD_STEP_REDUCE || s->depth != depth) return false;
    if (depth <= n->k->kept) return s->stage == (n->stage < 0 ? 0 : n->stage);
    if (s->word == HD_STEP_STORE) return s->stage == n->stage;
    return n->here[step] != NOT_HERE;
}

static void collect_accesses(nest *n, int depth) {
    n->access_count = 0;
    if (!n->in_lanes) return;
    for (int i = 0; i < n->k->count; ++i) {
        const hd_step *s = &n->k->steps[i];
        access a;
        if (!belongs(n, i, depth)) continue;
        const bool from_slot = depth > n->k->kept && n->here[i] == FROM_SLOT;
        if (from_slot && is_vector(n, i)) add_slot_access(n, i, false);
        if (s->slot != 0 && s->stage == n->stage && is_vector(n, i)) add_slot_access(n, i, true);
        if (!from_slot && s->word == HD_STEP_LOAD && is_vector(n, i) && describe_access(n, i, &a)) add_access(n, a);
        if (s->word == HD_STEP_STORE && store_is_vector(n, s) && describe_access(n, i, &a)) add_access(n, a);
    }
}

/* All loads of a point come before its stores: an output may lie where an input does. */
static void emit_steps(nest *n, int depth) {
    collect_accesses(n, depth);
    enter_group(n);
    for (int i = 0; i < n->k->count; ++i)
        if (n->k->steps[i].word != HD_STEP_STORE && belongs(n, i, depth)) emit_step(n, i);
    for (int i = 0; i < n->k->count; ++i)
        if (n->k->steps[i].word == HD_STEP_STORE && belongs(n, i, depth)) emit_store_step(n, i);
    leave_group(n);
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------ */
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
static value fold(hd_emitter *e, const hd_step *s, int type, value v, value running) {
    value o[3] = {v, running, NULL};
    return hd_emit_word(e, fold_words[s->index], type, o);
}

/* All lanes of a vector as one, by halves. */
static value across(nest *n, const hd_step *s, value v) {
    hd_emitter *e = n->e;
    value lane[HD_EMIT_LANES];
    for (int i = 0; i < n->k->width; ++i) lane[i] = hd_llvm.ConstInt(e->i32, (uint64_t)i, false);
    for (int half = n->k->width / 2; half > 0; half /= 2) {
        value none = hd_llvm.GetPoison(hd_llvm.TypeOf(v));
        value low = BUILD(ShuffleVector, v, none, hd_llvm.ConstVector(lane, (unsigned)half)),
              high = BUILD(ShuffleVector, v, none, hd_llvm.ConstVector(lane + half, (unsigned)half));
        e->lanes = half;
        v = fold(e, s, s->type, low, high);
    }
    e->lanes = 1;
    return BUILD(ExtractElement, v, hd_llvm.ConstInt(e->i32, 0, false));
}

static bool runs_in_lanes(const nest *n, int step) { return lanes_reduced(n) || is_vector(n, step); }

static void begin_reductions(nest *n) {
    hd_emitter *e = n->e;
    n->reduction_count = 0;
    e->carried_count = 0;
    n->pending = -1;
    n->blocks = false;
    for (int i = 0; i < n->k->count; ++i) {
        const hd_step *s = &n->k->steps[i];
        if (s->word != HD_STEP_REDUCE || s->stage != n->stage + 1) continue;
        reduction r = {.step = i, .running = e->carried_count, .total = -1};
        e->lanes = runs_in_lanes(n, i) ? n->k->width : 1;
        e->carried[e->carried_count++] = identity(e, s->index, s->type);
        if (is_wide(s)) {
            if (lanes_reduced(n)) e->lanes = 1;
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
static void fold_blocks(nest *n) {
    hd_emitter *e = n->e;
    for (int i = 0; i < n->reduction_count; ++i) {
        const reduction *r = &n->reductions[i];
        const hd_step *s = &n->k->steps[r->step];
        if (r->total < 0) continue;
        value v = e->carried[r->running];
        if (lanes_reduced(n)) v = across(n, s, v);
        e->lanes = !lanes_reduced(n) && is_vector(n, r->step) ? n->k->width : 1;
        v = BUILD(FPExt, v, hd_emit_type(e, e->types[HD_COMPUTE_F64]));
        e->carried[r->total] = fold(e, s, HD_COMPUTE_F64, v, e->carried[r->total]);
        e->lanes = runs_in_lanes(n, r->step) ? n->k->width : 1;
        e->carried[r->running] = identity(e, s->index, s->type);
    }
    if (n->pending >= 0) e->carried[n->pending] = hd_emit_i64(e, 0);
}

/* After a stretch of the innermost axis: enough for a block? */
static void fold_blocks_when_due(nest *n, value stretch, int block) {
    hd_emitter *e = n->e;
    e->carried[n->pending] = BUILD(NSWAdd, e->carried[n->pending], stretch);
    value due = BUILD(ICmp, LLVMIntSGE, e->carried[n->pending], hd_emit_i64(e, block));
    LLVMBasicBlockRef here = hd_emit_here(e), folding = hd_emit_block(e, "block"), done = hd_emit_block(e, "folded");
    value *before = n->before;
    memcpy(before, e->carried, (size_t)e->carried_count * sizeof *before);
    hd_llvm.BuildCondBr(e->builder, due, folding, done);
    hd_emit_at(e, folding);
    fold_blocks(n);
    LLVMBasicBlockRef folded = hd_emit_here(e);
    hd_llvm.BuildBr(e->builder, done);
    hd_emit_at(e, done);
    for (int i = 0; i < e->carried_count; ++i)
        if (before[i] != e->carried[i])
            e->carried[i] = hd_emit_phi(e, hd_llvm.TypeOf(before[i]), before[i], here, e->carried[i], folded);
}

/* Lanes behind the end keep what they had. */
static void restore_idle_lanes(nest *n) {
    hd_emitter *e = n->e;
    const value *before = n->before;
    LLVMBasicBlockRef here = hd_emit_here(e), partial = hd_emit_block(e, "partial"), done = hd_emit_block(e, "reduced");
    hd_llvm.BuildCondBr(e->builder, n->full, done, partial);
    hd_emit_at(e, partial);
    value exists = existing_lanes(n), *fixed = n->fixed;
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

static void accumulate(nest *n) {
    hd_emitter *e = n->e;
    if (n->reduction_count == 0) return;
    memcpy(n->before, e->carried, (size_t)e->carried_count * sizeof *n->before);
    for (int i = 0; i < n->reduction_count; ++i) {
        const reduction *r = &n->reductions[i];
        const hd_step *s = &n->k->steps[r->step];
        const bool vector = runs_in_lanes(n, r->step);
        e->lanes = vector ? n->k->width : 1;
        e->carried[r->running] = fold(e, s, s->type, operand(n, s->operand[0], vector), e->carried[r->running]);
    }
    if (lanes_reduced(n)) restore_idle_lanes(n);
}

static void finish_reductions(nest *n) {
    hd_emitter *e = n->e;
    if (n->blocks && n->k->axes - n->k->kept != 1) fold_blocks(n);
    for (int i = 0; i < n->reduction_count; ++i) {
        const reduction *r = &n->reductions[i];
        const hd_step *s = &n->k->steps[r->step];
        value v = e->carried[r->total >= 0 ? r->total : r->running];
        if (r->total < 0 && lanes_reduced(n)) v = across(n, s, v);
        e->lanes = is_vector(n, r->step) ? n->k->width : 1;
        if (r->total >= 0) v = BUILD(FPTrunc, v, hd_emit_type(e, e->types[HD_COMPUTE_F32]));
        set_value(n, r->step, v);
    }
    e->carried_count = 0;
}

/* ---- loops -------------------------------------------------------------------------------------------------------------- */
typedef struct saved_place {
    value pointers[HD_KERNEL_BUFFERS], linear;
    hd_emitted_loop loop;
} saved_place;

static void enter_axis(nest *n, int axis, value start, value limit, saved_place *saved) {
    hd_emitter *e = n->e;
    memcpy(saved->pointers, n->pointers, sizeof saved->pointers);
    saved->linear = n->linear;
    saved->loop = hd_emit_loop(e, start, limit);
    n->index[axis] = saved->loop.index;
    for (int b = 0; b < n->k->buffer_count; ++b) {
        if ((n->touched >> b & 1) == 0 || n->k->buffers[b].stride[axis] == HD_STRIDE_ZERO) continue;
        value step = n->k->buffers[b].stride[axis] == HD_STRIDE_ONE
                         ? n->index[axis]
                         : BUILD(NSWMul, n->index[axis], stride_of(n, b, axis));
        n->pointers[b] = hd_emit_element(e, element_type(n, b), n->pointers[b], step);
    }
    if (axis >= n->k->kept && n->k->slots > 0)
        n->linear = axis == n->k->kept ? n->index[axis]
                                       : BUILD(NSWAdd, BUILD(NSWMul, n->linear, n->sizes[axis]), n->index[axis]);
    if (axis != n->k->lanes) return;
    value rest = BUILD(Sub, n->sizes[axis], n->index[axis]), width = hd_emit_i64(e, n->k->width);
    n->full = BUILD(ICmp, LLVMIntSGE, rest, width);
    n->active = BUILD(Select, n->full, width, rest);
    n->in_lanes = true;
}

static void leave_axis(nest *n, int axis, const saved_place *saved) {
    hd_emit_loop_end(n->e, &saved->loop, axis == n->k->lanes ? n->k->width : 1);
    memcpy(n->pointers, saved->pointers, sizeof saved->pointers);
    n->linear = saved->linear;
    if (axis == n->k->lanes) n->in_lanes = false;
}

static void walk_axis(nest *n, int axis);

static void walk_stretch(nest *n, int axis, value start, value limit) {
    saved_place saved;
    enter_axis(n, axis, start, limit, &saved);
    emit_steps(n, axis + 1);
    if (axis + 1 < n->k->axes)
        walk_axis(n, axis + 1);
    else
        accumulate(n);
    leave_axis(n, axis, &saved);
}

/* One reduced axis and those inside it; the innermost in stretches, when there are blocks. */
static void walk_axis(nest *n, int axis) {
    hd_emitter *e = n->e;
    value zero = hd_emit_i64(e, 0), size = n->sizes[axis];
    if (axis + 1 < n->k->axes || !n->blocks) {
        walk_stretch(n, axis, zero, size);
        return;
    }
    const int most = axis == n->k->lanes ? BLOCK_ELEMENTS : BLOCK_ROWS, block = n->pending < 0 ? most : most / 2;
    hd_emitted_loop stretches = hd_emit_loop(e, zero, size);
    value end = BUILD(NSWAdd, stretches.index, hd_emit_i64(e, block));
    value limit = BUILD(Select, BUILD(ICmp, LLVMIntSLT, end, size), end, size);
    walk_stretch(n, axis, stretches.index, limit);
    if (n->pending < 0)
        fold_blocks(n);
    else
        fold_blocks_when_due(n, BUILD(Sub, limit, stretches.index), block);
    hd_emit_loop_end(e, &stretches, (uint64_t)block);
}

/* What this walk computes inside the reduced axes, and which buffers it looks at. */
static void plan_walk(nest *n) {
    const hd_kernel *k = n->k;
    n->touched = 0;
    memset(n->here, NOT_HERE, (size_t)k->count);
    for (int i = k->count; i-- > 0;) {
        const hd_step *s = &k->steps[i];
        const bool ends = s->word == HD_STEP_REDUCE  ? s->stage == n->stage + 1
                          : s->word == HD_STEP_STORE ? s->depth > k->kept && s->stage == n->stage
                                                     : s->slot != 0 && s->stage == n->stage;
        if (!ends && n->here[i] == NOT_HERE) continue;
        if (s->word != HD_STEP_REDUCE && s->word != HD_STEP_STORE) {
            n->here[i] = s->slot != 0 && s->stage < n->stage ? FROM_SLOT : COMPUTED;
            if (n->here[i] == FROM_SLOT) continue;
        }
        if (s->word == HD_STEP_LOAD || s->word == HD_STEP_STORE) n->touched |= (uint64_t)1 << s->index;
        for (int j = 0; j < 3; ++j)
            if (s->operand[j] >= 0 && k->steps[s->operand[j]].depth > k->kept) n->here[s->operand[j]] = COMPUTED;
    }
}

static void walk_reduced_axes(nest *n, int stage) {
    n->stage = stage;
    plan_walk(n);
    begin_reductions(n);
    if (n->k->axes > n->k->kept)
        walk_axis(n, n->k->kept);
    else
        accumulate(n);
    finish_reductions(n);
    n->stage = stage + 1;
}

static void walk_kept_axes(nest *n, int depth) {
    n->stage = -1;
    emit_steps(n, depth);
    if (depth < n->k->kept) {
        saved_place saved;
        enter_axis(n, depth, hd_emit_i64(n->e, 0), n->sizes[depth], &saved);
        walk_kept_axes(n, depth + 1);
        leave_axis(n, depth, &saved);
        return;
    }
    for (int stage = 0; stage < n->k->stages; ++stage) {
        walk_reduced_axes(n, stage);
        emit_steps(n, depth);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------------------------------------ */
static void begin_function(nest *n) {
    hd_emitter *e = n->e;
    e->entry = hd_emit_block(e, "entry");
    LLVMBasicBlockRef begin = hd_emit_block(e, "begin");
    hd_emit_at(e, e->entry);
    hd_llvm.BuildBr(e->builder, begin);
    hd_emit_at(e, begin);
    for (int a = 0; a < n->k->axes; ++a) n->sizes[a] = geometry(n, a);
    for (int b = 0; b < n->k->buffer_count; ++b) n->pointers[b] = hd_emit_argument(e, 0, b, e->pointer);
    n->touched = UINT64_MAX;
}

/* Room for everything that is as long as the kernel, in one piece. */
static bool make_room(nest *n, size_t count) {
    value *values = hd_array_resize(NULL, count * 10 * sizeof *values);
    n->values = values;
    n->accesses = hd_array_resize(NULL, count * 2 * sizeof *n->accesses);
    n->reductions = hd_array_resize(NULL, count * sizeof *n->reductions);
    n->met_by_vectors = hd_array_resize(NULL, count);
    n->here = hd_array_resize(NULL, count);
    if (values == NULL || n->accesses == NULL || n->reductions == NULL || n->met_by_vectors == NULL || n->here == NULL)
        return false;
    memset(values, 0, count * 10 * sizeof *values);
    memset(n->met_by_vectors, 0, count);
    memset(n->here, NOT_HERE, count);
    n->splats = values + count;
    n->areas[0] = values + 2 * count;
    n->areas[1] = values + 3 * count;
    n->before = values + 4 * count;
    n->fixed = values + 6 * count;
    n->e->carried = values + 8 * count;
    return true;
}

hd_error hd_emit_kernel(hd_emitter *e) {
    nest n = {.e = e, .k = e->k, .stage = -1, .pending = -1};
    if (make_room(&n, (size_t)e->k->count + 1)) {
        mark_splats(&n);
        begin_function(&n);
        walk_kept_axes(&n, 0);
        hd_llvm.BuildRetVoid(e->builder);
    } else {
        e->status = hd_fail(HD_ERROR_MEMORY, "no memory to compile a kernel of %d steps", e->k->count);
    }
    hd_array_release(n.values);
    hd_array_release(n.accesses);
    hd_array_release(n.reductions);
    hd_array_release(n.met_by_vectors);
    hd_array_release(n.here);
    return e->status;
}
#endif
