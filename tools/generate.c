/* Writes what follows from the op tables: include/hodu/ops.h, docs/ops.md and docs/dtypes.md.
 * generate ops.h | ops.md | dtypes.md | rows.json | calls.def  > file `make generate` runs it for the first three; a
 * test fails when the committed files are not what it writes. The others are for tests. */
#include <stdio.h>
#include <string.h>

#include <hodu/dtype.h>

typedef struct row {
    const char *kind, *name, *types, *ulp, *document, *reference, *p, *q, *r;
} row;

static const row rows[] = {
#define UNARY(name, types, ulp, doc, ref, ...)           {"unary", #name, #types, #ulp, doc, ref, 0, 0, 0},
#define UNARY1(name, types, ulp, doc, ref, p, ...)       {"unary", #name, #types, #ulp, doc, ref, #p, 0, 0},
#define UNARY2(name, types, ulp, doc, ref, p, q, ...)    {"unary", #name, #types, #ulp, doc, ref, #p, #q, 0},
#define UNARY3(name, types, ulp, doc, ref, p, q, r, ...) {"unary", #name, #types, #ulp, doc, ref, #p, #q, #r},
#define TEST(name, types, doc, ref, ...)                 {"test", #name, #types, "0", doc, ref, 0, 0, 0},
#define BINARY(name, types, ulp, doc, ref, ...)          {"binary", #name, #types, #ulp, doc, ref, 0, 0, 0},
#define SPLIT(name, ulp, doc, ref, ...)                  {"binary", #name, "NUMBERS", #ulp, doc, ref, 0, 0, 0},
#define COMPARE(name, types, doc, ref, ...)              {"compare", #name, #types, "0", doc, ref, 0, 0, 0},
#define CHOOSE(name, types, doc, ref, ...)               {"choose", #name, #types, "0", doc, ref, 0, 0, 0},
#define TERNARY(name, types, ulp, doc, ref, ...)         {"ternary", #name, #types, #ulp, doc, ref, 0, 0, 0},
#define TERNARY1(name, types, ulp, doc, ref, p, ...)     {"ternary", #name, #types, #ulp, doc, ref, #p, 0, 0},
#include "ops/elementwise.def"
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

typedef struct other {
    const char *kind, *name, *signature, *document, *gradient, *types, *kernels, *outputs, *family;
} other;

#define TEXT_(...) #__VA_ARGS__
#define TEXT(...)  TEXT_(__VA_ARGS__)
#define VJP(...)   yes
#define STOP(why)                                                                                                      \
    stops:                                                                                                             \
    why
#define ZERO(why)                                                                                                      \
    zero:                                                                                                              \
    why
#define NONE(why)                                                                                                      \
    none:                                                                                                              \
    why
#define lower(kind) "yes"
#define none(why)   "no: " why
static const other others[] = {
#define SECTION(title) {.kind = "section", .name = title},
#define PRIMITIVE(name, family, inputs, most, outputs, attributes, signature, doc, gradient, types, fails, work,       \
                  lower)                                                                                               \
    {"primitive", #name, #signature, doc, TEXT(gradient), #types, lower, #outputs, #family},
#define COMPOSITE(name, signature, doc)                                                                                \
    {"composite", #name, #signature, doc, "by its parts", "", "by its parts", "1", ""},
#define COMPOSITE_LIST(name, signature, doc)                                                                           \
    {"composite", #name, #signature, doc, "by its parts", "", "by its parts", "LIST", ""},
#define COMPOSITE_PAIR(name, signature, doc)                                                                           \
    {"composite", #name, #signature, doc, "by its parts", "", "by its parts", "PAIR", ""},
#define COMPOSITE_PARTS(type, name, signature, doc)                                                                    \
    {"composite", #name, #signature, doc, "by its parts", "", "by its parts", "PARTS(" #type ")", ""},
#include "ops/ops.def"
};
enum { OTHER_COUNT = sizeof others / sizeof others[0] };

static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static const char *operands(const row *r) {
    if (is(r->kind, "unary") || is(r->kind, "test")) return "hd_tensor *x";
    if (is(r->kind, "choose")) return "hd_tensor *condition, hd_tensor *a, hd_tensor *b";
    return is(r->kind, "ternary") ? "hd_tensor *a, hd_tensor *b, hd_tensor *c" : "hd_tensor *a, hd_tensor *b";
}

static void signature(const row *r) {
    printf("(%s", operands(r));
    if (r->p) printf(", double %s", r->p);
    if (r->q) printf(", double %s", r->q);
    if (r->r) printf(", double %s", r->r);
    printf(")");
}

static int has_scalar_form(const row *r) { return is(r->kind, "binary") || is(r->kind, "compare"); }

static const char *types_text(const char *types) {
    if (is(types, "FLOATS")) return "floats";
    if (is(types, "NUMBERS")) return "floats and integers";
    if (is(types, "INTS")) return "integers and bool";
    if (is(types, "INTEGERS")) return "integers";
    if (is(types, "INDICES")) return "i64";
    return is(types, "ALL") ? "every dtype" : "";
}
static const char *row_types_text(const row *r) {
    return is(r->types, "FLOATS") ? "floats; integers become the default float" : types_text(r->types);
}

/* Prints `text`, broken between words, or, if it is no comment, between parameters, where a line would be longer than
 * the house allows; further lines begin with `margin` spaces, or, in a comment, with a star. */
static void write_lines(const char *text, int margin, const char *star) {
    enum { LONGEST = 120 };
    while (strlen(text) > (size_t)(LONGEST - (*star ? (int)strlen(star) : 0))) {
        int end = LONGEST - (*star ? (int)strlen(star) : 0);
        while (end > 0 && (text[end] != ' ' || (!*star && text[end - 1] != ','))) --end;
        printf("%.*s\n%s%*s", end, text, star, margin, "");
        text += end + 1;
    }
    puts(text);
}

static void write_comment(const char *document, const char *types) {
    char text[2048];
    snprintf(text, sizeof text, "/* %s%s%s%s */", document, types ? " (" : "", types ? types : "", types ? ")" : "");
    write_lines(text, 0, " * ");
}

/* How many parameters a signature has, and which of them is the dtype; 0: none. */
static int dtype_place(const char *signature, int *count) {
    int place = 0;
    *count = 1;
    for (const char *at = signature + 1; *at != '\0'; ++at) {
        if (strncmp(at, "hd_dtype ", 9) == 0) place = *count;
        *count += *at == ',';
    }
    return place;
}

/* Macros of the functions' own names, for every op that takes a dtype. */
static void write_checked_calls(void) {
    puts("/* A number in the place of a dtype is an error when the program is compiled: see HD_CHECKED in dtype.h. */\n"
         "#ifdef HD_CHECKED\n/* clang-format off */");
    for (int i = 0; i < OTHER_COUNT; ++i) {
        const other *o = &others[i];
        int count;
        const int place = is(o->kind, "section") ? 0 : dtype_place(o->signature, &count);
        if (place == 0) continue;
        printf("#define hd_%s(...) HD_CHECKED(%d, HD_CHECK_%d_OF_%d, hd_%s, __VA_ARGS__)\n", o->name, count, place,
               count, o->name);
    }
    puts("/* clang-format on */\n#endif");
}

/* What the function of an op returns, with what stands between it and the name. */
static const char *returned(const char *outputs, char *text, size_t capacity) {
    if (is(outputs, "PAIR")) return "hd_pair ";
    if (is(outputs, "LIST")) return "hd_tensors *";
    if (sscanf(outputs, "PARTS(%60[a-z_])", text) != 1) return "hd_tensor *";
    strncat(text, " ", capacity - strlen(text) - 1);
    return text;
}

static void write_header(void) {
    puts("/* Every op, written by tools/generate.c from src/ops/elementwise.def and src/ops/ops.def: edit those.\n"
         " * An op returns a new tensor that belongs to the current scope, or a list of such, or NULL when an error "
         "is\n"
         " * pending. Views, and hd_bitcast, always share the memory of x; all others never do, whatever their "
         "arguments. The\n"
         " * exceptions say so: hd_cast and hd_contiguous may return x itself, hd_reshape and hd_flatten may copy. */\n"
         "#ifndef HODU_OPS_H\n#define HODU_OPS_H\n\n#include <hodu/op_options.h>\n#include "
         "<hodu/tensor.h>\n\nHD_BEGIN_DECLS");
    puts("/* ---- Elementwise: operands broadcast and promote; hd_X_scalar takes a C number as second operand ---- */");
    for (int i = 0; i < ROW_COUNT; ++i) {
        write_comment(rows[i].document, row_types_text(&rows[i]));
        printf("HD_API hd_tensor *hd_%s", rows[i].name);
        signature(&rows[i]);
        puts(";");
        if (has_scalar_form(&rows[i]))
            printf("HD_API hd_tensor *hd_%s_scalar(hd_tensor *x, double value);\n", rows[i].name);
    }
    for (int i = 0; i < OTHER_COUNT; ++i) {
        const other *o = &others[i];
        if (is(o->kind, "section"))
            printf("\n/* ---- %s ---- */\n", o->name);
        else {
            char text[1024], type[64];
            const int open =
                snprintf(text, sizeof text, "HD_API %shd_%s(", returned(o->outputs, type, sizeof type), o->name);
            snprintf(text + open, sizeof text - (size_t)open, "%s;", o->signature + 1);
            write_comment(o->document, NULL);
            write_lines(text, open, "");
        }
    }
    puts("HD_END_DECLS\n");
    write_checked_calls();
    puts("\n#endif");
}

static void write_cell(const char *text) {
    for (; *text; ++text) printf(*text == '|' ? "\\|" : "%c", *text);
}

/* ---- who runs what ----------------------------------------------------------------------------------------------- */
typedef struct exception {
    const char *name, *why;
} exception;
static const exception copied[] = {
#define BY_COPY(name, why) {#name, why},
#include "machine/by_copy.def"
    {NULL, NULL}};
static const exception refused[] = {
#define REFUSED(name, why)           {#name, "no: " why},
#define REFUSED_AT_TIMES(name, when) {#name, "no, " when},
#include "xla/refused.def"
    {NULL, NULL}};
static const char *why_not(const exception *list, const char *name) {
    while (list->name != NULL && !is(list->name, name)) ++list;
    return list->why;
}

/* Columns of what XLA has, and of how GPUs have it. */
static void write_support(const other *o) {
    if (!is(o->kind, "primitive")) {
        printf(" by its parts | by its parts |\n");
        return;
    }
    const char *xla = why_not(refused, o->name), *copy = why_not(copied, o->name);
    printf(" %s | ", xla != NULL ? xla : "yes");
    if (copy != NULL)
        printf("copies: %s |\n", copy);
    else
        printf("%s |\n", is(o->family, "VIEW") ? "view" : is(o->kernels, "yes") ? "kernel" : "template");
}

static void write_names(const char *title, const char *head, const exception *list) {
    printf("\n## %s\n\n%s\n|---|---|\n", title, head);
    for (; list->name != NULL; ++list) printf("| %s | %s |\n", list->name, list->why);
}
static void write_other_names(void) {
    static const exception names[] = {
#define OTHER_NAME(name, how) {name, how},
#include "ops/ops.def"
        {NULL, NULL}};
    static const exception missing[] = {
#define NOT_YET(names, why) {names, why},
#include "ops/ops.def"
        {NULL, NULL}};
    write_names("What others call otherwise", "| there | here |", names);
    write_names("Not yet", "| what | why |", missing);
}

static void write_document(void) {
    puts("# Ops\n\nWritten by `make generate` from the op tables in `src/ops`; edit those.\n\n"
         "Views, and `hd_bitcast`, always share the memory of their operand; all others never do, whatever their "
         "arguments. The exceptions\nsay so: `hd_cast` and `hd_contiguous` may return their operand itself, "
         "`hd_reshape` and `hd_flatten` may copy.\n\n"
         "Dtypes are those in which an op computes when its operands have met; of what has no operands, those of its "
         "result. The CPU\nhas every op in all of them, at once and in scripts. \"In kernels\" says whether the "
         "compiler "
         "fuses it with its neighbours, or why it\nruns as a call of the device. \"GPUs\" are CUDA, OpenCL and Metal, "
         "which have the same: kernels, or templates of their own text; what has\n\"copies\" runs on the CPU, with "
         "copies of its operands, as `HODU_DUMP=calls` and profiles say. All have every elementwise op, in kernels.\n");
    puts("## Elementwise\n\n"
         "Operands broadcast and promote ([dtypes.md](dtypes.md)). The error is of an f32 result, in units in the last "
         "place;\n"
         "\"of inputs\" means measured at the largest operand. Rows with a float result have a derivative (zero where "
         "it is by nature).\n\n"
         "| op | what | dtypes | error | scalar form |\n|---|---|---|---|---|");
    for (int i = 0; i < ROW_COUNT; ++i) {
        printf("| `hd_%s", rows[i].name);
        signature(&rows[i]);
        printf("` | ");
        write_cell(rows[i].document);
        const int of_inputs = rows[i].ulp[0] == '-';
        printf(" | %s | %s%s | %s |\n", row_types_text(&rows[i]), rows[i].ulp + of_inputs,
               of_inputs ? " of inputs" : "", has_scalar_form(&rows[i]) ? "yes" : "");
    }
    for (int i = 0; i < OTHER_COUNT; ++i) {
        const other *o = &others[i];
        if (is(o->kind, "section")) {
            printf("\n## %s\n\n| op | what | kind | dtypes | gradient | in kernels | XLA | GPUs |\n"
                   "|---|---|---|---|---|---|---|---|\n",
                   o->name);
            continue;
        }
        printf("| `hd_%s%s` | ", o->name, o->signature);
        write_cell(o->document);
        printf(" | %s | %s | ", o->kind, types_text(o->types));
        for (const char *c = o->gradient; *c; ++c)
            if (*c != '"' && *c != '\\') putchar(*c);
        printf(" | %s |", o->kernels);
        write_support(o);
    }
    write_other_names();
}

static void write_dtypes(void) {
    puts("# dtypes\n\nWritten by `make generate`. The dtype in which two operands meet:\n");
    printf("| |");
    for (int b = 1; b < HD_DTYPE_COUNT; ++b) printf(" %s |", hd_dtype_name((hd_dtype)b));
    printf("\n|---|");
    for (int b = 1; b < HD_DTYPE_COUNT; ++b) printf("---|");
    for (int a = 1; a < HD_DTYPE_COUNT; ++a) {
        printf("\n| **%s** |", hd_dtype_name((hd_dtype)a));
        for (int b = 1; b < HD_DTYPE_COUNT; ++b)
            printf(" %s |", hd_dtype_name(hd_dtype_promote((hd_dtype)a, (hd_dtype)b)));
    }
    puts("\n\nA C number never widens a float tensor; with an integer tensor a whole number takes the tensor's dtype "
         "(one that does\n"
         "not fit is an error, except in comparisons and as a bound of clamp) and a\n"
         "fractional one the default float; with a bool tensor a whole number gives i64. Division and transcendental "
         "functions\n"
         "of integers give the default float. Small floats (f8, bf16, f16) compute in f32 and round once. Sums of bool "
         "and\n"
         "integers are i64, of unsigned ones u64. Float to integer casts truncate and saturate, NaN gives 0.");
}

static void write_string(const char *text) {
    putchar('"');
    for (; *text; ++text) printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('"');
}

static void write_rows(void) { /* for tests/golden/make_golden.py */
    puts("[");
    for (int i = 0; i < ROW_COUNT; ++i) {
        printf("  {\"kind\": \"%s\", \"name\": \"%s\", \"types\": \"%s\", \"numbers\": [", rows[i].kind, rows[i].name,
               rows[i].types);
        const char *names[3] = {rows[i].p, rows[i].q, rows[i].r};
        for (int k = 0; k < 3 && names[k]; ++k) printf("%s\"%s\"", k ? ", " : "", names[k]);
        printf("], \"reference\": ");
        write_string(rows[i].reference);
        printf("}%s\n", i + 1 < ROW_COUNT ? "," : "");
    }
    puts("]");
}

/* ---- calls, for tests/ops/test_bad_arguments.c ------------------------------------------------------------------- */
/* A parameter as a word for its type, its place, and its name or, of options and enums, its type. */
static void write_parameter(const char *type, const char *name, int place) {
    static const char *const words[][2] = {{"hd_tensor *", "TENSOR"},
                                           {"hd_tensor *const *", "LIST"},
                                           {"hd_tensors *", "TENSORS"},
                                           {"double", "DOUBLE"},
                                           {"int64_t", "INT64"},
                                           {"int", "INT"},
                                           {"bool", "BOOL"},
                                           {"size_t", "SIZE"},
                                           {"hd_dtype", "DTYPE"},
                                           {"hd_shape", "SHAPE"},
                                           {"hd_axes", "AXES"},
                                           {"hd_device", "DEVICE"},
                                           {"const hd_padding *", "PADDING"},
                                           {"const double *", "DOUBLES"},
                                           {"const char *", "TEXT"},
                                           {"const void *", "BYTES"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i)
        if (is(type, words[i][0])) {
            printf(", %s(%d, %s)", words[i][1], place, name);
            return;
        }
    if (strncmp(type, "const ", 6) == 0)
        printf(", OPTIONS(%d, %.*s)", place, (int)strcspn(type + 6, " "), type + 6);
    else
        printf(", ENUM(%d, %s)", place, type);
}

/* OP(name, the dtypes it takes, whether its document speaks of NULL, parameters) */
static void write_call(const char *name, const char *form, const char *types, const char *document,
                       const char *signature) {
    printf("OP(%s%s, %s, %d", name, form, *types ? types : "ANY", strstr(document, "NULL") != NULL);
    char text[1024];
    snprintf(text, sizeof text, "%s", signature + 1);
    int place = 0;
    for (char *at = text, *end; *at != '\0'; at = end + (end[0] == ',') + (end[1] == ' '), ++place) {
        end = at + strcspn(at, ",)");
        if (*end == ')') end[1] = '\0';
        char *name_at = end;
        while (name_at[-1] != ' ' && name_at[-1] != '*') --name_at;
        char type[64], parameter[64];
        snprintf(type, sizeof type, "%.*s", (int)(name_at - at) - (name_at[-1] == ' '), at);
        snprintf(parameter, sizeof parameter, "%.*s", (int)(end - name_at), name_at);
        write_parameter(type, parameter, place);
        if (*end == ')') break;
    }
    puts(")");
}

static void write_calls(void) {
    for (int i = 0; i < ROW_COUNT; ++i) {
        char text[256];
        const row *r = &rows[i];
        snprintf(text, sizeof text, "(%s%s%s%s%s%s%s)", operands(r), r->p ? ", double " : "", r->p ? r->p : "",
                 r->q ? ", double " : "", r->q ? r->q : "", r->r ? ", double " : "", r->r ? r->r : "");
        write_call(r->name, "", is(r->types, "INTS") ? r->types : "ANY", "", text);
        if (has_scalar_form(r)) write_call(r->name, "_scalar", "ANY", "", "(hd_tensor *x, double value)");
    }
    for (int i = 0; i < OTHER_COUNT; ++i) {
        const other *o = &others[i];
        const char *types =
            is(o->kind, "primitive") && is(o->family, "LINALG") ? "ANY" : o->types; /* made floats first */
        if (!is(o->kind, "section")) write_call(o->name, "", types, o->document, o->signature);
    }
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    if (is(what, "ops.h"))
        write_header();
    else if (is(what, "ops.md"))
        write_document();
    else if (is(what, "dtypes.md"))
        write_dtypes();
    else if (is(what, "rows.json"))
        write_rows();
    else if (is(what, "calls.def"))
        write_calls();
    else
        return fputs("usage: generate ops.h|ops.md|dtypes.md|rows.json|calls.def\n", stderr), 2;
    return 0;
}
