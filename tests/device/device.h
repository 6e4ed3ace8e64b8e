/* A device for tests, test:0 and test:1: its memory is at addresses that no process maps, so that whoever looks there
 * from the host crashes; its ops are the CPU's, behind copies. It can be told to fail. */
#ifndef HD_TESTS_DEVICE_DEVICE_H
#define HD_TESTS_DEVICE_DEVICE_H

#include "core/away.h"

static inline hd_device test_device(int index) { return (hd_device){(hd_device_kind)HD_DEVICE_TEST, index}; }

/* The n-th thing asked of it from now on fails (0: the next), and all that follow; -1: none. */
void test_device_fail_after(int64_t n);
/* How many things it was asked since. */
int64_t test_device_asked(void);
/* The bytes that it has; 0: no limit. */
void test_device_limit(size_t bytes);
/* It is lost: all that is asked of it fails until it is found again. */
void test_device_lose(bool lost);
/* Bytes in use. */
size_t test_device_bytes(void);

#endif
