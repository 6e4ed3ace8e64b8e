/* .hoduscript files from inside; docs/hoduscript.md describes them byte by byte.
 *
 * A file is a head, a table of sections, the sections (strings, tables, nodes: a few bytes each, read and verified when
 * a script is loaded), and the tensors' bytes behind them. Constants stay in the file until somebody reads them: their
 * storages have the home "file", which holds the open file. */
#ifndef HD_SCRIPT_FILE_H
#define HD_SCRIPT_FILE_H

#include "core/file.h"
#include "script/script.h"

#include <pthread.h>

enum {
    HD_FILE_VERSION = 2,
    HD_FILE_HEAD = 32,  /* bytes in front of the section table */
    HD_FILE_ENTRY = 32, /* bytes of one section in the table */
    HD_FILE_ALIGN = 64, /* where sections and tensors begin */
    HD_FILE_NODE_BYTES = 24,
    HD_FILE_TENSOR_BYTES = 24,
    HD_FILE_SECTIONS_MOST = 256, /* a reader skips sections it need not know, but not any number of them */
    HD_FILE_FIELDS_MOST = 16
};

/* The sections in the order in which they are written; DATA is always the last one. `code`, machine code, is not in
 * every file, and is read only when somebody asks for it. */
#define HD_FILE_SECTION_LIST(X)                                                                                        \
    X(STRS)                                                                                                            \
    X(SCRI) X(TYPE) X(OPER) X(SHAP) X(ATTR) X(SPAN) X(NODE) X(EDGE) X(INPT) X(OUTP) X(CELL) X(TENS) X(code) X(DATA)
typedef enum hd_file_section {
#define HD_FILE_SECTION_ENUM(id) HD_FILE_##id,
    HD_FILE_SECTION_LIST(HD_FILE_SECTION_ENUM)
#undef HD_FILE_SECTION_ENUM
        HD_FILE_SECTION_COUNT
} hd_file_section;
extern const char hd_file_magic[8];
extern const char *const hd_file_ids[HD_FILE_SECTION_COUNT];

/* The names of nodes that are no ops, and the numbers of field kinds and cell kinds, as files have them. */
extern const char *const hd_file_node_names[HD_NODE_END - HD_NODE_INPUT];
uint32_t hd_file_field_kind(hd_field_kind kind);
enum { HD_FILE_BOUND = 1, HD_FILE_STATE = 2 };

static inline uint64_t hd_file_padded(uint64_t bytes) {
    return (bytes + HD_FILE_ALIGN - 1) / HD_FILE_ALIGN * HD_FILE_ALIGN;
}

/* ---- an open file, held by all storages whose bytes are still in it ---- */
struct hd_file;
typedef struct hd_file_tensor {
    struct hd_file *file;
    uint64_t offset, bytes, checksum; /* the checksum covers the bytes and the zeros behind them */
    uint32_t number, node;            /* for messages: constant #number, node %node */
    bool is_bool;                     /* then every byte is 0 or 1 */
    _Atomic bool ready;               /* the storage has its bytes */
} hd_file_tensor;

typedef struct hd_file {
    hd_object object;
    int descriptor;
    uint64_t size;
    char *path;
    const unsigned char *map; /* all of it, when constants are mapped; else NULL */
    pthread_mutex_t lock;     /* one thread at a time reads constants */
    hd_file_tensor *tensors;  /* constants, then cells */
    uint32_t tensor_count;
} hd_file;

/* Opens a file for reading; one reference. NULL with an error. */
hd_file *hd_file_open(hd_thread *thread, const char *path);
hd_error hd_file_map(hd_file *file);
static inline void hd_file_release(hd_thread *thread, hd_file *file) {
    if (file != NULL) hd_object_release(thread, &file->object);
}
/* Exactly these bytes, or an error. */
hd_error hd_file_read(const hd_file *file, void *out, uint64_t offset, uint64_t bytes);
/* A storage for a tensor of the file: one that reads it when it is first used, or one with bytes of its own now. */
hd_storage *hd_file_constant(hd_thread *thread, hd_file_tensor *tensor);
hd_storage *hd_file_cell(hd_thread *thread, hd_file_tensor *tensor);
uint64_t hd_file_checksum(const void *bytes, size_t count);

/* The graph of a file, and what was chosen for it. NULL with an error. */
typedef struct hd_file_choices {
    hd_compiler compiler;
    hd_optimization_level level;
    bool carries; /* machine code: where it is in the file, not read yet */
    uint64_t code_offset, code_bytes, code_checksum;
} hd_file_choices;
hd_graph *hd_file_read_graph(hd_thread *thread, hd_file *file, hd_file_choices *choices);
/* The machine code of a file; NULL with an error. One that is damaged is as good as none. */
hd_carried *hd_file_read_code(hd_thread *thread, const hd_file *file, const hd_file_choices *choices);

/* Writes a script to `path`, which has its extension, with machine code for it or without (NULL, 0). */
hd_error hd_file_write(hd_thread *thread, hd_script *script, const unsigned char *code, size_t code_bytes,
                       const char *path);

#endif
