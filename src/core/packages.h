/* Libraries that lie in packages of Python's. */
#ifndef HD_CORE_PACKAGES_H
#define HD_CORE_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>

enum { HD_PACKAGE_PATH = 4096 };
/* The file in one of these folders of packages ("jax_plugins/xla_cuda13", ..., NULL), of the Python that would be
 * started or is the user's or the system's. Python is not asked: its packages lie in a few known directories. */
bool hd_package_find(const char *const *packages, const char *file, char path[HD_PACKAGE_PATH]);

#endif
