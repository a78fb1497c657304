/* References that are no edges. */
#include "reader.h"

enum { CACHED_LOOKUPS = 4096 };

static const struct lookup *lookups; /* NULL: not found */

INTERNAL int find_lookups(uint64_t begin, uint64_t end, const struct known_lookup *known, uint64_t count)
{
    enum { AT_ONCE = 512 };
    uint64_t words[AT_ONCE + 2];
    struct lookup found;
    lookups = NULL;
    for (uint64_t at = begin; at + sizeof words <= end; at += AT_ONCE * 8) {
        if (!copy_from(at, words, sizeof words))
            continue;
        for (int i = 0; i < AT_ONCE; i++) {
            const struct lookup *first = &known->is;
            if (words[i + 1] != first->name || words[i + 2] != first->value || (uint32_t)words[i] != first->version)
                continue;
            uint64_t array = at + 8ul * (uint64_t)i - known->place * sizeof found, matching = 0;
            for (uint64_t k = 0; array >= begin && k < count; k++)
                matching += copy_from(array + known[k].place * sizeof found, &found, sizeof found) &&
                            (uint32_t)found.version == known[k].is.version && found.name == known[k].is.name &&
                            found.value == known[k].is.value;
            if (matching * 4 >= count * 3) { /* one may have taken the place of another */
                lookups = (const struct lookup *)array;
                return 1;
            }
        }
    }
    return 0;
}

INTERNAL uint64_t count_lookups(struct graph *g, uint64_t none)
{
    uint64_t count = 0;
    for (int i = 0; lookups && i < CACHED_LOOKUPS; i++) {
        const object *name = (object *)(uintptr_t)lookups[i].name;
        count += lookups[i].name == none;
        if (g && lookups[i].name != none && is_text(name))
            count_name(g, name);
    }
    return count;
}

INTERNAL int count_references(const struct graph *g, uint64_t address, uint64_t counted[2])
{
    if (g->process != getpid()) /* a forked child has no table of it */
        return 0;
    uint32_t node = node_at(g, address);
    if (node == NONE)
        return 0;
    const uint32_t *edge = g->edge.at;
    counted[0] = ((uint32_t *)g->references.at)[node];
    counted[1] = 0;
    for (uint64_t k = ((uint32_t *)g->begin.at)[GROUPS]; k < g->edges; k++)
        counted[1] += edge[k] == node;
    return 1;
}
