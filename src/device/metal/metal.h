/* What is used of Objective-C's runtime, of Foundation and of Metal, declared here so that nothing of Apple's is needed
 * to build: objects, of which only addresses are known, functions, which are looked up by name, and messages. A message
 * is a call of objc_msgSend as if that were the method: the type of its function is the method's. No message here
 * returns a struct, which some processors have another function for. */
#ifndef HD_DEVICE_METAL_METAL_H
#define HD_DEVICE_METAL_METAL_H

#include <stddef.h>
#include <stdint.h>

typedef struct hd_objc_object hd_objc_object; /* any object or class; NULL is nil, which answers every message with 0 */
typedef struct hd_objc_selector hd_objc_selector;
typedef signed char hd_objc_bool;

/* Passed by value, as C does on each processor. */
typedef struct hd_mtl_size {
    unsigned long width, height, depth;
} hd_mtl_size;
typedef struct hd_ns_range {
    unsigned long location, length;
} hd_ns_range;

enum { /* the numbers that are used */
       HD_MTL_STORAGE_SHARED = 0,
       HD_MTL_STATUS_COMPLETED = 4, /* of a command buffer; 5 is an error */
       HD_MTL_ARGUMENT_BYTES = 4096,
       HD_MTL_ARGUMENT_BUFFERS = 31,
       HD_MTL_GROUP_MOST = 1024 /* of every GPU in a Mac; of a kernel it may be less */
};

/* The functions: X(library, our name, its name, what it gives, what it takes). */
#define HD_OBJC_FUNCTIONS(X)                                                                                           \
    X(objc, class_named, "objc_getClass", hd_objc_object *, (const char *name))                                        \
    X(objc, selector_named, "sel_registerName", hd_objc_selector *, (const char *name))                                \
    X(objc, pool_push, "objc_autoreleasePoolPush", void *, (void))                                                     \
    X(objc, pool_pop, "objc_autoreleasePoolPop", void, (void *pool))                                                   \
    X(metal, all_devices, "MTLCopyAllDevices", hd_objc_object *, (void))                                               \
    X(metal, first_device, "MTLCreateSystemDefaultDevice", hd_objc_object *, (void))

/* The classes: X(our name, its name). */
#define HD_OBJC_CLASSES(X)                                                                                             \
    X(string_class, "NSString")                                                                                        \
    X(process_class, "NSProcessInfo")                                                                                  \
    X(options_class, "MTLCompileOptions")

/* The messages: X(our name, selector, what it gives, what it takes). What begins with "new" gives an object that is
 * ours to release; what others give lives until the pool is left, or is retained. */
#define HD_OBJC_SELF hd_objc_object *self, hd_objc_selector *selector
#define HD_OBJC_MESSAGES(X)                                                                                            \
    X(retain, "retain", hd_objc_object *, (HD_OBJC_SELF))                                                              \
    X(release, "release", void, (HD_OBJC_SELF))                                                                        \
    X(responds, "respondsToSelector:", hd_objc_bool, (HD_OBJC_SELF, hd_objc_selector * asked))                         \
    X(new_one, "new", hd_objc_object *, (HD_OBJC_SELF))                                                                \
    /* Foundation: strings, arrays, errors, the process */                                                             \
    X(string_of, "stringWithUTF8String:", hd_objc_object *, (HD_OBJC_SELF, const char *text))                          \
    X(text, "UTF8String", const char *, (HD_OBJC_SELF))                                                                \
    X(count, "count", size_t, (HD_OBJC_SELF))                                                                          \
    X(object_at, "objectAtIndex:", hd_objc_object *, (HD_OBJC_SELF, size_t index))                                     \
    X(description, "localizedDescription", hd_objc_object *, (HD_OBJC_SELF))                                           \
    X(process, "processInfo", hd_objc_object *, (HD_OBJC_SELF))                                                        \
    X(system_version, "operatingSystemVersionString", hd_objc_object *, (HD_OBJC_SELF))                                \
    /* devices */                                                                                                      \
    X(name, "name", hd_objc_object *, (HD_OBJC_SELF))                                                                  \
    X(memory_bytes, "recommendedMaxWorkingSetSize", uint64_t, (HD_OBJC_SELF))                                          \
    X(block_most, "maxBufferLength", size_t, (HD_OBJC_SELF))                                                           \
    X(local_bytes, "maxThreadgroupMemoryLength", size_t, (HD_OBJC_SELF))                                               \
    X(new_queue, "newCommandQueue", hd_objc_object *, (HD_OBJC_SELF))                                                  \
    X(new_buffer, "newBufferWithLength:options:", hd_objc_object *, (HD_OBJC_SELF, size_t bytes, size_t options))      \
    X(new_buffer_of, "newBufferWithBytes:length:options:", hd_objc_object *,                                           \
      (HD_OBJC_SELF, const void *from, size_t bytes, size_t options))                                                  \
    X(new_library, "newLibraryWithSource:options:error:", hd_objc_object *,                                            \
      (HD_OBJC_SELF, hd_objc_object * text, hd_objc_object * options, hd_objc_object * *error))                        \
    X(new_pipeline, "newComputePipelineStateWithFunction:error:", hd_objc_object *,                                    \
      (HD_OBJC_SELF, hd_objc_object * function, hd_objc_object * *error))                                              \
    /* programs */                                                                                                     \
    X(set_fast_math, "setFastMathEnabled:", void, (HD_OBJC_SELF, hd_objc_bool enabled))                                \
    X(new_function, "newFunctionWithName:", hd_objc_object *, (HD_OBJC_SELF, hd_objc_object * name))                   \
    X(group_most, "maxTotalThreadsPerThreadgroup", size_t, (HD_OBJC_SELF))                                             \
    /* queues and command buffers */                                                                                   \
    X(command_buffer, "commandBuffer", hd_objc_object *, (HD_OBJC_SELF))                                               \
    X(compute_encoder, "computeCommandEncoder", hd_objc_object *, (HD_OBJC_SELF))                                      \
    X(blit_encoder, "blitCommandEncoder", hd_objc_object *, (HD_OBJC_SELF))                                            \
    X(commit, "commit", void, (HD_OBJC_SELF))                                                                          \
    X(wait, "waitUntilCompleted", void, (HD_OBJC_SELF))                                                                \
    X(status, "status", size_t, (HD_OBJC_SELF))                                                                        \
    X(error, "error", hd_objc_object *, (HD_OBJC_SELF))                                                                \
    X(started_at, "GPUStartTime", double, (HD_OBJC_SELF))                                                              \
    X(ended_at, "GPUEndTime", double, (HD_OBJC_SELF))                                                                  \
    /* encoders */                                                                                                     \
    X(end_encoding, "endEncoding", void, (HD_OBJC_SELF))                                                               \
    X(set_pipeline, "setComputePipelineState:", void, (HD_OBJC_SELF, hd_objc_object * pipeline))                       \
    X(set_buffer, "setBuffer:offset:atIndex:", void,                                                                   \
      (HD_OBJC_SELF, hd_objc_object * buffer, size_t offset, size_t index))                                            \
    X(set_bytes, "setBytes:length:atIndex:", void, (HD_OBJC_SELF, const void *from, size_t bytes, size_t index))       \
    X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:", void,                                                   \
      (HD_OBJC_SELF, hd_mtl_size groups, hd_mtl_size threads))                                                         \
    X(copy, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", void,                                      \
      (HD_OBJC_SELF, hd_objc_object * from, size_t at, hd_objc_object * to, size_t into, size_t bytes))                \
    X(fill, "fillBuffer:range:value:", void, (HD_OBJC_SELF, hd_objc_object * buffer, hd_ns_range range, uint8_t byte)) \
    /* buffers */                                                                                                      \
    X(contents, "contents", void *, (HD_OBJC_SELF))

typedef struct hd_objc_table {
#define HD_OBJC_MEMBER(library, name, full_name, result, parameters) result(*name) parameters;
    HD_OBJC_FUNCTIONS(HD_OBJC_MEMBER)
#undef HD_OBJC_MEMBER
#define HD_OBJC_MEMBER(name, full_name) hd_objc_object *name;
    HD_OBJC_CLASSES(HD_OBJC_MEMBER)
#undef HD_OBJC_MEMBER
#define HD_OBJC_MEMBER(name, text, result, parameters)                                                                 \
    struct {                                                                                                           \
        hd_objc_selector *selector;                                                                                    \
        result(*send) parameters;                                                                                      \
    } name;
    struct {
        HD_OBJC_MESSAGES(HD_OBJC_MEMBER)
    } to;
#undef HD_OBJC_MEMBER
} hd_objc_table;

extern hd_objc_table hd_objc; /* filled in when there is a device: driver.c */

/* A message to an object, without arguments and with. */
#define HD_SEND(object, name)           hd_objc.to.name.send((object), hd_objc.to.name.selector)
#define HD_SEND_WITH(object, name, ...) hd_objc.to.name.send((object), hd_objc.to.name.selector, __VA_ARGS__)

#endif
