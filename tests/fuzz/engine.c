/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/engine.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/place/model_data.h"
#include "runtime/session/runtime.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/feed.h"

static char folder[256];

void fz_finding(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, "FINDING: ");
  vfprintf(stderr, fmt, ap);
  fprintf(stderr, "\n");
  va_end(ap);
  abort();
}

void fz_failure(tn_status st, const tn_error *err) {
  if (st == TN_E_INTERNAL) fz_finding("internal error: %s", err->message);
  if (st != TN_OK && !*err->message) fz_finding("status %d without a message", st);
  if (st == TN_OK && err->code != TN_OK) fz_finding("success with an error: %s", err->message);
}

static void remove_folder(void) {
  static const char *const names[] = {"model.onnx", "data.bin", "link", "file",
                                      "host.yaml",  "t.npy",    "t.pb", "file.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

const char *fz_folder(void) {
  static uint8_t data[4096];
  char path[512];
  if (*folder) return folder;
  snprintf(folder, sizeof folder, "%s/tenon-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!mkdtemp(folder)) fz_finding("no folder for files");
  (void)atexit(remove_folder);
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 37 >> 3);
  fz_write("data.bin", data, sizeof data, path);
  snprintf(path, sizeof path, "%s/link", folder);
  (void)!symlink("/etc", path);
  return folder;
}

void fz_write(const char *name, const void *p, size_t n, char *path) {
  snprintf(path, 512, "%s/%s", fz_folder(), name);
  FILE *f = fopen(path, "w");
  if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) fz_finding("cannot write '%s'", path);
}

/* --- the clock --- */

static struct {
  timer_t timer;
  bool made;
  volatile sig_atomic_t ticks;
  void (*cancel)(void *);
  void *arg;
} watch;

static void on_tick(int sig) {
  (void)sig;
  watch.ticks++;
  if (watch.cancel) watch.cancel(watch.arg);
  if (watch.ticks < FZ_ABORT_S / FZ_CANCEL_S) return;
  static const char text[] = "FINDING: it does not end\n";
  (void)!write(2, text, sizeof text - 1);
  abort();
}

static void set_timer(time_t s) {
  const struct itimerspec t = {{s, 0}, {s, 0}};
  (void)timer_settime(watch.timer, 0, &t, NULL);
}

void fz_clock_start(void (*cancel)(void *), void *arg) {
  if (!watch.made) {
    struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct sigevent se = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    if (sigaction(SIGRTMIN, &sa, NULL) != 0 || timer_create(CLOCK_PROCESS_CPUTIME_ID, &se, &watch.timer) != 0)
      fz_finding("no timer");
    watch.made = true;
  }
  watch.cancel = cancel;
  watch.arg = arg;
  watch.ticks = 0;
  set_timer(FZ_CANCEL_S);
}

void fz_clock_stop(void) {
  set_timer(0);
  watch.cancel = NULL;
}

static void cancel_load(void *rt) { tn_runtime_cancel(rt); }
static void cancel_run(void *s) { tn_session_cancel(s); }

/* --- models --- */

static tn_runtime *runtime(void) {
  static tn_runtime *rt;
  static const char host[] = "plugins: [host]\nthreads: 1\n";
  char path[512];
  tn_error err;
  tn_error_init(&err);
  if (rt) return rt;
  fz_write("host.yaml", host, sizeof host - 1, path);
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0}, .profile = path, .threads = 1};
  if (tn_runtime_create(&o, &rt, &err) != TN_OK) fz_finding("runtime: %s", err.message);
  return rt;
}

/* What was mapped lies in the folder. */
static void check_files(const tn_model *m) {
  char real[4096], root[4096];
  if (!realpath(folder, root)) fz_finding("no folder");
  for (uint32_t i = 0; i < m->import->n_files; i++) {
    if (!realpath(m->import->paths[i], real)) fz_finding("'%s' is not there", m->import->paths[i]);
    if (strncmp(real, root, strlen(root)) != 0 || real[strlen(root)] != '/') fz_finding("'%s' was mapped", real);
  }
}

static void look(tn_model *m) {
  static const uint32_t what[] = {TN_REPORT_CHECK, TN_REPORT_INSPECT};
  for (uint32_t i = 0; i < 2; i++) {
    char *json = NULL;
    tn_error err;
    tn_error_init(&err);
    const tn_status st = tn_model_report(m, what[i], &json, &err);
    fz_failure(st, &err);
    if (st == TN_OK && !json) fz_finding("a report is not there");
    tn_free(json);
  }
}

static void check_output(const tn_io_info *io, const tn_tensor *t) {
  uint64_t bytes;
  int64_t count;
  /* A Loop over an optional that runs no turn gives it back as it came. */
  const bool list = t->dtype >= TN_DT_SEQUENCE && io->dtype >= TN_DT_SEQUENCE;
  if (io->dtype != TN_DT_UNDEFINED && t->dtype != io->dtype && !list)
    fz_finding("output '%s' is %s, was said to be %s", io->name, tn_dtype_name(t->dtype), tn_dtype_name(io->dtype));
  if (t->dtype >= TN_DT_SEQUENCE || t->dtype == TN_DT_STRING) return; /* strings have no elements here */
  if (io->rank >= 0 && (uint32_t)io->rank != t->rank) fz_finding("output '%s' has rank %u", io->name, t->rank);
  for (uint32_t i = 0; io->rank >= 0 && i < t->rank; i++)
    if (io->dims[i] >= 0 && io->dims[i] != t->dims[i])
      fz_finding("axis %u of output '%s' is %lld, was said to be %lld", i, io->name, (long long)t->dims[i],
                 (long long)io->dims[i]);
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || tni_dtype_bytes(t->dtype, count, &bytes) != TN_OK ||
      bytes != t->bytes || (bytes && !t->data))
    fz_finding("output '%s' has %llu bytes", io->name, (unsigned long long)t->bytes);
  const volatile uint8_t *p = t->data;
  for (uint64_t i = 0; i<bytes; i += bytes - i> 64 ? 64 : 1) (void)p[i]; /* it can be read */
}

/* One run on inputs in the model's order; out has room for all outputs. */
static tn_status run_once(tn_session *s, const tn_model *m, const tn_tensor *const *in, tn_tensor *out) {
  const uint32_t n_out = tn_model_n_outputs(m);
  tn_error err;
  tn_error_init(&err);
  fz_clock_start(cancel_run, s);
  for (uint32_t o = 0; o < n_out; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  const tn_status st = tn_session_run(s, TN_PHASE_ANY, in, tn_model_n_inputs(m), out, n_out, &err);
  fz_clock_stop();
  fz_failure(st, &err);
  for (uint32_t i = 0; st == TN_OK && i < n_out; i++) check_output(tn_model_output(m, i), &out[i]);
  return st;
}

static tn_session *new_session(tn_model *m) {
  tn_session *s = NULL;
  tn_error err;
  tn_error_init(&err);
  fz_failure(tn_session_create(m, &s, &err), &err);
  return s;
}

static void run(tn_model *m, uint64_t seed) {
  tn_session *s = new_session(m);
  if (!s) return;
  fz_feed *feed = fz_feed_create(m, seed);
  tn_tensor *out = calloc(tn_model_n_outputs(m) + 1, sizeof *out);
  if (feed && out) (void)run_once(s, m, fz_feed_in(feed), out);
  free(out);
  fz_feed_destroy(feed);
  tn_session_destroy(s);
}

void fz_model_given(const void *bytes, size_t n, const tn_tensor *x) {
  char path[512];
  tn_model *m = NULL;
  tn_tensor y = {.rank = 0};
  tn_error err;
  tn_error_init(&err);
  fz_write("model.onnx", bytes, n, path);
  const tn_status st = tn_model_load(runtime(), path, NULL, &m, &err);
  fz_failure(st, &err);
  if (st != TN_OK) return;
  if (tn_model_n_inputs(m) != 1 || tn_model_n_outputs(m) != 1) fz_finding("the model is not that of one value");
  tn_session *s = new_session(m);
  if (s && run_once(s, m, &x, &y) == TN_OK && x->dtype < TN_DT_SEQUENCE) {
    if (y.rank != x->rank || memcmp(y.dims, x->dims, x->rank * sizeof *x->dims) != 0) fz_finding("the dims are others");
    if (y.bytes != x->bytes || (x->dtype != TN_DT_STRING && x->bytes && memcmp(y.data, x->data, x->bytes) != 0))
      fz_finding("the elements are others");
  }
  tn_session_destroy(s);
  tn_model_destroy(m);
}

void fz_model(const void *bytes, size_t n, bool runs) {
  tn_runtime *rt = runtime();
  char path[512];
  tn_model *m = NULL;
  tn_error err;
  tn_error_init(&err);
  fz_write("model.onnx", bytes, n, path);
  const tn_model_opts o = {.h = {sizeof o, 1, 0},
                           .flags = runs    ? 0
                                    : n % 4 ? TN_MODEL_INSPECT
                                            : TN_MODEL_UNREAD,
                           .max_seq = 8};
  fz_clock_start(cancel_load, rt);
  const tn_status st = tn_model_load(rt, path, &o, &m, &err);
  fz_failure(st, &err);
  if (st == TN_OK) check_files(m);
  if (st == TN_OK) look(m);
  fz_clock_stop();
  if (st == TN_OK && runs) {
    uint64_t seed = n;
    for (size_t i = 0; i < n; i++) seed = (seed ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    run(m, seed);
  }
  tn_model_destroy(m);
  tni_runtime_resume(rt); /* a cancel that came behind the load */
}
