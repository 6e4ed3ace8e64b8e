/* CSV: fields with separators between them, in quotes where they need them. A column that turns out to be text after
 * numbers makes the file be read once more: then it is known. */
#include "core/options.h"
#include "data/file.h"
#include "data/number.h"
#include "data/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    const char *at, *end;
    int64_t line; /* from 1 on */
    int64_t row_line;
    int column; /* from 0 on, of the row that is read */
    const hd_csv_opts *opts;
    hd_table *table;
    char *unquoted; /* a field without its quotes, when they were doubled */
    size_t room;
    hd_texts names; /* of the columns, to see that each is another one */
    bool once_more;
} reader;

typedef struct field {
    const char *text;
    size_t length;
    bool quoted, is_last; /* of its row */
} field;

/* "line 3, column 2 ("age")": where a row's field is. */
static const char *place(const reader *r, char out[128]) {
    const char *name = r->table != NULL && r->column < r->table->columns ? r->table->column[r->column].name : NULL;
    snprintf(out, 128, "line %lld, column %d%s%.60s%s", (long long)r->row_line, r->column + 1, name ? " (\"" : "",
             name ? name : "", name ? "\")" : "");
    return out;
}
#define PLACE(r) place(r, (char[128]){0})

/* ---- fields ------------------------------------------------------------------------------------------------------ */
/* What stands behind a field: a separator, the end of its line, or of the file. */
static hd_error read_end(reader *r, field *f) {
    f->is_last = true;
    if (r->at == r->end) return HD_OK;
    const char c = *r->at++;
    if (c == r->opts->separator) {
        f->is_last = false;
        return HD_OK;
    }
    if (c == '\n' || (c == '\r' && r->at < r->end && *r->at == '\n')) {
        r->at += c == '\r';
        r->line++;
        return HD_OK;
    }
    if (c == '\r') return hd_fail(HD_ERROR_VALUE, "%s: a carriage return without a line feed", PLACE(r));
    if (c == '\0') return hd_fail(HD_ERROR_VALUE, "%s: a zero byte; this is no text", PLACE(r));
    if (f->quoted) return hd_fail(HD_ERROR_VALUE, "%s: '%c' follows the closing quote", PLACE(r), c);
    return hd_fail(HD_ERROR_VALUE, "%s: a quote inside a field that is not quoted", PLACE(r));
}

/* Takes `count` bytes to those that are there. */
static hd_error keep(reader *r, field *f, const char *from, size_t count) {
    if (r->room - f->length < count || r->unquoted == NULL) {
        const size_t room = 2 * r->room + count + 64;
        char *bytes = hd_array_resize(r->unquoted, room);
        if (bytes == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a field of %zu bytes", count);
        r->unquoted = bytes;
        r->room = room;
    }
    memcpy(r->unquoted + f->length, from, count);
    f->length += count;
    f->text = r->unquoted;
    return HD_OK;
}

static hd_error read_quoted(reader *r, field *f) {
    const char quote = r->opts->quote;
    for (r->at++;;) {
        const char *begin = r->at;
        while (r->at < r->end && *r->at != quote && *r->at != '\0') r->line += *r->at++ == '\n';
        if (r->at == r->end) return hd_fail(HD_ERROR_VALUE, "%s: a quoted field without an end", PLACE(r));
        if (*r->at == '\0') return hd_fail(HD_ERROR_VALUE, "%s: a zero byte; this is no text", PLACE(r));
        r->at++;
        const bool doubled = r->at < r->end && *r->at == quote;
        if (!doubled && f->text == NULL) { /* as it stands there */
            f->text = begin;
            f->length = (size_t)(r->at - 1 - begin);
            return HD_OK;
        }
        HD_TRY(keep(r, f, begin, (size_t)(r->at - begin) - !doubled));
        if (!doubled) return HD_OK;
        r->at++;
    }
}

static hd_error read_field(reader *r, field *f) {
    const char separator = r->opts->separator, quote = r->opts->quote;
    *f = (field){.quoted = r->at < r->end && *r->at == quote};
    if (f->quoted) {
        HD_TRY(read_quoted(r, f));
        return read_end(r, f);
    }
    f->text = r->at;
    while (r->at < r->end && *r->at != separator && *r->at != '\n' && *r->at != '\r' && *r->at != quote &&
           *r->at != '\0')
        r->at++;
    f->length = (size_t)(r->at - f->text);
    return read_end(r, f);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */
static void trim(field *f) {
    while (f->length > 0 && (f->text[0] == ' ' || f->text[0] == '\t')) f->text++, f->length--;
    while (f->length > 0 && (f->text[f->length - 1] == ' ' || f->text[f->length - 1] == '\t')) f->length--;
}

static bool is_missing(const hd_csv_opts *o, const field *f) {
    if (f->quoted) return false;
    return f->length == 0 ||
           (o->missing != NULL && f->length == strlen(o->missing) && memcmp(f->text, o->missing, f->length) == 0);
}

/* Integers become numbers from here up. */
static void widen(hd_column *c, int64_t rows) {
    for (int64_t i = 0; c->kind == HD_COLUMN_INTEGERS && i < rows; ++i)
        c->cells[i].number = (double)c->cells[i].integer;
    c->kind = HD_COLUMN_NUMBERS;
}

static bool fits(hd_dtype dtype, int64_t v) {
    switch (hd_dtype_bytes[dtype]) {
    case 1: return dtype == HD_BOOL ? v == 0 || v == 1 : dtype == HD_U8 ? v >= 0 && v <= UINT8_MAX : v == (int8_t)v;
    case 2: return dtype == HD_U16 ? v >= 0 && v <= UINT16_MAX : v == (int16_t)v;
    case 4: return dtype == HD_U32 ? v >= 0 && v <= UINT32_MAX : v == (int32_t)v;
    default: return dtype != HD_U64 || v >= 0;
    }
}

static hd_error set_integer(reader *r, hd_column *c, int64_t v) {
    hd_cell *cell = &c->cells[r->table->rows];
    if (c->given != HD_DTYPE_DEFAULT && c->kind == HD_COLUMN_INTEGERS && !fits(c->given, v))
        return hd_fail(HD_ERROR_VALUE, "%s: %lld does not fit %s", PLACE(r), (long long)v, hd_dtype_name(c->given));
    if (c->kind == HD_COLUMN_NEW) c->kind = HD_COLUMN_INTEGERS;
    if (c->kind == HD_COLUMN_INTEGERS)
        cell->integer = v;
    else
        cell->number = (double)v;
    return HD_OK;
}

static hd_error set_number(reader *r, hd_column *c, double v) {
    if (c->kind == HD_COLUMN_INTEGERS && c->given != HD_DTYPE_DEFAULT)
        return hd_fail(HD_ERROR_VALUE, "%s: %g is no integer, as %s needs", PLACE(r), v, hd_dtype_name(c->given));
    if (c->kind != HD_COLUMN_NUMBERS) widen(c, r->table->rows);
    c->cells[r->table->rows].number = v;
    return HD_OK;
}

static hd_error set_missing(reader *r, hd_column *c) {
    const double v = r->opts->missing_value;
    if (r->opts->refuse_missing) return hd_fail(HD_ERROR_VALUE, "%s: a missing value", PLACE(r));
    if (c->kind == HD_COLUMN_TEXTS) {
        c->cells[r->table->rows].integer = -1;
        return HD_OK;
    }
    if (isnan(v) && c->kind == HD_COLUMN_INTEGERS && c->given != HD_DTYPE_DEFAULT)
        return hd_fail(HD_ERROR_VALUE, "%s: a missing value, which %s cannot say; give a missing_value", PLACE(r),
                       hd_dtype_name(c->given));
    if (v >= -0x1p53 && v <= 0x1p53 && v == (double)(int64_t)v) return set_integer(r, c, (int64_t)v);
    return set_number(r, c, v);
}

static hd_error set_text(reader *r, hd_column *c, const field *f) {
    if (c->kind == HD_COLUMN_TEXTS) {
        c->cells[r->table->rows].integer = hd_texts_number(&c->texts, f->text, f->length);
        return c->cells[r->table->rows].integer >= 0 ? HD_OK : HD_ERROR_MEMORY;
    }
    if (c->given != HD_DTYPE_DEFAULT)
        return hd_fail(HD_ERROR_VALUE, "%s: \"%.*s\" is no number", PLACE(r), f->length < 40 ? (int)f->length : 40,
                       f->text);
    r->once_more = true;
    c->kind = HD_COLUMN_TEXTS; /* its cells so far mean nothing */
    c->cells[r->table->rows].integer = -1;
    return HD_OK;
}

static hd_error set_cell(reader *r, const field *given) {
    hd_column *c = &r->table->column[r->column];
    int64_t integer;
    double number;
    field f = *given;
    if (!f.quoted) trim(&f);
    if (is_missing(r->opts, &f)) return set_missing(r, c);
    if (c->kind == HD_COLUMN_TEXTS) return set_text(r, c, given);
    if (hd_integer_read(f.text, f.length, &integer)) return set_integer(r, c, integer);
    if (hd_number_read(f.text, f.length, &number)) return set_number(r, c, number);
    if (c->given == HD_BOOL && f.length == 4 && memcmp(f.text, "true", 4) == 0) return set_integer(r, c, 1);
    if (c->given == HD_BOOL && f.length == 5 && memcmp(f.text, "false", 5) == 0) return set_integer(r, c, 0);
    return set_text(r, c, given);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static void begin_row(reader *r) {
    r->column = 0;
    r->row_line = r->line;
}

static hd_error read_row(reader *r) {
    field f;
    begin_row(r);
    HD_TRY(hd_table_grow(r->table));
    for (;; r->column++) {
        HD_TRY(read_field(r, &f));
        if (f.is_last && r->column == 0 && f.length == 0 && !f.quoted && r->table->columns > 1)
            return HD_OK; /* blank */
        if (r->column == r->table->columns)
            return hd_fail(HD_ERROR_VALUE, "line %lld has more than the %d fields of the first line",
                           (long long)r->row_line, r->table->columns);
        HD_TRY(set_cell(r, &f));
        if (f.is_last) break;
    }
    if (r->column + 1 < r->table->columns)
        return hd_fail(HD_ERROR_VALUE, "line %lld has %d fields, the first line %d", (long long)r->row_line,
                       r->column + 1, r->table->columns);
    r->table->rows++;
    return HD_OK;
}

static hd_error read_rows(reader *r) {
    const char *begin = r->at;
    const int64_t line = r->line;
    for (int pass = 0; pass < 2; ++pass) {
        r->once_more = false;
        while (r->at < r->end) HD_TRY(read_row(r));
        if (!r->once_more) return HD_OK;
        r->at = begin;
        r->line = line;
        hd_table_clear(r->table);
        for (int i = 0; i < r->table->columns; ++i) {
            hd_column *c = &r->table->column[i];
            if (c->given == HD_DTYPE_DEFAULT && c->kind != HD_COLUMN_TEXTS) c->kind = HD_COLUMN_NEW;
        }
    }
    return HD_OK;
}

/* ---- the first line ---------------------------------------------------------------------------------------------- */
static hd_error count_columns(reader *r, int *columns) {
    const reader before = *r;
    field f = {.is_last = false};
    begin_row(r);
    for (*columns = 0; !f.is_last; ++*columns, ++r->column) HD_TRY(read_field(r, &f));
    r->at = before.at;
    r->line = before.line;
    return HD_OK;
}

static hd_error check_new_name(reader *r) {
    const char *name = r->table->column[r->column].name;
    const int64_t number = hd_texts_number(&r->names, name, strlen(name));
    if (number < 0) return HD_ERROR_MEMORY;
    if (number == r->column) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "columns %lld and %d are both called \"%.60s\"", (long long)number + 1,
                   r->column + 1, name);
}

static hd_error read_names(reader *r) {
    begin_row(r);
    for (; r->column < r->table->columns; ++r->column) {
        char number[16];
        field f = {.text = number};
        if (r->opts->no_header)
            f.length = (size_t)snprintf(number, sizeof number, "%d", r->column);
        else
            HD_TRY(read_field(r, &f));
        if (!f.quoted) trim(&f);
        HD_TRY(hd_table_set_name(r->table, r->column, f.text, f.length));
        if (!r->opts->no_header) HD_TRY(check_new_name(r));
    }
    return HD_OK;
}

static hd_error set_dtypes(reader *r) {
    const hd_csv_opts *o = r->opts;
    const int columns = r->table->columns;
    if (o->dtypes == NULL) return HD_OK;
    if (o->dtype_count != 0 && o->dtype_count != 1 && o->dtype_count != columns)
        return hd_fail(HD_ERROR_VALUE, "%d dtypes for %d columns", o->dtype_count, columns);
    for (int i = 0; i < columns; ++i) {
        const hd_dtype dtype = o->dtypes[o->dtype_count == 1 ? 0 : i];
        if (dtype != HD_DTYPE_DEFAULT && !hd_dtype_valid(dtype))
            return hd_fail(HD_ERROR_DTYPE, "column %d is to be of dtype %d, which is none", i + 1, (int)dtype);
        r->table->column[i].given = dtype;
        if (dtype != HD_DTYPE_DEFAULT)
            r->table->column[i].kind = hd_dtype_is_float(dtype) ? HD_COLUMN_NUMBERS : HD_COLUMN_INTEGERS;
    }
    return HD_OK;
}

static hd_error read_all(hd_thread *thread, reader *r) {
    int columns = 0;
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0) r->at += 3; /* a mark of UTF-8 */
    if (r->at == r->end) return hd_fail(HD_ERROR_VALUE, "there is no line, which would say how many columns there are");
    HD_TRY(count_columns(r, &columns));
    r->table = hd_table_new(thread, columns);
    if (r->table == NULL) return thread->error_code;
    HD_TRY(read_names(r));
    HD_TRY(set_dtypes(r));
    return read_rows(r);
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */
static hd_error read_csv_options(hd_csv_opts *options, const hd_csv_opts *given) {
    HD_TRY(hd_read_options(options, sizeof *options, given));
    if (options->separator == '\0') options->separator = ',';
    if (options->quote == '\0') options->quote = '"';
    if (options->missing_value == 0 && !signbit(options->missing_value)) options->missing_value = NAN;
    if (options->separator == options->quote || options->separator == '\n' || options->separator == '\r' ||
        options->quote == '\n' || options->quote == '\r')
        return hd_fail(HD_ERROR_VALUE, "separator and quote must be two characters, and no end of a line");
    return HD_OK;
}

hd_table *hd_csv_parse(const char *text, size_t bytes, const hd_csv_opts *opts) {
    HD_ENTER("hd_csv_parse", NULL);
    hd_csv_opts options;
    if (text == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`text` is NULL");
        return NULL;
    }
    HD_TRY_OR(read_csv_options(&options, opts), NULL);
    reader r = {.at = text, .end = text + bytes, .line = 1, .opts = &options};
    const hd_error status = read_all(thread, &r);
    hd_array_release(r.unquoted);
    hd_texts_release(&r.names);
    if (status == HD_OK) return hd_data_give(thread, r.table);
    hd_data_drop(thread, r.table);
    return NULL;
}

hd_table *hd_csv_load(const char *path, const hd_csv_opts *opts) {
    HD_ENTER("hd_csv_load", NULL);
    HD_KEEP_NAME(thread);
    hd_file_bytes file;
    HD_TRY_OR(hd_file_read_all(path, &file), NULL);
    HD_HOLD_ERRORS(thread);
    hd_table *table = hd_csv_parse(file.bytes, file.count, opts);
    if (table == NULL) hd_file_blame(thread, path);
    hd_array_release(file.bytes);
    return table;
}
