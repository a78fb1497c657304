/* How the agent's thread waits: without the GIL, with its eyes on the process.
 *
 * A thread more can keep a process alive, hold up another that wants the GIL, or have the whole process killed by a
 * filter of system calls that was set for all threads. So before it goes on to Python, each time, it reads what the
 * kernel says of the process, and ends by itself where it must not be there. Nothing of Python is used here: who has
 * the GIL may be dead.
 *
 *   waiting_begin   with the GIL, on the thread: opens what is looked at
 *   waiting_wait    without it: until it is asked for, or the time is over; perhaps it does not come back
 *   waiting_wake    on any thread
 *   waiting_end     with the GIL: the thread has done what it had to do
 *   waiting_close   with the GIL: it is not in this process, but in the one that this was forked from
 *   waiting_is_shut whether a filter of system calls was set in this process since the thread began
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { GOES_ON, IS_LAST, IS_SHUT };

/* One text of /proc that stays open: no number that the job may get is taken for each look. */
struct looked_at {
    int32_t file, has_begun;
    uint64_t device, node; /* the job may have closed it, and the number be that of a file of its own */
    int64_t pid;           /* as the text has it: /proc may be that of another namespace */
    int64_t filters;       /* as it began */
};

struct waiting {
    int32_t asked, state;
    struct looked_at process; /* it says what the main thread is doing */
    uint64_t python_handler, fault_handler; /* 0: not known */
    int64_t look_ns; /* between two looks */
    uint64_t note_bytes;
    const char *note_file, *note; /* to be appended where it ends by itself */
};

enum { TEXT_BYTES = 8192, LEAST_FD = 200 };
enum { MOST_OF_A_SIZE = 16, LARGEST_KEPT = 1032 }; /* that glibc keeps for a thread: 7 until 2.41, 16 since */
enum { NS = 1000000000, LOOK_NS = NS / 2, LOOK_AS_LAST_NS = NS / 20 };

static const char *field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? at + strlen(name) : "";
}

static int64_t number(const char *text, const char *name)
{
    int64_t value = 0;
    for (const char *at = field(text, name); *at >= '0' && *at <= '9'; at++)
        value = 10 * value + (*at - '0');
    return value;
}

static uint64_t signals(const char *text, const char *name)
{
    uint64_t value = 0;
    for (const char *at = field(text, name);; at++) {
        if (*at >= '0' && *at <= '9')
            value = 16 * value + (uint64_t)(*at - '0');
        else if (*at >= 'a' && *at <= 'f')
            value = 16 * value + (uint64_t)(*at - 'a' + 10);
        else
            return value;
    }
}

/* Mode and number: the second is told since Linux 5.9 alone. */
static int64_t filters(const char *text)
{
    return number(text, "\nSeccomp:\t") << 32 | number(text, "\nSeccomp_filters:\t");
}

static int is_text_of(const struct looked_at *one, char *text, ssize_t bytes)
{
    text[bytes > 0 ? bytes : 0] = 0;
    return bytes > 0 && number(text, "\nPid:\t") == one->pid;
}

static int look_at(const struct looked_at *one, char *text)
{
    return one->file >= 0 && is_text_of(one, text, pread(one->file, text, TEXT_BYTES - 1, 0));
}

static void open_text(struct looked_at *one, const char *path)
{
    char text[TEXT_BYTES];
    struct stat status;
    int low = open(path, O_RDONLY | O_CLOEXEC);
    one->file = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, LEAST_FD);
    if (low >= 0)
        close(low);
    if (one->file < 0 || fstat(one->file, &status))
        return;
    one->device = status.st_dev;
    one->node = status.st_ino;
    ssize_t bytes = pread(one->file, text, TEXT_BYTES - 1, 0);
    text[bytes > 0 ? bytes : 0] = 0;
    one->pid = number(text, "\nPid:\t");
    one->filters = filters(text);
}

static void close_text(struct looked_at *one)
{
    struct stat status;
    if (one->file >= 0 && !fstat(one->file, &status) && status.st_dev == one->device && status.st_ino == one->node)
        close(one->file);
    one->file = -1;
}

/* With the GIL: no other thread of Python's opens a file meanwhile, and finds a number taken. */
EXPORT void waiting_begin(struct waiting *w)
{
    w->look_ns = LOOK_NS;
    open_text(&w->process, "/proc/self/status");
}

/* Also of a thread that is not in this process, but in the one that it was forked from. */
EXPORT void waiting_close(struct waiting *w)
{
    close_text(&w->process);
}

EXPORT void waiting_wake(struct waiting *w)
{
    __atomic_store_n(&w->asked, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &w->asked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ``is_to_be_read``: by read(2), which even strict mode allows, and which gives the text once. */
EXPORT int waiting_is_shut(struct waiting *w, int is_to_be_read)
{
    char text[TEXT_BYTES];
    if (__atomic_load_n(&w->state, __ATOMIC_ACQUIRE) == IS_SHUT)
        return 1;
    int is_text = is_to_be_read && w->process.file >= 0
                  && is_text_of(&w->process, text, read(w->process.file, text, TEXT_BYTES - 1));
    int is_shut = (is_text || look_at(&w->process, text)) && filters(text) != w->process.filters;
    if (is_shut)
        __atomic_store_n(&w->state, IS_SHUT, __ATOMIC_RELEASE);
    return is_shut;
}

/* ---- a main thread that ends alone, by pthread_exit, and has the GIL
 *
 * Nobody else would have it ever again, and a thread of ours that wants it just then would never end.
 */
static void *(*current_state)(void);
static void *(*let_go)(void);

static void main_thread_ends(void *its_state)
{
    if (current_state() == its_state)
        let_go();
}

/* On the main thread, with its state as Python has it, and two functions of Python's. */
EXPORT void waiting_mind_main_thread(void *state, void *(*current)(void), void *(*release)(void))
{
    static pthread_key_t key;
    static int has_key;
    current_state = current;
    let_go = release;
    if (!has_key && !pthread_key_create(&key, main_thread_ends))
        has_key = 1;
    if (has_key)
        pthread_setspecific(key, state);
}

/* ---- signals: they are the job's
 *
 * All are blocked while it waits: one that the job keeps blocked to wait for (sigwait) would be delivered to a thread
 * that does not, and so may one of two that come at once. But who asks each thread in turn, as torch does for stacks
 * when a fatal signal has come, sends a signal to this one alone and waits for its handler. Such a signal waits until the
 * next look; while the thread has the GIL or waits for it, which the one that asks may have for ever, it is let in. That
 * is done for handlers of C alone. Python's are run on the main thread, which the signal is to wake.
 */
static const int of_timers[] = {SIGALRM, SIGVTALRM, SIGPROF}; /* sent to the process */
static uint64_t waited_for; /* what the main thread was ever seen to block: not while it waits, and such a one may come
                               while this thread has the GIL */

static void block_all(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void let_in_directed(const struct waiting *w, uint64_t of_process)
{
    sigset_t wanted;
    int count = 0;
    if (!w->python_handler)
        return;
    of_process |= waited_for;
    sigemptyset(&wanted);
    for (int signal = 1; signal < 65; signal++) {
        struct sigaction action;
        int is_sent_to_process = of_process >> (signal - 1) & 1;
        for (size_t i = 0; i < sizeof of_timers / sizeof *of_timers; i++)
            is_sent_to_process |= signal == of_timers[i];
        if (is_sent_to_process || sigaction(signal, NULL, &action) || action.sa_handler == SIG_DFL
            || action.sa_handler == SIG_IGN || (uint64_t)(uintptr_t)action.sa_handler == w->python_handler)
            continue;
        sigaddset(&wanted, signal);
        count++;
    }
    if (count)
        pthread_sigmask(SIG_UNBLOCK, &wanted, NULL);
}

/* ---- its end */

static struct {
    pthread_t thread;
    pid_t pid, tid;
    int status; /* of the main thread, if it was the last of the job's; as wait(2) tells it */
} last;

/* Since Linux 5.19 a process has the status of the thread that ended last, before that of its main thread. 0 is what
 * the C library ends a thread with. */
static void end_with_status(void)
{
    int signal = last.status & 0x7f;
    if (!last.status)
        return;
    if (signal) {
        sigset_t one;
        struct sigaction action;
        memset(&action, 0, sizeof action);
        sigaction(signal, &action, NULL);
        sigemptyset(&one);
        sigaddset(&one, signal);
        pthread_sigmask(SIG_UNBLOCK, &one, NULL);
        syscall(SYS_tgkill, last.pid, (pid_t)syscall(SYS_gettid), signal);
    }
    syscall(SYS_exit_group, last.status >> 8);
}

static int status_of_main_thread(void)
{
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *end = strrchr(text, ' '); /* the last of 52 figures */
    return end ? atoi(end) : 0;
}

/* The last thread wants the GIL, to write what is not written yet; who died with it gives it to nobody. */
static void *see_it_ended(void *nothing)
{
    enum { TIMES = 100 };
    const struct timespec pause = {0, NS / 50};
    (void)nothing;
    for (int i = 0; i < TIMES; i++) {
        nanosleep(&pause, NULL);
        if (syscall(SYS_tgkill, last.pid, last.tid, 0))
            return NULL;
    }
    end_with_status();
    pthread_cancel(last.thread);
    return NULL;
}

/* The main thread is gone, and there is no other: but for us the process would be over, with its status. It is as soon as
 * this thread ends, and the C library does then what it does behind the last thread. */
static void be_the_last(struct waiting *w, int is_first_look)
{
    pthread_t other;
    last.status = is_first_look ? status_of_main_thread() : 0;
    last.thread = pthread_self();
    last.pid = getpid();
    last.tid = (pid_t)syscall(SYS_gettid);
    w->state = IS_LAST;
    if (!pthread_create(&other, NULL, see_it_ended, NULL))
        pthread_detach(other);
}

static const int faults[] = {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT};

/* Our handler writes, and sends the signal once more: a filter may allow neither. */
static void leave_faults(const struct waiting *w)
{
    for (size_t i = 0; w->fault_handler && i < sizeof faults / sizeof *faults; i++) {
        struct sigaction action;
        if (sigaction(faults[i], NULL, &action) || (uint64_t)(uintptr_t)action.sa_handler != w->fault_handler)
            continue;
        memset(&action, 0, sizeof action);
        sigaction(faults[i], &action, NULL);
    }
}

static void append_note(const struct waiting *w)
{
    int file = w->note ? open(w->note_file, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    ssize_t written = write(file, w->note, w->note_bytes);
    (void)written;
    close(file);
}

/* Returns what is pending for the process, if the thread may go on. */
static uint64_t look(struct waiting *w)
{
    enum { STRICT = 1 };
    char text[TEXT_BYTES];
    if (!look_at(&w->process, text)) /* the first call after it has slept: one that filters hardly refuse */
        return 0;
    char state = *field(text, "\nState:\t");
    if (state == 'Z' || state == 'X') {
        int is_first_look = w->look_ns != LOOK_AS_LAST_NS;
        w->look_ns = LOOK_AS_LAST_NS;
        if (number(text, "\nThreads:\t") == 2)
            be_the_last(w, is_first_look);
    } else if (filters(text) != w->process.filters) {
        __atomic_store_n(&w->state, IS_SHUT, __ATOMIC_RELEASE);
        while (number(text, "\nSeccomp:\t") != STRICT) /* it may hold for this thread, too */
            syscall(SYS_exit, 0);
        /* For the main thread alone, which may not so much as wait for the GIL. */
        leave_faults(w);
        append_note(w);
        waiting_close(w);
        pthread_exit(NULL);
    }
    waited_for |= signals(text, "\nSigBlk:\t");
    return signals(text, "\nShdPnd:\t");
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS + now.tv_nsec;
}

/* What the job tells the kernel of its main thread by its process number (nice) goes for ours: it would else have the
 * processor before a job that has stepped back. */
static void be_as_nice(const struct waiting *w)
{
    errno = 0;
    int theirs = getpriority(PRIO_PROCESS, (id_t)getpid());
    if (!errno && w->process.file >= 0 && theirs > getpriority(PRIO_PROCESS, 0))
        setpriority(PRIO_PROCESS, 0, theirs);
}

/* The thread has done what it had to do. */
EXPORT void waiting_end(struct waiting *w)
{
    waiting_close(w);
    if (w->state == IS_LAST)
        end_with_status();
}

/* What this thread freed goes back to where it came from. glibc keeps some of it for the thread to use again, of each size:
 * memory of the job's among it, which then is not free for the heap it lies in, and the heap keeps all that lies below it.
 * One that was filled with arrays and emptied again stayed 260 MiB larger, for a few kilobytes that this thread had at hand.
 * So it gets as much of its own to keep, which is freed first. */
static void keep_nothing_of_the_heap(void)
{
    void *own[MOST_OF_A_SIZE], *of_heap[MOST_OF_A_SIZE];
    for (size_t bytes = 24; bytes <= LARGEST_KEPT; bytes += 16) {
        int own_count = 0, heap_count = 0;
        while (own_count < MOST_OF_A_SIZE && heap_count < MOST_OF_A_SIZE) {
            void *at = malloc(bytes);
            if (!at)
                break;
            if ((uintptr_t)at < (uintptr_t)sbrk(0)) /* all else is mapped above it */
                of_heap[heap_count++] = at;
            else
                own[own_count++] = at;
        }
        while (own_count)
            free(own[--own_count]);
        while (heap_count)
            free(of_heap[--heap_count]);
    }
}

EXPORT void waiting_wait(struct waiting *w, double seconds)
{
    int64_t until_ns = now_ns() + (int64_t)(seconds * NS), left_ns;
    uint64_t pending = 0;
    block_all();
    if (w->state == GOES_ON) /* it may have to ask the kernel for memory, which a filter could forbid */
        keep_nothing_of_the_heap();
    if (w->state == IS_LAST) { /* somebody watches, and nothing of ours is run in Python */
        waiting_end(w);
        pthread_exit(NULL);
    }
    if (w->state == IS_SHUT)
        look(w);
    while (!__atomic_load_n(&w->asked, __ATOMIC_ACQUIRE) && (left_ns = until_ns - now_ns()) > 0) {
        if (left_ns > w->look_ns)
            left_ns = w->look_ns;
        struct timespec left = {left_ns / NS, left_ns % NS};
        syscall(SYS_futex, &w->asked, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
        pending = look(w);
        if (w->state != GOES_ON)
            break;
    }
    __atomic_store_n(&w->asked, 0, __ATOMIC_RELEASE);
    if (w->process.file >= 0)
        be_as_nice(w);
    let_in_directed(w, pending);
}
