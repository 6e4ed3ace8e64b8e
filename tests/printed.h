/* What is printed on stderr between two points. */
#ifndef HD_TESTS_PRINTED_H
#define HD_TESTS_PRINTED_H

#include "support.h"

#include <sys/wait.h>
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

/* What a program writes to stderr, in a process of its own. */
static inline void stderr_of(void (*program)(void), char *text, size_t capacity) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        hd_set_device(hd_cpu()); /* devices are the parent's */
        program();
        fflush(stderr);
        _exit(hd_ok() ? 0 : 1);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, capacity - 1 - length)) > 0;) length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

#endif
