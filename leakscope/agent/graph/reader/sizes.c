/* What an object takes, with the memory that is its own. */
#include "reader.h"

INTERNAL const char *items_of(const object *tuple)
{
    return (const char *)tuple + L.tuple_items;
}

INTERNAL const object *item_of(const object *tuple, intptr_t number)
{
    return (object *)pointer_at(items_of(tuple), 8ul * (size_t)number);
}

/* Since 3.12 in the lower half of a word. Since 3.14 flags stand in the upper one. */
INTERNAL uint64_t count_of(const object *one)
{
    return L.version >= VERSION(3, 12) ? (uint32_t)one->reference_count : (uint64_t)one->reference_count;
}

INTERNAL struct keys keys_at(const char *at)
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
INTERNAL int copy_from(uint64_t address, void *to, size_t bytes)
{
    struct iovec from = {(void *)address, bytes}, into = {to, bytes};
    return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == (ssize_t)bytes;
}

/* Whether it has the memory by a capsule of its own, as C++ libraries hand it out. One that has a name (DLPack's, Arrow's)
 * lends what is weighed where it belongs, as JAX's do. */
static int owns_by_capsule(const object *array)
{
    const object *base = (const object *)pointer_at(array, 48);
    return base && !jax_is_on_host && is_called(base->type, "PyCapsule", 48) && (uint32_t)word_at(base, 0) == 1 && word_at(base, 16) &&
           !word_at(base, 24) && word_at(base, 40);
}

static uint64_t bytes_of_array(const object *array)
{
    int count = half_at(array, 24), flags = half_at(array, 64);
    const char *lengths = pointer_at(array, 32), *strides = pointer_at(array, 40);
    if (!pointer_at(array, 16) || count <= 0 || count > MOST_DIMENSIONS || !lengths || !strides)
        return 0; /* one number */
    if (!(flags & OWNS) && !owns_by_capsule(array))
        return 0; /* another's memory */
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
INTERNAL uint64_t members_of_array(const object *array)
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
    struct fields {
        int32_t kind, depth, bands, width, height, unused;
        uint64_t palette, lines8, lines32, lines, block, blocks;
        int32_t pixel, line;
    } f;
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

/* Bytes of a number of a dtype of numpy's; 0: it is none. They moved with numpy 2, which put flags before them. */
static uint64_t bytes_of_dtype(uint64_t dtype)
{
    enum { READ = 48, MOST_ITEM = 32 };
    char copy[READ], name[16] = "";
    type cls;
    if (!copy_from(dtype, copy, READ) || !copy_from(word_at(copy, 8), &cls, sizeof cls) ||
        !copy_from((uintptr_t)cls.name, name, sizeof name - 1) || strncmp(name, "numpy.", 6))
        return 0;
    uint64_t since_2 = word_at(copy, 40), before_2 = (uint64_t)half_at(copy, 32);
    return since_2 && since_2 <= MOST_ITEM ? since_2 : before_2 && before_2 <= MOST_ITEM ? before_2 : 0;
}

/* Which words of an array of JAX's have what: found on the first ones, and tried on each. */
static struct {
    uint32_t dtype, client; /* words from the object's begin; 0: not found yet */
} jax_words;

static int is_jax_client(uint64_t address)
{
    char head[16];
    type cls;
    return address && !(address & 7) && copy_from(address, head, sizeof head) && copy_from(word_at(head, 8), &cls, sizeof cls) &&
           is_called((const type *)(uintptr_t)word_at(head, 8), "jaxlib._jax.Client", 16);
}

static void find_jax_words(const object *array, uint32_t words)
{
    for (uint32_t i = 3; i + 9 < words && i < 24; i++) {
        uint64_t begin = word_at(array, 8 * (i + 1)), end = word_at(array, 8 * (i + 2)), room = word_at(array, 8 * (i + 3));
        if (begin > end || end > room || (end - begin) & 7 || !bytes_of_dtype(word_at(array, 8 * i)))
            continue;
        for (uint32_t k = i + 4; k < i + 9; k++)
            if (is_jax_client(word_at(array, 8 * k))) {
                jax_words.dtype = i;
                jax_words.client = k;
                return;
            }
    }
}

/* Of an array of JAX's that lies in the host's memory: its lengths times the bytes of a number. Behind the client stands
 * what has the memory: nothing, once it was deleted or given away. */
static uint64_t bytes_of_jax(const object *array, const type *cls)
{
    static uint64_t known_dtype, known_bytes;
    const type *own = made_in_c(cls);
    uint32_t words = own ? (uint32_t)(own->basic_size / 8) : 0;
    if (!jax_is_on_host || words < 20)
        return 0;
    if (!jax_words.dtype)
        find_jax_words(array, words);
    uint32_t at = jax_words.dtype;
    if (!at || !word_at(array, 8ul * (jax_words.client + 1)))
        return 0;
    uint64_t dtype = word_at(array, 8ul * at), begin = word_at(array, 8ul * (at + 1)), end = word_at(array, 8ul * (at + 2));
    if (dtype != known_dtype) {
        known_dtype = dtype;
        known_bytes = bytes_of_dtype(dtype);
    }
    int64_t lengths[MOST_DIMENSIONS];
    uint64_t bytes = known_bytes;
    if (!bytes || end < begin || end - begin > sizeof lengths || (end > begin && !copy_from(begin, lengths, end - begin)))
        return 0;
    for (uint64_t i = 0; i < (end - begin) / 8; i++)
        if (lengths[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)lengths[i], &bytes))
            return 0;
    return bytes;
}

/* Beside the object itself: the table of a container. */
static uint64_t bytes_of_members(const object *one, uint8_t base)
{
    switch (base) {
    case DICT:
        return bytes_of_dict(one);
    case ORDERED_DICT:
        return bytes_of_dict(one) + 56 * word_at(one, 16);
    case LIST:
        return word_at(one, 24) ? 8 * word_at(one, 32) : 0;
    case SET:
        return word_at(one, 40) != (uintptr_t)one + 64 && word_at(one, 40) ? 16 * (word_at(one, 32) + 1) : 0;
    case DEQUE:
        return 528 * (1 + (one->size > 0 ? (uint64_t)one->size / 64 : 0));
    default:
        return 0;
    }
}

/* Beside the object itself: memory of its own without objects in it. */
static uint64_t bytes_of_buffer(const object *one, const struct kind *kind)
{
    switch (kind->base) {
    case BYTE_ARRAY:
        return word_at(one, 24);
    case ARRAY: {
        const char *description = pointer_at(one, 40);
        return word_at(one, 24) && description ? word_at(one, 32) * (uint64_t)half_at(description, 4) : 0;
    }
    case NDARRAY:
        return bytes_of_array(one);
    case C_DATA: /* of ctypes; what is small lies within it */
        return half_at(one, 24) == 1 && word_at(one, 16) - (uintptr_t)one >= (uint64_t)kind->type->basic_size ? word_at(one, 40) : 0;
    case MAPPING: /* of no file: what of a file is in memory, the kernel can let go of */
        return word_at(one, 16) && half_at(one, L.version >= VERSION(3, 9) ? 56 : 52) == -1 ? word_at(one, 24) : 0;
    case IMAGE:
        return bytes_of_image(one);
    case JAX_ARRAY:
        return bytes_of_jax(one, kind->type);
    case STRING_IO:
        return L.stream_text && word_at(one, 16) ? 4 * word_at(one, 40) : 0;
    case BUFFERED: /* 0 where it is not made yet, as all of a new object is */
        return L.buffer_bytes ? word_at(one, L.buffer_bytes) : 0;
    default:
        return 0;
    }
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
    case ORDERED_DICT:
    case LIST:
    case SET:
    case DEQUE:
        return bytes + bytes_of_members(one, kind->base);
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
    return bytes + bytes_of_buffer(one, kind);
}

INTERNAL uint64_t own_bytes(const object *one, const struct kind *kind)
{
    uint64_t bytes = said_bytes(one, kind);
    return bytes >> MOST_BITS ? 0 : bytes;
}

INTERNAL struct values values_of(const object *one, const type *cls)
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

INTERNAL const object *name_at(struct values values, uint64_t i)
{
    return (object *)pointer_at(values.names, 16 * i);
}
