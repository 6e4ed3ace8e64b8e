/* Kernel IR: a scalar computation as a list of words over typed values, in order (an operand stands before its use).
 * The same rows that make the eager kernels are read into it; LLVM, C text and StableHLO are rendered from it. Loops,
 * index maps and reductions come around it with the compiler. */
#ifndef HD_KERNEL_IR_H
#define HD_KERNEL_IR_H

#include "core/dtype.h"

typedef enum hd_word {
#define WORD(name, arity, result, domain, cost, meaning) HD_WORD_##name,
#define FUNCTION(name, program, arity, cost, meaning)    HD_WORD_##name,
#include "kernel/words.def"
    HD_WORD_INPUT,    /* operand `index` of the row: x; a, b, c; g, y */
    HD_WORD_NUMBER,   /* C number `index` of the row */
    HD_WORD_CONSTANT, /* `value` */
    HD_WORD_COUNT
} hd_word;

/* What the table says of a word. */
typedef enum hd_word_domain { HD_DOMAIN_ANY, HD_DOMAIN_FLOAT, HD_DOMAIN_INT, HD_DOMAIN_COND } hd_word_domain;
typedef struct hd_word_info {
    const char *name;
    uint8_t arity;
    uint8_t domain;       /* hd_word_domain */
    uint8_t cost;         /* in rough units of one vector instruction; 0 for inputs, numbers and constants */
    bool gives_condition; /* else the type of its operands */
    bool is_function;     /* has a program in math.def */
} hd_word_info;
extern const hd_word_info hd_words[HD_WORD_COUNT];
/* Of what kernels have beside words: HD_COST_CAST, ... */
enum {
#define STEP_COST(name, cost) HD_COST_##name = (cost),
#include "kernel/words.def"
};

enum { HD_CONDITION = HD_COMPUTE_COUNT }; /* the type of truth values, beside the compute types */

typedef struct hd_ir_node {
    uint8_t word; /* hd_word */
    uint8_t type; /* hd_compute, or HD_CONDITION */
    uint16_t index;
    int32_t operand[3]; /* -1: none */
    double value;
} hd_ir_node;

typedef struct hd_ir {
    hd_compute type; /* of the row */
    hd_ir_node *nodes;
    int count, capacity;
    int result;     /* the node that is the value; -1 while building or after a failure */
    int32_t *table; /* hash of nodes, so that equal ones are one */
    int table_size;
} hd_ir;

/* An empty IR for a row read in `type`. */
void hd_ir_init(hd_ir *ir, hd_compute type);
void hd_ir_release(hd_ir *ir);

/* Adds a node, or finds the equal one; gives its number. -1 once anything failed (an error is pending then). */
int hd_ir_put(hd_ir *ir, hd_word word, int a, int b, int c);
int hd_ir_constant(hd_ir *ir, double value);
int hd_ir_input(hd_ir *ir, int index, bool condition);
int hd_ir_number(hd_ir *ir, int index);
/* c[0] + c[1] x + ..., by Horner's rule. */
int hd_ir_polynomial(hd_ir *ir, int x, const double *coefficients, int count);

/* Writes FUNCTION word `word` out through its program. */
int hd_ir_program(hd_ir *ir, hd_word word, int a, int b);
/* Replaces every FUNCTION word by its program. */
hd_error hd_ir_expand(hd_ir *ir);
/* Renumbers in post-order from the result, and drops what it does not need: equal computations then print and hash
 * the same, whatever order the compiler evaluated the sentence's arguments in. */
hd_error hd_ir_renumber(hd_ir *ir);

/* Checks order, arity, types and domains; an error names the node. */
hd_error hd_ir_verify(const hd_ir *ir);
/* One line per node: "%2 = mul %0, %1 : f32". Length as snprintf. */
size_t hd_ir_print(const hd_ir *ir, char *out, size_t capacity);
uint64_t hd_ir_hash(const hd_ir *ir);
/* What its words cost together. */
int hd_ir_cost(const hd_ir *ir);
/* "f32"; "condition" for HD_CONDITION. */
const char *hd_ir_type_name(int type);

/* C text (see words_c.h, which is its preamble): a function `name` with the ABI of an eager kernel,
 *     void name(void *out, const void *const in[3], const void *numbers, int64_t n)
 * Length as snprintf. FUNCTION words become calls of the functions hd_render_programs writes. */
size_t hd_render_preamble(char *out, size_t capacity);
size_t hd_render_programs(hd_compute type, char *out, size_t capacity);
/* One of them, or its declaration alone; 0 with an error. And its IR, to see which words it uses. */
size_t hd_render_program(hd_compute type, hd_word word, bool declares, char *out, size_t capacity);
hd_error hd_read_program(hd_compute type, hd_word word, hd_ir *out);
size_t hd_render_c(const hd_ir *ir, const char *name, char *out, size_t capacity);

#endif
