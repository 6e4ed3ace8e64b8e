/* Libraries that are opened when somebody first asks for what they do. */
#ifndef HD_CORE_LATE_H
#define HD_CORE_LATE_H

#include <stddef.h>

/* Such a library, of a driver or another. NULL, and `missing` says why and what to do. `whose`: "NVIDIA's driver";
 * `absent`: what is not there when it cannot be opened; `remedy`: how to get it. */
void *hd_driver_open(const char *library, const char *whose, const char *absent, const char *remedy, char *missing,
                     size_t capacity);

#endif
