/* The smallest program: makes one tensor and exits. bench_process runs it and takes the time; with any argument it
 * prints the most memory it held, in MB. */
#include "most_resident.h"

#include <hodu/hodu.h>

int main(int argc, char **argv) {
    (void)argv;
    HD_SCOPE;
    hd_ones(HD_SHAPE(2, 3), HD_F32);
    if (argc > 1) printf("%.3f\n", most_resident_mb());
    return hd_exit_status();
}
