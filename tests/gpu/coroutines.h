/* Runs the functions of kernels as a GPU would: the threads of a group are coroutines, which a barrier exchanges. */
#ifndef HD_TESTS_GPU_COROUTINES_H
#define HD_TESTS_GPU_COROUTINES_H

#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

typedef struct run_id {
    unsigned x, y, z;
} run_id;
typedef void run_function(char **buffers, void *arguments, run_id group, run_id lane);

enum { RUN_STACK = 128 * 1024, RUN_LANES = 1024 };
static struct {
    ucontext_t home, lanes[RUN_LANES];
    char *stacks;
    bool done[RUN_LANES];
    int now;
    run_function *function;
    char **buffers;
    void *arguments;
    run_id group;
} run_state;

static inline void run_lane(void) {
    const run_id lane = {(unsigned)run_state.now, 0, 0};
    run_state.function(run_state.buffers, run_state.arguments, run_state.group, lane);
    run_state.done[run_state.now] = true;
}
static inline void run_barrier(void) { /* called by kernels */
    swapcontext(&run_state.lanes[run_state.now], &run_state.home);
}

/* All lanes up to their next barrier, again and again; a barrier that not all of them reach is an error. */
static inline bool run_group(run_function *function, char **buffers, void *arguments, run_id group, int lanes) {
    run_state.function = function;
    run_state.buffers = buffers;
    run_state.arguments = arguments;
    run_state.group = group;
    if (run_state.stacks == NULL) run_state.stacks = malloc((size_t)RUN_STACK * RUN_LANES);
    for (int i = 0; i < lanes; ++i) {
        getcontext(&run_state.lanes[i]);
        run_state.lanes[i].uc_stack.ss_sp = run_state.stacks + (size_t)i * RUN_STACK;
        run_state.lanes[i].uc_stack.ss_size = RUN_STACK;
        run_state.lanes[i].uc_link = &run_state.home;
        makecontext(&run_state.lanes[i], run_lane, 0);
        run_state.done[i] = false;
    }
    for (int left = lanes; left > 0;) {
        int ended = 0;
        for (int i = 0; i < lanes; ++i) {
            if (run_state.done[i]) continue;
            run_state.now = i;
            swapcontext(&run_state.home, &run_state.lanes[i]);
            ended += run_state.done[i];
        }
        if (ended != 0 && ended != left) return false;
        left -= ended;
    }
    return true;
}

#endif
