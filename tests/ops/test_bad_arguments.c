/* Every op with arguments that are wrong, one at a time: each gives an error that begins with the op's public name,
 * leaves nothing behind, and neither tape nor builder is the worse for it. The calls are made from the signatures in
 * the tables (generate calls.def), so that a new op is here without further ado. */
#define HD_UNCHECKED_CALLS
#include "builders.h"
#include "own_ops.h"

#include <math.h>

/* ---- calls ------------------------------------------------------------------------------------------------------- */
enum { PARAMETERS_MOST = 10 };

/* The argument of each parameter, in the member that its type says. */
typedef struct argument {
    hd_tensor *tensor;
    hd_tensor *list[2];
    hd_tensor *const *tensors;
    double real;
    int64_t number;
    hd_dtype dtype;
    hd_shape shape;
    hd_axes axes;
    hd_device device;
    hd_padding padding[2];
    const hd_padding *paddings;
    double part[2];
    const double *parts;
    const char *text;
    union options {
        size_t struct_size;
        hd_reduce_opts reduce;
        hd_scan_opts scan;
        hd_conv_opts conv;
        hd_pool_opts pool;
        hd_resize_opts resize;
        hd_unique_opts unique;
    } options;
    bool has_options;
} argument;
static argument now[PARAMETERS_MOST];

#define TENSOR(i, name)  now[i].tensor
#define LIST(i, name)    now[i].tensors
#define TENSORS(i, name) hd_tensors_from(now[i].list, 1)
#define DOUBLE(i, name)  now[i].real
#define INT64(i, name)   now[i].number
#define INT(i, name)     (int)now[i].number
#define BOOL(i, name)    false
#define SIZE(i, name)    (size_t) now[i].number
#define DTYPE(i, name)   now[i].dtype
#define SHAPE(i, name)   now[i].shape
#define AXES(i, name)    now[i].axes
#define DEVICE(i, name)  now[i].device
#define PADDING(i, name) now[i].paddings
#define DOUBLES(i, name) now[i].parts
#define TEXT(i, name)    now[i].text
#define BYTES(i, name)   NULL
#define OPTIONS(i, type) (now[i].has_options ? (const type *)(const void *)&now[i].options : NULL)
#define ENUM(i, type)    (type) now[i].number
#define OP(name, types, nullable, ...)                                                                                 \
    static void call_##name(void) { (void)hd_##name(__VA_ARGS__); }
#include "calls.def"
#undef TENSOR
#undef LIST
#undef TENSORS
#undef DOUBLE
#undef INT64
#undef INT
#undef BOOL
#undef SIZE
#undef DTYPE
#undef SHAPE
#undef AXES
#undef DEVICE
#undef PADDING
#undef DOUBLES
#undef TEXT
#undef BYTES
#undef OPTIONS
#undef ENUM
#undef OP

typedef enum kind {
    NO_PARAMETER,
    A_TENSOR,
    A_LIST,
    TENSORS,
    A_DOUBLE,
    AN_INTEGER,
    A_BOOL,
    A_DTYPE,
    A_SHAPE,
    SOME_AXES,
    A_DEVICE,
    SOME_PADDING,
    SOME_DOUBLES,
    A_TEXT,
    BYTES,
    SOME_OPTIONS,
    AN_ENUM
} kind;
typedef struct parameter {
    kind kind;
    const char *name; /* of options and enums, their type */
} parameter;
typedef enum types { ANY, FLOATS, NUMBERS, INTS, INTEGERS, INDICES, ALL } types;
typedef struct entry {
    const char *name;
    void (*call)(void);
    types types;
    bool takes_null; /* some operand may be NULL */
    parameter parameters[PARAMETERS_MOST];
} entry;

#define TENSOR(i, name)                                                                                                \
    { A_TENSOR, #name }
#define LIST(i, name)                                                                                                  \
    { A_LIST, #name }
#define TENSORS(i, name)                                                                                               \
    { TENSORS, #name }
#define DOUBLE(i, name)                                                                                                \
    { A_DOUBLE, #name }
#define INT64(i, name)                                                                                                 \
    { AN_INTEGER, #name }
#define INT(i, name)                                                                                                   \
    { AN_INTEGER, #name }
#define BOOL(i, name)                                                                                                  \
    { A_BOOL, #name }
#define SIZE(i, name)                                                                                                  \
    { AN_INTEGER, #name }
#define DTYPE(i, name)                                                                                                 \
    { A_DTYPE, #name }
#define SHAPE(i, name)                                                                                                 \
    { A_SHAPE, #name }
#define AXES(i, name)                                                                                                  \
    { SOME_AXES, #name }
#define DEVICE(i, name)                                                                                                \
    { A_DEVICE, #name }
#define PADDING(i, name)                                                                                               \
    { SOME_PADDING, #name }
#define DOUBLES(i, name)                                                                                               \
    { SOME_DOUBLES, #name }
#define TEXT(i, name)                                                                                                  \
    { A_TEXT, #name }
#define BYTES(i, name)                                                                                                 \
    { BYTES, #name }
#define OPTIONS(i, type)                                                                                               \
    { SOME_OPTIONS, #type }
#define ENUM(i, type)                                                                                                  \
    { AN_ENUM, #type }
#define OP(name, types, nullable, ...) {"hd_" #name, call_##name, types, nullable, {__VA_ARGS__}},
static const entry entries[] = {
#include "calls.def"
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }
static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static bool takes_operand(const parameter *p) { return p->kind == A_TENSOR || p->kind == A_LIST || p->kind == TENSORS; }

/* ---- calls that go well ------------------------------------------------------------------------------------------ */
/* What an operand may be: the first that go together are taken. */
enum { OPERANDS = 13 };
static hd_tensor *operand(int which) {
    switch (which) {
    case 0: return hd_full(HD_SHAPE(2, 2), HD_F32, 0.5);
    case 1: return hd_full(HD_SHAPE(2), HD_F32, 0.5);
    case 2: return hd_zeros(HD_SHAPE(2, 2), HD_I64);
    case 3: return hd_zeros(HD_SHAPE(2), HD_I64);
    case 4: return hd_ones(HD_SHAPE(2, 2), HD_BOOL);
    case 5: return hd_full(HD_SHAPE(2, 2, 2), HD_F32, 0.5);
    case 6: return hd_full(HD_SHAPE(1, 1, 2, 2), HD_F32, 0.5);
    case 7: return hd_full(HD_SHAPE(1, 1, 1, 2, 2), HD_F32, 0.5);
    case 8: return hd_full(HD_SHAPE(3, 3), HD_F32, 0.5);
    case 9: return hd_full(HD_SHAPE(2, 4), HD_F32, 0.5);
    case 10: return hd_full(HD_SHAPE(2, 2, 1), HD_F32, 0.5);
    case 11: return hd_full(HD_SHAPE(1, 1), HD_F32, 0.5);
    default: return NULL;
    }
}

static bool counts_what_is_before(const entry *e, int i) {
    if (i == 0 || !is(e->parameters[i].name, "count")) return false;
    const kind before = e->parameters[i - 1].kind;
    return before == A_LIST || before == SOME_PADDING || before == SOME_DOUBLES;
}

/* What an integer is so that calls go well, by its name. */
static int64_t good_number(const entry *e, int i, int variant) {
    const char *name = e->parameters[i].name;
    if (e->parameters[i].kind == AN_ENUM) return 1;
    if (begins(name, "axis")) return is(name, "axis2");
    if (is(name, "from") || is(name, "index") || is(name, "bytes")) return 0;
    if (is(name, "stop") || is(name, "high") || is(name, "size")) return 2;
    if (counts_what_is_before(e, i)) return 2;
    return variant < 2 ? 1 : variant == 2 ? 2 : 0;
}
static hd_shape good_shape(const char *name, int variant) {
    if (is(name, "starts")) return HD_SHAPE(0, 0);
    if (is(name, "steps") || is(name, "strides")) return HD_SHAPE(1, 1);
    return variant % 2 == 0 ? HD_SHAPE(2, 2) : variant == 1 ? HD_SHAPE(2) : HD_SHAPE(1, 2, 2);
}
static hd_axes good_axes(const entry *e, const char *name) {
    if (is(name, "order")) return HD_AXES(1, 0);
    return begins(name, "batch") || is(e->name, "hd_squeeze") ? HD_AXES() : HD_AXES(0);
}

/* Arguments of an attempt, which says what operands are, and which of a few values the rest has. */
enum { VARIANTS = 4 };
static void fill_arguments(const entry *e, int64_t attempt) {
    const int variant = (int)(attempt % VARIANTS);
    attempt /= VARIANTS;
    for (int i = 0; i < PARAMETERS_MOST && e->parameters[i].kind != NO_PARAMETER; ++i) {
        const parameter *p = &e->parameters[i];
        argument *a = &now[i];
        *a = (argument){.dtype = variant == 3 ? HD_I64 : HD_F32, .device = hd_current_device()};
        if (takes_operand(p)) {
            a->tensor = a->list[0] = a->list[1] = operand((int)(attempt % OPERANDS));
            attempt /= OPERANDS;
        }
        a->tensors = a->list;
        a->paddings = a->padding;
        a->parts = a->part;
        a->real = is(p->name, "high") ? 0.75 : variant % 2 == 0 ? 0.5 : 1;
        if (is(p->name, "high") && variant % 2 == 1) a->real = 2;
        a->shape = good_shape(p->name, variant);
        a->axes = good_axes(e, p->name);
        a->number = good_number(e, i, variant);
        a->text = is(e->name, "hd_custom") ? own_same() : "ij,jk->ik";
    }
}

/* The first attempt that goes well; -1: there is none. */
static int64_t good_attempt(const entry *e) {
    int64_t attempts = VARIANTS;
    for (int i = 0; i < PARAMETERS_MOST; ++i)
        if (takes_operand(&e->parameters[i])) attempts *= OPERANDS;
    for (int64_t attempt = 0; attempt < attempts; ++attempt) {
        HD_SCOPE;
        HD_QUIET;
        fill_arguments(e, attempt);
        e->call();
        if (hd_ok()) return attempt;
        hd_error_clear();
    }
    return -1;
}
static int64_t attempts[ENTRIES];

static void every_op_has_a_call_that_goes_well(void **state) {
    (void)state;
    for (int k = 0; k < ENTRIES; ++k) {
        attempts[k] = good_attempt(&entries[k]);
        if (attempts[k] < 0) fail_msg("%s: none of the arguments that are tried go well", entries[k].name);
    }
}

/* ---- calls that must not go well --------------------------------------------------------------------------------- */
/* What is wrong: a word for the message, and whether it must be an error or merely may be one. */
typedef struct wrong {
    const char *what;
    bool must;
} wrong;
static const wrong right = {NULL, false};
static bool recording;

static hd_shape shape_of(int rank, int64_t size) {
    hd_shape shape = {.rank = rank};
    for (int i = 0; i < rank && i < HD_MAX_RANK; ++i) shape.size[i] = size;
    return shape;
}
static hd_tensor *released(void) {
    hd_tensor *t;
    {
        HD_SCOPE;
        t = hd_ones(HD_SHAPE(2, 2), HD_F32);
    }
    return t;
}
static bool is_first_operand(const entry *e, int i) {
    for (int k = 0; k < i; ++k)
        if (takes_operand(&e->parameters[k])) return false;
    return true;
}

static wrong wrong_tensor(const entry *e, int i, int which) {
    argument *a = &now[i];
    hd_tensor *before = a->tensor;
    switch (which) {
    case 0: a->tensor = NULL; return (wrong){"NULL", before != NULL && (!e->takes_null || is_first_operand(e, i))};
    case 1: a->tensor = released(); return (wrong){"released", before != NULL};
    case 2: a->tensor = hd_ones(HD_SHAPE(), HD_F32); return (wrong){"rank 0", false};
    case 3: a->tensor = hd_ones(shape_of(HD_MAX_RANK, 1), HD_F32); return (wrong){"rank 8", false};
    case 4: a->tensor = hd_ones(HD_SHAPE(3, 5, 7), HD_F32); return (wrong){"[3,5,7]", false};
    case 5: a->tensor = hd_ones(HD_SHAPE(0, 0), HD_F32); return (wrong){"[0,0]", false};
    case 6: a->tensor = hd_ones(HD_SHAPE(2, 2), HD_F32); return (wrong){"f32", e->types == INTS};
    case 7:
        for (int k = 0; k < PARAMETERS_MOST; ++k)
            if (e->parameters[k].kind == A_TENSOR && now[k].tensor != NULL)
                now[k].tensor = hd_ones(hd_tensor_shape(now[k].tensor), HD_I64);
        return (wrong){"i64, as all are", e->types == FLOATS};
    case 8: a->tensor = hd_ones(HD_SHAPE(2, 2), HD_BOOL); return (wrong){"bool", false};
    default: break;
    }
    if (recording || which > 10) return right; /* values are looked at when a script runs */
    a->tensor = which == 9 ? hd_full(HD_SHAPE(2, 2), HD_I64, 1e18) : hd_full(HD_SHAPE(2, 2), HD_F32, NAN);
    return (wrong){which == 9 ? "large integers" : "NaN", false};
}

static wrong wrong_list(int i, int which) {
    argument *a = &now[i];
    switch (which) {
    case 0: a->tensors = NULL; return (wrong){"no list", true};
    case 1: a->list[1] = NULL; return (wrong){"NULL in a list", true};
    case 2: a->list[0] = released(); return (wrong){"released in a list", true};
    case 3: a->list[1] = hd_ones(HD_SHAPE(3, 5, 7), HD_BOOL); return (wrong){"another shape in a list", false};
    default: return right;
    }
}

static wrong wrong_number(const entry *e, int i, int which) {
    static const int64_t numbers[] = {99, -99, 0, -1, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
    static const char *const texts[] = {
        "99", "-99", "0", "-1", "the least int", "the largest int", "the least integer", "the largest integer"};
    if (which >= 8) return right;
    const char *name = e->parameters[i].name;
    const bool is_axis = begins(name, "axis") || is(name, "from") || is(name, "to"),
               is_enum = e->parameters[i].kind == AN_ENUM;
    const bool never_zero = is(name, "groups") || is(name, "factor") || (is(name, "step") && !is(e->name, "hd_range"));
    now[i].number = numbers[which];
    if (is_axis ? which >= 6 : which == 5 && !is_enum) now[i].number = -99; /* no int; and a size that may be had */
    return (wrong){texts[which], (is_axis && (which < 2 || which == 4 || which == 5)) ||
                                     (is_enum && (which < 2 || which > 3)) || (never_zero && which == 2)};
}

static wrong wrong_shape(const entry *e, int i, int which) {
    const char *name = e->parameters[i].name;
    const bool may_be_negative = is(name, "starts") || is(name, "steps") || is(name, "strides");
    hd_shape *s = &now[i].shape;
    switch (which) {
    case 0: *s = shape_of(9, 1); return (wrong){"rank 9", true};
    case 1: *s = shape_of(-1, 1); return (wrong){"rank -1", true};
    case 2: *s = shape_of(4, INT64_MAX); return (wrong){"sizes that overflow", !may_be_negative || is(name, "strides")};
    case 3: *s = shape_of(2, (int64_t)1 << 31); return (wrong){"sizes whose product is too large", !may_be_negative};
    case 4: *s = shape_of(2, -5); return (wrong){"sizes below 0", !may_be_negative};
    case 5: *s = shape_of(2, 0); return (wrong){"sizes of 0", is(name, "window") || is(name, "steps")};
    case 6: *s = shape_of(8, 3); return (wrong){"rank 8", false};
    case 7: *s = shape_of(0, 0); return (wrong){"rank 0", false};
    default: return right;
    }
}

static wrong wrong_axes(int i, int which) {
    hd_axes *a = &now[i].axes;
    switch (which) {
    case 0: *a = HD_AXES(99); return (wrong){"axis 99", true};
    case 1: *a = HD_AXES(0, -99); return (wrong){"axis -99", true};
    case 2: a->count = 9; return (wrong){"9 axes", true};
    case 3: a->count = -1; return (wrong){"-1 axes", true};
    case 4: *a = HD_AXES(0, 0); return (wrong){"an axis twice", true};
    default: return right;
    }
}

/* Options for which every op that has them is wrong, and some that few take. */
static wrong wrong_options(const entry *e, int i, int which) {
    argument *a = &now[i];
    union options *o = &a->options;
    const char *type = e->parameters[i].name;
    memset(o, 0, sizeof *o);
    a->has_options = true;
    o->struct_size = 3;
    if (which == 0) return (wrong){"options of a strange size", true};
    if (is(type, "hd_conv_opts")) {
        o->conv.struct_size = sizeof o->conv;
        switch (which) {
        case 1: o->conv.stride[0] = -1; return (wrong){"a stride of -1", true};
        case 2: o->conv.dilation[0] = -1; return (wrong){"a dilation of -1", true};
        case 3: o->conv.stride[1] = 2; return (wrong){"a stride for one axis alone", false};
        case 4:
            o->conv.groups = -1;
            return (wrong){"groups of -1", !is(e->name, "hd_im2col") && !is(e->name, "hd_col2im")};
        case 5: o->conv.groups = 7; return (wrong){"7 groups", !is(e->name, "hd_im2col") && !is(e->name, "hd_col2im")};
        case 6: o->conv.padding[0].before = INT64_MAX; return (wrong){"a padding that overflows", true};
        case 7: o->conv.padding[0].before = -99; return (wrong){"a padding of -99", false};
        case 8:
            for (int k = 0; k < 3; ++k) o->conv.dilation[k] = INT64_MAX;
            return (wrong){"a dilation that overflows", false};
        case 9:
            for (int k = 0; k < 3; ++k) o->conv.stride[k] = INT64_MAX;
            return (wrong){"a stride that overflows", false};
        default: return right;
        }
    }
    if (is(type, "hd_pool_opts")) {
        o->pool.struct_size = sizeof o->pool;
        switch (which) {
        case 1: o->pool.stride[0] = -1; return (wrong){"a stride of -1", true};
        case 2: o->pool.dilation[0] = -1; return (wrong){"a dilation of -1", true};
        case 3: o->pool.padding[0].before = INT64_MAX; return (wrong){"a padding that overflows", true};
        case 4: o->pool.padding[0].before = -1; return (wrong){"a padding of -1", true};
        case 5:
            for (int k = 0; k < 3; ++k) o->pool.stride[k] = INT64_MAX;
            return (wrong){"a stride that overflows", false};
        default: return right;
        }
    }
    if (is(type, "hd_resize_opts") && which == 1) {
        o->resize.struct_size = sizeof o->resize;
        o->resize.mode = (hd_resize_mode)99;
        return (wrong){"mode 99", true};
    }
    return right;
}

/* Makes argument i wrong, in one of several ways; `right` behind the last. */
static wrong make_wrong(const entry *e, int i, int which) {
    static const double reals[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e308};
    static const char *const texts[] = {"NaN", "inf", "-inf", "-1", "0", "1e308"};
    argument *a = &now[i];
    switch (e->parameters[i].kind) {
    case A_TENSOR: return wrong_tensor(e, i, which);
    case A_LIST: return wrong_list(i, which);
    case AN_INTEGER:
    case AN_ENUM:
        if (e->parameters[i].kind == AN_INTEGER && is(e->parameters[i].name, "bytes")) return right;
        if (counts_what_is_before(e, i)) {
            a->number = which == 0 ? -1 : INT32_MIN;
            return which < 2 ? (wrong){"a count below 0", true} : right;
        }
        return wrong_number(e, i, which);
    case A_DOUBLE:
        if (which >= 6) return right;
        a->real = reals[which];
        return (wrong){texts[which], false};
    case A_DTYPE:
        a->dtype = which == 0 ? (hd_dtype)99 : which == 1 ? (hd_dtype)-1 : HD_BOOL;
        return which < 3 ? (wrong){"another dtype", which < 2} : right;
    case A_SHAPE: return wrong_shape(e, i, which);
    case SOME_AXES: return wrong_axes(i, which);
    case A_DEVICE:
        a->device = (hd_device){.kind = (hd_device_kind)99};
        return which == 0 ? (wrong){"no device", true} : right;
    case SOME_PADDING:
        if (which == 0) a->paddings = NULL;
        a->padding[0].before = which == 1 ? INT64_MAX : INT64_MIN;
        return which < 3 ? (wrong){"a wrong padding", true} : right;
    case SOME_DOUBLES:
        if (which == 0) a->parts = NULL;
        a->part[1] = which == 1 ? NAN : 1.5;
        return which < 3 ? (wrong){"no number, or a wrong one", true} : right;
    case A_TEXT: a->text = which == 0 ? NULL : "!"; return which < 2 ? (wrong){"a wrong text", true} : right;
    case SOME_OPTIONS: return wrong_options(e, i, which);
    case NO_PARAMETER:
    case TENSORS:
    case A_BOOL:
    case BYTES: break;
    }
    return right;
}

/* The call with this argument wrong. Returns false behind the last way to be wrong; complaints are counted. */
static bool call_wrongly(int k, int i, int which, const char *where, int *bad) {
    const entry *e = &entries[k];
    HD_SCOPE;
    HD_QUIET;
    fill_arguments(e, attempts[k]);
    const wrong w = make_wrong(e, i, which);
    assert_ok();
    if (w.what == NULL) return false;
    e->call();
    const char *complaint = NULL;
    char start[80];
    snprintf(start, sizeof start, "%s: ", e->name);
    if (hd_ok())
        complaint = w.must ? "no error" : NULL;
    else if (!begins(hd_error_message(), start) || strlen(hd_error_message()) < strlen(start) + 8)
        complaint = "the error is another one's";
    else if (hd_error_code() == HD_ERROR_INTERNAL)
        complaint = "an internal error";
    if (complaint != NULL) {
        print_error("%s, parameter %d (%s) is %s%s: %s; %s\n", e->name, i, e->parameters[i].name, w.what, where,
                    complaint, hd_error_message());
        ++*bad;
    }
    hd_error_clear();
    return true;
}

static void call_every_wrong_way(int k, const char *where, int *bad) {
    const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
    for (int i = 0; i < PARAMETERS_MOST && entries[k].parameters[i].kind != NO_PARAMETER; ++i)
        for (int which = 0; call_wrongly(k, i, which, where, bad); ++which) {}
    if (hd_live_objects() == objects && hd_memory().live_bytes == bytes) return;
    print_error("%s left %lld objects behind%s\n", entries[k].name, (long long)(hd_live_objects() - objects), where);
    ++*bad;
}

static void wrong_arguments_are_named_errors(void **state) {
    (void)state;
    int bad = 0;
    for (int k = 0; k < ENTRIES; ++k) {
        if (!when_compiled((uint64_t)k, 11)) continue;
        HD_SCOPE;
        hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *loss = hd_mul(x, x);
        const int64_t length = hd_tape_length();
        call_every_wrong_way(k, "", &bad);
        assert_int_equal(hd_tape_length(), length);
        hd_backward(loss);
        assert_values(hd_grad(x), HD_F32, 6);
        hd_clear_tape();
    }
    if (bad > 0) fail_msg("%d calls", bad);
}

static void a_builder_survives_them(void **state) {
    (void)state;
    int bad = 0;
    for (int k = 0; k < ENTRIES; ++k) {
        if (!when_compiled((uint64_t)k, 11)) continue;
        HD_SCOPE;
        recording = true;
        hd_builder *b = started("survivor");
        hd_tensor *x = hd_input("x", HD_SHAPE(2), HD_F32);
        for (int i = 0; i < PARAMETERS_MOST && entries[k].parameters[i].kind != NO_PARAMETER; ++i)
            for (int which = 0; call_wrongly(k, i, which, " in a builder", &bad); ++which) {}
        recording = false;
        hd_builder_add_output(b, "y", hd_neg(x));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, HD_O0);
        hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(2), 1, 2));
        hd_tensor *y = output(s, "y");
        if (y != NULL)
            assert_values(y, HD_F32, -1, -2);
        else if (strstr(hd_error_message(), "(in node") == NULL && hd_error_code() != HD_ERROR_MEMORY)
            /* neither what it found in the values of a wrong call, nor that it is too large */
            fail_msg("after %s: %s", entries[k].name, hd_error_message());
        hd_error_clear();
    }
    if (bad > 0) fail_msg("%d calls", bad);
}

RUN(test(every_op_has_a_call_that_goes_well), test(wrong_arguments_are_named_errors), test(a_builder_survives_them))
