#define _GNU_SOURCE
#include "core/os_process.h"
#include "core/os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* hd_os_stream_pair says it of the stream */
#endif
#ifndef NSIG
#define NSIG 65
#endif

/* ---- starting ---------------------------------------------------------------------------------------------------- */
/* Workers of the pool block all signals, and a program may ignore SIGCHLD. */
static int set_signals(const hd_os_program *p, posix_spawnattr_t *attributes) {
    sigset_t none, ordinary;
    sigemptyset(&none);
    if (p->resets_signals) {
        sigfillset(&ordinary);
    } else {
        sigemptyset(&ordinary);
        sigaddset(&ordinary, SIGCHLD);
        sigaddset(&ordinary, SIGPIPE);
    }
    int failed = posix_spawnattr_setsigmask(attributes, &none);
    if (failed == 0) failed = posix_spawnattr_setsigdefault(attributes, &ordinary);
    return failed != 0 ? failed : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int give_output(posix_spawn_file_actions_t *files, int standard, int file) {
    if (file == HD_OS_OURS) return 0;
    if (file < 0) return posix_spawn_file_actions_addopen(files, standard, "/dev/null", O_WRONLY, 0);
    return posix_spawn_file_actions_adddup2(files, file, standard);
}

static int set_files(const hd_os_program *p, posix_spawn_file_actions_t *files) {
    int failed = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (failed == 0 && p->output_path != NULL) {
        failed =
            posix_spawn_file_actions_addopen(files, STDOUT_FILENO, p->output_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (failed == 0) failed = posix_spawn_file_actions_adddup2(files, STDOUT_FILENO, STDERR_FILENO);
    } else {
        if (failed == 0) failed = give_output(files, STDOUT_FILENO, p->output);
        if (failed == 0) failed = give_output(files, STDERR_FILENO, p->errors);
    }
    if (failed != 0 || p->kept < 0) return failed;
    return posix_spawn_file_actions_adddup2(files, p->kept, p->kept); /* it stays open */
}

int hd_os_start(const hd_os_program *p, int64_t *process) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed != 0) return failed;
    if ((failed = posix_spawnattr_init(&attributes)) == 0) {
        pid_t child = -1;
        failed = set_signals(p, &attributes);
        if (failed == 0) failed = set_files(p, &files);
        if (failed == 0) failed = posix_spawnp(&child, p->file, &files, &attributes, p->arguments, p->environment);
        *process = child;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

int hd_os_finish(int64_t process) {
    int status = 0;
    while (waitpid((pid_t)process, &status, 0) < 0)
        if (errno != EINTR) return errno == ECHILD ? 0 : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void hd_os_kill(int64_t process) { kill((pid_t)process, SIGKILL); }

/* ---- processes that are nobody's child --------------------------------------------------------------------------- */
static void leave_parent(void) {
    const pid_t own = fork();
    if (own != 0) _exit(own < 0); /* who started it waits for this one only */
    setsid();                     /* signals of a terminal are for who started it */
}

static _Noreturn void serve_in_child(void (*serve)(int), int file, int errors) {
    leave_parent();
    for (int i = 1; i < NSIG; ++i) signal(i, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    if (errors != HD_OS_OURS) dup2(errors, STDERR_FILENO);
    hd_os_close_all_but(file);
    serve(file);
    _exit(0);
}

int hd_os_fork_apart(void (*serve)(int), int file, int errors) {
    sigset_t all, before;
    sigfillset(&all);
    /* handlers of forks may close the files of who calls */
    const int own = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int said = own < 0 || errors == HD_OS_OURS ? errors : fcntl(errors, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (own < 0 || said == -1) {
        const int why = errno;
        if (own >= 0) close(own);
        return why;
    }
    pthread_sigmask(SIG_SETMASK, &all, &before); /* handlers of the host are not for the child */
    const pid_t child = fork();
    if (child == 0) serve_in_child(serve, own, said);
    const int failed = child < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(own);
    if (said >= 0) close(said);
    if (failed == 0) hd_os_finish(child);
    return failed;
}

void hd_os_close_one_by_one(int kept) {
    const long most = sysconf(_SC_OPEN_MAX);
    for (int i = STDERR_FILENO + 1; i < (most > 0 && most < 1 << 16 ? most : 1 << 16); ++i)
        if (i != kept) close(i);
}

void hd_os_detach(int kept) {
    leave_parent();
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) open("/dev/null", O_WRONLY);
    hd_os_close_all_but(kept);
}

void hd_os_become_expendable(const char *name) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    hd_os_give_way(name);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */
static bool move_up(bool made, int ends[2]) {
    if (made) {
        ends[0] = hd_os_above_standard(ends[0]);
        ends[1] = hd_os_above_standard(ends[1]);
        if (ends[0] >= 0 && ends[1] >= 0) return true;
        const int why = errno;
        for (int i = 0; i < 2; ++i)
            if (ends[i] >= 0) close(ends[i]);
        errno = why;
    }
    ends[0] = ends[1] = -1;
    return false;
}
bool hd_os_pipe(int ends[2]) { return move_up(hd_os_pipe_pair(ends), ends); }
bool hd_os_streams(int ends[2]) { return move_up(hd_os_stream_pair(ends), ends); }

static bool wait_for(int stream, short what, int64_t deadline) {
    for (;;) {
        struct pollfd p = {.fd = stream, .events = what};
        const int64_t left = deadline == INT64_MAX ? 0 : deadline - hd_os_nanoseconds();
        if (left < 0) return false;
        const int64_t milliseconds = left / 1000000 + 1;
        const int n = poll(&p, 1, deadline == INT64_MAX ? -1 : milliseconds < 60000 ? (int)milliseconds : 60000);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

bool hd_os_send(int stream, const void *bytes, size_t count, int64_t deadline) {
    for (const char *at = bytes; count > 0;) {
        const ssize_t n = send(stream, at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            count -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) {
            if (!wait_for(stream, POLLOUT, deadline)) return false;
        } else {
            return false;
        }
    }
    return true;
}

bool hd_os_receive(int stream, void *bytes, size_t count, int64_t deadline) {
    for (char *at = bytes; count > 0;) {
        const ssize_t n = recv(stream, at, count, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            count -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!wait_for(stream, POLLIN, deadline)) return false;
        } else {
            return false;
        }
    }
    return true;
}

bool hd_os_has_news(int stream, int milliseconds) {
    struct pollfd p = {.fd = stream, .events = POLLIN};
    int n;
    do n = poll(&p, 1, milliseconds);
    while (n < 0 && errno == EINTR);
    return n > 0;
}
