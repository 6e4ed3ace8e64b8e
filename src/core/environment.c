#include "core/environment.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VARIABLES = 16 };

const char *hd_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

void hd_environment_unknown(const char *name, const char *word, size_t length, const char *takes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *told[MOST_VARIABLES];
    int at = 0;
    pthread_mutex_lock(&lock);
    while (at < MOST_VARIABLES && told[at] != NULL && told[at] != name) ++at;
    if (at < MOST_VARIABLES && told[at] == NULL) {
        told[at] = name;
        fprintf(stderr, "hodu: %s has \"%.*s\"; it takes %s\n", name, (int)length, word, takes);
    }
    pthread_mutex_unlock(&lock);
}
