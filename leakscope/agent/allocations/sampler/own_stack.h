/* The stack that this thread was given, and how much of it is known to be there.
 *
 * Whoever asks for memory may stand on another: that of a coroutine (Boost.Context, ucontext, a few lines of assembler) or
 * of a signal handler. Nobody tells where such a one ends; a guard page may follow, or nothing. So what lies above a
 * stack pointer is read only if the pointer lies in the thread's own stack, and no further than to that one's end.
 *
 * Where that lies is asked of nobody in the job's calls: pthread_getattr_np takes a lock, asks for memory, calls the
 * kernel, which a filter of the job's may answer by killing it, and for the main thread opens a file. glibc keeps it in
 * its structure of each thread. Where in there is found once, on the recorder's own thread, and tried: exactly one place
 * fits what pthread_getattr_np says of that thread. The structure is the thread's own and lives as long as it does. Of
 * the main thread it only says where the stack begins; the kernel makes it larger on demand, and never smaller, so what
 * was there at a tick is there for good.
 */

static size_t block_at; /* in the structure: where the stack's memory begins, how long it is, its guard; 0: not known */
static uintptr_t main_low; /* of the main thread's stack: from here on it is there */
static int is_main_wanted; /* it has become larger since, or nobody has looked */

extern void *__libc_stack_end; /* glibc's: where the kernel had the main thread begin */

struct bounds {
    uintptr_t low, high; /* high 0: not known */
    int is_of_main;
};

/* What pthread_getattr_np says of the calling thread against what stands in its structure. On the recorder's thread. */
static void know_stacks(void)
{
    const uint32_t *bytes = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread"); /* glibc's word to debuggers */
    const char *self = (const char *)pthread_self();
    pthread_attr_t attributes;
    void *low;
    size_t length, found = 0, count = 0;
    block_at = 0;
    if (!bytes || *bytes < 256 || *bytes > 1 << 16 || pthread_getattr_np(pthread_self(), &attributes))
        return;
    int is_told = !pthread_attr_getstack(&attributes, &low, &length);
    pthread_attr_destroy(&attributes);
    uintptr_t high = (uintptr_t)low + length, here = (uintptr_t)__builtin_frame_address(0);
    if (!is_told || here < (uintptr_t)low || here >= high)
        return;
    int is_main = (uintptr_t)__libc_stack_end > here && (uintptr_t)__libc_stack_end <= high;
    for (size_t at = 8; at + 24 <= *bytes; at += 8) { /* within the structure, to its end */
        uint64_t begin = word_at(self, at), size = word_at(self, at + 8), guard = word_at(self, at + 16);
        int fits = is_main ? !begin && size == (uintptr_t)__libc_stack_end && !guard
                           : begin + size == high && (begin == (uintptr_t)low || begin + guard == (uintptr_t)low);
        if (fits) {
            found = at;
            count++;
        }
    }
    if (count == 1)
        block_at = found;
}

/* Of the thread that calls. Reads three words of its own structure. */
static struct bounds own_stack(void)
{
    const char *self = (const char *)pthread_self();
    struct bounds found = {0, 0, 0};
    if (!block_at)
        return found;
    uintptr_t begin = word_at(self, block_at), size = word_at(self, block_at + 8);
    if (!begin && size == (uintptr_t)__libc_stack_end)
        return (struct bounds){__atomic_load_n(&main_low, __ATOMIC_ACQUIRE), size, 1};
    /* The structure lies in the thread's stack, at its end: else this is not what it was taken for. */
    if (begin && (uintptr_t)self > begin && (uintptr_t)self - begin < size)
        found = (struct bounds){begin + word_at(self, block_at + 16), (uintptr_t)self, 0};
    return found;
}

/* What the kernel has made of the main thread's stack. On the recorder's thread, where somebody wants to know. Below a
 * stack the kernel leaves a gap, in which it puts nothing: what is there without a gap is stack. */
static void know_main_stack(void)
{
    enum { AT_ONCE = 32, MOST_STEPS = 1 << 14 };
    unsigned char in_memory[AT_ONCE];
    uintptr_t page = page_bytes(), low = main_low ? main_low : (uintptr_t)__libc_stack_end & ~(page - 1);
    for (uintptr_t pages = AT_ONCE; pages; pages = pages == AT_ONCE ? 1 : 0)
        for (int steps = 0; steps < MOST_STEPS && low > pages * page; steps++) {
            if (mincore((void *)(low - pages * page), pages * page, in_memory))
                break; /* a part of it is not there */
            low -= pages * page;
        }
    __atomic_store_n(&main_low, low, __ATOMIC_RELEASE);
    __atomic_store_n(&is_main_wanted, 0, __ATOMIC_RELEASE);
}
