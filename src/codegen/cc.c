/* Kernels through the machine's own C compiler: HODU_CC, else cc. Slower to compile than LLVM, but it needs nothing but
 * a compiler, and its text can be read. */
#include "codegen/code.h"
#include "core/error.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os_file.h"
#include "core/os_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { MOST_ARGUMENTS = 48, PATH = 256 };

/* ---- running it -------------------------------------------------------------------------------------------------- */
static const char *compiler_name(void) {
    const char *name = hd_environment("HODU_CC");
    return name != NULL ? name : hd_environment_is_trusted() ? "cc" : "/usr/bin/cc"; /* PATH is the caller's, too */
}

/* HODU_CC may have arguments of its own ("ccache gcc"): `words` is cut apart at blanks. */
static int split(char *words, char **arguments, int most) {
    int count = 0;
    for (char *word = words + strspn(words, " "); *word != '\0' && count < most; word += strspn(word, " ")) {
        arguments[count++] = word;
        word += strcspn(word, " ");
        if (*word != '\0') *word++ = '\0';
    }
    return count;
}

/* Runs a program with both outputs in the file `messages`; gives its exit status, or -1 with errno. When somebody else
 * waited for it, the object tells how it went. */
static int run_compiler(char **arguments, const char *messages) {
    const hd_os_program program = {.file = arguments[0],
                                   .arguments = arguments,
                                   .environment = hd_environment_for_programs(),
                                   .output_path = messages,
                                   .kept = -1};
    int64_t child;
    const int failed = hd_os_start(&program, &child);
    if (failed == 0) return hd_os_finish(child);
    errno = failed;
    return -1;
}

/* ---- a folder for its files -------------------------------------------------------------------------------------- */
typedef struct folder {
    char path[PATH], source[PATH + 16], object[PATH + 16], messages[PATH + 16];
} folder;

static hd_error make_folder(folder *f) {
    const char *base = hd_environment("TMPDIR");
    const int length = snprintf(f->path, sizeof f->path, "%s/hodu-XXXXXX", base != NULL ? base : "/tmp");
    if (length >= (int)sizeof f->path || !hd_os_make_temporary(f->path))
        return hd_fail(HD_ERROR_STATE, "there is no place for the C compiler's files: %s (%s); set TMPDIR", f->path,
                       strerror(length >= (int)sizeof f->path ? ENAMETOOLONG : errno));
    snprintf(f->source, sizeof f->source, "%s/kernel.c", f->path);
    snprintf(f->object, sizeof f->object, "%s/kernel.o", f->path);
    snprintf(f->messages, sizeof f->messages, "%s/messages", f->path);
    return HD_OK;
}

static void remove_folder(const folder *f) {
    hd_os_remove(f->source);
    hd_os_remove(f->object);
    hd_os_remove(f->messages);
    hd_os_remove_folder(f->path);
}

/* The beginning of what the compiler said, in `out`. */
static const char *first_lines(const folder *f, char *out, size_t capacity) {
    const int file = hd_os_open(HD_OS_HERE, f->messages, HD_OS_READ, 0);
    size_t length = file < 0 ? 0 : hd_os_read_until_end(file, out, capacity - 1);
    if (file >= 0) hd_os_close(file);
    while (length > 0 && (out[length - 1] == '\n' || out[length - 1] == ' ')) length--;
    out[length] = '\0';
    return out;
}

/* ---- the target -------------------------------------------------------------------------------------------------- */
static void describe_cpu(char *out, size_t capacity) {
#ifdef __x86_64__
    unsigned a = 0, b = 0, c = 0, d = 0, e[4] = {0}, s[4] = {0};
    __get_cpuid(1, &a, &b, &c, &d);
    __get_cpuid_count(7, 0, &e[0], &e[1], &e[2], &e[3]);
    __get_cpuid_count(7, 1, &s[0], &s[1], &s[2], &s[3]);
    snprintf(out, capacity, "x86-64 %x %x.%x %x.%x.%x %x", a & 0xfff3ff0u, c & ~(1u << 27), d, e[1], e[2], e[3], s[0]);
#else
    hd_os_processor_text(out, capacity);
#endif
}

typedef struct target {
    struct target *next;
    int vector_bytes;
    bool is_gcc;
    char *text; /* both lie behind this struct */
    char compiler[];
} target;
static _Atomic(target *) targets; /* one for each compiler and instruction set that was ever asked for; they stay */

static target *find_target(const char *compiler, int vector_bytes) {
    target *t = atomic_load_explicit(&targets, memory_order_acquire);
    while (t != NULL && (t->vector_bytes != vector_bytes || strcmp(t->compiler, compiler) != 0)) t = t->next;
    return t;
}

/* The first line of what it says of itself. */
static hd_error ask_version(const char *compiler, char *out, size_t capacity, bool *is_gcc) {
    folder f;
    char words[1024], *arguments[MOST_ARGUMENTS];
    if (strlen(compiler) >= sizeof words) return hd_fail(HD_ERROR_VALUE, "HODU_CC is too long");
    strcpy(words, compiler);
    int count = split(words, arguments, MOST_ARGUMENTS - 2);
    if (count == 0) return hd_fail(HD_ERROR_VALUE, "HODU_CC is blank; it names a C compiler");
    arguments[count++] = (char *)"--version";
    arguments[count] = NULL;
    HD_TRY(make_folder(&f));
    const int status = run_compiler(arguments, f.messages);
    const char *why = status < 0 ? strerror(errno) : first_lines(&f, out, capacity);
    *is_gcc = strstr(out, "Free Software Foundation") != NULL; /* its first line may be that of cc */
    out[strcspn(out, "\n")] = '\0';
    remove_folder(&f);
    if (status == 0) return HD_OK;
    return hd_fail(HD_ERROR_STATE, "the C compiler \"%s\" does not run: %s; install one, or name it in HODU_CC",
                   compiler, why);
}

static target *get_target(void) {
    const char *compiler = compiler_name();
    const int vector_bytes = hd_code_vector_bytes();
    target *t = find_target(compiler, vector_bytes);
    if (t != NULL) return t;
    bool is_gcc = false;
    char version[256] = "", cpu[128], text[2048];
    HD_TRY_OR(ask_version(compiler, version, sizeof version, &is_gcc), NULL);
    describe_cpu(cpu, sizeof cpu);
    const size_t length =
        (size_t)snprintf(text, sizeof text, "c, %s, %s, %s, vectors of %d bytes", compiler, version, cpu, vector_bytes);
    t = hd_array_resize(NULL, sizeof *t + strlen(compiler) + 1 + length + 1);
    if (t == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the name of the C compiler");
        return NULL;
    }
    t->vector_bytes = vector_bytes;
    t->is_gcc = is_gcc;
    strcpy(t->compiler, compiler);
    t->text = strcpy(t->compiler + strlen(compiler) + 1, text);
    t->next = atomic_load_explicit(&targets, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&targets, &t->next, t, memory_order_release, memory_order_relaxed)) {}
    return t;
}

const char *hd_cc_target(void) {
    const target *t = get_target();
    return t == NULL ? NULL : t->text;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static hd_error write_source(const hd_kernel *k, const char *name, const folder *f) {
    const size_t length = hd_render_kernel_c(k, name, NULL, 0);
    char *text = length == 0 ? NULL : hd_array_resize(NULL, length + 1);
    if (text == NULL || hd_render_kernel_c(k, name, text, length + 1) == 0) {
        hd_array_release(text);
        return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a kernel");
    }
    const int file = hd_os_open(HD_OS_HERE, f->source, HD_OS_WRITE | HD_OS_NEW, 0600);
    bool written = file >= 0 && hd_os_write(file, text, length);
    if (file >= 0) written = hd_os_close(file) && written;
    const int why = errno;
    hd_array_release(text);
    return written ? HD_OK : hd_fail(HD_ERROR_STATE, "%s cannot be written: %s", f->source, strerror(why));
}

static hd_error read_object(const folder *f, void **object, size_t *bytes) {
    hd_os_status status;
    const int file = hd_os_open(HD_OS_HERE, f->object, HD_OS_READ, 0);
    if (file < 0 || !hd_os_status_of(file, &status) || status.bytes == 0) {
        if (file >= 0) hd_os_close(file);
        char said[256];
        return hd_fail(HD_ERROR_STATE, "the C compiler wrote no object file: %s", first_lines(f, said, sizeof said));
    }
    *bytes = (size_t)status.bytes;
    *object = hd_array_resize(NULL, *bytes);
    const bool read = *object != NULL && hd_os_read(file, *object, *bytes);
    hd_os_close(file);
    if (read) return HD_OK;
    const bool memory = *object == NULL;
    hd_array_release(*object);
    *object = NULL;
    return memory ? hd_fail(HD_ERROR_MEMORY, "no memory for an object file of %zu bytes", *bytes)
                  : hd_fail(HD_ERROR_STATE, "%s cannot be read", f->object);
}

/* What HODU_ISA allows, or all that this machine has. No tables and notes that only debuggers and linkers read. */
static int add_flags(const target *t, char **arguments, int count) {
    static const char *const always[] = {"-O3",
                                         "-std=c11",
                                         "-fPIC",
                                         "-fno-math-errno",
                                         "-fno-trapping-math",
                                         "-ffp-contract=fast",
                                         "-fopenmp-simd",
                                         "-fno-stack-protector",
                                         "-fno-strict-aliasing",
                                         "-fno-asynchronous-unwind-tables",

                                         "-w"};
    static const char *const avx2[] = {"-mavx2", "-mfma", "-mbmi2"};
    for (size_t i = 0; i < sizeof always / sizeof *always; ++i) arguments[count++] = (char *)always[i];
    if (t->is_gcc)
        arguments[count++] = (char *)"-fno-thread-jumps"; /* it takes limits to a range apart into branches */
    const hd_isa most = hd_environment_isa();
    if (most == HD_ISA_AVX2 && t->vector_bytes == 32) {
        for (int i = 0; i < 3; ++i) arguments[count++] = (char *)avx2[i];
#ifdef __x86_64__ /* NEON is in every AArch64; what else a machine has may be SVE, whose vectors have no fixed length */
    } else if (most != HD_ISA_BASELINE) {
        arguments[count++] = (char *)"-march=native";
        if (t->vector_bytes == 64) arguments[count++] = (char *)"-mprefer-vector-width=512";
#endif
    }
    return count;
}

static hd_error cc_compile(const folder *f) {
    char words[1024], said[300], *arguments[MOST_ARGUMENTS];
    const target *t = get_target();
    if (t == NULL) return HD_ERROR_STATE;
    snprintf(words, sizeof words, "%s", compiler_name());
    int count = add_flags(t, arguments, split(words, arguments, MOST_ARGUMENTS - 24));
    arguments[count++] = (char *)"-c";
    arguments[count++] = (char *)"-o";
    arguments[count++] = (char *)f->object;
    arguments[count++] = (char *)f->source;
    arguments[count] = NULL;
    const int status = run_compiler(arguments, f->messages);
    if (status == 0) return HD_OK;
    if (status < 0) return hd_fail(HD_ERROR_STATE, "the C compiler \"%s\" does not run: %s", words, strerror(errno));
    return hd_fail(HD_ERROR_STATE, "the C compiler gave up with status %d: %s", status,
                   first_lines(f, said, sizeof said));
}

hd_error hd_cc_object(const hd_kernel *k, const char *name, void **object, size_t *bytes) {
    folder f;
    *object = NULL;
    HD_TRY(make_folder(&f));
    hd_error status = write_source(k, name, &f);
    if (status == HD_OK) status = cc_compile(&f);
    if (status == HD_OK) status = read_object(&f, object, bytes);
    remove_folder(&f);
    return status;
}
