/* Which native functions led to an allocation: looked for in a copy of the stack, on the recorder's thread.
 *
 * No unwinder: libgcc's takes locks and asks for memory, and trusts what it finds; on the stacks of greenlets that is
 * not what was there. A word of the stack is a return address where it points behind a call, and that call leads to
 * the function that was found before. What cannot be told (a call through a register) is believed.
 */

enum { MOST_MODULES = 2048, MOST_CODE = 4096, NEAR = 1 << 18 };

struct code_range {
    uintptr_t begin, end;
    uint32_t module;
};

static struct code_range code[MOST_CODE]; /* by address */
static uint32_t code_count;

/* Within the callback of dl_iterate_phdr, or with a module pinned. */
static const struct code_range *code_at(uintptr_t address)
{
    uint32_t low = 0, high = code_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (code[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < code_count && code[low].begin <= address ? &code[low] : NULL;
}

static int leads_to(uintptr_t target, uintptr_t callee)
{
    return target <= callee && callee - target < NEAR;
}

/* Whether a call of ``target`` by a module, directly, leads to ``callee``. */
static int has_called_there(const struct code_range *range, uintptr_t target, uintptr_t callee)
{
    const struct code_range *to = code_at(target), *of_callee = code_at(callee);
    if (!to || target + LONGEST_STUB > to->end)
        return 0;
    uintptr_t behind = behind_stub((const unsigned char *)target);
    if (behind)
        return leads_to(behind, callee) || (is_ours_at(behind) && of_callee->module != range->module);
    return to->module == of_callee->module && leads_to(target, callee);
}

/* Whether ``back`` is where a function goes on that has called the one of ``callee``. */
static int has_called(uintptr_t back, uintptr_t callee)
{
    const struct code_range *range = code_at(back);
    if (!range || !code_at(callee) || back - range->begin < 16)
        return 0;
    uintptr_t target = 0, word = 0;
    switch (call_before((const unsigned char *)back, &target, &word)) {
    case DIRECT:
        return has_called_there(range, target, callee);
    case BY_A_WORD:
        return word % 8 == 0 && leads_to(word_at((void *)word, 0), callee);
    case BY_REGISTER:
        return 1;
    default:
        return 0;
    }
}

static uint32_t known_text_of(uint64_t key)
{
    if (!take_lock())
        return 0;
    const struct text *known = text_known_by(key);
    uint32_t at = known->key ? known->at : 0;
    give_lock();
    return at;
}

/* "path\nfunction", the function empty where the module does not say. */
static uint32_t keep_text_of_native(uint64_t key, const char *path, const char *function)
{
    char written[1000];
    int length = snprintf(written, sizeof written, "%.600s\n%.300s", path, function);
    if (!take_lock())
        return 0;
    struct text *known = text_known_by(key);
    if (!known->key && has_room_for_text((size_t)length + 1)) {
        known->key = key;
        known->at = text_used;
        memcpy(text_bytes + text_used, written, (size_t)length + 1);
        text_count++;
        text_used += (uint32_t)length + 1;
    }
    uint32_t at = known->key ? known->at : 0;
    give_lock();
    return at;
}

/* Without the lock: the loader has one of its own, and looks at every symbol of the module. */
static uint32_t text_of_native(uintptr_t address)
{
    Dl_info found;
    ElfW(Sym) *symbol = NULL;
    uint64_t key = mixed(address) | 1;
    uint32_t at = known_text_of(key);
    if (at)
        return at;
    if (!dladdr1((void *)(address - 1), &found, (void **)&symbol, RTLD_DL_SYMENT) || !found.dli_fname)
        return 0;
    /* The nearest name that the module shows may be that of a function far before, which is not this one. */
    int is_within = found.dli_sname && symbol && address - 1 - (uintptr_t)found.dli_saddr < symbol->st_size;
    return keep_text_of_native(key, found.dli_fname, is_within ? found.dli_sname : "");
}

struct way {
    uintptr_t at[MOST_NATIVE];
    uint32_t count;
};

static void find_way(const struct copy *copy, struct way *way)
{
    uintptr_t callee = copy->caller;
    way->count = 1;
    way->at[0] = callee;
    if (!code_at(callee))
        return;
    for (uint32_t i = 0; i < copy->count && way->count < MOST_NATIVE; i++)
        if (return_address(copy->words[i]) != copy->caller && has_called(return_address(copy->words[i]), callee))
            way->at[way->count++] = callee = return_address(copy->words[i]);
}
