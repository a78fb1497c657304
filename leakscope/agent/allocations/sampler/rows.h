/* What is alive, for the recorder. */

static double settled[STACKS], variance[STACKS];

static int by_live_bytes(const void *one, const void *other)
{
    double a = stacks[*(const uint16_t *)one].live_bytes, b = stacks[*(const uint16_t *)other].live_bytes;
    return a > b ? -1 : a < b;
}

/* The stacks of this kind under which most is alive, each as "kind\tlive bytes\tof them alive for settled_s\tstandard
 * error of live bytes\tsamples\tasked bytes\n", its native functions ("path\nfunction\0"), \1, those of Python
 * ("file\nline\nfirst line\nname\0") and \2, innermost first. Returns how many bytes, at most ``room``. */
EXPORT uint64_t sampler_rows(char *to, uint64_t room, int kind, uint32_t most, double settled_s)
{
    enum { LONGEST = (MOST_FRAMES + MOST_NATIVE) * 1000 + 200 };
    static uint16_t order[STACKS];
    uint64_t used = 0;
    uint32_t count = 0;
    busy = 1; /* sorting may ask for memory */
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
    for (uint32_t i = 0; i < stack_count; i++)
        if (stacks[i].key && stacks[i].kind == (uint32_t)kind && stacks[i].live_count)
            order[count++] = (uint16_t)i;
    qsort(order, count, sizeof order[0], by_live_bytes);
    for (uint32_t i = 0; i < count && i < most && used + LONGEST < room; i++) {
        const struct stack *one = &stacks[order[i]];
        used += (uint64_t)sprintf(to + used, "%u\t%.0f\t%.0f\t%.0f\t%u\t%.0f\n", one->kind, one->live_bytes, settled[order[i]],
                                  sqrt(variance[order[i]]), one->live_count, one->asked_bytes);
        for (uint32_t k = 0; k < one->native_count; k++)
            used += (uint64_t)sprintf(to + used, "%s", text_bytes + one->native[k]) + 1;
        to[used++] = 1;
        for (uint32_t k = 0; k < one->frame_count; k++)
            used += (uint64_t)sprintf(to + used, "%s", text_bytes + one->frames[k]) + 1;
        to[used++] = 2;
    }
    give_lock();
    busy = 0;
    return used;
}

struct figures {
    double rate;
    uint64_t drawn, dropped, missed;
    uint64_t live, words;
};

EXPORT void sampler_figures(struct figures *to)
{
    *to = (struct figures){rate, drawn_count, dropped_count, missed_count, live_count, word_count};
}
