/* The words by which the modules of this process (libraries and the program) find malloc and its kin.
 *
 * New modules are looked at when no dlopen is at work on them: dlopen itself, asked for what is there already, waits
 * for others to be done, and keeps the module in its place meanwhile. Before, its words may be half made, and a page
 * of them not yet read-only.
 */

enum { MOST_WORDS = 1 << 13, MOST_PASSES = 100 };
enum { REFUSED_OTHER_LAYOUT = 1, REFUSED_OTHER_MALLOC, REFUSED_NO_MEMORY, REFUSED_NO_WORDS, REFUSED_TAKEN_OVER };

struct module {
    uintptr_t base, dynamic;
    uint32_t is_looked_at;
};

struct word {
    uintptr_t at;
    uint16_t hook, module;
    uint16_t is_read_only, kind;
};

static struct module modules[MOST_MODULES];
static struct word words[MOST_WORDS];
static uint32_t module_count, word_count, foreign_count;
static uintptr_t foreign_at; /* where one of them leads */

struct tables {
    const ElfW(Sym) *symbols;
    const char *names;
    const ElfW(Rela) *sets[2];
    size_t counts[2];
    const uint32_t *hash;
};

static uintptr_t within(uintptr_t base, uintptr_t address)
{
    return address < base ? address + base : address;
}

static struct tables tables_of(uintptr_t base, uintptr_t dynamic)
{
    struct tables found = {0};
    size_t skipped = 0;
    for (const ElfW(Dyn) *one = (void *)dynamic; one->d_tag != DT_NULL; one++) {
        uintptr_t at = within(base, one->d_un.d_ptr);
        switch (one->d_tag) {
        case DT_SYMTAB: found.symbols = (void *)at; break;
        case DT_STRTAB: found.names = (void *)at; break;
        case DT_JMPREL: found.sets[0] = (void *)at; break;
        case DT_PLTRELSZ: found.counts[0] = one->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_RELA: found.sets[1] = (void *)at; break;
        case DT_RELASZ: found.counts[1] = one->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_RELACOUNT: skipped = one->d_un.d_val; break; /* they come first, and name nothing */
        case DT_GNU_HASH: found.hash = (void *)at; break;
        default: break;
        }
    }
    if (found.sets[1] && skipped <= found.counts[1]) {
        found.sets[1] += skipped;
        found.counts[1] -= skipped;
    }
    if (!found.sets[0])
        found.counts[0] = 0;
    if (!found.sets[1])
        found.counts[1] = 0;
    return found;
}

/* Whether the module has a function of that name of its own. */
static int defines(const struct tables *tables, const char *name)
{
    const uint32_t *hash = tables->hash;
    if (!hash || !tables->symbols || !tables->names)
        return 0;
    uint32_t wanted = 5381, buckets = hash[0], first = hash[1], blooms = hash[2];
    for (const unsigned char *at = (const void *)name; *at; at++)
        wanted = wanted * 33 + *at;
    const uint32_t *bucket = hash + 4 + 2 * blooms, *chain = bucket + buckets;
    uint32_t at = buckets ? bucket[wanted % buckets] : 0;
    if (at < first)
        return 0;
    for (;; at++) {
        uint32_t one = chain[at - first];
        if ((one | 1) == (wanted | 1) && !strcmp(tables->names + tables->symbols[at].st_name, name))
            return tables->symbols[at].st_shndx != SHN_UNDEF;
        if (one & 1)
            return 0;
    }
}

/* With the module pinned: writes what the words hold from now on. A page that the loader made read-only is so again. */
static int write_word(const struct word *one, uintptr_t value)
{
    uintptr_t page = one->at & ~(page_bytes() - 1);
    if (one->is_read_only && mprotect((void *)page, page_bytes(), PROT_READ | PROT_WRITE))
        return 0;
    __atomic_store_n((uintptr_t *)one->at, value, __ATOMIC_RELEASE);
    if (one->is_read_only)
        mprotect((void *)page, page_bytes(), PROT_READ);
    return 1;
}

struct segments {
    const ElfW(Phdr) *first;
    uint32_t count;
    uintptr_t base;
};

static int lies_in(const struct segments *of, uintptr_t address, uint32_t kind, uint32_t flag)
{
    for (uint32_t i = 0; i < of->count; i++) {
        const ElfW(Phdr) *one = &of->first[i];
        uintptr_t begin = of->base + one->p_vaddr, end = begin + one->p_memsz;
        if (kind == PT_GNU_RELRO)
            end &= ~(page_bytes() - 1); /* the loader protects whole pages */
        if (one->p_type == kind && (one->p_flags & flag) == flag && address >= begin && address < end)
            return 1;
    }
    return 0;
}

/* Whether what is not looked up yet will be the real one. It may be looked up among the module's own libraries first
 * (RTLD_DEEPBIND): what another malloc gave must not come to this one's free. libc finds its own by its handle, and the
 * other one as it calls. */
static int comes_to(const struct hook *hook, uintptr_t now, int is_libc, void *pin)
{
    void *by_handle = real_dlsym(pin, hook->name);
    return is_libc ? (uintptr_t)by_handle != now : by_handle == *hook->real;
}

/* A module that is pinned. */
static void look_at_module(uint32_t number, const struct segments *segments, void *pin)
{
    struct module *module = &modules[number];
    struct tables tables = tables_of(module->base, module->dynamic);
    if (!tables.symbols || !tables.names)
        return;
    int is_libc = lies_in(segments, (uintptr_t)real_mmap, PT_LOAD, PF_X);
    int is_home = lies_in(segments, (uintptr_t)real_malloc, PT_LOAD, PF_X);
    if (!is_libc && (defines(&tables, "malloc") || defines(&tables, "free")))
        return; /* it keeps to its own */
    for (int set = 0; set < 2; set++)
        for (size_t i = 0; i < tables.counts[set]; i++) {
            const ElfW(Rela) *one = &tables.sets[set][i];
            uint64_t kind = ELF64_R_TYPE(one->r_info), symbol = ELF64_R_SYM(one->r_info);
            if (!symbol || one->r_addend || (kind != BY_CALL && kind != BY_TABLE && kind != BY_WORD))
                continue;
            const struct hook *hook = hook_named(tables.names + tables.symbols[symbol].st_name);
            if (!hook || !*hook->real || word_count == MOST_WORDS)
                continue;
            struct word word = {module->base + one->r_offset, (uint16_t)(hook - hooks), (uint16_t)number, 0, (uint16_t)kind};
            if (word.at % 8 || !lies_in(segments, word.at, PT_LOAD, PF_W))
                continue;
            uintptr_t now = word_at((void *)word.at, 0);
            /* Not yet looked up, it leads to what will do that. */
            int is_later = kind == BY_CALL && now > module->base && lies_in(segments, now, PT_LOAD, PF_X) && !is_home;
            if (now != (uintptr_t)*hook->real && !is_later)
                continue;
            if (is_later && !comes_to(hook, now, is_libc, pin))
                continue;
            word.is_read_only = (uint16_t)lies_in(segments, word.at, PT_GNU_RELRO, 0);
            words[word_count++] = word;
        }
}

struct found {
    char name[1024];
    uint32_t number;
    struct segments segments;
};

struct counted {
    uint64_t adds, subs; /* modules that have come and gone since the process began */
};

struct looked {
    struct found found[32];
    uint32_t count;
    struct counted at;
};

static uint32_t known_module(uintptr_t base, uintptr_t dynamic)
{
    uint32_t at = 0;
    while (at < module_count && (modules[at].base != base || modules[at].dynamic != dynamic))
        at++;
    return at;
}

/* Marks who is there, notes where code lies, and finds modules that have not been looked at. */
static int visit_module(struct dl_phdr_info *info, size_t size, void *to)
{
    struct looked *looked = to;
    (void)size;
    looked->at = (struct counted){info->dlpi_adds, info->dlpi_subs};
    uintptr_t dynamic = 0, own = (uintptr_t)our_malloc;
    struct segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
    uint32_t number = module_count;
    for (uint32_t i = 0; i < segments.count; i++)
        if (segments.first[i].p_type == PT_DYNAMIC)
            dynamic = info->dlpi_addr + segments.first[i].p_vaddr;
    number = known_module(info->dlpi_addr, dynamic);
    if (number == MOST_MODULES)
        return 0;
    if (number == module_count) {
        modules[module_count++] = (struct module){info->dlpi_addr, dynamic, 0};
        /* Ours keeps to what it replaces. The kernel's has no words. */
        if (!dynamic || lies_in(&segments, own, PT_LOAD, PF_X) || strstr(info->dlpi_name, "linux-vdso"))
            modules[number].is_looked_at = 1;
    }
    for (uint32_t i = 0; i < segments.count && code_count < MOST_CODE; i++) {
        const ElfW(Phdr) *one = &segments.first[i];
        uintptr_t begin = segments.base + one->p_vaddr;
        if (one->p_type == PT_LOAD && one->p_flags & PF_X)
            code[code_count++] = (struct code_range){begin, begin + one->p_memsz, number};
    }
    struct found *next = &looked->found[looked->count];
    if (!modules[number].is_looked_at && looked->count < 32 && strlen(info->dlpi_name) < sizeof next->name) {
        strcpy(next->name, info->dlpi_name);
        next->number = number;
        next->segments = segments;
        looked->count++;
    }
    return 0;
}

static int by_address(const void *one, const void *other)
{
    uintptr_t a = ((const struct code_range *)one)->begin, b = ((const struct code_range *)other)->begin;
    return a < b ? -1 : a > b;
}

/* What was loaded when all words were looked at; no module has gone while that was done. */
static struct counted known_at = {~0ull, ~0ull};

/* Looks at all modules that are new; at all of them once one has gone, since another may be in its place. */
static void find_words(void)
{
    static struct looked looked;
    uint64_t subs = known_at.subs;
    known_at = (struct counted){~0ull, ~0ull};
    for (int tries = 0; tries < MOST_PASSES; tries++) {
        looked.count = code_count = 0;
        walk_modules(visit_module, &looked);
        if (looked.at.subs != subs) {
            subs = looked.at.subs;
            module_count = word_count = 0;
            continue;
        }
        qsort(code, code_count, sizeof code[0], by_address);
        if (!looked.count) {
            known_at = looked.at;
            return;
        }
        for (uint32_t i = 0; i < looked.count; i++) {
            struct found *one = &looked.found[i];
            void *pin = dlopen(*one->name ? one->name : NULL, RTLD_LAZY | RTLD_NOLOAD);
            struct link_map *map = NULL;
            modules[one->number].is_looked_at = 1;
            if (pin && !dlinfo(pin, RTLD_DI_LINKMAP, &map) && map->l_addr == modules[one->number].base)
                look_at_module(one->number, &one->segments, pin);
            if (pin)
                dlclose(pin);
        }
    }
}

/* While no module can go, and none has: what leads to the real function leads here. Somebody else's is left as it is,
 * and counted. A variable in a library's data may be set to another function by its owner (cJSON_InitHooks), or to none:
 * that is left as it is, too. ``first``: the first of the hooks that are put in place. */
static int write_words(struct dl_phdr_info *info, size_t size, void *first)
{
    (void)size;
    if (info->dlpi_adds != known_at.adds || info->dlpi_subs != known_at.subs)
        return 1; /* the next time */
    foreign_count = 0;
    for (int hook = *(const int *)first; hook < HOOKS; hook++)
        for (uint32_t i = 0; i < word_count; i++) {
            const struct word *one = &words[i];
            if (one->hook != hook)
                continue;
            uintptr_t now = word_at((void *)one->at, 0), real = (uintptr_t)*hooks[hook].real;
            if (now == (uintptr_t)hooks[hook].ours)
                continue;
            const struct code_range *to_where = code_at(now);
            int is_later = one->kind == BY_CALL && to_where && to_where->module == one->module;
            if (now == real || is_later)
                write_word(one, (uintptr_t)hooks[hook].ours);
            else if (one->kind != BY_WORD && hook < BY_NAME) {
                foreign_count++;
                foreign_at = now;
            }
        }
    return 1;
}

static int count_modules(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)size;
    *(struct counted *)to = (struct counted){info->dlpi_adds, info->dlpi_subs};
    return 1;
}

static int put_hooks(int first)
{
    struct counted now = {0, 0};
    walk_modules(count_modules, &now);
    if (now.adds != known_at.adds || now.subs != known_at.subs)
        find_words();
    if (known_at.adds == ~0ull)
        return 0; /* modules come and go all the time: the next time */
    walk_modules(write_words, &first);
    return !word_count ? REFUSED_NO_WORDS : foreign_count ? REFUSED_TAKEN_OVER : 0;
}

static int find_python(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)size;
    struct segments segments = {info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr};
    uintptr_t first = 0, last = 0;
    int is_it = 0;
    for (uint32_t i = 0; i < segments.count; i++) {
        const ElfW(Phdr) *one = &segments.first[i];
        uintptr_t begin = info->dlpi_addr + one->p_vaddr;
        if (one->p_type == PT_LOAD && one->p_flags & PF_X && (uintptr_t)to >= begin && (uintptr_t)to < begin + one->p_memsz) {
            python_begin = begin;
            python_end = begin + one->p_memsz;
            is_it = 1;
        }
        if (one->p_type == PT_LOAD && (!first || begin < first))
            first = begin;
        if (one->p_type == PT_LOAD && begin + one->p_memsz > last)
            last = begin + one->p_memsz;
    }
    if (is_it) {
        python_first = first;
        python_last = last;
    }
    return is_it;
}

/* Where libraries find it. A program at fixed addresses that takes the address of malloc (Debian's Python does) makes that of
 * a stub of its own malloc's address for all: behind it is the first library that has one. */
static void *first_of(const char *name)
{
    void *at = dlsym(RTLD_DEFAULT, name);
    ElfW(Sym) *symbol = NULL;
    Dl_info found;
    if (!at || !dladdr1(at, &found, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx != SHN_UNDEF)
        return at;
    at = NULL;
    for (struct link_map *one = _r_debug.r_map; one && !at; one = one->l_next) {
        void *pin = *one->l_name ? dlopen(one->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (!pin)
            continue;
        at = dlsym(pin, name);
        if (at && !(dladdr(at, &found) && found.dli_fname && !strcmp(found.dli_fname, one->l_name)))
            at = NULL; /* of a library below it */
        dlclose(pin);
    }
    return at;
}

/* Where the loader finds them first: libc, or an allocator that was preloaded or linked in, which then has all of them. */
static int find_functions(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *first = first_of("malloc");
    Dl_info home, found;
    static const char *const sanitizers[] = {"__asan_init", "__hwasan_init", "__lsan_init", "__msan_init", "__tsan_init"};
    if (!libc || !first || !dladdr(first, &home))
        return REFUSED_OTHER_MALLOC;
    for (size_t i = 0; i < sizeof sanitizers / sizeof *sanitizers; i++)
        if (dlsym(RTLD_DEFAULT, sanitizers[i])) /* they judge who calls */
            return REFUSED_OTHER_MALLOC;
    real_dlsym = dlsym;
    for (int i = 0; i < BY_NAME; i++) {
        int is_mapping = strstr(hooks[i].name, "map") != NULL, is_of_cpp = *hooks[i].name == '_';
        void *real = is_mapping ? dlsym(libc, hooks[i].name) : first_of(hooks[i].name);
        int is_at_home = real && (is_mapping || (dladdr(real, &found) && found.dli_fbase == home.dli_fbase));
        if (!is_at_home && !is_of_cpp) /* libstdc++'s own ask malloc */
            return REFUSED_OTHER_MALLOC;
        *hooks[i].real = is_at_home ? real : NULL;
    }
    is_of_libc = dladdr((void *)real_mmap, &found) && found.dli_fbase == home.dli_fbase;
    void *usable = first_of("malloc_usable_size");
    usable_bytes = usable && dladdr(usable, &found) && found.dli_fbase == home.dli_fbase ? (usable_function)usable : NULL;
    return 0;
}

struct ways {
    struct way of[COPIES];
};

static int find_ways(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)size;
    if (info->dlpi_adds != known_at.adds || info->dlpi_subs != known_at.subs)
        return 1; /* where code lies is not known at the moment */
    for (int i = 0; i < COPIES; i++)
        if (__atomic_load_n(&copies[i].key, __ATOMIC_ACQUIRE))
            find_way(&copies[i], &((struct ways *)to)->of[i]);
    return 1;
}

struct asked {
    uintptr_t back; /* where a function goes on */
    const ElfW(Sym) *symbol;
};

struct all_asked {
    struct asked of[COPIES * MOST_NATIVE]; /* by address */
    uint32_t count;
};

struct range {
    uintptr_t begin, end, dynamic;
};

static struct range range_of(const struct dl_phdr_info *info)
{
    struct range found = {~(uintptr_t)0, 0, 0};
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *one = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + one->p_vaddr;
        if (one->p_type == PT_DYNAMIC)
            found.dynamic = at;
        if (one->p_type != PT_LOAD)
            continue;
        found.begin = at < found.begin ? at : found.begin;
        found.end = at + one->p_memsz > found.end ? at + one->p_memsz : found.end;
    }
    return found;
}

/* The last symbol that the hash table leads to, which does not say how many there are. */
static uint32_t last_symbol(const uint32_t *hash)
{
    uint32_t top = 0, hashed = hash[1];
    const uint32_t *bucket = hash + 4 + 2 * hash[2], *chain = bucket + hash[0];
    for (uint32_t i = 0; i < hash[0]; i++)
        top = bucket[i] > top ? bucket[i] : top;
    while (top >= hashed && !(chain[top - hashed] & 1))
        top++;
    return top;
}

/* Who of those from first to before last goes on in this function. */
static void name_by(const ElfW(Sym) *symbol, uintptr_t from, struct asked *first, struct asked *last)
{
    uintptr_t behind = from + symbol->st_size;
    struct asked *one = first; /* the first that lies behind its begin */
    for (size_t left_over = (size_t)(last - first); left_over; left_over /= 2)
        if (one[left_over / 2].back <= from) {
            one += left_over / 2 + 1;
            left_over--;
        }
    for (; one < last && one->back <= behind; one++)
        if (!one->symbol || one->symbol->st_value < symbol->st_value)
            one->symbol = symbol;
}

/* The functions of all that is asked of a module, in one pass over its symbols: torch's have a hundred thousand, which the
 * loader goes through for each address. The program has no name here, and what is not found the loader is asked for. */
static int find_names(struct dl_phdr_info *info, size_t size, void *to)
{
    struct all_asked *all = to;
    struct range range = range_of(info);
    struct asked *first = all->of, *last = all->of + all->count;
    (void)size;
    while (first < last && first->back <= range.begin)
        first++;
    while (first < last && last[-1].back > range.end)
        last--;
    if (!range.dynamic || !*info->dlpi_name || first == last)
        return 0;
    struct tables tables = tables_of(info->dlpi_addr, range.dynamic);
    if (!tables.hash || !tables.symbols || !tables.names)
        return 0;
    uint32_t end = last_symbol(tables.hash);
    for (uint32_t at = tables.hash[1]; at <= end; at++) {
        const ElfW(Sym) *symbol = &tables.symbols[at];
        if (symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) != STT_TLS)
            name_by(symbol, info->dlpi_addr + symbol->st_value, first, last);
    }
    for (; first < last; first++)
        keep_text_of_native(mixed(first->back) | 1, info->dlpi_name, first->symbol ? tables.names + first->symbol->st_name : "");
    return 0;
}

static void know_names(const struct ways *ways)
{
    struct all_asked all = {.count = 0};
    for (int i = 0; i < COPIES; i++)
        for (uint32_t k = 0; k < ways->of[i].count; k++)
            if (!known_text_of(mixed(ways->of[i].at[k]) | 1))
                all.of[all.count++].back = ways->of[i].at[k];
    qsort(all.of, all.count, sizeof all.of[0], by_address);
    if (all.count)
        walk_modules(find_names, &all);
}

/* What an allocator maps once may be all it maps: who asked is known, though nobody could copy the stack. */
static void resolve_callers_of_mappings(void)
{
    for (uint32_t i = 0; i < stack_count; i++) {
        struct stack *stack = &stacks[i];
        uint64_t key = stack->key;
        uint32_t text = key && stack->kind == MAPPED && !stack->native_count && stack->caller ? text_of_native(stack->caller) : 0;
        if (!text || !take_lock())
            continue;
        if (stack->key == key && !stack->native_count) {
            stack->native[0] = text;
            stack->native_count = 1;
        }
        give_lock();
    }
}

/* Copies are written by who draws, and read here: nobody writes one that is not free. */
static void resolve_native_stacks(void)
{
    struct ways ways;
    memset(&ways, 0, sizeof ways);
    walk_modules(find_ways, &ways);
    know_names(&ways);
    for (int i = 0; i < COPIES; i++) {
        struct copy *copy = &copies[i];
        if (!ways.of[i].count)
            continue;
        uint32_t found[MOST_NATIVE], count = 0;
        for (uint32_t k = 0; k < ways.of[i].count; k++) {
            uint32_t text = text_of_native(ways.of[i].at[k]);
            if (text)
                found[count++] = text;
        }
        if (!take_lock())
            continue;
        struct stack *stack = &stacks[copy->stack];
        if (stack->key == copy->key) {
            memcpy(stack->native, found, sizeof(uint32_t) * count);
            stack->native_count = count;
        }
        __atomic_store_n(&copy->key, 0, __ATOMIC_RELEASE);
        give_lock();
    }
}
