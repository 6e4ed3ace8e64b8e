#!/bin/sh
# Every micro program must carry the interface document's callout block right after its include of value.h,
# word for word; the reason at each numerical pattern that it uses; and no backward without gradients zeroed before it.
set -u
root=${1:?usage: callouts.sh SOURCE-TREE}
status=0
for name in microgpt micrornn microlora microdpo microppo micromoe microkv microquant microbeam microvae; do
    awk -v name="$name" '
        function wrong(what) { print name ".c: " what; bad = 1; exit 1 }
        function expect(text) { if ($0 != text) wrong("callout: expected \"" text "\", found \"" $0 "\"") }
        $0 == "#include <hodu/value.h>" { line = 1; next }
        line == 1 { expect(""); line = 2; next }
        line == 2 && /DIFFERENCES/ { expect("// --- AUTOGRAD DIFFERENCES IN THIS SCRIPT ---"); form = "with"; line = 3; next }
        line == 2 { expect("// --- AUTOGRAD IN THIS SCRIPT ---"); form = "without"; line = 3; next }
        form == "without" && line == 3 { expect("// This Value class follows the canonical interface exactly."); line = 4; next }
        form == "without" && line == 4 { expect("// See docs/autograd-interface.md for the full specification."); line = 5; next }
        form == "without" && line == 5 { expect(""); complete = 1; exit }
        form == "with" && line == 3 { expect("// This Value class follows the canonical interface (see docs/autograd-interface.md)"); line = 4; next }
        form == "with" && line == 4 { expect("// with the following additions/modifications:"); line = 5; next }
        form == "with" && line == 5 && /^\/\/ - [^ ].*: / { additions++; next }
        form == "with" && line == 5 { expect("// Base operations (add, mul, tanh, exp, relu, pow, backward) are identical"); line = 6; next }
        form == "with" && line == 6 { expect("// to the canonical spec."); line = 7; next }
        form == "with" && line == 7 { expect(""); complete = additions > 0; exit }
        END { if (!bad && !complete) wrong("no complete callout block after #include <hodu/value.h>") }
    ' "$root/examples/micro/$name.c" || status=1
done
grep -q '^// - sigmoid(): ' "$root/examples/micro/micrornn.c" || { echo "micrornn.c: sigmoid() is not announced"; status=1; }
grep -q '^// - clip(): ' "$root/examples/micro/microppo.c" || { echo "microppo.c: clip() is not announced"; status=1; }

# reason FILE PATTERN USE REASON: where a line of code has USE, a comment that says REASON stands on it or at most 15 lines
# above one such line. Comments run over lines, so REASON is looked for in a line and the next one together.
reason() {
    awk -v use="$3" -v why="$4" '
        { code = $0; sub(/\/\*.*/, "", code); if ($0 ~ /^ *(\*|\/\/)/) code = "" }
        code ~ use { uses[++n] = NR }
        { both = before " " $0; gsub(/ +\*? */, " ", both); if (both ~ why) reasons[++m] = NR; before = $0 }
        END {
            for (i = 1; i <= n; ++i) for (k = 1; k <= m; ++k) if (uses[i] >= reasons[k] - 1 && uses[i] <= reasons[k] + 15) exit 0
            exit n > 0
        }
    ' "$1" || { echo "${1##*/}: $2 without a comment near it that says why"; return 1; }
}
patterns() {
    softmax='largest.*(first|exp)' clipped='(clipped at 1e-10|log\\(0\\)).*(gradient|infin|-inf|23)'
    reason "$1" "a softmax" 'softmax\\(' "$softmax" &&
        reason "$1" "a log" '(^|[^a-z_])v?log\\(' "$clipped" &&
        reason "$1" "Adam" 'hd_value_adam \\*?[a-z]' 'epsilon.*(dividing by 0|divid)' &&
        reason "$1" "a root of a mean of squares" '1e-5' '1e-5 .*dividing by 0' &&
        reason "$1" "a KL divergence" 'hd_value_kl\\(' 'clamps log_var .*variance'
    bad=$?
    awk -v name="${1##*/}" '
        /hd_value_zero_grad\(/ { zeroed = NR }
        /hd_value_backward\(/ && !(zeroed && NR - zeroed <= 6) { print name ": line " NR ": backward without zeroed gradients"; bad = 1 }
        /hd_value_backward\(/ { zeroed = 0 }
        END { exit bad }
    ' "$1" || bad=1
    return $bad
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in microgpt micrornn microlora microdpo microppo micromoe microkv microquant microbeam microvae; do
    patterns "$root/examples/micro/$name.c" || status=1
done

# The test itself can fail: without the words of its reasons, or without zeroing, no program passes.
for words in largest 1e-10 epsilon 'dividing by 0'; do
    sed "s/$words/something/g" "$root/examples/micro/microgpt.c" > "$work/microgpt.c"
    patterns "$work/microgpt.c" > /dev/null && { echo "microgpt.c passes without \"$words\""; status=1; }
done
grep -v hd_value_zero_grad "$root/examples/micro/micrornn.c" > "$work/micrornn.c"
patterns "$work/micrornn.c" > /dev/null && { echo "micrornn.c passes without zeroed gradients"; status=1; }
exit $status
