/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX's own backend test cases against the host kernels: imports model.onnx, runs every node with concrete inference
 * and its kernel, compares with the stored outputs (floats: rtol 1e-3, atol 1e-5, for whole
 * models 1e-4; the rest exactly). Cases with
 * operators or types that the table does not have are skipped and counted by reason; any other difference fails.
 *
 *   test-host-conform WORKDIR [-v] [FILTER]
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/pool.h"
#include "runtime/host/kernel.h"
#include "runtime/onnx/import.h"

enum { MAX_REASONS = 400, PATH = 1024, PASSED = 0, SKIPPED = 1, FAILED = 2, MAX_IO = 64 };

typedef struct reason {
  char text[120];
  uint32_t n;
} reason;

typedef struct suite {
  reason reasons[MAX_REASONS];
  uint32_t n_reasons, count[3];
  bool verbose;
  const char *filter;
  float atol;
  tn_run *run;
} suite;

typedef struct one {
  suite *s;
  const char *name;
  tni_arena *arena;
  tni_model *model;
  tni_tensor *values; /* by value id */
  bool *known;
  tn_error err;
  char why[200];
} one;

/* snprintf whose truncation is meant. */
static void text(char *buf, size_t n, const char *fmt, ...) TN_PRINTF(3, 4);
static void text(char *buf, size_t n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf, n, fmt, ap);
  va_end(ap);
}

static int give_up(one *c, int verdict, const char *fmt, ...) TN_PRINTF(3, 4);
static int give_up(one *c, int verdict, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(c->why, sizeof c->why, fmt, ap);
  va_end(ap);
  return verdict;
}

/* A refusal is a skip, everything else a failure. */
static int refused(one *c, tn_status st, const char *what) {
  return give_up(c, st == TN_E_UNSUPPORTED ? SKIPPED : FAILED, "%s: %.150s", what, c->err.message);
}

static int load_tensor(one *c, const char *path, tni_tensor *t, const char **name) {
  tni_file f;
  tn_status st = tni_file_map(path, &f, &c->err);
  if (st) return refused(c, st, "map");
  st = tni_import_tensor(f.data, f.bytes, path, c->arena, t, name, &c->err);
  void *copy = st || !t->bytes ? NULL : tni_arena_memdup(c->arena, t->data, (size_t)t->bytes, 64);
  if (!st && t->bytes) t->data = copy;
  tni_file_unmap(&f);
  return st ? give_up(c, SKIPPED, "data that is not a tensor") : PASSED;
}

static bool close_enough(float a, float b, float atol) {
  if (isnan(b)) return isnan(a);
  if (isinf(b) || isinf(a)) return a == b;
  return fabsf(a - b) <= atol + 1e-3f * fabsf(b);
}

static bool is_real(uint32_t t) { return t == TN_DT_F32 || t == TN_DT_F64 || t == TN_DT_F16 || t == TN_DT_BF16; }

/* ONNX 1.12 stored bfloat16 as uint16 and cut where it now rounds: one step of difference is allowed there. */
static int compare_old_brain(one *c, const tni_tensor *got, const tni_tensor *want, uint32_t index) {
  if (got->bytes != want->bytes) return give_up(c, FAILED, "output %u: another size", index);
  for (uint64_t i = 0; i < got->bytes / 2; i++) {
    const int a = ((const uint16_t *)got->data)[i], b = ((const uint16_t *)want->data)[i];
    if (abs(a - b) > 1 && (a & 0x7fff) <= 0x7f80)
      return give_up(c, FAILED, "output %u[%llu]: bits %04x, not %04x", index, (unsigned long long)i, a, b);
  }
  return PASSED;
}

static int compare(one *c, const tni_tensor *got, const tni_tensor *want, uint32_t index) {
  int64_t n;
  if (got->dtype == TN_DT_BF16 && want->dtype == TN_DT_U16) return compare_old_brain(c, got, want, index);
  if (got->dtype != want->dtype)
    return give_up(c, FAILED, "output %u: %s, not %s", index, tni_dtype_name(got->dtype), tni_dtype_name(want->dtype));
  bool same = got->rank == want->rank;
  for (uint32_t d = 0; same && d < got->rank; d++) same = got->dims[d] == want->dims[d];
  if (!same) return give_up(c, FAILED, "output %u: another shape", index);
  if (tni_dims_count(got->dims, got->rank, &n)) return give_up(c, FAILED, "output %u: size", index);
  if (!is_real(got->dtype))
    return got->bytes == want->bytes && (!n || !memcmp(got->data, want->data, (size_t)got->bytes))
               ? PASSED
               : give_up(c, FAILED, "output %u: elements differ", index);
  for (int64_t i = 0; i < n; i++) {
    float a, b;
    tni_tensor_to_f32(got, i, 1, &a);
    tni_tensor_to_f32(want, i, 1, &b);
    if (!close_enough(a, b, c->s->atol))
      return give_up(c, FAILED, "output %u[%lld]: %g, not %g", index, (long long)i, (double)a, (double)b);
  }
  return PASSED;
}

static int run_nodes(one *c) {
  const tni_graph *g = c->model->graph;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    const tni_tensor *in[MAX_IO] = {NULL};
    const tn_value *vals[MAX_IO] = {NULL};
    tn_value pub[MAX_IO];
    tni_tensor out[MAX_IO];
    char why[160];
    if (!n->op) return give_up(c, SKIPPED, "not in the op table: %s", n->type);
    if (n->pub.n_in > MAX_IO || n->pub.n_out > MAX_IO) return give_up(c, FAILED, "too many operands");
    for (uint32_t k = 0; k < n->pub.n_in; k++) {
      const tn_id v = n->pub.in[k];
      if (v == TN_NONE) continue;
      if (!c->known[v]) return give_up(c, FAILED, "%s: input %u was never computed", n->type, k);
      in[k] = &c->values[v];
      pub[k] = g->values[v]->pub;
      pub[k].dtype = c->values[v].dtype;
      vals[k] = &pub[k];
    }
    if (!tni_host_kernel(n->op)) return give_up(c, SKIPPED, "control flow: %s", n->type);
    if (!tni_host_accepts(&n->pub, vals, n->pub.n_in, why, sizeof why)) return give_up(c, SKIPPED, "%s", why);
    tn_status st = tni_host_eval(c->s->run, n, in, n->pub.n_in, out, n->pub.n_out, c->arena, &c->err);
    if (st) return refused(c, st, n->type);
    for (uint32_t k = 0; k < n->pub.n_out; k++) {
      if (n->pub.out[k] == TN_NONE) continue;
      c->values[n->pub.out[k]] = out[k];
      c->known[n->pub.out[k]] = true;
    }
  }
  return PASSED;
}

/* Graph input by the name in the file, else the i-th. */
static tn_id input_id(const tni_graph *g, const char *name, uint32_t i) {
  for (uint32_t k = 0; name && name[0] && k < g->n_inputs; k++)
    if (!strcmp(g->values[g->inputs[k]]->pub.name, name)) return g->inputs[k];
  return i < g->n_inputs ? g->inputs[i] : TN_NONE;
}

static int run_set(one *c, const char *dir) {
  const tni_graph *g = c->model->graph;
  char path[PATH + 64];
  memset(c->known, 0, g->n_values);
  for (uint32_t i = 0; i < g->n_values; i++)
    if (g->values[i]->tensor) {
      c->values[i] = *g->values[i]->tensor;
      c->known[i] = true;
    }
  for (uint32_t i = 0;; i++) {
    const char *name = NULL;
    tni_tensor t;
    text(path, sizeof path, "%s/input_%u.pb", dir, i);
    if (access(path, R_OK)) break;
    int v = load_tensor(c, path, &t, &name);
    if (v) return v;
    const tn_id id = input_id(g, name, i);
    if (id == TN_NONE) return give_up(c, FAILED, "input %u has no place", i);
    if (t.dtype == TN_DT_U16 && g->values[id]->pub.dtype == TN_DT_BF16) t.dtype = TN_DT_BF16;
    c->values[id] = t;
    c->known[id] = true;
  }
  int v = run_nodes(c);
  for (uint32_t i = 0; !v && i < g->n_outputs; i++) {
    const char *name = NULL;
    tni_tensor want;
    text(path, sizeof path, "%s/output_%u.pb", dir, i);
    if (access(path, R_OK)) break;
    v = load_tensor(c, path, &want, &name);
    if (!v && !c->known[g->outputs[i]]) v = give_up(c, FAILED, "output %u was never computed", i);
    if (!v) v = compare(c, &c->values[g->outputs[i]], &want, i);
  }
  return v;
}

static int run_case(suite *s, const char *dir, const char *name, char *why, size_t n) {
  one c = {.s = s, .name = name, .arena = tni_arena_create()};
  char path[PATH + 64];
  int verdict = PASSED;
  tni_error_init(&c.err);
  text(path, sizeof path, "%s/model.onnx", dir);
  if (access(path, R_OK)) {
    text(why, n, "no model.onnx");
    tni_arena_destroy(c.arena);
    return SKIPPED;
  }
  tn_status st = tni_import_file(path, NULL, NULL, &c.model, &c.err);
  if (st) verdict = refused(&c, st, "import");
  if (!verdict) {
    const uint32_t values = c.model->graph->n_values;
    c.values = TNI_NEW_ARRAY(c.arena, tni_tensor, values + 1);
    c.known = TNI_NEW_ARRAY(c.arena, bool, values + 1);
    uint32_t sets = 0;
    for (; !verdict && c.values && c.known; sets++) {
      text(path, sizeof path, "%s/test_data_set_%u", dir, sets);
      if (access(path, R_OK)) break;
      verdict = run_set(&c, path);
    }
    if (!verdict && !sets) verdict = give_up(&c, SKIPPED, "no data set");
    tni_model_destroy(c.model);
  }
  text(why, n, "%s", c.why);
  tni_arena_destroy(c.arena);
  return verdict;
}

static void count_reason(suite *s, const char *why) {
  for (uint32_t i = 0; i < s->n_reasons; i++)
    if (!strncmp(s->reasons[i].text, why, sizeof s->reasons[i].text - 1)) {
      s->reasons[i].n++;
      return;
    }
  if (s->n_reasons == MAX_REASONS) return;
  text(s->reasons[s->n_reasons].text, sizeof s->reasons[0].text, "%s", why);
  s->reasons[s->n_reasons++].n = 1;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* All cases of one folder, in the order of their names. Returns how many there were. */
static uint32_t run_folder(suite *s, const char *dir) {
  DIR *d = opendir(dir);
  char **names = NULL;
  size_t n = 0;
  if (!d) return 0;
  for (struct dirent *e; (e = readdir(d));) {
    char **grown = e->d_name[0] == '.' ? NULL : realloc(names, (n + 1) * sizeof *names);
    if (!grown) continue;
    names = grown;
    names[n++] = strdup(e->d_name);
  }
  closedir(d);
  if (n) qsort(names, n, sizeof *names, by_name);
  for (size_t i = 0; i < n; i++) {
    char path[PATH], why[200];
    text(path, sizeof path, "%s/%s", dir, names[i]);
    if (!s->filter || strstr(names[i], s->filter)) {
      const int v = run_case(s, path, names[i], why, sizeof why);
      s->count[v]++;
      if (v == FAILED || s->verbose)
        printf("%s %s%s%s\n", v == FAILED ? "FAIL" : v == SKIPPED ? "skip" : "pass", names[i], why[0] ? ": " : "", why);
      if (v == SKIPPED) count_reason(s, why);
    }
    free(names[i]);
  }
  free(names);
  return (uint32_t)n;
}

/* Unpacks archive into work once; a stamp of its size and time tells. */
static bool unpack(const char *archive, const char *work) {
  struct stat a, b;
  char stamp[PATH];
  text(stamp, sizeof stamp, "%s/.unpacked", work);
  if (stat(archive, &a)) return false;
  mkdir(work, 0777);
  if (!stat(stamp, &b) && b.st_mtime >= a.st_mtime) return true;
  const pid_t pid = fork();
  if (pid == 0) {
    execlp("tar", "tar", "-xzf", archive, "-C", work, (char *)NULL);
    _exit(127);
  }
  int status = 1;
  if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) return false;
  const int fd = open(stamp, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd >= 0) close(fd);
  return true;
}

/* Folders of whole models in the same layout, relative to TENON_TEST_DATA. */
static const char *const models[] = {"onnx/exports", "onnx/cnn", "lm"};
static const char *const folders[] = {"node", "simple", "pytorch-converted", "pytorch-operator"};

static uint32_t run_root(suite *s, const char *root) {
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char dir[PATH];
    text(dir, sizeof dir, "%s/%s", root, folders[i]);
    n += run_folder(s, dir);
  }
  printf("%s: %u passed, %u skipped, %u failed so far\n", root, s->count[PASSED], s->count[SKIPPED], s->count[FAILED]);
  return n;
}

int main(int argc, char **argv) {
  static suite s;
  const char *data = getenv("TENON_TEST_DATA"), *system_data = "/usr/share/libonnx-testdata/data";
  char archive[PATH], work[PATH];
  uint32_t cases = 0;
  tni_pool_run run;
  tni_pool *pool = tni_pool_create(2);
  tni_pool_run_init(&run, pool, NULL);
  s.run = &run.run;
  s.atol = 1e-5f;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "-v"))
      s.verbose = true;
    else
      s.filter = argv[i];
  }
  text(work, sizeof work, "%s/conform-data", argc > 1 ? argv[1] : ".");
  text(archive, sizeof archive, "%s/conformance/onnx-1.23-node-cases.tar.gz", data ? data : "");
  if (data && unpack(archive, work))
    cases += run_root(&s, work);
  else
    printf("skip: %s is not there or does not unpack\n", archive);
  s.atol = 1e-4f;
  for (size_t i = 0; data && i < sizeof models / sizeof *models; i++) {
    char dir[PATH];
    text(dir, sizeof dir, "%s/%s", data, models[i]);
    cases += run_folder(&s, dir);
    printf("%s: %u passed, %u skipped, %u failed so far\n", dir, s.count[PASSED], s.count[SKIPPED], s.count[FAILED]);
  }
  s.atol = 1e-5f;
  if (!access(system_data, R_OK))
    cases += run_root(&s, system_data);
  else
    printf("skip: %s is not installed\n", system_data);
  for (uint32_t i = 0; i < s.n_reasons; i++) printf("skipped %4u: %s\n", s.reasons[i].n, s.reasons[i].text);
  printf("conformance: %u passed, %u skipped, %u failed\n", s.count[PASSED], s.count[SKIPPED], s.count[FAILED]);
  tni_pool_destroy(pool);
  if (!cases) return 77;
  return s.count[FAILED] != 0 || (!s.filter && s.count[PASSED] == 0);
}
