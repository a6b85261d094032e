/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { TOKENS = 16 };

struct writer {
  tn_runtime *rt;
  tn_lm *lm;
  tn_chat *chat;
  pthread_t thread;
  atomic_int rounds, wrong;
  atomic_bool stop;
  int32_t first[TOKENS], now[TOKENS];
  int n;
};

static int keep(void *user, int32_t id, const char *text, size_t n) {
  writer *w = user;
  (void)text, (void)n;
  if (w->n < TOKENS) w->now[w->n] = id;
  w->n++;
  return 0;
}

static bool write_round(writer *w, tn_error *err) {
  static const char prompt[] = "In the beginning";
  tn_gen_params p;
  tn_gen_params_init(&p);
  p.max_tokens = TOKENS;
  p.temperature = 0;
  p.flags = TN_GEN_IGNORE_EOS;
  tn_chat_reset(w->chat);
  w->n = 0;
  return tn_generate(w->chat, prompt, sizeof prompt - 1, &p, keep, w, NULL, err) == TN_OK && w->n == TOKENS;
}

static void *write_text(void *arg) {
  writer *w = arg;
  while (!atomic_load(&w->stop)) {
    tn_error err;
    tn_error_init(&err);
    const bool ok = write_round(w, &err) && memcmp(w->now, w->first, sizeof w->now) == 0;
    atomic_fetch_add(&w->wrong, !ok);
    atomic_fetch_add(&w->rounds, 1);
  }
  return NULL;
}

static void drop(writer *w) {
  tn_chat_destroy(w->chat);
  tn_lm_destroy(w->lm);
  tn_runtime_destroy(w->rt);
  free(w);
}

writer *writer_start(const char *model, tn_error *err) {
  writer *w = calloc(1, sizeof *w);
  tn_runtime_opts o = {.h = {sizeof o, 1, 0}, .profile = "host", .threads = 1, .flags = TN_RT_NO_PROBE};
  const char *configs = getenv("TENON_FAULT_PROFILES");
  if (!w) return NULL;
  if (configs) {
    o.profile_dirs = &configs;
    o.n_profile_dirs = 1;
  }
  tn_lm_opts lo = {.h = {sizeof lo, 1, 0}, .max_seq = 64};
  bool ok = tn_runtime_create(&o, &w->rt, err) == TN_OK && tn_lm_load(w->rt, model, &lo, &w->lm, err) == TN_OK &&
            tn_chat_create(w->lm, &w->chat, err) == TN_OK && write_round(w, err);
  memcpy(w->first, w->now, sizeof w->first);
  ok = ok && pthread_create(&w->thread, NULL, write_text, w) == 0;
  if (ok) return w;
  drop(w);
  return NULL;
}

void writer_count(writer *w, int *rounds, int *wrong) {
  *rounds = atomic_load(&w->rounds);
  *wrong = atomic_load(&w->wrong);
}

void writer_stop(writer *w, int *rounds, int *wrong) {
  atomic_store(&w->stop, true);
  pthread_join(w->thread, NULL);
  writer_count(w, rounds, wrong);
  drop(w);
}
