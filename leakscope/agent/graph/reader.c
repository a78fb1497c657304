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
 * While the GIL is held nothing of the job's is called but tp_traverse and tp_is_gc, as by each collection. No reference
 * count of what is read is changed, none of it is kept. Memory is asked of the kernel, never of malloc, and only as much as
 * the caller allows.
 */
#define ONE_UNIT
#include "reader/reader.h"

#include "reader/text.c"
#include "reader/frames.c"
#include "reader/memory.c"
#include "reader/nodes.c"
#include "reader/types.c"
#include "reader/sizes.c"
#include "reader/columns.c"
#include "reader/views.c"
#include "reader/objects.c"
#include "reader/pools.c"
#include "reader/edges.c"
#include "reader/blocks.c"
#include "reader/threads.c"
#include "reader/take.c"
#include "reader/history.c"
#include "reader/dominators.c"
#include "reader/weighing.c"
#include "reader/paths.c"
#include "reader/rows.c"
#include "reader/sharing.c"
#include "reader/strays.c"
#include "reader/labels.c"
#include "reader/equal.c"
#include "reader/copies.c"
#include "reader/references.c"
#include "reader/file.c"
#include "reader/entry.c"
