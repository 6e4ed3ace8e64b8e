/* Profiles of everything: calls that run at once, runs of scripts with their launches, and what compiling takes. */
#ifndef HODU_PROFILE_H
#define HODU_PROFILE_H

#include <hodu/base.h>

HD_BEGIN_DECLS
typedef struct hd_profile hd_profile;
/* Begins a profile of all threads, and ends it: HD_PROFILE(path); does both. The end prints a table to stderr (op,
 * dtype and shape, who called; calls, time, FLOP/s, bytes/s) and writes a Chrome trace (Perfetto opens it) to `path`,
 * unless that is NULL. Launches of scripts run one after the other meanwhile; calls on other devices are waited for.
 * HODU_PROFILE=1, or =file.json, in the environment profiles the whole process. A block that exit() leaves prints
 * nothing; a profile ends with the scope in which it began at the latest, also when a longjmp leaves its block. In the
 * table a run has its launches in it, and has no share of its own; log' is the derivative of log. */
typedef struct hd_profile_token {
    hd_profile *profile;
    const char *path;
} hd_profile_token;
HD_API hd_profile_token hd_profile_begin(const char *path);
HD_API void hd_profile_end(hd_profile_token *token);
HD_END_DECLS

#ifdef __cplusplus
extern "C++" {
struct hd_profile_guard {
    hd_profile_token token;
    explicit hd_profile_guard(const char *path) : token(hd_profile_begin(path)) {}
    hd_profile_guard(const hd_profile_guard &) = delete;
    hd_profile_guard &operator=(const hd_profile_guard &) = delete;
    ~hd_profile_guard() { hd_profile_end(&token); }
};
}
#define HD_PROFILE(path) hd_profile_guard HD_UNIQUE(hd_profile_)(path)
#else
#define HD_PROFILE_AT_(token, path)                                                                                    \
    hd_profile_token token __attribute__((cleanup(hd_profile_end), unused)) = hd_profile_begin(path)
#define HD_PROFILE(path) HD_PROFILE_AT_(HD_UNIQUE(hd_profile_), path)
#endif

#endif
