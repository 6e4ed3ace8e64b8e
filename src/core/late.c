/* Libraries that are opened late. */
#include "core/late.h"
#include "core/environment.h"
#include "core/os.h"

#include <stdio.h>

void *hd_driver_open(const char *library, const char *whose, const char *absent, const char *remedy, char *missing,
                     size_t capacity) {
    char why[256];
    if (!hd_os_has_loader()) { /* no loader: dlopen would bring a second C library, and crash in it */
        snprintf(missing, capacity, "a statically linked program cannot open %s", whose);
        return NULL;
    }
    if (!hd_environment_is_trusted()) {
        snprintf(
            missing, capacity,
            "a program that runs with more rights than its caller (set-uid) does not open %s, which reads variables of "
            "the caller's environment",
            whose);
        return NULL;
    }
    void *driver = hd_os_library_open(library, why, sizeof why);
    if (driver == NULL) snprintf(missing, capacity, "there is no %s (%.80s); %s", absent, why, remedy);
    return driver;
}
