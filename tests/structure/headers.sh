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
try() { # what is expected, a line of code
    printf '#include <hodu/hodu.h>\nint main(void) { double d[2] = {1, 2}; long double l[2] = {1, 2}; (void)d, (void)l; %s; return hd_exit_status(); }\n' "$2" >"$work/try.c"
    cp "$work/try.c" "$work/try.cpp"
    for compile in "$cc -std=c11 $work/try.c" "$cxx -std=c++17 $work/try.cpp"; do
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
try refused 'hd_arange(HD_F32, 0, 3, 1)'
try compiles 'HD_FROM_DATA(d, HD_SHAPE(2))'
try refused 'HD_FROM_DATA(l, HD_SHAPE(2))'
echo "$count headers with $cc and $cxx"
[ $count -gt 0 ] || status=1
exit $status
