/* The nodes that matter: which they are, and what is told of each. */
#include "reader.h"

static void choose(const float *retained, const uint32_t *links, uint64_t count, uint64_t least_bytes, uint64_t most,
                   uint64_t *threshold)
{
    for (*threshold = least_bytes;; *threshold = *threshold * 5 / 4 + 1) {
        uint64_t chosen = 0;
        for (uint64_t i = 1; i < count; i++)
            chosen += retained[i] >= (float)*threshold && links[i] < LONGEST_CHAIN;
        if (chosen <= most || *threshold >> 60)
            return;
    }
}

/* For each node: how many of its type come before it on the way of its dominators, each of which has nearly
 * nothing but the next. In a list of links they all retain much, and would leave room for nobody else. ``first``: of
 * each link the first of its chain; ``chain``: of that, how many there are. */
static void count_links(const struct work *w, const uint32_t *types, uint64_t count, uint32_t *links, uint32_t *first,
                        uint32_t *chain)
{
    const uint32_t *dominator = w->dominator.at;
    const uint64_t *retained = w->retained.at;
    links[0] = 0;
    for (uint32_t i = 1; i < count; i++) {
        links[i] = 0;
        first[i] = i;
        uint32_t above = dominator[i];
        for (int step = 0; step < 3 && above >= GROUPS; step++, above = dominator[above])
            if (types[above] == types[i]) { /* a dict may lie between */
                links[i] = retained[i] >= retained[above] / 16 * 15 ? links[above] + 1 : 0;
                first[i] = links[i] ? first[above] : i;
                chain[first[i]] += links[i] != 0;
                break;
            }
    }
}

/* What is no object of Python's: it is told at what holds it. */
static int is_no_object(const uint32_t *types, uint32_t node)
{
    return node >= GROUPS && (types[node] == TYPE_STORAGE || types[node] == TYPE_AUTOGRAD || types[node] == TYPE_BLOCK ||
                              types[node] == TYPE_DEVICE);
}

static void mark_way(const struct graph *g, const struct work *w, uint32_t node)
{
    const uint32_t *path = w->path.at;
    const uint32_t *types = g->type.at;
    uint32_t *row_of = g->row_of.at, steps = 0;
    for (uint32_t at = node; steps < LONGEST_WAY && at != NONE && row_of[at] == NONE; at = path[at])
        steps++;
    for (uint32_t at = node; steps < LONGEST_WAY && at != NONE && row_of[at] == NONE; at = path[at])
        row_of[at] = is_no_object(types, at) ? NONE : 0;
}

enum { DEPTH_OF_EXAMPLE = 4 };

/* Of each node the one that retains most of those that hang on it directly; 0: none does. Serves ``first``. */
static const uint32_t *find_heaviest(const struct graph *g, struct work *w, uint32_t count)
{
    uint32_t *heaviest = w->first.at;
    const uint32_t *dominator = w->dominator.at;
    const uint64_t *retained = w->retained.at;
    if (w->first.bytes < count * 4ul)
        return NULL;
    memset(heaviest, 0, count * 4ul);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t known = heaviest[dominator[i]];
        if (!is_no_object(g->type.at, i) && (!known || retained[i] >= retained[known]))
            heaviest[dominator[i]] = i; /* of equals the last: the first member of a list, which stays the same */
    }
    return heaviest;
}

/* A node, and what it is made of. */
static void mark_down(const struct graph *g, const struct work *w, const uint32_t *heaviest, uint32_t at)
{
    for (int depth = 0; at && depth < DEPTH_OF_EXAMPLE; depth++, at = heaviest[at])
        mark_way(g, w, at);
}

/* What only C refers to may be many and small: the largest of the types that retain most. */
static void mark_outside(struct graph *g, const struct work *w, const uint32_t *heaviest, uint64_t least_bytes)
{
    enum { MOST_TYPES_OUTSIDE = 3 };
    struct of_type {
        uint64_t bytes;
        uint32_t largest;
    };
    const uint32_t *dominator = w->dominator.at, *types = g->type.at;
    const uint64_t *retained = w->retained.at;
    struct array table = {0};
    if (!grow(&g->budget, &table, g->type_count * sizeof(struct of_type)))
        return;
    struct of_type *of = table.at;
    memset(of, 0, g->type_count * sizeof *of);
    for (uint32_t i = w->first_of[FROM_C]; i < w->first_of[UNREACHABLE]; i++)
        if (dominator[i] == FROM_C) {
            struct of_type *one = &of[types[i]];
            one->bytes += retained[i];
            if (!one->largest || retained[i] > retained[one->largest])
                one->largest = i;
        }
    for (int k = 0; k < MOST_TYPES_OUTSIDE; k++) {
        uint32_t most = 0;
        for (uint32_t type = FIRST_TYPE; type < g->type_count; type++)
            most = of[type].bytes > of[most].bytes ? type : most;
        if (of[most].bytes < least_bytes)
            break;
        of[most].bytes = 0;
        mark_down(g, w, heaviest, of[most].largest);
    }
    drop(&g->budget, &table);
}

enum { MOST_EXAMPLES = 64, MOST_REFERRERS = 4 };

/* Whoever else refers to an example, however small it is itself: what has several holders is let go of by all of them.
 * And who refers to what refers back to it and hangs where it does, as to the future that a task waits for. */
static void mark_referrers(const struct graph *g, struct work *w, const uint32_t *examples, uint32_t total, uint32_t count)
{
    enum { FAR = 8 }; /* steps up to what hangs where the example does */
    const uint32_t *dominator = w->dominator.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    uint32_t asked[2 * MOST_EXAMPLES], first = 0;
    uint8_t found[2 * MOST_EXAMPLES] = {0}, *place = w->parent.at; /* which has served: of each node that in ``asked``, from 1 */
    memset(place, 0, count * sizeof *place);
    for (uint32_t k = 0; k < total; k++)
        place[asked[k] = examples[k]] = (uint8_t)(k + 1);
    for (int is_beside = 0; is_beside < 2 && first < total; is_beside++) {
        uint32_t last = total;
        for (uint32_t i = 1; i < count; i++) {
            for (uint32_t k = begin[i]; i >= GROUPS && k < begin[i + 1]; k++) {
                uint32_t to = edge[k], at = place[to], above = i;
                if (at <= first || at > last || found[at - 1] == MOST_REFERRERS)
                    continue;
                for (int step = 0; step < FAR && above != to && dominator[above] != dominator[to]; step++)
                    above = dominator[above];
                if (above == to)
                    continue; /* a part of it */
                found[at - 1]++;
                mark_way(g, w, i);
                if (!is_beside && above != i && dominator[above] == dominator[to] && !place[above] && total < 2 * MOST_EXAMPLES) {
                    asked[total] = above;
                    place[above] = (uint8_t)++total;
                }
            }
        }
        first = last;
    }
}

/* Of each node the largest that hangs on it directly and has no row, of the type that has more bytes than all
 * others of these together, if one has (Boyer and Moore, 1981); 0: nothing does. Serves ``parent`` and ``certain``. */
static const uint32_t *find_typical(const struct graph *g, struct work *w, uint32_t count)
{
    const uint32_t *dominator = w->dominator.at, *types = g->type.at, *row_of = g->row_of.at;
    const uint64_t *retained = w->retained.at;
    uint32_t *typical = w->parent.at;
    float *lead = w->certain.at;
    memset(typical, 0, count * sizeof *typical);
    memset(lead, 0, count * sizeof *lead);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t above = dominator[i], known = typical[above];
        float bytes = (float)retained[i] * (float)weight_of(w, i);
        if (i < GROUPS || is_no_object(types, i) || row_of[i] != NONE)
            continue;
        if (known && types[known] == types[i]) {
            lead[above] += bytes;
            typical[above] = retained[i] >= retained[known] ? i : known; /* of equals the last, as above */
        } else if (known && lead[above] >= bytes)
            lead[above] -= bytes;
        else {
            lead[above] = bytes - lead[above];
            typical[above] = i;
        }
    }
    return typical;
}

/* Of what holds much in many parts none of which is worth a row: the largest of them, for what the others are made of.
 * What it marks comes after it in order, and is not looked at again. */
static void mark_examples(const struct graph *g, struct work *w, const uint32_t *heaviest, uint32_t count)
{
    enum { LEAST_SHARE = 100, LEAST_PARTS = 4 }; /* of all that is reached, one in so many; of what it holds itself */
    const uint32_t *row_of = g->row_of.at;
    const uint64_t *retained = w->retained.at;
    const uint32_t *typical = find_typical(g, w, count);
    uint32_t examples[MOST_EXAMPLES], total = 0;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t part = typical[i];
        if (part && i >= GROUPS && row_of[i] != NONE && row_of[part] == NONE &&
            retained[i] >= retained[0] / LEAST_SHARE && retained[part] <= retained[i] / LEAST_PARTS) {
            mark_down(g, w, heaviest, part);
            if (total < MOST_EXAMPLES)
                examples[total++] = part;
        }
    }
    mark_referrers(g, w, examples, total, count);
}

/* Objects of types that are asked for: of each type the nearest to a root, and of those that one object holds the first. */
static void mark_wanted(struct graph *g, struct work *w, uint32_t queued)
{
    enum { MOST_WANTED = 200, MOST_OF_TYPE = 8 };
    const uint32_t *queue = w->queue.at, *path = w->path.at, *types = g->type.at;
    const struct kind *kinds = g->kind.at;
    uint32_t *last = w->first.at, marked = 0; /* which has served: of each node the type of the last one marked below it */
    struct array counts = {0};
    if (w->first.bytes < g->nodes * 4 || !grow(&g->budget, &counts, g->type_count))
        return;
    uint8_t *of_type = counts.at;
    memset(last, 0, g->nodes * 4);
    memset(of_type, 0, g->type_count);
    for (uint32_t i = 0; i < queued && marked < MOST_WANTED; i++) {
        uint32_t node = queue[i], type = node < GROUPS ? TYPE_NONE : types[node];
        if (type < FIRST_TYPE || !kinds[type].is_wanted || last[path[node]] == type || of_type[type] == MOST_OF_TYPE)
            continue;
        of_type[type]++;
        last[path[node]] = type;
        mark_way(g, w, node);
        marked++;
    }
    drop(&g->budget, &counts);
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
            mark_way(g, w, i);
    return 1;
}

/* The rows that there will be are marked in ``row_of``. 0: no room. */
static int choose_rows(struct graph *g, struct work *w, uint32_t queued, uint64_t least_bytes, uint64_t most_rows)
{
    const uint32_t *types = g->type.at;
    uint32_t count = (uint32_t)g->reached, *row_of = g->row_of.at, *chain = w->chain.at;
    uint32_t *links = w->parent.at; /* which has served */
    const float *certain = w->certain.at;
    memset(chain, 0, count * 4ul);
    count_links(w, types, count, links, w->first.at, chain);
    uint64_t threshold;
    choose(certain, links, count, least_bytes, most_rows, &threshold);
    memset(row_of, 0xff, g->nodes * 4);
    row_of[ROOT] = 0;
    for (uint32_t i = 1; i < count; i++)
        if ((certain[i] >= (float)threshold && links[i] < LONGEST_CHAIN) || i < GROUPS)
            mark_way(g, w, i);
    const struct mark *marks = g->mark.at;
    for (uint64_t i = 0; i < g->marked_rows; i++)
        if (marks[i].node != NONE)
            mark_way(g, w, marks[i].node);
    if (!mark_on_devices(g, w, links, least_bytes, most_rows))
        return 0;
    mark_wanted(g, w, queued);
    const uint32_t *heaviest = find_heaviest(g, w, count);
    if (heaviest) {
        mark_outside(g, w, heaviest, least_bytes);
        mark_examples(g, w, heaviest, count);
    }
    return 1;
}

/* What is known of a node without what it holds of one kind or another. */
static struct row row_of_node(const struct graph *g, const struct work *w, const struct past *past, uint32_t node)
{
    const uint32_t *path = w->path.at, *types = g->type.at, *row_of = g->row_of.at, *references = g->references.at;
    const struct kind *kinds = g->kind.at;
    const struct spread *spread = w->spread.at;
    uint32_t before = path[node], links = ((uint32_t *)w->chain.at)[node];
    while (is_no_object(types, before))
        before = path[before];
    int is_frame = node >= GROUPS && types[node] == TYPE_FRAME;
    return (struct row){
        .address = ((uint64_t *)g->address.at)[node],
        .own_bytes = ((uint64_t *)g->own.at)[node],
        .retained_bytes = ((uint64_t *)w->retained.at)[node],
        .native_bytes = ((uint64_t *)w->parts.at)[node],
        .error_bytes = spread ? (uint64_t)sqrtf(spread[node].variance) : 0,
        .node = node,
        .path_row = row_of[before],
        .dominator_row = node,
        .type = node < GROUPS ? 0 : types[node],
        .references = is_frame ? NONE : references[node],
        .owner = is_frame ? references[node] : 0,
        .edges_in = ((uint32_t *)w->edges_in.at)[node],
        .is_old = node < GROUPS || (past && was_there(past, fingerprint(g, node))),
        .is_wanted = node >= GROUPS && types[node] >= FIRST_TYPE && kinds[types[node]].is_wanted,
        .length = links >= LONGEST_CHAIN / 2 ? links + 1ul : NO_LENGTH,
        .limit = NO_LENGTH,
        .hits = NO_LENGTH,
        .misses = NO_LENGTH,
    };
}

/* A row for each node that was marked: the root, then as the ways to them go. 0: no room. */
static int put_rows(struct graph *g, const struct work *w, const struct past *past, uint32_t queued)
{
    const uint32_t *queue = w->queue.at;
    uint32_t *row_of = g->row_of.at;
    uint64_t rows = 1;
    for (uint32_t i = 0; i < queued; i++)
        rows += row_of[queue[i]] != NONE;
    if (!grow_copied(&g->budget, &g->row, rows * sizeof(struct row)))
        return 0;
    g->rows = g->row.at;
    for (uint32_t i = 0; i <= queued; i++) {
        uint32_t node = i ? queue[i - 1] : ROOT;
        if (row_of[node] == NONE)
            continue;
        row_of[node] = (uint32_t)g->row_count;
        g->rows[g->row_count++] = row_of_node(g, w, past, node);
    }
    return 1;
}

/* What rows retain on devices, in storages, and beside what views show. Serves ``parts`` anew. */
static void weigh_tensors(struct graph *g, struct work *w)
{
    uint64_t *parts = w->parts.at;
    const uint64_t *device = w->device.at;
    g->storage_bytes = add_up(g, w, TYPE_STORAGE, parts);
    for (uint64_t i = 0; i < g->row_count; i++) {
        g->rows[i].storage_bytes = parts[g->rows[i].node];
        g->rows[i].device_bytes = device ? device[g->rows[i].node] : 0;
    }
    add_unshown(g, w, parts);
    for (uint64_t i = 0; i < g->row_count; i++)
        g->rows[i].unshown_bytes = parts[g->rows[i].node];
}

/* The names of variables whose frame may be gone when names are asked for. */
static void name_locals(struct graph *g)
{
    const struct local *locals = g->local.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *row_of = g->row_of.at;
    for (uint32_t i = 0; i < g->local_count; i++) {
        uint32_t frame = locals[i].frame;
        for (uint32_t k = begin[frame]; row_of[frame] != NONE && k < begin[frame + 1]; k++) {
            struct row *row = row_of[edge[k]] != NONE ? &g->rows[row_of[edge[k]]] : NULL;
            if (row && row->address == locals[i].holds && row->path_row == row_of[frame] && !row->label_kind) {
                row->label = locals[i].name;
                row->label_kind = locals[i].kind;
            }
        }
    }
}

/* Of each row the nearest above it that dominates it: a way has more nodes than dominators. Of what was to be found again,
 * where that is. */
static void find_rows_above(struct graph *g, const struct work *w)
{
    const uint32_t *dominator = w->dominator.at, *path = w->path.at;
    const uint32_t *row_of = g->row_of.at, *edge = g->edge.at;
    for (uint64_t i = 0; i < g->row_count; i++) {
        uint32_t at = g->rows[i].node;
        do
            at = dominator[at];
        while (row_of[at] == NONE);
        g->rows[i].dominator_row = row_of[at];
    }
    for (uint64_t k = g->main_begin; k < g->main_end; k++)
        if (row_of[edge[k]] != NONE)
            g->rows[row_of[edge[k]]].is_main = 1;
    for (uint64_t i = 0; i < g->mark_count; i++) {
        uint32_t at = g->marks[i].node;
        if (at == NONE)
            continue;
        g->marks[i].is_held = at < w->first_of[RECORDER];
        while (row_of[at] == NONE)
            at = path[at];
        g->marks[i].row = row_of[at];
    }
}

/* Of each row to which several ways lead one more than the shortest: from the nearest row that refers to it, or to what is
 * no row and does. None from below itself. */
static void find_other_ways(struct graph *g, const struct work *w)
{
    enum { MOST_STEPS = 64 };
    const uint32_t *dominator = w->dominator.at, *path = w->path.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *row_of = g->row_of.at;
    for (uint32_t node = GROUPS; node < w->first_of[RECORDER]; node++)
        for (uint32_t k = begin[node]; k < begin[node + 1]; k++) {
            uint32_t to = edge[k], row = row_of[to], from = node, steps = 0;
            if (row == NONE || g->rows[row].also_row || path[to] == node || dominator[to] == path[to])
                continue;
            while (row_of[from] == NONE)
                from = path[from];
            uint32_t at = from;
            while (at >= GROUPS && at != to && steps++ < MOST_STEPS)
                at = path[at];
            if (at < GROUPS && row_of[from] != g->rows[row].path_row)
                g->rows[row].also_row = row_of[from];
        }
}

static int work_out(struct graph *g, struct work *w, const struct past *past, uint64_t least_bytes, uint64_t most_rows,
                    uint32_t most_types)
{
    if (!begin_work(g, w))
        return 0;
    number_nodes(g, w);
    if (!arrange(g, w) || !find_dominators(g, w) || !retain(g, w))
        return 0;
    uint32_t queued = find_paths(g, past, w);
    if (!find_certain(g, w) || !choose_rows(g, w, queued, least_bytes, most_rows) || !put_rows(g, w, past, queued))
        return 0;
    weigh_tensors(g, w);
    name_locals(g);
    find_rows_above(g, w);
    if (!g->is_sampled)
        find_other_ways(g, w);
    if (g->is_for_file && grow(&g->budget, &g->path, g->nodes * 4))
        memcpy(g->path.at, w->path.at, g->nodes * 4); /* others will use it */
    int is_done = share_out(g, w, past, most_types) && weigh_arrays(g, w);
    if (!g->is_sampled) /* else nobody knows who else refers to what */
        is_done = is_done && tell_strays(g, w) && tell_pins(g, w);
    return is_done && find_sharers(g, w, least_bytes);
}

INTERNAL int analyse(struct graph *g, const struct past *past, uint64_t least_bytes, uint64_t most_rows, uint32_t most_types)
{
    struct work work;
    if (g->process != getpid())
        return 0;
    memset(&work, 0, sizeof work);
    int has_past = past && past->process == g->process && !g->is_sampled;
    int is_done = work_out(g, &work, has_past ? past : NULL, least_bytes, most_rows, most_types);
    g->kinds = g->kind.at;
    g->texts = g->text.at;
    g->stacks = g->stack.at;
    if (is_done && g->path.at)
        keep_work(g, &work);
    drop_work(g, &work);
    g->most_bytes = g->budget.most;
    return is_done;
}
