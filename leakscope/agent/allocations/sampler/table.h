/* What is remembered: samples by address, stacks, and the texts of frames. A lock of ours for all of it. */

enum { LIVE = 1 << 14, MOST_LIVE = LIVE / 4 * 3, STACKS = 1 << 12, STACK_INDEX = 1 << 13, FRAMES = 1 << 13 };
enum { FRAME_INDEX = 1 << 14, TEXT_BYTES = 1 << 20, FILTER = 1 << 16, MOST_FRAMES = 48, MOST_NATIVE = 8 };
enum { MALLOC, MAPPED, OBJECT, ARENA, KINDS };
#define FAR (INT64_MAX / 2)

struct sample {
    uintptr_t address; /* 0: free */
    uint64_t bytes;
    float weight; /* bytes that it stands for */
    float born_s;
    uint32_t stack;
    uint32_t kind : 4, life : 28; /* as in lives.h; 0: not followed */
};

struct stack {
    uint64_t key; /* 0: free */
    double live_bytes, asked_bytes;
    double peak_bytes; /* alive at the peak of that number; where that is an earlier one, nothing changed since the last */
    uint32_t peak_number;
    uint32_t live_count;
    uint32_t frame_count, native_count;
    uint16_t kind, is_resolved;
    uint32_t tries; /* to copy its native calls */
    uintptr_t caller; /* the innermost of these */
    uint32_t frames[MOST_FRAMES]; /* innermost first: numbers of texts */
    uint32_t native[MOST_NATIVE]; /* the same, of native functions */
};

struct text {
    uint64_t key; /* 0: free */
    uint32_t at;
};

static struct sample samples[LIVE];
static uint8_t filter[FILTER]; /* how many samples have such an address, up to 255: then for ever */
static struct stack stacks[STACKS];
static uint16_t stack_index[STACK_INDEX]; /* number + 1 */
static struct text texts[FRAME_INDEX];
static char text_bytes[TEXT_BYTES];
static uint32_t text_used = 1, text_count;
static uint32_t live_count, stack_count, mapped_count;
static uint64_t drawn_count, dropped_count, missed_count;
static double all_bytes, most_bytes; /* alive, but for objects: now, and at the peak since the last telling */
static double look_bytes;            /* the most since the last look */
static uint32_t peak_count;
static int64_t peak_ns;
static double least_rate, rate;
static float tick_s;
static int is_on;
static int lock_word;

static __thread int64_t left __attribute__((tls_model("initial-exec")));
static __thread int64_t behind __attribute__((tls_model("initial-exec"))); /* from where ``left`` ends to the next draw */
static __thread int busy __attribute__((tls_model("initial-exec")));

/* Held for microseconds. Who cannot get it in a while (its holder was stopped, or forks for long) goes on without: 0.
 * From then on nobody waits, until it can be had again: the job must not be slowed by what it does not need. */
static int take_lock(void)
{
    static int is_stuck;
    int most = __atomic_load_n(&is_stuck, __ATOMIC_RELAXED) ? 1 : 100000;
    for (int tries = 0; tries < most; tries++) {
        int free = 0;
        if (__atomic_compare_exchange_n(&lock_word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            __atomic_store_n(&is_stuck, 0, __ATOMIC_RELAXED);
            return 1;
        }
        if (tries % 64 == 63)
            sched_yield();
        else
            let_others_go_on();
    }
    __atomic_store_n(&is_stuck, 1, __ATOMIC_RELAXED);
    return 0;
}

static void give_lock(void)
{
    __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
}

/* Held while modules are walked through, and by who forks. The loader's own lock for that (dl_load_write_lock) is no
 * concern of glibc's fork: a child made meanwhile would find it held for ever, and wait at its next dlopen. */
static int walk_lock_word;

static int take_walk_lock(void)
{
    enum { MOST_WAITS = 10000, WAIT_US = 100 };
    for (int waits = 0; waits < MOST_WAITS; waits++) {
        int free = 0;
        if (__atomic_compare_exchange_n(&walk_lock_word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
        usleep(WAIT_US);
    }
    return 0;
}

static void give_walk_lock(void)
{
    __atomic_store_n(&walk_lock_word, 0, __ATOMIC_RELEASE);
}

/* dl_iterate_phdr; for no thread of the job's, which may fork where it stands. */
static void walk_modules(int (*visit)(struct dl_phdr_info *, size_t, void *), void *to)
{
    while (!take_walk_lock())
        ; /* who forks gives it back */
    dl_iterate_phdr(visit, to);
    give_walk_lock();
}

static uint32_t slot_of(uintptr_t address)
{
    return (uint32_t)(address >> 4) * 0x9e3779b1u >> 16;
}

/* With the lock. What is alive under a stack changes by so much: as the peak saw it, it is kept. */
static void change_live(struct stack *stack, double bytes)
{
    if (stack->peak_number != peak_count) {
        stack->peak_number = peak_count;
        stack->peak_bytes = stack->live_bytes;
    }
    stack->live_bytes += bytes;
    all_bytes += stack->kind == OBJECT ? 0 : bytes;
}

static double bytes_at_peak(const struct stack *stack)
{
    return stack->peak_number == peak_count ? stack->peak_bytes : stack->live_bytes;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* With the lock. What is alive now is the most since the last telling. */
static void begin_peak(void)
{
    peak_ns = now_ns();
    most_bytes = all_bytes;
    peak_count++;
}

static void forget_all(void)
{
    forget_lives();
    memset(samples, 0, sizeof samples);
    memset(filter, 0, sizeof filter);
    memset(stacks, 0, sizeof(struct stack) * stack_count);
    memset(stack_index, 0, sizeof stack_index);
    live_count = stack_count = mapped_count = 0;
    all_bytes = most_bytes = look_bytes = 0;
}

static void count_out(struct sample *one)
{
    struct stack *stack = &stacks[one->stack];
    stack->live_count--;
    change_live(stack, -(stack->live_count ? (double)one->weight : stack->live_bytes));
    uint8_t *known = &filter[slot_of(one->address)];
    if (*known < 255)
        __atomic_store_n(known, *known - 1, __ATOMIC_RELAXED);
    mapped_count -= one->kind == MAPPED;
    live_count--;
}

/* Closes the gap, so that every search may end at the first free place. */
static void remove_at(uint32_t at)
{
    end_life(samples[at].life, 1);
    count_out(&samples[at]);
    for (uint32_t next = (at + 1) % LIVE; samples[next].address; next = (next + 1) % LIVE) {
        uint32_t home = slot_of(samples[next].address) % LIVE;
        if ((next - home) % LIVE >= (next - at) % LIVE) {
            samples[at] = samples[next];
            at = next;
        }
    }
    samples[at].address = 0;
}

static uint32_t place_of(uintptr_t address)
{
    uint32_t at = slot_of(address) % LIVE;
    while (samples[at].address && samples[at].address != address)
        at = (at + 1) % LIVE;
    return at;
}

/* With the lock. Half of them are enough: each that stays stands for twice as much. From now on fewer are drawn: were new
 * ones as fine as before, old ones would be halved again and again until few stood for all that is old. */
static void thin_out(void)
{
    static uint64_t turn;
    least_rate *= 2;
    if (rate < least_rate)
        rate = least_rate;
    for (uint32_t at = 0; at < LIVE; at++) {
        struct sample *one = &samples[at];
        if (!one->address)
            continue;
        if (mixed(++turn * 0x9e3779b97f4a7c15ull) & 1) {
            change_live(&stacks[one->stack], (double)one->weight);
            one->weight *= 2;
        } else {
            end_life(one->life, 0);
            one->life = 0;
            remove_at(at--); /* another may have come to its place */
        }
    }
}

/* Stacks under which nothing is alive make room for others. */
static void drop_idle_stacks(void)
{
    memset(stack_index, 0, sizeof stack_index);
    for (uint32_t i = 0; i < stack_count; i++) {
        struct stack *one = &stacks[i];
        if (!one->live_count)
            one->key = 0;
        if (!one->key)
            continue;
        uint32_t at = (uint32_t)one->key % STACK_INDEX;
        while (stack_index[at])
            at = (at + 1) % STACK_INDEX;
        stack_index[at] = (uint16_t)(i + 1);
    }
}
