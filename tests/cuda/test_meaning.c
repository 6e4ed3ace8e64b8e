/* Kernels as CUDA's text, compiled as C++17 by a compiler of the host and run on the CPU, against the interpreter.
 * There is no GPU: it says that the text is C++ and means what it should. */
#include "support.h"

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"

#include "cuda/compiled.h"
#include "gpu/run_cases.h"

static void run_all(gpu_case *const *cases, int count) {
    char log[4096], *text = case_text(cases, count, HD_DIALECT_CUDA, true);
    size_t bytes;
    char *object = compiled_cuda(text, HODU_TEST_DATA "/../cuda", &bytes, log, sizeof log);
    void *library = object == NULL ? NULL : loaded_cuda(object, bytes);
    if (library == NULL) fail_msg("the text does not compile: %s", log);
    free(text);
    free(object);
    run_cases(library, cases, count);
}

enum { RANDOM = CASES, EVERY = 2 };
static bool has_f64(void) { return true; }
#include "gpu/suite.h"

int main(void) {
    shared_threads = 32;
    return run_suite(compiled_by() == NULL ? "there is no C++ compiler" : NULL);
}
