/* Instructions are counted exactly: a loop of two instructions takes two more for each further turn, always. */
#include "board.h"

__attribute__((noinline)) static void turn(uint32_t times) {
#ifdef __arm__
    __asm__ volatile("1: subs %0, #1\n bne 1b" : "+r"(times)::"cc");
#else
    __asm__ volatile("1: addi %0, %0, -1\n bnez %0, 1b" : "+r"(times));
#endif
}

static int wrong(uint32_t times, uint32_t around) {
    uint32_t count;
    INSTRUCTIONS_OF(count, turn(times));
    if (count == 2 * times + around) return 0;
    print_int((int32_t)times);
    print(" turns: ");
    print_int((int32_t)count);
    print(" instructions\n");
    return 1;
}

int main(void) {
    uint32_t once;
    INSTRUCTIONS_OF(once, turn(1));
    const uint32_t around = once - 2;
    for (uint32_t times = 1; times < 3000; ++times)
        if (wrong(times, around)) return 1;
    for (uint32_t times = 1000000; times < 1000010; ++times)
        if (wrong(times, around)) return 1;
    return wrong(100000000, around);
}
