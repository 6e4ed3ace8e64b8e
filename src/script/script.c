/* Scripts: inputs, choices, compiling, state. */
#include "script/script.h"
#include "core/away.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os.h"
#include "core/undo.h"
#include "grad/tape.h"
#include "graph/builder.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- compilers --------------------------------------------------------------------------------------------------- */
static struct {
    pthread_once_t once;
    const hd_compiler_interface *hodu, *xla;
} compilers = {.once = PTHREAD_ONCE_INIT};

void hd_compiler_register(hd_compiler compiler, const hd_compiler_interface *interface) {
    if (compiler == HD_COMPILER_HODU) compilers.hodu = interface;
    if (compiler == HD_COMPILER_XLA) compilers.xla = interface;
}

const hd_compiler_interface *hd_compiler_interface_of(hd_compiler compiler) {
    pthread_once(&compilers.once, hd_library_open_compilers);
    return compiler == HD_COMPILER_HODU ? compilers.hodu : compiler == HD_COMPILER_XLA ? compilers.xla : NULL;
}

hd_error hd_compiler_check(hd_compiler compiler, hd_device device) {
    const hd_compiler_interface *interface = hd_compiler_interface_of(compiler);
    if (interface != NULL) return interface->available(device);
    return compiler == HD_COMPILER_XLA ? hd_fail(HD_ERROR_DEVICE, "this library was built without XLA (HODU_XLA=OFF); "
                                                                  "HD_COMPILER_HODU is there")
                                       : hd_fail(HD_ERROR_DEVICE, "this library was linked without the compiler HODU");
}

hd_executable *hd_compiler_compile(hd_compiler compiler, hd_thread *thread, hd_graph *graph, hd_device device,
                                   hd_optimization_level level, hd_carried *carried) {
    const hd_compiler_interface *interface = hd_compiler_interface_of(compiler);
    if (interface != NULL) return interface->compile(thread, graph, device, level, carried);
    hd_compiler_check(compiler, device);
    return NULL;
}

hd_error hd_compiler_default(hd_compiler *out) {
    const char *wish = hd_environment("HODU_COMPILER");
    *out = HD_COMPILER_HODU;
    if (wish == NULL || strcmp(wish, "hodu") == 0) return HD_OK;
    *out = HD_COMPILER_XLA;
    if (strcmp(wish, "xla") == 0) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "HODU_COMPILER is \"%.60s\" in the environment; it can be hodu or xla", wish);
}

/* Why a compiler does not run on a device here; NULL: it does. What is pending stays so. */
static const char *why_not(hd_thread *thread, hd_compiler compiler, hd_device device, char out[512]) {
    if (compiler != HD_COMPILER_HODU && compiler != HD_COMPILER_XLA) return "there is no such compiler";
    HD_HOLD_ERRORS(thread);
    hd_error_copy before, why;
    hd_error_take(&before);
    const bool runs = hd_compiler_check(compiler, device) == HD_OK;
    hd_error_take(&why);
    hd_error_put_back(&before);
    if (runs) return NULL;
    const size_t name = strlen(why.call); /* in front of the message, with ": " */
    snprintf(out, 512, "%s", why.message + (name > 0 ? name + 2 : 0));
    return out;
}

const char *hd_compiler_missing(hd_compiler compiler, hd_device device) {
    HD_ENTER_ALWAYS("hd_compiler_missing", "there is no memory for this thread's context");
    return why_not(thread, compiler, device.kind == HD_DEVICE_DEFAULT ? thread->device : device, thread->reason);
}

bool hd_compiler_available(hd_compiler compiler) {
    HD_ENTER_ALWAYS("hd_compiler_available", false);
    return why_not(thread, compiler, thread->device, (char[512]){0}) == NULL;
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */
static void drop_executable(hd_thread *thread, hd_script *s) {
    if (s->executable != NULL) s->executable->destroy(s->executable, thread);
    s->executable = NULL;
}

static void script_destroy(hd_thread *thread, hd_object *object) {
    hd_script *s = (hd_script *)object;
    drop_executable(thread, s);
    if (s->carried != NULL) hd_object_release(thread, &s->carried->object);
    if (s->last != NULL) hd_object_release(thread, &s->last->object);
    for (uint32_t i = 0; s->inputs != NULL && i < s->graph->input_count; ++i) hd_tensor_drop(thread, s->inputs[i]);
    for (uint32_t i = 0; s->cells != NULL && i < s->graph->cell_count; ++i)
        if (s->cells[i] != NULL) hd_object_release(thread, &s->cells[i]->object);
    hd_array_release(s->inputs);
    hd_array_release(s->cells);
    hd_graph_release(thread, s->graph);
    hd_object_bury(thread, object);
}
static const char *script_title(const hd_object *object) {
    const hd_graph *g = ((const hd_script *)object)->graph;
    return hd_graph_string(g, g->name);
}
static const hd_kind script_kind = {.name = "script",
                                    .destroy = script_destroy,
                                    .title = script_title,
                                    .remedy = "one thread at a time may use it: give each thread a script of its own "
                                              "with hd_script_clone, before they start"};

hd_error hd_script_check_argument(const hd_script *s) {
    if (s == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`script` is NULL");
    if (s->object.kind == &script_kind) return HD_OK;
    return hd_fail(s->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`script` is no living script");
}

hd_script *hd_script_over(hd_thread *thread, hd_graph *graph, bool own_state) {
    hd_compiler compiler;
    HD_TRY_OR(hd_compiler_default(&compiler), NULL);
    hd_script *s = hd_array_resize(NULL, sizeof *s);
    if (s == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a script");
        return NULL;
    }
    memset(s, 0, sizeof *s);
    hd_object_init(&s->object, &script_kind);
    hd_count(&thread->live_objects, 1);
    hd_object_retain(&graph->object);
    s->graph = graph;
    s->compiler = compiler;
    s->device = thread->device;
    s->level = HD_O2;
    s->inputs = hd_array_resize(NULL, (graph->input_count + 1) * sizeof *s->inputs);
    s->cells = hd_array_resize(NULL, (graph->cell_count + 1) * sizeof *s->cells);
    if (s->inputs != NULL) memset(s->inputs, 0, (graph->input_count + 1) * sizeof *s->inputs);
    if (s->cells != NULL) memset(s->cells, 0, (graph->cell_count + 1) * sizeof *s->cells);
    if (s->inputs == NULL || s->cells == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a script");
    for (uint32_t i = 0; s->cells != NULL && i < graph->cell_count && thread->error_code == HD_OK; ++i) {
        if (own_state) {
            s->cells[i] = hd_storage_snapshot(thread, graph->cells[i].storage);
        } else {
            hd_object_retain(&graph->cells[i].storage->object);
            s->cells[i] = graph->cells[i].storage;
        }
    }
    if (thread->error_code != HD_OK) {
        hd_object_release(thread, &s->object);
        return NULL;
    }
    return hd_scope_own(thread, &s->object) == HD_OK ? s : NULL;
}

hd_script *hd_builder_build(hd_builder *builder) {
    HD_ENTER("hd_builder_build", NULL);
    HD_TRY_OR(hd_builder_check(builder), NULL);
    HD_USE(&builder->object, false, NULL);
    hd_graph *graph = hd_builder_graph(builder);
    if (graph == NULL) return NULL;
#ifndef NDEBUG
    HD_TRY_OR(hd_graph_verify(thread, graph), NULL);
#endif
    return hd_script_over(thread, graph, false);
}

hd_script *hd_script_clone(hd_script *script) {
    HD_ENTER("hd_script_clone", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_USE(&script->object, false, NULL);
    hd_script *s = hd_script_over(thread, script->graph, true);
    if (s == NULL) return NULL;
    s->compiler = script->compiler;
    s->device = script->device;
    s->level = script->level;
    s->carried = script->carried;
    if (s->carried != NULL) hd_object_retain(&s->carried->object);
    for (uint32_t i = 0; i < script->graph->cell_count;
         ++i) { /* state as it is in the script, not as it was recorded */
        hd_storage *own = hd_storage_snapshot(thread, script->cells[i]);
        if (own == NULL) return NULL;
        hd_object_release(thread, &s->cells[i]->object);
        s->cells[i] = own;
    }
    for (uint32_t i = 0; i < script->graph->input_count; ++i) {
        s->inputs[i] = script->inputs[i];
        if (s->inputs[i] != NULL) hd_object_retain(&s->inputs[i]->object);
    }
    return s;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */
void hd_script_put_input(hd_thread *thread, hd_script *s, const char *name, hd_tensor *t) {
    const hd_graph *g = s->graph;
    const uint32_t i = hd_graph_find(g, HD_NAME_INPUT, name);
    if (i == HD_NO_NODE) {
        char names[256];
        hd_script_list_names(g, HD_NAME_INPUT, names, sizeof names);
        hd_fail(HD_ERROR_VALUE, "the script \"%s\" has no input \"%s\"; it has %s", hd_graph_string(g, g->name),
                name ? name : "", names);
        return;
    }
    const uint32_t node = g->inputs[i].node;
    const hd_shape shape = hd_node_shape(g, node);
    if ((hd_dtype)t->dtype != (hd_dtype)g->nodes[node].dtype || !hd_shape_equal(t->layout.shape, shape)) {
        hd_fail((hd_dtype)t->dtype != (hd_dtype)g->nodes[node].dtype ? HD_ERROR_DTYPE : HD_ERROR_SHAPE,
                "the input \"%s\" is %s %s; given is %s %s", name, hd_dtype_name((hd_dtype)g->nodes[node].dtype),
                HD_SHAPE_TEXT(shape), hd_dtype_name((hd_dtype)t->dtype), HD_SHAPE_TEXT(t->layout.shape));
        return;
    }
    if (t->storage->home != NULL && t->storage->home->captured) {
        hd_fail(HD_ERROR_STATE, "the input \"%s\" is given a value that a builder recorded and that is not known yet",
                name);
        return;
    }
    hd_object_retain(&t->object);
    hd_tensor_drop(thread, s->inputs[i]);
    s->inputs[i] = t;
}

static void set_input(hd_thread *thread, hd_script *s, const char *name, hd_tensor *t) {
    if (hd_script_check_argument(s) != HD_OK || hd_tensor_check(t, "t") != HD_OK) return;
    HD_USE(&s->object, false, );
    hd_script_put_input(thread, s, name, t);
}

void hd_script_set_input(hd_script *script, const char *name, hd_tensor *t) {
    HD_ENTER("hd_script_set_input", );
    set_input(thread, script, name, t);
}
void hd_script_add_input(hd_script *script, const char *name, hd_tensor *t) {
    HD_ENTER("hd_script_add_input", );
    set_input(thread, script, name, t);
}

void hd_script_drop_inputs(hd_thread *thread, hd_script *s) {
    for (uint32_t i = 0; i < s->graph->input_count; ++i) {
        hd_tensor_drop(thread, s->inputs[i]);
        s->inputs[i] = NULL;
    }
}

void hd_script_clear_inputs(hd_script *script) {
    HD_ENTER_ALWAYS("hd_script_clear_inputs", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    hd_script_drop_inputs(thread, script);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */
/* Checks that a compiler may run on some device. */
static hd_error check_present(hd_compiler compiler, hd_device device) {
    const hd_compiler_interface *interface = hd_compiler_interface_of(compiler);
    return interface != NULL && interface->present != NULL ? interface->present(device)
                                                           : hd_compiler_check(compiler, device);
}

static void choose_compiler(hd_thread *thread, hd_script *s, hd_compiler compiler) {
    HD_HOLD_ERRORS(thread);
    if (hd_script_check_argument(s) != HD_OK) return;
    HD_USE(&s->object, false, );
    if (compiler != HD_COMPILER_HODU && compiler != HD_COMPILER_XLA) {
        hd_fail(HD_ERROR_VALUE, "%d is no compiler; there are HD_COMPILER_HODU and HD_COMPILER_XLA", (int)compiler);
    } else if (compiler == HD_COMPILER_XLA && s->compiler != compiler && check_present(compiler, s->device) != HD_OK) {
        hd_error_append(thread, "; the script keeps HODU");
    } else if (s->compiler != compiler) { /* whether it runs on the device is seen when both have been chosen */
        drop_executable(thread, s);
        s->compiler = compiler;
    }
}

void hd_script_set_compiler(hd_script *script, hd_compiler compiler) {
    HD_ENTER("hd_script_set_compiler", );
    choose_compiler(thread, script, compiler);
}
void hd_script_set_backend(hd_script *script, hd_compiler compiler) {
    HD_ENTER("hd_script_set_backend", );
    choose_compiler(thread, script, compiler);
}

void hd_script_set_device(hd_script *script, hd_device device) {
    HD_ENTER("hd_script_set_device", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (script->device.kind == device.kind && script->device.index == device.index) return;
    char hodu[512], xla[512]; /* the compiler may be chosen later */
    if (why_not(thread, HD_COMPILER_HODU, device, hodu) != NULL &&
        why_not(thread, HD_COMPILER_XLA, device, xla) != NULL) {
        hd_fail(HD_ERROR_DEVICE, "device %s is not available here, and the script keeps its own. %.120s. %s",
                hd_device_text((char[32]){0}, device), hodu, xla);
        return;
    }
    drop_executable(thread, script);
    script->device = device;
}

void hd_script_set_optimization_level(hd_script *script, hd_optimization_level level) {
    HD_ENTER("hd_script_set_optimization_level", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (level != HD_LEVEL_DEFAULT && (level < HD_O0 || level > HD_O3)) {
        hd_fail(HD_ERROR_VALUE, "%d is no level; there are HD_O0 to HD_O3", (int)level);
        return;
    }
    if (level == HD_LEVEL_DEFAULT) level = HD_O2;
    if (script->level == level) return;
    drop_executable(thread, script);
    script->level = level;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
hd_error hd_script_check_eager(const hd_thread *thread) {
    return thread->executor->captures
               ? hd_fail(HD_ERROR_STATE,
                         "a script cannot run while a builder records on this thread; end it, or use HD_EAGER")
               : HD_OK;
}

hd_error hd_script_make_executable(hd_thread *thread, hd_script *s) {
    if (s->executable != NULL) return HD_OK;
    const int64_t begin = hd_os_nanoseconds();
    /* HODU_DEBUG=nan: every op alone, as it was recorded, so that the one that gives NaN can be named */
    const bool alone = hd_debug_nan() && hd_device_available(s->device);
    hd_undo *undo = thread->undo;
    thread->undo = NULL; /* trial runs write memory of their own */
    s->executable = hd_compiler_compile(alone ? HD_COMPILER_HODU : s->compiler, thread, s->graph, s->device,
                                        alone ? HD_O0 : s->level, s->carried);
    thread->undo = undo;
    if (s->executable == NULL) return thread->error_code;
    s->compile_ms = (double)(hd_os_nanoseconds() - begin) / 1e6;
    s->compilations++;
    return HD_OK;
}

void hd_script_compile(hd_script *script) {
    HD_ENTER("hd_script_compile", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (hd_script_check_eager(thread) == HD_OK) hd_script_make_executable(thread, script);
}

hd_error hd_script_check_inputs(const hd_script *s) {
    const hd_graph *g = s->graph;
    char names[256];
    size_t length = 0;
    int missing = 0;
    for (uint32_t i = 0; i < g->input_count; ++i) {
        if (s->inputs[i] != NULL) continue;
        if (length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"", missing > 0 ? ", " : "",
                                       hd_graph_string(g, g->inputs[i].name));
        ++missing;
    }
    return missing == 0 ? HD_OK
                        : hd_fail(HD_ERROR_STATE, "%d input%s not set: %s; hd_script_set_input does that", missing,
                                  missing > 1 ? "s are" : " is", names);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
/* A tensor over the storage of a cell; the current scope's. */
static hd_tensor *cell_tensor(hd_thread *thread, const hd_script *s, const char *name) {
    const hd_graph *g = s->graph;
    const uint32_t i = hd_graph_find(g, HD_NAME_CELL, name);
    if (i != HD_NO_NODE) {
        const hd_shape shape = hd_node_shape(g, g->cells[i].node);
        hd_layout layout;
        hd_layout_contiguous(&layout, &shape);
        return hd_tensor_give(thread,
                              hd_tensor_over(thread, s->cells[i], (hd_dtype)g->nodes[g->cells[i].node].dtype, &layout));
    }
    char names[256];
    hd_script_list_names(g, HD_NAME_CELL, names, sizeof names);
    hd_fail(HD_ERROR_VALUE, "the script \"%s\" has no state or bound tensor \"%s\"; it has %s",
            hd_graph_string(g, g->name), name ? name : "", names);
    return NULL;
}

hd_tensor *hd_script_state(hd_script *script, const char *name) {
    HD_ENTER("hd_script_state", NULL);
    HD_TRY_OR(hd_script_check_argument(script), NULL);
    HD_USE(&script->object, false, NULL);
    return cell_tensor(thread, script, name);
}

void hd_script_set_state(hd_script *script, const char *name, hd_tensor *value) {
    HD_ENTER("hd_script_set_state", );
    if (hd_script_check_argument(script) != HD_OK || hd_tensor_check(value, "value") != HD_OK ||
        hd_script_check_eager(thread) != HD_OK)
        return;
    HD_USE(&script->object, false, );
    hd_span span;
    hd_span_begin(&span, thread, "script_set_state");
    hd_tensor *cell = cell_tensor(thread, script, name);
    if (cell != NULL) {
        HD_NO_GRAD;
        if (!hd_shape_equal(cell->layout.shape, value->layout.shape) || cell->dtype != value->dtype)
            hd_fail(HD_ERROR_SHAPE, "\"%s\" is %s %s; given is %s %s", name, hd_dtype_name((hd_dtype)cell->dtype),
                    HD_SHAPE_TEXT(cell->layout.shape), hd_dtype_name((hd_dtype)value->dtype),
                    HD_SHAPE_TEXT(value->layout.shape));
        else
            hd_assign(cell, hd_to(value, cell->storage->device));
    }
    hd_span_end(&span, NULL);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
/* Why what was compiled is not the code that the file carries; NULL: it is, or nobody asked for it. */
static const char *why_not_carried(const hd_script *s) {
    if (s->carried == NULL || s->carried->missing != NULL) return s->carried == NULL ? NULL : s->carried->missing;
    if (s->executable == NULL) return NULL;
    const hd_code_stats *code = &s->executable->code;
    if (code->kernels == code->from_file || code->unused != NULL) return code->unused;
    return "a file carries code that HODU compiled for the CPU, and this was compiled otherwise";
}

hd_script_figures hd_script_stats(const hd_script *script) {
    hd_script_figures f = {0};
    HD_ENTER_ALWAYS("hd_script_stats", f);
    if (hd_script_check_argument(script) != HD_OK) return f;
    HD_USE(&((hd_script *)script)->object, false, f); /* what it looks at changes when the script compiles */
    f.nodes = script->graph->node_count;
    for (uint32_t i = 0; i < script->graph->constant_count; ++i)
        f.constant_bytes += (int64_t)script->graph->constants[i].storage->bytes;
    f.compile_ms = script->compile_ms;
    f.compilations = script->compilations;
    f.runs = script->runs;
    f.native_unused = why_not_carried(script);
    if (script->executable != NULL) {
        f.compiled_nodes = script->executable->nodes;
        f.launches = script->executable->launches;
        f.jobs = script->executable->jobs;
        f.arena_bytes = script->executable->arena_bytes;
        const hd_code_stats *code = &script->executable->code;
        f.kernels = code->kernels;
        f.kernels_compiled = code->compiled;
        f.kernels_from_disk = code->from_disk;
        f.kernels_from_memory = code->from_memory;
        f.kernels_from_file = code->from_file;
        f.alternatives = script->executable->alternatives;
        f.peak_bytes = script->executable->peak_bytes;
        f.llvm_load_ms = (double)code->load_nanoseconds * 1e-6;
        f.code_ms = (double)code->compile_nanoseconds * 1e-6;
        f.link_ms = (double)code->link_nanoseconds * 1e-6;
        for (int64_t i = 0; script->executable->describe != NULL && i < f.launches; ++i) {
            hd_launch_stats launch;
            script->executable->describe(script->executable, i, &launch);
            f.operations += launch.operations;
            f.bytes_moved += launch.bytes;
        }
    }
    return f;
}

int64_t hd_script_format(const hd_script *script, char *out, size_t capacity) {
    HD_ENTER("hd_script_format", -1);
    HD_TRY_OR(hd_script_check_argument(script), -1);
    if (out == NULL && capacity > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return -1;
    }
    char *text = hd_graph_print(script->graph);
    if (text == NULL) return -1;
    const int64_t length = (int64_t)strlen(text);
    if (capacity > 0) snprintf(out, capacity, "%s", text);
    hd_array_release(text);
    return length;
}

void hd_script_print(const hd_script *script) {
    HD_ENTER("hd_script_print", );
    if (hd_script_check_argument(script) != HD_OK) return;
    char *text = hd_graph_print(script->graph);
    if (text != NULL) fputs(text, stdout);
    hd_array_release(text);
}
