/* .safetensors: saving. Tensors are in the head in the order of the archive; their bytes lie in the order of their
 * elements' size, so that each is aligned. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 64 }; /* where the bytes begin: those of a cache line */

/* A run of an archive's tensors, which are one file. */
typedef struct part {
    hd_thread *thread;
    const hd_archive *archive;
    int64_t first, end;
    hd_text head; /* with its length in front */
    uint64_t at;  /* of the next byte in the file */
    int descriptor;
} part;

static hd_tensor *tensor_at(const part *p, int64_t i) { return p->archive->tensors.items[i].value; }
static uint64_t bytes_of(const hd_tensor *t) { return (uint64_t)t->count * hd_dtype_bytes[t->dtype]; }

static void put_string(hd_text *out, const char *text) {
    hd_text_put(out, "\"", 1);
    for (const char *c = text; *c != '\0'; ++c) {
        if (*c == '"' || *c == '\\') hd_text_put(out, "\\", 1);
        if ((unsigned char)*c < 32)
            hd_text_print(out, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            hd_text_put(out, c, 1);
    }
    hd_text_put(out, "\"", 1);
}

/* Calls `visit` in the order of the bytes: those with large elements first. */
static hd_error each_in_order(part *p, hd_error (*visit)(part *p, int64_t i)) {
    for (unsigned size = 8; size > 0; size /= 2)
        for (int64_t i = p->first; i < p->end; ++i)
            if (hd_dtype_bytes[tensor_at(p, i)->dtype] == size) HD_TRY(visit(p, i));
    return HD_OK;
}

static void put_texts(part *p) {
    const hd_names *texts = &p->archive->texts;
    put_string(&p->head, hd_safetensors_metadata);
    for (int64_t i = 0; i < texts->count; ++i) {
        hd_text_put(&p->head, i > 0 ? "," : ":{", i > 0 ? 1 : 2);
        put_string(&p->head, texts->items[i].name);
        hd_text_put(&p->head, ":", 1);
        put_string(&p->head, texts->items[i].value);
    }
    hd_text_put(&p->head, "}", 1);
}

static void put_tensor(part *p, int64_t i, uint64_t begin) {
    const hd_tensor *t = tensor_at(p, i);
    put_string(&p->head, p->archive->tensors.items[i].name);
    hd_text_print(&p->head, ":{\"dtype\":\"%s\",\"shape\":[", hd_safetensors_dtype((hd_dtype)t->dtype));
    for (int k = 0; k < t->layout.shape.rank; ++k)
        hd_text_print(&p->head, "%s%" PRId64, k > 0 ? "," : "", t->layout.shape.size[k]);
    hd_text_print(&p->head, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + bytes_of(t));
}

/* The head, and spaces up to where the bytes begin. */
static hd_error put_head(part *p) {
    uint64_t next[9] = {0}; /* by size of elements: where the next one of them begins */
    for (int64_t i = p->first; i < p->end; ++i)
        for (unsigned smaller = hd_dtype_bytes[tensor_at(p, i)->dtype] / 2; smaller > 0; smaller /= 2)
            next[smaller] += bytes_of(tensor_at(p, i));
    hd_text_put(&p->head, "\0\0\0\0\0\0\0\0{", 9);
    if (p->archive->texts.count > 0) put_texts(p);
    for (int64_t i = p->first; i < p->end; ++i) {
        if (i > p->first || p->archive->texts.count > 0) hd_text_put(&p->head, ",", 1);
        uint64_t *begin = &next[hd_dtype_bytes[tensor_at(p, i)->dtype]];
        put_tensor(p, i, *begin);
        *begin += bytes_of(tensor_at(p, i));
    }
    hd_text_put(&p->head, "}", 1);
    while (p->head.length % ALIGN != 0 && !p->head.failed) hd_text_put(&p->head, " ", 1);
    if (p->head.failed)
        return hd_fail(HD_ERROR_MEMORY, "no memory to write %lld names", (long long)(p->end - p->first));
    if (p->head.length - 8 > HD_SAFETENSORS_MOST_HEAD)
        return hd_fail(HD_ERROR_OVERFLOW, "cannot keep names of more than %d bytes", (int)HD_SAFETENSORS_MOST_HEAD);
    hd_file_set_u64((unsigned char *)p->head.at, p->head.length - 8);
    return HD_OK;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */
static hd_error write_elements(void *user, const void *bytes, size_t count) {
    part *p = user;
    const uint64_t at = p->at;
    p->at += count;
    return hd_file_write_at(p->descriptor, bytes, count, at);
}

static hd_error write_tensor(part *p, int64_t i) {
    if (hd_io_with_bytes(p->thread, tensor_at(p, i), write_elements, p) == HD_OK) return HD_OK;
    return hd_file_reword(p->thread, HD_OK, "at \"%s\" ", p->archive->tensors.items[i].name);
}

static hd_error fill(void *user, int descriptor) {
    part *p = user;
    p->descriptor = descriptor;
    p->at = p->head.length;
    HD_TRY(hd_file_write_at(descriptor, p->head.at, p->head.length, 0));
    return each_in_order(p, write_tensor);
}

static hd_error write_part(part *p, const char *path) {
    p->head.length = 0;
    HD_TRY(put_head(p));
    return hd_file_replace(p->thread, path, fill, p);
}

/* ---- several, and their index ------------------------------------------------------------------------------------ */
/* The tensors of the next file are those up to here. */
static int64_t end_of_part(const hd_archive *a, int64_t first, uint64_t most) {
    uint64_t bytes = bytes_of(a->tensors.items[first].value);
    int64_t i = first + 1;
    for (; i < a->tensors.count && bytes_of(a->tensors.items[i].value) <= most - (bytes < most ? bytes : most); ++i)
        bytes += bytes_of(a->tensors.items[i].value);
    return i;
}

/* "m.safetensors" -> "m-00002-of-00003.safetensors"; without the folder when it is for the index. */
static void put_part_name(hd_text *out, const char *path, size_t stem, int64_t number, int64_t count) {
    out->length = 0;
    hd_text_put(out, path, stem);
    hd_text_print(out, "-%05" PRId64 "-of-%05" PRId64 ".safetensors", number, count);
}

typedef struct several {
    part part;
    const char *path;
    size_t stem, folder; /* bytes of the path in front of the extension, and of the name */
    uint64_t most;       /* bytes of a file */
    hd_text name, index;
} several;

static hd_error fill_index(void *user, int descriptor) {
    const several *s = user;
    return hd_file_write_at(descriptor, s->index.at, s->index.length, 0);
}

static void put_index(several *s, int64_t number, int64_t count) {
    for (int64_t i = s->part.first; i < s->part.end; ++i) {
        if (i > 0) hd_text_put(&s->index, ",", 1);
        put_string(&s->index, s->part.archive->tensors.items[i].name);
        hd_text_put(&s->index, ":", 1);
        put_part_name(&s->name, s->path + s->folder, s->stem - s->folder, number, count);
        if (!s->name.failed) put_string(&s->index, s->name.at);
    }
}

static hd_error write_parts(several *s) {
    const hd_archive *a = s->part.archive;
    int64_t count = 0, number = 0;
    uint64_t total = 0;
    for (int64_t i = 0; i < a->tensors.count; i = end_of_part(a, i, s->most)) ++count;
    for (int64_t i = 0; i < a->tensors.count; ++i) total += bytes_of(a->tensors.items[i].value);
    hd_text_print(&s->index, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{", total);
    for (int64_t i = 0; i < a->tensors.count; i = s->part.end) {
        s->part.first = i;
        s->part.end = end_of_part(a, i, s->most);
        put_index(s, ++number, count);
        put_part_name(&s->name, s->path, s->stem, number, count);
        if (s->name.failed) return hd_fail(HD_ERROR_MEMORY, "no memory for a path");
        HD_TRY(write_part(&s->part, s->name.at));
    }
    hd_text_put(&s->index, "}}\n", 3);
    s->name.length = 0;
    hd_text_put(&s->name, s->path, strlen(s->path));
    hd_text_put(&s->name, ".index.json", 11);
    if (s->index.failed || s->name.failed) return hd_fail(HD_ERROR_MEMORY, "no memory for an index");
    return hd_file_replace(s->part.thread, s->name.at, fill_index, s);
}

hd_error hd_safetensors_write(hd_thread *thread, const char *path, const hd_archive *a, int64_t shard_bytes) {
    static const char extension[] = ".safetensors";
    const size_t length = strlen(path), stem = length - (sizeof extension - 1);
    several s = {.part = {.thread = thread, .archive = a, .end = a->tensors.count},
                 .path = path,
                 .stem = stem,
                 .most = (uint64_t)shard_bytes};
    if (hd_names_find(&a->tensors, hd_safetensors_metadata) != NULL)
        return HD_BAD("cannot keep a tensor with the name \"%s\", which is that of the texts", hd_safetensors_metadata);
    hd_error status;
    if (shard_bytes == 0 || a->tensors.count == 0) {
        status = write_part(&s.part, path);
    } else if (length < sizeof extension || strcmp(path + stem, extension) != 0) {
        status = HD_BAD("does not end in %s, from which several files have their names", extension);
    } else {
        const char *slash = strrchr(path, '/');
        s.folder = slash != NULL ? (size_t)(slash + 1 - path) : 0;
        status = write_parts(&s);
    }
    hd_text_release(&s.part.head);
    hd_text_release(&s.name);
    hd_text_release(&s.index);
    return status;
}

void hd_safetensors_save(const char *path, const hd_archive *archive, const hd_safetensors_opts *opts) {
    HD_ENTER("hd_safetensors_save", );
    HD_READ_OPTS(hd_safetensors_opts, opts, );
    if (hd_io_check_path(path) != HD_OK || hd_archive_check(archive, "archive") != HD_OK) return;
    if (options.shard_bytes < 0) {
        HD_BAD("shard_bytes %lld; it must not be negative", (long long)options.shard_bytes);
        return;
    }
    HD_HOLD_ERRORS(thread);
    if (hd_safetensors_write(thread, path, archive, options.shard_bytes) != HD_OK)
        hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
}
