/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, plans and arguments: one task a node, on engine 0.
 */
enum { MAX_IN = 1 + TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS, MAX_USES = MAX_IN + TN_FUSED_MAX_PARTS };

typedef struct dims_of { /* a value's symbolic dims */
  uint32_t rank;
  tn_expr d[TN_MAX_RANK];
} dims_of;
typedef struct shape {
  uint32_t rank;
  int64_t elems, d[TN_MAX_RANK];
} shape;

typedef struct step {
  tn_task task;
  tn_need need;
  tn_use uses[MAX_USES];
  tn_id node, *deps, weights[TN_FUSED_MAX_PARTS];
  uint32_t op, n_in, n_out, n_uses, out_use, in_use[MAX_IN];
  dims_of in[MAX_IN], out;
  int64_t out_width[TN_FUSED_MAX_PARTS]; /* of a product's outputs */
  float alpha, beta;
  double epsilon;
  int64_t axis, perm[TN_MAX_RANK];
  /* products */
  uint32_t product, gemm, trans_a, n_parts, n_extras, n_ops, extra_use[TN_CHAIN_MAX_INPUTS];
  dims_of extra[TN_CHAIN_MAX_INPUTS];
  int64_t N, K, first[TN_FUSED_MAX_PARTS], count[TN_FUSED_MAX_PARTS];
  int64_t width[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS]; /* of products and results of instructions */
  int64_t ops[3 * TN_CHAIN_MAX_OPS], results[TN_FUSED_MAX_PARTS];
  float floats[TN_CHAIN_MAX_OPS];
  tn_id weight_slot;
  const unsigned char *blob;
} step;

struct tn_program {
  const tn_host *host;
  tn_graph graph;
  tn_program_info info;
  tn_slot *slot;
  const void **constant; /* [n_slots] raw ones, from set() */
  const tn_slot **slots;
  tn_need *raw;
  tn_id *raw_value;
  const tn_need **needs;
  const tn_task **tasks;
  step steps[];
};

struct tn_plan {
  const tn_program *program;
  const step *step;
  int64_t M, scratch, axis, inner, stride[2][TN_MAX_RANK];
  shape in[3], out, extra[TN_CHAIN_MAX_INPUTS];
};

struct tn_args {
  const tn_plan *plan;
  unsigned char *scratch;
  void *memory[MAX_USES];
};
