/* What macOS has in its own way. It is compiled and linked by `make check-macos`; nobody has run it. */
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif
#include "core/os.h"
#include "core/os_file.h"
#include "core/os_process.h"

#if defined(__APPLE__)
#include "core/os_wait.h"

#include <TargetConditionals.h>
#include <crt_externs.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libkern/OSCacheControl.h>
#include <mach-o/dyld.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <unistd.h>

/* ---- waiting and threads ----------------------------------------------------------------------------------------- */
void hd_os_wait(_Atomic uint32_t *word, uint32_t seen) { hd_os_wait_by_condition(word, seen); }
void hd_os_wake(_Atomic uint32_t *word) {
    (void)word;
    hd_os_wake_by_condition();
}

bool hd_os_is_first_thread(void) { return pthread_main_np() != 0; }

extern void _tlv_atexit(void (*end)(void *), void *object); /* what C++ calls for variables of a thread */

bool hd_os_at_thread_end(void (*end)(void *)) {
    _tlv_atexit(end, NULL);
    return true;
}

int hd_os_processors(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
void hd_os_memory(uint64_t *bytes, uint64_t *swap_bytes) {
    struct xsw_usage swap = {0};
    size_t size = sizeof *bytes, swap_size = sizeof swap;
    *bytes = 0;
    if (sysctlbyname("hw.memsize", bytes, &size, NULL, 0) != 0) *bytes = 0;
    *swap_bytes = sysctlbyname("vm.swapusage", &swap, &swap_size, NULL, 0) == 0 ? swap.xsu_total : 0;
}

/* On Apple's own processors such memory is writable or executable for each thread, and the system sees to it that it is
 * never both. */
#if defined(__aarch64__)
void *hd_os_code_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANON | MAP_JIT, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    pthread_jit_write_protect_np(0);
    return memory;
}

bool hd_os_code_seal(void *memory, size_t text_bytes, size_t bytes) {
    (void)bytes;
    pthread_jit_write_protect_np(1);
    sys_icache_invalidate(memory, text_bytes);
    return true;
}

void hd_os_code_unmap(void *memory, size_t bytes) {
    pthread_jit_write_protect_np(1);
    munmap(memory, bytes);
}
#else
void *hd_os_code_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool hd_os_code_seal(void *memory, size_t text_bytes, size_t bytes) {
    char *at = memory;
    return mprotect(at, text_bytes, PROT_READ | PROT_EXEC) == 0 &&
           (bytes == text_bytes || mprotect(at + text_bytes, bytes - text_bytes, PROT_READ) == 0);
}

void hd_os_code_unmap(void *memory, size_t bytes) { munmap(memory, bytes); }
#endif

/* ---- libraries --------------------------------------------------------------------------------------------------- */
bool hd_os_has_loader(void) { return true; } /* no program there is linked statically */

bool hd_os_place_of(const void *address, hd_os_place *out) {
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0) return false;
    *out = (hd_os_place){info.dli_fname, info.dli_sname, (uintptr_t)info.dli_fbase,
                         (uintptr_t)address - (uintptr_t)info.dli_fbase};
    return true;
}

bool hd_os_own_path(char *out, size_t capacity) {
    uint32_t size = capacity < UINT32_MAX ? (uint32_t)capacity : UINT32_MAX;
    return _NSGetExecutablePath(out, &size) == 0;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */
bool hd_os_is_trusted(void) { return issetugid() == 0; }

char **hd_os_environment(void) { return *_NSGetEnviron(); }

void hd_os_environment_extend(char **array, size_t count, char *entry) {
    if (count > 0) memcpy(array, hd_os_environment(), count * sizeof *array);
    array[count] = entry;
    array[count + 1] = NULL;
    __atomic_store_n(_NSGetEnviron(), array, __ATOMIC_RELEASE);
}

void hd_os_processor_text(char *out, size_t capacity) {
    size_t size = capacity;
    out[0] = '\0';
    if (sysctlbyname("machdep.cpu.brand_string", out, &size, NULL, 0) != 0) out[0] = '\0';
    out[capacity - 1] = '\0';
}

bool hd_os_use_matrix_unit(void) { return false; }

/* ---- files ------------------------------------------------------------------------------------------------------- */
int64_t hd_os_changed_at(const struct stat *status) {
    return (int64_t)status->st_mtimespec.tv_sec * 1000000000 + status->st_mtimespec.tv_nsec;
}

void hd_os_file_ask_ahead(int file, uint64_t offset, uint64_t bytes) {
    struct radvisory what = {.ra_offset = (off_t)offset, .ra_count = bytes < 1 << 30 ? (int)bytes : 1 << 30};
    fcntl(file, F_RDADVISE, &what);
}

int hd_os_memory_file(const char *name, bool is_program) {
    (void)name, (void)is_program;
    errno = ENOSYS;
    return -1;
}
void hd_os_memory_path(int file, char *out, size_t capacity) { snprintf(out, capacity, "/dev/fd/%d", file); }

/* ---- processes: a program that is started between two of these calls gets the files, too ------------------------ */
static void keep_to_ourselves(const int ends[2]) {
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
}

bool hd_os_pipe_pair(int ends[2]) {
    if (pipe(ends) != 0) return false;
    keep_to_ourselves(ends);
    return true;
}

bool hd_os_stream_pair(int ends[2]) {
    const int yes = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
    keep_to_ourselves(ends);
    for (int i = 0; i < 2; ++i) setsockopt(ends[i], SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
    return true;
}

void hd_os_close_all_but(int kept) { hd_os_close_one_by_one(kept); }
void hd_os_give_way(const char *name) { (void)name; }
#endif
