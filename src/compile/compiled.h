/* Compiled models from inside: captured graphs, and how their gradients go back. */
#ifndef HD_COMPILE_COMPILED_H
#define HD_COMPILE_COMPILED_H

#include "nn/module.h"
#include "script/script.h"

/* What one captured graph depends on, beside its inputs. */
typedef struct hd_capture_key {
    hd_dtype default_dtype;
    hd_matmul_precision precision;
    bool all;         /* the model's forward of lists is called */
    bool recorded;    /* a tape watches */
    uint64_t flags;   /* which of its modules are in training, when that counts: a hash */
    uint64_t members; /* what the model is made of: a hash */
    uint64_t wanted;  /* which parameters require gradients: a hash */
    int64_t inputs;
} hd_capture_key;

/* What it depends on of an input. */
typedef struct hd_input_kind {
    hd_dtype dtype;
    hd_shape shape;
    bool wanted; /* its gradient */
} hd_input_kind;

static inline hd_input_kind hd_input_kind_of(const hd_capture_key *key, const hd_tensor *x) {
    return (hd_input_kind){(hd_dtype)x->dtype, x->layout.shape, key->recorded && x->tracking != HD_UNTRACKED};
}

/* How gradients go back through one captured graph: all its calls share this. What gradients go to, the **targets**,
 * are inputs and parameters, the inputs first. Those that the same outputs depend on are a **group**. */
typedef struct hd_way_back {
    hd_object object;
    hd_script *backward;    /* retained */
    int64_t saved;          /* outputs of the forward script behind the model's own, which the backward script takes */
    int64_t outputs;        /* the model's */
    int64_t inputs;         /* among the targets */
    hd_tensors *parameters; /* retained: the other targets */
    int64_t *input;         /* which inputs those are */
    int64_t groups, *group; /* of each target */
    bool *depends;          /* outputs * groups: whether this output depends on that group */
    int64_t tracked;        /* outputs that depend on any */
} hd_way_back;

typedef struct hd_captured {
    hd_capture_key key;
    hd_input_kind *inputs;
    uint64_t used;      /* when, for the least recently used */
    hd_script *forward; /* retained */
    hd_way_back *back;  /* retained; NULL: no output depends on anything that is tracked */
} hd_captured;

typedef struct hd_compiled {
    hd_module *model; /* held by the module as a member */
    hd_compile_opts opts;
    hd_tensors *parameters;  /* retained: all of the model's */
    uint64_t members, flags; /* hd_module_hash of it, */
    uint64_t structure;      /* and hd_module_structure when these were found */
    hd_captured **entries;
    int64_t count;
    uint64_t clock;
    hd_compile_figures stats;
} hd_compiled;

/* Captures the model for inputs like these; NULL with an error. */
hd_captured *hd_capture(hd_thread *thread, const hd_compiled *c, const hd_capture_key *key, hd_tensor *const *x);
void hd_captured_release(hd_thread *thread, hd_captured *e);
/* The name of input or output `index` of `count`: "x" alone, else "x0", "x1", ... */
const char *hd_capture_name(char name[48], const char *base, int64_t index, int64_t count);
/* Runs a script that is taken with the inputs that are set, and forgets them and the outputs: values live as long as
 * the tape needs them. */
hd_outputs *hd_capture_run(hd_thread *thread, hd_script *s);

hd_way_back *hd_way_back_new(hd_thread *thread, int64_t outputs, int64_t targets);
/* Puts a call of a captured graph on the tape: y are its outputs for x, `out` all of its forward script. */
hd_error hd_way_back_note(hd_thread *thread, hd_way_back *back, hd_tensor *const *x, const hd_tensors *y,
                          const hd_outputs *out);

#endif
