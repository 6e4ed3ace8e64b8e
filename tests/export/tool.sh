#!/bin/sh
# The tool writes what hd_script_export writes, and says what is wrong: tool.sh path/to/hodu-export file.hoduscript work-folder
set -eu
tool=$1 script=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
"$tool" --prefix first --function step --size "$script" "$work/out"
grep -q '^int first_step(first \*n' "$work/out.h"
grep -q '#include "out.h"' "$work/out.c"
cc -std=c99 -ffreestanding -Wall -Wextra -Wpedantic -Werror -c "$work/out.c" -o "$work/out.o"
refuses() { # text, arguments
    said=$1
    shift
    if "$tool" "$@" >"$work/log" 2>&1; then echo "nothing is said of $*"; exit 1; fi
    grep -q "$said" "$work/log" || { echo "of $* '$said' is not said:"; cat "$work/log"; exit 1; }
}
refuses usage
refuses usage --prefix
refuses usage --nothing "$script" "$work/net"
refuses "alignment" --align 16x "$script" "$work/net"
refuses "a name of C" "$script" "$work/9"
refuses "cannot be opened" "$work/absent.hoduscript" "$work/net"
