/* Patches: what one tap of a convolution's window sees at successive pixels, with zeros outside of the image. All
 * images have three axes here; those that an image lacks have size 1. */
#ifndef HD_DEVICE_CPU_PATCH_H
#define HD_DEVICE_CPU_PATCH_H

#include "device/cpu/cpu.h"

/* Pixel (z, y, x) of the grid reads the image at (z, y, x) * step + base of the tap. */
typedef struct hd_patch_map {
    int64_t image[3], grid[3], step[3];
    int64_t plane; /* elements of one channel */
    hd_run_kernel runs;
    size_t bytes;
} hd_patch_map;

/* A pixel of the grid. */
typedef struct hd_patch_pixel {
    int64_t sheet, line, column;
} hd_patch_pixel;
static inline hd_patch_pixel hd_patch_pixel_of(const hd_patch_map *m, int64_t index) {
    const int64_t line = index / m->grid[2];
    return (hd_patch_pixel){line / m->grid[1], line % m->grid[1], index - line * m->grid[2]};
}
/* out[r * row + i], for `channels` rows and `count` pixels from `first` on: channel r of x, as the tap sees it. */
void hd_patches(const hd_patch_map *map, const int64_t base[3], hd_patch_pixel first, int64_t count, const char *x,
                int64_t channels, char *out, int64_t row);

#endif
