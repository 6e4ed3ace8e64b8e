/* A second source file that includes the header: it must see the same tape as engine.c. */
#include <hodu/value.h>

hd_value other_file_square(hd_value x);
hd_value other_file_square(hd_value x) { return hd_value_mul(x, x); }
