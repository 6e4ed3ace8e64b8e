/* The net of this folder: what it makes of an image, to the bit, and what it says of bad memory and bad input. */
#include "board.h"
#include "net.h"

#ifndef ARENA
#define ARENA NET_ARENA
#endif

static uint32_t arena[ARENA / 4], state[NET_STATE / 4];
static float x[1][64], logits[1][10];

static int check(int holds, const char *what) {
    if (holds) return 0;
    print(what);
    print("\n");
    return 1;
}

int main(void) {
    net n;
    int failed = 0;
    failed += check(net_init(&n, 0, state) == -1, "no arena goes unnoticed");
    failed += check(net_init(&n, (char *)arena + 1, state) == -1, "a misaligned arena goes unnoticed");
    failed += check(net_init(&n, arena, state) == 0, "good memory is refused");

    for (int i = 0; i < 64; ++i) x[0][i] = (float)(i * i % 17) / 16;
    int status = -1;
    uint32_t count;
    INSTRUCTIONS_OF(count, status = net_run(&n, x, logits));
    failed += check(status == 0 && state[0] == 1, "the net does not run");
    for (int k = 0; k < 10; ++k) {
        print_float(logits[0][k]);
        print(k == 9 ? "\n" : " ");
    }
    print_figure("instructions", (int32_t)count);

    x[0][5] = 2;
    failed += check(net_run(&n, x, logits) == 6 && state[0] == 1, "bad input goes unnoticed");
    return failed != 0;
}
