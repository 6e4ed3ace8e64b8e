/* A process that opens a GPU and gets one result of the MLP block: cuda_process DEVICE [small] prints how long opening
 * the device took, and how long from recording the block to its result; cuda.c runs it. */
#include "cuda_device.h"
#include "static.h"

#include <stdio.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    HD_SCOPE;
    hd_device there;
    if (argc < 2 || !device_of(argv[1], &there)) {
        fprintf(stderr, "usage: %s cuda|opencl[:INDEX] [small]\n", argv[0]);
        return 2;
    }
    const block s = argc > 2 ? (block){4, 16, 32, 16} : block_small;
    hd_tensor *w[BLOCK_WEIGHTS];
    block_make_weights(s, w);
    hd_tensor *x = input_numbers(HD_SHAPE(s.batch, s.in), 1);
    const double begin = now_ms();
    hd_set_device(there);
    hd_zeros(HD_SHAPE(2, 3), HD_F32);
    hd_synchronize();
    const double opened = now_ms();
    hd_script *script = block_script(s, w, x);
    hd_script_set_device(script, there);
    const double y = (double)*hd_data_f32(hd_outputs_at(hd_script_run(script), 0));
    printf("open %.3f ms, first result %.3f ms (%g)\n", opened - begin, now_ms() - opened, y);
    return hd_exit_status();
}
