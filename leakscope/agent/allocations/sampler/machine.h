/* What differs from machine to machine. */

static uintptr_t page_bytes(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE); /* of aarch64 there are kernels with 4, 16 and 64 KiB */
}

/* BY_A_WORD: through a word of the module's own. */
enum call_kind { NO_CALL, DIRECT, BY_A_WORD, BY_REGISTER };

#if defined __x86_64__
enum { BY_CALL = R_X86_64_JUMP_SLOT, BY_TABLE = R_X86_64_GLOB_DAT, BY_WORD = R_X86_64_64, LONGEST_STUB = 16 };

/* While a lock is waited for. */
static void let_others_go_on(void)
{
    __builtin_ia32_pause();
}

/* What stands on the stack where a return address does. */
static uintptr_t return_address(uint64_t word)
{
    return word;
}

/* Where the jump through a table at ``stub`` (of a procedure linkage table) leads; 0: that is no such jump. */
static uintptr_t behind_stub(const unsigned char *at)
{
    if (!memcmp(at, "\xf3\x0f\x1e\xfa", 4))
        at += 4;
    at += *at == 0xf2;
    if (at[0] != 0xff || at[1] != 0x25)
        return 0;
    uintptr_t word = (uintptr_t)at + 6 + (uintptr_t)(intptr_t)half_at(at, 2);
    return word % 8 ? 0 : word_at((void *)word, 0);
}

/* The call right before ``at``. ``target``: where a direct one leads; ``word``: of the module's own, through which it goes. */
static enum call_kind call_before(const unsigned char *at, uintptr_t *target, uintptr_t *word)
{
    *target = *word = (uintptr_t)at + (uintptr_t)(intptr_t)half_at(at - 4, 0);
    if (at[-5] == 0xe8)
        return DIRECT;
    if (at[-6] == 0xff && at[-5] == 0x15)
        return BY_A_WORD;
    int is_indirect = (at[-2] == 0xff && (at[-1] & 0xf8) == 0xd0) || (at[-3] == 0xff && (at[-2] & 0xf8) == 0x50) ||
                      (at[-3] == 0x41 && at[-2] == 0xff && (at[-1] & 0xf8) == 0xd0) ||
                      (at[-6] == 0xff && (at[-5] & 0xf8) == 0x90) || (at[-4] == 0x41 && at[-3] == 0xff && (at[-2] & 0xf8) == 0x50) ||
                      (at[-7] == 0x41 && at[-6] == 0xff && (at[-5] & 0xf8) == 0x90);
    return is_indirect ? BY_REGISTER : NO_CALL;
}

#elif defined __aarch64__
enum { BY_CALL = R_AARCH64_JUMP_SLOT, BY_TABLE = R_AARCH64_GLOB_DAT, BY_WORD = R_AARCH64_ABS64, LONGEST_STUB = 20 };

static void let_others_go_on(void)
{
    __asm__ volatile("yield");
}

/* Above the bits of an address it may have a signature (pointer authentication). */
static uintptr_t return_address(uint64_t word)
{
    return word & (((uint64_t)1 << 48) - 1);
}

static uint32_t instruction_at(const unsigned char *at)
{
    return (uint32_t)half_at(at, 0);
}

/* adrp x16, ldr x17, add x16, br x17: through a table. adrp x16, add x16, br x16: to what is too far for a call. */
static uintptr_t behind_stub(const unsigned char *at)
{
    enum { BTI_C = 0xd503245f, PAGE = 4096 }; /* of adrp, whatever the kernel's are */
    at += instruction_at(at) == (uint32_t)BTI_C ? 4 : 0;
    uint32_t first = instruction_at(at), second = instruction_at(at + 4);
    if ((first & 0x9f00001f) != 0x90000010 || (uintptr_t)at % 4)
        return 0;
    int64_t pages = (int64_t)((uint64_t)(first >> 5 & 0x7ffff) << 45 | (uint64_t)(first >> 29 & 3) << 43) >> 43;
    uintptr_t page = ((uintptr_t)at & ~(uintptr_t)(PAGE - 1)) + (uintptr_t)pages * PAGE, low = second >> 10 & 0xfff;
    if ((second & 0xffc003ff) == 0xf9400211)
        return word_at((void *)(page + low * 8), 0);
    return (second & 0xffc003ff) == 0x91000210 && instruction_at(at + 8) == 0xd61f0200 ? page + low : 0;
}

static enum call_kind call_before(const unsigned char *at, uintptr_t *target, uintptr_t *word)
{
    (void)word;
    if ((uintptr_t)at % 4)
        return NO_CALL;
    uint32_t call = instruction_at(at - 4);
    *target = (uintptr_t)at - 4 + (uintptr_t)((int64_t)((uint64_t)(call & 0x3ffffff) << 38) >> 36);
    if (call >> 26 == 0x25) /* bl */
        return DIRECT;
    int is_indirect = (call & 0xfffffc1f) == 0xd63f0000 || (call & 0xfefff800) == 0xd63f0800; /* blr; with a signature */
    return is_indirect ? BY_REGISTER : NO_CALL;
}

#else
#error "not known: how this machine's code calls, and how its libraries find functions"
#endif
