/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/base.h"

static void on_token(void *user, int32_t id, const char *text, size_t n) {
  srv_choice *c = user;
  srv_exchange *x = c->of;
  pthread_mutex_lock(&x->lock);
  if (c->log) {
    srv_log_add(c->log, id);
    x->no_memory = x->no_memory || c->log->no_memory;
  }
  if (!x->first_ns) x->first_ns = tni_now_ns();
  if (n > c->cap - c->n) {
    const size_t cap = (c->n + n) * 2 + 64;
    char *grown = realloc(c->text, cap);
    x->no_memory = x->no_memory || !grown;
    if (grown) {
      c->text = grown;
      c->cap = cap;
    }
  }
  if (n && n <= c->cap - c->n) {
    memcpy(c->text + c->n, text, n);
    c->n += n;
    pthread_cond_signal(&x->news);
  }
  pthread_mutex_unlock(&x->lock);
}

static void on_done(void *user, tn_status st, const tn_error *err) {
  srv_choice *c = user;
  srv_exchange *x = c->of;
  pthread_mutex_lock(&x->lock);
  c->st = st;
  tni_error_give(&c->err.error, err);
  c->ended = true;
  x->open--;
  pthread_cond_signal(&x->news);
  pthread_mutex_unlock(&x->lock);
}

bool srv_exchange_init(srv_exchange *x, slots *s, uint32_t n) {
  pthread_condattr_t attr;
  *x = (srv_exchange){.slots = s, .n = n, .choice = calloc(n, sizeof *x->choice)};
  if (!x->choice) return false;
  pthread_mutex_init(&x->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&x->news, &attr);
  pthread_condattr_destroy(&attr);
  for (uint32_t i = 0; i < n; i++) {
    srv_choice *c = &x->choice[i];
    c->of = x;
    tn_long_error_init(&c->err);
    c->job.token = on_token;
    c->job.done = on_done;
    c->job.user = c;
  }
  return true;
}

void srv_exchange_cancel(srv_exchange *x) {
  for (uint32_t i = 0; i < x->added; i++) slots_cancel(x->slots, &x->choice[i].job);
}

void srv_exchange_finish(srv_exchange *x) {
  if (!x->choice) return;
  srv_exchange_cancel(x);
  pthread_mutex_lock(&x->lock);
  while (x->open) pthread_cond_wait(&x->news, &x->lock);
  pthread_mutex_unlock(&x->lock);
  for (uint32_t i = 0; i < x->n; i++) {
    free(x->choice[i].text);
    srv_log_destroy(x->choice[i].log);
  }
  free(x->choice);
  x->choice = NULL;
  pthread_cond_destroy(&x->news);
  pthread_mutex_destroy(&x->lock);
}

bool srv_exchange_start(srv_exchange *x) {
  for (uint32_t i = 0; i < x->n; i++) {
    pthread_mutex_lock(&x->lock);
    x->open++;
    pthread_mutex_unlock(&x->lock);
    if (slots_add(x->slots, &x->choice[i].job)) {
      x->added++;
      continue;
    }
    pthread_mutex_lock(&x->lock);
    x->open--;
    pthread_mutex_unlock(&x->lock);
    srv_exchange_cancel(x);
    return false;
  }
  return true;
}

static bool has_news(const srv_exchange *x) {
  for (uint32_t i = 0; i < x->n; i++) {
    const srv_choice *c = &x->choice[i];
    if (c->taken < c->n || (c->ended && !c->told)) return true;
  }
  return false;
}

bool srv_exchange_wait(srv_exchange *x, int ms) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += (long)(ms % 1000) * 1000000;
  end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  pthread_mutex_lock(&x->lock);
  bool news;
  while (!(news = has_news(x)) && pthread_cond_timedwait(&x->news, &x->lock, &end) == 0) {
  }
  pthread_mutex_unlock(&x->lock);
  return news;
}

bool srv_exchange_take(srv_exchange *x, uint32_t i, char **text, size_t *n, bool *ended) {
  srv_choice *c = &x->choice[i];
  *text = NULL;
  pthread_mutex_lock(&x->lock);
  *n = c->n - c->taken;
  if (*n && (*text = malloc(*n + 1))) {
    memcpy(*text, c->text + c->taken, *n);
    (*text)[*n] = 0;
  }
  x->no_memory = x->no_memory || (*n && !*text);
  c->taken = c->n;
  *ended = c->ended && !c->told;
  c->told = c->ended;
  pthread_mutex_unlock(&x->lock);
  return *text || *ended;
}

bool srv_exchange_ended(srv_exchange *x) {
  pthread_mutex_lock(&x->lock);
  bool all = true;
  for (uint32_t i = 0; i < x->n; i++) all = all && x->choice[i].told;
  pthread_mutex_unlock(&x->lock);
  return all;
}

json_t *srv_exchange_log(srv_exchange *x, uint32_t i, const tn_lm *lm, bool chat) {
  srv_log *l = x->choice[i].log;
  size_t n;
  if (!l) return NULL;
  pthread_mutex_lock(&x->lock); /* the thread that generates waits for it: copied, not written */
  srv_log_token *v = srv_log_take(l, &n);
  x->no_memory = x->no_memory || l->no_memory;
  pthread_mutex_unlock(&x->lock);
  json_t *j = v ? srv_log_json(l, v, n, lm, chat) : NULL;
  free(v);
  return j;
}
