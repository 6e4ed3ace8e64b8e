/* The registry of the user's ops: a table that only grows, looked at without a lock. Scripts and files know ops by
 * name, so that an op may lie anywhere in it. */
#include "ops/custom.h"
#include "core/os.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PLACES = 4096, MOST = PLACES / 2 };

typedef struct entry {
    hd_custom_op op; /* its name is the one here */
    char name[HD_CUSTOM_NAME_MOST + 1];
} entry;

static _Atomic(entry *) places[PLACES];
static int count; /* under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where a name is, or would be: the table is never full. */
static _Atomic(entry *) *place_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c != '\0'; ++c) hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (;; ++hash) {
        _Atomic(entry *) *place = &places[hash % PLACES];
        const entry *e = atomic_load_explicit(place, memory_order_acquire);
        if (e == NULL || strcmp(e->name, name) == 0) return place;
    }
}

const hd_custom_op *hd_custom_find(const char *name) {
    const entry *e = atomic_load_explicit(place_of(name), memory_order_acquire);
    return e == NULL ? NULL : &e->op;
}

const hd_custom_op *hd_custom_of(const hd_custom_attributes *attributes) {
    const hd_custom_op *op = hd_custom_find(attributes->op.text);
    if (op == NULL)
        hd_fail(HD_ERROR_STATE,
                "this process has no op \"%s\" of its own; hd_custom_register registers it, before it is called and "
                "before a script with it is loaded",
                attributes->op.text);
    return op;
}

/* ---- registering ------------------------------------------------------------------------------------------------- */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_name(const char *name) {
    size_t n = 0;
    for (; n <= HD_CUSTOM_NAME_MOST && name[n] != '\0'; ++n) {
        const bool other = (name[n] >= '0' && name[n] <= '9') || name[n] == '_' || name[n] == '.' || name[n] == '-';
        if (!is_letter(name[n]) && (n == 0 || !other)) return false;
    }
    return n > 0 && n <= HD_CUSTOM_NAME_MOST;
}

static hd_error check(const hd_custom_op *op) {
    if (op->name == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "the op's `name` is NULL");
    if (!is_name(op->name))
        return hd_fail(HD_ERROR_VALUE,
                       "an op of the name \"%.80s\"; names are 1 to %d letters, digits, '_', '.' and '-', a letter "
                       "first",
                       op->name, HD_CUSTOM_NAME_MOST);
    if (op->compute == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`compute` of the op \"%s\" is NULL", op->name);
    if (op->inputs < 1 || op->inputs > HD_MAX_INPUTS || (op->most_inputs != 0 && op->most_inputs < op->inputs) ||
        op->most_inputs > HD_MAX_INPUTS)
        return hd_fail(HD_ERROR_VALUE, "the op \"%s\" takes %d to %d inputs; there must be 1 to %d", op->name,
                       op->inputs, op->most_inputs != 0 ? op->most_inputs : op->inputs, HD_MAX_INPUTS);
    return HD_OK;
}

static bool same(const hd_custom_op *a, const hd_custom_op *b) {
    return a->inputs == b->inputs && a->most_inputs == b->most_inputs && a->shapes == b->shapes &&
           a->compute == b->compute && a->vjp == b->vjp && a->vjp_without_inputs == b->vjp_without_inputs &&
           a->vjp_without_outputs == b->vjp_without_outputs && a->has_effects == b->has_effects &&
           a->stablehlo == b->stablehlo && a->user == b->user;
}

/* Under the lock. */
static hd_error add(const hd_custom_op *op) {
    _Atomic(entry *) *place = place_of(op->name);
    const entry *before = *place;
    if (before != NULL)
        return same(&before->op, op)
                   ? HD_OK
                   : hd_fail(HD_ERROR_STATE, "another op \"%s\" is registered already; give this one another name",
                             op->name);
    if (count == MOST) return hd_fail(HD_ERROR_STATE, "%d ops are registered already, the most there can be", MOST);
    entry *e = hd_array_resize(NULL, sizeof *e);
    if (e == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to register the op \"%s\"", op->name);
    e->op = *op;
    snprintf(e->name, sizeof e->name, "%s", op->name);
    e->op.name = e->name;
    ++count;
    atomic_store_explicit(place, e, memory_order_release);
    return HD_OK;
}

static void lock_registry(void) { pthread_mutex_lock(&lock); }
static void unlock_registry(void) { pthread_mutex_unlock(&lock); }
static void handle_forks(void) { hd_os_at_fork(lock_registry, unlock_registry, unlock_registry); }

void hd_custom_register(const hd_custom_op *op) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    HD_ENTER("hd_custom_register", );
    if (op == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`op` is NULL");
        return;
    }
    HD_READ_OPTS(hd_custom_op, op, );
    if (check(&options) != HD_OK) return;
    if (options.most_inputs == 0) options.most_inputs = options.inputs;
    HD_HOLD_ERRORS(thread); /* a handler may register something */
    pthread_once(&once, handle_forks);
    pthread_mutex_lock(&lock);
    add(&options);
    pthread_mutex_unlock(&lock);
}

bool hd_custom_is_registered(const char *name) { return name != NULL && is_name(name) && hd_custom_find(name) != NULL; }
