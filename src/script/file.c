/* Saving and loading scripts: the public functions. */
#include "script/file.h"

#include <string.h>

#if HD_HAS_FILES

/* ---- words that files use ---------------------------------------------------------------------------------------- */
/* As PNG's: not text, and damaged by whoever changes line ends. */
const char hd_file_magic[8] = {'\x89', 'H', 'O', 'D', 'U', '\r', '\n', '\x1a'};
const char *const hd_file_ids[HD_FILE_SECTION_COUNT] = {
#define HD_FILE_SECTION_ID(id) #id,
    HD_FILE_SECTION_LIST(HD_FILE_SECTION_ID)
#undef HD_FILE_SECTION_ID
};
const char *const hd_file_node_names[HD_NODE_END - HD_NODE_INPUT] = {"@input", "@constant", "@cell", "@write",
                                                                     "@output"};

uint32_t hd_file_field_kind(hd_field_kind kind) { /* never renumbered, unlike the enum */
    switch (kind) {
    case HD_FIELD_F64: return 1;
    case HD_FIELD_I64: return 2;
    case HD_FIELD_INT: return 3;
    case HD_FIELD_BOOL: return 4;
    case HD_FIELD_DTYPE: return 5;
    case HD_FIELD_SHAPE: return 6;
    case HD_FIELD_AXES: return 7;
    case HD_FIELD_FLAGS: return 8;
    case HD_FIELD_LAYOUT: return 9;
    case HD_FIELD_PADDING: return 10;
    case HD_FIELD_NAME: return 11;
    case HD_FIELD_BYTES: return 12;
    case HD_FIELD_END: break;
    }
    return 0;
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */
/* The path with an extension: .hoduscript, unless the last part has one. The caller releases it. */
static char *with_extension(const char *path) {
    static const char extension[] = ".hoduscript";
    if (path == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
        return NULL;
    }
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        hd_fail(HD_ERROR_VALUE, "\"%s\" names no file", hd_file_short(path));
        return NULL;
    }
    const bool has_one = strrchr(name + 1, '.') != NULL; /* the point of a hidden file is none */
    const size_t length = strlen(path);
    char *out = hd_array_resize(NULL, length + sizeof extension);
    if (out == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a path");
        return NULL;
    }
    memcpy(out, path, length + 1);
    if (!has_one) memcpy(out + length, extension, sizeof extension);
    return out;
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */
static void save_file(hd_thread *thread, hd_script *script, const char *path, const hd_script_save_opts *options) {
    HD_HOLD_ERRORS(thread);
    if (hd_script_check_argument(script) != HD_OK) return;
    HD_USE(&script->object, false, );
    char *full = with_extension(path);
    if (full == NULL) return;
    unsigned char *code = NULL;
    size_t code_bytes = 0;
    hd_error status = options->native ? hd_script_carry(thread, script, &code, &code_bytes) : HD_OK;
    if (status != HD_OK) hd_file_reword(thread, HD_OK, "is not written: ");
    if (status == HD_OK) status = hd_file_write(thread, script, code, code_bytes, full);
    if (status != HD_OK) hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(full));
    hd_array_release(code);
    hd_array_release(full);
}

void hd_script_save_with(hd_script *script, const char *path, const hd_script_save_opts *opts) {
    HD_ENTER("hd_script_save_with", );
    HD_READ_OPTS(hd_script_save_opts, opts, );
    save_file(thread, script, path, &options);
}

void hd_script_save(hd_script *script, const char *path) {
    HD_ENTER("hd_script_save", );
    save_file(thread, script, path, &(const hd_script_save_opts){.native = false});
}

static hd_script *load_file(hd_thread *thread, const char *path, const hd_script_load_opts *options) {
    HD_HOLD_ERRORS(thread);
    char *full = with_extension(path);
    if (full == NULL) return NULL;
    hd_file_choices choices;
    hd_script *script = NULL;
    hd_file *file = hd_file_open(thread, full);
    hd_graph *graph = file == NULL ? NULL : hd_file_read_graph(thread, file, &choices);
    hd_carried *carried = NULL;
    bool there = graph != NULL && (!options->map || hd_file_map(file) == HD_OK);
    if (there && options->native) there = (carried = hd_file_read_code(thread, file, &choices)) != NULL;
    if (there) script = hd_script_over(thread, graph, false);
    if (script != NULL) {
        script->carried = carried;
        script->compiler = choices.compiler;
        script->level = choices.level;
    } else {
        if (carried != NULL) hd_object_release(thread, &carried->object);
        hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(full));
    }
    hd_graph_release(thread, graph);
    hd_file_release(thread, file);
    hd_array_release(full);
    return script;
}

hd_script *hd_script_load_with(const char *path, const hd_script_load_opts *opts) {
    HD_ENTER("hd_script_load_with", NULL);
    HD_READ_OPTS(hd_script_load_opts, opts, NULL);
    return load_file(thread, path, &options);
}

hd_script *hd_script_load(const char *path) {
    HD_ENTER("hd_script_load", NULL);
    return load_file(thread, path, &(const hd_script_load_opts){.map = false});
}

#else

static const char without[] =
    "this library was built without files (HODU_FILES=OFF); scripts are neither saved nor loaded";

void hd_script_save_with(hd_script *script, const char *path, const hd_script_save_opts *opts) {
    HD_ENTER("hd_script_save_with", );
    (void)script, (void)path, (void)opts, (void)thread;
    hd_fail(HD_ERROR_STATE, "%s", without);
}

void hd_script_save(hd_script *script, const char *path) {
    HD_ENTER("hd_script_save", );
    (void)script, (void)path, (void)thread;
    hd_fail(HD_ERROR_STATE, "%s", without);
}

hd_script *hd_script_load_with(const char *path, const hd_script_load_opts *opts) {
    HD_ENTER("hd_script_load_with", NULL);
    (void)path, (void)opts, (void)thread;
    hd_fail(HD_ERROR_STATE, "%s", without);
    return NULL;
}

hd_script *hd_script_load(const char *path) {
    HD_ENTER("hd_script_load", NULL);
    (void)path, (void)thread;
    hd_fail(HD_ERROR_STATE, "%s", without);
    return NULL;
}

#endif
