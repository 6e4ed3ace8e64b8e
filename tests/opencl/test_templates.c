/* Families that are templates, on an OpenCL device: shapes, dtypes, views and options against the CPU. A sample, as a
 * new text takes PoCL a tenth of a second and more; all of it in `make check-gpu`. */
#include "support.h"

#include "core/memory.h"
#include "gpu/families.h"

static hd_device there(void) { return hd_opencl(0); }

static void families_give_the_same(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F64, HD_F16, HD_F8E4M3, HD_F8E5M2};
    const hd_device_info info = hd_device_describe(there());
    for (int k = 0; k < FAMILIES; ++k)
        for (int i = 0; i < (getenv("WAYS") ? atoi(getenv("WAYS")) : 12); ++i)
            if (getenv("ONLY") == NULL || strstr(families[k].name, getenv("ONLY")) != NULL)
                if ((info.has_f64 || dtypes[i / 2] != HD_F64) && sampled((uint64_t)(k * 12 + i), 37))
                    family_check(k, dtypes[i / 2], i % 2 != 0, there());
}

int main(void) {
    const struct CMUnitTest tests[] = {test(families_give_the_same)};
    if (hd_device_count(HD_DEVICE_OPENCL) > 0) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", hd_device_missing(there()));
    return 77;
}
