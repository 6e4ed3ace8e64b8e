/* Compiled scripts over more elements than an int can count, when HODU_LONG asks for it. */
#include "builders.h"

#define S HD_SHAPE
#define X HD_AXES

static void more_elements_than_an_int_can_count(void **state) {
    (void)state;
    if (!in_full()) return; /* 7 GB of memory */
    HD_SCOPE;
    const int64_t count = ((int64_t)1 << 31) + 4099;
    hd_builder *b = started("large");
    hd_tensor *x = hd_input("x", S(count), HD_U8), *h = hd_add(x, hd_full(S(), HD_U8, 1));
    hd_builder_add_output(b, "last", hd_slice(h, 0, count - 3, count, 1));
    hd_builder_add_output(b, "sum", hd_sum(hd_gt(h, hd_full(S(), HD_U8, 4)), X(), NULL));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_tensor *bytes = hd_full(S(count), HD_U8, 1);
    hd_fill(hd_slice(bytes, 0, count - 2, count, 1), 7);
    hd_script_set_input(s, "x", bytes);
    hd_outputs *o = hd_script_run(s);
    assert_ok();
    assert_values(hd_outputs_get(o, "last"), HD_U8, 2, 8, 8);
    assert_int_equal(hd_item_i64(hd_outputs_get(o, "sum")), 2);
}

RUN(test(more_elements_than_an_int_can_count))
