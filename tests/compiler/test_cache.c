/* The disk cache: what is written is read back, and nothing else ever is; trouble costs an entry, never an error. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "codegen/code.h"
#include "compiler/own_cache.h"
#include "core/memory.h"

/* An entry that follows from its number. */
enum { BYTES = 3000 };
static void fill(int number, char *object) {
    for (int i = 0; i < BYTES; ++i) object[i] = (char)(number * 31 + i * 7 + i / 256);
}

static size_t key_of(int number, char key[64]) { return (size_t)snprintf(key, 64, "target %d", number) + 1; }

static void put(int number) {
    char key[64], object[BYTES];
    fill(number, object);
    hd_cache_write(key, key_of(number, key), object, BYTES);
}

/* False when there is none; a wrong one is a failure. */
static bool get(int number) {
    char key[64], expected[BYTES];
    size_t bytes = 0;
    char *object = hd_cache_read(key, key_of(number, key), &bytes);
    if (object == NULL) return false;
    fill(number, expected);
    const bool right = bytes == BYTES && memcmp(object, expected, BYTES) == 0;
    hd_array_release(object);
    if (!right) fail_msg("entry %d is not what was written", number);
    return true;
}

/* The path of the only entry in the directory. */
static const char *only_entry(void) {
    static char path[512];
    int found = 0;
    DIR *d = opendir(own_cache);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".code") != NULL) {
            snprintf(path, sizeof path, "%s/%s", own_cache, e->d_name);
            found++;
        }
    closedir(d);
    assert_int_equal(found, 1);
    return path;
}

static void begin(void) {
    empty_folder(own_cache);
    unsetenv("HODU_CACHE_LIMIT");
    setenv("HODU_CACHE_DIR", own_cache, 1);
}

/* ---- reading and writing ----------------------------------------------------------------------------------------- */
static void what_is_written_is_read_back(void **state) {
    (void)state;
    begin();
    char deep[128];
    snprintf(deep, sizeof deep, "%s/not/yet/there", own_cache);
    setenv("HODU_CACHE_DIR", deep, 1);
    assert_false(get(1));
    put(1);
    put(2);
    assert_true(get(1) && get(2));
    assert_false(get(3));
    put(1); /* once more */
    assert_true(get(1));
    assert_int_equal(hd_cache_info().disk_entries, 2);
    hd_cache_clear();
    assert_false(get(1));
    assert_int_equal(hd_cache_info().disk_entries, 0);
    assert_ok();
}

static void the_environment_says_where(void **state) {
    (void)state;
    char path[256], *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    home = home ? strdup(home) : NULL, cache = cache ? strdup(cache) : NULL;
    setenv("HODU_CACHE_DIR", "/a/b", 1);
    setenv("XDG_CACHE_HOME", "/c", 1);
    setenv("HOME", "/d", 1);
    assert_int_equal(hd_cache_directory(path, sizeof path), 4);
    assert_string_equal(path, "/a/b");
    assert_int_equal(hd_cache_directory(path, 2), 4);
    assert_string_equal(path, "/");
    assert_int_equal(hd_cache_directory(NULL, 0), 4); /* how long it is */
    assert_int_equal(hd_cache_directory(NULL, 100), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_cache_directory: `out` is NULL");
    setenv("HODU_CACHE_DIR", "", 1);
    hd_cache_directory(path, sizeof path);
    assert_string_equal(path, "/c/hodu");
    setenv("XDG_CACHE_HOME", "relative", 1);
    hd_cache_directory(path, sizeof path);
    assert_string_equal(path, "/d/.cache/hodu");
    setenv("HODU_CACHE", "0", 1);
    assert_int_equal(hd_cache_directory(path, sizeof path), 0);
    unsetenv("HODU_CACHE");
    unsetenv("HOME");
    assert_int_equal(hd_cache_directory(path, sizeof path), 0);
    put(1);
    assert_false(get(1));
    hd_cache_clear();
    assert_int_equal(hd_cache_info().disk_entries, 0);
    if (home != NULL) setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    if (cache != NULL) setenv("XDG_CACHE_HOME", cache, 1);
    free(home);
    free(cache);
}

static void limits_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } limits[] = {{"12345", 12345},  {"64K", 65536},      {"1.5M", 3 << 19},  {"2g", (int64_t)2 << 30},
                  {"0", 0},          {"3kB", 3072},       {"3 K", 256 << 20}, {"K", 256 << 20},
                  {"B", 256 << 20},  {"junk", 256 << 20}, {"-3", 256 << 20},  {"1e300", 256 << 20},
                  {"nan", 256 << 20}};
    begin();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
        setenv("HODU_CACHE_LIMIT", limits[i].text, 1);
        assert_int_equal(hd_cache_info().disk_limit, limits[i].bytes);
    }
    setenv("HODU_CACHE_LIMIT", "0", 1);
    put(1);
    assert_false(get(1));
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */
static void rewrite(const char *path, const char *bytes, size_t count) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
    chmod(path, 0600);
}

static void damaged_entries_are_none(void **state) {
    (void)state;
    begin();
    put(7);
    const char *path = only_entry();
    static char whole[2 * BYTES], copy[2 * BYTES];
    FILE *file = fopen(path, "r");
    const size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_true(size > BYTES && size < sizeof whole - 1);
    for (size_t i = 0; i < size; i += i < 200 ? 1 : 61) { /* every byte of the front */
        memcpy(copy, whole, size);
        copy[i] ^= (char)(1 << i % 8);
        rewrite(path, copy, size);
        if (get(7)) fail_msg("byte %zu was wrong, and it was read", i);
    }
    for (size_t length = 0; length < size; length += length < 200 ? 1 : 61) {
        rewrite(path, whole, length);
        if (get(7)) fail_msg("cut after %zu bytes, and it was read", length);
    }
    memcpy(copy, whole, size + 1);
    rewrite(path, copy, size + 1);
    assert_false(get(7));
    rewrite(path, whole, size);
    assert_true(get(7));
    put(7); /* over what was damaged */
    assert_true(get(7));
    assert_ok();
}

static void what_others_could_have_written_is_none(void **state) {
    (void)state;
    begin();
    put(7);
    const char *path = only_entry();
    chmod(path, 0666);
    assert_false(get(7));
    chmod(path, 0644);
    assert_true(get(7));
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_false(get(7));
    }
    char other[512];
    snprintf(other, sizeof other, "%s/other", own_cache);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_false(get(7));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes to it: a careless reader would wait forever */
    assert_false(get(7));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(get(7));
    put(7);
    assert_false(get(7));
    assert_ok();
}

/* ---- directories that cannot be written -------------------------------------------------------------------------- */
static void a_directory_that_cannot_be_written_is_silent(void **state) {
    (void)state;
    begin();
    char path[512];
    snprintf(path, sizeof path, "%s/file", own_cache);
    rewrite(path, "x", 1);
    const int64_t before = hd_cache_info().failed_writes;
    const char *const wrong[] = {path, "/proc/self/hodu", "/dev/null/hodu"};
    for (int i = 0; i < 3; ++i) {
        setenv("HODU_CACHE_DIR", wrong[i], 1);
        put(1);
        assert_false(get(1));
        hd_cache_clear();
    }
    assert_int_equal(hd_cache_info().failed_writes, before + 3);
    begin();
    put(1);
    chmod(own_cache, 0500);
    if (geteuid() != 0) { /* root writes anyway */
        put(2);
        assert_false(get(2));
    }
    assert_true(get(1));
    chmod(own_cache, 0700);
    static char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    setenv("HODU_CACHE_DIR", longest, 1);
    put(1);
    assert_false(get(1));
    assert_ok();
}

/* Half a file, as on a full disk: the limit on file sizes makes writes fail in the middle. */
static void write_with_no_room(void) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    put(1);
    const hd_cache_stats stats = hd_cache_info();
    _exit(get(1) || stats.disk_entries != 0 || !hd_ok());
}

static void a_full_disk_leaves_nothing_behind(void **state) {
    (void)state;
    begin();
    const pid_t child = fork();
    if (child == 0) write_with_no_room();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    DIR *d = opendir(own_cache);
    for (struct dirent *e; (e = readdir(d)) != NULL;) assert_null(strstr(e->d_name, ".new-"));
    closedir(d);
    put(1);
    assert_true(get(1));
}

static void a_full_file_system_is_silent(void **state) {
    (void)state;
    begin();
    char path[128];
    snprintf(path, sizeof path, "%s/small", own_cache);
    assert_int_equal(mkdir(path, 0700), 0);
    if (mount("hodu", path, "tmpfs", 0, "size=32k") != 0) {
        rmdir(path);
        skip(); /* only root may */
    }
    setenv("HODU_CACHE_DIR", path, 1);
    for (int i = 0; i < 40; ++i) put(i);
    int there = 0;
    for (int i = 0; i < 40; ++i) there += get(i);
    const int64_t failed = hd_cache_info().failed_writes;
    hd_cache_clear();
    assert_int_equal(umount(path), 0);
    rmdir(path);
    assert_in_range(there, 1, 8);
    assert_true(failed >= 32);
    assert_ok();
}

/* ---- the limit --------------------------------------------------------------------------------------------------- */
static void age(const char *path, int64_t seconds) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    utimensat(AT_FDCWD, path, times, 0);
}

static void age_all(int64_t seconds) {
    DIR *d = opendir(own_cache);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", own_cache, e->d_name);
        if (e->d_name[0] != '.') age(path, seconds);
    }
    closedir(d);
}

static void what_was_not_used_for_longest_goes(void **state) {
    (void)state;
    begin();
    setenv("HODU_CACHE_LIMIT", "64K", 1); /* 16 entries */
    for (int i = 0; i < 16; ++i) {
        age_all(1000 + 100 * (16 - i)); /* the ones before are older than the next */
        put(i);
    }
    age_all(5000);
    assert_int_equal(hd_cache_info().disk_entries, 16);
    for (int i = 0; i < 6; ++i) assert_true(get(i)); /* the oldest become the newest */
    const int64_t removed = hd_cache_info().removed;
    put(16);
    put(17);
    const hd_cache_stats stats = hd_cache_info();
    assert_true(stats.removed > removed);
    assert_in_range(stats.disk_bytes, 1, 64 << 10);
    assert_in_range(stats.disk_entries, 10, 14);
    for (int i = 0; i < 6; ++i) assert_true(get(i));
    assert_true(get(16) && get(17));
    for (int i = 100; i < 400; ++i) { /* never far above the limit, always with the newest */
        put(i);
        assert_true(get(i));
        if (i % 50 == 0) assert_in_range(hd_cache_info().disk_bytes, 1, 64 << 10);
    }
}

/* Anybody who may write into the directory could have made what lies where the size is kept. */
static void the_limit_is_kept_whatever_lies_where_the_size_is(void **state) {
    (void)state;
    enum { PIPE, READ_PIPE, FOLDER, FULL_FOLDER, LINK, HARD_LINK, HUGE, KINDS };
    char size[128], inside[140], other[128];
    for (int kind = 0; kind < KINDS; ++kind) {
        begin();
        setenv("HODU_CACHE_LIMIT", "64K", 1);
        snprintf(size, sizeof size, "%s/.size", own_cache);
        snprintf(inside, sizeof inside, "%s/x", size);
        snprintf(other, sizeof other, "%s/other", own_cache);
        int reader = -1;
        rewrite(other, "mine", 4);
        if (kind == PIPE || kind == READ_PIPE) assert_int_equal(mkfifo(size, 0600), 0);
        if (kind == READ_PIPE) reader = open(size, O_RDONLY | O_NONBLOCK);
        if (kind == FOLDER || kind == FULL_FOLDER) assert_int_equal(mkdir(size, 0700), 0);
        if (kind == FULL_FOLDER) rewrite(inside, "x", 1);
        if (kind == LINK) assert_int_equal(symlink("other", size), 0);
        if (kind == HARD_LINK) assert_int_equal(link(other, size), 0);
        if (kind == HUGE) rewrite(size, "", 0);
        if (kind == HUGE) assert_int_equal(truncate(size, (off_t)1 << 42), 0);
        for (int i = 0; i < 100; ++i) {
            put(i);
            assert_true(get(i)); /* and comes back */
            assert_in_range(hd_cache_info().disk_bytes, 1, 64 << 10);
        }
        struct stat status;
        assert_int_equal(stat(other, &status), 0);
        assert_int_equal(status.st_size, 4);
        assert_int_equal(lstat(size, &status), 0);
        assert_true(S_ISREG(status.st_mode) || kind == FULL_FOLDER);
        if (reader >= 0) close(reader);
    }
    begin();
    unsetenv("HODU_CACHE_LIMIT");
}

static void what_nobody_finished_is_swept_up(void **state) {
    (void)state;
    begin();
    char old[128], new[128];
    snprintf(old, sizeof old, "%s/.new-1-1-1", own_cache);
    snprintf(new, sizeof new, "%s/.new-2-2-2", own_cache);
    rewrite(old, "x", 1);
    rewrite(new, "x", 1);
    age(old, 10000);
    put(1); /* the first look at the directory */
    assert_int_not_equal(access(old, F_OK), 0);
    assert_int_equal(access(new, F_OK), 0);
    hd_cache_clear();
    assert_int_not_equal(access(new, F_OK), 0);
}

/* ---- many processes ---------------------------------------------------------------------------------------------- */
static int crowd_member(int who) {
    uint64_t state = 77 + (uint64_t)who;
    int hits = 0;
    for (int round = 0; round < 1500; ++round) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int number = (int)(state >> 40) % 40;
        if ((state >> 33) % 3 == 0)
            put(number);
        else
            hits += get(number);
        if (who == 0 && round % 400 == 399) hd_cache_clear();
    }
    return hits > 0 && hd_ok() ? 0 : 1;
}

static void many_processes_share_a_directory(void **state) {
    (void)state;
    begin();
    setenv("HODU_CACHE_LIMIT", "100K", 1); /* 25 of 40: they remove one another's */
    pid_t children[8];
    for (int i = 0; i < 8; ++i) {
        children[i] = fork();
        if (children[i] == 0) _exit(crowd_member(i));
    }
    for (int i = 0; i < 8; ++i) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 40; ++i) get(i);
    DIR *d = opendir(own_cache);
    for (struct dirent *e; (e = readdir(d)) != NULL;) assert_null(strstr(e->d_name, ".new-"));
    closedir(d);
    assert_in_range(hd_cache_info().disk_bytes, 1, 150 << 10);
}

static void no_memory_is_no_entry(void **state) {
    (void)state;
    char size[128];
    begin();
    put(1);
    snprintf(size, sizeof size, "%s/.size", own_cache);
    for (int n = 0; n < 4; ++n) {
        unlink(size); /* then a write reads the directory, which takes memory */
        hd_memory_fail_after(n);
        put(2);
        const bool read = get(1);
        hd_memory_fail_after(-1);
        assert_true(read || n < 2);
    }
    assert_true(get(1) && get(2));
    assert_ok();
}

int main(void) {
    const struct CMUnitTest tests[] = {test(what_is_written_is_read_back),
                                       test(the_environment_says_where),
                                       test(limits_are_read),
                                       test(damaged_entries_are_none),
                                       test(what_others_could_have_written_is_none),
                                       test(a_directory_that_cannot_be_written_is_silent),
                                       test(a_full_disk_leaves_nothing_behind),
                                       test(a_full_file_system_is_silent),
                                       test(what_was_not_used_for_longest_goes),
                                       test(the_limit_is_kept_whatever_lies_where_the_size_is),
                                       test(what_nobody_finished_is_swept_up),
                                       test(many_processes_share_a_directory),
                                       test(no_memory_is_no_entry)};
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}
