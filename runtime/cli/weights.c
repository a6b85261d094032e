/* SPDX-License-Identifier: Apache-2.0
 *
 * What weights and caches are, in a line on stderr: nobody should learn of rounding from a result that is off.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/cli/cli.h"

enum { LINE = 512 };

/* "f32" of "float32". */
static const char *short_dtype(const char *name) {
  static const char *const names[][2] = {
      {"float32", "f32"}, {"float16", "f16"}, {"bfloat16", "bf16"}, {"int8", "i8"}, {"uint8", "u8"}, {"int4", "i4"}};
  for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i][0]) == 0) return names[i][1];
  return name ? name : "unknown";
}

static void add_text(char *line, const char *text) {
  const size_t at = strlen(line);
  snprintf(line + at, LINE - at, "%s", text);
}

/* "w4g:32, 4.5 bits, rounded from f32 (rms 0.083)" */
static void add_entry(char *line, json_t *e) {
  char text[192];
  size_t i;
  json_t *p, *source = json_object_get(e, "source");
  add_text(line, json_string_value(json_object_get(e, "format")));
  json_array_foreach(json_object_get(e, "params"), i, p) {
    snprintf(text, sizeof text, "%s%lld", i ? "," : ":", (long long)json_integer_value(p));
    add_text(line, text);
  }
  snprintf(text, sizeof text, ", %.4g bits, ", json_number_value(json_object_get(e, "bits_per_weight")));
  add_text(line, text);
  if (json_is_true(json_object_get(e, "exact"))) {
    add_text(line, "as stored");
    return;
  }
  const char *dtype = json_string_value(json_object_get(source, "dtype"));
  if (dtype)
    snprintf(text, sizeof text, "rounded from %s", short_dtype(dtype));
  else
    snprintf(text, sizeof text, "rounded again from %.4g bits in blocks of %lld",
             json_number_value(json_object_get(source, "bits")),
             (long long)json_integer_value(json_object_get(source, "group")));
  add_text(line, text);
  snprintf(text, sizeof text, " (rms %.2g)", json_number_value(json_object_get(e, "rms")));
  add_text(line, text);
}

static void add_caches(char *line, json_t *j) {
  size_t i;
  json_t *dtype;
  json_array_foreach(json_object_get(j, "caches"), i, dtype) {
    add_text(line, i ? " and " : "; kv ");
    add_text(line, short_dtype(json_string_value(dtype)));
  }
}

/* Whether an entry before this one reads the same: weights of two sources in one format. */
static bool said_before(json_t *list, size_t n, const char *entry) {
  for (size_t i = 0; i < n; i++) {
    char other[LINE] = "";
    add_entry(other, json_array_get(list, i));
    if (!strcmp(other, entry)) return true;
  }
  return false;
}

static void weights_line(json_t *j, char *line) {
  json_t *list = json_object_get(j, "weights"), *e;
  const bool exact = json_is_true(json_object_get(j, "exact"));
  size_t i;
  snprintf(line, LINE, "weights: ");
  if (!json_array_size(list)) add_text(line, "as stored");
  const char *between = "";
  json_array_foreach(list, i, e) {
    char entry[LINE] = "";
    add_entry(entry, e);
    if (said_before(list, i, entry)) continue;
    add_text(line, between);
    add_text(line, entry);
    between = "; ";
  }
  if (!exact) add_text(line, "; --profile host: as stored");
  add_caches(line, j);
}

bool cli_note_weights(cli *c, tn_model *m) {
  char line[LINE];
  const tn_error before = c->err;
  json_t *j = cli_report(c, m, TN_REPORT_WEIGHTS);
  c->err = before; /* a line that cannot be had is no failure */
  if (!j) return true;
  weights_line(j, line);
  cli_note("%s", line);
  const bool exact = json_is_true(json_object_get(j, "exact"));
  json_decref(j);
  return exact;
}

int cli_refuse_rounded(cli *c, tn_model *m) {
  json_t *j = cli_report(c, m, TN_REPORT_WEIGHTS_ALL), *e;
  size_t i;
  if (!j) return cli_fail(c, c->err.code ? c->err.code : TN_E_INTERNAL);
  const bool exact = json_is_true(json_object_get(j, "exact"));
  json_array_foreach(json_object_get(j, "weights"), i, e) {
    char line[LINE] = "not exact: ";
    if (json_is_true(json_object_get(e, "exact"))) continue;
    add_entry(line, e);
    cli_note("%s, %lld matrices", line, (long long)json_integer_value(json_object_get(e, "matrices")));
  }
  json_decref(j);
  if (!exact) cli_note("--exact: this profile rounds weights; --profile host computes with them as they are stored");
  return exact ? EXIT_DONE : EXIT_UNSUPPORTED;
}
