/* Any bytes as a .hoduscript file: as they are, and with checksums that fit, which is where an attacker begins. It must
 * load or be refused; what loads must run, and must be loadable again after it was saved. Machine code in a file is
 * never asked for (.native): with a checksum that fits it is trusted as a program is, so any bytes would be run. How it
 * is read without being run is tried by compiler/native. */
#define SMALL 32
#include "fuzz.h"

#include "script/script.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- checksums that fit, as far as there is something to sum up ---- */
static uint64_t get(const uint8_t *at, size_t bytes) {
    uint64_t v = 0;
    memcpy(&v, at, bytes);
    return v;
}
static void set(uint8_t *at, uint64_t v) { memcpy(at, &v, 8); }

static bool inside(uint64_t offset, uint64_t bytes, size_t size) { return offset <= size && bytes <= size - offset; }

static void sign(uint8_t *b, size_t size) {
    if (size < 32) return;
    memcpy(b, "\x89HODU\r\n\x1a\x01\0\0\0", 12);
    set(b + 16, size);
    const uint64_t count = get(b + 12, 4);
    if (count > 256 || !inside(32, 32 * count, size)) return;
    for (int round = 0; round < 2; ++round) /* tensors first: their checksums are in a section */
        for (uint8_t *entry = b + 32; entry < b + 32 + 32 * count; entry += 32) {
            const uint64_t offset = get(entry + 8, 8), bytes = get(entry + 16, 8);
            if (memcmp(entry, "DATA", 4) == 0 || !inside(offset, bytes, size)) continue;
            if (round == 1) set(entry + 24, XXH64(b + offset, bytes, 0));
            if (round == 1 || memcmp(entry, "TENS", 4) != 0) continue;
            for (uint64_t at = offset + 8; at + 24 <= offset + bytes; at += 24) {
                const uint64_t begins = get(b + at, 8), length = get(b + at + 8, 8);
                if (length < size && inside(begins, (length + 63) / 64 * 64, size))
                    set(b + at + 16, XXH64(b + begins, (length + 63) / 64 * 64, 0));
            }
        }
    XXH64_state_t sum;
    XXH64_reset(&sum, 0);
    XXH64_update(&sum, b, 24);
    XXH64_update(&sum, b + 32, 32 * count);
    set(b + 24, XXH64_digest(&sum));
}

/* ---- running ---- */
/* Nothing that would only take long, or all memory. */
static bool is_small(const hd_graph *g) {
    double bytes = 0, work = 0;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        const double own = (double)hd_node_count(g, i) * hd_dtype_bytes[n->dtype];
        bytes += own;
        if (n->op == HD_OP_matmul || n->op == HD_OP_affine)
            work += own * (double)hd_node_count(g, hd_node_inputs(g, i)[0]);
        if (own > 1 << 20) return false;
    }
    return bytes < 1 << 24 && work < 1 << 26 && g->node_count < 4000;
}

static bool run(hd_script *s, hd_optimization_level level) {
    HD_SCOPE;
    hd_seed(1);
    hd_script_set_optimization_level(s, level);
    const bool ran = hd_script_run(s) != NULL;
    if (!ran && (hd_error_code() == HD_ERROR_INTERNAL || strstr(hd_error_message(), "after the pass") != NULL))
        broken("a fault inside");
    hd_error_clear();
    return ran;
}

static void try_script(hd_script *s, bool again) {
    const hd_graph *g = s->graph;
    if (!is_small(g)) return;
    for (uint32_t i = 0; i < g->input_count; ++i)
        hd_script_set_input(s, hd_graph_string(g, g->inputs[i].name),
                            hd_zeros(hd_node_shape(g, g->inputs[i].node), (hd_dtype)g->nodes[g->inputs[i].node].dtype));
    hd_script *other = hd_script_clone(s);
    if (!hd_ok()) broken("inputs of a script that was loaded cannot be set");
    const bool ran = run(s, HD_O0);
    if (!run(other, HD_O2) && ran) broken("a script that runs at O0 does not at O2");
    if (!ran || !again) return;
    hd_script_save(s, copy);
    hd_script_load(copy);
    if (!hd_ok()) broken("a script that was loaded and ran cannot be saved and loaded");
}

static void try_file(const uint8_t *bytes, size_t size, bool again) {
    put(bytes, size);
    {
        HD_SCOPE;
        hd_script *s = hd_script_load(path);
        if ((s == NULL) != !hd_ok()) broken("neither a script nor an error");
        if (s != NULL) try_script(s, again);
        if (s == NULL && strstr(hd_error_message(), "in.hoduscript") == NULL)
            broken("an error that does not name the file");
        hd_error_clear();
    }
    if (hd_live_objects() != 0 || hd_memory().live_bytes != 0) broken("something was left behind");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (descriptor < 0) begin("hoduscript");
    try_file(bytes, size, false);
    uint8_t *right = malloc(size + 1);
    if (right == NULL) return 0;
    memcpy(right, bytes, size);
    sign(right, size);
    try_file(right, size, true);
    free(right);
    return 0;
}
