/* The server's program as bytes: HD_SERVER_PROGRAM is where the build put it. */
#include "codegen/server.h"

__asm__(".section .rodata\n"
        ".balign 16\n"
        ".global hd_server_program\n"
        ".hidden hd_server_program\n"
        ".global hd_server_program_end\n"
        ".hidden hd_server_program_end\n"
        "hd_server_program:\n"
        ".incbin \"" HD_SERVER_PROGRAM "\"\n"
        "hd_server_program_end:\n"
        ".byte 0\n"
        ".text\n");
