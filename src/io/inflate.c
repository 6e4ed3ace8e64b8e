/* Deflated bytes, by zlib, which is opened when the first are met. */
#include "core/environment.h"
#include "core/late.h"
#include "core/os.h"
#include "io/io.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>

/* zlib's own struct, as all of its versions since 1.0 lay it out. */
typedef struct stream {
    const unsigned char *next_in;
    unsigned available_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned available_out;
    unsigned long total_out;
    const char *message;
    void *state;
    void *(*allocate)(void *, unsigned, unsigned);
    void (*release)(void *, void *);
    void *user;
    int data_type;
    unsigned long check, reserved;
} stream;
enum { ZLIB_OK = 0, ZLIB_END = 1, ZLIB_NO_MEMORY = -4, ZLIB_RAW = -15, ZLIB_GO_ON = 0 };

static struct {
    pthread_once_t once;
    char missing[400]; /* "": it is there */
    const char *(*version)(void);
    int (*begin)(stream *s, int window, const char *version, int bytes);
    int (*run)(stream *s, int flush);
    int (*end)(stream *s);
} zlib = {.once = PTHREAD_ONCE_INIT};

static const char remedy[] = "install zlib (Debian: zlib1g), say where it is with HODU_ZLIB=path, or save with "
                             "numpy.savez, which does not compress";

static void *open_any(void) {
    static const char *const names[] = {"libz.so.1", "libz.dylib"};
    const char *given = hd_environment("HODU_ZLIB");
    if (given != NULL) /* it is meant: no other place is looked at */
        return hd_driver_open(given, "zlib", "zlib at HODU_ZLIB", remedy, zlib.missing, sizeof zlib.missing);
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; ++i)
        library = hd_driver_open(names[i], "zlib", "zlib", remedy, zlib.missing, sizeof zlib.missing);
    return library;
}

static void open_once(void) {
    void *library = open_any();
    if (library == NULL) return;
    *(void **)&zlib.version = hd_os_library_symbol(library, "zlibVersion");
    *(void **)&zlib.begin = hd_os_library_symbol(library, "inflateInit2_");
    *(void **)&zlib.run = hd_os_library_symbol(library, "inflate");
    *(void **)&zlib.end = hd_os_library_symbol(library, "inflateEnd");
    zlib.missing[0] = '\0'; /* what an earlier name had said */
    if (zlib.version == NULL || zlib.begin == NULL || zlib.run == NULL || zlib.end == NULL)
        snprintf(zlib.missing, sizeof zlib.missing, "the zlib that is here has no inflate; %s", remedy);
}

static unsigned at_most(size_t count) { return count < UINT_MAX ? (unsigned)count : UINT_MAX; }

hd_error hd_inflate(const void *from, size_t count, void *out, size_t capacity) {
    pthread_once(&zlib.once, open_once);
    if (zlib.missing[0] != '\0') return hd_fail(HD_ERROR_STATE, "is compressed: %s", zlib.missing);
    const unsigned char *const end = (const unsigned char *)from + count;
    unsigned char *const out_end = (unsigned char *)out + capacity;
    stream s = {.next_in = from, .next_out = out};
    if (zlib.begin(&s, ZLIB_RAW, zlib.version(), (int)sizeof s) != ZLIB_OK)
        return hd_fail(HD_ERROR_MEMORY, "cannot be read: zlib has no memory");
    int status = ZLIB_OK;
    do {
        s.available_in = at_most((size_t)(end - s.next_in));
        s.available_out = at_most((size_t)(out_end - s.next_out));
        status = zlib.run(&s, ZLIB_GO_ON);
    } while (status == ZLIB_OK);
    const bool whole = status == ZLIB_END && s.next_out == out_end && s.next_in == end;
    zlib.end(&s);
    if (status == ZLIB_NO_MEMORY) return hd_fail(HD_ERROR_MEMORY, "cannot be read: zlib has no memory");
    return whole ? HD_OK
                 : HD_BAD("is damaged: its compressed bytes do not become the %zu that it should have", capacity);
}
