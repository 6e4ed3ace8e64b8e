/* QEMU's mps2-an386: a Cortex-M4 with an FPU of single precision. */
#include "start.h"

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* The board's first timer, 32 bits, counts down with 25 MHz. QEMU has no cycle counter here (DWT is not there), but its
 * time is the number of instructions: 128 ns each (-icount shift=7), which are 3.2 ticks, so that rounding finds each.
 * The count begins anew after 2^32 / 3.2 = 1.3 * 10^9 instructions. */
enum { TIMER = 0x40000000, CONTROL = 0, VALUE = 4, RELOAD = 8 };

uint64_t board_instructions(void) {
    const uint64_t ticks = UINT32_MAX - REGISTER(TIMER + VALUE);
    return (ticks * 5 + 8) / 16;
}

uintptr_t semihosting(uintptr_t operation, const void *argument) {
    register uintptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void reset(void);
void reset(void) {
    REGISTER(0xe000ed88) |= 0xf << 20; /* CPACR: the FPU is there for all */
    __asm__ volatile("dsb\n isb" ::: "memory");
    REGISTER(TIMER + RELOAD) = UINT32_MAX;
    REGISTER(TIMER + VALUE) = UINT32_MAX;
    REGISTER(TIMER + CONTROL) = 1;
    start();
}

/* The processor put eight registers on the stack, the seventh is the address. */
__attribute__((naked)) static void trap(void) {
    __asm__("ldr r0, =0xe000ed28\n" /* CFSR */
            "ldr r0, [r0]\n"
            "ldr r1, [sp, #24]\n"
            "b fault\n");
}

extern uint32_t stack_top[];
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {stack_top, {reset, trap, trap, trap, trap, trap, trap, trap, trap, trap, trap, trap, trap, trap, trap}};

/* The names that ARM's interface gives to these, which LLVM calls. */
#define ALIGNED(name, parameters, call)                                                                                \
    void name parameters;                                                                                              \
    void name##4 parameters;                                                                                           \
    void name##8 parameters;                                                                                           \
    void name parameters { call; }                                                                                     \
    void name##4 parameters { call; }                                                                                  \
    void name##8 parameters { call; }
ALIGNED(__aeabi_memcpy, (void *to, const void *from, size_t bytes), memcpy(to, from, bytes))
ALIGNED(__aeabi_memmove, (void *to, const void *from, size_t bytes), memmove(to, from, bytes))
ALIGNED(__aeabi_memset, (void *to, size_t bytes, int value), memset(to, value, bytes))
ALIGNED(__aeabi_memclr, (void *to, size_t bytes), memset(to, 0, bytes))
