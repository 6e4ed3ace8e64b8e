/* Tokenizers: bytes, and pairs of tokens that are one token. */
#ifndef HD_DATA_TOKENIZER_H
#define HD_DATA_TOKENIZER_H

#include "data/object.h"

#include <hodu/data.h>

enum {
    HD_BYTE_TOKENS = 256,
    HD_WORD_MOST = 256, /* bytes: so that no text makes encoding slow, and no file makes tokens long */
    HD_PAIRS_MOST = 1 << 24
};

/* Token 256 + i is pair i. The earlier a pair was learnt, the sooner it is joined. */
typedef struct hd_token_pair {
    int32_t left, right;
} hd_token_pair;

struct hd_tokenizer {
    hd_object object;
    int32_t pairs, capacity;
    hd_token_pair *pair;
    uint16_t *lengths; /* of each pair's bytes */
    int32_t *slots;    /* a hash table of pairs: number + 1; 0: empty */
    uint32_t slot_count;
};

/* Bytes alone, the caller's; NULL with an error. */
hd_tokenizer *hd_tokenizer_new(hd_thread *thread);
/* The number of a pair; -1: it is none. */
int32_t hd_tokenizer_find(const hd_tokenizer *t, int32_t left, int32_t right);
hd_error hd_tokenizer_add(hd_tokenizer *t, int32_t left, int32_t right);
static inline int hd_token_length(const hd_tokenizer *t, int32_t token) {
    return token < HD_BYTE_TOKENS ? 1 : t->lengths[token - HD_BYTE_TOKENS];
}
/* How many bytes the first word of a text has: a run of letters, digits and bytes beyond ASCII, or of other signs,
 * with a space before it, or of blanks, the last of which belongs to what follows. At least one. */
size_t hd_word_length(const char *text, size_t bytes);

#endif
