/* What each row holds alone, by type, and what it holds with others. */
#include "reader.h"

static int by_row_and_bytes(const void *one, const void *other)
{
    const struct share *a = one, *b = other;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    uint64_t of_a = a->bytes + a->device_bytes, of_b = b->bytes + b->device_bytes;
    return of_a > of_b ? -1 : of_a < of_b;
}

struct share_table { /* where each share is, by its row and type */
    struct array slots;
    uint64_t size, count;
};

static uint64_t slot_of_share(const struct share_table *table, const struct share *shares, uint32_t row, uint32_t type)
{
    const uint32_t *slots = table->slots.at;
    uint64_t slot = (row * 0x9E3779B1u ^ type * 0x85EBCA6Bu) & (table->size - 1);
    while (slots[slot] != NONE && (shares[slots[slot]].row != row || shares[slots[slot]].type != type))
        slot = (slot + 1) & (table->size - 1);
    return slot;
}

/* All that were found so far find their places anew. 0: no room. */
static int resize_shares(struct graph *g, struct share_table *table)
{
    drop(&g->budget, &table->slots);
    if (!grow(&g->budget, &table->slots, table->size * 4) || !grow_copied(&g->budget, &g->share, table->size / 2 * sizeof(struct share)))
        return 0;
    const struct share *shares = g->share.at;
    uint32_t *slots = table->slots.at;
    memset(slots, 0xff, table->size * 4);
    for (uint32_t k = 0; k < table->count; k++)
        slots[slot_of_share(table, shares, shares[k].row, shares[k].type)] = k;
    return 1;
}

/* That of a row and a type, which is new at first; NULL: no room. */
static struct share *share_at(struct graph *g, struct share_table *table, uint32_t row, uint32_t type)
{
    uint64_t slot = slot_of_share(table, g->share.at, row, type);
    if (((uint32_t *)table->slots.at)[slot] == NONE) {
        if (table->count + 1 >= table->size / 2) {
            table->size *= 2;
            if (!resize_shares(g, table))
                return NULL;
            slot = slot_of_share(table, g->share.at, row, type);
        }
        ((uint32_t *)table->slots.at)[slot] = (uint32_t)table->count;
        ((struct share *)g->share.at)[table->count++] = (struct share){.row = row, .type = type};
    }
    return (struct share *)g->share.at + ((uint32_t *)table->slots.at)[slot];
}

/* Of each row the types with most bytes, and what autograd keeps. */
static void keep_shares(struct graph *g, uint64_t count, uint32_t most_types)
{
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
}

/* For each row: what it dominates directly, by type; at most so many types a row. */
INTERNAL int share_out(struct graph *g, struct work *w, const struct past *past, uint32_t most_types)
{
    const uint32_t *dominator = w->dominator.at, *row_of = g->row_of.at, *types = g->type.at;
    const uint64_t *retained = w->retained.at, *own = g->own.at, *device = w->device.at;
    struct share_table table = {.size = 1 << 14};
    int is_done = resize_shares(g, &table);
    for (uint32_t node = 1; is_done && node < g->reached; node++) {
        uint32_t above = dominator[node];
        int is_graph = node >= GROUPS && types[node] == TYPE_AUTOGRAD;
        uint64_t bytes = retained[node], device_bytes = device ? device[node] : 0;
        while (is_graph && row_of[above] == NONE) { /* its operations and what they saved are a part of what hangs there */
            bytes = types[above] == TYPE_AUTOGRAD ? 0 : bytes;
            device_bytes = types[above] == TYPE_AUTOGRAD ? 0 : device_bytes;
            above = dominator[above];
        }
        uint32_t row = row_of[above];
        if (row == NONE)
            continue;
        int is_new = node >= GROUPS && past && !was_there(past, fingerprint(g, node));
        double weight = weight_of(w, node);
        int is_child = !is_graph && !(node >= GROUPS && (types[node] == TYPE_BLOCK || types[node] == TYPE_DEVICE));
        g->rows[row].children += is_child ? (uint32_t)scaled(1, weight) : 0;
        g->rows[row].new_children += (uint32_t)(is_new && is_child);
        struct share *share = share_at(g, &table, row, node < GROUPS ? TYPE_NONE : types[node]);
        is_done = share != NULL;
        if (!is_done)
            break;
        uint64_t counts = scaled(is_graph ? own[node] / OPERATION_BYTES : 1, weight);
        bytes = scaled(bytes, weight);
        share->count += counts;
        share->bytes += bytes;
        share->device_bytes += scaled(device_bytes, weight);
        share->new_count += is_new ? counts : 0;
        share->new_bytes += is_new ? bytes : 0;
    }
    drop(&g->budget, &table.slots);
    if (is_done)
        keep_shares(g, table.count, most_types);
    return is_done;
}

enum { MOST_SHARERS = 1 << 16 };

static struct sharer *sharer_at(struct sharer *table, uint32_t row, uint32_t dominator_row, uint32_t type)
{
    uint32_t slot = (row * 0x9E3779B1u ^ dominator_row * 0x85EBCA6Bu ^ type * 0xC2B2AE35u) & (MOST_SHARERS - 1);
    while (table[slot].count && (table[slot].row != row || table[slot].dominator_row != dominator_row || table[slot].type != type))
        slot = (slot + 1) & (MOST_SHARERS - 1);
    return &table[slot];
}

/* Of each node one beside it that refers to it and to which it refers, each maybe by way of what is its own; 0: none. A task
 * and the future for which it waits hang on the same dominator, and who has the one has the other. One of the two has at
 * most SOME such references: with a list of all of them this would be no glance. ``beside``: of each the nearest node above
 * it, or itself, that hangs on a row directly; ``crowd``: of those the row. */
static const uint32_t *find_partners(struct graph *g, struct work *w, const uint32_t *owner)
{
    enum { SOME = 2 };
    const uint32_t *dominator = w->dominator.at, *row_of = g->row_of.at, *begin = g->begin.at, *edge = g->edge.at;
    uint32_t *partner = w->parent.at, *beside = w->chain.at, *crowd = w->first.at; /* which have served */
    uint32_t(*known)[SOME] = w->parts.at;
    uint64_t count = g->reached;
    memset(partner, 0, count * sizeof *partner);
    memset(known, 0, count * sizeof *known);
    for (uint32_t i = 0; i < count; i++) {
        beside[i] = !i || row_of[i] != NONE ? 0 : row_of[dominator[i]] != NONE ? i : beside[dominator[i]];
        crowd[i] = i && beside[i] == i ? owner[i] : NONE;
    }
    for (int is_known = 0; is_known < 2; is_known++)
        for (uint32_t node = GROUPS; node < count; node++) {
            uint32_t one = beside[node], own_crowd = owner[one];
            for (uint32_t k = begin[node]; one && k < begin[node + 1]; k++) {
                uint32_t to = edge[k];
                if (crowd[to] != own_crowd || to == one)
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
INTERNAL int find_sharers(struct graph *g, struct work *w, uint64_t least_bytes)
{
    const uint32_t *dominator = w->dominator.at, *types = g->type.at;
    const uint32_t *row_of = g->row_of.at, *begin = g->begin.at, *edge = g->edge.at;
    const uint64_t *retained = w->retained.at, *device = w->device.at;
    uint32_t *owner = w->queue.at; /* which has served: of each node the row of itself, or of the nearest above it */
    uint32_t *last = w->path.at; /* has served, too: of each node the last owner that refers to it, who may do so often */
    struct array table = {0};
    if (!grow(&g->budget, &table, MOST_SHARERS * sizeof(struct sharer)))
        return 1; /* nothing is said of them, then */
    memset(table.at, 0, MOST_SHARERS * sizeof(struct sharer));
    struct sharer *sharers = table.at;
    uint64_t used = 0, kept = 0;
    memset(last, 0xff, g->nodes * 4);
    for (uint32_t i = 0; i < g->reached; i++)
        owner[i] = i && row_of[i] == NONE ? owner[dominator[i]] : row_of[i];
    const uint32_t *partner = find_partners(g, w, owner);
    for (uint32_t node = GROUPS; node < g->reached && used < MOST_SHARERS / 2; node++) {
        for (uint32_t k = begin[node]; k < begin[node + 1]; k++) {
            uint32_t to = edge[k];
            if (owner[to] == owner[node])
                continue;
            for (int is_direct = 1; to && is_direct >= 0; is_direct--, to = partner[to]) {
                if (row_of[to] != NONE || dominator[to] == node || last[to] == owner[node])
                    continue;
                last[to] = owner[node];
                struct sharer *sharer = sharer_at(sharers, owner[node], owner[to], types[to]);
                used += !sharer->count;
                uint64_t stands_for = scaled(1, weight_of(w, to));
                *sharer = (struct sharer){owner[node], owner[to], types[to], sharer->count + stands_for,
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
