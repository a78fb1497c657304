/* What is in large containers: some of their rows, copied.
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
 *   F count (address, double)...        numbers of a row of an array, and where each is
 *   N                                   anything else
 *
 * Behind the rows there is of each field that texts stand in: a value that is its name, and how many texts were looked at,
 * how many of them have memory of their own, how many of those no other one equals, and how many bytes they have in all.
 * Then, of an array of numbers, by how many numbers each row is further along than the one before; 0: by none.
 */
#include "reader.h"

enum { LEAST_ROWS = 1000, MOST_CHARACTERS = 4000, END = 64, MOST_INTEGERS = 512, MOST_VALUES = 48, MOST_COLUMNS = 64, DEEPEST_ROW = 3,
       AT_ENDS = 4, ROW_BYTES = 64 << 10, COPIED_BYTES = 2 << 20, MEMBER_BYTES = 48, ALL_TEXTS = 8 * TEXTS_LOOKED_AT, ROW_BEGIN = 256, LINES = 24, ACROSS = 12 };

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

/* How large an item is, and what is in it; 0: it is nothing that is copied. */
static int has_form(const object *array, const char *kind, int64_t least, struct form *form)
{
    int number = half_at(kind, 28); /* of numpy's own types: 1 to 10 are integers, signed and not in turn */
    static const char BYTES[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8};
    if (number >= 1 && number <= 10 && kind[26] != '>') {
        form->bytes = BYTES[number];
        form->is_signed = number & 1;
    }
    form->letter = number == 17 ? 'O' : number == 18 ? 'S' : number == 19 ? 'U' : 'N';
    form->item = form->bytes ? form->bytes : form->letter == 'O' ? 8 : half_at(array, 64) & NO_GAPS && least > 0 ? least : 0;
    return (form->bytes || number >= 17) && number <= 19 && kind[26] != '>';
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
    return has_form(array, kind, least, form) && is_within(form, owner);
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

struct figures { /* of an array of numbers whose memory may be read */
    const char *data;
    int64_t lengths[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
    int dimensions, number, rows; /* number: of its type, by numpy; rows: which of its dimensions counts them */
};

/* Bytes of one by the number of its type: truth values, integers, float32, float64, and float16; 0: of none of these. */
static int bytes_of_figure(int number)
{
    static const char BYTES[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8};
    return number >= 0 && number <= 12 ? BYTES[number] : number == 23 ? 2 : 0;
}

/* The memory of what an array is of: an array that owns it, or bytes, as of one that was unpickled. */
static int memory_below(const object *array, const object *owner, uintptr_t *begin, uint64_t *bytes)
{
    if (owner && owner->type == L.bytes) {
        *begin = (uintptr_t)owner + 32;
        *bytes = owner->size > 0 ? (uint64_t)owner->size : 0;
        return *bytes > 0;
    }
    return owner && owner->type == array->type && memory_of(owner, begin, bytes);
}

/* Whether all of it lies in the memory that it is of. As for ``form_of``. */
static int figures_of(const object *array, struct figures *of)
{
    const object *base = (object *)pointer_at(array, 48), *owner = half_at(array, 64) & OWNS ? array : base;
    const char *kind = pointer_at(array, 56), *lengths = pointer_at(array, 32), *strides = pointer_at(array, 40);
    uintptr_t begin;
    uint64_t bytes;
    *of = (struct figures){.data = pointer_at(array, 16), .dimensions = half_at(array, 24)};
    if (!kind || kind[26] == '>' || !of->data || of->dimensions < 1 || of->dimensions > MOST_DIMENSIONS || !lengths ||
        !strides || !memory_below(array, owner, &begin, &bytes))
        return 0;
    of->number = half_at(kind, 28);
    int64_t low = 0, high = bytes_of_figure(of->number);
    if (!high)
        return 0;
    for (int i = 0; i < of->dimensions; i++) {
        int64_t further;
        of->lengths[i] = (int64_t)word_at(lengths, 8ul * (size_t)i);
        of->strides[i] = (int64_t)word_at(strides, 8ul * (size_t)i);
        if (of->lengths[i] < 1 || __builtin_mul_overflow(of->lengths[i] - 1, of->strides[i], &further) ||
            __builtin_add_overflow(further < 0 ? low : high, further, further < 0 ? &low : &high))
            return 0;
    }
    of->rows = of->dimensions == 2 && of->lengths[1] > of->lengths[0]; /* a block of pandas: one column a line */
    uint64_t before = (uintptr_t)of->data - begin;
    return before <= bytes && (uint64_t)-low <= before && (uint64_t)high <= bytes - before;
}

static double figure_at(const char *at, int number)
{
    union {
        int8_t i8; uint8_t u8; int16_t i16; uint16_t u16; int32_t i32; uint32_t u32; int64_t i64; uint64_t u64; float f; double d;
    } one = {0};
    memcpy(&one, at, (size_t)bytes_of_figure(number));
    switch (number) {
    case 1: return one.i8;
    case 0: case 2: return one.u8;
    case 3: return one.i16;
    case 4: return one.u16;
    case 5: return one.i32;
    case 6: return one.u32;
    case 7: case 9: return (double)one.i64;
    case 8: case 10: return (double)one.u64;
    case 11: return one.f;
    case 12: return one.d;
    }
    int exponent = one.u16 >> 10 & 31, fraction = one.u16 & 1023; /* float16 */
    double size = exponent == 31 ? (fraction ? __builtin_nan("") : __builtin_inf())
                                 : __builtin_ldexp(exponent ? fraction + 1024 : fraction, (exponent ? exponent : 1) - 25);
    return one.u16 >> 15 ? -size : size;
}

/* Of some rows, the first ones and as many spread over all, some numbers: the same ones of each. Of more dimensions than
 * two the first counts the rows. */
static uint64_t copy_figures(struct copy *to, const object *array)
{
    struct figures of;
    if (!figures_of(array, &of) || of.lengths[of.rows] < 2 * LINES)
        return 0;
    int64_t length = of.lengths[of.rows], across = 1;
    for (int i = 0; i < of.dimensions; i++)
        across *= i == of.rows ? 1 : of.lengths[i]; /* no more than there are bytes */
    int64_t count = across < ACROSS ? across : ACROSS;
    put_number(to, (uint64_t)length);
    put_number(to, 2 * LINES);
    for (int64_t i = 0; i < 2 * LINES; i++) {
        int64_t at = i < LINES ? i : (int64_t)((uint64_t)length / (LINES + 1) * (uint64_t)(i - LINES + 1));
        const char *line = of.data + at * of.strides[of.rows];
        begin_row(to, (uint64_t)at, (uintptr_t)line);
        put_bytes(to, "F", 1);
        put_number(to, (uint64_t)count);
        for (int64_t k = 0; k < count; k++) {
            int64_t rest = across <= ACROSS ? k : (int64_t)((uint64_t)across * (uint64_t)(2 * k + 1) / (2 * ACROSS));
            const char *cell = line;
            for (int d = of.dimensions; d-- > 0;) {
                if (d == of.rows)
                    continue;
                cell += rest % of.lengths[d] * of.strides[d];
                rest /= of.lengths[d];
            }
            double figure = figure_at(cell, of.number);
            put_number(to, (uintptr_t)cell);
            put_bytes(to, &figure, sizeof figure);
        }
    }
    return (uint64_t)length;
}

/* The first numbers of a row. */
static int64_t begin_of_row(const struct figures *of, int64_t row, double *begin)
{
    int64_t across = 1;
    for (int i = 1; i < of->dimensions; i++)
        across *= of->lengths[i];
    for (int64_t k = 0; k < across && k < ROW_BEGIN; k++) {
        const char *cell = of->data + row * of->strides[0];
        int64_t rest = k;
        for (int d = of->dimensions; d-- > 1; rest /= of->lengths[d])
            cell += rest % of->lengths[d] * of->strides[d];
        begin[k] = figure_at(cell, of->number);
    }
    return across;
}

/* By how many numbers a row is further along than the one before it: each has most of that, as windows of a series do. */
static int64_t shift_at(const struct figures *of, int64_t row, int64_t *across)
{
    enum { LEAST_ALIKE = 16 };
    double one[ROW_BEGIN], next[ROW_BEGIN];
    *across = begin_of_row(of, row, one);
    begin_of_row(of, row + 1, next);
    int64_t length = *across < ROW_BEGIN ? *across : ROW_BEGIN, differ = 0;
    for (int64_t k = 1; k < length; k++)
        differ += one[k] != one[k - 1];
    for (int64_t shift = 1; differ >= LEAST_ALIKE && shift + LEAST_ALIKE <= length; shift++) {
        int64_t alike = 0;
        while (shift + alike < length && one[shift + alike] == next[alike])
            alike++;
        if (shift + alike == length)
            return shift;
    }
    return 0;
}

/* What makes them up has to be so at two places. */
static void copy_shift(struct copy *to, const object *one, const struct kind *kind)
{
    struct figures of;
    int64_t across[2] = {0, 0}, shifts[2] = {0, 0};
    if (kind->base == NDARRAY && figures_of(one, &of) && of.dimensions > 1 && of.lengths[0] > 2 * LINES)
        for (int i = 0; i < 2; i++)
            shifts[i] = shift_at(&of, i * (of.lengths[0] / 2), &across[i]);
    put_number(to, shifts[0] == shifts[1] ? (uint64_t)shifts[0] : 0);
    put_number(to, (uint64_t)across[0]);
}

struct ends { /* of what can only be gone through */
    const type *cls;
    uint64_t seen;
    const object *first[AT_ENDS], *last[AT_ENDS]; /* of the last ones the oldest is at ``seen`` */
};

static void note_end(struct ends *ends, const object *one)
{
    ends->last[ends->seen++ % AT_ENDS] = one;
}

static int visit_end(object *one, void *arg)
{
    struct ends *ends = arg;
    if ((const type *)one == ends->cls) /* since 3.9 some tell of their type */
        return 0;
    if (ends->seen < AT_ENDS)
        ends->first[ends->seen] = one;
    note_end(ends, one);
    return 0;
}

/* Of a dict of so many members. ``at`` counts places, among them those of members that are gone: at the last but four of
 * as many places as there are members, four or more are still to come. */
static void find_ends(struct ends *ends, object *dict, uint64_t length)
{
    object *key, *value;
    intptr_t at = 0;
    while (ends->seen < AT_ENDS && L.dict_next(dict, &at, &key, &value))
        ends->first[ends->seen++] = value;
    ends->seen = 0;
    at = (intptr_t)(length - AT_ENDS);
    while (L.dict_next(dict, &at, &key, &value))
        note_end(ends, value);
}

/* Whether something was copied: how many rows it has, how many follow, and each with its position and address. */
static int copy_rows(struct copy *to, const object *one, const struct kind *kind)
{
    const type *cls = one->type;
    if (kind->base == NDARRAY)
        return !(cls->flags & HEAP_TYPE) && is_called(cls, "numpy.ndarray", 80) && (copy_rows_of_array(to, one) || copy_figures(to, one));
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
    uint64_t length = 0;
    if (cls == L.deque && one->size >= LEAST_ROWS) {
        cls->traverse((object *)one, visit_end, &ends);
        length = ends.seen;
    } else if (cls->flags & IS_DICT && cls->deallocate != L.python_deallocate && word_at(one, 16) >= LEAST_ROWS && L.dict_next) {
        length = word_at(one, 16);
        find_ends(&ends, (object *)one, length);
    }
    if (length < LEAST_ROWS || ends.seen < AT_ENDS)
        return 0;
    put_number(to, length);
    put_number(to, 2 * AT_ENDS);
    for (uint64_t i = 0; i < AT_ENDS; i++)
        copy_row(to, i, ends.first[i]);
    for (uint64_t i = 0; i < AT_ENDS; i++)
        copy_row(to, length - AT_ENDS + i, ends.last[(ends.seen + i) % AT_ENDS]);
    return 1;
}

/* Cells of an array of objects: a column is a field. */
static void note_cells(struct text_fields *all, const object *array)
{
    struct form form;
    if (!form_of(array, &form) || form.letter != 'O')
        return;
    int rows = form.dimensions == 2 && form.lengths[1] > form.lengths[0];
    int64_t columns = form.dimensions == 2 ? form.lengths[!rows] : 1;
    for (int64_t k = 0; k < columns && k < MOST_FIELDS; k++)
        for (int64_t i = 0; i < TEXTS_LOOKED_AT && i < form.lengths[rows]; i++) {
            int64_t at = form.lengths[rows] < TEXTS_LOOKED_AT ? i : (int64_t)((uint64_t)form.lengths[rows] * (uint64_t)i / TEXTS_LOOKED_AT);
            const char *cell = form.data + at * form.strides[rows] + (columns > 1 ? k * form.strides[!rows] : 0);
            note_text(all, (uint64_t)k, NULL, (object *)pointer_at(cell, 0));
        }
}

static void note_members(struct text_fields *all, const object *one, const struct kind *kind)
{
    const type *cls = one->type;
    int is_dict = cls->flags & IS_DICT && cls->deallocate != L.python_deallocate && L.dict_next != NULL;
    const char *items = cls == L.list ? pointer_at(one, 24) : cls == L.tuple ? items_of(one) : NULL;
    uint64_t length = is_dict ? word_at(one, 16) : items ? (uint64_t)one->size : 0;
    if (kind->base == NDARRAY)
        note_cells(all, one);
    for (uint64_t i = 0; i < TEXTS_LOOKED_AT && i < length; i++) {
        uint64_t at = length < TEXTS_LOOKED_AT ? i : length * i / TEXTS_LOOKED_AT;
        intptr_t place = (intptr_t)at;
        object *key, *value = is_dict ? NULL : (object *)pointer_at(items, 8 * at);
        if (is_dict && !L.dict_next((object *)one, &place, &key, &value))
            break;
        note_texts_of(all, value);
    }
}

/* ``left``: members that may still be looked at while the job waits. */
static void copy_texts(struct copy *to, const object *one, const struct kind *kind, uint32_t *left)
{
    struct text_fields all;
    uint64_t counts[2];
    all.count = 0;
    if (*left >= TEXTS_LOOKED_AT)
        note_members(&all, one, kind);
    *left -= all.count ? TEXTS_LOOKED_AT : 0;
    put_number(to, all.count);
    for (uint32_t i = 0; i < all.count; i++) {
        const struct text_field *field = &all.at[i];
        if (field->name)
            copy_text(to, field->name);
        else
            put_bytes(to, "N", 1);
        count_texts(field, &counts[0], &counts[1]);
        put_number(to, field->count);
        put_number(to, counts[0]);
        put_number(to, counts[1]);
        put_number(to, field->bytes);
    }
}

INTERNAL void copy_largest(struct graph *g, struct largest *largest)
{
    uint32_t texts_left = ALL_TEXTS;
    for (uint32_t i = 0; i < g->row_count && largest->count < sizeof largest->rows / sizeof *largest->rows; i++) {
        const struct row *row = &g->rows[i];
        if (row->type < FIRST_TYPE || !row->is_seen || g->copied_bytes > COPIED_BYTES)
            continue;
        /* Members that another container has as well are none of its retained bytes. */
        if (row->retained_bytes < largest->least_bytes && row->length < largest->least_bytes / MEMBER_BYTES)
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
        if (is_copied) {
            copy_texts(&to, one, &kind, &texts_left);
            copy_shift(&to, one, &kind);
        }
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
INTERNAL void label_cycles(struct graph *g)
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
