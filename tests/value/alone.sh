#!/bin/sh
# `cc prog.c -lm` is all it takes: the header in an empty program and in C++, the self-contained copies of micro-dist
# compiled far from the source tree; and names.txt is what the programs would invent without it.
set -u
root=$(cd "${1:?usage: alone.sh SOURCE-TREE C-COMPILER}" && pwd)
cc=${2:?usage: alone.sh SOURCE-TREE C-COMPILER}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'

mkdir "$work/hodu" && cp "$root/include/hodu/value.h" "$work/hodu/"
printf '#include <hodu/value.h>\nint main(void) { return hd_value_ok() ? 0 : 1; }\n' > "$work/empty.c"
"$cc" -std=c11 $warnings -I"$work" "$work/empty.c" -o "$work/empty" -lm && "$work/empty" ||
    { echo "the header in an empty program"; status=1; }

cxx=${CXX:-c++}
if command -v "$cxx" > /dev/null; then
    "$cxx" -std=c++17 -O1 $warnings -I"$work" "$root/tests/value/cxx.cpp" -o "$work/cxx" -lm -pthread && "$work/cxx" ||
        { echo "the header in C++17"; status=1; }
fi

sh "$root/scripts/micro-dist" "$root" "$work/dist" > /dev/null || exit 1
cd "$work/dist" || exit 1
for program in *.c; do
    "$cc" -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror "$program" -o "${program%.c}" -lm ||
        { echo "$program does not compile alone"; status=1; }
done
[ "$(ls ./*.c | wc -l)" -eq 10 ] || { echo "not ten programs"; status=1; }
for program in microkv micromoe; do
    ./$program > out.txt || { echo "$program, alone:"; tail -n 3 out.txt; status=1; }
done

cat > names.c << 'END'
#include "micro.h"
int main(void) {
    micro_names names = micro_names_invent();
    for (int i = 0; i < names.count; ++i) puts(names.name[i]);
    free(names.name);
    return 0;
}
END
"$cc" -std=c11 -I"$root/include" -I"$root/examples/micro" names.c -o names -lm && ./names > names.txt
cmp names.txt "$root/examples/micro/names.txt" || { echo "names.txt is not what micro_names_invent() makes"; status=1; }
exit $status
