/* What stands in the place of malloc and its kin. Each does what it replaces, and counts. */

typedef void *(*malloc_function)(size_t);
typedef void *(*calloc_function)(size_t, size_t);
typedef void *(*realloc_function)(void *, size_t);
typedef void *(*aligned_function)(size_t, size_t);
typedef int (*posix_memalign_function)(void **, size_t, size_t);
typedef void *(*mmap_function)(void *, size_t, int, int, int, off_t);
typedef int (*munmap_function)(void *, size_t);

static malloc_function real_malloc;
static calloc_function real_calloc;
static realloc_function real_realloc;
static aligned_function real_memalign, real_aligned_alloc;
static posix_memalign_function real_posix_memalign;
static mmap_function real_mmap;
static munmap_function real_munmap;

static uintptr_t python_begin, python_end; /* the library or program that Python is: it maps arenas of objects */

enum { LEAST_MAPPED = 1 << 17 };

#define CALLER (uintptr_t)__builtin_return_address(0), (const uint64_t *)__builtin_frame_address(0)
#define ASKED(at, bytes, kind) \
    do { \
        if (__builtin_expect((left -= (int64_t)(bytes)) < 0, 0)) \
            draw(at, bytes, kind, CALLER); \
    } while (0)

static int is_sample(const void *at)
{
    return __builtin_expect(__atomic_load_n(&filter[slot_of((uintptr_t)at)], __ATOMIC_RELAXED) != 0, 0);
}

static void *our_malloc(size_t bytes)
{
    void *at = real_malloc(bytes);
    ASKED(at, bytes, MALLOC);
    return at;
}

static void *our_calloc(size_t count, size_t each)
{
    void *at = real_calloc(count, each);
    if (at)
        ASKED(at, count * each, MALLOC);
    return at;
}

static void *our_realloc(void *before, size_t bytes)
{
    struct sample taken;
    int was_known = before && is_sample(before) && forget(before, &taken) == KNOWN;
    void *at = real_realloc(before, bytes);
    if (at)
        ASKED(at, bytes, MALLOC);
    else if (was_known && bytes)
        put_back(&taken);
    return at;
}

static void our_free(void *at)
{
    if (at && is_sample(at) && forget(at, NULL) == LEFT)
        return;
    real_free(at);
}

static void *our_memalign(size_t alignment, size_t bytes)
{
    void *at = real_memalign(alignment, bytes);
    ASKED(at, bytes, MALLOC);
    return at;
}

static void *our_aligned_alloc(size_t alignment, size_t bytes)
{
    void *at = real_aligned_alloc(alignment, bytes);
    ASKED(at, bytes, MALLOC);
    return at;
}

static int our_posix_memalign(void **to, size_t alignment, size_t bytes)
{
    int error = real_posix_memalign(to, alignment, bytes);
    if (!error)
        ASKED(*to, bytes, MALLOC);
    return error;
}

static void *our_mmap(void *wanted, size_t bytes, int protection, int flags, int file, off_t offset)
{
    void *at = real_mmap(wanted, bytes, protection, flags, file, offset);
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    int is_arena = caller >= python_begin && caller < python_end && !(flags & MAP_SHARED);
    if (at != MAP_FAILED && flags & MAP_ANONYMOUS && protection & PROT_WRITE && bytes >= LEAST_MAPPED && !is_arena)
        ASKED(at, bytes, MAPPED);
    return at;
}

static int our_munmap(void *at, size_t bytes)
{
    if (__atomic_load_n(&mapped_count, __ATOMIC_RELAXED))
        forget_mapped((uintptr_t)at, (uintptr_t)at + bytes);
    return real_munmap(at, bytes);
}

/* What frees comes first: it is put in place before anything is drawn. */
static const struct hook {
    const char *name;
    void **real;
    void *ours;
} hooks[] = {
    {"free", (void **)&real_free, our_free},
    {"realloc", (void **)&real_realloc, our_realloc},
    {"munmap", (void **)&real_munmap, our_munmap},
    {"malloc", (void **)&real_malloc, our_malloc},
    {"calloc", (void **)&real_calloc, our_calloc},
    {"posix_memalign", (void **)&real_posix_memalign, our_posix_memalign},
    {"aligned_alloc", (void **)&real_aligned_alloc, our_aligned_alloc},
    {"memalign", (void **)&real_memalign, our_memalign},
    {"mmap", (void **)&real_mmap, our_mmap},
    {"mmap64", (void **)&real_mmap, our_mmap},
};
enum { HOOKS = sizeof hooks / sizeof hooks[0] };

static const struct hook *hook_named(const char *name)
{
    if (!strchr("frmcpa", *name) || !*name)
        return NULL;
    for (int i = 0; i < HOOKS; i++)
        if (!strcmp(name, hooks[i].name))
            return &hooks[i];
    return NULL;
}

static int is_ours_at(uintptr_t address)
{
    for (int i = 0; i < HOOKS; i++)
        if ((uintptr_t)hooks[i].ours == address)
            return 1;
    return 0;
}
