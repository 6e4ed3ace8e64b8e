/* Convolutions of small floats on CUDA whose windows lie close to each other, below template_conv_head.h. A group has
 * neighbouring pixels of one image, and all taps of their windows are in a piece of it that is not much larger: that
 * piece comes into local memory, some channels at a time and those of a pixel side by side, and the tensor cores are
 * given from there what each tap meets, or a row of zeros where that is beside the image. So an element is read from
 * the image once for a tile, and not once for each tap.
 *
 * Along k a step is a tap and 16 channels. Of A, `product_pack` has laid out before what lanes of warps need, in the
 * order in which they do, so that they read it from there: 16 rows of a step are 32 x 16 bytes. */
enum {
    CONV_CHANNELS = 32, /* at a time */
    CONV_HALVES = CONV_CHANNELS / 16,
    CONV_PITCH = CONV_CHANNELS / 8 + 1, /* eights: one more, so that neighbours are in different banks */
    CONV_SPAN = 384,                    /* pixels of a piece, at most; gpu_conv.c knows it, too */
    CONV_TAPS = 64,
    CONV_COLUMNS = PER_N / 16 /* that a lane gives the rows of */
};
#define CONV_PACKED_ROWS ((product_index)a.tiles_m * (TILE_M / 16)) /* sixteen each */
#define CONV_TAP_COUNT   ((int32_t)(a.k_size[0] * a.k_size[1] * a.k_size[2]))
#define CONV_BLOCKS      (((int32_t)a.k / CONV_TAP_COUNT + CONV_CHANNELS - 1) / CONV_CHANNELS)

/* Rows of A by 16, steps by channels, taps and halves, lanes: a lane's eight elements, as w_multiply has them. */
W_KERNEL_OF(THREADS)
void product_pack(W_GLOBAL char *a_memory W_SLOT(0), W_GLOBAL char *b_memory W_SLOT(1),
                  W_GLOBAL char *parts_memory W_SLOT(2),
                  PRODUCT_BUFFERS W_ARGUMENTS(product_arguments, a, PRODUCT_BUFFER_COUNT) W_IDS) {
    const int32_t taps = CONV_TAP_COUNT, steps = CONV_BLOCKS * taps * CONV_HALVES, rows = CONV_PACKED_ROWS;
    const product_index number = (product_index)W_GROUP(0) * THREADS + W_THREAD,
                        in_batch = number / 32 % (rows * steps), batch = number / 32 / (rows * steps);
    if (batch >= a.batches) return;
    const int lane = number % 32, step = in_batch % steps, tap = step / CONV_HALVES % taps;
    const conv_windows w = conv_windows_of(&a);
    conv_position at = conv_position_of(tap, &w.k);
    uint32_t elements[8];
    W_ALL_ROUNDS
    for (int i = 0; i < 8; ++i) {
        const int row = in_batch / steps * 16 + lane / 4 + i / 2 % 2 * 8;
        at.x[0] =
            (step / CONV_HALVES / taps * CONV_HALVES + step % CONV_HALVES) * 16 + lane % 4 * 2 + i / 4 * 8 + i % 2;
        elements[i] = w_load_2((W_GLOBAL const A_MEMORY *)(a_memory + a.a_offset) + batch * a.a_group +
                                   (row * (product_index)a.a_row + conv_offset(&at, w.a_strides)),
                               row < a.m && at.x[0] * taps < a.k);
    }
    ((W_GLOBAL conv_eight *)(parts_memory + a.parts_offset))[number] = conv_eight_of(elements);
}

/* The piece of an image that a group reads: CONV_SPAN pixels and zeros. */
typedef struct W_ALIGNED(16) conv_piece {
    conv_eight pixel[CONV_SPAN + 1][CONV_PITCH];
} conv_piece;

/* Pixels `begin` to `end` of some channels, `left` of which are there, whose first one begins at `from`. */
W_INLINE void conv_bring(conv_piece *piece, W_GLOBAL const B_MEMORY *from, int32_t begin, int32_t end, int32_t span,
                         int32_t to_channel, int32_t left, int lane) {
    for (int e = lane; e < span; e += THREADS) {
        const bool is_there = begin + e >= 0 && begin + e < end;
        W_ALL_ROUNDS
        for (int eight = 0; eight < CONV_CHANNELS / 8; ++eight) {
            W_GLOBAL const B_MEMORY *at = from + (begin + e) + eight * 8 * to_channel;
            uint32_t elements[8];
            W_ONE_NUMBER(at);
            W_ALL_ROUNDS
            for (int i = 0; i < 8; ++i) elements[i] = w_load_2(&at[i * to_channel], is_there && eight * 8 + i < left);
            piece->pixel[e][eight] = conv_eight_of(elements);
        }
    }
}

W_KERNEL_OF(THREADS)
void product(W_GLOBAL char *a_memory W_SLOT(0), W_GLOBAL char *b_memory W_SLOT(1),
             W_GLOBAL char *parts_memory W_SLOT(2),
             PRODUCT_BUFFERS W_ARGUMENTS(product_arguments, a, PRODUCT_BUFFER_COUNT) W_IDS) {
    W_GLOBAL product_sum *const parts = (W_GLOBAL product_sum *)(parts_memory + a.parts_offset);
    PRODUCT_ADDRESSES
    W_LOCAL union {
        conv_piece piece;
        conv_slab slab;
    } memory;
    W_LOCAL conv_point tap_points[CONV_TAPS], column_points[TILE_N];
    const int lane = W_THREAD, in_warp = lane % 32;
    const product_index rows = (product_index)a.m, columns = (product_index)a.n;
    PRODUCT_TILE
    const conv_windows w = conv_windows_of(&a);
    /* Tiles do not reach from one image into the next. */
    const int32_t pixels = (int32_t)a.columns, tiles_of_image = (pixels + TILE_N - 1) / TILE_N,
                  image_number = first_column / TILE_N / tiles_of_image,
                  in_image = first_column / TILE_N % tiles_of_image * TILE_N,
                  last = in_image + TILE_N < pixels ? in_image + TILE_N : pixels;
    const int32_t taps = CONV_TAP_COUNT, channels = (int32_t)a.k / taps, steps = CONV_BLOCKS * taps * CONV_HALVES;
    const int warp_row = lane / 32 / (TILE_N / PER_N) * PER_M, warp_column = lane / 32 % (TILE_N / PER_N) * PER_N;

    /* Where the piece begins, and where in it this lane's columns do. */
    conv_position place = conv_position_of(in_image, &w.column), end_place = conv_position_of(last - 1, &w.column),
                  end_tap = conv_position_of(taps - 1, &w.k);
    const int32_t begin_pixel = conv_offset(&place, w.column.strides) + (int32_t)a.b_first,
                  span = conv_offset(&end_place, w.column.strides) + (int32_t)a.b_first +
                         conv_offset(&end_tap, w.k.strides) + 1 - begin_pixel,
                  end_pixel = (w.image[0] - 1) * w.image_stride[0] + (w.image[1] - 1) * w.image_stride[1] +
                              (w.image[2] - 1) * w.image_stride[2] + 1;
    for (int e = lane; e < TILE_N; e += THREADS) {
        place = conv_position_of(in_image + e < last ? in_image + e : last - 1, &w.column);
        column_points[e] = conv_point_of(&place, &w.column, &w.k, false, &w);
    }
    for (int e = lane; e < taps; e += THREADS) {
        place = conv_position_of(e, &w.k);
        tap_points[e] = conv_point_of(&place, &w.k, &w.column, true, &w);
    }
    if (lane < CONV_PITCH) memory.piece.pixel[CONV_SPAN][lane] = {{0, 0, 0, 0}};

    W_BARRIER();
    conv_point of_columns[CONV_COLUMNS];
    W_ALL_ROUNDS
    for (int j = 0; j < CONV_COLUMNS; ++j) {
        of_columns[j] = column_points[warp_column + j * 16 + in_warp / 16 * 8 + in_warp % 8];
        of_columns[j].at += (int32_t)a.b_first - begin_pixel;
    }

    W_GLOBAL const B_MEMORY *const image =
        (W_GLOBAL const B_MEMORY *)(b_memory + a.b_offset) + (batch * a.b_group + image_number * a.column_b[0]);
    W_GLOBAL const conv_eight *packed =
        (W_GLOBAL const conv_eight *)(parts_memory + a.parts_offset) +
        ((batch * CONV_PACKED_ROWS + (first_row + warp_row) / 16) * steps * 32 + in_warp);
    W_ONE_NUMBER(packed);

    conv_sums sums = {0};
    conv_eight next_a[CONV_HALVES][CONV_M];
#define CONV_NEXT_A(step)                                                                                              \
    W_ALL_ROUNDS                                                                                                       \
    for (int half = 0; half < CONV_HALVES; ++half) {                                                                   \
        W_ALL_ROUNDS                                                                                                   \
        for (int i = 0; i < CONV_M; ++i)                                                                               \
            w_load_16(next_a[half][i].v, &packed[(i * steps + (step)*CONV_HALVES + half) * 32], true);                 \
    }
    CONV_NEXT_A(0)
    for (int32_t from = 0, step = 0; from < channels; from += CONV_CHANNELS) {
        W_BARRIER();
        conv_bring(&memory.piece, image + from * (product_index)a.k_b[0], begin_pixel, end_pixel, span,
                   (int32_t)a.k_b[0], channels - from, lane);
        W_BARRIER();
        for (int32_t tap = 0; tap < taps; ++tap, ++step) {
            const conv_point along = tap_points[tap];
            const conv_eight *rows_of_b[CONV_COLUMNS];
            conv_eight of_a[CONV_HALVES][CONV_M];
            W_ALL_ROUNDS
            for (int half = 0; half < CONV_HALVES; ++half) {
                W_ALL_ROUNDS
                for (int i = 0; i < CONV_M; ++i) of_a[half][i] = next_a[half][i];
            }
            if ((step + 1) * CONV_HALVES < steps) { CONV_NEXT_A(step + 1) }
            W_ALL_ROUNDS
            for (int j = 0; j < CONV_COLUMNS; ++j)
                rows_of_b[j] =
                    &memory.piece.pixel[along.bits & of_columns[j].bits ? CONV_SPAN : along.at + of_columns[j].at]
                                       [in_warp / 8 % 2];
            W_ALL_ROUNDS
            for (int half = 0; half < CONV_HALVES; ++half) {
                uint32_t of_b[CONV_COLUMNS][4];
                W_ALL_ROUNDS
                for (int j = 0; j < CONV_COLUMNS; ++j) w_matrices_4(of_b[j], rows_of_b[j] + half * 2);
                W_ALL_ROUNDS
                for (int i = 0; i < CONV_M; ++i) {
                    W_ALL_ROUNDS
                    for (int j = 0; j < CONV_N; ++j) W_MULTIPLY(sums[i][j], of_a[half][i].v, of_b[j / 2] + j % 2 * 2);
                }
            }
        }
    }
    CONV_STORE(image_number * pixels + in_image, image_number * pixels + last)
}
