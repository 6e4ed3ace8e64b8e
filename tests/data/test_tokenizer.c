/* Tokenizers: bytes, pairs that are learnt, files. */
#include "each_allocation.h"
#include "data/tokenizer.h"
#include "support_data.h"

#include <signal.h>
#include <sys/resource.h>

static hd_tokenizer *train(const char *text, int64_t size) { return hd_bpe_train(text, strlen(text), size); }
static hd_tensor *encode(hd_tokenizer *t, const char *text) { return hd_tokenizer_encode(t, text, strlen(text)); }

/* What is encoded and decoded is what it was. */
static void comes_back(hd_tokenizer *t, const char *text, size_t bytes) {
    HD_SCOPE;
    char *out = malloc(bytes + 1);
    assert_non_null(out);
    assert_int_equal(hd_tokenizer_decode(t, hd_tokenizer_encode(t, text, bytes), out, bytes + 1), bytes);
    assert_ok();
    assert_memory_equal(out, text, bytes);
    assert_int_equal(out[bytes], 0);
    free(out);
}

static void bytes_are_tokens(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tokenizer *t = hd_byte_tokenizer();
    assert_int_equal(hd_tokenizer_size(t), 256);
    assert_values(encode(t, "Az \xff"), HD_I64, 'A', 'z', ' ', 255);
    assert_int_equal(hd_tensor_count(hd_tokenizer_encode(t, NULL, 0)), 0);
    comes_back(t, "one\0two\n\xc3\xa9", 11);
}

static void the_most_frequent_pair_is_joined_first(void **state) {
    (void)state;
    HD_SCOPE;
    /* " ab" 4 times, " abc" 3 times, " bc" 2 times, each a word: ab 7, " a" 7, bc 5, " b" 2 */
    const char *text = " ab ab ab ab abc abc abc bc bc";
    hd_tokenizer *t = train(text, 259);
    assert_int_equal(hd_tokenizer_size(t), 259);
    assert_int_equal(t->pair[0].left, ' '); /* of " a" and "ab" that of the smaller numbers */
    assert_int_equal(t->pair[0].right, 'a');
    assert_int_equal(t->pair[1].left, 256);
    assert_int_equal(t->pair[1].right, 'b'); /* " ab" 7 */
    assert_int_equal(t->pair[2].left, 257);
    assert_int_equal(t->pair[2].right, 'c'); /* " abc" 3 */
    assert_values(encode(t, " abc ab bc"), HD_I64, 258, 257, ' ', 'b', 'c');
    assert_int_equal(hd_tokenizer_size(train(text, 100000)), 261); /* then "bc" and " bc" 2; and none occurs twice */
    assert_int_equal(hd_tokenizer_size(train("", 300)), 256);
    assert_int_equal(hd_tokenizer_size(train("abcdefg", 300)), 256);
}

static void pairs_do_not_reach_across_words(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tokenizer *t = train("a+ a+ a+ a+ a+ a+", 300);
    assert_int_equal(hd_tokenizer_size(t), 257); /* " a" alone */
    const char text[] = "word word2, (x)  y\n\n z";
    static const size_t expected[] = {4, 6, 1, 2, 1, 1, 1, 2, 2, 2};
    size_t at = 0;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
        const size_t length = hd_word_length(text + at, sizeof text - 1 - at);
        if (length != expected[i]) fail_msg("word %zu has %zu bytes, expected %zu", i, length, expected[i]);
        at += length;
    }
    assert_int_equal(at, sizeof text - 1);
    static char many[1000];
    memset(many, 'x', sizeof many);
    assert_int_equal(hd_word_length(many, sizeof many), 256);
    comes_back(hd_bpe_train(many, sizeof many, 300), many, sizeof many);
}

/* Text of a little language, so that there is something to learn. */
static size_t babble(char *out, size_t room, unsigned seed) {
    static const char *const words[] = {"the ",    "there ", "then ",  "\xc3\xa9t\xc3\xa9 ",
                                        "other, ", "12 ",    "1234\n", "  "};
    size_t at = 0;
    while (at + 16 < room) {
        seed = seed * 1103515245u + 12345u;
        at += (size_t)snprintf(out + at, room - at, "%s", words[seed >> 16 & 7]);
    }
    return at;
}

static void learning_is_the_same_every_time_and_shortens_text(void **state) {
    (void)state;
    HD_SCOPE;
    static char text[20000], other[5000];
    const size_t bytes = babble(text, sizeof text, 1), others = babble(other, sizeof other, 2);
    hd_tokenizer *a = hd_bpe_train(text, bytes, 290), *b = hd_bpe_train(text, bytes, 290);
    assert_int_equal(hd_tokenizer_size(a), hd_tokenizer_size(b));
    assert_memory_equal(a->pair, b->pair, (size_t)a->pairs * sizeof *a->pair);
    comes_back(a, text, bytes);
    comes_back(a, other, others);
    assert_true(hd_tensor_count(hd_tokenizer_encode(a, other, others)) * 3 < (int64_t)others);
}

static void decoding_tells_how_much_room_it_needs(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tokenizer *t = train(" abc abc abc", 300);
    hd_tensor *tokens = hd_cast(encode(t, " abc abc"), HD_U16);
    char out[5];
    assert_int_equal(hd_tensor_count(tokens), 2);
    assert_int_equal(hd_tokenizer_decode(t, tokens, NULL, 0), 8);
    assert_int_equal(hd_tokenizer_decode(t, tokens, out, sizeof out), 8);
    assert_string_equal(out, " abc");
    assert_int_equal(hd_tokenizer_decode(t, hd_zeros(HD_SHAPE(0), HD_I64), out, sizeof out), 0);
    assert_string_equal(out, "");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static void a_file_has_the_same_tokenizer(void **state) {
    (void)state;
    HD_SCOPE;
    static char text[4000];
    const size_t bytes = babble(text, sizeof text, 3);
    hd_tokenizer *t = hd_bpe_train(text, bytes, 270);
    const char *path = fresh_path("tokenizer");
    hd_tokenizer_save(t, path);
    hd_tokenizer *again = hd_tokenizer_load(path);
    assert_int_equal(hd_tokenizer_size(again), 270);
    assert_same(hd_tokenizer_encode(again, text, bytes), hd_tokenizer_encode(t, text, bytes));
    hd_tokenizer_save(hd_byte_tokenizer(), path); /* shorter than what was there */
    assert_int_equal(hd_tokenizer_size(hd_tokenizer_load(path)), 256);
}

/* On a disk that is full, say: no byte is written over the old file before the new one is there. */
static void what_cannot_be_written_leaves_the_old_file(void **state) {
    (void)state;
    HD_SCOPE;
    static char text[4000];
    const char *path = fresh_path("tokenizer");
    hd_tokenizer *t = hd_bpe_train(text, babble(text, sizeof text, 3), 400);
    hd_tokenizer_save(hd_bpe_train(text, babble(text, sizeof text, 3), 260), path);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){200, before.rlim_max});
    hd_tokenizer_save(t, path);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_error(HD_ERROR_STATE, "tokenizer\" cannot be written: File too large");
    assert_int_equal(hd_tokenizer_size(hd_tokenizer_load(path)), 260);
    hd_tokenizer_save(t, "/dev/null"); /* what is no file of its own is written to, and stays */
    assert_ok();
}

static void refuses(const char *text, const char *message) {
    assert_null(hd_tokenizer_parse(text, strlen(text)));
    assert_error(HD_ERROR_VALUE, message);
}
static void what_is_no_tokenizer_is_named_with_its_line(void **state) {
    (void)state;
    HD_SCOPE;
#define HEAD "hodu tokenizer 1\n"
    assert_int_equal(hd_tokenizer_size(hd_tokenizer_parse(HEAD "pairs 1\n97 98\nend\n", 35)), 257);
    refuses("", "hd_tokenizer_parse: line 1 of the tokenizer: \"hodu tokenizer 1\" is expected");
    refuses("hodu tokenizer 2\n", "line 1 of the tokenizer");
    refuses(HEAD "pair 1\n", "line 2 of the tokenizer: \"pairs \" is expected");
    refuses(HEAD "pairs 01\n97 98\nend\n", "line 2 of the tokenizer: a number and the end of the line is expected");
    refuses(HEAD "pairs -1\nend\n", "line 2 of the tokenizer: a number");
    refuses(HEAD "pairs 99999999999999999999\nend\n", "line 2 of the tokenizer: ");
    refuses(HEAD "pairs 16777217\nend\n", "line 2 of the tokenizer: 16777217; it must be below 16777217");
    refuses(HEAD "pairs 1\n97  98\nend\n", "line 3 of the tokenizer: a number and the end of the line is expected");
    refuses(HEAD "pairs 1\n97,98\nend\n", "line 3 of the tokenizer: a number and a space is expected");
    refuses(HEAD "pairs 1\n97 256\nend\n", "line 3 of the tokenizer: 256; it must be below 256");
    refuses(HEAD "pairs 2\n97 98\n97 98\nend\n", "line 4 of the tokenizer: the pair 97 98 is there twice");
    refuses(HEAD "pairs 2\n97 98\nend\n", "line 4 of the tokenizer: a number");
    refuses(HEAD "pairs 1\n97 98\n1 2\nend\n", "line 4 of the tokenizer: \"end\" is expected");
    refuses(HEAD "pairs 0\nend", "line 3 of the tokenizer: \"end\" is expected");
    refuses(HEAD "pairs 0\nend\n\n", "line 4 of the tokenizer: something follows its end");
    refuses(HEAD "pairs 9\n0 0\n256 256\n257 257\n258 258\n259 259\n260 260\n261 261\n262 262\n263 263\nend\n",
            "line 11 of the tokenizer: the token would have more than 256 bytes");
    const char *path = written("nothing", 7, "tokenizer");
    hd_tokenizer_load(path);
    assert_non_null(strstr(hd_error_message(), path));
    assert_error(HD_ERROR_VALUE, "hd_tokenizer_load: line 1");
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tokenizer *t = hd_byte_tokenizer();
    char out[4];
    hd_bpe_train(NULL, 0, 300);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_bpe_train");
    hd_bpe_train("a", 1, 255);
    assert_error(HD_ERROR_VALUE, "hd_bpe_train: 255 tokens");
    hd_tokenizer_size(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_size");
    hd_tokenizer_encode(NULL, "a", 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_encode: `tokenizer`");
    hd_tokenizer_encode(t, NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_encode: `text`");
    assert_int_equal(hd_tokenizer_decode(t, HD_TENSOR_I64(HD_SHAPE(2), 1, 256), out, 4), -1);
    assert_error(HD_ERROR_INDEX, "hd_tokenizer_decode: token 1 is 256; the tokenizer has 256");
    hd_tokenizer_decode(t, HD_TENSOR_I64(HD_SHAPE(1), -1), out, 4);
    assert_error(HD_ERROR_INDEX, "token 0 is -1");
    hd_tokenizer_decode(t, HD_TENSOR_F32(HD_SHAPE(1), 1), out, 4);
    assert_error(HD_ERROR_DTYPE, "`tokens` is [1] of f32");
    hd_tokenizer_decode(t, HD_TENSOR_I64(HD_SHAPE(1), 1), NULL, 4);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`out`");
    hd_tokenizer_save(NULL, "x");
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_save: `tokenizer`");
    hd_tokenizer_save(t, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_save: `path`");
    hd_tokenizer_save(t, "/nowhere/at all");
    assert_error(HD_ERROR_STATE, "\"/nowhere/at all\" cannot be written");
    hd_tokenizer_load(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_load: `path`");
    hd_tokenizer_parse(NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tokenizer_parse: `text`");
}

static const char *path_of_pairs;
static void everything(void) {
    char out[16];
    hd_tokenizer_save(train(" abc abc ab", 258), path_of_pairs);
    hd_tokenizer *t = hd_tokenizer_load(path_of_pairs);
    hd_tokenizer_decode(t, encode(t, " abcd"), out, sizeof out);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    path_of_pairs = fresh_path("tokenizer");
    each_allocation_fails(everything, 500);
}

RUN(test(bytes_are_tokens), test(the_most_frequent_pair_is_joined_first), test(pairs_do_not_reach_across_words),
    test(learning_is_the_same_every_time_and_shortens_text), test(decoding_tells_how_much_room_it_needs),
    test(a_file_has_the_same_tokenizer), test(what_cannot_be_written_leaves_the_old_file),
    test(what_is_no_tokenizer_is_named_with_its_line), test(wrong_arguments_are_named), test(each_allocation_may_fail))
