/* Which allocations are drawn. */

enum { ASK_AGAIN = 1 << 20, ROOM = 1024 };

static uint64_t draws;

/* What the job may look at after any call of malloc, or has set: numpy and others read the flags, and who lets numbers
 * that are not exact end the program by SIGFPE means their own. */
struct kept {
    int error;
    fenv_t floats;
};

/* Not on the stack, which may be a small one. Used by who is busy: nobody else is meanwhile, of this thread. */
static __thread struct kept kept __attribute__((tls_model("initial-exec")));

static void keep(struct kept *kept)
{
    kept->error = errno;
    feholdexcept(&kept->floats);
}

static void give_back(const struct kept *kept)
{
    fesetenv(&kept->floats);
    errno = kept->error;
}

/* How many bytes go by until the next: exponential, of mean ``mean``. */
static int64_t next_draw(double mean)
{
    uint64_t x = mixed(__atomic_add_fetch(&draws, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED));
    double uniform = (double)((x >> 11) + 1) * (1.0 / 9007199254740993.0);
    return (int64_t)(-log(uniform) * mean) + 1;
}

static void remember(void *at, size_t bytes, int kind, double mean, uintptr_t caller, const uint64_t *stack_at)
{
    double chance = -expm1(-(double)bytes / mean);
    uint64_t key = mixed((uint64_t)caller ^ ((uintptr_t)stack_at & 0xfff) << 48 ^ (uint64_t)kind << 60);
    void *freed = NULL;
    if (!take_lock()) {
        missed_count++;
        return;
    }
    struct reading python = begin_python(&freed);
    unknown_count += (uint64_t)python.is_missing;
    int count = calls_of(python.state, &key);
    key |= 1;
    if (live_count >= MOST_LIVE)
        thin_out();
    uint32_t number = stack_number(key, count, kind);
    if (number == NONE)
        dropped_count++;
    else {
        uint32_t place = place_of((uintptr_t)at);
        if (samples[place].address) { /* it was freed where nobody saw it */
            remove_at(place);
            place = place_of((uintptr_t)at);
        }
        struct stack *stack = &stacks[number];
        samples[place] = (struct sample){(uintptr_t)at, bytes, (float)((double)bytes / chance), tick_s, number, (uint32_t)kind & 15,
                                         kind == MALLOC ? begin_life(bytes, (double)bytes / chance) : 0};
        uint8_t *known = &filter[slot_of((uintptr_t)at)];
        if (*known < 255)
            __atomic_store_n(known, *known + 1, __ATOMIC_RELAXED);
        change_live(stack, (double)samples[place].weight);
        stack->asked_bytes += (double)samples[place].weight;
        stack->live_count++;
        if (all_bytes > look_bytes)
            look_bytes = all_bytes;
        if (all_bytes > most_bytes)
            begin_peak();
        mapped_count += kind == MAPPED;
        live_count++;
        drawn_count++;
        note_request(bytes, stack);
        if (!stack->is_resolved)
            copy_native_stack(number, caller, stack_at);
    }
    end_python(&python, &freed);
    give_lock();
    if (freed)
        real_free(freed);
}

/* Between two draws, where the thread's state is not known and the thread has the GIL. */
static void look_for_state(void)
{
    void *freed = NULL;
    if (!take_lock())
        return;
    struct reading python = begin_python(&freed);
    end_python(&python, &freed);
    give_lock();
    if (freed)
        real_free(freed);
}

/* Whether there is room below for a draw, on the stack that a call stands on. A draw takes half a kilobyte, twice what
 * the call may take itself: what can be known to be scarcer is spared it. The main thread's grows. */
static __attribute__((noinline)) int has_room(void)
{
    struct bounds own = own_stack();
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (own.is_of_main || here < own.low || here >= own.high || here - own.low >= ROOM)
        return 1;
    left = CHECK_BYTES; /* soon, but not at each call */
    cramped_count++;
    return 0;
}

/* ``bytes`` were asked for, and nothing was left of what goes by. */
static __attribute__((noinline)) void draw(void *at, size_t bytes, int kind, uintptr_t caller, const uint64_t *stack_at)
{
    if (busy)
        return;
    if (!__atomic_load_n(&is_on, __ATOMIC_ACQUIRE)) {
        left = ASK_AGAIN; /* not yet, or no more */
        behind = 0;
        return;
    }
    busy = 1;
    left += behind;
    behind = 0;
    if (left < 0) {
        keep(&kept);
        if (left == -(int64_t)bytes) /* a new thread, which has drawn none yet */
            left = next_draw(rate) - (int64_t)bytes;
        if (left < 0) {
            left = next_draw(rate);
            if (at && bytes) /* nothing stands for nothing: its weight would be no number, and so would every sum */
                remember(at, bytes, kind, rate, caller, stack_at);
        }
        give_back(&kept);
    }
    int unknown = is_state_unknown();
    if (unknown == IS_CURRENT)
        look_for_state();
    else if (unknown && left > CHECK_BYTES) { /* each time some kilobytes were asked for, until it is */
        behind = left - CHECK_BYTES;
        left = CHECK_BYTES;
    }
    busy = 0;
}

/* On the job's call, where its flags have not been kept yet. Busy. */
static void take_out(uint32_t place)
{
    keep(&kept);
    remove_at(place);
    give_back(&kept);
}

/* What is freed, or may be. ``taken``, if any, gets what was known. LEFT: it must not be freed now, and will be. */
enum { UNKNOWN, KNOWN };

static __attribute__((noinline)) int forget(void *at, struct sample *taken)
{
    int error = errno, was_busy = busy, is_known = UNKNOWN, state = let_state_go(at);
    busy = 1;
    if (was_busy) /* what is freed in the midst of ours is ours, or a signal's: that may not free anything */
        ;
    else if (take_lock()) {
        uint32_t place = place_of((uintptr_t)at);
        is_known = samples[place].address ? KNOWN : UNKNOWN;
        if (is_known) {
            if (taken)
                *taken = samples[place];
            take_out(place);
        }
        uint8_t *known = &filter[slot_of((uintptr_t)at)];
        if (state != NO_STATE && *known > 0 && *known < 255)
            __atomic_store_n(known, *known - 1, __ATOMIC_RELAXED);
        give_lock();
    } else
        missed_count++;
    busy = was_busy;
    errno = error;
    return state == LEFT ? LEFT : is_known;
}

/* With the lock: what was taken out is there again. */
static void put_in(const struct sample *one)
{
    uint32_t place = place_of(one->address);
    if (samples[place].address || !stacks[one->stack].key)
        return;
    samples[place] = *one;
    samples[place].life = 0; /* it was said to end */
    uint8_t *known = &filter[slot_of(one->address)];
    if (*known < 255)
        __atomic_store_n(known, *known + 1, __ATOMIC_RELAXED);
    change_live(&stacks[one->stack], (double)one->weight);
    stacks[one->stack].live_count++;
    mapped_count += one->kind == MAPPED;
    live_count++;
}

/* It was not freed after all. */
static __attribute__((noinline)) void put_back(const struct sample *taken)
{
    if (busy)
        return; /* then it was not taken */
    busy = 1;
    keep(&kept);
    if (take_lock()) {
        put_in(taken);
        give_lock();
    }
    give_back(&kept);
    busy = 0;
}

/* Of what is mapped a part may go: an allocator maps more than it needs, and gives back what lies before and behind an
 * address that it likes. */
static __attribute__((noinline)) void forget_mapped(uintptr_t begin, uintptr_t end)
{
    if (busy)
        return;
    busy = 1;
    keep(&kept);
    if (take_lock()) {
        for (uint32_t at = 0; at < LIVE; at++)
            while (samples[at].address && samples[at].kind == MAPPED && samples[at].address < end &&
                   samples[at].address + samples[at].bytes > begin) {
                struct sample rest = samples[at];
                uintptr_t first = rest.address, last = first + rest.bytes;
                remove_at(at);
                rest.address = first < begin ? first : end;
                rest.bytes = first < begin ? begin - first : last > end ? last - end : 0;
                rest.weight *= (float)rest.bytes / (float)(last - first);
                if (rest.bytes)
                    put_in(&rest);
            }
        give_lock();
    }
    give_back(&kept);
    busy = 0;
}

/* Where much is asked for, or little: so that drawing costs some thousandths at most, whatever the job does. */
static void adapt(void)
{
    static uint64_t seen;
    static float since_s;
    double passed_s = (double)tick_s - (double)since_s;
    if (passed_s < 0.4)
        return;
    double per_s = (double)(drawn_count - seen) / passed_s;
    seen = drawn_count;
    since_s = tick_s;
    if (per_s > 1000 && rate < 64 * least_rate)
        rate *= 2;
    else if (per_s < 200 && rate > least_rate)
        rate /= 2;
}
