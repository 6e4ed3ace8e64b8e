#!/bin/sh
# A user's program against an installed copy: install.sh build-folder work-folder C-compiler C++-compiler
# Installs below DESTDIR, moves the copy elsewhere (it must not know where it was built), then compiles and runs a
# program with pkg-config and with find_package, against the shared and the static library, as C11 and as C++17.
set -eu
build=$1 work=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)
unset MAKEFLAGS MAKELEVEL CMAKE_PREFIX_PATH PKG_CONFIG_PATH LD_LIBRARY_PATH || true

rm -rf "$work"
mkdir -p "$work"
cd "$work"
DESTDIR="$work/stage" cmake --install "$build" --prefix /opt/hodu >install.log
mv stage/opt/hodu prefix
prefix=$work/prefix
pc=$(find prefix -name hodu.pc)
lib=$work/${pc%/pkgconfig/hodu.pc}
export PKG_CONFIG_PATH="$lib/pkgconfig"
cp "$here/consumer/main.c" main.c
cp "$here/consumer/main.c" main.cpp

if grep -rIl -e "$build" -e "/opt/hodu" prefix; then
    echo "the files above know where they were built or first installed"
    exit 1
fi
for file in libhodu.so libhodu.so.0 libhodu.a; do
    [ -e "$lib/$file" ] || { echo "$file is not installed"; exit 1; }
done

check() { # shared|static, how it was made, the program
    needs=$(readelf -d "$3" | grep -c 'NEEDED.*\[libhodu\.so\.' || true)
    case $1-$needs in
    shared-1) LD_LIBRARY_PATH=$lib "$3" ;;
    static-0) "$3" ;;
    *) echo "$2: $needs references to libhodu.so" && exit 1 ;;
    esac
    echo "passed: $1, $2"
}

for language in C CXX; do
    case $language in
    C) compiler="$cc" standard=c11 main=main.c ;;
    *) compiler="$cxx" standard=c++17 main=main.cpp ;;
    esac
    strict="-std=$standard -Wall -Wextra -Wpedantic -Werror"

    # The word splitting is what a user's $(pkg-config) does.
    $compiler $strict $main $(pkg-config --cflags --libs hodu) -o pc-shared
    check shared "pkg-config, $compiler as $standard" ./pc-shared
    $compiler $strict $main $(pkg-config --static --cflags --libs hodu) -static -o pc-static
    check static "pkg-config --static, $compiler as $standard" ./pc-static

    cmake -S "$here/consumer" -B "cmake-$language" -G Ninja -DLANGUAGE=$language -DMAIN="$work/$main" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_${language}_COMPILER="$compiler" >cmake.log 2>&1 || { cat cmake.log; exit 1; }
    cmake --build "cmake-$language" >build.log 2>&1 || { cat build.log; exit 1; }
    check shared "find_package, $compiler as $standard" "cmake-$language/shared"
    check static "find_package, $compiler as $standard" "cmake-$language/static"
done
