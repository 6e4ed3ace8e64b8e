/* PNG by libpng. An error of its jumps back to `guarded`; what must be known then is in a struct behind a pointer, as
 * local variables may be anything after a jump. */
#include "data/file.h"
#include "data/png_api.h"
#include "core/execute.h"

#include <hodu/data.h>

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

typedef struct work {
    const hd_png_api *api;
    hd_png_struct *png;
    hd_png_info *info;
    jmp_buf jump;
    char message[128];             /* libpng's */
    const unsigned char *at, *end; /* reading: what is left */
    unsigned char *out;            /* writing */
    size_t count, room;
    uint32_t width, height;
    int depth, channels;
    size_t row_bytes;
    unsigned char **rows, *pixels; /* [h,w,c] */
} work;

/* ---- what libpng calls ------------------------------------------------------------------------------------------- */
static void fail(work *w, const char *message) {
    snprintf(w->message, sizeof w->message, "%s", message);
    longjmp(w->jump, 1);
}
static work *work_of(const hd_png_struct *png) { return hd_png_open()->get_error_ptr(png); }
static void on_error(hd_png_struct *png, const char *message) { fail(work_of(png), message); }
static void on_warning(hd_png_struct *png, const char *message) { /* it goes on, and nothing is lost */
    (void)png;
    (void)message;
}
static void on_read(hd_png_struct *png, unsigned char *bytes, size_t count) {
    work *w = work_of(png);
    if ((size_t)(w->end - w->at) < count) fail(w, "it ends too early");
    memcpy(bytes, w->at, count);
    w->at += count;
}
static void on_write(hd_png_struct *png, unsigned char *bytes, size_t count) {
    work *w = work_of(png);
    if (w->room - w->count < count) {
        const size_t room = 2 * w->room + count + 4096;
        unsigned char *out = hd_array_resize(w->out, room);
        if (out == NULL) fail(w, ""); /* no message: no memory */
        w->out = out;
        w->room = room;
    }
    memcpy(w->out + w->count, bytes, count);
    w->count += count;
}
static void on_flush(hd_png_struct *png) { (void)png; }

/* Runs a part of the work; false: an error of libpng's ended it. */
static bool guarded(work *w, void (*part)(work *w)) {
    if (setjmp(w->jump) != 0) return false;
    part(w);
    return true;
}

static hd_error complain(const work *w, const char *what) {
    if (w->message[0] == '\0') return hd_fail(HD_ERROR_MEMORY, "no memory for a PNG image");
    return hd_fail(HD_ERROR_VALUE, "%s: %s", what, w->message);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
static void read_head(work *w) {
    const hd_png_api *p = w->api;
    w->png = p->create_read_struct(p->get_libpng_ver(NULL), w, on_error, on_warning);
    w->info = w->png == NULL ? NULL : p->create_info_struct(w->png);
    if (w->info == NULL) fail(w, "");
    p->set_read_fn(w->png, w, on_read);
    p->read_info(w->png, w->info);
    p->set_expand(w->png);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (p->get_bit_depth(w->png, w->info) == 16) p->set_swap(w->png);
#endif
    p->set_interlace_handling(w->png);
    p->read_update_info(w->png, w->info);
    w->width = p->get_image_width(w->png, w->info);
    w->height = p->get_image_height(w->png, w->info);
    w->depth = p->get_bit_depth(w->png, w->info);
    w->channels = p->get_channels(w->png, w->info);
    w->row_bytes = p->get_rowbytes(w->png, w->info);
}
static void read_rows(work *w) {
    w->api->read_image(w->png, w->rows);
    w->api->read_end(w->png, NULL);
}

static hd_error make_rows(work *w) {
    w->pixels = hd_array_resize(NULL, w->row_bytes * w->height);
    w->rows = hd_array_resize(NULL, w->height * sizeof *w->rows);
    if (w->pixels == NULL || w->rows == NULL)
        return hd_fail(HD_ERROR_MEMORY, "no memory for an image of %u x %u", w->width, w->height);
    for (uint32_t i = 0; i < w->height; ++i) w->rows[i] = w->pixels + w->row_bytes * i;
    return HD_OK;
}

static hd_error read_image(work *w, size_t bytes) {
    /* Deflate packs 1032 bytes into one at best, and a byte holds 8 pixels of up to 4 bytes: no header asks for memory
     * that its file could not fill. */
    enum { MOST_FROM_A_BYTE = 1032 * 8 * 4 };
    if (!guarded(w, read_head)) return complain(w, "no PNG image");
    if (w->row_bytes * w->height / MOST_FROM_A_BYTE > bytes)
        return hd_fail(HD_ERROR_VALUE, "no PNG image: %zu bytes cannot hold the %u x %u pixels that it promises", bytes,
                       w->width, w->height);
    HD_TRY(make_rows(w));
    return guarded(w, read_rows) ? HD_OK : complain(w, "no PNG image");
}

static hd_tensor *as_tensor(const work *w) {
    hd_tensor *t = hd_from_data(w->pixels, HD_SHAPE(w->height, w->width, w->channels), w->depth == 16 ? HD_U16 : HD_U8);
    hd_span span;
    hd_span_begin(&span, hd_thread_self(), "png");
    return hd_span_end(&span, hd_contiguous(hd_permute(t, HD_AXES(2, 0, 1))));
}

hd_tensor *hd_png_parse(const void *bytes, size_t count) {
    HD_ENTER("hd_png_parse", NULL);
    if (bytes == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`bytes` is NULL");
        return NULL;
    }
    work w = {.api = hd_png_open(), .at = bytes, .end = (const unsigned char *)bytes + count};
    if (w.api == NULL) return NULL;
    HD_KEEP_NAME(thread);
    hd_tensor *t = read_image(&w, count) == HD_OK ? as_tensor(&w) : NULL;
    if (w.png != NULL) w.api->destroy_read_struct(&w.png, &w.info, NULL);
    hd_array_release(w.pixels);
    hd_array_release(w.rows);
    return t;
}

hd_tensor *hd_png_load(const char *path) {
    HD_ENTER("hd_png_load", NULL);
    HD_KEEP_NAME(thread);
    hd_file_bytes file;
    HD_TRY_OR(hd_file_read_all(path, &file), NULL);
    HD_HOLD_ERRORS(thread);
    hd_tensor *t = hd_png_parse(file.bytes, file.count);
    if (t == NULL) hd_file_blame(thread, path);
    hd_array_release(file.bytes);
    return t;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
static void write_image(work *w) {
    static const int colors[] = {0, 0, 4, 2, 6}; /* by channels: gray, with alpha, RGB, with alpha */
    const hd_png_api *p = w->api;
    w->png = p->create_write_struct(p->get_libpng_ver(NULL), w, on_error, on_warning);
    w->info = w->png == NULL ? NULL : p->create_info_struct(w->png);
    if (w->info == NULL) fail(w, "");
    p->set_write_fn(w->png, w, on_write, on_flush);
    p->set_IHDR(w->png, w->info, w->width, w->height, w->depth, colors[w->channels], 0, 0, 0);
    p->write_info(w->png, w->info);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (w->depth == 16) p->set_swap(w->png);
#endif
    p->write_image(w->png, w->rows);
    p->write_end(w->png, NULL);
}

static hd_error check_image(const hd_tensor *image) {
    HD_TRY(hd_tensor_check(image, "image"));
    const hd_shape *s = &image->layout.shape;
    if (s->rank != 3 || s->size[0] < 1 || s->size[0] > 4 || image->count == 0 || s->size[1] > INT32_MAX ||
        s->size[2] > INT32_MAX)
        return hd_fail(HD_ERROR_SHAPE, "the image is %s; it must be [c,h,w], with 1 to 4 channels", HD_SHAPE_TEXT(*s));
    if (image->dtype == HD_U8 || image->dtype == HD_U16) return HD_OK;
    return hd_fail(HD_ERROR_DTYPE, "the image is %s; PNG has u8 and u16: hd_cast it",
                   hd_dtype_name((hd_dtype)image->dtype));
}

static hd_error take_pixels(work *w, hd_tensor *image) {
    HD_TRY(make_rows(w));
    hd_scope_token scope = hd_scope_within(hd_thread_self(), &scope);
    hd_to_array(hd_permute(image, HD_AXES(1, 2, 0)), w->pixels, (hd_dtype)image->dtype, (size_t)image->count);
    hd_scope_close(hd_thread_self(), &scope);
    return hd_thread_self()->error_code;
}

void hd_png_save(const char *path, hd_tensor *image) {
    HD_ENTER("hd_png_save", );
    if (path == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
        return;
    }
    if (check_image(image) != HD_OK) return;
    const int64_t *size = image->layout.shape.size;
    work w = {.api = hd_png_open(),
              .channels = (int)size[0],
              .height = (uint32_t)size[1],
              .width = (uint32_t)size[2],
              .depth = image->dtype == HD_U16 ? 16 : 8};
    if (w.api == NULL) return;
    HD_KEEP_NAME(thread);
    w.row_bytes = (size_t)(w.depth / 8 * w.channels) * w.width;
    if (take_pixels(&w, image) == HD_OK) {
        if (guarded(&w, write_image))
            hd_file_write_all(thread, path, w.out, w.count);
        else
            complain(&w, "libpng cannot write the image");
    }
    if (w.png != NULL) w.api->destroy_write_struct(&w.png, &w.info);
    hd_array_release(w.pixels);
    hd_array_release(w.rows);
    hd_array_release(w.out);
}
