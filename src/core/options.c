/* Option structs grow: a caller built against an older header gives a shorter one. */
#include "core/options.h"

#include <string.h>

hd_error hd_read_options(void *out, size_t size, const void *given) {
    memset(out, 0, size);
    if (given == NULL) return HD_OK;
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof(size_t) || given_size > 4096)
        return hd_fail(HD_ERROR_VALUE, "the options' struct_size is %zu; make options with HD_OPTS or HD_DEFAULTS",
                       given_size);
    memcpy(out, given, given_size < size ? given_size : size);
    return HD_OK;
}
