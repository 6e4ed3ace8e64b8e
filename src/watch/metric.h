/* What metrics of one batch and sums over batches share. */
#ifndef HD_WATCH_METRIC_H
#define HD_WATCH_METRIC_H

#include "core/execute.h"
#include "core/options.h"

#include <hodu/metrics.h>

hd_error hd_metric_check_classes(const hd_tensor *prediction, const hd_tensor *target);
hd_error hd_metric_check_scores(const hd_tensor *scores, const char *name, const hd_tensor *target);
hd_error hd_metric_check_top_k(const hd_tensor *scores, const hd_tensor *target, int64_t k);
hd_error hd_metric_check_confusion(const hd_tensor *prediction, const hd_tensor *target, int64_t classes);
hd_error hd_metric_check_auc(const hd_tensor *scores, const hd_tensor *target);
hd_error hd_metric_check_numbers(const hd_tensor *prediction, const hd_tensor *target);
hd_error hd_metric_check_average(hd_average average);

/* Of checked arguments: which predictions are right, bool [...]. */
hd_tensor *hd_metric_hits(hd_tensor *prediction, hd_tensor *target);
hd_tensor *hd_metric_top_hits(hd_tensor *scores, hd_tensor *target, int64_t k);
hd_tensor *hd_metric_confusions(hd_tensor *prediction, hd_tensor *target, int64_t classes);
/* -log softmax(logits)[target], 0 where it is ignored; and which rows are kept, bool, NULL: all. */
hd_tensor *hd_metric_surprise(hd_tensor *logits, hd_tensor *target, const hd_perplexity_opts *o, hd_tensor **kept);
/* |p - t|, and (p - t)^2, in floats that may be added up. */
hd_tensor *hd_metric_absolute(hd_tensor *prediction, hd_tensor *target);
hd_tensor *hd_metric_squared(hd_tensor *prediction, hd_tensor *target);

#endif
