/* What an object refers to, and what of buffers it shows. */
#include "reader.h"

/* What the collector knows. The lists are walked as gc.get_objects() does. */
enum { FROZEN = 3 }; /* by gc.freeze() */

INTERNAL uint64_t generation_at(int number)
{
    return L.generations + (number == FROZEN ? L.frozen : 24 * (uint64_t)number);
}

static int list_one(struct budget *budget, struct array *listed, uint64_t count, uint64_t at)
{
    if ((count + 1) * 8 > listed->bytes && !grow(budget, listed, (count * 3 / 2 + 65536) * 8))
        return 0;
    ((uintptr_t *)listed->at)[count] = at + 16;
    return 1;
}

/* All that the collector tracks, those that gc.freeze() hides last, and where they begin. The lists are chains through the
 * whole heap, of which nothing can be fetched ahead: they are walked once, from both ends at a time, which wait for memory
 * together. Returns how many there are, if not more than ``most``; one more than that: too many, or no room for the
 * addresses. */
INTERNAL uint64_t list_objects(struct budget *budget, struct array *listed, uint64_t most, uint64_t *first_frozen)
{
    struct array last = {0}; /* those from the end, the last first */
    uint64_t count = 0, fits = 1;
    for (int i = 0; i <= FROZEN && fits; i++) {
        uint64_t head = generation_at(i), from_end = 0;
        uint64_t next = word_at((void *)head, 0) & ~TAGS, before = L.is_collecting ? word_at((void *)head, 8) & ~TAGS : 0;
        *first_frozen = count;
        for (; fits && next && next != head; next = word_at((void *)next, 0) & ~TAGS) {
            fits = count + from_end < most && list_one(budget, listed, count++, next);
            if (next == before || !fits)
                break;
            if (!before) /* while a collection goes on, of which nobody tells here, there are counts in these words */
                continue;
            fits = count + from_end < most && list_one(budget, &last, from_end++, before);
            if (before == (word_at((void *)next, 0) & ~TAGS))
                break;
            before = word_at((void *)before, 8) & ~TAGS;
        }
        for (; fits && from_end; fits = list_one(budget, listed, count++, ((uintptr_t *)last.at)[from_end] - 16))
            from_end--;
    }
    drop(budget, &last);
    return fits ? count : most + 1;
}

/* A node for each. */
INTERNAL int put_objects(struct graph *g, const uintptr_t *listed, uint64_t count)
{
    enum { AHEAD = 16 };
    for (uint64_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(ARRAY(g, table, uint64_t) + (hash(listed[i + AHEAD]) & g->table_mask));
        if (node_of(g, listed[i], TYPE_NONE) == NONE)
            return 0;
    }
    return 1;
}

/* The names of its variables, a tuple; NULL where that is no frame of Python code. */
INTERNAL const object *names_of_locals(const char *frame)
{
    const object *code = (object *)reference_at(frame, L.frame_code);
    const object *names = code && code->type == L.code ? (object *)pointer_at(code, L.code_names) : NULL;
    return names && names->type == L.tuple ? names : NULL;
}

static char own_folder[1024]; /* with a slash; empty: not known */

INTERNAL void know_own_folder(const char *folder)
{
    strncpy(own_folder, folder, sizeof own_folder - 1);
}

/* The recorder's, on whatever thread: a snapshot may be made on one of the job's. */
INTERNAL int is_ours(const char *frame)
{
    char text[sizeof own_folder];
    const object *code = (object *)reference_at(frame, L.frame_code);
    const object *file = code && code->type == L.code && L.code_file ? (object *)pointer_at(code, L.code_file) : NULL;
    size_t length = strlen(own_folder);
    return length && is_text(file) && characters(file, text, length) == length && !memcmp(text, own_folder, length);
}

/* The running frames of a thread, innermost first: those of the recorder, or all others. Up to 3.10 frames are objects;
 * since, what an object stands for. */
INTERNAL int list_frames(struct graph *g, void *thread, int is_recorder, int own)
{
    const char *at = first_frame(thread);
    int is_old = L.version < VERSION(3, 11);
    for (int depth = 0; at && depth < 5000; depth++) {
        if (is_of_python(at) && (is_recorder || is_ours(at)) == own && !refer(g, (uintptr_t)at, is_old ? TYPE_NONE : TYPE_FRAME))
            return 0;
        at = pointer_at(at, is_old ? L.frame_back : L.frame_before);
    }
    return 1;
}

/* A frame that an exception went through which nobody caught, and the traceback of the next; the first where ``trace`` is
 * NULL. NULL: there is none. */
INTERNAL const object *stopped_frame(const object **trace)
{
    enum { NEXT = 16, FRAME = 24 };
    *trace = *trace ? (object *)pointer_at(*trace, NEXT) : L.system_object("last_traceback");
    return *trace && (*trace)->type == L.traceback ? (object *)pointer_at(*trace, FRAME) : NULL;
}

/* Frames that stopped are listed as those that run, innermost first. What the program had as it failed hangs on
 * sys.last_traceback, the last that the modules lead to: a sample may end before. */
INTERNAL int list_stopped(struct graph *g)
{
    enum { DEEPEST = 1000 };
    const object *trace = NULL, *frames[DEEPEST];
    int count = 0;
    while (count < DEEPEST && (frames[count] = stopped_frame(&trace)))
        count++;
    while (count--)
        if (!refer(g, (uintptr_t)frames[count], TYPE_NONE))
            return 0;
    return 1;
}

/* "file\nline\nname" of what a code object stands for. */
INTERNAL uint32_t owner_of(struct graph *g, const object *code)
{
    char text[640];
    if (!code || code->type != L.code || !L.code_file)
        return 0;
    const object *file = (object *)pointer_at(code, L.code_file), *name = (object *)pointer_at(code, L.code_name);
    if (!is_text(file) || !is_text(name))
        return 0;
    size_t length = characters(file, text, 480);
    text[length++] = '\n';
    char digits[16], *at = digits + sizeof digits;
    uint32_t rest = (uint32_t)half_at(code, L.code_line);
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    memcpy(text + length, at, (size_t)(digits + sizeof digits - at));
    length += (size_t)(digits + sizeof digits - at);
    text[length++] = '\n';
    length += characters(name, text + length, LONGEST_LABEL);
    return put_text(g, text, length);
}

enum { MOST_LOCALS = 1 << 14 };

static void note_local(struct graph *g, uint32_t frame, uint64_t holds, uint32_t kind, const char *name, size_t length)
{
    if (!holds || g->local_count == MOST_LOCALS ||
        !grow(&g->budget, &g->local, (g->local_count + 1) * sizeof(struct local)))
        return;
    ARRAY(g, local, struct local)[g->local_count++] = (struct local){holds, frame, put_text(g, name, length), kind};
}

/* ``owner``: what it is of. */
static int read_frame(struct graph *g, uint32_t node, const char *frame, uint32_t *owner)
{
    const object *names = names_of_locals(frame);
    if (!names)
        return 1;
    uint64_t first[] = {L.frame_function, L.frame_globals, L.frame_locals, L.frame_code};
    for (int i = 0; i < 4; i++)
        if (!refer(g, reference_at(frame, first[i]), TYPE_NONE))
            return 0;
    for (intptr_t i = 0; i < names->size; i++) {
        uint64_t holds = reference_at(frame, L.frame_slots + 8ul * i);
        if (!refer(g, holds, TYPE_NONE))
            return 0;
        char name[LONGEST_LABEL];
        if (is_text(item_of(names, i)))
            note_local(g, node, holds, LOCAL, name, characters(item_of(names, i), name, sizeof name));
    }
    note_local(g, node, reference_at(frame, L.frame_globals), NAMESPACE, OF_GLOBALS, strlen(OF_GLOBALS));
    *owner = owner_of(g, (object *)reference_at(frame, L.frame_code));
    return 1;
}

INTERNAL const char *storage_of(const object *tensor)
{
    const char *memory = pointer_at(tensor, L.tensor_storage & 0xffff);
    return memory ? pointer_at(memory, L.tensor_storage >> 16) : NULL;
}

/* Up to numpy 1.18 an array that is freed counts as referred to once while it lets go of its objects, and those that are
 * gone stand in it still. So where its own numpy is as old (by the bytes of its class, 1.19 too), what an array alone
 * holds may be such a one. */
static int may_be_letting_go(const object *member, const type *numpy)
{
    if (!member || member->reference_count != 1)
        return 0;
    for (const type *above = member->type; above; above = above->base)
        if (above == numpy) {
            const char *kind = pointer_at(member, 56);
            return kind && half_at(kind, 28) == 17;
        }
    return 0;
}

static const type *old_numpy(const type *cls)
{
    while (cls->base && cls->base->basic_size >= 80)
        cls = cls->base;
    return cls->basic_size == 80 ? cls : NULL;
}

/* What objects of C code hold without a word to the collector: a stream its text, an array whose memory it shows, or
 * objects. Numpy clears the place of an object before anybody can see it; but while it puts another into it, the one that
 * was there may be freed already: finalizers run then, and so do other threads. Nothing refers to that one any more, and
 * what it refers to may be gone. */
INTERNAL int visit_hidden(const object *one, uint8_t base, visit_function visit, void *arg)
{
    if (base == BYTES_IO)
        return visit((object *)pointer_at(one, 16), arg);
    if (base == STRING_IO) {
        if (!L.stream_text || half_at(one, 48) != 2) /* its text lies in its own memory */
            return 0;
        if (L.version < VERSION(3, 12) && visit((object *)pointer_at(one, L.stream_text - 8), arg))
            return 1;
        const char *text = pointer_at(one, L.stream_text);
        if (L.version >= VERSION(3, 14) && text) /* what writes it has a place of its own */
            text = pointer_at(text, 0);
        return visit((object *)text, arg);
    }
    if (base != NDARRAY)
        return 0;
    if (visit((object *)pointer_at(one, 48), arg))
        return 1;
    const char *kind = pointer_at(one, 56), *items = pointer_at(one, 16);
    int has_objects = kind && kind[24] == 'O' && half_at(kind, 28) == 17; /* not a type that others have added to numpy's */
    uint64_t members = has_objects ? members_of_array(one) : 0;
    const type *old = members ? old_numpy(one->type) : NULL;
    for (uint64_t i = 0; i < members; i++) {
        object *member = (object *)pointer_at(items, 8 * i);
        if (!(old && may_be_letting_go(member, old)) && visit(member, arg))
            return 1;
    }
    return 0;
}

/* Whether a dict with a table of its own has only strings for keys. */
static int has_text_keys(const object *dict, const struct keys *keys)
{
    if (L.version >= VERSION(3, 11))
        return keys->is_text;
    return L.any_lookup && word_at(pointer_at(dict, 32), 16) != L.any_lookup;
}

static struct key *slot_of_key(const struct graph *g, uintptr_t address)
{
    struct key *keys = g->key.at;
    uint32_t slot = hash(address) & g->key_mask;
    while (keys[slot].address && keys[slot].address != address)
        slot = (slot + 1) & g->key_mask;
    return &keys[slot];
}

/* One more of it. Returns how many there are now; 0: there is no room. */
static uint64_t count_key(struct graph *g, uintptr_t address)
{
    enum { FEWEST = 4096 };
    if (!g->key.at || g->key_count * 2 > g->key_mask) {
        struct array before = g->key;
        uint64_t size = before.at ? 2 * (g->key_mask + 1ul) : FEWEST;
        g->key = (struct array){0};
        if (size > (uint64_t)1 << 31 || !grow(&g->budget, &g->key, size * sizeof(struct key))) {
            g->key = before;
            return 0;
        }
        uint64_t old_size = before.at ? g->key_mask + 1ul : 0;
        g->key_mask = (uint32_t)size - 1;
        for (uint64_t i = 0; i < old_size; i++) {
            struct key *one = (struct key *)before.at + i;
            if (one->address)
                *slot_of_key(g, one->address) = *one;
        }
        drop(&g->budget, &before);
    }
    struct key *key = slot_of_key(g, address);
    g->key_count += !key->address;
    key->address = address;
    return ++key->count;
}

/* A string that a table of keys refers to, of which the collector is not told, nor are we as an edge. What lives for ever is not counted. */
INTERNAL int count_name(struct graph *g, const object *name)
{
    int lives_for_ever = L.version >= VERSION(3, 12) && count_of(name) >= (uint64_t)1 << 30;
    if (g->node_limit || lives_for_ever)
        return 1;
    g->key_references++;
    return count_key(g, (uintptr_t)name) != 0;
}

/* Keys that instances of a class share, in their dicts and without: one table refers to them, and the class has it too. */
static int count_shared_keys(struct graph *g, const char *at)
{
    if (g->node_limit)
        return 1;
    uint64_t times = count_key(g, (uintptr_t)at);
    if (times != 1)
        return times > 1;
    struct keys keys = keys_at(at);
    const char *key_at = keys.first + (L.version < VERSION(3, 11) ? 8 : 0);
    for (uint64_t i = 0; keys.entries <= keys.usable && i < keys.entries; i++) {
        const object *key = (object *)pointer_at(key_at, i * keys.entry_bytes);
        if (is_text(key) && !count_name(g, key))
            return 0;
    }
    return 1;
}

/* A dict that has only strings for keys does not tell the collector of them. Its values come with the others; interned
 * strings are names, which everybody has: they are counted alone. An OrderedDict has a list of its keys besides, and
 * tells of that. */
static int read_keys(struct graph *g, const object *dict, uint64_t stride, int has_list)
{
    const char *at = pointer_at(dict, 32);
    if (!at || (has_list && g->node_limit))
        return 1;
    if (word_at(dict, 40))
        return count_shared_keys(g, at);
    struct keys keys = keys_at(at);
    if (!has_text_keys(dict, &keys) || keys.entries > keys.usable)
        return 1;
    const char *key_at = keys.first + (L.version < VERSION(3, 11) ? 8 : 0);
    for (uint64_t i = 0; i < keys.entries; i += stride) {
        if (i + 8 * stride < keys.entries)
            __builtin_prefetch(pointer_at(key_at, (i + 8 * stride) * keys.entry_bytes) + 32);
        const object *key = (object *)pointer_at(key_at, i * keys.entry_bytes);
        if (!is_text(key))
            continue;
        int is_name = word_at(key, 32) & 3;
        if (is_name ? !count_name(g, key) : !refer(g, (uintptr_t)key, TYPE_NONE))
            return 0;
    }
    return 1;
}

static int read_shared_keys(struct graph *g, const type *of)
{
    const char *at = of->flags & HEAP_TYPE && L.heap_type_keys ? pointer_at(of, L.heap_type_keys) : NULL;
    return !at || count_shared_keys(g, at);
}

/* A number drawn for an object. It is the same in each snapshot, so that what stays is followed again, and what it stands
 * for is no growth. To go by the order in which they are met would not do: in a list of like things all dicts, say, are met
 * at every third place. */
static uint32_t drawn_from(uintptr_t address)
{
    uint64_t mixed = (uint64_t)address >> 4;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(mixed >> 33);
}

/* ``addresses``: rising. */
INTERNAL int is_among(const uint64_t *addresses, uint64_t count, uint64_t address)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (addresses[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && addresses[low] == address;
}

/* At the snapshot before: the way to it is followed also where others are left out, and it stands for itself alone. */
INTERNAL int held_much(const struct graph *g, uintptr_t one)
{
    return is_among(g->known, g->known_count, one);
}

/* What an object refers to, where not all of it is followed. */
struct visits {
    struct graph *g;
    uint64_t seen, stride;
};

static int count_visit(object *to, void *arg)
{
    ((struct visits *)arg)->seen += to != NULL;
    return 0;
}

/* By a draw, not one in so many: what tells of key, result and class in turn, as an lru_cache does, would tell of classes
 * alone. */
static int visit_some(object *to, void *arg)
{
    struct visits *visits = arg;
    int is_drawn = drawn_from((uintptr_t)to) % visits->stride == 0;
    return to && (is_drawn || held_much(visits->g, (uintptr_t)to)) ? visit_edge(to, visits->g) : 0;
}

/* The members of a long list, tuple or dict lie one behind the other: to go through all of them just to pick some would
 * take longer than all else. Returns how many there are; 0: it is something else. */
static uint64_t members_in_line(const object *one, const char **first, uint64_t *each, int *has_keys)
{
    const type *cls = one->type;
    *each = 8;
    *has_keys = 0;
    if (cls == L.list || cls == L.tuple) {
        *first = cls == L.list ? pointer_at(one, 24) : items_of(one);
        return *first && one->size > 0 ? (uint64_t)one->size : 0;
    }
    if ((cls != L.dict && cls != L.ordered_dict) || word_at(one, 40) || !pointer_at(one, 32))
        return 0;
    struct keys keys = keys_at(pointer_at(one, 32));
    *each = keys.entry_bytes;
    *first = keys.first + keys.entry_bytes - 8; /* the value; right before it is the key */
    *has_keys = !has_text_keys(one, &keys); /* else read_keys has them */
    return keys.entries <= keys.usable ? keys.entries : 0;
}

enum { NEAR_SHARE = 16, MOST_NEAR = 4096, MOST_FAR = 512, LEAST_FOLLOWED = 16, SHARE_OF_LEFT = 32 };

/* Members of a container, or the results that an lru_cache keeps. */
INTERNAL uint64_t length_of(const object *one, uint8_t base)
{
    switch (base) {
    case DICT:
    case ORDERED_DICT:
        return word_at(one, 16);
    case SET:
        return word_at(one, 24);
    case LIST:
    case TUPLE:
    case DEQUE:
        return (uint64_t)one->size;
    default:
        break;
    }
    const object *results = one->type == L.results && L.results_dict ? (object *)pointer_at(one, L.results_dict) : NULL;
    return results && results->type == L.dict ? length_of(results, DICT) : NO_LENGTH;
}

/* So many nodes at most, of others than the user's: three quarters of all. */
static uint64_t room_of(const struct graph *g, int of_user)
{
    return of_user ? g->node_limit : g->node_limit / 4 * 3;
}

/* What came of the nodes that were read since. */
static struct level *count_spent(struct graph *g, int of_user)
{
    g->level[g->counted_for].spent += g->nodes - g->counted;
    g->counted = (uint32_t)g->nodes;
    g->counted_for = (uint32_t)of_user;
    return &g->level[of_user];
}

/* Whether an object tells the collector of what it refers to. */
static int is_told_of(const object *one, int is_gc)
{
    return is_gc && !(one->type->is_gc && !one->type->is_gc((object *)(uintptr_t)one));
}

/* How many references an object has. */
static uint64_t references_of(object *one, uint8_t base, int is_told)
{
    const char *first;
    uint64_t each;
    int has_keys;
    struct visits visits = {NULL, members_in_line(one, &first, &each, &has_keys), 1};
    if (!visits.seen) {
        visit_hidden(one, base, count_visit, &visits);
        if (is_told)
            one->type->traverse(one, count_visit, &visits);
    }
    return visits.seen;
}

/* All nodes are known that are as far from the roots as ``first``, the first of them. A share of the room that is left is
 * for what they lead to, and so on: what lies deep has some of it too. A part is for the user's own alone. How many nodes
 * may come of each is asked of some of them. */
INTERNAL void begin_level(struct graph *g, uint32_t first)
{
    enum { SHARE = 3, FEW = 16, ASKED = 1024, TRIED = 8 }; /* of few nodes there is room for all that comes of them */
    uint64_t count = g->nodes - first, asked[2] = {0}, found[2][TRIED] = {{0}}; /* found: were each bounded by three times more */
    for (uint64_t i = 0, ask = count <= FEW ? 0 : count < ASKED ? count : ASKED; i < ask; i++) {
        uint32_t node = first + (uint32_t)(i * count / ask), special = ARRAY(g, type, uint32_t)[node];
        object *one = (object *)ARRAY(g, address, uintptr_t)[node];
        if ((special & ~OF_USER) != TYPE_NONE || !one->type || !count_of(one))
            continue;
        uint32_t type = type_of(g, one->type);
        if (type == TYPE_NONE)
            continue;
        const struct kind *kind = &ARRAY(g, kind, struct kind)[type];
        uint64_t references = references_of(one, kind->base, is_told_of(one, kind->is_gc));
        for (uint64_t k = 0, most = MOST_FAR; k < TRIED; k++, most *= 3)
            found[special != TYPE_NONE][k] += references < most ? references : most;
        asked[special != TYPE_NONE]++;
    }
    double is_new = g->edges > g->level_edges ? (double)(g->nodes - first) / (double)(g->edges - g->level_edges) : 1;
    g->level_edges = g->edges;
    for (int of_user = 0; of_user < 2; of_user++) {
        uint64_t limit = room_of(g, of_user), left = limit > g->nodes ? limit - g->nodes : 0;
        struct level *level = count_spent(g, of_user);
        level->waiting = of_user ? g->users_waiting : count - g->users_waiting;
        level->room = left / SHARE;
        level->each = 1;
        level->most = 0;
        for (uint64_t k = 0, most = MOST_FAR; asked[of_user] && k < TRIED; k++, most *= 3) {
            double each = is_new * (double)found[of_user][k] / (double)asked[of_user];
            if (k && each * (double)level->waiting > (double)level->room)
                break;
            level->each = each;
            level->most = k ? most : 0;
        }
        level->spent = 0;
    }
    g->level_end = (uint32_t)g->nodes;
}

/* Whether a dict's first key is this one. */
static int begins_with(const object *one, const char *name, size_t length)
{
    char own[16];
    const char *first;
    uint64_t each;
    int has_keys;
    if (!members_in_line(one, &first, &each, &has_keys))
        return 0;
    const object *key = (object *)word_at(first - 8, 0);
    return key && is_text(key) && characters(key, own, sizeof own) == length && !memcmp(own, name, length);
}

/* A dict that a module has for its names: the first is its own. */
INTERNAL int is_namespace(const object *one)
{
    return begins_with(one, "__name__", 8);
}

/* What names the user's own: a module of theirs, a class, or the dict of either. They are few, and lead to all the rest. */
static int names_users(const struct graph *g, const object *one, uint8_t base)
{
    if (base == DICT && is_among(g->users, g->user_count, (uintptr_t)one))
        return 1;
    return g->of_user && (one->type->flags & IS_TYPE || (base == DICT && begins_with(one, "__module__", 10)));
}

/* Members of one object of which an edge is followed: the fewer, the less room is left. */
static uint64_t most_followed(uint32_t node, int is_near, uint64_t left, uint64_t limit, uint64_t room_for_each)
{
    uint64_t at_most = is_near ? MOST_NEAR : MOST_FAR, most = left / SHARE_OF_LEFT;
    at_most = room_for_each > at_most ? room_for_each : at_most;
    most = most > at_most ? at_most : most < LEAST_FOLLOWED ? LEAST_FOLLOWED : most;
    return node == GROUPS && most < limit / 4 ? limit / 4 : most; /* the table of all modules: among them the user's */
}

/* Which of its references to follow: all (1), or one in so many, a power of three: of two containers with the same
 * members in the same order the same ones are followed, also where one is a dict that tells of a value and of a key in
 * turn. What is nearest to a root comes first: all modules, what they name, and more of their containers than of what
 * lies in these. Where more nodes wait on a level than there is room for, 0 for most of them, and others stand for these;
 * of a container with many members rather a few of each: all that a program keeps may be in one. What is near,
 * and what held much at the snapshot before, is always there, but has no more room than others, names of modules and of
 * the user's classes apart: many such would leave none for what lies deeper. */
static uint64_t stride_of(struct graph *g, uint32_t node, object *one, uint8_t base, int is_told)
{
    enum { MANY = 4 }; /* members, for each node that one would stand for */
    struct level *level = count_spent(g, g->of_user != 0);
    uint64_t limit = room_of(g, g->of_user != 0), left = limit > g->nodes ? limit - g->nodes : 0, stride = 1;
    uint64_t room = level->room, least = room / 8; /* where more came of some than was guessed, the next level has less */
    room = room > level->spent + least ? room - level->spent : least;
    int is_near = node < g->node_limit / NEAR_SHARE;
    uint32_t nodes = 1;
    while ((double)level->waiting / nodes * level->each > (double)room && nodes < 1u << 20)
        nodes *= 3;
    if (nodes > 1) {
        uint64_t length = length_of(one, base), members = length == NO_LENGTH ? 0 : length, of_each = nodes;
        int is_whole = names_users(g, one, base) || (is_near && base == DICT && is_namespace(one));
        int stays = is_near || is_whole || held_much(g, (uintptr_t)one);
        while (stays && of_each > 1 && (is_whole || members < MANY * of_each))
            of_each /= 3;
        if (stays || members >= MANY * of_each) {
            stride = of_each;
            nodes = 1;
        }
    }
    if (nodes > 1 && drawn_from((uintptr_t)one) % nodes)
        return 0;
    uint64_t references = references_of(one, base, is_told);
    uint64_t most = most_followed(node, is_near, left, limit, level->most);
    while (references > most * stride)
        stride *= 3;
    if ((stride > 1 || nodes > 1) && grow(&g->budget, &g->sample, (g->sample_count + 1) * sizeof(struct sample)))
        ARRAY(g, sample, struct sample)[g->sample_count++] = (struct sample){node, nodes, stride};
    return stride;
}

/* Whether what an object leads to counts as the user's, where what leads to it does or does not. */
static uint32_t of_user(const struct graph *g, const object *one, uint8_t base, uint32_t is_above)
{
    if (base == DICT && is_among(g->users, g->user_count, (uintptr_t)one))
        return OF_USER;
    return is_above && one->type != L.module && !(base == DICT && is_namespace(one)) ? OF_USER : 0;
}

/* Of a long container whose members lie in a line one in ``stride``, with its key. 0: they do not; -1: no room. */
static int read_members(struct graph *g, const object *one, uint64_t stride)
{
    const char *first;
    int has_keys;
    uint64_t each, members = members_in_line(one, &first, &each, &has_keys);
    uint64_t step = members <= MOST_NEAR ? 1 : stride; /* of more it would take long to look for what held much */
    for (uint64_t i = 0; i < members; i += step) {
        if (i + 8 * step < members)
            __builtin_prefetch(pointer_at(first, (i + 8 * step) * each));
        if (i % stride && !held_much(g, word_at(first, i * each)))
            continue;
        if (!refer(g, word_at(first, i * each), TYPE_NONE) || (has_keys && !refer(g, word_at(first - 8, i * each), TYPE_NONE)))
            return -1;
    }
    return members > 0;
}

/* What an object refers to. */
static int read_object(struct graph *g, uint32_t node, object *one, uint8_t base, int is_gc)
{
    if (base == TENSOR && !refer(g, (uintptr_t)storage_of(one), TYPE_STORAGE))
        return 0;
    if (base == COLUMNS && !read_columns(g, one))
        return 0;
    type *cls = one->type;
    int is_told = is_told_of(one, is_gc);
    struct visits some = {g, 0, g->node_limit ? stride_of(g, node, one, base, is_told) : 1};
    if (!some.stride)
        return 1;
    visit_function visit = some.stride > 1 ? visit_some : visit_edge;
    void *arg = some.stride > 1 ? (void *)&some : g;
    if (base != TENSOR && visit_hidden(one, base, visit, arg))
        return 0;
    if (!is_told)
        return 1;
    int has_list = base == ORDERED_DICT && !(some.stride > 1 && cls == L.ordered_dict); /* of which it tells */
    if ((base == DICT || base == ORDERED_DICT) && !read_keys(g, one, some.stride, has_list))
        return 0;
    if (cls->flags & IS_TYPE && !read_shared_keys(g, (const type *)one))
        return 0;
    int has_members = some.stride > 1 ? read_members(g, one, some.stride) : 0;
    if (has_members)
        return has_members > 0;
    if (base == CONTEXT)
        cls->traverse(one, visit_context, &(struct context){g, NULL});
    return !cls->traverse(one, visit, arg);
}

INTERNAL int read_node(struct graph *g, uint32_t node)
{
    uintptr_t address = ARRAY(g, address, uintptr_t)[node];
    uint32_t special = ARRAY(g, type, uint32_t)[node] & ~OF_USER, is_above = ARRAY(g, type, uint32_t)[node] & OF_USER;
    g->reading = node;
    g->of_user = is_above;
    g->users_waiting -= is_above != 0;
    g->level[is_above != 0].waiting--;
    ARRAY(g, type, uint32_t)[node] = special;
    uint64_t *own = &ARRAY(g, own, uint64_t)[node];
    uint32_t *references = &ARRAY(g, references, uint32_t)[node];
    *own = 0;
    *references = 0;
    if (special == TYPE_FRAME)
        return read_frame(g, node, (const char *)address, references);
    if (special == TYPE_STORAGE || special == TYPE_AUTOGRAD || special == TYPE_ARROW || special == TYPE_DEVICE)
        return 1;
    object *one = (object *)address;
    if (!one->type || !count_of(one)) /* it is being freed: see visit_hidden */
        return 1;
    uint32_t number = type_of(g, one->type);
    if (number == TYPE_NONE)
        return 0;
    ARRAY(g, type, uint32_t)[node] = number;
    const struct kind *kind = &ARRAY(g, kind, struct kind)[number];
    uint8_t base = kind->base, is_gc = kind->is_gc;
    g->of_user = g->node_limit ? of_user(g, one, base, is_above) : 0;
    *own = own_bytes(one, kind);
    uint64_t count = count_of(one); /* since 3.12 some are counted as living for ever */
    *references = L.version >= VERSION(3, 12) && count >= (uint64_t)1 << 30 ? NONE : count > NONE - 1 ? NONE - 1 : (uint32_t)count;
    return read_object(g, node, one, base, is_gc);
}

/* How large storages are. Torch's own threads may free one of a tensor that is still there, GIL or not: the kernel reads
 * them, for which what is no memory is an error and no crash. */
INTERNAL void weigh_storages(struct graph *g)
{
    enum { AT_ONCE = 64, LARGEST = 256, ON_HOST = 0, ON_META = 14 }; /* c10/core/DeviceType.h */
    size_t each = L.storage_bytes + 8 > L.storage_device + 1 ? L.storage_bytes + 8 : L.storage_device + 1;
    if (!L.tensor_storage || each > LARGEST)
        return;
    static char copy[AT_ONCE * LARGEST];
    struct iovec from[AT_ONCE];
    uint32_t nodes[AT_ONCE];
    const uint32_t *types = g->type.at;
    const uintptr_t *address = g->address.at;
    size_t waiting = 0;
    for (uint64_t node = GROUPS; node < g->nodes || waiting;) {
        for (; waiting < AT_ONCE && node < g->nodes; node++)
            if (types[node] == TYPE_STORAGE) {
                from[waiting] = (struct iovec){(void *)address[node], each};
                nodes[waiting++] = (uint32_t)node;
            }
        if (!waiting)
            break;
        struct iovec to = {copy, each * waiting};
        ssize_t got = process_vm_readv(g->process, &to, 1, from, waiting, 0);
        size_t read = got > 0 ? (size_t)got / each : 0;
        if (got < 0 && errno != EFAULT) /* forbidden here */
            for (read = 0; read < waiting; read++)
                memcpy(copy + read * each, from[read].iov_base, each);
        for (size_t i = 0; i < read; i++) {
            int device = L.storage_device ? copy[i * each + L.storage_device] : ON_HOST;
            uint64_t bytes = word_at(copy + i * each, L.storage_bytes);
            int is_nowhere = device == ON_META || bytes >> MOST_BITS;
            ARRAY(g, own, uint64_t)[nodes[i]] = is_nowhere ? 0 : bytes;
            if (device != ON_HOST && !is_nowhere) {
                ARRAY(g, type, uint32_t)[nodes[i]] = TYPE_DEVICE;
                g->device_count++;
            }
        }
        read += read < waiting; /* without the one that is gone */
        waiting -= read;
        memmove(from, from + read, waiting * sizeof *from);
        memmove(nodes, nodes + read, waiting * sizeof *nodes);
    }
}

INTERNAL uint32_t node_at(const struct graph *g, uintptr_t address)
{
    const uint64_t *table = g->table.at;
    for (uint32_t slot = hash(address) & g->table_mask; table[slot]; slot = (slot + 1) & g->table_mask)
        if (ARRAY(g, address, uintptr_t)[(uint32_t)table[slot]] == address)
            return (uint32_t)table[slot];
    return NONE;
}
