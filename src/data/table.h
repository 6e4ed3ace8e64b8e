/* Tables: columns of numbers, or of the numbers of texts. */
#ifndef HD_DATA_TABLE_H
#define HD_DATA_TABLE_H

#include "data/object.h"

#include <hodu/data.h>

typedef enum hd_column_kind { HD_COLUMN_NEW, HD_COLUMN_INTEGERS, HD_COLUMN_NUMBERS, HD_COLUMN_TEXTS } hd_column_kind;

/* The texts of a column, each once. */
typedef struct hd_texts {
    char *pool; /* one behind the other, each with a zero byte */
    size_t used, room;
    size_t *begins; /* of text i in the pool */
    int64_t count, capacity;
    int64_t *slots; /* a hash table of numbers + 1; 0: empty */
    int64_t slot_count;
} hd_texts;

typedef union hd_cell {
    int64_t integer; /* or the number of a text; -1: it is missing */
    double number;
} hd_cell;

typedef struct hd_column {
    char *name;
    hd_column_kind kind;
    hd_dtype given; /* HD_DTYPE_DEFAULT: what its fields ask for */
    hd_cell *cells;
    hd_texts texts;
} hd_column;

struct hd_table {
    hd_object object;
    int64_t rows, capacity;
    int columns;
    hd_column *column;
};

/* An empty table of the caller's; NULL with an error. */
hd_table *hd_table_new(hd_thread *thread, int columns);
hd_error hd_table_set_name(hd_table *t, int column, const char *name, size_t length);
/* Room for one row more. */
hd_error hd_table_grow(hd_table *t);
/* Forgets rows and texts. */
void hd_table_clear(hd_table *t);
/* The number of a text, which is new or was there before; -1 with an error. */
int64_t hd_texts_number(hd_texts *t, const char *text, size_t length);
void hd_texts_release(hd_texts *t);

#endif
