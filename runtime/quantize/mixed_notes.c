/* SPDX-License-Identifier: Apache-2.0
 *
 * quantize.json: what a budget chose, and by what.
 */
#include "runtime/quantize/mixed.h"

#include "runtime/base/json_write.h"

double tni_qz_count_weights(const tni_qz *z) {
  double n = 0;
  for (uint32_t i = 0; i < z->n_products; i++) n += (double)z->products[i].N * (double)z->products[i].K;
  return n;
}

double tni_qz_in_bits(const tni_qz *z, uint64_t bytes) { return 8 * (double)bytes / tni_qz_count_weights(z); }

static json_t *note_of(const tni_qz *z, uint32_t i, const tni_qz_sense *s, uint32_t reference) {
  const tni_qz_product *p = &z->products[i];
  json_t *losses = json_array(), *errors = json_array();
  for (uint32_t k = 0; k < z->n_open; k++) {
    tni_json_add(losses, tni_json_real(tni_qz_sense_cost(s, reference, k)));
    tni_json_add(errors, tni_json_real(s->error[k]));
  }
  json_t *o =
      tni_json_made(json_pack("{s:o, s:I, s:I, s:s, s:b}", "name", tni_json_string(p->name), "N", (json_int_t)p->N, "K",
                              (json_int_t)p->K, "format", z->formats[p->format].name, "measured", (int)s->measured));
  tni_json_put(o, "errors", errors);
  tni_json_put(o, "losses", losses);
  return o;
}

/* The table's formats are not those of products, so that each has its name. */
static json_t *note_table(const tni_qz *z, const tni_qz_sense *s, uint32_t reference) {
  const tni_qz_product *p = &z->products[z->n_products];
  const uint32_t format = tni_qz_table_format(z);
  json_t *losses = json_object(), *errors = json_object();
  for (uint32_t k = 0; k < z->n_formats; k++) {
    if (!tni_qz_can_gather(z, k)) continue;
    tni_json_put(losses, z->formats[k].name, tni_json_real(tni_qz_sense_cost(s, reference, k)));
    tni_json_put(errors, z->formats[k].name, tni_json_real(s->error[k]));
  }
  json_t *o =
      tni_json_made(json_pack("{s:o, s:I, s:I, s:s}", "name", tni_json_string(p->name), "N", (json_int_t)p->N, "K",
                              (json_int_t)p->K, "format", format == TNI_QZ_FLOAT ? "floats" : z->formats[format].name));
  if (z->lender != TNI_QZ_FLOAT) tni_json_put(o, "codes_of", tni_json_string(z->products[z->lender].name));
  tni_json_put(o, "errors", errors);
  tni_json_put(o, "losses", losses);
  return o;
}

static void note_checked(const tni_qz *z, const tni_qz_checked *c, tni_json_writer *w) {
  tni_json_open(w, "whole", '{');
  tni_json_put_tree(w, "mix", tni_json_real(c->loss[0]));
  if (!c->same) {
    tni_json_put_text(w, "format", z->formats[c->alone].name);
    tni_json_put_tree(w, "alone", tni_json_real(c->loss[1]));
  }
  tni_json_shut(w, '}');
}

/* Of all items in their formats. */
static double sum_losses(const tni_qz *z, const tni_qz_senses *s, uint32_t reference) {
  const uint32_t table = tni_qz_table_format(z);
  double loss = table == TNI_QZ_FLOAT ? 0 : tni_qz_sense_cost(&s->of[z->n_products], reference, table);
  for (uint32_t i = 0; i < z->n_products; i++) loss += tni_qz_sense_cost(&s->of[i], reference, z->products[i].format);
  return loss;
}

tn_status tni_qz_mix_notes(tni_qz *z, const tni_qz_senses *s, uint32_t reference, const tni_qz_checked *c) {
  tni_json_writer w = {0};
  uint64_t bytes = 0;
  tni_json_begin();
  tni_json_open(&w, NULL, '{');
  tni_json_put_count(&w, "schema", 1);
  if (z->fold_notes) tni_json_put_tree(&w, "fold", json_incref(z->fold_notes));
  for (uint32_t i = 0; i < z->n_products; i++)
    bytes += tni_qz_bytes(z, &z->formats[z->products[i].format], z->products[i].N, z->products[i].K);
  tni_json_put_tree(&w, "bits", tni_json_real(tni_qz_in_bits(z, bytes)));
  tni_json_put_text(&w, "loss_is", s->logits ? "KL divergence" : "squared difference over square");
  tni_json_put_tree(&w, "loss", tni_json_real(sum_losses(z, s, reference)));
  note_checked(z, c, &w);
  tni_json_put_count(&w, "tokens", s->tokens);
  tni_json_put_count(&w, "measured", s->n_measured);
  tni_json_put_tree(&w, "rank_correlation", tni_json_real(s->rank));
  tni_json_open(&w, "formats", '[');
  for (uint32_t k = 0; k < z->n_open; k++) tni_json_put_text(&w, NULL, z->formats[k].name);
  tni_json_shut(&w, ']');
  tni_json_open(&w, "products", '[');
  for (uint32_t i = 0; i < z->n_products; i++) tni_json_put_tree(&w, NULL, note_of(z, i, &s->of[i], reference));
  tni_json_shut(&w, ']');
  if (z->n_items > z->n_products) tni_json_put_tree(&w, "embeddings", note_table(z, &s->of[z->n_products], reference));
  tni_json_shut(&w, '}');
  z->notes = tni_json_written(&w);
  return z->notes ? TN_OK : tni_fail_memory(z->err, z->path);
}
