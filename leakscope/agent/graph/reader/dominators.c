/* What is reached from where, and immediate dominators. */
#include "reader.h"

INTERNAL void drop_work(struct graph *g, struct work *w)
{
    for (struct array *one = &w->number; one <= &w->spread; one++)
        drop(&g->budget, one);
}

INTERNAL void keep_work(struct graph *g, struct work *w)
{
    g->dominator = w->dominator;
    g->retained = w->retained;
    w->dominator = w->retained = (struct array){0};
}

/* Depth first from a node that has its number; ``count``: how many have one. */
static uint32_t reach(struct graph *g, struct work *w, uint32_t root, uint32_t count)
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *cursor = w->cursor.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
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

struct climb { /* of a node: one above it, and of those up to there the one whose semidominator is least */
    uint32_t above, label, semi, unused;
};

/* Of those on the way up to what is linked, the one whose semidominator is least. */
static uint32_t least_above(struct climb *climbs, uint32_t one, uint32_t linked, uint32_t *stack)
{
    if (climbs[one].above < linked)
        return climbs[one].label;
    uint32_t depth = 0;
    do {
        stack[depth++] = one;
        one = climbs[one].above;
    } while (climbs[one].above >= linked);
    uint32_t before = one, least = climbs[one].label;
    do {
        one = stack[--depth];
        climbs[one].above = climbs[before].above;
        if (climbs[least].semi < climbs[climbs[one].label].semi)
            climbs[one].label = climbs[before].label;
        else
            least = climbs[one].label;
        before = one;
    } while (depth);
    return climbs[one].label;
}

/* Immediate dominators by semidominators and nearest common ancestors (Georgiadis, 2005).
 *
 * What is reached by a name of a module is held by it, whoever else refers to it: a frame, which lets go when it ends,
 * the recorder, C code, garbage. So references from what a later group reaches to what was reached before it do not
 * count. */
static void dominate(struct work *w, uint32_t count)
{
    struct climb *climbs = w->climbs.at;
    uint32_t *parent = w->parent.at, *dominator = w->dominator.at, group = UNREACHABLE, end = count;
    const uint32_t *from = w->from.at, *from_begin = w->from_begin.at;
    for (uint32_t i = 0; i < count; i++) {
        climbs[i] = (struct climb){parent[i], i, i, 0};
        dominator[i] = parent[i];
    }
    for (uint32_t i = count; i-- > GROUPS;) {
        enum { SOON = 24 };
        uint32_t least = parent[i];
        if (from_begin[i] > SOON)
            __builtin_prefetch(&climbs[from[from_begin[i] - SOON]]);
        while (i < w->first_of[group])
            end = w->first_of[group--];
        for (uint32_t k = from_begin[i]; k < from_begin[i + 1]; k++) {
            if (from[k] >= end || (from[k] < GROUPS && from[k] != group))
                continue;
            uint32_t with = climbs[least_above(climbs, from[k], i + 1, w->cursor.at)].semi;
            least = with < least ? with : least;
        }
        climbs[i].semi = least;
    }
    for (uint32_t i = GROUPS; i < count; i++)
        while (dominator[i] > climbs[i].semi)
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
    find_names(g);
    cut(&g->table, &w->retained, n * 8);
    for (size_t i = 0; i < sizeof by_node / sizeof *by_node - 1; i++)
        cut(&g->table, by_node[i], (n + 1) * 4);
    drop(&g->budget, &g->table);
    return grow(&g->budget, &w->retained, n * 8) && grow_each(g, by_node, sizeof by_node / sizeof *by_node, (n + 1) * 4);
}

/* Each node gets a number as it is reached: the groups first, then what is reached from modules, running functions and the
 * recorder, then from what only C refers to, then all that nothing leads to. */
INTERNAL void number_nodes(struct graph *g, struct work *w)
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *edges_in = w->edges_in.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *references = g->references.at, *types = g->type.at;
    struct kind *kinds = g->kind.at;
    memset(number, 0xff, g->nodes * 4);
    for (uint32_t group = ROOT; group < GROUPS; group++) {
        number[group] = vertex[group] = group;
        parent[group] = ROOT;
    }
    for (uint64_t k = begin[GROUPS]; k < g->edges; k++) /* those of the groups are none of Python's */
        edges_in[edge[k]]++;
    uint32_t count = GROUPS;
    for (uint32_t group = MODULES; group < GROUPS; group++) {
        w->first_of[group] = count;
        count = reach(g, w, group, count);
        for (uint32_t node = GROUPS; group >= FROM_C && node < g->nodes; node++)
            if (number[node] == NONE && (group == UNREACHABLE || references[node] > edges_in[node])) {
                number[node] = count;
                vertex[count] = node;
                parent[count++] = group;
                count = reach(g, w, node, count);
            }
    }
    g->reached = count;
    for (uint32_t node = GROUPS; node < GROUPS + g->listed_count; node++)
        kinds[types[node]].unreached += number[node] >= w->first_of[UNREACHABLE];
    for (uint32_t node = g->frozen_begin; node < g->frozen_end; node++)
        kinds[types[node]].frozen += number[node] >= w->first_of[UNREACHABLE];
}

static void exchange(struct array *one, struct array *other)
{
    struct array before = *one;
    *one = *other;
    *other = before;
}

/* Of each node what stood at its old place, 8 bytes where it is wide, else 4. ``room``: of as many, which has what was there
 * then. */
static void rearrange(struct array *array, struct array *room, const uint32_t *old, uint64_t count, int is_wide)
{
    for (uint64_t node = 0; node < count; node++)
        if (is_wide)
            ((uint64_t *)room->at)[node] = ((const uint64_t *)array->at)[old[node]];
        else
            ((uint32_t *)room->at)[node] = ((const uint32_t *)array->at)[old[node]];
    exchange(array, room);
}

static void rearrange_edges(struct graph *g, struct work *w, const uint32_t *old)
{
    enum { SOON = 24, NEXT = 12 };
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *number = w->number.at;
    uint32_t *new_begin = w->cursor.at, *new_edge = w->from.at, count = 0;
    for (uint64_t node = 0; node < g->nodes; node++) {
        if (node + SOON < g->nodes)
            __builtin_prefetch(&begin[old[node + SOON]]);
        if (node + NEXT < g->nodes)
            __builtin_prefetch(&edge[begin[old[node + NEXT]]]);
        new_begin[node] = count;
        for (uint32_t k = begin[old[node]]; k < begin[old[node] + 1]; k++)
            new_edge[count++] = number[edge[k]];
    }
    new_begin[g->nodes] = count;
    exchange(&g->begin, &w->cursor);
    exchange(&g->edge, &w->from);
}

/* What was noted of nodes has their new numbers. */
static void rename_nodes(struct graph *g, const uint32_t *number)
{
    for (uint32_t i = 0; i < g->local_count; i++)
        ARRAY(g, local, struct local)[i].frame = number[ARRAY(g, local, struct local)[i].frame];
    for (uint32_t i = 0; i < g->sample_count; i++)
        ARRAY(g, sample, struct sample)[i].node = number[ARRAY(g, sample, struct sample)[i].node];
    for (uint32_t i = 0; i < g->view_count; i++) {
        struct view *view = &ARRAY(g, view, struct view)[i];
        *view = (struct view){number[view->node], number[view->whole], view->bytes};
    }
    for (uint32_t i = 0; i < g->key_count; i++)
        ARRAY(g, key, struct key)[i].address = number[ARRAY(g, key, struct key)[i].address];
    for (uint32_t i = 0; i < g->block_count; i++)
        ARRAY(g, variance, struct doubt)[i].node = number[ARRAY(g, variance, struct doubt)[i].node];
    for (uint64_t i = 0; i < g->mark_count; i++)
        if (g->marks[i].node != NONE)
            g->marks[i].node = number[g->marks[i].node];
}

/* Nodes get their numbers as their names, and stand in that order: what comes now goes from one to the next a dozen times,
 * and finds what it leads to near it. 0: no room. */
INTERNAL int arrange(struct graph *g, struct work *w)
{
    struct array *narrow[] = {&g->type, &g->references, &w->edges_in};
    const uint32_t *old = w->vertex.at;
    uint64_t n = g->nodes;
    if (!grow(&g->budget, &w->from, (g->edges + 1) * 4))
        return 0;
    rearrange_edges(g, w, old);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        rearrange(narrow[i], &w->cursor, old, n, 0);
    rearrange(&g->own, &w->retained, old, n, 1);
    rearrange(&g->address, &w->retained, old, n, 1);
    rename_nodes(g, w->number.at);
    return 1;
}

/* 0: no room. */
INTERNAL int find_dominators(struct graph *g, struct work *w)
{
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
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
    exchange(&w->dominator, &w->number); /* which has served */
    if (!grow(&g->budget, &w->dominator, n * 4) || !grow(&g->budget, &w->climbs, n * sizeof(struct climb)))
        return 0;
    dominate(w, (uint32_t)g->reached);
    cut(&w->climbs, &w->certain, n * 4);
    cut(&w->climbs, &w->parts, n * 8);
    struct array *served[] = {&w->from_begin, &w->vertex, &w->cursor, &w->climbs, &w->from},
                 *to_come[] = {&w->path, &w->queue, &w->first, &w->chain, &g->row_of};
    for (size_t i = 0; i < sizeof served / sizeof *served; i++)
        exchange(served[i], to_come[i]);
    return 1;
}
