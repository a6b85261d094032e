/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/long_text.h"

#include "runtime/base/base.h"
#include "runtime/session/feed.h"
#include "runtime/session/keep.h"

/* First row of the tables that the model chooses for a context of `total` positions. */
static tn_status first_row_at(tn_session *s, int64_t total, int64_t *row, tn_error *err) {
  const tni_graph *g = s->model->graph;
  const tni_value *v = tni_graph_value(g, g->tables);
  tn_status st = tni_feed_bind(s, s->keep->fed, 1, total, 1, 1, err);
  if (st != TN_OK) return st;
  st = tni_ex_eval(g->exprs, v->elems[0], s->dims, tni_ex_n_symbols(g->exprs), row);
  return st == TN_OK ? TN_OK : tni_fail(err, st, v->pub.name, "the inputs do not tell which rotary tables are read");
}

/* It changes once: from 0 to the rows that come first. */
tn_status tni_long_find(tn_session *s, tn_error *err) {
  const tni_graph *g = s->model->graph;
  tni_long *t = &s->keep->longer;
  int64_t low = 1, high = s->keep->limit, row;
  t->limit = INT64_MAX;
  if (g->tables == TN_NONE || !tni_step_is_read(g, g->tables)) return TN_OK;
  tn_status st = first_row_at(s, low, &t->first[0], err);
  if (st == TN_OK) st = first_row_at(s, high, &t->first[1], err);
  if (st != TN_OK || t->first[0] == t->first[1]) return st;
  while (st == TN_OK && high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    st = first_row_at(s, middle, &row, err);
    *(row == t->first[0] ? &low : &high) = middle;
  }
  t->limit = low;
  t->now = t->first[0];
  s->tables = &t->now;
  return st;
}

static int64_t row_for(const tni_long *t, int64_t text) { return t->first[text > t->limit]; }

void tni_long_text(tn_session *s, int64_t n) {
  s = tni_session_now(s);
  if (s->keep) s->keep->longer.text = n;
}

bool tni_long_serves(const tn_session *s, int64_t n) {
  s = tni_session_now(s);
  const tni_keep *k = s->keep;
  return !k || !s->tables || !k->length || k->longer.rows == row_for(&k->longer, n);
}

int64_t tni_long_limit(const tn_session *s) {
  s = tni_session_now(s);
  return s->keep && s->tables ? s->keep->longer.limit : INT64_MAX;
}

/* What was written is another number, at dims that may be the same. */
static void forget_plans(tn_session *s) {
  s->keep->exec = NULL;
  for (uint32_t i = 0; i < s->model->n_execs; i++) {
    s->execs[i].ready = false;
    for (uint32_t k = 0; k < s->execs[i].n_also; k++) s->execs[i].also[k]->ready = false;
  }
}

void tni_long_begin(tn_session *s, int64_t n) {
  tni_keep *k = s->keep;
  tni_long *t = &k->longer;
  if (!s->tables) return;
  const int64_t end = k->length + n, row = row_for(t, t->text > end ? t->text : end);
  if (k->length && row != t->rows && !t->warned) {
    t->warned = true;
    tni_log_line(&s->model->rt->log, TN_LOG_WARN,
                 "'%s' turns keys otherwise in texts of more than %lld positions, and what is in the caches is of a "
                 "text on the other side of that: its tokens have to be run again from position 0",
                 s->model->name, (long long)t->limit);
  }
  if (row != t->now) forget_plans(s);
  t->now = row;
}

void tni_long_ran(tn_session *s) { s->keep->longer.rows = s->keep->longer.now; }

void tni_long_share(tn_session *dst, const tn_session *src) { dst->keep->longer.rows = src->keep->longer.rows; }

void tni_long_loaded(tn_session *s) { s->keep->longer.rows = row_for(&s->keep->longer, s->keep->length); }
