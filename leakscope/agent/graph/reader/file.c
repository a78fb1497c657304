/* All nodes, for a file.
 *
 * Without the GIL, and slower than the memory that is left may be filled: what was written is pushed to the disk and out of
 * the page cache, which counts as the job's.
 */
#include "reader.h"

enum { WRITTEN_AT_ONCE = 1 << 18, PUSHED_AT_ONCE = 8 << 20 };

struct sink {
    int fd, error;
    size_t used;
    uint64_t done, pushed;
    char *buffer;
};

static void push_out(struct sink *sink, const char *from, size_t bytes)
{
    while (bytes && !sink->error) {
        ssize_t done = write(sink->fd, from, bytes < WRITTEN_AT_ONCE ? bytes : WRITTEN_AT_ONCE);
        if (done < 0 && errno != EINTR)
            sink->error = errno;
        if (done <= 0)
            continue;
        from += done;
        bytes -= (size_t)done;
        sink->done += (uint64_t)done;
        if (sink->done - sink->pushed < PUSHED_AT_ONCE)
            continue;
        off_t end = lseek(sink->fd, 0, SEEK_END), begin = end - (off_t)(sink->done - sink->pushed);
        sync_file_range(sink->fd, begin, end - begin,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        posix_fadvise(sink->fd, begin, end - begin, POSIX_FADV_DONTNEED);
        sink->pushed = sink->done;
    }
}

static void put(struct sink *sink, const void *value, size_t bytes)
{
    if (sink->used + bytes > WRITTEN_AT_ONCE) {
        push_out(sink, sink->buffer, sink->used);
        sink->used = 0;
    }
    memcpy(sink->buffer + sink->used, value, bytes);
    sink->used += bytes;
}

INTERNAL int is_in_memory(int fd)
{
    struct statfs found;
    return fstatfs(fd, &found) == 0 && ((uint32_t)found.f_type == 0x01021994 || (uint32_t)found.f_type == 0x858458f6);
}

INTERNAL int write_graph(struct graph *g, int fd)
{
    if (g->process != getpid() || !g->path.at || !g->dominator.at)
        return ENODATA;
    struct array buffer = {0};
    if (!grow(&g->budget, &buffer, WRITTEN_AT_ONCE))
        return ENODATA;
    struct sink sink = {.fd = fd, .buffer = buffer.at};
    uint64_t n = g->nodes;
    const uint32_t *dominator = g->dominator.at, *types = g->type.at, *references = g->references.at, none = NONE, zero = 0;
    const uint64_t *retained = g->retained.at, *address = g->address.at, *own = g->own.at, nothing = 0;
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS ? &nothing : &address[i], 8);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS || types[i] == TYPE_DEVICE ? &nothing : &own[i], 8);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, &retained[i], 8);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS ? &zero : &types[i], 4);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, &dominator[i], 4);
    push_out(&sink, sink.buffer, sink.used);
    sink.used = 0;
    push_out(&sink, g->path.at, n * 4);
    for (uint64_t i = 0; i < n && !sink.error; i++)
        put(&sink, i < GROUPS || types[i] < FIRST_TYPE ? &none : &references[i], 4);
    push_out(&sink, sink.buffer, sink.used);
    push_out(&sink, g->begin.at, (n + 1) * 4);
    push_out(&sink, g->edge.at, g->edges * 4);
    drop(&g->budget, &buffer);
    return sink.error;
}
