#!/bin/sh
# Each public header compiles alone, twice in a row, as C11 and C++17, without a warning: headers.sh include C-compiler C++-compiler
set -eu
include=$1 cc=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0 count=0
for header in "$include"/hodu/*.h; do
    name=hodu/${header##*/}
    printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$name" "$name" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cpp"
    $cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$work/alone.c" || { echo "<$name> as C11: see above"; status=1; }
    $cxx -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$work/alone.cpp" || { echo "<$name> as C++17: see above"; status=1; }
    count=$((count + 1))
done
# Creators take shape, dtype, numbers: what is exchanged does not compile, what is right does. Likewise data of a type that
# is none of ours.
c="$cc -std=c11 $work/try.c" cpp="$cxx -std=c++17 $work/try.cpp"
try() { # what is expected, a line of code, and in which language, unless in both
    printf '#include <hodu/hodu.h>\n#define N 10\nint main(void) { double d[2] = {1, 2}; long double l[2] = {1, 2}; hd_tensor *t = 0; (void)d, (void)l, (void)t; %s; return hd_exit_status(); }\n' "$2" >"$work/try.c"
    cp "$work/try.c" "$work/try.cpp"
    for compile in "$c" "$cpp"; do
        [ "${3-$compile}" = "$compile" ] || continue
        if $compile -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" >"$work/log" 2>&1; then got=compiles; else got=refused; fi
        [ $got = "$1" ] || { echo "$2 with $compile: $got, not $1"; cat "$work/log"; status=1; }
    done
}
try compiles 'hd_full(HD_SHAPE(2), HD_F32, 3)'
try refused 'hd_full(HD_SHAPE(2), 3, HD_F32)'
try refused 'hd_full(HD_SHAPE(2), 3.0, HD_F32)'
try compiles 'hd_uniform(HD_SHAPE(2, 3), hd_default_dtype(), -1, 1)'
try refused 'hd_uniform(HD_SHAPE(2, 3), -1, 1, HD_F32)'
try refused 'hd_bernoulli(HD_SHAPE(2), .3, HD_F32)'
try refused 'hd_truncated_normal(HD_SHAPE(2), 0, HD_F32, 1, -1, 1)'
try refused 'hd_arange(HD_F32, 0, 3, 1)'
try refused 'hd_scalar(HD_F32, 3)'
try compiles 'hd_scalar(3, HD_F32)'
try refused 'hd_zeros(HD_SHAPE(2), 3)'
try refused 'hd_ones(HD_SHAPE(2), 3)'
try refused 'hd_empty(HD_SHAPE(2), 3)'
try refused 'hd_rand(HD_SHAPE(2), 14)'
try refused 'hd_randn(HD_SHAPE(2), 14)'
try refused 'hd_cast(t, 3)'
try refused 'hd_bitcast(t, 3)'
try compiles 'hd_cast(hd_add(hd_cast(t, HD_F32), hd_cast(hd_cast(t, HD_I64), hd_tensor_dtype(t))), HD_F64)'
try refused 'hd_cast(hd_cast(t, 3), HD_F64)'
try refused 'hd_from_data(d, HD_SHAPE(2), 14)'
try refused 'hd_from_blob(d, HD_SHAPE(2), 14, NULL, NULL)'
try refused 'hd_data(t, 13)'
try refused 'hd_data_mut(t, 13)'
try refused 'hd_to_array(t, d, 14, 2)'
try compiles 'hd_to_array(t, d, HD_F64, 2)'
try refused 'hd_input("x", HD_SHAPE(2), 14)'
try refused 'hd_builder_add_input(NULL, "x", HD_SHAPE(2), 14)'
try refused 'hd_set_default_dtype(13)'
try refused 'hd_dtype_name(13)'
try refused 'hd_dtype_size(13)'
try refused 'hd_dtype_is_float(13)'
try refused 'hd_dtype_is_integer(13)'
try refused 'hd_dtype_promote(HD_F32, 13)'
try refused 'hd_dtype_promote(13, HD_F32)'
# Commas of compound literals are none between arguments, wherever they are; and the name alone is the function.
shape='(hd_shape){.rank = 2, .size = {2, 3}}'
try compiles "hd_full($shape, HD_F32, 1)" "$c"
try compiles "hd_full(HD_SHAPE(2), HD_F32, (struct { double a, b; }){1, 2}.b)" "$c"
try compiles "hd_zeros($shape, HD_F32)" "$c"
try compiles "hd_zeros($shape, (hd_dtype[]){HD_F32, HD_F64}[1])" "$c"
try compiles "hd_normal($shape, HD_F32, 0, 1)" "$c"
try compiles "hd_cast(hd_full($shape, HD_F32, 1), HD_F64)" "$c"
try compiles "hd_from_data((double[]){1, 2, 3, 4, 5, 6}, $shape, HD_F64)" "$c"
try compiles "HD_FROM_DATA(d, (hd_shape){.rank = 1, .size = {2}})" "$c"
try compiles "hd_from_blob(d, HD_SHAPE(2), HD_F64, NULL, &(int[]){1, 2})" "$c"
try compiles "hd_input(\"x\", $shape, HD_F32)" "$c"
try compiles "hd_builder_add_input(NULL, \"x\", $shape, HD_F32)" "$c"
try compiles 'hd_tensor *(*f)(hd_shape, hd_dtype, double) = hd_full; f(HD_SHAPE(2), HD_F32, 1); (hd_full)(HD_SHAPE(2), HD_F32, 1)'
try refused 'hd_full(HD_SHAPE(2), HD_F32)'
try refused 'hd_full(HD_SHAPE(2), HD_F32, 1, 2)'
# Every function that takes a dtype looks at it.
for header in "$include"/hodu/*.h; do
    for name in $(tr '\n' ' ' <"$header" | grep -o 'HD_API [^;]*;' | grep '[(,] *hd_dtype ' | sed 's/(.*//; s/.*[ *]//'); do
        grep -q "^#define $name(\.\.\.) *HD_CHECKED(" "$header" || { echo "${header##*/}: $name takes any number for a dtype"; status=1; }
    done
done
try compiles 'HD_FROM_DATA(d, HD_SHAPE(2))'
try refused 'HD_FROM_DATA(l, HD_SHAPE(2))'
echo "$count headers with $cc and $cxx"
[ $count -gt 0 ] || status=1
exit $status
