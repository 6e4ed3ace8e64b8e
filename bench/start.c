/* The smallest program: makes one tensor and exits. bench_process runs it and takes the time; with any argument it
 * prints the most memory it held, in MB. It asks for its own figure because what a parent is told of a child counts
 * the pages both shared before exec. */
#include <hodu/hodu.h>
#include <stdio.h>

static double most_resident_mb(void) {
    char line[256];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) return 0;
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
    fclose(status);
    return (double)kilobytes / 1024;
}

int main(int argc, char **argv) {
    (void)argv;
    HD_SCOPE;
    hd_ones(HD_SHAPE(2, 3), HD_F32);
    if (argc > 1) printf("%.3f\n", most_resident_mb());
    return hd_exit_status();
}
