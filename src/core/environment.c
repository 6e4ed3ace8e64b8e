#include "core/environment.h"
#include "core/error.h"
#include "core/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VARIABLES = 16 };

const char *hd_environment(const char *name) {
    const char *value = hd_os_is_trusted() ? getenv(name) : NULL;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

bool hd_environment_is_trusted(void) { return hd_os_is_trusted(); }

char *const *hd_environment_for_programs(void) {
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    static char *const own[] = {path, NULL};
    return hd_environment_is_trusted() ? hd_os_environment() : own;
}

void hd_environment_unknown(const char *name, const char *word, size_t length, const char *takes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *told[MOST_VARIABLES];
    int at = 0;
    pthread_mutex_lock(&lock);
    while (at < MOST_VARIABLES && told[at] != NULL && told[at] != name) ++at;
    if (at < MOST_VARIABLES && told[at] == NULL) {
        told[at] = name;
        hd_warn(NULL, "%s has \"%.*s\"; it takes %s", name, (int)(length < 60 ? length : 60), word, takes);
    }
    pthread_mutex_unlock(&lock);
}

bool hd_environment_flag(const char *name, bool otherwise) {
    const char *value = hd_environment(name);
    if (value == NULL) return otherwise;
    if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0) return value[0] == '1';
    hd_environment_unknown(name, value, strlen(value), "0 or 1");
    return otherwise;
}

bool hd_environment_debug(const char *searched) {
    static const char *const words[] = {"nan", "lines", "sync"};
    bool found = false;
    for (const char *word = hd_environment("HODU_DEBUG"); word != NULL && *word != '\0';) {
        const size_t length = strcspn(word, ",");
        bool known = false;
        for (int i = 0; i < 3; ++i)
            known = known || (strlen(words[i]) == length && strncmp(word, words[i], length) == 0);
        if (!known && length > 0) hd_environment_unknown("HODU_DEBUG", word, length, "nan, lines and sync");
        found = found || (known && strlen(searched) == length && strncmp(word, searched, length) == 0);
        word += length + (word[length] == ',');
    }
    return found;
}

hd_isa hd_environment_isa(void) {
    static const char *const sets[] = {"baseline", "avx2", "avx512", "amx"};
    const char *wish = hd_environment("HODU_ISA");
    for (int i = HD_ISA_BASELINE; wish != NULL && i <= HD_ISA_AMX; ++i)
        if (strcmp(wish, sets[i]) == 0) return (hd_isa)i;
    if (wish != NULL) hd_environment_unknown("HODU_ISA", wish, strlen(wish), "baseline, avx2, avx512 or amx");
    return HD_ISA_AMX;
}
