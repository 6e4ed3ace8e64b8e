/* Loaders: batches in the order of a sampler, epoch after epoch, made here or by workers. */
#include "core/away.h"
#include "core/options.h"
#include "core/random.h"
#include "data/sampler.h"
#include "data/stream.h"
#include "data/workers.h"

#include <string.h>

/* A batch that is to come. */
typedef struct cursor {
    int64_t epoch, batch;
} cursor;

struct hd_loader {
    hd_object object;
    hd_recipe recipe;    /* its dataset is retained */
    hd_sampler *sampler; /* retained */
    bool own_sampler;    /* it shuffles by the loader's seed */
    bool drop_last;
    int64_t batch_size, batches; /* batches: of an epoch */
    uint64_t seed;
    hd_device device;
    cursor at;        /* what comes next */
    cursor ahead;     /* what will be posted next */
    int64_t *order;   /* of an epoch: */
    int64_t ordered;  /* -1: none yet */
    int worker_count; /* 0: batches are made here */
    int prefetch;
    hd_workers *workers; /* started with the first batch; NULL */
    hd_apart apart;      /* what the thread was, while it makes items */
};

static void loader_destroy(hd_thread *thread, hd_object *object) {
    hd_loader *l = (hd_loader *)object;
    if (l->workers != NULL) hd_workers_stop(thread, l->workers);
    hd_data_drop(thread, l->recipe.dataset);
    hd_data_drop(thread, l->sampler);
    hd_array_release(l->order);
    hd_object_bury(thread, object);
}
static const char *loader_title(const hd_object *object) {
    static const char *const orders[] = {[HD_ORDER_SEQUENTIAL] = "in order",
                                         [HD_ORDER_RANDOM] = "shuffled",
                                         [HD_ORDER_WEIGHTED] = "by weights",
                                         [HD_ORDER_STRATIFIED] = "by classes",
                                         [HD_ORDER_FUNCTION] = "by a function"};
    return orders[((const hd_loader *)object)->sampler->kind];
}
static const hd_kind loader_kind = {.name = "loader",
                                    .destroy = loader_destroy,
                                    .title = loader_title,
                                    .remedy = "one thread at a time may use it: each makes a loader of its own"};

/* ---- making one -------------------------------------------------------------------------------------------------- */
static hd_error check_options(hd_thread *thread, const hd_dataset *d, int64_t batch_size, hd_loader_opts *o) {
    if (batch_size < 1 || batch_size > INT32_MAX)
        return hd_fail(HD_ERROR_VALUE, "batches of %lld items; there must be one at least", (long long)batch_size);
    if (o->sampler != NULL) {
        HD_TRY(hd_sampler_check(o->sampler, "sampler"));
        if (o->shuffle)
            return hd_fail(HD_ERROR_VALUE, "shuffle and a sampler are both given; a sampler says the order itself");
        if (o->sampler->items > d->count)
            return hd_fail(HD_ERROR_VALUE, "the sampler is for %lld items; the dataset has %lld",
                           (long long)o->sampler->items, (long long)d->count);
    }
    if (o->workers < 0 || o->workers > HD_WORKERS_MOST)
        return hd_fail(HD_ERROR_VALUE, "%d workers; there are 0 to %d", o->workers, (int)HD_WORKERS_MOST);
    if (o->prefetch < 0 || o->prefetch > HD_PREFETCH_MOST || (o->prefetch > 0 && o->workers == 0))
        return hd_fail(HD_ERROR_VALUE, "%d batches ahead%s; there are 0 to %d, and workers make them", o->prefetch,
                       o->workers == 0 ? " without workers" : "", (int)HD_PREFETCH_MOST);
    if (o->device.kind == HD_DEVICE_DEFAULT) o->device = thread->device;
    return hd_device_check(o->device);
}

static hd_error set_order(hd_thread *thread, hd_loader *l, const hd_loader_opts *o) {
    const int64_t items = l->recipe.dataset->count;
    HD_KEEP_NAME(thread);
    l->own_sampler = o->sampler == NULL;
    hd_sampler *s = o->sampler != NULL ? o->sampler
                    : o->shuffle       ? hd_random_sampler(items, 0)
                                       : hd_sequential_sampler(items);
    if (s == NULL) return thread->error_code;
    l->sampler = hd_data_retain(s);
    l->batches = s->count / l->batch_size + (!o->drop_last && s->count % l->batch_size != 0);
    if (l->batches == 0)
        return hd_fail(HD_ERROR_VALUE, "an epoch of %lld items has no batch of %lld%s", (long long)s->count,
                       (long long)l->batch_size, o->drop_last && s->count > 0 ? ", as drop_last is set" : "");
    l->order = hd_array_resize(NULL, (size_t)s->count * sizeof *l->order);
    return l->order != NULL ? HD_OK
                            : hd_fail(HD_ERROR_MEMORY, "no memory for the order of %lld items", (long long)s->count);
}

static hd_error set_seed(hd_thread *thread, hd_loader *l, uint64_t given) {
    uint64_t seed = 0, draw = 0;
    l->seed = given;
    if (given != 0) return HD_OK;
    HD_TRY(hd_generator_take(thread, 1, &seed, &draw));
    l->seed = hd_stream_seed(seed, draw);
    return HD_OK;
}

static hd_loader *loader_new(hd_thread *thread, hd_dataset *dataset, int64_t batch_size, hd_loader_opts *o) {
    HD_TRY_OR(check_options(thread, dataset, batch_size, o), NULL);
    hd_loader *l = hd_data_new(thread, sizeof *l, &loader_kind);
    if (l == NULL) return NULL;
    l->recipe = (hd_recipe){hd_data_retain(dataset), o->collate, o->collate_user};
    l->batch_size = batch_size;
    l->drop_last = o->drop_last;
    l->device = o->device;
    l->ordered = -1;
    l->worker_count = o->workers;
    l->prefetch = o->prefetch > 0 ? o->prefetch : 2 * o->workers;
    if (set_order(thread, l, o) == HD_OK && set_seed(thread, l, o->seed) == HD_OK) return hd_data_give(thread, l);
    hd_data_drop(thread, l);
    return NULL;
}

hd_loader *hd_loader_new(hd_dataset *dataset, int64_t batch_size, const hd_loader_opts *opts) {
    HD_ENTER("hd_loader_new", NULL);
    HD_TRY_OR(hd_dataset_check(dataset, "dataset"), NULL);
    HD_READ_OPTS(hd_loader_opts, opts, NULL);
    return loader_new(thread, dataset, batch_size, &options);
}

hd_loader *hd_batches(hd_tensor *x, hd_tensor *y, int64_t batch_size, const hd_loader_opts *opts) {
    HD_ENTER("hd_batches", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_READ_OPTS(hd_loader_opts, opts, NULL);
    HD_KEEP_NAME(thread);
    hd_dataset *rows = hd_tensor_dataset(y != NULL ? HD_TENSORS(x, y) : HD_TENSORS(x));
    if (rows == NULL) return NULL;
    if (options.sampler == NULL) options.shuffle = true;
    return loader_new(thread, rows, batch_size, &options);
}

/* ---- where it stands --------------------------------------------------------------------------------------------- */
static hd_error loader_check(const hd_loader *l) { return hd_data_check(l, &loader_kind, "loader"); }

int64_t hd_loader_epoch(const hd_loader *loader) {
    HD_ENTER_ALWAYS("hd_loader_epoch", 0);
    return loader_check(loader) == HD_OK ? loader->at.epoch : 0;
}
int64_t hd_loader_count(const hd_loader *loader) {
    HD_ENTER_ALWAYS("hd_loader_count", 0);
    return loader_check(loader) == HD_OK ? loader->batches : 0;
}
hd_loader_place hd_loader_position(const hd_loader *loader) {
    const hd_loader_place none = {0, 0, 0};
    HD_ENTER("hd_loader_position", none);
    HD_TRY_OR(loader_check(loader), none);
    return (hd_loader_place){loader->seed, loader->at.epoch, loader->at.batch};
}

/* What was made ahead is made again. */
static void go_back(hd_thread *thread, hd_loader *l) {
    if (l->workers != NULL) hd_workers_clear(thread, l->workers);
    l->ahead = l->at;
}

static hd_error check_fork(const hd_loader *l) {
    if (l->workers == NULL || !hd_workers_are_forked(l->workers)) return HD_OK;
    return hd_fail(HD_ERROR_STATE, "this process was forked after the loader's workers started, and they are the "
                                   "parent's; make a loader in the child");
}

static const int64_t LAST_EPOCH = INT64_C(1) << 62; /* to begin with: no program counts from there to the end */

void hd_loader_seek(hd_loader *loader, hd_loader_place place) {
    HD_ENTER("hd_loader_seek", );
    if (loader_check(loader) != HD_OK || check_fork(loader) != HD_OK) return;
    if (place.epoch < 0 || place.epoch > LAST_EPOCH || place.batch < 0 || place.batch >= loader->batches) {
        hd_fail(HD_ERROR_VALUE, "epoch %lld, batch %lld; epochs are 0 to 2^62 and have batches 0 to %lld",
                (long long)place.epoch, (long long)place.batch, (long long)loader->batches - 1);
        return;
    }
    HD_USE(&loader->object, false, );
    loader->seed = place.seed;
    loader->ordered = -1;
    loader->at = (cursor){place.epoch, place.batch};
    go_back(thread, loader);
}

static void advance(const hd_loader *l, cursor *c) {
    if (++c->batch < l->batches) return;
    c->batch = 0;
    c->epoch++;
}

/* ---- the next batch ---------------------------------------------------------------------------------------------- */
static int64_t items_of(const hd_loader *l, cursor c) {
    const int64_t left = l->sampler->count - c.batch * l->batch_size;
    return left < l->batch_size ? left : l->batch_size;
}
/* The indices of a batch, in the order of its epoch, which is made when it begins. */
static const int64_t *indices_of(hd_thread *thread, hd_loader *l, cursor c) {
    if (l->ordered != c.epoch) {
        l->ordered = -1;
        const uint64_t seed = l->own_sampler ? l->seed : l->sampler->seed;
        HD_TRY_OR(hd_sampler_fill(thread, l->sampler, seed, c.epoch, l->recipe.dataset->count, l->order), NULL);
        l->ordered = c.epoch;
    }
    return l->order + c.batch * l->batch_size;
}

static uint64_t seed_of(const hd_loader *l, cursor c) {
    return hd_stream_seed(hd_stream_seed(l->seed, (uint64_t)c.epoch), (uint64_t)c.batch);
}

static void come_back(hd_thread *thread, const hd_ending *ending) { /* a longjmp left an item's function */
    hd_apart_end(thread, &((hd_loader *)ending->object)->apart);
}

static hd_tensors *make_here(hd_thread *thread, hd_loader *l) {
    const int64_t *indices = indices_of(thread, l, l->at), count = items_of(l, l->at);
    if (indices == NULL) return NULL;
    const uint64_t seed = seed_of(l, l->at);
    if (hd_recipe_gathers(&l->recipe)) return hd_batch_make(thread, &l->recipe, NULL, indices, count, seed);
    HD_TRY_OR(hd_ending_push(thread, come_back, l, 0, 0), NULL);
    const uint32_t ending = hd_ending_last(thread);
    hd_apart_begin(thread, &l->apart);
    hd_tensors *batch = hd_batch_make(thread, &l->recipe, &l->apart, indices, count, seed);
    hd_apart_end(thread, &l->apart);
    hd_ending_pop(thread, ending);
    return batch;
}

static hd_tensors *take_from_workers(hd_thread *thread, hd_loader *l) {
    const int64_t most = l->sampler->count < l->batch_size ? l->sampler->count : l->batch_size;
    if (l->workers == NULL) l->workers = hd_workers_start(&l->recipe, l->worker_count, l->prefetch, most);
    if (l->workers == NULL) return NULL;
    while (hd_workers_have_room(l->workers)) {
        const int64_t *indices = indices_of(thread, l, l->ahead), count = items_of(l, l->ahead);
        if (indices == NULL) return NULL;
        memcpy(hd_workers_room(l->workers), indices, (size_t)count * sizeof *indices);
        hd_workers_post(l->workers, count, seed_of(l, l->ahead));
        advance(l, &l->ahead);
    }
    return hd_workers_take(l->workers);
}

/* Where the loader's batches are; the list itself when all is there. */
static hd_tensors *bring(hd_thread *thread, hd_loader *l, hd_tensors *batch) {
    bool is_there = true;
    for (int64_t i = 0; i < batch->count; ++i)
        is_there = is_there && hd_device_equal(batch->items[i]->storage->device, l->device);
    if (is_there) return batch;
    hd_tensors *there = hd_tensors_new(thread, batch->count);
    for (int64_t i = 0; there != NULL && i < batch->count; ++i) {
        hd_tensor *t = hd_to(batch->items[i], l->device);
        if (t == NULL) return NULL;
        hd_tensors_put(there, i, t);
    }
    return there;
}

static hd_error next(hd_thread *thread, hd_loader *l, hd_batch *out) {
    HD_KEEP_NAME(thread);
    hd_tensors *batch = l->worker_count > 0 ? take_from_workers(thread, l) : make_here(thread, l);
    if (batch == NULL || hd_scope_own(thread, &batch->object) != HD_OK) return thread->error_code;
    batch = bring(thread, l, batch);
    if (batch == NULL) return thread->error_code;
    hd_tensor *x = hd_scope_share(thread, &batch->items[0]->object), *y = NULL;
    if (batch->count > 1) y = hd_scope_share(thread, &batch->items[1]->object);
    HD_TRY(thread->error_code);
    *out = (hd_batch){x, y, batch, items_of(l, l->at)};
    advance(l, &l->at);
    if (l->worker_count == 0) l->ahead = l->at;
    return HD_OK;
}

hd_batch hd_loader_next(hd_loader *loader) {
    hd_batch batch = {NULL, NULL, NULL, 0};
    HD_ENTER("hd_loader_next", batch);
    HD_TRY_OR(loader_check(loader), batch);
    HD_TRY_OR(check_fork(loader), batch);
    if (thread->executor->captures) {
        hd_fail(HD_ERROR_STATE,
                "calls are being captured, and a script would have this one batch for ever; take batches "
                "outside, and give them to the script with hd_script_set_input");
        return batch;
    }
    HD_USE(&loader->object, false, batch);
    if (next(thread, loader, &batch) != HD_OK) go_back(thread, loader);
    return batch;
}

/* ---- an epoch, each batch in a scope of its own ------------------------------------------------------------------ */
hd_epoch_walk hd_epoch_begin(hd_loader *loader, const char *file, int line) {
    hd_epoch_walk walk = {.file = file, .line = line};
    HD_ENTER("HD_BATCHES", walk);
    HD_TRY_OR(loader_check(loader), walk);
    walk.loader = loader;
    walk.epoch = loader->at.epoch;
    return walk;
}

static void end_batch(hd_epoch_walk *walk) {
    hd_scope_end(&walk->scope);
    walk->x = walk->y = NULL;
    walk->all = NULL;
    walk->count = 0;
}

bool hd_epoch_next(hd_epoch_walk *walk) {
    if (walk == NULL || walk->loader == NULL) return false;
    end_batch(walk);
    HD_ENTER("HD_BATCHES", false);
    HD_TRY_OR(loader_check(walk->loader), false);
    if (walk->loader->at.epoch != walk->epoch) return false;
    walk->scope = hd_scope_begin(&walk->scope, walk->file, walk->line);
    HD_KEEP_NAME(thread);
    const hd_batch batch = hd_loader_next(walk->loader);
    walk->x = batch.x;
    walk->y = batch.y;
    walk->all = batch.all;
    walk->count = batch.count;
    return batch.x != NULL;
}

void hd_epoch_end(hd_epoch_walk *walk) {
    if (walk == NULL || walk->loader == NULL) return;
    end_batch(walk);
    walk->loader = NULL;
}
