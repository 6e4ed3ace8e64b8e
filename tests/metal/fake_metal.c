/* Objective-C's runtime, Foundation and Metal as far as the library uses them, for test_runtime.c: they fail when they
 * are told to. Memory is the host's. A command buffer runs when somebody waits for it, or for a later one, and not
 * before, so that what does not wait sees what was there before. Kernels are functions of C that have the names which
 * the text declares; what the library itself renders is compiled as C++. What Metal ends the process for, this does,
 * too. */
#include "metal/fake_metal.h"
#include "device/metal/metal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN  __attribute__((visibility("default")))
#define UNUSED __attribute__((unused))

#ifdef WITHOUT_FUNCTIONS
extern SHOWN int fake_metal_is_something_else;
int fake_metal_is_something_else = 1;
#else

#include "metal/compiled.h"

extern SHOWN fake_metal fake_metal_now;
fake_metal fake_metal_now = {.fail_at = -1, .memory = 1 << 20};

/* ---- objects ----------------------------------------------------------------------------------------------------- */
typedef enum kind {
    CLASS,
    STRING,
    ARRAY,
    ERROR,
    PROCESS,
    DEVICE,
    QUEUE,
    COMMANDS,
    LAUNCHER,
    COPIER,
    BUFFER,
    OPTIONS,
    LIBRARY,
    FUNCTION,
    PIPELINE
} kind;
enum { HELD = 8192, SLOTS = HD_MTL_ARGUMENT_BUFFERS };

typedef void kernel_function(unsigned char **buffers, const fake_arguments *a, const unsigned long *group,
                             const unsigned long *thread, const hd_mtl_size *groups, const hd_mtl_size *threads);

/* One command: a launch when it has a kernel of either kind, a copy when it has two buffers, else a fill. */
typedef struct command {
    struct command *next;
    kernel_function *kernel;
    run_function *rendered;         /* in place of one of ours */
    hd_objc_object *buffers[SLOTS]; /* held until it has run */
    hd_mtl_size groups, threads;
    size_t at, into, bytes;
    uint8_t byte;
    _Alignas(8) unsigned char arguments[HD_MTL_ARGUMENT_BYTES];
} command;

struct hd_objc_object {
    kind is;
    int64_t count;                  /* of references */
    hd_objc_object *before, *after; /* among all that live, so that none is lost from sight at the end */
    int number;                     /* of a device */
    char *text;                     /* of a string, a library, an error, a class */
    unsigned char *data;            /* of a buffer */
    size_t bytes;                   /* of a buffer; members of an array; commands that ran */
    hd_objc_object **members;       /* of an array */
    hd_objc_object *of;             /* the device of a queue, the queue of commands, the commands of an encoder */
    kernel_function *kernel;        /* of a function or a pipeline */
    run_function *rendered;
    void *code; /* of a library that was compiled */
    /* commands */
    hd_objc_object *open, *next; /* its encoder; the next one of the queue */
    bool is_committed, is_done, has_failed, is_ended;
    command *first, *last;
    command now; /* an encoder's state */
};

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void make_lock(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
}
static int enter(void) {
    pthread_once(&once, make_lock);
    pthread_mutex_lock(&lock);
    return 0;
}
static void leave(const int *entered) {
    (void)entered;
    pthread_mutex_unlock(&lock);
}
#define ONE_AT_A_TIME                          __attribute__((cleanup(leave), unused)) const int entered = enter()

static void must(bool is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "fake_metal: %s\n", what);
    abort();
}
#define MUST(condition)                        must(condition, #condition)

static bool fails(const char *function) {
    ONE_AT_A_TIME;
    fake_metal *f = &fake_metal_now;
    MUST(!f->is_closed);
    const bool now = f->calls++ == f->fail_at || (f->times > 0 && strcmp(f->fail_in, function) == 0);
    if (now && f->times > 0) f->times--;
    return now;
}

static hd_objc_object *all_objects;
static hd_objc_object *made(kind is) {
    hd_objc_object *o = calloc(1, sizeof *o);
    o->is = is;
    o->count = 1;
    fake_metal_now.objects++;
    fake_metal_now.references++;
    o->after = all_objects;
    if (all_objects != NULL) all_objects->before = o;
    return all_objects = o;
}
static hd_objc_object *hold(hd_objc_object *o) {
    if (o == NULL) return NULL;
    MUST(o->count > 0);
    if (o->is != CLASS) fake_metal_now.references++;
    o->count++;
    return o;
}

static void let_go(hd_objc_object *o);
static void forget_commands(hd_objc_object *o) {
    for (command *c = o->first; c != NULL;) {
        command *next = c->next;
        for (int i = 0; i < SLOTS; ++i) let_go(c->buffers[i]);
        free(c);
        c = next;
    }
    o->first = o->last = NULL;
}
static void let_go(hd_objc_object *o) {
    if (o == NULL || o->is == CLASS) return;
    MUST(o->count > 0);
    fake_metal_now.references--;
    if (--o->count > 0) return;
    if (o->is == LAUNCHER || o->is == COPIER) MUST(o->is_ended); /* so does Metal */
    if (o->is == COMMANDS) MUST(o->open == NULL);
    if (o->is == BUFFER) fake_metal_now.memory_used -= o->bytes;
    forget_commands(o);
    for (int i = 0; i < SLOTS; ++i) let_go(o->now.buffers[i]);
    for (size_t i = 0; i < (o->is == ARRAY ? o->bytes : 0); ++i) let_go(o->members[i]);
    let_go(o->of);
    free(o->members);
    free(o->data);
    free(o->text);
    fake_metal_now.objects--;
    *(o->before != NULL ? &o->before->after : &all_objects) = o->after;
    if (o->after != NULL) o->after->before = o->before;
    memset(o, 0xdd, sizeof *o);
    free(o);
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */
static __thread hd_objc_object *pooled[HELD];
static __thread int pooled_count, pools;

static hd_objc_object *until_the_pool_ends(hd_objc_object *o) {
    if (pools == 0) fake_metal_now.leaked++;
    if (pools == 0 || o == NULL) return o;
    MUST(pooled_count < HELD);
    pooled[pooled_count++] = o;
    return o;
}
SHOWN void *objc_autoreleasePoolPush(void);
void *objc_autoreleasePoolPush(void) {
    MUST(!fake_metal_now.is_closed);
    pools++;
    return (void *)(uintptr_t)(pooled_count + 1);
}
SHOWN void objc_autoreleasePoolPop(void *pool);
void objc_autoreleasePoolPop(void *pool) {
    ONE_AT_A_TIME;
    const int begin = (int)(uintptr_t)pool - 1;
    MUST(pools > 0 && begin >= 0 && begin <= pooled_count);
    pools--;
    while (pooled_count > begin) let_go(pooled[--pooled_count]);
}

/* ---- Foundation -------------------------------------------------------------------------------------------------- */
#define ME                                     hd_objc_object *self UNUSED, hd_objc_selector *selector UNUSED

static hd_objc_object *string(const char *text) {
    hd_objc_object *o = made(STRING);
    o->text = strdup(text);
    return until_the_pool_ends(o);
}
static hd_objc_object *error(const char *text) {
    hd_objc_object *o = made(ERROR);
    o->text = strdup(text);
    return until_the_pool_ends(o);
}
static hd_objc_object *fake_retain(ME) {
    ONE_AT_A_TIME;
    return hold(self);
}
static void fake_release(ME) {
    ONE_AT_A_TIME;
    let_go(self);
}
static hd_objc_object *fake_new_one(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == CLASS && strcmp(self->text, "MTLCompileOptions") == 0);
    return fails("new") ? NULL : made(OPTIONS);
}
static hd_objc_object *fake_string_of(ME, const char *text) {
    ONE_AT_A_TIME;
    MUST(self->is == CLASS && strcmp(self->text, "NSString") == 0);
    return fails("stringWithUTF8String:") ? NULL : string(text);
}
static const char *fake_text(ME) {
    MUST(self->is == STRING);
    return fails("UTF8String") ? NULL : self->text;
}
static size_t fake_count(ME) {
    MUST(self->is == ARRAY);
    return fails("count") ? 0 : self->bytes;
}
static hd_objc_object *fake_object_at(ME, size_t index) {
    MUST(self->is == ARRAY && index < self->bytes);
    return fails("objectAtIndex:") ? NULL : self->members[index];
}
static hd_objc_object *fake_description(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == ERROR);
    return fails("localizedDescription") ? NULL : string(self->text);
}
static hd_objc_object *fake_process(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == CLASS && strcmp(self->text, "NSProcessInfo") == 0);
    return fails("processInfo") ? NULL : until_the_pool_ends(made(PROCESS));
}
static hd_objc_object *fake_system_version(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == PROCESS);
    return fails("operatingSystemVersionString") ? NULL : string("Version 99.0 (fake)");
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */
static const char *wish(void) { return getenv("FAKE_METAL") != NULL ? getenv("FAKE_METAL") : "1"; }
static hd_objc_object *device(int number) {
    hd_objc_object *o = made(DEVICE);
    o->number = number;
    return o;
}
SHOWN hd_objc_object *MTLCopyAllDevices(void);
hd_objc_object *MTLCopyAllDevices(void) {
    ONE_AT_A_TIME;
    if (fails("MTLCopyAllDevices")) return NULL;
    const int wished = strcmp(wish(), "old") == 0 ? 1 : atoi(wish());
    hd_objc_object *all = made(ARRAY);
    all->bytes = (size_t)wished;
    all->members = calloc((size_t)wished + 1, sizeof *all->members);
    for (int i = 0; i < wished; ++i) all->members[i] = device(i);
    return all;
}
SHOWN hd_objc_object *MTLCreateSystemDefaultDevice(void);
hd_objc_object *MTLCreateSystemDefaultDevice(void) {
    ONE_AT_A_TIME;
    if (fails("MTLCreateSystemDefaultDevice") || strcmp(wish(), "none") == 0) return NULL;
    return device(0);
}
static hd_objc_bool fake_responds(ME, hd_objc_selector *asked) {
    (void)asked;
    MUST(self->is == DEVICE);
    return !fails("respondsToSelector:") && strcmp(wish(), "old") != 0;
}
static hd_objc_object *fake_name(ME) {
    ONE_AT_A_TIME;
    char name[32];
    MUST(self->is == DEVICE);
    snprintf(name, sizeof name, "fake GPU %d", self->number);
    return fails("name") ? NULL : string(name);
}
static uint64_t fake_memory_bytes(ME) {
    MUST(self->is == DEVICE);
    return fails("recommendedMaxWorkingSetSize") ? 0 : fake_metal_now.memory;
}
static size_t fake_block_most(ME) {
    MUST(self->is == DEVICE);
    return fails("maxBufferLength") ? 0 : fake_metal_now.memory / 2;
}
static size_t fake_local_bytes(ME) {
    MUST(self->is == DEVICE);
    return fails("maxThreadgroupMemoryLength") ? 0 : 32768;
}
static hd_objc_object *fake_new_queue(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == DEVICE);
    if (fails("newCommandQueue")) return NULL;
    hd_objc_object *o = made(QUEUE);
    return o;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */
static hd_objc_object *buffer(size_t bytes) {
    if (bytes == 0 || bytes > fake_metal_now.memory - fake_metal_now.memory_used) return NULL;
    hd_objc_object *o = made(BUFFER);
    o->bytes = bytes;
    o->data = malloc(bytes);
    memset(o->data, 0xbb, bytes);
    fake_metal_now.memory_used += bytes;
    return o;
}
static hd_objc_object *fake_new_buffer(ME, size_t bytes, size_t options) {
    ONE_AT_A_TIME;
    MUST(self->is == DEVICE && options == HD_MTL_STORAGE_SHARED);
    return fails("newBufferWithLength:options:") ? NULL : buffer(bytes);
}
static hd_objc_object *fake_new_buffer_of(ME, const void *from, size_t bytes, size_t options) {
    ONE_AT_A_TIME;
    MUST(self->is == DEVICE && options == HD_MTL_STORAGE_SHARED);
    hd_objc_object *o = fails("newBufferWithBytes:length:options:") ? NULL : buffer(bytes);
    if (o != NULL) memcpy(o->data, from, bytes);
    return o;
}
static void *fake_contents(ME) {
    MUST(self->is == BUFFER);
    return fails("contents") ? NULL : self->data;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
static void scale(unsigned char **buffers, const fake_arguments *a, const unsigned long *group,
                  const unsigned long *thread, const hd_mtl_size *groups, const hd_mtl_size *threads) {
    const long i = (long)(group[0] * threads->width + thread[0]);
    float x;
    (void)groups;
    if (i >= a->count) return;
    memcpy(&x, buffers[0] + a->x + 4 * i, sizeof x);
    x *= a->factor;
    memcpy(buffers[1] + a->y + 4 * i, &x, sizeof x);
}
static void move(unsigned char **buffers, const fake_arguments *a, const unsigned long *group,
                 const unsigned long *thread, const hd_mtl_size *groups, const hd_mtl_size *threads) {
    (void)group, (void)thread, (void)groups, (void)threads;
    memmove(buffers[1] + a->y, buffers[0] + a->x, (size_t)a->count);
}
static void position(unsigned char **buffers, const fake_arguments *a, const unsigned long *group,
                     const unsigned long *thread, const hd_mtl_size *groups, const hd_mtl_size *threads) {
    const unsigned long i = group[0] * threads->width + thread[0], j = group[1] * threads->height + thread[1];
    const unsigned long k = group[2] * threads->depth + thread[2];
    const unsigned long w = groups->width * threads->width, h = groups->height * threads->height;
    const int32_t value = (int32_t)(thread[0] + 10 * thread[1] + 100 * thread[2] + 1000 * group[0] + 10000 * group[1] +
                                    100000 * group[2]);
    memcpy(buffers[0] + a->x + 4 * (i + w * (j + h * k)), &value, sizeof value);
}

static kernel_function *kernel_named(const char *name) {
    static const struct {
        const char *name;
        kernel_function *kernel;
    } all[] = {{"scale", scale}, {"move", move}, {"position", position}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        if (strcmp(all[i].name, name) == 0) return all[i].kernel;
    return NULL;
}

static void fake_set_fast_math(ME, hd_objc_bool enabled) {
    MUST(self->is == OPTIONS && !enabled);
    self->bytes = 1;
}
static hd_objc_object *fake_new_library(ME, hd_objc_object *text, hd_objc_object *options, hd_objc_object **out) {
    ONE_AT_A_TIME;
    char log[2048];
    MUST(self->is == DEVICE && text->is == STRING && options->is == OPTIONS && options->bytes == 1);
    if (fails("newLibraryWithSource:options:error:")) return NULL; /* and does not say why */
    if (strstr(text->text, "broken") != NULL) {
        memset(log, '.', sizeof log);
        strcpy(log + 1000, "error: this is how it ends\n\n");
        *out = error(log);
        return NULL;
    }
    void *code = NULL;
    if (strstr(text->text, "<metal_stdlib>") != NULL) {
        code = compiled_text(text->text, FAKE_METAL_SHIM, log, sizeof log);
        if (code == NULL) *out = error(log);
        if (code == NULL) return NULL;
    }
    hd_objc_object *o = made(LIBRARY);
    o->text = strdup(text->text);
    o->code = code;
    return o;
}
static hd_objc_object *fake_new_function(ME, hd_objc_object *name) {
    ONE_AT_A_TIME;
    char declared[128];
    MUST(self->is == LIBRARY && name->is == STRING);
    snprintf(declared, sizeof declared, "kernel void %s(", name->text);
    run_function *rendered = self->code == NULL ? NULL : compiled_function(self->code, name->text);
    if (fails("newFunctionWithName:") || (rendered == NULL && strstr(self->text, declared) == NULL)) return NULL;
    hd_objc_object *o = made(FUNCTION);
    o->kernel = kernel_named(name->text);
    o->rendered = rendered;
    return o;
}
static hd_objc_object *fake_new_pipeline(ME, hd_objc_object *function, hd_objc_object **out) {
    ONE_AT_A_TIME;
    MUST(self->is == DEVICE && function->is == FUNCTION);
    if (fails("newComputePipelineStateWithFunction:error:")) return NULL;
    if (function->kernel == NULL && function->rendered == NULL) {
        *out = error("the fake does not know this kernel");
        return NULL;
    }
    hd_objc_object *o = made(PIPELINE);
    o->kernel = function->kernel;
    o->rendered = function->rendered;
    return o;
}
static size_t fake_group_most(ME) {
    MUST(self->is == PIPELINE);
    return fails("maxTotalThreadsPerThreadgroup") ? 0 : self->rendered != NULL ? RUN_LANES : 128;
}

/* ---- command buffers --------------------------------------------------------------------------------------------- */
static hd_objc_object *fake_command_buffer(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == QUEUE);
    if (fails("commandBuffer")) return NULL;
    hd_objc_object *o = made(COMMANDS);
    o->of = hold(self);
    return until_the_pool_ends(o);
}
static hd_objc_object *encoder(hd_objc_object *commands, kind is) {
    MUST(commands->is == COMMANDS && !commands->is_committed && commands->open == NULL);
    hd_objc_object *o = made(is);
    o->of = hold(commands);
    commands->open = o;
    return until_the_pool_ends(o);
}
static hd_objc_object *fake_compute_encoder(ME) {
    ONE_AT_A_TIME;
    return fails("computeCommandEncoder") ? NULL : encoder(self, LAUNCHER);
}
static hd_objc_object *fake_blit_encoder(ME) {
    ONE_AT_A_TIME;
    return fails("blitCommandEncoder") ? NULL : encoder(self, COPIER);
}
static void fake_end_encoding(ME) {
    ONE_AT_A_TIME;
    MUST((self->is == LAUNCHER || self->is == COPIER) && !self->is_ended);
    self->is_ended = true;
    self->of->open = NULL;
}
static void fake_commit(ME) {
    ONE_AT_A_TIME;
    MUST(!fake_metal_now.is_closed && self->is == COMMANDS && !self->is_committed && self->open == NULL);
    self->is_committed = true;
    hold(self); /* until it has run */
    hd_objc_object **at = &self->of->next;
    while (*at != NULL) at = &(*at)->next;
    *at = self;
    if (++fake_metal_now.under_way > fake_metal_now.most) fake_metal_now.most = fake_metal_now.under_way;
}

static void run_kernel(const command *c) {
    unsigned char *data[SLOTS] = {NULL};
    for (int i = 0; i < SLOTS; ++i)
        if (c->buffers[i] != NULL) data[i] = c->buffers[i]->data;
    unsigned long g[3], t[3];
    for (g[1] = 0; c->rendered != NULL && g[1] < c->groups.height; ++g[1])
        for (g[0] = 0; g[0] < c->groups.width; ++g[0])
            MUST(run_group(c->rendered, (char **)(void *)data, (void *)(uintptr_t)c->arguments,
                           (run_id){(unsigned)g[0], (unsigned)g[1], 0}, (int)c->threads.width));
    if (c->rendered != NULL) return;
    for (g[2] = 0; g[2] < c->groups.depth; ++g[2])
        for (g[1] = 0; g[1] < c->groups.height; ++g[1])
            for (g[0] = 0; g[0] < c->groups.width; ++g[0])
                for (t[2] = 0; t[2] < c->threads.depth; ++t[2])
                    for (t[1] = 0; t[1] < c->threads.height; ++t[1])
                        for (t[0] = 0; t[0] < c->threads.width; ++t[0])
                            c->kernel(data, (const fake_arguments *)(const void *)c->arguments, g, t, &c->groups,
                                      &c->threads);
}
static void run_command(const command *c) {
    if (c->kernel != NULL || c->rendered != NULL)
        run_kernel(c);
    else if (c->buffers[1] != NULL)
        memcpy(c->buffers[1]->data + c->into, c->buffers[0]->data + c->at, c->bytes);
    else
        memset(c->buffers[0]->data + c->at, c->byte, c->bytes);
}
static void run_next(hd_objc_object *queue) {
    hd_objc_object *o = queue->next;
    queue->next = o->next;
    o->has_failed = fake_metal_now.is_lost || fails("waitUntilCompleted");
    for (const command *c = o->first; c != NULL && !o->has_failed; c = c->next, o->bytes++) run_command(c);
    forget_commands(o);
    o->is_done = true;
    fake_metal_now.under_way--;
    let_go(o);
}
static void fake_wait(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == COMMANDS && self->is_committed);
    if (!self->is_done) fake_metal_now.waits++;
    while (!self->is_done) run_next(self->of);
}
static size_t fake_status(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == COMMANDS);
    if (fails("status") || self->has_failed) return HD_MTL_STATUS_COMPLETED + 1;
    return self->is_done ? HD_MTL_STATUS_COMPLETED : self->is_committed ? 2 : 0;
}
static hd_objc_object *fake_error(ME) {
    ONE_AT_A_TIME;
    MUST(self->is == COMMANDS);
    return fails("error") || !self->has_failed ? NULL : error("Caused GPU Timeout Error (fake)");
}
static double fake_started_at(ME) {
    MUST(self->is == COMMANDS && self->is_done);
    return 1.0;
}
static double fake_ended_at(ME) {
    MUST(self->is == COMMANDS && self->is_done);
    return 1.0 + 234e-9 * (double)self->bytes;
}

/* ---- encoders ---------------------------------------------------------------------------------------------------- */
static void append(hd_objc_object *commands, const command *now) {
    command *c = malloc(sizeof *c);
    *c = *now;
    c->next = NULL;
    for (int i = 0; i < SLOTS; ++i) hold(c->buffers[i]);
    if (commands->last != NULL)
        commands->last->next = c;
    else
        commands->first = c;
    commands->last = c;
}
static void fake_set_pipeline(ME, hd_objc_object *pipeline) {
    ONE_AT_A_TIME;
    MUST(self->is == LAUNCHER && !self->is_ended && pipeline->is == PIPELINE);
    self->now.kernel = pipeline->kernel;
    self->now.rendered = pipeline->rendered;
}
static void fake_set_buffer(ME, hd_objc_object *given, size_t offset, size_t index) {
    ONE_AT_A_TIME;
    MUST(self->is == LAUNCHER && !self->is_ended && index < SLOTS && offset == 0);
    MUST(given == NULL || given->is == BUFFER);
    hold(given);
    let_go(self->now.buffers[index]);
    self->now.buffers[index] = given;
}
static void fake_set_bytes(ME, const void *from, size_t bytes, size_t index) {
    ONE_AT_A_TIME;
    MUST(self->is == LAUNCHER && !self->is_ended && bytes <= HD_MTL_ARGUMENT_BYTES && index < SLOTS);
    memcpy(self->now.arguments, from, bytes);
    self->now.bytes = bytes;
    self->now.at = index;
}
static void fake_dispatch(ME, hd_mtl_size groups, hd_mtl_size threads) {
    ONE_AT_A_TIME;
    command *now = &self->now;
    MUST(self->is == LAUNCHER && !self->is_ended && (now->kernel != NULL || now->rendered != NULL));
    MUST(groups.width * groups.height * groups.depth > 0 && threads.width * threads.height * threads.depth <= 1024);
    if (now->rendered == NULL)
        MUST(now->bytes == sizeof(fake_arguments) && now->at == (now->kernel == position ? 1 : 2));
    if (now->rendered != NULL) MUST(groups.depth * threads.height * threads.depth == 1);
    now->groups = groups;
    now->threads = threads;
    append(self->of, now);
}
static void fake_copy(ME, hd_objc_object *from, size_t at, hd_objc_object *to, size_t into, size_t bytes) {
    ONE_AT_A_TIME;
    MUST(self->is == COPIER && !self->is_ended && from->is == BUFFER && to->is == BUFFER && bytes > 0);
    MUST((at | into | bytes) % 4 == 0 && at + bytes <= from->bytes && into + bytes <= to->bytes);
    MUST(from != to || at >= into + bytes || into >= at + bytes);
    append(self->of, &(command){.buffers = {from, to}, .at = at, .into = into, .bytes = bytes});
}
static void fake_fill(ME, hd_objc_object *filled, hd_ns_range range, uint8_t byte) {
    ONE_AT_A_TIME;
    MUST(self->is == COPIER && !self->is_ended && filled->is == BUFFER && range.length > 0);
    MUST((range.location | range.length) % 4 == 0 && range.location + range.length <= filled->bytes);
    append(self->of, &(command){.buffers = {filled}, .at = range.location, .bytes = range.length, .byte = byte});
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */
struct hd_objc_selector {
    const char *text;
    void (*method)(void);
};
enum {
#define NUMBER(name, text, result, parameters) IS_##name,
    HD_OBJC_MESSAGES(NUMBER)
#undef NUMBER
        MESSAGES
};
/* The types of methods are those which the library sends messages by: else this does not compile. */
static const struct {
#define MEMBER(name, text, result, parameters) result(*name) parameters;
    HD_OBJC_MESSAGES(MEMBER)
#undef MEMBER
} methods = {
#define METHOD(name, text, result, parameters) .name = fake_##name,
    HD_OBJC_MESSAGES(METHOD)
#undef METHOD
};

SHOWN hd_objc_selector *sel_registerName(const char *name);
hd_objc_selector *sel_registerName(const char *name) {
    static hd_objc_selector all[MESSAGES], other = {"one that nobody has a method for", NULL};
    ONE_AT_A_TIME;
    if (fails("sel_registerName")) return NULL;
#define FIND(of, selector_text, result, parameters)                                                                    \
    if (strcmp(name, selector_text) == 0) {                                                                            \
        all[IS_##of] = (hd_objc_selector){selector_text, (void (*)(void))methods.of};                                  \
        return &all[IS_##of];                                                                                          \
    }
    HD_OBJC_MESSAGES(FIND)
#undef FIND
    return &other;
}

SHOWN hd_objc_object *objc_getClass(const char *name);
hd_objc_object *objc_getClass(const char *name) {
    static hd_objc_object all[8];
    static char names[8][32];
    ONE_AT_A_TIME;
    if (fails("objc_getClass")) return NULL;
    for (int i = 0; i < 8; ++i) {
        if (all[i].text != NULL && strcmp(all[i].text, name) != 0) continue;
        snprintf(names[i], sizeof names[i], "%s", name);
        all[i].text = names[i];
        all[i].is = CLASS;
        all[i].count = 1;
        return &all[i];
    }
    return NULL;
}

typedef void (*method)(void);
method fake_metal_method(const hd_objc_object *self, const hd_objc_selector *selector);
__attribute__((used)) method fake_metal_method(const hd_objc_object *self, const hd_objc_selector *selector) {
    (void)self;
    MUST(!fake_metal_now.is_closed);
    must(selector != NULL && selector->method != NULL,
         selector == NULL ? "a message without selector" : selector->text);
    return selector->method;
}

/* As the real one: finds the method, and jumps there with all arguments as they are. nil gives 0. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl objc_msgSend\n"
        ".type objc_msgSend, @function\n"
        "objc_msgSend:\n"
        "    test %rdi, %rdi\n"
        "    jz 1f\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    push %rdx\n"
        "    push %rcx\n"
        "    push %r8\n"
        "    push %r9\n"
        "    call fake_metal_method\n"
        "    mov %rax, %r11\n"
        "    pop %r9\n"
        "    pop %r8\n"
        "    pop %rcx\n"
        "    pop %rdx\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    pop %rbp\n"
        "    jmp *%r11\n"
        "1:  xor %eax, %eax\n"
        "    pxor %xmm0, %xmm0\n"
        "    ret\n"
        ".size objc_msgSend, . - objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl objc_msgSend\n"
        ".type objc_msgSend, %function\n"
        "objc_msgSend:\n"
        "    cbz x0, 1f\n"
        "    stp x29, x30, [sp, #-80]!\n"
        "    mov x29, sp\n"
        "    stp x0, x1, [sp, #16]\n"
        "    stp x2, x3, [sp, #32]\n"
        "    stp x4, x5, [sp, #48]\n"
        "    stp x6, x7, [sp, #64]\n"
        "    bl fake_metal_method\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x2, x3, [sp, #32]\n"
        "    ldp x4, x5, [sp, #48]\n"
        "    ldp x6, x7, [sp, #64]\n"
        "    ldp x29, x30, [sp], #80\n"
        "    br x16\n"
        "1:  movi d0, #0\n"
        "    ret\n"
        ".size objc_msgSend, . - objc_msgSend\n");
#else
#error "objc_msgSend is written for x86-64 and AArch64"
#endif

/* ---- the end ----------------------------------------------------------------------------------------------------- */
__attribute__((destructor)) static void at_the_end(void) {
    if (fake_metal_now.must_finish) MUST(fake_metal_now.under_way == 0);
}
#endif
