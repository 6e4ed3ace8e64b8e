/* Scripts in a line or two, for tests in which recording itself goes well. */
#ifndef HD_TESTS_BUILDERS_H
#define HD_TESTS_BUILDERS_H

#include "support.h"

/* A builder that is recording. */
static inline hd_builder *started(const char *name) {
    hd_builder *b = hd_builder_new(name);
    hd_builder_start(b);
    assert_ok();
    return b;
}

/* Ends recording; the script of what was recorded. */
static inline hd_script *built(hd_builder *b) {
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    if (s == NULL) fail_msg("%s", hd_error_message());
    return s;
}

/* An output of another run; NULL when the run fails. */
static inline hd_tensor *output(hd_script *s, const char *name) {
    hd_outputs *o = hd_script_run(s);
    return o == NULL ? NULL : hd_outputs_get(o, name);
}

#endif
