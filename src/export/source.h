/* net.c, from inside. */
#ifndef HD_EXPORT_SOURCE_H
#define HD_EXPORT_SOURCE_H

#include "export/net.h"

/* static const float name[4] = {...}; */
void hd_net_say_elements(hd_c_text *t, const char *name, hd_dtype dtype, const void *bytes, int64_t count);
/* Where a value is, as a typed pointer; constants are written when they are first asked for. */
hd_error hd_net_pointer(hd_net *net, uint32_t tensor, bool written, char *out, size_t capacity);
/* The function of a launch, and the line that calls it. */
hd_error hd_net_say_launch(hd_net *net, const hd_launch *l);

#endif
