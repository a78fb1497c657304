/* What no name leads to, and what keeps memory from being given back. */
#include "reader.h"

enum { MOST_PINS = 16 };

static uint64_t measure_of(const struct stray *one, int measure)
{
    switch (measure) {
    case 0:
        return one->unreached_bytes;
    case 1:
        return one->unreached_count;
    case 2:
        return one->outside_bytes;
    case 3:
        return one->loose_bytes;
    default:
        return one->extra_references;
    }
}

/* The shortest way from a node back to itself among what nothing leads to; its length, 0: none. */
static uint32_t find_cycle(const struct graph *g, struct work *w, uint32_t start, uint32_t way[LONGEST_CYCLE])
{
    uint32_t *before = w->parent.at, *queue = w->queue.at, count = 0, length = 0;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    queue[count++] = start;
    before[start] = start;
    for (uint32_t i = 0; i < count && !length && count < CYCLE_NODES; i++)
        for (uint32_t k = begin[queue[i]]; k < begin[queue[i] + 1] && count < CYCLE_NODES; k++) {
            uint32_t to = edge[k];
            if (to == start) {
                uint32_t node = queue[i];
                for (length = 1; node != start; node = before[node])
                    length++;
                if (length > LONGEST_CYCLE) {
                    length = 0;
                    break;
                }
                node = queue[i];
                for (uint32_t step = length; step-- > 0; node = before[node])
                    way[step] = node;
                break;
            }
            if (to >= w->first_of[UNREACHABLE] && before[to] == NONE) {
                before[to] = queue[i];
                queue[count++] = to;
            }
        }
    for (uint32_t i = 0; i < count; i++)
        before[queue[i]] = NONE;
    return length;
}

/* An example of a cycle for each of the types of which most is garbage. */
static int find_cycles(struct graph *g, struct work *w, struct stray *strays, uint64_t count)
{
    uint32_t of_type[CYCLES], chosen = 0;
    uint32_t samples[CYCLES][TRIES] = {{0}}, seen[CYCLES] = {0};
    const struct kind *kinds = g->kind.at;
    const uint32_t *types = g->type.at;
    for (; chosen < CYCLES; chosen++) { /* tuples and such say little, and hang on others */
        uint64_t most = LEAST_GARBAGE - 1, found = NONE;
        for (uint64_t i = 0; i < count; i++) {
            int is_taken = !kinds[strays[i].type].is_gc || kinds[strays[i].type].base == TUPLE;
            for (uint32_t k = 0; k < chosen; k++)
                is_taken |= of_type[k] == i;
            if (!is_taken && strays[i].unreached_count > most) {
                most = strays[i].unreached_count;
                found = i;
            }
        }
        if (found == NONE)
            break;
        of_type[chosen] = (uint32_t)found;
    }
    if (!chosen)
        return 1;
    if (!grow_copied(&g->budget, &g->link, CYCLES * LONGEST_CYCLE * sizeof(struct link)))
        return 0;
    for (uint32_t node = GROUPS; node < g->nodes; node++)
        for (uint32_t k = 0; node >= w->first_of[UNREACHABLE] && k < chosen; k++)
            if (types[node] == strays[of_type[k]].type) {
                for (uint32_t i = 0; i < TRIES; i++)
                    if (seen[k] == strays[of_type[k]].unreached_count * (2 * i + 1) / (2 * TRIES))
                        samples[k][i] = node;
                seen[k]++;
            }
    memset(w->parent.at, 0xff, g->nodes * 4);
    struct link *links = g->link.at;
    for (uint32_t k = 0; k < chosen; k++) {
        uint32_t way[LONGEST_CYCLE], length = 0;
        for (uint32_t i = 0; i < TRIES && !length; i++)
            length = samples[k][i] ? find_cycle(g, w, samples[k][i], way) : 0;
        strays[of_type[k]].first_link = g->link_count;
        strays[of_type[k]].links = length;
        for (uint32_t i = 0; i < length; i++)
            links[g->link_count++] = (struct link){.address = ARRAY(g, address, uintptr_t)[way[i]], .node = way[i], .type = types[way[i]]};
    }
    g->links = links;
    return 1;
}

/* By type: garbage, what C code alone refers to, references that no object has. */
INTERNAL int tell_strays(struct graph *g, struct work *w)
{
    struct array table = {0};
    if (!grow(&g->budget, &table, g->type_count * sizeof(struct stray)) ||
        !grow_copied(&g->budget, &g->stray, MOST_STRAYS * sizeof(struct stray)))
        return 0;
    struct stray *all = table.at, *strays = g->stray.at;
    const uint32_t *types = g->type.at, *references = g->references.at, *edges_in = w->edges_in.at;
    const uint32_t *dominator = w->dominator.at;
    const struct kind *kinds = g->kind.at;
    const uint64_t *own = g->own.at, *retained = w->retained.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        struct stray *one = &all[types[node]];
        one->count++;
        if (node >= w->first_of[UNREACHABLE]) {
            one->unreached_count++;
            one->unreached_bytes += own[node];
        }
        if (references[node] == NONE)
            continue;
        if (dominator[node] == FROM_C) {
            one->outside_count++;
            one->outside_bytes += retained[node];
        }
        if (references[node] < MOST_REFERENCES)
            one->extra_references += references[node] > edges_in[node] ? references[node] - edges_in[node] : 0;
    }
    const struct key *keys = g->key.at; /* of strings the nodes, by now */
    for (uint32_t i = 0; i < g->key_count; i++) {
        uint64_t node = keys[i].address, all_of = references[node], met = edges_in[node];
        uint64_t extra = all_of < MOST_REFERENCES && all_of > met ? all_of - met : 0;
        all[types[node]].extra_references -= keys[i].count < extra ? keys[i].count : extra;
    }
    const struct loose *loose = g->loose.at;
    for (uint32_t type = 0; type < g->type_count; type++) {
        all[type].type = type;
        all[type].frozen_count = kinds[type].frozen;
        all[type].loose_count = loose ? loose[type].count : 0;
        all[type].loose_bytes = loose ? loose[type].bytes : 0;
    }
    uint64_t count = 0;
    for (int measure = 0; measure < 5; measure++)
        for (int rank = 0; rank < EACH_MEASURE; rank++) {
            uint32_t best = NONE;
            for (uint32_t type = FIRST_TYPE; type < g->type_count; type++)
                if (all[type].type != NONE && measure_of(&all[type], measure) &&
                    (best == NONE || measure_of(&all[type], measure) > measure_of(&all[best], measure)))
                    best = type;
            if (best == NONE)
                break;
            strays[count++] = all[best];
            all[best].type = NONE; /* taken */
        }
    drop(&g->budget, &table);
    g->strays = strays;
    g->stray_count = count;
    return find_cycles(g, w, strays, count);
}

/* Of what a pool has free: what each block in it keeps from being given back, if that is most of it. */
static uint64_t kept_by_each(const struct pool *pool, const struct arena_of_python *arena, uint64_t blocks_of_arena)
{
    uint64_t free_bytes = pool_size() - 48 - (uint64_t)pool->blocks * pool->block_bytes, each = 0;
    if (free_bytes >= pool_size() / 2)
        each += free_bytes / pool->blocks;
    if (arena->free_pools >= arena->all_pools / 2)
        each += arena->free_pools * pool_size() / blocks_of_arena;
    return each;
}

/* What lies in pools that are mostly free, by the row that holds it. */
INTERNAL int tell_pins(struct graph *g, struct work *w)
{
    if (!g->pool_count)
        return 1;
    struct array table = {0}, of_row = {0}, of_arena = {0};
    uint64_t size = 1024;
    int is_done = 0;
    while (size < g->pool_count * 2)
        size *= 2;
    if (!grow(&g->budget, &table, size * 4) || !grow(&g->budget, &of_row, g->row_count * sizeof(struct pin)) ||
        !grow(&g->budget, &of_arena, g->arena.bytes / sizeof(struct arena_of_python) * 16) ||
        !grow_copied(&g->budget, &g->pin, MOST_PINS * sizeof(struct pin)))
        goto end;
    uint32_t *slots = table.at, mask = (uint32_t)size - 1;
    struct pool *pools = g->pool.at;
    const struct arena_of_python *arenas = g->arena.at;
    uint64_t(*arena)[2] = of_arena.at; /* blocks in use, objects of the graph */
    memset(slots, 0xff, size * 4);
    for (uint32_t i = 0; i < g->pool_count; i++) {
        uint32_t slot = hash(pools[i].address) & mask;
        while (slots[slot] != NONE)
            slot = (slot + 1) & mask;
        slots[slot] = i;
        arena[pools[i].arena][0] += pools[i].blocks;
    }
    /* For each node the row that it hangs on: dominators come before it. */
    uint32_t *holder = w->path.at, *pool_of = w->queue.at;
    const uint32_t *dominator = w->dominator.at, *row_of = g->row_of.at, *types = g->type.at;
    const uintptr_t *address = g->address.at;
    for (uint32_t node = 0; node < g->reached; node++) {
        uint32_t found = NONE;
        holder[node] = row_of[node] != NONE ? row_of[node] : holder[dominator[node]];
        uint64_t base = address[node] & ~(pool_size() - 1);
        for (uint32_t slot = hash(base) & mask; node >= GROUPS && types[node] >= FIRST_TYPE && slots[slot] != NONE; slot = (slot + 1) & mask)
            if (pools[slots[slot]].address == base) {
                found = slots[slot];
                break;
            }
        pool_of[node] = found;
        if (found == NONE)
            continue;
        g->held_pool_count += !pools[found].objects++;
        g->held_arena_count += !arena[pools[found].arena][1]++;
        g->held_bytes += pools[found].block_bytes;
    }
    struct pin *all = of_row.at, *pins = g->pin.at;
    for (uint32_t i = 0; i < g->reached; i++) {
        if (pool_of[i] == NONE)
            continue;
        const struct pool *pool = &pools[pool_of[i]];
        uint64_t kept = kept_by_each(pool, &arenas[pool->arena], arena[pool->arena][0]);
        if (!kept)
            continue;
        all[holder[i]].count++;
        all[holder[i]].bytes += pool->block_bytes;
        all[holder[i]].pinned_bytes += kept;
    }
    for (g->pin_count = 0; g->pin_count < MOST_PINS; g->pin_count++) {
        uint64_t best = 0;
        for (uint64_t i = 1; i < g->row_count; i++)
            best = all[i].pinned_bytes > all[best].pinned_bytes ? i : best;
        if (!all[best].pinned_bytes)
            break;
        pins[g->pin_count] = all[best];
        pins[g->pin_count].row = (uint32_t)best;
        all[best].pinned_bytes = 0;
    }
    g->pins = pins;
    is_done = 1;
end:
    drop(&g->budget, &table);
    drop(&g->budget, &of_row);
    drop(&g->budget, &of_arena);
    return is_done;
}

