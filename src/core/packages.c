/* Where packages of Python's lie. */
#include "core/packages.h"
#include "core/environment.h"
#include "core/os.h"
#include "core/os_file.h"

#include <stdio.h>
#include <string.h>

typedef struct wanted {
    const char *const *packages;
    const char *file;
} wanted;

static bool in_packages(const wanted *p, const char *directory, char path[HD_PACKAGE_PATH]) {
    for (int i = 0; p->packages[i] != NULL; ++i)
        if (snprintf(path, HD_PACKAGE_PATH, "%s/%s/%s", directory, p->packages[i], p->file) < HD_PACKAGE_PATH &&
            hd_os_can_read(path))
            return true;
    return false;
}

/* In <base>/lib/python3.<n>/site-packages and dist-packages, of the newest Python that has it. */
static bool below(const wanted *p, const char *base, char path[HD_PACKAGE_PATH]) {
    static const char *const kinds[] = {"site-packages", "dist-packages"};
    char lib[HD_PACKAGE_PATH], packages[HD_PACKAGE_PATH], candidate[HD_PACKAGE_PATH], newest[256] = "";
    if (snprintf(lib, sizeof lib, "%s/lib", base) >= HD_PACKAGE_PATH) return false;
    hd_os_folder *folder = hd_os_folder_open(lib);
    if (folder == NULL) return false;
    for (const char *name; (name = hd_os_folder_next(folder)) != NULL;) {
        if (strncmp(name, "python3", 7) != 0 || hd_os_compare_versions(name, newest) <= 0) continue;
        for (int i = 0; i < 2; ++i) {
            if (snprintf(packages, sizeof packages, "%s/%s/%s", lib, name, kinds[i]) >= HD_PACKAGE_PATH) continue;
            if (!in_packages(p, packages, candidate)) continue;
            snprintf(newest, sizeof newest, "%s", name);
            memcpy(path, candidate, HD_PACKAGE_PATH);
        }
    }
    hd_os_folder_close(folder);
    return newest[0] != '\0';
}

/* Of the Python that would be started. */
static bool on_path(const wanted *p, char path[HD_PACKAGE_PATH]) {
    char python[HD_PACKAGE_PATH], base[HD_PACKAGE_PATH];
    for (const char *at = hd_environment("PATH"); at != NULL; at = strchr(at, ':'), at += at != NULL) {
        const int length = (int)strcspn(at, ":");
        if (snprintf(python, sizeof python, "%.*s/python3", length, at) >= HD_PACKAGE_PATH || !hd_os_can_read(python))
            continue;
        return snprintf(base, sizeof base, "%.*s/..", length, at) < HD_PACKAGE_PATH && below(p, base, path);
    }
    return false;
}

bool hd_package_find(const char *const *packages, const char *file, char path[HD_PACKAGE_PATH]) {
    const wanted sought = {packages, file}, *p = &sought;
    static const char *const variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    static const char *const systems[] = {"/usr/local", "/usr"};
    char local[HD_PACKAGE_PATH];
    for (int i = 0; i < 2; ++i) {
        const char *base = hd_environment(variables[i]);
        if (base != NULL && below(p, base, path)) return true;
    }
    if (on_path(p, path)) return true;
    const char *home = hd_environment("HOME");
    if (home != NULL && snprintf(local, sizeof local, "%s/.local", home) < HD_PACKAGE_PATH && below(p, local, path))
        return true;
    for (int i = 0; i < 2; ++i)
        if (below(p, systems[i], path)) return true;
    return false;
}
