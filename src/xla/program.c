/* Programs: StableHLO text that XLA compiled. Those that live are in a table, so that equal texts are compiled once;
 * what was compiled in earlier processes is found in the disk cache, where the plugin can serialize. */
#include "xla/client.h"
#include "codegen/code.h"
#include "core/hash.h"
#include "codegen/processor.h"
#include "core/environment.h"
#include "core/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };
static struct {
    pthread_mutex_t lock;
    hd_xla_program *buckets[BUCKETS];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

void hd_xla_programs_lock(void) { pthread_mutex_lock(&table.lock); }
void hd_xla_programs_unlock(void) { pthread_mutex_unlock(&table.lock); }

/* ---- a program's memory ------------------------------------------------------------------------------------------ */
static void destroy_program(hd_xla_program *program) {
    if (program->loaded != NULL && hd_xla_loss_of(program->device) == HD_XLA_HERE) {
        const hd_xla_plugin *p = &program->device->client->plugin;
        hd_xla_went_well(p, p->loaded_destroy(&HD_PJRT(hd_pjrt_loaded_destroy, .loaded = program->loaded)));
    }
    hd_array_release(program->parameters);
    hd_array_release(program->outputs);
    hd_array_release(program->text);
    hd_array_release(program);
}

/* With a 0 behind it. */
static void *copy(const void *bytes, size_t count) {
    char *out = hd_array_resize(NULL, count + 1);
    if (out == NULL) return NULL;
    if (count > 0) memcpy(out, bytes, count);
    out[count] = '\0';
    return out;
}

static hd_xla_program *new_program(hd_xla_device *device, const char *text, size_t text_bytes,
                                   const hd_xla_parameter *parameters, int count) {
    hd_xla_program *program = hd_array_resize(NULL, sizeof *program);
    if (program != NULL) {
        *program = (hd_xla_program){.device = device, .parameter_count = count, .references = 1};
        program->hash = hd_hash(text, text_bytes, 0);
        program->text_bytes = text_bytes;
        program->text = copy(text, text_bytes);
        program->parameters = copy(parameters, (size_t)count * sizeof *parameters);
        if (program->text != NULL && program->parameters != NULL) return program;
        destroy_program(program);
    }
    hd_fail(HD_ERROR_MEMORY, "no memory for a program of %zu bytes for XLA", text_bytes);
    return NULL;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static bool is_equal(const hd_xla_program *p, const hd_xla_device *device, const char *text, size_t text_bytes,
                     uint64_t hash) {
    return p->hash == hash && p->device == device && p->text_bytes == text_bytes &&
           memcmp(p->text, text, text_bytes) == 0;
}

/* Under the lock; a new reference. */
static hd_xla_program *look_up_program(const hd_xla_device *device, const char *text, size_t text_bytes,
                                       uint64_t hash) {
    hd_xla_program *p = table.buckets[hash % BUCKETS];
    while (p != NULL && !is_equal(p, device, text, text_bytes, hash)) p = p->next;
    if (p != NULL) p->references++;
    return p;
}

/* A program that was just made; or an equal one, when another thread was quicker. */
static hd_xla_program *enter_program(hd_xla_program *program) {
    hd_xla_programs_lock();
    hd_xla_program *other = look_up_program(program->device, program->text, program->text_bytes, program->hash);
    if (other == NULL) {
        hd_xla_program **bucket = &table.buckets[program->hash % BUCKETS];
        program->next = *bucket;
        *bucket = program;
    }
    hd_xla_programs_unlock();
    if (other == NULL) return program;
    destroy_program(program);
    return other;
}

bool hd_xla_program_is_shared(const hd_xla_program *program) {
    hd_xla_programs_lock();
    const bool shared = program->references > 1;
    hd_xla_programs_unlock();
    return shared;
}

void hd_xla_program_release(hd_xla_program *program) {
    if (program == NULL) return;
    hd_xla_programs_lock();
    const bool last = --program->references == 0;
    if (last) {
        hd_xla_program **at = &table.buckets[program->hash % BUCKETS];
        while (*at != program) at = &(*at)->next;
        *at = program->next;
    }
    hd_xla_programs_unlock();
    if (last) destroy_program(program);
}

/* ---- what XLA says of it ----------------------------------------------------------------------------------------- */
static hd_error take_outputs(hd_xla_program *program, const hd_pjrt_output_types *types,
                             const hd_pjrt_output_shapes *shapes) {
    const int64_t *sizes = shapes->sizes;
    for (int i = 0; i < program->output_count; ++i) {
        hd_xla_type *type = &program->outputs[i];
        type->dtype = hd_xla_dtype_of(types->types[i]);
        if (type->dtype == HD_DTYPE_DEFAULT)
            return hd_fail(HD_ERROR_DTYPE, "output %d of a program of XLA has XLA's element type %d, which is no dtype",
                           i, types->types[i]);
        if (shapes->ranks[i] > HD_MAX_RANK)
            return hd_fail(HD_ERROR_SHAPE, "output %d of a program of XLA has rank %zu; %d is the most", i,
                           shapes->ranks[i], HD_MAX_RANK);
        type->shape = hd_shape_of(sizes, shapes->ranks[i]);
        sizes += shapes->ranks[i];
    }
    return HD_OK;
}

static hd_error read_outputs(hd_xla_program *program, hd_pjrt_executable *executable) {
    static const char what[] = "XLA does not say what a program gives";
    const hd_xla_plugin *p = &program->device->client->plugin;
    hd_pjrt_output_count number = HD_PJRT(hd_pjrt_output_count, .executable = executable);
    HD_TRY(hd_xla_check(p, p->output_count(&number), what));
    hd_pjrt_output_types types = HD_PJRT(hd_pjrt_output_types, .executable = executable);
    HD_TRY(hd_xla_check(p, p->output_types(&types), what));
    hd_pjrt_output_shapes shapes = HD_PJRT(hd_pjrt_output_shapes, .executable = executable);
    HD_TRY(hd_xla_check(p, p->output_shapes(&shapes), what));
    if (types.count != number.count)
        return hd_fail(HD_ERROR_INTERNAL, "XLA says that a program has %zu outputs, and types of %zu", number.count,
                       types.count);
    program->output_count = (int)number.count;
    program->outputs = hd_array_resize(NULL, (number.count + 1) * sizeof *program->outputs);
    if (program->outputs == NULL)
        return hd_fail(HD_ERROR_MEMORY, "no memory for the types of %zu outputs", number.count);
    return take_outputs(program, &types, &shapes);
}

static void read_memory(hd_xla_program *program, hd_pjrt_executable *executable) {
    const hd_xla_plugin *p = &program->device->client->plugin;
    hd_xla_stats *f = &program->stats;
    hd_pjrt_memory_stats m = HD_PJRT(hd_pjrt_memory_stats, .executable = executable);
    if (p->memory_stats == NULL || !hd_xla_went_well(p, p->memory_stats(&m))) return; /* some plugins do not know */
    f->code_bytes = m.code_bytes;
    f->argument_bytes = m.argument_bytes;
    f->output_bytes = m.output_bytes;
    f->alias_bytes = m.alias_bytes;
    f->temporary_bytes = m.temporary_bytes;
    f->peak_bytes = m.peak_bytes;
}

/* ---- the disk cache: what goes wrong here costs a compilation, nothing else -------------------------------------- */
static char *disk_key(const hd_xla_program *program, const hd_xla_options *o, size_t *bytes) {
    const hd_xla_client *c = program->device->client;
    const char *flags = hd_environment("XLA_FLAGS");
    char processor[256];
    hd_processor_text(processor, sizeof processor);
    if (flags == NULL) flags = "";
    const size_t capacity = sizeof c->plugin.identity + sizeof c->version + sizeof c->kind + sizeof processor +
                            strlen(flags) + 64 + o->count + program->text_bytes;
    char *key = hd_array_resize(NULL, capacity);
    if (key == NULL) return NULL;
    const int head = snprintf(key, capacity, "xla, %s\n%s\n%s\n%s\n%s\n%d\n", c->plugin.identity, c->version, c->kind,
                              processor, flags, program->device->id);
    memcpy(key + head, o->bytes, o->count);
    memcpy(key + head + o->count, program->text, program->text_bytes);
    *bytes = (size_t)head + o->count + program->text_bytes;
    return key;
}

static void read_disk(hd_xla_program *program, const char *key, size_t key_bytes) {
    const hd_xla_client *c = program->device->client;
    const hd_xla_plugin *p = &c->plugin;
    size_t bytes = 0;
    void *object = hd_cache_read(key, key_bytes, &bytes);
    if (object == NULL) return;
    hd_pjrt_deserialize d = HD_PJRT(hd_pjrt_deserialize, .client = c->handle, .bytes = object, .byte_count = bytes);
    if (hd_xla_went_well(p, p->deserialize(&d))) program->loaded = d.loaded;
    program->stats.from_disk = program->loaded != NULL;
    hd_array_release(object);
}

static void write_disk(hd_xla_program *program, hd_pjrt_executable *executable, const char *key, size_t key_bytes) {
    hd_xla_client *c = program->device->client;
    const hd_xla_plugin *p = &c->plugin;
    hd_pjrt_serialize s = HD_PJRT(hd_pjrt_serialize, .executable = executable);
    if (!hd_xla_went_well(p, p->serialize(&s))) {
        atomic_store_explicit(&c->cannot_serialize, true, memory_order_relaxed);
        return;
    }
    if (s.byte_count > 0) hd_cache_write(key, key_bytes, s.bytes, s.byte_count);
    if (s.destroy != NULL) s.destroy(s.serialized);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
/* A message of protocol buffers, CompileOptionsProto, whose parts are all shorter than 128 bytes. */
static void append_override(hd_xla_options *o, const char *flag, bool value) {
    const size_t length = strlen(flag);
    const char head[] = {0x3A, (char)(length + 6), 0x0A, (char)length}, tail[] = {0x12, 2, 0x10, (char)value};
    memcpy(o->bytes + o->count, head, sizeof head);
    memcpy(o->bytes + o->count + sizeof head, flag, length);
    memcpy(o->bytes + o->count + sizeof head + length, tail, sizeof tail);
    o->count += sizeof head + length + sizeof tail;
}

/* One replica and one partition, without which XLA ends the process; and the device, when it is not the first. */
static void append_build_options(hd_xla_options *o, const hd_xla_device *device) {
    static const char first[] = {0x1A, 4, 0x20, 1, 0x28, 1};
    const char other[] = {0x1A, 15, 0x20, 1, 0x28, 1, 0x4A, 9, 8, 1, 0x10, 1, 0x1A, 3, 0x0A, 1, (char)device->id};
    const bool is_first = device->device.index == 0;
    memcpy(o->bytes + o->count, is_first ? first : other, is_first ? sizeof first : sizeof other);
    o->count += is_first ? sizeof first : sizeof other;
}

/* True when some product of f32 may be one of TF32: hd_hlo_precision. Types of operands stand behind a precision. */
static bool multiplies_in_tf32(const char *text) {
    for (const char *at = text; (at = strstr(at, "DEFAULT")) != NULL; ++at) {
        const char *from = strstr(at, " : ("), *to = from == NULL ? NULL : strstr(from, "->");
        const char *type = from == NULL ? NULL : strstr(from, "f32>");
        if (to != NULL && type != NULL && type < to) return true;
    }
    return false;
}
/* And when there are products at all. */
static bool multiplies(const char *text) { return strstr(text, "HIGHEST") != NULL || strstr(text, "DEFAULT") != NULL; }

/* With xla_allow_excess_precision CUDA's compiler joins products and sums, and hd_pow is off by 23 units.
 *
 * Products are left to cuBLAS on CUDA: XLA would compile many of Triton's kernels for each of them, and time them.
 * On an H200 an MLP block of exact f32 compiles for 3 to 27 s with those and for 0.16 s without; one of bf16 for 1.9
 * and 0.17 s; they run as fast. Programs with products of TF32 have XLA's default: a small block runs for 65 us with
 * Triton's and for 99 without, and compiles for 0.5 and 0.12 s. */
void hd_xla_choose_options(const hd_xla_device *device, const char *text, hd_xla_options *o) {
    o->count = 0;
    append_override(o, "xla_allow_excess_precision", false);
    if (device->device.kind == HD_DEVICE_CUDA && multiplies(text) && !multiplies_in_tf32(text))
        append_override(o, "xla_gpu_enable_triton_gemm", false);
    append_build_options(o, device);
}

static hd_error compile_program(hd_xla_program *program, const hd_xla_options *o) {
    const hd_xla_client *c = program->device->client;
    const int id = program->device->id;
    if (program->device->device.index != 0 && (id < 0 || id > 127))
        return hd_fail(HD_ERROR_DEVICE, "XLA's number for the device is %d, expected one up to 127", id);
    const hd_pjrt_program source = HD_PJRT(hd_pjrt_program, .code = program->text, .code_size = program->text_bytes,
                                           .format = "mlir", .format_size = 4);
    hd_pjrt_compile arguments = HD_PJRT(hd_pjrt_compile, .client = c->handle, .program = &source, .options = o->bytes,
                                        .options_size = o->count);
    HD_TRY(hd_xla_check(&c->plugin, c->plugin.compile(&arguments), "XLA does not compile the program"));
    program->loaded = arguments.loaded;
    return HD_OK;
}

static hd_error load_and_read(hd_xla_program *program, const hd_xla_options *o, const char *key, size_t key_bytes) {
    const hd_xla_plugin *p = &program->device->client->plugin;
    const int64_t begin = hd_os_nanoseconds();
    if (key != NULL) read_disk(program, key, key_bytes);
    if (program->loaded == NULL) HD_TRY(compile_program(program, o));
    program->stats.compile_nanoseconds = hd_os_nanoseconds() - begin;
    hd_pjrt_loaded_executable get = HD_PJRT(hd_pjrt_loaded_executable, .loaded = program->loaded);
    HD_TRY(hd_xla_check(p, p->loaded_executable(&get), "XLA does not describe a program"));
    const hd_error status = read_outputs(program, get.executable);
    if (status == HD_OK) read_memory(program, get.executable);
    if (status == HD_OK && key != NULL && !program->stats.from_disk)
        write_disk(program, get.executable, key, key_bytes);
    hd_xla_went_well(p, p->executable_destroy(&HD_PJRT(hd_pjrt_executable_destroy, .executable = get.executable)));
    return status;
}

static hd_error make(hd_xla_program *program) {
    const hd_xla_client *c = program->device->client;
    const bool on_disk = c->plugin.serialize != NULL && c->plugin.deserialize != NULL &&
                         !atomic_load_explicit(&c->cannot_serialize, memory_order_relaxed);
    size_t key_bytes = 0;
    hd_xla_options options;
    hd_xla_choose_options(program->device, program->text, &options);
    char *key = on_disk ? disk_key(program, &options, &key_bytes) : NULL;
    const hd_error status = load_and_read(program, &options, key, key_bytes);
    hd_array_release(key);
    return status;
}

static hd_error check_parameters(const hd_xla_parameter *parameters, int count) {
    if (count < 0 || (count > 0 && parameters == NULL))
        return hd_fail(HD_ERROR_VALUE, "a program of XLA with %d parameters, %s", count,
                       parameters == NULL ? "of which nothing is known" : "which is less than none");
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) HD_TRY(hd_xla_type_bytes(&parameters[i].type, &bytes));
    return HD_OK;
}

static bool has_parameters(const hd_xla_program *program, const hd_xla_parameter *parameters, int count) {
    bool same = program->parameter_count == count;
    for (int i = 0; same && i < count; ++i)
        same = program->parameters[i].donated == parameters[i].donated &&
               hd_xla_type_equal(&program->parameters[i].type, &parameters[i].type);
    return same;
}

hd_xla_program *hd_xla_compile(hd_xla_device *device, const char *text, size_t text_bytes,
                               const hd_xla_parameter *parameters, int count) {
    HD_TRY_OR(hd_xla_check_process(device), NULL);
    HD_TRY_OR(check_parameters(parameters, count), NULL);
    if (text == NULL || text_bytes == 0) {
        hd_fail(HD_ERROR_VALUE, "XLA was given an empty program");
        return NULL;
    }
    hd_xla_programs_lock();
    hd_xla_program *program = look_up_program(device, text, text_bytes, hd_hash(text, text_bytes, 0));
    hd_xla_programs_unlock();
    if (program == NULL) {
        program = new_program(device, text, text_bytes, parameters, count);
        if (program == NULL) return NULL;
        if (make(program) != HD_OK) {
            destroy_program(program);
            return NULL;
        }
        program = enter_program(program);
    }
    if (has_parameters(program, parameters, count)) return program;
    hd_fail(HD_ERROR_INTERNAL, "a program of XLA was compiled before with other parameters than are said now");
    hd_xla_program_release(program);
    return NULL;
}
