/* The user's ops: a private function each, whose body the op writes; XLA has no other way to them. */
#include "ops/custom.h"
#include "xla/build.h"

#include <string.h>

/* The body, with the types that it stands for in the place of $0 and $r0; %a0 and %r0 are names of the function. */
static hd_error say_body(hd_hlo *e, const hd_custom_op *op, const char *body, const hd_ssa *inputs, int input_count,
                         const hd_ssa *outputs, int output_count) {
    while (*body != '\0') {
        const size_t plain = strcspn(body, "$");
        hd_text_add(&e->into->text, body, plain);
        body += plain;
        if (*body == '\0') break;
        const bool of_outputs = body[1] == 'r';
        const char *digit = body + 1 + of_outputs;
        int number = 0, digits = 0;
        for (; digits < 3 && digit[digits] >= '0' && digit[digits] <= '9'; ++digits)
            number = 10 * number + digit[digits] - '0';
        if (digits == 0 || number >= (of_outputs ? output_count : input_count))
            return hd_fail(HD_ERROR_VALUE,
                           "the StableHLO of the op \"%s\" has \"%.8s\"; $0 and up are types of its %d inputs, $r0 and "
                           "up of its %d outputs",
                           op->name, body, input_count, output_count);
        hd_hlo_say(e, "%t", of_outputs ? &outputs[number] : &inputs[number]);
        body = digit + digits;
    }
    return HD_OK;
}

/* "(t, t) -> (t)" */
static void say_signature(hd_hlo *e, const hd_ssa *inputs, int input_count, const hd_ssa *outputs, int output_count) {
    for (int i = 0; i < input_count; ++i) hd_hlo_say(e, i > 0 ? ", %t" : "(%t", &inputs[i]);
    for (int i = 0; i < output_count; ++i) hd_hlo_say(e, i > 0 ? ", %t" : ") -> (%t", &outputs[i]);
    hd_hlo_say(e, ")");
}

static hd_error say_function(hd_hlo *e, uint32_t node, const hd_custom_op *op, const char *body, const hd_ssa *inputs,
                             int input_count, const hd_ssa *outputs, int output_count) {
    hd_hlo_say(e, "  func.func private @own_%d", (int64_t)node);
    for (int i = 0; i < input_count; ++i) {
        hd_hlo_say(e, i > 0 ? ", %a" : "(%a");
        hd_hlo_say(e, "%d: %t", (int64_t)i, &inputs[i]);
    }
    for (int i = 0; i < output_count; ++i) hd_hlo_say(e, i > 0 ? ", %t" : ") -> (%t", &outputs[i]);
    hd_hlo_say(e, ") {\n");
    HD_TRY(say_body(e, op, body, inputs, input_count, outputs, output_count));
    hd_hlo_say(e, "\n    return ");
    for (int i = 0; i < output_count; ++i) {
        hd_hlo_say(e, i > 0 ? ", %r" : "%r");
        hd_hlo_say(e, "%d", (int64_t)i);
    }
    for (int i = 0; i < output_count; ++i) hd_hlo_say(e, i > 0 ? ", %t" : " : %t", &outputs[i]);
    hd_hlo_say(e, "\n  }\n");
    return HD_OK;
}

/* What the op writes; NULL with an error. */
static const char *body_of(hd_hlo *e, const hd_custom_op *op, hd_custom_frame *f) {
    const char *body = NULL;
    if (op->stablehlo != NULL && !op->has_effects) {
        HD_CALLBACK(e->thread);
        body = op->stablehlo(&f->args);
    }
    if (body == NULL)
        hd_fail(HD_ERROR_STATE,
                "XLA cannot run the op \"%s\", which is %s; compile with HD_COMPILER_HODU, or give the op `stablehlo`",
                op->name, op->has_effects ? "marked as having effects" : "a function in C");
    return e->thread->error_code == HD_OK ? body : NULL;
}

static hd_error emit(hd_hlo *e, uint32_t node, hd_ssa *outputs) {
    const hd_custom_attributes *a = hd_node_attributes(e->g, node);
    const int count = e->g->nodes[node].input_count;
    const hd_custom_op *op = hd_custom_of(a);
    if (op == NULL) return e->thread->error_code;
    hd_custom_frame f;
    hd_ssa inputs[HD_MAX_INPUTS];
    for (int i = 0; i < count; ++i) {
        inputs[i] = hd_hlo_input(e, node, i);
        hd_custom_frame_set(&f.in[i], inputs[i].dtype, &inputs[i].shape, NULL);
    }
    hd_custom_frame_begin(&f, op, a, NULL, count);
    if (op->shapes != NULL) HD_TRY(hd_custom_run(e->thread, op, op->shapes, &f));
    const int results = f.args.output_count;
    const hd_shape recorded = hd_node_shape(e->g, node);
    int64_t elements;
    bool same = results >= 1 && results <= HD_MAX_OUTPUTS && f.out[0].dtype == (hd_dtype)e->g->nodes[node].dtype &&
                hd_shape_equal(f.out[0].shape, recorded);
    for (int i = 1; i < results && same; ++i)
        same = (int)f.out[i].dtype > 0 && f.out[i].dtype < HD_DTYPE_COUNT &&
               hd_shape_check(&f.out[i].shape, hd_dtype_bytes[f.out[i].dtype], &elements) == HD_OK;
    if (!same)
        return hd_fail(HD_ERROR_STATE,
                       "the op \"%s\" does not give what it said when it was recorded; `shapes` may look at nothing "
                       "but its arguments",
                       op->name);
    const hd_ssa all = hd_hlo_define(e, f.out[0].dtype, &f.out[0].shape);
    for (int i = 0; i < results; ++i) outputs[i] = (hd_ssa){.dtype = f.out[i].dtype, .shape = f.out[i].shape};
    const char *body = body_of(e, op, &f);
    if (body == NULL) return e->thread->error_code;
    hd_hlo_frame frame;
    hd_hlo_enter(e, &frame);
    const hd_error status = say_function(e, node, op, body, inputs, count, outputs, results);
    hd_hlo_leave(e, &frame);
    HD_TRY(status);
    hd_hlo_say(e, results > 1 ? "    %v:2 = func.call @own_%d(" : "    %v = func.call @own_%d(", &all, (int64_t)node);
    for (int i = 0; i < count; ++i) hd_hlo_say(e, i > 0 ? ", %v" : "%v", &inputs[i]);
    hd_hlo_say(e, ") : ");
    say_signature(e, inputs, count, outputs, results);
    hd_hlo_say(e, "\n");
    outputs[0].id = all.id;
    outputs[0].form = HD_HLO_IS_ANY;                   /* XLA puts the function where it is called */
    for (int i = 0; i < results && results > 1; ++i) { /* other text names values by one number */
        outputs[i] = hd_hlo_define(e, f.out[i].dtype, &f.out[i].shape);
        outputs[i].form = HD_HLO_IS_ANY;
        hd_hlo_say(e, "    %v = stablehlo.reshape %v#%d : (%t) -> %t\n", &outputs[i], &all, (int64_t)i, &outputs[i],
                   &outputs[i]);
    }
    return HD_OK;
}

hd_ssa hd_hlo_emit_custom(hd_hlo *e, uint32_t node) {
    hd_ssa outputs[HD_MAX_OUTPUTS] = {{0}};
    const hd_error status = emit(e, node, outputs);
    if (status != HD_OK) hd_hlo_fail(e, status);
    e->seconds[node] = outputs[1];
    return outputs[0];
}
