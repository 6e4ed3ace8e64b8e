/* Kernels as the text of GPUs. A function runs for one thread. In form EACH that has a point of the kept axes, or a
 * few neighbours, and walks the reduced axes alone; in form GROUP all threads of a group have one point, or several
 * neighbours that stand side by side in it, walk with the step of those that share a point, and fold what they have, in
 * local memory or by exchanges, as a fixed tree: the same bits in every run.
 * Barriers stand in uniform control flow only. A walk that is cut into pieces is two functions: the first leaves
 * parts in memory, the second folds them in order.  Steps are values v0, v1, ...; i0, i1, ... are positions; t is
 * the total of a reduction and p its part within a block of points, after which sums of f32 go on in f64; a is what
 * a launch passes. */
#include "core/memory.h"
#include "kernel/gpu.h"
#include "kernel/gpu_words.h"
#include "kernel/render_text.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 16 }; /* points of one thread whose sum is in f32: as exact as on the CPU */

/* Which of its functions is written. */
typedef enum entry { WHOLE, PARTS, JOIN } entry;
typedef struct gpu_writer {
    hd_writer *w;
    const hd_grid *g;
    const char *name, *index; /* the type of positions */
    entry entry;
    int walk;      /* the one that is being written */
    uint8_t *held; /* of each step: 1 + the walk that computes it; later ones find it in registers */
} gpu_writer;

static const char *type_of(int type) { return hd_ir_type_name(type); }
static const char *total_type(const gpu_writer *x, const hd_step *s) {
    return x->g->wide_sums && hd_step_is_wide(s) ? "f64" : type_of(s->type);
}
static bool is_cut(const gpu_writer *x) { return x->entry == PARTS; }
static bool in_group(const gpu_writer *x) { return x->g->form == HD_GRID_GROUP && x->entry != JOIN; }
static bool is_across(const gpu_writer *x) { return in_group(x) && x->g->across > 1; }
/* The threads that have results. */
static const char *first_lanes(const gpu_writer *x) { return is_across(x) ? "walker == 0 && inside" : "lane == 0"; }

/* ---- the head ---------------------------------------------------------------------------------------------------- */
/* See hd_grid_arguments. */
static void write_arguments(const gpu_writer *x) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    int words = 4;
    OPEN("typedef struct %s_arguments {", x->name);
    for (int b = 0; b < k->buffer_count + x->g->in_pieces; ++b) LINE("int64_t offset%d;", b);
    for (int i = 0; i < k->number_count; ++i) LINE("uint64_t m%d;", i);
    for (int a = 0; a < k->axes; ++a) LINE("int64_t o%d;", a);
    for (int a = 0; a < k->axes; ++a, ++words) LINE("%s n%d;", x->index, a);
    for (int b = 0; b < k->buffer_count; ++b)
        for (int a = 0; a < k->axes; ++a)
            if (k->buffers[b].stride[a] == HD_STRIDE_ANY) {
                LINE("%s s%d_%d;", x->index, b, a);
                words++;
            }
    LINE("%s points, reduced, piece, pieces;", x->index);
    if (x->g->narrow && words % 2 != 0) LINE("int32_t unused;");
    w->indent--;
    LINE("} %s_arguments;", x->name);
}

/* Where buffers are, and what the arguments say of axes. */
static void write_addresses(const gpu_writer *x) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    for (int b = 0; b < k->buffer_count; ++b) {
        const hd_kernel_buffer *buffer = &k->buffers[b];
        const char *constant = buffer->written ? "" : "const ", *type = hd_memory_type(buffer->dtype);
        if (w->tile != NULL && b == w->tile_buffer) continue;
        LINE("W_GLOBAL %sc_%s *const %s%d = (W_GLOBAL %sc_%s *)(b%d + %s.offset%d);", constant, type,
             buffer->written ? "out" : "in", b, constant, type, b, w->packed, b);
        for (int i = 0; i < k->axes; ++i)
            if (buffer->stride[i] == HD_STRIDE_ANY)
                LINE("const %s s%d_%d = %s.s%d_%d;", x->index, b, i, w->packed, b, i);
    }
    for (int a = 0; a < k->axes; ++a) LINE("const %s n%d = %s.n%d;", x->index, a, w->packed, a);
    const uint32_t origins = hd_kernel_origins(k);
    for (int a = 0; a < k->axes; ++a)
        if (origins >> a & 1) LINE("const int64_t o%d = %s.o%d;", a, w->packed, a);
}

static void write_head(const gpu_writer *x) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    static const char *const endings[] = {"", "_parts", "_join"};
    hd_say(w, "W_KERNEL_AT_MOST(%d) void %s%s(", x->g->threads, x->name, endings[x->entry]);
    const int buffers = k->buffer_count + x->g->in_pieces;
    for (int b = 0; b < buffers; ++b) hd_say(w, "W_GLOBAL char *b%d W_SLOT(%d), ", b, b);
    hd_say(w, "W_ARGUMENTS(%s_arguments, a, %d) W_IDS) {\n", x->name, buffers);
    w->indent++;
    write_addresses(x);
    if (x->g->in_pieces) LINE("W_GLOBAL char *const parts = b%d + a.offset%d;", k->buffer_count, k->buffer_count);
}

/* From a number to positions: the last axis runs quickest. */
static void write_positions(const gpu_writer *x, const char *number, int first, int end, int per) {
    hd_writer *w = x->w;
    if (end - first == 1 && per == 1) {
        LINE("const %s i%d = %s;", x->index, first, number);
        return;
    }
    if (first == end) return;
    LINE("%s left%d = %s;", x->index, first, number);
    for (int a = end - 1; a >= first; --a) {
        const bool wide = per > 1 && a == end - 1;
        const char *name = wide ? "base" : "i";
        if (a == first && !wide) {
            LINE("const %s i%d = left%d;", x->index, a, first);
        } else if (a == first) {
            LINE("const %s %s%d = left%d * %d;", x->index, name, a, first, per);
        } else if (wide) {
            LINE("const %s %s%d = left%d %% (n%d / %d) * %d;", x->index, name, a, first, a, per, per);
            LINE("left%d /= n%d / %d;", first, a, per);
        } else {
            LINE("const %s i%d = left%d %% n%d;", x->index, a, first, a);
            LINE("left%d /= n%d;", first, a);
        }
    }
}

static void write_point(const gpu_writer *x) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    if (is_across(x)) {
        LINE("const int lane = W_THREAD, walker = lane / %d;", x->g->across);
        LINE("const %s wanted = (%s)W_GROUP(0) * %d + lane %% %d;", x->index, x->index, x->g->across, x->g->across);
        LINE("const bool inside = wanted < a.points;"); /* else it only takes part in barriers */
        LINE("const %s point = inside ? wanted : a.points - 1;", x->index);
    } else if (in_group(x)) {
        LINE("const int lane = W_THREAD;");
        LINE("const %s point = (%s)W_GROUP(0);", x->index, x->index);
    } else {
        LINE("const %s point = (%s)W_GROUP(0) * %d + W_THREAD;", x->index, x->index, x->g->threads);
        LINE("if (point >= a.points) return;");
    }
    write_positions(x, "point", 0, k->kept, x->g->per);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static bool gives_value(const hd_step *s) {
    return s->word != HD_STEP_STORE && s->word != HD_STEP_REDUCE && s->word != HD_WORD_CONSTANT;
}

static void write_value(const gpu_writer *x, int i) {
    hd_writer *w = x->w;
    const hd_step *s = &w->k->steps[i];
    const bool inside = s->depth > w->k->kept;
    hd_say(w, "%*sconst c_%s v%d = ", w->indent * 4, "", type_of(s->type), i);
    if (inside && x->held[i] > 0 && x->walk + 1 > x->held[i]) {
        hd_say(w, "h%d[h];\n", i);
        return;
    }
    hd_say_step(w, s);
    hd_say(w, ";");
    hd_say_line_end(w);
    if (inside && x->held[i] > 0) LINE("h%d[h] = v%d;", i, i);
}

/* Steps of the kept axes: of one stage, those of outer axes among them. */
static void write_kept(const gpu_writer *x, int stage) {
    for (int i = 0; i < x->w->k->count; ++i) {
        const hd_step *s = &x->w->k->steps[i];
        if (gives_value(s) && s->depth <= x->w->k->kept && s->stage == stage) write_value(x, i);
    }
}

static void write_stores(const gpu_writer *x, int depth_from, int depth_to, int stage) {
    hd_writer *w = x->w;
    for (int i = 0; i < w->k->count; ++i) {
        const hd_step *s = &w->k->steps[i];
        if (s->word != HD_STEP_STORE || s->depth < depth_from || s->depth > depth_to) continue;
        if (stage >= 0 && s->stage != stage) continue;
        hd_say(w, "%*s", w->indent * 4, "");
        hd_say_store(w, s);
    }
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */
static bool reduces(const gpu_writer *x) {
    for (int i = 0; i < x->w->k->count; ++i)
        if (hd_is_reduction_of(x->w->k, i, x->walk)) return true;
    return false;
}

/* What is done at a point of a walk: values first, then reductions, then stores, as an output may be an input's
 * memory. */
static void write_inside(const gpu_writer *x) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    write_positions(x, "r", k->kept, k->axes, 1);
    for (int i = 0; i < k->count; ++i)
        if (gives_value(&k->steps[i]) && k->steps[i].depth > k->kept && w->needed[i]) write_value(x, i);
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (!hd_is_reduction_of(k, i, x->walk)) continue;
        hd_say(w, "%*sp%d = w_%s_%s(p%d, ", w->indent * 4, "", i, hd_fold_words[s->index], type_of(s->type), i);
        hd_say_value(w, s->operand[0]);
        hd_say(w, ");\n");
    }
    write_stores(x, k->kept + 1, k->axes, x->walk);
}

static void write_initial(const gpu_writer *x, char name) {
    hd_writer *w = x->w;
    for (int i = 0; i < w->k->count; ++i) {
        const hd_step *s = &w->k->steps[i];
        if (!hd_is_reduction_of(w->k, i, x->walk)) continue;
        hd_say(w, "%*sc_%s %c%d = ", w->indent * 4, "", name == 't' ? total_type(x, s) : type_of(s->type), name, i);
        hd_say_identity(w, s);
        hd_say(w, ";\n");
    }
}

static void write_parts_folded(const gpu_writer *x) {
    hd_writer *w = x->w;
    for (int i = 0; i < w->k->count; ++i) {
        const hd_step *s = &w->k->steps[i];
        if (hd_is_reduction_of(w->k, i, x->walk))
            LINE("t%d = w_%s_%s(t%d, p%d);", i, hd_fold_words[s->index], total_type(x, s), i, i);
    }
}

/* The loop over the points that are this thread's. */
static void write_loop(const gpu_writer *x) {
    hd_writer *w = x->w;
    const int step = in_group(x) ? x->g->threads / x->g->across : 1;
    const char *end = is_cut(x) ? "end" : "a.reduced", *lane = is_across(x) ? "walker" : "lane";
    if (x->g->held > 0) {
        write_initial(x, 'p');
        LINE("W_ALL_ROUNDS");
        OPEN("for (int h = 0; h < %d; ++h) {", x->g->held);
        LINE("const %s r = lane + h * %d;", x->index, step);
        OPEN("if (r < a.reduced) {");
        write_inside(x);
        CLOSE();
        CLOSE();
        write_parts_folded(x);
        return;
    }
    char first[32], last[32];
    if (is_across(x)) {
        snprintf(last, sizeof last, "last%d", x->walk);
        LINE("const %s %s = inside ? %s : 0;", x->index, last, end);
        end = last;
    }
    snprintf(first, sizeof first, "%s%s%s",
             is_cut(x)     ? "begin"
             : in_group(x) ? ""
                           : "0",
             is_cut(x) && in_group(x) ? " + " : "", in_group(x) ? lane : "");
    if (!reduces(x)) {
        OPEN("for (%s r = %s; r < %s; r += %d) {", x->index, first, end, step);
        write_inside(x);
        CLOSE();
        return;
    }
    OPEN("for (%s from = %s; from < %s; from += %d) {", x->index, first, end, BLOCK * step);
    LINE("const %s to = %s - from < %d ? %s : from + %d;", x->index, end, BLOCK * step, end, BLOCK * step);
    write_initial(x, 'p');
    OPEN("for (%s r = from; r < to; r += %d) {", x->index, step);
    write_inside(x);
    CLOSE();
    write_parts_folded(x);
    CLOSE();
}

/* t7 of threads that exchange values, the same for all of them: the order of two values changes no sum. */
static void write_exchange(const gpu_writer *x, int i, int count) {
    hd_writer *w = x->w;
    const hd_step *s = &w->k->steps[i];
    OPEN("for (int bits = %d; bits > 0; bits /= 2) {", count / 2);
    LINE("t%d = w_%s_%s(t%d, w_exchange(t%d, bits));", i, hd_fold_words[s->index], total_type(x, s), i, i);
    CLOSE();
}

/* First among those that exchange, then among their results, which all of them read. */
static void write_group_exchange(const gpu_writer *x, int i) {
    hd_writer *w = x->w;
    const int together = x->g->shared, groups = x->g->threads / together;
    const char *type = total_type(x, &w->k->steps[i]);
    LINE("W_ALL_ROUNDS");
    write_exchange(x, i, together);
    LINE("if (lane %% %d == 0) fold_%s[lane / %d] = t%d;", together, type, together, i);
    LINE("W_BARRIER();");
    LINE("t%d = fold_%s[lane %% %d];", i, type, groups);
    LINE("W_ALL_ROUNDS");
    write_exchange(x, i, groups);
    LINE("W_BARRIER();");
}

/* t7 of the threads that walk the same point, in halves. */
static void write_group_fold(const gpu_writer *x, int i) {
    hd_writer *w = x->w;
    const hd_step *s = &w->k->steps[i];
    const char *type = total_type(x, s);
    if (x->g->shared > 0) {
        write_group_exchange(x, i);
        return;
    }
    LINE("fold_%s[lane] = t%d;", type, i);
    LINE("W_BARRIER();");
    OPEN("for (int span = %d; span >= %d; span /= 2) {", x->g->threads / 2, x->g->across);
    LINE("if (lane < span) fold_%s[lane] = w_%s_%s(fold_%s[lane], fold_%s[lane + span]);", type,
         hd_fold_words[s->index], type, type, type);
    LINE("W_BARRIER();");
    CLOSE();
    if (is_across(x))
        LINE("t%d = fold_%s[lane %% %d];", i, type, x->g->across);
    else
        LINE("t%d = fold_%s[0];", i, type);
    LINE("W_BARRIER();");
}

static int reductions_before(const hd_kernel *k, int i) {
    int count = 0;
    for (int j = 0; j < i; ++j) count += k->steps[j].word == HD_STEP_REDUCE;
    return count;
}

/* Where the part of a reduction is: [point][piece][reduction], 8 bytes each. */
static void say_part(const gpu_writer *x, int i, const char *piece) {
    const hd_kernel *k = x->w->k;
    hd_say(x->w, "*(W_GLOBAL c_%s *)(parts + (((int64_t)point * a.pieces + %s) * %d + %d) * 8)",
           total_type(x, &k->steps[i]), piece, reductions_before(k, k->count), reductions_before(k, i));
}

static void write_walk(gpu_writer *x, int walk) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    x->walk = walk;
    hd_choose_needed(w, walk);
    write_initial(x, 't');
    if (x->entry == JOIN) {
        OPEN("for (%s piece = 0; piece < a.pieces; ++piece) {", x->index);
        for (int i = 0; i < k->count; ++i) {
            if (!hd_is_reduction_of(k, i, walk)) continue;
            const char *type = total_type(x, &k->steps[i]);
            hd_say(w, "%*st%d = w_%s_%s(t%d, ", w->indent * 4, "", i, hd_fold_words[k->steps[i].index], type, i);
            say_part(x, i, "piece");
            hd_say(w, ");\n");
        }
        CLOSE();
    } else {
        write_loop(x);
    }
    for (int i = 0; i < k->count; ++i) {
        if (!hd_is_reduction_of(k, i, walk)) continue;
        if (in_group(x)) write_group_fold(x, i);
        if (x->entry != PARTS)
            LINE("const c_%s v%d = (c_%s)t%d;", type_of(k->steps[i].type), i, type_of(k->steps[i].type), i);
    }
}

static void write_parts_stored(const gpu_writer *x) {
    hd_writer *w = x->w;
    if (in_group(x)) OPEN("if (%s) {", first_lanes(x));
    for (int i = 0; i < w->k->count; ++i) {
        if (w->k->steps[i].word != HD_STEP_REDUCE) continue;
        hd_say(w, "%*s", w->indent * 4, "");
        say_part(x, i, "W_GROUP(1)");
        hd_say(w, " = t%d;\n", i);
    }
    if (in_group(x)) CLOSE();
}

/* ---- several neighbours at once ---------------------------------------------------------------------------------- */
static bool is_wide_load(const gpu_writer *x, int i) {
    const hd_kernel *k = x->w->k;
    const hd_step *s = &k->steps[i];
    return s->word == HD_STEP_LOAD && s->operand[0] < 0 && s->operand[1] < 0 &&
           k->buffers[s->index].stride[k->kept - 1] == HD_STRIDE_ONE;
}

/* typedef struct W_ALIGNED(16) name_w2 { c_f32 v[4]; } name_w2; for each buffer that is read or written so */
static void write_wide_types(const gpu_writer *x) {
    hd_writer *w = x->w;
    for (int b = 0; b < w->k->buffer_count && x->g->per > 1; ++b) {
        const hd_kernel_buffer *buffer = &w->k->buffers[b];
        if (buffer->stride[w->k->kept - 1] == HD_STRIDE_ONE)
            LINE("typedef struct W_ALIGNED(%d) %s_w%d { c_%s v[%d]; } %s_w%d;",
                 x->g->per * (int)hd_dtype_bytes[buffer->dtype], x->name, b, hd_memory_type(buffer->dtype), x->g->per,
                 x->name, b);
    }
}

static void say_wide(const gpu_writer *x, int b) {
    const bool written = x->w->k->buffers[b].written;
    hd_say(x->w, "*(W_GLOBAL %s%s_w%d *)&", written ? "" : "const ", x->name, b);
    hd_say_element(x->w, b, -1);
}

static void write_neighbours(const gpu_writer *x) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    const int last = k->kept - 1;
    OPEN("{");
    LINE("const %s i%d = base%d;", x->index, last, last);
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (is_wide_load(x, i)) {
            hd_say(w, "%*sconst %s_w%d x%d = ", w->indent * 4, "", x->name, s->index, i);
            say_wide(x, s->index);
            hd_say(w, ";\n");
        } else if (s->word == HD_STEP_STORE && k->buffers[s->index].stride[last] == HD_STRIDE_ONE) {
            LINE("%s_w%d y%d;", x->name, s->index, i);
        }
    }
    LINE("W_ALL_ROUNDS");
    OPEN("for (int j = 0; j < %d; ++j) {", x->g->per);
    LINE("const %s i%d = base%d + j;", x->index, last, last);
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (!gives_value(s)) continue;
        if (!is_wide_load(x, i)) {
            write_value(x, i);
            continue;
        }
        const char *small = hd_small_name(k->buffers[s->index].dtype);
        LINE("const c_%s v%d = %s%s%sx%d.v[j]%s;", type_of(s->type), i, small ? "hd_" : "", small ? small : "",
             small ? "_decode(" : "", i, small ? ")" : "");
    }
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word != HD_STEP_STORE) continue;
        if (k->buffers[s->index].stride[last] != HD_STRIDE_ONE) {
            hd_say(w, "%*s", w->indent * 4, "");
            hd_say_store(w, s);
            continue;
        }
        const char *small = hd_small_name(k->buffers[s->index].dtype);
        hd_say(w, "%*sy%d.v[j] = %s%s%s", w->indent * 4, "", i, small ? "hd_" : "", small ? small : "",
               small ? "_encode(" : "");
        hd_say_value(w, s->operand[0]);
        hd_say(w, "%s;\n", small ? ")" : "");
    }
    CLOSE();
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word != HD_STEP_STORE || k->buffers[s->index].stride[last] != HD_STRIDE_ONE) continue;
        hd_say(w, "%*s", w->indent * 4, "");
        say_wide(x, s->index);
        hd_say(w, " = y%d;\n", i);
    }
    CLOSE();
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
/* Loads and functions of one walk that later walks need again stay in registers. */
static void choose_held(gpu_writer *x) {
    const hd_kernel *k = x->w->k;
    memset(x->held, 0, (size_t)k->count);
    for (int walk = 0; walk < k->stages + 1 && x->g->held > 0; ++walk) {
        hd_choose_needed(x->w, walk);
        for (int i = 0; i < k->count; ++i) {
            const hd_step *s = &k->steps[i];
            const bool dear = s->word == HD_STEP_LOAD || s->word == HD_STEP_DRAW || hd_step_cost(s) >= 6;
            if (x->w->needed[i] && dear && gives_value(s) && s->depth > k->kept && x->held[i] == 0)
                x->held[i] = (uint8_t)(walk + 1);
        }
    }
}

static bool walks(const hd_kernel *k, int walk) { /* also one that only stores */
    for (int i = 0; i < k->count; ++i)
        if (hd_is_reduction_of(k, i, walk) ||
            (k->steps[i].word == HD_STEP_STORE && k->steps[i].depth > k->kept && k->steps[i].stage == walk))
            return true;
    return false;
}

static void write_local_memory(const gpu_writer *x) {
    hd_writer *w = x->w;
    for (int type = 0; type < HD_COMPUTE_COUNT; ++type) {
        bool used = false;
        for (int i = 0; i < w->k->count && !used; ++i)
            used = w->k->steps[i].word == HD_STEP_REDUCE && strcmp(total_type(x, &w->k->steps[i]), type_of(type)) == 0;
        if (used) LINE("W_LOCAL c_%s fold_%s[%d];", type_of(type), type_of(type), x->g->threads);
    }
}

static void write_function(gpu_writer *x, entry which) {
    hd_writer *w = x->w;
    const hd_kernel *k = w->k;
    x->entry = which;
    write_head(x);
    if (in_group(x)) write_local_memory(x);
    write_point(x);
    if (is_cut(x)) {
        LINE("const %s begin = (%s)W_GROUP(1) * a.piece;", x->index, x->index);
        LINE("const %s end = a.reduced - begin < a.piece ? a.reduced : begin + a.piece;", x->index);
    }
    for (int i = 0; i < k->count && which == WHOLE; ++i)
        if (x->held[i] > 0) LINE("c_%s h%d[%d];", type_of(k->steps[i].type), i, x->g->held);
    if (x->g->per > 1) {
        write_neighbours(x);
    } else {
        for (int stage = 0; stage <= k->stages; ++stage) {
            if (which == PARTS && stage > 0) break;
            write_kept(x, stage);
            if (walks(k, stage) && !(which == JOIN && stage > 0)) write_walk(x, stage);
        }
        if (which == PARTS) {
            write_parts_stored(x);
        } else {
            if (in_group(x)) OPEN("if (%s) {", first_lanes(x));
            write_stores(x, 0, k->kept, -1);
            if (in_group(x)) CLOSE();
        }
    }
    CLOSE();
}

static bool write_kernel(hd_writer *to, const hd_gpu_kernel *kernel) {
    hd_writer w;
    if (hd_writer_start(&w, kernel->kernel, to->out, to->capacity) != HD_OK) return false;
    w.at = to->at;
    w.packed = "a";
    gpu_writer x = {
        .w = &w, .g = &kernel->grid, .name = kernel->name, .index = kernel->grid.narrow ? "int32_t" : "int64_t"};
    x.held = hd_array_resize(NULL, (size_t)kernel->kernel->count + 1);
    if (x.held == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the text of a kernel");
    } else {
        choose_held(&x);
        write_arguments(&x);
        write_wide_types(&x);
        write_function(&x, kernel->grid.in_pieces ? PARTS : WHOLE);
        if (kernel->grid.in_pieces) write_function(&x, JOIN);
    }
    const bool ok = x.held != NULL;
    hd_array_release(x.held);
    hd_writer_end(&w);
    to->at = w.at;
    return ok;
}

bool hd_write_epilogue(hd_writer *to, const hd_fused_epilogue *e) {
    hd_writer head, *w = &head;
    if (hd_writer_start(w, e->kernel, to->out, to->capacity) != HD_OK) return false;
    const hd_grid grid = {.narrow = e->narrow, .per = 1};
    const gpu_writer x = {.w = w, .g = &grid, .name = "epilogue", .index = e->narrow ? "int32_t" : "int64_t"};
    const hd_kernel *k = e->kernel;
    w->at = to->at;
    w->packed = "a.e";
    w->tile = "total";
    w->tile_buffer = e->tile;
    write_arguments(&x);
    LINE("#define PRODUCT_FIELDS epilogue_arguments e;");
    LINE("#define PRODUCT_BUFFER_COUNT %d", 3 + k->buffer_count);
    w->in_macro = true;
    LINE("#define PRODUCT_BUFFERS");
    for (int b = 0; b < k->buffer_count; ++b) LINE("W_GLOBAL char *b%d W_SLOT(%d),", b, 3 + b);
    hd_say(w, "\n#define PRODUCT_ADDRESSES \\\n");
    write_addresses(&x);
    hd_say(w, "\n#define PRODUCT_STORE \\\n");
    write_positions(&x, "line", 0, e->rows + 1, 1);
    write_positions(&x, "place", e->rows + 1, k->axes, 1);
    write_kept(&x, 0);
    write_stores(&x, 0, k->kept, -1);
    hd_say(w, "\n");
    hd_writer_end(w);
    to->at = w->at;
    return true;
}

size_t hd_render_gpu(const hd_gpu_kernel *kernels, int count, hd_dialect dialect, bool has_f64, char *out,
                     size_t capacity) {
    hd_vocabulary *v = hd_array_resize(NULL, sizeof *v);
    if (v == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the text of %d kernels", count), (size_t)0;
    memset(v, 0, sizeof *v);
    hd_writer w = {.out = out, .capacity = capacity};
    bool ok = true;
    for (int i = 0; i < count && ok; ++i)
        ok = hd_vocabulary_use_kernel(v, kernels[i].kernel, kernels[i].grid.wide_sums) == HD_OK;
    ok = ok && hd_write_preamble(&w, v, dialect, has_f64);
    for (int i = 0; i < count && ok; ++i) ok = write_kernel(&w, &kernels[i]);
    hd_array_release(v);
    return ok ? w.at : 0;
}
