/* What threads run, or wait to run. */
#include "reader.h"

INTERNAL int is_word(const object *text, const char *word)
{
    char to[32];
    size_t length = strlen(word);
    return is_text(text) && characters(text, to, sizeof to) == length && !memcmp(to, word, length);
}

/* Its __dict__; NULL where it has none, or its class keeps that elsewhere. */
INTERNAL const object *dict_of(const object *one, const type *cls)
{
    const object *dict = NULL;
    if (cls->dict_offset > 0)
        dict = (object *)pointer_at(one, (size_t)cls->dict_offset);
    else if (L.version >= VERSION(3, 11) && cls->flags & MANAGED_DICT && !(word_at((const char *)one - 24, 0) & 1))
        dict = (object *)pointer_at((const char *)one - 24, 0);
    return dict && dict->type == L.dict ? dict : NULL;
}

/* The attribute of an object; NULL where it has none of that name. */
INTERNAL const object *attribute_of(const object *one, const char *word)
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
INTERNAL int put_frames(struct graph *g, void *thread)
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

INTERNAL uint64_t tell_running(char *to, uint64_t room)
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
