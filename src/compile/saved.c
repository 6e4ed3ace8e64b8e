/* What of a program is kept in a file. */
#include "compile/saved.h"
#include "io/safetensors.h"
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

hd_error hd_saved_begin(hd_thread *thread, hd_saved *s) {
    *s = (hd_saved){.thread = thread, .own = hd_archive_make(thread), .prefix = ""};
    return s->own != NULL ? HD_OK : thread->error_code;
}

hd_error hd_saved_add(void *saved, const char *name, hd_tensor *t) {
    const hd_saved *s = saved;
    hd_text full = {.at = NULL};
    hd_text_put(&full, s->prefix, strlen(s->prefix));
    hd_text_put(&full, name, strlen(name));
    const hd_error status = full.failed ? hd_fail(HD_ERROR_MEMORY, "no memory for the name \"%.100s\"", name)
                                        : hd_archive_put(s->thread, s->own, full.at, t);
    hd_text_release(&full);
    return status;
}

hd_error hd_saved_add_numbers(hd_saved *s, const char *name, void *numbers, int64_t count, hd_dtype dtype) {
    const hd_shape shape = {.rank = count > 0, .size = {count}};
    HD_KEEP_NAME(s->thread);
    hd_tensor *t = hd_from_blob(numbers, shape, dtype, NULL, NULL);
    return t != NULL ? hd_saved_add(s, name, t) : s->thread->error_code;
}

hd_error hd_saved_add_module(hd_saved *s, hd_module *module) {
    HD_TRY(hd_module_each(module, false, hd_saved_add, s));
    return hd_module_each(module, true, hd_saved_add, s);
}

hd_error hd_saved_write(const hd_saved *s, const char *path) {
    if (hd_safetensors_write(s->thread, path, s->own, 0) == HD_OK) return HD_OK;
    return hd_file_reword(s->thread, HD_OK, "\"%s\" ", hd_file_short(path));
}

/* ---- comparing with a file --------------------------------------------------------------------------------------- */
enum { LIST = 380 }; /* characters of a message for what differs */

typedef struct differences {
    char list[LIST];
    size_t length;
    int64_t count, more;
} differences;

static void note(differences *d, const char *text) {
    const size_t length = strlen(text), comma = d->count > 0 ? 2 : 0;
    d->count++;
    if (d->more > 0 || d->length + comma + length >= sizeof d->list) {
        d->more++;
        return;
    }
    d->length += (size_t)sprintf(d->list + d->length, "%s%s", comma > 0 ? ", " : "", text);
}

static void describe(char *out, size_t capacity, const hd_tensor *t) {
    snprintf(out, capacity, "%s %s", hd_dtype_name((hd_dtype)t->dtype), HD_SHAPE_TEXT(t->layout.shape));
}

static void compare(differences *d, const hd_named *own, const hd_tensor *given) {
    const hd_tensor *t = own->value;
    char text[300], here[80], there[80];
    if (t->dtype == given->dtype && hd_shape_equal(t->layout.shape, given->layout.shape)) return;
    describe(here, sizeof here, t);
    describe(there, sizeof there, given);
    snprintf(text, sizeof text, "\"%.100s\" is %s and there %s", own->name, here, there);
    note(d, text);
}

static void note_absent(differences *d, const char *name, const char *what) {
    char text[160];
    snprintf(text, sizeof text, "\"%.100s\" is %s", name, what);
    note(d, text);
}

hd_error hd_saved_match(const hd_saved *s, const hd_archive *given, bool partial) {
    differences d = {.list = ""};
    for (int64_t i = 0; i < s->own->tensors.count; ++i) {
        const hd_named *own = &s->own->tensors.items[i], *other = hd_names_find(&given->tensors, own->name);
        if (other != NULL)
            compare(&d, own, other->value);
        else if (!partial)
            note_absent(&d, own->name, "missing");
    }
    for (int64_t i = 0; i < given->tensors.count && !partial; ++i)
        if (hd_names_find(&s->own->tensors, given->tensors.items[i].name) == NULL)
            note_absent(&d, given->tensors.items[i].name, "left over");
    if (d.count == 0) return HD_OK;
    char more[40] = "";
    if (d.more > 0) snprintf(more, sizeof more, " and %lld more", (long long)d.more);
    return hd_fail(HD_ERROR_VALUE, "does not fit, and nothing is loaded: %s%s", d.list, more);
}

hd_error hd_saved_copy(const hd_saved *s, const hd_archive *given) {
    HD_KEEP_NAME(s->thread);
    HD_NO_GRAD;
    for (int64_t i = 0; i < s->own->tensors.count; ++i) {
        const hd_named *own = &s->own->tensors.items[i], *other = hd_names_find(&given->tensors, own->name);
        if (other != NULL) hd_assign(own->value, other->value);
        HD_TRY(s->thread->error_code);
    }
    return HD_OK;
}
