/* Data: datasets, the order in which they are read, loaders that make batches of them, changes of images, readers of
 * files (CSV, PNG, IDX), and tokenizers.
 *
 *     hd_loader *loader = hd_batches(images, labels, 32, NULL);        // shuffled
 *     for (int step = 0; step < 1000; ++step) {
 *         HD_SCOPE;
 *         hd_batch batch = hd_loader_next(loader);                     // goes on for ever: epoch after epoch
 *         ...
 *     }
 *     HD_BATCHES(batch, loader) { ... batch.x ... batch.y ... }        // one epoch, each batch in a scope of its own
 */
#ifndef HODU_DATA_H
#define HODU_DATA_H

#include <hodu/list.h>
#include <hodu/random.h>

typedef struct hd_dataset hd_dataset;
typedef struct hd_sampler hd_sampler;
typedef struct hd_loader hd_loader;
typedef struct hd_table hd_table;
typedef struct hd_tokenizer hd_tokenizer;

HD_BEGIN_DECLS
/* ---- datasets: so many items, each a list of tensors x, y, ... -------------------------------------------------- */
/* Functions of the user's run on threads of a loader when it has workers, several at once. What they draw (hd_rand,
 * ...) follows from the loader's seed and the item's place in the epoch. In a loader items are on the CPU. */
/* Item i is row i of each tensor, which agree in the size of their first axis. Batches are gathered by one op each. */
HD_API hd_dataset *hd_tensor_dataset(hd_tensors *tensors);
/* Item i is what `item(i, user)` returns, made in the scope it is called in; `destroy`, which may be NULL, is called
 * with the dataset's end. */
HD_API hd_dataset *hd_function_dataset(int64_t count, hd_tensors *(*item)(int64_t index, void *user), void *user,
                                       void (*destroy)(void *user));
/* A tensor in a record of a file. */
typedef struct hd_record_field {
    hd_dtype dtype;
    hd_shape shape;
} hd_record_field;
/* The records of a file that is mapped, behind `header_bytes`: fields side by side without gaps, little endian. The
 * file must be a whole number of records, and must not become shorter meanwhile. */
HD_API hd_dataset *hd_file_dataset(const char *path, const hd_record_field *fields, int count, int64_t header_bytes);
/* The items at `indices` [n], integers, which may repeat. */
HD_API hd_dataset *hd_dataset_subset(hd_dataset *dataset, hd_tensor *indices);
/* The items of all, one dataset behind the other. */
HD_API hd_dataset *hd_dataset_concat(hd_dataset *const *datasets, int count);
/* Each item changed by `change(item, user)`. */
HD_API hd_dataset *hd_dataset_map(hd_dataset *dataset, hd_tensors *(*change)(hd_tensors *item, void *user), void *user,
                                  void (*destroy)(void *user));
HD_API int64_t hd_dataset_count(const hd_dataset *dataset);
/* Item `index`, which may count from the end. */
HD_API hd_tensors *hd_dataset_get(hd_dataset *dataset, int64_t index);

typedef struct hd_split_opts {
    size_t struct_size;
    uint64_t seed;     /* of the order in which items are dealt out */
    bool in_order;     /* they stay as they are: no seed */
    hd_tensor *labels; /* [items], integers: every part gets its share of each class */
} hd_split_opts;
/* Deals all items out to `parts` datasets of so many items each, into `out`; all NULL on failure. */
HD_API void hd_dataset_split(hd_dataset *dataset, const int64_t *counts, int parts, const hd_split_opts *opts,
                             hd_dataset **out);
/* The same by fractions, which add up to 1. What rounding leaves goes to the first parts, one item each. */
HD_API void hd_dataset_split_fractions(hd_dataset *dataset, const double *fractions, int parts,
                                       const hd_split_opts *opts, hd_dataset **out);
typedef struct hd_fold {
    hd_dataset *train, *test; /* both NULL when an error is pending */
} hd_fold;
/* Cross-validation: fold `which` of `folds` is the test set, the others train. Every item is tested once. */
HD_API hd_fold hd_kfold(hd_dataset *dataset, int folds, int which, const hd_split_opts *opts);

/* ---- samplers: which items an epoch has, and in which order; it follows from the seed and the epoch alone -------- */
HD_API hd_sampler *hd_sequential_sampler(int64_t count);
HD_API hd_sampler *hd_random_sampler(int64_t count, uint64_t seed);
/* `draws` items with replacement, each as probable as its weight: weights [items] not negative. */
HD_API hd_sampler *hd_weighted_sampler(hd_tensor *weights, int64_t draws, uint64_t seed);
/* All items in random order, but the classes of labels [items] evenly mixed: a batch has its share of each. */
HD_API hd_sampler *hd_stratified_sampler(hd_tensor *labels, uint64_t seed);
/* `order(epoch, out, user)` writes `count` indices. */
HD_API hd_sampler *hd_function_sampler(int64_t count, void (*order)(int64_t epoch, int64_t *out, void *user),
                                       void *user, void (*destroy)(void *user));
/* The indices of an epoch: [count] i64. */
HD_API hd_tensor *hd_sampler_order(hd_sampler *sampler, int64_t epoch);

/* ---- loaders ----------------------------------------------------------------------------------------------------- */
/* All NULL and 0 when an error is pending. */
typedef struct hd_batch {
    hd_tensor *x, *y; /* the first two tensors of all; y NULL when there is only one */
    hd_tensors *all;
    int64_t count; /* items; the last batch of an epoch may have fewer */
} hd_batch;

typedef struct hd_loader_opts {
    size_t struct_size;
    bool shuffle;        /* by a random sampler with the loader's seed */
    hd_sampler *sampler; /* instead; without either items come in order */
    bool drop_last;      /* a last batch that is not full is left out */
    /* Makes a batch of items, instead of stacking each of their tensors. */
    hd_tensors *(*collate)(hd_tensors *const *items, int64_t count, void *user);
    void *collate_user;
    int workers;      /* threads that make batches; 0: they are made in hd_loader_next */
    int prefetch;     /* batches under way ahead of the one that is asked for; 2 for each worker by default */
    uint64_t seed;    /* of order and draws; 0: drawn from this thread's generator, so that hd_seed decides */
    hd_device device; /* where batches are; this thread's by default */
} hd_loader_opts;
HD_API hd_loader *hd_loader_new(hd_dataset *dataset, int64_t batch_size, const hd_loader_opts *opts);
/* A loader of rows of x and y, which may be NULL: shuffled, unless the options have a sampler. */
HD_API hd_loader *hd_batches(hd_tensor *x, hd_tensor *y, int64_t batch_size, const hd_loader_opts *opts);
/* The next batch, in the current scope. Behind the last of an epoch comes the first of the next. The batches are the
 * same for any number of workers. An error of a worker's is this call's, and the next call tries that batch again. */
HD_API hd_batch hd_loader_next(hd_loader *loader);
/* The epoch of the batch that comes next, from 0 on. */
HD_API int64_t hd_loader_epoch(const hd_loader *loader);
/* Batches of an epoch. */
HD_API int64_t hd_loader_count(const hd_loader *loader);

/* Where a loader stands, for a checkpoint: one over the same dataset with the same options gives the same batches from
 * there on, bit for bit. */
typedef struct hd_loader_place {
    uint64_t seed;
    int64_t epoch, batch; /* which come next */
} hd_loader_place;
HD_API hd_loader_place hd_loader_position(const hd_loader *loader);
HD_API void hd_loader_seek(hd_loader *loader, hd_loader_place place);

/* What HD_BATCHES walks with: a batch, and the scope that it is in. */
typedef struct hd_epoch_walk {
    hd_tensor *x, *y;
    hd_tensors *all;
    int64_t count;
    hd_loader *loader;
    int64_t epoch;
    hd_scope_token scope;
    const char *file;
    int line;
} hd_epoch_walk;
HD_API hd_epoch_walk hd_epoch_begin(hd_loader *loader, const char *file, int line);
/* Ends the scope of the batch before and gives the next one in a new scope; false: the epoch is over, or an error is
 * pending. */
HD_API bool hd_epoch_next(hd_epoch_walk *walk);
HD_API void hd_epoch_end(hd_epoch_walk *walk);

/* ---- images: [c,h,w], or batches [n,c,h,w] whose images are each drawn for. By ops: they can be recorded --------- */
/* Draws come from `generator`; NULL: the one in use, which in a loader is the item's own. */
/* A window of this size, at random, of x with zeros around it. */
HD_API hd_tensor *hd_image_random_crop(hd_tensor *x, int64_t height, int64_t width, int64_t padding,
                                       hd_generator *generator);
/* Left becomes right, or top becomes bottom, with this probability. */
HD_API hd_tensor *hd_image_random_hflip(hd_tensor *x, double probability, hd_generator *generator);
HD_API hd_tensor *hd_image_random_vflip(hd_tensor *x, double probability, hd_generator *generator);
/* Turned about its centre, counter-clockwise, by linear interpolation; outside are zeros. Integers are rounded. */
HD_API hd_tensor *hd_image_rotate(hd_tensor *x, double degrees);
/* By an angle from -degrees to degrees. */
HD_API hd_tensor *hd_image_random_rotate(hd_tensor *x, double degrees, hd_generator *generator);
/* (x - mean) / deviation, [c] each: as float. */
HD_API hd_tensor *hd_image_normalize(hd_tensor *x, hd_tensor *mean, hd_tensor *deviation);
/* hd_resize of the last two axes; between elements integers are computed as f32, and rounded. */
HD_API hd_tensor *hd_image_resize(hd_tensor *x, int64_t height, int64_t width, const hd_resize_opts *opts);

/* ---- readers: what does not follow the format is an error that names the file and the place ---------------------- */
typedef struct hd_csv_opts {
    size_t struct_size;
    char separator;         /* ',' by default */
    char quote;             /* '"' by default; twice inside a quoted field it is itself */
    bool no_header;         /* the first line is data, and columns are called "0", "1", ... */
    const hd_dtype *dtypes; /* of the columns; HD_DTYPE_DEFAULT, or NULL for all: what their fields ask for */
    int dtype_count;        /* 0, that of the columns, or 1 for all of them */
    const char *missing;    /* stands for a missing value, as an empty field does: "NA" */
    double missing_value;   /* in its place; NaN by default; HD_ZERO for 0 */
    bool refuse_missing;    /* a missing value is an error */
} hd_csv_opts;
/* A table of columns. Those of integers are i64, of other numbers f64, of text i64, which number the texts of the
 * column in the order in which they come. A missing value makes integers f64, unless a missing_value is given, and is
 * -1 among texts. Blank lines of a table with several columns are passed over. */
HD_API hd_table *hd_csv_load(const char *path, const hd_csv_opts *opts);
HD_API hd_table *hd_csv_parse(const char *text, size_t bytes, const hd_csv_opts *opts);
HD_API int64_t hd_table_rows(const hd_table *table);
HD_API int hd_table_columns(const hd_table *table);
HD_API const char *hd_table_name(const hd_table *table, int column);
/* A column by its name: [rows]. */
HD_API hd_tensor *hd_table_column(hd_table *table, const char *name);
/* Columns by their names side by side, NULL: all of them: [rows,count] of `dtype`. */
HD_API hd_tensor *hd_table_matrix(hd_table *table, const char *const *names, int count, hd_dtype dtype);
/* How many texts a column has, 0 when its fields are numbers; and text number `code`. It lives as long as the table. */
HD_API int64_t hd_table_texts(const hd_table *table, const char *name);
HD_API const char *hd_table_text(const hd_table *table, const char *name, int64_t code);

/* PNG: [c,h,w], u8 or u16, the values as they are in the file; c is 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha.
 * Palettes become RGB, fewer bits than 8 gray of 8, transparent colours alpha. libpng16 is opened at the first. */
HD_API hd_tensor *hd_png_load(const char *path);
HD_API hd_tensor *hd_png_parse(const void *bytes, size_t count);
HD_API void hd_png_save(const char *path, hd_tensor *image);

/* IDX, as of MNIST: a tensor of u8, i8, i16, i32, f32 or f64. Compressed files (.gz) are refused. */
HD_API hd_tensor *hd_idx_load(const char *path);
HD_API hd_tensor *hd_idx_parse(const void *bytes, size_t count);

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */
/* Tokens 0 to 255 are the bytes. */
HD_API hd_tokenizer *hd_byte_tokenizer(void);
/* Byte pair encoding, learnt from a text: again and again the most frequent pair of neighbours becomes a token, until
 * there are `size` (256 at least) or none occurs twice; of equally frequent ones that of the smallest numbers. Pairs do
 * not reach across words: letters and digits with a space before them, other signs, or blanks. */
HD_API hd_tokenizer *hd_bpe_train(const char *text, size_t bytes, int64_t size);
/* How many tokens there are. */
HD_API int64_t hd_tokenizer_size(const hd_tokenizer *tokenizer);
/* The tokens of a text: [n] i64. */
HD_API hd_tensor *hd_tokenizer_encode(hd_tokenizer *tokenizer, const char *text, size_t bytes);
/* The text of tokens [n], integers, into `out`, terminated when there is room; returns the length of all of it, as
 * snprintf does; -1 on error. */
HD_API int64_t hd_tokenizer_decode(hd_tokenizer *tokenizer, hd_tensor *tokens, char *out, size_t capacity);
/* A file of text, a line for each pair; the old one stays until all of it is on the disk. */
HD_API void hd_tokenizer_save(hd_tokenizer *tokenizer, const char *path);
HD_API hd_tokenizer *hd_tokenizer_load(const char *path);
HD_API hd_tokenizer *hd_tokenizer_parse(const char *text, size_t bytes);
HD_END_DECLS

#ifdef HD_CHECKED
#define hd_table_matrix(...) HD_CHECKED(4, HD_CHECK_4_OF_4, hd_table_matrix, __VA_ARGS__)
#endif

/* HD_BATCHES(batch, loader) { ... } runs its block for each batch from where the loader stands to the end of its epoch;
 * batch.x, batch.y, batch.all and batch.count are there, and go with what else the block makes when it ends, also by
 * break. */
#ifdef __cplusplus
extern "C++" {
struct hd_epoch_guard : hd_epoch_walk {
    hd_epoch_guard(hd_loader *loader, const char *file, int line) : hd_epoch_walk(hd_epoch_begin(loader, file, line)) {}
    hd_epoch_guard(const hd_epoch_guard &) = delete;
    hd_epoch_guard &operator=(const hd_epoch_guard &) = delete;
    ~hd_epoch_guard() { hd_epoch_end(this); }
};
}
#define HD_BATCHES(batch, loader) for (hd_epoch_guard batch(loader, __FILE__, __LINE__); hd_epoch_next(&batch);)
#else
#define HD_BATCHES(batch, loader)                                                                                      \
    for (hd_epoch_walk batch __attribute__((cleanup(hd_epoch_end))) = hd_epoch_begin(loader, __FILE__, __LINE__);      \
         hd_epoch_next(&batch);)
#endif

#endif
