/* DLPack with tensors on CUDA's device, whose driver is a fake: its memory is the host's, so that tests can look. */
#include "support.h"
#include "cuda/open_fake.h"

#include <hodu/dlpack.h>

static void lends(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    with_driver(FAKE_CUDA, "1");
    hd_tensor *t = hd_to(HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 2, 3, 4), hd_cuda(0));
    DLManagedTensorVersioned *m = hd_to_dlpack(hd_transpose(t, 0, 1));
    require(m != NULL && m->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    require(m->dl_tensor.device.device_type == kDLCUDA && m->dl_tensor.device.device_id == 0);
    require(m->dl_tensor.strides[0] == 1 && m->dl_tensor.strides[1] == 2);
    hd_fill(t, 7); /* who has the tensor writes it elsewhere */
    hd_tensor *back = hd_to(hd_from_dlpack(m), hd_cpu());
    float got[4];
    require(hd_to_array(back, got, HD_F32, 4) && got[0] == 1 && got[1] == 3 && got[2] == 2 && got[3] == 4);
    DLManagedTensor *copy = hd_to_dlpack_unversioned(t);
    DLManagedTensorVersioned *own = hd_to_dlpack(t);
    require(copy != NULL && own != NULL && copy->dl_tensor.device.device_type == kDLCUDA);
    require(copy->dl_tensor.data != own->dl_tensor.data); /* who gets it may write it */
    copy->deleter(copy);
    own->deleter(own);
    hd_tensor *taken = hd_from_dlpack_unversioned(hd_to_dlpack_unversioned(t)); /* a copy of the copy */
    require(hd_tensor_device(taken).kind == HD_DEVICE_CUDA && hd_to_array(taken, got, HD_F32, 4) && got[3] == 7);
    require(hd_ok());
}
static void tensors_are_lent_to_be_read(void **state) {
    (void)state;
    in_child(lends, NULL);
}

static void missing(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    with_driver(FAKE_CUDA, "1");
    int64_t one = 1;
    float data = 0;
    DLManagedTensorVersioned m = {
        .version = {1, 0},
        .dl_tensor = {.data = &data, .device = {kDLCUDA, 9}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &one}};
    require(hd_from_dlpack(&m) == NULL);
    require_error(HD_ERROR_DEVICE, "hd_from_dlpack: ");
}
static void a_device_that_is_not_there_is_an_error(void **state) {
    (void)state;
    in_child(missing, NULL);
}

RUN_WITH_FAKE(test(tensors_are_lent_to_be_read), test(a_device_that_is_not_there_is_an_error))
