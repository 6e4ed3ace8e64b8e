/* QEMU's virt board with a RISC-V of 32 bits that has an FPU of single precision. */
#include "start.h"

/* The counters of instructions and cycles are QEMU's time in ns, 128 an instruction (-icount shift=7). */
uint64_t board_instructions(void) {
    uint32_t low, high, again;
    do
        __asm__ volatile("csrr %0, minstreth\n csrr %1, minstret\n csrr %2, minstreth\n"
                         : "=r"(high), "=r"(low), "=r"(again));
    while (high != again);
    return ((uint64_t)high << 32 | low) / 128;
}

/* Known by its three instructions, of four bytes each. */
uintptr_t semihosting(uintptr_t operation, const void *argument) {
    register uintptr_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    __asm__ volatile(".option push\n .option norvc\n .balign 16\n"
                     "slli x0, x0, 0x1f\n ebreak\n srai x0, x0, 7\n"
                     ".option pop\n"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

/* Where the board begins: mstatus.FS turns the FPU on. */
__attribute__((naked, used, section(".reset"))) void reset(void) {
    __asm__(".option push\n .option norelax\n"
            "la gp, __global_pointer$\n"
            ".option pop\n"
            "la sp, stack_top\n"
            "la t0, trap\n csrw mtvec, t0\n"
            "li t0, 1 << 13\n csrs mstatus, t0\n csrw fcsr, zero\n"
            "j start\n"
            ".balign 4\n"
            "trap: csrr a0, mcause\n csrr a1, mepc\n j fault\n");
}
