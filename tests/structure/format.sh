#!/bin/sh
# Every C file is laid out as clang-format 14 does it (`make format`), and no line is longer than 120 columns; rows of
# the tables (.def) may have 140. Other versions of clang-format lay out some lines otherwise: without 14, this is skipped.
#     format.sh project
set -eu
export LC_ALL=C
cd "$1"
status=0

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find src include tests tools bench examples -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.def' | sort >"$list"
[ "$(wc -l <"$list")" -gt 100 ] || { echo "format.sh: there is nothing to look at in $1"; exit 1; }

# Characters are counted, not bytes: those that continue a UTF-8 sequence are no columns.
xargs awk '{
    line = $0
    gsub(/[\200-\277]/, "", line)
    if (length(line) > (FILENAME ~ /\.def$/ ? 140 : 120)) { printf "%s:%d: %d columns\n", FILENAME, FNR, length(line); bad = 1 }
} END { exit bad }' <"$list" || status=1

formatter=
for name in clang-format-14 clang-format; do
    case $("$name" --version 2>/dev/null) in *"version 14."*) formatter=$name && break ;; esac
done
if [ -n "$formatter" ]; then
    grep -v '\.def$' "$list" | xargs "$formatter" --dry-run --Werror || status=1
elif [ $status = 0 ]; then
    echo "there is no clang-format 14 here (scripts/setup --format installs it): only lengths of lines were looked at"
    exit 77
fi
[ $status = 0 ] || echo "make format lays the code out"
exit $status
