/* Ops on a GPU, one call at a time: a call is a graph of one node, which is fused and lowered as those of scripts
 * are. What comes of it is kept by the call's signature: op, attributes, dtypes, shapes and strides. */
#include "codegen/dump.h"
#include "core/os.h"
#include "core/hash.h"
#include "machine/gpu.h"

#include <pthread.h>
#include <string.h>

enum { SIGNATURE_MOST = 2048, SIGNATURES = 4096 };

/* ---- what is known of calls of one signature
 * ---------------------------------------------------------------------- */
typedef struct prepared {
    struct prepared *next;
    uint64_t hash;
    size_t signature_bytes;
    bool is_kernel; /* else no kernel can say it */
    hd_lowered lowered;
    hd_gpu_kernel_code code;
    int16_t operand[HD_KERNEL_BUFFERS]; /* of each buffer: which input it is; -1: the output */
    char *signature;
} prepared;

struct hd_gpu_eager {
    pthread_mutex_t lock;
    prepared *calls[SIGNATURES];
    int count;
};

static void release_prepared(prepared *p) {
    if (p->is_kernel) hd_native_release(&p->lowered.native);
    hd_array_release(p->signature);
    hd_array_release(p);
}

/* ---- signatures
 * --------------------------------------------------------------------------------------------------- */
typedef struct signature {
    char bytes[SIGNATURE_MOST];
    size_t count;
    bool fits;
} signature;

static void sign(signature *s, const void *bytes, size_t count) {
    s->fits = s->fits && count <= sizeof s->bytes - s->count;
    if (!s->fits) return;
    memcpy(s->bytes + s->count, bytes, count);
    s->count += count;
}

static void sign_number(signature *s, int64_t n) { sign(s, &n, sizeof n); }

/* Where a tensor begins counts only as far as several elements can be read at once. */
static bool is_aligned(const hd_tensor *t) { return (size_t)t->layout.offset * hd_dtype_bytes[t->dtype] % 16 == 0; }

/* A number is a number of the kernel of a row; elsewhere, and where it is stretched, it is an operand, and so is an
 * integer that f64 does not hold. */
static bool is_written_out(const hd_call *call, const hd_tensor *t) {
    if (!hd_tensor_is_number(t) || t->layout.shape.rank != 0 || call->op->lower != HD_LOWER_ROW) return false;
    const hd_dtype dtype = (hd_dtype)t->dtype;
    if (dtype != HD_I64 && dtype != HD_U64) return true;
    const double value = hd_element_to_f64(t->storage->data, dtype);
    return value > -0x1p53 && value < 0x1p53;
}
static void sign_call(signature *s, const hd_call *call) {
    char attributes[HD_ATTRIBUTES_MOST];
    size_t bytes = 0;
    s->count = 0;
    s->fits = true;
    sign_number(s, call->op->id);
    sign_number(s, call->op->derivative);
    sign_number(s, (int64_t)call->dtype[0]);
    sign_number(s, call->shape[0].rank);
    sign(s, call->shape[0].size, sizeof(int64_t) * (size_t)call->shape[0].rank);
    hd_attribute_fields(call->op->id, &bytes);
    if (call->attributes != NULL && call->op->derivative == 0) {
        hd_attributes_normalise(call->op->id, call->attributes, attributes);
        if (call->op->family == HD_FAMILY_RANDOM) { /* which draw it is, is no part of it */
            ((hd_random_attributes *)(void *)attributes)->seed = 0;
            ((hd_random_attributes *)(void *)attributes)->draw = 0;
        }
        sign(s, attributes, bytes);
    } else if (call->attributes != NULL) {
        sign(s, call->attributes, call->op->attribute_bytes);
    }
    if (call->given && !call->outputs[0]->contiguous)
        sign(s, call->outputs[0]->layout.stride, sizeof(int64_t) * (size_t)call->shape[0].rank);
    if (call->given) sign_number(s, is_aligned(call->outputs[0]));
    for (int i = 0; i < call->input_count; ++i) {
        const hd_tensor *t = call->inputs[i];
        sign_number(s, t->dtype);
        const bool written_out = is_written_out(call, t);
        sign_number(s, hd_tensor_is_number(t) + 2 * is_aligned(t) + 4 * written_out);
        if (written_out) sign(s, t->storage->data, hd_dtype_bytes[t->dtype]);
        sign_number(s, t->layout.shape.rank);
        sign(s, t->layout.shape.size, sizeof(int64_t) * (size_t)t->layout.shape.rank);
        sign(s, t->layout.stride, sizeof(int64_t) * (size_t)t->layout.shape.rank);
    }
}

/* ---- a call as a kernel
 * ------------------------------------------------------------------------------------------- */
static uint32_t input_node(hd_graph *g, const hd_call *call, int i) {
    const hd_tensor *t = call->inputs[i];
    const char name[2] = {(char)('a' + i), '\0'};
    if (!is_written_out(call, t)) return hd_graph_add_input(g, name, (hd_dtype)t->dtype, &t->layout.shape);
    const hd_full_attributes value = {hd_element_to_f64(t->storage->data, (hd_dtype)t->dtype)};
    return hd_graph_add(g, HD_OP_full, 0, NULL, 0, (hd_dtype)t->dtype, &t->layout.shape, &value);
}

/* The node of the call; HD_NO_NODE with an error. What is only moved is cast to what it is. A draw alone would be a
 * call: what reads it draws it. */
static uint32_t call_node(hd_graph *g, const hd_call *call, uint32_t *inputs) {
    hd_random_attributes draw;
    const void *attributes = call->attributes;
    for (int i = 0; i < call->input_count; ++i)
        if ((inputs[i] = input_node(g, call, i)) == HD_NO_NODE) return HD_NO_NODE;
    if (call->op->family == HD_FAMILY_RANDOM) {
        draw = *(const hd_random_attributes *)attributes;
        draw.seed = draw.draw = 0;
        attributes = &draw;
        g->draws = 1;
    }
    const hd_cast_attributes same = {call->dtype[0]};
    if (call->op->id == HD_OP_contiguous && call->op->family == HD_FAMILY_MOVE)
        return hd_graph_add(g, HD_OP_cast, 0, inputs, 1, call->dtype[0], &call->shape[0], &same);
    uint32_t node = hd_graph_add(g, call->op->id, call->op->derivative, inputs, call->input_count, call->dtype[0],
                                 &call->shape[0], attributes);
    if (node != HD_NO_NODE && hd_lower_is_draw(call->op->lower))
        node = hd_graph_add(g, HD_OP_cast, 0, &node, 1, call->dtype[0], &call->shape[0], &same);
    return node;
}

static void set_header(hd_tensor *t, hd_dtype dtype, const hd_layout *layout) {
    memset(t, 0, sizeof *t);
    t->dtype = (uint8_t)dtype;
    t->layout = *layout;
    t->count = hd_shape_count(layout->shape);
    t->contiguous = hd_layout_is_contiguous(layout);
}

/* Which operand each buffer is; false: it reads something else. */
static bool find_operands(prepared *p, const hd_call *call, const uint32_t *inputs, uint32_t node) {
    for (int b = 0; b < p->lowered.native.shape.buffer_count; ++b) {
        p->operand[b] = p->lowered.nodes[b] == node ? -1 : INT16_MAX;
        for (int i = 0; i < call->input_count; ++i)
            if (p->lowered.nodes[b] == inputs[i]) p->operand[b] = (int16_t)i;
        if (p->operand[b] == INT16_MAX) return false;
    }
    return true;
}

static hd_error lower_call(const hd_graph *g, const hd_fusion *f, const hd_call *call, const uint32_t *inputs,
                           uint32_t node, prepared *p, bool *lowered) {
    const uint32_t group = f->group_of[node];
    if (group == HD_NO_GROUP || f->groups[group].kind != HD_GROUP_KERNEL) return HD_OK;
    hd_tensor *tensors = hd_array_resize(NULL, (size_t)g->node_count * sizeof *tensors);
    if (tensors == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the kernel of a call");
    for (uint32_t i = 0; i < g->node_count; ++i) {
        hd_layout layout;
        const hd_shape shape = hd_node_shape(g, i);
        hd_layout_contiguous(&layout, &shape);
        for (int k = 0; k < call->input_count; ++k)
            if (inputs[k] == i) layout = call->inputs[k]->layout;
        if (i == node && call->given) layout = call->outputs[0]->layout;
        set_header(&tensors[i], (hd_dtype)g->nodes[i].dtype, &layout);
    }
    hd_lowering lowering;
    hd_error status = hd_lowering_begin(&lowering, g, f, tensors);
    if (status == HD_OK) status = hd_lower(&lowering, &f->groups[group], &p->lowered);
    hd_lowering_end(&lowering);
    hd_array_release(tensors);
    if (status != HD_OK) return status;
    *lowered = find_operands(p, call, inputs, node);
    if (!*lowered) hd_native_release(&p->lowered.native);
    return HD_OK;
}

/* ---- preparing
 * ---------------------------------------------------------------------------------------------------- */
static int alignment_of(const hd_call *call) {
    if (call->given && !is_aligned(call->outputs[0])) return 1;
    for (int i = 0; i < call->input_count; ++i)
        if (!is_aligned(call->inputs[i])) return 1;
    return 16;
}

static hd_error prepare(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, prepared *p) {
    uint32_t inputs[HD_MAX_INPUTS];
    bool lowered = false;
    if (call->output_count != 1) return HD_OK;
    hd_graph *g = hd_graph_new(thread, "call");
    if (g == NULL) return thread->error_code;
    g->guarded = true; /* gpu_calls.c looks first */
    const uint32_t node = call_node(g, call, inputs);
    hd_error status = node == HD_NO_NODE ? thread->error_code : hd_graph_add_output(g, "y", node);
    if (status == HD_OK) {
        hd_fusion f = {.group_of = NULL};
        status = hd_fuse(&d->machine, g, HD_O2, (hd_fuse_choice){.most_members = 0}, &f);
        if (status == HD_OK) status = lower_call(g, &f, call, inputs, node, p, &lowered);
        hd_fusion_release(&f);
    }
    hd_graph_release(thread, g);
    if (status != HD_OK || !lowered) return status;
    const hd_native *n = &p->lowered.native;
    p->is_kernel = hd_gpu_choose_grid(d, n, alignment_of(call), &p->code);
    if (!p->is_kernel) hd_native_release(&p->lowered.native);
    return p->is_kernel ? hd_gpu_compile_kernels(d, &n, &p->code, 1) : HD_OK;
}

/* Numbers are part of signatures: those of a schedule come once each. So now and then all is forgotten. */
static void forget_calls(hd_gpu_eager *e) {
    for (int i = 0; i < SIGNATURES; ++i)
        while (e->calls[i] != NULL) {
            prepared *p = e->calls[i];
            e->calls[i] = p->next;
            release_prepared(p);
        }
    e->count = 0;
}

/* What is known of such calls, now or from before; NULL with an error. Under the lock. */
static const prepared *look_up_call(hd_thread *thread, const hd_gpu_device *d, hd_gpu_eager *e, const hd_call *call,
                                    const signature *s) {
    const uint64_t hash = hd_hash(s->bytes, s->count, 0);
    prepared **at = &e->calls[hash % SIGNATURES];
    for (prepared *p = *at; p != NULL; p = p->next)
        if (p->hash == hash && p->signature_bytes == s->count && memcmp(p->signature, s->bytes, s->count) == 0)
            return p;
    if (e->count == SIGNATURES) forget_calls(e);
    prepared *p = hd_array_resize(NULL, sizeof *p);
    char *copy = hd_array_resize(NULL, s->count);
    if (p == NULL || copy == NULL) {
        hd_array_release(p);
        hd_array_release(copy);
        hd_fail(HD_ERROR_MEMORY, "no memory for the kernel of a call");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    memcpy(copy, s->bytes, s->count);
    p->hash = hash;
    p->signature = copy;
    p->signature_bytes = s->count;
    if (prepare(thread, d, call, p) != HD_OK) {
        release_prepared(p);
        return NULL;
    }
    p->next = *at;
    *at = p;
    e->count++;
    return p;
}

/* ---- running
 * ------------------------------------------------------------------------------------------------------ */
static hd_error run_kernel(hd_thread *thread, const hd_gpu_device *d, const prepared *p, hd_call *call) {
    const hd_native *n = &p->lowered.native;
    void *buffers[HD_KERNEL_BUFFERS + 1];
    uint64_t numbers[HD_KERNEL_DRAWS];
    const uint64_t *given = n->numbers;
    hd_tensor *moved[HD_MAX_INPUTS] = {NULL};
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    hd_tensor *out = call->outputs[0];
    hd_error status = HD_OK;
    for (int b = 0; b < n->shape.buffer_count && status == HD_OK; ++b) {
        const int k = p->operand[b];
        buffers[b] = k < 0 ? hd_gpu_written(thread, out) : hd_gpu_read(thread, d, call->inputs[k], &moved[k]);
        if (buffers[b] == NULL) status = thread->error_code;
    }
    if (p->lowered.draw_count > 0) { /* which draw it is */
        const hd_random_attributes *a = call->attributes;
        const bool fits = n->shape.number_count <= HD_KERNEL_DRAWS;
        if (!fits) status = hd_fail(HD_ERROR_INTERNAL, "a draw of many numbers");
        if (fits) memcpy(numbers, n->numbers, (size_t)n->shape.number_count * sizeof *numbers);
        if (fits) numbers[p->lowered.seed] = a->seed;
        for (int k = 0; k < p->lowered.draw_count && fits; ++k) numbers[p->lowered.draws[k].number] = a->draw;
        given = numbers;
    }
    if (status == HD_OK && out->count > 0) status = hd_gpu_launch_kernel(thread, d, n, &p->code, given, buffers);
    for (int i = 0; i < call->input_count; ++i) hd_tensor_drop(thread, moved[i]);
    return hd_gpu_finish(thread, call, status);
}

/* Calls take turns: what is known of one is there as long as it runs. */
static hd_error run_if_kernel(hd_thread *thread, const hd_gpu_device *d, hd_call *call, bool *is_kernel) {
    signature s;
    *is_kernel = false;
    sign_call(&s, call);
    if (!s.fits) return HD_OK;
    pthread_mutex_lock(&d->eager->lock);
    const prepared *p = look_up_call(thread, d, d->eager, call, &s);
    *is_kernel = p == NULL || p->is_kernel;
    const hd_error status = p == NULL ? thread->error_code : p->is_kernel ? run_kernel(thread, d, p, call) : HD_OK;
    pthread_mutex_unlock(&d->eager->lock);
    return status;
}

hd_error hd_gpu_by_copy(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    if (hd_dump_wants("calls"))
        hd_dump_line("calls", "%s on %s: by the CPU, with copies%s%s", call->op->name,
                     hd_device_text((char[32]){0}, d->device), hd_own_name(call->op, call->attributes)[0] ? ": " : "",
                     hd_own_name(call->op, call->attributes));
    int64_t *timed = hd_gpu_nanoseconds; /* not by the device's clock; and an op of the user's may leave by a longjmp */
    const int64_t begin = timed != NULL ? hd_os_nanoseconds() : 0;
    hd_gpu_nanoseconds = NULL;
    const hd_error status = hd_run_by_copy(thread, call, d->device);
    hd_gpu_nanoseconds = timed;
    if (timed != NULL) *timed += hd_os_nanoseconds() - begin;
    return status;
}

hd_error hd_gpu_by_kernel(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    bool is_kernel;
    const hd_error status = run_if_kernel(thread, d, call, &is_kernel);
    return is_kernel ? status : hd_gpu_by_copy(thread, d, call);
}

static bool uses_f64(const hd_call *call) {
    for (int i = 0; i < call->input_count; ++i)
        if (call->inputs[i]->dtype == HD_F64 && !hd_tensor_is_number(call->inputs[i])) return true;
    for (int i = 0; i < call->output_count; ++i)
        if (call->dtype[i] == HD_F64) return true;
    return false;
}

hd_error hd_gpu_run_call(hd_executor *self, hd_thread *thread, hd_call *call) {
    const hd_gpu_device *d = (const hd_gpu_device *)self;
    if (call->view != NULL) {
        call->outputs[0] = hd_tensor_over(thread, call->inputs[0]->storage, call->dtype[0], call->view);
        return call->outputs[0] == NULL ? thread->error_code : HD_OK;
    }
    for (int i = 0; i < call->input_count; ++i) { /* numbers, whose bytes may be elsewhere */
        hd_storage *s = call->inputs[i]->storage;
        if (!hd_storage_is_away(s) && hd_storage_bytes(thread, s, HD_READ) == NULL) return thread->error_code;
    }
    const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
    if (limits == NULL) return thread->error_code;
    if (!limits->has_f64 && uses_f64(call))
        return hd_fail(HD_ERROR_DTYPE, "%s has no f64; hd_cast the operands to f32, or hd_to(x, hd_cpu()) moves them",
                       hd_device_text((char[32]){0}, d->device));
    return hd_gpu_op_of(call)(thread, d, call);
}

/* ---- writes
 * ------------------------------------------------------------------------------------------------------- */
/* The elements of a tensor as a dtype, in memory of their own; a reference that is the caller's. */
static hd_tensor *converted(hd_thread *thread, const hd_gpu_device *d, hd_tensor *t, hd_dtype dtype) {
    const hd_cast_attributes to = {dtype};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_cast], (hd_tensor *[]){t}, 1, dtype, &t->layout.shape, &to);
    return hd_gpu_cast(thread, d, &call) == HD_OK ? call.outputs[0] : NULL;
}
static hd_tensor *copied(hd_thread *thread, const hd_gpu_device *d, hd_tensor *t) {
    return converted(thread, d, t, (hd_dtype)t->dtype);
}

hd_tensor *hd_gpu_packed(hd_thread *thread, const hd_gpu_device *d, hd_tensor *t) {
    if (!t->contiguous) return copied(thread, d, t);
    hd_object_retain(&t->object);
    return t;
}

/* A cast into memory that is there, through strides. */
static hd_error write_by_kernel(hd_thread *thread, const hd_gpu_device *d, hd_tensor *dst, hd_tensor *src,
                                bool *is_kernel) {
    hd_layout stretched = {.shape = dst->layout.shape, .offset = src->layout.offset};
    hd_layout_broadcast(&src->layout, &dst->layout.shape, stretched.stride);
    hd_tensor *view = hd_tensor_over(thread, src->storage, (hd_dtype)src->dtype, &stretched);
    if (view == NULL) return thread->error_code;
    const hd_cast_attributes to = {(hd_dtype)dst->dtype};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_cast], &view, 1, (hd_dtype)dst->dtype, &dst->layout.shape, &to);
    call.given = true;
    call.outputs[0] = dst;
    const hd_error status = run_if_kernel(thread, d, &call, is_kernel);
    hd_tensor_drop(thread, view);
    return status;
}

static hd_error write_there(hd_thread *thread, const hd_gpu_device *d, hd_tensor *dst, hd_tensor *src) {
    const size_t bytes = dst->storage->bytes;
    const bool is_all =
        dst->contiguous && dst->layout.offset == 0 && (size_t)dst->count * hd_dtype_bytes[dst->dtype] == bytes;
    if (is_all && src->contiguous && dst->dtype == src->dtype && dst->count == src->count)
        return hd_storage_copy(thread, dst->storage, src->storage,
                               (size_t)src->layout.offset * hd_dtype_bytes[src->dtype], bytes);
    bool is_kernel = false;
    hd_error status = write_by_kernel(thread, d, dst, src, &is_kernel);
    if (is_kernel || status != HD_OK || dst->dtype == src->dtype)
        return is_kernel || status != HD_OK
                   ? status
                   : hd_fail(HD_ERROR_INTERNAL, "a write of %s is no kernel", hd_dtype_name((hd_dtype)src->dtype));
    hd_tensor *cast = converted(thread, d, src, (hd_dtype)dst->dtype);
    status = cast == NULL ? thread->error_code : write_there(thread, d, dst, cast);
    hd_tensor_drop(thread, cast);
    return status;
}

hd_error hd_gpu_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    const hd_gpu_device *d = (const hd_gpu_device *)self;
    if (!hd_storage_is_away(src->storage) && hd_storage_bytes(thread, src->storage, HD_READ) == NULL)
        return thread->error_code;
    if (dst->count == 0) return HD_OK;
    if (dst->storage != src->storage) return write_there(thread, d, dst, src);
    hd_tensor *apart = copied(thread, d, src); /* it overlaps with what is written */
    const hd_error status = apart == NULL ? thread->error_code : write_there(thread, d, dst, apart);
    hd_tensor_drop(thread, apart);
    return status;
}

hd_gpu_eager *hd_gpu_eager_new(void) {
    hd_gpu_eager *e = hd_array_resize(NULL, sizeof *e);
    if (e == NULL) return NULL;
    memset(e, 0, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    return e;
}
