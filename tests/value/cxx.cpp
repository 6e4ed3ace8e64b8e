// The header in C++17: the same names, numbers on either side through overloads, and a tape that threads do not share.
#define HD_VALUE_SHORT
#include <hodu/value.h>

#include <thread>

static int failures;

static void check(const char *what, double got, double expected) {
    if (fabs(got - expected) <= 1e-8) return;
    printf("%s: got %.17g, expected %.17g\n", what, got, expected);
    ++failures;
}

int main() {
    const Value a = hd_value_param(2.0), b = hd_value_param(3.0);
    const Value c = vadd(vmul(a, b), b);
    hd_value_backward(c);
    check("c", vdata(c), 9.0);
    check("a.grad", vgrad(a), 3.0);
    check("b.grad", vgrad(b), 3.0);
    check("number on the right", vdata(vsub(a, 1)), 1.0);
    check("number on the left", vdata(vdiv(6.0f, a)), 3.0);

    const Value logits[2] = {vadd(a, 1000.0), vadd(b, 1000.0)};
    Value p[2];
    vsoftmax(2, logits, p);
    check("softmax", vdata(p[0]) + vdata(p[1]), 1.0);
    hd_value_adam adam = {};
    hd_value_adam_step(&adam, 0.1);
    check("adam", vdata(a), 1.9);
    hd_value_adam_free(&adam);

    int others = -1;
    std::thread([&] { others = hd_value_param_count(); }).join();
    check("parameters another thread sees", others, 0.0);
    if (!hd_value_ok()) printf("error: %s\n", hd_value_error());
    const bool fine = hd_value_ok() && failures == 0;
    hd_value_free();
    return fine ? 0 : 1;
}
