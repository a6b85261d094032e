/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of embeddings: the constant matrix of which one Gather takes a row for each of input_ids. It is an item
 * after the products: rounded before anything runs, or the codes of a product that has the same elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/quantize/internal.h"

/* Among which a budget chooses, beside the products' that a Gather may have. */
static const char *const OPEN[] = {"2:16z", "4:32", "4:16", "8:128", "8:32"};
enum { N_OPEN = sizeof OPEN / sizeof *OPEN, LEAST_BLOCK = 16 };

static bool is_text(const tni_qz *z, const char *text) { return z->o.embeddings && strcmp(z->o.embeddings, text) == 0; }

/* "8", "8:32" or "4:32z". */
static bool read_format(const char *text, uint32_t *bits, uint32_t *block, bool *zeros) {
  char whole[16];
  const int n = snprintf(whole, sizeof whole, "%s%s", text, strchr(text, ':') ? "" : ":32");
  return n > 0 && n < (int)sizeof whole && tni_qz_is_uniform(whole, bits, block, zeros) && 8 % *bits == 0;
}

tn_status tni_qz_check_embeddings(const tni_qz *z) {
  uint32_t bits, block;
  bool zeros;
  const char *text = z->o.embeddings;
  if (text && !is_text(z, "none") && (z->o.flags & TN_QUANTIZE_QDQ))
    return tni_fail(z->err, TN_E_INVALID, "embeddings", "the table of embeddings stays floats in QDQ");
  if (!text || is_text(z, "none") || is_text(z, "head") || read_format(text, &bits, &block, &zeros)) return TN_OK;
  return tni_fail(
      z->err, TN_E_INVALID, "embeddings",
      "embeddings are BITS or BITS:BLOCK (2, 4 or 8 bits, z after it for zero points), head or none, not '%s'", text);
}

/* --- where it is --- */

/* v is input_ids, in whatever shape and type. */
static bool are_tokens(const tni_graph *g, tn_id v) {
  for (;;) {
    const tni_value *x = tni_graph_value(g, v);
    const tni_node *n = x->pub.producer == TN_NONE ? NULL : tni_graph_node(g, x->pub.producer);
    if (!n) return x->pub.kind == TN_VALUE_INPUT && strcmp(x->pub.name, "input_ids") == 0;
    if ((n->pub.op != TN_OP_RESHAPE && n->pub.op != TN_OP_CAST && n->pub.op != TN_OP_IDENTITY) ||
        n->pub.in[0] == TN_NONE)
      return false;
    v = n->pub.in[0];
  }
}

static bool takes_rows(const tni_graph *g, tn_id node) {
  const tni_node *n = tni_graph_node(g, node);
  if (n->dead || n->pub.op != TN_OP_GATHER || n->pub.n_in != 2 || tni_attr_i(&n->pub, "axis", 0)) return false;
  const tni_value *w = tni_graph_value(g, n->pub.in[0]);
  return w->pub.kind == TN_VALUE_CONST && w->tensor && w->tensor->data && !w->tensor->quantized &&
         w->tensor->rank == 2 && (w->tensor->dtype == TN_DT_F32 || w->tensor->dtype == TN_DT_F16) &&
         w->tensor->dims[0] > 0 && w->tensor->dims[1] > 0 && are_tokens(g, n->pub.in[1]);
}

/* The only Gather of such a matrix, if it stands before the first product. */
static bool find_gather(tni_qz *z, tni_qz_product *t) {
  const tni_graph *g = z->import->graph;
  uint32_t n = 0;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    if (!takes_rows(g, i)) continue;
    const tni_node *node = tni_graph_node(g, i);
    const tni_tensor *w = tni_graph_value(g, node->pub.in[0])->tensor;
    *t = (tni_qz_product){.node = i,
                          .x = node->pub.in[1],
                          .weight = node->pub.in[0],
                          .N = w->dims[0],
                          .K = w->dims[1],
                          .name = node->pub.name,
                          .output = tni_graph_value(g, node->pub.out[0])->pub.name,
                          .format = TNI_QZ_FLOAT};
    n++;
  }
  return n == 1 && t->node < z->products[0].node;
}

/* p's weight has the table's elements, perhaps turned. Blocks of rows, so that both are read along cache lines. */
static bool is_same(const tni_qz *z, const tni_qz_product *t, const tni_qz_product *p) {
  enum { ROWS = 64 };
  const tni_tensor *a = tni_graph_value(z->import->graph, t->weight)->tensor;
  const tni_tensor *b = tni_graph_value(z->import->graph, p->weight)->tensor;
  if (p->N != t->N || p->K != t->K || a->dtype != b->dtype) return false;
  if (!p->kn) return t->weight == p->weight || memcmp(a->data, b->data, (size_t)a->bytes) == 0;
  const size_t size = tni_elem_size(a->dtype);
  for (int64_t first = 0; first < t->N; first += ROWS)
    for (int64_t k = 0; k < t->K; k++)
      for (int64_t n = first; n < t->N && n < first + ROWS; n++)
        if (memcmp((const char *)a->data + (size_t)(n * t->K + k) * size,
                   (const char *)b->data + (size_t)(k * t->N + n) * size, size) != 0)
          return false;
  return true;
}

/* The last product that has the table's elements. */
static uint32_t find_lender(const tni_qz *z, const tni_qz_product *t) {
  for (uint32_t i = z->n_products; i-- > 0;)
    if (is_same(z, t, &z->products[i])) return i;
  return TNI_QZ_FLOAT;
}

tn_status tni_qz_find_table(tni_qz *z) {
  const bool open = !z->o.embeddings && z->o.max_bytes && !(z->o.flags & TN_QUANTIZE_QDQ);
  tni_qz_product *t = &z->products[z->n_products];
  z->n_items = z->n_products;
  z->lender = TNI_QZ_FLOAT;
  z->table_open = false;
  if (!open && (!z->o.embeddings || is_text(z, "none"))) return TN_OK;
  if (!find_gather(z, t)) {
    *t = (tni_qz_product){0};
    return open
               ? TN_OK
               : tni_fail(z->err, TN_E_UNSUPPORTED, "embeddings",
                          "'%s' has no constant float matrix of which one Gather takes the rows of input_ids", z->path);
  }
  z->n_items++;
  z->table_open = open;
  if (open || is_text(z, "head")) z->lender = find_lender(z, t);
  if (!is_text(z, "head") || z->lender != TNI_QZ_FLOAT) return TN_OK;
  return tni_fail(z->err, TN_E_UNSUPPORTED, "embeddings", "no product of '%s' has the elements of '%s'", z->path,
                  tni_graph_value(z->import->graph, t->weight)->pub.name);
}

/* --- formats --- */

bool tni_qz_can_gather(const tni_qz *z, uint32_t format) {
  const tni_qz_format *f = &z->formats[format];
  const tn_grid *g = &f->grid.grid;
  const int64_t K = z->products[z->n_products].K, block = tni_qz_block(f, K);
  return !f->grid.levels && (f->bits == 2 || f->bits == 4 || f->bits == 8) && g->n_codes == 1u << f->bits &&
         (g->zero_kind == TN_ZERO_HALF || g->zero_kind == TN_ZERO_CODES) && block >= LEAST_BLOCK &&
         !(block & (block - 1)) && K % block == 0;
}

static tn_status cannot(const tni_qz *z, const char *name) {
  return tni_fail(z->err, TN_E_UNSUPPORTED, "embeddings",
                  "rows of %lld weights cannot be looked up in format '%s': it takes 2, 4 or 8 bits in whole blocks",
                  (long long)z->products[z->n_products].K, name);
}

tn_status tni_qz_open_table(tni_qz *z) {
  tn_status st = TN_OK;
  z->n_open = z->n_formats;
  for (int i = 0; st == TN_OK && z->table_open && i < N_OPEN; i++) {
    uint32_t bits, block, at;
    bool zeros;
    if (read_format(OPEN[i], &bits, &block, &zeros)) st = tni_qz_format_uniform(z, bits, block, zeros, &at);
  }
  return st;
}

tn_status tni_qz_choose_table(tni_qz *z) {
  uint32_t bits, block, *format = &z->products[z->n_products].format;
  bool zeros;
  if (z->n_items == z->n_products || z->table_open) return TN_OK;
  if (z->lender != TNI_QZ_FLOAT) {
    const uint32_t f = z->products[z->lender].format;
    return tni_qz_is_mixed(&z->o) || tni_qz_can_gather(z, f) ? TN_OK : cannot(z, z->formats[f].name);
  }
  if (!read_format(z->o.embeddings, &bits, &block, &zeros)) return tni_qz_check_embeddings(z);
  const tn_status st = tni_qz_format_uniform(z, bits, block, zeros, format);
  return st != TN_OK || tni_qz_can_gather(z, *format) ? st : cannot(z, z->formats[*format].name);
}

uint32_t tni_qz_table_format(const tni_qz *z) {
  if (z->n_items == z->n_products) return TNI_QZ_FLOAT;
  return z->products[z->lender == TNI_QZ_FLOAT ? z->n_products : z->lender].format;
}
