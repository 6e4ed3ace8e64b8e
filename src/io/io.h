/* What the files of this room share: the archive, how tensors become bytes, and reading what nobody vouches for. */
#ifndef HD_IO_IO_H
#define HD_IO_IO_H

#include "core/away.h"
#include "core/file.h"
#include "core/object.h"
#include "core/options.h"
#include "core/os_file.h"
#include "core/tensor.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the elements of tensors in files are little endian; on this machine they would have to be turned around"
#endif

#define HD_BAD(...) hd_fail(HD_ERROR_VALUE, __VA_ARGS__)

/* At the door of every function that has a path: that the library has files, and the path is one. */
hd_error hd_io_check_path(const char *path);

/* ---- archives ---------------------------------------------------------------------------------------------------- */
typedef struct hd_named {
    char *name;
    void *value; /* an hd_tensor, retained, or a text of its own */
} hd_named;

/* Entries in the order they came, found by name. */
typedef struct hd_names {
    hd_named *items;
    int64_t count, capacity;
    uint32_t *table; /* 1 + the place of an entry, at the hash of its name; 0: nobody */
    uint64_t slots;  /* a power of two, at least twice the capacity */
} hd_names;

struct hd_archive {
    hd_object object;
    hd_names tensors, texts;
    bool is_loaded; /* its tensors are those of a file, here; who takes one gets it on the thread's device */
};

hd_error hd_archive_check(const hd_archive *archive, const char *parameter);
/* A new archive that the caller's scope owns; NULL with an error. */
hd_archive *hd_archive_make(hd_thread *thread);
/* Adds t with one more reference; an error when the name is taken, empty or no UTF-8. */
hd_error hd_archive_put(hd_thread *thread, hd_archive *archive, const char *name, hd_tensor *t);
hd_error hd_archive_put_text(hd_archive *archive, const char *key, const char *text);
/* The entry of that name; NULL: there is none. */
hd_named *hd_names_find(const hd_names *names, const char *name);
/* True for text that is UTF-8 as the standard has it: no overlong forms, no halves of pairs. */
bool hd_is_utf8(const char *text, size_t length);

/* ---- tensors as bytes -------------------------------------------------------------------------------------------- */
/* Calls `use` with all elements of a tensor in row-major order, wherever they are. */
hd_error hd_io_with_bytes(hd_thread *thread, hd_tensor *t, hd_error (*use)(void *user, const void *bytes, size_t count),
                          void *user);
/* A row-major tensor that was made here, on the thread's device, in the current scope; takes the reference. */
hd_tensor *hd_io_hand_out(hd_thread *thread, hd_tensor *t);
/* True when all are 0 or 1, as bool has to be. */
bool hd_io_are_bools(const void *bytes, size_t count);

/* ---- growing text ------------------------------------------------------------------------------------------------ */
typedef struct hd_text {
    char *at;
    size_t length, capacity;
    bool failed; /* there was no memory */
} hd_text;
void hd_text_put(hd_text *t, const void *bytes, size_t count);
void hd_text_print(hd_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void hd_text_release(hd_text *t) { hd_array_release(t->at); }

/* ---- a file that is read ----------------------------------------------------------------------------------------- */
/* Bytes that are in a file, or, with a descriptor of -1, here. */
typedef struct hd_source {
    int descriptor;
    const unsigned char *bytes;
    uint64_t size;
} hd_source;
hd_error hd_source_open(hd_source *s, const char *path);
void hd_source_close(hd_source *s);
hd_error hd_source_read(const hd_source *s, void *out, uint64_t bytes, uint64_t offset);

/* ---- .npy -------------------------------------------------------------------------------------------------------- */
/* The array whose bytes are those of the source from `offset` to `offset + bytes`: a tensor of the CPU, in a reference
 * that is the caller's; NULL with an error. */
hd_tensor *hd_npy_read(hd_thread *thread, const hd_source *s, uint64_t offset, uint64_t bytes);
/* What stands in front of a tensor's elements; an error when NumPy has no such dtype. */
hd_error hd_npy_head(const hd_tensor *t, hd_text *out);

/* ---- .npz -------------------------------------------------------------------------------------------------------- */
/* Continues the CRC-32 of what came before (0 at first). */
uint32_t hd_crc32(uint32_t crc, const void *bytes, size_t count);
/* Raw deflated bytes; exactly `capacity` of them come out, or it is an error. */
hd_error hd_inflate(const void *from, size_t count, void *out, size_t capacity);

#endif
