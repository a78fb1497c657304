/* Types: how their objects are read. */
#include "reader.h"

static const char *const arrow_types[NO_ARROW] = {"pyarrow.lib.Table", "pyarrow.lib.RecordBatch", "pyarrow.lib.ChunkedArray",
                                                 "pyarrow.lib.Array", "pyarrow.lib.Buffer", "PyCapsule"};

INTERNAL uint32_t put_text(struct graph *g, const char *from, size_t length)
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
    if (cls->dict && L.dict_next && cls->dict->type->flags & IS_DICT) { /* that of a type of ctypes is of a class of its own */
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

INTERNAL int is_called(const type *cls, const char *wanted, intptr_t least_bytes)
{
    char name[LONGEST_NAME];
    return cls->basic_size >= least_bytes && name_of(cls, name) == strlen(wanted) && !memcmp(name, wanted, strlen(wanted));
}

/* Which of Arrow's types it is, or what it is derived from. */
INTERNAL int arrow_type_of(const type *cls)
{
    for (; cls; cls = cls->base)
        for (int i = 0; cls->deallocate != L.python_deallocate && i < NO_ARROW; i++)
            if (is_called(cls, arrow_types[i], 48))
                return i;
    return NO_ARROW;
}

/* Of Python itself, and torch. */
static uint8_t base_by_type(const type *cls)
{
    const struct {
        const type *type;
        uint8_t base;
    } known[] = {{L.set, SET}, {L.frozen_set, SET}, {L.byte_array, BYTE_ARRAY}, {L.deque, DEQUE}, {L.ordered_dict, ORDERED_DICT},
                 {L.bytes_io, BYTES_IO}, {L.string_io, STRING_IO}, {L.buffered_reader, BUFFERED}, {L.buffered_writer, BUFFERED},
                 {L.buffered_random, BUFFERED}, {L.generator, GENERATOR}, {L.coroutine, GENERATOR}, {L.async_generator, GENERATOR}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (cls == known[i].type)
            return known[i].base;
    return L.tensor_storage && (uintptr_t)cls == L.tensor_base ? TENSOR : PLAIN;
}

/* Others may call theirs as they like: names count only of what C code made, and only where nothing better tells. */
static uint8_t base_by_name(const type *cls)
{
    static const struct {
        const char *name;
        intptr_t bytes;
        uint8_t base;
    } known[] = {{"_ctypes._CData", 72, C_DATA}, {"mmap.mmap", 72, MAPPING}, {"hamt_bitmap_node", 32, CONTEXT},
                 {"_contextvars.ContextVar", 16, VARIABLE}, {"ContextVar", 16, VARIABLE}, {"ImagingCore", 24, IMAGE},
                 {"jaxlib._jax.ArrayImpl", 160, JAX_ARRAY}, {"jaxlib.xla_extension.ArrayImpl", 160, JAX_ARRAY},
                 {"PyDataFrame", 40, COLUMNS}, {"PySeries", 32, COLUMNS}, {"builtins.PySeries", 32, COLUMNS}};
    if (cls->basic_size == 64 && is_called(cls, "array.array", 64))
        return ARRAY;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_called(cls, known[i].name, known[i].bytes))
            return known[i].base;
    if (!(cls->flags & HEAP_TYPE) && is_called(cls, "numpy.ndarray", 80))
        return NDARRAY;
    return arrow_type_of(cls) != NO_ARROW ? COLUMNS : PLAIN;
}

/* How an object of this type is read: by the nearest type above it, or itself, of which that is known. */
INTERNAL uint8_t base_of(const type *cls)
{
    unsigned long flags = cls->flags;
    for (const type *above = cls; above; above = above->base) {
        uint8_t base = base_by_type(above);
        if (base == PLAIN && above->deallocate != L.python_deallocate)
            base = base_by_name(above);
        if (base != PLAIN)
            return base;
    }
    return flags & IS_DICT ? DICT : flags & IS_LIST ? LIST : flags & IS_TUPLE ? TUPLE : flags & IS_TEXT ? TEXT
           : flags & IS_BYTES ? BYTES : flags & IS_INTEGER ? INTEGER : PLAIN;
}

INTERNAL uint32_t put_name(struct graph *g, const type *cls)
{
    char name[LONGEST_NAME];
    return put_text(g, name, name_of(cls, name));
}

INTERNAL int is_collected(const type *cls)
{
    return cls->traverse && cls->flags & HAS_GC;
}

/* The type made in C that an object's memory begins with. Python code may have made classes of it. */
INTERNAL const type *made_in_c(const type *cls)
{
    while (cls && cls->deallocate == L.python_deallocate)
        cls = cls->base;
    return cls;
}

enum { LEAST_OF_C = 24 }; /* bytes: one word of its own */

static char harmless_types[1 << 13]; /* names, one behind the other; of all of a module they end with a dot */

INTERNAL void know_harmless(const char *names, uint64_t bytes)
{
    if (bytes < sizeof harmless_types - 1)
        memcpy(harmless_types, names, bytes);
}

/* Whether what is in an object's C part may be worth a look: it is none that is known to be harmless, and no type of
 * Python itself: these have names without a dot, as those of PyO3 may, but are no heap types. */
static int may_hold(const type *cls, uint8_t base)
{
    static const char of_agent[] = "_leakscope_agent."; /* its arrays are full of addresses */
    char name[LONGEST_NAME + 1];
    if ((base != C_DATA && base != PLAIN && base != COLUMNS) ||
        (name_of(cls, name) >= sizeof of_agent && !memcmp(name, of_agent, sizeof of_agent - 1)))
        return 0;
    if (base == C_DATA)
        return 1;
    cls = made_in_c(cls);
    size_t length = cls && cls->basic_size >= LEAST_OF_C ? name_of(cls, name) : 0;
    name[length] = 0;
    if (!memchr(name, '.', length))
        return length && cls->flags & HEAP_TYPE;
    for (const char *one = harmless_types; *one; one += strlen(one) + 1) {
        size_t of_one = strlen(one);
        if (one[of_one - 1] == '.' ? !strncmp(name, one, of_one) : !strcmp(name, one))
            return 0;
    }
    return 1;
}

static int is_array(const type *cls, uint8_t base)
{
    return base == NDARRAY || base == IMAGE || base == JAX_ARRAY || base == COLUMNS ||
           (base == MAPPING && !is_called(cls, "_leakscope_agent.interpreter.arrays.Mapping", 0));
}

INTERNAL uint32_t type_of(struct graph *g, type *cls)
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
                                  .is_made_in_c = cls->deallocate != L.python_deallocate && !(cls->flags & IS_TYPE)};
    uint8_t base = kinds[number].base;
    kinds[number].is_array = (uint8_t)is_array(cls, base);
    kinds[number].may_hold = (uint8_t)may_hold(cls, base);
    for (const type *above = made_in_c(cls); above && kinds[number].base == PLAIN && !kinds[number].is_wrapper; above = above->base)
        kinds[number].is_wrapper = (uint8_t)is_called(above, "pybind11_builtins.pybind11_object", LEAST_OF_C);
    table[slot] = number;
    g->type_count++;
    return number;
}
