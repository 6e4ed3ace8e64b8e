/* What a whole process costs, from its launch to its end: bench_start, and bench_first_batch. */
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

static const bench_case cases[] = {
    {"process/start-ms", "ms", start_ms},
    {"process/first-batch-ms", "ms", first_batch_ms},
    {"process/start-mb", "MB", start_mb},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
