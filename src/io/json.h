/* JSON, read strictly and one value after the other: no comments, no commas too many, no invalid UTF-8, and nothing is
 * deeper than a few levels. Strings become C strings, so that none has a zero in it. */
#ifndef HD_IO_JSON_H
#define HD_IO_JSON_H

#include "io/io.h"

enum { HD_JSON_DEPTH = 16 };
typedef struct hd_json {
    const char *begin, *at, *end;
} hd_json;

/* Each takes what comes next, or fails. */
hd_error hd_json_take(hd_json *j, char c);
/* True, and taken, when this character comes next. */
bool hd_json_takes(hd_json *j, char c);
hd_error hd_json_string(hd_json *j, hd_text *out);
hd_error hd_json_whole(hd_json *j, uint64_t *out);
/* Any value. */
hd_error hd_json_skip(hd_json *j);
/* The next member of an object that was opened with {: its key, and the colon is taken. False behind the last one, whose
 * } is taken, and on failure, with an error. `first` is true at first and then the function's own. */
bool hd_json_member(hd_json *j, bool *first, hd_text *key);
/* Likewise of a list that was opened with [. */
bool hd_json_element(hd_json *j, bool *first);
/* Nothing follows but spaces. */
hd_error hd_json_end(hd_json *j);

#endif
