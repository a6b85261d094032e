/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer itself. Private to the room.
 */
#ifndef TENON_CONFORM_OBSERVE_LAYER_H
#define TENON_CONFORM_OBSERVE_LAYER_H

#include <pthread.h>

#include "runtime/conform/observe/observe.h"

typedef struct layer {
  tn_device pub;
  tn_device *real;
  struct layer *next;
  pthread_mutex_t lock;
  uint32_t refuse; /* what a third of the yeses become no by; 0: none */
  char wrong[320];
} layer;

/* Functions that get no device ask for any layer of the process: in a case all lie over devices of one plugin. */
layer *tni_obs_any(void);
void tni_obs_add(layer *l);
void tni_obs_remove(layer *l);
static inline layer *layer_of(tn_device *d) { return (layer *)(void *)d; }
/* The first is kept. */
void tni_obs_wrong(layer *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A copy of g for a call, and the bytes that it takes of a loan. */
size_t tni_obs_graph_bytes(const tn_graph *g);
const tn_graph *tni_obs_lend_graph(tni_cf_loan *l, const tn_graph *g);

/* A copy of the growing struct at p, which had `oldest` bytes in ABI 1.0, as tni_cf_observe_structs says. Takes
 * TNI_OBS_MORE bytes of the loan beside its own. */
enum { TNI_OBS_MORE = 64 };
void *tni_obs_lend_struct(tni_cf_loan *l, const void *p, size_t oldest);
/* p, or where structs are lent as of another version a copy that stays until the process ends. */
const void *tni_obs_keep_struct(const void *p, size_t oldest);
/* Whether structs are lent as ABI 1.0 had them. */
bool tni_obs_is_old(void);
/* What the header of a plugin's struct says. */
void tni_obs_header(layer *l, const void *p, const char *what, size_t oldest, size_t now);
/* What stands in a reserved field. */
void tni_obs_reserved(layer *l, const char *what, uint32_t now);
void tni_obs_program(layer *l, const tn_program_info *f);

/* A tn_error of the kit's own for a call, and what came of it: copied to err. */
typedef struct tni_obs_lent_error {
  tn_error error;
  uint8_t after[64];
  tn_hdr lent;
} tni_obs_lent_error;
tn_error *tni_obs_error(tni_obs_lent_error *e, const tn_error *err);
void tni_obs_error_over(layer *l, const char *call, tn_status st, tni_obs_lent_error *e, tn_error *err);

/* A call that fails hands out nothing. */
void tni_obs_nothing(layer *l, const char *call, tn_status st, void *out);

/* A task that reads what another writes or appends, and does not wait for it, is wrong. g: the graph that was lowered. */
void tni_obs_order(layer *l, const tn_graph *g, const tn_program_info *f);
/* What hangs on a program lives as long as that: nothing of it lies in what was lent to lower. */
void tni_obs_own(layer *l, const tni_cf_loan *lent, const tn_program_info *f);

tn_status tni_obs_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
tn_status tni_obs_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
void tni_obs_destroy(tn_buffer *b);
tn_status tni_obs_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
tn_status tni_obs_unmap(tn_buffer *b, void *ptr, tn_error *err);

#endif
