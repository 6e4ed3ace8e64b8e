/* Templates as CUDA's text, compiled as C++: a sample of them is, and of families that are templates calls run on
 * CUDA's device with the fake, which runs the text on the CPU, against the CPU's own kernels. There is no GPU. */
#include "support.h"
#include "cuda/open_fake.h"
#include "gpu/families.h"
#include "gpu/templates.h"

static void every_template_compiles(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F64};
    for (int i = 0; i < 3 * TEMPLATE_LINES; ++i) {
        char log[2048], *text, *object;
        size_t bytes;
        if (!sampled((uint64_t)i, 13)) continue;
        text = template_text(i / 3, dtypes[i % 3], HD_DIALECT_CUDA, true);
        object = compiled_cuda(text, HODU_TEST_DATA "/../cuda", &bytes, log, sizeof log);
        if (object == NULL) fail_msg("line %d of %s: %s", i / 3, hd_dtype_name(dtypes[i % 3]), log);
        free(object);
        free(text);
    }
}

static void families_give_the_same(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F16};
    with_driver(FAKE_CUDA, "1");
    assert_true(hd_device_available(hd_cuda(0)));
    for (int k = 0; k < FAMILIES; ++k)
        for (int i = 0; i < 6; ++i)
            if (sampled((uint64_t)(k * 6 + i), 61)) family_check(k, dtypes[i / 2], i % 2 != 0, hd_cuda(0));
    assert_int_equal(fake->lost, 0);
}

RUN_WITH_FAKE(test(every_template_has_a_line), test(every_template_compiles), test(families_give_the_same))
