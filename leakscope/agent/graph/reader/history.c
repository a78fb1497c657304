/* What hangs on tensors in C++: the graphs by which autograd would go back, and the tensors that these keep.
 *
 * To ask torch makes a Python object for each node, which stays, and of which only so many may exist (torch/autograd.py).
 * Here nodes are read where they lie, as graph_find_histories found out from a few that torch was asked about, and nothing
 * is left behind. They hold still while this thread has the GIL and all others wait outside of torch, which lets go of it.
 * Where a node has a saved tensor is learnt for each class of nodes from the first few of it. What was learnt may be wrong:
 * so all is read by way of the kernel, for which a wrong address is an error and no crash, or from a page that it read from.
 *
 * What C++ holds behind an object that pybind11 made is looked into alike: torch keeps the inputs of checkpoints so.
 *
 * A graph is counted with the oldest tensor that leads to it: a later one may have been calculated from that, and holds
 * no more than what came since.
 */
#include "reader.h"

enum { MOST_EDGES = 1 << 16, FIRST_MEMBER = 16, MOST_OF_NODE = 4096, LEARNT_FROM = 8, LEARNT_AGAIN = 256 };

enum { MOST_CLASSES = 512, MOST_LEARNT = 32, ASKED_AT_ONCE = 64, READ_OF_TENSOR = 128, READ_OF_STORAGE = 96, MOST_VTABLES = 4 };

enum { MOST_OF_LIST = 1 << 16, LEFT_BY_MALLOC = 32, READ_OF_HOOKS = 32, BEFORE_THE_CLOCK = 256, USUAL_BYTES = 256, LEAST_BYTES_OF_NODE = 128,
       LOOKED_AT = 256, PAGE_BYTES = 4096, KNOWN_PAGES = 4096 };

/* What a member of a node leads to: a tensor or an object of Python's, a list of such, or two functions of Python's and what
 * these made of a tensor (torch.autograd.graph.saved_tensors_hooks). */
enum { SAVED_ONE = 1, SAVED_LIST, SAVED_HOOKS };

struct node_class { /* by its table of functions. members: offsets of what was of that kind in some node of it; bytes: to the
                     * end of the last */
    uint64_t functions, seen, bytes;
    uint16_t members[MOST_LEARNT];
    uint8_t kinds[MOST_LEARNT];
    uint32_t count;
};

struct walk {
    struct graph *g;
    const struct history_places *places;
    struct array seen, heap, tie, classes, owned, behind, saved, numbers; /* seen, owned, behind: tables by address */
    struct array pages; /* that can be read: each at its own place among KNOWN_PAGES */
    uint64_t seen_count, seen_mask, heap_count, tie_count, class_count, owned_mask, behind_mask, saved_count;
    uint64_t vtables[MOST_VTABLES];
    uint64_t ends_ns, asked[ASKED_AT_ONCE];
    uint32_t asked_for[ASKED_AT_ONCE]; /* the node that holds it, if it is a tensor */
    uint32_t asked_count, token_node, cut_node; /* the graph that there was no time for the rest of; NONE */
    uint64_t operations, saved_bytes, seen_bytes;
    int is_over, is_wrong;
};

struct waiting { /* a node of a graph: the oldest first */
    uint64_t number, node;
};

/* A table of addresses, each with one more word; 0: no address. */
struct known {
    uint64_t address, value;
};

static int begin_known(struct walk *w, struct array *array, uint64_t *mask, uint64_t count)
{
    uint64_t size = 64;
    while (size < count * 2)
        size *= 2;
    *mask = size - 1;
    return grow(&w->g->budget, array, size * sizeof(struct known));
}

/* Where an address is, or would be. */
static struct known *known_at(const struct array *array, uint64_t mask, uint64_t address)
{
    struct known *table = array->at;
    uint64_t slot = hash(address) & mask;
    while (table[slot].address && table[slot].address != address)
        slot = (slot + 1) & mask;
    return &table[slot];
}

static int more_known(struct walk *w)
{
    struct array before = w->seen;
    uint64_t mask = w->seen_mask;
    w->seen = (struct array){0};
    int is_done = begin_known(w, &w->seen, &w->seen_mask, (mask + 1) * 2);
    for (uint64_t i = 0; is_done && i <= mask; i++) {
        const struct known *one = (struct known *)before.at + i;
        if (one->address)
            *known_at(&w->seen, w->seen_mask, one->address) = *one;
    }
    if (!is_done) {
        w->seen = before;
        w->seen_mask = mask;
        return 0;
    }
    drop(&w->g->budget, &before);
    return 1;
}

/* Whether an address is seen for the first time. */
static int is_first(struct walk *w, uint64_t address)
{
    struct known *one = known_at(&w->seen, w->seen_mask, address);
    if (one->address || w->seen_count == w->seen_mask) /* there has to be an empty slot, or no look would end */
        return 0;
    *one = (struct known){address, 1};
    if (++w->seen_count * 2 > w->seen_mask && !more_known(w))
        w->is_over = 1;
    return 1;
}

/* Room for one more. */
static int room(struct walk *w, struct array *array, uint64_t count, size_t each)
{
    return (count + 1) * each <= array->bytes || grow(&w->g->budget, array, (count * 3 / 2 + 512) * each);
}

static void push(struct walk *w, uint64_t node, uint64_t number)
{
    if (!room(w, &w->heap, w->heap_count, sizeof(struct waiting))) {
        w->is_over = 1;
        return;
    }
    struct waiting *heap = w->heap.at;
    uint64_t at = w->heap_count++;
    for (; at && heap[(at - 1) / 2].number > number; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = (struct waiting){number, node};
}

static struct waiting pop(struct walk *w)
{
    struct waiting *heap = w->heap.at, first = heap[0], last = heap[--w->heap_count];
    uint64_t at = 0, count = w->heap_count;
    for (uint64_t below = 1; below < count; below = 2 * at + 1) {
        below += below + 1 < count && heap[below + 1].number < heap[below].number;
        if (heap[below].number >= last.number)
            break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = last;
    return first;
}

/* Memory, where all of it can be read: NULL elsewhere. Nothing is unmapped meanwhile. */
static const char *peek(struct walk *w, uint64_t address, uint64_t bytes)
{
    uint64_t *pages = w->pages.at;
    char one;
    if (address < PAGE_BYTES || address >> 47)
        return NULL;
    for (uint64_t page = address / PAGE_BYTES; page <= (address + bytes - 1) / PAGE_BYTES; page++)
        if (pages[page % KNOWN_PAGES] != page) {
            if (!copy_from(page * PAGE_BYTES, &one, 1))
                return NULL;
            pages[page % KNOWN_PAGES] = page;
        }
    return (const char *)(uintptr_t)address;
}

/* A word of it, 0 where there is none. */
static uint64_t peek_word(struct walk *w, uint64_t address)
{
    const char *at = peek(w, address, 8);
    return at ? word_at(at, 0) : 0;
}

/* Tensors by what is behind them: of each the node of the object, or 0 where other objects refer to that. */
static int know_tensors(struct walk *w)
{
    struct graph *g = w->g;
    struct array array = {0};
    uint64_t count = 0;
    const uint32_t *types = g->type.at;
    const struct kind *kinds = g->kind.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++)
        count += types[node] >= FIRST_TYPE && kinds[types[node]].base == TENSOR;
    const uint8_t *is_held = begin_known(w, &w->behind, &w->behind_mask, count + 1) ? referred(g, &array) : NULL;
    if (!is_held)
        return 0;
    for (uint32_t node = GROUPS; node < g->nodes; node++)
        if (types[node] >= FIRST_TYPE && kinds[types[node]].base == TENSOR) {
            uint64_t behind = peek_word(w, ARRAY(g, address, uintptr_t)[node] + (L.tensor_storage & 0xffff));
            if (behind)
                *known_at(&w->behind, w->behind_mask, behind) = (struct known){behind, is_held[node] ? 0 : node};
        }
    drop(&g->budget, &array);
    return 1;
}

static int tie_to(struct walk *w, uint32_t holder, uint32_t node)
{
    if (node == NONE || !room(w, &w->tie, w->tie_count, sizeof(struct pair)))
        return 0;
    ARRAY(w, tie, struct pair)[w->tie_count++] = (struct pair){holder, node};
    return 1;
}

static void keep_storage(struct walk *w, uint32_t holder, uint64_t implementation, uint64_t storage, const char *read)
{
    uint64_t bytes = word_at(read, L.storage_bytes);
    uint16_t device;
    memcpy(&device, read + L.storage_device, 2);
    if (!bytes || bytes >> MOST_BITS || known_at(&w->owned, w->owned_mask, storage)->address)
        return;
    int is_new = is_first(w, storage);
    struct known *object = known_at(&w->behind, w->behind_mask, implementation);
    struct tie tie = {.to = storage, .bytes = bytes, .type = device & 0xff ? TYPE_DEVICE : TYPE_STORAGE};
    if (!object->address || object->value) /* else the tensor is named where Python code has it */
        w->is_over |= !tie_to(w, holder, object->address ? (uint32_t)object->value : node_of_tie(w->g, &tie));
    w->seen_bytes += is_new ? bytes : 0;
    if (is_new && room(w, &w->saved, w->saved_count, sizeof(struct saved)))
        ARRAY(w, saved, struct saved)[w->saved_count++] = (struct saved){storage, bytes, device};
}

/* Many pieces of memory at once: of each so many bytes. Those that are none come as zeros. */
static void read_all(const uint64_t *from, uint32_t count, char *to, size_t bytes)
{
    struct iovec there[ASKED_AT_ONCE], here = {to, count * bytes};
    memset(to, 0, count * bytes);
    for (uint32_t i = 0; i < count; i++)
        there[i] = (struct iovec){(void *)from[i], bytes};
    for (uint32_t done = 0; done < count;) {
        here = (struct iovec){to + done * bytes, (count - done) * bytes};
        ssize_t got = process_vm_readv(getpid(), &here, 1, there + done, count - done, 0);
        done += (got > 0 ? (uint32_t)((size_t)got / bytes) : 0) + 1; /* and the one that failed, if any did */
    }
}

static int is_tensor(const struct walk *w, uint64_t functions)
{
    int is_one = 0;
    for (int k = 0; k < MOST_VTABLES; k++)
        is_one |= functions && functions == w->vtables[k];
    return is_one;
}

/* What may be saved tensors. */
static void settle_asked(struct walk *w)
{
    char tensors[ASKED_AT_ONCE * READ_OF_TENSOR], storages[ASKED_AT_ONCE * READ_OF_STORAGE];
    uint64_t storage_at = L.tensor_storage >> 16, behind[ASKED_AT_ONCE], of[ASKED_AT_ONCE] = {0};
    uint32_t holder[ASKED_AT_ONCE], count = 0;
    read_all(w->asked, w->asked_count, tensors, READ_OF_TENSOR);
    for (uint32_t i = 0; i < w->asked_count; i++) {
        const char *tensor = tensors + i * READ_OF_TENSOR;
        uint64_t storage = word_at(tensor, storage_at);
        if (is_tensor(w, word_at(tensor, 0)) && storage) {
            behind[count] = w->asked[i];
            holder[count] = w->asked_for[i];
            of[count++] = storage;
        }
    }
    read_all(of, count, storages, READ_OF_STORAGE);
    for (uint32_t i = 0; i < count; i++)
        keep_storage(w, holder[i], behind[i], of[i], storages + i * READ_OF_STORAGE);
    w->asked_count = 0;
}

static void ask(struct walk *w, uint64_t address)
{
    w->asked_for[w->asked_count] = w->token_node;
    w->asked[w->asked_count++] = address;
    if (w->asked_count == ASKED_AT_ONCE)
        settle_asked(w);
}

static struct node_class *class_of(struct walk *w, uint64_t functions)
{
    struct node_class *classes = w->classes.at;
    uint64_t slot = hash(functions) & (2 * MOST_CLASSES - 1);
    while (classes[slot].functions && classes[slot].functions != functions)
        slot = (slot + 1) & (2 * MOST_CLASSES - 1);
    if (!classes[slot].functions) {
        if (w->class_count == MOST_CLASSES)
            return NULL;
        w->class_count++;
        classes[slot].functions = functions;
    }
    return &classes[slot];
}

static int may_point(uint64_t word)
{
    return !(word >> 47) && word >= 1 << 16 && !(word & 7);
}

/* Where what a std::vector has begins, and how many words that is; 0: it is none. It says where that begins and ends, and
 * where the block of malloc does that it lies in, which says so too: two pointers that happen to be neighbours do not. */
static uint64_t list_at(const char *at, uint64_t *begin)
{
    *begin = word_at(at, 0);
    uint64_t bytes = word_at(at, 8) - *begin, kept = word_at(at, 16) - *begin, chunk;
    if (!may_point(*begin) || !bytes || bytes & 7 || bytes > kept || kept > MOST_OF_LIST || !copy_from(*begin - 8, &chunk, 8))
        return 0;
    chunk &= ~(uint64_t)7;
    return chunk < kept + 8 || chunk > kept + 8 + LEFT_BY_MALLOC ? 0 : bytes / 8;
}

/* Some of these words, copied: how many. */
static uint32_t words_of_list(uint64_t begin, uint64_t count, uint64_t words[ASKED_AT_ONCE])
{
    uint32_t some = count < ASKED_AT_ONCE ? (uint32_t)count : ASKED_AT_ONCE;
    return copy_from(begin, words, 8ul * some) ? some : 0;
}

/* Whether what was read behind a pointer are hooks: a table of functions, one of Python's that packs, one that unpacks, what was
 * packed. An object of Python's begins with a number. */
static int are_hooks(const struct walk *w, const char *read)
{
    uint64_t functions = word_at(read, 0), first;
    return may_point(functions) && node_at(w->g, word_at(read, 8)) != NONE && node_at(w->g, word_at(read, 16)) != NONE &&
           copy_from(functions, &first, 8);
}

/* Where these words lead: to SAVED_ONE, or SAVED_HOOKS; 0: to nothing that is known. Returns how many lead somewhere. */
static uint32_t what_is_behind(const struct walk *w, const uint64_t *words, uint32_t count, uint8_t *which)
{
    uint64_t address[ASKED_AT_ONCE] = {0};
    uint32_t of[ASKED_AT_ONCE], some = 0, found = 0;
    char read[ASKED_AT_ONCE * READ_OF_HOOKS];
    for (uint32_t i = 0; i < count; i++) {
        which[i] = 0;
        if (may_point(words[i])) {
            of[some] = i;
            address[some++] = words[i];
        }
    }
    read_all(address, some, read, READ_OF_HOOKS);
    for (uint32_t i = 0; i < some; i++) {
        const char *behind = read + (size_t)READ_OF_HOOKS * i;
        if (is_tensor(w, word_at(behind, 0)) || node_at(w->g, address[i]) != NONE)
            which[of[i]] = SAVED_ONE;
        else if (are_hooks(w, behind))
            which[of[i]] = SAVED_HOOKS;
        found += which[of[i]] != 0;
    }
    return found;
}

static void learn_one(struct node_class *of, uint64_t offset, uint8_t kind)
{
    uint64_t end = offset + (kind == SAVED_LIST ? 24 : 8);
    for (uint32_t k = 0; k < of->count; k++)
        if (of->members[k] == offset)
            return;
    if (of->count == MOST_LEARNT)
        return;
    of->bytes = end > of->bytes ? end : of->bytes;
    of->kinds[of->count] = kind;
    of->members[of->count++] = (uint16_t)offset;
}

static void learn_lists(const struct walk *w, struct node_class *of, const uint64_t *words, uint32_t end)
{
    uint64_t begin, listed[ASKED_AT_ONCE];
    uint8_t which[ASKED_AT_ONCE];
    for (uint32_t i = FIRST_MEMBER / 8; i + 2 < end; i++) {
        uint64_t count = list_at((const char *)(words + i), &begin);
        if (count && what_is_behind(w, listed, words_of_list(begin, count, listed), which))
            learn_one(of, 8ul * i, SAVED_LIST);
    }
}

/* How many bytes the block of malloc has that begins here; 0: nothing can be read there. What is no block's beginning has any
 * number there, which malloc_usable_size would follow as an offset, to no memory maybe. */
static uint64_t block_bytes(uint64_t address)
{
    uint64_t chunk;
    return copy_from(address - 8, &chunk, 8) ? (chunk & ~(uint64_t)7) - 8 : 0;
}

/* Which words of a node are tensors, or objects of Python's, or lists of tensors, or hooks. How large it is malloc says, unless
 * the node lies inside of a block: read by the kernel, too far is no harm. */
static void learn(struct walk *w, struct node_class *of, uint64_t node)
{
    uint64_t size = block_bytes(node), words[MOST_OF_NODE / 8];
    uint8_t which[ASKED_AT_ONCE];
    if (size < LEAST_BYTES_OF_NODE || size > MOST_OF_NODE)
        size = USUAL_BYTES;
    if (!copy_from(node, words, size))
        return;
    uint32_t end = (uint32_t)(size / 8), edges = (uint32_t)(w->places->edges / 8);
    for (uint32_t k = edges; k < edges + 3 && k < end; k++) /* begin, end, room */
        words[k] = 0;
    for (uint32_t first = FIRST_MEMBER / 8; first < end; first += ASKED_AT_ONCE) {
        uint32_t count = end - first < ASKED_AT_ONCE ? end - first : ASKED_AT_ONCE;
        what_is_behind(w, words + first, count, which);
        for (uint32_t i = 0; i < count; i++)
            if (which[i])
                learn_one(of, 8ul * (first + i), which[i]);
    }
    learn_lists(w, of, words, end);
}

static void ask_all(struct walk *w, const char *at)
{
    uint64_t begin, left = list_at(at, &begin), words[ASKED_AT_ONCE];
    for (uint32_t count; left && (count = words_of_list(begin, left, words)); left -= count, begin += 8ul * count)
        for (uint32_t i = 0; i < count; i++)
            if (may_point(words[i]))
                ask(w, words[i]);
}

static void hold(struct walk *w, uint32_t object)
{
    w->is_over |= !tie_to(w, w->token_node, object);
}

/* An object of Python's that a node leads to: a function that was written there. What it saved is in it, in a list that Python
 * is not told of. It knows its node, as no other object does: in a node there may be pointers left over from what was in its
 * place before, also to objects that went since the graph was taken, so that all is read by way of the kernel. */
static void hold_function(struct walk *w, uint32_t object, uint64_t node)
{
    const type *cls = ARRAY(w->g, kind, struct kind)[ARRAY(w->g, type, uint32_t)[object]].type;
    uint64_t words[MOST_OF_NODE / 8], size;
    if (!copy_from((uintptr_t)&cls->basic_size, &size, 8) || size > MOST_OF_NODE || size & 7 ||
        !copy_from(ARRAY(w->g, address, uintptr_t)[object], words, size) || words[1] != (uintptr_t)cls)
        return;
    uint32_t end = (uint32_t)(size / 8), at = FIRST_MEMBER / 8;
    while (at < end && words[at] != node)
        at++;
    if (at >= end)
        return;
    hold(w, object);
    struct node_class *of = class_of(w, (uintptr_t)cls);
    if (!of)
        return;
    if (of->seen < LEARNT_FROM || of->seen % LEARNT_AGAIN == 0)
        learn_lists(w, of, words, end);
    of->seen++;
    for (uint32_t i = 0; i < of->count; i++)
        ask_all(w, (const char *)words + of->members[i]);
}

static void look_into(struct walk *w, uint64_t node, uint64_t functions)
{
    struct node_class *of = class_of(w, functions);
    char behind[READ_OF_HOOKS];
    if (!of)
        return;
    if (of->seen < LEARNT_FROM || of->seen % LEARNT_AGAIN == 0)
        learn(w, of, node);
    of->seen++;
    const char *begin = of->bytes ? peek(w, node, of->bytes) : NULL;
    if (!begin)
        return;
    for (uint32_t i = 0; i < of->count; i++) {
        const char *at = begin + of->members[i];
        uint64_t member = word_at(at, 0);
        uint32_t object = of->kinds[i] == SAVED_ONE && member ? node_at(w->g, member) : NONE;
        if (of->kinds[i] == SAVED_LIST)
            ask_all(w, at);
        else if (of->kinds[i] == SAVED_HOOKS && may_point(member) && copy_from(member, behind, sizeof behind) &&
                 are_hooks(w, behind)) {
            for (uint64_t k = 8; k < sizeof behind; k += 8)
                if ((object = node_at(w->g, word_at(behind, k))) != NONE)
                    hold(w, object);
        } else if (object != NONE && ARRAY(w->g, type, uint32_t)[object] >= FIRST_TYPE)
            hold_function(w, object, node);
        else if (of->kinds[i] == SAVED_ONE && may_point(member))
            ask(w, member);
    }
}

/* The nodes that one leads to, and no older one did. 0: these are no nodes. */
static int push_next(struct walk *w, const char *node)
{
    const struct history_places *at = w->places;
    uint64_t begin = word_at(node, at->edges), bytes = word_at(node, at->edges + 8) - begin, next;
    const char *edges, *number;
    if (!bytes)
        return 1;
    if (bytes % at->edge_bytes || bytes > MOST_EDGES * at->edge_bytes || !(edges = peek(w, begin, bytes)))
        return 0;
    for (const char *edge = edges; edge < edges + bytes; edge += at->edge_bytes) {
        if (!(next = word_at(edge, 0)))
            continue;
        if (!(number = peek(w, next + at->sequence, 8)))
            return 0;
        if (word_at(number, 0) != UINT64_MAX && is_first(w, next)) /* the others stand for parameters */
            push(w, next, word_at(number, 0));
    }
    return 1;
}

/* All that one tensor's node leads to and no older one did. Of a graph that there is no time for it is guessed, by the
 * numbers of its nodes: whole is only what is older than all that still waits. */
static void walk_down(struct walk *w, const struct history *top)
{
    const struct history_places *at = w->places;
    uint64_t newest = top->number, oldest = newest, walked = 0;
    w->heap_count = 0;
    if (newest != UINT64_MAX && is_first(w, top->node))
        push(w, top->node, newest);
    while (w->heap_count && !w->is_over && room(w, &w->numbers, walked, 8)) {
        struct waiting one = pop(w);
        ARRAY(w, numbers, uint64_t)[walked++] = one.number;
        oldest = one.number < oldest ? one.number : oldest;
        const char *node = peek(w, one.node, at->edges + 16);
        if (!node || !push_next(w, node)) {
            w->is_wrong = 1;
            return;
        }
        look_into(w, one.node, word_at(node, 0));
        w->is_over |= walked % BEFORE_THE_CLOCK == 0 && cpu_ns() > w->ends_ns;
    }
    settle_asked(w);
    w->operations = walked;
    w->saved_bytes = w->seen_bytes;
    if (!w->heap_count)
        return;
    w->is_over = 1;
    w->cut_node = w->token_node;
    uint64_t reached = ARRAY(w, heap, struct waiting)[0].number, below = 0;
    for (uint64_t i = 0; i < walked; i++)
        below += ARRAY(w, numbers, uint64_t)[i] < reached;
    if (below < BEFORE_THE_CLOCK) /* still on the way down: all that is known is that there is more */
        return;
    double scale = (double)(newest - oldest) / (double)(reached - oldest);
    w->operations = (uint64_t)((double)below * scale) > walked ? (uint64_t)((double)below * scale) : walked;
    w->saved_bytes = (uint64_t)((double)w->seen_bytes * (double)w->operations / (double)walked);
}

/* What Python does not refer to is kept by the rest of a graph that was not followed to its end. */
static int tie_rest(struct walk *w)
{
    struct graph *g = w->g;
    struct array array = {0};
    int is_done = grow(&g->budget, &array, g->nodes);
    uint8_t *is_held = array.at;
    for (uint64_t k = 0; is_done && k < w->tie_count; k++)
        is_held[ARRAY(w, tie, struct pair)[k].to] = 1;
    w->token_node = w->cut_node;
    for (uint64_t i = 0; is_done && i <= w->behind_mask; i++) {
        const struct known *tensor = (struct known *)w->behind.at + i;
        if (tensor->value && !is_held[tensor->value])
            is_done = tie_to(w, w->token_node, (uint32_t)tensor->value);
    }
    drop(&g->budget, &array);
    return is_done;
}

/* What is behind an object that pybind11 made: one word after those that every object of Python's begins with, which may
 * lead to what is no more there. The object itself may have gone since the graph was taken, and its page with it. How many
 * bytes it has the block of malloc says; 0: that cannot be told. */
static uint64_t read_wrapped(const struct walk *w, uint32_t object, uint64_t words[MOST_OF_NODE / 8])
{
    uint64_t wrapped, bytes;
    if (!copy_from(ARRAY(w->g, address, uintptr_t)[object] + 16, &wrapped, 8) || !may_point(wrapped))
        return 0;
    bytes = block_bytes(wrapped);
    return bytes <= MOST_OF_NODE && copy_from(wrapped, words, bytes) ? bytes : 0;
}

/* The tensors that objects of C++ have, of which Python knows only the wrapper. */
static void look_behind_wrappers(struct walk *w)
{
    struct graph *g = w->g;
    const struct kind *kinds = g->kind.at;
    uint64_t words[MOST_OF_NODE / 8], looked = 0, nodes = g->nodes; /* more come with what is found */
    uint8_t which[ASKED_AT_ONCE];
    for (uint32_t node = GROUPS; node < nodes && !w->is_over; node++) {
        uint32_t type = ARRAY(g, type, uint32_t)[node];
        struct node_class *of = type >= FIRST_TYPE && kinds[type].is_wrapper ? class_of(w, (uintptr_t)kinds[type].type) : NULL;
        if (!of)
            continue;
        int is_learnt = of->seen >= LEARNT_FROM && of->seen % LEARNT_AGAIN;
        of->seen++;
        uint64_t end = is_learnt && !of->count ? 0 : read_wrapped(w, node, words) / 8;
        w->token_node = node;
        for (uint64_t at = 0; at < end && !is_learnt; at += ASKED_AT_ONCE) {
            uint32_t count = end - at < ASKED_AT_ONCE ? (uint32_t)(end - at) : ASKED_AT_ONCE;
            what_is_behind(w, words + at, count, which);
            for (uint32_t i = 0; i < count; i++)
                if (which[i] == SAVED_ONE)
                    learn_one(of, 8ul * (at + i), SAVED_ONE);
        }
        for (uint32_t i = 0; i < of->count; i++)
            if (of->members[i] / 8u < end && may_point(words[of->members[i] / 8u]))
                ask(w, words[of->members[i] / 8u]);
        w->is_over |= ++looked % BEFORE_THE_CLOCK == 0 && cpu_ns() > w->ends_ns;
    }
    settle_asked(w);
}

static const char *implementation_of(uint64_t tensor)
{
    return pointer_at((void *)tensor, L.tensor_storage & 0xffff);
}

static int by_age(const void *one, const void *other)
{
    uint64_t a = ((const struct history *)one)->number, b = ((const struct history *)other)->number;
    return a < b ? -1 : a > b;
}

enum { LEAST_NODES_ASKED = 3 };

static int is_sequence(const char words[][LOOKED_AT], const struct known_node *nodes, uint64_t count, uint64_t at)
{
    for (uint64_t i = 0; i < count; i++)
        if (word_at(words[i], at) != nodes[i].sequence)
            return 0;
    return 1;
}

static int are_edges(const char words[][LOOKED_AT], const struct known_node *nodes, uint64_t count, const uint64_t *next, uint64_t at,
                     uint64_t each)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t begin = word_at(words[i], at), end = word_at(words[i], at + 8), leads_to;
        if (end - begin != nodes[i].count * each)
            return 0;
        for (uint64_t k = 0; k < nodes[i].count; k++)
            if (!copy_from(begin + k * each, &leads_to, 8) || leads_to != next[nodes[i].first + k])
                return 0;
    }
    return 1;
}

static int is_way(const struct known_tensor *tensors, uint64_t count, uint64_t meta, uint64_t function)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t behind = word_at(implementation_of(tensors[i].tensor), meta), node;
        if (behind < 1 << 16 || behind & 7 || !copy_from(behind + function, &node, 8) || node != tensors[i].node)
            return 0;
    }
    return 1;
}

INTERNAL int find_histories(struct history_places *found, const struct known_node *nodes, uint64_t count, const uint64_t *next,
                                const struct known_tensor *tensors, uint64_t tensor_count)
{
    enum { MOST_ASKED = 32, WORDS_OF_TENSOR = 16 };
    char words[MOST_ASKED][LOOKED_AT];
    uint64_t with_edges = 0;
    int has_sequence = 0, has_edges = 0;
    if (count > MOST_ASKED || !tensor_count)
        return 0;
    for (uint64_t i = 0; i < count; i++) {
        with_edges += nodes[i].count > 0;
        if (!copy_from(nodes[i].node, words[i], LOOKED_AT))
            return 0;
    }
    if (with_edges < LEAST_NODES_ASKED)
        return 0;
    for (uint64_t at = 8; at + 16 <= LOOKED_AT; at += 8) {
        if (!has_sequence && is_sequence(words, nodes, count, at)) {
            found->sequence = at;
            has_sequence = 1;
        }
        for (uint64_t each = 16; !has_edges && each <= 24; each += 8) /* since torch 2.13 a node counts its references itself */
            if (are_edges(words, nodes, count, next, at, each)) {
                found->edges = at;
                found->edge_bytes = each;
                has_edges = 1;
            }
    }
    uint64_t ways = 0;
    for (uint64_t meta = 8; has_sequence && has_edges && meta < 8 * WORDS_OF_TENSOR; meta += 8)
        for (uint64_t function = 8; function < LOOKED_AT; function += 8)
            if (is_way(tensors, tensor_count, meta, function)) {
                found->meta = meta;
                found->function = function;
                ways++;
            }
    /* Of one tensor another block of its own may lie right before the one that knows of the node: in 1 of 100 loops of a small
     * model what is behind the end of its storage's was taken for it, and at a later tensor led anywhere. */
    return ways == 1;
}

static void know_table(struct walk *w, uint64_t functions)
{
    for (int k = 0; k < MOST_VTABLES; k++) {
        if (!w->vtables[k])
            w->vtables[k] = functions;
        if (w->vtables[k] == functions)
            return;
    }
}

/* Of each tensor the node by which it was made, and which classes of C++ tensors are of. 0: these are no nodes. */
static int find_nodes(struct walk *w, struct history *histories, uint64_t count)
{
    const struct history_places *at = w->places;
    for (struct history *one = histories; one < histories + count; one++) {
        uint64_t behind = peek_word(w, one->tensor + (L.tensor_storage & 0xffff)), meta = peek_word(w, behind + at->meta);
        know_table(w, peek_word(w, behind));
        one->node = meta ? peek_word(w, meta + at->function) : 0;
        if (one->node && !peek(w, one->node + at->sequence, 8))
            return 0;
        one->number = one->node ? peek_word(w, one->node + at->sequence) : UINT64_MAX;
    }
    qsort(histories, count, sizeof *histories, by_age);
    return 1;
}

/* The graph that hangs on one tensor. 0: nodes do not lie as was thought, or there is no room. */
static int read_history(struct walk *w, struct history *one)
{
    struct graph *g = w->g;
    uint32_t object = node_at(g, one->tensor);
    if (!one->node || object == NONE)
        return 1;
    if (w->is_over) {
        one->operations = NONE;
        return 1;
    }
    struct tie tie = {.to = one->token, .type = TYPE_AUTOGRAD};
    w->token_node = node_of_tie(g, &tie);
    w->operations = w->saved_bytes = w->seen_bytes = 0;
    if (w->token_node == NONE || !room(w, &w->tie, w->tie_count, sizeof(struct pair)))
        return 0;
    ARRAY(w, tie, struct pair)[w->tie_count++] = (struct pair){object, w->token_node};
    walk_down(w, one);
    one->operations = w->operations;
    one->saved_bytes = w->saved_bytes;
    one->seen_bytes = w->seen_bytes;
    ARRAY(g, own, uint64_t)[w->token_node] = w->operations * OPERATION_BYTES;
    return !w->is_wrong;
}

INTERNAL int read_histories(struct graph *g, const struct history_places *places, struct history *histories, uint64_t count,
                            const uint64_t *owned, uint64_t owned_count, uint64_t most_ns)
{
    struct walk w = {.g = g, .places = places, .ends_ns = cpu_ns() + most_ns, .cut_node = NONE};
    uint64_t nodes = g->nodes;
    int is_done = begin_known(&w, &w.seen, &w.seen_mask, 4096) && begin_known(&w, &w.owned, &w.owned_mask, owned_count + 1) &&
                  grow(&g->budget, &w.classes, 2 * MOST_CLASSES * sizeof(struct node_class)) &&
                  grow(&g->budget, &w.pages, KNOWN_PAGES * 8) && know_tensors(&w);
    for (uint64_t i = 0; is_done && i < owned_count; i++)
        if (owned[i])
            *known_at(&w.owned, w.owned_mask, owned[i]) = (struct known){owned[i], 1};
    is_done = is_done && find_nodes(&w, histories, count);
    for (uint64_t i = 0; is_done && i < count; i++)
        is_done = read_history(&w, &histories[i]);
    if (is_done)
        look_behind_wrappers(&w);
    int is_cut = w.is_over;
    is_done = is_done && (w.cut_node == NONE || tie_rest(&w));
    for (uint64_t node = nodes; node < g->nodes; node++)
        ARRAY(g, begin, uint32_t)[node + 1] = (uint32_t)g->edges;
    int is_added = is_done && insert_all(g, w.tie.at, w.tie_count);
    if (!is_added)
        memset(ARRAY(g, own, uint64_t) + nodes, 0, (g->nodes - nodes) * 8);
    drop(&g->budget, &g->saved);
    g->saved = w.saved;
    g->saved_storages = w.saved.at;
    g->saved_count = w.saved_count;
    struct array *arrays[] = {&w.seen, &w.heap, &w.tie, &w.classes, &w.owned, &w.behind, &w.numbers, &w.pages};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        drop(&g->budget, arrays[i]);
    return is_added ? 1 + is_cut : 0;
}
