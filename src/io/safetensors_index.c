/* .safetensors in several files, which an index lists; and loading what a path names, index or file. */
#include "io/json.h"
#include "io/safetensors.h"

#include <inttypes.h>
#include <string.h>

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
    hd_archive *part = status == HD_OK ? hd_safetensors_read_one(thread, full.at) : NULL;
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
    return is_index ? read_several(thread, path) : hd_safetensors_read_one(thread, path);
}

hd_archive *hd_safetensors_load(const char *path) {
    HD_ENTER("hd_safetensors_load", NULL);
    HD_TRY_OR(hd_io_check_path(path), NULL);
    HD_HOLD_ERRORS(thread);
    hd_archive *a = hd_safetensors_read(thread, path);
    if (a == NULL) hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    return a;
}
