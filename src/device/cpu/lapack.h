/* LAPACK, and what of BLAS goes with it: a library of the system's that is opened when the first matrix comes. hodu is
 * built without it. Matrices lie column after column there, integers have 32 bits, and all arguments are addresses;
 * behind them Fortran wants the length of each string. */
#ifndef HD_DEVICE_CPU_LAPACK_H
#define HD_DEVICE_CPU_LAPACK_H

#include "core/thread.h"

#include <stddef.h>
#include <stdint.h>

typedef const char *hd_lapack_word; /* one letter */
typedef const int32_t *hd_lapack_int;

/* FUNCTION(name, parameters): sname_ and dname_. `info` is 0 when all went well, and -i when argument i is wrong. */
#define HD_LAPACK_FUNCTIONS(FUNCTION)                                                                                  \
    FUNCTION(gemm, (hd_lapack_word, hd_lapack_word, hd_lapack_int m, hd_lapack_int n, hd_lapack_int k,                 \
                    const void *alpha, const void *a, hd_lapack_int lda, const void *b, hd_lapack_int ldb,             \
                    const void *beta, void *c, hd_lapack_int ldc, size_t, size_t))                                     \
    FUNCTION(trsm, (hd_lapack_word side, hd_lapack_word triangle, hd_lapack_word turn, hd_lapack_word diagonal,        \
                    hd_lapack_int m, hd_lapack_int n, const void *alpha, const void *a, hd_lapack_int lda, void *b,    \
                    hd_lapack_int ldb, size_t, size_t, size_t, size_t))                                                \
    FUNCTION(potrf, (hd_lapack_word triangle, hd_lapack_int n, void *a, hd_lapack_int lda, int32_t *info, size_t))     \
    FUNCTION(getrf, (hd_lapack_int m, hd_lapack_int n, void *a, hd_lapack_int lda, int32_t *pivots, int32_t *info))    \
    FUNCTION(getrs, (hd_lapack_word turn, hd_lapack_int n, hd_lapack_int columns, const void *a, hd_lapack_int lda,    \
                     const int32_t *pivots, void *b, hd_lapack_int ldb, int32_t *info, size_t))                        \
    FUNCTION(getri, (hd_lapack_int n, void *a, hd_lapack_int lda, const int32_t *pivots, void *work,                   \
                     hd_lapack_int work_size, int32_t *info))                                                          \
    FUNCTION(gelqf, (hd_lapack_int m, hd_lapack_int n, void *a, hd_lapack_int lda, void *tau, void *work,              \
                     hd_lapack_int work_size, int32_t *info))                                                          \
    FUNCTION(orglq, (hd_lapack_int m, hd_lapack_int n, hd_lapack_int k, void *a, hd_lapack_int lda, const void *tau,   \
                     void *work, hd_lapack_int work_size, int32_t *info))                                              \
    FUNCTION(syevd, (hd_lapack_word vectors, hd_lapack_word triangle, hd_lapack_int n, void *a, hd_lapack_int lda,     \
                     void *values, void *work, hd_lapack_int work_size, int32_t *ints, hd_lapack_int ints_size,        \
                     int32_t *info, size_t, size_t))                                                                   \
    FUNCTION(gesdd, (hd_lapack_word vectors, hd_lapack_int m, hd_lapack_int n, void *a, hd_lapack_int lda,             \
                     void *values, void *u, hd_lapack_int ldu, void *vt, hd_lapack_int ldvt, void *work,               \
                     hd_lapack_int work_size, int32_t *ints, int32_t *info, size_t))

typedef struct hd_lapack {
#define FUNCTION(name, parameters) void(*name) parameters;
    HD_LAPACK_FUNCTIONS(FUNCTION)
#undef FUNCTION
} hd_lapack;

/* Its functions for f32 or f64, those of OpenBLAS sharing large work among as many threads as the pool has now. NULL
 * with an error that says what to install. */
const hd_lapack *hd_lapack_open(hd_thread *thread, hd_dtype dtype);

#endif
