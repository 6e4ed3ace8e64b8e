/* What the tests of .hoduscript files share: a folder for each test, files as bytes, scripts to save, and comparing. */
#ifndef HD_TESTS_SCRIPT_FILES_H
#define HD_TESTS_SCRIPT_FILES_H

#include "builders.h"
#include "folder.h"

#include "script/script.h"

#if HD_HAS_FILES
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

static inline uint32_t get_u32(const unsigned char *at) {
    uint32_t v;
    memcpy(&v, at, 4);
    return v;
}
static inline uint64_t get_u64(const unsigned char *at) {
    uint64_t v;
    memcpy(&v, at, 8);
    return v;
}
static inline void set_u32(unsigned char *at, uint32_t v) { memcpy(at, &v, 4); }
static inline void set_u64(unsigned char *at, uint64_t v) { memcpy(at, &v, 8); }

/* The entry of a section in the table. */
static inline unsigned char *section_entry(file_bytes b, const char *id) {
    for (uint32_t i = 0; i < get_u32(b.at + 12); ++i)
        if (memcmp(b.at + 32 + 32 * i, id, 4) == 0) return b.at + 32 + 32 * i;
    fail_msg("there is no section %s", id);
    abort(); /* never reached, which compilers do not know */
}
static inline unsigned char *section_bytes(file_bytes b, const char *id) {
    return b.at + get_u64(section_entry(b, id) + 8);
}

#if HD_HAS_FILES
/* Makes the checksums of the head and the sections, and those of tensors when told to, fit what is there. */
static inline void sign(file_bytes b, bool tensors) {
    if (tensors) {
        unsigned char *t = section_bytes(b, "TENS");
        const uint32_t count = get_u32(t) + get_u32(t + 4);
        for (uint32_t i = 0; i < count; ++i) {
            unsigned char *record = t + 8 + 24 * i;
            set_u64(record + 16, XXH64(b.at + get_u64(record), (get_u64(record + 8) + 63) / 64 * 64, 0));
        }
    }
    const uint32_t count = get_u32(b.at + 12) < 64 ? get_u32(b.at + 12) : 64;
    for (uint32_t i = 0; i < count; ++i) {
        unsigned char *entry = b.at + 32 + 32 * i;
        const uint64_t offset = get_u64(entry + 8), size = get_u64(entry + 16);
        if (memcmp(entry, "DATA", 4) != 0 && offset <= b.size && size <= b.size - offset)
            set_u64(entry + 24, XXH64(b.at + offset, size, 0));
    }
    XXH64_state_t sum;
    XXH64_reset(&sum, 0);
    XXH64_update(&sum, b.at, 24);
    XXH64_update(&sum, b.at + 32, 32 * count);
    set_u64(b.at + 24, XXH64_digest(&sum));
}
#endif

/* ---- comparing ---- */
/* Both are of one dtype and shape, and equal bit for bit. */
static inline void assert_identical(hd_tensor *a, hd_tensor *b) {
    assert_ok();
    assert_int_equal(hd_tensor_dtype(a), hd_tensor_dtype(b));
    assert_true(hd_shape_equal(hd_tensor_shape(a), hd_tensor_shape(b)));
    a = hd_contiguous(a);
    b = hd_contiguous(b);
    assert_memory_equal(hd_data(a, hd_tensor_dtype(a)), hd_data(b, hd_tensor_dtype(b)),
                        (size_t)hd_tensor_count(a) * hd_dtype_size(hd_tensor_dtype(a)));
    assert_ok();
}

static inline void assert_same_outputs(hd_outputs *a, hd_outputs *b) {
    assert_ok();
    assert_int_equal(hd_outputs_count(a), hd_outputs_count(b));
    for (int64_t i = 0; i < hd_outputs_count(a); ++i) {
        HD_SCOPE;
        assert_string_equal(hd_outputs_name(a, i), hd_outputs_name(b, i));
        assert_identical(hd_outputs_at(a, i), hd_outputs_at(b, i));
    }
}

/* Everything in two graphs is the same. */
static inline void assert_same_graphs(const hd_graph *a, const hd_graph *b) {
    assert_string_equal(hd_graph_string(a, a->name), hd_graph_string(b, b->name));
    assert_int_equal(a->node_count, b->node_count);
    assert_int_equal(a->edge_count, b->edge_count);
    assert_int_equal(a->draws, b->draws);
    for (uint32_t i = 0; i < a->node_count; ++i) {
        const hd_node *m = &a->nodes[i], *n = &b->nodes[i];
        assert_int_equal(m->op, n->op);
        assert_int_equal(m->derivative, n->derivative);
        assert_int_equal(m->dtype, n->dtype);
        assert_int_equal(m->compute, n->compute);
        assert_int_equal(m->input_count, n->input_count);
        assert_int_equal(m->span, n->span);
        assert_true(hd_shape_equal(hd_node_shape(a, i), hd_node_shape(b, i)));
        assert_int_equal(m->attributes == 0, n->attributes == 0);
        if (m->attributes != 0)
            assert_memory_equal(hd_node_attributes(a, i), hd_node_attributes(b, i),
                                hd_pool_size(&a->pool, m->attributes));
        if (hd_node_is_op(m) || m->op == HD_NODE_WRITE)
            for (int k = 0; k < m->input_count; ++k) assert_int_equal(hd_node_inputs(a, i)[k], hd_node_inputs(b, i)[k]);
        else
            assert_int_equal(m->first, n->first);
    }
    assert_int_equal(a->input_count, b->input_count);
    for (uint32_t i = 0; i < a->input_count; ++i)
        assert_string_equal(hd_graph_string(a, a->inputs[i].name), hd_graph_string(b, b->inputs[i].name));
    assert_int_equal(a->output_count, b->output_count);
    for (uint32_t i = 0; i < a->output_count; ++i) {
        assert_string_equal(hd_graph_string(a, a->outputs[i].name), hd_graph_string(b, b->outputs[i].name));
        assert_int_equal(a->outputs[i].node, b->outputs[i].node);
    }
    assert_int_equal(a->span_count, b->span_count);
    for (uint32_t i = 0; i < a->span_count; ++i) {
        assert_string_equal(hd_graph_string(a, a->spans[i].name), hd_graph_string(b, b->spans[i].name));
        assert_int_equal(a->spans[i].parent, b->spans[i].parent);
    }
    assert_int_equal(a->constant_count, b->constant_count);
    for (uint32_t i = 0; i < a->constant_count; ++i) {
        hd_storage *s = a->constants[i].storage, *t = b->constants[i].storage;
        assert_int_equal(s->bytes, t->bytes);
        assert_memory_equal(hd_storage_bytes(hd_thread_self(), s, HD_READ),
                            hd_storage_bytes(hd_thread_self(), t, HD_READ), s->bytes);
    }
    assert_int_equal(a->cell_count, b->cell_count);
    for (uint32_t i = 0; i < a->cell_count; ++i) {
        const hd_graph_cell *c = &a->cells[i], *d = &b->cells[i];
        assert_string_equal(hd_graph_string(a, c->name), hd_graph_string(b, d->name));
        assert_int_equal(c->node, d->node);
        assert_int_equal(c->update, d->update);
        assert_int_equal(c->kind, d->kind);
    }
}

/* ---- a small script with one of each: input, constants, bound, state, random, write, spans ---- */
static inline hd_script *small_script(void) {
    hd_tensor *weight = HD_TENSOR_F32(HD_SHAPE(3, 2), 1, 2, 3, 4, 5, 6), *count = hd_zeros(HD_SHAPE(), HD_I64);
    hd_tensor *cache = hd_zeros(HD_SHAPE(4, 2), HD_F32), *scale = HD_TENSOR_F32(HD_SHAPE(2), 2, -0.5f);
    hd_builder *b = started("small");
    hd_builder_add_state(b, "cache", cache);
    hd_builder_add_state(b, "count", count);
    hd_builder_bind(b, "scale", scale);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32), *mask = hd_input("mask", HD_SHAPE(2), HD_BOOL);
    hd_tensor *y = hd_mul(hd_matmul(x, weight), scale);
    hd_tensor *noise = hd_uniform(HD_SHAPE(2), HD_F32, 0, 0.25);
    hd_tensor *p = hd_softmax(hd_add(y, noise), 1);
    hd_assign(hd_narrow(cache, 0, 1, 2), hd_where(hd_unsqueeze(mask, 1), p, y));
    hd_add_(count, hd_ones(HD_SHAPE(), HD_I64));
    hd_builder_add_output(b, "p", p);
    hd_builder_add_output(b, "total", hd_sum(cache, HD_AXES(), NULL));
    return built(b);
}

static inline void set_small_inputs(hd_script *s) {
    hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(2, 3), 0.5f, -1, 2, 1, 0, -0.25f));
    hd_script_set_input(s, "mask", hd_cast(HD_TENSOR_I64(HD_SHAPE(2), 1, 0), HD_BOOL));
}

#endif
