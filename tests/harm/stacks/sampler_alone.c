/* The sampler without Python, made with AddressSanitizer: threads, coroutines and its reader, all at once. */
#define _GNU_SOURCE
#include "sampler.c"

#include <malloc.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { THREADS = 4, ROUNDS = 10000, HELD = 64, STACK_OF_CONTEXT = 1 << 17 };

static int must_end;

static uint64_t next(uint64_t *seed)
{
    return mixed(*seed += 0x9e3779b97f4a7c15ull);
}

static void work(uint64_t *seed, int rounds)
{
    void *held[HELD] = {NULL}, *region = NULL;
    for (int i = 0; i < rounds; i++) {
        void **one = &held[next(seed) % HELD];
        size_t bytes = 1 + next(seed) % (next(seed) % 8 ? 500 : 50000);
        switch (next(seed) % 128 ? next(seed) % 7 : 7) {
        case 0: {
            void *more = our_realloc(*one, bytes);
            *one = more ? more : *one;
            break;
        }
        case 1:
            our_free(*one);
            *one = our_calloc(3, bytes / 3 + 1);
            break;
        case 2:
            our_free(*one);
            *one = our_memalign(64, bytes);
            break;
        case 3:
            our_free(*one);
            *one = NULL;
            if (our_posix_memalign(one, 32, bytes))
                *one = NULL;
            break;
        case 7:
            if (region)
                our_munmap(region, 1 << 18);
            region = our_mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            break;
        default:
            our_free(*one);
            *one = our_malloc(bytes);
            if (*one)
                memset(*one, 1, bytes);
        }
    }
    for (int i = 0; i < HELD; i++)
        our_free(held[i]);
    if (region)
        our_munmap(region, 1 << 18);
}

static __thread uint64_t *seed_of_context;

static void work_in_context(void)
{
    work(seed_of_context, 200);
}

static void *of_thread(void *argument)
{
    uint64_t seed = (uintptr_t)argument;
    for (int turn = 0; turn < 10; turn++) {
        static __thread ucontext_t back, context;
        char *stack = malloc(STACK_OF_CONTEXT);
        work(&seed, ROUNDS / 10);
        getcontext(&context);
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = STACK_OF_CONTEXT;
        context.uc_link = &back;
        seed_of_context = &seed;
        makecontext(&context, work_in_context, 0);
        swapcontext(&back, &context);
        free(stack);
    }
    return NULL;
}

static char room[1 << 20];
static struct block blocks[1 << 14];

static void *of_reader(void *argument)
{
    (void)argument;
    sampler_leave_out_this_thread();
    while (!__atomic_load_n(&must_end, __ATOMIC_ACQUIRE)) {
        struct figures figures;
        tick_s += 0.5f;
        adapt();
        find_words();
        resolve_native_stacks();
        know_main_stack();
        usleep(2000);
        sampler_rows(room, sizeof room, MALLOC, 40, 0);
        sampler_blocks(blocks, sizeof blocks / sizeof blocks[0]);
        sampler_figures(&figures);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS], reader;
    real_malloc = malloc, real_calloc = calloc, real_realloc = realloc, real_free = free;
    real_memalign = memalign, real_aligned_alloc = aligned_alloc, real_posix_memalign = posix_memalign;
    real_mmap = mmap, real_munmap = munmap, real_dlsym = dlsym;
    pthread_atfork(before_fork, after_fork, in_child);
    know_stacks();
    know_main_stack();
    rate = least_rate = 300;
    is_on = 1;
    uint64_t seed = 77; /* forks come first: AddressSanitizer's own locks know none */
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (!child) {
            sampler_forget();
            work(&seed, 300);
            _exit(live_count != 0); /* all was freed */
        }
        int status;
        waitpid(child, &status, 0);
        if (status)
            return 3;
        work(&seed, ROUNDS / 5);
    }
    pthread_create(&reader, NULL, of_reader, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, of_thread, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&must_end, 1, __ATOMIC_RELEASE);
    pthread_join(reader, NULL);
    printf("%u drawn, %u alive, own stack %s\n", (unsigned)drawn_count, live_count, block_at ? "known" : "not known");
    sampler_end();
    return 0;
}
