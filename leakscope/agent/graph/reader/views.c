/* Of what arrays, tensors and columns show a part: how much of it nobody shows. A slice keeps all that it is a slice of. */
#include "reader.h"

enum { FEW_BYTES = 256 };
#define EVERYTHING ((uint64_t)1 << MOST_BITS)

/* At most: its members, each as large as the least step between two. */
static uint64_t shown_by_array(const object *array)
{
    int count = half_at(array, 24);
    const char *lengths = pointer_at(array, 32), *strides = pointer_at(array, 40);
    if (count < 0 || count > MOST_DIMENSIONS || (count && (!lengths || !strides)))
        return EVERYTHING;
    uint64_t bytes = 1, least = 0;
    for (int i = 0; i < count; i++) {
        uint64_t length = word_at(lengths, 8ul * (size_t)i);
        int64_t stride = (int64_t)word_at(strides, 8ul * (size_t)i);
        uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
        if (!length)
            return 0;
        if (length == 1 || !step) /* one that is told several times is there once */
            continue;
        least = !least || step < least ? step : least;
        if (__builtin_mul_overflow(bytes, length, &bytes))
            return EVERYTHING;
    }
    return !least ? FEW_BYTES : __builtin_mul_overflow(bytes, least, &bytes) ? EVERYTHING : bytes;
}

/* Its members, each as large as its type is: c10/core/ScalarType.h, whose numbers stay. */
static uint64_t shown_by_tensor(const object *tensor)
{
    static const uint8_t BYTES[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2};
    const char *memory = pointer_at(tensor, L.tensor_storage & 0xffff);
    uint64_t count = memory ? word_at(memory, L.tensor_count) : 0;
    int type = memory ? half_at(memory, L.tensor_count + 8) & 0xffff : 0; /* behind it is the device */
    return type < (int)sizeof BYTES && !(count >> MOST_BITS) ? count * BYTES[type] : EVERYTHING;
}

/* What a view is of, by its address: the memory of another array, of bytes, or of tensors. */
static uintptr_t shown_of(const object *one, uint8_t base)
{
    if (base == TENSOR)
        return L.tensor_count ? (uintptr_t)storage_of(one) : 0;
    return base == NDARRAY && !(half_at(one, 64) & OWNS) ? (uintptr_t)pointer_at(one, 48) : 0;
}

/* 0: there is no room for it. */
INTERNAL int note_view(struct graph *g, uint32_t node, uint32_t whole, uint64_t bytes)
{
    if ((g->view_count + 1) * sizeof(struct view) > g->view.bytes &&
        !grow(&g->budget, &g->view, (g->view_count * 2 + 1024) * sizeof(struct view)))
        return 0;
    ARRAY(g, view, struct view)[g->view_count++] = (struct view){node, whole, bytes};
    return 1;
}

/* Each array or tensor that shows what is no part of it, and how much of that it shows. Of a part of all objects no tensors:
 * a storage does not tell how many have it, as an array's reference count does. */
INTERNAL void find_views(struct graph *g)
{
    const struct kind *kinds = g->kind.at;
    const uint32_t *types = g->type.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        uint8_t base = types[node] >= FIRST_TYPE ? kinds[types[node]].base : PLAIN;
        if (base != NDARRAY && (base != TENSOR || g->is_sampled))
            continue;
        const object *one = ARRAY(g, address, const object *)[node];
        uintptr_t of = shown_of(one, base);
        uint32_t whole = of ? node_at(g, of) : NONE;
        if (whole == NONE)
            continue;
        if (!note_view(g, node, whole, base == TENSOR ? shown_by_tensor(one) : shown_by_array(one)))
            return;
    }
}

/* Of what each node retains, bytes that nobody shows: those to which nothing refers but views. A tensor to which C++ alone
 * refers is the one that views of the same memory were cut from: they keep it, and show what is needed of it. Nothing where
 * there is no room. */
INTERNAL void add_unshown(struct graph *g, const struct work *w, uint64_t *bytes)
{
    struct array array = {0};
    const uint32_t *edges_in = w->edges_in.at, *references = g->references.at, *types = g->type.at;
    const struct view *views = g->view.at;
    const uint64_t *own = g->own.at;
    memset(bytes, 0, g->reached * 8ul);
    if (!g->view_count || !grow(&g->budget, &array, g->nodes * 4))
        return;
    uint32_t *count = array.at;
    for (uint32_t k = 0; k < g->view_count; k++) {
        uint32_t node = views[k].node, whole = views[k].whole;
        int is_cut_from = types[whole] == TYPE_STORAGE && !edges_in[node] && references[node] == 1;
        count[whole]++;
        bytes[whole < g->reached ? whole : 0] += is_cut_from ? 0 : views[k].bytes;
    }
    bytes[0] = 0;
    for (uint32_t k = 0; k < g->view_count; k++) {
        uint32_t whole = views[k].whole, views_of = count[whole];
        int is_object = types[whole] >= FIRST_TYPE, is_plain = types[whole] == TYPE_STORAGE || types[whole] == TYPE_ARROW;
        if (whole >= g->reached || !views_of)
            continue;
        int is_alone = views_of == edges_in[whole] && (is_object ? references[whole] == views_of : is_plain);
        bytes[whole] = is_alone && own[whole] > bytes[whole] ? own[whole] - bytes[whole] : 0;
        count[whole] = 0;
    }
    carry_up(g, w, bytes);
    drop(&g->budget, &array);
}
