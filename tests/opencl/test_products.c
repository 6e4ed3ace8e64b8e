/* Products on an OpenCL device, against the CPU. A sample of them, as PoCL takes a tenth of a second and more for each
 * new text; all in `make check-gpu`. */
#include <hodu/hodu.h>

static hd_device there(void) { return hd_opencl(0); }
#include "gpu/products.h"

RUN_ON(there(), PRODUCT_TESTS)
