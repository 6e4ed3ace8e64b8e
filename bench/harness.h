/* What every benchmark shares: choosing cases, timing, the table and the JSON. It knows nothing of any one case.
 *
 *     static void add_small(bench *b) {
 *         HD_SCOPE;
 *         hd_tensor *x = ..., *y = ...;                        // made once, not timed
 *         while (bench_round(b)) {
 *             BENCH(b, "hodu") { HD_SCOPE; hd_add(x, y); }     // timed
 *             BENCH(b, "loop") loop_add(...);                  // a baseline, if any: measured in turns with the first
 *         }
 *     }
 *
 * Each BENCH is a lane. Its body runs once unmeasured, then as often as a sample of BENCH_SAMPLE seconds needs; every
 * round takes one sample of every lane, so that what else the machine does hits all lanes alike. The figure of a lane
 * is the median of its samples. The lane "hodu" is what is measured, the others go under "peers". */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <fnmatch.h>
#include <math.h>
#include <hodu/hodu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_SAMPLE 2e-3 /* seconds: long against the clock, short against what else the machine may be doing */
#define BENCH_QUIET  5e-4 /* seconds of rest before a sample when lanes take turns: a thread pool may still spin */
enum { BENCH_LANES = 4, BENCH_SAMPLES = 512, BENCH_SAMPLES_LEAST = 7, BENCH_CHECKS = 8 };

typedef struct bench_lane {
    const char *name;
    int64_t repeat; /* runs of the body in one sample; 0 until it is known */
    bool warm;
    double spent; /* seconds measured so far */
    double sample[BENCH_SAMPLES];
    int samples;
} bench_lane;

typedef struct bench {
    const char *name; /* of the case */
    const char *unit;
    double seconds; /* to measure at least, in each lane */
    bench_lane lane[BENCH_LANES];
    int lanes;
    bool calibrated; /* a whole round was made to find the repeats */
    bench_lane *now;
    int64_t running; /* runs under way */
    double started;
    double check[BENCH_CHECKS]; /* a few numbers of the result, which the peers must get too */
    int checks;
} bench;

typedef struct bench_case {
    const char *name; /* "eager/add-2x3" */
    const char *unit; /* of time: "ns", "us", "ms"; else what bench_value gives */
    void (*run)(bench *b);
} bench_case;

#define BENCH(b, lane)                                                                                                 \
    for (int64_t left_ = bench_begin(b, lane); left_ > 0; left_ = left_ > 1 ? left_ - 1 : bench_end(b))

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline bench_lane *bench_find(bench *b, const char *name) {
    for (int i = 0; i < b->lanes; ++i)
        if (strcmp(b->lane[i].name, name) == 0) return &b->lane[i];
    if (b->lanes == BENCH_LANES) {
        fprintf(stderr, "harness.h: more than %d lanes in a case\n", BENCH_LANES);
        exit(2);
    }
    b->lane[b->lanes].name = name;
    return &b->lane[b->lanes++];
}

/* True while there is something to measure. The first round only warms up and finds out how often to repeat. */
static inline bool bench_round(bench *b) {
    if (!hd_ok()) return false;
    bool enough = b->lanes > 0;
    for (int i = 0; i < b->lanes; ++i) {
        const bench_lane *lane = &b->lane[i];
        if (lane->samples == BENCH_SAMPLES) return false;
        if (lane->spent < b->seconds || lane->samples < BENCH_SAMPLES_LEAST) enough = false;
    }
    b->calibrated = b->lanes > 0;
    return !enough;
}

static inline int64_t bench_begin(bench *b, const char *name) {
    b->now = bench_find(b, name);
    b->running = b->now->repeat > 0 ? b->now->repeat : 1;
    if (b->calibrated && b->lanes > 1) nanosleep(&(struct timespec){.tv_nsec = (long)(BENCH_QUIET * 1e9)}, NULL);
    b->started = bench_now();
    return b->running;
}

/* The body ran as often as asked: notes the sample and gives 0, or the number of runs to go on with. */
static inline int64_t bench_end(bench *b) {
    const double elapsed = bench_now() - b->started;
    bench_lane *lane = b->now;
    if (lane->repeat > 0) {
        lane->sample[lane->samples++] = elapsed / (double)lane->repeat;
        lane->spent += elapsed;
        return 0;
    }
    if (lane->warm && elapsed >= BENCH_SAMPLE) {
        lane->repeat = b->running;
        return 0;
    }
    if (lane->warm) b->running *= 2;
    lane->warm = true;
    b->started = bench_now();
    return b->running;
}

/* For what is not a time: one figure, in the unit of the case. */
static inline void bench_value(bench *b, const char *name, double value) {
    bench_lane *lane = bench_find(b, name);
    lane->sample[0] = value;
    lane->samples = 1;
}

/* A number of the result, for scripts/bench to compare with the peers', in the order of peers.py. */
static inline void bench_check(bench *b, double value) {
    if (b->checks < BENCH_CHECKS) b->check[b->checks++] = value;
}

static inline int bench_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of a lane, in the unit of the case. */
static inline double bench_median(const bench *b, bench_lane *lane) {
    qsort(lane->sample, (size_t)lane->samples, sizeof(double), bench_compare);
    const int n = lane->samples;
    const double median = (lane->sample[(n - 1) / 2] + lane->sample[n / 2]) / 2;
    const double scale = strcmp(b->unit, "ns") == 0   ? 1e9
                         : strcmp(b->unit, "us") == 0 ? 1e6
                         : strcmp(b->unit, "ms") == 0 ? 1e3
                                                      : 1;
    return median * scale;
}

static inline void bench_report(bench *b, const bench_case *c, FILE *json, bool first) {
    const double value = bench_median(b, bench_find(b, "hodu"));
    printf("%-32s %12.2f %s", c->name, value, c->unit);
    if (json != NULL)
        fprintf(json, "%s\n {\"case\": \"%s\", \"unit\": \"%s\", \"hodu\": %.6g, \"peers\": {", first ? "" : ",",
                c->name, c->unit, value);
    for (int i = 0, peers = 0; i < b->lanes; ++i) {
        if (strcmp(b->lane[i].name, "hodu") == 0) continue;
        const double peer = bench_median(b, &b->lane[i]);
        printf("  %s %.2f (ratio %.2f)", b->lane[i].name, peer, value / peer);
        if (json != NULL) fprintf(json, "%s\"%s\": %.6g", peers++ > 0 ? ", " : "", b->lane[i].name, peer);
    }
    printf("\n");
    fflush(stdout);
    if (json != NULL) fprintf(json, "}, \"check\": [");
    for (int i = 0; json != NULL && i < b->checks; ++i) fprintf(json, "%s%.9g", i > 0 ? ", " : "", b->check[i]);
    if (json != NULL) fprintf(json, "]}");
}

static inline bool bench_matches(const char *name, const char *pattern) {
    char wide[256];
    snprintf(wide, sizeof wide, "*%s*", pattern);
    return fnmatch(wide, name, 0) == 0;
}

/* The main of a benchmark: measures the cases the command line asks for; 1 when one of them failed. */
static inline int bench_main(int argc, char **argv, const bench_case *cases, size_t count) {
    const char *pattern = "", *exact = NULL, *json_path = NULL;
    double seconds = 0.3;
    bool list = false;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json_path = argv[++i];
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            exact = argv[++i];
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = atof(argv[++i]);
        else if (argv[i][0] != '-')
            pattern = argv[i];
        else {
            fprintf(stderr, "usage: %s [PATTERN] [--case NAME] [--seconds S] [--json FILE] [--list]\n", argv[0]);
            return 2;
        }
    }
    FILE *json = json_path != NULL ? fopen(json_path, "w") : NULL;
    if (json_path != NULL && json == NULL) {
        perror(json_path);
        return 2;
    }
    if (json != NULL) fprintf(json, "[");
    bool first = true;
    int status = 0;
    for (size_t i = 0; i < count; ++i) {
        const bench_case *c = &cases[i];
        if (exact != NULL ? strcmp(exact, c->name) != 0 : !bench_matches(c->name, pattern)) continue;
        if (list) {
            printf("%s %s\n", c->name, c->unit);
            continue;
        }
        static bench b; /* too large for the stack */
        b = (bench){.name = c->name, .unit = c->unit, .seconds = seconds};
        c->run(&b);
        if (!hd_ok() || b.lanes == 0 || isnan(bench_median(&b, bench_find(&b, "hodu")))) {
            fprintf(stderr, "%s: %s\n", c->name, hd_ok() ? "measured nothing" : hd_error_message());
            hd_error_clear();
            status = 1;
            continue;
        }
        bench_report(&b, c, json, first);
        first = false;
    }
    if (json != NULL) {
        fprintf(json, "\n]\n");
        fclose(json);
    }
    return status;
}

#endif
