/* Jobs cut into pieces for the threads there are: made when a plan first runs, and again when the number of threads is
 * another one. What a thread takes at a time costs enough to be worth it, and there are some pieces more than threads,
 * since the cores of shared machines are not equally quick. */
#include "core/pool.h"
#include "machine/cpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECES_PER_THREAD = 4,
    BARRIER = HD_WORTH_A_THREAD /
              8 /* measured: half a microsecond until threads that are awake have taken over and are done */
};

/* ---- the memory to work in --------------------------------------------------------------------------------------- */
/* For a launch alone, on all threads of the pool. */
static size_t workspace_of(const hd_plan *p, const hd_launch *l) {
    if (l->kind == HD_RUN_KERNEL) return hd_cpu_kernel_workspace(&hd_cpu_plan_of(p)->cuts[l->native]);
    if (l->kind != HD_RUN_PRODUCT) return 0;
    const hd_product product = hd_cpu_product_of(p, l);
    return hd_cpu_product_workspace(&product);
}

/* For a chain of which one thread does some or all: what its launches need one after the other. */
static size_t workspace_of_chain(const hd_plan *p, const hd_cpu_chain *s) {
    const int before = hd_pool_limit(1);
    size_t most = 0;
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    for (uint32_t i = s->first; i != HD_NONE; i = own->positions[i].next) {
        const hd_launch *l = &p->launches[i];
        const size_t bytes = l->kind == HD_RUN_KERNEL ? own->cuts[l->native].scratch_bytes : workspace_of(p, l);
        if (bytes > most) most = bytes;
    }
    hd_pool_limit(before);
    return (most + 63) / 64 * 64;
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */
/* Rows at whose multiples a chain may be cut: kernels that compute several positions of that axis at a time begin with
 * whole vectors, as they do on one thread. */
static int64_t rows_together(const hd_plan *p, const hd_cpu_chain *s) {
    int64_t together = 1;
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    for (uint32_t i = s->first; i != HD_NONE; i = own->positions[i].next) {
        const uint32_t native = p->launches[i].native;
        const hd_native *n = &p->natives[native]->native;
        const hd_schedule *schedule = &n->shape.schedule;
        const int split = own->cuts[native].split;
        if (split != schedule->lanes) continue;
        const int64_t row = n->geometry[split] / s->rows; /* widths are powers of two */
        int64_t step = schedule->width;
        while (step > 1 && row * (step / 2) % schedule->width == 0) step /= 2;
        if (step > together) together = step;
    }
    return together;
}

typedef struct cutting {
    hd_plan *p;
    hd_cpu_plan *own;
    uint32_t pieces, piece_capacity, parts, part_capacity;
    size_t workspace; /* the most that a job needs */
} cutting;

static hd_error new_piece(cutting *c) {
    hd_cpu_plan *p = c->own;
    if (c->pieces == c->piece_capacity) {
        const uint32_t capacity = c->piece_capacity ? c->piece_capacity * 2 : 32;
        hd_cpu_piece *moved = hd_array_resize(p->pieces, capacity * sizeof *moved);
        if (moved == NULL) return hd_plan_no_memory(c->p);
        p->pieces = moved;
        c->piece_capacity = capacity;
    }
    p->pieces[c->pieces++] = (hd_cpu_piece){.part = c->parts};
    return HD_OK;
}

/* One more part for the last piece. */
static hd_error add_part(cutting *c, uint32_t chain, int64_t begin, int64_t end, int64_t cost) {
    hd_cpu_plan *p = c->own;
    if (c->parts == c->part_capacity) {
        const uint32_t capacity = c->part_capacity ? c->part_capacity * 2 : 64;
        hd_cpu_chain_rows *moved = hd_array_resize(p->parts, capacity * sizeof *moved);
        if (moved == NULL) return hd_plan_no_memory(c->p);
        p->parts = moved;
        c->part_capacity = capacity;
    }
    p->parts[c->parts++] = (hd_cpu_chain_rows){chain, begin, end};
    hd_cpu_piece *piece = &p->pieces[c->pieces - 1];
    const size_t bytes = workspace_of_chain(c->p, &p->chains[chain]);
    piece->part_count++;
    piece->cost += cost;
    if (bytes > piece->workspace_bytes) piece->workspace_bytes = bytes;
    return HD_OK;
}

static hd_error cut_rows(cutting *c, uint32_t chain, int64_t pieces) {
    const hd_cpu_chain *s = &c->own->chains[chain];
    const int64_t together = rows_together(c->p, s), groups = (s->rows + together - 1) / together,
                  count = pieces < groups ? pieces : groups;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = groups * i / count * together, end = groups * (i + 1) / count * together;
        HD_TRY(new_piece(c));
        HD_TRY(add_part(c, chain, begin, end < s->rows ? end : s->rows, s->cost / count));
    }
    return HD_OK;
}

static int dearer(const void *a, const void *b) {
    const hd_cpu_piece *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->part < y->part ? -1 : 1; /* in order */
}

/* The pool gives each thread a run of pieces to begin with: the dearest, which come first, come first in each. */
static hd_error deal(hd_cpu_piece *pieces, uint32_t count, uint32_t threads) {
    hd_cpu_piece *sorted = hd_array_resize(NULL, count * sizeof *sorted);
    if (sorted == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to share out a script");
    memcpy(sorted, pieces, count * sizeof *sorted);
    const uint32_t runs = count < threads ? count : threads;
    for (uint32_t from = 0, round = 0; from < count; ++round)
        for (uint32_t r = 0; r < runs; ++r) {
            const uint32_t begin = (uint32_t)((uint64_t)count * r / runs),
                           end = (uint32_t)((uint64_t)count * (r + 1) / runs);
            if (begin + round < end) pieces[begin + round] = sorted[from++];
        }
    hd_array_release(sorted);
    return HD_OK;
}

/* The time until all pieces are done when whoever is free takes the next. They are in order. */
static double cost_together(const hd_cpu_piece *pieces, uint32_t count, int threads) {
    double busy[HD_POOL_MOST] = {0}, last = 0;
    for (uint32_t i = 0; i < count; ++i) {
        int free = 0;
        for (int t = 1; t < threads; ++t)
            if (busy[t] < busy[free]) free = t;
        busy[free] += (double)pieces[i].cost;
        if (busy[free] > last) last = busy[free];
    }
    return last + BARRIER;
}

/* The time when launches run one after the other, each shared by threads as far as it is worth it. */
static double cost_in_order(const hd_plan *p, const hd_cpu_job *job, int threads) {
    double all = 0;
    for (uint32_t i = job->first; i < job->first + job->count; ++i) {
        const hd_launch *l = &p->launches[i];
        const double cost = (double)hd_cpu_cost(p, l);
        int64_t parts = 1;
        if (l->kind == HD_RUN_PRODUCT && l->threads != 1) {
            const hd_product product = hd_cpu_product_of(p, l);
            parts = hd_cpu_product_pieces(&product);
        } else if (l->threads != 1) {
            const hd_cpu_cut *cut = &hd_cpu_plan_of(p)->cuts[l->native];
            parts = cut->split < 0 ? 1 : p->natives[l->native]->native.geometry[cut->split] / cut->grain;
        }
        all += parts > 1 ? cost / (double)(parts < threads ? parts : threads) + BARRIER : cost;
    }
    return all;
}

static hd_error cut_job(cutting *c, hd_cpu_job *job, int threads) {
    hd_cpu_plan *p = c->own;
    const uint32_t first = c->pieces, parts = c->parts, end = job->chain + job->chain_count;
    int64_t all = 0, most = 0;
    job->piece = first;
    job->piece_count = 0;
    if (job->count < 2 || threads < 2) return HD_OK;
    for (uint32_t s = job->chain; s < end; ++s)
        if (__builtin_add_overflow(all, p->chains[s].cost, &all)) all = INT64_MAX;
    const int64_t share = all / (PIECES_PER_THREAD * threads),
                  worth = share > HD_WORTH_A_THREAD ? share : HD_WORTH_A_THREAD;
    for (uint32_t s = job->chain; s < end; ++s)
        if (p->chains[s].rows > 1 && p->chains[s].cost / worth > 1) HD_TRY(cut_rows(c, s, p->chains[s].cost / worth));
    bool begins = true;
    for (uint32_t s = job->chain; s < end; ++s) { /* what is not cut: some together when they are small */
        const hd_cpu_chain *chain = &p->chains[s];
        if (chain->rows > 1 && chain->cost / worth > 1) continue;
        if (begins) HD_TRY(new_piece(c));
        HD_TRY(add_part(c, s, 0, chain->rows, chain->cost));
        begins = p->pieces[c->pieces - 1].cost >= worth;
    }
    for (uint32_t i = first; i < c->pieces; ++i)
        if (p->pieces[i].cost > most) most = p->pieces[i].cost;
    const uint32_t count = c->pieces - first;
    if (count > 1) qsort(p->pieces + first, count, sizeof *p->pieces, dearer);
    if (count < 2 || all - most < HD_WORTH_A_THREAD / 2 || /* sooner done than told to others */
        cost_together(p->pieces + first, count, threads) >= cost_in_order(c->p, job, threads)) {
        c->pieces = first;
        c->parts = parts;
        return HD_OK;
    }
    if (job->chain_count > 1) HD_TRY(deal(p->pieces + first, count, (uint32_t)threads));
    size_t workspace = 0;
    for (uint32_t i = first; i < c->pieces; ++i) {
        p->pieces[i].workspace = workspace;
        workspace += p->pieces[i].workspace_bytes;
    }
    if (workspace > c->workspace) c->workspace = workspace;
    job->piece_count = c->pieces - first;
    return HD_OK;
}

hd_error hd_cpu_share_out(hd_plan *p, hd_thread *thread, int threads) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    own->workspace_threads = 0;
    cutting c = {.p = p, .own = own};
    hd_array_release(own->pieces);
    hd_array_release(own->parts);
    own->pieces = NULL;
    own->parts = NULL;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const size_t bytes = workspace_of(p, &p->launches[i]);
        if (bytes > c.workspace) c.workspace = bytes;
    }
    for (uint32_t i = 0; i < own->job_count; ++i) HD_TRY(cut_job(&c, &own->jobs[i], threads));
    if (own->workspace != NULL) hd_block_release(thread, own->workspace);
    own->workspace = NULL;
    if (c.workspace > 0 && (own->workspace = hd_block_new(thread, c.workspace)) == NULL) return HD_ERROR_MEMORY;
    own->workspace_threads = threads;
    return HD_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
typedef struct shared_job {
    const hd_plan *p;
    hd_thread *thread; /* the caller's: only to say what went wrong, and nothing can */
    const hd_cpu_piece *pieces;
    char *workspace;
    _Atomic bool failed;
} shared_job;

static hd_error run_part(const hd_plan *p, hd_thread *thread, const hd_cpu_chain_rows *part, char *workspace,
                         size_t workspace_bytes) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    const hd_cpu_chain *s = &own->chains[part->chain];
    for (uint32_t i = s->first; i != HD_NONE; i = own->positions[i].next) {
        const hd_launch *l = &p->launches[i];
        if (l->kind == HD_RUN_PRODUCT) {
            HD_TRY(hd_cpu_run_product(p, thread, l, workspace, workspace_bytes));
            continue;
        }
        const hd_plan_native *n = p->natives[l->native];
        const hd_cpu_cut *cut = &own->cuts[l->native];
        char *buffers[HD_KERNEL_BUFFERS];
        HD_TRY(hd_cpu_addresses(p, thread, n, buffers));
        if (part->end - part->begin == s->rows) {
            n->code->run(buffers, n->native.geometry, n->native.numbers, workspace);
        } else {
            const int64_t row = n->native.geometry[cut->split] / s->rows;
            hd_cpu_run_rows(n, cut, buffers, workspace, part->begin * row, part->end * row);
        }
    }
    return HD_OK;
}

static void run_job_piece(void *context, int64_t index) {
    shared_job *j = context;
    const hd_cpu_piece *piece = &j->pieces[index];
    const hd_cpu_chain_rows *parts = hd_cpu_plan_of(j->p)->parts + piece->part;
    const int before = hd_pool_limit(1); /* products in it are this thread's alone */
    for (uint32_t i = 0; i < piece->part_count; ++i)
        if (run_part(j->p, j->thread, &parts[i], j->workspace + piece->workspace, piece->workspace_bytes) != HD_OK)
            atomic_store(&j->failed, true);
    hd_pool_limit(before);
}

hd_error hd_cpu_run_job(const hd_plan *p, hd_thread *thread, const hd_cpu_job *job) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    shared_job j = {.p = p,
                    .thread = thread,
                    .pieces = own->pieces + job->piece,
                    .workspace = own->workspace == NULL ? NULL : hd_block_data(own->workspace)};
    hd_parallel(job->piece_count, run_job_piece, &j);
    if (__builtin_expect(!atomic_load(&j.failed), 1)) return HD_OK;
    return hd_fail(HD_ERROR_INTERNAL, "a launch failed that cannot");
}
