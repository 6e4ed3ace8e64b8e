/* Axes of a picture: where numbers lie on them, and which numbers are written beside them. */
#ifndef HD_WATCH_AXIS_H
#define HD_WATCH_AXIS_H

#include <stdbool.h>

typedef struct hd_axis {
    double low, high; /* low < high */
    bool is_log;
    double from, to; /* where these two lie, in pixels */
} hd_axis;

/* An axis that has room for numbers from low to high, and `margin` of them beside. Of a logarithmic one both are above
 * 0. */
hd_axis hd_axis_of(double low, double high, bool is_log, double margin);
double hd_axis_place(const hd_axis *axis, double value);

/* Round numbers within an axis, about `wanted` of them: 1, 2 or 5 times powers of 10, apart, or themselves. Gives how
 * many; whole ones alone, if so said. */
enum { HD_TICKS_MOST = 32 };
int hd_axis_ticks(const hd_axis *axis, int wanted, bool whole, double out[HD_TICKS_MOST]);

#endif
