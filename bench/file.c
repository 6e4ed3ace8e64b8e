/* Files with a gigabyte of numbers: saving and loading a script of that many constants beside plain writes and reads of as
 * many bytes, and how soon there is a result that needs a part of it, from such a script and from .safetensors, which are
 * mapped. Sides take turns; a figure is the best of a few, as disks are
 * moody. */
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTS = 16, PART = 16 << 20, TURNS = 3 }; /* constants, and floats in each: 64 MB */
static const size_t part_bytes = (size_t)PART * sizeof(float);
static char path[256], plain_path[300];

static void choose_paths(void) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.150s/hodu-bench-%ld.hoduscript", folder != NULL ? folder : "/tmp", (long)getpid());
    snprintf(plain_path, sizeof plain_path, "%s.plain", path);
}

static void fail(const char *what) {
    perror(what);
    unlink(path);
    unlink(plain_path);
    exit(1);
}

/* y = x + the first number of every constant, or of the first constant alone. */
static hd_script *gigabyte(bool all) {
    hd_tensor *constant[PARTS];
    for (int i = 0; i < PARTS; ++i) constant[i] = hd_full(HD_SHAPE(PART), HD_F32, i + 1);
    hd_builder *b = hd_builder_new("gigabyte");
    hd_builder_start(b);
    hd_tensor *y = hd_input("x", HD_SHAPE(), HD_F32);
    for (int i = 0; i < PARTS; ++i) {
        hd_tensor *first = hd_select(constant[i], 0, 0);
        if (all || i == 0) y = hd_add(y, first);
    }
    hd_builder_add_output(b, "y", y);
    hd_builder_end(b);
    return hd_builder_build(b);
}

/* ---- saving ---- */
static double save(hd_script *s) {
    unlink(path);
    const double begin = bench_now();
    hd_script_save(s, path);
    return bench_now() - begin;
}

/* The same bytes, to the disk as well. */
static double save_plainly(const float *from) {
    unlink(plain_path);
    const double begin = bench_now();
    const int file = open(plain_path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file < 0) fail(plain_path);
    for (int i = 0; i < PARTS; ++i)
        for (size_t at = 0; at < part_bytes;) {
            const ssize_t n = write(file, (const char *)from + at, part_bytes - at);
            if (n <= 0) fail(plain_path);
            at += (size_t)n;
        }
    if (fsync(file) != 0 || close(file) != 0) fail(plain_path);
    return bench_now() - begin;
}

static void save_gigabyte(bench *b) {
    HD_SCOPE;
    choose_paths();
    hd_script *s = gigabyte(true);
    hd_tensor *numbers = hd_full(HD_SHAPE(PART), HD_F32, 1);
    double ours = INFINITY, plain = INFINITY;
    for (int i = 0; i < TURNS && hd_ok(); ++i) {
        ours = fmin(ours, save(s));
        plain = fmin(plain, save_plainly(hd_data_f32(numbers)));
    }
    unlink(path);
    unlink(plain_path);
    bench_value(b, "hodu", ours);
    bench_value(b, "plain", plain);
}

/* ---- loading ---- */
static double load_and_run(void) {
    double seconds;
    {
        HD_SCOPE;
        const double begin = bench_now();
        hd_script *s = hd_script_load(path);
        hd_script_set_input(s, "x", hd_scalar(0, HD_F32));
        hd_script_run(s);
        seconds = bench_now() - begin;
    }
    hd_memory_trim(); /* both sides take their memory anew */
    return seconds;
}

static double read_plainly(void) {
    const double begin = bench_now();
    const int file = open(path, O_RDONLY);
    char *into[PARTS];
    if (file < 0) fail(path);
    for (int i = 0; i < PARTS; ++i) {
        into[i] = malloc(part_bytes);
        if (into[i] == NULL) fail("malloc");
        for (size_t at = 0; at < part_bytes;) {
            const ssize_t n = read(file, into[i] + at, part_bytes - at);
            if (n <= 0) fail(path);
            at += (size_t)n;
        }
    }
    close(file);
    const double seconds = bench_now() - begin;
    for (int i = 0; i < PARTS; ++i) free(into[i]);
    return seconds;
}

/* From the file, which is in the page cache, to the first result. */
static void time_loading(bench *b, bool all) {
    choose_paths();
    {
        HD_SCOPE;
        hd_script_save(gigabyte(all), path);
    }
    hd_memory_trim();
    double ours = INFINITY, plain = INFINITY;
    for (int i = 0; i < TURNS && hd_ok(); ++i) {
        ours = fmin(ours, load_and_run());
        plain = fmin(plain, read_plainly());
    }
    unlink(path);
    bench_value(b, "hodu", ours);
    bench_value(b, "plain", plain);
}
static void load_gigabyte(bench *b) { time_loading(b, true); }
static void first_run(bench *b) { time_loading(b, false); } /* which takes one constant of the sixteen */

/* ---- .safetensors ---- */
static void save_tensors(void) {
    HD_SCOPE;
    hd_archive *a = hd_archive_new();
    for (int i = 0; i < PARTS; ++i) {
        char name[20];
        snprintf(name, sizeof name, "part.%d", i);
        hd_archive_add(a, name, hd_full(HD_SHAPE(PART), HD_F32, i + 1));
    }
    hd_safetensors_save(path, a, NULL);
}

/* The sum of one of the sixteen. */
static double map_and_sum(void) {
    HD_SCOPE;
    const double begin = bench_now();
    hd_tensor *part = hd_archive_get(hd_safetensors_load(path), "part.3");
    hd_item(hd_sum(part, HD_AXES(), NULL));
    return bench_now() - begin;
}

static void first_of_safetensors(bench *b) {
    choose_paths();
    save_tensors();
    hd_memory_trim();
    double ours = INFINITY, plain = INFINITY;
    for (int i = 0; i < TURNS && hd_ok(); ++i) {
        ours = fmin(ours, map_and_sum());
        plain = fmin(plain, read_plainly());
    }
    unlink(path);
    bench_value(b, "hodu", ours);
    bench_value(b, "plain", plain);
}

static const bench_case cases[] = {
    {"file/save-1gb", "ms", save_gigabyte},
    {"file/load-1gb", "ms", load_gigabyte},
    {"file/first-run-1gb", "ms", first_run},
    {"file/safetensors-1gb", "ms", first_of_safetensors},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof cases[0]); }
