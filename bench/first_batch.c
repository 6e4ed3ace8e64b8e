/* What examples/digits.c does up to its first batch: it reads the images, and makes a network, an optimizer and a
 * loader. bench_process runs it and takes the time. */
#include "../examples/digits_file.h"

int main(void) {
    HD_SCOPE;
    image *file;
    digits train, test;
    const int64_t count = load(DIGITS_FILE, &file);
    if (count < 0) return 1;
    split(file, count, &train, &test);
    free(file);
    hd_seed(1);
    hd_module *model = HD_SEQUENTIAL(hd_linear(PIXELS, 128, NULL), hd_relu_layer(), hd_linear(128, CLASSES, NULL));
    hd_adam(hd_module_parameters(model), 0.005, NULL);
    hd_loader *loader =
        hd_batches(train.images, train.labels, 32, HD_OPTS(hd_loader_opts, .drop_last = true, .seed = 1));
    return hd_loader_next(loader).count == 32 ? hd_exit_status() : 1;
}
