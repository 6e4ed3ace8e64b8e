/* NumPy's einsum: an equation is read into labels of axes, and operands meet two at a time, as contractions that
 * hd_dot_general does, in an order chosen by cost. */
#include "ops/op.h"

#include <math.h>

/* Letters, in the order of an output that is left out, then the axes that "..." stands for, which are paired from the
 * last one back. */
enum { LETTERS = 52, LABELS = LETTERS + HD_MAX_RANK };
typedef uint64_t label_set; /* a bit for each label */
static inline label_set only(int label) { return (label_set)1 << label; }

typedef struct term {
    hd_tensor *t;
    label_set labels; /* of its axes */
    uint8_t label[HD_MAX_RANK];
    bool is_own; /* it shares no memory with an operand */
} term;

typedef struct equation {
    const char *text;
    int count;      /* of terms */
    hd_dtype dtype; /* in which all operands meet */
    int dots;       /* how many axes "..." stands for at most */
    label_set known, more_than_once, output_labels;
    int output_rank;
    uint8_t output[HD_MAX_RANK];
    uint8_t owner[LABELS]; /* which operand said the size of a label */
    int64_t size[LABELS];
    term terms[HD_MAX_INPUTS];
} equation;

/* ---- reading ----------------------------------------------------------------------------------------------------- */
/* Labels as they are written, for an operand or the output. */
typedef struct subscripts {
    int count, dots; /* dots: how many labels stand before "..."; -1 where there is none */
    uint8_t label[HD_MAX_RANK];
} subscripts;

#define EQUATION_TEXT "\"%.80s\""

static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1; }

#define LABEL_TEXT(label) label_text((char[4]){0}, label)
static const char *label_text(char *out, int label) {
    out[0] = (char)(label < 26 ? 'A' + label : 'a' + label - 26);
    for (int i = 0; label >= LETTERS && i < 3; ++i) out[i] = '.';
    return out;
}

static hd_error refuse_character(const equation *e, const char *at) {
    const unsigned char c = (unsigned char)*at;
    char given[16] = {'"', *at, '"'};
    if (c < ' ' || c > '~')
        for (int i = 0; i < 4; ++i) given[i] = i < 2 ? "0x"[i] : "0123456789abcdef"[i == 2 ? c >> 4 : c & 15];
    return hd_fail(HD_ERROR_VALUE,
                   EQUATION_TEXT
                   ": %s at place %lld; labels are the letters a-z and A-Z, beside \",\", \"...\" and one "
                   "\"->\"",
                   e->text, given, (long long)(at - e->text));
}

/* Labels up to "," or "->" or the end. */
static hd_error read_subscripts(const equation *e, const char **from, subscripts *s) {
    const char *at = *from;
    *s = (subscripts){.dots = -1};
    for (; *at != '\0' && *at != ',' && !(at[0] == '-' && at[1] == '>'); ++at) {
        const int label = label_of(*at);
        if (*at == ' ') continue;
        if (*at == '.' && at[1] == '.' && at[2] == '.' && s->dots < 0) {
            s->dots = s->count;
            at += 2;
        } else if (*at == '.') {
            return hd_fail(HD_ERROR_VALUE,
                           EQUATION_TEXT
                           ": \".\" at place %lld; dots come in threes, \"...\", once in each operand and "
                           "in the output",
                           e->text, (long long)(at - e->text));
        } else if (label < 0) {
            return refuse_character(e, at);
        } else if (s->count == HD_MAX_RANK) {
            return hd_fail(HD_ERROR_SHAPE,
                           EQUATION_TEXT ": \"%c\" at place %lld is label %d of one tensor, of %d axes at "
                                         "most",
                           e->text, *at, (long long)(at - e->text), HD_MAX_RANK + 1, HD_MAX_RANK);
        } else {
            s->label[s->count++] = (uint8_t)label;
        }
    }
    *from = at;
    return HD_OK;
}

static hd_error note_size(equation *e, int operand, int label, int64_t size) {
    if (!(e->known & only(label)) || e->size[label] == 1) {
        e->size[label] = size;
        e->owner[label] = (uint8_t)operand;
    } else if (size != 1 && size != e->size[label]) {
        const int first = e->owner[label];
        return hd_fail(HD_ERROR_SHAPE,
                       EQUATION_TEXT
                       ": label \"%s\" has size %lld in operand %d %s and %lld in operand %d %s; sizes of a "
                       "label are equal, or 1",
                       e->text, LABEL_TEXT(label), (long long)e->size[label], first,
                       HD_SHAPE_TEXT(e->terms[first].t->layout.shape), (long long)size, operand,
                       HD_SHAPE_TEXT(e->terms[operand].t->layout.shape));
    }
    return HD_OK;
}

/* Gives the axes of an operand their labels. */
static hd_error label_operand(equation *e, int operand, const subscripts *s) {
    term *x = &e->terms[operand];
    const hd_shape *shape = &x->t->layout.shape;
    const int dots = shape->rank - s->count;
    if (dots < 0 || (dots > 0 && s->dots < 0))
        return hd_fail(HD_ERROR_SHAPE, EQUATION_TEXT ": %d labels for operand %d %s, which has %d axes; %s", e->text,
                       s->count, operand, HD_SHAPE_TEXT(*shape), shape->rank,
                       dots < 0 ? "give one for each axis" : "give one for each axis, or \"...\" for the others");
    if (s->dots >= 0 && dots > e->dots) e->dots = dots;
    label_set here = 0;
    for (int i = 0; i < shape->rank; ++i) {
        const bool is_dot = s->dots >= 0 && i >= s->dots && i < s->dots + dots;
        const int label =
            is_dot ? LABELS - dots + (i - s->dots) : s->label[i - (s->dots >= 0 && i >= s->dots ? dots : 0)];
        x->label[i] = (uint8_t)label;
        for (int k = 0; k < i && (here & only(label)); ++k)
            if (x->label[k] == label && shape->size[k] != shape->size[i])
                return hd_fail(HD_ERROR_SHAPE,
                               EQUATION_TEXT
                               ": label \"%s\" is axis %d and axis %d of operand %d %s, whose sizes differ",
                               e->text, LABEL_TEXT(label), k, i, operand, HD_SHAPE_TEXT(*shape));
        HD_TRY(note_size(e, operand, label, shape->size[i]));
        if (e->known & only(label)) e->more_than_once |= only(label);
        e->known |= only(label);
        here |= only(label);
    }
    x->labels = here;
    return HD_OK;
}

static hd_error read_operands(equation *e, const char **at, hd_tensor *const *tensors, int count) {
    for (int i = 0;; ++i, ++*at) {
        subscripts s;
        HD_TRY(read_subscripts(e, at, &s));
        if (i < count) {
            e->terms[i] = (term){.t = tensors[i]};
            HD_TRY(label_operand(e, i, &s));
        }
        if (**at == ',') continue;
        if (i + 1 == count) return HD_OK;
        return hd_fail(HD_ERROR_VALUE,
                       EQUATION_TEXT " has %d operands, and %d are given; each \",\" is followed by one", e->text,
                       i + 1, count);
    }
}

static hd_error append_output(equation *e, int label) {
    if (e->output_rank == HD_MAX_RANK)
        return hd_fail(HD_ERROR_SHAPE, EQUATION_TEXT " has a result of more than %d axes, the most there can be",
                       e->text, HD_MAX_RANK);
    e->output[e->output_rank++] = (uint8_t)label;
    e->output_labels |= only(label);
    return HD_OK;
}

static hd_error append_dots(equation *e) {
    for (int i = LABELS - e->dots; i < LABELS; ++i) HD_TRY(append_output(e, i));
    return HD_OK;
}

/* Those of "..." and all labels that were seen once, by the alphabet. */
static hd_error implied_output(equation *e) {
    HD_TRY(append_dots(e));
    for (int i = 0; i < LETTERS; ++i)
        if (e->known & ~e->more_than_once & only(i)) HD_TRY(append_output(e, i));
    return HD_OK;
}

static hd_error read_output(equation *e, const char *at) {
    subscripts s;
    if (*at == '\0') return implied_output(e);
    at += 2;
    HD_TRY(read_subscripts(e, &at, &s));
    if (*at != '\0') return refuse_character(e, at);
    if (e->dots > 0 && s.dots < 0)
        return hd_fail(HD_ERROR_VALUE,
                       EQUATION_TEXT ": \"...\" stands for %d axes, and is not in the output; write it "
                                     "there, or label these axes",
                       e->text, e->dots);
    for (int i = 0; i <= s.count; ++i) {
        if (i == s.dots) HD_TRY(append_dots(e));
        if (i == s.count) break;
        if (!(e->known & only(s.label[i])))
            return hd_fail(HD_ERROR_VALUE, EQUATION_TEXT ": label \"%s\" of the output is in no operand", e->text,
                           LABEL_TEXT(s.label[i]));
        if (e->output_labels & only(s.label[i]))
            return hd_fail(HD_ERROR_VALUE, EQUATION_TEXT ": label \"%s\" is twice in the output", e->text,
                           LABEL_TEXT(s.label[i]));
        HD_TRY(append_output(e, s.label[i]));
    }
    return HD_OK;
}

static hd_error read_equation(equation *e, const char *text, hd_tensor *const *tensors, int count) {
    if (text == NULL || tensors == NULL)
        return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", text == NULL ? "equation" : "tensors");
    if (count < 1 || count > HD_MAX_INPUTS)
        return hd_fail(HD_ERROR_VALUE, "%d tensors; 1 to %d can meet at once", count, (int)HD_MAX_INPUTS);
    e->text = text;
    e->count = count;
    e->dots = e->output_rank = 0;
    e->known = e->more_than_once = e->output_labels = 0;
    e->dtype = HD_BOOL;
    HD_TRY(hd_tensor_check_all(tensors, count, "tensors"));
    for (int i = 0; i < count; ++i) e->dtype = hd_dtype_promote(e->dtype, (hd_dtype)tensors[i]->dtype);
    if (e->dtype == HD_BOOL) return hd_fail(HD_ERROR_DTYPE, "does not take bool; cast with hd_cast");
    HD_TRY(read_operands(e, &text, tensors, count));
    return read_output(e, text);
}

/* ---- one operand ------------------------------------------------------------------------------------------------- */
static void drop_axis(term *x, int axis, int rank) {
    for (int i = axis; i + 1 < rank; ++i) x->label[i] = x->label[i + 1];
}

/* The same label twice is a diagonal. */
static void take_diagonals(term *x) {
    for (int i = 0; x->t != NULL && i < x->t->layout.shape.rank; ++i)
        for (int k = i + 1; x->t != NULL && k < x->t->layout.shape.rank; ++k) {
            const int rank = x->t->layout.shape.rank;
            const uint8_t label = x->label[i];
            if (x->label[k] != label) continue;
            x->t = hd_diagonal(x->t, 0, i, k);
            drop_axis(x, k, rank);
            drop_axis(x, i, rank - 1);
            x->label[rank - 2] = label;
            i = -1; /* another axis is in its place: from the start */
            break;
        }
}

/* The axes whose labels are in a set go: of size 1, or by a sum. */
static void without(term *x, label_set gone, bool sums) {
    hd_axes axes = {.count = 0};
    if ((x->labels & gone) == 0 || x->t == NULL) return;
    int kept = 0;
    for (int i = 0; i < x->t->layout.shape.rank; ++i)
        if (gone & only(x->label[i]))
            axes.axis[axes.count++] = i;
        else
            x->label[kept++] = x->label[i];
    x->labels &= ~gone;
    x->t = sums ? hd_sum(x->t, axes, NULL) : hd_squeeze(x->t, axes);
    x->is_own = x->is_own || sums;
}

/* Leaves each label once, and none of an axis of size 1 that is longer elsewhere. */
static void simplify(const equation *e, term *x) {
    label_set stretched = 0;
    take_diagonals(x);
    for (int i = 0; x->t != NULL && i < x->t->layout.shape.rank; ++i)
        if (x->t->layout.shape.size[i] == 1 && e->size[x->label[i]] != 1) stretched |= only(x->label[i]);
    without(x, stretched, false);
}

/* Sums over what nobody else has or wants. */
static void sum_lonely(equation *e, int operand) {
    term *x = &e->terms[operand];
    label_set others = e->output_labels;
    for (int i = 0; i < e->count; ++i) others |= i == operand ? 0 : e->terms[i].labels;
    const label_set lonely = x->labels & ~others;
    if (e->count > 2 || lonely != 0) x->t = hd_cast(x->t, e->dtype);
    without(x, lonely, true);
    if (lonely != 0) x->t = hd_cast(x->t, e->dtype); /* integers are summed in i64 */
}

/* ---- two operands ------------------------------------------------------------------------------------------------ */
static int axis_of(const term *x, int label) {
    int axis = 0;
    while (x->label[axis] != label) ++axis;
    return axis;
}

/* Which of two comes first in the output: the one to write its axes first. */
static bool comes_later(const equation *e, const term *a, const term *b) {
    for (int i = 0; i < e->output_rank; ++i) {
        const bool in_a = a->labels & only(e->output[i]), in_b = b->labels & only(e->output[i]);
        if (in_a != in_b) return in_b;
    }
    return false;
}

/* What two terms become when the labels in `kept` stay: batch axes first, in the order of the output. */
static term meet(const equation *e, term a, term b, label_set kept) {
    if (comes_later(e, &a, &b)) {
        const term other = a;
        a = b;
        b = other;
    }
    term out = {.labels = kept, .is_own = true};
    hd_axes sum_a = {.count = 0}, sum_b = sum_a, batch_a = sum_a, batch_b = sum_a;
    int rank = 0;
    label_set batch = a.labels & b.labels & kept;
    const label_set contracted = a.labels & b.labels & ~kept;
    for (int i = 0; i < e->output_rank + a.t->layout.shape.rank; ++i) { /* those of the output, then all others */
        const int label = i < e->output_rank ? e->output[i] : a.label[i - e->output_rank];
        if (!(batch & only(label))) continue;
        batch &= ~only(label);
        batch_a.axis[batch_a.count++] = axis_of(&a, label);
        batch_b.axis[batch_b.count++] = axis_of(&b, label);
        out.label[rank++] = (uint8_t)label;
    }
    for (int i = 0; i < a.t->layout.shape.rank; ++i) {
        if (!(contracted & only(a.label[i]))) continue;
        sum_a.axis[sum_a.count++] = i;
        sum_b.axis[sum_b.count++] = axis_of(&b, a.label[i]);
    }
    for (int i = 0; i < a.t->layout.shape.rank; ++i)
        if (!(b.labels & only(a.label[i]))) out.label[rank++] = a.label[i];
    for (int i = 0; i < b.t->layout.shape.rank; ++i)
        if (!(a.labels & only(b.label[i]))) out.label[rank++] = b.label[i];
    out.t = hd_dot_general(a.t, b.t, sum_a, sum_b, batch_a, batch_b);
    return out;
}

/* ---- many operands ----------------------------------------------------------------------------------------------- */
static double elements(const equation *e, label_set labels) {
    double n = 1;
    for (; labels != 0; labels &= labels - 1) n *= (double)e->size[__builtin_ctzll(labels)];
    return n;
}
static bool has_room(label_set labels) { return __builtin_popcountll(labels) <= HD_MAX_RANK; }

static hd_error refuse_ranks(const equation *e) {
    return hd_fail(HD_ERROR_SHAPE,
                   EQUATION_TEXT
                   ": two operands at a time make a tensor of more than %d axes, the most there can be, in "
                   "every order; sum in several calls",
                   e->text, HD_MAX_RANK);
}

/* Two terms become one until few are left: those whose product is least larger than they are. */
static hd_error meet_greedily(equation *e, int few) {
    while (e->count > few) {
        label_set once = 0, twice = 0, more = 0;
        for (int i = 0; i < e->count; ++i) {
            more |= twice & e->terms[i].labels;
            twice |= once & e->terms[i].labels;
            once |= e->terms[i].labels;
        }
        int best_a = -1, best_b = -1;
        label_set best_kept = 0;
        double least = INFINITY;
        for (int a = 0; a < e->count; ++a)
            for (int b = a + 1; b < e->count; ++b) {
                const label_set x = e->terms[a].labels, y = e->terms[b].labels;
                const label_set kept = (x ^ y) | (x & y & (e->output_labels | more));
                const double growth = has_room(kept) ? elements(e, kept) - elements(e, x) - elements(e, y) : INFINITY;
                if (growth >= least) continue;
                least = growth;
                best_a = a, best_b = b, best_kept = kept;
            }
        if (best_a < 0) return refuse_ranks(e);
        e->terms[best_a] = meet(e, e->terms[best_a], e->terms[best_b], best_kept);
        if (e->terms[best_a].t == NULL) return hd_thread_self()->error_code;
        e->terms[best_b] = e->terms[--e->count];
    }
    return HD_OK;
}

/* Every set of so few terms has a cheapest way to become one: two parts that have theirs. Sets are bits of numbers. */
enum { FEW = 6, SETS = 1 << FEW };
typedef struct orders {
    double cost[SETS];    /* products of numbers, and elements written */
    label_set kept[SETS]; /* the labels of what the set becomes */
    uint8_t part[SETS];   /* one of the two parts */
} orders;

static void find_orders(const equation *e, orders *o) {
    const int all = (1 << e->count) - 1;
    for (int set = 1; set <= all; ++set) {
        label_set inside = 0, outside = e->output_labels;
        for (int i = 0; i < e->count; ++i) *(set >> i & 1 ? &inside : &outside) |= e->terms[i].labels;
        o->kept[set] = inside & outside;
        o->cost[set] = (set & (set - 1)) == 0 ? 0 : INFINITY;
        o->part[set] = 0;
        if (!has_room(o->kept[set])) continue;
        const int rest = set & (set - 1); /* the first stays in the other part */
        for (int part = rest; part > 0; part = (part - 1) & rest) {
            const int other = set ^ part;
            const double cost = o->cost[part] + o->cost[other] + elements(e, o->kept[part] | o->kept[other]) +
                                elements(e, o->kept[set]);
            if (!(cost < o->cost[set])) continue;
            o->cost[set] = cost;
            o->part[set] = (uint8_t)part;
        }
    }
}

static term meet_in_order(const equation *e, const orders *o, int set) {
    if ((set & (set - 1)) == 0) return e->terms[__builtin_ctz((unsigned)set)];
    const term a = meet_in_order(e, o, set ^ o->part[set]);
    const term b = a.t == NULL ? a : meet_in_order(e, o, o->part[set]);
    return b.t == NULL ? b : meet(e, a, b, o->kept[set]);
}

/* All terms as one. */
static hd_error meet_all(equation *e) {
    HD_TRY(meet_greedily(e, FEW));
    if (e->count == 2) {
        e->terms[0] = meet(e, e->terms[0], e->terms[1], e->output_labels);
    } else if (e->count > 2) {
        orders o;
        const int all = (1 << e->count) - 1;
        find_orders(e, &o);
        if (o.cost[all] == INFINITY) return refuse_ranks(e);
        e->terms[0] = meet_in_order(e, &o, all);
    }
    return hd_thread_self()->error_code;
}

static hd_tensor *evaluate(equation *e) {
    for (int i = 0; i < e->count; ++i) simplify(e, &e->terms[i]);
    for (int i = 0; i < e->count; ++i) {
        sum_lonely(e, i);
        if (e->terms[i].t == NULL) return NULL;
    }
    HD_TRY_OR(meet_all(e), NULL);
    const term *x = &e->terms[0];
    hd_axes order = {.count = e->output_rank};
    bool is_in_order = true;
    for (int i = 0; i < e->output_rank; ++i) {
        order.axis[i] = axis_of(x, e->output[i]);
        is_in_order = is_in_order && order.axis[i] == i;
    }
    hd_tensor *turned = is_in_order ? x->t : hd_permute(x->t, order);
    return x->is_own ? turned : hd_copy(turned);
}

hd_tensor *hd_einsum(const char *text, hd_tensor *const *tensors, int count) {
    HD_ENTER("hd_einsum", NULL);
    equation e;
    HD_TRY_OR(read_equation(&e, text, tensors, count), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "einsum");
    return hd_span_end(&span, evaluate(&e));
}
