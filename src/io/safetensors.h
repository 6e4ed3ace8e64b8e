/* .safetensors: a head of JSON that says of each tensor its dtype, shape and place, and then their bytes. */
#ifndef HD_IO_SAFETENSORS_H
#define HD_IO_SAFETENSORS_H

#include "io/io.h"

enum { HD_SAFETENSORS_MOST_HEAD = 100000000 }; /* bytes, as in other readers */
extern const char hd_safetensors_metadata[];   /* the key that is no tensor's name */

/* The name of a dtype in such files. */
const char *hd_safetensors_dtype(hd_dtype dtype);

/* What the public functions do, but that messages do not name the file. */
hd_archive *hd_safetensors_read(hd_thread *thread, const char *path);
hd_error hd_safetensors_write(hd_thread *thread, const char *path, const hd_archive *archive, int64_t shard_bytes);

#endif
