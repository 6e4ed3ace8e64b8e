/* XLA, as scripts know it. */
#ifndef HD_XLA_EXECUTABLE_H
#define HD_XLA_EXECUTABLE_H

#include "script/executable.h"

extern const hd_compiler_interface hd_xla_interface;
/* find.c: what it is made of. */
hd_error hd_xla_available(hd_device device);
hd_error hd_xla_present(hd_device device);

#endif
