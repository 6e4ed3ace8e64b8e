/* Byte pair encoding, learnt. Each word of the text is kept once, with how often it is there; a pair counts as often as
 * the words that have it. */
#include "core/hash.h"
#include "data/tokenizer.h"

typedef struct word {
    size_t begin; /* its tokens in the pool */
    uint32_t length;
    int64_t count;
} word;

typedef struct pair_count {
    uint64_t key; /* left, right; of an empty slot 0, as that of 0 0 is not: KEY */
    int64_t count;
} pair_count;
#define KEY(left, right) (((uint64_t)(uint32_t)(left) << 32 | (uint32_t)(right)) + 1)

typedef struct training {
    int32_t *pool;
    size_t pool_used, pool_room;
    word *words;
    size_t word_count, word_room;
    uint32_t *word_slots; /* number + 1 */
    size_t word_slot_count;
    pair_count *pairs; /* a hash table */
    size_t pair_count, pair_slots;
} training;

static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory to learn a tokenizer"); }

/* The array with room for `wanted` elements at least; NULL: there is no memory, and it is as it was. */
static void *with_room(void *array, size_t *room, size_t wanted, size_t element) {
    if (wanted <= *room) return array;
    const size_t more = wanted + *room + 1024;
    void *larger = hd_array_resize(array, more * element);
    if (larger != NULL) *room = more;
    return larger;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */
static bool is_word(const training *t, const word *w, const char *text, size_t length) {
    if (w->length != length) return false;
    for (size_t i = 0; i < length; ++i)
        if (t->pool[w->begin + i] != (unsigned char)text[i]) return false;
    return true;
}

static uint64_t hash_of_word(const training *t, const word *w) {
    char bytes[HD_WORD_MOST];
    for (uint32_t i = 0; i < w->length; ++i) bytes[i] = (char)t->pool[w->begin + i];
    return hd_hash(bytes, w->length, 0);
}

static hd_error grow_slots(training *t) {
    const size_t count = t->word_slot_count > 0 ? 2 * t->word_slot_count : 4096;
    uint32_t *slots = hd_array_resize(NULL, count * sizeof *slots);
    if (slots == NULL) return no_memory();
    memset(slots, 0, count * sizeof *slots);
    for (size_t i = 0; i < t->word_count; ++i) {
        size_t at = hash_of_word(t, &t->words[i]) % count;
        while (slots[at] != 0) at = (at + 1) % count;
        slots[at] = (uint32_t)i + 1;
    }
    hd_array_release(t->word_slots);
    t->word_slots = slots;
    t->word_slot_count = count;
    return HD_OK;
}

static hd_error note_word(training *t, const char *text, size_t length) {
    if (2 * t->word_count >= t->word_slot_count) HD_TRY(grow_slots(t));
    size_t at = hd_hash(text, length, 0) % t->word_slot_count;
    for (; t->word_slots[at] != 0; at = (at + 1) % t->word_slot_count) {
        word *w = &t->words[t->word_slots[at] - 1];
        if (!is_word(t, w, text, length)) continue;
        w->count++;
        return HD_OK;
    }
    int32_t *pool = with_room(t->pool, &t->pool_room, t->pool_used + length, sizeof *pool);
    if (pool == NULL) return no_memory();
    t->pool = pool;
    word *words = with_room(t->words, &t->word_room, t->word_count + 1, sizeof *words);
    if (words == NULL || t->word_count == UINT32_MAX) return no_memory();
    t->words = words;
    for (size_t i = 0; i < length; ++i) t->pool[t->pool_used + i] = (unsigned char)text[i];
    t->words[t->word_count++] = (word){t->pool_used, (uint32_t)length, 1};
    t->word_slots[at] = (uint32_t)t->word_count;
    t->pool_used += length;
    return HD_OK;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */
static pair_count *slot_of(pair_count *slots, size_t count, uint64_t key) {
    size_t at = (size_t)(hd_hash_mix(key, 1) >> 8) % count;
    while (slots[at].key != 0 && slots[at].key != key) at = (at + 1) % count;
    return &slots[at];
}

/* Those that are gone leave the table when it grows. */
static hd_error grow_pairs(training *t) {
    const size_t count = t->pair_slots > 0 ? 2 * t->pair_slots : 4096;
    pair_count *slots = hd_array_resize(NULL, count * sizeof *slots);
    if (slots == NULL) return no_memory();
    memset(slots, 0, count * sizeof *slots);
    t->pair_count = 0;
    for (size_t i = 0; i < t->pair_slots; ++i) {
        if (t->pairs[i].count == 0) continue;
        *slot_of(slots, count, t->pairs[i].key) = t->pairs[i];
        t->pair_count++;
    }
    hd_array_release(t->pairs);
    t->pairs = slots;
    t->pair_slots = count;
    return HD_OK;
}

/* All pairs of a word count `sign` times more. */
static hd_error count_pairs(training *t, const word *w, int sign) {
    const int32_t *tokens = t->pool + w->begin;
    for (uint32_t i = 0; i + 1 < w->length; ++i) {
        if (2 * t->pair_count >= t->pair_slots) HD_TRY(grow_pairs(t));
        const uint64_t key = KEY(tokens[i], tokens[i + 1]);
        pair_count *p = slot_of(t->pairs, t->pair_slots, key);
        t->pair_count += p->key == 0;
        p->key = key;
        p->count += sign * w->count;
    }
    return HD_OK;
}

/* The most frequent one, of equals that of the smallest numbers; its count may be 0. */
static pair_count best_pair(const training *t) {
    pair_count best = {0, 0};
    for (size_t i = 0; i < t->pair_slots; ++i)
        if (t->pairs[i].count > best.count || (t->pairs[i].count == best.count && t->pairs[i].key < best.key))
            best = t->pairs[i];
    return best;
}

static bool has_pair(const training *t, const word *w, int32_t left, int32_t right) {
    const int32_t *tokens = t->pool + w->begin;
    for (uint32_t i = 0; i + 1 < w->length; ++i)
        if (tokens[i] == left && tokens[i + 1] == right) return true;
    return false;
}

static hd_error join_everywhere(training *t, int32_t left, int32_t right, int32_t joined) {
    for (size_t n = 0; n < t->word_count; ++n) {
        word *w = &t->words[n];
        if (!has_pair(t, w, left, right)) continue;
        HD_TRY(count_pairs(t, w, -1));
        int32_t *tokens = t->pool + w->begin;
        uint32_t to = 0;
        for (uint32_t i = 0; i < w->length; ++i, ++to) {
            const bool joins = i + 1 < w->length && tokens[i] == left && tokens[i + 1] == right;
            tokens[to] = joins ? joined : tokens[i];
            i += joins;
        }
        w->length = to;
        HD_TRY(count_pairs(t, w, 1));
    }
    return HD_OK;
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */
static hd_error learn(training *t, hd_tokenizer *out, const char *text, size_t bytes, int64_t size) {
    for (size_t length; bytes > 0; text += length, bytes -= length)
        HD_TRY(note_word(t, text, length = hd_word_length(text, bytes)));
    for (size_t i = 0; i < t->word_count; ++i) HD_TRY(count_pairs(t, &t->words[i], 1));
    while (HD_BYTE_TOKENS + out->pairs < size) {
        const pair_count best = best_pair(t);
        if (best.count < 2) return HD_OK;
        const int32_t left = (int32_t)((best.key - 1) >> 32), right = (int32_t)(uint32_t)(best.key - 1);
        HD_TRY(hd_tokenizer_add(out, left, right));
        HD_TRY(join_everywhere(t, left, right, HD_BYTE_TOKENS + out->pairs - 1));
    }
    return HD_OK;
}

hd_tokenizer *hd_bpe_train(const char *text, size_t bytes, int64_t size) {
    HD_ENTER("hd_bpe_train", NULL);
    if (text == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`text` is NULL");
        return NULL;
    }
    if (size < HD_BYTE_TOKENS || size > HD_BYTE_TOKENS + HD_PAIRS_MOST) {
        hd_fail(HD_ERROR_VALUE, "%lld tokens; there are %d bytes, and at most %d pairs", (long long)size,
                (int)HD_BYTE_TOKENS, (int)HD_PAIRS_MOST);
        return NULL;
    }
    hd_tokenizer *tokenizer = hd_tokenizer_new(thread);
    if (tokenizer == NULL) return NULL;
    training t = {.pool = NULL};
    const hd_error status = learn(&t, tokenizer, text, bytes, size);
    hd_array_release(t.pool);
    hd_array_release(t.words);
    hd_array_release(t.word_slots);
    hd_array_release(t.pairs);
    if (status == HD_OK) return hd_data_give(thread, tokenizer);
    hd_data_drop(thread, tokenizer);
    return NULL;
}
