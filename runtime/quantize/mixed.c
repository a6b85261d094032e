/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats by a budget: what each product loses by each format, then a knapsack. The sum of losses counts, as if
 * products did not know of each other. So the mix is checked on the whole, beside the best format that all products may
 * have.
 *
 * Items are the products, and the table of embeddings where the budget has it: its last choice is to stay floats. Where
 * a product has the same elements the knapsack is filled twice, with and without the table reading that product's
 * codes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "runtime/onnx/wire/wire.h"
#include "runtime/quantize/budget/budget.h"
#include "runtime/quantize/mixed.h"

/* What a budget chooses among: of levels; of MatMulNBits; of what onnxruntime takes of it; of QDQ. */
static const char levels[] = "lev1+lev2+lev3+lev4+lev4s+8:128";
static const char uniform[] = "2:32z+2:16z+3:128+3:32+4:128+4:32+4:16+8:128+8:32";
static const char portable[] = "2:32z+2:16z+4:128+4:32+4:16+8:128+8:32";
static const char qdq[] = "4:128+4:32+4:16+8:128+8:32";
enum { MOST = 24 };
/* The cost of what an item may not take. */
static const double NEVER = 1e30;

typedef tni_qz_mixing mixing;

/* --- the file besides products --- */

/* A product, or a Transpose of its weight, or the Gather of a table that does not stay. */
static bool is_replaced(const tni_qz *z, tn_id node) {
  const tni_node *n = tni_graph_node(z->import->graph, node);
  if (z->n_items > z->n_products && z->products[z->n_products].node == node) return true;
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

static uint64_t bytes_of(const tni_qz *z, uint32_t item, uint32_t format);

/* At most so many bytes of the file are no codes of items: constants that stay, the message, and a table whose format
 * the options say. */
static tn_status rest_bytes(const tni_qz *z, uint64_t *out) {
  const tni_graph *g = z->import->graph;
  const uint32_t table = z->n_items > z->n_products ? z->products[z->n_products].format : TNI_QZ_FLOAT;
  bool *kept = calloc((size_t)g->n_values + 1, sizeof *kept);
  if (!kept) return tni_fail_memory(z->err, z->path);
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = tni_graph_node(g, i);
    for (uint32_t k = 0; !n->dead && !is_replaced(z, i) && k < n->pub.n_in; k++)
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
  *out = sum + message + 1024 * (uint64_t)z->n_items + (table == TNI_QZ_FLOAT ? 0 : bytes_of(z, z->n_products, table));
  return TN_OK;
}

/* --- what fits --- */

static uint32_t count_items(const tni_qz *z) { return z->n_products + z->table_open; }

/* Formats, and floats after them where the table is an item. */
static uint32_t count_choices(const tni_qz *z) { return z->n_formats + z->table_open; }

/* Bits count scales of 16 bits. Files have those of levels in 32, and those of MatMulNBits, QDQ and of the table in the
 * model's type. */
static uint64_t bytes_of(const tni_qz *z, uint32_t item, uint32_t format) {
  const tni_qz_product *p = &z->products[item];
  if (format == z->n_formats) return tni_graph_value(z->import->graph, p->weight)->tensor->bytes + 64;
  const tni_qz_format *f = &z->formats[format];
  const bool halves = f->grid.steps || f->grid.grid.scale_dtype == TN_DT_F16;
  const bool wide = z->o.max_bytes && halves && (f->grid.levels || !tni_qz_writes_halves(z, p));
  const int64_t block = tni_qz_block(f, p->K), scales = f->grid.steps ? 1 : (p->K + block - 1) / block;
  return tni_qz_bytes(z, f, p->N, p->K) + (wide ? (uint64_t)(2 * p->N * scales) : 0);
}

static tn_status set_limit(tni_qz *z, uint64_t least, uint64_t most) {
  uint64_t rest = 0;
  if (z->o.mean_bits > 0) {
    const double limit = z->o.mean_bits * tni_qz_count_weights(z) / 8;
    z->limit = limit < 0x1p62 ? (uint64_t)(limit * (1 + 1e-12)) : UINT64_C(1) << 62;
    if (z->limit < least)
      return tni_fail(z->err, TN_E_INVALID, "bits", "%g bits are too few: the least is %.4f", z->o.mean_bits,
                      tni_qz_in_bits(z, least) + 5e-5);
    return z->limit <= most ? TN_OK
                            : tni_fail(z->err, TN_E_INVALID, "bits", "%g bits are too many: the most is %.4f",
                                       z->o.mean_bits, tni_qz_in_bits(z, most));
  }
  const tn_status st = rest_bytes(z, &rest);
  if (st) return st;
  if (z->o.max_bytes < rest + least)
    return tni_fail(z->err, TN_E_INVALID, "bytes",
                    "%.2f MB are too little: the least is %.2f MB, of which %.2f MB stay as they are",
                    (double)z->o.max_bytes / 1e6, (double)(rest + least) / 1e6 + .005, (double)rest / 1e6);
  if (z->o.max_bytes > rest + most)
    return tni_fail(z->err, TN_E_INVALID, "bytes", "%.2f MB are too much: the most is %.2f MB",
                    (double)z->o.max_bytes / 1e6, (double)(rest + most) / 1e6);
  z->limit = z->o.max_bytes - rest;
  return TN_OK;
}

/* --- items and what they cost --- */

/* Whether an item may have choice k. */
static bool may(const tni_qz *z, const mixing *m, uint32_t item, uint32_t k) {
  if (item < z->n_products) return k < z->n_open && (!m->shared || item != z->lender || tni_qz_can_gather(z, k));
  return k == z->n_formats || (!m->shared && tni_qz_can_gather(z, k));
}

/* A table that reads a product's codes takes none of its own, and that product loses what both lose. */
static void fill_item(const tni_qz *z, mixing *m, uint32_t item, const tni_qz_senses *s) {
  const uint32_t n = count_choices(z), table = z->n_products;
  const bool reads = m->shared && item == table;
  uint64_t *bytes = m->bytes + (size_t)item * n, least = UINT64_MAX;
  double *cost = m->cost + (size_t)item * n;
  for (uint32_t k = 0; k < n; k++) {
    if (!may(z, m, item, k)) continue;
    bytes[k] = reads ? 0 : bytes_of(z, item, k);
    if (bytes[k] < least) least = bytes[k];
    cost[k] = s && k < z->n_formats ? tni_qz_sense_cost(&s->of[item], m->reference, k) : 0;
    if (s && m->shared && item == z->lender) cost[k] += tni_qz_sense_cost(&s->of[table], m->reference, k);
  }
  for (uint32_t k = 0; k < n; k++) {
    if (may(z, m, item, k)) continue;
    bytes[k] = least;
    cost[k] = NEVER;
  }
}

static tni_knapsack knapsack_of(const tni_qz *z, const mixing *m) {
  return (tni_knapsack){
      .n_items = count_items(z), .n_choices = count_choices(z), .bytes = m->bytes, .cost = m->cost, .limit = z->limit};
}

/* s NULL: costs are not needed. */
static void fill(const tni_qz *z, mixing *m, bool shared, const tni_qz_senses *s) {
  m->shared = shared;
  for (uint32_t i = 0; i < count_items(z); i++) fill_item(z, m, i, s);
}

static void mixing_finish(mixing *m) {
  free(m->bytes);
  free(m->cost);
  free(m->chosen);
  free(m->alone);
}

static tn_status mixing_make(tni_qz *z, mixing *m) {
  const uint32_t items = count_items(z);
  const size_t n = (size_t)items * count_choices(z);
  *m = (mixing){.bytes = calloc(n, sizeof *m->bytes),
                .cost = calloc(n, sizeof *m->cost),
                .chosen = calloc(items, sizeof *m->chosen),
                .alone = calloc(items, sizeof *m->alone),
                .reference = tni_qz_mix_reference(z)};
  return m->bytes && m->cost && m->chosen && m->alone ? TN_OK : tni_fail_memory(z->err, z->path);
}

/* Whether the table may read the lender's codes, and whether it may do without. */
static bool may_share(const tni_qz *z, bool shared) {
  bool any = false;
  if (!shared) return z->lender == TNI_QZ_FLOAT || z->table_open;
  for (uint32_t k = 0; z->lender != TNI_QZ_FLOAT && k < z->n_open; k++) any = any || tni_qz_can_gather(z, k);
  return any;
}

uint32_t tni_qz_mix_reference(const tni_qz *z) {
  const tni_qz_product *p = &z->products[0];
  uint32_t best = 0;
  double least = INFINITY;
  for (uint32_t k = 0; k < z->n_open; k++) {
    const double bits = 8. * (double)tni_qz_bytes(z, &z->formats[k], p->N, p->K) / ((double)p->N * (double)p->K);
    if (fabs(bits - 3.5) >= least) continue;
    least = fabs(bits - 3.5);
    best = k;
  }
  return best;
}

/* --- one format for all --- */

/* Every product takes k, and the table what loses least of what then fits. False: it does not fit. */
static bool take_one(const tni_qz *z, const mixing *m, uint32_t k, uint32_t *formats, double *loss) {
  const uint32_t n = count_choices(z), table = z->n_products;
  uint64_t bytes = 0;
  *loss = 0;
  for (uint32_t i = 0; i < z->n_products; i++) {
    if (!may(z, m, i, k)) return false;
    formats[i] = k;
    bytes += m->bytes[(size_t)i * n + k];
    *loss += m->cost[(size_t)i * n + k];
  }
  if (bytes > z->limit) return false;
  if (!z->table_open) return true;
  double least = NEVER;
  for (uint32_t c = 0; c < n; c++) {
    const size_t at = (size_t)table * n + c;
    if (!may(z, m, table, c) || m->bytes[at] > z->limit - bytes || m->cost[at] >= least) continue;
    least = m->cost[at];
    formats[table] = c;
  }
  *loss += least;
  return least < NEVER;
}

/* The best of these in m->alone; TNI_QZ_FLOAT: none fits. */
static uint32_t find_alone(const tni_qz *z, const mixing *m) {
  uint32_t best = TNI_QZ_FLOAT;
  double loss, least = INFINITY;
  for (uint32_t k = 0; k < z->n_open; k++)
    if (take_one(z, m, k, m->alone, &loss) && loss < least) {
      least = loss;
      best = k;
    }
  if (best != TNI_QZ_FLOAT) (void)take_one(z, m, best, m->alone, &loss);
  return best;
}

/* --- the choice --- */

/* The formats of all items as the whole takes them. */
static void to_formats(const tni_qz *z, const mixing *m, const uint32_t *chosen, uint32_t *formats) {
  const uint32_t n = z->n_products;
  memcpy(formats, chosen, n * sizeof *formats);
  if (z->n_items == n) return;
  formats[n] = z->products[n].format;
  if (m->shared) formats[n] = chosen[z->lender];
  if (!m->shared && z->table_open) formats[n] = chosen[n] == z->n_formats ? TNI_QZ_FLOAT : chosen[n];
}

/* The mix on the whole, and the best format alone, which is taken where it loses less. */
static tn_status check_whole(tni_qz *z, mixing *m, tni_qz_checked *c) {
  const size_t bytes = count_items(z) * sizeof *m->chosen;
  c->alone = find_alone(z, m);
  c->same = c->alone == TNI_QZ_FLOAT || memcmp(m->chosen, m->alone, bytes) == 0;
  uint32_t *formats = malloc(2 * (size_t)z->n_items * sizeof *formats);
  if (!formats) return tni_fail_memory(z->err, z->path);
  to_formats(z, m, m->chosen, formats);
  to_formats(z, m, m->alone, formats + z->n_items);
  const tn_status st = tni_qz_whole_losses(z, formats, c->same ? 1 : 2, c->loss);
  free(formats);
  if (st == TN_OK && !c->same && c->loss[1] < c->loss[0]) memcpy(m->chosen, m->alone, bytes);
  return st;
}

/* The cheaper of both ways, with the table reading the lender's codes or not. m holds the last one tried. */
static tn_status choose_shared(tni_qz *z, mixing *m, const tni_qz_senses *s, bool *shared) {
  double least = INFINITY;
  for (int way = 0; way < 2; way++) {
    if (!may_share(z, way)) continue;
    fill(z, m, way, s);
    const tni_knapsack b = knapsack_of(z, m);
    double loss = 0;
    if (tni_knapsack_least(&b) > z->limit) continue;
    const tn_status st = tni_knapsack_choose(&b, m->chosen, z->err);
    if (st != TN_OK) return st;
    for (uint32_t i = 0; i < b.n_items; i++) loss += m->cost[(size_t)i * b.n_choices + m->chosen[i]];
    if (loss >= least) continue;
    least = loss;
    *shared = way;
  }
  return TN_OK;
}

static void take_chosen(tni_qz *z, const mixing *m) {
  tni_qz_product *t = &z->products[z->n_products];
  for (uint32_t i = 0; i < z->n_products; i++) z->products[i].format = m->chosen[i];
  if (!z->table_open) return;
  if (!m->shared) z->lender = TNI_QZ_FLOAT;
  t->format = m->shared || m->chosen[z->n_products] == z->n_formats ? TNI_QZ_FLOAT : m->chosen[z->n_products];
}

static tn_status choose(tni_qz *z, mixing *m) {
  tni_qz_senses s;
  tni_qz_checked c = {0};
  bool shared = false;
  tn_status st = tni_qz_sense_all(z, m->reference, &s);
  if (st == TN_OK) st = choose_shared(z, m, &s, &shared);
  if (st == TN_OK) fill(z, m, shared, &s);
  const tni_knapsack b = knapsack_of(z, m);
  if (st == TN_OK) st = tni_knapsack_choose(&b, m->chosen, z->err);
  if (st == TN_OK) st = check_whole(z, m, &c);
  if (st == TN_OK) take_chosen(z, m);
  if (st == TN_OK) st = tni_qz_mix_notes(z, &s, m->reference, &c);
  tni_qz_senses_finish(&s);
  return st;
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
    st = tni_qz_is_uniform(n, &bits, &block, &zeros) ? tni_qz_format_uniform(z, bits, block, zeros, &at)
                                                     : tni_qz_format_named(z, n, &at);
    if (st == TN_OK && z->n_formats > MOST)
      st = tni_fail(z->err, TN_E_LIMIT, "weights", "more than %d weight formats to choose among", MOST);
  }
  free(names);
  return st == TN_OK && !z->n_formats ? tni_fail(z->err, TN_E_INVALID, "weights", "no weight format is named") : st;
}

/* The least and the most of both ways. */
static tn_status find_limits(tni_qz *z, mixing *m) {
  uint64_t least = UINT64_MAX, most = 0;
  for (int way = 0; way < 2; way++) {
    if (!may_share(z, way)) continue;
    fill(z, m, way, NULL);
    const tni_knapsack b = knapsack_of(z, m);
    if (tni_knapsack_least(&b) < least) least = tni_knapsack_least(&b);
    if (tni_knapsack_most(&b) > most) most = tni_knapsack_most(&b);
  }
  return most ? set_limit(z, least, most)
              : tni_fail(z->err, TN_E_UNSUPPORTED, "embeddings",
                         "the head may take no format of 2, 4 or 8 bits in which its rows can be looked up");
}

tn_status tni_qz_mix_begin(tni_qz *z) {
  mixing m = {0};
  tn_status st = add_formats(z);
  for (uint32_t i = 0; i < z->n_products; i++) z->products[i].format = TNI_QZ_FLOAT;
  if (st == TN_OK) st = tni_qz_check_portable(z);
  if (st == TN_OK) st = tni_qz_open_table(z);
  if (st == TN_OK) st = tni_qz_choose_table(z);
  if (st == TN_OK) st = mixing_make(z, &m);
  if (st == TN_OK) st = find_limits(z, &m);
  mixing_finish(&m);
  return st;
}

tn_status tni_qz_mix(tni_qz *z) {
  mixing m;
  tn_status st = mixing_make(z, &m);
  if (st == TN_OK) st = choose(z, &m);
  mixing_finish(&m);
  return st;
}
