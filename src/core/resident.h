/* Storages of the host whose bytes a script keeps on a device between its runs, as it updates them: the tensor stays
 * the host's, and its bytes come back when somebody looks. */
#ifndef HD_CORE_RESIDENT_H
#define HD_CORE_RESIDENT_H

#include "core/away.h"

/* The block of a device that has the bytes of a storage, which is there, or of the host and moves there; NULL with an
 * error, also when it is on another device. */
hd_block *hd_resident_block(hd_thread *thread, hd_storage *storage, hd_device device);
/* True when that block is there now, and nobody else looks at it. */
bool hd_resident_is_alone(const hd_storage *storage, hd_device device);
/* The block becomes another one, which is exchanged for it, or, NULL, was written by its device. Fails only where the
 * bytes are borrowed, which are brought up to date at once. */
hd_error hd_resident_update(hd_thread *thread, hd_storage *storage, hd_block **block);

#endif
