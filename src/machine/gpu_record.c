/* Runs of plans that a GPU keeps as recordings: the second run at the same addresses is recorded, later ones are replayed,
 * one command instead of a launch each. What is waited for on the host (checks of indices) is between recordings. */
#include "machine/gpu_plan.h"

#include <string.h>

enum { KNOWN = 8 }; /* addresses that are remembered */

typedef struct known_run {
    void **addresses; /* of all memory that is not the plan's own */
    hd_gpu_recording **recordings;
    uint64_t last_use;
} known_run;
struct hd_gpu_records {
    known_run of[KNOWN];
    hd_gpu_piece *pieces; /* launches that follow each other without a wait */
    void **now;
    uint32_t piece_count, address_count;
    uint64_t uses;
    bool is_unfit; /* something in it cannot be recorded */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */
static bool is_waited_for(const hd_launch *l) { return l->kind == HD_RUN_CHECK; }

static void find_pieces(const hd_plan *p, hd_gpu_records *r) {
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const bool waits = is_waited_for(&p->launches[i]);
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
static bool has_draws(const hd_plan *p) {
    bool has = p->draws;
    for (uint32_t i = 0; i < p->call_count; ++i) has = has || p->calls[i].call.attributes == &p->calls[i].draw;
    return has;
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
    r->is_unfit = has_draws(p);
    if (r->pieces != NULL && r->now != NULL) {
        find_pieces(p, r);
        return r;
    }
    hd_array_release(r->pieces);
    hd_array_release(r->now);
    hd_array_release(r);
    return NULL;
}

static void forget_run(const hd_gpu_device *d, hd_thread *thread, const hd_gpu_records *r, known_run *k) {
    for (uint32_t i = 0; k->recordings != NULL && i < r->piece_count; ++i)
        if (k->recordings[i] != NULL) d->gpu->forget(thread, k->recordings[i]);
    hd_array_release(k->recordings);
    hd_array_release(k->addresses);
    *k = (known_run){.last_use = 0};
}

void hd_gpu_records_release(const hd_gpu_device *d, hd_thread *thread, hd_gpu_records *r) {
    if (r == NULL) return;
    for (int i = 0; i < KNOWN; ++i) forget_run(d, thread, r, &r->of[i]);
    hd_array_release(r->pieces);
    hd_array_release(r->now);
    hd_array_release(r);
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
    if (oldest->addresses == NULL || oldest->recordings == NULL) {
        forget_run(d, thread, r, oldest);
        return NULL;
    }
    memcpy(oldest->addresses, r->now, bytes);
    for (uint32_t i = 0; i < r->piece_count; ++i) oldest->recordings[i] = NULL;
    return oldest;
}

/* Nothing of a piece has run when it cannot be recorded: it then runs as it is, and so does the plan from now on. */
static hd_error record_piece(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r,
                             const hd_gpu_piece *piece, hd_gpu_recording **out) {
    const int index = d->device.index;
    hd_error status = d->gpu->record(index);
    if (status == HD_OK) {
        uint32_t done = 0;
        status = run->enqueue(run, piece->begin, piece->end, &done);
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

static hd_error run_piece(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r, const hd_gpu_piece *piece,
                          hd_gpu_recording **recording, bool is_new) {
    if (!piece->waits && !is_new && *recording == NULL && !r->is_unfit)
        HD_TRY(record_piece(d, run, r, piece, recording));
    if (*recording == NULL) return run->enqueue(run, piece->begin, piece->end, run->done);
    *run->done = piece->begin;
    return d->gpu->replay(*recording);
}

hd_error hd_gpu_run_recorded(const hd_gpu_device *d, const hd_gpu_run *run, hd_gpu_records *r) {
    const hd_plan *p = run->plan;
    uint32_t count = 0;
    bool is_new;
    for (uint32_t b = 0; b < p->buffer_count; ++b)
        if (is_given(p, b)) r->now[count++] = p->buffers[b].storage.data;
    known_run *k = r->is_unfit ? NULL : find_run(d, run->thread, r, &is_new);
    if (k == NULL) return run->enqueue(run, 0, p->launch_count, run->done);
    k->last_use = ++r->uses;
    for (uint32_t i = 0; i < r->piece_count; ++i)
        HD_TRY(run_piece(d, run, r, &r->pieces[i], &k->recordings[i], is_new));
    return HD_OK;
}
