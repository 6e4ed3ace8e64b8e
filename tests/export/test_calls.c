/* Every call and every elementwise row as C: compiled without a warning, without a library, and run on the operands of
 * a script at O0, whose results it gives. What is refused is what tests/export/refused.txt lists. */
#include "exported.h"
#include "graph/calls.h"

/* What sums in another order and other functions may differ by, in units at the largest element. */
enum { UNITS = 4 };

static hd_script *script_of_call(int k, hd_tensor *in[3], int *count) {
    static const char *const names[] = {"a", "b", "c"};
    *count = call_operands(k, in);
    hd_builder *b = started(calls[k].name);
    hd_tensor *x[3] = {NULL};
    for (int i = 0; i < *count; ++i) x[i] = hd_input(names[i], hd_tensor_shape(in[i]), hd_tensor_dtype(in[i]));
    hd_builder_add_output(b, "result", calls[k].run(x[0], x[1], x[2]));
    return built(b);
}

static hd_tensor *at_o0(hd_script *s, hd_tensor *const *in, int count) {
    static const char *const names[] = {"a", "b", "c"};
    hd_script_set_optimization_level(s, HD_O0);
    for (int i = 0; i < count; ++i) hd_script_set_input(s, names[i], in[i]);
    hd_seed(3);
    hd_tensor *y = output(s, "result");
    if (y == NULL) fail_msg("%s", hd_error_message());
    return y;
}

/* A line of refused.txt: the primitives that C does not have. */
static bool is_refused(const char *message) {
    static char list[4096];
    if (list[0] == '\0') {
        FILE *f = fopen(HODU_TEST_DATA "/../export/refused.txt", "r");
        assert_non_null(f);
        list[fread(list, 1, sizeof list - 1, f)] = '\0';
        fclose(f);
    }
    bool any = false;
    for (const char *at = message; (at = strstr(at, "node %")) != NULL; ++at) {
        char name[80];
        int number;
        if (sscanf(at, "node %%%d, %78[a-z_0-9]", &number, name) != 2) return false;
        strcat(name, "\n");
        if (strstr(list, name) == NULL) return false;
        any = true;
    }
    return any;
}

/* The list is the library's, and may only become shorter: linear algebra, what depends on data, ops of the user's. */
static void the_list_of_what_c_lacks_is_exact(void **state) {
    (void)state;
    char line[200];
    int lines = 0, refused = 0;
    FILE *f = fopen(HODU_TEST_DATA "/../export/refused.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) lines += line[0] != '#';
    fclose(f);
#define REFUSED(name, why)                                                                                             \
    ++refused;                                                                                                         \
    if (!is_refused("node %0, " #name)) fail_msg("%s is not in refused.txt", #name);                                   \
    if (hd_ops[HD_OP_##name].family != HD_FAMILY_LINALG && HD_OP_##name != HD_OP_multinomial &&                        \
        HD_OP_##name != HD_OP_custom)                                                                                  \
        fail_msg("%s may not be refused", #name);
#include "export/refused.def"
    assert_int_equal(lines, refused);
}

typedef struct subject {
    hd_script *script;
    hd_tensor *in[3];
    int count, net; /* which net; -1: it is refused */
} subject;

static void run_subject(nets *n, const subject *s, const char *name) {
    hd_tensor *out[1];
    net_run r = net_begin(n, s->net);
    r.f->seed(r.net.at, 3);
    if (net_call(&r, s->script, s->in, out) != 0) fail_msg("%s does not run", name);
    net_end(&r);
    hd_tensor *expected = at_o0(s->script, s->in, s->count);
    const char *why = difference_within(out[0], expected, units_at_largest(expected, UNITS));
    if (why[0] != '\0') fail_msg("%s: %s", name, why);
}

static void calls_from(int first, int last) {
    HD_SCOPE;
    nets n;
    subject *subjects = calloc((size_t)(last - first), sizeof *subjects);
    begin_nets(&n);
    for (int k = first; k < last; ++k) {
        subject *s = &subjects[k - first];
        s->script = script_of_call(k, s->in, &s->count);
        s->net = n.count;
        HD_QUIET;
        if (add_net(&n, s->script, NULL)) continue;
        if (!is_refused(hd_error_message())) fail_msg("%s: %s", calls[k].name, hd_error_message());
        hd_error_clear();
        s->net = -1;
    }
    compile_nets(&n, "");
    for (int k = first; k < last; ++k)
        if (subjects[k - first].net >= 0) run_subject(&n, &subjects[k - first], calls[k].name);
    end_nets(&n);
    free(subjects);
}

static void first_calls_are_the_same_in_c(void **state) {
    (void)state;
    calls_from(0, CALL_COUNT / 2);
}
static void other_calls_are_the_same_in_c(void **state) {
    (void)state;
    calls_from(CALL_COUNT / 2, CALL_COUNT);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static void rows_are_the_same_in_c(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    HD_SCOPE;
    nets n;
    subject *subjects = calloc(HD_OP_ELEMENTWISE_COUNT, sizeof *subjects);
    begin_nets(&n);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        subject *s = &subjects[id];
        row_operands(id, s->in, &s->count);
        hd_builder *b = started(hd_ops[id].name);
        hd_tensor *x[3] = {NULL};
        for (int i = 0; i < s->count; ++i)
            x[i] = hd_input(names[i], hd_tensor_shape(s->in[i]), hd_tensor_dtype(s->in[i]));
        hd_builder_add_output(b, "result", hd_run_row(hd_thread_self(), (hd_op_id)id, x, row_numbers));
        s->script = built(b);
        s->net = n.count;
        if (!add_net(&n, s->script, NULL)) fail_msg("%s: %s", hd_ops[id].name, hd_error_message());
    }
    compile_nets(&n, "");
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) run_subject(&n, &subjects[id], hd_ops[id].name);
    end_nets(&n);
    free(subjects);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_what_c_lacks_is_exact),
        cmocka_unit_test_setup_teardown(first_calls_are_the_same_in_c, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_calls_are_the_same_in_c, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(rows_are_the_same_in_c, make_folder, remove_folder)};
    return cmocka_run_group_tests_name("export/calls", tests, NULL, NULL);
}
