/* The graph: nodes by their addresses, edges by the numbers of nodes. */
#include "reader.h"

INTERNAL uint64_t table_slots(uint64_t for_nodes)
{
    uint64_t size = 1024;
    while (size < for_nodes * 2)
        size *= 2;
    return size;
}

INTERNAL int begin_table(struct graph *g, uint64_t for_nodes)
{
    uint64_t size = table_slots(for_nodes);
    if (size > (uint64_t)1 << 31)
        return 0;
    if (g->table.bytes >= size * 8) /* of the room that was made: none that is in use is asked to be as large as it is */
        size = g->table.bytes / 8;
    else
        drop(&g->budget, &g->table);
    if (!grow(&g->budget, &g->table, size * 8))
        return 0;
    g->table_mask = (uint32_t)size - 1;
    return 1;
}

INTERNAL int more_nodes(struct graph *g, uint64_t count)
{
    struct budget *b = &g->budget;
    return count < NONE && grow(b, &g->address, count * 8) && grow(b, &g->own, count * 8) && grow(b, &g->type, count * 4) &&
           grow(b, &g->references, count * 4) && grow(b, &g->begin, (count + 1) * 4);
}

static int more_table(struct graph *g)
{
    if (!begin_table(g, g->nodes * 2))
        return 0;
    uintptr_t *address = g->address.at;
    uint64_t *table = g->table.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        uint32_t slot = hash(address[node]) & g->table_mask;
        while (table[slot])
            slot = (slot + 1) & g->table_mask;
        table[slot] = slot_of(address[node], node);
    }
    return 1;
}

/* The node of an address; NONE where there is no room for it. */
INTERNAL uint32_t node_of(struct graph *g, uintptr_t address, uint32_t special)
{
    uint64_t *table = g->table.at, wanted = slot_of(address, 0);
    uint32_t slot = hash(address) & g->table_mask;
    for (; table[slot]; slot = (slot + 1) & g->table_mask)
        if ((table[slot] ^ wanted) >> 32 == 0 && ARRAY(g, address, uintptr_t)[(uint32_t)table[slot]] == address)
            return (uint32_t)table[slot];
    if ((g->nodes + 2) * 8 > g->address.bytes && !more_nodes(g, g->nodes * 3 / 2 + 4096))
        return NONE;
    uint32_t node = (uint32_t)g->nodes++;
    ARRAY(g, address, uintptr_t)[node] = address;
    ARRAY(g, type, uint32_t)[node] = special;
    table[slot] = slot_of(address, node);
    if (g->nodes * 2 > g->table_mask && !more_table(g))
        return NONE;
    return node;
}

static void mark_of_user(struct graph *g, uint32_t node, int is_new)
{
    uint32_t *type = &ARRAY(g, type, uint32_t)[node];
    if (is_new || (node > g->reading && !(*type & OF_USER))) {
        *type |= OF_USER;
        g->users_waiting++;
        g->level[0].waiting -= node < g->level_end;
        g->level[1].waiting += node < g->level_end;
    }
}

/* Addresses wait until there are some, so that the memory of many slots is fetched at once. */
INTERNAL int settle(struct graph *g)
{
    uint64_t *table = g->table.at;
    for (uint32_t i = 0; i < g->waiting; i++)
        __builtin_prefetch(&table[hash(g->wait[i]) & g->table_mask]);
    for (uint32_t i = 0; i < g->waiting; i++)
        __builtin_prefetch(&ARRAY(g, address, uintptr_t)[(uint32_t)table[hash(g->wait[i]) & g->table_mask]]);
    if ((g->edges + g->waiting) * 4 > g->edge.bytes && !grow(&g->budget, &g->edge, (g->edges * 3 / 2 + 65536) * 4))
        return 0;
    for (uint32_t i = 0; i < g->waiting; i++) {
        uint64_t before = g->nodes;
        uint32_t node = node_of(g, g->wait[i], g->wait_special[i] & ~WAITS_FOR_USER);
        if (node == NONE)
            return 0;
        if (g->wait_special[i] & WAITS_FOR_USER)
            mark_of_user(g, node, node >= before);
        ARRAY(g, edge, uint32_t)[g->edges++] = node;
    }
    g->waiting = 0;
    return g->edges < NONE;
}

INTERNAL int refer(struct graph *g, uintptr_t address, uint32_t special)
{
    if (!address)
        return 1;
    if (g->waiting == 64)
        return 0; /* no room for them any more, and a tp_traverse that goes on nevertheless */
    g->wait[g->waiting] = address;
    g->wait_special[g->waiting++] = (uint8_t)(special | (g->of_user ? WAITS_FOR_USER : 0));
    return g->waiting < 64 || settle(g);
}

INTERNAL int visit_edge(object *to, void *graph)
{
    return !refer(graph, (uintptr_t)to, TYPE_NONE);
}

INTERNAL void free_graph(struct graph *g)
{
    if (!g)
        return;
    struct budget budget = g->budget;
    struct array self = {g, sizeof *g};
    for (struct array *one = g->process == getpid() ? &g->address : &g->kind; one <= &g->pin; one++)
        drop(&budget, one);
    drop(&budget, &self);
}
