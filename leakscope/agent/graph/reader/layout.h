/* What is known of CPython: its structures, and where the rest lies, as layout.py has found it. */
#ifndef LAYOUT_H
#define LAYOUT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>

/* A library is one piece of code: reader.c and sampler.c include their parts, whose functions are then all known to the
 * compiler, as it needs to put small ones into large ones. A part alone compiles, too (tests/agent/test_c.py). */
#ifdef ONE_UNIT
#define INTERNAL static
#else
#define INTERNAL
#endif

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
        *bytes_io, *string_io, *buffered_reader, *buffered_writer, *buffered_random, *generator, *coroutine, *async_generator, *module, *code, *frame, *function, *traceback;
    next_of_dict dict_next;
    int (*list_append)(object *, object *);
    void *(*main_interpreter)(void);
    void *(*first_thread)(void *);
    void *(*next_thread)(void *);
    void *(*this_thread)(void);
    int (*line_of_frame)(object *);
    int (*line_of_code)(object *, int);
    object *(*system_object)(const char *);
    uint64_t generations; /* of the collector: the list of the youngest objects */
    uint64_t frozen; /* how far behind it: that of objects which gc.freeze() hides */
    uint64_t text_bytes, wide_text_bytes; /* before the characters of a string */
    uint64_t tuple_items; /* in a tuple: its first member */
    uint64_t thread_frame; /* in a thread's state: the frame that runs */
    uint64_t thread_indirect; /* it is behind one pointer, at this offset + 1 */
    uint64_t frame_slots, frame_code, frame_before, frame_locals, frame_function, frame_globals, frame_owner;
    uint64_t frame_at, code_begin; /* since 3.11: which instruction runs, and where they begin */
    uint64_t code_names, code_file, code_name, code_line; /* code_names: of locals */
    uint64_t function_code, function_globals, function_defaults, function_closure;
    uint64_t code_arguments; /* how many may come by position */
    type *results; /* of functools.lru_cache */
    uint64_t results_limit, results_dict, deque_limit; /* where each says how many members it may have, and has results */
    uint64_t results_hits, results_misses; /* how often a result was there, and was not */
    uint64_t frame_back; /* in a frame object, up to 3.10 */
    uint64_t generator_frame, generator_state; /* in a generator or coroutine, since 3.11 */
    uint64_t heap_type_name, heap_type_keys; /* of a class: a string; names of attributes that instances share */
    uint64_t stream_text; /* in a StringIO that is only written to: its text so far, a list of parts of it, or who has it */
    uint64_t buffer_bytes; /* in a buffered file: how large its buffer is */
    void *python_deallocate; /* what frees the objects of classes that Python code made */
    uint64_t tensor_base, tensor_storage, storage_bytes, storage_device; /* torch: from object to its memory */
    uint64_t tensor_count; /* of its members; right behind it is the number of their type; 0: not known */
    int *is_collecting; /* whether a collection goes on, in any thread */
    uint64_t any_lookup; /* up to 3.10: what looks up keys of all types, in the keys of a dict */
};

INTERNAL struct layout L;

enum { HAS_GC = 1 << 14, HEAP_TYPE = 1 << 9, MANAGED_DICT = 1 << 4, MANAGED_WEAKREF = 1 << 3, INLINE_VALUES = 1 << 2 };
enum { IS_INTEGER = 1 << 24, IS_LIST = 1 << 25, IS_TUPLE = 1 << 26, IS_BYTES = 1 << 27, IS_TEXT = 1 << 28, IS_DICT = 1 << 29 };
#define IS_TYPE (1ul << 31)

#define VERSION(major, minor) ((major) << 8 | (minor))
#define NONE UINT32_MAX
#define TAGS ((uint64_t)3) /* of the collector's own, in the links between objects */

#endif
