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
 *   graph_running   with the GIL: the functions that other threads run, and their lines
 *
 * While the GIL is held nothing of the job's is called but tp_traverse and tp_is_gc, as by each collection, and functions
 * of Arrow's for the bytes of a table. No reference count of what is read is changed, none of it is kept. Memory is asked of the kernel, never of malloc,
 * and only as much as the caller allows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
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
    int *is_collecting; /* whether a collection goes on, in any thread */
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

/* One library is one piece of code: its parts, each of which uses those before it. */
#include "reader/memory.h"
#include "reader/nodes.h"
#include "reader/types.h"
#include "reader/sizes.h"
#include "reader/text.h"
#include "reader/objects.h"
#include "reader/pools.h"
#include "reader/edges.h"
#include "reader/threads.h"
#include "reader/take.h"
#include "reader/analysis.h"
#include "reader/strays.h"
#include "reader/labels.h"
#include "reader/copies.h"
#include "reader/references.h"
#include "reader/file.h"

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
