/* The same as C without a library: src/export. */
#include "export/net.h"

#ifndef WITHOUT_c
hd_error hd_c_alternating_sum(hd_net_call *c) {
    const int axis = ((const hd_axis_attributes *)c->call->attributes)->axis;
    const hd_tensor *x = hd_c_in(c, 0), *y = hd_c_out(c, 0);
    const hd_shape *shape = &x->layout.shape;
    hd_c_names names;
    const char *index[HD_MAX_RANK] = {"0"}, *to[HD_MAX_RANK] = {"0"};
    const int loops = hd_c_open_axes(c, shape, 0, shape->rank, axis, 'i', names, index);
    hd_c_text_line(c->t, "double total = 0;");
    index[axis] = "i";
    hd_c_text_open(c->t, "for (int32_t i = 0; i < %lld; ++i)", (long long)shape->size[axis]);
    hd_c_text_line(c->t, "total += i %% 2 == 0 ? %s : -%s;", hd_c_value(c, "x0", x, index),
                   hd_c_value(c, "x0", x, index));
    hd_c_text_close(c->t);
    for (int i = 0, k = 0; i < shape->rank; ++i)
        if (i != axis) to[k++] = index[i];
    hd_c_store(c, (hd_dtype)y->dtype, hd_c_at(c, "y0", y, to), "(float)total");
    hd_c_close(c, loops);
    return HD_OK;
}
#endif
