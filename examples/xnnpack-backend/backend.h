/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend over XNNPACK (Debian's libxnnpack-dev). What its files share:
 *
 *   read.c     what a node means: convolutions, what clamps their results, and products of bytes, as one `step` each
 *   operands.c which constants an operator takes: floats, or bytes with their scales and zero points
 *   claim.c    which nodes it takes, and why not the others
 *   program.c  needs, slots and tasks
 *   weights.c  XNNPACK's operators, made once of the constants
 *   plan.c     a task at fixed sizes: copies from one form to another, offsets of what lies between the steps
 *   run.c      arguments and execution
 *   device.c   memory and entry
 *
 * Images between the steps of one task have their channels last. XNNPACK reads up to XNN_EXTRA_BYTES past what it is
 * given, so that everything it reads is scratch, with room after it.
 *
 * Bytes: XNNPACK has an operator for int8 with a scale per output channel of the weight, whose zero points are 0 (QC8), and
 * one for uint8 with one scale and any zero point (QU8). ONNX mixes both types. A byte with its upper bit flipped is the
 * same number of the other type, less or plus 128: so are values, weights and zero points brought to the operator's type. */
#ifndef XNNPACK_BACKEND_H
#define XNNPACK_BACKEND_H

#include <tenon/attrs.h>
#include <tenon/plugin.h>
#include <xnnpack.h>

enum { SLICES = 4 };

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
} device;

/* Constants of a step, TN_NONE where there is none. The first are inputs 1 to 8 of QLinearConv in their order. */
enum { X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS, LOW, HIGH, CONSTANTS };

/* How a value lies: bits. The host's are dense and of the value's own type. */
enum { LAST = 1 /* images with their channels last */, SIGNED = 2 /* int8 rather than uint8 */, FORMS = 4 };

typedef struct step {
  enum { F32, QU8, QC8 } kind; /* of XNNPACK's operator; types and shapes alone say which */
  tn_id x, y, constants[CONSTANTS];
  int relu;
  int64_t C, OC, groups, kernel[2], stride[2], dilation[2], pads[4];
  int same;                        /* auto_pad SAME_UPPER */
  int matrix;                      /* a product: every row is an image of one pixel */
  int kn;                          /* its weight is [K,N], not [N,K] */
  uint32_t form, x_host, y_host;   /* what it reads and writes, and what the host has of x and y */
  unsigned char flip_w;            /* the weight's bytes XOR this are of the operator's type */
  tn_expr x_dims[TN_MAX_RANK], y_dims[TN_MAX_RANK];
  uint32_t x_rank, y_rank;
  uint32_t slices;           /* of the result's channels */
  xnn_operator_t op[SLICES]; /* one a slice. They hold packed weights, and where they last ran: one item at a time */
  tn_id nodes[2];
  uint32_t n_nodes;
} step;

/* Bytes of an element of its images and weights. */
static inline size_t size_of(const step *s) { return s->kind == F32 ? sizeof(float) : 1; }
/* What brings a byte from form a to form b, by XOR. */
static inline unsigned char flip(uint32_t a, uint32_t b) { return (a ^ b) & SIGNED ? 0x80 : 0; }

tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) TN_PRINTF(3, 4);

/* read.c. Reads node n, and what follows it (TN_NONE: nothing), as a step; or gives a reason and a text. */
uint32_t read_step(const device *d, const tn_graph *g, tn_id n, tn_id next, step *s, const char **text);
/* The node that may be computed with n: the only reader of its result, TN_NONE where there is none. */
tn_id follower(const tn_graph *g, tn_id n);
/* A dim that is a number. */
int fixed_dim(const device *d, const tn_graph *g, tn_id v, uint32_t i, int64_t *out);

/* operands.c. Whether an operator of XNNPACK takes the constants of s, whose C and OC are known; sets kind and forms. */
uint32_t read_floats(const device *d, const tn_graph *g, step *s, const char **text);
uint32_t read_bytes(const device *d, const tn_graph *g, step *s, const char **text);
int is_constant(const tn_graph *g, tn_id v, uint32_t dtype);

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
};
tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
void release(tn_program *p);

/* weights.c */
tn_status set_memory(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);

/* plan.c */
typedef struct place { /* where an operand lies, before there is memory */
  enum { NOWHERE, USE, SCRATCH } in;
  uint32_t index; /* of the use */
  uint64_t offset;
} place;
typedef struct action {
  const step *step;   /* whose operand or result is copied, or that is executed */
  int copies;         /* from one form to another */
  int64_t n, c, h, w; /* of what is read */
  uint32_t from_form, to_form;
  place from, to;
} action;
struct tn_plan {
  tn_program *program;
  uint32_t task, n_actions;
  uint64_t scratch_bytes;
  action *actions;
};
tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void unbind(tn_plan *plan);

/* run.c */
tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void args_free(tn_args *a);
tn_status submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run, tn_error *err);

/* device.c. Where a view lies; NULL for one without memory. */
unsigned char *at(const tn_view *v);
#endif
