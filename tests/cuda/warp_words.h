/* The words of kernel/template_warp_words.h on the CPU, for the threads of cuda_words.h: what each lane of a warp has
 * is as PTX's reference says it. */
#pragma once
enum { CUDA_THREADS = 1024, CUDA_COPIES = 256 };
#define W_ONE_NUMBER(address)

/* Copies that a thread has begun: they are done when they are waited for, and no sooner. */
static struct cuda_begun {
    struct {
        void *to;
        const void *from;
        int batch;
        bool is_there;
    } all[CUDA_COPIES];
    int count, batch;
} cuda_copies[CUDA_THREADS];
static inline void w_copy_4(void *to, const void *from, bool is_there) {
    cuda_begun *c = &cuda_copies[cuda_thread.x];
    if (c->count == CUDA_COPIES) __builtin_trap();
    c->all[c->count++] = {to, from, c->batch, is_there};
}
static inline void cuda_copies_done(int but) {
    cuda_begun *c = &cuda_copies[cuda_thread.x];
    int left = 0;
    for (int i = 0; i < c->count; ++i) {
        if (c->all[i].batch >= c->batch - but) {
            c->all[left++] = c->all[i];
        } else if (c->all[i].is_there) {
            __builtin_memcpy(c->all[i].to, c->all[i].from, 4);
        } else {
            __builtin_memset(c->all[i].to, 0, 4);
        }
    }
    c->count = left;
}
#define W_COPIES_BEGUN() cuda_copies[cuda_thread.x].batch++
#define W_COPIES_DONE(n) cuda_copies_done(n)

static inline unsigned w_load_2(const void *at, bool is_there) { return is_there ? *(const unsigned short *)at : 0; }
static inline void w_load_16(unsigned out[4], const void *at, bool is_there) {
    if (is_there && (unsigned long)at % 16 != 0) __builtin_trap();
    __builtin_memset(out, 0, 16);
    if (is_there) __builtin_memcpy(out, at, 16);
}

/* What the lanes of a warp hand to each other in one of its steps: all of them do, and then look. A step later each has
 * looked, so that two places are enough. */
static struct cuda_lane {
    const unsigned *row;
    unsigned a[4], b[2];
} cuda_lanes[2][CUDA_THREADS];
static int cuda_steps[CUDA_THREADS];
static inline const cuda_lane *cuda_exchange(const cuda_lane *own) {
    const int step = cuda_steps[cuda_thread.x]++ % 2;
    cuda_lanes[step][cuda_thread.x] = *own;
    __syncthreads();
    return &cuda_lanes[step][cuda_thread.x / 32 * 32];
}
static inline void w_matrices_4(unsigned out[4], const void *row) {
    const cuda_lane own = {(const unsigned *)row, {0}, {0}}, *warp = cuda_exchange(&own);
    if ((unsigned long)row % 16 != 0) __builtin_trap();
    for (int i = 0; i < 4; ++i) out[i] = warp[i * 8 + cuda_thread.x % 32 / 4].row[cuda_thread.x % 4];
}

static inline float cuda_bf16(unsigned half) { return __uint_as_float(half << 16); }
static inline float cuda_f16(unsigned half) {
    const unsigned exponent = half >> 10 & 31, fraction = half & 1023, sign = half >> 15 << 31;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    const float size =
        exponent == 0 ? (float)fraction * 0x1p-24f : __uint_as_float((exponent + 112) << 23 | fraction << 13);
    return sign ? -size : size;
}
/* Element (row, k) of a is in lane row % 8 * 4 + k % 8 / 2, that of b at (k, column) in lane column * 4 + k % 8 / 2; a
 * lane has the sums of rows lane / 4 and 8 more, in columns 2 (lane % 4) and the next. */
static inline void cuda_multiply(float sums[4], const unsigned a[4], const unsigned b[2], float decode(unsigned half)) {
    const cuda_lane own = {nullptr, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, *warp = cuda_exchange(&own);
    const int lane = (int)cuda_thread.x % 32;
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            const unsigned of_a = warp[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2],
                           of_b = warp[column * 4 + k % 8 / 2].b[k / 8];
            sums[i] += decode(of_a >> k % 2 * 16 & 0xffff) * decode(of_b >> k % 2 * 16 & 0xffff);
        }
}
static inline void w_multiply_bf16(float sums[4], const unsigned a[4], const unsigned b[2]) {
    cuda_multiply(sums, a, b, cuda_bf16);
}
static inline void w_multiply_f16(float sums[4], const unsigned a[4], const unsigned b[2]) {
    cuda_multiply(sums, a, b, cuda_f16);
}
