/* The program in which LLVM compiles: llvm.c, what it calls, and this file, which has of the library what those need.
 * It lies inside the library, is started from memory, and is nobody's child: who started it is not told of its end. Its
 * arguments are the number of its socket and how many milliseconds it waits for an order. */
#include "codegen/server.h"
#include "core/memory.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- of core/: the first error, and memory ----------------------------------------------------------------------- */
static hd_error_copy pending;

hd_error hd_fail(hd_error code, const char *format, ...) {
    if (pending.code != HD_OK) return code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pending.message, sizeof pending.message, format, arguments);
    va_end(arguments);
    pending.code = code;
    return code;
}

void hd_error_take(hd_error_copy *out) {
    *out = pending;
    memset(&pending, 0, sizeof pending);
}

void *hd_array_resize(void *array, size_t bytes) { return realloc(array, bytes); }
void hd_array_release(void *array) { free(array); }

/* ---- starting ---------------------------------------------------------------------------------------------------- */
/* Files and sockets of who started this would otherwise stay open with it. */
static void close_all_but(int kept) {
    const unsigned first = STDERR_FILENO + 1;
    if (syscall(SYS_close_range, first, (unsigned)kept - 1, 0) == 0 || (unsigned)kept == first) {
        if (syscall(SYS_close_range, (unsigned)kept + 1, ~0u, 0) == 0) return;
    }
    const long most = sysconf(_SC_OPEN_MAX);
    for (int i = (int)first; i < (most > 0 && most < 1 << 16 ? most : 1 << 16); ++i)
        if (i != kept) close(i);
}

int main(int count, char **arguments) {
    const int socket = count == 3 ? atoi(arguments[1]) : -1;
    if (socket <= STDERR_FILENO) {
        fprintf(stderr, "This program is a part of libhodu, which starts it to compile.\n");
        return 2;
    }
    const pid_t own = fork();
    if (own != 0) _exit(own < 0); /* who started it waits for this one only */
    setsid();                     /* signals of a terminal are for who started it */
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) open("/dev/null", O_WRONLY);
    close_all_but(socket);
    hd_llvm_serve(socket, atoi(arguments[2]));
    _exit(0); /* what LLVM would do at the end is of no use */
}
