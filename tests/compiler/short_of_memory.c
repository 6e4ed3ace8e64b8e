/* Loaded before all other libraries (LD_PRELOAD) into the process in which LLVM compiles: makes it short of memory.
 * SHORT_AFTER=n: allocation n fails; SHORT_FOR_GOOD=1: and all that follow. SHORT_BYTES=n: of address space. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* glibc's own names of what is taken over here. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static long fails_at = -1, count;
static int for_good;

__attribute__((constructor)) static void read_wishes(void) {
    const char *after = getenv("SHORT_AFTER"), *good = getenv("SHORT_FOR_GOOD"), *bytes = getenv("SHORT_BYTES");
    if (bytes != NULL) {
        const rlim_t limit = strtoul(bytes, NULL, 10);
        setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
    }
    for_good = good != NULL;
    if (after != NULL) fails_at = atol(after);
}

static int fails(void) {
    if (fails_at < 0) return 0;
    const long now = ++count;
    if (now != fails_at && !(for_good && now > fails_at)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t number, size_t bytes) { return fails() ? NULL : __libc_calloc(number, bytes); }
void *realloc(void *memory, size_t bytes) { return fails() ? NULL : __libc_realloc(memory, bytes); }
void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }
int posix_memalign(void **out, size_t alignment, size_t bytes) {
    void *memory = fails() ? NULL : __libc_memalign(alignment, bytes);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}
