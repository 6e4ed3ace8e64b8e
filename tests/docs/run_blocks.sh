#!/bin/sh
# Compiles and runs every C block of a page of documentation, so that what the page says is so:
#     run_blocks.sh source-folder page libhodu.so work-folder [--same-as other-page] [--without word] compiler [flags...]
# A block passes when it compiles without a warning, exits with 0, prints the lines that its comments `// prints: ...`
# say, in order and no others, and likewise to stderr those of `// warns: ...`; "..." in one stands for any text, and as
# a line of its own for any lines. blocks.awk says how a fragment becomes a program. With --same-as the page is a
# translation: it must have the blocks of the other, up to comments that are no such lines. These the test of the other
# page has run, and they are not run twice. With --without a block that has the word is not run.
set -eu
source=$1 page=$2 library=$3 work=$4
shift 4
other= without=
if [ "$1" = --same-as ]; then other=$2 && shift 2; fi
if [ "$1" = --without ]; then without=$2 && shift 2; fi
here=$(cd "$(dirname "$0")" && pwd)
unset HODU_DEBUG HODU_TRAP || true
export HODU_ERRORS=quiet # blocks print the errors they show
status=0

extract() { # page, folder
    rm -rf "$2"
    mkdir -p "$2"
    awk -v name="$1" -v work="$2" -f "$here/blocks.awk" "$source/$1" || status=1
}

# Lines of the second file against patterns in the first, one each.
lines_agree() {
    awk '
    function agrees(text, pattern,    at) {
        at = index(pattern, "...")
        if (!at) return text == pattern
        if (substr(text, 1, at - 1) != substr(pattern, 1, at - 1)) return 0
        return somewhere(substr(text, at), substr(pattern, at + 3))
    }
    function somewhere(text, pattern,    i) {
        for (i = 1; i <= length(text) + 1; ++i) if (agrees(substr(text, i), pattern)) return 1
        return 0
    }
    FNR == NR { expected[++count] = $0; next }
    { line[++lines] = $0 }
    END {
        at = i = 1
        while (i <= lines) {
            if (at <= count && expected[at] == "...") { skip = at++; from = i }
            else if (at <= count && agrees(line[i], expected[at])) { ++at; ++i }
            else if (skip) { at = skip + 1; i = ++from }
            else exit 1
        }
        while (at <= count && expected[at] == "...") ++at
        exit (at <= count)
    }' "$1" "$2"
}

complain() { # number, why
    echo "$page:$(cat "$work/$1.line"): $2"
    status=1
}

extract "$page" "$work"
count=$(cat "$work/count")
[ "$count" -gt 0 ] || { echo "$page has no C block"; exit 1; }

number=0 left_out=0
[ -z "$other" ] || number=$count
while [ $number -lt "$count" ]; do
    number=$((number + 1))
    program=$work/$number
    if [ -n "$without" ] && grep -qwF -e "$without" "$program.c"; then
        left_out=$((left_out + 1))
        continue
    fi
    if ! "$@" -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Werror -I"$source/include" "$program.c" "$library" \
        -Wl,-rpath,"$(dirname "$library")" -pthread -lm -ldl -o "$program" 2>"$program.log"; then
        complain $number "the block does not compile:"
        head -20 "$program.log"
        continue
    fi
    code=0
    # shellcheck disable=SC2046 # one assignment per word
    env $(cat "$program.env") timeout 120 "$program" >"$program.out" 2>"$program.err" || code=$?
    rm -f "$program" # hundreds of them, each with the library inside
    wrong=
    [ $code -eq 0 ] || wrong="exit status $code"
    if ! lines_agree "$program.warns" "$program.err"; then
        wrong="$wrong${wrong:+, }stderr is not as its comments say"
        [ ! -s "$program.warns" ] || diff -u "$program.warns" "$program.err" >"$program.difference" || true
    fi
    if ! lines_agree "$program.prints" "$program.out"; then
        wrong="$wrong${wrong:+, }it does not print what its comments say"
        diff -u "$program.prints" "$program.out" >>"$program.difference" || true
    fi
    [ -n "$wrong" ] || continue
    complain $number "$wrong"
    [ ! -e "$program.difference" ] || sed -n '3,60p' "$program.difference"
    sed 's/^/    stderr: /' "$program.err" | head -20
done

if [ -n "$other" ]; then
    extract "$other" "$work/other"
    others=$(cat "$work/other/count")
    [ "$others" -eq "$count" ] || { echo "$page has $count blocks, $other has $others"; status=1; }
    number=0
    while [ $number -lt "$count" ] && [ $number -lt "$others" ]; do
        number=$((number + 1))
        diff -u "$work/other/$number.code" "$work/$number.code" >"$work/difference" && continue
        complain $number "not the block of $other:$(cat "$work/other/$number.line"):"
        sed -n '3,20p' "$work/difference"
        break # one block too many shifts all the others
    done
fi
echo "$count blocks of $page$([ -z "$without" ] || echo ", $left_out of them not run")"
[ -z "$without" ] || [ $left_out -eq 1 ] || { echo "$page: expected one block with $without, $left_out have it" && status=1; }
exit $status
