/* Starting programs and talking with them. */
#ifndef HD_CORE_OS_PROCESS_H
#define HD_CORE_OS_PROCESS_H

#include "core/os.h"

/* ---- programs ---------------------------------------------------------------------------------------------------- */
typedef struct hd_os_program {
    const char *file; /* looked for on the PATH when it has no slash */
    char *const *arguments, *const *environment;
    const char *output_path; /* a new file for both outputs; NULL: */
    int output, errors;      /* open files for them; -1: nowhere; HD_OS_OURS: where ours go */
    int kept;                /* an open file that it keeps under its number; -1: none */
    bool resets_signals;     /* all of them are as a shell starts a program; else those that hosts ignore most */
} hd_os_program;
enum { HD_OS_OURS = -2 };
/* Starts it with nothing to read and no signal blocked; 0, or why not. */
int hd_os_start(const hd_os_program *program, int64_t *process);
/* Waits for its end and gives its exit status, 128 and more for a signal; 0 when somebody else in this process has
 * waited for it; -1: it failed, and errno says why. */
int hd_os_finish(int64_t process);
void hd_os_kill(int64_t process);

/* A name for a file in memory, by which it can be started. */
void hd_os_memory_path(int file, char *out, size_t capacity);

/* Runs `serve(file)` in a forked process that is nobody's child, with these two files and no other, signals as a shell
 * sets them, nothing to read, and what it writes to stderr in `errors` (HD_OS_OURS: where ours goes). 0, or why not.
 * Only the calling thread is in it: nothing that another one could hold may be touched. */
int hd_os_fork_apart(void (*serve)(int file), int file, int errors);

/* For a program that was started: goes on in a process that is nobody's child and has no terminal, with one file beside
 * the standard ones. */
void hd_os_detach(int kept);
/* When memory is short, this is the process to end, and nothing is to be learned from its remains. */
void hd_os_become_expendable(const char *name);

/* ---- pipes and streams: not handed on to programs, and never a signal ------------------------------------------- */
/* Both ends are numbered above the standard files, which a host may have closed; both are -1 when it failed. */
bool hd_os_pipe(int ends[2]);
bool hd_os_streams(int ends[2]);
/* All bytes, or false: the other side is gone, or it is later than `deadline` by the one clock (INT64_MAX: never). */
bool hd_os_send(int stream, const void *bytes, size_t count, int64_t deadline);
bool hd_os_receive(int stream, void *bytes, size_t count, int64_t deadline);
/* True when something is there to be read, or the other side is gone, within so many milliseconds. */
bool hd_os_has_news(int stream, int milliseconds);

/* ---- inside the layer -------------------------------------------------------------------------------------------- */
bool hd_os_pipe_pair(int ends[2]);
bool hd_os_stream_pair(int ends[2]);
void hd_os_close_all_but(int kept);
void hd_os_close_one_by_one(int kept);
void hd_os_give_way(const char *name);

#endif
