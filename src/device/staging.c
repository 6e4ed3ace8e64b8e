/* Pieces of pinned memory in turns. A copy that fails leaves its pieces in use, so the next one waits for them. */
#include "device/staging.h"

#include <string.h>

void hd_staging_begin(hd_staging *s, size_t stage_bytes) {
    pthread_mutex_init(&s->lock, NULL);
    s->stage_bytes = stage_bytes;
    s->count = HD_STAGES;
}

static hd_error wait_for(hd_staging *s, hd_stage *stage) {
    if (stage->is_used) HD_TRY(s->wait(s->owner, stage));
    stage->is_used = false;
    return HD_OK;
}

/* The next one, when nothing uses it any more. */
static hd_error next_stage(hd_staging *s, hd_stage **out) {
    hd_stage *stage = *out = &s->stages[s->next];
    if (stage->memory == NULL) HD_TRY(s->pin(s->owner, stage));
    HD_TRY(wait_for(s, stage));
    s->next = (s->next + 1) % s->count;
    return HD_OK;
}

static size_t part_of(const hd_staging *s, size_t bytes, size_t begin) {
    return bytes - begin < s->stage_bytes ? bytes - begin : s->stage_bytes;
}

static hd_error upload_all(hd_staging *s, char *to, const char *from, size_t bytes) {
    for (size_t begin = 0, part; begin < bytes; begin += part) {
        hd_stage *stage;
        part = part_of(s, bytes, begin);
        HD_TRY(next_stage(s, &stage));
        memcpy(stage->memory, from + begin, part);
        stage->is_used = true;
        HD_TRY(s->send(s->owner, stage, to + begin, part));
    }
    return HD_OK;
}

/* While one part is copied out of its stage, the next ones are on their way. */
static hd_error download_all(hd_staging *s, char *to, const char *from, size_t bytes) {
    hd_stage *under_way[HD_STAGES];
    const size_t count = (size_t)s->count, parts = (bytes + s->stage_bytes - 1) / s->stage_bytes;
    for (size_t asked = 0, taken = 0; taken < parts; ++taken) {
        for (; asked < parts && asked - taken < count; ++asked) {
            const size_t begin = asked * s->stage_bytes;
            hd_stage **stage = &under_way[asked % count];
            HD_TRY(next_stage(s, stage));
            (*stage)->is_used = true;
            HD_TRY(s->fetch(s->owner, *stage, from + begin, part_of(s, bytes, begin)));
        }
        const size_t begin = taken * s->stage_bytes;
        HD_TRY(wait_for(s, under_way[taken % count]));
        memcpy(to + begin, under_way[taken % count]->memory, part_of(s, bytes, begin));
    }
    return HD_OK;
}

hd_error hd_staging_upload(hd_staging *s, char *to, const char *from, size_t bytes) {
    pthread_mutex_lock(&s->lock);
    const hd_error status = upload_all(s, to, from, bytes);
    pthread_mutex_unlock(&s->lock);
    return status;
}

hd_error hd_staging_download(hd_staging *s, char *to, const char *from, size_t bytes) {
    pthread_mutex_lock(&s->lock);
    const hd_error status = download_all(s, to, from, bytes);
    pthread_mutex_unlock(&s->lock);
    return status;
}
