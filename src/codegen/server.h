/* LLVM in a process of its own. It ends its process when memory runs out, and that must not be the one that uses this
 * library: kernels are sent as bytes to a small program, the server (server/main.c), and objects come back. server.c is
 * the side that asks, llvm_serve.c the one that answers, with llvm.c. */
#ifndef HD_CODEGEN_SERVER_H
#define HD_CODEGEN_SERVER_H

#include "core/environment.h"
#include "core/error.h"
#include "kernel/kernel.h"

/* How to compile a kernel. All that the environment says is in it: the server reads none. */
typedef struct hd_llvm_order {
    const char *library; /* NULL: by the names that LLVM has */
    const char *name;    /* of the function */
    hd_isa most;
    bool wants_ir, wants_assembly; /* as texts, too */
} hd_llvm_order;

typedef struct hd_llvm_made {
    void *object, *ir, *assembly; /* from hd_array_resize; NULL: none */
    size_t object_bytes, ir_bytes, assembly_bytes;
    int64_t load_nanoseconds; /* opening LLVM, when this was the first */
} hd_llvm_made;

/* Compiles in this process, which LLVM may end. */
hd_error hd_llvm_compile(const hd_llvm_order *order, const hd_kernel *k, hd_llvm_made *made);
void hd_llvm_release(hd_llvm_made *made);
/* Why no process like this one can open LLVM; NULL: it can. */
const char *hd_llvm_out_of_reach(void);

/* ---- what goes through the socket: these structs, each with its bytes behind it -------------------------------- */
enum { HD_SERVE_MAGIC = 0x75646f68, HD_SERVE_MOST_BYTES = 1 << 28, HD_SERVE_MESSAGE = 512 };
typedef struct hd_serve_order {
    uint32_t magic, most, wants_ir, wants_assembly;
    uint32_t library_bytes, name_bytes; /* with the 0 at their ends; 0: none */
    uint32_t kernel_bytes;
} hd_serve_order; /* behind it: library, name, kernel */

typedef enum hd_serve_kind {
    HD_SERVE_HELLO,   /* the server is there; `status` is its process */
    HD_SERVE_ANSWER,  /* to an order */
    HD_SERVE_ABORTED, /* LLVM ended the process */
    HD_SERVE_BYE      /* nobody asked for long, and it ended; an order that crossed this was not read */
} hd_serve_kind;
typedef struct hd_serve_answer {
    uint32_t magic, kind;
    int32_t status; /* an hd_error */
    uint32_t message_bytes;
    uint64_t object_bytes, ir_bytes, assembly_bytes;
    int64_t load_nanoseconds;
} hd_serve_answer; /* behind it: message, object, IR, assembly */

/* Answers until the other side is gone, or asks nothing for `idle_milliseconds`. */
void hd_llvm_serve(int socket, int idle_milliseconds);

/* ---- the program, inside this library -------------------------------------------------------------------------- */
extern const unsigned char hd_server_program[], hd_server_program_end[];

/* ---- for tests ------------------------------------------------------------------------------------------------- */
/* How long an answer is waited for, and how long a server waits for an order. */
extern int hd_server_patience_milliseconds, hd_server_idle_milliseconds;
/* Servers are started by forking, as where no program can be started from memory. */
extern bool hd_server_forks;
/* Processes of the servers that live; how many there are. */
int hd_server_processes(int *out, int capacity);
/* Ends those that are idle. */
void hd_server_end_all(void);

#endif
