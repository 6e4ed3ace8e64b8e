/* Products on an OpenCL device, against the CPU. A sample of them, as PoCL takes a tenth of a second and more for each
 * new text; all in `make check-gpu`. */
#include <hodu/hodu.h>

static hd_device there(void) { return hd_opencl(0); }
#include "gpu/products.h"

int main(void) {
    const struct CMUnitTest tests[] = {PRODUCT_TESTS};
    if (hd_device_count(HD_DEVICE_OPENCL) > 0) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", hd_device_missing(there()));
    return 77;
}
