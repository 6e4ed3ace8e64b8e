/* What a whole process costs: bench_start and bench_first_batch, from launch to end; bench_first_native, from launch
 * to its first result. */
#include "harness.h"

#include <libgen.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The program of that name, which lies beside this one. */
static const char *path_of(const char *name) {
    static char path[4096];
    char self[4000];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return name;
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/%s", dirname(self), name);
    return path;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void time_launches(bench *b, const char *name) {
    char *argv[] = {(char *)path_of(name), NULL};
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            pid_t child;
            int status;
            if (posix_spawn(&child, argv[0], NULL, NULL, argv, environ) != 0) fail(argv[0]);
            if (waitpid(child, &status, 0) != child || status != 0) fail(argv[0]);
        }
    }
}

static void start_ms(bench *b) { time_launches(b, "bench_start"); }
static void first_batch_ms(bench *b) { time_launches(b, "bench_first_batch"); }

static void start_mb(bench *b) {
    char command[4200];
    snprintf(command, sizeof command, "'%s' report", path_of("bench_start"));
    double megabytes = 0;
    FILE *child = popen(command, "r");
    if (child == NULL || fscanf(child, "%lf", &megabytes) != 1 || pclose(child) != 0) fail(command);
    bench_value(b, "hodu", megabytes);
}

/* ---- a script with its machine code ------------------------------------------------------------------------------ */
static double when_the_result_was_there(const char *program, const char *file) {
    int ends[2], status;
    char text[64] = "", *argv[] = {(char *)program, (char *)file, NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0 || posix_spawn_file_actions_init(&actions) != 0) fail("pipe");
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child;
    if (posix_spawn(&child, program, &actions, NULL, argv, environ) != 0) fail(program);
    close(ends[1]);
    if (waitpid(child, &status, 0) != child || status != 0) fail(program);
    const ssize_t got = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    posix_spawn_file_actions_destroy(&actions);
    if (got <= 0) fail(program);
    return strtod(text, NULL);
}

/* There is no cache, and where LLVM would be looked for, nothing. */
static void first_native_ms(bench *b) {
    enum { PROCESSES = 41 };
    const char *program = path_of("bench_first_native"), *base = getenv("TMPDIR");
    char folder[300], file[320], command[4600];
    double sample[PROCESSES];
    snprintf(folder, sizeof folder, "%s/hodu-bench-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL) fail(folder);
    snprintf(file, sizeof file, "%s/digits.hoduscript", folder);
    snprintf(command, sizeof command, "'%s' save '%s'", program, file);
    if (system(command) != 0) fail(command);
    setenv("HODU_CACHE", "0", 1);
    setenv("HODU_LLVM", "/nowhere", 1);
    for (int i = 0; i < PROCESSES; ++i) {
        const double begin = bench_now();
        sample[i] = when_the_result_was_there(program, file) - begin;
    }
    unsetenv("HODU_CACHE");
    unsetenv("HODU_LLVM");
    unlink(file);
    rmdir(folder);
    qsort(sample, PROCESSES, sizeof *sample, bench_compare);
    bench_value(b, "hodu", sample[PROCESSES / 2]);
}

static const bench_case cases[] = {
    {"process/start-ms", "ms", start_ms},
    {"process/first-batch-ms", "ms", first_batch_ms},
    {"process/start-mb", "MB", start_mb},
    {"process/first-result-native", "ms", first_native_ms},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
