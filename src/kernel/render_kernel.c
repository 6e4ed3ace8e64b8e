/* Kernels as C text. What a kernel leaves open is decided by one of four forms:
 *
 *   PLAIN   nothing is walked: loops over the kept axes, the innermost vectorised
 *   ROWS    the lanes lie along the last reduced axis: it is walked in strips of LANES points, and every reduction has
 *           an accumulator p[j] for each of them; f32 sums go on in f64 after every block of 4096 points
 *   STRIPS  the lanes lie along the last kept axis: a strip of its points is computed at once, as arrays over j; f32
 *           sums go on in f64 after some points of the last reduced axis, as in the device's own kernels. Random draws
 *           of a strip are made together
 *   POINTS  reductions over no axis at all: one point after the other
 *
 * Steps are values v0, v1, ...; t is the total of a reduction, p its part within a block. */
#include "kernel/render_text.h"

#include <string.h>

/* A function of numbers that are known (hd_render_kernel_plain) has them as names, walks with int32_t, and has no
 * pragmas: it is for any compiler of C99. */
static const char *position_type(const hd_writer *w) { return w->known != NULL ? "int32_t" : "int64_t"; }
static void say_simd(hd_writer *w) {
    if (w->known == NULL) hd_say(w, "%*s#pragma omp simd\n", w->indent * 4, "");
}
/* A position that perhaps nothing asks for. */
static void say_position(hd_writer *w, int axis, char from) {
    hd_say(w, "%*sconst %s i%d = %c%d + j;\n", w->indent * 4, "", position_type(w), axis, from, axis);
    if (w->known != NULL) hd_say(w, "%*s(void)i%d;\n", w->indent * 4, "", axis);
}

/* kernel_c.h, small_float.h and draw_c.h, embedded by the build */
extern const unsigned char hd_kernel_text[], hd_small_text[], hd_draw_text[];
extern const size_t hd_kernel_text_size, hd_small_text_size, hd_draw_text_size;

/* ---- what there is ----------------------------------------------------------------------------------------------- */
static const char *type_of(int type) { return hd_ir_type_name(type); }

static bool varies(const hd_writer *w, int i) { /* between lanes */
    const hd_step *s = &w->k->steps[i];
    if (s->word == HD_STEP_STORE && w->k->buffers[s->index].stride[w->k->schedule.lanes] != HD_STRIDE_ZERO) return true;
    return (s->over >> w->k->schedule.lanes & 1) != 0;
}

/* A draw of neighbours along the lanes: a strip of them is an array, filled before the lanes are walked. */
static bool is_strip_drawn(const hd_writer *w, int i) {
    const hd_step *s = &w->k->steps[i];
    return w->known == NULL && w->k->schedule.form == HD_SCHEDULE_STRIPS && s->word == HD_STEP_DRAW &&
           hd_drawn_axis(s->index) == w->k->schedule.lanes && s->depth >= w->k->kept && !varies(w, s->operand[0]);
}

static bool walk_reduces(const hd_writer *w, int walk, bool only_wide) {
    for (int i = 0; i < w->k->count; ++i)
        if (hd_is_reduction_of(w->k, i, walk) && (!only_wide || hd_step_is_wide(&w->k->steps[i]))) return true;
    return false;
}

/* Where a value is computed, or used: inside the reduced axes by depth, among the kept ones by stage. */
static int region_of(const hd_kernel *k, const hd_step *s) {
    if (s->word == HD_STEP_REDUCE) return k->axes;
    if (s->depth > k->kept) return s->depth;
    return 100 + (s->word == HD_STEP_STORE ? k->stages : s->stage);
}

static void choose_arrays(hd_writer *w) {
    const hd_kernel *k = w->k;
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        w->array[i] = (s->word == HD_STEP_REDUCE && varies(w, i)) || is_strip_drawn(w, i);
        for (int j = 0; j < 3; ++j) {
            const int o = s->operand[j];
            if (o >= 0 && varies(w, o) && region_of(k, &k->steps[o]) != region_of(k, s)) w->array[o] = 1;
        }
    }
}

/* ---- statements -------------------------------------------------------------------------------------------------- */
/* slot0[i1 * n2 + i2] */
static void say_slot(hd_writer *w, const hd_step *s) {
    hd_say(w, "slot%d[", s->slot - 1);
    for (int a = w->k->kept; a < s->depth; ++a) {
        hd_say(w, "%si%d", a > w->k->kept ? " + " : "", a);
        for (int b = a + 1; b < s->depth; ++b) hd_say(w, " * n%d", b);
    }
    hd_say(w, "]");
}

static void write_step(hd_writer *w, int i, int walk) {
    const hd_step *s = &w->k->steps[i];
    hd_say(w, "%*s", w->indent * 4, "");
    if (w->array[i])
        hd_say(w, "v%d[j] = ", i);
    else
        hd_say(w, "const c_%s v%d = ", type_of(s->type), i);
    if (s->slot && s->depth > w->k->kept && s->stage < walk)
        say_slot(w, s);
    else
        hd_say_step(w, s);
    hd_say(w, ";\n");
    if (s->slot && s->stage == walk) {
        hd_say(w, "%*s", w->indent * 4, "");
        say_slot(w, s);
        hd_say(w, " = v%d;\n", i);
    }
}

/* p7[j] = w_add_f32(p7[j], v6); or straight into the total, where there are no parts */
static void write_accumulate(hd_writer *w, int i) {
    const hd_step *s = &w->k->steps[i];
    const bool part =
        w->k->schedule.form == HD_SCHEDULE_ROWS || (w->k->schedule.form == HD_SCHEDULE_STRIPS && hd_step_is_wide(s));
    const char *lane =
        w->k->schedule.form == HD_SCHEDULE_ROWS || (w->k->schedule.form == HD_SCHEDULE_STRIPS && varies(w, i)) ? "[j]"
                                                                                                               : "";
    const char *type = type_of(!part && hd_step_is_wide(s) ? (int)HD_COMPUTE_F64 : s->type),
               *word = hd_fold_words[s->index];
    const char name = part ? 'p' : 't';
    hd_say(w, "%*s%c%d%s = w_%s_%s(%c%d%s, ", w->indent * 4, "", name, i, lane, word, type, name, i, lane);
    hd_say_value(w, s->operand[0]);
    hd_say(w, ");\n");
}

/* ---- regions ----------------------------------------------------------------------------------------------------- */
typedef struct region {
    int depth;
    int stage; /* of the kept axes' steps, or the walk */
    bool walk, stores;
} region;

static bool belongs(const hd_writer *w, const region *r, int i) { /* a step that gives a value */
    const hd_step *s = &w->k->steps[i];
    if (s->word == HD_STEP_STORE || s->word == HD_STEP_REDUCE || s->word == HD_WORD_CONSTANT) return false;
    if (s->depth != r->depth || (s->depth > w->k->kept) != r->walk) return false;
    return r->walk ? w->needed[i] : s->stage == r->stage;
}

static bool stores_here(const hd_writer *w, const region *r, int i) {
    const hd_step *s = &w->k->steps[i];
    if (!r->stores || s->word != HD_STEP_STORE) return false;
    return r->walk ? s->depth > w->k->kept && s->stage == r->stage : s->depth <= w->k->kept;
}

static bool accumulates_here(const hd_writer *w, const region *r, int i) {
    return r->walk && r->stores && hd_is_reduction_of(w->k, i, r->stage);
}

/* Values first, then reductions, then stores: an output may be the same memory as an input. `which`: 0: what all lanes
 * share, 1: what differs, -1: both. */
static void write_part(hd_writer *w, const region *r, int which) {
    const hd_kernel *k = w->k;
    for (int pass = 0; pass < 3; ++pass)
        for (int i = 0; i < k->count; ++i) {
            if (which >= 0 && varies(w, i) != (which == 1)) continue;
            if (is_strip_drawn(w, i)) continue; /* write_region */
            if (pass == 0 && belongs(w, r, i))
                write_step(w, i, r->walk ? r->stage : -1);
            else if (pass == 1 && accumulates_here(w, r, i))
                write_accumulate(w, i);
            else if (pass == 2 && stores_here(w, r, i)) {
                hd_say(w, "%*s", w->indent * 4, "");
                hd_say_store(w, &k->steps[i]);
            }
        }
}

static void open_lanes(hd_writer *w, const char *count) {
    say_simd(w);
    OPEN("for (int j = 0; j < %s; ++j) {", count);
}

/* c_u32 v7[LANES]; w_draws_u32(v7, m, v3 + o1 + b1, v0, v1); */
static void write_strip_drawn(hd_writer *w, int i) {
    const hd_step *s = &w->k->steps[i];
    const char *type = type_of(s->type);
    const int axis = w->k->schedule.lanes;
    LINE("c_%s v%d[LANES];", type, i);
    hd_say(w, "%*sw_draws_%s(v%d, m, ", w->indent * 4, "", type, i);
    hd_say_value(w, s->operand[0]);
    hd_say(w, " + o%d + b%d, v%d, v%d);\n", axis, axis, s->operand[1], s->operand[2]);
}

static void write_region(hd_writer *w, region r) {
    const hd_kernel *k = w->k;
    if (w->k->schedule.form != HD_SCHEDULE_STRIPS || r.depth < k->kept) {
        write_part(w, &r, -1);
        return;
    }
    write_part(w, &r, 0);
    for (int i = 0; i < k->count; ++i)
        if (is_strip_drawn(w, i) && belongs(w, &r, i)) write_strip_drawn(w, i);
    bool any = false;
    for (int i = 0; i < k->count; ++i) {
        if (!varies(w, i)) continue;
        const bool value = belongs(w, &r, i) && !is_strip_drawn(w, i);
        any = any || value || stores_here(w, &r, i) || accumulates_here(w, &r, i);
        if (value && w->array[i]) LINE("c_%s v%d[LANES];", type_of(k->steps[i].type), i);
    }
    if (!any) return;
    open_lanes(w, "m");
    say_position(w, k->schedule.lanes, 'b');
    write_part(w, &r, 1);
    CLOSE();
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */
/* `name` t or p; `count` NULL: one value, else an array of which so many are set. */
static void write_initial(hd_writer *w, int i, char name, const char *type, const char *count) {
    const hd_step *s = &w->k->steps[i];
    if (count == NULL) {
        hd_say(w, "%*sc_%s %c%d = ", w->indent * 4, "", type, name, i);
    } else {
        LINE("c_%s %c%d[LANES];", type, name, i);
        hd_say(w, "%*sfor (int j = 0; j < %s; ++j) %c%d[j] = ", w->indent * 4, "", count, name, i);
    }
    hd_say_identity(w, s);
    hd_say(w, ";\n");
}

static const char *total_type(const hd_step *s) { return hd_step_is_wide(s) ? "f64" : type_of(s->type); }

/* ROWS, the last axis: in strips of LANES, and in blocks of strips. */
static void write_row(hd_writer *w, int walk) {
    const hd_kernel *k = w->k;
    const int a = k->axes - 1;
    const region inside = {.depth = k->axes, .stage = walk, .walk = true, .stores = true};
    if (!walk_reduces(w, walk, false)) {
        say_simd(w);
        OPEN("for (%s i%d = 0; i%d < n%d; ++i%d) {", position_type(w), a, a, a, a);
        write_region(w, inside);
        CLOSE();
        return;
    }
    OPEN("for (%s b%d = 0; b%d < n%d; b%d += %d) {", position_type(w), a, a, a, a, k->schedule.sum_points);
    LINE("const %s e%d = w_least(b%d + %d, n%d);", position_type(w), a, a, k->schedule.sum_points, a);
    LINE("const int lanes = (int)w_least(e%d - b%d, LANES);", a, a);
    for (int i = 0; i < k->count; ++i)
        if (hd_is_reduction_of(w->k, i, walk)) write_initial(w, i, 'p', type_of(k->steps[i].type), "lanes");
    OPEN("for (%s c%d = b%d; c%d < e%d; c%d += LANES) {", position_type(w), a, a, a, a, a);
    LINE("const int m = (int)w_least(e%d - c%d, LANES);", a, a);
    open_lanes(w, "m");
    say_position(w, a, 'c');
    write_region(w, inside);
    CLOSE();
    CLOSE();
    for (int i = 0; i < k->count; ++i)
        if (hd_is_reduction_of(w->k, i, walk)) {
            const hd_step *s = &k->steps[i];
            const char *word = hd_fold_words[s->index];
            LINE("t%d = w_%s_%s(t%d, w_fold_%s_%s(p%d, lanes));", i, word, total_type(s), i, word, type_of(s->type), i);
        }
    CLOSE();
}

/* STRIPS: the parts of a block are added to the totals. */
static void write_parts_added(hd_writer *w, int walk) {
    for (int i = 0; i < w->k->count; ++i) {
        const hd_step *s = &w->k->steps[i];
        if (!hd_is_reduction_of(w->k, i, walk) || !hd_step_is_wide(s)) continue;
        const char *word = hd_fold_words[s->index];
        if (varies(w, i))
            LINE("for (int j = 0; j < m; ++j) t%d[j] = w_%s_f64(t%d[j], p%d[j]);", i, word, i, i);
        else
            LINE("t%d = w_%s_f64(t%d, p%d);", i, word, i, i);
    }
}

/* STRIPS, the last axis: in blocks of rows when f32 sums are to go on in f64. */
static void write_rows(hd_writer *w, int walk) {
    const hd_kernel *k = w->k;
    const int a = k->axes - 1;
    const bool blocks = walk_reduces(w, walk, true);
    if (blocks) {
        OPEN("for (%s b%d = 0; b%d < n%d; b%d += %d) {", position_type(w), a, a, a, a, k->schedule.sum_rows);
        LINE("const %s e%d = w_least(b%d + %d, n%d);", position_type(w), a, a, k->schedule.sum_rows, a);
        for (int i = 0; i < k->count; ++i)
            if (hd_is_reduction_of(w->k, i, walk) && hd_step_is_wide(&k->steps[i]))
                write_initial(w, i, 'p', "f32", varies(w, i) ? "m" : NULL);
        OPEN("for (%s i%d = b%d; i%d < e%d; ++i%d) {", position_type(w), a, a, a, a, a);
    } else {
        OPEN("for (%s i%d = 0; i%d < n%d; ++i%d) {", position_type(w), a, a, a, a);
    }
    write_region(w, (region){.depth = k->axes, .stage = walk, .walk = true, .stores = true});
    CLOSE();
    if (!blocks) return;
    write_parts_added(w, walk);
    CLOSE();
}

static void write_reduced_axes(hd_writer *w, int walk) {
    const hd_kernel *k = w->k;
    if (w->k->schedule.form == HD_SCHEDULE_POINTS) {
        write_region(w, (region){.depth = k->axes, .stage = walk, .walk = true, .stores = true});
        return;
    }
    int a = k->kept;
    for (; a < k->axes - 1; ++a) {
        OPEN("for (%s i%d = 0; i%d < n%d; ++i%d) {", position_type(w), a, a, a, a);
        write_region(w, (region){.depth = a + 1, .stage = walk, .walk = true});
    }
    if (w->k->schedule.form == HD_SCHEDULE_ROWS)
        write_row(w, walk);
    else
        write_rows(w, walk);
    while (a-- > k->kept) CLOSE();
}

/* c_f32 v7 = t7; of arrays: for every lane */
static void write_result(hd_writer *w, int i) {
    const char *type = type_of(w->k->steps[i].type);
    if (!w->array[i]) {
        LINE("const c_%s v%d = (c_%s)t%d;", type, i, type, i);
        return;
    }
    LINE("c_%s v%d[LANES];", type, i);
    LINE("for (int j = 0; j < m; ++j) v%d[j] = (c_%s)t%d[j];", i, type, i);
}

static void write_walk(hd_writer *w, int walk) {
    const hd_kernel *k = w->k;
    hd_choose_needed(w, walk);
    for (int i = 0; i < k->count; ++i)
        if (hd_is_reduction_of(w->k, i, walk))
            write_initial(w, i, 't', total_type(&k->steps[i]),
                          w->k->schedule.form == HD_SCHEDULE_STRIPS && varies(w, i) ? "m" : NULL);
    write_reduced_axes(w, walk);
    for (int i = 0; i < k->count; ++i)
        if (hd_is_reduction_of(w->k, i, walk)) write_result(w, i);
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
static void open_kept_axis(hd_writer *w, int a) {
    if (w->k->schedule.form == HD_SCHEDULE_STRIPS && a == w->k->schedule.lanes) {
        OPEN("for (%s b%d = 0; b%d < n%d; b%d += LANES) {", position_type(w), a, a, a, a);
        LINE("const int m = (int)w_least(n%d - b%d, LANES);", a, a);
        return;
    }
    if (w->k->schedule.form == HD_SCHEDULE_PLAIN && a == w->k->kept - 1) say_simd(w);
    OPEN("for (%s i%d = 0; i%d < n%d; ++i%d) {", position_type(w), a, a, a, a);
}

static void write_loops(hd_writer *w) {
    const hd_kernel *k = w->k;
    for (int a = 0; a < k->kept; ++a) {
        write_region(w, (region){.depth = a});
        open_kept_axis(w, a);
    }
    for (int stage = 0; stage <= k->stages; ++stage) {
        write_region(w, (region){.depth = k->kept, .stage = stage, .stores = stage == k->stages});
        if (stage < k->stages) write_walk(w, stage);
    }
    for (int a = 0; a < k->kept; ++a) CLOSE();
}

static void write_buffers(hd_writer *w) {
    const hd_kernel *k = w->k;
    for (int b = 0; b < k->buffer_count; ++b) {
        const hd_kernel_buffer *buffer = &k->buffers[b];
        const char *constant = buffer->written ? "" : "const ", *small = hd_small_name(buffer->dtype);
        const char *name = hd_memory_type(buffer->dtype);
        LINE("%sc_%s *const %s%d = (%sc_%s *)buffers[%d];%s%s%s", constant, name, buffer->written ? "out" : "in", b,
             constant, name, b, small ? " /* " : "", small ? small : "", small ? " */" : "");
        for (int a = 0; a < k->axes; ++a)
            if (buffer->stride[a] == HD_STRIDE_ANY)
                LINE("const int64_t s%d_%d = geometry[%d];", b, a, hd_geometry_stride(k, b, a));
    }
}

static void write_geometry(hd_writer *w) {
    const hd_kernel *k = w->k;
    const uint32_t origins = hd_kernel_origins(k);
    for (int a = 0; a < k->axes; ++a) LINE("const int64_t n%d = geometry[%d];", a, a);
    for (int a = 0; a < k->axes; ++a)
        if (origins >> a & 1) LINE("const int64_t o%d = geometry[%d];", a, hd_geometry_base(k, a));
    for (int a = 0; a < k->kept; ++a) LINE("if (n%d == 0) return;", a);
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].slot) {
            const char *type = type_of(k->steps[i].type);
            const int slot = k->steps[i].slot - 1;
            LINE("c_%s *const slot%d = (c_%s *)(scratch + %d * geometry[%d]);", type, slot, type, slot,
                 hd_geometry_slot(k));
        }
}

static void write_function(hd_writer *w, const char *name) {
    LINE("void %s(char *const *buffers, const int64_t *geometry, const uint64_t *numbers, char *scratch) {", name);
    w->indent++;
    write_geometry(w);
    write_buffers(w);
    if (w->k->schedule.form == HD_SCHEDULE_STRIPS) choose_arrays(w);
    write_loops(w);
    CLOSE();
}

/* ---- the function of numbers that are known ---------------------------------------------------------------------- */
/* enum { n0 = 4, n1 = 128, s0_0 = 128 }; */
static void write_known(hd_writer *w) {
    const hd_kernel *k = w->k;
    const int64_t *geometry = w->known->geometry;
    const uint32_t origins = hd_kernel_origins(k);
    const char *between = "enum { ";
    hd_say(w, "    ");
    for (int a = 0; a < k->axes; ++a) {
        hd_say(w, "%sn%d = %lld", between, a, (long long)geometry[a]);
        if (origins >> a & 1) hd_say(w, ", o%d = %lld", a, (long long)geometry[hd_geometry_base(k, a)]);
        between = ", ";
    }
    for (int b = 0; b < k->buffer_count; ++b)
        for (int a = 0; a < k->axes; ++a) {
            if (k->buffers[b].stride[a] != HD_STRIDE_ANY) continue;
            hd_say(w, "%ss%d_%d = %lld", between, b, a, (long long)geometry[hd_geometry_stride(k, b, a)]);
            between = ", ";
        }
    hd_say(w, between[0] == ',' ? " };\n" : "\n");
}

static void write_parameters(hd_writer *w) {
    const hd_kernel *k = w->k;
    const char *between = "";
    for (int b = 0; b < k->buffer_count; ++b, between = ", ")
        hd_say(w, "%s%sc_%s *%s%d", between, k->buffers[b].written ? "" : "const ", hd_memory_type(k->buffers[b].dtype),
               k->buffers[b].written ? "out" : "in", b);
    for (int m = 0; m < k->number_count; ++m)
        if (w->known->is_given[m]) hd_say(w, ", uint64_t m%d", m);
}

size_t hd_render_kernel_plain(const hd_kernel *k, const hd_known *known, const char *name, char *out, size_t capacity) {
    hd_writer w_of, *w = &w_of;
    if (hd_writer_start(w, k, out, capacity) != HD_OK) return 0;
    w->known = known;
    hd_say(w, "static void %s(", name);
    write_parameters(w);
    hd_say(w, ") {\n");
    w->indent++;
    if (k->axes > 0) write_known(w);
    if (k->schedule.form == HD_SCHEDULE_STRIPS) choose_arrays(w);
    write_loops(w);
    CLOSE();
    hd_writer_end(w);
    return w->at;
}

size_t hd_render_kernel_function(const hd_kernel *k, const char *name, char *out, size_t capacity) {
    hd_writer w;
    if (hd_writer_start(&w, k, out, capacity) != HD_OK) return 0;
    write_function(&w, name);
    hd_writer_end(&w);
    return w.at;
}

/* ---- the preamble ------------------------------------------------------------------------------------------------ */
static bool uses_functions(const hd_kernel *k, hd_compute type) {
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].type == type && (k->steps[i].word == HD_STEP_DRAW || /* normal numbers */
                                         (k->steps[i].word < HD_WORD_INPUT && hd_words[k->steps[i].word].is_function)))
            return true;
    return false;
}

static void write_folds(hd_writer *w) {
    const hd_kernel *k = w->k;
    for (int how = 0; how < 4; ++how)
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type) {
            bool used = false;
            for (int i = 0; i < k->count; ++i)
                used = used ||
                       (k->steps[i].word == HD_STEP_REDUCE && k->steps[i].index == how && k->steps[i].type == type);
            if (used) LINE("W_FOLD(%s, %s)", hd_fold_words[how], type_of(type));
        }
}

static bool write_preamble(hd_writer *w) {
    w->at +=
        hd_render_preamble(w->at < w->capacity ? w->out + w->at : NULL, w->at < w->capacity ? w->capacity - w->at : 0);
    if (hd_kernel_uses_small_floats(w->k)) hd_say_bytes(w, hd_small_text, hd_small_text_size);
    hd_say_bytes(w, hd_kernel_text, hd_kernel_text_size);
    for (int t = 0; t < 2; ++t) {
        const hd_compute type = t ? HD_COMPUTE_F64 : HD_COMPUTE_F32;
        if (!uses_functions(w->k, type)) continue;
        const size_t length = hd_render_programs(type, w->at < w->capacity ? w->out + w->at : NULL,
                                                 w->at < w->capacity ? w->capacity - w->at : 0);
        if (length == 0) return false; /* no memory */
        w->at += length;
    }
    bool draws = false;
    for (int i = 0; i < w->k->count; ++i) {
        const hd_step *s = &w->k->steps[i];
        draws = draws || s->word == HD_STEP_DRAW;
        if (s->word != HD_STEP_DRAW || s->type < HD_COMPUTE_F32) continue;
        LINE("#undef DRAW_F%d", s->type == HD_COMPUTE_F32 ? 32 : 64);
        LINE("#define DRAW_F%d", s->type == HD_COMPUTE_F32 ? 32 : 64);
    }
    if (draws) hd_say_bytes(w, hd_draw_text, hd_draw_text_size);
    if (w->k->schedule.form == HD_SCHEDULE_ROWS) write_folds(w);
    hd_say(w, "\n");
    return true;
}

size_t hd_render_kernel_c(const hd_kernel *k, const char *name, char *out, size_t capacity) {
    hd_writer w;
    if (hd_writer_start(&w, k, out, capacity) != HD_OK) return 0;
    const bool complete = write_preamble(&w);
    if (complete) write_function(&w, name);
    hd_writer_end(&w);
    return complete ? w.at : 0;
}
