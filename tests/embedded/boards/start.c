#include "start.h"

#include <stddef.h>

/* Of the linker script. Between bss_end and stack_top lies the stack, and nothing else. */
extern uint32_t data_source[], data_begin[], data_end[], bss_begin[], bss_end[], stack_bottom[], stack_top[];

int main(void);

enum { WRITE0 = 0x04, EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

void board_write(const char *text) { semihosting(WRITE0, text); }

void board_exit(int status) {
    const uintptr_t why[2] = {APPLICATION_EXIT, (uintptr_t)status};
    semihosting(EXIT_EXTENDED, why);
    for (;;) {}
}

void fault(uint32_t cause, uint32_t address) {
    print("fault ");
    print_hex(cause);
    print(" at ");
    print_hex(address);
    print("\n");
    board_exit(3);
}

static const uint32_t paint = 0xfeedc0de; /* of the stack, to see how much of it was used */

void start(void) {
    const uint32_t *from = data_source;
    for (uint32_t *to = data_begin; to != data_end; ++to) *to = *from++;
    for (uint32_t *to = bss_begin; to != bss_end; ++to) *to = 0;
    register uint32_t *const here __asm__("sp"); /* below it all is free */
    for (uint32_t *to = stack_bottom; to < here; ++to) *to = paint;

    const int status = main();
    const uint32_t *used = stack_bottom;
    while (*used == paint) ++used;
    if (used == stack_bottom) {
        print("the stack overflowed\n");
        board_exit(3);
    }
    print_figure("stack", (int32_t)((const char *)stack_top - (const char *)used));
    board_exit(status);
}

/* What compilers ask of any place to run in; by words where that is possible. A net may bring its own. */

__attribute__((weak)) void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    char *target = to;
    const char *source = from;
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0)
        for (; bytes >= 4; bytes -= 4, target += 4, source += 4) *(uint32_t *)target = *(const uint32_t *)source;
    while (bytes--) *target++ = *source++;
    return to;
}

__attribute__((weak)) void *memmove(void *to, const void *from, size_t bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= bytes) return memcpy(to, from, bytes); /* forwards does no harm */
    while (bytes--) ((char *)to)[bytes] = ((const char *)from)[bytes];
    return to;
}

__attribute__((weak)) void *memset(void *to, int value, size_t bytes) {
    char *target = to;
    const uint32_t word = 0x01010101u * (uint8_t)value;
    if (((uintptr_t)to & 3) == 0)
        for (; bytes >= 4; bytes -= 4, target += 4) *(uint32_t *)target = word;
    while (bytes--) *target++ = (char)value;
    return to;
}
