/* What the agent calls (heap_graph.py, references.py, whole.py): each says whether it needs the GIL. */
#include "reader.h"

#define EXPORT __attribute__((visibility("default")))

/* Whether heap_graph.py was written for this: the bytes of its structures. */
EXPORT int graph_sizes_fit(const uint64_t sizes[19])
{
    const uint64_t own[] = {sizeof(struct layout), sizeof(struct row), sizeof(struct share), offsetof(struct graph, budget),
                            sizeof(struct sweep), sizeof(struct bounds), sizeof(struct kind), sizeof(struct largest),
                            sizeof(struct sharer), sizeof(struct stray), sizeof(struct link), sizeof(struct pin),
                            sizeof(struct further), sizeof(struct tie), sizeof(struct mark),
                            sizeof(struct history_places), sizeof(struct history), sizeof(struct saved), sizeof(struct room)};
    return !memcmp(sizes, own, sizeof own);
}

/* Before all that reads. 0: the collector's lists are no lists. */
EXPORT int graph_begin(const struct layout *layout)
{
    L = *layout;
    for (int i = 0; L.generations && i < 4; i++) {
        uint64_t at = generation_at(i), next = word_at((void *)at, 0) & ~TAGS;
        if (!next || (word_at((void *)next, 8) & ~TAGS) != at)
            return 0;
    }
    return L.generations != 0;
}

/* With the GIL: from the next graph on. */
EXPORT void graph_tensors(uint64_t base, uint64_t implementation, uint64_t storage, uint64_t bytes, uint64_t device, uint64_t count)
{
    L.tensor_base = base;
    L.tensor_storage = implementation | storage << 16;
    L.storage_bytes = bytes;
    L.storage_device = device;
    L.tensor_count = count;
}

/* With the GIL: from the next graph on. Of arrays of JAX's on other devices nothing lies in the process's memory. */
EXPORT void graph_jax(int is_on_host)
{
    jax_is_on_host = is_on_host;
}

/* Returns how many bytes are kept, none where there is no memory. Without the GIL, while no graph is read or worked out. */
EXPORT uint64_t graph_keep_room(uint64_t bytes)
{
    return keep_room(bytes);
}

/* With the GIL, once: where the code of the recorder is. */
EXPORT void graph_own(const char *folder)
{
    know_own_folder(folder);
}

/* With the GIL, once: the types that have nothing in C that would be worth a look. */
EXPORT void graph_harmless(const char *names, uint64_t bytes)
{
    know_harmless(names, bytes);
}

/* Without the GIL, once. Looks for the list of arenas in memory from ``begin`` to ``end``, Python's own variables. ``known``:
 * addresses of some small objects. How many places hold a pointer to it. */
EXPORT int graph_find_arenas(uint64_t begin, uint64_t end, const uint64_t *known, uint64_t count)
{
    return find_arenas(begin, end, known, count);
}

/* With the GIL, once. An entry of the cache that is not in use has None for its name: a reference that goes as the entry is
 * used. ``known``: lookups that were made just now. ``begin``, ``end``: where the cache is to be found. */
EXPORT int graph_find_lookups(uint64_t begin, uint64_t end, const struct known_lookup *known, uint64_t count)
{
    return find_lookups(begin, end, known, count);
}

/* With the GIL: where things lie, by nodes and tensors of which it is known. Returns 0 where it is not as was thought. */
EXPORT int graph_find_histories(struct history_places *found, const struct known_node *nodes, uint64_t count,
                                const uint64_t *next, const struct known_tensor *tensors, uint64_t tensor_count)
{
    return find_histories(found, nodes, count, next, tensors, tensor_count);
}

/* With the GIL, for the next graph; what it gets stays until then. */
EXPORT void graph_blocks(const struct known_blocks *blocks)
{
    know_blocks(blocks);
}

/* Without the GIL, in any thread. For what is expected; where there is more, the arrays grow. ``bytes``: in all. 0: it would be more. */
EXPORT int graph_make_room(struct room *room, uint64_t bytes, uint64_t objects, uint64_t nodes, uint64_t edges)
{
    return make_room(room, bytes, objects, nodes, edges);
}

/* Without the GIL, in any thread. */
EXPORT void graph_drop_room(struct room *room)
{
    drop_room(room);
}

/* With the GIL. ``modules``: the dict of all modules. ``recorder``, ``main``: states of the agent's thread, or NULL, and
 * of the main one.
 * ``sweep``: may be NULL. NULL where the bounds do not allow it, or Python is not as it was found. */
EXPORT struct graph *graph_take(object *modules, void *recorder, void *main, struct bounds *bounds, struct sweep *sweep)
{
    return take_graph(modules, recorder, main, bounds, sweep);
}

/* With the GIL, right after graph_take: ``is_referred``, of each of these objects, says then whether another one refers
 * to it, or a running function. 0 where there is no room. */
EXPORT int graph_referred(struct graph *g, const uint64_t *addresses, uint64_t count, uint8_t *is_referred)
{
    return tell_referred(g, addresses, count, is_referred);
}

/* With the GIL, before anything that was read can be gone. 0 where there is no room: then the graph is as it was, or lacks
 * some of it. */
EXPORT int graph_add(struct graph *g, const struct further *further)
{
    return add_further(g, further);
}

/* With the GIL, right after graph_take, while no other thread is inside torch. ``histories``, sorted by age afterwards:
 * tensors that autograd knows how they were calculated. ``owned``: storages of models, which graphs save and do not keep
 * alive. Returns 1; 2 where there was no time for all of it; 0 where nodes do not lie in memory as was thought, or there is
 * no room: then nothing was added. */
EXPORT int graph_histories(struct graph *g, const struct history_places *places, struct history *histories, uint64_t count,
                           const uint64_t *owned, uint64_t owned_count, uint64_t most_ns)
{
    return read_histories(g, places, histories, count, owned, owned_count, most_ns);
}

/* With the GIL, right after graph_take. How many of its entries have None for their name. Those of others are counted with
 * the keys of dicts. ``g``: NULL where nothing was read. */
EXPORT uint64_t graph_count_lookups(struct graph *g, uint64_t none)
{
    return count_lookups(g, none);
}

/* Without the GIL, before graph_analyse. Of one object: how many references Python counted, and how many of these are
 * edges. 0: it is not in the graph. */
EXPORT int graph_count_references(const struct graph *g, uint64_t address, uint64_t counted[2])
{
    return count_references(g, address, counted);
}

/* Before graph_analyse. */
EXPORT void graph_is_for_file(struct graph *g)
{
    g->is_for_file = 1;
}

/* Without the GIL. ``past``: of the snapshot before, or NULL. Rows: nodes that retain ``least_bytes``, at most
 * ``most_rows`` of them and those above them. Returns 0 where memory does not suffice. */
EXPORT int graph_analyse(struct graph *g, const struct past *past, uint64_t least_bytes, uint64_t most_rows, uint32_t most_types)
{
    return analyse(g, past, least_bytes, most_rows, most_types);
}

/* With the GIL: by what name each row is held. What cannot be reached any more may be freed, and is not looked at.
 * ``largest``: may be NULL. */
EXPORT int graph_label(struct graph *g, object *modules, void *recorder, struct largest *largest)
{
    return label_rows(g, modules, recorder, largest);
}

/* What the next snapshot is told of this one; NULL where there is no room. */
EXPORT struct past *graph_past(struct graph *g)
{
    return make_past(g);
}

EXPORT void past_free(struct past *past)
{
    free_past(past);
}

/* Whether what is written there stays in memory. */
EXPORT int graph_is_in_memory(int fd)
{
    return is_in_memory(fd);
}

/* Of each node, column by column: address, own bytes, retained bytes (64 bits each), type, dominator, the node one step
 * nearer to a root, references, first edge (32 bits each; of one more node); then of each edge the node it leads to. Returns
 * 0, or what error ended it; ENODATA: it was not analysed, or memory did not suffice. */
EXPORT int graph_write(struct graph *g, int fd)
{
    return write_graph(g, fd);
}

/* With the GIL: what all other threads run, as bytes: for each "thread\n", the address of its state, and for its frames,
 * innermost first, "file\nline\nfirst line of the function\nname\0"; behind the last one more 0. Nothing is kept of a
 * frame: a reference to one would have its variables finalized here, were it the last. Returns how many bytes, at most
 * ``room``; threads that do not fit are left out. */
EXPORT uint64_t graph_running(char *to, uint64_t room)
{
    return tell_running(to, room);
}

EXPORT void graph_free(struct graph *g)
{
    free_graph(g);
}
