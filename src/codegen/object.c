/* Placing an ELF object in memory: just enough of a linker for one kernel and what it calls of libm and libc. Objects
 * come from a disk cache, too: nothing in them is trusted, every offset is checked before it is used. */
#include "codegen/code.h"
#include "codegen/elf.h"
#include "codegen/relocate.h"
#include "core/memory.h"
#include "core/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
enum { MACHINE = HD_ELF_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = HD_ELF_AARCH64 };
#else
enum { MACHINE = HD_ELF_NO_MACHINE };
#endif
enum { SECTIONS_MOST = 4096, BYTES_MOST = 1 << 28 };

typedef struct object {
    const uint8_t *file;
    size_t bytes;
    hd_elf_head head;
    int symbol_count;
    hd_elf_section symbols, names;              /* the symbol table, and the strings of it */
    uint64_t *offset;                           /* of every section in `memory`; NOWHERE: it has none */
    size_t text_bytes, all_bytes, stubs, table; /* where the stubs and the table of addresses begin */
    uint8_t *memory;
} object;

static const uint64_t NOWHERE = UINT64_MAX;

static hd_error broken(const char *why) { return hd_fail(HD_ERROR_INTERNAL, "an object file is damaged: %s", why); }

/* ---- what is in the file ----------------------------------------------------------------------------------------- */
static bool within(uint64_t offset, uint64_t size, uint64_t all) { return offset <= all && size <= all - offset; }

static hd_elf_section section(const object *o, int i) {
    hd_elf_section s;
    memcpy(&s, o->file + o->head.section_offset + (size_t)i * sizeof s, sizeof s);
    return s;
}

static hd_elf_symbol symbol(const object *o, uint64_t i) {
    hd_elf_symbol s;
    memcpy(&s, o->file + o->symbols.offset + i * sizeof s, sizeof s);
    return s;
}

/* NULL when it does not end within the strings. */
static const char *symbol_name(const object *o, const hd_elf_symbol *s) {
    const char *names = (const char *)o->file + o->names.offset;
    if (s->name >= o->names.size) return NULL;
    return memchr(names + s->name, '\0', o->names.size - s->name) != NULL ? names + s->name : NULL;
}

static hd_error read_head(object *o) {
    if (o->bytes < sizeof o->head) return broken("it is too short");
    memcpy(&o->head, o->file, sizeof o->head);
    const hd_elf_head *h = &o->head;
    if (memcmp(h->ident,
               "\x7f"
               "ELF",
               4) != 0 ||
        h->ident[HD_ELF_CLASS] != HD_ELF_CLASS_64 || h->ident[HD_ELF_ORDER] != HD_ELF_LITTLE_ENDIAN ||
        h->type != HD_ELF_RELOCATABLE || h->machine != MACHINE)
        return broken("it is no object of this machine");
    if (h->section_bytes != sizeof(hd_elf_section) || h->section_count == 0 || h->section_count > SECTIONS_MOST ||
        !within(h->section_offset, (uint64_t)h->section_count * sizeof(hd_elf_section), o->bytes))
        return broken("its sections are not where it says");
    for (int i = 0; i < h->section_count; ++i) {
        const hd_elf_section s = section(o, i);
        if (s.type != HD_ELF_NO_BITS && !within(s.offset, s.size, o->bytes)) /* whatever else it is */
            return broken("a section reaches behind its end");
        if (s.type == HD_ELF_SYMBOLS) o->symbols = s;
    }
    if (o->symbols.type != HD_ELF_SYMBOLS || o->symbols.link >= h->section_count ||
        o->symbols.size / sizeof(hd_elf_symbol) > INT32_MAX)
        return broken("it has no symbols");
    o->symbol_count = (int)(o->symbols.size / sizeof(hd_elf_symbol));
    o->names = section(o, (int)o->symbols.link);
    return o->names.type == HD_ELF_STRINGS ? HD_OK : broken("its symbols have no names");
}

/* ---- where it goes: code and stubs, then, on pages of their own, constants and the table of addresses ------------ */
static size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

static hd_error lay_out_part(object *o, bool code, size_t *at) {
    for (int i = 0; i < o->head.section_count; ++i) {
        const hd_elf_section s = section(o, i);
        if ((s.flags & HD_ELF_ALLOCATED) == 0 || ((s.flags & HD_ELF_EXECUTABLE) != 0) != code) continue;
        const uint64_t unit = s.alignment == 0 ? 1 : s.alignment;
        if ((s.flags & HD_ELF_THREAD_LOCAL) != 0 || (unit & (unit - 1)) != 0 || unit > 4096 || s.size > BYTES_MOST)
            return broken("a section of no kind that a kernel has");
        *at = rounded_up(*at, (size_t)unit);
        o->offset[i] = *at;
        *at += (size_t)s.size;
        if (*at > BYTES_MOST) return broken("it is too large");
    }
    return HD_OK;
}

static hd_error lay_out_sections(object *o) {
    size_t at = 0;
    for (int i = 0; i < o->head.section_count; ++i) o->offset[i] = NOWHERE;
    HD_TRY(lay_out_part(o, true, &at));
    o->stubs = rounded_up(at, HD_STUB_BYTES);
    const size_t page = hd_os_page_bytes();
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
    const hd_elf_symbol s = symbol(o, index);
    const uintptr_t base = (uintptr_t)o->memory;
    if (s.section == HD_ELF_UNDEFINED) {
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
        s.section < o->head.section_count && o->offset[s.section] != NOWHERE && s.value <= section(o, s.section).size;
    if (!here) broken("a symbol lies nowhere");
    return here ? base + o->offset[s.section] + s.value : 0;
}

/* ---- relocations ------------------------------------------------------------------------------------------------- */
static hd_error relocate_section(object *o, const hd_elf_section *relocations) {
    const int to = (int)relocations->info;
    if (relocations->info >= o->head.section_count) return broken("relocations of no section");
    if (o->offset[to] == NOWHERE) return HD_OK;
    const hd_elf_section target = section(o, to);
    if (target.type == HD_ELF_NO_BITS) return broken("relocations of an empty section");
    for (uint64_t i = 0; i < relocations->size / sizeof(hd_elf_relocation); ++i) {
        hd_elf_relocation r;
        memcpy(&r, o->file + relocations->offset + i * sizeof r, sizeof r);
        const uint64_t index = (r.info >> 32);
        if (r.offset >= target.size || index >= (uint64_t)o->symbol_count)
            return broken("a relocation lies outside its section");
        if ((uint32_t)r.info == 0) continue; /* none */
        hd_patch p = {.at = o->memory + o->offset[to] + r.offset,
                      .left = target.size - r.offset,
                      .symbol = symbol_address(o, index, true),
                      .outside = symbol_address(o, index, false),
                      .entry = (uintptr_t)o->memory + o->table + index * 8,
                      .addend = r.addend};
        if (p.symbol == 0) return HD_ERROR_INTERNAL;
        memcpy(o->memory + o->table + index * 8, &p.outside, 8);
        HD_TRY(hd_relocate(MACHINE, (uint32_t)r.info, &p));
    }
    return HD_OK;
}

static hd_error fill_memory(object *o) {
    for (int i = 0; i < o->head.section_count; ++i) {
        const hd_elf_section s = section(o, i);
        if (o->offset[i] != NOWHERE && s.type != HD_ELF_NO_BITS)
            memcpy(o->memory + o->offset[i], o->file + s.offset, (size_t)s.size);
    }
    for (int i = 0; i < o->head.section_count; ++i) {
        const hd_elf_section s = section(o, i);
        if (s.type == HD_ELF_RELA) HD_TRY(relocate_section(o, &s));
        if (s.type == HD_ELF_REL && s.size > 0) return broken("relocations of a kind that no kernel has");
    }
    return HD_OK;
}

static hd_error find_function(object *o, const char *name, hd_kernel_function *out) {
    for (int i = 0; i < o->symbol_count; ++i) {
        const hd_elf_symbol s = symbol(o, (uint64_t)i);
        const char *own = symbol_name(o, &s);
        if (own == NULL || strcmp(own, name) != 0 || (s.info & 15) != HD_ELF_FUNCTION) continue;
        const bool code = s.section != HD_ELF_UNDEFINED && s.section < o->head.section_count &&
                          o->offset[s.section] != NOWHERE && (section(o, s.section).flags & HD_ELF_EXECUTABLE) != 0 &&
                          s.value < section(o, s.section).size;
        if (!code) return broken("its function lies nowhere");
        const uintptr_t address = (uintptr_t)o->memory + o->offset[s.section] + s.value;
        memcpy(out, &address, sizeof *out);
        return HD_OK;
    }
    return broken("it has no such function");
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static hd_error map(object *o) {
    o->memory = hd_os_code_map(o->all_bytes);
    return o->memory != NULL ? HD_OK : hd_fail(HD_ERROR_MEMORY, "no memory for %zu bytes of code", o->all_bytes);
}

static hd_error protect(const object *o) {
    if (hd_os_code_seal(o->memory, o->text_bytes, o->all_bytes)) return HD_OK;
    return hd_fail(HD_ERROR_MEMORY, "this system lets no memory be made executable");
}

hd_error hd_object_load(const void *file, size_t bytes, const char *name, hd_code *code) {
    object o = {.file = file, .bytes = bytes};
    HD_TRY(read_head(&o));
    o.offset = hd_array_resize(NULL, (size_t)o.head.section_count * sizeof *o.offset);
    if (o.offset == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to load an object file");
    hd_error status = lay_out_sections(&o);
    if (status == HD_OK) status = map(&o);
    if (status == HD_OK) status = fill_memory(&o);
    if (status == HD_OK) status = find_function(&o, name, &code->run);
    if (status == HD_OK) status = protect(&o);
    hd_array_release(o.offset);
    if (status != HD_OK) {
        if (o.memory != NULL) hd_os_code_unmap(o.memory, o.all_bytes);
        code->run = NULL;
        return status;
    }
    code->memory = o.memory;
    code->memory_bytes = o.all_bytes;
    return HD_OK;
}

void hd_object_unload(hd_code *code) {
    if (code->memory != NULL) hd_os_code_unmap(code->memory, code->memory_bytes);
    code->memory = NULL;
    code->run = NULL;
}
