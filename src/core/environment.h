/* Variables of the environment, which nobody else reads. One with a value that means nothing is as if it were not set,
 * and that is said. A program that runs with more rights than its caller (set-uid, set-gid, file capabilities) has been
 * given its environment by somebody with fewer: there, no variable is set. */
#ifndef HD_CORE_ENVIRONMENT_H
#define HD_CORE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a variable; NULL: it is not set, or empty. */
const char *hd_environment(const char *name);
/* True when the environment comes from somebody with the rights of this process. */
bool hd_environment_is_trusted(void);
/* What programs that we start are given: all of it, or, where it is not trusted, where the system's programs lie. */
char *const *hd_environment_for_programs(void);
/* Of a variable that takes 0 or 1; not set: `otherwise`. */
bool hd_environment_flag(const char *name, bool otherwise);
/* True when HODU_DEBUG, a list with commas between, has this word: nan, lines or sync. */
bool hd_environment_debug(const char *word);
/* Up to which of these instruction sets HODU_ISA lets kernels go: all, when it is not set. */
typedef enum hd_isa { HD_ISA_BASELINE, HD_ISA_AVX2, HD_ISA_AVX512, HD_ISA_AMX } hd_isa;
hd_isa hd_environment_isa(void);
/* Says on stderr that a variable has a word that means nothing, and what it takes. Once for each variable: `name` is a
 * literal. */
void hd_environment_unknown(const char *name, const char *word, size_t length, const char *takes);

#endif
