/* Histories from inside, and the files they are written to. */
#ifndef HD_WATCH_HISTORY_H
#define HD_WATCH_HISTORY_H

#include "core/object.h"
#include "core/options.h"

#include <hodu/watch.h>
#include <stdio.h>

/* The values of one name. */
typedef struct hd_curve {
    char *name;
    int64_t *steps; /* none is less than the one before it */
    double *values;
    int64_t count, capacity;
} hd_curve;

struct hd_history {
    hd_object object;
    hd_curve *curves;
    int64_t count;
};

hd_error hd_history_check(const hd_history *history);
/* NULL: there is none of that name. */
const hd_curve *hd_history_find(const hd_history *history, const char *name);

/* Opens and closes a file that is written anew; what fails is an error that names it. */
hd_error hd_watch_open(const char *path, FILE **file);
hd_error hd_watch_close(FILE *file, const char *path);
/* The shortest number that reads back as v, whatever the locale; and one with so many places. */
void hd_watch_number(FILE *file, double v);
void hd_watch_fixed(FILE *file, double v, int places);

#endif
