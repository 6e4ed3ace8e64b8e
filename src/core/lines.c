/* Lines of addresses, read by addr2line from the program's debug information (-g). That takes a process and some
 * milliseconds, so it is done for errors only, and only when HODU_DEBUG has "lines". */
#include "core/lines.h"
#include "core/environment.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the process prints to stdout, up to the capacity; false when it cannot be run or fails. */
static bool output_of(char *const *arguments, char *out, size_t capacity) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    bool started = false;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        started = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawnp(&child, arguments[0], &actions, NULL, arguments, hd_environment_for_programs()) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got = 1; started && got > 0 && length + 1 < capacity; length += got > 0 ? (size_t)got : 0)
        got = read(ends[0], out + length, capacity - 1 - length);
    out[length] = '\0';
    close(ends[0]);
    int status = 0;
    if (started && waitpid(child, &status, 0) != child) status = 0; /* the host waits for all children itself */
    return started && length > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool hd_lines_of(const void *caller, char *out, size_t capacity) {
    Dl_info info;
    if (caller == NULL || !hd_environment_debug("lines") || hd_environment("PATH") == NULL) return false;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return false;
    /* A return address is behind the call, and that may be the next line already. */
    uintptr_t address = (uintptr_t)caller - 1;
    if (((const Elf64_Ehdr *)info.dli_fbase)->e_type != ET_EXEC) address -= (uintptr_t)info.dli_fbase;
    char number[32], text[512];
    snprintf(number, sizeof number, "%#jx", (uintmax_t)address);
    /* A program that was found on the PATH is known to dladdr by the name it was called by. */
    const char *file = strchr(info.dli_fname, '/') != NULL ? info.dli_fname : "/proc/self/exe";
    char own[512];
    const ssize_t length = file == info.dli_fname ? -1 : readlink(file, own, sizeof own - 1);
    if (length > 0) own[length] = '\0';
    char *arguments[] = {"addr2line", "-e", (char *)(uintptr_t)(length > 0 ? own : file), number, NULL};
    if (!output_of(arguments, text, sizeof text) || text[0] == '?') return false;
    text[strcspn(text, " \n")] = '\0';
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon[1] < '1' || colon[1] > '9') return false;
    snprintf(out, capacity, "%s", text);
    return true;
}
