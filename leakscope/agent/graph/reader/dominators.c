/* What is reached from where, and immediate dominators. */
#include "reader.h"

INTERNAL void drop_work(struct graph *g, struct work *w)
{
    for (struct array *one = &w->number; one <= &w->spread; one++)
        drop(&g->budget, one);
}

INTERNAL void keep_work(struct graph *g, struct work *w)
{
    g->number = w->number;
    g->vertex = w->vertex;
    g->dominator = w->dominator;
    g->retained = w->retained;
    w->number = w->vertex = w->dominator = w->retained = (struct array){0};
}

/* Depth first from a node that is not reached yet; ``count``: how many are. */
static uint32_t reach(struct graph *g, struct work *w, uint32_t root, uint32_t above, uint32_t count)
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *cursor = w->cursor.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    number[root] = count;
    vertex[count] = root;
    parent[count++] = above;
    cursor[root] = begin[root];
    for (uint32_t node = root;;) {
        if (cursor[node] < begin[node + 1]) {
            uint32_t to = edge[cursor[node]++];
            if (number[to] != NONE)
                continue;
            number[to] = count;
            vertex[count] = to;
            parent[count++] = number[node];
            cursor[to] = begin[to];
            node = to;
        } else if (node == root)
            return count;
        else
            node = vertex[parent[number[node]]];
    }
}

/* Of those on the way up to what is linked, the one whose semidominator is least. */
static uint32_t least_above(struct work *w, uint32_t one, uint32_t linked, uint32_t *stack)
{
    uint32_t *above = w->above.at, *label = w->label.at, *semi = w->semi.at;
    if (above[one] < linked)
        return label[one];
    uint32_t depth = 0;
    do {
        stack[depth++] = one;
        one = above[one];
    } while (above[one] >= linked);
    uint32_t before = one, least = label[one];
    do {
        one = stack[--depth];
        above[one] = above[before];
        if (semi[least] < semi[label[one]])
            label[one] = label[before];
        else
            least = label[one];
        before = one;
    } while (depth);
    return label[one];
}

/* Immediate dominators by semidominators and nearest common ancestors (Georgiadis, 2005).
 *
 * What is reached by a name of a module is held by it, whoever else refers to it: a frame, which lets go when it ends,
 * the recorder, C code, garbage. So references from a group of ``later`` (their first numbers, rising) to what was
 * reached before it do not count. */
static void dominate(struct work *w, uint32_t count, const uint32_t later[4])
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *above = w->above.at;
    uint32_t *semi = w->semi.at, *label = w->label.at, *dominator = w->dominator.at;
    const uint32_t *from = w->from.at, *from_begin = w->from_begin.at;
    for (uint32_t i = 0; i < count; i++) {
        semi[i] = label[i] = i;
        above[i] = dominator[i] = parent[i];
    }
    for (uint32_t i = count; i-- > 1;) {
        uint32_t node = vertex[i], least = parent[i];
        uint32_t end = count;
        for (int group = 4; group-- > 0;)
            end = i < later[group] ? later[group] : end;
        for (uint32_t k = from_begin[node]; k < from_begin[node + 1]; k++) {
            if (number[from[k]] >= end)
                continue;
            uint32_t with = semi[least_above(w, number[from[k]], i + 1, w->cursor.at)];
            least = with < least ? with : least;
        }
        semi[i] = least;
    }
    for (uint32_t i = 1; i < count; i++)
        while (dominator[i] > semi[i])
            dominator[i] = dominator[dominator[i]];
}

INTERNAL int by_number(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

/* Of the strings that were counted as keys, those that are in the graph. */
static void find_names(struct graph *g)
{
    struct key *keys = g->key.at;
    uint32_t count = 0;
    for (uint64_t i = 0; keys && i <= g->key_mask; i++) {
        uint32_t node = keys[i].address ? node_at(g, keys[i].address) : NONE;
        if (node != NONE)
            keys[count++] = (struct key){node, keys[i].count};
    }
    g->key_count = count;
}

static int grow_each(struct graph *g, struct array *const *arrays, size_t how_many, uint64_t bytes)
{
    for (size_t i = 0; i < how_many; i++)
        if (!grow(&g->budget, arrays[i], bytes))
            return 0;
    return 1;
}

/* Room to number the nodes in, of what reading left over. Nobody asks for a node by its address any more. */
INTERNAL int begin_work(struct graph *g, struct work *w)
{
    uint64_t n = g->nodes;
    struct {
        struct array *array;
        uint64_t bytes;
    } read[] = {{&g->address, n * 8},    {&g->own, n * 8},          {&g->type, n * 4},
                {&g->references, n * 4}, {&g->begin, (n + 1) * 4}, {&g->edge, g->edges * 4}};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) /* there was room for more */
        shrink(&g->budget, read[i].array, read[i].bytes);
    struct array *by_node[] = {&w->number, &w->vertex, &w->parent, &w->cursor, &w->edges_in};
    if (!grow_each(g, by_node, sizeof by_node / sizeof *by_node, (n + 1) * 4))
        return 0;
    find_names(g);
    drop(&g->budget, &g->table);
    return 1;
}

/* Each node gets a number as it is reached: from modules, running functions and the recorder first, then from what only C
 * refers to, then all that nothing leads to. */
INTERNAL void number_nodes(struct graph *g, struct work *w)
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *edges_in = w->edges_in.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *references = g->references.at;
    memset(number, 0xff, g->nodes * 4);
    number[ROOT] = 0;
    vertex[0] = ROOT;
    parent[0] = 0;
    uint32_t count = 1;
    for (uint32_t group = MODULES; group <= RECORDER; group++)
        count = reach(g, w, group, 0, count);
    for (uint64_t k = begin[GROUPS]; k < g->edges; k++) /* those of the groups are none of Python's */
        edges_in[edge[k]]++;
    for (uint32_t group = FROM_C; group <= UNREACHABLE; group++) {
        uint32_t of_group = count;
        count = reach(g, w, group, 0, count);
        for (uint32_t node = GROUPS; node < g->nodes; node++)
            if (number[node] == NONE && (group == UNREACHABLE || references[node] > edges_in[node]))
                count = reach(g, w, node, of_group, count);
    }
    g->reached = count;
}

/* 0: no room. */
INTERNAL int find_dominators(struct graph *g, struct work *w)
{
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *number = w->number.at;
    uint64_t n = g->nodes;
    if (!grow(&g->budget, &w->from_begin, (n + 2) * 4) || !grow(&g->budget, &w->from, (g->edges + 1) * 4))
        return 0;
    uint32_t *from_begin = w->from_begin.at, *from = w->from.at;
    for (uint64_t k = 0; k < g->edges; k++)
        from_begin[edge[k] + 2]++;
    for (uint64_t node = 0; node < n; node++)
        from_begin[node + 1] += from_begin[node];
    for (uint32_t node = 0; node < n; node++)
        for (uint32_t k = begin[node]; k < begin[node + 1]; k++)
            from[from_begin[edge[k] + 1]++] = node;
    struct array *by_number[] = {&w->above, &w->semi, &w->label, &w->dominator};
    if (!grow_each(g, by_number, sizeof by_number / sizeof *by_number, g->reached * 4ul))
        return 0;
    dominate(w, (uint32_t)g->reached, (uint32_t[]){number[THREADS], number[RECORDER], number[FROM_C], number[UNREACHABLE]});
    struct array *no_more[] = {&w->from, &w->from_begin, &w->above, &w->semi, &w->label, &w->cursor};
    for (size_t i = 0; i < sizeof no_more / sizeof *no_more; i++)
        drop(&g->budget, no_more[i]);
    return 1;
}
