/* CUDA's own libraries, which a driver does not bring: in the system, a toolkit, or a package of Python's. */
#include "core/environment.h"
#include "core/os.h"
#include "core/os_file.h"
#include "core/packages.h"
#include "device/cuda/driver.h"
#include "core/late.h"

#include <stdio.h>

/* What is there and cannot be opened says why. */
static void *open_in_folder(const char *folder, const char *const *names, char *why, size_t capacity) {
    char path[HD_PACKAGE_PATH];
    void *library = NULL;
    for (int i = 0; names[i] != NULL && library == NULL; ++i)
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path && hd_os_can_read(path))
            library = hd_os_library_open(path, why, capacity);
    return library;
}

static void *open_in_packages(const hd_cuda_library_place *p, char *why, size_t capacity) {
    char path[HD_PACKAGE_PATH];
    void *library = NULL;
    for (int i = 0; p->names[i] != NULL && library == NULL; ++i)
        if (hd_package_find(p->packages, p->names[i], path)) library = hd_os_library_open(path, why, capacity);
    return library;
}

void *hd_cuda_library_open(const hd_cuda_library_place *p, char *missing, size_t capacity) {
    static const char *const toolkits[] = {"/usr/local/cuda/lib64", "/opt/cuda/lib64"};
    char why[256] = "";
    const char *given = hd_environment(p->variable);
    if (given != NULL) { /* it is meant: no other place is looked at */
        void *library = hd_os_library_open(given, why, sizeof why);
        if (library == NULL) snprintf(missing, capacity, "%s=%.100s: %.120s", p->variable, given, why);
        return library;
    }
    char not_found[256];
    void *library = NULL;
    for (int i = 0; p->names[i] != NULL && library == NULL; ++i)
        library = hd_os_library_open(p->names[i], not_found, sizeof not_found);
    for (int i = 0; i < 2 && library == NULL; ++i) library = open_in_folder(toolkits[i], p->names, why, sizeof why);
    if (library == NULL) library = open_in_packages(p, why, sizeof why);
    if (library == NULL && why[0] != '\0')
        snprintf(missing, capacity, "%s cannot be opened (%.160s); %s", p->what, why, p->remedy);
    else if (library == NULL)
        snprintf(missing, capacity, "there is no %s; %s", p->what, p->remedy);
    return library;
}
