/* Files of histories: a table, and lines of JSON. */
#include "core/memory.h"
#include "watch/history.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */
static hd_error refuse(const char *path, int why) {
    return hd_fail(HD_ERROR_STATE, "\"%s\" cannot be written: %s; another path may do", path,
                   strerror(why != 0 ? why : EIO));
}

hd_error hd_watch_open(const char *path, FILE **file) {
    if (path == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
    errno = 0;
    *file = fopen(path, "w");
    return *file != NULL ? HD_OK : refuse(path, errno);
}

hd_error hd_watch_close(FILE *file, const char *path) {
    errno = 0;
    const bool whole = fflush(file) == 0 && !ferror(file);
    const int why = errno;
    const bool closed = fclose(file) == 0;
    return whole && closed ? HD_OK : refuse(path, whole ? errno : why);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
/* What printf wrote, with a point for whatever the locale has in its place, which is all but digits and "+-e". */
static void put_pointed(FILE *file, const char *text) {
    bool pointed = false;
    for (; *text != '\0'; ++text) {
        if (strchr("0123456789+-e", *text) != NULL)
            fputc(*text, file);
        else if (!pointed)
            fputc('.', file), pointed = true;
    }
}

void hd_watch_fixed(FILE *file, double v, int places) {
    char text[352];
    snprintf(text, sizeof text, "%.*f", places, v);
    put_pointed(file, text);
}

void hd_watch_number(FILE *file, double v) {
    char text[64];
    if (!isfinite(v)) {
        fputs(isnan(v) ? "nan" : v < 0 ? "-inf" : "inf", file);
        return;
    }
    for (int digits = 6; digits <= 17; ++digits) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    put_pointed(file, text);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* All curves side by side: a row for each step that one of them has. */
typedef struct rows {
    const hd_history *h;
    int64_t *at; /* of each curve, its next value */
    int64_t step;
} rows;

static hd_error rows_begin(rows *r, const hd_history *h) {
    *r = (rows){.h = h, .at = hd_array_resize(NULL, (size_t)(h->count + 1) * sizeof *r->at)};
    if (r->at == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for rows of %lld names", (long long)h->count);
    memset(r->at, 0, (size_t)(h->count + 1) * sizeof *r->at);
    return HD_OK;
}

static bool rows_next(rows *r) {
    bool any = false;
    for (int64_t i = 0; i < r->h->count; ++i) {
        const hd_curve *c = &r->h->curves[i];
        if (r->at[i] == c->count || (any && c->steps[r->at[i]] >= r->step)) continue;
        r->step = c->steps[r->at[i]];
        any = true;
    }
    return any;
}

/* The value of curve i in this row; NULL: it has none. */
static const double *rows_value(rows *r, int64_t i) {
    const hd_curve *c = &r->h->curves[i];
    return r->at[i] < c->count && c->steps[r->at[i]] == r->step ? &c->values[r->at[i]++] : NULL;
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */
static void put_cell(FILE *file, const char *text) {
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; ++text) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void put_csv(FILE *file, rows *r) {
    fputs("step", file);
    for (int64_t i = 0; i < r->h->count; ++i) fputc(',', file), put_cell(file, r->h->curves[i].name);
    fputc('\n', file);
    while (rows_next(r)) {
        fprintf(file, "%lld", (long long)r->step);
        for (int64_t i = 0; i < r->h->count; ++i) {
            const double *value = rows_value(r, i);
            fputc(',', file);
            if (value != NULL) hd_watch_number(file, *value);
        }
        fputc('\n', file);
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */
static void put_string(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text != '\0'; ++text) {
        if (*text == '"' || *text == '\\') fputc('\\', file);
        if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void put_jsonl(FILE *file, rows *r) {
    while (rows_next(r)) {
        fprintf(file, "{\"step\":%lld", (long long)r->step);
        for (int64_t i = 0; i < r->h->count; ++i) {
            const double *value = rows_value(r, i);
            if (value == NULL) continue;
            fputc(',', file);
            put_string(file, r->h->curves[i].name);
            fputc(':', file);
            if (isfinite(*value))
                hd_watch_number(file, *value);
            else
                fputs("null", file);
        }
        fputs("}\n", file);
    }
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
static hd_error write_rows(const hd_history *h, const char *path, void (*put)(FILE *file, rows *r)) {
    FILE *file;
    rows r;
    HD_TRY(rows_begin(&r, h));
    hd_error status = hd_watch_open(path, &file);
    if (status == HD_OK) {
        put(file, &r);
        status = hd_watch_close(file, path);
    }
    hd_array_release(r.at);
    return status;
}

void hd_history_write_csv(hd_history *history, const char *path) {
    HD_ENTER("hd_history_write_csv", );
    if (hd_history_check(history) != HD_OK) return;
    HD_USE(&history->object, false, );
    write_rows(history, path, put_csv);
}

void hd_history_write_jsonl(hd_history *history, const char *path) {
    HD_ENTER("hd_history_write_jsonl", );
    if (hd_history_check(history) != HD_OK) return;
    HD_USE(&history->object, false, );
    write_rows(history, path, put_jsonl);
}
