/* What each node stands for, retains, and may be wrong by. */
#include "reader.h"

/* How many follow that are the same as the one at ``i``. */
static uint32_t same_from(const uint32_t *met, uint32_t i, uint32_t count)
{
    uint32_t same = 1;
    while (i + same < count && met[i + same] == met[i])
        same++;
    return same;
}

/* For how many each member stands, of which one in ``stride`` was met. What was met several times is one object, to which
 * many refer; of the others there are as many as could be there and be met once each: all, unless some were met twice
 * (Chao, 1984). */
static double each_stands_for(const uint32_t *met, uint32_t count, uint64_t stride)
{
    uint32_t once = 0, twice = 0;
    for (uint32_t i = 0, same; i < count; i += same) {
        same = same_from(met, i, count);
        once += same == 1;
        twice += same == 2;
    }
    double each = (double)stride;
    if (twice && once / (2. * twice) < each)
        each = once > 2 * twice ? once / (2. * twice) : 1;
    return each;
}

/* The members of one container of which some were followed. ``met_at``: how many references to each of them were met. */
static void weigh_sample(const struct graph *g, const struct work *w, const struct sample *sample, const uint32_t *met,
                         uint32_t count, uint32_t *met_at)
{
    const uintptr_t *address = g->address.at;
    const uint32_t *dominator = w->dominator.at, *edges_in = w->edges_in.at;
    float *weight = w->weight.at;
    double each = each_stands_for(met, count, sample->stride);
    for (uint32_t i = 0, same; i < count; i += same) {
        same = same_from(met, i, count);
        uint32_t at = met[i];
        double stands_for = (same > 1 ? 1 : each) * sample->nodes;
        if (stands_for <= 1 || held_much(g, address[at]))
            continue;
        met_at[at]++;
        int is_alone = dominator[at] == sample->node; /* what else refers to it hangs on it */
        met_at[at] = is_alone ? edges_in[met[i]] : met_at[at];
        weight[at] = !weight[at] || stands_for < (double)weight[at] ? (float)stands_for : weight[at];
    }
}

/* Below such a member: what has more references than were met is held by others like it that were not followed. Serves
 * ``counts`` anew. */
static void weigh_below(const struct graph *g, const struct work *w, struct array *counts)
{
    const uint32_t *dominator = w->dominator.at, *edges_in = w->edges_in.at;
    const uint32_t *references = g->references.at, *types = g->type.at;
    float *weight = w->weight.at, *stands_for = counts->at;
    stands_for[0] = 1;
    for (uint32_t i = 1; i < g->reached; i++) {
        uint32_t count = i < GROUPS || types[i] == TYPE_FRAME ? 0 : references[i];
        float more = stands_for[dominator[i]] * weight[i];
        if (more > 1 && count < MOST_REFERENCES && count > edges_in[i] && edges_in[i])
            weight[i] *= (float)edges_in[i] / (float)count;
        stands_for[i] = stands_for[dominator[i]] * weight[i];
    }
}

/* For each node: for how many it stands, as one of the members of which some were followed. What hangs on
 * several such containers was followed in the same places of each, and stands for as many as where most were. */
static int weigh_samples(struct graph *g, struct work *w)
{
    struct array array = {0}, counts = {0};
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *edges_in = w->edges_in.at;
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
        uint32_t count = begin[sample.node + 1] - begin[sample.node];
        if (!count)
            continue;
        if (!grow(&g->budget, &array, count * 4ul)) {
            drop(&g->budget, &counts);
            return 0;
        }
        memcpy(array.at, edge + begin[sample.node], count * 4ul);
        qsort(array.at, count, 4, by_number);
        weigh_sample(g, w, &sample, array.at, count, met_at);
    }
    for (uint32_t node = 0; node < g->nodes; node++)
        if (!weight[node] || met_at[node] < edges_in[node])
            weight[node] = 1; /* others lead to it, too, and were followed in any case */
    weigh_below(g, w, &counts);
    drop(&g->budget, &counts);
    drop(&g->budget, &array);
    return 1;
}

INTERNAL double weight_of(const struct work *w, uint32_t number)
{
    return w->weight.at ? (double)((const float *)w->weight.at)[number] : 1;
}

INTERNAL uint64_t scaled(uint64_t bytes, double weight)
{
    return weight == 1 ? bytes : (uint64_t)((double)bytes * weight + 0.5);
}

/* From what each node has of its own to what it retains. */
INTERNAL void carry_up(const struct graph *g, const struct work *w, uint64_t *bytes)
{
    const uint32_t *dominator = w->dominator.at;
    for (uint32_t i = (uint32_t)g->reached; i-- > 1;)
        bytes[dominator[i]] += scaled(bytes[i], weight_of(w, i));
}

/* Of what each node retains: bytes of nodes of one type. Returns those of all. */
INTERNAL uint64_t add_up(const struct graph *g, const struct work *w, uint32_t type, uint64_t *bytes)
{
    const uint32_t *types = g->type.at;
    const uint64_t *own = g->own.at;
    uint64_t some = 0;
    for (uint32_t i = 0; i < g->reached; i++) {
        bytes[i] = i >= GROUPS && types[i] == type ? own[i] : 0;
        some |= bytes[i];
    }
    if (some)
        carry_up(g, w, bytes);
    return bytes[0];
}

/* What each node retains for certain: one of many with a sample or two looks large by chance. ``native``: of the samples,
 * what it retains; of ``certain`` the variances serve first: of the samples, and of members that stand for others. What
 * chance alone may bring about is told where there is enough of it together, at one that holds more. */
static void doubt(const struct graph *g, struct work *w, uint64_t *native, float *certain)
{
    enum { CERTAIN = 3, WORTH_A_WORD = 2 }; /* standard errors */
    const uint32_t *dominator = w->dominator.at;
    uint64_t *retained = w->retained.at;
    const struct doubt *doubts = g->variance.at;
    memset(certain, 0, g->reached * sizeof *certain);
    for (uint32_t k = 0; k < g->block_count; k++)
        certain[doubts[k].node] = (float)doubts[k].variance;
    for (uint32_t i = native[0] ? (uint32_t)g->reached : 0; i-- > 1;) {
        double weight = weight_of(w, i), bytes = (double)native[i];
        certain[dominator[i]] += (float)((double)certain[i] * weight * weight + bytes * bytes * weight * (weight - 1));
    }
    for (uint32_t i = 0; i < g->reached; i++) {
        double error = sqrt((double)certain[i]), most = (double)native[i];
        int is_chance = i >= GROUPS && most < WORTH_A_WORD * error;
        retained[i] -= is_chance ? native[i] : 0;
        native[i] = is_chance ? 0 : native[i];
        most = is_chance ? 0 : most;
        certain[i] = (float)((double)retained[i] - (CERTAIN * error < most ? CERTAIN * error : most));
    }
}

/* By how much what each node retains may be wrong where members stand for others: as much as those are unlike that were
 * followed. Of a single one, and of nodes that stand for other nodes, nothing is known of the rest: by all they hold. */
static int measure_spread(struct graph *g, struct work *w)
{
    const uint32_t *dominator = w->dominator.at;
    const uint64_t *retained = w->retained.at;
    if (!w->weight.at)
        return 1;
    if (!grow(&g->budget, &w->spread, g->reached * sizeof(struct spread)))
        return 0;
    struct spread *spread = w->spread.at;
    memset(spread, 0, g->reached * sizeof *spread);
    for (uint32_t k = 0; k < g->sample_count; k++) {
        struct sample sample = ARRAY(g, sample, struct sample)[k];
        spread[sample.node].nodes = (float)sample.nodes;
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

/* Bytes of arrays, and what of them malloc did not hand out: mappings, and as samples say of columns. Where members stand for
 * others, what each holds stands for as many. */
INTERNAL int weigh_arrays(struct graph *g, struct work *w)
{
    struct array array = {0};
    const struct kind *kinds = g->kind.at;
    const uint32_t *types = g->type.at, *dominator = w->dominator.at;
    const uint64_t *own = g->own.at;
    if (w->weight.at && !grow(&g->budget, &array, g->reached * 8ul))
        return 0;
    double *stands_for = array.at;
    for (uint32_t i = 0; i < g->reached; i++) {
        if (stands_for)
            stands_for[i] = i ? stands_for[dominator[i]] * weight_of(w, i) : 1;
        if (i < GROUPS || (types[i] != TYPE_ARROW && !kinds[types[i]].is_array))
            continue;
        uint64_t bytes = scaled(own[i], stands_for ? stands_for[i] : 1);
        uint8_t base = types[i] == TYPE_ARROW ? COLUMNS : kinds[types[i]].base;
        double beyond = base == COLUMNS ? 1 - g->malloced_columns : base == MAPPING;
        g->array_bytes += bytes;
        g->beyond_malloc_bytes += (uint64_t)(beyond * (double)bytes);
    }
    g->pool_rss_bytes = pools_in_memory();
    drop(&g->budget, &array);
    return 1;
}

/* What each node retains, and what the groups do. 0: no room. */
INTERNAL int retain(struct graph *g, struct work *w)
{
    struct budget *b = &g->budget;
    uint32_t count = (uint32_t)g->reached;
    if (!weigh_samples(g, w) || !grow(b, &w->retained, count * 8ul) || !grow(b, &w->path, g->nodes * 4) ||
        !grow(b, &w->queue, g->nodes * 4) || !grow(b, &g->row_of, g->nodes * 4))
        return 0;
    uint64_t *retained = w->retained.at;
    const uint64_t *own = g->own.at;
    const uint32_t *types = g->type.at;
    for (uint32_t i = 0; i < count; i++)
        retained[i] = i >= GROUPS && types[i] == TYPE_DEVICE ? 0 : own[i];
    carry_up(g, w, retained);
    g->total_bytes = retained[0];
    g->from_c_bytes = retained[FROM_C];
    g->unreachable_bytes = retained[UNREACHABLE];
    g->from_c_count = w->first_of[UNREACHABLE] - w->first_of[FROM_C];
    g->unreachable_count = count - w->first_of[UNREACHABLE];
    for (uint32_t node = GROUPS; node < g->nodes; node++)
        g->small_bytes += own[node] <= 512 && types[node] >= FIRST_TYPE ? own[node] : 0;
    return 1;
}

/* What each node retains for certain, and how many links of a chain come before it. 0: no room. */
INTERNAL int find_certain(struct graph *g, struct work *w)
{
    struct budget *b = &g->budget;
    uint64_t count = g->reached;
    if (!grow(b, &w->first, g->nodes * 4) || !grow(b, &w->chain, count * 4) || !grow(b, &w->parts, count * 8) ||
        !grow(b, &w->certain, count * 4))
        return 0;
    uint64_t *parts = w->parts.at; /* of the samples first, of tensors' storages once the rows have those */
    g->native_bytes = add_up(g, w, TYPE_BLOCK, parts);
    doubt(g, w, parts, w->certain.at);
    return measure_spread(g, w);
}
