/* Tokenizers: encoding and decoding. */
#include "data/tokenizer.h"
#include "core/hash.h"

static void tokenizer_destroy(hd_thread *thread, hd_object *object) {
    hd_tokenizer *t = (hd_tokenizer *)object;
    hd_array_release(t->pair);
    hd_array_release(t->lengths);
    hd_array_release(t->slots);
    hd_object_bury(thread, object);
}
static const hd_kind tokenizer_kind = {.name = "tokenizer", .destroy = tokenizer_destroy};

static hd_error tokenizer_check(const hd_tokenizer *t) { return hd_data_check(t, &tokenizer_kind, "tokenizer"); }

hd_tokenizer *hd_tokenizer_new(hd_thread *thread) { return hd_data_new(thread, sizeof(hd_tokenizer), &tokenizer_kind); }

hd_tokenizer *hd_byte_tokenizer(void) {
    HD_ENTER("hd_byte_tokenizer", NULL);
    return hd_data_give(thread, hd_tokenizer_new(thread));
}

int64_t hd_tokenizer_size(const hd_tokenizer *tokenizer) {
    HD_ENTER_ALWAYS("hd_tokenizer_size", 0);
    return tokenizer_check(tokenizer) == HD_OK ? HD_BYTE_TOKENS + tokenizer->pairs : 0;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */
static uint32_t slot_of(const hd_tokenizer *t, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (uint32_t)(hd_hash_mix(key, 1) >> 8) % t->slot_count;
}

int32_t hd_tokenizer_find(const hd_tokenizer *t, int32_t left, int32_t right) {
    if (t->slot_count == 0) return -1;
    for (uint32_t at = slot_of(t, left, right); t->slots[at] != 0; at = (at + 1) % t->slot_count) {
        const hd_token_pair *p = &t->pair[t->slots[at] - 1];
        if (p->left == left && p->right == right) return t->slots[at] - 1;
    }
    return -1;
}

static void put_slot(hd_tokenizer *t, int32_t number) {
    uint32_t at = slot_of(t, t->pair[number].left, t->pair[number].right);
    while (t->slots[at] != 0) at = (at + 1) % t->slot_count;
    t->slots[at] = number + 1;
}

static hd_error grow(hd_tokenizer *t) {
    const int32_t capacity = t->capacity > 0 ? 2 * t->capacity : 64;
    hd_token_pair *pair = hd_array_resize(t->pair, (size_t)capacity * sizeof *pair);
    if (pair != NULL) t->pair = pair;
    uint16_t *lengths = hd_array_resize(t->lengths, (size_t)capacity * sizeof *lengths);
    if (lengths != NULL) t->lengths = lengths;
    int32_t *slots = hd_array_resize(NULL, 2 * (size_t)capacity * sizeof *slots);
    if (pair == NULL || lengths == NULL || slots == NULL) {
        hd_array_release(slots);
        return hd_fail(HD_ERROR_MEMORY, "no memory for a tokenizer of %d pairs", (int)capacity);
    }
    memset(slots, 0, 2 * (size_t)capacity * sizeof *slots);
    hd_array_release(t->slots);
    t->slots = slots;
    t->slot_count = 2 * (uint32_t)capacity;
    t->capacity = capacity;
    for (int32_t i = 0; i < t->pairs; ++i) put_slot(t, i);
    return HD_OK;
}

hd_error hd_tokenizer_add(hd_tokenizer *t, int32_t left, int32_t right) {
    if (t->pairs == t->capacity) HD_TRY(grow(t));
    t->pair[t->pairs] = (hd_token_pair){left, right};
    t->lengths[t->pairs] = (uint16_t)(hd_token_length(t, left) + hd_token_length(t, right));
    put_slot(t, t->pairs++);
    return HD_OK;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */
typedef enum sign { BLANK, LETTER, OTHER } sign;
static sign sign_of(char c) {
    const unsigned char b = (unsigned char)c;
    if (b <= ' ') return BLANK;
    return b >= 0x80 || (b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'z') ? LETTER : OTHER;
}

size_t hd_word_length(const char *text, size_t bytes) {
    const size_t most = bytes < HD_WORD_MOST ? bytes : HD_WORD_MOST;
    size_t n = text[0] == ' ' && most > 1 && sign_of(text[1]) != BLANK;
    const sign s = sign_of(text[n]);
    while (n < most && sign_of(text[n]) == s) ++n;
    return s == BLANK && n > 1 && n < bytes && text[n - 1] == ' ' ? n - 1 : n;
}

/* ---- text to tokens ---------------------------------------------------------------------------------------------- */
/* Joins pairs in a word, those learnt first first; how many tokens are left. */
static size_t join(const hd_tokenizer *t, int32_t *tokens, size_t count) {
    for (;;) {
        int32_t best = -1;
        for (size_t i = 0; i + 1 < count; ++i) {
            const int32_t pair = hd_tokenizer_find(t, tokens[i], tokens[i + 1]);
            if (pair >= 0 && (best < 0 || pair < best)) best = pair;
        }
        if (best < 0) return count;
        size_t to = 0;
        for (size_t i = 0; i < count; ++to, ++i) {
            const bool joins = i + 1 < count && tokens[i] == t->pair[best].left && tokens[i + 1] == t->pair[best].right;
            tokens[to] = joins ? HD_BYTE_TOKENS + best : tokens[i];
            i += joins;
        }
        count = to;
    }
}

/* All tokens of a text, for hd_array_release; NULL with an error. */
static int64_t *encode(const hd_tokenizer *t, const char *text, size_t bytes, size_t *count) {
    size_t room = bytes / 2 + HD_WORD_MOST;
    int64_t *out = hd_array_resize(NULL, room * sizeof *out);
    *count = 0;
    while (out != NULL && bytes > 0) {
        int32_t word[HD_WORD_MOST];
        const size_t length = hd_word_length(text, bytes);
        for (size_t i = 0; i < length; ++i) word[i] = (unsigned char)text[i];
        const size_t tokens = join(t, word, length);
        if (room - *count < tokens) {
            int64_t *more = hd_array_resize(out, (room = 2 * room + HD_WORD_MOST) * sizeof *out);
            if (more == NULL) hd_array_release(out);
            if ((out = more) == NULL) break;
        }
        for (size_t i = 0; i < tokens; ++i) out[(*count)++] = word[i];
        text += length;
        bytes -= length;
    }
    if (out == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for the tokens of a text");
    return out;
}

hd_tensor *hd_tokenizer_encode(hd_tokenizer *tokenizer, const char *text, size_t bytes) {
    HD_ENTER("hd_tokenizer_encode", NULL);
    HD_TRY_OR(tokenizer_check(tokenizer), NULL);
    if (text == NULL && bytes > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`text` is NULL");
        return NULL;
    }
    size_t count;
    int64_t *tokens = encode(tokenizer, text, bytes, &count);
    HD_KEEP_NAME(thread);
    hd_tensor *t = tokens == NULL ? NULL : hd_from_data(tokens, HD_SHAPE((int64_t)count), HD_I64);
    hd_array_release(tokens);
    return t;
}

/* ---- tokens to text ---------------------------------------------------------------------------------------------- */
/* The bytes of a token, which are at most HD_WORD_MOST. */
static void spell(const hd_tokenizer *t, int32_t token, char *out) {
    int32_t waiting[HD_WORD_MOST + 1]; /* each is one byte at least */
    int count = 0;
    waiting[count++] = token;
    while (count > 0) {
        token = waiting[--count];
        if (token < HD_BYTE_TOKENS) {
            *out++ = (char)token;
            continue;
        }
        waiting[count++] = t->pair[token - HD_BYTE_TOKENS].right;
        waiting[count++] = t->pair[token - HD_BYTE_TOKENS].left;
    }
}

static int64_t decode(const hd_tokenizer *t, const int64_t *tokens, int64_t count, char *out, size_t capacity) {
    size_t length = 0;
    for (int64_t i = 0; i < count; ++i) {
        char bytes[HD_WORD_MOST];
        if (tokens[i] < 0 || tokens[i] >= HD_BYTE_TOKENS + t->pairs) {
            hd_fail(HD_ERROR_INDEX, "token %lld is %lld; the tokenizer has %d", (long long)i, (long long)tokens[i],
                    (int)(HD_BYTE_TOKENS + t->pairs));
            return -1;
        }
        const size_t more = (size_t)hd_token_length(t, (int32_t)tokens[i]);
        if (length < capacity) {
            spell(t, (int32_t)tokens[i], bytes);
            memcpy(out + length, bytes, capacity - length < more ? capacity - length : more);
        }
        length += more;
    }
    if (capacity > 0) out[length < capacity ? length : capacity - 1] = '\0';
    return (int64_t)length;
}

int64_t hd_tokenizer_decode(hd_tokenizer *tokenizer, hd_tensor *tokens, char *out, size_t capacity) {
    HD_ENTER("hd_tokenizer_decode", -1);
    HD_TRY_OR(tokenizer_check(tokenizer), -1);
    if (out == NULL && capacity > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL");
        return -1;
    }
    int64_t *own = hd_data_integers(thread, tokens, "tokens");
    if (own == NULL) return -1;
    const int64_t length = decode(tokenizer, own, tokens->count, out, capacity);
    hd_array_release(own);
    return length;
}
