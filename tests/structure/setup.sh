#!/bin/sh
# scripts/setup on machines that lack something, played with a PATH of stand-ins: setup.sh path/to/scripts/setup work-folder
set -eu
setup=$1 work=$2
failed=0
tools="sh sort tr env cat"
everything="cc c++ gcc g++ make cmake ninja pkg-config clang clang++ python3 clang-format"

machine() { # who one is (0: root), then the commands that exist
    rm -rf "$work"
    mkdir -p "$work/bin"
    for tool in $tools; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
    printf '#!/bin/sh\necho %s\n' "$1" >"$work/bin/id"
    shift
    for name in "$@"; do printf '#!/bin/sh\nexit 0\n' >"$work/bin/$name"; done
    [ ! -e "$work/bin/apt-get" ] || printf '#!/bin/sh\necho "apt-get $*" >>"%s/apt"\n' "$work" >"$work/bin/apt-get"
    # shellcheck disable=SC2016 # for the stand-in to expand
    [ ! -e "$work/bin/clang" ] || printf '#!/bin/sh\n[ "$1" != -print-runtime-dir ] || echo "%s"\n' "$work" >"$work/bin/clang"
    : >"$work/libclang_rt.fuzzer-any.a"
    [ ! -e "$work/bin/sudo" ] || printf '#!/bin/sh\nshift\nexec "$@"\n' >"$work/bin/sudo"
    chmod +x "$work"/bin/*
    : >"$work/apt"
}

expect() { # what it is, exit code, text of the output, text of what apt was asked ("" for nothing), options of setup
    name=$1 code=$2 output=$3 apt=$4
    shift 4
    got=0
    env -u CC -u CXX PATH="$work/bin" sh "$setup" "$@" >"$work/out" 2>&1 || got=$?
    if [ $got -eq "$code" ] && grep -qF -e "$output" "$work/out" && { [ -n "$apt" ] || [ ! -s "$work/apt" ]; } && { [ -z "$apt" ] || grep -qF -e "$apt" "$work/apt"; }; then
        return
    fi
    echo "$name: expected exit $code, \"$output\" and apt \"$apt\"; got exit $got, this output and these calls of apt:"
    cat "$work/out" "$work/apt"
    failed=1
}

machine 0 $everything apt-get
expect_quiet() {
    env -u CC -u CXX PATH="$work/bin" sh "$setup" --hostile --python --format >"$work/out" 2>&1 || { echo "a complete machine fails"; failed=1; }
    [ ! -s "$work/out" ] && [ ! -s "$work/apt" ] || { echo "a complete machine is not quiet:"; cat "$work/out" "$work/apt"; failed=1; }
}
expect_quiet

machine 0 cc gcc make apt-get
expect "fresh, root" 0 "installing" "install -y -q --no-install-recommends cmake g++ libcmocka-dev ninja-build pkg-config"
machine 0 cc gcc make apt-get
expect "fresh, root, hostile" 0 "installing" "clang cmake g++ libclang-rt-dev libcmocka-dev ninja-build pkg-config" --hostile
machine 0 $everything apt-get
rm "$work/libclang_rt.fuzzer-any.a"
expect "clang without its runtime" 0 "installing" "install -y -q --no-install-recommends libclang-rt-dev" --hostile
machine 1000 cc gcc make apt-get sudo true
expect "fresh, sudo without a password" 0 "installing" "install -y -q --no-install-recommends cmake"
machine 1000 cc gcc make apt-get
expect "fresh, no rights" 1 "sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake g++ libcmocka-dev ninja-build pkg-config" ""
machine 0 cc gcc make
expect "not Debian" 1 "cmake g++ libcmocka-dev ninja-build pkg-config" ""
machine 0 $everything apt-get
expect "an unknown option" 2 "usage:" "" --everything
exit $failed
