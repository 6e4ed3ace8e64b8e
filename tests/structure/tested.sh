#!/bin/sh
# Every op that is no elementwise row is called by a test of the ops room: tested.sh source-folder
set -eu
cd "$1"
status=0
for op in $(sed -n -e 's/^COMPOSITE_PARTS([a-z_]*, /COMPOSITE(/' \
    -e 's/^\(PRIMITIVE\|COMPOSITE\|COMPOSITE_[A-Z]*\)(\([a-z0-9_]*\),.*/\2/p' src/ops/ops.def); do
    grep -qw "hd_$op" tests/ops/*.c tests/ops/*.h 2>/dev/null || { echo "hd_$op is in no test of tests/ops"; status=1; }
done
exit $status
