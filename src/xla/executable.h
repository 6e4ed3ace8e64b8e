/* XLA, as scripts know it. */
#ifndef HD_XLA_EXECUTABLE_H
#define HD_XLA_EXECUTABLE_H

#include "script/executable.h"

extern const hd_compiler_interface hd_xla_interface;

#endif
