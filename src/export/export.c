/* hd_script_export: a plan for the machine "C", then the two files. */
#include "core/file.h"
#include "core/options.h"
#include "core/os.h"
#include "export/source.h"
#include "script/script.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char hd_c_panels_text[]; /* panels.h, embedded by the build */
extern const size_t hd_c_panels_text_size;

/* ---- names ------------------------------------------------------------------------------------------------------- */
static hd_error check_name(const char *what, const char *name) {
    if (hd_c_is_name(name) && strlen(name) < 48) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "%s \"%.60s\"; it must be a name of C of up to 47 letters, digits and underscores%s",
                   what, name,
                   strcmp(what, "the prefix") == 0 ? " (.prefix gives another than the last part of the path)" : "");
}

/* A name of C for one of the script's: what C has, and what begins as names of the text do, gets an underscore. */
static hd_error name_one(const hd_net *net, const char *what, const char *name, char out[80]) {
    if (strlen(name) > 76)
        return hd_fail(HD_ERROR_VALUE, "the %s \"%.60s...\" has a name of %zu bytes; C gets up to 76", what, name,
                       strlen(name));
    hd_c_name(name, out, 80);
    const size_t n = strlen(net->prefix);
    const bool is_ours = (strncmp(out, net->prefix, n) == 0 || strncmp(out, net->upper, n) == 0) && out[n] == '_';
    if (is_ours || !hd_c_is_name(out)) strcat(out, "_");
    return HD_OK;
}

/* An output that is called as an input is y_out. */
static hd_error tell_apart(const hd_net *net, uint32_t input_count, const char *name, char out[80]) {
    for (uint32_t k = 0; k < input_count; ++k) {
        if (strcmp(net->inputs[k], out) != 0) continue;
        if (strlen(out) + 5 > 80)
            return hd_fail(HD_ERROR_VALUE, "an input and an output \"%.60s\"; give one another name", name);
        strcat(out, "_out");
        k = UINT32_MAX; /* which may be an input, too */
    }
    return HD_OK;
}

/* Names of C for those of inputs or outputs, which must differ from each other and from all before them. */
static hd_error name_all(hd_net *net, const hd_graph *g, hd_name_kind kind, const char *what, char (*out)[80],
                         uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        const char *name = hd_graph_string(g, hd_name_at(g, kind, i));
        HD_TRY(name_one(net, what, name, out[i]));
        if (kind == HD_NAME_OUTPUT) HD_TRY(tell_apart(net, g->input_count, name, out[i]));
        for (uint32_t k = 0; k < i; ++k)
            if (strcmp(out[k], out[i]) == 0)
                return hd_fail(HD_ERROR_VALUE,
                               "the %ss \"%.60s\" and \"%.60s\" are both \"%s\" in C; give one another name", what,
                               hd_graph_string(g, hd_name_at(g, kind, k)), name, out[i]);
    }
    return HD_OK;
}

/* Of what a run is called behind the prefix: other functions and constants of the text. */
static bool is_function_of_ours(const char *function) {
    static const char *const others[] = {"init",  "resume", "seed", "H",        "ARENA",
                                         "STATE", "ALIGN",  "WORK", "INFINITY", "NAN"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i)
        if (strcmp(function, others[i]) == 0) return true;
    return function[0] != '\0' && strchr("cpsw", function[0]) != NULL && isdigit((unsigned char)function[1]) &&
           strspn(function + 1, "0123456789") == strlen(function + 1);
}

/* It stands behind the prefix, so it may begin with a digit. */
static hd_error check_ending(const char *function) {
    char name[64] = "_";
    if (strlen(function) < 48) strcat(name, function);
    return hd_c_is_name(name) && function[0] != '\0' && strlen(function) < 48
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, ".function = \"%.60s\"; it is up to 47 letters, digits and underscores",
                         function);
}

static hd_error begin(hd_net *net, hd_thread *thread, hd_script *script, const char *path, const hd_export_opts *o) {
    const char *slash = strrchr(path, '/'), *last = slash != NULL ? slash + 1 : path;
    const char *prefix = o->prefix != NULL ? o->prefix : last, *function = o->function != NULL ? o->function : "run";
    *net = (hd_net){.thread = thread,
                    .alignment = o->alignment > 0 ? o->alignment : 8,
                    .is_small = o->goal == HD_EXPORT_SIZE,
                    .all_state = o->all_state,
                    .cells = script->cells};
    HD_TRY(check_name("the prefix", prefix));
    HD_TRY(check_ending(function));
    if (is_function_of_ours(function))
        return hd_fail(HD_ERROR_VALUE, ".function = \"%s\"; that is another function of the text, or a constant of it",
                       function);
    if (o->alignment < 0 || (o->alignment & (o->alignment - 1)) != 0 || o->alignment > 4096)
        return hd_fail(HD_ERROR_VALUE, ".alignment = %d; it is a power of two up to 4096, or 0", o->alignment);
    if (o->goal != HD_EXPORT_SPEED && o->goal != HD_EXPORT_SIZE)
        return hd_fail(HD_ERROR_VALUE, ".goal = %d; it is HD_EXPORT_SPEED or HD_EXPORT_SIZE", (int)o->goal);
    if (net->alignment < 8) net->alignment = 8;
    if (strlen(last) >= sizeof net->file)
        return hd_fail(HD_ERROR_VALUE, "the name of the file is longer than 127 bytes");
    for (const char *c = last; *c != '\0'; ++c)
        if ((unsigned char)*c < ' ' || strchr("\"\\?<>", *c) != NULL)
            return hd_fail(HD_ERROR_VALUE, "the file \"%.60s\"; a name with %s cannot be included", last,
                           (unsigned char)*c < ' ' ? "a line in it" : "\", \\, ?, < or >");
    snprintf(net->prefix, sizeof net->prefix, "%s", prefix);
    snprintf(net->file, sizeof net->file, "%s", last);
    snprintf(net->function, sizeof net->function, "%s", function);
    for (size_t i = 0; i <= strlen(prefix); ++i) net->upper[i] = (char)toupper((unsigned char)prefix[i]);
    return HD_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void *zeros(size_t count, size_t size, hd_error *status) {
    void *memory = hd_array_resize(NULL, (count + 1) * size);
    if (memory == NULL)
        *status = hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C");
    else
        memset(memory, 0, (count + 1) * size);
    return memory;
}

static size_t aligned(const hd_net *net, size_t bytes) {
    const size_t a = (size_t)net->alignment;
    return (bytes + a - 1) / a * a;
}

static hd_error make_arrays(hd_net *net) {
    const hd_graph *g = net->plan->graph;
    hd_error status = HD_OK;
    net->words = zeros(0, sizeof *net->words, &status);
    net->extra = zeros(net->plan->buffer_count, sizeof *net->extra, &status);
    net->cell_at = zeros(g->cell_count, sizeof *net->cell_at, &status);
    net->inputs = zeros(g->input_count, sizeof *net->inputs, &status);
    net->outputs = zeros(g->output_count, sizeof *net->outputs, &status);
    net->constant_said = zeros(g->constant_count, sizeof *net->constant_said, &status);
    net->cell_said = zeros(g->cell_count, sizeof *net->cell_said, &status);
    return status;
}

/* State: seed and count of draws, then each cell that a run updates. */
static void lay_out_state(hd_net *net) {
    const hd_graph *g = net->plan->graph;
    size_t at = g->draws > 0 ? aligned(net, 16) : 0;
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        net->cell_at[i] = SIZE_MAX;
        if (net->plan->state[i] == HD_NONE && !net->plan->sliced[i] && !net->all_state) continue;
        net->cell_at[i] = at;
        at += aligned(net, hd_node_bytes(g, g->cells[i].node));
    }
    net->state_bytes = at;
}

/* Behind the arena of the plan: new values of state that are made beside the old ones. */
static void lay_out_arena(hd_net *net) {
    const hd_plan *p = net->plan;
    size_t at = aligned(net, (size_t)p->executable.arena_bytes);
    for (uint32_t i = 0; i < p->buffer_count; ++i) {
        net->extra[i] = SIZE_MAX;
        if (p->buffers[i].placement != HD_IN_STATE) continue;
        net->extra[i] = at;
        at += aligned(net, p->buffers[i].storage.bytes);
    }
    net->arena_bytes = at;
}

/* .function = "check_0": the text has a function of its own of that name. */
static hd_error check_function(const hd_net *net) {
    const size_t n = strlen(net->prefix);
    for (uint32_t i = 0; i < net->known_count; ++i)
        if (strcmp(net->known[i].name + n + 1, net->function) == 0)
            return hd_fail(HD_ERROR_VALUE, ".function = \"%s\"; that is another function of the text", net->function);
    return HD_OK;
}

static hd_error check_sizes(const hd_plan *p) {
    for (uint32_t i = 0; i < p->graph->node_count; ++i)
        if (hd_node_bytes(p->graph, i) > INT32_MAX)
            return hd_fail(HD_ERROR_SHAPE, "node %%%u has %zu bytes; C counts up to 2^31 - 1 of them", i,
                           hd_node_bytes(p->graph, i));
    return HD_OK;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */
/* New values that were made beside the old ones take their place. */
static hd_error say_state(hd_net *net) {
    const hd_plan *p = net->plan;
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == HD_NONE || p->buffers[p->state[i]].placement != HD_IN_STATE) continue;
        hd_c_text_line(&net->body, "for (size_t i = 0; i < %zu; ++i) state[%zu + i] = arena[%zu + i];",
                       p->buffers[p->state[i]].storage.bytes, net->cell_at[i], net->extra[p->state[i]]);
    }
    if (p->graph->draws > 0) hd_c_text_line(&net->body, "random[1] += %u;", p->graph->draws);
    return HD_OK;
}

static hd_error say_run(hd_net *net) {
    const hd_plan *p = net->plan;
    net->body.indent = 1;
    for (uint32_t i = 0; i < p->launch_count; ++i) HD_TRY(hd_net_say_launch(net, &p->launches[i]));
    if (net->refused_count > 0)
        return hd_fail(HD_ERROR_STATE, "C has no function for %d of %u nodes:%s", net->refused_count,
                       p->graph->node_count, hd_c_text_string(&net->refused));
    HD_TRY(check_function(net));
    HD_TRY(say_state(net));
    net->arena_bytes = aligned(net, net->arena_bytes);
    if (net->arena_bytes + net->workspace > INT32_MAX || net->state_bytes > INT32_MAX)
        return hd_fail(HD_ERROR_SHAPE,
                       "it takes an arena of %zu bytes and a state of %zu; C gets up to 2^31 - 1 of each",
                       net->arena_bytes + net->workspace, net->state_bytes);
    return HD_OK;
}

/* ---- both files -------------------------------------------------------------------------------------------------- */
/* float logits[1][10] */
static void say_parameter(const hd_net *net, hd_c_text *t, uint32_t node, const char *name, bool is_input) {
    const hd_graph *g = net->plan->graph;
    const hd_shape shape = hd_node_shape(g, node);
    const char *type = hd_c_type((hd_dtype)g->nodes[node].dtype);
    if (shape.rank == 0) {
        hd_c_text_say(t, is_input ? ", %s %s" : ", %s *%s", type, name);
        return;
    }
    hd_c_text_say(t, ", %s%s %s", is_input ? "const " : "", type, name);
    if (hd_shape_count(shape) == 0) {
        hd_c_text_say(t, "[1]");
        return;
    }
    for (int i = 0; i < shape.rank; ++i) hd_c_text_say(t, "[%lld]", (long long)shape.size[i]);
}

static void say_prototype(const hd_net *net, hd_c_text *t) {
    const hd_graph *g = net->plan->graph;
    hd_c_text_say(t, "int %s_%s(%s *n", net->prefix, net->function, net->prefix);
    for (uint32_t i = 0; i < g->input_count; ++i) say_parameter(net, t, g->inputs[i].node, net->inputs[i], true);
    for (uint32_t i = 0; i < g->output_count; ++i) say_parameter(net, t, g->outputs[i].node, net->outputs[i], false);
    hd_c_text_say(t, ")");
}

/* What C calls it, and in quotes what the script does, where that is something else. */
static void say_name(hd_c_text *t, const char *in_c, const char *name) {
    if (in_c != NULL) hd_c_text_say(t, " %s", in_c);
    if (in_c != NULL && strcmp(in_c, name) == 0) return;
    hd_c_text_say(t, " \"");
    hd_c_say_in_comment(t, name);
    hd_c_text_say(t, "\"");
}

static void say_entries(const hd_net *net, hd_c_text *t, hd_name_kind kind, const char *what, char (*names)[80],
                        uint32_t count) {
    const hd_graph *g = net->plan->graph;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t node = kind == HD_NAME_INPUT    ? g->inputs[i].node
                              : kind == HD_NAME_OUTPUT ? g->outputs[i].node
                                                       : g->cells[i].node;
        const hd_shape shape = hd_node_shape(g, node);
        hd_c_text_say(t, " *   %s", what);
        say_name(t, names != NULL ? names[i] : NULL, hd_graph_string(g, hd_name_at(g, kind, i)));
        hd_c_text_say(t, ": %s %s", hd_dtype_name((hd_dtype)g->nodes[node].dtype), HD_SHAPE_TEXT(shape));
        if (kind == HD_NAME_CELL && net->cell_at[i] != SIZE_MAX)
            hd_c_text_say(t, ", byte %zu of the state", net->cell_at[i]);
        if (kind == HD_NAME_CELL && net->cell_at[i] == SIZE_MAX) hd_c_text_say(t, ", a constant");
        hd_c_text_say(t, "\n");
    }
}

static void say_header(const hd_net *net, hd_c_text *t) {
    const hd_graph *g = net->plan->graph;
    const char *p = net->prefix, *u = net->upper;
    hd_c_text_say(t, "/* %s: the script \"", p);
    hd_c_say_in_comment(t, hd_graph_string(g, g->name));
    hd_c_text_say(t, "\", written as C by hodu. It calls nothing and takes no memory.\n");
    say_entries(net, t, HD_NAME_INPUT, "input", net->inputs, g->input_count);
    say_entries(net, t, HD_NAME_OUTPUT, "output", net->outputs, g->output_count);
    if (g->draws > 0) hd_c_text_say(t, " *   state of random numbers, seed and count: u64 [2], byte 0 of the state\n");
    say_entries(net, t, HD_NAME_CELL, "state", NULL, g->cell_count);
    hd_c_text_say(t, " * bf16, f16, f8 and bool are bits in whole numbers. */\n#ifndef %s_H\n#define %s_H\n\n", u, u);
    hd_c_text_say(t, "#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    hd_c_text_say(
        t,
        "/* Bytes that %s_init is given, and what divides their addresses. What is in the arena counts during a\n"
        " * run alone; the state is kept from run to run. */\n"
        "enum { %s_ARENA = %zu, %s_STATE = %zu, %s_ALIGN = %d };\n\n",
        p, u, net->arena_bytes + net->workspace, u, net->state_bytes, u, net->alignment);
    hd_c_text_say(t,
                  "typedef struct %s {\n    unsigned char *arena, *state;\n"
                  "    int32_t at; /* of a check that failed: which element did not fit, counted from 0 */\n} %s;\n\n",
                  p, p);
    hd_c_text_say(t,
                  "/* Takes memory, and sets the state to its first values; -1 when memory is missing or badly "
                  "aligned, else 0. */\n"
                  "int %s_init(%s *n, void *arena, void *state);\n"
                  "/* The same with a state that is there already, from an earlier run. */\n"
                  "int %s_resume(%s *n, void *arena, void *state);\n",
                  p, p, p, p);
    if (g->draws > 0)
        hd_c_text_say(t, "/* Begins random numbers anew, as hd_seed does. */\nvoid %s_seed(%s *n, uint64_t seed);\n", p,
                      p);
    if (net->check_count == 0)
        hd_c_text_say(t, "/* Runs once; gives 0. Results must not overlap operands. */\n");
    else
        hd_c_text_say(
            t, "/* Runs once; gives 0, or which check failed, with n->at; then the state is as it was, and results\n"
               " * say nothing. Results must not overlap operands.\n");
    for (uint32_t i = 0; i < net->check_count; ++i)
        hd_c_text_say(t, " *   %u: %s%s\n", i + 1, net->checks[i].text, i + 1 == net->check_count ? " */" : "");
    say_prototype(net, t);
    hd_c_text_say(t, ";\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* First values of a cell in the state: a constant that is copied, or zeros. */
static hd_error say_first_value(hd_net *net, hd_c_text *before, hd_c_text *inside, uint32_t cell) {
    const hd_graph *g = net->plan->graph;
    const uint32_t node = g->cells[cell].node;
    const hd_dtype dtype = (hd_dtype)g->nodes[node].dtype;
    const int64_t count = hd_node_count(g, node);
    const size_t bytes = hd_node_bytes(g, node);
    const unsigned char *data = hd_storage_bytes(net->thread, net->cells[cell], HD_READ);
    char name[128];
    bool zero = true;
    if (data == NULL) return net->thread->error_code;
    for (size_t i = 0; i < bytes; ++i) zero = zero && data[i] == 0;
    if (count == 0) return HD_OK;
    if (zero) {
        hd_c_text_line(inside, "for (size_t i = 0; i < %zu; ++i) n->state[%zu + i] = 0;", bytes, net->cell_at[cell]);
        return HD_OK;
    }
    snprintf(name, sizeof name, "%s_s%u", net->prefix, cell);
    hd_net_say_elements(before, name, dtype, data, count);
    hd_c_text_line(inside, "for (size_t i = 0; i < %lld; ++i) ((%s *)(n->state + %zu))[i] = %s[i];", (long long)count,
                   hd_c_type(dtype), net->cell_at[cell], name);
    return HD_OK;
}

static hd_error say_beginning(hd_net *net, hd_c_text *t) {
    const hd_graph *g = net->plan->graph;
    const char *p = net->prefix, *u = net->upper;
    hd_c_text inside = {.indent = 1}, before = {.indent = 0};
    hd_error status = HD_OK;
    for (uint32_t i = 0; i < g->cell_count && status == HD_OK; ++i)
        if (net->cell_at[i] != SIZE_MAX) status = say_first_value(net, &before, &inside, i);
    if (g->draws > 0) hd_c_text_line(&inside, "%s_seed(n, 0);", p);
    hd_c_text_say(t, "\n/* ---- beginning ---- */\n");
    hd_c_text_add(t, &before);
    hd_c_text_say(
        t,
        "int %s_resume(%s *n, void *arena, void *state) {\n"
        "    if (n == NULL || (%s_ARENA > 0 && arena == NULL) || (%s_STATE > 0 && state == NULL)) return -1;\n"
        "    if ((uintptr_t)arena %% %s_ALIGN != 0 || (uintptr_t)state %% %s_ALIGN != 0) return -1;\n"
        "    n->arena = (unsigned char *)arena;\n    n->state = (unsigned char *)state;\n    n->at = 0;\n"
        "    return 0;\n}\n",
        p, p, u, u, u, u);
    if (g->draws > 0)
        hd_c_text_say(t,
                      "void %s_seed(%s *n, uint64_t seed) {\n    ((uint64_t *)n->state)[0] = seed;\n"
                      "    ((uint64_t *)n->state)[1] = 0;\n}\n",
                      p, p);
    hd_c_text_say(
        t, "int %s_init(%s *n, void *arena, void *state) {\n    if (%s_resume(n, arena, state) != 0) return -1;\n", p,
        p, p);
    hd_c_text_add(t, &inside);
    hd_c_text_say(t, "    return 0;\n}\n");
    hd_c_text_release(&before);
    hd_c_text_release(&inside);
    return status;
}

static hd_error say_words(hd_net *net, hd_c_text *t) {
    hd_writer w = {.out = NULL, .capacity = 0};
    if (!hd_write_plain_preamble(&w, net->words)) return net->thread->error_code;
    const size_t most = w.at * 2 + 4096; /* spaces are taken back as it is written */
    char *room = hd_c_text_room(t, most);
    if (room == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C");
    w = (hd_writer){.out = room, .capacity = most};
    if (!hd_write_plain_preamble(&w, net->words)) return net->thread->error_code;
    t->count += w.at;
    return HD_OK;
}

/* True when a name stands in a text by itself. */
static bool says_name(const char *text, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; ++at) {
        const char before = at > text ? at[-1] : ' ', after = at[length];
        if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)after) && after != '_')
            return true;
    }
    return false;
}

static hd_error say_source(hd_net *net, hd_c_text *t) {
    const char *p = net->prefix, *u = net->upper;
    hd_c_text_say(t, "/* %s: written by hodu; %s.h says what it does. */\n#include \"%s.h\"\n\n", p, net->file,
                  net->file);
    HD_TRY(say_words(net, t));
    hd_c_text_say(
        t, "#if defined(__GNUC__)\n#define NET_INFINITY __builtin_inff()\n#define NET_NAN __builtin_nanf(\"\")\n#else\n"
           "#define NET_INFINITY (1e30f * 1e30f)\n#define NET_NAN (NET_INFINITY - NET_INFINITY)\n#endif\n");
    if (net->has_panels) {
        char *room = hd_c_text_room(t, hd_c_panels_text_size);
        if (room == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C");
        memcpy(room, hd_c_panels_text, hd_c_panels_text_size);
        t->count += hd_c_panels_text_size;
        t->at[t->count] = '\0';
    }
    if (net->workspace > 0) hd_c_text_say(t, "enum { NET_WORK = %zu };\n", net->arena_bytes);
    hd_c_text_say(t, "\n/* ---- constants ---- */\n");
    hd_c_text_add(t, &net->constants);
    hd_c_text_say(t, "\n/* ---- functions ---- */");
    hd_c_text_add(t, &net->functions);
    HD_TRY(say_beginning(net, t));
    hd_c_text_say(t, "\n/* ---- a run ---- */\n");
    say_prototype(net, t);
    hd_c_text_say(t, " {\n");
    const char *body = hd_c_text_string(&net->body);
    if (says_name(body, "arena")) hd_c_text_say(t, "    unsigned char *const arena = n->arena;\n");
    if (says_name(body, "state")) hd_c_text_say(t, "    unsigned char *const state = n->state;\n");
    if (net->plan->graph->draws > 0) hd_c_text_say(t, "    uint64_t *const random = (uint64_t *)n->state;\n");
    if (net->draws) hd_c_text_say(t, "    const uint64_t seed = random[0], draw = random[1];\n");
    hd_c_text_say(t, "    (void)n;\n");
    for (uint32_t i = 0; i < net->plan->graph->input_count; ++i)
        if (!says_name(body, net->inputs[i])) hd_c_text_say(t, "    (void)%s;\n", net->inputs[i]);
    for (uint32_t i = 0; i < net->plan->graph->output_count; ++i)
        if (!says_name(body, net->outputs[i])) hd_c_text_say(t, "    (void)%s;\n", net->outputs[i]);
    hd_c_text_add(t, &net->body);
    hd_c_text_say(t, "    return 0;\n}\n");
    (void)u;
    return HD_OK;
}

typedef struct net_file {
    hd_net *net;
    const char *path, *extension;
    const hd_c_text *text;
    struct net_file *other; /* takes its place before this one does */
    bool other_failed;
} net_file;

static hd_error write_file(net_file *f);

static hd_error fill_file(void *user, int descriptor) {
    net_file *f = user;
    HD_TRY(hd_file_write_at(descriptor, f->text->at, f->text->count, 0));
    const hd_error status = f->other == NULL ? HD_OK : write_file(f->other);
    f->other_failed = status != HD_OK;
    return status;
}

static hd_error write_file(net_file *f) {
    char full[4096];
    if (f->text->failed) return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C");
    if ((size_t)snprintf(full, sizeof full, "%s%s", f->path, f->extension) >= sizeof full)
        return hd_fail(HD_ERROR_VALUE, "a path of more than %zu bytes", sizeof full - 1);
    const hd_error status = hd_file_replace(f->net->thread, full, fill_file, f);
    if (status == HD_OK || f->other_failed) return status;
    return hd_file_reword(f->net->thread, HD_OK, "\"%s\" ", hd_file_short(full));
}

/* Both or none: a new header beside an old source would tell wrong sizes of memory. */
static hd_error write_files(hd_net *net, const char *path) {
    hd_c_text header = {.indent = 0}, source = {.indent = 0};
    hd_c_text *const parts[] = {&net->functions, &net->body, &net->constants, &net->bodies, &net->refused};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) source.failed = source.failed || parts[i]->failed;
    say_header(net, &header);
    hd_error status =
        source.failed ? hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C") : say_source(net, &source);
    net_file source_file = {.net = net, .path = path, .extension = ".c", .text = &source};
    net_file header_file = {.net = net, .path = path, .extension = ".h", .text = &header, .other = &source_file};
    if (status == HD_OK && source.failed) status = hd_fail(HD_ERROR_MEMORY, "no memory for the text of a script in C");
    if (status == HD_OK) status = write_file(&header_file);
    hd_c_text_release(&header);
    hd_c_text_release(&source);
    return status;
}

static hd_error export(hd_net *net, const char *path) {
    const hd_graph *g = net->plan->graph;
    HD_TRY(check_sizes(net->plan));
    HD_TRY(make_arrays(net));
    HD_TRY(name_all(net, g, HD_NAME_INPUT, "input", net->inputs, g->input_count));
    HD_TRY(name_all(net, g, HD_NAME_OUTPUT, "output", net->outputs, g->output_count));
    lay_out_state(net);
    lay_out_arena(net);
    HD_TRY(say_run(net));
    return write_files(net, path);
}

static void release(hd_net *net) {
    hd_c_text *const texts[] = {&net->functions, &net->body, &net->constants, &net->bodies, &net->refused};
    void *const arrays[] = {net->known,  net->checks,  net->words,         net->extra,     net->cell_at,
                            net->inputs, net->outputs, net->constant_said, net->cell_said, net->saved};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) hd_c_text_release(texts[i]);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) hd_array_release(arrays[i]);
    if (net->plan != NULL) net->plan->executable.destroy(&net->plan->executable, net->thread);
    hd_graph_release(net->thread, net->graph);
}

void hd_script_export(hd_script *script, const char *path, const hd_export_opts *opts) {
    HD_ENTER("hd_script_export", );
    HD_HOLD_ERRORS(thread);
    HD_READ_OPTS(hd_export_opts, opts, );
    if (hd_script_check_argument(script) != HD_OK || hd_script_check_eager(thread) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (path == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "path is NULL");
        return;
    }
    hd_net net;
    if (begin(&net, thread, script, path, &options) != HD_OK) return;
    HD_KEEP_NAME(thread);
    hd_machine machine = hd_c_machine;
    machine.target.alignment = (uint16_t)net.alignment;
    net.graph = hd_graph_simplify(thread, script->graph);
    net.plan = net.graph == NULL ? NULL : hd_plan_new(thread, net.graph, &machine, HD_O2, NULL, NULL);
    if (net.plan != NULL) export(&net, path);
    release(&net);
}
