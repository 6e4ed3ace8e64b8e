/* Templates as Metal's text, compiled as C++: all of them are, and of families that are templates calls run on Metal's
 * device with the fake, which runs the text on the CPU, against the CPU's own kernels. This is not a Mac. */
#include "support.h"
#include "gpu/families.h"
#include "gpu/templates.h"
#include "metal/open_fake.h"

static void every_template_compiles(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16};
    for (int i = 0; i < 2 * TEMPLATE_LINES; ++i) {
        char log[2048], *text;
        const hd_template which = (hd_template)template_lines[i / 2].which;
        if (!hd_template_is_in(which, HD_DIALECT_METAL) || !sampled((uint64_t)i, 9)) continue;
        text = template_text(i / 2, dtypes[i % 2], HD_DIALECT_METAL, false);
        void *library = compiled_text(text, HODU_TEST_DATA "/../metal", log, sizeof log);
        if (library == NULL) fail_msg("line %d of %s: %s", i / 2, hd_dtype_name(dtypes[i % 2]), log);
        dlclose(library);
        free(text);
    }
}

static void families_give_the_same(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F16};
    assert_true(hd_device_available(hd_metal()));
    for (int k = 0; k < FAMILIES; ++k)
        for (int i = 0; i < 6; ++i)
            if (sampled((uint64_t)(k * 6 + i), 61)) family_check(k, dtypes[i / 2], i % 2 != 0, hd_metal());
    assert_int_equal(fake->leaked, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(every_template_has_a_line), test(every_template_compiles),
                                       test(families_give_the_same)};
    const char *missing = open_fake();
    if (missing == NULL) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", missing);
    return 77;
}
