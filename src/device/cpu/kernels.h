/* The CPU's kernels: loops over contiguous memory, compiled once per instruction set. Everything about shapes, strides
 * and dtypes is dealt with by the files that call them. */
#ifndef HD_DEVICE_CPU_KERNELS_H
#define HD_DEVICE_CPU_KERNELS_H

#include "ops/op.h"

/* In front of a loop: element i depends on nothing but elements i, though the result may lie where an operand lies. */
#ifdef __clang__
#define EACH_ALONE /* it looks at the addresses itself */
#else
#define EACH_ALONE _Pragma("GCC ivdep")
#endif

/* out[i] = row(in[0][i], ...): all of the row's compute type; conditions and bool results are bytes 0 or 1.
 * out may be one of the inputs when their elements are of one size. */
typedef void (*hd_elementwise_kernel)(void *out, const void *const in[3], const void *numbers, int64_t n);

/* out[i] = (type)in[i] */
typedef void (*hd_convert_kernel)(void *out, const void *in, int64_t n);

/* Reductions that kernels know; any and all are max and min of bool. */
typedef enum hd_reduction { HD_REDUCE_SUM, HD_REDUCE_PROD, HD_REDUCE_MAX, HD_REDUCE_MIN, HD_REDUCTIONS } hd_reduction;
typedef struct hd_reduce_kernels {
    /* *accumulator = *accumulator (op) in[0] (op) ... ; accumulators of f32 sums and products are f64 */
    void (*row)(void *accumulator, const void *in, int64_t n);
    /* accumulator[j] = accumulator[j] (op) in[0][j] (op) in[1][j] ... over `rows` rows, `stride` elements apart */
    void (*columns)(void *accumulator, const void *in, int64_t n, int64_t rows, int64_t stride);
} hd_reduce_kernels;

/* Scans, whose accumulators hold what came before: f64 for f32, else of the type itself; i64 is u64, which wraps. */
typedef enum hd_scan { HD_SCAN_SUM, HD_SCAN_PROD, HD_SCANS } hd_scan;
typedef struct hd_scan_kernels {
    /* out[i] = *before = *before (op) in[i] for n elements in order, or from the last to the first when `back` */
    void (*row)(void *before, void *out, const void *in, int64_t n, bool back);
    /* the same for n columns, each with a `before`, down `rows` rows that lie so many elements apart */
    void (*columns)(void *before, void *out, int64_t out_stride, const void *in, int64_t in_stride, int64_t n,
                    int64_t rows);
} hd_scan_kernels;
/* The largest so far, or the smallest, and where it is: what equals it takes its place, as NaN does. */
typedef struct hd_scan_extreme_kernels {
    /* of n elements in order, the first of which is at `at`, and others `step` further on */
    void (*row)(void *best, int64_t *where, void *out, int64_t *places, const void *in, int64_t n, int64_t at,
                int64_t step);
    /* of n columns, one element of each, all at `at` */
    void (*columns)(void *best, int64_t *where, const void *in, int64_t n, int64_t at);
} hd_scan_extreme_kernels;

/* C[mr,nr] (ldc apart) = A packed [k][mr] times B rows of nr elements, ldb apart; adds to C when accumulate. */
typedef void (*hd_tile_kernel)(int64_t k, const void *a, const void *b, int64_t ldb, void *c, int64_t ldc,
                               bool accumulate);
/* The same with unpacked A: element (i, p) at a[i * row + p * column], for `rows` <= mr rows. */
typedef void (*hd_thin_kernel)(int rows, int64_t k, const void *a, int64_t row, int64_t column, const void *b,
                               int64_t ldb, void *c, int64_t ldc, bool accumulate);
/* Packs height x width of A (rows x k) as [k][mr], or of B (k x columns) as [k][nr]; missing rows and columns as
 * zeros. */
typedef void (*hd_pack_kernel)(void *out, const void *from, int64_t height, int64_t width, int64_t row, int64_t column);
/* How a product reads operands of one dtype: they are converted while they are read. */
enum { HD_LINE_PANELS = 4 };
typedef struct hd_gemm_source {
    size_t bytes; /* of an element; 0: products of this kind do not take such operands */
    hd_pack_kernel pack_a, pack_b;
    /* the rest is missing for products that are always packed: B where it is, A in the product's own type */
    hd_tile_kernel tile;
    hd_thin_kernel thin;
    /* `tile` on a panel of B where it is, which it packs into `keep` */
    void (*first)(int64_t k, const void *a, int64_t row, int64_t column, const void *b, int64_t ldb, void *keep,
                  void *c, int64_t ldc, bool accumulate);
    /* one row of A, along memory, times HD_LINE_PANELS panels side by side */
    void (*line)(int64_t k, const void *a, const void *b, int64_t ldb, void *c, bool accumulate);
    void (*dot)(void *out, const void *x, const void *y, int64_t n);  /* the sum of x[i] * y[i]; y of this dtype */
    void (*read)(void *out, const void *in, int64_t n, int64_t step); /* out[i] = in[i * step] */
    hd_pack_kernel
        keep_b; /* packs B but does not convert it: `tile` and `thin` do; NULL: panels made beforehand are as pack_b
                 * makes them */
} hd_gemm_source;
/* Operands are packed in blocks of so many elements along k, as a rule. Measured: few visits to C bring more than a
 * panel of B in the first-level cache; much longer sums would lose digits. */
enum { HD_GEMM_K_BLOCK = 512 };
/* C (+)= A B on one panel: see gemm.c. */
typedef struct hd_gemm_kernels {
    int mr, nr;          /* the tile a micro-kernel computes */
    size_t bytes;        /* of an element of the result */
    size_t packed_bytes; /* of an element of a packed operand */
    int own;             /* the dtype of its own type: its operands are not converted */
    int group;           /* elements along k that are packed together: k is rounded up to them */
    /* of a matrix unit, measured: the cost of a multiplication, and of packing an element of A, and of B along or
     * across memory, where 100 is that of a multiplication in the vector unit */
    int cost, cost_a, cost_b, cost_b_turned;
    int k_block; /* elements along k of a packed block, unless a way of its own says otherwise */
    void (*enter)(void), (*leave)(void); /* around a thread's calls of the next two; NULL: nothing to do */
    hd_tile_kernel tile;                 /* of packed operands; */
    hd_thin_kernel thin;                 /* of its last rows */
    hd_pack_kernel pack_a, pack_b;       /* operands of the product's own type */
    /* to = from with a bias, `rows` rows of n: an element for each column, or one for all; to may be from */
    void (*add_rows)(void *to, int64_t to_row, const void *from, int64_t from_row, const void *bias, bool is_one,
                     int64_t rows, int64_t n);
    /* sum of x[i] * y[i] */
    double (*dot)(const void *x, const void *y, int64_t n);
    hd_gemm_source from[HD_DTYPE_COUNT]; /* by the operand's dtype */
} hd_gemm_kernels;

/* Rows of n elements, normalised; `centered`: around their mean (layer_norm), else only by their size (rms_norm).
 * weight and bias are [n], or NULL. See kernels_norm.c. */
typedef struct hd_norm_kernels {
    void (*rows)(void *out, const void *x, const void *weight, const void *bias, int64_t rows, int64_t n, double eps,
                 bool centered);
    void (*gradient)(void *out, const void *gradient, const void *x, const void *weight, int64_t rows, int64_t n,
                     double eps, bool centered); /* of x */
    /* of weight and, when centered, bias behind it: [n] or [2, n] */
    void (*parameters)(void *out, const void *gradient, const void *x, int64_t rows, int64_t n, double eps,
                       bool centered);
} hd_norm_kernels;

/* Planes of n elements that are normalised together with others: see norm_channels.c. Numbers are f64 and met in the
 * planes' type; what a mean loses then is made up for. */
typedef struct hd_plane_kernels {
    /* the sums of x - mean and, `squares`, of its squares, with the mean as the type has it */
    void (*measure)(double sums[2], const void *x, int64_t n, double mean, bool squares);
    void (*meet)(double sums[2], const void *g, const void *x, int64_t n, double mean); /* of g and of g (x - mean) */
    void (*apply)(void *out, const void *x, int64_t n, double mean, double scale, double bias);
    /* out = g scale - (x - mean) slope - level */
    void (*back)(void *out, const void *g, const void *x, int64_t n, double mean, double scale, double slope,
                 double level);
} hd_plane_kernels;

/* out[r * out_row + i] = in[r * in_row + i * step] for `rows` rows and i in [0, n); 0 when in is NULL. */
typedef void (*hd_run_kernel)(void *out, int64_t out_row, const void *in, int64_t in_row, int64_t rows, int64_t n,
                              int64_t step);

/* out[r * out_row + i] = the sum of factors[t] * in[at[t] + r * in_row + i] over t in [0, taps), for `rows` rows, in
 * their order, and i in [0, n), rounded up to whole vectors: of what lies behind up to 15 elements are read and
 * written. */
typedef void (*hd_taps_kernel)(void *out, int64_t out_row, const void *in, int64_t in_row, int64_t rows,
                               const int64_t *at, const void *factors, int64_t taps, int64_t n);

/* One tap of the windows of n results side by side, which see every step-th element of a line: see pool.c. The larger
 * one, the first of equals, NaN if there is one; the same with its place, `at` for the first (none yet: negative); the
 * sum. */
typedef struct hd_pool_kernels {
    void (*larger)(void *best, const void *x, int64_t step, int64_t n);
    void (*larger_at)(void *best, int32_t *where, const void *x, int64_t step, int64_t n, int32_t at);
    void (*add)(double *sum, const void *x, int64_t step, int64_t n);
    /* Windows of 2 x 2 side by side, `rows` times n of them, of lines that are `line` long: the largest of each, and
     * its gradient, which writes each element that a window sees. */
    void (*larger_of_4)(void *out, const void *x, int64_t line, int64_t rows, int64_t n);
    void (*larger_of_4_back)(void *out, const void *g, const void *x, int64_t line, int64_t rows, int64_t n);
} hd_pool_kernels;

/* Winograd's F(2x2, 3x3), see conv_winograd.c. Places are `apart` elements from each other. */
enum { HD_WINOGRAD_PLACES = 16 };
typedef struct hd_winograd_kernels {
    /* Windows of `rows` output channels, at most a strip of gemm_f32, and all input channels:
     * [place][channel][strip] */
    void (*windows)(float *out, int64_t apart, const float *weight, const int64_t at[9], int64_t row, int64_t channel,
                    int64_t rows, int64_t channels);
    /* Patches of n tiles side by side, from four lines: [place][n]. n is rounded up to whole vectors: of what lies
     * behind up to
     * 31 elements are read, and 15 written. */
    void (*patches)(float *out, int64_t apart, const float *lines, int64_t line, int64_t n);
    /* [place][tiles] to one line or two of `width` results; false when one of them is infinite or NaN. */
    bool (*results)(float *out, int64_t line, int lines, int64_t width, const float *in, int64_t apart);
} hd_winograd_kernels;

/* Rows of n attention scores: see attention.c. */
typedef struct hd_attention_kernels {
    double (*largest)(const void *x, int64_t n); /* that is no NaN */
    /* x = x * scale + mask, whose elements are `step` apart; -inf where a bool one is false */
    void (*add_mask)(void *x, int64_t n, double scale, const void *mask, int64_t step, bool is_bool);
    void (*shift)(void *x, int64_t n, double scale, double less);  /* x = x * scale - less */
    void (*scale)(void *out, const void *x, int64_t n, double by); /* out = x * by */
    double (*sum)(const void *x, int64_t n);
    /* d = weight * (d - level) * scale */
    void (*through)(void *d, const void *weight, int64_t n, double level, double scale);
} hd_attention_kernels;

/* Elements from `at` on, n of them, of an update of its type. */
typedef void (*hd_update_kernel)(const hd_update *update, int64_t at, int64_t n);

typedef struct hd_cpu_kernels {
    const char *isa;
    const hd_elementwise_kernel *elementwise[HD_COMPUTE_COUNT];     /* [compute][op] */
    const hd_elementwise_kernel (*derivative[HD_COMPUTE_COUNT])[3]; /* [compute][op][operand]; NULL for integers */
    hd_convert_kernel convert[HD_COMPUTE_COUNT][HD_COMPUTE_COUNT];  /* [from][to] */
    hd_convert_kernel decode[HD_DTYPE_COUNT];                       /* small float -> f32 */
    hd_convert_kernel encode[HD_DTYPE_COUNT];                       /* f32 -> small float */
    hd_convert_kernel sticky[HD_COMPUTE_COUNT]; /* wide type -> f32 rounded to odd, so that encoding it rounds once */
    /* out[r * out_stride + c] = in[c * in_stride + r] for elements of 4 bytes; rows and columns are multiples of 8 */
    void (*transpose_4)(void *out, int64_t out_stride, const void *in, int64_t in_stride, int64_t rows,
                        int64_t columns);
    hd_reduce_kernels reduce[HD_REDUCTIONS][HD_COMPUTE_COUNT];
    hd_scan_kernels scan[HD_SCANS][HD_COMPUTE_COUNT]; /* of i64, u64, f32 and f64 */
    hd_scan_extreme_kernels scan_largest[HD_COMPUTE_COUNT], scan_smallest[HD_COMPUTE_COUNT]; /* likewise */
    hd_gemm_kernels gemm_f32, gemm_f64; /* also for halves, which are summed in f32 */
    hd_gemm_kernels gemm_u32, gemm_u64; /* integers of either sign: they wrap */
    hd_gemm_kernels gemm_pairs;         /* the same of 32 bits for operands of 8 and 16 bits, which must be packed */
    /* f32 and bf16 in a matrix unit, always packed; their mr is 0 where there is none: see kernels_amx.c */
    hd_gemm_kernels gemm_parts, gemm_halves;
    hd_norm_kernels norm_f32, norm_f64;
    hd_plane_kernels plane_f32, plane_f64;
    hd_attention_kernels attention_f32, attention_f64;
    hd_run_kernel runs_4, runs_8; /* for elements of 4 and 8 bytes */
    hd_taps_kernel taps_f32, taps_f64;
    hd_pool_kernels pool_f32, pool_f64;
    hd_winograd_kernels winograd;
    hd_update_kernel update_f32, update_f64;
    /* element e of draw (seed, draw), for e in [first, first + n): see random.c */
    void (*uniform_f32)(float *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw);
    void (*uniform_f64)(double *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw);
    void (*normal_f32)(float *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw);
    void (*normal_f64)(double *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw);
    void (*bits_u64)(uint64_t *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw);
} hd_cpu_kernels;

/* The best set this machine can run; filled before any call reaches the device. */
extern hd_cpu_kernels hd_kernel_table;
static inline const hd_cpu_kernels *hd_kernels(void) { return &hd_kernel_table; }

#endif
