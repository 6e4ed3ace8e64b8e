/* LLVM's own process: whatever becomes of it, who asked gets an object or an error, and the next kernel is compiled. */
#include "compiler/finish.h"
#include "printed.h"

#if HD_HAS_LLVM
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "codegen/code.h"
#include "codegen/server.h"
#include "core/memory.h"

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
/* out = tanh(x) * (number + 2): as many different ones as there are numbers. */
static hd_kernel numbered(int number) {
    static const uint8_t along[HD_KERNEL_AXES] = {HD_STRIDE_ONE};
    hd_kernel k;
    hd_kernel_init(&k, 1, 1);
    const int x = hd_kernel_load(&k, hd_kernel_add_buffer(&k, HD_F32, false, along), -1);
    const int c = hd_kernel_constant(&k, HD_COMPUTE_F32, number + 2);
    const int y = hd_kernel_word(&k, HD_WORD_MUL, hd_kernel_word(&k, HD_WORD_TANH, x, -1, -1), c, -1);
    hd_kernel_store(&k, hd_kernel_add_buffer(&k, HD_F32, true, along), y);
    if (kernel_finish(&k, 0, hd_code_vector_bytes()) != HD_OK) abort();
    return k;
}

/* Compiles and runs it; an error stays pending. */
static bool works(int number) {
    enum { N = 77 };
    float x[N], y[N];
    const int64_t geometry[8] = {N, 0, 1, 1};
    hd_kernel k = numbered(number);
    void *object = NULL;
    size_t bytes = 0;
    hd_code code = {.run = NULL};
    const bool made = hd_llvm_object(&k, "kernel", &object, &bytes) == HD_OK &&
                      hd_object_load(object, bytes, "kernel", &code) == HD_OK;
    hd_array_release(object);
    hd_kernel_release(&k);
    if (!made) return false;
    for (int i = 0; i < N; ++i) x[i] = (float)(i == 40 ? 100 : 0), y[i] = -1;
    code.run((char *[]){(char *)x, (char *)y}, geometry, NULL, NULL);
    hd_object_unload(&code);
    for (int i = 0; i < N; ++i)
        if (y[i] != (i == 40 ? (float)(number + 2) : 0)) return false;
    return true;
}

static int only_server(void) {
    int process = 0;
    assert_int_equal(hd_server_processes(&process, 1), 1);
    return process;
}

static void sleep_for(int milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* Whoever takes over orphans here lets them lie: one that only lies there is gone. Its files are, when no other thread
 * of it (tsan has one) is left. */
static bool is_lying(const char *stat) {
    const char *name_end = strrchr(stat, ')');
    char how = ' ';
    int threads = 0;
    return name_end != NULL &&
           sscanf(name_end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &how,
                  &threads) == 2 &&
           how == 'Z' && threads <= 1;
}

static bool is_gone(int process) {
    for (int i = 0; i < 1000 && kill(process, 0) == 0; ++i) {
        char path[40], text[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", process);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            const size_t length = fread(text, 1, sizeof text - 1, file);
            text[length] = '\0';
            fclose(file);
        }
        if (is_lying(text)) return true;
        sleep_for(10);
    }
    return kill(process, 0) != 0;
}

static int begin(void **state) {
    (void)state;
    hd_server_end_all();
    hd_server_forks = false;
    hd_server_idle_milliseconds = 10000;
    hd_server_patience_milliseconds = 300000;
    return 0;
}

/* ---- short of memory --------------------------------------------------------------------------------------------- */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_OWN_MALLOC = 1 }; /* which nothing is put in front of */
#else
enum { HAS_OWN_MALLOC = 0 };
#endif

#define NOT_STARTED "LLVM's process is forked there, not started, and loads no library before others"

static void make_short(const char *name, long value, bool for_good) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    setenv("LD_PRELOAD", SHORT_OF_MEMORY, 1); /* of processes that are started from now on */
    setenv(name, text, 1);
    if (for_good) setenv("SHORT_FOR_GOOD", "1", 1);
}

static void make_well(void) {
    unsetenv("LD_PRELOAD");
    unsetenv("SHORT_AFTER");
    unsetenv("SHORT_FOR_GOOD");
    unsetenv("SHORT_BYTES");
}

static int errors, fine;
static void tally(long point) {
    if (works(1)) {
        fine++;
        hd_server_end_all();
    } else {
        if (hd_error_code() != HD_ERROR_MEMORY || strstr(hd_error_message(), "memory") == NULL)
            fail_msg("point %ld: %s", point, hd_error_message());
        errors++;
    }
    hd_error_clear();
}

static void every_allocation_inside_llvm_may_fail(void **state) {
    (void)state;
    not_emulated(NOT_STARTED);
    if (HAS_OWN_MALLOC) skip();
    errors = fine = 0;
    long points = 0;
    for (long n = 1; n < 60000; n += n / 6 + 1, ++points) {
        hd_server_end_all();
        make_short("SHORT_AFTER", n, points % 2 != 0);
        tally(n);
        make_well();
        if (points % 8 == 0 && !works(2)) fail_msg("after point %ld: %s", n, hd_error_message());
    }
    print_message("%ld points: %d errors, %d kernels compiled\n", points, errors, fine);
    assert_true(errors > 30); /* else nothing was short */
    assert_true(works(3));
}

static void address_space_may_run_out_inside_llvm(void **state) {
    (void)state;
    not_emulated(NOT_STARTED);
    if (HAS_OWN_MALLOC) skip();
    errors = fine = 0;
    for (long megabytes = 4; megabytes < 240; megabytes += 6) {
        hd_server_end_all();
        make_short("SHORT_BYTES", megabytes << 20, false);
        tally(megabytes);
        make_well();
    }
    print_message("%d errors, %d kernels compiled\n", errors, fine);
    assert_true(errors > 10);
    assert_true(works(4));
}

/* ---- killed, stopped, ended -------------------------------------------------------------------------------------- */
static void *compile_in_a_thread(void *message) {
    if (!works(7)) snprintf(message, 1024, "%d %s", hd_error_code(), hd_error_message());
    hd_error_clear();
    return NULL;
}

/* It has the order, and is killed before it answers. */
static void one_that_is_killed_is_an_error(void **state) {
    (void)state;
    for (int forks = 0; forks < 2; ++forks) {
        begin(NULL);
        hd_server_forks = forks != 0;
        assert_true(works(5));
        const int process = only_server();
        char message[1024] = "", expected[64];
        pthread_t thread;
        assert_int_equal(kill(process, SIGSTOP), 0);
        assert_int_equal(pthread_create(&thread, NULL, compile_in_a_thread, message), 0);
        sleep_for(100);
        assert_int_equal(kill(process, SIGKILL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        snprintf(expected, sizeof expected, "its process, %d, ended without an answer", process);
        if (strstr(message, expected) == NULL || atoi(message) != HD_ERROR_MEMORY) fail_msg("%s", message);
        assert_true(is_gone(process));
        assert_true(works(7));
        assert_true(only_server() != process);
    }
}

static void one_that_aborts_is_an_error(void **state) {
    (void)state;
    assert_true(works(5));
    const int process = only_server();
    char message[1024] = "";
    pthread_t thread;
    assert_int_equal(kill(process, SIGSTOP), 0);
    assert_int_equal(pthread_create(&thread, NULL, compile_in_a_thread, message), 0);
    sleep_for(100);
    kill(process, SIGABRT);
    kill(process, SIGCONT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (strstr(message, "memory ran out while LLVM compiled a kernel") == NULL || strstr(message, "aborted") == NULL)
        fail_msg("%s", message);
    assert_true(works(7));
}

static void one_that_hangs_is_an_error(void **state) {
    (void)state;
    assert_true(works(5));
    const int process = only_server();
    hd_server_patience_milliseconds = 200;
    assert_int_equal(kill(process, SIGSTOP), 0);
    assert_false(works(6));
    assert_error(HD_ERROR_STATE, "did not compile a kernel in 0.2 seconds");
    assert_true(is_gone(process));
    hd_server_patience_milliseconds = 300000;
    assert_true(works(6));
}

static void one_that_ended_meanwhile_is_replaced(void **state) {
    (void)state;
    assert_true(works(5));
    const int process = only_server();
    kill(process, SIGKILL);
    assert_true(is_gone(process));
    assert_true(works(6)); /* not an error: nothing was lost */
}

static void an_idle_one_ends(void **state) {
    (void)state;
    hd_server_idle_milliseconds = 30;
    assert_true(works(5));
    assert_true(is_gone(only_server()));
    assert_true(works(6));
    hd_server_end_all();
    hd_server_idle_milliseconds = 2; /* orders and farewells cross */
    for (int i = 0; i < 12; ++i) {
        assert_true(works(i));
        sleep_for(i % 4);
    }
    assert_ok();
}

static void it_ends_with_who_started_it(void **state) {
    (void)state;
    int ends[2], process = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        process = works(5) && hd_server_processes(&process, 1) == 1 ? process : 0;
        _exit(write(ends[1], &process, sizeof process) != sizeof process);
    }
    assert_int_equal(read(ends[0], &process, sizeof process), sizeof process);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    assert_true(process > 0 && is_gone(process));
}

/* ---- what the host notices --------------------------------------------------------------------------------------- */
static void a_forked_host_has_its_own(void **state) {
    (void)state;
    assert_true(works(5));
    const int process = only_server();
    const pid_t child = fork();
    if (child == 0) {
        int own = 0;
        const bool none = hd_server_processes(&own, 1) == 0;
        _exit(none && works(6) && hd_server_processes(&own, 1) == 1 && own != process ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(works(7));
    assert_int_equal(only_server(), process);
}

static void it_is_no_child_and_holds_no_file(void **state) {
    (void)state;
    for (int forks = 0; forks < 2; ++forks) {
        begin(NULL);
        hd_server_forks = forks != 0;
        int ends[2];
        char byte;
        assert_int_equal(pipe(ends), 0); /* not close-on-exec */
        assert_true(works(5));
        assert_true(only_server() > 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        close(ends[1]);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        assert_int_equal(read(ends[0], &byte, 1), 0); /* nobody else could write */
        close(ends[0]);
    }
}

static void signals_of_the_host_are_let_alone(void **state) {
    (void)state;
    static const int numbers[] = {SIGCHLD, SIGPIPE, SIGABRT};
    for (int i = 0; i < 3; ++i) signal(numbers[i], SIG_IGN);
    sigset_t all, before, after;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool well = works(5);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    for (int i = 0; i < 3; ++i) assert_true(signal(numbers[i], SIG_DFL) == SIG_IGN);
    assert_true(well && sigismember(&after, SIGUSR1) == 1);
}

/* Also where standard input and output are closed, and their numbers are the next ones. */
static void without_standard_files(void **state) {
    (void)state;
    for (int forks = 0; forks < 2; ++forks) {
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            close(0);
            close(1);
            close(2);
            hd_server_forks = forks != 0;
            _exit(works(5) && works(6) ? 0 : 1);
        }
        int status = 1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void *compile_some(void *failures) {
    for (int i = 0; i < 6; ++i) *(int *)failures += !works(i);
    return NULL;
}

/* More threads than there are servers. */
static void many_threads_share_some(void **state) {
    (void)state;
    enum { THREADS = 20 };
    pthread_t threads[THREADS];
    int failures[THREADS] = {0};
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_some, &failures[i]), 0);
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failures[i], 0);
    }
    assert_in_range(hd_server_processes(NULL, 0), 1, 16);
}

static void print_texts(void) {
    setenv("HODU_DUMP", "llvm,asm", 1);
    works(5);
}
static void texts_come_back(void **state) {
    (void)state;
    static char text[1 << 16];
    stderr_of(print_texts, text, sizeof text);
    assert_non_null(strstr(text, "---- kernel, LLVM IR ----\n"));
    assert_non_null(strstr(text, "define void @kernel("));
    assert_non_null(strstr(text, "---- kernel, assembly ----\n"));
}

/* ---- orders that nobody should send ------------------------------------------------------------------------------ */
static void kernels_from_anywhere_are_checked(void **state) {
    (void)state;
    hd_kernel k = numbered(1), copy;
    char bytes[4096], again[4096];
    const size_t count = hd_kernel_bytes(&k, bytes, sizeof bytes);
    assert_true(count < sizeof bytes);
    assert_int_equal(hd_kernel_from_bytes(&copy, bytes, count), HD_OK);
    assert_int_equal(hd_kernel_bytes(&copy, again, sizeof again), count);
    assert_memory_equal(bytes, again, count);
    hd_kernel_release(&copy);
    for (size_t n = 0; n < count; ++n) { /* cut */
        char *exact = malloc(n + 1);
        memcpy(exact, bytes, n);
        assert_int_equal(hd_kernel_from_bytes(&copy, exact, n) == HD_OK && copy.count == k.count, false);
        hd_kernel_release(&copy);
        hd_error_clear();
        free(exact);
    }
    for (size_t n = 0; n < count; ++n) { /* or damaged */
        bytes[n] ^= 0x55;
        hd_kernel_from_bytes(&copy, bytes, count);
        hd_kernel_release(&copy);
        hd_error_clear();
        bytes[n] ^= 0x55;
    }
    hd_kernel_release(&k);
}

#define server_test(function) cmocka_unit_test_setup_teardown(function, begin, no_leaks)
RUN(server_test(every_allocation_inside_llvm_may_fail), server_test(address_space_may_run_out_inside_llvm),
    server_test(one_that_is_killed_is_an_error), server_test(one_that_aborts_is_an_error),
    server_test(one_that_hangs_is_an_error), server_test(one_that_ended_meanwhile_is_replaced),
    server_test(an_idle_one_ends), server_test(it_ends_with_who_started_it), server_test(a_forked_host_has_its_own),
    server_test(it_is_no_child_and_holds_no_file), server_test(signals_of_the_host_are_let_alone),
    server_test(without_standard_files), server_test(many_threads_share_some), server_test(texts_come_back),
    server_test(kernels_from_anywhere_are_checked))
#else
int main(void) { return 77; }
#endif
