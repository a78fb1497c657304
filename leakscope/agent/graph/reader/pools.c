/* Python's allocator of small objects.
 *
 * It divides arenas into pools of blocks of one size each. Where it keeps the list of its arenas nobody tells; but in each
 * pool stands which one of the list it is in, so the list is known when it is found.
 */
#include "reader.h"

struct pool_header { /* as in Objects/obmalloc.c, of every CPython that this is for */
    uint32_t blocks, unused; /* in use */
    uint64_t free_block, next, before;
    uint32_t arena, size_class, next_offset, last_offset;
};

_Static_assert(sizeof(struct pool_header) == 48 && sizeof(struct arena_of_python) == 48, "as in Objects/obmalloc.c");

enum { MOST_PLACES = 8, LEAST_ARENAS = 16, SIZE_CLASSES = 32, POOLS_ASKED = 48, SMALL_BYTES = 512, LOOSE_BYTES = 2 << 20 };

static uint64_t places_of_list[MOST_PLACES]; /* where a pointer to the list of arenas stands: one of these */

static int place_count;

static uint32_t arena_limit = LEAST_ARENAS; /* so long the list is: twice as long each time that it grew */

INTERNAL uint64_t pool_size(void)
{
    return L.version < VERSION(3, 10) ? 4096 : 16384;
}

static uint64_t arena_size(void)
{
    return L.version < VERSION(3, 10) ? 256 << 10 : 1 << 20;
}

/* The pool that an object lies in, if that looks like one. */
static int pool_around(uint64_t address, struct pool_header *pool)
{
    if (!copy_from(address & ~(pool_size() - 1), pool, sizeof *pool) || pool->size_class >= SIZE_CLASSES)
        return 0;
    uint32_t block = (pool->size_class + 1) * 16;
    return pool->last_offset == pool_size() - block && pool->blocks && pool->blocks <= (pool_size() - 48) / block &&
           pool->arena < 1 << 24;
}

static int is_arena(const struct arena_of_python *arena)
{
    return arena->address && arena->next_pool >= arena->address && arena->next_pool <= arena->address + arena_size() &&
           arena->free_pools <= arena->all_pools && arena->all_pools <= arena_size() / pool_size() &&
           arena->all_pools + 1 >= arena_size() / pool_size();
}

static int is_list_for(uint64_t list, uint32_t number, uint64_t object_address)
{
    struct arena_of_python arena;
    return copy_from(list + number * sizeof arena, &arena, sizeof arena) && is_arena(&arena) &&
           object_address - arena.address < arena_size();
}

INTERNAL int find_arenas(uint64_t begin, uint64_t end, const uint64_t *known, uint64_t count)
{
    enum { AT_ONCE = 512 };
    uint64_t words[AT_ONCE], first_of = 0;
    uint32_t numbers[64];
    uint64_t pools = 0, addresses[64];
    for (uint64_t i = 0; i < count && pools < 64; i++) {
        struct pool_header pool;
        if (pool_around(known[i], &pool)) {
            addresses[pools] = known[i];
            numbers[pools++] = pool.arena;
        }
    }
    place_count = 0;
    if (pools * 2 <= count)
        return 0; /* Python takes them from elsewhere */
    for (uint64_t at = begin; at < end; at += sizeof words) {
        size_t bytes = end - at < sizeof words ? end - at : sizeof words;
        if (!copy_from(at, words, bytes))
            continue;
        for (size_t i = 0; i < bytes / 8 && place_count < MOST_PLACES; i++) {
            uint64_t list = words[i];
            if (list < 4096 || list & 7 || list >> 48 || (list >= begin && list < end))
                continue;
            int is_right = list == first_of || is_list_for(list, numbers[0], addresses[0]);
            for (uint64_t k = 1; is_right && k < pools; k++)
                is_right = is_list_for(list, numbers[k], addresses[k]);
            if (is_right) {
                first_of = list;
                places_of_list[place_count++] = at + i * 8;
            }
        }
    }
    return place_count;
}

/* Whether the list goes on from ``arena_limit`` to twice that: an arena there has pools that say so. Memory behind the list
 * has none: of an older, shorter list they would have other numbers. */
static int has_more(uint64_t list)
{
    struct arena_of_python arena;
    for (uint32_t i = arena_limit; i < arena_limit * 2; i++) {
        struct pool_header pool;
        if (!copy_from(list + i * sizeof arena, &arena, sizeof arena))
            return 0;
        if (is_arena(&arena) && copy_from((arena.address + pool_size() - 1) & ~(pool_size() - 1), &pool, sizeof pool) &&
            pool.arena == i && pool.size_class < SIZE_CLASSES)
            return 1;
    }
    return 0;
}

/* The list, tried on objects of the graph; 0 where none is known. */
static uint64_t list_of_arenas(const struct graph *g)
{
    const uintptr_t *address = g->address.at;
    const uint64_t *own = g->own.at;
    const uint32_t *types = g->type.at;
    uint64_t asked[POOLS_ASKED];
    uint32_t numbers[POOLS_ASKED], pools = 0;
    for (uint64_t i = 0; place_count && i < POOLS_ASKED; i++) {
        struct pool_header pool;
        uint64_t node = GROUPS + (g->nodes - GROUPS) * i / POOLS_ASKED;
        if (types[node] < FIRST_TYPE || own[node] > SMALL_BYTES || !pool_around(address[node], &pool))
            continue;
        asked[pools] = address[node];
        numbers[pools++] = pool.arena;
    }
    for (int i = 0; pools && i < place_count; i++) {
        uint64_t list = word_at((void *)places_of_list[i], 0);
        uint32_t right = 0;
        for (uint32_t k = 0; k < pools; k++)
            right += (uint32_t)is_list_for(list, numbers[k], asked[k]);
        if (right < pools)
            continue;
        while (arena_limit < 1u << 20 && has_more(list))
            arena_limit *= 2;
        return list;
    }
    return 0;
}

static uint32_t type_known(const struct graph *g, const type *cls)
{
    const struct kind *kinds = g->kind.at;
    const uint32_t *table = g->kind_table.at;
    for (uint32_t slot = hash((uintptr_t)cls) & g->kind_mask; table[slot] != NONE; slot = (slot + 1) & g->kind_mask)
        if (kinds[table[slot]].type == cls)
            return table[slot];
    return NONE;
}

/* Objects in the blocks of a pool that nothing refers to and the collector does not know: strings, numbers, bytes. */
static void find_loose(struct graph *g, const struct pool *pool, uint64_t times)
{
    struct pool_header header;
    memcpy(&header, (void *)pool->address, sizeof header);
    uint64_t is_free[1024 / 64] = {0};
    uint32_t capacity = (uint32_t)(pool_size() - 48) / pool->block_bytes, freed = 0;
    for (uint64_t at = header.free_block; at && freed <= capacity; freed++) {
        uint64_t offset = at - pool->address - 48;
        if (at < pool->address + 48 || offset % pool->block_bytes || offset / pool->block_bytes >= capacity)
            return;
        is_free[offset / pool->block_bytes / 64] |= (uint64_t)1 << offset / pool->block_bytes % 64;
        at = word_at((void *)at, 0);
    }
    struct loose *loose = g->loose.at;
    const struct kind *kinds = g->kind.at;
    for (uint32_t i = 0; i < capacity; i++) {
        uint64_t at = pool->address + 48 + (uint64_t)i * pool->block_bytes;
        if (at - pool->address >= header.next_offset)
            return; /* never used */
        if (is_free[i / 64] >> i % 64 & 1 || pool->block_bytes < 16)
            continue;
        /* Of those that the collector knows also dicts and tuples that it has put aside: the word before them says so. */
        int is_untracked = word_at((void *)at, 0) == 0 && pool->block_bytes >= 48;
        const object *one = (object *)(is_untracked ? at + 16 : at);
        uint64_t count = (uint64_t)one->reference_count;
        if (!count || count >> 28)
            continue;
        uint32_t type = type_known(g, one->type);
        if (type == NONE || kinds[type].is_gc != is_untracked || node_at(g, (uintptr_t)one) != NONE ||
            (kinds[type].base == TEXT && (pool->block_bytes < L.text_bytes || word_at(one, 32) & 3)))
            continue;
        loose[type].count += times;
        loose[type].bytes += times * pool->block_bytes;
    }
}

/* With the GIL: which pools are in use, and by how many blocks. Of a graph that is sampled how many bytes alone: of very many
 * arenas some stand for the others. */
INTERNAL void read_pools(struct graph *g)
{
    enum { MOST_SAMPLED = 256 };
    uint64_t list = list_of_arenas(g), count = 0, looked = 0;
    uint32_t every = g->is_sampled ? arena_limit / MOST_SAMPLED + 1 : 1;
    if (!list || !grow(&g->budget, &g->loose, g->type_count * sizeof(struct loose)) ||
        !grow(&g->budget, &g->arena, arena_limit * sizeof(struct arena_of_python)))
        return;
    struct arena_of_python *arenas = g->arena.at;
    memcpy(arenas, (void *)list, arena_limit * sizeof *arenas);
    for (uint32_t i = 0; i < arena_limit; i++) {
        if (!is_arena(&arenas[i])) {
            memset(&arenas[i], 0, sizeof *arenas);
            continue;
        }
        if (g->arena_count++ % every)
            continue;
        looked++;
        count = g->is_sampled ? 0 : count;
        uint64_t first = (arenas[i].address + pool_size() - 1) & ~(pool_size() - 1);
        if (!grow(&g->budget, &g->pool, (count + arena_size() / pool_size()) * sizeof(struct pool)))
            return;
        struct pool *pools = g->pool.at;
        for (uint64_t at = first; at < arenas[i].next_pool; at += pool_size()) {
            struct pool_header header;
            __builtin_prefetch((void *)(at + 4 * pool_size()));
            memcpy(&header, (void *)at, sizeof header);
            if (!header.blocks || header.size_class >= SIZE_CLASSES || header.arena != i)
                continue;
            uint32_t block = (header.size_class + 1) * 16;
            if (header.blocks > (pool_size() - 48) / block)
                continue;
            pools[count++] = (struct pool){at, i, header.blocks, block, 0};
            g->block_bytes += header.blocks * block;
        }
    }
    g->pool_count = g->is_sampled ? 0 : count;
    g->pool_bytes = pool_size();
    g->arena_bytes = g->arena_count * arena_size();
    g->block_bytes = looked ? g->block_bytes * g->arena_count / looked : 0;
    if (g->is_sampled)
        return;
    uint64_t most = LOOSE_BYTES / pool_size(), times = count / most + 1;
    struct pool *pools = g->pool.at;
    for (uint64_t i = times / 2; i < count; i += times)
        find_loose(g, &pools[i], times);
}
