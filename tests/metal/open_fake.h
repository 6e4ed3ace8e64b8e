/* Metal's device on the fake, which compiles text as C++ and runs it on the CPU. */
#ifndef HD_TESTS_METAL_OPEN_FAKE_H
#define HD_TESTS_METAL_OPEN_FAKE_H

#include "metal/compiled.h"
#include "metal/fake_metal.h"

static fake_metal *fake;
/* Why there is none; NULL: it is open. */
static inline const char *open_fake(void) {
    if (compiled_by() == NULL) return "there is no C++ compiler";
    setenv("HODU_CACHE", "0", 1);
    setenv("FAKE_METAL", "1", 1);
    void *metal = dlopen(FAKE_METAL, RTLD_NOW | RTLD_LOCAL);
    if (metal == NULL || dlopen(FAKE_OBJC, RTLD_NOW | RTLD_LOCAL) == NULL ||
        dlopen(FAKE_FOUNDATION, RTLD_NOW | RTLD_LOCAL) == NULL)
        return dlerror();
    fake = dlsym(metal, "fake_metal_now");
    fake->memory = (size_t)64 << 20;
    return NULL;
}

#endif
