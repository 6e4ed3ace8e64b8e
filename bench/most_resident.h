/* The most memory this process held. A process asks for its own figure because what a parent is told of a child counts
 * the pages both shared before exec. */
#ifndef BENCH_MOST_RESIDENT_H
#define BENCH_MOST_RESIDENT_H

#include <stdio.h>

static inline double most_resident_mb(void) {
    char line[256];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) return 0;
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
    fclose(status);
    return (double)kilobytes / 1024;
}

#endif
