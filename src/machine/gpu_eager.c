/* Ops on a GPU, one call at a time: a call is a graph of one node, which is fused and lowered as those of scripts
 * are. What comes of it is kept by the call's signature: op, attributes, dtypes, shapes and strides. Its code is
 * kept by its text, in memory and on disk. What no kernel does runs on the CPU with copies, as HODU_DUMP=calls says. */
#include "codegen/code.h"
#include "codegen/dump.h"
#include "codegen/hash.h"
#include "core/away.h"
#include "fuse/lower.h"
#include "kernel/gpu.h"
#include "machine/gpu.h"

#include <pthread.h>
#include <string.h>

enum { SIGNATURE_MOST = 2048, SIGNATURES = 4096, ARGUMENTS_MOST = 4096 };

/* ---- code: one program for each text
 * ------------------------------------------------------------------------------ */
typedef struct gpu_code {
    struct gpu_code *next;
    uint64_t hash;
    char *text;
    hd_gpu_program *program;
    hd_gpu_function *whole, *parts, *join;
} gpu_code;

/* ---- what is known of calls of one signature
 * ---------------------------------------------------------------------- */
typedef struct prepared {
    struct prepared *next;
    uint64_t hash;
    size_t signature_bytes;
    const gpu_code *code; /* NULL: on the CPU, with copies */
    hd_lowered lowered;
    hd_grid grid;
    int16_t operand[HD_KERNEL_BUFFERS]; /* of each buffer: which input it is; -1: the output */
    size_t argument_bytes;
    char *signature;
} prepared;

struct hd_gpu_eager {
    pthread_mutex_t lock;
    gpu_code *codes;
    prepared *calls[SIGNATURES];
    int count;
};

static void release_prepared(prepared *p) {
    if (p->code != NULL) hd_native_release(&p->lowered.native);
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
    for (int i = 0; i < call->input_count; ++i) {
        const hd_tensor *t = call->inputs[i];
        sign_number(s, t->dtype);
        sign_number(s, hd_tensor_is_number(t) + 2 * is_aligned(t));
        if (hd_tensor_is_number(t)) sign(s, t->storage->data, hd_dtype_bytes[t->dtype]);
        sign_number(s, t->layout.shape.rank);
        sign(s, t->layout.shape.size, sizeof(int64_t) * (size_t)t->layout.shape.rank);
        sign(s, t->layout.stride, sizeof(int64_t) * (size_t)t->layout.shape.rank);
    }
}

/* ---- a call as a kernel
 * ------------------------------------------------------------------------------------------- */
/* A number is a number of the kernel, also where it is stretched: its axes have one element each. */
static uint32_t input_node(hd_graph *g, const hd_tensor *t, int i) {
    const char name[2] = {(char)('a' + i), '\0'};
    if (!hd_tensor_is_number(t) || t->layout.shape.rank > 0)
        return hd_graph_add_input(g, name, (hd_dtype)t->dtype, &t->layout.shape);
    const hd_full_attributes value = {hd_element_to_f64(t->storage->data, (hd_dtype)t->dtype)};
    return hd_graph_add(g, HD_OP_full, 0, NULL, 0, (hd_dtype)t->dtype, &t->layout.shape, &value);
}

/* The node of the call; HD_NO_NODE with an error. What is only moved is cast to what it is. A draw alone would be a
 * call: what reads it draws it. */
static uint32_t call_node(hd_graph *g, const hd_call *call, uint32_t *inputs) {
    hd_random_attributes draw;
    const void *attributes = call->attributes;
    for (int i = 0; i < call->input_count; ++i)
        if ((inputs[i] = input_node(g, call->inputs[i], i)) == HD_NO_NODE) return HD_NO_NODE;
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

static hd_error lower_call(const hd_machine *m, hd_graph *g, const hd_fusion *f, const hd_call *call,
                           const uint32_t *inputs, uint32_t node, prepared *p, bool *lowered) {
    const uint32_t group = f->group_of[node];
    (void)m;
    if (group == HD_NO_GROUP || f->groups[group].kind != HD_GROUP_KERNEL) return HD_OK;
    hd_tensor *tensors = hd_array_resize(NULL, (size_t)g->node_count * sizeof *tensors);
    if (tensors == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the kernel of a call");
    for (uint32_t i = 0; i < g->node_count; ++i) {
        hd_layout layout;
        const hd_shape shape = hd_node_shape(g, i);
        hd_layout_contiguous(&layout, &shape);
        for (int k = 0; k < call->input_count; ++k)
            if (inputs[k] == i) layout = call->inputs[k]->layout;
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

/* ---- code
 * --------------------------------------------------------------------------------------------------------- */
static void *compile_text(const hd_gpu_device *d, const char *text, size_t length, size_t *bytes) {
    const hd_gpu_limits *limits = d->gpu->limits(d->index);
    const size_t target = strlen(limits->key) + 1;
    char *key = hd_array_resize(NULL, target + length);
    void *object = NULL;
    if (key != NULL) {
        memcpy(key, limits->key, target);
        memcpy(key + target, text, length);
        object = hd_cache_read(key, target + length, bytes);
    }
    if (object == NULL && d->gpu->compile(d->index, "call", text, &object, bytes) == HD_OK && key != NULL)
        hd_cache_write(key, target + length, object, *bytes);
    hd_array_release(key);
    return object;
}

static hd_error make_code(const hd_gpu_device *d, gpu_code *c, size_t length, bool in_pieces) {
    size_t bytes = 0;
    void *object = compile_text(d, c->text, length, &bytes);
    if (object == NULL) return HD_ERROR_DEVICE;
    c->program = d->gpu->load(d->index, object, bytes);
    hd_array_release(object);
    if (c->program == NULL) return HD_ERROR_DEVICE;
    if (in_pieces) {
        c->parts = d->gpu->function(c->program, "call_parts");
        c->join = d->gpu->function(c->program, "call_join");
    } else {
        c->whole = d->gpu->function(c->program, "call");
    }
    return c->whole != NULL || (c->parts != NULL && c->join != NULL) ? HD_OK : HD_ERROR_DEVICE;
}

static void release_code(const hd_gpu_device *d, gpu_code *c) {
    if (c->program != NULL) d->gpu->unload(c->program);
    hd_array_release(c->text);
    hd_array_release(c);
}

/* That of a kernel and its grid; NULL with an error. Under the lock. */
static const gpu_code *code_of(const hd_gpu_device *d, hd_gpu_eager *e, const prepared *p) {
    const hd_gpu_kernel kernel = {&p->lowered.native.shape, p->grid, "call"};
    const bool f64 = d->gpu->limits(d->index)->has_f64;
    const size_t length = hd_render_gpu(&kernel, 1, d->dialect, f64, NULL, 0);
    char *text = length == 0 ? NULL : hd_array_resize(NULL, length + 1);
    if (text == NULL && length > 0) hd_fail(HD_ERROR_MEMORY, "no memory for the text of a kernel");
    if (text == NULL || hd_render_gpu(&kernel, 1, d->dialect, f64, text, length + 1) != length) {
        hd_array_release(text);
        return NULL;
    }
    const uint64_t hash = hd_hash(text, length, 0);
    for (gpu_code *c = e->codes; c != NULL; c = c->next)
        if (c->hash == hash && strcmp(c->text, text) == 0) {
            hd_array_release(text);
            return c;
        }
    gpu_code *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) {
        hd_array_release(text);
        hd_fail(HD_ERROR_MEMORY, "no memory for the kernel of a call");
        return NULL;
    }
    *c = (gpu_code){.next = e->codes, .hash = hash, .text = text};
    if (make_code(d, c, length, p->grid.in_pieces) != HD_OK) {
        release_code(d, c);
        return NULL;
    }
    return e->codes = c;
}

/* ---- preparing
 * ---------------------------------------------------------------------------------------------------- */
static int alignment_of(const hd_call *call) {
    for (int i = 0; i < call->input_count; ++i)
        if (!is_aligned(call->inputs[i])) return 1;
    return 16;
}

static hd_error finish_kernel(const hd_gpu_device *d, hd_gpu_eager *e, const hd_call *call, prepared *p) {
    const hd_gpu_limits *limits = d->gpu->limits(d->index);
    const hd_native *n = &p->lowered.native;
    const hd_grid_limits of_grid = {limits->processors, limits->group_most, limits->has_f64};
    p->grid = hd_grid_choose(&n->shape, n->geometry, alignment_of(call), &of_grid);
    p->argument_bytes = hd_grid_arguments(&n->shape, &p->grid, n->geometry, NULL, NULL);
    const size_t all = p->argument_bytes + 8 * ((size_t)n->shape.buffer_count + p->grid.in_pieces);
    if (all > limits->argument_bytes || all > ARGUMENTS_MOST || p->grid.groups > UINT32_MAX) {
        hd_native_release(&p->lowered.native);
        return HD_OK; /* with copies */
    }
    p->code = code_of(d, e, p);
    if (p->code != NULL) return HD_OK;
    hd_native_release(&p->lowered.native);
    return HD_ERROR_DEVICE;
}

static hd_error prepare(hd_thread *thread, const hd_gpu_device *d, hd_gpu_eager *e, const hd_call *call, prepared *p) {
    uint32_t inputs[HD_MAX_INPUTS];
    bool lowered = false;
    if (call->output_count != 1 || call->op->fails == HD_FAILS_VALUES) return HD_OK;
    hd_graph *g = hd_graph_new(thread, "call");
    if (g == NULL) return thread->error_code;
    const uint32_t node = call_node(g, call, inputs);
    hd_error status = node == HD_NO_NODE ? thread->error_code : hd_graph_add_output(g, "y", node);
    if (status == HD_OK) {
        hd_fusion f = {.group_of = NULL};
        status = hd_fuse(d->machine, g, HD_O2, (hd_fuse_choice){.most_members = 0}, &f);
        if (status == HD_OK) status = lower_call(d->machine, g, &f, call, inputs, node, p, &lowered);
        hd_fusion_release(&f);
    }
    hd_graph_release(thread, g);
    return status == HD_OK && lowered ? finish_kernel(d, e, call, p) : status;
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
    if (prepare(thread, d, e, call, p) != HD_OK) {
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
static void *address_of(hd_thread *thread, const hd_tensor *t, hd_access access) {
    char *base = hd_storage_address(thread, t->storage, access);
    return base == NULL ? NULL : base + t->layout.offset * (int64_t)hd_dtype_bytes[t->dtype];
}

static hd_error launch(const hd_gpu_device *d, const prepared *p, hd_gpu_function *f, void **buffers, char *arguments,
                       int64_t groups, uint32_t pieces) {
    const hd_gpu_launch l = {.function = f,
                             .groups = {(uint32_t)groups, pieces, 1},
                             .threads = {p->grid.threads, 1, 1},
                             .buffers = buffers,
                             .buffer_count = p->lowered.native.shape.buffer_count + p->grid.in_pieces,
                             .arguments = arguments,
                             .argument_bytes = p->argument_bytes};
    return d->gpu->launch(d->index, &l);
}

static hd_error launch_all(hd_thread *thread, const hd_gpu_device *d, const prepared *p, const hd_call *call,
                           void **buffers) {
    const hd_native *n = &p->lowered.native;
    const hd_grid *g = &p->grid;
    uint64_t numbers[HD_KERNEL_DRAWS];
    _Alignas(8) char arguments[ARGUMENTS_MOST];
    const uint64_t *given = n->numbers;
    if (p->lowered.draw_count > 0) {
        const hd_random_attributes *a = call->attributes;
        if (n->shape.number_count > HD_KERNEL_DRAWS) return hd_fail(HD_ERROR_INTERNAL, "a draw of many numbers");
        memcpy(numbers, n->numbers, (size_t)n->shape.number_count * sizeof *numbers);
        numbers[p->lowered.seed] = a->seed;
        for (int k = 0; k < p->lowered.draw_count; ++k) numbers[p->lowered.draws[k].number] = a->draw;
        given = numbers;
    }
    hd_grid_arguments(&n->shape, g, n->geometry, given, arguments);
    if (!g->in_pieces) return launch(d, p, p->code->whole, buffers, arguments, g->groups, 1);
    hd_block *parts = hd_device_interface_of(d->kind)->allocate(thread, d->index, hd_grid_part_bytes(&n->shape, g));
    if (parts == NULL) return thread->error_code;
    buffers[n->shape.buffer_count] = parts->address;
    hd_error status = launch(d, p, p->code->parts, buffers, arguments, g->groups, g->piece_count);
    if (status == HD_OK)
        status = launch(d, p, p->code->join, buffers, arguments, (g->points + g->threads - 1) / g->threads, 1);
    hd_block_release(thread, parts); /* what is launched comes before what it is used for next */
    return status;
}

/* The one element of a number on the device; a reference that is the caller's. */
static hd_tensor *number_there(hd_thread *thread, const hd_tensor *t, hd_device device) {
    hd_tensor *there = hd_tensor_new_on(thread, device, (hd_dtype)t->dtype, &(hd_shape){.rank = 0});
    if (there == NULL || hd_storage_copy(thread, there->storage, t->storage, 0, t->storage->bytes) == HD_OK)
        return there;
    hd_tensor_drop(thread, there);
    return NULL;
}

static hd_error run_kernel(hd_thread *thread, const hd_gpu_device *d, const prepared *p, hd_call *call) {
    const hd_device device = {d->kind, d->index};
    void *buffers[HD_KERNEL_BUFFERS + 1];
    hd_tensor *moved[HD_MAX_INPUTS] = {NULL};
    hd_tensor *out = hd_tensor_new_on(thread, device, call->dtype[0], &call->shape[0]);
    hd_error status = out == NULL ? thread->error_code : HD_OK;
    for (int b = 0; b < p->lowered.native.shape.buffer_count && status == HD_OK; ++b) {
        const int k = p->operand[b];
        const hd_tensor *t = k < 0 ? out : call->inputs[k];
        if (k >= 0 && !hd_storage_is_away(t->storage)) { /* a number that is stretched */
            if (moved[k] == NULL) moved[k] = number_there(thread, t, device);
            t = moved[k];
        }
        buffers[b] = t == NULL ? NULL : address_of(thread, t, k < 0 ? HD_OVERWRITE : HD_READ);
        if (buffers[b] == NULL) status = thread->error_code;
    }
    if (status == HD_OK && out->count > 0) status = launch_all(thread, d, p, call, buffers);
    for (int i = 0; i < call->input_count; ++i) hd_tensor_drop(thread, moved[i]);
    if (status == HD_OK)
        call->outputs[0] = out;
    else
        hd_tensor_drop(thread, out);
    return status;
}

static hd_error run_full(hd_thread *thread, hd_device device, hd_call *call) {
    uint64_t element = 0;
    hd_element_from_f64(&element, call->dtype[0], ((const hd_full_attributes *)call->attributes)->value);
    hd_tensor *out = hd_tensor_new_on(thread, device, call->dtype[0], &call->shape[0]);
    if (out == NULL) return thread->error_code;
    const hd_error status = hd_storage_fill(thread, out->storage, &element, hd_dtype_bytes[call->dtype[0]]);
    if (status == HD_OK)
        call->outputs[0] = out;
    else
        hd_tensor_drop(thread, out);
    return status;
}

/* True when it was a kernel, and *status says how that went; else it is for the CPU. Calls take turns: what is known
 * of one is there as long as it runs. */
static bool runs_as_kernel(hd_thread *thread, const hd_gpu_device *d, hd_call *call, hd_error *status) {
    signature s;
    sign_call(&s, call);
    if (!s.fits) return false;
    pthread_mutex_lock(&d->eager->lock);
    const prepared *p = look_up_call(thread, d, d->eager, call, &s);
    const bool runs = p == NULL || p->code != NULL;
    if (runs) *status = p == NULL ? thread->error_code : run_kernel(thread, d, p, call);
    pthread_mutex_unlock(&d->eager->lock);
    return runs;
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
    const hd_device device = {d->kind, d->index};
    hd_error status;
    if (call->view != NULL) {
        call->outputs[0] = hd_tensor_over(thread, call->inputs[0]->storage, call->dtype[0], call->view);
        return call->outputs[0] == NULL ? thread->error_code : HD_OK;
    }
    const hd_gpu_limits *limits = d->gpu->limits(d->index);
    if (limits == NULL) return thread->error_code;
    if (!limits->has_f64 && uses_f64(call))
        return hd_fail(HD_ERROR_DTYPE, "%s has no f64; hd_cast the operands to f32, or hd_to(x, hd_cpu()) moves them",
                       hd_device_text((char[32]){0}, device));
    if (call->op->id == HD_OP_full && call->op->derivative == 0) return run_full(thread, device, call);
    if (runs_as_kernel(thread, d, call, &status)) return status;
    if (hd_dump_wants("calls"))
        hd_dump_line("calls", "%s on %s: by the CPU, with copies", call->op->name,
                     hd_device_text((char[32]){0}, device));
    return hd_run_by_copy(thread, call, device);
}

/* All of a tensor to all of another is a copy there; else the CPU does it. */
hd_error hd_gpu_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    const size_t bytes = dst->storage->bytes;
    const bool whole = dst->contiguous && src->contiguous && dst->dtype == src->dtype && dst->count == src->count &&
                       dst->storage != src->storage && dst->layout.offset == 0 && hd_storage_is_away(src->storage) &&
                       (size_t)dst->count * hd_dtype_bytes[dst->dtype] == bytes;
    if (!whole) return hd_write_by_copy(thread, dst, src);
    return hd_storage_copy(thread, dst->storage, src->storage, (size_t)src->layout.offset * hd_dtype_bytes[src->dtype],
                           bytes);
}

hd_gpu_eager *hd_gpu_eager_new(void) {
    hd_gpu_eager *e = hd_array_resize(NULL, sizeof *e);
    if (e == NULL) return NULL;
    memset(e, 0, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    return e;
}
