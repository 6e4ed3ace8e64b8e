/* The ground of the public headers: visibility, version, and the macros that C and C++ spell differently. */
#ifndef HODU_BASE_H
#define HODU_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HD_VERSION_MAJOR  0
#define HD_VERSION_MINOR  1
#define HD_VERSION_PATCH  0
#define HD_VERSION_STRING "0.1.0"

#ifndef HD_API
#define HD_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define HD_BEGIN_DECLS extern "C" {
#define HD_END_DECLS   }
#else
#define HD_BEGIN_DECLS
#define HD_END_DECLS
#endif

#define HD_CONCAT_(a, b)  a##b
#define HD_CONCAT(a, b)   HD_CONCAT_(a, b)
#define HD_UNIQUE(prefix) HD_CONCAT(prefix, __COUNTER__)

/* Options are the last parameter, a pointer, NULL for the defaults. A zero field means its default; where zero is
 * legal in a floating field and not the default, HD_ZERO says zero. Use HD_OPTS only as an argument:
 *     hd_sum(x, HD_AXES(0), HD_OPTS(hd_reduce_opts, .keep_dims = true))
 * C++ before C++20 has no designated initialisers: hd_reduce_opts o = HD_DEFAULTS(hd_reduce_opts); o.keep_dims =
 * true; */
#ifdef __cplusplus
extern "C++" {
template <class T> inline const T *hd_options_address(const T &options) { return &options; }
template <class T> inline T hd_options_defaults() {
    T options{};
    options.struct_size = sizeof(T);
    return options;
}
}
#define HD_OPTS(type, ...) hd_options_address(type{.struct_size = sizeof(type), __VA_ARGS__})
#define HD_DEFAULTS(type)  hd_options_defaults<type>()
#else
#define HD_OPTS(type, ...) (&(const type){.struct_size = sizeof(type), __VA_ARGS__})
#define HD_DEFAULTS(type)  ((type){.struct_size = sizeof(type)})
#endif
#define HD_ZERO (-0.0)

HD_BEGIN_DECLS
/* "0.1.0" of the library that is running, which may be newer than the headers. */
HD_API const char *hd_version(void);
HD_END_DECLS

#endif
