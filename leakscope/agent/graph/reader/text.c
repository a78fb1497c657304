/* Strings of Python's, as UTF-8. */
#include "frames.h"

INTERNAL int is_text(const object *one)
{
    return one && one->type == L.text;
}

/* Of so many bytes each, as UTF-8. */
INTERNAL size_t wide_characters(const char *from, uint64_t length, uint64_t kind, char *to, size_t most)
{
    const unsigned char *at = (const unsigned char *)from;
    size_t written = 0;
    for (uint64_t i = 0; i < length; i++) {
        uint32_t c = at[i];
        if (kind == 2)
            c = (uint32_t)(at[2 * i] | at[2 * i + 1] << 8);
        else if (kind == 4)
            memcpy(&c, at + 4 * i, 4);
        size_t needed = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        if (written + needed > most)
            break;
        if (needed == 1)
            to[written] = (char)c;
        else {
            static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
            for (size_t k = needed; k-- > 1; c >>= 6)
                to[written + k] = (char)(0x80 | (c & 0x3f));
            to[written] = (char)(lead[needed] | c);
        }
        written += needed;
    }
    return written;
}

/* The first ``length`` characters of a string as UTF-8, at most so many bytes; their number. */
INTERNAL size_t first_characters(const object *text, uint64_t length, char *to, size_t most)
{
    uint64_t state = word_at(text, 32);
    uint64_t kind = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    return is_compact ? wide_characters((const char *)text + (is_ascii ? L.text_bytes : L.wide_text_bytes), length, kind, to, most) : 0;
}

INTERNAL size_t characters(const object *text, char *to, size_t most)
{
    return first_characters(text, word_at(text, 16), to, most);
}
