/* What a linker writes into code when it has found the place of everything: the relocations that kernels have, of both
 * machines in every build, so that each is tested wherever the tests run. */
#ifndef HD_CODEGEN_RELOCATE_H
#define HD_CODEGEN_RELOCATE_H

#include "core/error.h"

#include <stdint.h>

typedef struct hd_patch {
    uint8_t *at;
    uint64_t left;     /* bytes of the section from there */
    uintptr_t symbol;  /* for code: its stub when it lies outside */
    uintptr_t outside; /* the address itself */
    uintptr_t entry;   /* of the address in the table */
    int64_t addend;
} hd_patch;

/* `machine`: HD_ELF_X86_64 or HD_ELF_AARCH64. Nothing is written when it gives an error. */
hd_error hd_relocate(int machine, uint32_t type, const hd_patch *p);

/* Code that jumps to `address`, wherever that is. */
enum { HD_STUB_BYTES = 16 };
void hd_relocate_stub(int machine, uint8_t *stub, uintptr_t address);

#endif
