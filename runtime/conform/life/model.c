/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/life/model.h"
#include "runtime/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "runtime/llm/llm.h"

enum { TOKENS = 8, MAX_TEXT = 16384 };

/* Ids that one load gave. */
typedef struct heard {
  int32_t id[TOKENS];
  uint32_t n;
} heard;

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  heard *h = user;
  (void)text, (void)n;
  if (h->n < TOKENS) h->id[h->n++] = id;
  return 0;
}

/* A profile with this plugin before the host, and the calibration that lies with the model; false where it does not
 * fit. */
static bool write_model_profile(const tni_cf_subject *s, char *text, size_t size) {
  int n = snprintf(text, size, "plugins:\n  - name: %s\n    options: {", s->name);
  for (uint32_t i = 0; i < s->n_options && n > 0 && (size_t)n < size; i++) {
    const size_t key = strcspn(s->options[i], "=");
    n += snprintf(text + n, size - (size_t)n, "%s%.*s: %s", i ? ", " : "", (int)key, s->options[i],
                  s->options[i] + key + 1);
  }
  if (n > 0 && (size_t)n < size) n += snprintf(text + n, size - (size_t)n, "}\nchecked: true\nthreads: 2\n");
  return n > 0 && (size_t)n < size;
}

/* Only the plugin's tasks are in the report, not the host's. */
bool tni_cf_judge_session(tni_cf *cf, tn_session *s, bool each) {
  char *text = NULL;
  tn_error err;
  size_t i;
  json_t *t;
  double worst = 0;
  tni_error_init(&err);
  if (tn_session_capture_report(s, &text, &err) != TN_OK) return tni_cf_fail(cf, "%s", err.message), true;
  json_t *j = json_loads(text, 0, NULL), *tasks = json_object_get(j, "tasks");
  tn_free(text);
  json_array_foreach(tasks, i, t) {
    const double ratio = json_real_value(json_object_get(t, "worst_ratio"));
    const char *name = json_string_value(json_object_get(t, "task"));
    if (!(ratio <= 1))
      tni_cf_fail(cf, "'%s' is %.4g times its bound off: at most %.4g where the largest is %.4g", name, ratio,
                  json_real_value(json_object_get(t, "max_diff")),
                  json_real_value(json_object_get(t, "max_reference")));
    else if (each)
      tni_cf_note(cf, "'%s': %.3g of its bound", name, ratio);
    if (ratio > worst) worst = ratio;
  }
  const size_t n = json_array_size(tasks);
  if (n && !each) tni_cf_note(cf, "%zu tasks, the worst at %.3g of its bound", n, worst);
  json_decref(j);
  return n > 0;
}

/* Everything that it claims of the model is lowered, packed, bound and run: a prompt and a few tokens, tasks in an
 * order drawn by seed (0: the planned one), canaries after all memory. Every task of the plugin is computed once more
 * from the same inputs by the format reference, and judged by the bound of the declared numerics. */
static bool text_generate(tni_cf *cf, tn_runtime *rt, uint64_t seed, heard *h) {
  static const char prompt[] = "In the beginning";
  tn_error err;
  tn_lm *lm = NULL;
  tn_chat *chat = NULL;
  tn_gen_params p;
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  tni_error_init(&err);
  const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .model_flags = TN_MODEL_CAPTURE, .max_seq = 64, .order_seed = seed};
  tn_gen_params_init(&p);
  p.max_tokens = TOKENS;
  p.temperature = 0;
  p.flags = TN_GEN_IGNORE_EOS;
  h->n = 0;
  tn_status st = tn_lm_load(rt, cf->subject->model, &o, &lm, &err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, &err);
  if (st == TN_OK) st = tn_generate(chat, prompt, sizeof prompt - 1, &p, on_token, h, &res, &err);
  if (st != TN_OK)
    tni_cf_fail(cf, "%s, tasks in %s order: %s: %s", cf->subject->model, seed ? "a random" : "the planned", err.where,
                err.message);
  else if (!tni_cf_judge_session(cf, chat->session, false))
    tni_cf_skip(cf, "it takes nothing of %s", cf->subject->model);
  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  return st == TN_OK;
}

static tn_status open_runtime(const tni_cf_subject *s, const char *file, tn_runtime **rt, tn_error *err) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", s->path);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  const char *const dirs[] = {folder};
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = file,
                             .plugin_dirs = dirs,
                             .n_plugin_dirs = 1,
                             .cache_dir = s->cache_dir,
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  return tn_runtime_create(&o, rt, err);
}

void tni_cf_with_runtime(tni_cf *cf, void (*fn)(tni_cf *cf, tn_runtime *rt)) {
  char *text = malloc(MAX_TEXT), file[] = "/tmp/tenon-conform-XXXXXX.yaml";
  const int fd = text && write_model_profile(cf->subject, text, MAX_TEXT) ? mkstemps(file, 5) : -1;
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  tn_error err;
  tn_runtime *rt = NULL;
  tni_error_init(&err);
  if (!f || fputs(text, f) < 0 || fclose(f))
    tni_cf_fail(cf, "%s cannot be written", file);
  else if (open_runtime(cf->subject, file, &rt, &err) != TN_OK)
    tni_cf_fail(cf, "%s: %s", err.where, err.message);
  else
    fn(cf, rt);
  tn_runtime_destroy(rt);
  if (fd >= 0) unlink(file);
  free(text);
}

static void task_orders(tni_cf *cf, tn_runtime *rt) {
  heard planned, other;
  if (!text_generate(cf, rt, 0, &planned) || cf->verdict != TNI_CF_PASS) return;
  for (uint64_t i = 1; i <= (cf->subject->thorough ? 10 : 2) && cf->verdict == TNI_CF_PASS; i++)
    if (text_generate(cf, rt, cf->seed % 1000000 + i, &other) &&
        (other.n != planned.n || memcmp(other.id, planned.id, planned.n * sizeof *planned.id)))
      tni_cf_fail(cf, "tasks in another order that their dependencies allow generate other tokens");
  tni_cf_note(cf, "%u tokens, first %d", planned.n, planned.n ? planned.id[0] : -1);
}

static void check_model(tni_cf *cf, const void *arg) {
  (void)arg;
  tni_cf_with_runtime(cf, task_orders);
}

void tni_cf_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  if (!l->subject->model || !strcmp(l->subject->path, "host")) return;
  add(ctx, &(tni_cf_case){"honesty/model", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, check_model, NULL, 300000});
}
