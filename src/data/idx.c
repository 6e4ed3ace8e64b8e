/* IDX, the format of MNIST: two zero bytes, a type, a rank, sizes of 32 bits, and elements, big endian all of them. */
#include "data/file.h"

#include <hodu/data.h>

#include <string.h>

static hd_dtype dtype_of(unsigned char type) {
    switch (type) {
    case 0x08: return HD_U8;
    case 0x09: return HD_I8;
    case 0x0b: return HD_I16;
    case 0x0c: return HD_I32;
    case 0x0d: return HD_F32;
    case 0x0e: return HD_F64;
    default: return HD_DTYPE_DEFAULT;
    }
}

static hd_error read_head(const unsigned char *bytes, size_t count, hd_dtype *dtype, hd_shape *shape) {
    if (count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
        return hd_fail(HD_ERROR_VALUE, "it is compressed by gzip; gunzip it first");
    if (count < 4 || bytes[0] != 0 || bytes[1] != 0)
        return hd_fail(HD_ERROR_VALUE, "it does not begin as IDX does, with two zero bytes, a type and a rank");
    *dtype = dtype_of(bytes[2]);
    if (*dtype == HD_DTYPE_DEFAULT) return hd_fail(HD_ERROR_VALUE, "IDX has no type 0x%02x", bytes[2]);
    if (bytes[3] > HD_MAX_RANK) return hd_fail(HD_ERROR_VALUE, "it has rank %d; %d is the most", bytes[3], HD_MAX_RANK);
    *shape = (hd_shape){.rank = bytes[3]};
    if (count < 4 + 4 * (size_t)shape->rank)
        return hd_fail(HD_ERROR_VALUE, "it ends after %zu bytes, among its %d sizes", count, shape->rank);
    for (int i = 0; i < shape->rank; ++i) {
        const unsigned char *at = bytes + 4 + 4 * i;
        shape->size[i] = (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
    }
    return HD_OK;
}

/* Elements of 2, 4 or 8 bytes, turned around where this machine has the other end first. */
static void copy_elements(unsigned char *to, const unsigned char *from, int64_t count, size_t size) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (int64_t i = 0; i < count; ++i, to += size, from += size)
        for (size_t k = 0; k < size; ++k) to[k] = from[size - 1 - k];
#else
    memcpy(to, from, (size_t)count * size);
#endif
}

hd_tensor *hd_idx_parse(const void *bytes, size_t count) {
    HD_ENTER("hd_idx_parse", NULL);
    if (bytes == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`bytes` is NULL");
        return NULL;
    }
    hd_dtype dtype = HD_U8;
    hd_shape shape = {0};
    int64_t elements;
    HD_TRY_OR(read_head(bytes, count, &dtype, &shape), NULL);
    const size_t size = hd_dtype_bytes[dtype], head = 4 + 4 * (size_t)shape.rank;
    HD_TRY_OR(hd_shape_check(&shape, size, &elements), NULL);
    if (count - head != (size_t)elements * size) {
        hd_fail(HD_ERROR_VALUE, "%s of %s are %zu bytes; there are %zu", HD_SHAPE_TEXT(shape), hd_dtype_name(dtype),
                (size_t)elements * size, count - head);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    const unsigned char *from = (const unsigned char *)bytes + head;
    if (size == 1) return hd_from_data(from, shape, dtype);
    hd_tensor *t = hd_tensor_give(thread, hd_tensor_new(thread, dtype, &shape));
    void *to = t == NULL ? NULL : hd_tensor_bytes(thread, t, HD_WRITE);
    if (to == NULL) return NULL;
    copy_elements(to, from, elements, size);
    return hd_to(t, thread->device);
}

hd_tensor *hd_idx_load(const char *path) {
    HD_ENTER("hd_idx_load", NULL);
    HD_KEEP_NAME(thread);
    hd_file_bytes file;
    HD_TRY_OR(hd_file_read_all(path, &file), NULL);
    HD_HOLD_ERRORS(thread);
    hd_tensor *t = hd_idx_parse(file.bytes, file.count);
    if (t == NULL) hd_file_blame(thread, path);
    hd_array_release(file.bytes);
    return t;
}
