/* SPDX-License-Identifier: Apache-2.0
 *
 * The vtables of an isolated plugin: what registry, place and session see instead of the plugin's own. What they stand
 * for is opaque to the host (tn_program and the like) is ours here.
 */
#ifndef TENON_PLUGIN_PROCESS_PROXY_H
#define TENON_PLUGIN_PROCESS_PROXY_H

#include "runtime/base/base.h"
#include "runtime/plugin/process/conn.h"

typedef struct tni_iso tni_iso;

typedef struct tni_iso_format {
  tn_format pub;
  tni_iso *p;
  uint32_t index;
  struct tni_iso_numerics *known; /* answers of numerics_of, under p->lock */
  struct tni_iso_size *sizes;     /* answers of size, under p->lock */
} tni_iso_format;

/* Numbers are the host's: which word of the page is the engine's. */
typedef struct tni_iso_engine {
  int socket; /* -1: not yet */
  uint32_t number;
} tni_iso_engine;

typedef struct tni_iso_device {
  tn_device pub;
  tni_iso *p;
  uint32_t index;
  bool shares;                 /* the plugin's device imports descriptors: its memory is a piece that both have */
  tni_iso_engine engine[TNI_ISO_ENGINES];
} tni_iso_device;

struct tni_iso {
  tn_plugin pub;
  tni_isolate_opts o;
  tni_conn *c;
  tni_arena *arena; /* under lock once there is more than one thread */
  pthread_mutex_t lock;
  tni_iso_format *formats;
  const tn_format **format_list;
  tni_iso_device *devices;
  const tn_caps **caps;
  uint32_t n_devices, n_engines; /* n_engines: numbers given, under lock */
  uint32_t *sent, n_sent, cap_sent; /* pieces that the child has, under lock */
  _Atomic uint64_t runs, copied;
};

/* The piece is in the child now. */
TN_MUST_CHECK tn_status tni_iso_send_piece(tni_iso *p, const tni_shm_at *at, tn_error *err);
/* Pieces that are gone here leave the child. */
void tni_iso_sweep(tni_iso *p);
/* A piece of our own, in the child. */
void *tni_iso_alloc(tni_iso *p, uint64_t bytes, tni_shm_at *at, tn_error *err);
/* Constant memory for the child: shared already, in a file that is mapped there too, or copied. *own: to be given back
 * with tni_iso_drop, ids and all. */
typedef struct tni_iso_const {
  uint32_t piece;
  uint64_t offset;
  void *copy;  /* of ours, or NULL */
  bool mapped; /* the piece is a file's: the child unmaps it when it is dropped */
} tni_iso_const;
TN_MUST_CHECK tn_status tni_iso_const_get(tni_iso *p, const void *ptr, uint64_t bytes, tni_iso_const *out,
                                          tn_error *err);
void tni_iso_const_drop(tni_iso *p, tni_iso_const *k);

/* proxy_format.c */
void tni_iso_format_fill(tni_iso *p, tni_iso_format *f, uint32_t index, bool numerics_of);
/* format, N, K, bytes, params and where it is. at: NULL: the child asks for `id`. */
void tni_iso_put_blob(tni_wire *w, const tn_blob *b, const tni_iso_const *at, uint32_t id);
const tn_format *tni_iso_format_at(const void *iso, uint32_t index);

/* proxy_device.c */
/* most: the items that each engine may have at once. False: without memory. */
TN_MUST_CHECK bool tni_iso_device_fill(tni_iso *p, tni_iso_device *d, uint32_t index, const tn_caps *caps, bool buffers,
                                       uint32_t most);

/* proxy_graph.c */
tn_status tni_iso_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status tni_iso_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *tni_iso_info(const tn_program *p);
void tni_iso_release(tn_program *p);

/* proxy_memory.c */
typedef struct tni_iso_buffer {
  tn_buffer pub;
  uint32_t id, n_maps;
  char *mem; /* the piece, or what is copied through */
  tni_shm_at at;
  struct {
    void *ptr;
    uint64_t offset, n;
    uint32_t access;
  } maps[64];
} tni_iso_buffer;
tn_status tni_iso_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
tn_status tni_iso_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
void tni_iso_destroy(tn_buffer *b);
tn_status tni_iso_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
tn_status tni_iso_unmap(tn_buffer *b, void *ptr, tn_error *err);

/* What is opaque. */
struct tn_program {
  tni_iso_device *d;
  tni_arena *arena;
  uint32_t id;
  const tn_program_info *info;
  tni_iso_const *consts; /* [n_slots] what set() shared */
  uint32_t *offered;     /* [n_slots] blobs that the child reads through us */
};
struct tn_plan {
  tn_program *program;
  uint32_t id, task;
};
typedef struct tni_iso_use {
  void *ptr; /* the host's; NULL: nothing to copy */
  uint64_t bytes, room;
  void *stage; /* a piece of ours for what does not lie in shared memory, or NULL */
  tni_shm_at at;
  uint32_t access;
} tni_iso_use;
struct tn_args {
  tn_plan *plan;
  uint32_t id, n, copies; /* uses that are copied around runs */
  tni_iso_use use[];
};

#endif
