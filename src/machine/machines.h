/* The machines there are. */
#ifndef HD_MACHINE_MACHINES_H
#define HD_MACHINE_MACHINES_H

#include "fuse/machine.h"
#include "script/executable.h"

/* The CPU, with the vector registers that it has and HODU_ISA allows. */
const hd_machine *hd_cpu_machine(void);

/* Registers one for a kind of device that has none. */
void hd_machine_register(int kind, const hd_machine *(*machine)(int index));
/* HODU, as scripts know it: compile.c. */
extern const hd_compiler_interface hd_hodu_interface;

#endif
