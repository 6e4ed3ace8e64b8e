/* A kernel while it is emitted as LLVM IR: where every value is, and where in the loops the emitter stands. */
#ifndef HD_CODEGEN_LLVM_NEST_H
#define HD_CODEGEN_LLVM_NEST_H

#include "codegen/llvm_emit.h"

/* Elements of the lanes of one group. */
typedef struct hd_nest_access {
    int step;
    bool store, gathered;
    bool masked;      /* the machine can read or write just the lanes that exist */
    LLVMTypeRef type; /* of an element as it lies there */
    unsigned bytes;
    LLVMValueRef pointer, stride; /* of the first lane; in elements */
    LLVMValueRef area;            /* on the stack */
    LLVMValueRef used;            /* where the body reads or writes */
} hd_nest_access;

typedef struct hd_nest_reduction {
    int step;
    int running, total; /* among what is carried; total is -1 when there is none */
} hd_nest_reduction;

enum { HD_NEST_NOT_HERE, HD_NEST_COMPUTED, HD_NEST_FROM_SLOT };

typedef struct hd_nest {
    hd_emitter *e;
    const hd_kernel *k;
    LLVMValueRef *values, *splats;
    bool *met_by_vectors;         /* of each step */
    uint8_t *here;                /* of each step inside the reduced axes: what this walk does about it */
    LLVMValueRef *before, *fixed; /* room to compare what is carried */
    LLVMValueRef *areas[2];
    hd_nest_access *accesses;
    int access_count;
    hd_nest_reduction *reductions;
    int reduction_count;
    bool blocks; /* some go to f64 in blocks */
    int pending; /* over several axes: where elements since the last block are carried; else -1 */
    LLVMValueRef sizes[HD_KERNEL_AXES], index[HD_KERNEL_AXES], pointers[HD_KERNEL_BUFFERS];
    LLVMValueRef strides[HD_KERNEL_BUFFERS][HD_KERNEL_AXES];
    uint64_t touched; /* bits of the buffers whose places matter inside the loops being emitted */
    bool in_lanes;    /* inside the loop over groups */
    LLVMValueRef full, active;
    LLVMValueRef linear, slot_bytes;
    int stage; /* of the walk; -1 outside */
} hd_nest;

/* A value that differs between lanes. */
static inline bool hd_nest_is_vector(const hd_nest *n, int step) {
    return n->k->steps[step].over >> n->k->schedule.lanes & 1;
}
/* A step inside the reduced axes that the next walk does. */
static inline bool hd_nest_stores_next(const hd_nest *n, const hd_step *s) {
    return n->stage >= 1 && s->depth > n->k->kept && s->stage == n->stage + 1;
}
static inline bool hd_nest_lanes_reduced(const hd_nest *n) { return n->k->schedule.form == HD_SCHEDULE_ROWS; }

/* ---- llvm_groups.c: the lanes of a group, read and written around a body ----------------------------------------- */
/* True for the lanes that exist. */
LLVMValueRef hd_nest_existing_lanes(const hd_nest *n);
LLVMValueRef hd_nest_area(hd_nest *n, const hd_nest_access *a);
void hd_nest_add_access(hd_nest *n, hd_nest_access a);
hd_nest_access *hd_nest_find_access(hd_nest *n, int step, bool store);
void hd_nest_enter_group(hd_nest *n);
void hd_nest_leave_group(hd_nest *n);

/* ---- llvm_steps.c: the steps of one depth ------------------------------------------------------------------------ */
LLVMValueRef hd_nest_geometry(const hd_nest *n, int index);
LLVMValueRef hd_nest_stride(hd_nest *n, int buffer, int axis);
LLVMTypeRef hd_nest_element_type(const hd_nest *n, int buffer);
LLVMValueRef hd_nest_operand(const hd_nest *n, int step, bool vector);
void hd_nest_set_value(hd_nest *n, int step, LLVMValueRef v);
/* Which scalars vectors will meet. */
void hd_nest_mark_splats(hd_nest *n);
/* All loads of a point come before its stores: an output may lie where an input does. */
void hd_nest_emit_steps(hd_nest *n, int depth);

/* The position along an axis: of all lanes, when it is theirs and `vector` says so. */
LLVMValueRef hd_nest_position(hd_nest *n, int axis, bool vector);

/* ---- llvm_draw.c ------------------------------------------------------------------------------------------------- */
LLVMValueRef hd_nest_draw(hd_nest *n, int step);

/* ---- llvm_reduce.c: reductions, in the making (e->carried) and finished ------------------------------------------ */
void hd_nest_begin_reductions(hd_nest *n);
void hd_nest_accumulate(hd_nest *n);
/* Running f32 sums and products go to their f64 totals. */
void hd_nest_fold_blocks(hd_nest *n);
/* After a stretch of the innermost axis: enough for a block? */
void hd_nest_fold_blocks_when_due(hd_nest *n, LLVMValueRef stretch, int block);
void hd_nest_finish_reductions(hd_nest *n);

#endif
