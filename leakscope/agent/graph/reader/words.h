/* Memory, word by word. */
#ifndef WORDS_H
#define WORDS_H

#include <string.h>

#include "layout.h"

static inline uint64_t word_at(const void *address, size_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)address + offset, 8);
    return word;
}

static inline int32_t half_at(const void *address, size_t offset)
{
    int32_t half;
    memcpy(&half, (const char *)address + offset, 4);
    return half;
}

static inline const char *pointer_at(const void *address, size_t offset)
{
    return (const char *)(uintptr_t)word_at(address, offset);
}

#endif
