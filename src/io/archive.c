/* Archives: named tensors, and texts by key. */
#include "core/hash.h"
#include "io/io.h"

#include <stdio.h>
#include <string.h>

/* ---- entries by name --------------------------------------------------------------------------------------------- */
/* The slot of that name, or the free one where it would be. */
static uint64_t slot_of(const hd_names *n, const char *name) {
    uint64_t slot = hd_hash(name, strlen(name), 0) & (n->slots - 1);
    while (n->table[slot] != 0 && strcmp(n->items[n->table[slot] - 1].name, name) != 0)
        slot = (slot + 1) & (n->slots - 1);
    return slot;
}

hd_named *hd_names_find(const hd_names *n, const char *name) {
    if (n->count == 0) return NULL;
    const uint32_t entry = n->table[slot_of(n, name)];
    return entry != 0 ? &n->items[entry - 1] : NULL;
}

static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory for an archive"); }

static hd_error grow(hd_names *n) {
    const int64_t capacity = n->capacity > 0 ? n->capacity * 2 : 16;
    if (capacity > INT32_MAX) return HD_BAD("an archive of more than %lld entries", (long long)n->capacity);
    hd_named *items = hd_array_resize(n->items, (size_t)capacity * sizeof *items);
    if (items == NULL) return no_memory();
    n->items = items;
    uint32_t *table = hd_array_resize(NULL, (size_t)capacity * 2 * sizeof *table);
    if (table == NULL) return no_memory();
    memset(table, 0, (size_t)capacity * 2 * sizeof *table);
    hd_array_release(n->table);
    n->table = table;
    n->capacity = capacity;
    n->slots = (uint64_t)capacity * 2;
    for (int64_t i = 0; i < n->count; ++i) n->table[slot_of(n, n->items[i].name)] = (uint32_t)i + 1;
    return HD_OK;
}

static char *copy_of(const char *text) {
    char *own = hd_array_resize(NULL, strlen(text) + 1);
    return own == NULL ? NULL : strcpy(own, text);
}

/* A new entry, without a value; NULL with an error. */
static hd_named *add(hd_names *n, const char *name) {
    if (n->count == n->capacity) HD_TRY_OR(grow(n), NULL);
    char *own = copy_of(name);
    if (own == NULL) {
        no_memory();
        return NULL;
    }
    n->table[slot_of(n, name)] = (uint32_t)n->count + 1;
    n->items[n->count] = (hd_named){.name = own};
    return &n->items[n->count++];
}

static hd_error check_name(const char *what, const char *name) {
    if (name == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", what);
    if (name[0] == '\0') return HD_BAD("the %s \"\": it must not be empty", what);
    return hd_is_utf8(name, strlen(name)) ? HD_OK : HD_BAD("the %s \"%.100s\" is no UTF-8", what, name);
}

/* ---- archives ---------------------------------------------------------------------------------------------------- */
static void archive_destroy(hd_thread *thread, hd_object *object) {
    hd_archive *a = (hd_archive *)object;
    for (int64_t i = 0; i < a->tensors.count; ++i) {
        hd_tensor_drop(thread, a->tensors.items[i].value);
        hd_array_release(a->tensors.items[i].name);
    }
    for (int64_t i = 0; i < a->texts.count; ++i) {
        hd_array_release(a->texts.items[i].value);
        hd_array_release(a->texts.items[i].name);
    }
    hd_array_release(a->tensors.items);
    hd_array_release(a->tensors.table);
    hd_array_release(a->texts.items);
    hd_array_release(a->texts.table);
    hd_object_bury(thread, object);
}
static const hd_kind archive_kind = {.name = "archive", .destroy = archive_destroy};

hd_error hd_archive_check(const hd_archive *a, const char *parameter) {
    if (a == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    if (a->object.kind == &archive_kind) return HD_OK;
    return hd_fail(a->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`%s` is no living archive; hd_archive_new makes one", parameter);
}

hd_archive *hd_archive_make(hd_thread *thread) {
    hd_archive *a = hd_array_resize(NULL, sizeof *a);
    if (a == NULL) {
        no_memory();
        return NULL;
    }
    *a = (hd_archive){.tensors = {.items = NULL}};
    hd_object_init(&a->object, &archive_kind);
    hd_count(&thread->live_objects, 1);
    return hd_scope_own(thread, &a->object) == HD_OK ? a : NULL;
}

hd_error hd_archive_put(hd_thread *thread, hd_archive *a, const char *name, hd_tensor *t) {
    (void)thread;
    HD_TRY(check_name("name", name));
    if (hd_names_find(&a->tensors, name) != NULL)
        return HD_BAD("the archive has a tensor \"%.200s\" already: names are there once", name);
    hd_named *entry = add(&a->tensors, name);
    if (entry == NULL) return HD_ERROR_MEMORY;
    hd_object_retain(&t->object);
    entry->value = t;
    return HD_OK;
}

hd_error hd_archive_put_text(hd_archive *a, const char *key, const char *text) {
    HD_TRY(check_name("key", key));
    if (text == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`text` is NULL");
    if (!hd_is_utf8(text, strlen(text))) return HD_BAD("the text of \"%.200s\" is no UTF-8", key);
    char *own = copy_of(text);
    if (own == NULL) return no_memory();
    hd_named *entry = hd_names_find(&a->texts, key);
    if (entry == NULL) entry = add(&a->texts, key);
    if (entry == NULL) {
        hd_array_release(own);
        return HD_ERROR_MEMORY;
    }
    hd_array_release(entry->value);
    entry->value = own;
    return HD_OK;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */
hd_archive *hd_archive_new(void) {
    HD_ENTER("hd_archive_new", NULL);
    return hd_archive_make(thread);
}

void hd_archive_add(hd_archive *archive, const char *name, hd_tensor *t) {
    HD_ENTER("hd_archive_add", );
    if (hd_archive_check(archive, "archive") == HD_OK && hd_tensor_check(t, "t") == HD_OK)
        hd_archive_put(thread, archive, name, t);
}

int64_t hd_archive_count(const hd_archive *archive) {
    HD_ENTER_ALWAYS("hd_archive_count", 0);
    return hd_archive_check(archive, "archive") == HD_OK ? archive->tensors.count : 0;
}

/* NULL with an error when there is no such entry. */
static const hd_named *entry_at(const hd_names *n, int64_t index, const char *what) {
    if (index >= -n->count && index < n->count) return &n->items[index < 0 ? index + n->count : index];
    hd_fail(HD_ERROR_INDEX, "%s %lld of an archive of %lld", what, (long long)index, (long long)n->count);
    return NULL;
}

const char *hd_archive_name(const hd_archive *archive, int64_t index) {
    HD_ENTER("hd_archive_name", NULL);
    HD_TRY_OR(hd_archive_check(archive, "archive"), NULL);
    const hd_named *entry = entry_at(&archive->tensors, index, "tensor");
    return entry != NULL ? entry->name : NULL;
}

static hd_tensor *take(hd_thread *thread, const hd_archive *a, const hd_named *entry) {
    hd_tensor *t = entry->value;
    hd_object_retain(&t->object);
    return a->is_loaded ? hd_io_hand_out(thread, t) : hd_tensor_give(thread, t);
}

hd_tensor *hd_archive_at(const hd_archive *archive, int64_t index) {
    HD_ENTER("hd_archive_at", NULL);
    HD_TRY_OR(hd_archive_check(archive, "archive"), NULL);
    const hd_named *entry = entry_at(&archive->tensors, index, "tensor");
    return entry != NULL ? take(thread, archive, entry) : NULL;
}

hd_tensor *hd_archive_get(const hd_archive *archive, const char *name) {
    HD_ENTER("hd_archive_get", NULL);
    HD_TRY_OR(hd_archive_check(archive, "archive"), NULL);
    HD_TRY_OR(check_name("name", name), NULL);
    const hd_named *entry = hd_names_find(&archive->tensors, name);
    if (entry != NULL) return take(thread, archive, entry);
    char list[320] = "";
    size_t length = 0;
    for (int64_t i = 0; i < archive->tensors.count && length < sizeof list; ++i)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "",
                                   archive->tensors.items[i].name);
    if (length >= sizeof list) strcpy(list + sizeof list - 5, " ...");
    HD_BAD("the archive has no tensor \"%.100s\"; it has %s", name, length > 0 ? list : "none");
    return NULL;
}

bool hd_archive_has(const hd_archive *archive, const char *name) {
    HD_ENTER("hd_archive_has", false);
    (void)thread;
    return hd_archive_check(archive, "archive") == HD_OK && check_name("name", name) == HD_OK &&
           hd_names_find(&archive->tensors, name) != NULL;
}

void hd_archive_set_text(hd_archive *archive, const char *key, const char *text) {
    HD_ENTER("hd_archive_set_text", );
    (void)thread;
    if (hd_archive_check(archive, "archive") == HD_OK) hd_archive_put_text(archive, key, text);
}

const char *hd_archive_text(const hd_archive *archive, const char *key) {
    HD_ENTER("hd_archive_text", NULL);
    (void)thread;
    HD_TRY_OR(hd_archive_check(archive, "archive"), NULL);
    HD_TRY_OR(check_name("key", key), NULL);
    const hd_named *entry = hd_names_find(&archive->texts, key);
    return entry != NULL ? entry->value : NULL;
}

int64_t hd_archive_text_count(const hd_archive *archive) {
    HD_ENTER_ALWAYS("hd_archive_text_count", 0);
    return hd_archive_check(archive, "archive") == HD_OK ? archive->texts.count : 0;
}

const char *hd_archive_key(const hd_archive *archive, int64_t index) {
    HD_ENTER("hd_archive_key", NULL);
    (void)thread;
    HD_TRY_OR(hd_archive_check(archive, "archive"), NULL);
    const hd_named *entry = entry_at(&archive->texts, index, "text");
    return entry != NULL ? entry->name : NULL;
}
