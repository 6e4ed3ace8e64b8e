#!/bin/sh
# scripts/setup on machines that lack something, played with a PATH of stand-ins: setup.sh path/to/scripts/setup work-folder
set -eu
setup=$1 work=$2
failed=0
tools="sh sort tr env cat"
everything="cc c++ gcc g++ make cmake ninja pkg-config clang clang++ python3 clang-format aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64 dpkg"
embedded="arm-none-eabi-gcc riscv64-unknown-elf-gcc qemu-system-arm qemu-system-riscv32"

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
    # shellcheck disable=SC2016
    [ ! -e "$work/bin/aarch64-linux-gnu-gcc" ] || printf '#!/bin/sh\necho "/lib/${1#*=}"\n' >"$work/bin/aarch64-linux-gnu-gcc"
    [ ! -e "$work/bin/dpkg" ] || printf '#!/bin/sh\necho "dpkg $*" >>"%s/apt"\n' "$work" >"$work/bin/dpkg"
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

machine 0 $everything $embedded apt-get
expect_quiet() {
    env -u CC -u CXX PATH="$work/bin" sh "$setup" --hostile --aarch64 --embedded --python --format >"$work/out" 2>&1 || { echo "a complete machine fails"; failed=1; }
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
machine 0 cc gcc make apt-get dpkg
expect "fresh, root, AArch64" 0 "installing" "cmake g++ g++-aarch64-linux-gnu gcc-aarch64-linux-gnu libcmocka-dev libcmocka-dev:arm64 libllvm19:arm64" --aarch64
machine 0 cc gcc make apt-get dpkg
expect "arm64 is made known before its packages are asked for" 0 "installing" "dpkg --add-architecture arm64" --aarch64
machine 0 $everything apt-get
printf '#!/bin/sh\necho "${1#*=}"\n' >"$work/bin/aarch64-linux-gnu-gcc"
expect "a compiler without the libraries" 0 "installing" "install -y -q --no-install-recommends libcmocka-dev:arm64 libllvm19:arm64" --aarch64
machine 0 $everything apt-get
expect "boards" 0 "installing" "gcc-arm-none-eabi gcc-riscv64-unknown-elf qemu-system-arm qemu-system-misc" --embedded
machine 1000 cc gcc make apt-get
expect "AArch64, no rights" 1 "sudo dpkg --add-architecture arm64 && sudo apt-get update" "" --aarch64
machine 1000 cc gcc make apt-get sudo true
expect "fresh, sudo without a password" 0 "installing" "install -y -q --no-install-recommends cmake"
machine 1000 cc gcc make apt-get
expect "fresh, no rights" 1 "sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake g++ libcmocka-dev ninja-build pkg-config" ""
machine 0 cc gcc make
expect "not Debian" 1 "cmake g++ libcmocka-dev ninja-build pkg-config" ""
machine 0 $everything apt-get
expect "an unknown option" 2 "usage:" "" --everything
exit $failed
