/* Names and literals of C. */
#include "export/net.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void hd_c_name(const char *text, char *out, size_t capacity) {
    size_t n = 0;
    for (const char *c = text; *c != '\0' && n + 2 < capacity; ++c) {
        if (n == 0 && isdigit((unsigned char)*c)) out[n++] = '_';
        out[n++] = (isalnum((unsigned char)*c) && (unsigned char)*c < 128) ? *c : '_';
    }
    out[n] = '\0';
}

/* Words of C up to C23 and of C++ up to C++20, macros that compilers have without being asked, and what the text says,
 * each with a space before it. */
static const char taken[] =
    " alignas alignof and and_eq arena asm auto bitand bitor bool break case catch char char16_t char32_t char8_t"
    " class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue"
    " decltype default delete do double draw dynamic_cast else enum explicit export extern false far float for"
    " friend goto i386 if inline int linux long memcpy memset mutable n namespace near new noexcept not not_eq"
    " nullptr offsetof operator or or_eq private protected ptrdiff_t public random register reinterpret_cast"
    " requires restrict return seed short signed size_t sizeof state static static_assert static_cast struct switch"
    " template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unix unsigned"
    " using virtual void volatile wchar_t while xor xor_eq CT INFINITY LANES NAN NULL"
    " c_f32 c_f64 ";

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }
static bool ends(const char *text, const char *with) {
    const size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

/* Names that C keeps for compilers, types and bounds of <stdint.h>, and macros of the text. */
static bool is_of_a_kind(const char *text) {
    if (text[0] == '_' && (isupper((unsigned char)text[1]) || text[1] == '_')) return text[strspn(text, "_")] != '\0';
    if ((begins(text, "int") || begins(text, "uint")) && ends(text, "_t")) return true;
    if (begins(text, "W_") || begins(text, "NET_")) return true;
    return strpbrk(text, "abcdefghijklmnopqrstuvwxyz") == NULL &&
           (ends(text, "_MAX") || ends(text, "_MIN") || ends(text, "_C"));
}

bool hd_c_is_name(const char *text) {
    if (!(isalpha((unsigned char)text[0]) || text[0] == '_')) return false;
    for (const char *c = text; *c != '\0'; ++c)
        if (!isalnum((unsigned char)*c) && *c != '_') return false;
    for (const char *at = taken; (at = strstr(at, text)) != NULL; ++at)
        if (at[-1] == ' ' && at[strlen(text)] == ' ') return false;
    return !is_of_a_kind(text);
}

/* In a comment nothing may end it, begin another, be read before comments are (a backslash, a trigraph), or turn the
 * direction of letters (in UTF-8 0xe2 0x80 or 0x81 and one more, which are signs that nobody sees, and dashes). */
void hd_c_say_in_comment(hd_c_text *t, const char *text) {
    char last = ' ';
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; last = (char)*c++) {
        const bool is_sign = *c == 0xe2 && (c[1] == 0x80 || c[1] == 0x81) && c[2] != '\0';
        const bool is_seen = *c >= ' ' && *c != '\\' && *c != 127 && !(*c == '?' && last == '?') &&
                             !(*c == '/' && last == '*') && !(*c == '*' && last == '/');
        hd_c_text_say(t, is_seen && !is_sign ? "%c" : "_", *c);
        if (is_sign) c += 2;
    }
}

const char *hd_c_type(hd_dtype dtype) {
    if (dtype == HD_F32) return "float";
    if (dtype == HD_F64) return "double";
    if (dtype == HD_BOOL) return "uint8_t";
    if (hd_dtype_is_float(dtype)) return hd_dtype_bytes[dtype] == 2 ? "uint16_t" : "uint8_t";
    static const char *const whole[2][4] = {{"uint8_t", "uint16_t", "uint32_t", "uint64_t"},
                                            {"int8_t", "int16_t", "int32_t", "int64_t"}};
    const int size = hd_dtype_bytes[dtype] == 1   ? 0
                     : hd_dtype_bytes[dtype] == 2 ? 1
                     : hd_dtype_bytes[dtype] == 4 ? 2
                                                  : 3;
    return whole[hd_dtype_is_signed(dtype)][size];
}
const char *hd_c_compute_type(hd_dtype dtype) { return hd_dtype_is_small_float(dtype) ? "float" : hd_c_type(dtype); }

static void say_float(hd_c_text *t, double v, bool is_f32) {
    char digits[40];
    if (v != v || isinf(v)) {
        hd_c_text_say(t, "%s%s", v < 0 ? "-" : "", v != v ? "NET_NAN" : "NET_INFINITY");
        return;
    }
    snprintf(digits, sizeof digits, "%.*g", is_f32 ? 9 : 17, v);
    hd_c_text_say(t, "%s%s%s", digits, strpbrk(digits, ".en") == NULL ? ".0" : "", is_f32 ? "f" : "");
}

void hd_say_element_of(hd_c_text *t, hd_dtype dtype, const void *element) {
    uint64_t bits = 0;
    memcpy(&bits, element, hd_dtype_bytes[dtype]);
    if (dtype == HD_F32 || dtype == HD_F64) {
        say_float(t, hd_element_to_f64(element, dtype), dtype == HD_F32);
    } else if (hd_dtype_is_float(dtype)) {
        hd_c_text_say(t, "0x%llx", (unsigned long long)bits);
    } else if (hd_dtype_is_signed(dtype)) {
        const int64_t v = (int64_t)hd_element_to_i64(element, dtype);
        if (v == INT64_MIN)
            hd_c_text_say(t, "(-9223372036854775807 - 1)");
        else if (v == INT32_MIN)
            hd_c_text_say(t, "(-2147483647 - 1)");
        else
            hd_c_text_say(t, "%lld", (long long)v);
    } else {
        hd_c_text_say(t, "%lluu", (unsigned long long)bits);
    }
}
