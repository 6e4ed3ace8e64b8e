#!/bin/sh
# What leaves the shared library is what the public headers declare: symbols.sh libhodu.so libhodu.a include-folder compiler
# Fails on an exported symbol without the prefix hd_, on one that no header declares, on a prototype that is not
# exported, and on a library without its soname. The static library, whose insides a linker sees, has only hd_ too.
set -eu
library=$1 archive=$2 include=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >"$work/exported"

# HD_API marks each declaration; the name is the first one that a parenthesis (function) or the end (data) follows.
for header in "$include"/hodu/*.h; do echo "#include <hodu/${header##*/}>"; done >"$work/all.c"
$cc -std=c11 -E -P -DHD_API=HD_API_HERE -I"$include" "$work/all.c" | tr '\n' ' ' | sed 's/HD_API_HERE/\n&/g' |
    sed -n 's/^HD_API_HERE[^(;]*[^A-Za-z0-9_]\(hd_[A-Za-z0-9_]*\) *[(;[].*/\1/p' | sort -u >"$work/declared"
marks=$($cc -std=c11 -E -P -DHD_API=HD_API_HERE -I"$include" "$work/all.c" | grep -o HD_API_HERE | wc -l)

status=0
complain() {
    [ -s "$1" ] || return 0
    echo "$2:"
    sed 's/^/    /' "$1"
    status=1
}
grep -v '^hd_' "$work/exported" >"$work/strange" || true
complain "$work/strange" "exported without the prefix hd_"
nm -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' | grep -v '^hd_' >"$work/strange" || true
complain "$work/strange" "in the static library without the prefix hd_"
comm -23 "$work/exported" "$work/declared" >"$work/undeclared"
complain "$work/undeclared" "exported, but in no public header"
comm -13 "$work/exported" "$work/declared" >"$work/missing"
complain "$work/missing" "in a public header, but not exported"
readelf -d "$library" | grep -q 'SONAME.*\[libhodu\.so\.[0-9]*\]' || { echo "$library has no soname libhodu.so.N"; status=1; }
if [ "$(wc -l <"$work/declared")" -ne "$marks" ] || [ "$marks" -eq 0 ]; then
    echo "read $(wc -l <"$work/declared") names from $marks declarations marked HD_API"
    status=1
fi
echo "$(wc -l <"$work/exported") symbols exported, $marks declared"
exit $status
