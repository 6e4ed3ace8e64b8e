/* What is used of PJRT, the C interface of XLA's plugins, declared here so that nothing of XLA is needed to build. A
 * plugin gives a table of functions; each takes one struct of arguments, which begins with its size, and gives NULL
 * or an error.
 *
 * Tables and structs only ever grow at their end. So structs are declared as the newest plugins know them, with
 * some words behind that stay zero, which so far always meant "absent" to plugins that are newer still; older ones
 * do not look so far. What the offsets are is a fact of the interface; the assertions hold it, for 64-bit machines. */
#ifndef HD_XLA_PJRT_H
#define HD_XLA_PJRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8 && sizeof(int) == 4, "PJRT as it is on 64-bit machines");

/* The plugins' own; only their addresses are known here. */
typedef struct hd_pjrt_error hd_pjrt_error;
typedef struct hd_pjrt_event hd_pjrt_event;
typedef struct hd_pjrt_client hd_pjrt_client;
typedef struct hd_pjrt_device hd_pjrt_device;
typedef struct hd_pjrt_description hd_pjrt_description;
typedef struct hd_pjrt_buffer hd_pjrt_buffer;
typedef struct hd_pjrt_executable hd_pjrt_executable; /* what was compiled */
typedef struct hd_pjrt_loaded hd_pjrt_loaded;         /* the same, on its device */
typedef struct hd_pjrt_serialized hd_pjrt_serialized;

/* Every struct begins so, and every struct of arguments ends with fields that are not known yet. */
#define HD_PJRT_HEAD                                                                                                   \
    size_t struct_size;                                                                                                \
    void *extensions
#define HD_PJRT_REST          uint64_t rest[4]
#define HD_PJRT(type, ...)    ((type){.struct_size = sizeof(type), __VA_ARGS__})
#define HD_PJRT_AT(field, at) _Static_assert(offsetof(HD_PJRT_NOW, field) == (at), "where PJRT has it")

/* ---- the table --------------------------------------------------------------------------------------------------- */
enum {
    HD_PJRT_MAJOR = 0,
    HD_PJRT_LEAST_MINOR = 57, /* the order of the table is what it is now since 0.57 */
    HD_PJRT_FIRST_ENTRY = 40, /* bytes before the functions */
};

typedef struct hd_pjrt_api {
    HD_PJRT_HEAD;
    struct {
        HD_PJRT_HEAD;
        int major, minor;
    } version;
    void *entries[]; /* as many as struct_size says */
} hd_pjrt_api;
#define HD_PJRT_NOW hd_pjrt_api
HD_PJRT_AT(version, 16);
HD_PJRT_AT(version.major, 32);
HD_PJRT_AT(version.minor, 36);
HD_PJRT_AT(entries, HD_PJRT_FIRST_ENTRY);
#undef HD_PJRT_NOW

/* The functions that are used: X(place in the table, our name, PJRT's name), those that every plugin must have first.
 * Each takes a pointer to hd_pjrt_<our name>. */
#define HD_PJRT_NEEDED(X)                                                                                              \
    X(2, error_code, "PJRT_Error_GetCode")                                                                             \
    X(3, initialize, "PJRT_Plugin_Initialize")                                                                         \
    X(4, attributes, "PJRT_Plugin_Attributes")                                                                         \
    X(5, event_destroy, "PJRT_Event_Destroy")                                                                          \
    X(6, event_ready, "PJRT_Event_IsReady")                                                                            \
    X(8, event_await, "PJRT_Event_Await")                                                                              \
    X(10, client_create, "PJRT_Client_Create")                                                                         \
    X(11, client_destroy, "PJRT_Client_Destroy")                                                                       \
    X(12, platform_name, "PJRT_Client_PlatformName")                                                                   \
    X(14, platform_version, "PJRT_Client_PlatformVersion")                                                             \
    X(16, devices, "PJRT_Client_AddressableDevices")                                                                   \
    X(20, compile, "PJRT_Client_Compile")                                                                              \
    X(22, from_host, "PJRT_Client_BufferFromHostBuffer")                                                               \
    X(23, device_id, "PJRT_DeviceDescription_Id")                                                                      \
    X(26, device_kind, "PJRT_DeviceDescription_Kind")                                                                  \
    X(29, describe, "PJRT_Device_GetDescription")                                                                      \
    X(40, executable_destroy, "PJRT_Executable_Destroy")                                                               \
    X(44, output_count, "PJRT_Executable_NumOutputs")                                                                  \
    X(50, loaded_destroy, "PJRT_LoadedExecutable_Destroy")                                                             \
    X(51, loaded_executable, "PJRT_LoadedExecutable_GetExecutable")                                                    \
    X(55, execute, "PJRT_LoadedExecutable_Execute")                                                                    \
    X(58, buffer_destroy, "PJRT_Buffer_Destroy")                                                                       \
    X(68, buffer_deleted, "PJRT_Buffer_IsDeleted")                                                                     \
    X(70, to_host, "PJRT_Buffer_ToHostBuffer")                                                                         \
    X(72, buffer_event, "PJRT_Buffer_ReadyEvent")                                                                      \
    X(90, output_types, "PJRT_Executable_OutputElementTypes")                                                          \
    X(91, output_shapes, "PJRT_Executable_OutputDimensions")
#define HD_PJRT_OPTIONAL(X)                                                                                            \
    X(49, serialize, "PJRT_Executable_Serialize")                                                                      \
    X(56, deserialize, "PJRT_Executable_DeserializeAndLoad")                                                           \
    X(63, buffer_layout, "PJRT_Buffer_GetMemoryLayout")                                                                \
    X(73, buffer_pointer, "PJRT_Buffer_UnsafePointer")                                                                 \
    X(93, view, "PJRT_Client_CreateViewOfDeviceBuffer")                                                                \
    X(96, memory_stats, "PJRT_Executable_GetCompiledMemoryStats")

/* ---- errors: the two functions that do not themselves give one --------------------------------------------------- */
enum { HD_PJRT_ERROR_DESTROY = 0, HD_PJRT_ERROR_MESSAGE = 1 }; /* places in the table */

typedef struct hd_pjrt_error_destroy {
    HD_PJRT_HEAD;
    hd_pjrt_error *error;
    HD_PJRT_REST;
} hd_pjrt_error_destroy;
#define HD_PJRT_NOW hd_pjrt_error_destroy
HD_PJRT_AT(error, 16);
HD_PJRT_AT(rest, 24);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_error_message {
    HD_PJRT_HEAD;
    const hd_pjrt_error *error;
    const char *message; /* out: lives as long as the error; no zero behind it */
    size_t message_size; /* out */
    HD_PJRT_REST;
} hd_pjrt_error_message;
#define HD_PJRT_NOW hd_pjrt_error_message
HD_PJRT_AT(error, 16);
HD_PJRT_AT(message, 24);
HD_PJRT_AT(message_size, 32);
HD_PJRT_AT(rest, 40);
#undef HD_PJRT_NOW

enum { /* the codes that mean something of their own here */
       HD_PJRT_INVALID_ARGUMENT = 3,
       HD_PJRT_RESOURCE_EXHAUSTED = 8,
       HD_PJRT_FAILED_PRECONDITION = 9,
       HD_PJRT_OUT_OF_RANGE = 11,
       HD_PJRT_UNIMPLEMENTED = 12,
       HD_PJRT_UNAVAILABLE = 14,
};
typedef struct hd_pjrt_error_code {
    HD_PJRT_HEAD;
    const hd_pjrt_error *error;
    int code; /* out */
    HD_PJRT_REST;
} hd_pjrt_error_code;
#define HD_PJRT_NOW hd_pjrt_error_code
HD_PJRT_AT(error, 16);
HD_PJRT_AT(code, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

/* ---- the plugin -------------------------------------------------------------------------------------------------- */
enum { HD_PJRT_STRING, HD_PJRT_INT64, HD_PJRT_INT64_LIST, HD_PJRT_FLOAT, HD_PJRT_BOOL };
typedef struct hd_pjrt_named { /* an element of arrays: nothing behind it */
    HD_PJRT_HEAD;
    const char *name;
    size_t name_size;
    int type;
    union {
        const char *text;
        int64_t integer;
        const int64_t *integers;
        float number;
        bool flag;
    };
    size_t value_size; /* of texts and lists; else 1 */
} hd_pjrt_named;
#define HD_PJRT_NOW hd_pjrt_named
HD_PJRT_AT(name, 16);
HD_PJRT_AT(name_size, 24);
HD_PJRT_AT(type, 32);
HD_PJRT_AT(integers, 40);
HD_PJRT_AT(value_size, 48);
_Static_assert(sizeof(hd_pjrt_named) == 56, "the step of arrays");
#undef HD_PJRT_NOW

typedef struct hd_pjrt_initialize {
    HD_PJRT_HEAD;
    HD_PJRT_REST;
} hd_pjrt_initialize;

typedef struct hd_pjrt_attributes {
    HD_PJRT_HEAD;
    const hd_pjrt_named *attributes; /* out: for the life of the process */
    size_t count;                    /* out */
    HD_PJRT_REST;
} hd_pjrt_attributes;
#define HD_PJRT_NOW hd_pjrt_attributes
HD_PJRT_AT(attributes, 16);
HD_PJRT_AT(count, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

/* ---- events ------------------------------------------------------------------------------------------------------ */
typedef struct hd_pjrt_event_destroy {
    HD_PJRT_HEAD;
    hd_pjrt_event *event;
    HD_PJRT_REST;
} hd_pjrt_event_destroy, hd_pjrt_event_await; /* the error of awaiting is the event's own */
#define HD_PJRT_NOW hd_pjrt_event_destroy
HD_PJRT_AT(event, 16);
HD_PJRT_AT(rest, 24);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_event_ready {
    HD_PJRT_HEAD;
    hd_pjrt_event *event;
    bool ready; /* out */
    HD_PJRT_REST;
} hd_pjrt_event_ready;
#define HD_PJRT_NOW hd_pjrt_event_ready
HD_PJRT_AT(event, 16);
HD_PJRT_AT(ready, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

/* ---- the client and its devices ---------------------------------------------------------------------------------- */
typedef struct hd_pjrt_client_create {
    HD_PJRT_HEAD;
    const hd_pjrt_named *options;
    size_t option_count;
    void *other_processes[4]; /* callbacks */
    hd_pjrt_client *client;   /* out */
    void *more_callbacks[2];
    HD_PJRT_REST;
} hd_pjrt_client_create;
#define HD_PJRT_NOW hd_pjrt_client_create
HD_PJRT_AT(options, 16);
HD_PJRT_AT(option_count, 24);
HD_PJRT_AT(client, 64);
HD_PJRT_AT(rest, 88);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_client_destroy {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    HD_PJRT_REST;
} hd_pjrt_client_destroy;
#define HD_PJRT_NOW hd_pjrt_client_destroy
HD_PJRT_AT(client, 16);
HD_PJRT_AT(rest, 24);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_platform_name {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    const char *text; /* out: "cpu", "cuda" */
    size_t text_size; /* out */
    HD_PJRT_REST;
} hd_pjrt_platform_name, hd_pjrt_platform_version;
#define HD_PJRT_NOW hd_pjrt_platform_name
HD_PJRT_AT(client, 16);
HD_PJRT_AT(text, 24);
HD_PJRT_AT(text_size, 32);
HD_PJRT_AT(rest, 40);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_devices {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    hd_pjrt_device *const *devices; /* out: the client's */
    size_t count;                   /* out */
    HD_PJRT_REST;
} hd_pjrt_devices;
#define HD_PJRT_NOW hd_pjrt_devices
HD_PJRT_AT(client, 16);
HD_PJRT_AT(devices, 24);
HD_PJRT_AT(count, 32);
HD_PJRT_AT(rest, 40);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_describe {
    HD_PJRT_HEAD;
    hd_pjrt_device *device;
    hd_pjrt_description *description; /* out: the client's */
    HD_PJRT_REST;
} hd_pjrt_describe;
#define HD_PJRT_NOW hd_pjrt_describe
HD_PJRT_AT(device, 16);
HD_PJRT_AT(description, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_device_id {
    HD_PJRT_HEAD;
    hd_pjrt_description *description;
    int id; /* out: the one in compile options */
    HD_PJRT_REST;
} hd_pjrt_device_id;
#define HD_PJRT_NOW hd_pjrt_device_id
HD_PJRT_AT(description, 16);
HD_PJRT_AT(id, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_device_kind {
    HD_PJRT_HEAD;
    hd_pjrt_description *description;
    const char *text; /* out */
    size_t text_size; /* out */
    HD_PJRT_REST;
} hd_pjrt_device_kind;
#define HD_PJRT_NOW hd_pjrt_device_kind
HD_PJRT_AT(description, 16);
HD_PJRT_AT(text, 24);
HD_PJRT_AT(text_size, 32);
HD_PJRT_AT(rest, 40);
#undef HD_PJRT_NOW

/* ---- compiling --------------------------------------------------------------------------------------------------- */
typedef struct hd_pjrt_program {
    HD_PJRT_HEAD;
    char *code; /* read only */
    size_t code_size;
    const char *format; /* "mlir": text or bytecode of StableHLO */
    size_t format_size;
    HD_PJRT_REST;
} hd_pjrt_program;
#define HD_PJRT_NOW hd_pjrt_program
HD_PJRT_AT(code, 16);
HD_PJRT_AT(code_size, 24);
HD_PJRT_AT(format, 32);
HD_PJRT_AT(format_size, 40);
HD_PJRT_AT(rest, 48);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_compile {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    const hd_pjrt_program *program;
    const char *options; /* a serialized CompileOptionsProto; an empty one ends the process */
    size_t options_size;
    hd_pjrt_loaded *loaded; /* out */
    HD_PJRT_REST;
} hd_pjrt_compile;
#define HD_PJRT_NOW hd_pjrt_compile
HD_PJRT_AT(client, 16);
HD_PJRT_AT(program, 24);
HD_PJRT_AT(options, 32);
HD_PJRT_AT(options_size, 40);
HD_PJRT_AT(loaded, 48);
HD_PJRT_AT(rest, 56);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_loaded_destroy {
    HD_PJRT_HEAD;
    hd_pjrt_loaded *loaded;
    HD_PJRT_REST;
} hd_pjrt_loaded_destroy;
#define HD_PJRT_NOW hd_pjrt_loaded_destroy
HD_PJRT_AT(loaded, 16);
HD_PJRT_AT(rest, 24);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_loaded_executable {
    HD_PJRT_HEAD;
    hd_pjrt_loaded *loaded;
    hd_pjrt_executable *executable; /* out: a new one, to be destroyed */
    HD_PJRT_REST;
} hd_pjrt_loaded_executable;
#define HD_PJRT_NOW hd_pjrt_loaded_executable
HD_PJRT_AT(loaded, 16);
HD_PJRT_AT(executable, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_executable_destroy {
    HD_PJRT_HEAD;
    hd_pjrt_executable *executable;
    HD_PJRT_REST;
} hd_pjrt_executable_destroy;
#define HD_PJRT_NOW hd_pjrt_executable_destroy
HD_PJRT_AT(executable, 16);
HD_PJRT_AT(rest, 24);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_output_count {
    HD_PJRT_HEAD;
    hd_pjrt_executable *executable;
    size_t count; /* out */
    HD_PJRT_REST;
} hd_pjrt_output_count;
#define HD_PJRT_NOW hd_pjrt_output_count
HD_PJRT_AT(executable, 16);
HD_PJRT_AT(count, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_output_types {
    HD_PJRT_HEAD;
    hd_pjrt_executable *executable;
    const int *types; /* out: HD_PJRT_TYPES */
    size_t count;     /* out */
    HD_PJRT_REST;
} hd_pjrt_output_types;
#define HD_PJRT_NOW hd_pjrt_output_types
HD_PJRT_AT(executable, 16);
HD_PJRT_AT(types, 24);
HD_PJRT_AT(count, 32);
HD_PJRT_AT(rest, 40);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_output_shapes {
    HD_PJRT_HEAD;
    hd_pjrt_executable *executable;
    size_t count;         /* out */
    const int64_t *sizes; /* out: of all outputs, one after the other */
    const size_t *ranks;  /* out */
    HD_PJRT_REST;
} hd_pjrt_output_shapes;
#define HD_PJRT_NOW hd_pjrt_output_shapes
HD_PJRT_AT(executable, 16);
HD_PJRT_AT(count, 24);
HD_PJRT_AT(sizes, 32);
HD_PJRT_AT(ranks, 40);
HD_PJRT_AT(rest, 48);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_memory_stats {
    HD_PJRT_HEAD;
    hd_pjrt_executable *executable;
    int64_t code_bytes, argument_bytes, output_bytes, alias_bytes, temporary_bytes; /* out, and all that follow */
    int64_t host[5];
    int64_t peak_bytes; /* 0 from plugins that do not know it */
    int64_t more[4];
    HD_PJRT_REST;
} hd_pjrt_memory_stats;
#define HD_PJRT_NOW hd_pjrt_memory_stats
HD_PJRT_AT(executable, 16);
HD_PJRT_AT(code_bytes, 24);
HD_PJRT_AT(argument_bytes, 32);
HD_PJRT_AT(output_bytes, 40);
HD_PJRT_AT(alias_bytes, 48);
HD_PJRT_AT(temporary_bytes, 56);
HD_PJRT_AT(peak_bytes, 104);
HD_PJRT_AT(rest, 144);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_serialize {
    HD_PJRT_HEAD;
    const hd_pjrt_executable *executable;
    const char *bytes;                         /* out: live as long as `serialized` */
    size_t byte_count;                         /* out */
    hd_pjrt_serialized *serialized;            /* out */
    void (*destroy)(hd_pjrt_serialized *self); /* out */
    HD_PJRT_REST;
} hd_pjrt_serialize;
#define HD_PJRT_NOW hd_pjrt_serialize
HD_PJRT_AT(executable, 16);
HD_PJRT_AT(bytes, 24);
HD_PJRT_AT(byte_count, 32);
HD_PJRT_AT(serialized, 40);
HD_PJRT_AT(destroy, 48);
HD_PJRT_AT(rest, 56);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_deserialize {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    const char *bytes;
    size_t byte_count;
    hd_pjrt_loaded *loaded; /* out */
    const char *options;
    size_t options_size;
    void *load_options;
    HD_PJRT_REST;
} hd_pjrt_deserialize;
#define HD_PJRT_NOW hd_pjrt_deserialize
HD_PJRT_AT(client, 16);
HD_PJRT_AT(bytes, 24);
HD_PJRT_AT(byte_count, 32);
HD_PJRT_AT(loaded, 40);
HD_PJRT_AT(options, 48);
HD_PJRT_AT(rest, 72);
#undef HD_PJRT_NOW

/* ---- buffers ----------------------------------------------------------------------------------------------------- */
/* Element types: X(our dtype, PJRT's number). Any other number ends the process when it is given to from_host. */
/* clang-format off */
#define HD_PJRT_TYPES(X)                                                                                               \
    X(HD_BOOL, 1)                                                                                                      \
    X(HD_I8, 2)                                                                                                        \
    X(HD_I16, 3)                                                                                                       \
    X(HD_I32, 4)                                                                                                       \
    X(HD_I64, 5)                                                                                                       \
    X(HD_U8, 6) X(HD_U16, 7) X(HD_U32, 8) X(HD_U64, 9) X(HD_F16, 10) X(HD_F32, 11) X(HD_F64, 12) X(HD_BF16, 13)        \
        X(HD_F8E5M2, 16) X(HD_F8E4M3, 17)
/* clang-format on */

enum {
    HD_PJRT_COPY = 0,
    HD_PJRT_BORROW = 2
}; /* what may be assumed of host memory: nothing after the call; it stays as it is */

typedef struct hd_pjrt_from_host {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    const void *data;
    int type;
    const int64_t *sizes;
    size_t rank;
    const int64_t *byte_strides;
    size_t byte_stride_count;
    int semantics;
    hd_pjrt_device *device;
    void *memory, *layout;
    hd_pjrt_event *done;    /* out: the host memory is no longer read */
    hd_pjrt_buffer *buffer; /* out */
    HD_PJRT_REST;
} hd_pjrt_from_host;
#define HD_PJRT_NOW hd_pjrt_from_host
HD_PJRT_AT(client, 16);
HD_PJRT_AT(data, 24);
HD_PJRT_AT(type, 32);
HD_PJRT_AT(sizes, 40);
HD_PJRT_AT(rank, 48);
HD_PJRT_AT(semantics, 72);
HD_PJRT_AT(device, 80);
HD_PJRT_AT(done, 104);
HD_PJRT_AT(buffer, 112);
HD_PJRT_AT(rest, 120);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_buffer_destroy {
    HD_PJRT_HEAD;
    hd_pjrt_buffer *buffer;
    HD_PJRT_REST;
} hd_pjrt_buffer_destroy;
#define HD_PJRT_NOW hd_pjrt_buffer_destroy
HD_PJRT_AT(buffer, 16);
HD_PJRT_AT(rest, 24);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_buffer_deleted {
    HD_PJRT_HEAD;
    hd_pjrt_buffer *buffer;
    bool deleted; /* out */
    HD_PJRT_REST;
} hd_pjrt_buffer_deleted;
#define HD_PJRT_NOW hd_pjrt_buffer_deleted
HD_PJRT_AT(buffer, 16);
HD_PJRT_AT(deleted, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_buffer_event {
    HD_PJRT_HEAD;
    hd_pjrt_buffer *buffer;
    hd_pjrt_event *event; /* out: a new one */
    HD_PJRT_REST;
} hd_pjrt_buffer_event;
#define HD_PJRT_NOW hd_pjrt_buffer_event
HD_PJRT_AT(buffer, 16);
HD_PJRT_AT(event, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_buffer_pointer {
    HD_PJRT_HEAD;
    hd_pjrt_buffer *buffer;
    uintptr_t pointer; /* out */
    HD_PJRT_REST;
} hd_pjrt_buffer_pointer;
#define HD_PJRT_NOW hd_pjrt_buffer_pointer
HD_PJRT_AT(buffer, 16);
HD_PJRT_AT(pointer, 24);
HD_PJRT_AT(rest, 32);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_layout {
    HD_PJRT_HEAD;
    struct { /* tiles; the other kind, strides, is refused where we need one */
        HD_PJRT_HEAD;
        const int64_t *minor_to_major;
        size_t rank;
        const int64_t *tile_sizes;
        const size_t *tile_ranks;
        size_t tile_count;
    } tiled;
    int type; /* 0: tiled */
    HD_PJRT_REST;
} hd_pjrt_layout;
#define HD_PJRT_NOW hd_pjrt_layout
HD_PJRT_AT(tiled, 16);
HD_PJRT_AT(tiled.minor_to_major, 32);
HD_PJRT_AT(tiled.rank, 40);
HD_PJRT_AT(tiled.tile_count, 64);
HD_PJRT_AT(type, 72);
HD_PJRT_AT(rest, 80);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_buffer_layout {
    HD_PJRT_HEAD;
    hd_pjrt_buffer *buffer;
    hd_pjrt_layout layout; /* out: its lists live as long as the buffer */
} hd_pjrt_buffer_layout;
#define HD_PJRT_NOW hd_pjrt_buffer_layout
HD_PJRT_AT(buffer, 16);
HD_PJRT_AT(layout, 24);
HD_PJRT_AT(layout.rest, 104);
#undef HD_PJRT_NOW

/* A buffer over memory of its device that is somebody else's. */
typedef struct hd_pjrt_view {
    HD_PJRT_HEAD;
    hd_pjrt_client *client;
    void *pointer;
    const int64_t *sizes;
    size_t rank;
    int type;
    hd_pjrt_layout *layout; /* NULL: row-major */
    hd_pjrt_device *device;
    void (*destroyed)(void *pointer, void *user);
    void *user;
    intptr_t stream;        /* 0: the memory is as it shall be read */
    hd_pjrt_buffer *buffer; /* out */
    void *memory;
    HD_PJRT_REST;
} hd_pjrt_view;
#define HD_PJRT_NOW hd_pjrt_view
HD_PJRT_AT(client, 16);
HD_PJRT_AT(pointer, 24);
HD_PJRT_AT(sizes, 32);
HD_PJRT_AT(rank, 40);
HD_PJRT_AT(type, 48);
HD_PJRT_AT(layout, 56);
HD_PJRT_AT(device, 64);
HD_PJRT_AT(destroyed, 72);
HD_PJRT_AT(user, 80);
HD_PJRT_AT(stream, 88);
HD_PJRT_AT(buffer, 96);
HD_PJRT_AT(memory, 104);
HD_PJRT_AT(rest, 112);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_to_host {
    HD_PJRT_HEAD;
    hd_pjrt_buffer *buffer;
    hd_pjrt_layout *layout; /* of the host memory; NULL would mean that of the buffer, whatever it is */
    void *data;
    size_t data_size;
    hd_pjrt_event *event; /* out */
    HD_PJRT_REST;
} hd_pjrt_to_host;
#define HD_PJRT_NOW hd_pjrt_to_host
HD_PJRT_AT(buffer, 16);
HD_PJRT_AT(layout, 24);
HD_PJRT_AT(data, 32);
HD_PJRT_AT(data_size, 40);
HD_PJRT_AT(event, 48);
HD_PJRT_AT(rest, 56);
#undef HD_PJRT_NOW

/* ---- running ----------------------------------------------------------------------------------------------------- */
typedef struct hd_pjrt_execute_options { /* never NULL: plugins look into it */
    HD_PJRT_HEAD;
    void *callbacks[2];
    size_t callback_counts[2];
    int launch_id;
    const int64_t *kept_arguments; /* not to be donated this time */
    size_t kept_argument_count;
    void *context;
    const char *call_location;
    size_t task_count;
    int *task_ids;
    int64_t *incarnation_ids;
    void *slices;
    bool plain_layout_for_callbacks;
    void *output_callbacks;
    size_t output_callback_count;
    HD_PJRT_REST;
} hd_pjrt_execute_options;
#define HD_PJRT_NOW hd_pjrt_execute_options
HD_PJRT_AT(launch_id, 48);
HD_PJRT_AT(kept_arguments, 56);
HD_PJRT_AT(kept_argument_count, 64);
HD_PJRT_AT(context, 72);
HD_PJRT_AT(incarnation_ids, 104);
HD_PJRT_AT(plain_layout_for_callbacks, 120);
HD_PJRT_AT(rest, 144);
#undef HD_PJRT_NOW

typedef struct hd_pjrt_execute {
    HD_PJRT_HEAD;
    hd_pjrt_loaded *loaded;
    hd_pjrt_execute_options *options;
    hd_pjrt_buffer *const *const *arguments; /* a list for each device */
    size_t device_count;
    size_t argument_count;
    hd_pjrt_buffer **const *outputs; /* a list for each device, filled */
    hd_pjrt_event **done;            /* out: one for each device; NULL: not wanted */
    hd_pjrt_device *device;
    HD_PJRT_REST;
} hd_pjrt_execute;
#define HD_PJRT_NOW hd_pjrt_execute
HD_PJRT_AT(loaded, 16);
HD_PJRT_AT(options, 24);
HD_PJRT_AT(arguments, 32);
HD_PJRT_AT(device_count, 40);
HD_PJRT_AT(argument_count, 48);
HD_PJRT_AT(outputs, 56);
HD_PJRT_AT(done, 64);
HD_PJRT_AT(device, 72);
HD_PJRT_AT(rest, 80);
#undef HD_PJRT_NOW

#endif
