/* Values that XLA made, as storages: their home is a buffer of XLA's, which may still be computed. */
#ifndef HD_XLA_VALUE_H
#define HD_XLA_VALUE_H

#include "core/storage.h"
#include "xla/client.h"

/* A storage for a value of so many bytes that a run is about to make: hd_xla_value_fill says which buffer it is. NULL
 * with an error. */
hd_storage *hd_xla_value_new(hd_thread *thread, size_t bytes);
void hd_xla_value_fill(hd_storage *storage, hd_xla_buffer *buffer);
/* The buffer of a storage that lives on this device; NULL: its home is elsewhere. */
hd_xla_buffer *hd_xla_value_buffer(const hd_storage *storage, const hd_xla_device *device);
/* Makes a storage ready to be given a buffer instead of the bytes that it has; nothing happens when its home is XLA
 * already. */
hd_error hd_xla_value_expect(hd_storage *storage, void **expected);
/* Gives it the buffer; who shared the bytes keeps them. `expected` is what hd_xla_value_expect left; it is used up. */
void hd_xla_value_set(hd_thread *thread, hd_storage *storage, void **expected, hd_xla_buffer *buffer);
void hd_xla_value_unexpect(hd_thread *thread, void **expected);

#endif
