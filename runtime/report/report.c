/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports as JSON: the shapes of `tenon check`, `inspect` and `plugins --format json`.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/graph/graph.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/tasks.h"
#include "runtime/place/place.h"
#include "runtime/plugin/load/load.h"
#include "runtime/plugin/plugin.h"
#include "runtime/report/report_caches.h"
#include "runtime/report/report_check.h"
#include "runtime/report/statement.h"
#include "runtime/report/weights.h"
#include "runtime/shape/shape.h"

/* Ends what w holds. */
static tn_status end_text(tni_json_writer *w, char **out, tn_error *err) {
  char *s = tni_json_written(w);
  if (tni_json_short()) {
    free(s);
    return tni_fail_memory(err, "report");
  }
  *out = s;
  return TN_OK;
}

static tn_status to_text(json_t *j, char **out, tn_error *err) {
  tni_json_writer w = {0};
  tni_json_put_tree(&w, NULL, j);
  return end_text(&w, out, err);
}

/* --- plugins ---------------------------------------------------------------------------------------------------- */

static const char *one_of(const char *const *names, uint32_t n, uint32_t i) { return i < n ? names[i] : "unknown"; }

static json_t *numerics_json(const tn_numerics *n) {
  static const char *const schemes[] = {"none", "absmax", "runsum", "static"},
                           *const round[] = {"half even", "half away"}, *const denormals[] = {"keep", "flush"},
                           *const nan[] = {"propagate", "undefined"};
  json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:s}", "activation", tni_dtype_name(n->act_dtype), "activation_group",
                        (int)n->act_group, "accumulator", tni_dtype_name(n->acc_inner), "across_groups",
                        tni_dtype_name(n->acc_outer), "scales", tni_dtype_name(n->scale_dtype));
  json_object_set_new(j, "activation_scheme", json_string(one_of(schemes, 4, n->act_scheme)));
  json_object_set_new(j, "activation_rounding", json_string(one_of(round, 2, n->act_round)));
  json_object_set_new(j, "activation_max", json_real((double)n->act_max));
  json_object_set_new(j, "denormals", json_string(one_of(denormals, 2, n->denormals)));
  json_object_set_new(j, "nan", json_string(one_of(nan, 2, n->nan)));
  json_object_set_new(j, "finite_max", isfinite(n->finite_max) ? json_real(n->finite_max) : json_null());
  if (TN_HAS(n, tn_numerics, acc_group) && n->acc_group)
    json_object_set_new(j, "accumulator_group", json_integer(n->acc_group));
  if (tni_reference_averages(n) > 0) { /* of one entry of a table, in steps of q */
    json_object_set_new(j, "averages_of", json_integer((json_int_t)1 << n->avg_depth));
    json_object_set_new(j, "average_error", json_real(n->avg_depth / 4.0));
  }
  return j;
}

/* group 0: by params; of a format that takes none, the whole matrix shares a scale. */
static const char *group_is(const tn_format *f) {
  tn_pack_size size;
  if (f->group) return "fixed";
  return f->size(f, 128, 256, NULL, 0, &size) == TN_OK ? "matrix" : "option";
}

/* The plugin's option `group`; 0: it has none. */
static int64_t group_option(const tni_plugin_info *p) {
  int64_t group = 0;
  return p->host->option(p->host->ctx, "group", TN_OPT_INT, &group) == TN_OK ? group : 0;
}

/* As options have it, for these params: of a format whose group a param says, that of the option `group`. */
static const tn_numerics *numerics_of(const tn_format *f, const int64_t *params, uint32_t n_params) {
  if (!TN_HAS(f, tn_format, numerics_of) || !f->numerics_of) return f->numerics;
  const tn_numerics *n = f->numerics_of(f, params, n_params);
  return n ? n : f->numerics;
}

/* Of a large weight, where a param says the group. */
static double bits_of(const tn_format *f, const int64_t *params, uint32_t n_params) {
  enum { SIDE = 4096 };
  tn_pack_size size;
  if (!n_params || f->size(f, SIDE, SIDE, params, n_params, &size) != TN_OK) return (double)f->bits_per_weight;
  return (double)size.bytes * 8 / ((double)SIDE * SIDE);
}

/* group: of the plugin's option. A format that takes no such param is shown as it is declared. */
static json_t *format_json(const tn_format *f, int64_t group) {
  json_t *j = json_object();
  tn_pack_size size;
  const char *is = group_is(f);
  const bool by_param = strcmp(is, "option") == 0;
  const uint32_t n_params = by_param && group && f->size(f, 128, 256, &group, 1, &size) == TN_OK;
  const tn_numerics *n = by_param && !n_params ? f->numerics : numerics_of(f, &group, n_params);
  json_object_set_new(j, "name", tni_json_shown(f->name));
  json_object_set_new(j, "version", json_integer(f->version));
  json_object_set_new(j, "bits", json_integer(f->bits));
  json_object_set_new(j, "group", json_integer(f->group));
  json_object_set_new(j, "group_is", json_string(is));
  json_object_set_new(j, "bits_per_weight", json_real(bits_of(f, &group, n_params)));
  json_object_set_new(j, "weight_error", json_real((double)f->w_err));
  json_object_set_new(j, "activation_error", json_real((double)f->x_err));
  json_object_set_new(j, "reads_statistics", json_boolean(f->flags & TN_FMT_READS_STATS));
  json_object_set_new(j, "reads_quantized", json_boolean(f->flags & TN_FMT_READS_QUANT));
  if (n) json_object_set_new(j, "numerics", numerics_json(n));
  return j;
}

/* "32|128" as ["32", "128"]. */
static json_t *choices_json(const char *s) {
  json_t *a = json_array();
  for (size_t n; *s; s += n + (s[n] == '|')) {
    n = strcspn(s, "|");
    json_array_append_new(a, json_stringn(s, n));
  }
  return a;
}

static json_t *option_json(const tn_option *o) {
  static const char *const types[] = {"", "bool", "int", "float", "string"};
  json_t *j = json_object();
  const bool number = o->type == TN_OPT_INT || o->type == TN_OPT_FLOAT;
  json_object_set_new(j, "key", tni_json_shown(o->key));
  json_object_set_new(j, "type", json_string(one_of(types, 5, o->type)));
  json_object_set_new(j, "default",
                      tni_json_shown(o->dflt                  ? o->dflt
                                     : o->type == TN_OPT_BOOL ? "false"
                                     : number                 ? "0"
                                                              : ""));
  if (number && o->lo < o->hi) {
    json_object_set_new(j, "least", json_real(o->lo));
    json_object_set_new(j, "most", json_real(o->hi));
  }
  if (TN_HAS(o, tn_option, choices) && o->choices) json_object_set_new(j, "choices", choices_json(o->choices));
  json_object_set_new(j, "help", tni_json_shown(o->help));
  return j;
}

/* A plugin's process, or its probe's: the level that its manifest names, what confines it, and what this system does not have. */
static json_t *walls_json(const tni_walls *w) {
  json_t *j = json_object(), *stand = json_array(), *missing = json_array();
  for (uint32_t i = 0; i < TNI_WALLS; i++)
    if (tni_walls_of(w->level) & 1u << i)
      json_array_append_new(w->stand & 1u << i ? stand : missing, json_string(tni_wall_name(i)));
  json_object_set_new(j, "level", json_string(tni_confine_name(w->level)));
  json_object_set_new(j, "granted", stand);
  json_object_set_new(j, "missing", missing);
  if (w->landlock) json_object_set_new(j, "landlock", json_integer(w->landlock));
  return j;
}

static void put_walls(json_t *j, const char *key, const char *text_key, const tni_walls *w) {
  char text[256];
  tni_walls_text(w, text, sizeof text);
  json_object_set_new(j, key, walls_json(w));
  json_object_set_new(j, text_key, json_string(text));
}

static json_t *plugin_json(const tni_plugin_info *p) {
  json_t *j = json_object(), *devices = json_array(), *formats = json_array(), *options = json_array();
  json_object_set_new(j, "name", tni_json_shown(p->name));
  json_object_set_new(j, "path", tni_json_shown(p->path));
  json_object_set_new(j, "version", tni_json_shown(p->version));
  json_object_set_new(j, "builtin", json_boolean(p->builtin));
  json_object_set_new(j, "loaded", json_boolean(p->loaded));
  if (p->why.code) {
    json_object_set_new(j, "reason_code", tni_json_shown(tni_status_name(p->why.code)));
    json_object_set_new(j, "reason", tni_json_shown(p->why.message));
  }
  if (p->probed) {
    json_object_set_new(j, "probe_ms", json_real(p->probe_ms));
    json_object_set_new(j, "probe_remembered", json_boolean(p->remembered));
    if (p->probe_walls.stand) put_walls(j, "probe", "probe_text", &p->probe_walls);
  }
  if (p->quarantined) json_object_set_new(j, "quarantined_since", tni_json_shown(p->since));
  if (p->process && p->loaded) put_walls(j, "process", "process_text", &p->walls);
  for (uint32_t i = 0; i < p->n_devices; i++) {
    const tn_caps *c = p->devices[i]->caps;
    json_t *d = json_object();
    json_object_set_new(d, "name", tni_json_shown(c ? c->name : ""));
    json_object_set_new(d, "driver", tni_json_shown(c ? c->driver : ""));
    json_t *engines = json_array();
    for (uint32_t e = 0; c && e < c->n_engines; e++)
      json_array_append_new(engines, tni_json_shown(c->engines[e]->name));
    json_object_set_new(d, "engines", engines);
    if (c && c->flags & TN_CAPS_OFFLINE) json_object_set_new(d, "offline", json_true());
    json_array_append_new(devices, d);
  }
  const int64_t group = p->plugin && p->host ? group_option(p) : 0;
  for (uint32_t i = 0; p->plugin && i < p->plugin->n_formats; i++)
    json_array_append_new(formats, format_json(p->plugin->formats[i], group));
  json_object_set_new(j, "devices", devices);
  for (uint32_t i = 0; p->plugin && i < p->plugin->n_options; i++)
    json_array_append_new(options, option_json(p->plugin->options[i]));
  json_object_set_new(j, "formats", formats);
  json_object_set_new(j, "options", options);
  return j;
}

tn_status tn_runtime_report(tn_runtime *rt, char **json, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(rt);
  TNI_NOT_NULL(json);
  tni_json_begin();
  json_t *j = json_object(), *list = json_array();
  json_object_set_new(j, "version", tni_json_shown(tn_version()));
  json_object_set_new(j, "profile", tni_json_shown(rt->profile->name));
  json_object_set_new(j, "profile_file", tni_json_shown(rt->profile->file));
  json_object_set_new(j, "threads", json_integer(tni_pool_workers(rt->pool)));
  char cpus[TNI_CPUS_TEXT];
  tni_cpus_text(&rt->cpus, cpus);
  if (*cpus) json_object_set_new(j, "cpus", tni_json_shown(cpus));
  for (uint32_t i = 0; i < tni_registry_count(rt->registry); i++)
    json_array_append_new(list, plugin_json(tni_registry_get(rt->registry, i)));
  json_object_set_new(j, "plugins", list);
  return to_text(j, json, err);
}

/* --- inspect ---------------------------------------------------------------------------------------------------- */

static json_t *io_json(const tn_io_info *io) {
  json_t *j = json_object(), *dims = json_array();
  for (int32_t i = 0; i < io->rank; i++)
    json_array_append_new(dims, io->dims[i] >= 0 ? json_integer(io->dims[i]) : tni_json_shown(io->dim_names[i]));
  json_object_set_new(j, "name", tni_json_shown(io->name));
  json_object_set_new(j, "dtype", tni_json_shown(tni_dtype_name(io->dtype)));
  json_object_set_new(j, "dims", io->rank < 0 ? json_null() : json_incref(dims));
  json_decref(dims);
  return j;
}

static json_t *symbols_json(const tn_model *m) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < tni_ex_n_symbols(m->graph->exprs); i++) {
    int64_t lo, hi;
    tni_ex_symbol_bounds(m->graph->exprs, i, &lo, &hi);
    json_array_append_new(
        j, json_pack("{s:o, s:I, s:I}", "name", tni_json_shown(tni_ex_symbol_name(m->graph->exprs, i)), "min",
                     (json_int_t)lo, "max", (json_int_t)hi));
  }
  return j;
}

static json_t *memory_json(tn_model *m) {
  tni_statement s;
  tn_error why;
  tni_error_init(&why);
  const tn_status st = tni_statement_make(m, &s, &why);
  if (st == TN_E_NO_MEMORY) tni_json_lacked();
  if (st != TN_OK) return json_pack("{s:o}", "unknown", tni_json_shown(why.message));
  json_t *at = json_object();
  for (uint32_t i = 0; i < s.n_dims; i++)
    json_object_set_new(at, tni_ex_symbol_name(m->graph->exprs, i), json_integer(s.dims[i]));
  free(s.dims);
  const struct {
    const char *key;
    uint64_t bytes;
  } figures[] = {{"weights_bytes", s.weights},     {"packed_bytes", s.packed},
                 {"on_disk_bytes", s.on_disk},     {"kv_bytes", s.kv},
                 {"arena_bytes", s.arena},         {"arena_lower_bound_bytes", s.bound},
                 {"scratch_bytes", s.scratch},     {"outputs_bytes", s.outputs},
                 {"buffers_bytes", s.buffers},     {"base_bytes", s.base_anonymous + s.base_file},
                 {"anonymous_bytes", s.anonymous}, {"file_bytes", s.file},
                 {"packing_bytes", s.packing},     {"loading_bytes", s.loading},
                 {"total_bytes", s.total}};
  json_t *j = json_pack("{s:o}", "at", at);
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    json_object_set_new(j, figures[i].key, json_integer((json_int_t)figures[i].bytes));
  return j;
}

enum { MAX_LISTED = 64 };

/* A node that is not done with before the run, and why. */
static json_t *reason_json(const tn_model *m, tn_id node) {
  char why[256];
  const tni_node *n = tni_graph_node(m->graph, node);
  return json_pack("{s:o, s:o, s:o}", "node", tni_json_shown(n->pub.name), "op", tni_json_shown(n->type), "reason",
                   tni_json_shown(tni_dynamic_reason(m->graph, node, why, sizeof why)));
}

/* Shape ops that run per step; names gets theirs. */
static json_t *shape_ops_json(const tn_model *m, json_t *names, uint32_t *n) {
  json_t *j = json_array();
  tn_id left[MAX_LISTED];
  *n = tni_shape_ops_left(m->graph, left, MAX_LISTED);
  if (*n == UINT32_MAX) {
    *n = 0;
    tni_json_lacked();
  }
  for (uint32_t i = 0; i < *n && i < MAX_LISTED; i++) {
    json_array_append_new(j, reason_json(m, left[i]));
    json_array_append_new(names, tni_json_shown(tni_graph_node(m->graph, left[i])->pub.name));
  }
  return j;
}

/* Transposes and Reshapes: what moves elements of a step, or names its axes, without computing anything. */
static uint32_t layout_ops(const tn_model *m) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->graph->n_nodes; i++) {
    const tni_node *node = m->graph->nodes[i];
    n += !node->dead && (node->pub.op == TN_OP_TRANSPOSE || node->pub.op == TN_OP_RESHAPE);
  }
  return n;
}

/* Nodes whose dims come when they run. */
static json_t *dynamic_json(const tn_model *m, uint32_t *n) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < m->graph->n_nodes; i++) {
    if (!m->graph->nodes[i]->dynamic) continue;
    if ((*n)++ < MAX_LISTED) json_array_append_new(j, reason_json(m, i));
  }
  return j;
}

static json_t *inspect_json(tn_model *m) {
  json_t *j = json_object(), *in = json_array(), *out = json_array(), *passes = json_object(), *left = json_array();
  uint32_t n_left, n_dynamic = 0;
  json_t *shape_ops = shape_ops_json(m, left, &n_left), *dynamic = dynamic_json(m, &n_dynamic);
  for (uint32_t i = 0; i < m->n_inputs; i++) json_array_append_new(in, io_json(m->inputs[i]));
  for (uint32_t i = 0; i < m->n_outputs; i++) json_array_append_new(out, io_json(m->outputs[i]));
  for (uint32_t i = 0; i < m->passes.n; i++)
    json_object_set_new(passes, m->passes.entries[i].name, json_integer(m->passes.entries[i].fired));
  json_object_set_new(j, "model", tni_json_shown(m->path));
  json_object_set_new(j, "producer", tni_json_shown(m->import->producer));
  json_object_set_new(j, "inputs", in);
  json_object_set_new(j, "outputs", out);
  json_object_set_new(j, "symbols", symbols_json(m));
  json_object_set_new(j, "nodes_before", json_integer(m->import->n_nodes_file));
  json_object_set_new(j, "nodes_after", json_integer(m->graph->n_nodes));
  json_object_set_new(j, "shape_ops_left", json_integer(n_left));
  json_object_set_new(j, "shape_ops_left_names", left);
  json_object_set_new(j, "shape_ops", shape_ops);
  json_object_set_new(j, "layout_ops_left", json_integer(layout_ops(m)));
  json_object_set_new(j, "dynamic_nodes", json_integer(n_dynamic));
  json_object_set_new(j, "dynamic", dynamic);
  json_object_set_new(j, "passes", passes);
  json_object_set_new(j, "placement", tni_placement_json(m, &m->execs[0]));
  json_object_set_new(j, "context", json_integer((json_int_t)tni_limit_longest(m)));
  json_object_set_new(j, "memory", memory_json(m));
  json_object_set_new(j, "caches", tni_caches_json(m));
  json_object_set_new(j, "caches_kept", json_boolean(!m->roles.why_not));
  if (m->roles.why_not) json_object_set_new(j, "caches_reason", tni_json_shown(m->roles.why_not));
  json_object_set_new(j, "carried", tni_carried_json(m));
  json_object_set_new(j, "embeddings", tni_embeddings_json(m));
  return j;
}

tn_status tn_model_report(tn_model *m, uint32_t what, char **json, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  TNI_NOT_NULL(json);
  tni_json_begin();
  json_t *j = NULL;
  for (tn_model *next; (next = __atomic_load_n(&m->next, __ATOMIC_ACQUIRE));) m = next; /* as it is placed now */
  if (what == TN_REPORT_CALIBRATION || what == TN_REPORT_PACK || what == TN_REPORT_PACK_ERRORS) {
    tn_status st = what == TN_REPORT_CALIBRATION ? tni_calibrate_report(m, &j, err)
                                                 : tni_pack_report(m, what == TN_REPORT_PACK_ERRORS, &j, err);
    return st == TN_OK ? to_text(j, json, err) : st;
  }
  if (what == TN_REPORT_WEIGHTS || what == TN_REPORT_WEIGHTS_ALL) {
    const tn_status st = tni_weights_report(m, what == TN_REPORT_WEIGHTS_ALL, &j, err);
    return st == TN_OK ? to_text(j, json, err) : st;
  }
  if (what == TN_REPORT_INSPECT) return to_text(inspect_json(m), json, err);
  if (what != TN_REPORT_CHECK && what != TN_REPORT_PLACEMENT)
    return tni_fail(err, TN_E_INVALID, "tn_model_report", "unknown report %u", what);
  tni_json_writer w = {0};
  tni_check_write(m, what == TN_REPORT_CHECK, &w);
  return end_text(&w, json, err);
}
