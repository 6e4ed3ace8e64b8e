/* Building, checking and printing kernel IR. */
#include "kernel/ir.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

#define HD_RESULT_SAME false
#define HD_RESULT_COND true
const hd_word_info hd_words[HD_WORD_COUNT] = {
#define WORD(word_name, word_arity, result, word_domain, word_cost, meaning)                                           \
    [HD_WORD_##word_name] = {.name = #word_name,                                                                       \
                             .arity = word_arity,                                                                      \
                             .domain = HD_DOMAIN_##word_domain,                                                        \
                             .cost = word_cost,                                                                        \
                             .gives_condition = HD_RESULT_##result},
#define FUNCTION(word_name, program, word_arity, word_cost, meaning)                                                   \
    [HD_WORD_##word_name] = {                                                                                          \
        .name = #word_name, .arity = word_arity, .domain = HD_DOMAIN_FLOAT, .cost = word_cost, .is_function = true},
#include "kernel/words.def"
    [HD_WORD_INPUT] = {.name = "INPUT"},
    [HD_WORD_NUMBER] = {.name = "NUMBER"},
    [HD_WORD_CONSTANT] = {.name = "CONSTANT"},
};

void hd_ir_init(hd_ir *ir, hd_compute type) { *ir = (hd_ir){.type = type, .result = -1}; }

void hd_ir_release(hd_ir *ir) {
    hd_array_release(ir->nodes);
    hd_array_release(ir->table);
    hd_ir_init(ir, ir->type);
}

int hd_ir_cost(const hd_ir *ir) {
    int cost = 0;
    for (int i = 0; i < ir->count; ++i) cost += hd_words[ir->nodes[i].word].cost;
    return cost;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */
static uint64_t node_hash(const hd_ir_node *n) {
    uint64_t value, h = 0x9E3779B97F4A7C15u;
    memcpy(&value, &n->value, 8);
    const uint64_t parts[5] = {(uint64_t)n->word << 32 | (uint64_t)n->type << 16 | n->index, (uint32_t)n->operand[0],
                               (uint32_t)n->operand[1], (uint32_t)n->operand[2], value};
    for (int i = 0; i < 5; ++i) {
        h = (h ^ parts[i]) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 29;
    }
    return h;
}

static bool node_equal(const hd_ir_node *a, const hd_ir_node *b) {
    return a->word == b->word && a->type == b->type && a->index == b->index &&
           memcmp(a->operand, b->operand, sizeof a->operand) == 0 && memcmp(&a->value, &b->value, 8) == 0;
}

static hd_error grow_ir(hd_ir *ir) {
    const int capacity = ir->capacity > 0 ? ir->capacity * 2 : 64;
    hd_ir_node *nodes = hd_array_resize(ir->nodes, (size_t)capacity * sizeof *nodes);
    if (nodes == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %d nodes of kernel IR", capacity);
    ir->nodes = nodes;
    int32_t *table = hd_array_resize(ir->table, (size_t)capacity * 2 * sizeof *table);
    if (table == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to look up %d nodes of kernel IR", capacity);
    ir->table = table;
    ir->capacity = capacity;
    ir->table_size = capacity * 2;
    for (int i = 0; i < ir->table_size; ++i) table[i] = -1;
    for (int i = 0; i < ir->count; ++i) {
        uint64_t at = node_hash(&ir->nodes[i]) % (uint64_t)ir->table_size;
        while (table[at] >= 0) at = (at + 1) % (uint64_t)ir->table_size;
        table[at] = i;
    }
    return HD_OK;
}

static int add_ir_node(hd_ir *ir, const hd_ir_node *node) {
    if (ir->count == ir->capacity && grow_ir(ir) != HD_OK) return -1;
    uint64_t at = node_hash(node) % (uint64_t)ir->table_size;
    for (; ir->table[at] >= 0; at = (at + 1) % (uint64_t)ir->table_size)
        if (node_equal(&ir->nodes[ir->table[at]], node)) return ir->table[at];
    ir->table[at] = ir->count;
    ir->nodes[ir->count] = *node;
    return ir->count++;
}

int hd_ir_put(hd_ir *ir, hd_word word, int a, int b, int c) {
    const int arity = hd_words[word].arity;
    if (a < 0 || (arity > 1 && b < 0) || (arity > 2 && c < 0)) return -1; /* something before failed */
    const int typed = word == HD_WORD_SELECT ? b : a;
    hd_ir_node node = {.word = (uint8_t)word,
                       .type = hd_words[word].gives_condition ? HD_CONDITION : ir->nodes[typed].type,
                       .operand = {a, b, c}};
    return add_ir_node(ir, &node);
}

int hd_ir_constant(hd_ir *ir, double value) {
    if (ir->type == HD_COMPUTE_F32)
        value = (double)(float)value; /* what the kernel sees: equal constants are then one */
    return add_ir_node(
        ir,
        &(hd_ir_node){.word = HD_WORD_CONSTANT, .type = (uint8_t)ir->type, .operand = {-1, -1, -1}, .value = value});
}

int hd_ir_input(hd_ir *ir, int index, bool condition) {
    return add_ir_node(ir, &(hd_ir_node){.word = HD_WORD_INPUT,
                                         .type = condition ? HD_CONDITION : (uint8_t)ir->type,
                                         .index = (uint16_t)index,
                                         .operand = {-1, -1, -1}});
}

int hd_ir_number(hd_ir *ir, int index) {
    return add_ir_node(
        ir, &(hd_ir_node){
                .word = HD_WORD_NUMBER, .type = (uint8_t)ir->type, .index = (uint16_t)index, .operand = {-1, -1, -1}});
}

int hd_ir_polynomial(hd_ir *ir, int x, const double *coefficients, int count) {
    int r = hd_ir_constant(ir, coefficients[count - 1]);
    for (int i = count - 2; i >= 0; --i) {
        const int c = hd_ir_constant(ir, coefficients[i]);
        r = hd_ir_put(ir, HD_WORD_MULADD, r, x, c);
    }
    return r;
}

/* ---- rewriting: into a fresh IR, node by node -------------------------------------------------------------------- */
/* Marks what the result needs; operands stand before their use, so one walk backwards finds all. */
static bool *needed_nodes(const hd_ir *ir) {
    bool *needed = hd_array_resize(NULL, (size_t)ir->count + 1);
    if (needed == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to walk %d nodes of kernel IR", ir->count);
        return NULL;
    }
    memset(needed, 0, (size_t)ir->count + 1);
    needed[ir->result] = true;
    for (int i = ir->result; i >= 0; --i)
        for (int k = 0; needed[i] && k < 3; ++k)
            if (ir->nodes[i].operand[k] >= 0) needed[ir->nodes[i].operand[k]] = true;
    return needed;
}

hd_error hd_ir_expand(hd_ir *ir) {
    for (bool again = true; again;) { /* programs use programs */
        again = false;
        bool *needed = needed_nodes(ir);
        int *moved = hd_array_resize(NULL, (size_t)ir->count * sizeof *moved);
        hd_ir out;
        hd_ir_init(&out, ir->type);
        hd_error status =
            needed == NULL || moved == NULL ? hd_fail(HD_ERROR_MEMORY, "no memory to expand kernel IR") : HD_OK;
        for (int i = 0; i <= ir->result && status == HD_OK; ++i) {
            if (!needed[i]) continue;
            hd_ir_node n = ir->nodes[i];
            for (int k = 0; k < 3; ++k) n.operand[k] = n.operand[k] < 0 ? -1 : moved[n.operand[k]];
            const bool function = hd_words[n.word].is_function;
            again = again || function;
            moved[i] =
                function ? hd_ir_program(&out, (hd_word)n.word, n.operand[0], n.operand[1]) : add_ir_node(&out, &n);
            if (moved[i] < 0) status = HD_ERROR_MEMORY;
        }
        out.result = status == HD_OK ? moved[ir->result] : -1;
        hd_array_release(needed);
        hd_array_release(moved);
        if (status != HD_OK) {
            hd_ir_release(&out);
            return status;
        }
        hd_ir_release(ir);
        *ir = out;
    }
    return hd_ir_renumber(ir);
}

hd_error hd_ir_renumber(hd_ir *ir) {
    int *moved = hd_array_resize(NULL, (size_t)ir->count * sizeof *moved),
        *stack = hd_array_resize(NULL, ((size_t)ir->count * 3 + 1) * sizeof *stack);
    hd_ir out;
    hd_ir_init(&out, ir->type);
    hd_error status =
        moved == NULL || stack == NULL ? hd_fail(HD_ERROR_MEMORY, "no memory to renumber kernel IR") : HD_OK;
    for (int i = 0; i < ir->count && status == HD_OK; ++i) moved[i] = -1;
    int depth = 0;
    if (status == HD_OK) stack[depth++] = ir->result;
    while (depth > 0 && status == HD_OK) {
        const int i = stack[depth - 1];
        hd_ir_node n = ir->nodes[i];
        int waiting = -1;
        for (int k = 0; k < 3 && waiting < 0; ++k)
            if (n.operand[k] >= 0 && moved[n.operand[k]] < 0) waiting = n.operand[k];
        if (moved[i] < 0 && waiting >= 0) {
            stack[depth++] = waiting;
            continue;
        }
        depth--;
        if (moved[i] >= 0) continue;
        for (int k = 0; k < 3; ++k) n.operand[k] = n.operand[k] < 0 ? -1 : moved[n.operand[k]];
        moved[i] = add_ir_node(&out, &n);
        if (moved[i] < 0) status = HD_ERROR_MEMORY;
    }
    out.result = status == HD_OK ? moved[ir->result] : -1;
    hd_array_release(moved);
    hd_array_release(stack);
    if (status != HD_OK) {
        hd_ir_release(&out);
        return status;
    }
    hd_ir_release(ir);
    *ir = out;
    return HD_OK;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */
static bool in_domain(uint8_t type, hd_word_domain domain) {
    const bool is_float = type == HD_COMPUTE_F32 || type == HD_COMPUTE_F64;
    switch (domain) {
    case HD_DOMAIN_FLOAT: return is_float;
    case HD_DOMAIN_INT: return !is_float && type != HD_CONDITION;
    case HD_DOMAIN_COND: return type == HD_CONDITION;
    case HD_DOMAIN_ANY: break;
    }
    return type != HD_CONDITION;
}

const char *hd_ir_type_name(int type) {
#define NAME(NAME_, name) #name,
    static const char *const names[] = {HD_COMPUTE_LIST(NAME) "condition"};
#undef NAME
    return type >= 0 && type <= HD_CONDITION ? names[type] : "?";
}

static hd_error verify_node(const hd_ir *ir, int i) {
    const hd_ir_node *n = &ir->nodes[i];
    if (n->word >= HD_WORD_COUNT || n->type > HD_CONDITION)
        return hd_fail(HD_ERROR_INTERNAL, "kernel IR node %%%d is no word", i);
    const hd_word_info *w = &hd_words[n->word];
    for (int k = 0; k < 3; ++k)
        if (k < w->arity ? n->operand[k] < 0 || n->operand[k] >= i : n->operand[k] != -1)
            return hd_fail(
                HD_ERROR_INTERNAL,
                "kernel IR node %%%d (%s): operand %d is %%%d; a word's operands stand before it, and it has %d", i,
                w->name, k, n->operand[k], w->arity);
    if (w->arity == 0) {
        const bool fits = n->type == ir->type || (n->word == HD_WORD_INPUT && n->type == HD_CONDITION);
        return fits ? HD_OK
                    : hd_fail(HD_ERROR_INTERNAL, "kernel IR node %%%d (%s) is %s in a row of %s", i, w->name,
                              hd_ir_type_name(n->type), hd_ir_type_name((int)ir->type));
    }
    const int first = n->word == HD_WORD_SELECT ? 1 : 0;
    const uint8_t type = ir->nodes[n->operand[first]].type;
    for (int k = first; k < w->arity; ++k)
        if (ir->nodes[n->operand[k]].type != type || !in_domain(type, (hd_word_domain)w->domain))
            return hd_fail(HD_ERROR_INTERNAL, "kernel IR node %%%d (%s): operand %d is %s, which does not fit", i,
                           w->name, k, hd_ir_type_name(ir->nodes[n->operand[k]].type));
    if (first == 1 && ir->nodes[n->operand[0]].type != HD_CONDITION)
        return hd_fail(HD_ERROR_INTERNAL, "kernel IR node %%%d (SELECT): the first operand is no condition", i);
    if (n->type != (w->gives_condition ? HD_CONDITION : type))
        return hd_fail(HD_ERROR_INTERNAL, "kernel IR node %%%d (%s) has type %s", i, w->name, hd_ir_type_name(n->type));
    return HD_OK;
}

hd_error hd_ir_verify(const hd_ir *ir) {
    if (ir->result < 0 || ir->result >= ir->count) return hd_fail(HD_ERROR_INTERNAL, "kernel IR has no result");
    for (int i = 0; i < ir->count; ++i) HD_TRY(verify_node(ir, i));
    return HD_OK;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
#define APPEND(...)                                                                                                    \
    at += (size_t)snprintf(at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0, __VA_ARGS__)

size_t hd_ir_print(const hd_ir *ir, char *out, size_t capacity) {
    size_t at = 0;
    for (int i = 0; i < ir->count; ++i) {
        const hd_ir_node *n = &ir->nodes[i];
        APPEND("%%%d = ", i);
        for (const char *c = hd_words[n->word].name; *c; ++c)
            APPEND("%c", *c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        if (n->word == HD_WORD_INPUT || n->word == HD_WORD_NUMBER) APPEND(" %d", n->index);
        if (n->word == HD_WORD_CONSTANT) APPEND(" %.17g", n->value);
        for (int k = 0; k < 3 && n->operand[k] >= 0; ++k) APPEND("%s%%%d", k ? ", " : " ", n->operand[k]);
        APPEND(" : %s\n", hd_ir_type_name(n->type));
    }
    APPEND("return %%%d\n", ir->result);
    return at;
}

uint64_t hd_ir_hash(const hd_ir *ir) {
    uint64_t h = (uint64_t)ir->type * 31 + (uint64_t)ir->result;
    for (int i = 0; i < ir->count; ++i) h = (h ^ node_hash(&ir->nodes[i])) * 0x94D049BB133111EBu;
    return h;
}
