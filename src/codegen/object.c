/* Placing an ELF object in memory: just enough of a linker for one kernel and what it calls of libm and libc. Objects
 * come from a disk cache, too: nothing in them is trusted, every offset is checked before it is used. */
#include "codegen/code.h"
#include "codegen/relocate.h"
#include "core/memory.h"

#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif
enum { SECTIONS_MOST = 4096, BYTES_MOST = 1 << 28 };

typedef struct object {
    const uint8_t *file;
    size_t bytes;
    Elf64_Ehdr head;
    int symbol_count;
    Elf64_Shdr symbols, names;                  /* the symbol table, and the strings of it */
    uint64_t *place;                            /* of every section in `memory`; NOWHERE: it has none */
    size_t text_bytes, all_bytes, stubs, table; /* where the stubs and the table of addresses begin */
    uint8_t *memory;
} object;

static const uint64_t NOWHERE = UINT64_MAX;

static hd_error broken(const char *why) { return hd_fail(HD_ERROR_INTERNAL, "an object file is damaged: %s", why); }

/* ---- what is in the file ----------------------------------------------------------------------------------------- */
static bool within(uint64_t offset, uint64_t size, uint64_t all) { return offset <= all && size <= all - offset; }

static Elf64_Shdr section(const object *o, int i) {
    Elf64_Shdr s;
    memcpy(&s, o->file + o->head.e_shoff + (size_t)i * sizeof s, sizeof s);
    return s;
}

static Elf64_Sym symbol(const object *o, uint64_t i) {
    Elf64_Sym s;
    memcpy(&s, o->file + o->symbols.sh_offset + i * sizeof s, sizeof s);
    return s;
}

/* NULL when it does not end within the strings. */
static const char *symbol_name(const object *o, const Elf64_Sym *s) {
    const char *names = (const char *)o->file + o->names.sh_offset;
    if (s->st_name >= o->names.sh_size) return NULL;
    return memchr(names + s->st_name, '\0', o->names.sh_size - s->st_name) != NULL ? names + s->st_name : NULL;
}

static hd_error read_head(object *o) {
    if (o->bytes < sizeof o->head) return broken("it is too short");
    memcpy(&o->head, o->file, sizeof o->head);
    const Elf64_Ehdr *h = &o->head;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_REL || h->e_machine != MACHINE)
        return broken("it is no object of this machine");
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 || h->e_shnum > SECTIONS_MOST ||
        !within(h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr), o->bytes))
        return broken("its sections are not where it says");
    for (int i = 0; i < h->e_shnum; ++i) {
        const Elf64_Shdr s = section(o, i);
        if (s.sh_type != SHT_NOBITS && !within(s.sh_offset, s.sh_size, o->bytes)) /* whatever else it is */
            return broken("a section reaches behind its end");
        if (s.sh_type == SHT_SYMTAB) o->symbols = s;
    }
    if (o->symbols.sh_type != SHT_SYMTAB || o->symbols.sh_link >= h->e_shnum ||
        o->symbols.sh_size / sizeof(Elf64_Sym) > INT32_MAX)
        return broken("it has no symbols");
    o->symbol_count = (int)(o->symbols.sh_size / sizeof(Elf64_Sym));
    o->names = section(o, (int)o->symbols.sh_link);
    return o->names.sh_type == SHT_STRTAB ? HD_OK : broken("its symbols have no names");
}

/* ---- where it goes: code and stubs, then, on pages of their own, constants and the table of addresses ------------ */
static size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

static hd_error lay_out_part(object *o, bool code, size_t *at) {
    for (int i = 0; i < o->head.e_shnum; ++i) {
        const Elf64_Shdr s = section(o, i);
        if ((s.sh_flags & SHF_ALLOC) == 0 || ((s.sh_flags & SHF_EXECINSTR) != 0) != code) continue;
        const uint64_t unit = s.sh_addralign == 0 ? 1 : s.sh_addralign;
        if ((s.sh_flags & SHF_TLS) != 0 || (unit & (unit - 1)) != 0 || unit > 4096 || s.sh_size > BYTES_MOST)
            return broken("a section of no kind that a kernel has");
        *at = rounded_up(*at, (size_t)unit);
        o->place[i] = *at;
        *at += (size_t)s.sh_size;
        if (*at > BYTES_MOST) return broken("it is too large");
    }
    return HD_OK;
}

static hd_error lay_out(object *o) {
    size_t at = 0;
    for (int i = 0; i < o->head.e_shnum; ++i) o->place[i] = NOWHERE;
    HD_TRY(lay_out_part(o, true, &at));
    o->stubs = rounded_up(at, HD_STUB_BYTES);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    o->text_bytes = rounded_up(o->stubs + (size_t)o->symbol_count * HD_STUB_BYTES, page);
    at = o->text_bytes;
    HD_TRY(lay_out_part(o, false, &at));
    o->table = rounded_up(at, 8);
    o->all_bytes = rounded_up(o->table + (size_t)o->symbol_count * 8, page);
    return o->all_bytes <= BYTES_MOST ? HD_OK : broken("it is too large");
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */
/* All that a kernel may call. */
static uintptr_t outside_address(const char *name) {
#define KNOWN(f)                                                                                                       \
    { #f, (uintptr_t)f }
    static const struct {
        const char *name;
        uintptr_t address;
    } known[] = {KNOWN(fmod),       KNOWN(fmodf),  KNOWN(fma),    KNOWN(fmaf),    KNOWN(sqrt),
                 KNOWN(sqrtf),      KNOWN(rint),   KNOWN(rintf),  KNOWN(floor),   KNOWN(floorf),
                 KNOWN(ceil),       KNOWN(ceilf),  KNOWN(trunc),  KNOWN(truncf),  KNOWN(nearbyint),
                 KNOWN(nearbyintf), KNOWN(memcpy), KNOWN(memset), KNOWN(memmove), KNOWN(memcmp)};
#undef KNOWN
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcmp(known[i].name, name) == 0) return known[i].address;
    return 0;
}

/* The address of a symbol, or 0 with an error. What lies outside is reached through a stub when code calls it. */
static uintptr_t symbol_address(object *o, uint64_t index, bool called) {
    const Elf64_Sym s = symbol(o, index);
    const uintptr_t base = (uintptr_t)o->memory;
    if (s.st_shndx == SHN_UNDEF) {
        const char *name = symbol_name(o, &s);
        const uintptr_t address = name == NULL ? 0 : outside_address(name);
        if (address == 0)
            hd_fail(HD_ERROR_INTERNAL, "a kernel calls %s, which is not known here", name ? name : "nothing");
        if (address == 0 || !called) return address;
        uint8_t *stub = o->memory + o->stubs + index * HD_STUB_BYTES;
        hd_relocate_stub(MACHINE, stub, address);
        return (uintptr_t)stub;
    }
    const bool here =
        s.st_shndx < o->head.e_shnum && o->place[s.st_shndx] != NOWHERE && s.st_value <= section(o, s.st_shndx).sh_size;
    if (!here) broken("a symbol lies nowhere");
    return here ? base + o->place[s.st_shndx] + s.st_value : 0;
}

/* ---- relocations ------------------------------------------------------------------------------------------------- */
static hd_error relocate_section(object *o, const Elf64_Shdr *relocations) {
    const int to = (int)relocations->sh_info;
    if (relocations->sh_info >= o->head.e_shnum) return broken("relocations of no section");
    if (o->place[to] == NOWHERE) return HD_OK;
    const Elf64_Shdr target = section(o, to);
    if (target.sh_type == SHT_NOBITS) return broken("relocations of an empty section");
    for (uint64_t i = 0; i < relocations->sh_size / sizeof(Elf64_Rela); ++i) {
        Elf64_Rela r;
        memcpy(&r, o->file + relocations->sh_offset + i * sizeof r, sizeof r);
        const uint64_t index = ELF64_R_SYM(r.r_info);
        if (r.r_offset >= target.sh_size || index >= (uint64_t)o->symbol_count)
            return broken("a relocation lies outside its section");
        if (ELF64_R_TYPE(r.r_info) == 0) continue; /* none */
        hd_patch p = {.at = o->memory + o->place[to] + r.r_offset,
                      .left = target.sh_size - r.r_offset,
                      .symbol = symbol_address(o, index, true),
                      .outside = symbol_address(o, index, false),
                      .entry = (uintptr_t)o->memory + o->table + index * 8,
                      .addend = r.r_addend};
        if (p.symbol == 0) return HD_ERROR_INTERNAL;
        memcpy(o->memory + o->table + index * 8, &p.outside, 8);
        HD_TRY(hd_relocate(MACHINE, ELF64_R_TYPE(r.r_info), &p));
    }
    return HD_OK;
}

static hd_error fill_memory(object *o) {
    for (int i = 0; i < o->head.e_shnum; ++i) {
        const Elf64_Shdr s = section(o, i);
        if (o->place[i] != NOWHERE && s.sh_type != SHT_NOBITS)
            memcpy(o->memory + o->place[i], o->file + s.sh_offset, (size_t)s.sh_size);
    }
    for (int i = 0; i < o->head.e_shnum; ++i) {
        const Elf64_Shdr s = section(o, i);
        if (s.sh_type == SHT_RELA) HD_TRY(relocate_section(o, &s));
        if (s.sh_type == SHT_REL && s.sh_size > 0) return broken("relocations of a kind that no kernel has");
    }
    return HD_OK;
}

static hd_error find_function(object *o, const char *name, hd_kernel_function *out) {
    for (int i = 0; i < o->symbol_count; ++i) {
        const Elf64_Sym s = symbol(o, (uint64_t)i);
        const char *own = symbol_name(o, &s);
        if (own == NULL || strcmp(own, name) != 0 || ELF64_ST_TYPE(s.st_info) != STT_FUNC) continue;
        const bool code = s.st_shndx != SHN_UNDEF && s.st_shndx < o->head.e_shnum && o->place[s.st_shndx] != NOWHERE &&
                          (section(o, s.st_shndx).sh_flags & SHF_EXECINSTR) != 0 &&
                          s.st_value < section(o, s.st_shndx).sh_size;
        if (!code) return broken("its function lies nowhere");
        const uintptr_t address = (uintptr_t)o->memory + o->place[s.st_shndx] + s.st_value;
        memcpy(out, &address, sizeof *out);
        return HD_OK;
    }
    return broken("it has no such function");
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static hd_error map(object *o) {
    void *memory = mmap(NULL, o->all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return hd_fail(HD_ERROR_MEMORY, "no memory for %zu bytes of code", o->all_bytes);
    o->memory = memory;
    return HD_OK;
}

/* A core of AArch64 may still hold instructions that lay here before: each one has to forget them, and only the system
 * can reach them all. One too old to do so takes far longer to make memory executable than a core looks ahead. */
static void forget_old_code(void) {
#ifdef __aarch64__
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
#endif
}

static hd_error protect(const object *o) {
    __builtin___clear_cache((char *)o->memory, (char *)o->memory + o->text_bytes);
    if (mprotect(o->memory, o->text_bytes, PROT_READ | PROT_EXEC) != 0 ||
        mprotect(o->memory + o->text_bytes, o->all_bytes - o->text_bytes, PROT_READ) != 0)
        return hd_fail(HD_ERROR_MEMORY, "this system lets no memory be made executable");
    forget_old_code();
    return HD_OK;
}

hd_error hd_object_load(const void *file, size_t bytes, const char *name, hd_code *code) {
    object o = {.file = file, .bytes = bytes};
    HD_TRY(read_head(&o));
    o.place = hd_array_resize(NULL, (size_t)o.head.e_shnum * sizeof *o.place);
    if (o.place == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to load an object file");
    hd_error status = lay_out(&o);
    if (status == HD_OK) status = map(&o);
    if (status == HD_OK) status = fill_memory(&o);
    if (status == HD_OK) status = find_function(&o, name, &code->run);
    if (status == HD_OK) status = protect(&o);
    hd_array_release(o.place);
    if (status != HD_OK) {
        if (o.memory != NULL) munmap(o.memory, o.all_bytes);
        code->run = NULL;
        return status;
    }
    code->memory = o.memory;
    code->memory_bytes = o.all_bytes;
    return HD_OK;
}

void hd_object_unload(hd_code *code) {
    if (code->memory != NULL) munmap(code->memory, code->memory_bytes);
    code->memory = NULL;
    code->run = NULL;
}
