/* Arrays that grow, within what the caller allows.
 *
 * They are asked of the kernel itself: who answers for mmap may count what a program maps, as our own sampler does, and
 * would tell this as the program's. A forked child does not get them: it would keep what its parent frees. It gets what Python code of ours may just be
 * looking at, as the fork happens: that is what grow_copied is for.
 */

struct array {
    void *at;
    size_t bytes;
};

struct budget {
    size_t left;
    int is_spent;
};

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
#else
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
    syscall(SYS_munmap, at, (bytes + 4095) & ~(size_t)4095);
}
#endif

static int grow(struct budget *budget, struct array *array, size_t bytes)
{
    if (bytes <= array->bytes)
        return 1;
    if (bytes - array->bytes + 4096 > budget->left) {
        budget->is_spent = 1;
        return 0;
    }
    size_t wanted = bytes;
    void *at = resize(array->at, array->bytes, &wanted);
    if (at == MAP_FAILED) {
        budget->is_spent = 1;
        return 0;
    }
    if (wanted >= 4 << 20)
        madvise(at, wanted, MADV_HUGEPAGE);
    size_t more = wanted - array->bytes;
    budget->left -= more < budget->left ? more : budget->left;
    array->at = at;
    array->bytes = wanted;
    return 1;
}

static int grow_copied(struct budget *budget, struct array *array, size_t bytes)
{
    int is_first = !array->at;
    if (!grow(budget, array, bytes))
        return 0;
    if (is_first && array->at)
        madvise(array->at, array->bytes, MADV_DOFORK);
    return 1;
}

static void drop(struct budget *budget, struct array *array)
{
    if (array->at) {
        release(array->at, array->bytes);
        budget->left += array->bytes;
    }
    array->at = NULL;
    array->bytes = 0;
}

/* Gives back what of it is not needed. */
static void shrink(struct budget *budget, struct array *array, size_t bytes)
{
#ifndef __SANITIZE_ADDRESS__
    size_t wanted = (bytes + 4095) & ~(size_t)4095;
    if (!wanted || wanted >= array->bytes || mremap(array->at, array->bytes, wanted, 0) == MAP_FAILED)
        return;
    budget->left += array->bytes - wanted;
    array->bytes = wanted;
#else
    (void)budget, (void)array, (void)bytes;
#endif
}

/* Has the kernel make all pages of it zero now, and not as each is touched. */
static void touch(struct array *array)
{
    enum { POPULATE_WRITE = 23 }; /* of Linux 5.14 and later */
    if (!madvise(array->at, array->bytes & ~(size_t)4095, POPULATE_WRITE))
        return;
    for (size_t at = 0; at < array->bytes; at += 4096)
        ((volatile char *)array->at)[at] = 0;
}

/* What was grown elsewhere, of the same process; where the budget does not allow that it stays there. */
static void move(struct budget *budget, struct array *to, struct array *from)
{
    if (from->bytes > budget->left)
        return;
    budget->left -= from->bytes;
    *to = *from;
    *from = (struct array){0};
}
