/* The graph: nodes by their addresses, edges by the numbers of nodes. */

enum { ROOT, MODULES, THREADS, RECORDER, FROM_C, UNREACHABLE, GROUPS }; /* the first nodes; no objects */
/* TYPE_AUTOGRAD: all that was calculated for a tensor; TYPE_ARROW: what the C++ object has that a table of Arrow's shows;
 * TYPE_BLOCK: memory of malloc; TYPE_DEVICE: a storage on a GPU, whose own bytes are no memory of the process */
enum { TYPE_NONE, TYPE_STORAGE, TYPE_AUTOGRAD, TYPE_ARROW, TYPE_FRAME, TYPE_BLOCK, TYPE_DEVICE, FIRST_TYPE };
enum { OPERATION_BYTES = 520 }; /* of an autograd graph, with its edges and metadata: measured on a GPT-2 */

struct kind { /* of a type: how its objects are read */
    type *type;
    uint64_t listed, listed_bytes, unreached; /* of its objects: those that the collector lists, and that nothing leads to */
    uint32_t text; /* where its name is among the texts */
    uint8_t base, is_gc, is_made_in_c;
    uint8_t is_wanted; /* the agent wants to know where its objects are held, however little they retain */
    uint8_t may_hold; /* its objects may have native memory of their own, of which nobody tells */
    uint8_t is_wrapper; /* of pybind11's: its objects lead to one of C++ each */
};
enum { PLAIN, DICT, LIST, TUPLE, TEXT, BYTES, INTEGER, SET, BYTE_ARRAY, DEQUE, ORDERED_DICT, ARRAY, NDARRAY, TENSOR, BYTES_IO,
       STRING_IO, C_DATA, GENERATOR, MAPPING, CONTEXT, VARIABLE, IMAGE, ARROW, BUFFERED };

struct row { /* a node that matters, as the agent gets it */
    uint64_t address, own_bytes, retained_bytes, length, limit; /* length: members of a container, or links of a chain, + 1 */
    uint64_t storage_bytes, native_bytes; /* of retained_bytes: memory of tensors; sampled memory of malloc */
    uint64_t error_bytes; /* of retained_bytes: one standard error, where members stand for others */
    uint64_t device_bytes; /* beside retained_bytes: of storages on devices */
    uint32_t node, path_row, dominator_row, type, references, edges_in, children, new_children;
    uint32_t label, label_kind, owner; /* among the texts; of what has code of its own: file, line, name; of a class: its name */
    uint32_t is_old, is_seen; /* there at the snapshot before; reached again for its label */
    uint32_t is_main, is_wanted; /* a frame of the main thread; one of several that it stands for */
    uint32_t numbers, unused; /* among the texts: its attributes that are whole numbers, as "most=500 hits=3" */
};

struct share { /* of what a node dominates: all objects of one type directly below it */
    uint32_t row, type;
    uint64_t count, bytes, new_count, new_bytes, device_bytes;
};

struct sharer { /* what a row refers to, and another dominates: of those objects it is one of several holders */
    uint32_t row, dominator_row, type;
    uint64_t count, direct_count, bytes, device_bytes; /* direct: the others by way of what they and it refer to */
};

struct tie { /* a reference that only C++ has; type: of what it leads to, where that is no object of Python's */
    uint64_t from, to, bytes;
    uint32_t type, count; /* count: operations of an autograd graph */
};

struct saved { /* a storage that an autograd graph keeps; device: its kind, 0 for the CPU, and behind that its number */
    uint64_t address, bytes, device;
};

struct mark { /* what the caller wants to find again; row: itself, or the nearest on its way from the root */
    uint32_t node, row, is_held, unused; /* is_held: a module or a running function leads to it */
};

/* What is added to a graph. ``marks``: addresses, of which the first ``row_count`` get rows of their own. */
struct further {
    const struct tie *ties;
    const uint64_t *marks;
    uint64_t tie_count, mark_count, row_count;
};

struct stray { /* all objects of one type: what of them no name leads to */
    uint64_t count, unreached_count, unreached_bytes, frozen_count, outside_count, outside_bytes, extra_references, loose_count,
        loose_bytes;
    uint32_t type, first_link, links, unused;
};

struct link { /* of a cycle that nothing leads to: an object, and by what name it holds the next */
    uint64_t address;
    uint32_t node, type, label, label_kind, is_alive, unused;
};

struct pin { /* what lies in pools that are mostly free, by what holds it */
    uint64_t count, bytes, pinned_bytes;
    uint32_t row, unused;
};

struct pool { /* of Python's allocator of small objects */
    uint64_t address;
    uint32_t arena, blocks, block_bytes, objects; /* blocks: in use; objects: of the graph, of these */
};

enum { NO_LABEL, ATTRIBUTE, KEY, INDEX, LOCAL, NAMESPACE, CONTENTS, MEMBER, OTHER_KEY, CELL, DEFAULT };

/* What was there at the snapshot before, nearly: two bits of 16 for each object say so, wrongly of 1 in 70 that was not. */
struct past {
    uint64_t bits;
    struct array map;
    pid_t process;
};

/* A variable of a running function: its frame may be gone, and another's lie there, when names are asked for. */
struct local {
    uint64_t holds;
    uint32_t frame, name; /* node; among the texts */
};

/* A node of which one reference in ``stride`` was followed, and that is one of ``nodes`` of which any was. */
struct sample {
    uint32_t node, nodes;
    uint64_t stride;
};

/* An interned string, and of how many tables of keys it is one; a table of keys that several dicts share, once it is
 * counted. Later the node of the string. */
struct key {
    uint64_t address, count;
};

/* Nodes at one distance from the roots, in a graph that is sampled: those of the user's, or the others. */
struct level {
    uint64_t waiting, room, spent; /* still to be read; nodes that may come of them; that came */
    double each; /* nodes that come of one, as is guessed */
};

struct graph {
    /* read by the agent */
    uint64_t nodes, edges, reached, total_bytes, unreachable_count, unreachable_bytes, from_c_count, from_c_bytes;
    uint64_t small_bytes, array_bytes, storage_bytes, row_count, share_count, text_bytes, type_count;
    uint64_t listed_count, frozen_count, stack_count, sharer_count;
    uint64_t native_bytes; /* of malloc, by samples, behind objects that lead to it */
    uint64_t is_sampled; /* there were too many objects to read them all */
    uint64_t key_references; /* of tables of keys to strings, which are no edges */
    uint64_t device_bytes, device_count; /* of storages on devices: beside total_bytes; how many nodes are one */
    struct row *rows;
    struct share *shares;
    char *texts;
    struct kind *kinds;
    uint32_t *stacks;
    struct sharer *sharers;
    uint64_t stray_count, pin_count, arena_count, arena_bytes, pool_bytes, pool_count, block_bytes, held_arena_count, held_pool_count;
    uint64_t held_bytes;
    struct stray *strays;
    struct link *links;
    struct pin *pins;
    struct mark *marks;
    uint64_t mark_count, marked_rows; /* marked_rows: so many have rows of their own */
    struct saved *saved_storages; /* by autograd graphs */
    uint64_t saved_count;
    /* our own */
    struct budget budget;
    struct array address, own, type, references, begin, edge, table, kind_table, row_of, row_table, key;
    struct array local, variable, pool, arena, loose, below, sample, saved, variance; /* variance: of the estimate of each block */
    struct array number, vertex, dominator, retained, path; /* of graph_analyse, where all nodes are to be written */
    struct array kind, text, row, share, stack, sharer, stray, link, copied, mark, pin; /* a forked child has them too */
    uint64_t copied_bytes;
    uint32_t frozen_begin, frozen_end; /* nodes that gc.freeze() hides */
    uint32_t link_count;
    pid_t process; /* whose heap it is: the child of a fork has the names of it, and nothing behind them */
    uint32_t table_mask, kind_mask, row_mask, key_mask, key_count;
    uint32_t waiting, local_count, variable_count, sample_count;
    uint32_t first_block, block_count; /* nodes that are native memory */
    uint64_t node_limit; /* of a graph that is sampled; 0: none */
    const uint64_t *users, *known; /* there, as in bounds */
    uint64_t user_count, known_count;
    uint32_t of_user, users_waiting, reading; /* OF_USER while a node is read that they lead to; how many of these are still to be read; which node is */
    struct level level[2]; /* of others, of the user's */
    uint64_t level_edges; /* that there were when it began */
    uint32_t level_end, counted, counted_for; /* nodes; so many are counted as spent; what is read since is of this level */
    int is_for_file; /* all nodes are to be written */
    uint64_t main_begin, main_end; /* edges to the frames of the main thread */
    uint64_t members_left; /* to look through for names */
    uintptr_t wait[64];
    uint8_t wait_special[64];
};

#define ARRAY(graph, name, of) ((of *)(graph)->name.at)

static inline uint64_t mix(uintptr_t address)
{
    return (uint64_t)(address >> 3) * 0x9E3779B97F4A7C15ull;
}

static inline uint32_t hash(uintptr_t address)
{
    return (uint32_t)(mix(address) >> 32);
}

/* A slot of the table: the node, and above it bits of its address, so that one look mostly tells. 0: empty. */
static inline uint64_t slot_of(uintptr_t address, uint32_t node)
{
    return (uint64_t)(uint32_t)(address >> 3) << 32 | node;
}

static uint64_t table_slots(uint64_t for_nodes)
{
    uint64_t size = 1024;
    while (size < for_nodes * 2)
        size *= 2;
    return size;
}

static int begin_table(struct graph *g, uint64_t for_nodes)
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

static int more_nodes(struct graph *g, uint64_t count)
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
static uint32_t node_of(struct graph *g, uintptr_t address, uint32_t special)
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

/* In a graph that is sampled: what the user's modules and running functions lead to, by no module of a library. In the type
 * of a node that has not been read, and among what waits. */
enum { OF_USER = 1u << 31, WAITS_FOR_USER = 0x80 };

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
static int settle(struct graph *g)
{
    uint64_t *table = g->table.at;
    for (uint32_t i = 0; i < g->waiting; i++)
        __builtin_prefetch(&table[hash(g->wait[i]) & g->table_mask]);
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

static int refer(struct graph *g, uintptr_t address, uint32_t special)
{
    if (!address)
        return 1;
    if (g->waiting == 64)
        return 0; /* no room for them any more, and a tp_traverse that goes on nevertheless */
    g->wait[g->waiting] = address;
    g->wait_special[g->waiting++] = (uint8_t)(special | (g->of_user ? WAITS_FOR_USER : 0));
    return g->waiting < 64 || settle(g);
}

static int visit_edge(object *to, void *graph)
{
    return !refer(graph, (uintptr_t)to, TYPE_NONE);
}

EXPORT void graph_free(struct graph *g)
{
    if (!g)
        return;
    struct budget budget = g->budget;
    struct array self = {g, sizeof *g};
    for (struct array *one = g->process == getpid() ? &g->address : &g->kind; one <= &g->pin; one++)
        drop(&budget, one);
    drop(&budget, &self);
}
