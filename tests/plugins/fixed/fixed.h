/* SPDX-License-Identifier: Apache-2.0
 *
 * fixed: shared by its files. See README.md.
 */
#ifndef TENON_TESTS_FIXED_H
#define TENON_TESTS_FIXED_H

#include <pthread.h>
#include <stdbool.h>

#include <tenon/plugin.h>

enum { FIXED_DEPTH = 2, FIXED_ENGINES = 2 };

/* The mistakes that option `wrong` chooses from; tests/conform/fixed.txt says what each is. */
/* clang-format off */
#define FIXED_WRONGS(X) \
  X(none) X(sub) X(gelu) X(swish) X(chain_sub) X(chain_gelu) X(chain_swish) X(scale) X(softcap) X(mask) X(window) \
  X(int8_scale) X(int8_softcap) X(int8_mask) X(int8_window) X(symbols) X(drops) X(refuses) X(decode) X(older) X(one_row) \
  X(ok_apart) X(apart_softcap) X(ok_codes) X(fence_early) X(fence_late) X(fence_one) X(fence_half) X(fence_line) \
  X(fence_cancelled) X(fence_lost) X(wait_none) X(wait_first) X(wait_half) X(wait_kept) X(wait_second) X(wait_queued) \
  X(cancel_early) X(masked_cap) X(all_keys) X(plan_kept) X(args_moved) X(program_kept) X(cancel_all) X(cancel_first) \
  X(cancel_other) X(abandon_waits) \
  X(abandon_frees) X(abandon_destroys) X(left_frees) X(signals) \
  X(left_stays) X(appends_unnamed) X(name_lent) X(map_adds) X(blind_kept) X(ok_long) X(long_run) \
  X(ok_kept) X(kept_scale) \
  X(ok_sections) X(sect_overlap) X(sect_misaligned) X(sect_beyond) X(sect_cap) X(sect_slot) X(sect_whole) X(ok_tiles) \
  X(ok_host_need) X(host_buffer) X(ok_cpu_need) X(ok_temp_less) X(ok_private) X(private_grows) \
  X(ok_shares) X(share_copies) X(import_copies) X(import_closes) X(import_frees)
/* clang-format on */
#define X(name) FIXED_##name,
enum { FIXED_WRONGS(X) FIXED_N_WRONGS };
#undef X

/* One engine: a queue and its thread. */
struct fixed_device;
typedef struct fixed_queue {
  struct fixed_device *device;
  pthread_t worker;
  tn_args *first, *last, *now; /* now: that it works on */
  uint32_t in_flight;
} fixed_queue;

typedef struct fixed_device {
  tn_device pub;
  tn_device *inner; /* the built-in one */
  const tn_host *host;
  const tn_format *format; /* the plugin's */
  uint32_t wrong;
  bool old; /* a host of ABI 1.0: no sets of lengths */
  pthread_mutex_t lock; /* of what follows, and of the links of args */
  pthread_cond_t news;
  fixed_queue queues[FIXED_ENGINES];
  uint64_t items, lose_at; /* those that were begun; the one that is lost, or 0 */
  bool stop, lost, given_up;
  bool hangs; /* an item was given up that is not over: nothing that it may touch is freed any more */
  tn_program *latest; /* of the mistake program_kept */
} fixed_device;

tn_status fixed_fail(tn_error *err, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);
uint32_t fixed_wrong_of(const char *name); /* plugin.c: FIXED_... */

/* packed.c: the format of constant matrices that it has attached without their header. */
typedef struct fixed_format {
  tn_format pub;
  const tn_host *host;
} fixed_format;
enum { FIXED_HEAD = 64, FIXED_ROWS_SECTION = 2 };
void fixed_format_fill(fixed_format *f, const tn_host *host);
/* Whether it packs v of the graph: a matrix that nothing but products multiply with. */
bool fixed_packs(const fixed_device *d, const tn_graph *g, tn_id v);
static inline bool fixed_is_sections(uint32_t wrong) { return wrong >= FIXED_ok_sections && wrong <= FIXED_ok_tiles; }
static inline bool fixed_is_shares(uint32_t wrong) { return wrong >= FIXED_ok_shares && wrong <= FIXED_import_frees; }

/* claim.c */
tn_status fixed_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);

/* wrong.c: nodes as the chosen mistake reads them; NULL where it reads them right, or without memory. */
typedef struct fixed_misread fixed_misread;
fixed_misread *fixed_misread_make(const fixed_device *d, const tn_subgraph *s, tn_subgraph *out);
void fixed_misread_free(fixed_misread *m);

/* codes.c: a query that attention reads as codes. */
typedef struct fixed_codes {
  const float *from;
  float *room;
  uint64_t n, size; /* floats, and those of a head */
} fixed_codes;
/* TN_NONE: it reads them as they are. keys: what it is multiplied with. */
tn_id fixed_codes_query(const fixed_device *d, const tn_subgraph *s, tn_id *keys);
/* Gives the view the room in which the codes will be; false: no memory. */
bool fixed_codes_attach(fixed_codes *c, tn_view *v);
void fixed_codes_make(const fixed_codes *c);

/* program.c */
tn_status fixed_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
void fixed_program_fill(tn_device *d);
/* claim.c: the value whose rows are those of the run, or NULL. */
const tn_value *fixed_rows_of(const tn_graph *g, const tn_node *n);
/* Computes what the arguments say. */
tn_status fixed_compute(tn_args *a, tn_error *err);

/* engine.c */
typedef struct fixed_item {
  tn_args *next;
  tn_ticket *ticket;
  tn_fence *waits; /* [n_waits] room for room_waits, kept for the next time */
  const tn_fence *const *theirs; /* of the mistake wait_kept */
  tn_fence signal; /* word NULL: none */
  uint32_t n_waits, room_waits;
  bool cancelled;
} fixed_item;
bool fixed_hangs(fixed_device *d);
/* The arguments may be freed: their item is over, or out of its queue. */
bool fixed_let_go(fixed_device *d, tn_args *a);
fixed_item *fixed_item_of(tn_args *a); /* program.c: the place in the queue that arguments have */
bool fixed_engine_start(fixed_device *d);
void fixed_engine_stop(fixed_device *d);
void fixed_engine_fill(tn_device *d);
tn_status fixed_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);

#endif
