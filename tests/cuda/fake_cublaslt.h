/* What tests wish of the fake of cuBLASLt, and what it has seen. */
#ifndef HD_TESTS_FAKE_CUBLASLT_H
#define HD_TESTS_FAKE_CUBLASLT_H

#include <stddef.h>

typedef struct fake_cublaslt {
    /* wishes */
    size_t workspace;  /* that algorithms need */
    int refused;       /* so many of the first algorithms that it proposes do not work; -1: it proposes none */
    int fails_in;      /* after so many more calls one fails; 0: none does */
    int fails_by;      /* with this status */
    int fails_forever; /* all that follow, too */
    /* seen */
    int handles, found, multiplied, computed, made, released; /* descriptors */
    int tf32, biases, batched;                                /* of what was multiplied */
    const char *wrong;                                        /* what the library would not have taken; NULL */
} fake_cublaslt;

#endif
