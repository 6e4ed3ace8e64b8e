/* The roof: the one room that knows all others, and hands what is above to what is below. A room takes part in a lower
 * one by a struct of functions that is registered there; this is where that happens, by plain calls. A program that is
 * linked statically has of an archive only what somebody refers to by a symbol: so the two functions here are what the
 * rooms below call by name, the only ones (a test reads the symbols), and constructors, which nobody refers to, are no
 * way. */
#ifndef HD_LIBRARY_LIBRARY_H
#define HD_LIBRARY_LIBRARY_H

#include "core/thread.h"       /* hd_library_open */
#include "script/executable.h" /* hd_library_open_compilers */

#endif
