/* Graphs from text, as print.c writes it. The lines are read into a draft, which is then called anew op by op, so that
 * a text that means nothing is an error as it would be in a program. */
#include "graph/capture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    hd_thread *thread;
    hd_graph *g; /* the draft */
    const char *at;
    int line;
    uint32_t *number; /* of each node that was written: its node in the draft */
    uint32_t number_count;
    int *lines; /* of each node of the draft */
    uint32_t line_count;
} reader;

static hd_error wrong(const reader *r, const char *expected) {
    return hd_fail(HD_ERROR_VALUE, "line %d: expected %s at \"%.24s\"", r->line, expected, r->at);
}

static void skip(reader *r) {
    while (*r->at == ' ' || *r->at == '\t') ++r->at;
    if (r->at[0] == '/' && r->at[1] == '/')
        while (*r->at != '\0' && *r->at != '\n') ++r->at;
}

static bool accept(reader *r, const char *token) {
    skip(r);
    const size_t length = strlen(token);
    if (strncmp(r->at, token, length) != 0) return false;
    r->at += length;
    return true;
}

static hd_error expect(reader *r, const char *token) { return accept(r, token) ? HD_OK : wrong(r, token); }

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static hd_error read_word(reader *r, char *out, size_t capacity) {
    skip(r);
    size_t n = 0;
    while (is_word(r->at[n])) ++n;
    if (n == 0 || n >= capacity) return wrong(r, "a word");
    memcpy(out, r->at, n);
    out[n] = '\0';
    r->at += n;
    return HD_OK;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static hd_error read_name(reader *r, char *out, size_t capacity) {
    HD_TRY(expect(r, "\""));
    size_t n = 0;
    for (; *r->at != '"'; ++n) {
        if (*r->at == '\0' || *r->at == '\n' || n + 1 >= capacity) return wrong(r, "the end of a name");
        if (*r->at == '\\') {
            ++r->at;
            if (*r->at == 'x') {
                const int high = hex_digit(r->at[1]), low = high < 0 ? -1 : hex_digit(r->at[2]);
                if (low < 0 || high * 16 + low == 0) return wrong(r, "two hexadecimal digits");
                out[n] = (char)(high * 16 + low);
                r->at += 3;
                continue;
            }
            if (*r->at != '"' && *r->at != '\\') return wrong(r, "an escaped character");
        }
        out[n] = *r->at++;
    }
    out[n] = '\0';
    ++r->at;
    return HD_OK;
}

static hd_error read_integer(reader *r, int64_t *out) {
    skip(r);
    char *end;
    errno = 0;
    *out = strtoll(r->at, &end, 10);
    if (end == r->at || errno != 0) return wrong(r, "an integer of 64 bits");
    r->at = end;
    return HD_OK;
}

static hd_error read_number(reader *r, double *out) {
    skip(r);
    char *end;
    *out = strtod(r->at, &end); /* inf and nan too */
    if (end == r->at) return wrong(r, "a number");
    r->at = end;
    return HD_OK;
}

static hd_error read_list(reader *r, int64_t *out, int most, int *count) {
    HD_TRY(expect(r, "["));
    for (*count = 0; !accept(r, "]");) {
        if (*count == most) return wrong(r, "]");
        if (*count > 0) HD_TRY(expect(r, ","));
        HD_TRY(read_integer(r, &out[(*count)++]));
    }
    return HD_OK;
}

static hd_error read_dtype(reader *r, hd_dtype *out) {
    char word[32];
    HD_TRY(read_word(r, word, sizeof word));
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        if (strcmp(hd_dtype_name((hd_dtype)d), word) == 0) {
            *out = (hd_dtype)d;
            return HD_OK;
        }
    return wrong(r, "a dtype");
}

static hd_error read_type(reader *r, hd_dtype *dtype, hd_shape *shape) {
    HD_TRY(expect(r, ":"));
    HD_TRY(read_dtype(r, dtype));
    *shape = (hd_shape){.rank = 0};
    HD_TRY(read_list(r, shape->size, HD_MAX_RANK, &shape->rank));
    int64_t count;
    const hd_error status = hd_shape_check(shape, hd_dtype_bytes[*dtype], &count);
    if (status != HD_OK) hd_error_append(r->thread, " (line %d)", r->line);
    return status;
}

static hd_error read_node(reader *r, uint32_t *out) {
    int64_t number;
    HD_TRY(expect(r, "%"));
    HD_TRY(read_integer(r, &number));
    if (number < 0 || number >= r->number_count || r->number[number] == HD_NO_NODE)
        return wrong(r, "a node that was defined");
    *out = r->number[number];
    return HD_OK;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */
/* Two hexadecimal digits for each byte, in quotes. */
static hd_error read_bytes(reader *r, hd_small_bytes *out) {
    char text[2 * sizeof out->at + 1];
    HD_TRY(read_name(r, text, sizeof text));
    for (size_t i = 0; text[i] != '\0'; i += 2) {
        const int high = hex_digit(text[i]), low = high < 0 ? -1 : hex_digit(text[i + 1]);
        if (low < 0) return wrong(r, "pairs of hexadecimal digits");
        out->at[out->count++] = (unsigned char)(high * 16 + low);
    }
    return HD_OK;
}

static hd_error read_field(reader *r, const hd_field *f, char *attributes) {
    void *at = attributes + f->offset;
    int64_t values[2 * HD_MAX_RANK] = {0};
    int count;
    switch (f->kind) {
    case HD_FIELD_F64: return read_number(r, at);
    case HD_FIELD_I64: return read_integer(r, at);
    case HD_FIELD_INT:
        HD_TRY(read_integer(r, &values[0]));
        *(int *)at = (int)values[0];
        return *(int *)at == values[0] ? HD_OK : wrong(r, "a smaller number");
    case HD_FIELD_BOOL:
        *(bool *)at = accept(r, "true");
        return *(bool *)at || accept(r, "false") ? HD_OK : wrong(r, "true or false");
    case HD_FIELD_DTYPE: return read_dtype(r, at);
    case HD_FIELD_SHAPE: return read_list(r, ((hd_shape *)at)->size, HD_MAX_RANK, &((hd_shape *)at)->rank);
    case HD_FIELD_AXES:
        HD_TRY(read_list(r, values, HD_MAX_RANK, &count));
        ((hd_axes *)at)->count = count;
        for (int i = 0; i < count; ++i) {
            ((hd_axes *)at)->axis[i] = (int)values[i];
            if (((hd_axes *)at)->axis[i] != values[i]) return wrong(r, "smaller numbers");
        }
        return HD_OK;
    case HD_FIELD_FLAGS:
        HD_TRY(read_list(r, values, HD_MAX_RANK, &count));
        for (int i = 0; i < count; ++i) {
            if (values[i] < 0 || values[i] >= HD_MAX_RANK) return wrong(r, "axes");
            ((bool *)at)[values[i]] = true;
        }
        return HD_OK;
    case HD_FIELD_LAYOUT: {
        hd_layout *layout = at;
        HD_TRY(read_list(r, layout->shape.size, HD_MAX_RANK, &layout->shape.rank));
        HD_TRY(expect(r, "by"));
        HD_TRY(read_list(r, layout->stride, HD_MAX_RANK, &count));
        if (count != layout->shape.rank) return wrong(r, "as many strides as sizes");
        HD_TRY(expect(r, "from"));
        return read_integer(r, &layout->offset);
    }
    case HD_FIELD_PADDING:
        HD_TRY(read_list(r, values, 2 * HD_MAX_RANK, &count));
        for (int i = 0; i < HD_MAX_RANK; ++i) ((hd_padding *)at)[i] = (hd_padding){values[2 * i], values[2 * i + 1]};
        return HD_OK;
    case HD_FIELD_NAME: return read_name(r, ((hd_name *)at)->text, sizeof((hd_name *)at)->text);
    case HD_FIELD_BYTES: return read_bytes(r, at);
    case HD_FIELD_END: break;
    }
    return HD_OK;
}

static hd_error read_attributes(reader *r, uint16_t op, char *attributes) {
    size_t bytes;
    const hd_field *fields = hd_attribute_fields(op, &bytes);
    memset(attributes, 0, HD_ATTRIBUTES_MOST);
    if (fields->kind == HD_FIELD_END) return HD_OK;
    HD_TRY(expect(r, "{"));
    for (const hd_field *f = fields; f->kind != HD_FIELD_END; ++f) {
        skip(r);
        if (f->later && *r->at == '}') break;
        if (f != fields) HD_TRY(expect(r, ","));
        HD_TRY(expect(r, f->name));
        HD_TRY(expect(r, "="));
        HD_TRY(read_field(r, f, attributes));
    }
    return expect(r, "}");
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */
static hd_storage *storage_of(hd_thread *thread, hd_dtype dtype, const hd_shape *shape) {
    hd_storage *s = hd_storage_new(thread, (size_t)hd_shape_count(*shape) * hd_dtype_bytes[dtype]);
    if (s != NULL && s->bytes > 0) memset(s->data, 0, s->bytes);
    return s;
}

/* The values follow before their dtype is known: they are read again when it is. */
static hd_error read_constant(reader *r, uint32_t *out) {
    double ignored;
    int count = 0;
    if (accept(r, "#"))
        return hd_fail(HD_ERROR_VALUE, "line %d: the values of this constant are not in the text", r->line);
    HD_TRY(expect(r, "{"));
    const char *values = r->at;
    for (; !accept(r, "}"); ++count) {
        if (count == 8) return wrong(r, "}");
        if (count > 0) HD_TRY(expect(r, ","));
        HD_TRY(read_number(r, &ignored));
    }
    hd_dtype dtype;
    hd_shape shape;
    HD_TRY(read_type(r, &dtype, &shape));
    if (hd_shape_count(shape) != count) return wrong(r, "a shape of as many elements");
    hd_storage *s = storage_of(r->thread, dtype, &shape);
    if (s == NULL) return r->thread->error_code;
    for (int i = 0; i < count; ++i) {
        char *element = (char *)s->data + (size_t)i * hd_dtype_bytes[dtype], *end = NULL;
        while (*values == ' ' || *values == ',') ++values;
        if (dtype == HD_I64)
            *(int64_t *)element = strtoll(values, &end, 10);
        else if (dtype == HD_U64)
            *(uint64_t *)element = strtoull(values, &end, 10);
        else
            hd_element_from_f64(element, dtype, strtod(values, &end));
        values = end;
    }
    *out = hd_graph_add_constant(r->g, s, dtype, &shape);
    hd_object_release(r->thread, &s->object);
    return HD_OK;
}

/* A name that nothing else of its kind has. */
static hd_error read_new_name(reader *r, hd_name_kind kind, char name[static HD_NAME_MOST + 1]) {
    HD_TRY(read_name(r, name, HD_NAME_MOST + 1));
    return hd_graph_find(r->g, kind, name) == HD_NO_NODE ? HD_OK : wrong(r, "another name: this one is taken");
}

static hd_error read_cell(reader *r, hd_cell_kind kind, uint32_t *out) {
    char name[HD_NAME_MOST + 1];
    hd_dtype dtype;
    hd_shape shape;
    HD_TRY(read_new_name(r, HD_NAME_CELL, name));
    HD_TRY(read_type(r, &dtype, &shape));
    hd_storage *s = storage_of(r->thread, dtype, &shape); /* zeros: a text has no values */
    if (s == NULL) return r->thread->error_code;
    *out = hd_graph_add_cell(r->g, name, kind, s, dtype, &shape);
    hd_object_release(r->thread, &s->object);
    return HD_OK;
}

static hd_error read_op(reader *r, const char *word, uint32_t *out) {
    uint16_t op = HD_NODE_WRITE;
    if (strcmp(word, "write") != 0) {
        for (op = 0; op < HD_OP_COUNT && strcmp(hd_ops[op].name, word) != 0;) ++op;
        if (op == HD_OP_COUNT) return hd_fail(HD_ERROR_VALUE, "line %d: there is no op \"%s\"", r->line, word);
    }
    int64_t operand = -1;
    if (*r->at == '\'') {
        ++r->at;
        HD_TRY(read_integer(r, &operand));
        if (operand < 0 || operand > 2 || op >= HD_OP_ELEMENTWISE_COUNT)
            return wrong(r, "an operand of an elementwise op");
    }
    uint32_t inputs[HD_MAX_INPUTS];
    int count = 0;
    for (skip(r); *r->at == '%'; skip(r)) {
        if (count == HD_MAX_INPUTS) return wrong(r, "no more inputs");
        HD_TRY(read_node(r, &inputs[count++]));
        if (!accept(r, ",")) break;
    }
    const hd_op *known = op == HD_NODE_WRITE ? NULL : operand < 0 ? &hd_ops[op] : &hd_derivatives[op][operand];
    if (known != NULL ? count < known->min_inputs || count > known->max_inputs : count != 2)
        return wrong(r, "other inputs");
    _Alignas(8) char attributes[HD_ATTRIBUTES_MOST];
    skip(r);
    const bool without = hd_attributes_may_lack(op) && *r->at != '{';
    if (!without) HD_TRY(read_attributes(r, op, attributes));
    hd_dtype dtype;
    hd_shape shape;
    HD_TRY(read_type(r, &dtype, &shape));
    if (op < HD_OP_COUNT && hd_ops[op].family == HD_FAMILY_RANDOM) {
        const uint64_t draw = ((const hd_random_attributes *)attributes)->draw;
        if (draw >= UINT32_MAX) return wrong(r, "an ordinal");
        if (draw >= r->g->draws) r->g->draws = (uint32_t)draw + 1;
    }
    *out = hd_graph_add(r->g, op, (int)operand + 1, inputs, count, dtype, &shape, without ? NULL : attributes);
    return HD_OK;
}

static hd_error read_output(reader *r, uint32_t *out) {
    int64_t which;
    uint32_t node;
    hd_dtype dtype;
    hd_shape shape;
    HD_TRY(read_integer(r, &which));
    HD_TRY(expect(r, "of"));
    skip(r);
    HD_TRY(read_node(r, &node));
    if (which < 1 || which >= HD_MAX_OUTPUTS) return wrong(r, "another output than the first");
    HD_TRY(read_type(r, &dtype, &shape));
    *out = hd_graph_add(r->g, HD_NODE_OUTPUT, (int)which, &node, 1, dtype, &shape, NULL);
    return HD_OK;
}

static hd_error read_span(reader *r, uint32_t node) {
    if (!accept(r, "@")) return HD_OK;
    uint32_t span = 0;
    do {
        char word[128];
        skip(r);
        size_t n = 0;
        while (r->at[n] != '/' && r->at[n] != '\n' && r->at[n] != '\0' && n + 1 < sizeof word) ++n;
        memcpy(word, r->at, n);
        word[n] = '\0';
        r->at += n;
        uint32_t found = 0;
        for (uint32_t i = r->g->span_count; i-- > 1 && found == 0;) /* the newest of that name in that place */
            if (r->g->spans[i].parent == span && strcmp(hd_graph_string(r->g, r->g->spans[i].name), word) == 0)
                found = i;
        span = found != 0 ? found : hd_graph_add_span(r->g, word, span);
        if (span == 0) return r->thread->error_code;
    } while (accept(r, "/"));
    r->g->nodes[node].span = span;
    return HD_OK;
}

static hd_error define(reader *r) {
    int64_t number;
    char word[64];
    uint32_t node = HD_NO_NODE;
    HD_TRY(read_integer(r, &number));
    HD_TRY(expect(r, "="));
    HD_TRY(read_word(r, word, sizeof word));
    if (number < 0 || number > 4 * (int64_t)r->g->node_count + 4096) return wrong(r, "a smaller number for the node");
    if (strcmp(word, "input") == 0) {
        char name[HD_NAME_MOST + 1];
        hd_dtype dtype;
        hd_shape shape;
        HD_TRY(read_new_name(r, HD_NAME_INPUT, name));
        HD_TRY(read_type(r, &dtype, &shape));
        node = hd_graph_add_input(r->g, name, dtype, &shape);
    } else if (strcmp(word, "constant") == 0) {
        HD_TRY(read_constant(r, &node));
    } else if (strcmp(word, "state") == 0 || strcmp(word, "bound") == 0) {
        HD_TRY(read_cell(r, word[0] == 's' ? HD_CELL_STATE : HD_CELL_BOUND, &node));
    } else if (strcmp(word, "output") == 0) {
        HD_TRY(read_output(r, &node));
    } else {
        HD_TRY(read_op(r, word, &node));
    }
    if (node == HD_NO_NODE) return r->thread->error_code;
    if (node >= r->line_count) {
        int *moved = hd_array_resize(r->lines, ((size_t)node * 2 + 16) * sizeof *moved);
        if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u nodes", node);
        r->lines = moved;
        r->line_count = node * 2 + 16;
    }
    r->lines[node] = r->line;
    HD_TRY(read_span(r, node));
    if (number >= r->number_count) {
        const uint32_t count = (uint32_t)number * 2 + 16;
        uint32_t *moved = hd_array_resize(r->number, count * sizeof *moved);
        if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u nodes", count);
        for (uint32_t i = r->number_count; i < count; ++i) moved[i] = HD_NO_NODE;
        r->number = moved;
        r->number_count = count;
    }
    if (r->number[number] != HD_NO_NODE) return wrong(r, "a node that was not defined yet");
    r->number[number] = node;
    return HD_OK;
}

static hd_error read_update(reader *r, const char *name, uint32_t node) {
    const uint32_t index = hd_graph_find(r->g, HD_NAME_CELL, name);
    if (index == HD_NO_NODE) return wrong(r, "the name of a state");
    hd_graph_cell *c = &r->g->cells[index];
    const hd_node *cell = &r->g->nodes[c->node], *value = &r->g->nodes[node];
    if (c->update != c->node) return wrong(r, "one update of a state");
    if (c->kind != HD_CELL_STATE || cell->dtype != value->dtype || cell->shape != value->shape)
        return wrong(r, "a state, and a value of its type");
    c->update = node;
    return HD_OK;
}

static hd_error read_line(reader *r) {
    char name[HD_NAME_MOST + 1];
    uint32_t node = HD_NO_NODE;
    if (accept(r, "%")) return define(r);
    const bool output = accept(r, "output"), update = !output && accept(r, "update");
    if (!output && !update) return wrong(r, "%, output or update");
    HD_TRY(output ? read_new_name(r, HD_NAME_OUTPUT, name) : read_name(r, name, sizeof name));
    HD_TRY(expect(r, "="));
    HD_TRY(read_node(r, &node));
    return output ? hd_graph_add_output(r->g, name, node) : read_update(r, name, node);
}

/* ---- from the draft to a graph ----------------------------------------------------------------------------------- */
static hd_error parse(reader *r) {
    bool named = false;
    for (;; ++r->line) {
        skip(r);
        if (*r->at == '\0') break;
        if (*r->at != '\n') {
            if (!named) {
                char name[HD_NAME_MOST + 1];
                HD_TRY(expect(r, "script"));
                HD_TRY(read_name(r, name, sizeof name));
                r->g = hd_graph_new(r->thread, name);
                if (r->g == NULL) return r->thread->error_code;
                named = true;
            } else {
                HD_TRY(read_line(r));
            }
            skip(r);
        }
        if (*r->at == '\n')
            ++r->at;
        else if (*r->at != '\0')
            return wrong(r, "the end of the line");
    }
    return named ? HD_OK : wrong(r, "script");
}

hd_graph *hd_graph_parse(hd_thread *thread, const char *text) {
    HD_HOLD_ERRORS(thread);
    reader r = {.thread = thread, .at = text, .line = 1};
    thread->call = "hd_graph_parse";
    hd_error status = parse(&r);
    uint32_t node = HD_NO_NODE;
    if (status == HD_OK) {
        status = hd_graph_verify_at(thread, r.g, &node);
        if (status != HD_OK && node != HD_NO_NODE) hd_error_append(thread, " (line %d)", r.lines[node]);
    }
    hd_array_release(r.number);
    hd_array_release(r.lines);
    if (status == HD_OK) return r.g;
    hd_graph_release(thread, r.g);
    return NULL;
}
