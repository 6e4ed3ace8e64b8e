/* What fuzzers share: a file in memory, changed copies of files, and a main that tries them where there is no
 * libFuzzer.
 *
 * With libFuzzer (script/fuzz, io/fuzz-npy, ..., built by clang) a fuzzer is its target. Alone (script/fuzz-corpus,
 * ..., in every build) it is a program that takes a folder, and tries its files and changed copies of them. A fuzzer
 * defines SMALL: the least bytes that a file of its corpus has; IN_MEMORY, when it wants no file; and OWN_CHANGES,
 * when it has a function `change` of its own. */
#ifndef HD_TESTS_FUZZ_H
#define HD_TESTS_FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <hodu/hodu.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void broken(const char *what) {
    fprintf(stderr, "%s; pending error: %s\n", what, hd_error_message());
    abort();
}

#ifndef IN_MEMORY
/* ---- the file: in memory, under a name with an extension --------------------------------------------------------- */
static char folder[64], path[96], copy[96];
static int descriptor = -1;

static void clean_up(void) {
    unlink(path);
    unlink(copy);
    rmdir(folder);
}

static void begin(const char *extension) {
    char target[64];
    snprintf(folder, sizeof folder, "%s/hodu-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || mkdtemp(folder) == NULL) broken("no place for files");
    snprintf(path, sizeof path, "%s/in.%s", folder, extension);
    snprintf(copy, sizeof copy, "%s/out.%s", folder, extension);
    snprintf(target, sizeof target, "/proc/%ld/fd/%d", (long)getpid(), descriptor);
    if (symlink(target, path) != 0) broken("no link to the file");
    atexit(clean_up);
}

static void put(const uint8_t *bytes, size_t size) {
    if (ftruncate(descriptor, (off_t)size) != 0 || pwrite(descriptor, bytes, size, 0) != (ssize_t)size)
        broken("no memory for a file");
}
#endif

/* ---- changing files: words in place, so that sections stay where they are ---------------------------------------- */
static void change(uint8_t *b, size_t size);
static uint64_t state;
static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

#ifndef OWN_CHANGES
static void change(uint8_t *b, size_t size) {
    static const uint32_t words[] = {0,  1,   2,   3,          4,          8,          9,         16,
                                     64, 255, 256, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    for (uint64_t i = draw(4) + 1; i > 0; --i) {
        const size_t at = draw(size / 4) * 4;
        switch (draw(4)) {
        case 0: b[draw(size)] ^= (uint8_t)(1u << draw(8)); break;
        case 1: memcpy(b + at, &words[draw(sizeof words / sizeof words[0])], 4); break;
        case 2: memmove(b + at, b + draw(size / 4) * 4, 4); break;
        default: b[at] = (uint8_t)(b[at] + draw(5) - 2); break;
        }
    }
}
#endif

#ifdef HODU_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed) {
    if (size < 64 || seed % 4 == 0) return LLVMFuzzerMutate(bytes, size, most);
    state = seed * 0x9e3779b97f4a7c15u | 1;
    change(bytes, size);
    return size;
}
#else
static void try_copies(const char *name, int copies) {
    FILE *f = fopen(name, "rb");
    static uint8_t bytes[1 << 20], changed[1 << 20];
    const size_t size = f == NULL ? 0 : fread(bytes, 1, sizeof bytes, f);
    if (f == NULL || size < SMALL) broken(name);
    fclose(f);
    state = 88172645463325252; /* the same copies every time */
    LLVMFuzzerTestOneInput(bytes, size);
    for (int i = 0; i < copies; ++i) {
        memcpy(changed, bytes, size);
        change(changed, size);
        LLVMFuzzerTestOneInput(changed, size - (draw(50) == 0 ? draw(size) : 0));
    }
}

int main(int argc, char **argv) {
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    const int copies = argc > 2 ? atoi(argv[2]) : 1000;
    int files = 0;
    if (d == NULL) {
        fprintf(stderr, "usage: %s folder [copies of each file]\n", argv[0]);
        return 2;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char name[1024];
        snprintf(name, sizeof name, "%s/%s", argv[1], e->d_name);
        if (e->d_name[0] == '.') continue;
        try_copies(name, copies);
        ++files;
    }
    closedir(d);
    printf("%d files, %d changed copies of each\n", files, copies);
    return files > 0 ? 0 : 1;
}
#endif

#endif
