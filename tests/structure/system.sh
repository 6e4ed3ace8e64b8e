#!/bin/sh
# Reads every #include <...> below a source folder and fails when a file outside of core/os* includes more than C11 has,
# or asks the C library for more (_GNU_SOURCE and its kin): system.sh path/to/src
#
# Allowed beside C11 and <hodu/...>: <pthread.h>, which both systems have alike, and where it stands in `others`: headers
# of the compiler for x86's instructions, and libraries that are no part of a system. <threads.h> is C11, but macOS has
# none.
set -eu
cd "$1"

find . -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | sed 's|^\./||' | sort >"${TMPDIR:-/tmp}/system.$$"
trap 'rm -f "${TMPDIR:-/tmp}/system.$$"' EXIT

awk '
function fail(why) { printf "src/%s:%d: %s\n", file, line, why; ++failures }
function allowed(header,    i, pair) {
    if (header in plain || header ~ /^hodu\//) return 1
    for (i = 1; i <= others; ++i) {
        split(other[i], pair, " ")
        if (header ~ "^(" pair[2] ")$" && file ~ "^(" pair[1] ")$") return 1
    }
    return 0
}
BEGIN {
    count = split("assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign " \
                  "stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath time uchar wchar " \
                  "wctype pthread", names, " ")
    for (i = 1; i <= count; ++i) plain[names[i] ".h"] = 1
    others = split("device/cpu/cpu\\.c|codegen/(processor|cc)\\.c cpuid\\.h;" \
                   "device/cpu/kernels_(amx\\.c|gemm_read\\.h) immintrin\\.h;" \
                   "script/file_(home|write)\\.c xxhash\\.h;" \
                   "codegen/llvm_api\\.h llvm-c/[A-Za-z]+\\.h;" \
                   "kernel/dialect_metal\\.h metal_stdlib;" \
                   "codegen/server\\.c llvm/Config/llvm-config\\.h", other, ";")
}
{ files[NR] = $0 }
END {
    for (i = 1; i <= NR; ++i) {
        file = files[i]; line = 0
        if (file ~ /^core\/os[_a-z]*\.[ch]$/) continue
        ++read
        while ((getline text < file) > 0) {
            ++line
            if (text ~ /^[ \t]*#[ \t]*include[ \t]*</) {
                ++includes
                sub(/^[^<]*</, "", text); sub(/>.*/, "", text)
                if (!allowed(text)) fail("<" text "> is not C11: core/os.h has what is of the system")
            } else if (text ~ /^[ \t]*#[ \t]*define[ \t]+_(GNU|POSIX|POSIX_C|XOPEN|DEFAULT|BSD|DARWIN_C)_SOURCE/)
                fail("asks the C library for more than C11: core/os.h has what is of the system")
        }
        close(file)
    }
    printf "%d files, %d includes, %d of the system\n", read, includes, failures
    if (read == 0 || includes == 0) print "nothing was read: is this the source folder?"
    exit failures > 0 || read == 0 || includes == 0
}' "${TMPDIR:-/tmp}/system.$$"
