/* Where the time of a run goes. */
#include "core/device.h"
#include "script/script.h"

#include <stdio.h>
#include <string.h>

static void print_launch(const hd_launch_stats *f, double microseconds, double share, double gflops, double gbytes) {
    const double seconds = microseconds * 1e-6, flops = seconds > 0 ? f->operations / seconds * 1e-9 : 0,
                 bytes = seconds > 0 ? f->bytes / seconds * 1e-9 : 0;
    printf("%10.2f %5.1f %% %9.1f %4.0f %% %8.1f %4.0f %%  %s%s%s\n", microseconds, share * 100, flops,
           gflops > 0 ? flops / gflops * 100 : 0, bytes, gbytes > 0 ? bytes / gbytes * 100 : 0, f->what,
           f->sizes[0] != '\0' ? ": " : "", f->sizes);
}

static void print_profile(const hd_executable *e, hd_device device, const int64_t *nanoseconds, int runs) {
    double gflops, gbytes, all = 0;
    hd_device_interface_of(device.kind)->peak(device.index, &gflops, &gbytes);
    hd_launch_stats f, total = {.what = "all"};
    for (int64_t i = 0; i < e->launches; ++i) all += (double)nanoseconds[i];
    printf("this machine: %.0f GFLOP/s, %.1f GB/s from memory; mean of %d runs, each value's memory counted once\n",
           gflops, gbytes, runs);
    printf("%10s %7s %9s %6s %8s %6s  %s\n", "us", "share", "GFLOP/s", "peak", "GB/s", "peak", "launch");
    for (int64_t i = 0; i < e->launches; ++i) {
        e->describe(e, i, &f);
        total.operations += f.operations;
        total.bytes += f.bytes;
        print_launch(&f, (double)nanoseconds[i] * 1e-3 / runs, all > 0 ? (double)nanoseconds[i] / all : 0, gflops,
                     gbytes);
    }
    print_launch(&total, all * 1e-3 / runs, 1, gflops, gbytes);
}

void hd_script_profile(hd_script *script, int runs) {
    HD_ENTER("hd_script_profile", );
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    if (hd_script_check_eager(thread) != HD_OK || hd_script_check_inputs(script) != HD_OK ||
        hd_script_make_executable(thread, script) != HD_OK)
        return;
    hd_executable *e = script->executable;
    if (runs < 1) hd_fail(HD_ERROR_VALUE, "%d runs; at least 1 is needed", runs);
    if (runs >= 1 && e->describe == NULL)
        hd_fail(HD_ERROR_STATE, "XLA has no profile; hd_script_set_compiler(script, HD_COMPILER_HODU) before it");
    if (thread->error_code != HD_OK) return;
    int64_t *nanoseconds = hd_array_resize(NULL, ((size_t)e->launches + 1) * sizeof *nanoseconds);
    if (nanoseconds == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to time %lld launches", (long long)e->launches);
        return;
    }
    for (int i = -1; i < runs && thread->error_code == HD_OK; ++i) { /* the first run warms caches */
        if (i <= 0) memset(nanoseconds, 0, ((size_t)e->launches + 1) * sizeof *nanoseconds);
        hd_outputs *o = hd_script_run_executable(thread, script, e, script->graph, true, nanoseconds);
        if (o != NULL) hd_object_release(thread, &o->object);
    }
    if (thread->error_code == HD_OK) print_profile(e, script->device, nanoseconds, runs);
    hd_array_release(nanoseconds);
}
