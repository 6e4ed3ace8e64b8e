/* A library without the xla room (HODU_XLA=OFF): whatever is asked of XLA is an error that says so. */
#include "script/script.h"

#if !HD_HAS_XLA

static hd_error not_built(void) {
    return hd_fail(HD_ERROR_DEVICE, "this library was built without XLA (HODU_XLA=OFF); HD_COMPILER_HODU is there");
}

int64_t hd_script_format_stablehlo(const hd_script *script, char *out, size_t capacity) {
    HD_ENTER("hd_script_format_stablehlo", -1);
    (void)script, (void)out, (void)capacity;
    not_built();
    return -1;
}

void hd_script_print_stablehlo(const hd_script *script) {
    HD_ENTER("hd_script_print_stablehlo", );
    (void)script;
    not_built();
}

#endif
