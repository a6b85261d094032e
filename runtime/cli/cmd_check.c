/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

static void refusal_text(json_t *refusals, char *buf, size_t cap) {
  const char *device;
  json_t *why;
  size_t at = 0;
  buf[0] = '\0';
  json_object_foreach(refusals, device, why) {
    int n = snprintf(buf + at, cap - at, "%s%s: %s", at ? "; " : "", device,
                     json_string_value(json_object_get(why, "text")));
    if (n < 0 || (size_t)n >= cap - at) break;
    at += (size_t)n;
  }
}

/* A node of both placements: it has the same name, and stands at the same place. */
typedef struct row {
  json_t *n, *other; /* other: in the decode phase, or NULL */
  char op[160], why[1024];
} row;

static const char *device_of(json_t *n) {
  const char *s = json_string_value(json_object_get(n, "device"));
  return s ? s : "(none)";
}

static const char *format_of(json_t *n) {
  const char *s = json_string_value(json_object_get(n, "format"));
  return s ? s : "";
}

static void fill_row(row *r) {
  const char *domain = json_string_value(json_object_get(r->n, "domain"));
  snprintf(r->op, sizeof r->op, "%s%s%s-%lld", domain, *domain ? "." : "",
           json_string_value(json_object_get(r->n, "op")),
           (long long)json_integer_value(json_object_get(r->n, "version")));
  refusal_text(json_object_get(r->n, "refusals"), r->why, sizeof r->why);
  if (!r->other) return;
  char decode[512];
  refusal_text(json_object_get(r->other, "refusals"), decode, sizeof decode);
  const size_t at = strlen(r->why);
  if (*decode && strcmp(decode, r->why) != 0)
    snprintf(r->why + at, sizeof r->why - at, "%sin decode %s", at ? "; " : "", decode);
}

static int is_taken(const row *r) {
  return !json_is_null(json_object_get(r->n, "device")) &&
         (!r->other || !json_is_null(json_object_get(r->other, "device")));
}

static void dtypes_text(json_t *inputs, char *buf, size_t cap) {
  size_t i, at = 0;
  json_t *v;
  buf[0] = '\0';
  json_array_foreach(inputs, i, v) {
    const char *name = json_string_value(v);
    const int n = snprintf(buf + at, cap - at, "%s%s", i ? ", " : "", name && *name ? name : "-");
    if (n < 0 || (size_t)n >= cap - at) break;
    at += (size_t)n;
  }
}

/* What nobody takes: everything that decides whether somebody could. */
static void print_unsupported(json_t *j, cli_format f) {
  static const char *const header[] = {"node", "op", "inputs", "attributes", "refused because", "nearest that works"};
  json_t *decode = json_object_get(json_object_get(j, "decode"), "nodes");
  cli_table t;
  size_t i;
  row r = {0};
  cli_table_init(&t, header, 6);
  json_array_foreach(json_object_get(j, "nodes"), i, r.n) {
    char inputs[256];
    r.other = json_array_get(decode, i);
    fill_row(&r);
    if (is_taken(&r)) continue;
    json_t *from = json_is_null(json_object_get(r.n, "device")) ? r.n : r.other;
    dtypes_text(json_object_get(r.n, "inputs"), inputs, sizeof inputs);
    cli_table_add(&t, json_string_value(json_object_get(r.n, "name")), r.op, inputs,
                  json_string_value(json_object_get(from, "attributes")), r.why,
                  json_string_value(json_object_get(from, "nearest")));
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

/* The last row goes where one says the same of another node of this kind; counts: further nodes of a row. */
static void roll_up(cli_table *t, uint32_t *counts) {
  char **last = t->cells + (t->n_rows - 1) * t->n_cols;
  for (size_t k = 0; k + 1 < t->n_rows; k++) {
    char **row_cells = t->cells + k * t->n_cols;
    size_t c = 1;
    while (c < t->n_cols && last[c] && row_cells[c] && strcmp(last[c], row_cells[c]) == 0) c++;
    if (c < t->n_cols) continue;
    for (c = 0; c < t->n_cols; c++) free(last[c]);
    t->n_rows--;
    counts[k]++;
    return;
  }
}

/* "53 nodes: NAME ...", where a row stands for more than one. */
static void name_row(cli_table *t, size_t k, uint32_t more) {
  char **cell = t->cells + k * t->n_cols, *named = NULL;
  if (!more) return;
  if (asprintf(&named, "%u nodes: %s, ...", more + 1, *cell ? *cell : "") < 0) {
    tni_json_lacked();
    return;
  }
  free(*cell);
  *cell = named;
}

/* One table: a device for each phase where the phases have placements of their own. */
static void print_nodes(json_t *j, cli_format f, bool all) {
  static const char *const one[] = {"node", "op", "device", "format", "others refused because"},
                           *const two[] = {"node",
                                           "op",
                                           "prefill",
                                           "decode",
                                           "format in prefill",
                                           "format in decode",
                                           "others refused because"};
  json_t *decode = json_object_get(json_object_get(j, "decode"), "nodes");
  cli_table t;
  size_t i;
  row r = {0};
  cli_table_init(&t, decode ? two : one, decode ? 7 : 5);
  uint32_t *counts = all ? NULL : calloc(json_array_size(json_object_get(j, "nodes")) + 1, sizeof *counts);
  if (!all && !counts) tni_json_lacked();
  json_array_foreach(json_object_get(j, "nodes"), i, r.n) {
    r.other = json_array_get(decode, i);
    fill_row(&r);
    const char *name = json_string_value(json_object_get(r.n, "name"));
    const size_t before = t.n_rows;
    if (decode)
      cli_table_add(&t, name, r.op, device_of(r.n), device_of(r.other), format_of(r.n), format_of(r.other), r.why);
    else
      cli_table_add(&t, name, r.op, device_of(r.n), format_of(r.n), r.why);
    if (counts && *r.why && t.n_rows > before) roll_up(&t, counts);
  }
  for (size_t k = 0; counts && k < t.n_rows; k++) name_row(&t, k, counts[k]);
  free(counts);
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

/* In the place of all nodes of the report those that nobody takes, of both phases where there are two. */
static void keep_unsupported(json_t *j) {
  json_t *nodes = json_object_get(j, "nodes"), *decode = json_object_get(json_object_get(j, "decode"), "nodes");
  for (size_t i = json_array_size(nodes); i-- > 0;) {
    row r = {.n = json_array_get(nodes, i), .other = json_array_get(decode, i)};
    fill_row(&r);
    if (!is_taken(&r)) continue;
    json_array_remove(nodes, i);
    if (decode) json_array_remove(decode, i);
  }
}

/* What --unsupported shows as JSON. */
static json_t *print_unsupported_whole(cli *c, tn_model *m) {
  json_t *j = cli_report(c, m, TN_REPORT_CHECK);
  if (!j) return NULL;
  keep_unsupported(j);
  cli_print_json(json_incref(j), JSON_INDENT(1));
  return j;
}

/* The whole report on stdout; what is left of it is the notes. */
static json_t *print_whole(cli *c, tn_model *m) {
  char *text = cli_report_text(c, m, TN_REPORT_CHECK);
  if (!text) return NULL;
  json_t *more = json_object(), *w = cli_report(c, m, TN_REPORT_WEIGHTS);
  if (w) json_object_set_new(more, "weights", w);
  cli_print_report(text, more);
  tn_free(text);
  return cli_report(c, m, TN_REPORT_PLACEMENT);
}

static json_t *print_tables(cli *c, tn_model *m, bool only_unsupported, bool all) {
  json_t *j = cli_report(c, m, TN_REPORT_CHECK);
  if (!j) return NULL;
  if (only_unsupported)
    print_unsupported(j, c->format);
  else
    print_nodes(j, c->format, all);
  cli_note_phases(j, true);
  cli_note_embeddings(j);
  return j;
}

static int print_check(cli *c, tn_model *m, int only_unsupported, bool all, int exact) {
  json_t *j = c->format != FMT_JSON ? print_tables(c, m, only_unsupported, all)
              : only_unsupported    ? print_unsupported_whole(c, m)
                                    : print_whole(c, m),
         *offline;
  size_t i;
  if (!j) return cli_fail(c, c->err.code ? c->err.code : TN_E_INTERNAL);
  const long long unsupported = json_integer_value(json_object_get(j, "unsupported"));
  json_array_foreach(json_object_get(j, "offline"), i, offline) cli_note(
      "'%s' is offline: it claims and packs for hardware that is not here, and cannot run", json_string_value(offline));
  json_decref(j);
  if (unsupported) cli_note("no device runs %lld nodes", unsupported);
  if (unsupported) return EXIT_UNSUPPORTED;
  if (!only_unsupported) cli_note_weights(c, m);
  return exact ? cli_refuse_rounded(c, m) : EXIT_DONE;
}

int cmd_check(int argc, const char **argv) {
  cli c = {.command = "check"};
  int only = 0, all = 0, exact = 0;
  const opt_row own[] = {
      {"unsupported", 0, OPT_FLAG, &only, NULL, NULL, "list only what nobody takes; reads no tensor over 1 KiB", NULL},
      {"all", 0, OPT_FLAG, &all, NULL, NULL, "a row for each node, also where others say the same", NULL},
      {"exact", 0, OPT_FLAG, &exact, NULL, NULL, "fail with a list where weights are rounded; compares all of them",
       NULL},
      {"disable-pass", 0, OPT_TEXT, &c.disable, "NAME,...|all", NULL, "leave these passes out, or all", NULL},
      OPT_ROWS_END};
  tn_model *m = NULL;
  int rc = cli_parse(&c, argc, argv, &(cli_use){.usage = "MODEL [options]", .operand = "MODEL", .own = own});
  if (!rc && only && exact) rc = cli_usage(&c, "--unsupported reads no weights, which --exact compares");
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = cli_load(&c, c.operand, TN_MODEL_INSPECT | TN_MODEL_DECODER | (only ? TN_MODEL_UNREAD : 0), &m);
  if (!rc) rc = print_check(&c, m, only, all || c.format != FMT_TEXT, exact);
  tn_model_destroy(m);
  cli_finish(&c);
  return rc;
}
