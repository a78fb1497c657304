/* What is reached from where, dominators, retained bytes, and the nodes that matter. */

/* While it is worked out; by node, or by the number that a node got as it was first reached. */
struct work {
    struct array number, vertex, parent, above, semi, label, cursor, dominator, edges_in, from, from_begin, retained, path, queue,
        children, first, chain, parts, certain, device, weight, spread;
};

static void drop_work(struct graph *g, struct work *w)
{
    for (struct array *one = &w->number; one <= &w->spread; one++)
        drop(&g->budget, one);
}

static void keep_work(struct graph *g, struct work *w)
{
    g->number = w->number;
    g->vertex = w->vertex;
    g->dominator = w->dominator;
    g->retained = w->retained;
    w->number = w->vertex = w->dominator = w->retained = (struct array){0};
}

/* Depth first from a node that is not reached yet; ``count``: how many are. */
static uint32_t reach(struct graph *g, struct work *w, uint32_t root, uint32_t above, uint32_t count)
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *cursor = w->cursor.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    number[root] = count;
    vertex[count] = root;
    parent[count++] = above;
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

/* Of those on the way up to what is linked, the one whose semidominator is least. */
static uint32_t least_above(struct work *w, uint32_t one, uint32_t linked, uint32_t *stack)
{
    uint32_t *above = w->above.at, *label = w->label.at, *semi = w->semi.at;
    if (above[one] < linked)
        return label[one];
    uint32_t depth = 0;
    do {
        stack[depth++] = one;
        one = above[one];
    } while (above[one] >= linked);
    uint32_t before = one, least = label[one];
    do {
        one = stack[--depth];
        above[one] = above[before];
        if (semi[least] < semi[label[one]])
            label[one] = label[before];
        else
            least = label[one];
        before = one;
    } while (depth);
    return label[one];
}

/* Immediate dominators by semidominators and nearest common ancestors (Georgiadis, 2005).
 *
 * What is reached by a name of a module is held by it, whoever else refers to it: a frame, which lets go when it ends,
 * the recorder, C code, garbage. So references from a group of ``later`` (their first numbers, rising) to what was
 * reached before it do not count. */
static void dominate(struct work *w, uint32_t count, const uint32_t later[4])
{
    uint32_t *number = w->number.at, *vertex = w->vertex.at, *parent = w->parent.at, *above = w->above.at;
    uint32_t *semi = w->semi.at, *label = w->label.at, *dominator = w->dominator.at;
    const uint32_t *from = w->from.at, *from_begin = w->from_begin.at;
    for (uint32_t i = 0; i < count; i++) {
        semi[i] = label[i] = i;
        above[i] = dominator[i] = parent[i];
    }
    for (uint32_t i = count; i-- > 1;) {
        uint32_t node = vertex[i], least = parent[i];
        uint32_t end = count;
        for (int group = 4; group-- > 0;)
            end = i < later[group] ? later[group] : end;
        for (uint32_t k = from_begin[node]; k < from_begin[node + 1]; k++) {
            if (number[from[k]] >= end)
                continue;
            uint32_t with = semi[least_above(w, number[from[k]], i + 1, w->cursor.at)];
            least = with < least ? with : least;
        }
        semi[i] = least;
    }
    for (uint32_t i = 1; i < count; i++)
        while (dominator[i] > semi[i])
            dominator[i] = dominator[dominator[i]];
}

static int by_number(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

enum { MOST_REFERENCES = 1 << 29 }; /* what is built into Python 3.11 begins with 999,999,999 */

/* For each node by number: for how many it stands, as one of the members of which some were followed. What was met
 * several times in a container is one object, to which many refer; of the others there are as many as could be there and
 * be met once each: all, unless some were met twice (Chao, 1984). What hangs on several such containers was followed in
 * the same places of each, and stands for as many as where most were. */
static int weigh_samples(struct graph *g, struct work *w)
{
    struct array array = {0}, counts = {0};
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *number = w->number.at, *dominator = w->dominator.at;
    const uint32_t *edges_in = w->edges_in.at;
    if (!g->is_sampled)
        return 1;
    if (!grow(&g->budget, &w->weight, g->reached * 4ul) || !grow(&g->budget, &counts, g->reached * 4ul))
        return 0;
    float *weight = w->weight.at;
    uint32_t *met_at = counts.at;
    memset(weight, 0, g->reached * 4ul);
    memset(met_at, 0, g->reached * 4ul);
    for (uint32_t k = 0; k < g->sample_count; k++) {
        struct sample sample = ARRAY(g, sample, struct sample)[k];
        uint32_t count = begin[sample.node + 1] - begin[sample.node], once = 0, twice = 0;
        if (!count)
            continue;
        if (!grow(&g->budget, &array, count * 4ul)) {
            drop(&g->budget, &counts);
            return 0;
        }
        uint32_t *met = array.at;
        memcpy(met, edge + begin[sample.node], count * 4ul);
        qsort(met, count, sizeof *met, by_number);
        for (uint32_t i = 0, same; i < count; i += same) {
            for (same = 1; i + same < count && met[i + same] == met[i]; same++)
                ;
            once += same == 1;
            twice += same == 2;
        }
        double each = (double)sample.stride;
        if (twice && once / (2. * twice) < each)
            each = once > 2 * twice ? once / (2. * twice) : 1;
        for (uint32_t i = 0, same; i < count; i += same) {
            for (same = 1; i + same < count && met[i + same] == met[i]; same++)
                ;
            uint32_t at = number[met[i]];
            double stands_for = (same > 1 ? 1 : each) * sample.nodes;
            if (stands_for <= 1)
                continue;
            met_at[at]++;
            int is_alone = dominator[at] == number[sample.node]; /* what else refers to it hangs on it */
            met_at[at] = is_alone ? edges_in[met[i]] : met_at[at];
            weight[at] = !weight[at] || stands_for < (double)weight[at] ? (float)stands_for : weight[at];
        }
    }
    for (uint32_t node = 0; node < g->nodes; node++)
        if (number[node] != NONE && (!weight[number[node]] || met_at[number[node]] < edges_in[node]))
            weight[number[node]] = 1; /* others lead to it, too, and were followed in any case */
    /* Below such a member: what has more references than were met is held by others like it that were not followed. */
    const uint32_t *vertex = w->vertex.at, *references = g->references.at, *types = g->type.at;
    float *stands_for = counts.at;
    stands_for[0] = 1;
    for (uint32_t i = 1; i < g->reached; i++) {
        uint32_t node = vertex[i], count = node < GROUPS || types[node] == TYPE_FRAME ? 0 : references[node];
        float more = stands_for[dominator[i]] * weight[i];
        if (more > 1 && count < MOST_REFERENCES && count > edges_in[node] && edges_in[node])
            weight[i] *= (float)edges_in[node] / (float)count;
        stands_for[i] = stands_for[dominator[i]] * weight[i];
    }
    drop(&g->budget, &counts);
    drop(&g->budget, &array);
    return 1;
}

static double weight_of(const struct work *w, uint32_t number)
{
    return w->weight.at ? (double)((const float *)w->weight.at)[number] : 1;
}

static uint64_t scaled(uint64_t bytes, double weight)
{
    return weight == 1 ? bytes : (uint64_t)((double)bytes * weight + 0.5);
}

/* Of what each node retains: bytes of nodes of one type. Returns those of all. */
static uint64_t add_up(const struct graph *g, const struct work *w, uint32_t type, uint64_t *bytes)
{
    const uint32_t *types = g->type.at, *vertex = w->vertex.at, *dominator = w->dominator.at;
    const uint64_t *own = g->own.at;
    uint64_t some = 0;
    for (uint32_t i = 0; i < g->reached; i++) {
        bytes[i] = vertex[i] >= GROUPS && types[vertex[i]] == type ? own[vertex[i]] : 0;
        some |= bytes[i];
    }
    for (uint32_t i = some ? (uint32_t)g->reached : 0; i-- > 1;)
        bytes[dominator[i]] += scaled(bytes[i], weight_of(w, i));
    return bytes[0];
}

/* What each node retains for certain: one of many with a sample or two looks large by chance. ``native``: of the samples,
 * what it retains; of ``certain`` the variances serve first: of the samples, and of members that stand for others. What
 * chance alone may bring about is told where there is enough of it together, at one that holds more. */
static void doubt(const struct graph *g, struct work *w, uint64_t *native, float *certain)
{
    enum { CERTAIN = 3, WORTH_A_WORD = 2 }; /* standard errors */
    const uint32_t *types = g->type.at, *vertex = w->vertex.at, *dominator = w->dominator.at;
    uint64_t *retained = w->retained.at;
    for (uint32_t i = 0; i < g->reached; i++) {
        uint32_t of_block = vertex[i] - g->first_block;
        int is_block = vertex[i] >= GROUPS && types[vertex[i]] == TYPE_BLOCK && of_block < g->block_count;
        certain[i] = is_block ? (float)ARRAY(g, variance, double)[of_block] : 0;
    }
    for (uint32_t i = native[0] ? (uint32_t)g->reached : 0; i-- > 1;) {
        double weight = weight_of(w, i), bytes = (double)native[i];
        certain[dominator[i]] += (float)((double)certain[i] * weight * weight + bytes * bytes * weight * (weight - 1));
    }
    for (uint32_t i = 0; i < g->reached; i++) {
        double error = sqrt((double)certain[i]), most = (double)native[i];
        int is_chance = vertex[i] >= GROUPS && most < WORTH_A_WORD * error;
        retained[i] -= is_chance ? native[i] : 0;
        native[i] = is_chance ? 0 : native[i];
        most = is_chance ? 0 : most;
        certain[i] = (float)((double)retained[i] - (CERTAIN * error < most ? CERTAIN * error : most));
    }
}

/* What is seen of the members of a node that stand for others; ``variance``: of what it retains, bytes squared. */
struct spread {
    float count, weights, bytes, squares, nodes, variance;
};

/* By how much what each node retains may be wrong where members stand for others: as much as those are unlike that were
 * followed. Of a single one, and of nodes that stand for other nodes, nothing is known of the rest: by all they hold. */
static int measure_spread(struct graph *g, struct work *w)
{
    const uint32_t *number = w->number.at, *dominator = w->dominator.at;
    const uint64_t *retained = w->retained.at;
    if (!w->weight.at)
        return 1;
    if (!grow(&g->budget, &w->spread, g->reached * sizeof(struct spread)))
        return 0;
    struct spread *spread = w->spread.at;
    memset(spread, 0, g->reached * sizeof *spread);
    for (uint32_t k = 0; k < g->sample_count; k++) {
        struct sample sample = ARRAY(g, sample, struct sample)[k];
        if (number[sample.node] != NONE)
            spread[number[sample.node]].nodes = (float)sample.nodes;
    }
    for (uint32_t i = (uint32_t)g->reached; i-- > 0;) {
        struct spread *one = &spread[i];
        if (one->count) {
            double count = one->count, each = one->weights / count, bytes = one->bytes;
            double unlike = (one->squares - bytes * bytes / count) * count / (count - 1);
            unlike = count == 1 || one->nodes > 1 ? bytes * bytes : unlike > 0 ? unlike : 0;
            one->variance += (float)(each * (each - 1) * unlike);
        }
        if (!i)
            break;
        struct spread *above = &spread[dominator[i]];
        float weight = (float)weight_of(w, i), bytes = (float)retained[i];
        above->variance += one->variance * weight * weight;
        if (weight > 1) {
            above->count++;
            above->weights += weight;
            above->bytes += bytes;
            above->squares += bytes * bytes;
        }
    }
    return 1;
}

/* Bytes of arrays. Where members stand for others, what each holds stands for as many. */
static int weigh_arrays(struct graph *g, struct work *w)
{
    struct array array = {0};
    const struct kind *kinds = g->kind.at;
    const uint32_t *types = g->type.at, *vertex = w->vertex.at, *dominator = w->dominator.at;
    const uint64_t *own = g->own.at;
    if (w->weight.at && !grow(&g->budget, &array, g->reached * 8ul))
        return 0;
    double *stands_for = array.at;
    for (uint32_t i = 0; i < g->reached; i++) {
        uint32_t node = vertex[i];
        if (stands_for)
            stands_for[i] = i ? stands_for[dominator[i]] * weight_of(w, i) : 1;
        uint8_t base = node < GROUPS ? PLAIN : kinds[types[node]].base;
        if (base == NDARRAY || base == MAPPING || base == IMAGE || (node >= GROUPS && types[node] == TYPE_ARROW))
            g->array_bytes += scaled(own[node], stands_for ? stands_for[i] : 1);
    }
    drop(&g->budget, &array);
    return 1;
}

enum { NEAR_MODULES = 4, NEAR_VARIABLES = 3, NEAR_FRAMES = 5 };

/* Breadth first from what stands in the queue at ``from``, so many steps far. */
static uint32_t walk(const struct graph *g, struct work *w, uint32_t from, uint32_t count, uint32_t steps)
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
        for (uint32_t k = begin[node]; k < begin[node + 1]; k++)
            if (path[edge[k]] == NONE) {
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
 * farther off then has the shortest way from any. */
static uint32_t find_paths(const struct graph *g, struct work *w)
{
    uint32_t *path = w->path.at, *queue = w->queue.at, count = 0;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *number = w->number.at, *vertex = w->vertex.at;
    const uint32_t *parent = w->parent.at;
    memset(path, 0xff, g->nodes * 4);
    for (uint32_t group = ROOT; group < GROUPS; group++)
        path[group] = ROOT;
    queue[count++] = MODULES;
    count = walk(g, w, 0, count, NEAR_MODULES);
    uint32_t named = count;
    for (uint32_t i = 0; i < named; i++) /* what a context variable has is as near as the variable */
        for (uint32_t k = begin[queue[i]]; is_variable(g, queue[i]) && k < begin[queue[i] + 1]; k++)
            if (path[edge[k]] == NONE) {
                path[edge[k]] = queue[i];
                queue[count++] = edge[k];
            }
    count = walk(g, w, named, count, NEAR_VARIABLES);
    queue[count++] = THREADS;
    for (int of_library = 0; of_library < 2; of_library++)
        for (uint32_t k = begin[THREADS + 1]; k-- > begin[THREADS];)
            if (path[edge[k]] == NONE && is_of_library(g, edge[k]) == of_library) {
                path[edge[k]] = THREADS;
                queue[count] = edge[k];
                count = walk(g, w, count, count + 1, NEAR_FRAMES);
            }
    count = walk(g, w, 0, count, NONE);
    for (uint32_t group = RECORDER; group < GROUPS; group++) {
        uint32_t first = count;
        queue[count++] = group;
        for (uint32_t i = 1; i < g->reached; i++)
            if (parent[i] == number[group] && path[vertex[i]] == NONE) {
                path[vertex[i]] = group;
                queue[count++] = vertex[i];
            }
        count = walk(g, w, first, count, NONE);
    }
    return count;
}

static uint64_t fingerprint(const struct graph *g, uint32_t node)
{
    uintptr_t address = ((uintptr_t *)g->address.at)[node];
    const struct kind *kind = (struct kind *)g->kind.at + ((uint32_t *)g->type.at)[node];
    return ((uint64_t)(address >> 3) ^ (uint64_t)(uintptr_t)kind->type << 17) * 0x9E3779B97F4A7C15ull;
}

static int was_there(const struct past *past, uint64_t print)
{
    const uint8_t *map = past->map.at;
    uint64_t one = (print >> 32) % past->bits, other = (print & UINT32_MAX) % past->bits;
    return map[one >> 3] >> (one & 7) & 1 && map[other >> 3] >> (other & 7) & 1;
}

EXPORT void past_free(struct past *past)
{
    struct budget budget = {0};
    if (past) {
        struct array self = {past, sizeof *past};
        if (past->process == getpid())
            drop(&budget, &past->map);
        drop(&budget, &self);
    }
}

/* What the next snapshot is told of this one; NULL where there is no room. */
EXPORT struct past *graph_past(struct graph *g)
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

enum { LONGEST_CHAIN = 32, LONGEST_WAY = 256 };

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

/* For each node by number: how many of its type come before it on the way of its dominators, each of which has nearly
 * nothing but the next. In a list of links they all retain much, and would leave room for nobody else. ``first``: of
 * each link the first of its chain; ``chain``: of that, how many there are. */
static void count_links(const struct work *w, const uint32_t *types, uint64_t count, uint32_t *links, uint32_t *first,
                        uint32_t *chain)
{
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at;
    const uint64_t *retained = w->retained.at;
    links[0] = 0;
    for (uint32_t i = 1; i < count; i++) {
        links[i] = 0;
        first[i] = i;
        uint32_t above = dominator[i];
        for (int step = 0; step < 3 && vertex[above] >= GROUPS; step++, above = dominator[above])
            if (types[vertex[above]] == types[vertex[i]]) { /* a dict may lie between */
                links[i] = retained[i] >= retained[above] / 16 * 15 ? links[above] + 1 : 0;
                first[i] = links[i] ? first[above] : i;
                chain[first[i]] += links[i] != 0;
                break;
            }
    }
}

static int by_row_and_bytes(const void *one, const void *other)
{
    const struct share *a = one, *b = other;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    uint64_t of_a = a->bytes + a->device_bytes, of_b = b->bytes + b->device_bytes;
    return of_a > of_b ? -1 : of_a < of_b;
}

/* For each row: what it dominates directly, by type; at most so many types a row. */
static int share_out(struct graph *g, struct work *w, const struct past *past, uint32_t most_types)
{
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *row_of = g->row_of.at, *types = g->type.at;
    const uint64_t *retained = w->retained.at, *own = g->own.at, *device = w->device.at;
    struct row *rows = g->row.at;
    struct array table = {0};
    uint64_t size = 1 << 14, count = 0;
    if (!grow(&g->budget, &table, size * 4) || !grow_copied(&g->budget, &g->share, size / 2 * sizeof(struct share)))
        goto failed;
    uint32_t *slots = table.at;
    memset(slots, 0xff, size * 4);
    for (uint32_t i = 1; i < g->reached; i++) {
        uint32_t above = dominator[i], node = vertex[i];
        int is_graph = node >= GROUPS && types[node] == TYPE_AUTOGRAD;
        uint64_t bytes = retained[i], device_bytes = device ? device[i] : 0;
        while (is_graph && row_of[vertex[above]] == NONE) { /* its operations and what they saved are a part of what hangs there */
            bytes = types[vertex[above]] == TYPE_AUTOGRAD ? 0 : bytes;
            device_bytes = types[vertex[above]] == TYPE_AUTOGRAD ? 0 : device_bytes;
            above = dominator[above];
        }
        uint32_t row = row_of[vertex[above]];
        if (row == NONE)
            continue;
        int is_new = node >= GROUPS && past && !was_there(past, fingerprint(g, node));
        double weight = weight_of(w, i);
        int is_child = !is_graph && !(node >= GROUPS && (types[node] == TYPE_BLOCK || types[node] == TYPE_DEVICE));
        rows[row].children += is_child ? (uint32_t)scaled(1, weight) : 0;
        rows[row].new_children += (uint32_t)(is_new && is_child);
        uint32_t type = node < GROUPS ? TYPE_NONE : types[node];
        struct share *shares = g->share.at;
        uint64_t slot = (row * 0x9E3779B1u ^ type * 0x85EBCA6Bu) & (size - 1);
        while (slots[slot] != NONE && (shares[slots[slot]].row != row || shares[slots[slot]].type != type))
            slot = (slot + 1) & (size - 1);
        if (slots[slot] == NONE) {
            if (count + 1 >= size / 2) { /* twice the table: all found so far find their places anew */
                size *= 2;
                drop(&g->budget, &table);
                if (!grow(&g->budget, &table, size * 4) || !grow_copied(&g->budget, &g->share, size / 2 * sizeof(struct share)))
                    goto failed;
                slots = table.at;
                shares = g->share.at;
                memset(slots, 0xff, size * 4);
                for (uint32_t k = 0; k < count; k++) {
                    slot = (shares[k].row * 0x9E3779B1u ^ shares[k].type * 0x85EBCA6Bu) & (size - 1);
                    while (slots[slot] != NONE)
                        slot = (slot + 1) & (size - 1);
                    slots[slot] = k;
                }
                slot = (row * 0x9E3779B1u ^ type * 0x85EBCA6Bu) & (size - 1);
                while (slots[slot] != NONE)
                    slot = (slot + 1) & (size - 1);
            }
            slots[slot] = (uint32_t)count;
            shares[count++] = (struct share){.row = row, .type = type};
        }
        struct share *share = &shares[slots[slot]];
        uint64_t counts = scaled(is_graph ? own[node] / OPERATION_BYTES : 1, weight);
        bytes = scaled(bytes, weight);
        share->count += counts;
        share->bytes += bytes;
        share->device_bytes += scaled(device_bytes, weight);
        share->new_count += is_new ? counts : 0;
        share->new_bytes += is_new ? bytes : 0;
    }
    drop(&g->budget, &table);
    struct share *shares = g->share.at;
    qsort(shares, count, sizeof *shares, by_row_and_bytes);
    uint64_t kept = 0;
    for (uint64_t k = 0, of_row = 0; k < count; k++) {
        of_row = k && shares[k].row == shares[k - 1].row ? of_row + 1 : 0;
        if (of_row < most_types || shares[k].type == TYPE_AUTOGRAD)
            shares[kept++] = shares[k];
    }
    g->share_count = kept;
    g->shares = shares;
    return 1;
failed:
    drop(&g->budget, &table);
    return 0;
}

enum { MOST_SHARERS = 1 << 16 };

static struct sharer *sharer_at(struct sharer *table, uint32_t row, uint32_t dominator_row, uint32_t type)
{
    uint32_t slot = (row * 0x9E3779B1u ^ dominator_row * 0x85EBCA6Bu ^ type * 0xC2B2AE35u) & (MOST_SHARERS - 1);
    while (table[slot].count && (table[slot].row != row || table[slot].dominator_row != dominator_row || table[slot].type != type))
        slot = (slot + 1) & (MOST_SHARERS - 1);
    return &table[slot];
}

/* By number, one beside it that refers to it and to which it refers, each maybe by way of what is its own; 0: none. A task
 * and the future for which it waits hang on the same dominator, and who has the one has the other. One of the two has at
 * most SOME such references: with a list of all of them this would be no glance. ``beside``: of each number the nearest
 * node above it, or itself, that hangs on a row directly. */
static const uint32_t *find_partners(struct graph *g, struct work *w, const uint32_t *owner)
{
    enum { SOME = 2 };
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *number = w->number.at, *row_of = g->row_of.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    uint32_t *partner = w->parent.at, *beside = w->chain.at, (*known)[SOME] = w->parts.at; /* which have served */
    uint64_t count = g->reached;
    memset(partner, 0, count * sizeof *partner);
    memset(known, 0, count * sizeof *known);
    for (uint32_t i = 0; i < count; i++)
        beside[i] = !i || row_of[vertex[i]] != NONE ? 0 : row_of[vertex[dominator[i]]] != NONE ? i : beside[dominator[i]];
    for (int is_known = 0; is_known < 2; is_known++)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t node = vertex[i], one = beside[i];
            for (uint32_t k = begin[node]; one && node >= GROUPS && k < begin[node + 1]; k++) {
                uint32_t to = number[edge[k]];
                if (beside[to] != to || to == one || owner[to] != owner[one])
                    continue;
                if (is_known && (known[to][0] == one || known[to][1] == one)) {
                    partner[to] = partner[to] ? partner[to] : one;
                    partner[one] = partner[one] ? partner[one] : to;
                } else if (!is_known && known[one][0] != to && !known[one][1])
                    known[one][known[one][0] != 0] = to;
            }
        }
    return partner;
}

/* Objects with several holders hang below what dominates these, which may be a whole module: who are they? */
static int find_sharers(struct graph *g, struct work *w, uint64_t least_bytes)
{
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *number = w->number.at, *types = g->type.at;
    const uint32_t *row_of = g->row_of.at, *begin = g->begin.at, *edge = g->edge.at;
    const uint64_t *retained = w->retained.at, *device = w->device.at;
    uint32_t *owner = w->queue.at; /* which has served: of each number the row of itself, or of the nearest above it */
    uint32_t *last = w->path.at; /* has served, too: of each node the last owner that refers to it, who may do so often */
    struct array table = {0};
    if (!grow(&g->budget, &table, MOST_SHARERS * sizeof(struct sharer)))
        return 1; /* nothing is said of them, then */
    memset(table.at, 0, MOST_SHARERS * sizeof(struct sharer));
    struct sharer *sharers = table.at;
    uint64_t used = 0, kept = 0;
    memset(last, 0xff, g->nodes * 4);
    for (uint32_t i = 0; i < g->reached; i++)
        owner[i] = i && row_of[vertex[i]] == NONE ? owner[dominator[i]] : row_of[vertex[i]];
    const uint32_t *partner = find_partners(g, w, owner);
    for (uint32_t i = 0; i < g->reached && used < MOST_SHARERS / 2; i++) {
        uint32_t node = vertex[i];
        for (uint32_t k = begin[node]; node >= GROUPS && k < begin[node + 1]; k++) {
            uint32_t to = number[edge[k]];
            if (owner[to] == owner[i])
                continue;
            for (int is_direct = 1; to && is_direct >= 0; is_direct--, to = partner[to]) {
                uint32_t of = vertex[to];
                if (row_of[of] != NONE || vertex[dominator[to]] == node || last[of] == owner[i])
                    continue;
                last[of] = owner[i];
                struct sharer *sharer = sharer_at(sharers, owner[i], owner[to], types[of]);
                used += !sharer->count;
                uint64_t stands_for = scaled(1, weight_of(w, to));
                *sharer = (struct sharer){owner[i], owner[to], types[of], sharer->count + stands_for,
                                          sharer->direct_count + (is_direct ? stands_for : 0),
                                          sharer->bytes + scaled(retained[to], weight_of(w, to)),
                                          sharer->device_bytes + (device ? scaled(device[to], weight_of(w, to)) : 0)};
            }
        }
    }
    for (uint32_t i = 0; i < MOST_SHARERS; i++)
        kept += sharers[i].bytes + sharers[i].device_bytes >= least_bytes;
    int is_done = grow_copied(&g->budget, &g->sharer, (kept + 1) * sizeof(struct sharer));
    g->sharers = g->sharer.at;
    for (uint32_t i = 0; is_done && i < MOST_SHARERS; i++)
        if (sharers[i].bytes + sharers[i].device_bytes >= least_bytes)
            g->sharers[g->sharer_count++] = sharers[i];
    drop(&g->budget, &table);
    return is_done;
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

/* Of each node by number, the one that retains most of those that hang on it directly; 0: none does. Serves ``first``. */
static const uint32_t *find_heaviest(const struct graph *g, struct work *w, uint32_t count)
{
    uint32_t *heaviest = w->first.at;
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at;
    const uint64_t *retained = w->retained.at;
    if (w->first.bytes < count * 4ul)
        return NULL;
    memset(heaviest, 0, count * 4ul);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t known = heaviest[dominator[i]];
        if (!is_no_object(g->type.at, vertex[i]) && (!known || retained[i] >= retained[known]))
            heaviest[dominator[i]] = i; /* of equals the last: the first member of a list, which stays the same */
    }
    return heaviest;
}

/* A node, and what it is made of. */
static void mark_down(const struct graph *g, const struct work *w, const uint32_t *heaviest, uint32_t at)
{
    for (int depth = 0; at && depth < DEPTH_OF_EXAMPLE; depth++, at = heaviest[at])
        mark_way(g, w, ((uint32_t *)w->vertex.at)[at]);
}

/* What only C refers to may be many and small: the largest of the types that retain most. */
static void mark_outside(struct graph *g, const struct work *w, const uint32_t *heaviest, uint32_t count, uint64_t least_bytes)
{
    enum { MOST_TYPES_OUTSIDE = 3 };
    struct of_type {
        uint64_t bytes;
        uint32_t largest;
    };
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *types = g->type.at;
    const uint64_t *retained = w->retained.at;
    uint32_t group = ((uint32_t *)w->number.at)[FROM_C];
    struct array table = {0};
    if (!grow(&g->budget, &table, g->type_count * sizeof(struct of_type)))
        return;
    struct of_type *of = table.at;
    memset(of, 0, g->type_count * sizeof *of);
    for (uint32_t i = group + 1; i < count; i++)
        if (dominator[i] == group && vertex[i] >= GROUPS) {
            struct of_type *one = &of[types[vertex[i]]];
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
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *number = w->number.at;
    const uint32_t *begin = g->begin.at, *edge = g->edge.at;
    uint32_t *place = w->parent.at, asked[2 * MOST_EXAMPLES], first = 0; /* place, which has served: by number that in ``asked``, from 1 */
    uint8_t found[2 * MOST_EXAMPLES] = {0};
    memset(place, 0, count * sizeof *place);
    for (uint32_t k = 0; k < total; k++)
        place[asked[k] = examples[k]] = k + 1;
    for (int is_beside = 0; is_beside < 2 && first < total; is_beside++) {
        uint32_t last = total;
        for (uint32_t i = 1; i < count; i++) {
            for (uint32_t k = begin[vertex[i]]; vertex[i] >= GROUPS && k < begin[vertex[i] + 1]; k++) {
                uint32_t to = number[edge[k]], at = place[to], above = i;
                if (at <= first || at > last || found[at - 1] == MOST_REFERRERS)
                    continue;
                for (int step = 0; step < FAR && above != to && dominator[above] != dominator[to]; step++)
                    above = dominator[above];
                if (above == to)
                    continue; /* a part of it */
                found[at - 1]++;
                mark_way(g, w, vertex[i]);
                if (!is_beside && above != i && dominator[above] == dominator[to] && !place[above] && total < 2 * MOST_EXAMPLES) {
                    asked[total] = above;
                    place[above] = ++total;
                }
            }
        }
        first = last;
    }
}

/* Of each node by number, the largest that hangs on it directly and has no row, of the type that has more bytes than all
 * others of these together, if one has (Boyer and Moore, 1981); 0: nothing does. Serves ``parent`` and ``certain``. */
static const uint32_t *find_typical(const struct graph *g, struct work *w, uint32_t count)
{
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *types = g->type.at, *row_of = g->row_of.at;
    const uint64_t *retained = w->retained.at;
    uint32_t *typical = w->parent.at;
    float *lead = w->certain.at;
    memset(typical, 0, count * sizeof *typical);
    memset(lead, 0, count * sizeof *lead);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t above = dominator[i], known = typical[above];
        float bytes = (float)retained[i] * (float)weight_of(w, i);
        if (vertex[i] < GROUPS || is_no_object(types, vertex[i]) || row_of[vertex[i]] != NONE)
            continue;
        if (known && types[vertex[known]] == types[vertex[i]]) {
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
    const uint32_t *vertex = w->vertex.at, *row_of = g->row_of.at;
    const uint64_t *retained = w->retained.at;
    const uint32_t *typical = find_typical(g, w, count);
    uint32_t examples[MOST_EXAMPLES], total = 0;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t part = typical[i];
        if (part && vertex[i] >= GROUPS && row_of[vertex[i]] != NONE && row_of[vertex[part]] == NONE &&
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
