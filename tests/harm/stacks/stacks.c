/* Memory that is asked for on stacks which are not the thread's own, or small, or of a thread whose state is gone.
 *
 * Of Python it takes what it finds in the process, so that one library is for every version. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { STACK = 64 * 1024 };

/* Runs ``function`` on a stack that begins at ``top``: a switch as people write it by hand. */
void on_stack(void *top, void (*function)(void *), void *argument);

#if defined __x86_64__
__asm__(".text\n.globl on_stack\n.type on_stack, @function\non_stack:\n"
        "  push %rbp\n  mov %rsp, %rbp\n  mov %rdi, %rsp\n  mov %rdx, %rdi\n  call *%rsi\n"
        "  mov %rbp, %rsp\n  pop %rbp\n  ret\n.size on_stack, .-on_stack\n");
#elif defined __aarch64__
__asm__(".text\n.globl on_stack\n.type on_stack, %function\non_stack:\n"
        "  stp x29, x30, [sp, #-16]!\n  mov x29, sp\n  mov sp, x0\n  mov x0, x2\n  blr x1\n"
        "  mov sp, x29\n  ldp x29, x30, [sp], #16\n  ret\n.size on_stack, .-on_stack\n");
#else
#error "no switch for this machine"
#endif

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- what is done there */

struct work {
    size_t bytes;
    int count, is_kept;
};

static void ask(void *argument)
{
    const struct work *work = argument;
    for (int i = 0; i < work->count; i++) {
        char *volatile at = malloc(work->bytes);
        if (at)
            *at = 1;
        if (!work->is_kept)
            free(at);
    }
}

static const struct work *for_context;

static void ask_in_context(void)
{
    ask((void *)for_context);
}

static void in_context(char *low, size_t bytes, struct work *work)
{
    static __thread ucontext_t back, context;
    getcontext(&context);
    context.uc_stack.ss_sp = low;
    context.uc_stack.ss_size = bytes;
    context.uc_link = &back;
    for_context = work;
    makecontext(&context, ask_in_context, 0);
    swapcontext(&back, &context);
}

/* A stack between two pages that nobody may touch. */
static char *guarded(void)
{
    char *at = mmap(NULL, STACK + 2 * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    mprotect(at, page(), PROT_NONE);
    mprotect(at + page() + STACK, page(), PROT_NONE);
    return at + page();
}

void by_hand(int count, size_t bytes, int is_kept)
{
    struct work work = {bytes, 1, is_kept};
    for (int i = 0; i < count; i++) {
        char *low = guarded();
        on_stack(low + STACK, ask, &work);
        munmap(low - page(), STACK + 2 * page());
    }
}

void by_contexts(int count, size_t bytes, int is_kept)
{
    struct work work = {bytes, 1, is_kept};
    for (int i = 0; i < count; i++) {
        char *low = guarded();
        in_context(low, STACK, &work);
        munmap(low - page(), STACK + 2 * page());
    }
}

/* ``function`` may be one of Python's. */
void call_on_stack(void (*function)(void *))
{
    enum { LARGE = 1 << 20 };
    char *at = mmap(NULL, LARGE + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at + LARGE, page(), PROT_NONE);
    on_stack(at + LARGE, function, NULL);
    munmap(at, LARGE + page());
}

/* ---- any layout */

static uint64_t seed;

static size_t random_below(size_t most)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % most;
}

static char *mapped(void *at, size_t bytes)
{
    char *found = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    return found == MAP_FAILED ? NULL : found;
}

/* Stacks of all lengths, anywhere: also right below this thread's own, or the main thread's, or cut out of this one. Above
 * its end is a page that nobody may read, none at all, one that may only be read, or somebody else's. */
void in_layouts(uint64_t first, int count)
{
    extern void *__libc_stack_end;
    char local;
    seed = first * 0x9e3779b97f4a7c15ull + 1;
    for (int i = 0; i < count; i++) {
        size_t bytes = (4 + random_below(60)) * page(), all = bytes + 2 * page(), cut = random_below(256) * 16;
        uintptr_t near = 0;
        switch (random_below(4)) {
        case 0:
            near = ((uintptr_t)&local & ~(page() - 1)) - (1 + random_below(4096)) * page() - all;
            break;
        case 1:
            near = ((uintptr_t)__libc_stack_end & ~(page() - 1)) - (1 + random_below(4096)) * page() - all;
            break;
        default:
            break;
        }
        char *at = near ? mapped((void *)near, all) : NULL;
        if (!at)
            at = mapped(NULL, all);
        if (!at)
            abort();
        char *low = at + page(), *top = low + bytes;
        mprotect(at, page(), PROT_NONE);
        switch (random_below(4)) {
        case 0:
            mprotect(top, page(), PROT_NONE);
            break;
        case 1:
            munmap(top, page());
            break;
        case 2:
            mprotect(top, page(), PROT_READ);
            break;
        default:
            memset(top, 0x41, page());
        }
        struct work work = {1 + random_below(20000), 1 + (int)random_below(8), 0};
        if (random_below(2))
            on_stack(top - cut, ask, &work);
        else
            in_context(low, bytes - cut, &work);
        munmap(at, all);
        char own[16384] __attribute__((aligned(16)));
        if (random_below(4) == 0)
            on_stack(own + sizeof own - random_below(64) * 16, ask, &work);
        char *heap = random_below(4) == 0 ? malloc(32768) : NULL;
        if (heap)
            on_stack((char *)(((uintptr_t)heap + 32768) & ~(uintptr_t)15), ask, &work);
        free(heap);
    }
}

struct fuzz {
    uint64_t seed;
    int count;
};

static void *fuzz(void *argument)
{
    struct fuzz *of = argument;
    in_layouts(of->seed, of->count);
    return NULL;
}

/* The same in threads of their own, with stacks that they were given and with glibc's. */
void in_layouts_of_threads(uint64_t first, int count)
{
    for (int i = 0; i < count; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        struct fuzz of = {first + (uint64_t)i, 20};
        size_t bytes = (size_t)(16 + i % 7) * 8 * page();
        char *low = mapped(NULL, bytes + 2 * page());
        pthread_attr_init(&attributes);
        if (i % 3 == 0) {
            mprotect(low, page(), PROT_NONE);
            mprotect(low + page() + bytes, page(), PROT_NONE);
            pthread_attr_setstack(&attributes, low + page(), bytes);
        } else
            pthread_attr_setstacksize(&attributes, bytes);
        if (i % 3 == 1)
            pthread_attr_setguardsize(&attributes, 0);
        if (pthread_create(&thread, &attributes, fuzz, &of))
            abort();
        pthread_join(thread, NULL);
        munmap(low, bytes + 2 * page());
    }
}

/* ---- small ones */

static int use_of_stack(int left, struct work *work)
{
    volatile char room[256];
    memset((char *)room, 1, sizeof room);
    if (left > 0)
        return use_of_stack(left - 256, work) + room[3];
    ask(work);
    return room[5];
}

struct small {
    int use;
    struct work work;
};

static void *use_small(void *argument)
{
    struct small *small = argument;
    use_of_stack(small->use, &small->work);
    return NULL;
}

void on_small_stacks(int count, int stack_bytes, int use, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        struct small small = {use, {bytes, 3, 0}};
        pthread_attr_init(&attributes);
        if (pthread_attr_setstacksize(&attributes, (size_t)stack_bytes) || pthread_create(&thread, &attributes, use_small, &small))
            abort();
        pthread_join(thread, NULL);
    }
}

/* How far below its caller a call of malloc goes on the stack. */
enum { DEEP = 16384 };

static __attribute__((noinline)) size_t painted(int is_new)
{
    volatile unsigned char *here = (volatile unsigned char *)__builtin_frame_address(0) - 64;
    size_t left = 0;
    if (is_new)
        for (int i = 0; i < DEEP; i++)
            here[-i] = 0x5a;
    else
        while (left < DEEP && here[(long)left - DEEP + 1] == 0x5a)
            left++;
    return DEEP - left;
}

int depth_of_malloc(int count, size_t bytes)
{
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        painted(1);
        char *volatile at = malloc(bytes);
        size_t depth = painted(0);
        if (depth > most)
            most = depth;
        free(at);
    }
    return (int)most;
}

/* ---- states that are gone */

static sem_t is_ready, may_go_on;
static void *(*new_state)(void *), *(*main_interpreter)(void), *(*save)(void);
static void (*restore)(void *), (*clear)(void *), (*delete)(void *);
static int (*run)(const char *, void *);
static void *state;

static void *of_c(void *argument)
{
    struct work with_it = {3000, 200, 0}, without = {3000, *(int *)argument, 0};
    state = new_state(main_interpreter());
    restore(state);
    run("[n for n in range(10)]", NULL);
    ask(&with_it);
    save();
    ask(&with_it);
    sem_post(&is_ready);
    sem_wait(&may_go_on);
    ask(&without);
    return NULL;
}

/* With the GIL. A thread of C code runs some Python and goes on in C; its state is deleted by this one: before it goes on,
 * or (``is_race``) as it does. */
void delete_states(int count, int asks, int is_race)
{
    *(void **)&new_state = dlsym(RTLD_DEFAULT, "PyThreadState_New");
    *(void **)&main_interpreter = dlsym(RTLD_DEFAULT, "PyInterpreterState_Main");
    *(void **)&save = dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
    *(void **)&restore = dlsym(RTLD_DEFAULT, "PyEval_RestoreThread");
    *(void **)&clear = dlsym(RTLD_DEFAULT, "PyThreadState_Clear");
    *(void **)&delete = dlsym(RTLD_DEFAULT, "PyThreadState_Delete");
    *(void **)&run = dlsym(RTLD_DEFAULT, "PyRun_SimpleStringFlags");
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        sem_init(&is_ready, 0, 0);
        sem_init(&may_go_on, 0, 0);
        void *own = save();
        if (pthread_create(&thread, NULL, of_c, &asks))
            abort();
        sem_wait(&is_ready);
        restore(own);
        if (is_race)
            sem_post(&may_go_on);
        clear(state);
        delete(state);
        for (int k = 0; k < 300; k++) { /* what was freed is used again */
            char *at = malloc(200 + (size_t)(k % 64) * 16);
            if (at)
                memset(at, 0x41, 200);
            if (k % 3)
                free(at);
        }
        own = save();
        if (!is_race)
            sem_post(&may_go_on);
        pthread_join(thread, NULL);
        restore(own);
    }
}
