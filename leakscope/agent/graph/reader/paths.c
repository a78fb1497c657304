/* A short way to each node by names that a person knows, and what was there at the snapshot before. */
#include "reader.h"

enum { NEAR_MODULES = 4, NEAR_VARIABLES = 3, NEAR_FRAMES = 5, FEW_MEMBERS = 64 };

INTERNAL uint64_t fingerprint(const struct graph *g, uint32_t node)
{
    uintptr_t address = ((uintptr_t *)g->address.at)[node];
    const struct kind *kind = (struct kind *)g->kind.at + ((uint32_t *)g->type.at)[node];
    return ((uint64_t)(address >> 3) ^ (uint64_t)(uintptr_t)kind->type << 17) * 0x9E3779B97F4A7C15ull;
}

INTERNAL int was_there(const struct past *past, uint64_t print)
{
    const uint8_t *map = past->map.at;
    uint64_t one = (print >> 32) % past->bits, other = (print & UINT32_MAX) % past->bits;
    return map[one >> 3] >> (one & 7) & 1 && map[other >> 3] >> (other & 7) & 1;
}

/* Whether it has come since the snapshot before: what was there by then is held by others. Not a call, whose variables are
 * names all the same, nor a container of many, which may be a copy of the one before. */
static int has_come(const struct graph *g, const struct past *past, uint32_t node)
{
    const uint32_t *begin = g->begin.at;
    return past && node >= GROUPS && ((uint32_t *)g->type.at)[node] != TYPE_FRAME && begin[node + 1] - begin[node] <= FEW_MEMBERS &&
           !was_there(past, fingerprint(g, node));
}

/* Breadth first from what stands in the queue at ``from``, so many steps far. ``past``: not from what has come since then
 * to what was there. */
static uint32_t walk(const struct graph *g, const struct past *past, struct work *w, uint32_t from, uint32_t count, uint32_t steps)
{
    uint32_t *path = w->path.at, *queue = w->queue.at, level_ends = count;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    for (; from < count; from++) {
        if (from == level_ends) {
            if (--steps == 0)
                break;
            level_ends = count;
        }
        uint32_t node = queue[from];
        int is_new = has_come(g, past, node);
        for (uint32_t k = begin[node]; k < begin[node + 1]; k++)
            if (path[edge[k]] == NONE && !(is_new && edge[k] >= GROUPS && was_there(past, fingerprint(g, edge[k])))) {
                path[edge[k]] = node;
                queue[count++] = edge[k];
            }
    }
    return count;
}

static int is_variable(const struct graph *g, uint32_t node)
{
    const struct kind *kinds = g->kind.at;
    return node >= GROUPS && kinds[((uint32_t *)g->type.at)[node]].base == VARIABLE;
}

/* Whether it is a running function of a library: a wrapper of torch's around a method has its self, too. */
static int is_of_library(const struct graph *g, uint32_t node)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/", "/lib/python3."};
    if (((uint32_t *)g->type.at)[node] != TYPE_FRAME)
        return 0;
    const char *file = (char *)g->text.at + ((uint32_t *)g->references.at)[node], *end = strchr(file, '\n');
    for (size_t i = 0; end && i < sizeof folders / sizeof *folders; i++) {
        const char *found = strstr(file, folders[i]);
        if (found && found < end)
            return 1;
    }
    return !strncmp(file, "<frozen ", 8);
}

/* A short way to each node by names that a person knows: what modules name, then what is in context variables, then what
 * the variables of functions do, those that began first before those they called, and those of libraries last; what lies
 * farther off then has the shortest way from any. So has what a variable's object of the moment leads to, and was there before. */
INTERNAL uint32_t find_paths(const struct graph *g, const struct past *past, struct work *w)
{
    uint32_t *path = w->path.at, *queue = w->queue.at, count = 0;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    const uint32_t *parent = w->parent.at;
    memset(path, 0xff, g->nodes * 4);
    for (uint32_t group = ROOT; group < GROUPS; group++)
        path[group] = ROOT;
    queue[count++] = MODULES;
    count = walk(g, NULL, w, 0, count, NEAR_MODULES);
    uint32_t named = count;
    for (uint32_t i = 0; i < named; i++) /* what a context variable has is as near as the variable */
        for (uint32_t k = begin[queue[i]]; is_variable(g, queue[i]) && k < begin[queue[i] + 1]; k++)
            if (path[edge[k]] == NONE) {
                path[edge[k]] = queue[i];
                queue[count++] = edge[k];
            }
    count = walk(g, NULL, w, named, count, NEAR_VARIABLES);
    queue[count++] = THREADS;
    for (int of_library = 0; of_library < 2; of_library++)
        for (uint32_t k = begin[THREADS + 1]; k-- > begin[THREADS];)
            if (path[edge[k]] == NONE && is_of_library(g, edge[k]) == of_library) {
                path[edge[k]] = THREADS;
                queue[count] = edge[k];
                count = walk(g, past, w, count, count + 1, NEAR_FRAMES);
            }
    if (past)
        count = walk(g, past, w, 0, count, NONE);
    count = walk(g, NULL, w, 0, count, NONE);
    for (uint32_t group = RECORDER; group < GROUPS; group++) {
        uint32_t first = count;
        queue[count++] = group;
        for (uint32_t i = 1; i < g->reached; i++)
            if (parent[i] == group && path[i] == NONE) {
                path[i] = group;
                queue[count++] = i;
            }
        count = walk(g, NULL, w, first, count, NONE);
    }
    return count;
}

INTERNAL void free_past(struct past *past)
{
    struct budget budget = {0};
    if (past) {
        struct array self = {past, sizeof *past};
        if (past->process == getpid())
            drop(&budget, &past->map);
        drop(&budget, &self);
    }
}

INTERNAL struct past *make_past(struct graph *g)
{
    struct array self = {0}, map = {0};
    g->budget.is_kept = 0; /* it outlives the graph */
    uint64_t bits = g->nodes * 16;
    if (g->process != getpid() || !grow_copied(&g->budget, &self, sizeof(struct past)))
        return NULL;
    if (!grow(&g->budget, &map, bits / 8 + 1)) {
        drop(&g->budget, &self);
        return NULL;
    }
    struct past *past = self.at;
    past->bits = bits;
    past->process = g->process;
    past->map = map;
    uint8_t *to = map.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        uint64_t print = fingerprint(g, node), one = (print >> 32) % bits, other = (print & UINT32_MAX) % bits;
        to[one >> 3] |= (uint8_t)(1 << (one & 7));
        to[other >> 3] |= (uint8_t)(1 << (other & 7));
    }
    return past;
}
