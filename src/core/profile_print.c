/* What a profile shows: a table of what took most, and a trace of all of it in Chrome's format. */
#include "core/lines.h"
#include "core/memory.h"
#include "core/profile.h"
#include "core/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 40 };
static const char *const kind_names[] = {"call", "run", "launch", "compile"};

/* ---- the table --------------------------------------------------------------------------------------------------- */
static int by_time(const void *a, const void *b) {
    const hd_profile_row *x = a, *y = b;
    return x->nanoseconds < y->nanoseconds ? 1 : x->nanoseconds > y->nanoseconds ? -1 : 0;
}

/* Runs have their launches in them, and stand for themselves where they have none. */
static bool counts(const hd_profile_row *r) { return r->kind != HD_PROFILE_RUN; }

static void print_row(const hd_profile_row *r, double all) {
    const double seconds = (double)r->nanoseconds * 1e-9, each = seconds * 1e6 / (double)r->count;
    char caller[200] = "";
    if (!hd_lines_of(r->caller, caller, sizeof caller)) hd_caller_text(r->caller, caller, sizeof caller);
    fprintf(stderr, "%10.3f", seconds * 1e3);
    if (counts(r))
        fprintf(stderr, " %5.1f %%", all > 0 ? (double)r->nanoseconds / all * 100 : 0);
    else
        fprintf(stderr, "        ");
    fprintf(stderr, " %9lld %10.2f", (long long)r->count, each);
    if (r->work.operations > 0 && seconds > 0)
        fprintf(stderr, " %9.2f", r->work.operations / seconds * 1e-9);
    else
        fprintf(stderr, "          ");
    if (r->work.bytes > 0 && seconds > 0)
        fprintf(stderr, " %8.2f", r->work.bytes / seconds * 1e-9);
    else
        fprintf(stderr, "         ");
    fprintf(stderr, "  %-7s %s%s%s", kind_names[r->kind], r->name, r->sizes[0] != '\0' ? " " : "", r->sizes);
    if (r->call != NULL) fprintf(stderr, "  by %s", r->call);
    if (caller[0] != '\0') fprintf(stderr, " from %s", caller);
    if (r->scope[0] != '\0') fprintf(stderr, " in the scope of %s", r->scope);
    fputc('\n', stderr);
}

void hd_profile_print(hd_profile *p) {
    const double wall = (double)(hd_os_nanoseconds() - p->begin) * 1e-6;
    double all = 0;
    for (uint32_t i = 0; i < p->row_count; ++i) all += counts(&p->rows[i]) ? (double)p->rows[i].nanoseconds : 0;
    fprintf(stderr, "profile of %.3f ms, of which %.3f ms in calls, launches and compilations, all threads together\n",
            wall, all * 1e-6);
    fprintf(stderr, "%10s %7s %9s %10s %9s %8s  %s\n", "ms", "share", "times", "us each", "GFLOP/s", "GB/s", "what");
    hd_profile_row *sorted = hd_array_resize(NULL, ((size_t)p->row_count + 1) * sizeof *sorted);
    if (sorted == NULL) {
        fprintf(stderr, "(there is no memory to sort %u rows)\n", p->row_count);
        return;
    }
    if (p->row_count > 0) memcpy(sorted, p->rows, p->row_count * sizeof *sorted);
    qsort(sorted, p->row_count, sizeof *sorted, by_time);
    for (uint32_t i = 0; i < p->row_count && i < SHOWN; ++i) print_row(&sorted[i], all);
    if (p->row_count > SHOWN) fprintf(stderr, "and %u rows that took less each\n", p->row_count - SHOWN);
    if (p->left_out > 0)
        fprintf(stderr, "the trace lacks %lld moments, for which there is no room\n", (long long)p->left_out);
    hd_array_release(sorted);
}

/* ---- the trace --------------------------------------------------------------------------------------------------- */
static void write_text(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; ++c) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) /* names may be any bytes */
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

static void write_moment(FILE *file, const hd_profile *p, const hd_profile_moment *m) {
    const hd_profile_row *r = &p->rows[m->row];
    fprintf(file, "{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":", m->thread,
            (double)(m->begin - p->begin) * 1e-3, (double)m->nanoseconds * 1e-3, kind_names[r->kind]);
    write_text(file, r->name);
    fprintf(file, ",\"args\":{\"sizes\":");
    write_text(file, r->sizes);
    if (r->call != NULL) fprintf(file, ",\"by\":\"%s\"", r->call);
    if (r->scope[0] != '\0') {
        fprintf(file, ",\"scope\":");
        write_text(file, r->scope);
    }
    if (m->work.operations > 0) fprintf(file, ",\"operations\":%.0f", m->work.operations);
    if (m->work.bytes > 0) fprintf(file, ",\"bytes\":%.0f", m->work.bytes);
    fprintf(file, "}}");
}

int hd_profile_save(const hd_profile *p, const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) return errno != 0 ? errno : EIO;
    fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                  "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"hodu\"}}");
    for (size_t i = 0; i < p->moment_count; ++i) {
        fputs(",\n", file);
        write_moment(file, p, &p->moments[i]);
    }
    fputs("\n]}\n", file);
    int why = ferror(file) ? EIO : 0;
    errno = 0;
    if (fclose(file) != 0) why = errno != 0 ? errno : EIO;
    return why;
}
