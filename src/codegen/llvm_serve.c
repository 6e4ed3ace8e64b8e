/* The side of the server: takes orders from a socket, compiles them one after the other, and sends what came out. What
 * it reads was written by this very library, and is checked all the same: a mistake here would be hard to see there. */
#include "codegen/server.h"

#if HD_HAS_LLVM
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- bytes ------------------------------------------------------------------------------------------------------- */
int64_t hd_serve_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool wait_for(int socket, short what, int64_t deadline) {
    for (;;) {
        struct pollfd p = {.fd = socket, .events = what};
        const int64_t left = deadline == INT64_MAX ? 0 : deadline - hd_serve_now();
        if (left < 0) return false;
        const int64_t milliseconds = left / 1000000 + 1;
        const int n = poll(&p, 1, deadline == INT64_MAX ? -1 : milliseconds < 60000 ? (int)milliseconds : 60000);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

bool hd_serve_send(int socket, const void *bytes, size_t count, int64_t deadline) {
    for (const char *at = bytes; count > 0;) {
        const ssize_t n = send(socket, at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            count -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) {
            if (!wait_for(socket, POLLOUT, deadline)) return false;
        } else {
            return false;
        }
    }
    return true;
}

bool hd_serve_receive(int socket, void *bytes, size_t count, int64_t deadline) {
    for (char *at = bytes; count > 0;) {
        const ssize_t n = recv(socket, at, count, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            count -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!wait_for(socket, POLLIN, deadline)) return false;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- one order --------------------------------------------------------------------------------------------------- */
/* A text of `count` bytes with the 0 at its end; NULL: none. */
static const char *text_of(const char *at, uint32_t count, bool *good) {
    if (count > 0 && memchr(at, '\0', count) != at + count - 1) *good = false;
    return count > 0 ? at : NULL;
}

static hd_error compile_bytes(const hd_serve_order *o, const char *bytes, hd_llvm_made *made) {
    bool good = true;
    const hd_llvm_order order = {.library = text_of(bytes, o->library_bytes, &good),
                                 .name = text_of(bytes + o->library_bytes, o->name_bytes, &good),
                                 .most = (hd_isa)o->most,
                                 .wants_ir = o->wants_ir != 0,
                                 .wants_assembly = o->wants_assembly != 0};
    if (!good || order.name == NULL) return hd_fail(HD_ERROR_INTERNAL, "an order with names that do not end");
    hd_kernel k;
    hd_error status = hd_kernel_from_bytes(&k, bytes + o->library_bytes + o->name_bytes, o->kernel_bytes);
    if (status == HD_OK) status = hd_llvm_compile(&order, &k, made);
    hd_kernel_release(&k);
    return status;
}

static bool send_answer(int socket, hd_error status, const hd_llvm_made *made) {
    hd_error_copy error = {.code = HD_OK};
    if (status != HD_OK) hd_error_take(&error);
    const hd_serve_answer a = {.magic = HD_SERVE_MAGIC,
                               .kind = HD_SERVE_ANSWER,
                               .status = (int32_t)status,
                               .message_bytes = (uint32_t)strlen(error.message),
                               .object_bytes = made->object_bytes,
                               .ir_bytes = made->ir_bytes,
                               .assembly_bytes = made->assembly_bytes,
                               .load_nanoseconds = made->load_nanoseconds};
    return hd_serve_send(socket, &a, sizeof a, INT64_MAX) &&
           hd_serve_send(socket, error.message, a.message_bytes, INT64_MAX) &&
           hd_serve_send(socket, made->object, made->object_bytes, INT64_MAX) &&
           hd_serve_send(socket, made->ir, made->ir_bytes, INT64_MAX) &&
           hd_serve_send(socket, made->assembly, made->assembly_bytes, INT64_MAX);
}

static bool serve_one(int socket) {
    hd_serve_order o;
    if (!hd_serve_receive(socket, &o, sizeof o, INT64_MAX) || o.magic != HD_SERVE_MAGIC || o.most > HD_ISA_AMX ||
        o.library_bytes > HD_SERVE_MOST_BYTES || o.name_bytes > HD_SERVE_MOST_BYTES ||
        o.kernel_bytes > HD_SERVE_MOST_BYTES)
        return false;
    const size_t count = (size_t)o.library_bytes + o.name_bytes + o.kernel_bytes;
    hd_llvm_made made = {.object = NULL};
    char *bytes = hd_array_resize(NULL, count + 1);
    hd_error status = HD_OK;
    if (bytes == NULL) { /* what follows is not read: this was the last order */
        status = hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %u bytes", (unsigned)o.kernel_bytes);
        send_answer(socket, status, &made);
        return false;
    }
    bool sent = hd_serve_receive(socket, bytes, count, INT64_MAX);
    if (sent) {
        status = compile_bytes(&o, bytes, &made);
        sent = send_answer(socket, status, &made);
    }
    hd_llvm_release(&made);
    hd_array_release(bytes);
    return sent;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */
static int served; /* the socket, for when LLVM aborts */

static void say_aborted(int signal_number) {
    (void)signal_number;
    const hd_serve_answer a = {.magic = HD_SERVE_MAGIC, .kind = HD_SERVE_ABORTED};
    const ssize_t sent = send(served, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* that it is gone says nearly as much */
    _exit(1);
}

/* When memory is short, this is the process to end, and there is nothing to be learned from its remains. */
static void give_way(void) {
    static const char most_willing[] = "1000";
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        const ssize_t written = write(file, most_willing, sizeof most_willing - 1);
        (void)written;
        close(file);
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    prctl(PR_SET_NAME, "hodu-llvm");
}

static bool has_order(int socket, int idle_milliseconds) {
    struct pollfd p = {.fd = socket, .events = POLLIN};
    int n;
    do n = poll(&p, 1, idle_milliseconds);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

void hd_llvm_serve(int socket, int idle_milliseconds) {
    hd_serve_answer a = {.magic = HD_SERVE_MAGIC, .kind = HD_SERVE_HELLO, .status = (int32_t)getpid()};
    served = socket;
    struct sigaction act = {.sa_handler = say_aborted};
    sigaction(SIGABRT, &act, NULL);
    give_way();
    if (!hd_serve_send(socket, &a, sizeof a, INT64_MAX)) return;
    while (has_order(socket, idle_milliseconds))
        if (!serve_one(socket)) return;
    a = (hd_serve_answer){.magic = HD_SERVE_MAGIC, .kind = HD_SERVE_BYE};
    hd_serve_send(socket, &a, sizeof a, INT64_MAX);
}
#endif
