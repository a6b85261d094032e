/* SPDX-License-Identifier: Apache-2.0
 *
 * mirror: shared by its files. See README.md.
 */
#ifndef TENON_TESTS_MIRROR_H
#define TENON_TESTS_MIRROR_H

#include <pthread.h>
#include <stdbool.h>

#include <tenon/plugin.h>

enum { MIRROR_ALIGN = 256 };

/* What the plugin keeps beside the skeleton's tables. */
typedef struct mirror {
  tn_plugin *inner;
  const tn_option *options[11]; /* the inner device's, and ours */
  tn_engine engine;
  const tn_engine *engines[1];
  const char *layout;
  int64_t coherent, every, fail_create, ring, count, stray;
} mirror;

enum { MIRROR_TILED = 0x6d69 }; /* its dma-bufs are not linear, as it says */

/* A range that the host has. */
typedef struct mirror_map {
  struct mirror_map *next;
  unsigned char *shadow;
  uint64_t offset, bytes;
  uint32_t access;
} mirror_map;

typedef struct mirror_buffer {
  tn_buffer pub;
  struct mirror_buffer *next; /* of the device's */
  unsigned char *bytes;
  uint64_t room; /* whole pages; 0: not ours (imported pointer) */
  int fd;
  bool host;    /* made to be mapped */
  bool weights; /* never closed: there are many */
  bool cache;
  mirror_map *maps;
} mirror_buffer;

typedef struct mirror_device {
  tn_device pub;
  mirror *plugin;
  tn_device *inner;
  const tn_host *host;
  pthread_mutex_t lock; /* an item runs, or memory is mapped */
  mirror_buffer *buffers;
  int64_t created, items;
  uint64_t fetched, sent; /* bytes of caches that went through maps, out of the device and into it */
} mirror_device;

tn_status mirror_fail(tn_error *err, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);

/* memory.c */
tn_status mirror_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
tn_status mirror_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
void mirror_destroy(tn_buffer *b);
tn_status mirror_map_range(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
tn_status mirror_unmap(tn_buffer *b, void *ptr, tn_error *err);
/* Where the device has the view; TN_E_INVALID: it is none of this device's memory, or does not fit. */
tn_status mirror_locate(const mirror_device *d, const tn_view *v, void **at, tn_error *err);
/* Some of the view is mapped. */
bool mirror_is_mapped(const tn_view *v);
/* Opens or closes all memory. With the lock held. */
void mirror_open(const mirror_device *d, bool open);

/* program.c */
tn_status mirror_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status mirror_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *mirror_info(const tn_program *p);
tn_status mirror_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status mirror_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
void mirror_release(tn_program *p);
tn_status mirror_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void mirror_unbind(tn_plan *plan);
tn_status mirror_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status mirror_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void mirror_args_free(tn_args *a);
tn_status mirror_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);
tn_status mirror_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err);

#endif
