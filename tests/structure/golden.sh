#!/bin/sh
# Every op that is no elementwise row has golden values, which NumPy or PyTorch computed, or stands in tests/golden/without.txt
# with what tells instead: golden.sh source-folder. Rows of elementwise.def are looked at by ops/golden itself.
set -eu
cd "$1"
list=tests/golden/without.txt
status=0
complain() {
    echo "$1"
    status=1
}
ops=$(sed -n -e 's/^COMPOSITE_PARTS([a-z_]*, /COMPOSITE(/' \
    -e 's/^\(PRIMITIVE\|COMPOSITE\|COMPOSITE_[A-Z]*\)(\([a-z0-9_]*\),.*/\2/p' src/ops/ops.def)
without=$(grep -v '^#' "$list" | cut -d: -f1 | tr -d ,)
for op in $ops; do
    listed=false has=false
    for name in $without; do [ "$name" = "$op" ] && listed=true; done
    if grep -qw "hd_$op" tests/grad/test_golden.c tests/grad/test_layers.c || grep -qE "^$op( |_|:)" tests/golden/families.txt; then has=true; fi
    $has || $listed || complain "hd_$op has no golden values: tests/golden/make_families.py or make_gradients.py, or a line of $list"
    if $has && $listed; then complain "hd_$op has golden values, and stands in $list"; fi
done
for name in $without; do
    printf '%s\n' "$ops" | grep -qx "$name" || complain "hd_$name of $list is no op"
done
[ "$(printf '%s\n' "$ops" | wc -l)" -gt 100 ] || complain "src/ops/ops.def was not read"
exit $status
