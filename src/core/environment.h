/* Variables of the environment. One with a value that means nothing is as if it were not set, and says so. */
#ifndef HD_CORE_ENVIRONMENT_H
#define HD_CORE_ENVIRONMENT_H

#include <stddef.h>

/* The value of a variable; NULL: it is not set, or empty. */
const char *hd_environment(const char *name);
/* Says on stderr that a variable has a word that means nothing, and what it takes. Once for each variable: `name` is a literal. */
void hd_environment_unknown(const char *name, const char *word, size_t length, const char *takes);

#endif
