/* hd_einsum: against NumPy, against plain loops over all labels, and every string either gives a result or an error. */
#include "families.h"

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */
/* Those of make_families.py; a line has the rank and the sizes of each operand as arguments. */
static const char *const equations[] = {
    "i->i",
    "i->",
    "ij->ji",
    "ij",
    "ba",
    "Ba",
    "ij->",
    "ij->j",
    "ii",
    "ii->i",
    "iij->j",
    "iji->ij",
    "iii->i",
    "...",
    "...i->i...",
    "ij...->...",
    "...ii->...i",
    "i->...i",
    "->",
    "",
    ",",
    "i,->i",
    "i,i",
    "i,i->i",
    "i,j",
    "i,j->ji",
    "ij,j",
    "ij,jk",
    "ij,jk->ki",
    "ij,kj->ik",
    "ji,jk",
    "ij,ij->",
    "ij,ij->i",
    "ij,ji->ij",
    "ij,kl->jl",
    "bij,bjk->bik",
    "bij,bjk->kib",
    "bij,bkj->bik",
    "bij,jk->bik",
    "bhid,bhjd->bhij",
    "ijk,jil->kl",
    "ijk,ijk->k",
    "...ij,...jk",
    "...ij,...jk->...ik",
    "i...j,j...->i...",
    "...,...",
    "a...,...b",
    "ab...,b...->a...",
    "Ab,bC->AC",
    "ij,jk,kl",
    "ij,jk,kl->li",
    "i,j,k->kji",
    "ij,ij,ij->i",
    "bn,anm,bm->ba",
    "ij,j,i->",
    "ab,bc,cd,da->",
    "iij,jk,k->i",
    "i,ij,j",
};
enum { EQUATIONS = sizeof equations / sizeof *equations };

static void equations_as_numpy(void **state) {
    (void)state;
    for (int k = 0; k < EQUATIONS; ++k) {
        char name[64];
        snprintf(name, sizeof name, "einsum:%s", equations[k]);
        for (golden g = golden_open(name); golden_next(&g);)
            for (int dtype = HD_F32; dtype <= (int)HD_F64; ++dtype) {
                HD_SCOPE;
                hd_tensor *in[8];
                int count = 0;
                for (const double *a = g.argument; a < g.argument + g.arguments; ++count) {
                    hd_shape shape = {.rank = (int)*a++};
                    for (int i = 0; i < shape.rank; ++i) shape.size[i] = (int64_t)*a++;
                    in[count] = fixture(shape, (hd_dtype)dtype);
                }
                assert_tensor_close(hd_einsum(equations[k], in, count), (hd_dtype)dtype, &g.shape, g.v,
                                    dtype == HD_F64 ? 1e-12 : 1e-5);
            }
    }
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
enum { SYMBOLS = 8 }; /* six letters, and two axes that "..." stands for */
static const char letters[] = "aXbYcZ";

typedef struct random_sum {
    int operands;
    int rank[4], symbol[4][HD_MAX_RANK]; /* of each axis */
    int64_t size[SYMBOLS];
    model in[4];
    int out_rank, out[HD_MAX_RANK];
    char text[256];
} random_sum;

static void write_labels(char *to, const int *symbols, int rank, bool names_dots) {
    bool seen = false;
    for (int i = 0; i < rank; ++i) {
        if (random_below(6) == 0) *to++ = ' ';
        if (symbols[i] >= 6 && !seen) to += sprintf(to, "...");
        seen = seen || symbols[i] >= 6;
        if (symbols[i] < 6) *to++ = letters[symbols[i]];
    }
    if (names_dots && !seen) to += sprintf(to, "...");
    *to = '\0';
}

/* Operands with these labels on up to four axes, some of them stretched from size 1; "..." is up to two. */
static void random_operand(random_sum *s, int k) {
    const int dots = (int)random_below(3), others = (int)random_below(dots ? 3 : 5), at = (int)random_below(others + 1);
    int *symbol = s->symbol[k], rank = 0;
    hd_shape shape = {.rank = 0};
    for (int i = 0; i <= others; ++i) {
        for (int d = 0; i == at && d < dots; ++d) symbol[rank++] = SYMBOLS - dots + d;
        if (i < others) symbol[rank++] = (int)random_below(6);
    }
    s->rank[k] = shape.rank = rank;
    for (int i = 0; i < rank; ++i) {
        bool repeated = false;
        for (int other = 0; other < rank; ++other) repeated = repeated || (other != i && symbol[other] == symbol[i]);
        shape.size[i] = !repeated && random_below(6) == 0 ? 1 : s->size[symbol[i]];
    }
    model_of(&s->in[k], shape, HD_F64, NULL);
    if (rank > 0 && random_below(2)) /* of another layout */
        s->in[k].t = hd_flip(hd_contiguous(hd_flip(s->in[k].t, HD_AXES())), HD_AXES());
    if (rank > 1 && random_below(2)) s->in[k].t = hd_t(hd_contiguous(hd_t(s->in[k].t)));
}

static bool is_in_operands(const random_sum *s, int symbol) {
    for (int k = 0; k < s->operands; ++k)
        for (int i = 0; i < s->rank[k]; ++i)
            if (s->symbol[k][i] == symbol) return true;
    return false;
}

static void random_equation(random_sum *s) {
    *s = (random_sum){.operands = 1 + (int)random_below(4)};
    for (int i = 0; i < SYMBOLS; ++i) s->size[i] = random_below(12) == 0 ? 0 : 1 + random_below(3);
    for (int k = 0; k < s->operands; ++k) random_operand(s, k);
    for (int symbol = 0; symbol < 6; ++symbol) { /* the output: some of the labels, in some order, and the dots */
        if (!is_in_operands(s, symbol) || random_below(2)) continue;
        const int at = (int)random_below(s->out_rank + 1);
        memmove(s->out + at + 1, s->out + at, (size_t)(s->out_rank++ - at) * sizeof *s->out);
        s->out[at] = symbol;
    }
    const int dots = is_in_operands(s, 6) ? 2 : is_in_operands(s, 7), at = (int)random_below(s->out_rank + 1);
    memmove(s->out + at + dots, s->out + at, (size_t)(s->out_rank - at) * sizeof *s->out);
    for (int d = 0; d < dots; ++d) s->out[at + d] = SYMBOLS - dots + d;
    s->out_rank += dots;
    for (int k = 0; k < s->operands; ++k) {
        if (k > 0) strcat(s->text, ",");
        write_labels(s->text + strlen(s->text), s->symbol[k], s->rank[k], random_below(4) == 0);
    }
    strcat(s->text, "->");
    write_labels(s->text + strlen(s->text), s->out, s->out_rank, dots > 0);
}

/* The element of an operand at these places of all labels. */
static double element_at(const random_sum *s, int k, const int64_t *place) {
    int64_t at[HD_MAX_RANK] = {0};
    for (int i = 0; i < s->rank[k]; ++i) at[i] = s->in[k].shape.size[i] == 1 ? 0 : place[s->symbol[k][i]];
    return s->in[k].v[index_of(&s->in[k].shape, at)];
}

/* A label whose axes all have size 1 has that size. */
static void find_sizes(random_sum *s) {
    for (int symbol = 0; symbol < SYMBOLS; ++symbol) {
        s->size[symbol] = 1;
        for (int k = 0; k < s->operands; ++k)
            for (int i = 0; i < s->rank[k]; ++i)
                if (s->symbol[k][i] == symbol && s->in[k].shape.size[i] != 1) s->size[symbol] = s->in[k].shape.size[i];
    }
}

static void random_equations_as_plain_loops(void **state) {
    (void)state;
    static random_sum s;
    static double v[MODEL_MOST];
    int checked = 0;
    for (int round = 0; round < 4000; ++round) {
        if (!when_slow(round, 8) || !when_compiled((uint64_t)round, 23)) continue;
        HD_SCOPE;
        random_equation(&s);
        find_sizes(&s);
        hd_shape shape = {.rank = s.out_rank}, all = {.rank = SYMBOLS};
        for (int i = 0; i < SYMBOLS; ++i) all.size[i] = s.size[i];
        for (int i = 0; i < s.out_rank && i < HD_MAX_RANK; ++i) shape.size[i] = s.size[s.out[i]];
        if (hd_shape_count(shape) > MODEL_MOST) continue;
        memset(v, 0, sizeof v);
        for (int64_t n = 0; n < hd_shape_count(all); ++n) {
            int64_t place[SYMBOLS], at[HD_MAX_RANK];
            double product = 1;
            coordinates_of(&all, n, place);
            for (int k = 0; k < s.operands; ++k) product *= element_at(&s, k, place);
            for (int i = 0; i < s.out_rank; ++i) at[i] = place[s.out[i]];
            v[index_of(&shape, at)] += product;
        }
        hd_tensor *in[4];
        for (int k = 0; k < s.operands; ++k) in[k] = s.in[k].t;
        hd_tensor *y = hd_einsum(s.text, in, s.operands);
        if (y == NULL) fail_msg("\"%s\": %s", s.text, hd_error_message());
        if (!hd_shape_equal(hd_tensor_shape(y), shape)) fail_msg("\"%s\" has another shape", s.text);
        assert_tensor(y, HD_F64, &shape, v); /* halves of small numbers: every product and sum is exact */
        ++checked;
    }
    assert_true(checked > 100);
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */
static void any_string_gives_a_result_or_an_error(void **state) {
    (void)state;
    static const char characters[] = "iijjkKz.,,->-> \t1*\x07\x80\xff";
    static const char *const pieces[] = {"...", "->", ",", "ij", "jk", "i", "", " ", "ii", "..", "-", "ijklmnop"};
    int results = 0, errors = 0;
    for (int round = 0; round < 20000; ++round) {
        if (!when_slow(round, 10)) continue;
        HD_SCOPE;
        HD_QUIET;
        char text[128] = "";
        size_t length = 0;
        for (int64_t n = random_below(10); n > 0; --n)
            if (random_below(3) == 0) {
                text[length++] = characters[random_below((int64_t)sizeof characters - 1)];
                text[length] = '\0';
            } else {
                const char *piece = pieces[random_below(sizeof pieces / sizeof *pieces)];
                strcpy(text + length, piece);
                length += strlen(piece);
            }
        hd_tensor *in[4];
        const int count = (int)random_below(4);
        for (int k = 0; k < count; ++k) in[k] = hd_ones(random_shape((int)random_below(4), 2), HD_F32);
        hd_tensor *y = hd_einsum(text, in, count);
        assert_true((y != NULL) == hd_ok());
        results += y != NULL;
        errors += y == NULL;
        if (y != NULL) continue;
        assert_true(strncmp(hd_error_message(), "hd_einsum: ", 11) == 0);
        assert_true(hd_error_code() != HD_ERROR_INTERNAL && hd_error_code() != HD_ERROR_MEMORY);
        hd_error_clear();
    }
    assert_true(results > 20 && errors > 100);
}

#define E(text, ...)                                                                                                   \
    hd_einsum(text, (hd_tensor *const[]){__VA_ARGS__},                                                                 \
              (int)(sizeof((hd_tensor *[]){__VA_ARGS__}) / sizeof(hd_tensor *)))

static void errors_name_place_given_and_expected(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *m = hd_ones(HD_SHAPE(2, 3), HD_F32), *n = hd_ones(HD_SHAPE(4, 5), HD_F32),
              *v = hd_ones(HD_SHAPE(3), HD_F32);
#define REFUSED(code, message, ...)                                                                                    \
    assert_null(E(__VA_ARGS__));                                                                                       \
    assert_error(code, "hd_einsum: " message)
    REFUSED(HD_ERROR_VALUE, "\"ij,j1->i\": \"1\" at place 4; labels are the letters a-z and A-Z", "ij,j1->i", m, v);
    REFUSED(HD_ERROR_VALUE, "\"ij\x07\": 0x07 at place 2", "ij\x07", m);
    REFUSED(HD_ERROR_VALUE, "\"ij- >i\": \"-\" at place 2", "ij- >i", m);
    REFUSED(HD_ERROR_VALUE, "\"ij->i->j\": \"-\" at place 5", "ij->i->j", m);
    REFUSED(HD_ERROR_VALUE, "\"ij->i,j\": \",\" at place 5", "ij->i,j", m);
    REFUSED(HD_ERROR_VALUE, "\"i..j\": \".\" at place 1; dots come in threes", "i..j", m);
    REFUSED(HD_ERROR_VALUE, "\"...i...\": \".\" at place 4", "...i...", m);
    REFUSED(HD_ERROR_VALUE, "\"ij,jk\" has 2 operands, and 1 are given", "ij,jk", m);
    REFUSED(HD_ERROR_VALUE, "\"ij\" has 1 operands, and 2 are given", "ij", m, v);
    REFUSED(HD_ERROR_SHAPE, "\"i\": 1 labels for operand 0 [2,3], which has 2 axes; give one for each axis, or \"...\"",
            "i", m);
    REFUSED(HD_ERROR_SHAPE, "\"ij,jk\": 2 labels for operand 1 [3], which has 1 axes; give one for each axis", "ij,jk",
            m, v);
    REFUSED(HD_ERROR_SHAPE,
            "\"ij,jk\": label \"j\" has size 3 in operand 0 [2,3] and 4 in operand 1 [4,5]; sizes of a label are "
            "equal, or 1",
            "ij,jk", m, n);
    REFUSED(HD_ERROR_SHAPE, "\"...,i...\": label \"...\" has size 3 in operand 0 [2,3] and 5 in operand 1 [4,5]",
            "...,i...", m, n);
    REFUSED(HD_ERROR_SHAPE, "\"ii\": label \"i\" is axis 0 and axis 1 of operand 0 [2,3], whose sizes differ", "ii", m);
    REFUSED(HD_ERROR_VALUE, "\"ij->ik\": label \"k\" of the output is in no operand", "ij->ik", m);
    REFUSED(HD_ERROR_VALUE, "\"ij->ii\": label \"i\" is twice in the output", "ij->ii", m);
    REFUSED(HD_ERROR_VALUE, "\"...j->j\": \"...\" stands for 1 axes, and is not in the output", "...j->j", m);
    REFUSED(HD_ERROR_SHAPE, "\"abcdefghi\": \"i\" at place 8 is label 9 of one tensor, of 8 axes at most", "abcdefghi",
            m);
    REFUSED(HD_ERROR_SHAPE, "\"abcd,efgh,ijkl->abcdefghi\": \"i\" at place 24", "abcd,efgh,ijkl->abcdefghi",
            hd_ones(HD_SHAPE(1, 1, 1, 1), HD_F32), hd_ones(HD_SHAPE(1, 1, 1, 1), HD_F32),
            hd_ones(HD_SHAPE(1, 1, 1, 1), HD_F32));
    REFUSED(HD_ERROR_SHAPE, "\"abcd,efghi\" has a result of more than 8 axes", "abcd,efghi",
            hd_ones(HD_SHAPE(1, 1, 1, 1), HD_F32), hd_ones(HD_SHAPE(1, 1, 1, 1, 1), HD_F32));
    REFUSED(HD_ERROR_DTYPE, "does not take bool", "ij", hd_ones(HD_SHAPE(2, 3), HD_BOOL));
    REFUSED(HD_ERROR_NULL_ARGUMENT, "`tensors[1]` is NULL", "i,i", v, NULL);
#undef REFUSED
    assert_null(hd_einsum(NULL, &m, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_einsum: `equation` is NULL");
    assert_null(hd_einsum("i", NULL, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_einsum: `tensors` is NULL");
    assert_null(hd_einsum("i", &v, 0));
    assert_error(HD_ERROR_VALUE, "hd_einsum: 0 tensors; 1 to 64");
    assert_null(hd_einsum("i", &v, 65));
    assert_error(HD_ERROR_VALUE, "hd_einsum: 65 tensors; 1 to 64");
}

/* ---- what it is made of ------------------------------------------------------------------------------------------ */
static void two_operands_are_one_matrix_product(void **state) { /* bit for bit, and without a copy */
    (void)state;
    HD_SCOPE;
    hd_seed(3);
    hd_tensor *a = hd_randn(HD_SHAPE(3, 40, 50), HD_F32), *b = hd_randn(HD_SHAPE(3, 50, 60), HD_F32);
    assert_same(E("bij,bjk->bik", a, b), hd_matmul(a, b));
    assert_same(E("bij,bkj->bik", a, hd_contiguous(hd_t(b))), hd_matmul(a, hd_t(hd_contiguous(hd_t(b)))));
    assert_same(E("bji,bjk->bik", hd_contiguous(hd_t(a)), b), hd_matmul(hd_t(hd_contiguous(hd_t(a))), b));
    assert_same(E("bij,jk->bik", a, hd_select(b, 0, 1)),
                hd_reshape(hd_matmul(hd_reshape(a, HD_SHAPE(120, 50)), hd_select(b, 0, 1)), HD_SHAPE(3, 40, 60)));
    hd_tensor *wide = hd_randn(HD_SHAPE(8, 300, 128), HD_F32), *other = hd_randn(HD_SHAPE(8, 300, 128), HD_F32);
    hd_matmul(wide, hd_t(other)); /* whatever the first of its kind takes */
    hd_memory_reset_peak();
    const int64_t before = hd_memory().peak_bytes;
    hd_tensor *y = E("bid,bjd->bij", wide, other);
    assert_ok();
    const int64_t taken = hd_memory().peak_bytes - before;
    hd_memory_reset_peak();
    const int64_t start = hd_memory().peak_bytes;
    hd_tensor *z = hd_matmul(wide, hd_t(other));
    assert_true(taken <= hd_memory().peak_bytes - start + 4096);
    assert_same(y, z);
}

static void the_order_is_the_cheap_one(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *column = hd_ones(HD_SHAPE(1500, 1), HD_F32), *row = hd_ones(HD_SHAPE(1, 1500), HD_F32);
    hd_memory_reset_peak();
    const int64_t before = hd_memory().peak_bytes;
    hd_tensor *y = E("ab,bc,cd->ad", column, row, column); /* from the right: no [1500,1500] */
    assert_ok();
    assert_true(hd_memory().peak_bytes - before < 1500 * 1500);
    assert_true(hd_item(hd_select(hd_select(y, 0, 7), 0, 0)) == 1500);
    hd_tensor *many[9]; /* greedily: the same */
    char text[64] = "";
    for (int i = 0; i < 9; ++i) {
        many[i] = i % 2 == 0 ? column : row;
        sprintf(text + strlen(text), "%s%c%c", i == 0 ? "" : ",", 'a' + i, 'b' + i);
    }
    hd_memory_reset_peak();
    y = hd_einsum(text, many, 9);
    assert_ok();
    assert_true(hd_memory().peak_bytes - before < 1500 * 1500);
    assert_true(hd_item(hd_select(hd_select(y, 0, 7), 0, 0)) == 1500.0f * 1500 * 1500 * 1500);
}

static void many_operands_meet(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *chain[12], *product = NULL;
    char text[64] = "";
    for (int i = 0; i < 12; ++i) {
        chain[i] = hd_cast(hd_randint(HD_SHAPE(2 + i % 3, 2 + (i + 1) % 3), HD_I64, -2, 3), HD_F64);
        product = i == 0 ? chain[0] : hd_matmul(product, chain[i]);
        sprintf(text + strlen(text), "%s%c%c", i == 0 ? "" : ",", 'a' + i, 'b' + i);
    }
    assert_same(hd_einsum(text, chain, 12), product);
    hd_tensor *twos[64];
    char commas[64] = "";
    for (int i = 0; i < 64; ++i) twos[i] = hd_scalar(2, HD_F64);
    memset(commas, ',', 63);
    assert_values(hd_einsum(commas, twos, 64), HD_F64, 0x1p64);
    hd_tensor *ones = hd_ones(HD_SHAPE(2, 2), HD_F64), *cube = hd_ones(HD_SHAPE(2, 2, 2, 2, 2, 2), HD_F64);
    hd_tensor *turned[] = {ones, ones, ones, ones, ones, ones, cube}; /* there are orders in which too many axes meet */
    hd_tensor *y = hd_einsum("ab,cd,ef,gh,ij,kl,acegik->bdfhjl", turned, 7);
    assert_ok();
    assert_true(hd_item(hd_min(y, HD_AXES(), NULL)) == 64 && hd_item(hd_max(y, HD_AXES(), NULL)) == 64);
    hd_tensor *full = hd_ones(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), HD_F64); /* and equations without any other */
    assert_null(E("abcdefgh,abcijklm,defijkno->ghlmno", full, full, full));
    assert_error(HD_ERROR_SHAPE, "in every order; sum in several calls");
}

static void dtypes_meet_before_anything_is_summed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *bytes = hd_full(HD_SHAPE(4), HD_I8, 100), *one = hd_ones(HD_SHAPE(), HD_F32);
    assert_values(E("i->", bytes), HD_I8, (int8_t)400); /* wraps, as a matrix product of this dtype does */
    assert_values(E("i,->", bytes, one), HD_F32, 400);
    assert_values(E("i,i,->", bytes, bytes, one), HD_F32, 40000);
    assert_values(E("i,i->", bytes, bytes), HD_I8, (int8_t)40000);
    assert_values(E("i,i->", hd_ones(HD_SHAPE(3), HD_BOOL), hd_full(HD_SHAPE(3), HD_I16, 5)), HD_I16, 15);
    assert_values(E("ij->j", hd_ones(HD_SHAPE(3000, 1), HD_BF16)), HD_BF16, 3008); /* summed in f32, rounded once */
    assert_values(E("i,i->", hd_zeros(HD_SHAPE(0), HD_F16), hd_zeros(HD_SHAPE(1), HD_F16)), HD_F16, 0);
}

RUN(test(equations_as_numpy), test(random_equations_as_plain_loops), test(any_string_gives_a_result_or_an_error),
    test(errors_name_place_given_and_expected), test(two_operands_are_one_matrix_product),
    test(the_order_is_the_cheap_one), test(many_operands_meet), test(dtypes_meet_before_anything_is_summed))
