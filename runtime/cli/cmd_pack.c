/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing ahead of time, and errors of weights by any format.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

enum { MAX_PARAMS = 8 };

typedef struct pack_opts {
  char *weights;
  const char *format; /* weight format, or NULL: what the profile's devices want */
  int64_t params[MAX_PARAMS];
  uint32_t n_params;
  int report;
} pack_opts;

/* "NAME" or "NAME:1,2" */
static int parse_weights(cli *c, pack_opts *o) {
  char *text = o->weights, *colon = text ? strchr(text, ':') : NULL, *save = NULL;
  o->format = text;
  if (!colon) return 0;
  *colon = '\0';
  for (char *p = strtok_r(colon + 1, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(p, &end, 10);
    if (errno || end == p || *end || o->n_params == MAX_PARAMS)
      return cli_usage(c, "--weights takes NAME:NUMBER,..., not '%s:%s'", text, p);
    o->params[o->n_params++] = v;
  }
  return 0;
}

static const char *pack_str(json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static double pack_number(json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void params_text(json_t *list, char *buf, size_t n) {
  size_t i, at = 0;
  json_t *p;
  buf[0] = '\0';
  json_array_foreach(list, i, p) {
    const int m = snprintf(buf + at, n - at, "%s%lld", i ? "," : ":", (long long)json_integer_value(p));
    if (m < 0 || (size_t)m >= n - at) return;
    at += (size_t)m;
  }
}

/* "float32", or "4 bits:32 codes": bits, group and zero points of a grid; "levels" where it has none. */
static void source_text(json_t *source, char *buf, size_t n) {
  const char *zeros = pack_str(source, "zeros");
  if (*pack_str(source, "dtype"))
    snprintf(buf, n, "%s", pack_str(source, "dtype"));
  else
    snprintf(buf, n, "%lld bits:%lld %s", (long long)pack_number(source, "bits"),
             (long long)pack_number(source, "group"), strcmp(zeros, "none") == 0 ? "levels" : zeros);
}

static void add_row(cli_table *t, json_t *v, json_t *j) {
  char dims[48], bytes[32], cells[4][32], format[96], params[64], source[64];
  json_t *own = json_object_get(v, "params");
  params_text(own ? own : json_object_get(j, "params"), params, sizeof params);
  snprintf(format, sizeof format, "%s%s", *pack_str(v, "format") ? pack_str(v, "format") : pack_str(j, "format"),
           params);
  snprintf(dims, sizeof dims, "%lldx%lld", (long long)pack_number(v, "N"), (long long)pack_number(v, "K"));
  if (json_object_get(v, "refused")) {
    cli_table_add(t, pack_str(v, "name"), dims, "", format, "", "", "", "", "", "", pack_str(v, "refused"));
    return;
  }
  static const char *const keys[] = {"max_of_group", "rms", "mean_abs_of_weights", "bound"};
  for (int k = 0; k < 4; k++) snprintf(cells[k], sizeof *cells, "%.6f", pack_number(v, keys[k]));
  snprintf(bytes, sizeof bytes, "%lld", (long long)pack_number(v, "bytes"));
  source_text(json_object_get(v, "source"), source, sizeof source);
  cli_table_add(t, pack_str(v, "name"), dims, source, format, pack_str(v, "scales"), bytes, cells[0], cells[3],
                cells[1], cells[2], json_is_false(json_object_get(v, "within_bound")) ? "outside its bound" : "");
}

static void print_errors(json_t *j, cli_format f) {
  static const char *const header[] = {"matrix", "N x K", "source",   "format", "scales", "bytes", "max / group's max",
                                       "bound",  "rms",   "mean abs", "note"};
  cli_table t;
  size_t i;
  json_t *v, *total = json_object_get(j, "total");
  cli_table_init(&t, header, 11);
  json_array_foreach(json_object_get(j, "tensors"), i, v) add_row(&t, v, j);
  cli_table_print(&t, f);
  cli_table_finish(&t);
  cli_note(
      "all: %.3f bits per weight; errors of the weights: rms %.6f, mean %.6f, largest %.6f of a group's largest; "
      "worst: %s",
      pack_number(total, "bits_per_weight"), pack_number(total, "rms"), pack_number(total, "mean_abs_of_weights"),
      pack_number(total, "max_of_group"), pack_str(total, "worst"));
}

static void print_devices(json_t *j, cli_format f) {
  static const char *const header[] = {"device", "formats", "matrices", "packed", "mapped", "MB", "seconds", "file"};
  cli_table t;
  size_t i;
  json_t *d;
  cli_table_init(&t, header, 8);
  json_array_foreach(json_object_get(j, "devices"), i, d) {
    char formats[128] = "", cells[5][32];
    const char *name;
    json_t *count;
    json_object_foreach(json_object_get(d, "formats"), name, count)
        snprintf(formats + strlen(formats), sizeof formats - strlen(formats), "%s%s", *formats ? " " : "", name);
    snprintf(cells[0], sizeof *cells, "%.0f", pack_number(d, "matrices"));
    snprintf(cells[1], sizeof *cells, "%.0f", pack_number(d, "packed"));
    snprintf(cells[2], sizeof *cells, "%.0f", pack_number(d, "mapped"));
    snprintf(cells[3], sizeof *cells, "%.1f", (pack_number(d, "packed_bytes") + pack_number(d, "mapped_bytes")) / 1e6);
    snprintf(cells[4], sizeof *cells, "%.2f", pack_number(d, "seconds"));
    cli_table_add(&t, pack_str(d, "device"), formats, cells[0], cells[1], cells[2], cells[3], cells[4],
                  *pack_str(d, "path") ? pack_str(d, "path") : "(memory: not kept)");
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
  json_array_foreach(json_object_get(j, "devices"), i,
                     d) if (pack_number(d, "compiled") || pack_number(d, "not_compiled"))
      cli_note("%s: %.0f tasks compiled ahead of time in %.2f s; %.0f have dims that only a run knows",
               pack_str(d, "device"), pack_number(d, "compiled"), pack_number(d, "compile_seconds"),
               pack_number(d, "not_compiled"));
}

static int show_packing(cli *c, const pack_opts *o, json_t *j) {
  if (!j) return cli_fail(c, c->err.code ? c->err.code : TN_E_INTERNAL);
  const long long outside = json_integer_value(json_object_get(json_object_get(j, "total"), "outside_bound"));
  if (c->format == FMT_JSON) {
    cli_print_json(json_incref(j), JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  } else {
    if (json_object_get(j, "devices")) print_devices(j, c->format);
    if (o->report && json_object_get(j, "devices")) putchar('\n');
    if (o->report) print_errors(j, c->format);
    cli_note_embeddings(j);
  }
  json_decref(j);
  if (outside) cli_note("%lld matrices are outside the bound that their format declares", outside);
  return outside ? EXIT_CHECK : EXIT_DONE;
}

static int report_format(cli *c, const char *path, const pack_opts *o) {
  tn_model *m = NULL;
  char *text = NULL;
  int rc = cli_load(c, path, TN_MODEL_INSPECT | TN_MODEL_DECODER, &m);
  if (!rc) {
    cli_cancel_load(c->rt);
    const tn_status st = tn_model_format_report(m, o->format, o->params, o->n_params, &text, &c->err);
    cli_cancel_load(NULL);
    rc = st == TN_OK ? show_packing(c, o, json_loads(text, 0, NULL)) : cli_fail(c, st);
  }
  tn_free(text);
  tn_model_destroy(m);
  return rc;
}

static int pack_model(cli *c, const char *path, const pack_opts *o) {
  tn_model *m = NULL;
  int rc = cli_load(c, path, TN_MODEL_PACK | TN_MODEL_DECODER, &m);
  if (!rc) rc = show_packing(c, o, cli_report(c, m, o->report ? TN_REPORT_PACK_ERRORS : TN_REPORT_PACK));
  tn_model_destroy(m);
  return rc;
}

int cmd_pack(int argc, const char **argv) {
  cli c = {.command = "pack"};
  pack_opts o = {0};
  const opt_row own[] = {
      {"weights", 0, OPT_TEXT, &o.weights, "F", NULL,
       "with --report: try this weight format of any plugin, NAME or NAME:NUMBER,...", NULL},
      {"output", 'o', OPT_TEXT, &c.cache_dir, "DIR", NULL, "the folder to pack into; the same as --cache-dir", ""},
      {"report", 0, OPT_FLAG, &o.report, NULL, NULL, "errors of every matrix and the worst", NULL},
      {"disable-pass", 0, OPT_TEXT, &c.disable, "NAME,...|all", NULL, "leave these passes out, or all", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv, &(cli_use){.usage = "MODEL [options]", .operand = "MODEL", .own = own});
  if (!rc) rc = parse_weights(&c, &o);
  if (!rc && o.format && !o.report)
    rc = cli_usage(&c, "devices choose their formats (options of the profile): --weights goes with --report");
  if (!rc) rc = cli_open(&c, o.format ? TN_RT_SCAN : 0);
  if (!rc) rc = o.format ? report_format(&c, c.operand, &o) : pack_model(&c, c.operand, &o);
  cli_finish(&c);
  return rc;
}
