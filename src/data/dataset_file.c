/* Records of a mapped file. */
#include "core/os_file.h"
#include "data/dataset.h"

#include <errno.h>
#include <string.h>

enum { MOST_FIELDS = 16 };

typedef struct records {
    hd_dataset head;
    const char *map; /* NULL: the file has no records */
    uint64_t map_bytes, header, record;
    int fields;
    struct {
        hd_dtype dtype;
        hd_shape shape;
        size_t offset, bytes;
    } field[MOST_FIELDS];
} records;

static const char *record_at(const records *r, int64_t index) {
    return r->map + r->header + r->record * (uint64_t)index;
}

static hd_error check_bools(const char *bytes, size_t count, int64_t index, int field) {
    for (size_t i = 0; i < count; ++i)
        if ((unsigned char)bytes[i] > 1)
            return hd_fail(HD_ERROR_VALUE, "record %lld, field %d: byte %zu is %d; a bool is 0 or 1", (long long)index,
                           field, i, (unsigned char)bytes[i]);
    return HD_OK;
}

/* One field of some records, behind each other in a tensor of the host of this shape. */
static hd_tensor *read_field(hd_thread *thread, const records *r, int field, const hd_shape *shape,
                             const int64_t *indices, int64_t count) {
    const size_t bytes = r->field[field].bytes;
    hd_tensor *t = hd_tensor_give(thread, hd_tensor_new(thread, r->field[field].dtype, shape));
    char *to = t == NULL ? NULL : hd_tensor_bytes(thread, t, HD_WRITE);
    if (to == NULL) return NULL;
    for (int64_t i = 0; i < count; ++i, to += bytes) {
        memcpy(to, record_at(r, indices[i]) + r->field[field].offset, bytes);
        if (r->field[field].dtype == HD_BOOL) HD_TRY_OR(check_bools(to, bytes, indices[i], field), NULL);
    }
    return hd_to(t, thread->device); /* as hd_from_data does */
}

/* `is_batch`: there is one more axis in front, of the records. */
static hd_tensors *read_records(hd_thread *thread, const records *r, const int64_t *indices, int64_t count,
                                bool is_batch) {
    HD_KEEP_NAME(thread);
    hd_tensors *list = hd_tensors_new(thread, r->fields);
    for (int i = 0; list != NULL && i < r->fields; ++i) {
        hd_shape shape = {.rank = r->field[i].shape.rank + is_batch};
        shape.size[0] = count;
        for (int k = is_batch; k < shape.rank; ++k) shape.size[k] = r->field[i].shape.size[k - is_batch];
        hd_tensor *t = read_field(thread, r, i, &shape, indices, count);
        if (t == NULL) return NULL;
        hd_tensors_put(list, i, t);
    }
    return list;
}

static hd_tensors *records_get(hd_thread *thread, hd_dataset *d, int64_t index) {
    return read_records(thread, (records *)d, &index, 1, false);
}
static hd_tensors *records_gather(hd_thread *thread, hd_dataset *d, const int64_t *indices, int64_t count) {
    return read_records(thread, (records *)d, indices, count, true);
}
static void records_destroy(hd_thread *thread, hd_dataset *d) {
    (void)thread;
    const records *r = (records *)d;
    if (r->map != NULL) hd_os_file_unmap(r->map, r->map_bytes);
}
static const hd_dataset_class records_class = {records_get, records_gather, records_destroy};

static hd_error set_fields(records *r, const hd_record_field *fields, int count) {
    if (fields == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`fields` is NULL");
    if (count < 1 || count > MOST_FIELDS)
        return hd_fail(HD_ERROR_VALUE, "%d fields; a record has 1 to %d", count, (int)MOST_FIELDS);
    for (r->fields = 0; r->fields < count; ++r->fields) {
        const hd_record_field *f = &fields[r->fields];
        int64_t elements = 0;
        if (!hd_dtype_valid(f->dtype))
            return hd_fail(HD_ERROR_DTYPE, "field %d has %d as its dtype", r->fields, (int)f->dtype);
        HD_TRY(hd_rank_check(&f->shape));
        HD_TRY(hd_shape_check(&f->shape, hd_dtype_bytes[f->dtype], &elements));
        if (f->shape.rank == HD_MAX_RANK)
            return hd_fail(HD_ERROR_SHAPE, "field %d is %s; a batch has one axis more, and %d are the most", r->fields,
                           HD_SHAPE_TEXT(f->shape), HD_MAX_RANK);
        r->field[r->fields].dtype = f->dtype;
        r->field[r->fields].shape = f->shape;
        r->field[r->fields].offset = r->record;
        r->field[r->fields].bytes = (size_t)elements * hd_dtype_bytes[f->dtype];
        if (__builtin_add_overflow(r->record, (uint64_t)r->field[r->fields].bytes, &r->record) || r->record > INT64_MAX)
            return hd_fail(HD_ERROR_OVERFLOW, "a record has too many bytes");
    }
    return r->record > 0 ? HD_OK : hd_fail(HD_ERROR_VALUE, "a record has no bytes");
}

static hd_error map_file(records *r, const char *path) {
    hd_os_status status;
    const int file = hd_os_open(HD_OS_HERE, path, HD_OS_READ, 0);
    hd_error error = HD_OK;
    if (file < 0 || !hd_os_status_of(file, &status))
        error = hd_fail(HD_ERROR_STATE, "\"%s\" cannot be opened: %s", path, strerror(errno));
    else if (!status.is_regular)
        error = hd_fail(HD_ERROR_STATE, "\"%s\" is no regular file", path);
    else if (status.bytes < r->header || (status.bytes - r->header) % r->record != 0)
        error = hd_fail(HD_ERROR_VALUE,
                        "\"%s\" has %llu bytes: that is no header of %llu and a whole number of records of %llu", path,
                        (unsigned long long)status.bytes, (unsigned long long)r->header, (unsigned long long)r->record);
    else if (status.bytes > r->header) {
        r->map = hd_os_file_map(file, r->map_bytes = status.bytes);
        r->head.count = (int64_t)((status.bytes - r->header) / r->record);
        if (r->map == NULL) error = hd_fail(HD_ERROR_MEMORY, "\"%s\" cannot be mapped: %s", path, strerror(errno));
    }
    if (file >= 0) hd_os_close(file);
    return error;
}

hd_dataset *hd_file_dataset(const char *path, const hd_record_field *fields, int count, int64_t header_bytes) {
    HD_ENTER("hd_file_dataset", NULL);
    if (path == NULL || header_bytes < 0) {
        hd_fail(path == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE, "%s",
                path == NULL ? "`path` is NULL" : "`header_bytes` is negative");
        return NULL;
    }
    records *r = hd_dataset_new(thread, sizeof *r, &records_class, 0);
    if (r == NULL) return NULL;
    r->header = (uint64_t)header_bytes;
    if (set_fields(r, fields, count) == HD_OK && map_file(r, path) == HD_OK) return hd_data_give(thread, r);
    hd_data_drop(thread, r);
    return NULL;
}
