/* What an ELF object is made of, as far as kernels have it: 64 bits, little endian. Numbers and names are those of the
 * ELF specification and of its supplements for the two processors; systems whose own format is another have no header
 * with them. */
#ifndef HD_COMPILER_ELF_H
#define HD_COMPILER_ELF_H

#include <stdint.h>

typedef struct hd_elf_head {
    uint8_t ident[16]; /* 0x7f "ELF", class, order of bytes, ... */
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, program_offset, section_offset;
    uint32_t flags;
    uint16_t head_bytes, program_bytes, program_count, section_bytes, section_count, section_names;
} hd_elf_head;

typedef struct hd_elf_section {
    uint32_t name, type;
    uint64_t flags, address, offset, size;
    uint32_t link, info;
    uint64_t alignment, entry_bytes;
} hd_elf_section;

typedef struct hd_elf_symbol {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
} hd_elf_symbol;

typedef struct hd_elf_relocation {
    uint64_t offset, info;
    int64_t addend;
} hd_elf_relocation;

enum {
    HD_ELF_CLASS = 4, /* places in `ident` */
    HD_ELF_ORDER = 5,
    HD_ELF_CLASS_64 = 2,
    HD_ELF_LITTLE_ENDIAN = 1,
    HD_ELF_RELOCATABLE = 1,
    HD_ELF_NO_MACHINE = 0,
    HD_ELF_X86_64 = 62,
    HD_ELF_AARCH64 = 183,
    HD_ELF_SYMBOLS = 2, /* kinds of sections */
    HD_ELF_STRINGS = 3,
    HD_ELF_RELA = 4,
    HD_ELF_NO_BITS = 8,
    HD_ELF_REL = 9,
    HD_ELF_ALLOCATED = 2, /* flags of sections */
    HD_ELF_EXECUTABLE = 4,
    HD_ELF_THREAD_LOCAL = 0x400,
    HD_ELF_UNDEFINED = 0, /* in place of a section */
    HD_ELF_FUNCTION = 2   /* kind of a symbol, the low four bits of its info */
};

/* Relocations, by the names that the supplements give them. */
enum {
    HD_R_X86_64_NONE = 0,
    HD_R_X86_64_64 = 1,
    HD_R_X86_64_PC32 = 2,
    HD_R_X86_64_PLT32 = 4,
    HD_R_X86_64_GOTPCREL = 9,
    HD_R_X86_64_32 = 10,
    HD_R_X86_64_32S = 11,
    HD_R_X86_64_PC64 = 24,
    HD_R_X86_64_GOTPCRELX = 41,
    HD_R_X86_64_REX_GOTPCRELX = 42
};
enum {
    HD_R_AARCH64_NONE = 0,
    HD_R_AARCH64_ABS64 = 257,
    HD_R_AARCH64_PREL64 = 260,
    HD_R_AARCH64_PREL32 = 261,
    HD_R_AARCH64_ADR_PREL_PG_HI21 = 275,
    HD_R_AARCH64_ADD_ABS_LO12_NC = 277,
    HD_R_AARCH64_LDST8_ABS_LO12_NC = 278,
    HD_R_AARCH64_JUMP26 = 282,
    HD_R_AARCH64_CALL26 = 283,
    HD_R_AARCH64_LDST16_ABS_LO12_NC = 284,
    HD_R_AARCH64_LDST32_ABS_LO12_NC = 285,
    HD_R_AARCH64_LDST64_ABS_LO12_NC = 286,
    HD_R_AARCH64_LDST128_ABS_LO12_NC = 299,
    HD_R_AARCH64_ADR_GOT_PAGE = 311,
    HD_R_AARCH64_LD64_GOT_LO12_NC = 312
};

#endif
