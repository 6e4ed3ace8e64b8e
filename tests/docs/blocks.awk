# Takes the C blocks out of a page of documentation: awk -v name=docs/page.md -v work=folder -f blocks.awk docs/page.md
# Block number n (from 1) becomes, in the work folder,
#     n.c       the program: the block itself when it begins with #include, else the block inside a main
#     n.line    the line of the page where it stands
#     n.prints  what it must print, n.warns what must be on stderr: its comments `// prints: ...` and `// warns: ...`
#     n.env     the environment it runs in
#     n.code    the block without comments and layout, for comparing two translations of a page
# and `count` the number of blocks. What a fragment needs beside the block stands in a comment before it:
#     <!-- setup: hd_tensor *x = hd_ones(HD_SHAPE(3), HD_F32); -->
#     <!-- environment: HODU_DEBUG=nan -->
# What a program prints at length need not stand in its comments: lines of a `text` block behind the comment
# <!-- prints --> or <!-- warns --> count as such comments of the last C block.
# Functions of a fragment (from `static` or `typedef` at the margin to `}` at the margin) go before main.

function fail(line, why) { printf "%s:%d: %s\n", name, line, why; failed = 1 }

function open_file(suffix) { return work "/" count "." suffix }

# One line of C, with the page's own line number, into the part of the program that it belongs to.
function place(part, line, text) {
    if (last[part] != line - 1) body[part] = body[part] sprintf("#line %d \"%s\"\n", line, name)
    last[part] = line
    body[part] = body[part] text "\n"
}
function add(line, text) {
    if (complete) { place("all", line, text); return }
    if (!defining && text ~ /^(static|typedef) /) {
        place("above", line, text)
        defining = text !~ /[;}][ \t]*(\/\/.*)?$/
        return
    }
    if (defining) {
        place("above", line, text)
        if (text ~ /^}/) defining = 0
        return
    }
    place("inside", line, text)
}

# The code of a line, without comments and layout; `in_comment` lives on from line to line.
function bare(text,    out, i, c, d, quote) {
    out = ""; quote = ""
    for (i = 1; i <= length(text); ++i) {
        c = substr(text, i, 1); d = substr(text, i, 2)
        if (in_comment) { if (d == "*/") { in_comment = 0; ++i } continue }
        if (quote != "") {
            out = out c
            if (c == "\\") out = out substr(text, ++i, 1)
            else if (c == quote) quote = ""
            continue
        }
        if (d == "//") break
        if (d == "/*") { in_comment = 1; ++i; continue }
        if (c == "\"" || c == "'") quote = c
        out = out c
    }
    gsub(/[ \t]+/, " ", out); sub(/^ /, "", out); sub(/ $/, "", out)
    return out
}

function note(text,    code, at) {
    code = bare(text)
    if (code != "") print code > open_file("code")
    if (match(text, /\/\/ (prints|warns):/)) {
        at = substr(text, RSTART + 3); sub(/[ \t\r]+$/, "", at)
        print "// " at > open_file("code")
        if (at ~ /^prints/) { sub(/^prints: ?/, "", at); print at > open_file("prints") }
        else { sub(/^warns: ?/, "", at); print at > open_file("warns") }
    }
}

function begin(line,    i, part) {
    ++count
    for (part in body) delete body[part]
    for (part in last) delete last[part]
    body["all"] = body["above"] = body["inside"] = ""
    first = line; in_block = 1; complete = defining = in_comment = seen = 0
    printf "" > open_file("prints"); printf "" > open_file("warns"); printf "" > open_file("code")
    print first > open_file("line")
    print environment > open_file("env")
    if (environment != "") print "environment " environment > open_file("code")
    environment = ""
    for (i = 1; i <= setups; ++i) { add(setup_line[i], setup[i]); note(setup[i]) }
    has_setup = setups; setups = pending = 0
}

function end(    file) {
    in_block = 0
    if (!seen) fail(first, "an empty block")
    file = open_file("c")
    if (complete) printf "%s", body["all"] > file
    else {
        print "#line 1 \"tests/docs/blocks.awk\"" > file
        print "#include <assert.h>\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>" > file
        print "#include <hodu/hodu.h>" > file
        printf "%s", body["above"] > file
        print "static int block(void) {\n    HD_SCOPE;" > file
        printf "%s", body["inside"] > file
        print "    return hd_exit_status();\n}" > file
        print "int main(void) {\n    int status = block();\n    hd_clear_default_context_tape();" > file
        print "    if (hd_grad_context_id() != 0) return fputs(\"the block leaves a context behind\\n\", stderr), 1;" > file
        print "    if (hd_live_objects() != 0) return fputs(\"the block leaves objects behind\\n\", stderr), 1;" > file
        print "    return status;\n}" > file
    }
    close(file); close(open_file("prints")); close(open_file("warns")); close(open_file("code"))
    close(open_file("line")); close(open_file("env"))
}

function comment_text(text,    closes) { # what is inside an HTML comment that is open
    closes = index(text, "-->")
    if (closes) { text = substr(text, 1, closes - 1); in_html = 0 }
    sub(/[ \t]+$/, "", text)
    if (text == "") return
    if (kind == "setup") { setup[++setups] = text; setup_line[setups] = NR }
    else if (kind == "environment") environment = environment (environment == "" ? "" : " ") text
}

{ sub(/\r$/, "") }
in_block && /^```[ \t]*$/ { end(); next }
in_block {
    if (!seen && $0 !~ /^[ \t]*$/) {
        seen = 1
        complete = /^#include/
        if (complete && has_setup) fail(NR, "a complete program has no setup")
    }
    add(NR, $0); note($0)
    next
}
in_fence && /^```[ \t]*$/ {
    if (in_fence != "other") { close(open_file(in_fence)); close(open_file("code")) }
    in_fence = ""
    next
}
in_fence {
    if (in_fence != "other") { print >> open_file(in_fence); print "// " in_fence ": " $0 >> open_file("code") }
    next
}
in_html { comment_text($0); next }
/^<!-- (setup|environment):/ {
    kind = substr($2, 1, length($2) - 1); in_html = 1; pending = NR
    sub(/^<!-- [a-z]+: ?/, ""); comment_text($0)
    next
}
/^<!-- (prints|warns) -->$/ {
    if (!count) fail(NR, "no C block stands before this comment")
    else { fence = $2; pending = NR }
    next
}
/^[ \t]+```/ { fail(NR, "a block that is indented is not seen: begin it at the margin"); next }
/^```c[ \t]*$/ && !fence { begin(NR); next }
/^```text[ \t]*$/ && fence { in_fence = fence; fence = ""; pending = 0; next }
pending && !/^[ \t]*$/ {
    fail(pending, "no block follows this comment")
    pending = setups = 0
    environment = fence = ""
}
/^```(sh|text|cmake)[ \t]*$/ { in_fence = "other"; next }
/^```/ { fail(NR, "the language of this block is none of c, sh, text, cmake"); in_fence = "other"; next }

END {
    if (in_block) { fail(first, "this block does not end"); end() }
    if (in_fence || in_html) fail(NR, "the page ends inside a block or a comment")
    if (pending) fail(pending, "no block follows this comment")
    print count + 0 > (work "/count")
    exit failed
}
