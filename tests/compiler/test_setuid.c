/* A program that runs with more rights than who called it, and got its environment from there: nothing in that says
 * which library is opened, which program is run or where files lie. Root makes a set-uid copy of this program and runs
 * it as nobody; others cannot. */
#include "core/environment.h"
#include "printed.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>

enum { NOBODY = 65534, SKIPPED = 77, MOST_BYTES = 1 << 20 };
static const char *const names[] = {"HODU_LLVM",
                                    "HODU_CC",
                                    "HODU_CACHE_DIR",
                                    "HODU_XLA_PLUGIN",
                                    "HODU_XLA_PLUGIN_CPU",
                                    "HODU_XLA_PLUGIN_CUDA",
                                    "TMPDIR",
                                    "XDG_CACHE_HOME",
                                    "XDG_DATA_HOME",
                                    "HOME",
                                    "PATH",
                                    "VIRTUAL_ENV",
                                    "CONDA_PREFIX",
                                    "XLA_FLAGS",
                                    "HODU_COMPILER"};
enum { NAMES = sizeof names / sizeof names[0] };

/* ---- what the copy does ------------------------------------------------------------------------------------------ */
static bool runs_a_script(void) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("some");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_tanh(hd_exp(hd_input("x", HD_SHAPE(3), HD_F32))));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", hd_zeros(HD_SHAPE(3), HD_F32));
    const bool ran = hd_script_run(s) != NULL;
    if (!ran) printf("%s\n", hd_error_message());
    hd_error_clear();
    return ran;
}

/* 0: as it should be; 1: it is not, and stdout says why; SKIPPED: this system ignores the set-uid bit. */
static int copy_main(bool with_rights) {
    char directory[256];
    if (with_rights != (getauxval(AT_SECURE) != 0)) return SKIPPED;
    int seen = 0;
    for (int i = 0; i < NAMES; ++i) {
        const bool is_set = hd_environment(names[i]) != NULL;
        if (with_rights && is_set) printf("%s is read\n", names[i]);
        seen += is_set;
    }
    if (seen != (with_rights ? 0 : NAMES)) return 1;
    char *const *given = hd_environment_for_programs();
    if (with_rights && (strcmp(given[0], "PATH=/usr/local/bin:/usr/bin:/bin") != 0 || given[1] != NULL)) return 1;
    if (with_rights && hd_cache_directory(directory, sizeof directory) != 0) return 1;
    return runs_a_script() == with_rights ? 0 : 1; /* without, HODU_COMPILER and HODU_LLVM name what is not there */
}

/* ---- making it and running it ------------------------------------------------------------------------------------ */
static void copy_self(const char *path) {
    static char bytes[MOST_BYTES];
    const int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_true(from >= 0 && to >= 0);
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) assert_int_equal(write(to, bytes, (size_t)n), n);
    close(from);
    close(to);
}

static void become_nobody_and_run(const char *path, const char *how) {
    char variables[NAMES][300], *environment[NAMES + 2], *const arguments[] = {(char *)path, (char *)how, NULL};
    int count = 0;
    for (; count < NAMES; ++count) {
        const char *value = strcmp(names[count], "HODU_COMPILER") == 0 ? "hodu" : "/nonexistent/of-the-caller";
        snprintf(variables[count], sizeof variables[count], "%s=%s", names[count], value);
        environment[count] = variables[count];
    }
    environment[count++] = (char *)"ASAN_OPTIONS=intercept_tls_get_addr=0:detect_leaks=0";
    environment[count] = NULL;
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(SKIPPED);
    execve(path, arguments, environment);
    _exit(2);
}

static int status_of(const char *path, mode_t mode, const char *how) {
    assert_int_equal(chmod(path, mode), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) become_nobody_and_run(path, how);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("the copy ended with status %x", (unsigned)status);
    return WEXITSTATUS(status);
}

static void a_set_uid_program_reads_nothing_of_its_callers_environment(void **state) {
    (void)state;
    not_emulated("QEMU does not run set-uid programs with their owner's rights");
    if (geteuid() != 0) {
        print_message("only root can make a set-uid program of root\n");
        skip();
    }
    char folder[] = "/tmp/hodu-setuid-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/copy", folder);
    copy_self(path);
    chmod(folder, 0755);
    const int plain = status_of(path, 0755, "plain"), with_rights = status_of(path, 04755, "with-rights");
    unlink(path);
    rmdir(folder);
    if (plain == SKIPPED || with_rights == SKIPPED) {
        print_message("this system does not run set-uid programs with their owner's rights\n");
        skip();
    }
    assert_int_equal(plain, 0); /* else the other says nothing */
    assert_int_equal(with_rights, 0);
}

int main(int count, char **arguments) {
    if (count > 1) return copy_main(strcmp(arguments[1], "with-rights") == 0);
    const struct CMUnitTest tests[] = {test(a_set_uid_program_reads_nothing_of_its_callers_environment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
