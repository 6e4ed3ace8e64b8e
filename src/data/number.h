/* Numbers in text, as C writes decimal ones, and whatever the program's locale is. */
#ifndef HD_DATA_NUMBER_H
#define HD_DATA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All of `text` is one number: with a point, an exponent, "inf" or "nan", in any case. */
bool hd_number_read(const char *text, size_t length, double *out);
/* All of it is an integer that fits. */
bool hd_integer_read(const char *text, size_t length, int64_t *out);

#endif
