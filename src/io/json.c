/* Reading JSON. */
#include "io/json.h"

#include <string.h>

static hd_error refuse(const hd_json *j, const char *expected) {
    return HD_BAD("is no JSON at byte %lld of it: expected %s", (long long)(j->at - j->begin), expected);
}

static void skip_spaces(hd_json *j) {
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t')) ++j->at;
}

bool hd_json_takes(hd_json *j, char c) {
    skip_spaces(j);
    const bool is = j->at < j->end && *j->at == c;
    j->at += is;
    return is;
}

hd_error hd_json_take(hd_json *j, char c) { return hd_json_takes(j, c) ? HD_OK : refuse(j, (const char[]){c, '\0'}); }

/* ---- strings ----------------------------------------------------------------------------------------------------- */
/* Four digits of \u. */
static hd_error read_unit(hd_json *j, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; ++i, ++j->at) {
        const char c = j->at < j->end ? *j->at : '\0';
        const char *digits = "0123456789abcdef",
                   *digit = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
        if (digit == NULL) return refuse(j, "four digits of a character's number");
        *out = *out << 4 | (uint32_t)(digit - digits);
    }
    return HD_OK;
}

static void put_character(hd_text *out, uint32_t c) {
    unsigned char b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (unsigned char)c;
    } else {
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        b[n++] = (unsigned char)((0xff00 >> (more + 1) & 0xff) | c >> 6 * more);
        for (int i = more - 1; i >= 0; --i) b[n++] = (unsigned char)(0x80 | (c >> 6 * i & 0x3f));
    }
    hd_text_put(out, b, n);
}

static hd_error read_escape(hd_json *j, hd_text *out) {
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char c = j->at < j->end ? *j->at : '\0', *name = c != '\0' ? strchr(names, c) : NULL;
    uint32_t unit, low;
    if (name != NULL) {
        hd_text_put(out, &means[name - names], 1);
        ++j->at;
        return HD_OK;
    }
    if (c != 'u') return refuse(j, "a character behind \\");
    ++j->at;
    HD_TRY(read_unit(j, &unit));
    if (unit >= 0xd800 && unit < 0xdc00) { /* the first half of a pair */
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') return refuse(j, "the second half of a pair");
        j->at += 2;
        HD_TRY(read_unit(j, &low));
        if (low < 0xdc00 || low > 0xdfff) return refuse(j, "the second half of a pair");
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    } else if (unit == 0 || (unit >= 0xdc00 && unit < 0xe000)) {
        return refuse(j, unit == 0 ? "no zero in a string" : "the first half of a pair");
    }
    put_character(out, unit);
    return HD_OK;
}

hd_error hd_json_string(hd_json *j, hd_text *out) {
    out->length = 0;
    hd_text_put(out, "", 0);
    if (!hd_json_takes(j, '"')) return refuse(j, "a string");
    for (;;) {
        const char *plain = j->at;
        while (j->at < j->end && *j->at != '"' && *j->at != '\\' && (unsigned char)*j->at >= 32) ++j->at;
        hd_text_put(out, plain, (size_t)(j->at - plain));
        if (j->at == j->end || (unsigned char)*j->at < 32) return refuse(j, "the end of a string");
        if (*j->at++ == '"') break;
        HD_TRY(read_escape(j, out));
    }
    if (out->failed) return hd_fail(HD_ERROR_MEMORY, "no memory to read a file");
    return hd_is_utf8(out->at, out->length) ? HD_OK : refuse(j, "UTF-8 in a string");
}

/* ---- numbers, and what is not looked at -------------------------------------------------------------------------- */
static bool is_digit(const hd_json *j) { return j->at < j->end && *j->at >= '0' && *j->at <= '9'; }

hd_error hd_json_whole(hd_json *j, uint64_t *out) {
    *out = 0;
    skip_spaces(j);
    if (!is_digit(j)) return refuse(j, "a whole number that is not negative");
    if (*j->at == '0') {
        ++j->at;
        return is_digit(j) ? refuse(j, "no digit behind a leading 0") : HD_OK;
    }
    for (; is_digit(j); ++j->at)
        if (__builtin_mul_overflow(*out, 10u, out) || __builtin_add_overflow(*out, (uint64_t)(*j->at - '0'), out))
            return refuse(j, "a number that fits 64 bits");
    if (j->at < j->end && (*j->at == '.' || *j->at == 'e' || *j->at == 'E')) return refuse(j, "a whole number");
    return HD_OK;
}

static hd_error skip_digits(hd_json *j) {
    if (!is_digit(j)) return refuse(j, "a digit");
    while (is_digit(j)) ++j->at;
    return HD_OK;
}

static hd_error skip_number(hd_json *j) {
    if (*j->at == '-') ++j->at;
    const bool zero = j->at < j->end && *j->at == '0';
    HD_TRY(zero ? (++j->at, HD_OK) : skip_digits(j));
    if (j->at < j->end && *j->at == '.') {
        ++j->at;
        HD_TRY(skip_digits(j));
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        ++j->at;
        if (j->at < j->end && (*j->at == '+' || *j->at == '-')) ++j->at;
        HD_TRY(skip_digits(j));
    }
    return HD_OK;
}

static hd_error skip_word(hd_json *j) {
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; ++i) {
        const size_t length = strlen(words[i]);
        if ((size_t)(j->end - j->at) < length || memcmp(j->at, words[i], length) != 0) continue;
        j->at += length;
        return HD_OK;
    }
    return refuse(j, "a value");
}

static hd_error skip_value(hd_json *j, hd_text *scratch, int depth) {
    bool first = true;
    skip_spaces(j);
    if (j->at == j->end) return refuse(j, "a value");
    if (depth > HD_JSON_DEPTH) return HD_BAD("is JSON that is more than %d levels deep", (int)HD_JSON_DEPTH);
    if (*j->at == '"') return hd_json_string(j, scratch);
    if (*j->at == '-' || is_digit(j)) return skip_number(j);
    if (hd_json_takes(j, '{')) {
        while (hd_json_member(j, &first, scratch)) HD_TRY(skip_value(j, scratch, depth + 1));
        return hd_thread_self()->error_code;
    }
    if (hd_json_takes(j, '[')) {
        while (hd_json_element(j, &first)) HD_TRY(skip_value(j, scratch, depth + 1));
        return hd_thread_self()->error_code;
    }
    return skip_word(j);
}

hd_error hd_json_skip(hd_json *j) {
    hd_text scratch = {.at = NULL};
    const hd_error status = skip_value(j, &scratch, 1);
    hd_text_release(&scratch);
    return status;
}

/* ---- objects and lists ------------------------------------------------------------------------------------------- */
bool hd_json_member(hd_json *j, bool *first, hd_text *key) {
    if (hd_json_takes(j, '}')) return false;
    if (!*first && hd_json_take(j, ',') != HD_OK) return false;
    *first = false;
    return hd_json_string(j, key) == HD_OK && hd_json_take(j, ':') == HD_OK;
}

bool hd_json_element(hd_json *j, bool *first) {
    if (hd_json_takes(j, ']')) return false;
    if (!*first && hd_json_take(j, ',') != HD_OK) return false;
    *first = false;
    return true;
}

hd_error hd_json_end(hd_json *j) {
    skip_spaces(j);
    return j->at == j->end ? HD_OK : refuse(j, "the end");
}
