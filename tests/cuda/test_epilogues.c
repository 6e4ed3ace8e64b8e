/* Scripts on CUDA's device whose products a library computes: what follows a product is a kernel behind its call, which
 * keeps the bias, in the order of one stream, also where runs are replayed. Library, driver and NVRTC are fakes. */
#include "support.h"
#include "cuda/fake_cublaslt.h"
#include "cuda/open_fake.h"

#define S HD_SHAPE
static fake_cublaslt *lt;

static void open_both(void) {
    with_driver(FAKE_CUDA, "1");
    setenv("HODU_CUBLASLT", FAKE_CUBLASLT, 1);
    void *library = dlopen(FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    require(library != NULL);
    lt = dlsym(library, "fake_cublaslt_now");
    require(hd_device_available(hd_cuda(0)));
}

static void require_close(hd_tensor *away, hd_tensor *here, double relative, double absolute) {
    char why[512] = "";
    hd_allclose_opts o = {.struct_size = sizeof o,
                          .relative = relative,
                          .absolute = absolute,
                          .explain = why,
                          .explain_capacity = sizeof why};
    const bool close = away != NULL && here != NULL && hd_allclose(hd_to(away, hd_cpu()), hd_to(here, hd_cpu()), &o);
    if (!close) fprintf(stderr, "%s\n", why);
    require(close && lt->wrong == NULL && hd_tensor_device(away).kind == HD_DEVICE_CUDA);
}

/* ---- a chain ----------------------------------------------------------------------------------------------------- */
enum { OPERANDS = 4, PRODUCTS = 3 };
static const hd_shape shapes[OPERANDS] = {{2, {6, 8}}, {2, {16, 8}}, {1, {16}}, {2, {8, 16}}};
static const char *const names[OPERANDS] = {"x", "w", "b", "v"};
static hd_tensor *layers(hd_tensor *const *in) {
    hd_tensor *h = hd_relu(hd_affine(in[0], in[1], in[2]));
    hd_tensor *y = hd_add(hd_affine(h, in[3], NULL), in[0]);
    return hd_mul_scalar(hd_matmul(y, hd_t(in[0])), 0.5);
}

static hd_script *script_of(hd_dtype dtype, hd_tensor *const *away, int level) {
    hd_builder *b = hd_builder_new("layers");
    hd_tensor *in[OPERANDS];
    hd_builder_start(b);
    for (int i = 0; i < OPERANDS; ++i) in[i] = hd_input(names[i], shapes[i], dtype);
    hd_builder_add_output(b, "y", layers(in));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_device(s, hd_cuda(0));
    hd_script_set_optimization_level(s, (hd_optimization_level)level);
    for (int i = 0; i < OPERANDS; ++i) hd_script_set_input(s, names[i], away[i]);
    require(hd_ok());
    return s;
}

static void chain(const void *of) {
    const hd_dtype dtype = *(const hd_dtype *)of;
    HD_SCOPE;
    hd_tensor *here[OPERANDS], *away[OPERANDS];
    open_both();
    for (int i = 0; i < OPERANDS; ++i) {
        here[i] = hd_mul_scalar(hd_randn(shapes[i], dtype), 0.5);
        away[i] = hd_to(here[i], hd_cuda(0));
    }
    hd_tensor *expected = layers(here), *eager = layers(away);
    const double relative = dtype == HD_F32 ? 1e-5 : 0x1p-6;
    require_close(eager, expected, relative, relative);
    require(lt->multiplied == PRODUCTS && lt->biases == 1);
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_script *s = script_of(dtype, away, level);
        for (int run = 0; run < 6; ++run) { /* outputs take turns at two addresses: the third and fourth are recorded */
            HD_SCOPE;
            const int computed = lt->computed, called = lt->multiplied;
            hd_tensor *y = hd_outputs_get(hd_script_run(s), "y");
            require_close(y, expected, relative, relative);
            if (level == HD_O0) require_close(y, eager, HD_ZERO, HD_ZERO);
            require(lt->computed == computed + PRODUCTS && lt->multiplied == called + (run < 4 ? PRODUCTS : 0));
        }
    }
    require(lt->biases == 1 + 3 * 4 && fake->replays >= 3 * 4);
}
static void what_follows_is_a_kernel(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16};
    for (int i = 0; i < 2; ++i) in_child(chain, &dtypes[i]);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
/* A small float beside f32 is widened first; integers are the template's, with what follows in its text. */
static void of_other_dtypes(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    open_both();
    hd_tensor *x = hd_randn(S(5, 12), HD_BF16), *w = hd_randn(S(12, 7), HD_F32), *i = hd_cast(w, HD_I32);
    hd_tensor *there_x = hd_to(x, hd_cuda(0)), *there_w = hd_to(w, hd_cuda(0)), *there_i = hd_to(i, hd_cuda(0));
    require_close(hd_matmul(there_x, there_w), hd_matmul(x, w), 1e-5, 1e-5);
    require(lt->multiplied == 1);
    hd_builder *b = hd_builder_new("dtypes");
    hd_builder_start(b);
    hd_tensor *in = hd_input("x", S(5, 12), HD_BF16), *weight = hd_input("w", S(12, 7), HD_F32),
              *whole = hd_input("i", S(12, 7), HD_I32);
    hd_builder_add_output(b, "wide", hd_relu(hd_matmul(hd_cast(in, HD_F32), weight)));
    hd_builder_add_output(b, "whole", hd_add(hd_matmul(hd_t(whole), whole), hd_scalar(3, HD_I32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_device(s, hd_cuda(0));
    hd_script_set_input(s, "x", there_x);
    hd_script_set_input(s, "w", there_w);
    hd_script_set_input(s, "i", there_i);
    for (int run = 0; run < 3; ++run) {
        HD_SCOPE;
        const hd_outputs *o = hd_script_run(s);
        require(o != NULL);
        require_close(hd_outputs_get(o, "wide"), hd_relu(hd_matmul(x, w)), 1e-5, 1e-5);
        require_close(hd_outputs_get(o, "whole"), hd_add(hd_matmul(hd_t(i), i), hd_scalar(3, HD_I32)), HD_ZERO,
                      HD_ZERO);
    }
    require(lt->computed == 1 + 3);
}
static void other_dtypes(void **state) {
    (void)state;
    in_child(of_other_dtypes, NULL);
}

RUN_WITH_FAKE(test(what_follows_is_a_kernel), test(other_dtypes))
