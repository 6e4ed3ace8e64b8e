/* The sticky error of each thread. */
#include "core/error.h"
#include "core/environment.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char anchor; /* where this library lies */

static void describe_place(hd_thread *t, char *out, size_t capacity) {
    int length = 0;
    out[0] = '\0';
    t->error_inside = false;
    if (t->scope_count > 0) {
        const hd_scope_frame *frame = &t->scopes[t->scope_count - 1];
        length = snprintf(out, capacity, "in the scope of %s:%d", frame->file ? frame->file : "?", frame->line);
    }
    Dl_info info;
    if (t->caller != NULL && length >= 0 && (size_t)length < capacity && dladdr(t->caller, &info) != 0 &&
        info.dli_fname) {
        const char *separator = length > 0 ? ", " : "", *slash = strrchr(info.dli_fname, '/');
        const char *object = slash ? slash + 1 : info.dli_fname;
        Dl_info own; /* in a program that has the library in itself, nobody can tell */
        t->error_inside =
            dladdr(&anchor, &own) != 0 && own.dli_fbase == info.dli_fbase && strstr(own.dli_fname, "libhodu") != NULL;
        if (info.dli_sname != NULL)
            snprintf(out + length, capacity - (size_t)length, "%scalled from %s", separator, info.dli_sname);
        else
            snprintf(out + length, capacity - (size_t)length, "%scalled from %s+%#tx", separator, object,
                     (const char *)t->caller - (const char *)info.dli_fbase);
    }
}

hd_error hd_fail(hd_error code, const char *format, ...) {
    hd_thread *t = hd_thread_self();
    if (t == NULL || t->error_code != HD_OK) return code;
    t->error_code = code;
    t->error_read = false;
    t->error_layers = HD_NO_LAYER;
    snprintf(t->error_call, sizeof t->error_call, "%s", t->call ? t->call : "");
    int length = t->call ? snprintf(t->error_message, sizeof t->error_message, "%s: ", t->call) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error_message + length, sizeof t->error_message - (size_t)length, format, arguments);
    va_end(arguments);
    describe_place(t, t->error_place, sizeof t->error_place);
    if (hd_environment_flag("HODU_TRAP", false)) {
        fprintf(stderr, "hodu: %s (%s)\n", t->error_message, t->error_place);
        raise(SIGTRAP);
    }
    return code;
}

void hd_error_append(hd_thread *t, const char *format, ...) {
    if (t->error_code == HD_OK) return;
    const size_t length = strlen(t->error_message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error_message + length, sizeof t->error_message - length, format, arguments);
    va_end(arguments);
}

void hd_error_move(hd_thread *t, const void *caller) {
    if (t->error_code == HD_OK || !t->error_inside) return;
    t->caller = caller;
    describe_place(t, t->error_place, sizeof t->error_place);
}

void hd_error_take(hd_error_copy *out) {
    hd_thread *t = hd_thread_self();
    memset(out, 0, sizeof *out);
    if (t == NULL || t->error_code == HD_OK) return;
    out->code = t->error_code;
    memcpy(out->message, t->error_message, sizeof out->message);
    memcpy(out->place, t->error_place, sizeof out->place);
    memcpy(out->call, t->error_call, sizeof out->call);
    t->error_code = HD_OK;
}

static void print_error(hd_thread *t) {
    fprintf(stderr, "hodu error: %s%s%s%s\n", t->error_message, t->error_place[0] ? " (" : "", t->error_place,
            t->error_place[0] ? ")" : "");
    t->error_read = true;
}

void hd_error_report_unread(hd_thread *t) {
    if (t->error_code != HD_OK && !t->error_read) print_error(t);
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
    print_error(t);
    return 1;
}
