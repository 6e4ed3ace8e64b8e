/* A user's program, valid as C11 and as C++17, that structure/install compiles against an installed copy. */
#include <stdio.h>
#include <string.h>

#include <hodu/hodu.h>

int main(void) {
    HD_SCOPE;
    hd_tensor *x = hd_full(HD_SHAPE(2, 3), 1.5, HD_F32);
    hd_tensor *y = hd_add(hd_exp(hd_sub(x, x)), hd_mul_scalar(x, 2));
    const double total = hd_item(hd_sum(y, HD_AXES(), NULL));
    if (!hd_ok()) return fprintf(stderr, "%s\n", hd_error_message()), 1;
    if (total != 24 || strcmp(hd_version(), HD_VERSION_STRING) != 0)
        return fprintf(stderr, "%s gives %g\n", hd_version(), total), 1;
    printf("hodu %s, %g\n", hd_version(), total);
    return 0;
}
