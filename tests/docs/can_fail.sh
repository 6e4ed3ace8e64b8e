#!/bin/sh
# The test of the pages must be able to fail: small pages with one mistake each, and a good one beside them.
#     can_fail.sh source-folder libhodu.so work-folder compiler [flags...]
# shellcheck disable=SC2016 # the pages have backquotes
set -eu
source=$1 library=$2 work=$3
shift 3
run=$(cd "$(dirname "$0")" && pwd)/run_blocks.sh
failed=0
rm -rf "$work"
mkdir -p "$work/tree"
ln -s "$source/include" "$work/tree/include"

page() { # file; the page on stdin
    cat >"$work/tree/$1"
}
expect() { # yes, or the text that the complaint begins with; then the page and, for a translation, --same-as other
    wanted=$1 name=$2
    shift 2
    if sh "$run" "$work/tree" "$name" "$library" "$work/run" "$@" >"$work/log" 2>&1; then got=yes; else got=no; fi
    case $wanted in
    yes) [ $got = yes ] && return ;;
    *) [ $got = no ] && grep -qF -e "$wanted" "$work/log" && return ;;
    esac
    echo "$name: expected $wanted, passed: $got"
    cat "$work/log"
    failed=1
}

page good.md <<'END_OF_PAGE'
# A page
<!-- setup: hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32); -->
```c
static double twice(double y) { // goes before main
    return 2 * y;
}

hd_print(x); // prints: [1. 1.]
printf("%g and %s\n", twice(2), hd_version()); // prints: 4 and ...
```
```sh
this is no C
```
<!-- environment: FIRST=1 SECOND=two -->
```c
printf("%s %s\n", getenv("FIRST"), getenv("SECOND")); // prints: 1 two
fputs("careful now\n", stderr);                       // warns: ...ful now
```
```c
#include <hodu/hodu.h>

int main(void) { return hd_exit_status(); }
```
END_OF_PAGE
expect yes good.md "$@"
sed -e 's|// goes before main|/* main 앞으로 */|' -e 's|# A page|# 한 쪽|' "$work/tree/good.md" >"$work/tree/translated.md"
expect yes translated.md --same-as good.md "$@"
sed 's|return 2 \* y|return y + y|' "$work/tree/good.md" >"$work/tree/changed.md"
expect "changed.md:3: not the block of good.md:3:" changed.md --same-as good.md "$@"
sed 's|prints: 1 two|prints: 1 three|' "$work/tree/good.md" >"$work/tree/left_out.md"
expect yes left_out.md --without SECOND "$@"
expect "left_out.md:15: it does not print what its comments say" left_out.md --without twice "$@"
expect "expected one block with hodu, 3 have it" good.md --without hodu "$@"
sed '/^#include/,$d' "$work/tree/good.md" | sed '$d' >"$work/tree/short.md"
expect "short.md has 2 blocks, good.md has 3" short.md --same-as good.md "$@"

page broken.md <<'END_OF_PAGE'
```c
hd_print(y);
```
END_OF_PAGE
expect "broken.md:1: the block does not compile:" broken.md "$@"
expect "broken.md:2:10: error" broken.md "$@"
printf 'text\n```c\nint unused = 1;\n```\n' >"$work/tree/warning.md"
expect "warning.md:2: the block does not compile:" warning.md "$@"
printf '```c\nputs("a"); // prints: b\n```\n' >"$work/tree/prints.md"
expect "prints.md:1: it does not print what its comments say" prints.md "$@"
printf '```c\nputs("a");\n```\n' >"$work/tree/more.md"
expect "more.md:1: it does not print what its comments say" more.md "$@"
printf '```c\nputs("a"); // prints: a\n// prints: b\n```\n' >"$work/tree/less.md"
expect "less.md:1: it does not print what its comments say" less.md "$@"
printf '```c\nfputs("a", stderr);\n```\n' >"$work/tree/stderr.md"
expect "stderr.md:1: stderr is not as its comments say" stderr.md "$@"
printf '```c\nputs("a"); // prints: a\n// warns: b\n```\n' >"$work/tree/quiet.md"
expect "quiet.md:1: stderr is not as its comments say" quiet.md "$@"
printf '```c\nputs("a"); // prints: a\n// prints: ...\nputs("b"); // prints: b\n```\n' >"$work/tree/skipped.md"
expect yes skipped.md "$@"
page text.md <<'END_OF_PAGE'
```c
puts("z");
fputs("a\nb\nc\n", stderr);
```
<!-- prints -->
```text
z
```
<!-- warns -->
```text
a
...
```
and

<!-- warns -->
```text
c
```
END_OF_PAGE
expect yes text.md "$@"
sed 's/^c$/d/' "$work/tree/text.md" >"$work/tree/text-differs.md"
expect "text-differs.md:1: stderr is not as its comments say" text-differs.md "$@"
sed 's/^\.\.\.$//' "$work/tree/text.md" >"$work/tree/text-line.md"
expect "text-line.md:1: stderr is not as its comments say" text-line.md "$@"
sed 's/^c$/e/' "$work/tree/text.md" >"$work/tree/text-translated.md"
expect "text-translated.md:1: not the block of text.md:1:" text-translated.md --same-as text.md "$@"
printf '<!-- warns -->\n```text\na\n```\n```c\n;\n```\n' >"$work/tree/text-first.md"
expect "text-first.md:1: no C block stands before this comment" text-first.md "$@"
printf '```c\n;\n```\n<!-- warns -->\ntext\n' >"$work/tree/text-none.md"
expect "text-none.md:4: no block follows this comment" text-none.md "$@"
printf '```c\nhd_add(hd_ones(HD_SHAPE(2), HD_F32), hd_ones(HD_SHAPE(3), HD_F32));\n```\n' >"$work/tree/error.md"
expect "error.md:1: exit status 1" error.md "$@"
printf '```c\nassert(hd_version() == NULL);\n```\n' >"$work/tree/assert.md"
expect "assert.md:1: exit status 134" assert.md "$@"
printf '```c\nhd_retain(hd_ones(HD_SHAPE(2), HD_F32));\n```\n' >"$work/tree/leak.md"
expect "leak.md:1: exit status" leak.md "$@"
printf '```c\nputs("a"); // prints: a\n' >"$work/tree/open.md"
expect "open.md:1: this block does not end" open.md "$@"
printf '1. a list\n   ```c\n   puts("a");\n   ```\n' >"$work/tree/indented.md"
expect "indented.md:2: a block that is indented is not seen" indented.md "$@"
printf '```\nputs("a");\n```\n' >"$work/tree/language.md"
expect "language.md:1: the language of this block" language.md "$@"
printf '<!-- setup: int a = 1; -->\n\ntext\n' >"$work/tree/setup.md"
expect "setup.md:1: no block follows this comment" setup.md "$@"
printf 'text\n' >"$work/tree/empty.md"
expect "empty.md has no C block" empty.md "$@"
exit $failed
