#include "codegen/processor.h"
#include "codegen/code.h"
#include "core/environment.h"
#include "core/os.h"

#include <stdbool.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

void hd_processor_text(char *out, size_t capacity) {
    out[0] = '\0';
#if defined(__x86_64__)
    static const unsigned leaves[][2] = {{0, 0}, {1, 0}, {7, 0}, {7, 1}, {0xd, 1}, {0x80000001, 0}};
    for (size_t i = 0, at = 0; i < sizeof leaves / sizeof leaves[0] && at < capacity; ++i) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        __get_cpuid_count(leaves[i][0], leaves[i][1], &a, &b, &c, &d);
        if (leaves[i][0] == 1) b = 0, c &= ~(1u << 27); /* which core it is, and what the system has turned on */
        if (leaves[i][0] == 0xd) b = c = d = 0;
        at += (size_t)snprintf(out + at, capacity - at, " %x.%x.%x.%x", a, b, c, d);
    }
#elif defined(__aarch64__)
    char known[128];
    hd_os_processor_text(known, sizeof known);
    snprintf(out, capacity, " %s", known);
#endif
}

/* What compilers take for granted where HODU_ISA says avx2: x86-64-v3, which is more than AVX2. */
static bool has_all_of_avx2(void) {
#if defined(__x86_64__)
    enum { FMA = 1 << 12, MOVBE = 1 << 22, F16C = 1 << 29, LZCNT = 1 << 5, BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8 };
    unsigned a = 0, b = 0, c = 0, d = 0, of_seven = 0, of_more = 0;
    __get_cpuid_count(0x80000001, 0, &a, &b, &of_more, &d);
    __get_cpuid_count(7, 0, &a, &of_seven, &c, &d);
    __get_cpuid_count(1, 0, &a, &b, &c, &d);
    return (c & (FMA | MOVBE | F16C)) == (FMA | MOVBE | F16C) && (of_more & LZCNT) != 0 &&
           (of_seven & (BMI | AVX2 | BMI2)) == (BMI | AVX2 | BMI2);
#else
    return false;
#endif
}

void hd_processor_code_text(char out[HD_PROCESSOR_TEXT]) {
#if defined(__x86_64__)
    static const char name[] = "x86-64";
#elif defined(__aarch64__)
    static const char name[] = "aarch64";
#else
    static const char name[] = "unknown";
#endif
    const int bytes = hd_code_vector_bytes();
    const hd_isa most = hd_environment_isa();
    const bool baseline = most == HD_ISA_BASELINE, avx2 = most == HD_ISA_AVX2 && bytes == 32 && has_all_of_avx2();
    const int at = snprintf(out, HD_PROCESSOR_TEXT, "%s %s %d", name,
                            baseline ? "baseline"
                            : avx2   ? "avx2"
                                     : "host",
                            bytes);
    if (!baseline && !avx2) hd_processor_text(out + at, HD_PROCESSOR_TEXT - (size_t)at);
}
