/* Runs of plans that a GPU keeps as recordings: the second run at the same addresses is recorded, later ones are
 * replayed, one command instead of a launch each. What is waited for on the host (checks of indices) is between
 * recordings. */
#include "machine/gpu_plan.h"

#include <string.h>

enum { KNOWN = 8 }; /* addresses that are remembered */

typedef struct known_run {
    void **addresses; /* of all memory that is not the plan's own */
    hd_gpu_recording **recordings;
    uint32_t *marks; /* of each launch that draws, as its recording knows it */
    uint64_t last_use;
} known_run;
struct hd_gpu_records {
    known_run of[KNOWN];
    hd_gpu_piece *pieces; /* launches that follow each other without a wait */
    void **now;
    uint32_t *drawing; /* launches whose draws change from run to run */
    uint32_t piece_count, address_count, drawing_count;
    uint64_t uses;
    bool is_unfit; /* something in it cannot be recorded */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */
/* Checks, and ops of the user's, which the CPU runs: they are no commands of the device. */
static bool is_waited_for(const hd_plan *p, const hd_launch *l) {
    return l->kind == HD_RUN_CHECK || (l->call != HD_NONE && p->calls[l->call].call.op == &hd_ops[HD_OP_custom]);
}

static void find_pieces(const hd_plan *p, hd_gpu_records *r) {
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const bool waits = is_waited_for(p, &p->launches[i]);
        hd_gpu_piece *last = r->piece_count > 0 ? &r->pieces[r->piece_count - 1] : NULL;
        if (last == NULL || waits || last->waits) {
            r->pieces[r->piece_count++] = (hd_gpu_piece){i, i + 1, waits};
        } else {
            last->end = i + 1;
        }
    }
}

static bool is_given(const hd_plan *p, uint32_t buffer) {
    return p->buffers[buffer].placement != HD_IN_ARENA && p->buffers[buffer].placement != HD_NOWHERE;
}

/* Draws change from run to run, and are numbers of launches. */
static bool draws(const hd_plan *p, const hd_launch *l) {
    return (l->native != HD_NONE && p->natives[l->native]->draw_count > 0) ||
           (l->call != HD_NONE && p->calls[l->call].call.attributes == &p->calls[l->call].draw);
}
static bool find_drawing(const hd_plan *p, hd_gpu_records *r) {
    for (uint32_t i = 0; i < p->launch_count; ++i) r->drawing_count += draws(p, &p->launches[i]);
    r->drawing = hd_array_resize(NULL, ((size_t)r->drawing_count + 1) * sizeof *r->drawing);
    if (r->drawing == NULL) return false;
    r->drawing_count = 0;
    for (uint32_t i = 0; i < p->launch_count; ++i)
        if (draws(p, &p->launches[i])) r->drawing[r->drawing_count++] = i;
    return true;
}

static void release_records(hd_gpu_records *r) {
    hd_array_release(r->pieces);
    hd_array_release(r->now);
    hd_array_release(r->drawing);
    hd_array_release(r);
}

hd_gpu_records *hd_gpu_records_new(const hd_plan *p) {
    uint32_t addresses = 0;
    hd_gpu_records *r = hd_array_resize(NULL, sizeof *r);
    if (r == NULL) return NULL;
    memset(r, 0, sizeof *r);
    for (uint32_t b = 0; b < p->buffer_count; ++b) addresses += is_given(p, b);
    r->pieces = hd_array_resize(NULL, ((size_t)p->launch_count + 1) * sizeof *r->pieces);
    r->now = hd_array_resize(NULL, ((size_t)addresses + 1) * sizeof *r->now);
    r->address_count = addresses;
    if (find_drawing(p, r) && r->pieces != NULL && r->now != NULL) {
        find_pieces(p, r);
        return r;
    }
    release_records(r);
    return NULL;
}

static void forget_run(const hd_gpu_device *d, hd_thread *thread, const hd_gpu_records *r, known_run *k) {
    for (uint32_t i = 0; k->recordings != NULL && i < r->piece_count; ++i)
        if (k->recordings[i] != NULL) d->gpu->forget(thread, k->recordings[i]);
    hd_array_release(k->recordings);
    hd_array_release(k->addresses);
    hd_array_release(k->marks);
    *k = (known_run){.last_use = 0};
}

void hd_gpu_records_release(const hd_gpu_device *d, hd_thread *thread, hd_gpu_records *r) {
    if (r == NULL) return;
    for (int i = 0; i < KNOWN; ++i) forget_run(d, thread, r, &r->of[i]);
    release_records(r);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
/* The run at these addresses, if it was seen; else its place, from now on, in place of the one that was not used the
 * longest. NULL: there is no memory for it, which is no error. */
static known_run *find_run(const hd_gpu_device *d, hd_thread *thread, hd_gpu_records *r, bool *is_new) {
    const size_t bytes = r->address_count * sizeof *r->now;
    known_run *oldest = &r->of[0];
    *is_new = false;
    for (int i = 0; i < KNOWN; ++i) {
        known_run *k = &r->of[i];
        if (k->addresses != NULL && memcmp(k->addresses, r->now, bytes) == 0) return k;
        if (k->last_use < oldest->last_use) oldest = k;
    }
    *is_new = true;
    forget_run(d, thread, r, oldest);
    oldest->addresses = hd_array_resize(NULL, bytes + sizeof *r->now);
    oldest->recordings = hd_array_resize(NULL, ((size_t)r->piece_count + 1) * sizeof(hd_gpu_recording *));
    oldest->marks = hd_array_resize(NULL, ((size_t)r->drawing_count + 1) * sizeof *oldest->marks);
    for (uint32_t i = 0; oldest->recordings != NULL && i < r->piece_count; ++i) oldest->recordings[i] = NULL;
    if (oldest->addresses == NULL || oldest->recordings == NULL || oldest->marks == NULL) {
        forget_run(d, thread, r, oldest);
        return NULL;
    }
    memcpy(oldest->addresses, r->now, bytes);
    return oldest;
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* The number of the first of them that is not before a launch. */
static uint32_t drawing_from(const hd_gpu_records *r, uint32_t launch) {
    uint32_t i = 0;
    while (i < r->drawing_count && r->drawing[i] < launch) ++i;
    return i;
}

/* A launch that draws is one launch of the device's. One that takes memory to work in is two, and cannot be
 * recorded. */
static hd_error enqueue_drawing(const hd_gpu_run *run, uint32_t launch, uint32_t *mark, hd_gpu_recording *recording) {
    uint32_t done = 0;
    hd_gpu_changes changes = {.recording = recording, .marks = mark, .capacity = 1};
    hd_gpu_changing = &changes;
    const hd_error status = run->enqueue(run, launch, launch + 1, &done);
    hd_gpu_changing = NULL;
    return status;
}

static hd_error enqueue_one(const hd_gpu_run *run, const hd_gpu_records *r, uint32_t launch, uint32_t *marks) {
    uint32_t done = 0;
    const uint32_t i = drawing_from(r, launch);
    return i < r->drawing_count && r->drawing[i] == launch ? enqueue_drawing(run, launch, &marks[i], NULL)
                                                           : run->enqueue(run, launch, launch + 1, &done);
}

static hd_error tell_draws(const hd_gpu_run *run, const hd_gpu_records *r, const hd_gpu_piece *piece, uint32_t *marks,
                           hd_gpu_recording *recording) {
    for (uint32_t i = drawing_from(r, piece->begin); i < r->drawing_count && r->drawing[i] < piece->end; ++i)
        HD_TRY(enqueue_drawing(run, r->drawing[i], &marks[i], recording));
    return HD_OK;
}

/* ---- steps: launches that need each other ------------------------------------------------------------------------ */
enum { STEPS_MOST = 1024, OPERANDS_MOST = 64 };
typedef struct span_of_memory {
    const char *begin, *end;
    bool is_written;
} span_of_memory;
typedef struct step_memory {
    span_of_memory of[OPERANDS_MOST];
    int count;
} step_memory;

/* What a launch reads and writes; false: that is too much to be looked at. Of copies, borders and what puts something
 * aside, everything counts as written. */
static bool find_memory(const hd_plan *p, const hd_launch *l, step_memory *out) {
    const bool is_plain = l->kind == HD_RUN_CALL || l->kind == HD_RUN_KERNEL || l->kind == HD_RUN_PRODUCT;
    const uint32_t count = (uint32_t)l->inputs + l->outputs;
    out->count = 0;
    if (count > OPERANDS_MOST) return false;
    for (uint32_t k = 0; k < count; ++k) {
        const hd_tensor *t = p->pointers[l->first + k];
        if (t == NULL || t->storage->data == NULL) continue;
        const char *begin = t->storage->data;
        out->of[out->count++] = (span_of_memory){begin, begin + t->storage->bytes, !is_plain || k >= l->inputs};
    }
    return true;
}

static bool meet(const step_memory *a, const step_memory *b) {
    for (int i = 0; i < a->count; ++i)
        for (int j = 0; j < b->count; ++j)
            if ((a->of[i].is_written || b->of[j].is_written) && a->of[i].begin < b->of[j].end &&
                b->of[j].begin < a->of[i].end)
                return true;
    return false;
}

/* Which earlier steps a step needs, those left out that others of them need: `needs` has a row of bits for each. */
static uint32_t find_needed(const step_memory *of, uint64_t *needs, uint32_t step, uint32_t words, uint32_t *after) {
    uint64_t *row = needs + (size_t)step * words;
    uint32_t count = 0;
    for (uint32_t j = step; j-- > 0;) {
        if ((row[j / 64] >> j % 64 & 1) != 0 || !meet(&of[step], &of[j])) continue;
        after[count++] = j;
        const uint64_t *theirs = needs + (size_t)j * words;
        for (uint32_t w = 0; w < words; ++w) row[w] |= theirs[w];
        row[j / 64] |= (uint64_t)1 << j % 64;
    }
    return count;
}

/* Each launch as a step of its own. */
static hd_error enqueue_steps(const hd_gpu_device *d, const hd_gpu_run *run, const hd_gpu_records *r,
                              const hd_gpu_piece *piece, uint32_t *marks, step_memory *of, uint64_t *needs,
                              uint32_t *after) {
    const uint32_t count = piece->end - piece->begin, words = (count + 63) / 64;
    memset(needs, 0, (size_t)count * words * sizeof *needs);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t at = piece->begin + i;
        if (!find_memory(run->plan, &run->plan->launches[at], &of[i]))
            return hd_fail(HD_ERROR_INTERNAL, "launch %u has too many operands to be recorded", at);
        const uint32_t needed = find_needed(of, needs, i, words, after);
        HD_TRY(d->gpu->step(d->device.index, i, after, needed));
        HD_TRY(enqueue_one(run, r, at, marks));
    }
    return HD_OK;
}

/* Long pieces are recorded in order: who needs whom would take long to find. */
static hd_error enqueue_piece(const hd_gpu_device *d, const hd_gpu_run *run, const hd_gpu_records *r,
                              const hd_gpu_piece *piece, uint32_t *marks) {
    const size_t count = piece->end - piece->begin, words = (count + 63) / 64;
    if (count < 3 || count > STEPS_MOST) {
        for (uint32_t i = piece->begin; i < piece->end; ++i) HD_TRY(enqueue_one(run, r, i, marks));
        return HD_OK;
    }
    step_memory *of = hd_array_resize(NULL, count * sizeof *of);
    uint64_t *needs = hd_array_resize(NULL, count * words * sizeof *needs);
    uint32_t *after = hd_array_resize(NULL, count * sizeof *after);
    const hd_error status = of == NULL || needs == NULL || after == NULL
                                ? hd_fail(HD_ERROR_MEMORY, "no memory to record %zu launches", count)
                                : enqueue_steps(d, run, r, piece, marks, of, needs, after);
    hd_array_release(of);
    hd_array_release(needs);
    hd_array_release(after);
    return status;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */
/* Nothing of a piece has run when it cannot be recorded: it then runs as it is, and so does the plan from the next
 * run on. */
static hd_error record_piece(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r,
                             const hd_gpu_piece *piece, uint32_t *marks, hd_gpu_recording **out) {
    const int index = d->device.index;
    hd_error status = d->gpu->record(index);
    if (status == HD_OK) {
        status = enqueue_piece(d, run, r, piece, marks);
        if (status == HD_OK)
            status = d->gpu->recorded(index, out);
        else
            d->gpu->recorded(index, NULL);
    }
    if (status == HD_OK) return HD_OK;
    hd_error_copy forgotten;
    hd_error_take(&forgotten);
    r->is_unfit = true;
    return HD_OK;
}

static hd_error run_piece(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r, known_run *k, uint32_t i,
                          bool is_new) {
    const hd_gpu_piece *piece = &r->pieces[i];
    hd_gpu_recording **recording = &k->recordings[i];
    *run->done = piece->begin;
    if (*recording != NULL)
        HD_TRY(tell_draws(run, r, piece, k->marks, *recording));
    else if (!piece->waits && !is_new && !r->is_unfit)
        HD_TRY(record_piece(d, run, r, piece, k->marks, recording));
    if (*recording == NULL) return run->enqueue(run, piece->begin, piece->end, run->done);
    return d->gpu->replay(*recording);
}

hd_error hd_gpu_run_recorded(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r) {
    const hd_plan *p = run->plan;
    uint32_t count = 0;
    bool is_new;
    for (uint32_t b = 0; b < p->buffer_count; ++b)
        if (is_given(p, b)) r->now[count++] = p->buffers[b].storage.data;
    for (int i = 0; i < KNOWN && r->is_unfit; ++i) forget_run(d, run->thread, r, &r->of[i]); /* with their memory */
    known_run *k = r->is_unfit ? NULL : find_run(d, run->thread, r, &is_new);
    if (k == NULL) return run->enqueue(run, 0, p->launch_count, run->done);
    k->last_use = ++r->uses;
    for (uint32_t i = 0; i < r->piece_count; ++i) HD_TRY(run_piece(d, run, r, k, i, is_new));
    return HD_OK;
}
