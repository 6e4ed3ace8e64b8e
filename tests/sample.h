/* What takes too long in full is tested by samples: one in so many, chosen by a seed, and a third of that under
 * sanitizers, which slow tests down at least so much. HODU_LONG=1 (`make check-long`) tests all of it. Each build has a
 * seed of its own (CMakePresets.json), so that together they test more than one does; HODU_TEST_SEED=n in the
 * environment chooses another, and a test prints the one that it ran with. */
#ifndef HD_TESTS_SAMPLE_H
#define HD_TESTS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Built with a sanitizer. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

static inline bool in_full(void) {
    const char *text = getenv("HODU_LONG");
    return text != NULL && text[0] != '\0' && text[0] != '0';
}

static inline uint64_t sample_seed(void) {
    static bool printed;
    const char *text = getenv("HODU_TEST_SEED");
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : 0;
    if (!printed) printf("samples of HODU_TEST_SEED=%llu\n", (unsigned long long)seed);
    printed = true;
    return seed;
}

/* Of cases 0, 1, 2, ... the first that is tested, and how far it is from one to the next. */
static inline uint64_t sample_step(uint64_t one_in) {
    return one_in == 1 || in_full() ? 1 : SANITIZED ? 3 * one_in : one_in;
}
static inline uint64_t sample_first(uint64_t one_in) {
    const uint64_t step = sample_step(one_in);
    return step == 1 ? 0 : sample_seed() % step;
}
/* All of them, but under sanitizers one in so many: for what is quick enough without. */
static inline uint64_t slow_step(uint64_t one_in) { return SANITIZED && !in_full() ? one_in : 1; }
static inline uint64_t slow_first(uint64_t one_in) {
    const uint64_t step = slow_step(one_in);
    return step == 1 ? 0 : sample_seed() % step;
}
static inline bool when_slow(uint64_t which, uint64_t one_in) {
    return which % slow_step(one_in) == slow_first(one_in);
}
/* All of them, but one in so many on a device whose driver compiles each kernel when it is first used, which takes
 * 50 to 150 ms there. */
static inline bool when_compiled(uint64_t which, uint64_t one_in) {
    const char *device = getenv("HODU_DEVICE");
    const bool compiles = device != NULL && strcmp(device, "cpu") != 0 && strcmp(device, "test") != 0;
    return !compiles || in_full() || which % one_in == sample_seed() % one_in;
}
/* Whether this case is among them. */
static inline bool sampled(uint64_t which, uint64_t one_in) {
    return which % sample_step(one_in) == sample_first(one_in);
}

#endif
