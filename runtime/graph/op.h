/* SPDX-License-Identifier: Apache-2.0
 *
 * The op schema table (ops.def) as data. Immutable, shared by all threads.
 */
#ifndef TENON_GRAPH_OP_H
#define TENON_GRAPH_OP_H

#include <stdbool.h>

#include <tenon/plugin.h>

/* CONTROL: no kernel; runtime/interp/interp.h runs it (control flow, sequences, optionals). */
enum { TNI_OPF_ELEMENTWISE = 1, TNI_OPF_SHAPE = 2, TNI_OPF_DATA_DEPENDENT = 4, TNI_OPF_CONTROL = 8 };

/* One typed attribute of a schema row. type is TN_ATTR_* (plugin.h); TN_ATTR_NONE marks an attribute that ONNX has and
 * Tenon refuses (sparse tensors). */
typedef struct tni_attr_spec {
  const char *name;
  uint32_t type;
  bool required; /* otherwise the default below; INTS/FLOATS/STRINGS/TENSOR/GRAPH default to absent (n == 0, NULL) */
  union {
    int64_t i;
    double f;
    const char *s; /* NULL: absent */
  } dflt;
  bool absent;       /* INT, FLOAT: there is no default; n == 0 says that the model did not write it */
  const char *words; /* STRING, STRINGS: all that it may say, "none|add|mul"; NULL: anything */
  int64_t lo, hi;    /* INT, INTS: each is in [lo, hi]; lo == hi: any */
} tni_attr_spec;

typedef struct tni_op {
  uint32_t id; /* TN_OP_* */
  const char *domain, *name;
  uint32_t since, until; /* until 0: still current */
  const tni_attr_spec *attrs;
  uint32_t n_attrs;
  uint32_t in_min, in_max, out_min, out_max; /* 99: variadic */
  uint32_t shape_inputs;                     /* bit i: input i is read by the shape rule only */
  uint32_t flags;                            /* TNI_OPF_* */
  uint32_t row;                              /* index into the table; shape rules and kernels hang on it */
} tni_op;

/* The row for domain ("" or "ai.onnx" are the same), type and opset version, or NULL. */
const tni_op *tni_op_find(const char *domain, const char *type, int64_t version);
/* All rows: count in *n. */
const tni_op *tni_op_table(uint32_t *n);
/* First row with this id, or NULL: for names in messages. */
const tni_op *tni_op_by_id(uint32_t id);

/* a has s's type and says what s lists: one of its words, numbers in its range. false: why, of n bytes at most, names the
 * attribute. Bytes of a STRING are a->n, with or without an end. */
bool tni_attr_fits(const tni_attr_spec *s, const tn_attr *a, char *why, size_t n);

/* Attention of ONNX or of Tenon: the second has inputs more, and is the first without them. */
static inline bool tni_is_attention(uint32_t op) { return op == TN_OP_ATTENTION || op == TN_OP_TENON_ATTENTION; }

#endif
