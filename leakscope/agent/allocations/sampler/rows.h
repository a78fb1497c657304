/* What is alive, for the recorder. */

static double settled[STACKS], variance[STACKS], much[STACKS];

static int by_how_much(const void *one, const void *other)
{
    double a = much[*(const uint16_t *)one], b = much[*(const uint16_t *)other];
    return a > b ? -1 : a < b;
}

/* Whether the process, or what is sampled of it, was more since the last telling than ever before; ``is_told``: from now
 * on that is known. */
static int has_new_most(int is_told)
{
    static long most_resident;
    static double most_sampled;
    struct rusage use;
    long resident = getrusage(RUSAGE_SELF, &use) ? 0 : use.ru_maxrss;
    int is_new = resident > most_resident || most_bytes > most_sampled;
    if (is_told && resident > most_resident)
        most_resident = resident;
    if (is_told && most_bytes > most_sampled)
        most_sampled = most_bytes;
    return is_new;
}

/* The stacks of a kind under which something is alive, or was as the process held most; the most first. */
static uint32_t put_in_order(uint16_t *order, int kind, int is_new_peak)
{
    enum { LEAST_PART = 16 }; /* of the peak: who had less, and has none, did not make it; who asked for an arena shares it */
    uint32_t count = 0;
    for (uint32_t i = 0; i < stack_count; i++) {
        const struct stack *one = &stacks[i];
        if (!one->key || one->kind != (uint32_t)kind)
            continue;
        double then = is_new_peak ? bytes_at_peak(one) : 0;
        much[i] = then > one->live_bytes ? then : one->live_bytes;
        if (one->live_count && kind != ARENA ? much[i] > 0 : much[i] > most_bytes / LEAST_PART)
            order[count++] = (uint16_t)i;
    }
    qsort(order, count, sizeof order[0], by_how_much);
    return count;
}

/* Of what was asked for, the part that is in memory: pages that nobody has written to take none. */
static double part_in_memory(uint64_t address, uint64_t bytes, uint64_t most_looks)
{
    enum { LEAST_BYTES = 1 << 16, AT_ONCE = 1024 };
    uint64_t page = page_bytes();
    unsigned char pages[AT_ONCE];
    uint64_t begin = (address + page - 1) & ~(page - 1), end = (address + bytes) & ~(page - 1), seen = 0, there = 0;
    if (bytes < LEAST_BYTES)
        return 1;
    /* Of what is very large some parts, evenly. */
    uint64_t every = (end - begin) / page / AT_ONCE / most_looks + 1;
    for (uint64_t at = begin; at < end; at += (uint64_t)AT_ONCE * page * every) {
        uint64_t count = (end - at) / page < AT_ONCE ? (end - at) / page : AT_ONCE;
        if (mincore((void *)at, count * page, pages))
            return 1; /* it is gone, or the kernel does not say */
        for (uint64_t i = 0; i < count; i++)
            there += pages[i] & 1;
        seen += count;
    }
    return seen ? (double)there / (double)seen : 1;
}

/* Of the samples of mappings how much is resident, by stack. What a library's own allocator maps is large, and little of it
 * may be written to: all of it is looked at, 1 ms a GiB. */
static double resident[STACKS];

static void look_at_mappings(void)
{
    enum { MOST = 512, MOST_LOOKS = 1 << 12 };
    static struct sample mapped[MOST];
    uint32_t count = 0;
    if (!take_lock())
        return;
    for (uint32_t at = 0; at < LIVE && count < MOST && count < mapped_count; at++)
        if (samples[at].address && samples[at].kind == MAPPED)
            mapped[count++] = samples[at];
    give_lock();
    memset(resident, 0, sizeof resident);
    for (uint32_t i = 0; i < count; i++)
        resident[mapped[i].stack] += part_in_memory(mapped[i].address, mapped[i].bytes, MOST_LOOKS) * (double)mapped[i].weight;
}

/* The stacks of this kind under which most is alive, or was as the process held most, each as "kind\tlive bytes\tof them
 * alive for settled_s\tstandard error of live bytes\tsamples\tasked bytes\tresident bytes, of mappings\tbytes at the peak, -1
 * where that is no news\tseconds since it\n", its native functions ("path\nfunction\0"), \1, those of Python ("file\nline\n
 * first line\nname\0") and \2, innermost first. Returns how many bytes, at most ``room``. Mappings are told last. */
EXPORT uint64_t sampler_rows(char *to, uint64_t room, int kind, uint32_t most, double settled_s)
{
    enum { LONGEST = (MOST_FRAMES + MOST_NATIVE) * 1000 + 200 };
    static uint16_t order[STACKS];
    uint64_t used = 0;
    busy = 1; /* sorting may ask for memory */
    if (kind == MAPPED)
        look_at_mappings();
    if (!take_lock()) {
        busy = 0;
        return 0;
    }
    memset(settled, 0, sizeof(double) * stack_count);
    memset(variance, 0, sizeof(double) * stack_count);
    for (uint32_t at = 0; at < LIVE; at++) {
        const struct sample *one = &samples[at];
        double weight = (double)one->weight, more = weight - (double)one->bytes;
        if (!one->address)
            continue;
        variance[one->stack] += more > 0 ? weight * more : 0; /* what is certain to be drawn has none */
        if (tick_s - one->born_s >= settled_s)
            settled[one->stack] += weight;
    }
    int is_new_peak = kind != OBJECT && has_new_most(kind == MAPPED);
    uint32_t count = put_in_order(order, kind, is_new_peak);
    double ago_s = (double)(now_ns() - peak_ns) / 1e9;
    for (uint32_t i = 0; i < count && i < most && used + LONGEST < room; i++) {
        const struct stack *one = &stacks[order[i]];
        used += (uint64_t)sprintf(to + used, "%u\t%.0f\t%.0f\t%.0f\t%u\t%.0f\t%.0f\t%.0f\t%.3f\n", one->kind, one->live_bytes,
                                  settled[order[i]], sqrt(variance[order[i]]), one->live_count, one->asked_bytes,
                                  resident[order[i]], is_new_peak ? bytes_at_peak(one) : -1, ago_s);
        for (uint32_t k = 0; k < one->native_count; k++)
            used += (uint64_t)sprintf(to + used, "%s", text_bytes + one->native[k]) + 1;
        to[used++] = 1;
        for (uint32_t k = 0; k < one->frame_count; k++)
            used += (uint64_t)sprintf(to + used, "%s", text_bytes + one->frames[k]) + 1;
        to[used++] = 2;
    }
    if (kind == MAPPED)
        begin_peak();
    give_lock();
    busy = 0;
    return used;
}

/* What happened since the last call, in order; at most EVENTS. From now on one of ``least`` samples is followed, or fewer
 * while there are too many. */
EXPORT uint64_t sampler_lives(struct event *to, uint32_t least)
{
    busy = 1;
    if (!take_lock()) {
        busy = 0;
        return 0;
    }
    uint64_t count = event_count;
    memcpy(to, events, count * sizeof *to);
    if (one_in < least)
        one_in = least;
    else if (birth_count < FEW_BIRTHS && one_in > least)
        one_in /= 2;
    forget_lives();
    give_lock();
    busy = 0;
    return count;
}

struct block { /* as the reader of the heap wants it */
    uint64_t address, bytes;
    double stands_for, variance;
};

static int by_address_of_block(const void *one, const void *other)
{
    uint64_t a = ((const struct block *)one)->address, b = ((const struct block *)other)->address;
    return a < b ? -1 : a > b;
}

/* Blocks of malloc that are alive, by rising addresses; returns how many. */
EXPORT uint64_t sampler_blocks(struct block *to, uint64_t most)
{
    uint64_t count = 0;
    busy = 1;
    if (!take_lock()) {
        busy = 0;
        return 0;
    }
    for (uint32_t at = 0; at < LIVE && count < most; at++)
        if (samples[at].address && samples[at].kind == MALLOC)
            to[count++] = (struct block){samples[at].address, samples[at].bytes, (double)samples[at].weight, 0};
    give_lock();
    qsort(to, count, sizeof *to, by_address_of_block);
    for (uint64_t i = 0; i < count; i++) {
        double part = part_in_memory(to[i].address, to[i].bytes, 16), more = to[i].stands_for - (double)to[i].bytes;
        to[i].variance = more > 0 ? to[i].stands_for * more * part * part : 0; /* what is certain to be drawn has none */
        to[i].stands_for *= part;
    }
    busy = 0;
    return count;
}

/* What malloc has in use, of all that was asked for since samples began. */
EXPORT double sampler_in_use_bytes(void)
{
    double bytes = 0;
    busy = 1;
    if (take_lock()) {
        for (uint32_t at = 0; at < LIVE; at++)
            bytes += samples[at].address && samples[at].kind == MALLOC ? (double)samples[at].weight : 0;
        give_lock();
    }
    busy = 0;
    return bytes;
}

/* How much more was alive at once since the last look than is now. */
EXPORT double sampler_burst_bytes(void)
{
    double bytes = 0;
    busy = 1;
    if (take_lock()) {
        bytes = look_bytes - all_bytes;
        look_bytes = all_bytes;
        give_lock();
    }
    busy = 0;
    return bytes;
}

struct figures {
    double rate;
    uint64_t drawn, dropped, missed;
    uint64_t live, words;
    uint64_t elsewhere, cramped, unknown; /* as in stacks.h: what was left out */
};

EXPORT void sampler_figures(struct figures *to)
{
    *to = (struct figures){rate, drawn_count, dropped_count, missed_count, live_count, word_count,
                            elsewhere_count, cramped_count, unknown_count};
}
