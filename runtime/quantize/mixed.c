/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by a budget: what each product loses by each format, then a knapsack. The sum of losses counts, as if products
 * did not know of each other. So the mix is checked on the whole, beside the best format that all products may have.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "runtime/base/json_write.h"
#include "runtime/onnx/wire/wire.h"
#include "runtime/quantize/budget/budget.h"
#include "runtime/quantize/sense.h"

/* What a budget chooses among: of levels; of MatMulNBits; of what onnxruntime takes of it; of QDQ. */
static const char levels[] = "lev1+lev2+lev3+lev4+lev4s+8:128";
static const char uniform[] = "2:32z+2:16z+3:128+3:32+4:128+4:32+4:16+8:128+8:32";
static const char portable[] = "2:32z+2:16z+4:128+4:32+4:16+8:128+8:32";
static const char qdq[] = "4:128+4:32+4:16+8:128+8:32";
enum { MOST = TNI_QZ_SENSE_FORMATS };

static double count_weights(const tni_qz *z) {
  double n = 0;
  for (uint32_t i = 0; i < z->n_products; i++) n += (double)z->products[i].N * (double)z->products[i].K;
  return n;
}

/* --- the file besides products --- */

/* A product, or a Transpose of its weight. */
static bool is_product(const tni_qz *z, tn_id node) {
  const tni_node *n = tni_graph_node(z->import->graph, node);
  for (uint32_t i = 0; i < z->n_products; i++)
    if (z->products[i].node == node || (n->pub.op == TN_OP_TRANSPOSE && n->pub.in[0] == z->products[i].weight))
      return true;
  return false;
}

/* The file without the elements of its tensors. */
static tn_status message_bytes(const tni_qz *z, uint64_t *out) {
  const tni_file *file = &z->import->files[0];
  const tni_scan_limits lim = {32, UINT64_C(256) << 20};
  tni_stripped stripped = {0};
  const tn_status st =
      tni_scan(&onnx__model_proto__descriptor, file->data, file->bytes, &lim, z->path, &stripped, z->err);
  *out = file->bytes;
  for (size_t i = 0; st == TN_OK && i < stripped.n_spans; i++)
    *out -= stripped.spans[i].bytes < *out ? stripped.spans[i].bytes : *out;
  tni_stripped_finish(&stripped);
  return st;
}

/* At most so many bytes of the file are no codes: constants that stay, and the message. */
static tn_status rest_bytes(const tni_qz *z, uint64_t *out) {
  const tni_graph *g = z->import->graph;
  bool *kept = calloc((size_t)g->n_values + 1, sizeof *kept);
  if (!kept) return tni_fail_memory(z->err, z->path);
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = tni_graph_node(g, i);
    for (uint32_t k = 0; !n->dead && !is_product(z, i) && k < n->pub.n_in; k++)
      if (n->pub.in[k] != TN_NONE) kept[n->pub.in[k]] = true;
  }
  uint64_t message, sum = 0;
  for (tn_id v = 0; v < g->n_values; v++) {
    const tni_tensor *t = tni_graph_value(g, v)->tensor;
    if (!t || !t->data || tni_graph_value(g, v)->pub.kind != TN_VALUE_CONST) continue;
    if (kept[v]) sum += t->bytes + 64;
  }
  free(kept);
  const tn_status st = message_bytes(z, &message);
  if (st) return st;
  *out = sum + message + 1024 * (uint64_t)z->n_products;
  return TN_OK;
}

/* --- the choice --- */

/* Bits count scales of 16 bits; files have those of MatMulNBits in the model's type. */
static uint64_t bytes_of(const tni_qz *z, const tni_qz_product *p, uint32_t format) {
  const tni_qz_format *f = &z->formats[format];
  const bool wide = z->o.max_bytes && !f->grid.levels &&
                    tni_graph_value(z->import->graph, p->weight)->pub.dtype != TN_DT_F16;
  const int64_t block = tni_qz_block(f, p->K);
  return tni_qz_bytes(f, p->N, p->K) + (wide ? (uint64_t)(2 * p->N * ((p->K + block - 1) / block)) : 0);
}

static double in_bits(const tni_qz *z, uint64_t bytes) { return 8 * (double)bytes / count_weights(z); }

static tn_status set_limit(tni_qz *z, const tni_knapsack *b) {
  const uint64_t least = tni_knapsack_least(b), most = tni_knapsack_most(b);
  uint64_t rest = 0;
  if (z->o.mean_bits > 0) {
    const double limit = z->o.mean_bits * count_weights(z) / 8;
    z->limit = limit < 0x1p62 ? (uint64_t)(limit * (1 + 1e-12)) : UINT64_C(1) << 62;
    if (z->limit < least)
      return tni_fail(z->err, TN_E_INVALID, "bits", "%g bits are too few: the least is %.4f", z->o.mean_bits,
                      in_bits(z, least) + 5e-5);
    return z->limit <= most ? TN_OK
                            : tni_fail(z->err, TN_E_INVALID, "bits", "%g bits are too many: the most is %.4f",
                                       z->o.mean_bits, in_bits(z, most));
  }
  const tn_status st = rest_bytes(z, &rest);
  if (st) return st;
  if (z->o.max_bytes < rest + least)
    return tni_fail(z->err, TN_E_INVALID, "bytes",
                    "%.2f MB are too little: the least is %.2f MB, of which %.2f MB are not products",
                    (double)z->o.max_bytes / 1e6, (double)(rest + least) / 1e6 + .005, (double)rest / 1e6);
  if (z->o.max_bytes > rest + most)
    return tni_fail(z->err, TN_E_INVALID, "bytes", "%.2f MB are too much: the most is %.2f MB",
                    (double)z->o.max_bytes / 1e6, (double)(rest + most) / 1e6);
  z->limit = z->o.max_bytes - rest;
  return TN_OK;
}

static json_t *note_of(const tni_qz *z, uint32_t i, const tni_qz_senses *s, const double *cost) {
  const tni_qz_product *p = &z->products[i];
  json_t *losses = json_array(), *errors = json_array();
  for (uint32_t k = 0; k < z->n_formats; k++) {
    tni_json_add(losses, tni_json_real(cost[i * z->n_formats + k]));
    tni_json_add(errors, tni_json_real(s->of[i].error[k]));
  }
  json_t *o = tni_json_made(json_pack("{s:o, s:I, s:I, s:s, s:b}", "name", tni_json_string(p->name), "N",
                                      (json_int_t)p->N, "K", (json_int_t)p->K, "format", z->formats[p->format].name,
                                      "measured", (int)s->of[i].measured));
  tni_json_put(o, "errors", errors);
  tni_json_put(o, "losses", losses);
  return o;
}

/* What was checked on the whole. */
typedef struct checked {
  bool same;      /* the mix is of one format */
  uint32_t alone; /* the format that is best where all products have it; TNI_QZ_FLOAT: none fits */
  double loss[2]; /* of the mix; of that */
} checked;

static bool takes_alone(const checked *c) { return c->alone != TNI_QZ_FLOAT && !c->same && c->loss[1] < c->loss[0]; }

static void note_checked(const tni_qz *z, const checked *c, tni_json_writer *w) {
  tni_json_open(w, "whole", '{');
  tni_json_put_tree(w, "mix", tni_json_real(c->loss[0]));
  if (c->alone != TNI_QZ_FLOAT && !c->same) {
    tni_json_put_text(w, "format", z->formats[c->alone].name);
    tni_json_put_tree(w, "alone", tni_json_real(c->loss[1]));
  }
  tni_json_shut(w, '}');
}

/* quantize.json. */
static tn_status write_notes(tni_qz *z, const tni_qz_senses *s, const double *cost, const checked *c) {
  tni_json_writer w = {0};
  uint64_t bytes = 0;
  double loss = 0;
  tni_json_begin();
  tni_json_open(&w, NULL, '{');
  tni_json_put_count(&w, "schema", 1);
  if (z->fold_notes) tni_json_put_tree(&w, "fold", json_incref(z->fold_notes));
  for (uint32_t i = 0; i < z->n_products; i++) {
    bytes += tni_qz_bytes(&z->formats[z->products[i].format], z->products[i].N, z->products[i].K);
    loss += cost[(size_t)i * z->n_formats + z->products[i].format];
  }
  tni_json_put_tree(&w, "bits", tni_json_real(in_bits(z, bytes)));
  tni_json_put_text(&w, "loss_is", s->logits ? "KL divergence" : "squared difference over square");
  tni_json_put_tree(&w, "loss", tni_json_real(loss));
  note_checked(z, c, &w);
  tni_json_put_count(&w, "tokens", s->tokens);
  tni_json_put_count(&w, "measured", s->n_measured);
  tni_json_put_tree(&w, "rank_correlation", tni_json_real(s->rank));
  tni_json_open(&w, "formats", '[');
  for (uint32_t k = 0; k < z->n_formats; k++) tni_json_put_text(&w, NULL, z->formats[k].name);
  tni_json_shut(&w, ']');
  tni_json_open(&w, "products", '[');
  for (uint32_t i = 0; i < z->n_products; i++) tni_json_put_tree(&w, NULL, note_of(z, i, s, cost));
  tni_json_shut(&w, ']');
  tni_json_shut(&w, '}');
  z->notes = tni_json_written(&w);
  return z->notes ? TN_OK : tni_fail_memory(z->err, z->path);
}

typedef struct table {
  uint64_t *bytes; /* [n_products, n_formats] */
  double *cost;
  uint32_t *chosen;
} table;

static tni_knapsack knapsack_of(const tni_qz *z, const table *t) {
  return (tni_knapsack){.n_items = z->n_products,
                        .n_choices = z->n_formats,
                        .bytes = t->bytes,
                        .cost = t->cost,
                        .limit = z->limit};
}

static tn_status table_make(tni_qz *z, table *t) {
  const size_t n = (size_t)z->n_products * z->n_formats;
  *t = (table){.bytes = malloc(n * sizeof *t->bytes),
               .cost = calloc(n, sizeof *t->cost),
               .chosen = calloc(z->n_products, sizeof *t->chosen)};
  if (!t->bytes || !t->cost || !t->chosen) return tni_fail_memory(z->err, z->path);
  for (size_t i = 0; i < n; i++)
    t->bytes[i] = bytes_of(z, &z->products[i / z->n_formats], (uint32_t)(i % z->n_formats));
  return TN_OK;
}

static void table_finish(table *t) {
  free(t->bytes);
  free(t->cost);
  free(t->chosen);
}

uint32_t tni_qz_mix_reference(const tni_qz *z) {
  const tni_qz_product *p = &z->products[0];
  uint32_t best = 0;
  double least = INFINITY;
  for (uint32_t k = 0; k < z->n_formats; k++) {
    const double bits = 8. * (double)tni_qz_bytes(&z->formats[k], p->N, p->K) / ((double)p->N * (double)p->K);
    if (fabs(bits - 3.5) >= least) continue;
    least = fabs(bits - 3.5);
    best = k;
  }
  return best;
}

/* The format of least loss of those that fit where every product has them. */
static uint32_t best_alone(const tni_qz *z, const table *t) {
  uint32_t best = TNI_QZ_FLOAT;
  double least = INFINITY;
  for (uint32_t k = 0; k < z->n_formats; k++) {
    uint64_t bytes = 0;
    double cost = 0;
    for (uint32_t i = 0; i < z->n_products; i++) {
      bytes += t->bytes[(size_t)i * z->n_formats + k];
      cost += t->cost[(size_t)i * z->n_formats + k];
    }
    if (bytes > z->limit || cost >= least) continue;
    least = cost;
    best = k;
  }
  return best;
}

/* The mix on the whole, and the best format alone, which is taken where it loses less. */
static tn_status check_whole(tni_qz *z, table *t, checked *c) {
  const uint32_t n = z->n_products;
  *c = (checked){.alone = best_alone(z, t), .same = true};
  uint32_t *formats = malloc(2 * (size_t)n * sizeof *formats);
  if (!formats) return tni_fail_memory(z->err, z->path);
  for (uint32_t i = 0; i < n; i++) {
    formats[i] = t->chosen[i];
    formats[n + i] = c->alone;
    c->same = c->same && t->chosen[i] == t->chosen[0];
  }
  const tn_status st = tni_qz_whole_losses(z, formats, c->alone != TNI_QZ_FLOAT && !c->same ? 2 : 1, c->loss);
  free(formats);
  for (uint32_t i = 0; st == TN_OK && takes_alone(c) && i < n; i++) t->chosen[i] = c->alone;
  return st;
}

static tn_status choose(tni_qz *z, table *t) {
  tni_qz_senses s;
  const uint32_t reference = tni_qz_mix_reference(z);
  tn_status st = tni_qz_sense_all(z, reference, &s);
  for (uint32_t i = 0; st == TN_OK && i < z->n_products; i++)
    for (uint32_t k = 0; k < z->n_formats; k++) {
      const double *e = s.of[i].error;
      t->cost[i * z->n_formats + k] = e[reference] > 0 ? s.of[i].loss * e[k] / e[reference] : 0;
    }
  const tni_knapsack b = knapsack_of(z, t);
  checked c = {0};
  if (st == TN_OK) st = tni_knapsack_choose(&b, t->chosen, z->err);
  if (st == TN_OK) st = check_whole(z, t, &c);
  for (uint32_t i = 0; st == TN_OK && i < z->n_products; i++) z->products[i].format = t->chosen[i];
  if (st == TN_OK) st = write_notes(z, &s, t->cost, &c);
  tni_qz_senses_finish(&s);
  return st;
}

/* "3:32" or "2:32z": bits, block, zero points. */
static bool is_uniform(const char *name, uint32_t *bits, uint32_t *block, bool *zeros) {
  int used = 0;
  if (sscanf(name, "%1u:%3u%n", bits, block, &used) != 2) return false;
  *zeros = name[used] == 'z';
  return !name[used + *zeros] && (*bits == 2 || *bits == 3 || *bits == 4 || *bits == 8) &&
         (*block == 16 || *block == 32 || *block == 64 || *block == 128);
}

static const char *usual(const tni_qz *z) {
  if (z->o.flags & TN_QUANTIZE_QDQ) return qdq;
  if (z->o.flags & TN_QUANTIZE_ONNX) return portable;
  static const char *const all[] = {"lev1", "lev2", "lev3", "lev4", "lev4s"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!tni_qz_has_format(z, all[i])) return uniform;
  return levels;
}

static tn_status add_formats(tni_qz *z) {
  char *names = strdup(z->o.weights ? z->o.weights : usual(z)), *save = NULL;
  tn_status st = names ? TN_OK : tni_fail_memory(z->err, z->path);
  for (char *n = names ? strtok_r(names, "+", &save) : NULL; st == TN_OK && n; n = strtok_r(NULL, "+", &save)) {
    uint32_t bits, block, at;
    bool zeros;
    st = is_uniform(n, &bits, &block, &zeros) ? tni_qz_format_uniform(z, bits, block, zeros, &at)
                                              : tni_qz_format_named(z, n, &at);
    if (st == TN_OK && z->n_formats > MOST)
      st = tni_fail(z->err, TN_E_LIMIT, "weights", "more than %d weight formats to choose among", MOST);
  }
  free(names);
  return st == TN_OK && !z->n_formats ? tni_fail(z->err, TN_E_INVALID, "weights", "no weight format is named") : st;
}

tn_status tni_qz_mix_begin(tni_qz *z) {
  table t = {0};
  tn_status st = add_formats(z);
  for (uint32_t i = 0; i < z->n_products; i++) z->products[i].format = TNI_QZ_FLOAT;
  if (st == TN_OK) st = tni_qz_check_portable(z);
  if (st == TN_OK) st = table_make(z, &t);
  const tni_knapsack b = knapsack_of(z, &t);
  if (st == TN_OK) st = set_limit(z, &b);
  table_finish(&t);
  return st;
}

tn_status tni_qz_mix(tni_qz *z) {
  table t;
  tn_status st = table_make(z, &t);
  if (st == TN_OK) st = choose(z, &t);
  table_finish(&t);
  return st;
}
