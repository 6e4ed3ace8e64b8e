/* What a whole process costs: bench_start, from its launch to its end. */
#include "harness.h"

#include <libgen.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* bench_start lies beside this program. */
static const char *start_path(void) {
    static char path[4096];
    char self[4000];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return "bench_start";
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/bench_start", dirname(self));
    return path;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void start_ms(bench *b) {
    char *argv[] = {(char *)start_path(), NULL};
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            pid_t child;
            int status;
            if (posix_spawn(&child, argv[0], NULL, NULL, argv, environ) != 0) fail(argv[0]);
            if (waitpid(child, &status, 0) != child || status != 0) fail(argv[0]);
        }
    }
}

static void start_mb(bench *b) {
    char command[4200];
    snprintf(command, sizeof command, "'%s' report", start_path());
    double megabytes = 0;
    FILE *child = popen(command, "r");
    if (child == NULL || fscanf(child, "%lf", &megabytes) != 1 || pclose(child) != 0) fail(command);
    bench_value(b, "hodu", megabytes);
}

static const bench_case cases[] = {
    {"process/start-ms", "ms", start_ms},
    {"process/start-mb", "MB", start_mb},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
