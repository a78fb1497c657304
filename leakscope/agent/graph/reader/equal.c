/* Whether texts in a container equal each other, each in memory of its own.
 *
 * Of members spread over all, the texts are looked at: a member itself, or what it has under a key, as an attribute, or at
 * a place. No text is copied: of each there is a hash of its length and how it begins, and where it lies. */
#include "reader.h"

enum { BEGIN = 64, SLOTS_OF_TEXTS = 2 * TEXTS_LOOKED_AT }; /* BEGIN: bytes */

static uint32_t content_of(const object *text)
{
    uint64_t state = word_at(text, 32), length = word_at(text, 16), kind = state >> 2 & 7, words[BEGIN / 8] = {0};
    uint64_t mixed = length ^ kind << 32, bytes = length < BEGIN ? length * kind : BEGIN;
    if (state >> 5 & 1) /* compact, else it has its characters elsewhere */
        memcpy(words, (const char *)text + (state >> 6 & 1 ? L.text_bytes : L.wide_text_bytes), bytes < BEGIN ? bytes : BEGIN);
    for (int i = 0; i < BEGIN / 8; i++) {
        mixed = (mixed ^ words[i]) * 0x9E3779B97F4A7C15ull;
        mixed ^= mixed >> 29;
    }
    return (uint32_t)(mixed >> 32);
}

INTERNAL void note_text(struct text_fields *all, uint64_t id, const object *name, const object *text)
{
    uint32_t i = 0;
    if (!is_text(text))
        return;
    while (i < all->count && all->at[i].id != id)
        i++;
    if (i == MOST_FIELDS)
        return;
    struct text_field *field = &all->at[i];
    if (i == all->count) {
        field->name = name;
        field->id = id;
        field->bytes = field->count = 0;
        all->count++;
    }
    if (field->count == TEXTS_LOOKED_AT)
        return;
    const struct kind kind = {.type = L.text, .base = TEXT};
    field->bytes += own_bytes(text, &kind);
    field->content[field->count] = content_of(text);
    field->address[field->count++] = (uint32_t)((uintptr_t)text >> 4);
}

/* Keys of one content have one hash, which Python keeps with each. */
static void note_named_text(struct text_fields *all, const object *name, const object *value)
{
    if (is_text(name))
        note_text(all, word_at(name, 24), name, value);
}

INTERNAL void note_texts_of(struct text_fields *all, const object *member)
{
    const type *cls = member ? member->type : NULL;
    const object *dict = NULL;
    if (!cls)
        return;
    if (cls == L.text)
        note_text(all, 0, NULL, member);
    else if (cls->flags & (IS_LIST | IS_TUPLE)) {
        const char *items = cls->flags & IS_LIST ? pointer_at(member, 24) : items_of(member);
        for (int64_t i = 0; items && i < member->size && i < MOST_FIELDS; i++)
            note_text(all, (uint64_t)i, NULL, (object *)pointer_at(items, 8ul * (size_t)i));
    } else if (cls->flags & IS_DICT)
        dict = member;
    else if (cls->deallocate == L.python_deallocate) {
        struct values values = values_of(member, cls);
        for (uint64_t i = 0; i < values.count; i++)
            note_named_text(all, name_at(values, i), (object *)pointer_at(values.first, 8 * i));
        dict = values.count ? NULL : dict_of(member, cls);
    }
    intptr_t at = 0;
    object *key, *value;
    for (int i = 0; dict && i < 4 * MOST_FIELDS && L.dict_next && L.dict_next((object *)dict, &at, &key, &value); i++)
        note_named_text(all, key, value);
}

/* Of each, the first one that has its key. */
static void find_first(const uint32_t *keys, uint32_t count, uint16_t *first)
{
    uint16_t slots[SLOTS_OF_TEXTS];
    memset(slots, 0xff, sizeof slots);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = keys[i] & (SLOTS_OF_TEXTS - 1);
        while (slots[slot] != UINT16_MAX && keys[slots[slot]] != keys[i])
            slot = (slot + 1) & (SLOTS_OF_TEXTS - 1);
        if (slots[slot] == UINT16_MAX)
            slots[slot] = (uint16_t)i;
        first[i] = slots[slot];
    }
}

/* How many texts have memory of their own, and how many of these have content that no other one has. */
INTERNAL void count_texts(const struct text_field *field, uint64_t *own, uint64_t *alone)
{
    uint16_t first[TEXTS_LOOKED_AT];
    uint8_t is_equalled[TEXTS_LOOKED_AT] = {0};
    find_first(field->content, field->count, first);
    for (uint32_t i = 0; i < field->count; i++)
        is_equalled[first[i]] |= field->address[first[i]] != field->address[i];
    *own = *alone = 0;
    for (uint32_t i = 0; i < field->count; i++)
        *alone += first[i] == i && !is_equalled[i];
    find_first(field->address, field->count, first);
    for (uint32_t i = 0; i < field->count; i++)
        *own += first[i] == i;
}
