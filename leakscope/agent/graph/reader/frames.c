/* What runs: the frames of a thread, and their lines. */
#include "frames.h"

/* What a frame refers to. Since 3.14 the last two bits say who counts the reference: both set, it is a number and none;
 * the first alone, nothing. */
INTERNAL uint64_t reference_at(const char *frame, size_t offset)
{
    uint64_t word = word_at(frame, offset);
    return L.version < VERSION(3, 14) ? word : (word & TAGS) == TAGS ? 0 : word & ~TAGS;
}

/* Since 3.11 of what stands for a frame. C code that was called has one, in which hardly more is written than a code
 * object, if that. So has, since 3.12, what ends a call of a class, below the frame of its __init__: its globals are
 * whatever lay there before. Of what functions have, that one has no function. */
INTERNAL int is_of_python(const char *frame)
{
    if (L.version < VERSION(3, 11))
        return 1;
    if (L.frame_owner && frame[L.frame_owner] >= 3)
        return 0;
    const object *function = (object *)reference_at(frame, L.frame_function);
    return function && function->type == L.function;
}

INTERNAL const char *first_frame(void *thread)
{
    const char *at = L.thread_frame ? pointer_at(thread, L.thread_frame) : NULL;
    return at && L.thread_indirect ? pointer_at(at, L.thread_indirect - 1) : at;
}

/* The line that runs, as a traceback would say it. */
INTERNAL int line_at(const char *frame, object *code)
{
    if (L.version < VERSION(3, 11))
        return L.line_of_frame((object *)frame);
    return L.line_of_code(code, (int)(word_at(frame, L.frame_at) - (uintptr_t)code - L.code_begin));
}

INTERNAL size_t put_printable(char *to, size_t most, const object *text)
{
    size_t length = is_text(text) ? characters(text, to, most) : 0;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)to[i] < ' ')
            to[i] = '?';
    return length;
}
