/* The layer between the library and the system: the clock, waiting (also as systems without a futex do it), memory for
 * code, files, and programs that are started. */
#include "support.h"

#include "core/os_file.h"
#include "core/os_process.h"
#include "core/os_wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void clock_only_goes_forward(void **state) {
    (void)state;
    int64_t last = hd_os_nanoseconds();
    for (int i = 0; i < 1000; ++i) {
        const int64_t now = hd_os_nanoseconds();
        assert_true(now >= last);
        last = now;
    }
}

static void *signals_of_a_thread(void *all) {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    *(bool *)all = sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1;
    return all;
}
static void threads_get_no_signals_and_can_be_joined(void **state) {
    (void)state;
    pthread_t id;
    bool blocked = false;
    void *result = NULL;
    sigset_t ours;
    assert_true(hd_os_thread_start_to_join(&id, signals_of_a_thread, &blocked));
    assert_int_equal(pthread_join(id, &result), 0);
    assert_ptr_equal(result, &blocked);
    assert_true(blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &ours); /* the program's are as they were */
    assert_int_equal(sigismember(&ours, SIGINT), 0);
}

/* ---- waiting: two threads hand a word to and fro ----------------------------------------------------------------- */
enum { TURNS = 2000 };
typedef struct table {
    _Atomic uint32_t turn;
    void (*wait)(_Atomic uint32_t *word, uint32_t seen);
    void (*wake)(_Atomic uint32_t *word);
} table;

static void play(table *t, uint32_t first) {
    for (uint32_t turn = first; turn < TURNS; turn += 2) {
        for (uint32_t seen; (seen = atomic_load(&t->turn)) != turn;) t->wait(&t->turn, seen);
        atomic_store(&t->turn, turn + 1);
        t->wake(&t->turn);
    }
}
static void *other_player(void *t) {
    play(t, 1);
    return NULL;
}

static void hand_over(table *t) {
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, other_player, t), 0);
    play(t, 0);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&t->turn), TURNS);
    t->wait(&t->turn, TURNS + 1); /* it is another already: returns at once */
}

static void sleepers_are_woken(void **state) {
    (void)state;
    table t = {.wait = hd_os_wait, .wake = hd_os_wake};
    hand_over(&t);
}

static void wake_by_condition(_Atomic uint32_t *word) {
    (void)word;
    hd_os_wake_by_condition();
}
static void sleepers_are_woken_without_a_futex(void **state) {
    (void)state;
    table t = {.wait = hd_os_wait_by_condition, .wake = wake_by_condition};
    hand_over(&t);
}

/* ---- memory for code --------------------------------------------------------------------------------------------- */
/* The rights of the mapping at an address: "rw-p". */
static void rights_at(const void *address, char out[5]) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    out[0] = '\0';
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) == 3 && (uintptr_t)address >= begin &&
            (uintptr_t)address < end)
            memcpy(out, rights, 5);
    }
    if (maps != NULL) fclose(maps);
}

static void code_is_never_writable_and_executable(void **state) {
    (void)state;
#if defined(__x86_64__)
    static const unsigned char forty_two[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov eax, 42; ret */
#elif defined(__aarch64__)
    static const uint32_t forty_two[] = {0x52800540, 0xd65f03c0}; /* mov w0, 42; ret */
#else
    skip();
#endif
    char rights[5];
    const size_t page = hd_os_page_bytes();
    char *memory = hd_os_code_map(2 * page);
    assert_non_null(memory);
    rights_at(memory, rights);
    if (rights[0] != '\0') assert_string_equal(rights, "rw-p");
    memcpy(memory, forty_two, sizeof forty_two);
    memory[page] = 7;
    assert_true(hd_os_code_seal(memory, page, 2 * page));
    rights_at(memory, rights);
    if (rights[0] != '\0') assert_string_equal(rights, "r-xp");
    rights_at(memory + page, rights);
    if (rights[0] != '\0') assert_string_equal(rights, "r--p");
    int (*run)(void);
    memcpy(&run, &memory, sizeof run);
    assert_int_equal(run(), 42);
    assert_int_equal(memory[page], 7);
    hd_os_code_unmap(memory, 2 * page);
}

static void machine_has_memory_and_processors(void **state) {
    (void)state;
    uint64_t bytes, swap;
    hd_os_memory(&bytes, &swap);
    assert_true(bytes > 1 << 20);
    assert_true(hd_os_processors() >= 1);
    assert_true(hd_os_could_map(1 << 20));
    assert_false(hd_os_could_map(SIZE_MAX / 2));
    assert_true(hd_os_is_first_thread());
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */
static void library_that_is_missing_says_why(void **state) {
    (void)state;
    char why[64] = "";
    assert_null(hd_os_library_open("/nowhere/libnothing.so", why, sizeof why));
    assert_non_null(strstr(why, "libnothing"));
}

static void places_and_paths_are_known(void **state) {
    (void)state;
    hd_os_place place;
    char own[HD_OS_PATH], real[HD_OS_PATH];
    assert_true(hd_os_place_of((const void *)(uintptr_t)&clock_only_goes_forward, &place));
    assert_non_null(strstr(place.file, "test_core_os"));
    assert_true(hd_os_own_path(own, sizeof own));
    assert_non_null(strstr(own, "test_core_os"));
    assert_true(hd_os_real_path("/tmp/.", real));
    assert_false(hd_os_real_path("/nowhere/at/all", real));
    assert_false(hd_os_place_of(NULL, &place));
}

static void versions_compare_as_numbers(void **state) {
    (void)state;
    assert_true(hd_os_compare_versions("python3.9", "python3.11") < 0);
    assert_true(hd_os_compare_versions("python3.11", "python3.9") > 0);
    assert_true(hd_os_compare_versions("python3.11", "") > 0);
    assert_true(hd_os_compare_versions("python3", "python3.1") < 0);
    assert_int_equal(hd_os_compare_versions("python3.12", "python3.12"), 0);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static void files_are_what_they_were_made(void **state) {
    (void)state;
    char folder[] = "/tmp/hodu-os-XXXXXX", path[64];
    assert_true(hd_os_make_temporary(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    const int file = hd_os_open(HD_OS_HERE, path, HD_OS_WRITE | HD_OS_NEW, 0600);
    assert_true(file >= 0);
    assert_int_equal(hd_os_open(HD_OS_HERE, path, HD_OS_WRITE | HD_OS_NEW, 0600), -1);
    assert_int_equal(errno, EEXIST);
    assert_true(hd_os_write(file, "0123456789", 10));
    assert_int_equal(hd_os_write_at(file, "xy", 2, 3), 2);
    hd_os_status status;
    assert_true(hd_os_status_of(file, &status));
    assert_true(status.is_regular && status.is_safe && status.bytes == 10 && status.rights == 0600 &&
                status.links == 1);
    assert_true(hd_os_set_rights(file, 0622) && hd_os_status_at(path, &status) && !status.is_safe);
    assert_true(hd_os_cut(file, 7) && hd_os_flush(file) && hd_os_touch(file) && hd_os_close(file));

    char text[16] = "";
    const int again = hd_os_open(HD_OS_HERE, path, HD_OS_READ, 0);
    assert_false(hd_os_read(again, text, 8)); /* it has 7 */
    assert_memory_equal(text, "012xy56", 7);
    assert_int_equal(hd_os_read_at(again, text, 16, 5), 2);
    const char *map = hd_os_file_map(again, 7);
    assert_non_null(map);
    assert_memory_equal(map, "012xy56", 7);
    hd_os_file_unmap(map, 7);
    hd_os_close(again);

    int found = 0;
    hd_os_folder *listing = hd_os_folder_open(folder);
    assert_non_null(listing);
    for (const char *name; (name = hd_os_folder_next(listing)) != NULL;) found += strcmp(name, "file") == 0;
    assert_int_equal(found, 1);
    assert_true(hd_os_status_in(hd_os_folder_file(listing), "file", &status) && status.bytes == 7);
    assert_true(hd_os_remove_in(hd_os_folder_file(listing), "file", false));
    hd_os_folder_close(listing);
    assert_false(hd_os_can_read(path));
    assert_true(hd_os_make_folder(folder)); /* it is there */
    assert_true(hd_os_remove_folder(folder));
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static void program_is_started_and_waited_for(void **state) {
    (void)state;
    int ends[2];
    int64_t child;
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)"echo said; exit 3", NULL}, said[16] = "";
    assert_true(hd_os_pipe(ends));
    hd_os_program program = {.file = "sh",
                             .arguments = arguments,
                             .environment = hd_os_environment(),
                             .output = ends[1],
                             .errors = -1,
                             .kept = -1};
    assert_int_equal(hd_os_start(&program, &child), 0);
    hd_os_close(ends[1]);
    assert_int_equal(hd_os_read_until_end(ends[0], said, sizeof said), 5);
    assert_string_equal(said, "said\n");
    hd_os_close(ends[0]);
    assert_int_equal(hd_os_finish(child), 3);
    program.file = "/nowhere/at/all";
    program.output = -1;
    assert_int_equal(hd_os_start(&program, &child), ENOENT);
}

/* A host may have closed what it does not need: a pipe must not become the program's standard input. */
static void program_has_a_pipe_where_standard_input_is_closed(void **state) {
    (void)state;
    int ends[2];
    const int kept = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    assert_true(hd_os_pipe(ends));
    assert_true(ends[0] > STDERR_FILENO && ends[1] > STDERR_FILENO);
    hd_os_close(ends[0]);
    hd_os_close(ends[1]);
    dup2(kept, STDIN_FILENO);
    close(kept);
}

static void streams_know_their_deadline(void **state) {
    (void)state;
    int ends[2];
    char text[8] = "";
    assert_true(hd_os_streams(ends));
    assert_false(hd_os_has_news(ends[0], 0));
    assert_false(hd_os_receive(ends[0], text, 1, hd_os_nanoseconds() + 2000000));
    assert_true(hd_os_send(ends[1], "hello", 6, INT64_MAX));
    assert_true(hd_os_has_news(ends[0], 0));
    assert_true(hd_os_receive(ends[0], text, 6, INT64_MAX));
    assert_string_equal(text, "hello");
    hd_os_close(ends[1]);
    assert_false(hd_os_receive(ends[0], text, 1, INT64_MAX)); /* the other side is gone */
    assert_false(hd_os_send(ends[0], text, 1, INT64_MAX));    /* and no signal is raised */
    hd_os_close(ends[0]);
}

RUN(test(clock_only_goes_forward), test(threads_get_no_signals_and_can_be_joined), test(sleepers_are_woken),
    test(sleepers_are_woken_without_a_futex), test(code_is_never_writable_and_executable),
    test(machine_has_memory_and_processors), test(library_that_is_missing_says_why), test(places_and_paths_are_known),
    test(versions_compare_as_numbers), test(files_are_what_they_were_made), test(program_is_started_and_waited_for),
    test(program_has_a_pipe_where_standard_input_is_closed), test(streams_know_their_deadline))
