#!/bin/sh
# The test of what a page names must be able to fail: named_can_fail.sh path/to/named.sh path/to/work
# shellcheck disable=SC2016 # the pages have backquotes
set -eu
named=$1 work=$2
failed=0

expect() { # yes, or what it complains of; then the page
    rm -rf "$work"
    mkdir -p "$work/docs" "$work/src/core"
    printf 'int hd_one(void);\nint hd_two(void);\n' >"$work/src/core/a.c"
    printf '%b' "$2" >"$work/docs/life-of-a-call.md"
    if sh "$named" "$work" >"$work/log" 2>&1; then got=yes; else got=no; fi
    if [ "$1" = yes ] && [ $got = yes ]; then return; fi
    if [ "$1" != yes ] && [ $got = no ] && grep -qF -e "$1" "$work/log"; then return; fi
    echo "expected $1, passed: $got"
    cat "$work/log"
    failed=1
}

good='# A page\n## One\n\nwhere: `src/core/a.c: hd_one,\nhd_two`\n'
expect yes "$good"
expect yes "$good"'<!-- from: src/core/a.c -->\n```text\nint hd_two(void);\n```\n'
expect "there is no hd_three in src/core/a.c" "$good"'and `src/core/a.c: hd_three`\n'
expect "there is no hd_on in src/core/a.c" "$good"'and `src/core/a.c: hd_on`\n'
expect "there is no src/core/b.c" "$good"'and `src/core/b.c: hd_one`\n'
expect '"Two" does not say where' "$good"'## Two\n\ntext\n'
expect "no line of src/core/a.c: int hd_two;" "$good"'<!-- from: src/core/a.c -->\n```text\nint hd_two;\n```\n'
expect "it names nothing" '# A page\n'
exit $failed
