/* What functions that make layers have in common. */
#include "nn/module.h"

void hd_making_begin(hd_making *making, hd_thread *thread) {
    making->thread = hd_name_keep(thread);
    making->eager = hd_eager_begin(&making->eager);
    making->scope = hd_scope_within(thread, &making->scope);
    making->before = hd_generator_now(thread);
}

hd_module *hd_making_end(hd_making *making, hd_module *m) {
    hd_thread *thread = making->thread;
    if (thread->error_code == HD_OK) hd_keep_object(m);
    hd_scope_close(thread, &making->scope);
    if (thread->error_code != HD_OK) hd_generator_give_back(thread, &making->before);
    hd_eager_end(&making->eager);
    hd_name_kept(&making->thread);
    return thread->error_code == HD_OK ? m : NULL;
}

hd_error hd_making_dtype(hd_thread *thread, hd_dtype given, hd_dtype *dtype) {
    HD_TRY(hd_dtype_resolve(thread, given, dtype));
    return hd_dtype_is_float(*dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_DTYPE, "a layer of %s; expected a float", hd_dtype_name(*dtype));
}
