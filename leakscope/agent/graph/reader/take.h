/* A graph is read, and gets what the collector is not told. */

/* What the agent wants to have of all objects while it has the GIL: lists of Python's, which it fills. */
struct sweep {
    const uint64_t *wanted; /* addresses of types, rising */
    uint64_t wanted_count;
    object *picked, *types; /* objects of types wanted, types of all objects */
    uint64_t *counts; /* by type, in the order of ``types``, as many as there is room for */
    uint64_t most_types, type_count;
};

/* Memory for a graph that is about to be read. To make fresh pages zero takes the kernel up to a fifth of the time that
 * reading takes, for which the GIL would be held. */
struct room {
    struct array listed, table, address, own, type, references, begin, edge;
};

/* Without the GIL, in any thread. */
EXPORT void graph_drop_room(struct room *room)
{
    struct budget none = {0};
    struct array *arrays = &room->listed;
    for (size_t i = 0; i < sizeof *room / sizeof *arrays; i++)
        drop(&none, &arrays[i]);
}

/* The same. For what is expected; where there is more, the arrays grow. ``bytes``: in all. 0: it would be more. */
EXPORT int graph_make_room(struct room *room, uint64_t bytes, uint64_t objects, uint64_t nodes, uint64_t edges)
{
    struct budget budget = {bytes, 0, 0};
    struct array *arrays = &room->listed;
    uint64_t sizes[] = {objects * 8, table_slots(nodes) * 8, nodes * 8, nodes * 8, nodes * 4, nodes * 4, nodes * 4 + 4, edges * 4};
    size_t made = 0;
    while (made < sizeof *room / sizeof *arrays && grow(&budget, &arrays[made], sizes[made]))
        touch(&arrays[made++]);
    if (budget.is_spent)
        graph_drop_room(room);
    return !budget.is_spent;
}

static void move_in(struct graph *g, struct room *room)
{
    struct array *to[] = {&g->table, &g->address, &g->own, &g->type, &g->references, &g->begin, &g->edge}, *from = &room->table;
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        move(&g->budget, to[i], &from[i]);
}

/* How much may be read, and what was found. */
struct bounds {
    uint64_t bytes, bytes_each; /* in all, and at most for each object while it is worked out */
    uint64_t objects; /* that the collector tracks */
    uint64_t nodes; /* where there are more: so many, the nearest to the roots; 0: then nothing is read */
    const uint64_t *users, *known; /* addresses, rising: of the namespaces of the user's own modules; of what held much before */
    uint64_t user_count, known_count;
    uint64_t count; /* of the objects; above ``objects``: at least so many */
    uint64_t is_collecting; /* nothing was read: the heap is being taken apart */
    struct room *room; /* or NULL. What is used of it is the graph's */
    uint64_t is_kept; /* what is read has the room that is kept (graph_keep_room), of ``bytes`` */
};

/* Of the nodes that the collector listed, which end at ``end``. Of a graph that is sampled no types, and some objects of each
 * that is wanted: nobody counts by them. 0 where Python has no memory for the lists. */
static int sweep_nodes(struct graph *g, struct sweep *sweep, uint32_t end)
{
    enum { ALL = 255, SOME = 64 };
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
            picks[type] = g->is_sampled ? SOME : ALL;
    }
    for (uint32_t node = GROUPS; is_done && node < end; node++) {
        if (types[node] < FIRST_TYPE)
            continue;
        object *one = (object *)address[node];
        if (one == sweep->picked || one == sweep->types)
            continue; /* they would hold each other, and all that is in them */
        if (!picks[types[node]])
            continue;
        picks[types[node]] -= (uint8_t)g->is_sampled;
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

/* With the GIL. ``modules``: the dict of all modules. ``recorder``, ``main``: states of the agent's thread, or NULL, and
 * of the main one.
 * ``sweep``: may be NULL. NULL where the bounds do not allow it, or Python is not as it was found. */
EXPORT struct graph *graph_take(object *modules, void *recorder, void *main, struct bounds *bounds, struct sweep *sweep)
{
    enum { FIRST_SAMPLED = 1 << 15 }; /* half of the nodes that there is room for at first */
    struct budget budget = {bounds->bytes, 0, bounds->is_kept != 0};
    struct array self = {0}, list = {0};
    uint64_t began_ns = cpu_ns();
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
    if ((is_sampled && !bounds->nodes) || !grow_copied(&budget, &self, sizeof(struct graph))) {
        drop(&budget, &list);
        return NULL;
    }
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
    g->budget = budget;
    g->process = getpid();
    g->kind_mask = 4095;
    g->type_count = FIRST_TYPE;
    if (bounds->room)
        move_in(g, bounds->room);
    if (!grow(&g->budget, &g->kind_table, 4096 * 4) || !grow_copied(&g->budget, &g->text, 4096) ||
        !grow_copied(&g->budget, &g->kind, FIRST_TYPE * sizeof(struct kind)) ||
        !begin_table(g, g->table.at ? count : count * 2 + GROUPS) || !more_nodes(g, count * 2 + 4096))
        goto failed;
    memset(g->kind_table.at, 0xff, 4096 * 4);
    put_text(g, "", 0);
    ARRAY(g, kind, struct kind)[TYPE_STORAGE].text = put_text(g, "torch storage", 13);
    ARRAY(g, kind, struct kind)[TYPE_AUTOGRAD].text = put_text(g, "torch autograd graph", 20);
    ARRAY(g, kind, struct kind)[TYPE_ARROW].text = put_text(g, "Arrow's data", 12);
    ARRAY(g, kind, struct kind)[TYPE_BLOCK].text = put_text(g, "native memory", 13);
    ARRAY(g, kind, struct kind)[TYPE_DEVICE].text = put_text(g, "torch storage on a device", 25);
    ARRAY(g, kind, struct kind)[TYPE_FRAME].text = put_text(g, "frame", 5);
    g->nodes = GROUPS;
    uint32_t *begin = g->begin.at;
    /* The edges of the groups come first. Those of the last two are found out once all others are known. */
    begin[ROOT] = begin[MODULES] = 0;
    if (!refer(g, (uintptr_t)modules, TYPE_NONE) || !settle(g))
        goto failed;
    ARRAY(g, begin, uint32_t)[THREADS] = (uint32_t)g->edges;
    void *interpreter = L.main_interpreter();
    for (int own = 0; own < 2; own++) {
        if (own)
            ARRAY(g, begin, uint32_t)[RECORDER] = (uint32_t)g->edges;
        g->of_user = is_sampled && !own ? OF_USER : 0;
        for (void *thread = L.first_thread(interpreter); thread; thread = L.next_thread(thread)) {
            int is_main = thread == main && !own;
            if (is_main && !settle(g))
                goto failed;
            g->main_begin = is_main ? g->edges : g->main_begin;
            if (!list_frames(g, thread, thread == recorder, own) || (is_main && !settle(g)))
                goto failed;
            g->main_end = is_main ? g->edges : g->main_end;
        }
        if (!settle(g))
            goto failed;
    }
    g->of_user = 0;
    ARRAY(g, begin, uint32_t)[FROM_C] = ARRAY(g, begin, uint32_t)[UNREACHABLE] = (uint32_t)g->edges;
    if (!is_sampled && !put_objects(g, list.at, first_frozen))
        goto failed;
    uint32_t listed = is_sampled ? GROUPS : (uint32_t)g->nodes; /* what gc.get_objects() lists */
    g->frozen_begin = (uint32_t)g->nodes;
    if (!is_sampled && !put_objects(g, (uintptr_t *)list.at + first_frozen, count - first_frozen))
        goto failed;
    drop(&g->budget, &list);
    g->listed_count = listed - GROUPS;
    g->frozen_count = g->nodes - g->frozen_begin;
    g->frozen_end = (uint32_t)g->nodes;
    g->counted = g->level_end = GROUPS;
    for (uint32_t node = GROUPS;; node++) {
        fetch_ahead(g, node);
        int is_next_level = g->node_limit && node == g->level_end;
        if ((node == g->nodes || is_next_level) && !settle(g))
            goto failed;
        if (node == g->nodes)
            break;
        if (is_next_level)
            begin_level(g, node);
        ARRAY(g, begin, uint32_t)[node] = (uint32_t)(g->edges + g->waiting);
        if (!read_node(g, node))
            goto failed;
    }
    ARRAY(g, begin, uint32_t)[g->nodes] = (uint32_t)g->edges;
    if (!tie_variables(g) || !find_blocks(g, began_ns))
        goto failed;
    weigh_storages(g);
    weigh_arrow(g);
    if (!is_sampled)
        read_pools(g);
    enum { MOST_THREADS = 500 };
    int threads = 0;
    for (void *thread = L.first_thread(interpreter); thread && threads < MOST_THREADS; thread = L.next_thread(thread), threads++)
        if (thread != recorder && thread != main && !put_frames(g, thread))
            goto failed;
    for (uint32_t node = GROUPS; node < listed; node++) {
        struct kind *kind = &ARRAY(g, kind, struct kind)[ARRAY(g, type, uint32_t)[node]];
        kind->listed++;
        kind->listed_bytes += ARRAY(g, own, uint64_t)[node];
    }
    if (sweep && !sweep_nodes(g, sweep, is_sampled ? (uint32_t)g->nodes : listed))
        goto failed;
    g->kinds = g->kind.at;
    g->texts = g->text.at;
    return g;
failed:
    drop(&g->budget, &list);
    graph_free(g);
    return NULL;
}

/* A node for what a tie leads to; NONE where it leads to nothing known, or there is no room. */
static uint32_t node_of_tie(struct graph *g, const struct tie *tie)
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
static const uint8_t *referred(struct graph *g, struct array *array)
{
    if (!grow(&g->budget, array, g->nodes))
        return NULL;
    uint8_t *flags = array->at;
    const uint32_t *edge = g->edge.at;
    for (uint64_t k = 0; k < g->edges; k++)
        flags[edge[k]] = 1;
    return flags;
}

/* With the GIL, right after graph_take: ``is_referred``, of each of these objects, says then whether another one refers
 * to it, or a running function. 0 where there is no room. */
EXPORT int graph_referred(struct graph *g, const uint64_t *addresses, uint64_t count, uint8_t *is_referred)
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

/* With the GIL, before anything that was read can be gone. 0 where there is no room: then the graph is as it was, or lacks
 * some of it. */
EXPORT int graph_add(struct graph *g, const struct further *further)
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
