/* hodu: deep learning in plain C. This header includes all the others but value.h, which stands alone, and dlpack.h. */
#ifndef HODU_H
#define HODU_H

#include <hodu/autocast.h>
#include <hodu/base.h>
#include <hodu/builder.h>
#include <hodu/cache.h>
#include <hodu/checkpoint.h>
#include <hodu/compile.h>
#include <hodu/custom.h>
#include <hodu/data.h>
#include <hodu/device.h>
#include <hodu/dtype.h>
#include <hodu/error.h>
#include <hodu/export.h>
#include <hodu/grad.h>
#include <hodu/io.h>
#include <hodu/init.h>
#include <hodu/list.h>
#include <hodu/memory.h>
#include <hodu/metrics.h>
#include <hodu/nn.h>
#include <hodu/ops.h>
#include <hodu/optim.h>
#include <hodu/profile.h>
#include <hodu/quantize.h>
#include <hodu/random.h>
#include <hodu/scope.h>
#include <hodu/script.h>
#include <hodu/shape.h>
#include <hodu/tensor.h>
#include <hodu/watch.h>

#endif
