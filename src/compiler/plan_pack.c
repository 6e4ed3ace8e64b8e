/* Weights that products keep packed. Those of a script that nobody else looks at are packed where they lie, so that they are in
 * memory once; whoever wants to see such a constant finds it in a home that unpacks it. */
#include "compiler/plan.h"
#include "core/memory.h"

#include <pthread.h>
#include <string.h>

enum { WORTH_MOVING = 1 << 16 }; /* bytes */

/* ---- the home of constants that are packed ------------------------------------------------------------------------------- */
typedef struct packed_constant {
    hd_packed_matrix matrix;
    hd_block *packed;
    pthread_mutex_t lock;
    _Atomic bool ready; /* unpacked, too: the storage has a block of its own again */
} packed_constant;

/* The storage keeps its home for good: threads that share it look at `ready`, never at fields that another one changes. */
static hd_error fetch(hd_storage *s, hd_access access) {
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

static void leave(hd_storage *s) {
    packed_constant *c = s->home_state;
    hd_block_release(hd_thread_self(), c->packed);
    pthread_mutex_destroy(&c->lock);
    hd_array_release(c);
}

static const hd_home packed_home = {.name = "packed", .fetch = fetch, .leave = leave};

static hd_block *share(hd_block *block) {
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return block;
}

/* ---- packing ------------------------------------------------------------------------------------------------------------- */
/* The storage of a constant that may be packed where it lies: only this plan and the script itself have it. */
static hd_storage *movable(const hd_plan *p, const hd_plan_call *c, const hd_run *run) {
    if (c->sole == HD_NONE || run->own == NULL) return NULL;
    hd_storage *s = p->graph->constants[c->sole].storage;
    const int32_t holders = p->graph == run->own ? 1 : 2;
    return s->bytes >= WORTH_MOVING && s->block != NULL && atomic_load(&s->object.references) == holders &&
                   atomic_load(&s->block->references) == 1
               ? s
               : NULL;
}

/* The block of the storage becomes the packed one. */
static hd_error pack_in_place(hd_thread *thread, hd_plan_call *c, hd_storage *s, const hd_packed_matrix *matrix) {
    packed_constant *home = hd_array_resize(NULL, sizeof *home);
    if (home == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to pack a matrix");
    hd_block *room = hd_block_new(thread, hd_packed_matrix_room(matrix));
    if (room == NULL) {
        hd_array_release(home);
        return HD_ERROR_MEMORY;
    }
    hd_pack_in_place(matrix, s->data, hd_block_data(room));
    hd_block_release(thread, room);
    *home = (packed_constant){.matrix = *matrix, .packed = share(s->block)};
    pthread_mutex_init(&home->lock, NULL);
    if (s->home != NULL) s->home->leave(s);
    c->packed = s->block;
    s->block = NULL;
    s->data = NULL;
    s->home = &packed_home;
    s->home_state = home;
    return HD_OK;
}

static hd_error pack_constant(hd_plan *p, hd_thread *thread, hd_plan_call *c, const hd_run *run) {
    hd_packed_matrix matrix;
    hd_storage *s = c->call.inputs[1]->storage; /* the graph's own */
    const bool fits = c->sole != HD_NONE && hd_cpu_product_packs_in_place(&c->call, c->way, &matrix);
    if (fits && s->home == &packed_home) { /* by another plan, before this one */
        const packed_constant *home = s->home_state;
        if (memcmp(&home->matrix, &matrix, sizeof matrix) == 0) c->packed = share(home->packed);
    } else if (fits) {
        if (s->home != NULL && hd_storage_bytes(thread, s, HD_READ) == NULL) return thread->error_code;
        s = movable(p, c, run);
        if (s != NULL) HD_TRY(pack_in_place(thread, c, s, &matrix));
    }
    if (c->packed != NULL) p->is_packed[c->sole] = true;
    return HD_OK;
}

hd_error hd_plan_pack_weights(hd_plan *p, hd_thread *thread, hd_plan_call *c, const hd_run *run) {
    if (c->packed_bytes == 0) return HD_OK;
    const bool is_constant = c->cell == HD_NONE;
    if (is_constant && c->packed == NULL) HD_TRY(pack_constant(p, thread, c, run));
    if (is_constant && c->packed != NULL) return HD_OK;
    const hd_storage *s = is_constant ? c->call.inputs[1]->storage : run->cells[c->cell];
    const uint32_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    if (c->packed != NULL && c->packed_data == s->data && c->packed_version == version && s->block != NULL)
        return HD_OK; /* borrowed memory tells nobody */
    if (c->packed == NULL) c->packed = hd_block_new(thread, c->packed_bytes);
    if (c->packed == NULL) return HD_ERROR_MEMORY;
    c->packed_data = s->data;
    c->packed_version = version;
    const hd_error status = hd_cpu_product_pack(thread, &c->call, c->way, hd_block_data(c->packed));
    if (status != HD_OK) { /* nothing is packed: the next run tries again */
        hd_block_release(thread, c->packed);
        c->packed = NULL;
    }
    return status;
}

/* ---- planning ------------------------------------------------------------------------------------------------------------- */
hd_error hd_plan_find_sole_weights(hd_plan *p) {
    const hd_graph *g = p->graph;
    p->is_packed = hd_array_resize(NULL, g->constant_count + 1);
    uint32_t *uses = p->packs ? hd_array_resize(NULL, (g->node_count + 1) * sizeof *uses) : NULL;
    if (p->is_packed == NULL || (p->packs && uses == NULL)) {
        hd_array_release(uses);
        return hd_plan_no_memory(p);
    }
    memset(p->is_packed, 0, g->constant_count + 1);
    if (!p->packs) return HD_OK;
    memset(uses, 0, (g->node_count + 1) * sizeof *uses);
    for (uint32_t i = 0; i < g->node_count; ++i)
        for (int k = 0; k < g->nodes[i].input_count; ++k) ++uses[hd_node_inputs(g, i)[k]];
    for (uint32_t i = 0; i < g->output_count; ++i) ++uses[g->outputs[i].node];
    for (uint32_t i = 0; i < g->cell_count; ++i) ++uses[g->cells[i].update];
    for (uint32_t i = 0; i < p->call_count; ++i) {
        hd_plan_call *c = &p->calls[i];
        if (c->packed_bytes == 0 || c->cell != HD_NONE) continue;
        const uint32_t weight = hd_node_inputs(g, (uint32_t)(c->call.outputs[0] - p->tensors))[1];
        if (g->nodes[weight].op == HD_NODE_CONSTANT && uses[weight] == 1) c->sole = g->nodes[weight].first;
    }
    hd_array_release(uses);
    return HD_OK;
}
