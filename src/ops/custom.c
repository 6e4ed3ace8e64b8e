/* Calls of the user's ops, and their gradients. */
#include "ops/custom.h"
#include "core/list.h"

#include <string.h>

const char *hd_own_name(const hd_op *op, const void *attributes) {
    return op != NULL && op == &hd_ops[HD_OP_custom] ? ((const hd_custom_attributes *)attributes)->op.text : "";
}

/* ---- functions of the user's ------------------------------------------------------------------------------------- */
void hd_custom_frame_set(hd_custom_array *out, hd_dtype dtype, const hd_shape *shape, void *data) {
    *out = (hd_custom_array){.dtype = dtype, .shape = *shape, .count = hd_shape_count(*shape), .data = data};
}

void hd_custom_frame_begin(hd_custom_frame *f, const hd_custom_op *op, const hd_custom_attributes *attributes,
                           hd_tensor *const *inputs, int count) {
    f->args = (hd_custom_args){.struct_size = sizeof f->args,
                               .user = op->user,
                               .attributes = attributes->data.count > 0 ? attributes->data.at : NULL,
                               .attribute_bytes = (size_t)attributes->data.count,
                               .input_count = count,
                               .output_count = 1,
                               .inputs = f->inputs,
                               .outputs = f->outputs,
                               .error = HD_ERROR_VALUE,
                               .text = f->text,
                               .text_capacity = sizeof f->text};
    f->text[0] = '\0';
    for (int i = 0; i < count; ++i) {
        f->inputs[i] = &f->in[i];
        if (inputs != NULL) hd_custom_frame_set(&f->in[i], (hd_dtype)inputs[i]->dtype, &inputs[i]->layout.shape, NULL);
    }
    for (int i = 0; i < HD_MAX_OUTPUTS; ++i) {
        f->outputs[i] = &f->out[i];
        f->out[i] = f->in[0];
    }
}

/* What a function returned, as an error that names the op. */
static hd_error judge(hd_thread *thread, const hd_custom_op *op, const char *text, hd_error code) {
    if (thread->error_code != HD_OK) {
        hd_error_append(thread, "; in the op \"%s\"", op->name);
        return thread->error_code;
    }
    if (text == NULL) return HD_OK;
    return hd_fail(code > HD_OK && code < HD_ERROR_COUNT ? code : HD_ERROR_VALUE, "the op \"%s\": %.300s", op->name,
                   text);
}

static uint32_t frames_of(const hd_thread *thread) {
    return thread->tapes == NULL ? 0 : hd_tapes_head_of(thread)->frame_count;
}

hd_error hd_custom_run(hd_thread *thread, const hd_custom_op *op, const char *(*function)(hd_custom_args *args),
                       hd_custom_frame *f) {
    const char *text;
    const uint32_t frames = frames_of(thread);
    const struct hd_recording *recording = thread->recording;
    {
        HD_CALLBACK(thread);
        text = function(&f->args);
    }
    if (thread->recording != recording) {
        if (thread->recording != NULL) thread->recorder->abandon(thread);
        return hd_fail(HD_ERROR_STATE,
                       "the op \"%s\" left a builder recording, or ended one around it; what begins in it ends in it",
                       op->name);
    }
    if (frames_of(thread) > frames) {
        hd_tapes_head_of(thread)->hooks->unwind(thread, frames);
        return hd_fail(HD_ERROR_STATE,
                       "the op \"%s\" left a block with HD_NO_GRAD or a gradient context open; what begins in it ends "
                       "in it",
                       op->name);
    }
    return judge(thread, op, text, f->args.error);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
/* What comes out, as the op says, into a call. */
static hd_error add_outputs(const hd_custom_op *op, const hd_custom_frame *f, hd_call *call) {
    const int count = f->args.output_count;
    if (count < 1 || count > HD_MAX_OUTPUTS)
        return hd_fail(HD_ERROR_VALUE, "the op \"%s\" says that it has %d outputs; there may be 1 to %d", op->name,
                       count, HD_MAX_OUTPUTS);
    call->output_count = 0;
    for (int i = 0; i < count; ++i) {
        const hd_custom_array *out = &f->out[i];
        int64_t elements;
        if ((int)out->dtype < 1 || out->dtype >= HD_DTYPE_COUNT)
            return hd_fail(HD_ERROR_DTYPE, "the op \"%s\" says that output %d is of dtype %d, which is none", op->name,
                           i, (int)out->dtype);
        if (hd_shape_check(&out->shape, hd_dtype_bytes[out->dtype], &elements) != HD_OK) {
            hd_error_append(hd_thread_self(), "; the op \"%s\" says that output %d has that shape", op->name, i);
            return hd_thread_self()->error_code;
        }
        hd_call_add_output(call, out->dtype, &out->shape);
    }
    return HD_OK;
}

/* Describes the call; apart from who makes it, so that its frame is gone when the op computes: stacks may be small. */
static __attribute__((noinline)) hd_error describe(hd_thread *thread, const hd_custom_op *op,
                                                   const hd_custom_attributes *attributes, hd_tensor *const *inputs,
                                                   int count, hd_call *call) {
    hd_custom_frame f;
    hd_custom_frame_begin(&f, op, attributes, inputs, count);
    if (op->shapes != NULL) HD_TRY(hd_custom_run(thread, op, op->shapes, &f));
    hd_call_init(call, &hd_ops[HD_OP_custom], inputs, count, (hd_dtype)inputs[0]->dtype, &inputs[0]->layout.shape,
                 attributes);
    return add_outputs(op, &f, call);
}

hd_tensor *hd_custom_make(hd_thread *thread, const hd_custom_attributes *attributes, hd_tensor *const *inputs,
                          int count, hd_tensor **second) {
    const hd_custom_op *op = hd_custom_of(attributes);
    if (op == NULL) return NULL;
    if (count < op->inputs || count > op->most_inputs) {
        hd_fail(HD_ERROR_VALUE, "%d inputs for the op \"%s\", which takes %d to %d", count, op->name, op->inputs,
                op->most_inputs);
        return NULL;
    }
    hd_call call;
    HD_TRY_OR(describe(thread, op, attributes, inputs, count, &call), NULL);
    hd_tensor *first = hd_execute(thread, &call);
    if (second != NULL) *second = first != NULL && call.output_count > 1 ? call.outputs[1] : NULL;
    return first;
}

static hd_error read_arguments(const char *name, const hd_tensors *inputs, const void *attributes, size_t bytes,
                               hd_custom_attributes *out) {
    memset(out, 0, sizeof *out);
    if (name == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
    const char *end = memchr(name, '\0', HD_CUSTOM_NAME_MOST + 1);
    if (end == NULL || end == name)
        return hd_fail(HD_ERROR_VALUE, "an op of the name \"%.80s\"; names have 1 to %d letters", name,
                       HD_CUSTOM_NAME_MOST);
    memcpy(out->op.text, name, (size_t)(end - name));
    HD_TRY(hd_tensors_check(inputs, "inputs"));
    if (inputs->count > HD_MAX_INPUTS)
        return hd_fail(HD_ERROR_VALUE, "%lld inputs for the op \"%s\"; an op takes %d at most",
                       (long long)inputs->count, name, HD_MAX_INPUTS);
    if (attributes == NULL && bytes > 0)
        return hd_fail(HD_ERROR_NULL_ARGUMENT, "`attributes` is NULL, and should have %zu bytes", bytes);
    if (bytes > HD_CUSTOM_ATTRIBUTES_MOST)
        return hd_fail(HD_ERROR_VALUE,
                       "%zu bytes of attributes for the op \"%s\"; %d is the most: what is larger is an "
                       "input",
                       bytes, name, HD_CUSTOM_ATTRIBUTES_MOST);
    out->data.count = bytes;
    if (bytes > 0) memcpy(out->data.at, attributes, bytes);
    return HD_OK;
}

hd_tensor *hd_custom(const char *name, hd_tensors *inputs, const void *attributes, size_t bytes) {
    HD_ENTER("hd_custom", NULL);
    hd_custom_attributes a;
    HD_TRY_OR(read_arguments(name, inputs, attributes, bytes, &a), NULL);
    hd_scope_token scope = hd_scope_within(thread, &scope); /* it holds the list, which the op may release */
    hd_tensor *y = NULL;
    if (hd_scope_share(thread, &inputs->object) != NULL)
        y = hd_custom_make(thread, &a, inputs->items, (int)inputs->count, NULL);
    if (scope.self != NULL) hd_keep_object(y);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? y : NULL;
}

hd_tensors *hd_custom_outputs(const char *name, hd_tensors *inputs, const void *attributes, size_t bytes) {
    HD_ENTER("hd_custom_outputs", NULL);
    hd_custom_attributes a;
    HD_TRY_OR(read_arguments(name, inputs, attributes, bytes, &a), NULL);
    hd_tensor *outputs[HD_MAX_OUTPUTS] = {NULL};
    hd_tensors *list = NULL;
    HD_KEEP_NAME(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope); /* as above */
    if (hd_scope_share(thread, &inputs->object) != NULL)
        outputs[0] = hd_custom_make(thread, &a, inputs->items, (int)inputs->count, &outputs[1]);
    if (outputs[0] != NULL) list = hd_tensors_from(outputs, outputs[1] == NULL ? 1 : 2);
    if (scope.self != NULL) hd_keep_object(list);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? list : NULL;
}

void hd_replay_custom(hd_replay_call *r) {
    r->output = hd_custom_make(hd_thread_self(), r->attributes, r->inputs, r->input_count, &r->second);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
unsigned hd_custom_saves(const hd_custom_attributes *attributes) {
    const hd_custom_op *op = hd_custom_find(attributes->op.text);
    unsigned saves = hd_ops[HD_OP_custom].saves[0];
    if (op == NULL || op->vjp == NULL) return 0;
    if (op->vjp_without_inputs)
        saves &= ~(unsigned)(HD_SAVE_INPUT0 | HD_SAVE_INPUT1 | HD_SAVE_INPUT2 | HD_SAVE_INPUT3 | HD_SAVE_REST);
    if (op->vjp_without_outputs) saves &= ~(unsigned)(HD_SAVE_OUTPUT | HD_SAVE_OUTPUT1);
    return saves;
}

static uint32_t version_of(const hd_tensor *t) {
    return t == NULL ? 0 : atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

/* A gradient is of the shape and dtype of what it is of. */
static hd_error check_result(const hd_custom_op *op, const hd_vjp_call *v, int i) {
    const hd_tensor *g = v->results[i];
    if (g == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(g, "a gradient"));
    if (hd_shape_equal(g->layout.shape, v->shapes[i]) && g->dtype == v->dtypes[i]) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "the vjp of the op \"%s\" gives %s of %s for input %d, which is %s of %s", op->name,
                   HD_SHAPE_TEXT(g->layout.shape), hd_dtype_name((hd_dtype)g->dtype), i, HD_SHAPE_TEXT(v->shapes[i]),
                   hd_dtype_name((hd_dtype)v->dtypes[i]));
}

void hd_vjp_custom(hd_thread *thread, const hd_vjp_call *v) {
    const hd_custom_attributes *a = v->attributes;
    const hd_custom_op *op = hd_custom_of(a);
    if (op == NULL) return;
    if (op->vjp == NULL) {
        hd_fail(HD_ERROR_STATE,
                "the op \"%s\" has no vjp, and so no gradient; give it one, or hd_detach its inputs if none is meant",
                op->name);
        return;
    }
    hd_tensor *const outputs[HD_MAX_OUTPUTS] = {v->output, v->second_output}, *const gradients[HD_MAX_OUTPUTS] = {
                                                                                  v->gradient, v->second_gradient};
    const uint32_t versions[HD_MAX_OUTPUTS] = {version_of(v->gradient), version_of(v->second_gradient)};
    char text[512] = "";
    hd_custom_vjp call = {.struct_size = sizeof call,
                          .user = op->user,
                          .attributes = a->data.count > 0 ? a->data.at : NULL,
                          .attribute_bytes = (size_t)a->data.count,
                          .input_count = v->input_count,
                          .shapes = v->shapes,
                          .inputs = v->inputs,
                          .outputs = outputs,
                          .gradients = gradients,
                          .wanted = v->wanted,
                          .results = v->results,
                          .text = text,
                          .text_capacity = sizeof text};
    const char *said;
    {
        HD_CALLBACK(thread);
        said = op->vjp(&call);
    }
    if (judge(thread, op, said, HD_ERROR_VALUE) != HD_OK) return;
    if (version_of(v->gradient) != versions[0] || version_of(v->second_gradient) != versions[1]) {
        hd_fail(HD_ERROR_STATE, "the vjp of the op \"%s\" wrote into a gradient it was given; others may read it, too",
                op->name);
        return;
    }
    for (int i = 0; i < v->input_count; ++i) {
        if (!v->wanted[i]) v->results[i] = NULL;
        if (check_result(op, v, i) != HD_OK) return;
    }
}
