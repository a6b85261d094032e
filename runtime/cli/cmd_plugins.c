/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

static const char *plugin_str(json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static void list_devices(json_t *plugins, cli_format f) {
  static const char *const header[] = {"plugin", "version", "state", "device", "driver", "reason"};
  cli_table t;
  cli_table_init(&t, header, 6);
  size_t i, k;
  json_t *p, *d;
  json_array_foreach(plugins, i, p) {
    const char *state = json_is_true(json_object_get(p, "loaded")) ? "loaded"
                        : json_object_get(p, "quarantined_since")  ? "quarantined"
                                                                   : "not loaded";
    json_t *devices = json_object_get(p, "devices");
    if (!json_array_size(devices))
      cli_table_add(&t, plugin_str(p, "name"), plugin_str(p, "version"), state, "", "", plugin_str(p, "reason"));
    json_array_foreach(devices, k, d) cli_table_add(
        &t, plugin_str(p, "name"), plugin_str(p, "version"), state, plugin_str(d, "name"), plugin_str(d, "driver"),
        json_is_true(json_object_get(d, "offline")) ? "offline: claims and packs, cannot run"
                                                    : plugin_str(p, "reason"));
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

/* What confines the processes of those that have one of their own, and the probes. */
static void list_walls(json_t *plugins) {
  size_t i;
  json_t *p;
  json_array_foreach(plugins, i, p) {
    const char *text = plugin_str(p, "process_text");
    if (*text) printf("%s runs in a process of its own; %s\n", plugin_str(p, "name"), text);
    text = plugin_str(p, "probe_text");
    if (*text) printf("%s was probed in a process of its own; %s\n", plugin_str(p, "name"), text);
  }
}

/* "int8 static per row, max 127, half even" */
static void format_activation(json_t *n, char *buf, size_t size) {
  const char *scheme = plugin_str(n, "activation_scheme");
  const long long group = json_integer_value(json_object_get(n, "activation_group"));
  char per[32] = "per row";
  if (group) snprintf(per, sizeof per, "per %lld", group);
  if (!*scheme || strcmp(scheme, "none") == 0)
    snprintf(buf, size, "%s", plugin_str(n, "activation"));
  else
    snprintf(buf, size, "%s %s %s, max %g, %s", plugin_str(n, "activation"), scheme,
             strcmp(scheme, "static") ? per : "per tensor", json_real_value(json_object_get(n, "activation_max")),
             plugin_str(n, "activation_rounding"));
}

/* "int32 per 128", "int32; tables by averages of 4, each entry within 0.5 of 253" */
static void accumulator_text(json_t *n, char *buf, size_t size) {
  const long long of = json_integer_value(json_object_get(n, "averages_of"));
  const long long group = json_integer_value(json_object_get(n, "accumulator_group"));
  char per[32] = "";
  if (group) snprintf(per, sizeof per, " per %lld", group);
  const int at = snprintf(buf, size, "%s%s", plugin_str(n, "accumulator"), per);
  if (of && at > 0 && (size_t)at < size)
    snprintf(buf + at, size - (size_t)at, "; tables by averages of %lld, each entry within %g of %g", of,
             json_real_value(json_object_get(n, "average_error")),
             json_real_value(json_object_get(n, "activation_max")));
}

static void list_formats(json_t *plugins, cli_format f) {
  static const char *const header[] = {"plugin",      "format",    "version",     "bits",        "group",
                                       "bits/weight", "max error", "activations", "accumulator", "across",
                                       "scales",      "denormals", "NaN",         "largest x",   "reads"};
  cli_table t;
  cli_table_init(&t, header, sizeof header / sizeof *header);
  size_t i, k;
  json_t *p, *fm;
  json_array_foreach(plugins, i, p) json_array_foreach(json_object_get(p, "formats"), k, fm) {
    char version[16], bits[16], group[16], bpw[16], act[96], sums[96], error[32], most[32] = "any";
    json_t *n = json_object_get(fm, "numerics"), *max = json_object_get(n, "finite_max");
    snprintf(version, sizeof version, "%lld", (long long)json_integer_value(json_object_get(fm, "version")));
    snprintf(bits, sizeof bits, "%lld", (long long)json_integer_value(json_object_get(fm, "bits")));
    snprintf(group, sizeof group, "%lld", (long long)json_integer_value(json_object_get(fm, "group")));
    snprintf(bpw, sizeof bpw, "%.3f", json_real_value(json_object_get(fm, "bits_per_weight")));
    snprintf(error, sizeof error, "%.4f", json_real_value(json_object_get(fm, "weight_error")));
    if (json_is_real(max)) snprintf(most, sizeof most, "%g", json_real_value(max));
    format_activation(n, act, sizeof act);
    accumulator_text(n, sums, sizeof sums);
    const bool stats = json_is_true(json_object_get(fm, "reads_statistics"));
    cli_table_add(&t, plugin_str(p, "name"), plugin_str(fm, "name"), version, bits,
                  strcmp(group, "0")                             ? group
                  : strcmp(plugin_str(fm, "group_is"), "matrix") ? "by option"
                                                                 : "matrix",
                  bpw, error, act, sums, plugin_str(n, "across_groups"), plugin_str(n, "scales"),
                  plugin_str(n, "denormals"), plugin_str(n, "nan"), most,
                  stats                                                  ? "statistics"
                  : json_is_true(json_object_get(fm, "reads_quantized")) ? "quantized"
                                                                         : "");
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

/* "32|128", "1 to 64" */
static void values_text(json_t *o, char *buf, size_t size) {
  size_t i, at = 0;
  json_t *s, *least = json_object_get(o, "least");
  *buf = '\0';
  if (least) snprintf(buf, size, "%.10g to %.10g", json_real_value(least), json_real_value(json_object_get(o, "most")));
  json_array_foreach(json_object_get(o, "choices"), i, s) {
    const int n = at < size ? snprintf(buf + at, size - at, "%s%s", i ? "|" : "", json_string_value(s)) : 0;
    at += n > 0 ? (size_t)n : 0;
  }
}

/* What a profile may set under `options:`. */
static void list_options(json_t *plugins, cli_format f) {
  static const char *const header[] = {"plugin", "option", "type", "default", "values", "what it does"};
  cli_table t;
  cli_table_init(&t, header, sizeof header / sizeof *header);
  size_t i, k;
  json_t *p, *o;
  json_array_foreach(plugins, i, p) json_array_foreach(json_object_get(p, "options"), k, o) {
    char values[512];
    values_text(o, values, sizeof values);
    cli_table_add(&t, plugin_str(p, "name"), plugin_str(o, "key"), plugin_str(o, "type"), plugin_str(o, "default"), values,
                  plugin_str(o, "help"));
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

/* A name that no plugin has was a slip. */
static int check_retried(cli *c, json_t *plugins) {
  size_t i;
  json_t *p;
  if (!c->retry) return EXIT_DONE;
  json_array_foreach(plugins, i, p) if (strcmp(plugin_str(p, "name"), c->retry) == 0) {
    if (json_object_get(p, "quarantined_since")) return EXIT_CHECK;
    cli_note("%s: %s", c->retry, json_is_true(json_object_get(p, "loaded")) ? "loaded" : plugin_str(p, "reason"));
    return EXIT_DONE;
  }
  return cli_usage(c, "--retry: no plugin is called '%s'", c->retry);
}

static int list_plugins(cli *c, int formats, int options) {
  char *text = NULL;
  tn_status st = tn_runtime_report(c->rt, &text, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  json_t *j = cli_parse_report(c, text);
  if (!j) {
    tn_free(text);
    return cli_fail(c, TN_E_NO_MEMORY);
  }
  const int rc = check_retried(c, json_object_get(j, "plugins"));
  if (rc == EXIT_USAGE)
    ; /* said */
  else if (c->format == FMT_JSON)
    cli_print_json(json_incref(j), JSON_INDENT(1));
  else
    (formats ? list_formats : options ? list_options : list_devices)(json_object_get(j, "plugins"), c->format);
  if (rc != EXIT_USAGE && c->format == FMT_TEXT && !formats && !options) list_walls(json_object_get(j, "plugins"));
  json_decref(j);
  tn_free(text);
  return rc;
}

int cmd_plugins(int argc, const char **argv) {
  cli c = {.command = "plugins"};
  int formats = 0, options = 0;
  char *retry = NULL;
  const opt_row own[] = {
      {"formats", 0, OPT_FLAG, &formats, NULL, NULL, "list weight formats", NULL},
      {"options", 0, OPT_FLAG, &options, NULL, NULL, "list what a profile may set of each plugin", NULL},
      {"retry", 0, OPT_TEXT, &retry, "NAME", NULL, "try a plugin again that is in quarantine, or probe it anew", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv, &(cli_use){.usage = "[options]", .operand = NULL, .own = own});
  c.retry = retry;
  if (!rc && formats && options) rc = cli_usage(&c, "--formats and --options: one of them");
  if (!rc) rc = cli_open(&c, TN_RT_SCAN);
  if (!rc) rc = list_plugins(&c, formats, options);
  cli_finish(&c);
  return rc;
}
