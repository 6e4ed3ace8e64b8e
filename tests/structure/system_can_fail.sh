#!/bin/sh
# The test of headers of the system must be able to fail: system_can_fail.sh path/to/system.sh path/to/work
set -eu
system=$1
work=$2
failed=0

expect() { # yes|no, the including file, its line
    rm -rf "$work"
    mkdir -p "$work/core" "$work/$(dirname "$2")"
    echo '#include <stdint.h>' >"$work/core/a.h"
    printf '/* first line */\n%s\n' "$3" >"$work/$2"
    if sh "$system" "$work" >"$work.log"; then got=yes; else got=no; fi
    if [ "$got" = "$1" ] && { [ "$got" = yes ] || grep -q "^src/$2:2: " "$work.log"; }; then return; fi
    echo "src/$2 with $3: expected $1, got $got"
    cat "$work.log"
    failed=1
}

expect yes core/x.c '#include <string.h>'
expect yes core/x.c '#include <pthread.h>'
expect yes core/x.c '#include <hodu/hodu.h>'
expect yes core/os.c '#include <sys/mman.h>'
expect yes core/os_linux.c '#define _GNU_SOURCE'
expect yes device/cpu/cpu.c '#include <cpuid.h>'
expect no core/osmosis/x.c '#include <unistd.h>'
expect no xla/os.c '#include <unistd.h>'
expect no core/x.c '  #  include <unistd.h>'
expect no core/x.c '#include <threads.h>'
expect no core/x.c '#include <sys/stat.h>'
expect no core/x.h '#include<linux/futex.h>'
expect no nn/x.c '#include <cpuid.h>'
expect no script/file_home.c '#include <xxhash.h.in>'
expect no core/x.c '#define _GNU_SOURCE'
expect no core/x.c '# define _POSIX_C_SOURCE 200809L'
exit $failed
