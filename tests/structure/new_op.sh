#!/bin/sh
# Adds a toy op by the three steps of CONTRIBUTING, in a copy of the source: new_op.sh source-folder work-folder
set -eu
source=$1 work=$2
unset MAKEFLAGS MAKELEVEL MFLAGS || true
rm -rf "$work"
mkdir -p "$work"
cd "$work"
for part in CMakeLists.txt CMakePresets.json Makefile cmake include scripts src tools; do cp -R "$source/$part" .; done

# Step 1: one row.
row='UNARY(cube, NUMBERS, 2, "x^3", "x ** 3", MUL(x, MUL(x, x)), MUL(g, MUL(K(3), MUL(x, x))))'
grep -q '^UNARY(cube,' src/ops/elementwise.def && { echo "hd_cube exists already: choose another toy"; exit 1; }
anchor=$(grep -n '^UNARY(' src/ops/elementwise.def | head -1 | cut -d: -f1)
{ head -n $((anchor - 1)) src/ops/elementwise.def; echo "$row"; tail -n +"$anchor" src/ops/elementwise.def; } >elementwise.new
mv elementwise.new src/ops/elementwise.def

# Step 2: what follows from it.
make --no-print-directory generate JOBS=2 \
    CONFIGURE="-DHODU_ISAS=baseline -DHODU_KERNEL_OPTIMIZE=-O0 -DCMAKE_BUILD_TYPE=Debug -DHODU_TESTS=OFF -DHODU_EXAMPLES=OFF -DHODU_BENCH=OFF"
grep -q 'hd_tensor \*hd_cube(hd_tensor \*x);' include/hodu/ops.h || { echo "hd_cube is not in ops.h"; exit 1; }
grep -q '| `hd_cube(hd_tensor \*x)` | x^3 | floats and integers |' docs/ops.md || { echo "hd_cube is not in docs/ops.md"; exit 1; }

# Step 3: the library has it. (Golden values need PyTorch; here the values are checked by hand.)
cmake --build build/release -j 2 --target hodu >build.log 2>&1 || { tail -30 build.log; exit 1; }
cat >cube.c <<'END'
#include <stdio.h>

#include <hodu/hodu.h>

int main(void) {
    HD_SCOPE;
    const float floats[] = {-2, -0.5f, 0, 3};
    const int32_t ints[] = {-3, 0, 2, 10};
    const double expected_floats[] = {-8, -0.125, 0, 27}, expected_ints[] = {-27, 0, 8, 1000};
    double got[8];
    hd_tensor *x = hd_cube(hd_from_data(floats, HD_SHAPE(4), HD_F32));
    hd_tensor *n = hd_cube(hd_from_data(ints, HD_SHAPE(4), HD_I32));
    if (!hd_to_array(x, got, HD_F64, 4) || !hd_to_array(n, got + 4, HD_F64, 4)) return fprintf(stderr, "%s\n", hd_error_message()), 1;
    for (int i = 0; i < 4; ++i)
        if (got[i] != expected_floats[i] || got[4 + i] != expected_ints[i]) return fprintf(stderr, "%d: %g and %g\n", i, got[i], got[4 + i]), 1;
    if (hd_tensor_dtype(n) != HD_I32) return fprintf(stderr, "i32 gave %s\n", hd_dtype_name(hd_tensor_dtype(n))), 1;
    puts("hd_cube works");
    return 0;
}
END
${CC:-cc} -std=c11 -Wall -Wextra -Iinclude cube.c -Lbuild/release -lhodu -Wl,-rpath,"$PWD/build/release" -o cube
./cube
