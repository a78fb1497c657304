/* Arrays that grow, within what the caller allows.
 *
 * They are asked of the kernel itself: who answers for mmap may count what a program maps, as our own sampler does, and
 * would tell this as the program's. A forked child does not get them: it would keep what its parent frees. It gets what Python code of ours may just be
 * looking at, as the fork happens: that is what grow_copied is for.
 */
#include "reader.h"

#ifdef __SANITIZE_ADDRESS__ /* the tests' build: of malloc, and at first no byte more, so that each access beyond is seen */

static void *resize(void *at, size_t before, size_t *wanted)
{
    *wanted += before / 2;
    char *to = realloc(at, *wanted);
    if (!to)
        return MAP_FAILED;
    memset(to + before, 0, *wanted - before);
    return to;
}

static void release(void *at, size_t bytes)
{
    memset(at, 0xee, bytes);
    free(at);
}

static int is_in_room(const void *at)
{
    (void)at;
    return 0;
}

static void *resize_in_room(char *at, size_t before, size_t wanted)
{
    return resize(at, before, &wanted);
}

INTERNAL uint64_t keep_room(uint64_t bytes)
{
    (void)bytes;
    return 0;
}

#else

/* Memory that is asked for while there is some, and kept for the life of the process: near a limit a part of the graph has
 * its arrays there. At most one graph at a time. In between the kernel may have its pages back, and takes them before it
 * kills: so nothing dies sooner for them. In a cgroup of 100 MiB they were all there at 95 % of it, and a program that grows
 * was killed at the same MiB as without; of pages that nobody can take it lacked each, and those of a file are written. */
enum { PAGE = 4096, MOST_KEPT = 1024 }; /* pages */

#ifndef MADV_FREE
#define MADV_FREE 8 /* of Linux 4.5 */
#endif

static struct {
    char *at;
    size_t pages, used;
    pid_t process; /* a forked child has none */
    uint8_t is_used[MOST_KEPT];
} kept;

INTERNAL uint64_t keep_room(uint64_t bytes)
{
    size_t pages = bytes / PAGE < MOST_KEPT ? bytes / PAGE : MOST_KEPT;
    if ((kept.at && kept.process == getpid()) || !pages)
        return kept.at && kept.process == getpid() ? kept.pages * PAGE : 0;
    void *at = (void *)syscall(SYS_mmap, NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (at == MAP_FAILED)
        return 0;
    madvise(at, pages * PAGE, MADV_DONTFORK);
    memset(at, 1, pages * PAGE);
    madvise(at, pages * PAGE, MADV_FREE);
    memset(kept.is_used, 0, sizeof kept.is_used);
    kept.pages = pages;
    kept.used = 0;
    kept.process = getpid();
    kept.at = at;
    return pages * PAGE;
}

static int is_in_room(const void *at)
{
    return kept.at && (const char *)at >= kept.at && (const char *)at < kept.at + kept.pages * PAGE && kept.process == getpid();
}

static void mark_used(const char *at, size_t bytes)
{
    memset(kept.is_used + (size_t)(at - kept.at) / PAGE, 1, bytes / PAGE);
    kept.used += bytes / PAGE;
}

static void mark_free(const char *at, size_t bytes)
{
    memset(kept.is_used + (size_t)(at - kept.at) / PAGE, 0, bytes / PAGE);
    kept.used -= bytes / PAGE;
    if (!kept.used)
        madvise(kept.at, kept.pages * PAGE, MADV_FREE);
}

/* How many pages from one on are free. */
static size_t free_from(size_t page, size_t enough)
{
    size_t count = 0;
    while (count < enough && page + count < kept.pages && !kept.is_used[page + count])
        count++;
    return count;
}

/* The same as ``resize``, in the room that is kept. */
static void *resize_in_room(char *at, size_t before, size_t wanted)
{
    size_t pages = wanted / PAGE, page = at ? (size_t)(at - kept.at) / PAGE + before / PAGE : 0;
    if (at && free_from(page, pages - before / PAGE) == pages - before / PAGE) {
        memset(at + before, 0, wanted - before);
        mark_used(at + before, wanted - before);
        return at;
    }
    for (page = 0; page + pages <= kept.pages; page++) {
        size_t count = free_from(page, pages);
        if (count == pages) {
            char *to = kept.at + page * PAGE;
            mark_used(to, wanted);
            memset(to + before, 0, wanted - before);
            if (at) {
                memcpy(to, at, before);
                mark_free(at, before);
            }
            return to;
        }
        page += count;
    }
    return MAP_FAILED;
}

static void *resize(void *at, size_t before, size_t *wanted)
{
    *wanted = (*wanted + 4095) & ~(size_t)4095;
    if (at)
        return mremap(at, before, *wanted, MREMAP_MAYMOVE);
    at = (void *)syscall(SYS_mmap, NULL, *wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    if (at == MAP_FAILED)
        return at;
    munlock(at, *wanted); /* where the job has all its future memory locked: each page would be there at once */
    if (mprotect(at, *wanted, PROT_READ | PROT_WRITE)) {
        syscall(SYS_munmap, at, *wanted);
        return MAP_FAILED;
    }
    madvise(at, *wanted, MADV_DONTFORK);
    return at;
}

static void release(void *at, size_t bytes)
{
    if (is_in_room(at)) {
        mark_free(at, (bytes + PAGE - 1) & ~(size_t)(PAGE - 1));
        return;
    }
    syscall(SYS_munmap, at, (bytes + 4095) & ~(size_t)4095);
}

#endif

static void take(struct budget *budget, size_t bytes)
{
    budget->left -= bytes < budget->left ? bytes : budget->left;
    budget->taken += bytes;
    budget->most = budget->taken > budget->most ? budget->taken : budget->most;
}

static void give_back(struct budget *budget, size_t bytes)
{
    budget->left += bytes;
    budget->taken -= bytes < budget->taken ? bytes : budget->taken;
}

/* ``is_copied``: a forked child gets it, and so it cannot be in the room that is kept. */
static int grow_as(struct budget *budget, struct array *array, size_t bytes, int is_copied)
{
    if (bytes <= array->bytes)
        return 1;
    if (bytes - array->bytes + 4096 > budget->left) {
        budget->is_spent = 1;
        return 0;
    }
    size_t wanted = bytes;
    int is_there = array->at ? is_in_room(array->at) : budget->is_kept && !is_copied;
    void *at = is_there ? resize_in_room(array->at, array->bytes, wanted = (bytes + 4095) & ~(size_t)4095)
                        : resize(array->at, array->bytes, &wanted);
    if (at == MAP_FAILED) {
        budget->is_spent = 1;
        return 0;
    }
    if (wanted >= 4 << 20 && !is_there)
        madvise(at, wanted, MADV_HUGEPAGE);
    take(budget, wanted - array->bytes);
    array->at = at;
    array->bytes = wanted;
    return 1;
}

INTERNAL int grow(struct budget *budget, struct array *array, size_t bytes)
{
    return grow_as(budget, array, bytes, 0);
}

INTERNAL int grow_copied(struct budget *budget, struct array *array, size_t bytes)
{
    int is_first = !array->at;
    if (!grow_as(budget, array, bytes, 1))
        return 0;
    if (is_first && array->at)
        madvise(array->at, array->bytes, MADV_DOFORK);
    return 1;
}

INTERNAL void drop(struct budget *budget, struct array *array)
{
    if (array->at) {
        release(array->at, array->bytes);
        give_back(budget, array->bytes);
    }
    array->at = NULL;
    array->bytes = 0;
}

/* Gives back what of it is not needed. */
INTERNAL void shrink(struct budget *budget, struct array *array, size_t bytes)
{
#ifndef __SANITIZE_ADDRESS__
    size_t wanted = (bytes + 4095) & ~(size_t)4095;
    if (!wanted || wanted >= array->bytes)
        return;
    if (is_in_room(array->at))
        mark_free((char *)array->at + wanted, array->bytes - wanted);
    else if (mremap(array->at, array->bytes, wanted, 0) == MAP_FAILED)
        return;
    give_back(budget, array->bytes - wanted);
    array->bytes = wanted;
#else
    (void)budget, (void)array, (void)bytes;
#endif
}

/* Some of an array that has served, at its end, for another that need not be zero; nothing where it has not that much. */
INTERNAL void cut(struct array *from, struct array *to, size_t bytes)
{
#ifndef __SANITIZE_ADDRESS__
    size_t wanted = (bytes + 4095) & ~(size_t)4095, whole = (from->bytes + 4095) & ~(size_t)4095;
    if (!from->at || wanted >= whole)
        return;
    *to = (struct array){(char *)from->at + (whole - wanted), wanted};
    from->bytes = whole - wanted;
#else
    (void)from, (void)to, (void)bytes;
#endif
}

/* Has the kernel make all pages of it zero now, and not as each is touched. */
INTERNAL void touch(struct array *array)
{
    enum { POPULATE_WRITE = 23 }; /* of Linux 5.14 and later */
    if (!madvise(array->at, array->bytes & ~(size_t)4095, POPULATE_WRITE))
        return;
    for (size_t at = 0; at < array->bytes; at += 4096)
        ((volatile char *)array->at)[at] = 0;
}

/* What was grown elsewhere, of the same process; where the budget does not allow that it stays there. */
INTERNAL void move(struct budget *budget, struct array *to, struct array *from)
{
    if (from->bytes > budget->left)
        return;
    take(budget, from->bytes);
    *to = *from;
    *from = (struct array){0};
}
