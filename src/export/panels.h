/* Products with a weight in panels of 16 columns, as text of exported C (embedded by the build): w_panel gives the sums
 * of W_ROWS rows, or of one, in `out`, 16 of each. Where a compiler of GNU's kind has vectors, they stay in
 * registers. */
#if defined(__GNUC__) && defined(__AVX512F__)
#define W_ROWS        8
#define W_EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define W_VECTOR      64
#define W_BEGIN(r)    w_vector a##r = {0};
#define W_LOAD        const w_vector p = *(const w_lent *)panel;
#define W_STEP(r)     a##r += x[r * row] * p;
#define W_END(r)      *(w_lent *)(out + r * 16) = a##r;
#elif defined(__GNUC__) && defined(__AVX__)
#define W_ROWS        6
#define W_EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define W_VECTOR      32
#define W_BEGIN(r)    w_vector a##r = {0}, b##r = {0};
#define W_LOAD        const w_vector p = *(const w_lent *)panel, q = *(const w_lent *)(panel + 8);
#define W_STEP(r)     a##r += x[r * row] * p, b##r += x[r * row] * q;
#define W_END(r)      *(w_lent *)(out + r * 16) = a##r, *(w_lent *)(out + r * 16 + 8) = b##r;
#elif defined(__GNUC__) && (defined(__SSE2__) || defined(__aarch64__))
#define W_ROWS        2
#define W_EACH_ROW(X) X(0) X(1)
#define W_VECTOR      16
#define W_BEGIN(r)    w_vector a##r = {0}, b##r = {0}, c##r = {0}, d##r = {0};
#define W_LOAD                                                                                                         \
    const w_vector p = *(const w_lent *)panel, q = *(const w_lent *)(panel + 4), s = *(const w_lent *)(panel + 8),     \
                   t = *(const w_lent *)(panel + 12);
#define W_STEP(r) a##r += x[r * row] * p, b##r += x[r * row] * q, c##r += x[r * row] * s, d##r += x[r * row] * t;
#define W_END(r)                                                                                                       \
    *(w_lent *)(out + r * 16) = a##r, *(w_lent *)(out + r * 16 + 4) = b##r, *(w_lent *)(out + r * 16 + 8) = c##r,      \
                          *(w_lent *)(out + r * 16 + 12) = d##r;
#else
#define W_ROWS 1
#endif
#ifdef W_VECTOR
typedef float w_vector __attribute__((vector_size(W_VECTOR)));
typedef float w_lent __attribute__((vector_size(W_VECTOR), aligned(4), may_alias)); /* in memory of others */
static inline void w_panel(const float *x, int32_t row, int32_t column, const float *panel, int32_t k, float *out) {
    W_EACH_ROW(W_BEGIN)
    for (; k > 0; --k, x += column, panel += 16) {
        W_LOAD
        W_EACH_ROW(W_STEP)
    }
    W_EACH_ROW(W_END)
}
static inline void w_panel_of_row(const float *x, int32_t column, const float *panel, int32_t k, float *out) {
    enum { row = 0 };
    W_BEGIN(0)
    for (; k > 0; --k, x += column, panel += 16) {
        W_LOAD
        W_STEP(0)
    }
    W_END(0)
}
#else
static inline void w_panel_of_row(const float *x, int32_t column, const float *panel, int32_t k, float *out) {
    for (int32_t c = 0; c < 16; c += 4) {
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        const float *v = x, *p = panel + c;
        for (int32_t i = 0; i < k; ++i, v += column, p += 16) {
            const float a = *v;
            s0 += a * p[0];
            s1 += a * p[1];
            s2 += a * p[2];
            s3 += a * p[3];
        }
        out[c] = s0;
        out[c + 1] = s1;
        out[c + 2] = s2;
        out[c + 3] = s3;
    }
}
#define w_panel(x, row, column, panel, k, out) w_panel_of_row(x, column, panel, k, out)
#endif
