/* A graph as StableHLO text, for a PJRT plugin. The text computes what the graph computes, bit by bit where that is
 * promised:
 * what StableHLO leaves open or says differently (casts, shifts, division by 0, indices) is written out. */
#ifndef HD_XLA_EMIT_H
#define HD_XLA_EMIT_H

#include "graph/graph.h"

typedef enum hd_hlo_argument_kind {
    HD_HLO_INPUT,    /* graph->inputs[index] */
    HD_HLO_CELL,     /* graph->cells[index], as it is when a run begins */
    HD_HLO_CONSTANT, /* graph->constants[index]: too large for text */
    HD_HLO_SEED,     /* u64 []: the seed of the run's draws */
    HD_HLO_DRAW      /* u64 []: the first draw of the run */
} hd_hlo_argument_kind;

typedef struct hd_hlo_argument {
    hd_hlo_argument_kind kind;
    uint32_t index;
    uint32_t node;  /* has its dtype and shape; of seed and draw: HD_NO_NODE */
    int32_t result; /* it may be donated to this result, which is its update; -1: it stays as it is */
} hd_hlo_argument;

typedef enum hd_hlo_result_kind {
    HD_HLO_OUTPUT, /* graph->outputs[index] */
    HD_HLO_UPDATE, /* what graph->cells[index] holds after the run */
    HD_HLO_FAULT   /* i64 [3]: see hd_stablehlo_fault; the last result, when anything can go wrong */
} hd_hlo_result_kind;

typedef struct hd_hlo_result {
    hd_hlo_result_kind kind;
    uint32_t index;
    uint32_t node; /* of the fault: HD_NO_NODE */
} hd_hlo_result;

/* What a run looks at, in order: the first check that fails is the run's error. */
typedef enum hd_hlo_check_kind {
    HD_HLO_CHECK_ROW,      /* integers that the guard of a row forbids */
    HD_HLO_CHECK_INDEX,    /* indices within [-bound, bound) */
    HD_HLO_CHECK_WEIGHTS,  /* of a multinomial draw: finite and >= 0 */
    HD_HLO_CHECK_TOTAL,    /* their sum: finite and positive */
    HD_HLO_CHECK_ENOUGH,   /* as many positive ones as draws without replacement */
    HD_HLO_CHECK_POSITIVE, /* matrices that are positive definite */
    HD_HLO_CHECK_DIAGONAL  /* triangles that have no 0 on their diagonal */
} hd_hlo_check_kind;
typedef struct hd_hlo_check {
    hd_hlo_check_kind kind;
    uint32_t node;
    int64_t bound;
} hd_hlo_check;

typedef struct hd_stablehlo {
    char *text; /* ends with a 0 */
    size_t bytes;
    hd_hlo_argument *arguments; /* of @main, in order */
    hd_hlo_result *results;     /* of @main, in order */
    hd_hlo_check *checks;
    size_t *text_of; /* of each node: where in the text it begins; 0: nowhere */
    uint32_t argument_count, result_count, check_count;
} hd_stablehlo;

/* The program of a graph; an error names the op that XLA cannot take. Time and text grow with the graph, and not
 * faster. */
hd_error hd_stablehlo_emit(hd_thread *thread, const hd_graph *g, hd_stablehlo *out);
void hd_stablehlo_release(hd_stablehlo *s);

/* The error that the fault result of a run tells of, worded as the device words it: {1 + check, place, bits of the
 * value}. HD_OK when all is 0. */
hd_error hd_stablehlo_fault(hd_thread *thread, const hd_graph *g, const hd_stablehlo *s, const int64_t fault[3]);
/* When the pending error is XLA's and names a line of the text: adds the node that the line is of. */
void hd_stablehlo_name_node(hd_thread *thread, const hd_graph *g, const hd_stablehlo *s);

#endif
