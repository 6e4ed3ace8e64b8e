/* Tensors as text, the way NumPy's str() writes an array (NumPy 2.3 and later). A few looks at the elements that are
 * shown find the columns they need, a last one writes them, straight to the caller's buffer or to stdout: nothing is
 * allocated, however large the tensor. */
#include "core/device.h"
#include "core/options.h"
#include "core/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the decimal digits of a float ---- */

#define MOST_DIGITS 17 /* enough to tell any f64 from its neighbours */

/* 0.DIGITS * 10^point, the last digit not 0; zero has no digits at all. */
typedef struct decimal {
    char digit[40];
    int count, point;
} decimal;

/* From what printf wrote for %e or %f. Whatever stands between the digits is the point, which a locale may change. */
static decimal decimal_read(const char *text) {
    decimal d = {0};
    bool behind_point = false;
    for (; *text != '\0' && *text != 'e'; ++text) {
        if (*text < '0' || *text > '9') {
            behind_point = true;
            continue;
        }
        const bool leading_zero = *text == '0' && d.count == 0;
        if (!leading_zero && d.count < (int)sizeof d.digit) d.digit[d.count++] = *text;
        if (!leading_zero && !behind_point) ++d.point;
        if (leading_zero && behind_point) --d.point;
    }
    if (*text == 'e') d.point += (int)strtol(text + 1, NULL, 10);
    while (d.count > 0 && d.digit[d.count - 1] == '0') --d.count;
    if (d.count == 0) d.point = 0;
    return d;
}

/* v rounded to so many digits, exactly: a tie means that v itself is halfway. */
static decimal decimal_with_digits(double v, int digits) {
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits - 1, v);
    return decimal_read(text);
}

static decimal decimal_with_places(double v, int places) {
    char text[64];
    snprintf(text, sizeof text, "%.*f", places, v);
    return decimal_read(text);
}

/* The next larger number with `digits` digits. */
static decimal decimal_above(decimal d, int digits) {
    while (d.count < digits) d.digit[d.count++] = '0';
    while (d.count > 0 && d.digit[d.count - 1] == '9') --d.count;
    if (d.count > 0) {
        ++d.digit[d.count - 1];
    } else {
        d.digit[d.count++] = '1';
        ++d.point;
    }
    return d;
}

static double rounded_to(hd_dtype dtype, double v) {
    _Alignas(8) char element[8];
    hd_element_from_f64(element, dtype, v);
    return hd_element_to_f64(element, dtype);
}

/* True when the digits, read as a number of this dtype, give v. f32 is read as such: by way of f64 it would round
 * twice, which the few digits of the small floats cannot notice. */
static bool decimal_is(const decimal *d, hd_dtype dtype, double v) {
    char text[64];
    snprintf(text, sizeof text, "%.*se%d", d->count, d->digit, d->point - d->count);
    if (dtype == HD_F32) return (double)strtof(text, NULL) == v;
    return rounded_to(dtype, strtod(text, NULL)) == v;
}

/* The best decimal with so many digits that reads back as v; false when there is none. Below a power of two the floats
 * lie twice as close as above it, so there the one above may do where the nearest does not. */
static bool decimal_try(double v, hd_dtype dtype, int digits, decimal *out) {
    *out = decimal_with_digits(v, digits);
    if (decimal_is(out, dtype, v)) return true;
    int exponent;
    if (frexp(v, &exponent) != 0.5) return false;
    *out = decimal_above(*out, digits);
    return decimal_is(out, dtype, v);
}

/* The fewest digits that read back as v >= 0 in its dtype. What some digits can tell, more can: so bisect. */
static decimal decimal_shortest(double v, hd_dtype dtype) {
    decimal d = {0};
    if (v == 0) return d;
    int low = 1, high = MOST_DIGITS;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (decimal_try(v, dtype, middle, &d))
            high = middle;
        else
            low = middle + 1;
    }
    decimal_try(v, dtype, low, &d);
    return d;
}

/* ---- numbers in their two notations ---- */

/* The parts of "-12.5" and, scientific, of "-1.25e+01". */
typedef struct number {
    char whole[32], fraction[48];
    int exponent;
} number;

/* Writes a decimal with the point behind so many of its digits. */
static number number_of(const decimal *d, bool negative, int point) {
    number n = {.exponent = d->count == 0 ? 0 : d->point - point};
    size_t used = 0;
    if (negative) n.whole[used++] = '-';
    for (int i = point > 0 ? 0 : point - 1; i < point && used + 1 < sizeof n.whole; ++i)
        n.whole[used++] = i >= 0 && i < d->count ? d->digit[i] : '0';
    used = 0;
    for (int i = point; i < d->count && used + 1 < sizeof n.fraction; ++i)
        n.fraction[used++] = i >= 0 ? d->digit[i] : '0';
    return n;
}

static number number_positional(double v, hd_dtype dtype, int most_places) {
    decimal d = decimal_shortest(fabs(v), dtype);
    if (d.count - d.point > most_places) d = decimal_with_places(fabs(v), most_places);
    return number_of(&d, signbit(v), d.point);
}

static number number_scientific(double v, hd_dtype dtype, int most_places) {
    decimal d = decimal_shortest(fabs(v), dtype);
    if (d.count - 1 > most_places) d = decimal_with_digits(fabs(v), most_places + 1);
    return number_of(&d, signbit(v), 1);
}

/* With exactly so many places. As in NumPy, places beyond the shortest digits are those of the value, not zeros. */
static number number_scientific_filled(double v, hd_dtype dtype, int places) {
    decimal d;
    if (!decimal_try(fabs(v), dtype, places + 1, &d)) d = decimal_with_digits(fabs(v), places + 1);
    number n = number_of(&d, signbit(v), 1);
    for (size_t i = strlen(n.fraction); i < (size_t)places && i + 1 < sizeof n.fraction; ++i) n.fraction[i] = '0';
    return n;
}

/* From here on floats are scientific: what f16 and f32 have digits for. */
static double first_scientific(hd_dtype dtype, double for_f64) {
    return dtype == HD_F64 ? for_f64 : dtype == HD_F32 ? 1e6 : 1e3;
}

/* ---- the elements that are shown ---- */

typedef struct shown {
    const char *bytes; /* of the first element */
    hd_dtype dtype;
    const hd_layout *layout;
    int64_t edge; /* of longer axes than two edges, only these are shown */
    int64_t index[HD_MAX_RANK];
} shown;

static const void *shown_element(const shown *s) {
    int64_t offset = 0;
    for (int i = 0; i < s->layout->shape.rank; ++i) offset += s->index[i] * s->layout->stride[i];
    return s->bytes + offset * hd_dtype_bytes[s->dtype];
}

/* Goes to the next element and gives the axis that moved on; -1 after the last, and the first is the next again. */
static int shown_next(shown *s, bool *skipped) {
    *skipped = false;
    for (int axis = s->layout->shape.rank - 1; axis >= 0; --axis) {
        const int64_t size = s->layout->shape.size[axis];
        if (++s->index[axis] < size) {
            *skipped = s->index[axis] == s->edge && s->edge < size - s->edge;
            if (*skipped) s->index[axis] = size - s->edge;
            return axis;
        }
        s->index[axis] = 0;
    }
    return -1;
}

/* ---- the columns they need ---- */

#define WORD 96 /* room for one element with its padding */

typedef struct columns {
    bool scientific;
    int places;        /* digits behind the point: at most, or if scientific exactly */
    int exponent;      /* digits of the exponent */
    int before, after; /* characters on both sides of the point; of what has no point, all are before it */
} columns;

static int larger(int a, int b) { return a > b ? a : b; }

/* Booleans and integers as they are, without padding. */
static void write_whole(char out[WORD], const void *element, hd_dtype dtype) {
    uint64_t u = 0;
    if (dtype == HD_U64) memcpy(&u, element, sizeof u);
    if (dtype == HD_BOOL)
        snprintf(out, WORD, "%s", hd_element_to_i64(element, dtype) != 0 ? "True" : "False");
    else if (dtype == HD_U64)
        snprintf(out, WORD, "%llu", (unsigned long long)u);
    else
        snprintf(out, WORD, "%lld", (long long)hd_element_to_i64(element, dtype));
}

static columns columns_of_whole(shown *s) {
    columns c = {.before = s->dtype == HD_BOOL ? (int)strlen("False") : 0};
    char word[WORD];
    bool skipped;
    do {
        write_whole(word, shown_element(s), s->dtype);
        c.before = larger(c.before, (int)strlen(word));
    } while (shown_next(s, &skipped) >= 0);
    return c;
}

/* Scientific when some are large, some small, or both are far apart. NumPy compares in the array's own dtype, so that
 * 1e-4 is not below 1e-4 after rounding; so do we. */
static bool needs_scientific(shown *s) {
    double least = INFINITY, most = 0;
    bool skipped;
    do {
        const double v = fabs(hd_element_to_f64(shown_element(s), s->dtype));
        if (!isfinite(v) || v == 0) continue;
        if (v < least) least = v;
        if (v > most) most = v;
    } while (shown_next(s, &skipped) >= 0);
    if (most == 0) return false;
    return most >= first_scientific(s->dtype, 1e8) || least < rounded_to(s->dtype, 1e-4) ||
           rounded_to(s->dtype, most / least) > rounded_to(s->dtype, 1000);
}

static columns columns_of_floats(shown *s, int precision) {
    columns c = {.scientific = needs_scientific(s), .places = precision};
    int longest_word = 0, fraction = 0; /* of "nan", "inf", "-inf"; of the numbers */
    bool skipped;
    do {
        const double v = hd_element_to_f64(shown_element(s), s->dtype);
        if (!isfinite(v)) {
            longest_word = larger(longest_word, v < 0 ? 4 : 3);
            continue;
        }
        const number n =
            c.scientific ? number_scientific(v, s->dtype, precision) : number_positional(v, s->dtype, precision);
        c.before = larger(c.before, (int)strlen(n.whole));
        fraction = larger(fraction, (int)strlen(n.fraction));
        c.exponent = larger(c.exponent, abs(n.exponent) < 100 ? 2 : 3);
    } while (shown_next(s, &skipped) >= 0);
    if (c.scientific) c.places = fraction;
    c.after = c.scientific ? fraction + 2 + c.exponent : fraction;
    c.before = larger(c.before, longest_word - 1 - c.after);
    return c;
}

static void write_word(char out[WORD], const void *element, hd_dtype dtype, const columns *c) {
    if (!hd_dtype_is_float(dtype)) {
        char whole[WORD];
        write_whole(whole, element, dtype);
        snprintf(out, WORD, "%*s", c->before, whole);
        return;
    }
    const double v = hd_element_to_f64(element, dtype);
    if (!isfinite(v)) {
        snprintf(out, WORD, "%*s", c->before + 1 + c->after, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    } else if (c->scientific) {
        const number n = number_scientific_filled(v, dtype, c->places);
        snprintf(out, WORD, "%*s.%se%+0*d", c->before, n.whole, n.fraction, c->exponent + 1, n.exponent);
    } else {
        const number n = number_positional(v, dtype, c->places);
        snprintf(out, WORD, "%*s.%-*s", c->before, n.whole, c->after, n.fraction);
    }
}

/* A tensor of rank 0 is written as a plain number, with all its digits whatever the options say. */
static void write_scalar(char out[WORD], const void *element, hd_dtype dtype) {
    if (!hd_dtype_is_float(dtype)) {
        write_whole(out, element, dtype);
        return;
    }
    const double v = hd_element_to_f64(element, dtype), size = fabs(v);
    if (!isfinite(v)) {
        snprintf(out, WORD, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    } else if (v == 0 || (size >= 1e-4 && size < first_scientific(dtype, 1e16))) {
        const number n = number_positional(v, dtype, INT32_MAX);
        snprintf(out, WORD, "%s.%s", n.whole, n.fraction[0] == '\0' ? "0" : n.fraction);
    } else {
        const number n = number_scientific(v, dtype, INT32_MAX);
        snprintf(out, WORD, "%s%s%se%+03d", n.whole, n.fraction[0] == '\0' ? "" : ".", n.fraction, n.exponent);
    }
}

/* ---- writing ---- */

typedef struct writer {
    FILE *file; /* or, when NULL: */
    char *out;
    size_t capacity;
    int64_t length;         /* of the whole text, also of what does not fit */
    int64_t column, spaces; /* in the line; spaces wait for what follows them, for no line ends with any */
    bool failed;
} writer;

static void emit(writer *w, char c) {
    if (w->file != NULL)
        w->failed |= putc(c, w->file) == EOF;
    else if ((uint64_t)w->length + 1 < w->capacity)
        w->out[w->length] = c;
    ++w->length;
}

static void put(writer *w, char c, int64_t times) {
    for (; times > 0; --times) {
        w->column = c == '\n' ? 0 : w->column + 1;
        if (c == ' ') {
            ++w->spaces;
            continue;
        }
        for (; c != '\n' && w->spaces > 0; --w->spaces) emit(w, ' ');
        w->spaces = 0;
        emit(w, c);
    }
}

/* A word in a row, or at the begin of a new line when this one has no room for it and more than its brackets. */
static void put_word(writer *w, const char *word, int rank, int width) {
    const int64_t room = (int64_t)width - rank; /* the brackets that close the row fit too */
    if (w->column + (int64_t)strlen(word) > room && w->column > rank) {
        put(w, '\n', 1);
        put(w, ' ', rank);
    }
    for (; *word != '\0'; ++word) put(w, *word, 1);
}

/* What stands between two neighbours on an axis: a space, a line end, or empty lines as well. */
static void put_between(writer *w, int axis, int rank) {
    put(w, '\n', rank - 1 - axis);
    put(w, ' ', axis == rank - 1 ? 1 : axis + 1);
}

static void put_array(writer *w, shown *s, const hd_print_opts *o) {
    const int rank = s->layout->shape.rank;
    const columns c = hd_dtype_is_float(s->dtype) ? columns_of_floats(s, o->precision) : columns_of_whole(s);
    put(w, '[', rank);
    for (;;) {
        char word[WORD];
        write_word(word, shown_element(s), s->dtype, &c);
        put_word(w, word, rank, o->width);
        bool skipped;
        const int axis = shown_next(s, &skipped);
        put(w, ']', rank - 1 - axis);
        if (axis < 0) return;
        put_between(w, axis, rank);
        if (skipped) {
            put_word(w, "...", rank, o->width);
            put_between(w, axis, rank);
        }
        put(w, '[', rank - 1 - axis);
    }
}

/* ---- the calls ---- */

static hd_error option(const char *name, int *value, int otherwise) {
    if (*value < 0)
        return hd_fail(HD_ERROR_VALUE, "%s is %d; it must be above 0, or 0 for the default %d", name, *value,
                       otherwise);
    if (*value == 0) *value = otherwise;
    return HD_OK;
}

static hd_error read_options(hd_print_opts *o, const hd_print_opts *given) {
    HD_TRY(hd_read_options(o, sizeof *o, given));
    HD_TRY(option("precision", &o->precision, 8));
    HD_TRY(option("threshold", &o->threshold, 1000));
    HD_TRY(option("edge", &o->edge, 3));
    return option("width", &o->width, 75);
}

static hd_error put_tensor(hd_thread *thread, writer *w, const hd_tensor *t, const hd_print_opts *given) {
    HD_TRY(hd_tensor_check(t, "t"));
    hd_print_opts o;
    HD_TRY(read_options(&o, given));
    if (t->count == 0) {
        put(w, '[', 1);
        put(w, ']', 1);
        return HD_OK;
    }
    shown s = {.dtype = (hd_dtype)t->dtype, .layout = &t->layout, .edge = t->count > o.threshold ? o.edge : INT64_MAX};
    s.bytes = hd_tensor_bytes(thread, t, HD_READ);
    if (s.bytes == NULL) return thread->error_code;
    if (t->layout.shape.rank == 0) {
        char word[WORD];
        write_scalar(word, s.bytes, s.dtype);
        for (const char *c = word; *c != '\0'; ++c) put(w, *c, 1);
    } else {
        put_array(w, &s, &o);
    }
    return HD_OK;
}

int64_t hd_format(const hd_tensor *t, char *out, size_t capacity, const hd_print_opts *opts) {
    if (out != NULL && capacity > 0) out[0] = '\0';
    HD_ENTER("hd_format", -1);
    if (out == NULL && capacity > 0) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`out` is NULL but its capacity is %zu; pass 0 to ask for the length",
                capacity);
        return -1;
    }
    writer w = {.out = out, .capacity = capacity};
    HD_TRY_OR(put_tensor(thread, &w, t, opts), -1);
    if (capacity > 0) out[(uint64_t)w.length < capacity ? (size_t)w.length : capacity - 1] = '\0';
    return w.length;
}

static void print(hd_thread *thread, const hd_tensor *t, bool described) {
    writer w = {.file = stdout};
    HD_TRY_OR(hd_tensor_check(t, "t"), );
    if (described) {
        char line[256], device[32];
        const int length =
            snprintf(line, sizeof line, "%s %s%s%s%s%s\n", hd_dtype_name((hd_dtype)t->dtype),
                     HD_SHAPE_TEXT(t->layout.shape), t->storage->device.kind == HD_DEVICE_CPU ? "" : " on ",
                     t->storage->device.kind == HD_DEVICE_CPU ? "" : hd_device_text(device, t->storage->device),
                     t->contiguous ? "" : ", not contiguous",
                     t->tracking == HD_TRACKED_LEAF     ? ", requires a gradient"
                     : t->tracking == HD_TRACKED_RESULT ? ", a result on a tape"
                                                        : "");
        for (int i = 0; i < length && i < (int)sizeof line - 1; ++i) put(&w, line[i], 1);
    }
    HD_TRY_OR(put_tensor(thread, &w, t, NULL), );
    put(&w, '\n', 1);
    if (w.failed) hd_fail(HD_ERROR_STATE, "stdout cannot be written; it is closed or full");
}

void hd_print(const hd_tensor *t) {
    HD_ENTER("hd_print", );
    print(thread, t, false);
}
void hd_describe(const hd_tensor *t) {
    HD_ENTER("hd_describe", );
    print(thread, t, true);
}
