#include "watch/axis.h"

#include <math.h>

hd_axis hd_axis_of(double low, double high, bool is_log, double margin) {
    hd_axis a = {.low = low, .high = high, .is_log = is_log};
    if (is_log) {
        const double factor = high > low ? pow(high / low, margin) : 1.5;
        a.low /= factor;
        a.high *= factor;
        if (!(a.low > 0)) a.low = low; /* as small as numbers are */
    } else {
        const double more = high > low ? (high - low) * margin : low != 0 ? fabs(low) / 10 : 1;
        a.low -= more;
        a.high += more;
    }
    return a;
}

double hd_axis_place(const hd_axis *a, double value) {
    const double part = a->is_log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
    return a->from + part * (a->to - a->from);
}

/* The nearest of 1, 2 and 5 times a power of 10. */
static double round_step(double step) {
    const double power = pow(10, floor(log10(step))), part = step / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static int linear_ticks(const hd_axis *a, int wanted, bool whole, double *out) {
    double step = round_step((a->high - a->low) / wanted);
    if (whole && step < 1) step = 1;
    int count = 0;
    for (double k = ceil(a->low / step); k * step <= a->high && count < HD_TICKS_MOST; ++k)
        out[count++] = k * step + 0.0; /* no -0 */
    return count;
}

int hd_axis_ticks(const hd_axis *a, int wanted, bool whole, double out[HD_TICKS_MOST]) {
    if (!a->is_log || a->high < 10 * a->low) return linear_ticks(a, wanted, whole, out);
    const int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
    const int apart = 1 + (last - first) / wanted, between = last - first <= 3 ? 3 : 1;
    static const double factors[] = {1, 2, 5};
    int count = 0;
    for (int e = first - first % apart; e <= last; e += apart)
        for (int i = 0; i < between; ++i) {
            const double v = factors[i] * pow(10, e);
            if (v >= a->low && v <= a->high && count < HD_TICKS_MOST) out[count++] = v;
        }
    return count;
}
