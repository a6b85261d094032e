/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report/weights.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/pack/pack.h"
#include "runtime/plugin/load/load.h"

json_t *tni_weight_source_json(const tn_weight *w, uint32_t widened) {
  static const char *const zeros[] = {"unknown", "half", "codes", "values"};
  const tn_quant *q = w->quant;
  const uint32_t dtype = w->dtype == TN_DT_F32 && widened ? widened : w->dtype;
  if (!q) return json_pack("{s:s}", "dtype", tni_dtype_name(dtype));
  const uint32_t kind = q->zero_kind < sizeof zeros / sizeof *zeros ? q->zero_kind : 0;
  const uint32_t vec = TN_HAS(q, tn_quant, vec) && q->vec > 1 ? q->vec : 1; /* weights that one code gives */
  json_t *bits = q->bits % vec ? json_real((double)q->bits / vec) : json_integer(q->bits / vec);
  return json_pack("{s:o, s:I, s:s, s:s}", "bits", bits, "group", (json_int_t)q->group, "zeros",
                   q->scheme == TN_QUANT_LEVELS ? "none" : zeros[kind], "scales", tni_dtype_name(q->scale_dtype));
}

const char *tni_weight_scales_name(const tn_format *f, const int64_t *params, uint32_t n) {
  const tn_numerics *num =
      TN_HAS(f, tn_format, numerics_of) && f->numerics_of ? f->numerics_of(f, params, n) : f->numerics;
  return num ? tni_dtype_name(num->scale_dtype) : "unknown";
}

/* A matrix beside its packed form. */
typedef struct compared {
  const tni_pack_item *item;
  tn_pack_size size;
  tn_blob blob;       /* what is unpacked */
  void *memory;       /* of it, where it was packed for this */
  float *rows, *back; /* of row_unit rows */
  double e2, w2;
} compared;

static tn_status compare_rows(compared *c, int64_t n0, int64_t n1) {
  const tn_weight *w = c->item->weight;
  const int64_t box[4] = {n0, n1, 0, w->K};
  tn_status st = w->rows(w, n0, n1, c->rows);
  if (st == TN_OK) st = c->blob.format->unpack(&c->blob, box, c->back);
  for (int64_t i = 0; st == TN_OK && i < (n1 - n0) * w->K; i++) {
    const double e = (double)c->rows[i] - (double)c->back[i];
    c->e2 += e * e;
    c->w2 += (double)c->rows[i] * (double)c->rows[i];
  }
  return st;
}

/* Blocks of rows that are compared: all, or a few over the height. Codes are kept in all rows or in none. */
enum { OF_CODES = 2, OF_FLOATS = 8 };

/* fn: packs or compares. */
typedef tn_status (*block_fn)(compared *c, tn_pack *p, int64_t n0, int64_t n1);
static tn_status each_block(compared *c, tn_pack *p, bool all, block_fn fn) {
  const int64_t N = c->item->weight->N, unit = c->size.row_unit, of = c->item->weight->quant ? OF_CODES : OF_FLOATS;
  const int64_t apart = all || N / of < unit ? unit : N / of / unit * unit;
  tn_status st = TN_OK;
  for (int64_t n = 0; st == TN_OK && n < N; n += apart) st = fn(c, p, n, N - n < unit ? N : n + unit);
  return st;
}

static tn_status pack_block(compared *c, tn_pack *p, int64_t n0, int64_t n1) {
  return c->item->format->rows(p, n0, n1, c->memory);
}

static tn_status compare_block(compared *c, tn_pack *p, int64_t n0, int64_t n1) {
  (void)p;
  return compare_rows(c, n0, n1);
}

/* Only the rows that are compared are written. */
static tn_status pack_for_this(const tn_host *host, compared *c, bool all, tn_error *err) {
  const tni_pack_item *it = c->item;
  tn_pack *p = NULL;
  c->memory = aligned_alloc(4096, (c->size.bytes + 4095) & ~UINT64_C(4095));
  if (!c->memory) return TN_E_NO_MEMORY;
  tni_pack_kept kept;
  tn_status st = tni_pack_keep(&kept, it->format, it->params, it->n_params, it->weight, NULL);
  if (st != TN_OK) return st;
  st = it->format->begin(host, it->format, &kept.weight, it->params, it->n_params, &p, err);
  if (st != TN_OK) return st;
  st = each_block(c, p, all, pack_block);
  const tn_status end = it->format->end(p, st == TN_OK ? c->memory : NULL);
  c->blob = (tn_blob){.h = TN_HDR(tn_blob),
                      .format = it->format,
                      .N = it->weight->N,
                      .K = it->weight->K,
                      .bytes = c->size.bytes,
                      .ptr = c->memory,
                      .params = it->params,
                      .n_params = it->n_params};
  return st != TN_OK ? st : end;
}

static tn_status compare_item(const tni_packed *p, uint32_t i, bool all, compared *c, tn_error *err) {
  const tni_pack_item *it = c->item;
  size_t floats;
  tn_status st = TN_OK;
  if ((!tni_mul_size(c->size.row_unit, (size_t)it->weight->K, &floats) || floats > SIZE_MAX / 16)) st = TN_E_LIMIT;
  if (st != TN_OK) return st;
  c->rows = malloc((floats + 1) * sizeof *c->rows);
  c->back = malloc((floats + 1) * sizeof *c->back);
  if (!c->rows || !c->back) st = TN_E_NO_MEMORY;
  if (st == TN_OK && p->store) c->blob = *tni_pack_store_blob(p->store, i);
  if (st == TN_OK && !p->store) st = pack_for_this(p->dev->host, c, all, err);
  if (st == TN_OK) st = each_block(c, NULL, all, compare_block);
  free(c->rows);
  free(c->back);
  free(c->memory);
  return st;
}

/* The entry of this format and source. */
static json_t *entry_of(json_t *list, uint32_t widened, const compared *c) {
  json_t *source = tni_weight_source_json(c->item->weight, widened), *params = json_array(), *e;
  size_t i;
  for (uint32_t k = 0; k < c->item->n_params; k++) json_array_append_new(params, json_integer(c->item->params[k]));
  json_array_foreach(list, i, e) {
    const char *name = json_string_value(json_object_get(e, "format"));
    if (strcmp(name, c->item->format->name) != 0 || !json_equal(json_object_get(e, "source"), source) ||
        !json_equal(json_object_get(e, "params"), params))
      continue;
    json_decref(source);
    json_decref(params);
    return e;
  }
  e = json_pack("{s:s, s:o, s:o, s:i, s:f, s:f, s:f, s:f}", "format", c->item->format->name, "params", params, "source",
                source, "matrices", 0, "bytes", 0.0, "elements", 0.0, "e2", 0.0, "w2", 0.0);
  json_array_append_new(list, e);
  return e;
}

static void add_real(json_t *e, const char *key, double v) {
  json_object_set_new(e, key, json_real(json_real_value(json_object_get(e, key)) + v));
}

static void add_compared(json_t *e, const compared *c) {
  json_object_set_new(e, "matrices", json_integer(json_integer_value(json_object_get(e, "matrices")) + 1));
  add_real(e, "bytes", (double)c->size.bytes);
  add_real(e, "elements", (double)c->item->weight->N * (double)c->item->weight->K);
  add_real(e, "e2", c->e2);
  add_real(e, "w2", c->w2);
}

/* True where one more matrix of floats tells nothing: another was rounded. Exact ones say nothing of the next. */
static bool is_known(const json_t *e, const tni_pack_item *it) {
  return !it->weight->quant && json_real_value(json_object_get(e, "e2")) > 0;
}

/* Sums become what is reported. */
static bool finish_entries(json_t *list) {
  static const char *const sums[] = {"bytes", "elements", "e2", "w2"};
  bool exact = true;
  size_t i;
  json_t *e;
  json_array_foreach(list, i, e) {
    double v[4];
    for (int k = 0; k < 4; k++) v[k] = json_real_value(json_object_get(e, sums[k]));
    for (int k = 0; k < 4; k++) json_object_del(e, sums[k]);
    const double rms = v[3] > 0 ? sqrt(v[2] / v[3]) : 0;
    json_object_set_new(e, "bits_per_weight", json_real(v[1] > 0 ? 8 * v[0] / v[1] : 0));
    json_object_set_new(e, "rms", json_real(isfinite(rms) ? rms : 1e30));
    json_object_set_new(e, "exact", json_boolean(v[2] == 0));
    exact = exact && v[2] == 0;
  }
  return exact;
}

static json_t *cache_dtypes(const tn_model *m) {
  json_t *list = json_array();
  uint64_t seen = 0;
  for (uint32_t k = 0; m->state_layouts && k < m->graph->n_states; k++) {
    const uint32_t kept = m->state_layouts[k].dtype, dtype = tni_kv_packed(kept) ? TN_DT_I4 : kept;
    if (dtype < 64 && !(seen >> dtype & 1)) json_array_append_new(list, json_string(tni_dtype_name(dtype)));
    if (dtype < 64) seen |= UINT64_C(1) << dtype;
  }
  return list;
}

tn_status tni_weights_report(tn_model *m, bool all, json_t **out, tn_error *err) {
  json_t *list = json_array();
  tn_status st = TN_OK;
  for (uint32_t d = 0; st == TN_OK && m->packed && d < m->rt->n_devs; d++)
    for (uint32_t i = 0; st == TN_OK && i < m->packed[d].n_items; i++) {
      const tni_pack_item *it = m->packed[d].items[i];
      compared c = {.item = it};
      st = it->format->size(it->format, it->weight->N, it->weight->K, it->params, it->n_params, &c.size);
      json_t *e = entry_of(list, m->graph->widened, &c);
      if (st == TN_OK && (all || !is_known(e, it))) st = compare_item(&m->packed[d], i, all, &c, err);
      if (st == TN_OK) add_compared(e, &c);
      if (st != TN_OK && !err->code)
        st = tni_fail(err, st, m->packed[d].items[i]->name, "cannot compare '%s' with what is packed (%s)",
                      m->packed[d].items[i]->name, tni_status_name(st));
    }
  if (st != TN_OK) {
    json_decref(list);
    return st;
  }
  const bool exact = finish_entries(list);
  *out = json_pack("{s:o, s:b, s:o}", "weights", list, "exact", exact, "caches", cache_dtypes(m));
  return TN_OK;
}
