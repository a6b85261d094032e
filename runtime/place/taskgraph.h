/* SPDX-License-Identifier: Apache-2.0
 *
 * Which task must wait for which. Tasks are numbered in a topological order: every edge points from a smaller number to
 * a larger one, so the numbering itself is one order to run them in.
 *
 * Edges come from three places: what plugins declare, the order of reads and writes of one object (a value, a
 * temporary, a cache), and memory: two regions that share bytes are safe in every order only if every task that uses
 * the one precedes every task that uses the other. tni_taskgraph_share adds the edges that are missing for that.
 *
 * Memory of a graph is malloc'd. No function keeps what it is given. Any thread.
 */
#ifndef TENON_PLACE_TASKGRAPH_H
#define TENON_PLACE_TASKGRAPH_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* A graph with more tasks has no reachability (n^2 bits): it runs as a chain. */
enum { TNI_REACH_MAX = 16384 };

typedef struct tni_edge {
  uint32_t from, to;
} tni_edge;

/* Grows; zero is empty; free(v) is the caller's. */
typedef struct tni_edges {
  tni_edge *v;
  uint32_t n, cap;
} tni_edges;
/* false: no memory. */
TN_MUST_CHECK bool tni_edges_add(tni_edges *e, uint32_t from, uint32_t to);

typedef struct tni_taskgraph {
  uint32_t n, n_edges;
  uint32_t *first; /* [n + 1]: task t waits for pred[first[t]] .. pred[first[t + 1] - 1], ascending, each once */
  uint32_t *pred;  /* [n_edges] */
  uint64_t id;     /* of this process's graphs, never 0 nor given twice: what is derived from a graph knows it again by
                    * this. Its arrays' addresses may be those of one that is gone. */
} tni_taskgraph;

/* TN_E_INVALID: an edge that does not point forward. */
TN_MUST_CHECK tn_status tni_taskgraph_make(uint32_t n, const tni_edge *edges, uint32_t n_edges, tni_taskgraph *out);
/* Every task waits for the one before it. */
TN_MUST_CHECK tn_status tni_taskgraph_chain(uint32_t n, tni_taskgraph *out);
/* Renumbers: position p of the new graph is task order[p]. TN_E_INVALID: order is no topological one. */
TN_MUST_CHECK tn_status tni_taskgraph_permute(const tni_taskgraph *g, const uint32_t *order, tni_taskgraph *out);
void tni_taskgraph_destroy(tni_taskgraph *g);

/* One use of an object by a task: TN_READ, TN_WRITE, TN_APPEND. */
typedef struct tni_access {
  uint32_t task, object, access;
} tni_access;
/* Adds the edges that keep reads and writes of every object in the order of the list: a reader waits for the last
 * writer, a writer for the last writer and all readers since. a is sorted by task; objects are < n_objects. */
TN_MUST_CHECK tn_status tni_taskgraph_hazards(const tni_access *a, uint32_t n, uint32_t n_objects, tni_edges *out);

/* Row t has bit a set when a precedes t. */
typedef struct tni_reach {
  uint32_t n, words;
  uint64_t *row;
} tni_reach;
/* TN_E_LIMIT: more than TNI_REACH_MAX tasks. */
TN_MUST_CHECK tn_status tni_reach_make(const tni_taskgraph *g, tni_reach *out);
void tni_reach_destroy(tni_reach *r);
static inline bool tni_precedes(const tni_reach *r, uint32_t a, uint32_t b) {
  return r->row[(size_t)b * r->words + a / 64] >> (a % 64) & 1;
}

/* Memory and the tasks that use it. serial: lives with the same number, not 0, are never in use at once whatever the
 * order: scratch of tasks of an engine that runs one task at a time. */
typedef struct tni_life {
  const uint32_t *tasks; /* [n_tasks] ascending, at least one */
  uint32_t n_tasks, serial;
  uint64_t bytes, align, offset;
} tni_life;

/* out: g and the edges that make the offsets of the lives safe in every order that out allows. TN_E_INTERNAL: two lives
 * share bytes and neither ends before the other begins: no edge can mend that. */
TN_MUST_CHECK tn_status tni_taskgraph_share(const tni_taskgraph *g, const tni_life *lives, uint32_t n,
                                            tni_taskgraph *out);

#endif
