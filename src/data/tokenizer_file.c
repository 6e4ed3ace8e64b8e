/* Tokenizers in files: text, so that they can be read and compared.
 *
 *     hodu tokenizer 1
 *     pairs 2
 *     116 104
 *     256 101
 *     end
 */
#include "data/file.h"
#include "data/tokenizer.h"

#include <stdio.h>
#include <string.h>

static const char first_line[] = "hodu tokenizer 1\n";

/* ---- writing ----------------------------------------------------------------------------------------------------- */
void hd_tokenizer_save(hd_tokenizer *tokenizer, const char *path) {
    HD_ENTER("hd_tokenizer_save", );
    HD_KEEP_NAME(thread);
    if (hd_tokenizer_size(tokenizer) == 0) return;
    if (path == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
        return;
    }
    const size_t room = 64 + 24 * (size_t)tokenizer->pairs; /* two numbers of 10 digits at most a line */
    char *text = hd_array_resize(NULL, room);
    if (text == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the text of a tokenizer");
        return;
    }
    size_t at = (size_t)snprintf(text, room, "%spairs %d\n", first_line, (int)tokenizer->pairs);
    for (int32_t i = 0; i < tokenizer->pairs; ++i)
        at += (size_t)snprintf(text + at, room - at, "%d %d\n", (int)tokenizer->pair[i].left,
                               (int)tokenizer->pair[i].right);
    at += (size_t)snprintf(text + at, room - at, "end\n");
    hd_file_write_all(thread, path, text, at);
    hd_array_release(text);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
typedef struct reader {
    const char *at, *end;
    int64_t line;
} reader;

/* The text that must come now. */
static hd_error expect(reader *r, const char *text) {
    const size_t length = strlen(text);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length) != 0)
        return hd_fail(HD_ERROR_VALUE, "line %lld of the tokenizer: \"%.*s\" is expected", (long long)r->line,
                       (int)strcspn(text, "\n"), text);
    r->at += length;
    r->line += text[length - 1] == '\n';
    return HD_OK;
}

/* A number below `bound`, as printf writes it, and what stands behind it. */
static hd_error read_number(reader *r, int64_t bound, char behind, int32_t *out) {
    const char *begin = r->at;
    int64_t v = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && v < bound) v = 10 * v + (*r->at++ - '0');
    if (r->at == begin || (*begin == '0' && r->at - begin > 1) || r->at == r->end || *r->at != behind)
        return hd_fail(HD_ERROR_VALUE, "line %lld of the tokenizer: a number%s is expected", (long long)r->line,
                       behind == ' ' ? " and a space" : " and the end of the line");
    if (v >= bound)
        return hd_fail(HD_ERROR_VALUE, "line %lld of the tokenizer: %lld; it must be below %lld", (long long)r->line,
                       (long long)v, (long long)bound);
    r->at++;
    *out = (int32_t)v;
    return HD_OK;
}

static hd_error read_pair(reader *r, hd_tokenizer *t) {
    const int32_t bound = HD_BYTE_TOKENS + t->pairs;
    int32_t left, right;
    HD_TRY(read_number(r, bound, ' ', &left));
    HD_TRY(read_number(r, bound, '\n', &right));
    if (hd_tokenizer_find(t, left, right) >= 0)
        return hd_fail(HD_ERROR_VALUE, "line %lld of the tokenizer: the pair %d %d is there twice", (long long)r->line,
                       (int)left, (int)right);
    if (hd_token_length(t, left) + hd_token_length(t, right) > HD_WORD_MOST)
        return hd_fail(HD_ERROR_VALUE, "line %lld of the tokenizer: the token would have more than %d bytes",
                       (long long)r->line, (int)HD_WORD_MOST);
    r->line++;
    return hd_tokenizer_add(t, left, right);
}

static hd_error read_all(reader *r, hd_tokenizer *t) {
    int32_t pairs;
    HD_TRY(expect(r, first_line));
    HD_TRY(expect(r, "pairs "));
    HD_TRY(read_number(r, HD_PAIRS_MOST + 1, '\n', &pairs));
    r->line++;
    while (t->pairs < pairs) HD_TRY(read_pair(r, t));
    HD_TRY(expect(r, "end\n"));
    if (r->at == r->end) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "line %lld of the tokenizer: something follows its end", (long long)r->line);
}

hd_tokenizer *hd_tokenizer_parse(const char *text, size_t bytes) {
    HD_ENTER("hd_tokenizer_parse", NULL);
    if (text == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`text` is NULL");
        return NULL;
    }
    hd_tokenizer *t = hd_tokenizer_new(thread);
    if (t == NULL) return NULL;
    reader r = {text, text + bytes, 1};
    if (read_all(&r, t) == HD_OK) return hd_data_give(thread, t);
    hd_data_drop(thread, t);
    return NULL;
}

hd_tokenizer *hd_tokenizer_load(const char *path) {
    HD_ENTER("hd_tokenizer_load", NULL);
    HD_KEEP_NAME(thread);
    hd_file_bytes file;
    HD_TRY_OR(hd_file_read_all(path, &file), NULL);
    HD_HOLD_ERRORS(thread);
    hd_tokenizer *t = hd_tokenizer_parse(file.bytes, file.count);
    if (t == NULL) hd_file_blame(thread, path);
    hd_array_release(file.bytes);
    return t;
}
