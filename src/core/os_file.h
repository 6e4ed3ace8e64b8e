/* Files and folders of the system, for those who need more of them than C's streams: files that nobody else may have
 * put there, that are mapped, or that take another's place. Functions that fail leave the reason in errno. */
#ifndef HD_CORE_OS_FILE_H
#define HD_CORE_OS_FILE_H

#include "core/os.h"

/* ---- open files: numbers, -1 for none. None is handed on to programs that are started --------------------------- */
enum {
    HD_OS_READ = 0, /* a pipe does not make us wait */
    HD_OS_WRITE = 1,
    HD_OS_CREATE = 2,   /* when it is not there */
    HD_OS_NEW = 4,      /* it must not be there */
    HD_OS_APPEND = 8,   /* writes go to its end */
    HD_OS_NO_LINK = 16, /* a symbolic link is not followed */
    HD_OS_FOLDER = 32   /* to be read: what is there is a folder */
};
#define HD_OS_HERE (-100) /* in place of a folder: paths are those of the process */
/* `rights` of a file that is made: 0600 for us alone, 0666 for whom the process allows. */
int hd_os_open(int folder, const char *path, int how, int rights);
bool hd_os_close(int file);
bool hd_os_read(int file, void *out, size_t bytes); /* all of them, or false */
bool hd_os_write(int file, const void *from, size_t bytes);
/* All that comes until its end, or until the room is full; its length. */
size_t hd_os_read_until_end(int file, void *out, size_t capacity);
/* From or to a place in it; how many bytes, at most 1 GB at once, -1: it failed. */
int64_t hd_os_read_at(int file, void *out, uint64_t bytes, uint64_t offset);
int64_t hd_os_write_at(int file, const void *from, uint64_t bytes, uint64_t offset);
bool hd_os_cut(int file, uint64_t bytes);
bool hd_os_flush(int file); /* to the disk */
bool hd_os_touch(int file); /* it was used now */
bool hd_os_set_rights(int file, int rights);
/* What follows will be read soon. */
void hd_os_file_ask_ahead(int file, uint64_t offset, uint64_t bytes);
/* All of it in memory, to be read; NULL: it failed. */
const void *hd_os_file_map(int file, uint64_t bytes);
void hd_os_file_unmap(const void *map, uint64_t bytes);
/* The same file under a number that is none of the three standard ones, which a host may have closed. */
int hd_os_above_standard(int file);
/* A file that lies in memory alone; -1 where the system has none. */
int hd_os_memory_file(const char *name, bool is_program);

typedef struct hd_os_status {
    uint64_t bytes, links;
    int64_t changed; /* nanoseconds since 1970 */
    int rights;
    bool is_regular;
    bool is_safe; /* it belongs to this user or to root, and nobody else may write it */
} hd_os_status;
bool hd_os_status_of(int file, hd_os_status *out);
bool hd_os_status_at(const char *path, hd_os_status *out); /* of what a link leads to */
/* Of a file in an open folder; of a link itself. */
bool hd_os_status_in(int folder, const char *name, hd_os_status *out);

/* ---- names ------------------------------------------------------------------------------------------------------- */
enum { HD_OS_PATH = 4096 };               /* no path that a system takes is longer */
bool hd_os_can_read(const char *path);    /* that it is there, and may be read */
bool hd_os_make_folder(const char *path); /* for us alone; true when it is there already */
bool hd_os_remove_folder(const char *path);
bool hd_os_remove(const char *path);
bool hd_os_remove_in(int folder, const char *name, bool is_folder);
/* A new folder; the X of "...XXXXXX" at the end of the path become its name. */
bool hd_os_make_temporary(char *path);
/* What a symbolic link says; its length, -1: it is none. */
int64_t hd_os_read_link(const char *path, char *out, size_t capacity);
/* Where a path leads, without links; false: nowhere, or it is too long for HD_OS_PATH bytes. */
bool hd_os_real_path(const char *path, char out[HD_OS_PATH]);

/* ---- what is in a folder ----------------------------------------------------------------------------------------- */
typedef struct hd_os_folder hd_os_folder;
hd_os_folder *hd_os_folder_open(const char *path); /* NULL: it failed */
const char *hd_os_folder_next(hd_os_folder *f);    /* a name, until the next call; NULL: that was all */
int hd_os_folder_file(hd_os_folder *f);            /* its number, for the functions above */
void hd_os_folder_close(hd_os_folder *f);

/* ---- inside the layer -------------------------------------------------------------------------------------------- */
struct stat;
int64_t hd_os_changed_at(const struct stat *status);

#endif
