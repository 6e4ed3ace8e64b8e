/* What products have in common, above template_product.h, or template_conv.h: their types, what a launch passes,
 * which tile a group has, and how pieces of k are joined. Integers are summed without a sign in 32 or 64 bits, of
 * which the result has the lower ones. What is done with an element when its sum is there is PRODUCT_STORE, which a
 * fused epilogue replaces, with the buffers and the fields that it needs. */
#if C_BYTES == 8
#define SUM_BYTES 8
#else
#define SUM_BYTES 4
#endif
#if C_IS_FLOAT
typedef C_TYPE product_sum;
#elif SUM_BYTES == 8
typedef uint64_t product_sum;
#else
typedef uint32_t product_sum;
#endif
#ifdef MULTIPLY /* template_conv.h: warps have PER_M rows and PER_N columns, and positions are narrow */
#define THREADS (TILE_M / PER_M * (TILE_N / PER_N) * 32)
#define NARROW  1
#else /* threads have them */
#define THREADS (TILE_M / PER_M * (TILE_N / PER_N))
#endif
#if NARROW
typedef int32_t product_index;
#else
typedef int64_t product_index;
#endif

/* Roundings of an f32 sum grow with its way along k. So a sum walks through at most so many steps of k; what it has
 * then is added to a total, and it begins again. (256 would be too many for the bounds of tests.) Totals lie in a
 * thread's own memory, and not in registers, most of which the sums need: PRODUCT_TOTALS is their first place, 0, which
 * no compiler knows. */
#if C_IS_FLOAT && C_BYTES == 4
#define PRODUCT_WALK   128
#define PRODUCT_ROUNDS (PRODUCT_WALK / TILE_K) /* of a walk */
#define PRODUCT_TOTALS ((int)(a.k_pieces < 1))
#endif

#ifndef PRODUCT_STORE /* with its bias into memory */
#define PRODUCT_BUFFERS      W_GLOBAL char *bias_memory W_SLOT(3), W_GLOBAL char *out_memory W_SLOT(4),
#define PRODUCT_BUFFER_COUNT 5
#define PRODUCT_FIELDS       int64_t bias_offset, out_offset;
#define PRODUCT_ADDRESSES                                                                                              \
    W_GLOBAL const BIAS_MEMORY *const bias = (W_GLOBAL const BIAS_MEMORY *)(bias_memory + a.bias_offset);              \
    W_GLOBAL C_MEMORY *const out = (W_GLOBAL C_MEMORY *)(out_memory + a.out_offset);
#define PRODUCT_STORE                                                                                                  \
    C_TYPE value = (C_TYPE)total;                                                                                      \
    if (a.has_bias) value += (C_TYPE)BIAS_LOAD(bias[along_bias * (product_index)a.bias_stride]);                       \
    out[line * (product_index)a.columns + place] = C_STORE(value);
#endif

typedef struct product_arguments {
    int64_t a_offset, b_offset, parts_offset;
    PRODUCT_FIELDS
    int64_t m, n, k;                  /* of one matrix */
    int64_t tiles_m, tiles_n;         /* of it */
    int64_t batches;                  /* matrices */
    int64_t k_piece, k_pieces;        /* of k: elements of one, and how many */
    int64_t a_lies_down, b_lies_down; /* neighbours in memory are those along the rows of A, along k of B */
    int64_t a_row;                    /* from one row of A to the next */
    int64_t columns;                  /* of the result in memory, where it is rows of them */
    int64_t has_bias, bias_stride;
#if FORM == 0
    int64_t a_column, b_row, b_column;
    int64_t lines;                                          /* rows of the result that a matrix has */
    int64_t row_line, column_line, row_place, column_place; /* where an element of it lies there */
    int64_t batch_rank, batch_size[6], a_batch[6], b_batch[6];
#else
    int64_t a_group, b_group, b_first; /* matrices are groups of channels; what is before the image */
    int64_t channels;                  /* of the result */
    int64_t k_size[3], column_size[3]; /* k and the columns count through outer ones and these */
    int64_t k_a[4], k_b[4], column_b[4];
    int64_t k_step[3], k_begin[3], column_step[3], column_begin[3]; /* where in the image that is */
    int64_t image[3], stride[3], image_stride[3];
    int64_t
        a_in_eights; /* along k, elements 8 i to 8 i + 7 of A lie side by side, each such eight at a multiple of 8 */
#endif
} product_arguments;

/* An element of a matrix of the batch lies in row `line` of the result, at `place`. */
#if FORM == 0
#define PRODUCT_PLACE                                                                                                  \
    const product_index line = batch * (product_index)a.lines + row * (product_index)a.row_line +                      \
                               column * (product_index)a.column_line,                                                  \
                        place = row * (product_index)a.row_place + column * (product_index)a.column_place,             \
                        along_bias = place;                                                                            \
    (void)along_bias;
#else
#define PRODUCT_PLACE                                                                                                  \
    const product_index image = column / (product_index)a.columns, place = column % (product_index)a.columns,          \
                        along_bias = batch * rows + row, line = image * (product_index)a.channels + along_bias;
#endif

#if FORM
/* Position `number` as outer ones and three of these sizes: where it is in memory, and where in the image. */
#define PRODUCT_POINT(number, size, strides, steps, begins, at, p0, p1, p2)                                            \
    {                                                                                                                  \
        const product_index x2 = (number) % (product_index)a.size[2], y1 = (number) / (product_index)a.size[2],        \
                            x1 = y1 % (product_index)a.size[1], y0 = y1 / (product_index)a.size[1],                    \
                            x0 = y0 % (product_index)a.size[0], outer = y0 / (product_index)a.size[0];                 \
        at = outer * (product_index)a.strides[0] + x0 * (product_index)a.strides[1] +                                  \
             x1 * (product_index)a.strides[2] + x2 * (product_index)a.strides[3];                                      \
        p0 = x0 * (product_index)a.steps[0] + (product_index)a.begins[0];                                              \
        p1 = x1 * (product_index)a.steps[1] + (product_index)a.begins[1];                                              \
        p2 = x2 * (product_index)a.steps[2] + (product_index)a.begins[2];                                              \
    }
#endif
#if FORM == 2
/* Between the pixels that strides put apart there is nothing. */
W_INLINE bool product_is_pixel(product_index p, product_index stride, product_index size) {
    return p >= 0 && (stride == 1 || p % stride == 0) && p / stride < size;
}
#endif

/* The tile that a group of threads has: its matrix of the batch, where it begins, and which piece of k. */
enum { PRODUCT_BAND = 8 }; /* rows of tiles that are done together, as they read the same of B */
#define PRODUCT_TILE                                                                                                   \
    const product_index tiles = (product_index)(a.tiles_m * a.tiles_n), group = (product_index)W_GROUP(0);             \
    const product_index batch = group / tiles, tile = group % tiles;                                                   \
    const product_index band = tile / (PRODUCT_BAND * (product_index)a.tiles_n) * PRODUCT_BAND,                        \
                        in_band = tile - band * (product_index)a.tiles_n, left_rows = (product_index)a.tiles_m - band, \
                        band_rows = left_rows < PRODUCT_BAND ? left_rows : PRODUCT_BAND;                               \
    const product_index first_row = (band + in_band % band_rows) * TILE_M,                                             \
                        first_column = in_band / band_rows * TILE_N;                                                   \
    const product_index begin = (product_index)W_GROUP(1) * (product_index)a.k_piece,                                  \
                        end = (product_index)a.k - begin < (product_index)a.k_piece                                    \
                                  ? (product_index)a.k                                                                 \
                                  : begin + (product_index)a.k_piece;

/* The sums of all pieces of k, in their order; a thread has an element. */
W_KERNEL_OF(THREADS)
void product_join(W_GLOBAL char *a_memory W_SLOT(0), W_GLOBAL char *b_memory W_SLOT(1),
                  W_GLOBAL char *parts_memory W_SLOT(2),
                  PRODUCT_BUFFERS W_ARGUMENTS(product_arguments, a, PRODUCT_BUFFER_COUNT) W_IDS) {
    W_GLOBAL const product_sum *const parts = (W_GLOBAL const product_sum *)(parts_memory + a.parts_offset);
    PRODUCT_ADDRESSES
    const product_index rows = (product_index)a.m, columns = (product_index)a.n,
                        all = (product_index)a.batches * rows * columns,
                        element = (product_index)W_GROUP(0) * THREADS + W_THREAD;
    if (element >= all) return;
    const product_index batch = element / (rows * columns), inside = element % (rows * columns), row = inside / columns,
                        column = inside % columns;
    product_sum total = 0;
    for (product_index piece = 0; piece < (product_index)a.k_pieces; ++piece) total += parts[piece * all + element];
    PRODUCT_PLACE
    PRODUCT_STORE
}
