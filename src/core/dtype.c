/* dtypes: names, sizes and promotion. Pure tables: tools/generate.c links this file alone. */
#include "core/dtype.h"

#define SIZE(NAME, name, bytes) [HD_##NAME] = bytes,
const uint8_t hd_dtype_bytes[HD_DTYPE_COUNT] = {HD_DTYPE_LIST(SIZE)};
#undef SIZE

#define HD_B8 HD_BOOL
const uint8_t hd_compute_dtype[HD_COMPUTE_COUNT + 1] = {
#define DTYPE_OF(NAME, name) [HD_COMPUTE_##NAME] = HD_##NAME,
    HD_COMPUTE_LIST(DTYPE_OF)[HD_COMPUTE_COUNT] = HD_BOOL};
const uint8_t hd_dtype_compute[HD_DTYPE_COUNT] = {
    [HD_BOOL] = HD_COMPUTE_B8, [HD_U8] = HD_COMPUTE_U8,      [HD_U16] = HD_COMPUTE_U16,    [HD_U32] = HD_COMPUTE_U32,
    [HD_U64] = HD_COMPUTE_U64, [HD_I8] = HD_COMPUTE_I8,      [HD_I16] = HD_COMPUTE_I16,    [HD_I32] = HD_COMPUTE_I32,
    [HD_I64] = HD_COMPUTE_I64, [HD_F8E4M3] = HD_COMPUTE_F32, [HD_F8E5M2] = HD_COMPUTE_F32, [HD_BF16] = HD_COMPUTE_F32,
    [HD_F16] = HD_COMPUTE_F32, [HD_F32] = HD_COMPUTE_F32,    [HD_F64] = HD_COMPUTE_F64,
};

const char *hd_dtype_name(hd_dtype dtype) {
#define NAME_OF(NAME, name, bytes) [HD_##NAME] = #name,
    static const char *const names[HD_DTYPE_COUNT] = {[HD_DTYPE_DEFAULT] = "default", HD_DTYPE_LIST(NAME_OF)};
#undef NAME_OF
    return (unsigned)dtype < HD_DTYPE_COUNT ? names[dtype] : "?";
}

size_t hd_dtype_size(hd_dtype dtype) { return (unsigned)dtype < HD_DTYPE_COUNT ? hd_dtype_bytes[dtype] : 0; }
bool hd_dtype_is_float(hd_dtype d) { return d >= HD_F8E4M3 && d < HD_DTYPE_COUNT; }
bool hd_dtype_is_integer(hd_dtype d) { return d >= HD_U8 && d <= HD_I64; }

hd_dtype hd_dtype_promote(hd_dtype a, hd_dtype b) {
    if (!hd_dtype_valid(a) || !hd_dtype_valid(b)) return HD_DTYPE_DEFAULT;
    if (a == b) return a;
    if (a > b) return hd_dtype_promote(b, a); /* a before b in the list: bool, unsigned, signed, floats by width */
    if (a == HD_BOOL) return b;
    if (hd_dtype_is_float(b)) {
        if (!hd_dtype_is_float(a)) return b;
        if (b == HD_F8E5M2) return HD_BF16;             /* the two f8 formats meet in bf16 */
        if (a == HD_BF16 && b == HD_F16) return HD_F32; /* neither holds the other */
        return b;
    }
    if (hd_dtype_is_signed(a) || !hd_dtype_is_signed(b)) return b; /* both signed or both unsigned: the wider */
    if (hd_dtype_bytes[b] > hd_dtype_bytes[a]) return b;
    switch (hd_dtype_bytes[a]) { /* unsigned with a signed type no wider: the next signed one */
    case 1: return HD_I16;
    case 2: return HD_I32;
    case 4: return HD_I64;
    default: return HD_F32;
    }
}
