/* NumPy's .npy: a few words of Python about dtype, order and shape, then the elements. */
#include "io/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_HEAD = 1 << 16 }; /* NumPy itself writes longer ones for records alone, which are no tensors */
static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
static const struct {
    char code[3];
    hd_dtype dtype;
} dtypes[] = {{"b1", HD_BOOL}, {"u1", HD_U8},  {"u2", HD_U16}, {"u4", HD_U32}, {"u8", HD_U64}, {"i1", HD_I8},
              {"i2", HD_I16},  {"i4", HD_I32}, {"i8", HD_I64}, {"f2", HD_F16}, {"f4", HD_F32}, {"f8", HD_F64}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* "<f4": little endian, or "|u1", which has no order. */
static hd_error dtype_of(const char *descr, hd_dtype *dtype, bool *swapped) {
    const bool ordered = descr[0] != '\0' && strchr("<>|=", descr[0]) != NULL;
    for (int i = 0; i < DTYPES; ++i)
        if (ordered && strcmp(descr + 1, dtypes[i].code) == 0) {
            *dtype = dtypes[i].dtype;
            *swapped = descr[0] == '>';
            return HD_OK;
        }
    return hd_fail(HD_ERROR_DTYPE,
                   "has elements of NumPy's dtype \"%.40s\", of which no tensor is; in Python .astype makes them bool, "
                   "integers or f16, f32, f64",
                   descr);
}

/* ---- the head, as Python writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ------------------ */
typedef struct head {
    const char *at, *end;
    char descr[48];
    bool fortran_order;
    hd_shape shape;
    bool seen[3]; /* the three above */
} head;

static void skip_spaces(head *h) {
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t' || *h->at == '\r')) ++h->at;
}
static bool takes(head *h, char c) {
    skip_spaces(h);
    const bool is = h->at < h->end && *h->at == c;
    h->at += is;
    return is;
}
static bool takes_word(head *h, const char *word) {
    skip_spaces(h);
    const size_t length = strlen(word);
    const bool is = (size_t)(h->end - h->at) >= length && memcmp(h->at, word, length) == 0;
    if (is) h->at += length;
    return is;
}
static hd_error refuse(const head *h, const char *expected) {
    const int left = h->end - h->at < 20 ? (int)(h->end - h->at) : 20;
    return HD_BAD("has a head that is damaged: %s should be where \"%.*s\" is", expected, left, h->at);
}

static hd_error read_string(head *h, char *out, size_t capacity) {
    skip_spaces(h);
    const char quote = h->at < h->end ? *h->at : '\0';
    if (quote != '\'' && quote != '"') return refuse(h, "a string");
    const char *begin = ++h->at;
    while (h->at < h->end && *h->at != quote && *h->at != '\\' && *h->at != '\0') ++h->at;
    const size_t length = (size_t)(h->at - begin);
    if (h->at == h->end || *h->at != quote || length >= capacity) return refuse(h, "the end of a short string");
    memcpy(out, begin, length);
    out[length] = '\0';
    ++h->at;
    return HD_OK;
}

static hd_error read_size(head *h, int64_t *out) {
    int64_t size = 0;
    skip_spaces(h);
    const char *begin = h->at;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; ++h->at)
        if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *h->at - '0', &size))
            return hd_fail(HD_ERROR_OVERFLOW, "has a size that is too large: \"%.20s...\"", begin);
    if (h->at == begin) return refuse(h, "a size");
    if (h->at < h->end && *h->at == 'L') ++h->at; /* as Python 2 wrote it */
    *out = size;
    return HD_OK;
}

static hd_error read_shape(head *h) {
    hd_shape *shape = &h->shape;
    bool comma = true;
    if (!takes(h, '(')) return refuse(h, "(");
    while (!takes(h, ')')) {
        if (!comma) return refuse(h, ", or )");
        if (shape->rank == HD_MAX_RANK) return hd_fail(HD_ERROR_SHAPE, "has more than %d axes", HD_MAX_RANK);
        HD_TRY(read_size(h, &shape->size[shape->rank++]));
        comma = takes(h, ',');
        if (shape->rank == 1 && !comma) return refuse(h, "a comma");
    }
    return HD_OK;
}

static hd_error read_entry(head *h) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    int k = 0;
    HD_TRY(read_string(h, key, sizeof key));
    while (k < 3 && strcmp(key, keys[k]) != 0) ++k;
    if (k == 3 || h->seen[k])
        return HD_BAD("has a head with \"%s\"%s", key, k < 3 ? " twice" : ", which means nothing");
    h->seen[k] = true;
    if (!takes(h, ':')) return refuse(h, ":");
    if (k == 2) return read_shape(h);
    if (k == 1) {
        h->fortran_order = takes_word(h, "True");
        return h->fortran_order || takes_word(h, "False") ? HD_OK : refuse(h, "True or False");
    }
    skip_spaces(h);
    if (h->at < h->end && *h->at == '[')
        return hd_fail(HD_ERROR_DTYPE, "has records, of which no tensor is; save their fields one by one");
    return read_string(h, h->descr, sizeof h->descr);
}

static hd_error read_entries(head *h) {
    if (!takes(h, '{')) return refuse(h, "{");
    bool comma = true;
    while (!takes(h, '}')) {
        if (!comma) return refuse(h, ", or }");
        HD_TRY(read_entry(h));
        comma = takes(h, ',');
    }
    skip_spaces(h);
    if (h->at != h->end) return refuse(h, "the end of the head");
    return h->seen[0] && h->seen[1] && h->seen[2]
               ? HD_OK
               : HD_BAD("has a head without %s",
                        h->seen[0] ? h->seen[1] ? "\"shape\"" : "\"fortran_order\"" : "\"descr\"");
}

/* Reads the head; `*length` is where the elements begin. */
static hd_error read_head(const hd_source *s, uint64_t offset, uint64_t bytes, head *h, uint64_t *length) {
    unsigned char front[12];
    if (bytes < 10) return HD_BAD("is no .npy: it has %" PRIu64 " bytes", bytes);
    const uint64_t front_bytes = bytes < 12 ? bytes : 12;
    HD_TRY(hd_source_read(s, front, front_bytes, offset));
    if (memcmp(front, magic, sizeof magic) != 0) return HD_BAD("is no .npy: it does not begin as one");
    const int version = front[6];
    if (version < 1 || version > 3 || front[7] != 0)
        return HD_BAD("is an .npy of version %d.%d; those known are 1.0, 2.0 and 3.0", version, front[7]);
    const uint64_t begin = version == 1 ? 10 : 12;
    const uint64_t text = version == 1 ? hd_file_u16(front + 8) : bytes < 12 ? UINT64_MAX : hd_file_u32(front + 8);
    if (text > bytes - begin) return HD_BAD("is cut: its head is longer than the file");
    if (text > MOST_HEAD) return HD_BAD("has a head of %" PRIu64 " bytes; at most %d make sense", text, MOST_HEAD);
    char *words = hd_array_resize(NULL, (size_t)text + 1);
    if (words == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to read a file");
    hd_error status = hd_source_read(s, words, text, offset + begin);
    *h = (head){.at = words, .end = words + text};
    if (status == HD_OK) status = read_entries(h);
    hd_array_release(words);
    *length = begin + text;
    return status;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */
static void swap_bytes(unsigned char *at, int64_t count, size_t size) {
    for (int64_t i = 0; i < count; ++i, at += size)
        for (size_t k = 0; k < size / 2; ++k) {
            const unsigned char swap = at[k];
            at[k] = at[size - 1 - k];
            at[size - 1 - k] = swap;
        }
}

/* Row-major, of one whose first axis is the one that varies fastest; takes the reference. */
static hd_tensor *turned(hd_thread *thread, hd_tensor *t, const hd_shape *shape) {
    hd_layout layout = {.shape = *shape};
    int64_t stride = 1;
    for (int i = 0; i < shape->rank; ++i) {
        layout.stride[i] = stride;
        stride *= shape->size[i];
    }
    hd_tensor *view = hd_tensor_over(thread, t->storage, (hd_dtype)t->dtype, &layout), *row_major = NULL;
    hd_tensor_drop(thread, t);
    if (view == NULL) return NULL;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    {
        HD_EAGER;
        HD_KEEP_NAME(thread);
        row_major = hd_contiguous(view);
        if (row_major != NULL) hd_object_retain(&row_major->object);
    }
    hd_scope_close(thread, &scope);
    hd_tensor_drop(thread, view);
    return row_major;
}

hd_tensor *hd_npy_read(hd_thread *thread, const hd_source *s, uint64_t offset, uint64_t bytes) {
    head h;
    uint64_t begin = 0;
    hd_dtype dtype = HD_F32;
    bool swapped = false;
    int64_t count;
    HD_TRY_OR(read_head(s, offset, bytes, &h, &begin), NULL);
    HD_TRY_OR(dtype_of(h.descr, &dtype, &swapped), NULL);
    HD_TRY_OR(hd_shape_check(&h.shape, hd_dtype_bytes[dtype], &count), NULL);
    const uint64_t expected = (uint64_t)count * hd_dtype_bytes[dtype];
    if (expected != bytes - begin) {
        HD_BAD("%s: shape %s of %s is %" PRIu64 " bytes, and %" PRIu64 " follow the head",
               expected > bytes - begin ? "is cut" : "has more than one array", HD_SHAPE_TEXT(h.shape),
               hd_dtype_name(dtype), expected, bytes - begin);
        return NULL;
    }
    hd_tensor *t = hd_tensor_new(thread, dtype, &h.shape);
    if (t == NULL) return NULL;
    hd_error status = hd_source_read(s, t->storage->data, expected, offset + begin);
    if (status == HD_OK && dtype == HD_BOOL && !hd_io_are_bools(t->storage->data, expected))
        status = HD_BAD("has bools that are neither 0 nor 1");
    if (status != HD_OK) {
        hd_tensor_drop(thread, t);
        return NULL;
    }
    if (swapped) swap_bytes(t->storage->data, count, hd_dtype_bytes[dtype]);
    return h.fortran_order && h.shape.rank > 1 && count > 0 ? turned(thread, t, &h.shape) : t;
}

hd_error hd_npy_head(const hd_tensor *t, hd_text *out) {
    const hd_shape *shape = &t->layout.shape;
    unsigned char front[10] = {0};
    int i = 0;
    while (i < DTYPES && dtypes[i].dtype != (hd_dtype)t->dtype) ++i;
    if (i == DTYPES)
        return hd_fail(HD_ERROR_DTYPE,
                       "cannot keep a tensor of %s, which NumPy has not; cast it first, "
                       "hd_cast(t, HD_F32), or save .safetensors",
                       hd_dtype_name((hd_dtype)t->dtype));
    memcpy(front, magic, sizeof magic);
    front[6] = 1;
    const size_t begin = out->length;
    hd_text_put(out, front, sizeof front);
    hd_text_print(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", hd_dtype_bytes[t->dtype] > 1 ? '<' : '|',
                  dtypes[i].code);
    for (int k = 0; k < shape->rank; ++k)
        hd_text_print(out, "%s%" PRId64 "%s", k > 0 ? ", " : "", shape->size[k], shape->rank == 1 ? "," : "");
    hd_text_print(out, "), }");
    while ((out->length - begin + 1) % 64 != 0 && !out->failed) hd_text_put(out, " ", 1); /* as NumPy aligns it */
    hd_text_put(out, "\n", 1);
    if (out->failed) return hd_fail(HD_ERROR_MEMORY, "no memory to write a tensor");
    hd_file_set_u16((unsigned char *)out->at + begin + 8, (uint32_t)(out->length - begin - sizeof front));
    return HD_OK;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */
static hd_tensor *read_file(hd_thread *thread, const char *path) {
    hd_source s;
    HD_TRY_OR(hd_source_open(&s, path), NULL);
    hd_tensor *t = hd_npy_read(thread, &s, 0, s.size);
    hd_source_close(&s);
    return t;
}

hd_tensor *hd_npy_load(const char *path) {
    HD_ENTER("hd_npy_load", NULL);
    HD_TRY_OR(hd_io_check_path(path), NULL);
    HD_HOLD_ERRORS(thread);
    hd_tensor *t = read_file(thread, path);
    if (t == NULL) hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    return hd_io_hand_out(thread, t);
}

typedef struct writing {
    hd_thread *thread;
    hd_tensor *t;
    const hd_text *front;
    int descriptor;
} writing;

static hd_error write_elements(void *user, const void *bytes, size_t count) {
    const writing *w = user;
    return hd_file_write_at(w->descriptor, bytes, count, w->front->length);
}
static hd_error fill(void *user, int descriptor) {
    writing *w = user;
    w->descriptor = descriptor;
    HD_TRY(hd_file_write_at(descriptor, w->front->at, w->front->length, 0));
    return hd_io_with_bytes(w->thread, w->t, write_elements, w);
}

void hd_npy_save(const char *path, hd_tensor *t) {
    HD_ENTER("hd_npy_save", );
    if (hd_io_check_path(path) != HD_OK || hd_tensor_check(t, "t") != HD_OK) return;
    HD_HOLD_ERRORS(thread);
    hd_text front = {.at = NULL};
    hd_error status = hd_npy_head(t, &front);
    if (status == HD_OK)
        status = hd_file_replace(thread, path, fill, &(writing){.thread = thread, .t = t, .front = &front});
    if (status != HD_OK) hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    hd_text_release(&front);
}
