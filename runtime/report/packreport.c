/* SPDX-License-Identifier: Apache-2.0
 *
 * How far packed weights are from what the model says: |w - unpack(pack(w))| per matrix, as the largest relative to its
 * group's absmax, and as root mean square and mean of the matrix. Matrices are read in strips of rows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/place/place.h"
#include "runtime/plugin/load/load.h"
#include "runtime/report/nodes.h"
#include "runtime/report/weights.h"
#include "runtime/session/session.h"

enum { STRIP_ELEMS = 1 << 18 };
static const double TINY = 0x1p-13; /* what is smaller than this has no bound: scales in half end there */

typedef struct tensor_sums {
  double worst;          /* of a group: max |e| / absmax */
  double e2, w2, e1, w1; /* sums of squares and absolute values */
  double n;
} tensor_sums;

typedef struct measured {
  const tn_weight *w;
  const tn_blob *blob;
  int64_t group; /* elements along K; 0: the whole matrix is one */
  double absmax; /* of the matrix, where it is one group */
  tensor_sums s;
} measured;

static void add_group(tensor_sums *s, const float *w, const float *u, int64_t n, double absmax) {
  double top = 0, error = 0;
  for (int64_t i = 0; i < n; i++) {
    const double a = fabs((double)w[i]), e = fabs((double)w[i] - (double)u[i]);
    if (a > top) top = a;
    if (!(e <= error)) error = e;
    s->e1 += e;
    s->e2 += e * e;
    s->w1 += a;
    s->w2 += a * a;
  }
  s->n += (double)n;
  if (absmax > 0) top = absmax;
  if (top > 0 && top < TINY) return;
  const double rel = error == 0 ? 0 : top > 0 && isfinite(error) ? error / top : TNI_JSON_ENDLESS;
  if (rel > s->worst) s->worst = rel;
}

static int64_t strip_rows(const tn_weight *w) {
  const int64_t n = w->K > 0 ? STRIP_ELEMS / w->K : 1;
  return n > 0 ? n : 1;
}

static double largest_weight(const float *w, int64_t n, double top) {
  for (int64_t i = 0; i < n; i++)
    if (fabs((double)w[i]) > top) top = fabs((double)w[i]);
  return top;
}

/* One pass over the rows; with unpacked NULL it only looks for the largest. */
static tn_status measure_pass(measured *m, float *rows, float *unpacked) {
  const int64_t step = strip_rows(m->w), K = m->w->K;
  tn_status st = TN_OK;
  for (int64_t n = 0; st == TN_OK && n < m->w->N; n += step) {
    const int64_t end = m->w->N - n < step ? m->w->N : n + step;
    const int64_t box[4] = {n, end, 0, K};
    st = m->w->rows(m->w, n, end, rows);
    if (st == TN_OK && unpacked) st = m->blob->format->unpack(m->blob, box, unpacked);
    if (st != TN_OK) break;
    if (!unpacked) m->absmax = largest_weight(rows, (end - n) * K, m->absmax);
    for (int64_t r = 0; unpacked && r < end - n; r++)
      for (int64_t k = 0; k < K; k += m->group ? m->group : K) {
        const int64_t g = m->group && K - k > m->group ? m->group : K - k;
        add_group(&m->s, rows + r * K + k, unpacked + r * K + k, g, m->group ? 0 : m->absmax);
      }
  }
  return st;
}

/* group 0: by the first param, if there is one. */
static int64_t group_of(const tn_format *f, const int64_t *params, uint32_t n) {
  return f->group ? f->group : n && params[0] > 0 ? params[0] : 0;
}

static tn_status measure_tensor(measured *m) {
  size_t bytes;
  if (!tni_mul_size((size_t)strip_rows(m->w), (size_t)m->w->K, &bytes) || !tni_mul_size(bytes, sizeof(float), &bytes))
    return TN_E_LIMIT;
  float *rows = malloc(bytes + 1), *unpacked = malloc(bytes + 1);
  tn_status st = rows && unpacked ? TN_OK : TN_E_NO_MEMORY;
  m->group = group_of(m->blob->format, m->blob->params, m->blob->n_params);
  if (st == TN_OK && !m->group) st = measure_pass(m, rows, NULL);
  if (st == TN_OK) st = measure_pass(m, rows, unpacked);
  free(rows);
  free(unpacked);
  return st;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void set_errors(json_t *j, const tensor_sums *s) {
  const double n = s->n > 0 ? s->n : 1;
  json_object_set_new(j, "max_of_group", json_real(tni_json_number(s->worst)));
  json_object_set_new(j, "rms",
                      json_real(tni_json_number(s->w2 > 0   ? sqrt(s->e2 / s->w2)
                                                : s->e2 > 0 ? TNI_JSON_ENDLESS
                                                            : 0)));
  json_object_set_new(j, "mean_abs", json_real(tni_json_number(s->e1 / n)));
  json_object_set_new(j, "mean_abs_of_weights",
                      json_real(tni_json_number(s->w1 > 0   ? s->e1 / s->w1
                                                : s->e1 > 0 ? TNI_JSON_ENDLESS
                                                            : 0)));
}

static json_t *tensor_json(const char *name, const tn_weight *w, uint32_t widened, const tn_blob *b,
                           const tensor_sums *s) {
  json_t *j = json_pack("{s:o, s:I, s:I, s:I}", "name", tni_json_shown(name), "N", (json_int_t)w->N, "K",
                        (json_int_t)w->K, "bytes", (json_int_t)b->bytes);
  json_object_set_new(j, "source", tni_weight_source_json(w, widened));
  json_object_set_new(j, "scales", json_string(tni_weight_scales_name(b->format, b->params, b->n_params)));
  set_errors(j, s);
  return j;
}

static json_t *params_json(const int64_t *params, uint32_t n) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(j, json_integer(params[i]));
  return j;
}

/* Totals of what was measured so far. */
typedef struct totals {
  uint32_t widened; /* of the graph */
  tensor_sums all;
  double bytes, worst_over; /* worst: its largest error over the format's bound */
  json_t *list, *worst;
  uint32_t outside;
} totals;

static void add_tensor(totals *t, json_t *tensor, const tn_format *f, const tn_blob *b, const tensor_sums *s) {
  const double over = f->w_err > 0 ? s->worst / (double)f->w_err : s->worst > 0 ? TNI_JSON_ENDLESS : 0;
  json_object_set_new(tensor, "format", tni_json_shown(f->name));
  json_object_set_new(tensor, "bound", json_real((double)f->w_err));
  /* Unpacked floats and the bound are rounded: a part in 2^20 is no violation. */
  const bool outside = over > 1 + 0x1p-20;
  json_object_set_new(tensor, "within_bound", json_boolean(!outside));
  t->outside += outside;
  if (!t->worst || over > t->worst_over) {
    t->worst = tensor;
    t->worst_over = over;
  }
  t->all.e1 += s->e1;
  t->all.e2 += s->e2;
  t->all.w1 += s->w1;
  t->all.w2 += s->w2;
  t->all.n += s->n;
  if (s->worst > t->all.worst) t->all.worst = s->worst;
  t->bytes += (double)b->bytes;
  json_array_append_new(t->list, tensor);
}

static json_t *totals_json(const totals *t) {
  json_t *j = json_object();
  set_errors(j, &t->all);
  json_object_set_new(j, "weights", json_integer((json_int_t)t->all.n));
  json_object_set_new(j, "bytes", json_integer((json_int_t)t->bytes));
  json_object_set_new(j, "bits_per_weight", json_real(t->all.n > 0 ? 8 * t->bytes / t->all.n : 0));
  json_object_set_new(j, "outside_bound", json_integer(t->outside));
  if (t->worst) json_object_set(j, "worst", json_object_get(t->worst, "name"));
  return j;
}

/* --- what a model has packed -------------------------------------------------------------------------------------- */

static json_t *device_json(const tni_packed *p) {
  const tni_pack_stats *s = tni_pack_store_stats(p->store);
  json_t *j = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:o}", "device", p->dev->name, "matrices",
                        (json_int_t)p->n_items, "packed", (json_int_t)s->packed_segments, "packed_bytes",
                        (json_int_t)s->packed_bytes, "mapped", (json_int_t)s->mapped_segments, "mapped_bytes",
                        (json_int_t)s->mapped_bytes, "read", (json_int_t)s->read_parts, "seconds",
                        (double)s->pack_ns / 1e9, "offline", (p->dev->device->caps->flags & TN_CAPS_OFFLINE) != 0,
                        "path", tni_json_shown(s->cached ? s->path : ""));
  json_t *formats = json_object();
  for (uint32_t i = 0; i < p->n_items; i++) {
    const char *name = p->items[i]->format->name;
    json_object_set_new(formats, name, json_integer(json_integer_value(json_object_get(formats, name)) + 1));
  }
  json_object_set_new(j, "formats", formats);
  json_object_set_new(j, "compiled", json_integer(p->compiled));
  json_object_set_new(j, "not_compiled", json_integer(p->left));
  json_object_set_new(j, "compile_seconds", json_real((double)p->compile_ns / 1e9));
  return j;
}

static tn_status device_errors(const tni_packed *p, totals *t, tn_error *err) {
  for (uint32_t i = 0; i < p->n_items; i++) {
    const tni_pack_item *it = p->items[i];
    measured m = {.w = it->weight, .blob = tni_pack_store_blob(p->store, i)};
    tn_status st = measure_tensor(&m);
    if (st != TN_OK)
      return tni_fail(err, st, it->name, "cannot unpack '%s' of format '%s' (%s)", it->name, it->format->name,
                      tni_status_name(st));
    json_t *j = tensor_json(it->name, it->weight, t->widened, m.blob, &m.s);
    json_object_set_new(j, "parts", json_integer(it->n_parts));
    json_object_set_new(j, "device", tni_json_shown(p->dev->name));
    json_object_set_new(j, "params", params_json(it->params, it->n_params));
    add_tensor(t, j, it->format, m.blob, &m.s);
  }
  return TN_OK;
}

tn_status tni_pack_report(tn_model *m, bool errors, json_t **out, tn_error *err) {
  if (m->flags & TN_MODEL_INSPECT)
    return tni_fail(err, TN_E_INVALID, m->path, "the model was loaded for inspection: nothing was packed");
  json_t *j =
             json_pack("{s:o, s:o}", "model", tni_json_shown(m->path), "profile", tni_json_shown(m->rt->profile->name)),
         *list = json_array();
  totals t = {.widened = m->graph->widened, .list = json_array()};
  tn_status st = TN_OK;
  for (uint32_t d = 0; st == TN_OK && d < m->rt->n_devs; d++) {
    if (!m->packed[d].store) continue;
    json_array_append_new(list, device_json(&m->packed[d]));
    if (errors) st = device_errors(&m->packed[d], &t, err);
  }
  json_object_set_new(j, "devices", list);
  json_object_set_new(j, "embeddings", tni_embeddings_json(m));
  if (errors) {
    json_object_set_new(j, "total", totals_json(&t));
    tni_name_nodes(m->graph, t.list);
    json_object_set(j, "tensors", t.list);
  }
  json_decref(t.list);
  if (st == TN_OK)
    *out = j;
  else
    json_decref(j);
  return st;
}

/* --- any format --------------------------------------------------------------------------------------------------- */

typedef struct trial {
  tn_model *m;
  const tni_plugin_info *plugin;
  const tn_format *format;
  const int64_t *params;
  uint32_t n_params, refused, tried;
  totals t;
  tn_error *err;
} trial;

static bool find_format(trial *t, const char *name, json_t *plugins) {
  for (uint32_t i = 0; i < tni_registry_count(t->m->rt->registry); i++) {
    const tni_plugin_info *p = tni_registry_get(t->m->rt->registry, i);
    for (uint32_t k = 0; p->plugin && k < p->plugin->n_formats; k++) {
      if (strcmp(p->plugin->formats[k]->name, name) != 0) continue;
      json_array_append_new(plugins, tni_json_shown(p->name));
      if (t->format) continue;
      t->format = p->plugin->formats[k];
      t->plugin = p;
    }
  }
  return t->format != NULL;
}

/* In memory: packed, measured, forgotten. */
static tn_status try_weight(trial *t, tn_id v, bool kn) {
  const char *name = tni_graph_value(t->m->graph, v)->pub.name;
  tn_weight *w = NULL;
  tni_pack_source src;
  tn_status st = tni_weight_of(&t->m->execs[0].view, v, kn, t->m->arena, &w, t->err);
  if (st != TN_OK) return st;
  tni_packed_source(t->m, v, &src);
  const tn_weight *part = w;
  const tni_pack_item item = {.format = t->format,
                              .params = t->params,
                              .n_params = t->n_params,
                              .weight = w,
                              .sources = &src,
                              .parts = &part,
                              .n_parts = 1,
                              .name = name};
  const tni_pack_item *items[] = {&item};
  tni_pack_opts o = {
      .host = t->plugin->host, .pool = t->m->rt->pool, .log = &t->m->rt->log, .cancel = &t->m->rt->cancel};
  tni_pack_store *store = NULL;
  tn_error why;
  tni_error_init(&why);
  t->tried++;
  st = tni_pack_store_open(&o, items, 1, &store, &why);
  if (st == TN_E_CANCELLED || st == TN_E_NO_MEMORY) return tni_fail(t->err, st, name, "%s", why.message);
  if (st != TN_OK) {
    json_array_append_new(t->t.list,
                          json_pack("{s:o, s:I, s:I, s:o}", "name", tni_json_shown(name), "N", (json_int_t)w->N, "K",
                                    (json_int_t)w->K, "refused", tni_json_shown(why.message)));
    t->refused++;
    return TN_OK;
  }
  measured me = {.w = w, .blob = tni_pack_store_blob(store, 0)};
  st = measure_tensor(&me);
  if (st == TN_OK) add_tensor(&t->t, tensor_json(name, w, 0, me.blob, &me.s), t->format, me.blob, &me.s);
  tni_pack_store_close(store);
  return st == TN_OK ? st : tni_fail(t->err, st, name, "cannot unpack '%s' (%s)", name, tni_status_name(st));
}

static tn_status try_all(trial *t) {
  const tni_graph *g = t->m->graph;
  uint8_t *seen = calloc((size_t)g->n_values + 1, 1);
  tn_status st = seen ? TN_OK : tni_fail_memory(t->err, t->m->path);
  tni_product p;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    if (!tni_calib_product(g, i, &p)) continue;
    for (uint32_t k = 0; st == TN_OK && k < p.n_weights; k++) {
      if (!seen[p.weights[k]]) st = try_weight(t, p.weights[k], p.kn[k]);
      seen[p.weights[k]] = 1;
    }
  }
  free(seen);
  if (st == TN_OK && t->refused && t->refused == t->tried)
    st = tni_fail(t->err, TN_E_INVALID, t->format->name,
                  "format '%s' packs none of %u matrices with %u params; first: %s", t->format->name, t->tried,
                  t->n_params, json_string_value(json_object_get(json_array_get(t->t.list, 0), "refused")));
  return st;
}

static tn_status to_text(json_t *j, char **out, tn_error *err) {
  char *s = json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  if (tni_json_short() || !s) {
    free(s);
    return tni_fail_memory(err, "report");
  }
  *out = s;
  return TN_OK;
}

tn_status tn_model_format_report(tn_model *m, const char *format, const int64_t *params, uint32_t n, char **json,
                                 tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  TNI_NOT_NULL(format);
  TNI_NOT_NULL(json);
  tni_json_begin();
  trial t = {.m = m, .params = params, .n_params = n, .t = {.list = json_array()}, .err = err};
  json_t *j = json_object(), *plugins = json_array();
  tn_status st = TN_OK;
  if (!find_format(&t, format, plugins))
    st = tni_fail(err, TN_E_INVALID, format,
                  "no plugin that was found states a weight format '%.64s'; `tenon plugins "
                  "--formats` lists them",
                  format);
  if (st == TN_OK) st = try_all(&t);
  if (st == TN_OK) {
    json_object_set_new(j, "model", tni_json_shown(m->path));
    json_object_set_new(j, "format", tni_json_shown(format));
    json_object_set_new(j, "version", json_integer(t.format->version));
    json_object_set_new(j, "params", params_json(params, n));
    json_object_set(j, "plugins", plugins);
    json_object_set_new(j, "refused", json_integer(t.refused));
    json_object_set_new(j, "total", totals_json(&t.t));
    tni_name_nodes(m->graph, t.t.list);
    json_object_set(j, "tensors", t.t.list);
    st = to_text(j, json, err);
  }
  json_decref(t.t.list);
  json_decref(plugins);
  json_decref(j);
  if (st == TN_E_CANCELLED) tni_runtime_resume(m->rt);
  return st;
}
