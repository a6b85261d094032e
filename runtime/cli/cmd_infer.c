/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/cli/cli.h"

enum { MAX_IO = 1024 };

/* "NAME=FILE" becomes NAME, with FILE after its end. The first '=' divides: names with '=' do not exist in ONNX tools.
 * What is given is an input, also where the model has an initializer for it. */
static int split_inputs(cli *c, char **in, const char **names) {
  c->overridable = names;
  for (char **p = in; p && *p; p++) {
    char *eq = strchr(*p, '=');
    if (!eq || eq == *p)
      return cli_fail(c, cli_error(&c->err, TN_E_INVALID, NULL, "--in takes NAME=FILE, not '%s'", *p));
    if (c->n_overridable == MAX_IO) return cli_usage(c, "too many --in");
    *eq = '\0';
    names[c->n_overridable++] = *p;
  }
  return 0;
}

static tn_status load_input(cli *c, const tn_model *m, const char *spec, tn_tensor **out) {
  tn_dtype as = TN_DT_UNDEFINED;
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++)
    if (strcmp(tn_model_input(m, i)->name, spec) == 0) as = tn_model_input(m, i)->dtype;
  tn_status st = tn_value_load(spec + strlen(spec) + 1, as, out, &c->err);
  if (st == TN_OK) (*out)->name = spec;
  return st;
}

static bool is_group(const tn_tensor *t) { return t->dtype == TN_DT_SEQUENCE || t->dtype == TN_DT_OPTIONAL; }

/* One tensor to a file; a sequence or optional to one per element, NAME.0.npy and so on. */
static tn_status save_value(cli *c, const tn_tensor *t, const char *name, const char *dir) {
  char path[4096];
  int at = snprintf(path, sizeof path, "%s/", dir);
  if (is_group(t)) {
    const tn_tensor *const *items = t->data;
    tn_status st = TN_OK;
    for (int64_t i = 0; st == TN_OK && i < t->dims[0]; i++) {
      char one[1024];
      snprintf(one, sizeof one, "%.1000s.%lld", name, (long long)i);
      st = save_value(c, items[i], one, dir);
    }
    return st;
  }
  snprintf(path + at, sizeof path - (size_t)at, "%s.npy", name);
  for (char *p = path + at; *p; p++)
    if (*p == '/') *p = '_';
  return cli_saved(c, tn_tensor_save(t, path, &c->err));
}

static tn_status save_outputs(cli *c, const tn_tensor *outs, uint32_t n, const char *dir) {
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
    return cli_saved(c, cli_error(&c->err, TN_E_IO, dir, "cannot make folder '%s': %s", dir, strerror(errno)));
  }
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = save_value(c, &outs[i], outs[i].name, dir);
  return st;
}

static void list_outputs(const tn_tensor *outs, uint32_t n, cli_format f) {
  static const char *const header[] = {"output", "dtype", "shape"};
  cli_table t;
  cli_table_init(&t, header, 3);
  for (uint32_t i = 0; i < n; i++) {
    char shape[256] = "[";
    for (uint32_t k = 0; k < outs[i].rank; k++) {
      size_t at = strlen(shape);
      snprintf(shape + at, sizeof shape - at, "%s%lld", k ? "," : "", (long long)outs[i].dims[k]);
    }
    strcat(shape, "]");
    cli_table_add(&t, outs[i].name, tn_dtype_name(outs[i].dtype), shape);
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

static int infer_once(cli *c, tn_model *m, char **in, const char *dir) {
  tn_tensor *ins[MAX_IO] = {0};
  uint32_t n_in = 0, n_out = tn_model_n_outputs(m);
  tn_session *s = NULL;
  tn_status st = TN_OK;
  tn_tensor *outs = calloc(n_out + 1, sizeof *outs);
  if (!outs) return cli_fail(c, TN_E_NO_MEMORY);
  for (uint32_t i = 0; i < n_out; i++) outs[i].h = (tn_hdr){sizeof *outs, 1, 0};
  for (char **p = in; st == TN_OK && p && *p; p++) {
    st = load_input(c, m, *p, &ins[n_in]);
    n_in += st == TN_OK;
  }
  if (st == TN_OK) st = tn_session_create(m, &s, &c->err);
  cli_cancel_session(s);
  if (st == TN_OK) st = tn_session_run(s, TN_PHASE_ANY, (const tn_tensor *const *)ins, n_in, outs, n_out, &c->err);
  cli_cancel_session(NULL);
  if (st == TN_OK && dir) st = save_outputs(c, outs, n_out, dir);
  if (st == TN_OK) list_outputs(outs, n_out, c->format);
  tn_session_destroy(s);
  for (uint32_t i = 0; i < n_in; i++) tn_free(ins[i]);
  free(outs);
  return st == TN_OK ? EXIT_DONE : cli_fail(c, st);
}

int cmd_infer(int argc, const char **argv) {
  cli c = {.command = "infer"};
  char **in = NULL, *dir = NULL;
  const opt_row own[] = {
      {"in", 0, OPT_LIST, &in, "NAME=FILE", NULL, "an input: .npy or .pb", NULL},
      {"out", 0, OPT_TEXT, &dir, "DIR", NULL, "write outputs as .npy into this folder", NULL},
      {"disable-pass", 0, OPT_TEXT, &c.disable, "NAME,...|all", NULL, "leave these passes out, or all", NULL},
      OPT_ROWS_END};
  const char *names[MAX_IO];
  tn_model *m = NULL;
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL --in NAME=FILE ... --out DIR", .operand = "MODEL", .own = own});
  if (!rc) rc = split_inputs(&c, in, names);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = cli_load(&c, c.operand, 0, &m);
  if (!rc) rc = infer_once(&c, m, in, dir);
  tn_model_destroy(m);
  cli_finish(&c);
  return rc;
}
