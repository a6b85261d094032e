/* SPDX-License-Identifier: Apache-2.0 */
#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

#include "isolate_test.h"
#include "runtime/place/model_data.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/process/isolate.h"

static char cache[64];

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *f) {
  (void)s;
  (void)flag;
  (void)f;
  return remove(path);
}

void lab_cleanup(void) {
  if (*cache) nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *lab_cache(void) {
  if (!*cache) {
    snprintf(cache, sizeof cache, "/tmp/tenon-isolate-cache-XXXXXX");
    if (!mkdtemp(cache)) abort();
  }
  return cache;
}

static void on_log(void *user, uint32_t level, const char *line) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  lab *l = user;
  (void)level;
  pthread_mutex_lock(&lock);
  const size_t n = strlen(l->log);
  snprintf(l->log + n, sizeof l->log - n, "%s\n", line);
  pthread_mutex_unlock(&lock);
}

tn_status lab_open(lab *l, const char *profile, const char *const *dirs, const char *helper) {
  static const char *const vars[] = {"TENON_TEST_AVX2", "TENON_TEST_NPU", "TENON_TEST_OPENCL"};
  const char *own[4] = {NULL};
  char path[96];
  uint32_t n = 0;
  memset(l, 0, sizeof *l);
  tn_error_init(&l->err);
  (void)lab_cache();
  for (size_t i = 0; !dirs && i < 3; i++)
    if (getenv(vars[i]) && *getenv(vars[i])) own[n++] = getenv(vars[i]);
  while (dirs && dirs[n]) n++;
  snprintf(l->dir, sizeof l->dir, "/tmp/tenon-isolate-XXXXXX");
  if (!mkdtemp(l->dir)) abort();
  snprintf(path, sizeof path, "%s/profile.yaml", l->dir);
  FILE *f = fopen(path, "w");
  if (!f || fputs(profile, f) < 0 || fclose(f) != 0) abort();
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = path,
                             .plugin_dirs = dirs ? dirs : own,
                             .n_plugin_dirs = n,
                             .cache_dir = cache,
                             .threads = strstr(profile, "threads:") ? 0 : 2,
                             .log_level = TN_LOG_WARN,
                             .log = on_log,
                             .log_user = l,
                             .helper = helper ? helper : getenv("TENON_TEST_HELPER"),
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  return tn_runtime_create(&o, &l->rt, &l->err);
}

tn_status lab_load(lab *l) {
  char path[1024];
  const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .max_seq = 512};
  snprintf(path, sizeof path, "%s/models/demo", getenv("TENON_TEST_SOURCE"));
  tn_status st = tn_lm_load(l->rt, path, &o, &l->lm, &l->err);
  return st == TN_OK ? tn_chat_create(l->lm, &l->chat, &l->err) : st;
}

void lab_close(lab *l) {
  tn_chat_destroy(l->chat);
  tn_lm_destroy(l->lm);
  tn_runtime_destroy(l->rt);
  nftw(l->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int lab_child(const lab *l, const char *plugin) {
  const tni_plugin_info *i = tni_registry_find(l->rt->registry, plugin);
  return i && i->process && i->plugin ? tni_isolate_pid(i->plugin) : 0;
}

/* --- ids -----------------------------------------------------------------------------------------------------------
 */

typedef struct taker {
  int32_t *out;
  uint32_t n;
  int at;
  void (*hit)(void *);
  void *user;
} taker;

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  taker *t = user;
  (void)text;
  (void)n;
  t->out[t->n++] = id;
  if ((int)t->n == t->at) t->hit(t->user);
  return 0;
}

tn_status lab_generate(lab *l, const int32_t *ids, size_t n, uint32_t tokens, int at, void (*hit)(void *), void *user,
                       int32_t *out) {
  taker t = {out, 0, at, hit, user};
  tn_gen_params p;
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  tn_gen_params_init(&p);
  p.temperature = 0;
  p.max_tokens = tokens;
  p.flags = TN_GEN_IGNORE_EOS | TN_GEN_NO_SPECIAL;
  if (at == 0) hit(user);
  tn_status st = tn_generate_ids(l->chat, ids, n, &p, on_token, &t, &res, &l->err);
  return st == TN_OK && t.n != tokens ? TN_E_INTERNAL : st;
}

/* --- by hand -------------------------------------------------------------------------------------------------------
 */

enum { MAX_IO = 64 };

typedef struct hand {
  int64_t *ids, *pos, *mask;
  float *past[MAX_IO]; /* by input */
  int64_t dims[MAX_IO][TN_MAX_RANK];
  int64_t length;
} hand;

static const char *present_of(const char *past, char *buf, size_t n) {
  snprintf(buf, n, "present%s", past + strlen("past_key_values"));
  return buf;
}

static bool is_past(const char *name) { return strncmp(name, "past_key_values", 15) == 0; }

/* One run of count ids over h's past, which grows; the last row's largest logit. */
static tn_status run_by_hand(tn_model *m, hand *h, const int32_t *ids, int64_t count, int32_t *best, tn_error *err) {
  tn_tensor t[MAX_IO], out[MAX_IO];
  const tn_tensor *in[MAX_IO];
  const uint32_t n_in = tn_model_n_inputs(m), n_out = tn_model_n_outputs(m);
  tn_session *s = NULL;
  if (n_in > MAX_IO || n_out > MAX_IO) return TN_E_LIMIT;
  for (int64_t i = 0; i < count; i++) {
    h->ids[i] = ids[i];
    h->pos[i] = h->length + i;
  }
  for (int64_t i = 0; i < h->length + count; i++) h->mask[i] = 1;
  for (uint32_t i = 0; i < n_in; i++) {
    const tn_io_info *io = tn_model_input(m, i);
    const bool mask = strcmp(io->name, "attention_mask") == 0;
    const int64_t *v = strcmp(io->name, "input_ids") == 0 ? h->ids : mask ? h->mask : h->pos;
    t[i] = (tn_tensor){.h = {sizeof t[i], 1, 0}, .name = io->name, .dtype = io->dtype, .rank = (uint32_t)io->rank};
    in[i] = &t[i];
    if (is_past(io->name)) {
      for (uint32_t a = 0; a < t[i].rank; a++) t[i].dims[a] = io->dims[a] < 0 ? (a ? h->length : 1) : io->dims[a];
      t[i].bytes = sizeof(float);
      for (uint32_t a = 0; a < t[i].rank; a++) t[i].bytes *= (uint64_t)t[i].dims[a];
      t[i].data = h->past[i];
      continue;
    }
    t[i].dims[0] = 1;
    t[i].dims[1] = mask ? h->length + count : count;
    t[i].data = v;
    t[i].bytes = (uint64_t)t[i].dims[1] * sizeof *v;
  }
  for (uint32_t i = 0; i < n_out; i++)
    out[i] = (tn_tensor){.h = {sizeof out[i], 1, 0}, .name = tn_model_output(m, i)->name};
  tn_status st = tn_session_create(m, &s, err);
  for (uint32_t o = 0; o < n_out; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  if (st == TN_OK) st = tn_session_run(s, TN_PHASE_ANY, in, n_in, out, n_out, err);
  for (uint32_t o = 0; st == TN_OK && o < n_out; o++) {
    if (strcmp(out[o].name, "logits") == 0) {
      const int64_t v = out[o].dims[2];
      const float *row = (const float *)out[o].data + (out[o].dims[1] - 1) * v;
      *best = 0;
      for (int64_t k = 1; k < v; k++)
        if (row[k] > row[*best]) *best = (int32_t)k;
    }
    for (uint32_t i = 0; i < n_in; i++) {
      char name[128];
      if (!is_past(tn_model_input(m, i)->name) ||
          strcmp(present_of(tn_model_input(m, i)->name, name, sizeof name), out[o].name) != 0)
        continue;
      free(h->past[i]);
      h->past[i] = malloc(out[o].bytes + 1);
      memcpy(h->past[i], out[o].data, out[o].bytes);
    }
  }
  tn_session_destroy(s);
  h->length += count;
  return st;
}

tn_status lab_expect(tn_model *m, tn_model *other, const int32_t *ids, size_t n, uint32_t tokens, uint32_t at,
                     int32_t *out, tn_error *err) {
  hand h = {.ids = calloc(1024, 8), .pos = calloc(1024, 8), .mask = calloc(1024, 8)};
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < MAX_IO; i++) h.past[i] = calloc(1, 4);
  for (uint32_t k = 0; st == TN_OK && k < tokens; k++)
    st = run_by_hand(k < at ? m : other, &h, k ? &out[k - 1] : ids, k ? 1 : (int64_t)n, &out[k], err);
  for (uint32_t i = 0; i < MAX_IO; i++) free(h.past[i]);
  free(h.ids);
  free(h.pos);
  free(h.mask);
  return st;
}

bool has_avx2(void) {
  const char *dir = getenv("TENON_TEST_AVX2");
  bool ok = dir && *dir;
#if defined(__x86_64__)
  ok = ok && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  ok = false;
#endif
  if (!ok) printf("skipped: no cpu-avx2-lut or no AVX2 here ... ");
  return ok;
}

bool has_npu(void) {
  const char *dir = getenv("TENON_TEST_NPU");
  if (!dir || !*dir) printf("skipped: no npu-int8-sim here ... ");
  return dir && *dir;
}
