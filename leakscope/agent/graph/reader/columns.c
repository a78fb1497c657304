/* What frames and series of polars hold: the memory of their columns, in the format of Arrow.
 *
 * Their objects are Rust's, and their own functions are not called: they take locks that others may hold who wait for the
 * GIL. So it is looked at what they are made of. Rust promises no order of what stands in an object, and each step is known by what
 * must be so: a list has an address and a number; a column has an address, and one of code's beside it; and memory for
 * values has a record, to which refers who also says where in it his values begin, and how many there are. What does not fit is passed by. All is read by
 * the kernel, for which what is no memory is an error and no crash. */
#include "reader.h"

enum { COLUMNS_READ = 4096, MOST_CHUNKS = 256, WORDS_OF_SERIES = 18, WORDS_OF_CHUNK = 12, WORDS_OF_RECORD = 8, LEAST_ADDRESS = 1 << 16 };

struct columns {
    struct graph *g;
    uint32_t left;   /* that may still be looked at */
    uint64_t stride; /* a chunk that is met stands for so many */
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

static void meet(struct columns *all, uint64_t address, uint64_t bytes)
{
    uint32_t node = all->is_weighing ? node_at(all->g, address) : NONE;
    if (!all->is_weighing)
        all->is_done &= refer(all->g, address, TYPE_ARROW);
    else if (node != NONE && ARRAY(all->g, type, uint32_t)[node] == TYPE_ARROW)
        ARRAY(all->g, own, uint64_t)[node] = bytes * all->stride;
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
        meet(all, begin, bytes);
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

static void meet_all(struct columns *all, const object *one)
{
    uint64_t words = (uint64_t)one->type->basic_size / 8;
    for (uint64_t i = 2; i + 1 < words; i++)
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

/* How much memory that is, once each. */
INTERNAL void weigh_columns(struct graph *g)
{
    const struct kind *kinds = g->kind.at;
    struct columns all = {.g = g, .left = g->columns, .is_weighing = 1};
    for (uint64_t node = GROUPS; all.left && node < g->nodes; node++) {
        uint32_t type = ARRAY(g, type, uint32_t)[node];
        if (type >= FIRST_TYPE && kinds[type].base == COLUMNS)
            meet_all(&all, (const object *)ARRAY(g, address, uintptr_t)[node]);
    }
}
