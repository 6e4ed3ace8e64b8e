/* Weights that products keep packed, one for all that read it alike. Those of a script that nobody else looks at are
 * packed where they lie, so that they are in memory once; whoever wants to see such a constant finds it in a home that
 * unpacks it. */
#include "core/memory.h"
#include "machine/cpu.h"

#include <pthread.h>
#include <string.h>

enum {
    WORTH_MOVING = 1 << 16, /* bytes */
    SEVERAL = 2             /* products for which state is packed in every run: measured */
};

/* ---- the home of constants that are packed ----------------------------------------------------------------------- */
typedef struct packed_constant {
    hd_packed_matrix matrix;
    hd_block *packed;
    pthread_mutex_t lock;
    _Atomic bool ready; /* unpacked, too: the storage has a block of its own again */
} packed_constant;

/* The storage keeps its home for good: threads that share it look at `ready`, never at fields that another one
 * changes. */
static hd_error packed_fetch(hd_storage *s, hd_access access) {
    packed_constant *c = s->home_state;
    if (access == HD_WRITE) return hd_fail(HD_ERROR_INTERNAL, "a constant of a script is to be written");
    if (atomic_load_explicit(&c->ready, memory_order_acquire)) return HD_OK;
    pthread_mutex_lock(&c->lock);
    bool ready = atomic_load_explicit(&c->ready, memory_order_relaxed);
    hd_block *block = ready ? NULL : hd_block_new(hd_thread_self(), s->bytes);
    if (block != NULL) {
        hd_unpack(&c->matrix, hd_block_data(c->packed), hd_block_data(block));
        s->block = block;
        s->data = hd_block_data(block);
        ready = true;
        atomic_store_explicit(&c->ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&c->lock);
    return ready ? HD_OK : HD_ERROR_MEMORY;
}

static void packed_leave(hd_storage *s) {
    packed_constant *c = s->home_state;
    hd_block_release(hd_thread_self(), c->packed);
    pthread_mutex_destroy(&c->lock);
    hd_array_release(c);
}

static const hd_home packed_home = {.name = "packed", .fetch = packed_fetch, .leave = packed_leave};

static hd_block *share(hd_block *block) {
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return block;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */
/* The storage of a constant that may be packed where it lies: only this plan and the script itself have it. */
static hd_storage *movable(const hd_plan *p, const hd_cpu_weight *w, const hd_run *run) {
    if (w->sole == HD_NONE || run->own == NULL) return NULL;
    hd_storage *s = p->graph->constants[w->sole].storage;
    const int32_t holders = p->graph == run->own ? 1 : 2;
    return s->bytes >= WORTH_MOVING && s->block != NULL && atomic_load(&s->object.references) == holders &&
                   atomic_load(&s->block->references) == 1
               ? s
               : NULL;
}

/* The block of the storage becomes the packed one. */
static hd_error pack_in_place(hd_thread *thread, hd_cpu_weight *w, hd_storage *s, const hd_packed_matrix *matrix) {
    packed_constant *home = hd_array_resize(NULL, sizeof *home);
    if (home == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to pack a matrix");
    hd_block *workspace = hd_block_new(thread, hd_packed_matrix_workspace(matrix));
    if (workspace == NULL) {
        hd_array_release(home);
        return HD_ERROR_MEMORY;
    }
    hd_pack_in_place(matrix, s->data, hd_block_data(workspace));
    hd_block_release(thread, workspace);
    *home = (packed_constant){.matrix = *matrix, .packed = share(s->block)};
    pthread_mutex_init(&home->lock, NULL);
    if (s->home != NULL) s->home->leave(s);
    w->packed = s->block;
    s->block = NULL;
    s->data = NULL;
    s->home = &packed_home;
    s->home_state = home;
    return HD_OK;
}

static hd_product_config way_of(const hd_plan *p, uint32_t call) { return hd_cpu_plan_of(p)->products[call].config; }

static hd_error pack_constant(hd_plan *p, hd_thread *thread, hd_cpu_weight *w, const hd_run *run) {
    hd_packed_matrix matrix;
    const hd_call *call = &p->calls[w->call].call;
    hd_storage *s = call->inputs[1]->storage; /* the graph's own */
    const bool fits = w->sole != HD_NONE && hd_cpu_product_packs_in_place(call, way_of(p, w->call), &matrix);
    if (fits && s->home == &packed_home) { /* by another plan, before this one */
        const packed_constant *home = s->home_state;
        if (memcmp(&home->matrix, &matrix, sizeof matrix) == 0) w->packed = share(home->packed);
    } else if (fits) {
        if (s->home != NULL && hd_storage_bytes(thread, s, HD_READ) == NULL) return thread->error_code;
        s = movable(p, w, run);
        if (s != NULL) HD_TRY(pack_in_place(thread, w, s, &matrix));
    }
    if (w->packed != NULL) hd_cpu_plan_of(p)->is_packed[w->sole] = true;
    return HD_OK;
}

static hd_error pack(hd_plan *p, hd_thread *thread, hd_cpu_weight *w, const hd_run *run) {
    const hd_call *call = &p->calls[w->call].call;
    const bool is_constant = w->cell == HD_NONE;
    if (is_constant && w->packed == NULL) HD_TRY(pack_constant(p, thread, w, run));
    if (is_constant && w->packed != NULL) return HD_OK;
    const hd_storage *s = is_constant ? call->inputs[1]->storage : run->cells[w->cell];
    const uint32_t changes = atomic_load_explicit(&s->changes, memory_order_relaxed);
    if (w->packed != NULL && w->data == s->data && w->changes == changes && s->block != NULL)
        return HD_OK; /* borrowed memory tells nobody */
    if (w->packed == NULL) w->packed = hd_block_new(thread, w->bytes);
    if (w->packed == NULL) return HD_ERROR_MEMORY;
    w->data = s->data;
    w->changes = changes;
    const hd_error status = hd_cpu_product_pack(thread, call, way_of(p, w->call), hd_block_data(w->packed));
    if (status != HD_OK) { /* nothing is packed: the next run tries again */
        hd_block_release(thread, w->packed);
        w->packed = NULL;
    }
    return status;
}

hd_error hd_cpu_pack_weights(hd_plan *p, hd_thread *thread, const hd_run *run) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    for (uint32_t i = 0; i < own->weight_count; ++i)
        if (own->weights[i].readers > 0) HD_TRY(pack(p, thread, &own->weights[i], run));
    return HD_OK;
}

void hd_cpu_forget_weights(hd_plan *p, hd_thread *thread) {
    const hd_cpu_plan *own = hd_cpu_plan_of(p);
    for (uint32_t i = 0; i < own->weight_count; ++i) {
        hd_cpu_weight *w = &own->weights[i];
        if (w->cell == HD_NONE || w->packed == NULL) continue;
        hd_block_release(thread, w->packed);
        w->packed = NULL;
    }
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */
/* How many products read a second operand as this one does: for a forward step and for its gradient it is packed
 * differently. */
static uint32_t *readers_of(const hd_plan *p, uint32_t product) {
    const hd_lower_kind kind = hd_node_lowers(p->graph, product);
    const hd_matmul_attributes *given = kind == HD_LOWER_MATMUL ? hd_node_attributes(p->graph, product) : NULL;
    const bool transposed =
        given != NULL ? given->transpose_b : kind == HD_LOWER_AFFINE || kind == HD_LOWER_CONV_TRANSPOSE;
    return &hd_cpu_plan_of(p)->readers[(size_t)hd_node_inputs(p->graph, product)[1] * 2 + transposed];
}

hd_error hd_cpu_count_readers(hd_plan *p) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    const size_t bytes = ((size_t)p->graph->node_count * 2 + 1) * sizeof *own->readers;
    own->readers = hd_array_resize(NULL, bytes);
    if (own->readers == NULL) return hd_plan_no_memory(p);
    memset(own->readers, 0, bytes);
    for (uint32_t i = 0; i < p->graph->node_count; ++i)
        if (hd_node_is_product(p->machine, p->graph, i, NULL)) ++*readers_of(p, i);
    return HD_OK;
}

/* What a run does not change is packed once. State that it does change is packed once in a run, when several products
 * read it; one alone packs it on the way, which is quicker. */
bool hd_cpu_keeps_weight(const hd_plan *p, uint32_t node) {
    const hd_graph *g = p->graph;
    const uint32_t weight = hd_node_inputs(g, node)[1];
    if (hd_fusion_is_steady(g, &p->fusion, weight)) return true;
    return g->nodes[p->fusion.source[weight]].op == HD_NODE_CELL && *readers_of(p, node) >= SEVERAL;
}

/* The weight of a call, with those of the same source in a chain that begins at *first. */
static void find_weight(hd_plan *p, uint32_t call, uint32_t source, uint32_t *first) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    const hd_call *c = &p->calls[call].call;
    uint32_t *weight = &own->products[call].weight;
    for (uint32_t i = *first; i != HD_NONE; i = own->weights[i].next) {
        hd_cpu_weight *w = &own->weights[i];
        if (!hd_cpu_product_packs_alike(c, way_of(p, call), &p->calls[w->call].call, way_of(p, w->call))) continue;
        w->readers++;
        *weight = i;
        return;
    }
    const size_t bytes = hd_cpu_product_packed_bytes(c, way_of(p, call));
    if (bytes == 0) return;
    const hd_node *n = &p->graph->nodes[source];
    *weight = own->weight_count++;
    own->weights[*weight] = (hd_cpu_weight){.call = call,
                                            .readers = 1,
                                            .cell = n->op == HD_NODE_CELL ? n->first : HD_NONE,
                                            .sole = HD_NONE,
                                            .next = *first,
                                            .bytes = bytes};
    *first = *weight;
}

/* How often what is in memory is read, through views or not; leaving the run counts, too. */
static void count_uses(const hd_graph *g, const uint32_t *source, uint32_t *uses) {
    memset(uses, 0, (g->node_count + 1) * sizeof *uses);
    for (uint32_t i = 0; i < g->node_count; ++i)
        for (int k = 0; source[i] == i && k < g->nodes[i].input_count; ++k) ++uses[source[hd_node_inputs(g, i)[k]]];
    for (uint32_t i = 0; i < g->output_count; ++i) ++uses[source[g->outputs[i].node]];
    for (uint32_t i = 0; i < g->cell_count; ++i) ++uses[source[g->cells[i].update]];
}

static uint32_t weight_of(const hd_plan *p, const hd_plan_call *c) {
    return hd_node_inputs(p->graph, (uint32_t)(c->call.outputs[0] - p->tensors))[1];
}

static uint32_t source_of(const hd_plan *p, const hd_cpu_weight *w) {
    return p->fusion.source[weight_of(p, &p->calls[w->call])];
}

/* firsts: room for a number to each node. */
static void find_weights(hd_plan *p, uint32_t *firsts) {
    for (uint32_t i = 0; i < p->graph->node_count; ++i) firsts[i] = HD_NONE;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const hd_launch *l = &p->launches[i];
        if (l->kind != HD_RUN_PRODUCT || !hd_cpu_keeps_weight(p, l->node)) continue;
        const uint32_t weight = weight_of(p, &p->calls[l->call]), source = p->fusion.source[weight];
        const bool copied = p->buffer_of[weight] != p->buffer_of[source]; /* in every run */
        if (!copied) find_weight(p, l->call, source, &firsts[source]);
    }
}

/* State that changes, and which in the end fewer products read alike than it takes, is left to them. */
static void drop_weights(hd_plan *p) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    for (uint32_t i = 0; i < p->call_count; ++i) {
        hd_cpu_product_plan *c = &own->products[i];
        if (c->weight == HD_NONE) continue;
        const hd_cpu_weight *w = &own->weights[c->weight];
        if (w->readers < SEVERAL && !hd_fusion_is_steady(p->graph, &p->fusion, source_of(p, w))) c->weight = HD_NONE;
    }
    for (uint32_t i = 0; i < own->weight_count; ++i) {
        hd_cpu_weight *w = &own->weights[i];
        if (own->products[w->call].weight == HD_NONE) w->readers = 0;
    }
}

static void find_sole_weights(hd_plan *p, uint32_t *uses) {
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    if (own->weight_count > 0) count_uses(p->graph, p->fusion.source, uses);
    for (uint32_t i = 0; i < own->weight_count; ++i) {
        hd_cpu_weight *w = &own->weights[i];
        const uint32_t source = source_of(p, w);
        const hd_node *n = &p->graph->nodes[source];
        if (n->op == HD_NODE_CONSTANT && uses[source] == w->readers) w->sole = n->first;
    }
}

hd_error hd_cpu_find_weights(hd_plan *p) {
    const hd_graph *g = p->graph;
    hd_cpu_plan *own = hd_cpu_plan_of(p);
    own->is_packed = hd_array_resize(NULL, g->constant_count + 1);
    own->weights = hd_array_resize(NULL, (p->call_count + 1) * sizeof *own->weights);
    uint32_t *numbers = hd_array_resize(NULL, (g->node_count + 1) * sizeof *numbers); /* one for each node */
    const bool fits = own->is_packed != NULL && own->weights != NULL && numbers != NULL;
    if (fits) {
        memset(own->is_packed, 0, g->constant_count + 1);
        find_weights(p, numbers);
        drop_weights(p);
        find_sole_weights(p, numbers);
    }
    hd_array_release(numbers);
    hd_array_release(own->readers);
    own->readers = NULL;
    return fits ? HD_OK : hd_plan_no_memory(p);
}
