/* SPDX-License-Identifier: Apache-2.0
 *
 * The child's side: one plugin in a process of its own, which does what the host says until the host is gone.
 *
 * Threads: the control thread (calls), the run thread (CPU tasks, over a pool of the child's own), one per engine, and
 * one that ends the process when the host's end of the channel closes, whatever the plugin is doing.
 */
#ifndef TENON_PLUGIN_HELPER_SERVE_H
#define TENON_PLUGIN_HELPER_SERVE_H

#include <pthread.h>

#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/process.h"

enum { TNI_SRV_BROKEN = 3 }; /* exit status: the host said something that is no message, or there is no memory */

/* Serves the host at the other end of `channel`. What the process exits with. */
int tni_isolate_serve(int channel);

/* Objects that the host names by number. */
typedef struct tni_srv_table {
  void **v;
  uint32_t n, free; /* free: of them NULL */
} tni_srv_table;

typedef struct tni_srv_piece {
  uint32_t id;
  char *base;
  uint64_t bytes;
} tni_srv_piece;

typedef struct tni_srv_view {
  tn_view v;
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} tni_srv_view;

typedef struct tni_srv_graph {
  struct tni_srv_graph *next;
  uint64_t key[2];
  uint32_t users; /* programs */
  tni_wgraph_copy copy;
} tni_srv_graph;

typedef struct tni_srv_blob {
  tn_blob b;
  uint32_t id; /* the host's, for read */
  int64_t params[16];
} tni_srv_blob;

typedef struct tni_srv_program {
  tn_program *p;
  tn_device *d;
  tni_srv_graph *graph;
  tni_arena *arena;
  const tn_program_info *info;
  tni_srv_view *set; /* [n_slots] */
} tni_srv_program;

typedef struct tni_srv_plan {
  tn_plan *p;
  tni_srv_program *program;
  uint32_t task;
} tni_srv_plan;

typedef struct tni_srv_args {
  tn_args *a;
  tni_srv_plan *plan;
  uint32_t n;
  tni_srv_view views[];
} tni_srv_args;

typedef struct tni_srv_pack {
  tn_pack *p;
  const tn_format *f;
  tni_arena *arena;
  int64_t N;
  uint32_t unit;
} tni_srv_pack;

typedef struct tni_srv_buffer {
  tn_buffer *b;
  tn_device *d;
} tni_srv_buffer;

typedef struct tni_srv_engine {
  struct tni_srv *s;
  tn_device *d;
  uint32_t engine, number; /* number: the host's, for its word in the page */
  int socket;
} tni_srv_engine;

enum { TNI_SRV_PROGRAMS, TNI_SRV_PLANS, TNI_SRV_ARGS, TNI_SRV_PACKS, TNI_SRV_BUFFERS, TNI_SRV_TABLES };

typedef struct tni_srv {
  int channel, control;
  tni_iso_page *page;
  char *window;
  pthread_mutex_t send, ask,
      lock; /* channel; a question under way; tables, for other threads than the control thread */
  _Atomic uint64_t events;
  uint32_t asked;
  tni_loaded *l;
  tni_pool *pool;
  tni_arena *arena;
  tni_log log;
  tni_srv_table tables[TNI_SRV_TABLES];
  tni_srv_piece *pieces;
  uint32_t n_pieces;
  tni_srv_graph *graphs;
  tni_srv_engine engines[TNI_ISO_ENGINES];
  uint32_t n_engines;
  tni_waker waker;
  tn_ticket **tickets; /* by the host's number */
  uint32_t n_tickets;
} tni_srv;

/* One call: reads r, writes the answer's body. The status is the call's, err what the plugin said. */
typedef tn_status (*tni_srv_call)(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);

/* serve_state.c */
void *tni_srv_get(tni_srv *s, uint32_t table, uint32_t id); /* NULL: none */
bool tni_srv_add(tni_srv *s, uint32_t table, void *p, uint32_t *id);
void *tni_srv_take(tni_srv *s, uint32_t table, uint32_t id);
void *tni_srv_at(tni_srv *s, uint32_t piece, uint64_t offset, uint64_t bytes); /* NULL: not mapped */
void tni_srv_event(tni_srv *s, uint32_t kind, const tni_wire *w);
/* Asks the host; *out is the piece of the window with n bytes, until tni_srv_answered. */
tn_status tni_srv_ask(tni_srv *s, uint32_t kind, const tni_wire *w, uint64_t n, const void **out);
void tni_srv_answered(tni_srv *s);
tn_device *tni_srv_device(tni_srv *s, uint32_t index);
const tn_format *tni_srv_format(tni_srv *s, uint32_t index);
/* The one server of this process, for what plugins call back. */
tni_srv *tni_srv_self(void);

tn_status tni_srv_map(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_unmap(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);

/* serve_format.c */
tn_status tni_srv_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst);
extern const tni_weight_readers tni_srv_readers;
bool tni_srv_get_blob(tni_srv *s, tni_rd *r, tni_srv_blob *out);
tn_status tni_srv_size(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_numerics(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_pack_begin(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_pack_rows(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_pack_end(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_unpack(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);

/* serve_graph.c */
tn_status tni_srv_graph_in(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_claim(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_lower(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_release(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);

/* serve_run.c */
tn_status tni_srv_measure(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_set(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_bind(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_unbind(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_args_new(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_args_set(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_args_free(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_create(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_destroy(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
tn_status tni_srv_buf_map(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);
void *tni_srv_run_thread(void *srv);
tn_status tni_srv_engine_new(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err);

#endif
