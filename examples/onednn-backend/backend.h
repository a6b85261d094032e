/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend over oneDNN (libdnnl 2.6 or newer of major 2). What its files share:
 *
 *   read.c     what a node means: convolutions, pools, products and the chains after them, as one `step` each
 *   claim.c    which nodes it takes, and why not the others
 *   program.c  needs, slots and tasks
 *   weights.c  constants, reordered once into private memory
 *   plan.c     a task at fixed sizes: oneDNN primitives, conversions of layout, offsets of what lies between them
 *   run.c      arguments and execution
 *   device.c   memory and entry
 *
 * Images between the steps of one task are in oneDNN's blocked layout, channels filled up with zeros to whole blocks. */
#ifndef ONEDNN_BACKEND_H
#define ONEDNN_BACKEND_H

#include <oneapi/dnnl/dnnl.h>
#include <tenon/attrs.h>
#include <tenon/plugin.h>

enum { MAX_POSTS = 12, MAX_OPERANDS = 5 + MAX_POSTS, SLICES = 4 };

typedef struct backend {
  tn_plugin pub; /* first: the host's pointer is ours */
  const tn_host *host;
  tn_engine engine;
  const tn_engine *engines[1];
  tn_caps caps;
} backend;

typedef struct device {
  tn_device pub;
  const tn_host *host;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int64_t block; /* channels of a block: 16 with AVX-512, else 8 */
} device;

/* One operator after a convolution or product. Binary ones have an operand: one element, one per column, or all. */
enum { ONE = 1, COLUMN = 2, ALL = 3 };
typedef struct post {
  dnnl_alg_kind_t alg;
  float alpha, beta;
  tn_id other; /* value, or TN_NONE: element by element */
  uint32_t shape;
  uint64_t constant_at; /* where `other` is a constant: its offset in private memory */
  int constant;
} post;

typedef enum step_kind { CONV = 1, POOL = 2, PRODUCT = 3 } step_kind;
/* How a convolution's channels go: as one piece, in groups of whole blocks, one by one, or in plain layout. */
typedef enum step_form { DENSE = 1, GROUPED = 2, DEPTHWISE = 3, PLAIN = 4 } step_form;

typedef struct step {
  step_kind kind;
  step_form form;
  tn_id x, y, w, bias; /* bias: TN_NONE where there is none */
  uint32_t n_posts;
  post posts[MAX_POSTS];
  /* images */
  int64_t C, OC, groups, kernel[2], stride[2], dilation[2], pads[4];
  uint32_t auto_pad; /* TN_WORD_CONV_AUTO_PAD_*; 0 and NOTSET: pads count */
  dnnl_alg_kind_t alg;
  int plain_x, plain_y;
  /* products */
  int64_t K, N;
  int transposed; /* w is stored [N,K] */
  /* The weight of each slice in private memory, as oneDNN wants it. */
  uint32_t slices;
  dnnl_memory_desc_t packed;
  uint64_t packed_at, packed_bytes, bias_at; /* offsets in private memory; all slices lie side by side */
  tn_expr x_dims[TN_MAX_RANK], y_dims[TN_MAX_RANK];
  uint32_t x_rank, y_rank;
  tn_id nodes[2];
  uint32_t n_nodes;
} step;

static inline int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);

/* read.c. Reads node n, and what follows it (TN_NONE: nothing), as a step; or gives a reason and a text. */
uint32_t read_step(const device *d, const tn_graph *g, tn_id n, tn_id next, step *s, const char **text);
/* The node that may be computed with n: the only reader of its result, TN_NONE where there is none. */
tn_id follower(const tn_graph *g, tn_id n);

/* claim.c */
tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);

/* program.c */
typedef struct constant { /* raw, and the step that reads it */
  tn_need need;
  tn_slot slot;
  tn_id value;
  const void *ptr; /* from set() */
  uint64_t bytes;
} constant;
typedef struct part { /* a task: steps [first, first + n) */
  tn_task task;
  char name[64]; /* of its first node: a copy, as the graph is lent for lower() only */
  tn_use *uses;
  uint32_t first, n;
  tn_id before;
} part;
struct tn_program {
  device *device;
  tn_graph graph; /* ctx and n_values of the host's: what host->eval wants later */
  tn_program_info info;
  const tn_need **needs;
  const tn_slot **slots;
  const tn_task **tasks;
  tn_slot *value_slots;
  uint32_t n_value_slots;
  tn_id *slot_of; /* [value] */
  constant *constants;
  part *parts;
  step *steps;
  uint32_t n_steps, n_constants;
  unsigned char *memory; /* private, from set() */
  uint64_t private_bytes;
};
tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
void release(tn_program *p);

/* weights.c */
tn_status set_memory(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);

/* plan.c */
typedef struct place { /* where an operand lies, before there is memory */
  enum { NOWHERE, USE, SCRATCH, PRIVATE } in;
  uint32_t index; /* of the use */
  uint64_t offset;
} place;
typedef struct operand {
  int arg; /* DNNL_ARG_* */
  place at;
  uint64_t per_image, per_slice; /* bytes */
} operand;
typedef struct action { /* images * slices jobs, which do not meet */
  enum { EXECUTE, TO_BLOCKS, FROM_BLOCKS, TO_COLUMNS, FROM_COLUMNS } what;
  uint32_t n_operands;
  dnnl_primitive_t primitive;
  int64_t images, slices, channels, pixels; /* the last two where layouts change; of columns: in a slice, and rows */
  operand *operands;
} action;
struct tn_plan {
  tn_program *program;
  uint32_t task, n_actions, n_operands, n_memories; /* memory objects of all jobs */
  uint64_t scratch_bytes;
  action *actions;
  operand *operands;
};
tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void unbind(tn_plan *plan);
/* Descriptors. A weight of one slice: format any, or as it was chosen. nominal: any sizes, to choose it. */
dnnl_status_t describe_conv(const device *d, const step *s, const int64_t xy[2], const int64_t out[2],
                            const dnnl_memory_desc_t *w, dnnl_primitive_desc_t *pd);
dnnl_status_t describe_product(const device *d, const step *s, int64_t rows, const dnnl_memory_desc_t *w,
                               dnnl_primitive_desc_t *pd);

/* run.c */
tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void args_free(tn_args *a);
tn_status submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run, tn_error *err);

/* device.c. Where a view lies; NULL for one without memory. */
unsigned char *at(const tn_view *v);
/* oneDNN asks OpenMP how many threads it may use: one, in every thread that calls it. The caller may use OpenMP too, so
 * what was is put back. */
int one_thread(void);
void as_before(int threads);
#endif
