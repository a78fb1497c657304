/* When sampled memory of malloc was asked for and freed, by which threads: in order, until the recorder fetches it. */

enum { EVENTS = 1 << 13, MOST_BIRTHS = EVENTS / 4 * 3, FEW_BIRTHS = EVENTS / 64, MOST_ORDER = (1 << 28) - 1 };

struct event {
    uint64_t bytes; /* asked for; 0: it ends */
    float weight;   /* bytes that it stands for */
    uint32_t order; /* from 1: of two events the later one has more */
    uint32_t life;  /* the order of its beginning */
    uint32_t thread; /* from 1, the main one; of an end 0: from now on it is not known whether it is there */
};

static struct event events[EVENTS];
static uint32_t event_count, event_order, birth_count;
static uint32_t one_in = 1; /* of the samples is followed: a power of two */
static uint32_t thread_count;
static __thread uint32_t thread_number __attribute__((tls_model("initial-exec")));

static uint32_t own_number(void)
{
    if (!thread_number)
        thread_number = getpid() == gettid() ? 1 : 2 + __atomic_fetch_add(&thread_count, 1, __ATOMIC_RELAXED);
    return thread_number;
}

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* With the lock. 0: it is not followed. */
static uint32_t begin_life(uint64_t bytes, double weight)
{
    static uint64_t turns;
    if (mixed(++turns * 0x9e3779b97f4a7c15ull) & (one_in - 1))
        return 0;
    if (birth_count >= MOST_BIRTHS || event_count >= EVENTS || event_order >= MOST_ORDER) {
        one_in *= one_in < 1u << 20 ? 2 : 1; /* until the next look: too many at once */
        return 0;
    }
    birth_count++;
    event_order++;
    events[event_count++] = (struct event){bytes, (float)(weight * one_in), event_order, event_order, own_number()};
    return event_order;
}

/* With the lock. */
static void end_life(uint32_t life, int is_seen)
{
    if (life && event_count < EVENTS && event_order < MOST_ORDER)
        events[event_count++] = (struct event){0, 0, ++event_order, life, is_seen ? own_number() : 0};
}

static void forget_lives(void)
{
    event_count = birth_count = 0;
}
