/* Ops on a GPU, one call at a time: a call is a graph of one node, which is fused and lowered as those of scripts
 * are. What comes of it is kept by the call's signature: op, attributes, dtypes, shapes and strides. */
#include "codegen/dump.h"
#include "core/os.h"
#include "core/hash.h"
#include "fuse/lower_call.h"
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
        const bool written_out = hd_call_writes_out(call, t);
        sign_number(s, hd_tensor_is_number(t) + 2 * is_aligned(t) + 4 * written_out);
        if (written_out) sign(s, t->storage->data, hd_dtype_bytes[t->dtype]);
        sign_number(s, t->layout.shape.rank);
        sign(s, t->layout.shape.size, sizeof(int64_t) * (size_t)t->layout.shape.rank);
        sign(s, t->layout.stride, sizeof(int64_t) * (size_t)t->layout.shape.rank);
    }
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
    bool lowered = false;
    if (call->output_count != 1) return HD_OK;
    const hd_error status = hd_lower_call(thread, &d->machine, call, true, &p->lowered, p->operand, &lowered);
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
