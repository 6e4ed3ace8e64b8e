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
echo "$count headers with $cc and $cxx"
[ $count -gt 0 ] || status=1
exit $status
