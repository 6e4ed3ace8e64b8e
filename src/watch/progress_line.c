/* The text of a line of progress:
 *
 *     epoch 3   45 %  [#########           ]  450/1000  loss 0.1234  12.3/s  0:45 left
 *
 * Where a line is too long, what matters least is left out: the rate, how many are done, the bar, the time, the title.
 */
#include "watch/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- letters ----------------------------------------------------------------------------------------------------- */
/* The letter at `text`, and how many bytes it has; a byte that is no UTF-8 is a letter by itself. */
static int letter(const char *text, uint32_t *out) {
    const unsigned char *c = (const unsigned char *)text;
    const int bytes = c[0] < 0xc0 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf8 ? 4 : 1;
    *out = bytes == 1 ? c[0] : c[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; ++i) {
        if ((c[i] & 0xc0) != 0x80) return 1;
        *out = *out << 6 | (c[i] & 0x3f);
    }
    return bytes;
}

/* Letters of East Asia, and small pictures, are two columns wide. */
static int width_of(uint32_t c) {
    static const uint32_t wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; ++i)
        if (c >= wide[i][0] && c <= wide[i][1]) return 2;
    return 1;
}

static int columns_of(const char *text) {
    int columns = 0;
    uint32_t c;
    for (; *text != '\0'; columns += width_of(c)) text += letter(text, &c);
    return columns;
}

/* Cuts a text so that it has no more than so many columns. */
static void cut(char *text, int columns) {
    uint32_t c;
    for (int bytes; *text != '\0'; text += bytes) {
        bytes = letter(text, &c);
        columns -= width_of(c);
        if (columns < 0) *text = '\0', bytes = 0;
    }
}

void hd_progress_copy(char *out, size_t capacity, const char *text) {
    size_t at = 0;
    uint32_t c;
    for (int bytes; *text != '\0'; text += bytes) {
        bytes = letter(text, &c);
        if (at + (size_t)bytes >= capacity) break;
        for (int i = 0; i < bytes; ++i) out[at++] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    }
    out[at] = '\0';
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */
typedef struct line {
    char *out;
    size_t at;
} line;
static void put(line *l, const char *part) {
    const char *space = l->at > 0 ? "  " : "";
    const int n = snprintf(l->out + l->at, HD_PROGRESS_LINE - l->at, "%s%s", space, part);
    l->at = l->at + (size_t)n < HD_PROGRESS_LINE ? l->at + (size_t)n : HD_PROGRESS_LINE - 1;
}

/* 0:07, 12:34, 1:02:03, 3d 04:05. */
static void put_time(line *l, double seconds, const char *before, const char *behind) {
    char part[64];
    if (!(seconds < 1e9)) return; /* nobody waits for thirty years, nor reads it */
    const int64_t s = (int64_t)(seconds + 0.5);
    const int days = (int)(s / 86400), hours = (int)(s / 3600 % 24), minutes = (int)(s / 60 % 60), rest = (int)(s % 60);
    if (days > 0)
        snprintf(part, sizeof part, "%s%dd %02d:%02d%s", before, days, hours, minutes, behind);
    else if (hours > 0)
        snprintf(part, sizeof part, "%s%d:%02d:%02d%s", before, hours, minutes, rest, behind);
    else
        snprintf(part, sizeof part, "%s%d:%02d%s", before, minutes, rest, behind);
    put(l, part);
}

/* 123/s, 4.56/s, or 7.8 s each. */
static void put_rate(line *l, const hd_progress_state *s) {
    char part[64];
    if (s->done <= 0 || !(s->seconds > 0)) return;
    const double rate = (double)s->done / s->seconds;
    if (rate >= 1)
        snprintf(part, sizeof part, "%.*f/s", rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
    else
        snprintf(part, sizeof part, "%.*f s each", rate > 0.1 ? 2 : 1, 1 / rate);
    put(l, part);
}

static double part_of(const hd_progress_state *s) {
    const double part = (double)s->done / (double)s->total;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

static void put_bar(line *l, const hd_progress_state *s, int cells) {
    char part[64] = "[";
    const int filled = (int)(part_of(s) * cells);
    for (int i = 0; i < cells; ++i) part[1 + i] = i < filled ? '#' : ' ';
    strcpy(part + 1 + cells, "]");
    put(l, part);
}

static void put_count(line *l, const hd_progress_state *s) {
    char part[64];
    if (s->total > 0)
        snprintf(part, sizeof part, "%lld/%lld", (long long)s->done, (long long)s->total);
    else
        snprintf(part, sizeof part, "%lld done", (long long)s->done);
    put(l, part);
}

static void put_notes(line *l, const hd_progress_state *s) {
    char part[64];
    for (int i = 0; i < s->notes; ++i) {
        snprintf(part, sizeof part, "%s %.4g", s->note[i].name, s->note[i].value);
        put(l, part);
    }
}

static void put_left(line *l, const hd_progress_state *s) {
    if (s->ended)
        put_time(l, s->seconds, "in ", "");
    else if (s->total == 0)
        put_time(l, s->seconds, "", "");
    else if (s->done > 0)
        put_time(l, s->seconds * fmax(0, (double)(s->total - s->done)) / (double)s->done, "", " left");
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */
enum { ALL, NO_RATE, NO_COUNT, NO_BAR, NO_TIME, NO_TITLE, LEVELS };
enum { CELLS_LEAST = 10, CELLS_MOST = 40 };

static int compose(const hd_progress_state *s, int level, int cells, char *out) {
    line l = {.out = out};
    char percent[16];
    out[0] = '\0';
    if (level < NO_TITLE && s->title[0] != '\0') put(&l, s->title);
    if (s->total > 0) {
        snprintf(percent, sizeof percent, "%3d %%", (int)(100 * part_of(s)));
        put(&l, percent);
        if (cells > 0) put_bar(&l, s, cells);
    }
    if (level < NO_COUNT || s->total == 0) put_count(&l, s);
    put_notes(&l, s);
    if (level < NO_RATE) put_rate(&l, s);
    if (level < NO_TIME) put_left(&l, s);
    return columns_of(out);
}

int hd_progress_line(const hd_progress_state *s, int columns, char out[HD_PROGRESS_LINE]) {
    if (columns <= 0) return compose(s, ALL, 0, out);
    for (int level = ALL; level < LEVELS; ++level) {
        const int without = compose(s, level, 0, out), room = columns - 1 - without - (int)strlen("  []");
        if (level < NO_BAR && s->total > 0 && room >= CELLS_LEAST)
            return compose(s, level, room < CELLS_MOST ? room : CELLS_MOST, out);
        if ((level >= NO_BAR || s->total == 0) && without < columns) return without;
    }
    cut(out, columns - 1);
    return columns_of(out);
}
