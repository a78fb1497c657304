/* What the parts of the reader know of each other. */
#ifndef READER_H
#define READER_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"

/* Memory. */

struct array {
    void *at;
    size_t bytes;
};

struct budget {
    size_t left;
    int is_spent, is_kept; /* is_kept: of the room that is kept */
    size_t taken, most; /* now, and at most so far */
};

/* The graph: nodes by their addresses, edges by the numbers of nodes. */

enum { ROOT, MODULES, THREADS, RECORDER, FROM_C, UNREACHABLE, GROUPS }; /* the first nodes; no objects */

/* TYPE_AUTOGRAD: all that was calculated for a tensor; TYPE_ARROW: memory of columns, of Arrow's tables and polars;
 * TYPE_BLOCK: memory of malloc; TYPE_DEVICE: a storage on a GPU, whose own bytes are no memory of the process */
enum { TYPE_NONE, TYPE_STORAGE, TYPE_AUTOGRAD, TYPE_ARROW, TYPE_FRAME, TYPE_BLOCK, TYPE_DEVICE, FIRST_TYPE };

enum { OPERATION_BYTES = 520 }; /* of an autograd graph, with its edges and metadata: measured on a GPT-2 */

struct kind { /* of a type: how its objects are read */
    type *type;
    uint64_t listed, listed_bytes, unreached; /* of its objects: those that the collector lists, and that nothing leads to */
    uint64_t frozen; /* that nothing leads to either, and gc.freeze() hides */
    uint32_t text; /* where its name is among the texts */
    uint8_t base, is_gc;
    uint8_t is_made_in_c; /* C code may keep something in its objects: not in classes, whose dict has what they hold */
    uint8_t is_wanted; /* the agent wants to know where its objects are held, however little they retain */
    uint8_t may_hold; /* its objects may have native memory of their own, of which nobody tells */
    uint8_t is_wrapper; /* of pybind11's: its objects lead to one of C++ each */
    uint8_t is_array; /* its objects' own bytes are mostly values: of arrays, images, mappings but the recorder's */
};

enum { PLAIN, DICT, LIST, TUPLE, TEXT, BYTES, INTEGER, SET, BYTE_ARRAY, DEQUE, ORDERED_DICT, ARRAY, NDARRAY, TENSOR, BYTES_IO,
       STRING_IO, C_DATA, GENERATOR, MAPPING, CONTEXT, VARIABLE, IMAGE, BUFFERED, JAX_ARRAY, COLUMNS, BUFFER };

#define NO_LENGTH UINT64_MAX /* of what is no container, or has no limit */

struct row { /* a node that matters, as the agent gets it */
    uint64_t address, own_bytes, retained_bytes, length, limit; /* of a container: members, or links of a chain; most of them */
    uint64_t hits, misses; /* of a cache */
    uint64_t storage_bytes, native_bytes; /* of retained_bytes: memory of tensors; sampled memory of malloc */
    uint64_t error_bytes; /* of retained_bytes: one standard error, where members stand for others */
    uint64_t device_bytes; /* beside retained_bytes: of storages on devices */
    uint64_t unshown_bytes; /* of retained_bytes: memory of which only views are held, and that none of them shows */
    uint32_t node, path_row, dominator_row, type, references, edges_in, children, new_children;
    uint32_t label, label_kind, owner; /* among the texts; of what has code of its own: file, line, name; of a class: its name */
    uint32_t is_old, is_seen; /* there at the snapshot before; reached again for its label */
    uint32_t is_main, is_wanted; /* a frame of the main thread; one of several that it stands for */
    uint32_t numbers;  /* among the texts: its attributes that are whole numbers, as "most=500 hits=3" */
    uint32_t also_row; /* the nearest on another way to it; 0: none */
};

struct share { /* of what a node dominates: all objects of one type directly below it */
    uint32_t row, type;
    uint64_t count, bytes, new_count, new_bytes, device_bytes;
};

struct sharer { /* what a row refers to, and another dominates: of those objects it is one of several holders */
    uint32_t row, dominator_row, type;
    uint64_t count, direct_count, bytes, device_bytes; /* direct: the others by way of what they and it refer to */
};

struct tie { /* a reference that only C++ has; type: of what it leads to, where that is no object of Python's */
    uint64_t from, to, bytes;
    uint32_t type, count; /* count: operations of an autograd graph */
};

struct saved { /* a storage that an autograd graph keeps; device: its kind, 0 for the CPU, and behind that its number */
    uint64_t address, bytes, device;
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

/* A variable of a running function, or all of its module's (OF_GLOBALS): its frame may be gone, and another's lie there,
 * when names are asked for. */
struct local {
    uint64_t holds;
    uint32_t frame, name, kind; /* node; among the texts; of label */
};
#define OF_GLOBALS "globals" /* what functions call the variables of a module, which sys.modules may not have */

/* A node of which one reference in ``stride`` was followed, and that is one of ``nodes`` of which any was. */
struct sample {
    uint32_t node, nodes;
    uint64_t stride;
};

struct view { /* an array or tensor, the node whose memory it shows, and how much of that */
    uint32_t node, whole;
    uint64_t bytes;
};

/* An interned string, and of how many tables of keys it is one; a table of keys that several dicts share, once it is
 * counted. Later the node of the string. */
struct key {
    uint64_t address, count;
};

/* Nodes at one distance from the roots, in a graph that is sampled: those of the user's, or the others. */
struct level {
    uint64_t waiting, room, spent; /* still to be read; nodes that may come of them; that came */
    double each; /* nodes that come of one, as is guessed */
    uint64_t most; /* references of one that may be followed, since there is room for as many of each; 0: fewer */
};

struct graph {
    /* read by the agent */
    uint64_t nodes, edges, reached, total_bytes, unreachable_count, unreachable_bytes, from_c_count, from_c_bytes;
    uint64_t small_bytes, array_bytes, storage_bytes, row_count, share_count, text_bytes, type_count;
    uint64_t listed_count, frozen_count, stack_count, sharer_count;
    uint64_t native_bytes; /* of malloc, by samples, behind objects that lead to it */
    uint64_t is_sampled; /* there were too many objects to read them all */
    uint64_t key_references; /* of tables of keys to strings, which are no edges */
    uint64_t device_bytes, device_count; /* of storages on devices: beside total_bytes; how many nodes are one */
    uint64_t beyond_malloc_bytes, pool_rss_bytes; /* of array_bytes: what malloc did not hand out; resident of what columns lie in */
    uint64_t main_begin, main_end; /* edges to the frames of the main thread */
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
    struct saved *saved_storages; /* by autograd graphs */
    uint64_t saved_count;
    uint64_t most_bytes; /* that it took so far, in all its arrays */
    /* our own */
    struct budget budget;
    struct array address, own, type, references, begin, edge, table, kind_table, row_of, row_table, key;
    struct array local, variable, pool, arena, loose, below, sample, view, saved, variance; /* variance: a doubt for each block */
    struct array dominator, retained, path; /* of graph_analyse, where all nodes are to be written */
    struct array kind, text, row, share, stack, sharer, stray, link, copied, mark, pin; /* a forked child has them too */
    uint64_t copied_bytes;
    double malloced_columns; /* of the memory of columns that part that malloc handed out */
    uint32_t frozen_begin, frozen_end; /* nodes that gc.freeze() hides */
    uint32_t link_count;
    pid_t process; /* whose heap it is: the child of a fork has the names of it, and nothing behind them */
    uint32_t table_mask, kind_mask, row_mask, key_mask, key_count;
    uint32_t waiting, local_count, variable_count, sample_count, view_count;
    uint32_t block_count; /* nodes that are native memory */
    uint32_t columns; /* of polars and Arrow, that were looked at */
    uint64_t node_limit; /* of a graph that is sampled; 0: none */
    const uint64_t *users, *known; /* there, as in bounds */
    uint64_t user_count, known_count;
    uint32_t of_user, users_waiting, reading; /* OF_USER while a node is read that they lead to; how many of these are still to be read; which node is */
    struct level level[2]; /* of others, of the user's */
    uint64_t level_edges; /* that there were when it began */
    uint32_t level_end, counted, counted_for; /* nodes; so many are counted as spent; what is read since is of this level */
    int is_for_file; /* all nodes are to be written */
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

/* In a graph that is sampled: what the user's modules and running functions lead to, by no module of a library. In the type
 * of a node that has not been read, and among what waits. */
enum { OF_USER = 1u << 31, WAITS_FOR_USER = 0x80 };

/* Types. */

enum { ARROW_TABLE, ARROW_BATCH, ARROW_CHUNKS, ARROW_ARRAY, ARROW_BUFFER, ARROW_CAPSULE, NO_ARROW };
INTERNAL int jax_is_on_host;

enum { LONGEST_NAME = 256, LONGEST_LABEL = 120 };

/* Sizes. */

struct keys { /* of a dict; left: since 3.11, how many more it may get */
    uint64_t slots, index_bytes, usable, left, entries, entry_bytes;
    const char *first;
    int is_text;
};

enum { MOST_DIMENSIONS = 64, OF_ONE_MEMBER = 1 << 16, NO_GAPS = 3, OWNS = 4 }; /* NO_GAPS, OWNS: among an array's flags */

enum { MOST_BITS = 46 }; /* of a size: more memory no process has */

struct values { /* of an object, as above */
    const char *names, *first;
    uint64_t count;
};

/* Objects. */

struct context { /* while a node of its table is read: the value that was visited last */
    struct graph *g;
    object *value;
};

/* Python's allocator of small objects. */

/* NONE where there is none. */
struct loose {
    uint64_t count, bytes;
};

struct arena_of_python {
    uint64_t address, next_pool;
    uint32_t free_pools, all_pools;
    uint64_t unused[3];
};

/* Edges that are found once all nodes are known. */

struct pair {
    uint32_t from, to;
};

/* Native memory. */

struct block { /* as sampler.c tells of it, by rising addresses */
    uint64_t address, bytes;
    double stands_for, variance; /* bytes in memory */
};

struct range { /* of memory that is no file's, by rising addresses */
    uint64_t begin, end;
};

struct doubt { /* of a node that is native memory: the variance of its estimate */
    uint32_t node;
    double variance;
};

struct known_blocks {
    const struct block *at;
    const struct range *ranges;
    uint64_t count, range_count, least_ns; /* least_ns: that may be taken in any case */
};

/* A graph that is read. */

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

/* What autograd keeps. */

struct history_places { /* offsets: of what a tensor knows of autograd, in its memory behind Python; in that, of its node; in a
                           node, of its edges (where they begin and end) and its number. edge_bytes: of one, a node first */
    uint64_t meta, function, edges, sequence, edge_bytes;
};

struct history { /* of one tensor. Given: its address, and the one that stands for its graph's; found: the others */
    uint64_t tensor, token;
    uint64_t node, number; /* by which it was made; 0: torch says so only when it is asked */
    uint64_t operations, saved_bytes, seen_bytes; /* NONE operations: there was no time for it; bytes: guessed; of those seen */
};

struct known_node { /* that torch was asked about: how many edges it has, and where in a list their nodes are */
    uint64_t node, sequence, first, count;
};

struct known_tensor {
    uint64_t tensor, node;
};

/* What is worked out. */

enum { EACH_MEASURE = 8, MOST_STRAYS = 5 * EACH_MEASURE, CYCLES = 10, TRIES = 3, LEAST_GARBAGE = 16, LONGEST_CYCLE = 10, CYCLE_NODES = 4096 };

/* While it is worked out, by node: at first they get numbers as they are reached, and then stand in that order. */
struct work {
    struct array number, vertex, parent, climbs, cursor, dominator, edges_in, from, from_begin, retained, path, queue,
        children, first, chain, parts, certain, device, weight, spread;
    uint32_t first_of[GROUPS]; /* of each group the first that is reached from it; the others follow */
};

enum { MOST_REFERENCES = 1 << 29 }; /* what is built into Python 3.11 begins with 999,999,999 */

/* What is seen of the members of a node that stand for others; ``variance``: of what it retains, bytes squared. */
struct spread {
    float count, weights, bytes, squares, nodes, variance;
};

enum { LONGEST_CHAIN = 32, LONGEST_WAY = 256 };

/* Names. */

enum { MOST_ATTRIBUTES = 200, MOST_NUMBERS = 400 }; /* the latter: characters. A limit is among the first that are set */

enum { MOST_MEMBERS = 300000, MOST_OF_ALL = 3000000 }; /* of all: some 30 ms */

/* Copies of large containers. */

/* Objects that retain a lot: of which rows, and where what was copied of each ends. */
struct largest {
    uint64_t least_bytes;
    const char *copied;
    uint64_t ends[64];
    uint32_t rows[64], count;
};

enum { TEXTS_LOOKED_AT = 512, MOST_FIELDS = 8 };

struct text_field { /* of members of a container */
    const object *name; /* a text, or NULL */
    uint64_t id, bytes;
    uint32_t count, content[TEXTS_LOOKED_AT], address[TEXTS_LOOKED_AT];
};

struct text_fields {
    uint32_t count;
    struct text_field at[MOST_FIELDS];
};

/* References that are no edges. */

struct lookup { /* in Python's cache of attributes of types: ``name`` was looked up on the type of that version */
    uint64_t version, name, value;
};

struct known_lookup {
    struct lookup is;
    uint64_t place; /* its number in the cache */
};

/* What each part does for the others: said where it is defined. */

/* memory.c */
INTERNAL uint64_t keep_room(uint64_t bytes);
INTERNAL int grow(struct budget *budget, struct array *array, size_t bytes);
INTERNAL int grow_copied(struct budget *budget, struct array *array, size_t bytes);
INTERNAL void drop(struct budget *budget, struct array *array);
INTERNAL void cut(struct array *from, struct array *to, size_t bytes);
INTERNAL void shrink(struct budget *budget, struct array *array, size_t bytes);
INTERNAL void touch(struct array *array);
INTERNAL void move(struct budget *budget, struct array *to, struct array *from);

/* nodes.c */
INTERNAL uint64_t table_slots(uint64_t for_nodes);
INTERNAL int begin_table(struct graph *g, uint64_t for_nodes);
INTERNAL int more_nodes(struct graph *g, uint64_t count);
INTERNAL uint32_t node_of(struct graph *g, uintptr_t address, uint32_t special);
INTERNAL int settle(struct graph *g);
INTERNAL int refer(struct graph *g, uintptr_t address, uint32_t special);
INTERNAL int visit_edge(object *to, void *graph);
INTERNAL void free_graph(struct graph *g);

/* types.c */
INTERNAL uint32_t put_text(struct graph *g, const char *from, size_t length);
INTERNAL int is_called(const type *cls, const char *wanted, intptr_t least_bytes);
INTERNAL int arrow_type_of(const type *cls);
INTERNAL uint8_t base_of(const type *cls);
INTERNAL uint32_t put_name(struct graph *g, const type *cls);
INTERNAL int is_collected(const type *cls);
INTERNAL const type *made_in_c(const type *cls);
INTERNAL void know_harmless(const char *names, uint64_t bytes);
INTERNAL uint32_t type_of(struct graph *g, type *cls);

/* sizes.c */
INTERNAL const char *items_of(const object *tuple);
INTERNAL const object *item_of(const object *tuple, intptr_t number);
INTERNAL uint64_t count_of(const object *one);
INTERNAL struct keys keys_at(const char *at);
INTERNAL int copy_from(uint64_t address, void *to, size_t bytes);
INTERNAL uint64_t members_of_array(const object *array);
INTERNAL uint64_t length_of(const object *one, uint8_t base);
INTERNAL uint64_t own_bytes(const object *one, const struct kind *kind);
INTERNAL struct values values_of(const object *one, const type *cls);
INTERNAL const object *name_at(struct values values, uint64_t i);

/* columns.c */
INTERNAL int read_columns(struct graph *g, const object *one);
INTERNAL void weigh_columns(struct graph *g);

/* objects.c */
INTERNAL uint64_t generation_at(int number);
INTERNAL uint64_t list_objects(struct budget *budget, struct array *listed, uint64_t most, uint64_t *first_frozen);
INTERNAL int put_objects(struct graph *g, const uintptr_t *listed, uint64_t count);
INTERNAL const object *names_of_locals(const char *frame);
INTERNAL void know_own_folder(const char *folder);
INTERNAL int is_ours(const char *frame);
INTERNAL int list_frames(struct graph *g, void *thread, int is_recorder, int own);
INTERNAL const object *stopped_frame(const object **trace);
INTERNAL int list_stopped(struct graph *g);
INTERNAL uint32_t owner_of(struct graph *g, const object *code);
INTERNAL const char *storage_of(const object *tensor);
INTERNAL int note_view(struct graph *g, uint32_t node, uint32_t whole, uint64_t bytes);
INTERNAL void find_views(struct graph *g);
INTERNAL void add_unshown(struct graph *g, const struct work *w, uint64_t *bytes);
INTERNAL void carry_up(const struct graph *g, const struct work *w, uint64_t *bytes);
INTERNAL int visit_hidden(const object *one, uint8_t base, visit_function visit, void *arg);
INTERNAL int count_name(struct graph *g, const object *name);
INTERNAL int is_among(const uint64_t *addresses, uint64_t count, uint64_t address);
INTERNAL int held_much(const struct graph *g, uintptr_t one);
INTERNAL void begin_level(struct graph *g, uint32_t first);
INTERNAL int is_namespace(const object *one);
INTERNAL int read_node(struct graph *g, uint32_t node);
INTERNAL void weigh_storages(struct graph *g);
INTERNAL uint32_t node_at(const struct graph *g, uintptr_t address);

/* pools.c */
INTERNAL uint64_t pool_size(void);
INTERNAL int find_arenas(uint64_t begin, uint64_t end, const uint64_t *known, uint64_t count);
INTERNAL void read_pools(struct graph *g);

/* edges.c */
INTERNAL int insert_all(struct graph *g, struct pair *pairs, uint64_t count);
INTERNAL int visit_context(object *to, void *arg);
INTERNAL int tie_variables(struct graph *g);

/* blocks.c */
INTERNAL void know_blocks(const struct known_blocks *blocks);
INTERNAL uint64_t cpu_ns(void);
INTERNAL int is_in_file(uint64_t address);
INTERNAL double sampled_at(uint64_t address);
INTERNAL void note_pool(uint64_t address);
INTERNAL void look_at_pools(const struct graph *g);
INTERNAL uint64_t pools_in_memory(void);
INTERNAL int find_blocks(struct graph *g, uint64_t began_ns);

/* threads.c */
INTERNAL int is_word(const object *text, const char *word);
INTERNAL const object *dict_of(const object *one, const type *cls);
INTERNAL const object *attribute_of(const object *one, const char *word);
INTERNAL int put_frames(struct graph *g, void *thread);
INTERNAL uint64_t tell_running(char *to, uint64_t room);

/* take.c */
INTERNAL void drop_room(struct room *room);
INTERNAL int make_room(struct room *room, uint64_t bytes, uint64_t objects, uint64_t nodes, uint64_t edges);
INTERNAL struct graph *take_graph(object *modules, void *recorder, void *main, struct bounds *bounds, struct sweep *sweep);
INTERNAL uint32_t node_of_tie(struct graph *g, const struct tie *tie);
INTERNAL const uint8_t *referred(struct graph *g, struct array *array);
INTERNAL int tell_referred(struct graph *g, const uint64_t *addresses, uint64_t count, uint8_t *is_referred);
INTERNAL int add_further(struct graph *g, const struct further *further);

/* history.c */
INTERNAL int find_histories(struct history_places *found, const struct known_node *nodes, uint64_t count, const uint64_t *next,
    const struct known_tensor *tensors, uint64_t tensor_count);
INTERNAL int read_histories(struct graph *g, const struct history_places *places, struct history *histories, uint64_t count,
    const uint64_t *owned, uint64_t owned_count, uint64_t most_ns);

/* dominators.c */
INTERNAL void drop_work(struct graph *g, struct work *w);
INTERNAL void keep_work(struct graph *g, struct work *w);
INTERNAL int by_number(const void *one, const void *other);
INTERNAL int begin_work(struct graph *g, struct work *w);
INTERNAL void number_nodes(struct graph *g, struct work *w);
INTERNAL int arrange(struct graph *g, struct work *w);
INTERNAL int find_dominators(struct graph *g, struct work *w);

/* weighing.c */
INTERNAL double weight_of(const struct work *w, uint32_t number);
INTERNAL uint64_t scaled(uint64_t bytes, double weight);
INTERNAL uint64_t add_up(const struct graph *g, const struct work *w, uint32_t type, uint64_t *bytes);
INTERNAL int weigh_arrays(struct graph *g, struct work *w);
INTERNAL int retain(struct graph *g, struct work *w);
INTERNAL int find_certain(struct graph *g, struct work *w);

/* paths.c */
INTERNAL uint32_t find_paths(const struct graph *g, const struct past *past, struct work *w);
INTERNAL uint64_t fingerprint(const struct graph *g, uint32_t node);
INTERNAL int was_there(const struct past *past, uint64_t print);
INTERNAL void free_past(struct past *past);
INTERNAL struct past *make_past(struct graph *g);

/* rows.c */
INTERNAL int analyse(struct graph *g, const struct past *past, uint64_t least_bytes, uint64_t most_rows, uint32_t most_types);

/* sharing.c */
INTERNAL int share_out(struct graph *g, struct work *w, const struct past *past, uint32_t most_types);
INTERNAL int find_sharers(struct graph *g, struct work *w, uint64_t least_bytes);

/* strays.c */
INTERNAL int tell_strays(struct graph *g, struct work *w);
INTERNAL int tell_pins(struct graph *g, struct work *w);

/* labels.c */
INTERNAL int is_same(const struct graph *g, const struct row *row, const object *one);
INTERNAL void look_below(struct graph *g, uint32_t number);
INTERNAL int label_rows(struct graph *g, object *modules, void *recorder, struct largest *largest);

/* equal.c */
INTERNAL void note_text(struct text_fields *all, uint64_t id, const object *name, const object *text);
INTERNAL void note_texts_of(struct text_fields *all, const object *member);
INTERNAL void count_texts(const struct text_field *field, uint64_t *own, uint64_t *alone);

/* copies.c */
INTERNAL void copy_largest(struct graph *g, struct largest *largest);
INTERNAL void label_cycles(struct graph *g);

/* references.c */
INTERNAL int find_lookups(uint64_t begin, uint64_t end, const struct known_lookup *known, uint64_t count);
INTERNAL uint64_t count_lookups(struct graph *g, uint64_t none);
INTERNAL int count_references(const struct graph *g, uint64_t address, uint64_t counted[2]);

/* file.c */
INTERNAL int is_in_memory(int fd);
INTERNAL int write_graph(struct graph *g, int fd);

#endif
