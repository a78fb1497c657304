/* What text.c and frames.c do, for the reader and for the sampler. */
#ifndef FRAMES_H
#define FRAMES_H

#include "words.h"

INTERNAL int is_text(const object *one);
INTERNAL size_t wide_characters(const char *from, uint64_t length, uint64_t kind, char *to, size_t most);
INTERNAL size_t first_characters(const object *text, uint64_t length, char *to, size_t most);
INTERNAL size_t characters(const object *text, char *to, size_t most);
INTERNAL uint64_t reference_at(const char *frame, size_t offset);
INTERNAL int is_of_python(const char *frame);
INTERNAL const char *first_frame(void *thread);
INTERNAL int line_at(const char *frame, object *code);
INTERNAL size_t put_printable(char *to, size_t most, const object *text);

#endif
