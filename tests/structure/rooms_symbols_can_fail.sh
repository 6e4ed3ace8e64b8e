#!/bin/sh
# The test of symbols must be able to fail: a few objects that call each other as they may and as they may not.
# rooms_symbols_can_fail.sh path/to/rooms_symbols.sh path/to/rooms.sh path/to/work compiler [nm]
set -eu
test=$1 rooms=$2 work=$3 cc=$4 nm=${5:-nm}
failed=0

object() { # its file, its text
    mkdir -p "$work/src/$(dirname "$1")"
    printf '%s\n' "$2" >"$work/src/$1"
    "$cc" -c "$work/src/$1" -o "$work/src/$1.o"
    echo "$work/src/$1.o" >>"$work/objects"
}

expect() { # yes|no, the calling file, what it calls
    rm -rf "$work"
    mkdir -p "$work"
    object core/a.c 'void hd_core(void) {}'
    object ops/c.c 'void hd_ops(void) {}'
    object grad/f.c 'void hd_grad(void) {}'
    object graph/g.c 'void hd_graph(void) {} int hd_graph_data;'
    object library/l.c 'void hd_library_open(void) {} void hd_library_open_compilers(void) {}'
    object "$2" "$3"
    if sh "$test" "$rooms" "$work/objects" "$nm" >"$work.log"; then got=yes; else got=no; fi
    if [ "$got" = "$1" ] && { [ "$got" = yes ] || grep -q "^src/$2: " "$work.log"; }; then return; fi
    echo "src/$2 with $3: expected $1, got $got"
    cat "$work.log"
    failed=1
}

expect yes ops/x.c 'void hd_core(void); void hd_x(void) { hd_core(); }'
expect yes ops/x.c 'void hd_ops(void); void hd_x(void) { hd_ops(); }'
expect yes core/x.c 'void abort(void); void hd_x(void) { abort(); }'
expect yes core/thread.c 'void hd_library_open(void); void hd_x(void) { hd_library_open(); }'
expect yes script/script.c 'void hd_library_open_compilers(void); void hd_x(void) { hd_library_open_compilers(); }'
expect no core/pool.c 'void hd_library_open(void); void hd_x(void) { hd_library_open(); }'
expect no core/x.c 'void hd_ops(void); void hd_x(void) { hd_ops(); }'
expect no core/x.c 'void hd_ops(void); void (*hd_x)(void) = hd_ops;'
expect no core/x.c 'void hd_ops(void) __attribute__((weak)); void hd_x(void) { if (hd_ops) hd_ops(); }'
expect no core/x.c 'extern int hd_graph_data; int hd_x(void) { return hd_graph_data; }'
expect no grad/x.c 'void hd_graph(void); void hd_x(void) { hd_graph(); }'
exit $failed
