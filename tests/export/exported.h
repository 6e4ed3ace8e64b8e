/* Scripts as C, compiled by the C compiler that is here and run in this process: nets are gathered, written into a
 * folder, compiled together, and called through functions that a wrapper beside them has. Around all memory that a net
 * is given lie zones that it must not touch. */
#ifndef HD_TESTS_EXPORTED_H
#define HD_TESTS_EXPORTED_H

#include "builders.h"
#include "differences.h"
#include "folder.h"

#include <hodu/hodu.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NET_VALUES = 16, NET_ZONE = 64, NET_FILL = 0xa5 };

typedef struct net_functions { /* what the wrapper has of a net */
    size_t arena, state, align;
    int (*init)(void *net, void *arena, void *state);
    int (*run)(void *net, void *const *in, void *const *out);
    void (*seed)(void *net, uint64_t seed);
    int32_t (*at)(void *net);
    size_t bytes; /* of the struct */
} net_functions;

typedef struct nets {
    FILE *wrapper;
    int count;
    void *library;
} nets;

static inline void begin_nets(nets *n) {
    char path[320];
    memset(n, 0, sizeof *n);
    snprintf(path, sizeof path, "%s/wrapper.c", folder);
    n->wrapper = fopen(path, "w");
    assert_non_null(n->wrapper);
    fprintf(n->wrapper, "#include <stddef.h>\n#include <stdint.h>\n");
}

/* An address among in or out as an argument; of a number that goes in, its value. */
static inline void wrap_argument(FILE *f, hd_script_entry e, const char *list, int64_t i, bool is_input) {
    static const char *const types[] = {
        [HD_F32] = "float",     [HD_F64] = "double",     [HD_BOOL] = "uint8_t",  [HD_I8] = "int8_t",
        [HD_I16] = "int16_t",   [HD_I32] = "int32_t",    [HD_I64] = "int64_t",   [HD_U8] = "uint8_t",
        [HD_U16] = "uint16_t",  [HD_U32] = "uint32_t",   [HD_U64] = "uint64_t",  [HD_F16] = "uint16_t",
        [HD_BF16] = "uint16_t", [HD_F8E4M3] = "uint8_t", [HD_F8E5M2] = "uint8_t"};
    if (is_input && e.shape.rank == 0)
        fprintf(f, ", *(const %s *)%s[%lld]", types[e.dtype], list, (long long)i);
    else
        fprintf(f, ", %s[%lld]", list, (long long)i);
}

/* True when some line of a file has these words. */
static inline bool file_says(const char *path, const char *words) {
    char line[512];
    bool found = false;
    FILE *text = fopen(path, "r");
    while (text != NULL && fgets(line, sizeof line, text) != NULL) found = found || strstr(line, words) != NULL;
    if (text != NULL) fclose(text);
    return found;
}

/* Writes net number n->count, called c<number>; false with a pending error. */
static inline bool add_net(nets *n, hd_script *s, const hd_export_opts *opts) {
    char path[320];
    const int k = n->count;
    snprintf(path, sizeof path, "%s/c%d", folder, k);
    hd_script_export(s, path, opts);
    if (!hd_ok()) return false;
    const char *run = opts != NULL && opts->function != NULL ? opts->function : "run";
    FILE *f = n->wrapper;
    snprintf(path, sizeof path, "%s/c%d.h", folder, k);
    const bool seeds = file_says(path, "_seed(");
    fprintf(f, "#include \"c%d.h\"\nstatic int init%d(void *n, void *a, void *s) { return c%d_init(n, a, s); }\n", k, k,
            k);
    fprintf(f, "static int run%d(void *n, void *const *in, void *const *out) { (void)in; (void)out; return c%d_%s(n", k,
            k, run);
    for (int64_t i = 0; i < hd_script_input_count(s); ++i) wrap_argument(f, hd_script_input_at(s, i), "in", i, true);
    for (int64_t i = 0; i < hd_script_output_count(s); ++i)
        wrap_argument(f, hd_script_output_at(s, i), "out", i, false);
    fprintf(f, "); }\nstatic void seed%d(void *n, uint64_t seed) { ", k);
    fprintf(f, seeds ? "c%d_seed(n, seed); }\n" : "(void)n; (void)seed; }\n", k);
    fprintf(f, "static int32_t at%d(void *n) { return ((c%d *)n)->at; }\n", k, k);
    fprintf(
        f,
        "struct net_functions%d { size_t arena, state, align; int (*init)(void *, void *, void *); int (*run)(void "
        "*, void *const *, void *const *); void (*seed)(void *, uint64_t); int32_t (*at)(void *); size_t bytes; };\n",
        k);
    fprintf(f,
            "extern const struct net_functions%d functions%d;\nconst struct net_functions%d functions%d = {C%d_ARENA, "
            "C%d_STATE, C%d_ALIGN, init%d, run%d, seed%d, at%d, sizeof(c%d)};\n",
            k, k, k, k, k, k, k, k, k, k, k, k);
    n->count++;
    return true;
}

#if defined(__SANITIZE_ADDRESS__)
#define NET_CHECKS "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=alignment"
#else
#define NET_CHECKS ""
#endif

/* Compiles all of them. The wrapper passes void * for arrays, and is no part of what is tested. */
static inline void compile_nets(nets *n, const char *options) {
    char command[2048], path[320];
    fclose(n->wrapper);
    snprintf(command, sizeof command,
             "cd '%s' && printf '%%s\\n' c*.c | xargs -P 2 -n 8 ${CC:-cc} -std=c99 -ffreestanding -Wall -Wextra "
             "-Wpedantic -Werror "
             "-O1 %s %s -fPIC -c && "
             "${CC:-cc} -w -O1 -fPIC -c wrapper.c && ${CC:-cc} -shared %s -o nets.so *.o -lm",
             folder, NET_CHECKS, options, NET_CHECKS);
    if (system(command) != 0) fail_msg("the exported C does not compile: %s", folder);
    snprintf(path, sizeof path, "%s/nets.so", folder);
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (n->library == NULL) fail_msg("%s", dlerror());
}

static inline void end_nets(nets *n) {
    if (n->library != NULL) dlclose(n->library);
    folder_entries(true);
}

/* ---- one net, with its memory ------------------------------------------------------------------------------------ */
typedef struct zoned { /* memory between two zones */
    unsigned char *all, *at;
    size_t bytes;
} zoned;
static inline zoned zoned_new(size_t bytes) {
    zoned z = {.bytes = bytes};
    z.all = aligned_alloc(64, (bytes + 2 * NET_ZONE + 63) / 64 * 64);
    memset(z.all, NET_FILL, (bytes + 2 * NET_ZONE + 63) / 64 * 64);
    z.at = z.all + NET_ZONE;
    return z;
}
static inline void zoned_end(zoned *z, const char *what) {
    for (size_t i = 0; i < NET_ZONE; ++i)
        if (z->all[i] != NET_FILL || z->at[z->bytes + i] != NET_FILL) fail_msg("%s was written beside", what);
    free(z->all);
}

typedef struct net_run {
    const net_functions *f;
    zoned arena, state, net;
} net_run;

static inline net_run net_begin(nets *n, int k) {
    char name[32];
    snprintf(name, sizeof name, "functions%d", k);
    net_run r = {.f = dlsym(n->library, name)};
    assert_non_null(r.f);
    r.arena = zoned_new(r.f->arena);
    r.state = zoned_new(r.f->state);
    r.net = zoned_new(r.f->bytes);
    assert_int_equal(r.f->init(r.net.at, r.arena.at, r.state.at), 0);
    return r;
}
static inline void net_end(net_run *r) {
    zoned_end(&r->arena, "the arena");
    zoned_end(&r->state, "the state");
    zoned_end(&r->net, "the net");
}

/* Runs it on tensors; its outputs, as those of the script are, in `out`. Returns what it returns. */
static inline int net_call(net_run *r, hd_script *s, hd_tensor *const *in, hd_tensor **out) {
    zoned inputs[NET_VALUES], outputs[NET_VALUES];
    void *from[NET_VALUES], *to[NET_VALUES];
    const int64_t ins = hd_script_input_count(s), outs = hd_script_output_count(s);
    for (int64_t i = 0; i < ins; ++i) {
        const size_t bytes = (size_t)hd_tensor_count(in[i]) * hd_dtype_bytes[hd_tensor_dtype(in[i])];
        inputs[i] = zoned_new(bytes);
        hd_to_array(in[i], inputs[i].at, hd_tensor_dtype(in[i]), hd_tensor_count(in[i]));
        from[i] = inputs[i].at;
    }
    for (int64_t i = 0; i < outs; ++i) {
        const hd_script_entry e = hd_script_output_at(s, i);
        outputs[i] = zoned_new((size_t)hd_shape_count(e.shape) * hd_dtype_bytes[e.dtype]);
        to[i] = outputs[i].at;
    }
    const int status = r->f->run(r->net.at, from, to);
    for (int64_t i = 0; i < outs; ++i) {
        const hd_script_entry e = hd_script_output_at(s, i);
        out[i] = hd_from_data(outputs[i].at, e.shape, e.dtype);
        zoned_end(&outputs[i], "an output");
    }
    for (int64_t i = 0; i < ins; ++i) zoned_end(&inputs[i], "an input");
    return status;
}

#endif
