/* Generators. The numbers themselves are made by the devices. */
#include "core/random.h"
#include "core/undo.h"

struct hd_generator {
    hd_object object;
    void *free_list_link; /* where object headers keep their list */
    _Atomic uint64_t draw;
    uint64_t seed;
};
_Static_assert(sizeof(struct hd_generator) <= HD_HEADER_STORAGE_BYTES, "a generator fits a small header");

static void generator_destroy(hd_thread *thread, hd_object *object) {
    hd_header_recycle(thread, HD_HEADER_STORAGE, object);
}
static const hd_kind generator_kind = {.name = "generator", .destroy = generator_destroy};

/* ---- draws ------------------------------------------------------------------------------------------------------- */
/* Sets the next draw back by `count`, to `draw`; not when somebody else has drawn since. */
static bool set_back(hd_thread *thread, hd_generator *g, uint64_t draw, uint64_t count) {
    uint64_t expected = draw + count;
    if (g != NULL) return atomic_compare_exchange_strong(&g->draw, &expected, draw);
    if (thread->own_draw != expected) return false;
    thread->own_draw = draw;
    return true;
}

hd_error hd_generator_take(hd_thread *thread, uint64_t count, uint64_t *seed, uint64_t *draw) {
    hd_generator *g = thread->generator;
    if (g != NULL) {
        *seed = g->seed;
        *draw = atomic_fetch_add_explicit(&g->draw, count, memory_order_relaxed);
    } else {
        *seed = thread->own_seed;
        *draw = thread->own_draw;
        thread->own_draw += count;
    }
    if (__builtin_expect(thread->undo != NULL, 0)) {
        const hd_error status = hd_undo_note_draws(thread->undo, g, *seed, *draw, (int64_t)count, false);
        if (status != HD_OK) {
            set_back(thread, g, *draw, count);
            return status;
        }
    }
    thread->drawn += count;
    return HD_OK;
}

hd_draws hd_generator_now(const hd_thread *thread) {
    const hd_generator *g = thread->generator;
    return g != NULL ? (hd_draws){g->seed, atomic_load_explicit(&g->draw, memory_order_relaxed), thread->drawn}
                     : (hd_draws){thread->own_seed, thread->own_draw, thread->drawn};
}

void hd_generator_give_back(hd_thread *thread, const hd_draws *before) {
    const uint64_t count = thread->drawn - before->drawn;
    if (count == 0 || !set_back(thread, thread->generator, before->draw, count)) return;
    thread->drawn = before->drawn;
    if (thread->undo != NULL)
        hd_undo_note_draws(thread->undo, thread->generator, before->seed, before->draw, -(int64_t)count, false);
}

/* The thread's own is nobody else's. */
void hd_generator_restore(hd_thread *thread, const hd_undo_draws *d) {
    if (d->generator == NULL) {
        thread->own_seed = d->seed;
        thread->own_draw = d->draw;
    } else if (d->set) {
        d->generator->seed = d->seed;
        atomic_store_explicit(&d->generator->draw, d->draw, memory_order_relaxed);
    } else if (!set_back(thread, d->generator, d->draw, d->count)) {
        return;
    }
    thread->drawn -= d->count;
    if (thread->undo != NULL) /* one around it, which has noted them too */
        hd_undo_note_draws(thread->undo, d->generator, d->seed, d->draw, -(int64_t)d->count, false);
}

/* ---- generators -------------------------------------------------------------------------------------------------- */
void hd_seed(uint64_t seed) {
    HD_ENTER("hd_seed", );
    hd_generator_set(NULL, seed, 0);
    (void)thread;
}

hd_generator *hd_generator_new(uint64_t seed) {
    HD_ENTER("hd_generator_new", NULL);
    hd_generator *g = hd_header_allocate(thread, HD_HEADER_STORAGE);
    if (g == NULL) return NULL;
    hd_object_init(&g->object, &generator_kind);
    g->seed = seed;
    atomic_store_explicit(&g->draw, 0, memory_order_relaxed);
    return hd_scope_own(thread, &g->object) == HD_OK ? g : NULL;
}

static hd_error check_generator(const hd_generator *g) {
    if (g->object.kind == &generator_kind) return HD_OK;
    return hd_fail(g->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`g` is not a living generator");
}

hd_generator *hd_generator_use(hd_generator *g) {
    HD_ENTER_ALWAYS("hd_generator_use", NULL); /* giving a generator back must work while an error is pending */
    if (g != NULL && check_generator(g) != HD_OK) return NULL;
    hd_generator *before = thread->generator;
    if (before == g) return before;
    if (before != NULL) { /* what the thread held goes to the scope, so that the caller may still use it */
        thread->generator = NULL;
        const bool owned = before->object.in_scope;
        if (owned)
            hd_object_release(thread, &before->object);
        else if (hd_scope_own(thread, &before->object) != HD_OK)
            return NULL;
    }
    if (g != NULL) hd_object_retain(&g->object);
    thread->generator = g;
    return before;
}

uint64_t hd_generator_seed(const hd_generator *g) {
    HD_ENTER("hd_generator_seed", 0);
    if (g == NULL) g = thread->generator;
    return g == NULL ? thread->own_seed : check_generator(g) == HD_OK ? g->seed : 0;
}

uint64_t hd_generator_draw(const hd_generator *g) {
    HD_ENTER("hd_generator_draw", 0);
    if (g == NULL) g = thread->generator;
    return g == NULL                     ? thread->own_draw
           : check_generator(g) == HD_OK ? atomic_load_explicit(&g->draw, memory_order_relaxed)
                                         : 0;
}

void hd_generator_set(hd_generator *g, uint64_t seed, uint64_t draw) {
    HD_ENTER_ALWAYS("hd_generator_set", ); /* setting a generator back must work while an error is pending */
    if (g == NULL) g = thread->generator;
    if (g != NULL && check_generator(g) != HD_OK) return;
    if (thread->undo != NULL) {
        const uint64_t seed_now = g == NULL ? thread->own_seed : g->seed,
                       draw_now = g == NULL ? thread->own_draw : atomic_load_explicit(&g->draw, memory_order_relaxed);
        if (hd_undo_note_draws(thread->undo, g, seed_now, draw_now, 0, true) != HD_OK) return;
    }
    if (g == NULL) {
        thread->own_seed = seed;
        thread->own_draw = draw;
    } else {
        g->seed = seed;
        atomic_store_explicit(&g->draw, draw, memory_order_relaxed);
    }
}
