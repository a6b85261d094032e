/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

enum { MAX_LIST = 32 };

typedef struct inspect_opts {
  char *dims, *dump;
  int passes;
  const char *names[MAX_LIST];
  int64_t values[MAX_LIST];
  uint32_t n;
} inspect_opts;

/* "N=1,sumN=4096" */
static int parse_dims(cli *c, inspect_opts *o) {
  char *save = NULL;
  for (char *p = o->dims ? strtok_r(o->dims, ",", &save) : NULL; p; p = strtok_r(NULL, ",", &save)) {
    char *eq = strchr(p, '='), *end = NULL;
    errno = 0;
    long long v = eq ? strtoll(eq + 1, &end, 10) : -1;
    if (!eq || eq == p || end == eq + 1 || *end || errno || v < 0 || o->n == MAX_LIST)
      return cli_usage(c, "--dims takes NAME=NUMBER,..., not '%s'", p);
    *eq = '\0';
    o->names[o->n] = p;
    o->values[o->n++] = v;
  }
  return 0;
}

static bool has_symbol(const json_t *symbols, const char *name) {
  size_t i;
  json_t *s;
  json_array_foreach(symbols, i, s) if (strcmp(json_string_value(json_object_get(s, "name")), name) == 0) return true;
  return false;
}

/* A name that the model does not have is a slip: what it has is listed. */
static int check_dims(cli *c, const json_t *report, const inspect_opts *o) {
  const json_t *symbols = json_object_get(report, "symbols");
  char have[1024] = "";
  size_t i;
  json_t *s;
  json_array_foreach(symbols, i, s) {
    const size_t at = strlen(have);
    snprintf(have + at, sizeof have - at, "%s%s", at ? ", " : "", json_string_value(json_object_get(s, "name")));
  }
  for (uint32_t k = 0; k < o->n; k++)
    if (!has_symbol(symbols, o->names[k]))
      return cli_usage(c, "--dims: the model has no dim '%s'; it has %s", o->names[k],
                       *have ? have : "none that is open");
  return 0;
}

static void print_io(const char *what, json_t *list) {
  size_t i, k;
  json_t *io, *d;
  printf("%s:\n", what);
  json_array_foreach(list, i, io) {
    printf("  %-32s %-8s [", json_string_value(json_object_get(io, "name")),
           json_string_value(json_object_get(io, "dtype")));
    json_array_foreach(json_object_get(io, "dims"), k, d) {
      if (json_is_integer(d))
        printf("%s%lld", k ? ", " : "", (long long)json_integer_value(d));
      else
        printf("%s%s", k ? ", " : "", json_string_value(d));
    }
    printf("]\n");
  }
}

static void print_numbers(json_t *obj) {
  const char *key;
  json_t *v;
  json_object_foreach(obj, key, v) {
    if (json_is_integer(v)) printf("  %-20s %lld\n", key, (long long)json_integer_value(v));
    if (json_is_string(v)) printf("  %-20s %s\n", key, json_string_value(v));
  }
}

/* A few of the nodes that something is left of, each with its reason. */
static void print_reasons(json_t *list) {
  enum { SHOWN = 8 };
  size_t i;
  json_t *e;
  json_array_foreach(list, i, e) {
    if (i == SHOWN) {
      printf("  ... (--format json lists more)\n");
      break;
    }
    printf("  %-16s %s: %s\n", json_string_value(json_object_get(e, "op")),
           json_string_value(json_object_get(e, "node")), json_string_value(json_object_get(e, "reason")));
  }
}

static void print_caches(const json_t *caches) {
  const json_t *c;
  size_t i;
  json_array_foreach(caches, i, c)
      printf("caches: %lld of %s, memory of %s%s\n", (long long)json_integer_value(json_object_get(c, "caches")),
             json_string_value(json_object_get(c, "layout")), json_string_value(json_object_get(c, "memory_of")),
             json_is_true(json_object_get(c, "copied_when_handed_over")) ? " (copied when handed over)" : "");
}

static void print_text(json_t *j, int passes) {
  print_io("inputs", json_object_get(j, "inputs"));
  print_io("outputs", json_object_get(j, "outputs"));
  printf("symbols:");
  size_t i;
  json_t *s;
  json_array_foreach(json_object_get(j, "symbols"), i, s)
      printf("%s %s", i ? "," : "", json_string_value(json_object_get(s, "name")));
  printf("\nnodes: %lld in the file, %lld to run; shape ops left per step: %lld, Transposes and Reshapes: %lld\n",
         (long long)json_integer_value(json_object_get(j, "nodes_before")),
         (long long)json_integer_value(json_object_get(j, "nodes_after")),
         (long long)json_integer_value(json_object_get(j, "shape_ops_left")),
         (long long)json_integer_value(json_object_get(j, "layout_ops_left")));
  print_reasons(json_object_get(j, "shape_ops"));
  long long dynamic = json_integer_value(json_object_get(j, "dynamic_nodes"));
  if (dynamic) printf("nodes whose dims come when they run: %lld\n", dynamic);
  print_reasons(json_object_get(j, "dynamic"));
  if (passes) {
    printf("passes (times fired):\n");
    print_numbers(json_object_get(j, "passes"));
  }
  printf("context: %lld positions\n", (long long)json_integer_value(json_object_get(j, "context")));
  printf("placement (nodes):\n");
  print_numbers(json_object_get(j, "placement"));
  json_t *mem = json_object_get(j, "memory");
  printf("memory, bytes, at");
  const char *key;
  json_object_foreach(json_object_get(mem, "at"), key, s) printf(" %s=%lld", key, (long long)json_integer_value(s));
  printf(":\n");
  print_numbers(mem);
  print_caches(json_object_get(j, "caches"));
  if (json_array_size(json_object_get(j, "caches")) && json_object_get(j, "caches_reason"))
    printf("caches are not kept in place: %s\n", json_string_value(json_object_get(j, "caches_reason")));
  const size_t carried = json_array_size(json_object_get(j, "carried"));
  if (carried) printf("values that devices hand each other by copies: %zu\n", carried);
}

/* "[batch, 1, 64]" */
static void dims_text(const json_t *dims, char *out, size_t size) {
  size_t k;
  json_t *d;
  snprintf(out, size, "[");
  json_array_foreach(dims, k, d) {
    const size_t at = strlen(out);
    if (json_is_integer(d))
      snprintf(out + at, size - at, "%s%lld", k ? ", " : "", (long long)json_integer_value(d));
    else
      snprintf(out + at, size - at, "%s%s", k ? ", " : "", json_string_value(d));
  }
  const size_t at = strlen(out);
  snprintf(out + at, size - at, "]");
}

static void add_io_rows(cli_table *t, const char *part, const json_t *list) {
  size_t i;
  json_t *io;
  json_array_foreach(list, i, io) {
    char dims[512], value[600];
    dims_text(json_object_get(io, "dims"), dims, sizeof dims);
    snprintf(value, sizeof value, "%s %s", json_string_value(json_object_get(io, "dtype")), dims);
    cli_table_add(t, part, json_string_value(json_object_get(io, "name")), value);
  }
}

/* Numbers and texts of an object. */
static void add_value_rows(cli_table *t, const char *part, json_t *object) {
  const char *key;
  json_t *v;
  json_object_foreach(object, key, v) {
    char value[32];
    snprintf(value, sizeof value, "%lld", (long long)json_integer_value(v));
    if (json_is_integer(v) || json_is_string(v))
      cli_table_add(t, part, key, json_is_string(v) ? json_string_value(v) : value);
  }
}

/* The same as one table, for md and csv. */
static void print_rows(json_t *j, cli_format f) {
  static const char *const header[] = {"part", "name", "value"};
  cli_table t;
  cli_table_init(&t, header, 3);
  add_io_rows(&t, "input", json_object_get(j, "inputs"));
  add_io_rows(&t, "output", json_object_get(j, "outputs"));
  add_value_rows(&t, "graph", j);
  add_value_rows(&t, "pass", json_object_get(j, "passes"));
  add_value_rows(&t, "placement", json_object_get(j, "placement"));
  add_value_rows(&t, "memory", json_object_get(j, "memory"));
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

/* As `run` loads it: for the context that it would choose. */
static tn_status load_fit(cli *c, const char *path, tn_model_opts *mo, tn_model **m) {
  tn_status st = tn_model_load(c->rt, path, mo, m, &c->err);
  if (st != TN_OK || mo->max_seq || tn_model_max_seq(*m) == 0) return st;
  mo->max_seq = cli_fit_context(c, *m, tn_model_max_seq(*m));
  if (mo->max_seq == tn_model_max_seq(*m)) return TN_OK;
  tn_model_destroy(*m);
  *m = NULL;
  return tn_model_load(c->rt, path, mo, m, &c->err);
}

static int inspect_model(cli *c, const char *path, inspect_opts *o) {
  int64_t said = 0;
  int bad = 0;
  const int rc = cli_said_context(c, path, &said);
  if (rc) return rc;
  tn_model_opts mo = {.h = {sizeof mo, 1, 0},
                      .flags = TN_MODEL_INSPECT | TN_MODEL_DECODER,
                      .max_seq = c->max_seq,
                      .default_max_seq = said,
                      .dim_names = o->names,
                      .dim_values = o->values,
                      .n_dims = o->n,
                      .disabled_passes = c->disabled,
                      .n_disabled_passes = c->n_disabled};
  tn_model *m = NULL;
  tn_status st = load_fit(c, path, &mo, &m);
  json_t *j = st == TN_OK ? cli_report(c, m, TN_REPORT_INSPECT) : NULL;
  if (st == TN_OK && !j) st = c->err.code ? c->err.code : TN_E_INTERNAL;
  if (st == TN_OK && (bad = check_dims(c, j, o)) != 0) {
    json_decref(j);
    tn_model_destroy(m);
    return bad;
  }
  if (st == TN_OK && o->dump) {
    size_t n = strlen(o->dump);
    st = cli_saved(c, tn_model_dump(m, n > 4 && strcmp(o->dump + n - 4, ".dot") == 0 ? "dot" : "text", o->dump, &c->err));
  }
  if (st == TN_OK && c->format == FMT_JSON) {
    cli_print_json(json_incref(j), JSON_INDENT(1));
  } else if (st == TN_OK && c->format != FMT_TEXT) {
    print_rows(j, c->format);
  } else if (st == TN_OK) {
    print_text(j, o->passes);
    cli_note_embeddings(j);
  }
  json_decref(j);
  tn_model_destroy(m);
  return st == TN_OK ? EXIT_DONE : cli_fail(c, st);
}

int cmd_inspect(int argc, const char **argv) {
  cli c = {.command = "inspect"};
  inspect_opts o = {0};
  const opt_row own[] = {
      {"dims", 0, OPT_TEXT, &o.dims, "NAME=N,...", NULL, "dims for the memory statement", NULL},
      {"dump", 0, OPT_TEXT, &o.dump, "FILE", NULL, "write the graph (.dot for graphviz, else text)", NULL},
      {"passes", 0, OPT_FLAG, &o.passes, NULL, NULL, "how often each pass fired", NULL},
      {"disable-pass", 0, OPT_TEXT, &c.disable, "NAME,...|all", NULL, "leave these passes out, or all", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL [options]", .operand = "MODEL", .own = own, .context = true});
  if (!rc) rc = parse_dims(&c, &o);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = inspect_model(&c, c.operand, &o);
  cli_finish(&c);
  return rc;
}
