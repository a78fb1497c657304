/* What no name leads to, and what keeps memory from being given back. */

enum { EACH_MEASURE = 8, MOST_STRAYS = 5 * EACH_MEASURE, CYCLES = 10, TRIES = 3, LEAST_GARBAGE = 16, LONGEST_CYCLE = 10, CYCLE_NODES = 4096 };
enum { MOST_PINS = 16 };

static uint64_t measure_of(const struct stray *one, int measure)
{
    switch (measure) {
    case 0:
        return one->unreached_bytes;
    case 1:
        return one->unreached_count;
    case 2:
        return one->outside_bytes;
    case 3:
        return one->loose_bytes;
    default:
        return one->extra_references;
    }
}

/* The shortest way from a node back to itself among what nothing leads to; its length, 0: none. */
static uint32_t find_cycle(const struct graph *g, struct work *w, uint32_t start, uint32_t way[LONGEST_CYCLE])
{
    uint32_t *before = w->parent.at, *queue = w->queue.at, count = 0, length = 0;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *number = w->number.at;
    queue[count++] = start;
    before[start] = start;
    for (uint32_t i = 0; i < count && !length && count < CYCLE_NODES; i++)
        for (uint32_t k = begin[queue[i]]; k < begin[queue[i] + 1] && count < CYCLE_NODES; k++) {
            uint32_t to = edge[k];
            if (to == start) {
                uint32_t node = queue[i];
                for (length = 1; node != start; node = before[node])
                    length++;
                if (length > LONGEST_CYCLE) {
                    length = 0;
                    break;
                }
                node = queue[i];
                for (uint32_t step = length; step-- > 0; node = before[node])
                    way[step] = node;
                break;
            }
            if (number[to] > number[UNREACHABLE] && before[to] == NONE) {
                before[to] = queue[i];
                queue[count++] = to;
            }
        }
    for (uint32_t i = 0; i < count; i++)
        before[queue[i]] = NONE;
    return length;
}

/* An example of a cycle for each of the types of which most is garbage. */
static int find_cycles(struct graph *g, struct work *w, struct stray *strays, uint64_t count)
{
    uint32_t of_type[CYCLES], chosen = 0;
    uint32_t samples[CYCLES][TRIES] = {{0}}, seen[CYCLES] = {0};
    const struct kind *kinds = g->kind.at;
    const uint32_t *types = g->type.at, *number = w->number.at;
    for (; chosen < CYCLES; chosen++) { /* tuples and such say little, and hang on others */
        uint64_t most = LEAST_GARBAGE - 1, found = NONE;
        for (uint64_t i = 0; i < count; i++) {
            int is_taken = !kinds[strays[i].type].is_gc || kinds[strays[i].type].base == TUPLE;
            for (uint32_t k = 0; k < chosen; k++)
                is_taken |= of_type[k] == i;
            if (!is_taken && strays[i].unreached_count > most) {
                most = strays[i].unreached_count;
                found = i;
            }
        }
        if (found == NONE)
            break;
        of_type[chosen] = (uint32_t)found;
    }
    if (!chosen)
        return 1;
    if (!grow_copied(&g->budget, &g->link, CYCLES * LONGEST_CYCLE * sizeof(struct link)))
        return 0;
    for (uint32_t node = GROUPS; node < g->nodes; node++)
        for (uint32_t k = 0; number[node] > number[UNREACHABLE] && k < chosen; k++)
            if (types[node] == strays[of_type[k]].type) {
                for (uint32_t i = 0; i < TRIES; i++)
                    if (seen[k] == strays[of_type[k]].unreached_count * (2 * i + 1) / (2 * TRIES))
                        samples[k][i] = node;
                seen[k]++;
            }
    memset(w->parent.at, 0xff, g->nodes * 4);
    struct link *links = g->link.at;
    for (uint32_t k = 0; k < chosen; k++) {
        uint32_t way[LONGEST_CYCLE], length = 0;
        for (uint32_t i = 0; i < TRIES && !length; i++)
            length = samples[k][i] ? find_cycle(g, w, samples[k][i], way) : 0;
        strays[of_type[k]].first_link = g->link_count;
        strays[of_type[k]].links = length;
        for (uint32_t i = 0; i < length; i++)
            links[g->link_count++] = (struct link){.address = ARRAY(g, address, uintptr_t)[way[i]], .node = way[i], .type = types[way[i]]};
    }
    g->links = links;
    return 1;
}

/* By type: garbage, what C code alone refers to, references that no object has. */
static int tell_strays(struct graph *g, struct work *w)
{
    struct array table = {0};
    if (!grow(&g->budget, &table, g->type_count * sizeof(struct stray)) ||
        !grow_copied(&g->budget, &g->stray, MOST_STRAYS * sizeof(struct stray)))
        return 0;
    struct stray *all = table.at, *strays = g->stray.at;
    const uint32_t *types = g->type.at, *number = w->number.at, *references = g->references.at, *edges_in = w->edges_in.at;
    const uint32_t *dominator = w->dominator.at;
    const uint64_t *own = g->own.at, *retained = w->retained.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        struct stray *one = &all[types[node]];
        one->count++;
        if (number[node] > number[UNREACHABLE]) {
            one->unreached_count++;
            one->unreached_bytes += own[node];
            one->frozen_count += node >= g->frozen_begin && node < g->frozen_end;
        }
        if (references[node] == NONE)
            continue;
        if (dominator[number[node]] == number[FROM_C]) {
            one->outside_count++;
            one->outside_bytes += retained[number[node]];
        }
        if (references[node] < MOST_REFERENCES)
            one->extra_references += references[node] > edges_in[node] ? references[node] - edges_in[node] : 0;
    }
    const struct key *keys = g->key.at; /* of strings the nodes, by now */
    for (uint32_t i = 0; i < g->key_count; i++) {
        uint64_t node = keys[i].address, all_of = references[node], met = edges_in[node];
        uint64_t extra = all_of < MOST_REFERENCES && all_of > met ? all_of - met : 0;
        all[types[node]].extra_references -= keys[i].count < extra ? keys[i].count : extra;
    }
    const struct loose *loose = g->loose.at;
    for (uint32_t type = 0; type < g->type_count; type++) {
        all[type].type = type;
        all[type].loose_count = loose ? loose[type].count : 0;
        all[type].loose_bytes = loose ? loose[type].bytes : 0;
    }
    uint64_t count = 0;
    for (int measure = 0; measure < 5; measure++)
        for (int rank = 0; rank < EACH_MEASURE; rank++) {
            uint32_t best = NONE;
            for (uint32_t type = FIRST_TYPE; type < g->type_count; type++)
                if (all[type].type != NONE && measure_of(&all[type], measure) &&
                    (best == NONE || measure_of(&all[type], measure) > measure_of(&all[best], measure)))
                    best = type;
            if (best == NONE)
                break;
            strays[count++] = all[best];
            all[best].type = NONE; /* taken */
        }
    drop(&g->budget, &table);
    g->strays = strays;
    g->stray_count = count;
    return find_cycles(g, w, strays, count);
}

/* Of what a pool has free: what each block in it keeps from being given back, if that is most of it. */
static uint64_t kept_by_each(const struct pool *pool, const struct arena_of_python *arena, uint64_t blocks_of_arena)
{
    uint64_t free_bytes = pool_size() - 48 - (uint64_t)pool->blocks * pool->block_bytes, each = 0;
    if (free_bytes >= pool_size() / 2)
        each += free_bytes / pool->blocks;
    if (arena->free_pools >= arena->all_pools / 2)
        each += arena->free_pools * pool_size() / blocks_of_arena;
    return each;
}

/* What lies in pools that are mostly free, by the row that holds it. */
static int tell_pins(struct graph *g, struct work *w)
{
    if (!g->pool_count)
        return 1;
    struct array table = {0}, of_row = {0}, of_arena = {0};
    uint64_t size = 1024;
    int is_done = 0;
    while (size < g->pool_count * 2)
        size *= 2;
    if (!grow(&g->budget, &table, size * 4) || !grow(&g->budget, &of_row, g->row_count * sizeof(struct pin)) ||
        !grow(&g->budget, &of_arena, g->arena.bytes / sizeof(struct arena_of_python) * 16) ||
        !grow_copied(&g->budget, &g->pin, MOST_PINS * sizeof(struct pin)))
        goto end;
    uint32_t *slots = table.at, mask = (uint32_t)size - 1;
    struct pool *pools = g->pool.at;
    const struct arena_of_python *arenas = g->arena.at;
    uint64_t(*arena)[2] = of_arena.at; /* blocks in use, objects of the graph */
    memset(slots, 0xff, size * 4);
    for (uint32_t i = 0; i < g->pool_count; i++) {
        uint32_t slot = hash(pools[i].address) & mask;
        while (slots[slot] != NONE)
            slot = (slot + 1) & mask;
        slots[slot] = i;
        arena[pools[i].arena][0] += pools[i].blocks;
    }
    /* For each node by number, the row that it hangs on: dominators have lower numbers. */
    uint32_t *holder = w->path.at, *pool_of = w->queue.at;
    const uint32_t *vertex = w->vertex.at, *dominator = w->dominator.at, *row_of = g->row_of.at, *types = g->type.at;
    const uintptr_t *address = g->address.at;
    for (uint32_t i = 0; i < g->reached; i++) {
        uint32_t node = vertex[i], found = NONE;
        holder[i] = row_of[node] != NONE ? row_of[node] : holder[dominator[i]];
        uint64_t base = address[node] & ~(pool_size() - 1);
        for (uint32_t slot = hash(base) & mask; node >= GROUPS && types[node] >= FIRST_TYPE && slots[slot] != NONE; slot = (slot + 1) & mask)
            if (pools[slots[slot]].address == base) {
                found = slots[slot];
                break;
            }
        pool_of[i] = found;
        if (found == NONE)
            continue;
        g->held_pool_count += !pools[found].objects++;
        g->held_arena_count += !arena[pools[found].arena][1]++;
        g->held_bytes += pools[found].block_bytes;
    }
    struct pin *all = of_row.at, *pins = g->pin.at;
    for (uint32_t i = 0; i < g->reached; i++) {
        if (pool_of[i] == NONE)
            continue;
        const struct pool *pool = &pools[pool_of[i]];
        uint64_t kept = kept_by_each(pool, &arenas[pool->arena], arena[pool->arena][0]);
        if (!kept)
            continue;
        all[holder[i]].count++;
        all[holder[i]].bytes += pool->block_bytes;
        all[holder[i]].pinned_bytes += kept;
    }
    for (g->pin_count = 0; g->pin_count < MOST_PINS; g->pin_count++) {
        uint64_t best = 0;
        for (uint64_t i = 1; i < g->row_count; i++)
            best = all[i].pinned_bytes > all[best].pinned_bytes ? i : best;
        if (!all[best].pinned_bytes)
            break;
        pins[g->pin_count] = all[best];
        pins[g->pin_count].row = (uint32_t)best;
        all[best].pinned_bytes = 0;
    }
    g->pins = pins;
    is_done = 1;
end:
    drop(&g->budget, &table);
    drop(&g->budget, &of_row);
    drop(&g->budget, &of_arena);
    return is_done;
}

/* What keeps memory of devices may retain nearly nothing of the process. Serves ``certain`` anew. */
static int mark_on_devices(struct graph *g, struct work *w, const uint32_t *links, uint64_t least_bytes, uint64_t most_rows)
{
    if (!g->device_count)
        return 1;
    if (!grow(&g->budget, &w->device, g->reached * 8ul))
        return 0;
    uint64_t *device = w->device.at, threshold;
    float *rounded = w->certain.at;
    g->device_bytes = add_up(g, w, TYPE_DEVICE, device);
    for (uint32_t i = 0; i < g->reached; i++)
        rounded[i] = (float)device[i];
    choose(rounded, links, g->reached, least_bytes, most_rows, &threshold);
    for (uint32_t i = 1; i < g->reached; i++)
        if (rounded[i] >= (float)threshold && links[i] < LONGEST_CHAIN)
            mark_way(g, w, ((uint32_t *)w->vertex.at)[i]);
    return 1;
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

/* Without the GIL. ``past``: of the snapshot before, or NULL. Rows: nodes that retain ``least_bytes``, at most
 * ``most_rows`` of them and those above them. Returns 0 where memory does not suffice. */
EXPORT int graph_analyse(struct graph *g, const struct past *past, uint64_t least_bytes, uint64_t most_rows, uint32_t most_types)
{
    if (g->process != getpid())
        return 0;
    if (past && (past->process != g->process || g->is_sampled))
        past = NULL;
    struct work work;
    struct work *w = &work;
    memset(w, 0, sizeof work);
    struct budget *b = &g->budget;
    uint64_t n = g->nodes;
    int is_done = 0;
    struct {
        struct array *array;
        uint64_t bytes;
    } read[] = {{&g->address, n * 8},    {&g->own, n * 8},          {&g->type, n * 4},
                {&g->references, n * 4}, {&g->begin, (n + 1) * 4}, {&g->edge, g->edges * 4}};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) /* there was room for more */
        shrink(b, read[i].array, read[i].bytes);
    struct array *by_node[] = {&w->number, &w->vertex, &w->parent, &w->cursor, &w->edges_in};
    for (size_t i = 0; i < sizeof by_node / sizeof *by_node; i++)
        if (!grow(b, by_node[i], (n + 1) * 4))
            goto end;
    find_names(g);
    drop(b, &g->table);
    memset(w->number.at, 0xff, n * 4);
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *edges_in = w->edges_in.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *references = g->references.at;
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
        for (uint32_t node = GROUPS; node < n; node++)
            if (number[node] == NONE && (group == UNREACHABLE || references[node] > edges_in[node]))
                count = reach(g, w, node, of_group, count);
    }
    g->reached = count;
    if (!grow(b, &w->from_begin, (n + 2) * 4) || !grow(b, &w->from, (g->edges + 1) * 4))
        goto end;
    uint32_t *from_begin = w->from_begin.at, *from = w->from.at;
    for (uint64_t k = 0; k < g->edges; k++)
        from_begin[edge[k] + 2]++;
    for (uint64_t node = 0; node < n; node++)
        from_begin[node + 1] += from_begin[node];
    for (uint32_t node = 0; node < n; node++)
        for (uint32_t k = begin[node]; k < begin[node + 1]; k++)
            from[from_begin[edge[k] + 1]++] = node;
    struct array *by_number[] = {&w->above, &w->semi, &w->label, &w->dominator};
    for (size_t i = 0; i < sizeof by_number / sizeof *by_number; i++)
        if (!grow(b, by_number[i], count * 4ul))
            goto end;
    dominate(w, count, (uint32_t[]){number[THREADS], number[RECORDER], number[FROM_C], number[UNREACHABLE]});
    struct array *no_more[] = {&w->from, &w->from_begin, &w->above, &w->semi, &w->label, &w->cursor};
    for (size_t i = 0; i < sizeof no_more / sizeof *no_more; i++)
        drop(b, no_more[i]);
    if (!weigh_samples(g, w) || !grow(b, &w->retained, count * 8ul) || !grow(b, &w->path, n * 4) ||
        !grow(b, &w->queue, n * 4) || !grow(b, &g->row_of, n * 4))
        goto end;
    uint64_t *retained = w->retained.at;
    const uint64_t *own = g->own.at;
    const uint32_t *dominator = w->dominator.at, *types = g->type.at;
    for (uint32_t i = 0; i < count; i++)
        retained[i] = vertex[i] >= GROUPS && types[vertex[i]] == TYPE_DEVICE ? 0 : own[vertex[i]];
    for (uint32_t i = count; i-- > 1;)
        retained[dominator[i]] += scaled(retained[i], weight_of(w, i));
    g->total_bytes = retained[0];
    g->from_c_bytes = retained[number[FROM_C]];
    g->unreachable_bytes = retained[number[UNREACHABLE]];
    g->from_c_count = number[UNREACHABLE] - number[FROM_C] - 1;
    g->unreachable_count = count - number[UNREACHABLE] - 1;
    struct kind *kinds = g->kind.at;
    for (uint32_t i = number[UNREACHABLE] + 1; i < count; i++)
        kinds[types[vertex[i]]].unreached += vertex[i] < GROUPS + g->listed_count;
    for (uint32_t node = GROUPS; node < n; node++) {
        g->small_bytes += own[node] <= 512 && types[node] >= FIRST_TYPE ? own[node] : 0;
    }
    uint32_t queued = find_paths(g, w);
    uint32_t *links = w->parent.at; /* which has served */
    if (!grow(b, &w->first, n * 4) || !grow(b, &w->chain, count * 4ul) || !grow(b, &w->parts, count * 8ul) ||
        !grow(b, &w->certain, count * 4ul))
        goto end;
    uint64_t *parts = w->parts.at; /* of the samples first, of tensors' storages once the rows have those */
    float *certain = w->certain.at;
    g->native_bytes = add_up(g, w, TYPE_BLOCK, parts);
    doubt(g, w, parts, certain);
    if (!measure_spread(g, w))
        goto end;
    const struct spread *spread = w->spread.at;
    uint32_t *chain = w->chain.at;
    memset(chain, 0, count * 4ul);
    count_links(w, types, count, links, w->first.at, chain);
    uint64_t threshold;
    choose(certain, links, count, least_bytes, most_rows, &threshold);
    uint32_t *row_of = g->row_of.at, *path = w->path.at, *queue = w->queue.at;
    memset(row_of, 0xff, n * 4);
    row_of[ROOT] = 0;
    for (uint32_t i = 1; i < count; i++)
        if ((certain[i] >= (float)threshold && links[i] < LONGEST_CHAIN) || vertex[i] < GROUPS)
            mark_way(g, w, vertex[i]);
    struct mark *marks = g->mark.at;
    for (uint64_t i = 0; i < g->marked_rows; i++)
        if (marks[i].node != NONE)
            mark_way(g, w, marks[i].node);
    if (!mark_on_devices(g, w, links, least_bytes, most_rows))
        goto end;
    mark_wanted(g, w, queued);
    const uint32_t *heaviest = find_heaviest(g, w, count);
    if (heaviest) {
        mark_outside(g, w, heaviest, count, least_bytes);
        mark_examples(g, w, heaviest, count);
    }
    uint64_t rows = 1;
    for (uint32_t i = 0; i < queued; i++)
        rows += row_of[queue[i]] != NONE;
    if (!grow_copied(b, &g->row, rows * sizeof(struct row)))
        goto end;
    struct row *row = g->row.at;
    rows = 0;
    for (uint32_t i = 0; i <= queued; i++) { /* the root, then as the ways to them go */
        uint32_t node = i ? queue[i - 1] : ROOT;
        if (row_of[node] == NONE)
            continue;
        uint32_t is_old = node < GROUPS || (past && was_there(past, fingerprint(g, node)));
        row_of[node] = (uint32_t)rows;
        uint32_t before = path[node];
        while (is_no_object(types, before))
            before = path[before];
        row[rows++] = (struct row){
            .address = ((uint64_t *)g->address.at)[node], .own_bytes = own[node], .retained_bytes = retained[number[node]],
            .native_bytes = parts[number[node]],
            .error_bytes = spread ? (uint64_t)sqrtf(spread[number[node]].variance) : 0, .node = node, .path_row = row_of[before], .dominator_row = node,
            .type = node < GROUPS ? 0 : types[node],
            .references = references[node], .edges_in = edges_in[node], .is_old = is_old,
            .is_wanted = node >= GROUPS && types[node] >= FIRST_TYPE && kinds[types[node]].is_wanted,
            .length = chain[number[node]] >= LONGEST_CHAIN / 2 ? chain[number[node]] + 2ul : 0,
        };
        if (node >= GROUPS && types[node] == TYPE_FRAME) {
            row[rows - 1].owner = references[node];
            row[rows - 1].references = NONE;
        }
    }
    g->storage_bytes = add_up(g, w, TYPE_STORAGE, parts);
    for (uint64_t i = 0; i < rows; i++)
        row[i].storage_bytes = parts[number[row[i].node]];
    const uint64_t *device = w->device.at;
    for (uint64_t i = 0; device && i < rows; i++)
        row[i].device_bytes = device[number[row[i].node]];
    const struct local *locals = g->local.at;
    for (uint32_t i = 0; i < g->local_count; i++) {
        if (row_of[locals[i].frame] == NONE)
            continue;
        for (uint32_t k = begin[locals[i].frame]; k < begin[locals[i].frame + 1]; k++) {
            uint32_t found = row_of[edge[k]];
            if (found != NONE && row[found].address == locals[i].holds && row[found].path_row == row_of[locals[i].frame] &&
                !row[found].label_kind) {
                row[found].label = locals[i].name;
                row[found].label_kind = LOCAL;
            }
        }
    }
    for (uint64_t i = 0; i < rows; i++) { /* the nearest above that has a row: a way has more nodes than dominators */
        uint32_t at = number[row[i].node];
        do
            at = dominator[at];
        while (row_of[vertex[at]] == NONE);
        row[i].dominator_row = row_of[vertex[at]];
    }
    for (uint64_t k = g->main_begin; k < g->main_end; k++)
        if (row_of[edge[k]] != NONE)
            row[row_of[edge[k]]].is_main = 1;
    for (uint64_t i = 0; i < g->mark_count; i++) {
        uint32_t at = marks[i].node;
        if (at == NONE)
            continue;
        marks[i].is_held = number[at] < number[RECORDER];
        while (row_of[at] == NONE)
            at = path[at];
        marks[i].row = row_of[at];
    }
    g->rows = row;
    g->row_count = rows;
    if (g->is_for_file && grow(b, &g->path, n * 4))
        memcpy(g->path.at, path, n * 4); /* others will use it */
    is_done = share_out(g, w, past, most_types) && weigh_arrays(g, w);
    if (!g->is_sampled) /* else nobody knows who else refers to what */
        is_done = is_done && tell_strays(g, w) && tell_pins(g, w);
    is_done = is_done && find_sharers(g, w, least_bytes);
    g->kinds = g->kind.at;
    g->texts = g->text.at;
    g->stacks = g->stack.at;
    if (is_done && g->path.at)
        keep_work(g, w);
end:
    drop_work(g, w);
    return is_done;
}
