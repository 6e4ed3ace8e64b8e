/* This machine: prints to stdout, counts nothing. */
#include "../board.h"

#include <stdio.h>
#include <stdlib.h>

void board_write(const char *text) { fputs(text, stdout); }
void board_exit(int status) { exit(status); }
uint64_t board_instructions(void) { return 0; }
