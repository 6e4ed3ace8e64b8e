/* A language model of hodu's own guides: a transformer reads them, and then writes on in their manner.
 *
 * The text becomes tokens of a few letters by byte pair encoding. Blocks of causal attention, with places told by
 * rotation, learn to predict the next token: a step of the training, which draws its own pieces of the text, is one
 * script without inputs. Another script writes: it takes one token at a time, keeps keys and values of those before in
 * caches that are its state, and draws the next token from the k most probable ones.
 *
 * By itself it trains a small model for a moment, enough for words; --full trains a larger one for some minutes.
 * --data FILE learns from another text. */
#define _POSIX_C_SOURCE 200809L
#include <hodu/hodu.h>

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HODU_EXAMPLE_DATA
#define HODU_EXAMPLE_DATA "examples/data"
#endif

enum { TOKENS = 512, MOST_LAYERS = 8, LARGEST_TEXT = 1 << 22, BEST = 20 };

typedef struct plan {
    int64_t width, heads, layers, places; /* places: tokens that it sees at once */
    int64_t batch, steps;
    double rate, dropout;
    double goal; /* the loss on text that it does not learn from: nats a token, log(512) = 6.24 by guessing */
} plan;
static const plan quick = {64, 4, 2, 64, 8, 120, 4e-3, 0, 5}, full = {128, 4, 4, 128, 16, 900, 2e-3, 0.25, 3};

/* ---- the text ---------------------------------------------------------------------------------------------------- */
/* Adds a file to the text; its new length, 0 after saying what is wrong. */
static size_t add_file(const char *path, char *text, size_t length) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return fprintf(stderr, "chargpt: %s: %s\n", path, strerror(errno)), 0;
    length += fread(text + length, 1, LARGEST_TEXT - length, file);
    const bool whole = feof(file) && !ferror(file);
    fclose(file);
    return whole ? length : (fprintf(stderr, "chargpt: %s: it cannot be read, or is too long\n", path), 0);
}

static size_t add_guides(char *text) {
    glob_t found;
    size_t length = 0;
    if (glob(HODU_EXAMPLE_DATA "/../../docs/guide/*.md", 0, NULL, &found) != 0)
        return fprintf(stderr, "chargpt: there are no guides; use --data FILE\n"), 0;
    for (size_t i = 0; i < found.gl_pathc && (i == 0 || length > 0); ++i)
        length = add_file(found.gl_pathv[i], text, length);
    globfree(&found);
    return length;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */
typedef struct block {
    hd_module *norm, *attention, *mlp;
} block;

typedef struct model {
    hd_module *embedding, *head;
    block blocks[MOST_LAYERS];
    hd_module *all; /* tokens [n,t] -> logits [n,t,TOKENS] */
} model;

/* x [n,t,width] -> [n,t,width]; keeps the parts in *b, for block_step. */
static hd_module *block_new(const plan *p, block *b) {
    b->norm = hd_rms_norm_layer(p->width, NULL);
    b->attention = hd_multihead_attention(
        p->width, p->heads,
        HD_OPTS(hd_multihead_attention_opts, .causal = true, .rotary = true, .dropout = p->dropout));
    b->mlp = hd_residual(HD_SEQUENTIAL(hd_rms_norm_layer(p->width, NULL), hd_linear(p->width, 4 * p->width, NULL),
                                       hd_gelu_layer(), hd_linear(4 * p->width, p->width, NULL),
                                       hd_dropout_layer(p->dropout)));
    return HD_SEQUENTIAL(hd_residual(HD_SEQUENTIAL(b->norm, b->attention)), b->mlp);
}

/* The same for x [1,1,width], the place behind those in the caches. */
static hd_tensor *block_step(const block *b, hd_tensor *x, hd_tensor *const caches[2], hd_tensor *position) {
    hd_tensor *normed = hd_forward(b->norm, x);
    x = hd_add(x, hd_multihead_attention_step(b->attention, normed, caches[0], caches[1], position));
    return hd_forward(b->mlp, x);
}

static model model_new(const plan *p) {
    model m = {.embedding = hd_embedding_layer(TOKENS, p->width, NULL)};
    hd_module *parts[MOST_LAYERS + 2] = {m.embedding};
    for (int64_t i = 0; i < p->layers; ++i) parts[1 + i] = block_new(p, &m.blocks[i]);
    m.head = HD_SEQUENTIAL(hd_rms_norm_layer(p->width, NULL), hd_linear(p->width, TOKENS, NULL));
    parts[1 + p->layers] = m.head;
    m.all = hd_sequential(parts, p->layers + 2);
    return m;
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */
/* The mean loss of predicting each token of pieces [n,t+1] but the first. */
static hd_tensor *loss_of(const model *m, hd_tensor *pieces) {
    const int64_t t = hd_tensor_size(pieces, 1) - 1;
    return hd_cross_entropy(hd_forward(m->all, hd_narrow(pieces, 1, 0, t)), hd_narrow(pieces, 1, 1, t), NULL);
}

/* [batch,places+1] of tokens [n], from anywhere. */
static hd_tensor *draw_pieces(const plan *p, hd_tensor *tokens) {
    hd_tensor *starts = hd_randint(HD_SHAPE(p->batch, 1), HD_I64, 0, hd_tensor_count(tokens) - p->places);
    hd_tensor *places = hd_add(starts, hd_arange(0, (double)p->places + 1, 1, HD_I64));
    return hd_take(tokens, places);
}

/* A script that takes one step at each run. */
static hd_script *record_training(const plan *p, const model *m, hd_tensor *tokens) {
    HD_SCOPE;
    hd_tensors *parameters = hd_module_parameters(m->all);
    hd_optimizer *adam = hd_adamw(parameters, p->rate, HD_OPTS(hd_adam_opts, .beta2 = 0.99, .weight_decay = 0.1));
    hd_schedule *cosine = hd_schedule_cosine(adam, p->steps - p->steps / 20, p->rate / 20);
    hd_schedule *rates = hd_schedule_warm_up(p->steps / 20, 0.05, cosine);
    hd_builder *b = hd_builder_new("train");
    hd_builder_start(b);
    hd_builder_add_state_of(b, m->all, adam);
    hd_builder_add_state_of_schedule(b, rates);
    hd_tensor *loss = loss_of(m, draw_pieces(p, tokens));
    hd_backward(loss);
    hd_clip_grad_norm(parameters, 1, NULL);
    hd_optimizer_step(adam);
    hd_schedule_step(rates);
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    return hd_keep(hd_builder_build(b));
}

static void train(const plan *p, hd_script *step) {
    hd_progress *progress = hd_progress_new(p->steps, NULL);
    double smooth = 0;
    for (int64_t i = 0; i < p->steps && hd_ok(); ++i) {
        HD_SCOPE;
        const double loss = hd_item(hd_outputs_get(hd_script_run(step), "loss"));
        smooth = i == 0 ? loss : 0.95 * smooth + 0.05 * loss;
        hd_progress_note(progress, "loss", smooth);
        hd_progress_step(progress);
    }
    hd_progress_end(progress);
}

/* The loss on all of a text, piece by piece. */
static double evaluate(const plan *p, const model *m, hd_tensor *tokens) {
    HD_SCOPE;
    HD_NO_GRAD;
    const int64_t pieces = (hd_tensor_count(tokens) - 1) / p->places;
    double sum = 0;
    hd_module_eval(m->all);
    for (int64_t i = 0; i < pieces && hd_ok(); ++i) {
        HD_SCOPE;
        sum += hd_item(loss_of(m, hd_unsqueeze(hd_narrow(tokens, 0, i * p->places, p->places + 1), 0)));
    }
    hd_module_train(m->all);
    return sum / (double)pieces;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
/* Zeros for keys and values of all places: the state of a script that writes. */
static void caches_new(const plan *p, hd_tensor *caches[][2]) {
    const hd_shape shape = HD_SHAPE(1, p->heads, p->places, p->width / p->heads);
    for (int64_t i = 0; i < p->layers; ++i)
        for (int k = 0; k < 2; ++k) caches[i][k] = hd_zeros(shape, HD_F32);
}

static void add_caches(hd_builder *b, const plan *p, hd_tensor *caches[][2]) {
    char name[32];
    for (int64_t i = 0; i < p->layers; ++i)
        for (int k = 0; k < 2; ++k) {
            snprintf(name, sizeof name, "%s.%d", k == 0 ? "keys" : "values", (int)i);
            hd_builder_add_state(b, name, caches[i][k]);
        }
}

/* A script that takes a token [1] and gives the next one [1], drawn from the most probable, and the logits of all. It
 * remembers the tokens before. */
static hd_script *record_writing(const plan *p, const model *m, double temperature) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *position = hd_zeros(HD_SHAPE(), HD_I64), *one = hd_ones(HD_SHAPE(), HD_I64), *caches[MOST_LAYERS][2];
    caches_new(p, caches);
    hd_builder *b = hd_builder_new("write");
    hd_builder_start(b);
    hd_builder_add_state(b, "position", position);
    add_caches(b, p, caches);
    hd_tensor *token = hd_input("token", HD_SHAPE(1), HD_I64);
    hd_tensor *x = hd_forward(m->embedding, hd_reshape(token, HD_SHAPE(1, 1)));
    for (int64_t i = 0; i < p->layers; ++i) x = block_step(&m->blocks[i], x, caches[i], position);
    hd_add_(position, one);
    hd_tensor *logits = hd_reshape(hd_forward(m->head, x), HD_SHAPE(TOKENS));
    const hd_pair best = hd_topk(logits, BEST, 0, true);
    hd_tensor *drawn = hd_multinomial(hd_softmax(hd_div_scalar(best.values, temperature), 0), 1, true);
    hd_builder_add_output(b, "logits", logits);
    hd_builder_add_output(b, "next", hd_index_select(best.indices, 0, drawn));
    hd_builder_end(b);
    return hd_keep(hd_builder_build(b));
}

/* Writes on from a prompt until all places are full. The logits of the last one are compared with the model's for the
 * whole text at once, without caches: false when they differ. */
static bool write_on(const plan *p, const model *m, hd_tokenizer *tokenizer, const char *prompt) {
    HD_SCOPE;
    HD_NO_GRAD;
    static char written[1 << 14];
    hd_module_eval(m->all);
    hd_script *script = record_writing(p, m, 0.7);
    hd_tensor *given = hd_tokenizer_encode(tokenizer, prompt, strlen(prompt));
    hd_tensor *text = hd_zeros(HD_SHAPE(p->places), HD_I64);
    const int64_t known = hd_tensor_count(given);
    hd_assign(hd_narrow(text, 0, 0, known), given);
    for (int64_t i = 0; i < p->places && hd_ok(); ++i) {
        HD_SCOPE;
        hd_script_set_input(script, "token", hd_narrow(text, 0, i, 1));
        hd_tensor *next = hd_outputs_get(hd_script_run(script), "next");
        if (i + 1 >= known && i + 1 < p->places) hd_assign(hd_narrow(text, 0, i + 1, 1), next);
    }
    hd_tensor *at_once = hd_select(hd_forward(m->all, hd_unsqueeze(text, 0)), 1, -1); /* [1,TOKENS] */
    hd_tensor *apart = hd_abs(hd_sub(at_once, hd_script_output(script, "logits")));
    const double most = hd_item(hd_max(apart, HD_AXES(), NULL));
    hd_tokenizer_decode(tokenizer, text, written, sizeof written);
    if (!hd_ok()) return false;
    printf("---- a sample ----\n%s\n----\nwith caches its last logits differ by %.1g from those without\n", written,
           most);
    return most < 1e-3;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static bool learn(const plan *p, const char *text, size_t length) {
    HD_SCOPE;
    hd_seed(1);
    hd_tokenizer *tokenizer = hd_bpe_train(text, length, TOKENS);
    hd_tensor *tokens = hd_tokenizer_encode(tokenizer, text, length);
    const int64_t count = hd_tensor_count(tokens), tests = count / 12; /* the end is for the test: most of a guide */
    if (hd_ok() && (hd_tokenizer_size(tokenizer) < TOKENS || tests <= p->places))
        return fprintf(stderr, "chargpt: %zu bytes are too short a text\n", length), false;
    hd_tensor *known = hd_narrow(tokens, 0, 0, count - tests), *unknown = hd_narrow(tokens, 0, count - tests, tests);
    const model m = model_new(p);
    const double before = evaluate(p, &m, unknown);
    printf("%zu bytes are %lld tokens; the last %lld are for the test\n", length, (long long)count, (long long)tests);
    train(p, record_training(p, &m, known));
    const double after = evaluate(p, &m, unknown);
    if (!write_on(p, &m, tokenizer, "A script")) return false;
    printf("the loss on text it has not seen: %.3f before, %.3f after %lld steps\n", before, after,
           (long long)p->steps);
    return after < p->goal || (fprintf(stderr, "chargpt: that is not below %g\n", p->goal), false);
}

int main(int argc, char **argv) {
    const char *data = NULL;
    const plan *p = &quick;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--full") == 0)
            p = &full;
        else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            data = argv[++i];
        else
            return fprintf(stderr, "usage: %s [--full] [--data FILE]\n", argv[0]), 2;
    }
    char *text = malloc(LARGEST_TEXT);
    const size_t length = text == NULL ? 0 : data != NULL ? add_file(data, text, 0) : add_guides(text);
    const bool good = length > 0 && learn(p, text, length);
    free(text);
    return good ? hd_exit_status() : 1;
}
