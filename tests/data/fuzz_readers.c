/* Any bytes as CSV, PNG, IDX and a tokenizer: each must be read or refused with an error of its own, and leave nothing
 * behind; what is read must be whole. The sums of PNG's chunks are made to fit, which is where an attacker begins. */
#define SMALL 1
#define IN_MEMORY
#define OWN_CHANGES
#include "fuzz.h"

/* A reader gives something or an error, never both and never neither; and the error is about what it was given. */
static void ended(const void *result, const char *call) {
    if ((result == NULL) != !hd_ok()) broken("neither a result nor an error");
    const hd_error code = hd_error_code();
    if (code != HD_OK && code != HD_ERROR_VALUE && code != HD_ERROR_OVERFLOW && code != HD_ERROR_MEMORY &&
        !(code == HD_ERROR_STATE && strstr(hd_error_message(), "libpng") != NULL))
        broken("another kind of error");
    if (code != HD_OK && strstr(hd_error_message(), call) == NULL) broken("an error that does not name its call");
    hd_error_clear();
}

/* ---- the readers ------------------------------------------------------------------------------------------------- */
static void try_csv(const uint8_t *bytes, size_t size, const hd_csv_opts *opts) {
    HD_SCOPE;
    hd_table *t = hd_csv_parse((const char *)bytes, size, opts);
    const bool read = t != NULL;
    ended(t, "hd_csv_parse");
    for (int i = 0; read && i < hd_table_columns(t) && i < 20; ++i) {
        const char *name = hd_table_name(t, i);
        if (hd_tensor_count(hd_table_column(t, name)) != hd_table_rows(t)) broken("a column of another length");
        for (int64_t k = 0; k < hd_table_texts(t, name); ++k) hd_table_text(t, name, k);
    }
    if (!hd_ok()) broken("a table that cannot be looked at");
}

static void try_png(const uint8_t *bytes, size_t size) {
    HD_SCOPE;
    hd_tensor *t = hd_png_parse(bytes, size);
    if (t != NULL && (hd_tensor_rank(t) != 3 || hd_tensor_count(t) == 0)) broken("an image that is none");
    ended(t, "hd_png_parse");
}

static void try_tokenizer(const uint8_t *bytes, size_t size) {
    HD_SCOPE;
    static char text[1 << 16];
    hd_tokenizer *t = hd_tokenizer_parse((const char *)bytes, size);
    const bool read = t != NULL;
    ended(t, "hd_tokenizer_parse");
    if (!read) return;
    const size_t length = size < sizeof text / 2 ? size : sizeof text / 2;
    hd_tensor *tokens = hd_tokenizer_encode(t, (const char *)bytes, length);
    if (hd_tokenizer_decode(t, tokens, text, sizeof text) != (int64_t)length || memcmp(text, bytes, length) != 0)
        broken("a text that does not come back");
}

/* Chunks whose sums fit. */
static void sign_png(uint8_t *b, size_t size) {
    for (size_t at = 8; at + 12 <= size;) {
        const size_t length = (size_t)b[at] << 24 | (size_t)b[at + 1] << 16 | (size_t)b[at + 2] << 8 | b[at + 3];
        if (length > size - at - 12) return;
        uint32_t sum = 0xffffffff;
        for (size_t i = at + 4; i < at + 8 + length; ++i) {
            sum ^= b[i];
            for (int k = 0; k < 8; ++k) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
        }
        for (int i = 0; i < 4; ++i) b[at + 8 + length + (size_t)i] = (uint8_t)(~sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    setenv("HODU_ERRORS", "quiet", 0);
    try_csv(bytes, size, NULL);
    try_csv(bytes, size, HD_OPTS(hd_csv_opts, .separator = ';', .quote = '\'', .no_header = true, .missing = "NA"));
    try_tokenizer(bytes, size);
    {
        HD_SCOPE;
        ended(hd_idx_parse(bytes, size), "hd_idx_parse");
    }
    try_png(bytes, size);
    uint8_t *right = malloc(size + 1);
    if (right == NULL) return 0;
    if (size > 0) memcpy(right, bytes, size);
    sign_png(right, size);
    try_png(right, size);
    free(right);
    if (hd_live_objects() != 0 || hd_memory().live_bytes != 0) broken("something was left behind");
    return 0;
}

/* Signs that readers of text look for. */
static void change(uint8_t *b, size_t size) {
    static const char signs[] = {0, ',', ';', '"', '\'', '\n', '\r', ' ', '0', '9', '-', 'e', '.', (char)255, 127, 1};
    for (uint64_t i = draw(4) + 1; i > 0; --i) {
        const size_t at = draw(size);
        switch (draw(4)) {
        case 0: b[at] ^= (uint8_t)(1u << draw(8)); break;
        case 1: b[at] = (uint8_t)signs[draw(sizeof signs)]; break;
        case 2: b[at] = b[draw(size)]; break;
        default: b[at] = (uint8_t)(b[at] + draw(5) - 2); break;
        }
    }
}
