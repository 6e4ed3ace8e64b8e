/* Taking profiles. A profile has rows of what is alike and moments of when it was; all that are taken are in one
 * list. */
#include "core/profile.h"
#include "core/away.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/os.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_MOMENTS = 1 << 22 }; /* 192 MB */

_Atomic int hd_profiles;
static struct {
    pthread_mutex_t lock;
    hd_profile *first;
    hd_profile *of_process; /* HODU_PROFILE */
} taken = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- rows and moments -------------------------------------------------------------------------------------------- */
static uint64_t hash_of(const hd_profile_row *r) {
    uint64_t h = hd_hash(r->name, strlen(r->name), (uint64_t)r->kind);
    h = hd_hash(r->sizes, strlen(r->sizes), h);
    return hd_hash_mix(hd_hash_mix(h, (uintptr_t)r->caller), (uintptr_t)r->call);
}
static bool is_alike(const hd_profile_row *a, const hd_profile_row *b) {
    return a->kind == b->kind && a->caller == b->caller && a->call == b->call && strcmp(a->name, b->name) == 0 &&
           strcmp(a->sizes, b->sizes) == 0;
}

/* Where a row is, or would be, in the table, whose size is a power of 2. */
static uint32_t *entry_of(const hd_profile *p, const hd_profile_row *r) {
    const uint32_t mask = 2 * p->row_capacity - 1;
    uint32_t at = (uint32_t)hash_of(r) & mask;
    while (p->table[at] != 0 && !is_alike(&p->rows[p->table[at] - 1], r)) at = (at + 1) & mask;
    return &p->table[at];
}

static bool has_room_for_row(hd_profile *p) {
    if (p->row_count < p->row_capacity) return true;
    const uint32_t capacity = p->row_capacity > 0 ? 2 * p->row_capacity : 64;
    hd_profile_row *rows = hd_array_resize(p->rows, capacity * sizeof *rows);
    if (rows == NULL) return false;
    p->rows = rows;
    uint32_t *table = hd_array_resize(NULL, 2 * (size_t)capacity * sizeof *table);
    if (table == NULL) return false;
    memset(table, 0, 2 * (size_t)capacity * sizeof *table);
    hd_array_release(p->table);
    p->table = table;
    p->row_capacity = capacity;
    for (uint32_t i = 0; i < p->row_count; ++i) *entry_of(p, &rows[i]) = i + 1;
    return true;
}

static bool has_room_for_moment(hd_profile *p) {
    if (p->moment_count < p->moment_capacity) return true;
    const size_t capacity = p->moment_capacity > 0 ? 2 * p->moment_capacity : 1024;
    hd_profile_moment *moments =
        capacity > MOST_MOMENTS ? NULL : hd_array_resize(p->moments, capacity * sizeof *moments);
    if (moments == NULL) return false;
    p->moments = moments;
    p->moment_capacity = capacity;
    return true;
}

static void add(hd_profile *p, const hd_profile_row *row, const hd_profile_event *e, uint32_t thread) {
    if (!has_room_for_row(p)) {
        p->left_out++;
        return;
    }
    uint32_t *entry = entry_of(p, row);
    if (*entry == 0) {
        p->rows[p->row_count] = *row;
        *entry = ++p->row_count;
    }
    hd_profile_row *r = &p->rows[*entry - 1];
    r->count++;
    r->nanoseconds += e->nanoseconds;
    r->work.operations += e->work.operations;
    r->work.bytes += e->work.bytes;
    if (has_room_for_moment(p))
        p->moments[p->moment_count++] = (hd_profile_moment){e->begin, e->nanoseconds, e->work, *entry - 1, thread};
    else
        p->left_out++;
}

void hd_profile_note(const hd_thread *thread, const hd_profile_event *e) {
    hd_profile_row row = {.kind = e->kind, .call = thread->call, .caller = hd_outer_caller(thread)};
    snprintf(row.name, sizeof row.name, "%s", e->name);
    snprintf(row.sizes, sizeof row.sizes, "%s", e->sizes != NULL ? e->sizes : "");
    const hd_scope_frame *frame = thread->scope_count > 0 ? &thread->scopes[thread->scope_count - 1] : NULL;
    if (frame != NULL && frame->file != NULL) {
        const char *slash = strrchr(frame->file, '/');
        snprintf(row.scope, sizeof row.scope, "%s:%d", slash ? slash + 1 : frame->file, frame->line);
    }
    pthread_mutex_lock(&taken.lock);
    for (hd_profile *p = taken.first; p != NULL; p = p->next) add(p, &row, e, thread->number);
    pthread_mutex_unlock(&taken.lock);
}

/* ---- calls and writes -------------------------------------------------------------------------------------------- */
static void wait_for(hd_thread *thread, hd_device device) {
    if (hd_device_is_away(device)) hd_device_interface_of(device.kind)->synchronize(thread, device.index);
}

static const char *(*own_name)(const hd_op *op, const void *attributes); /* set before any call runs */
void hd_profile_register(const char *(*name)(const hd_op *op, const void *attributes)) { own_name = name; }

static hd_error run_call(hd_executor *self, hd_thread *thread, hd_call *call) {
    (void)self;
    hd_executor *executor = hd_route_unprofiled(thread, call);
    if (executor == NULL) return thread->error_code;
    const int64_t begin = hd_os_nanoseconds();
    HD_TRY(executor->run(executor, thread, call));
    const hd_tensor *y = call->outputs[0];
    if (!call->view) wait_for(thread, y->storage->device);
    const int64_t end = hd_os_nanoseconds();
    char sizes[64], name[64];
    const char *own = own_name != NULL ? own_name(call->op, call->attributes) : "";
    snprintf(name, sizeof name, own[0] != '\0' ? "%s \"%s\"" : "%s", call->op->name, own);
    snprintf(sizes, sizeof sizes, "%s %s", hd_dtype_name((hd_dtype)y->dtype), HD_SHAPE_TEXT(y->layout.shape));
    hd_profile_note(thread, &(hd_profile_event){.kind = HD_PROFILE_CALL,
                                                .name = name,
                                                .sizes = sizes,
                                                .begin = begin,
                                                .nanoseconds = end - begin,
                                                .work = call->op->work(call)});
    return HD_OK;
}

hd_error hd_profile_write(hd_executor *executor, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    const int64_t begin = hd_os_nanoseconds();
    HD_TRY(executor->write(executor, thread, dst, src));
    if (executor->captures) return HD_OK;
    wait_for(thread, dst->storage->device);
    const int64_t end = hd_os_nanoseconds();
    char sizes[64];
    snprintf(sizes, sizeof sizes, "%s %s", hd_dtype_name((hd_dtype)dst->dtype), HD_SHAPE_TEXT(dst->layout.shape));
    const double bytes = (double)(dst->count * (int64_t)hd_dtype_bytes[dst->dtype]) +
                         (double)(src->count * (int64_t)hd_dtype_bytes[src->dtype]);
    hd_profile_note(thread, &(hd_profile_event){.kind = HD_PROFILE_CALL,
                                                .name = "write",
                                                .sizes = sizes,
                                                .begin = begin,
                                                .nanoseconds = end - begin,
                                                .work = {.bytes = bytes}});
    return HD_OK;
}

hd_executor *hd_profile_executor(void) {
    static hd_executor profiled = {.name = "profile", .run = run_call};
    return &profiled;
}

/* ---- compilations ------------------------------------------------------------------------------------------------ */
hd_profile_phase hd_profile_phase_begin(const char *name) {
    return (hd_profile_phase){name, hd_is_profiled() ? hd_os_nanoseconds() : 0};
}
void hd_profile_phase_end(const hd_profile_phase *phase) {
    hd_thread *thread = phase->begin != 0 && hd_is_profiled() ? hd_thread_self() : NULL;
    if (thread != NULL)
        hd_profile_note(thread, &(hd_profile_event){.kind = HD_PROFILE_COMPILE,
                                                    .name = phase->name,
                                                    .begin = phase->begin,
                                                    .nanoseconds = hd_os_nanoseconds() - phase->begin});
}

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */
static void release(hd_profile *p) {
    hd_array_release(p->path);
    hd_array_release(p->moments);
    hd_array_release(p->table);
    hd_array_release(p->rows);
    hd_array_release(p);
}

/* `thread`: whose scopes it is in; NULL: none. */
static hd_profile *begin(hd_thread *thread, const char *path) {
    hd_profile *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) return NULL;
    *p = (hd_profile){.path = path == NULL ? NULL : hd_array_resize(NULL, strlen(path) + 1)};
    if (path != NULL && p->path == NULL) {
        release(p);
        return NULL;
    }
    if (path != NULL) strcpy(p->path, path);
    if (thread != NULL) {
        p->thread = thread->number;
        p->scopes = thread->scope_count;
        thread->profiles++;
    }
    p->begin = hd_os_nanoseconds();
    pthread_mutex_lock(&taken.lock);
    p->next = taken.first;
    taken.first = p;
    pthread_mutex_unlock(&taken.lock);
    hd_calls_routed = true;
    atomic_fetch_add(&hd_profiles, 1);
    return p;
}

static void end(hd_profile *p) {
    pthread_mutex_lock(&taken.lock);
    hd_profile **at = &taken.first;
    while (*at != NULL && *at != p) at = &(*at)->next;
    const bool is_taken = *at == p; /* not that of a process forked from, nor one that has ended */
    if (is_taken) *at = p->next;
    pthread_mutex_unlock(&taken.lock);
    if (!is_taken) return;
    atomic_fetch_sub(&hd_profiles, 1);
    hd_thread *thread = hd_thread_pointer;
    if (thread != NULL && thread->number == p->thread && thread->profiles > 0) thread->profiles--;
    hd_profile_print(p);
    const int why = p->path != NULL ? hd_profile_save(p, p->path) : 0;
    static const char text[] = "the trace cannot be written to \"%s\": %s; another path may do";
    if (why != 0 && p == taken.of_process)
        hd_warn(NULL, text, p->path, strerror(why));
    else if (why != 0)
        hd_fail(HD_ERROR_VALUE, text, p->path, strerror(why));
    release(p);
}

hd_profile_token hd_profile_begin(const char *path) {
    hd_profile_token token = {.path = path};
    HD_ENTER("hd_profile_begin", token);
    token.profile = begin(thread, path);
    if (token.profile == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for a profile");
    return token;
}

void hd_profile_end(hd_profile_token *token) {
    HD_ENTER_ALWAYS("hd_profile_end", );
    (void)thread;
    if (token == NULL || token->profile == NULL) return;
    end(token->profile);
    token->profile = NULL;
}

static hd_profile *last_in_scope(const hd_thread *thread, uint32_t scopes) {
    pthread_mutex_lock(&taken.lock);
    hd_profile *p = taken.first;
    while (p != NULL && (p->thread != thread->number || p->scopes < scopes)) p = p->next;
    pthread_mutex_unlock(&taken.lock);
    return p;
}
void hd_profile_leave(hd_thread *thread, uint32_t scopes) {
    for (hd_profile *p; (p = last_in_scope(thread, scopes)) != NULL;) end(p);
}

void hd_profile_begin_process(void) {
    const char *wish = hd_environment("HODU_PROFILE");
    if (wish == NULL || strcmp(wish, "0") == 0) return;
    if (strcmp(wish, "1") != 0 && strpbrk(wish, "./") == NULL)
        hd_environment_unknown("HODU_PROFILE", wish, strlen(wish), "1, or the path of a trace such as trace.json");
    else
        taken.of_process = begin(NULL, strcmp(wish, "1") != 0 ? wish : NULL);
}
void hd_profile_end_process(void) {
    if (taken.of_process == NULL) return;
    end(taken.of_process);
    taken.of_process = NULL;
}

/* ---- forks: a child takes no profile of its parent's ------------------------------------------------------------- */
void hd_profile_before_fork(void) { pthread_mutex_lock(&taken.lock); }
void hd_profile_after_fork(bool in_child) {
    if (in_child) {
        taken.first = taken.of_process = NULL;
        atomic_store(&hd_profiles, 0);
    }
    pthread_mutex_unlock(&taken.lock);
}
