/* Scripts as plain C, compiled here with -O3 -march=native, beside the same scripts as our own compiler has them: on
 * one thread, and with AVX2 on our side, as its bar asks. */
#include "compare.h"

#include <dlfcn.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "bench_export: %s\n", what);
    exit(1);
}

typedef int run_function(void *net, const void *x, void *y);
typedef int init_function(void *net, void *arena, void *state);

/* The script of a block, exported, compiled and opened: its function, ready to run. */
static run_function *compiled(hd_script *s, char *net) {
    static _Alignas(64) unsigned char arena[1 << 24];
    const char *base = getenv("TMPDIR");
    char folder[300], path[320], command[2048];
    snprintf(folder, sizeof folder, "%s/hodu-bench-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL) fail(folder);
    snprintf(path, sizeof path, "%s/net", folder);
    hd_script_export(s, path, NULL);
    if (!hd_ok()) fail(hd_error_message());
    snprintf(command, sizeof command,
             "cd '%s' && ${CC:-cc} -std=c99 -ffp-contract=fast -O3 -march=native -shared -fPIC net.c -o net.so",
             folder);
    if (system(command) != 0) fail(command);
    snprintf(path, sizeof path, "%s/net.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail(dlerror());
    init_function *init;
    run_function *run;
    *(void **)&init = dlsym(library, "net_init");
    *(void **)&run = dlsym(library, "net_run");
    if (init == NULL || run == NULL || init(net, arena, arena) != 0) fail("net_init");
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    if (system(command) != 0) fail(command);
    return run;
}

static void time_block(bench *b, block s) {
    HD_SCOPE;
    hd_tensor *w[BLOCK_WEIGHTS];
    char net[64];
    hd_set_num_threads(1);
    block_make_weights(s, w);
    hd_tensor *x = input_numbers(HD_SHAPE(s.batch, s.in), 1), *y = hd_zeros(HD_SHAPE(s.batch, s.out), HD_F32);
    hd_script *script = block_script(s, w, x);
    const void *from = hd_data(x, HD_F32);
    void *to = hd_data_mut(y, HD_F32);
    run_function *run = compiled(script, net);
    run(net, from, to);
    hd_tensor *same = hd_outputs_at(hd_script_run(script), 0);
    if (!(hd_item(hd_max(hd_abs(hd_sub(same, y)), HD_AXES(), NULL)) < 1e-4)) fail("the results differ");
    while (bench_round(b)) {
        BENCH(b, "hodu") run(net, from, to);
        BENCH(b, "script") {
            HD_SCOPE;
            hd_script_run(script);
        }
    }
}
static void mlp_small(bench *b) { time_block(b, block_small); }
static void mlp_middle(bench *b) { time_block(b, block_middle); }

static const bench_case cases[] = {
    {"export/mlp-32x256x512x256", "us", mlp_small},
    {"export/mlp-64x512x1024x512", "us", mlp_middle},
};

int main(int argc, char **argv) {
    setenv("HODU_ISA", "avx2", 1);
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
