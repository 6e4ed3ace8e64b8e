/* What multi-head attention is made of. */
#ifndef HD_NN_ATTENTION_H
#define HD_NN_ATTENTION_H

#include "nn/module.h"

/* Of a multi-head attention. Its members are the linear modules "in", which gives queries, keys and values one behind
 * the other, or "q", "k" and "v"; and "out". */
typedef struct hd_heads {
    int64_t width, heads, kv_heads;
    bool causal, packed;
    double dropout, rotary; /* the base of rotations; 0: there are none */
} hd_heads;

/* x [..., t, n d] as [..., n, t, d], and back. */
hd_tensor *hd_heads_split(hd_tensor *x, int64_t count);
hd_tensor *hd_heads_join(hd_tensor *y);
/* Each head of keys or values as often as there are queries for it. */
hd_tensor *hd_heads_spread(const hd_heads *s, hd_tensor *x);
/* Queries, keys and values, in heads: [..., heads, t, d], and twice [..., kv_heads, s, d]. */
hd_error hd_heads_project(hd_thread *thread, hd_module *m, hd_tensor *const given[3], hd_tensor *parts[3]);
/* x [..., t, width] is one that it can read. */
hd_error hd_heads_check(const hd_tensor *x);
/* The class by which one is known. */
extern const hd_module_class hd_multihead_attention_class;

#endif
