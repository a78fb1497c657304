/* What stands in the place of malloc and its kin. Each does what it replaces, and counts. */

typedef void *(*malloc_function)(size_t);
typedef void *(*calloc_function)(size_t, size_t);
typedef void *(*realloc_function)(void *, size_t);
typedef void *(*aligned_function)(size_t, size_t);
typedef int (*posix_memalign_function)(void **, size_t, size_t);
typedef void *(*mmap_function)(void *, size_t, int, int, int, off_t);
typedef int (*munmap_function)(void *, size_t);
typedef void *(*dlsym_function)(void *, const char *);

static malloc_function real_malloc;
static calloc_function real_calloc;
static realloc_function real_realloc;
static aligned_function real_memalign, real_aligned_alloc;
static posix_memalign_function real_posix_memalign;
static mmap_function real_mmap;
static munmap_function real_munmap;
static dlsym_function real_dlsym;

static uintptr_t python_begin, python_end; /* the library or program that Python is: it maps arenas of objects */

enum { LEAST_MAPPED = 1 << 17 };

#define CALLER (uintptr_t)__builtin_return_address(0), (const uint64_t *)__builtin_frame_address(0)

/* Each hook counts what is asked for and jumps to what it replaces, which then stands on the stack where it would without
 * us. Once in a while a draw is due: then the slow one of the two is jumped to, if the stack has room for it. What fails
 * was counted, too; that is rare. */
static int is_due(size_t bytes)
{
    return __builtin_expect((left -= (int64_t)bytes) < 0, 0) && has_room();
}

static int is_sample(const void *at)
{
    return __builtin_expect(__atomic_load_n(&filter[slot_of((uintptr_t)at)], __ATOMIC_RELAXED) != 0, 0);
}

static __attribute__((noinline)) void *malloc_and_draw(size_t bytes)
{
    void *at = real_malloc(bytes);
    draw(at, bytes, MALLOC, CALLER);
    return at;
}

static void *our_malloc(size_t bytes)
{
    return is_due(bytes) ? malloc_and_draw(bytes) : real_malloc(bytes);
}

static __attribute__((noinline)) void *calloc_and_draw(size_t count, size_t each)
{
    void *at = real_calloc(count, each);
    draw(at, count * each, MALLOC, CALLER);
    return at;
}

static void *our_calloc(size_t count, size_t each)
{
    size_t bytes;
    int is_too_much = __builtin_mul_overflow(count, each, &bytes);
    return !is_too_much && is_due(bytes) ? calloc_and_draw(count, each) : real_calloc(count, each);
}

static __attribute__((noinline)) void *realloc_and_draw(void *before, size_t bytes, int is_drawn)
{
    struct sample taken;
    int was_known = before && is_sample(before) && forget(before, &taken) == KNOWN;
    void *at = real_realloc(before, bytes);
    if (at && is_drawn)
        draw(at, bytes, MALLOC, CALLER);
    else if (!at && was_known && bytes)
        put_back(&taken);
    return at;
}

static void *our_realloc(void *before, size_t bytes)
{
    int is_drawn = is_due(bytes);
    return is_drawn || (before && is_sample(before)) ? realloc_and_draw(before, bytes, is_drawn) : real_realloc(before, bytes);
}

static void our_free(void *at)
{
    if (at && is_sample(at) && forget(at, NULL) == LEFT)
        return;
    real_free(at);
}

static __attribute__((noinline)) void *memalign_and_draw(size_t alignment, size_t bytes)
{
    void *at = real_memalign(alignment, bytes);
    draw(at, bytes, MALLOC, CALLER);
    return at;
}

static void *our_memalign(size_t alignment, size_t bytes)
{
    return is_due(bytes) ? memalign_and_draw(alignment, bytes) : real_memalign(alignment, bytes);
}

static __attribute__((noinline)) void *aligned_alloc_and_draw(size_t alignment, size_t bytes)
{
    void *at = real_aligned_alloc(alignment, bytes);
    draw(at, bytes, MALLOC, CALLER);
    return at;
}

static void *our_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_due(bytes) ? aligned_alloc_and_draw(alignment, bytes) : real_aligned_alloc(alignment, bytes);
}

static __attribute__((noinline)) int posix_memalign_and_draw(void **to, size_t alignment, size_t bytes)
{
    int error = real_posix_memalign(to, alignment, bytes);
    draw(error ? NULL : *to, bytes, MALLOC, CALLER);
    return error;
}

static int our_posix_memalign(void **to, size_t alignment, size_t bytes)
{
    return is_due(bytes) ? posix_memalign_and_draw(to, alignment, bytes) : real_posix_memalign(to, alignment, bytes);
}

static __attribute__((noinline)) void *mmap_and_draw(void *wanted, size_t bytes, int protection, int flags, int file, off_t offset)
{
    void *at = real_mmap(wanted, bytes, protection, flags, file, offset);
    draw(at == MAP_FAILED ? NULL : at, bytes, MAPPED, CALLER);
    return at;
}

static __attribute__((noinline)) void *arena_and_draw(void *wanted, size_t bytes, int protection, int flags, int file, off_t offset)
{
    void *at = real_mmap(wanted, bytes, protection, flags, file, offset);
    draw(at == MAP_FAILED ? NULL : at, bytes, ARENA, CALLER);
    return at;
}

static int is_python(uintptr_t caller)
{
    return caller >= python_begin && caller < python_end;
}

static void *our_mmap(void *wanted, size_t bytes, int protection, int flags, int file, off_t offset)
{
    int is_arena = is_python((uintptr_t)__builtin_return_address(0)) && !(flags & MAP_SHARED);
    int counts = flags & MAP_ANONYMOUS && protection & PROT_WRITE && bytes >= LEAST_MAPPED;
    if (counts && is_due(bytes))
        return (is_arena ? arena_and_draw : mmap_and_draw)(wanted, bytes, protection, flags, file, offset);
    return real_mmap(wanted, bytes, protection, flags, file, offset);
}

static int our_munmap(void *at, size_t bytes)
{
    if (is_python((uintptr_t)__builtin_return_address(0))) { /* what it maps it unmaps as a whole */
        if (is_sample(at))
            forget(at, NULL);
    } else if (__atomic_load_n(&mapped_count, __ATOMIC_RELAXED))
        forget_mapped((uintptr_t)at, (uintptr_t)at + bytes);
    return real_munmap(at, bytes);
}

/* new and delete of an allocator that has its own, in all their forms: behind the bytes, or what is freed, come words that
 * are handed on. */
typedef void *(*new_function)(size_t, uintptr_t, uintptr_t);
typedef void (*delete_function)(void *, uintptr_t, uintptr_t);

#define OUR_NEW(name)                                                                                 \
    static new_function real_##name;                                                                  \
    static __attribute__((noinline)) void *name##_and_draw(size_t bytes, uintptr_t one, uintptr_t other) \
    {                                                                                                 \
        void *at = real_##name(bytes, one, other);                                                    \
        draw(at, bytes, MALLOC, CALLER);                                                              \
        return at;                                                                                    \
    }                                                                                                 \
    static void *our_##name(size_t bytes, uintptr_t one, uintptr_t other)                             \
    {                                                                                                 \
        return is_due(bytes) ? name##_and_draw(bytes, one, other) : real_##name(bytes, one, other);   \
    }
#define OUR_DELETE(name)                                                 \
    static delete_function real_##name;                                  \
    static void our_##name(void *at, uintptr_t one, uintptr_t other)     \
    {                                                                    \
        if (at && is_sample(at) && forget(at, NULL) == LEFT)             \
            return;                                                      \
        real_##name(at, one, other);                                     \
    }
#define ALL_DELETES(DO)                                                                                         \
    DO(_ZdlPv) DO(_ZdaPv) DO(_ZdlPvm) DO(_ZdaPvm) DO(_ZdlPvRKSt9nothrow_t) DO(_ZdaPvRKSt9nothrow_t)              \
    DO(_ZdlPvSt11align_val_t) DO(_ZdaPvSt11align_val_t) DO(_ZdlPvmSt11align_val_t) DO(_ZdaPvmSt11align_val_t)    \
    DO(_ZdlPvSt11align_val_tRKSt9nothrow_t) DO(_ZdaPvSt11align_val_tRKSt9nothrow_t)
#define ALL_NEWS(DO)                                                                                  \
    DO(_Znwm) DO(_Znam) DO(_ZnwmRKSt9nothrow_t) DO(_ZnamRKSt9nothrow_t) DO(_ZnwmSt11align_val_t)       \
    DO(_ZnamSt11align_val_t) DO(_ZnwmSt11align_val_tRKSt9nothrow_t) DO(_ZnamSt11align_val_tRKSt9nothrow_t)
#define A_HOOK(name) {#name, (void **)&real_##name, (void *)our_##name},

ALL_DELETES(OUR_DELETE)
ALL_NEWS(OUR_NEW)
static void *our_dlsym(void *, const char *);

/* What frees comes first: it is put in place before anything is drawn. */
static const struct hook {
    const char *name;
    void **real;
    void *ours;
} hooks[] = {
    ALL_DELETES(A_HOOK)
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
    ALL_NEWS(A_HOOK)
    {"dlsym", (void **)&real_dlsym, our_dlsym}, /* found by itself: libc has it since glibc 2.34 */
};
enum { HOOKS = sizeof hooks / sizeof hooks[0], BY_NAME = HOOKS - 1 };

static const struct hook *hook_named(const char *name)
{
    if (!strchr("frmcpad_", *name) || !*name)
        return NULL;
    for (int i = 0; i < HOOKS; i++)
        if (!strcmp(name, hooks[i].name))
            return &hooks[i];
    return NULL;
}

/* Who looks malloc up in a library, as ctypes and cffi do, calls it through no word of a table. Where it is to be looked for
 * depends on the caller if no library is named (RTLD_DEFAULT, RTLD_NEXT): then the real one is jumped to. */
static void *our_dlsym(void *library, const char *name)
{
    if (library == RTLD_DEFAULT || library == RTLD_NEXT || !name)
        return real_dlsym(library, name);
    const struct hook *hook = hook_named(name);
    if (!hook)
        return real_dlsym(library, name);
    void *at = real_dlsym(library, name);
    return at && at == *hook->real ? hook->ours : at;
}

static int is_ours_at(uintptr_t address)
{
    for (int i = 0; i < HOOKS; i++)
        if ((uintptr_t)hooks[i].ours == address)
            return 1;
    return 0;
}
