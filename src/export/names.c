/* Names and literals of C. */
#include "export/net.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool hd_c_name(const char *text, char *out, size_t capacity) {
    size_t n = 0;
    for (const char *c = text; *c != '\0' && n + 2 < capacity; ++c) {
        if (n == 0 && isdigit((unsigned char)*c)) out[n++] = '_';
        out[n++] = (isalnum((unsigned char)*c) && (unsigned char)*c < 128) ? *c : '_';
    }
    out[n] = '\0';
    return n > 0;
}

bool hd_c_is_name(const char *text) {
    static const char *const taken[] = {
        "auto",     "break",   "case",    "char",      "const",     "continue", "default",       "do",
        "double",   "else",    "enum",    "extern",    "float",     "for",      "goto",          "if",
        "inline",   "int",     "long",    "register",  "restrict",  "return",   "short",         "signed",
        "sizeof",   "static",  "struct",  "switch",    "typedef",   "union",    "unsigned",      "void",
        "volatile", "while",   "bool",    "true",      "false",     "asm",      "class",         "delete",
        "new",      "private", "public",  "protected", "template",  "this",     "throw",         "try",
        "catch",    "using",   "virtual", "operator",  "namespace", "friend",   "typename",      "export",
        "explicit", "mutable", "alignas", "alignof",   "constexpr", "nullptr",  "static_assert", "thread_local",
        "typeof",   "near",    "far",     "n",         "a",         "s",        "status"};
    if (!(isalpha((unsigned char)text[0]) || text[0] == '_')) return false;
    for (const char *c = text; *c != '\0'; ++c)
        if (!isalnum((unsigned char)*c) && *c != '_') return false;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; ++i)
        if (strcmp(text, taken[i]) == 0) return false;
    return true;
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
