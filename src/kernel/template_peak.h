/* What a device can do at most, as a template of X: arithmetic in registers, and copying memory. */
typedef struct peak_arguments {
    int64_t offset[2]; /* the device fills them in */
    int64_t count;     /* rounds; elements */
} peak_arguments;

/* Eight chains a thread, 16 operations a round. */
W_KERNEL void peak_multiply(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1),
                            W_ARGUMENTS(peak_arguments, a, 2) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL X_MEMORY *y = (W_GLOBAL X_MEMORY *)(b1 + a.offset[1]);
    const X_TYPE f = x[0];
    X_TYPE v[8];
    for (int i = 0; i < 8; ++i) v[i] = x[i];
    for (int64_t round = 0; round < a.count; ++round)
        for (int i = 0; i < 8; ++i) v[i] = X_MULADD(v[i], f, f);
    y[(int64_t)W_GROUP(0) * THREADS + W_THREAD] = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

W_KERNEL void peak_copy(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1),
                        W_ARGUMENTS(peak_arguments, a, 2) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL X_MEMORY *y = (W_GLOBAL X_MEMORY *)(b1 + a.offset[1]);
    const int64_t i = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (i < a.count) y[i] = x[i];
}
