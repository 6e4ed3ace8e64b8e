/* LAPACK, opened at first use. Where it lies is asked once in a process: HODU_LAPACK, or else OpenBLAS, which is quick
 * and has all of LAPACK, or else whatever the system calls LAPACK. */
#include "device/cpu/lapack.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/os.h"
#include "core/pool.h"
#include "core/late.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static struct {
    pthread_once_t once;
    char missing[400]; /* "": it is there */
    hd_lapack f32, f64;
    void (*set_threads)(int count); /* of OpenBLAS; NULL: another's */
    _Atomic int threads;            /* that it was told */
} lapack = {.once = PTHREAD_ONCE_INIT};

static const char remedy[] = "install OpenBLAS (Debian: libopenblas0-pthread), or say where a LAPACK is with "
                             "HODU_LAPACK=path";

static void *open_any(void) {
    static const char *const names[] = {"libopenblas.so.0", "liblapack.so.3", "libopenblas.dylib"};
    const char *given = hd_environment("HODU_LAPACK");
    if (given != NULL) /* it is meant: no other place is looked at */
        return hd_driver_open(given, "LAPACK", "LAPACK at HODU_LAPACK", remedy, lapack.missing, sizeof lapack.missing);
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; ++i)
        library = hd_driver_open(names[i], "LAPACK", "LAPACK", remedy, lapack.missing, sizeof lapack.missing);
    return library;
}

static void open_once(void) {
    void *library = open_any();
    if (library == NULL) return;
    lapack.missing[0] = '\0'; /* what an earlier name had said */
    const char *lacks = NULL;
#define FUNCTION(name, parameters)                                                                                     \
    *(void **)&lapack.f32.name = hd_os_library_symbol(library, "s" #name "_");                                         \
    *(void **)&lapack.f64.name = hd_os_library_symbol(library, "d" #name "_");                                         \
    if (lapack.f32.name == NULL || lapack.f64.name == NULL) lacks = #name;
    HD_LAPACK_FUNCTIONS(FUNCTION)
#undef FUNCTION
    if (lacks != NULL)
        snprintf(lapack.missing, sizeof lapack.missing, "the LAPACK that is here has no s%s_ and d%s_; %s", lacks,
                 lacks, remedy);
    *(void **)&lapack.set_threads = hd_os_library_symbol(library, "openblas_set_num_threads");
}

const hd_lapack *hd_lapack_open(hd_thread *thread, hd_dtype dtype) {
    (void)thread;
    pthread_once(&lapack.once, open_once);
    if (lapack.missing[0] != '\0') {
        hd_fail(HD_ERROR_STATE, "%s", lapack.missing);
        return NULL;
    }
    const int threads = hd_pool_threads();
    if (lapack.set_threads != NULL && atomic_exchange(&lapack.threads, threads) != threads) lapack.set_threads(threads);
    return dtype == HD_F64 ? &lapack.f64 : &lapack.f32;
}
