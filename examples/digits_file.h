/* The handwritten digits of data/digits.txt, for the examples that learn from them. Every fifth image is for the test,
 * the others are for training: 359 and 1,438. */
#ifndef EXAMPLES_DIGITS_FILE_H
#define EXAMPLES_DIGITS_FILE_H

#include <hodu/hodu.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HODU_EXAMPLE_DATA
#define HODU_EXAMPLE_DATA "examples/data"
#endif
#define DIGITS_FILE HODU_EXAMPLE_DATA "/digits.txt"

enum { PIXELS = 64, CLASSES = 10, FEWEST_IMAGES = 100 };

typedef struct image {
    uint8_t label, pixel[PIXELS]; /* 0 to 9; 0 (paper) to 16 (ink) */
} image;

_Static_assert(sizeof(image) == 1 + PIXELS, "an array of images is a matrix of bytes");

/* "7 003e..": a digit, a space, a character 0-9, a-g for each pixel; data/README.md says more. */
static inline bool parse(const char *line, image *out) {
    static const char values[] = "0123456789abcdefg";
    if (strlen(line) != 2 + PIXELS || line[0] < '0' || line[0] > '9' || line[1] != ' ') return false;
    out->label = (uint8_t)(line[0] - '0');
    for (int i = 0; i < PIXELS; ++i) {
        const char *at = strchr(values, line[2 + i]);
        if (!at) return false;
        out->pixel[i] = (uint8_t)(at - values);
    }
    return true;
}

/* Reads all images of a file into *images, which is the caller's to free; -1 after saying what is wrong. */
static inline int64_t load(const char *path, image **images) {
    *images = NULL;
    FILE *file = fopen(path, "r");
    if (!file) return fprintf(stderr, "digits: %s: %s\n", path, strerror(errno)), -1;
    int64_t count = 0, room = 0;
    const char *wrong = NULL;
    for (char line[128]; !wrong && fgets(line, sizeof line, file); ++count) {
        line[strcspn(line, "\r\n")] = '\0';
        if (count == room) {
            room = room ? 2 * room : 1024;
            image *more = realloc(*images, (size_t)room * sizeof **images);
            if (!more)
                wrong = "there is no memory for it";
            else
                *images = more;
        }
        if (!wrong && !parse(line, *images + count)) wrong = "not a digit, a space and 64 pixels 0-9, a-g";
    }
    if (!wrong && ferror(file)) wrong = "it cannot be read further";
    if (!wrong && count < FEWEST_IMAGES) wrong = "the file ends here: too few images to learn from";
    fclose(file);
    if (!wrong) return count;
    return fprintf(stderr, "digits: %s, line %lld: %s\n", path, (long long)count, wrong), -1;
}

typedef struct digits {
    hd_tensor *images, *labels; /* [n,64] f32 in 0..1; [n] i64 */
} digits;

static inline digits digits_of(const image *from, int64_t count) {
    hd_tensor *bytes = hd_from_data(from, HD_SHAPE(count, 1 + PIXELS), HD_U8); /* an image is 65 bytes, label first */
    return (digits){hd_div_scalar(hd_cast(hd_narrow(bytes, 1, 1, PIXELS), HD_F32), 16),
                    hd_cast(hd_select(bytes, 1, 0), HD_I64)};
}

static inline void split(const image *from, int64_t count, digits *train, digits *test) {
    const digits all = digits_of(from, count);
    hd_tensor *some_images[4], *some_labels[4];
    for (int k = 0; k < 4; ++k) {
        some_images[k] = hd_slice(all.images, 0, k, HD_END, 5);
        some_labels[k] = hd_slice(all.labels, 0, k, HD_END, 5);
    }
    *train = (digits){hd_concat(some_images, 4, 0), hd_concat(some_labels, 4, 0)};
    *test = (digits){hd_slice(all.images, 0, 4, HD_END, 5), hd_slice(all.labels, 0, 4, HD_END, 5)};
}

#endif
