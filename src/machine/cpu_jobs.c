/* Jobs: launches that threads share together, so that they wait for each other once and not after each of them.
 *
 * A job has chains that do not depend on each other: small kernels and products, the updates of many parameters,
 * branches of a graph. Launches of a chain follow each other. When they are kernels that read of each other only the
 * rows they write themselves, each thread does its rows of all of them; else, when they are so small that one thread
 * does each of them sooner than two, one thread does them all.
 *
 * A launch goes into the last job that it can be part of, however far back, unless it would pass something that it
 * depends on or something that can fail: errors come in the order of the plan, and state is written when nothing can
 * fail any more. */
#include "codegen/dump.h"
#include "machine/cpu.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_LAUNCHES = 32,                   /* of a job: each newcomer is compared with all */
    LOOKS_BACK = 8,                       /* jobs */
    SMALL = 2 * HD_WORTH_A_THREAD,        /* what one thread does sooner than two */
    MOST_BESIDE = 32 * HD_WORTH_A_THREAD, /* all chains but the largest together: more need no company */
};

typedef struct sorting {
    hd_plan *p;
    hd_cpu_plan *own;
    uint32_t *last_use,
        *last_write;     /* of each buffer's memory: 1 + the last job that uses, and that writes it; 0: none */
    uint32_t unpassable; /* 1 + the last job with something that can fail */
} sorting;

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

/* True when one of them writes what the other uses. */
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
static const hd_cpu_cut *cut_of(const hd_plan *p, const hd_launch *l) {
    return l->kind == HD_RUN_KERNEL ? &hd_cpu_plan_of(p)->cuts[l->native] : NULL;
}

/* Into how many rows a launch can be cut; 1: not at all. */
static int64_t rows_of(const hd_plan *p, const hd_launch *l) {
    const hd_cpu_cut *cut = cut_of(p, l);
    if (cut == NULL || cut->split < 0 || l->threads == 1) return 1;
    const int64_t rows = p->natives[l->native]->native.geometry[cut->split];
    return rows < 1 ? 1 : rows;
}

/* What the first of `rows` rows of a kernel touches of a buffer, and how far it is to the next row. */
static range first_row(const hd_plan *p, uint32_t native, int buffer, int64_t rows, int64_t *apart) {
    const hd_plan_native *n = p->natives[native];
    const hd_kernel *k = &n->native.shape;
    const int64_t *geometry = n->native.geometry, bytes = hd_dtype_bytes[k->buffers[buffer].dtype],
                  at = p->tensors[n->tensors[buffer]].layout.offset * bytes;
    range r = {at, at + bytes};
    for (int a = 0; a < k->axes; ++a) {
        const bool is_split = a == hd_cpu_plan_of(p)->cuts[native].split;
        const int64_t stride = geometry[hd_geometry_stride(k, buffer, a)], size = geometry[a] / (is_split ? rows : 1);
        stretch(&r, size, stride, bytes);
        if (is_split) *apart = size * stride * bytes;
    }
    return r;
}

/* True when rows of one kernel meet only the same rows of the other: in what one of them writes, or in all they use of
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
            const range r = first_row(p, x->native, a, rows, &apart), s = first_row(p, y->native, b, rows, &to_apart);
            const int64_t begin = r.begin < s.begin ? r.begin : s.begin, end = r.end > s.end ? r.end : s.end;
            if (apart <= 0 || apart != to_apart || end - begin > apart) return false;
            if (hd_plan_reads_at_positions(&m->native.shape, a) || hd_plan_reads_at_positions(&n->native.shape, b))
                return false;
        }
    return true;
}

/* The rows into which two launches can be cut alike; 1: they cannot. */
static int64_t common_rows(int64_t a, int64_t b) {
    const int64_t less = a < b ? a : b, more = a < b ? b : a;
    return more % less == 0 ? less : 1;
}

/* ---- chains ----------------------------------------------------------------------------------------------------- */
/* What a launch costs; products in the same unit: an instruction is a multiplication and an addition, of some elements
 * more. */
int64_t hd_cpu_cost(const hd_plan *p, const hd_launch *l) {
    const hd_cpu_cut *cut = cut_of(p, l);
    if (cut != NULL) return cut->cost;
    const double cost = hd_plan_operations(p, l) / 4;
    return cost < 1e18 ? (int64_t)cost : (int64_t)1e18;
}

static bool is_small(const hd_plan *p, const hd_launch *l) {
    return l->kind == HD_RUN_PRODUCT || l->threads == 1 || hd_cpu_cost(p, l) < SMALL;
}

/* True when a launch can be part of a job with others: it cannot fail, and a thread alone can do all or some rows of
 * it. */
static bool joins(const hd_plan *p, const hd_launch *l) {
    if (l->threads > 1 || hd_plan_can_fail(p, l)) return false;
    return l->kind == HD_RUN_KERNEL || (l->kind == HD_RUN_PRODUCT && (hd_cpu_cost(p, l) < SMALL || l->threads == 1));
}

/* While jobs are found, launches of a chain are linked backwards: `next` is the one before. */
static bool chain_depends(const hd_plan *p, const hd_cpu_chain *s, const hd_launch *l) {
    for (uint32_t i = s->last; i != HD_NONE; i = hd_cpu_plan_of(p)->positions[i].next)
        if (depend(p, &p->launches[i], l)) return true;
    return false;
}

/* The rows of a chain with one more launch; 0: it cannot be part of it. */
static int64_t rows_with(const hd_plan *p, const hd_cpu_chain *s, const hd_launch *l) {
    const int64_t rows = common_rows(s->rows, rows_of(p, l));
    bool agree = rows > 1, small = is_small(p, l);
    for (uint32_t i = s->last; i != HD_NONE; i = hd_cpu_plan_of(p)->positions[i].next) {
        agree = agree && rows_agree(p, &p->launches[i], l, rows, HD_NONE);
        small = small && is_small(p, &p->launches[i]);
    }
    return agree ? rows : small ? 1 : 0;
}

static void add_to_chain(const hd_plan *p, uint32_t job, uint32_t chain, uint32_t index, int64_t rows) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    hd_cpu_chain *s = &own->chains[chain];
    own->positions[index] = (hd_cpu_position){.job = job, .chain = chain, .next = s->last};
    s->last = index;
    s->rows = rows;
    if (__builtin_add_overflow(s->cost, hd_cpu_cost(p, &p->launches[index]), &s->cost)) s->cost = INT64_MAX;
    own->jobs[job].count++;
}

/* While jobs are found, chains of a job are a list, too: `first` is the one before, and job->chain the last. */
static void add_chain(const hd_plan *p, uint32_t job, uint32_t index) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    own->chains[own->chain_count] = (hd_cpu_chain){.first = own->jobs[job].chain, .last = HD_NONE};
    own->jobs[job].chain = own->chain_count;
    own->jobs[job].chain_count++;
    add_to_chain(p, job, own->chain_count++, index, rows_of(p, &p->launches[index]));
}

/* True when all chains but the largest are small enough together. */
static bool has_place_beside(const hd_plan *p, const hd_cpu_job *job, const hd_launch *l) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    double all = (double)hd_cpu_cost(p, l), most = all;
    for (uint32_t s = job->chain; s != HD_NONE; s = own->chains[s].first) {
        const double cost = (double)own->chains[s].cost;
        all += cost;
        if (cost > most) most = cost;
    }
    return all - most <= MOST_BESIDE;
}

/* Makes a launch part of a job, if it can be. */
static bool join(const hd_plan *p, uint32_t j, uint32_t index, bool may_depend) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    const hd_launch *l = &p->launches[index];
    const hd_cpu_job *job = &own->jobs[j];
    uint32_t on = HD_NONE;
    if (job->chain_count == 0 || job->count >= MOST_LAUNCHES) return false;
    for (uint32_t s = job->chain; may_depend && s != HD_NONE; s = own->chains[s].first) {
        if (!chain_depends(p, &own->chains[s], l)) continue;
        if (on != HD_NONE) return false; /* two branches come together */
        on = s;
    }
    if (on == HD_NONE) {
        if (!has_place_beside(p, job, l)) return false;
        add_chain(p, j, index);
        return true;
    }
    const int64_t rows = rows_with(p, &own->chains[on], l);
    if (rows > 0) add_to_chain(p, j, on, index, rows);
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

static void note_uses(sorting *s, const hd_launch *l, uint32_t job) {
    for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const uint32_t m = memory_of(s->p, s->p->operands[l->first + k]);
        if (s->last_use[m] < job + 1) s->last_use[m] = job + 1;
        if (k >= l->inputs && s->last_write[m] < job + 1) s->last_write[m] = job + 1;
    }
}

static void add_to_a_job(sorting *s, uint32_t index) {
    const hd_plan *p = s->p;
    hd_cpu_plan *own = s->own;
    const hd_launch *l = &p->launches[index];
    const bool may_join = joins(p, l);
    const uint32_t needs = last_dependence(s, l), stop = needs > s->unpassable ? needs : s->unpassable;
    bool done = false;
    for (uint32_t j = own->job_count; may_join && !done && j > 0 && j >= stop && j + LOOKS_BACK > own->job_count; --j)
        done = join(p, j - 1, index, j == needs);
    if (!done) {
        const uint32_t j = own->job_count++;
        own->jobs[j] = (hd_cpu_job){.chain = HD_NONE};
        if (may_join) {
            add_chain(p, j, index);
        } else {
            own->positions[index] = (hd_cpu_position){.job = j, .chain = HD_NONE, .next = HD_NONE};
            own->jobs[j].count = 1;
            if (hd_plan_can_fail(p, l)) s->unpassable = j + 1;
        }
    }
    note_uses(s, l, own->positions[index].job);
}

/* Jobs as spans of launches: where each begins, and where its chains are in `chains`. */
static void make_spans(hd_plan *p, hd_cpu_chain *chains) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    uint32_t launches = 0, count = 0;
    for (uint32_t j = 0; j < own->job_count; ++j) {
        hd_cpu_job *job = &own->jobs[j];
        p->spans[j] = (hd_plan_span){launches, job->count};
        job->first = launches;
        launches += job->count;
        uint32_t s = job->chain;
        job->chain = count;
        count += job->chain_count;
        for (uint32_t to = count; s != HD_NONE;) { /* which gives the place of each to those that look for it */
            const uint32_t before = own->chains[s].first;
            chains[--to] = own->chains[s];
            chains[to].first = chains[to].last = HD_NONE;
            own->chains[s].last = to;
            s = before;
        }
    }
    p->span_count = own->job_count;
}

/* Launches in the order of their jobs, chains and launches linked forwards. */
static void put_in_order(const hd_plan *p, hd_launch *sorted, hd_cpu_position *positions, hd_cpu_chain *chains) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    for (uint32_t j = 0; j < own->job_count; ++j) own->jobs[j].count = 0;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        hd_cpu_job *job = &own->jobs[own->positions[i].job];
        const uint32_t at = job->first + job->count++;
        sorted[at] = p->launches[i];
        positions[at] = own->positions[i];
        positions[at].next = HD_NONE;
        if (positions[at].chain == HD_NONE) continue;
        positions[at].chain = own->chains[positions[at].chain].last;
        hd_cpu_chain *s = &chains[positions[at].chain];
        if (s->last != HD_NONE) positions[s->last].next = at;
        if (s->first == HD_NONE) s->first = at;
        s->last = at;
    }
}

static hd_error order_launches(hd_plan *p) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    const size_t launch_count = (size_t)p->launch_count + 1;
    hd_launch *launches = hd_array_resize(NULL, launch_count * sizeof *launches);
    hd_cpu_position *positions = hd_array_resize(NULL, launch_count * sizeof *positions);
    hd_cpu_chain *chains = hd_array_resize(NULL, ((size_t)own->chain_count + 1) * sizeof *chains);
    p->spans = hd_array_resize(NULL, ((size_t)own->job_count + 1) * sizeof *p->spans);
    if (launches == NULL || positions == NULL || chains == NULL || p->spans == NULL) {
        hd_array_release(launches);
        hd_array_release(positions);
        hd_array_release(chains);
        return hd_plan_no_memory(p);
    }
    make_spans(p, chains);
    put_in_order(p, launches, positions, chains);
    hd_array_release(p->launches);
    hd_array_release(own->positions);
    hd_array_release(own->chains);
    p->launches = launches;
    own->positions = positions;
    own->chains = chains;
    return HD_OK;
}

static const char *name_of(const hd_plan *p, uint32_t launch, hd_launch_stats *stats) {
    hd_plan_describe(&p->executable, launch, stats);
    return stats->what;
}

/* HODU_DUMP=jobs: one line for each chain of each job that has more than a launch. */
static void dump_jobs(const hd_plan *p) {
    if (!hd_dump_wants("jobs")) return;
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    char line[512];
    hd_launch_stats stats;
    for (uint32_t j = 0; j < own->job_count; ++j) {
        const hd_cpu_job *job = &own->jobs[j];
        for (uint32_t s = job->chain; job->count > 1 && s < job->chain + job->chain_count; ++s) {
            const hd_cpu_chain *chain = &own->chains[s];
            int at = snprintf(line, sizeof line, "job %u, %s%s:", j, s == job->chain ? "launches" : "beside them",
                              chain->first == chain->last ? ""
                              : chain->rows > 1           ? ", rows of all by one thread"
                                                          : ", all by one thread");
            for (uint32_t i = chain->first; i != HD_NONE && at < (int)sizeof line; i = own->positions[i].next)
                at += snprintf(line + at, sizeof line - (size_t)at, " %u (%s)", i, name_of(p, i, &stats));
            hd_dump_text("jobs", line, at < (int)sizeof line ? (size_t)at : sizeof line - 1);
        }
    }
}

hd_error hd_cpu_find_jobs(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    const size_t buffers = (size_t)p->buffer_count + 1, launches = (size_t)p->launch_count + 1;
    sorting s = {.p = p,
                 .own = own,
                 .last_use = hd_array_resize(NULL, buffers * sizeof *s.last_use),
                 .last_write = hd_array_resize(NULL, buffers * sizeof *s.last_write)};
    own->jobs = hd_array_resize(NULL, launches * sizeof *own->jobs);
    own->chains = hd_array_resize(NULL, launches * sizeof *own->chains);
    own->positions = hd_array_resize(NULL, launches * sizeof *own->positions);
    const bool ok = s.last_use != NULL && s.last_write != NULL && own->jobs != NULL && own->chains != NULL &&
                    own->positions != NULL;
    if (ok) {
        memset(s.last_use, 0, buffers * sizeof *s.last_use);
        memset(s.last_write, 0, buffers * sizeof *s.last_write);
        for (uint32_t i = 0; i < p->launch_count; ++i) add_to_a_job(&s, i);
    }
    hd_array_release(s.last_use);
    hd_array_release(s.last_write);
    HD_TRY(ok ? order_launches(p) : hd_plan_no_memory(p));
    dump_jobs(p);
    return HD_OK;
}

bool hd_cpu_uses_alone(const hd_plan *p, uint32_t index, uint32_t buffer) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    const uint32_t chain = own->positions[index].chain;
    const hd_cpu_job *job = &own->jobs[own->positions[index].job];
    for (uint32_t i = job->first; i < job->first + job->count; ++i) {
        const hd_launch *other = &p->launches[i];
        bool uses = false;
        for (uint32_t k = 0; i != index && k < (uint32_t)other->inputs + other->outputs; ++k)
            uses = uses || p->buffer_of[p->operands[other->first + k]] == buffer;
        if (!uses) continue;
        if (own->positions[i].chain != chain) return false;
        const int64_t rows = own->chains[chain].rows;
        if (rows > 1 && !rows_agree(p, other, &p->launches[index], rows, buffer)) return false;
    }
    return true;
}
