/* Asks for memory and frees it as a recorded program did, by as many threads, so that an allocator shows what it makes
 * of that. The order is fixed: one thread goes on at a time, and says who is next. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { PAGE = 4096, STACK_BYTES = 1 << 16 };
#define MEASURE UINT32_MAX /* in place of a thread: whoever comes to it says how much is resident */

struct step {
    uint32_t thread; /* from 0, which calls replay() */
    uint32_t place;  /* of the piece, in a table */
    uint64_t bytes;  /* asked for; 0: it is freed */
};

static const struct step *steps;
static uint64_t step_count, next_step, measured;
static uint64_t *last_step; /* of each thread */
static unsigned char *is_begun;
static sem_t *turns;
static void **pieces;
static uint64_t *resident_bytes;
static uint64_t period_us, due_us;
static int (*trim)(size_t);
static int failed;

/* Anonymous memory, without asking an allocator for any. */
static uint64_t resident(void)
{
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = 0;
    char *at = text;
    strtoull(at, &at, 10);
    uint64_t all = strtoull(at, &at, 10), files = strtoull(at, &at, 10);
    return (all - files) * PAGE;
}

static uint64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void measure(void)
{
    uint64_t now_us = clock_us();
    if (now_us < due_us) /* allocators that give back after a while get one, however quick the steps were */
        usleep((useconds_t)(due_us - now_us));
    due_us = clock_us() + period_us;
    resident_bytes[measured++] = resident();
    if (trim) {
        trim(0);
        resident_bytes[measured++] = resident();
    }
}

static void do_step(const struct step *step)
{
    if (!step->bytes) {
        free(pieces[step->place]);
        pieces[step->place] = NULL;
        return;
    }
    char *piece = malloc(step->bytes);
    pieces[step->place] = piece;
    if (!piece) {
        failed = 1;
        return;
    }
    for (uint64_t at = 0; at < step->bytes; at += PAGE)
        piece[at] = 1;
    piece[step->bytes - 1] = 1;
}

static void *run(void *);

static void hand_on_to(uint32_t thread)
{
    pthread_t made;
    pthread_attr_t how;
    if (!thread || is_begun[thread]) {
        sem_post(&turns[thread]);
        return;
    }
    is_begun[thread] = 1;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, STACK_BYTES);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&made, &how, run, (void *)(uintptr_t)thread)) {
        failed = 1;
        next_step = step_count;
        sem_post(&turns[0]);
    }
    pthread_attr_destroy(&how);
}

/* Until the thread's last step, or to the end for the first one. */
static void *run(void *argument)
{
    uint32_t own = (uint32_t)(uintptr_t)argument;
    for (;;) {
        while (next_step < step_count && (steps[next_step].thread == own || steps[next_step].thread == MEASURE)) {
            if (steps[next_step].thread == MEASURE)
                measure();
            else
                do_step(&steps[next_step]);
            next_step++;
        }
        int is_over = own && next_step > last_step[own];
        if (next_step < step_count)
            hand_on_to(steps[next_step].thread);
        else if (own)
            sem_post(&turns[0]);
        else
            return NULL;
        if (is_over)
            return NULL;
        sem_wait(&turns[own]);
    }
}

static void *memory(uint64_t bytes)
{
    void *at = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    memset(at, 1, bytes); /* so that it is resident before anything is measured */
    memset(at, 0, bytes);
    return at;
}

/* Resident bytes at each MEASURE, less what there was before, to ``to``. Returns 0, or 1 where memory or threads are
 * wanting. ``is_trimmed``: malloc_trim(0) after each, and a second figure. */
EXPORT int replay(const struct step *all, uint64_t count, uint32_t thread_count, uint32_t place_count, int is_trimmed,
                  uint32_t period, int64_t *to)
{
    steps = all;
    step_count = count;
    period_us = period;
    due_us = clock_us() + period_us;
    trim = is_trimmed ? (int (*)(size_t))dlsym(RTLD_DEFAULT, "malloc_trim") : NULL;
    last_step = memory(thread_count * sizeof *last_step);
    is_begun = memory(thread_count);
    turns = memory(thread_count * sizeof *turns);
    pieces = memory(place_count * sizeof *pieces);
    resident_bytes = (uint64_t *)to;
    if (!last_step || !is_begun || !turns || !pieces)
        return 1;
    for (uint32_t i = 0; i < thread_count; i++)
        sem_init(&turns[i], 0, 0);
    for (uint64_t at = 0; at < count; at++)
        if (all[at].thread != MEASURE)
            last_step[all[at].thread] = at;
    uint64_t before = resident();
    run(NULL);
    for (uint64_t i = 0; i < measured; i++)
        to[i] -= (int64_t)before;
    return failed;
}
