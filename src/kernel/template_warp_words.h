/* What warps of NVIDIA's GPUs can do beyond the dialect, as words, above the templates that use it. They are
 * instructions of PTX, as the headers that have names for them are not there; their operands are laid out as PTX
 * says. Whoever runs the text elsewhere, as tests do on the CPU, has words of the same names and meaning. */
#ifdef __CUDACC__
W_INLINE uint32_t w_local_address(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }

/* An address that the compiler takes for one number, and not for a sum that it works out each time. */
#define W_ONE_NUMBER(address) asm volatile("" : "+l"(address))

/* An element of 4 bytes, or 0, goes from global to local memory without waiting for it. */
W_INLINE void w_copy_4(void *to, const void *from, bool is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(w_local_address(to)), "l"(from),
                 "r"(is_there ? 4 : 0));
}
/* What this thread has begun to copy since the last such line is one batch; waits until all but the last `n` batches
 * are there. */
#define W_COPIES_BEGUN() asm volatile("cp.async.commit_group;" ::: "memory")
#define W_COPIES_DONE(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* An element of 2 bytes of global memory that nobody writes meanwhile, or 0; and 16 bytes, at a multiple of 16. */
W_INLINE uint32_t w_load_2(const void *at, bool is_there) {
    uint16_t value;
    asm("{.reg .pred is_there; setp.ne.u32 is_there, %2, 0; mov.u16 %0, 0; @is_there ld.global.nc.u16 %0, [%1];}"
        : "=h"(value)
        : "l"(at), "r"((uint32_t)is_there));
    return value;
}
W_INLINE void w_load_16(uint32_t out[4], const void *at, bool is_there) {
    asm("{.reg .pred is_there; setp.ne.u32 is_there, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, "
        "0; "
        "@is_there ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];}"
        : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
        : "l"(at), "r"((uint32_t)is_there));
}

/* Four matrices of 8 x 8 elements of 2 bytes from local memory: lane i gives where row i % 8 of matrix i / 8 is, and
 * gets of each matrix the elements 2 (i % 4) and the next of row i / 4. */
W_INLINE void w_matrices_4(uint32_t out[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(w_local_address(row)));
}
/* sums += a b of a warp: 16 x 8 sums of f32, a of 16 x 16 and b of 16 x 8 elements. */
#define WARP_MULTIPLY(name, type)                                                                                      \
    W_INLINE void w_multiply_##name(float sums[4], const uint32_t a[4], const uint32_t b[2]) {                         \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                                    \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                 \
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
WARP_MULTIPLY(bf16, "bf16")
WARP_MULTIPLY(f16, "f16")
#endif
