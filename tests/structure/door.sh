#!/bin/sh
# Every public function that takes a shape or a list of axes by value has a row in tests/ops/door.def, and nothing else
# has one.
set -eu
root=${1:?usage: door.sh SOURCE-TREE}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$root"/include/hodu/*.h | tr '\n' ' ' | tr ';' '\n' | grep 'HD_API' |
    grep -E '[(,] *hd_(shape|axes) +[a-z_]+ *[,)]' | sed -E 's/.*HD_API [^(]*(hd_[a-z0-9_]+)\(.*/\1/' |
    grep -vx 'hd_shape_equal\|hd_shape_count' | sort -u > "$work/headers"
sed -nE 's/^(SHAPE|STRIDES|AXES)\(([a-z0-9_]+),.*/hd_\2/p' "$root/tests/ops/door.def" | sort -u > "$work/rows"
[ "$(wc -l < "$work/headers")" -gt 40 ] || { echo "found only $(wc -l < "$work/headers") functions"; exit 1; }
diff "$work/headers" "$work/rows" || { echo "tests/ops/door.def does not fit the headers (< headers, > rows)"; exit 1; }
