/* What is in a module, as text; and what a forward of it takes, which a builder records, so that nothing is computed.
 * An observer is told of all calls, and of the modules that they are made in. */
#include "graph/builder.h"
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

/* ---- what a forward takes ---------------------------------------------------------------------------------------- */
/* Of one module, wherever it is in the tree. */
typedef struct tally {
    const hd_module *module;
    double operations; /* of all its forwards */
    int64_t calls;
    char outputs[96]; /* of the first one, "[4,10] f32" */
} tally;

typedef struct report {
    hd_observer observer; /* first: the observer is the report */
    hd_observer *before;
    tally *tallies;
    int64_t count, capacity;
    int64_t open[HD_MODULE_DEPTH + 1]; /* the tallies of the modules that run; -1: of one outside the tree */
    int64_t depth;
    double operations, bytes; /* bytes: of results */
    bool measured;
    char *text;
    size_t length, text_capacity;
    bool no_memory;
} report;

static void release_report(report *r) {
    hd_array_release(r->tallies);
    hd_array_release(r->text);
    hd_array_release(r);
}

static int64_t tally_of(const report *r, const hd_module *m) {
    for (int64_t i = 0; i < r->count; ++i)
        if (r->tallies[i].module == m) return i;
    return -1;
}

static hd_error add_tally(hd_module *m, void *user) {
    report *r = user;
    if (tally_of(r, m) >= 0) return HD_OK;
    if (r->count == r->capacity) {
        const int64_t capacity = r->capacity ? r->capacity * 2 : 32;
        tally *tallies = hd_array_resize(r->tallies, (size_t)capacity * sizeof *tallies);
        if (tallies == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a list of modules");
        r->tallies = tallies;
        r->capacity = capacity;
    }
    r->tallies[r->count++] = (tally){.module = m};
    return HD_OK;
}

static hd_error call_ran(hd_observer *self, hd_thread *thread, const hd_call *call) {
    report *r = (report *)self;
    const double operations = call->op->work(call).operations;
    (void)thread;
    r->operations += operations;
    for (int64_t i = 0; i < r->depth; ++i)
        if (r->open[i] >= 0) r->tallies[r->open[i]].operations += operations;
    for (int i = 0; i < call->output_count && call->view == NULL; ++i)
        r->bytes += (double)call->outputs[i]->count * (double)hd_dtype_bytes[call->outputs[i]->dtype];
    return HD_OK;
}

static void module_begins(hd_observer *self, hd_module *m) {
    report *r = (report *)self;
    if (r->depth <= HD_MODULE_DEPTH) r->open[r->depth] = tally_of(r, m);
    r->depth++;
}

static void module_ends(hd_observer *self, hd_module *m, hd_tensor *const *y, int64_t count) {
    report *r = (report *)self;
    tally *t = r->open[--r->depth] >= 0 ? &r->tallies[r->open[r->depth]] : NULL;
    (void)m;
    if (t == NULL || t->calls++ > 0) return;
    size_t length = 0;
    for (int64_t i = 0; i < count && length < sizeof t->outputs; ++i)
        length += (size_t)snprintf(t->outputs + length, sizeof t->outputs - length, "%s%s %s", i > 0 ? ", " : "",
                                   HD_SHAPE_TEXT(y[i]->layout.shape), hd_dtype_name((hd_dtype)y[i]->dtype));
    if (length >= sizeof t->outputs) strcpy(t->outputs + sizeof t->outputs - 5, " ...");
}

static hd_error declare_buffer(void *user, const char *name, hd_tensor *t) {
    hd_builder *b = user;
    if (!hd_recording_knows(b->recording, t)) hd_builder_add_state(b, name, t);
    return hd_thread_self()->error_code;
}

/* A forward of inputs like these, recorded. */
static void record_forward(hd_thread *thread, report *r, hd_builder *b, hd_module *module, const hd_tensors *example) {
    char name[32];
    hd_tensors *inputs = hd_tensors_new(thread, example->count);
    if (inputs == NULL || hd_module_each(module, true, declare_buffer, b) != HD_OK) return;
    for (int64_t i = 0; i < example->count; ++i) {
        snprintf(name, sizeof name, "x%lld", (long long)i);
        hd_tensor *x = hd_input(name, example->items[i]->layout.shape, (hd_dtype)example->items[i]->dtype);
        if (x == NULL) return;
        hd_tensors_put(inputs, i, x);
    }
    r->before = thread->observer;
    thread->observer = &r->observer;
    if (module->class_->forward != NULL && inputs->count == 1)
        hd_forward(module, inputs->items[0]);
    else
        hd_forward_all(module, inputs);
    thread->observer = r->before;
    r->measured = thread->error_code == HD_OK;
}

/* A longjmp out of the forward. */
static void report_left(hd_thread *thread, const hd_ending *ending) {
    report *r = ending->object;
    if (thread->observer == &r->observer) thread->observer = r->before;
    release_report(r);
}

static void measure(hd_thread *thread, report *r, hd_module *module, const hd_tensors *example) {
    if (thread->executor->captures) {
        hd_fail(HD_ERROR_STATE, "a builder records; call it before or after, as it records a forward of its own");
        return;
    }
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_builder *b = hd_builder_new("example");
    if (b != NULL && hd_ending_push(thread, report_left, r, 0, 0) == HD_OK) {
        const uint32_t ending = hd_ending_last(thread);
        hd_builder_start(b);
        record_forward(thread, r, b, module, example);
        hd_builder_end(b);
        hd_ending_pop(thread, ending);
    }
    hd_scope_close(thread, &scope);
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */
static void add_text(report *r, const char *text) {
    const size_t length = strlen(text);
    if (r->length + length + 1 > r->text_capacity) {
        const size_t capacity = (r->length + length + 1) * 2;
        char *larger = r->no_memory ? NULL : hd_array_resize(r->text, capacity);
        r->no_memory = larger == NULL;
        if (larger == NULL) return;
        r->text = larger;
        r->text_capacity = capacity;
    }
    memcpy(r->text + r->length, text, length + 1);
    r->length += length;
}

/* 1234567 as "1,234,567". */
static const char *grouped(char out[32], double number) {
    char digits[32];
    const int count = snprintf(digits, sizeof digits, "%.0f", number < 1e20 ? number : 1e20);
    int length = 0;
    for (int i = 0; i < count; ++i) {
        if (i > 0 && (count - i) % 3 == 0) out[length++] = ',';
        out[length++] = digits[i];
    }
    out[length] = '\0';
    return out;
}

static const char *bytes_text(char out[32], double bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

typedef struct size {
    int64_t tensors, elements, wanted; /* wanted: elements that require gradients */
    double bytes;
} size;
static hd_error add_size(void *user, const char *name, hd_tensor *t) {
    size *s = user;
    (void)name;
    s->tensors++;
    s->elements += t->count;
    s->wanted += t->tracking != HD_UNTRACKED ? t->count : 0;
    s->bytes += (double)t->count * (double)hd_dtype_bytes[t->dtype];
    return HD_OK;
}

static hd_error add_line(report *r, hd_module *m, const char *name, int depth) {
    char line[320], a[32], b[32];
    static const tally none; /* it was added by the forward */
    const int64_t at = tally_of(r, m);
    const tally *t = at < 0 ? &none : &r->tallies[at];
    size parameters = {0};
    HD_TRY(hd_module_each(m, false, add_size, &parameters));
    const int indent = 2 * depth < 60 ? 2 * depth : 60;
    int length =
        snprintf(line, sizeof line, "%*s%.60s%s%.60s", indent, "", name, name[0] != '\0' ? ": " : "", m->class_->name);
    length += snprintf(line + length, sizeof line - (size_t)length, "%*s %12s", length < 36 ? 36 - length : 0, "",
                       grouped(a, (double)parameters.elements));
    if (r->measured && t->calls > 0)
        length +=
            snprintf(line + length, sizeof line - (size_t)length, " %16s  %s", grouped(b, t->operations), t->outputs);
    if (t->calls > 1) snprintf(line + length, sizeof line - (size_t)length, "  (%lld calls)", (long long)t->calls);
    add_text(r, line);
    add_text(r, "\n");
    return HD_OK;
}

static hd_error add_tree(hd_thread *thread, report *r, hd_module *m, const char *name, int depth) {
    uint64_t ends;
    if (depth > HD_MODULE_DEPTH) return hd_module_refuse_depth(m);
    HD_TRY(hd_module_enter(thread, m, false, &ends));
    hd_error status = add_line(r, m, name, depth);
    for (int64_t i = 0; i < m->member_count && status == HD_OK; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE)
            status = add_tree(thread, r, m->members[i].object, m->members[i].name, depth + 1);
    hd_module_leave(m, ends);
    return status;
}

static hd_error add_totals(report *r, hd_module *module) {
    char line[320], a[32], b[32], c[32];
    size parameters = {0}, buffers = {0};
    HD_TRY(hd_module_each(module, false, add_size, &parameters));
    HD_TRY(hd_module_each(module, true, add_size, &buffers));
    snprintf(line, sizeof line, "%s parameters in %lld tensors, %s, of which %s require gradients\n",
             grouped(a, (double)parameters.elements), (long long)parameters.tensors, bytes_text(b, parameters.bytes),
             grouped(c, (double)parameters.wanted));
    add_text(r, line);
    if (buffers.tensors > 0) {
        snprintf(line, sizeof line, "%s elements in buffers, %s\n", grouped(a, (double)buffers.elements),
                 bytes_text(b, buffers.bytes));
        add_text(r, line);
    }
    if (r->measured) {
        snprintf(line, sizeof line, "a forward of the example: %s operations, whose results take %s\n",
                 grouped(a, r->operations), bytes_text(b, r->bytes));
        add_text(r, line);
    }
    return HD_OK;
}

/* NULL with an error. */
static report *make_report(hd_thread *thread, hd_module *module, const hd_tensors *example) {
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    if (example != NULL) HD_TRY_OR(hd_tensors_check(example, "example"), NULL);
    report *r = hd_array_resize(NULL, sizeof *r);
    if (r == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a text");
        return NULL;
    }
    *r = (report){
        .observer = {.of_all = true, .ran = call_ran, .forward_begins = module_begins, .forward_ends = module_ends}};
    HD_KEEP_NAME(thread);
    hd_error status = hd_module_walk(thread, module, 0, add_tally, r);
    if (status == HD_OK && example != NULL) measure(thread, r, module, example);
    if (thread->error_code == HD_OK) {
        add_text(r, r->measured ? "module                                 parameters       operations  output\n"
                                : "module                                 parameters\n");
        status = add_tree(thread, r, module, "", 0);
        if (status == HD_OK) status = add_totals(r, module);
        if (r->no_memory) hd_fail(HD_ERROR_MEMORY, "no memory for a text");
    }
    if (thread->error_code == HD_OK) return r;
    release_report(r);
    return NULL;
}

int64_t hd_module_format(hd_module *module, hd_tensors *example, char *out, size_t capacity) {
    HD_ENTER("hd_module_format", -1);
    if (out == NULL && capacity > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return -1;
    }
    report *r = make_report(thread, module, example);
    if (r == NULL) return -1;
    const int64_t length = (int64_t)r->length;
    if (capacity > 0) snprintf(out, capacity, "%s", r->text);
    release_report(r);
    return length;
}

void hd_module_print(hd_module *module, hd_tensors *example) {
    HD_ENTER("hd_module_print", );
    report *r = make_report(thread, module, example);
    if (r == NULL) return;
    fputs(r->text, stdout);
    fflush(stdout);
    release_report(r);
}
