/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX test-data sets: test_data_set_K/input_N.pb and output_N.pb. Without --against, outputs are compared with the
 * files. --against reference: every plugin task is compared with the host on unpack(pack(W)) and the declared numerics,
 * on the task's own inputs; that gates. --against host: plain f32, that informs. Both take inputs that are made up by a
 * seed where a model has no test data.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/base/markup.h"
#include "runtime/cli/cli.h"

enum { MAX_IO = 1024, MAX_SETS = 4096 };

typedef struct verify_opts {
  char *data, *against, *save;
  double rtol, atol;
  int each_node;
  long long seed, length;
  bool own; /* --data was not given */
} verify_opts;

typedef struct data_set {
  char *name;
  tn_tensor *in[MAX_IO], *want[MAX_IO];
  uint32_t n_in, n_want;
} data_set;

typedef struct verifier {
  cli *c;
  const verify_opts *o;
  tn_model *model;
  tn_session *session, *other;
  tn_session *by_task; /* where plugins are told TN_HOST_CHECKED, and fuse nothing; or NULL */
  cli_table table;
  uint32_t sets, failed, uncompared;
  json_t *json;
} verifier;

static void finish_set(data_set *d) {
  for (uint32_t i = 0; i < d->n_in; i++) tn_free(d->in[i]);
  for (uint32_t i = 0; i < d->n_want; i++) tn_free(d->want[i]);
}

/* info: what the model says of input or output i. */
static tn_status load_files(const tn_model *m, const tn_io_info *(*info)(const tn_model *m, uint32_t i),
                            const char *dir, const char *set, const char *kind, tn_tensor **out, uint32_t *n,
                            tn_error *err) {
  for (*n = 0; *n < MAX_IO; (*n)++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s_%u.pb", dir, set, kind, *n);
    if (access(path, R_OK) != 0) return TN_OK;
    const tn_io_info *io = info(m, *n);
    tn_status st = tn_value_load(path, io ? io->dtype : TN_DT_UNDEFINED, &out[*n], err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names of the test_data_set_* folders, sorted; malloc'd. */
static uint32_t find_sets(const char *dir, char **names) {
  DIR *d = opendir(dir);
  uint32_t n = 0;
  if (!d && tni_errno_status(errno, TN_OK) != TN_OK) tni_json_lacked();
  for (struct dirent *e; d && (e = readdir(d)) && n < MAX_SETS;) {
    if (strncmp(e->d_name, "test_data_set_", 14) != 0) continue;
    if ((names[n] = strdup(e->d_name)))
      n++;
    else
      tni_json_lacked();
  }
  if (d) closedir(d);
  qsort(names, n, sizeof *names, by_name);
  return n;
}

/* A float of 16 bits, `mantissa` of them after the exponent (IEEE 754 binary16: 10, bfloat16: 7). */
static double short_float(uint16_t v, int mantissa) {
  const int exponents = (1 << (15 - mantissa)) - 1, bias = exponents / 2, e = v >> mantissa & exponents;
  const int fraction = v & ((1 << mantissa) - 1);
  double x = e == exponents ? (fraction ? (double)NAN : (double)INFINITY)
             : e            ? ldexp(fraction + (1 << mantissa), e - bias - mantissa)
                            : ldexp(fraction, 1 - bias - mantissa);
  return v >> 15 ? -x : x;
}

static double element_as_double(const tn_tensor *t, uint64_t i) {
  switch (t->dtype) {
    case TN_DT_F32:
      return ((const float *)t->data)[i];
    case TN_DT_F64:
      return ((const double *)t->data)[i];
    case TN_DT_F16:
      return short_float(((const uint16_t *)t->data)[i], 10);
    case TN_DT_BF16:
      return short_float(((const uint16_t *)t->data)[i], 7);
    case TN_DT_I64:
      return (double)((const int64_t *)t->data)[i];
    case TN_DT_I32:
      return ((const int32_t *)t->data)[i];
    case TN_DT_U8:
    case TN_DT_BOOL:
      return ((const uint8_t *)t->data)[i];
    case TN_DT_I8:
      return ((const int8_t *)t->data)[i];
    default:
      return 0;
  }
}

static bool has_elements(uint32_t dtype) {
  return dtype == TN_DT_F32 || dtype == TN_DT_F64 || dtype == TN_DT_F16 || dtype == TN_DT_BF16 || dtype == TN_DT_I64 ||
         dtype == TN_DT_I32 || dtype == TN_DT_U8 || dtype == TN_DT_BOOL || dtype == TN_DT_I8;
}

typedef struct diff {
  bool ok;
  double abs, rel;
  const char *why;
} diff;

static diff compare_with_set(const tn_tensor *got, const tn_tensor *want, double rtol, double atol) {
  diff d = {.ok = true, .why = ""};
  if (got->dtype != want->dtype) return (diff){.why = "another dtype"};
  if (got->rank != want->rank) return (diff){.why = "another rank"};
  uint64_t n = 1;
  for (uint32_t i = 0; i < got->rank; i++) {
    if (got->dims[i] != want->dims[i]) return (diff){.why = "another shape"};
    n *= (uint64_t)got->dims[i];
  }
  if (!has_elements(got->dtype)) {
    d.ok = got->bytes == want->bytes && (!got->bytes || memcmp(got->data, want->data, got->bytes) == 0);
    d.why = d.ok ? "" : "other bytes";
    return d;
  }
  for (uint64_t i = 0; i < n; i++) {
    double g = element_as_double(got, i), w = element_as_double(want, i), a = fabs(g - w);
    if (g == w || (isnan(g) && isnan(w))) continue;
    if (!(a <= d.abs)) d.abs = a;
    if (w != 0 && !(a / fabs(w) <= d.rel)) d.rel = a / fabs(w);
    if (!(a <= atol + rtol * fabs(w))) d.ok = false;
  }
  if (!d.ok) d.why = "outside the tolerance";
  return d;
}

/* Sequences and optionals element by element; the largest differences of all. */
static diff compare_values(const tn_tensor *got, const tn_tensor *want, double rtol, double atol) {
  if (got->dtype != want->dtype || (got->dtype != TN_DT_SEQUENCE && got->dtype != TN_DT_OPTIONAL))
    return compare_with_set(got, want, rtol, atol);
  const tn_tensor *const *a = got->data, *const *b = want->data;
  diff all = {.ok = got->dims[0] == want->dims[0], .why = ""};
  if (!all.ok) all.why = "another number of elements";
  for (int64_t i = 0; all.ok && i < got->dims[0]; i++) {
    const diff d = compare_values(a[i], b[i], rtol, atol);
    all.ok = d.ok;
    all.why = d.why;
    all.abs = d.abs > all.abs ? d.abs : all.abs;
    all.rel = d.rel > all.rel ? d.rel : all.rel;
  }
  return all;
}

static void add_row(verifier *v, const char *set, const char *what, const diff *d) {
  char a[32], r[32];
  v->failed += !d->ok;
  snprintf(a, sizeof a, "%.3g", d->abs);
  snprintf(r, sizeof r, "%.3g", d->rel);
  cli_table_add(&v->table, set, what, d->ok ? "ok" : "FAILED", a, r, d->why);
}

/* Inputs go by the name in the file; files without one go by position. */
static void name_inputs(const verifier *v, data_set *d) {
  for (uint32_t i = 0; i < d->n_in; i++) {
    bool known = false;
    for (uint32_t k = 0; d->in[i]->name && k < tn_model_n_inputs(v->model); k++)
      known = known || strcmp(tn_model_input(v->model, k)->name, d->in[i]->name) == 0;
    if (!known && i < tn_model_n_inputs(v->model)) d->in[i]->name = tn_model_input(v->model, i)->name;
  }
}

/* Of an output as plugins compute it by themselves, and task by task: what is wrong in one of the two is. */
static diff worse(diff r, const diff *by_task) {
  if (r.ok && !by_task->ok) {
    r = *by_task;
    r.why = "outside the tolerance where plugins compute task by task, and not as they run";
  } else if (!r.ok && by_task->ok) {
    r.why = "outside the tolerance as plugins run, and not task by task: something that they fuse";
  }
  return r;
}

static tn_status run_set(verifier *v, data_set *d) {
  uint32_t n = tn_model_n_outputs(v->model);
  tn_tensor *outs = calloc(n + 1, sizeof *outs), *other = calloc(n + 1, sizeof *other), *split = calloc(n + 1, sizeof *split);
  tn_status st = outs && other && split ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) outs[i].h = other[i].h = split[i].h = (tn_hdr){sizeof *outs, 1, 0};
  name_inputs(v, d);
  const tn_tensor *const *in = (const tn_tensor *const *)d->in;
  if (st == TN_OK) st = tn_session_run(v->session, TN_PHASE_ANY, in, d->n_in, outs, n, &v->c->err);
  if (st == TN_OK && v->other) st = tn_session_run(v->other, TN_PHASE_ANY, in, d->n_in, other, n, &v->c->err);
  if (st == TN_OK && v->by_task) st = tn_session_run(v->by_task, TN_PHASE_ANY, in, d->n_in, split, n, &v->c->err);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    const tn_tensor *want = v->other ? &other[i] : i < d->n_want ? d->want[i] : NULL;
    if (!want) {
      v->uncompared++;
      cli_table_add(&v->table, d->name, outs[i].name, "not compared", "", "", "the set has no file for it");
      continue;
    }
    diff r = compare_values(&outs[i], want, v->o->rtol, v->o->atol);
    const diff by_task = v->by_task ? compare_values(&split[i], want, v->o->rtol, v->o->atol) : r;
    r = worse(r, &by_task);
    if (v->o->against) { /* end to end informs: rounding of an activation can flip and grow from layer to layer */
      r.why = r.ok ? "" : "end to end, informs";
      r.ok = true;
    }
    add_row(v, d->name, outs[i].name, &r);
  }
  v->sets++;
  free(outs);
  free(other);
  free(split);
  return st;
}

/* Whether there is something to give to the model and, unless another session's results are, to compare with. */
static tn_status check_set(const verifier *v, const data_set *d) {
  const uint32_t n_in = tn_model_n_inputs(v->model), n_out = tn_model_n_outputs(v->model);
  tn_error *err = &v->c->err;
  if (!d->n_in && n_in) return cli_error(err, TN_E_INVALID, NULL, "'%s/%s' holds no input_0.pb", v->o->data, d->name);
  if (!v->o->against && !d->n_want && n_out)
    return cli_error(err, TN_E_INVALID, NULL, "'%s/%s' holds no output_0.pb: nothing to compare with", v->o->data,
                     d->name);
  if (d->n_want > n_out)
    return cli_error(err, TN_E_INVALID, NULL, "'%s/%s' holds an output_%u.pb, the model has %u outputs", v->o->data,
                     d->name, n_out, n_out);
  return TN_OK;
}

/* One set that nobody recorded. */
static tn_status verify_made(verifier *v) {
  char name[64];
  tn_error *err = &v->c->err;
  if (tn_model_n_inputs(v->model) > MAX_IO) return cli_error(err, TN_E_LIMIT, NULL, "more than %d inputs", MAX_IO);
  data_set *d = calloc(1, sizeof *d);
  if (!d) return tni_fail_memory(err, v->o->data);
  snprintf(name, sizeof name, "made up, seed %lld", v->o->seed);
  cli_note("'%s' holds no test data: inputs are made up, --seed %lld --length %lld", v->o->data, v->o->seed, v->o->length);
  d->name = name;
  d->n_in = tn_model_n_inputs(v->model);
  tn_status st = cli_made_inputs(v->model, (uint64_t)v->o->seed, v->o->length, d->in, err);
  if (st == TN_OK) st = run_set(v, d);
  finish_set(d);
  free(d);
  return st;
}

static tn_status verify_sets(verifier *v) {
  char **names = calloc(MAX_SETS, sizeof *names);
  uint32_t n = names ? find_sets(v->o->data, names) : 0;
  tn_status st = names && !tni_json_short() ? TN_OK : tni_fail_memory(&v->c->err, v->o->data);
  if (st == TN_OK && !n && v->o->against && v->o->own) {
    free(names);
    return verify_made(v);
  }
  if (st == TN_OK && !n)
    st = cli_error(&v->c->err, TN_E_INVALID, NULL, "'%s' holds no test_data_set_* folder: --data DIR names one",
                   v->o->data);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    data_set *d = calloc(1, sizeof *d);
    if (!d) {
      st = tni_fail_memory(&v->c->err, v->o->data);
      break;
    }
    d->name = names[i];
    st = load_files(v->model, tn_model_input, v->o->data, d->name, "input", d->in, &d->n_in, &v->c->err);
    if (st == TN_OK)
      st = load_files(v->model, tn_model_output, v->o->data, d->name, "output", d->want, &d->n_want, &v->c->err);
    if (st == TN_OK) st = check_set(v, d);
    if (st == TN_OK) st = run_set(v, d);
    finish_set(d);
    free(d);
  }
  for (uint32_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return st;
}

/* Where the inputs and both results of a group lie, and the command that runs it alone. */
static void note_saved(const char *folder, const char *plugin) {
  char *command = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&command, &n);
  if (!f) return;
  fputs("tenon conform ", f);
  tni_put_word(plugin ? plugin : "", f);
  fputs(" --replay ", f);
  tni_put_word(folder, f);
  if (fclose(f) == 0) cli_note("its inputs and both results: %s\nagain: %s", folder, command);
  free(command);
}

/* The gate: per plugin task, the largest |device - reference| over its bound, at most 1. */
static tn_status judge_tasks(verifier *v) {
  char *text = NULL;
  tn_status st = tn_session_capture_report(v->session, &text, &v->c->err);
  if (st != TN_OK) return st;
  v->json = json_loads(text, 0, NULL);
  tn_free(text);
  if (!v->json) return tni_fail_memory(&v->c->err, v->o->data);
  size_t i;
  json_t *t;
  uint32_t off = 0, total = 0;
  const double worst = json_real_value(json_object_get(v->json, "worst_ratio"));
  const long long elements = (long long)json_integer_value(json_object_get(v->json, "elements"));
  json_array_foreach(json_object_get(v->json, "tasks"), i, t) {
    double ratio = json_real_value(json_object_get(t, "worst_ratio"));
    total++;
    if (ratio <= 1) continue;
    if (!off && v->o->each_node)
      cli_note("first group that is off: '%s' on %s, %.3g times its bound",
               json_string_value(json_object_get(t, "task")), json_string_value(json_object_get(t, "device")), ratio);
    off++;
  }
  if (!off && (worst > 1 || (!total && elements))) off = 1; /* a task that the list lacks */
  v->failed += off;
  json_t *saved = json_object_get(v->json, "case");
  if (saved)
    note_saved(v->o->save, json_string_value(json_object_get(saved, "plugin")));
  char what[96], detail[96];
  snprintf(what, sizeof what, "%u plugin tasks, %lld elements", total, elements);
  snprintf(detail, sizeof detail, "worst difference %.3g of its bound", worst);
  cli_table_add(&v->table, "each task", what, off ? "FAILED" : "ok", "", "", detail);
  return TN_OK;
}

static int print_result(verifier *v) {
  if (v->c->format == FMT_JSON) {
    json_t *rows = json_array(), *j = json_object();
    for (size_t r = 0; r < v->table.n_rows; r++) {
      json_t *row = json_object();
      for (size_t k = 0; k < v->table.n_cols; k++)
        json_object_set_new(row, v->table.header[k], json_string(v->table.cells[r * v->table.n_cols + k]));
      json_array_append_new(rows, row);
    }
    json_object_set_new(j, "rows", rows);
    json_object_set_new(j, "failed", json_integer(v->failed));
    json_object_set_new(j, "not_compared", json_integer(v->uncompared));
    if (v->json) json_object_set(j, "tasks", json_object_get(v->json, "tasks"));
    if (json_object_get(v->json, "case")) json_object_set(j, "case", json_object_get(v->json, "case"));
    cli_print_json(j, JSON_INDENT(1));
  } else {
    cli_table_print(&v->table, v->c->format);
  }
  cli_note("%u data sets, %u failed comparisons", v->sets, v->failed);
  if (v->uncompared) cli_note("%u outputs were not compared", v->uncompared);
  return v->failed ? EXIT_CHECK : EXIT_DONE;
}

static bool has_plugin(cli *c, tn_model *m) {
  json_t *j = cli_report(c, m, TN_REPORT_PLACEMENT), *count;
  json_t *phases[] = {j, json_object_get(j, "decode")};
  const char *device;
  bool has = false;
  for (int i = 0; i < 2; i++) json_object_foreach(json_object_get(phases[i], "placement"), device, count) {
      has = has || strcmp(device, "host") != 0;
    }
  json_decref(j);
  return has;
}

static int verify_model(cli *c, const char *path, const verify_opts *o) {
  static const char *const header[] = {"set", "output", "result", "max abs", "max rel", "detail"};
  bool reference = o->against && strcmp(o->against, "reference") == 0;
  verifier v = {.c = c, .o = o};
  cli host = {
      .command = c->command, .profile = (char *)"host", .format = c->format, .threads = c->threads, .cpus = c->cpus};
  memcpy(host.disabled, c->disabled, sizeof host.disabled);
  host.n_disabled = c->n_disabled;
  tn_model *other = NULL, *split = NULL;
  cli by_task = *c;
  by_task.rt = NULL;
  cli_table_init(&v.table, header, 6);
  int rc = cli_load(c, path, reference ? TN_MODEL_CAPTURE : 0, &v.model);
  if (!rc && reference) rc = cli_load(c, path, TN_MODEL_REFERENCE, &other);
  if (!rc && o->against && !reference) {
    rc = cli_open(&host, 0);
    if (!rc) rc = cli_load(&host, path, 0, &other);
  }
  if (!rc && !reference && has_plugin(c, v.model)) {
    rc = cli_open(&by_task, TN_RT_CHECKED);
    if (!rc) rc = cli_load(&by_task, path, 0, &split);
  }
  tn_status st = TN_OK;
  if (!rc) st = tn_session_create(v.model, &v.session, &c->err);
  if (!rc && st == TN_OK && split) st = tn_session_create(split, &v.by_task, &c->err);
  if (!rc && st == TN_OK && reference && o->save)
    st = cli_saved(c, tn_session_capture_case(v.session, o->save, &c->err));
  if (!rc && st == TN_OK && other) st = tn_session_create(other, &v.other, &c->err);
  if (!rc && st == TN_OK) {
    cli_cancel_session(v.session);
    st = verify_sets(&v);
    cli_cancel_session(NULL);
  }
  if (!rc && st == TN_OK && reference) st = judge_tasks(&v);
  if (!rc) rc = st == TN_OK ? print_result(&v) : cli_fail(c, st);
  if (v.model && st == TN_OK && !cli_note_weights(c, v.model) && v.failed && !reference)
    cli_note(
        "this profile rounds the weights, which may be why: --profile host computes with them as they are stored, "
        "--against reference judges the device by its own weights");
  tn_session_destroy(v.session);
  tn_session_destroy(v.other);
  tn_session_destroy(v.by_task);
  tn_model_destroy(v.model);
  tn_model_destroy(other);
  tn_model_destroy(split);
  tn_runtime_destroy(host.rt);
  tn_runtime_destroy(by_task.rt);
  json_decref(v.json);
  cli_table_finish(&v.table);
  return rc;
}

int cmd_verify(int argc, const char **argv) {
  cli c = {.command = "verify"};
  verify_opts o = {.rtol = 1e-3, .atol = 1e-4, .seed = 1, .length = 5};
  char *own_data = NULL;
  const opt_row own[] = {
      {"data", 0, OPT_TEXT, &o.data, "DIR", NULL, "folder with test_data_set_*",
       "the model's; with --against also inputs that are made up"},
      {"seed", 0, OPT_LONG, &o.seed, "N", "0..", "of inputs that are made up", NULL},
      {"length", 0, OPT_LONG, &o.length, "N", "1..65536", "their positions (a device may have fixed lengths)", NULL},
      {"rtol", 0, OPT_REAL, &o.rtol, "R", "0..", "relative tolerance", NULL},
      {"atol", 0, OPT_REAL, &o.atol, "A", "0..", "absolute tolerance", NULL},
      {"against", 0, OPT_TEXT, &o.against, NULL, "reference|host",
       "compare with this instead of the files; reference gates, task by task; host informs", NULL},
      {"each-node", 0, OPT_FLAG, &o.each_node, NULL, NULL,
       "name the first group that is off, and save it (--against reference)", NULL},
      {"save", 0, OPT_TEXT, &o.save, "DIR", NULL, "where --each-node saves it", "tenon-case"},
      {"disable-pass", 0, OPT_TEXT, &c.disable, "NAME,...|all", NULL, "leave these passes out, or all", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv, &(cli_use){.usage = "MODEL --data DIR [options]", .operand = "MODEL", .own = own});
  if (!rc && !o.data) {
    const char *slash = strrchr(c.operand, '/');
    size_t n = strlen(c.operand);
    own_data = n > 5 && strcmp(c.operand + n - 5, ".onnx") == 0
                   ? strndup(slash ? c.operand : ".", slash ? (size_t)(slash - c.operand) : 1)
                   : strdup(c.operand);
    o.data = own_data;
    o.own = true;
  }
  if (!rc && o.save && !o.each_node) rc = cli_usage(&c, "--save belongs to --each-node");
  if (!rc && o.each_node && (!o.against || strcmp(o.against, "reference") != 0))
    rc = cli_usage(&c, "--each-node goes with --against reference");
  if (!rc && o.each_node && !o.save) o.save = (char *)"tenon-case";
  if (!rc) rc = cli_open(&c, o.against && strcmp(o.against, "reference") == 0 ? TN_RT_CHECKED : 0);
  if (!rc) rc = verify_model(&c, c.operand, &o);
  free(own_data);
  cli_finish(&c);
  return rc;
}
