/* The graph of all Python objects of a process, read as the collector reads them.
 *
 * One shared library for every CPython from 3.8 on that has a GIL and keeps no list of all objects. It knows no header
 * of Python's: where things lie is told by layout.py, which has checked each figure on objects whose contents it knows.
 *
 *   graph_take      with the GIL: every object, who refers to whom, and how large each is; or, where these are too many,
 *                   what is nearest to the roots, and of long containers some members
 *   graph_add       with the GIL, right after: references that only C++ has, and what the caller wants to find again
 *   graph_analyse   without it: what is reached from where, immediate dominators, retained bytes, the nodes that matter
 *   graph_label     with the GIL: by what name each of those is held; only what can be reached still is looked at
 *
 * While the GIL is held nothing of the job's is called but tp_traverse and tp_is_gc, as by each collection. No
 * reference count is changed, no Python object is made, none is kept. Memory is asked of the kernel, never of malloc,
 * and only as much as the caller allows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <fcntl.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct object object;
typedef int (*visit_function)(object *, void *);
typedef int (*traverse_function)(object *, visit_function, void *);
typedef int (*is_gc_function)(object *);
typedef int (*next_of_dict)(object *, intptr_t *, object **, object **);

/* Of PyTypeObject: the same in every CPython that this is for. */
typedef struct type {
    intptr_t reference_count;
    struct type *metatype;
    intptr_t size;
    const char *name;
    intptr_t basic_size, item_size;
    void *deallocate;
    void *unused_1[14];
    unsigned long flags;
    const char *doc;
    traverse_function traverse;
    void *unused_2[5];
    void *methods;
    struct member *members;
    void *getset;
    struct type *base;
    object *dict;
    void *unused_3[2];
    intptr_t dict_offset;
    void *unused_4[4];
    is_gc_function is_gc;
    object *bases, *mro;
} type;

_Static_assert(offsetof(type, flags) == 168 && offsetof(type, traverse) == 184 && offsetof(type, base) == 256 &&
                   offsetof(type, dict_offset) == 288 && offsetof(type, is_gc) == 328, "as in Include/cpython/object.h");

struct member {
    const char *name;
    int kind;
    intptr_t offset;
    int flags;
    const char *doc;
};

struct object {
    intptr_t reference_count;
    type *type;
    intptr_t size; /* of those that have one */
};

/* What layout.py has found; 0: not there, and nothing is read that would need it. */
struct layout {
    uint64_t version; /* sys.hexversion >> 16 */
    type *type_type, *dict, *list, *tuple, *text, *bytes, *integer, *set, *frozen_set, *byte_array, *deque, *ordered_dict,
        *bytes_io, *string_io, *generator, *coroutine, *async_generator, *module, *code, *frame, *function;
    next_of_dict dict_next;
    int (*list_append)(object *, object *);
    object *(*call)(object *, ...);
    long long (*as_number)(object *);
    void (*let_go)(object *);
    void (*clear_error)(void);
    void *(*main_interpreter)(void);
    void *(*first_thread)(void *);
    void *(*next_thread)(void *);
    void *(*this_thread)(void);
    int (*line_of_frame)(object *);
    int (*line_of_code)(object *, int);
    uint64_t generations; /* of the collector: the list of the youngest objects */
    uint64_t frozen; /* how far behind it: that of objects which gc.freeze() hides */
    uint64_t text_bytes, wide_text_bytes; /* before the characters of a string */
    uint64_t tuple_items; /* in a tuple: its first member */
    uint64_t thread_frame; /* in a thread's state: the frame that runs */
    uint64_t thread_indirect; /* it is behind one pointer, at this offset + 1 */
    uint64_t frame_slots, frame_code, frame_before, frame_locals, frame_function, frame_globals, frame_owner;
    uint64_t frame_at, code_begin; /* since 3.11: which instruction runs, and where they begin */
    uint64_t code_names, code_file, code_name, code_line; /* code_names: of locals */
    uint64_t function_code, function_defaults, function_closure;
    uint64_t code_arguments; /* how many may come by position */
    type *results; /* of functools.lru_cache */
    uint64_t results_limit, deque_limit; /* where each says how many members it may have */
    uint64_t frame_back; /* in a frame object, up to 3.10 */
    uint64_t generator_frame, generator_state; /* in a generator or coroutine, since 3.11 */
    uint64_t heap_type_name, heap_type_keys; /* of a class: a string; names of attributes that instances share */
    uint64_t stream_text; /* in a StringIO that is only written to: its text so far, a list of parts of it, or who has it */
    void *python_deallocate; /* what frees the objects of classes that Python code made */
    uint64_t tensor_base, tensor_storage, storage_bytes, storage_device; /* torch: from object to its memory */
    const int *is_collecting; /* whether a collection goes on, in any thread */
    uint64_t any_lookup; /* up to 3.10: what looks up keys of all types, in the keys of a dict */
};

static struct layout L;

enum { HAS_GC = 1 << 14, HEAP_TYPE = 1 << 9, MANAGED_DICT = 1 << 4, MANAGED_WEAKREF = 1 << 3, INLINE_VALUES = 1 << 2 };
enum { IS_INTEGER = 1 << 24, IS_LIST = 1 << 25, IS_TUPLE = 1 << 26, IS_BYTES = 1 << 27, IS_TEXT = 1 << 28, IS_DICT = 1 << 29 };

#define VERSION(major, minor) ((major) << 8 | (minor))
#define NONE UINT32_MAX
#define TAGS ((uint64_t)3) /* of the collector's own, in the links between objects */

/* With the GIL: from the next graph on. */
EXPORT void graph_tensors(uint64_t base, uint64_t implementation, uint64_t storage, uint64_t bytes, uint64_t device)
{
    L.tensor_base = base;
    L.tensor_storage = implementation | storage << 16;
    L.storage_bytes = bytes;
    L.storage_device = device;
}

enum { ARROW_TYPES = 4 };
static const char *const arrow_types[ARROW_TYPES] = {"pyarrow.lib.Table", "pyarrow.lib.RecordBatch", "pyarrow.lib.ChunkedArray", "pyarrow.lib.Array"};
/* A function of each that says an object's bytes, and one for the bytes of Arrow's memory in all; NULL: none. */
static object *arrow_sizes[ARROW_TYPES + 1];

/* With the GIL: from the next graph on. */
EXPORT void graph_arrow(object *const sizes[ARROW_TYPES + 1])
{
    memcpy(arrow_sizes, sizes, sizeof arrow_sizes);
}

/* ---- arrays that grow, within what the caller allows
 *
 * A forked child does not get them: it would keep what its parent frees. It gets what Python code of ours may just be
 * looking at, as the fork happens: that is what grow_copied is for.
 */

struct array {
    void *at;
    size_t bytes;
};

struct budget {
    size_t left;
    int is_spent;
};

#ifdef __SANITIZE_ADDRESS__ /* the tests' build: of malloc, and at first no byte more, so that each access beyond is seen */
static void *resize(void *at, size_t before, size_t *wanted)
{
    *wanted += before / 2;
    char *to = realloc(at, *wanted);
    if (!to)
        return MAP_FAILED;
    memset(to + before, 0, *wanted - before);
    return to;
}

static void release(void *at, size_t bytes)
{
    memset(at, 0xee, bytes);
    free(at);
}
#else
static void *resize(void *at, size_t before, size_t *wanted)
{
    *wanted = (*wanted + 4095) & ~(size_t)4095;
    if (at)
        return mremap(at, before, *wanted, MREMAP_MAYMOVE);
    at = mmap(NULL, *wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED)
        madvise(at, *wanted, MADV_DONTFORK);
    return at;
}

static void release(void *at, size_t bytes)
{
    munmap(at, (bytes + 4095) & ~(size_t)4095);
}
#endif

static int grow(struct budget *budget, struct array *array, size_t bytes)
{
    if (bytes <= array->bytes)
        return 1;
    if (bytes - array->bytes + 4096 > budget->left) {
        budget->is_spent = 1;
        return 0;
    }
    size_t wanted = bytes;
    void *at = resize(array->at, array->bytes, &wanted);
    if (at == MAP_FAILED) {
        budget->is_spent = 1;
        return 0;
    }
    if (wanted >= 4 << 20)
        madvise(at, wanted, MADV_HUGEPAGE);
    size_t more = wanted - array->bytes;
    budget->left -= more < budget->left ? more : budget->left;
    array->at = at;
    array->bytes = wanted;
    return 1;
}

static int grow_copied(struct budget *budget, struct array *array, size_t bytes)
{
    int is_first = !array->at;
    if (!grow(budget, array, bytes))
        return 0;
    if (is_first && array->at)
        madvise(array->at, array->bytes, MADV_DOFORK);
    return 1;
}

static void drop(struct budget *budget, struct array *array)
{
    if (array->at) {
        release(array->at, array->bytes);
        budget->left += array->bytes;
    }
    array->at = NULL;
    array->bytes = 0;
}

/* ---- the graph */

enum { ROOT, MODULES, THREADS, RECORDER, FROM_C, UNREACHABLE, GROUPS }; /* the first nodes; no objects */
/* TYPE_AUTOGRAD: all that was calculated for a tensor; TYPE_ARROW: what the C++ object has that a table of Arrow's shows */
enum { TYPE_NONE, TYPE_STORAGE, TYPE_AUTOGRAD, TYPE_ARROW, TYPE_FRAME, FIRST_TYPE };
enum { OPERATION_BYTES = 520 }; /* of an autograd graph, with its edges and metadata: measured on a GPT-2 */

struct kind { /* of a type: how its objects are read */
    type *type;
    uint64_t listed, listed_bytes, unreached; /* of its objects: those that the collector lists, and that nothing leads to */
    uint32_t text; /* where its name is among the texts */
    uint8_t base, is_gc, is_made_in_c;
    uint8_t is_wanted; /* the agent wants to know where its objects are held, however little they retain */
};
enum { PLAIN, DICT, LIST, TUPLE, TEXT, BYTES, INTEGER, SET, BYTE_ARRAY, DEQUE, ORDERED_DICT, ARRAY, NDARRAY, TENSOR, BYTES_IO,
       STRING_IO, C_DATA, GENERATOR, MAPPING, CONTEXT, VARIABLE, IMAGE, ARROW };

struct row { /* a node that matters, as the agent gets it */
    uint64_t address, own_bytes, retained_bytes, length, limit; /* length: members of a container, or links of a chain, + 1 */
    uint64_t storage_bytes; /* of retained_bytes: memory of tensors */
    uint32_t node, path_row, dominator_row, type, references, edges_in, children, new_children;
    uint32_t label, label_kind, owner; /* among the texts; of what has code of its own: file, line, name; of a class: its name */
    uint32_t is_old, is_seen; /* there at the snapshot before; reached again for its label */
    uint32_t is_main, is_wanted; /* a frame of the main thread; one of several that it stands for */
};

struct share { /* of what a node dominates: all objects of one type directly below it */
    uint32_t row, type;
    uint64_t count, bytes, new_count, new_bytes;
};

struct sharer { /* what a row refers to, and another dominates: of those objects it is one of several holders */
    uint32_t row, dominator_row, type;
    uint64_t count, bytes;
};

struct tie { /* a reference that only C++ has; type: of what it leads to, where that is no object of Python's */
    uint64_t from, to, bytes;
    uint32_t type, count; /* count: operations of an autograd graph */
};

struct mark { /* what the caller wants to find again; row: itself, or the nearest on its way from the root */
    uint32_t node, row, is_held, unused; /* is_held: a module or a running function leads to it */
};

/* What is added to a graph. ``marks``: addresses, of which the first ``row_count`` get rows of their own. */
struct further {
    const struct tie *ties;
    const uint64_t *marks;
    uint64_t tie_count, mark_count, row_count;
};

struct stray { /* all objects of one type: what of them no name leads to */
    uint64_t count, unreached_count, unreached_bytes, frozen_count, outside_count, outside_bytes, extra_references, loose_count,
        loose_bytes;
    uint32_t type, first_link, links, unused;
};

struct link { /* of a cycle that nothing leads to: an object, and by what name it holds the next */
    uint64_t address;
    uint32_t node, type, label, label_kind, is_alive, unused;
};

struct pin { /* what lies in pools that are mostly free, by what holds it */
    uint64_t count, bytes, pinned_bytes;
    uint32_t row, unused;
};

struct pool { /* of Python's allocator of small objects */
    uint64_t address;
    uint32_t arena, blocks, block_bytes, objects; /* blocks: in use; objects: of the graph, of these */
};

enum { NO_LABEL, ATTRIBUTE, KEY, INDEX, LOCAL, NAMESPACE, CONTENTS, MEMBER, OTHER_KEY, CELL, DEFAULT };

/* What was there at the snapshot before, nearly: two bits of 16 for each object say so, wrongly of 1 in 70 that was not. */
struct past {
    uint64_t bits;
    struct array map;
    pid_t process;
};

/* A variable of a running function: its frame may be gone, and another's lie there, when names are asked for. */
struct local {
    uint64_t holds;
    uint32_t frame, name; /* node; among the texts */
};

/* A node of which one reference in ``stride`` was followed, and that is one of ``nodes`` of which any was. */
struct sample {
    uint32_t node, nodes;
    uint64_t stride;
};

struct graph {
    /* read by the agent */
    uint64_t nodes, edges, reached, total_bytes, unreachable_count, unreachable_bytes, from_c_count, from_c_bytes;
    uint64_t small_bytes, array_bytes, storage_bytes, row_count, share_count, text_bytes, type_count;
    uint64_t listed_count, frozen_count, stack_count, sharer_count;
    uint64_t is_sampled; /* there were too many objects to read them all */
    struct row *rows;
    struct share *shares;
    char *texts;
    struct kind *kinds;
    uint32_t *stacks;
    struct sharer *sharers;
    uint64_t stray_count, pin_count, arena_count, arena_bytes, pool_bytes, pool_count, block_bytes, held_arena_count, held_pool_count;
    uint64_t held_bytes;
    struct stray *strays;
    struct link *links;
    struct pin *pins;
    struct mark *marks;
    uint64_t mark_count, marked_rows; /* marked_rows: so many have rows of their own */
    /* our own */
    struct budget budget;
    struct array address, own, type, references, begin, edge, table, kind_table, row_of, row_table;
    struct array local, variable, pool, arena, loose, below, sample;
    struct array number, vertex, dominator, retained, path; /* of graph_analyse, where all nodes are to be written */
    struct array kind, text, row, share, stack, sharer, stray, link, copied, mark, pin; /* a forked child has them too */
    uint64_t copied_bytes;
    uint32_t frozen_begin, frozen_end; /* nodes that gc.freeze() hides */
    uint32_t link_count;
    pid_t process; /* whose heap it is: the child of a fork has the names of it, and nothing behind them */
    uint32_t table_mask, kind_mask, row_mask;
    uint32_t waiting, local_count, variable_count, sample_count;
    uint64_t node_limit; /* of a graph that is sampled; 0: none */
    int is_for_file; /* all nodes are to be written */
    uint64_t main_begin, main_end; /* edges to the frames of the main thread */
    uint64_t members_left; /* to look through for names */
    uintptr_t wait[64];
    uint8_t wait_special[64];
};

#define ARRAY(graph, name, of) ((of *)(graph)->name.at)

static inline uint64_t mix(uintptr_t address)
{
    return (uint64_t)(address >> 3) * 0x9E3779B97F4A7C15ull;
}

static inline uint32_t hash(uintptr_t address)
{
    return (uint32_t)(mix(address) >> 32);
}

/* A slot of the table: the node, and above it bits of its address, so that one look mostly tells. 0: empty. */
static inline uint64_t slot_of(uintptr_t address, uint32_t node)
{
    return (uint64_t)(uint32_t)(address >> 3) << 32 | node;
}

static int begin_table(struct graph *g, uint64_t for_nodes)
{
    uint64_t size = 1024;
    while (size < for_nodes * 2)
        size *= 2;
    if (size > (uint64_t)1 << 31)
        return 0;
    drop(&g->budget, &g->table);
    if (!grow(&g->budget, &g->table, size * 8))
        return 0;
    g->table_mask = (uint32_t)size - 1;
    return 1;
}

static int more_nodes(struct graph *g, uint64_t count)
{
    struct budget *b = &g->budget;
    return count < NONE && grow(b, &g->address, count * 8) && grow(b, &g->own, count * 8) && grow(b, &g->type, count * 4) &&
           grow(b, &g->references, count * 4) && grow(b, &g->begin, (count + 1) * 4);
}

static int more_table(struct graph *g)
{
    if (!begin_table(g, g->nodes * 2))
        return 0;
    uintptr_t *address = g->address.at;
    uint64_t *table = g->table.at;
    for (uint32_t node = GROUPS; node < g->nodes; node++) {
        uint32_t slot = hash(address[node]) & g->table_mask;
        while (table[slot])
            slot = (slot + 1) & g->table_mask;
        table[slot] = slot_of(address[node], node);
    }
    return 1;
}

/* The node of an address; NONE where there is no room for it. */
static uint32_t node_of(struct graph *g, uintptr_t address, uint32_t special)
{
    uint64_t *table = g->table.at, wanted = slot_of(address, 0);
    uint32_t slot = hash(address) & g->table_mask;
    for (; table[slot]; slot = (slot + 1) & g->table_mask)
        if ((table[slot] ^ wanted) >> 32 == 0 && ARRAY(g, address, uintptr_t)[(uint32_t)table[slot]] == address)
            return (uint32_t)table[slot];
    if ((g->nodes + 2) * 8 > g->address.bytes && !more_nodes(g, g->nodes * 3 / 2 + 4096))
        return NONE;
    uint32_t node = (uint32_t)g->nodes++;
    ARRAY(g, address, uintptr_t)[node] = address;
    ARRAY(g, type, uint32_t)[node] = special;
    table[slot] = slot_of(address, node);
    if (g->nodes * 2 > g->table_mask && !more_table(g))
        return NONE;
    return node;
}

/* Addresses wait until there are some, so that the memory of many slots is fetched at once. */
static int settle(struct graph *g)
{
    uint64_t *table = g->table.at;
    for (uint32_t i = 0; i < g->waiting; i++)
        __builtin_prefetch(&table[hash(g->wait[i]) & g->table_mask]);
    if ((g->edges + g->waiting) * 4 > g->edge.bytes && !grow(&g->budget, &g->edge, (g->edges * 3 / 2 + 65536) * 4))
        return 0;
    for (uint32_t i = 0; i < g->waiting; i++) {
        uint32_t node = node_of(g, g->wait[i], g->wait_special[i]);
        if (node == NONE)
            return 0;
        ARRAY(g, edge, uint32_t)[g->edges++] = node;
    }
    g->waiting = 0;
    return g->edges < NONE;
}

static int refer(struct graph *g, uintptr_t address, uint32_t special)
{
    if (!address)
        return 1;
    if (g->waiting == 64)
        return 0; /* no room for them any more, and a tp_traverse that goes on nevertheless */
    g->wait[g->waiting] = address;
    g->wait_special[g->waiting++] = (uint8_t)special;
    return g->waiting < 64 || settle(g);
}

static int visit_edge(object *to, void *graph)
{
    return !refer(graph, (uintptr_t)to, TYPE_NONE);
}

/* ---- types */

static uint32_t put_text(struct graph *g, const char *from, size_t length)
{
    if (!grow_copied(&g->budget, &g->text, g->text_bytes + length + 1))
        return 0;
    uint32_t at = (uint32_t)g->text_bytes;
    char *to = (char *)g->text.at + at;
    memcpy(to, from, length);
    to[length] = 0;
    g->text_bytes += length + 1;
    return at;
}

static size_t characters(const object *text, char *to, size_t most);
static int is_text(const object *one);
static const char *pointer_at(const void *address, size_t offset);

enum { LONGEST_NAME = 256, LONGEST_LABEL = 120 };

/* "module.name" of a type, without an end. What Python code made, or the specification of one, has its module in its
 * dict, mostly first; its tp_name may be freed memory up to 3.10, so its name is taken from the string it owns. */
static size_t name_of(const type *cls, char *to)
{
    size_t length = 0;
    if (!(cls->flags & HEAP_TYPE)) {
        length = cls->name ? strnlen(cls->name, LONGEST_NAME) : 0;
        if (length)
            memcpy(to, cls->name, length);
        return length;
    }
    if (cls->dict && L.dict_next && cls->dict->type == L.dict) {
        intptr_t at = 0;
        object *key, *value;
        for (int looked = 0; looked < 64 && L.dict_next(cls->dict, &at, &key, &value); looked++) {
            char word[16];
            if (is_text(key) && characters(key, word, sizeof word) == 10 && !memcmp(word, "__module__", 10)) {
                if (is_text(value))
                    length = characters(value, to, 160);
                break;
            }
        }
        if (length)
            to[length++] = '.';
    }
    const object *name = (object *)pointer_at(cls, L.heap_type_name);
    return length + (is_text(name) ? characters(name, to + length, LONGEST_NAME - length) : 0);
}

static int is_called(const type *cls, const char *wanted, intptr_t least_bytes)
{
    char name[LONGEST_NAME];
    return cls->basic_size >= least_bytes && name_of(cls, name) == strlen(wanted) && !memcmp(name, wanted, strlen(wanted));
}

/* Which of Arrow's types it is; ARROW_TYPES: none. */
static int arrow_type_of(const type *cls)
{
    int i = 0;
    while (i < ARROW_TYPES && !(arrow_sizes[i] && is_called(cls, arrow_types[i], 56)))
        i++;
    return i;
}

/* Others may call theirs as they like: names count only of what C code made, and only where nothing better tells. */
static uint8_t base_of(const type *cls)
{
    unsigned long flags = cls->flags;
    for (const type *above = cls; above; above = above->base) {
        if (above == L.set || above == L.frozen_set)
            return SET;
        if (above == L.byte_array)
            return BYTE_ARRAY;
        if (above == L.deque)
            return DEQUE;
        if (above == L.ordered_dict)
            return ORDERED_DICT;
        if (above == L.bytes_io)
            return BYTES_IO;
        if (above == L.string_io)
            return STRING_IO;
        if (above == L.generator || above == L.coroutine || above == L.async_generator)
            return GENERATOR;
        if (L.tensor_storage && (uintptr_t)above == L.tensor_base)
            return TENSOR;
        if (above->deallocate == L.python_deallocate)
            continue;
        if (above->basic_size == 64 && is_called(above, "array.array", 64))
            return ARRAY;
        if (is_called(above, "_ctypes._CData", 72))
            return C_DATA;
        if (is_called(above, "mmap.mmap", 72))
            return MAPPING;
        if (is_called(above, "hamt_bitmap_node", 32))
            return CONTEXT;
        if (is_called(above, "_contextvars.ContextVar", 16) || is_called(above, "ContextVar", 16))
            return VARIABLE;
        if (!(above->flags & HEAP_TYPE) && is_called(above, "numpy.ndarray", 80))
            return NDARRAY;
        if (is_called(above, "ImagingCore", 24))
            return IMAGE;
        if (arrow_type_of(above) < ARROW_TYPES)
            return ARROW;
    }
    return flags & IS_DICT ? DICT : flags & IS_LIST ? LIST : flags & IS_TUPLE ? TUPLE : flags & IS_TEXT ? TEXT
           : flags & IS_BYTES ? BYTES : flags & IS_INTEGER ? INTEGER : PLAIN;
}

static uint32_t put_name(struct graph *g, const type *cls)
{
    char name[LONGEST_NAME];
    return put_text(g, name, name_of(cls, name));
}

static int is_collected(const type *cls)
{
    return cls->traverse && cls->flags & HAS_GC;
}

static uint32_t type_of(struct graph *g, type *cls)
{
    struct kind *kinds = g->kind.at;
    uint32_t *table = g->kind_table.at;
    uint32_t slot = hash((uintptr_t)cls) & g->kind_mask;
    for (; table[slot] != NONE; slot = (slot + 1) & g->kind_mask)
        if (kinds[table[slot]].type == cls)
            return table[slot];
    uint32_t number = (uint32_t)g->type_count;
    if (number * 2 > g->kind_mask) {
        uint32_t size = (g->kind_mask + 1) * 2;
        if (!grow(&g->budget, &g->kind_table, size * 4ul))
            return TYPE_NONE;
        table = g->kind_table.at;
        memset(table, 0xff, size * 4ul);
        g->kind_mask = size - 1;
        for (uint32_t one = FIRST_TYPE; one < number; one++) {
            slot = hash((uintptr_t)kinds[one].type) & g->kind_mask;
            while (table[slot] != NONE)
                slot = (slot + 1) & g->kind_mask;
            table[slot] = one;
        }
        slot = hash((uintptr_t)cls) & g->kind_mask;
        while (table[slot] != NONE)
            slot = (slot + 1) & g->kind_mask;
    }
    if (!grow_copied(&g->budget, &g->kind, (number + 1) * sizeof *kinds))
        return TYPE_NONE;
    kinds = g->kind.at;
    kinds[number] = (struct kind){.type = cls, .text = put_name(g, cls), .base = base_of(cls), .is_gc = (uint8_t)is_collected(cls),
                                  .is_made_in_c = cls->deallocate != L.python_deallocate};
    table[slot] = number;
    g->type_count++;
    return number;
}

/* ---- sizes */

static uint64_t word_at(const void *address, size_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)address + offset, 8);
    return word;
}

static int32_t half_at(const void *address, size_t offset)
{
    int32_t half;
    memcpy(&half, (const char *)address + offset, 4);
    return half;
}

static const char *pointer_at(const void *address, size_t offset)
{
    return (const char *)(uintptr_t)word_at(address, offset);
}

static const char *items_of(const object *tuple)
{
    return (const char *)tuple + L.tuple_items;
}

static const object *item_of(const object *tuple, intptr_t number)
{
    return (object *)pointer_at(items_of(tuple), 8ul * (size_t)number);
}

/* Since 3.12 in the lower half of a word. Since 3.14 flags stand in the upper one. */
static uint64_t count_of(const object *one)
{
    return L.version >= VERSION(3, 12) ? (uint32_t)one->reference_count : (uint64_t)one->reference_count;
}

struct keys { /* of a dict; left: since 3.11, how many more it may get */
    uint64_t slots, index_bytes, usable, left, entries, entry_bytes;
    const char *first;
    int is_text;
};

static struct keys keys_at(const char *at)
{
    struct keys keys = {0};
    if (L.version < VERSION(3, 11)) {
        keys.slots = word_at(at, 8);
        keys.index_bytes = keys.slots * (keys.slots <= 0xff ? 1 : keys.slots <= 0xffff ? 2 : keys.slots <= 0xffffffff ? 4 : 8);
        keys.entries = word_at(at, 32);
        keys.entry_bytes = 24;
        keys.first = at + 40 + keys.index_bytes;
    } else {
        keys.slots = (uint64_t)1 << (at[8] & 63);
        keys.index_bytes = (uint64_t)1 << (at[9] & 63);
        keys.is_text = at[10] != 0;
        keys.left = word_at(at, 16);
        keys.entries = word_at(at, 24);
        keys.entry_bytes = keys.is_text ? 16 : 24;
        keys.first = at + 32 + keys.index_bytes;
    }
    keys.usable = keys.slots * 2 / 3;
    return keys;
}

/* Attributes that lie in the object itself, or behind it: since 3.11, as long as nobody asks for its __dict__. NULL: there
 * are none; since 3.13 their place is there nevertheless, and none of them valid. */
static const char *values_at(const object *one, const type *cls)
{
    if (!L.heap_type_keys || !(cls->flags & HEAP_TYPE) || !(cls->flags & MANAGED_DICT))
        return NULL;
    if (L.version < VERSION(3, 12))
        return pointer_at((const char *)one - 32, 0);
    if (L.version >= VERSION(3, 13))
        return cls->flags & INLINE_VALUES ? (const char *)one + cls->basic_size + 8 : NULL;
    uint64_t word = word_at((const char *)one - 24, 0);
    return word & 1 ? (const char *)(uintptr_t)(word + 1) : NULL;
}

/* Since 3.13 there is a word before them, of which the first byte says for how many there is room. Before, as many bytes
 * as the last of them says, which are rounded up: then the class knows how many its next object will get, and none that
 * it has made got fewer. */
static uint64_t bytes_of_values(const char *values, const char *shared)
{
    const uint8_t *head = (const uint8_t *)values - 8;
    if (L.version >= VERSION(3, 13))
        return 8 * (head[0] + 1ul) + ((head[0] + 7ul) & ~7ul);
    struct keys keys = keys_at(shared);
    uint64_t before = head[7], count = (keys.entries + keys.left) & 0xff;
    return before + 8 * (count + 9 > before ? count : before - 9);
}

static uint64_t bytes_of_dict(const object *dict)
{
    const char *at = pointer_at(dict, 32), *values = pointer_at(dict, 40);
    if (!at)
        return 0;
    struct keys keys = keys_at(at);
    if (values && L.version >= VERSION(3, 13) && values[2])
        return 0; /* they lie in the object that it is of */
    if (values) /* keys are shared: only the values are its own */
        return L.version < VERSION(3, 11) ? keys.usable * 8 : bytes_of_values(L.version < VERSION(3, 13) ? values : values + 8, at);
    return keys.slots <= 1 ? 0 : (uint64_t)(keys.first - at) + keys.usable * keys.entry_bytes;
}

static uint64_t bytes_of_text(const object *text)
{
    uint64_t state = word_at(text, 32), length = word_at(text, 16);
    uint64_t kind = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    if (!is_compact)
        return L.wide_text_bytes + 16 + (length + 1) * (kind ? kind : 4);
    return is_ascii ? L.text_bytes + length + 1 : L.wide_text_bytes + (length + 1) * kind;
}

/* By the kernel, for which what is no memory is an error and no crash. */
static int copy_from(uint64_t address, void *to, size_t bytes)
{
    struct iovec from = {(void *)address, bytes}, into = {to, bytes};
    return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == (ssize_t)bytes;
}

enum { MOST_DIMENSIONS = 64, OF_ONE_MEMBER = 1 << 16, NO_GAPS = 3, OWNS = 4 }; /* NO_GAPS, OWNS: among an array's flags */

static uint64_t bytes_of_array(const object *array)
{
    int count = half_at(array, 24), flags = half_at(array, 64);
    const char *lengths = pointer_at(array, 32), *strides = pointer_at(array, 40);
    if (!(flags & OWNS) || !pointer_at(array, 16) || count <= 0 || count > MOST_DIMENSIONS || !lengths || !strides)
        return 0; /* another's memory, or one number */
    uint64_t most = 0;
    for (int i = 0; i < count; i++) {
        int64_t length = (int64_t)word_at(lengths, 8ul * i), stride = (int64_t)word_at(strides, 8ul * i);
        if (length == 0)
            return 0;
        uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
        uint64_t bytes = length > 1 ? (uint64_t)length * step : count == 1 && step <= OF_ONE_MEMBER ? step : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* How many members lie in an array's own memory, one behind the other; 0: it is not so. Counted by its lengths: the stride
 * of what has one member may be any number, and is no gap. */
static uint64_t members_of_array(const object *array)
{
    int count = half_at(array, 24), flags = half_at(array, 64);
    const char *lengths = pointer_at(array, 32);
    if (!(flags & OWNS) || !(flags & NO_GAPS) || !pointer_at(array, 16) || count < 0 || count > MOST_DIMENSIONS || (count && !lengths))
        return 0;
    uint64_t members = 1;
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(members, word_at(lengths, 8ul * i), &members))
            return 0;
    return members;
}

/* Of an image of Pillow's: lines times the bytes of each. Its releases begin the structure with a number or with letters;
 * which it is shows in that all fields fit each other. Of what lies in a mapped file there is neither block nor blocks. */
static uint64_t bytes_of_image(const object *image)
{
    struct fields { int32_t kind, depth, bands, width, height, unused; uint64_t palette, lines8, lines32, lines, block, blocks; int32_t pixel, line; } f;
    _Static_assert(sizeof f == 80, "as in Imaging.h");
    for (size_t before = 4; before <= 8; before += 4) {
        size_t gap = before == 4 ? 0 : 4; /* after the five numbers, where the pointers begin */
        char copy[sizeof f + 8];
        if (!copy_from(word_at(image, 16), copy, before + sizeof f - (before == 4 ? 4 : 0)))
            return 0;
        memcpy(&f, copy + before, 20);
        memcpy(&f.palette, copy + before + 20 + gap, sizeof f - 24);
        int is_one = f.kind >= 0 && f.kind <= 3 && f.bands >= 1 && f.bands <= 4 && f.width > 0 && f.height > 0 && f.pixel >= 1 &&
                     f.pixel <= 8 && f.lines && (int64_t)f.line >= (int64_t)f.width * f.pixel &&
                     (int64_t)f.line <= (int64_t)f.width * f.pixel + 64;
        if (is_one)
            return f.block || f.blocks ? (uint64_t)f.line * (uint64_t)f.height : 0;
    }
    return 0;
}

/* What it says of itself; C code that is not done may have left there what it likes. */
static uint64_t said_bytes(const object *one, const struct kind *kind)
{
    const type *cls = kind->type;
    uint64_t bytes = (uint64_t)cls->basic_size + (cls->flags & HAS_GC ? 16 : 0);
    if (L.version >= VERSION(3, 11) && cls->flags & (MANAGED_DICT | MANAGED_WEAKREF)) {
        const char *values = values_at(one, cls), *shared = values ? pointer_at(cls, L.heap_type_keys) : NULL;
        bytes += 16 + (shared ? bytes_of_values(values, shared) : 0);
    }
    switch (kind->base) {
    case TEXT:
        return bytes_of_text(one) + (bytes > L.wide_text_bytes + 16 ? bytes - L.wide_text_bytes - 16 : 0);
    case DICT:
        return bytes + bytes_of_dict(one);
    case ORDERED_DICT:
        return bytes + bytes_of_dict(one) + 56 * word_at(one, 16);
    case LIST:
        return bytes + (word_at(one, 24) ? 8 * word_at(one, 32) : 0);
    case SET:
        return bytes + (word_at(one, 40) != (uintptr_t)one + 64 && word_at(one, 40) ? 16 * (word_at(one, 32) + 1) : 0);
    case BYTE_ARRAY:
        return bytes + word_at(one, 24);
    case DEQUE:
        return bytes + 528 * (1 + (one->size > 0 ? (uint64_t)one->size / 64 : 0));
    case ARRAY: {
        const char *description = pointer_at(one, 40);
        return bytes + (word_at(one, 24) && description ? word_at(one, 32) * (uint64_t)half_at(description, 4) : 0);
    }
    case NDARRAY:
        return bytes + bytes_of_array(one);
    case C_DATA: /* of ctypes; what is small lies within it */
        return bytes + (half_at(one, 24) == 1 && word_at(one, 16) - (uintptr_t)one >= (uint64_t)cls->basic_size ? word_at(one, 40) : 0);
    case MAPPING: /* of no file: what of a file is in memory, the kernel can let go of */
        return bytes + (word_at(one, 16) && half_at(one, L.version >= VERSION(3, 9) ? 56 : 52) == -1 ? word_at(one, 24) : 0);
    case IMAGE:
        return bytes + bytes_of_image(one);
    case STRING_IO:
        return bytes + (L.stream_text && word_at(one, 16) ? 4 * word_at(one, 40) : 0);
    case INTEGER: {
        uint64_t size = (uint64_t)one->size;
        uint64_t digits = L.version >= VERSION(3, 12) ? size >> 3 : one->size < 0 ? -size : size;
        return bytes + 4 * (digits ? digits : 1);
    }
    case TUPLE:
    case BYTES:
        return bytes + (uint64_t)cls->item_size * (uint64_t)one->size;
    }
    if (cls->item_size > 0 && one->size > 0 && (uint64_t)one->size < (uint64_t)1 << 40)
        bytes += (uint64_t)cls->item_size * (uint64_t)one->size;
    return bytes;
}

enum { MOST_BITS = 46 }; /* of a size: more memory no process has */

static uint64_t own_bytes(const object *one, const struct kind *kind)
{
    uint64_t bytes = said_bytes(one, kind);
    return bytes >> MOST_BITS ? 0 : bytes;
}

/* ---- text */

static int is_text(const object *one)
{
    return one && one->type == L.text;
}

/* Of so many bytes each, as UTF-8. */
static size_t wide_characters(const char *from, uint64_t length, uint64_t kind, char *to, size_t most)
{
    const unsigned char *at = (const unsigned char *)from;
    size_t written = 0;
    for (uint64_t i = 0; i < length; i++) {
        uint32_t c = at[i];
        if (kind == 2)
            c = (uint32_t)(at[2 * i] | at[2 * i + 1] << 8);
        else if (kind == 4)
            memcpy(&c, at + 4 * i, 4);
        size_t needed = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        if (written + needed > most)
            break;
        if (needed == 1)
            to[written] = (char)c;
        else {
            static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
            for (size_t k = needed; k-- > 1; c >>= 6)
                to[written + k] = (char)(0x80 | (c & 0x3f));
            to[written] = (char)(lead[needed] | c);
        }
        written += needed;
    }
    return written;
}

/* The first ``length`` characters of a string as UTF-8, at most so many bytes; their number. */
static size_t first_characters(const object *text, uint64_t length, char *to, size_t most)
{
    uint64_t state = word_at(text, 32);
    uint64_t kind = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    return is_compact ? wide_characters((const char *)text + (is_ascii ? L.text_bytes : L.wide_text_bytes), length, kind, to, most) : 0;
}
static size_t characters(const object *text, char *to, size_t most)
{
    return first_characters(text, word_at(text, 16), to, most);
}

/* ---- reading */

/* A node for each object that the collector knows. The lists are walked as gc.get_objects() does. */
enum { FROZEN = 3 }; /* by gc.freeze() */

static uint64_t generation_at(int number)
{
    return L.generations + (number == FROZEN ? L.frozen : 24 * (uint64_t)number);
}

/* Not much further than ``most``. */
static uint64_t count_objects(uint64_t most)
{
    uint64_t count = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t head = generation_at(i);
        for (uint64_t at = word_at((void *)head, 0) & ~TAGS; at && at != head && count <= most;
             at = word_at((void *)at, 0) & ~TAGS)
            count++;
    }
    return count;
}

static int list_objects(struct graph *g, int first, int end)
{
    for (int i = first; i < end; i++) {
        uint64_t head = generation_at(i);
        for (uint64_t at = word_at((void *)head, 0) & ~TAGS; at && at != head; at = word_at((void *)at, 0) & ~TAGS) {
            __builtin_prefetch((void *)(word_at((void *)at, 0) & ~TAGS));
            if (node_of(g, at + 16, TYPE_NONE) == NONE)
                return 0;
        }
    }
    return 1;
}

/* What a frame refers to. Since 3.14 the last two bits say who counts the reference: both set, it is a number and none;
 * the first alone, nothing. */
static uint64_t reference_at(const char *frame, size_t offset)
{
    uint64_t word = word_at(frame, offset);
    return L.version < VERSION(3, 14) ? word : (word & TAGS) == TAGS ? 0 : word & ~TAGS;
}

/* Since 3.11 of what stands for a frame. C code that was called has one, in which hardly more is written than a code
 * object, if that. So has, since 3.12, what ends a call of a class, below the frame of its __init__: its globals are
 * whatever lay there before. Of what functions have, that one has no function. */
static int is_of_python(const char *frame)
{
    if (L.version < VERSION(3, 11))
        return 1;
    if (L.frame_owner && frame[L.frame_owner] >= 3)
        return 0;
    const object *function = (object *)reference_at(frame, L.frame_function);
    return function && function->type == L.function;
}

/* The names of its variables, a tuple; NULL where that is no frame of Python code. */
static const object *names_of_locals(const char *frame)
{
    const object *code = (object *)reference_at(frame, L.frame_code);
    const object *names = code && code->type == L.code ? (object *)pointer_at(code, L.code_names) : NULL;
    return names && names->type == L.tuple ? names : NULL;
}

static char own_folder[1024]; /* with a slash; empty: not known */

/* With the GIL, once: where the code of the recorder is. */
EXPORT void graph_own(const char *folder)
{
    strncpy(own_folder, folder, sizeof own_folder - 1);
}

/* The recorder's, on whatever thread: a snapshot may be made on one of the job's. */
static int is_ours(const char *frame)
{
    char text[sizeof own_folder];
    const object *code = (object *)reference_at(frame, L.frame_code);
    const object *file = code && code->type == L.code && L.code_file ? (object *)pointer_at(code, L.code_file) : NULL;
    size_t length = strlen(own_folder);
    return length && is_text(file) && characters(file, text, length) == length && !memcmp(text, own_folder, length);
}

static const char *first_frame(void *thread)
{
    const char *at = L.thread_frame ? pointer_at(thread, L.thread_frame) : NULL;
    return at && L.thread_indirect ? pointer_at(at, L.thread_indirect - 1) : at;
}

/* The running frames of a thread, innermost first: those of the recorder, or all others. Up to 3.10 frames are objects;
 * since, what an object stands for. */
static int list_frames(struct graph *g, void *thread, int is_recorder, int own)
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

/* "file\nline\nname" of what a code object stands for. */
static uint32_t owner_of(struct graph *g, const object *code)
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

static void note_local(struct graph *g, uint32_t frame, uint64_t holds, const object *name)
{
    char text[LONGEST_LABEL];
    if (!holds || !is_text(name) || g->local_count == MOST_LOCALS ||
        !grow(&g->budget, &g->local, (g->local_count + 1) * sizeof(struct local)))
        return;
    uint32_t at = put_text(g, text, characters(name, text, sizeof text));
    ARRAY(g, local, struct local)[g->local_count++] = (struct local){holds, frame, at};
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
        note_local(g, node, holds, item_of(names, i));
    }
    *owner = owner_of(g, (object *)reference_at(frame, L.frame_code));
    return 1;
}

static const char *storage_of(const object *tensor)
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
static int visit_hidden(const object *one, uint8_t base, visit_function visit, void *arg)
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

/* The C++ object that one of Arrow's shows: a shared pointer, and once more a plain one; 0: none yet, or not known. */
static uintptr_t arrow_data_of(const object *one)
{
    for (size_t at = 24; at <= 32 && at + 24 <= (size_t)one->type->basic_size; at += 8)
        if (word_at(one, at) && word_at(one, at) == word_at(one, at + 16))
            return word_at(one, at);
    return 0;
}

/* Whether a dict with a table of its own has only strings for keys. */
static int has_text_keys(const object *dict, const struct keys *keys)
{
    if (L.version >= VERSION(3, 11))
        return keys->is_text;
    return L.any_lookup && word_at(pointer_at(dict, 32), 16) != L.any_lookup;
}

/* A dict that has only strings for keys does not tell the collector of them. Its values come with the others; interned
 * strings are names, which everybody has. */
static int read_keys(struct graph *g, const object *dict, uint64_t stride)
{
    const char *at = pointer_at(dict, 32);
    if (!at || word_at(dict, 40)) /* keys are shared */
        return 1;
    struct keys keys = keys_at(at);
    if (!has_text_keys(dict, &keys) || keys.entries > keys.usable)
        return 1;
    const char *key_at = keys.first + (L.version < VERSION(3, 11) ? 8 : 0);
    for (uint64_t i = 0; i < keys.entries; i += stride) {
        if (i + 8 * stride < keys.entries)
            __builtin_prefetch(pointer_at(key_at, (i + 8 * stride) * keys.entry_bytes) + 32);
        const object *key = (object *)pointer_at(key_at, i * keys.entry_bytes);
        if (is_text(key) && !(word_at(key, 32) & 3) && !refer(g, (uintptr_t)key, TYPE_NONE))
            return 0;
    }
    return 1;
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

static int visit_some(object *to, void *arg)
{
    struct visits *visits = arg;
    return to && visits->seen++ % visits->stride == 0 ? visit_edge(to, visits->g) : 0;
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
    if (cls != L.dict || word_at(one, 40) || !pointer_at(one, 32))
        return 0;
    struct keys keys = keys_at(pointer_at(one, 32));
    *each = keys.entry_bytes;
    *first = keys.first + keys.entry_bytes - 8; /* the value; right before it is the key */
    *has_keys = !has_text_keys(one, &keys); /* else read_keys has them */
    return keys.entries <= keys.usable ? keys.entries : 0;
}

enum { NEAR_SHARE = 16, MOST_NEAR = 4096, MOST_FAR = 512, LEAST_FOLLOWED = 16, SHARE_OF_LEFT = 32 };

/* Which of its references to follow: all (1), or one in so many, a power of three: of two containers with the same
 * members in the same order the same ones are followed, also where one is a dict that tells of a value and of a key in
 * turn. What is nearest to a root comes first: all modules, what they name, and more of their containers than of what
 * lies in these. Where many nodes wait and there is little room left, 0 for most of them, and others stand for these. */
static uint64_t stride_of(struct graph *g, uint32_t node, const object *one, uint8_t base, int is_told)
{
    const char *first;
    uint64_t each, left = g->node_limit > g->nodes ? g->node_limit - g->nodes : 0, waiting = g->nodes - node;
    int is_near = node < g->node_limit / NEAR_SHARE;
    uint32_t nodes = 1;
    while (!is_near && waiting / nodes * 2 > left && nodes < 1u << 20)
        nodes *= 3;
    if (node % nodes)
        return 0;
    int has_keys;
    struct visits visits = {g, members_in_line(one, &first, &each, &has_keys), 1};
    if (!visits.seen) {
        visit_hidden(one, base, count_visit, &visits);
        if (is_told)
            one->type->traverse((object *)one, count_visit, &visits);
    }
    uint64_t at_most = is_near ? MOST_NEAR : MOST_FAR, most = left / SHARE_OF_LEFT, stride = 1;
    most = most > at_most ? at_most : most < LEAST_FOLLOWED ? LEAST_FOLLOWED : most;
    while (visits.seen > most * stride)
        stride *= 3;
    if ((stride > 1 || nodes > 1) && grow(&g->budget, &g->sample, (g->sample_count + 1) * sizeof(struct sample)))
        ARRAY(g, sample, struct sample)[g->sample_count++] = (struct sample){node, nodes, stride};
    return stride;
}

static int visit_context(object *to, void *arg);
struct context { /* while a node of its table is read: the value that was visited last */
    struct graph *g;
    object *value;
};

static int read_node(struct graph *g, uint32_t node)
{
    uintptr_t address = ARRAY(g, address, uintptr_t)[node];
    uint32_t special = ARRAY(g, type, uint32_t)[node];
    uint64_t *own = &ARRAY(g, own, uint64_t)[node];
    uint32_t *references = &ARRAY(g, references, uint32_t)[node];
    *own = 0;
    *references = 0;
    if (special == TYPE_FRAME)
        return read_frame(g, node, (const char *)address, references);
    if (special == TYPE_STORAGE || special == TYPE_AUTOGRAD || special == TYPE_ARROW)
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
    *own = own_bytes(one, kind);
    uint64_t count = count_of(one); /* since 3.12 some are counted as living for ever */
    *references = L.version >= VERSION(3, 12) && count >= (uint64_t)1 << 30 ? NONE : count > NONE - 1 ? NONE - 1 : (uint32_t)count;
    if (base == TENSOR && !refer(g, (uintptr_t)storage_of(one), TYPE_STORAGE))
        return 0;
    if (base == ARROW && !refer(g, arrow_data_of(one), TYPE_ARROW))
        return 0;
    type *cls = one->type;
    int is_told = is_gc && !(cls->is_gc && !cls->is_gc(one));
    struct visits some = {g, 0, g->node_limit ? stride_of(g, node, one, base, is_told) : 1};
    if (!some.stride)
        return 1;
    visit_function visit = some.stride > 1 ? visit_some : visit_edge;
    void *arg = some.stride > 1 ? (void *)&some : g;
    if (base != TENSOR && visit_hidden(one, base, visit, arg))
        return 0;
    if (!is_told)
        return 1;
    if (base == DICT && !read_keys(g, one, some.stride)) /* an OrderedDict tells of its keys */
        return 0;
    const char *first;
    int has_keys;
    uint64_t each, members = some.stride > 1 ? members_in_line(one, &first, &each, &has_keys) : 0;
    for (uint64_t i = 0; i < members; i += some.stride) {
        if (i + 8 * some.stride < members)
            __builtin_prefetch(pointer_at(first, (i + 8 * some.stride) * each));
        if (!refer(g, word_at(first, i * each), TYPE_NONE) || (has_keys && !refer(g, word_at(first - 8, i * each), TYPE_NONE)))
            return 0;
    }
    if (members)
        return 1;
    if (base == CONTEXT)
        cls->traverse(one, visit_context, &(struct context){g, NULL});
    return !cls->traverse(one, visit, arg);
}

/* How large storages are. Torch's own threads may free one of a tensor that is still there, GIL or not: the kernel reads
 * them, for which what is no memory is an error and no crash. */
static void weigh_storages(struct graph *g)
{
    enum { AT_ONCE = 64, LARGEST = 256 };
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
            int on_device = L.storage_device && copy[i * each + L.storage_device] != 0;
            uint64_t bytes = word_at(copy + i * each, L.storage_bytes);
            ARRAY(g, own, uint64_t)[nodes[i]] = on_device || bytes >> MOST_BITS ? 0 : bytes;
        }
        read += read < waiting; /* without the one that is gone */
        waiting -= read;
        memmove(from, from + read, waiting * sizeof *from);
        memmove(nodes, nodes + read, waiting * sizeof *nodes);
    }
}

static uint32_t node_at(const struct graph *g, uintptr_t address)
{
    const uint64_t *table = g->table.at;
    for (uint32_t slot = hash(address) & g->table_mask; table[slot]; slot = (slot + 1) & g->table_mask)
        if (ARRAY(g, address, uintptr_t)[(uint32_t)table[slot]] == address)
            return (uint32_t)table[slot];
    return NONE;
}

enum { MOST_ARROW_ASKED = 4096 };

/* A number at least 1 that a function of C code says; ``of``: NULL, or an object. */
static uint64_t said_by(object *function, object *of)
{
    object *said = L.call(function, of, NULL);
    long long number = said ? L.as_number(said) : 0;
    if (said)
        L.let_go(said);
    if (!said || number == -1)
        L.clear_error();
    return number > 0 && !((uint64_t)number >> MOST_BITS) ? (uint64_t)number : 1;
}

/* What Arrow's C++ objects have, once each. Arrow is asked, whose functions for it run no Python code, keep the GIL, and
 * change nothing: tables do not change. Where there are many, those not asked are taken for as large as the others. Two of
 * them may show the same buffers, a slice and its table, or such as are no memory of Arrow's, but numpy's or a file's:
 * where all say more than there is, each counts for less. */
static void weigh_arrow(struct graph *g)
{
    const uint32_t *types = g->type.at;
    const uintptr_t *address = g->address.at;
    const struct kind *kinds = g->kind.at;
    uint64_t *own = g->own.at, asked = 0, bytes = 0;
    for (int is_rest = 0; is_rest < 2; is_rest++)
        for (uint64_t node = GROUPS; node < g->nodes; node++) {
            if (types[node] < FIRST_TYPE || kinds[types[node]].base != ARROW)
                continue;
            object *one = (object *)address[node];
            uint32_t data = node_at(g, arrow_data_of(one));
            if (data == NONE || own[data])
                continue;
            if (is_rest) {
                own[data] = asked ? bytes / asked : 0;
                continue;
            }
            if (asked == MOST_ARROW_ASKED)
                break;
            const type *cls = one->type;
            while (arrow_type_of(cls) == ARROW_TYPES)
                cls = cls->base;
            own[data] = said_by(arrow_sizes[arrow_type_of(cls)], one);
            asked++;
            bytes += own[data];
        }
    if (!asked || !arrow_sizes[ARROW_TYPES])
        return;
    double all = 0, there = (double)said_by(arrow_sizes[ARROW_TYPES], NULL);
    for (uint64_t node = GROUPS; node < g->nodes; node++)
        all += types[node] == TYPE_ARROW ? (double)own[node] : 0;
    for (uint64_t node = GROUPS; all > there && node < g->nodes; node++)
        if (types[node] == TYPE_ARROW)
            own[node] = (uint64_t)((double)own[node] * there / all);
}

/* ---- Python's allocator of small objects
 *
 * It divides arenas into pools of blocks of one size each. Where it keeps the list of its arenas nobody tells; but in each
 * pool stands which one of the list it is in, so the list is known when it is found.
 */

struct pool_header { /* as in Objects/obmalloc.c, of every CPython that this is for */
    uint32_t blocks, unused; /* in use */
    uint64_t free_block, next, before;
    uint32_t arena, size_class, next_offset, last_offset;
};

struct arena_of_python {
    uint64_t address, next_pool;
    uint32_t free_pools, all_pools;
    uint64_t unused[3];
};

_Static_assert(sizeof(struct pool_header) == 48 && sizeof(struct arena_of_python) == 48, "as in Objects/obmalloc.c");

enum { MOST_PLACES = 8, LEAST_ARENAS = 16, SIZE_CLASSES = 32, POOLS_ASKED = 48, SMALL_BYTES = 512, LOOSE_BYTES = 2 << 20 };

static uint64_t places_of_list[MOST_PLACES]; /* where a pointer to the list of arenas stands: one of these */
static int place_count;
static uint32_t arena_limit = LEAST_ARENAS; /* so long the list is: twice as long each time that it grew */

static uint64_t pool_size(void)
{
    return L.version < VERSION(3, 10) ? 4096 : 16384;
}

static uint64_t arena_size(void)
{
    return L.version < VERSION(3, 10) ? 256 << 10 : 1 << 20;
}

/* The pool that an object lies in, if that looks like one. */
static int pool_around(uint64_t address, struct pool_header *pool)
{
    if (!copy_from(address & ~(pool_size() - 1), pool, sizeof *pool) || pool->size_class >= SIZE_CLASSES)
        return 0;
    uint32_t block = (pool->size_class + 1) * 16;
    return pool->last_offset == pool_size() - block && pool->blocks && pool->blocks <= (pool_size() - 48) / block &&
           pool->arena < 1 << 24;
}

static int is_arena(const struct arena_of_python *arena)
{
    return arena->address && arena->next_pool >= arena->address && arena->next_pool <= arena->address + arena_size() &&
           arena->free_pools <= arena->all_pools && arena->all_pools <= arena_size() / pool_size() &&
           arena->all_pools + 1 >= arena_size() / pool_size();
}

static int is_list_for(uint64_t list, uint32_t number, uint64_t object_address)
{
    struct arena_of_python arena;
    return copy_from(list + number * sizeof arena, &arena, sizeof arena) && is_arena(&arena) &&
           object_address - arena.address < arena_size();
}

/* Without the GIL, once. Looks for the list of arenas in memory from ``begin`` to ``end``, Python's own variables. ``known``:
 * addresses of some small objects. How many places hold a pointer to it. */
EXPORT int graph_find_arenas(uint64_t begin, uint64_t end, const uint64_t *known, uint64_t count)
{
    enum { AT_ONCE = 512 };
    uint64_t words[AT_ONCE], first_of = 0;
    uint32_t numbers[64];
    uint64_t pools = 0, addresses[64];
    for (uint64_t i = 0; i < count && pools < 64; i++) {
        struct pool_header pool;
        if (pool_around(known[i], &pool)) {
            addresses[pools] = known[i];
            numbers[pools++] = pool.arena;
        }
    }
    place_count = 0;
    if (pools * 2 <= count)
        return 0; /* Python takes them from elsewhere */
    for (uint64_t at = begin; at < end; at += sizeof words) {
        size_t bytes = end - at < sizeof words ? end - at : sizeof words;
        if (!copy_from(at, words, bytes))
            continue;
        for (size_t i = 0; i < bytes / 8 && place_count < MOST_PLACES; i++) {
            uint64_t list = words[i];
            if (list < 4096 || list & 7 || list >> 47 || (list >= begin && list < end))
                continue;
            int is_right = list == first_of || is_list_for(list, numbers[0], addresses[0]);
            for (uint64_t k = 1; is_right && k < pools; k++)
                is_right = is_list_for(list, numbers[k], addresses[k]);
            if (is_right) {
                first_of = list;
                places_of_list[place_count++] = at + i * 8;
            }
        }
    }
    return place_count;
}

/* Whether the list goes on from ``arena_limit`` to twice that: an arena there has pools that say so. Memory behind the list
 * has none: of an older, shorter list they would have other numbers. */
static int has_more(uint64_t list)
{
    struct arena_of_python arena;
    for (uint32_t i = arena_limit; i < arena_limit * 2; i++) {
        struct pool_header pool;
        if (!copy_from(list + i * sizeof arena, &arena, sizeof arena))
            return 0;
        if (is_arena(&arena) && copy_from((arena.address + pool_size() - 1) & ~(pool_size() - 1), &pool, sizeof pool) &&
            pool.arena == i && pool.size_class < SIZE_CLASSES)
            return 1;
    }
    return 0;
}

/* The list, tried on objects of the graph; 0 where none is known. */
static uint64_t list_of_arenas(const struct graph *g)
{
    const uintptr_t *address = g->address.at;
    const uint64_t *own = g->own.at;
    const uint32_t *types = g->type.at;
    uint64_t asked[POOLS_ASKED];
    uint32_t numbers[POOLS_ASKED], pools = 0;
    for (uint64_t i = 0; place_count && i < POOLS_ASKED; i++) {
        struct pool_header pool;
        uint64_t node = GROUPS + (g->nodes - GROUPS) * i / POOLS_ASKED;
        if (types[node] < FIRST_TYPE || own[node] > SMALL_BYTES || !pool_around(address[node], &pool))
            continue;
        asked[pools] = address[node];
        numbers[pools++] = pool.arena;
    }
    for (int i = 0; pools && i < place_count; i++) {
        uint64_t list = word_at((void *)places_of_list[i], 0);
        uint32_t right = 0;
        for (uint32_t k = 0; k < pools; k++)
            right += (uint32_t)is_list_for(list, numbers[k], asked[k]);
        if (right < pools)
            continue;
        while (arena_limit < 1u << 20 && has_more(list))
            arena_limit *= 2;
        return list;
    }
    return 0;
}

static uint32_t type_known(const struct graph *g, const type *cls)
{
    const struct kind *kinds = g->kind.at;
    const uint32_t *table = g->kind_table.at;
    for (uint32_t slot = hash((uintptr_t)cls) & g->kind_mask; table[slot] != NONE; slot = (slot + 1) & g->kind_mask)
        if (kinds[table[slot]].type == cls)
            return table[slot];
    return NONE;
}

/* NONE where there is none. */
struct loose {
    uint64_t count, bytes;
};

/* Objects in the blocks of a pool that nothing refers to and the collector does not know: strings, numbers, bytes. */
static void find_loose(struct graph *g, const struct pool *pool, uint64_t times)
{
    struct pool_header header;
    memcpy(&header, (void *)pool->address, sizeof header);
    uint64_t is_free[1024 / 64] = {0};
    uint32_t capacity = (uint32_t)(pool_size() - 48) / pool->block_bytes, freed = 0;
    for (uint64_t at = header.free_block; at && freed <= capacity; freed++) {
        uint64_t offset = at - pool->address - 48;
        if (at < pool->address + 48 || offset % pool->block_bytes || offset / pool->block_bytes >= capacity)
            return;
        is_free[offset / pool->block_bytes / 64] |= (uint64_t)1 << offset / pool->block_bytes % 64;
        at = word_at((void *)at, 0);
    }
    struct loose *loose = g->loose.at;
    const struct kind *kinds = g->kind.at;
    for (uint32_t i = 0; i < capacity; i++) {
        uint64_t at = pool->address + 48 + (uint64_t)i * pool->block_bytes;
        if (at - pool->address >= header.next_offset)
            return; /* never used */
        if (is_free[i / 64] >> i % 64 & 1 || pool->block_bytes < 16)
            continue;
        /* Of those that the collector knows also dicts and tuples that it has put aside: the word before them says so. */
        int is_untracked = word_at((void *)at, 0) == 0 && pool->block_bytes >= 48;
        const object *one = (object *)(is_untracked ? at + 16 : at);
        uint64_t count = (uint64_t)one->reference_count;
        if (!count || count >> 28)
            continue;
        uint32_t type = type_known(g, one->type);
        if (type == NONE || kinds[type].is_gc != is_untracked || node_at(g, (uintptr_t)one) != NONE ||
            (kinds[type].base == TEXT && (pool->block_bytes < L.text_bytes || word_at(one, 32) & 3)))
            continue;
        loose[type].count += times;
        loose[type].bytes += times * pool->block_bytes;
    }
}

/* With the GIL: which pools are in use, and by how many blocks. */
static void read_pools(struct graph *g)
{
    uint64_t list = list_of_arenas(g), count = 0;
    if (!list || !grow(&g->budget, &g->loose, g->type_count * sizeof(struct loose)) ||
        !grow(&g->budget, &g->arena, arena_limit * sizeof(struct arena_of_python)))
        return;
    struct arena_of_python *arenas = g->arena.at;
    memcpy(arenas, (void *)list, arena_limit * sizeof *arenas);
    for (uint32_t i = 0; i < arena_limit; i++) {
        if (!is_arena(&arenas[i])) {
            memset(&arenas[i], 0, sizeof *arenas);
            continue;
        }
        g->arena_count++;
        uint64_t first = (arenas[i].address + pool_size() - 1) & ~(pool_size() - 1);
        if (!grow(&g->budget, &g->pool, (count + arena_size() / pool_size()) * sizeof(struct pool)))
            return;
        struct pool *pools = g->pool.at;
        for (uint64_t at = first; at < arenas[i].next_pool; at += pool_size()) {
            struct pool_header header;
            __builtin_prefetch((void *)(at + 4 * pool_size()));
            memcpy(&header, (void *)at, sizeof header);
            if (!header.blocks || header.size_class >= SIZE_CLASSES || header.arena != i)
                continue;
            uint32_t block = (header.size_class + 1) * 16;
            if (header.blocks > (pool_size() - 48) / block)
                continue;
            pools[count++] = (struct pool){at, i, header.blocks, block, 0};
            g->block_bytes += header.blocks * block;
        }
    }
    g->pool_count = count;
    g->pool_bytes = pool_size();
    g->arena_bytes = g->arena_count * arena_size();
    uint64_t most = LOOSE_BYTES / pool_size(), times = count / most + 1;
    struct pool *pools = g->pool.at;
    for (uint64_t i = times / 2; i < count; i += times)
        find_loose(g, &pools[i], times);
}

/* ---- edges that come later */

struct pair {
    uint32_t from, to;
};

static int by_nodes(const void *one, const void *other)
{
    const struct pair *a = one, *b = other;
    return a->from != b->from ? (a->from < b->from ? -1 : 1) : a->to < b->to ? -1 : a->to > b->to;
}

/* Edges stand one node's behind the other's: from the last to the first they make room for those that come. */
static void insert(struct graph *g, const struct pair *pairs, uint64_t count)
{
    uint32_t *begin = g->begin.at, *edge = g->edge.at, done = (uint32_t)g->nodes + 1;
    uint64_t end = g->edges;
    for (uint64_t k = count; k-- > 0;) {
        uint32_t after = pairs[k].from + 1;
        if (after < done) {
            uint64_t first = begin[after];
            memmove(edge + first + k + 1, edge + first, (end - first) * 4);
            for (uint32_t node = after; node < done; node++)
                begin[node] += (uint32_t)k + 1;
            end = first;
            done = after;
        }
        edge[end + k] = pairs[k].to;
    }
    g->edges += count;
}

/* 0 where there is no room. */
static int insert_all(struct graph *g, struct pair *pairs, uint64_t count)
{
    uint64_t kept = 0;
    qsort(pairs, count, sizeof *pairs, by_nodes);
    for (uint64_t k = 0; k < count; k++)
        if (!k || by_nodes(&pairs[k], &pairs[k - 1]))
            pairs[kept++] = pairs[k];
    if (g->edges + kept >= NONE || !grow(&g->budget, &g->edge, (g->edges + kept + 1) * 4))
        return 0;
    insert(g, pairs, kept);
    return 1;
}

struct variable { /* a context variable, and what it has in a context */
    uint64_t address, holds;
};

/* A node of a context's table visits each value, then the variable that it is of. */
static int visit_context(object *to, void *arg)
{
    struct context *context = arg;
    struct graph *g = context->g;
    int is_variable = !(to->type->flags & HEAP_TYPE) && base_of(to->type) == VARIABLE;
    if (is_variable && context->value && grow(&g->budget, &g->variable, (g->variable_count + 1) * sizeof(struct variable)))
        ARRAY(g, variable, struct variable)[g->variable_count++] = (struct variable){(uintptr_t)to, (uintptr_t)context->value};
    context->value = is_variable ? NULL : to;
    return 0;
}

/* To a person it is the variable that holds what is in it, and not the context that only C code refers to. */
static int tie_variables(struct graph *g)
{
    struct array array = {0};
    if (!g->variable_count)
        return 1;
    if (!grow(&g->budget, &array, g->variable_count * sizeof(struct pair)))
        return 0;
    const struct variable *variables = g->variable.at;
    struct pair *pairs = array.at;
    uint64_t count = 0;
    for (uint32_t i = 0; i < g->variable_count; i++) {
        uint32_t from = node_at(g, variables[i].address), to = node_at(g, variables[i].holds);
        if (from != NONE && to != NONE && from != to)
            pairs[count++] = (struct pair){from, to};
    }
    int is_done = insert_all(g, pairs, count);
    drop(&g->budget, &array);
    return is_done;
}

/* ---- the graph's beginning and end */

EXPORT void graph_free(struct graph *g)
{
    if (!g)
        return;
    struct budget budget = g->budget;
    struct array self = {g, sizeof *g};
    for (struct array *one = g->process == getpid() ? &g->address : &g->kind; one <= &g->pin; one++)
        drop(&budget, one);
    drop(&budget, &self);
}

struct values { /* of an object, as above */
    const char *names, *first;
    uint64_t count;
};

static struct values values_of(const object *one, const type *cls)
{
    struct values none = {0};
    const char *values = values_at(one, cls), *shared = values ? pointer_at(cls, L.heap_type_keys) : NULL;
    uint64_t capacity = UINT64_MAX;
    if (!shared)
        return none;
    if (L.version >= VERSION(3, 13)) {
        const uint8_t *head = (const uint8_t *)values - 8;
        if (!head[3])
            return none; /* a dict has taken them over */
        capacity = head[0];
    }
    struct keys keys = keys_at(shared);
    if (!keys.is_text || keys.entries > keys.usable || keys.entries > capacity)
        return none;
    return (struct values){keys.first, values, keys.entries};
}

static const object *name_at(struct values values, uint64_t i)
{
    return (object *)pointer_at(values.names, 16 * i);
}

/* ---- what threads run */

static int is_word(const object *text, const char *word)
{
    char to[32];
    size_t length = strlen(word);
    return is_text(text) && characters(text, to, sizeof to) == length && !memcmp(to, word, length);
}

/* Its __dict__; NULL where it has none, or its class keeps that elsewhere. */
static const object *dict_of(const object *one, const type *cls)
{
    const object *dict = NULL;
    if (cls->dict_offset > 0)
        dict = (object *)pointer_at(one, (size_t)cls->dict_offset);
    else if (L.version >= VERSION(3, 11) && cls->flags & MANAGED_DICT && !(word_at((const char *)one - 24, 0) & 1))
        dict = (object *)pointer_at((const char *)one - 24, 0);
    return dict && dict->type == L.dict ? dict : NULL;
}

/* The attribute of an object; NULL where it has none of that name. */
static const object *attribute_of(const object *one, const char *word)
{
    const type *cls = one->type;
    struct values values = values_of(one, cls);
    for (uint64_t i = 0; i < values.count; i++)
        if (is_word(name_at(values, i), word))
            return (object *)pointer_at(values.first, 8 * i);
    const object *dict = dict_of(one, cls);
    intptr_t at = 0;
    object *key, *value;
    if (dict)
        while (L.dict_next((object *)dict, &at, &key, &value))
            if (is_word(key, word))
                return value;
    return NULL;
}

static int put_stack(struct graph *g, uint32_t text)
{
    if (!grow_copied(&g->budget, &g->stack, (g->stack_count + 1) * 4))
        return 0;
    ARRAY(g, stack, uint32_t)[g->stack_count++] = text;
    return 1;
}

/* Of a threading.Timer, and of a thread that has just begun: the function that it will call. ``frame``: of its run(). */
static int put_what_waits(struct graph *g, const object *thread)
{
    if (!thread || !thread->type || !(thread->type->flags & HEAP_TYPE))
        return 1;
    const object *function = attribute_of(thread, "function");
    if (!function)
        function = attribute_of(thread, "_target");
    if (function && function->type != L.function && is_called(function->type, "method", 40))
        function = (object *)pointer_at(function, 16);
    if (!function || function->type != L.function || !L.function_code)
        return 1;
    uint32_t owner = owner_of(g, (object *)pointer_at(function, L.function_code));
    return !owner || (put_stack(g, NONE) && put_stack(g, put_name(g, thread->type)) && put_stack(g, owner));
}

/* The frames of a thread as texts, innermost first, and behind them 0. Before each run() of threading's what waits. */
static int put_frames(struct graph *g, void *thread)
{
    enum { DEEPEST = 200, LAST = 40 }; /* those that began first say what a thread is for */
    const char *frames[LAST];
    int count = 0;
    const char *at = first_frame(thread);
    for (int depth = 0; at && depth < DEEPEST; depth++) {
        if (is_of_python(at))
            frames[count++ % LAST] = at;
        at = pointer_at(at, L.version < VERSION(3, 11) ? L.frame_back : L.frame_before);
    }
    for (int i = count > LAST ? count - LAST : 0; i < count; i++) {
        const char *frame = frames[i % LAST];
        const object *code = (object *)reference_at(frame, L.frame_code);
        uint32_t owner = owner_of(g, code);
        if (!owner)
            continue;
        const char *text = (char *)g->text.at + owner, *file = strstr(text, "threading.py\n"), *name = strrchr(text, '.');
        name = name && strchr(text, '\n') < name ? name + 1 : strrchr(text, '\n') + 1;
        /* Without variables what was calculated last lies in their place, which may be freed. */
        const object *names = (object *)pointer_at(code, L.version < VERSION(3, 11) ? 72 : L.code_names);
        if (file && !strcmp(name, "run") && names && names->type == L.tuple && names->size > 0 &&
            !put_what_waits(g, (object *)reference_at(frame, L.frame_slots)))
            return 0;
        if (!put_stack(g, owner))
            return 0;
    }
    return put_stack(g, 0);
}

/* ---- what threads do */

/* The line that runs, as a traceback would say it. */
static int line_at(const char *frame, object *code)
{
    if (L.version < VERSION(3, 11))
        return L.line_of_frame((object *)frame);
    return L.line_of_code(code, (int)(word_at(frame, L.frame_at) - (uintptr_t)code - L.code_begin));
}

static size_t put_printable(char *to, size_t most, const object *text)
{
    size_t length = is_text(text) ? characters(text, to, most) : 0;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)to[i] < ' ')
            to[i] = '?';
    return length;
}

/* With the GIL: what all other threads run, as bytes: for each "thread\n", the address of its state, and for its frames,
 * innermost first, "file\nline\nfirst line of the function\nname\0"; behind the last one more 0. Nothing is kept of a
 * frame: a reference to one would have its variables finalized here, were it the last. Returns how many bytes, at most
 * ``room``; threads that do not fit are left out. */
EXPORT uint64_t graph_running(char *to, uint64_t room)
{
    enum { DEEPEST = 200, LONGEST_FILE = 600, LONGEST_FUNCTION = 200, ROOM = LONGEST_FILE + LONGEST_FUNCTION + 64 };
    uint64_t used = 0;
    if (!L.thread_frame || !L.code_file || (L.version >= VERSION(3, 11) && !L.frame_at))
        return 0;
    void *own = L.this_thread();
    for (void *thread = L.first_thread(L.main_interpreter()); thread; thread = L.next_thread(thread)) {
        uint64_t begin = used;
        if (thread == own || used + ROOM > room)
            continue;
        used += (uint64_t)sprintf(to + used, "%llu\n", (unsigned long long)(uintptr_t)thread);
        uint64_t calls = used;
        const char *at = first_frame(thread);
        for (int depth = 0; at && depth < DEEPEST; depth++) {
            object *code = (object *)reference_at(at, L.frame_code);
            if (is_of_python(at) && code && code->type == L.code) {
                if (used + ROOM > room)
                    return begin;
                int first = half_at(code, L.code_line), line = line_at(at, code);
                used += put_printable(to + used, LONGEST_FILE, (object *)pointer_at(code, L.code_file));
                used += (uint64_t)sprintf(to + used, "\n%d\n%d\n", line > 0 ? line : first, first);
                used += put_printable(to + used, LONGEST_FUNCTION, (object *)pointer_at(code, L.code_name));
                to[used++] = 0;
            }
            at = pointer_at(at, L.version < VERSION(3, 11) ? L.frame_back : L.frame_before);
        }
        if (used > calls)
            to[used++] = 0;
        else
            used = begin;
    }
    return used;
}

/* What the agent wants to have of all objects while it has the GIL: lists of Python's, which it fills. */
struct sweep {
    const uint64_t *wanted; /* addresses of types, rising */
    uint64_t wanted_count;
    object *picked, *types; /* objects of types wanted, types of all objects */
    uint64_t *counts; /* by type, in the order of ``types``, as many as there is room for */
    uint64_t most_types, type_count;
};

/* How much may be read, and what was found. */
struct bounds {
    uint64_t bytes, bytes_each; /* in all, and at most for each object while it is worked out */
    uint64_t objects; /* that the collector tracks */
    uint64_t nodes; /* where there are more: so many, the nearest to the roots; 0: then nothing is read */
    uint64_t count; /* of the objects; above ``objects``: at least so many */
    uint64_t is_collecting; /* nothing was read: the heap is being taken apart */
};

static int is_wanted(const struct sweep *sweep, uint64_t type)
{
    uint64_t low = 0, high = sweep->wanted_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (sweep->wanted[middle] < type)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sweep->wanted_count && sweep->wanted[low] == type;
}

/* Of the nodes that the collector listed, which end at ``end``. 0 where Python has no memory for the lists. */
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
    for (uint32_t type = FIRST_TYPE; is_done && type < g->type_count; type++)
        if (kinds[type].listed && sweep->type_count < sweep->most_types) {
            sweep->counts[sweep->type_count++] = kinds[type].listed;
            is_done = !L.list_append(sweep->types, (object *)kinds[type].type);
            picks[type] = is_wanted(sweep, (uintptr_t)kinds[type].type);
        }
    for (uint32_t node = GROUPS; is_done && node < end; node++) {
        if (types[node] < FIRST_TYPE)
            continue;
        object *one = (object *)address[node];
        if (one == sweep->picked || one == sweep->types)
            continue; /* they would hold each other, and all that is in them */
        if (picks[types[node]])
            is_done = !L.list_append(sweep->picked, one);
    }
    drop(&g->budget, &picked);
    return is_done;
}

/* With the GIL. ``modules``: the dict of all modules. ``recorder``, ``main``: states of the agent's thread, or NULL, and
 * of the main one.
 * ``sweep``: may be NULL. NULL where the bounds do not allow it, or Python is not as it was found. */
EXPORT struct graph *graph_take(object *modules, void *recorder, void *main, struct bounds *bounds, struct sweep *sweep)
{
    struct budget budget = {bounds->bytes, 0};
    struct array self = {0};
    bounds->is_collecting = L.is_collecting && *L.is_collecting;
    if (!L.generations || bounds->is_collecting)
        return NULL;
    uint64_t count = bounds->count = count_objects(bounds->objects);
    int is_sampled = count > bounds->objects || count > bounds->bytes / bounds->bytes_each;
    if (is_sampled && !bounds->nodes)
        return NULL;
    if (!grow_copied(&budget, &self, sizeof(struct graph)))
        return NULL;
    struct graph *g = self.at;
    g->is_sampled = (uint64_t)is_sampled;
    g->node_limit = is_sampled ? bounds->nodes : 0;
    count = is_sampled ? bounds->nodes / 2 : count;
    g->budget = budget;
    g->process = getpid();
    g->kind_mask = 4095;
    g->type_count = FIRST_TYPE;
    if (!grow(&g->budget, &g->kind_table, 4096 * 4) || !grow_copied(&g->budget, &g->text, 4096) ||
        !grow_copied(&g->budget, &g->kind, FIRST_TYPE * sizeof(struct kind)) || !begin_table(g, count * 2 + GROUPS) || !more_nodes(g, count * 2 + 4096))
        goto failed;
    memset(g->kind_table.at, 0xff, 4096 * 4);
    put_text(g, "", 0);
    ARRAY(g, kind, struct kind)[TYPE_STORAGE].text = put_text(g, "torch storage", 13);
    ARRAY(g, kind, struct kind)[TYPE_AUTOGRAD].text = put_text(g, "torch autograd graph", 20);
    ARRAY(g, kind, struct kind)[TYPE_ARROW].text = put_text(g, "Arrow's data", 12);
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
    ARRAY(g, begin, uint32_t)[FROM_C] = ARRAY(g, begin, uint32_t)[UNREACHABLE] = (uint32_t)g->edges;
    if (!is_sampled && !list_objects(g, 0, FROZEN))
        goto failed;
    uint32_t listed = is_sampled ? GROUPS : (uint32_t)g->nodes; /* what gc.get_objects() lists */
    g->frozen_begin = (uint32_t)g->nodes;
    if (!is_sampled && !list_objects(g, FROZEN, FROZEN + 1))
        goto failed;
    g->listed_count = listed - GROUPS;
    g->frozen_count = g->nodes - g->frozen_begin;
    g->frozen_end = (uint32_t)g->nodes;
    for (uint32_t node = GROUPS;; node++) {
        if (node + 8 < g->nodes) {
            uintptr_t later = ARRAY(g, address, uintptr_t)[node + 8];
            __builtin_prefetch((void *)later);
        }
        if (node == g->nodes && !settle(g))
            goto failed;
        if (node == g->nodes)
            break;
        ARRAY(g, begin, uint32_t)[node] = (uint32_t)(g->edges + g->waiting);
        if (!read_node(g, node))
            goto failed;
    }
    ARRAY(g, begin, uint32_t)[g->nodes] = (uint32_t)g->edges;
    if (!tie_variables(g))
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
    if (sweep && !is_sampled && !sweep_nodes(g, sweep, listed))
        goto failed;
    g->kinds = g->kind.at;
    g->texts = g->text.at;
    return g;
failed:
    graph_free(g);
    return NULL;
}

/* ---- what the collector does not tell */

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
    }
    if (tie->type == TYPE_AUTOGRAD)
        ARRAY(g, own, uint64_t)[node] += (uint64_t)tie->count * OPERATION_BYTES;
    else if (!ARRAY(g, own, uint64_t)[node] && !(tie->bytes >> MOST_BITS))
        ARRAY(g, own, uint64_t)[node] = tie->bytes;
    return node;
}

/* With the GIL, right after graph_take: ``is_referred``, of each of these objects, says then whether another one refers
 * to it, or a running function. 0 where there is no room. */
EXPORT int graph_referred(struct graph *g, const uint64_t *addresses, uint64_t count, uint8_t *is_referred)
{
    struct array array = {0};
    if (!grow(&g->budget, &array, g->nodes))
        return 0;
    uint8_t *flags = array.at;
    const uint32_t *edge = g->edge.at;
    for (uint64_t k = 0; k < g->edges; k++)
        flags[edge[k]] = 1;
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

/* ---- what it says */

/* While it is worked out; by node, or by the number that a node got as it was first reached. */
struct work {
    struct array number, vertex, parent, above, semi, label, cursor, dominator, edges_in, from, from_begin, retained, path, queue,
        children, first, chain, storage, weight;
};

static void drop_work(struct graph *g, struct work *w)
{
    for (struct array *one = &w->number; one <= &w->weight; one++)
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

/* A short way to each node by names that a person knows: what modules name, then what is in context variables, then what
 * the variables of functions do, those that began first before those they called; what lies farther off then has the shortest way from any. */
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
    for (uint32_t k = begin[THREADS + 1]; k-- > begin[THREADS];)
        if (path[edge[k]] == NONE) {
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
    struct budget budget = {0, 0};
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

static void choose(const uint64_t *retained, const uint32_t *links, uint64_t count, uint64_t least_bytes, uint64_t most, uint64_t *threshold)
{
    for (*threshold = least_bytes;; *threshold = *threshold * 5 / 4 + 1) {
        uint64_t chosen = 0;
        for (uint64_t i = 1; i < count; i++)
            chosen += retained[i] >= *threshold && links[i] < LONGEST_CHAIN;
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
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

/* For each row: what it dominates directly, by type; at most so many types a row. */
static int share_out(struct graph *g, struct work *w, const struct past *past, uint32_t most_types)
{
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *row_of = g->row_of.at, *types = g->type.at;
    const uint64_t *retained = w->retained.at, *own = g->own.at;
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
        uint64_t bytes = retained[i];
        while (is_graph && row_of[vertex[above]] == NONE) { /* its operations and what they saved are a part of what hangs there */
            bytes = types[vertex[above]] == TYPE_AUTOGRAD ? 0 : bytes;
            above = dominator[above];
        }
        uint32_t row = row_of[vertex[above]];
        if (row == NONE)
            continue;
        int is_new = node >= GROUPS && past && !was_there(past, fingerprint(g, node));
        double weight = weight_of(w, i);
        rows[row].children += is_graph ? 0 : (uint32_t)scaled(1, weight);
        rows[row].new_children += (uint32_t)(is_new && !is_graph);
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
            shares[count++] = (struct share){row, type, 0, 0, 0, 0};
        }
        struct share *share = &shares[slots[slot]];
        uint64_t counts = scaled(is_graph ? own[node] / OPERATION_BYTES : 1, weight);
        bytes = scaled(bytes, weight);
        share->count += counts;
        share->bytes += bytes;
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

/* Objects with several holders hang below what dominates these, which may be a whole module: who are they? */
static int find_sharers(struct graph *g, struct work *w, uint64_t least_bytes)
{
    const uint32_t *dominator = w->dominator.at, *vertex = w->vertex.at, *number = w->number.at, *types = g->type.at;
    const uint32_t *row_of = g->row_of.at, *begin = g->begin.at, *edge = g->edge.at;
    const uint64_t *retained = w->retained.at;
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
    for (uint32_t i = 0; i < g->reached && used < MOST_SHARERS / 2; i++) {
        uint32_t node = vertex[i];
        for (uint32_t k = begin[node]; node >= GROUPS && k < begin[node + 1]; k++) {
            uint32_t to = number[edge[k]];
            if (row_of[edge[k]] != NONE || owner[to] == owner[i] || vertex[dominator[to]] == node || last[edge[k]] == owner[i])
                continue;
            last[edge[k]] = owner[i];
            struct sharer *sharer = sharer_at(sharers, owner[i], owner[to], types[edge[k]]);
            used += !sharer->count;
            double weight = weight_of(w, to);
            *sharer = (struct sharer){owner[i], owner[to], types[edge[k]], sharer->count + scaled(1, weight),
                                      sharer->bytes + scaled(retained[to], weight)};
        }
    }
    for (uint32_t i = 0; i < MOST_SHARERS; i++)
        kept += sharers[i].bytes >= least_bytes;
    int is_done = grow_copied(&g->budget, &g->sharer, (kept + 1) * sizeof(struct sharer));
    g->sharers = g->sharer.at;
    for (uint32_t i = 0; is_done && i < MOST_SHARERS; i++)
        if (sharers[i].bytes >= least_bytes)
            g->sharers[g->sharer_count++] = sharers[i];
    drop(&g->budget, &table);
    return is_done;
}

/* What is no object of Python's: it is told at what holds it. */
static int is_of_torch(const uint32_t *types, uint32_t node)
{
    return node >= GROUPS && (types[node] == TYPE_STORAGE || types[node] == TYPE_AUTOGRAD);
}

static void mark_way(const struct graph *g, const struct work *w, uint32_t node)
{
    const uint32_t *path = w->path.at;
    const uint32_t *types = g->type.at;
    uint32_t *row_of = g->row_of.at, steps = 0;
    for (uint32_t at = node; steps < LONGEST_WAY && at != NONE && row_of[at] == NONE; at = path[at])
        steps++;
    for (uint32_t at = node; steps < LONGEST_WAY && at != NONE && row_of[at] == NONE; at = path[at])
        row_of[at] = is_of_torch(types, at) ? NONE : 0;
}

/* What only C refers to may be many and small: the largest of the types that retain most, and what it is made of. */
static void mark_outside(struct graph *g, struct work *w, uint32_t count, uint64_t least_bytes)
{
    enum { MOST_TYPES_OUTSIDE = 3, DEPTH = 4 };
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
        uint32_t at = of[most].largest;
        for (int depth = 0; at && depth < DEPTH; depth++) {
            mark_way(g, w, vertex[at]);
            uint32_t below = 0;
            for (uint32_t i = at + 1; i < count; i++)
                if (dominator[i] == at && (!below || retained[i] > retained[below]))
                    below = i;
            at = below;
        }
    }
    drop(&g->budget, &table);
}

/* Objects of types that are asked for: the nearest to a root, and of those that one object holds the first of a type. */
static void mark_wanted(struct graph *g, struct work *w, uint32_t queued)
{
    enum { MOST_WANTED = 150 };
    const uint32_t *queue = w->queue.at, *path = w->path.at, *types = g->type.at;
    const struct kind *kinds = g->kind.at;
    uint32_t *last = w->first.at, marked = 0; /* which has served: of each node the type of the last one marked below it */
    if (w->first.bytes < g->nodes * 4)
        return;
    memset(last, 0, g->nodes * 4);
    for (uint32_t i = 0; i < queued && marked < MOST_WANTED; i++) {
        uint32_t node = queue[i], type = node < GROUPS ? TYPE_NONE : types[node];
        if (type < FIRST_TYPE || !kinds[type].is_wanted || last[path[node]] == type)
            continue;
        last[path[node]] = type;
        mark_way(g, w, node);
        marked++;
    }
}

/* ---- what no name leads to, and what keeps memory from being given back */

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
    struct array *by_node[] = {&w->number, &w->vertex, &w->parent, &w->cursor, &w->edges_in};
    for (size_t i = 0; i < sizeof by_node / sizeof *by_node; i++)
        if (!grow(b, by_node[i], (n + 1) * 4))
            goto end;
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
        retained[i] = own[vertex[i]];
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
    if (!grow(b, &w->first, n * 4) || !grow(b, &w->chain, count * 4ul) || !grow(b, &w->storage, count * 8ul))
        goto end;
    uint64_t *storage = w->storage.at;
    for (uint32_t i = 0; i < count; i++)
        storage[i] = types[vertex[i]] == TYPE_STORAGE && vertex[i] >= GROUPS ? own[vertex[i]] : 0;
    for (uint32_t i = count; i-- > 1;)
        storage[dominator[i]] += scaled(storage[i], weight_of(w, i));
    g->storage_bytes = storage[0];
    uint32_t *chain = w->chain.at;
    memset(chain, 0, count * 4ul);
    count_links(w, types, count, links, w->first.at, chain);
    uint64_t threshold;
    choose(retained, links, count, least_bytes, most_rows, &threshold);
    uint32_t *row_of = g->row_of.at, *path = w->path.at, *queue = w->queue.at;
    memset(row_of, 0xff, n * 4);
    row_of[ROOT] = 0;
    for (uint32_t i = 1; i < count; i++)
        if ((retained[i] >= threshold && links[i] < LONGEST_CHAIN) || vertex[i] < GROUPS)
            mark_way(g, w, vertex[i]);
    struct mark *marks = g->mark.at;
    for (uint64_t i = 0; i < g->marked_rows; i++)
        if (marks[i].node != NONE)
            mark_way(g, w, marks[i].node);
    mark_wanted(g, w, queued);
    mark_outside(g, w, count, least_bytes);
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
        while (is_of_torch(types, before))
            before = path[before];
        row[rows++] = (struct row){
            .address = ((uint64_t *)g->address.at)[node], .own_bytes = own[node], .retained_bytes = retained[number[node]],
            .storage_bytes = storage[number[node]],
            .node = node, .path_row = row_of[before], .dominator_row = node, .type = node < GROUPS ? 0 : types[node],
            .references = references[node], .edges_in = edges_in[node], .is_old = is_old,
            .is_wanted = node >= GROUPS && types[node] >= FIRST_TYPE && kinds[types[node]].is_wanted,
            .length = chain[number[node]] >= LONGEST_CHAIN / 2 ? chain[number[node]] + 2ul : 0,
        };
        if (node >= GROUPS && types[node] == TYPE_FRAME) {
            row[rows - 1].owner = references[node];
            row[rows - 1].references = NONE;
        }
    }
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


/* ---- by what name */

static uint32_t row_at(const struct graph *g, uintptr_t address)
{
    const uint32_t *table = g->row_table.at;
    for (uint32_t slot = hash(address) & g->row_mask; table[slot] != NONE; slot = (slot + 1) & g->row_mask)
        if (g->rows[table[slot]].address == address)
            return table[slot];
    return NONE;
}

struct search { /* among what an object refers to, for rows whose way leads through it */
    struct graph *g;
    uint32_t row;
    /* Or for an attribute that has an object of this type now, where there was another: how many, and the first. */
    const type *successor;
    uint32_t found, label, label_kind;
};

static int is_below(const struct search *search, uint32_t row)
{
    return row != NONE && row != search->row && search->g->rows[row].path_row == search->row;
}

/* Whether an object that is alive is of the type that was at its address. Of that one nothing is known but what was
 * written down: it may be freed, and another one lie there that is read otherwise. */
static int is_same(const struct graph *g, const struct row *row, const object *one)
{
    if (row->type < FIRST_TYPE)
        return 0;
    const struct kind *kind = (struct kind *)g->kind.at + row->type;
    return count_of(one) && kind->type == one->type && kind->base == base_of(one->type) && kind->is_gc == is_collected(one->type);
}

static int visit_row(object *to, void *arg)
{
    struct search *search = arg;
    uint32_t found = to ? row_at(search->g, (uintptr_t)to) : NONE;
    if (is_below(search, found) && !search->g->rows[found].is_seen)
        search->g->rows[found].is_seen = (uint32_t)is_same(search->g, &search->g->rows[found], to);
    return 0;
}

static int was_below(const struct graph *g, uint32_t row, uintptr_t child)
{
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, node = g->rows[row].node;
    for (uint32_t k = begin[node]; k < begin[node + 1]; k++)
        if (((uintptr_t *)g->address.at)[edge[k]] == child)
            return 1;
    return 0;
}

static void label(struct search *search, uintptr_t child, int kind, const char *text, size_t length)
{
    if (search->successor) {
        if (child && ((object *)child)->type == search->successor && !was_below(search->g, search->row, child) &&
            search->found++ == 0) {
            search->label = put_text(search->g, text, length);
            search->label_kind = (uint32_t)kind;
        }
        return;
    }
    uint32_t found = child ? row_at(search->g, child) : NONE;
    if (!is_below(search, found) || !search->g->rows[found].is_seen)
        return;
    struct row *row = &search->g->rows[found];
    if (row->label_kind && row->label_kind <= (uint32_t)kind)
        return;
    row->label = put_text(search->g, text, length);
    row->label_kind = (uint32_t)kind;
}

static void label_number(struct search *search, uintptr_t child, int kind, int64_t number)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = (uint64_t)(number < 0 ? -number : number);
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    label(search, child, kind, at, (size_t)(digits + sizeof digits - at));
}

enum { MOST_MEMBERS = 300000, MOST_OF_ALL = 3000000 }; /* of all: some 30 ms */

static void label_text(struct search *search, uintptr_t child, int kind, const object *text)
{
    char characters_[LONGEST_LABEL];
    label(search, child, kind, characters_, characters(text, characters_, sizeof characters_));
}

static void label_items(struct search *search, object *dict)
{
    intptr_t at = 0;
    object *key, *value;
    while (L.dict_next(dict, &at, &key, &value)) {
        uint32_t found = row_at(search->g, (uintptr_t)value);
        if (search->successor) {
            if (is_text(key))
                label_text(search, (uintptr_t)value, KEY, key);
            continue;
        }
        if (is_below(search, found)) {
            if (is_text(key))
                label_text(search, (uintptr_t)value, KEY, key);
            else if (key->type == L.integer) {
                uint64_t size = (uint64_t)key->size;
                int is_small = L.version >= VERSION(3, 12) ? size >> 3 <= 1 : key->size >= -1 && key->size <= 1;
                int is_negative = L.version >= VERSION(3, 12) ? (size & 3) == 2 : key->size < 0;
                int64_t number = key->size && size >> (L.version >= VERSION(3, 12) ? 3 : 0) ? (uint32_t)half_at(key, 24) : 0;
                if (is_small)
                    label_number(search, (uintptr_t)value, OTHER_KEY, is_negative ? -number : number);
                else
                    label(search, (uintptr_t)value, OTHER_KEY, "int", 3);
            } else
                label(search, (uintptr_t)value, OTHER_KEY, "", 0);
        }
        label(search, (uintptr_t)key, MEMBER, "", 0);
    }
}

static void label_values(struct search *search, const object *one, const type *cls)
{
    struct values values = values_of(one, cls);
    for (uint64_t i = 0; i < values.count; i++)
        if (is_text(name_at(values, i)))
            label_text(search, word_at(values.first, 8 * i), ATTRIBUTE, name_at(values, i));
}

static void label_slots(struct search *search, const object *one, const type *cls)
{
    for (const type *above = cls; above; above = above->base) {
        if (!(above->flags & HEAP_TYPE) || !above->members)
            continue;
        for (const struct member *member = above->members; member->name; member++)
            if ((member->kind == 16 || member->kind == 6) && member->offset > 0 && member->offset + 8 <= cls->basic_size)
                label(search, word_at(one, (size_t)member->offset), ATTRIBUTE, member->name, strnlen(member->name, LONGEST_LABEL));
    }
}

static void label_locals(struct search *search, const char *frame)
{
    const object *names = names_of_locals(frame);
    for (intptr_t i = 0; names && i < names->size; i++) {
        const object *name = item_of(names, i);
        if (is_text(name))
            label_text(search, reference_at(frame, L.frame_slots + 8ul * i), LOCAL, name);
    }
}

/* Up to 3.10 a frame is an object with its locals at its end: variables, then cells, then what closures brought. */
static void label_locals_of_object(struct search *search, const object *frame)
{
    static const size_t OF_CODE[] = {72, 88, 80}; /* co_varnames, co_cellvars, co_freevars: checked by layout.py */
    const object *code = (object *)pointer_at(frame, L.frame_code);
    size_t slot = L.frame_slots;
    if (!L.thread_frame || !code || code->type != L.code)
        return;
    for (int i = 0; i < 3; i++) {
        const object *names = (object *)pointer_at(code, OF_CODE[i]);
        if (!names || names->type != L.tuple)
            return;
        for (intptr_t k = 0; k < names->size; k++, slot += 8) {
            const object *name = item_of(names, k);
            if (is_text(name))
                label_text(search, word_at(frame, slot), LOCAL, name);
        }
    }
}

static void label_members(struct search *search, uintptr_t items, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        label_number(search, word_at((void *)items, 8ul * i), INDEX, i);
}

/* The variables that a function brought from where it was made, or the defaults of its parameters, are in a tuple each. */
static int label_of_function(struct search *search, const object *tuple)
{
    const struct row *above = &search->g->rows[search->g->rows[search->row].path_row];
    const object *function = (object *)above->address;
    if (above->type < FIRST_TYPE || !above->is_seen || function->type != L.function || !L.function_code)
        return 0;
    const object *code = (object *)pointer_at(function, L.function_code);
    int is_closure = L.function_closure && pointer_at(function, L.function_closure) == (const char *)tuple;
    int is_defaults = L.function_defaults && L.code_arguments && pointer_at(function, L.function_defaults) == (const char *)tuple;
    if (!code || code->type != L.code || !(is_closure || is_defaults))
        return 0;
    int is_old = L.version < VERSION(3, 11);
    const object *names = (object *)pointer_at(code, !is_old ? L.code_names : is_closure ? 80 : 72);
    intptr_t end = names && names->type == L.tuple ? names->size : 0;
    if (is_defaults)
        end = half_at(code, L.code_arguments) < end ? half_at(code, L.code_arguments) : end;
    for (intptr_t i = 0; i < tuple->size && end >= tuple->size; i++) {
        const object *name = item_of(names, end - tuple->size + i);
        if (is_text(name))
            label_text(search, (uintptr_t)item_of(tuple, i), is_closure ? CELL : DEFAULT, name);
    }
    return 1;
}

enum { MOST_ATTRIBUTES = 200 };

/* An attribute may have got a new value since. What it had has its name, if no other got one of that type. */
static void label_replaced(struct graph *g, uint32_t number)
{
    const struct row *above = &g->rows[number];
    const object *one = (object *)above->address;
    const type *cls = one->type;
    int is_namespace = above->label_kind == NAMESPACE && cls == L.dict;
    if ((is_namespace && (!L.dict_next || above->length > MOST_ATTRIBUTES)) || (!is_namespace && !(cls->flags & HEAP_TYPE)))
        return;
    const uint32_t *below = g->below.at;
    for (uint32_t i = below ? below[number] : NONE; i != NONE; i = below[g->row_count + i]) {
        struct row *row = &g->rows[i];
        if (row->is_seen || row->label_kind || row->type < FIRST_TYPE)
            continue;
        struct search search = {.g = g, .row = number, .successor = ((struct kind *)g->kind.at + row->type)->type};
        if (is_namespace)
            label_items(&search, (object *)above->address);
        else {
            label_values(&search, one, cls);
            label_slots(&search, one, cls);
        }
        if (search.found == 1) {
            row->label = search.label;
            row->label_kind = search.label_kind;
        }
    }
}

/* Which rows below an object it still refers to, and how. */
static void look_below(struct graph *g, uint32_t number)
{
    struct row *row = &g->rows[number];
    struct search search = {.g = g, .row = number};
    object *one = (object *)row->address;
    const uint32_t *begin = g->begin.at;
    uint32_t members = begin[row->node + 1] - begin[row->node];
    if (row->type == TYPE_FRAME) {
        const char *frame = (const char *)one;
        const object *names = names_of_locals(frame);
        uint64_t others[] = {L.frame_function, L.frame_globals, L.frame_locals, L.frame_code};
        for (int i = 0; names && i < 4; i++)
            visit_row((object *)reference_at(frame, others[i]), &search);
        for (intptr_t i = 0; names && i < names->size; i++)
            visit_row((object *)reference_at(frame, L.frame_slots + 8ul * i), &search);
        label_locals(&search, frame);
        return;
    }
    if (row->type < FIRST_TYPE)
        return;
    const struct kind kind = ((struct kind *)g->kind.at)[row->type];
    const type *cls = one->type; /* the same: see is_same */
    if (kind.base == DICT || kind.base == ORDERED_DICT)
        row->length = word_at(one, 16) + 1;
    else if (kind.base == SET)
        row->length = word_at(one, 24) + 1;
    else if (kind.base == LIST || kind.base == TUPLE || kind.base == DEQUE)
        row->length = (uint64_t)one->size + 1;
    uint64_t most = g->members_left < MOST_MEMBERS ? g->members_left : MOST_MEMBERS;
    if (members > most || row->length > most)
        return; /* too long to look through while the job waits */
    g->members_left -= members > row->length ? members : row->length;
    if (kind.base == TENSOR) {
        uint32_t found = row_at(g, (uintptr_t)storage_of(one));
        if (is_below(&search, found))
            g->rows[found].is_seen = 1;
    } else
        visit_hidden(one, kind.base, visit_row, &search);
    if (kind.is_gc && (!cls->is_gc || cls->is_gc(one)))
        cls->traverse(one, visit_row, &search);
    switch (kind.base) {
    case DICT:
    case ORDERED_DICT:
        if (L.dict_next)
            label_items(&search, one);
        break;
    case LIST:
        if (word_at(one, 24)) /* NULL while it is being sorted */
            label_members(&search, word_at(one, 24), one->size);
        break;
    case TUPLE:
        if (label_of_function(&search, one))
            break;
        label_members(&search, (uintptr_t)items_of(one), one->size);
        break;
    case SET:
    case DEQUE:
        break;
    }
    if (cls == L.frame && L.version < VERSION(3, 11)) {
        label_locals_of_object(&search, one);
        row->owner = owner_of(g, (object *)pointer_at(one, L.frame_code));
    } else if (cls == L.frame && L.frame_slots && pointer_at(one, 24)) { /* of a call that is over, kept by an exception */
        label_locals(&search, pointer_at(one, 24));
        row->owner = owner_of(g, (object *)reference_at(pointer_at(one, 24), L.frame_code));
    }
    /* At its end its frame is cleared, and what it was of may be freed; before its beginning it may not be written. */
    if (kind.base == GENERATOR && L.generator_frame && *((const signed char *)one + L.generator_state) <= 0) {
        label_locals(&search, (const char *)one + L.generator_frame);
        row->owner = owner_of(g, (object *)reference_at((const char *)one + L.generator_frame, L.frame_code));
    }
    if (cls == L.function && L.function_code)
        row->owner = owner_of(g, (object *)pointer_at(one, L.function_code));
    if (cls == L.results && L.function_code) {
        const object *function = attribute_of(one, "__wrapped__");
        if (function && function->type == L.function)
            row->owner = owner_of(g, (object *)pointer_at(function, L.function_code));
    }
    uint64_t at_limit = cls == L.results ? L.results_limit : kind.base == DEQUE ? L.deque_limit : 0;
    if (at_limit && !(word_at(one, at_limit) >> 62)) /* -1: none */
        row->limit = word_at(one, at_limit) + 1;
    int is_class = cls == L.type_type || (kind.is_gc && cls->flags & 1ul << 31);
    if (is_class)
        row->owner = put_name(g, (type *)one);
    if (cls == L.module)
        label(&search, word_at(one, 16), NAMESPACE, "", 0);
    else if (is_class)
        label(&search, (uintptr_t)((type *)one)->dict, NAMESPACE, "", 0);
    else if (cls->dict_offset > 0)
        label(&search, word_at(one, (size_t)cls->dict_offset), NAMESPACE, "", 0);
    else if (L.version >= VERSION(3, 11) && cls->flags & MANAGED_DICT) {
        uint64_t word = word_at((const char *)one - 24, 0);
        if (!(word & 1))
            label(&search, word, NAMESPACE, "", 0);
        label_values(&search, one, cls);
    }
    if (cls->flags & HEAP_TYPE)
        label_slots(&search, one, cls);
    label_replaced(g, number);
}

/* Whether a frame is of the code that it was of: they lie on a stack, one where another did. */
static int is_same_frame(struct graph *g, const struct row *row, const char *frame)
{
    if (row->type != TYPE_FRAME || !row->owner || !names_of_locals(frame))
        return 0;
    uint32_t before = row->owner, now = owner_of(g, (object *)reference_at(frame, L.frame_code));
    const char *texts = g->text.at;
    return now && !strcmp(texts + now, texts + before);
}

/* Frames that run, and objects that only C refers to. */
static void is_alive(struct graph *g, uintptr_t address, uint32_t group, int is_frame)
{
    uint32_t found = row_at(g, address);
    if (found == NONE)
        return;
    struct row *row = &g->rows[found];
    if (row->node >= GROUPS && g->rows[row->path_row].node == group)
        row->is_seen = is_frame ? (uint32_t)is_same_frame(g, row, (const char *)address) : (uint32_t)is_same(g, row, (object *)address);
}

static void look_at_threads(struct graph *g, void *recorder)
{
    for (void *thread = L.first_thread(L.main_interpreter()); thread; thread = L.next_thread(thread)) {
        const char *at = L.thread_frame ? pointer_at(thread, L.thread_frame) : NULL;
        if (at && L.thread_indirect)
            at = pointer_at(at, L.thread_indirect - 1);
        for (int depth = 0; at && depth < 5000; depth++) {
            if (is_of_python(at))
                is_alive(g, (uintptr_t)at, thread == recorder || is_ours(at) ? RECORDER : THREADS, L.version >= VERSION(3, 11));
            at = pointer_at(at, L.version < VERSION(3, 11) ? L.frame_back : L.frame_before);
        }
    }
}

/* ---- what is in large containers: some of their rows, copied
 *
 * To hold one would be to free it, where the job lets go meanwhile: its finalizers would run on our thread. A copy is a
 * number of values, each behind a letter (sketch.py reads it). All numbers have eight bytes.
 *
 *   T address length bytes text         a string, and what it begins with
 *   B address length bytes begin end    bytes: begin to ``MOST_CHARACTERS``, and the last ``END``, or fewer
 *   I address length count number...    integers, of many the first ones
 *   L count value...                    members of a container
 *   D count (is a name of tokens, value)...
 *   X address                           a tensor, of which only torch can say what is in it
 *   N                                   anything else
 */

enum { LEAST_ROWS = 1000, MOST_CHARACTERS = 4000, END = 64, MOST_INTEGERS = 512, MOST_VALUES = 48, MOST_COLUMNS = 64, DEEPEST_ROW = 3,
       AT_ENDS = 4, ROW_BYTES = 64 << 10, COPIED_BYTES = 8 << 20 };
#define NO_INTEGER INT64_MIN

struct copy {
    struct graph *g;
    uint64_t row_begins;
    int is_short; /* of memory */
};

static void put_bytes(struct copy *to, const void *from, size_t bytes)
{
    struct graph *g = to->g;
    to->is_short |= !grow_copied(&g->budget, &g->copied, g->copied_bytes + bytes);
    if (to->is_short)
        return;
    memcpy((char *)g->copied.at + g->copied_bytes, from, bytes);
    g->copied_bytes += bytes;
}

static void put_number(struct copy *to, uint64_t number)
{
    put_bytes(to, &number, sizeof number);
}

static void put_head(struct copy *to, char letter, uint64_t address, uint64_t length, uint64_t count)
{
    put_bytes(to, &letter, 1);
    put_number(to, address);
    put_number(to, length);
    put_number(to, count);
}

/* To be said again with what it has become. */
static uint64_t put_count(struct copy *to, char letter)
{
    put_bytes(to, &letter, 1);
    put_number(to, 0);
    return to->g->copied_bytes - 8;
}

static void count_one(struct copy *to, uint64_t at)
{
    uint64_t count;
    if (to->is_short)
        return;
    memcpy(&count, (char *)to->g->copied.at + at, 8);
    count++;
    memcpy((char *)to->g->copied.at + at, &count, 8);
}

static int is_full(const struct copy *to)
{
    return to->is_short || to->g->copied_bytes - to->row_begins > ROW_BYTES;
}

static void copy_bytes(struct copy *to, const char *from, uint64_t address, uint64_t length)
{
    uint64_t begin = length < MOST_CHARACTERS ? length : MOST_CHARACTERS, end = length < END ? length : END;
    put_head(to, 'B', address, length, begin);
    put_bytes(to, from, begin);
    put_number(to, end);
    put_bytes(to, from + length - end, end);
}

static void copy_text(struct copy *to, const object *text)
{
    char written[MOST_CHARACTERS * 4];
    uint64_t length = word_at(text, 16);
    size_t bytes = first_characters(text, length < MOST_CHARACTERS ? length : MOST_CHARACTERS, written, sizeof written);
    put_head(to, 'T', (uintptr_t)text, length, bytes);
    put_bytes(to, written, bytes);
}

static int64_t number_of(const object *one) /* of a large one some digits, which tell it from others */
{
    if (!one || one->type != L.integer)
        return NO_INTEGER;
    uint64_t size = (uint64_t)one->size;
    int is_new = L.version >= VERSION(3, 12), is_negative = is_new ? (size & 3) == 2 : one->size < 0;
    uint64_t digits = is_new ? size >> 3 : is_negative ? -size : size;
    int64_t number = digits ? half_at(one, 24) : 0;
    number += digits > 1 ? (int64_t)half_at(one, 28) << 30 : 0;
    return is_negative ? -number : number;
}

/* Of an array: so many bytes each, behind each other at this distance. */
static void copy_numbers(struct copy *to, const char *from, uint64_t address, uint64_t length, int64_t stride, int bytes, int is_signed)
{
    uint64_t count = length < MOST_INTEGERS ? length : MOST_INTEGERS;
    put_head(to, 'I', address, length, count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = 0;
        memcpy(&number, from + (int64_t)i * stride, (size_t)bytes);
        if (is_signed && bytes < 8 && number >> (8 * bytes - 1))
            number |= UINT64_MAX << 8 * bytes;
        put_number(to, number);
    }
}

struct form { /* of an array of numpy's whose memory may be read */
    char *data;
    int64_t lengths[2], strides[2], item; /* item: bytes of a member; of a text that has others between them 0 */
    int dimensions, bytes, is_signed; /* bytes: of an integer; 0: it has others */
    char letter;
};

/* The memory that an array has of its own, as far as its lengths and strides tell: no more than there is. */
static int memory_of(const object *array, uintptr_t *begin, uint64_t *bytes)
{
    int count = half_at(array, 24), flags = half_at(array, 64);
    const char *lengths = pointer_at(array, 32), *strides = pointer_at(array, 40);
    *begin = (uintptr_t)pointer_at(array, 16);
    if (!(flags & OWNS) || !*begin || count < 1 || count > MOST_DIMENSIONS || !lengths || !strides)
        return 0;
    uint64_t last = 0, item = 0; /* the least distance, where there are no gaps */
    for (int i = 0; i < count; i++) {
        int64_t length = (int64_t)word_at(lengths, 8ul * i), stride = (int64_t)word_at(strides, 8ul * i);
        uint64_t further;
        if (length == 1)
            continue;
        if (length < 1 || stride < 1 || __builtin_mul_overflow((uint64_t)length - 1, (uint64_t)stride, &further) ||
            __builtin_add_overflow(last, further, &last))
            return 0;
        item = !item || (uint64_t)stride < item ? (uint64_t)stride : item;
    }
    *bytes = last + (item && flags & NO_GAPS ? item : 1);
    return *bytes > last;
}

/* Whether all that an array shows lies in memory of ``owner``, which may have given it back, or have put other things
 * there, without asking who shows it. */
static int is_within(const struct form *form, const object *owner)
{
    uintptr_t begin;
    uint64_t bytes;
    const char *kind = pointer_at(owner, 56);
    if (!memory_of(owner, &begin, &bytes) || (form->letter == 'O' && (!kind || half_at(kind, 28) != 17)))
        return 0;
    int64_t low = 0, high = form->item ? form->item : 1;
    for (int i = 0; i < form->dimensions; i++) {
        int64_t further;
        if (__builtin_mul_overflow(form->lengths[i] - 1, form->strides[i], &further) ||
            __builtin_add_overflow(further < 0 ? low : high, further, further < 0 ? &low : &high))
            return 0;
    }
    uint64_t before = (uintptr_t)form->data - begin; /* a large number, where it begins before */
    return before <= bytes && (uint64_t)-low <= before && (uint64_t)high <= bytes - before;
}

/* 0: it may not. Memory that is neither its own nor another array's may be a file's, which may have become shorter. */
static int form_of(const object *array, struct form *form)
{
    const object *base = (object *)pointer_at(array, 48), *owner = half_at(array, 64) & OWNS ? array : base;
    const char *kind = pointer_at(array, 56), *lengths = pointer_at(array, 32), *strides = pointer_at(array, 40);
    *form = (struct form){.data = (char *)pointer_at(array, 16), .dimensions = half_at(array, 24)};
    if (!owner || owner->type != array->type || !kind || !form->data || form->dimensions < 1 || form->dimensions > 2 || !lengths ||
        !strides)
        return 0;
    int64_t least = 0;
    for (int i = 0; i < form->dimensions; i++) {
        form->lengths[i] = (int64_t)word_at(lengths, 8ul * (size_t)i);
        form->strides[i] = (int64_t)word_at(strides, 8ul * (size_t)i);
        if (form->lengths[i] < 1)
            return 0;
        if (form->lengths[i] > 1 && (!least || form->strides[i] < least))
            least = form->strides[i];
    }
    int number = half_at(kind, 28); /* of numpy's own types: 1 to 10 are integers, signed and not in turn */
    static const char BYTES[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8};
    if (number >= 1 && number <= 10 && kind[26] != '>') {
        form->bytes = BYTES[number];
        form->is_signed = number & 1;
    }
    form->letter = number == 17 ? 'O' : number == 18 ? 'S' : number == 19 ? 'U' : 'N';
    form->item = form->bytes ? form->bytes : form->letter == 'O' ? 8 : half_at(array, 64) & NO_GAPS && least > 0 ? least : 0;
    return (form->bytes || number >= 17) && number <= 19 && kind[26] != '>' && is_within(form, owner);
}

static int copy_integers(struct copy *to, const object *one, uint8_t base)
{
    const type *cls = one->type;
    if (cls == L.list || cls == L.tuple) {
        const char *items = cls == L.list ? pointer_at(one, 24) : items_of(one);
        uint64_t length = items ? (uint64_t)one->size : 0, count = length < MOST_INTEGERS ? length : MOST_INTEGERS;
        if (length < 2 || number_of((object *)pointer_at(items, 0)) == NO_INTEGER ||
            number_of((object *)pointer_at(items, 8 * (length - 1))) == NO_INTEGER)
            return 0;
        put_head(to, 'I', (uintptr_t)one, length, count);
        for (uint64_t i = 0; i < count; i++)
            put_number(to, (uint64_t)number_of((object *)pointer_at(items, 8 * i)));
        return 1;
    }
    if (base == ARRAY) {
        const char *description = pointer_at(one, 40);
        const char *letter = description ? memchr("hHiIlLqQ", description[0], 8) : NULL;
        if (!letter || (one->size && !word_at(one, 24)))
            return 0;
        copy_numbers(to, pointer_at(one, 24), (uintptr_t)one, (uint64_t)one->size, half_at(description, 4), half_at(description, 4),
                     *letter >= 'a');
        return 1;
    }
    struct form form;
    if (base != NDARRAY || !form_of(one, &form) || !form.bytes || form.dimensions != 1)
        return 0;
    copy_numbers(to, form.data, (uintptr_t)one, (uint64_t)form.lengths[0], form.strides[0], form.bytes, form.is_signed);
    return 1;
}

static void copy_value(struct copy *to, const object *one, int depth);

static void copy_named(struct copy *to, uint64_t at, const object *key, const object *value, int depth)
{
    static const char *const OF_TOKENS[] = {"input_ids", "token_ids", "tokens", "ids"};
    uint8_t is_of_tokens = 0;
    for (int i = 0; i < 4; i++)
        is_of_tokens |= (uint8_t)(key && is_word(key, OF_TOKENS[i]));
    count_one(to, at);
    put_bytes(to, &is_of_tokens, 1);
    copy_value(to, value, depth);
}

static void copy_items(struct copy *to, const object *dict, int depth)
{
    uint64_t count_at = put_count(to, 'D');
    intptr_t at = 0;
    object *key, *value;
    for (int i = 0; i < MOST_VALUES && depth <= DEEPEST_ROW && !is_full(to) && L.dict_next((object *)dict, &at, &key, &value); i++)
        copy_named(to, count_at, key, value, depth + 1);
}

static void copy_attributes(struct copy *to, const object *one, int depth)
{
    const type *cls = one->type;
    struct values values = values_of(one, cls);
    const object *dict = dict_of(one, cls);
    if (!values.count && dict) {
        copy_items(to, dict, depth);
        return;
    }
    uint64_t count_at = put_count(to, 'D');
    for (uint64_t i = 0; i < values.count && i < MOST_VALUES && depth <= DEEPEST_ROW && !is_full(to); i++)
        if (word_at(values.first, 8 * i))
            copy_named(to, count_at, name_at(values, i), (object *)pointer_at(values.first, 8 * i), depth + 1);
}

static void copy_value(struct copy *to, const object *one, int depth)
{
    const type *cls = one ? one->type : NULL;
    if (!cls || is_full(to) || !count_of(one))
        put_bytes(to, "N", 1);
    else if (cls == L.text)
        copy_text(to, one);
    else if (cls == L.bytes)
        copy_bytes(to, (const char *)one + 32, (uintptr_t)one, (uint64_t)one->size);
    else if (depth > DEEPEST_ROW)
        put_bytes(to, "N", 1);
    else if (copy_integers(to, one, base_of(cls)))
        return;
    else if (cls->flags & IS_DICT)
        copy_items(to, one, depth);
    else if (cls->flags & (IS_LIST | IS_TUPLE)) {
        const char *items = cls->flags & IS_LIST ? pointer_at(one, 24) : items_of(one);
        uint64_t count_at = put_count(to, 'L');
        for (int64_t i = 0; items && i < one->size && i < MOST_VALUES && !is_full(to); i++) {
            count_one(to, count_at);
            copy_value(to, (object *)pointer_at(items, 8ul * (size_t)i), depth + 1);
        }
    } else if (base_of(cls) == TENSOR) { /* torch.nn.Parameter is a class of Python's */
        put_bytes(to, "X", 1);
        put_number(to, (uintptr_t)one);
    } else if (cls->deallocate == L.python_deallocate)
        copy_attributes(to, one, depth);
    else
        put_bytes(to, "N", 1);
}

static void begin_row(struct copy *to, uint64_t position, uint64_t address)
{
    put_number(to, position);
    put_number(to, address); /* 0: that of the longest value in it */
    to->row_begins = to->g->copied_bytes;
}

static void copy_row(struct copy *to, uint64_t position, const object *row)
{
    begin_row(to, position, 0);
    copy_value(to, row, 0);
}

static uint64_t position_of(int row, uint64_t length) /* the first, some between, the last */
{
    return row < AT_ENDS ? (uint64_t)row : row < 2 * AT_ENDS ? length * (uint64_t)(row - AT_ENDS + 1) / (AT_ENDS + 1)
                                                             : length - (uint64_t)(3 * AT_ENDS - row);
}

/* A cell of an array: an object, or text without the zeros that fill it up. */
static void copy_cell(struct copy *to, const struct form *form, const char *at)
{
    int64_t bytes = form->item;
    char written[MOST_CHARACTERS * 4];
    if (form->letter == 'O') {
        copy_value(to, (object *)pointer_at(at, 0), 0);
        return;
    }
    if (form->letter == 'S') {
        while (bytes && !at[bytes - 1])
            bytes--;
        copy_bytes(to, at, 0, (uint64_t)bytes);
        return;
    }
    int64_t length = bytes / 4;
    while (length && !half_at(at, 4 * (size_t)(length - 1)))
        length--;
    size_t size = wide_characters(at, (uint64_t)(length < MOST_CHARACTERS ? length : MOST_CHARACTERS), 4, written, sizeof written);
    put_head(to, 'T', 0, (uint64_t)length, size);
    put_bytes(to, written, size);
}

static uint64_t copy_rows_of_array(struct copy *to, const object *array)
{
    struct form form;
    if (!form_of(array, &form))
        return 0;
    int is_flat = form.dimensions == 1;
    if (is_flat)
        form.lengths[1] = 1;
    int64_t most = form.lengths[0] > form.lengths[1] ? form.lengths[0] : form.lengths[1];
    int is_table = form.bytes > 1 && !is_flat && form.lengths[0] == most; /* of integers: a line a row */
    if (most < LEAST_ROWS || (form.bytes && !is_table) || !form.item)
        return 0;
    put_number(to, (uint64_t)most);
    put_number(to, 3 * AT_ENDS);
    for (int i = 0; i < 3 * AT_ENDS; i++) {
        int64_t at = (int64_t)position_of(i, (uint64_t)most);
        const char *line = form.data + at * form.strides[0];
        begin_row(to, (uint64_t)at, form.letter == 'O' ? 0 : (uintptr_t)array + (is_table ? (uint64_t)at : 0));
        if (is_table) {
            copy_numbers(to, line, 0, (uint64_t)form.lengths[1], form.strides[1], form.bytes, form.is_signed);
            continue;
        }
        if (is_flat) {
            copy_cell(to, &form, line);
            continue;
        }
        int across = form.lengths[1] >= form.lengths[0]; /* a block of pandas: one column a line */
        uint64_t count_at = put_count(to, 'L');
        for (int64_t k = 0; k < form.lengths[!across] && k < MOST_COLUMNS && !is_full(to); k++) {
            int64_t where = across ? k * form.strides[0] + at * form.strides[1] : at * form.strides[0] + k * form.strides[1];
            count_one(to, count_at);
            copy_cell(to, &form, form.data + where);
        }
    }
    return (uint64_t)most;
}

struct ends { /* of what can only be gone through */
    const type *cls;
    uint64_t count;
    const object *first[AT_ENDS], *last[AT_ENDS];
};

static int visit_end(object *one, void *arg)
{
    struct ends *ends = arg;
    if ((const type *)one == ends->cls) /* since 3.9 some tell of their type */
        return 0;
    if (ends->count < AT_ENDS)
        ends->first[ends->count] = one;
    ends->last[ends->count++ % AT_ENDS] = one;
    return 0;
}

/* Whether something was copied: how many rows it has, how many follow, and each with its position and address. */
static int copy_rows(struct copy *to, const object *one, const struct kind *kind)
{
    const type *cls = one->type;
    if (kind->base == NDARRAY)
        return !(cls->flags & HEAP_TYPE) && is_called(cls, "numpy.ndarray", 80) && copy_rows_of_array(to, one);
    if (cls == L.list || cls == L.tuple) {
        const char *items = cls == L.list ? pointer_at(one, 24) : items_of(one);
        uint64_t length = items ? (uint64_t)one->size : 0;
        if (length < LEAST_ROWS)
            return 0;
        put_number(to, length);
        put_number(to, 3 * AT_ENDS);
        for (int i = 0; i < 3 * AT_ENDS; i++)
            copy_row(to, position_of(i, length), (object *)pointer_at(items, 8 * position_of(i, length)));
        return 1;
    }
    struct ends ends = {.cls = cls};
    if (cls == L.deque && one->size >= LEAST_ROWS)
        cls->traverse((object *)one, visit_end, &ends);
    else if (cls->flags & IS_DICT && cls->deallocate != L.python_deallocate && word_at(one, 16) >= LEAST_ROWS && L.dict_next) {
        intptr_t at = 0;
        object *key, *value;
        while (L.dict_next((object *)one, &at, &key, &value))
            visit_end(value, &ends);
    }
    if (ends.count < LEAST_ROWS)
        return 0;
    put_number(to, ends.count);
    put_number(to, 2 * AT_ENDS);
    for (uint64_t i = 0; i < AT_ENDS; i++)
        copy_row(to, i, ends.first[i]);
    for (uint64_t i = ends.count - AT_ENDS; i < ends.count; i++)
        copy_row(to, i, ends.last[i % AT_ENDS]);
    return 1;
}

/* Objects that retain a lot: of which rows, and where what was copied of each ends. */
struct largest {
    uint64_t least_bytes;
    const char *copied;
    uint64_t ends[64];
    uint32_t rows[64], count;
};

static void copy_largest(struct graph *g, struct largest *largest)
{
    for (uint32_t i = 0; i < g->row_count && largest->count < sizeof largest->rows / sizeof *largest->rows; i++) {
        const struct row *row = &g->rows[i];
        if (row->type < FIRST_TYPE || !row->is_seen || row->retained_bytes < largest->least_bytes || g->copied_bytes > COPIED_BYTES)
            continue;
        struct copy to = {.g = g};
        const object *one = (object *)row->address;
        const struct kind kind = ((struct kind *)g->kind.at)[row->type];
        uint64_t length = kind.base == DICT || kind.base == ORDERED_DICT ? word_at(one, 16) : kind.base == DEQUE ? (uint64_t)one->size : 0;
        if (length > g->members_left) /* too long to go through while the job waits */
            continue;
        g->members_left -= length;
        uint64_t before = g->copied_bytes;
        int is_copied = copy_rows(&to, one, &kind);
        if (to.is_short || !is_copied) {
            g->copied_bytes = before;
            continue;
        }
        largest->ends[largest->count] = g->copied_bytes;
        largest->rows[largest->count++] = i;
    }
    largest->copied = g->copied.at;
}

/* By what name each object of a cycle holds the next. Nothing leads to them: they are looked for in the collector's
 * lists, since what is not there any more may be freed. */
static void label_cycles(struct graph *g)
{
    enum { SLOTS = 256 };
    _Static_assert(CYCLES * LONGEST_CYCLE < SLOTS / 2, "there must be empty slots");
    uint32_t table[SLOTS], missing = g->link_count;
    memset(table, 0xff, sizeof table);
    for (uint32_t i = 0; i < g->link_count; i++) {
        uint32_t slot = hash(g->links[i].address) & (SLOTS - 1);
        while (table[slot] != NONE)
            slot = (slot + 1) & (SLOTS - 1);
        table[slot] = i;
    }
    for (int i = 3; i >= 0 && missing; i--) {
        uint64_t head = generation_at(i);
        for (uint64_t at = word_at((void *)head, 0) & ~TAGS; missing && at && at != head; at = word_at((void *)at, 0) & ~TAGS)
            for (uint32_t slot = hash(at + 16) & (SLOTS - 1); table[slot] != NONE; slot = (slot + 1) & (SLOTS - 1)) {
                struct link *link = &g->links[table[slot]];
                if (link->address == at + 16 && !link->is_alive) {
                    const struct row row = {.type = link->type};
                    link->is_alive = (uint32_t)is_same(g, &row, (object *)link->address);
                    missing--;
                }
            }
    }
    for (uint64_t i = 0; i < g->stray_count; i++)
        for (uint32_t k = 0; k < g->strays[i].links; k++) {
            struct link *first = &g->links[g->strays[i].first_link], *one = &first[k], *next = &first[(k + 1) % g->strays[i].links];
            if (!one->is_alive || !next->is_alive || one == next)
                continue;
            /* The same as for rows, of which there are two now. */
            struct row rows[] = {
                {.address = one->address, .node = one->node, .type = one->type, .is_seen = 1},
                {.address = next->address, .node = next->node, .type = next->type},
            };
            uint32_t slots[4] = {NONE, NONE, NONE, NONE};
            struct graph two = *g;
            two.rows = rows;
            two.row_count = 2;
            two.row_table = (struct array){slots, sizeof slots};
            two.below = (struct array){0};
            two.row_mask = 3;
            slots[hash(one->address) & 3] = 0;
            uint32_t slot = hash(next->address) & 3;
            slots[slots[slot] == NONE ? slot : (slot + 1) & 3] = 1;
            look_below(&two, 0);
            g->budget = two.budget;
            g->text = two.text;
            g->text_bytes = two.text_bytes;
            g->members_left = two.members_left;
            one->label = rows[1].label;
            one->label_kind = rows[1].label_kind;
        }
}

/* With the GIL: by what name each row is held. What cannot be reached any more may be freed, and is not looked at.
 * ``largest``: may be NULL. */
EXPORT int graph_label(struct graph *g, object *modules, void *recorder, struct largest *largest)
{
    if (g->process != getpid())
        return 0;
    uint64_t size = 256;
    while (size < g->row_count * 2)
        size *= 2;
    if (!grow(&g->budget, &g->row_table, size * 4))
        return 0;
    uint32_t *table = g->row_table.at;
    memset(table, 0xff, size * 4);
    g->row_mask = (uint32_t)size - 1;
    g->members_left = MOST_OF_ALL;
    /* For each row the first one whose way leads through it, and then the next. */
    if (!grow(&g->budget, &g->below, g->row_count * 8))
        return 0;
    uint32_t *below = g->below.at;
    memset(below, 0xff, g->row_count * 8);
    for (uint64_t i = g->row_count; i-- > 1;) {
        below[g->row_count + i] = below[g->rows[i].path_row];
        below[g->rows[i].path_row] = (uint32_t)i;
    }
    int only_c = 0; /* something is held by C alone: is it still there? */
    for (uint32_t i = 0; i < g->row_count; i++) {
        struct row *row = &g->rows[i];
        if (row->node < GROUPS) {
            row->is_seen = 1;
            continue;
        }
        only_c |= g->rows[row->path_row].node == FROM_C && row->retained_bytes > g->total_bytes / 20;
        uint32_t slot = hash(row->address) & g->row_mask;
        while (table[slot] != NONE)
            slot = (slot + 1) & g->row_mask;
        table[slot] = i;
    }
    is_alive(g, (uintptr_t)modules, MODULES, 0);
    look_at_threads(g, recorder);
    for (int i = 0; only_c && i < 4; i++) {
        uint64_t head = generation_at(i);
        for (uint64_t at = word_at((void *)head, 0) & ~TAGS; at && at != head; at = word_at((void *)at, 0) & ~TAGS)
            is_alive(g, at + 16, FROM_C, 0);
    }
    for (uint32_t i = 0; i < g->row_count; i++)
        if (g->rows[i].node >= GROUPS && g->rows[i].is_seen)
            look_below(g, i);
    label_cycles(g);
    g->texts = g->text.at;
    if (largest)
        copy_largest(g, largest);
    return 1;
}

/* ---- references that are no edges */

enum { CACHED_LOOKUPS = 4096 };

struct lookup { /* in Python's cache of attributes of types: ``name`` was looked up on the type of that version */
    uint64_t version, name, value;
};

struct known_lookup {
    struct lookup is;
    uint64_t place; /* its number in the cache */
};

static const struct lookup *lookups; /* NULL: not found */

/* With the GIL, once. An entry of the cache that is not in use has None for its name: a reference that goes as the entry is
 * used. ``known``: lookups that were made just now. ``begin``, ``end``: where the cache is to be found. */
EXPORT int graph_find_lookups(uint64_t begin, uint64_t end, const struct known_lookup *known, uint64_t count)
{
    enum { AT_ONCE = 512 };
    uint64_t words[AT_ONCE + 2];
    struct lookup found;
    lookups = NULL;
    for (uint64_t at = begin; at + sizeof words <= end; at += AT_ONCE * 8) {
        if (!copy_from(at, words, sizeof words))
            continue;
        for (int i = 0; i < AT_ONCE; i++) {
            const struct lookup *first = &known->is;
            if (words[i + 1] != first->name || words[i + 2] != first->value || (uint32_t)words[i] != first->version)
                continue;
            uint64_t array = at + 8ul * (uint64_t)i - known->place * sizeof found, matching = 0;
            for (uint64_t k = 0; array >= begin && k < count; k++)
                matching += copy_from(array + known[k].place * sizeof found, &found, sizeof found) &&
                            (uint32_t)found.version == known[k].is.version && found.name == known[k].is.name &&
                            found.value == known[k].is.value;
            if (matching * 4 >= count * 3) { /* one may have taken the place of another */
                lookups = (const struct lookup *)array;
                return 1;
            }
        }
    }
    return 0;
}

/* With the GIL. How many of its entries have this object for their name. */
EXPORT uint64_t graph_count_lookups(uint64_t name)
{
    uint64_t count = 0;
    for (int i = 0; lookups && i < CACHED_LOOKUPS; i++)
        count += lookups[i].name == name;
    return count;
}

/* Without the GIL, before graph_analyse. Of one object: how many references Python counted, and how many of these are
 * edges. 0: it is not in the graph. */
EXPORT int graph_count_references(const struct graph *g, uint64_t address, uint64_t counted[2])
{
    if (g->process != getpid()) /* a forked child has no table of it */
        return 0;
    uint32_t node = node_at(g, address);
    if (node == NONE)
        return 0;
    const uint32_t *edge = g->edge.at;
    counted[0] = ((uint32_t *)g->references.at)[node];
    counted[1] = 0;
    for (uint64_t k = ((uint32_t *)g->begin.at)[GROUPS]; k < g->edges; k++)
        counted[1] += edge[k] == node;
    return 1;
}

/* ---- all nodes, for a file
 *
 * Without the GIL, and slower than the memory that is left may be filled: what was written is pushed to the disk and out of
 * the page cache, which counts as the job's.
 */

enum { WRITTEN_AT_ONCE = 1 << 18, PUSHED_AT_ONCE = 8 << 20 };

struct sink {
    int fd, error;
    size_t used;
    uint64_t done, pushed;
    char *buffer;
};

static void push_out(struct sink *sink, const char *from, size_t bytes)
{
    while (bytes && !sink->error) {
        ssize_t done = write(sink->fd, from, bytes < WRITTEN_AT_ONCE ? bytes : WRITTEN_AT_ONCE);
        if (done < 0 && errno != EINTR)
            sink->error = errno;
        if (done <= 0)
            continue;
        from += done;
        bytes -= (size_t)done;
        sink->done += (uint64_t)done;
        if (sink->done - sink->pushed < PUSHED_AT_ONCE)
            continue;
        off_t end = lseek(sink->fd, 0, SEEK_END), begin = end - (off_t)(sink->done - sink->pushed);
        sync_file_range(sink->fd, begin, end - begin,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        posix_fadvise(sink->fd, begin, end - begin, POSIX_FADV_DONTNEED);
        sink->pushed = sink->done;
    }
}

static void put(struct sink *sink, const void *value, size_t bytes)
{
    if (sink->used + bytes > WRITTEN_AT_ONCE) {
        push_out(sink, sink->buffer, sink->used);
        sink->used = 0;
    }
    memcpy(sink->buffer + sink->used, value, bytes);
    sink->used += bytes;
}

/* Before graph_analyse. */
EXPORT void graph_is_for_file(struct graph *g)
{
    g->is_for_file = 1;
}

/* Whether what is written there stays in memory. */
EXPORT int graph_is_in_memory(int fd)
{
    struct statfs found;
    return fstatfs(fd, &found) == 0 && ((uint32_t)found.f_type == 0x01021994 || (uint32_t)found.f_type == 0x858458f6);
}

/* Of each node, column by column: address, own bytes, retained bytes (64 bits each), type, dominator, the node one step
 * nearer to a root, references, first edge (32 bits each; of one more node); then of each edge the node it leads to. Returns
 * 0, or what error ended it; ENODATA: it was not analysed, or memory did not suffice. */
EXPORT int graph_write(struct graph *g, int fd)
{
    if (g->process != getpid() || !g->path.at || !g->number.at)
        return ENODATA;
    struct array buffer = {0};
    if (!grow(&g->budget, &buffer, WRITTEN_AT_ONCE))
        return ENODATA;
    struct sink sink = {.fd = fd, .buffer = buffer.at};
    uint64_t n = g->nodes;
    const uint32_t *number = g->number.at, *vertex = g->vertex.at, *dominator = g->dominator.at, *types = g->type.at;
    const uint32_t *references = g->references.at, none = NONE, zero = 0;
    const uint64_t *retained = g->retained.at, *address = g->address.at, *own = g->own.at, nothing = 0;
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS ? &nothing : &address[i], 8);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS ? &nothing : &own[i], 8);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, &retained[number[i]], 8);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS ? &zero : &types[i], 4);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, &vertex[dominator[number[i]]], 4);
    push_out(&sink, sink.buffer, sink.used);
    sink.used = 0;
    push_out(&sink, g->path.at, n * 4);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS || types[i] < FIRST_TYPE ? &none : &references[i], 4);
    push_out(&sink, sink.buffer, sink.used);
    push_out(&sink, g->begin.at, (n + 1) * 4);
    push_out(&sink, g->edge.at, g->edges * 4);
    drop(&g->budget, &buffer);
    return sink.error;
}

/* Whether heap_graph.py was written for this: the bytes of its structures. */
EXPORT int graph_sizes_fit(const uint64_t sizes[15])
{
    const uint64_t own[] = {sizeof(struct layout), sizeof(struct row), sizeof(struct share), offsetof(struct graph, budget),
                            sizeof(struct sweep), sizeof(struct bounds), sizeof(struct kind), sizeof(struct largest),
                            sizeof(struct sharer), sizeof(struct stray), sizeof(struct link), sizeof(struct pin),
                            sizeof(struct further), sizeof(struct tie), sizeof(struct mark)};
    return !memcmp(sizes, own, sizeof own);
}

/* Before all that reads. 0: the collector's lists are no lists. */
EXPORT int graph_begin(const struct layout *layout)
{
    L = *layout;
    for (int i = 0; L.generations && i < 4; i++) {
        uint64_t at = generation_at(i), next = word_at((void *)at, 0) & ~TAGS;
        if (!next || (word_at((void *)next, 8) & ~TAGS) != at)
            return 0;
    }
    return L.generations != 0;
}
