/* SPDX-License-Identifier: Apache-2.0
 *
 * The host device at the ABI. It is a plugin like any other: what it must know of the core's graph beyond that it asks
 * through an extension (core_graph.h), and a program holds copies of the nodes and values that it runs (keep.c): the
 * graph is lent for the call of lower(). What the extension gives of a constant lives as long as the graph.
 *
 * One task per node on engine 0. Values from outside are INPUT or STEP slots, values read outside OUTPUT, the others
 * TEMP; the two values of a cache are one STATE slot, which TensorScatter appends to and others read; every constant
 * that a kernel reads is a raw need and a WEIGHT slot. Inputs that only shape rules read have no slot. All memory comes
 * from tn_host.alloc; run() allocates nothing.
 */
#ifndef TENON_HOST_DEVICE_H
#define TENON_HOST_DEVICE_H

#include "runtime/graph/graph.h"
#include "runtime/ops/kernel/kernel.h"

typedef struct tni_host_plugin {
  tn_plugin pub;
  const tn_host *host;
} tni_host_plugin;

typedef struct tni_host_device {
  tn_device pub;
  const tn_host *host;
  const tni_core_graph *core; /* never NULL */
  bool no_matmul;
} tni_host_device;

/* Host memory that dies together. Arrays are cut from blocks, which double from 1 KiB to 64 KiB: a block per array
 * would take a header of 64 bytes or more for each name and each list of operands. Begins as {.host = ...}. */
typedef struct tni_hblock tni_hblock;
typedef struct tni_hpool {
  const tn_host *host;
  tni_hblock *first;
  unsigned char *at; /* room bytes from here are free, of the first block that is shared */
  size_t room, last; /* last: the bytes of that block */
} tni_hpool;
/* Zeroed, 16-byte aligned; NULL without memory or on overflow. */
void *tni_hpool_array(tni_hpool *p, size_t count, size_t size);
void tni_hpool_free(tni_hpool *p);

/* Copies on the pool, NULL without memory. Of a value: its type, dims, state and name. */
const tn_node *tni_hkeep_node(tni_hpool *p, const tn_node *from);
const tn_value *tni_hkeep_value(tni_hpool *p, const tn_value *from);

#define TNI_NO_USE UINT32_MAX

/* One operand of a task. use: index into the task's uses, or TNI_NO_USE (absent, or only its dims are read). */
typedef struct tni_hoperand {
  tn_id value; /* TN_NONE: absent */
  uint32_t use;
  const tn_value *of; /* the program's copy; NULL: absent */
} tni_hoperand;

typedef struct tni_htask {
  tn_task pub;
  const tn_node *node; /* the program's copy */
  tni_kernel_fn kernel;
  tni_hoperand *in, *out;
  bool dynamic;     /* only the run knows its dims; it is never bound */
  bool bounded;     /* a Conv whose only reader, Relu or Clip, is part of the task */
  bool skips_zeros; /* a product of rows that a Where made zeros */
  tni_bounds bounds;
  void *prepared; /* weights of a recurrent node as its kernel wants them, where they are constant; of the pool */
} tni_htask;

struct tn_program {
  tn_program_info info;
  tni_host_device *dev;
  tni_hpool pool;
  tn_graph graph; /* its head, for the host's eval: without nodes, values and symbols */
  tni_htask *tasks;
  tn_slot *slots;
  tn_need *needs;
  const tn_value **values;      /* [n_slots] copies of what the slots hold */
  const tni_tensor **constants; /* [n_slots] of weights: as the core keeps them; NULL: plain */
  tni_tensor *weights;          /* [n_slots]; data NULL until set() */
};

struct tn_plan {
  const tn_program *program;
  const tni_htask *task;
  tni_tensor *in, *out; /* concrete headers, data NULL */
  uint64_t scratch_bytes;
};

struct tn_args {
  const tn_plan *plan;
  tni_tensor *t; /* [n_in + n_out] */
  const tni_tensor **in;
  tni_tensor **out;
  int64_t (*strides)[TN_MAX_RANK]; /* of t, where the node has caches; else NULL */
  const int64_t **operand_strides; /* [n_in + n_out]; NULL where an operand is dense */
  void *scratch;
};

tn_status tni_hdev_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status tni_hdev_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *tni_hdev_info(const tn_program *p);
void tni_hdev_release(tn_program *p);
tn_status tni_hdev_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status tni_hdev_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
tn_status tni_hdev_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void tni_hdev_unbind(tn_plan *plan);
tn_status tni_hdev_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status tni_hdev_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void tni_hdev_args_free(tn_args *a);
tn_status tni_hdev_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);

/* Header (dtype, rank, dims, bytes) of v, a value of g or a copy of one, at dims. TN_E_INVALID where a dim is unknown
 * or negative. */
tn_status tni_hdev_header(const tn_host *host, const tn_graph *g, const tn_value *v, const tn_dims *dims, tni_tensor *t,
                          tn_error *err);
/* Multiply-accumulates of a product; 0 for other nodes. */
double tni_hdev_macs(const tn_node *node, const tni_tensor *in, uint32_t n_in, const tni_tensor *out);

#endif
