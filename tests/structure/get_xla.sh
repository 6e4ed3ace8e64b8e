#!/bin/sh
# scripts/get-xla on machines that lack something, played with a PATH of stand-ins: get_xla.sh path/to/scripts/get-xla work-folder
set -eu
script=$1 work=$2
failed=0

machine() { # what `uname` says, then what python3 does as a script ("": there is none)
    rm -rf "$work"
    mkdir -p "$work/bin" "$work/scripts" "$work/home"
    cp "$script" "$work/scripts/get-xla" # without a .venv beside it
    for tool in sh dirname cat mkdir mktemp rm ls sha256sum cut basename wc mv; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
    printf '#!/bin/sh\n[ "$1" = -m ] && echo %s || echo Linux\n' "$1" >"$work/bin/uname"
    [ -z "$2" ] || printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/python3"
    chmod +x "$work"/bin/uname "$work"/bin/python3 2>/dev/null || true
}

expect() { # what it is, exit code, text of the output ("": none), options of get-xla
    name=$1 code=$2 output=$3
    shift 3
    got=0
    env -i PATH="$work/bin" HOME="$work/home" sh "$work/scripts/get-xla" "$@" >"$work/out" 2>&1 || got=$?
    left=$(find "$work/home" -name '.get-xla-*')
    if [ -n "$output" ]; then said=$(grep -cF -e "$output" "$work/out" || true); else said=$([ -s "$work/out" ] || echo 1); fi
    if [ $got -eq "$code" ] && [ -z "$left" ] && [ "${said:-0}" != 0 ]; then return; fi
    echo "$name: expected exit $code and \"$output\"; got exit $got, left behind \"$left\", this output:"
    cat "$work/out"
    failed=1
}

downloads='case "$*" in *--version*) ;; *download*) while [ "$1" != --dest ]; do shift; done; echo wrong >"$2/some.whl" ;; *) exit 1 ;; esac'

machine x86_64 "$downloads"
expect "an unknown option" 2 "usage:" --everything
expect "an option without its word" 2 "usage:" --to
expect "another file under its name" 1 "some.whl has the SHA-256 543df89fec85b1c280e5be7bc6a33e31203503cd6edb3084312de4db5a9b436c, expected 55837b6b"
[ ! -e "$work/home/.local/share/hodu/xla_cpu_pjrt.so" ] || { echo "it was used all the same"; failed=1; }
expect "another file, when it is only tried" 0 "has the SHA-256" --try
expect "a wheel that is not there" 1 "there is no wheel $work/nothing.whl" --from "$work/nothing.whl"
machine x86_64 'case "$*" in *--version*) ;; *) exit 1 ;; esac'
expect "no network" 1 "pip cannot download xla-cpu-pjrt"
machine x86_64 'exit 1'
expect "no pip" 1 "needs Python with pip"
machine x86_64 ""
expect "no Python" 1 "needs Python with pip"
machine aarch64 "$downloads"
expect "another machine" 1 "is for Linux on x86_64; this is Linux aarch64"
machine x86_64 'exit 1'
mkdir -p "$work/there"
echo plugin >"$work/there/xla_cpu_pjrt.so"
echo "xla-cpu-pjrt 0.0.1 $(sed -n 's/^sum=//p' "$script")" >"$work/there/xla_cpu_pjrt.so.version"
expect "it is there already" 0 "" --to "$work/there"
echo "xla-cpu-pjrt 0.0.0 of old" >"$work/there/xla_cpu_pjrt.so.version"
expect "an older one is there" 1 "needs Python with pip" --to "$work/there"
exit $failed
