/* The machines there are. */
#ifndef HD_MACHINE_MACHINES_H
#define HD_MACHINE_MACHINES_H

#include "fuse/machine.h"

/* The CPU, with the vector registers that it has and HODU_ISA allows. */
const hd_machine *hd_cpu_machine(void);

/* Adds one for a kind of device that has none: hd_device_add. */
void hd_machine_add(int kind, const hd_machine *(*machine)(void));

#endif
