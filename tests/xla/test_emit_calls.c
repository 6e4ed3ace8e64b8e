/* Every call of the list, and its gradients, as StableHLO text run by a plugin, against O0.
 *
 * HODU_CALL=name runs this one alone. */
#include "../graph/calls.h"
#include "agree.h"

#include "core/random.h"

enum { UNITS = 4 }; /* at 2, the size of what the calls are made with */

/* The call, and the gradients of what it is called with: "y", "a", "b", "c". */
static hd_script *script_of(int k, hd_tensor **in, int count) {
    static const char *const names[3] = {"a", "b", "c"};
    for (int i = 0; i < count; ++i) hd_requires_grad(in[i]);
    hd_builder *b = started(calls[k].name);
    for (int i = 0; i < count; ++i) hd_builder_bind(b, names[i], in[i]);
    hd_tensor *y = run_call(in, &calls[k]);
    hd_builder_add_output(b, "y", y);
    assert_ok();
    if (hd_tensor_requires_grad(y)) hd_backward(y);
    hd_error_clear(); /* some have none */
    for (int i = 0; i < count; ++i)
        if (hd_has_grad(in[i])) hd_builder_add_output(b, names[i], hd_grad(in[i]));
    hd_clear_tape();
    return built(b);
}

static void every_call(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    const char *only = getenv("HODU_CALL");
    for (int k = 0; k < CALL_COUNT; ++k)
        if (only == NULL || strcmp(only, calls[k].name) == 0) {
            HD_SCOPE;
            hd_tensor *in[3];
            const int count = call_operands(k, in);
            hd_seed(5);
            xla_agrees_at(script_of(k, in, count), UNITS, 2, calls[k].name);
        }
}

RUN(test(every_call))
