/* Jobs: launches that threads share together, so that they wait for each other once and not after each of them.
 *
 * A job has strands that do not depend on each other: small kernels and products, the updates of many parameters,
 * branches of a graph. Launches of a strand follow each other. When they are kernels that read of each other only the
 * rows they write themselves, each thread does its rows of all of them; else, when they are so small that one thread
 * does each of them sooner than two, one thread does them all.
 *
 * A launch goes into the last job that it can be part of, however far back, unless it would pass something that it
 * depends on or something that can fail: errors come in the order of the plan, and state is written when nothing can
 * fail any more. */
#include "compiler/plan.h"

#include <string.h>

enum {
    MOST_LAUNCHES = 32,                   /* of a job: each newcomer is compared with all */
    LOOKS_BACK = 8,                       /* jobs */
    SMALL = 2 * HD_WORTH_A_THREAD,        /* what one thread does sooner than two */
    MOST_BESIDE = 32 * HD_WORTH_A_THREAD, /* all strands but the largest together: more need no company */
};

typedef struct sorting {
    hd_plan *p;
    uint32_t *last_use,
        *last_write;     /* of each buffer's memory: 1 + the last job that uses, and that writes it; 0: none */
    uint32_t unpassable; /* 1 + the last job with something that can fail */
} sorting;

uint32_t hd_plan_memory_of(const hd_plan *p, uint32_t buffer) {
    const hd_plan_buffer *b = &p->buffers[buffer];
    return b->room == IN_CELL ? p->buffer_of[p->graph->cells[b->cell].node] : buffer;
}

/* ---- what a launch touches --------------------------------------------------------------------------------------- */
typedef struct range {
    int64_t begin, end; /* bytes */
} range;
static bool meet(range a, range b) { return a.begin < b.end && b.begin < a.end; }

static void stretch(range *r, int64_t count, int64_t stride, int64_t bytes) {
    const int64_t length = (count - 1) * stride * bytes;
    if (length < 0)
        r->begin += length;
    else
        r->end += length;
}

/* All that a tensor looks at, in bytes of its memory. */
static range range_of(const hd_tensor *t) {
    const int64_t bytes = hd_dtype_bytes[t->dtype], at = t->layout.offset * bytes;
    range r = {at, t->count > 0 ? at + bytes : at};
    for (int i = 0; t->count > 0 && i < t->layout.shape.rank; ++i)
        stretch(&r, t->layout.shape.size[i], t->layout.stride[i], bytes);
    return r;
}

static uint32_t memory_of(const hd_plan *p, uint32_t tensor) { return hd_plan_memory_of(p, p->buffer_of[tensor]); }

/* That one of them writes what the other uses. */
static bool depend(const hd_plan *p, const hd_launch *x, const hd_launch *y) {
    for (uint32_t i = 0; i < (uint32_t)x->inputs + x->outputs; ++i)
        for (uint32_t k = i < x->inputs ? y->inputs : 0; k < (uint32_t)y->inputs + y->outputs; ++k) {
            const uint32_t a = p->operands[x->first + i], b = p->operands[y->first + k];
            if (memory_of(p, a) == memory_of(p, b) && meet(range_of(&p->tensors[a]), range_of(&p->tensors[b])))
                return true;
        }
    return false;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static const hd_native *kernel_of(const hd_plan *p, const hd_launch *l) {
    return l->kind == RUN_KERNEL ? &p->natives[l->native]->native : NULL;
}

/* Into how many rows a launch can be cut; 1: not at all. */
static int64_t rows_of(const hd_plan *p, const hd_launch *l) {
    const hd_native *n = kernel_of(p, l);
    return n == NULL || n->split < 0 || n->geometry[n->split] < 1 || l->threads == 1 ? 1 : n->geometry[n->split];
}

/* What the first of `rows` rows of a kernel touches of a buffer, and how far it is to the next row. */
static range first_row(const hd_plan *p, const hd_plan_native *n, int buffer, int64_t rows, int64_t *apart) {
    const hd_kernel *k = &n->native.shape;
    const int64_t *geometry = n->native.geometry, bytes = hd_dtype_bytes[k->buffers[buffer].dtype],
                  at = p->tensors[n->tensors[buffer]].layout.offset * bytes;
    range r = {at, at + bytes};
    for (int a = 0; a < k->axes; ++a) {
        const bool is_split = a == n->native.split;
        const int64_t stride = geometry[hd_geometry_stride(k, buffer, a)], size = geometry[a] / (is_split ? rows : 1);
        stretch(&r, size, stride, bytes);
        if (is_split) *apart = size * stride * bytes;
    }
    return r;
}

/* That rows of one kernel meet only the same rows of the other: in what one of them writes, or in all they use of
 * `memory`. */
static bool rows_agree(const hd_plan *p, const hd_launch *x, const hd_launch *y, int64_t rows, uint32_t memory) {
    const hd_plan_native *m = p->natives[x->native], *n = p->natives[y->native];
    for (int a = 0; a < m->native.shape.buffer_count; ++a)
        for (int b = 0; b < n->native.shape.buffer_count; ++b) {
            const hd_kernel_buffer *from = &m->native.shape.buffers[a], *to = &n->native.shape.buffers[b];
            const uint32_t shared = memory_of(p, m->tensors[a]);
            if (shared != memory_of(p, n->tensors[b])) continue;
            if (memory == HD_NONE ? !from->written && !to->written : shared != memory) continue;
            if (!meet(range_of(&p->tensors[m->tensors[a]]), range_of(&p->tensors[n->tensors[b]]))) continue;
            int64_t apart = 0, to_apart = 0;
            const range r = first_row(p, m, a, rows, &apart), s = first_row(p, n, b, rows, &to_apart);
            const int64_t begin = r.begin < s.begin ? r.begin : s.begin, end = r.end > s.end ? r.end : s.end;
            if (apart <= 0 || apart != to_apart || end - begin > apart) return false;
            if (hd_plan_reads_at_places(&m->native.shape, a) || hd_plan_reads_at_places(&n->native.shape, b))
                return false;
        }
    return true;
}

/* The rows into which two launches can be cut alike; 1: they cannot. */
static int64_t common_rows(int64_t a, int64_t b) {
    const int64_t less = a < b ? a : b, more = a < b ? b : a;
    return more % less == 0 ? less : 1;
}

/* ---- strands ----------------------------------------------------------------------------------------------------- */
/* What a launch costs; products in the same unit: an instruction is a multiplication and an addition, of some elements
 * more. */
int64_t hd_plan_cost(const hd_plan *p, const hd_launch *l) {
    const hd_native *n = kernel_of(p, l);
    if (n != NULL) return n->cost;
    const double cost = hd_plan_operations(p, l) / 4;
    return cost < 1e18 ? (int64_t)cost : (int64_t)1e18;
}

static bool is_small(const hd_plan *p, const hd_launch *l) {
    return l->kind == RUN_PRODUCT || l->threads == 1 || hd_plan_cost(p, l) < SMALL;
}

/* That a launch can be part of a job with others: it cannot fail, and a thread alone can do all or some rows of it. */
static bool joins(const hd_plan *p, const hd_launch *l) {
    if (l->threads > 1 || hd_plan_can_fail(p, l)) return false;
    return l->kind == RUN_KERNEL || (l->kind == RUN_PRODUCT && (hd_plan_cost(p, l) < SMALL || l->threads == 1));
}

/* While jobs are found, launches of a strand are linked backwards: `next` is the one before. */
static bool strand_depends(const hd_plan *p, const hd_plan_strand *s, const hd_launch *l) {
    for (uint32_t i = s->last; i != HD_NONE; i = p->launches[i].next)
        if (depend(p, &p->launches[i], l)) return true;
    return false;
}

/* The rows of a strand with one more launch; 0: it cannot be part of it. */
static int64_t rows_with(const hd_plan *p, const hd_plan_strand *s, const hd_launch *l) {
    const int64_t rows = common_rows(s->rows, rows_of(p, l));
    bool agree = rows > 1, small = is_small(p, l);
    for (uint32_t i = s->last; i != HD_NONE; i = p->launches[i].next) {
        agree = agree && rows_agree(p, &p->launches[i], l, rows, HD_NONE);
        small = small && is_small(p, &p->launches[i]);
    }
    return agree ? rows : small ? 1 : 0;
}

static void add_to_strand(hd_plan *p, uint32_t job, uint32_t strand, uint32_t index, int64_t rows) {
    hd_launch *l = &p->launches[index];
    hd_plan_strand *s = &p->strands[strand];
    l->job = job;
    l->strand = strand;
    l->next = s->last;
    s->last = index;
    s->rows = rows;
    if (__builtin_add_overflow(s->cost, hd_plan_cost(p, l), &s->cost)) s->cost = INT64_MAX;
    p->jobs[job].count++;
}

/* While jobs are found, strands of a job are a list, too: `first` is the one before, and job->strand the last. */
static void add_strand(hd_plan *p, uint32_t job, uint32_t index) {
    hd_plan_strand *s = &p->strands[p->strand_count];
    *s = (hd_plan_strand){.first = p->jobs[job].strand, .last = HD_NONE};
    p->jobs[job].strand = p->strand_count;
    p->jobs[job].strand_count++;
    add_to_strand(p, job, p->strand_count++, index, rows_of(p, &p->launches[index]));
}

/* That all strands but the largest are small enough together. */
static bool has_place_beside(const hd_plan *p, const hd_plan_job *job, const hd_launch *l) {
    double all = (double)hd_plan_cost(p, l), most = all;
    for (uint32_t s = job->strand; s != HD_NONE; s = p->strands[s].first) {
        const double cost = (double)p->strands[s].cost;
        all += cost;
        if (cost > most) most = cost;
    }
    return all - most <= MOST_BESIDE;
}

/* Makes a launch part of a job, if it can be. */
static bool join(hd_plan *p, uint32_t j, uint32_t index, bool may_depend) {
    hd_launch *l = &p->launches[index];
    hd_plan_job *job = &p->jobs[j];
    uint32_t on = HD_NONE;
    if (job->strand_count == 0 || job->count >= MOST_LAUNCHES) return false;
    for (uint32_t s = job->strand; may_depend && s != HD_NONE; s = p->strands[s].first) {
        if (!strand_depends(p, &p->strands[s], l)) continue;
        if (on != HD_NONE) return false; /* two branches come together */
        on = s;
    }
    if (on == HD_NONE) {
        if (!has_place_beside(p, job, l)) return false;
        add_strand(p, j, index);
        return true;
    }
    const int64_t rows = rows_with(p, &p->strands[on], l);
    if (rows > 0) add_to_strand(p, j, on, index, rows);
    return rows > 0;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */
/* 1 + the last job that a launch depends on, as far as whole buffers tell; 0: none. */
static uint32_t last_dependence(const sorting *s, const hd_launch *l) {
    uint32_t last = 0;
    for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const uint32_t m = memory_of(s->p, s->p->operands[l->first + k]),
                       job = k < l->inputs ? s->last_write[m] : s->last_use[m];
        if (job > last) last = job;
    }
    return last;
}

static void note_uses(sorting *s, const hd_launch *l) {
    for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const uint32_t m = memory_of(s->p, s->p->operands[l->first + k]);
        if (s->last_use[m] < l->job + 1) s->last_use[m] = l->job + 1;
        if (k >= l->inputs && s->last_write[m] < l->job + 1) s->last_write[m] = l->job + 1;
    }
}

static void place(sorting *s, uint32_t index) {
    hd_plan *p = s->p;
    hd_launch *l = &p->launches[index];
    const bool may_join = joins(p, l);
    const uint32_t needs = last_dependence(s, l), stop = needs > s->unpassable ? needs : s->unpassable;
    bool done = false;
    for (uint32_t j = p->job_count; may_join && !done && j > 0 && j >= stop && j + LOOKS_BACK > p->job_count; --j)
        done = join(p, j - 1, index, j == needs);
    if (!done) {
        const uint32_t j = p->job_count++;
        p->jobs[j] = (hd_plan_job){.strand = HD_NONE};
        if (may_join) {
            add_strand(p, j, index);
        } else {
            l->job = j;
            p->jobs[j].count = 1;
            if (hd_plan_can_fail(p, l)) s->unpassable = j + 1;
        }
    }
    note_uses(s, l);
}

/* Launches in the order of their jobs, strands and launches linked forwards. */
static hd_error put_in_order(hd_plan *p) {
    hd_launch *sorted = hd_array_resize(NULL, ((size_t)p->launch_count + 1) * sizeof *sorted);
    hd_plan_strand *strands = hd_array_resize(NULL, ((size_t)p->strand_count + 1) * sizeof *strands);
    if (sorted == NULL || strands == NULL) {
        hd_array_release(sorted);
        hd_array_release(strands);
        return hd_plan_no_memory(p);
    }
    uint32_t launches = 0, count = 0;
    for (uint32_t j = 0; j < p->job_count; ++j) {
        hd_plan_job *job = &p->jobs[j];
        job->first = launches;
        launches += job->count;
        job->count = 0;
        uint32_t s = job->strand;
        job->strand = count;
        count += job->strand_count;
        for (uint32_t to = count; s != HD_NONE;) { /* which gives the place of each to those that look for it */
            const uint32_t before = p->strands[s].first;
            strands[--to] = p->strands[s];
            strands[to].first = strands[to].last = HD_NONE;
            p->strands[s].last = to;
            s = before;
        }
    }
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        hd_plan_job *job = &p->jobs[p->launches[i].job];
        const uint32_t at = job->first + job->count++;
        hd_launch *l = &sorted[at];
        *l = p->launches[i];
        l->next = HD_NONE;
        if (l->strand == HD_NONE) continue;
        l->strand = p->strands[l->strand].last;
        hd_plan_strand *s = &strands[l->strand];
        if (s->last != HD_NONE) sorted[s->last].next = at;
        if (s->first == HD_NONE) s->first = at;
        s->last = at;
    }
    hd_array_release(p->launches);
    hd_array_release(p->strands);
    p->launches = sorted;
    p->strands = strands;
    return HD_OK;
}

hd_error hd_plan_find_jobs(hd_plan *p) {
    const size_t buffers = (size_t)p->buffer_count + 1, launches = (size_t)p->launch_count + 1;
    sorting s = {.p = p,
                 .last_use = hd_array_resize(NULL, buffers * sizeof *s.last_use),
                 .last_write = hd_array_resize(NULL, buffers * sizeof *s.last_write)};
    p->jobs = hd_array_resize(NULL, launches * sizeof *p->jobs);
    p->strands = hd_array_resize(NULL, launches * sizeof *p->strands);
    const bool ok = s.last_use != NULL && s.last_write != NULL && p->jobs != NULL && p->strands != NULL;
    if (ok) {
        memset(s.last_use, 0, buffers * sizeof *s.last_use);
        memset(s.last_write, 0, buffers * sizeof *s.last_write);
        for (uint32_t i = 0; i < p->launch_count; ++i) place(&s, i);
    }
    hd_array_release(s.last_use);
    hd_array_release(s.last_write);
    return ok ? put_in_order(p) : hd_plan_no_memory(p);
}

bool hd_plan_uses_alone(const hd_plan *p, uint32_t index, uint32_t buffer) {
    const hd_launch *l = &p->launches[index];
    const hd_plan_job *job = &p->jobs[l->job];
    for (uint32_t i = job->first; i < job->first + job->count; ++i) {
        const hd_launch *other = &p->launches[i];
        bool uses = false;
        for (uint32_t k = 0; i != index && k < (uint32_t)other->inputs + other->outputs; ++k)
            uses = uses || p->buffer_of[p->operands[other->first + k]] == buffer;
        if (!uses) continue;
        if (other->strand != l->strand) return false;
        const int64_t rows = p->strands[l->strand].rows;
        if (rows > 1 && !rows_agree(p, other, l, rows, buffer)) return false;
    }
    return true;
}
