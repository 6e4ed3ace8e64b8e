/* The side of the server: takes orders from a socket, compiles them one after the other, and sends what came out. What
 * it reads was written by this very library, and is checked all the same: a mistake here would be hard to see there. */
#include "codegen/server.h"

#if HD_HAS_LLVM
#include "core/memory.h"
#include "core/os_process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

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
    return hd_os_send(socket, &a, sizeof a, INT64_MAX) &&
           hd_os_send(socket, error.message, a.message_bytes, INT64_MAX) &&
           hd_os_send(socket, made->object, made->object_bytes, INT64_MAX) &&
           hd_os_send(socket, made->ir, made->ir_bytes, INT64_MAX) &&
           hd_os_send(socket, made->assembly, made->assembly_bytes, INT64_MAX);
}

static bool serve_one(int socket) {
    hd_serve_order o;
    if (!hd_os_receive(socket, &o, sizeof o, INT64_MAX) || o.magic != HD_SERVE_MAGIC || o.most > HD_ISA_AMX ||
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
    bool sent = hd_os_receive(socket, bytes, count, INT64_MAX);
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
    hd_os_send(served, &a, sizeof a, 0); /* that it is gone says nearly as much */
    _Exit(1);
}

void hd_llvm_serve(int socket, int idle_milliseconds) {
    hd_serve_answer a = {.magic = HD_SERVE_MAGIC, .kind = HD_SERVE_HELLO, .status = (int32_t)hd_os_process()};
    served = socket;
    signal(SIGABRT, say_aborted);
    hd_os_become_expendable("hodu-llvm");
    if (!hd_os_send(socket, &a, sizeof a, INT64_MAX)) return;
    while (hd_os_has_news(socket, idle_milliseconds))
        if (!serve_one(socket)) return;
    a = (hd_serve_answer){.magic = HD_SERVE_MAGIC, .kind = HD_SERVE_BYE};
    hd_os_send(socket, &a, sizeof a, INT64_MAX);
}
#endif
