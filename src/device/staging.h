/* Copies between the host and a device through pinned memory, which the driver copies from and to by itself: pieces
 * that are used in turns, so that the host fills or empties one while the device has another. What a piece is, and how
 * it is copied, is the driver's. */
#ifndef HD_DEVICE_STAGING_H
#define HD_DEVICE_STAGING_H

#include "core/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { HD_STAGES = 4 };

typedef struct hd_stage {
    char *memory; /* pinned, for good; NULL: not yet */
    void *object; /* the driver's, of which this is the memory, where it has one */
    void *copied; /* its event: the copy that last used the memory is done */
    bool is_used; /* by such a copy, until it is waited for */
} hd_stage;

typedef struct hd_staging {
    void *owner;                                   /* whose it is: the first parameter of all functions */
    hd_error (*pin)(void *owner, hd_stage *stage); /* gives it its memory */
    /* Enqueues a copy, and sets `copied`. */
    hd_error (*send)(void *owner, hd_stage *stage, char *to, size_t bytes);
    hd_error (*fetch)(void *owner, hd_stage *stage, const char *from, size_t bytes);
    hd_error (*wait)(void *owner, hd_stage *stage); /* for `copied` */
    pthread_mutex_t lock;                           /* of what follows */
    size_t stage_bytes;
    hd_stage stages[HD_STAGES];
    int count, next; /* how many of them are used: one at least */
} hd_staging;

/* With the functions set. */
void hd_staging_begin(hd_staging *s, size_t stage_bytes);
/* Returns when the host's bytes are in the stages; the copy itself is not waited for. */
hd_error hd_staging_upload(hd_staging *s, char *to, const char *from, size_t bytes);
hd_error hd_staging_download(hd_staging *s, char *to, const char *from, size_t bytes);

#endif
