/* Clients: made on first use under a lock, one for each kind of device, and never destroyed, as XLA's threads may
 * work until the process ends. */
#include "xla/executable.h"
#include "xla/client.h"
#include "core/device.h"
#include "script/executable.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    hd_xla_client of[HD_DEVICE_KINDS];
} clients = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void lose(hd_xla_loss loss) {
    for (int kind = 0; kind < HD_DEVICE_KINDS; ++kind)
        if (clients.of[kind].handle != NULL) atomic_store_explicit(&clients.of[kind].lost, loss, memory_order_relaxed);
}

/* ---- forks: the locks go with the child, the client's threads do not --------------------------------------------- */
static void xla_before_fork(void) {
    pthread_mutex_lock(&clients.lock);
    hd_xla_programs_lock();
}
static void xla_after_fork(void) {
    hd_xla_programs_unlock();
    pthread_mutex_unlock(&clients.lock);
}
static void in_child(void) {
    lose(HD_XLA_FORKED);
    xla_after_fork();
}

/* ---- runs that nobody waits for ---------------------------------------------------------------------------------- */
/* What went wrong is told by whoever reads a result. */
static void await_end(const hd_xla_device *device, hd_pjrt_event *done) {
    const hd_xla_plugin *p = &device->client->plugin;
    hd_xla_went_well(p, p->event_await(&HD_PJRT(hd_pjrt_event_await, .event = done)));
    hd_xla_event_destroy(device, done);
}

static hd_pjrt_event *exchange_end(hd_xla_client *c, uint32_t run, hd_pjrt_event *done) {
    hd_pjrt_event *old = c->runs[run % HD_XLA_RUNS];
    c->runs[run % HD_XLA_RUNS] = done;
    return old;
}

void hd_xla_buffer_is_spent(hd_xla_buffer *buffer) {
    hd_xla_client *c = buffer->device->client;
    pthread_mutex_lock(&c->lock);
    hd_pjrt_buffer **at = &c->spent[c->next_spent++ % HD_XLA_SPENT], *oldest = *at;
    *at = buffer->handle;
    pthread_mutex_unlock(&c->lock);
    buffer->handle = oldest;
    hd_xla_buffer_destroy(buffer);
}

void hd_xla_run_goes_on(const hd_xla_device *device, hd_pjrt_event *done) {
    hd_xla_client *c = device->client;
    pthread_mutex_lock(&c->lock);
    hd_pjrt_event *oldest = exchange_end(c, c->next_run++, done);
    pthread_mutex_unlock(&c->lock);
    if (oldest != NULL) await_end(device, oldest);
}

static void wait_for_runs(hd_xla_client *c) {
    pthread_mutex_lock(&clients.lock);
    const bool has_started = c->handle != NULL;
    pthread_mutex_unlock(&clients.lock);
    if (!has_started || hd_xla_loss_of(&c->devices[0]) != HD_XLA_HERE) return;
    pthread_mutex_lock(&c->waiting); /* two who wait both wait for all */
    for (uint32_t i = 0; i < HD_XLA_RUNS; ++i) {
        pthread_mutex_lock(&c->lock);
        hd_pjrt_event *done = exchange_end(c, i, NULL);
        pthread_mutex_unlock(&c->lock);
        if (done != NULL) await_end(&c->devices[0], done);
    }
    pthread_mutex_unlock(&c->waiting);
}

static void wait_for_all(void) {
    for (int kind = 0; kind < HD_DEVICE_KINDS; ++kind) wait_for_runs(&clients.of[kind]);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
/* XLA's threads must not work while the plugin's destructors run, and what comes after those, such as the release of
 * what main held, must not call XLA any more. Destructors of what XLA made on the way come before functions of atexit
 * that were registered at its start; those of a thread's variables come before all, where the C library has them. */
static void at_exit(void) {
    wait_for_all();
    pthread_mutex_lock(&clients.lock);
    lose(HD_XLA_ENDED);
    pthread_mutex_unlock(&clients.lock);
}
static void before_exit(void *nothing) {
    (void)nothing;
    wait_for_all();
}

static void watch_process(void) {
    hd_os_at_fork(xla_before_fork, xla_after_fork, in_child);
    atexit(at_exit);
    hd_also_synchronize(wait_for_all);
}

/* Of the thread that leaves main. */
static void watch_thread(void) {
    static bool watched;
    if (watched || !hd_os_is_first_thread()) return;
    watched = true;
    hd_os_at_thread_end(before_exit);
}

hd_error hd_xla_check_process(const hd_xla_device *device) {
    const hd_xla_loss loss = hd_xla_loss_of(device);
    if (__builtin_expect(loss == HD_XLA_HERE, 1)) return HD_OK;
    if (loss == HD_XLA_ENDED) return hd_fail(HD_ERROR_STATE, "the process is ending, and XLA with it");
    return hd_fail(
        HD_ERROR_STATE,
        "XLA was started before this process was forked, and its threads are the parent's; use XLA only after "
        "forking, or start the child with exec");
}

/* ---- making a client --------------------------------------------------------------------------------------------- */
/* The CPU is one device, as it is for us; on a GPU memory is taken as it is needed, not at once. */
static const hd_pjrt_named options[HD_DEVICE_KINDS] = {
    [HD_DEVICE_CPU] = {.struct_size = sizeof(hd_pjrt_named),
                       .name = "cpu_device_count",
                       .name_size = 16,
                       .type = HD_PJRT_INT64,
                       .integer = 1,
                       .value_size = 1},
    [HD_DEVICE_CUDA] = {.struct_size = sizeof(hd_pjrt_named),
                        .name = "preallocate",
                        .name_size = 11,
                        .type = HD_PJRT_BOOL,
                        .flag = false,
                        .value_size = 1},
};

static void take_text(char *out, size_t capacity, const char *text, size_t size) {
    snprintf(out, capacity, "%.*s", text == NULL ? 0 : size < capacity ? (int)size : (int)capacity, text);
}

/* Checks that the plugin is one for this kind: HODU_XLA_PLUGIN may name any. */
static hd_error check_platform(const hd_xla_client *c, hd_device_kind kind) {
    const hd_xla_plugin *p = &c->plugin;
    static const char *const names[HD_DEVICE_KINDS] = {[HD_DEVICE_CPU] = "cpu", [HD_DEVICE_CUDA] = "cuda"};
    hd_pjrt_platform_name n = HD_PJRT(hd_pjrt_platform_name, .client = c->handle);
    HD_TRY(hd_xla_check(p, p->platform_name(&n), "XLA does not say its platform"));
    const bool same = n.text_size == strlen(names[kind]) && memcmp(n.text, names[kind], n.text_size) == 0;
    const bool alias = kind == HD_DEVICE_CPU && n.text_size == 4 && memcmp(n.text, "Host", 4) == 0;
    if (same || alias) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE, "XLA's plugin is for \"%.*s\", expected one for \"%s\": %.200s", (int)n.text_size,
                   n.text, names[kind], p->identity);
}

static hd_error describe_device(hd_xla_client *c, hd_xla_device *d) {
    const hd_xla_plugin *p = &c->plugin;
    hd_pjrt_describe describe = HD_PJRT(hd_pjrt_describe, .device = d->handle);
    HD_TRY(hd_xla_check(p, p->describe(&describe), "XLA does not describe its device"));
    hd_pjrt_device_id id = HD_PJRT(hd_pjrt_device_id, .description = describe.description);
    HD_TRY(hd_xla_check(p, p->device_id(&id), "XLA does not number its device"));
    hd_pjrt_device_kind kind = HD_PJRT(hd_pjrt_device_kind, .description = describe.description);
    HD_TRY(hd_xla_check(p, p->device_kind(&kind), "XLA does not name its device"));
    take_text(c->kind, sizeof c->kind, kind.text, kind.text_size);
    d->id = id.id;
    return HD_OK;
}

static hd_error list_devices(hd_xla_client *c, hd_device_kind kind) {
    const hd_xla_plugin *p = &c->plugin;
    hd_pjrt_devices list = HD_PJRT(hd_pjrt_devices, .client = c->handle);
    HD_TRY(hd_xla_check(p, p->devices(&list), "XLA does not list its devices"));
    for (size_t i = 0; i < list.count && i < HD_XLA_DEVICES; ++i) {
        hd_xla_device *d = &c->devices[i];
        *d = (hd_xla_device){.client = c, .handle = list.devices[i], .device = {kind, (int)i}};
        HD_TRY(describe_device(c, d));
        c->device_count = (int)i + 1;
    }
    return HD_OK;
}

static hd_error describe_client(hd_xla_client *c, hd_device_kind kind) {
    const hd_xla_plugin *p = &c->plugin;
    HD_TRY(check_platform(c, kind));
    hd_pjrt_platform_version version = HD_PJRT(hd_pjrt_platform_version, .client = c->handle);
    HD_TRY(hd_xla_check(p, p->platform_version(&version), "XLA does not say its version"));
    take_text(c->version, sizeof c->version, version.text, version.text_size);
    return list_devices(c, kind);
}

static hd_error start_client(hd_device_kind kind, hd_xla_client *c) {
    char path[HD_XLA_PATH];
    HD_TRY(hd_xla_available((hd_device){kind, 0}));
    HD_TRY(hd_xla_plugin_find(kind, path));
    HD_TRY(hd_xla_plugin_open(kind, path, &c->plugin));
    const hd_xla_plugin *p = &c->plugin;
    hd_pjrt_client_create create = HD_PJRT(hd_pjrt_client_create, .options = &options[kind], .option_count = 1);
    HD_TRY(hd_xla_check(p, p->client_create(&create), "XLA's client does not start"));
    if (create.client == NULL) return hd_fail(HD_ERROR_DEVICE, "XLA's plugin gives no client: %.300s", p->identity);
    c->handle = create.client;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->waiting, NULL);
    const hd_error status = describe_client(c, kind);
    if (status == HD_OK) return HD_OK;
    hd_xla_went_well(p, p->client_destroy(&HD_PJRT(hd_pjrt_client_destroy, .client = c->handle)));
    c->handle = NULL;
    return status;
}

static hd_error client_of(hd_device_kind kind, hd_xla_client **out) {
    if ((unsigned)kind >= HD_DEVICE_KINDS) return hd_fail(HD_ERROR_DEVICE, "there is no kind of device %d", (int)kind);
    pthread_once(&clients.once, watch_process);
    pthread_mutex_lock(&clients.lock);
    hd_xla_client *c = *out = &clients.of[kind];
    const hd_error status =
        c->handle != NULL ? HD_OK : start_client(kind, c); /* what failed is tried again next time */
    if (status == HD_OK) watch_thread();
    pthread_mutex_unlock(&clients.lock);
    return status;
}

hd_xla_device *hd_xla_device_of(hd_device device) {
    hd_xla_client *c = NULL;
    HD_TRY_OR(client_of(device.kind, &c), NULL);
    if (device.index < 0 || device.index >= c->device_count) {
        hd_fail(HD_ERROR_DEVICE, "XLA has no device %s, but %d of that kind", hd_device_text((char[32]){0}, device),
                c->device_count);
        return NULL;
    }
    HD_TRY_OR(hd_xla_check_process(&c->devices[device.index]), NULL);
    return &c->devices[device.index];
}
