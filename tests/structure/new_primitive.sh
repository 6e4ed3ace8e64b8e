#!/bin/sh
# Adds a toy primitive by the steps of CONTRIBUTING in a copy of the source, then leaves out each step in turn: the
# compiler, the linker or a test must say so. new_primitive.sh source-folder work-folder
set -eu
source=$1 work=$2 toy=$1/tests/structure/toy
unset MAKEFLAGS MAKELEVEL MFLAGS || true
rm -rf "$work"
mkdir -p "$work"
cd "$work"
for part in CMakeLists.txt CMakePresets.json Makefile cmake include scripts src tools tests; do cp -R "$source/$part" .; done
grep -q 'alternating_sum' src/ops/ops.def && { echo "hd_alternating_sum exists already: choose another toy"; exit 1; }

flags="-std=c11 -D_GNU_SOURCE -DHD_UNCHECKED_CALLS -Iinclude -Isrc -Wall -Wextra -Werror"
# refuses 'what was left out' 'what must be said' command...
refuses() {
    without=$1 said=$2
    shift 2
    if "$@" >refused.log 2>&1; then
        echo "without $without nothing is said"
        exit 1
    fi
    grep -q "$said" refused.log || { echo "without $without, '$said' is not among what is said:"; tail -20 refused.log; exit 1; }
    echo "without $without: $(grep -m1 "$said" refused.log | cut -c1-160)"
}

# The functions, and no row yet; then the row, and a header from before it.
cp "$toy/op.c" src/ops/alternating_sum.c
cp "$toy/cpu.c" src/device/cpu/alternating_sum.c
cp "$toy/hlo.c" src/xla/emit_alternating_sum.c
cp "$toy/export.c" src/export/calls_alternating_sum.c
refuses "a row" "HD_OP_alternating_sum" cc $flags -fsyntax-only src/ops/alternating_sum.c
anchor=$(grep -n '^PRIMITIVE(prod,' src/ops/ops.def | cut -d: -f1)
{ head -n $((anchor - 1)) src/ops/ops.def; cat "$toy/row.def"; tail -n +"$anchor" src/ops/ops.def; } >ops.new
mv ops.new src/ops/ops.def
refuses "make generate" "hd_alternating_sum" cc $flags -Wmissing-prototypes -fsyntax-only src/ops/alternating_sum.c
sed 's/hd_axis_attributes, (hd_tensor \*x, int axis),$/hd_toy_attributes, (hd_tensor *x, int axis),/' src/ops/ops.def >toy.def
refuses "fields of its attributes" "hd_toy_attributes_fields" \
    sh -c "sed 's|ops/ops.def|../toy.def|' src/graph/attributes.c >attributes.c && cc $flags -fsyntax-only attributes.c"
refuses "a reason not to be lowered" "HD_LOWER_ALTERNATING" \
    sh -c "sed 's/none(\"a toy\")/lower(ALTERNATING)/' src/ops/ops.def >toy.def &&
           sed 's|ops/ops.def|../toy.def|' src/ops/table.c >table.c && cc $flags -fsyntax-only table.c"

make --no-print-directory generate JOBS=2 \
    CONFIGURE="-DHODU_ISAS=baseline -DHODU_KERNEL_OPTIMIZE=-O0 -DCMAKE_BUILD_TYPE=None -DHODU_TESTS=OFF -DHODU_EXAMPLES=OFF -DHODU_BENCH=OFF -DHODU_LLVM=OFF -DHODU_CUDA=OFF -DHODU_OPENCL=OFF -DHODU_METAL=OFF"
cmake --build build/release -j 2 --target hodu hodu_static >build.log 2>&1 || { tail -30 build.log; exit 1; }
cc -std=c11 -Wall -Wextra -Werror -Iinclude "$toy/program.c" -Lbuild/release -lhodu -Wl,-rpath,"$PWD/build/release" -o program
./program

# Without one of its functions the library does not link.
link=$(ninja -C build/release -t commands hodu | grep -- '-shared' | tail -1 | sed 's/^: && //; s/ && .*//; s|-o libhodu\.so[^ ]*|-o without.so|')
leave_out() { # function file
    object=CMakeFiles/hodu_objects.dir/src/$2.o
    compile=$(cd build/release && ninja -t commands "$object" | tail -1 | sed "s|-o $object|-DWITHOUT_$1 -o without.o|")
    (cd build/release && sh -c "$compile")
    refuses "hd_$1" "alternating_sum" sh -c "cd build/release && $(echo "$link" | sed "s|$object|without.o|")"
}
leave_out vjp ops/alternating_sum.c
leave_out replay ops/alternating_sum.c
leave_out cpu device/cpu/alternating_sum.c
leave_out hlo xla/emit_alternating_sum.c
leave_out c export/calls_alternating_sum.c

# Without a call, a case of its gradient or a test of its values, a test fails; with them it passes.
build_test() { # room/name
    cc $flags -O0 -DHD_HAS_LLVM=0 -DHODU_TEST_DATA="\"$PWD/tests/data\"" -Itests "tests/$(dirname "$1")/test_$(basename "$1").c" \
        build/release/libhodu.a -lcmocka -lm -lpthread -ldl -o "$(basename "$1")"
}
build_tests() {
    build_test graph/text &
    build_test grad/families
    wait $!
}
build_tests
refuses "a call in tests/graph/calls.h" "alternating_sum is in no call" ./text
refuses "a case in tests/grad/test_families.c" "hd_alternating_sum has a gradient and no case" ./families
refuses "a test in tests/ops" "hd_alternating_sum" sh tests/structure/tested.sh "$PWD"
refuses "golden values" "hd_alternating_sum has no golden values" sh tests/structure/golden.sh "$PWD"
sed -i 's|^    CALL(sum, IN|    CALL(alternating_sum, IN(S(2, 3)), hd_alternating_sum(a, 1)) \\\n&|' tests/graph/calls.h
sed -i 's|^    CASE(sum, all, IN|    CASE(alternating_sum, last, IN(S(2, 3)), hd_alternating_sum(a, 1)) \\\n&|' tests/grad/test_families.c
echo '/* hd_alternating_sum */' >tests/ops/test_alternating_sum.c
build_tests
./text >text.log 2>&1 || { tail -20 text.log; exit 1; }
./families >families.log 2>&1 || { tail -20 families.log; exit 1; }
sh tests/structure/tested.sh "$PWD"
echo 'alternating_sum: a toy' >>tests/golden/without.txt
sh tests/structure/golden.sh "$PWD"
