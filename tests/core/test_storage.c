/* Storages: bytes that live elsewhere, that are shared until written, that fail to come; and the two hooks of a
 * call. */
#include "support.h"

#include "core/execute.h"
#include "ops/op.h"

/* ---- a home elsewhere -------------------------------------------------------------------------------------------- */
static int fetched, left;
static bool fails;
static hd_error fetch(hd_storage *storage, hd_access access) {
    fetched++;
    if (fails) return hd_fail(HD_ERROR_DEVICE, "the bytes did not come");
    for (size_t i = 0; i < storage->bytes / 4; ++i) ((float *)storage->data)[i] = 7;
    if (access == HD_WRITE) storage->home = NULL; /* what is written is from now on here */
    return HD_OK;
}
static void leave(hd_storage *storage) {
    (void)storage;
    left++;
}
static const hd_home far_away = {.name = "far away", .fetch = fetch, .leave = leave};

static void bytes_come_from_their_home_or_fail_by_name(void **state) {
    (void)state;
    {
        HD_SCOPE;
        hd_tensor *x = hd_zeros(HD_SHAPE(3), HD_F32), *y = hd_zeros(HD_SHAPE(3), HD_F32);
        x->storage->home = &far_away;
        fails = true;
        assert_null(hd_add(x, y));
        assert_error(HD_ERROR_DEVICE, "hd_add: the bytes did not come");
        assert_null(hd_sum(x, HD_AXES(), NULL));
        assert_error(HD_ERROR_DEVICE, "hd_sum");
        assert_null(hd_data_f32(x));
        assert_error(HD_ERROR_DEVICE, "hd_data");
        hd_assign(y, x);
        assert_error(HD_ERROR_DEVICE, "hd_assign");
        assert_values(y, HD_F32, 0, 0, 0); /* nothing half written */
        fails = false;
        assert_values(hd_add(x, y), HD_F32, 7, 7, 7);
        assert_true(fetched > 4);
        hd_fill(x, 1);
        assert_values(x, HD_F32, 1, 1, 1);
        y->storage->home = &far_away;
    }
    assert_int_equal(left, 1);
}

/* ---- copy on write ----------------------------------------------------------------------------------------------- */
static void a_snapshot_shares_bytes_until_one_side_writes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_thread *thread = hd_thread_self();
    hd_tensor *x = hd_full(HD_SHAPE(4), HD_F32, 5);
    hd_storage *snapshot = hd_storage_snapshot(thread, x->storage);
    hd_tensor *y = hd_tensor_give(thread, hd_tensor_over(thread, snapshot, HD_F32, &x->layout));
    hd_object_release(thread, &snapshot->object);
    assert_ptr_equal(x->storage->data, y->storage->data);
    const uint32_t version = x->storage->version;
    hd_fill(x, 6);
    assert_ptr_not_equal(x->storage->data, y->storage->data);
    assert_true(x->storage->version > version);
    assert_values(x, HD_F32, 6, 6, 6, 6);
    assert_values(y, HD_F32, 5, 5, 5, 5);
    const void *alone = y->storage->data;
    hd_fill(y, 8); /* the last holder writes in place */
    assert_ptr_equal(y->storage->data, alone);
}

/* ---- borrowed memory --------------------------------------------------------------------------------------------- */
static void released(void *data, void *user) {
    (void)data;
    ++*(int *)user;
}
static void borrowed_memory_is_given_back_once(void **state) {
    (void)state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    int count = 0;
    {
        HD_SCOPE;
        hd_tensor *x = hd_from_blob(data, HD_SHAPE(2, 3), HD_F32, released, &count), *view = hd_t(x);
        hd_release(x);
        assert_int_equal(count, 0);
        assert_values(view, HD_F32, 1, 4, 2, 5, 3, 6);
        hd_fill(hd_select(view, 0, 0), 9);
        assert_true(data[0] == 9 && data[3] == 9 && data[1] == 2);
    }
    assert_int_equal(count, 1);
    HD_SCOPE;
    assert_null(hd_from_blob((char *)data + 1, HD_SHAPE(2), HD_F32, released, &count));
    assert_error(HD_ERROR_VALUE, "not aligned");
    assert_int_equal(count, 1); /* a tensor that was never made does not take the memory over */
}

/* ---- executor and observer --------------------------------------------------------------------------------------- */
typedef struct recorder {
    hd_executor executor;
    hd_observer observer;
    hd_executor *device;
    char log[512];
} recorder;
static recorder notes;

static hd_error note_run(hd_executor *self, hd_thread *thread, hd_call *call) {
    (void)self;
    snprintf(notes.log + strlen(notes.log), sizeof notes.log - strlen(notes.log), "%s ", call->op->name);
    return notes.device->run(notes.device, thread, call);
}
static hd_error note_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    strcat(notes.log, "write ");
    return notes.device->write(notes.device, thread, dst, src);
}
static void note_span_begin(hd_executor *self, hd_thread *thread, const char *name, bool is_call) {
    assert_true(is_call);
    (void)self, (void)thread;
    snprintf(notes.log + strlen(notes.log), sizeof notes.log - strlen(notes.log), "%s( ", name);
}
static void note_span_end(hd_executor *self, hd_thread *thread) {
    (void)self, (void)thread;
    strcat(notes.log, ") ");
}
static hd_error saw_run(hd_observer *self, hd_thread *thread, const hd_call *call) {
    (void)self, (void)thread;
    snprintf(notes.log + strlen(notes.log), sizeof notes.log - strlen(notes.log), "[%s %d->%d] ", call->op->name,
             call->input_count, call->output_count);
    return HD_OK;
}
static hd_error saw_write(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self, (void)thread, (void)dst, (void)src;
    strcat(notes.log, "[write] ");
    return HD_OK;
}

static void the_executor_runs_and_the_observer_sees_every_call(void **state) {
    (void)state;
    HD_SCOPE;
    hd_thread *thread = hd_thread_self();
    hd_tensor *x = hd_ones(HD_SHAPE(2, 2), HD_F32);
    notes = (recorder){.executor = {.name = "notes",
                                    .run = note_run,
                                    .write = note_write,
                                    .span_begin = note_span_begin,
                                    .span_end = note_span_end},
                       .observer = {.of_all = true, .ran = saw_run, .wrote = saw_write},
                       .device = thread->executor};
    hd_observer *observer = thread->observer;
    thread->executor = &notes.executor;
    thread->observer = &notes.observer;
    hd_tensor *y = hd_mean(hd_relu(x), HD_AXES(0), NULL);
    hd_add_(x, y);
    thread->executor = notes.device;
    thread->observer = observer;
    assert_string_equal(notes.log,
                        "relu [relu 1->1] mean( sum [sum 1->1] div [div 2->1] ) add_( add [add 2->1] write [write] ) ");
    assert_values(x, HD_F32, 2, 2, 2, 2);
}

RUN(test(bytes_come_from_their_home_or_fail_by_name), test(a_snapshot_shares_bytes_until_one_side_writes),
    test(borrowed_memory_is_given_back_once), test(the_executor_runs_and_the_observer_sees_every_call))
