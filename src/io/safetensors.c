/* .safetensors: loading. Nothing in the head is believed: every tensor's shape and place is held against the file, and
 * each byte behind the head is one tensor's. */
#include "io/safetensors.h"
#include "io/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char hd_safetensors_metadata[] = "__metadata__";

static const char *const dtypes[HD_DTYPE_COUNT] = {
    [HD_DTYPE_BOOL] = "BOOL", [HD_DTYPE_U8] = "U8",   [HD_DTYPE_U16] = "U16",        [HD_DTYPE_U32] = "U32",
    [HD_DTYPE_U64] = "U64",   [HD_DTYPE_I8] = "I8",   [HD_DTYPE_I16] = "I16",        [HD_DTYPE_I32] = "I32",
    [HD_DTYPE_I64] = "I64",   [HD_DTYPE_F16] = "F16", [HD_DTYPE_F8E4M3] = "F8_E4M3", [HD_DTYPE_F8E5M2] = "F8_E5M2",
    [HD_DTYPE_BF16] = "BF16", [HD_DTYPE_F32] = "F32", [HD_DTYPE_F64] = "F64"};
const char *hd_safetensors_dtype(hd_dtype dtype) { return dtypes[dtype]; }

/* ---- a mapped file, held by all storages whose bytes are in it --------------------------------------------------- */
typedef struct mapping {
    hd_object object;
    const unsigned char *bytes;
    uint64_t size;
} mapping;

static void mapping_destroy(hd_thread *thread, hd_object *object) {
    mapping *m = (mapping *)object;
    if (m->bytes != NULL) hd_os_file_unmap(m->bytes, m->size);
    hd_count(&thread->live_objects, -1);
    hd_array_release(m);
}
static const hd_kind mapping_kind = {.name = "file", .destroy = mapping_destroy};
static void let_go(void *bytes, void *user) {
    (void)bytes;
    hd_object_release(hd_thread_self(), user);
}

/* NULL with an error. */
static mapping *map_file(hd_thread *thread, const hd_source *s) {
    mapping *m = hd_array_resize(NULL, sizeof *m);
    if (m == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to map a file");
        return NULL;
    }
    *m = (mapping){.bytes = NULL, .size = s->size};
    hd_object_init(&m->object, &mapping_kind);
    hd_count(&thread->live_objects, 1);
    m->bytes = hd_os_file_map(s->descriptor, s->size);
    if (m->bytes != NULL) return m;
    hd_fail(HD_ERROR_STATE, "cannot be mapped: %s", strerror(errno));
    hd_object_release(thread, &m->object);
    return NULL;
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */
/* Where a tensor's bytes are, behind the head. */
typedef struct span {
    uint64_t begin, end;
    int64_t tensor; /* its place in the archive */
} span;

typedef struct reader {
    hd_thread *thread;
    hd_archive *archive;
    mapping *map;
    uint64_t data, data_bytes; /* where they begin in the file, and how many there are */
    hd_json json;
    hd_text name, word;
    span *spans;
    int64_t capacity;
    bool has_metadata;
} reader;

typedef struct description {
    hd_dtype dtype;
    hd_shape shape;
    uint64_t begin, end;
    bool seen[3]; /* dtype, shape, data_offsets */
} description;

static hd_error read_dtype(reader *r, hd_dtype *out) {
    HD_TRY(hd_json_string(&r->json, &r->word));
    for (int d = HD_DTYPE_NONE_ + 1; d < HD_DTYPE_COUNT; ++d)
        if (strcmp(dtypes[d], r->word.at) == 0) {
            *out = (hd_dtype)d;
            return HD_OK;
        }
    return hd_fail(HD_ERROR_DTYPE, "is of the dtype \"%.40s\", of which no tensor is", r->word.at);
}

static hd_error read_shape(reader *r, hd_shape *out) {
    uint64_t size;
    HD_TRY(hd_json_take(&r->json, '['));
    for (bool first = true; hd_json_element(&r->json, &first);) {
        HD_TRY(hd_json_whole(&r->json, &size));
        if (out->rank == HD_MAX_RANK) return hd_fail(HD_ERROR_SHAPE, "has more than %d axes", HD_MAX_RANK);
        if (size > INT64_MAX) return hd_fail(HD_ERROR_OVERFLOW, "has a size of %" PRIu64 ", which is too large", size);
        out->size[out->rank++] = (int64_t)size;
    }
    return r->thread->error_code;
}

static hd_error read_offsets(reader *r, description *d) {
    HD_TRY(hd_json_take(&r->json, '['));
    HD_TRY(hd_json_whole(&r->json, &d->begin));
    HD_TRY(hd_json_take(&r->json, ','));
    HD_TRY(hd_json_whole(&r->json, &d->end));
    return hd_json_take(&r->json, ']');
}

static hd_error read_description(reader *r, description *d) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    HD_TRY(hd_json_take(&r->json, '{'));
    for (bool first = true; hd_json_member(&r->json, &first, &r->word);) {
        int k = 0;
        while (k < 3 && strcmp(r->word.at, keys[k]) != 0) ++k;
        if (k == 3) return HD_BAD("has a \"%.40s\", which means nothing", r->word.at);
        if (d->seen[k]) return HD_BAD("has its \"%s\" twice", keys[k]);
        d->seen[k] = true;
        HD_TRY(k == 0 ? read_dtype(r, &d->dtype) : k == 1 ? read_shape(r, &d->shape) : read_offsets(r, d));
    }
    HD_TRY(r->thread->error_code);
    for (int k = 0; k < 3; ++k)
        if (!d->seen[k]) return HD_BAD("has no \"%s\"", keys[k]);
    return HD_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
/* Bytes in the mapped file, or a copy of those that are not aligned. */
static hd_storage *storage_of(reader *r, const description *d) {
    const size_t bytes = (size_t)(d->end - d->begin);
    if (bytes == 0) return hd_storage_new(r->thread, 0);
    const unsigned char *at = r->map->bytes + r->data + d->begin;
    hd_storage *s;
    if ((uintptr_t)at % hd_dtype_bytes[d->dtype] != 0) {
        s = hd_storage_new(r->thread, bytes);
        if (s != NULL) memcpy(s->data, at, bytes);
        return s;
    }
    s = hd_storage_borrow_to_read(r->thread, at, bytes, let_go, r->map);
    if (s != NULL) hd_object_retain(&r->map->object);
    return s;
}

static hd_error check_place(const reader *r, const description *d) {
    int64_t count;
    HD_TRY(hd_shape_check(&d->shape, hd_dtype_bytes[d->dtype], &count));
    const uint64_t bytes = (uint64_t)count * hd_dtype_bytes[d->dtype];
    if (d->begin > d->end || d->end > r->data_bytes)
        return HD_BAD("is at bytes %" PRIu64 " to %" PRIu64 ", and the file has %" PRIu64 ": it was cut or is damaged",
                      d->begin, d->end, r->data_bytes);
    if (d->end - d->begin != bytes)
        return HD_BAD("has %" PRIu64 " bytes, and shape %s of %s is %" PRIu64, d->end - d->begin,
                      HD_SHAPE_TEXT(d->shape), hd_dtype_name(d->dtype), bytes);
    return HD_OK;
}

static hd_error note_span(reader *r, const description *d) {
    const int64_t count = r->archive->tensors.count;
    if (count == r->capacity) {
        const int64_t capacity = r->capacity > 0 ? r->capacity * 2 : 64;
        span *spans = hd_array_resize(r->spans, (size_t)capacity * sizeof *spans);
        if (spans == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to read a file");
        r->spans = spans;
        r->capacity = capacity;
    }
    r->spans[count] = (span){d->begin, d->end, count};
    return HD_OK;
}

static hd_error add_tensor(reader *r, const description *d) {
    hd_layout layout;
    HD_TRY(check_place(r, d));
    HD_TRY(note_span(r, d));
    hd_storage *s = storage_of(r, d);
    if (s == NULL) return r->thread->error_code;
    hd_layout_contiguous(&layout, &d->shape);
    hd_tensor *t = d->dtype == HD_BOOL && !hd_io_are_bools(s->data, s->bytes)
                       ? (HD_BAD("has bools that are neither 0 nor 1"), NULL)
                       : hd_tensor_over(r->thread, s, d->dtype, &layout);
    hd_object_release(r->thread, &s->object);
    if (t == NULL) return r->thread->error_code;
    const hd_error status = hd_archive_put(r->thread, r->archive, r->name.at, t);
    hd_tensor_drop(r->thread, t);
    return status;
}

static hd_error read_metadata(reader *r) {
    hd_text key = {.at = NULL};
    hd_error status = hd_json_take(&r->json, '{');
    for (bool first = true; status == HD_OK && hd_json_member(&r->json, &first, &key);) {
        status = hd_json_string(&r->json, &r->word);
        if (status == HD_OK && hd_names_find(&r->archive->texts, key.at) != NULL)
            status = HD_BAD("has the text \"%.100s\" twice", key.at);
        if (status == HD_OK) status = hd_archive_put_text(r->archive, key.at, r->word.at);
    }
    hd_text_release(&key);
    return r->thread->error_code;
}

static hd_error read_member(reader *r) {
    if (strcmp(r->name.at, hd_safetensors_metadata) == 0) {
        if (r->has_metadata) return HD_BAD("is there twice");
        r->has_metadata = true;
        return read_metadata(r);
    }
    description d = {.dtype = HD_F32};
    if (hd_names_find(&r->archive->tensors, r->name.at) != NULL) return HD_BAD("is there twice");
    HD_TRY(read_description(r, &d));
    return add_tensor(r, &d);
}

/* ---- all of a file ----------------------------------------------------------------------------------------------- */
static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : 0;
}

/* One begins where the other ends. */
static hd_error check_spans(const reader *r) {
    const hd_names *n = &r->archive->tensors;
    uint64_t end = 0;
    if (n->count > 0) qsort(r->spans, (size_t)n->count, sizeof *r->spans, compare_spans);
    for (int64_t i = 0; i < n->count; ++i) {
        const span *s = &r->spans[i];
        if (s->begin < end)
            return HD_BAD("has tensors that overlap: \"%.80s\" and \"%.80s\"", n->items[r->spans[i - 1].tensor].name,
                          n->items[s->tensor].name);
        if (s->begin > end) return HD_BAD("has bytes that are no tensor's: %" PRIu64 " to %" PRIu64, end, s->begin);
        end = s->end;
    }
    return end == r->data_bytes ? HD_OK : HD_BAD("has %" PRIu64 " bytes too many at its end", r->data_bytes - end);
}

static hd_error read_members(reader *r, const char *head, uint64_t bytes) {
    r->json = (hd_json){head, head, head + bytes};
    if (bytes == 0 || head[0] != '{') return HD_BAD("has a head that does not begin with {");
    HD_TRY(hd_json_take(&r->json, '{'));
    for (bool first = true; hd_json_member(&r->json, &first, &r->name);)
        if (read_member(r) != HD_OK)
            return hd_file_reword(r->thread, HD_OK, "has a head in which \"%.100s\" ", r->name.at);
    HD_TRY(r->thread->error_code);
    HD_TRY(hd_json_end(&r->json));
    return check_spans(r);
}

static hd_error read_head(reader *r, const hd_source *s) {
    unsigned char front[8];
    if (s->size < 8) return HD_BAD("is no .safetensors: it has %" PRIu64 " bytes", s->size);
    HD_TRY(hd_source_read(s, front, 8, 0));
    const uint64_t bytes = hd_file_u64(front);
    if (bytes > HD_SAFETENSORS_MOST_HEAD)
        return HD_BAD("has a head of %" PRIu64 " bytes, and at most %d make sense: it is no .safetensors", bytes,
                      (int)HD_SAFETENSORS_MOST_HEAD);
    if (bytes > s->size - 8) return HD_BAD("is cut: its head is longer than the file");
    r->data = 8 + bytes;
    r->data_bytes = s->size - r->data;
    r->map = map_file(r->thread, s);
    char *head = r->map == NULL ? NULL : hd_array_resize(NULL, (size_t)bytes + 1);
    if (r->map == NULL) return r->thread->error_code;
    if (head == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to read a file");
    hd_error status = hd_source_read(s, head, bytes, 8); /* nobody changes it while it is read, unlike the map */
    if (status == HD_OK) status = read_members(r, head, bytes);
    hd_array_release(head);
    return status;
}

/* One file; the archive is the current scope's. */
static hd_archive *read_one(hd_thread *thread, const char *path) {
    reader r = {.thread = thread, .archive = hd_archive_make(thread)};
    hd_source s;
    if (r.archive == NULL) return NULL;
    hd_error status = hd_source_open(&s, path);
    if (status == HD_OK) status = read_head(&r, &s);
    hd_source_close(&s);
    if (r.map != NULL) hd_object_release(thread, &r.map->object);
    hd_array_release(r.spans);
    hd_text_release(&r.name);
    hd_text_release(&r.word);
    r.archive->is_loaded = true;
    if (status == HD_OK) return r.archive;
    hd_release(r.archive);
    return NULL;
}

/* ---- an index of several files ----------------------------------------------------------------------------------- */
/* {"metadata": ..., "weight_map": {"name": "file", ...}}: names and files become texts of `map`. */
static hd_error read_weight_map(hd_json *j, hd_archive *map, hd_text *key, hd_text *file) {
    HD_TRY(hd_json_take(j, '{'));
    for (bool first = true; hd_json_member(j, &first, key);) {
        HD_TRY(hd_json_string(j, file));
        if (hd_names_find(&map->texts, key->at) != NULL) return HD_BAD("lists \"%.100s\" twice", key->at);
        if (file->length == 0 || strchr(file->at, '/') != NULL || strcmp(file->at, ".") == 0 ||
            strcmp(file->at, "..") == 0)
            return HD_BAD("lists the file \"%.100s\", which is none beside it", file->at);
        HD_TRY(hd_archive_put_text(map, key->at, file->at));
    }
    return hd_thread_self()->error_code;
}

static hd_error read_index_words(const char *words, uint64_t bytes, hd_archive *map) {
    hd_json j = {words, words, words + bytes};
    hd_text key = {.at = NULL}, file = {.at = NULL};
    bool found = false;
    hd_error status = hd_json_take(&j, '{');
    for (bool first = true; status == HD_OK && hd_json_member(&j, &first, &key);) {
        if (strcmp(key.at, "weight_map") != 0)
            status = hd_json_skip(&j);
        else
            status = found ? HD_BAD("has \"weight_map\" twice") : read_weight_map(&j, map, &key, &file);
        found = found || strcmp(key.at, "weight_map") == 0 || map->texts.count > 0;
    }
    hd_text_release(&key);
    hd_text_release(&file);
    HD_TRY(hd_thread_self()->error_code);
    HD_TRY(hd_json_end(&j));
    return found ? HD_OK : HD_BAD("is no index of .safetensors: it has no \"weight_map\"");
}

static hd_error read_index(const char *path, hd_archive *map) {
    hd_source s;
    HD_TRY(hd_source_open(&s, path));
    char *words = s.size <= HD_SAFETENSORS_MOST_HEAD ? hd_array_resize(NULL, (size_t)s.size + 1) : NULL;
    hd_error status = s.size > HD_SAFETENSORS_MOST_HEAD ? HD_BAD("has %" PRIu64 " bytes, more than any index", s.size)
                      : words == NULL                   ? hd_fail(HD_ERROR_MEMORY, "no memory to read a file")
                                                        : hd_source_read(&s, words, s.size, 0);
    if (status == HD_OK) status = read_index_words(words, s.size, map);
    hd_array_release(words);
    hd_source_close(&s);
    return status;
}

/* All of `part`, which is the file of this name, into `whole`. */
static hd_error join(hd_thread *thread, hd_archive *whole, const hd_archive *part, const hd_archive *map,
                     const char *file) {
    for (int64_t i = 0; i < part->tensors.count; ++i) {
        const hd_named *t = &part->tensors.items[i], *listed = hd_names_find(&map->texts, t->name);
        if (listed == NULL || strcmp(listed->value, file) != 0)
            return HD_BAD("does not list \"%.100s\", which is in \"%.100s\"", t->name, file);
        HD_TRY(hd_archive_put(thread, whole, t->name, t->value));
    }
    for (int64_t i = 0; i < part->texts.count; ++i)
        HD_TRY(hd_archive_put_text(whole, part->texts.items[i].name, part->texts.items[i].value));
    return HD_OK;
}

static hd_error read_part(hd_thread *thread, const char *path, const char *file, hd_archive *whole,
                          const hd_archive *map) {
    const char *slash = strrchr(path, '/');
    hd_text full = {.at = NULL};
    if (slash != NULL) hd_text_put(&full, path, (size_t)(slash + 1 - path));
    hd_text_put(&full, file, strlen(file));
    hd_error status = full.failed ? hd_fail(HD_ERROR_MEMORY, "no memory for a path") : HD_OK;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_archive *part = status == HD_OK ? read_one(thread, full.at) : NULL;
    if (part == NULL && status == HD_OK) status = hd_file_reword(thread, HD_OK, "lists \"%.100s\", which ", file);
    if (status == HD_OK) status = join(thread, whole, part, map, file);
    hd_scope_close(thread, &scope);
    hd_text_release(&full);
    return status;
}

static hd_error read_parts(hd_thread *thread, const char *path, hd_archive *whole, hd_archive *map) {
    hd_archive *done = hd_archive_make(thread); /* the files that were read, as texts */
    if (done == NULL) return thread->error_code;
    for (int64_t i = 0; i < map->texts.count; ++i) {
        const char *file = map->texts.items[i].value;
        if (hd_names_find(&done->texts, file) != NULL) continue;
        HD_TRY(hd_archive_put_text(done, file, ""));
        HD_TRY(read_part(thread, path, file, whole, map));
    }
    for (int64_t i = 0; i < map->texts.count; ++i)
        if (hd_names_find(&whole->tensors, map->texts.items[i].name) == NULL)
            return HD_BAD("lists \"%.100s\" in \"%.100s\", which has it not", map->texts.items[i].name,
                          (const char *)map->texts.items[i].value);
    return HD_OK;
}

static hd_archive *read_several(hd_thread *thread, const char *path) {
    hd_archive *whole = hd_archive_make(thread);
    if (whole == NULL) return NULL;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_archive *map = hd_archive_make(thread);
    hd_error status = map == NULL ? thread->error_code : read_index(path, map);
    if (status == HD_OK) status = read_parts(thread, path, whole, map);
    hd_scope_close(thread, &scope);
    whole->is_loaded = true;
    if (status == HD_OK) return whole;
    hd_release(whole);
    return NULL;
}

hd_archive *hd_safetensors_read(hd_thread *thread, const char *path) {
    const size_t length = strlen(path);
    const bool is_index = length > 5 && strcmp(path + length - 5, ".json") == 0;
    return is_index ? read_several(thread, path) : read_one(thread, path);
}

hd_archive *hd_safetensors_load(const char *path) {
    HD_ENTER("hd_safetensors_load", NULL);
    HD_TRY_OR(hd_io_check_path(path), NULL);
    HD_HOLD_ERRORS(thread);
    hd_archive *a = hd_safetensors_read(thread, path);
    if (a == NULL) hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    return a;
}
