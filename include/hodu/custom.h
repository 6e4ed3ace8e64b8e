/* Ops of one's own: functions in C that run wherever hodu's ops run, at once, on the tape, in scripts and their files.
 *
 *     static const char *twice(hd_custom_args *args) {
 *         const float *x = args->inputs[0]->data;
 *         float *y = args->outputs[0]->data;
 *         for (int64_t i = 0; i < args->inputs[0]->count; ++i) y[i] = 2 * x[i];
 *         return NULL;                                  // or what went wrong, in words
 *     }
 *     hd_custom_register(HD_OPTS(hd_custom_op, .name = "twice", .inputs = 1, .compute = twice));
 *     hd_tensor *y = hd_custom("twice", HD_TENSORS(x), NULL, 0);
 *
 * docs/guide/own-ops.md has the rest. */
#ifndef HODU_CUSTOM_H
#define HODU_CUSTOM_H

#include <hodu/error.h>
#include <hodu/list.h>

enum {
    HD_CUSTOM_NAME_MOST = 63,       /* letters of a name */
    HD_CUSTOM_ATTRIBUTES_MOST = 240 /* bytes of attributes */
};

/* What functions of an op are given of a tensor: `count` elements in rows, in the host's memory. */
typedef struct hd_custom_array {
    hd_dtype dtype;
    hd_shape shape;
    int64_t count;
    void *data; /* NULL where only dtypes and shapes are asked for; of inputs: to be read, not written */
} hd_custom_array;

/* A call of an op, for the functions that say what comes out of it, compute it, or write it as StableHLO. */
typedef struct hd_custom_args {
    size_t struct_size;
    void *user;             /* the op's */
    const void *attributes; /* a copy of the call's, aligned to 8; NULL when there are none */
    size_t attribute_bytes;
    int input_count, output_count;
    const hd_custom_array *const *inputs;
    hd_custom_array *const *outputs;
    hd_error error; /* the code of the error when text is returned; HD_ERROR_VALUE to begin with */
    char *text;     /* room for what is returned */
    size_t text_capacity;
} hd_custom_args;

/* A call of an op, for its vjp: the gradients of its inputs from those of its outputs. */
typedef struct hd_custom_vjp {
    size_t struct_size;
    void *user;
    const void *attributes;
    size_t attribute_bytes;
    int input_count;
    const hd_shape *shapes;      /* of the inputs */
    hd_tensor *const *inputs;    /* as they were; NULL when the vjp does without */
    hd_tensor *const *outputs;   /* two places; likewise, and NULL where there is none */
    hd_tensor *const *gradients; /* of the outputs: two places; NULL: zero. To be read, not written */
    const bool *wanted;          /* which inputs want a gradient */
    hd_tensor **results;         /* those gradients, to be filled in; NULL: zero */
    char *text;                  /* as in hd_custom_args */
    size_t text_capacity;
} hd_custom_vjp;

/* An op. Its functions return NULL, or, in words, why they could not: then the call is an error that names the op. They
 * run on whichever thread calls, several at once; hodu's own functions may be called in them. */
typedef struct hd_custom_op {
    size_t struct_size;      /* HD_OPTS(hd_custom_op, .name = "twice", ...) fills it in */
    const char *name;        /* letters, digits, '_', '.' and '-', a letter first; scripts know the op by it */
    int inputs, most_inputs; /* it takes this many tensors, 1 to 64; most_inputs 0: exactly `inputs` */
    /* Sets output_count, 1 or 2 (1 to begin with), and dtype and shape of each output (those of the first input to
     * begin with). The same every time, for it is asked whenever a call is made, recorded or looked at. NULL: one
     * output like the first input. */
    const char *(*shapes)(hd_custom_args *args);
    /* Fills the outputs, which are undefined, from the inputs. */
    const char *(*compute)(hd_custom_args *args);
    /* Made of hodu's ops, or of other own ones, it can be differentiated again. NULL: backward through the op is an
     * error. */
    const char *(*vjp)(hd_custom_vjp *vjp);
    bool vjp_without_inputs, vjp_without_outputs; /* it does not read them, and tapes do not keep them */
    /* Every run of a script runs the op, once for each call of it, also when nobody reads what it gives; in which order
     * follows from what each reads alone. Else calls nobody reads are dropped, and equal ones run once. */
    bool has_effects;
    /* The op for XLA: lines of StableHLO that define %r0 (and %r1) from %a0, %a1, ...; $0, $1 are the types of the
     * inputs, $r0 and $r1 of the outputs. NULL, or a function that returns NULL: XLA refuses scripts with the op. */
    const char *(*stablehlo)(hd_custom_args *args);
    void *user; /* for the functions; as long-lived as the process */
} hd_custom_op;

HD_BEGIN_DECLS
/* Registers an op for this process, for good; the descriptor is copied. The same one may be registered again, another
 * one of that name is an error. */
HD_API void hd_custom_register(const hd_custom_op *op);
HD_API bool hd_custom_is_registered(const char *name);
/* As hd_custom in ops.h, with both outputs where there are two: a list. */
HD_API hd_tensors *hd_custom_outputs(const char *name, hd_tensors *inputs, const void *attributes, size_t bytes);
HD_END_DECLS

#endif
