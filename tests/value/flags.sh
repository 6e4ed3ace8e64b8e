#!/bin/sh
# The micro programs' flags: helpful errors with exit status 2, the same output for the same seed, data of one's own.
set -u
root=${1:?usage: flags.sh SOURCE-TREE PROGRAMS}
programs=${2:?usage: flags.sh SOURCE-TREE PROGRAMS}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# expect STATUS TEXT COMMAND...: the command exits with STATUS, and TEXT stands in what it says
expect() {
    wanted=$1 text=$2
    shift 2
    "$@" > "$work/out" 2>&1
    code=$?
    if [ "$code" -ne "$wanted" ] || ! grep -q -- "$text" "$work/out"; then
        echo "$*: exit status $code, expected $wanted with \"$text\"; it said:"
        head -n 5 "$work/out"
        status=1
    fi
}

printf 'anna\nBob\r\n\ncarla\nnina\nzoe\nxe\npiotr\n' > "$work/names"
printf 'anna\nb0b\n' > "$work/digits"
printf 'ab\n\000\001\377\n' > "$work/binary"
printf 'abcdefghijklmnopqrstuvwxyzabcdefghijk\n' > "$work/long"
: > "$work/empty"
printf '1 2\n3 x\n' > "$work/words"
printf '1 2\n3 inf\n' > "$work/infinite"
printf '1.5 2\n-3 4\n' > "$work/points"

for name in microgpt micrornn microlora microdpo microppo micromoe microkv microquant microbeam; do
    program=$programs/$name
    expect 0 'usage: ' "$program" --help
    expect 2 'unknown flag --step' "$program" --step 3
    expect 2 'unknown flag 7' "$program" 7
    for steps in 0 -1 x 3x '' 99999999999999999999; do expect 2 'expected a whole number' "$program" --steps "$steps"; done
    expect 2 'expected a whole number' "$program" --steps
    expect 2 'expected a whole number' "$program" --seed 1.5
    expect 2 'needs a file' "$program" --data
    expect 2 'nowhere' "$program" --data "$work/nowhere"
    expect 2 'a-z' "$program" --data "$work/digits"
    expect 2 'line 2' "$program" --data "$work/binary"
    expect 2 '31 letters' "$program" --data "$work/long"
    expect 2 'no names' "$program" --data "$work/empty"
    expect 2 'cannot read\|Is a directory' "$program" --data "$work"
    "$program" --steps 2 --seed 7 --data "$work/names" > "$work/small" 2>&1
    code=$?
    [ $code -le 1 ] || { echo "$name: own data: exit status $code"; status=1; }
done
expect 0 'usage: microvae' "$programs/microvae" --help
expect 0 'points, two numbers a line' "$programs/microvae" --help
expect 0 'epochs, each of which takes all points once, 1 or more (default 1000)' "$programs/microvae" --help
expect 0 'names, one a line' "$programs/microgpt" --help
expect 2 'unknown flag --step' "$programs/microvae" --step 3
expect 2 'two numbers' "$programs/microvae" --data "$work/words"
expect 2 'not finite' "$programs/microvae" --data "$work/infinite"
expect 2 'no points' "$programs/microvae" --data "$work/empty"
expect 2 'nowhere' "$programs/microvae" --data "$work/nowhere"
expect 1 'result | microvae' "$programs/microvae" --steps 2 --data "$work/points"

# The models have as many parameters as their description says.
for line in 'microgpt 4192 parameters' 'micrornn RNN: 2811 parameters' 'micrornn GRU: 6555 parameters' \
            'microlora LoRA: 128 parameters (3.1%' 'microdpo 4192 parameters' 'microppo policy: 1296 parameters' \
            'microppo reward model: 961 parameters' 'micromoe 1584 parameters' 'microkv 4448 parameters' \
            'microquant 4192 parameters' 'microbeam d = 16: 4192 parameters' 'microbeam d =  8: 1328 parameters' \
            'microvae 198 parameters'; do
    "$programs/${line%% *}" --steps 1 > "$work/out" 2>&1
    grep -qF -- "${line#* }" "$work/out" || { echo "missing in the output: $line"; status=1; }
done

# The same seed gives the same output, but for times; another seed another one; too few steps miss the criterion.
for seed in 5 5 6; do "$programs/microgpt" --steps 20 --seed $seed | grep -v '^result' > "$work/run.$seed.$(ls "$work" | wc -l)"; done
set -- "$work"/run.5.*
cmp -s "$1" "$2" || { echo "the same seed gave two different runs"; status=1; }
cmp -s "$1" "$work"/run.6.* && { echo "two seeds gave the same run"; status=1; }
expect 1 'NOT REACHED' "$programs/microgpt" --steps 1
exit $status
