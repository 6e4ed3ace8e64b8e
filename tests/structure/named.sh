#!/bin/sh
# What docs/life-of-a-call.md names is there: named.sh source-folder
# Its sections begin with "where: `src/folder/file.c: function, function`, ..."; everything of that form on the page is
# looked up, the file and, as words in it, the functions. Lines of a block behind <!-- from: src/folder/file --> are
# lines of that file.
# shellcheck disable=SC2016 # the page has backquotes
set -eu
cd "$1"
page=docs/life-of-a-call.md
status=0
complain() {
    echo "$page: $1"
    status=1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tr '\n' ' ' <"$page" | grep -o '`src/[^`]*: [^`]*`' | tr -d '`' >"$work/names" || true
while IFS= read -r line; do
    file=${line%%: *}
    [ -f "$file" ] || { complain "there is no $file"; continue; }
    for name in $(printf '%s\n' "${line#*: }" | tr ',' ' '); do
        grep -qwF -e "$name" "$file" || complain "there is no $name in $file"
    done
done <"$work/names"
[ "$(wc -l <"$work/names")" -gt 0 ] || complain "it names nothing"

awk -v page="$page" -v quotes="$work/quotes" '
function leave() {
    if (section == "" || found) return
    printf "%s:%d: \"%s\" does not say where\n", page, at, section
    bad = 1
}
/^```/ { fenced = !fenced; if (!fenced) file = ""; next }
fenced && file != "" { print file "\t" $0 >quotes }
fenced { next }
/^<!-- from: / { file = $3 }
/^## / { leave(); section = substr($0, 4); at = NR; found = 0 }
/^where: `src\// { found = 1 }
END { leave(); exit bad }' "$page" || status=1
tab=$(printf '\t')
[ ! -e "$work/quotes" ] || while IFS= read -r line; do
    grep -qxF -e "${line#*"$tab"}" "${line%%"$tab"*}" || complain "no line of ${line%%"$tab"*}: ${line#*"$tab"}"
done <"$work/quotes"
exit $status
