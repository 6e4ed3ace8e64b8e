/* What a line of progress says, apart from where it goes and when. */
#ifndef HD_WATCH_PROGRESS_H
#define HD_WATCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_NOTES_MOST = 8, HD_PROGRESS_TITLE = 64, HD_PROGRESS_NAME = 24, HD_PROGRESS_LINE = 512 };
typedef struct hd_progress_state {
    char title[HD_PROGRESS_TITLE]; /* letters of UTF-8, whole ones */
    int64_t done, total;           /* total 0: not known */
    double seconds;                /* so far */
    bool ended;
    int notes;
    struct {
        char name[HD_PROGRESS_NAME];
        double value;
    } note[HD_NOTES_MOST];
} hd_progress_state;

/* The line, without its end. `columns`: it has fewer, and a bar where there is room for it; 0: it is as long as it is,
 * and has none. Gives how many columns it has. */
int hd_progress_line(const hd_progress_state *state, int columns, char out[HD_PROGRESS_LINE]);
/* Copies as many whole letters as there is room for; control characters become spaces. */
void hd_progress_copy(char *out, size_t capacity, const char *text);

#endif
