/* Machine code that files carry, as scripts hold it: what it means, its compiler knows. */
#include "core/memory.h"
#include "grad/tape.h"
#include "script/script.h"

#include <string.h>

static void carried_destroy(hd_thread *thread, hd_object *object) {
    hd_carried *c = (hd_carried *)object;
    if (c->read != NULL) c->forget(c->read);
    pthread_mutex_destroy(&c->lock);
    hd_array_release(c->bytes);
    hd_count(&thread->live_objects, -1);
    hd_array_release(c);
}
static const hd_kind carried_kind = {.name = "machine code", .destroy = carried_destroy};

hd_carried *hd_carried_new(hd_thread *thread, unsigned char *bytes, size_t count, const char *missing) {
    hd_carried *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) {
        hd_array_release(bytes);
        hd_fail(HD_ERROR_MEMORY, "no memory for the machine code of a file");
        return NULL;
    }
    *c = (hd_carried){.bytes = bytes, .count = count, .missing = missing};
    hd_object_init(&c->object, &carried_kind);
    hd_count(&thread->live_objects, 1);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

hd_error hd_script_carry(hd_thread *thread, hd_script *s, unsigned char **bytes, size_t *count) {
    const hd_compiler_interface *compiler = hd_compiler_interface_of(s->compiler);
    if (compiler != NULL && compiler->carry == NULL)
        return hd_fail(HD_ERROR_STATE,
                       "files carry no machine code of %s (.native); hd_script_set_compiler chooses HD_COMPILER_HODU",
                       compiler->name);
    if (hd_debug_nan())
        return hd_fail(HD_ERROR_STATE,
                       "with HODU_DEBUG=nan every op runs alone, and there is no machine code (.native)");
    HD_TRY(hd_script_check_eager(thread));
    HD_TRY(hd_script_make_executable(thread, s));
    return compiler->carry(thread, s->executable, s->carried, bytes, count);
}
