/* Watching a model learn: a line of progress, a history of numbers with its files and its picture, and when to stop. */
#ifndef HODU_WATCH_H
#define HODU_WATCH_H

#include <hodu/base.h>

HD_BEGIN_DECLS
/* ---- progress: one line, drawn over and over on a terminal; elsewhere a plain line now and then ---- */
typedef struct hd_progress hd_progress;
typedef enum hd_progress_style {
    HD_PROGRESS_AUTO,  /* a bar where stderr is a terminal, else lines */
    HD_PROGRESS_BAR,   /* the line begins anew with "\r" */
    HD_PROGRESS_LINES, /* one after .every seconds, or a twentieth of the time so far, and a last one */
    HD_PROGRESS_QUIET  /* nothing */
} hd_progress_style;
typedef struct hd_progress_opts {
    size_t struct_size;
    const char *title; /* in front: "epoch 3" */
    hd_progress_style style;
    int columns;  /* no line is as long; what matters least is left out first. The terminal's by default, or 80 */
    double every; /* seconds between plain lines, at least: 10 by default; HD_ZERO: one for each step */
    void (*write)(const char *text, void *user); /* takes the text, with its "\r" or "\n"; stderr by default */
    void *user;
} hd_progress_opts;
/* Of `total` steps; 0: nobody knows how many. */
HD_API hd_progress *hd_progress_new(int64_t total, const hd_progress_opts *opts);
/* One more step is done; or so many are. What is drawn is drawn ten times a second at most. */
HD_API void hd_progress_step(hd_progress *progress);
HD_API void hd_progress_to(hd_progress *progress, int64_t done);
/* A number to be shown from now on, "loss 0.0123", or in the place of the one of that name; at most 8. */
HD_API void hd_progress_note(hd_progress *progress, const char *name, double value);
/* Draws it a last time, with the time that it took, and ends the line; as its release does. */
HD_API void hd_progress_end(hd_progress *progress);

/* ---- history: numbers by name and step ---- */
typedef struct hd_history hd_history;
HD_API hd_history *hd_history_new(void);
/* Notes a value of a name at a step. Steps of a name do not go back; at the same step, the last value stays. */
HD_API void hd_history_add(hd_history *history, const char *name, int64_t step, double value);
/* How many names there are, and each, in the order of their first values; valid as long as the history. */
HD_API int64_t hd_history_names(hd_history *history);
HD_API const char *hd_history_name(hd_history *history, int64_t index);
/* How many values a name has (0 of one that is not there), and each with its step; `index` may count from the end, and
 * `step` may be NULL. NaN on error. */
HD_API int64_t hd_history_count(hd_history *history, const char *name);
HD_API double hd_history_get(hd_history *history, const char *name, int64_t index, int64_t *step);
/* A table: "step,loss,accuracy" and a row for each step, with nothing where a name has no value. Numbers read back as
 * they were. */
HD_API void hd_history_write_csv(hd_history *history, const char *path);
/* {"step":1,"loss":0.5} for each step; null for what is not finite. */
HD_API void hd_history_write_jsonl(hd_history *history, const char *path);

typedef struct hd_plot_opts {
    size_t struct_size;
    const char *title;
    const char *x_label, *y_label; /* "step", and none */
    const char *const *names;      /* which curves, and how many; all by default */
    int64_t count;
    bool log_scale;    /* of values; those that are not above 0 are left out */
    int width, height; /* 760 and 420 by default */
} hd_plot_opts;
/* A picture of curves with axes and a legend, SVG. What is not finite is a gap. */
HD_API void hd_history_plot(hd_history *history, const char *path, const hd_plot_opts *opts);

/* ---- when to stop ---- */
/* Make it with HD_DEFAULTS or a designated initialiser; it needs no release. */
typedef struct hd_early_stop {
    size_t struct_size;
    int64_t patience; /* it ends after so many values in a row that are no better; 1 by default */
    double min_delta; /* better is better by more than this; 0 by default */
    bool maximize;    /* larger values are better, not smaller ones */
    /* what it has seen; zero to begin with */
    int64_t seen;    /* values */
    int64_t best_at; /* which of them was best, counted from 1; 0: none. best_at == seen: the last one was */
    double best;
} hd_early_stop;
/* One more value, as of each epoch; true when it is time to stop. NaN is never better. */
HD_API bool hd_early_stop_add(hd_early_stop *stop, double value);
HD_END_DECLS

#endif
