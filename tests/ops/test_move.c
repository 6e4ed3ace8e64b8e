/* Movement: elements in new places, NumPy's results, whose memory is whose, and writing in place. */
#include "families.h"

static hd_tensor *counting(hd_shape shape, hd_dtype dtype) {
    return hd_reshape(hd_range(0, 1, hd_shape_count(shape), dtype), shape);
}

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */
static hd_tensor *golden_move(const golden *g, hd_tensor *x) { /* of 0, 1, ... in [3,4]; triangles of [2,3,4] */
    const double *a = g->argument;
    if (strcmp(g->name, "roll") == 0) return hd_roll(x, (int64_t)a[0], (int)a[1]);
    if (strcmp(g->name, "tile") == 0) return hd_tile(x, HD_SHAPE((int64_t)a[0], (int64_t)a[1]));
    if (strcmp(g->name, "repeat_interleave") == 0) return hd_repeat_interleave(x, (int64_t)a[0], (int)a[1] % 2);
    if (strcmp(g->name, "tril") == 0) return hd_tril(x, (int64_t)a[0]);
    if (strcmp(g->name, "triu") == 0) return hd_triu(x, (int64_t)a[0]);
    const bool constant = strcmp(g->name, "pad") == 0;
    if (!constant) ++a;
    const hd_padding widths[2] = {{(int64_t)a[0], (int64_t)a[1]}, {(int64_t)a[2], (int64_t)a[3]}};
    return constant ? hd_pad(x, widths, 2, -9) : hd_pad_with(x, widths, 2, (hd_pad_mode)g->argument[0]);
}

static void as_numpy_for_any_dtype_and_layout(void **state) {
    (void)state;
    static const char *const names[] = {"pad", "pad_with", "roll", "tile", "repeat_interleave", "tril", "triu"};
    static const hd_dtype dtypes[] = {HD_F32, HD_I8, HD_BF16, HD_F64, HD_I16};
    int round = 0;
    for (int i = 0; i < 7; ++i)
        for (golden g = golden_open(names[i]); golden_next(&g);) {
            HD_SCOPE;
            const hd_dtype dtype = dtypes[round++ % 5];
            hd_tensor *x = counting(i < 5 ? HD_SHAPE(3, 4) : HD_SHAPE(2, 3, 4), dtype);
            assert_tensor(golden_move(&g, x), dtype, &g.shape, g.v);
            hd_tensor *crooked = hd_flip(hd_t(hd_contiguous(hd_t(hd_flip(x, HD_AXES())))),
                                         HD_AXES()); /* the same values, stored otherwise */
            assert_tensor(golden_move(&g, crooked), dtype, &g.shape, g.v);
        }
}

/* ---- concat and stack -------------------------------------------------------------------------------------------- */
static void concat_of_any_layouts_and_dtypes(void **state) {
    (void)state;
    static model part[4];
    static double v[4 * MODEL_MOST];
    for (int round = 0; round < 300; ++round) {
        if (!when_compiled((uint64_t)round, 7)) continue;
        HD_SCOPE;
        const int rank = 1 + (int)random_below(4), axis = (int)random_below(rank), parts = 1 + (int)random_below(4);
        hd_shape shape = random_shape(rank, 4);
        hd_dtype dtype = HD_DTYPE_DEFAULT;
        int64_t along = 0, before = 1, behind = 1;
        hd_tensor *tensors[4];
        for (int p = 0; p < parts; ++p) {
            const hd_dtype own = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
            dtype = p == 0 ? own : hd_dtype_promote(dtype, own);
            shape.size[axis] = random_below(4); /* also nothing */
            model_of(&part[p], shape, own, NULL);
            if (random_below(2)) { /* stored reversed */
                part[p].t = hd_flip(hd_contiguous(hd_flip(part[p].t, HD_AXES())), HD_AXES());
            }
            tensors[p] = part[p].t;
            along += shape.size[axis];
        }
        for (int i = 0; i < rank; ++i) *(i < axis ? &before : &behind) *= i == axis ? 1 : shape.size[i];
        int64_t n = 0;
        for (int64_t b = 0; b < before; ++b)
            for (int p = 0; p < parts; ++p)
                for (int64_t k = 0; k < part[p].shape.size[axis] * behind; ++k)
                    v[n++] = part[p].v[b * part[p].shape.size[axis] * behind + k];
        shape.size[axis] = along;
        assert_tensor(hd_concat(tensors, parts, random_below(2) ? axis : axis - rank), dtype, &shape, v);
    }
}

static void stack_makes_an_axis(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(2, 2), HD_I32), *parts[3] = {x, hd_t(x), hd_full(HD_SHAPE(2, 2), HD_F32, 0.5)};
    hd_tensor *y = hd_stack(parts, 3, 0);
    assert_values(y, HD_F32, 0, 1, 2, 3, 0, 2, 1, 3, 0.5, 0.5, 0.5, 0.5);
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(3, 2, 2)));
    assert_values(hd_stack(parts, 2, -1), HD_I32, 0, 0, 1, 2, 2, 1, 3, 3);
    hd_tensor *scalars[2] = {hd_scalar(1, HD_F64), hd_scalar(2, HD_F64)};
    assert_values(hd_stack(scalars, 2, 0), HD_F64, 1, 2);
}

static void joining_refuses(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *parts[65] = {a, hd_ones(HD_SHAPE(2, 4), HD_F32)};
    assert_null(hd_concat(parts, 2, 0));
    assert_error(HD_ERROR_SHAPE, "hd_concat: [2,3] and [2,4] (tensor 1) differ beside axis 0");
    assert_null(hd_stack(parts, 2, 0));
    assert_error(HD_ERROR_SHAPE, "hd_stack: [2,3] and [2,4] (tensor 1) differ");
    assert_null(hd_concat(parts, 3, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_concat");
    assert_null(hd_concat(NULL, 3, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_concat: `tensors` is NULL");
    assert_null(hd_concat(parts, 0, 1));
    assert_error(HD_ERROR_VALUE, "hd_concat: 0 tensors; 1 to 64");
    for (int i = 0; i < 65; ++i) parts[i] = a;
    assert_null(hd_concat(parts, 65, 1));
    assert_error(HD_ERROR_VALUE, "hd_concat: 65 tensors");
    assert_int_equal(hd_tensor_size(hd_concat(parts, 64, 1), 1), 192);
    parts[0] = parts[1] = hd_scalar(1, HD_F32);
    assert_null(hd_concat(parts, 2, 0));
    assert_error(HD_ERROR_AXIS, "hd_concat: axis 0 of a scalar");
    parts[0] = parts[1] = hd_broadcast_to(hd_zeros(HD_SHAPE(), HD_U8), HD_SHAPE(INT64_MAX / 2 + 1));
    assert_null(hd_concat(parts, 2, 0));
    assert_error(HD_ERROR_OVERFLOW, "hd_concat");
}

/* ---- padding and repeating --------------------------------------------------------------------------------------- */
static void padding_may_cut(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(2, 4), HD_F32);
    assert_values(hd_pad(x, (const hd_padding[]){{-1, 2}}, 1, 9), HD_F32, 1, 2, 3, 9, 9, 5, 6, 7, 9, 9);
    assert_values(hd_pad(x, (const hd_padding[]){{0, -1}, {-1, -2}}, 2, 9), HD_F32, 1);
    assert_values(hd_pad(x, (const hd_padding[]){{-4, 2}}, 1, 9), HD_F32, 9, 9, 9, 9); /* all of x is cut */
    assert_int_equal(hd_tensor_count(hd_pad(x, (const hd_padding[]){{-2, -2}}, 1, 9)), 0);
    assert_values(hd_pad(hd_zeros(HD_SHAPE(0), HD_I32), (const hd_padding[]){{1, 1}}, 1, 3), HD_I32, 3, 3);
    assert_values(hd_pad(hd_scalar(4, HD_F32), NULL, 0, 9), HD_F32, 4);
    assert_values(hd_pad(hd_flip(x, HD_AXES()), (const hd_padding[]){{-1, 0}, {0, 1}}, 2, 0.5), HD_F32, 3, 2, 1, 0,
                  0.5);
    assert_ok();
    assert_null(hd_pad(x, (const hd_padding[]){{-3, -2}}, 1, 0));
    assert_error(HD_ERROR_SHAPE, "hd_pad: padding (-3, -2) does not fit axis 1 of [2,4]");
    assert_null(hd_pad(x, (const hd_padding[]){{INT64_MAX, 1}}, 1, 0));
    assert_error(HD_ERROR_SHAPE, "hd_pad");
    assert_null(hd_pad(x, (const hd_padding[]){{1LL << 61, 0}, {0, 1}}, 2, 0));
    assert_error(HD_ERROR_OVERFLOW, "hd_pad");
    assert_null(hd_pad(x, (const hd_padding[3]){{0, 0}}, 3, 0));
    assert_error(HD_ERROR_AXIS, "hd_pad: padding for 3 axes of [2,4], which has 2");
    assert_null(hd_pad(x, NULL, 1, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_pad: `padding` is NULL");
}

static void pad_with_needs_something_to_repeat(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(2, 3), HD_F32);
    assert_values(hd_pad_with(x, (const hd_padding[]){{5, 0}}, 1, HD_PAD_REPLICATE), HD_F32, 0, 0, 0, 0, 0, 0, 1, 2, 3,
                  3, 3, 3, 3, 3, 4, 5);
    assert_null(hd_pad_with(x, (const hd_padding[]){{3, 0}}, 1, HD_PAD_REFLECT));
    assert_error(HD_ERROR_VALUE, "hd_pad_with: padding (3, 0) of axis 1 of [2,3]");
    assert_null(hd_pad_with(x, (const hd_padding[]){{0, 4}}, 1, HD_PAD_CIRCULAR));
    assert_error(HD_ERROR_VALUE, "hd_pad_with");
    assert_null(hd_pad_with(x, (const hd_padding[]){{-1, 0}}, 1, HD_PAD_REPLICATE));
    assert_error(HD_ERROR_VALUE, "hd_pad_with");
    assert_null(hd_pad_with(hd_zeros(HD_SHAPE(0), HD_F32), (const hd_padding[]){{1, 0}}, 1, HD_PAD_REPLICATE));
    assert_error(HD_ERROR_VALUE, "hd_pad_with");
    assert_null(hd_pad_with(x, (const hd_padding[]){{1, 0}}, 1, (hd_pad_mode)7));
    assert_error(HD_ERROR_VALUE, "mode 7");
}

static void repeating_works_at_any_rank(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(1, 1, 2, 1, 1, 1, 1, 2), HD_F32);
    hd_tensor *y = hd_tile(x, HD_SHAPE(1, 1, 1, 2, 1, 1, 1, 2)), *z = hd_repeat_interleave(x, 2, -1);
    assert_values(y, HD_F32, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3);
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(1, 1, 2, 2, 1, 1, 1, 4)));
    assert_values(z, HD_F32, 0, 0, 1, 1, 2, 2, 3, 3);
    assert_true(hd_shape_equal(hd_tensor_shape(z), HD_SHAPE(1, 1, 2, 1, 1, 1, 1, 4)));
    assert_values(hd_tile(hd_scalar(3, HD_I32), HD_SHAPE()), HD_I32, 3);
    assert_values(hd_tile(hd_t(counting(HD_SHAPE(2, 2), HD_I8)), HD_SHAPE(2, 1)), HD_I8, 0, 2, 1, 3, 0, 2, 1, 3);
}

static void repeating_refuses(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(2, 3), HD_F32);
    assert_null(hd_tile(x, HD_SHAPE(2)));
    assert_error(HD_ERROR_SHAPE, "hd_tile: 1 repeats for [2,3]");
    assert_null(hd_tile(x, HD_SHAPE(2, -1)));
    assert_error(HD_ERROR_SHAPE, "hd_tile: axis 1 of [2,3] repeated -1 times");
    assert_null(hd_tile(x, HD_SHAPE(INT64_MAX, 1)));
    assert_error(HD_ERROR_SHAPE, "hd_tile");
    assert_null(hd_repeat_interleave(x, -1, 0));
    assert_error(HD_ERROR_VALUE, "hd_repeat_interleave: [2,3] repeated -1 times on axis 0");
    assert_null(hd_repeat_interleave(x, INT64_MAX, 1));
    assert_error(HD_ERROR_VALUE, "hd_repeat_interleave");
    assert_null(hd_tril(hd_ones(HD_SHAPE(3), HD_F32), 0));
    assert_error(HD_ERROR_SHAPE, "hd_tril: [3] is no matrix");
    assert_null(hd_roll(x, 1, 2));
    assert_error(HD_ERROR_AXIS, "hd_roll: axis 2 is out of range");
    assert_values(hd_roll(x, INT64_MIN, 1), HD_F32, 2, 0, 1, 5, 3, 4); /* -2^63 is 1 more than a multiple of 3 */
    assert_int_equal(hd_tensor_count(hd_roll(hd_zeros(HD_SHAPE(2, 0), HD_F32), 3, 1)), 0);
    assert_values(hd_triu(x, INT64_MIN), HD_F32, 0, 1, 2, 3, 4, 5);
    assert_values(hd_tril(x, INT64_MIN), HD_F32, 0, 0, 0, 0, 0, 0);
    assert_values(hd_tril(x, INT64_MAX), HD_F32, 0, 1, 2, 3, 4, 5);
    assert_values(hd_triu(hd_full(HD_SHAPE(2, 2), HD_F32, NAN), 1), HD_F32, 0, NAN, 0, 0); /* chosen, not multiplied */
}

/* ---- whose memory ------------------------------------------------------------------------------------------------ */
static void copies_have_memory_of_their_own(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(2, 3), HD_F32);
    assert_ptr_equal(hd_contiguous(x), x);
    hd_tensor *same = hd_contiguous(hd_t(hd_t(x)));
    assert_true(hd_tensor_shares_storage(same, x));
    hd_tensor *copies[] = {
        hd_copy(x),   hd_contiguous(hd_t(x)), hd_concat(&x, 1, 0), hd_pad(x, NULL, 0, 0), hd_tile(x, HD_SHAPE(1, 2)),
        hd_tril(x, 5)};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; ++i) {
        assert_false(hd_tensor_shares_storage(copies[i], x));
        assert_true(hd_tensor_is_contiguous(copies[i]));
    }
    hd_fill(x, 9);
    assert_values(copies[0], HD_F32, 0, 1, 2, 3, 4, 5);
}

static void large_copies_in_any_order(void **state) { /* in tiles and by threads: every element arrives */
    (void)state;
    const int before = hd_num_threads();
    static const hd_dtype dtypes[] = {HD_F32, HD_U8, HD_F64, HD_I16, HD_BF16};
    for (int threads = 1; threads <= 3; threads += 2)
        for (int d = 0; d < 5; ++d) {
            HD_SCOPE;
            hd_set_num_threads(threads);
            enum { A = 301, B = 97, C = 20 };
            int64_t *v = malloc(sizeof *v * A * B * C), *w = malloc(sizeof *w * A * B * C);
            for (int64_t i = 0; i < A * B * C; ++i) v[i] = i * 31 % 128;
            hd_tensor *x = hd_cast(hd_from_data(v, HD_SHAPE(A, B, C), HD_I64), dtypes[d]),
                      *out = hd_empty(HD_SHAPE(C, A, B), dtypes[d]);
            static const int orders[][3] = {{2, 0, 1}, {1, 2, 0}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}};
            for (int o = 0; o < 5; ++o) { /* read out of order, and with a cast */
                hd_tensor *y = hd_copy(hd_permute(x, hd_axes_of(orders[o], 3)));
                assert_true(hd_to_array(o % 2 ? y : hd_permute(x, hd_axes_of(orders[o], 3)), w, HD_I64, A * B * C));
                const int64_t size[3] = {A, B, C};
                int64_t at[3], n = 0;
                for (at[orders[o][0]] = 0; at[orders[o][0]] < size[orders[o][0]]; ++at[orders[o][0]])
                    for (at[orders[o][1]] = 0; at[orders[o][1]] < size[orders[o][1]]; ++at[orders[o][1]])
                        for (at[orders[o][2]] = 0; at[orders[o][2]] < size[orders[o][2]]; ++at[orders[o][2]], ++n)
                            if (w[n] != v[(at[0] * B + at[1]) * C + at[2]])
                                fail_msg("%s, order %d, element %lld", hd_dtype_name(dtypes[d]), o, (long long)n);
            }
            hd_assign(hd_permute(out, HD_AXES(1, 2, 0)), x); /* written out of order */
            assert_same(hd_permute(out, HD_AXES(1, 2, 0)), x);
            hd_assign(hd_flip(out, HD_AXES()), hd_broadcast_to(hd_select(hd_select(x, 0, 1), 1, 3), HD_SHAPE(C, A, B)));
            for (int64_t i = 0; i < C * A; i += 7)
                assert_same(hd_flip(hd_select(hd_reshape(out, HD_SHAPE(C * A, B)), 0, i), HD_AXES()),
                            hd_select(hd_select(x, 0, 1), 1, 3));
            free(v);
            free(w);
        }
    hd_set_num_threads(before);
}

/* ---- writing in place -------------------------------------------------------------------------------------------- */
static void assign_through_any_view(void **state) {
    (void)state;
    static model dst, src;
    for (int round = 0; round < 400; ++round) {
        if (!when_compiled((uint64_t)round, 7)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        model_of(&dst, random_shape((int)random_below(4), 5), dtype, NULL);
        hd_tensor *whole = dst.t;
        const hd_shape all = dst.shape;
        if (dst.shape.rank > 0) {
            model_permute(&dst);
            for (int i = 0; i < dst.shape.rank; ++i) {
                model_slice(&dst, i);
                model_cut(&dst, i);
            }
        }
        model_read(&dst);
        hd_shape from = dst.shape; /* broadcasts: some axes of size 1 */
        for (int i = 0; i < from.rank; ++i)
            if (random_below(3) == 0) from.size[i] = 1;
        const hd_dtype other = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        model_of(&src, from, other, NULL);
        hd_assign(dst.t, src.t);
        for (int64_t i = 0; i < dst.count; ++i) { /* the same in doubles */
            int64_t at[HD_MAX_RANK], place = dst.offset;
            coordinates_of(&dst.shape, i, at);
            for (int k = 0; k < dst.shape.rank; ++k) place += at[k] * dst.stride[k];
            for (int k = 0; k < from.rank; ++k) at[k] = from.size[k] == 1 ? 0 : at[k];
            const double v = src.v[index_of(&from, at)];
            const bool is_float = hd_dtype_is_float(dtype), is_unsigned = dtype >= HD_U8 && dtype <= HD_U64;
            dst.base[place] = dtype == HD_BOOL                                     ? v != 0
                              : is_float                                           ? v
                              : is_unsigned && (v < 0 && hd_dtype_is_float(other)) ? 0
                                                                                   : trunc(v);
            if (is_unsigned && v < 0 && !hd_dtype_is_float(other))
                dst.base[place] = ldexp(1, 8 * (int)hd_dtype_size(dtype)) + v; /* integers wrap */
        }
        double expect[MODEL_MOST];
        hd_tensor *as_dtype = hd_cast(hd_from_data(dst.base, all, HD_F64), dtype);
        assert_true(hd_to_array(as_dtype, expect, HD_F64, MODEL_MOST));
        if (dtype == HD_U64 && !hd_dtype_is_float(other)) continue; /* 2^64 - 1 is no double */
        assert_tensor(whole, dtype, &all, expect);
    }
}

static void overlap_is_as_if_the_source_were_copied_first(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_range(0, 1, 6, HD_F32);
    hd_assign(hd_slice(x, 0, 1, HD_END, 1), hd_slice(x, 0, 0, -1, 1)); /* forwards */
    assert_values(x, HD_F32, 0, 0, 1, 2, 3, 4);
    x = hd_range(0, 1, 6, HD_F32);
    hd_assign(x, hd_flip(x, HD_AXES()));
    assert_values(x, HD_F32, 5, 4, 3, 2, 1, 0);
    hd_tensor *m = counting(HD_SHAPE(3, 3), HD_I32);
    hd_assign(m, hd_t(m));
    assert_values(m, HD_I32, 0, 3, 6, 1, 4, 7, 2, 5, 8);
    hd_assign(m, hd_select(m, 0, 2)); /* its last row into all */
    assert_values(m, HD_I32, 2, 5, 8, 2, 5, 8, 2, 5, 8);
    hd_add_(hd_slice(x, 0, 0, 5, 1), hd_slice(x, 0, 1, 6, 1));
    assert_values(x, HD_F32, 9, 7, 5, 3, 1, 0);
    hd_mul_(x, x);
    assert_values(x, HD_F32, 81, 49, 25, 9, 1, 0);
    hd_sub_(x, hd_select(x, 0, 0)); /* a scalar that is part of what is written */
    assert_values(x, HD_F32, 0, -32, -56, -72, -80, -81);
    static float memory[2001]; /* the same in borrowed memory, which two storages may share */
    for (int i = 0; i < 2001; ++i) memory[i] = (float)i;
    hd_tensor *low = hd_from_blob(memory, HD_SHAPE(2000), HD_F32, NULL, NULL),
              *high = hd_from_blob(memory + 1, HD_SHAPE(2000), HD_F32, NULL, NULL);
    hd_assign(high, low);
    assert_same(high, hd_range(0, 1, 2000, HD_F32));
    hd_assign(high, hd_flip(low, HD_AXES()));
    assert_float_equal(memory[1], 1998, 0);
    assert_same(hd_slice(high, 0, 0, 1998, 1), hd_range(1998, -1, 1998, HD_F32));
}

static void dst_keeps_its_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_range(0, 1, 4, HD_I32);
    hd_add_(x, hd_scalar(0.75, HD_F64));
    assert_error(HD_ERROR_DTYPE, "hd_add_: the result is f64, which i32 cannot hold");
    hd_div_(x, hd_scalar(2, HD_I32));
    assert_error(HD_ERROR_DTYPE, "hd_div_");
    assert_values(x, HD_I32, 0, 1, 2, 3);
    hd_add_(x, hd_scalar(300, HD_I16));
    assert_values(x, HD_I32, 300, 301, 302, 303);
    hd_tensor *b = hd_empty(HD_SHAPE(2), HD_BOOL);
    hd_fill(b, 0.5);
    assert_values(b, HD_BOOL, 1, 1);
    hd_zero_(b);
    assert_values(b, HD_BOOL, 0, 0);
    hd_tensor *h = hd_ones(HD_SHAPE(1), HD_F16);
    hd_add_(h, hd_scalar(0x1p-11, HD_F64)); /* added in f64, rounded once, to even */
    assert_values(h, HD_F16, 1);
    hd_tensor *u = hd_zeros(HD_SHAPE(2), HD_U8);
    hd_assign(u, HD_TENSOR_F32(HD_SHAPE(2), -3, 1e9f)); /* casts saturate */
    assert_values(u, HD_U8, 0, 255);
}

static void writing_refuses(void **state) { /* and has written nothing */
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_range(0, 1, 6, HD_F32);
    hd_fill(hd_broadcast_to(hd_select(x, 0, 0), HD_SHAPE(3)), 1);
    assert_error(HD_ERROR_STATE, "hd_fill: the destination [3] is a view in which elements share memory");
    hd_add_(hd_unfold(x, 0, 3, 1), hd_scalar(1, HD_F32));
    assert_error(HD_ERROR_STATE, "hd_add_: the destination [4,3] is a view in which elements share memory");
    hd_zero_(hd_as_strided(x, HD_SHAPE(2, 2), HD_SHAPE(1, 1), 0));
    assert_error(HD_ERROR_STATE, "hd_zero_");
    hd_assign(x, hd_ones(HD_SHAPE(2, 6), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_assign: [2,6] does not broadcast to the destination's [6]");
    hd_mul_(hd_narrow(x, 0, 0, 1), hd_ones(HD_SHAPE(3), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_mul_");
    hd_assign(x, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_assign: `src` is NULL");
    hd_assign(NULL, x);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_assign: `dst` is NULL");
    assert_values(x, HD_F32, 0, 1, 2, 3, 4, 5);
    hd_fill(hd_unfold(x, 0, 2, 3), 7); /* windows that do not meet may be written */
    assert_values(x, HD_F32, 7, 7, 2, 7, 7, 5);
    hd_fill(hd_broadcast_to(hd_narrow(x, 0, 0, 1), HD_SHAPE(0)), 1); /* nothing is written, nothing is shared */
    assert_ok();
}

RUN(test(as_numpy_for_any_dtype_and_layout), test(concat_of_any_layouts_and_dtypes), test(stack_makes_an_axis),
    test(joining_refuses), test(padding_may_cut), test(pad_with_needs_something_to_repeat),
    test(repeating_works_at_any_rank), test(repeating_refuses), test(copies_have_memory_of_their_own),
    test(large_copies_in_any_order), test(assign_through_any_view), test(overlap_is_as_if_the_source_were_copied_first),
    test(dst_keeps_its_dtype), test(writing_refuses))
