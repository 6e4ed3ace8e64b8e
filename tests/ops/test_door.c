/* Shapes and lists of axes come by value, with whatever rank the caller wrote into them: every public function that
 * takes one refuses what is none before it looks at the sizes. */
#include "support.h"

static hd_tensor *matrix, *image;
static hd_builder *builder;
static float data[16];

#define SHAPE(call, ...)                                                                                               \
    static void call##_of_shape(hd_shape s) { hd_##call(__VA_ARGS__); }
#define STRIDES(call, ...)                                                                                             \
    static void call##_of_strides(hd_shape s) { hd_##call(__VA_ARGS__); }
#define AXES(call, ...)                                                                                                \
    static void call##_of_axes(hd_axes a) { hd_##call(__VA_ARGS__); }
#include "door.def"
#undef SHAPE
#undef STRIDES
#undef AXES

typedef struct entry {
    const char *name;
    void (*with_shape)(hd_shape s);
    void (*with_axes)(hd_axes a);
    bool takes_negative; /* sizes below 0 mean something: strides, or "what is left" */
} entry;
static const entry entries[] = {
#define SHAPE(call, ...)   {"hd_" #call, call##_of_shape, NULL, false},
#define STRIDES(call, ...) {"hd_" #call, call##_of_strides, NULL, true},
#define AXES(call, ...)    {"hd_" #call, NULL, call##_of_axes, false},
#include "door.def"
#undef SHAPE
#undef STRIDES
#undef AXES
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

static const int ranks[] = {9, -1, 1000000, INT32_MAX, INT32_MIN};

static void refused(const char *name, const char *what, int64_t number) {
    if (hd_ok()) fail_msg("%s: %s %lld is no error", name, what, (long long)number);
    if (hd_error_code() == HD_ERROR_MEMORY || hd_error_code() == HD_ERROR_INTERNAL || strlen(hd_error_message()) > 400)
        fail_msg("%s: %s %lld: \"%s\"", name, what, (long long)number, hd_error_message());
    hd_error_clear();
}

static void prepare(void) {
    matrix = hd_ones(HD_SHAPE(2, 2), HD_F32);
    image = hd_ones(HD_SHAPE(1, 2, 3, 3), HD_F32);
    builder = hd_builder_new("door");
}

static void a_rank_that_is_none_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < ENTRIES; ++i)
        for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; ++k) {
            HD_SCOPE;
            prepare();
            if (entries[i].with_shape != NULL) {
                hd_shape s = {.rank = ranks[k]};
                for (int n = 0; n < HD_MAX_RANK; ++n) s.size[n] = 1;
                entries[i].with_shape(s);
            } else {
                hd_axes a = {.count = ranks[k]};
                for (int n = 0; n < HD_MAX_RANK; ++n) a.axis[n] = n;
                entries[i].with_axes(a);
            }
            refused(entries[i].name, "rank", ranks[k]);
        }
}

static void sizes_below_zero_are_refused(void **state) {
    (void)state;
    const int64_t sizes[] = {-2, INT64_MIN};
    for (int i = 0; i < ENTRIES; ++i)
        for (int k = 0; k < 2; ++k)
            for (int rank = 1; rank <= HD_MAX_RANK; ++rank) {
                HD_SCOPE;
                if (entries[i].with_shape == NULL || entries[i].takes_negative) continue;
                prepare();
                hd_shape s = {.rank = rank};
                for (int n = 0; n < rank; ++n) s.size[n] = sizes[k];
                entries[i].with_shape(s);
                refused(entries[i].name, "size", sizes[k]);
            }
}

static void axes_out_of_range_are_refused(void **state) {
    (void)state;
    const int axes[] = {2, -3, INT32_MAX, INT32_MIN};
    for (int i = 0; i < ENTRIES; ++i)
        for (int k = 0; k < 4; ++k) {
            HD_SCOPE;
            if (entries[i].with_axes == NULL) continue;
            prepare();
            entries[i].with_axes((hd_axes){.count = 2, .axis = {0, axes[k]}});
            refused(entries[i].name, "axis", axes[k]);
        }
}

/* What computes with shapes alone has no error to give: it says that they are none. */
static void wild_shapes_have_no_elements_and_equal_nothing(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; ++k) {
        const hd_shape wild = {.rank = ranks[k]};
        assert_int_equal(hd_shape_count(wild), -1);
        assert_false(hd_shape_equal(wild, wild));
        assert_false(hd_shape_equal(wild, HD_SHAPE()));
    }
    assert_int_equal(hd_shape_count(HD_SHAPE(2, -1)), -1);
}

RUN(test(a_rank_that_is_none_is_refused), test(sizes_below_zero_are_refused), test(axes_out_of_range_are_refused),
    test(wild_shapes_have_no_elements_and_equal_nothing))
