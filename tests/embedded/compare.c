/* Runs the cases of a net that write_nets wrote, and compares with what its script gave on the host at O0. Sums are
 * made in another order there, so values may be apart by ULP units in the last place of the largest of a result, or by
 * APART. Of answers (CLASSES), all are the same. */
#include "board.h"
#include "net.h"
#include "cases.h" /* run_case, got, and what is expected of all cases, one behind the other */

/* Another ARENA is too small (nets_can_fail.sh). */
#ifndef ARENA
#define ARENA NET_ARENA
#endif
static _Alignas(NET_ALIGN) unsigned char arena[ARENA > 0 ? ARENA : 1], state[NET_STATE > 0 ? NET_STATE : 1];

static float size_of(float value) { return value < 0 ? -value : value; }

#ifdef ULP
/* A unit in the last place of a value, which is no denormal. */
static float unit_of(float value) {
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = value;
    both.bits = (both.bits & 0x7f800000) - (23u << 23);
    return both.value;
}
#endif

#ifdef CLASSES
static int largest_of(const float *values) {
    int at = 0;
    for (int i = 1; i < COUNT; ++i)
        if (values[i] > values[at]) at = i;
    return at;
}
#endif

static float most = 0; /* that a value was apart, in units or as it is */

static int differs(const float *wanted) {
    float largest = 0, apart = 0;
    for (int i = 0; i < COUNT; ++i) {
        const float difference = size_of(got[i] - wanted[i]);
        if (!(difference <= apart)) apart = difference; /* a NaN stays */
        if (size_of(wanted[i]) > largest) largest = size_of(wanted[i]);
    }
#ifdef ULP
    apart /= unit_of(largest);
    const float limit = (float)ULP;
#else
    const float limit = (float)APART;
#endif
    if (!(apart <= most)) most = apart;
#ifdef CLASSES
    if (largest_of(got) != largest_of(wanted)) return 1;
#endif
    return !(apart <= limit);
}

static int run_cases(net *n, uint32_t *instructions) {
    int failed = 0;
    for (int k = 0; k < CASES && failed < 5; ++k) {
        int status = -1;
        INSTRUCTIONS_OF(*instructions, status = run_case(n, k));
        if (status == 0 && !differs(expected + k * COUNT)) continue;
        print("case ");
        print_int(k);
        print(" returns ");
        print_int(status);
        print(", and its first elements are ");
        print_float(got[0]);
        print(" and ");
        print_float(expected[k * COUNT]);
        print("\n");
        ++failed;
    }
    return failed;
}

int main(void) {
    net n;
    uint32_t instructions = 0;
    if (net_init(&n, arena, state) != 0) return 2;
#ifdef SEED_CASE
    seed_case(&n);
#endif
    const int failed = run_cases(&n, &instructions);
    print_figure("arena", NET_ARENA);
    print_figure("state", NET_STATE);
    print_figure("instructions", (int32_t)instructions);
#ifdef ULP
    print_figure("hundredths of a unit apart", (int32_t)(100 * most));
#else
    print_figure("billionths apart", (int32_t)(1e9f * most));
#endif
    return failed != 0;
}
