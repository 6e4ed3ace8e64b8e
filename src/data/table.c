/* Tables. */
#include "data/table.h"
#include "core/execute.h"
#include "core/hash.h"

#include <stdio.h>

/* ---- texts ------------------------------------------------------------------------------------------------------- */
static const char *text_at(const hd_texts *t, int64_t number) { return t->pool + t->begins[number]; }

static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory for a table"); }

static void put_slot(hd_texts *t, uint64_t hash, int64_t number) {
    uint64_t at = hash % (uint64_t)t->slot_count;
    while (t->slots[at] != 0) at = (at + 1) % (uint64_t)t->slot_count;
    t->slots[at] = number + 1;
}

static hd_error more_slots(hd_texts *t) {
    const int64_t count = t->slot_count > 0 ? 2 * t->slot_count : 32;
    int64_t *slots = hd_array_resize(NULL, (size_t)count * sizeof *slots);
    size_t *begins = slots == NULL ? NULL : hd_array_resize(t->begins, (size_t)count / 2 * sizeof *begins);
    if (begins == NULL) {
        hd_array_release(slots);
        return no_memory();
    }
    memset(slots, 0, (size_t)count * sizeof *slots);
    hd_array_release(t->slots);
    t->slots = slots;
    t->begins = begins;
    t->slot_count = count;
    t->capacity = count / 2;
    for (int64_t i = 0; i < t->count; ++i) put_slot(t, hd_hash(text_at(t, i), strlen(text_at(t, i)), 0), i);
    return HD_OK;
}

static hd_error add_text(hd_texts *t, uint64_t hash, const char *text, size_t length) {
    if (t->count == t->capacity) HD_TRY(more_slots(t));
    if (t->room - t->used < length + 1) {
        const size_t room = 2 * t->room + length + 64;
        char *pool = hd_array_resize(t->pool, room);
        if (pool == NULL) return no_memory();
        t->pool = pool;
        t->room = room;
    }
    t->begins[t->count] = t->used;
    memcpy(t->pool + t->used, text, length);
    t->pool[t->used + length] = '\0';
    t->used += length + 1;
    put_slot(t, hash, t->count++);
    return HD_OK;
}

int64_t hd_texts_number(hd_texts *t, const char *text, size_t length) {
    const uint64_t hash = hd_hash(text, length, 0);
    if (t->slot_count > 0)
        for (uint64_t at = hash % (uint64_t)t->slot_count; t->slots[at] != 0; at = (at + 1) % (uint64_t)t->slot_count) {
            const char *other = text_at(t, t->slots[at] - 1);
            if (strlen(other) == length && memcmp(other, text, length) == 0) return t->slots[at] - 1;
        }
    return add_text(t, hash, text, length) == HD_OK ? t->count - 1 : -1;
}

void hd_texts_release(hd_texts *t) {
    hd_array_release(t->pool);
    hd_array_release(t->begins);
    hd_array_release(t->slots);
    *t = (hd_texts){.pool = NULL};
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
static void table_destroy(hd_thread *thread, hd_object *object) {
    hd_table *t = (hd_table *)object;
    for (int i = 0; i < t->columns; ++i) {
        hd_array_release(t->column[i].name);
        hd_array_release(t->column[i].cells);
        hd_texts_release(&t->column[i].texts);
    }
    hd_array_release(t->column);
    hd_object_bury(thread, object);
}
static const hd_kind table_kind = {.name = "table", .destroy = table_destroy};

hd_table *hd_table_new(hd_thread *thread, int columns) {
    hd_table *t = hd_data_new(thread, sizeof *t, &table_kind);
    if (t == NULL) return NULL;
    t->column = hd_array_resize(NULL, (size_t)columns * sizeof *t->column);
    if (t->column == NULL) {
        no_memory();
        hd_data_drop(thread, t);
        return NULL;
    }
    memset(t->column, 0, (size_t)columns * sizeof *t->column);
    t->columns = columns;
    return t;
}

hd_error hd_table_set_name(hd_table *t, int column, const char *name, size_t length) {
    char *copy = hd_array_resize(NULL, length + 1);
    if (copy == NULL) return no_memory();
    memcpy(copy, name, length);
    copy[length] = '\0';
    t->column[column].name = copy;
    return HD_OK;
}

hd_error hd_table_grow(hd_table *t) {
    if (t->rows < t->capacity) return HD_OK;
    const int64_t capacity = t->capacity > 0 ? 2 * t->capacity : 4; /* there may be many columns */
    for (int i = 0; i < t->columns; ++i) {
        hd_cell *cells = hd_array_resize(t->column[i].cells, (size_t)capacity * sizeof *cells);
        if (cells == NULL) return no_memory();
        t->column[i].cells = cells;
    }
    t->capacity = capacity;
    return HD_OK;
}

void hd_table_clear(hd_table *t) {
    t->rows = 0;
    for (int i = 0; i < t->columns; ++i) hd_texts_release(&t->column[i].texts);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
static hd_error table_check(const hd_table *t) { return hd_data_check(t, &table_kind, "table"); }

static const hd_column *find(const hd_table *t, const char *name) {
    HD_TRY_OR(table_check(t), NULL);
    if (name == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
        return NULL;
    }
    for (int i = 0; i < t->columns; ++i)
        if (strcmp(t->column[i].name, name) == 0) return &t->column[i];
    hd_fail(HD_ERROR_VALUE, "the table has no column \"%.60s\"; its %d columns begin with \"%.60s\"", name, t->columns,
            t->column[0].name);
    return NULL;
}

int64_t hd_table_rows(const hd_table *table) {
    HD_ENTER_ALWAYS("hd_table_rows", 0);
    return table_check(table) == HD_OK ? table->rows : 0;
}
int hd_table_columns(const hd_table *table) {
    HD_ENTER_ALWAYS("hd_table_columns", 0);
    return table_check(table) == HD_OK ? table->columns : 0;
}
const char *hd_table_name(const hd_table *table, int column) {
    HD_ENTER("hd_table_name", NULL);
    HD_TRY_OR(table_check(table), NULL);
    if (column >= 0 && column < table->columns) return table->column[column].name;
    hd_fail(HD_ERROR_INDEX, "column %d of %d", column, table->columns);
    return NULL;
}
int64_t hd_table_texts(const hd_table *table, const char *name) {
    HD_ENTER("hd_table_texts", 0);
    const hd_column *c = find(table, name);
    return c != NULL ? c->texts.count : 0;
}
const char *hd_table_text(const hd_table *table, const char *name, int64_t code) {
    HD_ENTER("hd_table_text", NULL);
    const hd_column *c = find(table, name);
    if (c == NULL) return NULL;
    if (code >= 0 && code < c->texts.count) return text_at(&c->texts, code);
    hd_fail(HD_ERROR_INDEX, "text %lld of column \"%.60s\", which has %lld", (long long)code, name,
            (long long)c->texts.count);
    return NULL;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
/* Of its cells. */
static hd_dtype kept_dtype(const hd_column *c) {
    return c->kind == HD_COLUMN_INTEGERS || c->kind == HD_COLUMN_TEXTS ? HD_I64 : HD_F64;
}
static hd_tensor *column_tensor(const hd_table *t, const hd_column *c, hd_dtype dtype) {
    static const hd_cell none;
    return hd_cast(hd_from_data(t->rows > 0 ? c->cells : &none, HD_SHAPE(t->rows), kept_dtype(c)), dtype);
}

hd_tensor *hd_table_column(hd_table *table, const char *name) {
    HD_ENTER("hd_table_column", NULL);
    const hd_column *c = find(table, name);
    HD_KEEP_NAME(thread);
    if (c == NULL) return NULL;
    return column_tensor(table, c, c->given != HD_DTYPE_DEFAULT ? c->given : kept_dtype(c));
}

hd_tensor *hd_table_matrix(hd_table *table, const char *const *names, int count, hd_dtype dtype) {
    HD_ENTER("hd_table_matrix", NULL);
    HD_TRY_OR(table_check(table), NULL);
    if (names == NULL) count = table->columns;
    if (count < 1) {
        hd_fail(HD_ERROR_VALUE, "%d columns; there must be one at least", count);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    hd_span span;
    hd_span_begin(&span, thread, "table_matrix");
    hd_tensor *matrix = hd_empty(HD_SHAPE(table->rows, count), dtype);
    for (int i = 0; i < count && thread->error_code == HD_OK; ++i) {
        const hd_column *c = names == NULL ? &table->column[i] : find(table, names[i]);
        if (c != NULL) hd_assign(hd_select(matrix, 1, i), column_tensor(table, c, kept_dtype(c)));
    }
    return hd_span_end(&span, thread->error_code == HD_OK ? matrix : NULL);
}
