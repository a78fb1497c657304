/* Which memory that was asked for is still there, and who asked for it: by samples.
 *
 * Of every ``rate`` bytes that are asked for one is drawn, at random; what holds it is a sample and remembered with
 * its stack until it is freed. An allocation of so many bytes is drawn with p = 1 - exp(-bytes / rate) and stands for
 * bytes / p, so that the sums are right for small ones and large ones alike (as in tcmalloc and Go).
 *
 * Nothing is preloaded: LD_PRELOAD would reach every process that the job starts, and the loader complains on stderr
 * where it cannot load it (another architecture, another root), as does a program built with AddressSanitizer. Instead
 * the words by which libraries find malloc and its kin (their global offset tables) are made to lead here, in this
 * process alone, while it runs. Done on x86-64 and aarch64 with glibc, whoever serves malloc there: itself, or an
 * allocator that was preloaded or linked in.
 *
 *   sampler_look_ups  as the process starts: who looks malloc up from now on gets ours, which does nothing yet
 *   sampler_note_requests  then, and in a forked child: where large pieces are written down as they are asked for
 *   sampler_begin     with the GIL, once: what is known of this Python
 *   sampler_tick      without it, now and then: libraries that have come since, and native stacks of what is new
 *   sampler_rows      without it: what is alive, by stack
 *   sampler_lives     without it: what began and ended since the last call
 *   sampler_forget    in a forked child: what its parent asked for is its parent's
 *   sampler_end       with the GIL: nothing more is drawn
 *
 * In the job's calls nothing is asked of malloc, no lock of another's is taken, and no reference count moves; errno and
 * the flags of floating-point numbers stay as they are. What is read there is known to be there: own_stack.h says so of
 * the stack, states.h of Python's structures, and stacks.h of the frames behind those. Little of the stack is taken, and
 * what is written lies in variables of ours.
 */
#define ONE_UNIT
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifndef __GLIBC__
#error "what is replaced are words of glibc's loader"
#endif

#define EXPORT __attribute__((visibility("default")))

#include "../graph/reader/text.c"
#include "../graph/reader/frames.c"

#include "sampler/machine.h"
#include "sampler/lives.h"
#include "sampler/table.h"
#include "sampler/own_stack.h"
#include "sampler/states.h"
#include "sampler/stacks.h"
#include "sampler/requests.h"
#include "sampler/draw.h"
#include "sampler/hooks.h"
#include "sampler/native.h"
#include "sampler/modules.h"
#include "sampler/objects.h"
#include "sampler/rows.h"

/* Each thread's own: two may fork at once, and the second not get the locks. */
static __thread int is_held __attribute__((tls_model("initial-exec")));
static __thread int is_walk_held __attribute__((tls_model("initial-exec")));

static void before_fork(void)
{
    is_walk_held = take_walk_lock();
    is_held = take_lock();
}

static void after_fork(void)
{
    if (is_held)
        give_lock();
    if (is_walk_held)
        give_walk_lock();
}

/* Where another thread held it for long: that thread is not here. */
static void in_child(void)
{
    give_lock();
    give_walk_lock();
    readers = 0;
    objects_left = FAR; /* while somebody watches, nobody tells of the fork, nor ends a window on objects */
}

/* A program keeps the address that it looks up, mostly as its modules are imported. */
EXPORT void sampler_look_ups(void)
{
    if (!find_functions())
        put_hooks(BY_NAME);
}

/* 0: begun. Else why not, a number for sampler.py. */
EXPORT int sampler_begin(const struct layout *layout, uint64_t size, const char *own, double bytes_a_sample)
{
    if (size != sizeof L)
        return REFUSED_OTHER_LAYOUT;
    L = *layout;
    strncpy(own_folder, own, sizeof own_folder - 1);
    this_thread_or_null = (state_function)dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    current_state = (state_function)dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
    if (!current_state) /* what it is called since 3.13 */
        current_state = (state_function)dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
    least_rate = rate = bytes_a_sample;
    static int has_handlers; /* it may begin again after an end */
    if (!has_handlers && pthread_atfork(before_fork, after_fork, in_child))
        return REFUSED_NO_MEMORY;
    has_handlers = 1;
    int refusal = find_functions();
    if (!refusal) {
        walk_modules(find_python, (void *)L.type_type->deallocate);
        know_stacks();
        know_main_stack();
        know_states();
        call_beforehand();
        refusal = put_hooks(0);
    }
    if (refusal == REFUSED_TAKEN_OVER)
        refusal = 0; /* ticks tell whether it stays so */
    if (!refusal)
        __atomic_store_n(&is_on, 1, __ATOMIC_RELEASE);
    return refusal;
}

/* On the caller's thread nothing is drawn any more: what the recorder asks for is none of the job's. */
EXPORT void sampler_leave_out_this_thread(void)
{
    left = FAR;
    behind = 0;
}

/* Python is about to end: thread states are freed while their threads may still run. Who reads the frames of its own is
 * through in microseconds, once it has a processor; whoever is stopped is not waited for. */
EXPORT void sampler_without_python(void)
{
    enum { MOST_WAITS = 10000, WAIT_US = 100 };
    __atomic_store_n(&this_thread_or_null, NULL, __ATOMIC_SEQ_CST);
    for (int waits = 0; waits < MOST_WAITS && __atomic_load_n(&readers, __ATOMIC_SEQ_CST); waits++)
        usleep(WAIT_US);
}

EXPORT void sampler_forget(void)
{
    if (!take_lock())
        return; /* not in a child, where nobody else is */
    forget_all();
    forget_states();
    give_lock();
}

EXPORT void sampler_end(void)
{
    __atomic_store_n(&is_on, 0, __ATOMIC_RELEASE);
    if (!take_lock())
        return;
    forget_all();
    forget_states(); /* what is freed from now on is not looked at */
    give_lock();
}

/* Returns 1 where somebody else now answers for malloc: then what was freed was not seen. A word may lead elsewhere for a
 * moment, while its library comes or goes. */
EXPORT int sampler_tick(double now_s)
{
    enum { TICKS_IN_A_ROW = 2 };
    static int taken_over;
    tick_s = (float)now_s;
    adapt();
    taken_over = put_hooks(0) == REFUSED_TAKEN_OVER ? taken_over + 1 : 0;
    resolve_native_stacks();
    resolve_callers_of_mappings();
    if (__atomic_load_n(&is_main_wanted, __ATOMIC_ACQUIRE))
        know_main_stack();
    return taken_over >= TICKS_IN_A_ROW;
}

/* The file of who answers for malloc; empty where that is not known. */
EXPORT void sampler_taken_over_by(char *to, uint64_t room)
{
    Dl_info found;
    int is_known = foreign_at && dladdr((void *)foreign_at, &found) && found.dli_fname;
    snprintf(to, room, "%s", is_known ? found.dli_fname : "");
}
