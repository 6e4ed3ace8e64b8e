/* Numbers in text. */
#include "data/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool hd_integer_read(const char *text, size_t length, int64_t *out) {
    size_t i = length > 0 && (text[0] == '-' || text[0] == '+');
    const bool negative = i == 1 && text[0] == '-';
    int64_t v = 0; /* below 0, where there is one more */
    if (i == length) return false;
    for (; i < length; ++i) {
        if (!is_digit(text[i])) return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, text[i] - '0', &v)) return false;
    }
    if (!negative && v == INT64_MIN) return false;
    *out = negative ? v : -v;
    return true;
}

static bool is_word(const char *text, size_t length, const char *word) {
    if (strlen(word) != length) return false;
    for (size_t i = 0; i < length; ++i)
        if ((text[i] | 32) != word[i]) return false;
    return true;
}

/* What the digits are, as far as 64 bits go. */
typedef struct decimal {
    uint64_t digits;
    int64_t exponent; /* of ten */
    bool exact;
} decimal;

static bool read_exponent(const char **at, const char *end, int64_t *exponent) {
    if (*at == end || (**at | 32) != 'e') return true;
    ++*at;
    const bool negative = *at < end && **at == '-';
    if (*at < end && (**at == '-' || **at == '+')) ++*at;
    if (*at == end || !is_digit(**at)) return false;
    int64_t e = 0;
    for (; *at < end && is_digit(**at); ++*at)
        if (e < 1000000) e = 10 * e + (**at - '0');
    *exponent += negative ? -e : e;
    return true;
}

static bool read_decimal(const char *at, const char *end, decimal *d) {
    int64_t seen = 0, behind_point = 0;
    bool point = false;
    *d = (decimal){.exact = true};
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); ++at) {
        if (*at == '.') {
            point = true;
            continue;
        }
        ++seen;
        behind_point += point;
        if (d->digits < UINT64_MAX / 10)
            d->digits = 10 * d->digits + (uint64_t)(*at - '0');
        else
            d->exact = false;
    }
    d->exponent = -behind_point;
    return seen > 0 && read_exponent(&at, end, &d->exponent) && at == end;
}

/* strtod knows how to round what has more digits than a double; it wants the locale's point. */
static bool read_slowly(const char *text, size_t length, double *out) {
    char copy[1024];
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *point = strchr(copy, '.'), *end;
    if (point != NULL) *point = localeconv()->decimal_point[0];
    *out = strtod(copy, &end);
    return *end == '\0';
}

bool hd_number_read(const char *text, size_t length, double *out) {
    static const double ten_to[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
    const bool negative = sign == 1 && text[0] == '-';
    const char *digits = text + sign;
    decimal d;
    if (!read_decimal(digits, text + length, &d)) {
        if (is_word(digits, length - sign, "nan"))
            *out = NAN;
        else if (is_word(digits, length - sign, "inf") || is_word(digits, length - sign, "infinity"))
            *out = negative ? -INFINITY : INFINITY;
        else
            return false;
        return true;
    }
    /* Two doubles that are exact: their product or quotient is rounded once. */
    if (!d.exact || d.digits > (uint64_t)1 << 53 || d.exponent < -22 || d.exponent > 22)
        return read_slowly(text, length, out);
    const double v = d.exponent < 0 ? (double)d.digits / ten_to[-d.exponent] : (double)d.digits * ten_to[d.exponent];
    *out = negative ? -v : v;
    return true;
}
