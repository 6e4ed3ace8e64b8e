/* CUDA's device on the fake of its driver, and stories about it: each is a process of its own, as a driver is opened
 * once. */
#ifndef HD_TESTS_CUDA_OPEN_FAKE_H
#define HD_TESTS_CUDA_OPEN_FAKE_H

#include "cuda/compiled.h"
#include "cuda/fake_cuda.h"
#include "in_a_child.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static fake_cuda *fake;

/* A library is found by its name when one of that name is open already. */
static inline void with_driver(const char *path, const char *wish) {
    setenv("FAKE_CUDA", wish, 1);
    setenv("HODU_NVRTC", path, 0);
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) fprintf(stderr, "%s\n", dlerror());
    require(driver != NULL);
    fake = dlsym(driver, "fake_cuda_now");
}

static inline void in_child(void (*story)(const void *), const void *context) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        story(context);
        exit(hd_ok() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("the child ended with %#x", (unsigned)status);
}

/* The library's own cache is the user's. Text that this program compiles is kept while it runs. */
static char kept_folder[] = "/tmp/hodu-cuda-XXXXXX";
static inline bool begin_keeping(void) {
    setenv("HODU_CACHE", "0", 1);
    setenv("HODU_CUBLASLT", "none", 1); /* a real one asks for a real driver */
    unsetenv("HODU_NVRTC");
    unsetenv("HODU_DEVICE");
    return mkdtemp(kept_folder) != NULL && setenv("FAKE_CUDA_KEEP", kept_folder, 1) == 0;
}
static inline void end_keeping(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", kept_folder);
    if (system(command) != 0) fprintf(stderr, "%s is left\n", kept_folder);
}
/* main of a program of such tests. */
#define RUN_WITH_FAKE(...)                                                                                             \
    int main(void) {                                                                                                   \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                               \
        if (compiled_by() == NULL || !begin_keeping()) {                                                               \
            print_message("skipped: there is no C++ compiler, or no /tmp\n");                                          \
            return 77;                                                                                                 \
        }                                                                                                              \
        const int failed = cmocka_run_group_tests(tests, NULL, NULL);                                                  \
        end_keeping();                                                                                                 \
        return failed;                                                                                                 \
    }

#endif
