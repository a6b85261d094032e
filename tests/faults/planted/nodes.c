/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/planted/nodes.h"

#include <pthread.h>
#include <tenon/attrs.h>

#define IS(plant) (PLANT == PLANT_##plant)

enum { MOST = 4096 };
static struct {
  const tn_program *p;
  tn_id task;
  bool wrong;
} known[MOST];
static uint32_t n_known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool has(const tn_node *n, uint32_t i) { return i < n->n_in && n->in[i] != TN_NONE; }

/* An activation that another device computed: a value from outside which is no input of the model. */
static bool is_handed_in(const tn_subgraph *s, tn_id v) {
  for (uint32_t i = 0; i < s->n_inputs; i++)
    if (s->inputs[i] == v) return s->graph->values[v]->kind == TN_VALUE_ACT;
  return false;
}

static bool made_by(const tn_graph *g, tn_id v, uint32_t op) {
  return v != TN_NONE && g->values[v]->producer != TN_NONE && g->nodes[g->values[v]->producer]->op == op;
}

/* An activation of a sum of which one part is a convolution. */
static bool reads_sum_of_conv(const tn_graph *g, const tn_node *n) {
  if (n->op != TN_OP_RELU || !made_by(g, n->in[0], TN_OP_ADD)) return false;
  const tn_node *sum = g->nodes[g->values[n->in[0]]->producer];
  return made_by(g, sum->in[0], TN_OP_CONV) || made_by(g, sum->in[1], TN_OP_CONV);
}

static int64_t dim_of(const tn_host *h, const tn_graph *g, tn_id v, uint32_t i) {
  int64_t lo = 0, hi = 0;
  return h->range(g, g->values[v]->dims[i], &lo, &hi) == TN_OK && lo == hi ? lo : -1;
}

static bool is_wrong(const tn_host *h, const tn_subgraph *s, const tn_node *n) {
  const tn_attr *const *a = n->attr;
  if (IS(CONV_DILATED) && n->op == TN_OP_CONV) {
    const tn_attr *d = a[TN_AT_CONV_DILATIONS];
    return d->n == 2 && d->u.ints[0] * d->u.ints[1] > 1;
  }
  if (IS(ATTENTION_MASK) && (n->op == TN_OP_ATTENTION || n->op == TN_OP_TENON_ATTENTION))
    return has(n, 3) && s->graph->values[n->in[3]]->dtype == TN_DT_BOOL;
  const bool attends = n->op == TN_OP_ATTENTION || n->op == TN_OP_TENON_ATTENTION;
  if (IS(RIGHT_WINDOW) && attends) return a[TN_ATTENTION_RIGHT_WINDOW]->u.i >= 0;
  if (IS(MASK_AXES) && attends) return has(n, 3) && s->graph->values[n->in[3]]->rank == 4;
  if (IS(MASK_HEADS) && attends && has(n, 3)) {
    const tn_value *q = s->graph->values[n->in[0]], *mask = s->graph->values[n->in[3]];
    return mask->dtype == TN_DT_F32 && q->rank == 4 && mask->rank == 4 && mask->dims[1] == q->dims[1];
  }
  if (IS(SOFTMAX_AXIS) && n->op == TN_OP_SOFTMAX)
    return a[TN_AT_SOFTMAX_AXIS]->u.i != -1 && a[TN_AT_SOFTMAX_AXIS]->u.i + 1 != s->graph->values[n->in[0]]->rank;
  if (IS(NORM_EPSILON) && n->op == TN_OP_RMS_NORMALIZATION) return a[TN_AT_RMS_NORMALIZATION_EPSILON]->u.f > 1e-3;
  if (IS(ELU_ALPHA) && n->op == TN_OP_ELU) return a[TN_AT_ELU_ALPHA]->u.f != 1;
  if (IS(RESIDUAL_AFTER)) return reads_sum_of_conv(s->graph, n);
  if (IS(CHANNELS_DIRTY) && n->op == TN_OP_CONV) return made_by(s->graph, n->in[0], TN_OP_DIV);
  if (IS(QCONV_ZERO) && n->op == TN_OP_QLINEAR_CONV) return s->graph->values[n->in[0]]->dtype == TN_DT_U8;
  if (IS(QCONV_SCALE) && n->op == TN_OP_QLINEAR_CONV) return s->graph->values[n->in[4]]->rank == 1;
  if (IS(QCONV_WIDE) && n->op == TN_OP_QLINEAR_CONV) return dim_of(h, s->graph, n->in[3], 0) > 64;
  if (IS(INTEGER_MATMUL) && (n->op == TN_OP_MATMUL_INTEGER || n->op == TN_OP_MATMUL_INTEGER_TO_FLOAT))
    return s->graph->values[n->in[0]]->rank > 2;
  if (IS(INTEGER_FOUND) && (n->op == TN_OP_MATMUL_INTEGER || n->op == TN_OP_MATMUL_INTEGER_TO_FLOAT)) {
    const uint32_t zero = n->op == TN_OP_MATMUL_INTEGER ? 2 : TN_INTEGER_A_ZERO;
    return has(n, zero) && s->graph->values[n->in[zero]]->kind == TN_VALUE_ACT;
  }
  if (IS(INTEGER_CONV) && n->op == TN_OP_CONV_INTEGER) {
    const tn_attr *strides = a[TN_AT_CONV_INTEGER_STRIDES];
    return strides->n == 2 && strides->u.ints[0] * strides->u.ints[1] > 1;
  }
  if (IS(QGEMM_BIAS) && n->op == TN_OP_QLINEAR_GEMM) return has(n, 8);
  if (IS(POOL_OVERHANG) && n->op == TN_OP_AVERAGE_POOL)
    return a[TN_AT_AVERAGE_POOL_CEIL_MODE]->u.i && a[TN_AT_AVERAGE_POOL_COUNT_INCLUDE_PAD]->u.i;
  if (IS(OK_DEALT)) return n->op == TN_OP_RELU;
  if (IS(GATHER_END)) return n->op == TN_OP_GATHER;
  if (IS(OTHER_POS)) return n->op == TN_OP_TENSOR_SCATTER;
  return IS(HANDED_IN) && n->op == TN_OP_MATMUL && is_handed_in(s, n->in[0]);
}

void nodes_note(const tn_host *h, const tn_subgraph *s, const tn_program *p, const tn_program_info *info) {
  pthread_mutex_lock(&lock);
  for (uint32_t t = 0; t < info->n_tasks; t++, n_known++) {
    bool wrong = false;
    for (uint32_t i = 0; i < info->tasks[t]->n_nodes; i++)
      wrong = wrong || is_wrong(h, s, s->graph->nodes[info->tasks[t]->nodes[i]]);
    known[n_known % MOST].p = p;
    known[n_known % MOST].task = t;
    known[n_known % MOST].wrong = wrong;
  }
  pthread_mutex_unlock(&lock);
}

bool nodes_wrong(const tn_program *p, tn_id task) {
  bool wrong = false;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < MOST; i++)
    if (known[i].p == p && known[i].task == task) wrong = known[i].wrong;
  pthread_mutex_unlock(&lock);
  return wrong;
}
