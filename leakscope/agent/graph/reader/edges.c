/* Edges that are found once all nodes are known. */
#include "reader.h"

static int by_nodes(const void *one, const void *other)
{
    const struct pair *a = one, *b = other;
    return a->from != b->from ? (a->from < b->from ? -1 : 1) : a->to < b->to ? -1 : a->to > b->to;
}

/* Edges stand one node's behind the other's: from the last to the first they make room for those that come. */
static void insert(struct graph *g, const struct pair *pairs, uint64_t count)
{
    uint32_t *begin = g->begin.at, *edge = g->edge.at, done = (uint32_t)g->nodes + 1;
    uint64_t end = g->edges;
    for (uint64_t k = count; k-- > 0;) {
        uint32_t after = pairs[k].from + 1;
        if (after < done) {
            uint64_t first = begin[after];
            memmove(edge + first + k + 1, edge + first, (end - first) * 4);
            for (uint32_t node = after; node < done; node++)
                begin[node] += (uint32_t)k + 1;
            end = first;
            done = after;
        }
        edge[end + k] = pairs[k].to;
    }
    g->edges += count;
}

/* 0 where there is no room. */
INTERNAL int insert_all(struct graph *g, struct pair *pairs, uint64_t count)
{
    uint64_t kept = 0;
    qsort(pairs, count, sizeof *pairs, by_nodes);
    for (uint64_t k = 0; k < count; k++)
        if (!k || by_nodes(&pairs[k], &pairs[k - 1]))
            pairs[kept++] = pairs[k];
    if (g->edges + kept >= NONE || !grow(&g->budget, &g->edge, (g->edges + kept + 1) * 4))
        return 0;
    insert(g, pairs, kept);
    return 1;
}

struct variable { /* a context variable, and what it has in a context */
    uint64_t address, holds;
};

/* A node of a context's table visits each value, then the variable that it is of. */
INTERNAL int visit_context(object *to, void *arg)
{
    struct context *context = arg;
    struct graph *g = context->g;
    int is_variable = !(to->type->flags & HEAP_TYPE) && base_of(to->type) == VARIABLE;
    if (is_variable && context->value && grow(&g->budget, &g->variable, (g->variable_count + 1) * sizeof(struct variable)))
        ARRAY(g, variable, struct variable)[g->variable_count++] = (struct variable){(uintptr_t)to, (uintptr_t)context->value};
    context->value = is_variable ? NULL : to;
    return 0;
}

enum { OF_ONE_VARIABLE = 16 };

/* Of pairs in order: whether what begins at ``k`` are so many values of one variable that it is contexts that pile up. */
static int has_many_values(const struct pair *pairs, uint64_t count, uint64_t k)
{
    uint64_t values = 1;
    for (uint64_t i = k + 1; i < count && pairs[i].from == pairs[k].from && values <= OF_ONE_VARIABLE; i++)
        values += pairs[i].to != pairs[i - 1].to;
    return values > OF_ONE_VARIABLE;
}

/* To a person it is the variable that holds what is in it, and not the context that only C code refers to. A variable
 * that has another value in each of many contexts holds none of them: who keeps the contexts does. */
INTERNAL int tie_variables(struct graph *g)
{
    struct array array = {0};
    if (!g->variable_count)
        return 1;
    if (!grow(&g->budget, &array, g->variable_count * sizeof(struct pair)))
        return 0;
    const struct variable *variables = g->variable.at;
    struct pair *pairs = array.at;
    uint64_t count = 0;
    for (uint32_t i = 0; i < g->variable_count; i++) {
        uint32_t from = node_at(g, variables[i].address), to = node_at(g, variables[i].holds);
        if (from != NONE && to != NONE && from != to)
            pairs[count++] = (struct pair){from, to};
    }
    qsort(pairs, count, sizeof *pairs, by_nodes);
    uint64_t kept = 0;
    for (uint64_t k = 0, next; k < count; k = next) {
        int are_many = has_many_values(pairs, count, k);
        for (next = k; next < count && pairs[next].from == pairs[k].from; next++)
            if (!are_many)
                pairs[kept++] = pairs[next];
    }
    int is_done = insert_all(g, pairs, kept);
    drop(&g->budget, &array);
    return is_done;
}
