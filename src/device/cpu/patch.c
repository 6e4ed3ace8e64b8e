/* A panel of pixels is cut into runs along rows of the grid; each is a run of the image, or zeros, for every
 * channel. */
#include "device/cpu/patch.h"
#include "device/cpu/sizes.h"

/* Where (start + i * step) reaches `bound`, for i in [0, n]. A run mostly ends before: then nothing is divided. */
static int64_t reaches(int64_t start, int64_t step, int64_t bound, int64_t n) {
    if (start >= bound) return 0;
    return start + (n - 1) * step < bound ? n : (bound - start + step - 1) / step;
}

void hd_patches(const hd_patch_map *m, const int64_t base[3], hd_patch_pixel first, int64_t count, const char *x,
                int64_t channels, char *out, int64_t row) {
    int64_t column = first.column, line = first.line, sheet = first.sheet;
    const int64_t bytes = (int64_t)m->bytes, step = m->step[2];
    for (int64_t at = 0; at < count;) {
        const int64_t n = hd_least(m->grid[2] - column, count - at);
        const int64_t z = sheet * m->step[0] + base[0], y = line * m->step[1] + base[1],
                      start = column * step + base[2];
        char *to = out + at * bytes;
        int64_t begin = n, end = n; /* of the run, the part inside the image */
        if (z >= 0 && z < m->image[0] && y >= 0 && y < m->image[1]) {
            begin = reaches(start, step, 0, n);
            end = reaches(start, step, m->image[2], n);
        }
        if (begin > 0) m->runs(to, row, NULL, 0, channels, begin, 1);
        if (end > begin)
            m->runs(to + begin * bytes, row, x + ((z * m->image[1] + y) * m->image[2] + start + begin * step) * bytes,
                    m->plane, channels, end - begin, step);
        if (n > end) m->runs(to + end * bytes, row, NULL, 0, channels, n - end, 1);
        at += n;
        column = 0;
        if (++line == m->grid[1]) {
            line = 0;
            ++sheet;
        }
    }
}
