/* Building kernels, and deciding what is computed where. */
#include "kernel/kernel.h"
#include "core/memory.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

void hd_kernel_init(hd_kernel *k, int axes, int kept) {
    memset(k, 0, sizeof *k);
    k->axes = (uint8_t)axes;
    k->kept = (uint8_t)kept;
}

void hd_kernel_release(hd_kernel *k) {
    hd_array_release(k->steps);
    hd_array_release(k->table);
    hd_kernel_init(k, k->axes, k->kept);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */
static uint64_t step_hash(const hd_step *s) {
    uint64_t value, h = 0x9E3779B97F4A7C15u;
    memcpy(&value, &s->value, 8);
    const uint64_t parts[5] = {(uint64_t)s->word << 32 | (uint64_t)s->type << 16 | s->index, (uint32_t)s->operand[0],
                               (uint32_t)s->operand[1], (uint32_t)s->operand[2], value};
    for (int i = 0; i < 5; ++i) {
        h = (h ^ parts[i]) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 29;
    }
    return h;
}

static bool step_equal(const hd_step *a, const hd_step *b) {
    return a->word == b->word && a->type == b->type && a->index == b->index &&
           memcmp(a->operand, b->operand, sizeof a->operand) == 0 && memcmp(&a->value, &b->value, 8) == 0;
}

static void enter_step(hd_kernel *k, int i) {
    uint64_t at = step_hash(&k->steps[i]) & (uint64_t)(k->table_size - 1);
    while (k->table[at] >= 0) at = (at + 1) & (uint64_t)(k->table_size - 1);
    k->table[at] = i;
}

static hd_error grow_kernel(hd_kernel *k) {
    const int capacity = k->capacity > 0 ? k->capacity * 2 : 64;
    hd_step *steps = hd_array_resize(k->steps, (size_t)capacity * sizeof *steps);
    if (steps == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %d steps", capacity);
    k->steps = steps;
    int32_t *table = hd_array_resize(k->table, (size_t)capacity * 2 * sizeof *table);
    if (table == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %d steps", capacity);
    k->table = table;
    k->capacity = capacity;
    k->table_size = capacity * 2;
    memset(table, -1, (size_t)k->table_size * sizeof *table);
    for (int i = 0; i < k->count; ++i) enter_step(k, i);
    return HD_OK;
}

static int add_step(hd_kernel *k, hd_step step) {
    if (k->count == k->capacity && grow_kernel(k) != HD_OK) return -1;
    if (step.word != HD_STEP_STORE) {
        uint64_t at = step_hash(&step) & (uint64_t)(k->table_size - 1);
        for (; k->table[at] >= 0; at = (at + 1) & (uint64_t)(k->table_size - 1))
            if (step_equal(&k->steps[k->table[at]], &step)) return k->table[at];
    }
    k->steps[k->count] = step;
    enter_step(k, k->count);
    return k->count++;
}

static hd_step plain(int word, int type, int index) {
    return (hd_step){.word = (uint8_t)word, .type = (uint8_t)type, .index = (uint16_t)index, .operand = {-1, -1, -1}};
}

int hd_kernel_add_buffer(hd_kernel *k, hd_dtype dtype, bool written, const uint8_t *strides) {
    if (k->buffer_count == HD_KERNEL_BUFFERS) {
        hd_fail(HD_ERROR_INTERNAL, "a kernel of more than %d buffers", (int)HD_KERNEL_BUFFERS);
        return -1;
    }
    hd_kernel_buffer *b = &k->buffers[k->buffer_count];
    b->dtype = (uint8_t)dtype;
    b->written = written;
    memcpy(b->stride, strides, k->axes);
    return k->buffer_count++;
}

int hd_kernel_load_where(hd_kernel *k, int buffer, int offset, int condition) {
    if (buffer < 0) return -1;
    hd_step step = plain(HD_STEP_LOAD, hd_dtype_compute[k->buffers[buffer].dtype], buffer);
    step.operand[0] = offset;
    step.operand[1] = condition;
    return add_step(k, step);
}

int hd_kernel_load(hd_kernel *k, int buffer, int offset) { return hd_kernel_load_where(k, buffer, offset, -1); }

/* e / sum(e) for e = exp(x - max(x)): the sum is 1 or more, so that its reciprocal is safe, and found once for all of
 * e. */
static bool is_softmax(const hd_kernel *k, int e, int sum) {
    const hd_step *s = &k->steps[sum];
    if (s->word != HD_STEP_REDUCE || s->index != HD_KERNEL_SUM || s->operand[0] != e || k->steps[e].word != HD_WORD_EXP)
        return false;
    const hd_step *lowered = &k->steps[k->steps[e].operand[0]];
    if (lowered->word != HD_WORD_SUB) return false;
    const hd_step *most = &k->steps[lowered->operand[1]];
    return most->word == HD_STEP_REDUCE && most->index == HD_KERNEL_MAX && most->operand[0] == lowered->operand[0];
}

int hd_kernel_word(hd_kernel *k, hd_word word, int a, int b, int c) {
    const int arity = hd_words[word].arity;
    if (a < 0 || (arity > 1 && b < 0) || (arity > 2 && c < 0)) return -1;
    if (word == HD_WORD_DIV && is_softmax(k, a, b)) {
        const int one = hd_kernel_constant(k, (hd_compute)k->steps[b].type, 1);
        return hd_kernel_word(k, HD_WORD_MUL, a, hd_kernel_word(k, HD_WORD_DIV, one, b, -1), -1);
    }
    const int typed = word == HD_WORD_SELECT ? b : a;
    hd_step step = plain(word, hd_words[word].gives_condition ? HD_CONDITION : k->steps[typed].type, 0);
    step.operand[0] = a;
    step.operand[1] = arity > 1 ? b : -1;
    step.operand[2] = arity > 2 ? c : -1;
    return add_step(k, step);
}

int hd_kernel_constant(hd_kernel *k, hd_compute type, double value) {
    hd_step step = plain(HD_WORD_CONSTANT, (int)type, 0);
    step.value = type == HD_COMPUTE_F32 ? (double)(float)value : value;
    return add_step(k, step);
}

int hd_kernel_number(hd_kernel *k, hd_compute type, int number) {
    if (number >= k->number_count) k->number_count = number + 1;
    return add_step(k, plain(HD_WORD_NUMBER, (int)type, number));
}

int hd_kernel_index(hd_kernel *k, int axis) { return add_step(k, plain(HD_STEP_INDEX, HD_COMPUTE_I64, axis)); }

static int with_operand(hd_kernel *k, int word, int type, int index, int a) {
    if (a < 0) return -1;
    hd_step step = plain(word, type, index);
    step.operand[0] = a;
    return add_step(k, step);
}

int hd_kernel_cast(hd_kernel *k, int a, int type) {
    return a >= 0 && k->steps[a].type == type ? a : with_operand(k, HD_STEP_CAST, type, 0, a);
}

int hd_kernel_round(hd_kernel *k, int a, hd_dtype dtype) {
    return with_operand(k, HD_STEP_ROUND, HD_COMPUTE_F32, (int)dtype, a);
}

int hd_kernel_reduce(hd_kernel *k, int a, hd_kernel_reduction how) {
    return a < 0 ? -1 : with_operand(k, HD_STEP_REDUCE, k->steps[a].type, (int)how, a);
}

int hd_kernel_store(hd_kernel *k, int buffer, int a) {
    return a < 0 || buffer < 0 ? -1 : with_operand(k, HD_STEP_STORE, k->steps[a].type, buffer, a);
}

int hd_kernel_draw(hd_kernel *k, hd_kernel_drawn what, hd_compute type, int offset, int axis, int seed, int draw) {
    if (offset < 0 || seed < 0 || draw < 0) return -1;
    hd_step step = plain(HD_STEP_DRAW, (int)type, (int)what | (axis + 1) << 8);
    step.operand[0] = offset;
    step.operand[1] = seed;
    step.operand[2] = draw;
    return add_step(k, step);
}

int hd_kernel_row(hd_kernel *k, const hd_ir *ir, const int *inputs, const int *numbers) {
    int few[64], *moved = ir->count <= 64 ? few : hd_array_resize(NULL, (size_t)ir->count * sizeof *moved);
    if (moved == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %d steps", ir->count);
        return -1;
    }
    int result = -1;
    for (int i = 0; i <= ir->result; ++i) {
        const hd_ir_node *n = &ir->nodes[i];
        if (n->word == HD_WORD_INPUT) {
            moved[i] = inputs[n->index];
        } else if (n->word == HD_WORD_NUMBER) {
            moved[i] = numbers[n->index];
        } else if (n->word == HD_WORD_CONSTANT) {
            moved[i] = hd_kernel_constant(k, (hd_compute)n->type, n->value);
        } else {
            int o[3];
            for (int j = 0; j < 3; ++j) o[j] = n->operand[j] < 0 ? -1 : moved[n->operand[j]];
            moved[i] = hd_kernel_word(k, (hd_word)n->word, o[0], o[1], o[2]);
        }
        result = moved[i];
        if (result < 0) break;
    }
    if (moved != few) hd_array_release(moved);
    return result;
}

/* ---- what is computed where -------------------------------------------------------------------------------------- */
static hd_error drop_unneeded(hd_kernel *k) {
    int32_t *moved = hd_array_resize(NULL, (size_t)(k->count + 1) * sizeof *moved);
    if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %d steps", k->count);
    for (int i = 0; i < k->count; ++i) moved[i] = k->steps[i].word == HD_STEP_STORE;
    for (int i = k->count; i-- > 0;)
        for (int j = 0; moved[i] && j < 3; ++j)
            if (k->steps[i].operand[j] >= 0) moved[k->steps[i].operand[j]] = 1;
    int count = 0;
    for (int i = 0; i < k->count; ++i) {
        if (!moved[i]) continue;
        hd_step step = k->steps[i];
        for (int j = 0; j < 3; ++j)
            if (step.operand[j] >= 0) step.operand[j] = moved[step.operand[j]];
        moved[i] = count;
        k->steps[count++] = step;
    }
    k->count = count;
    hd_array_release(moved);
    hd_array_release(k->table); /* no more steps are added */
    k->table = NULL;
    k->table_size = 0;
    return HD_OK;
}

static int depth_of(uint8_t over) { return over == 0 ? 0 : 32 - __builtin_clz(over); }

static uint8_t buffer_over(const hd_kernel *k, int buffer) {
    uint8_t over = 0;
    for (int a = 0; a < k->axes; ++a)
        if (k->buffers[buffer].stride[a] != HD_STRIDE_ZERO) over |= (uint8_t)(1u << a);
    return over;
}

static void settle_depth(hd_kernel *k, hd_step *s) {
    const uint8_t reduced = (uint8_t)((1u << k->axes) - (1u << k->kept));
    s->over = 0;
    s->stage = 0;
    for (int j = 0; j < 3; ++j)
        if (s->operand[j] >= 0) {
            const hd_step *o = &k->steps[s->operand[j]];
            s->over |= o->over;
            if (o->stage > s->stage) s->stage = o->stage;
        }
    if (s->word == HD_STEP_LOAD) s->over |= buffer_over(k, s->index);
    if (s->word == HD_STEP_INDEX) s->over = (uint8_t)(1u << s->index);
    if (s->word == HD_STEP_DRAW && hd_drawn_axis(s->index) >= 0) s->over |= (uint8_t)(1u << hd_drawn_axis(s->index));
    s->depth = (uint8_t)depth_of(s->over);
    if (s->stage > 0 && s->depth < k->kept) s->depth = k->kept; /* it follows from a reduction */
    if (s->word == HD_STEP_REDUCE) {
        s->over &= (uint8_t)~reduced;
        s->depth = k->kept;
        s->stage++;
    }
    if (s->word == HD_STEP_STORE) s->depth = (buffer_over(k, s->index) & reduced) != 0 ? k->axes : k->kept;
}

int hd_step_cost(const hd_step *s) {
    switch (s->word) {
    case HD_STEP_DRAW: return hd_drawn_kind(s->index) == HD_DRAWN_NORMAL ? HD_COST_NORMAL : HD_COST_BITS;
    case HD_STEP_CAST:
    case HD_STEP_ROUND: return HD_COST_CAST;
    default: return s->word < HD_WORD_COUNT ? hd_words[s->word].cost : 0;
    }
}

hd_error hd_kernel_settle(hd_kernel *k) {
    k->stages = 0;
    HD_TRY(drop_unneeded(k));
    for (int i = 0; i < k->count; ++i) {
        hd_step *s = &k->steps[i];
        settle_depth(k, s);
        const int walks = s->word == HD_STEP_REDUCE                        ? s->stage
                          : s->word == HD_STEP_STORE && s->depth > k->kept ? s->stage + 1
                                                                           : 0;
        if (walks > k->stages) k->stages = (uint8_t)walks;
    }
    return HD_OK;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */
static const char *step_name(int word) {
    static const char *const names[] = {"LOAD", "INDEX", "CAST", "ROUND", "REDUCE", "STORE", "DRAW"};
    return word < HD_WORD_COUNT ? hd_words[word].name : word < HD_STEP_COUNT ? names[word - HD_WORD_COUNT] : "?";
}

static bool types_fit(const hd_kernel *k, const hd_step *s) {
    const int count = s->word < HD_WORD_INPUT ? hd_words[s->word].arity : 0;
    for (int j = 0; j < count; ++j) {
        const int type = k->steps[s->operand[j]].type;
        const bool condition = hd_words[s->word].domain == HD_DOMAIN_COND || (s->word == HD_WORD_SELECT && j == 0);
        if (condition != (type == HD_CONDITION)) return false;
        if (!condition && !hd_words[s->word].gives_condition && type != s->type) return false;
        if (hd_words[s->word].domain == HD_DOMAIN_FLOAT && type != HD_COMPUTE_F32 && type != HD_COMPUTE_F64)
            return false;
    }
    if (s->word == HD_STEP_STORE) return s->type == hd_dtype_compute[k->buffers[s->index].dtype];
    if (s->word == HD_STEP_LOAD) return s->operand[1] < 0 || k->steps[s->operand[1]].type == HD_CONDITION;
    return true;
}

static bool buffers_fit(const hd_kernel *k) {
    for (int b = 0; b < k->buffer_count; ++b) {
        if (k->buffers[b].dtype >= HD_DTYPE_COUNT) return false;
        for (int a = 0; a < k->axes; ++a)
            if (k->buffers[b].stride[a] > HD_STRIDE_ANY) return false;
    }
    return true;
}

/* What stands in a step is looked up in tables. */
static bool numbers_fit(const hd_kernel *k, const hd_step *s) {
    if (s->type > HD_CONDITION || s->depth > k->axes || s->slot > k->schedule.slots) return false;
    switch (s->word) {
    case HD_WORD_NUMBER: return s->index < k->number_count;
    case HD_STEP_INDEX: return s->index < k->axes;
    case HD_STEP_ROUND: return s->index < HD_DTYPE_COUNT;
    case HD_STEP_REDUCE: return s->index <= HD_KERNEL_MIN;
    case HD_STEP_DRAW: return hd_drawn_kind(s->index) <= HD_DRAWN_NORMAL && hd_drawn_axis(s->index) < k->axes;
    default: return true;
    }
}

hd_error hd_kernel_verify(const hd_kernel *k) {
    const char *why = NULL;
    int at = 0;
    if (k->axes > HD_KERNEL_AXES || k->kept > k->axes || k->schedule.lanes >= (k->axes ? k->axes : 1)) why = "its axes";
    if (why == NULL && !buffers_fit(k)) why = "its buffers";
    for (int i = 0; i < k->count && why == NULL; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word >= HD_STEP_COUNT) why = "its word";
        const int arity = s->word < HD_WORD_INPUT                               ? hd_words[s->word].arity
                          : s->word >= HD_STEP_CAST && s->word <= HD_STEP_STORE ? 1
                          : s->word == HD_STEP_DRAW                             ? 3
                                                                                : 0;
        at = i;
        for (int j = 0; j < 3 && why == NULL; ++j) {
            if (s->operand[j] >= i || s->operand[j] < -1 || (j < arity && s->operand[j] < 0)) why = "an operand";
        }
        if (why == NULL && (s->word == HD_STEP_LOAD || s->word == HD_STEP_STORE) && s->index >= k->buffer_count)
            why = "its buffer";
        if (why == NULL && !numbers_fit(k, s)) why = "its numbers";
        if (why == NULL && !types_fit(k, s)) why = "its type";
        if (why == NULL && s->word == HD_STEP_STORE && k->steps[s->operand[0]].depth > s->depth) why = "its place";
    }
    return why == NULL ? HD_OK
                       : hd_fail(HD_ERROR_INTERNAL, "step %d of a kernel, %s, is wrong: %s", at,
                                 k->count > 0 ? step_name(k->steps[at].word) : "none", why);
}

/* ---- bytes and text ---------------------------------------------------------------------------------------------- */
size_t hd_kernel_bytes(const hd_kernel *k, void *out, size_t capacity) {
    const size_t head = 24, buffers = (size_t)k->buffer_count * sizeof *k->buffers,
                 steps = (size_t)k->count * sizeof *k->steps, all = head + buffers + steps;
    if (capacity < all) return all;
    const uint16_t numbers[12] = {k->axes,
                                  k->kept,
                                  (uint16_t)(k->schedule.lanes | k->stages << 8),
                                  k->schedule.width,
                                  k->schedule.slots,
                                  (uint16_t)k->buffer_count,
                                  (uint16_t)k->number_count,
                                  (uint16_t)k->count,
                                  k->schedule.form,
                                  k->schedule.sum_points,
                                  k->schedule.sum_rows};
    memcpy(out, numbers, head);
    memcpy((char *)out + head, k->buffers, buffers);
    memcpy((char *)out + head + buffers, k->steps, steps);
    return all;
}

hd_error hd_kernel_from_bytes(hd_kernel *k, const void *bytes, size_t count) {
    uint16_t numbers[12];
    hd_kernel_init(k, 0, 0);
    if (count < sizeof numbers) return hd_fail(HD_ERROR_INTERNAL, "a kernel of %zu bytes", count);
    memcpy(numbers, bytes, sizeof numbers);
    const size_t buffers = (size_t)numbers[5] * sizeof *k->buffers, front = sizeof numbers + buffers;
    if (numbers[0] > HD_KERNEL_AXES || numbers[1] > HD_KERNEL_AXES || numbers[5] > HD_KERNEL_BUFFERS || count < front ||
        (count - front) % sizeof *k->steps != 0 || (count - front) / sizeof *k->steps > INT32_MAX)
        return hd_fail(HD_ERROR_INTERNAL, "a kernel of %d axes and %d buffers in %zu bytes", numbers[0], numbers[5],
                       count);
    const size_t steps = (count - front) / sizeof *k->steps;
    hd_kernel_init(k, numbers[0], numbers[1]);
    k->schedule.lanes = (uint8_t)numbers[2];
    k->stages = (uint8_t)(numbers[2] >> 8);
    k->schedule.width = numbers[3];
    k->schedule.slots = numbers[4];
    k->schedule.form = (uint8_t)numbers[8];
    k->schedule.sum_points = numbers[9];
    k->schedule.sum_rows = numbers[10];
    k->buffer_count = numbers[5];
    k->number_count = numbers[6];
    for (size_t i = 0; i < numbers[5]; ++i) { /* a truth value that is neither would be undefined */
        const unsigned char *b = (const unsigned char *)bytes + sizeof numbers + i * sizeof *k->buffers;
        if (b[offsetof(hd_kernel_buffer, written)] > 1)
            return hd_fail(HD_ERROR_INTERNAL, "buffer %zu of a kernel is damaged", i);
    }
    memcpy(k->buffers, (const char *)bytes + sizeof numbers, buffers);
    k->steps = hd_array_resize(NULL, (steps + 1) * sizeof *k->steps);
    if (k->steps == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a kernel of %zu steps", steps);
    memcpy(k->steps, (const char *)bytes + front, count - front);
    k->count = k->capacity = (int)steps;
    return hd_kernel_verify(k);
}

#define APPEND(...)                                                                                                    \
    at += (size_t)snprintf(at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0, __VA_ARGS__)

size_t hd_kernel_print(const hd_kernel *k, char *out, size_t capacity) {
    size_t at = 0;
    APPEND("kernel: %d axes, %d kept, axis %d in %d lanes, %d stages, %d slots, %d numbers\n", k->axes, k->kept,
           k->schedule.lanes, k->schedule.width, k->stages, k->schedule.slots, k->number_count);
    for (int b = 0; b < k->buffer_count; ++b) {
        APPEND("  buffer %d: %s, %s, strides", b, hd_dtype_name((hd_dtype)k->buffers[b].dtype),
               k->buffers[b].written ? "written" : "read");
        for (int a = 0; a < k->axes; ++a)
            APPEND(" %s", k->buffers[b].stride[a] == HD_STRIDE_ZERO  ? "0"
                          : k->buffers[b].stride[a] == HD_STRIDE_ONE ? "1"
                                                                     : "n");
        APPEND("\n");
    }
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        APPEND("  %%%d = %s", i, step_name(s->word));
        for (int j = 0; j < 3; ++j)
            if (s->operand[j] >= 0) APPEND(" %%%d", s->operand[j]);
        if (s->word == HD_WORD_CONSTANT)
            APPEND(" %.9g", s->value);
        else if (s->word == HD_STEP_LOAD || s->word == HD_STEP_STORE)
            APPEND(" buffer %d", s->index);
        else if (s->word == HD_STEP_INDEX || s->word == HD_WORD_NUMBER || s->word == HD_STEP_REDUCE)
            APPEND(" %d", s->index);
        else if (s->word == HD_STEP_ROUND)
            APPEND(" %s", hd_dtype_name((hd_dtype)s->index));
        else if (s->word == HD_STEP_DRAW)
            APPEND(" %s", hd_drawn_kind(s->index) == HD_DRAWN_NORMAL ? "normal" : "bits");
        if (s->word == HD_STEP_DRAW && hd_drawn_axis(s->index) >= 0) APPEND(" along axis %d", hd_drawn_axis(s->index));
        APPEND(" : %s, depth %d, stage %d", hd_ir_type_name(s->type), s->depth, s->stage);
        if (s->slot) APPEND(", slot %d", s->slot - 1);
        APPEND("\n");
    }
    return at;
}
