/* The home of what a script keeps on a device between its runs. */
#include "core/resident.h"

typedef struct resident {
    hd_away_copy copy; /* of the bytes, on the host */
    hd_block *there;
    bool is_borrowed; /* the host's bytes are somebody's memory: they are always up to date */
} resident;
static resident *resident_of(const hd_storage *s) { return s->home_state; }

static hd_error copy_down(hd_thread *thread, const hd_storage *s, void *out) {
    const hd_block *there = resident_of(s)->there;
    return s->bytes == 0
               ? HD_OK
               : hd_device_interface_of(there->device.kind)
                     ->copy(thread, (hd_address){hd_cpu(), out}, (hd_address){there->device, there->address}, s->bytes);
}
static hd_error read_resident(hd_storage *s, void *out) { return copy_down(hd_thread_self(), s, out); }

static void resident_destroy(hd_thread *thread, resident *r) {
    if (r->there != NULL) hd_block_release(thread, r->there);
    hd_away_copy_release(thread, &r->copy);
    hd_array_release(r);
}

/* Writing ends the home: the bytes are the host's again. */
static hd_error resident_fetch(hd_storage *s, hd_access access) {
    hd_thread *thread = hd_thread_self();
    resident *r = resident_of(s);
    if (access == HD_READ) return r->is_borrowed ? HD_OK : hd_away_copy_fetch(thread, s, &r->copy, NULL, read_resident);
    hd_block *block = r->copy.block; /* writers are alone */
    if (!r->is_borrowed) {
        if (block == NULL) block = hd_away_copy_new(thread, s, read_resident);
        if (block == NULL) return thread->error_code;
        r->copy.block = NULL;
        s->block = block;
        s->data = hd_block_data(block);
    }
    resident_destroy(thread, r);
    s->home = NULL;
    return HD_OK;
}
static void resident_leave(hd_storage *s) {
    resident_destroy(hd_thread_self(), resident_of(s));
    s->home = NULL;
}
static const hd_home resident_home = {.name = "script on a device", .fetch = resident_fetch, .leave = resident_leave};

/* Moves the bytes of a storage of the host, which has no home, to a device. */
static hd_error move_in(hd_thread *thread, hd_storage *s, hd_device device) {
    const hd_device_interface *interface = hd_device_interface_of(device.kind);
    resident *r = hd_array_resize(NULL, sizeof *r);
    if (r == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for state on a device");
    *r = (resident){.is_borrowed = s->block == NULL};
    hd_away_copy_init(&r->copy);
    r->there = interface->allocate(thread, device.index, s->bytes > 0 ? s->bytes : 1);
    hd_error status = r->there == NULL ? thread->error_code : HD_OK;
    if (status == HD_OK && s->bytes > 0)
        status =
            interface->copy(thread, (hd_address){device, r->there->address}, (hd_address){hd_cpu(), s->data}, s->bytes);
    if (status != HD_OK) {
        resident_destroy(thread, r);
        return status;
    }
    r->copy.block = s->block; /* what the host has stays valid until the device writes */
    r->copy.here = true;
    s->block = NULL;
    s->home_state = r;
    s->home = &resident_home;
    return HD_OK;
}

static hd_error copy_up(hd_thread *thread, const hd_storage *s) {
    const hd_block *there = resident_of(s)->there;
    return s->bytes == 0 ? HD_OK
                         : hd_device_interface_of(there->device.kind)
                               ->copy(thread, (hd_address){there->device, there->address},
                                      (hd_address){hd_cpu(), s->data}, s->bytes);
}

static bool is_resident(const hd_storage *s, hd_device device) {
    return s->home == &resident_home && hd_device_equal(resident_of(s)->there->device, device);
}

hd_block *hd_resident_block(hd_thread *thread, hd_storage *s, hd_device device) {
    if (hd_storage_is_away(s)) {
        if (hd_device_equal(s->device, device)) return hd_away_block(thread, s);
        hd_fail(HD_ERROR_DEVICE,
                "state is on %s, and the script runs on %s; hd_module_to moves it, and "
                "hd_script_set_device the script",
                hd_device_text((char[32]){0}, s->device), hd_device_text((char[32]){0}, device));
        return NULL;
    }
    if (is_resident(s, device)) { /* borrowed memory may have been written without notice */
        if (resident_of(s)->is_borrowed && copy_up(thread, s) != HD_OK) return NULL;
        return resident_of(s)->there;
    }
    if (s->home != NULL) { /* it comes home first; nobody sees a change */
        if (hd_storage_bytes(thread, s, HD_WRITE) == NULL) return NULL;
        atomic_fetch_sub_explicit(&s->version, 1, memory_order_relaxed);
    }
    return move_in(thread, s, device) == HD_OK ? resident_of(s)->there : NULL;
}

bool hd_resident_is_alone(const hd_storage *s, hd_device device) {
    const hd_block *block = hd_storage_is_away(s) ? s->block : is_resident(s, device) ? resident_of(s)->there : NULL;
    return block != NULL && atomic_load_explicit(&block->references, memory_order_acquire) == 1;
}

hd_error hd_resident_update(hd_thread *thread, hd_storage *s, hd_block **block) {
    if (hd_storage_is_away(s)) {
        hd_block *same = s->block;
        hd_away_exchange(s, block != NULL ? block : &same);
        return HD_OK;
    }
    resident *r = resident_of(s);
    if (block != NULL) {
        hd_block *before = r->there;
        r->there = *block;
        *block = before;
    }
    if (r->is_borrowed) return copy_down(thread, s, s->data);
    hd_away_copy_forget(thread, &r->copy);
    s->data = NULL;
    return HD_OK;
}
