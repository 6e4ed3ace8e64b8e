/* Metrics: what a model is judged by. Functions are made of ops, run wherever these run, and have no gradient to train
 * with; an hd_metric adds them up over batches. */
#ifndef HODU_METRICS_H
#define HODU_METRICS_H

#include <hodu/tensor.h>

HD_BEGIN_DECLS
/* ---- of classes: the prediction has scores [..., classes], or class numbers (integers, bool) of the target's shape; the
 * target has class numbers [...]. Of equal scores the first counts ---- */
/* Which part of the predictions is right: a scalar; NaN of none. */
HD_API hd_tensor *hd_accuracy(hd_tensor *prediction, hd_tensor *target);
/* Which part of the targets is among the k largest scores [..., classes]. */
HD_API hd_tensor *hd_top_k_accuracy(hd_tensor *scores, hd_tensor *target, int64_t k);
/* How often class i was taken for class j, i64: [classes, classes]. Those of several batches may be added. */
HD_API hd_tensor *hd_confusion_matrix(hd_tensor *prediction, hd_tensor *target, int64_t classes);

/* How numbers of classes become one. Classes that neither occur nor were predicted have no part in it. */
typedef enum hd_average {
    HD_AVERAGE_MACRO,    /* their mean */
    HD_AVERAGE_NONE,     /* they do not: [classes] */
    HD_AVERAGE_MICRO,    /* all are counted together: what is also the accuracy */
    HD_AVERAGE_WEIGHTED, /* their mean, weighted by how often they occur */
    HD_AVERAGE_BINARY    /* that of class 1, of two */
} hd_average;
/* Of a confusion matrix: which part of what was taken for a class is of it, which part of a class was found, and the
 * harmonic mean of both. 0 where there is nothing to divide by. */
HD_API hd_tensor *hd_precision(hd_tensor *confusion, hd_average average);
HD_API hd_tensor *hd_recall(hd_tensor *confusion, hd_average average);
HD_API hd_tensor *hd_f1(hd_tensor *confusion, hd_average average);

/* The area under the receiver operating characteristic, exact: how often one of the class has a larger score than one
 * that is not of it, where equals count half. Scores [n]; target [n], not 0 for those of the class. NaN where all are of
 * one kind, or a score is NaN. */
HD_API hd_tensor *hd_roc_auc(hd_tensor *scores, hd_tensor *target);

typedef struct hd_perplexity_opts {
    size_t struct_size;
    bool ignores; /* rows whose target is ignore_index count for nothing */
    int64_t ignore_index;
} hd_perplexity_opts;
/* e to the mean of -log softmax(logits)[target]: logits [..., classes], target [...]. */
HD_API hd_tensor *hd_perplexity(hd_tensor *logits, hd_tensor *target, const hd_perplexity_opts *opts);

/* ---- of numbers: prediction and target of one shape ---- */
/* Which part of the target's variance is explained: 1 - sum((t - p)^2) / sum((t - mean(t))^2), over all elements. Of
 * targets that are all the same 1 where the prediction is exact, else 0. */
HD_API hd_tensor *hd_r2(hd_tensor *prediction, hd_tensor *target);
/* The mean of |prediction - target|. */
HD_API hd_tensor *hd_mean_absolute_error(hd_tensor *prediction, hd_tensor *target);

/* ---- over batches ---- */
typedef enum hd_metric_kind {
    HD_METRIC_ACCURACY,
    HD_METRIC_TOP_K_ACCURACY, /* .k */
    HD_METRIC_PRECISION,      /* .classes, .average; this and the next two */
    HD_METRIC_RECALL,
    HD_METRIC_F1,
    HD_METRIC_ROC_AUC, /* holds all scores, 9 bytes each */
    HD_METRIC_PERPLEXITY,
    HD_METRIC_R2,
    HD_METRIC_MEAN_ABSOLUTE_ERROR
} hd_metric_kind;
typedef struct hd_metric_opts {
    size_t struct_size;
    int64_t k;          /* 5 by default */
    int64_t classes;    /* must be given where it says so above */
    hd_average average; /* not HD_AVERAGE_NONE */
    bool ignores;       /* of perplexity */
    int64_t ignore_index;
} hd_metric_opts;
typedef struct hd_metric hd_metric;
HD_API hd_metric *hd_metric_new(hd_metric_kind kind, const hd_metric_opts *opts);
/* One more batch, as the function of that name takes it. Its sums are read, so that a device is waited for; nothing is
 * noted on a tape. A call that fails adds nothing. */
HD_API void hd_metric_add(hd_metric *metric, hd_tensor *prediction, hd_tensor *target);
/* What the function would say of all batches together, by sums in f64; NaN before the first. */
HD_API double hd_metric_value(hd_metric *metric);
/* The confusion matrix of all batches, i64: [classes, classes], of the three kinds that have one. */
HD_API hd_tensor *hd_metric_confusion(hd_metric *metric);
/* Forgets all batches. */
HD_API void hd_metric_reset(hd_metric *metric);
HD_END_DECLS

#endif
