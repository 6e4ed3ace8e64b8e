/* What all micro programs need and none of them teaches: flags, a list of names, random numbers, the closing line.
 * Everything about models and gradients is in the programs themselves and in <hodu/value.h>. */
#ifndef HODU_MICRO_H
#define HODU_MICRO_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hodu/value.h>

/* What --data is, and what --steps counts; a program that reads or counts something else says so before it includes
 * this. */
#ifndef MICRO_DATA_HELP
#define MICRO_DATA_HELP "names, one a line, letters a-z (default: the list that comes with the programs)"
#endif
#ifndef MICRO_STEPS_HELP
#define MICRO_STEPS_HELP "training steps of the first phase, 1 or more (default %d); later phases shrink or grow alike"
#endif

/* Exit status: 0 the criterion is reached, 1 it is not, 2 the program could not do its work. */
static inline void micro_fail(const char *what, const char *about) {
    fprintf(stderr, "error: %s%s%s\n", what, about ? ": " : "", about ? about : "");
    exit(2);
}

/* ---- Random numbers: the same on every machine for a seed (splitmix64) ------------------------------------------- */

static uint64_t micro_state;

static inline uint64_t micro_bits(void) {
    uint64_t z = micro_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double micro_uniform(void) { return (double)(micro_bits() >> 11) * 0x1p-53; }

/* In 0 .. n-1. */
static inline int micro_below(int n) { return (int)(micro_uniform() * n); }

/* Box and Muller: two uniform numbers give the radius and the angle of a point with normal coordinates. */
static inline double micro_normal(void) {
    const double radius = sqrt(-2.0 * log(1.0 - micro_uniform()));
    const double angle = 6.283185307179586 * micro_uniform();
    return radius * cos(angle);
}

/* Draws an index in proportion to the weights, which need not sum to 1. */
static inline int micro_draw(int n, const double *weight) {
    double total = 0.0;
    for (int i = 0; i < n; ++i) total += weight[i];
    double left = micro_uniform() * total;
    int last = 0; /* where rounding leaves something over: the last index that can be drawn at all */
    for (int i = 0; i < n; ++i) {
        if (!(weight[i] > 0.0)) continue;
        last = i;
        left -= weight[i];
        if (left < 0.0) break;
    }
    return last;
}

/* n parameters from N(0, deviation^2). */
static inline void micro_init(int n, hd_value *w, double deviation) {
    for (int i = 0; i < n; ++i) w[i] = hd_value_param(deviation * micro_normal());
}

/* ---- Flags ------------------------------------------------------------------------------------------------------- */

typedef struct micro_options {
    const char *program;
    int steps; /* of the first phase */
    int default_steps;
    const char *data; /* NULL: the list that comes with the programs */
    double start;
} micro_options;

static inline double micro_now(void) {
    struct timespec t;
    (void)timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void micro_usage(FILE *to, const micro_options *o) {
    fprintf(to,
            "usage: %s [--steps N] [--seed S] [--data FILE]\n"
            "  --steps N    " MICRO_STEPS_HELP "\n"
            "  --seed S     seed of all random numbers, 0 or more (default 42)\n"
            "  --data FILE  " MICRO_DATA_HELP "\n"
            "exit status: 0 quality reached, 1 not reached, 2 bad flags or data\n",
            o->program, o->default_steps);
}

static inline uint64_t micro_number(const micro_options *o, const char *flag, const char *text, uint64_t least,
                                    uint64_t most) {
    char *end = NULL;
    errno = 0;
    const unsigned long long n = text ? strtoull(text, &end, 10) : 0;
    if (!text || !isdigit((unsigned char)text[0]) || *end || errno || n < least || n > most) {
        fprintf(stderr, "error: %s %s: expected a whole number from %llu to %llu\n", flag, text ? text : "(nothing)",
                (unsigned long long)least, (unsigned long long)most);
        micro_usage(stderr, o);
        exit(2);
    }
    return n;
}

/* Reads the flags and seeds the random numbers. */
static inline micro_options micro_begin(int argc, char **argv, const char *program, int default_steps) {
    micro_options o = {program, default_steps, default_steps, NULL, micro_now()};
    micro_state = 42;
    for (int i = 1; i < argc; i += 2) {
        const char *flag = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(flag, "--help") || !strcmp(flag, "-h")) {
            micro_usage(stdout, &o);
            exit(0);
        } else if (!strcmp(flag, "--steps")) {
            o.steps = (int)micro_number(&o, flag, value, 1, 10000000);
        } else if (!strcmp(flag, "--seed")) {
            micro_state = micro_number(&o, flag, value, 0, UINT64_MAX);
        } else if (!strcmp(flag, "--data")) {
            if (!value) micro_fail("--data needs a file", NULL);
            o.data = value;
        } else {
            fprintf(stderr, "error: unknown flag %s\n", flag);
            micro_usage(stderr, &o);
            exit(2);
        }
    }
    return o;
}

/* Steps of a later phase: as many as planned when --steps is not given, in proportion otherwise. */
static inline int micro_phase(const micro_options *o, int planned) {
    const int n = (int)((int64_t)planned * o->steps / o->default_steps);
    return n < 1 ? 1 : n;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

enum { MICRO_LETTERS = 26, MICRO_VOCABULARY = 27, MICRO_BOS = 26, MICRO_NAME_MAX = 31 };

/* Token 0..25 is a letter; 26 both opens and ends a name. */
typedef struct micro_names {
    int count;
    char (*name)[MICRO_NAME_MAX + 1];
} micro_names;

static inline int micro_token(char letter) { return letter - 'a'; }
static inline char micro_letter(int token) { return (char)('a' + token); }

/* Position i of BOS a b c BOS; the models read positions 0..length and predict 1..length+1. */
static inline int micro_token_at(const char *name, int i) {
    return i == 0 || name[i - 1] == '\0' ? MICRO_BOS : micro_token(name[i - 1]);
}

/* How many positions of a name there are to learn from: its letters and its end, as far as they fit into the block. */
static inline int micro_positions(const char *name, int block) {
    const size_t length = strlen(name);
    return length < (size_t)block ? (int)length + 1 : block;
}

static inline int micro_min(int a, int b) { return a < b ? a : b; }

static inline void micro_names_add(micro_names *names, const char *name) {
    if ((names->count & (names->count - 1)) == 0) { /* a power of two: full */
        const size_t room = names->count ? 2 * (size_t)names->count : 1;
        void *bigger = realloc(names->name, room * sizeof *names->name);
        if (!bigger) micro_fail("no memory for the names", NULL);
        names->name = (char(*)[MICRO_NAME_MAX + 1]) bigger;
    }
    memset(names->name[names->count], 0, sizeof *names->name);
    memcpy(names->name[names->count++], name, strlen(name));
}

/* Names nobody bears: syllables of onset, vowel and coda with uneven frequencies and an ending, drawn from a fixed
 * seed. names.txt is this list written out. */
static inline micro_names micro_names_invent(void) {
    static const char *const onset[] = {"b",  "c",  "d",  "f",  "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",
                                        "qu", "r",  "s",  "t",  "v",  "w",  "x",  "y",  "z",  "br", "ch", "cl",
                                        "dr", "fr", "gr", "kr", "ph", "sh", "st", "th", "tr", "",   "",   ""};
    static const double onset_weight[] = {6, 5, 7, 3, 4, 4, 6, 7, 9, 9, 8, 3, 1, 8, 7, 6, 4, 2,
                                          1, 2, 3, 2, 3, 1, 1, 1, 1, 1, 1, 3, 2, 3, 2, 5, 5, 5};
    static const char *const vowel[] = {"a", "e", "i", "o", "u", "y", "ai", "ei", "ia", "ee"};
    static const double vowel_weight[] = {14, 11, 9, 6, 4, 1, 2, 1, 2, 1};
    static const char *const coda[] = {"", "n", "l", "r", "s", "m", "t", "nd", "ll", "nn", "rt", "ck"};
    static const double coda_weight[] = {24, 7, 6, 6, 3, 2, 1, 1, 1, 1, 1, 1};
    static const char *const ending[] = {"",    "a",   "n",  "na", "ne", "lia", "ra",
                                         "son", "ton", "us", "el", "y",  "ie",  "rin"};
    static const double ending_weight[] = {8, 9, 6, 6, 3, 3, 3, 1, 1, 2, 3, 3, 2, 1};
    static const double more_syllables[] = {0, 10, 20, 4};
    const uint64_t keep = micro_state;
    micro_names names = {0, NULL};
    micro_state = 1;
    while (names.count < 2000) {
        char name[64] = "";
        for (int left = micro_draw(4, more_syllables); left > 0; --left) {
            strcat(name, onset[micro_draw(36, onset_weight)]);
            strcat(name, vowel[micro_draw(10, vowel_weight)]);
            strcat(name, coda[micro_draw(12, coda_weight)]);
        }
        strcat(name, ending[micro_draw(14, ending_weight)]);
        const size_t length = strlen(name);
        bool wanted = length >= 3 && length <= 11;
        for (int i = 0; wanted && i < names.count; ++i) wanted = strcmp(names.name[i], name) != 0;
        if (wanted) micro_names_add(&names, name);
    }
    micro_state = keep;
    return names;
}

static inline micro_names micro_names_read(FILE *file, const char *path) {
    micro_names names = {0, NULL};
    char name[MICRO_NAME_MAX + 1], where[320];
    int length = 0, line = 1;
    for (;;) {
        const int c = fgetc(file);
        (void)snprintf(where, sizeof where, "%.256s, line %d", path, line);
        if (c == '\n' || c == EOF) {
            name[length] = '\0';
            if (length) micro_names_add(&names, name);
            length = 0;
            ++line;
            if (c == EOF) break;
        } else if (isalpha(c) && c < 128) {
            if (length == MICRO_NAME_MAX) micro_fail("a name has more than 31 letters", where);
            name[length++] = (char)tolower(c);
        } else if (c != '\r') {
            micro_fail("only letters a-z can stand in a name", where);
        }
    }
    if (ferror(file)) micro_fail("cannot read", path);
    if (!names.count) micro_fail("no names in the file", path);
    return names;
}

/* The names of --data, or of the file that comes with the sources, or the same list invented anew; shuffled. */
static inline micro_names micro_names_load(const micro_options *o) {
    const char *path = o->data;
#ifdef MICRO_NAMES
    if (!path) path = MICRO_NAMES;
#endif
    FILE *file = path ? fopen(path, "r") : NULL;
    if (o->data && !file) {
        fprintf(stderr, "error: --data %s: %s\n", o->data, strerror(errno));
        exit(2);
    }
    micro_names names = file ? micro_names_read(file, path) : micro_names_invent();
    if (file) fclose(file);
    for (int i = names.count - 1; i > 0; --i) {
        char swap[MICRO_NAME_MAX + 1];
        const int j = micro_below(i + 1);
        memcpy(swap, names.name[i], sizeof swap);
        memcpy(names.name[i], names.name[j], sizeof swap);
        memcpy(names.name[j], swap, sizeof swap);
    }
    return names;
}

/* ---- The closing line -------------------------------------------------------------------------------------------- */

/* Prints what `make micro` collects, gives memory back, and returns the exit status. */
static inline int micro_end(const micro_options *o, micro_names *names, double loss, const char *criterion,
                            bool reached) {
    if (!hd_value_ok()) micro_fail(hd_value_error(), NULL);
    printf("\nresult | %s | %.2f s | %.1f M nodes | loss %.4f | %s | %s\n", o->program, micro_now() - o->start,
           (double)hd_value_total_nodes() * 1e-6, loss, criterion, reached ? "reached" : "NOT REACHED");
    hd_value_free();
    if (names) free(names->name);
    return reached ? 0 : 1;
}

#endif
