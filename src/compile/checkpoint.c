/* Checkpoints: the state of a training in one .safetensors file. Each part of it is a row of `parts`, which lists what
 * the part keeps, for saving and loading alike, and says how what was loaded is put in its place when it is no tensor of
 * the program's. */
#include "compile/saved.h"
#include "core/undo.h"
#include "io/safetensors.h"
#include "optim/optimizer.h"

#include <string.h>

typedef struct training {
    const hd_checkpoint_opts *options;
    uint64_t generator[2]; /* its seed and next draw */
} training;

typedef struct part {
    const char *prefix;
    hd_error (*list)(hd_saved *s, training *t);
    void (*put)(const training *t); /* what was loaded into *t; NULL: there is nothing to do */
} part;

static hd_error list_module(hd_saved *s, training *t) {
    return t->options->module != NULL ? hd_saved_add_module(s, t->options->module) : HD_OK;
}

static hd_error list_optimizer(hd_saved *s, training *t) {
    return t->options->optimizer != NULL ? hd_optimizer_each(s->thread, t->options->optimizer, hd_saved_add, s) : HD_OK;
}

static hd_error list_generator(hd_saved *s, training *t) {
    HD_KEEP_NAME(s->thread);
    t->generator[0] = hd_generator_seed(t->options->generator);
    t->generator[1] = hd_generator_draw(t->options->generator);
    HD_TRY(s->thread->error_code);
    return hd_saved_add_numbers(s, "generator", t->generator, 2, HD_U64);
}
static void put_generator(const training *t) {
    hd_generator_set(t->options->generator, t->generator[0], t->generator[1]);
}

static hd_error list_tensors(hd_saved *s, training *t) {
    const hd_archive *a = t->options->tensors;
    if (a == NULL) return HD_OK;
    HD_TRY(hd_archive_check(a, "tensors"));
    for (int64_t i = 0; i < a->tensors.count; ++i)
        HD_TRY(hd_saved_add(s, a->tensors.items[i].name, a->tensors.items[i].value));
    return HD_OK;
}

static hd_error list_numbers(hd_saved *s, training *t) {
    const hd_checkpoint_opts *o = t->options;
    if (o->number_count < 0) return HD_BAD("number_count is %lld", (long long)o->number_count);
    if (o->numbers == NULL && o->number_count > 0)
        return hd_fail(HD_ERROR_NULL_ARGUMENT, "`numbers` is NULL, and number_count %lld", (long long)o->number_count);
    for (int64_t i = 0; i < o->number_count; ++i) {
        const char *name = o->numbers[i].name;
        if (name == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "number %lld has no name", (long long)i);
        HD_TRY(hd_saved_add_numbers(s, name, &o->numbers[i].value, 0, HD_F64));
    }
    return HD_OK;
}

static const part parts[] = {{"model.", list_module, NULL},
                             {"optimizer.", list_optimizer, NULL},
                             {"", list_generator, put_generator},
                             {"tensor.", list_tensors, NULL},
                             {"number.", list_numbers, NULL}};
enum { PARTS = sizeof parts / sizeof parts[0] };

static hd_error list_all(hd_thread *thread, hd_saved *s, training *t) {
    HD_TRY(hd_saved_begin(thread, s));
    for (int i = 0; i < PARTS; ++i) {
        s->prefix = parts[i].prefix;
        HD_TRY(parts[i].list(s, t));
    }
    return HD_OK;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */
static hd_error save(hd_thread *thread, const char *path, const hd_checkpoint_opts *o) {
    hd_saved s;
    training t = {.options = o};
    HD_TRY(list_all(thread, &s, &t));
    HD_TRY(hd_archive_put_text(s.own, "format", "hodu checkpoint 1"));
    return hd_saved_write(&s, path);
}

void hd_checkpoint_save(const char *path, const hd_checkpoint_opts *opts) {
    HD_ENTER("hd_checkpoint_save", );
    HD_READ_OPTS(hd_checkpoint_opts, opts, );
    if (hd_io_check_path(path) != HD_OK) return;
    HD_EAGER;
    HD_HOLD_ERRORS(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope);
    save(thread, path, &options);
    hd_scope_close(thread, &scope);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static hd_error check_format(const hd_archive *file) {
    static const char known[] = "hodu checkpoint ";
    const hd_named *format = hd_names_find(&file->texts, "format");
    const char *text = format != NULL ? format->value : "";
    if (strncmp(text, known, sizeof known - 1) != 0) return HD_BAD("is no checkpoint; hd_module_load reads models");
    return strcmp(text + sizeof known - 1, "1") == 0
               ? HD_OK
               : HD_BAD("is a checkpoint of version \"%.20s\"; this library reads version 1", text + sizeof known - 1);
}

static hd_error load_into(const hd_saved *s, const training *t, const char *path) {
    hd_thread *thread = s->thread;
    const hd_archive *file = hd_safetensors_read(thread, path);
    if (file == NULL) return thread->error_code;
    HD_TRY(check_format(file));
    HD_TRY(hd_saved_match(s, file, false));
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return thread->error_code;
    HD_KEEP_NAME(thread);
    hd_saved_copy(s, file);
    for (int i = 0; i < PARTS && thread->error_code == HD_OK; ++i)
        if (parts[i].put != NULL) parts[i].put(t);
    hd_undo_end(undo, thread->error_code == HD_OK);
    return thread->error_code;
}

void hd_checkpoint_load(const char *path, const hd_checkpoint_opts *opts) {
    HD_ENTER("hd_checkpoint_load", );
    HD_READ_OPTS(hd_checkpoint_opts, opts, );
    if (hd_io_check_path(path) != HD_OK) return;
    HD_EAGER;
    HD_HOLD_ERRORS(thread);
    hd_saved s;
    training t = {.options = &options};
    hd_scope_token scope = hd_scope_within(thread, &scope);
    if (list_all(thread, &s, &t) == HD_OK && load_into(&s, &t, path) != HD_OK)
        hd_file_reword(thread, HD_OK, "\"%s\" ", hd_file_short(path));
    hd_scope_close(thread, &scope);
}
