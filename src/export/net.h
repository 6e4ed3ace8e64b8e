/* A script on its way to C: what the files of this room share. A net has a plan for the machine "C", whose launches
 * become functions; equal functions are one. What cannot be said in C is noted, and refused at the end, all at once. */
#ifndef HD_EXPORT_NET_H
#define HD_EXPORT_NET_H

#include "export/text.h"
#include "fuse/lower.h"
#include "kernel/gpu_words.h"
#include "plan/plan.h"
#include <hodu/export.h>

/* A function of the text, by all that stands behind its name. */
typedef struct hd_net_function {
    uint64_t hash;
    size_t first, count; /* in net->bodies */
    char name[128];
} hd_net_function;

/* What is checked while it runs: net_run returns 1 + its index. */
typedef struct hd_net_check {
    char text[160];
} hd_net_check;

/* A part of state that was saved: `function` copies it back. */
typedef struct hd_net_saved {
    char function[128], from[256], to[256];
} hd_net_saved;

typedef struct hd_net {
    hd_thread *thread;
    hd_graph *graph; /* simplified */
    hd_plan *plan;
    char prefix[64], function[64], upper[64]; /* upper: the prefix in capitals */
    char file[128];                           /* without its extension */
    int alignment;                            /* of all that lies in arena and state */
    bool is_small;                            /* the goal is few bytes of code */
    bool all_state;                           /* cells that never change are in the state, too */
    hd_vocabulary *words;                     /* that are used */
    hd_c_text functions, body, constants;
    hd_c_text bodies; /* of functions, without their names */
    hd_net_function *known;
    uint32_t known_count, known_capacity, last; /* last: the one that was called for last */
    hd_net_check *checks;
    uint32_t check_count, check_capacity;
    hd_c_text refused; /* a line for each node that cannot be said */
    int refused_count;
    int64_t bound;    /* of the index that is being looked at */
    size_t workspace; /* bytes that calls work in, behind the values in the arena */
    size_t *extra; /* of each buffer that the arena of the plan does not have, but that of the net: where; SIZE_MAX */
    size_t arena_bytes, state_bytes;
    size_t *cell_at; /* of each cell: where it is in the state; SIZE_MAX: it never changes, and is a constant */
    char (*inputs)[80], (*outputs)[80]; /* names of C */
    hd_storage *const *cells;           /* the script's */
    bool *constant_said, *cell_said;
    hd_net_saved *saved;
    uint32_t saved_count;
    bool has_panels;      /* panels.h is wanted */
    uint32_t panel_count; /* constants that are laid out in panels */
    bool draws;           /* it draws random numbers: seed and count are the first 16 bytes of the state */
} hd_net;

/* ---- machine.c ---- */
extern const hd_machine hd_c_machine;

/* ---- names.c: names of C ---- */
/* Makes a name of C of any text: what is no letter, digit or underscore becomes an underscore. */
void hd_c_name(const char *text, char *out, size_t capacity);
bool hd_c_is_name(const char *text); /* and no keyword */
/* Any text, in a comment: what would be more than words there is an underscore. */
void hd_c_say_in_comment(hd_c_text *t, const char *text);
/* The C type that a dtype has in memory: "float", "uint16_t". */
const char *hd_c_type(hd_dtype dtype);
/* The same of what it is computed in. */
const char *hd_c_compute_type(hd_dtype dtype);
/* An element as a literal. */
void hd_say_element_of(hd_c_text *t, hd_dtype dtype, const void *element);

/* ---- calls.c: what is no kernel ---- */
/* A call on its way to a function: x0, x1, ... are its operands, y0 and y1 its results, w memory to work in. */
typedef struct hd_net_call {
    hd_net *net;
    const hd_call *call;
    hd_c_text *t;           /* the body */
    size_t workspace;       /* bytes that it works in: set by who writes it; > 0: there is w */
    bool can_fail;          /* it returns 0, or 1 + the place of the element that does not fit */
    const char *why;        /* what does not fit then */
    const char *refusal;    /* why it cannot be said, if so */
    const uint32_t *inputs; /* tensors of the plan */
    char packed[80];        /* what is given instead of x1: a constant, laid out in panels; "": nothing is */
    bool draws;             /* it has seed and draw */
    hd_lowered lowered;     /* by hd_c_by_kernel: */
    int16_t operand[HD_KERNEL_BUFFERS];
    bool is_kernel;
    char texts[8][256]; /* of expressions */
    int text;
} hd_net_call;
typedef hd_error hd_c_op(hd_net_call *c);
/* One for each row that is no view; one that is missing does not link. */
#define PRIMITIVE(name, ...) hd_c_op hd_c_##name;
#include "ops/ops.def"
/* The function of an op; NULL: a row, which is a kernel. */
hd_c_op *hd_c_op_of(const hd_op *op);
/* A kernel for the call; c->refusal when there is none. From source.c. */
hd_error hd_c_by_kernel(hd_net_call *c);
/* The bytes of a value that no run changes, contiguous or not; NULL: it is none, or with an error. From source.c. */
const void *hd_net_steady(hd_net *net, uint32_t tensor);
hd_error hd_c_refuse(hd_net_call *c, const char *why);

hd_error hd_c_pad_border(hd_net_call *c);                                     /* around what is padded */
hd_error hd_c_check_guard(hd_net_call *c, const char *test, const char *why); /* of x0, integers */
hd_error hd_c_check_index(hd_net_call *c, int64_t bound);                     /* of x0, in [-bound, bound) */

/* x0[i0 * 12 + i2]: an element of an operand at these indices, "0" for axes of one element; `name`: what it is
 * called. */
const char *hd_c_at(hd_net_call *c, const char *name, const hd_tensor *t, const char *const *index);
/* Its value in the type that it is computed in; small floats are decoded. */
const char *hd_c_value(hd_net_call *c, const char *name, const hd_tensor *t, const char *const *index);
/* place = value; rounded to a small float where it is one. */
void hd_c_store(hd_net_call *c, hd_dtype dtype, const char *place, const char *value);
/* Opens a loop for each axis of a shape with several elements, but for `without` (-1: none), from `first` up to, not
 * including, `end`; fills index with names <letter><axis>, or "0". Gives how many to close. */
typedef char hd_c_names[HD_MAX_RANK][16];
int hd_c_open_axes(hd_net_call *c, const hd_shape *shape, int first, int end, int without, char letter,
                   hd_c_names names, const char **index);
void hd_c_close(hd_net_call *c, int loops);
/* Words that the body says, in a type: w_exp_f32. */
hd_error hd_c_use(hd_net_call *c, hd_word word, hd_dtype dtype);
static inline const hd_tensor *hd_c_in(const hd_net_call *c, int i) { return c->call->inputs[i]; }
static inline const hd_tensor *hd_c_out(const hd_net_call *c, int i) { return c->call->outputs[i]; }

#endif
