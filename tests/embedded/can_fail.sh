#!/usr/bin/env bash
# What is wrong with a net or a test is noticed: can_fail.sh BOARD work-folder
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
board=$1 work=$2
mkdir -p "$work"
failed=0

expect() { # what it is, exit status, text of the output; the rest is run
    local name=$1 status=$2 text=$3 got=0
    shift 3
    "$@" >"$work/out" 2>&1 || got=$?
    if [ $got = 77 ]; then cat "$work/out" && exit 77; fi
    [ $got = "$status" ] && grep -qF -e "$text" "$work/out" && return
    echo "$name: expected exit $status and \"$text\"; got exit $got and"
    cat "$work/out"
    failed=1
}
# shellcheck disable=SC2317 # it is called by its name
on_board() { "$here/run" --seconds "${seconds:-20}" ${define:+--define "$define"} "$board" "$work/a.elf" "$@"; }
program() { # the statements of main
    printf '#include "board.h"\nint main(void) {\n    %s\n}\n' "$1" >"$work/main.c"
}
net() { # the statements of a function that takes and gives a float
    printf 'float net(float x);\nfloat net(float x) {\n    %s\n}\n' "$1" >"$work/net.c"
}

program 'print("all is well\n"); return 0;'
net 'return x + 1;'
expect "a test that is right" 0 "all is well" on_board "$work/main.c" "$work/net.c"
net 'float expf(float); return expf(x);'
expect "a function of libc" 1 "net.c needs what is not in tests/embedded/runtime.txt: expf" on_board "$work/main.c" "$work/net.c"
net 'int unused; return x;'
expect "a warning" 1 "unused" on_board "$work/main.c" "$work/net.c"
net 'return ({ x; });'
expect "an extension" 1 "error: " on_board "$work/main.c" "$work/net.c"

program 'print("no\n"); return 5;'
expect "main fails" 5 "no" on_board "$work/main.c"
program 'for (volatile unsigned i = 0;;) ++i;'
seconds=1 expect "no end" 124 "ran longer than 1 s" on_board "$work/main.c"

case $board in
host-*)
    define=ARENA=28 expect "an arena that is too small" 1 "AddressSanitizer: global-buffer-overflow" \
        on_board "$here/sample/main.c" "$here/sample/net.c"
    ;;
*)
    program '__builtin_trap();'
    expect "a fault" 3 "fault " on_board "$work/main.c"
    program 'volatile char much[70000]; for (unsigned i = 0; i < sizeof much; ++i) much[i] = 1; return much[5] - 1;'
    expect "a stack that is too small" 3 "the stack overflowed" on_board "$work/main.c"
    program 'print_int(sizeof(void *)); return 0;'
    expect "another output than the host's" 1 "$board prints something else" "$here/same" "$board" "$work/a.elf" "$work/main.c"
    ;;
esac
exit $failed
