/* Parameters and buffers of a module, in a file. */
#include "compile/saved.h"
#include "core/undo.h"
#include "io/safetensors.h"

#include <string.h>

static hd_error save(hd_thread *thread, hd_module *module, const char *path, const hd_module_save_opts *o) {
    hd_saved s;
    HD_TRY(hd_saved_begin(thread, &s));
    if (o->prefix != NULL) s.prefix = o->prefix;
    HD_TRY(hd_saved_add_module(&s, module));
    return hd_saved_write(&s, path);
}

void hd_module_save(hd_module *module, const char *path, const hd_module_save_opts *opts) {
    HD_ENTER("hd_module_save", );
    HD_READ_OPTS(hd_module_save_opts, opts, );
    if (hd_io_check_path(path) != HD_OK) return;
    HD_HOLD_ERRORS(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope);
    save(thread, module, path, &options);
    hd_scope_close(thread, &scope);
}

/* What the file has, by the names that the module has for it. */
static hd_error rename_all(hd_thread *thread, const hd_archive *file, const hd_module_load_opts *o, hd_archive *out) {
    const char *prefix = o->prefix != NULL ? o->prefix : "";
    const size_t length = strlen(prefix);
    for (int64_t i = 0; i < file->tensors.count; ++i) {
        const hd_named *t = &file->tensors.items[i];
        const char *name = t->name + length;
        if (strncmp(t->name, prefix, length) != 0 || (name[0] == '\0' && length > 0)) continue;
        if (o->rename != NULL) {
            HD_CALLBACK(thread);
            name = o->rename(name, o->rename_user);
        }
        HD_TRY(thread->error_code);
        if (name == NULL) continue;
        if (hd_names_find(&out->tensors, name) != NULL)
            return HD_BAD("has two tensors that would be \"%.100s\", the second one \"%.100s\"", name, t->name);
        HD_TRY(hd_archive_put(thread, out, name, t->value));
    }
    return HD_OK;
}

static hd_error load_into(const hd_saved *s, const char *path, const hd_module_load_opts *o) {
    hd_thread *thread = s->thread;
    const hd_archive *file = hd_safetensors_read(thread, path);
    hd_archive *given = file == NULL ? NULL : hd_archive_make(thread);
    if (given == NULL) return thread->error_code;
    HD_TRY(rename_all(thread, file, o, given));
    HD_TRY(hd_saved_match(s, given, o->partial));
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return thread->error_code;
    const hd_error status = hd_saved_copy(s, given);
    hd_undo_end(undo, status == HD_OK);
    return status;
}

void hd_module_load(hd_module *module, const char *path, const hd_module_load_opts *opts) {
    HD_ENTER("hd_module_load", );
    HD_READ_OPTS(hd_module_load_opts, opts, );
    if (hd_io_check_path(path) != HD_OK) return;
    HD_EAGER;
    HD_HOLD_ERRORS(thread);
    hd_saved s;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_error status = hd_saved_begin(thread, &s);
    if (status == HD_OK) status = hd_saved_add_module(&s, module);
    if (status == HD_OK && load_into(&s, path, &options) != HD_OK)
        hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    hd_scope_close(thread, &scope);
}
