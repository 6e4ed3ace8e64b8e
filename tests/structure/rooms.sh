#!/bin/sh
# Reads every #include below a source folder and fails when a room reaches where it may not: rooms.sh path/to/src
#
# A room may include itself and the rooms before it in this order; rooms on one line do not know each other.
# Beside those: public headers as <hodu/...> and system headers as <...>, and nothing else. One device does not know
# another, and only machines know devices: the compiler's other rooms do not even name functions of the CPU.
# src/value stands alone. Only core/environment.c reads the environment. rooms_symbols.sh reads the symbols.
set -eu
cd "$1"

find . -type f | sed 's|^\./||' | sort >"${TMPDIR:-/tmp}/rooms.$$"
trap 'rm -f "${TMPDIR:-/tmp}/rooms.$$"' EXIT

awk '
function fail(why) { printf "src/%s:%d: %s\n", file, line, why; ++failures }
function room_of(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "" }
function second(path,    parts) { return split(path, parts, "/") > 2 ? parts[2] : "" }

function check(text,    path, from, to) {
    ++includes
    from = room_of(file)
    if (text ~ /^</) {
        path = text; sub(/^</, "", path); sub(/>.*/, "", path)
        if (path in exists || path ~ /\.\./) fail("<" path "> is inside src: include it as \"room/file\"")
        return
    }
    if (text !~ /^"/) { fail("#include " text " hides what is included"); return }
    path = substr(text, 2); sub(/".*/, "", path)
    if (path ~ /^hodu\//) { fail("public headers are included as <" path ">"); return }
    if (!(path in exists)) { fail("\"" path "\" is not a file of src, written as \"room/file\""); return }
    to = room_of(path)
    if (!(to in rank)) { fail("\"" path "\" is in no room"); return }
    if (from == "value" && to != "value") { fail("value stands alone, but includes " path); return }
    if (to == "value" && from != "value") { fail(from " includes " path ": value stands alone"); return }
    if (rank[to] > rank[from]) { fail(from " reaches up to " to ": " path); return }
    if (rank[to] == rank[from] && to != from) { fail(from " and " to " do not know each other: " path); return }
    if (to == "device" && from != "device" && from != "machine" && from != "library") fail(from " includes " path ": only machines, and the roof, know devices")
    if (from == "device" && to == "device" && second(file) != "" && second(path) != "" && second(file) != second(path))
        fail("device/" second(file) " does not know device/" second(path) ": " path)
}

BEGIN {
    order = "core;kernel;ops;device;grad graph;script;codegen fuse;plan;machine;export;xla;nn optim data io watch;model;library"
    levels = split(order, level, ";")
    for (i = 1; i <= levels; ++i) {
        count = split(level[i], names, " ")
        for (k = 1; k <= count; ++k) rank[names[k]] = i
    }
    rank["value"] = 0
}
{ exists[$0] = 1; files[NR] = $0 }
END {
    for (i = 1; i <= NR; ++i) {
        file = files[i]; line = 0
        if (!(room_of(file) in rank)) { fail("is in no room that DESIGN knows"); continue }
        while ((getline text < file) > 0) {
            ++line
            if (text ~ /^[ \t]*#[ \t]*(include|include_next|import|embed)[ \t"<]/) {
                sub(/^[ \t]*#[ \t]*[a-z_]+[ \t]*/, "", text)
                check(text)
            } else if (text ~ /(^|[^_a-zA-Z0-9])(secure_)?getenv[ \t]*\(/ && file != "core/environment.c")
                fail("reads the environment: hd_environment does, for all")
            else if (room_of(file) ~ /^(kernel|codegen|fuse|plan)$/ && text ~ /(^|[^_a-zA-Z0-9])hd_cpu_/)
                fail("names the CPU: that is what machines are for")
        }
        close(file)
    }
    printf "%d files, %d includes, %d where they may not be\n", NR, includes, failures
    if (NR == 0 || includes == 0) print "nothing was read: is this the source folder?"
    exit failures > 0 || NR == 0 || includes == 0
}' "${TMPDIR:-/tmp}/rooms.$$"
