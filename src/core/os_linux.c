/* What Linux has in its own way. */
#define _GNU_SOURCE
#include "core/os.h"
#include "core/os_file.h"
#include "core/os_process.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#ifdef __aarch64__
#include <linux/membarrier.h>
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u
#endif

/* ---- waiting and threads ----------------------------------------------------------------------------------------- */
void hd_os_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
void hd_os_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

bool hd_os_is_first_thread(void) { return getpid() == (pid_t)syscall(SYS_gettid); }

extern int __cxa_thread_atexit_impl(void (*end)(void *), void *object, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

bool hd_os_at_thread_end(void (*end)(void *)) {
    return __cxa_thread_atexit_impl != NULL && __cxa_thread_atexit_impl(end, NULL, &__dso_handle) == 0;
}

int hd_os_processors(void) {
    cpu_set_t set;
    const long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 && count < INT_MAX ? (int)count : 1;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
void hd_os_memory(uint64_t *bytes, uint64_t *swap_bytes) {
    struct sysinfo machine;
    const bool known = sysinfo(&machine) == 0;
    *bytes = known ? (uint64_t)machine.totalram * machine.mem_unit : 0;
    *swap_bytes = known ? (uint64_t)machine.totalswap * machine.mem_unit : 0;
}

void *hd_os_code_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A core of AArch64 may still hold instructions that lay here before: each one has to forget them, and only the system
 * can reach them all. One too old to do so takes far longer to make memory executable than a core looks ahead. */
static void forget_old_code(void) {
#ifdef __aarch64__
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
#endif
}

bool hd_os_code_seal(void *memory, size_t text_bytes, size_t bytes) {
    char *at = memory;
    __builtin___clear_cache(at, at + text_bytes);
    if (mprotect(at, text_bytes, PROT_READ | PROT_EXEC) != 0) return false;
    if (bytes > text_bytes && mprotect(at + text_bytes, bytes - text_bytes, PROT_READ) != 0) return false;
    forget_old_code();
    return true;
}

void hd_os_code_unmap(void *memory, size_t bytes) { munmap(memory, bytes); }

/* ---- libraries --------------------------------------------------------------------------------------------------- */
bool hd_os_has_loader(void) { return getauxval(AT_BASE) != 0; }

bool hd_os_place_of(const void *address, hd_os_place *out) {
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0) return false;
    *out = (hd_os_place){info.dli_fname, info.dli_sname, (uintptr_t)info.dli_fbase, (uintptr_t)address};
    /* a program that is not to be moved counts from 0, everything else from where it begins */
    if (((const Elf64_Ehdr *)info.dli_fbase)->e_type != ET_EXEC) out->in_file -= out->base;
    return true;
}

bool hd_os_own_path(char *out, size_t capacity) {
    const ssize_t length = readlink("/proc/self/exe", out, capacity - 1);
    if (length > 0) out[length] = '\0';
    return length > 0;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */
bool hd_os_is_trusted(void) { return getauxval(AT_SECURE) == 0; }

char **hd_os_environment(void) { return environ; }

void hd_os_environment_extend(char **array, size_t count, char *entry) {
    if (count > 0) memcpy(array, environ, count * sizeof *array);
    array[count] = entry;
    array[count + 1] = NULL;
    __atomic_store_n(&environ, array, __ATOMIC_RELEASE);
}

void hd_os_processor_text(char *out, size_t capacity) {
    snprintf(out, capacity, "%lx.%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}

bool hd_os_use_matrix_unit(void) {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
    const int request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
int64_t hd_os_changed_at(const struct stat *status) {
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

void hd_os_file_ask_ahead(int file, uint64_t offset, uint64_t bytes) {
    posix_fadvise(file, (off_t)offset, (off_t)bytes, POSIX_FADV_WILLNEED);
}

int hd_os_memory_file(const char *name, bool is_program) {
    int file = memfd_create(name, MFD_CLOEXEC | (is_program ? MFD_EXEC : 0));
    if (file < 0 && is_program && errno == EINVAL) file = memfd_create(name, MFD_CLOEXEC); /* older systems */
    return hd_os_above_standard(file);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */
bool hd_os_pipe_pair(int ends[2]) { return pipe2(ends, O_CLOEXEC) == 0; }
bool hd_os_stream_pair(int ends[2]) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0; }

/* False where the system is too old. */
static bool close_range_of(unsigned first, unsigned last) { return syscall(SYS_close_range, first, last, 0) == 0; }

void hd_os_close_all_but(int kept) {
    const unsigned first = STDERR_FILENO + 1;
    if (((unsigned)kept == first || close_range_of(first, (unsigned)kept - 1)) &&
        close_range_of((unsigned)kept + 1, ~0u))
        return;
    hd_os_close_one_by_one(kept);
}

void hd_os_give_way(const char *name) {
    static const char most_willing[] = "1000";
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        const ssize_t written = write(file, most_willing, sizeof most_willing - 1);
        (void)written;
        close(file);
    }
    prctl(PR_SET_NAME, name);
}

void hd_os_memory_path(int file, char *out, size_t capacity) { snprintf(out, capacity, "/proc/self/fd/%d", file); }
#endif
