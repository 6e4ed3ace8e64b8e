/* Metrics over batches: what is added up, and what follows from the sums. All sums are the host's own. */
#include "core/memory.h"
#include "ops/op.h"
#include "watch/metric.h"

#include <math.h>
#include <string.h>

struct hd_metric {
    hd_object object;
    hd_metric_kind kind;
    hd_metric_opts options;
    int64_t count;       /* rows, or elements, so far */
    double sum;          /* right ones; surprise; |p - t|; (p - t)^2 */
    double mean, spread; /* of targets: the mean, and the sum of squared distances from it */
    int64_t *matrix;     /* [classes, classes], or NULL */
    double *scores;      /* [count], with room for more */
    uint8_t *mine;       /* [count]: 1 for those of the class */
    int64_t capacity;
};

static void metric_destroy(hd_thread *thread, hd_object *object) {
    hd_metric *m = (hd_metric *)object;
    hd_array_release(m->matrix);
    hd_array_release(m->scores);
    hd_array_release(m->mine);
    hd_object_bury(thread, object);
}
static const char *metric_title(const hd_object *object) {
    static const char *const names[] = {
        "accuracy", "top-k accuracy",     "precision", "recall", "F1", "ROC AUC", "perplexity",
        "R2",       "mean absolute error"};
    return names[((const hd_metric *)object)->kind];
}
static const hd_kind metric_kind = {.name = "metric",
                                    .destroy = metric_destroy,
                                    .title = metric_title,
                                    .remedy = "one thread at a time may use it: make one for each thread"};

static hd_error metric_check(const hd_metric *m) {
    if (m == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`metric` is NULL");
    if (m->object.kind == &metric_kind) return HD_OK;
    return hd_fail(m->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`metric` is no living metric");
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
static bool has_matrix(hd_metric_kind kind) { return kind >= HD_METRIC_PRECISION && kind <= HD_METRIC_F1; }

enum { MOST_CLASSES = 1 << 15 }; /* whose matrix is 8 GB */
static hd_error check_options(hd_metric_kind kind, hd_metric_opts *o) {
    if ((unsigned)kind > HD_METRIC_MEAN_ABSOLUTE_ERROR)
        return hd_fail(HD_ERROR_VALUE, "%d is none of HD_METRIC_*", (int)kind);
    if (o->k == 0) o->k = 5;
    if (o->k < 1) return hd_fail(HD_ERROR_VALUE, "k is %lld; it must be at least 1", (long long)o->k);
    if (!has_matrix(kind)) return HD_OK;
    HD_TRY(hd_metric_check_average(o->average));
    if (o->average == HD_AVERAGE_NONE)
        return hd_fail(HD_ERROR_VALUE, "HD_AVERAGE_NONE is no number; hd_metric_confusion has the matrix, of which "
                                       "hd_precision, hd_recall and hd_f1 take it");
    if (o->classes < 1 || o->classes > MOST_CLASSES)
        return hd_fail(HD_ERROR_VALUE, "%lld classes; .classes must say how many there are, 1 to %d",
                       (long long)o->classes, (int)MOST_CLASSES);
    return o->average != HD_AVERAGE_BINARY || o->classes == 2
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "%lld classes and HD_AVERAGE_BINARY, which is of two", (long long)o->classes);
}

static size_t matrix_bytes(const hd_metric *m) {
    return (size_t)(m->options.classes * m->options.classes) * sizeof *m->matrix;
}

static void forget(hd_metric *m) {
    m->count = 0;
    m->sum = m->mean = m->spread = 0;
    if (m->matrix != NULL) memset(m->matrix, 0, matrix_bytes(m));
}

hd_metric *hd_metric_new(hd_metric_kind kind, const hd_metric_opts *opts) {
    HD_ENTER("hd_metric_new", NULL);
    HD_READ_OPTS(hd_metric_opts, opts, NULL);
    HD_TRY_OR(check_options(kind, &options), NULL);
    hd_metric *m = hd_array_resize(NULL, sizeof *m);
    if (m == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a metric");
        return NULL;
    }
    *m = (hd_metric){.kind = kind, .options = options};
    hd_object_init(&m->object, &metric_kind);
    hd_count(&thread->live_objects, 1);
    if (hd_scope_own(thread, &m->object) != HD_OK) return NULL;
    if (has_matrix(kind)) {
        m->matrix = hd_array_resize(NULL, matrix_bytes(m));
        if (m->matrix == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory for a matrix of %lld classes", (long long)options.classes);
            return NULL;
        }
        forget(m);
    }
    return m;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */
static hd_error add_hits(hd_thread *thread, hd_metric *m, hd_tensor *hits) {
    const double right = hd_item(hd_count_nonzero(hits, HD_AXES(), NULL));
    if (thread->error_code != HD_OK) return thread->error_code;
    m->sum += right;
    m->count += hd_tensor_count(hits);
    return HD_OK;
}

static hd_error add_matrix(hd_thread *thread, hd_metric *m, hd_tensor *prediction, hd_tensor *target) {
    const int64_t places = m->options.classes * m->options.classes;
    hd_tensor *matrix = hd_metric_confusions(prediction, target, m->options.classes);
    const int64_t *more = hd_data_i64(matrix);
    if (more == NULL) return thread->error_code;
    for (int64_t i = 0; i < places; ++i) m->matrix[i] += more[i];
    m->count += hd_tensor_count(target);
    return HD_OK;
}

static hd_error add_surprise(hd_thread *thread, hd_metric *m, hd_tensor *logits, hd_tensor *target) {
    const hd_perplexity_opts o = {.ignores = m->options.ignores, .ignore_index = m->options.ignore_index};
    hd_tensor *kept, *surprise = hd_metric_surprise(logits, target, &o, &kept);
    const double sum = hd_item(hd_sum(surprise, HD_AXES(), NULL));
    const int64_t count = o.ignores ? hd_item_i64(hd_count_nonzero(kept, HD_AXES(), NULL)) : hd_tensor_count(surprise);
    if (thread->error_code != HD_OK) return thread->error_code;
    m->sum += sum;
    m->count += count;
    return HD_OK;
}

static hd_error make_room(hd_metric *m, int64_t more) {
    if (m->count + more <= m->capacity) return HD_OK;
    const int64_t capacity = m->count + more + m->capacity;
    double *scores = hd_array_resize(m->scores, (size_t)capacity * sizeof *scores);
    if (scores != NULL) m->scores = scores;
    uint8_t *mine = scores == NULL ? NULL : hd_array_resize(m->mine, (size_t)capacity);
    if (mine == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %lld scores", (long long)(m->count + more));
    m->mine = mine;
    m->capacity = capacity;
    return HD_OK;
}

static hd_error add_scores(hd_thread *thread, hd_metric *m, hd_tensor *scores, hd_tensor *target) {
    const int64_t more = hd_tensor_count(scores);
    HD_TRY(make_room(m, more));
    hd_tensor *mine = hd_ne_scalar(target, 0);
    if (!hd_to_array(scores, m->scores + m->count, HD_F64, (size_t)more) ||
        !hd_to_array(mine, m->mine + m->count, HD_U8, (size_t)more))
        return thread->error_code;
    m->count += more;
    return HD_OK;
}

static hd_error add_absolute(hd_thread *thread, hd_metric *m, hd_tensor *prediction, hd_tensor *target) {
    const double sum = hd_item(hd_sum(hd_metric_absolute(prediction, target), HD_AXES(), NULL));
    if (thread->error_code != HD_OK) return thread->error_code;
    m->sum += sum;
    m->count += hd_tensor_count(target);
    return HD_OK;
}

/* Means and squared distances of two sets make those of both, without a difference of large numbers. */
static hd_error add_variance(hd_thread *thread, hd_metric *m, hd_tensor *prediction, hd_tensor *target) {
    const int64_t more = hd_tensor_count(target), count = m->count + more;
    if (more == 0) return HD_OK;
    hd_tensor *t = hd_as_float(target), *middle = hd_mean(t, HD_AXES(), NULL);
    const double sum = hd_item(hd_sum(hd_metric_squared(prediction, target), HD_AXES(), NULL));
    const double spread = hd_item(hd_sum(hd_squared_difference(t, middle), HD_AXES(), NULL));
    const double apart = hd_item(middle) - m->mean;
    if (thread->error_code != HD_OK) return thread->error_code;
    m->sum += sum;
    m->spread += spread + apart * apart * (double)m->count * (double)more / (double)count;
    m->mean += apart * (double)more / (double)count;
    m->count = count;
    return HD_OK;
}

static hd_error check_batch(const hd_metric *m, const hd_tensor *prediction, const hd_tensor *target) {
    switch (m->kind) {
    case HD_METRIC_ACCURACY: return hd_metric_check_classes(prediction, target);
    case HD_METRIC_TOP_K_ACCURACY: return hd_metric_check_top_k(prediction, target, m->options.k);
    case HD_METRIC_PRECISION:
    case HD_METRIC_RECALL:
    case HD_METRIC_F1: return hd_metric_check_confusion(prediction, target, m->options.classes);
    case HD_METRIC_ROC_AUC: return hd_metric_check_auc(prediction, target);
    case HD_METRIC_PERPLEXITY: return hd_metric_check_scores(prediction, "prediction", target);
    case HD_METRIC_R2:
    case HD_METRIC_MEAN_ABSOLUTE_ERROR: break;
    }
    return hd_metric_check_numbers(prediction, target);
}

static hd_error add_batch(hd_thread *thread, hd_metric *m, hd_tensor *prediction, hd_tensor *target) {
    switch (m->kind) {
    case HD_METRIC_ACCURACY: return add_hits(thread, m, hd_metric_hits(prediction, target));
    case HD_METRIC_TOP_K_ACCURACY: return add_hits(thread, m, hd_metric_top_hits(prediction, target, m->options.k));
    case HD_METRIC_PRECISION:
    case HD_METRIC_RECALL:
    case HD_METRIC_F1: return add_matrix(thread, m, prediction, target);
    case HD_METRIC_ROC_AUC: return add_scores(thread, m, prediction, target);
    case HD_METRIC_PERPLEXITY: return add_surprise(thread, m, prediction, target);
    case HD_METRIC_R2: return add_variance(thread, m, prediction, target);
    case HD_METRIC_MEAN_ABSOLUTE_ERROR: break;
    }
    return add_absolute(thread, m, prediction, target);
}

void hd_metric_add(hd_metric *metric, hd_tensor *prediction, hd_tensor *target) {
    HD_ENTER("hd_metric_add", );
    if (metric_check(metric) != HD_OK || check_batch(metric, prediction, target) != HD_OK) return;
    HD_USE(&metric->object, false, );
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "metric_add");
    add_batch(thread, metric, prediction, target);
    hd_span_end(&span, NULL);
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */
/* The arrays as tensors of the host, which borrow them. */
static hd_tensor *matrix_of(hd_metric *m) {
    return hd_from_blob(m->matrix, HD_SHAPE(m->options.classes, m->options.classes), HD_I64, NULL, NULL);
}

static double of_matrix(hd_metric *m) {
    hd_tensor *matrix = hd_cast(matrix_of(m), HD_F64);
    if (m->kind == HD_METRIC_PRECISION) return hd_item(hd_precision(matrix, m->options.average));
    if (m->kind == HD_METRIC_RECALL) return hd_item(hd_recall(matrix, m->options.average));
    return hd_item(hd_f1(matrix, m->options.average));
}

static double of_scores(hd_metric *m) {
    hd_tensor *scores = hd_from_blob(m->scores, HD_SHAPE(m->count), HD_F64, NULL, NULL);
    return hd_item(hd_roc_auc(scores, hd_from_blob(m->mine, HD_SHAPE(m->count), HD_U8, NULL, NULL)));
}

static double of_spread(const hd_metric *m) {
    if (m->spread == 0) return m->sum == 0 ? 1 : m->sum > 0 ? 0 : NAN;
    return 1 - m->sum / m->spread;
}

static double value_of(hd_metric *m) {
    if (m->count == 0) return NAN;
    if (has_matrix(m->kind)) return of_matrix(m);
    if (m->kind == HD_METRIC_ROC_AUC) return of_scores(m);
    if (m->kind == HD_METRIC_R2) return of_spread(m);
    const double mean = m->sum / (double)m->count;
    return m->kind == HD_METRIC_PERPLEXITY ? exp(mean) : mean;
}

double hd_metric_value(hd_metric *metric) {
    HD_ENTER("hd_metric_value", NAN);
    HD_TRY_OR(metric_check(metric), NAN);
    HD_USE(&metric->object, false, NAN);
    HD_NO_GRAD;
    HD_EAGER;
    hd_span span;
    hd_span_begin(&span, thread, "metric_value");
    const double value = value_of(metric);
    hd_span_end(&span, NULL);
    return thread->error_code == HD_OK ? value : NAN;
}

hd_tensor *hd_metric_confusion(hd_metric *metric) {
    HD_ENTER("hd_metric_confusion", NULL);
    HD_TRY_OR(metric_check(metric), NULL);
    if (metric->matrix == NULL) {
        hd_fail(HD_ERROR_STATE, "the %s has no confusion matrix; precision, recall and F1 have one",
                metric_title(&metric->object));
        return NULL;
    }
    HD_USE(&metric->object, false, NULL);
    HD_EAGER;
    hd_span span;
    hd_span_begin(&span, thread, "metric_confusion");
    return hd_span_end(&span, hd_copy(matrix_of(metric)));
}

void hd_metric_reset(hd_metric *metric) {
    HD_ENTER("hd_metric_reset", );
    if (metric_check(metric) != HD_OK) return;
    HD_USE(&metric->object, false, );
    forget(metric);
}
