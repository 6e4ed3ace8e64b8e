#!/bin/sh
# The include test must be able to fail: a tiny tree with one bad include of each kind, and a good one beside them.
# rooms_can_fail.sh path/to/rooms.sh path/to/work
set -eu
rooms=$1
work=$2
failed=0

expect() { # yes|no, the including file, its include line
    rm -rf "$work"
    for file in core/a.h kernel/b.h ops/c.h device/common.h device/cpu/d.h device/cuda/e.h grad/f.h graph/g.h nn/h.h io/i.h value/v.h fuse/j.h; do
        mkdir -p "$work/${file%/*}"
        echo '#include <stdint.h>' >"$work/$file"
    done
    mkdir -p "$work/$(dirname "$2")"
    printf '/* first line */\n%s\n' "$3" >"$work/$2"
    if sh "$rooms" "$work" >"$work.log"; then got=yes; else got=no; fi
    if [ "$got" = "$1" ] && { [ "$got" = yes ] || grep -q "^src/$2:[02]: " "$work.log"; }; then return; fi
    echo "src/$2 with $3: expected $1, got $got"
    cat "$work.log"
    failed=1
}

expect yes ops/x.c '#include "core/a.h"'
expect yes core/x.c '#include <hodu/hodu.h>'
expect yes device/cpu/x.c '#include "device/common.h"'
expect yes machine/x.c '#include "device/cpu/d.h"'
expect no nn/x.c '#include "device/cpu/d.h"'
expect no plan/x.c '#include "device/common.h"'
expect no codegen/x.c '#include "fuse/j.h"'
expect yes machine/x.c '    return hd_cpu_product(thread, &product);'
expect no plan/x.c '    return hd_cpu_product(thread, &product);'
expect no fuse/x.c 'if (hd_cpu_product_reads(dtype, x)) return;'
expect yes plan/x.c '    storage.device = hd_cpu();'
expect no core/x.c '#include "kernel/b.h"'
expect no ops/x.c '  #  include "grad/f.h"'
expect no kernel/x.def '#include"ops/c.h"'
expect no device/cpu/x.c '#include "device/cuda/e.h"'
expect no grad/x.c '#include "graph/g.h"'
expect no nn/x.c '#include "io/i.h"'
expect no core/x.c '#include <kernel/b.h>'
expect no core/x.c '#include "a.h"'
expect no core/x.c '#include "../kernel/b.h"'
expect no core/x.c '#include "hodu/hodu.h"'
expect no core/x.c '#include HIDDEN'
expect no core/x.c '#include "value/v.h"'
expect no value/x.c '#include "core/a.h"'
expect no attic/x.c '#include <stdint.h>'
expect yes core/environment.c 'const char *value = secure_getenv(name);'
expect no core/x.c 'const char *home = getenv("HOME");'
expect no ops/x.c 'if (secure_getenv ("HOME") == NULL) return;'
exit $failed
