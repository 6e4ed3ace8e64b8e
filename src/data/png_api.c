/* libpng, opened at first use, once in a process. */
#include "data/png_api.h"
#include "core/late.h"
#include "core/os.h"

#include <pthread.h>
#include <stdio.h>

static struct {
    pthread_once_t once;
    char missing[400]; /* "": it is there */
    hd_png_api api;
} png = {.once = PTHREAD_ONCE_INIT};

static void open_once(void) {
    static const char *const names[] = {"libpng16.so.16", "libpng16.16.dylib"};
    static const char remedy[] = "install it (Debian: libpng16-16)";
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; ++i)
        library = hd_driver_open(names[i], "libpng", "libpng 1.6", remedy, png.missing, sizeof png.missing);
    if (library == NULL) return;
    png.missing[0] = '\0'; /* what an earlier name had said */
#define FUNCTION(result, name, parameters)                                                                             \
    *(void **)&png.api.name = hd_os_library_symbol(library, "png_" #name);                                             \
    if (png.api.name == NULL)                                                                                          \
        snprintf(png.missing, sizeof png.missing, "the libpng that is here has no png_" #name "; %s", remedy);
    HD_PNG_FUNCTIONS(FUNCTION)
#undef FUNCTION
}

const hd_png_api *hd_png_open(void) {
    pthread_once(&png.once, open_once);
    if (png.missing[0] == '\0') return &png.api;
    hd_fail(HD_ERROR_STATE, "%s", png.missing);
    return NULL;
}
