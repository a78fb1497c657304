/* By what name each node that matters is held. */
#include "reader.h"

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
    /* Or for attributes that have an object of this type now: how many, and one of them. */
    const type *successor;
    uint32_t turn, found, label, label_kind;
    char *numbers; /* its attributes that are numbers; NULL where nobody asks */
    size_t used;
};

static int is_below(const struct search *search, uint32_t row)
{
    return row != NONE && row != search->row && search->g->rows[row].path_row == search->row;
}

/* Whether an object that is alive is of the type that was at its address. Of that one nothing is known but what was
 * written down: it may be freed, and another one lie there that is read otherwise. */
INTERNAL int is_same(const struct graph *g, const struct row *row, const object *one)
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

static void label(struct search *search, uintptr_t child, int kind, const char *text, size_t length)
{
    if (search->successor) {
        if (child && ((object *)child)->type == search->successor && search->found++ == search->turn) {
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

static void label_text(struct search *search, uintptr_t child, int kind, const object *text)
{
    char characters_[LONGEST_LABEL];
    label(search, child, kind, characters_, characters(text, characters_, sizeof characters_));
}

/* A number above 1 that fits half a word, as limits are; else 0. */
static uint32_t limit_of(const object *one)
{
    if (!one || one->type != L.integer)
        return 0;
    uint64_t size = (uint64_t)one->size;
    int is_one_digit = L.version >= VERSION(3, 12) ? size >> 3 == 1 && !(size & 3) : one->size == 1;
    uint32_t number = is_one_digit ? (uint32_t)half_at(one, 24) : 0;
    return number > 1 ? number : 0;
}

static void note_number(struct search *search, const char *name, size_t length, const object *value)
{
    uint32_t number = search->numbers ? limit_of(value) : 0;
    if (!number || search->used + length + 13 > MOST_NUMBERS)
        return;
    char *at = search->numbers + search->used;
    memcpy(at, name, length);
    at[length++] = '=';
    char digits[12], *digit = digits + sizeof digits;
    do
        *--digit = (char)('0' + number % 10);
    while (number /= 10);
    size_t count = (size_t)(digits + sizeof digits - digit);
    memcpy(at + length, digit, count);
    at[length + count] = ' ';
    search->used += length + count + 1;
}

static void note_named(struct search *search, const object *name, const object *value)
{
    char characters_[LONGEST_LABEL];
    if (search->numbers && limit_of(value))
        note_number(search, characters_, characters(name, characters_, sizeof characters_), value);
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
        if (is_text(key))
            note_named(search, key, value);
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
        if (is_text(name_at(values, i))) {
            label_text(search, word_at(values.first, 8 * i), ATTRIBUTE, name_at(values, i));
            note_named(search, name_at(values, i), (object *)word_at(values.first, 8 * i));
        }
}

/* An object that had its attributes in itself may have a dict by now: somebody asked for it. */
static void label_new_dict(struct search *search, object *dict)
{
    intptr_t at = 0;
    object *key, *value;
    if (!dict || !L.dict_next || dict->type != L.dict || is_below(search, row_at(search->g, (uintptr_t)dict)))
        return;
    while (L.dict_next(dict, &at, &key, &value)) {
        visit_row(value, search);
        if (is_text(key)) {
            label_text(search, (uintptr_t)value, ATTRIBUTE, key);
            note_named(search, key, value);
        }
    }
}

static void label_slots(struct search *search, const object *one, const type *cls)
{
    for (const type *above = cls; above; above = above->base) {
        if (!(above->flags & HEAP_TYPE) || !above->members)
            continue;
        for (const struct member *member = above->members; member->name; member++)
            if ((member->kind == 16 || member->kind == 6) && member->offset > 0 && member->offset + 8 <= cls->basic_size) {
                uintptr_t value = word_at(one, (size_t)member->offset);
                size_t length = strnlen(member->name, LONGEST_LABEL);
                label(search, value, ATTRIBUTE, member->name, length);
                note_number(search, member->name, length, (object *)value);
            }
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

/* Which of the objects of its type it is, in the order in which another referred to them. ``of``: how many there were. */
static uint32_t turn_of(const struct graph *g, uint32_t number, const struct row *row, uint32_t *of)
{
    const uint32_t *begin = g->begin.at, *edge = g->edge.at, *types = g->type.at, node = g->rows[number].node;
    const uintptr_t *address = g->address.at;
    uint32_t turn = 0;
    *of = 0;
    for (uint32_t k = begin[node]; k < begin[node + 1]; k++) {
        turn = address[edge[k]] == row->address ? *of : turn;
        *of += types[edge[k]] == row->type;
    }
    return turn;
}

/* Attributes may have got new values since. What they had has their names, in their order, if as many have one of that
 * type now. */
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
        uint32_t of, turn = turn_of(g, number, row, &of);
        struct search search = {.g = g, .row = number, .successor = ((struct kind *)g->kind.at + row->type)->type, .turn = turn};
        if (is_namespace)
            label_items(&search, (object *)above->address);
        else {
            label_values(&search, one, cls);
            label_slots(&search, one, cls);
        }
        if (search.found && search.found == of) {
            row->label = search.label;
            row->label_kind = search.label_kind;
        }
    }
}

/* Which rows below a running function its variables still refer to. */
static void look_below_frame(struct search *search, const char *frame)
{
    const object *names = names_of_locals(frame);
    uint64_t others[] = {L.frame_function, L.frame_globals, L.frame_locals, L.frame_code};
    for (int i = 0; names && i < 4; i++)
        visit_row((object *)reference_at(frame, others[i]), search);
    for (intptr_t i = 0; names && i < names->size; i++)
        visit_row((object *)reference_at(frame, L.frame_slots + 8ul * i), search);
    label_locals(search, frame);
}

/* Whether there is time to look through an object while the job waits; it is counted. */
static int may_look(struct graph *g, const struct row *row)
{
    const uint32_t *begin = g->begin.at;
    uint32_t members = begin[row->node + 1] - begin[row->node];
    uint64_t most = g->members_left < MOST_MEMBERS ? g->members_left : MOST_MEMBERS;
    uint64_t length = row->length == NO_LENGTH || row->length < members ? members : row->length;
    if (length > most)
        return 0;
    g->members_left -= length;
    return 1;
}

/* Which rows an object still refers to. */
static void see_members(struct search *search, object *one, const struct kind *kind)
{
    struct graph *g = search->g;
    const type *cls = one->type;
    if (kind->base == TENSOR) {
        uint32_t found = row_at(g, (uintptr_t)storage_of(one));
        if (is_below(search, found))
            g->rows[found].is_seen = 1;
    } else
        visit_hidden(one, kind->base, visit_row, search);
    if (kind->is_gc && (!cls->is_gc || cls->is_gc(one)))
        cls->traverse(one, visit_row, search);
}

static void label_contents(struct search *search, object *one, uint8_t base)
{
    if ((base == DICT || base == ORDERED_DICT) && L.dict_next)
        label_items(search, one);
    else if (base == LIST && word_at(one, 24)) /* NULL while it is being sorted */
        label_members(search, word_at(one, 24), one->size);
    else if (base == TUPLE && !label_of_function(search, one))
        label_members(search, (uintptr_t)items_of(one), one->size);
}

/* What has code of its own: a frame, a generator, a function, or one that keeps results. Which it is, and its variables. */
static void label_code(struct search *search, struct row *row, object *one, uint8_t base)
{
    struct graph *g = search->g;
    const type *cls = one->type;
    if (cls == L.frame && L.version < VERSION(3, 11)) {
        label_locals_of_object(search, one);
        row->owner = owner_of(g, (object *)pointer_at(one, L.frame_code));
    } else if (cls == L.frame && L.frame_slots && pointer_at(one, 24)) { /* of a call that is over, kept by an exception */
        label_locals(search, pointer_at(one, 24));
        row->owner = owner_of(g, (object *)reference_at(pointer_at(one, 24), L.frame_code));
    }
    /* At its end its frame is cleared, and what it was of may be freed; before its beginning it may not be written. */
    if (base == GENERATOR && L.generator_frame && *((const signed char *)one + L.generator_state) <= 0) {
        label_locals(search, (const char *)one + L.generator_frame);
        row->owner = owner_of(g, (object *)reference_at((const char *)one + L.generator_frame, L.frame_code));
    }
    const object *function = !L.function_code ? NULL : cls == L.function ? one : cls == L.results ? attribute_of(one, "__wrapped__") : NULL;
    if (function && function->type == L.function)
        row->owner = owner_of(g, (object *)pointer_at(function, L.function_code));
    uint64_t at_limit = cls == L.results ? L.results_limit : base == DEQUE ? L.deque_limit : 0;
    if (at_limit && !(word_at(one, at_limit) >> 62)) /* -1: none */
        row->limit = word_at(one, at_limit);
    if (cls == L.results && L.results_hits && L.results_misses) {
        row->hits = word_at(one, L.results_hits);
        row->misses = word_at(one, L.results_misses);
    }
}

static void label_attributes(struct search *search, struct row *row, object *one, int is_gc)
{
    const type *cls = one->type;
    int is_class = cls == L.type_type || (is_gc && cls->flags & IS_TYPE);
    if (is_class)
        row->owner = put_name(search->g, (type *)one);
    if (cls == L.function && L.function_globals)
        label(search, word_at(one, L.function_globals), NAMESPACE, OF_GLOBALS, strlen(OF_GLOBALS));
    if (cls == L.module)
        label(search, word_at(one, 16), NAMESPACE, "", 0);
    else if (is_class)
        label(search, (uintptr_t)((type *)one)->dict, NAMESPACE, "", 0);
    else if (cls->dict_offset > 0)
        label(search, word_at(one, (size_t)cls->dict_offset), NAMESPACE, "", 0);
    else if (L.version >= VERSION(3, 11) && cls->flags & MANAGED_DICT) {
        uint64_t word = word_at((const char *)one - 24, 0);
        if (!(word & 1)) {
            label(search, word, NAMESPACE, "", 0);
            label_new_dict(search, (object *)word);
        }
        label_values(search, one, cls);
    }
    if (cls->flags & HEAP_TYPE)
        label_slots(search, one, cls);
}

/* Which rows below an object it still refers to, and how. */
INTERNAL void look_below(struct graph *g, uint32_t number)
{
    struct row *row = &g->rows[number];
    struct search search = {.g = g, .row = number};
    char numbers[MOST_NUMBERS];
    object *one = (object *)row->address;
    if (row->type == TYPE_FRAME)
        look_below_frame(&search, (const char *)one);
    if (row->type < FIRST_TYPE)
        return;
    const struct kind kind = ((struct kind *)g->kind.at)[row->type];
    const type *cls = one->type; /* the same: see is_same */
    int is_namespace = row->label_kind == NAMESPACE && cls == L.dict && word_at(one, 16) <= MOST_ATTRIBUTES;
    if (is_namespace || (cls->flags & HEAP_TYPE && cls != L.type_type))
        search.numbers = numbers;
    uint64_t length = length_of(one, kind.base);
    row->length = length == NO_LENGTH ? row->length : length;
    if (!may_look(g, row))
        return;
    see_members(&search, one, &kind);
    label_contents(&search, one, kind.base);
    label_code(&search, row, one, kind.base);
    label_attributes(&search, row, one, kind.is_gc);
    if (search.used)
        g->rows[number].numbers = put_text(g, numbers, search.used - 1);
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
    const object *trace = NULL, *frame;
    for (int depth = 0; depth < 5000 && (frame = stopped_frame(&trace)); depth++)
        is_alive(g, (uintptr_t)frame, THREADS, 0);
}

INTERNAL int label_rows(struct graph *g, object *modules, void *recorder, struct largest *largest)
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
