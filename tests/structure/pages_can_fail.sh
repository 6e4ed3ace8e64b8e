#!/bin/sh
# The test of pages must be able to fail: pages_can_fail.sh path/to/pages.sh path/to/work
# shellcheck disable=SC2016 # the pages have backquotes
set -eu
pages=$1 work=$2
failed=0

expect() { # yes, or what it complains of; then what README.md has, and README.ko.md
    rm -rf "$work"
    mkdir -p "$work/docs/guide" "$work/cmake" "$work/include" "$work/src" "$work/tests"
    echo 'int hd_one(void);' >"$work/include/a.h"
    : >"$work/CMakeLists.txt"
    printf '# The page\n\n## What `it` is, and 왜\n' >"$work/docs/guide/page.md"
    printf '%b' "$2" >"$work/README.md"
    printf '%b' "$3" >"$work/README.ko.md"
    if sh "$pages" "$work" >"$work/log" 2>&1; then got=yes; else got=no; fi
    if [ "$1" = yes ] && [ $got = yes ]; then return; fi
    if [ "$1" != yes ] && [ $got = no ] && grep -qF -e "$1" "$work/log"; then return; fi
    echo "expected $1, passed: $got"
    cat "$work/log"
    failed=1
}

good='`hd_one` is on [a page](docs/guide/page.md#what-it-is-and-왜)\n'
code='```c\nhd_one(); /* so */\n```\n'
expect yes "$good$code" '```c\nhd_one(); /* 그렇게 */\n```\n'
expect "README.md:2: there is no hd_on" "$good"'hd_on\n' ''
expect "README.md:1: there is no ./docs/page.md" '[hd_one](docs/page.md)\n' ''
expect "README.md:2: ./docs/guide/page.md has no heading the" "$good"'[hd_one](docs/guide/page.md#the)\n' ''
expect "README.ko.md has not the blocks of README.md" "$good$code" '```c\nhd_one(1);\n```\n'
expect "README.ko.md has not the blocks of README.md" "$good$code" ''
expect "the pages say nothing" 'text\n' ''
exit $failed
