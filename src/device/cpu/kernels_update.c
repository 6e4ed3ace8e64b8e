/* Steps of optimizers for one instruction set HD_ISA, f32 and f64: everything that a parameter needs is read once, and
 * written once where it was. Each operation is rounded, as in the ops, so that both give the same bits: this file is
 * compiled without contraction. */
#include "device/cpu/kernels_isa.h"

#include <math.h>

/* The gradient as the step has it: turned round to climb, and a share of the value added. */
#define GRADIENT(T)                                                                                                    \
    const T toward = (T)(u->climbs ? -1 : 1), share = (T)u->share, keep = (T)u->keep, rate = (T)u->rate;               \
    T *restrict p = (T *)u->value + at;                                                                                \
    const T *restrict gradient = (const T *)u->gradient + at;
#define G (share != 0 ? toward * gradient[i] + share * p[i] : toward * gradient[i]) /* 0 * inf is no share */

#define UPDATES(T, t, root_of)                                                                                         \
    static void descend_##t(const hd_update *u, int64_t at, int64_t n) {                                               \
        GRADIENT(T)                                                                                                    \
        for (int64_t i = 0; i < n; ++i) p[i] = keep * p[i] - rate * G;                                                 \
    }                                                                                                                  \
    static void roll_##t(const hd_update *u, int64_t at, int64_t n) {                                                  \
        GRADIENT(T)                                                                                                    \
        T *restrict moved = (T *)u->slot[0] + at;                                                                      \
        const T old = (T)u->old[0], fresh = (T)u->fresh[0], ahead = (T)u->ahead;                                       \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const T g = G, m = old * moved[i] + fresh * g;                                                             \
            moved[i] = m;                                                                                              \
            p[i] = keep * p[i] - rate * (ahead != 0 ? g + ahead * m : m);                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void adapt_##t(const hd_update *u, int64_t at, int64_t n) {                                                 \
        GRADIENT(T)                                                                                                    \
        T *restrict first = (T *)u->slot[0] + at, *restrict second = (T *)u->slot[1] + at;                             \
        const T old1 = (T)u->old[0], fresh1 = (T)u->fresh[0], old2 = (T)u->old[1], fresh2 = (T)u->fresh[1],            \
                root = (T)u->root, epsilon = (T)u->epsilon;                                                            \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const T g = G, m = old1 * first[i] + fresh1 * g, v = old2 * second[i] + fresh2 * (g * g);                  \
            first[i] = m;                                                                                              \
            second[i] = v;                                                                                             \
            p[i] = keep * p[i] - m / (root_of(v) * root + epsilon) * rate;                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void update_##t(const hd_update *u, int64_t at, int64_t n) {                                                \
        switch (u->kind) {                                                                                             \
        case HD_UPDATE_DESCEND: descend_##t(u, at, n); break;                                                          \
        case HD_UPDATE_ROLL: roll_##t(u, at, n); break;                                                                \
        case HD_UPDATE_ADAPT: adapt_##t(u, at, n); break;                                                              \
        }                                                                                                              \
    }
UPDATES(float, f32, sqrtf)
UPDATES(double, f64, sqrt)

void KERNELS(hd_fill_update)(hd_cpu_kernels *table) {
    table->update_f32 = update_f32;
    table->update_f64 = update_f64;
}
