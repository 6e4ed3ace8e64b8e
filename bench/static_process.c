/* A program that uses one script: static_process infer|train small|middle|large makes the MLP block, compiles it, runs
 * it ten times and says what that took; static.c runs it. */
#include "most_resident.h"
#include "static.h"

#include <string.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    HD_SCOPE;
    const bool train = argc > 1 && strcmp(argv[1], "train") == 0;
    const char *size = argc > 2 ? argv[2] : "small";
    const block s = strcmp(size, "large") == 0 ? block_large : strcmp(size, "middle") == 0 ? block_middle : block_small;
    hd_script *script;
    double compiled;
    {
        HD_SCOPE; /* only the script holds the weights after it */
        hd_tensor *w[BLOCK_WEIGHTS];
        block_make_weights(s, w);
        hd_tensor *x = input_numbers(HD_SHAPE(s.batch, s.in), 1), *y = input_numbers(HD_SHAPE(s.batch, s.out), 2);
        const double begin = now_ms();
        script = hd_keep(train ? block_training_script(s, w, x, y) : block_script(s, w, x));
        hd_script_compile(script);
        compiled = now_ms() - begin;
    }
    for (int i = 0; i < 10; ++i) {
        HD_SCOPE;
        hd_script_run(script);
    }
    printf("compile %.3f ms, LLVM %.3f ms, most %.3f MB\n", compiled, hd_script_stats(script).llvm_load_ms,
           most_resident_mb());
    return hd_exit_status();
}
