/* Asking servers to compile. A server compiles one kernel at a time; a thread that finds none idle starts another, so
 * that threads compile side by side, up to a limit. A server that has nothing to do for ten seconds ends: until then it
 * costs some 10 MB of its own, and saves the next kernel the 50 ms that opening LLVM takes. It is started from a copy
 * of its program in memory, so that nothing has to be installed or found; where the system does not allow that, this
 * process is forked instead. Forking is the second choice: until the server ends, a page that the host writes is copied
 * first, which takes memory and time from a large one. A server that ends before it answers, or does not answer for
 * minutes, is an error of this kernel alone. */
#include "codegen/server.h"
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/dump.h"
#include "codegen/processor.h"
#include "core/memory.h"
#include "core/os_file.h"
#include "core/os_process.h"

#include <errno.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SERVERS = 16 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { REPORTS = 1 }; /* whole, on our own stderr */
#else
enum { REPORTS = 0 };
#endif
int hd_server_patience_milliseconds = 300000, hd_server_idle_milliseconds = 10000;
bool hd_server_forks;

typedef struct server {
    bool taken;      /* somebody starts it or talks to it */
    int ours;        /* our end of the socket; -1: there is no server here */
    int theirs;      /* the other one, until it is started; else -1 */
    int said;        /* a file in memory, with what it writes to stderr */
    int32_t process; /* 0: not known yet */
    int shortages;   /* how often memory had run out when it was started */
} server;

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    server servers[MOST_SERVERS];
    int shortages;
    _Atomic int64_t load_nanoseconds;
} table = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .given_back = PTHREAD_COND_INITIALIZER};

/* ---- the table --------------------------------------------------------------------------------------------------- */
static void forget_server(server *s) { /* under the lock */
    if (s->ours >= 0) hd_os_close(s->ours);
    if (s->theirs >= 0) hd_os_close(s->theirs);
    if (s->said >= 0) hd_os_close(s->said);
    *s = (server){.ours = -1, .theirs = -1, .said = -1, .shortages = table.shortages};
}

static void servers_before_fork(void) { pthread_mutex_lock(&table.lock); }
static void servers_after_fork(void) { pthread_mutex_unlock(&table.lock); }
static void after_fork_in_child(void) { /* servers are the parent's, and so are the threads that wait for one */
    for (int i = 0; i < MOST_SERVERS; ++i) forget_server(&table.servers[i]);
    table.given_back = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&table.lock);
}

static void set_up(void) {
    for (int i = 0; i < MOST_SERVERS; ++i) table.servers[i] = (server){.ours = -1, .theirs = -1, .said = -1};
    hd_os_at_fork(servers_before_fork, servers_after_fork, after_fork_in_child);
}

/* An idle one that is there and has not ended meanwhile, else an empty place, else whoever is given back first. */
static server *take_server(void) {
    pthread_once(&table.once, set_up);
    server *found = NULL;
    pthread_mutex_lock(&table.lock);
    while (found == NULL) {
        for (int i = 0; i < MOST_SERVERS && (found == NULL || found->ours < 0); ++i) {
            server *s = &table.servers[i];
            if (s->taken) continue;
            if (s->ours >= 0 && hd_os_has_news(s->ours, 0)) forget_server(s); /* it says that it ends, or has ended */
            if (found == NULL || s->ours >= 0) found = s;
        }
        if (found == NULL) pthread_cond_wait(&table.given_back, &table.lock);
    }
    found->taken = true;
    if (found->ours < 0) found->shortages = table.shortages;
    pthread_mutex_unlock(&table.lock);
    return found;
}

/* When memory has run out, all of them end, as soon as they are idle: theirs may be what is missing, and one that was
 * short of it may still be. */
static void give_back(server *s, hd_error status, bool is_there) {
    pthread_mutex_lock(&table.lock);
    s->taken = false;
    if (status == HD_ERROR_MEMORY) table.shortages++;
    if (!is_there || status == HD_ERROR_DEVICE) forget_server(s); /* what was not there may be there next time */
    for (int i = 0; i < MOST_SERVERS; ++i)
        if (!table.servers[i].taken && table.servers[i].shortages != table.shortages) forget_server(&table.servers[i]);
    pthread_cond_signal(&table.given_back);
    pthread_mutex_unlock(&table.lock);
}

int hd_server_processes(int *out, int capacity) {
    int count = 0;
    pthread_once(&table.once, set_up);
    pthread_mutex_lock(&table.lock);
    for (int i = 0; i < MOST_SERVERS; ++i) {
        if (table.servers[i].process == 0) continue;
        if (count < capacity) out[count] = table.servers[i].process;
        count++;
    }
    pthread_mutex_unlock(&table.lock);
    return count;
}

void hd_server_end_all(void) {
    pthread_once(&table.once, set_up);
    pthread_mutex_lock(&table.lock);
    for (int i = 0; i < MOST_SERVERS; ++i)
        if (!table.servers[i].taken) forget_server(&table.servers[i]);
    pthread_mutex_unlock(&table.lock);
}

/* ---- starting one ------------------------------------------------------------------------------------------------ */
static int program_in_memory(void) {
    const int memory = hd_os_memory_file("hodu-llvm", true);
    if (memory < 0 || hd_os_write(memory, hd_server_program, (size_t)(hd_server_program_end - hd_server_program)))
        return memory;
    const int why = errno;
    hd_os_close(memory);
    errno = why;
    return -1;
}

/* What starts it ends at once: the server itself is no child of ours. Somebody else may have waited for it. An emulator
 * does not say at the start that nothing was started; the child says so when it ends. 0, or why not. */
static int start_program(int socket, int said) {
    enum { NOTHING_STARTED = 127 };
    char path[40], number[16], idle[16];
    char *const arguments[] = {(char *)"hodu-llvm", number, idle, NULL};
    const int memory = program_in_memory();
    if (memory < 0) return errno != 0 ? errno : ENOMEM;
    hd_os_memory_path(memory, path, sizeof path);
    snprintf(number, sizeof number, "%d", socket);
    snprintf(idle, sizeof idle, "%d", hd_server_idle_milliseconds);
    const hd_os_program program = {.file = path,
                                   .arguments = arguments,
                                   .environment = hd_environment_for_programs(),
                                   .output = -1,
                                   .errors = REPORTS ? HD_OS_OURS : said,
                                   .kept = socket,
                                   .resets_signals = true};
    int64_t child;
    int failed = hd_os_start(&program, &child);
    if (failed == 0 && hd_os_finish(child) == NOTHING_STARTED) failed = ENOEXEC;
    hd_os_close(memory);
    return failed;
}

static void serve(int socket) {
    hd_memory_fail_after(-1);
    hd_llvm_serve(socket, hd_server_idle_milliseconds);
}

static int start_process(int socket, int said) {
    int failed = hd_server_forks ? ENOSYS : start_program(socket, said);
    /* what a system says that runs nothing from memory, has no /proc, or is emulated */
    const bool impossible = failed == ENOSYS || failed == EACCES || failed == EPERM || failed == ENOENT ||
                            failed == ENOEXEC || failed == EINVAL || failed == ETXTBSY;
    return impossible ? hd_os_fork_apart(serve, socket, REPORTS ? HD_OS_OURS : said) : failed;
}

static bool open_files(server *s) {
    int ends[2];
    const bool opened = hd_os_streams(ends);
    int said = hd_os_memory_file("hodu-llvm-said", false);
    if (said < 0) /* then nobody learns what it said */
        said = hd_os_above_standard(hd_os_open(HD_OS_HERE, "/dev/null", HD_OS_WRITE, 0));
    pthread_mutex_lock(&table.lock); /* a fork in another thread sees all */
    s->ours = ends[0];
    s->theirs = ends[1];
    s->said = said;
    pthread_mutex_unlock(&table.lock);
    return opened && said >= 0;
}

static int64_t patience(void) { return hd_os_nanoseconds() + (int64_t)hd_server_patience_milliseconds * 1000000; }

static hd_error start_server(server *s) {
    hd_serve_answer hello;
    const int failed = open_files(s) ? start_process(s->theirs, s->said) : errno;
    pthread_mutex_lock(&table.lock);
    if (s->theirs >= 0) hd_os_close(s->theirs); /* so that its end is seen */
    s->theirs = -1;
    pthread_mutex_unlock(&table.lock);
    if (failed != 0)
        return hd_fail(failed == ENOMEM || failed == EAGAIN ? HD_ERROR_MEMORY : HD_ERROR_STATE,
                       "the process in which LLVM compiles cannot be started: %s; level O0 compiles nothing",
                       strerror(failed));
    if (!hd_os_receive(s->ours, &hello, sizeof hello, patience()) || hello.magic != HD_SERVE_MAGIC ||
        hello.kind != HD_SERVE_HELLO)
        return hd_fail(HD_ERROR_MEMORY,
                       "the process in which LLVM compiles ended when it had begun; memory may have run out");
    s->process = hello.status;
    return HD_OK;
}

/* ---- an order ---------------------------------------------------------------------------------------------------- */
static char *pack(const hd_llvm_order *order, const hd_kernel *k, size_t *count) {
    const size_t kernel = hd_kernel_bytes(k, NULL, 0), name = strlen(order->name) + 1,
                 library = order->library != NULL ? strlen(order->library) + 1 : 0;
    const hd_serve_order head = {.magic = HD_SERVE_MAGIC,
                                 .most = (uint32_t)order->most,
                                 .wants_ir = order->wants_ir,
                                 .wants_assembly = order->wants_assembly,
                                 .library_bytes = (uint32_t)library,
                                 .name_bytes = (uint32_t)name,
                                 .kernel_bytes = (uint32_t)kernel};
    *count = sizeof head + library + name + kernel;
    char *bytes = *count < HD_SERVE_MOST_BYTES ? hd_array_resize(NULL, *count) : NULL;
    if (bytes == NULL) return NULL;
    memcpy(bytes, &head, sizeof head);
    if (library > 0) memcpy(bytes + sizeof head, order->library, library);
    memcpy(bytes + sizeof head + library, order->name, name);
    hd_kernel_bytes(k, bytes + sizeof head + library + name, kernel);
    return bytes;
}

typedef enum outcome { ANSWERED, NO_ANSWER, ABORTED, ENDED_IDLE, NO_MEMORY } outcome;

static outcome receive_part(int socket, size_t count, int64_t deadline, void **out, size_t *bytes) {
    if (count == 0) return ANSWERED;
    *out = hd_array_resize(NULL, count);
    if (*out == NULL) return NO_MEMORY;
    *bytes = count;
    return hd_os_receive(socket, *out, count, deadline) ? ANSWERED : NO_ANSWER;
}

static outcome receive(int socket, int64_t deadline, hd_serve_answer *a, char message[HD_SERVE_MESSAGE],
                       hd_llvm_made *made) {
    if (!hd_os_receive(socket, a, sizeof *a, deadline)) return NO_ANSWER;
    if (a->magic == HD_SERVE_MAGIC && a->kind == HD_SERVE_BYE) return ENDED_IDLE;
    if (a->magic == HD_SERVE_MAGIC && a->kind == HD_SERVE_ABORTED) return ABORTED;
    if (a->magic != HD_SERVE_MAGIC || a->kind != HD_SERVE_ANSWER || a->message_bytes >= HD_SERVE_MESSAGE ||
        a->object_bytes > HD_SERVE_MOST_BYTES || a->ir_bytes > HD_SERVE_MOST_BYTES ||
        a->assembly_bytes > HD_SERVE_MOST_BYTES)
        return NO_ANSWER;
    if (!hd_os_receive(socket, message, a->message_bytes, deadline)) return NO_ANSWER;
    message[a->message_bytes] = '\0';
    made->load_nanoseconds = a->load_nanoseconds;
    outcome got = receive_part(socket, a->object_bytes, deadline, &made->object, &made->object_bytes);
    if (got == ANSWERED) got = receive_part(socket, a->ir_bytes, deadline, &made->ir, &made->ir_bytes);
    if (got == ANSWERED)
        got = receive_part(socket, a->assembly_bytes, deadline, &made->assembly, &made->assembly_bytes);
    return got;
}

/* The end of what it wrote to stderr, on one line. */
static void last_words(const server *s, char *out, size_t capacity) {
    hd_os_status status;
    const uint64_t size = hd_os_status_of(s->said, &status) ? status.bytes : 0, room = capacity - 1;
    int64_t length = hd_os_read_at(s->said, out, room, size > room ? size - room : 0);
    if (length < 0) length = 0;
    while (length > 0 && out[length - 1] == '\n') length--;
    out[length] = '\0';
    for (int64_t i = 0; i < length; ++i)
        if ((unsigned char)out[i] < ' ') out[i] = ' ';
}

/* Memory is the reason by far, also when nothing was said; but LLVM ends its process where it finds itself broken,
 * too. */
static hd_error explain_outcome(outcome o, const server *s, int64_t deadline) {
    char said[160];
    if (o == NO_MEMORY) return hd_fail(HD_ERROR_MEMORY, "no memory for what LLVM made of a kernel");
    if (o == NO_ANSWER && hd_os_nanoseconds() >= deadline) {
        hd_os_kill(s->process); /* its socket is open: it is there */
        return hd_fail(HD_ERROR_STATE, "LLVM did not compile a kernel in %g seconds, and its process, %d, was ended",
                       hd_server_patience_milliseconds * 1e-3, (int)s->process);
    }
    last_words(s, said, sizeof said);
    const char *how = o == ABORTED ? "aborted" : "ended without an answer", *colon = said[0] != '\0' ? ": " : "";
    if (said[0] != '\0' && strstr(said, "memory") == NULL && strstr(said, "alloc") == NULL)
        return hd_fail(HD_ERROR_INTERNAL, "LLVM gave up while it compiled a kernel: its process, %d, %s%s%s",
                       (int)s->process, how, colon, said);
    return hd_fail(HD_ERROR_MEMORY,
                   "memory ran out while LLVM compiled a kernel, or somebody killed it: its process, %d, %s%s%s; free "
                   "some, or run at level O0, which compiles nothing",
                   (int)s->process, how, colon, said);
}

/* One exchange with one server; false: it had ended before, and another should be asked. */
static bool ask(const char *bytes, size_t count, hd_llvm_made *made, hd_error *status) {
    hd_serve_answer a;
    char message[HD_SERVE_MESSAGE];
    server *s = take_server();
    *status = s->ours < 0 ? start_server(s) : HD_OK;
    if (*status != HD_OK) {
        give_back(s, *status, false);
        return true;
    }
    const int64_t deadline = patience();
    hd_os_send(s->ours, bytes, count, deadline); /* when it cannot be sent, what is there to be read says why */
    const outcome o = receive(s->ours, deadline, &a, message, made);
    if (o == ANSWERED && a.status != HD_OK)
        *status = hd_fail((hd_error)a.status, "%s", message);
    else if (o != ANSWERED && o != ENDED_IDLE)
        *status = explain_outcome(o, s, deadline);
    give_back(s, *status, o == ANSWERED);
    return o != ENDED_IDLE;
}

static void dump(const char *name, const char *what, const void *text, size_t length) {
    char headline[128];
    if (text == NULL) return;
    snprintf(headline, sizeof headline, "%s, %s", name, what);
    hd_dump_text(headline, text, length);
}

hd_error hd_llvm_object(const hd_kernel *k, const char *name, void **object, size_t *bytes) {
    if (hd_llvm_out_of_reach() != NULL) return hd_fail(HD_ERROR_DEVICE, "%s", hd_llvm_out_of_reach());
    const hd_llvm_order order = {.library = hd_environment("HODU_LLVM"),
                                 .name = name,
                                 .most = hd_environment_isa(),
                                 .wants_ir = hd_dump_wants("llvm"),
                                 .wants_assembly = hd_dump_wants("asm")};
    hd_llvm_made made = {.object = NULL};
    size_t count;
    char *packed = pack(&order, k, &count);
    if (packed == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to compile a kernel of %d steps", k->count);
    hd_error status = HD_OK;
    while (!ask(packed, count, &made, &status)) {}
    hd_array_release(packed);
    atomic_fetch_add_explicit(&table.load_nanoseconds, made.load_nanoseconds, memory_order_relaxed);
    dump(name, "LLVM IR", made.ir, made.ir_bytes);
    dump(name, "assembly", made.assembly, made.assembly_bytes);
    if (status == HD_OK) {
        *object = made.object;
        *bytes = made.object_bytes;
        made.object = NULL;
    }
    hd_llvm_release(&made);
    return status;
}

int64_t hd_llvm_load_nanoseconds(void) { return atomic_load_explicit(&table.load_nanoseconds, memory_order_relaxed); }

/* ---- the target: known without LLVM, which code from the disk cache does not need ------------------------------- */
static pthread_once_t target_once = PTHREAD_ONCE_INIT;
static char target[512];
static void name_target(void) {
    const hd_isa most = hd_environment_isa();
    const int at = snprintf(target, sizeof target, "llvm %s %s", LLVM_VERSION_STRING,
                            most == HD_ISA_BASELINE ? "baseline"
                            : most == HD_ISA_AVX2   ? "avx2"
                                                    : "host");
    hd_processor_text(target + at, sizeof target - (size_t)at);
}

const char *hd_llvm_target(void) {
    pthread_once(&target_once, name_target);
    return target;
}

#else
static const char *const absent =
    "this library was built without LLVM: build it with LLVM's headers (Debian: llvm-19-dev), or "
    "compile with the C compiler (HODU_RENDERER=c), or not at all (level O0)";

hd_error hd_llvm_object(const hd_kernel *k, const char *name, void **object, size_t *bytes) {
    (void)k, (void)name, (void)object, (void)bytes;
    return hd_fail(HD_ERROR_DEVICE, "%s", absent);
}
const char *hd_llvm_target(void) {
    hd_fail(HD_ERROR_DEVICE, "%s", absent);
    return NULL;
}
int64_t hd_llvm_load_nanoseconds(void) { return 0; }
#endif
