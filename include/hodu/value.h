/* hodu/value.h: automatic differentiation of scalars, in one header that needs nothing but libm.
 *
 *     #include <hodu/value.h>              cc prog.c -lm        (C11, C++17)
 *
 *     hd_value a = hd_value_param(2.0), b = hd_value_param(3.0);
 *     hd_value c = hd_value_add(hd_value_mul(a, b), b);          // c = a*b + b = 9
 *     hd_value_backward(c);
 *     hd_value_grad(a);                                          // dc/da = b     = 3
 *     hd_value_grad(b);                                          // dc/db = a + 1 = 3
 *     hd_value_reset();                                          // c is gone, a and b stay
 *
 * One idea carries the file: whatever made a value, all that backward needs of it is its children and the local
 * gradients d(value)/d(child). So a node is
 *
 *     data 8 bytes | grad 8 | two children 2 x 4 | two local gradients 2 x 8     = 40 bytes
 *
 * and backward is one loop without a switch: walk the nodes from the newest to the oldest, and give each child
 * local * grad. Nodes are appended in the order they are computed, so they are sorted already: no recursion, no search.
 *
 * Three kinds of ids share one pair of arrays, so no operation has to ask what its operand is:
 *     id > 0   a node of the arena; hd_value_reset() drops them all at once and keeps the memory
 *     id < 0   a parameter; it survives reset, and its gradient accumulates until hd_value_zero_grad()
 *     id = 0   nowhere: the child of a plain number, and what an operation returns after running out of memory (NaN)
 *
 * Everything belongs to the calling thread. A mistake or a lack of memory never ends the program: the first error
 * sticks, hd_value_ok() turns false, hd_value_error() says what happened, backward and the optimizers do nothing any
 * more, until hd_value_error_clear(). Numbers out of a function's domain are not errors: they give inf or NaN as in
 * <math.h>, but for log, which is clamped.
 */
#ifndef HODU_VALUE_H
#define HODU_VALUE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where memory comes from; a test can put an allocator that fails here. */
#ifndef HD_VALUE_MALLOC
#define HD_VALUE_MALLOC malloc
#define HD_VALUE_FREE   free
#endif

typedef struct hd_value {
    int32_t id;
} hd_value;

/* ---- The tape: all state of a thread ---------------------------------------------------------------------------- */

typedef struct hd_value_edges {
    int32_t child[2];
    double local[2]; /* d(node) / d(child) */
} hd_value_edges;

typedef struct hd_value_tape {
    double *data;         /* [-parameter_room .. node_room] */
    double *grad;         /* the same */
    hd_value_edges *edge; /* [0 .. node_room] */
    int32_t nodes, node_room;
    int32_t parameters, parameter_room;
    int32_t graded;      /* nodes 1..graded have a gradient from the last backward, newer ones have none yet */
    uint64_t past_nodes; /* made before the last reset */
    char error[160];     /* "": none */
} hd_value_tape;

/* One tape a thread for the whole program, not one a source file. */
#if defined(__cplusplus)
#define HD_VALUE_SHARED       inline
#define HD_VALUE_THREAD_LOCAL thread_local
#elif defined(__GNUC__)
#define HD_VALUE_SHARED       __attribute__((weak, visibility("hidden")))
#define HD_VALUE_THREAD_LOCAL _Thread_local
#else /* no weak symbols: include this header in one source file only */
#define HD_VALUE_SHARED       static
#define HD_VALUE_THREAD_LOCAL _Thread_local
#endif

/* What id 0 reads before the first allocation. */
HD_VALUE_SHARED double hd_value_nowhere[1] = {NAN};

HD_VALUE_SHARED HD_VALUE_THREAD_LOCAL hd_value_tape hd_value_here = {
    hd_value_nowhere, hd_value_nowhere, NULL, 0, 0, 0, 0, 0, 0, {0}};

#if defined(__GNUC__)
#define HD_VALUE_RARE          __attribute__((noinline, cold, unused))
#define HD_VALUE_HOT           static inline __attribute__((always_inline))
#define HD_VALUE_UNLIKELY(yes) __builtin_expect(!!(yes), 0)
#else
#define HD_VALUE_RARE
#define HD_VALUE_HOT           static inline
#define HD_VALUE_UNLIKELY(yes) (yes)
#endif

static inline bool hd_value_ok(void) { return hd_value_here.error[0] == '\0'; }
static inline const char *hd_value_error(void) { return hd_value_here.error; }
static inline void hd_value_error_clear(void) { hd_value_here.error[0] = '\0'; }

/* Keeps the first error. Returns false, so that a check can end in `return hd_value_fail(...)`. */
HD_VALUE_RARE static bool hd_value_fail(const char *function, const char *what, long long given) {
    hd_value_tape *t = &hd_value_here;
    if (hd_value_ok()) (void)snprintf(t->error, sizeof t->error, "%s: %s (given: %lld)", function, what, given);
    return false;
}

/* Moves the arrays to room for so many parameters and nodes. All or nothing: after a failure the old ones still
 * stand. */
HD_VALUE_RARE static bool hd_value_move(int64_t parameter_room, int64_t node_room) {
    hd_value_tape *t = &hd_value_here;
    const char *const too_many = "no memory for so many nodes and parameters; reset the arena more often";
    if (!hd_value_ok()) return false;
    const size_t before = (size_t)parameter_room, after = (size_t)node_room + 1;
    if (parameter_room + node_room >= INT32_MAX || before + after > SIZE_MAX / sizeof(hd_value_edges))
        return hd_value_fail("hd_value", too_many, parameter_room + node_room);
    double *data = (double *)HD_VALUE_MALLOC((before + after) * sizeof *data);
    double *grad = (double *)HD_VALUE_MALLOC((before + after) * sizeof *grad);
    hd_value_edges *edge = (hd_value_edges *)HD_VALUE_MALLOC(after * sizeof *edge);
    if (!data || !grad || !edge) {
        HD_VALUE_FREE(data);
        HD_VALUE_FREE(grad);
        HD_VALUE_FREE(edge);
        return hd_value_fail("hd_value", too_many, parameter_room + node_room);
    }
    data += before; /* now data[0] is nowhere, parameters lie before it and nodes behind */
    grad += before;
    data[0] = NAN;
    grad[0] = 0.0;
    if (t->edge) {
        const size_t used = (size_t)t->parameters + 1 + (size_t)t->nodes;
        memcpy(data - t->parameters, t->data - t->parameters, used * sizeof *data);
        memcpy(grad - t->parameters, t->grad - t->parameters, used * sizeof *grad);
        memcpy(edge, t->edge, ((size_t)t->nodes + 1) * sizeof *edge);
        HD_VALUE_FREE(t->data - t->parameter_room);
        HD_VALUE_FREE(t->grad - t->parameter_room);
        HD_VALUE_FREE(t->edge);
    }
    memset(edge, 0, sizeof *edge);
    t->data = data;
    t->grad = grad;
    t->edge = edge;
    t->parameter_room = (int32_t)parameter_room;
    t->node_room = (int32_t)node_room;
    return true;
}

/* Room for n more nodes. Doubling, so that after the first steps of a training loop no memory is asked for again. */
HD_VALUE_RARE static bool hd_value_grow(int64_t n) {
    const hd_value_tape *t = &hd_value_here;
    const int64_t need = t->nodes + n, most = INT32_MAX - 1 - (int64_t)t->parameter_room;
    int64_t room = 2 * (int64_t)t->node_room;
    if (room < 1024) room = 1024;
    if (room > most) room = most;
    if (room < need) room = need;
    return hd_value_move(t->parameter_room, room);
}

HD_VALUE_HOT bool hd_value_reserve(int64_t n) {
    const hd_value_tape *t = &hd_value_here;
    return !HD_VALUE_UNLIKELY(t->node_room - t->nodes < n) || hd_value_grow(n);
}

/* ---- Making and reading values ---------------------------------------------------------------------------------- */

/* A trainable number. It is not part of the arena. */
static inline hd_value hd_value_param(double data) {
    hd_value_tape *t = &hd_value_here;
    hd_value v = {0};
    if (t->parameters == t->parameter_room) {
        const int64_t room = 2 * (int64_t)t->parameter_room;
        if (!hd_value_move(room < 256 ? 256 : room, t->node_room)) return v;
    }
    v.id = -++t->parameters;
    t->data[v.id] = data;
    t->grad[v.id] = 0.0;
    return v;
}

HD_VALUE_HOT void hd_value_write(double *data, double number, hd_value_edges *e, int32_t a, double da, int32_t b,
                                 double db) {
    *data = number;
    e->child[0] = a;
    e->child[1] = b;
    e->local[0] = da;
    e->local[1] = db;
}

/* The one way a node comes into being: its number, and its children with their local gradients. */
HD_VALUE_HOT hd_value hd_value_node(double data, int32_t a, double da, int32_t b, double db) {
    hd_value_tape *t = &hd_value_here;
    hd_value v = {0};
    if (!hd_value_reserve(1)) return v;
    v.id = ++t->nodes;
    hd_value_write(t->data + v.id, data, t->edge + v.id, a, da, b, db);
    return v;
}

/* An input: a leaf of the arena. Most often a plain number will do as an operand instead, and needs no node. */
static inline hd_value hd_value_const(double data) { return hd_value_node(data, 0, 0.0, 0, 0.0); }

/* Is v a value of this thread that no reset or free has dropped? (A dropped id that has been given out again looks
 * alive.) */
HD_VALUE_HOT bool hd_value_alive(hd_value v) {
    const hd_value_tape *t = &hd_value_here;
    return v.id >= -t->parameters && v.id <= t->nodes;
}

HD_VALUE_RARE static bool hd_value_dead(const char *function, hd_value v) {
    return hd_value_fail(function, "not a value of this thread, or dropped by hd_value_reset", v.id);
}

static inline double hd_value_data(hd_value v) {
    if (HD_VALUE_UNLIKELY(!hd_value_alive(v))) return hd_value_dead("hd_value_data", v) ? 0.0 : (double)NAN;
    return hd_value_here.data[v.id];
}

static inline double hd_value_grad(hd_value v) {
    if (HD_VALUE_UNLIKELY(!hd_value_alive(v))) return hd_value_dead("hd_value_grad", v) ? 0.0 : (double)NAN;
    return v.id > hd_value_here.graded || v.id == 0 ? 0.0 : hd_value_here.grad[v.id];
}

/* For optimizers and quantisers of one's own; what was computed from v before does not change. */
static inline void hd_value_set_data(hd_value v, double data) {
    if (v.id == 0 || !hd_value_alive(v))
        hd_value_dead("hd_value_set_data", v);
    else
        hd_value_here.data[v.id] = data;
}

/* For clipping and the like; a node that is newer than the last backward has no gradient to set. */
static inline void hd_value_set_grad(hd_value v, double grad) {
    if (v.id == 0 || !hd_value_alive(v))
        hd_value_dead("hd_value_set_grad", v);
    else if (v.id <= hd_value_here.graded)
        hd_value_here.grad[v.id] = grad;
}

/* ---- Operands: a value or a plain number ------------------------------------------------------------------------- */

/* A number is a value whose gradient goes nowhere. With that, one function is all of Value+Value, Value+double and
 * double+Value, and a number costs no node. */
typedef struct hd_value_operand {
    double data;
    int32_t id;
} hd_value_operand;

HD_VALUE_HOT hd_value_operand hd_value_of_value(hd_value v) {
    hd_value_operand nothing = {NAN, 0}, o = {0.0, v.id};
    if (HD_VALUE_UNLIKELY(!hd_value_alive(v))) {
        hd_value_dead("hd_value operation", v);
        return nothing;
    }
    o.data = hd_value_here.data[v.id];
    return o;
}

HD_VALUE_HOT hd_value_operand hd_value_of_number(double x) {
    hd_value_operand o = {x, 0};
    return o;
}

#ifdef __cplusplus
static inline hd_value_operand hd_value_operand_of(hd_value v) { return hd_value_of_value(v); }
static inline hd_value_operand hd_value_operand_of(double x) { return hd_value_of_number(x); }
#define HD_VALUE_OPERAND(x) hd_value_operand_of(x)
#else
#define HD_VALUE_OPERAND(x) _Generic((x), hd_value : hd_value_of_value, default : hd_value_of_number)(x)
#endif

/* ---- Arithmetic: each operand an hd_value or a number ------------------------------------------------------------ */

#define hd_value_add(a, b) hd_value_add_operands(HD_VALUE_OPERAND(a), HD_VALUE_OPERAND(b))
#define hd_value_sub(a, b) hd_value_sub_operands(HD_VALUE_OPERAND(a), HD_VALUE_OPERAND(b))
#define hd_value_mul(a, b) hd_value_mul_operands(HD_VALUE_OPERAND(a), HD_VALUE_OPERAND(b))
#define hd_value_div(a, b) hd_value_div_operands(HD_VALUE_OPERAND(a), HD_VALUE_OPERAND(b))

HD_VALUE_HOT hd_value hd_value_add_operands(hd_value_operand a, hd_value_operand b) {
    return hd_value_node(a.data + b.data, a.id, 1.0, b.id, 1.0);
}

HD_VALUE_HOT hd_value hd_value_sub_operands(hd_value_operand a, hd_value_operand b) {
    return hd_value_node(a.data - b.data, a.id, 1.0, b.id, -1.0);
}

HD_VALUE_HOT hd_value hd_value_mul_operands(hd_value_operand a, hd_value_operand b) {
    return hd_value_node(a.data * b.data, a.id, b.data, b.id, a.data);
}

/* The interface document composes a * b^-1; one node has the same gradient and one rounding less.
 * x/0 is +-inf, 0/0 is NaN. */
static inline hd_value hd_value_div_operands(hd_value_operand a, hd_value_operand b) {
    const double quotient = a.data / b.data;
    return hd_value_node(quotient, a.id, 1.0 / b.data, b.id, -quotient / b.data);
}

static inline hd_value hd_value_neg(hd_value x) { return hd_value_mul(x, -1.0); }

/* x^power for a plain number `power`. A negative base with a broken power is NaN; 0 to a negative power is inf.
 * Power 0 has gradient 0 everywhere, also at x = 0, where 0 * 0^-1 would make it NaN. */
static inline hd_value hd_value_pow(hd_value x, double power) {
    const hd_value_operand a = hd_value_of_value(x);
    const double slope = power == 0.0 ? 0.0 : power * pow(a.data, power - 1.0);
    return hd_value_node(pow(a.data, power), a.id, slope, 0, 0.0);
}

/* ---- Activations ------------------------------------------------------------------------------------------------- */

static inline hd_value hd_value_tanh(hd_value x) {
    const hd_value_operand a = hd_value_of_value(x);
    const double y = tanh(a.data);
    return hd_value_node(y, a.id, 1.0 - y * y, 0, 0.0);
}

/* Overflows to inf (value and gradient) past x = 709.78; see hd_value_softmax for the way around. */
static inline hd_value hd_value_exp(hd_value x) {
    const hd_value_operand a = hd_value_of_value(x);
    const double y = exp(a.data);
    return hd_value_node(y, a.id, y, 0, 0.0);
}

/* The gradient at exactly 0 is 0. NaN stays NaN. */
static inline hd_value hd_value_relu(hd_value x) {
    const hd_value_operand a = hd_value_of_value(x);
    return hd_value_node(a.data <= 0.0 ? 0.0 : a.data, a.id, a.data > 0.0 ? 1.0 : 0.0, 0, 0.0);
}

/* Clipped logarithm. log(0) = -inf would break every gradient behind it; clamped at 1e-10 it is about -23: finite, and
 * the gradient 1/1e-10 still tells a vanishing probability to grow. The node hangs on x itself: a log of a fresh
 * constant max(x, 1e-10) would have no path back to x. */
static inline hd_value hd_value_log(hd_value x) {
    const hd_value_operand a = hd_value_of_value(x);
    const double clamped = a.data < 1e-10 ? 1e-10 : a.data; /* NaN stays NaN */
    return hd_value_node(log(clamped), a.id, 1.0 / clamped, 0, 0.0);
}

/* The document has both names; here both clamp. */
static inline hd_value hd_value_safe_log(hd_value x) { return hd_value_log(x); }

/* ---- An operation of one's own ----------------------------------------------------------------------------------- */

/* Is an array there for n values? */
static inline bool hd_value_array(const char *function, int n, const void *array) {
    if (n < 0) return hd_value_fail(function, "n must be >= 0", n);
    return n == 0 || array || hd_value_fail(function, "an array is NULL, but n is not 0", n);
}

/* A value from its data, its n children and the n local gradients d(value)/d(child). More than two children are
 * chained: each link holds one child and hands its gradient on unchanged to the next link, so n children take max(1,
 * n-1) nodes. */
static inline hd_value hd_value_op(double data, int n, const hd_value *children, const double *local_gradients) {
    const hd_value nothing = {0};
    if (!hd_value_array("hd_value_op", n, children) || !hd_value_array("hd_value_op", n, local_gradients))
        return nothing;
    for (int i = 0; i < n; ++i)
        if (!hd_value_alive(children[i]) && !hd_value_dead("hd_value_op", children[i])) return nothing;
    if (n == 0) return hd_value_const(data);
    if (n == 1) return hd_value_node(data, children[0].id, local_gradients[0], 0, 0.0);
    if (!hd_value_reserve(n - 1)) return nothing;
    hd_value link = children[0];
    double local = local_gradients[0];
    for (int i = 1; i < n; ++i) {
        link = hd_value_node(data, link.id, local, children[i].id, local_gradients[i]);
        local = 1.0;
    }
    return link;
}

/* ---- Sums: the same nodes as the loop with mul and add, written faster ------------------------------------------- */

/* x[0] + x[1] + ... : n-1 nodes. The empty sum is 0. */
static inline hd_value hd_value_sum(int n, const hd_value *x) {
    const hd_value nothing = {0};
    if (!hd_value_array("hd_value_sum", n, x)) return nothing;
    if (n == 0) return hd_value_const(0.0);
    hd_value total = x[0];
    for (int i = 1; i < n; ++i) total = hd_value_add(total, x[i]);
    return total;
}

/* a[0]*b[0] + a[1]*b[1] + ... : n products and n-1 additions, 2n-1 nodes. */
static inline hd_value hd_value_dot(int n, const hd_value *a, const hd_value *b) {
    hd_value_tape *t = &hd_value_here;
    hd_value total = {0};
    if (!hd_value_array("hd_value_dot", n, a) || !hd_value_array("hd_value_dot", n, b)) return total;
    if (n == 0) return hd_value_const(0.0);
    if (!hd_value_reserve(2 * (int64_t)n - 1)) return total;
    /* Copies, which the compiler can hold in registers through the loop. */
    double *data = t->data;
    hd_value_edges *edge = t->edge;
    const int32_t oldest = -t->parameters, newest = t->nodes;
    int32_t id = newest;
    double sum = -0.0; /* -0 + x is x, also for x = -0 */
    for (int i = 0; i < n; ++i) {
        const int32_t x = a[i].id, y = b[i].id;
        if (HD_VALUE_UNLIKELY(x < oldest || x > newest || y < oldest || y > newest)) {
            hd_value_dead("hd_value_dot", x < oldest || x > newest ? a[i] : b[i]);
            return total;
        }
        const double xd = data[x], yd = data[y];
        const int32_t before = id++;
        sum += xd * yd;
        hd_value_write(data + id, xd * yd, edge + id, x, yd, y, xd);
        if (i == 0) continue;
        ++id;
        hd_value_write(data + id, sum, edge + id, before, 1.0, id - 1, 1.0);
    }
    total.id = t->nodes = id;
    return total;
}

/* ---- Backward and the life of gradients -------------------------------------------------------------------------- */

/* Gradients of root with respect to everything it was made from. Those of nodes start from 0 every time, so a second
 * backward on the same graph does not compound them; those of parameters add up until hd_value_zero_grad(). A node
 * whose gradient is exactly 0 passes nothing on: nodes that root does not depend on stay silent, and 0 * inf does not
 * turn into NaN. Returns false, and does nothing, after an error. */
static inline bool hd_value_backward(hd_value root) {
    hd_value_tape *t = &hd_value_here;
    if (!hd_value_ok()) return false;
    if (root.id == 0 || !hd_value_alive(root)) return hd_value_dead("hd_value_backward", root);
    double *grad = t->grad;
    const hd_value_edges *edge = t->edge;
    memset(grad, 0, ((size_t)t->nodes + 1) * sizeof *grad);
    t->graded = t->nodes;
    grad[root.id] += 1.0; /* which of a parameter is there already */
    for (int32_t id = root.id; id > 0; --id) {
        const double g = grad[id];
        if (g == 0.0) continue;
        const hd_value_edges *e = edge + id;
        grad[e->child[0]] += e->local[0] * g;
        grad[e->child[1]] += e->local[1] * g;
    }
    return true;
}

/* Before every backward of a training loop: forgetting it is the most common mistake, gradients then pile up over
 * steps. */
static inline void hd_value_zero_grad(void) {
    hd_value_tape *t = &hd_value_here;
    if (t->parameters) memset(t->grad - t->parameters, 0, (size_t)t->parameters * sizeof *t->grad);
}

/* Drops all nodes; parameters and memory stay. */
static inline void hd_value_reset(void) {
    hd_value_tape *t = &hd_value_here;
    t->past_nodes += (uint64_t)t->nodes;
    t->nodes = 0;
    t->graded = 0;
}

/* Gives this thread's memory back; parameters go too. A pending error stays. */
static inline void hd_value_free(void) {
    hd_value_tape *t = &hd_value_here;
    hd_value_reset();
    if (t->edge) {
        HD_VALUE_FREE(t->data - t->parameter_room);
        HD_VALUE_FREE(t->grad - t->parameter_room);
        HD_VALUE_FREE(t->edge);
    }
    t->data = t->grad = hd_value_nowhere;
    t->edge = NULL;
    t->node_room = t->parameters = t->parameter_room = 0;
}

static inline int hd_value_param_count(void) { return hd_value_here.parameters; }
static inline int hd_value_node_count(void) { return hd_value_here.nodes; } /* since the last reset */
static inline uint64_t hd_value_total_nodes(void) { return hd_value_here.past_nodes + (uint64_t)hd_value_here.nodes; }

/* ---- Numerical patterns ------------------------------------------------------------------------------------------ */

/* probability[i] = exp(logit[i]) / sum_j exp(logit[j]).
 * Stable softmax: softmax(x) = softmax(x - c) for any c. With c = the largest logit every exp is <= 1; without it exp
 * overflows past 709 and inf/inf is NaN. c is a plain number: it cancels, so it needs no gradient. */
static inline void hd_value_softmax(int n, const hd_value *logits, hd_value *probabilities) {
    double largest = -INFINITY;
    if (!hd_value_array("hd_value_softmax", n, logits) || !hd_value_array("hd_value_softmax", n, probabilities)) return;
    for (int i = 0; i < n; ++i) {
        const double x = hd_value_data(logits[i]);
        if (x > largest) largest = x;
    }
    for (int i = 0; i < n; ++i) probabilities[i] = hd_value_exp(hd_value_sub(logits[i], largest));
    const hd_value total = hd_value_sum(n, probabilities);
    for (int i = 0; i < n; ++i) probabilities[i] = hd_value_div(probabilities[i], total);
}

/* KL( N(mean, exp(log_var)) || N(0, 1) ) = -1/2 (1 + log_var - mean^2 - exp(log_var)). log_var is clamped to [-5, 5]:
 * exp(5) = 148 is a sensible variance, exp(10) = 22,026 blows the loss up. Inside the clamp the gradient is alive,
 * outside and at its bounds it is 0. The interface document rebuilds the clamped number as a constant, which cuts
 * that gradient off, and has the sign turned round; both are put right here. */
static inline hd_value hd_value_kl(hd_value mean, hd_value log_var) {
    const double lv = hd_value_data(log_var);
    const double inside = lv > -5.0 && lv < 5.0 ? 1.0 : 0.0;
    const hd_value clamped = hd_value_op(lv < -5.0 ? -5.0 : lv > 5.0 ? 5.0 : lv, 1, &log_var, &inside);
    const hd_value spread = hd_value_sub(hd_value_add(1.0, clamped), hd_value_exp(clamped));
    return hd_value_mul(-0.5, hd_value_sub(spread, hd_value_mul(mean, mean)));
}

/* ---- Optimizers -------------------------------------------------------------------------------------------------- */

/* Adam over `count` parameters of the thread, from number `first` in the order they were made. Start from {0}: a zero
 * means the default, and -0.0 says zero where that is meant. */
typedef struct hd_value_adam {
    int first, count;         /* count 0: all that there are at the first step, from `first` on */
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8 */
    bool no_bias_correction;  /* the interface document's plain form */
    int64_t step;             /* taken so far */
    double *moment;           /* [held] first moments, then [held] second ones; kept between steps */
    int held;
} hd_value_adam;

static inline double hd_value_default(double given, double otherwise) {
    return given == 0.0 && !signbit(given) ? otherwise : given;
}

/* That `count` parameters from `first` on are there; in 64 bits, which the sum of two ints fits. */
static inline bool hd_value_range(const char *function, int64_t first, int64_t count) {
    if (first >= 0 && count >= 0 && first + count <= hd_value_here.parameters) return true;
    return hd_value_fail(function, "first + count must lie within the parameters there are",
                         first < 0 ? first : first + count);
}

static inline bool hd_value_adam_step(hd_value_adam *adam, double lr) {
    hd_value_tape *t = &hd_value_here;
    if (!hd_value_ok()) return false;
    if (!adam) return hd_value_fail("hd_value_adam_step", "adam is NULL", 0);
    const int64_t all = adam->moment ? adam->held : (int64_t)t->parameters - adam->first;
    if (!hd_value_range("hd_value_adam_step", adam->first, adam->count ? adam->count : all)) return false;
    const int first = adam->first, count = adam->count ? adam->count : (int)all;
    if (count == 0) return true;
    const size_t n = (size_t)count;
    if (!adam->moment) {
        adam->moment = (double *)HD_VALUE_MALLOC(2 * n * sizeof(double));
        if (!adam->moment) return hd_value_fail("hd_value_adam_step", "no memory for the moments", count);
        for (size_t i = 0; i < 2 * n; ++i) adam->moment[i] = 0.0;
        adam->held = count;
    }
    if (adam->held != count)
        return hd_value_fail("hd_value_adam_step", "count has changed since the first step; hd_value_adam_free first",
                             count);
    const double beta1 = hd_value_default(adam->beta1, 0.9), beta2 = hd_value_default(adam->beta2, 0.999);
    /* eps keeps a parameter whose second moment is still about 0 from dividing by 0; 1e-8 is the usual choice. */
    const double eps = hd_value_default(adam->eps, 1e-8);
    /* Both moments start at 0 and so are too small at first, by the factors 1 - beta^step: dividing by them corrects
     * it. */
    const double step = (double)++adam->step;
    const double correct1 = adam->no_bias_correction ? 1.0 : 1.0 / (1.0 - pow(beta1, step));
    const double correct2 = adam->no_bias_correction ? 1.0 : 1.0 / (1.0 - pow(beta2, step));
    double *data = t->data - first - count; /* parameters lie backwards in memory; the order of moments follows them */
    const double *grad = t->grad - first - count;
    double *m = adam->moment, *v = adam->moment + n;
    for (size_t i = 0; i < n; ++i) {
        m[i] = beta1 * m[i] + (1.0 - beta1) * grad[i];
        v[i] = beta2 * v[i] + (1.0 - beta2) * grad[i] * grad[i];
        data[i] -= lr * (m[i] * correct1) / (sqrt(v[i] * correct2) + eps);
    }
    return true;
}

/* Forgets the moments and the step count; the next step starts anew. */
static inline void hd_value_adam_free(hd_value_adam *adam) {
    if (!adam) return; /* as free does */
    HD_VALUE_FREE(adam->moment);
    adam->moment = NULL;
    adam->step = 0;
}

/* Plain gradient descent over the same kind of range; count 0: all from `first` on. */
static inline bool hd_value_sgd_step(int first, int count, double lr) {
    hd_value_tape *t = &hd_value_here;
    if (!hd_value_ok()) return false;
    const int64_t all = (int64_t)t->parameters - first;
    if (!hd_value_range("hd_value_sgd_step", first, count ? count : all)) return false;
    if (count == 0) count = (int)all;
    for (int i = first + 1; i <= first + count; ++i) t->data[-i] -= lr * t->grad[-i];
    return true;
}

#endif

/* ---- Short names, for a page of maths: #define HD_VALUE_SHORT before the include --------------------------------- */

#if defined(HD_VALUE_SHORT) && !defined(HD_VALUE_SHORT_DONE)
#define HD_VALUE_SHORT_DONE
typedef hd_value Value;
#define vadd     hd_value_add
#define vsub     hd_value_sub
#define vmul     hd_value_mul
#define vdiv     hd_value_div
#define vneg     hd_value_neg
#define vpow     hd_value_pow
#define vtanh    hd_value_tanh
#define vexp     hd_value_exp
#define vrelu    hd_value_relu
#define vlog     hd_value_log
#define vsum     hd_value_sum
#define vdot     hd_value_dot
#define vsoftmax hd_value_softmax
#define vdata    hd_value_data
#define vgrad    hd_value_grad
#endif
