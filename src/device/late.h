/* Drivers that are opened when somebody first asks for their devices. */
#ifndef HD_DEVICE_LATE_H
#define HD_DEVICE_LATE_H

#include <stddef.h>

/* The library of a driver. NULL, and `missing` says why and what to do. `whose`: "NVIDIA's driver"; `absent`: what
 * is not there when it cannot be opened; `remedy`: how to get it. */
void *hd_driver_open(const char *library, const char *whose, const char *absent, const char *remedy, char *missing,
                     size_t capacity);

#endif
