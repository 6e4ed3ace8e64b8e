/* Relocations of AArch64, on whatever machine this runs: instructions before, and as GNU ld leaves them for the same
 * distances (as and ld of binutils 2.40 with --defsym). Those of x86-64 run in compiler/object. */
#include "support.h"

#include <elf.h>

#include "codegen/relocate.h"

enum { BYTES = 8192 };
static _Alignas(4096) uint8_t section[BYTES];

static hd_patch patch(int at, int64_t distance, int64_t addend) { /* of the symbol from the section's beginning */
    const uintptr_t symbol = (uintptr_t)section + (uintptr_t)distance;
    return (hd_patch){section + at, BYTES - (uint64_t)at, symbol, symbol, symbol, addend};
}

static void put_word(int at, uint32_t word) { memcpy(section + at, &word, 4); }
static uint32_t word_at(int at) {
    uint32_t word;
    memcpy(&word, section + at, 4);
    return word;
}

enum { FAR = 0x12345678, NEAR = -0x1000 };

static void instructions_are_what_a_linker_makes_of_them(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        int at;
        uint32_t before;
        int64_t symbol, addend;
        uint32_t after;
    } cases[] = {
        {R_AARCH64_ADR_PREL_PG_HI21, 0x10, 0x90000003u, FAR, 0, 0xb0091a23u},
        {R_AARCH64_ADR_PREL_PG_HI21, 0x1000, 0x90000005u, NEAR, 0, 0xd0ffffe5u},
        {R_AARCH64_ADR_PREL_PG_HI21, 0x10, 0x90000003u, 0, FAR, 0xb0091a23u},
        {R_AARCH64_ADD_ABS_LO12_NC, 0x1004, 0x91000083u, FAR, 0, 0x9119e083u},
        {R_AARCH64_LDST8_ABS_LO12_NC, 0x1008, 0x39400041u, FAR, 0, 0x3959e041u},
        {R_AARCH64_LDST16_ABS_LO12_NC, 0x100c, 0x79400041u, FAR, 0, 0x794cf041u},
        {R_AARCH64_LDST32_ABS_LO12_NC, 0x1010, 0xb9400041u, FAR, 0, 0xb9467841u},
        {R_AARCH64_LDST64_ABS_LO12_NC, 0x1014, 0xf9000041u, FAR, 0, 0xf9033c41u},
        {R_AARCH64_LDST128_ABS_LO12_NC, 0x1018, 0x3dc00041u, FAR, -8, 0x3dc19c41u},
        {R_AARCH64_ADR_GOT_PAGE, 0x10, 0x90000003u, FAR, 0, 0xb0091a23u},
        {R_AARCH64_LD64_GOT_LO12_NC, 0x1014, 0xf9400041u, FAR, 0, 0xf9433c41u},
        {R_AARCH64_CALL26, 0x101c, 0x94000000u, 0x12340, 0, 0x940044c9u},
        {R_AARCH64_JUMP26, 0x1020, 0x14000000u, -0x100, 0, 0x17fffbb8u},
        {R_AARCH64_CALL26, 0x1024, 0x94000000u, 0x8001020, 0, 0x95ffffffu}, /* as far as they reach */
        {R_AARCH64_JUMP26, 0x1028, 0x14000000u, -0x7ffefd8, 0, 0x16000000u},
        {R_AARCH64_PREL32, 0x103c, 0, NEAR, 0, 0xffffdfc4u},
        {R_AARCH64_NONE, 0x10, 0x90000003u, FAR, 0, 0x90000003u},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const hd_patch p = patch(cases[i].at, cases[i].symbol, cases[i].addend);
        put_word(cases[i].at, cases[i].before);
        for (int again = 0; again < 2; ++again) { /* what stood there before does not matter */
            if (hd_relocate(EM_AARCH64, cases[i].type, &p) != HD_OK) fail_msg("case %zu: %s", i, hd_error_message());
            if (word_at(cases[i].at) != cases[i].after)
                fail_msg("case %zu: %08x, expected %08x", i, (unsigned)word_at(cases[i].at), (unsigned)cases[i].after);
        }
    }
}

/* A number takes the address itself, a call the stub. */
static void addresses_of_eight_bytes(void **state) {
    (void)state;
    hd_patch p = patch(0x28, FAR, 8);
    uint64_t got;
    p.outside = 0x123456789abcu;
    assert_int_equal(hd_relocate(EM_AARCH64, R_AARCH64_ABS64, &p), HD_OK);
    memcpy(&got, section + 0x28, 8);
    assert_true(got == 0x123456789abcu + 8);
    p.addend = 0;
    assert_int_equal(hd_relocate(EM_AARCH64, R_AARCH64_PREL64, &p), HD_OK);
    memcpy(&got, section + 0x28, 8);
    assert_true(got == (uint64_t)FAR - 0x28);
}

static void refused(uint32_t type, hd_patch p, const char *why) {
    const int at = (int)(p.at - section);
    uint8_t before[BYTES];
    put_word(at, 0x94000000u);
    memcpy(before, section, BYTES);
    assert_int_not_equal(hd_relocate(EM_AARCH64, type, &p), HD_OK);
    assert_error(HD_ERROR_INTERNAL, why);
    assert_memory_equal(before, section, BYTES); /* and nothing is written */
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    refused(R_AARCH64_CALL26, patch(0x1024, 0x8001024, 0), "too far away");
    refused(R_AARCH64_JUMP26, patch(0x1028, -0x7ffefdc, 0), "too far away");
    refused(R_AARCH64_CALL26, patch(0x1024, 0x1002, 0), "not aligned");
    refused(R_AARCH64_ADR_PREL_PG_HI21, patch(0x10, (int64_t)1 << 32, 0), "too far away");
    refused(R_AARCH64_ADR_PREL_PG_HI21, patch(0x1000, -((int64_t)1 << 32), 0), "too far away");
    refused(R_AARCH64_ADR_PREL_PG_HI21, patch(0x10, 0, INT64_MIN), "too far away");
    refused(R_AARCH64_PREL32, patch(0x10, (int64_t)1 << 31, 0x10), "too far away");
    refused(R_AARCH64_LDST64_ABS_LO12_NC, patch(0x10, 0x1004, 0), "not aligned");
    refused(R_AARCH64_LDST128_ABS_LO12_NC, patch(0x10, 0x1008, 0), "not aligned");
    refused(R_AARCH64_LD64_GOT_LO12_NC, patch(0x10, 0x1000, 8), "of a kind that no kernel has");
    refused(R_AARCH64_TLSLE_ADD_TPREL_HI12, patch(0x10, 0, 0), "of a kind that no kernel has");
    hd_patch p = patch(0x10, 0x1000, 0);
    p.left = 3;
    refused(R_AARCH64_CALL26, p, "outside its section");
    p.left = 7;
    refused(R_AARCH64_ABS64, p, "outside its section");
}

/* ldr x16, 8 bytes from here; br x16; the address. It spoils no register that holds an argument or is to be kept. */
static void stubs_jump_anywhere(void **state) {
    (void)state;
    static const uint8_t expected[HD_STUB_BYTES] = {0x50, 0,    0,    0x58, 0,    0x02, 0x1f, 0xd6,
                                                    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    hd_relocate_stub(EM_AARCH64, section, (uintptr_t)0x1122334455667788u);
    assert_memory_equal(section, expected, HD_STUB_BYTES);
}

RUN(test(instructions_are_what_a_linker_makes_of_them), test(addresses_of_eight_bytes),
    test(what_does_not_fit_is_refused), test(stubs_jump_anywhere))
