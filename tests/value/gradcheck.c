/* Backward against central differences, over 10,000 random expression graphs. The graphs are drawn as lists of
 * instructions, which run twice: on Values, and on plain doubles that know nothing of value.h.
 * A graph that fails is named by its number and the seed; both are printed. */
#define HD_VALUE_SHORT
#include <hodu/value.h>

#include "check.h"

enum { GRAPHS = 10000, INPUTS = 4, MOST = 40 };

static const uint64_t SEED = 20240229;
static uint64_t random_state;

static uint64_t random_bits(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(int n) { return (int)(random_bits() % (uint64_t)n); }
static double uniform(double low, double high) {
    return low + (high - low) * ((double)(random_bits() >> 11) * 0x1p-53);
}

enum op { ADD, SUB, MUL, DIV, ADD_NUMBER, NUMBER_SUB, MUL_NUMBER, NUMBER_DIV, NEG, POW, TANH, EXP, RELU, LOG, OPS };

typedef struct instruction {
    enum op op;
    int a, b;
    double number;
} instruction;

typedef struct graph {
    int length;
    instruction code[MOST];
} graph;

/* Runs on plain numbers, in x[INPUTS + length]. False if a step comes so near to a kink, a pole or an overflow that
 * differences say nothing about the slope. */
static bool run_plain(const graph *g, double *x) {
    for (int i = 0; i < g->length; ++i) {
        const instruction *in = &g->code[i];
        const double a = x[in->a], b = x[in->b], n = in->number;
        double y = 0.0;
        switch (in->op) {
        case ADD: y = a + b; break;
        case SUB: y = a - b; break;
        case MUL: y = a * b; break;
        case DIV: y = a / b; break;
        case ADD_NUMBER: y = a + n; break;
        case NUMBER_SUB: y = n - a; break;
        case MUL_NUMBER: y = n * a; break;
        case NUMBER_DIV: y = n / a; break;
        case NEG: y = -a; break;
        case POW: y = pow(a, floor(n)); break;
        case TANH: y = tanh(a); break;
        case EXP: y = exp(a); break;
        case RELU: y = a > 0.0 ? a : 0.0; break;
        case LOG: y = log(a); break;
        case OPS: break;
        }
        const bool pole = in->op == NUMBER_DIV || in->op == POW || in->op == RELU;
        if ((pole && fabs(a) < 0.1) || (in->op == DIV && fabs(b) < 0.1) || (in->op == LOG && a < 0.1)) return false;
        if (!(fabs(y) < 30.0)) return false;
        x[INPUTS + i] = y;
    }
    return true;
}

static Value run_values(const graph *g, Value *x) {
    for (int i = 0; i < g->length; ++i) {
        const instruction *in = &g->code[i];
        const Value a = x[in->a], b = x[in->b];
        Value y = a;
        switch (in->op) {
        case ADD: y = vadd(a, b); break;
        case SUB: y = vsub(a, b); break;
        case MUL: y = vmul(a, b); break;
        case DIV: y = vdiv(a, b); break;
        case ADD_NUMBER: y = vadd(a, in->number); break;
        case NUMBER_SUB: y = vsub(in->number, a); break;
        case MUL_NUMBER: y = vmul(in->number, a); break;
        case NUMBER_DIV: y = vdiv(in->number, a); break;
        case NEG: y = vneg(a); break;
        case POW: y = vpow(a, floor(in->number)); break;
        case TANH: y = vtanh(a); break;
        case EXP: y = vexp(a); break;
        case RELU: y = vrelu(a); break;
        case LOG: y = vlog(a); break;
        case OPS: break;
        }
        x[INPUTS + i] = y;
    }
    return x[INPUTS + g->length - 1];
}

/* Draws instruction after instruction and keeps those that stay away from kinks and poles at this input. */
static void draw_graph(graph *g, double *x) {
    const int wanted = 3 + below(MOST - 3);
    for (int i = 0; i < INPUTS; ++i) x[i] = uniform(-2.0, 2.0);
    g->length = 0;
    while (g->length < wanted) {
        const int there = INPUTS + g->length;
        const int recent = there < 6 ? there : 6; /* near the end, so that graphs grow deep */
        const instruction in = {(enum op)below(OPS), there - 1 - below(recent), below(there), uniform(-3.0, 3.0)};
        g->code[g->length++] = in;
        if (!run_plain(g, x)) --g->length;
    }
}

static void gradients_of_random_graphs(void **state) {
    (void)state;
    random_state = SEED;
    int checked = 0, skipped = 0;
    double worst = 0.0;
    print_message("seed %llu\n", (unsigned long long)SEED);
    for (int number = 0; number < GRAPHS; ++number) {
        graph g;
        double x[INPUTS + MOST], moved[INPUTS + MOST];
        Value v[INPUTS + MOST];
        draw_graph(&g, x);
        for (int i = 0; i < INPUTS; ++i) v[i] = hd_value_const(x[i]);
        const Value y = run_values(&g, v);
        check_close("value", vdata(y), x[INPUTS + g.length - 1], 1e-12);
        assert_true(hd_value_backward(y));
        for (int i = 0; i < INPUTS; ++i) {
            /* Two step sizes: where they disagree the function bends too much for differences to judge. */
            double slope[2];
            bool smooth = true;
            for (int k = 0; k < 2; ++k) {
                const double h = k ? 1e-5 : 2e-5;
                memcpy(moved, x, sizeof moved);
                moved[i] = x[i] + h;
                smooth = smooth && run_plain(&g, moved);
                const double up = moved[INPUTS + g.length - 1];
                memcpy(moved, x, sizeof moved);
                moved[i] = x[i] - h;
                smooth = smooth && run_plain(&g, moved);
                slope[k] = (up - moved[INPUTS + g.length - 1]) / (2.0 * h);
            }
            const double size = fabs(slope[1]) > 1.0 ? fabs(slope[1]) : 1.0;
            if (!smooth || fabs(slope[0] - slope[1]) > 1e-6 * size) {
                ++skipped;
                continue;
            }
            const double off = fabs(vgrad(v[i]) - slope[1]) / size;
            if (!(off < 1e-5))
                fail_msg("graph %d, seed %llu, input %d: backward %.12g, differences %.12g", number,
                         (unsigned long long)SEED, i, vgrad(v[i]), slope[1]);
            if (off > worst) worst = off;
            ++checked;
        }
        hd_value_reset();
    }
    print_message("%d gradients checked, %d too bent to judge, largest difference %.1e\n", checked, skipped, worst);
    assert_true(checked > 3 * GRAPHS);
    hd_value_free();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_of_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
