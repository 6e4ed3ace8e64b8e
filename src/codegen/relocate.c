#include "codegen/relocate.h"
#include "codegen/elf.h"

#include <string.h>

static hd_error broken(const char *why) { return hd_fail(HD_ERROR_INTERNAL, "an object file is damaged: %s", why); }

static hd_error put(const hd_patch *p, int64_t v, unsigned bytes, bool fits) {
    if (p->left < bytes) return broken("a place to patch lies outside its section");
    if (!fits) return broken("an address is too far away");
    memcpy(p->at, &v, bytes);
    return HD_OK;
}

/* ---- AArch64: addresses are parts of instructions ---------------------------------------------------------------- */
/* The bits of an instruction that `mask` has, replaced by those of `bits`. */
static hd_error put_bits(const hd_patch *p, uint32_t mask, uint32_t bits, bool fits) {
    uint32_t word = 0;
    if (p->left >= sizeof word) memcpy(&word, p->at, sizeof word);
    return put(p, (int64_t)((word & ~mask) | (bits & mask)), sizeof word, fits);
}
/* adrp: how many 4 KB the page of the target is away, whatever the pages of the system are. */
static hd_error put_page(const hd_patch *p, uintptr_t target) {
    const uint64_t page = ~(uint64_t)4095; /* unsigned: what is damaged may overflow */
    const int64_t away = (int64_t)((target & page) - ((uintptr_t)p->at & page)) / 4096;
    const uint32_t low = (uint32_t)away & 3, high = (uint32_t)(away >> 2) & 0x7ffff;
    return put_bits(p, 0x60ffffe0u, low << 29 | high << 5, away >= -(1 << 20) && away < 1 << 20);
}
/* add, ldr, str: the place within that page, counted in what the instruction reads or writes. */
static hd_error put_low(const hd_patch *p, uintptr_t target, unsigned scale) {
    const uint32_t offset = target & 4095, unit = 1u << scale;
    if (offset % unit != 0) return broken("an address is not aligned");
    return put_bits(p, 0x003ffc00u, offset / unit << 10, true);
}
static hd_error put_jump(const hd_patch *p, int64_t away) {
    if (away % 4 != 0) return broken("an address is not aligned");
    return put_bits(p, 0x03ffffffu, (uint32_t)(away / 4), away >= -(1 << 27) && away < 1 << 27);
}

static hd_error relocate_aarch64(uint32_t type, const hd_patch *p) {
    const uintptr_t target = p->symbol + (uint64_t)p->addend;
    const int64_t relative = (int64_t)(target - (uintptr_t)p->at);
    switch (type) {
    case HD_R_AARCH64_NONE: return HD_OK;
    case HD_R_AARCH64_ABS64: return put(p, (int64_t)(p->outside + (uint64_t)p->addend), 8, true);
    case HD_R_AARCH64_PREL64: return put(p, relative, 8, true);
    case HD_R_AARCH64_PREL32: return put(p, relative, 4, relative == (int32_t)relative);
    case HD_R_AARCH64_CALL26:
    case HD_R_AARCH64_JUMP26: return put_jump(p, relative);
    case HD_R_AARCH64_ADR_PREL_PG_HI21: return put_page(p, target);
    case HD_R_AARCH64_ADD_ABS_LO12_NC:
    case HD_R_AARCH64_LDST8_ABS_LO12_NC: return put_low(p, target, 0);
    case HD_R_AARCH64_LDST16_ABS_LO12_NC: return put_low(p, target, 1);
    case HD_R_AARCH64_LDST32_ABS_LO12_NC: return put_low(p, target, 2);
    case HD_R_AARCH64_LDST64_ABS_LO12_NC: return put_low(p, target, 3);
    case HD_R_AARCH64_LDST128_ABS_LO12_NC: return put_low(p, target, 4);
    case HD_R_AARCH64_ADR_GOT_PAGE:
    case HD_R_AARCH64_LD64_GOT_LO12_NC:
        if (p->addend != 0) break; /* the table has addresses of symbols, not of what lies behind them */
        return type == HD_R_AARCH64_ADR_GOT_PAGE ? put_page(p, p->entry) : put_low(p, p->entry, 3);
    default: break;
    }
    return broken("a relocation of a kind that no kernel has");
}

/* ---- x86-64: addresses are numbers of 4 or 8 bytes --------------------------------------------------------------- */
static hd_error relocate_x86_64(uint32_t type, const hd_patch *p) {
    const uint64_t addend = (uint64_t)p->addend, at = (uintptr_t)p->at; /* unsigned: what is damaged may overflow */
    const int64_t value = (int64_t)(p->symbol + addend), relative = (int64_t)(p->symbol + addend - at),
                  entry = (int64_t)(p->entry + addend - at);
    switch (type) {
    case HD_R_X86_64_NONE: return HD_OK;
    case HD_R_X86_64_64: return put(p, (int64_t)(p->outside + addend), 8, true);
    case HD_R_X86_64_PC64: return put(p, relative, 8, true);
    case HD_R_X86_64_PC32:
    case HD_R_X86_64_PLT32: return put(p, relative, 4, relative == (int32_t)relative);
    case HD_R_X86_64_32: return put(p, value, 4, value == (int64_t)(uint32_t)value);
    case HD_R_X86_64_32S: return put(p, value, 4, value == (int32_t)value);
    case HD_R_X86_64_GOTPCREL:
    case HD_R_X86_64_GOTPCRELX:
    case HD_R_X86_64_REX_GOTPCRELX: return put(p, entry, 4, entry == (int32_t)entry);
    default: return broken("a relocation of a kind that no kernel has");
    }
}

hd_error hd_relocate(int machine, uint32_t type, const hd_patch *p) {
    return machine == HD_ELF_AARCH64 ? relocate_aarch64(type, p) : relocate_x86_64(type, p);
}

void hd_relocate_stub(int machine, uint8_t *stub, uintptr_t address) {
    static const uint32_t load_and_jump[2] = {0x58000050u, 0xd61f0200u}; /* ldr x16, what follows; br x16 */
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};             /* jmp to what follows */
    if (machine == HD_ELF_AARCH64) {
        memcpy(stub, load_and_jump, sizeof load_and_jump);
        memcpy(stub + sizeof load_and_jump, &address, sizeof address);
    } else {
        memcpy(stub, jump, sizeof jump);
        memcpy(stub + sizeof jump, &address, sizeof address);
    }
}
