/* Native memory that objects hold: sampled blocks of malloc, and which objects lead to them.
 *
 * What an object made in C keeps in C is behind pointers that nobody describes. So its own words are looked at, as a
 * conservative collector does, and what lies at those that point into memory of malloc, a few pointers far. Only what
 * leads to a sampled block counts: some hundred addresses, which nothing but a pointer to them is likely to equal. What
 * lies behind a pointer is read by the kernel, for which what is no memory is an error and no crash: other threads may
 * free it meanwhile. */
#include "reader.h"

enum { MOST_POINTERS = 4, WORDS_READ = 40, LEAST_WORDS = 3, MOST_WORDS = 512, AT_ONCE = 64 };

static struct known_blocks known;

INTERNAL void know_blocks(const struct known_blocks *blocks)
{
    known = *blocks;
}

/* The last of rising addresses, ``each`` bytes one behind the other, that is not above this one; -1: none. */
static int64_t last_below(const void *first, uint64_t count, size_t each, uint64_t address)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (word_at(first, middle * each) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low - 1;
}

static int64_t block_of(uint64_t address)
{
    int64_t i = last_below(known.at, known.count, sizeof(struct block), address);
    return i >= 0 && address < known.at[i].address + (known.at[i].bytes ? known.at[i].bytes : 1) ? i : -1;
}

static int is_in_ranges(uint64_t address)
{
    int64_t i = last_below(known.ranges, known.range_count, sizeof(struct range), address);
    return i >= 0 && address < known.ranges[i].end;
}

/* As far as is known: where no block is, nobody has looked for ranges. */
INTERNAL int is_in_file(uint64_t address)
{
    return known.range_count && !is_in_ranges(address);
}

/* How much of malloc's memory the sample stands for that lies there; mostly 0. */
INTERNAL double sampled_at(uint64_t address)
{
    int64_t block = block_of(address);
    return block < 0 ? 0 : known.at[block].stands_for;
}

/* Mappings that columns were seen in, and nothing of malloc's or Python's: those of an allocator that a library has for them.
 * It keeps them when the columns are gone. */
enum { MOST_POOLS = 64 };

static struct range pools[MOST_POOLS];
static uint32_t pool_count;

INTERNAL void note_pool(uint64_t address)
{
    int64_t i = last_below(known.ranges, known.range_count, sizeof(struct range), address);
    if (i < 0 || address >= known.ranges[i].end || pool_count == MOST_POOLS)
        return;
    for (uint32_t k = 0; k < pool_count; k++)
        if (pools[k].begin == known.ranges[i].begin)
            return;
    pools[pool_count++] = known.ranges[i];
}

static void drop_pool_at(uint64_t address)
{
    for (uint32_t k = 0; k < pool_count; k++)
        if (address >= pools[k].begin && address < pools[k].end)
            pools[k] = pools[--pool_count];
}

/* They may have been given back since, grown, or be one with a neighbour that others asked for. */
INTERNAL void look_at_pools(const struct graph *g)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < pool_count; k++) {
        int64_t i = last_below(known.ranges, known.range_count, sizeof(struct range), pools[k].begin);
        if (i >= 0 && known.ranges[i].begin == pools[k].begin)
            pools[count++] = known.ranges[i];
    }
    pool_count = count;
    for (uint64_t i = 0; pool_count && i < known.count; i++)
        drop_pool_at(known.at[i].address);
    for (uint64_t node = GROUPS; pool_count && node < g->nodes; node++)
        if (ARRAY(g, type, uint32_t)[node] >= FIRST_TYPE)
            drop_pool_at(ARRAY(g, address, uintptr_t)[node]);
}

/* Without the GIL: 1 ms a GiB. */
INTERNAL uint64_t pools_in_memory(void)
{
    enum { AT_ONCE = 4096 };
    unsigned char pages[AT_ONCE];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), there = 0;
    for (uint32_t k = 0; k < pool_count; k++)
        for (uint64_t at = pools[k].begin; at < pools[k].end; at += AT_ONCE * page) {
            uint64_t count = (pools[k].end - at) / page < AT_ONCE ? (pools[k].end - at) / page : AT_ONCE;
            for (uint64_t i = mincore((void *)(uintptr_t)at, count * page, pages) ? count : 0; i < count; i++)
                there += pages[i] & 1;
        }
    return there * page;
}

struct place { /* memory behind a pointer; block: its number, or -1 */
    uint64_t address;
    int64_t block;
    double stands_for; /* so many objects of which one was looked at */
    uint32_t node, depth, leads;
};

struct way { /* from an object, or from a place, to a place */
    uint32_t from, to, is_from_place;
};

struct scan {
    struct graph *g;
    struct array is_weighed, place, index, way;
    uint64_t place_count, way_count;
    uint32_t index_mask;
};

/* What is weighed where it is held: memory of containers and arrays, and objects themselves. */
static void claim(struct scan *scan, uint64_t address)
{
    int64_t block = address ? block_of(address) : -1;
    if (block >= 0)
        ((uint8_t *)scan->is_weighed.at)[block] = 1;
}

static void claim_all(struct scan *scan)
{
    enum { LEAST_OF_MALLOC = 512 };
    struct graph *g = scan->g;
    const uint32_t *types = g->type.at;
    const struct kind *kinds = g->kind.at;
    const uint64_t *own = g->own.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        const char *one = (const char *)ARRAY(g, address, uintptr_t)[node];
        uint8_t base = types[node] >= FIRST_TYPE ? kinds[types[node]].base : PLAIN;
        if (types[node] == TYPE_ARROW)
            claim(scan, (uint64_t)(uintptr_t)one);
        if (own[node] < LEAST_OF_MALLOC || types[node] < FIRST_TYPE)
            continue;
        claim(scan, (uint64_t)(uintptr_t)one);
        claim(scan, (uint64_t)(uintptr_t)one - 16); /* a word of the collector's comes first */
        static const uint8_t AT[] = {[DICT] = 32, [LIST] = 24, [SET] = 40, [BYTE_ARRAY] = 32, [ORDERED_DICT] = 32, [ARRAY] = 24,
                                     [NDARRAY] = 16, [C_DATA] = 16, [TEXT] = 56};
        if (base < sizeof AT && AT[base])
            claim(scan, word_at(one, AT[base]));
    }
}

/* The place of an address; NONE where there is no room for it. */
static uint32_t place_at(struct scan *scan, uint64_t address, int64_t block, uint32_t depth, double stands_for)
{
    struct place *places = scan->place.at;
    uint32_t *index = scan->index.at, slot = hash(address) & scan->index_mask;
    for (; index[slot]; slot = (slot + 1) & scan->index_mask)
        if (places[index[slot] - 1].address == address)
            return index[slot] - 1;
    if (scan->place_count * 2 > scan->index_mask ||
        !grow(&scan->g->budget, &scan->place, (scan->place_count + 1) * sizeof(struct place)))
        return NONE;
    places = scan->place.at;
    places[scan->place_count] = (struct place){address, block, stands_for, NONE, depth, block >= 0};
    index[slot] = (uint32_t)++scan->place_count;
    return index[slot] - 1;
}

static void look_at_word(struct scan *scan, uint32_t from, int is_from_place, uint64_t word, uint32_t depth, double stands_for)
{
    struct graph *g = scan->g;
    if (word & 7 || !word || !is_in_ranges(word))
        return;
    int64_t block = block_of(word);
    if (block >= 0 && ((uint8_t *)scan->is_weighed.at)[block])
        return;
    if (block < 0 && (depth == MOST_POINTERS || node_at(g, word) != NONE))
        return; /* an object is followed as an object */
    uint32_t to = place_at(scan, block >= 0 ? known.at[block].address : word, block, depth, stands_for);
    if (to == NONE || (is_from_place && to == from) ||
        !grow(&g->budget, &scan->way, (scan->way_count + 1) * sizeof(struct way)))
        return;
    ((struct way *)scan->way.at)[scan->way_count++] = (struct way){from, to, (uint32_t)is_from_place};
}

/* Types of which some object led to a block: of these all are looked at, of others some. They stay known, so that what a
 * holder has is not told differently from one snapshot to the next. */
enum { MOST_FRUITFUL = 256 };

static struct {
    uint64_t types[MOST_FRUITFUL];
    uint32_t count;
} fruitful;

static int is_fruitful(uint64_t type)
{
    for (uint32_t i = 0; i < fruitful.count; i++)
        if (fruitful.types[i] == type)
            return 1;
    return 0;
}

/* How many objects of a type are looked at. Fewer, once so many took too long. */
static const struct {
    uint64_t of_fruitful, of_others;
} SETTINGS[] = {{8192, 256}, {2048, 64}, {512, 16}, {128, 4}};

enum { MOST_SETTINGS = sizeof SETTINGS / sizeof *SETTINGS };

static int setting;

/* Of the words of all objects that may hold something in C. ``strides``: by type, of how many one is looked at; behind them
 * how many of each were met. What is held is often laid out by turns, so that numbers of nodes would choose all or none. */
static void look_at_objects(struct scan *scan, uint64_t *strides)
{
    struct graph *g = scan->g;
    const uint32_t *types = g->type.at;
    const struct kind *kinds = g->kind.at;
    uint64_t *met = strides + g->type_count;
    memset(strides, 0, g->type_count * 16);
    for (uint32_t node = GROUPS; node < g->nodes; node++)
        strides[types[node]] += types[node] >= FIRST_TYPE && kinds[types[node]].may_hold;
    for (uint32_t type = FIRST_TYPE; type < g->type_count; type++) {
        int is_one = strides[type] && is_fruitful((uintptr_t)kinds[type].type);
        uint64_t most = is_one ? SETTINGS[setting].of_fruitful : SETTINGS[setting].of_others;
        strides[type] = strides[type] ? (strides[type] - 1) / most + 1 : 0;
    }
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        uint64_t stride = types[node] >= FIRST_TYPE ? strides[types[node]] : 0;
        const object *one = (object *)ARRAY(g, address, uintptr_t)[node];
        if (!stride || met[types[node]]++ % stride || !count_of(one))
            continue;
        const type *cls = made_in_c(one->type);
        uint64_t words = cls ? (uint64_t)cls->basic_size / 8 : 0;
        for (uint64_t i = 2; i < words && i < MOST_WORDS; i++)
            look_at_word(scan, node, 0, word_at(one, 8 * i), 0, (double)stride);
    }
}

/* Of this thread: on a busy machine others run in between. */
INTERNAL uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

struct behind { /* what lies behind a pointer, and the two words before it */
    uint64_t words[WORDS_READ + 2];
};

/* How many words of a place are worth a look: it is the beginning of what malloc handed out, and was not freed since, as
 * far as the words tell that malloc keeps before it and behind it. Else 0: what is free has pointers to anything. */
static uint64_t words_of_block(uint64_t address, const struct behind *behind)
{
    enum { IN_USE_BEFORE = 1, MAPPED_ALONE = 2, FLAGS = 7 };
    uint64_t size = behind->words[1] & ~(uint64_t)FLAGS, next = size / 8 + 1, after;
    if (address & 15 || size < 32 || size & 15 || size >> MOST_BITS)
        return 0;
    if (!(behind->words[1] & MAPPED_ALONE)) {
        if (next < WORDS_READ + 2)
            after = behind->words[next];
        else if (!copy_from(address - 16 + 8 * next, &after, 8))
            return 0;
        if (!(after & IN_USE_BEFORE))
            return 0;
    }
    uint64_t words = (size - 8) / 8;
    return words < WORDS_READ ? words : WORDS_READ;
}

/* What lies at so many places, by one call of the kernel for as many as it can read. ``counts``: words of each. */
static void read_places(const struct place *places, const uint32_t *numbers, uint32_t count, struct behind *to, uint64_t *counts)
{
    struct iovec from[AT_ONCE];
    for (uint32_t i = 0; i < count; i++)
        from[i] = (struct iovec){(void *)(places[numbers[i]].address - 16), sizeof to[i]};
    for (uint32_t i = 0; i < count; i++) {
        struct iovec into = {to + i, (count - i) * sizeof to[i]};
        ssize_t got = process_vm_readv(getpid(), &into, 1, from + i, count - i, 0);
        uint32_t ends = i + (got > 0 ? (uint32_t)((size_t)got / sizeof to[i]) : 0);
        for (; i < ends; i++)
            counts[i] = words_of_block(places[numbers[i]].address, &to[i]);
        if (i < count) { /* not all of it can be read: it is the last of an arena, perhaps */
            memset(&to[i], 0, sizeof to[i]);
            int is_some = copy_from(places[numbers[i]].address - 16, to[i].words, 8 * (LEAST_WORDS + 2));
            counts[i] = is_some && words_of_block(places[numbers[i]].address, &to[i]) ? LEAST_WORDS : 0;
        }
    }
}

/* The nearest first. 0 where they are too many. */
static int look_behind(struct scan *scan, uint64_t most_ns)
{
    uint64_t ends = cpu_ns() + most_ns;
    for (uint32_t next = 0; next < scan->place_count;) {
        struct behind behind[AT_ONCE];
        uint64_t counts[AT_ONCE];
        uint32_t numbers[AT_ONCE], count = 0;
        const struct place *places = scan->place.at;
        for (; next < scan->place_count && count < AT_ONCE; next++)
            if (places[next].block < 0)
                numbers[count++] = next;
        read_places(places, numbers, count, behind, counts);
        for (uint32_t i = 0; i < count; i++) {
            struct place place = ((struct place *)scan->place.at)[numbers[i]];
            for (uint64_t k = 0; k < counts[i]; k++)
                look_at_word(scan, numbers[i], 1, behind[i].words[k + 2], place.depth + 1, place.stands_for);
        }
        if (cpu_ns() > ends || scan->place_count * 2 > scan->index_mask)
            return 0;
    }
    return 1;
}

/* What leads to a block, over other places. Whether a type turned out to be fruitful of which not all were looked at. */
static int find_ways(struct scan *scan, const uint64_t *strides)
{
    struct graph *g = scan->g;
    struct place *places = scan->place.at;
    const struct way *ways = scan->way.at;
    int is_new = 0;
    for (int is_done = 0; !is_done;) {
        is_done = 1;
        for (uint64_t k = scan->way_count; k-- > 0;)
            if (ways[k].is_from_place && places[ways[k].to].leads && !places[ways[k].from].leads) {
                places[ways[k].from].leads = 1;
                is_done = 0;
            }
    }
    for (uint64_t k = 0; k < scan->way_count; k++) {
        uint32_t type = ways[k].is_from_place ? TYPE_NONE : ARRAY(g, type, uint32_t)[ways[k].from];
        uint64_t address = (uintptr_t)ARRAY(g, kind, struct kind)[type].type;
        if (!type || !places[ways[k].to].leads || is_fruitful(address) || fruitful.count == MOST_FRUITFUL)
            continue;
        fruitful.types[fruitful.count++] = address;
        is_new |= strides[type] > 1;
    }
    return is_new;
}

/* A node for each place that leads to a block, and the edges between them. */
static int add_places(struct scan *scan)
{
    struct graph *g = scan->g;
    struct place *places = scan->place.at;
    const struct way *ways = scan->way.at;
    uint64_t before = g->nodes, count = 0, added = 0;
    struct array array = {0};
    if (!grow(&g->budget, &array, (scan->way_count + 1) * sizeof(struct pair)))
        return 0;
    struct pair *pairs = array.at;
    for (uint64_t i = 0; i < scan->place_count; i++)
        added += places[i].leads;
    int is_done = grow(&g->budget, &g->variance, (added + 1) * sizeof(struct doubt));
    for (uint64_t i = 0; is_done && i < scan->place_count; i++) {
        if (!places[i].leads)
            continue;
        uint32_t node = places[i].node = node_of(g, places[i].address, TYPE_BLOCK);
        is_done = node != NONE;
        if (!is_done || node < before)
            continue;
        const struct block *block = places[i].block >= 0 ? &known.at[places[i].block] : NULL;
        double times = places[i].stands_for;
        ARRAY(g, own, uint64_t)[node] = block ? (uint64_t)(block->stands_for * times) : 0;
        double chosen = block ? block->stands_for * block->stands_for * times * (times - 1) : 0; /* it, of so many objects */
        double variance = block ? block->variance * times * times + chosen : 0;
        ARRAY(g, variance, struct doubt)[node - before] = (struct doubt){node, variance};
        ARRAY(g, references, uint32_t)[node] = 0;
    }
    for (uint64_t k = 0; is_done && k < scan->way_count; k++) {
        uint32_t from = ways[k].is_from_place ? places[ways[k].from].node : ways[k].from, to = places[ways[k].to].node;
        if (from != NONE && to != NONE && from != to && to >= before)
            pairs[count++] = (struct pair){from, to};
    }
    g->block_count = (uint32_t)(g->nodes - before);
    for (uint64_t node = before; node < g->nodes; node++)
        ARRAY(g, begin, uint32_t)[node + 1] = (uint32_t)g->edges;
    is_done = is_done && insert_all(g, pairs, count);
    drop(&g->budget, &array);
    return is_done;
}

/* ``began_ns``: when reading began, of which it takes a part at most. 0: the graph is no good any more. */
INTERNAL int find_blocks(struct graph *g, uint64_t began_ns)
{
    enum { MOST_PASSES = 4, PART = 8 };
    struct scan scan = {.g = g, .index_mask = (1 << 17) - 1};
    struct array strides = {0};
    uint64_t part_ns = (cpu_ns() - began_ns) / PART, most_ns = part_ns > known.least_ns ? part_ns : known.least_ns;
    int is_done = 1, is_seen = 0;
    if (!known.count || !known.range_count)
        return 1;
    if (grow(&g->budget, &scan.is_weighed, known.count) && grow(&g->budget, &scan.index, (scan.index_mask + 1ul) * 4) &&
        grow(&g->budget, &strides, g->type_count * 16)) {
        memset(scan.is_weighed.at, 0, known.count);
        claim_all(&scan);
        for (int pass = 0, is_new = 1; pass < MOST_PASSES && is_new; pass++) {
            memset(scan.index.at, 0, (scan.index_mask + 1ul) * 4);
            scan.place_count = scan.way_count = 0;
            look_at_objects(&scan, strides.at);
            is_seen = look_behind(&scan, most_ns);
            is_new = is_seen ? find_ways(&scan, strides.at) : setting + 1 < MOST_SETTINGS;
            setting += !is_seen && is_new;
        }
        is_done = !is_seen || add_places(&scan);
    }
    drop(&g->budget, &strides);
    drop(&g->budget, &scan.is_weighed);
    drop(&g->budget, &scan.place);
    drop(&g->budget, &scan.index);
    drop(&g->budget, &scan.way);
    known = (struct known_blocks){0};
    return is_done;
}
