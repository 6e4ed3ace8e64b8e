#!/bin/sh
# What the pages of documentation say of the tree is there: pages.sh source-folder
# Names of ours (hd_, HD_, HODU_) are words of the sources, links lead to files and to headings in them, and
# README.ko.md has the blocks of README.md, up to comments.
set -eu
cd "$1"
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
complain() {
    echo "$1"
    status=1
}
pages=$(find README.md README.ko.md docs -name '*.md' | sort)

# ---- names
ours='(hd|HD|HODU)_[A-Za-z0-9_]+'
# shellcheck disable=SC2086 # a list of pages
grep -ohwE "$ours" $pages | sort -u >"$work/said" || true
grep -rohwE "$ours" CMakeLists.txt cmake include src tests | sort -u >"$work/there" || true
comm -23 "$work/said" "$work/there" >"$work/missing"
while IFS= read -r name; do
    # shellcheck disable=SC2086
    complain "$(grep -nwF -e "$name" $pages | head -1 | cut -d: -f1,2): there is no $name"
done <"$work/missing"

# ---- links: page, line, target
headings() { # of a page, as links name them
    awk '/^```/ { fenced = !fenced }
    !fenced && /^#+ / {
        sub(/^#+ /, ""); $0 = tolower($0); gsub(/[!-,.\/:-@[-^`{-~]/, ""); gsub(/ /, "-"); print
    }' "$1"
}
for page in $pages; do
    awk -v page="$page" '/^```/ { fenced = !fenced }
    fenced { next }
    {
        while (match($0, /\]\([^) ]+\)/)) {
            print page, FNR, substr($0, RSTART + 2, RLENGTH - 3)
            $0 = substr($0, RSTART + RLENGTH)
        }
    }' "$page"
done | grep -v ' https\{0,1\}:' >"$work/links" || true
while read -r page line target; do
    file=${target%%#*}
    if [ -n "$file" ]; then file=$(dirname "$page")/$file; else file=$page; fi
    if [ ! -e "$file" ]; then
        complain "$page:$line: there is no $file"
    elif [ "$target" != "${target#*#}" ] && ! headings "$file" | grep -qxF -e "${target#*#}"; then
        complain "$page:$line: $file has no heading ${target#*#}"
    fi
done <"$work/links"
if [ ! -s "$work/said" ] || [ ! -s "$work/links" ]; then complain "the pages say nothing"; fi

# ---- the README and its translation
blocks() {
    awk '/^```/ { print; fenced = !fenced; next }
    fenced { sub(/\/\*.*\*\//, ""); sub(/ +(\/\/|#) .*/, ""); sub(/ +$/, ""); print }' "$1"
}
blocks README.md >"$work/english"
blocks README.ko.md >"$work/korean"
diff -u "$work/english" "$work/korean" >"$work/difference" ||
    complain "README.ko.md has not the blocks of README.md: $(sed '1,3d' "$work/difference")"
exit $status
