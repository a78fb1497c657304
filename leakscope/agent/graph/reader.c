/* The graph of all Python objects of a process, read as the collector reads them.
 *
 * One shared library for every CPython from 3.8 on that has a GIL and keeps no list of all objects. It knows no header
 * of Python's: where things lie is told by layout.py, which has checked each figure on objects whose contents it knows.
 *
 *   graph_make_room without it, before: memory that the kernel has made ready
 *   graph_take      with the GIL: every object, who refers to whom, and how large each is; or, where these are too many,
 *                   what is nearest to the roots, and of long containers some members
 *   graph_add       with the GIL, right after: references that only C++ has, and what the caller wants to find again
 *   graph_histories with the GIL, right after: what autograd keeps for tensors
 *   graph_analyse   without it: what is reached from where, immediate dominators, retained bytes, the nodes that matter
 *   graph_label     with the GIL: by what name each of those is held; only what can be reached still is looked at
 *   graph_running   with the GIL: the functions that other threads run, and their lines
 *
 * While the GIL is held nothing of the job's is called but tp_traverse and tp_is_gc, as by each collection, and functions
 * of Arrow's for the bytes of a table. No reference count of what is read is changed, none of it is kept. Memory is asked of the kernel, never of malloc,
 * and only as much as the caller allows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <fcntl.h>
#include <unistd.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

#include "reader/layout.h"

/* With the GIL: from the next graph on. */
EXPORT void graph_tensors(uint64_t base, uint64_t implementation, uint64_t storage, uint64_t bytes, uint64_t device)
{
    L.tensor_base = base;
    L.tensor_storage = implementation | storage << 16;
    L.storage_bytes = bytes;
    L.storage_device = device;
}

enum { ARROW_TYPES = 4 };
static const char *const arrow_types[ARROW_TYPES] = {"pyarrow.lib.Table", "pyarrow.lib.RecordBatch", "pyarrow.lib.ChunkedArray", "pyarrow.lib.Array"};
/* A function of each that says an object's bytes, and one for the bytes of Arrow's memory in all; NULL: none. */
static object *arrow_sizes[ARROW_TYPES + 1];

/* With the GIL: from the next graph on. */
EXPORT void graph_arrow(object *const sizes[ARROW_TYPES + 1])
{
    memcpy(arrow_sizes, sizes, sizeof arrow_sizes);
}

/* One library is one piece of code: its parts, each of which uses those before it. */
#include "reader/words.h"
#include "reader/text.h"
#include "reader/frames.h"
#include "reader/memory.h"
#include "reader/nodes.h"
#include "reader/types.h"
#include "reader/sizes.h"
#include "reader/objects.h"
#include "reader/pools.h"
#include "reader/edges.h"
#include "reader/blocks.h"
#include "reader/threads.h"
#include "reader/take.h"
#include "reader/history.h"
#include "reader/analysis.h"
#include "reader/strays.h"
#include "reader/labels.h"
#include "reader/copies.h"
#include "reader/references.h"
#include "reader/file.h"

/* Whether heap_graph.py was written for this: the bytes of its structures. */
EXPORT int graph_sizes_fit(const uint64_t sizes[19])
{
    const uint64_t own[] = {sizeof(struct layout), sizeof(struct row), sizeof(struct share), offsetof(struct graph, budget),
                            sizeof(struct sweep), sizeof(struct bounds), sizeof(struct kind), sizeof(struct largest),
                            sizeof(struct sharer), sizeof(struct stray), sizeof(struct link), sizeof(struct pin),
                            sizeof(struct further), sizeof(struct tie), sizeof(struct mark),
                            sizeof(struct history_places), sizeof(struct history), sizeof(struct saved), sizeof(struct room)};
    return !memcmp(sizes, own, sizeof own);
}

/* Before all that reads. 0: the collector's lists are no lists. */
EXPORT int graph_begin(const struct layout *layout)
{
    L = *layout;
    for (int i = 0; L.generations && i < 4; i++) {
        uint64_t at = generation_at(i), next = word_at((void *)at, 0) & ~TAGS;
        if (!next || (word_at((void *)next, 8) & ~TAGS) != at)
            return 0;
    }
    return L.generations != 0;
}
