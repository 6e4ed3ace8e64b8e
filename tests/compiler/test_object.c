/* The loader of object files: relocations, what it refuses, and that no damaged object does harm. */
#include "compiler/finish.h"
#include "support.h"

#include <elf.h>
#include <math.h>

#include "codegen/code.h"
#include "core/memory.h"

/* ---- an object made by hand -------------------------------------------------------------------------------------- */
enum { TEXT = 1, DATA, RELOCATE_TEXT, RELOCATE_DATA, SYMBOLS, NAMES, SECTIONS };
enum { DATA_SYMBOL = 1, FUNCTION_SYMBOL, OUTSIDE_SYMBOL, SYMBOL_COUNT };

typedef struct object_file {
    Elf64_Ehdr head;
    Elf64_Shdr section[SECTIONS];
    uint8_t text[64];
    uint64_t data[2];
    Elf64_Rela relocate_text[4], relocate_data[1];
    Elf64_Sym symbol[SYMBOL_COUNT];
    char names[32];
} object_file;

#define AT(field) offsetof(object_file, field), sizeof(((object_file *)0)->field)
static Elf64_Shdr section_of(uint32_t type, uint64_t flags, uint64_t offset, uint64_t size, uint32_t link,
                             uint32_t info) {
    return (Elf64_Shdr){.sh_type = type,
                        .sh_flags = flags,
                        .sh_offset = offset,
                        .sh_size = size,
                        .sh_link = link,
                        .sh_info = info,
                        .sh_addralign = 8};
}

/* A kernel that writes what it read from its data, and the address of a function outside, to its first buffer. */
#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64, NO_KERNEL_HAS = R_AARCH64_TLSLE_ADD_TPREL_HI12, ADDRESS = R_AARCH64_ABS64 };
static const uint32_t instructions[] = {
    0xf9400009, /* ldr x9, [x0] */
    0x9000000a, /* adrp x10, data */
    0xf940014a, /* ldr x10, [x10, its place on the page] */
    0xf900012a, /* str x10, [x9] */
    0x9000000a, /* adrp x10, address of fmod */
    0xf940014a, /* ldr x10, [x10, its place on the page] */
    0xf900052a, /* str x10, [x9, 8] */
    0xd65f03c0, /* ret */
};
static const Elf64_Rela relocations[] = {
    {4, ELF64_R_INFO((uint64_t)DATA_SYMBOL, R_AARCH64_ADR_PREL_PG_HI21), 0},
    {8, ELF64_R_INFO((uint64_t)DATA_SYMBOL, R_AARCH64_LDST64_ABS_LO12_NC), 0},
    {16, ELF64_R_INFO((uint64_t)OUTSIDE_SYMBOL, R_AARCH64_ADR_GOT_PAGE), 0},
    {20, ELF64_R_INFO((uint64_t)OUTSIDE_SYMBOL, R_AARCH64_LD64_GOT_LO12_NC), 0},
};
#else
enum { MACHINE = EM_X86_64, NO_KERNEL_HAS = R_X86_64_TPOFF32, ADDRESS = R_X86_64_64 };
static const uint8_t instructions[] = {
    0x48, 0x8b, 0x07,                /* mov rax, [rdi] */
    0x48, 0x8d, 0x0d, 0,    0, 0, 0, /* lea rcx, [rip + data]: PC32 at 6 */
    0x48, 0x8b, 0x09,                /* mov rcx, [rcx] */
    0x48, 0x89, 0x08,                /* mov [rax], rcx */
    0x48, 0x8b, 0x0d, 0,    0, 0, 0, /* mov rcx, [rip + address of fmod]: GOTPCRELX at 19 */
    0x48, 0x89, 0x48, 0x08,          /* mov [rax + 8], rcx */
    0xc3,                            /* ret */
};
static const Elf64_Rela relocations[] = {
    {6, ELF64_R_INFO((uint64_t)DATA_SYMBOL, R_X86_64_PC32), -4},
    {19, ELF64_R_INFO((uint64_t)OUTSIDE_SYMBOL, R_X86_64_REX_GOTPCRELX), -4},
};
#endif

static object_file made_by_hand(void) {
    object_file f = {.head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                              .e_type = ET_REL,
                              .e_machine = MACHINE,
                              .e_version = 1,
                              .e_shoff = offsetof(object_file, section),
                              .e_ehsize = sizeof(Elf64_Ehdr),
                              .e_shentsize = sizeof(Elf64_Shdr),
                              .e_shnum = SECTIONS},
                     .names = "\0data\0kernel\0fmod"};
    memcpy(f.text, instructions, sizeof instructions);
    f.section[TEXT] = section_of(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, AT(text), 0, 0);
    f.section[DATA] = section_of(SHT_PROGBITS, SHF_ALLOC, AT(data), 0, 0);
    f.section[RELOCATE_TEXT] =
        section_of(SHT_RELA, 0, offsetof(object_file, relocate_text), sizeof relocations, SYMBOLS, TEXT);
    f.section[RELOCATE_DATA] = section_of(SHT_RELA, 0, AT(relocate_data), SYMBOLS, DATA);
    f.section[SYMBOLS] = section_of(SHT_SYMTAB, 0, AT(symbol), NAMES, 1);
    f.section[NAMES] = section_of(SHT_STRTAB, 0, AT(names), 0, 0);
    memcpy(f.relocate_text, relocations, sizeof relocations);
    f.relocate_data[0] = (Elf64_Rela){8, ELF64_R_INFO((uint64_t)FUNCTION_SYMBOL, ADDRESS), 0};
    f.symbol[DATA_SYMBOL] =
        (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_shndx = DATA, .st_value = 8};
    f.symbol[FUNCTION_SYMBOL] =
        (Elf64_Sym){.st_name = 6, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = TEXT};
    f.symbol[OUTSIDE_SYMBOL] = (Elf64_Sym){.st_name = 13, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};
    return f;
}

static void relocations_reach_their_targets(void **state) {
    (void)state;
    const object_file f = made_by_hand();
    hd_code code = {.run = NULL};
    assert_int_equal(hd_object_load(&f, sizeof f, "kernel", &code), HD_OK);
    uintptr_t out[2] = {0}, own;
    char *buffers[1] = {(char *)out};
    code.run(buffers, NULL, NULL, NULL);
    memcpy(&own, &code.run, sizeof own);
    assert_true(out[0] == own);
    assert_true(out[1] == (uintptr_t)fmod);
    hd_object_unload(&code);
    assert_null(code.memory);
}

static void refused(const object_file *f, size_t bytes, const char *name, const char *why) {
    hd_code code = {.run = NULL};
    assert_int_not_equal(hd_object_load(f, bytes, name, &code), HD_OK);
    assert_null(code.memory);
    assert_error(HD_ERROR_INTERNAL, why);
}

static void what_it_refuses_it_names(void **state) {
    (void)state;
    object_file f = made_by_hand();
    refused(&f, sizeof f, "another", "no such function");
    refused(&f, 10, "kernel", "too short");
    refused(&f, sizeof f - 200, "kernel", "behind its end");
    f.head.e_machine = EM_386;
    refused(&f, sizeof f, "kernel", "no object of this machine");
    f = made_by_hand();
    memcpy(f.names + 13, "exec", 4);
    refused(&f, sizeof f, "kernel", "calls exec");
    f = made_by_hand();
    f.relocate_text[0].r_offset = sizeof f.text - 2;
    refused(&f, sizeof f, "kernel", "outside its section");
    f = made_by_hand();
    f.relocate_text[0].r_addend = (int64_t)1 << 40;
    refused(&f, sizeof f, "kernel", "too far away");
    f = made_by_hand();
    f.relocate_text[0].r_info = ELF64_R_INFO((uint64_t)DATA_SYMBOL, NO_KERNEL_HAS);
    refused(&f, sizeof f, "kernel", "of a kind that no kernel has");
    f = made_by_hand();
    f.symbol[DATA_SYMBOL].st_value = 99;
    refused(&f, sizeof f, "kernel", "lies nowhere");
    f = made_by_hand();
    f.section[DATA].sh_size = (uint64_t)1 << 60;
    f.section[DATA].sh_type = SHT_NOBITS;
    refused(&f, sizeof f, "kernel", "no kind that a kernel has");
    for (uint32_t type = SHT_NULL; type < SHT_NUM; ++type) { /* a section that is placed is read, whatever it is */
        if (type == SHT_NOBITS) continue;
        f = made_by_hand();
        f.section[0] = section_of(type, SHF_ALLOC, (uint64_t)1 << 40, 4096, 0, 0);
        refused(&f, sizeof f, "kernel", "behind its end");
    }
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */
/* Loading gives an error or code, and never touches what is not there (this runs under asan, too); the code is not
 * run. */
static void try_to_load(const uint8_t *object, size_t bytes) {
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1); /* as long as the object: reading on is found */
    memcpy(copy, object, bytes);
    hd_code code = {.run = NULL};
    if (hd_object_load(copy, bytes, "kernel", &code) == HD_OK)
        hd_object_unload(&code);
    else
        hd_error_clear();
    free(copy);
}

static void damage(const uint8_t *object, size_t bytes) {
    uint8_t *copy = malloc(bytes);
    memcpy(copy, object, bytes);
    for (size_t i = 0; i < bytes; ++i)
        for (int how = 0; how < 3; ++how) {
            copy[i] = (uint8_t)(how == 0 ? object[i] ^ 0x80 : how == 1 ? object[i] ^ (1 << i % 7) : 0xff);
            try_to_load(copy, bytes);
            copy[i] = object[i];
        }
    uint64_t state = 12345;
    for (int i = 0; i < 2000; ++i) { /* several at once */
        for (int k = 0; k < 8; ++k) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            copy[(state >> 33) % bytes] = (uint8_t)(state >> 25);
        }
        try_to_load(copy, bytes);
        if (i % 16 == 0) memcpy(copy, object, bytes);
    }
    free(copy);
}

static void no_damage_does_harm(void **state) {
    (void)state;
    const object_file f = made_by_hand();
    damage((const uint8_t *)&f, sizeof f);
}

#if HD_HAS_LLVM
/* A kernel with constants and a call. */
static void compiled_objects_too(void **state) {
    (void)state;
    static const uint8_t strides[1] = {HD_STRIDE_ONE};
    hd_kernel k;
    void *object = NULL;
    size_t bytes = 0;
    hd_kernel_init(&k, 1, 1);
    const int x = hd_kernel_load(&k, hd_kernel_add_buffer(&k, HD_F32, false, strides), -1);
    const int y = hd_kernel_word(&k, HD_WORD_FMOD, hd_kernel_word(&k, HD_WORD_EXP, x, -1, -1), x, -1);
    hd_kernel_store(&k, hd_kernel_add_buffer(&k, HD_F32, true, strides), y);
    assert_int_equal(kernel_finish(&k, 0, hd_code_vector_bytes()), HD_OK);
    assert_int_equal(hd_llvm_object(&k, "kernel", &object, &bytes), HD_OK);
    damage(object, bytes);
    for (size_t n = 0; n < bytes; ++n) {
        hd_code code = {.run = NULL};
        assert_int_not_equal(hd_object_load(object, n, "kernel", &code), HD_OK); /* its sections stand at its end */
        hd_error_clear();
    }
    hd_array_release(object);
    hd_kernel_release(&k);
}
#else
static void compiled_objects_too(void **state) {
    (void)state;
    skip();
}
#endif

RUN(test(relocations_reach_their_targets), test(what_it_refuses_it_names), test(no_damage_does_harm),
    test(compiled_objects_too))
