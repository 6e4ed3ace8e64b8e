#!/bin/sh
# That gcc vectorises the kernels of every elementwise row and of its derivatives, by its own report: vectorised.sh source-folder gcc
# The rows with an exact remainder are the exception: C's fmod is a loop of its own.
set -eu
source=$1 compiler=$2
exceptions=' trunc_divide rem floor_divide mod '
check() { # kernels, how many exceptions
    for type in f32 f64; do
        report=$("$compiler" -std=c11 -O3 -mavx2 -mfma -mbmi2 -fno-math-errno -fno-trapping-math -ffp-contract=fast \
            -fno-thread-jumps -I"$source/include" -I"$source/src" -DT=$type -DHD_ISA=avx2 -fopt-info-vec-missed -S -o /dev/null \
            "$source/src/device/cpu/$1.c" 2>&1 | grep "couldn't vectorize loop" || true)
        lines=$(printf '%s\n' "$report" | sed -n 's/.*elementwise\.def:\([0-9]*\):.*/\1/p' | sort -un)
        missed=0
        for line in $lines; do
            row=$(sed -n "${line}p" "$source/src/ops/elementwise.def" | sed 's/^[A-Z0-9]*(\([a-z0-9_]*\),.*/\1/')
            case $exceptions in
            *" $row "*) missed=$((missed + 1)) ;;
            *) echo "hd_$row is not vectorised for $type in $1" && exit 1 ;;
            esac
        done
        # were the report empty, nothing would have been tested
        [ "$missed" -eq "$2" ] || { echo "expected $2 remainders in the report on $1, it names $missed: has its wording changed?"; exit 1; }
    done
}
check kernels_elementwise 4
check kernels_derivative 2 # of trunc_divide and floor_divide they are zero
echo "every row and derivative is vectorised, but for$exceptions"
