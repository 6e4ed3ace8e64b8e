/* CUDA's driver and NVRTC as far as the library uses them, in one library, which fails when it is told to. Memory of a
 * GPU is the host's, at addresses that the host cannot follow. What is enqueued runs when somebody waits for it, stream
 * by stream, and not before, so that what does not wait sees what was there before. Text is compiled as C++, and
 * kernels run on the CPU. What real drivers leave undefined ends the process here. */
#include "cuda/fake_cuda.h"
#include "device/cuda/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

#ifdef WITHOUT_FUNCTIONS
extern SHOWN int fake_cuda_is_something_else;
int fake_cuda_is_something_else = 1;
#else

#include "cuda/compiled.h"

extern SHOWN fake_cuda fake_cuda_now;
/* For fakes of libraries that work there: what is called in the order of the stream, with a copy of its parameters; and
 * where bytes of a GPU are. */
SHOWN int fake_cuda_enqueue(hd_cu_stream *stream, void (*other)(const void *parameters), const void *parameters,
                            size_t bytes);
SHOWN void *fake_cuda_at(const void *address, size_t bytes);
fake_cuda fake_cuda_now = {.fail_at = -1, .memory = 1 << 30, .host_memory = 1 << 30};

/* Every function is exported by the driver's name for it, and has the types that the library calls it with. */
#define DECLARE(name, full_name, parameters) SHOWN int fake_##name parameters __asm__(full_name);
HD_CU_FUNCTIONS(DECLARE)
HD_CU_LISTING(DECLARE)
HD_NVRTC_FUNCTIONS(DECLARE)
#undef DECLARE

/* ---- one at a time ----------------------------------------------------------------------------------------------- */
static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t owner;
static void make_lock(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
    owner = getpid();
}
static void must(bool is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "fake_cuda: %s\n", what);
    abort();
}
#define MUST(condition) must(condition, #condition)

static int enter(void) {
    pthread_once(&once, make_lock);
    must(getpid() == owner, "a forked child calls the driver");
    must(!fake_cuda_now.is_closed, "the driver is called after the end");
    pthread_mutex_lock(&lock);
    return 0;
}
static void leave(const int *entered) {
    (void)entered;
    pthread_mutex_unlock(&lock);
}
#define ONE_AT_A_TIME   __attribute__((cleanup(leave), unused)) const int entered = enter()

static int fails(const char *function) {
    fake_cuda *f = &fake_cuda_now;
    const bool named = f->times > 0 && strcmp(f->fail_in, function) == 0;
    if (named) f->times--;
    if (f->calls++ != f->fail_at && !named) return 0;
    f->failed = function;
    return f->status;
}
/* The begin of every function. */
#define CALL(function)                                                                                                 \
    ONE_AT_A_TIME;                                                                                                     \
    const int status = fails(function);                                                                                \
    if (status != 0) return status

/* ---- objects ----------------------------------------------------------------------------------------------------- */
enum {
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    CAPTURING = 900,
    UNJOINED = 904
};
typedef enum kind { GONE, STREAM, EVENT, MODULE, GRAPH, EXEC, PROGRAM } kind;

/* Commands of a capture, by their serials: those that something comes after. */
typedef struct front {
    uint64_t of[64];
    int count;
} front;
typedef struct command {
    enum { UPLOAD, DOWNLOAD, COPY, FILL, LAUNCH, OTHER, RECORD, WAIT, REPLAY } is;
    struct command *next;
    uint64_t serial;
    hd_cu_address to, from;
    char *host;
    size_t bytes, pitch, size, width, height; /* of a fill: `height` rows of `width` elements of `size` bytes */
    unsigned char element[4];
    hd_cu_function *function;
    unsigned groups[2], threads;
    char *parameters; /* addresses of buffers, then the arguments; or those of another library's */
    void (*other)(const void *parameters);
    hd_cu_event *event;
    hd_cu_stream *stream; /* what is waited for: this stream, up to there */
    uint64_t until;
    struct list *replayed;
    front after; /* of one that is captured */
    bool has_run;
} command;
typedef struct list {
    int holders;
    command *first, *last;
} list;

struct hd_cu_context {
    int device;
};
struct hd_cu_stream {
    kind is;
    hd_cu_context *context;
    list queue, *captured; /* several streams may have one capture */
    front front;           /* what the next command that is captured comes after */
    hd_cu_stream *next;    /* of all */
};
struct hd_cu_event {
    kind is;
    hd_cu_context *context;
    hd_cu_stream *stream; /* where it was recorded last, and when */
    uint64_t serial;
    bool is_timed;
    int64_t reached; /* kernels that had run by then */
    list *captured;  /* it was recorded in this capture, and these come before it */
    front front;
};
struct hd_cu_function {
    hd_cu_function *next;
    hd_cu_module *module;
    char name[128];
    run_function *run;
    unsigned buffers, bytes;
};
struct hd_cu_module {
    kind is;
    hd_cu_context *context;
    void *library;
    hd_cu_function *functions;
};
struct hd_cu_graph {
    kind is;
    list *commands;
};
struct hd_cu_exec {
    kind is;
    hd_cu_context *context;
    list *commands;
    const hd_cu_graph *graph; /* whose nodes it can be told of, as long as that lives */
};
struct hd_nvrtc_program {
    kind is;
    char *text, *object, log[2048];
    size_t bytes;
};

static hd_cu_context contexts[FAKE_GPUS];
static _Thread_local hd_cu_context *current;
static hd_cu_stream *streams;
static uint64_t last_serial;

/* In front of each object: all that live, so that none is lost from sight in a forked child, or at the end. */
typedef struct living {
    struct living *before, *after;
} living;
static living *all_objects;

static void *made(size_t bytes, kind is) {
    living *l = calloc(1, sizeof *l + bytes);
    *(kind *)(void *)(l + 1) = is;
    fake_cuda_now.objects++;
    l->after = all_objects;
    if (all_objects != NULL) all_objects->before = l;
    all_objects = l;
    return l + 1;
}
static void gone(void *object, size_t bytes) {
    living *l = (living *)object - 1;
    fake_cuda_now.objects--;
    *(l->before != NULL ? &l->before->after : &all_objects) = l->after;
    if (l->after != NULL) l->after->before = l->before;
    memset(l, 0xdd, sizeof *l + bytes);
    free(l);
}

/* The begin of those that need a context. */
#define CALL_THERE(function)                                                                                           \
    CALL(function);                                                                                                    \
    if (current == NULL) return INVALID_CONTEXT;                                                                       \
    if (fake_cuda_now.lost != 0) return fake_cuda_now.lost

/* ---- memory ------------------------------------------------------------------------------------------------------ */
typedef struct memory {
    struct memory *next;
    int device; /* -1: of the host */
    size_t bytes;
    char *data; /* guarded at its end */
} memory;
static memory *all_memory;
enum { GUARD = 64 };
static const uint64_t mark = (uint64_t)1 << 62;

static hd_cu_address address_of(const memory *m) { return mark | (uint64_t)(uintptr_t)m->data; }
static memory *memory_new(int device, size_t bytes, size_t *used, size_t most) {
    if (bytes == 0 || bytes > most || *used > most - bytes) return NULL;
    memory *m = made(sizeof *m, GONE);
    *m = (memory){.next = all_memory, .device = device, .bytes = bytes};
    m->data = aligned_alloc(256, (bytes + GUARD + 255) / 256 * 256);
    memset(m->data, 0xcd, bytes < 4096 ? bytes : 4096);
    memset(m->data + bytes, 0x5a, GUARD);
    *used += bytes;
    return all_memory = m;
}
static bool memory_release(int on_host, const char *data) {
    for (memory **at = &all_memory; *at != NULL; at = &(*at)->next) {
        memory *m = *at;
        if (m->data != data || (m->device < 0) != on_host) continue;
        for (int i = 0; i < GUARD; ++i) must(m->data[m->bytes + (size_t)i] == 0x5a, "something wrote beside memory");
        *(m->device < 0 ? &fake_cuda_now.host_used : &fake_cuda_now.memory_used[m->device]) -= m->bytes;
        *at = m->next;
        free(m->data);
        gone(m, sizeof *m);
        return true;
    }
    return false;
}
/* Where bytes of a GPU are, all inside of memory that lives. */
static char *data_at(hd_cu_address address, size_t bytes, int device) {
    char *data = (char *)(uintptr_t)(address & ~mark);
    if ((address & mark) == 0) return NULL;
    for (const memory *m = all_memory; m != NULL; m = m->next)
        if (m->device == device && data >= m->data && data + bytes <= m->data + m->bytes) return data;
    return NULL;
}
static bool is_pinned(const char *data, size_t bytes) {
    for (const memory *m = all_memory; m != NULL; m = m->next)
        if (m->device < 0 && data >= m->data && data + bytes <= m->data + m->bytes) return true;
    return false;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */
static void let_go(list *l) {
    if (l == NULL || --l->holders > 0) return;
    for (command *c = l->first; c != NULL;) {
        command *next = c->next;
        free(c->parameters);
        let_go(c->replayed);
        free(c);
        c = next;
    }
    free(l);
}
static void append(list *l, command *c) {
    *(l->last != NULL ? &l->last->next : &l->first) = c;
    l->last = c;
}

static int enqueue(hd_cu_stream *s, const command *c) {
    MUST(s != NULL && s->is == STREAM && s->context == current);
    command *mine = malloc(sizeof *mine);
    *mine = *c;
    mine->next = NULL;
    mine->serial = ++last_serial;
    append(s->captured != NULL ? s->captured : &s->queue, mine);
    if (s->captured == NULL) fake_cuda_now.under_way++;
    if (s->captured == NULL) return 0;
    mine->after = s->front;
    s->front = (front){.of = {mine->serial}, .count = 1};
    return 0;
}

static command *command_of(const list *l, uint64_t serial) {
    for (command *c = l->first; c != NULL; c = c->next)
        if (c->serial == serial) return c;
    return NULL;
}
static bool may_run(const list *l, const command *c) {
    for (int i = 0; i < c->after.count; ++i)
        if (!command_of(l, c->after.of[i])->has_run) return false;
    return !c->has_run;
}
static void run_command(const command *c, hd_cu_stream *s);
/* What may run in any order does so in the one that is least expected: the latest first. */
static void replay(list *l, hd_cu_stream *s) {
    for (command *c = l->first; c != NULL; c = c->next) c->has_run = false;
    for (command *next = l->first; next != NULL && fake_cuda_now.lost == 0;) {
        next = NULL;
        for (command *c = l->first; c != NULL; c = c->next)
            if (may_run(l, c)) next = c;
        if (next == NULL) break;
        run_command(next, s);
        next->has_run = true;
    }
}
/* True when all commands of a capture come before what follows in a stream. */
static bool is_joined(list *l, const front *end) {
    for (command *c = l->first; c != NULL; c = c->next) c->has_run = false; /* here: it comes before */
    for (int i = 0; i < end->count; ++i) command_of(l, end->of[i])->has_run = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (const command *c = l->first; c != NULL; c = c->next)
            for (int i = 0; i < c->after.count && c->has_run; ++i) {
                command *before = command_of(l, c->after.of[i]);
                changed = changed || !before->has_run;
                before->has_run = true;
            }
    }
    for (const command *c = l->first; c != NULL; c = c->next)
        if (!c->has_run) return false;
    return true;
}

static void run_kernel(const command *c, int device) {
    const hd_cu_function *f = c->function;
    char *buffers[132];
    fake_cuda_now.kernels++;
    if (fake_cuda_now.crash != 0) {
        fake_cuda_now.lost = fake_cuda_now.crash;
        fake_cuda_now.crash = 0;
        return;
    }
    for (unsigned i = 0; i < f->buffers; ++i) {
        hd_cu_address address;
        memcpy(&address, c->parameters + 8 * (size_t)i, 8);
        buffers[i] = address == 0 ? NULL : data_at(address, 0, device);
        must(address == 0 || buffers[i] != NULL, "a kernel is given an address of no memory");
    }
    for (unsigned y = 0; y < c->groups[1]; ++y)
        for (unsigned x = 0; x < c->groups[0]; ++x)
            must(run_group(f->run, buffers, c->parameters + 8 * (size_t)f->buffers, (run_id){x, y, 0}, (int)c->threads),
                 "a barrier that not all threads reach");
}

static void run_until(hd_cu_stream *s, uint64_t serial);
static void run_command(const command *c, hd_cu_stream *s) {
    const int device = s->context->device;
    char *to = c->to == 0 ? NULL : data_at(c->to, c->bytes, device),
         *from = c->from == 0 ? NULL : data_at(c->from, c->bytes, device);
    switch (c->is) {
    case UPLOAD:
        MUST(to != NULL && is_pinned(c->host, c->bytes));
        memcpy(to, c->host, c->bytes);
        break;
    case DOWNLOAD:
        MUST(from != NULL && is_pinned(c->host, c->bytes));
        memcpy(c->host, from, c->bytes);
        break;
    case COPY:
        MUST(to != NULL && from != NULL && (to >= from + c->bytes || from >= to + c->bytes));
        memcpy(to, from, c->bytes);
        break;
    case FILL:
        MUST(to != NULL);
        for (size_t y = 0; y < c->height; ++y)
            for (size_t x = 0; x < c->width; ++x) memcpy(to + y * c->pitch + x * c->size, c->element, c->size);
        break;
    case LAUNCH: run_kernel(c, device); break;
    case OTHER: c->other(c->parameters); break;
    case RECORD: c->event->reached = fake_cuda_now.kernels; break;
    case WAIT: run_until(c->stream, c->until); break;
    case REPLAY:
        fake_cuda_now.replays++;
        replay(c->replayed, s);
        break;
    }
    fake_cuda_now.copies += c->is == UPLOAD || c->is == DOWNLOAD || c->is == COPY;
}
static void run_until(hd_cu_stream *s, uint64_t serial) {
    MUST(s->is == STREAM);
    if (s->queue.first != NULL && s->queue.first->serial <= serial) fake_cuda_now.waits++;
    while (s->queue.first != NULL && s->queue.first->serial <= serial) {
        command *c = s->queue.first;
        s->queue.first = c->next;
        if (c->next == NULL) s->queue.last = NULL;
        if (fake_cuda_now.lost == 0) run_command(c, s);
        fake_cuda_now.under_way--;
        free(c->parameters);
        let_go(c->replayed);
        free(c);
    }
}
static void run_all(int device) {
    for (hd_cu_stream *s = streams; s != NULL; s = s->next)
        if (s->context->device == device) run_until(s, UINT64_MAX);
}

/* ---- which GPUs there are ---------------------------------------------------------------------------------------- */
static const char *wish(void) { return getenv("FAKE_CUDA") != NULL ? getenv("FAKE_CUDA") : "none"; }

int fake_initialize(unsigned flags) {
    CALL("cuInit");
    atomic_fetch_add(&fake_cuda_now.starts, 1);
    if (flags != 0) return INVALID_VALUE;
    return strcmp(wish(), "none") == 0 ? HD_CU_NO_DEVICE : strcmp(wish(), "broken") == 0 ? 999 : 0;
}
int fake_device_count(int *out) {
    CALL("cuDeviceGetCount");
    *out = atoi(wish());
    return 0;
}
int fake_device(int *out, int ordinal) {
    CALL("cuDeviceGet");
    if (ordinal < 0 || ordinal >= atoi(wish())) return 101;
    *out = ordinal;
    return 0;
}
int fake_device_name(char *out, int bytes, int device) {
    CALL("cuDeviceGetName");
    snprintf(out, (size_t)bytes, "fake GPU %d", device);
    return 0;
}
int fake_device_memory(size_t *out, int device) {
    (void)device;
    CALL("cuDeviceTotalMem");
    *out = fake_cuda_now.memory;
    return 0;
}
int fake_device_attribute(int *out, int attribute, int device) {
    (void)device;
    CALL("cuDeviceGetAttribute");
    switch (attribute) {
    case HD_CU_DEVICE_GROUP_MOST: *out = 1024; return 0;
    case HD_CU_DEVICE_LOCAL_MEMORY: *out = 49152; return 0;
    case HD_CU_DEVICE_LOCAL_MEMORY_OPTIN: *out = 232448; return 0;
    case HD_CU_DEVICE_PROCESSORS: *out = 7; return 0;
    case HD_CU_DEVICE_MAJOR: *out = 9; return 0;
    case HD_CU_DEVICE_MINOR: *out = 0; return 0;
    default: return INVALID_VALUE;
    }
}
static const struct {
    int status;
    const char *name, *text;
} statuses[] = {{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
                {HD_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
                {HD_CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
                {HD_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
                {HD_CU_TOO_MANY_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested"},
                {HD_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
                {HD_CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
                {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
                {CAPTURING, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when capturing"}};
static int give_text(int asked, const char **out, bool name) {
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; ++i)
        if (statuses[i].status == asked) *out = name ? statuses[i].name : statuses[i].text;
    return *out != NULL ? 0 : INVALID_VALUE;
}
int fake_error_name(int asked, const char **out) {
    ONE_AT_A_TIME;
    *out = NULL;
    return give_text(asked, out, true);
}
int fake_error_text(int asked, const char **out) {
    ONE_AT_A_TIME;
    *out = NULL;
    return give_text(asked, out, false);
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */
int fake_context_retain(hd_cu_context **out, int device) {
    CALL("cuDevicePrimaryCtxRetain");
    contexts[device].device = device;
    *out = &contexts[device];
    return 0;
}
int fake_context_set(hd_cu_context *context) {
    CALL("cuCtxSetCurrent");
    MUST(context >= contexts && context < contexts + FAKE_GPUS);
    current = context;
    return 0;
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */
int fake_stream_new(hd_cu_stream **out, unsigned flags) {
    CALL_THERE("cuStreamCreate");
    MUST(flags == HD_CU_STREAM_NON_BLOCKING);
    *out = made(sizeof **out, STREAM);
    (*out)->context = current;
    (*out)->next = streams;
    streams = *out;
    return 0;
}
int fake_stream_release(hd_cu_stream *stream) {
    ONE_AT_A_TIME;
    MUST(stream != NULL && stream->is == STREAM);
    run_until(stream, UINT64_MAX);
    let_go(stream->captured);
    hd_cu_stream **at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    gone(stream, sizeof *stream);
    return fails("cuStreamDestroy");
}
int fake_stream_synchronize(hd_cu_stream *stream) {
    CALL_THERE("cuStreamSynchronize");
    MUST(stream != NULL && stream->is == STREAM && stream->context == current);
    if (stream->captured != NULL) return CAPTURING;
    run_until(stream, UINT64_MAX);
    return fake_cuda_now.lost;
}
int fake_stream_wait(hd_cu_stream *stream, hd_cu_event *event, unsigned flags) {
    CALL_THERE("cuStreamWaitEvent");
    MUST(event->is == EVENT && flags == 0 && (event->stream != NULL || event->captured != NULL));
    if (event->captured != NULL) { /* the stream becomes part of that capture */
        MUST(stream->captured == NULL || stream->captured == event->captured);
        if (stream->captured == NULL) event->captured->holders++;
        if (stream->captured == NULL) stream->front.count = 0;
        stream->captured = event->captured;
        for (int i = 0; i < event->front.count; ++i) {
            MUST(stream->front.count < 64);
            stream->front.of[stream->front.count++] = event->front.of[i];
        }
        return 0;
    }
    if (stream->captured != NULL) return CAPTURING; /* what is not part of it cannot be waited for */
    return enqueue(stream, &(command){.is = WAIT, .stream = event->stream, .until = event->serial});
}
int fake_event_new(hd_cu_event **out, unsigned flags) {
    CALL_THERE("cuEventCreate");
    *out = made(sizeof **out, EVENT);
    (*out)->context = current;
    (*out)->is_timed = flags != HD_CU_EVENT_DISABLE_TIMING;
    return 0;
}
int fake_event_release(hd_cu_event *event) {
    ONE_AT_A_TIME;
    MUST(event != NULL && event->is == EVENT);
    gone(event, sizeof *event);
    return fails("cuEventDestroy");
}
int fake_event_record(hd_cu_event *event, hd_cu_stream *stream) {
    CALL_THERE("cuEventRecord");
    MUST(event != NULL && event->is == EVENT && event->context == stream->context);
    event->captured = stream->captured;
    event->front = stream->front;
    if (stream->captured != NULL) return 0;
    enqueue(stream, &(command){.is = RECORD, .event = event});
    event->stream = stream;
    event->serial = last_serial;
    return 0;
}
int fake_event_synchronize(hd_cu_event *event) {
    CALL_THERE("cuEventSynchronize");
    MUST(event != NULL && event->is == EVENT && event->context == current && event->captured == NULL);
    if (event->stream != NULL) run_until(event->stream, event->serial);
    return fake_cuda_now.lost;
}
int fake_event_time(float *milliseconds, hd_cu_event *begin, hd_cu_event *end) {
    CALL_THERE("cuEventElapsedTime");
    MUST(begin->is == EVENT && end->is == EVENT && begin->is_timed && end->is_timed);
    MUST(begin->stream == end->stream && begin->serial < end->serial);
    *milliseconds = 0.25f * (float)(end->reached - begin->reached);
    return 0;
}

/* ---- memory, as the driver gives it ------------------------------------------------------------------------------ */
int fake_memory_new(hd_cu_address *out, size_t bytes) {
    CALL_THERE("cuMemAlloc");
    const memory *m =
        memory_new(current->device, bytes, &fake_cuda_now.memory_used[current->device], fake_cuda_now.memory);
    if (m == NULL) return bytes == 0 ? INVALID_VALUE : HD_CU_OUT_OF_MEMORY;
    *out = address_of(m);
    return 0;
}
int fake_memory_release(hd_cu_address address) {
    ONE_AT_A_TIME;
    if (current == NULL) return INVALID_CONTEXT;
    for (int i = 0; i < FAKE_GPUS; ++i) run_all(i); /* drivers wait */
    MUST((address & mark) != 0 && memory_release(0, (char *)(uintptr_t)(address & ~mark)));
    return fails("cuMemFree");
}
int fake_memory_info(size_t *free_bytes, size_t *total) {
    CALL_THERE("cuMemGetInfo");
    *total = fake_cuda_now.memory;
    *free_bytes = *total - fake_cuda_now.memory_used[current->device];
    return 0;
}
int fake_host_new(void **out, size_t bytes, unsigned flags) {
    CALL_THERE("cuMemHostAlloc");
    MUST(flags == 0);
    const memory *m = memory_new(-1, bytes, &fake_cuda_now.host_used, fake_cuda_now.host_memory);
    if (m == NULL) return HD_CU_OUT_OF_MEMORY;
    *out = m->data;
    return 0;
}
int fake_host_release(void *data) {
    ONE_AT_A_TIME;
    if (current == NULL) return INVALID_CONTEXT;
    run_all(current->device);
    MUST(memory_release(1, data));
    return fails("cuMemFreeHost");
}

/* ---- copies and fills -------------------------------------------------------------------------------------------- */
int fake_upload(hd_cu_address to, const void *from, size_t bytes, hd_cu_stream *stream) {
    CALL_THERE("cuMemcpyHtoDAsync");
    MUST(bytes > 0 && data_at(to, bytes, current->device) != NULL && stream->captured == NULL);
    return enqueue(stream, &(command){.is = UPLOAD, .to = to, .host = (char *)(uintptr_t)from, .bytes = bytes});
}
int fake_download(void *to, hd_cu_address from, size_t bytes, hd_cu_stream *stream) {
    CALL_THERE("cuMemcpyDtoHAsync");
    MUST(bytes > 0 && data_at(from, bytes, current->device) != NULL && stream->captured == NULL);
    return enqueue(stream, &(command){.is = DOWNLOAD, .from = from, .host = to, .bytes = bytes});
}
int fake_copy(hd_cu_address to, hd_cu_address from, size_t bytes, hd_cu_stream *stream) {
    CALL_THERE("cuMemcpyDtoDAsync");
    MUST(data_at(to, bytes, current->device) != NULL && data_at(from, bytes, current->device) != NULL);
    return enqueue(stream, &(command){.is = COPY, .to = to, .from = from, .bytes = bytes});
}
/* Rows of elements of 1, 2 or 4 bytes. */
static int fill(hd_cu_address to, size_t pitch, const void *element, size_t size, size_t width, size_t height,
                hd_cu_stream *stream) {
    const size_t bytes = height == 0 ? 0 : (height - 1) * pitch + width * size;
    if (to % size != 0 || (height > 1 && pitch % size != 0)) return INVALID_VALUE;
    MUST(bytes > 0 && data_at(to, bytes, current->device) != NULL);
    command c = {.is = FILL, .to = to, .bytes = bytes, .pitch = pitch, .size = size, .width = width, .height = height};
    memcpy(c.element, element, size);
    return enqueue(stream, &c);
}
int fake_fill_8(hd_cu_address to, unsigned char value, size_t count, hd_cu_stream *stream) {
    CALL_THERE("cuMemsetD8Async");
    return fill(to, 0, &value, 1, count, 1, stream);
}
int fake_fill_16(hd_cu_address to, unsigned short value, size_t count, hd_cu_stream *stream) {
    CALL_THERE("cuMemsetD16Async");
    return fill(to, 0, &value, 2, count, 1, stream);
}
int fake_fill_32(hd_cu_address to, unsigned value, size_t count, hd_cu_stream *stream) {
    CALL_THERE("cuMemsetD32Async");
    return fill(to, 0, &value, 4, count, 1, stream);
}
int fake_fill_rows_32(hd_cu_address to, size_t pitch, unsigned value, size_t width, size_t height,
                      hd_cu_stream *stream) {
    CALL_THERE("cuMemsetD2D32Async");
    return fill(to, pitch, &value, 4, width, height, stream);
}

/* ---- modules and launches ---------------------------------------------------------------------------------------- */
/* What NVRTC's fake gives: the bytes of a library behind their number. */
int fake_module_load(hd_cu_module **out, const void *image) {
    uint64_t bytes;
    CALL_THERE("cuModuleLoadData");
    memcpy(&bytes, image, 8);
    if (bytes == 0 || bytes >> 32 != 0) return HD_CU_INVALID_IMAGE;
    void *library = loaded_cuda((const char *)image + 8, bytes);
    if (library == NULL) return HD_CU_INVALID_IMAGE;
    *out = made(sizeof **out, MODULE);
    (*out)->context = current;
    (*out)->library = library;
    return 0;
}
int fake_module_unload(hd_cu_module *module) {
    ONE_AT_A_TIME;
    MUST(module != NULL && module->is == MODULE && module->context == current);
    while (module->functions != NULL) {
        hd_cu_function *f = module->functions;
        module->functions = f->next;
        free(f);
    }
    dlclose(module->library);
    gone(module, sizeof *module);
    return fails("cuModuleUnload");
}
static unsigned number_in(void *library, const char *what, const char *name) {
    char symbol[160];
    snprintf(symbol, sizeof symbol, "%s_%s", what, name);
    const unsigned *number = dlsym(library, symbol);
    return number == NULL ? 0 : *number;
}
int fake_module_function(hd_cu_function **out, hd_cu_module *module, const char *name) {
    CALL_THERE("cuModuleGetFunction");
    MUST(module->is == MODULE && module->context == current && strlen(name) < 128);
    run_function *run = compiled_function(module->library, name);
    if (run == NULL) return NOT_FOUND;
    hd_cu_function *f = malloc(sizeof *f);
    *f = (hd_cu_function){.next = module->functions, .module = module, .run = run};
    f->buffers = number_in(module->library, "buffers", name);
    f->bytes = number_in(module->library, "bytes", name);
    strcpy(f->name, name);
    *out = module->functions = f;
    return 0;
}
int fake_function_attribute(int *out, int attribute, hd_cu_function *function) {
    CALL_THERE("cuFuncGetAttribute");
    MUST(function->module->is == MODULE && attribute == HD_CU_FUNCTION_GROUP_MOST);
    *out = 1024;
    return 0;
}
int fake_function_set(hd_cu_function *function, int attribute, int value) {
    CALL_THERE("cuFuncSetAttribute");
    MUST(function->module->is == MODULE && attribute == HD_CU_FUNCTION_DYNAMIC_LOCAL_MEMORY && value > 49152);
    return 0;
}
int fake_launch(hd_cu_function *f, unsigned group_x, unsigned group_y, unsigned group_z, unsigned thread_x,
                unsigned thread_y, unsigned thread_z, unsigned local_bytes, hd_cu_stream *stream, void **parameters,
                void **extra) {
    CALL_THERE("cuLaunchKernel");
    MUST(f->module->is == MODULE && f->module->context == current && extra == NULL && local_bytes == 0);
    MUST(group_x > 0 && group_y > 0 && group_z == 1 && thread_x > 0 && thread_x <= 1024 && thread_y * thread_z == 1);
    command c = {.is = LAUNCH, .function = f, .groups = {group_x, group_y}, .threads = thread_x};
    c.parameters = malloc(8 * (size_t)f->buffers + f->bytes);
    for (unsigned i = 0; i < f->buffers; ++i) memcpy(c.parameters + 8 * (size_t)i, parameters[i], 8);
    memcpy(c.parameters + 8 * (size_t)f->buffers, parameters[f->buffers], f->bytes);
    return enqueue(stream, &c);
}

/* ---- other libraries --------------------------------------------------------------------------------------------- */
int fake_cuda_enqueue(hd_cu_stream *stream, void (*other)(const void *parameters), const void *parameters,
                      size_t bytes) {
    CALL_THERE("what a library enqueues");
    command c = {.is = OTHER, .other = other, .parameters = malloc(bytes)};
    memcpy(c.parameters, parameters, bytes);
    return enqueue(stream, &c);
}
void *fake_cuda_at(const void *address, size_t bytes) {
    ONE_AT_A_TIME;
    for (int device = 0; device < FAKE_GPUS; ++device) {
        char *data = data_at((hd_cu_address)(uintptr_t)address, bytes, device);
        if (data != NULL) return data;
    }
    must(false, "a library is given an address of no memory");
    return NULL;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */
#ifndef OLD_DRIVER
int fake_capture_begin(hd_cu_stream *stream, int mode) {
    CALL_THERE("cuStreamBeginCapture");
    MUST(stream->is == STREAM && stream->context == current && stream->captured == NULL);
    MUST(mode == HD_CU_CAPTURE_RELAXED);
    stream->captured = calloc(1, sizeof *stream->captured);
    stream->captured->holders = 1;
    stream->front.count = 0;
    return 0;
}
#endif
int fake_capture_end(hd_cu_stream *stream, hd_cu_graph **out) {
    CALL_THERE("cuStreamEndCapture");
    MUST(stream->is == STREAM && stream->context == current && stream->captured != NULL);
    list *all = stream->captured;
    const bool joined = is_joined(all, &stream->front);
    stream->captured = NULL;
    for (hd_cu_stream *s = streams; s != NULL; s = s->next) {
        if (s->captured != all) continue;
        s->captured = NULL;
        let_go(all);
    }
    if (!joined) {
        let_go(all);
        return UNJOINED;
    }
    *out = made(sizeof **out, GRAPH);
    (*out)->commands = all;
    return 0;
}
/* A node is the serial of its command. */
int fake_capture_info(hd_cu_stream *stream, int *state, uint64_t *id, hd_cu_graph **graph, hd_cu_node *const **nodes,
                      size_t *count) {
    static hd_cu_node *of[64];
    CALL_THERE("cuStreamGetCaptureInfo");
    MUST(stream->is == STREAM && stream->captured != NULL);
    for (int i = 0; i < stream->front.count; ++i) of[i] = (hd_cu_node *)(uintptr_t)stream->front.of[i];
    *state = 1;
    *id = 1;
    *graph = NULL;
    *nodes = of;
    *count = (size_t)stream->front.count;
    return 0;
}
int fake_node_set(hd_cu_exec *exec, hd_cu_node *node, const hd_cu_kernel_parameters *p) {
    CALL_THERE("cuGraphExecKernelNodeSetParams");
    MUST(exec->is == EXEC && exec->context == current && p->extra == NULL && exec->graph->is == GRAPH);
    command *c = command_of(exec->commands, (uint64_t)(uintptr_t)node);
    MUST(c != NULL && c->is == LAUNCH && c->function == p->function);
    MUST(c->groups[0] == p->groups[0] && c->groups[1] == p->groups[1] && c->threads == p->threads[0]);
    run_all(current->device); /* replays that were enqueued keep what they had */
    const unsigned buffers = c->function->buffers;
    for (unsigned i = 0; i < buffers; ++i) memcpy(c->parameters + 8 * (size_t)i, p->parameters[i], 8);
    memcpy(c->parameters + 8 * (size_t)buffers, p->parameters[buffers], c->function->bytes);
    return 0;
}
int fake_graph_instantiate(hd_cu_exec **out, hd_cu_graph *graph, uint64_t flags) {
    CALL_THERE("cuGraphInstantiate");
    MUST(graph->is == GRAPH && flags == 0);
    *out = made(sizeof **out, EXEC);
    (*out)->context = current;
    (*out)->commands = graph->commands;
    (*out)->graph = graph;
    graph->commands->holders++;
    return 0;
}
int fake_graph_launch(hd_cu_exec *exec, hd_cu_stream *stream) {
    CALL_THERE("cuGraphLaunch");
    MUST(exec->is == EXEC && exec->context == current);
    exec->commands->holders++;
    return enqueue(stream, &(command){.is = REPLAY, .replayed = exec->commands});
}
int fake_graph_release(hd_cu_graph *graph) {
    ONE_AT_A_TIME;
    MUST(graph != NULL && graph->is == GRAPH);
    let_go(graph->commands);
    gone(graph, sizeof *graph);
    return fails("cuGraphDestroy");
}
int fake_exec_release(hd_cu_exec *exec) {
    ONE_AT_A_TIME;
    MUST(exec != NULL && exec->is == EXEC);
    let_go(exec->commands);
    gone(exec, sizeof *exec);
    return fails("cuGraphExecDestroy");
}

/* ---- NVRTC ------------------------------------------------------------------------------------------------------- */
int fake_version(int *major, int *minor) {
    CALL("nvrtcVersion");
    *major = 13;
    *minor = 0;
    return 0;
}
int fake_program_new(hd_nvrtc_program **out, const char *text, const char *name, int headers,
                     const char *const *header_texts, const char *const *header_names) {
    CALL("nvrtcCreateProgram");
    MUST(name != NULL && headers == 0 && header_texts == NULL && header_names == NULL);
    *out = made(sizeof **out, PROGRAM);
    (*out)->text = strdup(text);
    return 0;
}

static char *kept(const char *text, char path[512], size_t *bytes) { /* what was compiled before */
    uint64_t hash = 0xcbf29ce484222325u;
    const char *folder = getenv("FAKE_CUDA_KEEP");
    path[0] = '\0';
    if (folder == NULL) return NULL;
    for (const char *c = text; *c != '\0'; ++c) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    snprintf(path, 512, "%s/%016llx", folder, (unsigned long long)hash);
    return file_text(path, bytes);
}
int fake_program_compile(hd_nvrtc_program *p, int count, const char *const *options) {
    char path[512];
    CALL("nvrtcCompileProgram");
    MUST(p->is == PROGRAM && count == 4 && strcmp(options[0], "--gpu-architecture=sm_90a") == 0);
    if (strstr(p->text, "broken") != NULL) {
        memset(p->log, '.', sizeof p->log);
        strcpy(p->log + 1000, "error: this is how it ends\n\n");
        return HD_NVRTC_DOES_NOT_COMPILE;
    }
    fake_cuda_now.compiled++;
    p->object = kept(p->text, path, &p->bytes);
    if (p->object != NULL) return 0;
    p->object = compiled_cuda(p->text, FAKE_CUDA_SHIM, &p->bytes, p->log, sizeof p->log);
    if (p->object == NULL) return HD_NVRTC_DOES_NOT_COMPILE;
    if (path[0] != '\0') write_file(path, "wb", p->object, p->bytes);
    return 0;
}
int fake_program_release(hd_nvrtc_program **program) {
    ONE_AT_A_TIME;
    MUST(*program != NULL && (*program)->is == PROGRAM);
    free((*program)->text);
    free((*program)->object);
    gone(*program, sizeof **program);
    *program = NULL;
    return fails("nvrtcDestroyProgram");
}
int fake_object_bytes(hd_nvrtc_program *p, size_t *out) {
    CALL("nvrtcGetCUBINSize");
    MUST(p->object != NULL);
    *out = 8 + p->bytes;
    return 0;
}
int fake_object(hd_nvrtc_program *p, char *out) {
    const uint64_t bytes = p->bytes;
    CALL("nvrtcGetCUBIN");
    memcpy(out, &bytes, 8);
    memcpy(out + 8, p->object, p->bytes);
    return 0;
}
int fake_log_bytes(hd_nvrtc_program *p, size_t *out) {
    CALL("nvrtcGetProgramLogSize");
    *out = strlen(p->log) + 1;
    return 0;
}
int fake_log(hd_nvrtc_program *p, char *out) {
    CALL("nvrtcGetProgramLog");
    strcpy(out, p->log);
    return 0;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
__attribute__((destructor)) static void at_the_end(void) {
    if (fake_cuda_now.must_finish) MUST(fake_cuda_now.under_way == 0);
}
#endif
