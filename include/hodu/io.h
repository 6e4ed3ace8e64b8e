/* Tensors in files of other programs: NumPy's .npy and .npz, and .safetensors; and in their memory, by DLPack. What is
 * loaded is new tensors on the thread's device. Files are written beside the old one and take its place when every byte
 * is on the disk. A library that was built with HODU_FILES=OFF (HD_HAS_FILES, hodu/script.h) gives an error that says so
 * for files; DLPack needs none. */
#ifndef HODU_IO_H
#define HODU_IO_H

#include <hodu/list.h>

/* Tensors by name, in the order they were added, and short texts by key. It holds its tensors. */
typedef struct hd_archive hd_archive;
struct DLManagedTensor;
struct DLManagedTensorVersioned;

HD_BEGIN_DECLS
/* ---- named tensors ---- */
HD_API hd_archive *hd_archive_new(void);
/* Names are there once, are UTF-8 and not empty. */
HD_API void hd_archive_add(hd_archive *archive, const char *name, hd_tensor *t);
HD_API int64_t hd_archive_count(const hd_archive *archive);
/* The name and the tensor at `index`, which may count from the end; the name is valid as long as the archive. */
HD_API const char *hd_archive_name(const hd_archive *archive, int64_t index);
HD_API hd_tensor *hd_archive_at(const hd_archive *archive, int64_t index);
/* The tensor of that name; an error when there is none. */
HD_API hd_tensor *hd_archive_get(const hd_archive *archive, const char *name);
HD_API bool hd_archive_has(const hd_archive *archive, const char *name);
/* Texts that .safetensors files have beside the tensors. Set anew, a text is another one. */
HD_API void hd_archive_set_text(hd_archive *archive, const char *key, const char *text);
/* The text of that key, valid until it is set anew; NULL, which is no error, when there is none. */
HD_API const char *hd_archive_text(const hd_archive *archive, const char *key);
HD_API int64_t hd_archive_text_count(const hd_archive *archive);
HD_API const char *hd_archive_key(const hd_archive *archive, int64_t index);

/* ---- NumPy ---- */
/* An array of bool, integers or f16, f32, f64 of either byte order and any order of axes, as a row-major tensor. */
HD_API hd_tensor *hd_npy_load(const char *path);
/* NumPy has no bf16 and f8: cast first (hd_cast), or save .safetensors. */
HD_API void hd_npy_save(const char *path, hd_tensor *t);
/* Arrays by name, as numpy.savez and numpy.savez_compressed write them. Compressed ones need zlib, which is opened then:
 * libz of the system, or what HODU_ZLIB in the environment names. */
HD_API hd_archive *hd_npz_load(const char *path);
/* Not compressed. .npz files keep no texts: an archive that has some is refused. */
HD_API void hd_npz_save(const char *path, const hd_archive *archive);

/* ---- .safetensors ---- */
/* The tensors of a .safetensors file; of several, when the file is their index (model.safetensors.index.json), which
 * lie beside it. The file is mapped, and tensors look into it, so that nothing is read before it is used; whoever writes
 * one gives it memory of its own first. Do not cut a file that is in use. Elements that are not aligned for their dtype
 * are copied. */
HD_API hd_archive *hd_safetensors_load(const char *path);

typedef struct hd_safetensors_opts {
    size_t struct_size;
    /* Files of at most so many bytes of tensors, or of one tensor that has more: "m.safetensors" becomes
     * "m-00001-of-00003.safetensors" and so on, and "m.safetensors.index.json". 0: one file. */
    int64_t shard_bytes;
} hd_safetensors_opts;
/* All dtypes. Texts are the file's metadata. */
HD_API void hd_safetensors_save(const char *path, const hd_archive *archive, const hd_safetensors_opts *opts);

/* ---- DLPack: hodu/dlpack.h has the structs ---- */
/* The tensor for another library, in the same memory: what one writes the other sees. Its deleter may be called on any thread. A tensor on CUDA is lent to be read only, which
 * its flags say; all that was asked of the device is done then. Other devices have no addresses: hd_to brings a tensor
 * to the CPU. */
HD_API struct DLManagedTensorVersioned *hd_to_dlpack(hd_tensor *t);
/* The same for libraries older than DLPack 1.0, without flags: a tensor on CUDA is copied there. */
HD_API struct DLManagedTensor *hd_to_dlpack_unversioned(hd_tensor *t);
/* Another library's tensor in its memory; on CUDA a copy. The deleter is called when the last tensor on it goes; when
 * the call fails, it is not, and the tensor stays the caller's. What is read only is copied when it is written. Bytes of
 * bool must be 0 or 1. */
HD_API hd_tensor *hd_from_dlpack(struct DLManagedTensorVersioned *managed);
HD_API hd_tensor *hd_from_dlpack_unversioned(struct DLManagedTensor *managed);
HD_END_DECLS

#endif
