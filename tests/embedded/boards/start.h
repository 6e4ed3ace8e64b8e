/* What both boards share: the way to main, faults, and semihosting, by which QEMU prints and ends. */
#ifndef EMBEDDED_START_H
#define EMBEDDED_START_H

#include "../board.h"

void start(void) __attribute__((noreturn));                                   /* from reset, with a stack */
void fault(uint32_t cause, uint32_t address) __attribute__((noreturn, used)); /* of the instruction */

/* One call of semihosting, with the numbers of ARM's specification, which RISC-V has as well. */
uintptr_t semihosting(uintptr_t operation, const void *argument);

#endif
