/* Builders from inside. */
#ifndef HD_GRAPH_BUILDER_H
#define HD_GRAPH_BUILDER_H

#include "graph/capture.h"

struct hd_builder {
    hd_object object;
    hd_recording *recording; /* retained */
    char *name;              /* the graph's strings move while a thread records */
    enum { HD_BUILDER_NEW, HD_BUILDER_ACTIVE, HD_BUILDER_ENDED } state;
};

hd_error hd_builder_check(const hd_builder *b);
/* And that it records on this thread. */
hd_error hd_builder_check_active(hd_thread *thread, hd_builder *b);
/* What was recorded, when the builder has ended and there is something to run; NULL with an error. */
hd_graph *hd_builder_graph(hd_builder *b);

#endif
