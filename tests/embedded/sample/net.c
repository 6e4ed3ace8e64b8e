#include "net.h"

static const int8_t weights[10][8] = {
    {-3, 5, 2, -7, 1, 4, -2, 6}, {7, -1, 3, 3, -5, 2, 2, -4},  {1, 1, -6, 4, 4, -3, 5, 0}, {-2, 8, 0, 1, -4, 3, -1, 2},
    {5, -5, 2, 6, -1, 0, 3, -3}, {0, 2, 7, -2, 3, -6, 1, 4},   {-4, 3, 1, 5, 2, 2, -7, 1}, {6, 0, -3, -1, 5, 1, 4, -2},
    {2, 4, 4, -4, -2, 7, 0, 3},  {-1, -3, 5, 2, 6, -2, -5, 1},
};

int net_init(net *n, void *arena, void *state) {
    if (!n || !arena || !state || (uintptr_t)arena % 4 != 0 || (uintptr_t)state % 4 != 0) return -1;
    n->arena = arena;
    n->state = state;
    *n->state = 0;
    return 0;
}

int net_run(net *n, const float x[1][64], float logits[1][10]) {
    for (int i = 0; i < 64; ++i)
        if (!(x[0][i] >= 0 && x[0][i] <= 1)) return 1 + i;
    for (int row = 0; row < 8; ++row) {
        n->arena[row] = 0;
        for (int column = 0; column < 8; ++column) n->arena[row] += x[0][8 * row + column];
    }
    for (int k = 0; k < 10; ++k) {
        float sum = 0.125f;
        for (int row = 0; row < 8; ++row) sum += 0.25f * (float)weights[k][row] * n->arena[row];
        logits[0][k] = sum;
    }
    ++*n->state;
    return 0;
}
