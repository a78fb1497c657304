/* What tables and frames hold: the memory of their columns, in the format of Arrow.
 *
 * Their objects are C++'s or Rust's, and their own functions are not called: they may take locks that others hold who wait
 * for the GIL. So it is looked at what they are made of. Arrow's structures begin as they did in its first releases. Rust
 * promises no order, and each step is known by what must be so: a list has an address and a number; a column has an
 * address, and one of code's beside it. Either way memory for values has a record that says where it begins and how much it
 * is, by which what several tables show is weighed once. What does not fit is passed by. All is read by the kernel, for
 * which what is no memory is an error and no crash. */
#include "reader.h"

enum { COLUMNS_READ = 4096, MOST_CHUNKS = 256, WORDS_OF_SERIES = 18, WORDS_OF_CHUNK = 12, WORDS_OF_RECORD = 8, LEAST_ADDRESS = 1 << 16, WIDEST = 16 };

struct columns {
    struct graph *g;
    uint32_t left;   /* columns, or chunks of Arrow's, that may still be looked at */
    uint32_t depth;  /* of values in values */
    uint64_t stride; /* a chunk that is met stands for so many */
    uint32_t node;   /* whose columns they are */
    uint64_t rows, offset; /* of values of Arrow's: how many, behind how many */
    int is_weighing; /* else the graph gets an edge to each */
    int is_done;
};

static int copy_words(uint64_t address, uint64_t *to, size_t count)
{
    return address >= LEAST_ADDRESS && !(address & 7) && !(address >> 47) && copy_from(address, to, 8 * count);
}

/* Whether two addresses are of one library's code or constants. */
static int is_near(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) < 1 << 23;
}

/* Memory of which they show no more than ``shown`` bytes. What lies in a mapped file is no memory of theirs: the kernel can
 * let go of it. */
static void meet(struct columns *all, uint64_t address, uint64_t bytes, uint64_t shown)
{
    uint32_t node = all->is_weighing ? node_at(all->g, address) : NONE;
    if (!all->is_weighing)
        all->is_done &= refer(all->g, address, TYPE_ARROW);
    else if (node != NONE && ARRAY(all->g, type, uint32_t)[node] == TYPE_ARROW) {
        ARRAY(all->g, own, uint64_t)[node] = is_in_file(address) ? 0 : bytes * all->stride;
        note_view(all->g, all->node, node, shown * all->stride);
    }
}

/* Three words: the record of some memory, where in it the values begin, and how many. Returns how many bytes it has; 0: they
 * are something else. */
static uint64_t meet_values(struct columns *all, const uint64_t *words)
{
    uint64_t record[WORDS_OF_RECORD];
    if (words[1] < LEAST_ADDRESS || !words[2] || words[2] >> MOST_BITS || !copy_words(words[0], record, WORDS_OF_RECORD))
        return 0;
    for (int i = 0; i + 1 < WORDS_OF_RECORD; i++) {
        uint64_t begin = record[i], bytes = record[i + 1];
        if (begin < LEAST_ADDRESS || bytes >> MOST_BITS || words[1] < begin || words[1] - begin >= bytes || words[2] / 8 > bytes)
            continue;
        uint64_t rest = begin + bytes - words[1]; /* a value has no more than WIDEST bytes */
        meet(all, begin, bytes, words[2] < rest / WIDEST ? words[2] * WIDEST : rest);
        return bytes;
    }
    return 0;
}

/* A chunk of a column has values; of texts one memory tells where in others they stand, of which there is a list; of lists
 * where in another chunk each begins. ``code``: where the code of chunks is. */
static int meet_chunk(struct columns *all, uint64_t address, uint64_t code, int depth)
{
    enum { MOST_PIECES = 128, DEEPEST = 4, AFTER_KIND = 4 }; /* what kind of values it has comes first, and may be words that nobody has written */
    uint64_t words[WORDS_OF_CHUNK], pieces[3 * MOST_PIECES];
    int found = 0;
    if (depth == DEEPEST || !copy_words(address, words, WORDS_OF_CHUNK))
        return 0;
    for (int at = AFTER_KIND; at + 3 <= WORDS_OF_CHUNK; at++) {
        uint64_t bytes = meet_values(all, words + at), count = words[at + 2], most = count < MOST_PIECES ? count : MOST_PIECES;
        if (!bytes && found && is_near(words[at + 1], code))
            meet_chunk(all, words[at], code, depth + 1);
        if (!bytes)
            continue;
        for (uint64_t i = 0; bytes == 24 * count && copy_words(words[at + 1], pieces, 3 * most) && i < most; i++)
            meet_values(all, pieces + 3 * i);
        found = 1;
        at += 2;
    }
    return found;
}

/* A column, behind a count of who refers to it, has a list of chunks: each an address, and that of its code. Of very many,
 * as rows that are added one by one make them, some stand for the others. */
static int meet_column(struct columns *all, uint64_t address)
{
    uint64_t words[WORDS_OF_SERIES], chunk[2];
    if (!all->left || !copy_words(address, words, WORDS_OF_SERIES))
        return 0;
    for (int i = 0; i + 1 < WORDS_OF_SERIES; i++) {
        uint64_t count = words[i + 1];
        all->stride = count / MOST_CHUNKS + (count % MOST_CHUNKS != 0);
        if (!count || count >> 32 || !copy_words(words[i], chunk, 2) || !meet_chunk(all, chunk[0], chunk[1], 0))
            continue;
        all->left--;
        for (uint64_t k = all->stride; k < count && copy_words(words[i] + 16 * k, chunk, 2); k += all->stride)
            meet_chunk(all, chunk[0], chunk[1], 0);
        return 1;
    }
    return 0;
}

/* The columns of a frame lie in a line, each as long as the others, whatever kind it is: what kind, an address, that of code.
 * In between are words that nobody has written, and that may look the same: so the last one, or that in the middle, has to
 * be there, too. */
static int is_column(uint64_t address, const uint64_t *first, uint64_t *words)
{
    return copy_words(address, words, 3) && (words[0] & 0xff) == (first[0] & 0xff) && is_near(words[2], first[2]);
}

static int meet_line(struct columns *all, uint64_t address, uint64_t count)
{
    enum { BEGIN = 3, LONGEST = 512 };
    uint64_t first[BEGIN + 3], words[3], each = 24;
    size_t i = 0;
    if (!copy_words(address, first, BEGIN + 3))
        return 0;
    while (i < BEGIN && (first[i + 2] < LEAST_ADDRESS || !meet_column(all, first[i + 1])))
        i++;
    if (i == BEGIN)
        return 0;
    address += 8 * i;
    for (; count > 1 && each < LONGEST; each += 8)
        if ((is_column(address + (count - 1) * each, first + i, words) || is_column(address + count / 2 * each, first + i, words)) &&
            is_column(address + each, first + i, words) && meet_column(all, words[1]))
            break;
    for (uint64_t k = 2; each < LONGEST && k < count && all->left; k++)
        if (is_column(address + k * each, first + i, words))
            meet_column(all, words[1]);
    return 1;
}

/* A record of memory, in C++: code's address, whether it may be written to and is the host's, where it begins, bytes, room. */
static int is_memory(const uint64_t *words)
{
    return words[0] >= LEAST_ADDRESS && !(words[1] & 0xfe) && (words[1] >> 8 & 0xff) == 1 && words[2] >= LEAST_ADDRESS &&
           words[3] <= words[4] && words[4] && !(words[4] >> MOST_BITS);
}

/* It may be a part of another, which has the memory; two more pairs of addresses say which, and who manages it. */
static void meet_memory(struct columns *all, uint64_t address)
{
    enum { WORDS = 9, FIRST_PAIR = 5, DEEPEST = 8 };
    static uint64_t manager; /* is one for all, as a rule */
    uint64_t words[WORDS], owner[WORDS];
    if (!copy_words(address, words, WORDS) || !is_memory(words))
        return;
    for (int at = FIRST_PAIR, depth = 0; at < WORDS && depth < DEEPEST; at += 2) {
        at += at == FIRST_PAIR && words[at] & 7; /* later releases say before them on which device it is */
        if (words[at] == manager || !copy_words(words[at], owner, WORDS))
            continue;
        if (is_memory(owner) && words[2] - owner[2] < owner[4]) {
            memcpy(words, owner, sizeof words);
            at = FIRST_PAIR - 2;
            depth++;
        } else
            manager = words[at];
    }
    /* Values before the first one are not shown; of those behind the last one nothing tells. */
    uint64_t rows = all->rows + all->offset;
    int is_part = all->rows && rows > all->rows && !(rows >> 32);
    meet(all, words[2], words[4], is_part ? (uint64_t)((double)words[4] * (double)all->rows / (double)rows) : words[4]);
}

/* A vector has shared pointers, each with who counts: its begin and its end. Of all its members, or one in ``stride``. */
static void meet_members(struct columns *all, const uint64_t *vector, uint64_t stride, void (*meet_one)(struct columns *, uint64_t))
{
    enum { AT_ONCE = 64 };
    uint64_t pairs[2 * AT_ONCE], count = (vector[1] - vector[0]) / 16;
    if (vector[1] < vector[0] || vector[2] < vector[1] || count >> 32)
        return;
    for (uint64_t k = 0, some; k < count; k += some * stride) {
        some = stride > 1 ? 1 : count - k < AT_ONCE ? count - k : AT_ONCE;
        if (!copy_words(vector[0] + 16 * k, pairs, 2 * some))
            return;
        for (uint64_t i = 0; i < some; i++)
            meet_one(all, pairs[2 * i]);
    }
}

/* Values: their type, length, how many are missing, where they begin, what memory they have, values within them, and those
 * that theirs are numbers of. */
static void meet_data(struct columns *all, uint64_t address)
{
    enum { LENGTH = 2, OFFSET = 4, MEMORY = 5, WITHIN = 8, DICTIONARY = 11, WORDS = 12, DEEPEST = 8 };
    uint64_t words[WORDS];
    if (!all->left || all->depth == DEEPEST || !copy_words(address, words, WORDS))
        return;
    all->left--;
    all->depth++;
    all->rows = words[LENGTH];
    all->offset = words[OFFSET];
    meet_members(all, words + MEMORY, 1, meet_memory);
    all->rows = 0;
    meet_members(all, words + WITHIN, 1, meet_data);
    meet_data(all, words[DICTIONARY]);
    all->depth--;
}

static void meet_array(struct columns *all, uint64_t address)
{
    uint64_t words[2];
    if (copy_words(address, words, 2))
        meet_data(all, words[1]);
}

static void meet_chunks(struct columns *all, uint64_t address)
{
    uint64_t chunks[3];
    if (!copy_words(address, chunks, 3))
        return;
    all->stride = (chunks[1] - chunks[0]) / 16 / MOST_CHUNKS + 1;
    meet_members(all, chunks, all->stride, meet_array);
    all->stride = 1;
}

/* Of Arrow's in C++: a shared pointer, and but for a buffer once more a plain one; none yet in what is half made. */
static void meet_arrow(struct columns *all, const object *one, int kind)
{
    enum { TABLE = 4 }; /* code's address, a shared pointer to a schema, and a number of rows come before its columns */
    all->stride = 1;
    for (size_t at = 24; at <= 32 && at + 24 <= (size_t)one->type->basic_size; at += 8) {
        uint64_t address = word_at(one, at), columns[3];
        if (kind == ARROW_BUFFER) {
            all->left -= all->left != 0;
            meet_memory(all, address);
        }
        if (kind == ARROW_BUFFER || !address || address != word_at(one, at + 16))
            continue;
        if (kind == ARROW_CHUNKS || kind == ARROW_ARRAY)
            (kind == ARROW_CHUNKS ? meet_chunks : meet_array)(all, address);
        else if (copy_words(address + 8 * TABLE, columns, 3))
            meet_members(all, columns, 1, kind == ARROW_TABLE ? meet_chunks : meet_data);
        return;
    }
}

/* An array that Arrow made has its memory by a capsule: a name that says so, and a shared pointer. */
static void meet_capsule(struct columns *all, const object *one)
{
    static const char NAME[] = "arrow::Buffer";
    char name[sizeof NAME];
    uint64_t buffer;
    if (word_at(one, 24) && copy_from(word_at(one, 24), name, sizeof name) && !memcmp(name, NAME, sizeof name) &&
        copy_words(word_at(one, 16), &buffer, 1)) {
        all->left--;
        meet_memory(all, buffer);
    }
}

static void meet_all(struct columns *all, const object *one)
{
    uint64_t words = all->left ? (uint64_t)one->type->basic_size / 8 : 0;
    int kind = words ? arrow_type_of(one->type) : NO_ARROW;
    if (kind == ARROW_CAPSULE)
        meet_capsule(all, one);
    else if (kind != NO_ARROW)
        meet_arrow(all, one, kind);
    for (uint64_t i = 2; kind == NO_ARROW && i + 1 < words; i++)
        if ((word_at(one, 8 * i + 8) < 1 << 20 && word_at(one, 8 * i + 8) && meet_line(all, word_at(one, 8 * i), word_at(one, 8 * i + 8))) ||
            meet_column(all, word_at(one, 8 * i)))
            return;
}

/* 0: there is no room for them. */
INTERNAL int read_columns(struct graph *g, const object *one)
{
    struct columns all = {.g = g, .left = COLUMNS_READ > g->columns ? COLUMNS_READ - g->columns : 0, .is_done = 1};
    uint32_t before = all.left;
    meet_all(&all, one);
    g->columns += before - all.left;
    return all.is_done;
}

static uint8_t base_at(const struct graph *g, uint64_t node)
{
    uint32_t type = ARRAY(g, type, uint32_t)[node];
    return type == TYPE_ARROW ? BUFFER : type < FIRST_TYPE ? PLAIN : ((const struct kind *)g->kind.at)[type].base;
}

/* How much memory that is, once each: what an array has that they show is the array's. Where there were too many to look
 * at, each of the others is taken for as large as these. */
INTERNAL void weigh_columns(struct graph *g)
{
    enum { LEAST_SHOWN = 512 };
    const uintptr_t *address = g->address.at;
    uint64_t *own = g->own.at, bytes = 0, looked = 0, next = GROUPS;
    struct columns all = {.g = g, .left = g->columns ? COLUMNS_READ : 0, .is_weighing = 1};
    for (; all.left && next < g->nodes; next++)
        if (base_at(g, next) == COLUMNS) {
            uint32_t before = all.left;
            all.node = (uint32_t)next;
            meet_all(&all, (const object *)address[next]);
            looked += all.left < before;
        }
    for (uint64_t node = GROUPS; g->columns && node < g->nodes; node++) {
        uint32_t shown = base_at(g, node) == NDARRAY && own[node] >= LEAST_SHOWN
                             ? node_at(g, word_at((const char *)address[node], 16)) : NONE;
        if (shown != NONE && base_at(g, shown) == BUFFER)
            own[shown] = 0;
    }
    double malloced = 0;
    for (uint64_t node = GROUPS; g->columns && node < g->nodes; node++)
        if (base_at(g, node) == BUFFER && own[node]) {
            bytes += own[node];
            malloced += sampled_at(address[node]);
            note_pool(address[node]);
        }
    g->malloced_columns = malloced < (double)bytes ? malloced / (double)bytes : 1;
    look_at_pools(g);
    for (; looked && next < g->nodes; next++)
        if (base_at(g, next) == COLUMNS && arrow_type_of(((const object *)address[next])->type) != ARROW_CAPSULE)
            own[next] += bytes / looked;
}
