/* What a test on a board without an operating system has: a few ways to print, and a count of instructions. The same
 * test runs on the host as well (boards/host.c), where instructions are not counted. */
#ifndef EMBEDDED_BOARD_H
#define EMBEDDED_BOARD_H

#include <stdint.h>

/* Of each board. */
void board_write(const char *text);
void board_exit(int status) __attribute__((noreturn));
uint64_t board_instructions(void); /* so many until now, exactly; 0 where they are not counted */

static inline void print(const char *text) { board_write(text); }

static inline void print_int(int32_t value) {
    char text[12], *at = text + sizeof text - 1;
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    *at = '\0';
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    print(at);
}

static inline void print_hex(uint32_t value) {
    char text[9];
    for (int i = 0; i < 8; ++i) text[i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
    text[8] = '\0';
    print(text);
}

/* The bits, so that nothing is lost. */
static inline void print_float(float value) {
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = value;
    print_hex(both.bits);
}

/* A line of figures. Lines that begin with # are not compared between boards (tests/embedded/same). */
static inline void print_figure(const char *name, int32_t value) {
    print("# ");
    print(name);
    print(" ");
    print_int(value);
    print("\n");
}

/* What counting costs itself. */
static inline uint32_t instructions_of_counting(void) {
    const uint64_t begin = board_instructions();
    return (uint32_t)(board_instructions() - begin);
}

/* INSTRUCTIONS_OF(statement) is how many it takes: a macro, as the statement may be any. */
#define INSTRUCTIONS_OF(count, statement)                                                                              \
    do {                                                                                                               \
        const uint32_t of_counting_ = instructions_of_counting();                                                      \
        const uint64_t begin_ = board_instructions();                                                                  \
        statement;                                                                                                     \
        (count) = (uint32_t)(board_instructions() - begin_) - of_counting_;                                            \
    } while (0)

#endif
