/* What is printed on stderr between two points. */
#ifndef HD_TESTS_PRINTED_H
#define HD_TESTS_PRINTED_H

#include "support.h"

#include <unistd.h>

typedef struct printed {
    FILE *file;
    int before;
} printed;

static inline printed printed_begin(void) {
    fflush(stderr);
    const printed p = {tmpfile(), dup(STDERR_FILENO)};
    assert_non_null(p.file);
    assert_true(p.before >= 0 && dup2(fileno(p.file), STDERR_FILENO) >= 0);
    return p;
}

/* As much of it as there is room for. */
static inline void printed_end(printed p, char *text, size_t capacity) {
    fflush(stderr);
    dup2(p.before, STDERR_FILENO);
    close(p.before);
    rewind(p.file);
    text[fread(text, 1, capacity - 1, p.file)] = '\0';
    fclose(p.file);
}

#endif
