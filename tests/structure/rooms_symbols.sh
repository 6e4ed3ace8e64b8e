#!/bin/sh
# Reads the symbols of the library's objects and fails when a room reaches where it may not, with or without an include:
# rooms_symbols.sh path/to/rooms.sh file-with-the-paths-of-all-objects [nm]
#
# The order of the rooms is that of rooms.sh. Two functions of the roof (src/library) may be called from below, each by
# one file: they register there what lower rooms know of higher ones.
set -eu
rooms=$1 objects=$2 nm=${3:-nm}
order=$(sed -n 's/^ *order = "\(.*\)"$/\1/p' "$rooms")
[ -n "$order" ] || { echo "$rooms has no order"; exit 1; }
symbols=$(mktemp)
trap 'rm -f "$symbols"' EXIT
tr '\n' '\0' <"$objects" | xargs -0 "$nm" -A -P -g >"$symbols"

awk -v order="$order" '
# The room of an object, from its path: what the build generates are texts of the kernel room and a fingerprint.
function room_of(path) {
    if (path ~ /\/generated\/fingerprint\./) return "codegen"
    if (path ~ /\/generated\//) return "kernel"
    sub(/.*\/src\//, "", path)
    return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : ""
}
function file_of(path) { sub(/.*\/src\//, "", path); sub(/\.o(bj)?$/, "", path); return path }
BEGIN {
    levels = split(order, level, ";")
    for (i = 1; i <= levels; ++i) {
        count = split(level[i], names, " ")
        for (k = 1; k <= count; ++k) rank[names[k]] = i
    }
    opens["core/thread.c hd_library_open"] = opens["script/script.c hd_library_open_compilers"] = 1
}
{
    path = $1; sub(/:$/, "", path)
    room = room_of(path)
    if (!(room in rank)) { printf "%s is in no room\n", path; ++failures; next }
    name = $2; sub(/^_hd_/, "hd_", name)
    if ($3 == "U" || $3 == "w" || $3 == "v") { ++uses; used[uses] = name; by[uses] = path; from[uses] = room }
    else if (name ~ /^hd_/) { if (!(name in home)) ++defined; home[name] = room }
    if (!(path in seen)) { seen[path] = 1; ++files }
}
END {
    for (i = 1; i <= uses; ++i) {
        name = used[i]
        if (!(name in home) || home[name] == from[i]) continue
        file = file_of(by[i])
        if (rank[home[name]] < rank[from[i]] || (file " " name) in opens) continue
        printf "src/%s: %s reaches %s %s: %s\n", file, from[i],
            rank[home[name]] == rank[from[i]] ? "across to" : "up to", home[name], name
        ++failures
    }
    printf "%d objects, %d symbols of ours, %d where they may not be\n", files, defined, failures
    if (files == 0 || defined == 0) print "nothing was read: are these the objects?"
    exit failures > 0 || files == 0 || defined == 0
}' "$symbols"
