/* A graph is read, and gets what the collector is not told. */
#include "reader.h"

INTERNAL void drop_room(struct room *room)
{
    struct budget none = {0};
    struct array *arrays = &room->listed;
    for (size_t i = 0; i < sizeof *room / sizeof *arrays; i++)
        drop(&none, &arrays[i]);
}

INTERNAL int make_room(struct room *room, uint64_t bytes, uint64_t objects, uint64_t nodes, uint64_t edges)
{
    struct budget budget = {.left = bytes};
    struct array *arrays = &room->listed;
    uint64_t sizes[] = {objects * 8, table_slots(nodes) * 8, nodes * 8, nodes * 8, nodes * 4, nodes * 4, nodes * 4 + 4, edges * 4};
    size_t made = 0;
    while (made < sizeof *room / sizeof *arrays && grow(&budget, &arrays[made], sizes[made]))
        touch(&arrays[made++]);
    if (budget.is_spent)
        drop_room(room);
    return !budget.is_spent;
}

static void move_in(struct graph *g, struct room *room)
{
    struct array *to[] = {&g->table, &g->address, &g->own, &g->type, &g->references, &g->begin, &g->edge}, *from = &room->table;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        move(&g->budget, to[i], &from[i]);
}

/* Of the nodes that the collector listed, which end at ``end``. Of a graph that is sampled no types, and some objects of each
 * that is wanted: nobody counts by them. 0 where Python has no memory for the lists. */
static int sweep_nodes(struct graph *g, struct sweep *sweep, uint32_t end)
{
    struct array picked = {0};
    if (!grow(&g->budget, &picked, g->type_count))
        return 1; /* nothing is said of types, then */
    uint8_t *picks = picked.at;
    const uint32_t *types = g->type.at;
    const struct kind *kinds = g->kind.at;
    const uintptr_t *address = g->address.at;
    int is_done = 1;
    for (uint32_t type = FIRST_TYPE; is_done && type < g->type_count; type++) {
        int is_counted = kinds[type].listed && sweep->type_count < sweep->most_types;
        if (is_counted) {
            sweep->counts[sweep->type_count++] = kinds[type].listed;
            is_done = !L.list_append(sweep->types, (object *)kinds[type].type);
        }
        if ((is_counted || g->is_sampled) && is_among(sweep->wanted, sweep->wanted_count, (uintptr_t)kinds[type].type))
            picks[type] = 1;
    }
    for (uint32_t node = GROUPS; is_done && node < end; node++) {
        if (types[node] < FIRST_TYPE)
            continue;
        object *one = (object *)address[node];
        if (one == sweep->picked || one == sweep->types)
            continue; /* they would hold each other, and all that is in them */
        if (!picks[types[node]])
            continue;
        is_done = !L.list_append(sweep->picked, one);
    }
    drop(&g->budget, &picked);
    return is_done;
}

/* Soon to be read: the object, and nearer to its turn the members of a list or the keys of a dict. */
static inline void fetch_ahead(const struct graph *g, uint32_t node)
{
    enum { SOON = 24, NEXT = 10 };
    __asm__ volatile(""); /* else gcc takes a function that only fetches ahead for one without effect */
    if (node + SOON < g->nodes) {
        const char *soon = (const char *)ARRAY(g, address, uintptr_t)[node + SOON];
        __builtin_prefetch(soon);
        __builtin_prefetch(soon + 64);
    }
    if (node + NEXT >= g->nodes || (ARRAY(g, type, uint32_t)[node + NEXT] & ~OF_USER) != TYPE_NONE)
        return;
    const object *next = (object *)ARRAY(g, address, uintptr_t)[node + NEXT];
    if (next->type == L.list)
        __builtin_prefetch(pointer_at(next, 24));
    else if (next->type == L.dict)
        __builtin_prefetch(pointer_at(next, 32));
}

enum { FIRST_SAMPLED = 1 << 15 }; /* half of the nodes that there is room for at first, in a graph that is sampled */

/* The first types, which are none of Python's. */
static void put_first_types(struct graph *g)
{
    static const struct {
        uint32_t type;
        const char *name;
    } types[] = {{TYPE_STORAGE, "torch storage"}, {TYPE_AUTOGRAD, "torch autograd graph"}, {TYPE_ARROW, "Arrow's data"},
                 {TYPE_BLOCK, "native memory"}, {TYPE_DEVICE, "torch storage on a device"}, {TYPE_FRAME, "frame"}};
    put_text(g, "", 0);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        ARRAY(g, kind, struct kind)[types[i].type].text = put_text(g, types[i].name, strlen(types[i].name));
}

/* An empty graph, with room for so many objects. NULL: there is no memory for it, and none is left of ``budget``. */
static struct graph *begin_graph(const struct bounds *bounds, struct budget *budget, uint64_t count, int is_sampled)
{
    struct array self = {0};
    if ((is_sampled && !bounds->nodes) || !grow_copied(budget, &self, sizeof(struct graph)))
        return NULL;
    struct graph *g = self.at;
    g->is_sampled = (uint64_t)is_sampled;
    g->node_limit = is_sampled ? bounds->nodes : 0;
    g->users = bounds->users;
    g->user_count = bounds->user_count;
    g->known = bounds->known;
    g->known_count = bounds->known_count;
    /* Fresh memory is made zero by the kernel as it is touched, while the GIL is held: a table for all that a sample might
     * have would cost more than reading what it mostly has. */
    count = !is_sampled ? count : bounds->nodes / 2 < FIRST_SAMPLED ? bounds->nodes / 2 : FIRST_SAMPLED;
    g->budget = *budget;
    g->process = getpid();
    g->kind_mask = 4095;
    g->type_count = FIRST_TYPE;
    if (bounds->room)
        move_in(g, bounds->room);
    if (!grow(&g->budget, &g->kind_table, 4096 * 4) || !grow_copied(&g->budget, &g->text, 4096) ||
        !grow_copied(&g->budget, &g->kind, FIRST_TYPE * sizeof(struct kind)) ||
        !begin_table(g, g->table.at ? count : count * 2 + GROUPS) || !more_nodes(g, count * 2 + 4096)) {
        *budget = g->budget;
        free_graph(g);
        return NULL;
    }
    memset(g->kind_table.at, 0xff, 4096 * 4);
    put_first_types(g);
    g->nodes = GROUPS;
    return g;
}

/* The frames of all threads that run code of ours, or those of all others. */
static int read_threads(struct graph *g, const void *recorder, const void *main, int own)
{
    g->of_user = g->is_sampled && !own ? OF_USER : 0;
    for (void *thread = L.first_thread(L.main_interpreter()); thread; thread = L.next_thread(thread)) {
        int is_main = thread == main && !own;
        if (is_main && !settle(g))
            return 0;
        g->main_begin = is_main ? g->edges : g->main_begin;
        if (!list_frames(g, thread, thread == recorder, own) || (is_main && !settle(g)))
            return 0;
        g->main_end = is_main ? g->edges : g->main_end;
    }
    if (g->of_user && !list_stopped(g))
        return 0;
    g->of_user = 0;
    return settle(g);
}

/* The edges of the groups, which come first. Those of the last two are found out once all others are known. */
static int read_groups(struct graph *g, const object *modules, const void *recorder, const void *main)
{
    uint32_t *begin = g->begin.at;
    begin[ROOT] = begin[MODULES] = 0;
    if (!refer(g, (uintptr_t)modules, TYPE_NONE) || !settle(g))
        return 0;
    ARRAY(g, begin, uint32_t)[THREADS] = (uint32_t)g->edges;
    if (!read_threads(g, recorder, main, 0))
        return 0;
    ARRAY(g, begin, uint32_t)[RECORDER] = (uint32_t)g->edges;
    if (!read_threads(g, recorder, main, 1))
        return 0;
    ARRAY(g, begin, uint32_t)[FROM_C] = ARRAY(g, begin, uint32_t)[UNREACHABLE] = (uint32_t)g->edges;
    return 1;
}

/* A node for each object that the collector tracks, those last that gc.freeze() hides. */
static int put_listed(struct graph *g, const uintptr_t *listed, uint64_t count, uint64_t first_frozen)
{
    if (!g->is_sampled && !put_objects(g, listed, first_frozen))
        return 0;
    g->listed_count = g->is_sampled ? 0 : g->nodes - GROUPS; /* what gc.get_objects() lists */
    g->frozen_begin = (uint32_t)g->nodes;
    if (!g->is_sampled && !put_objects(g, listed + first_frozen, count - first_frozen))
        return 0;
    g->frozen_count = g->nodes - g->frozen_begin;
    g->frozen_end = (uint32_t)g->nodes;
    g->counted = g->level_end = GROUPS;
    return 1;
}

/* Each node, and those that it leads to. */
static int read_nodes(struct graph *g)
{
    for (uint32_t node = GROUPS;; node++) {
        fetch_ahead(g, node);
        int is_next_level = g->node_limit && node == g->level_end;
        if ((node == g->nodes || is_next_level) && !settle(g))
            return 0;
        if (node == g->nodes)
            break;
        if (is_next_level)
            begin_level(g, node);
        ARRAY(g, begin, uint32_t)[node] = (uint32_t)(g->edges + g->waiting);
        if (!read_node(g, node))
            return 0;
    }
    ARRAY(g, begin, uint32_t)[g->nodes] = (uint32_t)g->edges;
    return 1;
}

/* What other threads run, by its lines. */
static int put_stacks(struct graph *g, const void *recorder, const void *main)
{
    enum { MOST_THREADS = 500 };
    int threads = 0;
    for (void *thread = L.first_thread(L.main_interpreter()); thread && threads < MOST_THREADS; thread = L.next_thread(thread), threads++)
        if (thread != recorder && thread != main && !put_frames(g, thread))
            return 0;
    return 1;
}

static void count_listed(struct graph *g)
{
    for (uint32_t node = GROUPS; node < GROUPS + g->listed_count; node++) {
        struct kind *kind = &ARRAY(g, kind, struct kind)[ARRAY(g, type, uint32_t)[node]];
        kind->listed++;
        kind->listed_bytes += ARRAY(g, own, uint64_t)[node];
    }
}

/* What is added once all nodes are read, of which the collector is not told. */
static int read_rest(struct graph *g, uint64_t began_ns, const void *recorder, const void *main)
{
    if (!tie_variables(g))
        return 0;
    weigh_columns(g);
    if (!find_blocks(g, began_ns))
        return 0;
    weigh_storages(g);
    find_views(g);
    read_pools(g);
    return put_stacks(g, recorder, main);
}

/* The graph of what is listed, or a sample of it. NULL: there is no room for it. */
static struct graph *read_graph(object *modules, void *recorder, void *main, const struct bounds *bounds, struct sweep *sweep,
                                struct budget *budget, struct array *list, uint64_t count, uint64_t first_frozen, int is_sampled)
{
    uint64_t began_ns = cpu_ns();
    struct graph *g = begin_graph(bounds, budget, count, is_sampled);
    int is_done = g && read_groups(g, modules, recorder, main) && put_listed(g, list->at, count, first_frozen);
    drop(g ? &g->budget : budget, list);
    is_done = is_done && read_nodes(g) && read_rest(g, began_ns, recorder, main);
    if (is_done)
        count_listed(g);
    if (!is_done || (sweep && !sweep_nodes(g, sweep, is_sampled ? (uint32_t)g->nodes : (uint32_t)(GROUPS + g->listed_count)))) {
        if (g)
            *budget = g->budget;
        free_graph(g);
        return NULL;
    }
    return g;
}

INTERNAL struct graph *take_graph(object *modules, void *recorder, void *main, struct bounds *bounds, struct sweep *sweep)
{
    struct budget budget = {.left = bounds->bytes, .is_kept = bounds->is_kept != 0};
    struct array list = {0};
    bounds->is_collecting = L.is_collecting && *L.is_collecting;
    if (!L.generations || bounds->is_collecting)
        return NULL;
    uint64_t fit = bounds->bytes / bounds->bytes_each, most = bounds->objects < fit ? bounds->objects : fit, first_frozen;
    if (bounds->room)
        move(&budget, &list, &bounds->room->listed);
    uint64_t count = bounds->count = list_objects(&budget, &list, most, &first_frozen);
    int is_sampled = count > most;
    if (is_sampled)
        drop(&budget, &list);
    struct graph *g = read_graph(modules, recorder, main, bounds, sweep, &budget, &list, count, first_frozen, is_sampled);
    /* What is listed are containers: a few may have far more members, strings and numbers, than there is room for. */
    if (!g && !is_sampled) {
        budget = (struct budget){.left = bounds->bytes, .is_kept = bounds->is_kept != 0};
        g = read_graph(modules, recorder, main, bounds, sweep, &budget, &list, 0, 0, 1);
    }
    if (!g)
        return NULL;
    g->kinds = g->kind.at;
    g->texts = g->text.at;
    return g;
}

/* A node for what a tie leads to; NONE where it leads to nothing known, or there is no room. */
INTERNAL uint32_t node_of_tie(struct graph *g, const struct tie *tie)
{
    if (!tie->type)
        return node_at(g, tie->to);
    uint64_t before = g->nodes;
    uint32_t node = node_of(g, tie->to, tie->type);
    if (node == NONE)
        return NONE;
    if (node >= before) {
        ARRAY(g, own, uint64_t)[node] = 0;
        ARRAY(g, references, uint32_t)[node] = 0;
        g->device_count += tie->type == TYPE_DEVICE;
    }
    if (tie->type == TYPE_AUTOGRAD)
        ARRAY(g, own, uint64_t)[node] += (uint64_t)tie->count * OPERATION_BYTES;
    else if (!ARRAY(g, own, uint64_t)[node] && !(tie->bytes >> MOST_BITS))
        ARRAY(g, own, uint64_t)[node] = tie->bytes;
    return node;
}

/* Of each node, whether another one leads to it; NULL where there is no room. */
INTERNAL const uint8_t *referred(struct graph *g, struct array *array)
{
    if (!grow(&g->budget, array, g->nodes))
        return NULL;
    uint8_t *flags = array->at;
    const uint32_t *edge = g->edge.at;
    for (uint64_t k = 0; k < g->edges; k++)
        flags[edge[k]] = 1;
    return flags;
}

INTERNAL int tell_referred(struct graph *g, const uint64_t *addresses, uint64_t count, uint8_t *is_referred)
{
    struct array array = {0};
    const uint8_t *flags = referred(g, &array);
    if (!flags)
        return 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t node = node_at(g, addresses[i]);
        is_referred[i] = node != NONE && flags[node];
    }
    drop(&g->budget, &array);
    return 1;
}

INTERNAL int add_further(struct graph *g, const struct further *further)
{
    struct array array = {0};
    uint64_t nodes = g->nodes, count = 0;
    int is_done = grow(&g->budget, &array, (further->tie_count + 1) * sizeof(struct pair)) &&
                  grow_copied(&g->budget, &g->mark, (further->mark_count + 1) * sizeof(struct mark));
    struct pair *pairs = array.at;
    for (uint64_t i = 0; is_done && i < further->tie_count; i++) {
        uint32_t from = node_at(g, further->ties[i].from), to = from == NONE ? NONE : node_of_tie(g, &further->ties[i]);
        if (to != NONE && to != from && from >= GROUPS)
            pairs[count++] = (struct pair){from, to};
    }
    for (uint64_t node = nodes; node < g->nodes; node++)
        ARRAY(g, begin, uint32_t)[node + 1] = (uint32_t)g->edges;
    is_done = is_done && insert_all(g, pairs, count);
    struct mark *marks = g->mark.at;
    for (uint64_t i = 0; is_done && i < further->mark_count; i++)
        marks[i] = (struct mark){.node = node_at(g, further->marks[i]), .row = NONE};
    g->marks = marks;
    g->mark_count = is_done ? further->mark_count : 0;
    g->marked_rows = is_done ? further->row_count : 0;
    drop(&g->budget, &array);
    return is_done;
}
