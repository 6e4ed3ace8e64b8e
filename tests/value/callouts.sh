#!/bin/sh
# Every micro program must carry the interface document's callout block right after its include of value.h,
# word for word.
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
exit $status
