/* The queue of a device, in order. Commands are encoded into a batch, which is a command buffer; neighbours of one kind
 * share an encoder. A batch is committed when it is full, and when somebody waits: for all, for bytes on the host, for
 * the time of a launch. Only so many batches are under way; whoever commits one more waits for the oldest. How each
 * ended is looked at once: one that ended in an error has left nobody knows what in memory, and the device is lost. */
#include "device/metal/driver.h"

#include <stdio.h>

/* ---- batches, under the lock ------------------------------------------------------------------------------------- */
static void end_encoding(hd_metal_device *d) {
    if (d->encoder == NULL) return;
    HD_SEND(d->encoder, end_encoding); /* Metal ends the process when one is released before */
    HD_SEND(d->encoder, release);
    d->encoder = NULL;
    d->encoding = HD_METAL_NOTHING;
}

static void abandon(hd_metal_device *d) {
    end_encoding(d);
    if (d->batch != NULL) HD_SEND(d->batch, release);
    d->batch = NULL;
    d->commands = 0;
    for (; d->finished < d->committed; d->finished++) HD_SEND(d->under_way[d->finished % HD_METAL_BATCHES], release);
}

static void lose(hd_metal_device *d, hd_objc_object *batch) {
    const char *why = hd_metal_says(HD_SEND(batch, error));
    snprintf(d->lost_by, sizeof d->lost_by, "%s", why != NULL ? why : "Metal does not say why");
    atomic_store_explicit(&d->is_lost, true, memory_order_release);
    abandon(d);
}

/* The oldest batch, when it is completed; false: that was the end of the device. */
static bool retire(hd_metal_device *d) {
    hd_objc_object *oldest = d->under_way[d->finished % HD_METAL_BATCHES];
    HD_SEND(oldest, wait);
    const bool completed = HD_SEND(oldest, status) == HD_MTL_STATUS_COMPLETED;
    if (completed) {
        d->finished++;
        HD_SEND(oldest, release);
    } else {
        lose(d, oldest);
    }
    return completed;
}

static bool commit(hd_metal_device *d) {
    if (d->batch == NULL) return true;
    end_encoding(d);
    if (d->committed - d->finished == HD_METAL_BATCHES && !retire(d)) return false;
    HD_SEND(d->batch, commit);
    d->under_way[d->committed++ % HD_METAL_BATCHES] = d->batch;
    d->batch = NULL;
    d->commands = 0;
    return true;
}

hd_error hd_metal_commit(hd_metal_device *d) { return commit(d) ? HD_OK : hd_metal_check_lost(d); }

hd_error hd_metal_enqueued(hd_metal_device *d) { return ++d->commands < HD_METAL_BATCH ? HD_OK : hd_metal_commit(d); }

hd_objc_object *hd_metal_last_batch(const hd_metal_device *d) {
    return HD_SEND(d->under_way[(d->committed - 1) % HD_METAL_BATCHES], retain);
}

hd_objc_object *hd_metal_encoder(hd_metal_device *d, hd_metal_encoding encoding) {
    const bool launches = encoding == HD_METAL_LAUNCHES;
    if (d->batch == NULL) d->batch = HD_SEND(HD_SEND(d->queue, command_buffer), retain);
    if (d->batch == NULL) {
        hd_metal_gave_nil(d, "commandBuffer", "hd_synchronize, and try again");
        return NULL;
    }
    if (d->encoding == encoding) return d->encoder;
    end_encoding(d);
    d->encoder = HD_SEND(launches ? HD_SEND(d->batch, compute_encoder) : HD_SEND(d->batch, blit_encoder), retain);
    if (d->encoder == NULL)
        hd_metal_gave_nil(d, launches ? "computeCommandEncoder" : "blitCommandEncoder",
                          "hd_synchronize, and try again");
    else
        d->encoding = encoding;
    return d->encoder;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */
/* For the oldest batch, while others may encode; false: batches up to `until` are done. */
static bool wait_for_oldest(hd_metal_device *d, uint64_t until) {
    pthread_mutex_lock(&d->lock);
    const uint64_t number = d->finished;
    hd_objc_object *oldest = number < until ? HD_SEND(d->under_way[number % HD_METAL_BATCHES], retain) : NULL;
    pthread_mutex_unlock(&d->lock);
    if (oldest == NULL) return false;
    HD_SEND(oldest, wait);
    pthread_mutex_lock(&d->lock);
    if (d->finished == number) retire(d); /* else another thread was quicker */
    pthread_mutex_unlock(&d->lock);
    HD_SEND(oldest, release);
    return true;
}

void hd_metal_wait_quietly(hd_metal_device *d) {
    void *pool = hd_objc.pool_push();
    pthread_mutex_lock(&d->lock);
    commit(d);
    const uint64_t until = d->committed;
    pthread_mutex_unlock(&d->lock);
    while (wait_for_oldest(d, until)) continue;
    hd_objc.pool_pop(pool);
}

hd_error hd_metal_wait(hd_metal_device *d) {
    hd_metal_wait_quietly(d);
    return hd_metal_check_lost(d);
}

bool hd_metal_is_idle(hd_metal_device *d) {
    bool done = true;
    void *pool = hd_objc.pool_push();
    pthread_mutex_lock(&d->lock);
    while (done && d->finished < d->committed) {
        done = HD_SEND(d->under_way[d->finished % HD_METAL_BATCHES], status) >= HD_MTL_STATUS_COMPLETED;
        if (done) retire(d);
    }
    const bool idle = d->commands == 0 && d->finished == d->committed;
    pthread_mutex_unlock(&d->lock);
    hd_objc.pool_pop(pool);
    return idle;
}

hd_error hd_metal_synchronize(hd_thread *thread, int index) {
    hd_metal_device *d = hd_metal_device_at(index);
    return d == NULL ? thread->error_code : hd_metal_wait(d);
}

/* ---- devices that are lost --------------------------------------------------------------------------------------- */
hd_error hd_metal_check_lost(hd_metal_device *d) {
    if (__builtin_expect(!atomic_load_explicit(&d->is_lost, memory_order_acquire), 1)) return HD_OK;
    return hd_fail(HD_ERROR_DEVICE,
                   "%s is lost, with all that was in its memory: a command buffer ended in an error (%s); a kernel "
                   "crashed or ran too long; start the program again",
                   hd_device_text((char[32]){0}, d->device), d->lost_by);
}
