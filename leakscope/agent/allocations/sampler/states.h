/* Which thread state of Python's is this thread's, and is it still there?
 *
 * A thread keeps the address of its state, but any other may delete that: PyGILState_GetThisThreadState then returns what
 * was freed. And most memory is asked for without the GIL (torch gives it back before it computes), when nobody holds the
 * state in place. So a state is read
 *   - if it is this thread's current one, as Python itself says: who holds the GIL has its state for as long as it does.
 *     Since 3.12 Python keeps that in a variable of the thread. Before, in one for all, and an address may have been
 *     given to another thread's state since: what the state says of its thread decides;
 *   - without the GIL if it was seen to be so, and its memory has not been freed since. All that is freed passes here
 *     (hooks.h), and a state that is read just now is not freed by who wants to: who reads it does so afterwards;
 *   - without the GIL if it is a variable of Python's, as the first thread's since 3.11, which is never freed.
 * Else the thread's Python functions are not told. Its frames are changed by no other thread: a state with frames may
 * not be deleted, since the thread has to go back to them.
 */

enum { STATES = 1 << 10, WAYS = 8, LEAST_STATE = 208, MOST_STATE = 1 << 13, CHECK_BYTES = 4096 };
#define IS_READ ((uint64_t)1)
#define IS_LEFT ((uint64_t)2) /* to who reads it, to be freed */
#define BLOCK (((uint64_t)1 << 48) - 16)

typedef void *(*state_function)(void);
typedef void (*free_function)(void *);
typedef size_t (*usable_function)(void *);

static free_function real_free;
static int is_of_libc;               /* who serves malloc */
static usable_function usable_bytes; /* of another one: malloc_usable_size, if it has that */

static state_function this_thread_or_null; /* PyGILState_GetThisThreadState; NULL: not any more */
static state_function current_state;       /* the state that holds the GIL */
static int readers;                        /* threads that look at Python's structures just now */
static uint64_t known_states[STATES];      /* memory of a state, how it is used, and above that which turn it was; 0: free */
static uint64_t state_offset;              /* in malloc's memory: Python's debug hooks put something before it */
static uint64_t state_thread;              /* in a state: which thread it is of; 0: not known, and no state is remembered */
static uintptr_t python_first, python_last; /* memory of the module that Python is, variables included */

struct own_state {
    uint64_t word; /* as in known_states, while nobody reads it; 0: none */
    void *at;
    uint32_t place;
    int is_static;
};

static __thread struct own_state own_state __attribute__((tls_model("initial-exec")));

static int is_since_312(void)
{
    return L.version >= VERSION(3, 12);
}

/* What stands before the memory of a state may be looked at where it is on the same page, which is there. */
static int is_head_there(uint64_t block)
{
    return block % 4096 >= 16;
}

/* By the header of malloc's, of memory that is there; 0: another's, that does not tell. */
static uint64_t malloced_bytes(uint64_t block)
{
    enum { IS_MAPPED = 2, FLAGS = 7 };
    if (!is_of_libc)
        return usable_bytes && block % 16 == 0 ? usable_bytes((void *)(uintptr_t)block) + 8 : 0;
    uint64_t head = word_at((void *)(uintptr_t)block, -(size_t)8);
    return block % 16 || head & IS_MAPPED ? 0 : head & ~(uint64_t)FLAGS;
}

static int is_variable_of_python(const void *at)
{
    return (uintptr_t)at >= python_first && (uintptr_t)at < python_last;
}

/* How far into malloc's memory that of Python's begins, tried on memory of its own; NONE: another hands it out. */
static uint32_t raw_offset(void)
{
    enum { BYTES = 300 };
    static const unsigned char before[8] = {'r', 0xfd, 0xfd, 0xfd, 0xfd, 0xfd, 0xfd, 0xfd}; /* of Python's debug hooks */
    void *(*raw_malloc)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "PyMem_RawMalloc");
    free_function raw_free = (free_function)dlsym(RTLD_DEFAULT, "PyMem_RawFree");
    char *memory = raw_malloc && raw_free ? raw_malloc(BYTES) : NULL;
    uintptr_t page = ((uintptr_t)memory - 32) & ~(page_bytes() - 1);
    unsigned char in_memory;
    uint32_t found = NONE;
    if (memory && !mincore((void *)page, 1, &in_memory)) {
        uint32_t offset = memcmp(memory - 8, before, 8) ? 0 : 16;
        uint64_t bytes = malloced_bytes((uintptr_t)memory - offset);
        found = bytes >= BYTES && bytes < BYTES + 64 ? offset : NONE;
    }
    if (memory)
        raw_free(memory);
    return found;
}

/* On the recorder's thread, from its own state, which is there: the thread runs in it. */
static void know_states(void)
{
    const char *state = this_thread_or_null ? this_thread_or_null() : NULL;
    state_thread = 0;
    state_offset = raw_offset();
    if (!state || !current_state || state_offset == NONE)
        return;
    uint64_t bytes = LEAST_STATE;
    if (is_variable_of_python(state))
        bytes = python_last - (uintptr_t)state;
    else if (is_head_there((uintptr_t)state - state_offset))
        bytes = malloced_bytes((uintptr_t)state - state_offset) - state_offset - 8;
    if (bytes > MOST_STATE)
        bytes = MOST_STATE;
    for (uint64_t at = 8; at + 8 <= bytes && !state_thread; at += 8)
        if (word_at(state, at) == (uint64_t)pthread_self())
            state_thread = at;
}

static uint32_t place_of_state(uint64_t block)
{
    return (uint32_t)(mixed(block) % STATES);
}

/* What becomes of memory that somebody frees. LEFT: its thread reads it just now, and frees it afterwards. */
enum { NO_STATE, GONE, LEFT };

static int let_state_go(const void *block)
{
    uint32_t first = place_of_state((uintptr_t)block);
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t *place = &known_states[(first + i) % STATES], word = __atomic_load_n(place, __ATOMIC_SEQ_CST);
        while ((word & BLOCK) == (uintptr_t)block) {
            uint64_t then = word & IS_READ ? word | IS_LEFT : 0;
            if (__atomic_compare_exchange_n(place, &word, then, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                return then ? LEFT : GONE;
        }
    }
    return 0;
}

/* With the lock: from now on no other thread frees this thread's state. 0: somebody has. */
static int begin_to_read(void)
{
    if (own_state.is_static) /* never freed; but it may be another thread's by now */
        return word_at(own_state.at, state_thread) == (uint64_t)pthread_self();
    uint64_t idle = own_state.word;
    if (idle && __atomic_compare_exchange_n(&known_states[own_state.place], &idle, idle | IS_READ, 0, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST))
        return 1;
    own_state.word = 0;
    return 0;
}

/* Returns what is to be freed, without the lock; mostly nothing. */
static void *end_to_read(void)
{
    if (own_state.is_static)
        return NULL;
    uint64_t idle = own_state.word, read = idle | IS_READ;
    if (__atomic_compare_exchange_n(&known_states[own_state.place], &read, idle, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return NULL;
    __atomic_store_n(&known_states[own_state.place], 0, __ATOMIC_SEQ_CST);
    own_state.word = 0;
    return read & IS_LEFT ? (void *)(uintptr_t)(idle & BLOCK) : NULL;
}

/* With the lock. Python says that ``state`` is current, or it is never freed, and it is what this thread has as its own:
 * from now on it is known when it is freed. Returns 1 with the state being read; ``*left``: as of end_to_read. */
static int know_own_state(void *state, void **left)
{
    static uint64_t turns;
    uintptr_t at = (uintptr_t)state;
    if (is_variable_of_python(state)) { /* the first thread's, since 3.11: one of Python's variables */
        own_state = (struct own_state){0, state, 0, word_at(state, state_thread) == (uint64_t)pthread_self()};
        return own_state.is_static;
    }
    if (at % 16 || (!is_head_there(at - state_offset) && L.version >= VERSION(3, 11)))
        return 0; /* an interpreter's first one may lie within the interpreter, and goes with that */
    uint64_t block = at - state_offset, word = block | turns++ << 48;
    uint32_t first = place_of_state(block), i = 0;
    for (uint64_t none = 0; i < WAYS; i++, none = 0)
        if (__atomic_compare_exchange_n(&known_states[(first + i) % STATES], &none, word | IS_READ, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            break;
    if (i == WAYS)
        return 0;
    own_state = (struct own_state){word, state, (first + i) % STATES, 0};
    uint8_t *known = &filter[slot_of(block)];
    if (*known < 255)
        __atomic_store_n(known, *known + 1, __ATOMIC_SEQ_CST);
    /* Nobody frees it any more without looking here: what is current now is there until end_to_read. */
    if (current_state() == state && word_at(state, state_thread) == (uint64_t)pthread_self() &&
        (!is_head_there(block) || malloced_bytes(block) - LEAST_STATE < MOST_STATE)) /* it begins there */
        return 1;
    *left = end_to_read();
    if (own_state.word && let_state_go((void *)(uintptr_t)block) == GONE && *known < 255)
        __atomic_store_n(known, *known - 1, __ATOMIC_SEQ_CST);
    own_state.word = 0;
    return 0;
}

struct reading {
    void *state; /* NULL: none may be read */
    int is_known, is_missing; /* it has one, of which nobody knows whether it is there */
};

/* With the lock. */
static struct reading begin_python(void **left)
{
    struct reading found = {NULL, 0, 0};
    __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
    state_function find = __atomic_load_n(&this_thread_or_null, __ATOMIC_SEQ_CST);
    void *state = find ? find() : NULL, *current = find && current_state ? current_state() : NULL;
    int is_there = state_thread && state && (state == current || is_variable_of_python(state));
    found.is_known = state && ((own_state.at == state && begin_to_read()) || (is_there && know_own_state(state, left)));
    if (found.is_known)
        found.state = state;
    else if (current && is_since_312())
        found.state = current;
    found.is_missing = state && !found.state;
    return found;
}

/* With the lock; what is ``left`` is to be freed without it. */
static void end_python(const struct reading *reading, void **left)
{
    if (reading->is_known)
        *left = end_to_read();
    __atomic_sub_fetch(&readers, 1, __ATOMIC_SEQ_CST);
}

/* Whether this thread has a state of which it is not known that it is there, and whether it has the GIL, so that it can
 * become known. Pointers are compared; nothing is read. */
enum { IS_KNOWN, IS_UNKNOWN, IS_CURRENT };

static int is_state_unknown(void)
{
    __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
    state_function find = __atomic_load_n(&this_thread_or_null, __ATOMIC_SEQ_CST);
    void *state = find && state_thread ? find() : NULL;
    int is_known = !state || is_variable_of_python(state) || (own_state.at == state && own_state.word);
    int found = is_known ? IS_KNOWN : current_state() == state ? IS_CURRENT : IS_UNKNOWN;
    __atomic_sub_fetch(&readers, 1, __ATOMIC_SEQ_CST);
    return found;
}

static void forget_states(void)
{
    for (int i = 0; i < STATES; i++)
        if (known_states[i]) /* pages that nobody wrote to stay so */
            known_states[i] = 0;
}
