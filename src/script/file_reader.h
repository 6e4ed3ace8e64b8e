/* Reading a .hoduscript file: what its two parts share, the tables (file_tables.c) and the nodes (file_read.c).
 *
 * Nothing in a file is believed: every count is held against the bytes that are there before anything is allocated,
 * every number against what it counts, every string ends; what the nodes mean is checked by calling them. */
#ifndef HD_SCRIPT_FILE_READER_H
#define HD_SCRIPT_FILE_READER_H

#include "script/file.h"

typedef struct hd_cursor {
    const unsigned char *at, *end;
    const char *section;
} hd_cursor;

/* An entry of STRS, SHAP or ATTR. */
typedef struct hd_piece {
    const unsigned char *bytes;
    uint32_t size;
} hd_piece;
typedef struct hd_pieces {
    hd_piece *items;
    uint32_t count;
} hd_pieces;

typedef struct hd_known_op {
    uint16_t op; /* as in a node */
    uint8_t field_count;
    const hd_field *fields[HD_FILE_FIELDS_MOST]; /* in the file's order */
} hd_known_op;

typedef struct hd_reader {
    hd_thread *thread;
    hd_file *file;
    uint32_t version;     /* of the format */
    unsigned char *bytes; /* all in front of DATA */
    hd_cursor sections[HD_FILE_SECTION_COUNT];
    uint64_t data, data_size;                /* DATA, in the file */
    uint64_t code, code_size, code_checksum; /* code, in the file */
    hd_pieces strings, shapes, attributes;
    hd_dtype *types;
    uint32_t type_count;
    hd_known_op *ops;
    uint32_t op_count;
    uint32_t constant_count, cell_count;
    hd_graph *g;
} hd_reader;

/* ---- taking bytes ------------------------------------------------------------------------------------------------ */
#define HD_BAD(...) hd_fail(HD_ERROR_VALUE, __VA_ARGS__)

static inline size_t hd_cursor_left(const hd_cursor *c) { return (size_t)(c->end - c->at); }

/* The next bytes; NULL with an error when there are not that many. */
static inline const unsigned char *hd_cursor_bytes(hd_cursor *c, size_t bytes) {
    if (hd_cursor_left(c) < bytes) {
        HD_BAD("has a section %s that ends too early", c->section);
        return NULL;
    }
    c->at += bytes;
    return c->at - bytes;
}

static inline hd_error hd_cursor_u32(hd_cursor *c, uint32_t *out) {
    const unsigned char *at = hd_cursor_bytes(c, 4);
    *out = at != NULL ? hd_file_u32(at) : 0;
    return at != NULL ? HD_OK : HD_ERROR_VALUE;
}

static inline hd_error hd_cursor_i64(hd_cursor *c, int64_t *out) {
    const unsigned char *at = hd_cursor_bytes(c, 8);
    *out = at != NULL ? (int64_t)hd_file_u64(at) : 0;
    return at != NULL ? HD_OK : HD_ERROR_VALUE;
}

/* A count of records of at least `bytes` each, which must all be there. */
static inline hd_error hd_cursor_count(hd_cursor *c, size_t bytes, uint32_t *out) {
    HD_TRY(hd_cursor_u32(c, out));
    if (*out > hd_cursor_left(c) / bytes)
        return HD_BAD("has a section %s of %u entries, more than its bytes can hold", c->section, *out);
    return HD_OK;
}

static inline hd_error hd_cursor_end(const hd_cursor *c) {
    return hd_cursor_left(c) == 0 ? HD_OK
                                  : HD_BAD("has a section %s with %zu bytes too many", c->section, hd_cursor_left(c));
}

static inline void *hd_reader_array(size_t count, size_t size) {
    void *array = hd_array_resize(NULL, (count + 1) * size);
    if (array == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a table of %zu", count);
    return array;
}

/* The number of a string, as that string. */
hd_error hd_cursor_string(const hd_reader *r, hd_cursor *c, const char **out);

/* Finds the sections and verifies them; then reads those that others refer to, and the places of tensors. */
hd_error hd_reader_sections(hd_reader *r);
hd_error hd_reader_tables(hd_reader *r);

#endif
