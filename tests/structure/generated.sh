#!/bin/sh
# The committed files are what the op tables give: generated.sh path/to/generate path/to/source
set -eu
tool=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for file in include/hodu/ops.h docs/ops.md docs/dtypes.md; do
    "$tool" "${file##*/}" >"$work/now"
    diff -u "$source/$file" "$work/now" >"$work/difference" && continue
    echo "$file is not current, run \`make generate\`:"
    head -20 "$work/difference"
    status=1
done
exit $status
