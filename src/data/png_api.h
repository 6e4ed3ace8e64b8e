/* libpng 1.6, which is opened when the first image comes: hodu is built without it, so its functions are declared here,
 * as png.h has them. It reports errors by calling a function that does not return. */
#ifndef HD_DATA_PNG_API_H
#define HD_DATA_PNG_API_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hd_png_struct hd_png_struct; /* png_struct, png_info: nobody looks inside */
typedef struct hd_png_info hd_png_info;
typedef void (*hd_png_say)(hd_png_struct *png, const char *message);
typedef void (*hd_png_move)(hd_png_struct *png, unsigned char *bytes, size_t count);

/* FUNCTION(result, name, parameters) */
#define HD_PNG_FUNCTIONS(FUNCTION)                                                                                     \
    FUNCTION(const char *, get_libpng_ver, (const hd_png_struct *))                                                    \
    FUNCTION(hd_png_struct *, create_read_struct,                                                                      \
             (const char *version, void *user, hd_png_say error, hd_png_say warn))                                     \
    FUNCTION(hd_png_struct *, create_write_struct,                                                                     \
             (const char *version, void *user, hd_png_say error, hd_png_say warn))                                     \
    FUNCTION(hd_png_info *, create_info_struct, (const hd_png_struct *))                                               \
    FUNCTION(void, destroy_read_struct, (hd_png_struct **, hd_png_info **, hd_png_info **))                            \
    FUNCTION(void, destroy_write_struct, (hd_png_struct **, hd_png_info **))                                           \
    FUNCTION(void *, get_error_ptr, (const hd_png_struct *))                                                           \
    FUNCTION(void, set_read_fn, (hd_png_struct *, void *user, hd_png_move read))                                       \
    FUNCTION(void, set_write_fn, (hd_png_struct *, void *user, hd_png_move write, void (*flush)(hd_png_struct *)))     \
    FUNCTION(void, read_info, (hd_png_struct *, hd_png_info *))                                                        \
    FUNCTION(void, set_expand, (hd_png_struct *))                                                                      \
    FUNCTION(void, set_swap, (hd_png_struct *))                                                                        \
    FUNCTION(int, set_interlace_handling, (hd_png_struct *))                                                           \
    FUNCTION(void, read_update_info, (hd_png_struct *, hd_png_info *))                                                 \
    FUNCTION(uint32_t, get_image_width, (const hd_png_struct *, const hd_png_info *))                                  \
    FUNCTION(uint32_t, get_image_height, (const hd_png_struct *, const hd_png_info *))                                 \
    FUNCTION(unsigned char, get_bit_depth, (const hd_png_struct *, const hd_png_info *))                               \
    FUNCTION(unsigned char, get_channels, (const hd_png_struct *, const hd_png_info *))                                \
    FUNCTION(size_t, get_rowbytes, (const hd_png_struct *, const hd_png_info *))                                       \
    FUNCTION(void, read_image, (hd_png_struct *, unsigned char **rows))                                                \
    FUNCTION(void, read_end, (hd_png_struct *, hd_png_info *))                                                         \
    FUNCTION(void, set_IHDR,                                                                                           \
             (const hd_png_struct *, hd_png_info *, uint32_t width, uint32_t height, int depth, int color,             \
              int interlace, int compression, int filter))                                                             \
    FUNCTION(void, write_info, (hd_png_struct *, const hd_png_info *))                                                 \
    FUNCTION(void, write_image, (hd_png_struct *, unsigned char **rows))                                               \
    FUNCTION(void, write_end, (hd_png_struct *, hd_png_info *))

typedef struct hd_png_api {
#define FUNCTION(result, name, parameters) result(*name) parameters;
    HD_PNG_FUNCTIONS(FUNCTION)
#undef FUNCTION
} hd_png_api;

/* NULL with an error that says what to install. */
const hd_png_api *hd_png_open(void);

#endif
