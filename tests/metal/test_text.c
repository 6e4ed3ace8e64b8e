/* Kernels as Metal's text, compiled as C++14 by a compiler of the host and run on the CPU, against the interpreter.
 * This is not a Mac: it says that the text is C++ and means what it should. */
#include "support.h"

#include "compiler/rows.h" /* its reading of the words ends where that of the interpreter begins */

#include "compiler/interpreter.h"

#include "gpu/run_cases.h"
#include "metal/compiled.h"

static void run_all(gpu_case *const *cases, int count) {
    char log[4096], *text = case_text(cases, count, HD_DIALECT_METAL, false);
    void *library = compiled_text(text, HODU_TEST_DATA "/../metal", log, sizeof log);
    if (library == NULL) fail_msg("the text does not compile: %s", log);
    free(text);
    run_cases(library, cases, count);
}

enum { RANDOM = CASES, EVERY = 1 };
static bool has_f64(void) { return false; }
#include "gpu/suite.h"

int main(void) { return run_suite(compiled_by() == NULL ? "there is no C++ compiler" : NULL); }
