/* Python's own small objects, which malloc does not see: they lie in arenas of pymalloc.
 *
 * What makes and frees them is wrapped for a while only, since that costs a tenth of what a program does that makes
 * many. Called with the GIL, which guards all of this: an interpreter with a lock of its own would not have it.
 */

enum { SMALL = 512, DOMAINS = 2 };

struct allocator {
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
};

static struct allocator below[DOMAINS];
static int64_t objects_left;
static double objects_rate;
static int is_armed;
static int is_buried[DOMAINS]; /* somebody wrapped ours, and had not unwrapped it as the window was over */

static __attribute__((noinline)) void draw_object(void *at, size_t bytes, uintptr_t caller, const uint64_t *stack_at)
{
    if (!is_armed || !__atomic_load_n(&is_on, __ATOMIC_ACQUIRE)) {
        objects_left = FAR;
        return;
    }
    if (busy)
        return;
    busy = 1;
    keep(&kept);
    objects_left = next_draw(objects_rate);
    if (at)
        remember(at, bytes, OBJECT, objects_rate, caller, stack_at);
    give_back(&kept);
    busy = 0;
}

#define MADE(at, bytes) \
    do { \
        if ((bytes) <= SMALL && __builtin_expect((objects_left -= (int64_t)(bytes)) < 0, 0)) \
            draw_object(at, bytes, CALLER); \
    } while (0)

#define DOMAIN(number) \
    static void *malloc_##number(void *context, size_t bytes) \
    { \
        (void)context; \
        void *at = below[number].malloc(below[number].context, bytes); \
        MADE(at, bytes); \
        return at; \
    } \
    static void *calloc_##number(void *context, size_t count, size_t each) \
    { \
        (void)context; \
        void *at = below[number].calloc(below[number].context, count, each); \
        if (at) \
            MADE(at, count * each); \
        return at; \
    } \
    static void *realloc_##number(void *context, void *before, size_t bytes) \
    { \
        (void)context; \
        struct sample taken; \
        int was_known = before && is_sample(before) && forget(before, &taken) == KNOWN; \
        void *at = below[number].realloc(below[number].context, before, bytes); \
        if (at) \
            MADE(at, bytes); \
        else if (was_known) \
            put_back(&taken); \
        return at; \
    } \
    static void free_##number(void *context, void *at) \
    { \
        (void)context; \
        if (at && is_sample(at)) \
            forget(at, NULL); \
        below[number].free(below[number].context, at); \
    }

DOMAIN(0)
DOMAIN(1)

static const struct allocator above[DOMAINS] = {
    {NULL, malloc_0, calloc_0, realloc_0, free_0},
    {NULL, malloc_1, calloc_1, realloc_1, free_1},
};

typedef void (*allocator_function)(int, struct allocator *);

/* Whether there is one interpreter: others may have a lock of their own, and use the same allocator. The newest stands
 * first, the main one last. Nothing is read of either: another thread may be ending the newest. */
static int is_alone(void)
{
    void *(*newest)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyInterpreterState_Head");
    void *(*main)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyInterpreterState_Main");
    return newest && main && newest() == main();
}

/* With the GIL. 0: Python does not let us. */
EXPORT int sampler_arm(double bytes_a_sample)
{
    allocator_function get = (allocator_function)dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    allocator_function set = (allocator_function)dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    if (!get || !set || !is_alone())
        return 0;
    for (int i = 0; i < DOMAINS; i++) {
        struct allocator now;
        get(1 + i, &now);
        if (is_buried[i] && now.malloc != above[i].malloc)
            return 0; /* it still calls ours: ours must not call it */
    }
    objects_rate = bytes_a_sample;
    objects_left = next_draw(objects_rate);
    is_armed = 1;
    for (int i = 0; i < DOMAINS; i++) {
        struct allocator now, ours = above[i];
        get(1 + i, &now); /* PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ */
        is_buried[i] = 0;
        if (now.malloc == ours.malloc)
            continue; /* it stayed where somebody else had wrapped it */
        below[i] = now;
        ours.context = now.context; /* another interpreter may read it and the function at two instants */
        set(1 + i, &ours);
    }
    return 1;
}

/* With the GIL. Where somebody has wrapped what is ours it stays, and counts nothing more. */
EXPORT void sampler_disarm(void)
{
    allocator_function get = (allocator_function)dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    allocator_function set = (allocator_function)dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    if (!is_armed)
        return;
    is_armed = 0;
    objects_left = FAR;
    for (int i = 0; get && set && i < DOMAINS; i++) {
        struct allocator now;
        get(1 + i, &now);
        is_buried[i] = now.malloc != above[i].malloc;
        if (!is_buried[i])
            set(1 + i, &below[i]);
    }
    if (!take_lock())
        return;
    for (uint32_t at = 0; at < LIVE; at++)
        while (samples[at].address && samples[at].kind == OBJECT)
            remove_at(at);
    give_lock();
}
