/* The sticky error of each thread. */
#include "core/error.h"
#include "core/environment.h"
#include "core/lines.h"
#include "core/os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char anchor; /* where this library lies */

/* ---- where it happened ------------------------------------------------------------------------------------------- */
/* True when the library itself made the call. In a program that has the library in itself, nobody can tell. */
static bool is_inside(const void *caller) {
    hd_os_place own, place;
    return caller != NULL && hd_os_place_of(&anchor, &own) && hd_os_place_of(caller, &place) &&
           own.base == place.base && strstr(own.file, "libhodu") != NULL;
}

const void *hd_outer_caller(const hd_thread *t) {
    const void *caller = t->caller;
    for (uint32_t i = t->layer_count < HD_LAYERS_NOTED ? t->layer_count : HD_LAYERS_NOTED;
         i-- > 0 && is_inside(caller);)
        if (t->layers[i].caller != NULL) caller = t->layers[i].caller;
    return caller;
}

static void describe_place(hd_thread *t, char *out, size_t capacity) {
    int length = 0;
    out[0] = '\0';
    const void *caller = hd_outer_caller(t);
    if (hd_lines_of(caller, out, capacity)) return; /* HODU_DEBUG=lines */
    const hd_scope_frame *frame = t->scope_count > 0 ? &t->scopes[t->scope_count - 1] : NULL;
    if (frame != NULL && frame->file != NULL) /* NULL: the library's own, where the user has none */
        length = snprintf(out, capacity, "in the scope of %s:%d", frame->file, frame->line);
    char from[200];
    if (length >= 0 && (size_t)length < capacity && hd_caller_text(caller, from, sizeof from))
        snprintf(out + length, capacity - (size_t)length, "%scalled from %s", length > 0 ? ", " : "", from);
}

/* In which layers of a model, from the inside out: "; in linear 0 of sequential 2 of sequential". */
static void describe_layers(hd_thread *t) {
    const char *separator = "; in ";
    if (t->layer_count > HD_LAYERS_NOTED) { /* the innermost ones were not noted, and the others would say little */
        hd_error_append(t, "; in a model of %u layers, one inside the other", t->layer_count);
        return;
    }
    for (uint32_t i = t->layer_count < HD_LAYERS_NOTED ? t->layer_count : HD_LAYERS_NOTED; i-- > 0;) {
        const hd_layer *layer = &t->layers[i];
        if (layer->kind == NULL) { /* the frame of hd_compile, which captures what is inside */
            hd_error_append(t, "%s",
                            t->error_code == HD_ERROR_STATE
                                ? " (while hd_compile captures the model, whose forward may neither read "
                                  "values nor write what is no buffer of it)"
                                : " (while hd_compile captures the model)");
            return;
        }
        hd_error_append(t, "%s%s%s%s", separator, layer->kind, layer->name[0] != '\0' ? " " : "", layer->name);
        separator = " of ";
    }
}

/* ---- saying it --------------------------------------------------------------------------------------------------- */
static struct {
    _Atomic(hd_error_handler) handler;
    _Atomic(void *) user;
} host;

void hd_error_set_handler(hd_error_handler handler, void *user) {
    atomic_store(&host.handler, NULL); /* so that no handler gets the other one's user */
    atomic_store(&host.user, user);
    atomic_store(&host.handler, handler);
}

static bool is_quiet(void) {
    const char *wish = hd_environment("HODU_ERRORS");
    if (wish == NULL || strcmp(wish, "print") == 0) return false;
    if (strcmp(wish, "quiet") == 0) return true;
    hd_environment_unknown("HODU_ERRORS", wish, strlen(wish), "quiet or print");
    return false;
}

static void say(hd_error code, const char *message, const char *place) {
    const hd_error_handler handler = atomic_load(&host.handler);
    if (handler != NULL) {
        HD_CALLBACK(hd_thread_pointer);
        handler(code, message, place, atomic_load(&host.user));
    } else if (code == HD_OK || !is_quiet())
        fprintf(stderr, "hodu %s: %s%s%s%s\n", code == HD_OK ? "warning" : "error", message, place[0] ? " (" : "",
                place, place[0] ? ")" : "");
}

static void say_error(hd_thread *t) {
    t->error_said = true;
    say(t->error_code, t->error_message, t->error_place);
    if (hd_environment_flag("HODU_TRAP", false)) hd_os_trap();
}

hd_error hd_fail(hd_error code, const char *format, ...) {
    hd_thread *t = hd_thread_self();
    if (t == NULL || t->error_code != HD_OK) return code;
    t->error_code = code;
    t->error_read = t->error_said = false;
    snprintf(t->error_call, sizeof t->error_call, "%s", t->call ? t->call : "");
    int length = t->call ? snprintf(t->error_message, sizeof t->error_message, "%s: ", t->call) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error_message + length, sizeof t->error_message - (size_t)length, format, arguments);
    va_end(arguments);
    describe_layers(t);
    describe_place(t, t->error_place, sizeof t->error_place);
    if (t->error_holds == 0) say_error(t);
    return code;
}

void hd_error_let_go(hd_thread *t) {
    if (t->error_holds > 0 && --t->error_holds > 0) return;
    if (t->error_code != HD_OK && !t->error_said && !t->error_read) say_error(t);
}

void hd_warn(hd_thread *t, const char *format, ...) {
    char message[512], place[256] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (t != NULL) describe_place(t, place, sizeof place);
    say(HD_OK, message, place);
}

void hd_error_append(hd_thread *t, const char *format, ...) {
    if (t->error_code == HD_OK) return;
    const size_t length = strlen(t->error_message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error_message + length, sizeof t->error_message - length, format, arguments);
    va_end(arguments);
}

/* ---- reading and clearing it ------------------------------------------------------------------------------------- */
void hd_error_take(hd_error_copy *out) {
    hd_thread *t = hd_thread_self();
    memset(out, 0, sizeof *out);
    if (t == NULL || t->error_code == HD_OK) return;
    out->code = t->error_code;
    memcpy(out->message, t->error_message, sizeof out->message);
    memcpy(out->place, t->error_place, sizeof out->place);
    memcpy(out->call, t->error_call, sizeof out->call);
    out->read = t->error_read;
    out->said = t->error_said;
    t->error_code = HD_OK;
}

void hd_error_put_back(const hd_error_copy *taken) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return;
    t->error_code = taken->code;
    if (taken->code == HD_OK) return;
    memcpy(t->error_message, taken->message, sizeof taken->message);
    memcpy(t->error_place, taken->place, sizeof taken->place);
    memcpy(t->error_call, taken->call, sizeof taken->call);
    t->error_read = taken->read;
    t->error_said = taken->said;
}

hd_quiet_token hd_quiet_begin(hd_quiet_token *self) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return (hd_quiet_token){NULL, 0};
    return (hd_quiet_token){self, ++t->error_holds};
}

void hd_quiet_end(hd_quiet_token *token) {
    hd_thread *t = hd_thread_self();
    if (t == NULL || token == NULL || token->self != token || token->depth > t->error_holds) return;
    t->error_holds = token->depth;
    token->self = NULL;
    hd_error_let_go(t);
}

bool hd_ok(void) {
    const hd_thread *t = hd_thread_self();
    return t != NULL && t->error_code == HD_OK;
}

hd_error hd_error_code(void) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return HD_ERROR_MEMORY;
    t->error_read = true;
    return t->error_code;
}

const char *hd_error_message(void) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return "out of memory: no room for this thread's context";
    t->error_read = true;
    return t->error_code == HD_OK ? "" : t->error_message;
}

const char *hd_error_place(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL || t->error_code == HD_OK ? "" : t->error_place;
}

const char *hd_error_call(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL || t->error_code == HD_OK ? "" : t->error_call;
}

void hd_error_clear(void) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return;
    t->error_code = HD_OK;
    t->error_message[0] = t->error_place[0] = t->error_call[0] = '\0';
}

const char *hd_error_meaning(hd_error code) {
#define MEANING(name, meaning) [HD_ERROR_##name] = meaning,
    static const char *const meanings[] = {[HD_OK] = "no error", HD_ERROR_LIST(MEANING)};
#undef MEANING
    return (unsigned)code < HD_ERROR_COUNT ? meanings[code] : "unknown error code";
}

int hd_exit_status(void) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return 1;
    if (t->error_code == HD_OK) return 0;
    if (!t->error_said) say_error(t);
    return 1;
}
